//! The stabilised video, managed and not.

use std::path::Path;

use anyhow::{Result, bail};
use fusee_host::judge::Watch;
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_manifest::Profile;

use video_judge::{is_in_time, judge};

use crate::demo::judged;

/// The name of the check.
pub const CHECK: &str =
    "stabilised video: every frame is the host's, and none is later than is proved; without management some are";
const MANIFEST: &str = "userland/vision/stabilise.toml";

/// Runs it twice, exact, and once without management. Returns the faults.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let image = workspace.image(Path::new(MANIFEST), Profile::Det, false)?;
    let once = || system::run(workspace, &image, &RunOptions::quiet(600));
    let (run, again) = (once()?, once()?);
    let mut problems = judged(workspace, &image, &run, judge)?;
    if run.trace.ok().map(|trace| trace.records) != again.trace.ok().map(|trace| trace.records) {
        problems.push("a second run is another one".into());
    }
    let image = workspace.image(Path::new(MANIFEST), Profile::Det, true)?;
    let Ok(trace) = system::run(workspace, &image, &RunOptions::quiet(600))?.trace else {
        bail!("the run without management left no trace")
    };
    if is_in_time(&image.manifest.system, &Watch::of(&trace, &image.manifest.system)) {
        problems.push("it is in time without management, too".into());
    }
    Ok(problems)
}

//! The proposals of `cargo xtask advise` for systems of this repository are run: nothing is late.

use std::path::Path;

use anyhow::{Context, Result};
use fusee_advise::search::search;
use fusee_host::judge::Watch;
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_host::turns::Turns;
use fusee_manifest::{Manifest, Profile, Variant};

use crate::demo::{Judge, judged};

/// The name of the check of the demo and of the stabilised video.
pub const CHECK: &str = "what `advise` proposes for the demo and for stabilised video runs, and misses nothing";

/// The name of the check of the car.
pub const CAR: &str = "zcu102: what `advise` proposes for the car runs, and misses nothing";

/// Arrangements to try: as many as the command tries.
const TRIES: usize = 300;

/// Records of a run, at least: a system that stands still leaves fewer.
const RECORDS: usize = 5_000;

/// Nanoseconds that the car drives.
const DRIVEN: u64 = 4_000_000_000;

/// Runs the best other arrangements of the demo and of the stabilised video to their ends. Returns the faults.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = proposal(workspace, demo_judge::MANIFEST, Some(demo_judge::judge))?;
    problems.extend(proposal(workspace, "userland/vision/stabilise.toml", Some(video_judge::judge))?);
    Ok(problems)
}

/// Runs the best other arrangement of the car for [`DRIVEN`]. Returns the faults.
pub fn check_car(workspace: &Workspace) -> Result<Vec<String>> {
    proposal(workspace, "userland/car/car.toml", None)
}

/// Runs the first admitted arrangement that is not the present one, with the system's own programs: to its end if there is a judge, else for [`DRIVEN`].
/// Returns the faults.
fn proposal(workspace: &Workspace, name: &str, judge: Option<Judge>) -> Result<Vec<String>> {
    let path = workspace.root.join(name);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let variant = Variant { folder: path.parent().map(Path::to_owned), ..Variant::default() };
    let search = search(&path, &text, &variant, TRIES)?;
    let proposed = search.tried.iter().find(|tried| tried.verdict.is_admitted && !tried.is_present());
    let proposed = proposed.with_context(|| format!("{name}: no other arrangement is admitted"))?;
    let words = format!("{name}, {} under {}", proposed.arrangement.words(), proposed.arrangement.policies());
    let mut manifest = Manifest::parse_variant(&path, &proposed.text, &variant)?;
    // The image of the present arrangement has another file.
    manifest.system.name += "-proposed";
    let image = workspace.image_of_manifest(manifest, Profile::Det, false)?;
    let system = &image.manifest.system;
    let until = judge.is_none().then_some(DRIVEN);
    let quantum = Turns::of(system, None).quantum;
    let run = system::run(workspace, &image, &RunOptions { until, quantum, ..RunOptions::quiet(600) })?;
    let mut problems = match judge {
        Some(judge) => judged(workspace, &image, &run, judge)?,
        None => Vec::new(),
    };
    let trace = run.trace?;
    let verdict = Watch::of(&trace, system).verdict(image.manifest.expectations.as_ref());
    problems.extend(verdict.misses);
    if trace.records.len() < RECORDS {
        problems.push(format!("the trace has {} records only", trace.records.len()));
    }
    Ok(problems.into_iter().map(|problem| format!("{words}: {problem}")).collect())
}

//! What only the stabilised video does after its run: compares each frame with the host's.
//!
//! The host computes the same by plain functions, one after the other (`vision::pipeline`). So what a test of the package `vision` finds out about those, how well they know where the camera was and how much shake they leave, holds of these frames.

use std::cell::RefCell;
use std::path::Path;

use anyhow::{Result, bail};
use fusee_manifest::{Profile, Resolved, admission};
use fusee_sched_analysis::Overheads;
use vision::pipeline::{Pipeline, render};
use vision::smooth::DELAY;
use vision::{COLOUR_BYTES, digest};

use crate::judge::Watch;
use crate::report;
use crate::system::{self, Image, Run, RunOptions, Workspace};

/// The name of a check, and what it does.
pub const CHECK: &str =
    "stabilised video: every frame is the host's, and none is later than is proved; without management some are";
const MANIFEST: &str = "userland/vision/stabilise.toml";
/// Its name in its manifest.
const NAME: &str = "stabilise";

/// Looks at the frames that the display has logged; `true` if they are as they should be. Other systems are left alone. `say` prints a line.
pub fn after_run(workspace: &Workspace, image: &Image, run: &Run, say: &dyn Fn(&str)) -> Result<bool> {
    let system = &image.manifest.system;
    if system.name != NAME || !workspace.project.is(&workspace.fusee) {
        return Ok(true);
    }
    let Ok(trace) = &run.trace else { bail!("the run left no trace") };
    let display = system.tasks.iter().position(|task| task.name == "display").map_or(0, |index| index as u16 + 1);
    let logged = trace.logs().filter(|(thread, ..)| *thread == display);
    let seen: Vec<(u32, u32)> = logged.map(|(_, frame, digest)| (frame, digest as u32)).collect();
    let wanted = frames(parameter(system, "display", "frames") as usize);
    let equal = seen.iter().zip(&wanted).filter(|(seen, wanted)| seen == wanted).count();
    say(&format!("stabilised frames equal to the host's: {equal} of {}", wanted.len()));
    let watch = Watch::of(trace, system);
    let is_in_time = is_in_time(system, &watch);
    let missed = watch.verdict(image.manifest.expectations.as_ref()).misses.len();
    let is_whole = equal == wanted.len() && seen.len() == wanted.len();
    if image.unmanaged {
        return Ok(is_whole);
    }
    if is_whole && is_in_time && missed == 0 {
        say(&report::green("The video is right: every frame, and each in time."));
    }
    Ok(is_whole && is_in_time && missed == 0)
}

/// Whether no frame is later than is proved.
fn is_in_time(system: &Resolved, watch: &Watch<'_>) -> bool {
    let longest = watch.latencies().of_graphs().flatten().max().copied().unwrap_or(0);
    let graphs = admission::latencies(system, &Overheads::default());
    let bound = graphs.first().and_then(|graph| Some(graph.longest.as_ref()?.latency));
    bound.is_some_and(|bound| longest <= bound)
}

/// Numbers and digests of the frames that are shown once so many were read.
fn frames(read: usize) -> Vec<(u32, u32)> {
    let mut pipeline = Box::new(Pipeline::new());
    let mut colour = Box::new([0; COLOUR_BYTES]);
    let mut shown = Vec::with_capacity(read.saturating_sub(DELAY));
    for frame in 0..read as u32 {
        render(frame, &mut colour);
        let step = pipeline.step(&colour);
        shown.extend(step.shown.map(|shown| (shown.frame, digest(&shown.pixels[..]))));
    }
    shown
}

fn parameter(system: &Resolved, task: &str, name: &str) -> u64 {
    let task = system.tasks.iter().find(|one| one.name == task);
    task.and_then(|task| task.environment.iter().find(|entry| entry.name == name)).map_or(0, |entry| entry.address)
}

/// Runs it twice, exact, and once without management; what is not as it should be.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let image = workspace.image(Path::new(MANIFEST), Profile::Det, false)?;
    let once = || system::run(workspace, &image, &RunOptions::quiet(600));
    let (run, again) = (once()?, once()?);
    let said = RefCell::new(Vec::new());
    let is_right = after_run(workspace, &image, &run, &|line| said.borrow_mut().push(line.to_owned()))?;
    let mut problems = Vec::new();
    if !is_right || run.outcome.code != Some(0) {
        problems.push(format!("ended with {:?}, console:\n{}", run.outcome.code, run.outcome.console));
        problems.append(&mut said.borrow_mut());
    }
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

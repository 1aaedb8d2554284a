//! The check of the stabilised video after its run: compares each frame with the host's.
//!
//! The host computes the same by plain functions, one after the other (`vision::pipeline`). So the results of the tests of the package `vision`, how
//! well these functions know where the camera was and how much shake they leave, hold of these frames.

#![forbid(unsafe_code)]

use anyhow::Result;
use fusee_host::evidence::Evidence;
use fusee_host::judge::Watch;
use fusee_host::report;
use fusee_manifest::{Resolved, admission};
use fusee_sched_analysis::Overheads;
use vision::pipeline::{Pipeline, render};
use vision::smooth::DELAY;
use vision::{COLOUR_BYTES, digest};

/// Looks at the frames that the display has logged; `true` if they are as they should be. Other systems are left alone. `say` prints a line.
pub fn judge(run: &Evidence<'_>, say: &dyn Fn(&str)) -> Result<bool> {
    let (system, trace) = (&run.manifest.system, run.trace);
    let display = system.tasks.iter().position(|task| task.name == "display").map_or(0, |index| index as u16 + 1);
    let logged = trace.logs().filter(|(thread, ..)| *thread == display);
    let seen: Vec<(u32, u32)> = logged.map(|(_, frame, digest)| (frame, digest as u32)).collect();
    let wanted = frames(parameter(system, "display", "frames") as usize);
    let equal = seen.iter().zip(&wanted).filter(|(seen, wanted)| seen == wanted).count();
    say(&format!("stabilised frames equal to the host's: {equal} of {}", wanted.len()));
    let watch = Watch::of(trace, system);
    let is_in_time = is_in_time(system, &watch);
    let missed = watch.verdict(run.manifest.expectations.as_ref()).misses.len();
    let is_whole = equal == wanted.len() && seen.len() == wanted.len();
    if run.unmanaged {
        return Ok(is_whole);
    }
    if is_whole && is_in_time && missed == 0 {
        say(&report::green("The video is right: every frame, and each in time."));
    }
    Ok(is_whole && is_in_time && missed == 0)
}

/// Whether no frame is later than is proved.
pub fn is_in_time(system: &Resolved, watch: &Watch<'_>) -> bool {
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

//! The first seconds of the car: all of it is equal to the host's, twice.

use std::path::Path;

use anyhow::Result;
use fusee_abi::trace::Record;
use fusee_host::evidence::Evidence;
use fusee_host::judge::Watch;
use fusee_host::kernels::{self, KernelRan};
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_manifest::Profile;
use fusee_manifest::trace::Trace;
use lane_judge::replay::{self, Replay};

/// The name of the check.
pub const CHECK: &str = "zcu102: the car, its first pictures and commands";
const MANIFEST: &str = "userland/car/car.toml";
/// Nanoseconds: the car gains speed, and comes to the first bend.
const UNTIL: u64 = 8_000_000_000;
/// Nanoseconds before that of which both traces have all records: older ones are overwritten, by records that come after the end.
const KEPT: u64 = 1_000_000_000;

/// Runs it twice, exact. Returns the faults. The whole course, managed and not, is on the page `docs/car.md`.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let image = workspace.image(Path::new(MANIFEST), Profile::Det, false)?;
    let system = &image.manifest.system;
    let once = || system::run(workspace, &image, &RunOptions { until: Some(UNTIL), ..RunOptions::quiet(600) });
    let (run, again) = (once()?, once()?);
    let record = replay::Record::read(&Evidence::of(&workspace.project, &image, &run)?)?;
    let replay = Replay::of(&record);
    let mut problems = Vec::new();
    if !replay.is_equal() || replay.equal_senses != replay.commands {
        problems.push(format!("not equal to the host's: {replay:?}"));
    }
    let bound = lane_judge::bound(system)?;
    if !replay.is_complete(bound) || replay.to_wheels > bound {
        problems.push(format!(
            "late: {} lanes of {} pictures, {} ns of {bound} ns",
            replay.lanes, replay.pictures, replay.to_wheels
        ));
    }
    if record.result.worst > 0.25 || record.result.driven < 30.0 {
        problems.push(format!("the car has not kept its lane: {:?}", record.result));
    }
    problems.extend(kernels::of(system, &run.outcome)?.iter().filter_map(KernelRan::problem));
    let (trace, other) = (run.trace?, again.trace?);
    let misses = Watch::of(&trace, system).verdict(None).misses;
    if !misses.is_empty() {
        problems.push(format!("deadlines missed: {misses:?}"));
    }
    let kept = |trace: &Trace| -> Vec<Record> {
        trace.records.iter().filter(|record| (UNTIL - KEPT..UNTIL).contains(&record.time)).copied().collect()
    };
    let (kept, again) = (kept(&trace), kept(&other));
    if kept.len() < 10_000 || kept != again {
        problems.push(format!("a second run is another one: {} records, and {}", kept.len(), again.len()));
    }
    Ok(problems)
}

//! Conformance systems: QEMU, the simulator and the checked-in golden trace must tell the same story.
//!
//! Compared are the canonical traces of scripted tasks, from the synchronous release on: what each cell of the
//! 1 ms grid contains. What drivers and servers without a script do in between differs by nature.

use std::path::Path;

use anyhow::{Context, Result};
use fusee_manifest::trace::{self, Trace};
use fusee_manifest::{Profile, Resolved};

use crate::build::Programs;
use crate::system::{self, RunOptions, Workspace};
use crate::tests::difference;

/// Where conformance systems are; each has its golden trace beside it.
pub const FOLDER: &str = "tests/conformance";
/// Virtual nanoseconds after which a simulation is given up.
const LIMIT: u64 = 10_000_000_000;
/// Half a cell: events up to here before the first release belong to its cell.
const HALF_CELL: u64 = 500_000;

/// Runs one system in QEMU and in the simulator; what differs.
pub fn check(workspace: &Workspace, path: &Path, programs: &Programs, bless: bool) -> Result<Vec<String>> {
    let manifest = workspace.manifest(path)?;
    let image = workspace.image_of(manifest, programs.clone(), Profile::Det, false)?;
    let options = RunOptions { echo: false, seconds: 60, quantum: 10, arguments: Vec::new() };
    let run = system::run(workspace, &image, &options)?;
    let system = &image.manifest.system;
    let mut problems = Vec::new();
    let emulated = canonical(&run.trace.context("the run left no trace")?, system, "QEMU", &mut problems);
    let simulated = fusee_simulator::simulate(&image.manifest, None, LIMIT)?;
    let simulated = canonical(&Trace::from_records(simulated.records), system, "the simulator", &mut problems);
    if run.outcome.code != Some(0) {
        problems.push(format!("QEMU ended with {:?}", run.outcome.code));
    }
    if let Some(difference) = difference(&simulated, &emulated) {
        problems.push(format!("QEMU (+) and simulator (-) differ:\n{difference}"));
    }
    let golden = path.with_extension("trace");
    if bless && problems.is_empty() {
        std::fs::write(&golden, &emulated)?;
    }
    // A golden trace that is not there yet differs in its first line.
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    if let Some(difference) = difference(&expected, &emulated) {
        problems.push(format!("QEMU (+) and {} (-) differ:\n{difference}", golden.display()));
    }
    Ok(problems)
}

fn canonical(trace: &Trace, system: &Resolved, who: &str, problems: &mut Vec<String>) -> String {
    let scripted = |thread: u16| {
        let task = usize::from(thread).checked_sub(1).and_then(|index| system.tasks.get(index));
        task.is_some_and(|task| !task.script.is_empty())
    };
    let start = system.start.saturating_sub(HALF_CELL);
    let kept = trace.records.iter().filter(|record| record.time >= start && scripted(record.thread));
    match trace::canonical(&Trace::from_records(kept.copied().collect()), system) {
        Ok(text) => text,
        Err(off) => {
            let what = trace::describe(&off.record, system);
            problems.push(format!("{who}: off the grid by {} ns at {} ns: {what}", off.by, off.record.time));
            String::new()
        }
    }
}

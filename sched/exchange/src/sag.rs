//! Job sets of the schedule-abstraction graph: a table of comma-separated values for each cluster, with a row for each job.
//!
//! The jobs are those until the releases repeat: released before the longest phase and the least common multiple of the periods. Times are
//! nanoseconds from the start. Jobs have no jitter: the earliest and the latest release are one instant. The smaller priority is first; under EDF it is the
//! deadline, under FL the priority point, moved so that none is negative.
//!
//! The tool takes jobs for such that are never preempted, so its answer is one on another system, unless the jobs are short.
//!
//! # Source
//! The README of `schedule_abstraction-main`, and its parser, `include/io.hpp`.

use std::fmt::Write;

use crate::{Cluster, Export, Note, Policy, Release, System, Task, Unable, waits};

/// The largest number of jobs of a file.
pub const MOST_JOBS: usize = 100_000;

/// The first row, which the tool skips.
const HEADER: &str = "Task ID, Job ID, Arrival min, Arrival max, Cost min, Cost max, Deadline, Priority\n";

/// The files of `system`.
///
/// # Errors
/// [`Unable::TooManyJobs`], [`Unable::Empty`].
pub fn export(system: &System) -> Result<Export, Unable> {
    let mut export = Export::default();
    for cluster in system.clusters.iter().filter(|cluster| !cluster.tasks.is_empty()) {
        export.files.push((Some(cluster.name.clone()), text(cluster)?));
        export.notes.push(Note::Preemption { cluster: cluster.name.clone() });
        export.notes.push(Note::LeastExecution { cluster: cluster.name.clone() });
        export.notes.push(Note::Cpus { cluster: cluster.name.clone(), cpus: cluster.cpus });
        for task in &cluster.tasks {
            if task.release == Release::Sporadic {
                export.notes.push(Note::Sporadic { task: task.name.clone() });
            }
            export.notes.extend(waits(task));
        }
    }
    if export.files.is_empty() { Err(Unable::Empty) } else { Ok(export) }
}

fn text(cluster: &Cluster) -> Result<String, Unable> {
    let too_many = || Unable::TooManyJobs { cluster: cluster.name.clone(), most: MOST_JOBS };
    let mut repeat: u128 = 1;
    for task in &cluster.tasks {
        let period = u128::from(task.period);
        repeat = (repeat / greatest_common_divisor(repeat, period)).checked_mul(period).ok_or_else(too_many)?;
    }
    let phase = |task: &Task| match task.release {
        Release::Periodic { phase } => u128::from(phase),
        Release::Sporadic => 0,
    };
    let end = repeat.checked_add(cluster.tasks.iter().map(phase).max().unwrap_or(0)).ok_or_else(too_many)?;
    let offset = |task: &Task| {
        let share = task.expected - task.expected.div_ceil(u64::from(cluster.cpus.max(1)));
        i128::from(task.deadline) - if cluster.policy == Policy::Fl { i128::from(share) } else { 0 }
    };
    let earliest = cluster.tasks.iter().map(offset).min().unwrap_or(0).min(0);
    let mut text = String::from(HEADER);
    let mut count = 0;
    for (index, task) in cluster.tasks.iter().enumerate() {
        let mut release = phase(task);
        let mut job = 0;
        while release < end {
            (count, job) = (count + 1, job + 1);
            if count > MOST_JOBS {
                return Err(too_many());
            }
            let priority = match cluster.policy {
                Policy::Edf | Policy::Fl => release as i128 + offset(task) - earliest,
                Policy::Rm => task.period.into(),
                Policy::Dm => task.deadline.into(),
                Policy::Fp => task.priority.into(),
            };
            let (deadline, cost) = (release + u128::from(task.deadline), task.execution);
            let _ = writeln!(text, "{}, {job}, {release}, {release}, 0, {cost}, {deadline}, {priority}", index + 1);
            release += u128::from(task.period);
        }
    }
    Ok(text)
}

fn greatest_common_divisor(mut one: u128, mut other: u128) -> u128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

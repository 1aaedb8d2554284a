//! Models of MAST: a processor for each cluster of one CPU, and a transaction for each task.
//!
//! Times are nanoseconds. A larger number is a higher priority there. The model of a sporadic task is a bursty event of one arrival in each interval of a
//! period. A cluster of several CPUs has no model, since MAST has no global scheduling. FL on one CPU is EDF.
//!
//! # Source
//! Models that other programs write for `mast_analysis` 1.3 and later: `Regular_Processor` with a `Primary_Scheduler`, by `Fixed_Priority` or `EDF`.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::{Cluster, Export, Note, Policy, Release, System, Task, Unable, waits};

/// The model of `system`.
///
/// # Errors
/// [`Unable::Empty`].
pub fn export(system: &System) -> Result<Export, Unable> {
    let mut notes = Vec::new();
    let mut names = Names::default();
    let mut text = format!("-- {}: times in nanoseconds\n\n", system.name.replace('\n', " "));
    // The format wants a date; the model has none of its own.
    let _ = writeln!(
        text,
        "Model (\n  Model_Name => {},\n  Model_Date => 2000-01-01);",
        names.take("system", &system.name)
    );
    let mut is_empty = true;
    for cluster in &system.clusters {
        if cluster.cpus > 1 {
            notes.push(Note::Global { cluster: cluster.name.clone(), cpus: cluster.cpus });
            continue;
        }
        is_empty &= cluster.tasks.is_empty();
        write_cluster(&mut text, cluster, &mut names, &mut notes);
    }
    if is_empty {
        return Err(Unable::Empty);
    }
    Ok(Export { files: vec![(None, text)], notes })
}

fn write_cluster(text: &mut String, cluster: &Cluster, names: &mut Names, notes: &mut Vec<Note>) {
    let is_by_deadline = matches!(cluster.policy, Policy::Edf | Policy::Fl);
    let processor = names.take("cpu", &cluster.name);
    let scheduler = names.take("scheduler", &cluster.name);
    let policy = if is_by_deadline { "EDF" } else { "Fixed_Priority" };
    let _ = writeln!(text, "\nProcessing_Resource (\n  Type => Regular_Processor,\n  Name => {processor});");
    let _ = writeln!(
        text,
        "Scheduler (\n  Type => Primary_Scheduler,\n  Name => {scheduler},\n  Host => {processor},\n  \
         Policy => (Type => {policy}));"
    );
    let key = |task: &Task| match cluster.policy {
        Policy::Rm => task.period,
        Policy::Dm | Policy::Edf | Policy::Fl => task.deadline,
        Policy::Fp => task.priority.into(),
    };
    let levels: BTreeSet<u64> = cluster.tasks.iter().map(key).collect();
    for task in &cluster.tasks {
        // The number of levels that are not before its own.
        let priority = levels.range(key(task)..).count();
        let parameters = match is_by_deadline {
            true => format!("(Type => EDF_policy, Deadline => {}, Preassigned => No)", task.deadline),
            false => format!("(Type => Fixed_Priority_Policy, The_Priority => {priority}, Preassigned => No)"),
        };
        write_task(text, task, &scheduler, &parameters, names, notes);
    }
}

fn write_task(
    text: &mut String,
    task: &Task,
    scheduler: &str,
    parameters: &str,
    names: &mut Names,
    notes: &mut Vec<Note>,
) {
    let server = names.take("", &task.name);
    let operation = names.take("operation", &task.name);
    let [transaction, event, end] = ["transaction", "event", "end"].map(|kind| names.take(kind, &task.name));
    let (period, deadline) = (task.period, task.deadline);
    let event_type = match task.release {
        Release::Periodic { .. } => format!("(Type => Periodic, Name => {event}, Period => {period})"),
        Release::Sporadic => {
            format!("(Type => Bursty, Name => {event}, Bound_Interval => {period}, Max_Arrivals => 1)")
        }
    };
    let _ = writeln!(
        text,
        "\nScheduling_Server (\n  Type => Regular,\n  Name => {server},\n  Server_Sched_Parameters => {parameters},\n  \
         Scheduler => {scheduler});\n\
         Operation (\n  Type => Simple,\n  Name => {operation},\n  Worst_Case_Execution_Time => {});\n\
         Transaction (\n  Type => Regular,\n  Name => {transaction},\n  External_Events => ({event_type}),\n  \
         Internal_Events => (\n    (Type => Regular, Name => {end}, Timing_Requirements =>\n      \
         (Type => Hard_Global_Deadline, Deadline => {deadline}, Referenced_Event => {event}))),\n  \
         Event_Handlers => (\n    (Type => Activity, Input_Event => {event}, Output_Event => {end},\n      \
         Activity_Operation => {operation}, Activity_Server => {server})));",
        task.execution
    );
    if server != task.name {
        notes.push(Note::Name { task: task.name.clone(), written: server });
    }
    if let Release::Periodic { phase: 1.. } = task.release {
        notes.push(Note::Phase { task: task.name.clone() });
    }
    notes.extend(waits(task));
}

/// The identifiers of a model.
#[derive(Default)]
struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// An identifier for `name` that is not taken yet: letters, digits and single underscores. Case does not count.
    fn take(&mut self, kind: &str, name: &str) -> String {
        let plain = name.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '_' });
        let plain: String = plain.collect();
        let parts = [kind, &plain].into_iter().flat_map(|part| part.split('_')).filter(|part| !part.is_empty());
        let mut wanted = parts.collect::<Vec<_>>().join("_");
        if !wanted.starts_with(|first: char| first.is_ascii_alphabetic()) {
            wanted.insert_str(0, "t_");
        }
        let mut one = wanted.clone();
        let mut number = 1;
        while !self.taken.insert(one.to_ascii_lowercase()) {
            number += 1;
            one = format!("{wanted}_{number}");
        }
        one
    }
}

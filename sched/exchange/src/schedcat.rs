//! Task sets of SchedCAT: XML with a `task` for each task.
//!
//! `period`, `wcet` and `deadline` are numbers without a unit, nanoseconds here; `deadline` is there if it is not the period. `partition` is the number of
//! the cluster. Holds are `requirement`s of a resource, by number: as many writes, each so long. Tasks and resources have numbers, from 1
//! on; comments give the names.
//!
//! # Source
//! SchedCAT, `schedcat/model/serialize.py`.

use std::fmt::Write;

use crate::{Export, Note, Release, System, Task};

/// The file of `system`.
#[must_use]
pub fn export(system: &System) -> Export {
    let tasks = || system.clusters.iter().flat_map(|cluster| &cluster.tasks);
    let mut resources: Vec<&str> = Vec::new();
    for one in tasks().flat_map(|task| &task.uses) {
        if !resources.contains(&one.resource.as_str()) {
            resources.push(&one.resource);
        }
    }
    let mut text = String::from("<taskset>\n");
    let mut notes = Vec::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "  <!-- {}: times in nanoseconds -->", comment(&system.name));
    for (number, resource) in resources.iter().enumerate() {
        let _ = writeln!(text, "  <!-- resource {}: {} -->", number + 1, comment(resource));
    }
    let _ = writeln!(text, "  <properties count=\"{}\" />", tasks().count());
    let mut id = 0;
    for (partition, cluster) in system.clusters.iter().enumerate() {
        notes.push(Note::Policy { cluster: cluster.name.clone() });
        notes.push(Note::Cpus { cluster: cluster.name.clone(), cpus: cluster.cpus });
        for task in &cluster.tasks {
            id += 1;
            write_task(&mut text, id, partition, task, &resources);
            let name = || task.name.clone();
            if let Release::Periodic { phase: 1.. } = task.release {
                notes.push(Note::Phase { task: name() });
            }
            if task.suspends > 0 {
                notes.push(Note::Suspension { task: name(), span: task.suspends });
            }
        }
    }
    text += "</taskset>\n";
    Export { files: vec![(None, text)], notes }
}

fn write_task(text: &mut String, id: usize, partition: usize, task: &Task, resources: &[&str]) {
    let _ = writeln!(text, "  <!-- task {id}: {} -->", comment(&task.name));
    let _ = write!(text, "  <task id=\"{id}\" period=\"{}\" wcet=\"{}\"", task.period, task.execution);
    if task.deadline != task.period {
        let _ = write!(text, " deadline=\"{}\"", task.deadline);
    }
    let _ = write!(text, " partition=\"{partition}\"");
    if task.uses.is_empty() {
        text.push_str(" />\n");
        return;
    }
    text.push_str(">\n    <resources>\n");
    for one in &task.uses {
        let number = resources.iter().position(|resource| *resource == one.resource).map_or(0, |index| index + 1);
        let _ = writeln!(
            text,
            "      <requirement res_id=\"{number}\" max_reads=\"0\" max_writes=\"{}\" max_read_length=\"0\" \
             max_write_length=\"{}\" />",
            one.times, one.length
        );
    }
    text.push_str("    </resources>\n  </task>\n");
}

/// A text that may stand in a comment, in which two hyphens may not follow each other.
fn comment(text: &str) -> String {
    text.replace("--", "- -").replace("--", "- -").trim_end_matches('-').to_owned()
}

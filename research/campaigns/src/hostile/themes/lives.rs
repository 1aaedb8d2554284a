//! Further lives: tasks, servers and drivers that begin again, and others that end or begin them.

use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::{MICROSECOND, MILLISECOND, give, insert, one_in, section, strangers};
use crate::hostile::tree::{names, nanoseconds, task};

/// Lets some tasks, servers and drivers begin again, and others end them; some tasks are begun by others.
pub(in crate::hostile) fn add(tree: &mut Table, source: &mut Source) {
    let killers = strangers(tree);
    let clusters = names(tree, "clusters");
    let mut beginning = 0;
    for name in names(tree, "tasks") {
        if !one_in(source, if name.starts_with('t') { 4 } else { 2 }) {
            continue;
        }
        let (restart, begins) = restart(source);
        beginning += begins;
        if let Some(one) = task(tree, &name) {
            insert(one, "restart", restart);
        }
        if one_in(source, 2) && !killers.is_empty() {
            let killer = &killers[source.draw(0, killers.len() as u64 - 1) as usize];
            give(tree, killer, &format!("end.{name}"), format!("task {name}: stop"));
        }
    }
    let mut watcher = Table::new();
    insert(&mut watcher, "binary", "supervisor/supervisor");
    let cluster = &clusters[source.draw(0, clusters.len() as u64 - 1) as usize];
    insert(&mut watcher, "cluster", cluster.clone());
    let period = source.pick(&[2, 5, 10, 20]) * MILLISECOND;
    if !one_in(source, 8) {
        insert(&mut watcher, "period", nanoseconds(period));
        let own = period / source.draw(10, 20);
        insert(&mut watcher, "wcet", nanoseconds(own));
        // Lives begin on its budget.
        insert(&mut watcher, "budget", nanoseconds((own + beginning).min(period)));
        match source.draw(0, 4) {
            0 => {
                watcher.remove("wcet");
                insert(&mut watcher, "class", "service");
            }
            _ => insert(&mut watcher, "hard", true),
        }
        let suspends = if one_in(source, 4) { beginning / 2 } else { beginning };
        if !watcher.contains_key("class") && suspends > 0 {
            insert(&mut watcher, "suspends", nanoseconds(suspends));
        }
        if !watcher.contains_key("class") {
            let policy = section(section(tree, "clusters"), cluster).get("policy").cloned();
            if policy == Some("FP".into()) {
                insert(&mut watcher, "priority", source.draw(1, 40) as i64);
            }
        }
    } else {
        insert(&mut watcher, "class", "background");
    }
    insert(section(tree, "tasks"), "watcher", watcher);
    let mut supervisor = Table::new();
    insert(&mut supervisor, "task", "watcher");
    if one_in(source, 2) {
        insert(&mut supervisor, "dies", source.pick(&["panic", "go-on"]));
    }
    insert(tree, "supervisor", supervisor);
    if one_in(source, 8) && !killers.is_empty() {
        let killer = &killers[source.draw(0, killers.len() as u64 - 1) as usize];
        give(tree, killer, "end.watcher", "task watcher: stop".to_owned());
    }
    if killers.len() > 1 && one_in(source, 2) {
        let [one, other] = [0, 1].map(|at| killers[at].clone());
        if let Some(task) = task(tree, &one) {
            insert(task, "dormant", true);
        }
        give(tree, &other, "begin", format!("task {one}: start"));
    }
}

/// A policy for the end of a task, and how long its beginning may take, nanoseconds.
fn restart(source: &mut Source) -> (Value, u64) {
    match source.draw(0, 4) {
        0 => ("always".into(), 10 * MILLISECOND),
        1 => ("never".into(), 0),
        _ => {
            let mut limits = Table::new();
            if one_in(source, 2) {
                insert(&mut limits, "at_most", source.draw(1, 32) as i64);
                insert(&mut limits, "within", source.pick(&["1ms", "20ms", "1s"]));
            }
            if one_in(source, 2) {
                insert(&mut limits, "delay", source.pick(&["1us", "10us", "1ms"]));
            }
            if one_in(source, 2) {
                insert(&mut limits, "longest_delay", source.pick(&["1ms", "2ms", "50ms"]));
            }
            let begins = source.pick(&[1, 10, 100, 1_000]) * MICROSECOND;
            insert(&mut limits, "start_within", nanoseconds(begins));
            (limits.into(), begins)
        }
    }
}

//! Further keys of devices, and sessions.

use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::{device_of, give, insert, one_in, section, strangers};
use crate::hostile::tree::{names, task};

/// Gives devices more keys: how they share SMs and contexts, and how far they are from each other.
pub(super) fn add(tree: &mut Table, source: &mut Source) {
    let all = names(tree, "devices");
    for name in &all {
        let one = section(section(tree, "devices"), name);
        if one_in(source, 3) {
            insert(one, "copy_engines", 2);
        }
        if one_in(source, 3) {
            insert(one, "contexts", source.draw(7, 16) as i64);
        }
        if one_in(source, 3) {
            insert(one, "counters", one_in(source, 2));
        }
        match source.draw(0, 3) {
            0 => insert(one, "switch", source.pick(&["0ns", "1us", "50us"])),
            1 => insert(one, "preemptible", true),
            2 => {
                insert(one, "sms", source.pick(&[1, 2, 4, 16]));
                let preemption = source.pick(&["switch", "switch", "drain", "drain-then-switch"]);
                insert(one, "preemption", preemption);
                if preemption == "drain-then-switch" {
                    insert(one, "drain_limit", source.pick(&["1us", "100us", "1ms"]));
                }
            }
            _ => {}
        }
    }
    if !all.is_empty() && one_in(source, 3) {
        let row =
            |at: usize| (0..all.len()).map(|to| Value::from(if to == at { 100 } else { 250 })).collect::<Vec<_>>();
        let rows: Vec<Value> = (0..all.len()).map(|at| row(at).into()).collect();
        insert(section(tree, "system"), "distance", rows);
    }
    for name in names(tree, "interrupts").iter().filter(|_| one_in(source, 3)).cloned().collect::<Vec<_>>() {
        let one = section(section(tree, "interrupts"), &name);
        one.remove("cluster");
        insert(one, "cpu", 0);
    }
    if one_in(source, 4) {
        sessions(tree, source);
    }
}

/// Lets clients without a lock open their contexts themselves.
fn sessions(tree: &mut Table, source: &mut Source) {
    let Some(device) = names(tree, "devices").first().cloned() else { return };
    let mut server = Table::new();
    insert(&mut server, "binary", "gpu-driver/sessions");
    insert(&mut server, "cluster", "c0");
    insert(section(&mut server, "handles"), "sessions", "endpoint sessions: receive");
    insert(section(tree, "tasks"), "sessions", server);
    let mut endpoint = Table::new();
    insert(&mut endpoint, "server", "sessions");
    insert(section(tree, "endpoints"), "sessions", endpoint);
    let mut sessions = Table::new();
    insert(&mut sessions, "endpoint", "sessions");
    for key in ["contexts", "each"] {
        if one_in(source, 2) {
            insert(&mut sessions, key, source.draw(1, 3) as i64);
        }
    }
    insert(section(section(tree, "devices"), &device), "sessions", sessions);
    let shares = |one: &Table| {
        one.get("handles").and_then(Value::as_table).is_some_and(|handles| {
            handles.values().any(|handle| handle.as_str().is_some_and(|text| text.ends_with(": share")))
        })
    };
    let engines = names(tree, "engines");
    let engine = engines.into_iter().find(|name| device_of(tree, name).as_ref() == Some(&device));
    let strangers = strangers(tree);
    let has_some = strangers.iter().any(|name| task(tree, name).is_some_and(|one| shares(one)));
    if let Some((engine, name)) = engine.zip(strangers.last()).filter(|_| !has_some) {
        insert(section(section(tree, "engines"), &engine), "shared_longest", "100us");
        let handles = task(tree, name).map(|one| section(one, "handles"));
        let is_engine = |handle: &Value| handle.as_str().is_some_and(|text| text.starts_with("engine "));
        _ = handles.map(|handles| handles.retain(|_, handle| !is_engine(handle)));
        give(tree, name, &engine, format!("engine {engine}: share"));
    }
    for name in strangers {
        if task(tree, &name).is_some_and(|one| shares(one)) {
            give(tree, &name, "sessions", "endpoint sessions: call".to_owned());
        }
    }
}

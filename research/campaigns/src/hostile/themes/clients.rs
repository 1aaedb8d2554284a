//! Clients without a lock, in groups, with a server that decides.

use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::{MICROSECOND, device_of, give, insert, one_in, section, strangers};
use crate::hostile::tree::{names, nanoseconds, task};

/// Lets strangers use engines without their locks, some in groups and by a server that decides.
pub(super) fn add(tree: &mut Table, source: &mut Source) {
    let engines = names(tree, "engines");
    for engine in engines {
        let Some(device) = device_of(tree, &engine).filter(|_| one_in(source, 2)) else { continue };
        let longest = nanoseconds(source.draw(10, 500) * MICROSECOND);
        let one = section(section(tree, "engines"), &engine);
        insert(one, "shared_longest", longest);
        if one_in(source, 2) {
            insert(one, "reset_bound", source.pick(&["100us", "1ms", "10ms"]));
        }
        let mut sharing = Vec::new();
        for name in strangers(tree).into_iter().filter(|_| one_in(source, 3)).collect::<Vec<_>>() {
            let holds = |text: &Value| text.as_str().is_some_and(|text| text.starts_with("engine "));
            let Some(one) = task(tree, &name) else { continue };
            let handles = one.get("handles").and_then(Value::as_table);
            // A task with the lock of an engine of the device needs no other way.
            if handles.is_none_or(|handles| !handles.values().any(holds)) {
                give(tree, &name, &engine, format!("engine {engine}: share"));
                sharing.push(name);
            }
        }
        if !sharing.is_empty() && one_in(source, 2) {
            sharer(tree, source, &engine, &sharing);
        }
        let one = section(section(tree, "devices"), &device);
        if one_in(source, 3) {
            insert(one, "arbiter", source.pick(&["arrival", "round-robin", "weighted"]));
        }
        if one.get("arbiter") == Some(&"weighted".into()) {
            let weights = section(one, "weights");
            sharing.iter().for_each(|name| insert(weights, name, source.draw(1, 255) as i64));
        }
    }
}

/// A server that decides which of `sharing` may store to their doorbells, and groups of these.
fn sharer(tree: &mut Table, source: &mut Source, engine: &str, sharing: &[String]) {
    let name = format!("sharer.{engine}").replace('.', "-");
    let mut server = Table::new();
    insert(&mut server, "binary", "sharer/sharer");
    insert(&mut server, "cluster", "c0");
    insert(&mut server, "class", "service");
    insert(&mut server, "period", "10ms");
    insert(&mut server, "budget", "2ms");
    insert(section(&mut server, "handles"), "requests", format!("endpoint {name}: receive"));
    insert(section(tree, "tasks"), &name, server);
    let mut endpoint = Table::new();
    insert(&mut endpoint, "server", name.clone());
    insert(section(tree, "endpoints"), &name, endpoint);
    insert(section(section(tree, "engines"), engine), "sharer", name.clone());
    if one_in(source, 4) {
        return;
    }
    for group in ["outer", "inner"] {
        let mut made = Table::new();
        insert(&mut made, "engine", engine);
        if group == "inner" {
            insert(&mut made, "parent", format!("outer-{engine}"));
        }
        if one_in(source, 2) {
            insert(&mut made, "weight", source.pick(&[1, 2, 1_024]));
        }
        // A client that is let in does not let others in.
        let others = strangers(tree).into_iter().find(|name| !sharing.contains(name));
        if let Some(manager) = others.filter(|_| !one_in(source, 4)) {
            give(tree, &manager, "requests", format!("endpoint {name}: call"));
            insert(&mut made, "manager", manager);
        }
        if one_in(source, 2) {
            let by =
                if made.contains_key("manager") { source.pick(&["sharer", "manager", "manager"]) } else { "sharer" };
            insert(&mut made, "within", by);
        }
        insert(section(tree, "groups"), &format!("{group}-{engine}"), made);
    }
    for (place, client) in sharing.iter().enumerate() {
        let Some(one) = task(tree, client) else { continue };
        let share = section(section(one, "shares"), engine);
        insert(share, "group", format!("{}-{engine}", ["inner", "outer"][place % 2]));
        if one_in(source, 2) {
            insert(share, "weight", source.draw(1, 1_024) as i64);
        }
    }
}

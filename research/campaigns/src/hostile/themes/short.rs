//! Short forms: devices that bring their drivers, tasks that are like others, and an end.

use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::{device_of, give, insert, one_in, section, strangers};
use crate::hostile::tree::{names, task};

/// Replaces tables by keys that stand for them.
pub(super) fn add(tree: &mut Table, source: &mut Source) {
    for name in names(tree, "devices") {
        if one_in(source, 2) {
            own_driver(tree, &name, source);
        }
    }
    if one_in(source, 2) {
        like(tree, source);
    }
    if one_in(source, 2) {
        end(tree, source);
    }
}

/// Leaves out the lines of a device, its driver and its engines that the device brings by itself.
fn own_driver(tree: &mut Table, name: &str, source: &mut Source) {
    let is_of = |tree: &mut Table, engine: &String| device_of(tree, engine).as_deref() == Some(name);
    let mut engines = names(tree, "engines");
    engines.retain(|engine| is_of(tree, engine));
    let index = |tree: &mut Table, engine: &str| {
        section(section(tree, "engines"), engine).get("index").and_then(Value::as_integer)
    };
    engines.sort_by_key(|engine| index(tree, engine));
    let are_first = (0..).zip(&engines).all(|(place, engine)| index(tree, engine) == Some(place));
    let device = section(section(tree, "devices"), name);
    ["driver", "firmware"].iter().for_each(|key| _ = device.remove(*key));
    if are_first && !one_in(source, 4) {
        insert(device, "engines", engines.iter().map(|engine| engine.as_str().into()).collect::<Vec<Value>>());
        for engine in &engines {
            let one = section(section(tree, "engines"), engine);
            ["device", "index", "interrupt"].iter().for_each(|key| _ = one.remove(*key));
        }
    }
    if let Some(client) = client(tree, &engines).filter(|_| !one_in(source, 3)) {
        let region = format!("{name}_share");
        let mut memory = Table::new();
        insert(&mut memory, "bytes", "4KiB");
        insert(section(tree, "regions"), &region, memory);
        let has_key = !one_in(source, 3);
        give(tree, &client, if has_key { "own" } else { "buffer" }, format!("region {region}: read write"));
        if has_key {
            insert(section(section(section(tree, "devices"), name), "buffers"), &client, region);
        }
    }
    let is_plain = |interrupt: &Table| !interrupt.contains_key("bits") && !interrupt.contains_key("cpu");
    if is_plain(section(section(tree, "interrupts"), name)) {
        section(tree, "interrupts").remove(name);
        section(tree, "notifications").remove(&format!("{name}_event"));
    }
    let Some(driver) = task(tree, name) else { return };
    ["binary", "class", "period"].iter().for_each(|key| _ = driver.remove(*key));
    if let Some(handles) = driver.get_mut("handles").and_then(Value::as_table_mut) {
        ["line", "event"].iter().for_each(|key| _ = handles.remove(*key));
    }
}

/// A client of one of these engines.
fn client(tree: &mut Table, engines: &[String]) -> Option<String> {
    let is_own = |handle: &Value| {
        let named = handle.as_str().and_then(|text| text.strip_prefix("engine ")?.split(':').next());
        named.is_some_and(|name| engines.iter().any(|engine| engine == name))
    };
    let is_client = |one: &mut Table| {
        let handles = one.get("handles").and_then(Value::as_table);
        handles.is_some_and(|handles| handles.values().any(is_own)) && !one.contains_key("copies")
    };
    names(tree, "tasks").into_iter().find(|name| task(tree, name).is_some_and(is_client))
}

/// Makes one of the tasks that do anything like another one; it keeps its place and all that differs.
fn like(tree: &mut Table, source: &mut Source) {
    let strangers = strangers(tree);
    let [first, .., last] = &strangers[..] else { return };
    let (one, other) = if one_in(source, 2) { (first, last) } else { (last, first) };
    let Some(known) = task(tree, other).map(|other| other.clone()) else { return };
    if let Some(one) = task(tree, one) {
        one.retain(|key, value| key == "cluster" || known.get(key) != Some(value));
        insert(one, "like", other.as_str());
    }
}

/// Ends the system at some time.
fn end(tree: &mut Table, source: &mut Source) {
    let after = source.pick(&["40ms", "400ms", "5s"]);
    let mut table = Table::new();
    for (key, value) in [
        ("after", after),
        ("cluster", "c0"),
        ("period", "90ms"),
        ("deadline", "80ms"),
        ("budget", "200us"),
        ("suspends", "60ms"),
    ] {
        if matches!(key, "after" | "cluster") || !one_in(source, 3) {
            insert(&mut table, key, value);
        }
    }
    let is_plain = names(tree, "clusters").len() == 1 && one_in(source, 2);
    insert(section(tree, "system"), "end", if is_plain { Value::from(after) } else { table.into() });
}

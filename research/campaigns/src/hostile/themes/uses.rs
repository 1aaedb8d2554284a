//! Other words for holds, engines held together, and scripts of servers.

use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::{executes_on, insert, one_in, section};
use crate::hostile::tree::{names, nanoseconds, task, time};

/// Says of holds the same in other words, and has engines work in other ways: both of a group at once, no task told of the end; and scripts of servers.
pub(super) fn add(tree: &mut Table, source: &mut Source) {
    // Blocks are those of an execution engine with SMs.
    let mut wide = Vec::new();
    for name in names(tree, "engines") {
        if executes_on(tree, &name).is_some_and(|device| section(section(tree, "devices"), &device).contains_key("sms"))
        {
            wide.push(name);
        }
    }
    for name in names(tree, "tasks") {
        if name.starts_with("server") && one_in(source, 2) {
            service(tree, source, &name);
            continue;
        }
        let Some(one) = task(tree, &name) else { continue };
        let uses = one.get_mut("uses").and_then(Value::as_table_mut).into_iter();
        for (engine, used) in uses.flat_map(|uses| uses.iter_mut()) {
            let Some(used) = used.as_table_mut() else { continue };
            if one_in(source, 16) {
                insert(used, "awaits", source.draw(0, 3) > 0);
            }
            let times = used.get("times").and_then(Value::as_integer).unwrap_or(1).unsigned_abs();
            if let Some(operation) = time(used, "operation").filter(|_| one_in(source, 2)) {
                insert(used, "operations", nanoseconds(times * operation));
                if one_in(source, 2) {
                    insert(used, "commands", source.draw(1, 3) as i64);
                    if wide.contains(&engine.to_owned()) {
                        insert(used, "block", nanoseconds(operation));
                    }
                }
            }
        }
        if let Some(Value::Array(script)) = one.get_mut("script") {
            for step in script {
                let words: Vec<&str> = step.as_str().unwrap_or_default().split(' ').collect();
                if let ["submit", engine, span, _] = words[..]
                    && one_in(source, 4)
                {
                    *step = format!("start {engine} {span}").into();
                }
            }
        }
    }
    together(tree, source);
}

/// Gives a server a script: it serves, no more; or holds an engine between, and calls others as often as it says.
fn service(tree: &mut Table, source: &mut Source, name: &str) {
    let endpoint = name.replace("server", "s");
    let most = time(section(section(tree, "endpoints"), &endpoint), "service_max").unwrap_or(0);
    let plain = ["pool", "group", "arbiter"];
    let engines = names(tree, "engines").into_iter();
    let engines: Vec<(String, bool)> = engines
        .map(|engine| {
            let one = section(section(tree, "engines"), &engine);
            (engine, one.contains_key("device"), plain.iter().any(|key| one.contains_key(*key)))
        })
        .filter_map(|(engine, works, is_odd)| (!is_odd).then_some((engine, works)))
        .collect();
    let Some(one) = task(tree, name) else { return };
    one.remove("binary");
    let uses = one.get("uses").and_then(Value::as_table).cloned().unwrap_or_default();
    if uses.is_empty() && one_in(source, 3) {
        insert(one, "script", vec![Value::from(format!("serve {endpoint}"))]);
        return;
    }
    // Paths of the kernel are part of a service, too.
    let part = most / 8;
    let mut steps = vec![format!("receive {endpoint}"), format!("burn {part}ns")];
    for (called, used) in &uses {
        let times = used.get("times").and_then(Value::as_integer).unwrap_or(1);
        (0..times).for_each(|_| steps.push(format!("call {called} 0ns")));
    }
    if !engines.is_empty() && one_in(source, 2) {
        let (engine, works) = engines[source.draw(0, engines.len() as u64 - 1) as usize].clone();
        let operation = if works { source.draw(1, 4) * most.max(1) } else { 0 };
        insert(one, "trusted", true);
        insert(section(one, "handles"), &engine, format!("engine {engine}: acquire"));
        let mut used = Table::new();
        insert(&mut used, "cpu", nanoseconds(part.max(1)));
        if works {
            insert(&mut used, "operation", nanoseconds(operation));
        }
        insert(section(one, "uses"), &engine, used);
        steps.extend([format!("acquire {engine}"), format!("burn {}ns", part / 2)]);
        steps.extend(works.then(|| format!("submit {engine} {operation}ns gpu_done")));
        steps.push(format!("release {engine}"));
    }
    steps.extend([format!("burn {part}ns"), format!("reply {endpoint}")]);
    insert(one, "script", steps.into_iter().map(Value::from).collect::<Vec<Value>>());
}

/// Lets a task acquire two engines of a group at once.
fn together(tree: &mut Table, source: &mut Source) {
    for name in names(tree, "tasks") {
        let Some(one) = task(tree, &name) else { continue };
        let used: Vec<String> = one.get("uses").and_then(Value::as_table).map_or_else(Vec::new, |uses| {
            uses.iter().filter(|(_, used)| used.get("operation").is_some()).map(|(name, _)| name.clone()).collect()
        });
        let [first, second] = used.as_slice() else { continue };
        let (first, second) = (first.clone(), second.clone());
        if !one.contains_key("script") || one_in(source, 2) {
            continue;
        }
        let engines = section(tree, "engines");
        let order = section(engines, &first).get("order").cloned();
        for engine in [&first, &second] {
            let engine = section(engines, engine);
            insert(engine, "group", "both");
            engine.remove("arbiter");
            order.iter().for_each(|order| insert(engine, "order", order.clone()));
        }
        let Some(one) = task(tree, &name) else { continue };
        let uses = section(one, "uses");
        insert(section(uses, &first), "with", second.clone());
        insert(section(uses, &first), "times", 1);
        uses.remove(&second);
        if let Some(Value::Array(script)) = one.get_mut("script") {
            let own = format!("acquire {first}");
            let Some(start) = script.iter().position(|step| step.as_str() == Some(&own)) else { continue };
            let end = format!("release {first}");
            let Some(end) = script.iter().position(|step| step.as_str() == Some(&end)) else { continue };
            script[start] = format!("acquire {first} {second}").into();
            let burns = |step: &&Value| step.as_str().is_some_and(|text| text.starts_with("burn "));
            let rest = script.split_off(end + 1);
            let before = script[..start].iter().filter(burns).cloned();
            let steps: Vec<Value> =
                before.chain(script[start..].iter().cloned()).chain(rest.iter().filter(burns).cloned()).collect();
            *script = steps;
        }
    }
}

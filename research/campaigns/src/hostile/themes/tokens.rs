//! Pools: tokens with which engines are held, and limits.

use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::{MICROSECOND, device_of, insert, one_in, section};
use crate::hostile::tree::{names, nanoseconds, task, time};

/// Lets all users of an engine hold it with a token of a pool of their own: of one device, or of several of which each has as many.
pub(super) fn add(tree: &mut Table, source: &mut Source) {
    let all = names(tree, "engines");
    let Some(engine) = all.iter().find(|name| device_of(tree, name).is_some() && one_in(source, 2)).cloned() else {
        return total(tree, source);
    };
    let Some(device) = device_of(tree, &engine) else { return };
    let mut cluster = None;
    for name in names(tree, "tasks") {
        let Some(one) = task(tree, &name) else { continue };
        let uses = one.get("handles").and_then(|handles| handles.get(&engine)?.as_str()).is_some();
        if !uses {
            continue;
        }
        cluster = one.get("cluster").and_then(Value::as_str).map(str::to_owned).or(cluster);
        insert(section(one, "handles"), "tokens", "pool tokens: acquire");
        let hold = one.get("uses").and_then(|uses| uses.get(&engine)?.as_table()).and_then(|uses| time(uses, "cpu"));
        let mut token = Table::new();
        insert(&mut token, "cpu", nanoseconds(hold.unwrap_or(MICROSECOND)));
        let uses = section(one, "uses");
        insert(uses, "tokens", token);
        if let Some(Value::Table(held)) = uses.get_mut(&engine) {
            insert(held, "within", "tokens");
            held.remove("times");
        }
        if let Some(Value::Array(script)) = one.get_mut("script") {
            let with_token = |step: &Value| match step.as_str() {
                Some(text) if text == format!("acquire {engine}") => vec!["acquire tokens".into(), step.clone()],
                Some(text) if text == format!("release {engine}") => vec![step.clone(), "release tokens".into()],
                _ => vec![step.clone()],
            };
            // One hold, as there is one token in each job.
            let first = script.iter().position(|step| step.as_str() == Some(&format!("release {engine}")));
            let after = first.map_or(script.len(), |first| first + 1);
            let rest = script.split_off(after);
            let own = [&engine, "gpu_done"];
            let is_other = |step: &&Value| !step.as_str().is_some_and(|text| own.iter().any(|own| text.contains(*own)));
            script.extend(rest.iter().filter(is_other).cloned().collect::<Vec<_>>());
            *script = script.iter().flat_map(with_token).collect();
        }
    }
    let Some(cluster) = cluster else { return };
    let mut pool = Table::new();
    insert(&mut pool, "replicas", source.draw(1, 2) as i64);
    if one_in(source, 3) {
        insert(&mut pool, "limit", source.pick(&["r2dglp", "unlimited", "ck-omlp"]));
    }
    if pool.get("limit") != Some(&"ck-omlp".into()) {
        insert(&mut pool, "cluster", cluster);
    }
    if one_in(source, 2) {
        insert(&mut pool, "devices", vec![Value::from(device)]);
    }
    if one_in(source, 3) {
        insert(&mut pool, "advice", source.pick(&["none", "affinity", "random"]));
    }
    if one_in(source, 3) {
        insert(&mut pool, "shortest", source.pick(&["requests", "lengths"]));
    }
    insert(section(tree, "pools"), "tokens", pool);
    insert(section(section(tree, "engines"), &engine), "pool", "tokens");
}

/// Limits how many requests some pools have in all queues.
fn total(tree: &mut Table, source: &mut Source) {
    for name in names(tree, "pools") {
        let one = section(section(tree, "pools"), &name);
        let replicas = one.get("replicas").and_then(Value::as_integer).unwrap_or(1);
        let limit = one.get("limit").and_then(Value::as_integer).unwrap_or(1);
        insert(one, "total_limit", source.draw(1, (replicas * limit).unsigned_abs().max(1)) as i64);
        if one_in(source, 3) {
            insert(one, "shortest", source.pick(&["requests", "lengths"]));
        }
    }
}

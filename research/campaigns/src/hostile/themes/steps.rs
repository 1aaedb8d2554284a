//! Further steps of tasks that do as they declare.

use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::{give, insert, one_in};
use crate::hostile::tree::{is, names, task};

/// Lets tasks that do as they declare do more: signals, sends, releases, ends of others.
pub(super) fn add(tree: &mut Table, source: &mut Source) {
    let tasks = names(tree, "tasks");
    let scripted = tasks.iter().filter(|name| {
        task(tree, name).is_some_and(|one| one.contains_key("script") && (is(one, "trusted") || one_in(source, 4)))
    });
    for name in scripted.cloned().collect::<Vec<_>>() {
        let any = |tree: &Table, kind: &str, source: &mut Source| {
            let all = names(tree, kind);
            if all.is_empty() { "x".to_owned() } else { all[source.draw(0, all.len() as u64 - 1) as usize].clone() }
        };
        let on = |tree: &Table, source: &mut Source, kind: &str, right: &str| {
            let of = any(tree, &format!("{kind}s"), source);
            let handle = format!("{}.{of}", &right[..2]);
            (handle.clone(), vec![(handle, format!("{kind} {of}: {right}"))])
        };
        let (step, handles) = match source.draw(0, 12) {
            0 => ("yield".to_owned(), Vec::new()),
            1 => {
                let (handle, given) = on(tree, source, "notification", "signal");
                (format!("signal {handle} {}", source.draw(1, 3)), given)
            }
            2 => {
                let (handle, given) = on(tree, source, "notification", "wait");
                (format!("wait {handle}"), given)
            }
            3 => {
                let (handle, given) = on(tree, source, "endpoint", "send");
                (format!("send {handle} {}us", source.draw(0, 50)), given)
            }
            4 => {
                let (handle, given) = on(tree, source, "task", "release_job");
                (format!("release_job {handle}"), given)
            }
            5 => {
                let (handle, given) = on(tree, source, "task", "credit");
                (format!("credit {handle} {}", source.draw(1, 3)), given)
            }
            6 => {
                let (handle, given) = on(tree, source, "task", "stop");
                (format!("stop {handle}"), given)
            }
            7 => {
                let (handle, given) = on(tree, source, "task", "start");
                (format!("start {handle}"), given)
            }
            8 => {
                // A hard task that takes the next job's budget has one job less, which is no fault.
                let Some(one) = task(tree, &name).filter(|one| !is(one, "hard")) else { continue };
                insert(one, "early_release", true);
                ("early_release".to_owned(), Vec::new())
            }
            9 => ("repeat".to_owned(), Vec::new()),
            10 => {
                let of = any(tree, "endpoints", source);
                (format!("serve {of}"), vec![(of.clone(), format!("endpoint {of}: receive"))])
            }
            11 if one_in(source, 4) => {
                ("shutdown".to_owned(), vec![("system".to_owned(), "system: shutdown".to_owned())])
            }
            _ => {
                let of = any(tree, "engines", source);
                let step = source.pick(&["yield", "start"]);
                let span = if step == "start" { " 20us" } else { "" };
                (format!("{step} {of}{span}"), Vec::new())
            }
        };
        for (handle, text) in handles {
            give(tree, &name, &handle, text);
        }
        let Some(one) = task(tree, &name) else { continue };
        if let Some(Value::Array(script)) = one.get_mut("script") {
            let place = source.draw(0, script.len() as u64) as usize;
            script.insert(place, step.into());
        }
    }
}

//! Themes: what systems have beside tasks that share locks, pools and servers.
//!
//! A theme is a function on the tables of a system. It may add what is refused: that is taken out again.

use fusee_graph::Rate;
use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::tree::{is, names, nanoseconds, task, time};
use crate::blocking::graphs::edges;

/// All themes, and of how many systems one has each.
const THEMES: [(u64, fn(&mut Table, &mut Source)); 4] = [(3, graphs), (4, lives), (4, steps), (6, clients)];

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
/// The longest period of a source, nanoseconds.
const LONGEST: u64 = 120 * MILLISECOND;

/// Adds what the system with this source has of them.
pub(super) fn add(tree: &mut Table, source: &mut Source) {
    for (of, theme) in THEMES {
        if source.draw(1, of) == 1 {
            theme(tree, source);
        }
    }
}

fn insert(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key.to_owned(), value.into());
}

/// The tables of a kind, which may be new.
fn section<'a>(tree: &'a mut Table, kind: &str) -> &'a mut Table {
    let section = tree.entry(kind).or_insert_with(|| Table::new().into());
    section.as_table_mut().expect("a section is a table")
}

fn one_in(source: &mut Source, of: u64) -> bool {
    source.draw(1, of) == 1
}

/// The tasks whose jobs the clock or others release.
fn with_jobs(tree: &mut Table) -> Vec<String> {
    let has_jobs = |one: &Table| one.contains_key("period") && !one.contains_key("class");
    names(tree, "tasks").into_iter().filter(|name| task(tree, name).is_some_and(|one| has_jobs(one))).collect()
}

/// The tasks that do anything.
fn strangers(tree: &mut Table) -> Vec<String> {
    let tasks = names(tree, "tasks").into_iter().filter(|name| name.starts_with('t'));
    tasks.filter(|name| task(tree, name).is_some_and(|one| !one.contains_key("script"))).collect()
}

fn give(tree: &mut Table, to: &str, name: &str, handle: String) {
    if let Some(one) = task(tree, to) {
        insert(section(one, "handles"), name, handle);
    }
}

//--- Graphs

/// Makes some tasks nodes of one graph or two: hard ones, trusted ones and strangers.
fn graphs(tree: &mut Table, source: &mut Source) {
    let mut tasks = with_jobs(tree);
    tasks.retain(|_| !one_in(source, 4));
    // The order in which they are nodes.
    for place in (1..tasks.len()).rev() {
        tasks.swap(place, source.draw(0, place as u64) as usize);
    }
    let size = if tasks.len() > 3 && one_in(source, 3) { tasks.len().div_ceil(2) } else { tasks.len().min(8) };
    for (number, nodes) in tasks.chunks(size.max(2)).filter(|nodes| nodes.len() > 1).enumerate() {
        graph(tree, source, number, nodes);
    }
}

fn graph(tree: &mut Table, source: &mut Source, number: usize, nodes: &[String]) {
    let is_plain = !one_in(source, 3);
    let (rates, edges) = edges(source, nodes.len(), is_plain);
    let own = |tree: &mut Table, name: &String| task(tree, name).and_then(|one| time(one, "period")).unwrap_or(0);
    let needed = nodes.iter().zip(&rates).map(|(name, rate)| own(tree, name) * rate.jobs / rate.window);
    let period = needed.max().unwrap_or(0).max(MILLISECOND);
    if period > LONGEST {
        return;
    }
    for (place, (name, rate)) in nodes.iter().zip(&rates).enumerate() {
        let own = rate.period(period);
        let deadline = match source.draw(0, 4) {
            0 => own * source.draw(50, 100) / 100,
            1 => own * source.draw(1, 10),
            _ => own,
        };
        let Some(one) = task(tree, name) else { continue };
        one.remove("release");
        if place == 0 {
            insert(one, "period", nanoseconds(period));
        } else {
            for key in ["period", "phase"] {
                one.remove(key);
            }
        }
        insert(one, "deadline", nanoseconds(deadline));
        if one_in(source, 2) {
            one.remove("backlog");
        }
    }
    let mut made = Table::new();
    insert(&mut made, "source", nodes[0].clone());
    if one_in(source, 3) {
        insert(&mut made, "latency", nanoseconds(period * source.draw(1, 20)));
    }
    let device = names(tree, "devices").first().cloned();
    let device = device.filter(|_| one_in(source, 2));
    device.iter().for_each(|device| insert(&mut made, "device", device.clone()));
    for (place, edge) in edges.iter().enumerate() {
        let mut one = Table::new();
        insert(&mut one, "from", nodes[edge.from].clone());
        insert(&mut one, "to", nodes[edge.to].clone());
        for (key, value, usual) in [
            ("produces", edge.tokens.produced(), 1),
            ("consumes", edge.tokens.consumed(), 1),
            ("threshold", edge.tokens.threshold(), edge.tokens.consumed()),
            ("initial", edge.tokens.initial(), 0),
        ] {
            if value != usual || one_in(source, 4) {
                insert(&mut one, key, i64::from(value));
            }
        }
        insert(section(&mut made, "edges"), &format!("e{place}"), one);
    }
    for place in 0..source.draw(0, 2) {
        if let Some(object) = object(source, nodes, &rates, device.is_some()) {
            insert(section(&mut made, "objects"), &format!("o{place}"), object);
        }
    }
    insert(section(tree, "graphs"), &format!("g{number}"), made);
}

/// What one node writes, and some of those read that run as often.
fn object(source: &mut Source, nodes: &[String], rates: &[Rate], is_on_device: bool) -> Option<Table> {
    let writer = source.draw(0, nodes.len() as u64 - 2) as usize;
    let mut readers = Table::new();
    for reader in writer + 1..nodes.len() {
        if rates[reader] == rates[writer] && !one_in(source, 3) {
            let mut keys = Table::new();
            for key in ["delay", "history"] {
                if one_in(source, 3) {
                    insert(&mut keys, key, source.draw(0, 3) as i64);
                }
            }
            insert(&mut readers, &nodes[reader], keys);
        }
    }
    if readers.is_empty() {
        return None;
    }
    let mut made = Table::new();
    insert(&mut made, "writer", nodes[writer].clone());
    insert(&mut made, "bytes", source.pick(&["1B", "64B", "4KiB", "5000B"]));
    insert(&mut made, "readers", readers);
    if one_in(source, 2) {
        insert(&mut made, "replicas", source.pick(&[1, 2, 4, 8, 64]));
    }
    if is_on_device && one_in(source, 2) {
        insert(&mut made, "on_device", true);
    }
    Some(made)
}

//--- Lives

/// Lets some tasks, servers and drivers begin again, and others end them; some tasks are begun by others.
fn lives(tree: &mut Table, source: &mut Source) {
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
        insert(&mut watcher, "budget", nanoseconds(period / source.draw(4, 20)));
        match source.draw(0, 4) {
            0 => insert(&mut watcher, "class", "service"),
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

/// What follows the end of a task, and for how long its beginning may take, nanoseconds.
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

//--- Steps

/// Lets tasks that do as they declare do more: signals, sends, releases, ends of others.
fn steps(tree: &mut Table, source: &mut Source) {
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

//--- Clients without a lock

/// Lets strangers use engines without their locks, some in groups and by a server that decides.
fn clients(tree: &mut Table, source: &mut Source) {
    let engines = names(tree, "engines");
    let of_device = |tree: &mut Table, name: &String| {
        section(section(tree, "engines"), name).get("device").and_then(Value::as_str).map(str::to_owned)
    };
    for engine in engines {
        let Some(device) = of_device(tree, &engine).filter(|_| one_in(source, 2)) else { continue };
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
            // Who has the lock of an engine of the device needs no other way.
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
    insert(section(section(tree, "engines"), engine), "sharer", name);
    if one_in(source, 2) {
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
        if one_in(source, 3) {
            insert(&mut made, "manager", sharing[0].clone());
        }
        if one_in(source, 3) {
            insert(&mut made, "within", source.pick(&["sharer", "manager"]));
        }
        insert(section(tree, "groups"), &format!("{group}-{engine}"), made);
    }
    for (place, client) in sharing.iter().enumerate() {
        let Some(one) = task(tree, client) else { continue };
        let share = section(section(one, "shares"), engine);
        insert(share, "group", format!("{}-{engine}", ["outer", "inner"][place % 2]));
        if one_in(source, 2) {
            insert(share, "weight", source.draw(1, 1_024) as i64);
        }
    }
}

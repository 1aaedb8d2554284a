//! Themes: what systems have beside tasks that share locks, pools and servers.
//!
//! A theme is a function on the tables of a system. It may add what is refused: that is taken out again.

use fusee_graph::Rate;
use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::tree::{is, names, nanoseconds, task, time};
use crate::blocking::graphs::edges;

/// A function that adds something to a system.
type Theme = fn(&mut Table, &mut Source);

/// All themes, and of how many systems one has each.
const THEMES: [(u64, Theme); 8] =
    [(3, graphs), (4, lives), (4, steps), (6, clients), (2, devices), (3, tokens), (6, regions), (4, uses)];

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

/// An object that one node writes, and some of those read that run as often.
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
        // Whoever is let in does not say who is.
        let others = strangers(tree).into_iter().find(|name| !sharing.contains(name));
        if let Some(manager) = others.filter(|_| one_in(source, 2)) {
            give(tree, &manager, "requests", format!("endpoint {name}: call"));
            insert(&mut made, "manager", manager);
        }
        if one_in(source, 3) {
            let by = if made.contains_key("manager") { source.pick(&["sharer", "manager"]) } else { "sharer" };
            insert(&mut made, "within", by);
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

//--- Devices

/// Gives devices more keys: how they share SMs and contexts, and how far they are from each other.
fn devices(tree: &mut Table, source: &mut Source) {
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
    let is_of = |tree: &mut Table, name: &String| {
        section(section(tree, "engines"), name).get("device").and_then(Value::as_str) == Some(&device)
    };
    let engine = engines.into_iter().find(|name| is_of(tree, name));
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

//--- Tokens

/// Lets all who use an engine hold it with a token of a pool of their own: of one device, or of several of which each has as many.
fn tokens(tree: &mut Table, source: &mut Source) {
    let all = names(tree, "engines");
    let of_device = |tree: &mut Table, name: &String| {
        section(section(tree, "engines"), name).get("device").and_then(Value::as_str).map(str::to_owned)
    };
    let Some(engine) = all.iter().find(|name| of_device(tree, name).is_some() && one_in(source, 2)).cloned() else {
        return total(tree, source);
    };
    let Some(device) = of_device(tree, &engine) else { return };
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

//--- Regions

/// Gives memory to strangers and to tasks that do as they declare; some of it may be lent.
fn regions(tree: &mut Table, source: &mut Source) {
    let tasks = names(tree, "tasks");
    for place in 0..source.draw(1, 3) {
        let name = format!("r{place}");
        let mut region = Table::new();
        insert(&mut region, "bytes", source.pick(&["4KiB", "64KiB"]));
        if one_in(source, 3) {
            insert(&mut region, "cached", one_in(source, 2));
        }
        insert(section(tree, "regions"), &name, region);
        for task in tasks.iter().filter(|name| name.starts_with('t')) {
            let rights = ["read", "read write", "read map", "read write physical", "read lend", "read write lent"];
            if one_in(source, 3) {
                give(tree, task, &name, format!("region {name}: {}", source.pick(&rights)));
            }
        }
    }
}

//--- Uses

/// Says of holds the same in other words, and has engines work in other ways: both of a group at once, nobody told of the end; and scripts of servers.
fn uses(tree: &mut Table, source: &mut Source) {
    for name in names(tree, "tasks") {
        if name.starts_with("server") && one_in(source, 2) {
            service(tree, source, &name);
            continue;
        }
        let Some(one) = task(tree, &name) else { continue };
        for used in one.get_mut("uses").and_then(Value::as_table_mut).into_iter().flat_map(|uses| uses.iter_mut()) {
            let Some(used) = used.1.as_table_mut() else { continue };
            let times = used.get("times").and_then(Value::as_integer).unwrap_or(1).unsigned_abs();
            if let Some(operation) = time(used, "operation").filter(|_| one_in(source, 2)) {
                insert(used, "operations", nanoseconds(times * operation));
                if one_in(source, 2) {
                    insert(used, "commands", source.draw(1, 3) as i64);
                    insert(used, "block", nanoseconds(operation));
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

//! A system as the tables of its manifest: changes that admission asks for, and the removal of lines that it does not understand.
//!
//! Drafts are written once. From then on a system is its tables, so parts that are added or left out need no types of their own here.

use fusee_kernel_core::limits;
use fusee_manifest::{Reason, Time};
use toml::{Table, Value};

use super::draft::Draft;

/// Where a key is: the names of tables, and its own.
pub(super) type Path = Vec<String>;

/// Below so much, nanoseconds, a job computes as little as it can.
const LITTLE: u64 = 4_000;

/// The tables of a text that a draft has written.
pub(super) fn parse(text: &str) -> Table {
    text.parse().expect("a draft is TOML")
}

/// The manifest.
pub(super) fn text(tree: &Table) -> String {
    toml::to_string(tree).expect("what was read can be written")
}

/// The table at `path`.
pub(super) fn table<'a>(tree: &'a mut Table, path: &[String]) -> Option<&'a mut Table> {
    path.iter().try_fold(tree, |table, name| table.get_mut(name)?.as_table_mut())
}

/// The names of all tables of a kind: `tasks`, `engines`.
pub(super) fn names(tree: &Table, kind: &str) -> Vec<String> {
    tree.get(kind).and_then(Value::as_table).map_or_else(Vec::new, |all| all.keys().cloned().collect())
}

pub(super) fn task<'a>(tree: &'a mut Table, name: &str) -> Option<&'a mut Table> {
    tree.get_mut("tasks")?.get_mut(name)?.as_table_mut()
}

/// A time in nanoseconds.
pub(super) fn time(table: &Table, key: &str) -> Option<u64> {
    table.get(key)?.as_str().and_then(Time::parse).map(|time| time.0)
}

pub(super) fn nanoseconds(time: u64) -> Value {
    format!("{time}ns").into()
}

pub(super) fn is(table: &Table, key: &str) -> bool {
    table.get(key).and_then(Value::as_bool) == Some(true)
}

/// Takes out the value at `path`; says whether there was one.
pub(super) fn remove(tree: &mut Table, path: &[String]) -> bool {
    let Some((key, above)) = path.split_last() else { return false };
    table(tree, above).is_some_and(|table| table.remove(key).is_some())
}

/// The key, or the whole table, in a line of `text`, by number from 1.
fn at_line(text: &str, line: usize) -> Option<Path> {
    let unquoted = |name: &str| name.trim().trim_matches('"').to_owned();
    let mut above = Path::new();
    for (number, one) in (1..=line).zip(text.lines()) {
        let header = one.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match header {
            Some(names) => above = names.split('.').map(unquoted).collect(),
            None if number == line => above.push(unquoted(one.split_once('=')?.0)),
            None => {}
        }
    }
    Some(above)
}

/// Takes these lines of the tree's `text` out; says whether that changed the tree. Without its name, board and CPUs nothing is a system.
pub(super) fn remove_lines(tree: &mut Table, text: &str, lines: impl Iterator<Item = usize>) -> bool {
    let mut changed = false;
    for path in lines.filter_map(|line| at_line(text, line)) {
        let is_needed = path.len() < 2 || path[0] == "clusters" && (path.len() < 3 || path[2] == "cpus");
        changed |= !is_needed && remove(tree, &path);
    }
    changed
}

//--- Changes that admission asks for

/// Changes the lines that `reason` is about; says whether there were some.
pub(super) fn heed(tree: &mut Table, draft: &Draft, reason: &Reason, spare: u64) -> bool {
    match reason {
        Reason::NotProved { task, .. }
        | Reason::NotCounted { task, .. }
        | Reason::NotEnforced { task, .. }
        | Reason::Drops { task, .. } => give_up(tree, draft, task),
        Reason::LendsTooMuch { task, .. } | Reason::DrawsTooMuch { task, .. } => ease(tree, task),
        Reason::WaitsTooLong { task, .. } => {
            isolate(tree, task) || cut(tree, task, spare) || give_up(tree, draft, task)
        }
        Reason::Overload { cluster, .. } | Reason::Unbounded { cluster, .. } => relieve(tree, cluster, spare),
        Reason::Overcommitted { task, .. } | Reason::TooFewTokens { task, .. } => isolate(tree, task),
        _ => false,
    }
}

/// Gives up on having one task proved: it does anything from now on. Keys that were added since it was drafted stay.
fn give_up(tree: &mut Table, draft: &Draft, name: &str) -> bool {
    let Some(old) = task(tree, name) else { return false };
    if old.remove("hard").is_none() {
        return false;
    }
    let Some(attacker) = draft.as_attacker(name) else { return true };
    let mut attacker = parse(&attacker);
    let Some(new) = task(&mut attacker, name) else { return true };
    for key in ["script", "suspends", "model"] {
        old.remove(key);
    }
    let is_call = |handle: &Value| handle.as_str().is_some_and(|text| text.starts_with("endpoint s"));
    if let Some(handles) = old.get_mut("handles").and_then(Value::as_table_mut) {
        let called: Vec<String> =
            handles.iter().filter(|(_, handle)| is_call(handle)).map(|one| one.0.clone()).collect();
        handles.retain(|_, handle| !is_call(handle));
        let uses = old.get_mut("uses").and_then(Value::as_table_mut);
        _ = uses.map(|uses| uses.retain(|name, _| !called.iter().any(|called| called == name)));
    }
    for (key, value) in std::mem::take(new) {
        match (old.get_mut(&key), value) {
            (Some(Value::Table(known)), Value::Table(more)) if key == "handles" => known.extend(more),
            (None, value) if key != "phase" && key != "period" => _ = old.insert(key, value),
            _ => {}
        }
    }
    true
}

/// Takes away from one task its shared locks and pools, and its sleep.
fn isolate(tree: &mut Table, name: &str) -> bool {
    let Some(one) = task(tree, name) else { return false };
    let had = [one.remove("uses").is_some(), one.remove("suspends").is_some()];
    let is_shared = |text: &str| ["engine ", "pool ", "endpoint s"].iter().any(|kind| text.starts_with(kind));
    if let Some(handles) = one.get_mut("handles").and_then(Value::as_table_mut) {
        handles.retain(|_, handle| !handle.as_str().is_some_and(is_shared));
    }
    if let Some(Value::Array(steps)) = one.get_mut("script") {
        steps.retain(|step| step.as_str().is_some_and(|step| step.starts_with("burn ")));
    }
    had.contains(&true)
}

/// Lets one task compute less of its budget, or in the end share nothing.
fn ease(tree: &mut Table, name: &str) -> bool {
    let Some(one) = task(tree, name) else { return false };
    let Some(most) = time(one, "wcet").or(time(one, "budget")).filter(|most| *most >= LITTLE) else {
        return isolate(tree, name);
    };
    one.insert("wcet".to_owned(), nanoseconds(most / 2));
    scale(one, 1, 2);
    true
}

/// Takes load from a cluster: the shared objects of one of its tasks, if there are some, or else a part of each budget.
fn relieve(tree: &mut Table, cluster: &str, spare: u64) -> bool {
    let is_member = |task: &Table| task.get("cluster").and_then(Value::as_str) == Some(cluster);
    let tasks: Vec<String> = names(tree, "tasks");
    let members: Vec<String> =
        tasks.into_iter().filter(|name| task(tree, name).is_some_and(|one| is_member(one))).collect();
    if members.iter().any(|name| name.starts_with('t') && isolate(tree, name)) {
        return true;
    }
    members.iter().filter(|name| cut(tree, name, spare)).count() > 0
}

/// Takes a sixteenth from the budget of one task, and the computing of its jobs beyond the rest; says whether it had so much.
fn cut(tree: &mut Table, name: &str, spare: u64) -> bool {
    let least = limits::least_budget(limits::LONGEST_PATH_CROWDED);
    let Some(one) = task(tree, name) else { return false };
    let Some(budget) = time(one, "budget").filter(|budget| *budget > least) else { return false };
    let budget = (budget - budget / 16).max(least);
    one.insert("budget".to_owned(), nanoseconds(budget));
    let most = budget.saturating_sub(spare);
    let sum = burns(one);
    if sum > most {
        scale(one, most, sum);
    }
    if time(one, "wcet").is_some_and(|wcet| wcet > most) {
        one.insert("wcet".to_owned(), nanoseconds(most));
    }
    true
}

/// CPU time of one step, nanoseconds.
fn burn(step: &Value) -> Option<u64> {
    step.as_str()?.strip_prefix("burn ").and_then(Time::parse).map(|time| time.0)
}

/// CPU time of the script of a task, nanoseconds.
fn burns(task: &Table) -> u64 {
    let steps = task.get("script").and_then(Value::as_array);
    steps.map_or(0, |steps| steps.iter().filter_map(burn).fold(0, u64::saturating_add))
}

/// Lets each step of a script compute a part of its time.
fn scale(task: &mut Table, part: u64, of: u64) {
    let steps = task.get_mut("script").and_then(Value::as_array_mut);
    for step in steps.into_iter().flatten() {
        if let Some(span) = burn(step) {
            let span = u128::from(span) * u128::from(part) / u128::from(of);
            *step = format!("burn {span}ns").into();
        }
    }
}

/// A system whose tasks do as they declare if others rely on them, for any declarations of these.
pub(super) fn keeping_word(tree: &Table) -> Table {
    let mut tree = tree.clone();
    keep_word(&mut tree);
    for name in names(&tree, "tasks") {
        leave_time_for_ends(&mut tree, &name);
    }
    tree
}

/// Lets a job compute less by the driver's work for the ends of its own commands: that is in the task's `wcet`.
fn leave_time_for_ends(tree: &mut Table, name: &str) {
    let completion = |engine: &Value| time(engine.as_table()?, "completion");
    let engines = tree.get("engines").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let longest = engines.filter_map(completion).max().unwrap_or(0);
    let Some(one) = task(tree, name).filter(|one| longest > 0 && !one.contains_key("class")) else { return };
    let steps = one.get("script").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let commands = steps.filter(|step| step.starts_with("submit ") || step.starts_with("start ")).count() as u64;
    let Some(most) = time(one, "wcet").or(time(one, "budget")).filter(|_| commands > 0) else { return };
    let (left, sum) = (most.saturating_sub(commands.saturating_mul(longest)), burns(one));
    if left == 0 {
        isolate(tree, name);
    } else if sum > left {
        scale(one, left, sum);
    }
}

fn keep_word(tree: &mut Table) {
    let named = |table: Option<&Value>, key: &str| table.and_then(|table| table.get(key)?.as_str()).map(str::to_owned);
    let devices = tree.get("devices").and_then(Value::as_table).into_iter().flatten();
    // A device that names none has one of its own name.
    let driver = |(name, device): (&String, &Value)| named(Some(device), "driver").unwrap_or_else(|| name.clone());
    let drivers: Vec<String> = devices.map(driver).collect();
    let supervisor = named(tree.get("supervisor"), "task");
    for name in names(tree, "tasks") {
        // Their behaviour is said elsewhere.
        let is_known = drivers.contains(&name) || supervisor.as_ref() == Some(&name) || is_server(&name);
        let is_relied_on = likes(tree, &name).any(|one| is(one, "hard") || is(one, "trusted"));
        let is_list = |value: &Value| value.as_array().is_some_and(|steps| !steps.is_empty());
        let has_steps = |one: &Table| ["script", "model"].iter().any(|key| one.get(*key).is_some_and(is_list));
        let has_program = |one: &Table| ["binary", "elf", "script"].iter().any(|key| one.contains_key(*key));
        // Steps of a task are those of the first one with a program.
        let first = likes(tree, &name).position(has_program).unwrap_or(0);
        let does_as_declared = !is_relied_on || likes(tree, &name).take(first + 1).any(has_steps);
        let Some(one) = task(tree, &name).filter(|_| !is_known) else { continue };
        if does_as_declared {
            continue;
        }
        let has_jobs = one.get("class").is_none() && one.contains_key("period");
        let burn = time(one, "budget").map_or(1_000, |budget| budget / 2);
        let steps: Vec<Value> = match (has_jobs, one.contains_key("class")) {
            (false, true) => vec![format!("burn {burn}ns").into(), "repeat".into()],
            _ => vec![format!("burn {burn}ns").into()],
        };
        let key = if one.contains_key("script") { "script" } else { "model" };
        one.insert(key.to_owned(), steps.into());
    }
}

/// A task, and those that it is like.
fn likes<'a>(tree: &'a Table, name: &str) -> impl Iterator<Item = &'a Table> {
    let task = |name: &str| tree.get("tasks")?.get(name)?.as_table();
    std::iter::successors(task(name), move |one| task(one.get("like")?.as_str()?)).take(limits::THREADS)
}

/// Whether a task of this name serves others.
pub(super) fn is_server(name: &str) -> bool {
    ["server", "sharer", "sessions"].iter().any(|start| name.starts_with(start))
}

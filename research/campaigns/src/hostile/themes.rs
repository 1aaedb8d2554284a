//! Themes: parts of systems beside tasks that share locks, pools and servers.
//!
//! A theme is a function on the tables of a system. It may add keys that are refused: they are taken out again.

use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::tree::{names, task};

mod buses;
mod clients;
mod devices;
mod ends;
mod graphs;
pub(super) mod lives;
mod rare;
mod short;
mod steps;
mod tokens;
mod uses;

/// A function that adds something to a system.
type Theme = fn(&mut Table, &mut Source);

/// All themes, and of how many systems one has each.
const THEMES: [(u64, Theme); 11] = [
    (3, graphs::add),
    (4, lives::add),
    (4, steps::add),
    (4, clients::add),
    (2, devices::add),
    (3, tokens::add),
    (6, regions),
    (4, uses::add),
    (2, rare::add),
    (4, buses::add),
    // The last one: others look at tables that this one leaves out.
    (3, short::add),
];

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;

/// Adds to a system the themes that its source draws.
pub(super) fn add(tree: &mut Table, source: &mut Source) {
    for (of, theme) in THEMES {
        if source.draw(1, of) == 1 {
            theme(tree, source);
        }
    }
}

/// In one of so many systems the ends of commands take time.
const ENDS: u64 = 3;

/// Lets the ends of commands take time of drivers in some systems.
pub(super) fn add_ends(tree: &mut Table, (seed, number, attempt): (u64, u64, u64), spare: u64) {
    if number % ENDS == 1 {
        ends::add(tree, &mut Source::new(seed ^ 1 << 60 ^ attempt << 48, number), spare);
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

/// The device of an engine, by its name.
fn device_of(tree: &mut Table, engine: &str) -> Option<String> {
    section(section(tree, "engines"), engine).get("device").and_then(Value::as_str).map(str::to_owned)
}

/// The device whose execution engine this is.
fn executes_on(tree: &mut Table, engine: &str) -> Option<String> {
    let index = section(section(tree, "engines"), engine).get("index").and_then(Value::as_integer);
    device_of(tree, engine).filter(|_| index == Some(0))
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

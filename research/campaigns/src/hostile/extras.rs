//! Extras: any key of the schema, any right, and other values for keys that are there, at limits and beyond.
//!
//! Nothing here names a key but one: they are those of [`crate::keys`], so a new one is drawn as soon as a manifest may have it. The number of a device's interrupt
//! line stays as it is: words about another machine hold for no proof. Most of the additions mean
//! nothing where it stands; admission takes it out again (`tree`).

use std::collections::BTreeMap;

use crate::keys::{Key, Kind};
use fusee_kernel_core::limits;
use fusee_manifest::Time;
use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::tree::{Path, nanoseconds, remove, table};

/// Keys that are added to one system, at most.
const MOST: u64 = 12;
/// Times at limits and beyond, nanoseconds.
const TIMES: [u64; 14] = [
    0,
    1,
    limits::LONGEST_PATH,
    50_000,
    100_000,
    1_000_000,
    2_000_000,
    10_000_000,
    20_000_000,
    1_000_000_000,
    1 << 31,
    1 << 56,
    (1 << 56) + 1,
    u64::MAX,
];
/// Numbers at limits and beyond.
const NUMBERS: [i64; 22] =
    [-1, 0, 1, 1, 2, 2, 3, 4, 8, 12, 16, 32, 64, 100, 200, 255, 256, 1_023, 1_024, 65_535, 65_536, 1 << 32];
const LENGTHS: [&str; 8] = ["0B", "1B", "4KiB", "8KiB", "16KiB", "64KiB", "1MiB", "1024GiB"];
/// Texts that are no names of a manifest's parts.
const WORDS: [&str; 10] = ["EDF", "FL", "RM", "DM", "FP", "uart0", "smmu", "2,1", "watcher", "no such name"];

/// Adds keys of `all` to a system, and changes values in it.
pub(super) fn add(tree: &mut Table, all: &BTreeMap<String, Key>, source: &mut Source) {
    let many = source.draw(0, MOST);
    for _ in 0..source.pick(&[0, 0, 1, 2, many, many]) {
        // Keys by their names, so that all are as likely.
        let Some((name, key)) = all.iter().nth(source.draw(0, all.len() as u64 - 1) as usize) else { continue };
        match (name.split_once(": "), name.split_once('=')) {
            (Some(("step", _)), _) => {}
            (Some((kind, right)), _) => more_rights(tree, kind, right, source),
            (None, Some((path, word))) => set(tree, path, word.into(), source),
            (None, None) => {
                let value = value(key, &*tree, source);
                set(tree, name, value, source);
            }
        }
    }
    for _ in 0..source.pick(&[0, 0, 0, 1, 2]) {
        change(tree, source);
    }
}

/// Whether the key at `path` says how the machine is wired.
fn is_wiring(path: &[String]) -> bool {
    matches!(path, [kind, _, key] if kind == "interrupts" && key == "line")
}

/// Puts a value at the key `name`, somewhere; a name is one that the manifest has.
fn set(tree: &mut Table, name: &str, value: Value, source: &mut Source) {
    let mut path = Path::new();
    let known = object_names(tree);
    for (place, part) in name.split('.').enumerate() {
        if part != "*" {
            path.push(part.to_owned());
            continue;
        }
        let here = table(tree, &path).map_or_else(Vec::new, |here| here.keys().cloned().collect::<Vec<_>>());
        let any: Vec<&String> = if place > 1 && (here.is_empty() || source.draw(0, 3) == 0) {
            known.iter().collect()
        } else {
            here.iter().collect()
        };
        if any.is_empty() {
            return;
        }
        path.push(any[source.draw(0, any.len() as u64 - 1) as usize].clone());
    }
    let Some((key, above)) = path.split_last().filter(|_| !is_wiring(&path)) else { return };
    // Tables that are not there are made, but for the first: it would have nothing else.
    let mut at = &mut *tree;
    for part in above {
        let below = at.entry(part).or_insert_with(|| Table::new().into());
        if !below.is_table() {
            *below = Table::new().into();
        }
        at = below.as_table_mut().expect("it was made one");
    }
    at.insert(key.clone(), value);
}

/// The names of all that a manifest names.
fn object_names(tree: &Table) -> Vec<String> {
    let sections = tree.iter().filter(|(name, _)| *name != "system");
    sections.filter_map(|(_, section)| section.as_table()).flat_map(|all| all.keys().cloned()).collect()
}

fn value(key: &Key, tree: &Table, source: &mut Source) -> Value {
    if key.lists > 0 {
        let inner = Key { lists: key.lists - 1, ..*key };
        let count = source.draw(1, 3);
        return (0..count).map(|_| value(&inner, tree, source)).collect::<Vec<_>>().into();
    }
    match key.value {
        Kind::Truth => (source.draw(0, 3) > 0).into(),
        Kind::Number => source.pick(&NUMBERS).into(),
        Kind::Time => any_time(source),
        Kind::Bytes => source.pick(&LENGTHS).into(),
        Kind::Text | Kind::Word => {
            let names = object_names(tree);
            let of = source.draw(0, (names.len() + WORDS.len()) as u64 - 1) as usize;
            names.get(of).map_or_else(|| WORDS[of - names.len()].into(), |name| name.as_str().into())
        }
    }
}

fn any_time(source: &mut Source) -> Value {
    let decimals = source.draw(0, 8) as u32;
    let some = source.draw(1, 10) * 10_u64.pow(decimals);
    let limit = source.pick(&TIMES);
    nanoseconds(source.pick(&[some, some, limit]))
}

/// Adds a right to some handle of this kind.
fn more_rights(tree: &mut Table, kind: &str, right: &str, source: &mut Source) {
    let tasks = tree.get_mut("tasks").and_then(Value::as_table_mut);
    let handles = tasks.into_iter().flat_map(|tasks| tasks.iter_mut());
    let handles =
        handles.filter_map(|(_, task)| task.get_mut("handles")?.as_table_mut()).flat_map(|all| all.iter_mut());
    let mut of_kind: Vec<&mut Value> = handles
        .map(|(_, handle)| handle)
        .filter(|handle| handle.as_str().is_some_and(|text| text.split([' ', ':']).next() == Some(kind)))
        .collect();
    if of_kind.is_empty() {
        return;
    }
    let place = source.draw(0, of_kind.len() as u64 - 1) as usize;
    let handle = &mut *of_kind[place];
    if let Some((object, _)) = handle.as_str().and_then(|text| text.split_once(':')) {
        // Instead of those that are there, or beside them.
        let text = match source.draw(0, 1) {
            0 => format!("{object}: {right}"),
            _ => format!("{} {right}", handle.as_str().unwrap_or_default()),
        };
        *handle = text.into();
    }
}

/// Changes some value, or takes out a key.
fn change(tree: &mut Table, source: &mut Source) {
    let mut all = Vec::new();
    leaves(tree, &mut Path::new(), &mut all);
    let path = &all[source.draw(0, all.len() as u64 - 1) as usize];
    if source.draw(0, 5) == 0 {
        _ = remove(tree, path);
        return;
    }
    let Some((key, above)) = path.split_last().filter(|_| !is_wiring(path)) else { return };
    let Some(value) = table(tree, above).and_then(|table| table.get_mut(key)) else { return };
    *value = match &*value {
        Value::Integer(number) => {
            let number = *number;
            let changed = [number / 2, number.saturating_mul(2), number + 1, number - 1, source.pick(&NUMBERS)];
            source.pick(&changed).into()
        }
        Value::Boolean(truth) => (!truth).into(),
        Value::String(text) => match Time::parse(text) {
            Some(Time(time)) => {
                let changed = [time / 2, time.saturating_mul(2), time.saturating_add(1), time.saturating_sub(1)];
                let limit = source.pick(&TIMES);
                nanoseconds(source.pick(&[changed[0], changed[1], changed[2], changed[3], limit]))
            }
            None => return,
        },
        _ => return,
    };
}

/// Where all values are that are no tables.
pub(super) fn leaves(tree: &Table, above: &mut Path, found: &mut Vec<Path>) {
    for (name, value) in tree {
        above.push(name.clone());
        match value {
            Value::Table(below) => leaves(below, above, found),
            _ => found.push(above.clone()),
        }
        above.pop();
    }
}

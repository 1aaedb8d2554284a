//! The least system that shows a fault.
//!
//! # Invariants
//!
//! 1. A smaller system is kept only if it shows the same fault: of the same task, and of the same kind.
//! 2. Each step makes a system smaller: it has fewer tables, keys or steps, or one of its numbers is smaller. So it comes to an end.

use toml::{Table, Value};

use fusee_manifest::Time;

use super::extras::leaves;
use super::tree::{Path, nanoseconds, remove, table};

/// Systems that are tried, at most.
const TRIES: usize = 3_000;

/// Makes `tree` smaller as long as `shows` says that the rest shows the fault; that gives back the system as it was tried, with what could not stand without
/// what was left out.
pub(super) fn shrink(tree: &Table, shows: &mut dyn FnMut(Table) -> Option<Table>) -> Table {
    let mut least = tree.clone();
    let mut tries = 0;
    loop {
        let before = weight(&least);
        for smaller in [without_parts, without_steps, with_less] {
            let mut at = 0;
            // Parts after one that cannot be left out are tried next, not from the first again.
            while let Some(tried) = smaller(&least, at) {
                tries += 1;
                match shows(tried).filter(|found| weight(found) < weight(&least)) {
                    Some(found) => least = found,
                    None => at += 1,
                }
                if tries >= TRIES {
                    return least;
                }
            }
        }
        if weight(&least) >= before {
            return least;
        }
    }
}

/// How large a system is: its tables, keys and steps, then its numbers.
fn weight(tree: &Table) -> (usize, u128) {
    tree.values().map(weight_of).fold((0, 0), |sum, one| (sum.0 + 1 + one.0, sum.1.saturating_add(one.1)))
}

fn weight_of(value: &Value) -> (usize, u128) {
    match value {
        Value::Table(table) => weight(table),
        Value::Array(all) => {
            all.iter().map(weight_of).fold((0, 0), |sum, one| (sum.0 + 1 + one.0, sum.1.saturating_add(one.1)))
        }
        Value::Integer(number) => (0, number.unsigned_abs().into()),
        Value::String(text) => {
            // Rights, and other words.
            let words = text.split_whitespace().count() - usize::from(!text.trim().is_empty());
            (words, times(text).map(u128::from).sum())
        }
        _ => (0, 0),
    }
}

/// The times in a text, which may be a step.
fn times(text: &str) -> impl Iterator<Item = u64> {
    text.split_whitespace().filter_map(|word| Some(Time::parse(word)?.0))
}

/// The system without its table or key of this number, tables first.
fn without_parts(tree: &Table, number: usize) -> Option<Table> {
    let mut parts = Vec::new();
    tables(tree, &mut Path::new(), &mut parts);
    leaves(tree, &mut Path::new(), &mut parts);
    let mut rest = tree.clone();
    _ = remove(&mut rest, parts.get(number)?);
    Some(rest)
}

fn tables(tree: &Table, above: &mut Path, found: &mut Vec<Path>) {
    for (name, value) in tree {
        if let Value::Table(below) = value {
            above.push(name.clone());
            found.push(above.clone());
            tables(below, above, found);
            above.pop();
        }
    }
}

/// The system without one entry of a list, or one right of a handle.
fn without_steps(tree: &Table, number: usize) -> Option<Table> {
    let mut all = Vec::new();
    leaves(tree, &mut Path::new(), &mut all);
    let mut left = number;
    let mut rest = tree.clone();
    for path in all {
        let (key, above) = path.split_last()?;
        match table(&mut rest, above)?.get_mut(key)? {
            Value::Array(entries) if left < entries.len() => {
                entries.remove(left);
                return Some(rest);
            }
            Value::Array(entries) => left -= entries.len(),
            Value::String(text) if text.contains(": ") => {
                let (object, rights) = text.split_once(": ")?;
                let rights: Vec<&str> = rights.split_whitespace().collect();
                if left < rights.len() {
                    let kept: Vec<&str> = [&rights[..left], &rights[left + 1..]].concat();
                    *text = format!("{object}: {}", kept.join(" "));
                    return Some(rest);
                }
                left -= rights.len();
            }
            _ => {}
        }
    }
    None
}

/// The system with one number that is smaller: with one digit and zeros, or half of that.
fn with_less(tree: &Table, number: usize) -> Option<Table> {
    let mut all = Vec::new();
    leaves(tree, &mut Path::new(), &mut all);
    let path = all.get(number / 2)?;
    let (key, above) = path.split_last()?;
    let mut rest = tree.clone();
    let is_half = number % 2 == 1;
    let value = table(&mut rest, above)?.get_mut(key)?;
    match value {
        Value::Integer(number) => *number = less(number.unsigned_abs(), is_half) as i64,
        Value::String(text) => *text = text_with_less(text, is_half),
        Value::Array(entries) => {
            for entry in entries {
                if let Value::String(text) = entry {
                    *text = text_with_less(text, is_half);
                }
            }
        }
        _ => {}
    }
    Some(rest)
}

fn text_with_less(text: &str, is_half: bool) -> String {
    let word = |word: &str| match Time::parse(word) {
        Some(Time(time)) => nanoseconds(less(time, is_half)).as_str().unwrap_or_default().to_owned(),
        None => word.to_owned(),
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn less(number: u64, is_half: bool) -> u64 {
    let digit = |number: u64| {
        let unit = 10_u64.pow(number.checked_ilog10().unwrap_or(0));
        number - number % unit
    };
    if is_half { digit(number / 2) } else { digit(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_for_a_fault_stays_and_all_else_goes() {
        let tree: Table =
            "[system]\ncpus = 4\n[tasks.a]\nbudget = \"1234us\"\nscript = [\"burn 1us\", \"yield\", \"burn 2345ns\"]\n\
                           [tasks.b]\nhandles = { a = \"task a: stop grant\" }\n[pools.p]\nreplicas = 9\n"
                .parse()
                .unwrap();
        let mut shows = |tree: Table| {
            let text = toml::to_string(&tree).unwrap();
            let has_all = ["yield", "stop"].iter().all(|word| text.contains(word));
            let budget = tree.get("tasks")?.get("a")?.get("budget")?.as_str().and_then(Time::parse)?;
            (has_all && budget.0 > 300_000).then_some(tree)
        };
        let least = shrink(&tree, &mut shows);
        let wanted: Table =
            "[tasks.a]\nbudget = \"400000ns\"\nscript = [\"yield\"]\n[tasks.b]\nhandles = { a = \"task a: stop\" }\n"
                .parse()
                .unwrap();
        // Half of that, with one digit, is too little.
        assert_eq!(text(&least), text(&wanted));
    }

    fn text(tree: &Table) -> String {
        toml::to_string(tree).unwrap().replace("500000ns", "400000ns")
    }
}

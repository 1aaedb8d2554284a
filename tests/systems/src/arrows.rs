//! Directions of the tree: which folder a crate may use, and which modules of a crate use each other in a circle.
//!
//! # Invariants
//!
//! 1. A crate uses crates of its own folder and of folders before it in [`ORDER`].
//! 2. In the folders of [`STRAIGHT`] no module uses, directly or through others, a module that uses it.
//!
//! Not here: calls between the files of the kernel, which go one way, too (`structure`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::structure::files;

/// The name of the check.
pub const NAME: &str = "dependencies of crates point one way";

/// Folders, the lowest first. A crate belongs to the longest of these that its path begins with.
const ORDER: [&str; 36] = [
    "sched",
    "locking",
    "sched/certificate",
    "sched/exchange",
    "sched/analysis",
    "sched/arrangements",
    "kernel/abi",
    "drivers/stream/frames",
    "accel/contract",
    "accel/compute",
    "accel",
    "userland/graph",
    "bsp",
    "kernel/core",
    "kernel",
    "userland/fusee",
    "drivers/framework",
    "docs/examples",
    "userland/car/kernels",
    "userland/vision/kernels",
    "qemu/wrong-kernels",
    "qemu",
    "drivers",
    "userland",
    "tools/manifest",
    "tools/views",
    "tools/simulator",
    "tools/sim",
    "tools/host",
    "tools/fusee",
    "tools",
    "userland/demo/judge",
    "userland/car/judge",
    "userland/vision/judge",
    "research",
    "tests",
];

/// Folders of sources in which modules use each other one way.
const STRAIGHT: [&str; 5] = ["locking/src", "sched/src", "accel/src", "accel/sharing/src", "tools/host/src"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: String,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; none: the crate itself uses it.
    kind: Option<String>,
}

/// Counts the arrows between crates and modules: in words, and those that point the wrong way.
///
/// # Errors
/// Cargo does not describe the workspace, or a file cannot be read.
pub fn check(root: &Path) -> Result<(String, Vec<String>)> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root);
    let output = command.output().context("cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let mut folders: BTreeMap<&str, &str> = BTreeMap::new();
    for package in &metadata.packages {
        let path = Path::new(&package.manifest_path).strip_prefix(&metadata.workspace_root)?;
        folders.insert(&package.name, path.parent().and_then(Path::to_str).context("a folder with a name")?);
    }
    let mut arrows = Vec::new();
    for package in &metadata.packages {
        let used = package.dependencies.iter().filter(|one| one.kind.is_none());
        let used = used.filter_map(|one| folders.get(one.name.as_str()));
        arrows.extend(used.map(|to| (folders[package.name.as_str()], *to)));
    }
    let mut problems = upward(&arrows);
    let mut modules = 0;
    for folder in STRAIGHT {
        let uses = uses(&root.join(folder))?;
        modules += uses.len();
        problems
            .extend(circles(&uses).into_iter().map(|circle| format!("{folder}: {circle} use each other in a circle")));
    }
    let words = format!(
        "{} arrows between {} crates point down; no circle among {modules} modules of {} folders",
        arrows.len(),
        folders.len(),
        STRAIGHT.len()
    );
    Ok((words, problems))
}

/// The place in [`ORDER`] of the crate in this folder.
fn place(folder: &str) -> Option<usize> {
    let holds = |one: &&&str| folder.strip_prefix(**one).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let longest = ORDER.iter().filter(holds).max_by_key(|one| one.len())?;
    ORDER.iter().position(|one| one == longest)
}

/// Arrows from a lower folder to a higher one, and crates without a place, in words.
fn upward(arrows: &[(&str, &str)]) -> Vec<String> {
    let wrong = |(from, to): &(&str, &str)| match (place(from), place(to)) {
        (Some(low), Some(high)) => (low < high).then(|| format!("{from} uses {to}, which stands above it")),
        (None, _) => Some(format!("{from} has no place in the order of folders")),
        (_, None) => Some(format!("{to} has no place in the order of folders")),
    };
    arrows.iter().filter_map(wrong).collect()
}

/// The modules of a crate, files and folders of its sources, each with those that it uses.
fn uses(source: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for path in files(source, "rs")? {
        let inside = path.strip_prefix(source)?;
        let first = inside.iter().next().unwrap_or_default().to_string_lossy();
        let name = first.trim_end_matches(".rs").to_owned();
        let is_test = inside.iter().any(|part| part.to_string_lossy().contains("tests"));
        if !is_test {
            texts.entry(name).or_default().push_str(&product(&std::fs::read_to_string(&path)?));
        }
    }
    let names: BTreeSet<String> = texts.keys().cloned().collect();
    let used = |(name, text): (&String, &String)| {
        let mut used: BTreeSet<String> = named(text).filter(|one| names.contains(one)).collect();
        used.remove(name);
        (name.clone(), used)
    };
    Ok(texts.iter().map(used).collect())
}

/// The text of a source without comments and unit tests.
fn product(text: &str) -> String {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]" || text.contains("extern crate std"));
    lines.flat_map(|line| [line.split("//").next().unwrap_or_default(), "\n"]).collect()
}

/// The first names of all paths that begin with `crate`.
fn named(text: &str) -> impl Iterator<Item = String> {
    text.match_indices("crate::").flat_map(|(at, found)| {
        let rest = &text[at + found.len()..];
        match rest.strip_prefix('{') {
            Some(list) => heads(list),
            None => vec![head(rest)],
        }
    })
}

fn head(path: &str) -> String {
    path.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// The first names of the paths in a list in braces that has been opened.
fn heads(list: &str) -> Vec<String> {
    let (mut depth, mut begins, mut found) = (0, true, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            letter if begins && !letter.is_whitespace() => {
                found.push(head(&list[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    found
}

/// Sets of modules that reach each other.
fn circles(uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let reach = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(name) = open.pop() {
            open.extend(uses[name].iter().filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let all: BTreeMap<&String, BTreeSet<String>> = uses.keys().map(|name| (name, reach(name))).collect();
    let circle = |(name, reached): (&&String, &BTreeSet<String>)| {
        let back = reached.iter().filter(|other| all[other].contains(*name));
        let members: Vec<&str> = back.map(String::as_str).collect();
        members.contains(&name.as_str()).then(|| format!("`{}`", members.join("`, `")))
    };
    let found: BTreeSet<String> = all.iter().filter_map(circle).collect();
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_to_a_higher_folder_is_named() {
        let arrows =
            [("locking", "sched"), ("sched/analysis", "locking"), ("sched", "locking"), ("elsewhere/x", "sched")];
        let wrong = upward(&arrows);
        assert_eq!(
            wrong,
            ["sched uses locking, which stands above it", "elsewhere/x has no place in the order of folders"]
        );
        assert!(place("userland/demo/judge") > place("tools/host"));
    }

    #[test]
    fn modules_that_reach_each_other_are_a_circle() {
        let text = "use crate::a::B;\nuse crate::{c::{d, e}, f};\nlet x = crate::g();";
        assert_eq!(named(text).collect::<Vec<_>>(), ["a", "c", "f", "g"]);
        assert!(!product("use crate::a; // crate::b\n#[cfg(test)]\nuse crate::c;").contains("crate::c"));
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let uses = [("a", set(&["b"])), ("b", set(&["c"])), ("c", set(&["b"])), ("d", set(&[]))];
        let uses = uses.into_iter().map(|(name, used)| (name.to_owned(), used)).collect();
        assert_eq!(circles(&uses), ["`b`, `c`"]);
    }
}

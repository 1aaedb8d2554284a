//! Commands that are evidence in `docs/support.toml`: a check runs each of them, or the page has the reason why none does.
//!
//! The check of a page runs the commands whose output the page shows (`readme`). Every other command has an entry in that file:
//!
//! ```toml
//! [[command]]
//! command = "cargo xtask trace"
//! prints = ["...", "0 boot"]    # this module runs it; lines as in the blocks of pages
//!
//! [[command]]
//! command = "cargo xtask study"
//! check = "campaign::study"     # this check does the work of the command
//! without = "..."               # the part that the check leaves out; without `check` the reason why no check runs it
//! ```
//!
//! Not here: whether the command and its options exist (`docs`).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use fusee_host::workspace::Workspace;
use serde::Deserialize;

use crate::readme::{self, Example};

/// The file with the entries.
pub const FILE: &str = "docs/support.toml";
/// Name of the check that runs the commands.
pub const CHECK: &str = "docs/support.toml";
/// Name of the check that looks for the checks of the entries.
pub const LISTED: &str = "repo::checks that run what a command runs are listed";
/// The comment before the table of commands that no check runs as they stand.
pub const TABLE: &str = "<!-- command table -->";

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    command: Vec<Entry>,
}

/// One command of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    command: String,
    /// Lines that it prints, if this module runs it.
    #[serde(default)]
    prints: Vec<String>,
    /// The check that does the work of the command.
    check: Option<String>,
    /// The part that no check runs, and why.
    without: Option<String>,
}

fn entries(root: &Path) -> Result<Vec<Entry>> {
    let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
    Ok(toml::from_str::<File>(&text).context(FILE)?.command)
}

/// Commands among `evidence` that nothing runs and no entry explains, and entries that are wrong.
///
/// # Errors
/// A page or the file cannot be read.
pub fn problems<'a>(root: &Path, evidence: impl Iterator<Item = &'a str>) -> Result<Vec<String>> {
    let shown = readme::examples(root)?.into_iter().map(|example| example.command).collect();
    Ok(compare(&evidence.collect(), &shown, &entries(root)?))
}

fn compare(evidence: &BTreeSet<&str>, shown: &BTreeSet<String>, entries: &[Entry]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut named = BTreeSet::new();
    for entry in entries {
        let name = entry.command.as_str();
        let mut bad = |why: &str| problems.push(format!("{FILE}: `{name}`: {why}"));
        match (entry.prints.is_empty(), &entry.check, &entry.without) {
            (true, None, None) => bad("its entry needs `prints`, `check` or `without`"),
            (false, None, None) | (true, ..) => {}
            (false, ..) => bad("it is run here, so its entry has `prints` alone"),
        }
        if !evidence.contains(name) {
            bad("it has an entry, and is evidence of nothing");
        }
        if shown.contains(name) {
            bad("a page shows its output, and the check of that page runs it: remove the entry");
        }
        if !named.insert(name) {
            bad("it has two entries");
        }
    }
    let is_run = |command: &&&str| named.contains(**command) || shown.contains(**command);
    problems.extend(evidence.iter().filter(|command| !is_run(command)).map(|command| {
        format!(
            "{FILE}: `{command}` is evidence, and no check runs it: show its output on a page, or write a `[[command]]`"
        )
    }));
    problems
}

/// Checks that entries name and that are not `listed`.
///
/// # Errors
/// The file cannot be read.
pub fn unlisted(root: &Path, listed: &BTreeSet<String>) -> Result<Vec<String>> {
    let is_lost = |entry: &Entry| entry.check.as_ref().is_some_and(|check| !listed.contains(check));
    let words = |Entry { command, check, .. }: Entry| {
        format!("{FILE}: `{command}`: there is no check `{}`", check.unwrap_or_default())
    };
    Ok(entries(root)?.into_iter().filter(is_lost).map(words).collect())
}

/// The table of commands that no check runs as they stand.
///
/// # Errors
/// The file cannot be read.
pub fn table(root: &Path) -> Result<String> {
    let mut text = String::from("| Command | Check | Not in the check |\n|---|---|---|\n");
    for Entry { command, check, without, .. } in entries(root)? {
        let check = check.map(|check| format!("`{check}`")).unwrap_or_default();
        if let Some(without) = without {
            let _ = writeln!(text, "| `{command}` | {check} | {without} |");
        }
    }
    Ok(text)
}

/// Runs the commands that this module runs, in the order of the file. Returns the number of commands, and the faults.
///
/// # Errors
/// A command cannot be started.
pub fn check(workspace: &Workspace) -> Result<(usize, Vec<String>)> {
    let mut problems = Vec::new();
    let own = entries(&workspace.fusee.root)?.into_iter().filter(|entry| !entry.prints.is_empty());
    let mut count = 0;
    for Entry { command, prints, .. } in own {
        let example = Example { page: FILE, before: Vec::new(), command, expected: prints };
        let found = readme::check(&workspace.fusee, &workspace.project.kept_in, &example)?;
        problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", example.command)));
        count += 1;
    }
    Ok((count, problems))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(command: &str, prints: &[&str], check: Option<&str>, without: Option<&str>) -> Entry {
        Entry {
            command: command.into(),
            prints: prints.iter().map(|&line| line.into()).collect(),
            check: check.map(Into::into),
            without: without.map(Into::into),
        }
    }

    #[test]
    fn a_command_that_nothing_runs_is_named() {
        let evidence = BTreeSet::from(["shown", "run", "checked", "left out", "forgotten"]);
        let shown = BTreeSet::from(["shown".to_owned(), "other".to_owned()]);
        let entries = [
            entry("run", &["..."], None, None),
            entry("checked", &[], Some("campaign::study"), Some("a smaller grid")),
            entry("left out", &[], None, Some("a quarter of an hour")),
        ];
        let found = compare(&evidence, &shown, &entries);
        assert!(found.len() == 1 && found[0].contains("`forgotten` is evidence"), "{found:?}");
    }

    #[test]
    fn an_entry_that_says_nothing_or_too_much_is_named() {
        let evidence = BTreeSet::from(["shown", "empty", "both", "twice"]);
        let shown = BTreeSet::from(["shown".to_owned()]);
        let twice = || entry("twice", &["..."], None, None);
        let entries = [
            entry("shown", &["..."], None, None),
            entry("empty", &[], None, None),
            entry("both", &["..."], Some("campaign::study"), None),
            twice(),
            twice(),
            entry("stale", &["..."], None, None),
        ];
        let found = compare(&evidence, &shown, &entries);
        let words = ["remove the entry", "needs `prints`", "has `prints` alone", "two entries", "evidence of nothing"];
        assert_eq!(found.len(), words.len(), "{found:?}");
        assert!(found.iter().zip(words).all(|(line, words)| line.contains(words)), "{found:?}");
    }

    #[test]
    fn a_check_that_is_not_listed_is_named() {
        let root = fusee_host::system::root().unwrap();
        let named = entries(&root).unwrap().into_iter().filter_map(|entry| entry.check).collect::<BTreeSet<_>>();
        assert_eq!(unlisted(&root, &named).unwrap(), Vec::<String>::new());
        let mut fewer = named.clone();
        let lost = fewer.pop_first().expect("an entry names a check");
        let found = unlisted(&root, &fewer).unwrap();
        assert!(!found.is_empty() && found.iter().all(|line| line.contains(&lost)), "{found:?}");
    }
}

//! The truth of the pages: commands exist, shown files are the files, and each claim names its proof.
//!
//! ```text
//! <!-- support table -->          then the table that `docs/support.toml` gives
//! <!-- command table -->          then its table of commands that no check runs as they stand
//! <!-- file: PATH -->             then a block that is this whole file
//! <!-- excerpt of: PATH -->       then a block that is a part of it
//! <!-- output of: COMMAND -->     then a block: `$ COMMAND`, and all it prints
//! ```
//!
//! The lists of `docs/architecture.md` that follow one thing through the code name functions that exist, and each file once.
//!
//! Not here: running the commands that pages show (`readme`).

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::{Args as _, CommandFactory as _};

use fusee_advise::command as advise;
use fusee_flash::FlashArguments;
use fusee_looks::command as looks;
use fusee_research::{campaign, command as research};
use fusee_simulate::command as simulate;
use fusee_tool::command::Arguments;

use crate::boards;
use crate::command::Options;
use crate::markdown::Page;
use crate::proofs;

/// The example of `docs/first-task.md` compiles.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../docs/examples/pulse.rs"]
mod pulse;

/// That of `docs/own-project.md`, too.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../docs/examples/lamp.rs"]
mod lamp;

/// That of `docs/dsp.md`.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../docs/examples/spectrum.rs"]
mod spectrum;

/// And that of `docs/gpu-five-minutes.md`.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../docs/examples/edges.rs"]
mod edges;

/// Pages that are not in the book's folder.
const OUTSIDE: [&str; 5] = ["README.md", "CHANGES.md", "CONTRIBUTING.md", "SECURITY.md", "userland/demo/README.md"];
/// Where claims are written as data.
const SUPPORT: &str = proofs::FILE;
/// The page that shows them.
const SUPPORT_PAGE: &str = "docs/support.md";
/// The book's table of contents, as mdBook reads it.
const CONTENTS: &str = "docs/SUMMARY.md";
const TABLE: &str = "<!-- support table -->";
/// The page that follows one thing after another through the code.
const ARCHITECTURE: &str = "docs/architecture.md";
/// The heading of these lists.
const JOURNEYS: &str = "\n## Five journeys\n";

/// Whether `page` has this table, and a blank line after it, behind the comment `mark`.
fn has_table(page: &str, mark: &str, table: &str) -> bool {
    let behind = page.split_once(mark).and_then(|(_, rest)| rest.trim_start().strip_prefix(table));
    behind.is_some_and(|rest| rest.is_empty() || rest.starts_with('\n'))
}

/// Checks the README and all pages.
///
/// # Errors
/// All that is not so, one line each.
pub fn check(root: &Path) -> Result<()> {
    let features = features(&read(root, SUPPORT)?)?;
    let mut problems = claims(root, &features);
    let evidence = features.iter().flat_map(|feature| &feature.shown_by);
    problems.extend(proofs::problems(root, evidence.map(String::as_str).filter(|one| one.starts_with("cargo ")))?);
    let page = read(root, SUPPORT_PAGE)?;
    for (mark, table) in [(TABLE, table(&features)), (proofs::TABLE, proofs::table(root)?)] {
        if !has_table(&page, mark, &table) {
            problems.push(format!("{SUPPORT_PAGE}: its table is not what {SUPPORT} gives:\n{table}"));
        }
    }
    let results = boards::table(root)?;
    if !has_table(&read(root, boards::PAGE)?, boards::MARK, &results) {
        problems.push(format!("{}: its table is not what {} gives:\n{results}", boards::PAGE, boards::FOLDER));
    }
    problems.extend(campaign::problems(root)?);
    problems.extend(unlisted(root)?);
    problems.extend(lost(root, &read(root, ARCHITECTURE)?));
    for page in pages(root)? {
        let text = read(root, &page)?;
        problems.extend(page_problems(root, &page, &text));
    }
    none(&problems)
}

fn none(problems: &[String]) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n")) }
}

fn read(root: &Path, path: &str) -> Result<String> {
    std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned())
}

/// All pages, by their paths from the repository.
pub fn pages(root: &Path) -> Result<Vec<String>> {
    let mut pages = OUTSIDE.map(str::to_owned).to_vec();
    for entry in std::fs::read_dir(root.join("docs"))? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.sort();
    Ok(pages)
}

/// Pages of the book that its table of contents does not lead to: the book would be without them.
fn unlisted(root: &Path) -> Result<Vec<String>> {
    let contents = read(root, CONTENTS)?;
    let pages = pages(root)?.into_iter().filter(|page| page != CONTENTS);
    let names = pages.filter_map(|page| page.strip_prefix("docs/").map(str::to_owned));
    let missing = names.filter(|name| !contents.contains(&format!("({name})")));
    Ok(missing.map(|name| format!("{CONTENTS}: docs/{name} is not in it")).collect())
}

//--- Claims

/// One row of the table.
struct Feature {
    name: String,
    state: String,
    shown_by: Vec<String>,
}

fn features(text: &str) -> Result<Vec<Feature>> {
    let file: toml::Table = toml::from_str(text).context(SUPPORT)?;
    let rows = file.get("feature").and_then(toml::Value::as_array).context("docs/support.toml has no features")?;
    let feature = |row: &toml::Value| {
        let word = |key: &str| row.get(key)?.as_str().map(str::to_owned);
        let shown_by = row.get("shown_by").and_then(toml::Value::as_array).into_iter().flatten();
        let shown_by = shown_by.map(|one| one.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        Some(Feature { name: word("name")?, state: word("state")?, shown_by })
    };
    rows.iter().map(|row| feature(row).with_context(|| format!("{SUPPORT}: not a feature: {row}"))).collect()
}

/// Every claim names a command or a test, and that exists; a missing feature has no proof.
fn claims(root: &Path, features: &[Feature]) -> Vec<String> {
    let mut problems = Vec::new();
    for Feature { name, state, shown_by } in features {
        let bad = |why: String| Some(format!("{SUPPORT}: `{name}`: {why}"));
        problems.extend(match state.as_str() {
            "works" | "partly" if shown_by.is_empty() => bad("nothing shows it".into()),
            "not yet" if !shown_by.is_empty() => bad("something shows what is not there".into()),
            "works" | "partly" | "not yet" => None,
            other => bad(format!("no such state: {other}")),
        });
        for shown in shown_by {
            problems.extend(match (shown.starts_with("cargo "), shown.split_once(": ")) {
                (true, _) => command_problem(SUPPORT, shown),
                (_, Some((path, test))) if !defines(root, path, test) => bad(format!("no test `{test}` in {path}")),
                (_, None) if !root.join(shown).exists() => bad(format!("there is no {shown}")),
                _ => None,
            });
        }
    }
    problems
}

fn defines(root: &Path, path: &str, test: &str) -> bool {
    read(root, path).is_ok_and(|text| text.contains(&format!("fn {test}(")))
}

/// Its links lead from [`SUPPORT_PAGE`].
fn table(features: &[Feature]) -> String {
    let mut text = String::from("| Feature | State | Shown by |\n|---|---|---|\n");
    for Feature { name, state, shown_by } in features {
        let cells: Vec<String> = shown_by
            .iter()
            .map(|shown| match shown.split_once(": ") {
                Some((path, test)) => format!("[`{test}`](../{path})"),
                None if shown.starts_with("cargo ") => format!("`{shown}`"),
                None => format!("[`{shown}`](../{shown})"),
            })
            .collect();
        let _ = writeln!(text, "| {name} | {state} | {} |", cells.join(", "));
    }
    text
}

//--- Journeys

/// Functions in the journeys of `page` that are not in their files, and files that begin two items of one list.
///
/// A function is written as `path/file.rs::function`, as `file.rs::function` after that path, or as `::function` for the last file.
fn lost(root: &Path, page: &str) -> Vec<String> {
    let (_, section) = page.split_once(JOURNEYS).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut files: Vec<&str> = Vec::new();
    let mut list: Vec<&str> = Vec::new();
    let mut problems = Vec::new();
    for line in section.lines() {
        let is_item = line.split_once(". `").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        let names = line.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::"));
        for (place, (file, function)) in names.enumerate() {
            let path = match file {
                "" => files.last().copied(),
                file if !file.ends_with(".rs") => continue,
                file if file.contains('/') => Some(file),
                file => files.iter().rev().find(|path| path.ends_with(&format!("/{file}"))).copied(),
            };
            let Some(path) = path else {
                problems.push(format!("{ARCHITECTURE}: {file}::{function}: no list names the path of this file"));
                continue;
            };
            if !read(root, path).is_ok_and(|text| declares(&text, function)) {
                problems.push(format!("{ARCHITECTURE}: there is no `{function}` in {path}"));
            }
            if is_item && place == 0 {
                if line.starts_with("1. ") {
                    list.clear();
                }
                if list.contains(&path) {
                    problems.push(format!("{ARCHITECTURE}: {path} begins two items of one list"));
                }
                list.push(path);
            }
            files.push(path);
        }
    }
    if files.is_empty() {
        problems.push(format!("{ARCHITECTURE}: no journeys below `{}`", JOURNEYS.trim()));
    }
    problems
}

/// Whether the source `text` has a function, a field or a label of this name.
fn declares(text: &str, name: &str) -> bool {
    let is_declared = |line: &str| {
        let item = line.trim_start();
        let rest = match item.split_once("fn ") {
            Some((_, function)) => function.strip_prefix(name),
            None => item.strip_prefix("pub ").unwrap_or(item).strip_prefix(name),
        };
        let is_comment = item.starts_with("//");
        !is_comment && rest.is_some_and(|rest| rest.starts_with(['(', '<', ':']) && !rest.starts_with("::"))
    };
    text.lines().any(is_declared)
}

//--- Pages

/// A fenced block.
struct Block {
    /// Line of its opening fence, from 1.
    line: usize,
    /// The text of the comment right before it.
    comment: Option<String>,
    /// The word behind the opening fence.
    language: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut comment = None;
    let mut inside = false;
    for (index, line) in page.lines().enumerate() {
        match (inside, line.strip_prefix("```")) {
            (true, Some(_)) => inside = false,
            (true, None) => {
                if let Some(block) = found.last_mut() {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
            }
            (false, Some(language)) => {
                inside = true;
                let (comment, language) = (comment.take(), language.to_owned());
                found.push(Block { line: index + 1, comment, language, text: String::new() });
            }
            (false, None) if line.trim().is_empty() => {}
            (false, None) => {
                let text = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                comment = text.map(str::to_owned);
            }
        }
    }
    found
}

fn page_problems(root: &Path, page: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for block in blocks(text) {
        let place = format!("{page}:{}", block.line);
        if ["sh", "console"].contains(&block.language.as_str()) {
            let commands = block.text.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line));
            problems.extend(commands.filter_map(|command| command_problem(&place, command)));
        }
        let source = |kind: &str| block.comment.as_deref().and_then(|comment| comment.strip_prefix(kind));
        let part = match (source("file: "), source("excerpt of: ")) {
            (Some(path), _) => Some((path, true)),
            (_, Some(path)) => Some((path, false)),
            _ => None,
        };
        if let Some((path, whole)) = part {
            let file = read(root, path).unwrap_or_default();
            if (whole && file != block.text) || !file.contains(&block.text) {
                problems.push(format!("{place}: this is not what {path} says"));
            }
        }
    }
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let parsed = Page::parse(text);
    let is_lost = |link: &&&str| !link.contains("://") && !leads(root, folder, link, &parsed);
    problems
        .extend(parsed.links().iter().filter(is_lost).map(|link| format!("{page}: the link to {link} leads nowhere")));
    problems
}

/// Whether the target of `link` exists, seen from `page` in `folder`: a file, and in a page the heading.
fn leads(root: &Path, folder: &Path, link: &str, page: &Page) -> bool {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let file = root.join(folder).join(path);
    match anchor {
        None => file.exists(),
        Some(anchor) if path.is_empty() => page.anchors().contains(&anchor),
        Some(anchor) => std::fs::read_to_string(file).is_ok_and(|text| Page::parse(&text).anchors().contains(&anchor)),
    }
}

/// Whether `line` is a command of ours that we would not understand.
fn command_problem(place: &str, line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(" #").next()?.split(" > ").next()?.split_whitespace().collect();
    let (["cargo", "xtask", arguments @ ..] | ["fusee", arguments @ ..]) = &words[..] else { return None };
    let (parser, arguments) = match arguments {
        ["test", arguments @ ..] => (Options::command(), arguments),
        [name, ..] if research::has(name) => (research::Arguments::command(), arguments),
        [name, ..] if advise::has(name) => (advise::Arguments::command(), arguments),
        [name, ..] if looks::has(name) => (looks::Arguments::command(), arguments),
        [name, ..] if simulate::has(name) => (simulate::Arguments::command(), arguments),
        ["flash", arguments @ ..] => (FlashArguments::augment_args(clap::Command::new("flash")), arguments),
        _ => (Arguments::command(), arguments),
    };
    let arguments = std::iter::once("cargo xtask").chain(arguments.iter().copied());
    let error = parser.try_get_matches_from(arguments).err()?;
    error.use_stderr().then(|| format!("{place}: `{line}`: {}", error.to_string().lines().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_say_what_is_so() {
        let root = fusee_host::system::root().unwrap();
        check(&root).unwrap_or_else(|problems| panic!("{problems}"));
    }

    #[test]
    fn a_table_with_rows_that_are_not_its_own_is_another_one() {
        let table = "| a |\n|---|\n| b |\n";
        let has = |rest: &str| has_table(&format!("text\n<!-- t -->\n\n{rest}"), "<!-- t -->", table);
        assert!(has(table) && has(&format!("{table}\ntext\n")));
        assert!(!has(&format!("{table}| c |\n")) && !has("| a |\n") && !has_table(table, "<!-- t -->", table));
    }

    #[test]
    fn a_link_to_no_page_or_no_heading_leads_nowhere() {
        let root = fusee_host::system::root().unwrap();
        let text = "# Here\n[a](#here) [b](#there) [c](late.md#why-was-it-late) [d](late.md#early) [e](none.md) [f](../README.md)\n";
        let lost = ["#there", "late.md#early", "none.md"];
        let expected = lost.map(|link| format!("docs/calls.md: the link to {link} leads nowhere"));
        assert_eq!(page_problems(&root, "docs/calls.md", text), expected);
    }

    #[test]
    fn a_function_or_a_file_that_a_journey_does_not_find_is_named() {
        let root = fusee_host::system::root().unwrap();
        let engine = "1. `locking/src/engine.rs::request`, `::drained`: `Engine::new`";
        let page = |lines: &str| format!("# A\n{JOURNEYS}\n{engine}\n{lines}\n## B\n`locking/src/engine.rs::gone`\n");
        let found = |lines: &str| lost(&root, &page(lines)).join("; ").replace("docs/architecture.md: ", "");
        assert_eq!(found("`engine.rs::grant_next`\n\n1. `locking/src/engine.rs::request`"), "");
        assert_eq!(found("2. `locking/src/none.rs::request`"), "there is no `request` in locking/src/none.rs");
        assert_eq!(found("text `::reques` text"), "there is no `reques` in locking/src/engine.rs");
        assert_eq!(found("`pool.rs::request`"), "pool.rs::request: no list names the path of this file");
        assert_eq!(found("2. `locking/src/engine.rs::request`"), "locking/src/engine.rs begins two items of one list");
        assert_eq!(lost(&root, "# A\n"), ["docs/architecture.md: no journeys below `## Five journeys`"]);
    }

    #[test]
    fn declarations_are_functions_fields_and_labels() {
        let text = "    pub(crate) fn act<M>(a: u8) {\n        call(b);\n    pub time: u64,\nstart:\n// fn no()\n";
        let declared = ["act", "time", "start", "no", "a", "b", "ac"].map(|name| declares(text, name));
        assert_eq!(declared, [true, true, true, false, false, false, false]);
    }

    #[test]
    fn a_block_knows_its_comment_and_its_place() {
        let page = "text\n<!-- file: a -->\n```rust\nlet a;\n```\n<!-- b -->\nmore\n```\n```\n";
        let found: Vec<_> =
            blocks(page).into_iter().map(|block| (block.line, block.comment, block.language, block.text)).collect();
        let first = (3, Some("file: a".to_owned()), "rust".to_owned(), "let a;\n".to_owned());
        assert_eq!(found, [first, (8, None, String::new(), String::new())]);
    }

    #[test]
    fn only_commands_that_exist_pass() {
        assert_eq!(command_problem("p", "git clone x"), None);
        assert_eq!(command_problem("p", "cargo xtask run --unmanaged  # a remark"), None);
        assert_eq!(command_problem("p", "cargo xtask run -- -S"), None);
        assert_eq!(command_problem("p", "fusee completions bash > file"), None);
        assert!(command_problem("p", "fusee fly").is_some());
        assert!(command_problem("p", "cargo xtask fly").is_some());
        assert!(command_problem("p", "cargo xtask run --fly").is_some());
    }
}

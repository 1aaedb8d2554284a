//! Figures of the tree, by which one sees whether it grows out of hand: lines, long files, assertions, and words that stand where a noun should.
//!
//! `tests/systems/house.toml` has the figures that were accepted last. A figure that is worse fails the check; one that is better is accepted with `--bless`.
//!
//! Not here: conditions that must always hold (`structure`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fusee_host::system;
use serde::{Deserialize, Serialize};

use crate::structure::files;

/// The name of the check.
pub const NAME: &str = "figures of the tree are no worse than they were";
const FILE: &str = "tests/systems/house.toml";
/// A file of more lines is long.
const LONG: usize = 700;
/// A function of more lines is long.
const LONG_FUNCTION: usize = 100;
/// Sums of lines are rounded up to so many, so that one more test is no change.
const STEP: usize = 1_000;

/// Folders with comments that are counted, each with those below it.
const FOLDERS: [&str; 12] = [
    "accel",
    "bsp",
    "drivers",
    "kernel",
    "locking",
    "qemu",
    "research",
    "sched",
    "tests",
    "tools",
    "userland",
    "tools/manifest",
];
/// Folders in which assertions are counted.
const ASSERTING: [&str; 3] = ["kernel/core/src", "locking/src", "sched/src"];
/// Folders beside the product.
const BESIDE: [&str; 3] = ["tools", "tests", "research"];

/// Words that stand in a relative clause in place of a noun.
const WORDS: [&str; 8] = ["what", "who", "whom", "whose", "whoever", "whatever", "nobody", "somebody"];

/// All figures. None may grow, but for assertions, which may not become fewer.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    /// Lines of Rust in folders beside the product.
    lines_beside: usize,
    /// Lines of manifests.
    lines_of_manifests: usize,
    /// Files of Rust that are long.
    long_files: usize,
    /// Functions of more than 100 lines.
    long_functions: usize,
    /// Assertions per 1,000 lines, in tenths.
    assertions: BTreeMap<String, usize>,
    /// The part of the words in comments, or in pages, that are among [`WORDS`], in tenths per 1,000.
    words: BTreeMap<String, usize>,
}

/// Counts all figures, and compares them with those that were accepted: all of them in words, and those that are worse.
///
/// # Errors
/// A file cannot be read, or the accepted figures cannot be understood.
pub fn check(root: &Path, bless: bool) -> Result<(String, Vec<String>)> {
    let now = count(root)?;
    if bless {
        let text = format!("# Written by `cargo xtask test \"{NAME}\" --bless`.\n\n{}", toml::to_string(&now)?);
        system::write(&root.join(FILE), text.as_bytes())?;
    }
    let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
    let accepted: Figures = toml::from_str(&text).context(FILE)?;
    Ok((now.in_words(), now.worse_than(&accepted)))
}

impl Figures {
    /// Each figure with its name; and whether more of it is better.
    fn all(&self) -> impl Iterator<Item = (String, usize, bool)> {
        let sums = [
            ("lines of Rust in `tools`, `tests` and `research`, at most", self.lines_beside),
            ("lines of manifests, at most", self.lines_of_manifests),
            ("files of more than 700 lines", self.long_files),
            ("functions of more than 100 lines", self.long_functions),
        ];
        let sums = sums.into_iter().map(|(name, figure)| (name.to_owned(), figure, false));
        let asserts = self.assertions.iter();
        let asserts =
            asserts.map(|(of, figure)| (format!("tenths of an assertion per 1,000 lines of {of}"), *figure, true));
        let words = self.words.iter();
        let words =
            words.map(|(of, figure)| (format!("tenths of a relative word per 1,000 words in {of}"), *figure, false));
        sums.chain(asserts).chain(words)
    }

    fn in_words(&self) -> String {
        let mut text = String::new();
        for (name, figure, _) in self.all() {
            let _ = write!(text, "{}{figure} {name}", if text.is_empty() { "" } else { "; " });
        }
        text
    }

    /// Figures that are worse than those that were `accepted`, in words.
    fn worse_than(&self, accepted: &Figures) -> Vec<String> {
        let before: BTreeMap<String, usize> = accepted.all().map(|(name, figure, _)| (name, figure)).collect();
        let worse = |(name, now, more_is_better): (String, usize, bool)| {
            let Some(before) = before.get(&name) else {
                return Some(format!("{now} {name}: no figure was accepted; `--bless` does"));
            };
            let is_worse = if more_is_better { now < *before } else { now > *before };
            is_worse.then(|| format!("{now} {name}; {before} were accepted in {FILE}"))
        };
        self.all().filter_map(worse).collect()
    }
}

fn count(root: &Path) -> Result<Figures> {
    let mut figures = Figures::default();
    let texts = |folder: &str| -> Result<Vec<String>> {
        let files = files(&root.join(folder), "rs")?;
        Ok(files.iter().map(std::fs::read_to_string).collect::<std::io::Result<_>>()?)
    };
    for folder in FOLDERS {
        let texts = texts(folder)?;
        ensure!(!texts.is_empty(), "{folder} has no files");
        let lines = |text: &String| text.lines().count();
        if BESIDE.contains(&folder) {
            figures.lines_beside += texts.iter().map(lines).sum::<usize>();
        }
        if !folder.contains('/') {
            figures.long_files += texts.iter().filter(|text| lines(text) > LONG).count();
            let all = texts.iter().flat_map(|text| lengths(text));
            figures.long_functions += all.filter(|lines| *lines > LONG_FUNCTION).count();
        }
        figures.words.insert(format!("comments of {folder}"), share(texts.iter().map(|text| comments(text))));
    }
    for folder in ASSERTING {
        let texts = texts(folder)?;
        let is_assertion = |line: &&str| {
            ["assert", "debug_assert", "impossible!"].iter().any(|one| line.trim_start().starts_with(one))
        };
        let asserts: usize = texts.iter().map(|text| text.lines().filter(is_assertion).count()).sum();
        let lines: usize = texts.iter().map(|text| text.lines().count()).sum();
        figures.assertions.insert(folder.to_owned(), asserts * 10_000 / lines.max(1));
    }
    let pages = files(&root.join("docs"), "md")?;
    let pages = pages.iter().map(std::fs::read_to_string).collect::<std::io::Result<Vec<_>>>()?;
    figures.words.insert("pages".to_owned(), share(pages.iter().map(|page| prose(page))));
    for folder in ["tests", "userland", "docs"] {
        for path in files(&root.join(folder), "toml")? {
            let text = std::fs::read_to_string(path)?;
            let is_manifest = text.lines().any(|line| line == "[system]");
            figures.lines_of_manifests += if is_manifest { text.lines().count() } else { 0 };
        }
    }
    for sum in [&mut figures.lines_beside, &mut figures.lines_of_manifests] {
        *sum = sum.next_multiple_of(STEP);
    }
    Ok(figures)
}

/// The lines of each function of a formatted source: it ends with the first brace that stands as far to the right as its beginning.
fn lengths(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let length = |(at, line): (usize, &&str)| {
        let item = line.trim_start();
        let words = item.split(' ').take_while(|word| *word != "fn");
        let is_function = item.contains("fn ") && words.clone().count() < item.split(' ').count();
        let is_item = is_function
            && words.clone().all(|word| {
                matches!(word, "const" | "async" | "unsafe" | "extern" | "\"C\"") || word.starts_with("pub")
            });
        let end = format!("{}}}", &line[..line.len() - item.len()]);
        let opens = is_item && !line.ends_with([';', '}']);
        opens.then(|| lines[at..].iter().position(|line| *line == end)).flatten().map(|lines| lines + 1)
    };
    lines.iter().enumerate().filter_map(length).collect()
}

/// The comments of a source, without text between backticks.
fn comments(text: &str) -> String {
    let mut prose = String::new();
    for line in text.lines() {
        if let Some((before, comment)) = line.split_once("//")
            && before.trim().is_empty()
        {
            prose.extend(comment.trim_start_matches(['/', '!']).split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// The prose of a page: no code, no quoted output.
fn prose(page: &str) -> String {
    let mut prose = String::new();
    let mut is_code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// The part of all words that are among [`WORDS`], in ten thousandths.
fn share(texts: impl Iterator<Item = String>) -> usize {
    let (mut all, mut found) = (0, 0);
    for text in texts {
        for word in
            text.split(|letter: char| !letter.is_alphanumeric() && letter != '\'').filter(|word| !word.is_empty())
        {
            all += 1;
            found += usize::from(WORDS.iter().any(|one| one.eq_ignore_ascii_case(word)));
        }
    }
    found * 10_000 / all.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_in_comments_and_prose_alone() {
        assert_eq!(comments("let who = 1; // who\n/// Who `what` waits.\n"), " Who  waits.\n");
        assert_eq!(share([comments("/// Who waits, and for the engine.")].into_iter()), 10_000 / 6);
        assert_eq!(prose("a `who` b\n```sh\nwho\n```\nc"), "a  b\nc\n");
    }

    #[test]
    fn functions_are_as_long_as_their_lines() {
        let text = "    pub(crate) const fn a(\n        b: u8,\n    ) {\n        c();\n    }\n    fn d();\nfn e() {\n}\nlet f: fn(u8) = {\n};\n";
        assert_eq!(lengths(text), [5, 2]);
    }

    #[test]
    fn a_figure_that_is_worse_is_named() {
        let before = Figures {
            long_files: 2,
            assertions: [("kernel".to_owned(), 9)].into(),
            words: [("pages".to_owned(), 3)].into(),
            ..Figures::default()
        };
        assert!(before.worse_than(&before).is_empty());
        let mut after = before.clone();
        (after.long_files, after.lines_of_manifests) = (3, 0);
        after.assertions.insert("kernel".to_owned(), 8);
        after.words.insert("pages".to_owned(), 2);
        let worse = after.worse_than(&before);
        assert_eq!(worse.len(), 2, "{worse:?}");
        assert!(worse[0].starts_with("3 files of more than 700 lines; 2 were accepted"), "{worse:?}");
        after.words.insert("comments".to_owned(), 1);
        assert_eq!(after.worse_than(&before).len(), 3);
    }
}

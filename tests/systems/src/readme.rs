//! Commands on pages have the output that the pages show.
//!
//! A block fenced as `console` holds commands, `$ cargo xtask ...`, each followed by its output. Printed lines
//! must come in this order; `...` stands for any number of lines. Numbers with a unit of time or three digits after the point may differ, and so may
//! a whole (`7 of 7`), because they change with the compiler; all else is compared as printed. A command may fail if an `error:` line is
//! shown. Before it `cp`, `mkdir` and `sed` of the same page are run, and files that are new after them in the sources are removed in the end. Other
//! commands, and `cargo xtask test` itself, are not run. Only some pages are looked at.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use fusee_host::build::BUILDING;
use fusee_host::meter;
use fusee_host::project::{KEPT_DIR, Project};

use crate::command::as_tool;

/// Pages whose commands are run.
const PAGES: [&str; 19] = [
    "docs/accelerator.md",
    "docs/buses.md",
    "docs/car.md",
    "docs/debugging.md",
    "docs/demo.md",
    "docs/drivers.md",
    "docs/dsp.md",
    "docs/first-power-on.md",
    "docs/first-task.md",
    "docs/five-minutes.md",
    "docs/gpu-five-minutes.md",
    "docs/lives.md",
    "docs/manifest.md",
    "docs/files.md",
    "docs/net.md",
    "docs/vision.md",
    "docs/which-policy.md",
    "docs/scheduling.md",
    "userland/demo/README.md",
];

/// One command of a page, and the lines that follow it there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Example {
    /// The page.
    pub page: &'static str,
    /// Commands to be run before, all of them for the page's later commands, too.
    pub before: Vec<String>,
    /// The command.
    pub command: String,
    /// Lines that it prints.
    pub expected: Vec<String>,
}

/// The end of the name of a check of commands that take minutes.
pub const LONG: &str = ", whole runs";

impl Example {
    /// Whether the command may take minutes of the host: its `--seconds` says so.
    #[must_use]
    pub fn is_long(&self) -> bool {
        let mut words = self.command.split_whitespace().skip_while(|word| *word != "--seconds").skip(1);
        words.next().and_then(|seconds| seconds.parse::<u64>().ok()).is_some_and(|seconds| seconds >= 600)
    }
}

/// The commands that can be checked.
pub fn examples(root: &Path) -> Result<Vec<Example>> {
    let mut all = Vec::new();
    for page in PAGES {
        let text = std::fs::read_to_string(root.join(page)).context(page)?;
        all.extend(parse(page, &text));
    }
    Ok(all)
}

/// Runs one command. Returns the lines that it does not print.
pub fn check(fusee: &Project, kept: &Path, example: &Example) -> Result<Vec<String>> {
    let root = &fusee.root;
    let mut copies = Copies::default();
    for command in &example.before {
        copies.expect(root, command)?;
        let status = Command::new("sh").args(["-c", command]).current_dir(root).status()?;
        ensure!(status.success(), "`{command}` failed");
    }
    let arguments = example.command.split_whitespace().skip_while(|word| *word != "xtask").skip(1);
    let mut command = as_tool()?;
    command.args(arguments).current_dir(root).env(KEPT_DIR, kept);
    let output = meter::output(&mut command)?;
    let printed = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    // Pages call it `target`, wherever it is.
    let printed = printed.replace(&fusee.target.display().to_string(), "target");
    let mut problems = Vec::new();
    if !output.status.success() && !example.expected.iter().any(|line| line.starts_with("error:")) {
        problems.push(format!("it failed:\n{}", String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    problems.extend(missing(&example.expected, &printed));
    Ok(problems)
}

/// Files that were copied into the sources; they go at the end.
#[derive(Default)]
struct Copies(Vec<PathBuf>);

impl Copies {
    /// `command` is next: a copy must not replace anything.
    fn expect(&mut self, root: &Path, command: &str) -> Result<()> {
        let mut words = command.split_whitespace().skip_while(|word| *word != "cp").skip(1);
        let (Some(from), Some(to)) = (words.next(), words.next()) else { return Ok(()) };
        let to = match Path::new(from).file_name().filter(|_| to.ends_with('/')) {
            Some(name) => root.join(to).join(name),
            None => root.join(to),
        };
        ensure!(!to.exists(), "{} is there already: it would be replaced", to.display());
        self.0.push(to);
        Ok(())
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        for copy in &self.0 {
            let _ = std::fs::remove_file(copy);
        }
    }
}

fn parse(page: &'static str, text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut inside = false;
    let mut wanted = false;
    let mut before = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
            wanted = false;
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            wanted = command.starts_with("cargo xtask ") && !command.starts_with("cargo xtask test");
            if wanted {
                let (command, before) = (command.to_owned(), before.clone());
                found.push(Example { page, before, command, expected: Vec::new() });
            } else if ["cp ", "mkdir ", "sed "].iter().any(|known| command.starts_with(known)) {
                before.push(command.to_owned());
            }
        } else if let Some(example) = found.last_mut().filter(|_| inside && wanted) {
            example.expected.push(line.to_owned());
        }
    }
    found
}

/// The first expected line that is not printed where it should be.
fn missing(expected: &[String], printed: &str) -> Option<String> {
    // Lines about builds are nothing to compare.
    let is_building = |line: &&str| line.split(' ').next() == Some(BUILDING);
    let printed: Vec<String> = printed.lines().filter(|line| !is_building(line)).map(normal).collect();
    let mut rest = &printed[..];
    let mut anywhere = false;
    for line in expected {
        if line.trim() == "..." {
            anywhere = true;
            continue;
        }
        let wanted = normal(line);
        let place = if anywhere { rest.iter().position(|line| *line == wanted) } else { Some(0) };
        match place.filter(|place| rest.get(*place) == Some(&wanted)) {
            Some(place) => rest = &rest[place + 1..],
            None => {
                let instead = rest.first().map_or("nothing", String::as_str);
                return Some(format!("- {wanted}\n+ {instead}"));
            }
        }
        anywhere = false;
    }
    None
}

/// A line without parts that may differ: runs of blanks and rules, numbers that have a unit of time, wholes, and which of a task's
/// jobs is meant (the latest of sixty jobs that are late by much the same is another one when times differ by a microsecond).
/// Another job waited for another one of tasks that are alike, as `hog3` and `hog5`, and for its `done.hog5`: in a line about a
/// job the numbers at the ends of quoted names may differ, too.
fn normal(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_about_job = words.iter().any(|word| is_job(word));
    let mut normal: Vec<String> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let unit = words.get(index + 1).map_or("", |next| next.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()));
        // Tables have milliseconds with three digits.
        let is_in_table = word.rsplit_once('.').is_some_and(|(_, digits)| digits.len() == 3);
        let is_time = (is_in_table || ["ns", "us", "ms", "s"].contains(&unit)) && word.parse::<f64>().is_ok();
        let is_unit = ["ns", "us", "ms", "s"].contains(word) && normal.last().is_some_and(|last| last == "#");
        let whole = |at: usize| match words.get(at..at + 3) {
            Some([part, "of", all]) => part == all && part.parse::<u64>().is_ok(),
            _ => false,
        };
        let is_whole = whole(index) || index.checked_sub(2).is_some_and(whole);
        let is_rule = word.chars().all(|c| "─═".contains(c));
        match (is_time, is_unit, is_rule) {
            _ if is_whole => normal.push("all".into()),
            // A checksum of a system.
            _ if word.strip_prefix("0x").is_some_and(|digits| digits.len() == 16) => normal.push("#".into()),
            _ if is_job(word) => normal.push(word.trim_end_matches(|c: char| c.is_ascii_digit()).into()),
            _ if is_about_job && word.starts_with('`') => {
                let name = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
                normal.push(format!("{}`", name.trim_end_matches(|c: char| c.is_ascii_digit())));
            }
            (true, ..) => normal.push("#".into()),
            // A time may have another unit next time.
            (_, true, _) => normal.push("time".into()),
            (.., true) => normal.push("─".into()),
            _ => normal.push((*word).to_owned()),
        }
    }
    normal.join(" ")
}

/// Whether the word is a job, as in `stabiliser#7`.
fn is_job(word: &str) -> bool {
    word.split_once('#').is_some_and(|(task, number)| !task.is_empty() && number.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "Try it:\n```console\n$ git clone fusee\n$ cp a b\n$ cargo xtask run\nhello\n...\nit took 5 us\n$ cargo \
                          xtask test\nall good\n```\n```rust\n$ cargo xtask none\n```\n";

    #[test]
    fn commands_and_what_they_print_are_found() {
        let expected = ["hello", "...", "it took 5 us"].map(String::from).to_vec();
        assert_eq!(
            parse("README.md", README),
            [Example { page: "README.md", before: vec!["cp a b".into()], command: "cargo xtask run".into(), expected }]
        );
    }

    #[test]
    fn a_command_that_may_take_ten_minutes_is_long() {
        let is_long = |command: &str| {
            let text = format!("```console\n$ cargo xtask {command}\n```\n");
            parse("docs/car.md", &text)[0].is_long()
        };
        assert!(is_long("run --seconds 900 --manifest a.toml") && !is_long("run --seconds 60") && !is_long("run"));
    }

    #[test]
    fn only_times_wholes_and_numbers_of_jobs_may_differ() {
        let expected = ["7 of 7 done".to_owned()];
        assert_eq!(missing(&expected, "8 of 8 done"), None);
        assert!(missing(&expected, "7 of 8 done").is_some());
        let expected = ["camera#7 was late".to_owned()];
        assert_eq!(missing(&expected, "camera#12 was late"), None);
        assert!(missing(&expected, "radar#7 was late").is_some() && missing(&expected, "camera#7 was not").is_some());
        let expected = ["camera#7 waited for `hog5`, `ee` ran".to_owned()];
        assert_eq!(missing(&expected, "camera#8 waited for `hog3`, `ee` ran"), None);
        assert!(missing(&expected, "camera#8 waited for `fan3`, `ee` ran").is_some());
        let expected = ["camera waited for `hog5`".to_owned()];
        assert!(missing(&expected, "camera waited for `hog3`").is_some());
        let expected = &parse("README.md", README)[0].expected;
        assert_eq!(missing(expected, "hello\none\ntwo\nit took 1.5 ms\n"), None);
        let expected = ["camera 90 -33.084".to_owned()];
        assert_eq!(missing(&expected, "camera  90   -1.000"), None);
        assert!(missing(&expected, "camera  91  -33.084").is_some());
        let expected = &parse("README.md", README)[0].expected;
        assert_eq!(missing(expected, "hello\nit took 7 apples\n"), Some("- it took # time\n+ it took 7 apples".into()));
        assert_eq!(missing(expected, "good day\nit took 5 us\n"), Some("- hello\n+ good day".into()));
        assert_eq!(missing(expected, ""), Some("- hello\n+ nothing".into()));
    }
}

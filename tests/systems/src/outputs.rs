//! Standard outputs that take nothing: each command ends quietly when its reader is gone, and fails on a full disk.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use anyhow::{Context, Result};
use clap::CommandFactory;
use fusee_host::workspace::Workspace;
use fusee_tool::command::Arguments;

use crate::runs::Here;

/// Name of the check.
pub const CHECK: &str = "each command ends quietly when its reader is gone, and fails on a full disk";

/// A hard task that misses: it has something to explain.
const LATE: &str = r#"
admission = "warn"
[tasks.late]
script = ["burn 2ms"]
period = "10ms"
deadline = "2ms"
budget = "1ms"
hard = true
"#;

/// The arguments of each command; `SYSTEM` is the manifest, and `NEW` a folder that is not there.
const COMMANDS: [&[&str]; 27] = [
    &["run", "--manifest", "SYSTEM", "--for", "60ms", "--observed"],
    &["run", "--manifest", "SYSTEM", "--for", "60ms", "--json"],
    &["dump"],
    &["top", "--manifest", "SYSTEM", "--for", "60ms"],
    &["build", "--manifest", "SYSTEM"],
    &["simulate", "--manifest", "SYSTEM", "--for", "100ms"],
    &["simulate", "--manifest", "SYSTEM", "--for", "100ms", "--json"],
    &["trace"],
    &["trace", "--canonical"],
    &["trace", "explain", "--missed"],
    &["trace", "explain", "--worst", "late"],
    &["suggest", "--margin", "20"],
    &["analyze", "--manifest", "SYSTEM"],
    &["analyze", "--manifest", "SYSTEM", "--json"],
    &["analyze", "--manifest", "SYSTEM", "--certificate", "NEW"],
    &["analyze", "--manifest", "SYSTEM", "--export", "sag", "--out", "NEW"],
    &["advise", "--manifest", "SYSTEM"],
    &["advise", "--manifest", "SYSTEM", "--json"],
    &["new", "NEW"],
    &["completions", "bash"],
    &["test", "--list"],
    &["experiment", "--list"],
    &["campaign", "--list"],
    &["study", "--file", "NEW"],
    &["hostile", "--show"],
    &["hostile", "--systems", "1"],
    &["contention", "--compute", "0", "--cpus", "1"],
];
/// Commands that take minutes, or need a person, a card or a board's file: they print by `words`, which a lint of their crates checks.
const OTHERS: [&str; 10] =
    ["bench", "coverage", "doc", "flash", "fuzz", "gdb", "help", "longest-path", "profile", "worst"];

/// Tries them all.
///
/// # Errors
/// A command does not start.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let here = Here::of(workspace)?;
    let path = here.manifest("late", LATE)?;
    let mut problems = Vec::new();
    let tried: BTreeSet<&str> = COMMANDS.iter().map(|command| command[0]).chain(OTHERS).collect();
    let all = Arguments::command();
    for command in all.get_subcommands().filter(|command| !tried.contains(command.get_name())) {
        problems.push(format!("`{}` is not tried", command.get_name()));
    }
    // A run that `dump` and `trace` can show.
    here.expect(&mut problems, &["run", "--manifest", &path, "--for", "60ms"], 1, "declared: ")?;
    for (number, words) in COMMANDS.iter().enumerate() {
        let mut codes = Vec::new();
        for output in ["taken", "gone", "full"] {
            let new = here.manifest_path(&format!("new-{number}-{output}"))?;
            let new = new.trim_end_matches(".toml");
            let words: Vec<&str> = words
                .iter()
                .map(|word| match *word {
                    "SYSTEM" => path.as_str(),
                    "NEW" => new,
                    word => word,
                })
                .collect();
            let mut command = here.command(&words)?;
            command.stderr(Stdio::piped());
            match output {
                "taken" => command.stdout(Stdio::null()),
                "gone" => {
                    let (reader, writer) = std::io::pipe()?;
                    drop(reader);
                    command.stdout(writer)
                }
                _ => command.stdout(File::create("/dev/full")?),
            };
            let ended = command.output().with_context(|| format!("{words:?}"))?;
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            let is_loud =
                ["panicked", "Broken pipe", "os error 32", "BrokenPipe"].iter().any(|word| said.contains(word));
            if is_loud || ended.status.signal().is_some() {
                problems.push(format!("{words:?}, {output}: {}: {said}", ended.status));
            }
            if output == "full" && !said.contains("the standard output: ") {
                problems.push(format!("{words:?} into a full disk: {said}"));
            }
            codes.extend(ended.status.code());
        }
        // The verdict of a command does not depend on its reader; tests do, as they are not run to their end.
        let [taken, gone, full] = codes[..] else { continue };
        if (taken != gone && words[0] != "test") || full != 1 {
            problems
                .push(format!("{words:?} ends with {taken}, {gone} if the reader is gone, and {full} on a full disk"));
        }
    }
    Ok(problems)
}

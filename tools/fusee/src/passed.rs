//! Commands that other programs of this repository carry out: its checks, and its measurements. They are compiled when they are first
//! asked for, so a project of one's own never compiles them to run a system.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::Args;
use fusee_host::project::{Project, built, cargo};
use fusee_host::system::{root, write};
use serde_json::Value;

use crate::command::Arguments;

/// Arguments that are handed on as they are.
#[derive(Args, Clone, Default)]
#[command(disable_help_flag = true)]
pub struct Passed {
    /// Arguments of the command; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// The package of measurements and experiments.
const RESEARCH: &str = "fusee-research";
/// The package of looks into systems that run.
pub const LOOKS: &str = "fusee-looks";
/// The package of advice on arrangements.
const ADVISE: &str = "fusee-advise";
/// The package of the simulator's command.
const SIMULATE: &str = "fusee-simulate";
/// The package of cards.
const FLASH: &str = "fusee-flash";
/// The package of a project's tests.
const TESTER: &str = "fusee-tester";
/// The package of this repository's checks.
const SYSTEMS: &str = "systems";

/// Runs a command of `research`.
///
/// # Errors
/// Cargo does not start.
pub fn research(name: &str, passed: &Passed, arguments: &Arguments) -> Result<bool> {
    run(RESEARCH, name, passed, arguments)
}

/// Looks into a system that runs.
///
/// # Errors
/// Cargo does not start.
pub fn looks(name: &str, passed: &Passed, arguments: &Arguments) -> Result<bool> {
    run(LOOKS, name, passed, arguments)
}

/// Advises on the arrangement of tasks on CPUs.
///
/// # Errors
/// Cargo does not start.
pub fn advise(passed: &Passed, arguments: &Arguments) -> Result<bool> {
    run(ADVISE, "advise", passed, arguments)
}

/// Simulates systems and task sets.
///
/// # Errors
/// Cargo does not start.
pub fn simulate(passed: &Passed, arguments: &Arguments) -> Result<bool> {
    run(SIMULATE, "simulate", passed, arguments)
}

/// Makes or writes a card.
///
/// # Errors
/// Cargo does not start.
pub fn flash(passed: &Passed, arguments: &Arguments) -> Result<bool> {
    run(FLASH, "flash", passed, arguments)
}

/// The target of the checks.
const CHECKS: &str = "all";
/// Names the file with all programs of tests that cargo has built, one line of JSON for each.
pub const TESTS: &str = "FUSEE_HOST_TESTS";
/// How names of tests on the host begin.
const ON_HOST: &str = "host";

/// Tests a project. In this repository, builds all tests of the host and its checks, in one call of cargo so that no crate is compiled twice, and runs the checks.
///
/// With a filter, tests on the host are built only if the filter asks for them.
///
/// # Errors
/// Cargo does not start, or does not say where the checks are.
pub fn test(passed: &Passed, arguments: &Arguments) -> Result<bool> {
    let fusee = Project::fusee()?;
    if !Project::here()?.is(&fusee) {
        return run(TESTER, "test", passed, arguments);
    }
    let wants_host = filter(&passed.arguments).is_none_or(|filter| filter.starts_with(ON_HOST));
    let mut command = cargo();
    command.args(["test", "--no-run", "--quiet", "--message-format", "json-render-diagnostics"]);
    let defaults = fusee.defaults.iter().map(String::as_str).filter(|_| wants_host);
    for package in defaults.chain([SYSTEMS]) {
        command.args(["--package", package]);
    }
    let output = command.current_dir(&fusee.root).stderr(Stdio::inherit()).output().context("cargo does not start")?;
    if !output.status.success() {
        return Ok(false);
    }
    let list = fusee.target.join("systems/tests.json");
    write(&list, &output.stdout)?;
    let is_ours = |message: &Value| {
        let id = message["package_id"].as_str().unwrap_or_default();
        id.contains("tests/systems") && message["target"]["name"] == CHECKS
    };
    let program = built(&String::from_utf8_lossy(&output.stdout), is_ours).context("cargo has built no checks")?;
    let mut command = Command::new(program);
    command.current_dir(&fusee.root).env("CARGO_MANIFEST_DIR", fusee.root.join("tests/systems")).env(TESTS, list);
    if !wants_host {
        command.env_remove(TESTS);
    }
    let status = command
        .args(arguments.everywhere.words())
        .args(&passed.arguments)
        .status()
        .context("the checks do not start")?;
    Ok(status.success())
}

/// Options of the checks that have a value behind them.
const WITH_VALUES: [&str; 8] =
    ["--board", "--profile", "--junit", "--skip", "--test-threads", "--logfile", "--color", "--format"];

/// The filter among the arguments of the checks, if there is one.
fn filter(arguments: &[OsString]) -> Option<&str> {
    let mut words = arguments.iter().filter_map(|argument| argument.to_str());
    while let Some(word) = words.next() {
        if WITH_VALUES.contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
    None
}

/// The arguments with the `--` that stands before all of them in `line`: the parser takes it for its own, and other programs need it.
pub fn with_dashes(arguments: &[OsString], line: &[OsString]) -> Vec<OsString> {
    let mut words = arguments.to_vec();
    if let Some(place) = line.iter().position(|word| word == "--")
        && !words.iter().any(|word| word == "--")
    {
        let behind = line.len() - place - 1;
        words.insert(words.len().saturating_sub(behind), "--".into());
    }
    words
}

/// Builds a package and runs its program.
fn run(package: &str, name: &str, passed: &Passed, arguments: &Arguments) -> Result<bool> {
    let manifest = root()?.join("Cargo.toml");
    let mut command = cargo();
    command.arg("run").arg("--quiet").arg("--manifest-path").arg(manifest).args(["--package", package, "--"]);
    command.arg(name);
    let line: Vec<OsString> = std::env::args_os().collect();
    let words = with_dashes(&passed.arguments, &line);
    let status = command.args(arguments.everywhere.words()).args(words).status().context("cargo does not start")?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_an_option_is_no_filter() {
        let filter = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            super::filter(&words).map(str::to_owned)
        };
        assert_eq!(filter(&["--times", "--junit", "results.xml"]), None);
        assert_eq!(filter(&["--board", "raspi3b", "par", "--exact"]).as_deref(), Some("par"));
    }
}

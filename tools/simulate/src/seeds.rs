//! `cargo xtask simulate --seeds`: runs of one system that seeds vary, until one fails.
//!
//! A run fails if the command `simulate` would find a problem in it, or if it is not as `no_misses` and `console` of the table `[test]` expect. The first
//! seed that fails is shrunk to the things that it has to vary, and printed with the command that repeats it.
//!
//! Not here: draws and shrinking (`fusee_sim::seeds`).

use std::collections::BTreeSet;
use std::ffi::OsString;

use anyhow::{Result, bail, ensure};
use clap::Args;
use fusee_host::words::{red, say};
use fusee_manifest::Manifest;
use fusee_sim::run::overdue;
use fusee_sim::seeds::{self, Draws, Failure, Varied};
use fusee_simulator::Options;
use fusee_tool::new::shell;

use crate::simulate::{self, SimulateArguments, Simulated, excused};

/// Arguments of seeds.
#[derive(Args, Default)]
pub struct SeedsArguments {
    /// Run the system of a manifest once for each seed, until a run fails: `1..1000`, or `1..=1000` with the last. A seed draws phases, execution times up
    /// to `wcet`, and the CPU that is first at one instant.
    #[arg(long, value_parser = range, conflicts_with_all = ["seed", "json", "svg", "png", "observed"])]
    seeds: Option<Range>,
    /// Let tasks that are not `hard` crash, too, at instants that the seed draws.
    #[arg(long)]
    faults: bool,
    /// The things that a seed varies, in place of all: `order`, `phase:TASK`, `time:TASK`, `crash:TASK`.
    #[arg(long, value_name = "THINGS", value_delimiter = ',', conflicts_with = "faults")]
    vary: Vec<Varied>,
}

/// Seeds from the first to the last, both included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Range(u64, u64);

/// Seeds on the command line.
fn range(text: &str) -> Result<Range, String> {
    let parts = || {
        let (first, rest) = text.split_once("..")?;
        let first: u64 = first.parse().ok()?;
        let last = match rest.strip_prefix('=') {
            Some(last) => last.parse().ok()?,
            None => rest.parse::<u64>().ok()?.checked_sub(1)?,
        };
        (first <= last).then_some(Range(first, last))
    };
    parts().ok_or_else(|| "a range that is not empty, such as `1..1000`, or `1..=1000` with the last".to_owned())
}

impl SeedsArguments {
    /// Whether several seeds are asked for.
    pub(crate) const fn has_range(&self) -> bool {
        self.seeds.is_some()
    }

    /// Whether one of these arguments is there.
    pub(crate) const fn has_any(&self) -> bool {
        self.has_range() || self.faults || !self.vary.is_empty()
    }
}

/// Returns the draws of a seed, as the command line has them. Crashes fall before the end of the run that nothing varies.
///
/// # Errors
/// A thing that the system does not have; or the run that nothing varies ends with an error.
pub fn draws(manifest: &Manifest, options: &Options, arguments: &SimulateArguments, seed: u64) -> Result<Draws> {
    let varied = varied(manifest, &arguments.seeds)?;
    let crashes = varied.iter().any(|one| matches!(one, Varied::Crash(_)));
    let plain = if crashes { Some(simulate::run(manifest, options, arguments)?) } else { None };
    Ok(of_seed(seed, varied, plain.as_ref()))
}

/// The draws of a seed, with crashes before the end of the run `plain`.
fn of_seed(seed: u64, varied: BTreeSet<Varied>, plain: Option<&Simulated<'_>>) -> Draws {
    let draws = Draws::new(seed, varied);
    plain.map_or(draws.clone(), |plain| Draws { horizon: plain.report.ended_at, ..draws })
}

/// The things that vary.
fn varied(manifest: &Manifest, arguments: &SeedsArguments) -> Result<BTreeSet<Varied>> {
    let all = Varied::all(manifest, arguments.faults || !arguments.vary.is_empty());
    let names = || Draws::new(0, all.clone()).listed();
    if let Some(other) = arguments.vary.iter().find(|one| !all.contains(one)) {
        bail!("{}: `{other}` cannot vary; there are {}", manifest.file.display(), names());
    }
    ensure!(!all.is_empty(), "{}: no seed varies this system: it has no task with a period", manifest.file.display());
    Ok(if arguments.vary.is_empty() { all } else { arguments.vary.iter().cloned().collect() })
}

/// Runs the system for each seed, and prints the first that fails, or that all pass. Returns whether all pass.
///
/// # Errors
/// A thing that the system does not have.
pub fn search(manifest: &Manifest, options: &Options, arguments: &SimulateArguments) -> Result<bool> {
    let plain = simulate::run(manifest, options, arguments)?;
    if let Some(why) = wrong(manifest, options, &plain) {
        eprintln!("{} the run that no seed varies fails: {why}", red("error:"));
        return Ok(false);
    }
    let began = std::time::Instant::now();
    let mut runs = 0_u64;
    let found = find(manifest, options, arguments, &plain, &mut runs)?;
    let speed = runs as f64 / began.elapsed().as_secs_f64().max(1e-9);
    match &found {
        Ok(passed) => {
            let things = Draws::new(0, varied(manifest, &arguments.seeds)?).listed();
            say(&format!("{passed} seeds pass, which vary {things}"));
        }
        Err(failure) => {
            say(&format!("{} seeds pass before the first that fails", failure.passed));
            eprintln!("{} {failure}", red("error:"));
            eprintln!("repeat it by: {}", repeat(std::env::args_os(), &failure.draws));
        }
    }
    eprintln!("{runs} runs, {speed:.0} a second");
    Ok(found.is_ok())
}

/// Looks for the first seed that fails, and counts `runs`; `plain` is the run that no seed varies. Returns how many seeds passed, or the failure.
fn find(
    manifest: &Manifest,
    options: &Options,
    arguments: &SimulateArguments,
    plain: &Simulated<'_>,
    runs: &mut u64,
) -> Result<Result<u64, Box<Failure>>> {
    let varied = varied(manifest, &arguments.seeds)?;
    let Range(first, last) = arguments.seeds.seeds.unwrap_or(Range(1, 1));
    let draws = (first..=last).map(|seed| of_seed(seed, varied.clone(), Some(plain)));
    Ok(seeds::search(draws, |draws| {
        *runs += 1;
        failure(manifest, options, arguments, draws)
    }))
}

/// The failure of the run with these draws, in words.
fn failure(manifest: &Manifest, options: &Options, arguments: &SimulateArguments, draws: &Draws) -> Option<String> {
    let (manifest, options) = draws.draw(manifest).apply(options.clone());
    match simulate::run(&manifest, &options, arguments) {
        Ok(simulated) => wrong(&manifest, &options, &simulated),
        Err(error) => Some(format!("{error:#}")),
    }
}

/// The first problem of a run.
fn wrong(manifest: &Manifest, options: &Options, simulated: &Simulated<'_>) -> Option<String> {
    let problem = simulated.problems.first().map(|problem| problem.text.clone());
    problem.or_else(|| unexpected(manifest, &excused(manifest, options), simulated))
}

/// The first of `no_misses` and `console` of the table `[test]` with which a run is at odds. Lines of the console are compared if the system has ended itself.
fn unexpected(manifest: &Manifest, excused: &[usize], simulated: &Simulated<'_>) -> Option<String> {
    let expected = manifest.expectations.as_ref()?;
    let Simulated { report, metrics, trace, .. } = simulated;
    let late = |task: &usize| {
        let seen = &metrics.tasks[*task];
        let overdue = overdue(&trace.records, *task, report.ended_at);
        let misses = seen.misses() + seen.skipped + overdue;
        let words = || format!("`{}` has {} jobs, {misses} of them late or left out", seen.name, seen.jobs());
        (seen.jobs() == 0 || misses > 0).then(words)
    };
    let lines = |line: &&String| {
        let shown = report.console.lines().filter(|shown| shown.trim_end() == **line).count();
        let wanted = expected.console.iter().filter(|other| other == line).count();
        let words = || format!("the console shows the line `{line}` {shown} times, not {wanted}");
        (shown != wanted).then(words)
    };
    let late = expected.no_misses.iter().filter(|task| !excused.contains(task)).find_map(late);
    late.or_else(|| expected.console.iter().filter(|_| report.exit.is_some()).find_map(|line| lines(&line)))
}

/// The command that repeats the run with these draws, from the words of the command that found them.
fn repeat(line: impl Iterator<Item = OsString>, draws: &Draws) -> String {
    let mut words: Vec<String> = vec!["cargo xtask".to_owned()];
    let mut is_value = false;
    for word in line.skip(1) {
        let word = word.to_string_lossy();
        let is_range = word == "--seeds" || word == "--vary";
        let is_other =
            is_value || is_range || word == "--faults" || word.starts_with("--seeds=") || word.starts_with("--vary=");
        is_value = is_range;
        if !is_other {
            words.push(shell(&word));
        }
    }
    if !draws.varied.is_empty() {
        words.push(format!("--seed {} --vary {}", draws.seed, shell(&draws.listed())));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;
    use fusee_host::project::Project;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: SimulateArguments,
    }

    fn parsed(words: &[&str]) -> SimulateArguments {
        Line::parse_from(["simulate", "races.toml", "--for", "200ms"].iter().chain(words)).arguments
    }

    /// The system `name` of two programs with a planted race, in which one of them notices the race and panics.
    fn system(name: &str, from: &str, to: &str) -> Manifest {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../sim/tests/all/{name}.toml"));
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains(from), "{text}");
        Manifest::parse(Path::new("races.toml"), &text.replace(from, to)).unwrap()
    }

    /// Finds a race, and repeats it by the printed command.
    fn found(manifest: &Manifest, words: &str) {
        let arguments = parsed(&["--seeds", "1..300"]);
        let hosted = simulate::hosted(&Project::fusee().unwrap(), manifest, &arguments).unwrap();
        let options = Options { hosted, ..Options::default() };
        let plain = simulate::run(manifest, &options, &arguments).unwrap();
        assert_eq!(wrong(manifest, &options, &plain), None);
        let mut runs = 0;
        let failure = find(manifest, &options, &arguments, &plain, &mut runs).unwrap().unwrap_err();
        assert!(failure.why.contains(words), "{failure}");
        assert!((1..=2).contains(&failure.draws.varied.len()), "{failure}");
        assert!(runs > failure.passed, "{runs} runs");
        let line = ["fusee-simulate", "simulate", "races.toml", "--seeds", "1..300", "--for", "200ms"];
        let line = repeat(line.map(OsString::from).into_iter(), &failure.draws);
        let (command, again) = line.split_once(" --seed ").unwrap();
        assert_eq!(command, "cargo xtask simulate races.toml --for 200ms");
        let (seed, things) = again.split_once(" --vary ").unwrap();
        let things = things.trim_matches('\'');
        let again = parsed(&["--seed", seed, "--vary", things]);
        let draws = draws(manifest, &options, &again, again.seed.unwrap()).unwrap();
        let (varied, options) = draws.draw(manifest).apply(options);
        let run = simulate::run(&varied, &options, &again).unwrap();
        assert_eq!(wrong(&varied, &options, &run), Some(failure.why.clone()), "{line}");
    }

    #[test]
    fn a_lost_update_is_found_and_its_command_repeats_it() {
        found(&system("lost_update", "audits = 1", "audits = 1"), "an update is lost");
    }

    #[test]
    fn a_lost_wake_up_is_found_and_its_command_repeats_it() {
        found(&system("lost_wakeup", "produces = 1", "produces = 1, patience = 5"), "no task takes the item");
    }

    /// Three scripts: a hard task, a task that may crash, and one that prints nothing.
    const SCRIPTS: &str = "[system]\nname = \"s\"\nboard = \"virt\"\ncpus = 1\n[tasks.one]\nscript = [\"burn 1ms\"]\nperiod = \"10ms\"\n\
                           deadline = \"3ms\"\nbudget = \"2ms\"\n[tasks.two]\nscript = [\"burn 2ms\"]\nperiod = \"20ms\"\nbudget = \"3ms\"\n";

    fn outcome(text: &str, words: &[&str]) -> Option<Box<Failure>> {
        let manifest = Manifest::parse(Path::new("s.toml"), text).unwrap();
        let arguments = parsed(words);
        let plain = simulate::run(&manifest, &Options::default(), &arguments).unwrap();
        assert_eq!(wrong(&manifest, &Options::default(), &plain), None);
        find(&manifest, &Options::default(), &arguments, &plain, &mut 0).unwrap().err()
    }

    #[test]
    fn crashes_of_drawn_tasks_are_no_failures_and_expectations_of_a_manifest_are() {
        assert!(outcome(SCRIPTS, &["--seeds", "1..=30", "--faults"]).is_none());
        let expects = format!("{SCRIPTS}[test]\nno_misses = [\"one\"]\n");
        assert!(outcome(&expects, &["--seeds", "1..=30", "--faults"]).is_none());
        // By the first phases `one` comes first; by others it waits for `two`, whose deadline is earlier.
        let tight = expects.replace("3ms\"\nbudget = \"2ms", "1500us\"\nbudget = \"1500us");
        let two = "deadline = \"2500us\"\nbudget = \"2100us\"\nphase = \"1ms\"\n";
        let tight = tight.replace("budget = \"3ms\"\n", two);
        let tight = tight.replace("cpus = 1\n", "cpus = 1\nadmission = \"warn\"\n");
        let failure = outcome(&tight, &["--seeds", "1..=100"]).unwrap();
        assert!(failure.why.contains("`one` has "), "{failure}");
    }

    #[test]
    fn ranges_have_a_last_seed_or_an_end() {
        assert_eq!(range("1..1000"), Ok(Range(1, 999)));
        assert_eq!(range("7..=7"), Ok(Range(7, 7)));
        for wrong in ["", "7", "7..7", "8..=7", "..3", "3..", "a..b", "0..0"] {
            assert!(range(wrong).unwrap_err().contains("such as `1..1000`"), "{wrong}");
        }
    }

    #[test]
    fn a_thing_that_the_system_does_not_have_is_refused_with_those_that_it_has() {
        let manifest = Manifest::parse(Path::new("s.toml"), SCRIPTS).unwrap();
        let refused = |things: &str| {
            let arguments = parsed(&["--seed", "1", "--vary", things]);
            draws(&manifest, &Options::default(), &arguments, 1).unwrap_err().to_string()
        };
        let names = "there are phase:one,phase:two,crash:one,crash:two";
        assert_eq!(refused("phase:three"), format!("s.toml: `phase:three` cannot vary; {names}"));
        assert_eq!(refused("order"), format!("s.toml: `order` cannot vary; {names}"));
        let error = "phase".parse::<Varied>().unwrap_err().to_string();
        assert!(error.contains("`phase:TASK`"), "{error}");
    }
}

//! One queue of all checks: it keeps all cores of the host busy, and the runner `libtest-mimic` shows the results.
//!
//! # Invariants
//!
//! 1. The needs of the checks that run together are at most the cores of the host.
//! 2. Checks begin in the order of their stages, and within a stage those first that took longest when times were recorded.
//! 3. A check that panics fails, and no other check does.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fusee_host::{meter, report, words};
use libtest_mimic::{Completion, Failed, Trial};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::case::{Case, Found, Kind, Needs};

/// One check that is over.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its name.
    pub name: String,
    /// Its sort.
    pub kind: Kind,
    /// Its findings.
    pub found: Found,
    /// From the beginning of the queue to its own, waiting for cores included.
    pub began: Duration,
    /// How long it waited for cores.
    pub waited: Duration,
    /// How long it ran.
    pub took: Duration,
    /// CPU time, programs included.
    pub used: Duration,
}

/// Cores of the host, given away in the order in which they are asked for.
struct Cores {
    state: Mutex<State>,
    changed: Condvar,
    all: usize,
}

struct State {
    free: usize,
    next: u64,
    serving: u64,
}

impl Cores {
    fn new(all: usize) -> Self {
        Cores { state: Mutex::new(State { free: all, next: 0, serving: 0 }), changed: Condvar::new(), all }
    }

    fn count(&self, needs: Needs) -> usize {
        match needs {
            Needs::Core => 1,
            Needs::Cores => 2.min(self.all),
            Needs::Alone => self.all,
        }
    }

    fn take(&self, count: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = state.next;
        state.next += 1;
        while state.serving != ticket || state.free < count {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.free -= count;
        state.serving += 1;
        self.changed.notify_all();
    }

    fn give(&self, count: usize) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).free += count;
        self.changed.notify_all();
    }
}

/// Sorts checks by stage, and within a stage by the seconds of CPU that they took before, longest first. A check without a record comes first: it may be long.
fn sort(cases: &mut [Case], seconds: &BTreeMap<String, f64>) {
    let before = |case: &Case| seconds.get(&case.name).copied().unwrap_or(f64::MAX);
    cases.sort_by(|one, other| {
        one.stage.cmp(&other.stage).then(before(other).total_cmp(&before(one))).then(one.name.cmp(&other.name))
    });
}

/// Runs the checks that the runner's arguments ask for: the results, and whether all is well.
pub fn run(
    mut cases: Vec<Case>,
    arguments: &libtest_mimic::Arguments,
    seconds: &BTreeMap<String, f64>,
) -> (Vec<Done>, libtest_mimic::Conclusion) {
    sort(&mut cases, seconds);
    let workers = arguments.test_threads.or_else(|| std::thread::available_parallelism().ok().map(Into::into));
    let cores = Arc::new(Cores::new(workers.unwrap_or(1)));
    let done = Arc::new(Mutex::new(Vec::new()));
    let started = Instant::now();
    let trials = cases.into_iter().map(|case| {
        let (cores, done) = (Arc::clone(&cores), Arc::clone(&done));
        let name = case.name.clone();
        Trial::ignorable_test(name, move || one(case, &cores, &done, started))
    });
    let conclusion = libtest_mimic::run(arguments, trials.collect());
    let done = std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner));
    (done, conclusion)
}

/// The runner panics if its lines are not taken: from here on that ends this program, quietly if the reader of the lines is gone.
pub fn heed_output() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let words = panic.to_string();
        let is_of_runner = panic.location().is_some_and(|place| place.file().contains("libtest-mimic"))
            || words.contains("failed printing to stdout");
        match () {
            () if is_of_runner && words.contains("Broken") => std::process::exit(1),
            () if is_of_runner => {
                let error = words.rsplit("message: ").next().unwrap_or(&words);
                eprintln!("{} the standard output: {error}", report::red("error:"));
                std::process::exit(1)
            }
            () => usual(panic),
        }
    }));
}

fn one(case: Case, cores: &Cores, done: &Mutex<Vec<Done>>, started: Instant) -> Result<Completion, Failed> {
    let Case { name, kind, needs, body, .. } = case;
    let began = started.elapsed();
    let count = cores.count(needs);
    cores.take(count);
    let waited = started.elapsed() - began;
    let before = meter::used();
    let found = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => Found::from(vec![format!("{error:#}")]),
        Err(_) => Found::from(vec!["the check panicked; its message is above".to_owned()]),
    };
    let used = meter::used() - before;
    cores.give(count);
    let took = started.elapsed() - began - waited;
    if let Some(more) = &found.words {
        words::say(&format!("     {name}: {more}"));
    }
    // Told at once, and again at the end: a run takes minutes.
    for line in found.problems.iter().flat_map(|problem| problem.lines()) {
        words::say(&format!("       {line}"));
    }
    let result = match (&found.skipped, &found.problems[..]) {
        (Some(why), _) => Ok(Completion::ignored_with(why)),
        (None, []) => Ok(Completion::Completed),
        (None, problems) => Err(Failed::from(problems.join("\n"))),
    };
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    done.push(Done { name, kind, found, began, waited, took, used });
    result
}

/// The results as JUnit XML, in one suite of this name.
///
/// # Errors
/// The writer of JUnit fails.
pub fn junit(name: &str, all: &[Done]) -> Result<String> {
    let mut suite = TestSuite::new(name);
    for done in all {
        let mut status = match &done.found.skipped {
            Some(why) => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(why.as_str());
                status
            }
            None => TestCaseStatus::success(),
        };
        if let Some(first) = done.found.problems.first() {
            status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(first.lines().next().unwrap_or_default());
            status.set_description(done.found.problems.join("\n"));
        }
        let mut case = TestCase::new(done.name.as_str(), status);
        case.set_classname(name).set_time(done.took);
        suite.add_test_case(case);
    }
    let mut report = Report::new("cargo xtask test");
    report.add_test_suite(suite);
    report.to_string().context("JUnit")
}

/// Writes the results as JUnit XML.
///
/// # Errors
/// The file cannot be written.
pub fn write_junit(path: &Path, name: &str, all: &[Done]) -> Result<()> {
    fusee_host::system::write(path, junit(name, all)?.as_bytes())
}

/// The message for a filter that matches no name.
pub fn no_match(filter: &str, names: &[String]) -> String {
    let mut nearest: Vec<&str> = names.iter().map(String::as_str).collect();
    // A filter is a part of a name, so it is compared with the most similar words of it.
    let words = filter.split(['_', ' ']).count();
    let similarity = |name: &str| {
        let all: Vec<&str> = name.split(['_', ' ', '/', '.', ':']).filter(|word| !word.is_empty()).collect();
        let parts = all.windows(words.min(all.len())).map(|part| strsim::jaro_winkler(&part.join("_"), filter));
        parts.fold(strsim::jaro_winkler(name, filter), f64::max)
    };
    nearest.sort_by(|one, other| similarity(other).total_cmp(&similarity(one)));
    let nearest: String = nearest.iter().take(3).map(|name| format!("\n  {name}")).collect();
    let error = report::red("error:");
    format!("{error} none of {} checks has `{filter}` in its name; the nearest names are{nearest}", names.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn done(name: &str, problems: &[&str]) -> Done {
        let problems = problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        Done {
            name: name.to_owned(),
            kind: Kind::Det,
            found: Found::from(problems),
            began: Duration::ZERO,
            waited: Duration::ZERO,
            took: Duration::from_millis(1_500),
            used: Duration::ZERO,
        }
    }

    #[test]
    fn the_results_are_junit_xml_by_a_parser_that_is_not_ours() {
        let bad = done("a <b> & \"c\" \u{1b}[1m", &["ended with code 3, not 0\nsee < & >", "second"]);
        let skipped = Done { found: Found::skipped("no browser"), ..done("page", &[]) };
        let text = junit("fusee", &[done("good", &[]), bad, skipped]).unwrap();
        let parsed = junit_parser::from_reader(std::io::Cursor::new(text)).unwrap();
        assert_eq!((parsed.tests, parsed.failures, parsed.errors, parsed.skipped), (3, 1, 0, 1));
        let [suite] = &parsed.suites[..] else { panic!("one suite") };
        assert_eq!((suite.cases[0].name.as_str(), suite.cases[0].time), ("fusee::good", 1.5));
        assert!(suite.cases[0].status.is_success());
        assert!(suite.cases[1].name.starts_with("fusee::a <b> & \"c\""));
        assert_eq!(suite.cases[1].status.failure_as_ref().message, "ended with code 3, not 0");
    }

    #[test]
    fn a_filter_that_matches_nothing_is_told_how_many_checks_there_are_and_the_nearest() {
        let names = ["det::a_client_whose_server_dies", "det::an_engine_that_hangs", "page::README.md"];
        let words = no_match("engin_that", &names.map(str::to_owned));
        let lines: Vec<&str> = words.lines().collect();
        assert!(lines[0].ends_with("none of 3 checks has `engin_that` in its name; the nearest names are"));
        assert_eq!(lines[1], "  det::an_engine_that_hangs");
    }

    #[test]
    fn longer_checks_of_a_stage_come_first_and_unknown_ones_before_them() {
        let case = |name: &str, kind| Case::of(name, kind, || Ok(Vec::new()));
        let mut cases =
            vec![case("short", Kind::Det), case("long", Kind::Det), case("lint", Kind::Lint), case("new", Kind::Det)];
        sort(&mut cases, &BTreeMap::from([("short".to_owned(), 1.0), ("long".to_owned(), 9.0)]));
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["lint", "new", "long", "short"]);
    }

    #[test]
    fn checks_that_need_all_cores_run_alone_and_one_that_panics_fails_alone() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let body = |cores: usize, panics: bool| {
            move || {
                let before = RUNNING.fetch_add(cores, Ordering::SeqCst);
                std::thread::yield_now();
                let problems = if before + cores > 4 { vec!["too many at once".to_owned()] } else { Vec::new() };
                RUNNING.fetch_sub(cores, Ordering::SeqCst);
                assert!(!panics, "as it should");
                Ok(problems)
            }
        };
        let cases = (0..200).map(|number| match number % 4 {
            0 => Case::of(number.to_string(), Kind::Det, body(4, false)).needs(Needs::Alone),
            1 => Case::of(number.to_string(), Kind::Det, body(2, false)).needs(Needs::Cores),
            _ => Case::of(number.to_string(), Kind::Det, body(1, number == 7)),
        });
        let arguments = libtest_mimic::Arguments { test_threads: Some(4), quiet: true, ..Default::default() };
        let (done, conclusion) = run(cases.collect(), &arguments, &BTreeMap::new());
        assert_eq!((conclusion.num_passed, conclusion.num_failed), (199, 1));
        let failed: Vec<&str> =
            done.iter().filter(|one| !one.found.problems.is_empty()).map(|one| one.name.as_str()).collect();
        assert_eq!(failed, ["7"]);
    }
}

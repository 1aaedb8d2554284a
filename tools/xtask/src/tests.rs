//! `cargo xtask test`: all checks, one line each, and a summary.
//!
//! Host checks first (format, lints, tests), then one run in QEMU for each manifest in `tests/target` and
//! each profile that its `[test]` table names, and for each arrangement of CPUs and GPUs, then the kernel's paths against the recorded figures, then the
//! commands that pages show against what they print.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use fusee_abi::image::feature;
use fusee_abi::trace::{Event, Ledger, Level};
use fusee_manifest::trace::Trace;
use fusee_manifest::{
    Board, Expectations, Manifest, ManifestError, ManifestErrors, Mark, Profile, Reason, Resolved, admission,
};
use fusee_sched_analysis::Overheads;
use fusee_simulator::metrics::Metrics;
use num_traits::ToPrimitive;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::build::{Builder, KERNEL_PACKAGE, Kernel, Programs};
use crate::configurations::{self, Seen};
use crate::judge::Watch;
use crate::kernels::{self, KernelRan};
use crate::qemu::{KERNEL_PANIC, Stimuli};
use crate::system::{self, DEFAULT_BOARD, Image, Run, RunOptions, Workspace, profile_name};
use crate::toolchain::{self, KERNEL_TARGET, R5F_TARGET, TASK_TARGET};
use crate::turns::{self, Turns};
use crate::{
    ProfileArgument, answers, bench, boards, boot, browser, combinations, conformance, demo, docs, dump_check, errata,
    experiment, faults, flash, fuzz, gdb, hostile, isolation, new, own_kernels, readme, report, screen, soundness,
    stream, structure, trace, vision, worst,
};

/// Arguments of `cargo xtask test`.
#[derive(Args, Default)]
pub struct TestArguments {
    /// Only systems and pages whose names contain this, and no host checks.
    filter: Option<String>,
    /// Only this half.
    #[arg(long)]
    only: Option<Half>,
    /// Write the golden traces, and the schemas of `--json`, instead of comparing with them.
    #[arg(long)]
    bless: bool,
    /// The systems of `tests/target` and the conformance systems on this board, in place of all else: virt-gicv2, zcu102, raspi3b, raspi4b or
    /// versal. What the board lacks is skipped, and named.
    #[arg(long)]
    board: Option<String>,
    /// With --board: only runs of this profile.
    #[arg(long, requires = "board")]
    profile: Option<ProfileArgument>,
    /// With --board: only what a whole run without it runs there: each system on one board that can run it, besides virt, and once. Otherwise all of them, and runs with
    /// counted instructions twice, which must not differ.
    #[arg(long, requires = "board")]
    share: bool,
    /// Write the results as JUnit XML, too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Half {
    /// Format, lints, tests on the host.
    Host,
    /// Systems in QEMU.
    Target,
}

impl TestArguments {
    /// Whether what has this name is to be run.
    fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
    }
}

/// Runs the checks; `false` if one fails.
pub fn test(arguments: &TestArguments, install: bool) -> Result<bool> {
    let workspace = Workspace::open(install)?.on(arguments.board.as_deref(), install);
    let started = Instant::now();
    let mut summary = Summary::default();
    if let Some(name) = arguments.board.as_deref().filter(|name| *name != DEFAULT_BOARD) {
        let board = Board::named(name)
            .with_context(|| format!("no board is called `{name}`; there are {}", Board::NAMES.join(", ")))?;
        if let Some(why) = toolchain::too_old(&workspace.qemu, &board) {
            summary.skip(&format!("all systems on {name}"), &why);
        } else {
            on_board(&workspace, arguments, &mut summary)?;
        }
        println!("{}", summary.line(started.elapsed()));
        return Ok(summary.failed() == 0);
    }
    if arguments.filter.is_none() && arguments.only != Some(Half::Target) {
        host(&workspace, &mut summary)?;
        let tests = ["--test", "hand_over", "--test", "grants", "--test", "gates"];
        let kernel = [["--package", "fusee-kernel-core", "--features", "small"].as_slice(), tests.as_slice()].concat();
        models(&workspace, &mut summary, "on the small kernel", &kernel, &[]);
        models(
            &workspace,
            &mut summary,
            "of the locking protocols",
            &["--package", "fusee-locking"],
            &["no_interleaving"],
        );
        for check in [
            soundness::check,
            soundness::check_blocking,
            soundness::check_calls,
            soundness::check_graphs,
            hostile::check,
            hostile::check_planted,
            faults::check,
        ] {
            let started = Instant::now();
            let (words, problems) = check();
            summary.add(&words, started.elapsed(), &problems);
        }
        let mut started = Instant::now();
        for (name, problems) in experiment::check() {
            summary.add(&name, started.elapsed(), &problems);
            started = Instant::now();
        }
        match fuzz::lack() {
            Some(why) => summary.skip("any bytes, guided by coverage", &why),
            None => {
                let started = Instant::now();
                match fuzz::check(&workspace) {
                    Ok((words, problems)) => {
                        summary.add(
                            &format!("any bytes, guided by coverage, steps: {words}"),
                            started.elapsed(),
                            &problems,
                        );
                    }
                    Err(error) => {
                        summary.add("any bytes, guided by coverage", started.elapsed(), &[format!("{error:#}")])
                    }
                }
            }
        }
        summary.run("where unsafe code may be", || structure::sources(&workspace.root));
        summary.run("pages, manifests and commands agree", || docs::check(&workspace.root).map(|()| Vec::new()));
    }
    if arguments.only != Some(Half::Target) {
        views(&workspace, arguments, &mut summary);
    }
    if arguments.only != Some(Half::Host) {
        target(&workspace, arguments, &mut summary)?;
        conform(&workspace, arguments, &mut summary)?;
        refuse(&workspace, arguments, &mut summary)?;
        configure(&workspace, arguments, &mut summary)?;
        combine(&workspace, arguments, &mut summary);
        tell_turns(&workspace, arguments, install, &mut summary);
        for (name, check) in OWN {
            if arguments.wants(name) {
                summary.run(name, || check(&workspace));
            }
        }
        start(&workspace, arguments, install, &mut summary);
        demos(arguments, install, &mut summary);
        look(&workspace, arguments, &mut summary)?;
        if arguments.wants(experiment::EMULATED_CHECK) {
            summary.run(experiment::EMULATED_CHECK, || experiment::check_emulated(&workspace));
        }
    }
    if arguments.filter.is_none() && arguments.only != Some(Half::Host) {
        for name in boards::others() {
            let board = Board::named(name).context("a board without a file")?;
            let workspace = Workspace::open(install)?.on(Some(name), install);
            match toolchain::too_old(&workspace.qemu, &board) {
                Some(why) => summary.skip(&format!("all systems on {name}"), &why),
                None => summary.run(&format!("{name}: its share of all systems, exact"), || {
                    let mut own = Summary { is_quiet: true, ..Summary::default() };
                    let share =
                        TestArguments { profile: Some(ProfileArgument::Det), share: true, ..TestArguments::default() };
                    on_board(&workspace, &share, &mut own)?;
                    Ok(own.problems())
                }),
            }
        }
        summary.run("kernel paths", || bench::regressions(install));
        summary.run("the longest kernel paths, where they were found", || worst::check(install));
    }
    if arguments.only.is_none() {
        for example in readme::examples(&workspace.root)?.into_iter().filter(|example| arguments.wants(example.page)) {
            let name = format!("{}: {}", example.page, example.command);
            summary.run(&name, || readme::check(&workspace.fusee, &example));
        }
    }
    if arguments.wants(SCHEMAS) {
        summary.run(SCHEMAS, || answers::check_schemas(&workspace.root, arguments.bless));
    }
    if let (true, Some(filter)) = (summary.checks.is_empty() && summary.skips.is_empty(), &arguments.filter) {
        bail!("{}", no_match(filter, &names(&workspace.root)?));
    }
    if let Some(path) = &arguments.junit {
        system::write(path, summary.junit()?.as_bytes())?;
    }
    if let Some(times) = summary.times() {
        println!("{times}");
    }
    println!("{}", summary.line(started.elapsed()));
    Ok(summary.failed() == 0)
}

/// Systems that are left to other boards.
fn elsewhere(workspace: &Workspace, arguments: &TestArguments) -> Result<BTreeSet<String>> {
    match &workspace.board {
        Some(board) if arguments.share => boards::elsewhere(&workspace.root, board),
        _ => Ok(BTreeSet::new()),
    }
}

/// The systems that a board can run, and whether they are those that it could before.
fn on_board(workspace: &Workspace, arguments: &TestArguments, summary: &mut Summary) -> Result<()> {
    let board = workspace.board.as_deref().unwrap_or(DEFAULT_BOARD);
    target(workspace, arguments, summary)?;
    if arguments.profile != Some(ProfileArgument::Par) {
        conform(workspace, arguments, summary)?;
    }
    if arguments.filter.is_none() && arguments.profile != Some(ProfileArgument::Par) && summary.failed() == 0 {
        let mut seen = boards::Results::default();
        summary.checks.iter().for_each(|check| seen.pass(&check.name));
        summary.skips.iter().for_each(|(name, why)| seen.skip(name, why));
        let elsewhere = elsewhere(workspace, arguments)?;
        summary.run("what was run is what could be run before", || {
            boards::settle(&workspace.root, board, &seen, &elsewhere, arguments.bless)
        });
    }
    Ok(())
}

/// A check that says what is wrong.
type OwnCheck = fn(&Workspace) -> Result<Vec<String>>;

/// Checks that run systems of their own.
const OWN: [(&str, OwnCheck); 16] = [
    (demo::SCREEN, demo::check_screen),
    (demo::WITHOUT_LOCKS, demo::check_without_locks),
    (demo::ON_SMS, demo::check_on_sms),
    (vision::CHECK, vision::check),
    (faults::EMULATED_CHECK, faults::check_emulated),
    (stream::CHECK, stream::check),
    (trace::MESSAGES, trace::check_messages),
    (trace::DEFMT, trace::check_defmt),
    (errata::CHECK, errata::check),
    (boot::TREES, boot::check_trees),
    (boot::ENTRIES, boot::check_entries),
    (boot::MISTAKES, boot::check_mistakes),
    (boot::PANICS, boot::check_panics),
    (kernels::CHECK, kernels::check),
    (new::CHECK, |workspace| new::check(&workspace.fusee)),
    (own_kernels::CHECK, |workspace| own_kernels::check(&workspace.fusee)),
];

/// The name of a check.
const SCHEMAS: &str = "schemas of what `--json` prints";
/// The name of another.
const R5F_LINTS: &str = "lints, firmware of a Cortex-R5F";
/// And of another.
const REFUSAL: &str = "the kernel refuses an image that gives the interrupt controller away";

/// Names that a filter can match, but for profiles and numbers that follow them.
fn names(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for folder in [&root.join("tests/target"), &root.join(conformance::FOLDER)] {
        let stem = |path: PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        names.extend(manifests(folder)?.into_iter().map(stem));
    }
    names.extend(configurations::all().iter().map(configurations::Configuration::name));
    names.extend(combinations::ALL.iter().map(|(features, _)| combinations::name(features)));
    names.extend(readme::examples(root)?.into_iter().map(|example| example.page.to_owned()));
    names.extend(
        [
            combinations::REFUSAL,
            experiment::EMULATED_CHECK,
            REFUSAL,
            SCHEMAS,
            turns::CHECK,
            isolation::CHECK,
            isolation::PROBES,
            trace::PICTURES,
            trace::PAGE_CHECK,
            browser::PAGES,
            flash::BY_U_BOOT,
            flash::READ_BACK,
        ]
        .map(str::to_owned),
    );
    names.extend(OWN.map(|(name, _)| name.to_owned()));
    names.extend(DEMO.map(demo_on));
    names.dedup();
    Ok(names)
}

/// What is said of a filter that matches no name.
fn no_match(filter: &str, names: &[String]) -> String {
    let mut nearest: Vec<&str> = names.iter().map(String::as_str).collect();
    // A filter is a part of a name, so it is compared with the most similar words of it.
    let words = filter.split(['_', ' ']).count();
    let similarity = |name: &str| {
        let all: Vec<&str> = name.split(['_', ' ', '/', '.']).collect();
        let parts = all.windows(words.min(all.len())).map(|part| strsim::jaro_winkler(&part.join("_"), filter));
        parts.fold(strsim::jaro_winkler(name, filter), f64::max)
    };
    nearest.sort_by(|one, other| similarity(other).total_cmp(&similarity(one)));
    let nearest: String = nearest.iter().take(3).map(|name| format!("\n  {name}")).collect();
    format!("none of {} checks has `{filter}` in its name; the nearest names are{nearest}", names.len())
}

#[derive(Default)]
struct Summary {
    checks: Vec<Check>,
    /// What was left out, and why.
    skips: Vec<(String, String)>,
    /// Whether nothing is printed.
    is_quiet: bool,
}

/// One check, done.
struct Check {
    name: String,
    took: Duration,
    /// What is wrong.
    problems: Vec<String>,
}

/// How many of the longest checks are named at the end.
const LONGEST: usize = 10;

impl Summary {
    fn add(&mut self, name: &str, took: Duration, problems: &[String]) {
        if !self.is_quiet {
            let verdict = if problems.is_empty() { report::green("ok    ") } else { report::red("FAILED") };
            println!("{verdict} {name} ({:.1} s)", took.as_secs_f64());
            for line in problems.iter().flat_map(|problem| problem.lines()) {
                println!("       {line}");
            }
        }
        self.checks.push(Check { name: name.to_owned(), took, problems: problems.to_vec() });
    }

    /// Says what is not checked, and why.
    fn skip(&mut self, name: &str, why: &str) {
        if !self.is_quiet {
            println!("{} {name}: {why}", report::yellow("skip  "));
        }
        self.skips.push((name.to_owned(), why.to_owned()));
    }

    /// What is wrong, each with the name of its check.
    fn problems(&self) -> Vec<String> {
        let all = self.checks.iter().flat_map(|check| check.problems.iter().map(|problem| (&check.name, problem)));
        all.map(|(name, problem)| format!("{name}: {problem}")).collect()
    }

    fn failed(&self) -> usize {
        self.checks.iter().filter(|check| !check.problems.is_empty()).count()
    }

    /// The results as JUnit XML.
    fn junit(&self) -> Result<String> {
        let mut suite = TestSuite::new("fusee");
        for check in &self.checks {
            let mut status = TestCaseStatus::success();
            if let Some(first) = check.problems.first() {
                status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status.set_message(first.lines().next().unwrap_or_default());
                status.set_description(check.problems.join("\n"));
            }
            let mut case = TestCase::new(check.name.as_str(), status);
            case.set_classname("fusee").set_time(check.took);
            suite.add_test_case(case);
        }
        let mut report = Report::new("cargo xtask test");
        report.add_test_suite(suite);
        report.to_string().context("JUnit")
    }

    /// Runs a check, which says what is wrong.
    fn run(&mut self, name: &str, check: impl FnOnce() -> Result<Vec<String>>) {
        let started = Instant::now();
        let problems = check().unwrap_or_else(|error| vec![format!("{error:#}")]);
        self.add(name, started.elapsed(), &problems);
    }

    /// Where the time went, if there were many checks.
    fn times(&mut self) -> Option<String> {
        if self.checks.len() <= LONGEST {
            return None;
        }
        self.checks.sort_by_key(|check| std::cmp::Reverse(check.took));
        let sum = |checks: &[Check]| checks.iter().map(|check| check.took.as_secs_f64()).sum::<f64>();
        let (longest, others) = self.checks.split_at(LONGEST);
        let mut text = format!("{:.0} s of checks, of which these took longest:\n", sum(&self.checks));
        for Check { name, took, .. } in longest {
            let short: String = name.chars().take(100).collect();
            text += &format!("{:7.1} s  {short}\n", took.as_secs_f64());
        }
        Some(text + &format!("{:7.1} s  {} others", sum(others), others.len()))
    }

    fn line(&self, took: Duration) -> String {
        let all = self.checks.len();
        match self.failed() {
            0 => report::green(&format!("all {all} checks passed in {:.0} s", took.as_secs_f64())),
            failed => {
                let failures = self.checks.iter().filter(|check| !check.problems.is_empty());
                let names: Vec<&str> = failures.map(|check| check.name.as_str()).collect();
                report::red(&format!("{failed} of {all} checks failed: {}", names.join("; ")))
            }
        }
    }
}

//--- On the host

fn host(workspace: &Workspace, summary: &mut Summary) -> Result<()> {
    let members = Members::read(&workspace.root)?;
    let toolchain = &workspace.toolchain;
    let mut check = |name: &str, command: Option<Command>, arguments: &[&str]| {
        let Some(mut command) = command else {
            summary.skip(name, &format!("the {} toolchain lacks the tool", toolchain.name));
            return;
        };
        let started = Instant::now();
        let output = seeded(&mut command).current_dir(&workspace.root).args(arguments).output();
        let problems = match output {
            Ok(output) if output.status.success() => Vec::new(),
            Ok(output) => [output.stdout, output.stderr]
                .map(|text| String::from_utf8_lossy(&text).into_owned())
                .into_iter()
                .filter(|text| !text.trim().is_empty())
                .collect(),
            Err(error) => vec![format!("does not start: {error}")],
        };
        summary.add(name, started.elapsed(), &problems);
    };

    check("format", toolchain.plugin("fmt", "host", &[]), &["--all", "--check"]);
    let strict = ["--", "-D", "warnings"];
    let clippy = |target, flags| toolchain.plugin("clippy", target, flags);
    check("lints, host", clippy("host", &[]), &[&["--quiet", "--all-targets"], &strict[..]].concat());
    let target_dir = workspace.builder().target_dir().display().to_string();
    let bare_kernel = vec![KERNEL_PACKAGE.to_owned()];
    let no_r5f = toolchain.add_target(R5F_TARGET).err();
    for (name, target, flags, packages, features) in [
        ("lints, kernel and firmware", KERNEL_TARGET, &[][..], &members.kernel, &[][..]),
        ("lints, kernel without features", KERNEL_TARGET, &[][..], &bare_kernel, &["--no-default-features"][..]),
        ("lints, drivers and tasks", TASK_TARGET, &[][..], &members.tasks, &[][..]),
        (R5F_LINTS, R5F_TARGET, &[][..], &members.r5f, &[][..]),
    ] {
        if target == R5F_TARGET && no_r5f.is_some() {
            continue;
        }
        let mut arguments = vec!["--quiet", "--target", target, "--target-dir", &target_dir];
        arguments.extend(features);
        for package in packages {
            arguments.extend(["--package", package]);
        }
        arguments.extend(strict);
        check(name, clippy(target, flags), &arguments);
    }
    let rustdoc = |target, flags| {
        let mut command = toolchain.cargo(target, flags);
        command.env("RUSTDOCFLAGS", "-D warnings");
        Some(command)
    };
    check("documentation, host", rustdoc("host", &[]), &["doc", "--quiet", "--no-deps"]);
    let mut arguments = vec!["doc", "--quiet", "--no-deps", "--target", KERNEL_TARGET, "--target-dir", &target_dir];
    for package in &members.kernel {
        arguments.extend(["--package", package]);
    }
    check("documentation, kernel and firmware", rustdoc(KERNEL_TARGET, &[]), &arguments);
    check("tests on the host", Some(toolchain.cargo("host", &[])), &["test", "--quiet", "--no-fail-fast"]);
    let mut launches = toolchain.cargo("host", &[]);
    launches.env("FUSEE_LAUNCHES", LAUNCHES);
    let arguments = ["test", "--quiet", "--package", "fusee-device-model", "--test", "launches", "random"];
    check(&format!("{LAUNCHES} random launches of GPU kernels"), Some(launches), &arguments);
    // The only unsafe code that runs on a host. Loom switches stacks, which Miri cannot.
    let miri = toolchain.plugin("miri", "host", &[]).map(|mut miri| {
        miri.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        miri
    });
    let without_loom = ["--skip", "in_every_order", "--skip", "without_fences"];
    let channels = ["test", "--quiet", "--package", "fusee", "--lib", "channel::tests::", "--"];
    check("memory that tasks share, under Miri", miri, &[channels.as_slice(), without_loom.as_slice()].concat());
    if let Some(error) = no_r5f {
        summary.skip(R5F_LINTS, &error.to_string());
    }
    Ok(())
}

/// The README's pictures, and all pages where there is a browser.
fn views(workspace: &Workspace, arguments: &TestArguments, summary: &mut Summary) {
    if arguments.wants(trace::PICTURES) {
        summary.run(trace::PICTURES, || trace::check_pictures(&workspace.root));
    }
    let browser = browser::browser();
    let checks: [(&str, browser::Check); 2] =
        [(trace::PAGE_CHECK, trace::check_page), (browser::PAGES, browser::check_pages)];
    for (name, check) in checks.into_iter().filter(|(name, _)| arguments.wants(name)) {
        match browser {
            Some(browser) => summary.run(name, || check(&workspace.root, browser)),
            None => summary.skip(name, "there is no Chromium here"),
        }
    }
}

/// How many launches a random test of GPU kernels makes here; in a plain `cargo test` fewer.
const LAUNCHES: &str = "1000000";

/// Lets random tests draw the same cases in each run, unless a seed is given: whether a change is let in does not depend on luck. A plain `cargo test` draws
/// others each time, and finds what no run has met.
fn seeded(command: &mut Command) -> &mut Command {
    const SEED: &str = "PROPTEST_RNG_SEED";
    match std::env::var_os(SEED) {
        Some(_) => command,
        None => command.env(SEED, "1"),
    }
}

/// Explores every interleaving of the models among these tests; what they print says how many states there were.
fn models(workspace: &Workspace, summary: &mut Summary, what: &str, tests: &[&str], filter: &[&str]) {
    let arguments = [&["test", "--quiet"][..], tests, &["--", "--nocapture"], filter].concat();
    let started = Instant::now();
    let mut command = workspace.toolchain.cargo("host", &[]);
    let output = seeded(&mut command).current_dir(&workspace.root).args(arguments).output();
    let took = started.elapsed();
    match output {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let explored: Vec<(u64, u64)> = text.lines().filter_map(explored).collect();
            let sum = |of: fn(&(u64, u64)) -> u64| explored.iter().map(of).sum::<u64>();
            let (states, transitions) = (sum(|model| model.0), sum(|model| model.1));
            let problems = if output.status.success() && !explored.is_empty() {
                Vec::new()
            } else {
                [text.clone(), String::from_utf8_lossy(&output.stderr)].map(std::borrow::Cow::into_owned).to_vec()
            };
            let name = format!(
                "every interleaving {what}: {} models, {states} states, {transitions} transitions",
                explored.len()
            );
            summary.add(&name, took, &problems);
        }
        Err(error) => summary.add(&format!("every interleaving {what}"), took, &[format!("does not start: {error}")]),
    }
}

/// States and transitions, from `name: 12 states, 34 transitions`.
fn explored(line: &str) -> Option<(u64, u64)> {
    let (before, after) = line.split_once(" states, ")?;
    let states = before.rsplit(' ').next()?.parse().ok()?;
    Some((states, after.split(' ').next()?.parse().ok()?))
}

/// The crate that is built for a Cortex-R5F.
const R5F_FIRMWARE: &str = "drivers/r5f/firmware";

/// Packages that are not built for the host, by their target.
struct Members {
    kernel: Vec<String>,
    tasks: Vec<String>,
    r5f: Vec<String>,
}

impl Members {
    fn read(root: &Path) -> Result<Self> {
        let parse = |path: PathBuf| -> Result<toml::Table> {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            toml::from_str(&text).with_context(|| path.display().to_string())
        };
        let workspace = parse(root.join("Cargo.toml"))?;
        let list = |key: &str| -> Vec<String> {
            let names = workspace.get("workspace").and_then(|table| table.get(key)).and_then(|list| list.as_array());
            names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let on_host = list("default-members");
        let mut members = Self { kernel: Vec::new(), tasks: Vec::new(), r5f: Vec::new() };
        for folder in list("members").into_iter().filter(|folder| !on_host.contains(folder)) {
            let package = parse(root.join(&folder).join("Cargo.toml"))?;
            let name = package.get("package").and_then(|package| package.get("name")).and_then(|name| name.as_str());
            let Some(name) = name else { bail!("{folder}/Cargo.toml names no package") };
            let list = match folder.as_str() {
                R5F_FIRMWARE => &mut members.r5f,
                folder if folder.starts_with("userland/") || folder.starts_with("drivers/") => &mut members.tasks,
                _ => &mut members.kernel,
            };
            list.push(name.to_owned());
        }
        Ok(members)
    }
}

//--- On the target

struct Case {
    manifest: Manifest,
    profile: Profile,
}

impl Case {
    fn name(&self) -> String {
        format!("{} ({})", self.manifest.system.name, profile_name(self.profile))
    }
}

/// What the board lacks, if a manifest was refused for nothing else.
fn lacks(error: &anyhow::Error) -> Option<String> {
    let errors = error.downcast_ref::<ManifestErrors>()?;
    let is_lack = |error: &ManifestError| matches!(error.reason, Reason::BoardLacks { .. });
    errors.0.iter().all(is_lack).then(|| errors.0[0].reason.to_string())
}

/// Why the firmware of a processor of the board cannot be built here, if the system has one.
fn no_compiler(workspace: &Workspace, manifest: &Manifest) -> Option<String> {
    let programs = manifest.system.devices.iter().filter_map(|device| device.processor.as_ref()?.program);
    (programs.count() > 0)
        .then(|| workspace.toolchain.add_target(R5F_TARGET).err())
        .flatten()
        .map(|error| error.to_string())
}

fn target(workspace: &Workspace, arguments: &TestArguments, summary: &mut Summary) -> Result<()> {
    let mut cases = Vec::new();
    // All on one board: a system that is for another shows what this one lacks.
    let board = workspace.board.as_deref().unwrap_or(DEFAULT_BOARD);
    let elsewhere = elsewhere(workspace, arguments)?;
    for path in manifests(&workspace.root.join("tests/target"))? {
        let manifest = match system::read_manifest_for(&workspace.root, &path, Some(board)) {
            Ok(manifest) => manifest,
            Err(error) => {
                if let Some(lacks) = lacks(&error) {
                    let name = path.file_stem().unwrap_or_default().to_string_lossy();
                    if arguments.wants(&name) {
                        summary.skip(&name, &lacks);
                    }
                    continue;
                }
                summary.add(&path.display().to_string(), Duration::ZERO, &[format!("{error:#}")]);
                continue;
            }
        };
        let name = &manifest.system.name;
        let named = arguments.wants(name) && !elsewhere.contains(name);
        let Some(expectations) = manifest.expectations.as_ref().filter(|_| named) else { continue };
        let of_profile = |profile: &Profile| arguments.profile.is_none_or(|wanted| Profile::from(wanted) == *profile);
        for profile in expectations.profiles.iter().copied().filter(of_profile) {
            if expectations.campaign && arguments.filter.as_ref() != Some(name) {
                summary.skip(name, &format!("a campaign: `cargo xtask test --only target {name}`"));
                continue;
            }
            if let Some(lack) = system::lacks(workspace, &manifest.system, profile) {
                summary.skip(&manifest.system.name, &lack);
                continue;
            }
            if let Some(lack) = no_compiler(workspace, &manifest) {
                summary.skip(&manifest.system.name, &lack);
                continue;
            }
            cases.push(Case { manifest: manifest.clone(), profile });
        }
    }
    if cases.is_empty() {
        return Ok(());
    }
    let checks = |case: &&Case| case.manifest.expectations.as_ref().is_some_and(|expected| expected.self_check);
    let systems = |checked| cases.iter().filter(move |case| checks(case) == checked).map(|case| &case.manifest.system);
    let programs = workspace.builder().programs(&systems(false).collect::<Vec<_>>())?;
    let checking: Vec<&Resolved> = systems(true).collect();
    let checked = match checking[..] {
        [] => None,
        _ => Some(Builder { kernel: Kernel::Checked, ..workspace.builder() }.programs(&checking)?),
    };

    // Single-threaded runs side by side; those that use several host threads by themselves.
    let (alone, beside): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.profile == Profile::Par);
    let programs_of = |case: &Case| checked.as_ref().filter(|_| checks(&case)).unwrap_or(&programs);
    let one = |case: &Case| match run_case(workspace, case, programs_of(case), !arguments.share) {
        Ok((run, problems)) => {
            let late = run.late_words().map_or_else(String::new, |words| format!(": {words}"));
            (case.name() + &late, Ok(problems))
        }
        Err(error) => (case.name(), Err(error)),
    };
    side_by_side(&beside, summary, |case| one(case));
    for case in alone {
        let started = Instant::now();
        let (name, problems) = one(case);
        summary.add(&name, started.elapsed(), &problems.unwrap_or_else(|error| vec![format!("{error:#}")]));
    }
    Ok(())
}

/// Runs a check for each case, on all cores of the host: its name, and what is wrong.
fn side_by_side<T: Sync>(
    cases: &[T],
    summary: &mut Summary,
    check: impl Fn(&T) -> (String, Result<Vec<String>>) + Sync,
) {
    let next = AtomicUsize::new(0);
    let shared = Mutex::new(summary);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let started = Instant::now();
                    let (name, problems) = check(case);
                    let problems = problems.unwrap_or_else(|error| vec![format!("{error:#}")]);
                    let mut summary = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    summary.add(&name, started.elapsed(), &problems);
                }
            });
        }
    });
}

//--- Conformance systems

fn conform(workspace: &Workspace, arguments: &TestArguments, summary: &mut Summary) -> Result<()> {
    let elsewhere = elsewhere(workspace, arguments)?;
    let mut paths = manifests(&workspace.root.join(conformance::FOLDER))?;
    let wanted = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        arguments.wants(&name)
    };
    paths.retain(wanted);
    let mut cases = Vec::new();
    for path in &paths {
        match conformance::Case::all(workspace, path) {
            Ok(all) => {
                for case in all.into_iter().filter(|case| !elsewhere.contains(&case.manifest.system.name)) {
                    match system::lacks(workspace, &case.manifest.system, Profile::Det) {
                        Some(lack) => summary.skip(&case.manifest.system.name, &lack),
                        None => cases.push(case),
                    }
                }
            }
            Err(error) => match lacks(&error) {
                Some(lacks) => summary.skip(&path.file_stem().unwrap_or_default().to_string_lossy(), &lacks),
                None => summary.add(&path.display().to_string(), Duration::ZERO, &[format!("{error:#}")]),
            },
        }
    }
    if cases.is_empty() {
        return Ok(());
    }
    let systems: Vec<&Resolved> = cases.iter().map(|case| &case.manifest.system).collect();
    let programs = workspace.builder().programs(&systems)?;
    // Levels are no matter of boards.
    let is_usual = workspace.board.is_none() && !cases.is_empty();
    let others = [Level::Off, Level::Marks, Level::Full].into_iter().filter(|_| is_usual);
    let kernel = |level| Builder { kernel: Kernel::Traced(level), ..workspace.builder() }.kernel(feature::ALL);
    let levels = others.map(|level| anyhow::Ok((level, kernel(level)?))).collect::<Result<Vec<_>>>()?;
    side_by_side(&cases, summary, |case| {
        let name = &case.manifest.system.name;
        match case.check(workspace, &programs, &levels, arguments.bless && is_usual) {
            Ok((responses, problems)) => (format!("{name} (QEMU, simulator, golden){responses}"), Ok(problems)),
            Err(error) => (name.clone(), Err(error)),
        }
    });
    Ok(())
}

//--- Images that no tool of ours would make

/// A place without a device, which the tool lets a region have.
const NOWHERE: u64 = 0x0b5a_5000;

/// The kernel refuses an image by itself that gives its own devices to a task.
fn refuse(workspace: &Workspace, arguments: &TestArguments, summary: &mut Summary) -> Result<()> {
    let name = REFUSAL;
    if !arguments.wants(name) {
        return Ok(());
    }
    let started = Instant::now();
    let text = format!(
        "[system]\nname = \"gives_a_device_of_the_kernel_away\"\nboard = \"virt\"\ncpus = 1\n[tasks.thief]\nscript = [\"shutdown\"]\n\
         handles = {{ loot = \"region loot: read write\", system = \"system: shutdown\" }}\n[regions.loot]\nphysical = {NOWHERE:#x}\n\
         bytes = \"4KiB\"\ndevice = true\n"
    );
    let manifest = Manifest::parse(Path::new(name), &text)?;
    let programs = workspace.builder().programs(&[&manifest.system])?;
    let owned = manifest.system.board.owned.clone();
    let mut image = workspace.image_of(manifest, programs, Profile::Det, false)?;
    let bytes = std::fs::read(&image.path)?;
    let mut problems = Vec::new();
    let mut look = |at: u64, wanted_code: i32, words: &str| -> Result<()> {
        let mut bytes = bytes.clone();
        for offset in (0..bytes.len() - 7).step_by(8) {
            if bytes[offset..offset + 8] == NOWHERE.to_le_bytes() {
                bytes[offset..offset + 8].copy_from_slice(&at.to_le_bytes());
            }
        }
        image.path.set_extension("spoilt.img");
        std::fs::write(&image.path, bytes)?;
        let options = RunOptions::quiet(60);
        let run = system::run(workspace, &image, &options)?;
        let told = run.outcome.console.contains(words);
        if run.outcome.code != Some(wanted_code) || !told {
            problems.push(format!("{at:#x}: code {:?}, console:\n{}", run.outcome.code, run.outcome.console));
        }
        if wanted_code == KERNEL_PANIC {
            problems.extend(dump_check::check_kernel(&image, &run)?);
        }
        Ok(())
    };
    look(NOWHERE, 0, "")?;
    for device in &owned {
        for at in [device.from, device.to - 0x1000] {
            look(at, KERNEL_PANIC, &format!("reaches {}, which is the kernel's", device.name))?;
        }
    }
    summary.add(name, started.elapsed(), &problems);
    Ok(())
}

//--- Kernels with some features

fn combine(workspace: &Workspace, arguments: &TestArguments, summary: &mut Summary) {
    for (features, system) in combinations::ALL {
        let name = combinations::name(features);
        if arguments.wants(&name) {
            summary.run(&name, || combinations::check(workspace, features, system));
        }
    }
    if arguments.wants(combinations::REFUSAL) {
        summary.run(combinations::REFUSAL, || combinations::check_refusal(workspace));
    }
}

/// Turns of emulated CPUs, told from a job's own execution; entries of tables that nothing should hold.
fn tell_turns(workspace: &Workspace, arguments: &TestArguments, install: bool, summary: &mut Summary) {
    if arguments.wants(turns::CHECK) {
        summary.run(turns::CHECK, || turns::check(workspace));
    }
    if arguments.wants(isolation::CHECK) {
        summary.run(isolation::CHECK, || isolation::check_planted(workspace));
    }
    if arguments.wants(isolation::PROBES) {
        summary.run(isolation::PROBES, || isolation::check_probes(workspace));
    }
    for name in boards::others() {
        let check = format!("{}, on {name}", isolation::PROBES);
        if !arguments.wants(&check) {
            continue;
        }
        let own = Workspace::open(install).map(|workspace| workspace.on(Some(name), install));
        match (own, Board::named(name)) {
            (Ok(own), Some(board)) => match toolchain::too_old(&own.qemu, &board) {
                Some(why) => summary.skip(&check, &why),
                None => summary.run(&check, || isolation::check_probes(&own)),
            },
            (Err(error), _) => summary.run(&check, || Err(error)),
            (Ok(_), None) => {}
        }
    }
}

//--- Cards

/// Boards that start from the image on a card; all others are started by U-Boot.
const RASPBERRIES: [&str; 2] = ["raspi3b", "raspi4b"];

fn start(workspace: &Workspace, arguments: &TestArguments, install: bool, summary: &mut Summary) {
    let read_back = RASPBERRIES.map(|board| (board, format!("{}: {board}", flash::READ_BACK)));
    let wants = |name: &str| arguments.wants(name);
    if !wants(flash::BY_U_BOOT) && !read_back.iter().any(|(_, name)| wants(name)) {
        return;
    }
    if let Err(error) = flash::tools(install) {
        summary.skip("cards", &error.to_string());
        return;
    }
    if wants(flash::BY_U_BOOT) {
        summary.run(flash::BY_U_BOOT, || flash::check_by_u_boot(workspace));
    }
    for (board, name) in read_back.iter().filter(|(_, name)| wants(name)) {
        let own = Workspace::open(install).map(|workspace| workspace.on(Some(board), install));
        match own {
            Ok(own) => match Board::named(board).and_then(|board| toolchain::too_old(&own.qemu, &board)) {
                Some(why) => summary.skip(name, &why),
                None => summary.run(name, || flash::check_read_back(&own, board)),
            },
            Err(error) => summary.run(name, || Err(error)),
        }
    }
}

//--- The demo on other boards

/// Boards that it is run on, with all their CPUs.
const DEMO: [&str; 2] = ["raspi3b", "zcu102"];

/// The name of its check on a board.
fn demo_on(board: &str) -> String {
    format!("{board}: the demo, every frame, every tone, every deadline")
}

fn demos(arguments: &TestArguments, install: bool, summary: &mut Summary) {
    for board in DEMO {
        let name = demo_on(board);
        if !arguments.wants(&name) {
            continue;
        }
        let made = Workspace::open(install).and_then(|workspace| {
            let workspace = workspace.on(Some(board), install);
            let manifest = workspace.manifest(Path::new(crate::demo::MANIFEST))?;
            Ok((workspace, manifest))
        });
        match made {
            Ok((workspace, manifest)) => match system::lacks(&workspace, &manifest.system, Profile::Det) {
                Some(why) => summary.skip(&name, &why),
                None => summary.run(&name, || crate::demo::check(&workspace, manifest)),
            },
            Err(error) => summary.run(&name, || Err(error)),
        }
    }
}

//--- What `dump` finds

fn look(workspace: &Workspace, arguments: &TestArguments, summary: &mut Summary) -> Result<()> {
    let mut checks = dump_check::checks(&workspace.root)?;
    checks.retain(|check| arguments.wants(&check.name));
    let systems: Vec<&Resolved> = checks.iter().map(|check| &check.manifest.system).collect();
    let programs = workspace.builder().programs(&systems)?;
    side_by_side(&checks, summary, |check| (check.name.clone(), dump_check::run(workspace, check, &programs)));
    if arguments.wants(gdb::CHECK) {
        match toolchain::find_gdb(false) {
            Ok(program) => summary.run(gdb::CHECK, || gdb::check(workspace, &program)),
            Err(error) => summary.skip(gdb::CHECK, &error.to_string()),
        }
    }
    Ok(())
}

//--- CPUs and GPUs in each arrangement

fn configure(workspace: &Workspace, arguments: &TestArguments, summary: &mut Summary) -> Result<()> {
    let mut all = configurations::all();
    all.retain(|one| arguments.wants(&one.name()));
    let cases = all.into_iter().map(|one| {
        let manifest = Manifest::parse(Path::new(&one.name()), &one.manifest())?;
        Ok((one, Case { manifest, profile: Profile::Det }))
    });
    let cases = cases.collect::<Result<Vec<_>>>()?;
    let systems: Vec<&Resolved> = cases.iter().map(|(_, case)| &case.manifest.system).collect();
    let programs = workspace.builder().programs(&systems)?;
    side_by_side(&cases, summary, |(one, case)| {
        let check = || {
            let (run, mut problems) = run_case(workspace, case, &programs, true)?;
            let seen = Seen::of(&run.trace?, &case.manifest.system);
            problems.extend(one.problems(&seen));
            Ok((format!("{}: {seen}", one.name()), problems))
        };
        match check() {
            Ok((words, problems)) => (words, Ok(problems)),
            Err(error) => (one.name(), Err(error)),
        }
    });
    Ok(())
}

fn manifests(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    Ok(paths)
}

/// Runs one system, twice if `again` and if it is repeatable; what it did differently from what is expected.
fn run_case(workspace: &Workspace, case: &Case, programs: &Programs, again: bool) -> Result<(Run, Vec<String>)> {
    let expected = case.manifest.expectations.as_ref().context("the manifest has no table `test`")?;
    let image = workspace.image_of(case.manifest.clone(), programs.clone(), case.profile, false)?;
    let options = RunOptions {
        stimuli: Stimuli {
            input: expected.input.clone(),
            screen: expected.screenshot.as_ref().map(|_| screen::STANDS.to_owned()),
            power_button: expected.power_button,
        },
        quantum: match expected.verdict {
            Some(_) => Turns::of(&case.manifest.system, expected.turns).quantum,
            None => turns::of_tests(&case.manifest.system, expected.turns),
        },
        ..RunOptions::quiet(expected.seconds.unwrap_or(60))
    };
    let run = system::run(workspace, &image, &options)?;
    let mut problems = compare(&image, &run, expected);
    if let Some(name) = &expected.screenshot {
        problems.extend(screen::problems(name, run.outcome.screen.as_ref()));
    }
    if again && expected.repeatable && case.profile == Profile::Det && problems.is_empty() {
        problems.extend(departure(&run, &system::run(workspace, &image, &options)?));
    }
    if !problems.is_empty() {
        if !run.outcome.console.trim().is_empty() {
            problems.push(format!("console:\n{}", run.outcome.console.trim_end()));
        }
        problems.extend(report::kernel_addresses(&run.outcome.console, &image.programs.kernel));
        if let Ok(trace) = &run.trace {
            problems.extend(report::faults(trace, &image));
        }
    }
    Ok((run, problems))
}

/// Where two runs of one image first differ.
fn departure(first: &Run, second: &Run) -> Option<String> {
    let records = |run: &Run| run.trace.as_ref().map_or(Vec::new(), |trace| trace.records.clone());
    let (one, other) = (records(first), records(second));
    if first.outcome.console != second.outcome.console {
        return Some("a second run printed something else".to_owned());
    }
    let length = one.len().max(other.len());
    let at = (0..length).find(|at| one.get(*at) != other.get(*at))?;
    Some(format!("a second run differs from record {at} on: {:?}, then {:?}", one.get(at), other.get(at)))
}

fn compare(image: &Image, run: &Run, expected: &Expectations) -> Vec<String> {
    let system = &image.manifest.system;
    let name = |index: usize| system.tasks.get(index).map_or("?", |task| task.name.as_str());
    let mut problems = Vec::new();
    match run.outcome.code {
        Some(code) if code == expected.exit.cast_signed() => {}
        Some(code) => problems.push(format!("ended with code {code}, not {}", expected.exit)),
        None => problems.push(format!("did not end within {} s", run.outcome.took.as_secs())),
    }
    let trace = match &run.trace {
        Ok(trace) => trace,
        Err(error) => {
            problems.push(format!("no trace: {error:#}"));
            return problems;
        }
    };
    problems.extend(report::unbalanced(trace));

    let mut faulted = report::faulted_tasks(trace);
    let mut faults = expected.faults.clone();
    if expected.faults_in_any_order {
        faulted.sort_unstable();
        faults.sort_unstable();
    }
    if faulted != faults {
        let list = |tasks: &[usize]| tasks.iter().map(|task| name(*task)).collect::<Vec<_>>().join(", ");
        problems.push(format!("faults of [{}], not of [{}]", list(&faulted), list(&faults)));
    }

    let marks = marks_of(trace, expected);
    let matches = marks.len() == expected.marks.len()
        && marks.iter().zip(ordered(&expected.marks)).all(|(seen, wanted)| is_match(seen, &wanted));
    if !matches {
        let show = |mark: &Mark| {
            let number = |number: Option<u64>| number.map_or_else(|| "_".to_owned(), |number| number.to_string());
            format!("  {}: {} {}", name(mark.task), number(mark.first.map(u64::from)), number(mark.second))
        };
        let list = |marks: &[Mark]| marks.iter().map(show).collect::<Vec<_>>().join("\n");
        problems.push(format!("logged\n{}\nnot\n{}", list(&marks), list(&ordered(&expected.marks))));
    }

    // A task with several lives ends several times.
    let enders: BTreeSet<usize> = expected.exits.iter().map(|(task, _)| *task).collect();
    for task in enders {
        let ends = trace.records.iter().filter(|record| record.event == Event::Exit as u8);
        let codes: Vec<u32> =
            ends.filter(|record| usize::from(record.thread) == task + 1).map(|record| record.value).collect();
        let wanted: Vec<u32> = expected.exits.iter().filter(|(of, _)| *of == task).map(|(_, code)| *code).collect();
        if codes != wanted {
            problems.push(format!("{} ended with {codes:?}, not {wanted:?}", name(task)));
        }
    }
    for line in &expected.console {
        let shown = run.outcome.console.lines().filter(|shown| shown.trim_end() == line).count();
        let wanted = expected.console.iter().filter(|other| *other == line).count();
        if shown != wanted {
            problems.push(format!("the console shows the line `{line}` {shown} times, not {wanted}"));
        }
    }

    // Emulated in parallel, time depends on the host.
    if image.profile == Profile::Det {
        let ledgers = trace.ledgers();
        for task in &expected.no_misses {
            let amount = |ledger: Ledger| ledgers.get(&(ledger as u16, *task as u16)).copied().unwrap_or(0);
            let (jobs, misses, skipped) = (amount(Ledger::Jobs), amount(Ledger::Misses), amount(Ledger::Skipped));
            if jobs == 0 || misses > 0 || skipped > 0 {
                problems.push(format!("{}: {jobs} jobs, {misses} missed, {skipped} skipped", name(*task)));
            }
        }
        for task in &expected.responses {
            problems.extend(exceeds_bound(trace, system, *task));
        }
        if expected.eighth {
            match kernels::of(system, &run.outcome) {
                Ok(kernels) if kernels.is_empty() => problems.push("no kernel was launched".to_owned()),
                Ok(kernels) => problems.extend(kernels.iter().filter_map(KernelRan::problem)),
                Err(error) => problems.push(format!("{error:#}")),
            }
        }
        if let Some(wanted) = &expected.verdict {
            let verdict = Watch::of(trace, system).verdict(Some(expected));
            let said = [verdict.ends, verdict.misses].concat();
            if said.len() != wanted.len() || !said.iter().zip(wanted).all(|(said, wanted)| has_parts(said, wanted)) {
                problems.push(format!("found wrong\n{}\nnot\n{}", said.join("\n"), wanted.join("\n")));
            }
        }
        if let Some(expected) = &expected.taken {
            let taken = trace.records.iter().filter(|record| record.event == Event::EngineTaken as u8);
            let seen: BTreeSet<usize> = taken.map(|record| usize::from(record.thread).wrapping_sub(1)).collect();
            if seen != expected.iter().copied().collect() {
                let list = |tasks: Vec<usize>| tasks.into_iter().map(name).collect::<Vec<_>>().join(", ");
                let (seen, expected) = (list(seen.into_iter().collect()), list(expected.clone()));
                problems.push(format!("engines taken from [{seen}], not from [{expected}]"));
            }
        }
    }
    problems
}

/// Whether a job of `task` took longer than the analysis says; or none ended, or it says nothing.
fn exceeds_bound(trace: &Trace, system: &Resolved, task: usize) -> Option<String> {
    let name = &system.tasks[task].name;
    let bound = (0..system.clusters.len()).find_map(|cluster| {
        let study = admission::Study::new(system, cluster).ok()?;
        let member = study.members.iter().position(|member| *member == task)?;
        let (report, _) = study.analyse(&Overheads::default()).ok()?;
        report.tasks[member].bound.as_ref()?.response.ceil().to_integer().to_i64()
    });
    let metrics = Metrics::of(trace, system);
    let longest = metrics.tasks.get(task).and_then(|task| Some(task.response()?.greatest));
    match (longest, bound) {
        (Some(longest), Some(bound)) if longest <= bound => None,
        (longest, bound) => Some(format!("{name} answers within {longest:?} ns, and its bound is {bound:?} ns")),
    }
}

/// What the tasks that are expected to log have logged, task by task.
fn marks_of(trace: &Trace, expected: &Expectations) -> Vec<Mark> {
    let seen: Vec<Mark> = trace
        .logs()
        .filter_map(|(thread, first, second)| {
            let task = usize::from(thread).checked_sub(1)?;
            Some(Mark { task, first: Some(first), second: Some(second) })
        })
        .filter(|mark| expected.marks.iter().any(|wanted| wanted.task == mark.task))
        .collect();
    ordered(&seen)
}

/// Whether `text` has the parts of `pattern`, which are separated by `...`, in this order.
fn has_parts(text: &str, pattern: &str) -> bool {
    let found = pattern.split("...").try_fold(text, |rest, part| rest.split_once(part).map(|(_, rest)| rest));
    found.is_some()
}

/// Task by task; the order within a task stays.
fn ordered(marks: &[Mark]) -> Vec<Mark> {
    let mut marks = marks.to_vec();
    marks.sort_by_key(|mark| mark.task);
    marks
}

fn is_match(seen: &Mark, wanted: &Mark) -> bool {
    let any = |wanted: Option<u64>, seen: Option<u64>| wanted.is_none() || wanted == seen;
    seen.task == wanted.task
        && any(wanted.first.map(u64::from), seen.first.map(u64::from))
        && any(wanted.second, seen.second)
}

/// The first lines in which two texts differ.
pub fn difference(expected: &str, seen: &str) -> Option<String> {
    if expected == seen {
        return None;
    }
    let (expected, seen): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), seen.lines().collect());
    let same = expected.iter().zip(&seen).take_while(|(a, b)| a == b).count();
    let part = |lines: &[&str], sign: char| {
        lines.iter().skip(same).take(5).map(|line| format!("{sign} {line}\n")).collect::<String>()
    };
    Some(format!("differs from line {} on:\n{}{}", same + 1, part(&expected, '-'), part(&seen, '+')))
}

#[cfg(test)]
mod of_the_summary {
    use super::*;

    fn summary() -> Summary {
        let check = |name: &str, problems: &[&str]| Check {
            name: name.to_owned(),
            took: Duration::from_millis(1_500),
            problems: problems.iter().map(ToString::to_string).collect(),
        };
        let bad = check("a <b> & \"c\" \u{1b}[1m", &["ended with code 3, not 0\nsee < & >", "second"]);
        Summary { checks: vec![check("good", &[]), bad], ..Summary::default() }
    }

    #[test]
    fn the_results_are_junit_xml_by_a_parser_that_is_not_ours() {
        let text = summary().junit().unwrap();
        let parsed = junit_parser::from_reader(std::io::Cursor::new(text)).unwrap();
        assert_eq!((parsed.tests, parsed.failures, parsed.errors), (2, 1, 0));
        let [suite] = &parsed.suites[..] else { panic!("one suite") };
        assert_eq!((suite.cases[0].name.as_str(), suite.cases[0].time), ("fusee::good", 1.5));
        assert!(suite.cases[0].status.is_success());
        assert!(suite.cases[1].name.starts_with("fusee::a <b> & \"c\""));
        assert_eq!(suite.cases[1].status.failure_as_ref().message, "ended with code 3, not 0");
    }

    #[test]
    fn a_filter_that_matches_nothing_is_told_how_many_checks_there_are_and_the_nearest() {
        let names = ["a_client_whose_server_dies", "an_engine_that_hangs", "README.md"].map(str::to_owned);
        let words = no_match("engin_that", &names);
        let lines: Vec<&str> = words.lines().collect();
        assert_eq!(lines[0], "none of 3 checks has `engin_that` in its name; the nearest names are");
        assert_eq!(lines[1], "  an_engine_that_hangs");
    }

    #[test]
    fn what_can_be_filtered_has_names() {
        let names = names(&system::root().unwrap()).unwrap();
        for name in ["a_driver_that_panics_fails_the_run", "docs/demo.md", SCHEMAS] {
            assert!(names.iter().any(|one| one == name), "{name}");
        }
    }
}

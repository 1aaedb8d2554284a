//! Whether `dump` finds the source line of each misbehaviour, the counts of the ledgers, and the place of a kernel's panic.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fusee_abi::trace::Ledger;
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Profile, Resolved};

use fusee_host::build::Programs;
use fusee_host::look::{Look, Place, Seen};
use fusee_host::qemu::EndedBy;
use fusee_host::system::{self, Image, Run, RunOptions, Workspace};
use fusee_looks::dump::Report;
use fusee_views::state::State;

/// Sources with marked lines.
const MARKED: [&str; 2] = ["userland/apps/src/bin/misbehave.rs", "userland/fusee/src/misbehave.rs"];
const MARK: &str = "// <- how ";

/// The misbehaviour that never calls the kernel: as long as it is on a CPU, only the registers of that say where it is.
const SPINS: u32 = 5;

/// The misbehaviour that calls itself until its stack ends.
const OVERFLOWS: u32 = 3;

/// A system with tasks that misbehave.
struct Case {
    /// In `tests/target`.
    system: &'static str,
    /// Tasks, and their deeds, by the number that `misbehave` has for each.
    culprits: &'static [(&'static str, u32)],
    /// The changes in its manifest, so that they are still at it when the system ends.
    instead: &'static [(&'static str, &'static str)],
    /// After this virtual time the host ends it, which does not end itself. Nanoseconds.
    hangs_until: Option<u64>,
}

const fn case(system: &'static str, culprits: &'static [(&'static str, u32)]) -> Case {
    Case { system, culprits, instead: &[], hangs_until: None }
}

const CASES: [Case; 17] = [
    case("a_task_that_reads_address_zero_stops_alone", &[("culprit", 1)]),
    case("a_task_that_jumps_to_data_stops_alone", &[("culprit", 2)]),
    case("a_task_that_overflows_its_stack_stops_alone", &[("culprit", 3)]),
    Case {
        system: "a_task_that_calls_with_random_handles_harms_nobody",
        culprits: &[("culprit", 4)],
        instead: &[("calls = 10000", "calls = 1000000000")],
        hangs_until: None,
    },
    case("a_task_that_never_yields_is_throttled", &[("culprit", 5)]),
    case("a_task_that_writes_to_its_instructions_stops_alone", &[("culprit", 6)]),
    case("a_task_that_runs_an_undefined_instruction_stops_alone", &[("culprit", 7)]),
    case("a_task_that_reads_the_kernel_stops_alone", &[("culprit", 8)]),
    case("a_store_to_a_doorbell_whose_lock_is_not_held_faults", &[("culprit", 9)]),
    case("a_panic_prints_its_message_and_ends_one_task", &[("culprit", 10)]),
    case("a_client_whose_server_dies_gets_an_error_and_lives_on", &[("server", 11)]),
    Case {
        system: "a_task_that_asks_for_what_it_may_not_have_gets_typed_errors",
        culprits: &[("culprit", 12)],
        // It waits for the engine.
        instead: &[(
            "[tasks.end]",
            "[tasks.holder]\nscript = [\"acquire ee\", \"sleep 10s\"]\ncluster = \"rest\"\nclass = \"service\"\nperiod = \"10ms\"\n\
             budget = \"1ms\"\nhandles = { ee = \"engine ee: acquire\" }\n[tasks.end]",
        )],
        hangs_until: None,
    },
    case(
        "a_hostile_task_costs_no_admitted_one_a_deadline_or_a_result",
        &[("ringer1", 13), ("ringer2", 13), ("quitter1", 14), ("quitter2", 14), ("flooder", 15)],
    ),
    Case {
        system: "a_token_an_engine_and_a_mutex_pass_on_however_their_holder_ends",
        culprits: &[("dropper", 16)],
        // It has all three.
        instead: &[("after = \"120ms\"", "after = \"19900us\"")],
        hangs_until: None,
    },
    case(
        "a_token_an_engine_and_a_mutex_pass_on_however_their_holder_ends",
        &[("faulter", 13), ("quitter", 14), ("victim", 17)],
    ),
    Case {
        system: "a_count_that_is_taken_back_costs_nobody_but_its_client",
        culprits: &[("attacker", 18)],
        instead: &[("times = 20", "times = 1000000")],
        hangs_until: None,
    },
    Case {
        system: "a_task_that_asks_for_what_it_may_not_have_gets_typed_errors",
        // One waits for the engine for ever, the other computes for ever with interrupts enabled.
        culprits: &[("culprit", 12), ("spinner", SPINS)],
        instead: &[
            ("sleep 1500ms", "sleep 100s"),
            (
                "[tasks.end]",
                "[tasks.holder]\nscript = [\"acquire ee\", \"sleep 100s\"]\ncluster = \"rest\"\nclass = \"service\"\nperiod = \"10ms\"\n\
                 budget = \"1ms\"\nhandles = { ee = \"engine ee: acquire\" }\n\
                 [tasks.spinner]\nbinary = \"apps/misbehave\"\ncluster = \"rest\"\nclass = \"background\"\nparameters = { how = 5 }\n\
                 [tasks.end]",
            ),
        ],
        hangs_until: Some(100_000_000),
    },
];

/// One case, and its system.
pub struct Check {
    /// The name of the check.
    pub name: String,
    /// The system.
    pub manifest: Manifest,
    culprits: &'static [(&'static str, u32)],
    hangs_until: Option<u64>,
}

/// All cases.
pub fn checks(root: &Path) -> Result<Vec<Check>> {
    CASES.iter().enumerate().map(|(number, case)| case.check(root, number)).collect()
}

impl Case {
    fn check(&self, root: &Path, number: usize) -> Result<Check> {
        let file = Path::new("tests/target").join(self.system).with_extension("toml");
        let mut text = std::fs::read_to_string(root.join(&file)).with_context(|| file.display().to_string())?;
        for (old, new) in self.instead {
            ensure!(text.contains(old), "{} does not say `{old}`", file.display());
            text = text.replacen(old, new, 1);
        }
        let mut manifest = Manifest::parse(&file, &text)?;
        // An image of its own.
        manifest.system.name += &format!(".dump{number}");
        let numbers: BTreeSet<u32> = self.culprits.iter().map(|(_, how)| *how).collect();
        let numbers: Vec<String> = numbers.into_iter().map(|how| how.to_string()).collect();
        let hangs = if self.hangs_until.is_some() { " in a system that hangs" } else { "" };
        let name = format!("dump names the line of misbehaviour {}{hangs}", numbers.join(", "));
        Ok(Check { name, manifest, culprits: self.culprits, hangs_until: self.hangs_until })
    }
}

/// Runs one check. Returns the faults.
pub fn run(workspace: &Workspace, check: &Check, programs: &Programs) -> Result<Vec<String>> {
    let marks = marks(&workspace.root)?;
    let image = workspace.image_of(check.manifest.clone(), programs.clone(), Profile::Det, false)?;
    let options = RunOptions { until: check.hangs_until, ..RunOptions::quiet(60) };
    let run = system::run(workspace, &image, &options)?;

    let system = &image.manifest.system;
    let memory = &run.outcome.memory;
    let look = Look::new(system, &image.programs)?;
    let seen = look.see(memory, &run.outcome.cpus)?;
    let changed = look.changed(memory, &seen)?;
    let mut problems: Vec<String> = changed.into_iter().map(|name| format!("{name} is not what ran")).collect();
    let trace = run.trace?;
    match check.hangs_until {
        // Its ledgers are not written.
        Some(_) if run.outcome.ended_by == Some(EndedBy::Enough) => problems.extend(not_live(&seen, system, check)),
        Some(_) => problems.push(format!("it does not hang: {:?}, {:?}", run.outcome.code, run.outcome.ended_by)),
        None => problems.extend(differences(&seen, &trace, system)),
    }
    for (name, how) in check.culprits {
        let task =
            system.tasks.iter().position(|task| task.name == *name).with_context(|| format!("no task `{name}`"))?;
        let places = look.backtrace(memory, &seen, task)?;
        // One that overflows its stack has used all of it; the others are far from that.
        let (used, whole) = (look.stack_used(memory, &seen, task), system.tasks[task].stack);
        if !used.is_some_and(|used| used > 0 && (used + 256 > whole) == (*how == OVERFLOWS)) {
            problems.push(format!("`{name}` has used {used:?} bytes of {whole}"));
        }
        let wanted = marks.get(how).with_context(|| format!("no line is marked for {how}"))?;
        for line in wanted.iter().filter(|line| !names_line(&places, line)) {
            let report = Report { system, look: &look, seen: &seen, memory, trace: &trace };
            problems.push(format!("{how}: {line} is not in\n{}", report.text(Some(task))?));
        }
    }
    Ok(problems)
}

/// Tasks that spin, and are not on a CPU, or are not told by its registers; and those that should be suspended and are not.
fn not_live(seen: &Seen, system: &Resolved, check: &Check) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, how) in check.culprits {
        let Some(task) = system.tasks.iter().position(|task| task.name == *name) else { continue };
        let (task, cpu) = (&seen.tasks[task], seen.tasks[task].cpu.and_then(|cpu| seen.cpus.get(cpu)));
        let is_right = match (*how, cpu) {
            (SPINS, Some(cpu)) => cpu.in_kernel || cpu.registers == Some(task.registers),
            (SPINS, None) => false,
            (_, cpu) => cpu.is_none() && matches!(task.state, State::Waits(..) | State::BetweenJobs),
        };
        if !is_right {
            problems.push(format!("`{name}` is {:?}, on {cpu:?}", task.state));
        }
    }
    problems
}

/// Lines that are marked, by the deed of a task there: `file:line`.
fn marks(root: &Path) -> Result<BTreeMap<u32, Vec<String>>> {
    let mut marks: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for file in MARKED {
        let text = std::fs::read_to_string(root.join(file)).context(file)?;
        for (index, line) in text.lines().enumerate() {
            let Some((_, numbers)) = line.split_once(MARK) else { continue };
            for number in numbers.split_whitespace() {
                marks.entry(number.parse().context(file)?).or_default().push(format!("{file}:{}", index + 1));
            }
        }
    }
    Ok(marks)
}

fn names_line(places: &[Place], line: &str) -> bool {
    places.iter().flat_map(|(_, frames)| frames).any(|frame| frame.ends_with(&format!("({line})")))
}

/// The differences between the objects in memory and the ledgers, which the kernel has written itself.
fn differences(seen: &Seen, trace: &Trace, system: &Resolved) -> Vec<String> {
    let ledgers = trace.ledgers();
    let mut problems = Vec::new();
    for (index, (task, of)) in seen.tasks.iter().zip(&system.tasks).enumerate() {
        let found = &task.statistics;
        for (ledger, value) in [
            (Ledger::Jobs, found.jobs),
            (Ledger::Misses, found.misses),
            (Ledger::Skipped, found.skipped),
            (Ledger::Faults, found.faults),
            (Ledger::MaxLateness, found.lateness.cast_unsigned()),
            (Ledger::ThreadTime, found.time),
        ] {
            let said = ledgers.get(&(ledger as u16, index as u16)).copied();
            if said != Some(value) {
                problems.push(format!("`{}`: {ledger:?} {value} in memory, {said:?} in the ledgers", of.name));
            }
        }
    }
    problems
}

/// Whether the backtrace of a kernel that panicked while it booted goes from where it began to the file where it says that it panicked;
/// Returns the faults. (Its panics of one kind are joined, so there is no line of just one of them.)
pub fn check_kernel(image: &Image, run: &Run) -> Result<Vec<String>> {
    let look = Look::new(&image.manifest.system, &image.programs)?;
    let seen = look.see(&run.outcome.memory, &run.outcome.cpus)?;
    let Some(registers) = seen.kernel else { return Ok(vec!["its panic is not in memory".to_owned()]) };
    // `kernel panic on CPU 0: file:line:column:`
    let said = run.outcome.console.split_once("kernel panic on CPU ").and_then(|(_, text)| text.split_once(": "));
    let (file, _) =
        said.and_then(|(_, text)| text.split_once(':')).context("the kernel does not say where it panicked")?;
    let places = look.kernel_backtrace(&run.outcome.memory, registers)?;
    let has = |words: &str| places.iter().flat_map(|(_, frames)| frames).any(|frame| frame.contains(words));
    let missing = [format!("({file}:"), "core::panicking::".to_owned(), "fusee_boot (".to_owned()];
    Ok(missing.iter().filter(|words| !has(words)).map(|words| format!("`{words}` is not in {places:#?}")).collect())
}

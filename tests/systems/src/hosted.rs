//! Programs of tasks, built for the host: the simulator runs them with the results that QEMU has.
//!
//! Compared are the golden traces of conformance systems, with scripts that the program `scripted` plays, and the tables `[test]` of target systems. Each system
//! runs twice, and the second time must leave the same records.
//!
//! Not here: systems with a device, which no program reaches in the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result, anyhow};
use fusee_abi::trace::Event;
use fusee_host::report;
use fusee_host::system;
use fusee_kernel_core::FaultKind;
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Profile, Task, Variant};
use fusee_simulate::hosted::plan;
use fusee_simulator::{Hosted, Options, Overheads, Report, simulate_with, unsuited};
use fusee_tester::expected::{compare_trace, difference};
use fusee_tester::golden;

use crate::case::{Case, Found, Kind};
use crate::conformance;
use crate::context::Context;
use crate::known::{self, Inputs};
use crate::list::{Builds, manifests};

/// Virtual nanoseconds after which a simulation is given up.
const LIMIT: u64 = 20_000_000_000;

/// Fusee's server of a console.
const CONSOLE: &str = "console-driver/console-driver";
/// Target systems that are not run with programs, and the reason.
const ELSEWHERE: [(&str, &str); 8] = [
    ("a_heap_that_is_used_up_ends_its_own_task", "programs on the host have the host's heap"),
    ("a_million_random_operations_break_no_invariant", "a large campaign of a system that is run"),
    ("a_server_ended_at_any_instant_is_there_again_for_its_clients", "instants within instructions"),
    ("a_supervisor_that_ends_ends_the_system_as_a_panic_does", "the words of the board's kernel"),
    ("a_task_stopped_while_it_stores_on_another_cpu_stores_nothing_more", "a loop without calls"),
    ("a_task_that_never_yields_is_throttled", "a loop without calls"),
    ("waiting_for_the_kernel_lock_in_a_call_is_charged_to_the_caller", "the lock of the board's kernel"),
    ("what_is_typed_at_a_serial_line_wakes_its_reader_and_comes_back", "the bytes of a serial line"),
];

/// The kinds of faults, by the end of the system's name, after "a task that".
const KINDS: [(&str, FaultKind); 6] = [
    ("jumps_to_data_stops_alone", FaultKind::Execute),
    ("overflows_its_stack_stops_alone", FaultKind::Write),
    ("reads_address_zero_stops_alone", FaultKind::Read),
    ("reads_the_kernel_stops_alone", FaultKind::Read),
    ("runs_an_undefined_instruction_stops_alone", FaultKind::Illegal),
    ("writes_to_its_instructions_stops_alone", FaultKind::Write),
];

/// Systems with programs that are built together.
struct Group {
    context: Arc<Context>,
    /// Programs, written package/program.
    wanted: BTreeSet<String>,
    built: OnceLock<Result<BTreeMap<String, PathBuf>, String>>,
}

impl Group {
    fn programs(&self) -> Result<&BTreeMap<String, PathBuf>> {
        let build = || {
            let project = self.context.fusee();
            let wanted = self.wanted.iter().map(String::as_str).collect();
            let planned = plan(&wanted, &[project]).map_err(|reason| reason.to_string())?;
            planned.build(project, false).map_err(|error| format!("{error:#}"))
        };
        self.built.get_or_init(build).as_ref().map_err(|error| anyhow!("{error}"))
    }
}

/// A system that runs with programs.
struct System {
    manifest: Manifest,
    /// Where its golden trace is; `None`: its table `[test]` is compared.
    golden: Option<PathBuf>,
}

impl System {
    fn name(&self) -> String {
        format!("simulated::{}", self.manifest.system.name)
    }

    /// Whether the program of a task can run.
    fn runs(&self, task: usize) -> bool {
        unsuited(&self.manifest, task).is_none()
    }

    /// Whether a task is Fusee's server of a console, for which the simulator has a substitute.
    fn prints(&self, task: usize) -> bool {
        self.manifest.system.tasks[task].binary == CONSOLE
    }

    /// All programs that run.
    fn programs(&self) -> impl Iterator<Item = &str> {
        let tasks = self.manifest.system.tasks.iter().enumerate();
        tasks.filter(|(index, _)| self.runs(*index)).map(|(_, task)| task.binary.as_str())
    }

    /// All that the result is a function of.
    fn inputs(&self, root: &Path, programs: &BTreeMap<String, PathBuf>) -> Result<Inputs> {
        let mut inputs = Inputs::of(&self.name());
        inputs.file(&root.join(&self.manifest.file))?;
        for path in self.programs().filter_map(|binary| programs.get(binary)) {
            inputs.file(path)?;
        }
        let golden = self.golden.as_ref().map(std::fs::read_to_string).transpose()?;
        inputs.add(&golden);
        Ok(inputs)
    }

    fn check(&self, programs: &BTreeMap<String, PathBuf>) -> Result<Found> {
        let (report, mut problems) = (self.run(programs)?, Vec::new());
        let again = self.run(programs)?;
        if report.records != again.records {
            problems.push("a second run left other records".to_owned());
        }
        let words = format!("{} traps", report.traps);
        let (exit, console) = (report.exit, report.console);
        let trace = Trace::from_records(report.records);
        match &self.golden {
            Some(path) => {
                let expected = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                let seen = golden::canonical(&self.manifest, &trace)?;
                let difference = difference(&expected, &seen);
                problems.extend(
                    difference.map(|words| format!("programs (+) and {} (-) differ:\n{words}", path.display())),
                );
            }
            None => {
                let system = &self.manifest.system;
                let expected = self.manifest.expectations.as_ref().context("no table `[test]`")?;
                if exit != Some(expected.exit) {
                    problems.push(format!("ended with code {exit:?}, not {}", expected.exit));
                }
                problems.extend(report::unbalanced(&trace));
                problems.extend(self.wrong_kind(&trace));
                problems.extend(compare_trace(system, &trace, &trace, &console, Profile::Det, expected));
            }
        }
        Ok(Found::with_words(words, problems))
    }

    /// A fault that is of another kind than the system provokes.
    fn wrong_kind(&self, trace: &Trace) -> Option<String> {
        let (_, wanted) = KINDS.iter().find(|(end, _)| self.manifest.system.name == format!("a_task_that_{end}"))?;
        let faults = trace.records.iter().filter(|record| record.event == Event::Fault as u8);
        let kinds: Vec<u32> = faults.map(|record| record.value).collect();
        (kinds != [*wanted as u32]).then(|| format!("faults of kinds {kinds:?}, and one of {wanted:?} is provoked"))
    }

    fn run(&self, programs: &BTreeMap<String, PathBuf>) -> Result<Report> {
        let tasks = self.manifest.system.tasks.iter().enumerate();
        let of = |(index, task): (usize, &Task)| {
            let program = programs.get(&task.binary).filter(|_| self.runs(index))?;
            Some((index, program.clone()))
        };
        let programs = tasks.filter_map(of).collect();
        let hosted = Hosted { programs, ..Hosted::default() };
        // Golden traces are of kernels that take no time; elsewhere a task may call again and again until time has passed.
        let overheads = if self.golden.is_some() { Overheads::NONE } else { Overheads::ROUND };
        Ok(simulate_with(&self.manifest, &Options { hosted, overheads, ..Options::default() }, LIMIT)?)
    }
}

/// All systems that run with programs.
///
/// # Errors
/// A folder cannot be read.
pub fn cases(context: &Arc<Context>, builds: &mut Builds, cases: &mut Vec<Case>) -> Result<()> {
    let mut systems = Vec::new();
    for path in manifests(&context.root().join(conformance::FOLDER))? {
        // One that cannot be read is a failure of its run in QEMU.
        let all = conformance::Case::all(&context.workspace("hosted"), &path).unwrap_or_default();
        systems.extend(all.into_iter().map(|case| System { manifest: case.manifest, golden: Some(case.golden) }));
    }
    for path in manifests(&context.root().join("tests/target"))? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if ELSEWHERE.iter().any(|(name, _)| *name == stem) {
            continue;
        }
        let manifest = system::read_variant(context.root(), &path, &Variant::default());
        systems.extend(manifest.ok().map(|manifest| System { manifest, golden: None }));
    }
    systems
        .retain(|system| (0..system.manifest.system.tasks.len()).all(|task| system.runs(task) || system.prints(task)));
    let programs = systems.iter().flat_map(System::programs).map(str::to_owned).collect();
    let group = Arc::new(Group { context: Arc::clone(context), wanted: programs, built: OnceLock::new() });
    if !systems.is_empty() {
        let group = Arc::clone(&group);
        builds.add(move || group.programs().map(drop));
    }
    for system in systems {
        let (group, name) = (Arc::clone(&group), system.name());
        let body = move || {
            let programs = group.programs()?;
            known::unless(&system.inputs(group.context.root(), programs)?, || system.check(programs))
        };
        cases.push(Case::new(name, Kind::Det, body));
    }
    Ok(())
}

//! Systems of `tests/target` in QEMU, and what each manifest expects of its run.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use fusee_abi::trace::{Event, Ledger};
use fusee_host::build::Programs;
use fusee_host::judge::Watch;
use fusee_host::kernels::{self, KernelRan};
use fusee_host::qemu::Stimuli;
use fusee_host::system::{self, Image, Run, RunOptions, Workspace};
use fusee_host::turns::{self, Turns};
use fusee_host::{report, screen, toolchain};
use fusee_manifest::trace::Trace;
use fusee_manifest::{Expectations, Manifest, Mark, Profile, Resolved, admission};
use fusee_sched_analysis::Overheads;
use fusee_simulator::metrics::Metrics;
use num_traits::ToPrimitive;

use crate::case::Found;
use crate::known::{self, Inputs};
use crate::screens;

/// A system of one profile.
pub struct Case {
    /// The system.
    pub manifest: Manifest,
    /// How it runs.
    pub profile: Profile,
}

/// Runs one system, twice if `again` and if it is repeatable; what it did differently from what is expected.
///
/// # Errors
/// The system cannot be built or run.
pub fn run_case(workspace: &Workspace, name: &str, case: &Case, programs: &Programs, again: bool) -> Result<Found> {
    run_and(workspace, name, case, programs, again, |run, _| Ok(run.late_words().unwrap_or_default()))
}

/// Runs one system as [`run_case`] does, and lets `look` see the run: it returns words, and may add problems.
///
/// # Errors
/// The system cannot be built or run, or `look` fails.
pub fn run_and(
    workspace: &Workspace,
    name: &str,
    case: &Case,
    programs: &Programs,
    again: bool,
    look: impl FnOnce(&Run, &mut Vec<String>) -> Result<String>,
) -> Result<Found> {
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
    let check = || {
        let run = system::run(workspace, &image, &options)?;
        let mut problems = compare(&image, &run, expected);
        if let Some(name) = &expected.screenshot {
            problems.extend(screens::problems(name, run.outcome.screen.as_ref()));
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
        let words = look(&run, &mut problems)?;
        Ok(Found::with_words(words, problems))
    };
    // Emulated in parallel, a run is never the same twice.
    if case.profile == Profile::Par {
        return check();
    }
    let mut inputs = inputs(workspace, name, &image, &options)?;
    inputs.add(&format!("{expected:?}"));
    known::unless(&inputs, check)
}

/// All that a run with counted instructions depends on.
///
/// # Errors
/// The image or the kernel cannot be read.
pub fn inputs(workspace: &Workspace, name: &str, image: &Image, options: &RunOptions<'_>) -> Result<Inputs> {
    let mut inputs = Inputs::of(name);
    inputs.file(&image.path)?;
    // Its symbols say where the trace is.
    inputs.file(&image.programs.kernel)?;
    inputs.add(&workspace.qemu);
    inputs.add(&toolchain::qemu_version(&workspace.qemu));
    inputs.add(&format!("{:?}", options.stimuli));
    inputs.add(&(options.quantum, options.until, &options.arguments));
    Ok(inputs)
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

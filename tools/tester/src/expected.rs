//! The expectations of a manifest's table `[test]`, compared with a run.
//!
//! Not here: pictures of a screen, and judges of results.

use std::collections::BTreeSet;

use fusee_abi::trace::{Event, Ledger};
use fusee_host::judge::Watch;
use fusee_host::kernels::{self, KernelRan};
use fusee_host::report;
use fusee_host::system::{self, Image, Run};
use fusee_manifest::trace::Trace;
use fusee_manifest::{Expectations, Mark, Profile, Resolved, admission};
use fusee_sched_analysis::Overheads;
use fusee_views::metrics::Metrics;
use num_traits::ToPrimitive;

/// Where two runs of one image first differ.
#[must_use]
pub fn departure(first: &Run, second: &Run) -> Option<String> {
    let records = |run: &Run| run.trace.as_ref().map_or(Vec::new(), |trace| trace.records.clone());
    let (one, other) = (records(first), records(second));
    if first.outcome.console != second.outcome.console {
        return Some("a second run printed something else".to_owned());
    }
    let length = one.len().max(other.len());
    let at = (0..length).find(|at| one.get(*at) != other.get(*at))?;
    Some(format!("a second run differs from record {at} on: {:?}, then {:?}", one.get(at), other.get(at)))
}

/// The differences between a run and the table `[test]` of its manifest.
#[must_use]
pub fn compare(image: &Image, run: &Run, expected: &Expectations) -> Vec<String> {
    let system = &image.manifest.system;
    let mut problems = Vec::new();
    match run.outcome.code {
        Some(code) if code == expected.exit.cast_signed() => {}
        Some(code) => problems.push(format!("ended with code {code}, not {}", expected.exit)),
        None => {
            let none = Trace::default();
            let watch = run.watch(run.trace.as_ref().unwrap_or(&none), system);
            problems.push(system::end_words(image, run, &watch).1);
        }
    }
    let trace = match &run.trace {
        Ok(trace) => trace,
        Err(error) => {
            problems.push(format!("no trace: {error:#}"));
            return problems;
        }
    };
    if run.outcome.code.is_some() {
        problems.extend(report::unbalanced(trace));
    }

    if expected.echo.is_some() {
        match &run.outcome.echo {
            Some(Ok(())) => {}
            Some(Err(error)) => problems.push(format!("the host's bytes: {error:#}")),
            None => problems.push(format!("the console did not show a line with `{}`", fusee_host::echo::LISTENS)),
        }
    }

    problems.extend(compare_trace(
        system,
        trace,
        &run.counted(trace, system),
        &run.outcome.console,
        image.profile,
        expected,
    ));
    if image.profile == Profile::Det && expected.eighth {
        match kernels::of(system, &run.outcome) {
            Ok(kernels) if kernels.is_empty() => problems.push("no kernel was launched".to_owned()),
            Ok(kernels) => problems.extend(kernels.iter().filter_map(KernelRan::problem)),
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    problems
}

/// The differences between a table `[test]` and the trace of a run, with the ledgers in `counted`, and what was printed. Who ran the system is no matter.
#[must_use]
pub fn compare_trace(
    system: &Resolved,
    trace: &Trace,
    counted: &Trace,
    console: &str,
    profile: Profile,
    expected: &Expectations,
) -> Vec<String> {
    let name = |index: usize| system.tasks.get(index).map_or("?", |task| task.name.as_str());
    let mut problems = Vec::new();
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
        let shown = console.lines().filter(|shown| shown.trim_end() == line).count();
        let wanted = expected.console.iter().filter(|other| *other == line).count();
        if shown != wanted {
            problems.push(format!("the console shows the line `{line}` {shown} times, not {wanted}"));
        }
    }

    // Emulated in parallel, time depends on the host.
    if profile == Profile::Det {
        let ledgers = counted.ledgers();
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
        if let Some(wanted) = &expected.verdict {
            let verdict = Watch::of(trace, system).verdict(Some(expected));
            let said = [verdict.ends, verdict.misses].concat();
            if said.len() != wanted.len() || !said.iter().zip(wanted).all(|(said, wanted)| has_parts(said, wanted)) {
                problems.push(wrong_verdict(&said, wanted));
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

/// The problems of a run beside those that `verdict` lists.
fn wrong_verdict(said: &[String], wanted: &[String]) -> String {
    let list = |lines: &[String]| match lines {
        [] => "  none".to_owned(),
        lines => lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"),
    };
    format!("the problems of the run\n{}\nare not those of `verdict`\n{}", list(said), list(wanted))
}

/// Explanations of the problems of a run: its console, and the lines at which it faulted.
#[must_use]
pub fn explanations(image: &Image, run: &Run) -> Vec<String> {
    let console = run.outcome.console.trim_end();
    let console = (!console.trim().is_empty()).then(|| format!("console:\n{console}"));
    let lines = report::kernel_addresses(&run.outcome.console, &image.programs.kernel);
    let faults = run
        .trace
        .as_ref()
        .map_or_else(|_| Vec::new(), |trace| report::faults(trace, &image.manifest.system, &image.programs.binaries));
    console.into_iter().chain(lines).chain(faults).collect()
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
#[must_use]
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
mod tests {
    use super::*;

    #[test]
    fn a_wrong_verdict_names_both_lists_and_an_empty_one_is_named() {
        let missed =
            "hard task `brake` missed 5 of 49 deadlines; 0 releases were skipped, 0 jobs are overdue".to_owned();
        let words = wrong_verdict(std::slice::from_ref(&missed), &[]);
        assert_eq!(words, format!("the problems of the run\n  {missed}\nare not those of `verdict`\n  none"));
    }
}

//! Whether explanations are right: against sums over records that are made in another way, slowly. For tests.

use fusee_abi::trace::{Event, Record};
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;

use fusee_views::explain::{Step, Turn, explain};

/// The parts of each job add up to its response, its running time to the switches, and the kernel's part of it to the traps. It gave
/// its budget away for as long as another task ran on it and it waited for nothing, and all of that is said: but for `late` nanoseconds at the end of each
/// such run, in which the other task learns on its CPU that it is over. Where paths of the kernel take time, that is the rest of the path that ends it, and
/// one on the other CPU.
///
/// # Errors
/// The parts that do not add up, in words.
pub fn audit(trace: &Trace, system: &Resolved, turns: &[Turn], late: u64) -> Result<(), String> {
    let records = &trace.records[..];
    let all = explain(trace, system, turns);
    // A task with given budget is at work on another CPU for a moment after that has ended.
    let ends = [Event::Stop, Event::Fault, Event::Exit, Event::TokenTaken].map(|event| event as u8);
    let has_ended_early = records.iter().any(|record| ends.contains(&record.event));
    for one in &all {
        let sum: u64 = one.parts.iter().map(|part| part.time).sum();
        if sum != one.response() {
            return Err(format!("parts of {sum} ns, response {} ns: {}", one.response(), one.text(system)));
        }
        let of_kernel = |path: &[Step]| matches!(path, [Step::Ran(_), Step::Kernel(_) | Step::Lock]);
        let sum = |is_meant: &dyn Fn(&[Step]) -> bool| -> u64 {
            one.parts.iter().filter(|part| is_meant(&part.path)).map(|part| part.time).sum()
        };
        let ran = (sum(&|path| matches!(path, [Step::Ran(_), ..])), sum(&of_kernel));
        let until = one.completed.unwrap_or(one.end);
        let started = records.iter().find(|record| is(record, Event::Release, one.task) && record.job == one.job);
        let from = started.map_or(one.release, |record| record.time);
        let by_switches = run_within(records, one.task, from, until);
        if ran != by_switches {
            return Err(format!("ran, and of that in the kernel: {ran:?} ns, by switches and traps {by_switches:?}"));
        }
        let gives = |path: &[Step]| matches!(path, [Step::Gave { .. }, ..]);
        let gave = (sum(&|path| gives(path) && path.contains(&Step::Ran(Some(one.task)))), sum(&gives));
        let (by_switches, runs) = given_within(records, system, one.task, from, until);
        if by_switches < gave.0 || (by_switches > gave.1 + runs * late && !has_ended_early) {
            return Err(format!("gave {gave:?} ns of its budget, by switches {by_switches}: {}", one.text(system)));
        }
        let mut paths: Vec<_> = one.parts.iter().map(|part| &part.path).collect();
        paths.dedup();
        if paths.len() != one.parts.len() {
            return Err(format!("a part is there twice: {}", one.text(system)));
        }
    }
    let complete = records.iter().filter(|record| record.event == Event::Complete as u8).count();
    let explained = all.iter().filter(|one| one.completed.is_some()).count();
    if complete == explained { Ok(()) } else { Err(format!("{complete} jobs are complete, {explained} explained")) }
}

fn is(record: &Record, event: Event, task: usize) -> bool {
    record.event == event as u8 && usize::from(record.thread) == task + 1
}

/// How long other tasks ran on the reservation of `task` between these instants, while `task` was neither on a CPU nor suspended by a call; and in how many runs.
fn given_within(records: &[Record], system: &Resolved, task: usize, from: u64, until: u64) -> (u64, u64) {
    let Some(own) = system.tasks[task].reservation else { return (0, 0) };
    let free = free_spans(records, task);
    let (mut sum, mut runs) = (0, 0);
    for (index, switch) in records.iter().enumerate() {
        let starts = matches!(Event::from_number(switch.event), Some(Event::SwitchTo | Event::RunOn));
        if !starts
            || switch.time >= until
            || switch.object as usize != own + 1
            || usize::from(switch.thread) == task + 1
        {
            continue;
        }
        let ends = |record: &&Record| {
            let other = usize::from(switch.thread) - 1;
            record.cpu == switch.cpu
                && (matches!(Event::from_number(record.event), Some(Event::SwitchTo | Event::RunOn | Event::Idle))
                    || [Event::SwitchAway, Event::Block].iter().any(|event| is(record, *event, other))
                    || (is(record, Event::Call, other) && record.value == 0))
        };
        let end = records[index + 1..].iter().find(ends).map_or(records[records.len() - 1].time, |record| record.time);
        let (from, until) = (from.max(switch.time), until.min(end));
        let given = free.iter().map(|(start, stop)| until.min(*stop).saturating_sub(from.max(*start))).sum::<u64>();
        sum += given;
        runs += u64::from(given > 0);
    }
    (sum, runs)
}

/// The spans in which no call suspends `task`. In each of them a job of it runs, is ready, or has yet to run for the first time.
fn free_spans(records: &[Record], task: usize) -> Vec<(u64, u64)> {
    let mut spans = Vec::new();
    let mut since = Some(0);
    for record in records {
        let goes_on = [Event::Resume, Event::SwitchTo, Event::Release].iter().any(|event| is(record, *event, task));
        if is(record, Event::Block, task) || (is(record, Event::Call, task) && record.value == 0) {
            spans.extend(since.take().map(|since| (since, record.time)));
        } else if goes_on {
            since.get_or_insert(record.time);
        }
    }
    spans.extend(since.map(|since| (since, u64::MAX)));
    spans
}

/// How long `task` was on CPUs between these instants: from each switch to it to the next record of what that CPU runs. And for
/// how long of that these CPUs were in the kernel.
fn run_within(records: &[Record], task: usize, from: u64, until: u64) -> (u64, u64) {
    let (mut sum, mut of_kernel) = (0, 0);
    for (index, switch) in records.iter().enumerate() {
        if !is(switch, Event::SwitchTo, task) || switch.time >= until {
            continue;
        }
        let ends = |record: &&Record| {
            record.cpu == switch.cpu
                && (is(record, Event::SwitchAway, task)
                    || is(record, Event::Block, task)
                    || (is(record, Event::Call, task) && record.value == 0)
                    || record.event == Event::Idle as u8
                    || record.event == Event::SwitchTo as u8)
        };
        // A task that waits does not run, though the switch comes a moment later in the same trap.
        let end = records[index + 1..].iter().find(ends).map_or(records[records.len() - 1].time, |record| record.time);
        let (begin, end) = (switch.time.max(from), end.min(until));
        if end <= begin {
            continue;
        }
        sum += end - begin;
        let traps = records.iter().filter(|record| record.event == Event::Trap as u8 && record.cpu == switch.cpu);
        of_kernel += traps
            .map(|trap| end.min(trap.time).saturating_sub(begin.max(trap.time - u64::from(trap.value))))
            .sum::<u64>();
    }
    (sum, of_kernel)
}

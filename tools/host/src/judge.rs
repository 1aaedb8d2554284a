//! The verdict on a run, emulated or simulated: it kept the promises of its manifest, or broke one.
//!
//! A run is wrong if a `hard` task missed a deadline, if a task panicked or faulted, or if a task ended that others depend on: the
//! server of an endpoint, the driver of a device, the handler of an interrupt, a node of a graph; or if a graph took longer than its `latency`. What a manifest's table `test` expects to
//! happen is right.
//!
//! Records are looked at one by one, so that a long simulation need not be kept.

use std::collections::BTreeMap;

use fusee_abi::call::rights;
use fusee_abi::image::kind;
use fusee_abi::trace::{Event, Ledger, PANIC_CODE, PANIC_TEXT, Record, TEXT_BYTES};
use fusee_manifest::trace::{Trace, wide};
use fusee_manifest::{Expectations, Resolved};
use fusee_views::latency::Latencies;
use fusee_views::now::Now;
use fusee_views::state::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::counts::{Counts, Ended};
use crate::words::span;

/// Something that makes a run fail.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Problem {
    /// Its kind.
    pub cause: Cause,
    /// In words.
    pub text: String,
}

/// Why a run fails.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A hard task missed deadlines, and this declaration did not hold.
    Declaration,
    /// A task panicked, faulted, or ended although others depend on it.
    TaskEnded,
    /// A hard task missed deadlines, or a graph exceeded its latency.
    MissedDeadlines,
    /// The system ended with a code other than zero.
    ExitCode,
    /// The system did not end itself within the host's limit, or was interrupted.
    NotEnded,
    /// Time is not accounted for.
    Accounts,
    /// Completions of a device came late.
    LateCompletions,
    /// The system left no trace that can be read.
    NoTrace,
    /// What a verdict needs is not known: its records were overwritten, and the kernel counts it nowhere.
    Unknown,
    /// What the system computed is not right.
    Result,
}

/// Watches a run for the facts of its verdict.
pub struct Watch<'a> {
    system: &'a Resolved,
    tasks: Vec<Seen>,
    ends: Vec<End>,
    latencies: Latencies,
    now: Now,
    /// Instant of the latest record, nanoseconds.
    latest: u64,
}

/// The observations of one task.
#[derive(Clone, Default)]
struct Seen {
    completed: u64,
    missed: u64,
    skipped: u64,
    /// Deadlines of jobs that have not completed, by number of the job. Nanoseconds.
    open: BTreeMap<u32, u64>,
    panic_text: Vec<u8>,
    /// Jobs whose completion was seen.
    seen: u64,
    /// Its state by the kernel's own objects, if they were read.
    state: Option<State>,
}

/// The end of one task.
#[derive(Clone, Debug, Eq, PartialEq)]
struct End {
    task: usize,
    /// Nanoseconds; `None`: the record of it is lost.
    at: Option<u64>,
    how: Ended,
    /// The number of the life that it was given after it.
    next_life: Option<u32>,
    /// The message of its panic.
    panic_text: Vec<u8>,
}

impl End {
    fn when(&self) -> String {
        self.at.map_or_else(|| "its record is lost".to_owned(), |at| span(at.cast_signed()))
    }
}

/// The verdict on a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Verdict {
    /// Panics, faults, and ends of tasks that others depend on.
    pub ends: Vec<String>,
    /// Deadlines that `hard` tasks missed, and latencies that graphs exceeded.
    pub misses: Vec<String>,
    /// Tasks that ended, which harms no other task.
    pub harmless: Vec<String>,
    /// Promises of which it is not known whether they were kept.
    pub unknown: Vec<String>,
}

fn panic_words(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_end_matches('\0').split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() { format!("exited with code {PANIC_CODE}: a panic whose message is lost") } else { text }
}

impl Verdict {
    /// The reasons why the run fails.
    pub fn problems(self) -> Vec<Problem> {
        let of = |cause| move |text| Problem { cause, text };
        let misses = self.misses.into_iter().map(of(Cause::MissedDeadlines));
        let unknown = self.unknown.into_iter().map(of(Cause::Unknown));
        self.ends.into_iter().map(of(Cause::TaskEnded)).chain(misses).chain(unknown).collect()
    }
}

impl<'a> Watch<'a> {
    /// Of a system that has not run yet.
    pub fn new(system: &'a Resolved) -> Self {
        let (tasks, latencies) = (vec![Seen::default(); system.tasks.len()], Latencies::new(system));
        Self { system, tasks, ends: Vec::new(), latencies, now: Now::new(system), latest: 0 }
    }

    /// Of a whole trace. Its ledgers count what the rings have lost.
    pub fn of(trace: &Trace, system: &'a Resolved) -> Self {
        let mut watch = Self::new(system);
        trace.records.iter().for_each(|record| watch.observe(record));
        watch
    }

    /// Looks at one record.
    pub fn observe(&mut self, record: &Record) {
        self.latest = self.latest.max(record.time);
        self.latencies.observe(record);
        self.now.add(std::slice::from_ref(record), self.system);
        let Some(event) = Event::from_number(record.event) else { return };
        if event == Event::Ledger {
            self.ledger((record.object >> 16) as u16, record.object as usize & 0xffff, wide(record));
        }
        let Some(task) = usize::from(record.thread).checked_sub(1).filter(|task| *task < self.tasks.len()) else {
            return;
        };
        let seen = &mut self.tasks[task];
        let how = match event {
            Event::Release => {
                seen.open.insert(record.job, record.time.saturating_add(record.relative_deadline()));
                return;
            }
            Event::Complete => {
                // Jobs complete in order. A ring may have lost that an earlier one did.
                seen.open = seen.open.split_off(&record.job.saturating_add(1));
                seen.completed += 1;
                seen.seen += 1;
                seen.missed += u64::from(record.lateness() > 0);
                return;
            }
            Event::Skip => {
                seen.skipped += 1;
                return;
            }
            Event::Log if record.object >= PANIC_TEXT => {
                let at = (record.object - PANIC_TEXT) as usize * 8;
                if at + 8 <= TEXT_BYTES {
                    seen.panic_text.resize(at, b' ');
                    seen.panic_text.extend(wide(record).to_le_bytes());
                }
                return;
            }
            Event::Restart => {
                let last = self.ends.iter_mut().rev().find(|end| end.task == task);
                last.into_iter().for_each(|end| end.next_life = Some(record.value));
                return;
            }
            Event::Exit if u64::from(record.value) == PANIC_CODE => Ended::Panicked,
            Event::Exit => Ended::Exited(record.value),
            Event::Fault => Ended::Faulted,
            Event::Stop => Ended::Stopped((record.object as usize).checked_sub(1)),
            _ => return,
        };
        // The dead complete nothing, and that is said once.
        seen.open.clear();
        let panic_text = std::mem::take(&mut seen.panic_text);
        self.ends.push(End { task, at: Some(record.time), how, next_life: None, panic_text });
    }

    /// Ledgers count since the start; rings keep the newest records only.
    fn ledger(&mut self, kind: u16, task: usize, amount: u64) {
        let Some(seen) = self.tasks.get_mut(task) else { return };
        let counts = [
            (Ledger::Jobs, &mut seen.completed),
            (Ledger::Misses, &mut seen.missed),
            (Ledger::Skipped, &mut seen.skipped),
        ];
        for (ledger, count) in counts {
            if ledger as u16 == kind {
                *count = amount.max(*count);
            }
        }
    }

    /// Adds the kernel's counts: they are complete also if the trace has lost records.
    pub fn count(&mut self, counts: &Counts) {
        self.latest = self.latest.max(counts.now);
        for (task, count) in counts.tasks.iter().enumerate() {
            if let (Some(how), None) = (count.end, self.last_end(task)) {
                self.ends.push(End { task, at: None, how, next_life: None, panic_text: Vec::new() });
            }
            let Some(seen) = self.tasks.get_mut(task) else { continue };
            seen.completed = seen.completed.max(count.jobs);
            seen.missed = seen.missed.max(count.misses);
            seen.skipped = seen.skipped.max(count.skipped);
            if let (Some((job, deadline)), None) = (count.open, count.end) {
                seen.open.entry(job).or_insert(deadline);
            }
            seen.state.clone_from(&count.state);
        }
    }

    /// The verdict on a run that is expected to end as `expected` says.
    pub fn verdict(&self, expected: Option<&Expectations>) -> Verdict {
        self.verdict_without(expected, &[])
    }

    /// As [`Watch::verdict`], but the ends of the tasks `idle` count for nothing.
    pub fn verdict_without(&self, expected: Option<&Expectations>, idle: &[usize]) -> Verdict {
        let mut verdict = Verdict::default();
        for end in self.ends.iter().filter(|end| !idle.contains(&end.task)) {
            let roles = self.roles(end.task);
            let words = self.end_words(end, &roles);
            if end.next_life.is_some() || expected.is_some_and(|expected| is_expected(end, expected)) {
                verdict.harmless.push(words);
            } else if !roles.is_empty() || matches!(end.how, Ended::Panicked | Ended::Faulted) {
                verdict.ends.push(words);
            } else {
                verdict.harmless.push(words);
            }
        }
        for (task, seen) in self.system.tasks.iter().zip(&self.tasks).filter(|(task, _)| task.hard) {
            let overdue = seen.open.values().filter(|deadline| **deadline < self.latest).count();
            if seen.missed + seen.skipped + overdue as u64 > 0 {
                let skipped = match seen.skipped {
                    1 => "1 release was skipped".to_owned(),
                    several => format!("{several} releases were skipped"),
                };
                let overdue =
                    if overdue == 1 { "1 job is overdue".to_owned() } else { format!("{overdue} jobs are overdue") };
                verdict.misses.push(format!(
                    "hard task `{}` missed {} of {} deadlines; {skipped}, {overdue}",
                    task.name, seen.missed, seen.completed
                ));
            }
        }
        verdict.misses.extend(self.late_graphs());
        verdict.unknown = self.unseen_graphs();
        verdict
    }

    /// Of each graph whose `latency` was not kept, by how much.
    fn late_graphs(&self) -> Vec<String> {
        let overdue = self.latencies.overdue(self.latest);
        let graphs = self.system.graphs.iter().zip(self.latencies.of_graphs()).zip(overdue);
        let words = graphs.filter_map(|((graph, seen), is_overdue)| {
            let latency = graph.latency?;
            let late = seen.iter().filter(|one| **one > latency.0).count();
            let longest = seen.iter().max().map_or_else(|| "never".into(), |longest| span(longest.cast_signed()));
            let overdue = if is_overdue { ", and its next job is overdue" } else { "" };
            (late > 0 || is_overdue).then(|| {
                format!(
                    "graph `{}`, whose latency is {latency}, was late {late} of {} times, the longest {longest}{overdue}",
                    graph.name,
                    seen.len()
                )
            })
        });
        words.collect()
    }

    /// Graphs with a `latency` of whose jobs some were not seen: how late these were is counted nowhere.
    fn unseen_graphs(&self) -> Vec<String> {
        let words = self.system.graphs.iter().filter_map(|graph| {
            graph.latency?;
            let jobs = |of: fn(&Seen) -> u64| graph.nodes.iter().map(|(node, _)| of(&self.tasks[*node])).sum::<u64>();
            let (seen, all) = (jobs(|task| task.seen), jobs(|task| task.completed));
            (seen < all).then(|| {
                format!(
                    "how late graph `{}` was is not known: {} of the {all} jobs of its nodes are not in the trace",
                    graph.name,
                    all - seen
                )
            })
        });
        words.collect()
    }

    /// The latencies of graphs.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// The states of all tasks at the end, in words; `None`: the task had not ended when the system did.
    pub fn states(&self, has_ended: bool) -> Vec<Option<String>> {
        let state = |(task, seen): (usize, &Seen)| {
            let state = match (self.last_end(task), &seen.state) {
                (Some(end), _) => State::Ended(end.how),
                (None, _) if has_ended => return None,
                (None, Some(state)) => state.clone(),
                (None, None) => self.now.state(task, self.system),
            };
            Some(state.words(task, self.system))
        };
        self.tasks.iter().enumerate().map(state).collect()
    }

    /// Takes the states of all tasks from the kernel itself.
    pub fn set_states(&mut self, states: impl Iterator<Item = State>) {
        self.tasks.iter_mut().zip(states).for_each(|(seen, state)| seen.state = Some(state));
    }

    /// The end of a task after which it was given no other life.
    fn last_end(&self, task: usize) -> Option<&End> {
        self.ends.iter().find(|end| end.task == task && end.next_life.is_none())
    }

    /// How a task ended, and when, if it did.
    pub fn end_of(&self, task: usize) -> Option<String> {
        let end = self.last_end(task)?;
        Some(format!("{} ({})", self.how_words(end), end.when()))
    }

    fn end_words(&self, end: &End, roles: &[String]) -> String {
        let roles = if roles.is_empty() { String::new() } else { format!(", {},", roles.join(" and ")) };
        let next = end.next_life.map_or_else(String::new, |life| format!("; restarted, life {life}"));
        format!("task `{}`{roles} {} ({}){next}", self.name(end.task), self.how_words(end), end.when())
    }

    fn how_words(&self, end: &End) -> String {
        match end.how {
            Ended::Exited(code) => format!("exited with code {code}"),
            Ended::Panicked => panic_words(&end.panic_text),
            Ended::Faulted => "faulted".to_owned(),
            Ended::Stopped(by) => format!("was stopped by task `{}`", self.name_of(by)),
        }
    }

    fn name_of(&self, task: Option<usize>) -> &str {
        task.map_or("?", |task| self.name(task))
    }

    fn name(&self, task: usize) -> &str {
        self.system.tasks.get(task).map_or("?", |task| task.name.as_str())
    }

    /// The uses that others have of the task.
    fn roles(&self, task: usize) -> Vec<String> {
        let system = self.system;
        let mut roles = Vec::new();
        for device in system.devices.iter().filter(|device| device.driver == task) {
            roles.push(format!("driver of device `{}`", device.name));
        }
        for (name, endpoint) in &system.endpoints {
            if endpoint.server as usize == task {
                roles.push(format!("server of endpoint `{name}`"));
            }
        }
        let is_driver = !roles.is_empty();
        for handle in system.handles.iter().filter(|handle| handle.task as usize == task && !is_driver) {
            if handle.kind == kind::INTERRUPT
                && handle.rights & rights::ACKNOWLEDGE != 0
                && let Some((name, _)) = system.interrupts.get(handle.object as usize)
            {
                roles.push(format!("handler of interrupt `{name}`"));
            }
        }
        for graph in system.graphs.iter().filter(|graph| graph.nodes.iter().any(|(node, _)| *node == task)) {
            roles.push(format!("node of graph `{}`", graph.name));
        }
        roles
    }
}

/// Whether the manifest's table `test` says so.
fn is_expected(end: &End, expected: &Expectations) -> bool {
    let exits = |code: u32| expected.exits.contains(&(end.task, code));
    match end.how {
        Ended::Exited(code) => exits(code),
        Ended::Panicked => exits(PANIC_CODE as u32),
        Ended::Faulted => expected.faults.contains(&end.task),
        Ended::Stopped(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_manifest::Manifest;
    use std::path::Path;

    /// Task 0 is hard, task 1 serves, task 2 does neither.
    fn manifest(test: &str) -> Manifest {
        let text = format!(
            "[system]\nname = \"judged\"\nboard = \"virt\"\ncpus = 1\nadmission = \"warn\"\n[tasks.brake]\nbinary = \"apps/ticker\"\n\
             period = \"10ms\"\nbudget = \"1ms\"\nhard = true\n[tasks.log]\nbinary = \"apps/hello\"\nhandles = {{ text = \
             \"endpoint text: receive\" }}\n[tasks.other]\nbinary = \"apps/hello\"\n[endpoints.text]\nserver = \"log\"\n{test}"
        );
        Manifest::parse(Path::new("judged.toml"), &text).unwrap()
    }

    fn record(time: u64, event: Event, thread: u16, job: u32, object: u32, value: u32) -> Record {
        Record { time, number: 0, event: event as u8, cpu: 0, thread, job, object, value }
    }

    fn verdict(records: &[Record], test: &str) -> Verdict {
        let manifest = manifest(test);
        Watch::of(&Trace::from_records(records.to_vec()), &manifest.system).verdict(manifest.expectations.as_ref())
    }

    #[test]
    fn a_run_in_which_nothing_happens_is_right() {
        let records = [record(0, Event::Release, 1, 1, 0, 10_000), record(5, Event::Complete, 1, 1, 0, -5i32 as u32)];
        assert_eq!(verdict(&records, ""), Verdict::default());
    }

    #[test]
    fn a_late_a_skipped_and_an_overdue_job_of_a_hard_task_are_misses_and_of_another_task_are_not() {
        let all = |thread| {
            [
                record(0, Event::Release, thread, 1, 0, 10_000),
                record(11_000_000, Event::Complete, thread, 1, 0, 1_000_000),
                record(12_000_000, Event::Skip, thread, 2, 0, 0),
                record(20_000_000, Event::Release, thread, 3, 0, 10_000),
                record(30_000_001, Event::Idle, 0, 0, 0, 0),
            ]
        };
        let words = "hard task `brake` missed 1 of 1 deadlines; 1 release was skipped, 1 job is overdue";
        assert_eq!(verdict(&all(1), "").misses, [words]);
        assert_eq!(verdict(&all(2), "").misses, [""; 0]);
    }

    #[test]
    fn a_ledger_counts_misses_whose_records_are_lost() {
        let ledger = |ledger: Ledger, amount| record(9, Event::Ledger, 0, 0, (ledger as u32) << 16, amount);
        let words = "hard task `brake` missed 7 of 90 deadlines; 0 releases were skipped, 0 jobs are overdue";
        assert_eq!(verdict(&[ledger(Ledger::Jobs, 90), ledger(Ledger::Misses, 7)], "").misses, [words]);
    }

    #[test]
    fn a_panic_is_told_with_its_message_and_a_server_that_ends_with_what_it_serves() {
        let text = |number: u32, text: &[u8; 8]| {
            let word = u64::from_le_bytes(*text);
            record(3, Event::Log, 3, (word >> 32) as u32, PANIC_TEXT + number, word as u32)
        };
        let panic = [text(0, b"panicked"), text(1, b" at:\nhot"), record(4_000, Event::Exit, 3, 0, 0, 101)];
        assert_eq!(verdict(&panic, "").ends, ["task `other` panicked at: hot (4.000 us)"]);
        let exit = [record(4_000, Event::Exit, 2, 0, 0, 0)];
        assert_eq!(verdict(&exit, "").ends, ["task `log`, server of endpoint `text`, exited with code 0 (4.000 us)"]);
        let stop = [record(4_000, Event::Stop, 2, 0, 1, 0)];
        let words = "task `log`, server of endpoint `text`, was stopped by task `brake` (4.000 us)";
        assert_eq!(verdict(&stop, "").ends, [words]);
    }

    #[test]
    fn what_is_expected_and_what_nobody_needs_is_harmless() {
        let exit = [record(4_000, Event::Exit, 3, 0, 0, 0)];
        assert_eq!(verdict(&exit, "").ends, [""; 0]);
        assert_eq!(verdict(&exit, "").harmless, ["task `other` exited with code 0 (4.000 us)"]);
        let ends = [record(4_000, Event::Exit, 2, 0, 0, 101), record(5_000, Event::Fault, 3, 0, 0, 1)];
        let expected = verdict(&ends, "[test]\nexits = [\"log: 101\"]\nfaults = [\"other\"]\n");
        assert_eq!((expected.ends.len(), expected.harmless.len()), (0, 2));
        assert_eq!(verdict(&ends, "").ends.len(), 2);
    }

    /// A graph of two tasks, 10 ms each round, that may take 15.
    fn of_graph(records: &[Record], line: &str) -> Verdict {
        let text = "[system]\nname = \"judged\"\nboard = \"virt\"\ncpus = 1\nadmission = \"warn\"\n[tasks.camera]\nbinary = \"apps/ticker\"\n\
             period = \"10ms\"\nbudget = \"1ms\"\n[tasks.warp]\nbinary = \"apps/ticker\"\nbudget = \"1ms\"\n\
             [graphs.video]\nsource = \"camera\"\nlatency = \"15ms\"\n[graphs.video.edges]\npicture = { from = \"camera\", to = \"warp\" }\n";
        let manifest = Manifest::parse(Path::new("judged.toml"), &(text.to_owned() + line)).unwrap();
        Watch::of(&Trace::from_records(records.to_vec()), &manifest.system).verdict(manifest.expectations.as_ref())
    }

    #[test]
    fn a_graph_is_late_if_a_job_ends_too_long_after_its_source_was_released_or_not_at_all() {
        let ends = |job: u32, at: u64| record(at, Event::Complete, 2, job, 0, 0);
        let quiet = |at| record(at, Event::Idle, 0, 0, 0, 0);
        assert_eq!(of_graph(&[ends(1, 15_000_000), ends(2, 25_000_000), quiet(35_000_000)], ""), Verdict::default());
        let late = "graph `video`, whose latency is 15 ms, was late 1 of 2 times, the longest 15.001 ms";
        assert_eq!(of_graph(&[ends(1, 15_000_000), ends(2, 25_001_000), quiet(35_000_000)], "").misses, [late]);
        let overdue = "graph `video`, whose latency is 15 ms, was late 0 of 1 times, the longest 15.000 ms, and its next job is overdue";
        assert_eq!(of_graph(&[ends(1, 15_000_000), quiet(25_000_001)], "").misses, [overdue]);
    }

    #[test]
    fn a_node_that_faults_is_told_with_its_graph() {
        let faults = [record(5, Event::Fault, 2, 1, 0, 0)];
        assert_eq!(of_graph(&faults, "").ends, ["task `warp`, node of graph `video`, faulted (5 ns)"]);
        let expected = of_graph(&faults, "[test]\nfaults = [\"warp\"]\n");
        assert_eq!((expected.ends.len(), expected.harmless.len()), (0, 1));
    }
}

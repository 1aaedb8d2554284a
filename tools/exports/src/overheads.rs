//! The times of the kernel's paths in a trace, for SchedCAT.
//!
//! SchedCAT reads overheads as a table of comma-separated values: a line of names, then a line for each number of tasks, of microseconds,
//! between which it interpolates. A trace gives one such line, of the greatest samples. Lines of several traces make a file of several
//! numbers of tasks. There are no comments in that format, so the meanings of the columns stand here.
//!
//! | Column | Sample |
//! |---|---|
//! | `RELEASE-LATENCY` | from the instant of a periodic release until the kernel records it; jobs that queue or do not complete have none |
//! | `IPI-LATENCY` | from a kick until the kicked CPU records the next switch, if it records nothing before that |
//! | `SCHEDULE` | from the end of a job until its thread is switched away: the choice of the next thread |
//! | `CXS` | from there until the next thread is switched to: the part of a switch before that record |
//!
//! # Times that cannot be known
//!
//! A record says when it was written, not when its trap began or ended. So entry and exit of the kernel (`SYSCALL-IN`, `SYSCALL-OUT`), the handling of a
//! release (`RELEASE`), acquiring and releasing (`LOCK`, `UNLOCK`), and the loading of registers after a switch's record are
//! not in it: `cargo xtask bench` measures them. There is no `TICK`. Nor are the costs of cold caches. In the simulator paths take the time that
//! `--overheads` says, without it none.
//!
//! # Source
//! SchedCAT, `schedcat/overheads/model.py` and `schedcat/util/csv.py`, for the names and the format.

use std::collections::BTreeMap;
use std::fmt::Write;

use fusee_abi::image::release;
use fusee_abi::trace::{Event, Record};
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;

use fusee_views::schedule::Schedule;
use fusee_views::thousandths;

const RELEASE_LATENCY: &str = "RELEASE-LATENCY";
const IPI_LATENCY: &str = "IPI-LATENCY";
const SCHEDULE: &str = "SCHEDULE";
const CXS: &str = "CXS";

/// Samples of the times of kernel paths.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Overheads {
    /// Tasks of the system.
    pub tasks: usize,
    /// For each of SchedCAT's names all samples, nanoseconds, in ascending order.
    pub samples: BTreeMap<&'static str, Vec<u64>>,
}

/// The state of a CPU, as far as its last record says.
#[derive(Clone, Copy)]
enum Doing {
    /// The CPU was kicked at this instant.
    Kicked(u64),
    /// The job of this thread ended.
    Ended(u16, u64),
    /// Its thread was switched away.
    Switching(u64),
}

impl Overheads {
    /// The samples of `trace`.
    #[must_use]
    pub fn of(trace: &Trace, system: &Resolved) -> Overheads {
        let mut all = Overheads { tasks: system.tasks.len(), samples: BTreeMap::new() };
        let mut cpus: BTreeMap<u8, Doing> = BTreeMap::new();
        for record in &trace.records {
            all.read(record, &mut cpus);
        }
        for job in Schedule::of(trace, system).jobs {
            let reservation = system.tasks[job.task].reservation.map(|index| system.reservations[index]);
            let is_periodic = reservation.is_some_and(|one| one.release == release::PERIODIC);
            if is_periodic && !job.queued && job.completed.is_some() {
                all.add(RELEASE_LATENCY, job.seen.saturating_sub(job.release));
            }
        }
        all.samples.values_mut().for_each(|samples| samples.sort_unstable());
        all
    }

    fn add(&mut self, name: &'static str, sample: u64) {
        self.samples.entry(name).or_default().push(sample);
    }

    fn read(&mut self, record: &Record, cpus: &mut BTreeMap<u8, Doing>) {
        let time = record.time;
        let event = Event::from_number(record.event);
        if let (Some(Event::Kick), Ok(kicked)) = (event, u8::try_from(record.object)) {
            // The first of several kicks is the one that arrives.
            if !matches!(cpus.get(&kicked), Some(Doing::Kicked(_))) {
                cpus.insert(kicked, Doing::Kicked(time));
            }
            return;
        }
        let before = cpus.get(&record.cpu).copied();
        let next = match (event, before) {
            (Some(Event::SwitchAway | Event::SwitchTo), Some(Doing::Kicked(since))) => {
                self.add(IPI_LATENCY, time.saturating_sub(since));
                (event == Some(Event::SwitchAway)).then_some(Doing::Switching(time))
            }
            (Some(Event::Complete), _) => Some(Doing::Ended(record.thread, time)),
            // A release meanwhile is part of the choice.
            (Some(Event::Release), Some(Doing::Ended(..))) => before,
            (Some(Event::SwitchAway), _) => {
                if let Some(Doing::Ended(_, since)) =
                    before.filter(|one| matches!(one, Doing::Ended(thread, _) if *thread == record.thread))
                {
                    self.add(SCHEDULE, time.saturating_sub(since));
                }
                Some(Doing::Switching(time))
            }
            (Some(Event::SwitchTo), Some(Doing::Switching(since))) => {
                self.add(CXS, time.saturating_sub(since));
                None
            }
            _ => None,
        };
        match next {
            Some(next) => _ = cpus.insert(record.cpu, next),
            None => _ = cpus.remove(&record.cpu),
        }
    }

    /// The greatest samples, as SchedCAT reads them.
    #[must_use]
    pub fn csv(&self) -> String {
        let (mut names, mut values) = ("TASK-COUNT".to_owned(), self.tasks.to_string());
        for (name, samples) in &self.samples {
            let greatest = samples.last().copied().unwrap_or(0);
            let _ = write!(names, ",{name}");
            let _ = write!(values, ",{}", thousandths(greatest));
        }
        format!("{names}\n{values}\n")
    }

    /// How many samples there are, and how they spread, a line for each name.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for (name, samples) in &self.samples {
            let (count, median) = (samples.len(), samples[samples.len() / 2]);
            let [least, median, greatest] = [samples[0], median, samples[count - 1]].map(thousandths);
            let _ = writeln!(text, "{name}: {count} samples, least {least}, median {median}, greatest {greatest} us");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    /// Names that SchedCAT knows.
    const KNOWN: [&str; 12] = [
        "IPI-LATENCY",
        "SCHEDULE",
        "RELEASE",
        "CXS",
        "TICK",
        "RELEASE-LATENCY",
        "LOCK",
        "UNLOCK",
        "READ-LOCK",
        "READ-UNLOCK",
        "SYSCALL-IN",
        "SYSCALL-OUT",
    ];

    fn at(time: u64, cpu: u8, event: Event, thread: u16) -> Record {
        Record { time, cpu, event: event as u8, thread, job: 1, ..Record::default() }
    }

    fn samples() -> Overheads {
        // The job was released at 10 ms, and its deadline was 5 ms later.
        let complete = Record { value: (-3_000_000i32).cast_unsigned(), ..at(12_000_000, 0, Event::Complete, 1) };
        let records = vec![
            at(10_000_700, 0, Event::Release, 1),
            at(10_000_900, 0, Event::SwitchTo, 1),
            Record { object: 1, ..at(10_001_000, 0, Event::Kick, 0) },
            Record { object: 1, ..at(10_001_200, 0, Event::Kick, 0) },
            at(10_001_504, 1, Event::SwitchTo, 3),
            complete,
            at(12_000_300, 0, Event::Release, 2),
            at(12_000_400, 0, Event::SwitchAway, 1),
            at(12_000_450, 0, Event::SwitchTo, 2),
            // It is switched away for another reason, and nothing follows.
            at(13_000_000, 0, Event::SwitchAway, 2),
            at(13_000_100, 0, Event::Idle, 0),
            // This kick changes nothing, and the switch is another's.
            Record { object: 1, ..at(14_000_000, 0, Event::Kick, 0) },
            at(14_000_300, 1, Event::Interrupt, 0),
            at(15_000_000, 1, Event::SwitchAway, 3),
            at(15_000_060, 1, Event::SwitchTo, 1),
        ];
        Overheads::of(&Trace::from_records(records), &random::system())
    }

    #[test]
    fn samples_are_what_passed_between_records() {
        let expected =
            [(CXS, vec![50, 60]), (IPI_LATENCY, vec![504]), (RELEASE_LATENCY, vec![700]), (SCHEDULE, vec![400])];
        assert_eq!(samples().samples, BTreeMap::from(expected));
    }

    /// As SchedCAT does it: names first, lines as long as that of the names, all of them numbers, and `TASK-COUNT` is there.
    #[test]
    fn the_table_is_one_that_schedcat_reads() {
        let csv = samples().csv();
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<&str>>());
        let names = lines.next().expect("names");
        let values: Vec<f64> = lines.next().expect("values").iter().map(|one| one.parse().expect("a number")).collect();
        assert_eq!((names.len(), lines.next()), (values.len(), None));
        assert_eq!((names[0], values[0]), ("TASK-COUNT", 3.0));
        assert!(names[1..].iter().all(|name| KNOWN.contains(name)));
        assert_eq!(values[1..], [0.06, 0.504, 0.7, 0.4]);
    }
}

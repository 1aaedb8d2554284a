//! A trace in the format of LITMUS^RT's `sched_trace`: records of 24 bytes that its tools read.
//!
//! Each record has a header of eight bytes (type, CPU, process, job) and sixteen bytes of data, little endian. A process is a task's index + 1.
//! A task has a name and parameters first; then come releases, switches, completions and waits in the order of the trace. Events for which
//! LITMUS^RT has no record are left out: engines, tokens, calls, budgets.
//!
//! Source: `include/litmus/sched_trace.h` of LITMUS^RT 2017.1, for the layout.

use fusee_abi::trace::Event;
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;

/// Bytes of a record.
pub const RECORD: usize = 24;

/// The data of a record. Times in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Data {
    /// The name of a task, padded with zeros.
    Name([u8; 16]),
    /// Parameters of a task.
    Param {
        /// Its worst-case execution time, its budget here,
        wcet: u32,
        /// its period
        period: u32,
        /// and its first release.
        phase: u32,
        /// The cluster's lowest CPU.
        partition: u8,
        /// 0: hard, 1: soft, 2: best effort.
        class: u8,
    },
    /// A job was released.
    Release {
        /// When.
        release: u64,
        /// Its deadline.
        deadline: u64,
    },
    /// The job starts to run.
    SwitchTo {
        /// When.
        when: u64,
        /// How long the job has run.
        exec_time: u32,
    },
    /// The job stops running.
    SwitchAway {
        /// When.
        when: u64,
        /// How long the job has run.
        exec_time: u64,
    },
    /// The job is complete.
    Completion {
        /// When.
        when: u64,
    },
    /// The job suspends.
    Block {
        /// When.
        when: u64,
    },
    /// The job is ready again.
    Resume {
        /// When.
        when: u64,
    },
    /// All tasks are released together.
    SystemRelease {
        /// When it was said,
        when: u64,
        /// and for when.
        release: u64,
    },
}

/// One record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Record {
    /// The CPU that wrote it.
    pub cpu: u8,
    /// The task's index + 1; zero: none.
    pub pid: u16,
    /// Its job.
    pub job: u32,
    /// The data.
    pub data: Data,
}

/// Why bytes are no such trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FormatError {
    /// They end in the middle of a record.
    Truncated,
    /// The record with this number is of a type that is not known.
    Type(usize, u8),
}

impl std::fmt::Display for FormatError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => f.write_str("the trace ends in the middle of a record"),
            Self::Type(number, kind) => write!(f, "record {number} is of type {kind}, which is not known"),
        }
    }
}

impl std::error::Error for FormatError {}

const NAME: u8 = 1;
const PARAM: u8 = 2;
const RELEASE: u8 = 3;
const SWITCH_TO: u8 = 5;
const SWITCH_AWAY: u8 = 6;
const COMPLETION: u8 = 7;
const BLOCK: u8 = 8;
const RESUME: u8 = 9;
const SYSTEM_RELEASE: u8 = 11;

impl Record {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; RECORD] {
        let two = |first: u64, second: u64| [first.to_le_bytes(), second.to_le_bytes()].concat();
        let (kind, data) = match self.data {
            Data::Name(name) => (NAME, name.to_vec()),
            Data::Param { wcet, period, phase, partition, class } => {
                let mut data = [wcet, period, phase].map(u32::to_le_bytes).concat();
                data.extend([partition, class, 0, 0]);
                (PARAM, data)
            }
            Data::Release { release, deadline } => (RELEASE, two(release, deadline)),
            Data::SwitchTo { when, exec_time } => (SWITCH_TO, two(when, exec_time.into())),
            Data::SwitchAway { when, exec_time } => (SWITCH_AWAY, two(when, exec_time)),
            Data::Completion { when } => (COMPLETION, two(when, 0)),
            Data::Block { when } => (BLOCK, two(when, 0)),
            Data::Resume { when } => (RESUME, two(when, 0)),
            Data::SystemRelease { when, release } => (SYSTEM_RELEASE, two(when, release)),
        };
        let mut bytes = [0; RECORD];
        bytes[0] = kind;
        bytes[1] = self.cpu;
        bytes[2..4].copy_from_slice(&self.pid.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.job.to_le_bytes());
        bytes[8..].copy_from_slice(&data);
        bytes
    }

    /// The record of these bytes; the type, if that is not known.
    fn parse(bytes: &[u8; RECORD]) -> Result<Record, u8> {
        let number = |from: usize, length: usize| {
            bytes[from..from + length].iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let (first, second) = (number(8, 8), number(16, 8));
        let data = match bytes[0] {
            NAME => {
                let mut name = [0; 16];
                name.copy_from_slice(&bytes[8..]);
                Data::Name(name)
            }
            PARAM => Data::Param {
                wcet: number(8, 4) as u32,
                period: number(12, 4) as u32,
                phase: number(16, 4) as u32,
                partition: bytes[20],
                class: bytes[21],
            },
            RELEASE => Data::Release { release: first, deadline: second },
            SWITCH_TO => Data::SwitchTo { when: first, exec_time: second as u32 },
            SWITCH_AWAY => Data::SwitchAway { when: first, exec_time: second },
            COMPLETION => Data::Completion { when: first },
            BLOCK => Data::Block { when: first },
            RESUME => Data::Resume { when: first },
            SYSTEM_RELEASE => Data::SystemRelease { when: first, release: second },
            other => return Err(other),
        };
        Ok(Record { cpu: bytes[1], pid: number(2, 2) as u16, job: number(4, 4) as u32, data })
    }
}

/// Reads a trace.
///
/// # Errors
/// [`FormatError`] names the first record that is none.
pub fn read(bytes: &[u8]) -> Result<Vec<Record>, FormatError> {
    let (records, rest) = bytes.as_chunks::<RECORD>();
    if !rest.is_empty() {
        return Err(FormatError::Truncated);
    }
    let parse =
        |(number, bytes): (usize, &[u8; RECORD])| Record::parse(bytes).map_err(|kind| FormatError::Type(number, kind));
    records.iter().enumerate().map(parse).collect()
}

/// Writes records one after the other.
#[must_use]
pub fn write(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(Record::bytes).collect()
}

/// The records of a trace of ours.
#[must_use]
pub fn records(trace: &Trace, system: &Resolved) -> Vec<Record> {
    let mut out = Vec::new();
    let short = |time: u64| u32::try_from(time).unwrap_or(u32::MAX);
    for (index, task) in system.tasks.iter().enumerate() {
        let Ok(pid) = u16::try_from(index + 1) else { break };
        let mut name = [0; 16];
        name.iter_mut().zip(task.name.bytes()).for_each(|(to, byte)| *to = byte);
        out.push(Record { cpu: 0, pid, job: 0, data: Data::Name(name) });
        let Some(own) = task.reservation.map(|own| &system.reservations[own]) else { continue };
        let cpus = system.clusters.get(own.cluster as usize).map_or(0, |(_, cluster)| cluster.cpus);
        let class = match (own.class, task.hard) {
            (fusee_abi::image::class::REAL_TIME, true) => 0,
            (fusee_abi::image::class::REAL_TIME, false) => 1,
            _ => 2,
        };
        let partition = cpus.trailing_zeros().min(255) as u8;
        let data = Data::Param {
            wcet: short(own.budget),
            period: short(own.period),
            phase: short(own.phase),
            partition,
            class,
        };
        out.push(Record { cpu: 0, pid, job: 0, data });
    }
    out.push(Record { cpu: 0, pid: 0, job: 0, data: Data::SystemRelease { when: 0, release: system.start } });
    // Of each task how long its job has run, and since when it runs.
    let mut ran = vec![(0u64, None::<u64>); system.tasks.len() + 1];
    for record in &trace.records {
        let (when, task) = (record.time, usize::from(record.thread));
        let Some(state) = ran.get_mut(task).filter(|_| task != 0) else { continue };
        let data = match Event::from_number(record.event) {
            Some(Event::Release) => {
                *state = (0, state.1.map(|_| when));
                Data::Release { release: when, deadline: when.saturating_add(record.relative_deadline()) }
            }
            Some(Event::SwitchTo) => {
                state.1 = Some(when);
                Data::SwitchTo { when, exec_time: short(state.0) }
            }
            Some(Event::SwitchAway) => {
                state.0 += state.1.take().map_or(0, |since| when.saturating_sub(since));
                Data::SwitchAway { when, exec_time: state.0 }
            }
            Some(Event::Complete) => Data::Completion { when },
            Some(Event::Block) => Data::Block { when },
            Some(Event::Resume) => Data::Resume { when },
            _ => continue,
        };
        out.push(Record { cpu: record.cpu, pid: record.thread, job: record.job, data });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_manifest::Manifest;
    use std::path::Path;

    const SYSTEM: &str = "[system]\nname = \"s\"\nboard = \"virt\"\ncpus = 1\nstart = \"10ms\"\n\
        [tasks.camera]\nscript = [\"burn 1ms\"]\nperiod = \"10ms\"\nbudget = \"2ms\"\n";

    fn record(time: u64, event: Event, job: u32, value: u32) -> fusee_abi::trace::Record {
        let object = u32::from(event == Event::EngineGrant);
        fusee_abi::trace::Record { time, event: event as u8, thread: 1, job, object, value, ..Default::default() }
    }

    #[test]
    fn what_is_written_is_read_and_written_the_same() {
        let manifest = Manifest::parse(Path::new("s.toml"), SYSTEM).expect("a good manifest");
        let trace = Trace::from_records(vec![
            record(10_000_000, Event::Release, 1, 10_000),
            record(10_000_100, Event::SwitchTo, 1, 0),
            record(10_500_100, Event::SwitchAway, 1, 0),
            record(10_600_000, Event::SwitchTo, 1, 0),
            record(11_100_000, Event::Complete, 1, 0),
            record(11_100_000, Event::SwitchAway, 1, 0),
            record(11_200_000, Event::EngineGrant, 1, 0),
        ]);
        let records = records(&trace, &manifest.system);
        let bytes = write(&records);
        assert_eq!(bytes.len(), records.len() * RECORD);
        assert_eq!(read(&bytes).as_ref(), Ok(&records));
        assert_eq!(write(&read(&bytes).expect("it is a trace")), bytes);
        // A name, parameters, the release of the system, and six of the seven events.
        assert_eq!(records.len(), 9);
        assert_eq!(
            records[1].data,
            Data::Param { wcet: 2_000_000, period: 10_000_000, phase: 0, partition: 0, class: 1 }
        );
        assert_eq!(records[3].data, Data::Release { release: 10_000_000, deadline: 20_000_000 });
        assert_eq!(records[8].data, Data::SwitchAway { when: 11_100_000, exec_time: 1_000_000 });
        // Type, CPU, process, job; time; the time it ran.
        let last = [6, 0, 1, 0, 1, 0, 0, 0, 0x60, 0x5f, 0xa9, 0, 0, 0, 0, 0, 0x40, 0x42, 0x0f, 0, 0, 0, 0, 0];
        assert_eq!(bytes[8 * RECORD..], last);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_place() {
        assert_eq!(read(&[1; RECORD + 1]), Err(FormatError::Truncated));
        let mut bytes = [1; 2 * RECORD];
        bytes[RECORD] = 77;
        assert_eq!(read(&bytes), Err(FormatError::Type(1, 77)));
    }
}

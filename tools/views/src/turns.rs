//! The times at which each emulated CPU was executed: from the profiler's lines and the trace of one run.
//!
//! The profiler counts instructions of all CPUs; the kernel's clock counts them, too, while any CPU has something to do, and jumps while none has.
//! Records have both: the profiler says how many instructions had been executed when their times were read. Between two
//! records the clock goes with the count, unless it jumped; then lines that are close to the later record come after the jump.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use fusee_manifest::trace::Trace;

use crate::explain::Turn;

/// Instructions from the end of a jump of the clock to the first record after it, at most: the way into the kernel.
const WAY_IN: u64 = 3_000;
/// Nanoseconds by which clock and count may differ between two records though the clock did not jump: blocks that fault are counted as a whole.
const SLIP: u64 = 200;

/// Why turns are not known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TurnsError {
    /// Records were overwritten: nothing says any more which were seen.
    Lost(u64),
    /// The line with this number is not one of the profiler's.
    Line(usize),
    /// The profiler saw fewer records of this CPU than there are.
    Records(u8),
    /// The clock of this record does not go with the count of instructions.
    Clock(u64),
}

impl fmt::Display for TurnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(lost) => write!(f, "turns are not known: {lost} records of the trace were overwritten"),
            Self::Line(line) => write!(f, "line {line} of the profiler's file is not understood"),
            Self::Records(cpu) => write!(f, "the profiler has not seen all records of CPU {cpu}"),
            Self::Clock(time) => write!(f, "at {time} ns the clock does not go with the instructions"),
        }
    }
}

impl std::error::Error for TurnsError {}

/// The lines of the profiler.
struct Seen {
    /// Which core is executed, after how many instructions.
    slices: Vec<(u32, u64)>,
    /// By ring, how many instructions had been executed when the times of its records were read.
    records: BTreeMap<u8, Vec<u64>>,
}

impl FromStr for Seen {
    type Err = TurnsError;

    fn from_str(text: &str) -> Result<Seen, TurnsError> {
        let mut seen = Seen { slices: Vec::new(), records: BTreeMap::new() };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (index, line) in whole.lines().enumerate() {
            let wrong = TurnsError::Line(index + 1);
            let words: Vec<&str> = line.split(' ').collect();
            let [kind, place, count] = words[..] else { return Err(wrong) };
            let (Ok(place), Ok(count)) = (place.parse::<u8>(), count.parse()) else { return Err(wrong) };
            match kind {
                "turn" => seen.slices.push((u32::from(place), count)),
                "record" => seen.records.entry(place).or_default().push(count),
                _ => return Err(wrong),
            }
        }
        Ok(seen)
    }
}

/// When the CPUs of the kernel were not executed. `text`: the profiler's file; `stride`: cores of the emulator for each CPU.
///
/// # Errors
/// [`TurnsError`] says why that is not known.
pub fn turns(text: &str, trace: &Trace, stride: u32) -> Result<Vec<Turn>, TurnsError> {
    if trace.lost > 0 {
        return Err(TurnsError::Lost(trace.lost));
    }
    let seen: Seen = text.parse()?;
    let clock = Clock::of(&seen, trace)?;
    let mut turns = Vec::new();
    // Since when each core has not been executed.
    let mut away: BTreeMap<u32, u64> = BTreeMap::new();
    let mut executed: Option<u32> = None;
    for (core, count) in seen.slices {
        let now = clock.at(count);
        if let Some(before) = executed.replace(core) {
            away.insert(before, now);
        }
        if let (Some(from), 0, Ok(cpu)) = (away.remove(&core), core % stride, u8::try_from(core / stride)) {
            turns.push(Turn { cpu, from, until: now });
        }
    }
    turns.retain(|turn| turn.from < turn.until);
    Ok(turns)
}

/// Count of instructions and the kernel's clock, nanoseconds, at some points in order.
struct Clock(Vec<(u64, u64)>);

impl Clock {
    fn of(seen: &Seen, trace: &Trace) -> Result<Clock, TurnsError> {
        let mut next: BTreeMap<u8, std::slice::Iter<'_, u64>> =
            seen.records.iter().map(|(ring, counts)| (*ring, counts.iter())).collect();
        let mut points = Vec::with_capacity(trace.records.len());
        for record in &trace.records {
            let count = next.get_mut(&record.cpu).and_then(Iterator::next).ok_or(TurnsError::Records(record.cpu))?;
            points.push((*count, record.time));
        }
        points.sort_unstable();
        points.dedup();
        // The clock is never behind the count by more than the excess of the count.
        match points.array_windows().find(|[from, to]| to.1 + SLIP < from.1 + (to.0 - from.0)) {
            Some([_, late]) => Err(TurnsError::Clock(late.1)),
            None => Ok(Clock(points)),
        }
    }

    /// The time after so many instructions.
    fn at(&self, count: u64) -> u64 {
        let after = self.0.partition_point(|point| point.0 <= count);
        match (after.checked_sub(1).map(|before| self.0[before]), self.0.get(after).copied()) {
            (Some(from), Some(to)) => {
                let straight = from.1 + (count - from.0);
                let back = to.1.saturating_sub(to.0 - count);
                let jumps = to.1 - from.1 > to.0 - from.0 + SLIP;
                let time = if jumps && to.0 - count <= WAY_IN { back } else { straight };
                time.clamp(from.1, to.1)
            }
            (Some(from), None) => from.1 + (count - from.0),
            (None, Some(to)) => to.1.saturating_sub(to.0 - count),
            (None, None) => count,
        }
    }
}

/// Turns as text, a line for each.
#[must_use]
pub fn write(turns: &[Turn]) -> String {
    turns.iter().map(|turn| format!("{} {} {}\n", turn.cpu, turn.from, turn.until)).collect()
}

/// The turns that [`write()`] wrote.
///
/// # Errors
/// A line that it did not write.
pub fn read(text: &str) -> Result<Vec<Turn>, TurnsError> {
    let turn = |(index, line): (usize, &str)| {
        let numbers: Option<Vec<u64>> = line.split(' ').map(|number| number.parse().ok()).collect();
        let [cpu, from, until] = numbers.ok_or(TurnsError::Line(index + 1))?[..] else {
            return Err(TurnsError::Line(index + 1));
        };
        let cpu = u8::try_from(cpu).map_err(|_| TurnsError::Line(index + 1))?;
        Ok(Turn { cpu, from, until })
    };
    text.lines().enumerate().map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_abi::trace::Record;

    /// Records of these CPUs at these times, in this order.
    fn trace(records: &[(u8, u64)]) -> Trace {
        let record = |(index, (cpu, time)): (usize, &(u8, u64))| Record {
            number: index as u64 + 1,
            cpu: *cpu,
            time: *time,
            ..Record::default()
        };
        Trace::from_records(records.iter().enumerate().map(record).collect())
    }

    #[test]
    fn while_one_cpu_is_executed_the_others_are_not() {
        let text = "turn 0 0\nrecord 0 10\nturn 2 100\nrecord 1 120\nturn 0 150\nrecord 0 160\n";
        let turns = turns(text, &trace(&[(0, 1_010), (1, 1_120), (0, 1_160)]), 2).unwrap();
        assert_eq!(turns, [Turn { cpu: 0, from: 1_100, until: 1_150 }]);
        assert_eq!(read(&write(&turns)).unwrap(), turns);
    }

    #[test]
    fn what_is_close_to_a_record_after_a_jump_of_the_clock_comes_after_it() {
        let text = "turn 0 0\nrecord 0 10\nturn 1 20\nturn 0 5000\nrecord 0 5010\n";
        let turns = turns(text, &trace(&[(0, 10), (0, 905_010)]), 1).unwrap();
        assert_eq!(turns, [Turn { cpu: 0, from: 20, until: 905_000 }]);
    }

    #[test]
    fn what_does_not_fit_the_trace_is_refused() {
        let of = |text: &str, records: &[(u8, u64)]| turns(text, &trace(records), 1).unwrap_err();
        assert_eq!(of("turn 0 0\nrecord 0 10\n", &[(0, 10), (0, 20)]), TurnsError::Records(0));
        assert_eq!(of("record 0 10\nrecord 0 9000\n", &[(0, 10), (0, 20)]), TurnsError::Clock(20));
        assert_eq!(of("turn 0\n", &[]), TurnsError::Line(1));
        assert_eq!(of("spin 0 1\n", &[]), TurnsError::Line(1));
        let lost = Trace { lost: 3, ..Trace::default() };
        assert_eq!(turns("", &lost, 1).unwrap_err(), TurnsError::Lost(3));
        assert!(read("0 1\n").is_err());
    }
}

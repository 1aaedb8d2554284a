//! Traces: from ring buffers to records, and to a form that two runs can be compared in.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use fusee_abi::Call;
use fusee_abi::image::kind;
use fusee_abi::trace::{
    BACKGROUND_KEY, BY_INTERRUPT, DEFMT_FRAME, ENGINE_TIME_SHIFT, Event, LOG_TEXT, Ledger, PANIC_TEXT, POOL,
    RING_MAGIC, Record, RingHeader, SERVICE_KEY, TRAP_FAULT, TRAP_KICK, TRAP_TIMER,
};
use zerocopy::FromBytes;

use crate::resolve::Resolved;

/// The grid of conformance systems: releases, burns and modelled engine times are multiples of it.
pub const GRID: u64 = 1_000_000;

/// A decoded trace, in the order in which the kernel wrote it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Trace {
    /// The records of all CPUs. Records with equal times from one CPU keep their order.
    pub records: Vec<Record>,
    /// Records that were overwritten before they could be read.
    pub lost: u64,
}

/// The reason why bytes are not a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TraceError {
    /// Ring `0`'s header lacks the magic word. A CPU that never came up leaves zeros, which is no error.
    NoRing(usize),
    /// The bytes end in the middle of a ring.
    Truncated,
}

impl std::fmt::Display for TraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRing(ring) => write!(f, "ring {ring} of the trace does not start with its magic word"),
            Self::Truncated => f.write_str("the trace ends in the middle of a ring"),
        }
    }
}

impl std::error::Error for TraceError {}

/// The key for sorting records: their numbers, which never put an effect before its cause; without these their times.
fn order(record: &Record) -> (u64, u64) {
    if record.number == 0 { (0, record.time) } else { (record.number, record.time) }
}

impl Trace {
    /// Reads the rings of all CPUs, which lie one after the other, `rings` of them, all of the same size.
    ///
    /// # Errors
    /// [`TraceError`] names the first ring that is none.
    pub fn from_rings(bytes: &[u8], rings: usize) -> Result<Self, TraceError> {
        let mut trace = Trace::default();
        let ring_bytes = bytes.len().checked_div(rings).ok_or(TraceError::Truncated)?;
        let capacity = ring_bytes.saturating_sub(size_of::<RingHeader>()) / size_of::<Record>();
        for (index, ring) in bytes.chunks_exact(ring_bytes.max(1)).take(rings).enumerate() {
            let (header, rest) = RingHeader::read_from_prefix(ring).map_err(|_| TraceError::Truncated)?;
            if header.magic == 0 && header.written == 0 {
                continue;
            }
            if header.magic != RING_MAGIC {
                return Err(TraceError::NoRing(index));
            }
            if header.capacity == 0 || header.capacity > capacity as u64 {
                return Err(TraceError::Truncated);
            }
            let kept = header.written.min(header.capacity);
            trace.lost += header.written - kept;
            for number in header.written - kept..header.written {
                let at = (number % header.capacity) as usize * size_of::<Record>();
                let (record, _) = Record::read_from_prefix(&rest[at..]).map_err(|_| TraceError::Truncated)?;
                trace.records.push(record);
            }
        }
        trace.records.sort_by_key(order);
        Ok(trace)
    }

    /// A trace from records that were collected elsewhere. Numbers that are left out are records that were lost.
    #[must_use]
    pub fn from_records(mut records: Vec<Record>) -> Self {
        records.sort_by_key(order);
        let newest = records.last().map_or(0, |record| record.number);
        let lost = newest.saturating_sub(records.len() as u64);
        Self { records, lost }
    }

    /// The number of missing records that may have been written between two instants, nanoseconds. Records lost at the end are not
    /// known.
    #[must_use]
    pub fn missing_between(&self, from: u64, until: u64) -> u64 {
        // Their times are in the order of their numbers.
        let first = self.records.partition_point(|record| record.time < from);
        let nothing = Record::default();
        let before = first.checked_sub(1).map_or(&nothing, |before| &self.records[before]);
        let pairs = std::iter::once(before).chain(&self.records[first..]).zip(&self.records[first..]);
        let gaps = pairs.take_while(|(one, _)| one.time <= until);
        gaps.map(|(one, next)| next.number.saturating_sub(one.number + 1)).sum()
    }

    /// Whether the level of the trace keeps the decisions of the scheduler.
    #[must_use]
    pub fn has_schedule(&self) -> bool {
        self.records.iter().any(|record| record.event == Event::SwitchTo as u8)
    }

    /// The amounts of all ledger lines, by kind and index.
    #[must_use]
    pub fn ledgers(&self) -> BTreeMap<(u16, u16), u64> {
        self.records
            .iter()
            .filter(|record| record.event == Event::Ledger as u8)
            .map(|record| (((record.object >> 16) as u16, record.object as u16), wide(record)))
            .collect()
    }

    /// The exit code of the system, if it ended by itself.
    #[must_use]
    pub fn exit_code(&self) -> Option<u32> {
        self.records.iter().rev().find(|record| record.event == Event::Shutdown as u8).map(|record| record.value)
    }

    /// Ledgers that are counted from the records, by kind and index, for systems that did not end themselves and so left none:
    /// jobs, lateness, and times between switches, as far as the records reach.
    #[must_use]
    pub fn counted_ledgers(&self, system: &Resolved) -> BTreeMap<(u16, u16), u64> {
        let of = |ledgers: &'static [Ledger], count: usize| {
            (0..count as u32).flat_map(move |index| ledgers.iter().map(move |ledger| ((*ledger, index), 0)))
        };
        let tasks = of(
            &[Ledger::Jobs, Ledger::Misses, Ledger::Skipped, Ledger::ThreadTime, Ledger::Faults],
            system.tasks.len(),
        );
        let mut amounts: BTreeMap<(Ledger, u32), u64> =
            tasks.chain(of(&[Ledger::Charged, Ledger::Throttles], system.reservations.len())).collect();
        // For each CPU the time since when a thread runs, the thread and its reservation.
        let mut running: BTreeMap<u8, (u64, u32, u32)> = BTreeMap::new();
        let end = self.records.last().map_or(0, |record| record.time);
        let stop = |amounts: &mut BTreeMap<_, u64>, run: Option<(u64, u32, u32)>, now: u64| {
            let Some((since, thread, reservation)) = run else { return };
            *amounts.entry((Ledger::ThreadTime, thread)).or_default() += now.saturating_sub(since);
            *amounts.entry((Ledger::Charged, reservation)).or_default() += now.saturating_sub(since);
        };
        for record in &self.records {
            let thread = u32::from(record.thread).wrapping_sub(1);
            let object = record.object.wrapping_sub(1);
            let mut add = |ledger, index, amount| *amounts.entry((ledger, index)).or_default() += amount;
            match Event::from_number(record.event) {
                Some(Event::Complete) => {
                    let lateness = record.lateness();
                    add(Ledger::Jobs, thread, 1);
                    add(Ledger::Misses, thread, u64::from(lateness > 0));
                    let greatest = amounts.entry((Ledger::MaxLateness, thread)).or_insert(i64::MIN.cast_unsigned());
                    *greatest = greatest.cast_signed().max(lateness).cast_unsigned();
                }
                Some(Event::Skip) => add(Ledger::Skipped, thread, 1),
                Some(Event::Throttle) => add(Ledger::Throttles, object, 1),
                Some(Event::Fault) => add(Ledger::Faults, thread, 1),
                // The event is about clients without a lock.
                Some(Event::EngineIdle) if record.thread == 0 => {
                    add(Ledger::SharedTime, object, u64::from(record.value) * 1_000);
                }
                Some(Event::EngineIdle) => {
                    let index = object << ENGINE_TIME_SHIFT | thread;
                    add(Ledger::EngineTime, index, u64::from(record.value) * 1_000);
                }
                Some(Event::SwitchTo) => {
                    let before = running.insert(record.cpu, (record.time, thread, object));
                    stop(&mut amounts, before, record.time);
                }
                // The next may be switched to before the one before is switched away.
                Some(Event::SwitchAway) if running.get(&record.cpu).is_some_and(|run| run.1 != thread) => {}
                Some(Event::SwitchAway | Event::Idle) => {
                    stop(&mut amounts, running.remove(&record.cpu), record.time);
                }
                _ => {}
            }
        }
        for run in running.into_values() {
            stop(&mut amounts, Some(run), end);
        }
        amounts.into_iter().map(|((ledger, index), amount)| ((ledger as u16, index as u16), amount)).collect()
    }

    /// A copy of the trace with these ledgers.
    #[must_use]
    pub fn with_ledgers(&self, amounts: &BTreeMap<(u16, u16), u64>) -> Self {
        let end = self.records.last().map_or(0, |record| record.time);
        let ledgers = amounts.iter().map(|((ledger, index), amount)| Record {
            time: end,
            event: Event::Ledger as u8,
            object: u32::from(*ledger) << 16 | u32::from(*index),
            job: (amount >> 32) as u32,
            value: *amount as u32,
            ..Record::default()
        });
        Self { records: self.records.iter().copied().chain(ledgers).collect(), lost: self.lost }
    }

    /// All `log` records but those of messages: thread + 1, low half of the first number, second number.
    pub fn logs(&self) -> impl Iterator<Item = (u16, u32, u64)> {
        self.records
            .iter()
            .filter(|record| record.event == Event::Log as u8 && record.object < DEFMT_FRAME)
            .map(|record| (record.thread, record.object, wide(record)))
    }
}

/// A message that a task has logged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Message {
    /// Nanoseconds: when its first word was written.
    pub time: u64,
    /// The thread, index + 1.
    pub thread: u16,
    /// The content of the message.
    pub said: Said,
}

/// The content of a message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Said {
    /// A message of the crate `log`: level, file and line, text.
    Text(String),
    /// A message of the crate `defmt`: an encoded frame, without the zero that ends it.
    Frame(Vec<u8>),
}

/// All messages of a trace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Messages {
    /// In the order in which they were begun.
    pub all: Vec<Message>,
    /// For each thread, index + 1, how many frames are left out: records of them are missing, or may be.
    pub incomplete: BTreeMap<u16, u64>,
}

/// Words of one thread whose keys follow each other: a message, or a part of one.
struct Run {
    time: u64,
    thread: u16,
    /// The key that messages of its kind begin with.
    first: u32,
    /// The keys that it has.
    keys: Range<u32>,
    /// Records that were missing in the whole trace when it began.
    missing: u64,
    bytes: Vec<u8>,
}

impl Run {
    fn has_beginning(&self) -> bool {
        self.keys.start == self.first
    }

    /// The end of the frame, if it is one and ends.
    fn end(&self) -> Option<usize> {
        self.bytes.iter().position(|byte| *byte == 0).filter(|_| self.first == DEFMT_FRAME)
    }
}

impl Trace {
    /// The messages of all tasks.
    ///
    /// A text of which records are missing is shown as far as it goes. A frame is left out: it would decode to something else. Two frames,
    /// one without its end and one without its beginning, may look like one; so a frame is whole only if no record at all is missing
    /// between its first and its last.
    #[must_use]
    pub fn messages(&self) -> Messages {
        let mut messages = Messages::default();
        // For each thread and kind the latest run: whether more of it, or of the message that it is a part of, may come.
        let mut is_open: BTreeMap<(u16, u32), bool> = BTreeMap::new();
        for run in self.runs() {
            let (time, thread) = (run.time, run.thread);
            let was_open = is_open.insert((thread, run.first), run.end().is_none()).unwrap_or_default();
            let said = match run.end() {
                _ if run.first == LOG_TEXT => run.has_beginning().then(|| {
                    let text = String::from_utf8_lossy(&run.bytes);
                    Said::Text(text.trim_end_matches('\0').to_owned())
                }),
                Some(end) if run.has_beginning() => Some(Said::Frame(run.bytes[..end].to_vec())),
                // A part without its beginning belongs to the part before, which is counted, unless that one had an end.
                _ => {
                    let is_another = run.has_beginning() || !was_open;
                    *messages.incomplete.entry(thread).or_default() += u64::from(is_another);
                    None
                }
            };
            messages.all.extend(said.map(|said| Message { time, thread, said }));
        }
        messages.incomplete.retain(|_, count| *count > 0);
        messages
    }

    /// All words of messages, in the order in which runs of them begin.
    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut latest: BTreeMap<(u16, u32), usize> = BTreeMap::new();
        let (mut missing, mut last) = (0, 0);
        for record in &self.records {
            if record.number > 0 {
                missing += record.number.saturating_sub(last + 1);
                last = record.number;
            }
            let key = record.object;
            if record.event != Event::Log as u8 || !(DEFMT_FRAME..PANIC_TEXT).contains(&key) {
                continue;
            }
            let first = if key < LOG_TEXT { DEFMT_FRAME } else { LOG_TEXT };
            let word = wide(record).to_le_bytes();
            let index = latest.get(&(record.thread, first)).copied();
            let goes_on =
                |run: &&mut Run| key != first && run.keys.end == key && run.missing == missing && run.end().is_none();
            if let Some(run) = index.and_then(|index| runs.get_mut(index)).filter(goes_on) {
                run.keys.end += 1;
                run.bytes.extend(word);
                continue;
            }
            latest.insert((record.thread, first), runs.len());
            let (time, thread) = (record.time, record.thread);
            runs.push(Run { time, thread, first, keys: key..key + 1, missing, bytes: word.to_vec() });
        }
        runs
    }
}

/// The 64-bit number that some records carry in `job` (high half) and `value` (low half).
#[must_use]
pub fn wide(record: &Record) -> u64 {
    u64::from(record.job) << 32 | u64::from(record.value)
}

/// One line of the ledger as a name for tables.
#[must_use]
pub fn ledger_name(kind: u16) -> Option<Ledger> {
    use Ledger::{
        Charged, CpuCharged, EngineTime, Faults, IdleTime, Jobs, Kernel, MaxLateness, Misses, Overshoot, SharedTime,
        Skipped, ThreadTime, Throttles, Uptime,
    };
    const ALL: [self::Ledger; 15] = [
        Jobs,
        Misses,
        MaxLateness,
        Skipped,
        ThreadTime,
        Charged,
        Kernel,
        IdleTime,
        Uptime,
        CpuCharged,
        EngineTime,
        Throttles,
        Faults,
        Overshoot,
        SharedTime,
    ];
    ALL.into_iter().find(|ledger| *ledger as u16 == kind)
}

//--- Text

/// One record as a line of text, with the names of `system`.
#[must_use]
pub fn describe(record: &Record, system: &Resolved) -> String {
    let mut line = format!("{:>14} cpu {} ", micros(record.time), record.cpu);
    let Some(event) = Event::from_number(record.event) else {
        let _ = write!(line, "event {}", record.event);
        return line;
    };
    let _ = write!(line, "{:<14} {:<20}", format!("{event:?}"), subject(record, system));
    let object = object_name(record, event, system);
    let _ = match event {
        Event::SwitchTo | Event::RunOn => write!(line, " {object} key {}", key_name(record.value)),
        Event::Release => write!(line, " deadline {} us", record.relative_deadline() / 1_000),
        Event::Complete => write!(line, " lateness {} ns", record.lateness()),
        Event::Throttle => write!(line, " {object} overshoot {} ns", record.value),
        Event::EngineIdle => write!(line, " {object} after {} us", record.value),
        Event::Block => write!(line, " {} {object}", call_name(record.value)),
        Event::Fault => write!(line, " syndrome {:#x} kind {}", record.object, record.value),
        Event::FaultRegister => write!(line, " register {} = {:#x}", record.object, wide(record)),
        Event::Log if (DEFMT_FRAME..LOG_TEXT).contains(&record.object) => {
            write!(line, " defmt {:02x?}", wide(record).to_le_bytes())
        }
        Event::Log if record.object >= LOG_TEXT => {
            let text = wide(record).to_le_bytes();
            write!(line, " text {:?}", String::from_utf8_lossy(&text).trim_end_matches('\0'))
        }
        Event::Log => write!(line, " {} {}", record.object, wide(record)),
        Event::Ledger => {
            let kind = (record.object >> 16) as u16;
            let name = ledger_name(kind).map_or_else(|| kind.to_string(), |ledger| format!("{ledger:?}"));
            write!(line, " {name} of {} = {}", record.object & 0xffff, wide(record).cast_signed())
        }
        Event::Shutdown | Event::Exit => write!(line, " code {}", record.value),
        Event::Restart => write!(line, " {object} life {}", record.value),
        Event::Trap => {
            let what = trap_name(record.job, system);
            write!(line, " {what} took {} ns, of these {} for the lock", record.value, record.object)
        }
        _ => write!(line, " {object}"),
    };
    line.truncate(line.trim_end().len());
    line
}

/// The key of a reservation, as `SwitchTo` and `RunOn` have it.
fn key_name(word: u32) -> String {
    match word {
        SERVICE_KEY => "of services".to_owned(),
        BACKGROUND_KEY => "of background tasks".to_owned(),
        // Modulo 2^32, as it was recorded.
        point => format!("{point} us"),
    }
}

fn micros(time: u64) -> String {
    format!("{}.{:03} us", time / 1_000, time % 1_000)
}

/// `task#job`, or nothing.
fn subject(record: &Record, system: &Resolved) -> String {
    let wide_number = matches!(
        Event::from_number(record.event),
        Some(Event::FaultRegister | Event::Log | Event::Ledger | Event::Trap)
    );
    let Some(index) = usize::from(record.thread).checked_sub(1) else { return String::new() };
    let name = system.tasks.get(index).map_or_else(|| format!("thread {index}"), |task| task.name.clone());
    if wide_number || record.job == 0 { name } else { format!("{name}#{}", record.job) }
}

/// The name of a trap in [`Event::Trap`].
#[must_use]
pub fn trap_name(what: u32, system: &Resolved) -> String {
    match what {
        TRAP_FAULT => "fault".to_owned(),
        TRAP_TIMER => "timer".to_owned(),
        TRAP_KICK => "kick".to_owned(),
        BY_INTERRUPT.. => {
            let found = (what - BY_INTERRUPT).checked_sub(1).and_then(|index| system.interrupts.get(index as usize));
            found.map_or_else(|| "interrupt".to_owned(), |(name, _)| format!("interrupt {name}"))
        }
        number => call_name(number),
    }
}

/// The object of a record by its name. Traced objects are numbered from one; CPUs are not.
fn object_name(record: &Record, event: Event, system: &Resolved) -> String {
    let Some(index) = (record.object as usize).checked_sub(usize::from(event != Event::Kick)) else {
        return String::new();
    };
    let named = |name: Option<&String>| name.cloned().unwrap_or_else(|| record.object.to_string());
    let task = |index: usize| system.tasks.get(index).map(|task| &task.name);
    let engine = || named(system.engines.get(index).map(|(name, _)| name));
    let pool = |index: usize| named(system.pools.get(index).map(|(name, _)| name));
    let endpoint = || named(system.endpoints.get(index).map(|(name, _)| name));
    match event {
        Event::SwitchTo | Event::RunOn | Event::Throttle | Event::Replenish | Event::Overrun | Event::EarlyRelease => {
            let owner = system.owner(index).and_then(task);
            format!("on {}", named(owner))
        }
        Event::EngineRequest
        | Event::EngineGrant
        | Event::EngineRelease
        | Event::EngineIdle
        | Event::EngineTaken
        | Event::EngineLost => engine(),
        Event::TokenRequest | Event::TokenTaken => pool(index),
        // The number of the token, too: a token is a lock because the number stays equal.
        Event::TokenGrant | Event::TokenRelease => format!("{} {}", pool(index), record.value),
        Event::Call => endpoint(),
        Event::Block => match Call::from_number(u64::from(record.value)) {
            Some(Call::Call | Call::ReplyReceive | Call::Send | Call::Receive) => endpoint(),
            Some(Call::Wait) => named(system.notifications.get(index).map(|(name, _)| name)),
            Some(Call::Acquire) if record.object > POOL => pool(index - POOL as usize),
            Some(Call::Acquire) => engine(),
            _ => String::new(),
        },
        Event::Reply | Event::Stop | Event::Restart => format!("by {}", named(task(index))),
        Event::Lend | Event::TakeBack => named(system.regions.get(index).map(|(name, _)| name)),
        Event::Interrupt => named(system.interrupts.get(index).map(|(name, _)| name)),
        Event::Kick => format!("cpu {index}"),
        Event::Resume if record.object > BY_INTERRUPT => {
            let index = index - BY_INTERRUPT as usize;
            format!("by {}", named(system.interrupts.get(index).map(|(name, _)| name)))
        }
        Event::Resume => format!("by {}", named(task(index))),
        _ => String::new(),
    }
}

fn call_name(number: u32) -> String {
    Call::from_number(u64::from(number)).map_or_else(|| number.to_string(), |call| format!("{call:?}"))
}

//--- Canonical form

/// A record that lies too far from the grid to be compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OffGrid {
    /// The record.
    pub record: Record,
    /// Distance to the nearest grid point, nanoseconds.
    pub by: u64,
}

/// Whether a canonical trace has the CPUs on which a task starts and stops to run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Places {
    /// CPUs are left out: where the choice between CPUs is free, two runs may choose differently.
    #[default]
    Left,
    /// CPUs are shown, and a task that goes on at once on another CPU is seen to move.
    Shown,
}

/// The canonical trace: the events in each cell of the grid, sorted, without exact times.
///
/// Two runs of a conformance system, one simulated and one in QEMU, give equal texts. Left out are kicks, idling, interrupts,
/// registers and ledgers; logs of tasks, but for sharers; and runs and gaps shorter than a quarter of the grid, because whether a
/// thread is switched away and back at a release depends on which CPU sees it first.
///
/// # Errors
/// [`OffGrid`] for the first event that is more than a quarter of the grid away from a grid point.
pub fn canonical(trace: &Trace, system: &Resolved, places: Places) -> Result<String, OffGrid> {
    let mut cells: BTreeMap<u64, Vec<(String, Option<u8>)>> = BTreeMap::new();
    for record in without_flicker(&trace.records, places) {
        let Some(event) = Event::from_number(record.event).filter(|event| is_compared(*event, &record, system)) else {
            continue;
        };
        let cell = record.time.saturating_add(GRID / 2) / GRID;
        let by = record.time.abs_diff(cell * GRID);
        if by > GRID / 4 {
            return Err(OffGrid { record, by });
        }
        let object = match event {
            // The thread that wakes another may differ in QEMU, where paths take time.
            Event::Resume => String::new(),
            Event::Log => format!("{} {}", record.object, wide(&record)),
            _ => object_name(&record, event, system),
        };
        let line = format!("{event:?} {} {object}", subject(&record, system));
        let cpu = (places == Places::Shown && is_switch(&record)).then_some(record.cpu);
        cells.entry(cell).or_default().push((line.trim_end().to_owned(), cpu));
    }
    let mut text = String::new();
    // CPUs in the order in which tasks come to them: which of two alike is the first is a matter of how they booted.
    let mut seen: Vec<u8> = Vec::new();
    for (cell, mut lines) in cells {
        lines.sort();
        for (line, cpu) in lines {
            let _ = write!(text, "{cell} {line}");
            if let Some(cpu) = cpu {
                let number = seen.iter().position(|one| *one == cpu).unwrap_or_else(|| {
                    seen.push(cpu);
                    seen.len() - 1
                });
                let _ = write!(text, " cpu {number}");
            }
            text.push('\n');
        }
    }
    Ok(text)
}

fn is_compared(event: Event, record: &Record, system: &Resolved) -> bool {
    match event {
        Event::Log => record.object < DEFMT_FRAME && is_of_sharer(record, system),
        Event::Idle
        | Event::Kick
        | Event::Interrupt
        | Event::FaultRegister
        | Event::Ledger
        | Event::RunOn
        | Event::Trap => false,
        _ => true,
    }
}

fn is_of_sharer(record: &Record, system: &Resolved) -> bool {
    let task = usize::from(record.thread).checked_sub(1).and_then(|index| system.tasks.get(index));
    task.is_some_and(|task| task.environment.iter().any(|entry| entry.kind == kind::DOORBELLS))
}

fn is_switch(record: &Record) -> bool {
    [Event::SwitchTo as u8, Event::SwitchAway as u8].contains(&record.event)
}

/// Drops pairs of switches that are closer than a quarter of the grid, of one thread and job.
fn without_flicker(records: &[Record], places: Places) -> Vec<Record> {
    let mut kept: Vec<Option<Record>> = Vec::with_capacity(records.len());
    // For each thread, where its last switch is in `kept`.
    let mut last: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for record in records {
        if is_switch(record) {
            let open = last.entry(record.thread).or_default();
            let previous = open.last().and_then(|index| kept[*index]);
            if let Some(previous) = previous {
                // Records stand in the order of their numbers; damaged ones may be of any time.
                let near = record.time.abs_diff(previous.time) <= GRID / 4;
                let short_run = previous.event == Event::SwitchTo as u8 && record.event == Event::SwitchAway as u8;
                let short_gap = previous.event == Event::SwitchAway as u8
                    && record.event == Event::SwitchTo as u8
                    && (places == Places::Left || previous.cpu == record.cpu)
                    // A job may end and the next begin within one run, so the gap's two ends decide the job.
                    && previous.job == record.job
                    && open.len().checked_sub(2).and_then(|index| kept[open[index]]).is_some_and(|run| run.object == record.object);
                if near && (short_run || short_gap) {
                    if let Some(index) = open.pop() {
                        kept[index] = None;
                    }
                    continue;
                }
            }
            open.push(kept.len());
        }
        kept.push(Some(*record));
    }
    kept.into_iter().flatten().collect()
}

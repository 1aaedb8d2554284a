//! Rings become records, and two runs of one system become the same text.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use fusee_abi::trace::{
    BACKGROUND_KEY, DEFMT_FRAME, Event, LOG_TEXT, Ledger, PANIC_TEXT, RING_MAGIC, Record, RingHeader,
};
use fusee_manifest::Manifest;
use fusee_manifest::trace::{GRID, Message, Places, Said, Trace, TraceError, canonical, describe};
use proptest::collection::vec;
use proptest::prelude::*;
use zerocopy::IntoBytes;

const CAPACITY: usize = 4;

fn ring(written: u64, records: &[Record]) -> Vec<u8> {
    let header = RingHeader { magic: RING_MAGIC, written, capacity: CAPACITY as u64 };
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(records.as_bytes());
    bytes.resize(size_of::<RingHeader>() + CAPACITY * size_of::<Record>(), 0xff);
    bytes
}

fn at(time: u64, event: Event, thread: u16) -> Record {
    Record { time, event: event as u8, thread, job: 1, ..Record::default() }
}

fn system() -> Manifest {
    let text = "[system]\nname = \"s\"\nboard = \"virt\"\ncpus = 2\n[tasks.a]\nbinary = \"p/a\"\nperiod = \"10ms\"\nbudget \
                = \"5ms\"\n[tasks.b]\nbinary = \"p/b\"\nperiod = \"10ms\"\nbudget = \"5ms\"\n";
    Manifest::parse(Path::new("m.toml"), text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn rings_are_merged_by_time_and_keep_the_newest() {
    let first = ring(2, &[at(10, Event::Release, 1), at(30, Event::Complete, 1)]);
    // Six were written into four places: the two oldest are gone.
    let records = [5, 6, 3, 4].map(|number| at(number * 7, Event::Idle, 0));
    let second = ring(6, &records);
    let trace = Trace::from_rings(&[first, second].concat(), 2).unwrap();
    let times: Vec<u64> = trace.records.iter().map(|record| record.time).collect();
    assert_eq!(times, [10, 21, 28, 30, 35, 42]);
    assert_eq!(trace.lost, 2);
}

#[test]
fn memory_without_rings_is_no_trace() {
    let empty = vec![0; size_of::<RingHeader>() + CAPACITY * size_of::<Record>()];
    assert_eq!(Trace::from_rings(&empty, 1), Ok(Trace::default()));
    let mut broken = ring(0, &[]);
    broken[0] = 0;
    broken[8] = 1;
    assert_eq!(Trace::from_rings(&broken, 1), Err(TraceError::NoRing(0)));
    assert_eq!(Trace::from_rings(&ring(0, &[])[..30], 1), Err(TraceError::Truncated));
    assert_eq!(Trace::from_rings(&[], 0), Err(TraceError::Truncated));
}

#[test]
fn wide_numbers_are_put_together() {
    let object = (Ledger::MaxLateness as u32) << 16 | 1;
    let records = vec![
        Record { event: Event::Ledger as u8, object, job: 1, value: 2, ..Record::default() },
        Record { event: Event::Shutdown as u8, value: 3, ..Record::default() },
    ];
    let trace = Trace::from_records(records);
    assert_eq!(trace.ledgers()[&(Ledger::MaxLateness as u16, 1)], (1 << 32) + 2);
    assert_eq!(trace.exit_code(), Some(3));
}

#[test]
fn a_record_is_described_with_names() {
    let manifest = system();
    let record = Record { object: 2, value: 5_000, ..at(1_234_567, Event::SwitchTo, 1) };
    let line = describe(&record, &manifest.system);
    assert_eq!(line, "   1234.567 us cpu 0 SwitchTo       a#1                  on b key 5000 us");
    let behind_all = Record { object: 1, value: BACKGROUND_KEY, ..at(0, Event::RunOn, 1) };
    assert!(describe(&behind_all, &manifest.system).ends_with("a#1                  on a key of background tasks"));
    let late = Record { value: (-5i32).cast_unsigned(), ..at(0, Event::Complete, 2) };
    assert!(describe(&late, &manifest.system).ends_with("b#1                  lateness -5 ns"));
}

#[test]
fn runs_that_differ_by_a_little_have_the_same_canonical_trace() {
    let manifest = system();
    let text = |records: Vec<Record>| canonical(&Trace::from_records(records), &manifest.system, Places::Left);
    let run = |thread: u16, time: u64| Record { object: u32::from(thread), ..at(time, Event::SwitchTo, thread) };
    let simulated = text(vec![
        at(10 * GRID, Event::Release, 1),
        at(10 * GRID, Event::Release, 2),
        run(1, 10 * GRID),
        at(12 * GRID, Event::Complete, 1),
        at(12 * GRID, Event::SwitchAway, 1),
        run(2, 12 * GRID),
    ]);
    // Another order at the release, a switch away and back, a moment on the CPU, and kicks.
    let emulated = text(vec![
        at(10 * GRID + 5, Event::Release, 2),
        run(2, 10 * GRID + 6),
        at(10 * GRID + 7, Event::Release, 1),
        at(10 * GRID + 8, Event::SwitchAway, 2),
        run(1, 10 * GRID + 9),
        at(10 * GRID + 10, Event::Kick, 0),
        at(11 * GRID - 20, Event::SwitchAway, 1),
        at(11 * GRID - 15, Event::Interrupt, 0),
        run(1, 11 * GRID - 10),
        at(12 * GRID - 100, Event::Complete, 1),
        at(12 * GRID + 100, Event::SwitchAway, 1),
        run(2, 12 * GRID + 101),
    ]);
    let expected = "10 Release a#1\n10 Release b#1\n10 SwitchTo a#1 on a\n12 Complete a#1\n12 SwitchAway a#1\n12 \
                    SwitchTo b#1 on b\n";
    assert_eq!(simulated.unwrap(), expected);
    assert_eq!(emulated.unwrap(), expected);
}

/// Which of two idle CPUs takes the first job may depend on the boot.
#[test]
fn cpus_are_numbered_as_they_come_into_use() {
    let manifest = system();
    let text = |cpus: [u8; 2]| {
        let run = |thread: u16, time: u64, cpu: u8| Record {
            object: u32::from(thread),
            cpu,
            ..at(time * GRID, Event::SwitchTo, thread)
        };
        // The second task is seen first, in one of the runs.
        let records = vec![run(2, 10, cpus[1]), run(1, 10, cpus[0]), run(1, 12, cpus[1])];
        canonical(&Trace::from_records(records), &manifest.system, Places::Shown).unwrap()
    };
    assert_eq!(text([0, 1]), "10 SwitchTo a#1 on a cpu 0\n10 SwitchTo b#1 on b cpu 1\n12 SwitchTo a#1 on a cpu 1\n");
    assert_eq!(text([0, 1]), text([1, 0]));
}

#[test]
fn an_event_between_the_points_of_the_grid_is_refused() {
    let manifest = system();
    let trace = Trace::from_records(vec![at(10 * GRID + GRID / 3, Event::Release, 1)]);
    assert_eq!(canonical(&trace, &manifest.system, Places::Left).unwrap_err().by, GRID / 3);
    let near = Trace::from_records(vec![at(10 * GRID + GRID / 4, Event::Release, 1)]);
    assert!(canonical(&near, &manifest.system, Places::Left).is_ok());
}

#[test]
fn what_is_missing_is_said_for_each_time() {
    let record = |number: u64, time: u64| Record { number, time, ..Record::default() };
    let trace = Trace::from_records(vec![record(3, 30), record(4, 40), record(8, 80), record(9, 90)]);
    assert_eq!(trace.lost, 5);
    let missing = [(0, 10, 2), (0, 30, 2), (31, 39, 0), (31, 40, 3), (50, 60, 3), (81, 200, 0), (0, 200, 5)];
    for (from, until, count) in missing {
        assert_eq!(trace.missing_between(from, until), count, "{from} to {until}");
    }
}

//--- Messages

/// The records of a word of a message.
fn word(number: u64, thread: u16, key: u32, bytes: [u8; 8]) -> Record {
    let word = u64::from_le_bytes(bytes);
    let (job, value) = ((word >> 32) as u32, word as u32);
    Record { time: number, number, event: Event::Log as u8, thread, object: key, job, value, ..Record::default() }
}

/// A message as it is written: of which thread, whether it is a frame, its bytes.
type Written = (u16, bool, Vec<u8>);

/// The records of messages that are written at once: of each thread one after the other, words of different threads in turn.
fn records(written: &[Written]) -> Vec<(usize, Record)> {
    let mut words: BTreeMap<u16, VecDeque<(usize, u32, [u8; 8])>> = BTreeMap::new();
    for (index, (thread, is_frame, bytes)) in written.iter().enumerate() {
        let first = if *is_frame { DEFMT_FRAME } else { LOG_TEXT };
        let ended = [&bytes[..], &[0][..usize::from(*is_frame)]].concat();
        for (key, part) in (first..).zip(ended.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            words.entry(*thread).or_default().push_back((index, key, bytes));
        }
    }
    let mut records = Vec::new();
    while words.values().any(|words| !words.is_empty()) {
        for (thread, words) in &mut words {
            let Some((index, key, bytes)) = words.pop_front() else { continue };
            records.push((index, word(records.len() as u64 + 1, *thread, key, bytes)));
        }
    }
    records
}

proptest! {
    #[test]
    fn a_frame_is_there_as_it_was_written_or_is_counted(
        written in vec((1..3_u16, any::<bool>(), vec(1_u8..0x80, 1..40)), 1..8),
        lost in vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let written = &written;
        let mut kept = records(written);
        for index in lost {
            if !kept.is_empty() {
                kept.remove(index.index(kept.len()));
            }
        }
        let trace = Trace::from_records(kept.iter().map(|(_, record)| *record).collect());
        let messages = trace.messages();
        let all = records(written);
        let is_whole = |message: usize| {
            let numbers = all.iter().filter(|(of, _)| *of == message).map(|(_, record)| record.number);
            let (first, last) = (numbers.clone().min().unwrap(), numbers.max().unwrap());
            (first..=last).all(|number| kept.iter().any(|(_, record)| record.number == number))
        };
        let frames = |thread: u16| (0..written.len()).filter(move |index| written[*index].0 == thread && written[*index].1);
        for thread in 1..3 {
            let of_thread = |message: &&Message| message.thread == thread;
            let shown = messages.all.iter().filter(of_thread).filter_map(|message| match &message.said {
                Said::Frame(bytes) => Some(bytes),
                Said::Text(_) => None,
            });
            let whole: Vec<usize> = frames(thread).filter(|index| is_whole(*index)).collect();
            prop_assert_eq!(shown.collect::<Vec<_>>(), whole.iter().map(|index| &written[*index].2).collect::<Vec<_>>());
            let counted = messages.incomplete.get(&thread).copied().unwrap_or_default() as usize;
            let seen = frames(thread).filter(|index| kept.iter().any(|(of, _)| of == index)).count();
            prop_assert!(counted <= seen - whole.len() && (counted > 0) == (seen > whole.len()), "{} of {}", counted, seen);
        }
        if trace.lost == 0 && kept.len() == all.len() {
            let texts: Vec<String> = messages.all.iter().filter_map(|message| match &message.said {
                Said::Text(text) => Some(text.clone()),
                Said::Frame(_) => None,
            }).collect();
            prop_assert_eq!(texts.len(), written.iter().filter(|(_, is_frame, _)| !is_frame).count());
        }
    }

    #[test]
    fn whatever_words_a_task_logs_its_messages_can_be_read(
        words in vec((0..3_u16, DEFMT_FRAME - 1..PANIC_TEXT + 1, any::<[u8; 8]>(), 0..4_u64), 0..200),
        near in vec((DEFMT_FRAME..DEFMT_FRAME + 3, any::<[u8; 8]>()), 0..50),
    ) {
        let near = near.into_iter().map(|(key, bytes)| (1, key, bytes, 1));
        let mut number = 0;
        let records = words.into_iter().chain(near).map(|(thread, key, bytes, step)| {
            number += step;
            word(number, thread, key, bytes)
        });
        let messages = Trace::from_records(records.collect()).messages();
        let is_bounded = |message: &Message| match &message.said {
            Said::Frame(bytes) => !bytes.contains(&0) && bytes.len() < (LOG_TEXT - DEFMT_FRAME) as usize * 8,
            Said::Text(text) => text.chars().count() <= (PANIC_TEXT - LOG_TEXT) as usize * 8,
        };
        prop_assert!(messages.all.iter().all(is_bounded));
    }
}

//! The device as its users see it: rings and doorbells in, fences and counters out.

use crate::rig::*;
use fusee_accel_contract::*;
use fusee_compute::run;
use fusee_device_model::{Actions, Bus, Description, DescriptionError, Device, Window};
use fusee_library::{BlockMatch, Filter, Gradient, Match, Product, Shift, Transform};
use proptest::prelude::*;

const MILLISECOND: u64 = 1_000_000;
const BURN: Operation = Operation::Burn { time: MILLISECOND };
/// Width and height of a camera's picture.
const CAMERA: (u16, u16) = (128, 96);
const PIXELS: usize = 128 * 96;

fn time(operation: Operation, engine: EngineIndex) -> u64 {
    timing::modelled_time(&Command { operation, fence: None }, engine)
}

//--- Work

fn shifted((width, height): (u16, u16), picture: &[u8], dx: i32, dy: i32) -> Vec<u8> {
    let mut out = vec![0; picture.len()];
    let displacement = [dx, dy, 0, 0];
    run(&Shift { width, height }, (picture.into(), displacement[..].into(), out.as_mut_slice().into()));
    out
}

#[test]
fn a_picture_is_stabilised_through_all_three_engines() {
    let mut rig = Rig::new();
    let still = noise(PIXELS);
    let moved = shifted(CAMERA, &still, -5, 3);
    rig.fill(system(1, SYSTEM), &still);
    rig.fill(system(1, SYSTEM + 0x4000), &moved);

    let (still_gradient, moved_gradient, result, out) =
        (LOCAL + 0x8000, LOCAL + 0xC000, LOCAL + 0x1_0000, LOCAL + 0x1_4000);
    let copy = Operation::Copy { source: SYSTEM, destination: LOCAL, length: 0x8000 };
    rig.submit(EngineIndex::CopyIn, 1, copy, 0);
    let copied = time(copy, EngineIndex::CopyIn);
    assert_eq!(rig.run(0), [copied]);

    let (width, height) = CAMERA;
    let gradient = Gradient { width, height };
    let search = BlockMatch { width, height, radius: 6, stride: 4 };
    let shift = Shift { width, height };
    let work = [
        (launch(&gradient, &[LOCAL, still_gradient]), time_of(&gradient)),
        (launch(&gradient, &[LOCAL + 0x4000, moved_gradient]), time_of(&gradient)),
        (launch(&search, &[still_gradient, moved_gradient, result]), time_of(&search)),
        (launch(&shift, &[LOCAL + 0x4000, result, out]), time_of(&shift)),
    ];
    assert_eq!(work.map(|(_, time)| time), [2_006_080, 2_006_080, 8_969_284, 1_023_040]);
    let mut instant = copied;
    let mut expected = Vec::new();
    for (fence, (operation, time)) in (1..).zip(work) {
        rig.submit(EngineIndex::Execution, 1, operation, fence);
        instant += time;
        expected.push(instant);
    }
    assert_eq!(rig.run(copied), expected);

    let mut edges = vec![0; PIXELS];
    run(&gradient, (still[..].into(), edges.as_mut_slice().into()));
    assert_eq!(rig.bytes(local(1, still_gradient), PIXELS), edges);
    let words = rig.bytes(local(1, result), 16);
    let word = |at: usize| i32::from_le_bytes(words[4 * at..][..4].try_into().unwrap());
    let found = Match::of(core::array::from_fn(word));
    assert_eq!((found.dx, found.dy), (5, -3));

    let back = Operation::Copy { source: out, destination: SYSTEM + 0x8000, length: 0x3000 };
    rig.submit(EngineIndex::CopyOut, 1, back, 5);
    rig.run(instant);
    assert_eq!(rig.bytes(system(1, SYSTEM + 0x8000), PIXELS), shifted(CAMERA, &moved, 5, -3));
    assert!((0..=5).all(|fence| rig.fence(1, fence) == FenceState::Done));
    assert_eq!((rig.faults(1), rig.device.late_completions()), (0, 0));
}

#[test]
fn a_product_of_matrices_takes_the_time_it_was_told() {
    let mut rig = Rig::new();
    let words = |from: u32| (from..from + 16).flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    let identity: Vec<u8> = (0..16).flat_map(|i| u32::from(i % 5 == 0).to_le_bytes()).collect();
    rig.fill(local(1, LOCAL), &words(7));
    rig.fill(local(1, LOCAL + 64), &identity);
    let product = Product { order: 4, time: 5 * MILLISECOND - timing::EXECUTION_SETUP };
    rig.submit(EngineIndex::Execution, 1, launch(&product, &[LOCAL, LOCAL + 64, LOCAL + 128]), 0);
    assert_eq!(rig.run(10), [10 + 5 * MILLISECOND]);
    assert_eq!(rig.bytes(local(1, LOCAL + 128), 64), words(7));
    let endless = Product { order: 4, time: u64::MAX };
    rig.submit(EngineIndex::Execution, 1, launch(&endless, &[LOCAL, LOCAL + 64, LOCAL + 128]), 1);
    let _ = rig.poll(u64::MAX / 2);
    assert_eq!(rig.fence(1, 1), FenceState::Pending);
}

#[test]
fn a_signal_is_filtered_and_its_spectrum_computed() {
    let mut rig = Rig::new();
    let (coefficients, filtered, spectrum, unfinished) =
        (LOCAL + 0x4000, LOCAL + 0x5000, LOCAL + 0x8000, LOCAL + 0xA000);
    let filter = Filter { samples: 4096, length: 127 };
    let transform = Transform { points: 512 };
    let signal = noise(2 * (4096 + 126));
    let response = noise(2 * 127);
    rig.fill(local(1, LOCAL), &signal);
    rig.fill(local(1, coefficients), &response);
    rig.submit(EngineIndex::Execution, 1, launch(&filter, &[LOCAL, coefficients, filtered]), 0);
    rig.submit(EngineIndex::Execution, 1, launch(&transform, &[filtered, spectrum, unfinished]), 1);
    assert_eq!((time_of(&filter), time_of(&transform)), (4096 * 135 * 48 + 40_000, 1_104_960));
    assert_eq!(rig.run(0), [time_of(&filter), time_of(&filter) + time_of(&transform)]);

    let numbers = |bytes: &[u8]| -> Vec<i16> {
        bytes.chunks_exact(2).map(|bytes| i16::from_le_bytes([bytes[0], bytes[1]])).collect()
    };
    let mut expected = vec![0; 4096];
    run(&filter, (numbers(&signal)[..].into(), numbers(&response)[..].into(), expected.as_mut_slice().into()));
    assert_eq!(numbers(rig.bytes(local(1, filtered), 8192)), expected);
    let points: Vec<[i16; 2]> = expected[..1024].as_chunks().0.to_vec();
    let (mut out, mut between) = (vec![[0; 2]; 512], vec![[0; 2]; 512]);
    run(&transform, (points[..].into(), out.as_mut_slice().into(), between.as_mut_slice().into()));
    assert_eq!(numbers(rig.bytes(local(1, spectrum), 2048)), out.as_flattened());
    assert!(out.iter().any(|point| *point != [0, 0]));
    assert_eq!((rig.faults(1), rig.device.late_completions()), (0, 0));
}

#[test]
fn signals_of_no_or_too_great_length_are_bad_commands() {
    let filter = |samples, length| launch(&Filter { samples, length }, &[LOCAL, LOCAL + 0x4000, LOCAL + 0x5000]);
    let transform = |source, points| launch(&Transform { points }, &[source, LOCAL + 0x4000, LOCAL + 0x5000]);
    let bad = [
        filter(0, 1),
        filter(1, 0),
        filter(4097, 1),
        filter(1, 129),
        transform(LOCAL, 0),
        transform(LOCAL, 1),
        transform(LOCAL, 24),
        transform(LOCAL, 1024),
        transform(LOCAL + 2, 16),
    ];
    for operation in bad {
        let mut rig = Rig::new();
        rig.submit(EngineIndex::Execution, 1, operation, 0);
        assert_eq!(rig.run(0), [timing::SETUP], "{operation:?}");
        assert_eq!((rig.fence(1, 0), rig.first_fault(1)), (FenceState::Failed, Some(FaultKind::BadCommand)));
        assert!(rig.ram.written.iter().all(|&page| !DESCRIPTION.local.contains(page, 1)), "{operation:?}");
    }
    // Copy engines know none of this.
    let mut rig = Rig::new();
    rig.submit(EngineIndex::CopyIn, 1, transform(LOCAL, 16), 0);
    rig.run(0);
    assert_eq!(rig.first_fault(1), Some(FaultKind::BadCommand));
}

/// Given the longest copy there is, no poll moves more than a page, so that a completion on another engine is announced in time.
#[test]
fn long_copies_are_done_in_many_polls() {
    let mut rig = Rig::new();
    let copy = Operation::Copy { source: SYSTEM, destination: LOCAL + 0x1_0000, length: 0x1_0000 };
    rig.submit(EngineIndex::CopyIn, 1, copy, 0);
    let mut polls = 0;
    loop {
        rig.ram.bulk = 0;
        let actions = rig.device.poll(0, &mut rig.ram);
        assert!(rig.ram.bulk <= 16 * 1024 + 64);
        if actions.next != Some(0) {
            break;
        }
        polls += 1;
    }
    assert!(polls >= 7, "{polls}");
    // Real work is at most an eighth of the model, if a slice costs no more than this.
    assert!(polls * 6_500 <= time(copy, EngineIndex::CopyIn) / 8, "{polls}");
}

//--- Time and order

#[test]
fn nothing_is_announced_before_its_instant() {
    let mut rig = Rig::new();
    rig.submit(EngineIndex::Execution, 1, BURN, 0);
    assert_eq!(rig.poll(5), Actions { interrupt: false, next: Some(5 + MILLISECOND) });
    assert!(!rig.poll(4 + MILLISECOND).interrupt);
    assert_eq!((rig.retired(EngineIndex::Execution, 1), rig.fence(1, 0)), (0, FenceState::Pending));
    assert_eq!(rig.poll(5 + MILLISECOND), Actions { interrupt: true, next: None });
    assert_eq!((rig.retired(EngineIndex::Execution, 1), rig.fence(1, 0)), (1, FenceState::Done));
}

/// Given two queued burns and a device that is polled late, when the first ends, then the
/// second is taken to have started there, not at the poll.
#[test]
fn a_late_poll_does_not_delay_the_next_command() {
    let mut rig = Rig::new();
    rig.submit(EngineIndex::Execution, 1, BURN, 0);
    rig.submit(EngineIndex::Execution, 1, BURN, 1);
    let _ = rig.poll(0);
    assert_eq!(rig.poll(MILLISECOND + 7).next, Some(2 * MILLISECOND));
    // A command that arrives after the engine became free starts when it arrives.
    let _ = rig.poll(2 * MILLISECOND);
    rig.submit(EngineIndex::Execution, 1, BURN, 2);
    assert_eq!(rig.poll(3 * MILLISECOND).next, Some(4 * MILLISECOND));
    let _ = rig.poll(4 * MILLISECOND);
    let busy = rig.ram.read_u64(DESCRIPTION.status + status_busy(EngineIndex::Execution));
    assert_eq!(busy, Ok(3 * MILLISECOND));
}

#[test]
fn only_a_completion_beyond_the_tolerance_is_late() {
    for (excess, late) in [(0, 0), (timing::LATE_TOLERANCE, 0), (timing::LATE_TOLERANCE + 1, 1)] {
        let mut rig = Rig::new();
        rig.submit(EngineIndex::CopyOut, 1, BURN, 0);
        let _ = rig.poll(0);
        let _ = rig.poll(MILLISECOND + excess);
        assert_eq!(rig.device.late_completions(), late);
        assert_eq!(rig.ram.read_u32(DESCRIPTION.control + CONTROL_LATE_COMPLETIONS), Ok(late));
    }
}

#[test]
fn engines_work_side_by_side() {
    let mut rig = Rig::new();
    for engine in EngineIndex::ALL {
        rig.submit(engine, 1, BURN, engine.number());
    }
    assert_eq!(rig.run(0), [MILLISECOND]);
}

#[test]
fn an_endless_burn_never_ends() {
    let mut rig = Rig::new();
    rig.submit(EngineIndex::Execution, 1, Operation::Burn { time: u64::MAX }, 0);
    assert_eq!(rig.poll(3).next, Some(u64::MAX));
}

//--- Faults

#[test]
fn a_bad_command_fails_alone() {
    let mut rig = Rig::new();
    let fence = Some(Fence { address: fence_address(0), value: 1 });
    let mut unknown = Command { operation: BURN, fence }.encode();
    unknown[0] = 99;
    rig.submit_bytes(EngineIndex::Execution, 1, &unknown);
    rig.submit(EngineIndex::Execution, 1, BURN, 1);
    assert_eq!(rig.run(0), [timing::SETUP, timing::SETUP + MILLISECOND]);
    assert_eq!((rig.fence(1, 0), rig.fence(1, 1)), (FenceState::Failed, FenceState::Done));
    assert_eq!((rig.faults(1), rig.first_fault(1)), (1, Some(FaultKind::BadCommand)));
    assert_eq!(rig.retired(EngineIndex::Execution, 1), 2);
}

#[test]
fn each_forbidden_access_has_its_own_fault() {
    let copy = |source, destination| Operation::Copy { source, destination, length: 8 };
    let hole = 255 * PAGE_BYTES;
    let cases = [
        (copy(hole, LOCAL), FaultKind::NotMapped),
        (copy(u64::from(TABLE_ENTRIES) * PAGE_BYTES, LOCAL), FaultKind::NotMapped),
        (copy(u64::MAX - 7, LOCAL), FaultKind::NotMapped),
        (copy(SYSTEM, hole), FaultKind::NotMapped),
        (copy(LOCAL, LOCAL + 0x1000), FaultKind::WrongMemory),
        (copy(SYSTEM, SYSTEM + 0x1000), FaultKind::WrongMemory),
        (copy(SYSTEM, 200 * PAGE_BYTES), FaultKind::NotWritable),
        (copy(201 * PAGE_BYTES, LOCAL), FaultKind::OutsideWindow),
        (copy(SYSTEM, 202 * PAGE_BYTES), FaultKind::OutsideWindow),
    ];
    for (operation, expected) in cases {
        let mut rig = Rig::new();
        rig.map(1, 200 * PAGE_BYTES, DESCRIPTION.local.base, false);
        // Its own status page, and system memory dressed up as local memory.
        rig.map(1, 201 * PAGE_BYTES, DESCRIPTION.status, true);
        let disguise = TableEntry { page: table(1), writable: true, memory: Memory::Local };
        rig.map_raw(1, 202 * PAGE_BYTES, disguise.encode());
        rig.submit(EngineIndex::CopyIn, 1, operation, 0);
        rig.run(0);
        assert_eq!((rig.faults(1), rig.first_fault(1)), (1, Some(expected)), "{operation:?}");
        assert_eq!(rig.fence(1, 0), FenceState::Failed);
    }
}

#[test]
fn an_impossible_doorbell_halts_one_ring_until_it_is_reset() {
    for nonsense in [17, 1 << 31, u32::MAX] {
        let mut rig = Rig::new();
        rig.ring(EngineIndex::Execution, 1, nonsense);
        rig.submit(EngineIndex::CopyIn, 1, BURN, 0);
        rig.submit(EngineIndex::Execution, 2, BURN, 0);
        assert_eq!(rig.run(0), [0, MILLISECOND]);
        assert_eq!((rig.faults(1), rig.first_fault(1)), (1, Some(FaultKind::DoorbellOverrun)));
        assert_eq!((rig.fence(1, 0), rig.fence(2, 0)), (FenceState::Done, FenceState::Done));
        assert_eq!((rig.retired(EngineIndex::Execution, 1), rig.faults(2)), (0, 0));

        let request = DESCRIPTION.control + control_reset_request(1, EngineIndex::Execution);
        rig.ram.write_u32(request, 1).unwrap();
        let _ = rig.poll(2 * MILLISECOND);
        let done = DESCRIPTION.control + control_reset_done(1, EngineIndex::Execution);
        assert_eq!(rig.ram.read_u32(done), Ok(1));
        assert_eq!(rig.retired(EngineIndex::Execution, 1), nonsense);
        rig.submit(EngineIndex::Execution, 1, BURN, 1);
        rig.run(2 * MILLISECOND);
        assert_eq!(rig.fence(1, 1), FenceState::Done);
    }
}

/// Given an endless command and two behind it, when the driver resets that engine for that
/// context, then the other context's command runs at once.
#[test]
fn a_reset_takes_the_engine_from_whoever_holds_it() {
    let mut rig = Rig::new();
    rig.submit(EngineIndex::Execution, 1, Operation::Burn { time: u64::MAX }, 0);
    rig.submit(EngineIndex::Execution, 1, BURN, 1);
    let _ = rig.poll(0);
    rig.submit(EngineIndex::Execution, 2, BURN, 0);
    let _ = rig.poll(MILLISECOND);
    rig.ram.write_u32(DESCRIPTION.control + control_reset_request(1, EngineIndex::Execution), 77).unwrap();
    assert_eq!(rig.run(3 * MILLISECOND), [3 * MILLISECOND, 4 * MILLISECOND]);
    assert_eq!((rig.fence(1, 0), rig.fence(1, 1)), (FenceState::Failed, FenceState::Failed));
    assert_eq!(rig.fence(2, 0), FenceState::Done);
    assert!(rig.is_idle(EngineIndex::Execution, 1));
    let busy = rig.ram.read_u64(DESCRIPTION.status + status_busy(EngineIndex::Execution));
    assert_eq!(busy, Ok(4 * MILLISECOND));
}

/// Each misbehaviour belongs to one context: its only effect on the other's commands is that they wait.
#[test]
fn a_device_misbehaves_on_request_and_for_one_context_only() {
    let both = |wrong: u32| {
        let mut rig = Rig::new();
        rig.ram.write_u32(DESCRIPTION.control + control_context(1) + CONTEXT_INJECT, wrong).unwrap();
        rig.submit(EngineIndex::Execution, 1, BURN, 0);
        rig.submit(EngineIndex::Execution, 2, BURN, 0);
        let first = rig.poll(0);
        let early = (rig.fence(1, 0), rig.retired(EngineIndex::Execution, 1));
        let mut interrupts = rig.run(first.next.unwrap());
        if first.interrupt {
            interrupts.insert(0, 0);
        }
        assert_eq!((rig.fence(1, 0), rig.fence(2, 0)), (FenceState::Done, FenceState::Done));
        assert_eq!((rig.retired(EngineIndex::Execution, 1), rig.retired(EngineIndex::Execution, 2)), (1, 1));
        (early, interrupts)
    };
    let honest = (FenceState::Pending, 0);
    assert_eq!(both(0), (honest, vec![MILLISECOND, 2 * MILLISECOND]));
    assert_eq!(both(INJECT_LOST), (honest, vec![2 * MILLISECOND]));
    assert_eq!(both(INJECT_LATE), (honest, vec![2 * MILLISECOND, MILLISECOND + timing::INJECT_DELAY]));
    assert_eq!(both(INJECT_LIE), ((FenceState::Done, 1), vec![0, MILLISECOND, 2 * MILLISECOND]));
    let (early, interrupts) = both(INJECT_SPURIOUS);
    assert_eq!((early, interrupts.len() as u64), (honest, MILLISECOND / timing::INJECT_PERIOD + 2));

    let mut rig = Rig::new();
    rig.ram.write_u32(DESCRIPTION.control + control_context(1) + CONTEXT_INJECT, INJECT_DEAF).unwrap();
    rig.submit(EngineIndex::Execution, 1, BURN, 0);
    rig.ram.write_u32(DESCRIPTION.control + control_reset_request(1, EngineIndex::Execution), 1).unwrap();
    assert_eq!(rig.run(0), [MILLISECOND]);
    assert_eq!(rig.ram.read_u32(DESCRIPTION.control + control_reset_done(1, EngineIndex::Execution)), Ok(0));
    assert_eq!(rig.fence(1, 0), FenceState::Done);
}

#[test]
fn a_context_taken_away_touches_nothing_more() {
    let mut rig = Rig::new();
    let copy = Operation::Copy { source: SYSTEM, destination: LOCAL, length: 0x4000 };
    rig.submit(EngineIndex::CopyIn, 1, copy, 0);
    rig.submit(EngineIndex::CopyIn, 1, copy, 1);
    let _ = rig.device.poll(0, &mut rig.ram);
    rig.ram.write_u32(DESCRIPTION.control + control_context(1) + CONTEXT_FLAGS, 0).unwrap();
    rig.ram.written.clear();
    rig.run(0);
    assert_eq!(rig.first_fault(1), Some(FaultKind::ContextInvalid));
    assert_eq!((rig.faults(1), rig.retired(EngineIndex::CopyIn, 1)), (2, 2));
    assert!(rig.ram.written.iter().all(|&page| page < DESCRIPTION.system.base));
}

#[test]
fn a_description_that_exposes_the_device_is_refused() {
    let mut rig = Rig::new();
    let mut refused = |description| rig.device.configure(description, &mut rig.ram);
    let doorbell = DESCRIPTION.doorbells + (DOORBELL_PAGES as u64 - 1) * PAGE_BYTES;
    let overlap = Description { local: Window { base: doorbell, length: PAGE_BYTES }, ..DESCRIPTION };
    assert_eq!(refused(overlap), Err(DescriptionError::Overlap));
    let unaligned = Description { status: DESCRIPTION.status + 8, ..DESCRIPTION };
    assert_eq!(refused(unaligned), Err(DescriptionError::Unaligned));
    let nowhere = Description { control: 0, ..DESCRIPTION };
    assert_eq!(refused(nowhere), Err(DescriptionError::Bus));
    assert_eq!(rig.ram.read_u32(DESCRIPTION.control + CONTROL_MAGIC), Ok(MAGIC));
}

//--- Properties

fn any_engine() -> impl Strategy<Value = EngineIndex> {
    prop::sample::select(EngineIndex::ALL.as_slice())
}

/// Commands about the first 16 pages, some of them nonsense.
fn any_bytes() -> impl Strategy<Value = [u8; 64]> {
    let address = || prop_oneof![9 => (0_u64..16 * 512).prop_map(|word| word * 8), 1 => any::<u64>()];
    let three = || [address(), address(), address()];
    let side = || 1_u16..80;
    let operation = prop_oneof![
        4 => (address(), address(), 1_u64..2048)
            .prop_map(|(source, destination, words)| Operation::Copy { source, destination, length: words * 8 }),
        1 => (three(), side(), side()).prop_map(|(at, width, height)| launch(&Gradient { width, height }, &at[..2])),
        1 => (three(), side(), side())
            .prop_map(|(at, width, height)| launch(&BlockMatch { width, height, radius: 2, stride: 3 }, &at)),
        1 => (three(), side(), side()).prop_map(|(at, width, height)| launch(&Shift { width, height }, &at)),
        1 => (three(), 1_u16..33).prop_map(|(at, order)| launch(&Product { order, time: 0 }, &at)),
        1 => (0..MILLISECOND).prop_map(|time| Operation::Burn { time }),
        1 => (three(), 1_u16..5_000, 1_u16..140)
            .prop_map(|(at, samples, length)| launch(&Filter { samples, length }, &at)),
        1 => (three(), 1_u32..11).prop_map(|(at, order)| launch(&Transform { points: 1 << order }, &at)),
    ];
    let fence = prop::option::of((1_u64..4 * 4096).prop_map(|word| Fence { address: word * 4, value: 1 }));
    let command = (operation, fence).prop_map(|(operation, fence)| Command { operation, fence }.encode());
    prop_oneof![9 => command, 1 => any::<[u8; 32]>().prop_map(|half| {
        core::array::from_fn(|i| half[i % 32])
    })]
}

/// An entry of a table for a page: anything at all, as often as not something sensible.
fn any_entry() -> impl Strategy<Value = u64> {
    let sensible = (0_u64..32, any::<bool>(), any::<bool>()).prop_map(|(page, is_local, writable)| {
        let base = if is_local { DESCRIPTION.local.base } else { DESCRIPTION.system.base + 0x8_0000 };
        let memory = if is_local { Memory::Local } else { Memory::System };
        TableEntry { page: base + page * PAGE_BYTES, writable, memory }.encode()
    });
    let anywhere = (0_u64..0x300, 0_u64..8).prop_map(|(page, bits)| (BASE + page * PAGE_BYTES) | bits);
    prop_oneof![8 => sensible, 2 => anywhere, 1 => any::<u64>(), 1 => Just(0)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_context_reaches_a_page_its_table_does_not_give(
        entries in prop::collection::vec(any_entry(), 16),
        commands in prop::collection::vec((any_engine(), any_bytes()), 1..12),
    ) {
        let mut rig = Rig::new();
        rig.open(3);
        for (page, &entry) in (0..).zip(&entries) {
            if page != table_index(RING_BASE) {
                rig.map_raw(3, page * PAGE_BYTES, entry);
            }
        }
        for (engine, bytes) in &commands {
            rig.submit_bytes(*engine, 3, bytes);
        }
        // The table as it is now: a command may well overwrite it, if its owner is so careless.
        let careless = |page: u64| page == table(3) || page == ring_page(3);
        let given: Vec<TableEntry> = (0..u64::from(TABLE_ENTRIES))
            .filter_map(|page| TableEntry::decode(rig.ram.read_u64(table(3) + 8 * page).unwrap()))
            .filter(|entry| {
                let window = if entry.memory == Memory::Local { DESCRIPTION.local } else { DESCRIPTION.system };
                window.contains(entry.page, PAGE_BYTES)
            })
            .collect();
        prop_assume!(!given.iter().any(|entry| entry.page == table(3) && entry.writable));
        rig.ram.read.clear();
        rig.ram.written.clear();
        rig.run(0);

        let own = |page: u64| (BASE..DESCRIPTION.doorbells + DOORBELL_PAGES as u64 * PAGE_BYTES).contains(&page);
        for &page in &rig.ram.read {
            prop_assert!(own(page) || careless(page) || given.iter().any(|entry| entry.page == page));
        }
        let written_by_device = [DESCRIPTION.control, DESCRIPTION.status];
        for &page in &rig.ram.written {
            let given = given.iter().any(|entry| entry.page == page && entry.writable);
            prop_assert!(written_by_device.contains(&page) || given, "{page:#x}");
        }
        // And however bad the commands, all of them retire.
        for engine in EngineIndex::ALL {
            prop_assert!(rig.is_idle(engine, 3));
        }
    }

    #[test]
    fn a_neighbours_faults_change_nothing_but_the_waiting(
        commands in prop::collection::vec((any_engine(), any_bytes()), 1..12),
        doorbell: u32,
        jump: bool,
    ) {
        let mut rig = Rig::new();
        let data = noise(0x2000);
        rig.fill(system(2, SYSTEM), &data);
        for (engine, bytes) in &commands {
            rig.submit_bytes(*engine, 1, bytes);
        }
        if jump {
            rig.ring(EngineIndex::CopyOut, 1, doorbell);
        }
        let there = Operation::Copy { source: SYSTEM, destination: LOCAL, length: 0x2000 };
        rig.submit(EngineIndex::CopyIn, 2, there, 0);
        rig.run(0);
        let back = Operation::Copy { source: LOCAL, destination: SYSTEM + 0x8000, length: 0x2000 };
        rig.submit(EngineIndex::CopyOut, 2, back, 1);
        rig.run(1000 * MILLISECOND);

        prop_assert_eq!((rig.fence(2, 0), rig.fence(2, 1)), (FenceState::Done, FenceState::Done));
        prop_assert_eq!((rig.faults(2), rig.first_fault(2)), (0, None));
        prop_assert_eq!(rig.bytes(system(2, SYSTEM + 0x8000), 0x2000), &data[..]);
    }

    /// The oracle is a queue that a child could keep: first come, first served, each
    /// takes its declared time, and none starts before it came.
    #[test]
    fn commands_end_when_a_simple_queue_says(
        gaps in prop::collection::vec((0..3 * MILLISECOND, timing::SETUP..4 * MILLISECOND, 1_usize..=2), 1..16),
    ) {
        let mut rig = Rig::new();
        let (mut now, mut free) = (0, 0);
        let mut expected = Vec::new();
        let mut announced = Vec::new();
        let mut next = None;
        let engine = EngineIndex::Execution;
        for (fence, &(gap, time, context)) in gaps.iter().enumerate() {
            now += gap;
            while let Some(instant) = next.filter(|&instant| instant < now) {
                let actions = rig.poll(instant);
                announced.extend(actions.interrupt.then_some(instant));
                next = actions.next;
            }
            // The probe agrees with the oracle on whether anything is left.
            let idle = (1..=2).all(|c| rig.is_idle(engine, c));
            prop_assert_eq!(idle, free < now || expected.is_empty());
            rig.submit(engine, context, Operation::Burn { time }, fence);
            free = free.max(now) + time;
            expected.push(free);
            let actions = rig.poll(now);
            announced.extend(actions.interrupt.then_some(now));
            next = actions.next;
        }
        if let Some(next) = next {
            announced.extend(rig.run(next));
        }
        prop_assert_eq!(announced, expected);
        prop_assert_eq!(rig.device.late_completions(), 0);
    }

    #[test]
    fn counters_may_wrap(start in (u32::MAX - 20)..=u32::MAX, count in 1_u32..17, early in 0_u32..17) {
        let mut rig = Rig::new();
        rig.ring(EngineIndex::Execution, 1, start);
        let retired = DESCRIPTION.status + status_retired(EngineIndex::Execution, 1);
        prop_assert_eq!(rig.ram.write_u32(retired, start), Ok(()));
        // A device that starts now goes on there, with the commands rung before it started, too.
        *rig.device = Device::EMPTY;
        for fence in 0..count {
            if fence == early {
                prop_assert_eq!(rig.device.configure(DESCRIPTION, &mut rig.ram), Ok(()));
            }
            rig.submit(EngineIndex::Execution, 1, BURN, fence as usize);
        }
        if early >= count {
            prop_assert_eq!(rig.device.configure(DESCRIPTION, &mut rig.ram), Ok(()));
        }
        prop_assert_eq!(rig.run(0).len() as u32, count);
        prop_assert_eq!(rig.retired(EngineIndex::Execution, 1), start.wrapping_add(count));
        prop_assert_eq!(rig.faults(1), 0);
    }
}

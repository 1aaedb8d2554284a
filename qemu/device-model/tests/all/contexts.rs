#![allow(missing_docs)]
//! Devices with more contexts or fewer: the choice of the next command, the cost of a change of context, and the device's counters for each.

use crate::rig::{DESCRIPTION, Rig};
use fusee_accel_contract::*;
use fusee_device_model::{Arbiter, Bus, Description};
use proptest::prelude::*;

const ENGINE: EngineIndex = EngineIndex::Execution;
const MICROSECOND: u64 = 1_000;
/// Shorter than any command, so that nothing of a command is missed between two looks.
const STEP: u64 = MICROSECOND;

fn rig(description: Description, contexts: usize) -> Rig {
    let mut rig = Rig::with(description);
    for context in 1..contexts {
        rig.open(context);
        share(&mut rig, context);
    }
    rig
}

fn share(rig: &mut Rig, context: usize) {
    let flags = DESCRIPTION.control + control_context(context) + CONTEXT_FLAGS;
    rig.ram.write_u32(flags, CONTEXT_VALID | CONTEXT_SHARED).unwrap();
}

fn burn(rig: &mut Rig, context: usize, time: u64) {
    let command = Command { operation: Operation::Burn { time }, fence: None };
    rig.submit_bytes(ENGINE, context, &command.encode());
}

fn number(rig: &mut Rig, at: u64) -> u64 {
    rig.ram.read_u64(DESCRIPTION.status + at).unwrap()
}

/// How long the engine ran for a context, and how long that was backlogged.
fn counted(rig: &mut Rig, context: usize) -> [u64; 2] {
    let at = status_counted(ENGINE, context);
    [number(rig, at), number(rig, at + 8)]
}

/// The contexts in the order of their commands, until none is left; and the end of the last one.
fn order(rig: &mut Rig) -> (Vec<usize>, u64) {
    let (mut order, mut now, mut retired) = (Vec::new(), 0, [0; CONTEXTS]);
    loop {
        let next = rig.poll(now).next;
        for (context, before) in retired.iter_mut().enumerate() {
            let after = rig.retired(ENGINE, context);
            (*before..after).for_each(|_| order.push(context));
            *before = after;
        }
        match next {
            Some(next) => now = next,
            None => return (order, now),
        }
    }
}

#[test]
fn a_device_hears_as_many_contexts_as_it_has() {
    for contexts in [2, 3, 8, CONTEXTS] {
        let contexts = Contexts::new(contexts).unwrap();
        let mut rig = rig(Description { contexts, ..DESCRIPTION }, CONTEXTS);
        assert_eq!(rig.ram.read_u32(DESCRIPTION.control + CONTROL_CONTEXTS), Ok(contexts.number() as u32));
        (1..CONTEXTS).for_each(|context| burn(&mut rig, context, timing::SETUP));
        assert!(order(&mut rig).0.into_iter().eq(1..contexts.number()));
    }
    assert_eq!([0, 1, CONTEXTS + 1].map(Contexts::new), [None; 3]);
}

/// One client has queued a whole ring before the other asks once.
#[test]
fn by_arrival_a_long_queue_is_served_first_in_turn_it_is_not_and_weights_divide() {
    let queued = |arbiter, others: usize| {
        let mut rig = rig(Description { arbiter, ..DESCRIPTION }, 4);
        (0..12).for_each(|_| burn(&mut rig, 1, timing::SETUP));
        (0..others).for_each(|_| burn(&mut rig, 2, timing::SETUP));
        order(&mut rig).0
    };
    assert_eq!(queued(Arbiter::ARRIVAL, 2), [[1; 12].as_slice(), &[2; 2]].concat());
    assert_eq!(queued(Arbiter::ROUND_ROBIN, 2), [[1, 2, 1, 2].as_slice(), &[1; 10]].concat());
    let mut weights = [1; 16];
    weights[1] = 3;
    let shares = queued(Arbiter::weighted(weights), 4);
    for round in shares.chunks(4) {
        assert_eq!(round.iter().filter(|context| **context == 1).count(), 3, "{shares:?}");
    }
}

/// Two engines of a device are in turn each for itself.
#[test]
fn a_turn_is_that_of_one_engine() {
    let mut rig = rig(Description { arbiter: Arbiter::ROUND_ROBIN, ..DESCRIPTION }, 3);
    let command = Command { operation: Operation::Burn { time: timing::SETUP }, fence: None };
    for (engine, context) in [(EngineIndex::CopyIn, 1), (EngineIndex::CopyIn, 2), (ENGINE, 1), (ENGINE, 2)] {
        (0..3).for_each(|_| rig.submit_bytes(engine, context, &command.encode()));
    }
    let mut now = 0;
    let mut before = [[0; 2]; 2];
    while let Some(next) = rig.poll(now).next {
        now = next;
        let retired = [EngineIndex::CopyIn, ENGINE].map(|engine| [1, 2].map(|context| rig.retired(engine, context)));
        for ([first, second], before) in retired.into_iter().zip(before) {
            assert!(first - second <= 1, "{retired:?} after {before:?}");
        }
        before = retired;
    }
}

#[test]
fn a_change_of_context_costs_what_the_device_says_and_its_client_has_it() {
    const SWITCH: u64 = 7 * MICROSECOND;
    let time = timing::SETUP + MICROSECOND;
    for (order, switches) in [(&[1, 1, 1, 1][..], 1), (&[1, 2, 1, 2], 4), (&[1, 1, 2, 2], 2)] {
        let mut rig = rig(Description { switch: SWITCH, counters: true, ..DESCRIPTION }, 3);
        let mut now = 0;
        for &context in order {
            burn(&mut rig, context, time);
            now = rig.run(now).last().copied().unwrap_or(now).max(now) + timing::MODERATION;
        }
        let total = order.len() as u64 * time + switches * SWITCH;
        assert_eq!(number(&mut rig, status_busy(ENGINE)), total, "{order:?}");
        let [first, second] = [1, 2].map(|context| counted(&mut rig, context)[0]);
        assert_eq!(first + second, total);
    }
}

#[test]
fn a_device_counts_nothing_unless_it_is_said_to() {
    for counters in [false, true] {
        let mut rig = rig(Description { counters, ..DESCRIPTION }, 2);
        let features = rig.ram.read_u32(DESCRIPTION.control + CONTROL_FEATURES).unwrap();
        assert_eq!(features & FEATURE_COUNTERS != 0, counters);
        assert_eq!(rig.ram.read_u32(DESCRIPTION.status + STATUS_COUNTS), Ok(counters.into()));
        burn(&mut rig, 1, timing::SETUP);
        rig.run(0);
        assert_eq!(counted(&mut rig, 1), [if counters { timing::SETUP } else { 0 }; 2]);
    }
}

/// The action of one client at one instant.
#[derive(Clone, Copy, Debug)]
struct Deed {
    after: u64,
    context: usize,
    time: u64,
    resets: bool,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = (0_u64..120, 1_usize..5, 25_u64..90, prop::bool::weighted(0.1));
    let deed = deed.prop_map(|(after, context, time, resets)| Deed {
        after: after * MICROSECOND,
        context,
        time: time * MICROSECOND,
        resets,
    });
    prop::collection::vec(deed, 1..30)
}

proptest! {
    /// The counters against a clock that looks every microsecond at the running command and at the contexts with commands. Context 4 is no shared
    /// one.
    #[test]
    fn what_is_counted_is_what_a_clock_sees(deeds in deeds(), switch in 0_u64..3, rule in 0_usize..3) {
        let arbiter = [Arbiter::ARRIVAL, Arbiter::ROUND_ROBIN, Arbiter::weighted([2; 16])][rule];
        let description = Description { arbiter, switch: switch * MICROSECOND, counters: true, ..DESCRIPTION };
        let mut rig = rig(description, 4);
        rig.open(4);
        let mut seen = [[0; 2]; 5];
        let (mut now, mut left) = (0, deeds.into_iter().peekable());
        let mut due = left.peek().map_or(0, |deed| deed.after);
        loop {
            while let Some(deed) = left.next_if(|_| due <= now) {
                if deed.resets {
                    let request = DESCRIPTION.control + control_reset_request(deed.context, ENGINE);
                    let before = rig.ram.read_u32(request).unwrap();
                    rig.ram.write_u32(request, before + 1).unwrap();
                } else if outstanding(rig.submitted(ENGINE, deed.context), rig.retired(ENGINE, deed.context)) < RING_ENTRIES {
                    burn(&mut rig, deed.context, deed.time);
                }
                due = now + left.peek().map_or(0, |deed| deed.after);
            }
            let _ = rig.poll(now);
            let running = rig.device.working_for(ENGINE);
            if running.is_none() && left.peek().is_none() {
                break;
            }
            for (context, [ran, backlogged]) in seen.iter_mut().enumerate().skip(1) {
                *ran += if running == Some(context) { STEP } else { 0 };
                let has_some = rig.seen(ENGINE, context) != rig.retired(ENGINE, context);
                let counts = context == 4 || running != Some(4);
                *backlogged += if has_some && counts { STEP } else { 0 };
            }
            now += STEP;
        }
        for (context, seen) in seen.into_iter().enumerate().skip(1) {
            prop_assert_eq!(counted(&mut rig, context), seen, "context {}", context);
        }
        let ran: u64 = seen.iter().map(|[ran, _]| ran).sum();
        prop_assert_eq!(number(&mut rig, status_busy(ENGINE)), ran);
    }
}

#![allow(missing_docs)]
//! An execution engine with SMs: commands of two contexts at once, and their results.

use crate::rig::{DESCRIPTION, LOCAL, Rig, launch, local, noise, time_of};
use fusee_accel_contract::{
    CONTEXT_FLAGS, CONTEXT_SHARED, CONTEXT_VALID, CONTROL_FEATURES, CONTROL_SMS, EngineIndex, FEATURE_KEYS,
    FEATURE_SMS, FenceState, KEY_LAST, Operation, control_context, control_key, control_reset_request, status_counted,
    status_sm_time,
};
use fusee_compute::Kernel;
use fusee_device_model::{Bus, Description, Mechanism, Sms};
use fusee_library::{Filter, Gradient, Product, Transform};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const EXECUTION: EngineIndex = EngineIndex::Execution;
/// To save or restore all that is on an SM.
const SAVE: u64 = 19_456;
const MILLISECOND: u64 = 1_000_000;

fn rig(sms: Option<Sms>) -> Rig {
    let mut rig = Rig::with(Description { sms, ..DESCRIPTION });
    for (context, bytes) in [1, 2].into_iter().zip(noise(0x6000).chunks(0x3000)) {
        rig.fill(local(context, LOCAL), bytes);
    }
    rig
}

fn share(rig: &mut Rig, context: usize) {
    let flags = DESCRIPTION.control + control_context(context) + CONTEXT_FLAGS;
    rig.ram.write_u32(flags, CONTEXT_VALID | CONTEXT_SHARED).unwrap();
}

/// Nanoseconds of SMs for which they ran blocks of a context, saved and restored for it, and how often they had to.
fn sm_time(rig: &mut Rig, context: usize) -> [u64; 4] {
    let at = DESCRIPTION.status + status_sm_time(context);
    [0, 8, 16, 24].map(|offset| rig.ram.read_u64(at + offset).unwrap())
}

fn work() -> [Operation; 4] {
    [
        launch(&Filter { samples: 1000, length: 30 }, &[LOCAL, LOCAL + 0x2000, LOCAL + 0x4000]),
        launch(&Transform { points: 512 }, &[LOCAL + 0x800, LOCAL + 0x8000, LOCAL + 0xC000]),
        launch(&Gradient { width: 100, height: 90 }, &[LOCAL, LOCAL + 0x9000]),
        launch(&Product { order: 16, time: 0 }, &[LOCAL, LOCAL + 0x1000, LOCAL + 0xE000]),
    ]
}

#[test]
fn alone_a_launch_takes_the_time_that_it_says_and_computes_the_same() {
    let gradient = Gradient { width: 100, height: 90 };
    let (mut plain, mut with) = (rig(None), rig(Some(Sms::of(4, Mechanism::Switch))));
    let features = with.ram.read_u32(DESCRIPTION.control + CONTROL_FEATURES).unwrap();
    assert_eq!((features & FEATURE_SMS, with.ram.read_u32(DESCRIPTION.control + CONTROL_SMS)), (FEATURE_SMS, Ok(4)));
    let mut ends = Vec::new();
    for rig in [&mut plain, &mut with] {
        rig.submit(EXECUTION, 1, launch(&gradient, &[LOCAL, LOCAL + 0x9000]), 0);
        ends.push(rig.run(0));
        assert_eq!((rig.fence(1, 0), rig.faults(1), rig.device.late_completions()), (FenceState::Done, 0, 0));
    }
    assert_eq!(plain.bytes(local(1, LOCAL), 0x10000), with.bytes(local(1, LOCAL), 0x10000));
    assert_eq!(ends[0], [time_of(&gradient)]);
    // Two rounds of blocks at most, and each block may lose a nanosecond.
    assert!(ends[1].len() == 1 && time_of(&gradient) - ends[1][0] < gradient.blocks().into(), "{ends:?}");
    assert_eq!(plain.run(0), []);
}

/// At 2 ms a launch with a lock comes: each SM saves, runs its block and restores.
#[test]
fn who_has_a_lock_waits_for_a_save_and_not_for_a_command() {
    let mut rig = rig(Some(Sms::of(4, Mechanism::Switch)));
    share(&mut rig, 1);
    rig.submit(EXECUTION, 1, Operation::Burn { time: 9 * MILLISECOND }, 0);
    rig.run_until(2 * MILLISECOND);
    rig.submit(EXECUTION, 2, Operation::Burn { time: MILLISECOND }, 0);
    let ends = rig.run(2 * MILLISECOND);
    assert_eq!(ends, [3 * MILLISECOND + SAVE, 10 * MILLISECOND + 2 * SAVE]);
    assert_eq!([rig.fence(1, 0), rig.fence(2, 0)], [FenceState::Done; 2]);
    // The preemptor pays for both.
    assert_eq!(sm_time(&mut rig, 2), [4 * MILLISECOND, 4 * SAVE, 0, 4]);
    assert_eq!(sm_time(&mut rig, 1), [4 * 9 * MILLISECOND, 0, 0, 0]);
}

/// The blocks on the SMs have 7 ms left.
#[test]
fn who_has_a_lock_waits_for_blocks_where_sms_are_drained() {
    let mut rig = rig(Some(Sms::of(4, Mechanism::Drain)));
    share(&mut rig, 1);
    rig.submit(EXECUTION, 1, Operation::Burn { time: 9 * MILLISECOND }, 0);
    rig.run_until(2 * MILLISECOND);
    rig.submit(EXECUTION, 2, Operation::Burn { time: MILLISECOND }, 0);
    assert_eq!(rig.run(2 * MILLISECOND), [9 * MILLISECOND, 10 * MILLISECOND]);
}

/// One has three of four parts. Its eight blocks are three rounds on three SMs; in the last of them one SM is free for the other, which so has a third.
#[test]
fn clients_without_a_lock_share_by_their_tokens() {
    let mut tokens = [1; 16];
    tokens[2] = 3;
    let mut rig = rig(Some(Sms { tokens, ..Sms::of(4, Mechanism::Switch) }));
    [1, 2].iter().for_each(|context| share(&mut rig, *context));
    for context in [1, 2] {
        for fence in 0..8 {
            rig.submit(
                EXECUTION,
                context,
                launch(&Gradient { width: 128, height: 128 }, &[LOCAL, LOCAL + 0x8000]),
                fence,
            );
        }
    }
    rig.run_until(18 * MILLISECOND);
    let run = [1, 2].map(|context| sm_time(&mut rig, context)[0]);
    assert!(run[1] == 2 * run[0] && run[0] > 0, "{run:?}");
    rig.run(18 * MILLISECOND);
    assert_eq!([rig.faults(1), rig.faults(2), rig.device.late_completions()], [0; 3]);
}

#[test]
fn a_reset_takes_the_sms_of_its_context_only() {
    let mut rig = rig(Some(Sms::of(4, Mechanism::Switch)));
    share(&mut rig, 1);
    rig.submit(EXECUTION, 1, Operation::Burn { time: u64::MAX }, 0);
    rig.run_until(MILLISECOND);
    rig.submit(EXECUTION, 2, Operation::Burn { time: 2 * MILLISECOND }, 0);
    let _ = rig.poll(MILLISECOND);
    let _ = rig.poll(2 * MILLISECOND);
    rig.ram.write_u32(DESCRIPTION.control + control_reset_request(1, EXECUTION), 1).unwrap();
    let ends = rig.run(2 * MILLISECOND);
    assert_eq!(ends.last(), Some(&(3 * MILLISECOND + SAVE)));
    assert_eq!([rig.fence(1, 0), rig.fence(2, 0)], [FenceState::Failed, FenceState::Done]);
    assert!(rig.is_idle(EXECUTION, 1) && rig.is_idle(EXECUTION, 2));
    rig.submit(EXECUTION, 1, Operation::Burn { time: MILLISECOND }, 1);
    assert_eq!(rig.run(5 * MILLISECOND).last(), Some(&(6 * MILLISECOND)), "all SMs are free");
}

/// By keys: the key that the kernel writes for each counts at once; a client without a lock comes behind all real-time keys, and before the last.
#[test]
fn contexts_have_sms_by_the_keys_that_the_kernel_says() {
    let mut rig = rig(Some(Sms { keyed: true, ..Sms::of(4, Mechanism::Switch) }));
    let features = rig.ram.read_u32(DESCRIPTION.control + CONTROL_FEATURES).unwrap();
    assert_eq!(features & (FEATURE_SMS | FEATURE_KEYS), FEATURE_SMS | FEATURE_KEYS);
    let say = |rig: &mut Rig, context, key| rig.ram.write_u64(DESCRIPTION.control + control_key(context), key).unwrap();
    let occupied = |rig: &mut Rig, now, context| {
        let _ = rig.poll(now);
        rig.ram.read_u64(DESCRIPTION.status + status_counted(EXECUTION, context)).unwrap()
    };
    let ends_at = |rig: &mut Rig, fence, end| {
        rig.run_until(end - 1);
        assert_eq!(rig.fence(2, fence), FenceState::Pending);
        rig.run_until(end);
        assert_eq!(rig.fence(2, fence), FenceState::Done);
    };
    say(&mut rig, 1, 20);
    rig.submit(EXECUTION, 1, Operation::Burn { time: 9 * MILLISECOND }, 0);
    rig.run_until(2 * MILLISECOND);
    // A later key waits.
    say(&mut rig, 2, 30);
    rig.submit(EXECUTION, 2, Operation::Burn { time: MILLISECOND }, 0);
    rig.run_until(3 * MILLISECOND);
    assert_eq!([1, 2].map(|context| occupied(&mut rig, 3 * MILLISECOND, context)), [3 * MILLISECOND, 0]);
    // Then it is the earlier one.
    say(&mut rig, 2, 10);
    let _ = rig.poll(3 * MILLISECOND);
    ends_at(&mut rig, 0, 4 * MILLISECOND + SAVE);
    assert_eq!(occupied(&mut rig, 4 * MILLISECOND + SAVE, 2), MILLISECOND + SAVE);
    // The restore belongs to no context.
    rig.run_until(5 * MILLISECOND);
    assert_eq!(occupied(&mut rig, 5 * MILLISECOND, 1), 4 * MILLISECOND - 2 * SAVE);
    // A client without a lock takes all from one with a job without budget.
    share(&mut rig, 2);
    rig.submit(EXECUTION, 2, Operation::Burn { time: MILLISECOND }, 1);
    rig.run_until(6 * MILLISECOND);
    assert_eq!(occupied(&mut rig, 6 * MILLISECOND, 1), 5 * MILLISECOND - 2 * SAVE);
    say(&mut rig, 1, KEY_LAST);
    let _ = rig.poll(6 * MILLISECOND);
    ends_at(&mut rig, 1, 7 * MILLISECOND + SAVE);
}

/// With any preemptions, and any resets in between, the results are those of one command after the other.
#[test]
fn what_two_contexts_compute_at_once_is_what_each_computes_alone() {
    for seed in 0..150 {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |end: u64| chance.next_u64() % end;
        let mechanism = match below(3) {
            0 => Mechanism::Switch,
            1 => Mechanism::Drain,
            _ => Mechanism::DrainThenSwitch { limit: below(MILLISECOND) },
        };
        let sms = Sms { keyed: below(2) == 0, ..Sms::of(1 + below(16) as u8, mechanism) };
        let (mut rig, mut plain) = (rig(Some(sms)), rig(None));
        let shared = below(4);
        (1..=2).filter(|context| shared & context != 0).for_each(|context| share(&mut rig, context as usize));
        let (mut now, mut fences) = (0, [0; 2]);
        for _ in 0..below(20) {
            let context = 1 + below(2) as usize;
            let fence = &mut fences[context - 1];
            if *fence < 8 {
                let operation = match below(5) {
                    4 => Operation::Burn { time: 25_000 + below(3 * MILLISECOND) },
                    which => work()[which as usize],
                };
                rig.submit(EXECUTION, context, operation, *fence);
                plain.submit(EXECUTION, context, operation, *fence);
                *fence += 1;
            }
            rig.ram.write_u64(DESCRIPTION.control + control_key(context), below(4)).unwrap();
            let until = now + below(2 * MILLISECOND);
            while now < until {
                now = rig.poll(now).next.unwrap_or(until).clamp(now + 1, until);
            }
        }
        rig.run(now);
        plain.run(0);
        for context in [1, 2] {
            let differs =
                |at: &u64| rig.bytes(local(context, LOCAL + at), 1) != plain.bytes(local(context, LOCAL + at), 1);
            let place = (0..0x10000).find(differs);
            let faults = [rig.first_fault(context), plain.first_fault(context)];
            assert_eq!((place, faults), (None, [None; 2]), "{seed}: {sms:?}, {shared}");
            assert!(rig.is_idle(EXECUTION, context) && rig.faults(context) == 0, "{seed}");
            assert!((0..fences[context - 1]).all(|fence| rig.fence(context, fence) == FenceState::Done), "{seed}");
        }
        assert_eq!(rig.device.late_completions(), 0, "{seed}");
    }
}

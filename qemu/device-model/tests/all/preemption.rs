#![allow(missing_docs)]
//! Launches of two contexts, block by block in turn: the results are those of launches at once.

use crate::rig::{DESCRIPTION, LOCAL, Rig, launch, local, noise};
use fusee_accel_contract::{
    CONTROL_FEATURES, EngineIndex, FEATURE_PREEMPTIBLE, FenceState, Launch, Operation, control_reset_request, timing,
};
use fusee_device_model::{Bus, Description};
use fusee_library::{Filter, Gradient, Transform};

const EXECUTION: EngineIndex = EngineIndex::Execution;

fn rig(preemptible: bool) -> Rig {
    let mut rig = Rig::with(Description { preemptible, ..DESCRIPTION });
    let features = rig.ram.read_u32(DESCRIPTION.control + CONTROL_FEATURES).unwrap();
    assert_eq!(features & FEATURE_PREEMPTIBLE != 0, preemptible);
    // Other bytes for each context.
    for (context, bytes) in [1, 2].into_iter().zip(noise(0x6000).chunks(0x3000)) {
        rig.fill(local(context, LOCAL), bytes);
    }
    rig
}

/// The unfinished part of a transform.
const UNFINISHED: u64 = LOCAL + 0xC000;
const TRANSFORM: Transform = Transform { points: 512 };

fn transform() -> Operation {
    launch(&TRANSFORM, &[LOCAL + 0x800, LOCAL + 0x8000, UNFINISHED])
}

fn work() -> [Operation; 3] {
    [
        launch(&Filter { samples: 1000, length: 30 }, &[LOCAL, LOCAL + 0x2000, LOCAL + 0x4000]),
        transform(),
        launch(&Gradient { width: 100, height: 90 }, &[LOCAL, LOCAL + 0x9000]),
    ]
}

fn blocks(whole: Operation) -> impl Iterator<Item = Operation> {
    let Operation::Launch(launch) = whole else { panic!("all of them are launches") };
    (0..launch.blocks).map(move |number| Operation::Launch(Launch::block(launch, number)))
}

#[test]
fn blocks_of_two_contexts_in_turn_write_what_each_would_at_once() {
    let (mut whole, mut cut) = (rig(false), rig(true));
    for context in [1, 2] {
        for operation in work() {
            whole.submit(EXECUTION, context, operation, 0);
        }
    }
    whole.run(0);
    let (mut now, mut commands) = (0, 0);
    for block in work().into_iter().flat_map(blocks) {
        // The second context does the same, and a transform at once in between, which has no part in the unfinished one.
        let other = launch(&Transform { points: 128 }, &[LOCAL, LOCAL + 0xE000, LOCAL + 0xD000]);
        for (context, operation) in [(1, block), (2, other), (2, block)] {
            cut.submit(EXECUTION, context, operation, 0);
            assert_eq!(cut.retired(EXECUTION, context).wrapping_add(1), cut.submitted(EXECUTION, context));
            let ended = cut.run(now);
            assert_eq!(ended.len(), 1);
            now = ended[0];
            assert_eq!(cut.fence(context, 0), FenceState::Done);
            assert_eq!(cut.retired(EXECUTION, context), cut.submitted(EXECUTION, context), "idle for both");
            commands += 1;
        }
    }
    for context in [1, 2] {
        assert_eq!(cut.bytes(local(context, LOCAL), 0xC000), whole.bytes(local(context, LOCAL), 0xC000));
        assert_eq!((cut.faults(context), whole.faults(context)), (0, 0));
    }
    assert_ne!(cut.bytes(local(1, LOCAL), 0xA000), cut.bytes(local(2, LOCAL), 0xA000));
    assert_eq!((commands, cut.device.late_completions()), (3 * (8 + 9 + 5), 0));
}

#[test]
fn what_is_unfinished_is_its_clients_and_survives_the_reset_of_anothers_operation() {
    let mut rig = rig(true);
    let mut stages: Vec<_> = blocks(transform()).collect();
    let rest = stages.split_off(1);
    for context in [1, 2] {
        rig.submit(EXECUTION, context, stages[0], 0);
    }
    rig.run(0);
    rig.submit(EXECUTION, 1, Operation::Burn { time: u64::MAX }, 2);
    let _ = rig.poll(4_000_000);
    // The driver does not know the context of the command that does not end.
    for context in [1, 2] {
        rig.ram.write_u32(DESCRIPTION.control + control_reset_request(context, EXECUTION), 1).unwrap();
    }
    let _ = rig.poll(5_000_000);
    for context in [1, 2] {
        for stage in &rest {
            rig.submit(EXECUTION, context, *stage, 1);
        }
    }
    rig.run(5_000_000);
    let mut whole = self::rig(false);
    for context in [1, 2] {
        whole.submit(EXECUTION, context, transform(), 0);
    }
    whole.run(0);
    for context in [1, 2] {
        assert_eq!((rig.fence(context, 1), rig.faults(context)), (FenceState::Done, 0));
        assert_eq!(rig.bytes(local(context, LOCAL), 0xA000), whole.bytes(local(context, LOCAL), 0xA000));
    }
}

#[test]
fn a_block_takes_its_own_time_and_the_setup() {
    let mut rig = rig(true);
    let stage = blocks(transform()).nth(4).expect("it has nine");
    rig.submit(EXECUTION, 1, stage, 0);
    assert_eq!(rig.run(0), [timing::EXECUTION_SETUP + 81_920]);
}

#![allow(missing_docs)]
//! Operations of two contexts, block by block in turn: what comes out is what comes out at once.

mod rig;

use fusee_accel_contract::{
    CONTROL_FEATURES, Command, EngineIndex, FEATURE_PREEMPTIBLE, FaultKind, FenceState, Operation,
    control_reset_request, timing,
};
use fusee_device_model::{Bus, Description};
use rig::{DESCRIPTION, LOCAL, Rig, local, noise};

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

/// A filter and two transforms, the second in place.
const WORK: [Operation; 3] = [
    Operation::Filter {
        source: LOCAL,
        coefficients: LOCAL + 0x2000,
        destination: LOCAL + 0x4000,
        samples: 1000,
        length: 30,
    },
    Operation::Transform { source: LOCAL + 0x800, destination: LOCAL + 0x8000, points: 512 },
    Operation::Transform { source: LOCAL, destination: LOCAL, points: 64 },
];

#[test]
fn blocks_of_two_contexts_in_turn_write_what_each_would_at_once() {
    let (mut whole, mut cut) = (rig(false), rig(true));
    for context in [1, 2] {
        for operation in WORK {
            whole.submit(EXECUTION, context, operation, 0);
        }
    }
    whole.run(0);
    let mut now = 0;
    for operation in WORK {
        for number in 0..operation.blocks() {
            let block = operation.block(number);
            // The second context does the same, and a transform at once in between, which has no part in what is unfinished.
            let other = Operation::Transform { source: LOCAL, destination: LOCAL + 0xA000, points: 128 };
            for (context, operation) in [(1, block), (2, other), (2, block)] {
                cut.submit(EXECUTION, context, operation, 0);
                now += timing::modelled_time(&Command { operation, fence: None }, EXECUTION);
                assert_eq!(cut.retired(EXECUTION, context).wrapping_add(1), cut.submitted(EXECUTION, context));
                assert_eq!(cut.run(now - timing::SETUP).len(), 1);
                assert_eq!(cut.fence(context, 0), FenceState::Done);
                assert_eq!(cut.retired(EXECUTION, context), cut.submitted(EXECUTION, context), "idle for both");
            }
        }
    }
    for context in [1, 2] {
        assert_eq!(cut.bytes(local(context, LOCAL), 0xA000), whole.bytes(local(context, LOCAL), 0xA000));
        assert_eq!((cut.faults(context), whole.faults(context)), (0, 0));
    }
    assert_ne!(cut.bytes(local(1, LOCAL), 0xA000), cut.bytes(local(2, LOCAL), 0xA000));
}

#[test]
fn a_stage_that_does_not_follow_the_one_before_is_a_bad_command() {
    let [_, transform, other] = WORK;
    let stage = |number| transform.block(number);
    // What came before, and what is refused.
    let cases: [(&[Operation], Operation); 6] = [
        (&[], stage(1)),
        (&[stage(0)], stage(2)),
        (&[stage(0), stage(1)], stage(1)),
        (&[stage(0), other.block(0)], stage(1)),
        (&[stage(0)], other.block(1)),
        (&[stage(0), stage(1), stage(2), stage(3), stage(4), stage(5), stage(6), stage(7), stage(8)], stage(8)),
    ];
    for (before, refused) in cases {
        let mut rig = rig(true);
        for operation in before {
            rig.submit(EXECUTION, 1, *operation, 0);
        }
        rig.run(0);
        assert_eq!(rig.faults(1), 0);
        rig.submit(EXECUTION, 1, refused, 1);
        rig.run(10_000_000);
        assert_eq!((rig.fence(1, 1), rig.first_fault(1)), (FenceState::Failed, Some(FaultKind::BadCommand)));
    }
}

#[test]
fn without_the_feature_there_are_no_stages() {
    let mut rig = rig(false);
    rig.submit(EXECUTION, 1, WORK[1].block(0), 0);
    rig.run(0);
    assert_eq!((rig.fence(1, 0), rig.first_fault(1)), (FenceState::Failed, Some(FaultKind::BadCommand)));
}

#[test]
fn a_reset_forgets_what_is_unfinished_of_a_context_at_work_and_nothing_of_one_that_is_idle() {
    let mut rig = rig(true);
    for context in [1, 2] {
        rig.submit(EXECUTION, context, WORK[1].block(0), 0);
    }
    rig.run(0);
    rig.submit(EXECUTION, 1, Operation::Burn { time: u64::MAX }, 2);
    let _ = rig.poll(4_000_000);
    // The driver does not know whose command it is that does not end.
    for context in [1, 2] {
        rig.ram.write_u32(DESCRIPTION.control + control_reset_request(context, EXECUTION), 1).unwrap();
    }
    for context in [1, 2] {
        let _ = rig.poll(5_000_000);
        rig.submit(EXECUTION, context, WORK[1].block(1), 1);
    }
    rig.run(5_000_000);
    assert_eq!([1, 2].map(|context| rig.fence(context, 1)), [FenceState::Failed, FenceState::Done]);
}

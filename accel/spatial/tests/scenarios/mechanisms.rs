//! Preemption by saves and by drains: the payer, and reservations, keys and budgets meanwhile.

use fusee_spatial::*;

use crate::host::*;
use crate::{ENDLESS, MS, REAL_TIME, SHARED, US, context, counts, engine, grid, sm, sms_of};

#[test]
fn a_persistent_kernel_blocks_draining_and_nothing_else() {
    for (mechanism, done_at) in [
        (Mechanism::Switch, Some(14 * US)),
        (Mechanism::DrainThenSwitch { limit: 30 * US }, Some(44 * US)),
        (Mechanism::Drain, None),
    ] {
        let (mut engine, mut host) = (engine(SHARED, 2, mechanism), Log::default());
        engine.submit(context(0), &grid(8, limits::BLOCK_TIME_MAX), 0).unwrap();
        engine.advance(US, &mut host);
        engine.set_key(context(1), Key(1));
        engine.submit(context(1), &grid(8, 9 * US), 1).unwrap();
        engine.advance(3_600_000 * MS, &mut host);
        let expected = done_at.map(|at| (at, context(1), 1, Outcome::Complete));
        assert_eq!(host.ended, Vec::from_iter(expected), "{mechanism:?}");
    }
}

#[test]
fn a_preempted_block_runs_on_for_what_it_had_left_and_the_preemptor_pays_save_and_restore() {
    let (mut engine, mut host) = (engine(SHARED, 1, Mechanism::Switch), Log::default());
    engine.submit(context(0), &grid(4, 100 * US), 0).unwrap();
    engine.advance(30 * US, &mut host);
    engine.set_key(context(1), Key(1));
    engine.submit(context(1), &grid(4, 10 * US), 1).unwrap();
    engine.advance(MS, &mut host);
    // 30 us, a save of 4, the other's 10, a restore of 4, and the 70 that were left.
    assert_eq!(host.ended, [(44 * US, context(1), 1, Outcome::Complete), (118 * US, context(0), 0, Outcome::Complete)]);
    assert!(host.saved.iter().all(|record| record.remaining == 70 * US && record.bytes == 16_000));
    assert_eq!(host.saved, host.restored);
    let [victim, preemptor] = [0, 1].map(|number| *engine.counters().of(context(number)));
    assert_eq!([victim.running, victim.saving, victim.restoring, victim.resumed], [100 * US, 0, 0, 4]);
    assert_eq!([preemptor.running, preemptor.saving, preemptor.restoring], [10 * US, 4 * US, 4 * US]);
    assert_eq!([preemptor.preemptions, preemptor.saved_bytes], [1, 64_000]);
    assert_eq!(engine.counters().idle(), MS - 118 * US);
}

#[test]
fn a_restore_is_paid_by_those_who_caused_it_block_by_block() {
    // Two SMs of context 0 are preempted by two contexts. One SM then restores blocks of both.
    let (mut engine, mut host) = (engine(Rule::Outside(Outside), 2, Mechanism::Switch), Log::default());
    let per_sm = |count| Grid { blocks_per_sm: Some(count), ..grid(4, 100 * US) };
    engine.submit(context(0), &per_sm(4), 0).unwrap();
    engine.advance(0, &mut host);
    let place = |number| Place::new(number).unwrap();
    engine.carry_out(Decision::Assign { sm: sm(0), kernel: place(0) }, &mut host).unwrap();
    engine.advance(10 * US, &mut host);
    engine.submit(context(1), &per_sm(1), 1).unwrap();
    engine.submit(context(2), &per_sm(1), 2).unwrap();
    engine.advance(10 * US, &mut host);
    engine.carry_out(Decision::Reserve { sm: sm(0), next: place(1) }, &mut host).unwrap();
    engine.advance(14 * US, &mut host);
    assert_eq!(engine.preempted(place(0)), 4);
    engine.carry_out(Decision::Assign { sm: sm(1), kernel: place(0) }, &mut host).unwrap();
    // In the midst of the third block.
    engine.advance(16_500, &mut host);
    assert_eq!(engine.counters().of(context(1)).restoring, 2_500);
    engine.advance(17 * US, &mut host);
    // Preempted again, during the restore: it ends first.
    engine.carry_out(Decision::Reserve { sm: sm(1), next: place(2) }, &mut host).unwrap();
    engine.advance(22 * US, &mut host);
    assert_eq!(engine.table().state(sm(1)), State::Running(place(2)));
    let counters = engine.counters();
    assert_eq!([counters.of(context(1)).restoring, counters.of(context(2)).saving], [4 * US, 4 * US]);
    assert!(host.saved[4..].iter().all(|record| record.remaining == 90 * US));
}

#[test]
fn what_arrives_during_a_save_goes_to_the_sm_without_a_second_save() {
    let (mut engine, mut host) = (engine(SHARED, 1, Mechanism::Switch), Log::default());
    engine.submit(context(0), &grid(4, 100 * US), 0).unwrap();
    engine.advance(10 * US, &mut host);
    engine.set_key(context(1), Key(2));
    engine.submit(context(1), &grid(4, 10 * US), 1).unwrap();
    engine.advance(12 * US, &mut host);
    engine.set_key(context(2), Key(1));
    engine.submit(context(2), &grid(4, 10 * US), 2).unwrap();
    engine.advance(12 * US, &mut host);
    assert_eq!(counts(&engine), [2 - 1, 1, 0], "the token went back to the first preemptor");
    engine.advance(MS, &mut host);
    let ends: Vec<_> = host.ended.iter().map(|&(at, _, work, _)| (at, work)).collect();
    assert_eq!(ends, [(24 * US, 2), (34 * US, 1), (128 * US, 0)]);
    assert_eq!([1, 2].map(|number| engine.counters().of(context(number)).saving), [4 * US, 0]);
}

#[test]
fn a_reserved_kernel_that_ends_first_gives_its_token_back_and_the_policy_is_asked_again() {
    for mechanism in [Mechanism::Switch, Mechanism::Drain] {
        let (mut engine, mut host) = (engine(Rule::Outside(Outside), 2, mechanism), Log::default());
        let place = |number| Place::new(number).unwrap();
        engine.submit(context(0), &grid(ENDLESS, 10 * US), 0).unwrap();
        engine.submit(context(1), &grid(8, 1_500), 1).unwrap();
        engine.advance(0, &mut host);
        engine.carry_out(Decision::Assign { sm: sm(0), kernel: place(0) }, &mut host).unwrap();
        engine.carry_out(Decision::Assign { sm: sm(1), kernel: place(1) }, &mut host).unwrap();
        engine.carry_out(Decision::Reserve { sm: sm(0), next: place(1) }, &mut host).unwrap();
        assert!(engine.was_asked());
        engine.advance(2 * US, &mut host);
        assert_eq!(counts(&engine), [1, -1], "no block is left, but one SM runs and one is reserved");
        engine.advance(3 * US, &mut host);
        assert_eq!(host.ended.len(), 1);
        assert!(engine.was_asked());
        match mechanism {
            // A draining SM goes back to its kernel: nothing was lost.
            Mechanism::Drain => {
                assert_eq!((engine.table().state(sm(0)), counts(&engine)), (State::Running(place(0)), vec![0]));
            }
            // A save that has begun goes on to its end.
            _ => {
                assert_eq!(engine.table().state(sm(0)), State::Reserved { victim: Some(place(0)), next: None });
                engine.advance(4 * US, &mut host);
                assert_eq!((engine.table().state(sm(0)), counts(&engine)), (State::Idle, vec![1]));
                assert!(engine.was_asked());
            }
        }
    }
}

#[test]
fn a_key_that_falls_while_an_sm_is_drained_calls_the_drain_off() {
    let (mut engine, mut host) = (engine(REAL_TIME, 1, Mechanism::Drain), Log::default());
    engine.submit(context(0), &Grid { spread: 900, ..grid(ENDLESS, 100 * US) }, 0).unwrap();
    engine.advance(50 * US, &mut host);
    engine.set_key(context(1), Key(1));
    engine.submit(context(1), &grid(4, 10 * US), 1).unwrap();
    engine.advance(150 * US, &mut host);
    let drained = engine.resident(sm(0));
    assert!((1..4).contains(&drained), "some blocks have ended");
    engine.set_key(context(1), Key::EXHAUSTED);
    engine.advance(150 * US, &mut host);
    assert_eq!(engine.resident(sm(0)), 4, "all places are filled again");
    assert_eq!(sms_of(&engine, 2), [1, 0]);
}

#[test]
fn a_kernel_whose_key_falls_and_rises_during_a_save_keeps_the_sm_that_its_blocks_are_on() {
    let (mut engine, mut host) = (engine(SHARED, 1, Mechanism::Switch), Log::default());
    engine.set_key(context(0), Key(1));
    engine.set_key(context(1), Key(2));
    engine.submit(context(0), &grid(4, 100 * US), 0).unwrap();
    engine.submit(context(1), &grid(4, 100 * US), 1).unwrap();
    engine.advance(10 * US, &mut host);
    engine.set_key(context(0), Key(3));
    engine.advance(11 * US, &mut host);
    // Nothing is left to issue of it, and nothing is saved yet.
    engine.set_key(context(0), Key(1));
    engine.advance(MS, &mut host);
    let ends: Vec<_> = host.ended.iter().map(|&(at, _, work, _)| (at, work)).collect();
    assert_eq!(ends, [(108 * US, 0), (208 * US, 1)], "one save and one restore of 4 us");
}

#[test]
fn a_budget_that_is_exhausted_while_a_kernel_runs_takes_its_sms_and_a_new_one_brings_them_back() {
    let (mut engine, mut host) = (engine(REAL_TIME, 4, Mechanism::Switch), Log::default());
    engine.set_key(context(0), Key(5));
    for number in 0..2 {
        engine.submit(context(number), &grid(ENDLESS, 5 * US), 0).unwrap();
    }
    engine.advance(MS, &mut host);
    assert_eq!(sms_of(&engine, 2), [4, 0]);
    engine.set_key(context(0), Key::EXHAUSTED);
    engine.advance(2 * MS, &mut host);
    assert_eq!(sms_of(&engine, 2), [0, 4]);
    engine.set_key(context(0), Key(7));
    engine.advance(3 * MS, &mut host);
    assert_eq!(sms_of(&engine, 2), [4, 0]);
    engine.set_key(context(0), Key::BEST_EFFORT);
    engine.advance(4 * MS, &mut host);
    assert_eq!(sms_of(&engine, 2), [2, 2]);
}

#[test]
fn an_exhausted_kernel_uses_what_nobody_else_wants() {
    let (mut engine, mut host) = (engine(REAL_TIME, 4, Mechanism::Switch), Log::default());
    engine.set_key(context(0), Key::EXHAUSTED);
    engine.submit(context(0), &grid(ENDLESS, 5 * US), 0).unwrap();
    engine.submit(context(1), &grid(4, 100 * US), 1).unwrap();
    engine.advance(0, &mut host);
    assert_eq!(sms_of(&engine, 2), [3, 1]);
}

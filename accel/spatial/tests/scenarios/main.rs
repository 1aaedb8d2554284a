//! The engine in single scenarios whose outcome is known from the paper, or can be worked out by hand.

mod host;
mod mechanisms;

use fusee_spatial::*;
use host::*;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

fn context(number: usize) -> Context {
    Context::new(number).unwrap()
}

fn sm(number: usize) -> Sm {
    Sm::new(number).unwrap()
}

/// A grid of 4 blocks on an SM, each with 16 kB of state: an SM is saved in 4 us.
fn grid(blocks: u32, time: u64) -> Grid {
    Grid { blocks, time, spread: 0, seed: 0, registers: 4_000, shared: 0, threads: 0, blocks_per_sm: Some(4) }
}

const ENDLESS: u32 = u32::MAX;

fn engine(rule: Rule, sms: u8, mechanism: Mechanism) -> Engine<Rule> {
    Engine::new(rule, Description { places: 16, ..Description::of(sms, mechanism) }).unwrap()
}

fn dss(processes: u8) -> Rule {
    Rule::Dss(Dss { shares: Shares::Equal { processes } })
}

const SHARED: Rule = Rule::Ppq(Ppq { shared: true });
const EXCLUSIVE: Rule = Rule::Ppq(Ppq { shared: false });
const REAL_TIME: Rule = Rule::RealTime(RealTime);

/// SMs of the active kernel of each context in `0..contexts`, running or reserved.
fn sms_of(engine: &Engine<Rule>, contexts: usize) -> Vec<u32> {
    let table = engine.table();
    let of = |number| table.kernels().find(|(_, kernel)| kernel.context == context(number));
    (0..contexts)
        .map(|number| of(number).map_or(0, |(place, _)| table.running(place) + table.reserved(place)))
        .collect()
}

fn counts(engine: &Engine<Rule>) -> Vec<i32> {
    engine.table().kernels().map(|(_, kernel)| kernel.count).collect()
}

fn preemptions(engine: &Engine<Rule>, number: usize) -> u64 {
    engine.counters().of(context(number)).preemptions
}

//--- Sizes

#[test]
fn an_engine_with_all_that_it_can_hold_takes_less_than_52_kib() {
    let bytes = size_of::<Engine<Rule>>();
    println!("an engine takes {bytes} bytes");
    assert!(bytes < 52 << 10, "{bytes} bytes");
}

#[test]
fn an_engine_can_be_a_constant() {
    static ENGINE: std::sync::Mutex<Option<Engine<Rule>>> = std::sync::Mutex::new(None);
    const NEW: Result<Engine<Rule>, DescriptionError> = Engine::new(SHARED, Description::of(4, Mechanism::Switch));
    assert!(NEW.is_ok());
    *ENGINE.lock().unwrap() = NEW.ok();
}

#[test]
fn a_description_out_of_range_is_refused_by_the_number() {
    let sound = Description::of(13, Mechanism::Switch);
    let refused = |description| Engine::new(Outside, description).map(|_| ()).unwrap_err();
    assert_eq!(refused(Description { sms: 0, ..sound }), DescriptionError::Sms(0));
    assert_eq!(refused(Description { sms: 17, ..sound }), DescriptionError::Sms(17));
    assert_eq!(refused(Description { places: 0, ..sound }), DescriptionError::Places(0));
    let limits = Limits { bandwidth: 0, ..Limits::K20C };
    assert_eq!(refused(Description { limits, ..sound }), DescriptionError::Limits(limits));
}

//--- Grids

#[test]
fn a_grid_that_fits_no_sm_is_refused_by_the_first_limit_that_it_breaks() {
    let mut engine = engine(SHARED, 4, Mechanism::Switch);
    let base = Grid { blocks_per_sm: None, ..grid(1, 1) };
    let refused = [
        (Grid { blocks: 0, ..base }, GridError::NoBlocks),
        (Grid { time: 0, ..base }, GridError::NoTime),
        (Grid { time: 1 << 43, ..base }, GridError::TooLong { time: 1 << 43 }),
        (Grid { time: u64::MAX, spread: 1_000, ..base }, GridError::TooLong { time: u64::MAX }),
        (Grid { time: 3 << 41, spread: 500, ..base }, GridError::TooLong { time: 3 << 41 }),
        (Grid { spread: 1_001, ..base }, GridError::Spread { per_mille: 1_001 }),
        (Grid { registers: 65_537, ..base }, GridError::Registers { needed: 65_537, limit: 65_536 }),
        (Grid { shared: 49_153, ..base }, GridError::Shared { needed: 49_153, limit: 49_152 }),
        (Grid { threads: 2_049, ..base }, GridError::Threads { needed: 2_049, limit: 2_048 }),
        (Grid { blocks_per_sm: Some(0), ..base }, GridError::BlocksPerSm { given: 0, fitting: 16 }),
        (Grid { blocks_per_sm: Some(17), ..base }, GridError::BlocksPerSm { given: 17, fitting: 16 }),
    ];
    for (grid, error) in refused {
        assert_eq!(engine.submit(context(0), &grid, 0), Err(SubmitError::Grid(error)));
    }
    assert_eq!(engine.next(), None);
}

#[test]
fn shared_memory_is_set_to_the_smallest_size_that_lets_a_block_run() {
    let blocks =
        |shared| Limits::K20C.fit(&Grid { shared, registers: 0, blocks_per_sm: None, ..grid(1, 1) }).unwrap().blocks;
    assert_eq!([1, 8 << 10, 9 << 10, 16 << 10, (16 << 10) + 1, 48 << 10].map(blocks), [16, 2, 1, 1, 1, 1]);
}

#[test]
fn times_of_blocks_are_spread_and_add_up_to_the_mean() {
    for (blocks, time, spread) in
        [(1, 7, 900), (2, 1, 1_000), (1_000, 10_000, 500), (10_001, 333, 1_000), (4_096, 1 << 42, 999)]
    {
        let grid = Grid { spread, seed: u64::from(blocks), ..grid(blocks, time) };
        let all: Vec<u64> = (0..blocks).map(|block| grid.times().of(block)).collect();
        assert_eq!(all.iter().map(|&time| u128::from(time)).sum::<u128>(), u128::from(time) * u128::from(blocks));
        let (shortest, longest) = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
        assert!(shortest >= 1 && longest <= grid.longest());
        if blocks >= 1_000 {
            // The whole range is used, and evenly: a quarter of the blocks is off by half of the amplitude in each direction.
            let amplitude = grid.longest() - time;
            assert!(longest - time > amplitude / 100 * 97 && time - shortest > amplitude / 100 * 97);
            let far = all.iter().filter(|&&one| one > time + amplitude / 2).count();
            assert!(far.abs_diff(blocks as usize / 4) < blocks as usize / 20, "{far} of {blocks}");
        }
    }
}

#[test]
fn another_seed_gives_other_times() {
    let times = |seed| {
        (0..100).map(|block| Grid { spread: 500, seed, ..grid(100, 1_000) }.times().of(block)).collect::<Vec<_>>()
    };
    assert_ne!(times(1), times(2));
    assert_eq!(times(1), times(1));
}

//--- Sharing by tokens

#[test]
fn equal_sharing_of_13_sms_comes_to_rest_where_the_paper_says() {
    let rest: [(usize, &[u32]); 6] = [
        (1, &[13]),
        (2, &[7, 6]),
        (4, &[4, 3, 3, 3]),
        (6, &[3, 2, 2, 2, 2, 2]),
        (8, &[2, 2, 2, 2, 2, 1, 1, 1]),
        (13, &[1; 13]),
    ];
    for mechanism in [Mechanism::Switch, Mechanism::Drain, Mechanism::DrainThenSwitch { limit: 2 * US }] {
        for (processes, expected) in rest {
            let (mut engine, mut host) = (engine(dss(processes as u8), 13, mechanism), Log::default());
            for number in 0..processes {
                engine.submit(context(number), &grid(ENDLESS, 5 * US), 0).unwrap();
            }
            engine.advance(0, &mut host);
            assert_eq!(sms_of(&engine, processes), expected);
            // Each kernel comes when those before are at rest, with an equal result.
            let (mut engine, mut host) = (self::engine(dss(processes as u8), 13, mechanism), Log::default());
            for number in 0..processes {
                engine.submit(context(number), &grid(ENDLESS, 5 * US), 0).unwrap();
                engine.advance(engine.now() + MS, &mut host);
            }
            assert_eq!(sms_of(&engine, processes), expected);
            assert_eq!(counts(&engine), vec![0; processes]);
        }
    }
}

#[test]
fn a_kernel_alone_goes_into_debt_and_gives_six_sms_back_to_the_next_one() {
    let (mut engine, mut host) = (engine(dss(2), 13, Mechanism::Switch), Log::default());
    engine.submit(context(0), &grid(ENDLESS, 5 * US), 0).unwrap();
    engine.advance(US, &mut host);
    assert_eq!((sms_of(&engine, 1), counts(&engine)), (vec![13], vec![-6]));
    engine.submit(context(1), &grid(ENDLESS, 5 * US), 1).unwrap();
    engine.advance(US, &mut host);
    assert_eq!(preemptions(&engine, 1), 6);
    assert_eq!((sms_of(&engine, 2), counts(&engine)), (vec![7, 6], vec![0, 0]));
    assert_eq!(host.saved.len(), 0);
    engine.advance(5 * US, &mut host);
    assert_eq!(host.saved.len(), 6 * 4, "six SMs of four blocks are saved in 4 us");
    assert_eq!(preemptions(&engine, 1), 6);
}

#[test]
fn a_third_kernel_that_comes_during_saves_takes_over_two_of_them_and_causes_two() {
    let (mut engine, mut host) = (engine(dss(3), 13, Mechanism::Switch), Log::default());
    engine.submit(context(0), &grid(ENDLESS, 5 * US), 0).unwrap();
    engine.advance(US, &mut host);
    engine.submit(context(1), &grid(ENDLESS, 5 * US), 1).unwrap();
    engine.advance(2 * US, &mut host);
    assert_eq!((sms_of(&engine, 2), counts(&engine)), (vec![7, 6], vec![-2, -2]));
    engine.submit(context(2), &grid(ENDLESS, 5 * US), 2).unwrap();
    engine.advance(2 * US, &mut host);
    assert_eq!((sms_of(&engine, 3), counts(&engine)), (vec![5, 4, 4], vec![0, 0, 0]));
    assert_eq!([1, 2].map(|number| preemptions(&engine, number)), [6, 2]);
    engine.advance(MS, &mut host);
    assert_eq!(sms_of(&engine, 3), [5, 4, 4]);
}

#[test]
fn a_real_time_kernel_takes_what_it_has_blocks_for_and_the_rest_is_shared_by_tokens() {
    let (mut engine, mut host) = (engine(REAL_TIME, 8, Mechanism::Switch), Log::default());
    for (number, tokens) in [(0, 6), (1, 2)] {
        engine.set_tokens(context(number), tokens);
        engine.submit(context(number), &grid(ENDLESS, 5 * US), 0).unwrap();
    }
    engine.advance(MS, &mut host);
    assert_eq!(sms_of(&engine, 2), [6, 2]);
    engine.set_key(context(2), Key(1));
    engine.submit(context(2), &grid(8, 50 * US), 2).unwrap();
    engine.advance(MS + 10 * US, &mut host);
    assert_eq!(sms_of(&engine, 3), [5, 1, 2]);
    engine.advance(2 * MS, &mut host);
    assert_eq!(sms_of(&engine, 3), [6, 2, 0]);
    assert_eq!(host.ended, [(MS + 54 * US, context(2), 2, Outcome::Complete)], "a save of 4 us before 50");
}

#[test]
fn the_14th_kernel_waits_unseen_until_one_of_13_ends() {
    let description = Description::of(13, Mechanism::Switch);
    let (mut engine, mut host) = (Engine::new(REAL_TIME, description).unwrap(), Log::default());
    for number in 0..13 {
        engine.submit(context(number), &grid(if number == 5 { 4 } else { ENDLESS }, 100 * US), number as u64).unwrap();
    }
    engine.advance(0, &mut host);
    engine.set_key(context(13), Key(1));
    engine.submit(context(13), &grid(4, US), 13).unwrap();
    engine.advance(99 * US, &mut host);
    assert!(engine.is_full(context(13)), "the active queue has 13 places");
    engine.advance(101 * US, &mut host);
    assert_eq!(
        host.ended,
        [(100 * US, context(5), 5, Outcome::Complete), (101 * US, context(13), 13, Outcome::Complete)]
    );
}

#[test]
fn with_as_many_places_as_contexts_no_launch_waits_for_a_kernel_that_it_could_preempt() {
    let (mut engine, mut host) = (engine(REAL_TIME, 4, Mechanism::Switch), Log::default());
    for number in 0..15 {
        engine.submit(context(number), &grid(ENDLESS, 100 * US), number as u64).unwrap();
    }
    engine.advance(0, &mut host);
    engine.set_key(context(15), Key(1));
    engine.submit(context(15), &grid(16, US), 15).unwrap();
    engine.advance(5 * US, &mut host);
    assert_eq!(host.ended, [(5 * US, context(15), 15, Outcome::Complete)], "a save of 4 us, and a block of 1 us");
}

#[test]
fn new_tokens_move_sms_at_once() {
    let rule = Rule::Dss(Dss { shares: Shares::Given });
    let (mut engine, mut host) = (engine(rule, 12, Mechanism::Switch), Log::default());
    for number in 0..2 {
        engine.set_tokens(context(number), 6);
        engine.submit(context(number), &grid(ENDLESS, 5 * US), 0).unwrap();
    }
    engine.advance(MS, &mut host);
    assert_eq!(sms_of(&engine, 2), [6, 6]);
    engine.set_tokens(context(0), 9);
    engine.set_tokens(context(1), 3);
    engine.advance(2 * MS, &mut host);
    assert_eq!((sms_of(&engine, 2), counts(&engine)), (vec![9, 3], vec![0, 0]));
}

//--- Priorities

#[test]
fn sms_that_the_first_kernel_leaves_free_are_idle_if_exclusive_and_used_if_shared() {
    for (rule, busy) in [(EXCLUSIVE, [1, 0]), (SHARED, [1, 3])] {
        let (mut engine, mut host) = (engine(rule, 4, Mechanism::Switch), Log::default());
        engine.set_key(context(0), Key(1));
        engine.submit(context(0), &grid(4, 100 * US), 0).unwrap();
        engine.submit(context(1), &grid(ENDLESS, 5 * US), 1).unwrap();
        engine.advance(50 * US, &mut host);
        assert_eq!(sms_of(&engine, 2), busy);
        engine.advance(100 * US, &mut host);
        assert_eq!(sms_of(&engine, 2), [0, 4]);
    }
}

#[test]
fn a_kernel_takes_no_more_sms_than_it_has_blocks_for() {
    let (mut engine, mut host) = (engine(SHARED, 4, Mechanism::Switch), Log::default());
    engine.submit(context(0), &grid(ENDLESS, 5 * US), 0).unwrap();
    engine.advance(US, &mut host);
    engine.set_key(context(1), Key(1));
    engine.submit(context(1), &grid(5, 5 * US), 1).unwrap();
    engine.advance(US, &mut host);
    assert_eq!((sms_of(&engine, 2), preemptions(&engine, 1)), (vec![2, 2], 2));
}

#[test]
fn without_preemption_the_engine_belongs_to_one_context_at_a_time() {
    for (rule, order) in [(Rule::Fcfs(Fcfs), [0, 1, 2]), (Rule::Npq(Npq), [0, 2, 1])] {
        let (mut engine, mut host) = (engine(rule, 4, Mechanism::Switch), Log::default());
        engine.submit(context(0), &grid(4, 100 * US), 0).unwrap();
        engine.advance(0, &mut host);
        engine.set_key(context(2), Key(1));
        engine.submit(context(1), &grid(4, 100 * US), 1).unwrap();
        engine.submit(context(2), &grid(4, 100 * US), 2).unwrap();
        engine.advance(MS, &mut host);
        let ends: Vec<_> = host.ended.iter().map(|&(at, _, work, _)| (at, work)).collect();
        assert_eq!(ends, [(100 * US, order[0]), (200 * US, order[1]), (300 * US, order[2])]);
    }
}

#[test]
fn launches_of_one_context_run_back_to_back_on_sms_that_are_free() {
    let (mut engine, mut host) = (engine(Rule::Fcfs(Fcfs), 4, Mechanism::Switch), Log::default());
    engine.submit(context(0), &grid(4, 100 * US), 0).unwrap();
    engine.advance(0, &mut host);
    engine.submit(context(0), &grid(8, 70 * US), 1).unwrap();
    engine.advance(MS, &mut host);
    let ends: Vec<_> = host.ended.iter().map(|&(at, _, work, _)| (at, work)).collect();
    assert_eq!(ends, [(70 * US, 1), (100 * US, 0)]);
}

#[test]
fn a_command_buffer_holds_one_launch() {
    let mut engine = engine(SHARED, 4, Mechanism::Switch);
    engine.submit(context(0), &grid(4, US), 0).unwrap();
    assert_eq!(engine.submit(context(0), &grid(4, US), 1), Err(SubmitError::Full));
}

//--- Clients that go, and clients that are damaged

#[test]
fn a_removed_client_gives_everything_back_at_once() {
    for mechanism in [Mechanism::Switch, Mechanism::Drain, Mechanism::DrainThenSwitch { limit: 20 * US }] {
        let (mut engine, mut host) = (engine(SHARED, 2, mechanism), Log::default());
        engine.submit(context(0), &grid(ENDLESS, 100 * US), 0).unwrap();
        engine.advance(US, &mut host);
        engine.set_key(context(1), Key(1));
        engine.submit(context(1), &grid(ENDLESS, 50 * US), 1).unwrap();
        engine.submit(context(0), &grid(4, US), 2).unwrap();
        engine.advance(3 * US, &mut host);
        // Both SMs are being taken from context 0. It goes: they belong to context 1 at this instant.
        engine.remove(context(0));
        engine.advance(3 * US, &mut host);
        assert_eq!(sms_of(&engine, 2), [0, 2]);
        assert_eq!(engine.resident(sm(0)) + engine.resident(sm(1)), 8);
        assert!(!engine.is_busy(context(0)) && host.ended.is_empty());
        engine.remove(context(1));
        assert_eq!(engine.table().sms().filter(|&(_, state)| state == State::Idle).count(), 2);
        engine.advance(MS, &mut host);
        assert_eq!(engine.counters().idle(), 2 * (MS - 3 * US));
        assert_eq!(engine.next(), None);
    }
}

#[test]
fn what_a_removed_preemptor_has_caused_is_paid_by_nobody() {
    let (mut engine, mut host) = (engine(SHARED, 1, Mechanism::Switch), Log::default());
    engine.submit(context(0), &grid(4, 100 * US), 0).unwrap();
    engine.advance(10 * US, &mut host);
    engine.set_key(context(1), Key(1));
    engine.submit(context(1), &grid(4, 10 * US), 1).unwrap();
    engine.advance(11 * US, &mut host);
    engine.remove(context(1));
    engine.advance(MS, &mut host);
    assert_eq!(host.ended, [(108 * US, context(0), 0, Outcome::Complete)]);
    assert_eq!(engine.counters().of(context(1)).sm_time(), US);
    assert_eq!([engine.counters().nobody().saving, engine.counters().nobody().restoring], [3 * US, 4 * US]);
}

#[test]
fn a_damaged_record_ends_its_own_kernel_and_no_other() {
    for (spoilt, outcome) in [
        (Spoilt::Save(2), Outcome::NotSaved { block: 2 }),
        (Spoilt::Restore(1), Outcome::Damaged { block: 1 }),
        (Spoilt::Block(3), Outcome::BlockFailed { block: 3 }),
    ] {
        let (mut engine, mut host) =
            (engine(SHARED, 1, Mechanism::Switch), Log { spoilt: Some((0, spoilt)), ..Log::default() });
        engine.submit(context(0), &grid(ENDLESS, 100 * US), 0).unwrap();
        engine.submit(context(2), &grid(4, 100 * US), 2).unwrap();
        engine.advance(10 * US, &mut host);
        engine.set_key(context(1), Key(1));
        engine.submit(context(1), &grid(4, 10 * US), 1).unwrap();
        engine.advance(MS, &mut host);
        let mut ended: Vec<_> = host.ended.iter().map(|&(_, _, work, outcome)| (work, outcome)).collect();
        ended.sort_by_key(|&(work, _)| work);
        assert_eq!(ended, [(0, outcome), (1, Outcome::Complete), (2, Outcome::Complete)]);
    }
}

//--- A policy elsewhere

#[test]
fn decisions_that_are_not_possible_are_refused_and_change_nothing() {
    let (mut engine, mut host) = (engine(Rule::Outside(Outside), 2, Mechanism::Switch), Log::default());
    let place = |number| Place::new(number).unwrap();
    for number in 0..2 {
        engine.submit(context(number), &grid(4, 10 * US), number as u64).unwrap();
    }
    engine.advance(0, &mut host);
    let mut refused = |decision, error| {
        let before = engine.table().clone();
        assert_eq!(engine.carry_out(decision, &mut host), Err(error), "{decision:?}");
        assert_eq!(*engine.table(), before);
    };
    refused(Decision::Assign { sm: sm(2), kernel: place(0) }, Refused::NoSuchSm);
    refused(Decision::Assign { sm: sm(0), kernel: place(2) }, Refused::NoSuchKernel);
    refused(Decision::Reserve { sm: sm(0), next: place(0) }, Refused::WrongState(State::Idle));
    engine.carry_out(Decision::Assign { sm: sm(0), kernel: place(0) }, &mut host).unwrap();
    let mut refused = |decision, error| assert_eq!(engine.carry_out(decision, &mut host), Err(error), "{decision:?}");
    refused(Decision::Assign { sm: sm(1), kernel: place(0) }, Refused::NothingToIssue);
    refused(Decision::Assign { sm: sm(0), kernel: place(1) }, Refused::WrongState(State::Running(place(0))));
    engine.carry_out(Decision::Reserve { sm: sm(0), next: place(1) }, &mut host).unwrap();
    let mut refused = |decision, error| assert_eq!(engine.carry_out(decision, &mut host), Err(error), "{decision:?}");
    refused(Decision::Retarget { sm: sm(0), next: place(1) }, Refused::SameKernel);
}

//--- To the end of a kernel

#[test]
fn an_engine_that_is_advanced_to_an_end_stops_there_and_not_before_and_knows_the_next() {
    let (mut engine, mut host) = (engine(EXCLUSIVE, 4, Mechanism::Switch), Log::default());
    engine.submit(context(0), &grid(40, 5 * US), 0).unwrap();
    engine.submit(context(1), &grid(16, 5 * US), 1).unwrap();
    let mut ends = Vec::new();
    while engine.next().is_some() {
        engine.advance_to_an_end(MS, &mut host);
        ends.push((engine.now(), host.ended.len()));
    }
    // 40 blocks take three rounds of 16 places; in the third, two SMs are free for the other kernel, whose keys are equal.
    assert_eq!(ends, [(15 * US, 1), (20 * US, 2)]);
    engine.advance_to_an_end(30 * US, &mut host);
    assert_eq!(engine.now(), 30 * US);
}

//--- A policy in a driver

/// The driver's knowledge of the table after its own decision.
fn follow(table: &mut Table, decision: Decision) {
    let count = |table: &mut Table, place: Option<Place>, tokens: i32, blocks: bool| {
        let Some((place, mut kernel)) = place.and_then(|place| Some((place, *table.kernel(place)?))) else { return };
        kernel.count += tokens;
        kernel.issuable -= if blocks { kernel.issuable.min(kernel.capacity.into()) } else { 0 };
        table.set_kernel(place, Some(kernel));
    };
    match (decision, decision_state(table, decision)) {
        (Decision::Assign { sm, kernel }, _) => {
            count(table, Some(kernel), -1, true);
            table.set_state(sm, State::Running(kernel));
        }
        (Decision::Reserve { sm, next }, State::Running(victim)) => {
            count(table, Some(victim), 1, false);
            count(table, Some(next), -1, false);
            table.set_state(sm, State::Reserved { victim: Some(victim), next: Some(next) });
        }
        (Decision::Retarget { sm, next: to }, State::Reserved { victim, next }) => {
            count(table, next, 1, false);
            count(table, Some(to), -1, false);
            let stays = victim == Some(to);
            table.set_state(sm, if stays { State::Running(to) } else { State::Reserved { victim, next: Some(to) } });
        }
        (decision, state) => panic!("{decision:?} of an SM that is {state:?}"),
    }
}

fn decision_state(table: &Table, decision: Decision) -> State {
    let (Decision::Assign { sm, .. } | Decision::Reserve { sm, .. } | Decision::Retarget { sm, .. }) = decision;
    table.state(sm)
}

/// The time from its launch until the last of the first blocks of a kernel begins that takes all four SMs from another, for
/// launches at these instants; the policy is in the device, or in a driver that gets each change, and is answered, so many
/// nanoseconds later.
fn waits(launches: &[u64], message: Option<u64>) -> Vec<u64> {
    let description = Description::of(4, Mechanism::Switch);
    let (low, high) = (context(1), context(2));
    let grid = |blocks, time| Grid { blocks, ..grid(1, time) };
    let mut host = Log::default();
    let mut found = Vec::new();
    let mut inside = Engine::new(RealTime, description).unwrap();
    let mut outside = Engine::new(Outside, description).unwrap();
    inside.set_key(high, Key(1));
    outside.set_key(high, Key(1));
    inside.submit(low, &grid(10_000, 300 * US), 0).unwrap();
    outside.submit(low, &grid(10_000, 300 * US), 0).unwrap();
    // The message to the driver that it has not yet answered, and its answers, each with its instant.
    let (mut told, mut answers): (Option<u64>, Vec<(u64, Decision)>) = (None, Vec::new());
    let mut advance = |outside: &mut Engine<Outside>, host: &mut Log, message: u64, until: u64| loop {
        let answer = answers.iter().map(|(at, _)| *at).min();
        let next = [outside.next(), told, answer].into_iter().flatten().filter(|at| *at <= until).min();
        let now = next.unwrap_or(until);
        outside.advance(now, host);
        if told == Some(now) {
            told = None;
            // The driver sees the present state, and decides until nothing is left.
            let mut seen = outside.table().clone();
            while let Some(decision) = RealTime.decide(&seen) {
                follow(&mut seen, decision);
                answers.push((now + message, decision));
            }
        }
        let due: Vec<Decision> = answers.extract_if(.., |(at, _)| *at <= now).map(|(_, decision)| decision).collect();
        for decision in due {
            // A decision that is no longer possible is refused, and made anew.
            let _ = outside.carry_out(decision, host);
        }
        outside.advance(now, host);
        if outside.was_asked() && told.is_none() && answers.is_empty() {
            told = Some(now + message);
        }
        if next.is_none() {
            return;
        }
    };
    for (work, launch) in launches.iter().enumerate() {
        host.begun.clear();
        let end = launch + 400 * US;
        match message {
            None => {
                inside.advance(*launch, &mut host);
                inside.submit(high, &grid(4, 50 * US), work as u64).unwrap();
                inside.advance(end, &mut host);
            }
            Some(message) => {
                advance(&mut outside, &mut host, message, *launch);
                outside.submit(high, &grid(4, 50 * US), work as u64).unwrap();
                advance(&mut outside, &mut host, message, end);
            }
        }
        let begun: Vec<u64> = host.begun.iter().filter(|(_, of)| *of == high).map(|(now, _)| *now).collect();
        assert_eq!(begun.len(), 4, "{work}");
        found.push(begun.iter().max().unwrap() - launch);
    }
    found
}

/// In the device each preemption takes a save. Where the policy is in the driver it takes two messages more: that of the launch to
/// the driver, and that of the driver's decision.
#[test]
fn a_policy_in_a_driver_takes_sms_later_by_two_messages() {
    let launches: Vec<u64> = (1..200).map(|number| number * 1_000 * US + number * 7_919 % (300 * US)).collect();
    let inside = waits(&launches, None);
    // A restore and a save, or less where a block has just ended.
    assert!(inside.iter().all(|wait| *wait <= 8 * US), "{:?}", inside.iter().max());
    assert_eq!(waits(&launches, Some(0)), inside);
    for message in [US, 5 * US, 20 * US] {
        let outside = waits(&launches, Some(message));
        let added: Vec<u64> = outside.iter().zip(&inside).map(|(outside, inside)| outside - inside).collect();
        let mean = added.iter().sum::<u64>() / added.len() as u64;
        // Meanwhile another block may have begun where one had just ended, and has to be saved.
        assert!(added.iter().all(|added| *added <= 2 * message + 4 * US), "{message}: {added:?}");
        assert!((2 * message..2 * message + US).contains(&mean), "{message}: {mean}");
    }
}

//! Random histories: launches, keys that rise and fall, tokens that change, clients that are removed, blocks that are spoilt.
//!
//! Each instant of each history is checked against the guarantees of the crate. Some histories also run on a model that steps every
//! nanosecond, and some on an engine whose policy is elsewhere.

mod chance;
mod model;
mod watch;

use chance::{Chance, Setting, Step, setting, step};
use fusee_spatial::*;
use model::{Model, Spent};
use watch::{Told, Watch};

const HISTORIES: u64 = 100_000;
const MODELLED: u64 = 30_000;
const ELSEWHERE: u64 = 10_000;

//--- An engine that is watched

/// The kernel with the smallest key of all, and since when it has been that and had blocks to issue.
#[derive(Clone, Copy)]
struct First {
    arrival: u64,
    since: u64,
}

struct World {
    setting: Setting,
    engine: Engine<Rule>,
    watch: Watch,
    first: Option<First>,
    /// The longest save, and the longest block, of all grids so far.
    longest_save: u64,
    longest_block: u64,
    tokens: [u16; CONTEXTS],
    /// Nanoseconds of all blocks that were launched, of each context.
    launched: [u64; CONTEXTS],
    /// The longest wait of the first kernel, in parts of the bound: for the report.
    tightest: f64,
}

impl World {
    fn new(setting: Setting) -> World {
        World {
            setting,
            engine: Engine::new(setting.rule, setting.description).unwrap(),
            watch: Watch::new(setting.spoilt_in),
            first: None,
            longest_save: 0,
            longest_block: 0,
            tokens: [1; CONTEXTS],
            launched: [0; CONTEXTS],
            tightest: 0.0,
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Submit { context, grid, work } => {
                let is_full = self.engine.is_full(context);
                let submitted = self.engine.submit(context, &grid, work);
                assert_eq!(submitted, if is_full { Err(SubmitError::Full) } else { Ok(()) });
                if !is_full {
                    self.watch.launch(context, work, &grid, self.setting.slots(&grid));
                    let limits = &self.setting.description.limits;
                    self.longest_save = self.longest_save.max(limits.fit(&grid).unwrap().save_time(limits));
                    self.longest_block = self.longest_block.max(grid.longest());
                    self.launched[context.index()] += u64::from(grid.blocks) * grid.time;
                }
            }
            Step::Key { context, key } => self.engine.set_key(context, key),
            Step::Tokens { context, tokens } => {
                self.engine.set_tokens(context, tokens);
                self.tokens[context.index()] = tokens;
            }
            Step::Remove { context } => {
                self.engine.remove(context);
                self.watch.remove(context);
                assert!(!self.engine.is_busy(context));
            }
            Step::Advance { nanoseconds } => self.advance(self.engine.now() + nanoseconds),
        }
    }

    /// Goes from instant to instant, and checks each.
    fn advance(&mut self, until: u64) {
        while let Some(next) = self.engine.next().filter(|&next| next <= until) {
            self.engine.advance(next, &mut self.watch);
            self.check();
        }
        self.engine.advance(until, &mut self.watch);
        self.check();
    }

    fn check(&mut self) {
        let (engine, table, now) = (&self.engine, self.engine.table(), self.engine.now());
        assert!(engine.next().is_none_or(|next| next > now), "all that is due at an instant is done");

        // Conservation of tokens and of time.
        for (place, kernel) in table.kernels() {
            let held = (table.running(place) + table.reserved(place)) as i32;
            assert_eq!(kernel.count + held, kernel.budget);
            if !matches!(self.setting.rule, Rule::Dss(Dss { shares: Shares::Equal { .. } })) {
                assert_eq!(kernel.budget, i32::from(self.tokens[kernel.context.index()]));
            }
            let on_sms = |state| matches!(state, State::Running(one) | State::Reserved { victim: Some(one), .. } if one == place);
            let resident: u32 =
                table.sms().filter(|&(_, state)| on_sms(state)).map(|(sm, _)| u32::from(engine.resident(sm))).sum();
            let most = u32::from(kernel.capacity) * u32::from(self.setting.description.sms);
            assert!(resident + engine.preempted(place) <= most);
        }
        assert_eq!(engine.counters().sm_time(), now * u64::from(self.setting.description.sms));

        // SMs.
        for (sm, state) in table.sms() {
            match state {
                State::Idle => assert_eq!(engine.resident(sm), 0),
                State::Running(_) | State::Reserved { .. } => assert!(engine.resident(sm) > 0),
            }
        }

        // No SM is idle, and no place is free, beside a kernel that could use it.
        let has_issuable = |kernel: &Active| kernel.issuable > 0;
        if table.idle().is_some() {
            let smallest = table.kernels().map(|(_, kernel)| kernel.key).min();
            let is_exclusive = self.setting.rule == Rule::Ppq(Ppq { shared: false });
            let may_have_it = |kernel: &Active| !is_exclusive || Some(kernel.key) == smallest;
            assert!(!table.kernels().any(|(_, kernel)| has_issuable(kernel) && may_have_it(kernel)));
        }
        let has_room = table.kernels().count() < usize::from(self.setting.description.places);
        if has_room && !matches!(self.setting.rule, Rule::Fcfs(_) | Rule::Npq(_)) {
            let has_active = |context| table.kernels().any(|(_, kernel)| kernel.context == context);
            assert!(table.waiting().all(|waits| has_active(waits.context)));
        }
        self.check_first();
    }

    /// The kernel with the smallest key does not wait for others longer than the mechanism's bound.
    fn check_first(&mut self) {
        let (table, now) = (self.engine.table(), self.engine.now());
        let is_by_keys = match self.setting.rule {
            Rule::Ppq(_) => true,
            Rule::RealTime(_) => table.kernels().any(|(_, kernel)| kernel.key.is_real_time()),
            _ => false,
        };
        let smallest = table.kernels().map(|(_, kernel)| kernel.key).min();
        let mut firsts = table.kernels().filter(|(_, kernel)| is_by_keys && Some(kernel.key) == smallest);
        let (first, tie) = (firsts.next(), firsts.next());
        let Some((place, kernel)) = first.filter(|(_, kernel)| tie.is_none() && kernel.issuable > 0) else {
            self.first = None;
            return;
        };
        let since = self.first.filter(|first| first.arrival == kernel.arrival).map_or(now, |first| first.since);
        self.first = Some(First { arrival: kernel.arrival, since });
        let bound = self.setting.description.mechanism.delay(self.longest_save, self.longest_block);
        if table.sms().any(|(_, state)| state != State::Running(place)) {
            assert!(now - since <= bound, "waited for {} ns, bound {bound} ns", now - since);
            if bound > 0 {
                self.tightest = self.tightest.max((now - since) as f64 / bound as f64);
            }
        }
    }

    fn run_to_the_end(&mut self) {
        while let Some(next) = self.engine.next() {
            self.advance(next);
        }
        assert!(self.watch.is_done(), "every launch ends");
        assert!(Context::all().all(|context| !self.engine.is_busy(context)));
    }
}

#[test]
fn what_the_engine_promises_holds_at_each_instant_of_100_000_histories() {
    let (mut preemptions, mut resumed, mut ended, mut exact, mut tightest) = (0, 0, 0, 0, [0.0_f64; 3]);
    for seed in 1..=HISTORIES {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut world = World::new(setting(&mut chance));
        for work in 0..20 + chance.below(60) {
            world.take(&step(&mut chance, &world.setting, work));
        }
        world.run_to_the_end();
        let counters = world.engine.counters();
        preemptions += Context::all().map(|context| counters.of(context).preemptions).sum::<u64>();
        resumed += world.watch.resumed;
        ended += world.watch.told.iter().filter(|(_, told)| matches!(told, Told::Complete { .. })).count();
        let of_mechanism = match world.setting.description.mechanism {
            Mechanism::Switch => 0,
            Mechanism::Drain => 1,
            Mechanism::DrainThenSwitch { .. } => 2,
        };
        tightest[of_mechanism] = tightest[of_mechanism].max(world.tightest);
        if world.setting.single && !world.setting.removes && world.setting.spoilt_in == 0 {
            // With one block on an SM, a context has exactly the time of its blocks, for any preemptions.
            for context in Context::all() {
                assert_eq!(counters.of(context).running, world.launched[context.index()], "history {seed}");
            }
            exact += 1;
        }
    }
    println!(
        "{HISTORIES} histories: {ended} kernels, {preemptions} preemptions, {resumed} blocks resumed, {exact} exact"
    );
    println!("longest waits in parts of the bound: switch, drain, both {tightest:.2?}");
    assert!(preemptions > HISTORIES && resumed > HISTORIES && exact > HISTORIES / 20);
    // A bound without the restore would be half as long.
    assert!(tightest.into_iter().all(|part| part > 0.8));
}

//--- The model

fn sorted(mut told: Vec<(u64, Told)>) -> Vec<(u64, Told)> {
    told.sort();
    told
}

#[test]
fn a_model_that_steps_every_nanosecond_agrees() {
    for seed in 1..=MODELLED {
        let mut chance = Chance(seed.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let setting = setting(&mut chance);
        let (mut world, mut model) = (World::new(setting), Model::new(setting));
        let mut steps = Vec::new();
        for work in 0..10 + chance.below(40) {
            steps.push(step(&mut chance, &setting, work));
        }
        steps.push(Step::Advance { nanoseconds: 300 });
        for step in &steps {
            world.take(step);
            model.take(step);
            if !matches!(step, Step::Advance { .. }) {
                continue;
            }
            let counters = world.engine.counters();
            let spent = |usage: &Usage| {
                let Usage { running, saving, restoring, occupied, .. } = *usage;
                Spent { running, saving, restoring, occupied }
            };
            let all = Context::all().map(|context| counters.of(context)).chain([counters.nobody()]);
            let all: Vec<Spent> = all.map(spent).collect();
            let (told, expected) = (sorted(world.watch.told.clone()), sorted(model.told.clone()));
            if told != expected || all != model.spent || counters.idle() != model.idle {
                let differs = told.iter().zip(&expected).position(|(one, other)| one != other);
                let from = differs.unwrap_or(told.len().min(expected.len()));
                panic!(
                    "history {seed}: {setting:?}\n{steps:?}\nthe engine: {:?}\nthe model: {:?}\n{:?}\n{:?}",
                    &told[from..told.len().min(from + 8)],
                    &expected[from..expected.len().min(from + 8)],
                    all,
                    model.spent,
                );
            }
        }
    }
}

//--- A policy elsewhere

/// A table as a driver makes it from its messages.
fn copied(table: &Table) -> Table {
    let mut copy = Table::new(table.sms().count() as u8);
    table.sms().for_each(|(sm, state)| copy.set_state(sm, state));
    table.kernels().for_each(|(place, kernel)| copy.set_kernel(place, Some(*kernel)));
    table.waiting().for_each(|waits| copy.set_waiting(waits.context, Some(*waits)));
    assert_eq!(copy, *table);
    copy
}

#[test]
fn a_policy_elsewhere_whose_messages_take_no_time_makes_the_same_assignments() {
    let rules = [
        Rule::Ppq(Ppq { shared: false }),
        Rule::Ppq(Ppq { shared: true }),
        Rule::Dss(Dss { shares: Shares::Given }),
        Rule::RealTime(RealTime),
    ];
    for seed in 1..=ELSEWHERE {
        let mut chance = Chance(seed.wrapping_mul(0xa076_1d64_78bd_642f));
        let mut setting = setting(&mut chance);
        setting.rule = chance.one_of(&rules);
        setting.description.places = 16;
        let mut inside = World::new(setting);
        let mut engine = Engine::new(Outside, setting.description).unwrap();
        let mut watch = Watch::new(setting.spoilt_in);
        let settle = |engine: &mut Engine<Outside>, watch: &mut Watch, until: u64| {
            let mut target = engine.now();
            loop {
                engine.advance(target, watch);
                while engine.was_asked() {
                    while let Some(decision) = setting.rule.decide(&copied(engine.table())) {
                        engine.carry_out(decision, watch).unwrap();
                    }
                    engine.advance(target, watch);
                }
                match engine.next().filter(|&next| next <= until) {
                    Some(next) => target = next,
                    None if target == until => return,
                    None => target = until,
                }
            }
        };
        for work in 0..10 + chance.below(40) {
            let step = step(&mut chance, &setting, work);
            inside.take(&step);
            match step {
                Step::Submit { context, grid, work } => {
                    if engine.submit(context, &grid, work).is_ok() {
                        watch.launch(context, work, &grid, setting.slots(&grid));
                    }
                }
                Step::Key { context, key } => engine.set_key(context, key),
                Step::Tokens { context, tokens } => engine.set_tokens(context, tokens),
                Step::Remove { context } => {
                    engine.remove(context);
                    watch.remove(context);
                }
                Step::Advance { .. } => settle(&mut engine, &mut watch, inside.engine.now()),
            }
        }
        assert_eq!(sorted(watch.told), sorted(inside.watch.told), "history {seed}");
        assert_eq!(engine.counters(), inside.engine.counters(), "history {seed}");
    }
}

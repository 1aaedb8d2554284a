//! A small generator of random numbers, and random histories made with it.

use fusee_spatial::*;

/// xorshift64*.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// Something that is asked of an engine, all at the instant of the last advance.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Submit {
        context: Context,
        grid: Grid,
        work: u64,
    },
    Key {
        context: Context,
        key: Key,
    },
    Tokens {
        context: Context,
        tokens: u16,
    },
    Remove {
        context: Context,
    },
    /// Time passes.
    Advance {
        nanoseconds: u64,
    },
}

/// The setting of one history.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub rule: Rule,
    pub description: Description,
    pub contexts: u64,
    /// Clients are removed.
    pub removes: bool,
    /// One block in so many is spoilt, in one of the three ways. 0: none.
    pub spoilt_in: u64,
    /// An SM holds one block of any grid.
    pub single: bool,
}

impl Setting {
    /// The number of blocks of a grid that fit on all SMs.
    pub fn slots(&self, grid: &Grid) -> u16 {
        let fit = self.description.limits.fit(grid).expect("random grids fit");
        u16::from(fit.blocks) * u16::from(self.description.sms)
    }
}

pub const POLICIES: [Rule; 7] = [
    Rule::Fcfs(Fcfs),
    Rule::Npq(Npq),
    Rule::Ppq(Ppq { shared: false }),
    Rule::Ppq(Ppq { shared: true }),
    Rule::Dss(Dss { shares: Shares::Given }),
    Rule::Dss(Dss { shares: Shares::Equal { processes: 3 } }),
    Rule::RealTime(RealTime),
];

pub fn setting(chance: &mut Chance) -> Setting {
    let limit = chance.below(40);
    let mechanism = chance.one_of(&[Mechanism::Switch, Mechanism::Drain, Mechanism::DrainThenSwitch { limit }]);
    let sms = if chance.once_in(8) { 1 + chance.below(16) as u8 } else { 1 + chance.below(4) as u8 };
    let contexts = 2 + chance.below(5);
    // Bytes per nanosecond are 1 to 16, so that a save takes 0 to 80 ns.
    let limits = Limits { bandwidth: 1_000_000_000 * chance.one_of(&[1, 3, 16]), ..Limits::K20C };
    let places = if chance.once_in(4) { 1 + chance.below(3) as u8 } else { 16 };
    Setting {
        rule: chance.one_of(&POLICIES),
        description: Description { sms, places, limits, mechanism },
        contexts,
        removes: chance.once_in(2),
        spoilt_in: if chance.once_in(4) { 60 } else { 0 },
        single: chance.once_in(4),
    }
}

pub fn step(chance: &mut Chance, setting: &Setting, work: u64) -> Step {
    let context = Context::new(chance.below(setting.contexts) as usize).unwrap();
    match chance.below(16) {
        0..=4 => Step::Submit { context, grid: grid(chance, setting), work },
        5 | 6 => {
            let real_time = Key(chance.below(6));
            let key = chance.one_of(&[real_time, real_time, Key::BEST_EFFORT, Key::EXHAUSTED]);
            Step::Key { context, key }
        }
        7 => Step::Tokens { context, tokens: chance.below(6) as u16 },
        8 if setting.removes => Step::Remove { context },
        _ => Step::Advance { nanoseconds: chance.below(50) },
    }
}

fn grid(chance: &mut Chance, setting: &Setting) -> Grid {
    let blocks_per_sm = if setting.single { 1 } else { 1 + chance.below(4) as u8 };
    Grid {
        blocks: 1 + chance.below(24) as u32,
        time: 1 + chance.below(60),
        spread: chance.one_of(&[0, 300, 1_000]),
        seed: chance.below(1_000),
        registers: chance.below(4) as u32,
        shared: chance.below(9) as u32,
        threads: 0,
        blocks_per_sm: Some(blocks_per_sm),
    }
}

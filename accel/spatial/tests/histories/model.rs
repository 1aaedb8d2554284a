//! The engine, written once more: slowly. It looks at every SM in every nanosecond, and counts the remaining time of each block.

use std::cmp::Reverse;

use fusee_spatial::*;

use crate::chance::{Setting, Step};
use crate::watch::{Told, Way, is_spoilt};

const NOBODY: usize = CONTEXTS;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Fresh,
    /// Preempted: the ticket has the order of preemptions.
    Queued {
        ticket: u64,
        payer: usize,
    },
    On {
        sm: usize,
        slot: usize,
    },
    Done,
}

struct Block {
    left: u64,
    at: Where,
}

struct Kernel {
    id: u64,
    context: usize,
    work: u64,
    budget: i64,
    per_sm: usize,
    bytes: u64,
    blocks: Vec<Block>,
    failed: Option<Outcome>,
}

enum Busy {
    No,
    Saving {
        left: u64,
    },
    /// The payer of each nanosecond to come, the last one first.
    Restoring(Vec<usize>),
}

struct Unit {
    /// The kernel that the SM is set to.
    kernel: Option<u64>,
    is_reserved: bool,
    next: Option<u64>,
    causer: usize,
    /// Nanoseconds until the blocks are saved.
    patience: Option<u64>,
    busy: Busy,
    look: bool,
}

struct Launch {
    id: u64,
    work: u64,
    grid: Grid,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Spent {
    pub running: u64,
    pub saving: u64,
    pub restoring: u64,
    pub occupied: u64,
}

pub struct Model {
    setting: Setting,
    now: u64,
    ids: u64,
    tickets: u64,
    asks: bool,
    units: Vec<Unit>,
    kernels: Vec<Kernel>,
    launches: Vec<Option<Launch>>,
    keys: Vec<Key>,
    tokens: Vec<u16>,
    pub spent: Vec<Spent>,
    pub idle: u64,
    pub told: Vec<(u64, Told)>,
}

fn free_unit() -> Unit {
    Unit { kernel: None, is_reserved: false, next: None, causer: NOBODY, patience: None, busy: Busy::No, look: false }
}

impl Kernel {
    fn issuable(&self) -> usize {
        let counts = |block: &&Block| matches!(block.at, Where::Fresh | Where::Queued { .. });
        if self.failed.is_some() { 0 } else { self.blocks.iter().filter(counts).count() }
    }

    fn on(&self, sm: usize) -> usize {
        self.blocks.iter().filter(|block| matches!(block.at, Where::On { sm: on, .. } if on == sm)).count()
    }
}

impl Model {
    pub fn new(setting: Setting) -> Model {
        Model {
            setting,
            now: 0,
            ids: 0,
            tickets: 0,
            asks: false,
            units: (0..setting.description.sms).map(|_| free_unit()).collect(),
            kernels: Vec::new(),
            launches: (0..CONTEXTS).map(|_| None).collect(),
            keys: vec![Key::BEST_EFFORT; CONTEXTS],
            tokens: vec![1; CONTEXTS],
            spent: vec![Spent::default(); CONTEXTS + 1],
            idle: 0,
            told: Vec::new(),
        }
    }

    pub fn take(&mut self, step: &Step) {
        match *step {
            Step::Submit { context, grid, work } => {
                if self.launches[context.index()].is_some() {
                    return;
                }
                self.launches[context.index()] = Some(Launch { id: self.ids, work, grid });
                self.ids += 1;
            }
            Step::Key { context, key } => {
                if std::mem::replace(&mut self.keys[context.index()], key) == key {
                    return;
                }
            }
            Step::Tokens { context, tokens } => {
                self.tokens[context.index()] = tokens;
                if !matches!(self.setting.rule, Rule::Dss(Dss { shares: Shares::Equal { .. } })) {
                    let of = self.kernels.iter_mut().filter(|kernel| kernel.context == context.index());
                    of.for_each(|kernel| kernel.budget = i64::from(tokens));
                }
            }
            Step::Remove { context } => self.remove(context.index()),
            Step::Advance { nanoseconds } => {
                self.instant();
                for _ in 0..nanoseconds {
                    self.pass_a_nanosecond();
                    self.instant();
                }
                return;
            }
        }
        self.asks = true;
    }

    //--- Time

    fn pass_a_nanosecond(&mut self) {
        self.now += 1;
        let mut occupants = vec![false; self.spent.len()];
        for (sm, unit) in self.units.iter_mut().enumerate() {
            let Some(kernel) = unit.kernel else {
                self.idle += 1;
                continue;
            };
            if let Some(patience) = &mut unit.patience {
                *patience = patience.saturating_sub(1);
            }
            match &mut unit.busy {
                Busy::Saving { left } => {
                    *left -= 1;
                    self.spent[unit.causer].saving += 1;
                    occupants[unit.causer] = true;
                }
                Busy::Restoring(payers) => self.spent[payers.pop().unwrap()].restoring += 1,
                Busy::No => {
                    let kernel = self.kernels.iter_mut().find(|one| one.id == kernel).unwrap();
                    self.spent[kernel.context].running += 1;
                    occupants[kernel.context] = true;
                    for block in &mut kernel.blocks {
                        if matches!(block.at, Where::On { sm: on, .. } if on == sm) {
                            block.left -= 1;
                        }
                    }
                }
            }
        }
        for (spent, occupies) in self.spent.iter_mut().zip(occupants) {
            spent.occupied += u64::from(occupies);
        }
    }

    fn instant(&mut self) {
        loop {
            let mut has_changed = false;
            for sm in 0..self.units.len() {
                if self.is_due(sm) {
                    self.look_at(sm);
                    has_changed = true;
                }
            }
            let is_over =
                |kernel: &Kernel| kernel.failed.is_some() || kernel.blocks.iter().all(|block| block.at == Where::Done);
            while let Some(over) = self.kernels.iter().position(is_over) {
                let Kernel { id, context, work, failed, .. } = self.kernels[over];
                self.forget(id);
                self.tell(Told::ended(context, work, failed.unwrap_or(Outcome::Complete)));
                has_changed = true;
            }
            if !has_changed {
                if !std::mem::take(&mut self.asks) {
                    return;
                }
                self.ask();
            }
        }
    }

    //--- One SM

    fn is_due(&self, sm: usize) -> bool {
        let unit = &self.units[sm];
        match &unit.busy {
            Busy::Saving { left } => *left == 0,
            Busy::Restoring(payers) => payers.is_empty(),
            Busy::No => {
                let Some(kernel) = self.kernels.iter().find(|kernel| Some(kernel.id) == unit.kernel) else {
                    return false;
                };
                let ended = |block: &Block| block.left == 0 && matches!(block.at, Where::On { sm: on, .. } if on == sm);
                unit.look || unit.patience == Some(0) || kernel.blocks.iter().any(ended)
            }
        }
    }

    fn look_at(&mut self, sm: usize) {
        self.units[sm].look = false;
        match std::mem::replace(&mut self.units[sm].busy, Busy::No) {
            Busy::Saving { .. } => {
                self.put_away(sm);
                self.leave(sm);
                self.asks = true;
            }
            Busy::Restoring(_) | Busy::No => self.run(sm),
        }
    }

    fn run(&mut self, sm: usize) {
        let id = self.units[sm].kernel.unwrap();
        let kernel = self.kernel(id);
        for block in &mut kernel.blocks {
            if block.left == 0 && matches!(block.at, Where::On { sm: on, .. } if on == sm) {
                block.at = Where::Done;
            }
        }
        if !self.units[sm].is_reserved {
            self.fill(sm, id);
        }
        if matches!(self.units[sm].busy, Busy::Restoring(_)) {
            return;
        }
        let (on, bytes) = (self.kernel(id).on(sm), self.kernel(id).bytes);
        if on == 0 {
            self.leave(sm);
        } else if self.units[sm].patience == Some(0) {
            let left = self.transfer(on as u64 * bytes);
            self.units[sm].busy = Busy::Saving { left };
        }
    }

    fn fill(&mut self, sm: usize, id: u64) {
        let spoilt_in = self.setting.spoilt_in;
        let mut payers = Vec::new();
        let bytes = self.kernel(id).bytes;
        loop {
            let kernel = self.kernel(id);
            let is_taken = |slot: usize| kernel.blocks.iter().any(|block| block.at == Where::On { sm, slot });
            let Some(slot) = (0..kernel.per_sm).find(|&slot| !is_taken(slot)) else { break };
            if kernel.failed.is_some() {
                break;
            }
            let queued = kernel.blocks.iter().enumerate().filter_map(|(number, block)| match block.at {
                Where::Queued { ticket, payer } => Some((ticket, number, payer)),
                _ => None,
            });
            let (context, work) = (kernel.context, kernel.work);
            if let Some((_, number, payer)) = queued.min() {
                let block = number as u32;
                let remaining = kernel.blocks[number].left;
                kernel.blocks[number].at = Where::On { sm, slot };
                payers.push(payer);
                if is_spoilt(spoilt_in, Way::Restore, work, block) {
                    kernel.failed = Some(Outcome::Damaged { block });
                    kernel.blocks[number].at = Where::Done;
                    payers.pop();
                }
                self.tell(Told::Restored { context, work, block, remaining });
            } else if let Some(number) = kernel.blocks.iter().position(|block| block.at == Where::Fresh) {
                let block = number as u32;
                kernel.blocks[number].at = Where::On { sm, slot };
                if is_spoilt(spoilt_in, Way::Block, work, block) {
                    kernel.failed = Some(Outcome::BlockFailed { block });
                    kernel.blocks[number].at = Where::Done;
                }
                self.tell(Told::Block { context, work, block });
            } else {
                break;
            }
        }
        if !payers.is_empty() {
            // Each nanosecond belongs to the block whose bytes are moved in it.
            let mut each = Vec::new();
            for (number, payer) in (1..).zip(payers) {
                each.resize(self.transfer(number * bytes) as usize, payer);
            }
            each.reverse();
            self.units[sm].busy = Busy::Restoring(each);
        }
    }

    fn put_away(&mut self, sm: usize) {
        let (Some(id), causer) = (self.units[sm].kernel, self.units[sm].causer) else { return };
        if !self.kernels.iter().any(|kernel| kernel.id == id) {
            return;
        }
        for slot in 0..16 {
            let ticket = self.tickets;
            self.tickets += 1;
            let spoilt_in = self.setting.spoilt_in;
            let kernel = self.kernel(id);
            let Some(number) = kernel.blocks.iter().position(|block| block.at == Where::On { sm, slot }) else {
                continue;
            };
            kernel.blocks[number].at = Where::Queued { ticket, payer: causer };
            let (context, work, block, remaining) =
                (kernel.context, kernel.work, number as u32, kernel.blocks[number].left);
            if kernel.failed.is_none() {
                if is_spoilt(spoilt_in, Way::Save, work, block) {
                    kernel.failed = Some(Outcome::NotSaved { block });
                }
                self.tell(Told::Saved { context, work, block, remaining });
            }
        }
    }

    /// Empties an SM.
    fn leave(&mut self, sm: usize) {
        let unit = std::mem::replace(&mut self.units[sm], free_unit());
        let next = unit.next.filter(|&next| self.kernel(next).issuable() > 0);
        match next {
            Some(next) if unit.is_reserved => self.set_up(sm, next),
            _ => self.asks = true,
        }
    }

    fn set_up(&mut self, sm: usize, id: u64) {
        self.units[sm] = Unit { kernel: Some(id), ..free_unit() };
        self.run(sm);
    }

    //--- Kernels that go

    fn forget(&mut self, id: u64) {
        self.kernels.retain(|kernel| kernel.id != id);
        for unit in &mut self.units {
            let was_next = unit.next == Some(id);
            unit.next = unit.next.filter(|&next| next != id);
            if unit.kernel == Some(id) {
                match unit.next {
                    Some(_) => unit.busy = Busy::Saving { left: 0 },
                    None => *unit = free_unit(),
                }
            } else if was_next && !matches!(unit.busy, Busy::Saving { .. }) {
                (unit.is_reserved, unit.patience, unit.look) = (false, None, true);
            } else if was_next && !self.kernels.iter().any(|kernel| Some(kernel.id) == unit.kernel) {
                *unit = free_unit();
            }
        }
        self.asks = true;
    }

    fn remove(&mut self, context: usize) {
        self.launches[context] = None;
        let gone: Vec<u64> =
            self.kernels.iter().filter(|kernel| kernel.context == context).map(|kernel| kernel.id).collect();
        gone.into_iter().for_each(|id| self.forget(id));
        let forgive = |payer: &mut usize| {
            if *payer == context {
                *payer = NOBODY;
            }
        };
        for unit in &mut self.units {
            forgive(&mut unit.causer);
            if let Busy::Restoring(payers) = &mut unit.busy {
                payers.iter_mut().for_each(forgive);
            }
        }
        for block in self.kernels.iter_mut().flat_map(|kernel| &mut kernel.blocks) {
            if let Where::Queued { payer, .. } = &mut block.at {
                forgive(payer);
            }
        }
    }

    //--- Policies

    fn ask(&mut self) {
        loop {
            let mut has_admitted = false;
            while let Some(context) = self.admits() {
                let launch = self.launches[context].take().unwrap();
                let fit = self.setting.description.limits.fit(&launch.grid).unwrap();
                let blocks = (0..launch.grid.blocks)
                    .map(|block| Block { left: launch.grid.times().of(block), at: Where::Fresh })
                    .collect();
                let budget = self.budget(context);
                self.kernels.push(Kernel {
                    id: launch.id,
                    context,
                    work: launch.work,
                    budget,
                    per_sm: usize::from(fit.blocks),
                    bytes: u64::from(fit.block_bytes),
                    blocks,
                    failed: None,
                });
                has_admitted = true;
            }
            while let Some((sm, id)) = self.chooses() {
                self.give(sm, id);
            }
            if !has_admitted {
                return;
            }
        }
    }

    fn admits(&self) -> Option<usize> {
        if self.kernels.len() >= usize::from(self.setting.description.places) {
            return None;
        }
        let mut waiting: Vec<(Key, u64, usize)> = (0..CONTEXTS)
            .filter_map(|context| Some((self.keys[context], self.launches[context].as_ref()?.id, context)))
            .collect();
        let by_age = matches!(self.setting.rule, Rule::Fcfs(_) | Rule::Dss(_));
        waiting.sort_by_key(|&(key, id, _)| if by_age { (Key(0), id) } else { (key, id) });
        if matches!(self.setting.rule, Rule::Fcfs(_) | Rule::Npq(_)) {
            let &(.., first) = waiting.first()?;
            return self.kernels.iter().all(|one| one.context == first && one.issuable() == 0).then_some(first);
        }
        waiting.retain(|&(.., context)| self.kernels.iter().all(|kernel| kernel.context != context));
        waiting.first().map(|&(.., context)| context)
    }

    fn budget(&self, context: usize) -> i64 {
        let Rule::Dss(Dss { shares: Shares::Equal { processes } }) = self.setting.rule else {
            return i64::from(self.tokens[context]);
        };
        let (sms, processes) = (self.units.len() as i64, i64::from(processes));
        let lucky = self.kernels.iter().filter(|kernel| kernel.budget > sms / processes).count() as i64;
        sms / processes + i64::from(lucky < sms % processes)
    }

    fn count(&self, kernel: &Kernel) -> i64 {
        kernel.budget - self.units.iter().filter(|unit| owner(unit) == Some(kernel.id)).count() as i64
    }

    fn fetched(&self, id: u64) -> usize {
        self.units.iter().filter(|unit| unit.is_reserved && unit.next == Some(id) && unit.kernel != Some(id)).count()
    }

    fn class(&self, kernel: &Kernel) -> u8 {
        match self.keys[kernel.context] {
            Key::EXHAUSTED => 3,
            Key::BEST_EFFORT => 2,
            _ => 1,
        }
    }

    /// An SM and the kernel that gets it.
    fn chooses(&self) -> Option<(usize, u64)> {
        let key = |kernel: &Kernel| self.keys[kernel.context];
        // The kernels that may get one, the first one first.
        let mut claimants: Vec<&Kernel> = self.kernels.iter().collect();
        match self.setting.rule {
            Rule::Fcfs(_) | Rule::Npq(_) | Rule::Outside(_) => claimants.sort_by_key(|kernel| kernel.id),
            Rule::Ppq(Ppq { shared }) => {
                let first = self.kernels.iter().map(key).min();
                claimants.retain(|kernel| shared || Some(key(kernel)) == first);
                claimants.sort_by_key(|kernel| (key(kernel), kernel.id));
            }
            Rule::Dss(_) => claimants.sort_by_key(|kernel| (Reverse(self.count(kernel)), kernel.id)),
            Rule::RealTime(_) => claimants.sort_by_key(|kernel| match self.class(kernel) {
                1 => (1, key(kernel).0, Reverse(0), kernel.id),
                2 => (2, 0, Reverse(self.count(kernel)), kernel.id),
                _ => (3, 0, Reverse(0), kernel.id),
            }),
        }
        if let Some(idle) = self.units.iter().position(|unit| unit.kernel.is_none()) {
            return claimants.iter().find(|kernel| kernel.issuable() > 0).map(|kernel| (idle, kernel.id));
        }
        if matches!(self.setting.rule, Rule::Fcfs(_) | Rule::Npq(_) | Rule::Outside(_)) {
            return None;
        }
        let needs = |kernel: &Kernel| kernel.issuable().div_ceil(kernel.per_sm);
        for taker in claimants {
            let is_by_key =
                matches!(self.setting.rule, Rule::Ppq(_)) || (self.is_by_classes() && self.class(taker) == 1);
            let is_lost = |unit: &Unit| {
                let next = self.kernels.iter().find(|kernel| unit.next == Some(kernel.id));
                unit.is_reserved && unit.kernel == Some(taker.id) && next.is_some_and(|next| key(next) > key(taker))
            };
            if let Some(sm) = self.units.iter().position(is_lost).filter(|_| is_by_key) {
                return Some((sm, taker.id));
            }
            if needs(taker) <= self.fetched(taker.id) {
                continue;
            }
            let best = (0..self.units.len()).filter_map(|sm| {
                let unit = &self.units[sm];
                let loser = owner(unit).map(|id| self.kernels.iter().find(|kernel| kernel.id == id).unwrap());
                if loser.is_some_and(|loser| loser.id == taker.id) {
                    return None;
                }
                let is_spare = |loser: &Kernel| unit.kernel != Some(loser.id) && self.fetched(loser.id) > needs(loser);
                let is_free = unit.is_reserved && loser.is_none_or(is_spare);
                if !is_free && !self.loses(taker, loser.unwrap()) {
                    return None;
                }
                let rank = loser.filter(|_| !is_free).map(|loser| {
                    let tokens = if self.class(loser) == 2 && self.is_by_classes() { self.count(loser) } else { 0 };
                    (key(loser), Reverse(tokens), loser.id)
                });
                let is_exhausted =
                    self.is_by_classes() && self.class(taker) == 2 && loser.is_some_and(|loser| self.class(loser) == 3);
                let is_its_own = unit.is_reserved && unit.kernel == Some(taker.id);
                Some((is_free, is_exhausted && !is_free, unit.is_reserved, rank, is_its_own, Reverse(sm)))
            });
            if let Some((.., Reverse(sm))) = best.max() {
                return Some((sm, taker.id));
            }
        }
        None
    }

    fn is_by_classes(&self) -> bool {
        matches!(self.setting.rule, Rule::RealTime(_))
    }

    /// Whether `taker` may take an SM from `loser` by the rule.
    fn loses(&self, taker: &Kernel, loser: &Kernel) -> bool {
        let is_earlier = self.keys[taker.context] < self.keys[loser.context];
        let poorer = |among: &dyn Fn(&Kernel) -> bool| {
            let owns = |kernel: &&Kernel| self.units.iter().any(|unit| owner(unit) == Some(kernel.id));
            let others = self.kernels.iter().filter(owns).filter(|kernel| kernel.id != taker.id && among(kernel));
            let poorest = others.min_by_key(|kernel| (self.count(kernel), Reverse(kernel.id)));
            poorest.is_some_and(|one| one.id == loser.id && self.count(taker) >= self.count(one) + 2)
        };
        match self.setting.rule {
            Rule::Ppq(_) => is_earlier,
            Rule::Dss(_) => poorer(&|_| true),
            _ => match (self.class(taker), self.class(loser)) {
                (1, _) => is_earlier,
                (2, 2) => poorer(&|kernel| self.class(kernel) == 2),
                (taker, loser) => taker < loser,
            },
        }
    }

    fn give(&mut self, sm: usize, id: u64) {
        let context = self.kernel(id).context;
        let mechanism = self.setting.description.mechanism;
        let unit = &mut self.units[sm];
        match (unit.kernel, unit.is_reserved) {
            (None, _) => self.set_up(sm, id),
            (Some(_), false) => {
                (unit.is_reserved, unit.next, unit.causer) = (true, Some(id), context);
                unit.patience = match mechanism {
                    Mechanism::Switch => Some(0),
                    Mechanism::Drain => None,
                    Mechanism::DrainThenSwitch { limit } => Some(limit),
                };
            }
            (Some(victim), true) if victim == id && !matches!(unit.busy, Busy::Saving { .. }) => {
                (unit.is_reserved, unit.next, unit.patience) = (false, None, None);
                if matches!(unit.busy, Busy::No) {
                    self.run(sm);
                }
            }
            (Some(_), true) => unit.next = Some(id),
        }
    }

    //--- Small things

    fn kernel(&mut self, id: u64) -> &mut Kernel {
        self.kernels.iter_mut().find(|kernel| kernel.id == id).unwrap()
    }

    fn transfer(&self, bytes: u64) -> u64 {
        (bytes * 1_000_000_000).div_ceil(self.setting.description.limits.bandwidth)
    }

    fn tell(&mut self, told: Told) {
        self.told.push((self.now, told));
    }
}

/// The kernel that an SM belongs to, or will belong to.
fn owner(unit: &Unit) -> Option<u64> {
    if unit.is_reserved { unit.next } else { unit.kernel }
}

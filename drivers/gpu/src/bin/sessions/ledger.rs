//! The open contexts, their owners and their mappings: the decisions on requests.
//!
//! # Invariants
//!
//! 1. A context is only ever used by its owner, and only pages of its owner's memory are mapped in it.
//! 2. A client has at most `each` contexts that are not closed, all together at most `contexts`.
//! 3. A context that is closed has nothing mapped.
//!
//! Not here: tables and words of the device (`fusee_gpu_driver`), the meaning of messages (`fusee::session`).

use fusee::session::{Pages, Refusal, Window};
use fusee_accel_contract::{CONTEXTS, space};

/// How many contexts may be open.
#[derive(Clone, Copy)]
pub struct Limits {
    /// At a time.
    pub contexts: usize,
    /// The number of contexts that may be open of one client.
    pub each: usize,
}

/// A client's memory, in pages.
#[derive(Clone, Copy, Default)]
pub struct Memory {
    /// Pages of the client's buffer.
    pub buffer: u64,
    /// Pages of the client's share of the device's memory.
    pub local: u64,
}

/// The next step of closing a context.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Closing {
    /// The device may use the context no more, and is to forget its commands.
    Begins(usize),
    /// The device was told so. If it has done it, the context [is closed](Ledger::closed).
    GoesOn(usize),
}

pub struct Ledger {
    limits: Limits,
    contexts: [Option<Context>; CONTEXTS],
}

struct Context {
    owner: u64,
    ordinal: u64,
    memory: Memory,
    phase: Phase,
    /// The mapped pages of each window.
    mapped: [u128; 2],
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Phase {
    Closed,
    Open,
    Closing,
}

impl Ledger {
    pub const fn new(limits: Limits) -> Ledger {
        Ledger { limits, contexts: [const { None }; CONTEXTS] }
    }

    /// The manifest gives `owner` this context, as its `ordinal`-th.
    pub fn prepare(&mut self, context: usize, owner: u64, ordinal: u64, memory: Memory) {
        self.contexts[context] = Some(Context { owner, ordinal, memory, phase: Phase::Closed, mapped: [0; 2] });
    }

    pub fn open(&mut self, owner: u64, ordinal: u64) -> Result<usize, Refusal> {
        let context = self.find(owner, ordinal)?;
        let in_use = || self.contexts.iter().flatten().filter(|one| one.phase != Phase::Closed);
        match self.phase(context) {
            Phase::Open => return Err(Refusal::AlreadyOpen),
            Phase::Closing => return Err(Refusal::Pending),
            Phase::Closed => {}
        }
        if in_use().filter(|one| one.owner == owner).count() >= self.limits.each {
            return Err(Refusal::Quota);
        }
        if in_use().count() >= self.limits.contexts {
            return Err(Refusal::DeviceFull);
        }
        self.set(context, Phase::Open);
        Ok(context)
    }

    /// `is_busy`: whether the device has commands of a context.
    pub fn close(&mut self, owner: u64, ordinal: u64, is_busy: impl Fn(usize) -> bool) -> Result<Closing, Refusal> {
        let context = self.find(owner, ordinal)?;
        match self.phase(context) {
            Phase::Closed => Err(Refusal::NotOpen),
            Phase::Open if is_busy(context) => Err(Refusal::Busy),
            Phase::Open => {
                self.set(context, Phase::Closing);
                Ok(Closing::Begins(context))
            }
            Phase::Closing => Ok(Closing::GoesOn(context)),
        }
    }

    /// The device has forgotten `context`.
    pub fn closed(&mut self, context: usize) {
        if let Some(one) = &mut self.contexts[context] {
            (one.phase, one.mapped) = (Phase::Closed, [0; 2]);
        }
    }

    /// The context that is to be mapped in.
    pub fn map(&mut self, owner: u64, ordinal: u64, pages: Pages, from: u64) -> Result<usize, Refusal> {
        let (context, mask) = self.pages(owner, ordinal, pages)?;
        let Some(one) = &mut self.contexts[context] else { return Err(Refusal::NotYours) };
        let owned = match pages.window {
            Window::Buffer => one.memory.buffer,
            Window::Local => one.memory.local,
        };
        if from.checked_add(pages.count).is_none_or(|end| end > owned) {
            return Err(Refusal::NotYourMemory);
        }
        let mapped = &mut one.mapped[pages.window as usize];
        if *mapped & mask != 0 {
            return Err(Refusal::AlreadyMapped);
        }
        *mapped |= mask;
        Ok(context)
    }

    /// The context that is to be unmapped in.
    pub fn unmap(&mut self, owner: u64, ordinal: u64, pages: Pages) -> Result<usize, Refusal> {
        let (context, mask) = self.pages(owner, ordinal, pages)?;
        let Some(one) = &mut self.contexts[context] else { return Err(Refusal::NotYours) };
        let mapped = &mut one.mapped[pages.window as usize];
        if *mapped & mask != mask {
            return Err(Refusal::NotMapped);
        }
        *mapped &= !mask;
        Ok(context)
    }

    /// The context, if it is open.
    pub fn opened(&self, owner: u64, ordinal: u64) -> Result<usize, Refusal> {
        let context = self.find(owner, ordinal)?;
        (self.phase(context) == Phase::Open).then_some(context).ok_or(Refusal::NotOpen)
    }

    /// The context, whether it is open, and how many pages are mapped there.
    pub fn state(&self, owner: u64, ordinal: u64) -> Result<(usize, bool, u64), Refusal> {
        let context = self.find(owner, ordinal)?;
        let mapped = self.contexts[context].as_ref().map_or([0; 2], |one| one.mapped);
        let count = mapped.map(u128::count_ones).iter().sum::<u32>();
        Ok((context, self.phase(context) == Phase::Open, count.into()))
    }

    fn find(&self, owner: u64, ordinal: u64) -> Result<usize, Refusal> {
        let is_it =
            |one: &Option<Context>| one.as_ref().is_some_and(|one| (one.owner, one.ordinal) == (owner, ordinal));
        self.contexts.iter().position(is_it).ok_or(Refusal::NotYours)
    }

    fn phase(&self, context: usize) -> Phase {
        self.contexts[context].as_ref().map_or(Phase::Closed, |one| one.phase)
    }

    fn set(&mut self, context: usize, phase: Phase) {
        if let Some(one) = &mut self.contexts[context] {
            one.phase = phase;
        }
    }

    /// An open context, and a bit for each of `pages`.
    fn pages(&self, owner: u64, ordinal: u64, pages: Pages) -> Result<(usize, u128), Refusal> {
        let context = self.opened(owner, ordinal)?;
        let end = pages.first.checked_add(pages.count).filter(|end| *end <= window_pages(pages.window));
        let Some(end) = end.filter(|_| pages.count > 0) else { return Err(Refusal::OutsideWindow) };
        Ok((context, (u128::MAX >> (128 - pages.count)) << (end - pages.count)))
    }
}

/// Pages of a window.
pub const fn window_pages(window: Window) -> u64 {
    match window {
        Window::Buffer => space::BUFFER_PAGES,
        Window::Local => space::LOCAL_PAGES,
    }
}

const _: () = assert!(space::BUFFER_PAGES <= 128 && space::LOCAL_PAGES <= 128);

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use fusee::session::PAGES;
    use std::collections::{BTreeMap, BTreeSet};
    use std::string::ToString;
    use std::vec::Vec;

    /// The ledger once more, as slow and as plain as possible.
    struct Oracle {
        limits: Limits,
        /// The contexts of the manifest: number, owner, ordinal.
        prepared: Vec<(usize, u64, u64)>,
        memory: Memory,
        open: BTreeSet<usize>,
        closing: BTreeSet<usize>,
        /// The page behind each page of each window of each context.
        mapped: BTreeMap<(usize, u64, u64), u64>,
    }

    impl Oracle {
        fn owner(&self, context: usize) -> u64 {
            self.prepared.iter().find(|one| one.0 == context).unwrap().1
        }

        fn context(&self, owner: u64, ordinal: u64) -> Result<usize, Refusal> {
            let found = self.prepared.iter().find(|one| (one.1, one.2) == (owner, ordinal));
            found.map(|one| one.0).ok_or(Refusal::NotYours)
        }

        fn open(&mut self, owner: u64, ordinal: u64) -> Result<usize, Refusal> {
            let context = self.context(owner, ordinal)?;
            if self.open.contains(&context) {
                return Err(Refusal::AlreadyOpen);
            }
            if self.closing.contains(&context) {
                return Err(Refusal::Pending);
            }
            let used: Vec<usize> = self.open.union(&self.closing).copied().collect();
            if used.iter().filter(|one| self.owner(**one) == owner).count() >= self.limits.each {
                return Err(Refusal::Quota);
            }
            if used.len() >= self.limits.contexts {
                return Err(Refusal::DeviceFull);
            }
            self.open.insert(context);
            Ok(context)
        }

        fn close(&mut self, owner: u64, ordinal: u64, busy: bool) -> Result<Closing, Refusal> {
            let context = self.context(owner, ordinal)?;
            if self.closing.contains(&context) {
                return Ok(Closing::GoesOn(context));
            }
            if !self.open.contains(&context) {
                return Err(Refusal::NotOpen);
            }
            if busy {
                return Err(Refusal::Busy);
            }
            self.open.remove(&context);
            self.closing.insert(context);
            Ok(Closing::Begins(context))
        }

        fn closed(&mut self, context: usize) {
            self.closing.remove(&context);
            self.mapped.retain(|(of, _, _), _| *of != context);
        }

        fn map(&mut self, owner: u64, ordinal: u64, pages: Pages, from: Option<u64>) -> Result<usize, Refusal> {
            let context = self.context(owner, ordinal)?;
            if !self.open.contains(&context) {
                return Err(Refusal::NotOpen);
            }
            let (size, owned) = match pages.window {
                Window::Buffer => (112, self.memory.buffer),
                Window::Local => (128, self.memory.local),
            };
            let window = pages.window as u64;
            let row = || (0..pages.count).map(|at| (u128::from(pages.first) + u128::from(at), at));
            if row().any(|(page, _)| page >= size) {
                return Err(Refusal::OutsideWindow);
            }
            if let Some(from) = from
                && row().any(|(_, at)| u128::from(from) + u128::from(at) >= u128::from(owned))
            {
                return Err(Refusal::NotYourMemory);
            }
            let is_mapped = |page: u128| self.mapped.contains_key(&(context, window, page as u64));
            match from {
                Some(_) if row().any(|(page, _)| is_mapped(page)) => return Err(Refusal::AlreadyMapped),
                None if row().any(|(page, _)| !is_mapped(page)) => return Err(Refusal::NotMapped),
                _ => {}
            }
            for (page, at) in row().collect::<Vec<_>>() {
                match from {
                    Some(from) => self.mapped.insert((context, window, page as u64), from + at),
                    None => self.mapped.remove(&(context, window, page as u64)),
                };
            }
            Ok(context)
        }
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }
    }

    fn history(random: &mut Random, refusals: &mut BTreeMap<std::string::String, u64>) {
        let limits = Limits { contexts: 1 + random.below(6) as usize, each: 1 + random.below(3) as usize };
        let memory = Memory { buffer: random.below(40), local: random.below(140) };
        let mut oracle = Oracle {
            limits,
            prepared: Vec::new(),
            memory,
            open: BTreeSet::new(),
            closing: BTreeSet::new(),
            mapped: BTreeMap::new(),
        };
        let mut ledger = Ledger::new(limits);
        for context in 1..CONTEXTS {
            let owner = 1 + random.below(3);
            let ordinal = oracle.prepared.iter().filter(|one| one.1 == owner).count() as u64;
            oracle.prepared.push((context, owner, ordinal));
            ledger.prepare(context, owner, ordinal, memory);
        }
        for _ in 0..60 {
            // An owner without contexts, and numbers that it does not have, among them.
            let (owner, ordinal) = (1 + random.below(4), random.below(4));
            let window = if random.below(2) == 0 { Window::Buffer } else { Window::Local };
            let wild = random.below(50) == 0;
            let first = if wild { u64::MAX - random.below(20) } else { random.below(130) };
            let pages = Pages { window, first, count: 1 + random.below(PAGES) };
            let from = if random.below(50) == 0 { u64::MAX - random.below(20) } else { random.below(60) };
            let results = match random.below(6) {
                0 | 1 => (ledger.open(owner, ordinal).map(Some), oracle.open(owner, ordinal).map(Some)),
                2 => {
                    let busy = random.below(3) == 0;
                    let (one, other) = (ledger.close(owner, ordinal, |_| busy), oracle.close(owner, ordinal, busy));
                    assert_eq!(one, other);
                    if let (Ok(Closing::GoesOn(context)), true) = (one, random.below(2) == 0) {
                        ledger.closed(context);
                        oracle.closed(context);
                    }
                    (one.map(|_| None), other.map(|_| None))
                }
                3 | 4 => (
                    ledger.map(owner, ordinal, pages, from).map(Some),
                    oracle.map(owner, ordinal, pages, Some(from)).map(Some),
                ),
                _ => (ledger.unmap(owner, ordinal, pages).map(Some), oracle.map(owner, ordinal, pages, None).map(Some)),
            };
            assert_eq!(results.0, results.1);
            let name = results.0.map_or_else(|refusal| std::format!("{refusal:?}"), |_| "Done".to_string());
            *refusals.entry(name).or_default() += 1;
            for (context, owner, ordinal) in &oracle.prepared {
                let mapped = oracle.mapped.keys().filter(|(of, _, _)| of == context).count() as u64;
                let state = Ok((*context, oracle.open.contains(context), mapped));
                assert_eq!(ledger.state(*owner, *ordinal), state);
            }
        }
        // All of it can be given back.
        for (_, owner, ordinal) in oracle.prepared.clone() {
            if let Ok(Closing::Begins(context) | Closing::GoesOn(context)) = ledger.close(owner, ordinal, |_| false) {
                ledger.closed(context);
            }
            assert_eq!(ledger.state(owner, ordinal).map(|(_, is_open, mapped)| (is_open, mapped)), Ok((false, 0)));
        }
    }

    #[test]
    fn random_histories_of_three_clients_are_decided_as_the_oracle_decides_them() {
        let mut random = Random(0x5E55_1085);
        let mut seen = BTreeMap::new();
        for _ in 0..100_000 {
            history(&mut random, &mut seen);
        }
        let all = [
            "AlreadyMapped",
            "AlreadyOpen",
            "Busy",
            "DeviceFull",
            "Done",
            "NotMapped",
            "NotOpen",
            "NotYourMemory",
            "NotYours",
            "OutsideWindow",
            "Pending",
            "Quota",
        ];
        assert_eq!(seen.keys().map(std::string::String::as_str).collect::<Vec<_>>(), all);
    }
}

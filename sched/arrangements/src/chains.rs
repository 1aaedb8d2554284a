//! Chains of blocking among copies with peer-to-peer migration, for GPUs with two copy engines.
//!
//! A migration holds two engines at once: the inbound engine of its GPU, and the outbound engine of the GPU that has the state. So a
//! request may wait for a holder that waits for another holder itself. A *chain* is the multiset of all operations that one request
//! waits for, counted by kind.
//!
//! # Model
//!
//! A GPU cluster has `gpus` GPUs with `tokens` tokens each. The request is at GPU 0. Each other token has a holder with one pending
//! operation: an inbound copy, an outbound copy, a migration from one of the other GPUs, or none. Requests queue by arrival, in any
//! order. A request waits for the operation before it that shares an engine with it, and once more for the operations before that one; a
//! migration can be blocked at both of its engines, one after the other.
//!
//! # Search
//!
//! The state is a stack of requests that can still be blocked, and the holders of each GPU that have not been used. The reachable counts
//! depend on the state alone, so each state is searched once. Numbers of GPUs have no meaning: a state is renamed so that its GPUs are
//! numbered in the order in which the stack names them. Requests that no remaining holder can block are removed.
//!
//! The search of 4 GPUs with 3 tokens takes half a minute, so the chains of all clusters of the study are kept as data
//! ([`Chains::kept`]); a test compares the data with the search.
//!
//! # Source
//! Elliott 2015, section 4.3.2.2 and table 4.2. The text gives `(tg - 1)(g + 2)(tg - 1)!` scenarios for `t` tokens of each of `g` GPUs;
//! independent choices in any order are `(g + 2)^(tg - 1) (tg - 1)!`.

use std::collections::{BTreeSet, HashMap};

/// Operations of a chain, by kind.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Chain {
    /// Inbound copies.
    pub inbound: u8,
    /// Outbound copies.
    pub outbound: u8,
    /// Migrations.
    pub migrations: u8,
}

impl Chain {
    /// Number of operations.
    #[must_use]
    pub fn len(self) -> u32 {
        u32::from(self.inbound) + u32::from(self.outbound) + u32::from(self.migrations)
    }

    /// Whether the request does not wait at all.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// The chains of each kind of request. The empty chain is left out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Chains {
    /// Chains of an outbound copy.
    pub outbound: Vec<Chain>,
    /// Chains of an inbound copy.
    pub inbound: Vec<Chain>,
    /// Chains of a migration.
    pub migration: Vec<Chain>,
}

/// The chains of the clusters of the study, one line for each cluster and kind of request.
const KEPT: &str = include_str!("chains.txt");

impl Chains {
    /// Searches the chains of a cluster of `gpus` GPUs with `tokens` tokens each.
    ///
    /// # Panics
    /// If there are more than 4 GPUs, more than 3 tokens for each, or none.
    #[must_use]
    pub fn search(gpus: u8, tokens: u8) -> Chains {
        assert!((1..=4).contains(&gpus) && (1..=3).contains(&tokens), "{gpus} GPUs, {tokens} tokens");
        let mut search = Search { gpus, steps: Steps::new(), known: HashMap::new() };
        let mut left = [0; GPUS];
        left[..usize::from(gpus)].fill(tokens);
        left[0] -= 1;
        let mut of = |request: Operation, times: usize| {
            let found = search.reachable(State { stack: vec![request; times], left });
            search.steps.chains(found)
        };
        let outbound = of(Operation::Outbound(0), 1);
        let inbound = of(Operation::Inbound(0), 1);
        let migration = if gpus > 1 { of(Operation::Migration { to: 0, from: 1 }, 2) } else { Vec::new() };
        Chains { outbound, inbound, migration }
    }

    /// The kept chains of a cluster; `None`: there are none for this cluster.
    #[must_use]
    pub fn kept(gpus: u8, tokens: u8) -> Option<Chains> {
        let of = |kind: &str| {
            let begin = format!("{gpus} {tokens} {kind}:");
            let line = KEPT.lines().find_map(|line| line.strip_prefix(&begin))?;
            let chain = |word: &str| {
                let mut counts = word.split('.').map(|count| count.parse().ok());
                let mut next = || counts.next().flatten();
                Some(Chain { inbound: next()?, outbound: next()?, migrations: next()? })
            };
            line.split_whitespace().map(chain).collect::<Option<Vec<_>>>()
        };
        Some(Chains { outbound: of("outbound")?, inbound: of("inbound")?, migration: of("migration")? })
    }

    /// The lines that [`Chains::kept`] reads.
    #[must_use]
    pub fn lines(&self, gpus: u8, tokens: u8) -> String {
        let kinds = [("outbound", &self.outbound), ("inbound", &self.inbound), ("migration", &self.migration)];
        let line = |(kind, chains): (&str, &Vec<Chain>)| {
            let word = |chain: &Chain| format!(" {}.{}.{}", chain.inbound, chain.outbound, chain.migrations);
            format!("{gpus} {tokens} {kind}:{}\n", chains.iter().map(word).collect::<String>())
        };
        kinds.map(line).concat()
    }

    /// These chains without those of more than `most` operations.
    #[must_use]
    pub fn no_longer_than(&self, most: u32) -> Chains {
        let short = |chains: &Vec<Chain>| chains.iter().copied().filter(|chain| chain.len() <= most).collect();
        Chains { outbound: short(&self.outbound), inbound: short(&self.inbound), migration: short(&self.migration) }
    }
}

//--- The search

/// GPUs of a cluster, at most.
const GPUS: usize = 4;
/// Operations of a chain, at most: 4 GPUs with 3 tokens, less the token of the request.
const LONGEST: u8 = 11;

/// An operation at a GPU, by the number of the GPU.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Operation {
    Inbound(u8),
    Outbound(u8),
    Migration { to: u8, from: u8 },
}

impl Operation {
    fn shares_engine(self, other: Operation) -> bool {
        let engines = |one: Operation| match one {
            Operation::Inbound(gpu) => (Some(gpu), None),
            Operation::Outbound(gpu) => (None, Some(gpu)),
            Operation::Migration { to, from } => (Some(to), Some(from)),
        };
        let ((own_in, own_out), (other_in, other_out)) = (engines(self), engines(other));
        (own_in.is_some() && own_in == other_in) || (own_out.is_some() && own_out == other_out)
    }

    fn renamed(self, names: &[u8; GPUS]) -> Operation {
        let name = |gpu: u8| names[usize::from(gpu)];
        match self {
            Operation::Inbound(gpu) => Operation::Inbound(name(gpu)),
            Operation::Outbound(gpu) => Operation::Outbound(name(gpu)),
            Operation::Migration { to, from } => Operation::Migration { to: name(to), from: name(from) },
        }
    }

    /// A number below 32.
    fn code(self) -> u128 {
        match self {
            Operation::Inbound(gpu) => gpu.into(),
            Operation::Outbound(gpu) => 4 + u128::from(gpu),
            Operation::Migration { to, from } => 8 + 4 * u128::from(to) + u128::from(from),
        }
    }

    /// Position of its kind in a count.
    fn kind(self) -> usize {
        match self {
            Operation::Inbound(_) => 0,
            Operation::Outbound(_) => 1,
            Operation::Migration { .. } => 2,
        }
    }
}

/// Requests that can still be blocked, the next one last; and the unused holders of each GPU.
#[derive(Clone)]
struct State {
    stack: Vec<Operation>,
    left: [u8; GPUS],
}

impl State {
    /// Removes requests that no unused holder can block, and renames the GPUs.
    fn canonical(mut self, gpus: u8) -> State {
        let left = self.left;
        let total: u8 = left.iter().sum();
        self.stack.retain(|request| match *request {
            Operation::Inbound(gpu) => left[usize::from(gpu)] > 0,
            // Any holder at another GPU may migrate from this one.
            Operation::Outbound(_) => total > 0,
            Operation::Migration { .. } => total > 0,
        });
        let mut names = [u8::MAX; GPUS];
        let mut next = 0;
        for request in self.stack.iter().rev() {
            let named = match *request {
                Operation::Inbound(gpu) | Operation::Outbound(gpu) => [gpu, gpu],
                Operation::Migration { to, from } => [to, from],
            };
            for gpu in named {
                if names[usize::from(gpu)] == u8::MAX {
                    names[usize::from(gpu)] = next;
                    next += 1;
                }
            }
        }
        let mut others: Vec<u8> = (0..gpus).filter(|gpu| names[usize::from(*gpu)] == u8::MAX).collect();
        others.sort_by_key(|gpu| std::cmp::Reverse(left[usize::from(*gpu)]));
        for gpu in others {
            names[usize::from(gpu)] = next;
            next += 1;
        }
        for gpu in 0..usize::from(gpus) {
            self.left[usize::from(names[gpu])] = left[gpu];
        }
        let rename = |request: &mut Operation| *request = request.renamed(&names);
        self.stack.iter_mut().for_each(rename);
        self
    }

    /// A number for each state: five bits for each request, two for the holders of a GPU, and a mark above.
    fn code(&self) -> u128 {
        let stack = self.stack.iter().fold(1, |code, request| code << 5 | request.code());
        self.left.iter().fold(stack, |code, left| code << 2 | u128::from(*left))
    }
}

/// A set of counts, a bit for each.
type Found = [u64; 6];

/// All counts of at most [`LONGEST`] operations, numbered; and the number of each count with one operation more.
struct Steps {
    counts: Vec<[u8; 3]>,
    next: Vec<[Option<u16>; 3]>,
}

impl Steps {
    fn new() -> Steps {
        let mut counts = Vec::new();
        for inbound in 0..=LONGEST {
            for outbound in 0..=LONGEST - inbound {
                counts.extend((0..=LONGEST - inbound - outbound).map(|migrations| [inbound, outbound, migrations]));
            }
        }
        let numbers: HashMap<[u8; 3], u16> = counts.iter().copied().zip(0..).collect();
        let next = |count: &[u8; 3]| {
            [0, 1, 2].map(|kind| {
                let mut more = *count;
                more[kind] += 1;
                numbers.get(&more).copied()
            })
        };
        let next = counts.iter().map(next).collect();
        Steps { counts, next }
    }

    /// Adds each count of `found` with one operation more to `to`.
    fn add(&self, to: &mut Found, found: &Found, kind: usize) {
        for (word, bits) in found.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let number = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if let Some(next) = self.next[number][kind] {
                    to[usize::from(next) / 64] |= 1 << (next % 64);
                }
            }
        }
    }

    fn chains(&self, found: Found) -> Vec<Chain> {
        let is_in = |number: &usize| found[number / 64] >> (number % 64) & 1 == 1;
        let chain = |number: usize| {
            let [inbound, outbound, migrations] = self.counts[number];
            Chain { inbound, outbound, migrations }
        };
        // Number 0 is the empty count.
        let all: BTreeSet<Chain> = (1..self.counts.len()).filter(is_in).map(chain).collect();
        all.into_iter().collect()
    }
}

struct Search {
    gpus: u8,
    steps: Steps,
    known: HashMap<u128, Found>,
}

impl Search {
    /// The counts that can be reached from `state`.
    fn reachable(&mut self, state: State) -> Found {
        let state = state.canonical(self.gpus);
        let code = state.code();
        if let Some(found) = self.known.get(&code) {
            return *found;
        }
        // The chain may end here.
        let mut found = [0; 6];
        found[0] = 1;
        for gpu in (0..self.gpus).filter(|gpu| state.left[usize::from(*gpu)] > 0) {
            let mut left = state.left;
            left[usize::from(gpu)] -= 1;
            let migrations = (0..self.gpus).filter(|from| *from != gpu);
            let migrations = migrations.map(|from| Operation::Migration { to: gpu, from });
            for next in [Operation::Inbound(gpu), Operation::Outbound(gpu)].into_iter().chain(migrations) {
                // Requests that share no engine with the next operation are not blocked by it, nor by later ones.
                let Some(blocked) = state.stack.iter().rposition(|request| request.shares_engine(next)) else {
                    continue;
                };
                let mut stack = state.stack[..blocked].to_vec();
                stack.push(next);
                if let Operation::Migration { .. } = next {
                    stack.push(next);
                }
                let further = self.reachable(State { stack, left });
                self.steps.add(&mut found, &further, next.kind());
            }
        }
        self.known.insert(code, found);
        found
    }
}

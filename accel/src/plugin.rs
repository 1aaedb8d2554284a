//! The adviser of a pool of the kernel, and the operations of such a pool.
//!
//! | Plugin | Its advice |
//! |---|---|
//! | [`Kind::Nobody`] | none: the pool's own rules decide |
//! | [`Kind::Affinity`] | [heuristics](crate::heuristics) H1 to H4 |
//! | [`Kind::Random`] | anything: a queue, a donee, a waiter by chance, also such that do not exist. It shows that no advice can break a pool |
//!
//! # The eight calls
//!
//! The text's plugin (table 3.1) has three calls that ask for advice, and five that report events:
//!
//! | Text | Here | Called |
//! |---|---|---|
//! | `advise_enqueue` | [`Advice::queue`] | by the pool: a request may join several queues |
//! | `advise_donee_selection` | [`Advice::donee`] | by the pool: a request becomes a donor |
//! | `advise_steal` | [`Advice::steal`] | by the pool: a token is free, and requests wait for others |
//! | `notify_enqueue` | [`Plugin::requested`] | a request is in the pool |
//! | `notify_dequeue` | [`Plugin::withdrawn`] | it is no longer, and has had no token |
//! | `notify_acquired` | [`Plugin::acquired`] | it has a token |
//! | `notify_freed` | [`Plugin::freed`] | it has given it back |
//! | `notify_exit` | [`Plugin::exited`] | its task is dead |
//!
//! A further plugin is a further kind. Its costs are limited by the kernel's longest path, of which it is a part.
//!
//! # Invariants
//!
//! 1. For any advice of a plugin, the pool keeps its own invariants: it takes no advice that its rules forbid.
//! 2. No operation is refused, and none blocks, because of a plugin.
//!
//! The pool asks by a table of functions, so that it is there once, with and without advice.

use fusee_locking::engine::LockError;
use fusee_locking::pool::{Advice, Change, Pool, Steal};
use fusee_locking::tokens::{self, REPLICAS, Tokens, USERS};
use fusee_sched::key::Key;
use fusee_sched::time::Nanoseconds;

use crate::heuristics::{Gain, Heuristics};
use crate::topology::{Topology, TopologyError};

/// GPUs of one pool.
pub const GPUS: usize = 8;

/// The kind of a plugin.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Kind {
    /// No advice.
    #[default]
    Nobody,
    /// The heuristics.
    Affinity,
    /// Chance.
    Random,
}

/// The plugin of one pool. Numbers of users are below `U`, for any pool.
#[derive(Clone, Debug)]
pub struct Plugin<const U: usize> {
    kind: Kind,
    /// The state that chance draws from: each call changes it.
    state: u64,
    heuristics: Heuristics<GPUS, U>,
}

impl<const U: usize> Plugin<U> {
    /// No adviser. All zero bytes.
    pub const EMPTY: Self =
        Self { kind: Kind::Nobody, state: 0, heuristics: Heuristics::new(Topology::EMPTY, Gain::CriticalSection) };

    /// Sets the adviser to `kind`, for a pool with `tokens` tokens of each of `gpus` GPUs, whose distances have these numbers, shape
    /// `[from: GPUS][to: GPUS]`.
    ///
    /// # Errors
    /// [`TopologyError`].
    pub fn set(
        &mut self,
        kind: Kind,
        gpus: u8,
        tokens: u8,
        distances: &[[u8; GPUS]; GPUS],
    ) -> Result<(), TopologyError> {
        self.kind = kind;
        self.heuristics.topology_mut().set(gpus, tokens, distances)
    }
}

//--- Events of the pool

impl<const U: usize> Plugin<U> {
    /// `user` has a request in the pool: `notify_enqueue`.
    pub fn requested(&mut self, user: u16) {
        self.stir(u64::from(user));
    }

    /// The request of `user` has left it without a token: `notify_dequeue`.
    pub fn withdrawn(&mut self, user: u16) {
        self.stir(u64::from(user) + 1);
    }

    /// `user` holds `replica` from now on: `notify_acquired`.
    #[inline(never)]
    pub fn acquired(&mut self, user: u16, replica: u8) {
        self.stir(u64::from(replica) + 2);
        if self.kind == Kind::Affinity {
            self.heuristics.acquired(user, replica);
        }
    }

    /// `user` has given its token back, which it has used for `hold`, as defined at [`Heuristics::freed`]: `notify_freed`.
    #[inline(never)]
    pub fn freed(&mut self, user: u16, hold: Nanoseconds) {
        // The state does not take in `hold`: a draw shall not depend on how fast a machine is.
        self.stir(u64::from(user) + 3);
        if self.kind == Kind::Affinity {
            self.heuristics.freed(user, hold);
        }
    }

    /// The task behind `user` is dead: `notify_exit`.
    #[inline(never)]
    pub fn exited(&mut self, user: u16) {
        if self.kind == Kind::Affinity {
            self.heuristics.exited(user);
        }
    }

    fn stir(&mut self, with: u64) {
        self.state = mixed(self.state.wrapping_add(with));
    }
}

/// One step of a generator: the number after `state` looks like chance (splitmix64).
const fn mixed(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ state >> 31
}

//--- Questions of the pool

impl<const U: usize> Plugin<U> {
    /// A number below `below`, drawn for the question `of`.
    fn drawn(&self, of: u64, below: usize) -> usize {
        (mixed(self.state ^ of) % below as u64) as usize
    }

    /// A user with a request, or an unknown one.
    fn somebody(&self, tokens: &Tokens, of: u64) -> u16 {
        let index = self.drawn(of, tokens.requests().len() + 1);
        tokens.requests().get(index).map_or(u16::MAX, |request| request.user)
    }
}

impl<const U: usize> Advice<Key, REPLICAS, USERS> for Plugin<U> {
    fn queue(&self, pool: &Pool<Key, REPLICAS, USERS>, user: u16) -> Option<u8> {
        match self.kind {
            Kind::Nobody => None,
            Kind::Affinity => self.heuristics.queue(pool, user),
            // One more than there are.
            Kind::Random => Some(self.drawn(u64::from(user), usize::from(pool.rules().replicas) + 1) as u8),
        }
    }

    fn donee(&self, pool: &Pool<Key, REPLICAS, USERS>, donor: u16) -> Option<u16> {
        match self.kind {
            Kind::Nobody => None,
            Kind::Affinity => self.heuristics.donee(pool, donor),
            Kind::Random => Some(self.somebody(pool, u64::from(donor) + 1)),
        }
    }

    fn steal(&self, pool: &Pool<Key, REPLICAS, USERS>, replica: u8) -> Steal {
        match self.kind {
            Kind::Nobody => Steal::Highest,
            Kind::Affinity => self.heuristics.steal(pool, replica),
            Kind::Random => match self.drawn(u64::from(replica) + 2, 3) {
                0 => Steal::Highest,
                1 => Steal::Nothing,
                _ => Steal::From(self.somebody(pool, u64::from(replica) + 3)),
            },
        }
    }
}

//--- Operations of the pool it advises

/// See [`Pool::request`].
///
/// # Errors
/// As there.
pub fn request<const U: usize>(
    tokens: &mut Tokens,
    plugin: &mut Plugin<U>,
    user: u16,
    key: Key,
    length: Nanoseconds,
) -> Result<Change, LockError> {
    let change = tokens::request(tokens, plugin, user, key, length)?;
    plugin.requested(user);
    Ok(change)
}

/// See [`Pool::withdraw`]; for a holder, that is a release, which is reported to the plugin separately.
pub fn withdraw<const U: usize>(tokens: &mut Tokens, plugin: &mut Plugin<U>, user: u16) -> Option<Change> {
    if tokens::held_by(tokens, user).is_none() {
        plugin.withdrawn(user);
    }
    tokens::withdraw(tokens, plugin, user)
}

/// Gives the request of `user` the base key `key`, with the advice of `plugin`. `None` if `user` has no request. See also
/// [`Pool::change_key`].
pub fn change_key<const U: usize>(tokens: &mut Tokens, plugin: &Plugin<U>, user: u16, key: Key) -> Option<Change> {
    tokens::change_key(tokens, plugin, user, key)
}

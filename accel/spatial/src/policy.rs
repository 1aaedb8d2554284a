//! The interface of policies: which kernel an SM is set to.
//!
//! A policy is asked when a kernel becomes active or ends, when an SM becomes idle, when blocks have been saved, and when a key
//! or a number of tokens changes. It gives one decision at a time. The SM driver carries the decision out, updates the table,
//! and asks again until the policy has no more decisions. Everything that happens at one instant is in the table before the
//! policy is asked. So a policy gives the same decisions in a device and in a driver whose messages take no time.
//!
//! # Guarantees of the SM driver
//!
//! 1. A decision is carried out before the policy is asked again.
//! 2. Only decisions set an SM to a kernel or reserve it. Without a decision, an SM becomes idle when its kernel has no more
//!    blocks for it, a reserved SM goes to the kernel that it is reserved for, and it stays with the kernel whose blocks are on
//!    it if the other kernel is gone.
//!
//! # Guarantees of the policy
//!
//! 1. Each decision is possible: it names an SM in the right state, and a kernel with blocks to issue, or the one whose blocks
//!    are on the SM.
//! 2. After finitely many decisions there are no more until something else changes the table.
//! 3. A policy that takes SMs away admits one kernel of each context at a time, because a context has one save area.

use crate::priority::Ppq;
use crate::queues::{Fcfs, Npq};
use crate::real_time::RealTime;
use crate::table::{Active, Context, Place, Sm, State, Table, Waits};
use crate::tokens::Dss;

/// A change of one SM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Decision {
    /// An idle SM is set to a kernel. It takes a token of the kernel.
    Assign {
        /// The idle SM.
        sm: Sm,
        /// The kernel, which has blocks to issue.
        kernel: Place,
    },
    /// An SM is taken away from the kernel that runs on it, for another one. A token goes back to the first kernel, and one is
    /// taken of the other.
    Reserve {
        /// The running SM.
        sm: Sm,
        /// The kernel that the SM is set to when it is free.
        next: Place,
    },
    /// A reserved SM goes to another kernel when it is free. A token goes back to the kernel that it was reserved for, and one
    /// is taken of the other. If the other kernel is the one whose blocks are on the SM, and they are not being saved yet, they
    /// stay there.
    Retarget {
        /// The reserved SM.
        sm: Sm,
        /// The kernel that the SM is set to instead.
        next: Place,
    },
}

/// A rule that decides which kernel an SM is set to.
pub trait Policy {
    /// Picks the launch that becomes active next, or none. Called while the active queue has room and launches wait.
    fn admit(&self, table: &Table) -> Option<Context>;

    /// The budget of a kernel that becomes active now, in SMs. `tokens` are those given to its context.
    fn budget(&self, table: &Table, tokens: u16) -> u16 {
        let _ = table;
        tokens
    }

    /// The next change, or none.
    fn decide(&self, table: &Table) -> Option<Decision>;
}

/// The policy is elsewhere: launches become active in the order of arrival, one of each context, and nothing else is decided.
/// Decisions come through [`Engine::carry_out`](crate::Engine::carry_out).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Outside;

impl Policy for Outside {
    fn admit(&self, table: &Table) -> Option<Context> {
        first_of_its_context(table, |waits| waits.arrival)
    }

    fn decide(&self, _: &Table) -> Option<Decision> {
        None
    }
}

/// One of the policies, chosen when the device is described.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    /// [`Fcfs`].
    Fcfs(Fcfs),
    /// [`Npq`].
    Npq(Npq),
    /// [`Ppq`].
    Ppq(Ppq),
    /// [`Dss`].
    Dss(Dss),
    /// [`RealTime`].
    RealTime(RealTime),
    /// [`Outside`].
    Outside(Outside),
}

impl Rule {
    fn policy(&self) -> &dyn Policy {
        match self {
            Rule::Fcfs(policy) => policy,
            Rule::Npq(policy) => policy,
            Rule::Ppq(policy) => policy,
            Rule::Dss(policy) => policy,
            Rule::RealTime(policy) => policy,
            Rule::Outside(policy) => policy,
        }
    }
}

impl Policy for Rule {
    fn admit(&self, table: &Table) -> Option<Context> {
        self.policy().admit(table)
    }

    fn budget(&self, table: &Table, tokens: u16) -> u16 {
        self.policy().budget(table, tokens)
    }

    fn decide(&self, table: &Table) -> Option<Decision> {
        self.policy().decide(table)
    }
}

//--- Common parts of several policies

/// The first launch, by `order`, whose context has no active kernel.
pub(crate) fn first_of_its_context<O: Ord>(table: &Table, order: impl Fn(&Waits) -> O) -> Option<Context> {
    let is_alone = |waits: &&Waits| table.kernels().all(|(_, kernel)| kernel.context != waits.context);
    table.waiting().filter(is_alone).min_by_key(|waits| order(waits)).map(|waits| waits.context)
}

/// The kernel with blocks to issue that is first by `order`. Kernels without an order are passed over.
pub(crate) fn first_issuable<O: Ord>(table: &Table, order: impl Fn(&Active) -> Option<O>) -> Option<Place> {
    let ordered = table.kernels().filter(|(_, kernel)| kernel.issuable > 0);
    let ordered = ordered.filter_map(|(place, kernel)| Some((order(kernel)?, place)));
    ordered.min_by(|one, other| one.0.cmp(&other.0)).map(|(_, place)| place)
}

/// Gives `taker` an SM whose preemption is under way.
///
/// An SM that is reserved for no kernel is taken first, or for a kernel that has more SMs reserved than it can fill. Then that of
/// the kernel with the greatest `rank`; kernels without a rank lose nothing. Among several such SMs it is one with blocks of the
/// taker, if there is one, since nothing may have to be moved then.
pub(crate) fn retarget<R: Ord>(
    table: &Table,
    taker: Place,
    rank: impl Fn(Place, &Active) -> Option<R>,
) -> Option<Decision> {
    // SMs that are taken away are mostly for one kernel, so its count is made once.
    let mut counted: Option<(Place, bool)> = None;
    let mut has_surplus = |place: Place| match counted {
        Some((known, has)) if known == place => has,
        _ => counted.insert((place, table.has_surplus(place))).1,
    };
    let offers = table.sms().filter_map(|(sm, state)| {
        let State::Reserved { victim, next } = state else { return None };
        let offer = match next {
            Some(next) if next == taker => return None,
            Some(next) if victim == Some(next) || !has_surplus(next) => Some(rank(next, table.kernel(next)?)?),
            _ => None,
        };
        // `None` is an offer that costs no kernel anything, and goes first.
        let is_free = offer.is_none();
        Some(((is_free, offer, victim == Some(taker)), sm))
    });
    best(offers).map(|sm| Decision::Retarget { sm, next: taker })
}

/// Leaves `taker` an SM that its own blocks are on and that is reserved for a kernel with a `rank`.
pub(crate) fn take_back<R>(
    table: &Table,
    taker: Place,
    rank: impl Fn(Place, &Active) -> Option<R>,
) -> Option<Decision> {
    let is_lost = |state| match state {
        State::Reserved { victim, next: Some(next) } if victim == Some(taker) && next != taker => {
            table.kernel(next).is_some_and(|kernel| rank(next, kernel).is_some())
        }
        _ => false,
    };
    let sm = table.sms().find_map(|(sm, state)| is_lost(state).then_some(sm))?;
    Some(Decision::Retarget { sm, next: taker })
}

/// Reserves an SM for `taker`: one that runs the kernel with the greatest `rank`. Kernels without a rank lose nothing.
pub(crate) fn reserve<R: Ord>(
    table: &Table,
    taker: Place,
    rank: impl Fn(Place, &Active) -> Option<R>,
) -> Option<Decision> {
    let offers = table.sms().filter_map(|(sm, state)| {
        let State::Running(victim) = state else { return None };
        if victim == taker { None } else { Some((rank(victim, table.kernel(victim)?)?, sm)) }
    });
    best(offers).map(|sm| Decision::Reserve { sm, next: taker })
}

/// The SM with the greatest offer; of equal ones the first.
fn best<R: Ord>(offers: impl Iterator<Item = (R, Sm)>) -> Option<Sm> {
    let better = |best: (R, Sm), other: (R, Sm)| if other.0 > best.0 { other } else { best };
    offers.reduce(better).map(|(_, sm)| sm)
}

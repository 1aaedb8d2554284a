//! Preemptive priority queues: a kernel with a smaller key takes SMs away from kernels with greater ones.
//!
//! A kernel takes as many SMs as it has blocks for, those of the greatest key first. SMs whose preemption is under way go
//! before SMs that run, because they are free sooner. Kernels with equal keys take nothing from each other; the oldest is
//! served first.
//!
//! A kernel whose key falls behind and rises again while its SMs are taken away keeps those that its blocks are still on,
//! whether it has more blocks to issue or not. Otherwise they would go to a kernel with a greater key first, and would have to
//! be taken away from that one.
//!
//! SMs for which the kernel with the smallest key has no blocks are either left alone or shared:
//!
//! - *Exclusive*: an SM that is idle stays idle as long as a kernel with a smaller key is active. An SM that still has blocks of
//!   its own kernel keeps running, because no other kernel wants it.
//! - *Shared*: an idle SM goes to the kernel with the next key. It will soon be preempted again.
//!
//! Source: Tanasic et al., ISCA 2014, sections 4.2 and 4.3. The order of equal keys by age is ours.

use crate::policy::{Decision, Policy, first_issuable, first_of_its_context, reserve, retarget, take_back};
use crate::table::{Active, Context, Key, Place, State, Table};

/// Preemptive priority queues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ppq {
    /// Whether SMs that the kernel with the smallest key leaves free go to others.
    pub shared: bool,
}

impl Policy for Ppq {
    fn admit(&self, table: &Table) -> Option<Context> {
        first_of_its_context(table, |waits| (waits.key, waits.arrival))
    }

    fn decide(&self, table: &Table) -> Option<Decision> {
        let smallest = table.kernels().map(|(_, kernel)| kernel.key).min()?;
        let may_take = |kernel: &Active| self.shared || kernel.key == smallest;
        assign_first(table, may_take).or_else(|| take_first(table, may_take, |kernel| (kernel.key, kernel.arrival)))
    }
}

/// An idle SM goes to the kernel with the smallest key.
pub(crate) fn assign_first(table: &Table, may_take: impl Fn(&Active) -> bool) -> Option<Decision> {
    let sm = table.idle()?;
    let kernel = first_issuable(table, |kernel| may_take(kernel).then_some((kernel.key, kernel.arrival)))?;
    Some(Decision::Assign { sm, kernel })
}

/// A kernel takes an SM from a kernel with a greater key: the first kernel, by its key, that finds one. It takes an SM with
/// blocks of its own first, and then, if it wants more, that of the greatest `rank`.
pub(crate) fn take_first<R: Ord>(
    table: &Table,
    may_take: impl Fn(&Active) -> bool,
    rank: impl Fn(&Active) -> R,
) -> Option<Decision> {
    let greatest = table.kernels().map(|(_, kernel)| kernel.key).max()?;
    let is_any_reserved = table.sms().any(|(_, state)| matches!(state, State::Reserved { .. }));
    let mut after: Option<(Key, u64)> = None;
    loop {
        let later =
            table.kernels().filter(|(_, kernel)| may_take(kernel) && Some((kernel.key, kernel.arrival)) > after);
        let earlier = |one: &Active, other: &Active| (one.key, one.arrival) < (other.key, other.arrival);
        let (taker, &Active { key, arrival, .. }) =
            later.reduce(|first, other| if earlier(other.1, first.1) { other } else { first })?;
        // Neither this kernel nor a later one finds a kernel with a greater key, or an SM that is on its way to another kernel.
        if key == greatest && !is_any_reserved {
            return None;
        }
        let greater = |_: Place, kernel: &Active| (kernel.key > key).then(|| rank(kernel));
        let mut decision = take_back(table, taker, greater);
        if table.wanted(taker) > 0 {
            decision = decision.or_else(|| retarget(table, taker, greater)).or_else(|| reserve(table, taker, greater));
        }
        if decision.is_some() {
            return decision;
        }
        after = Some((key, arrival));
    }
}

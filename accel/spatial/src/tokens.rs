//! Dynamic spatial sharing: each kernel has a budget of tokens, and an SM costs one.
//!
//! A kernel may go into debt, so that no SM is idle while a kernel has blocks. When a kernel arrives that has tokens left, SMs
//! go from the kernel with the fewest tokens to the one with the most, until the two differ by at most one.
//!
//! # The corrected form
//!
//! Algorithm 1 of the paper cannot be coded as it is printed: it returns with idle SMs if all counts are equal, and so always
//! when one kernel is alone; its loop may end with idle SMs; it indexes the SM table by a kernel; and it never writes which
//! kernel an idle SM is set to. Here idle SMs are given away first, to the kernel with the most tokens of those with blocks to
//! issue, without a test for equal counts. Then SMs are taken away while the counts differ by more than one.
//!
//! Three details are ours. A kernel takes no more SMs than it has blocks for. Among kernels with equal counts the oldest takes, and
//! the youngest loses. An SM whose preemption is under way counts as an SM of the kernel that it is reserved for, and changes its
//! destination rather than that another SM is preempted.
//!
//! Source: Tanasic et al., ISCA 2014, section 3.4 and Algorithm 1.

use core::cmp::Reverse;

use crate::policy::{Decision, Policy, first_issuable, first_of_its_context, reserve, retarget};
use crate::table::{Active, Context, Place, State, Table};

/// The source of budgets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shares {
    /// Budgets come from the tokens of each context.
    Given,
    /// Equal sharing among so many processes: the SMs divided by the processes. The remaining SMs go, one each, to kernels in the
    /// order of arrival, as long as no active kernel has them.
    Equal {
        /// The number of processes that share the engine. 0 counts as 1.
        processes: u8,
    },
}

/// Dynamic spatial sharing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Dss {
    /// The source of budgets.
    pub shares: Shares,
}

impl Policy for Dss {
    fn admit(&self, table: &Table) -> Option<Context> {
        first_of_its_context(table, |waits| waits.arrival)
    }

    fn budget(&self, table: &Table, tokens: u16) -> u16 {
        let Shares::Equal { processes } = self.shares else { return tokens };
        let (sms, processes) = (table.sms, processes.max(1));
        let (share, left_over) = (i32::from(sms / processes), usize::from(sms % processes));
        let with_more = table.kernels().filter(|(_, kernel)| kernel.budget > share).count();
        (share + i32::from(with_more < left_over)) as u16
    }

    fn decide(&self, table: &Table) -> Option<Decision> {
        let all = |_: &Active| true;
        assign_richest(table, all).or_else(|| balance(table, all))
    }
}

/// An idle SM goes to the kernel with the most tokens, of those that `takes_part` names.
pub(crate) fn assign_richest(table: &Table, takes_part: impl Fn(&Active) -> bool) -> Option<Decision> {
    let sm = table.idle()?;
    let kernel = first_issuable(table, |kernel| takes_part(kernel).then_some(richest(kernel)))?;
    Some(Decision::Assign { sm, kernel })
}

/// An SM goes from the kernel with the fewest tokens to that with the most, of those that `takes_part` names.
pub(crate) fn balance(table: &Table, takes_part: impl Fn(&Active) -> bool) -> Option<Decision> {
    let wanting = table.kernels().filter(|&(place, kernel)| takes_part(kernel) && table.wanted(place) > 0);
    let (taker, most) = wanting.min_by_key(|(_, kernel)| richest(kernel))?;
    let nobody = |_: Place, _: &Active| None::<()>;
    if let Some(decision) = retarget(table, taker, nobody) {
        return Some(decision);
    }
    let others =
        table.kernels().filter(|&(place, kernel)| place != taker && takes_part(kernel) && has_an_sm(table, place));
    let (loser, fewest) = others.max_by_key(|(_, kernel)| richest(kernel))?;
    if most.count <= fewest.count + 1 {
        return None;
    }
    let only = |place: Place, _: &Active| (place == loser).then_some(());
    retarget(table, taker, only).or_else(|| reserve(table, taker, only))
}

/// The order of kernels by their tokens: the one with the most is first, and of those the oldest.
pub(crate) const fn richest(kernel: &Active) -> (Reverse<i32>, u64) {
    (Reverse(kernel.count), kernel.arrival)
}

fn has_an_sm(table: &Table, place: Place) -> bool {
    table.sms().any(|(_, state)| match state {
        State::Idle => false,
        State::Running(kernel) => kernel == place,
        State::Reserved { next, .. } => next == Some(place),
    })
}

//! Priorities for real-time contexts over sharing by tokens for the rest.
//!
//! | Class | Contexts | Among themselves |
//! |---|---|---|
//! | 1 | with a real-time key | [`Ppq`](crate::Ppq), shared: the smallest key first |
//! | 2 | best effort | [`Dss`](crate::Dss), with the tokens of their contexts |
//! | 3 | with an exhausted budget | the oldest first; they take no SM away |
//!
//! A context of one class takes SMs from all classes behind it: from exhausted contexts first, then from the best-effort kernel
//! with the fewest tokens, then from the greatest real-time key.
//!
//! A key may fall and rise while a kernel runs. The next decision goes by the new key. So a context that exhausts its budget
//! loses its SMs at once to others with blocks, and one whose key falls back gets them back as a newcomer would.
//!
//! SMs that the real-time class has give no tokens away: a best-effort kernel that lost an SM has one token more, and all of
//! them together differ by at most one as before.
//!
//! Ours: a combination of the paper's two policies.

use core::cmp::Reverse;

use crate::policy::{Decision, Policy, first_issuable, first_of_its_context, reserve, retarget};
use crate::priority::take_first;
use crate::table::{Active, Context, Key, Place, Table};
use crate::tokens::{assign_richest, balance, richest};

/// Priorities for real-time contexts over sharing by tokens for the rest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RealTime;

impl Policy for RealTime {
    fn admit(&self, table: &Table) -> Option<Context> {
        first_of_its_context(table, |waits| (waits.key, waits.arrival))
    }

    fn decide(&self, table: &Table) -> Option<Decision> {
        let is_real_time = |kernel: &Active| kernel.key.is_real_time();
        let is_best_effort = |kernel: &Active| kernel.key == Key::BEST_EFFORT;
        if let Some(sm) = table.idle() {
            let first = first_issuable(table, |kernel| is_real_time(kernel).then_some((kernel.key, kernel.arrival)));
            return first
                .map(|kernel| Decision::Assign { sm, kernel })
                .or_else(|| assign_richest(table, is_best_effort))
                .or_else(|| {
                    let oldest = first_issuable(table, |kernel| Some(kernel.arrival))?;
                    Some(Decision::Assign { sm, kernel: oldest })
                });
        }
        take_first(table, is_real_time, loses_first)
            .or_else(|| take_from_exhausted(table))
            .or_else(|| balance(table, is_best_effort))
            .or_else(|| take_what_is_free(table))
    }
}

/// The greatest loses an SM first: by its class, then by tokens or key.
fn loses_first(kernel: &Active) -> (Key, Reverse<i32>, u64) {
    // Within best effort and behind it keys are equal; a real-time kernel is compared by its key alone.
    let tokens = if kernel.key == Key::BEST_EFFORT { richest(kernel).0 } else { Reverse(0) };
    (kernel.key, tokens, kernel.arrival)
}

/// The best-effort kernel with the most tokens takes an SM of an exhausted context.
fn take_from_exhausted(table: &Table) -> Option<Decision> {
    let wanting = table.kernels().filter(|&(place, kernel)| kernel.key == Key::BEST_EFFORT && table.wanted(place) > 0);
    let (taker, _) = wanting.min_by_key(|(_, kernel)| richest(kernel))?;
    let exhausted = |_: Place, kernel: &Active| (kernel.key == Key::EXHAUSTED).then_some(kernel.arrival);
    retarget(table, taker, exhausted).or_else(|| reserve(table, taker, exhausted))
}

/// The oldest exhausted kernel takes an SM whose preemption is under way for no kernel.
fn take_what_is_free(table: &Table) -> Option<Decision> {
    let wanting = table.kernels().filter(|&(place, kernel)| kernel.key == Key::EXHAUSTED && table.wanted(place) > 0);
    let (taker, _) = wanting.min_by_key(|(_, kernel)| kernel.arrival)?;
    retarget(table, taker, |_, _| None::<()>)
}

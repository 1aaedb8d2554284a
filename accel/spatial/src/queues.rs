//! Policies without preemption: the engine belongs to one context at a time.
//!
//! A kernel that has started issues blocks until it has none left. Then SMs that become free take blocks of the launch that
//! is next in order, if it is of the same context: back-to-back execution. A launch of another context waits until the engine
//! is free.
//!
//! Source: Tanasic et al., ISCA 2014, section 2.3 (FCFS, back-to-back execution) and section 4.2 (NPQ). The order of equal keys by
//! age is ours.

use crate::policy::{Decision, Policy, first_issuable};
use crate::table::{Context, Table, Waits};

/// Launches run in the order of their arrival: the baseline.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Fcfs;

impl Policy for Fcfs {
    fn admit(&self, table: &Table) -> Option<Context> {
        next_in_line(table, |waits| waits.arrival)
    }

    fn decide(&self, table: &Table) -> Option<Decision> {
        assign_oldest(table)
    }
}

/// Non-preemptive priority queues: the waiting launch with the smallest key runs next; among equal keys, the oldest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Npq;

impl Policy for Npq {
    fn admit(&self, table: &Table) -> Option<Context> {
        next_in_line(table, |waits| (waits.key, waits.arrival))
    }

    fn decide(&self, table: &Table) -> Option<Decision> {
        assign_oldest(table)
    }
}

/// The first launch by `order`, if the engine is free for its context.
fn next_in_line<O: Ord>(table: &Table, order: impl Fn(&Waits) -> O) -> Option<Context> {
    let first = table.waiting().min_by_key(|waits| order(waits))?;
    let lets_in = table.kernels().all(|(_, kernel)| kernel.context == first.context && kernel.issuable == 0);
    lets_in.then_some(first.context)
}

fn assign_oldest(table: &Table) -> Option<Decision> {
    let sm = table.idle()?;
    first_issuable(table, |kernel| Some(kernel.arrival)).map(|kernel| Decision::Assign { sm, kernel })
}

//! How late the jobs of a graph are at most, if each of its nodes answers in time.
//!
//! The source is released by the clock, once a period *P*: its job *n* at *(n - 1) P*. Another node has *pe = window P / jobs* between two jobs on average; job *j* of it is due at *(j - 1) pe*. Let its
//! releases be at most *late* behind that, and each of its jobs end within *R* of its release. Job *j* of a consumer needs the first *n = ceil(((j - 1) consumed + threshold - initial) / produced)* jobs of
//! the producer, which end by *(n - 1) pe + late + R*. With *g = gcd(produced, consumed)*, the remainder of that division goes through all numbers that differ from *initial - threshold* by a multiple of *g*, so in the consumer's
//! own count that is at most
//!
//! > *late + R + pe (threshold - initial - g + ((initial - threshold) mod g)) / produced*
//!
//! and a release a period after the one before cannot be later than this either, as a period is no longer than *pe*. So *late* of a node is the largest sum over all paths to it; with a token for a job, the sum of the *R* before it.
//! Along a cycle that sum must not grow: then its tokens come back too late, and releases fall behind without end.
//!
//! A job uses tokens of the source's job *m*, the last that it needs. It is due no earlier than *m* was released, plus the least value of the same
//! terms: with *- produced* in place of *- g*. The largest of these sums over paths without initial tokens is what a job has *ahead* of its source,
//! and *late + R - ahead* its latency.
//!
//! Rests on this: a node's response times count from its releases, as those of a sporadic task, and no release is dropped. The kernel keeps the instants of releases that queue; how many may, [`Lateness::backlog`] says.
//!
//! Source: the sum over paths is that of Goddard 1998 and Elliott 2015, section 2.1.4, for a token for a job; rates, thresholds and cycles are ours.

use crate::edge::{Edge, NODES};
use crate::rate::{Rate, gcd};

/// A node, as far as its lateness is concerned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// How often it runs.
    pub rate: Rate,
    /// From the release of a job until it ends, at most; nanoseconds.
    pub response: u64,
}

/// Why nothing is known of a node's lateness.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unbounded {
    /// Tokens that this node puts come back to it later with each round.
    Cycle(usize),
    /// A number does not fit, or an edge is between nodes that there are not.
    TooLarge,
}

/// How late a node is; nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Lateness {
    /// Its job *j* is released at most this after *j - 1* of its mean periods.
    pub late: i64,
    /// The job is due at least this after the release of the source's job whose token it needs last.
    pub ahead: i64,
    /// From that release until the job ends, at most.
    pub latency: u64,
    /// The edge by which it is latest, by its place among the edges; `None`: the source.
    pub by: Option<usize>,
    /// Releases that may queue, for which it needs places.
    pub backlog: u64,
}

const UNKNOWN: i64 = i64::MIN;

impl Lateness {
    /// How many jobs of a writer may be under way until `reader`, which has its rate, has ended that works on the first of them: so many frames must there be that no writer waits for a reader.
    #[must_use]
    pub fn frames(&self, reader: &Lateness, rate: Rate, source: u64) -> u64 {
        // The reader's end and the earliest release of the writer, in the count that both have.
        let ends = i128::from(reader.latency) + i128::from(reader.ahead);
        let span = u128::try_from(ends - i128::from(self.ahead)).unwrap_or(0);
        let period = u128::from(rate.window).saturating_mul(u128::from(source)).max(1);
        u64::try_from((span * u128::from(rate.jobs)).div_ceil(period)).unwrap_or(u64::MAX).max(1)
    }
}

/// How late each of `nodes` is, of which number 0 is the source with this period, in nanoseconds.
///
/// # Errors
/// [`Unbounded`].
pub fn lateness(edges: &[Edge], nodes: &[Timing], source: u64) -> Result<[Lateness; NODES], Unbounded> {
    if nodes.len() > NODES || edges.iter().any(|edge| edge.from.max(edge.to) >= nodes.len()) {
        return Err(Unbounded::TooLarge);
    }
    // Unknown values are earlier than all else.
    let mut all = [Lateness { late: UNKNOWN, ahead: UNKNOWN, ..Lateness::default() }; NODES];
    (all[0].late, all[0].ahead) = (0, 0);
    let sum = |first: i64, second: i64| first.checked_add(second).ok_or(Unbounded::TooLarge);
    // A path without a cycle has fewer edges than there are nodes.
    for round in 0..=nodes.len() {
        let mut grown = None;
        for (place, edge) in edges.iter().enumerate().filter(|(_, edge)| edge.to != 0) {
            let Edge { from, to, .. } = *edge;
            if all[from].late == UNKNOWN {
                continue;
            }
            let response = i64::try_from(nodes[from].response).map_err(|_| Unbounded::TooLarge)?;
            let later = edge.later(nodes[from].rate, source).ok_or(Unbounded::TooLarge)?;
            let late = sum(sum(all[from].late, response)?, later)?;
            if late > all[to].late {
                (all[to].late, all[to].by) = (late, Some(place));
                grown = Some(to);
            }
            if edge.tokens.initial() == 0 && all[from].ahead != UNKNOWN {
                let ahead = edge.ahead(nodes[from].rate, source).ok_or(Unbounded::TooLarge)?;
                let ahead = sum(all[from].ahead, ahead)?;
                if ahead > all[to].ahead {
                    all[to].ahead = ahead;
                    grown = Some(to);
                }
            }
        }
        match grown {
            None => break,
            Some(node) if round == nodes.len() => return Err(Unbounded::Cycle(node)),
            Some(_) => {}
        }
    }
    if let Some(node) = all[..nodes.len()].iter().position(|node| node.ahead == UNKNOWN) {
        return Err(Unbounded::Cycle(node));
    }
    for (node, timing) in all.iter_mut().zip(nodes) {
        let ends = i128::from(node.late) + i128::from(timing.response) - i128::from(node.ahead);
        node.latency = u64::try_from(ends.max(0)).map_err(|_| Unbounded::TooLarge)?;
        // Jobs that have been released begin before they end; those that have not may have their tokens.
        let waits = u128::from(node.latency) * u128::from(timing.rate.jobs);
        let period = u128::from(timing.rate.window).saturating_mul(u128::from(source)).max(1);
        node.backlog = u64::try_from(waits.div_ceil(period)).map_err(|_| Unbounded::TooLarge)?.max(1);
    }
    Ok(all)
}

/// The job of the source, node 0, that brings the last tokens that job `job` of `node` needs, along edges on which nothing is at the start; both
/// count from 1.
#[must_use]
pub fn source_job(edges: &[Edge], node: usize, job: u64) -> u64 {
    let mut needed = [0_u64; NODES];
    if let Some(place) = needed.get_mut(node) {
        *place = job;
    }
    loop {
        let mut more = false;
        for edge in edges.iter().filter(|edge| edge.tokens.initial() == 0 && edge.from.max(edge.to) < NODES) {
            let before = if needed[edge.to] == 0 { 0 } else { edge.tokens.jobs_before(needed[edge.to]) };
            more |= before > needed[edge.from];
            needed[edge.from] = needed[edge.from].max(before);
        }
        if !more {
            return needed[0];
        }
    }
}

impl Edge {
    /// By how much the consumer's jobs may be behind the ends of those of a producer of this rate, in its own count, rounded up; nanoseconds. `None`: that does not fit.
    #[must_use]
    pub fn later(&self, from: Rate, source: u64) -> Option<i64> {
        let tokens = self.tokens;
        let common = gcd(tokens.produced().into(), tokens.consumed().into()).cast_signed();
        let lacks = i64::from(tokens.threshold()) - i64::from(tokens.initial());
        let term = self.of_period(from, source, lacks - common + (-lacks).rem_euclid(common))?;
        // Up: the remainder of a division by a positive number is not negative.
        i64::try_from(term.0 + i128::from(term.1 != 0)).ok()
    }

    /// How much earlier than its consumer's job a producer's job is due, the last that it needs, at least; rounded down.
    #[must_use]
    pub fn ahead(&self, from: Rate, source: u64) -> Option<i64> {
        let tokens = self.tokens;
        let common = gcd(tokens.produced().into(), tokens.consumed().into()).cast_signed();
        let lacks = i64::from(tokens.threshold()) - i64::from(tokens.initial());
        let term = self.of_period(from, source, lacks - i64::from(tokens.produced()) + (-lacks).rem_euclid(common))?;
        i64::try_from(term.0).ok()
    }

    /// So many tokens' part of a producer's mean period: whole nanoseconds, rounded down, and whether something is left.
    fn of_period(&self, from: Rate, source: u64, tokens: i64) -> Option<(i128, i128)> {
        let period = i128::from(from.window).checked_mul(source.into())?;
        let above = period.checked_mul(tokens.into())?;
        let below = i128::from(from.jobs.max(1)) * i128::from(self.tokens.produced());
        Some((above.div_euclid(below), above.rem_euclid(below)))
    }
}

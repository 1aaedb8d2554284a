//! How often each node of a graph runs.
//!
//! A node has a *rate*: at most so many jobs in any window of so many periods of the source. The rate of a consumer follows from those of its producers (2.8, 2.9), and its
//! period and relative deadline from that (2.10, 2.11).
//!
//! Corrected: example 2.1 prints `4 * 12 / gcd(4, 2)` for the window of an edge on which 2 are produced and 4 consumed; the rule gives `4 * 12 / gcd(2 * 4, 4)`, and the same 12.
//!
//! Source: Goddard 1998; Elliott 2015, section 2.1.4.

use crate::edge::{Edge, NODES, Tokens};

/// At most so many jobs in any window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    /// Jobs.
    pub jobs: u64,
    /// The window, in periods of the source.
    pub window: u64,
}

/// Why a node has no rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RateError {
    /// The node has no producer, and is no source.
    NoInput,
    /// The producer with this place among its inputs asks for another rate than the first one: tokens of one of them pile up without end.
    Uneven(usize),
    /// A number does not fit into 64 bits.
    TooLarge,
}

impl Rate {
    /// One job in each period: the source's.
    pub const SOURCE: Rate = Rate { jobs: 1, window: 1 };

    /// The rate of a node with these inputs, each the rate of the producer and the tokens on the edge.
    ///
    /// # Errors
    /// [`RateError`].
    pub fn of_consumer(inputs: impl Iterator<Item = (Rate, Tokens)> + Clone) -> Result<Rate, RateError> {
        let mut window = 1_u64;
        for (rate, tokens) in inputs.clone() {
            let arrive = u64::from(tokens.produced()).checked_mul(rate.jobs).ok_or(RateError::TooLarge)?;
            let consumed = u64::from(tokens.consumed());
            let of_edge = (consumed / gcd(arrive, consumed)).checked_mul(rate.window).ok_or(RateError::TooLarge)?;
            window = (window / gcd(window, of_edge)).checked_mul(of_edge).ok_or(RateError::TooLarge)?;
        }
        let mut common = None;
        for (place, (rate, tokens)) in inputs.enumerate() {
            // The window is a multiple of the producer's, and the tokens that arrive in it are a multiple of those that a job consumes.
            let arrive = u128::from(window / rate.window) * u128::from(rate.jobs) * u128::from(tokens.produced());
            let jobs = u64::try_from(arrive / u128::from(tokens.consumed())).map_err(|_| RateError::TooLarge)?;
            if *common.get_or_insert(jobs) != jobs {
                return Err(RateError::Uneven(place));
            }
        }
        common.map(|jobs| Rate { jobs, window }).ok_or(RateError::NoInput)
    }

    /// The fewest tokens that a job of a node of this rate must put on an edge, and one of a consumer of that rate take, so that neither runs away from the other. `None`: a number is too large.
    #[must_use]
    pub fn tokens_to(&self, consumer: Rate) -> Option<[u32; 2]> {
        let put = consumer.jobs.checked_mul(self.window)?;
        let taken = self.jobs.checked_mul(consumer.window)?;
        let common = gcd(put, taken);
        Some([u32::try_from(put / common).ok()?, u32::try_from(taken / common).ok()?])
    }

    /// Period and relative deadline of the node, where the source has this period. Rounded down: then no release is later than its tokens, with any
    /// remainder.
    #[must_use]
    pub fn period(&self, source: u64) -> u64 {
        let exact = u128::from(self.window) * u128::from(source) / u128::from(self.jobs.max(1));
        u64::try_from(exact).unwrap_or(u64::MAX)
    }
}

/// A node that runs a few jobs at most, however often the source does: a cycle that it is on has too few tokens at the start. `None`: each runs for ever, or numbers are too large to say.
///
/// If a node and all that it waits for can run as many jobs as make a whole round of the graph, the edges between them can have their tokens of the
/// start again, and so there is a next round.
#[must_use]
pub fn starved(edges: &[Edge], rates: &[Rate]) -> Option<usize> {
    let mut whole = 1_u64;
    for rate in rates {
        whole = (whole / gcd(whole, rate.window)).checked_mul(rate.window)?;
    }
    let mut round = [0_u64; NODES];
    for (round, rate) in round.iter_mut().zip(rates) {
        *round = rate.jobs.checked_mul(whole / rate.window)?;
    }
    // Jobs that each can run so far.
    let mut jobs = [0_u64; NODES];
    for _ in 0..ROUNDS {
        let mut progress = false;
        for node in 0..rates.len().min(NODES) {
            let ended = |edge: &Edge| edge.tokens.enough_for(jobs.get(edge.from).copied().unwrap_or(0));
            let upto = edges.iter().filter(|edge| edge.to == node).map(ended).min();
            // The source runs by itself, but where it waits for frames.
            let upto = upto.unwrap_or(if node == 0 { u64::MAX } else { 0 });
            progress |= upto > jobs[node];
            jobs[node] = upto.max(jobs[node]);
        }
        if !progress {
            return (0..rates.len().min(NODES)).find(|node| jobs[*node] < round[*node]);
        }
        let mut goes_on = core::array::from_fn::<_, NODES, _>(|node| jobs[node] >= round[node]);
        while let Some(edge) = edges.iter().find(|edge| goes_on[edge.to % NODES] && !goes_on[edge.from % NODES]) {
            goes_on[edge.to % NODES] = false;
        }
        jobs.iter_mut().zip(goes_on).filter(|(_, goes_on)| *goes_on).for_each(|(jobs, _)| *jobs = u64::MAX);
    }
    None
}

/// How often [`starved`] looks at all nodes.
const ROUNDS: u32 = 1 << 20;

pub(crate) const fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    if one == 0 { 1 } else { one }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn tokens(produced: u32, consumed: u32) -> Tokens {
        Tokens::new(produced, consumed, consumed, 0).unwrap()
    }

    /// The example of the text, with one job of the source in a window of four.
    #[test]
    fn rates_of_the_text() {
        let source = Rate { jobs: 1, window: 4 };
        let second = Rate::of_consumer([(source, tokens(4, 3))].into_iter()).unwrap();
        assert_eq!((second, second.period(1)), (Rate { jobs: 4, window: 12 }, 3));
        let third = Rate::of_consumer([(source, tokens(4, 3))].into_iter()).unwrap();
        let join = Rate::of_consumer([(second, tokens(1, 2)), (third, tokens(2, 4))].into_iter()).unwrap();
        assert_eq!((join, join.period(1)), (Rate { jobs: 2, window: 12 }, 6));
        assert_eq!((second.tokens_to(join), third.tokens_to(join)), (Some([1, 2]), Some([1, 2])));
        assert_eq!(source.tokens_to(second), Some([4, 3]));
        // 30 Hz, a token for a job.
        let node = Rate::of_consumer([(Rate::SOURCE, Tokens::ONE)].into_iter()).unwrap();
        assert_eq!((node, node.period(33_333_333)), (Rate::SOURCE, 33_333_333));
    }

    #[test]
    fn inputs_that_ask_for_different_rates_are_refused() {
        let inputs = [(Rate::SOURCE, tokens(1, 1)), (Rate::SOURCE, tokens(2, 1))];
        assert_eq!(Rate::of_consumer(inputs.into_iter()), Err(RateError::Uneven(1)));
        assert_eq!(Rate::of_consumer(core::iter::empty()), Err(RateError::NoInput));
        let large = Rate { jobs: u64::MAX, window: u64::MAX - 1 };
        assert_eq!(Rate::of_consumer([(large, tokens(2, 3))].into_iter()), Err(RateError::TooLarge));
    }

    /// A node that needs the tokens of three jobs of the source, while these may be so many jobs ahead.
    #[test]
    fn a_source_that_waits_for_frames_starves_who_needs_more_jobs_than_there_are_frames() {
        let ahead = |frames| {
            let edges = [
                Edge { from: 0, to: 1, tokens: Tokens::new(1, 1, 3, 0).unwrap() },
                Edge { from: 1, to: 0, tokens: Tokens::new(1, 1, 1, frames).unwrap() },
            ];
            starved(&edges, &[Rate::SOURCE; 2])
        };
        assert_eq!((ahead(2), ahead(3)), (Some(1), None));
    }

    proptest! {
        /// Chains: the jobs for which a window's tokens suffice, counted one by one, are those of the rate; and the period keeps up with it.
        #[test]
        fn as_many_jobs_as_tokens_are_there_for(chain in prop::collection::vec((1..6_u32, 1..6_u32), 1..5), source in 1_000..1_000_000_u64) {
            let mut rates = Vec::from([Rate::SOURCE]);
            for &(produced, consumed) in &chain {
                let last = *rates.last().unwrap();
                rates.push(Rate::of_consumer([(last, tokens(produced, consumed))].into_iter()).unwrap());
            }
            let periods = rates.last().unwrap().window;
            let mut jobs = periods;
            for (&(produced, consumed), rate) in chain.iter().zip(&rates[1..]) {
                jobs = tokens(produced, consumed).enough_for(jobs);
                prop_assert_eq!(jobs * rate.window, rate.jobs * periods);
                prop_assert!(u128::from(rate.period(source)) * u128::from(rate.jobs) <= u128::from(rate.window) * u128::from(source));
                prop_assert!(u128::from(rate.period(source) + 1) * u128::from(rate.jobs) > u128::from(rate.window) * u128::from(source));
            }
        }
    }
}

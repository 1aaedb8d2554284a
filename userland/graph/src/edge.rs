//! Tokens on one edge.

/// How many tokens go over an edge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tokens {
    produced: u32,
    consumed: u32,
    threshold: u32,
    initial: u32,
}

/// Why there is no such edge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EdgeError {
    /// A job produces or consumes no token: then one node never runs, or the other one for ever.
    Zero,
    /// A job may begin with fewer tokens than it takes.
    ThresholdBelowConsumption,
}

impl Tokens {
    /// A token for a job.
    pub const ONE: Tokens = Tokens { produced: 1, consumed: 1, threshold: 1, initial: 0 };

    /// Each job of the producer puts `produced` on the edge, each of the consumer takes `consumed`, and may begin when there are `threshold`; `initial` are there at the start.
    ///
    /// # Errors
    /// [`EdgeError`].
    pub const fn new(produced: u32, consumed: u32, threshold: u32, initial: u32) -> Result<Tokens, EdgeError> {
        if produced == 0 || consumed == 0 {
            return Err(EdgeError::Zero);
        }
        if threshold < consumed {
            return Err(EdgeError::ThresholdBelowConsumption);
        }
        Ok(Tokens { produced, consumed, threshold, initial })
    }

    /// Tokens that a job of the producer puts on the edge.
    #[must_use]
    pub const fn produced(&self) -> u32 {
        self.produced
    }

    /// Tokens that a job of the consumer takes.
    #[must_use]
    pub const fn consumed(&self) -> u32 {
        self.consumed
    }

    /// Tokens that have to be there before a job of the consumer may begin.
    #[must_use]
    pub const fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Tokens that are there at the start.
    #[must_use]
    pub const fn initial(&self) -> u32 {
        self.initial
    }

    /// The last job of the consumer that has its tokens once the producer has ended so many jobs; 0: none has.
    ///
    /// Job *j* begins when there are `threshold` tokens, and those before it have taken `(j - 1) * consumed`.
    #[must_use]
    pub const fn enough_for(&self, ended: u64) -> u64 {
        let there = (self.initial as u64).saturating_add(ended.saturating_mul(self.produced as u64));
        match there.checked_sub(self.threshold as u64) {
            Some(beyond) => beyond / self.consumed as u64 + 1,
            None => 0,
        }
    }

    /// How many jobs the producer has to have ended before job `job` of the consumer, from 1, can begin.
    #[must_use]
    pub const fn jobs_before(&self, job: u64) -> u64 {
        let taken = job.saturating_sub(1).saturating_mul(self.consumed as u64);
        let wanted = taken.saturating_add(self.threshold as u64).saturating_sub(self.initial as u64);
        wanted.div_ceil(self.produced as u64)
    }
}

/// An edge of a graph, between nodes by their numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Edge {
    /// The producer.
    pub from: usize,
    /// The consumer.
    pub to: usize,
    /// The tokens on the edge.
    pub tokens: Tokens,
}

/// Nodes of one graph.
pub const NODES: usize = 32;
/// The most tokens that a job produces or consumes.
pub const AT_ONCE: u32 = (1 << 10) - 1;
/// The most tokens of a threshold, and at the start.
pub const THERE: u32 = (1 << 16) - 1;

impl Edge {
    /// As a parameter: from the lowest bit 5 bits of `from`, 5 of `to`, 10 each of produced and consumed tokens, 16 each of the threshold and of the
    /// tokens at the start. `None`: a number is too large.
    #[must_use]
    pub const fn encode(&self) -> Option<u64> {
        let Tokens { produced, consumed, threshold, initial } = self.tokens;
        let fits = self.from < NODES && self.to < NODES && produced <= AT_ONCE && consumed <= AT_ONCE;
        if !fits || threshold > THERE || initial > THERE {
            return None;
        }
        let nodes = self.from as u64 | (self.to as u64) << 5;
        let moved = (produced as u64) << 10 | (consumed as u64) << 20;
        Some(nodes | moved | (threshold as u64) << 30 | (initial as u64) << 46)
    }

    /// The edge that [`Edge::encode`] packed into the parameter `word`. `None`: bit 62 or 63 is set, or [`Tokens::new`] refuses the tokens.
    #[must_use]
    pub const fn decode(word: u64) -> Option<Edge> {
        if word >> 62 != 0 {
            return None;
        }
        let (produced, consumed) = ((word >> 10) as u32 & AT_ONCE, (word >> 20) as u32 & AT_ONCE);
        let (threshold, initial) = ((word >> 30) as u32 & THERE, (word >> 46) as u32 & THERE);
        match Tokens::new(produced, consumed, threshold, initial) {
            Ok(tokens) => Some(Edge { from: word as usize % NODES, to: (word >> 5) as usize % NODES, tokens }),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against tokens that are counted one by one.
        #[test]
        fn a_job_begins_when_its_tokens_are_there(produced in 1..7_u32, consumed in 1..7_u32, more in 0..5_u32, initial in 0..20_u32) {
            let tokens = Tokens::new(produced, consumed, consumed + more, initial).unwrap();
            let (mut there, mut begun) = (u64::from(initial), 0);
            for ended in 0..50 {
                while there >= u64::from(consumed + more) {
                    there -= u64::from(consumed);
                    begun += 1;
                    prop_assert_eq!(tokens.jobs_before(begun), ended);
                }
                prop_assert_eq!(tokens.enough_for(ended), begun);
                there += u64::from(produced);
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_said_by_a_parameter_is_what_was_meant(from in 0..NODES, to in 0..NODES, produced in 1..=AT_ONCE, consumed in 1..=AT_ONCE, threshold in 1..=THERE, initial in 0..=THERE) {
            let Ok(tokens) = Tokens::new(produced, consumed, threshold, initial) else { return Ok(()) };
            let edge = Edge { from, to, tokens };
            prop_assert_eq!(edge.encode().and_then(Edge::decode), Some(edge));
            prop_assert!(edge.encode().unwrap() < 1 << 62);
        }

        #[test]
        fn whatever_a_parameter_says_is_an_edge_or_nothing(word: u64) {
            if let Some(edge) = Edge::decode(word) {
                prop_assert_eq!(edge.encode(), Some(word));
            }
        }
    }

    #[test]
    fn an_edge_on_which_nothing_moves_is_refused() {
        assert_eq!(Tokens::new(0, 1, 1, 0), Err(EdgeError::Zero));
        assert_eq!(Tokens::new(1, 0, 1, 0), Err(EdgeError::Zero));
        assert_eq!(Tokens::new(1, 3, 2, 0), Err(EdgeError::ThresholdBelowConsumption));
        assert_eq!(Tokens::ONE.enough_for(u64::MAX), u64::MAX);
    }
}

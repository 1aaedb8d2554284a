//! The GPU of each token, and the distances between the GPUs of a pool.
//!
//! A pool hands out the same number of tokens for each GPU. Replica `x` of the pool is a token of GPU `floor(x / tokens)`:
//! the first tokens are those of GPU 0, the next those of GPU 1.
//!
//! # Where the text is corrected
//!
//! It prints `floor(x / g)`, with the number of GPUs. That holds only if there are as many GPUs as tokens of each; the
//! text's own figure 3.10 puts queues 0 and 1 on the first of its GPUs.
//!
//! Source: Elliott 2015, sections 3.2.3.2 and 3.2.3.3.

/// The distance that a task moves with its data: the connection that a copy between two GPUs passes through.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Distance {
    /// No way: the task stays, or comes from nowhere.
    #[default]
    Same = 0,
    /// One switch, from GPU to GPU.
    Near = 1,
    /// The hub above the switches, from GPU to GPU.
    Far = 2,
    /// System memory: one copy out, one copy in.
    System = 3,
}

impl Distance {
    /// The number of distances.
    pub const COUNT: usize = 4;

    /// The one with this [number](Self::number).
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Same),
            1 => Some(Self::Near),
            2 => Some(Self::Far),
            3 => Some(Self::System),
            _ => None,
        }
    }

    /// The number of the distance, from 0 for the shortest.
    #[must_use]
    pub const fn number(self) -> usize {
        self as usize
    }
}

/// The reason why GPUs cannot be as described.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TopologyError {
    /// There are no GPUs, more than there is room for, or none has a token.
    Size,
    /// More tokens than a pool has replicas: 255.
    TooManyTokens,
    /// A GPU is away from itself, or another is not.
    Place {
        /// From here.
        from: u8,
        /// To there.
        to: u8,
    },
    /// It is not as far back.
    OneWay {
        /// From here.
        from: u8,
        /// To there.
        to: u8,
    },
}

/// The GPUs of a pool, `G` of them at most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Topology<const G: usize> {
    gpus: u8,
    tokens: u8,
    distances: [[Distance; G]; G],
}

impl<const G: usize> Topology<G> {
    /// No GPU. All zero bytes.
    pub const EMPTY: Self = Self { gpus: 0, tokens: 0, distances: [[Distance::Same; G]; G] };

    /// The first `gpus` GPUs of the matrix `distances`, shape `[from: G][to: G]`, each with `tokens` tokens.
    ///
    /// # Errors
    /// [`TopologyError`], the first that is found.
    pub const fn new(gpus: u8, tokens: u8, distances: [[Distance; G]; G]) -> Result<Self, TopologyError> {
        let topology = Self { gpus, tokens, distances };
        match topology.check() {
            Ok(()) => Ok(topology),
            Err(error) => Err(error),
        }
    }

    /// Becomes the topology of [`new`](Self::new) with the distances of these numbers, in place: for boot.
    ///
    /// # Errors
    /// [`TopologyError`]; a number that no distance has is a fault of its place.
    pub fn set(&mut self, gpus: u8, tokens: u8, numbers: &[[u8; G]; G]) -> Result<(), TopologyError> {
        (self.gpus, self.tokens) = (gpus, tokens);
        for (from, (row, numbers)) in (0..).zip(self.distances.iter_mut().zip(numbers)) {
            for (to, (distance, number)) in (0..).zip(row.iter_mut().zip(numbers)) {
                *distance = Distance::from_number(*number).ok_or(TopologyError::Place { from, to })?;
            }
        }
        self.check()
    }

    const fn check(&self) -> Result<(), TopologyError> {
        let Self { gpus, tokens, distances } = self;
        let (gpus, tokens) = (*gpus, *tokens);
        if gpus == 0 || gpus as usize > G || tokens == 0 {
            return Err(TopologyError::Size);
        }
        if gpus as u16 * tokens as u16 > u8::MAX as u16 {
            return Err(TopologyError::TooManyTokens);
        }
        // Loops of this kind, because a constant function has no others.
        let mut from = 0;
        while from < gpus {
            let mut to = 0;
            while to <= from {
                let there = distances[from as usize][to as usize];
                if matches!(there, Distance::Same) != (from == to) {
                    return Err(TopologyError::Place { from, to });
                }
                if there as u8 != distances[to as usize][from as usize] as u8 {
                    return Err(TopologyError::OneWay { from, to });
                }
                to += 1;
            }
            from += 1;
        }
        Ok(())
    }

    /// The number of tokens: `k`.
    #[must_use]
    pub const fn replicas(&self) -> u8 {
        self.gpus * self.tokens
    }

    /// The GPU whose token `replica` is. `None` if there is no such replica.
    #[must_use]
    pub const fn gpu_of(&self, replica: u8) -> Option<u8> {
        if replica < self.replicas() { Some(replica / self.tokens) } else { None }
    }

    /// The distance between two GPUs. `None` if there is no such GPU.
    #[must_use]
    pub fn distance(&self, from: u8, to: u8) -> Option<Distance> {
        let known = from < self.gpus && to < self.gpus;
        known.then(|| self.distances[usize::from(from)][usize::from(to)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Distance::{Far, Near, Same, System};

    const PAIRS: [[Distance; 4]; 4] =
        [[Same, Near, Far, Far], [Near, Same, Far, Far], [Far, Far, Same, Near], [Far, Far, Near, Same]];

    /// Elliott 2015, figure 3.10: two tokens for each GPU.
    #[test]
    fn the_first_tokens_are_those_of_the_first_gpu() {
        let two = Topology::new(2, 2, [[Same, Near], [Near, Same]]).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|replica| two.gpu_of(replica)), [Some(0), Some(0), Some(1), Some(1), None]);
        // Here the printed index floor(x / g) would name GPUs that do not exist.
        let three = Topology::new(2, 3, [[Same, Near], [Near, Same]]).unwrap();
        assert_eq!(three.replicas(), 6);
        assert_eq!([2, 3, 5].map(|replica| three.gpu_of(replica)), [Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let all = Topology::new(4, 3, PAIRS).unwrap();
        assert_eq!((all.distance(0, 1), all.distance(3, 1), all.distance(2, 2)), (Some(Near), Some(Far), Some(Same)));
        let three = Topology::new(3, 85, PAIRS).unwrap();
        assert_eq!((three.replicas(), three.distance(0, 3), three.distance(3, 0)), (255, None, None));

        assert_eq!(Topology::new(0, 1, PAIRS), Err(TopologyError::Size));
        assert_eq!(Topology::new(4, 0, PAIRS), Err(TopologyError::Size));
        assert_eq!(Topology::new(5, 1, PAIRS), Err(TopologyError::Size));
        assert_eq!(Topology::new(4, 64, PAIRS), Err(TopologyError::TooManyTokens));
        let with = |from: usize, to: usize, distance| {
            let mut distances = PAIRS;
            distances[from][to] = distance;
            Topology::new(4, 1, distances)
        };
        assert_eq!(with(2, 2, Near), Err(TopologyError::Place { from: 2, to: 2 }));
        assert_eq!(with(3, 1, Same), Err(TopologyError::Place { from: 3, to: 1 }));
        assert_eq!(with(0, 3, System), Err(TopologyError::OneWay { from: 3, to: 0 }));
    }
}

//! Operations cut into blocks, at the ends of which a preemptible engine can be given to another.
//!
//! A block is an operation of its own, and a command like any other. So an engine is idle between two of them, by the same two
//! words as ever, and a kernel that knows nothing of blocks may let it move on. A block of a filter is a filter of fewer samples;
//! blocks of a transform are its stages, between which the device keeps the state of the context. No data moves because of a
//! cut.

use crate::Operation;

/// Samples that a filter puts out in a block.
pub const FILTER_BLOCK: u16 = 128;

impl Operation {
    /// In how many blocks a preemptible engine can do it, one after the other: 1, if it cannot be cut.
    #[must_use]
    pub const fn blocks(&self) -> u16 {
        match *self {
            Self::Filter { samples: 1.., .. } => self.samples().div_ceil(FILTER_BLOCK),
            Self::Transform { points: 2.., .. } => self.stages(),
            _ => 1,
        }
    }

    /// Block `number`, from 0. All blocks in their order write what the operation would have written at once, bit by bit,
    /// provided that a filter writes to none of the samples that it reads.
    #[must_use]
    pub const fn block(&self, number: u16) -> Self {
        match *self {
            Self::Filter { source, coefficients, destination, samples, length } => {
                let begin = number.saturating_mul(FILTER_BLOCK);
                let left = samples.saturating_sub(begin);
                let offset = 2 * begin as u64;
                Self::Filter {
                    source: source.wrapping_add(offset),
                    coefficients,
                    destination: destination.wrapping_add(offset),
                    samples: if left < FILTER_BLOCK { left } else { FILTER_BLOCK },
                    length,
                }
            }
            Self::Transform { source, destination, points } => {
                Self::TransformStage { source, destination, points, stage: number }
            }
            whole => whole,
        }
    }

    /// How many stages a transform has, or the transform of which this is one.
    #[must_use]
    pub const fn stages(&self) -> u16 {
        match *self {
            // No points make a bad command, not a bad device.
            Self::Transform { points, .. } | Self::TransformStage { points, .. } if points > 0 => points.ilog2() as u16,
            _ => 0,
        }
    }

    const fn samples(&self) -> u16 {
        if let Self::Filter { samples, .. } = *self { samples } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{COEFFICIENTS_MAX, Command, ImageSize, POINTS_MAX, SAMPLES_MAX};
    use proptest::prelude::*;

    fn is_valid(operation: Operation) -> bool {
        Command { operation, fence: None }.is_valid()
    }

    proptest! {
        /// Each sample once, from where it belongs and to where it belongs.
        #[test]
        fn the_blocks_of_a_filter_put_out_all_its_samples(
            samples in 1..=SAMPLES_MAX,
            length in 1..=COEFFICIENTS_MAX,
            at in 0_u64..1 << 20,
        ) {
            let (source, coefficients, destination) = (8 * at, 16, 1 << 30);
            let whole = Operation::Filter { source, coefficients, destination, samples, length };
            let mut done = 0;
            for block in (0..whole.blocks()).map(|number| whole.block(number)) {
                let offset = 2 * u64::from(done);
                let (source, destination, samples) = (source + offset, destination + offset, FILTER_BLOCK.min(samples - done));
                prop_assert_eq!(block, Operation::Filter { source, coefficients, destination, samples, length });
                prop_assert!(is_valid(block));
                done += samples;
            }
            prop_assert_eq!(done, samples);
        }
    }

    #[test]
    fn the_blocks_of_a_transform_are_its_stages_and_no_more() {
        let (source, destination) = (8, 16);
        for stages in 1..=POINTS_MAX.ilog2() as u16 {
            let points = 1 << stages;
            let whole = Operation::Transform { source, destination, points };
            assert_eq!(whole.blocks(), stages);
            for stage in 0..stages {
                assert_eq!(whole.block(stage), Operation::TransformStage { source, destination, points, stage });
                assert!(is_valid(whole.block(stage)));
            }
            assert!(!is_valid(whole.block(stages)));
        }
        assert!(!is_valid(Operation::TransformStage { source, destination, points: 0, stage: 0 }));
    }

    #[test]
    fn what_cannot_be_cut_is_one_block() {
        let size = ImageSize { width: 8, height: 8 };
        for whole in [Operation::Gradient { source: 8, destination: 80, size }, Operation::Burn { time: 9 }] {
            assert_eq!((whole.blocks(), whole.block(0)), (1, whole));
        }
    }
}

//! How long each command takes: the one place that says so.
//!
//! The device does real work on real data, but *when* it is done comes from here, so the
//! same command takes the same time in every run and in every program that asks.
//!
//! # The rule behind the numbers
//!
//! An emulated engine core shares one timeline with up to three busy CPUs and executes one
//! instruction in a nanosecond. Real work must fit in half the modelled time even so: a
//! command may cost at most an eighth of its modelled nanoseconds in instructions. Each
//! rate below says what that leaves. Measured with release code in QEMU, one nanosecond an
//! instruction: a gradient takes 96 % of it, a block match 90 to 95 %, a copy of 8 bytes 92 %,
//! all else less than 80 %, with all eight contexts open. Filters and transforms were not measured so:
//! the instructions of their loops were counted.
//!
//! All results are nanoseconds. Sums saturate: an endless burn is allowed.

use crate::{Command, EngineIndex, ImageSize, Operation};

/// Fetching and checking a command. All a refused command takes, and the least any takes: so
/// nobody can keep the device busier than its model says. 3,100 instructions.
pub const SETUP: u64 = 25_000;
/// The same for a command of the execution engine that has operands. 5,000 instructions.
pub const EXECUTION_SETUP: u64 = 40_000;
/// Each byte of a copy: 100 MB/s. 10 instructions for 8 bytes.
pub const COPY_BYTE: u64 = 10;
/// Each pixel of a gradient: 2 ms for 128 x 96. 20 instructions.
pub const GRADIENT_PIXEL: u64 = 160;
/// Each comparison of a block match: 9 ms for 128 x 96, radius 6, stride 4. 8.5 instructions.
pub const MATCH_COMPARISON: u64 = 68;
/// Each row of a block match, for each displacement, in comparisons.
pub const MATCH_ROW: u64 = 8;
/// Each pixel of a shift: 1 ms for 128 x 96. 10 instructions.
pub const SHIFT_PIXEL: u64 = 80;
/// Each multiplication of a matrix product: 5.2 ms for order 32. 20 instructions.
pub const MATRIX_STEP: u64 = 160;
/// Each multiplication of a filter: 2 ms for 1024 samples and 32 coefficients. 5 instructions.
pub const FILTER_STEP: u64 = 48;
/// Each sample of a filter, in multiplications. 40 instructions.
pub const FILTER_SAMPLE: u64 = 8;
/// Each pair of points that a stage of a transform combines: 1.1 ms for 512 points. 35 instructions.
pub const TRANSFORM_STEP: u64 = 320;
/// What it takes to read, sort and write the points, in stages: half of it before the first, half of it after the last.
pub const TRANSFORM_STAGES: u64 = 4;

/// How long after its modelled instant a completion may be announced without being counted
/// as late: a quarter of the 1 ms grid on which conformance systems compare their traces.
pub const LATE_TOLERANCE: u64 = 250_000;

/// How late [`crate::INJECT_LATE`] makes interrupts.
pub const INJECT_DELAY: u64 = 3_000_000;
/// How long after one spurious interrupt of [`crate::INJECT_SPURIOUS`] the next comes.
pub const INJECT_PERIOD: u64 = 100_000;

/// By how many percent each byte of a copy takes longer than [`COPY_BYTE`]: because the way is far, or the bus is busy.
///
/// An input of the model, constant in a run: [`NEAR`](Slowdown::NEAR) is a way on which nobody else copies, what others
/// cost is what was measured elsewhere. Never faster than that, so that the rule above holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Slowdown(pub u32);

impl Slowdown {
    /// As fast as copies are.
    pub const NEAR: Self = Self(0);
}

/// Nanoseconds `command` keeps `engine` busy, if a copy takes the [nearest](Slowdown::NEAR) way.
///
/// A command that `engine` does not know is refused, which takes [`SETUP`]. One that faults
/// on its way takes as long as if it had not.
#[must_use]
pub const fn modelled_time(command: &Command, engine: EngineIndex) -> u64 {
    modelled_time_over(Slowdown::NEAR, command, engine)
}

/// The same, if a copy takes a way that is `slower`.
#[must_use]
pub const fn modelled_time_over(slower: Slowdown, command: &Command, engine: EngineIndex) -> u64 {
    if !command.operation.runs_on(engine) {
        return SETUP;
    }
    let work = match command.operation {
        Operation::Burn { time } if time < SETUP => return SETUP,
        Operation::Burn { time } => return time,
        Operation::Copy { length, .. } | Operation::PeerCopy { length, .. } => {
            let near = length.saturating_mul(COPY_BYTE);
            let more = near.saturating_mul(slower.0 as u64) / 100;
            return near.saturating_add(more).saturating_add(SETUP);
        }
        Operation::Gradient { size, .. } => size.pixels() as u64 * GRADIENT_PIXEL,
        Operation::BlockMatch { size, radius, stride, .. } => comparisons(size, radius, stride) * MATCH_COMPARISON,
        Operation::Shift { size, .. } => size.pixels() as u64 * SHIFT_PIXEL,
        Operation::MatrixProduct { order, time, .. } => {
            let needed = (order as u64).pow(3) * MATRIX_STEP;
            // An explicit time is exact, like a burn's, unless the work needs longer.
            if time > needed + EXECUTION_SETUP {
                return time;
            }
            needed
        }
        Operation::Filter { samples, length, .. } => samples as u64 * (length as u64 + FILTER_SAMPLE) * FILTER_STEP,
        Operation::Transform { points, .. } => combinations(points) * TRANSFORM_STEP,
        Operation::TransformStage { points, stage, .. } => {
            let ends = (stage == 0) as u64 + (stage + 1 == command.operation.stages()) as u64;
            points as u64 / 2 * (1 + ends * TRANSFORM_STAGES / 2) * TRANSFORM_STEP
        }
    };
    work + EXECUTION_SETUP
}

/// Comparisons of a block match: displacements times rows times compared pixels of a row, of
/// which each row has [`MATCH_ROW`] more than it seems.
#[must_use]
pub const fn comparisons(size: ImageSize, radius: u8, stride: u8) -> u64 {
    let side = 2 * radius as u64 + 1;
    let (columns, rows) = (samples(size.width, radius, stride), samples(size.height, radius, stride));
    side * side * rows * (columns + MATCH_ROW)
}

/// Combinations of two points of a transform: half as many as points in each stage, and [`TRANSFORM_STAGES`] more than
/// the `log2(points)` that it has.
#[must_use]
pub const fn combinations(points: u16) -> u64 {
    // As with the stride.
    let stages = if points == 0 { 0 } else { points.ilog2() as u64 };
    points as u64 / 2 * (stages + TRANSFORM_STAGES)
}

const fn samples(length: u16, radius: u8, stride: u8) -> u64 {
    // A stride of 0 makes a bad command, not a bad device.
    let stride = if stride == 0 { 1 } else { stride as u64 };
    (length as u64).saturating_sub(2 * radius as u64).div_ceil(stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAMERA: ImageSize = ImageSize { width: 128, height: 96 };

    fn time(operation: Operation, engine: EngineIndex) -> u64 {
        modelled_time(&Command { operation, fence: None }, engine)
    }

    #[test]
    fn the_published_times_hold() {
        let (source, destination) = (0, 0);
        let page = Operation::Copy { source, destination, length: 4096 };
        assert_eq!(time(page, EngineIndex::CopyIn), 65_960);
        assert_eq!(time(page, EngineIndex::Execution), SETUP);
        let gradient = Operation::Gradient { source, destination, size: CAMERA };
        assert_eq!(time(gradient, EngineIndex::Execution), 2_006_080);
        let block_match =
            Operation::BlockMatch { reference: 0, current: 0, result: 0, size: CAMERA, radius: 6, stride: 4 };
        assert_eq!(comparisons(CAMERA, 6, 4), 169 * 21 * (29 + 8));
        assert_eq!(time(block_match, EngineIndex::Execution), 8_969_284);
        let shift = Operation::Shift { source, destination, displacement: 0, size: CAMERA };
        assert_eq!(time(shift, EngineIndex::Execution), 1_023_040);
        let filter = Operation::Filter { source, coefficients: 0, destination, samples: 1024, length: 32 };
        assert_eq!(time(filter, EngineIndex::Execution), 2_006_080);
        let transform = |points| Operation::Transform { source, destination, points };
        assert_eq!(time(transform(512), EngineIndex::Execution), 1_104_960);
        assert_eq!(time(transform(0), EngineIndex::Execution), EXECUTION_SETUP);
    }

    #[test]
    fn in_blocks_an_operation_takes_longer_by_their_setup() {
        for operation in [
            Operation::Filter { source: 0, coefficients: 0, destination: 0, samples: 1000, length: 32 },
            Operation::Transform { source: 0, destination: 0, points: 512 },
            Operation::Transform { source: 0, destination: 0, points: 2 },
            Operation::Gradient { source: 0, destination: 0, size: CAMERA },
        ] {
            let blocks = (0..operation.blocks()).map(|number| time(operation.block(number), EngineIndex::Execution));
            let more = u64::from(operation.blocks() - 1) * EXECUTION_SETUP;
            assert_eq!(blocks.sum::<u64>(), time(operation, EngineIndex::Execution) + more);
        }
        let stage = Operation::TransformStage { source: 0, destination: 0, points: 512, stage: 4 };
        assert_eq!(time(stage, EngineIndex::Execution), 121_920);
    }

    #[test]
    fn only_copies_are_slower_over_a_slow_way_and_they_by_the_byte() {
        let (source, destination, length) = (0, 0, 4096);
        let over = |percent, operation, engine| {
            modelled_time_over(Slowdown(percent), &Command { operation, fence: None }, engine)
        };
        let copies =
            [Operation::Copy { source, destination, length }, Operation::PeerCopy { source, destination, length }];
        for copy in copies {
            let times = [0, 100, 120].map(|percent| over(percent, copy, EngineIndex::CopyIn));
            assert_eq!(times, [SETUP + 40_960, SETUP + 81_920, SETUP + 90_112]);
        }
        let peer = Operation::PeerCopy { source, destination, length: u64::MAX };
        assert!(over(100, peer, EngineIndex::CopyIn) > u64::MAX / 2, "for ever, but no overflow");
        assert_eq!(over(100, peer, EngineIndex::CopyOut), SETUP, "the device that gets the bytes fetches them");
        let product = Operation::MatrixProduct { left: 0, right: 0, product: 0, order: 8, time: 0 };
        assert_eq!(over(100, product, EngineIndex::Execution), 121_920);
    }

    #[test]
    fn an_explicit_time_is_exact_and_may_be_endless() {
        for engine in EngineIndex::ALL {
            assert_eq!(time(Operation::Burn { time: 0 }, engine), SETUP);
            assert_eq!(time(Operation::Burn { time: 3_000_000 }, engine), 3_000_000);
            assert_eq!(time(Operation::Burn { time: u64::MAX }, engine), u64::MAX);
        }
        let product = |time| Operation::MatrixProduct { left: 0, right: 0, product: 0, order: 8, time };
        assert_eq!(time(product(5_000_000), EngineIndex::Execution), 5_000_000);
        assert_eq!(time(product(0), EngineIndex::Execution), 121_920);
    }
}

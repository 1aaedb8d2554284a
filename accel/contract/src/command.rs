//! Commands: what a client asks of an engine, and the 64 bytes that say so.
//!
//! [`Command::decode`] is the only way from bytes to a command, so a command that exists
//! has sizes within its limits, aligned addresses and no forgotten field. Whether its
//! addresses are mapped is a question for the translation table.
//!
//! ```text
//! offset  bytes  field
//! 0x00    4      operation code
//! 0x04    4      flags, 0
//! 0x08    8      source        device address
//! 0x10    8      destination   device address
//! 0x18    8      second        device address: second operand
//! 0x20    2      width         pixels; rows and columns of a matrix; samples; points
//! 0x22    2      height        pixels; coefficients; number of a stage
//! 0x24    1      radius        pixels
//! 0x25    1      stride        pixels
//! 0x26    2      0
//! 0x28    8      amount        bytes of a copy, also from a peer; nanoseconds of a burn or product
//! 0x30    8      fence         device address, 0 for none
//! 0x38    4      fence value   below 2^31
//! 0x3C    4      0
//! ```
//!
//! Fields an operation does not use are 0.

use crate::{EngineIndex, FENCE_ERROR};

/// Bytes of a command.
pub const COMMAND_BYTES: usize = 64;
/// Alignment of operands, in bytes. The length of a copy is a multiple of it, too.
pub const OPERAND_ALIGNMENT: u64 = 8;
/// Most pixels of an image.
pub const IMAGE_PIXELS: usize = 16 * 1024;
/// Most pixels of one side of an image.
pub const IMAGE_SIDE: u16 = 1024;
/// Largest search radius, in pixels.
pub const RADIUS_MAX: u8 = 16;
/// Most rows and columns of a matrix.
pub const MATRIX_ORDER_MAX: u16 = 32;
/// Most samples that a filter puts out.
pub const SAMPLES_MAX: u16 = 4096;
/// Most coefficients of a filter.
pub const COEFFICIENTS_MAX: u16 = 128;
/// Most points of a Fourier transform.
pub const POINTS_MAX: u16 = 512;
/// Bytes of the result of [`Operation::BlockMatch`].
pub const MATCH_BYTES: usize = 16;

/// Width and height of an image of 8-bit pixels, rows without gaps, at most [`IMAGE_PIXELS`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ImageSize {
    /// Pixels in a row, 1 to [`IMAGE_SIDE`].
    pub width: u16,
    /// Rows, 1 to [`IMAGE_SIDE`].
    pub height: u16,
}

impl ImageSize {
    /// Pixels, and so bytes, of the image.
    #[must_use]
    pub const fn pixels(self) -> usize {
        self.width as usize * self.height as usize
    }

    const fn is_valid(self) -> bool {
        let sides = self.width <= IMAGE_SIDE && self.height <= IMAGE_SIDE;
        sides && self.pixels() > 0 && self.pixels() <= IMAGE_PIXELS
    }
}

/// What an engine is asked to do. Addresses are device addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Copies `length` bytes. Copy engines only: `CopyIn` from system to local memory,
    /// `CopyOut` from local to system memory, an only copy engine from either to the other. Overlap is undefined.
    Copy {
        /// Where from.
        source: u64,
        /// Where to.
        destination: u64,
        /// Bytes, a positive multiple of [`OPERAND_ALIGNMENT`].
        length: u64,
    },
    /// Copies `length` bytes from the memory of another device into this device's. `CopyIn` only. The copy engine of the
    /// other device has no part in it here, but on other hardware might, so its lock is held, too.
    PeerCopy {
        /// Where from: memory of another device, as this device sees it.
        source: u64,
        /// Where to.
        destination: u64,
        /// Bytes, a positive multiple of [`OPERAND_ALIGNMENT`].
        length: u64,
    },
    /// Turns an image into the strength of its edges: the sum of the absolute horizontal and
    /// vertical central differences, at most 255. Pixels beyond the border equal the border.
    Gradient {
        /// The image.
        source: u64,
        /// The gradient image, of the same size.
        destination: u64,
        /// Size of both.
        size: ImageSize,
    },
    /// Finds how far an image has moved: the displacement (dx, dy), each within `radius`, for
    /// which `current(x + dx, y + dy)` differs least from `reference(x, y)`. Compares each
    /// `stride`-th pixel of each `stride`-th row, leaving out a border of `radius`. Of equal
    /// displacements the shortest wins. Writes a [`MatchResult`].
    BlockMatch {
        /// The image that stands still.
        reference: u64,
        /// The image that has moved.
        current: u64,
        /// Where the [`MatchResult`] goes.
        result: u64,
        /// Size of both images.
        size: ImageSize,
        /// Largest displacement in each direction, at most [`RADIUS_MAX`], and less than
        /// half of each side.
        radius: u8,
        /// Distance of compared pixels, at least 1. With 128 x 96 pixels and radius 6, a
        /// stride of 4 compares 609 pixels for each of 169 displacements.
        stride: u8,
    },
    /// Moves an image: `destination(x, y) = source(x + dx, y + dy)`, where pixels beyond the
    /// border equal the border. Undoes the movement that a `BlockMatch` found.
    Shift {
        /// The image.
        source: u64,
        /// The moved image.
        destination: u64,
        /// A [`MatchResult`], read when the command runs.
        displacement: u64,
        /// Size of both images.
        size: ImageSize,
    },
    /// Multiplies two square matrices of wrapping `u32`, row by row in memory.
    MatrixProduct {
        /// Left factor.
        left: u64,
        /// Right factor.
        right: u64,
        /// The product.
        product: u64,
        /// Rows and columns, 1 to [`MATRIX_ORDER_MAX`].
        order: u16,
        /// Nanoseconds to take, if that is more than the product needs.
        time: u64,
    },
    /// Filters a signal of `i16`, of which 32768 would be 1, with a finite impulse response: sample `i` of the result is the
    /// sum over all `j` of `coefficients(j) * source(i + length - 1 - j)`, rounded to the nearest, of two to the upper, and
    /// at most and at least what an `i16` holds.
    Filter {
        /// The signal, `samples + length - 1` of them: what came before the first comes first.
        source: u64,
        /// The impulse response, `length` coefficients of `i16`, of which 32768 would be 1.
        coefficients: u64,
        /// The filtered signal.
        destination: u64,
        /// Samples of the result, 1 to [`SAMPLES_MAX`].
        samples: u16,
        /// Coefficients, 1 to [`COEFFICIENTS_MAX`].
        length: u16,
    },
    /// The discrete Fourier transform of complex samples, real part first, each an `i16`: point `k` of the result is the sum
    /// over all `t` of `source(t) * exp(-2 pi i k t / points)`, divided by `points`, so that it fits. No part is off by more
    /// than 1.21 for each halving of `points`, and none exceeds what an `i16` holds.
    Transform {
        /// The samples.
        source: u64,
        /// The spectrum, of the same form. May be the source.
        destination: u64,
        /// Samples and points, a power of two from 2 to [`POINTS_MAX`].
        points: u16,
    },
    /// One of the log2(points) stages of a `Transform`, for preemptible engines. The first reads the samples, the last writes
    /// the spectrum; in between, the device keeps for the context what is not finished, while other contexts use the engine.
    /// All stages follow each other, with equal operands; a reset of the engine for the context forgets them.
    TransformStage {
        /// The samples.
        source: u64,
        /// The spectrum, of the same form. May be the source.
        destination: u64,
        /// Samples and points, a power of two from 2 to [`POINTS_MAX`].
        points: u16,
        /// Which stage, from 0.
        stage: u16,
    },
    /// Keeps the engine busy and touches nothing. Any engine.
    Burn {
        /// Nanoseconds to take, exactly, but at least [`crate::timing::SETUP`].
        time: u64,
    },
}

impl Operation {
    /// Whether `engine` knows this operation, if the device has it.
    #[must_use]
    pub const fn runs_on(&self, engine: EngineIndex) -> bool {
        match self {
            Self::Burn { .. } => true,
            Self::Copy { .. } => !matches!(engine, EngineIndex::Execution),
            Self::PeerCopy { .. } => matches!(engine, EngineIndex::CopyIn),
            _ => matches!(engine, EngineIndex::Execution),
        }
    }
}

/// A word to write when a command retires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fence {
    /// Device address of a `u32` in writable system memory, not 0.
    pub address: u64,
    /// What to write, below 2^31; see [`FENCE_ERROR`].
    pub value: u32,
}

/// An operation, and whom to tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Command {
    /// What to do.
    pub operation: Operation,
    /// What to write when it is done.
    pub fence: Option<Fence>,
}

/// The command breaks a rule of this module.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadCommand;

const COPY: u32 = 1;
const GRADIENT: u32 = 2;
const BLOCK_MATCH: u32 = 3;
const SHIFT: u32 = 4;
const MATRIX_PRODUCT: u32 = 5;
const BURN: u32 = 6;
const FILTER: u32 = 7;
const TRANSFORM: u32 = 8;
const PEER_COPY: u32 = 9;
const TRANSFORM_STAGE: u32 = 10;

/// The fields of a command as they stand in memory.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
struct Fields {
    code: u32,
    source: u64,
    destination: u64,
    second: u64,
    width: u16,
    height: u16,
    radius: u8,
    stride: u8,
    amount: u64,
    fence: u64,
    fence_value: u32,
}

impl Command {
    /// The command as it stands in a ring.
    #[must_use]
    pub fn encode(&self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        let fields = self.fields();
        bytes[0x00..0x04].copy_from_slice(&fields.code.to_le_bytes());
        bytes[0x08..0x10].copy_from_slice(&fields.source.to_le_bytes());
        bytes[0x10..0x18].copy_from_slice(&fields.destination.to_le_bytes());
        bytes[0x18..0x20].copy_from_slice(&fields.second.to_le_bytes());
        bytes[0x20..0x22].copy_from_slice(&fields.width.to_le_bytes());
        bytes[0x22..0x24].copy_from_slice(&fields.height.to_le_bytes());
        bytes[0x24] = fields.radius;
        bytes[0x25] = fields.stride;
        bytes[0x28..0x30].copy_from_slice(&fields.amount.to_le_bytes());
        bytes[0x30..0x38].copy_from_slice(&fields.fence.to_le_bytes());
        bytes[0x38..0x3C].copy_from_slice(&fields.fence_value.to_le_bytes());
        bytes
    }

    /// Reads a command from a ring.
    ///
    /// # Errors
    /// [`BadCommand`] if it breaks a rule of this module.
    pub fn decode(bytes: &[u8; COMMAND_BYTES]) -> Result<Self, BadCommand> {
        let fields = Fields {
            code: u32_at(bytes, 0x00),
            source: u64_at(bytes, 0x08),
            destination: u64_at(bytes, 0x10),
            second: u64_at(bytes, 0x18),
            width: u16_at(bytes, 0x20),
            height: u16_at(bytes, 0x22),
            radius: bytes[0x24],
            stride: bytes[0x25],
            amount: u64_at(bytes, 0x28),
            fence: u64_at(bytes, 0x30),
            fence_value: u32_at(bytes, 0x38),
        };
        let command = Self { operation: operation(&fields)?, fence: fence(&fields) };
        // What a command does not use is 0: what is left after writing it again is all of it.
        if command.is_valid() && command.encode() == *bytes { Ok(command) } else { Err(BadCommand) }
    }

    /// The fence of a command, even of one that [`Command::decode`] refuses for another
    /// reason; so that a client can hear of the failure.
    #[must_use]
    pub fn fence_of(bytes: &[u8; COMMAND_BYTES]) -> Option<Fence> {
        let fields = Fields { fence: u64_at(bytes, 0x30), fence_value: u32_at(bytes, 0x38), ..Fields::default() };
        fence(&fields).filter(Fence::is_valid)
    }

    /// Whether the command keeps the rules of this module; what is encoded by hand and
    /// breaks one is refused by the device.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let aligned = |addresses: &[u64]| addresses.iter().all(|a| a % OPERAND_ALIGNMENT == 0);
        let operation = match self.operation {
            Operation::Copy { source, destination, length } | Operation::PeerCopy { source, destination, length } => {
                aligned(&[source, destination, length]) && length > 0
            }
            Operation::Gradient { source, destination, size } => aligned(&[source, destination]) && size.is_valid(),
            Operation::BlockMatch { reference, current, result, size, radius, stride } => {
                let shorter = size.width.min(size.height);
                aligned(&[reference, current, result])
                    && size.is_valid()
                    && radius <= RADIUS_MAX
                    && 2 * u16::from(radius) < shorter
                    && stride > 0
            }
            Operation::Shift { source, destination, displacement, size } => {
                aligned(&[source, destination, displacement]) && size.is_valid()
            }
            Operation::MatrixProduct { left, right, product, order, .. } => {
                aligned(&[left, right, product]) && (1..=MATRIX_ORDER_MAX).contains(&order)
            }
            Operation::Filter { source, coefficients, destination, samples, length } => {
                aligned(&[source, coefficients, destination])
                    && (1..=SAMPLES_MAX).contains(&samples)
                    && (1..=COEFFICIENTS_MAX).contains(&length)
            }
            Operation::Transform { source, destination, points } => {
                aligned(&[source, destination]) && points.is_power_of_two() && (2..=POINTS_MAX).contains(&points)
            }
            Operation::TransformStage { source, destination, points, stage } => {
                let whole = Command { operation: Operation::Transform { source, destination, points }, fence: None };
                whole.is_valid() && stage < self.operation.stages()
            }
            Operation::Burn { .. } => true,
        };
        operation && self.fence.as_ref().is_none_or(Fence::is_valid)
    }

    fn fields(&self) -> Fields {
        let fence = self.fence.unwrap_or(Fence { address: 0, value: 0 });
        let common = Fields { fence: fence.address, fence_value: fence.value, ..Fields::default() };
        match self.operation {
            Operation::Copy { source, destination, length } => {
                Fields { code: COPY, source, destination, amount: length, ..common }
            }
            Operation::PeerCopy { source, destination, length } => {
                Fields { code: PEER_COPY, source, destination, amount: length, ..common }
            }
            Operation::Gradient { source, destination, size } => {
                Fields { code: GRADIENT, source, destination, width: size.width, height: size.height, ..common }
            }
            Operation::BlockMatch { reference, current, result, size, radius, stride } => Fields {
                code: BLOCK_MATCH,
                source: reference,
                destination: result,
                second: current,
                width: size.width,
                height: size.height,
                radius,
                stride,
                ..common
            },
            Operation::Shift { source, destination, displacement, size } => Fields {
                code: SHIFT,
                source,
                destination,
                second: displacement,
                width: size.width,
                height: size.height,
                ..common
            },
            Operation::MatrixProduct { left, right, product, order, time } => Fields {
                code: MATRIX_PRODUCT,
                source: left,
                destination: product,
                second: right,
                width: order,
                amount: time,
                ..common
            },
            Operation::Filter { source, coefficients, destination, samples, length } => Fields {
                code: FILTER,
                source,
                destination,
                second: coefficients,
                width: samples,
                height: length,
                ..common
            },
            Operation::Transform { source, destination, points } => {
                Fields { code: TRANSFORM, source, destination, width: points, ..common }
            }
            Operation::TransformStage { source, destination, points, stage } => {
                Fields { code: TRANSFORM_STAGE, source, destination, width: points, height: stage, ..common }
            }
            Operation::Burn { time } => Fields { code: BURN, amount: time, ..common },
        }
    }
}

impl Fence {
    fn is_valid(&self) -> bool {
        self.address != 0 && self.address.is_multiple_of(4) && self.value & FENCE_ERROR == 0
    }
}

fn operation(fields: &Fields) -> Result<Operation, BadCommand> {
    let size = ImageSize { width: fields.width, height: fields.height };
    Ok(match fields.code {
        COPY => Operation::Copy { source: fields.source, destination: fields.destination, length: fields.amount },
        PEER_COPY => {
            Operation::PeerCopy { source: fields.source, destination: fields.destination, length: fields.amount }
        }
        GRADIENT => Operation::Gradient { source: fields.source, destination: fields.destination, size },
        BLOCK_MATCH => Operation::BlockMatch {
            reference: fields.source,
            current: fields.second,
            result: fields.destination,
            size,
            radius: fields.radius,
            stride: fields.stride,
        },
        SHIFT => Operation::Shift {
            source: fields.source,
            destination: fields.destination,
            displacement: fields.second,
            size,
        },
        MATRIX_PRODUCT => Operation::MatrixProduct {
            left: fields.source,
            right: fields.second,
            product: fields.destination,
            order: fields.width,
            time: fields.amount,
        },
        BURN => Operation::Burn { time: fields.amount },
        FILTER => Operation::Filter {
            source: fields.source,
            coefficients: fields.second,
            destination: fields.destination,
            samples: fields.width,
            length: fields.height,
        },
        TRANSFORM => {
            Operation::Transform { source: fields.source, destination: fields.destination, points: fields.width }
        }
        TRANSFORM_STAGE => Operation::TransformStage {
            source: fields.source,
            destination: fields.destination,
            points: fields.width,
            stage: fields.height,
        },
        _ => return Err(BadCommand),
    })
}

fn fence(fields: &Fields) -> Option<Fence> {
    (fields.fence != 0).then_some(Fence { address: fields.fence, value: fields.fence_value })
}

fn u16_at(bytes: &[u8; COMMAND_BYTES], offset: usize) -> u16 {
    u16::from_le_bytes(core::array::from_fn(|i| bytes[offset + i]))
}

fn u32_at(bytes: &[u8; COMMAND_BYTES], offset: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|i| bytes[offset + i]))
}

fn u64_at(bytes: &[u8; COMMAND_BYTES], offset: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[offset + i]))
}

/// What [`Operation::BlockMatch`] writes: `dx`, `dy`, `difference`, `second_best`, four bytes
/// each, in this order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MatchResult {
    /// How far the image moved to the right, in pixels.
    pub dx: i32,
    /// How far it moved down.
    pub dy: i32,
    /// Sum of absolute differences at that displacement.
    pub difference: u32,
    /// The smallest sum at any other displacement, `u32::MAX` if there is none: how far it is
    /// above `difference` says how sure the match is.
    pub second_best: u32,
}

impl MatchResult {
    /// The result as it stands in memory.
    #[must_use]
    pub fn encode(&self) -> [u8; MATCH_BYTES] {
        let mut bytes = [0; MATCH_BYTES];
        bytes[0..4].copy_from_slice(&self.dx.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.dy.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.difference.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.second_best.to_le_bytes());
        bytes
    }

    /// Reads a result. Every sequence of bytes is one.
    #[must_use]
    pub fn decode(bytes: &[u8; MATCH_BYTES]) -> Self {
        let word = |offset: usize| -> [u8; 4] { core::array::from_fn(|i| bytes[offset + i]) };
        Self {
            dx: i32::from_le_bytes(word(0)),
            dy: i32::from_le_bytes(word(4)),
            difference: u32::from_le_bytes(word(8)),
            second_best: u32::from_le_bytes(word(12)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_size()(width in 0_u16..200, height in 0_u16..120) -> ImageSize {
            ImageSize { width, height }
        }
    }

    fn any_operation() -> impl Strategy<Value = Operation> {
        let address = || (0_u64..1 << 20).prop_map(|address| address * 4);
        prop_oneof![
            (address(), address(), 0_u64..1 << 16).prop_map(|(source, destination, length)| {
                Operation::Copy { source, destination, length: length * 8 }
            }),
            (address(), address(), 0_u64..1 << 16).prop_map(|(source, destination, length)| {
                Operation::PeerCopy { source, destination, length: length * 8 }
            }),
            (address(), address(), any_size())
                .prop_map(|(source, destination, size)| { Operation::Gradient { source, destination, size } }),
            (address(), address(), address(), any_size(), 0_u8..20, 0_u8..6).prop_map(
                |(reference, current, result, size, radius, stride)| Operation::BlockMatch {
                    reference,
                    current,
                    result,
                    size,
                    radius,
                    stride
                }
            ),
            (address(), address(), address(), any_size()).prop_map(|(source, destination, displacement, size)| {
                Operation::Shift { source, destination, displacement, size }
            }),
            (address(), address(), address(), 0_u16..40, any::<u64>()).prop_map(
                |(left, right, product, order, time)| Operation::MatrixProduct { left, right, product, order, time }
            ),
            any::<u64>().prop_map(|time| Operation::Burn { time }),
            (address(), address(), address(), 0_u16..5_000, 0_u16..150).prop_map(
                |(source, coefficients, destination, samples, length)| Operation::Filter {
                    source,
                    coefficients,
                    destination,
                    samples,
                    length
                }
            ),
            (address(), address(), 0_u16..600, any::<bool>()).prop_map(|(source, destination, points, is_power)| {
                let points = if is_power { points.next_power_of_two() } else { points };
                Operation::Transform { source, destination, points }
            }),
            (address(), address(), 1_u32..10, 0_u16..10).prop_map(|(source, destination, stages, stage)| {
                Operation::TransformStage { source, destination, points: 1 << stages, stage }
            }),
        ]
    }

    prop_compose! {
        fn any_command()(
            operation in any_operation(),
            fence in prop::option::of((0_u64..4096, any::<u32>())),
        ) -> Command {
            Command { operation, fence: fence.map(|(address, value)| Fence { address, value }) }
        }
    }

    proptest! {
        #[test]
        fn a_command_that_keeps_the_rules_arrives_unchanged(command in any_command()) {
            let expected = if command.is_valid() { Ok(command) } else { Err(BadCommand) };
            prop_assert_eq!(Command::decode(&command.encode()), expected);
        }

        #[test]
        fn a_stray_bit_is_refused_or_changes_the_command(
            command in any_command().prop_filter("valid", Command::is_valid),
            bit in 0_usize..8 * COMMAND_BYTES,
        ) {
            let mut bytes = command.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(Command::decode(&bytes), Ok(command));
        }

        #[test]
        fn a_match_survives_memory(dx: i32, dy: i32, difference: u32, second_best: u32) {
            let result = MatchResult { dx, dy, difference, second_best };
            prop_assert_eq!(MatchResult::decode(&result.encode()), result);
        }
    }
}

//! The samples of the vibration sensor: the hum of a motor with a speed that changes from block to block, and noise.
//!
//! The hum is a triangle wave, so all is in integers; its tone is pseudo-random but known, so that the host can check the
//! findings.

use crate::scramble;

/// Samples of a block, and points of its spectrum.
pub const BLOCK: usize = 256;
/// Coefficients of the filter.
pub const COEFFICIENTS: usize = 32;
/// Samples that the filter reads for a block.
pub const SIGNAL: usize = BLOCK + COEFFICIENTS - 1;
/// Lowest tone, in cycles a block.
const LOWEST: u64 = 2;
/// How many tones there are.
const TONES: u64 = 8;

/// Cycles of the hum in block `block`: where its line in the spectrum is.
#[must_use]
pub fn tone(block: u32) -> u32 {
    (LOWEST + scramble(u64::from(block) + 1) % TONES) as u32
}

/// Sample `index` of the filter's input for block `block`.
#[must_use]
pub fn sample(block: u32, index: usize) -> i16 {
    let phase = (tone(block) * index as u32 * (65_536 / BLOCK as u32)) % 65_536;
    let hum = phase.min(65_535 - phase) as i32 - 16_384;
    let noise = (scramble(u64::from(block) << 16 | index as u64) % 8192) as i32 - 4096;
    (hum + noise) as i16
}

/// Coefficient `index` of the filter: a triangle that keeps low tones.
#[must_use]
pub const fn coefficient(index: usize) -> i16 {
    let (rising, falling) = (index + 1, COEFFICIENTS - index);
    120 * if rising < falling { rising } else { falling } as i16
}

/// The loudest line of a spectrum, of which `part` says each number: real part first.
pub fn loudest(part: impl Fn(usize) -> i16) -> u32 {
    let power = |line: usize| {
        let parts = [part(2 * line), part(2 * line + 1)];
        parts.map(|part| i32::from(part) * i32::from(part)).iter().sum::<i32>()
    };
    (1..BLOCK / 2).max_by_key(|line| power(*line)).unwrap_or(0) as u32
}

/// The record, which the host reads after the run.
pub mod record {
    use super::BLOCK;

    /// Blocks it has room for.
    pub const BLOCKS: usize = 160;
    /// Within an entry: 1 if the block was seen to, `u32`.
    pub const DONE: usize = 0;
    /// Within an entry: the loudest line, `u32`.
    pub const LINE: usize = 4;
    /// Within an entry: the filtered samples.
    pub const FILTERED: usize = 8;
    /// Bytes of the whole record.
    pub const BYTES: usize = entry(BLOCKS);

    /// Offset of the entry of block `block`.
    #[must_use]
    pub const fn entry(block: usize) -> usize {
        block * (FILTERED + 2 * BLOCK)
    }
}

/// The work that the archive does over and over again: a long filter of the first samples that were ever measured.
pub mod archive {
    /// Samples that its filter puts out.
    pub const SAMPLES: usize = 1024;
    /// Number of coefficients of its filter. Each has the value [`COEFFICIENT`].
    pub const COEFFICIENTS: usize = 128;
    /// So that a mean comes out.
    pub const COEFFICIENT: i16 = 256;
    /// Samples that it reads.
    pub const SIGNAL: usize = SAMPLES + COEFFICIENTS - 1;
    /// Offset of the coefficients in its buffer, behind the samples.
    pub const RESPONSE: usize = 2304;
    /// Offset of the filtered samples.
    pub const FILTERED: usize = RESPONSE + 2 * COEFFICIENTS;
    /// Offset of how often all was done, `u32`.
    pub const ROUNDS: usize = FILTERED + 2 * SAMPLES;

    /// Sample `index`.
    #[must_use]
    pub fn sample(index: usize) -> i16 {
        super::sample((index / super::BLOCK) as u32, index % super::BLOCK)
    }

    const _: () = assert!(2 * SIGNAL <= RESPONSE);
}

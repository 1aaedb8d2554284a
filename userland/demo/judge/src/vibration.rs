//! The results of the signal processor: filtered signals, tones, and the archive's filter. The truth is computed from the sensor's samples by the
//! definition of a filter, without the device's code; where the task searches for the tone, the host knows it.

use anyhow::{Context, Result};
use demo::vibration::{BLOCK, COEFFICIENTS, SIGNAL, archive, coefficient, record, sample, tone};

use fusee_host::evidence::Evidence;

/// The findings in so many blocks.
#[derive(Default)]
pub struct Seen {
    /// Blocks that there were.
    pub count: usize,
    /// Blocks that were seen to.
    pub processed: usize,
    /// The number of those with a tone that was found.
    pub tones: usize,
    /// The number of those with right filtered samples, bit by bit.
    pub equal: usize,
    /// Whether the archive has filtered, and its result is right, bit by bit.
    pub is_archive_right: bool,
}

impl Seen {
    /// Whether all that was done was done right.
    pub fn is_true(&self) -> bool {
        self.tones == self.processed && self.equal == self.processed && self.is_archive_right
    }

    /// Whether all was done, too.
    pub fn is_perfect(&self) -> bool {
        self.is_true() && self.processed == self.count
    }

    /// Two lines.
    pub fn words(&self) -> String {
        let Self { count, tones, equal, .. } = self;
        let archive = if self.is_archive_right { "too" } else { "not" };
        format!(
            "tones recovered: {tones} of {count}\n\
             filtered signals equal to the reference: {equal} of {count}, the archive's {archive}"
        )
    }
}

/// Looks at the regions of both clients.
pub fn look(run: &Evidence<'_>) -> Result<Seen> {
    let memory = |name: &str, bytes: usize| {
        let mut regions = run.manifest.system.regions.iter();
        let (_, region) = regions.find(|(one, _)| one == name).with_context(|| format!("region `{name}` is gone"))?;
        run.memory.read(region.physical, bytes)
    };
    let (blocks, old) = (memory("vibrations", record::BYTES)?, memory("old_samples", archive::ROUNDS + 4)?);
    let count = super::count(run, "vibration", record::BLOCKS)?;
    let mut seen = Seen { count, ..Seen::default() };
    for block in 0..count {
        let entry = &blocks[record::entry(block)..record::entry(block + 1)];
        if word(entry, record::DONE) == 1 {
            let block = block as u32;
            seen.processed += 1;
            seen.tones += usize::from(word(entry, record::LINE) == tone(block));
            seen.equal += usize::from(entry[record::FILTERED..] == filtered(block));
        }
    }
    let all = [archive::COEFFICIENT; archive::COEFFICIENTS];
    let signal: Vec<i16> = (0..archive::SIGNAL).map(archive::sample).collect();
    let rounds = word(&old, archive::ROUNDS);
    seen.is_archive_right = rounds > 0 && old[archive::FILTERED..archive::ROUNDS] == convolution(&signal, &all);
    Ok(seen)
}

fn filtered(block: u32) -> Vec<u8> {
    let signal: Vec<i16> = (0..SIGNAL).map(|index| sample(block, index)).collect();
    let response: Vec<i16> = (0..COEFFICIENTS).map(coefficient).collect();
    let filtered = convolution(&signal, &response);
    assert_eq!(filtered.len(), 2 * BLOCK);
    filtered
}

/// Each sum of products in full, then rounded to the nearest, of two to the upper.
fn convolution(signal: &[i16], response: &[i16]) -> Vec<u8> {
    let sums = signal.windows(response.len()).map(|window| {
        let products =
            window.iter().rev().zip(response).map(|(sample, weight)| i64::from(*sample) * i64::from(*weight));
        products.sum::<i64>()
    });
    let rounded = sums.map(|sum| (2 * sum + 32_768).div_euclid(65_536));
    rounded.flat_map(|number| number.clamp(i16::MIN.into(), i16::MAX.into()).to_le_bytes()[..2].to_vec()).collect()
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[offset + index]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::run;
    use fusee_library::Filter;

    /// The reference filters without the device's code; both must agree on every bit.
    #[test]
    fn the_reference_agrees_with_the_filter_of_the_device() {
        for block in [0, 1, 77, 149] {
            let signal: Vec<i16> = (0..SIGNAL).map(|index| sample(block, index)).collect();
            let response: Vec<i16> = (0..COEFFICIENTS).map(coefficient).collect();
            let mut out = vec![0_i16; BLOCK];
            let filter = Filter { samples: BLOCK as u16, length: COEFFICIENTS as u16 };
            run(&filter, (signal[..].into(), response[..].into(), out.as_mut_slice().into()));
            assert_eq!(
                filtered(block),
                out.iter().flat_map(|sample| sample.to_le_bytes()).collect::<Vec<_>>(),
                "block {block}"
            );
        }
    }

    #[test]
    fn the_hum_has_several_tones_and_is_never_too_loud() {
        let mut tones: Vec<u32> = (0..150).map(tone).collect();
        tones.sort_unstable();
        tones.dedup();
        assert!(tones.len() > 4, "{tones:?}");
        let samples = (0..150).flat_map(|block| (0..SIGNAL).map(move |index| i32::from(sample(block, index))));
        assert!(samples.map(i32::abs).max().is_some_and(|loudest| (16_384..=20_480).contains(&loudest)));
    }
}

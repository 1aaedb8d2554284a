//! Signals for tests of filters and transforms: noise, words of a buffer, and the definition of a filter's result.

use fusee::gpu::Buffer;

/// Noise, the same each time from the same seed.
pub struct Noise(pub u64);

impl Noise {
    /// The next sample.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> i16 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 48) as i16
    }
}

/// Writes `numbers` to the start of `buffer`.
pub fn store(buffer: &mut Buffer, numbers: &[i16]) {
    for (index, number) in numbers.iter().enumerate() {
        buffer.copy_from_slice(2 * index, &number.to_le_bytes());
    }
}

/// The number at `index` of `buffer`.
#[must_use]
pub fn load(buffer: &Buffer, index: usize) -> i16 {
    let mut bytes = [0; 2];
    buffer.copy_to_slice(2 * index, &mut bytes);
    i16::from_le_bytes(bytes)
}

/// Sample `index` by the definition of the kernel `Filter`, word by word.
#[must_use]
pub fn filtered(signal: &[i16], response: &[i16], index: usize) -> i16 {
    let window = signal[index..index + response.len()].iter().rev();
    let products = response.iter().zip(window).map(|(one, other)| i64::from(*one) * i64::from(*other));
    let rounded = (products.sum::<i64>() + (1 << 14)) >> 15;
    rounded.clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16
}

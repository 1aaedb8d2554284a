//! Contents of files: those that tasks write, and that the host expects.

/// Bytes of a record, at most.
pub const RECORD: usize = 800;

/// The byte at this place of file `file`: another one nearly everywhere (Steele, Lea, Flood 2014, the finalizer of SplitMix).
#[must_use]
pub fn byte(file: u64, place: u64) -> u8 {
    let mut mixed = ((file << 40) ^ (place / 8)).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> (place % 8 * 8)) as u8
}

/// Fills a part of file `file` that begins at this place.
pub fn fill(file: u64, place: u64, bytes: &mut [u8]) {
    for (at, to) in (place..).zip(bytes) {
        *to = byte(file, at);
    }
}

/// The record with this number, of any length.
pub fn record(number: u64, bytes: &mut [u8; RECORD]) -> &[u8] {
    let length = (u64::from(byte(number, 0)) << 8 | u64::from(byte(number, 1))) as usize % RECORD;
    fill(number, 2, &mut bytes[..length]);
    &bytes[..length]
}

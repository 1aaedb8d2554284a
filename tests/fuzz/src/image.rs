//! A packed system, damaged: it is refused, or boots; neither panics. A packed system that is well formed and makes no sense, such as a budget of nothing, may boot:
//! the manifest refuses these.
//!
//! The string says which system, and where that is changed: an offset of two bytes, how, and a value.

use std::sync::OnceLock;

use fusee_abi::image::System;
use fusee_kernel_core::Kernel;
use zerocopy::IntoBytes;

use crate::bytes::Bytes;
use crate::calls::{SYSTEMS, packed};

/// Boots the system that `data` says.
///
/// # Panics
/// Something does not hold.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let systems = systems();
    let mut words = match usize::from(bytes.byte()) {
        // The string itself.
        255 => {
            let mut words = vec![0_u64; bytes.0.len().div_ceil(8)];
            words.as_mut_bytes()[..bytes.0.len()].copy_from_slice(bytes.0);
            words
        }
        number => {
            let mut words = systems[number % systems.len()].clone();
            damage(&mut words, &mut bytes);
            words
        }
    };
    let Ok(system) = System::parse(words.as_mut_bytes()) else { return };
    // Whether it makes sense is the manifest's to know. That it reads within its tables, and within the kernel's, is the kernel's.
    let mut kernel = Box::new(Kernel::EMPTY);
    let _ = kernel.boot(&system);
}

fn systems() -> &'static [Vec<u64>] {
    static PACKED: OnceLock<Vec<Vec<u64>>> = OnceLock::new();
    PACKED.get_or_init(|| SYSTEMS.iter().map(|(name, text)| packed(name, text)).collect())
}

fn damage(words: &mut [u64], bytes: &mut Bytes<'_>) {
    let image = words.as_mut_bytes();
    while !bytes.0.is_empty() {
        let at = bytes.number(2) as usize % image.len();
        let how = bytes.byte();
        let word = at / 4 * 4;
        match how % 4 {
            0 => image[at] = bytes.byte(),
            1 => image[at] ^= 1 << (how >> 5),
            2 => image[word..word + 4].copy_from_slice(&(bytes.number(4) as u32).to_le_bytes()),
            _ => {
                let extreme = [0_u32, 1, u32::MAX, 1 << 31, 0xffff, 512, 33, 7];
                image[word..word + 4].copy_from_slice(&extreme[usize::from(how >> 5)].to_le_bytes());
            }
        }
    }
}

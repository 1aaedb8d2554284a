//! Scripts for U-Boot: text, wrapped in a header with two checksums.
//!
//! ```text
//!  0  magic          0x27051956
//!  4  header check   CRC-32 of these 64 bytes, with zero in this place
//!  8  time           seconds since 1970: zero, so that two builds are equal
//! 12  size           bytes behind the header
//! 16  load, entry    of programs: zero
//! 24  data check     CRC-32 of the bytes behind the header
//! 28  system 5 (Linux), architecture 22 (64-bit Arm), type 6 (script), compression 0
//! 32  name           up to 32 bytes, zero behind it
//! 64  length of the first script, zero for the end of the list, the script
//! ```
//!
//! All numbers are big endian. Source: U-Boot, `include/image.h`, "legacy format image header", and the remark there on
//! images of several files, of which a script is one.

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{Immutable, IntoBytes};

const MAGIC: u32 = 0x2705_1956;
const LINUX: u8 = 5;
const ARM64: u8 = 22;
const SCRIPT: u8 = 6;
const NOT_COMPRESSED: u8 = 0;
const NAME: &[u8] = b"Fusee";

#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct Header {
    magic: U32,
    header_check: U32,
    time: U32,
    size: U32,
    load: U32,
    entry: U32,
    data_check: U32,
    system: u8,
    architecture: u8,
    kind: u8,
    compression: u8,
    name: [u8; 32],
}

/// Wraps `text` so that U-Boot executes it as `boot.scr`.
#[must_use]
pub fn wrap(text: &str) -> Vec<u8> {
    let mut data = Vec::new();
    data.extend_from_slice(&(text.len() as u32).to_be_bytes());
    data.extend_from_slice(&[0; 4]);
    data.extend_from_slice(text.as_bytes());
    let mut name = [0; 32];
    name[..NAME.len()].copy_from_slice(NAME);
    let mut header = Header {
        magic: MAGIC.into(),
        header_check: 0.into(),
        time: 0.into(),
        size: (data.len() as u32).into(),
        load: 0.into(),
        entry: 0.into(),
        data_check: crc32fast::hash(&data).into(),
        system: LINUX,
        architecture: ARM64,
        kind: SCRIPT,
        compression: NOT_COMPRESSED,
        name,
    };
    header.header_check = crc32fast::hash(header.as_bytes()).into();
    [header.as_bytes(), &data].concat()
}

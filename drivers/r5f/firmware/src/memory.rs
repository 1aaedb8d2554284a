//! Memory by physical address. Clients may write to it at any moment, so all accesses are volatile, and nothing is read twice.

use core::arch::asm;
use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

/// Reads the word at `address`.
pub fn read_word(address: usize) -> u32 {
    // SAFETY: a volatile read demands an aligned, readable address that is none of this program's own variables. All memory is
    // readable, callers read at multiples of four; the mailbox is beyond the part that the linker script gives the program, and so is all memory that
    // the driver has made an address of.
    unsafe { with_exposed_provenance::<u32>(address).read_volatile() }
}

/// Writes the word at `address`.
pub fn write_word(address: usize, value: u32) {
    // SAFETY: as in `read_word`, and no program's variables: memory of clients is shared with us. The other word outside the mailbox that we
    // write is a register at an address that the driver gives.
    unsafe { with_exposed_provenance_mut::<u32>(address).write_volatile(value) }
}

/// Reads bytes from `address` on, whole words where there are some.
pub fn read_bytes(address: usize, bytes: &mut [u8]) {
    let head = bytes.len().min(address.wrapping_neg() % 4);
    let (head, rest) = bytes.split_at_mut(head);
    let words = address + head.len();
    read_single(address, head);
    let (rest, tail) = rest.as_chunks_mut::<4>();
    for (word, at) in rest.iter_mut().zip((words..).step_by(4)) {
        // A client's memory, by an address that the driver has made, or the mailbox.
        *word = read_word(at).to_le_bytes();
    }
    read_single(words + 4 * rest.len(), tail);
}

fn read_single(address: usize, bytes: &mut [u8]) {
    for (byte, at) in bytes.iter_mut().zip(address..) {
        // SAFETY: as in `read_word`; a byte is aligned.
        *byte = unsafe { with_exposed_provenance::<u8>(at).read_volatile() };
    }
}

/// Writes bytes from `address` on, whole words where there are some.
pub fn write_bytes(address: usize, bytes: &[u8]) {
    let head = bytes.len().min(address.wrapping_neg() % 4);
    let (head, rest) = bytes.split_at(head);
    let words = address + head.len();
    write_single(address, head);
    let (rest, tail) = rest.as_chunks::<4>();
    for (word, at) in rest.iter().zip((words..).step_by(4)) {
        write_word(at, u32::from_le_bytes(*word));
    }
    write_single(words + 4 * rest.len(), tail);
}

fn write_single(address: usize, bytes: &[u8]) {
    for (byte, at) in bytes.iter().zip(address..) {
        // SAFETY: as in `write_word`; a byte is aligned.
        unsafe { with_exposed_provenance_mut::<u8>(at).write_volatile(*byte) };
    }
}

/// Returns when all that was written can be seen by everybody.
pub fn complete() {
    // SAFETY: a barrier demands nothing. Not `nomem`: the compiler must keep the stores before it.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
}

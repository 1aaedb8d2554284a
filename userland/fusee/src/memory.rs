//! Memory that is not the task's own: read-only pages of the kernel, and memory that others may write at any moment.
//!
//! The environment page vouches for every address used here: `xtask` writes it, the manifest check keeps regions apart
//! from each other and from the program, and the kernel maps it read only. So an address counts only if it stands in
//! an entry of that page, which is checked; an entry of another origin is refused.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use fusee_abi::environment::{Entry, Header, MAGIC, kind};
use fusee_abi::image;
use zerocopy::FromBytes;

/// Address of the environment page; zero before the first instruction, and on the host.
static PAGE_ADDRESS: AtomicUsize = AtomicUsize::new(0);

/// The number of the task's life; zero: the first.
static LIFE: AtomicU32 = AtomicU32::new(0);

/// Gives the program its initial data, if each of its lives begins with that, and remembers where the environment page lies, and which life this is.
///
/// # Safety
/// - `address` must be that of the environment page, which the kernel maps read only for the life of the task.
/// - Nothing of the program's data must be in use: this is the first that it does.
pub unsafe fn start(address: usize, life: u32) {
    // SAFETY: the address must be that of the environment page: our caller promised it.
    let entries = unsafe { entries_at(address) };
    for entry in entries.iter().filter(|entry| entry.kind == kind::INITIAL) {
        // SAFETY: it must be an entry of that page, and the data must not be in use: our caller promised it.
        unsafe { restore(entry) };
    }
    // Relaxed: a task has one thread.
    PAGE_ADDRESS.store(address, Ordering::Relaxed);
    LIFE.store(life, Ordering::Relaxed);
}

/// The entries of the environment page at `address`, which may be none.
///
/// # Safety
/// As of [`start`].
unsafe fn entries_at(address: usize) -> &'static [Entry] {
    // SAFETY: a shared slice demands readable bytes that are not written: promised by our caller.
    let page = unsafe { core::slice::from_raw_parts(with_exposed_provenance_mut::<u8>(address), image::PAGE as usize) };
    let entries = Header::ref_from_prefix(page)
        .ok()
        .filter(|(header, _)| header.magic == MAGIC)
        .and_then(|(header, rest)| <[Entry]>::ref_from_prefix_with_elems(rest, header.entries as usize).ok());
    entries.map_or(&[], |(entries, _)| entries)
}

/// Gives the part of the program's data that `entry` describes its initial contents.
///
/// # Safety
/// `entry` is one of the environment page, of kind `INITIAL`, and its data are not in use.
unsafe fn restore(entry: &Entry) {
    let [from, to] = [entry.address, entry.physical].map(|address| with_exposed_provenance_mut::<u8>(address as usize));
    let (copied, all) = (entry.bytes as usize, entry.handle as usize);
    // SAFETY: both must be valid for so many bytes, and apart: the page says so, in which `xtask` describes its mappings: at `to` the program's own
    // data, of `all` bytes, which are not in use (promised by our caller), and at `from` a copy of the first `copied` of them, elsewhere.
    unsafe { core::ptr::copy_nonoverlapping(from, to, copied) };
    // SAFETY: must be valid for so many bytes: the rest of that data.
    unsafe { core::ptr::write_bytes(to.wrapping_add(copied), 0, all.saturating_sub(copied)) };
}

/// The number of this task's life: zero for the first, and one more each time that it was restarted.
#[must_use]
pub fn life() -> u32 {
    // Relaxed: written once, by this thread, before `main`.
    LIFE.load(Ordering::Relaxed)
}

/// The environment page; `None` on the host.
pub(crate) fn environment_page() -> Option<&'static [u8]> {
    // Relaxed: written once, by this thread, before `main`.
    let address = PAGE_ADDRESS.load(Ordering::Relaxed);
    if address == 0 {
        return None;
    }
    // SAFETY: the address must be that of a page that stays readable and unwritten: `start`'s caller promised it.
    Some(unsafe { core::slice::from_raw_parts(with_exposed_provenance_mut(address), image::PAGE as usize) })
}

/// The script that `entry` describes.
pub(crate) fn script(entry: &'static Entry) -> &'static [u8] {
    assert!(vouches_for(entry) && entry.kind == kind::SCRIPT, "not a script of this task");
    let start = with_exposed_provenance_mut(entry.address as usize);
    // SAFETY: a shared slice demands readable bytes that are not written while it lives. The environment page says
    // that a script is there; `xtask` places scripts in read-only pages, and the kernel maps them for the life of the
    // task.
    unsafe { core::slice::from_raw_parts(start, entry.bytes as usize) }
}

/// The region, place or doorbell page that `entry` describes; empty if the task has no address for it.
pub(crate) fn shared(entry: &'static Entry) -> SharedBytes {
    if entry.address == 0 || entry.bytes == 0 {
        return SharedBytes::EMPTY;
    }
    let is_shared = [image::kind::REGION, image::kind::DOORBELLS, kind::PLACE, kind::DOORBELL].contains(&entry.kind);
    assert!(vouches_for(entry) && is_shared, "not a region or doorbell of this task");
    // SAFETY: the memory must be set aside for this use and aligned. The environment page says so: the manifest check
    // puts nothing else there, and regions, places and doorbells are whole pages.
    unsafe { SharedBytes::new(entry.address as usize, entry.bytes as usize) }
}

/// Whether `entry` stands in the environment page.
fn vouches_for(entry: &'static Entry) -> bool {
    environment_page().is_some_and(|page| page.as_ptr_range().contains(&(&raw const *entry).cast()))
}

/// Memory shared with other tasks or devices.
///
/// Never borrowed, always copied, by volatile accesses of natural size: others may write at any moment, and
/// a word that was checked once may read differently the second time. Words of up to 64 bits never tear; longer copies may
/// mix old and new. While the region is not mapped, an access faults like any other stray one.
///
/// Out-of-range or misaligned offsets panic, like an index of a slice.
#[derive(Clone, Copy, Debug)]
pub struct SharedBytes {
    base: usize,
    bytes: usize,
}

macro_rules! accessors {
    ($word:ty, $read:ident, $write:ident) => {
        #[doc = concat!("Reads the `", stringify!($word), "` at `offset`, which is a multiple of its size.")]
        #[inline]
        #[must_use]
        #[track_caller]
        pub fn $read(&self, offset: usize) -> $word {
            let address = self.word(offset, size_of::<$word>());
            // SAFETY: a volatile read demands an aligned address of memory that is not the program's own.
            // - Aligned, and inside the region: `word` panics otherwise.
            // - Not the program's own: `SharedBytes::new`'s caller promised it.
            unsafe { with_exposed_provenance_mut::<$word>(address).read_volatile() }
        }

        #[doc = concat!("Writes the `", stringify!($word), "` at `offset`, which is a multiple of its size.")]
        #[inline]
        #[track_caller]
        pub fn $write(&self, offset: usize, value: $word) {
            let address = self.word(offset, size_of::<$word>());
            // SAFETY: a volatile write demands an aligned address of memory that is not the program's own.
            // - Aligned, and inside the region: `word` panics otherwise.
            // - Not the program's own: `SharedBytes::new`'s caller promised it.
            unsafe { with_exposed_provenance_mut::<$word>(address).write_volatile(value) }
        }
    };
}

impl SharedBytes {
    /// No memory.
    pub(crate) const EMPTY: SharedBytes = SharedBytes { base: 0, bytes: 0 };

    /// The memory at `base`, which is a multiple of eight.
    ///
    /// # Safety
    /// `[base, base + bytes)` must be set aside for sharing and hold nothing of the program itself.
    unsafe fn new(base: usize, bytes: usize) -> SharedBytes {
        assert!(base.is_multiple_of(8) && base.checked_add(bytes).is_some(), "the environment page is damaged");
        SharedBytes { base, bytes }
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The `bytes` bytes from `offset` on; `offset` is a multiple of eight.
    #[must_use]
    #[track_caller]
    pub fn part(&self, offset: usize, bytes: usize) -> SharedBytes {
        self.check(offset, bytes);
        assert!(offset.is_multiple_of(8), "offset {offset} is not a multiple of eight");
        SharedBytes { base: self.base + offset, bytes }
    }

    accessors!(u8, read_u8, write_u8);
    accessors!(u32, read_u32, write_u32);
    accessors!(u64, read_u64, write_u64);

    /// Reads a word that says other memory is ready: later reads are at least as new.
    ///
    /// Pairs with [`SharedBytes::publish_u32`] of another task, or with a device that writes the word last.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn observe_u32(&self, offset: usize) -> u32 {
        let word = self.read_u32(offset);
        fence(Ordering::Acquire);
        word
    }

    /// Writes a word that says other memory is ready: earlier writes are seen by each reader that sees the word.
    ///
    /// Pairs with [`SharedBytes::observe_u32`].
    #[inline]
    #[track_caller]
    pub fn publish_u32(&self, offset: usize, value: u32) {
        fence(Ordering::Release);
        self.write_u32(offset, value);
    }

    /// Adds `value` to a word of memory, which is no register of a device, at once, so that others may do the same; the sum, wrapping. It is published as by
    /// [`SharedBytes::publish_u32`].
    #[inline]
    #[track_caller]
    pub fn add_u32(&self, offset: usize, value: u32) -> u32 {
        let address = self.word(offset, size_of::<u32>());
        // SAFETY: an atomic access demands an aligned address that is valid for as long as the reference lives.
        // - Aligned, and inside the region: `word` panics otherwise.
        // - Not the program's own: `SharedBytes::new`'s caller promised it; so nothing of the program is there that others could change.
        let word = unsafe { AtomicU32::from_ptr(with_exposed_provenance_mut::<u32>(address)) };
        word.fetch_add(value, Ordering::AcqRel).wrapping_add(value)
    }

    /// Copies `source` to `offset`.
    #[track_caller]
    pub fn copy_from_slice(&self, offset: usize, source: &[u8]) {
        self.check(offset, source.len());
        let (head, rest) = source.split_at(self.bytes_to_alignment(offset).min(source.len()));
        let mut at = offset;
        for &byte in head {
            self.write_u8(at, byte);
            at += 1;
        }
        let (words, tail) = rest.as_chunks::<8>();
        for word in words {
            self.write_u64(at, u64::from_ne_bytes(*word));
            at += 8;
        }
        for &byte in tail {
            self.write_u8(at, byte);
            at += 1;
        }
    }

    /// Copies the bytes at `offset` to `destination`.
    #[track_caller]
    pub fn copy_to_slice(&self, offset: usize, destination: &mut [u8]) {
        self.check(offset, destination.len());
        let before = self.bytes_to_alignment(offset).min(destination.len());
        let (head, rest) = destination.split_at_mut(before);
        let mut at = offset;
        for byte in head {
            *byte = self.read_u8(at);
            at += 1;
        }
        let (words, tail) = rest.as_chunks_mut::<8>();
        for word in words {
            *word = self.read_u64(at).to_ne_bytes();
            at += 8;
        }
        for byte in tail {
            *byte = self.read_u8(at);
            at += 1;
        }
    }

    /// Writes `value` to the `bytes` bytes at `offset`.
    #[track_caller]
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) {
        self.check(offset, bytes);
        let before = self.bytes_to_alignment(offset).min(bytes);
        let words = (bytes - before) / 8;
        let aligned = offset + before;
        (offset..aligned).for_each(|at| self.write_u8(at, value));
        (0..words).for_each(|word| self.write_u64(aligned + 8 * word, u64::from_ne_bytes([value; 8])));
        (aligned + 8 * words..offset + bytes).for_each(|at| self.write_u8(at, value));
    }

    fn bytes_to_alignment(&self, offset: usize) -> usize {
        offset.wrapping_neg() % 8
    }

    #[inline]
    #[track_caller]
    fn word(&self, offset: usize, size: usize) -> usize {
        self.check(offset, size);
        assert!(offset.is_multiple_of(size), "offset {offset} is not a multiple of {size}");
        self.base + offset
    }

    #[inline]
    #[track_caller]
    fn check(&self, offset: usize, bytes: usize) {
        assert!(
            bytes <= self.bytes && offset <= self.bytes - bytes,
            "{bytes} bytes at {offset} leave a shared memory of {}",
            self.bytes
        );
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    impl SharedBytes {
        /// As many bytes of the host's memory, all zero; a multiple of eight. They are never given back.
        pub(crate) fn leaked(bytes: usize) -> SharedBytes {
            let memory = std::vec![0u64; bytes / 8].leak();
            // SAFETY: the memory is leaked, aligned, and reached through the returned value only.
            unsafe { SharedBytes::new(memory.as_mut_ptr().expose_provenance(), bytes) }
        }
    }

    fn shared() -> SharedBytes {
        SharedBytes::leaked(64)
    }

    #[test]
    fn what_several_add_to_a_word_is_all_there() {
        let shared = shared();
        shared.write_u32(8, u32::MAX);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..1000).map(|_| shared.add_u32(8, 1)).max());
            }
        });
        assert_eq!(shared.observe_u32(8), 1999);
        assert_eq!(shared.add_u32(8, 3), 2002);
    }

    #[test]
    fn what_is_copied_in_comes_out_at_every_offset_and_length() {
        let shared = shared();
        for offset in 0..24 {
            for length in 0..40 {
                let source: Vec<u8> = (1..=length).collect();
                let mut destination = std::vec![0; source.len()];
                shared.fill(0, 64, 0xEE);
                shared.copy_from_slice(offset, &source);
                shared.copy_to_slice(offset, &mut destination);
                assert_eq!(source, destination);
                assert_eq!(shared.read_u8(offset + source.len()), 0xEE);
                assert!(offset == 0 || shared.read_u8(offset - 1) == 0xEE);
            }
        }
    }

    #[test]
    #[should_panic(expected = "leave a shared memory of 64")]
    fn a_word_beyond_the_end_is_refused() {
        let _ = shared().read_u64(64);
    }

    #[test]
    #[should_panic(expected = "not a multiple of 4")]
    fn a_misaligned_word_is_refused() {
        shared().write_u32(2, 1);
    }
}

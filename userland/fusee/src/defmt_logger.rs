//! The messages of a task by the macros of the crate `defmt`, in the trace.
//!
//! A frame says which text it is by a number, and has the arguments as they are in memory, so the task formats nothing. `cargo xtask trace
//! --messages` finds the texts in the task's ELF file. Each eight bytes are a system call. A frame has [`DEFMT_BYTES`] at most,
//! longer ones are cut: the cost of a call is bounded, but for the task's own implementations of `Format` and `Display`.

use crate::trace_text::TraceText;
use defmt::Encoder;
use fusee_abi::trace::{DEFMT_BYTES, DEFMT_FRAME};

/// A frame that is being written.
struct Frame<L: FnMut(u32, u64)> {
    encoder: Encoder,
    words: TraceText<L>,
    /// Bytes, not encoded yet, that it has room for.
    left: usize,
}

impl<L: FnMut(u32, u64)> Frame<L> {
    fn new(log: L) -> Self {
        let mut encoder = Encoder::new();
        // The encoder would write the end of the frame before, for listeners that begin in the middle. Here keys say where a frame begins.
        encoder.start_frame(|_| {});
        Self { encoder, words: TraceText::new(DEFMT_FRAME, log), left: DEFMT_BYTES }
    }

    fn write(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(self.left)];
        self.left -= bytes.len();
        self.encoder.write(bytes, |encoded| self.words.write(encoded));
    }

    fn finish(mut self) {
        self.encoder.end_frame(|encoded| self.words.write(encoded));
        self.words.finish();
    }
}

#[cfg(target_os = "none")]
mod target {
    use super::Frame;
    use core::cell::RefCell;

    /// A frame that goes into the trace.
    type Logged = Frame<fn(u32, u64)>;

    /// The task's frame, if it is writing one.
    struct Open(RefCell<Option<Logged>>);

    // SAFETY: it must be sound to share between threads.
    // - There is one: a task of Fusee has one thread, no signals and no interrupts, and its memory is no other task's.
    unsafe impl Sync for Open {}

    static OPEN: Open = Open(RefCell::new(None));

    #[defmt::global_logger]
    struct Logger;

    // SAFETY: `acquire`, which is safe to call, must be so from all threads and interrupts.
    // - There is one thread, as above; in it `RefCell` keeps the frame from being borrowed twice.
    // - A lock that is acquired twice, by a `Format` that logs, panics, as the trait demands.
    unsafe impl defmt::Logger for Logger {
        fn acquire() {
            let mut open = OPEN.0.borrow_mut();
            assert!(open.is_none(), "what formats an argument of `defmt` must not log");
            *open = Some(Frame::new(|key, word| crate::log(key.into(), word)));
        }

        unsafe fn flush() {}

        unsafe fn release() {
            if let Some(frame) = OPEN.0.borrow_mut().take() {
                frame.finish();
            }
        }

        unsafe fn write(bytes: &[u8]) {
            if let Some(frame) = &mut *OPEN.0.borrow_mut() {
                frame.write(bytes);
            }
        }
    }
}

/// On the host there is no trace: programs link, and say nothing.
#[cfg(not(target_os = "none"))]
mod host {
    #[defmt::global_logger]
    struct Logger;

    // SAFETY: `acquire` must be safe to call from all threads: it does nothing.
    unsafe impl defmt::Logger for Logger {
        fn acquire() {}

        unsafe fn flush() {}

        unsafe fn release() {}

        unsafe fn write(_: &[u8]) {}
    }

    // On the target the linker script defines these.
    defmt::timestamp!("");

    #[defmt::panic_handler]
    fn panic() -> ! {
        panic!("by `defmt`")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use fusee_abi::trace::TEXT_BYTES;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The words of a frame that is written in these parts.
    fn words(parts: &[Vec<u8>]) -> Vec<(u32, u64)> {
        let mut words = Vec::new();
        let mut frame = Frame::new(|key, word| words.push((key, word)));
        parts.iter().for_each(|part| frame.write(part));
        frame.finish();
        words
    }

    proptest! {
        #[test]
        fn whatever_is_written_a_frame_has_one_end_and_it_is_in_its_last_word(
            // Few zeros make an encoded frame longer than it was.
            parts in prop::collection::vec(prop::collection::vec(prop_oneof![40 => 1_u8.., 1 => Just(0)], 0..400), 0..4),
        ) {
            let words = words(&parts);
            prop_assert!(words.len() <= TEXT_BYTES / 8);
            let keys: Vec<u32> = words.iter().map(|(key, _)| *key).collect();
            prop_assert_eq!(keys, (DEFMT_FRAME..).take(words.len()).collect::<Vec<_>>());
            let bytes: Vec<u8> = words.iter().flat_map(|(_, word)| word.to_le_bytes()).collect();
            let end = bytes.iter().position(|byte| *byte == 0);
            prop_assert!(end.is_some_and(|end| end / 8 == words.len() - 1 && bytes[end..].iter().all(|byte| *byte == 0)));
        }
    }

    #[test]
    fn the_longest_frames_keep_their_ends() {
        for filling in [[1; DEFMT_BYTES + 1].to_vec(), [0; DEFMT_BYTES + 1].to_vec()] {
            let words = words(&[filling]);
            assert!(words.last().is_some_and(|(_, word)| word.to_le_bytes().contains(&0)), "{words:?}");
        }
    }
}

//! The message of a panic as words for the trace, which tools read back.

use core::fmt;
use fusee_abi::trace::{PANIC_TEXT, PANIC_TEXT_BYTES};

const WORD: usize = size_of::<u64>();

/// Cuts text into words of eight bytes, and hands each to `log` with its key.
pub(crate) struct PanicText<L: FnMut(u32, u64)> {
    log: L,
    word: [u8; WORD],
    /// Bytes so far, those in `word` included.
    bytes: usize,
}

impl<L: FnMut(u32, u64)> PanicText<L> {
    pub(crate) fn new(log: L) -> Self {
        Self { log, word: [0; WORD], bytes: 0 }
    }

    /// Hands over the last word, if it is not empty.
    pub(crate) fn finish(mut self) {
        if !self.bytes.is_multiple_of(WORD) {
            self.hand_over(self.bytes / WORD);
        }
    }

    fn hand_over(&mut self, number: usize) {
        // Fewer words than keys: `write_str` cuts.
        (self.log)(PANIC_TEXT + number as u32, u64::from_le_bytes(self.word));
        self.word = [0; WORD];
    }
}

impl<L: FnMut(u32, u64)> fmt::Write for PanicText<L> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.bytes == PANIC_TEXT_BYTES {
                break;
            }
            self.word[self.bytes % WORD] = byte;
            self.bytes += 1;
            if self.bytes.is_multiple_of(WORD) {
                self.hand_over(self.bytes / WORD - 1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::fmt::Write;
    use std::vec::Vec;

    fn words(text: &str) -> Vec<(u32, u64)> {
        let mut words = Vec::new();
        let mut panic = PanicText::new(|key, word| words.push((key, word)));
        panic.write_str(text).unwrap();
        panic.finish();
        words
    }

    #[test]
    fn a_message_is_cut_into_words_with_rising_keys() {
        let expected =
            [(PANIC_TEXT, u64::from_le_bytes(*b"too hot:")), (PANIC_TEXT + 1, u64::from_le_bytes(*b" 90 C\0\0\0"))];
        assert_eq!(words("too hot: 90 C"), expected);
        assert_eq!(words("too hot:"), expected[..1]);
        assert_eq!(words(""), []);
    }

    #[test]
    fn a_message_that_is_too_long_is_cut() {
        let long = std::string::String::from_utf8(std::vec![b'x'; PANIC_TEXT_BYTES + 1]).unwrap();
        let words = words(&long);
        assert_eq!(words.len(), PANIC_TEXT_BYTES / WORD);
        assert!(words.iter().all(|(_, word)| *word == u64::from_le_bytes([b'x'; WORD])));
    }
}

//! Messages as words for the trace, which tools read back.

use core::fmt;
use fusee_abi::trace::TEXT_BYTES;

const WORD: usize = size_of::<u64>();

/// Cuts text into words of eight bytes, and hands each to `log` with its key.
pub(crate) struct TraceText<L: FnMut(u32, u64)> {
    /// The key of the first word.
    first: u32,
    log: L,
    word: [u8; WORD],
    /// Bytes so far, those in `word` included.
    bytes: usize,
}

impl<L: FnMut(u32, u64)> TraceText<L> {
    pub(crate) fn new(first: u32, log: L) -> Self {
        Self { first, log, word: [0; WORD], bytes: 0 }
    }

    /// Takes bytes, as many as there is room for.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.bytes == TEXT_BYTES {
                break;
            }
            self.word[self.bytes % WORD] = byte;
            self.bytes += 1;
            if self.bytes.is_multiple_of(WORD) {
                self.hand_over(self.bytes / WORD - 1);
            }
        }
    }

    /// Hands over the last word, if it is not empty.
    pub(crate) fn finish(mut self) {
        if !self.bytes.is_multiple_of(WORD) {
            self.hand_over(self.bytes / WORD);
        }
    }

    fn hand_over(&mut self, number: usize) {
        // Fewer words than keys: `write` cuts.
        (self.log)(self.first + number as u32, u64::from_le_bytes(self.word));
        self.word = [0; WORD];
    }
}

impl<L: FnMut(u32, u64)> fmt::Write for TraceText<L> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::fmt::Write;
    use fusee_abi::trace::PANIC_TEXT;
    use std::vec::Vec;

    fn words(text: &str) -> Vec<(u32, u64)> {
        let mut words = Vec::new();
        let mut panic = TraceText::new(PANIC_TEXT, |key, word| words.push((key, word)));
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
        let long = std::string::String::from_utf8(std::vec![b'x'; TEXT_BYTES + 1]).unwrap();
        let words = words(&long);
        assert_eq!(words.len(), TEXT_BYTES / WORD);
        assert!(words.iter().all(|(_, word)| *word == u64::from_le_bytes([b'x'; WORD])));
    }
}

//! Text for people: `print!` and `println!`, through the endpoint named "console".
//!
//! A message carries the number of bytes in word 0 and up to 40 bytes of text in words 1 to 5, little endian. The
//! server keeps the text of each client apart until its line is complete. A task without a console prints into the
//! void: text is never worth a fault.

use crate::{Endpoint, Instant, Message, environment};
use core::fmt::{self, Write};

/// The endpoint that text goes to.
pub const NAME: &str = "console";

/// Bytes of text in one message.
pub const CHUNK: usize = 40;

/// The message that carries `text`, of which the first [`CHUNK`] bytes count.
#[must_use]
pub fn encode(text: &[u8]) -> Message {
    let text = &text[..text.len().min(CHUNK)];
    let mut bytes = [0; CHUNK];
    bytes[..text.len()].copy_from_slice(text);
    let mut words = [0; 6];
    words[0] = text.len() as u64;
    for (word, chunk) in words[1..].iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    words
}

/// The text that `message` carries, and its length; `None` if no task of ours wrote it.
#[must_use]
pub fn decode(message: &Message) -> Option<([u8; CHUNK], usize)> {
    let length = usize::try_from(message[0]).ok().filter(|length| (1..=CHUNK).contains(length))?;
    let mut bytes = [0; CHUNK];
    for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&message[1..]) {
        *chunk = word.to_le_bytes();
    }
    Some((bytes, length))
}

/// Prints formatted text; what `print!` expands to.
#[doc(hidden)]
pub fn print(text: fmt::Arguments<'_>) {
    let Ok(endpoint) = environment().endpoint(NAME) else { return };
    let mut writer = Writer { endpoint, bytes: [0; CHUNK], filled: 0 };
    // The writer itself never fails; a failing `Display` has nobody to complain to.
    let _ = writer.write_fmt(text);
    writer.flush();
}

struct Writer {
    endpoint: Endpoint,
    bytes: [u8; CHUNK],
    filled: usize,
}

impl Writer {
    fn flush(&mut self) {
        if self.filled > 0 {
            // A console that is gone loses text, as the module says.
            let _ = self.endpoint.call(encode(&self.bytes[..self.filled]), Instant::NEVER);
            self.filled = 0;
        }
    }
}

impl Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            self.bytes[self.filled] = byte;
            self.filled += 1;
            if self.filled == CHUNK {
                self.flush();
            }
        }
        Ok(())
    }
}

/// Prints formatted text to the console.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::console::print(::core::format_args!($($text)*)) };
}

/// Prints formatted text and ends the line.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($format:literal $($rest:tt)*) => { $crate::print!("{}\n", ::core::format_args!($format $($rest)*)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_its_message_at_every_length() {
        let text: [u8; CHUNK] = core::array::from_fn(|index| index as u8 + b' ');
        for length in 1..=CHUNK {
            let (bytes, decoded) = decode(&encode(&text[..length])).unwrap();
            assert_eq!(&bytes[..decoded], &text[..length]);
        }
    }

    #[test]
    fn a_length_nobody_writes_is_refused() {
        assert_eq!(decode(&[0; 6]), None);
        assert_eq!(decode(&[41, 0, 0, 0, 0, 0]), None);
        assert_eq!(decode(&[u64::MAX; 6]), None);
    }
}

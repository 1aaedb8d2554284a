//! Text for people: `print!` and `println!`, through the endpoint named "console".
//!
//! A message carries the number of bytes in word 0 and up to 40 bytes of text in words 1 to 5, little endian. The
//! server keeps the text of each client apart until its line is complete. A task without a console prints into the
//! void: text is never worth a fault. A console may have several lives: the part of a line that one kept is lost
//! with it, and the next one prints later text.
//!
//! A console with a server that has the port's interrupt can be read, too, by one task ([`Request`]): `fusee::serial` has its client's side.

use crate::{CallError, Endpoint, Instant, Message, environment};
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

/// A request to a console.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// To print so many bytes of text.
    Print([u8; CHUNK], usize),
    /// To give received bytes, so many at most.
    Read(usize),
    /// To print the kept part of the client's line, and to wait until all is sent.
    Flush,
}

/// In word 0: a request to read; how many bytes is in word 1.
const READ: u64 = 1 << 32;
/// In word 0: a request to flush.
const FLUSH: u64 = 2 << 32;
/// In word 0 of the reply: this console cannot be read.
pub const NO_INPUT: u64 = 1 << 32;
/// In word 0 of the reply: another task reads it.
pub const TAKEN: u64 = 2 << 32;

impl Request {
    /// The request in `message` of any origin; `None` if it has no meaning.
    #[must_use]
    pub fn of(message: &Message) -> Option<Request> {
        match message[0] {
            READ => {
                let wanted = usize::try_from(message[1]).ok().filter(|wanted| (1..=CHUNK).contains(wanted))?;
                Some(Request::Read(wanted))
            }
            FLUSH => Some(Request::Flush),
            _ => decode(message).map(|(text, length)| Request::Print(text, length)),
        }
    }

    /// The message that asks for it.
    #[must_use]
    pub fn message(&self) -> Message {
        match self {
            Request::Print(text, length) => encode(&text[..(*length).min(CHUNK)]),
            Request::Read(wanted) => [READ, *wanted as u64, 0, 0, 0, 0],
            Request::Flush => [FLUSH, 0, 0, 0, 0, 0],
        }
    }
}

/// Prints formatted text; the expansion of `print!`.
#[doc(hidden)]
pub fn print(text: fmt::Arguments<'_>) {
    let Ok(endpoint) = environment().endpoint(NAME) else { return };
    let mut writer = Writer { endpoint, bytes: [0; CHUNK], filled: 0 };
    // The writer itself never fails; the error of a failing `Display` cannot be reported.
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
            let text = encode(&self.bytes[..self.filled]);
            // A console that is gone loses text, as the module says. To one that has begun another life nothing was delivered yet.
            if self.endpoint.call(text, Instant::NEVER) == Err(CallError::PeerRestarted) {
                let _ = self.endpoint.call(text, Instant::NEVER);
            }
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
    fn requests_survive_their_messages_and_others_have_no_meaning() {
        for request in [Request::Print([b'x'; CHUNK], CHUNK), Request::Read(1), Request::Read(CHUNK), Request::Flush] {
            assert_eq!(Request::of(&request.message()), Some(request));
        }
        for words in [[READ, 0], [READ, CHUNK as u64 + 1], [READ, u64::MAX], [READ + 1, 1], [3 << 32, 1], [0, 1]] {
            assert_eq!(Request::of(&[words[0], words[1], 0, 0, 0, 0]), None, "{words:?}");
        }
    }

    proptest::proptest! {
        /// A hostile client: printed or read text is never longer than a message can carry.
        #[test]
        fn no_message_asks_for_more_than_a_message_carries(
            words: Message, kind in 0..3u64, length in 0..100u64, is_plain: bool,
        ) {
            // The kinds of requests, or a length that may be too long.
            let first = if kind == 0 { length } else { kind << 32 };
            let words = if is_plain { [first, length, 0, 0, 0, 0] } else { words };
            match Request::of(&words) {
                Some(Request::Print(_, length) | Request::Read(length)) => assert!((1..=CHUNK).contains(&length)),
                Some(Request::Flush) | None => {}
            }
        }
    }

    #[test]
    fn a_length_nobody_writes_is_refused() {
        assert_eq!(decode(&[0; 6]), None);
        assert_eq!(decode(&[41, 0, 0, 0, 0, 0]), None);
        assert_eq!(decode(&[u64::MAX; 6]), None);
    }
}

//! A serial line to read and write, by the traits of the crate `embedded-io`: the other side of `drivers/console`.
//!
//! Written text goes through the console, and its server keeps it until its line is complete, or until [`Write::flush`]. Bytes that are read were
//! received since; nothing of them is shown. One task can read: the first one that does.
//!
//! The line's interrupt signals a notification that *this task* waits for, and the server looks when it is asked next. So bytes that are not asked
//! for cost nothing, and bytes beyond the port's capacity are lost, as on any serial line.

use core::fmt;

use embedded_io::{ErrorKind, ErrorType, Read, Write};

use crate::console::{CHUNK, NO_INPUT, Request, TAKEN};
use crate::{CallError, Endpoint, Instant, Notification, WaitError};

/// A console, and the notification that the interrupt of its port signals.
#[derive(Clone, Copy, Debug)]
pub struct Serial {
    server: Endpoint,
    received: Notification,
    /// When calls end that have not come to their ends.
    pub deadline: Instant,
}

/// Why a serial line was not read or written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SerialError {
    /// The console's server does not receive.
    NoInput,
    /// Another task reads it.
    Taken,
    /// The deadline passed first.
    TimedOut,
    /// The server gave an answer that has no meaning.
    Malformed,
    /// The server did not answer.
    Call(CallError),
    /// This task may not wait for the bytes.
    Wait(WaitError),
}

impl Serial {
    /// The console of `server`, with a port whose interrupt signals `received`. Calls have no deadline until [`Serial::deadline`] is set.
    #[must_use]
    pub fn new(server: Endpoint, received: Notification) -> Serial {
        Serial { server, received, deadline: Instant::NEVER }
    }

    fn ask(&self, request: Request) -> Result<[u64; 6], SerialError> {
        self.server.call(request.message(), self.deadline).map_err(|error| match error {
            CallError::TimedOut => SerialError::TimedOut,
            error => SerialError::Call(error),
        })
    }
}

impl ErrorType for Serial {
    type Error = SerialError;
}

impl Read for Serial {
    /// Waits until there is something, and takes as much of it as fits: at least one byte, unless `buf` is empty.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, SerialError> {
        let wanted = buf.len().min(CHUNK);
        if wanted == 0 {
            return Ok(0);
        }
        loop {
            // To ask also lets the interrupt fire again: bytes from here on signal.
            let words = self.ask(Request::Read(wanted))?;
            match words[0] {
                0 => {}
                NO_INPUT => return Err(SerialError::NoInput),
                TAKEN => return Err(SerialError::Taken),
                _ => {
                    let (bytes, length) = crate::console::decode(&words).ok_or(SerialError::Malformed)?;
                    let taken = buf.get_mut(..length).ok_or(SerialError::Malformed)?;
                    taken.copy_from_slice(&bytes[..length]);
                    return Ok(length);
                }
            }
            match self.received.wait(self.deadline) {
                Ok(_) => {}
                Err(WaitError::TimedOut) => return Err(SerialError::TimedOut),
                Err(error) => return Err(SerialError::Wait(error)),
            }
        }
    }
}

impl Write for Serial {
    /// Gives the server the first of `buf`, as many as a message carries.
    fn write(&mut self, buf: &[u8]) -> Result<usize, SerialError> {
        let length = buf.len().min(CHUNK);
        if length > 0 {
            let mut text = [0; CHUNK];
            text[..length].copy_from_slice(&buf[..length]);
            self.ask(Request::Print(text, length))?;
        }
        Ok(length)
    }

    /// Has the rest of the line printed, and waits until all is sent.
    fn flush(&mut self) -> Result<(), SerialError> {
        self.ask(Request::Flush).map(drop)
    }
}

impl fmt::Display for SerialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SerialError::NoInput => f.write_str("the console cannot be read"),
            SerialError::Taken => f.write_str("another task reads the console"),
            SerialError::TimedOut => f.write_str("the deadline passed first"),
            SerialError::Malformed => f.write_str("the console gave an answer that has no meaning"),
            SerialError::Call(error) => write!(f, "the console did not answer: {error:?}"),
            SerialError::Wait(error) => write!(f, "this task may not wait for input: {error:?}"),
        }
    }
}

impl core::error::Error for SerialError {}

impl embedded_io::Error for SerialError {
    fn kind(&self) -> ErrorKind {
        match self {
            SerialError::NoInput => ErrorKind::Unsupported,
            SerialError::Taken => ErrorKind::AddrInUse,
            SerialError::TimedOut => ErrorKind::TimedOut,
            SerialError::Malformed => ErrorKind::InvalidData,
            SerialError::Call(_) => ErrorKind::NotConnected,
            SerialError::Wait(_) => ErrorKind::PermissionDenied,
        }
    }
}

//! A real-time clock: seconds of the calendar, and an alarm. The other side of `drivers/rtc`.
//!
//! The clock counts seconds since 1970-01-01 00:00 UTC, in 32 bits: until 2106. Its alarm is one for all tasks, of the task that sets it, until it
//! has rung or was taken back.
//!
//! | Word | Request | Reply |
//! |---|---|---|
//! | 0 | the [`Request`] | zero, or a code of [`Refusal`] |
//! | 1 | of `Alarm`: the second | of `Read`: the second; of `End`: one if it has rung |

use crate::{CallError, Endpoint, Instant, Message, Notification, WaitError};

/// A request of a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Say which second it is.
    Read,
    /// Ring at this second.
    Alarm(u32),
    /// Silence the alarm, whether it has rung or not, and let others use it.
    End,
}

/// The reason for which a server refused a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Refusal {
    /// The request has no meaning; or a reply has none.
    Malformed = 1,
    /// The second is over, or has begun.
    Passed = 2,
    /// Another task uses the alarm.
    Taken = 3,
}

impl Request {
    /// The request in `message` of any origin.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]: for nothing.
    pub fn of(message: &Message) -> Result<Request, Refusal> {
        match (message[0], u32::try_from(message[1])) {
            (1, _) => Ok(Request::Read),
            (2, Ok(second)) => Ok(Request::Alarm(second)),
            (3, _) => Ok(Request::End),
            _ => Err(Refusal::Malformed),
        }
    }

    /// The message that asks for it.
    #[must_use]
    pub fn message(&self) -> Message {
        let (operation, second) = match self {
            Request::Read => (1, 0),
            Request::Alarm(second) => (2, *second),
            Request::End => (3, 0),
        };
        [operation, second.into(), 0, 0, 0, 0]
    }
}

/// The reply to a request: its second word, or why it was refused.
#[must_use]
pub fn reply(result: Result<u64, Refusal>) -> Message {
    match result {
        Ok(word) => [0, word, 0, 0, 0, 0],
        Err(refusal) => [refusal as u64, 0, 0, 0, 0, 0],
    }
}

/// The reason for which the clock did not serve a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClockError {
    /// The server answered that it did not.
    Refused(Refusal),
    /// The server did not answer.
    Call(CallError),
    /// The alarm did not ring: the deadline passed first, or this task may not wait.
    Wait(WaitError),
}

/// A real-time clock.
#[derive(Clone, Copy, Debug)]
pub struct RealTimeClock {
    server: Endpoint,
}

impl RealTimeClock {
    /// The clock of `server`.
    #[must_use]
    pub fn new(server: Endpoint) -> RealTimeClock {
        RealTimeClock { server }
    }

    /// Seconds since 1970.
    ///
    /// # Errors
    /// [`ClockError`] says why they are not known.
    pub fn seconds(&self) -> Result<u32, ClockError> {
        let seconds = self.ask(Request::Read)?;
        u32::try_from(seconds).map_err(|_| ClockError::Refused(Refusal::Malformed))
    }

    /// Waits until this second begins, or until `deadline`, an instant of the kernel's clock. The interrupt of the real-time clock signals `rung`.
    ///
    /// # Errors
    /// [`ClockError`] says why it did not begin. The alarm is free for others then, unless it was another's.
    pub fn wait_until(&self, second: u32, rung: &Notification, deadline: Instant) -> Result<(), ClockError> {
        self.ask(Request::Alarm(second))?;
        loop {
            let waited = rung.wait(deadline);
            let has_rung = self.ask(Request::End)? != 0;
            match waited {
                // It came at the last moment.
                Err(WaitError::TimedOut) | Ok(_) if has_rung => return Ok(()),
                Err(error) => return Err(ClockError::Wait(error)),
                // The bit of an earlier alarm.
                Ok(_) => match self.ask(Request::Alarm(second)) {
                    Err(ClockError::Refused(Refusal::Passed)) => return Ok(()),
                    again => again?,
                },
            };
        }
    }

    fn ask(&self, request: Request) -> Result<u64, ClockError> {
        let words = self.server.call(request.message(), Instant::NEVER).map_err(ClockError::Call)?;
        match words[0] {
            0 => Ok(words[1]),
            2 => Err(ClockError::Refused(Refusal::Passed)),
            3 => Err(ClockError::Refused(Refusal::Taken)),
            _ => Err(ClockError::Refused(Refusal::Malformed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A hostile client: no number of more than 32 bits becomes a second.
        #[test]
        fn what_is_accepted_means_what_its_own_message_would(words: Message, operation in 0..5u64, second: u64, bits in 0..64u32) {
            for words in [words, [operation, second >> bits, 0, 0, 0, 0]] {
                if let Ok(request) = Request::of(&words) {
                    prop_assert_eq!(Request::of(&request.message()), Ok(request));
                    prop_assert!(!matches!(request, Request::Alarm(second) if u64::from(second) != words[1]));
                }
            }
        }
    }
}

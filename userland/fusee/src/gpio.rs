//! General purpose lines, by the traits of the crate `embedded-hal`: the other side of `drivers/gpio`.
//!
//! A task opens a pin by its number, to read or to drive it, and no other task can use that pin from then on. It can wait for an edge on a
//! notification of its own, which the driver signals.
//!
//! | Word | Request | Reply |
//! |---|---|---|
//! | 0 | the [`Request`] | zero, or a code of [`Refusal`] |
//! | 1 | the pin | of `Get`: one if it is high |
//! | 2 | of `Drive`: one for high; of `Listen`: which [`Edge`] | |

use embedded_hal::digital::{ErrorKind, ErrorType, InputPin, OutputPin, StatefulOutputPin};

use crate::{CallError, Endpoint, Instant, Message, Notification, WaitError};

/// Pins that a server has at most.
pub const PINS: u64 = 8;

/// A change of a pin that a task waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Edge {
    /// From low to high.
    Rising = 1,
    /// From high to low.
    Falling = 2,
    /// Each.
    Both = 3,
}

/// A request of a client. The pin is below [`PINS`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Make the pin an input.
    Input(u8),
    /// Say whether it is high.
    Get(u8),
    /// Make it an output, if it is none, that is high or not.
    Drive(u8, bool),
    /// Signal each such edge from now on, or none.
    Listen(u8, Option<Edge>),
}

/// The reason for which a server refused a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Refusal {
    /// The request has no meaning; or a reply has none.
    Malformed = 1,
    /// There is no such pin.
    NoPin = 2,
    /// Another task has it.
    Taken = 3,
    /// The pin is an output, or was not made an input yet.
    NotAnInput = 4,
    /// The driver has no notification that it could signal.
    NoNotification = 5,
}

impl Refusal {
    fn from_code(code: u64) -> Refusal {
        match code {
            2 => Refusal::NoPin,
            3 => Refusal::Taken,
            4 => Refusal::NotAnInput,
            5 => Refusal::NoNotification,
            _ => Refusal::Malformed,
        }
    }
}

impl Request {
    /// The request in `message` of any origin.
    ///
    /// # Errors
    /// [`Refusal`] is the answer for the client.
    pub fn of(message: &Message) -> Result<Request, Refusal> {
        let [operation, pin, what, ..] = *message;
        let pin = u8::try_from(pin).ok().filter(|pin| u64::from(*pin) < PINS).ok_or(Refusal::NoPin)?;
        match (operation, what) {
            (1, _) => Ok(Request::Input(pin)),
            (2, _) => Ok(Request::Get(pin)),
            (3, 0 | 1) => Ok(Request::Drive(pin, what == 1)),
            (4, 0) => Ok(Request::Listen(pin, None)),
            (4, 1) => Ok(Request::Listen(pin, Some(Edge::Rising))),
            (4, 2) => Ok(Request::Listen(pin, Some(Edge::Falling))),
            (4, 3) => Ok(Request::Listen(pin, Some(Edge::Both))),
            _ => Err(Refusal::Malformed),
        }
    }

    /// The message that asks for it.
    #[must_use]
    pub fn message(&self) -> Message {
        let (operation, pin, what) = match *self {
            Request::Input(pin) => (1, pin, 0),
            Request::Get(pin) => (2, pin, 0),
            Request::Drive(pin, is_high) => (3, pin, is_high.into()),
            Request::Listen(pin, edge) => (4, pin, edge.map_or(0, |edge| edge as u64)),
        };
        [operation, pin.into(), what, 0, 0, 0]
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

/// The reason for which a pin did not serve a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PinError {
    /// The server answered that it did not.
    Refused(Refusal),
    /// The server did not answer.
    Call(CallError),
    /// No edge came: the deadline passed first, or this task may not wait.
    Wait(WaitError),
}

impl embedded_hal::digital::Error for PinError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

fn ask(server: &Endpoint, request: Request) -> Result<u64, PinError> {
    let words = server.call(request.message(), Instant::NEVER).map_err(PinError::Call)?;
    if words[0] == 0 { Ok(words[1]) } else { Err(PinError::Refused(Refusal::from_code(words[0]))) }
}

/// A pin that is read.
#[derive(Debug)]
pub struct Input {
    server: Endpoint,
    pin: u8,
}

impl Input {
    /// Makes pin number `pin` of `server` an input of this task.
    ///
    /// # Errors
    /// [`PinError`] says why not.
    pub fn open(server: Endpoint, pin: u8) -> Result<Input, PinError> {
        ask(&server, Request::Input(pin))?;
        Ok(Input { server, pin })
    }

    /// Waits for an edge: of those that come from now on, until `deadline`. The driver signals `signalled`, of which nothing is taken before.
    ///
    /// # Errors
    /// [`PinError`] says why none came.
    pub fn wait_for_edge(&mut self, edge: Edge, signalled: &Notification, deadline: Instant) -> Result<(), PinError> {
        // A bit that an earlier wait left behind. There is none, as a rule.
        let _ = signalled.wait(Instant::ZERO);
        ask(&self.server, Request::Listen(self.pin, Some(edge)))?;
        let came = signalled.wait(deadline).map_err(PinError::Wait);
        ask(&self.server, Request::Listen(self.pin, None))?;
        came.map(drop)
    }
}

/// A pin that is driven.
#[derive(Debug)]
pub struct Output {
    server: Endpoint,
    pin: u8,
    is_high: bool,
}

impl Output {
    /// Makes pin number `pin` of `server` an output of this task, high or low from the start.
    ///
    /// # Errors
    /// [`PinError`] says why not.
    pub fn open(server: Endpoint, pin: u8, is_high: bool) -> Result<Output, PinError> {
        ask(&server, Request::Drive(pin, is_high))?;
        Ok(Output { server, pin, is_high })
    }

    fn drive(&mut self, is_high: bool) -> Result<(), PinError> {
        ask(&self.server, Request::Drive(self.pin, is_high))?;
        self.is_high = is_high;
        Ok(())
    }
}

impl ErrorType for Input {
    type Error = PinError;
}

impl ErrorType for Output {
    type Error = PinError;
}

impl InputPin for Input {
    fn is_high(&mut self) -> Result<bool, PinError> {
        ask(&self.server, Request::Get(self.pin)).map(|level| level != 0)
    }

    fn is_low(&mut self) -> Result<bool, PinError> {
        self.is_high().map(|is_high| !is_high)
    }
}

impl OutputPin for Output {
    fn set_low(&mut self) -> Result<(), PinError> {
        self.drive(false)
    }

    fn set_high(&mut self) -> Result<(), PinError> {
        self.drive(true)
    }
}

impl StatefulOutputPin for Output {
    fn is_set_high(&mut self) -> Result<bool, PinError> {
        Ok(self.is_high)
    }

    fn is_set_low(&mut self) -> Result<bool, PinError> {
        Ok(!self.is_high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A hostile client: an accepted request names an existing pin, and equals the request of its own message.
        #[test]
        fn what_is_accepted_is_about_a_pin_that_there_is(words: Message, operation in 0..6u64, pin in 0..10u64, what in 0..5u64) {
            for words in [words, [operation, pin, what, 0, 0, 0]] {
                if let Ok(request) = Request::of(&words) {
                    let (Request::Input(pin) | Request::Get(pin) | Request::Drive(pin, _) | Request::Listen(pin, _)) = request;
                    prop_assert!(u64::from(pin) < PINS && u64::from(pin) == words[1]);
                    prop_assert_eq!(Request::of(&request.message()), Ok(request));
                }
            }
        }
    }

    #[test]
    fn a_refusal_survives_its_reply() {
        let all = [Refusal::Malformed, Refusal::NoPin, Refusal::Taken, Refusal::NotAnInput, Refusal::NoNotification];
        for refusal in all {
            assert_eq!(Refusal::from_code(reply(Err(refusal))[0]), refusal);
        }
    }
}

//! A CAN bus, by the traits of the crate `embedded-can`: the other side of `drivers/can`.
//!
//! A client opens the bus with filters of its own. The server keeps a queue of received frames and a queue of frames to send for each client,
//! so no client can fill the queue of another. Frames that wait go to the bus in the order of their identifiers, whichever client they are of.
//! A client that waits does so on a notification that it has given the server, and that is bound to the server's bottom half.
//!
//! A frame that finds the client's queue full is lost and counted. The count is an error, [`CanError::Lost`], at the place of the lost frames.
//!
//! | Word | Request | Reply |
//! |---|---|---|
//! | 0 | its operation: [`Request`] | zero, or a code of [`Refusal`] |
//! | 1 | `Send`: identifier; `Accept`: value | `Receive`: identifier, and from bit 32 on the length; or lost frames; `State`: [`State`]; `Interrupt`: one if frames are left |
//! | 2 | `Send`: length; `Accept`: mask | `Receive`: data; or overruns; `State`: frames to send; `Interrupt`: the instant of the next one |
//! | 3 | `Send`: data | `Receive`: time stamp; `State`: received frames that wait |
//! | 4 | | `State`: how often the controller was off the bus |
//!
//! An identifier has 29 bits or 11. Bit 31 marks one of 29 bits, bit 30 a remote frame. Data are little-endian, and zero behind their length.

use core::fmt;

use embedded_can::{ErrorKind, ExtendedId, Id, StandardId};

use crate::{CallError, CallWithError, Endpoint, Instant, Message, Notification, WaitError};

/// Filters of a client, at most.
pub const FILTERS: usize = 4;

/// The bit of the client's notification for received or lost frames.
pub const RECEIVED: u64 = 1;
/// The bit for room in the queue of frames to send, after it was full, and for its last frame on the bus.
pub const SENT: u64 = 1 << 1;
/// The bit for a controller that went off the bus.
pub const BUS_OFF: u64 = 1 << 2;

/// In an identifier: it has 29 bits.
const EXTENDED: u32 = 1 << 31;
/// In an identifier: the frame is a remote one.
const REMOTE: u32 = 1 << 30;
const EXTENDED_BITS: u32 = 0x1fff_ffff;
const STANDARD_BITS: u32 = 0x7ff;

//--- Frames and filters

/// A classical frame, of up to eight bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame {
    identifier: u32,
    length: u8,
    data: [u8; 8],
}

impl Frame {
    /// The frame of these words of a message, of any origin: identifier, length and data. None if they are no frame.
    #[must_use]
    pub fn of_words(identifier: u64, length: u64, data: u64) -> Option<Frame> {
        let identifier = u32::try_from(identifier).ok()?;
        let bits = if identifier & EXTENDED != 0 { EXTENDED_BITS } else { STANDARD_BITS };
        let length = u8::try_from(length).ok().filter(|length| *length <= 8)?;
        let bytes = if identifier & REMOTE != 0 { 0 } else { u32::from(length) };
        let is_frame = identifier & !(bits | EXTENDED | REMOTE) == 0 && data.checked_shr(8 * bytes).unwrap_or(0) == 0;
        is_frame.then(|| Frame { identifier, length, data: data.to_le_bytes() })
    }

    /// The words of the frame in a message: identifier, length and data.
    #[must_use]
    pub fn words(&self) -> [u64; 3] {
        [self.identifier.into(), self.length.into(), u64::from_le_bytes(self.data)]
    }

    /// The bits by which the frame competes for the bus, the first in bit 31: 11 bits of the identifier, the bit of remote frames, the bit of
    /// identifiers of 29 bits, the rest of the identifier, and the bit of remote frames again. A smaller value wins (ISO 11898-1:2015, 10.4.2).
    #[must_use]
    pub fn order(&self) -> u32 {
        let (bits, remote) = (self.identifier & EXTENDED_BITS, u32::from(self.identifier & REMOTE != 0));
        match self.identifier & EXTENDED {
            0 => bits << 21 | remote << 20,
            _ => (bits >> 18) << 21 | 0b11 << 19 | (bits & 0x3_ffff) << 1 | remote,
        }
    }

    /// The frame that competes by these bits, with the first `length` bytes of `data`: of all of them if there are more than eight.
    #[must_use]
    pub fn of_order(order: u32, length: usize, data: [u8; 8]) -> Frame {
        let is_extended = order & 1 << 19 != 0;
        let identifier = if is_extended {
            let remote = if order & 1 == 0 { 0 } else { REMOTE };
            EXTENDED | remote | (order >> 21) << 18 | (order >> 1 & 0x3_ffff)
        } else {
            let remote = if order & 1 << 20 == 0 { 0 } else { REMOTE };
            remote | order >> 21
        };
        let length = length.min(8);
        let mut frame = Frame { identifier, length: length as u8, data: [0; 8] };
        if identifier & REMOTE == 0 {
            frame.data[..length].copy_from_slice(&data[..length]);
        }
        frame
    }
}

/// The identifier in the form of a message.
fn encoded(id: Id) -> u32 {
    match id {
        Id::Standard(id) => id.as_raw().into(),
        Id::Extended(id) => id.as_raw() | EXTENDED,
    }
}

impl embedded_can::Frame for Frame {
    fn new(id: impl Into<Id>, data: &[u8]) -> Option<Frame> {
        let mut frame = Frame { identifier: encoded(id.into()), length: data.len() as u8, data: [0; 8] };
        frame.data.get_mut(..data.len())?.copy_from_slice(data);
        Some(frame)
    }

    fn new_remote(id: impl Into<Id>, dlc: usize) -> Option<Frame> {
        (dlc <= 8).then(|| Frame { identifier: encoded(id.into()) | REMOTE, length: dlc as u8, data: [0; 8] })
    }

    fn is_extended(&self) -> bool {
        self.identifier & EXTENDED != 0
    }

    fn is_remote_frame(&self) -> bool {
        self.identifier & REMOTE != 0
    }

    fn id(&self) -> Id {
        let bits = self.identifier & EXTENDED_BITS;
        if self.is_extended() {
            ExtendedId::new(bits).unwrap_or(ExtendedId::MAX).into()
        } else {
            StandardId::new(bits as u16).unwrap_or(StandardId::MAX).into()
        }
    }

    fn dlc(&self) -> usize {
        self.length.into()
    }

    fn data(&self) -> &[u8] {
        let bytes = if self.is_remote_frame() { 0 } else { self.length };
        &self.data[..bytes.into()]
    }
}

/// The frames that a client wants: those whose identifier, in the form of a message, has the bits of `value` wherever `mask` has ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Filter {
    value: u32,
    mask: u32,
}

impl Filter {
    /// All frames.
    pub const ALL: Filter = Filter { value: 0, mask: 0 };

    /// Data and remote frames with this identifier.
    #[must_use]
    pub fn exactly(id: impl Into<Id>) -> Filter {
        Filter::new(id, EXTENDED_BITS)
    }

    /// Data and remote frames with an identifier as long as `id`, and equal to it wherever `mask` has ones.
    #[must_use]
    pub fn new(id: impl Into<Id>, mask: u32) -> Filter {
        let value = encoded(id.into());
        let bits = if value & EXTENDED != 0 { EXTENDED_BITS } else { STANDARD_BITS };
        Filter { value, mask: mask & bits | EXTENDED }
    }

    /// The filter of these words of a message, of any origin.
    fn of_words(value: u64, mask: u64) -> Option<Filter> {
        Some(Filter { value: u32::try_from(value).ok()?, mask: u32::try_from(mask).ok()? })
    }

    /// Whether the client wants `frame`.
    #[must_use]
    pub fn accepts(&self, frame: &Frame) -> bool {
        (frame.identifier ^ self.value) & self.mask == 0
    }

    /// A mask and a value of [`Frame::order`] by which a controller lets all frames of this filter pass. None if one such pair cannot tell them
    /// from others.
    #[must_use]
    pub fn by_order(&self) -> Option<(u32, u32)> {
        if self.mask == 0 {
            return Some((0, 0));
        }
        if self.mask & EXTENDED == 0 {
            return None;
        }
        let of = |bits: u32| Frame { identifier: bits, length: 0, data: [0; 8] }.order();
        let is_extended = self.value & EXTENDED != 0;
        let kind = if is_extended { EXTENDED } else { 0 };
        // Without the two bits that every frame of 29 bits has.
        let fixed = of(kind);
        let mask = of(self.mask & (EXTENDED_BITS | REMOTE) | kind) ^ fixed | 1 << 19;
        Some((mask, of(self.value & (EXTENDED_BITS | REMOTE) | kind) & mask))
    }
}

//--- Messages

/// A request of a client, or of the server's bottom half.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Begin anew: no filter, no received frame, no count. Frames to send stay. The notification to signal comes with it.
    Open,
    /// Receive frames of this filter, too.
    Accept(Filter),
    /// Queue a frame to send.
    Send(Frame),
    /// Take the earliest received frame.
    Receive,
    /// Read the state of the controller.
    State,
    /// Serve the controller's interrupt.
    Interrupt,
}

/// A reason of a server to refuse a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Refusal {
    /// The request has no meaning; or a reply has none.
    Malformed = 1,
    /// The client has not opened the bus in this life of the server.
    NotOpen = 2,
    /// The server has no room for one more client.
    TooManyClients = 3,
    /// The client has [`FILTERS`] filters already.
    TooManyFilters = 4,
    /// The client's queue of frames to send is full.
    QueueFull = 5,
    /// The controller is off the bus.
    BusOff = 6,
    /// No received frame waits.
    Empty = 7,
    /// Frames are missing here, as many as the reply says.
    Lost = 8,
}

impl Refusal {
    fn of_code(code: u64) -> Refusal {
        match code {
            2 => Refusal::NotOpen,
            3 => Refusal::TooManyClients,
            4 => Refusal::TooManyFilters,
            5 => Refusal::QueueFull,
            6 => Refusal::BusOff,
            7 => Refusal::Empty,
            8 => Refusal::Lost,
            _ => Refusal::Malformed,
        }
    }
}

impl Request {
    /// The request of `message`, of any origin.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] if it has no meaning.
    pub fn of(message: &Message) -> Result<Request, Refusal> {
        let [operation, first, second, third, ..] = *message;
        let request = match operation {
            1 => Some(Request::Open),
            2 => Filter::of_words(first, second).map(Request::Accept),
            3 => Frame::of_words(first, second, third).map(Request::Send),
            4 => Some(Request::Receive),
            5 => Some(Request::State),
            6 => Some(Request::Interrupt),
            _ => None,
        };
        request.ok_or(Refusal::Malformed)
    }

    /// The message of the request.
    #[must_use]
    pub fn message(&self) -> Message {
        match *self {
            Request::Open => [1, 0, 0, 0, 0, 0],
            Request::Accept(filter) => [2, filter.value.into(), filter.mask.into(), 0, 0, 0],
            Request::Send(frame) => {
                let [identifier, length, data] = frame.words();
                [3, identifier, length, data, 0, 0]
            }
            Request::Receive => [4, 0, 0, 0, 0, 0],
            Request::State => [5, 0, 0, 0, 0, 0],
            Request::Interrupt => [6, 0, 0, 0, 0, 0],
        }
    }
}

/// Frames that are missing between two others.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Gap {
    /// Frames of the client's filters that found its queue full.
    pub frames: u32,
    /// Times that the controller's own memory was found to be full. Each time it has lost a frame or more, with any identifier.
    pub overruns: u32,
}

/// A received frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Received {
    /// The frame.
    pub frame: Frame,
    /// The instant at which the interrupt of the frame was served.
    pub at: Instant,
}

/// The state of a controller on the bus (ISO 11898-1:2015, 12.1.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Health {
    /// It takes part, and destroys frames that it finds wrong.
    ErrorActive = 0,
    /// It takes part, and lets frames that it finds wrong pass.
    ErrorPassive = 1,
    /// It takes no part. The server lets it begin again after 128 times 11 bits.
    BusOff = 2,
}

/// The state of the controller, and of the client's queues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State {
    /// The state of the controller.
    pub health: Health,
    /// Its count of errors of frames that it sent, up to 255.
    pub transmit_errors: u8,
    /// Its count of errors of frames that it received, up to 255.
    pub receive_errors: u8,
    /// The client's frames that are not on the bus yet.
    pub to_send: u32,
    /// The client's received frames that wait.
    pub received: u32,
    /// How often the controller was off the bus in this life of the server.
    pub bus_offs: u32,
}

impl State {
    /// The reply with this state.
    #[must_use]
    pub fn reply(&self) -> Message {
        let errors = u64::from(self.transmit_errors) << 8 | u64::from(self.receive_errors) << 16;
        [0, self.health as u64 | errors, self.to_send.into(), self.received.into(), self.bus_offs.into(), 0]
    }

    fn of(reply: &Message) -> Option<State> {
        let [_, packed, to_send, received, bus_offs, _] = *reply;
        let [health, transmit_errors, receive_errors, ..] = packed.to_le_bytes();
        Some(State {
            health: match health {
                0 => Health::ErrorActive,
                1 => Health::ErrorPassive,
                2 => Health::BusOff,
                _ => return None,
            },
            transmit_errors,
            receive_errors,
            to_send: to_send.try_into().ok()?,
            received: received.try_into().ok()?,
            bus_offs: bus_offs.try_into().ok()?,
        })
    }
}

impl Received {
    /// The reply with this frame.
    #[must_use]
    pub fn reply(&self) -> Message {
        let [identifier, length, data] = self.frame.words();
        [0, identifier | length << 32, data, self.at.0, 0, 0]
    }

    fn of(reply: &Message) -> Option<Received> {
        let [_, packed, data, at, ..] = *reply;
        Some(Received { frame: Frame::of_words(packed & u64::from(u32::MAX), packed >> 32, data)?, at: Instant(at) })
    }
}

/// The reply to a refused request.
#[must_use]
pub fn refusal(refusal: Refusal) -> Message {
    [refusal as u64, 0, 0, 0, 0, 0]
}

/// The reply to a client that has lost frames.
#[must_use]
pub fn lost(gap: Gap) -> Message {
    [Refusal::Lost as u64, gap.frames.into(), gap.overruns.into(), 0, 0, 0]
}

//--- The client

/// A reason for which a frame was not sent or received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CanError {
    /// The client's queue of frames to send is full.
    QueueFull,
    /// The controller is off the bus. Frames that were queued before wait until it is back.
    BusOff,
    /// Frames are missing at this place. The next call goes on behind them.
    Lost(Gap),
    /// The server has begun another life: it has no memory of this client, and its queues are gone. The client has to open the bus again.
    Restarted,
    /// The deadline passed first.
    TimedOut,
    /// The server refused the request for another reason.
    Refused(Refusal),
    /// The server did not answer.
    Call(CallError),
    /// The server did not open the bus: it did not answer, or was not given the notification.
    Open(CallWithError),
    /// The client would have to wait, and has opened the bus without a notification.
    WouldWait,
    /// The client may not wait, or the server's bottom half has ended.
    Wait(WaitError),
}

impl From<Refusal> for CanError {
    fn from(refusal: Refusal) -> CanError {
        match refusal {
            Refusal::QueueFull => CanError::QueueFull,
            Refusal::BusOff => CanError::BusOff,
            other => CanError::Refused(other),
        }
    }
}

impl From<CallError> for CanError {
    fn from(error: CallError) -> CanError {
        match error {
            CallError::PeerRestarted => CanError::Restarted,
            CallError::TimedOut => CanError::TimedOut,
            error => CanError::Call(error),
        }
    }
}

impl From<CallWithError> for CanError {
    fn from(error: CallWithError) -> CanError {
        match error {
            CallWithError::PeerRestarted => CanError::Restarted,
            CallWithError::TimedOut => CanError::TimedOut,
            error => CanError::Open(error),
        }
    }
}

impl fmt::Display for CanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CanError::QueueFull => f.write_str("the queue of frames to send is full"),
            CanError::BusOff => f.write_str("the controller is off the bus"),
            CanError::Lost(gap) => {
                write!(f, "{} frames are lost here, and those of {} overruns", gap.frames, gap.overruns)
            }
            CanError::Restarted => f.write_str("the server has begun another life"),
            CanError::TimedOut => f.write_str("the deadline passed first"),
            CanError::Refused(refusal) => write!(f, "the server refused: {refusal:?}"),
            CanError::Call(error) => write!(f, "the server did not answer: {error:?}"),
            CanError::Open(error) => write!(f, "the server did not open the bus: {error:?}"),
            CanError::WouldWait => f.write_str("this task has opened the bus without a notification to wait for"),
            CanError::Wait(error) => write!(f, "this task cannot wait for the bus: {error:?}"),
        }
    }
}

impl core::error::Error for CanError {}

impl embedded_can::Error for CanError {
    fn kind(&self) -> ErrorKind {
        match self {
            CanError::Lost(_) => ErrorKind::Overrun,
            _ => ErrorKind::Other,
        }
    }
}

/// A CAN bus that this task has opened.
#[derive(Clone, Copy, Debug)]
pub struct Can {
    server: Endpoint,
    changed: Option<Notification>,
    /// The instant at which calls end that have not come to their ends.
    pub deadline: Instant,
}

impl Can {
    /// Opens the bus of `server`, to receive the frames that one of `filters` accepts, until `deadline`. The server is given a copy of `changed` to
    /// signal; without one the client never waits. A task that has opened the bus before begins anew; only its frames to send stay. Later calls have
    /// no deadline until [`Can::deadline`] is set.
    ///
    /// # Errors
    /// [`CanError`] has the reason.
    pub fn open(
        server: Endpoint,
        changed: Option<Notification>,
        filters: &[Filter],
        deadline: Instant,
    ) -> Result<Can, CanError> {
        checked(server.open(Request::Open.message(), changed.as_ref(), deadline)?)?;
        let mut can = Can { server, changed, deadline };
        for filter in filters {
            can.ask(Request::Accept(*filter))?;
        }
        can.deadline = Instant::NEVER;
        Ok(can)
    }

    fn ask(&self, request: Request) -> Result<Message, CanError> {
        checked(self.server.call(request.message(), self.deadline)?)
    }

    /// Queues `frame`. It is on the bus once no frame with a smaller identifier waits.
    ///
    /// # Errors
    /// [`CanError::QueueFull`] and [`CanError::BusOff`]: the frame was not queued. Others are those of a call.
    pub fn send(&self, frame: &Frame) -> Result<(), CanError> {
        self.ask(Request::Send(*frame)).map(drop)
    }

    /// Takes the earliest received frame, if there is one.
    ///
    /// # Errors
    /// [`CanError::Lost`] if frames are missing before it. Others are those of a call.
    pub fn try_receive(&self) -> Result<Option<Received>, CanError> {
        match self.ask(Request::Receive) {
            Ok(reply) => Received::of(&reply).map(Some).ok_or(CanError::Refused(Refusal::Malformed)),
            Err(CanError::Refused(Refusal::Empty)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes the earliest received frame, and waits for one until [`Can::deadline`].
    ///
    /// # Errors
    /// Those of [`Can::try_receive`], and of waiting.
    pub fn receive_stamped(&self) -> Result<Received, CanError> {
        self.until(Can::try_receive)
    }

    /// Waits until all frames of this client are on the bus, or until [`Can::deadline`].
    ///
    /// # Errors
    /// [`CanError`] has the reason for which some may not be.
    pub fn flush(&self) -> Result<(), CanError> {
        self.until(|can| can.state().map(|state| (state.to_send == 0).then_some(())))
    }

    /// Reads the state of the controller, and of this client's queues.
    ///
    /// # Errors
    /// Those of a call.
    pub fn state(&self) -> Result<State, CanError> {
        State::of(&self.ask(Request::State)?).ok_or(CanError::Refused(Refusal::Malformed))
    }

    /// Asks again after each signal of the server, until there is a result. The first question comes before the first wait, so no signal that another
    /// call has taken is missed.
    fn until<T>(&self, ask: impl Fn(&Can) -> Result<Option<T>, CanError>) -> Result<T, CanError> {
        loop {
            if let Some(result) = ask(self)? {
                return Ok(result);
            }
            let changed = self.changed.ok_or(CanError::WouldWait)?;
            match changed.wait(self.deadline) {
                Ok(_) => {}
                Err(WaitError::TimedOut) => return Err(CanError::TimedOut),
                // The bottom half ends when the server has. A call has the reason, if the server is the reason.
                Err(error) => return ask(self)?.ok_or(CanError::Wait(error)),
            }
        }
    }
}

/// The reply, unless it is a refusal.
fn checked(reply: Message) -> Result<Message, CanError> {
    match reply[0] {
        0 => Ok(reply),
        code => Err(match Refusal::of_code(code) {
            Refusal::Lost => CanError::Lost(Gap { frames: reply[1] as u32, overruns: reply[2] as u32 }),
            refusal => refusal.into(),
        }),
    }
}

impl embedded_can::blocking::Can for Can {
    type Frame = Frame;
    type Error = CanError;

    /// Queues the frame, and waits for room until [`Can::deadline`].
    fn transmit(&mut self, frame: &Frame) -> Result<(), CanError> {
        self.until(|can| match can.send(frame) {
            Err(CanError::QueueFull) => Ok(None),
            sent => sent.map(Some),
        })
    }

    fn receive(&mut self) -> Result<Frame, CanError> {
        self.receive_stamped().map(|received| received.frame)
    }
}

impl embedded_can::nb::Can for Can {
    type Frame = Frame;
    type Error = CanError;

    /// Queues the frame. No queued frame is given back for it: each client has a queue of its own.
    fn transmit(&mut self, frame: &Frame) -> nb::Result<Option<Frame>, CanError> {
        match self.send(frame) {
            Ok(()) => Ok(None),
            Err(CanError::QueueFull) => Err(nb::Error::WouldBlock),
            Err(error) => Err(nb::Error::Other(error)),
        }
    }

    fn receive(&mut self) -> nb::Result<Frame, CanError> {
        match self.try_receive() {
            Ok(Some(received)) => Ok(received.frame),
            Ok(None) => Err(nb::Error::WouldBlock),
            Err(error) => Err(nb::Error::Other(error)),
        }
    }
}

#[cfg(test)]
#[path = "can_tests.rs"]
mod tests;

//! Sessions: the requests of a client without a lock to the server that opens contexts of a device, and their checks in that server.
//!
//! All contexts are in the manifest: their doorbell and ring pages, and the memory that they may reach. To open one is to let the device use it, and to
//! map is to enter pages of the client's own memory into its translation table. Each request is one step of bounded length; work that takes the
//! device's time is asked for by one request, and others tell when it is done. [`Session`] does all of this.
//!
//! | Word | Request | Reply |
//! |---|---|---|
//! | 0 | bits 0 to 7: 1 open, 2 close, 3 map, 4 unmap, 5 reset, 6 state, 7 reset the running command; from bit 8 on which context of the client, from zero | zero, or a code of [`Refusal`] |
//! | 1 | map, unmap: the first page of the device's addresses, from the start of the window; reset: a bit for each engine; reset the running command: the engine's number | open: the context's number on the device; state: [`State`] |
//! | 2 | map: the first page of the client's memory; reset the running command: the context's number on the device | state: pages that are mapped |
//! | 3 | map, unmap: how many pages, up to [`PAGES`] | |
//! | 4 | map, unmap: 0 the client's buffer, 1 its share of the device's memory; map: and in bit 8 whether the device may only read | |
//!
//! *Reset the running command* is for the server that the manifest calls the engine's `sharer`, about a command that takes too long
//! ([`Session::reset_running`]).
//!
//! A client may send anything: [`Request::check`] is all that a server needs to believe it.

use crate::{CallError, Endpoint, Instant, Message, Nanoseconds, SleepError, sleep_until};

/// Pages that one request maps or unmaps at most.
pub const PAGES: u64 = 16;

/// Engines of a device.
const ENGINES: u32 = 3;

/// The time that a client waits before it asks again whether the device is done.
const PATIENCE: Nanoseconds = Nanoseconds(50_000);

const OPEN: u64 = 1;
const CLOSE: u64 = 2;
const MAP: u64 = 3;
const UNMAP: u64 = 4;
const RESET: u64 = 5;
const STATE: u64 = 6;
const RESET_RUNNING: u64 = 7;

/// Bits of word 0 with the request; the number of the context stands above them.
const ORDINAL_SHIFT: u32 = 8;
/// In word 4: the device may only read.
const READ_ONLY: u64 = 1 << 8;

//--- Requests

/// The reason for which a server refused a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Refusal {
    /// The request has no meaning: no such operation, or a reply that no server of this crate would give.
    Malformed = 1,
    /// The manifest gives the caller no such context, or does not call it the sharer of this engine.
    NotYours = 2,
    /// This context is open already.
    AlreadyOpen = 3,
    /// This context is not open.
    NotOpen = 4,
    /// The caller has as many contexts open as each client may have (`each`).
    Quota = 5,
    /// As many contexts are open as the device has for sessions (`contexts`).
    DeviceFull = 6,
    /// The context has commands at the device. It can be closed when they have ended.
    Busy = 7,
    /// No page, or more than [`PAGES`].
    PageCount = 8,
    /// These are not pages of the window.
    OutsideWindow = 9,
    /// These are not pages of the caller's memory.
    NotYourMemory = 10,
    /// Something is mapped at one of these addresses.
    AlreadyMapped = 11,
    /// Nothing is mapped at one of these addresses.
    NotMapped = 12,
    /// No command of this context runs on the engine.
    NotRunning = 13,
    /// The device has not done an earlier request yet.
    Pending = 14,
}

impl Refusal {
    /// All of them, in the order of their codes.
    pub const ALL: [Refusal; 14] = [
        Refusal::Malformed,
        Refusal::NotYours,
        Refusal::AlreadyOpen,
        Refusal::NotOpen,
        Refusal::Quota,
        Refusal::DeviceFull,
        Refusal::Busy,
        Refusal::PageCount,
        Refusal::OutsideWindow,
        Refusal::NotYourMemory,
        Refusal::AlreadyMapped,
        Refusal::NotMapped,
        Refusal::NotRunning,
        Refusal::Pending,
    ];

    fn from_code(code: u64) -> Refusal {
        Refusal::ALL.into_iter().find(|refusal| *refusal as u64 == code).unwrap_or(Refusal::Malformed)
    }
}

/// One of a context's memories.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Window {
    /// The client's buffer, memory of the board.
    Buffer = 0,
    /// The client's share of the device's memory.
    Local = 1,
}

/// A row of pages at device addresses, in pages from the start of their window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pages {
    /// Where they are.
    pub window: Window,
    /// The first one.
    pub first: u64,
    /// How many: 1 to [`PAGES`].
    pub count: u64,
}

/// A request that was checked as far as it can be without knowing its client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Let the device use this context of the caller.
    Open(u64),
    /// Let it use it no more.
    Close(u64),
    /// Let the context reach memory of its client.
    Map {
        /// The number of the caller's context.
        ordinal: u64,
        /// At which device addresses.
        pages: Pages,
        /// From which page of the client's memory on.
        from: u64,
        /// Whether the device may write there.
        writable: bool,
    },
    /// Let it reach nothing at these addresses.
    Unmap {
        /// The number of the caller's context.
        ordinal: u64,
        /// At which device addresses.
        pages: Pages,
    },
    /// Forget the commands submitted in this context.
    Reset {
        /// The number of the caller's context.
        ordinal: u64,
        /// To which engines, a bit each.
        engines: u64,
    },
    /// Say how this context is.
    State(u64),
    /// Forget the commands of a context without a lock that has the running one.
    ResetRunning {
        /// On this engine of the device.
        engine: u64,
        /// The context, by its number on the device.
        context: u64,
    },
}

impl Request {
    /// The request in `words` of any origin.
    ///
    /// # Errors
    /// [`Refusal`] is the answer for the client.
    pub fn check(words: &Message) -> Result<Request, Refusal> {
        let [first, one, two, count, memory, _] = *words;
        let ordinal = first >> ORDINAL_SHIFT;
        let pages = |allowed: u64| {
            let window = match memory & !allowed {
                0 => Window::Buffer,
                1 => Window::Local,
                _ => return Err(Refusal::Malformed),
            };
            let is_few = (1..=PAGES).contains(&count);
            is_few.then_some(Pages { window, first: one, count }).ok_or(Refusal::PageCount)
        };
        match first & ((1 << ORDINAL_SHIFT) - 1) {
            OPEN => Ok(Request::Open(ordinal)),
            CLOSE => Ok(Request::Close(ordinal)),
            MAP => {
                let writable = memory & READ_ONLY == 0;
                Ok(Request::Map { ordinal, pages: pages(READ_ONLY)?, from: two, writable })
            }
            UNMAP => Ok(Request::Unmap { ordinal, pages: pages(0)? }),
            RESET if one != 0 && one < 1 << ENGINES => Ok(Request::Reset { ordinal, engines: one }),
            STATE => Ok(Request::State(ordinal)),
            RESET_RUNNING if ordinal == 0 => Ok(Request::ResetRunning { engine: one, context: two }),
            _ => Err(Refusal::Malformed),
        }
    }

    /// As words of a message.
    #[must_use]
    pub fn words(self) -> Message {
        let first = |operation: u64, ordinal: u64| operation | ordinal << ORDINAL_SHIFT;
        match self {
            Request::Open(ordinal) => [first(OPEN, ordinal), 0, 0, 0, 0, 0],
            Request::Close(ordinal) => [first(CLOSE, ordinal), 0, 0, 0, 0, 0],
            Request::Map { ordinal, pages: Pages { window, first: page, count }, from, writable } => {
                let memory = window as u64 | if writable { 0 } else { READ_ONLY };
                [first(MAP, ordinal), page, from, count, memory, 0]
            }
            Request::Unmap { ordinal, pages: Pages { window, first: page, count } } => {
                [first(UNMAP, ordinal), page, 0, count, window as u64, 0]
            }
            Request::Reset { ordinal, engines } => [first(RESET, ordinal), engines, 0, 0, 0, 0],
            Request::State(ordinal) => [first(STATE, ordinal), 0, 0, 0, 0, 0],
            Request::ResetRunning { engine, context } => [RESET_RUNNING, engine, context, 0, 0, 0],
        }
    }
}

/// The reply to a request: up to two words that its client wants to know.
#[must_use]
pub fn reply(result: Result<[u64; 2], Refusal>) -> Message {
    match result {
        Ok([one, other]) => [0, one, other, 0, 0, 0],
        Err(refusal) => [refusal as u64, 0, 0, 0, 0, 0],
    }
}

/// How a context is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State {
    /// The device may use it.
    pub is_open: bool,
    /// The device has not answered a reset of it.
    pub is_pending: bool,
    /// Pages that are mapped, its ring page not counted.
    pub mapped: u64,
}

impl State {
    /// As the words of a reply.
    #[must_use]
    pub fn words(self) -> [u64; 2] {
        [u64::from(self.is_open) | u64::from(self.is_pending) << 1, self.mapped]
    }

    fn of([bits, mapped]: [u64; 2]) -> State {
        State { is_open: bits & 1 != 0, is_pending: bits & 2 != 0, mapped }
    }
}

//--- Clients

/// The reason for which a client was not served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SessionError {
    /// The server answered that it did not.
    Refused(Refusal),
    /// The server did not answer.
    Call(CallError),
    /// The device was not done at the deadline. It was asked for, and may be done later.
    TimedOut,
    /// The wait for the device ended early.
    Sleep(SleepError),
}

/// One context of this task, and the server that opens it.
///
/// To drop it changes nothing: a context stays open until it is closed.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    server: Endpoint,
    ordinal: u64,
}

impl Session {
    /// This task's first context, with requests to `server`. Nothing is asked for yet.
    #[must_use]
    pub fn new(server: Endpoint) -> Session {
        Session::nth(server, 0)
    }

    /// This task's context with this number, from zero: the n-th handle with the right `share` to the same engine belongs to the n-th context.
    #[must_use]
    pub fn nth(server: Endpoint, ordinal: u64) -> Session {
        Session { server, ordinal }
    }

    /// Opens the context: from now on the device does the commands submitted in it. Nothing is mapped but the ring page. Its number on the device, as
    /// in the status page.
    ///
    /// # Errors
    /// [`SessionError::Refused`] with [`Refusal::Quota`], [`Refusal::DeviceFull`], [`Refusal::AlreadyOpen`], [`Refusal::Pending`] or [`Refusal::NotYours`].
    pub fn open(&self, deadline: Instant) -> Result<u64, SessionError> {
        Ok(self.ask(Request::Open(self.ordinal), deadline)?[0])
    }

    /// Closes the context, when all that was submitted in it has ended, and returns when the device has forgotten it. Nothing of it is mapped any more.
    ///
    /// Submit nothing meanwhile: it would not end, or be lost.
    ///
    /// # Errors
    /// [`SessionError::TimedOut`]: at the deadline it had commands, or the device had not answered; ask again.
    pub fn close(&self, deadline: Instant) -> Result<(), SessionError> {
        self.until_done(Request::Close(self.ordinal), deadline)
    }

    /// Maps `count` pages of this task's memory from page `from` on at page `first` of the window.
    ///
    /// # Errors
    /// [`SessionError`]. If it is after some pages that others were refused, those are mapped.
    pub fn map(
        &self,
        window: Window,
        first: u64,
        from: u64,
        count: u64,
        writable: bool,
        deadline: Instant,
    ) -> Result<(), SessionError> {
        for done in (0..count).step_by(PAGES as usize) {
            let pages = Pages { window, first: first + done, count: (count - done).min(PAGES) };
            self.ask(Request::Map { ordinal: self.ordinal, pages, from: from + done, writable }, deadline)?;
        }
        Ok(())
    }

    /// Unmaps `count` pages from page `first` of the window on. A command that is under way may reach them until it ends.
    ///
    /// # Errors
    /// [`SessionError`]. If it is after some pages that others were refused, those are unmapped.
    pub fn unmap(&self, window: Window, first: u64, count: u64, deadline: Instant) -> Result<(), SessionError> {
        for done in (0..count).step_by(PAGES as usize) {
            let pages = Pages { window, first: first + done, count: (count - done).min(PAGES) };
            self.ask(Request::Unmap { ordinal: self.ordinal, pages }, deadline)?;
        }
        Ok(())
    }

    /// Lets the device forget all that was submitted in this context to `engines`, a bit each, and waits until it has. The fences say that it failed.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn reset(&self, engines: u64, deadline: Instant) -> Result<(), SessionError> {
        self.ask(Request::Reset { ordinal: self.ordinal, engines }, deadline)?;
        while self.state(deadline)?.is_pending {
            wait(deadline)?;
        }
        Ok(())
    }

    /// How the context is.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn state(&self, deadline: Instant) -> Result<State, SessionError> {
        self.ask(Request::State(self.ordinal), deadline).map(State::of)
    }

    /// Has the context with number `context` on the device reset on `engine`, if it uses the engine without its lock and its command runs there at this moment.
    /// For the sharer of that engine; returns when the device has been asked to, which it answers by itself: the status page then names another context.
    ///
    /// # Errors
    /// [`SessionError::Refused`] with [`Refusal::NotRunning`] if another's command runs, or none; [`Refusal::NotYours`] if the caller is not the
    /// engine's sharer.
    pub fn reset_running(
        server: &Endpoint,
        engine: u32,
        context: usize,
        deadline: Instant,
    ) -> Result<(), SessionError> {
        let request = Request::ResetRunning { engine: engine.into(), context: context as u64 };
        ask(server, request, deadline).map(|_| ())
    }

    fn ask(&self, request: Request, deadline: Instant) -> Result<[u64; 2], SessionError> {
        ask(&self.server, request, deadline)
    }

    fn until_done(&self, request: Request, deadline: Instant) -> Result<(), SessionError> {
        loop {
            match self.ask(request, deadline) {
                Err(SessionError::Refused(Refusal::Busy | Refusal::Pending)) => wait(deadline)?,
                result => return result.map(|_| ()),
            }
        }
    }
}

fn ask(server: &Endpoint, request: Request, deadline: Instant) -> Result<[u64; 2], SessionError> {
    let [code, one, other, ..] = server.call(request.words(), deadline).map_err(SessionError::Call)?;
    if code == 0 { Ok([one, other]) } else { Err(SessionError::Refused(Refusal::from_code(code))) }
}

/// Gives the device time.
fn wait(deadline: Instant) -> Result<(), SessionError> {
    let now = crate::now().now;
    if now >= deadline {
        return Err(SessionError::TimedOut);
    }
    sleep_until((now + PATIENCE).min(deadline)).map_err(SessionError::Sleep)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_refusal_has_a_code_of_its_own() {
        for (at, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, at + 1);
            assert_eq!(Refusal::from_code(refusal as u64), refusal);
        }
        assert_eq!(Refusal::from_code(99), Refusal::Malformed);
    }

    fn request() -> impl Strategy<Value = Request> {
        let pages = (any::<bool>(), any::<u64>(), 1..=PAGES).prop_map(|(local, first, count)| {
            let window = if local { Window::Local } else { Window::Buffer };
            Pages { window, first, count }
        });
        let ordinal = 0..1u64 << 56;
        prop_oneof![
            ordinal.clone().prop_map(Request::Open),
            ordinal.clone().prop_map(Request::Close),
            (ordinal.clone(), pages.clone(), any::<u64>(), any::<bool>())
                .prop_map(|(ordinal, pages, from, writable)| Request::Map { ordinal, pages, from, writable }),
            (ordinal.clone(), pages).prop_map(|(ordinal, pages)| Request::Unmap { ordinal, pages }),
            (ordinal.clone(), 1..8u64).prop_map(|(ordinal, engines)| Request::Reset { ordinal, engines }),
            ordinal.prop_map(Request::State),
            (any::<u64>(), any::<u64>()).prop_map(|(engine, context)| Request::ResetRunning { engine, context }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_asked_arrives(request in request()) {
            prop_assert_eq!(Request::check(&request.words()), Ok(request));
        }

        /// Any message of a client is refused, or is within the bounds that a server relies on.
        #[test]
        fn what_was_checked_is_bounded(mut words in any::<Message>(), operation in 0..10u64, memory in 0..4u64, count in 0..20u64) {
            words[0] = words[0] & !0xff | operation;
            if words[5] & 1 == 0 {
                (words[3], words[4]) = (count, memory);
            }
            match Request::check(&words) {
                Ok(Request::Map { pages, .. } | Request::Unmap { pages, .. }) => {
                    prop_assert!((1..=PAGES).contains(&pages.count));
                }
                Ok(Request::Reset { engines, .. }) => prop_assert!((1..8).contains(&engines)),
                Ok(_) => {}
                Err(refusal) => prop_assert!(matches!(refusal, Refusal::Malformed | Refusal::PageCount)),
            }
        }
    }
}

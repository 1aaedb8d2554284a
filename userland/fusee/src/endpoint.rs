//! Messages: calling a server, and being one. The rules of handles in messages are in `grant`, those of regions that
//! requests lend in `loan`.

use crate::again::{After, Again};
use crate::environment::{Environment, Object};
use crate::grant::{Grantable, Handle, Rights};
use crate::raw::MessageAnswer;
use crate::syscall::{carrying, message};
use crate::{
    CallError, CallLendingError, CallWithError, GiveError, Instant, Lent, LentToWrite, Nanoseconds, Notification,
    Place, Region, SendError, SendWithError, ServeError, Store,
};
use fusee_abi::call::{CARRIES, Call, LENT, MESSAGE_WORDS, STORED, WRITABLE};
use fusee_abi::environment::Entry;
use fusee_abi::image::kind;

/// The words of a request or a reply.
pub type Message = [u64; MESSAGE_WORDS];

/// Where requests go, and where a server finds them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Endpoint {
    handle: u64,
}

impl Object for Endpoint {
    const KIND: u32 = kind::ENDPOINT;
    const NAME: &'static str = "endpoint";

    fn from_entry(_: &Environment, entry: &'static Entry) -> Self {
        Self { handle: entry.handle }
    }
}

impl Grantable for Endpoint {}

impl Handle for Endpoint {
    fn value(&self) -> u64 {
        self.handle
    }

    fn of(value: u64) -> Self {
        Self { handle: value }
    }
}

impl Endpoint {
    /// Sends `words`, lets the server run on this task's budget, and waits for its reply until `deadline`.
    ///
    /// # Errors
    /// [`CallError`] says why no reply came.
    #[inline]
    pub fn call(&self, words: Message, deadline: Instant) -> Result<Message, CallError> {
        let answer = message(Call::Call as u64, self.handle, words, deadline.0, 0);
        CallError::check(answer.code)?;
        Ok(answer.words)
    }

    /// As [`Endpoint::call`], for a request that may be done twice: one that does not end because its server has died, or has begun another life, is made
    /// again, `times` times at most, until `deadline` in all. Between two tries it waits for `pause` of the sort that a supervisor's delay is.
    ///
    /// # Errors
    /// [`CallError`] says why the last try brought no reply.
    pub fn call_again(
        &self,
        words: Message,
        deadline: Instant,
        times: u32,
        pause: Nanoseconds,
    ) -> Result<Message, CallError> {
        Again { times, pause }.make(deadline, || self.call(words, deadline), |error| After::from(error))
    }

    /// Sends `words` to a server that has a budget of its own, without waiting for a reply.
    ///
    /// # Errors
    /// [`SendError`] says why the request was not taken.
    #[inline]
    pub fn send(&self, words: Message, deadline: Instant) -> Result<(), SendError> {
        let answer = carrying(Call::Send as u64, self.handle, words, deadline.0, 0, 0, 0);
        SendError::check(answer.code)
    }

    /// As [`Endpoint::call`], and gives the server a copy of `given` that keeps those of `rights` that `given` has.
    /// The reply may carry a handle.
    ///
    /// # Errors
    /// [`CallWithError`] says why no reply came. Unless it is [`CallWithError::TimedOut`] or
    /// [`CallWithError::PeerDied`], the server was given nothing.
    pub fn call_with<T: Grantable>(
        &self,
        words: Message,
        given: &T,
        rights: Rights,
        deadline: Instant,
    ) -> Result<Answer, CallWithError> {
        self.call_carrying(words, given.value(), rights.bits(), deadline)
    }

    /// As [`Endpoint::call`], for a reply that may carry a handle. A reply to a plain call never does.
    ///
    /// # Errors
    /// [`CallWithError`] says why no reply came.
    pub fn call_for(&self, words: Message, deadline: Instant) -> Result<Answer, CallWithError> {
        self.call_carrying(words, 0, 0, deadline)
    }

    /// As [`Endpoint::call`], and lends the server `region` until the call ends, to be used as `rights` say, which are
    /// [`Rights::READ`] alone or with [`Rights::WRITE`]: as far as this task may use it so, and the server's place allows.
    /// The reply may carry a handle.
    ///
    /// When this returns, for any reason, the server can no longer reach the region. If it was still at work, it may
    /// have written a part of its result.
    ///
    /// # Errors
    /// [`CallLendingError`] says why no reply came. Unless it is [`CallLendingError::TimedOut`] or
    /// [`CallLendingError::PeerDied`], the server was lent nothing.
    pub fn call_lending(
        &self,
        words: Message,
        region: &Region,
        rights: Rights,
        deadline: Instant,
    ) -> Result<Answer, CallLendingError> {
        let (number, given) = (Call::CallWith as u64, region.handle());
        let answer = carrying(number, self.handle, words, deadline.0, 0, given, rights.bits());
        CallLendingError::check(answer.code)?;
        Ok(Answer { words: answer.words, given: answer.given })
    }

    /// As [`Endpoint::call`], and gives the server a copy of `changed` to signal, if there is one.
    pub(crate) fn open(
        &self,
        words: Message,
        changed: Option<&Notification>,
        deadline: Instant,
    ) -> Result<Message, CallWithError> {
        let answer = match changed {
            None => self.call_for(words, deadline),
            Some(changed) => self.call_with(words, changed, Rights::SIGNAL, deadline),
        };
        answer.map(|answer| answer.words)
    }

    fn call_carrying(&self, words: Message, given: u64, kept: u64, deadline: Instant) -> Result<Answer, CallWithError> {
        let answer = carrying(Call::CallWith as u64, self.handle, words, deadline.0, 0, given, kept);
        CallWithError::check(answer.code)?;
        Ok(Answer { words: answer.words, given: answer.given })
    }

    /// As [`Endpoint::send`], and gives the server a copy of `given` that keeps those of `rights` that `given` has.
    ///
    /// # Errors
    /// [`SendWithError`] says why the request was not taken; the server was given nothing then.
    pub fn send_with<T: Grantable>(
        &self,
        words: Message,
        given: &T,
        rights: Rights,
        deadline: Instant,
    ) -> Result<(), SendWithError> {
        let answer = carrying(Call::Send as u64, self.handle, words, deadline.0, 0, given.value(), rights.bits());
        SendWithError::check(answer.code)
    }
}

/// A reply that may have carried a handle.
#[derive(Debug)]
pub struct Answer {
    /// The words of the server.
    pub words: Message,
    given: u64,
}

impl Answer {
    /// Takes the handle that came with the reply, if one came and was not taken yet. That it names a `T` is for the two
    /// sides to agree on: on another, each call is refused with [`HandleError::WrongKind`](crate::HandleError).
    pub fn take<T: Grantable>(&mut self) -> Option<T> {
        take(&mut self.given)
    }
}

fn take<T: Grantable>(given: &mut u64) -> Option<T> {
    let value = core::mem::take(given);
    (value != 0).then(|| T::of(value))
}

/// A request waiting for its reply.
#[derive(Debug)]
pub struct Request {
    /// Tells clients apart: the number of the client's task, from one, in the order of the manifest. A handle that was passed on
    /// keeps the badge of the handle it was copied from.
    pub badge: u64,
    /// The words of the client.
    pub words: Message,
    /// The token for the reply.
    pub token: ReplyToken,
    given: u64,
    /// The handle of the place where a region is lent; zero: none is.
    place: u64,
    writable: bool,
    is_store: bool,
}

impl Request {
    #[inline]
    fn of(answer: &MessageAnswer) -> Self {
        let if_set = |bit: u64| if answer.value & bit == 0 { 0 } else { answer.given };
        Self {
            badge: answer.value & !(CARRIES | LENT | WRITABLE | STORED),
            words: answer.words,
            token: ReplyToken(answer.token),
            given: if_set(CARRIES),
            place: if_set(LENT),
            writable: answer.value & WRITABLE != 0,
            is_store: answer.value & STORED != 0,
        }
    }

    /// The store to a doorbell, if this request is one instead of a call. The kernel marks it, so no client can pretend. The answer to a store is a
    /// [`Verdict`](crate::Verdict).
    #[must_use]
    pub fn store(&self) -> Option<Store> {
        self.is_store.then(|| Store { member: self.badge as usize, submitted: self.words[0] as u32 })
    }

    /// Whether a handle came with it that was not taken yet. It stays in this task's table, taken or not, until it is
    /// given up.
    #[must_use]
    pub fn carries_handle(&self) -> bool {
        self.given != 0
    }

    /// Takes the handle that came with it, if one came and was not taken yet. That it names a `T` is for the two sides to
    /// agree on: on another, each call is refused with [`HandleError::WrongKind`](crate::HandleError).
    pub fn take<T: Grantable>(&mut self) -> Option<T> {
        take(&mut self.given)
    }

    /// The region that is lent with it, if one is, and at this place. It can be used until the reply.
    #[inline]
    #[must_use]
    pub fn lent(&self, place: &Place) -> Option<Lent<'_>> {
        (self.place != 0 && self.place == place.handle()).then(|| Lent::of(self, place))
    }

    /// The lent region for writing, if it may be written.
    #[inline]
    #[must_use]
    pub fn lent_to_write(&self, place: &Place) -> Option<LentToWrite<'_>> {
        (self.writable && self.place == place.handle()).then(|| LentToWrite::of(self, place))
    }
}

/// The right to answer one request, now or later. Until then its client waits.
#[derive(Debug)]
#[must_use = "a client waits for this reply"]
pub struct ReplyToken(u64);

/// Why a reply with a handle brought no next request.
#[derive(Debug)]
pub enum ReplyWithError {
    /// Nothing has happened: the client still waits for the reply that `token` stands for.
    NotGiven {
        /// The token for the reply.
        token: ReplyToken,
        /// Why the client could not be given the handle.
        reason: GiveError,
    },
    /// The reply was delivered, except with [`ServeError::BadToken`]; but no request came.
    Serve(ServeError),
}

/// The serving side of an endpoint.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
}

impl Server {
    /// Serves `endpoint`, for which this task needs the right to receive.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// Waits for a request until `deadline`.
    ///
    /// # Errors
    /// [`ServeError`] says why none came.
    #[inline]
    pub fn receive(&mut self, deadline: Instant) -> Result<Request, ServeError> {
        let answer = message(Call::Receive as u64, self.endpoint.handle, [0; 6], deadline.0, 0);
        ServeError::check(answer.code)?;
        Ok(Request::of(&answer))
    }

    /// Answers an earlier request with `words`, then waits for another until `deadline`.
    ///
    /// # Errors
    /// [`ServeError`] says why none came. Only with [`ServeError::BadToken`] was the reply not delivered: its client
    /// died or gave up.
    #[inline]
    pub fn reply_receive(
        &mut self,
        token: ReplyToken,
        words: Message,
        deadline: Instant,
    ) -> Result<Request, ServeError> {
        let answer = message(Call::ReplyReceive as u64, self.endpoint.handle, words, deadline.0, token.0);
        ServeError::check(answer.code)?;
        Ok(Request::of(&answer))
    }

    /// As [`Server::reply_receive`], and gives the client a copy of `given` that keeps those of `rights` that `given` has.
    ///
    /// # Errors
    /// [`ReplyWithError`] says whether the client was answered. It takes a handle only if it has asked by
    /// [`Endpoint::call_with`] or [`Endpoint::call_for`].
    pub fn reply_receive_with<T: Grantable>(
        &mut self,
        token: ReplyToken,
        words: Message,
        given: &T,
        rights: Rights,
        deadline: Instant,
    ) -> Result<Request, ReplyWithError> {
        let (number, reply) = (Call::ReplyReceive as u64, token.0 | CARRIES);
        let endpoint = self.endpoint.handle;
        let answer = carrying(number, endpoint, words, deadline.0, reply, given.value(), rights.bits());
        match GiveError::check(answer.code) {
            Ok(()) => Ok(Request::of(&answer)),
            // No reason not to give it: the reply was delivered.
            Err(GiveError::Unexpected(_)) => Err(ReplyWithError::Serve(ServeError::from_code(answer.code))),
            Err(reason) => Err(ReplyWithError::NotGiven { token, reason }),
        }
    }

    /// Answers an earlier request with a handle; takes the next one if it is there already.
    ///
    /// # Errors
    /// Those of [`Server::reply_receive_with`]; [`ServeError::TimedOut`] is none here.
    pub fn reply_with<T: Grantable>(
        &mut self,
        token: ReplyToken,
        words: Message,
        given: &T,
        rights: Rights,
    ) -> Result<Option<Request>, ReplyWithError> {
        match self.reply_receive_with(token, words, given, rights, Instant::ZERO) {
            Ok(request) => Ok(Some(request)),
            Err(ReplyWithError::Serve(ServeError::TimedOut)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Answers an earlier request; takes the next one if it is there already.
    ///
    /// # Errors
    /// [`ServeError::BadToken`] if the client died or gave up; others concern the next request.
    pub fn reply(&mut self, token: ReplyToken, words: Message) -> Result<Option<Request>, ServeError> {
        match self.reply_receive(token, words, Instant::ZERO) {
            Ok(request) => Ok(Some(request)),
            Err(ServeError::TimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Serves for ever: each request, given as badge and words, gets the result of `answer` as its reply. A handle that comes
    /// with one stays in this task's table, unused.
    ///
    /// # Panics
    /// If this task may not serve the endpoint.
    pub fn run(self, mut answer: impl FnMut(u64, Message) -> Message) -> ! {
        self.serve(|request| answer(request.badge, request.words))
    }

    /// Serves for ever: each request gets the result of `answer` as its reply. A request that could not be taken, since its client is
    /// gone, harms no other client.
    ///
    /// # Panics
    /// If this task may not serve the endpoint.
    pub fn serve(mut self, mut answer: impl FnMut(&mut Request) -> Message) -> ! {
        let mut next = self.receive(Instant::NEVER);
        loop {
            next = match next {
                Ok(mut request) => {
                    let words = answer(&mut request);
                    self.reply_receive(request.token, words, Instant::NEVER)
                }
                Err(ServeError::Handle(error)) => panic!("this task cannot serve its endpoint: {error:?}"),
                // The client is gone, or its wait was refused: the next one is not to blame.
                Err(_) => self.receive(Instant::NEVER),
            };
        }
    }
}

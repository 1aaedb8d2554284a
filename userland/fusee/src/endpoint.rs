//! Messages: calling a server, and being one.

use crate::environment::{Environment, Object};
use crate::syscall::message;
use crate::{CallError, Instant, SendError, ServeError};
use fusee_abi::call::{Call, MESSAGE_WORDS};
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

    /// Sends `words` to a server that has a budget of its own, without waiting for a reply.
    ///
    /// # Errors
    /// [`SendError`] says why the request was not taken.
    #[inline]
    pub fn send(&self, words: Message, deadline: Instant) -> Result<(), SendError> {
        let answer = message(Call::Send as u64, self.handle, words, deadline.0, 0);
        SendError::check(answer.code)
    }
}

/// A request waiting for its reply.
#[derive(Debug)]
pub struct Request {
    /// Tells clients apart: what the manifest wrote into the handle the request came through.
    pub badge: u64,
    /// What the client said.
    pub words: Message,
    /// What answers it.
    pub token: ReplyToken,
}

/// The right to answer one request, now or later. Until then its client waits.
#[derive(Debug)]
#[must_use = "a client waits for this reply"]
pub struct ReplyToken(u64);

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
        Ok(Request { badge: answer.value, words: answer.words, token: ReplyToken(answer.token) })
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
        Ok(Request { badge: answer.value, words: answer.words, token: ReplyToken(answer.token) })
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

    /// Serves for ever: each request, given as badge and words, is answered by what `answer` returns.
    ///
    /// # Panics
    /// If this task may not serve the endpoint.
    pub fn run(mut self, mut answer: impl FnMut(u64, Message) -> Message) -> ! {
        let mut next = self.receive(Instant::NEVER);
        loop {
            next = match next {
                Ok(request) => {
                    let words = answer(request.badge, request.words);
                    self.reply_receive(request.token, words, Instant::NEVER)
                }
                Err(ServeError::Handle(error)) => panic!("this task cannot serve its endpoint: {error:?}"),
                // The client is gone, or its wait was refused: the next one is not to blame.
                Err(_) => self.receive(Instant::NEVER),
            };
        }
    }
}

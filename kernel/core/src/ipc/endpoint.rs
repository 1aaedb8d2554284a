//! Endpoints and notifications: queues of requests, and event bits.
//!
//! # Invariants
//!
//! 1. A thread queues at an endpoint, or waits at a notification, exactly while its state is that of such a waiter.
//! 2. A notification with a waiter has no bits: they are taken as they come.
//!
//! Fields are private. Reads are free for all; a change is one of the methods here, each named after the event.

use heapless::Vec;

use crate::id::{EndpointId, NotificationId, ThreadId};
use crate::limits::CALLERS;

/// A place to call a server.
#[derive(Clone, Debug)]
#[repr(align(256))]
pub struct Endpoint {
    server: Option<ThreadId>,
    /// Callers with a request that was not received yet, by arrival.
    callers: Vec<ThreadId, CALLERS>,
    next: Option<EndpointId>,
}

impl Endpoint {
    /// An endpoint without server and callers.
    pub const EMPTY: Endpoint = Endpoint { server: None, callers: Vec::new(), next: None };

    /// The thread that serves the endpoint.
    #[must_use]
    #[inline]
    pub fn server(&self) -> Option<ThreadId> {
        self.server
    }

    /// The callers with a request that was not received yet, by arrival.
    #[must_use]
    #[inline]
    pub fn callers(&self) -> &[ThreadId] {
        &self.callers
    }

    /// The next endpoint of the same server.
    #[must_use]
    #[inline]
    pub fn next(&self) -> Option<EndpointId> {
        self.next
    }

    /// `server` serves the endpoint. For boot.
    pub(crate) fn set_server(&mut self, server: ThreadId) {
        self.server = Some(server);
    }

    /// `next` is the next endpoint of the same server. For boot.
    pub(crate) fn link(&mut self, next: Option<EndpointId>) {
        self.next = next;
    }

    /// `caller` queues behind all others. Returns whether there was a place.
    #[inline]
    pub(crate) fn queue(&mut self, caller: ThreadId) -> bool {
        self.callers.push(caller).is_ok()
    }

    /// Takes the caller at this place from the queue.
    #[inline]
    pub(crate) fn take(&mut self, place: usize) -> ThreadId {
        self.callers.remove(place)
    }

    /// Takes the last caller from the queue.
    #[inline]
    pub(crate) fn take_last(&mut self) -> Option<ThreadId> {
        self.callers.pop()
    }

    /// `caller` queues no longer, if it did.
    #[inline]
    pub(crate) fn withdraw(&mut self, caller: ThreadId) {
        if let Some(at) = self.callers.iter().position(|one| *one == caller) {
            self.callers.remove(at);
        }
    }
}

/// Event bits, and the thread that waits for them.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    bits: u64,
    waiter: Option<ThreadId>,
    bound: Option<ThreadId>,
    next: Option<NotificationId>,
}

impl Notification {
    /// A notification without bits and waiter.
    pub const EMPTY: Notification = Notification { bits: 0, waiter: None, bound: None, next: None };

    /// The bits that are set and not taken.
    #[must_use]
    #[inline]
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// The thread that waits.
    #[must_use]
    #[inline]
    pub fn waiter(&self) -> Option<ThreadId> {
        self.waiter
    }

    /// The thread that will signal the notification; waiters donate to it.
    #[must_use]
    #[inline]
    pub fn bound(&self) -> Option<ThreadId> {
        self.bound
    }

    /// The next notification bound to the same thread.
    #[must_use]
    #[inline]
    pub fn next(&self) -> Option<NotificationId> {
        self.next
    }

    /// `thread` will signal the notification. For boot.
    pub(crate) fn bind(&mut self, thread: ThreadId) {
        self.bound = Some(thread);
    }

    /// `next` is the next notification bound to the same thread. For boot.
    pub(crate) fn link(&mut self, next: Option<NotificationId>) {
        self.next = next;
    }

    /// Sets bits. Returns the thread that waited, and the bits it takes.
    #[inline]
    pub(crate) fn post(&mut self, bits: u64) -> Option<(ThreadId, u64)> {
        self.bits |= bits;
        let waiter = self.waiter.take()?;
        Some((waiter, self.take_bits()))
    }

    /// Sets bits of a notification without a waiter.
    #[inline(always)]
    pub(crate) fn keep(&mut self, bits: u64) {
        debug_assert!(self.waiter.is_none(), "bits are kept while nobody waits");
        self.bits |= bits;
    }

    /// The thread that waits does so no longer. Returns `bits`, and all others that are set, which it takes.
    #[inline(always)]
    pub(crate) fn hand_over(&mut self, bits: u64) -> u64 {
        self.waiter = None;
        self.take_bits() | bits
    }

    /// Takes all bits.
    #[inline(always)]
    pub(crate) fn take_bits(&mut self) -> u64 {
        core::mem::take(&mut self.bits)
    }

    /// `thread` waits from here on.
    #[inline(always)]
    pub(crate) fn await_bits(&mut self, thread: ThreadId) {
        debug_assert!(self.waiter.is_none() && self.bits == 0, "one thread waits, and for bits that are to come");
        self.waiter = Some(thread);
    }

    /// The thread that waits does so no longer. Returns it.
    #[inline]
    pub(crate) fn end_wait(&mut self) -> Option<ThreadId> {
        self.waiter.take()
    }
}

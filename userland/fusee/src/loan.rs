//! Regions lent for the duration of a call.
//!
//! A client lends a region with [`Endpoint::call_lending`](crate::Endpoint::call_lending). The server has a [`Place`] for it
//! in its manifest, where it finds the region from the moment it receives the request until the call ends; nothing is
//! copied. It gets there through the [`Request`], so that a loan cannot outlive its reply:
//!
//! ```
//! # use fusee::{Instant, Place, Server};
//! # fn serve(server: &mut Server, place: &Place) -> Option<()> {
//! let request = server.receive(Instant::NEVER).ok()?;
//! let lent = request.lent(place)?;
//! let sum = lent.read_u64(0) + lent.read_u64(8);
//! let next = server.reply_receive(request.token, [sum, 0, 0, 0, 0, 0], Instant::NEVER);
//! # Some(())
//! # }
//! ```
//!
//! ```compile_fail,E0505
//! # use fusee::{Instant, Place, Server};
//! # fn serve(server: &mut Server, place: &Place) -> Option<()> {
//! let request = server.receive(Instant::NEVER).ok()?;
//! let lent = request.lent(place)?;
//! let next = server.reply_receive(request.token, [0; 6], Instant::NEVER);
//! let sum = lent.read_u64(0) + lent.read_u64(8);
//! # Some(())
//! # }
//! ```
//!
//! # When the client goes away first
//!
//! A call also ends when its deadline passes or its client is stopped, at any instant, and then the region is taken back
//! from under the server. The server does not fault. It finds memory of its own at the place instead, one page over and
//! over, with any contents; its writes there reach no client, and its reply is refused
//! ([`ServeError::BadToken`](crate::ServeError)). So the contents of a loan may change at any moment, as with all
//! memory that is shared: bytes that were checked must not be read a second time.

use core::marker::PhantomData;
use core::ops::Deref;

use crate::Request;
use crate::environment::{Environment, Object};
use crate::memory::{SharedBytes, shared};
use fusee_abi::environment::{Entry, kind};

/// Where a server finds a region while it is lent: the right `lent` in the manifest.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    handle: u64,
    shared: SharedBytes,
}

impl Object for Place {
    const KIND: u32 = kind::PLACE;
    const NAME: &'static str = "place for a region";

    fn from_entry(_: &Environment, entry: &'static Entry) -> Self {
        Self { handle: entry.handle, shared: shared(entry) }
    }
}

impl Place {
    /// The value that the kernel tells with a request.
    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    /// The memory at the place, lent or not. For tests: while nothing is lent, an access faults.
    #[cfg(all(feature = "misbehave", any(door, target_arch = "aarch64")))]
    pub(crate) fn shared(&self) -> SharedBytes {
        self.shared
    }
}

/// A region that came with a request, to be read.
///
/// Offsets out of range, or misaligned ones, panic.
#[derive(Debug)]
pub struct Lent<'request> {
    shared: SharedBytes,
    request: PhantomData<&'request Request>,
}

/// A region that came with a request, to be read and written.
#[derive(Debug)]
pub struct LentToWrite<'request> {
    lent: Lent<'request>,
}

impl<'request> Lent<'request> {
    /// The region that `request` lends at `place`: the caller has looked that it does.
    pub(crate) fn of(_request: &'request Request, place: &Place) -> Self {
        Self { shared: place.shared, request: PhantomData }
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Reads the byte at `offset`.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn read_u8(&self, offset: usize) -> u8 {
        self.shared.read_u8(offset)
    }

    /// Reads the word of 32 bits at `offset`, a multiple of four.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn read_u32(&self, offset: usize) -> u32 {
        self.shared.read_u32(offset)
    }

    /// Reads the word of 64 bits at `offset`, a multiple of eight.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn read_u64(&self, offset: usize) -> u64 {
        self.shared.read_u64(offset)
    }

    /// Copies the bytes at `offset` to `destination`.
    #[track_caller]
    pub fn copy_to_slice(&self, offset: usize, destination: &mut [u8]) {
        self.shared.copy_to_slice(offset, destination);
    }
}

impl<'request> LentToWrite<'request> {
    /// The lent region, with the right to write.
    pub(crate) fn of(request: &'request Request, place: &Place) -> Self {
        Self { lent: Lent::of(request, place) }
    }

    /// Writes the byte at `offset`.
    #[inline]
    #[track_caller]
    pub fn write_u8(&self, offset: usize, value: u8) {
        self.lent.shared.write_u8(offset, value);
    }

    /// Writes the word of 32 bits at `offset`, a multiple of four.
    #[inline]
    #[track_caller]
    pub fn write_u32(&self, offset: usize, value: u32) {
        self.lent.shared.write_u32(offset, value);
    }

    /// Writes the word of 64 bits at `offset`, a multiple of eight.
    #[inline]
    #[track_caller]
    pub fn write_u64(&self, offset: usize, value: u64) {
        self.lent.shared.write_u64(offset, value);
    }

    /// Copies `source` to `offset`.
    #[track_caller]
    pub fn copy_from_slice(&self, offset: usize, source: &[u8]) {
        self.lent.shared.copy_from_slice(offset, source);
    }
}

impl<'request> Deref for LentToWrite<'request> {
    type Target = Lent<'request>;

    fn deref(&self) -> &Lent<'request> {
        &self.lent
    }
}

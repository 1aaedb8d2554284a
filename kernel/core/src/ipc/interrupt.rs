//! Interrupt lines and regions, as far as the kernel's core cares.

use crate::id::{NotificationId, ThreadId};

/// An interrupt line.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    notification: Option<NotificationId>,
    bits: u64,
    of_engine: bool,
}

impl Interrupt {
    /// A line that is bound to nothing.
    pub const EMPTY: Interrupt = Interrupt { notification: None, bits: 0, of_engine: false };

    /// The notification that the line's top half signals.
    #[must_use]
    #[inline]
    pub fn notification(&self) -> Option<NotificationId> {
        self.notification
    }

    /// The bits that the line's top half sets in its notification.
    #[must_use]
    #[inline]
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Whether an engine announces completions by the line.
    #[must_use]
    #[inline]
    pub fn is_of_engine(&self) -> bool {
        self.of_engine
    }

    /// The line's top half sets these bits. For boot.
    pub(crate) fn bind(&mut self, notification: NotificationId, bits: u64) {
        self.notification = Some(notification);
        self.bits = bits;
    }

    /// An engine announces completions by the line. For boot.
    pub(crate) fn announce_completions(&mut self) {
        self.of_engine = true;
    }
}

/// A region of memory: its size, and the thread it is lent to.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    pages: u64,
    lent_to: Option<ThreadId>,
}

impl Region {
    /// A region without pages.
    pub const EMPTY: Region = Region { pages: 0, lent_to: None };

    /// The number of pages of the region.
    #[must_use]
    #[inline]
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The thread that the region is lent to.
    #[must_use]
    #[inline]
    pub fn lent_to(&self) -> Option<ThreadId> {
        self.lent_to
    }

    /// The region has this number of pages. For boot.
    pub(crate) fn set_pages(&mut self, pages: u64) {
        self.pages = pages;
    }

    /// The region is lent to `server`, and to no other thread.
    #[inline]
    pub(super) fn lend(&mut self, server: ThreadId) {
        debug_assert!(self.lent_to.is_none(), "a region is lent to one thread at a time");
        self.lent_to = Some(server);
    }

    /// The region is lent to no thread any more.
    #[inline]
    pub(super) fn end_loan(&mut self) {
        self.lent_to = None;
    }
}

//! Interrupt lines and regions, as far as the kernel's core cares.

use crate::id::{NotificationId, ThreadId};

/// An interrupt line.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    /// What its top half signals.
    pub notification: Option<NotificationId>,
    /// With which bits.
    pub bits: u64,
    /// Whether an engine announces completions by it.
    pub of_engine: bool,
}

impl Interrupt {
    /// Bound to nothing.
    pub const EMPTY: Interrupt = Interrupt { notification: None, bits: 0, of_engine: false };
}

/// A region, as far as the kernel's core cares.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Number of pages.
    pub pages: u64,
    /// The thread it is lent to.
    pub lent_to: Option<ThreadId>,
}

impl Region {
    /// No pages.
    pub const EMPTY: Region = Region { pages: 0, lent_to: None };
}

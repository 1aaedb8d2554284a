//! Events: notifications, and the interrupts that signal them.

use crate::environment::{Environment, Object};
use crate::grant::{Grantable, Handle};
use crate::syscall::{plain, timed};
use crate::{AcknowledgeError, CompleteError, Instant, SignalError, WaitError};
use fusee_abi::call::{Call, RESET};
use fusee_abi::environment::Entry;
use fusee_abi::image::kind;

/// A set of event bits that one task waits for. Bits set again before they are taken merge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Notification {
    handle: u64,
}

impl Object for Notification {
    const KIND: u32 = kind::NOTIFICATION;
    const NAME: &'static str = "notification";

    fn from_entry(_: &Environment, entry: &'static Entry) -> Self {
        Self { handle: entry.handle }
    }
}

impl Grantable for Notification {}

impl Handle for Notification {
    fn value(&self) -> u64 {
        self.handle
    }

    fn of(value: u64) -> Self {
        Self { handle: value }
    }
}

impl Notification {
    /// Sets `bits`.
    ///
    /// # Errors
    /// [`SignalError`] says why they were not set.
    #[inline]
    pub fn signal(&self, bits: u64) -> Result<(), SignalError> {
        SignalError::check(plain(Call::Signal as u64, self.handle, bits).code)
    }

    /// Takes all bits, waiting until there is one or `deadline` has passed.
    ///
    /// # Errors
    /// [`WaitError`] says why no bit came.
    #[inline]
    pub fn wait(&self, deadline: Instant) -> Result<u64, WaitError> {
        let answer = timed(Call::Wait as u64, self.handle, deadline.0);
        WaitError::check(answer.code)?;
        Ok(answer.value)
    }
}

/// One interrupt line. It stays masked from the moment it fires until it is acknowledged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Interrupt {
    handle: u64,
}

impl Object for Interrupt {
    const KIND: u32 = kind::INTERRUPT;
    const NAME: &'static str = "interrupt";

    fn from_entry(_: &Environment, entry: &'static Entry) -> Self {
        Self { handle: entry.handle }
    }
}

impl Interrupt {
    /// Lets the line fire again. The device must have been silenced before.
    ///
    /// # Errors
    /// [`AcknowledgeError`] says why it may not.
    #[inline]
    pub fn acknowledge(&self) -> Result<(), AcknowledgeError> {
        AcknowledgeError::check(plain(Call::InterruptAck as u64, self.handle, 0).code)
    }

    /// Tells the kernel that engine `number` of the line's device, for which a [`RESET`] bit has asked, has been reset.
    ///
    /// # Errors
    /// [`CompleteError`] says why it does not count.
    pub fn complete_reset(&self, number: usize) -> Result<(), CompleteError> {
        CompleteError::check(plain(Call::EngineComplete as u64, self.handle, RESET << number).code)
    }
}

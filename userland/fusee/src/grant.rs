//! Handles in messages: the handles that can be given, their rights, and the ways to take them back.
//!
//! A task with the right to grant can give a copy of a handle away with a request ([`Endpoint::call_with`](crate::Endpoint),
//! [`Endpoint::send_with`](crate::Endpoint)) or a reply ([`Server::reply_with`](crate::Server)). The copy names the same
//! object, with those of the giver's rights that were named; it can be given on if the right to grant is among them, four
//! times in a row at most. The giver keeps its own handle, and can make all copies of it void by [`revoke`].
//!
//! A copy takes one of the 32 slots of its holder's table until the holder gives it [up](give_up), also when it is void.

use crate::RevokeError;
use crate::environment::Object;
use crate::syscall::plain;
use core::ops::BitOr;
use fusee_abi::call::{Call, rights};

/// Objects with handles that can be given to other tasks: [`Endpoint`](crate::Endpoint), which others may call but not
/// serve, [`Notification`](crate::Notification) and [`Task`](crate::Task).
pub trait Grantable: Object + Handle {}

/// A typed handle, as the number the kernel knows it by. It cannot be named outside of this crate.
pub trait Handle {
    /// The number.
    fn value(&self) -> u64;
    /// The handle with this number.
    fn of(value: u64) -> Self;
}

/// The uses of a copy of a handle, or of a region that is lent, as far as its source allows them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rights(u32);

impl Rights {
    /// Everything that the source may, except to serve an endpoint.
    pub const ALL: Rights = Rights(u32::MAX);
    /// Call an endpoint.
    pub const CALL: Rights = Rights(rights::CALL);
    /// Send to an endpoint.
    pub const SEND: Rights = Rights(rights::SEND);
    /// Signal a notification.
    pub const SIGNAL: Rights = Rights(rights::SIGNAL);
    /// Wait for a notification.
    pub const WAIT: Rights = Rights(rights::WAIT);
    /// Release jobs of a sporadic task.
    pub const RELEASE_JOB: Rights = Rights(rights::RELEASE_JOB);
    /// Stop a task.
    pub const STOP: Rights = Rights(rights::STOP);
    /// Give copies of the copy away. Of no use alone, so refused alone.
    pub const GRANT: Rights = Rights(rights::GRANT);
    /// Read a region that is lent. Without it nothing is lent.
    pub const READ: Rights = Rights(rights::READ);
    /// Write to it.
    pub const WRITE: Rights = Rights(rights::WRITE);

    pub(crate) fn bits(self) -> u64 {
        u64::from(self.0)
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

/// Makes all copies of `handle` void, and all copies of those, at once, however many they are. `handle` itself stays.
///
/// A call that is under way through one of them goes on.
///
/// # Errors
/// [`RevokeError`] if the handle is void itself, and its copies with it.
pub fn revoke<T: Grantable>(handle: &T) -> Result<(), RevokeError> {
    RevokeError::check(plain(Call::Revoke as u64, handle.value(), 0).code)
}

/// Gives up `handle`, even if it is void. All copies of `handle` become void. Its slot becomes free for another handle, unless a
/// task of several lives has `handle` from its manifest.
///
/// # Errors
/// [`RevokeError`] if `handle` was given up before.
pub fn give_up<T: Grantable>(handle: T) -> Result<(), RevokeError> {
    RevokeError::check(plain(Call::Revoke as u64, handle.value(), 1).code)
}

//! What stands for the plugins of pools in a kernel without feature `advice`: no pool has one.

use fusee_abi::image::{self, advice};
use fusee_locking::engine::LockError;
use fusee_locking::pool::Change;
use fusee_locking::tokens::{self, Tokens};
use fusee_sched::key::Key;
use fusee_sched::time::Nanoseconds;

use crate::BootError;
use crate::id::PoolId;

#[derive(Clone, Debug)]
pub(crate) struct Advisers;

#[allow(clippy::unused_self, reason = "the same calls as with plugins")]
impl Advisers {
    pub const EMPTY: Self = Self;

    pub fn set(&mut self, _: PoolId, record: &image::Pool) -> Result<(), BootError> {
        if record.advice == advice::NOBODY { Ok(()) } else { Err(BootError::WithoutAdvice) }
    }

    #[inline(always)]
    pub fn measures(&self, _: PoolId) -> bool {
        false
    }

    #[inline(always)]
    pub fn request(
        &mut self,
        _: PoolId,
        tokens: &mut Tokens,
        user: u16,
        key: Key,
        length: Nanoseconds,
    ) -> Result<Change, LockError> {
        tokens::request(tokens, user, key, length)
    }

    #[inline(always)]
    pub fn withdraw(&mut self, _: PoolId, tokens: &mut Tokens, user: u16) -> Option<Change> {
        tokens::withdraw(tokens, user)
    }

    #[inline(always)]
    pub fn change_key(&mut self, _: PoolId, tokens: &mut Tokens, user: u16, key: Key) -> Option<Change> {
        tokens::change_key(tokens, user, key)
    }

    #[inline(always)]
    pub fn acquired(&mut self, _: PoolId, _: u16, _: u8) {}

    #[inline(always)]
    pub fn freed(&mut self, _: PoolId, _: u16, _: Nanoseconds) {}

    #[inline(always)]
    pub fn exited(&mut self, _: PoolId, _: u16) {}
}

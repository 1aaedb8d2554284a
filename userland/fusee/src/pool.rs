//! Pools: tokens that the jobs of a cluster share.

use crate::engine::NotSent;
use crate::environment::{Environment, Object};
use crate::syscall::{plain, timed};
use crate::{AcquireError, Engine, EngineError, EngineGuard, Instant};
use fusee_abi::call::Call;
use fusee_abi::environment::Entry;
use fusee_abi::image::kind;

/// Tokens of one kind: the right to use an accelerator, say. With one token it is a mutex.
///
/// A task has one token of a pool at most, so that asking for a second is a mistake that does not compile:
///
/// ```compile_fail,E0499
/// fn twice(mut pool: fusee::Pool) {
///     let one = pool.acquire(fusee::Instant::NEVER);
///     let other = pool.acquire(fusee::Instant::NEVER);
///     drop(one);
/// }
/// ```
#[derive(Debug)]
pub struct Pool {
    handle: u64,
    /// Tokens for each device.
    each: u32,
}

impl Object for Pool {
    const KIND: u32 = kind::POOL;
    const NAME: &'static str = "pool";

    fn from_entry(_: &Environment, entry: &'static Entry) -> Self {
        Self { handle: entry.handle, each: entry.flags.max(1) }
    }
}

impl Pool {
    /// Waits for a token until `deadline`. It is held while the value returned lives.
    ///
    /// # Errors
    /// [`AcquireError`] says why none was granted.
    #[inline]
    pub fn acquire(&mut self, deadline: Instant) -> Result<Token<'_>, AcquireError> {
        let answer = timed(Call::Acquire as u64, self.handle, deadline.0);
        AcquireError::check(answer.code)?;
        Ok(Token { replica: answer.value as u8, pool: self, _stays: [] })
    }

    /// Gives back a token that was [kept](Token::keep).
    ///
    /// # Errors
    /// [`EngineError`] if none is held.
    pub fn give_back(&mut self) -> Result<(), EngineError> {
        EngineError::check(plain(Call::Release as u64, self.handle, 0).code)
    }
}

/// A token, given back when dropped.
///
/// A token that was given back cannot be used:
///
/// ```compile_fail,E0505
/// fn too_late(token: fusee::Token<'_>) -> u8 {
///     let replica = &token;
///     drop(token);
///     replica.replica()
/// }
/// ```
#[derive(Debug)]
#[must_use = "the token is given back at once"]
pub struct Token<'pool> {
    replica: u8,
    pool: &'pool Pool,
    _stays: NotSent,
}

impl Token<'_> {
    /// Waits until `deadline` for the lock of an engine of this token's device. It is given back before the token:
    ///
    /// ```compile_fail,E0505
    /// fn wrong_order(token: fusee::Token<'_>, engine: &fusee::Engine) {
    ///     let guard = token.acquire(engine, fusee::Instant::NEVER);
    ///     drop(token);
    ///     drop(guard);
    /// }
    /// ```
    ///
    /// # Errors
    /// [`AcquireError`] says why it was not granted.
    #[inline]
    pub fn acquire(&self, engine: &Engine, deadline: Instant) -> Result<EngineGuard<'_>, AcquireError> {
        engine.acquire_during(deadline)
    }

    /// The number of the token in the pool, from 0: no other task has this one now.
    #[must_use]
    pub fn replica(&self) -> u8 {
        self.replica
    }

    /// The number of its device among the pool's `devices`, from 0, in the order of the manifest; 0 if that names none.
    #[must_use]
    pub fn device(&self) -> usize {
        (u32::from(self.replica) / self.pool.each) as usize
    }

    /// Whether an earlier key waits for a token of the pool, so that a long use should be cut here.
    ///
    /// # Errors
    /// [`EngineError`] if the token was lost.
    #[inline]
    pub fn should_yield(&self) -> Result<bool, EngineError> {
        let answer = plain(Call::ShouldYield as u64, self.pool.handle, 0);
        EngineError::check(answer.code)?;
        Ok(answer.value == 1)
    }

    /// Holds the token beyond the life of this value, until [`Pool::give_back`]. Returns which it is.
    pub fn keep(self) -> u8 {
        let replica = self.replica;
        core::mem::forget(self);
        replica
    }

    /// Gives the token back, and tells whether it was still held.
    ///
    /// # Errors
    /// [`EngineError`] if it was lost before.
    pub fn release(self) -> Result<(), EngineError> {
        let handle = self.pool.handle;
        core::mem::forget(self);
        EngineError::check(plain(Call::Release as u64, handle, 0).code)
    }
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        // Nothing is left to do, and the result cannot be reported.
        let _ = plain(Call::Release as u64, self.pool.handle, 0);
    }
}

#[cfg(test)]
impl Pool {
    /// A pool with one token.
    pub(crate) fn on_host(handle: u64) -> Pool {
        Pool { handle, each: 1 }
    }
}

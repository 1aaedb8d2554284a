//! A mutex and a condition variable for tasks that share a value in memory.
//!
//! A task has one thread, so tasks exclude each other. The lock is one that the kernel knows: an engine without
//! a device. So the holder inherits from all that wait, the lock of a task that dies passes on, and requests that would close a
//! cycle are refused. The price is a system call to take it and one to give it back, even without waiters: the holder
//! cannot be read from memory that others write.
//!
//! # Invariants
//!
//! 1. The shared value is never borrowed. A guard has a copy, and stores it before it gives the lock back, if it was changed.
//! 2. A word beside the value says that a task holds the mutex, from before the first store until after the last. A task that
//!    finds it set got the lock from a task that died.
//! 3. A task that waits for a condition holds nothing of this mutex meanwhile, and does not miss a notification that was made
//!    after it gave the mutex back: the kernel keeps it until it is taken.
//!
//! Locks nest as the kernel has it: any mutexes and engines may be held together, and given back in any order. A request
//! that would close a cycle gets [`AcquireError::WouldDeadlock`].
//!
//! Not here: the lock and its order (`locking/src/engine.rs`), inheritance (`kernel/core`). All writers of the region
//! are trusted with the value: the lock keeps nobody from storing without it.

use crate::memory::SharedBytes;
use crate::{AcquireError, Engine, EngineGuard, Instant, Notification, SignalError, WaitError, now};
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Offset of the word that is set while a task holds the mutex.
const HELD: usize = 0;
/// Where the value is.
const VALUE: usize = 8;
/// The bit that a condition variable uses.
const WAKE: u64 = 1;

/// A value of several tasks, which have it one at a time.
///
/// ```ignore
/// let lock = environment.expect::<Engine>("lock");
/// let state = environment.expect::<Region>("state").shared();
/// let state = Mutex::<[u64; 4]>::new(lock, state).expect("the region is large enough");
/// state.lock(Instant::NEVER)?[0] += 1;
/// ```
#[derive(Debug)]
pub struct Mutex<T> {
    lock: Engine,
    memory: SharedBytes,
    value: PhantomData<T>,
}

/// Why a mutex was not simply locked.
pub enum LockError<'a, T: FromBytes + IntoBytes + Immutable> {
    /// The mutex is locked now, but a task that held it died. The value is the one that this task last stored, perhaps in part.
    /// Each task that locks it is told so until [`MutexGuard::repaired`].
    Poisoned(MutexGuard<'a, T>),
    /// The mutex is not locked.
    Acquire(AcquireError),
}

/// The value, for as long as the guard lives. It is a copy, which is stored when the guard is dropped, if it was changed.
#[must_use = "the mutex is unlocked at once"]
pub struct MutexGuard<'a, T: FromBytes + IntoBytes + Immutable> {
    mutex: &'a Mutex<T>,
    value: T,
    is_changed: bool,
    is_poisoned: bool,
    /// Dropped after `drop` of the guard itself, which stores the value.
    _lock: EngineGuard<'static>,
}

impl<T: FromBytes + IntoBytes + Immutable> Mutex<T> {
    /// The mutex with its value in `memory`, which was all zero before its first use, and with the lock `lock`, an engine
    /// without a device.
    ///
    /// `None` if there is no room for the value.
    #[must_use]
    pub fn new(lock: Engine, memory: SharedBytes) -> Option<Self> {
        let has_room = memory.len().checked_sub(VALUE)? >= size_of::<T>();
        has_room.then_some(Self { lock, memory, value: PhantomData })
    }

    /// Waits for the mutex until `deadline`. Meanwhile its holder inherits from this task.
    ///
    /// # Errors
    /// [`LockError`] says why not, or that its holder died.
    pub fn lock(&self, deadline: Instant) -> Result<MutexGuard<'_, T>, LockError<'_, T>> {
        let lock = self.lock.acquire(deadline).map_err(LockError::Acquire)?;
        let is_poisoned = self.memory.read_u32(HELD) != 0;
        self.memory.write_u32(HELD, 1);
        let mut value = T::new_zeroed();
        self.memory.copy_to_slice(VALUE, value.as_mut_bytes());
        let guard = MutexGuard { mutex: self, value, is_changed: false, is_poisoned, _lock: lock };
        if is_poisoned { Err(LockError::Poisoned(guard)) } else { Ok(guard) }
    }
}

impl<T: FromBytes + IntoBytes + Immutable> MutexGuard<'_, T> {
    /// Says that the value is right again, after a task died with it.
    pub fn repaired(&mut self) {
        self.is_poisoned = false;
    }
}

impl<T: FromBytes + IntoBytes + Immutable> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: FromBytes + IntoBytes + Immutable> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.is_changed = true;
        &mut self.value
    }
}

impl<T: FromBytes + IntoBytes + Immutable> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.is_changed {
            self.mutex.memory.copy_from_slice(VALUE, self.value.as_bytes());
        }
        if !self.is_poisoned {
            // After the value; the next holder reads both after the kernel has given it the lock.
            self.mutex.memory.publish_u32(HELD, 0);
        }
    }
}

impl<T: FromBytes + IntoBytes + Immutable> fmt::Debug for LockError<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Poisoned(_) => f.write_str("Poisoned"),
            LockError::Acquire(error) => write!(f, "Acquire({error:?})"),
        }
    }
}

/// A condition that a task waits for, and that others make true by changing the value of a mutex.
///
/// A condition is a notification, for which one task waits: if several wait, each has one of its own. The task that makes the condition
/// true notifies after that, with the mutex or without.
#[derive(Clone, Copy, Debug)]
pub struct Condvar {
    event: Notification,
}

/// Why a condition was not seen to be true. The mutex is not locked then, except by a guard in [`LockError::Poisoned`].
#[derive(Debug)]
pub enum CondvarError<'a, T: FromBytes + IntoBytes + Immutable> {
    /// The wait ended: by the deadline, or as the error says.
    Wait(WaitError),
    /// The mutex was not simply locked again.
    Lock(LockError<'a, T>),
}

impl Condvar {
    /// The condition variable of which `event` tells; that is for nothing else.
    #[must_use]
    pub const fn new(event: Notification) -> Self {
        Self { event }
    }

    /// Lets the task go on that waits, if there is one: to look at its condition.
    ///
    /// # Errors
    /// [`SignalError`] says why not.
    pub fn notify(&self) -> Result<(), SignalError> {
        self.event.signal(WAKE)
    }

    /// Unlocks the mutex, waits for a notification until `deadline`, and locks it again. It may come back for a notification
    /// made before; so look at the condition again, or use [`Condvar::wait_while`].
    ///
    /// # Errors
    /// [`CondvarError`].
    pub fn wait<'a, T: FromBytes + IntoBytes + Immutable>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> Result<MutexGuard<'a, T>, CondvarError<'a, T>> {
        let mutex = guard.mutex;
        // A poisoned value that was not repaired stays so.
        drop(guard);
        self.event.wait(deadline).map_err(CondvarError::Wait)?;
        mutex.lock(deadline).map_err(CondvarError::Lock)
    }

    /// Waits, with the mutex unlocked, until `condition` no longer holds of the value, or `deadline` has passed.
    ///
    /// # Errors
    /// [`CondvarError`].
    pub fn wait_while<'a, T: FromBytes + IntoBytes + Immutable>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: Instant,
        mut condition: impl FnMut(&T) -> bool,
    ) -> Result<MutexGuard<'a, T>, CondvarError<'a, T>> {
        while condition(&guard) {
            guard = self.wait(guard, deadline)?;
            // A notification that is there is given out however late it is, and others may make them for nothing.
            if deadline != Instant::NEVER && condition(&guard) && now().now >= deadline {
                return Err(CondvarError::Wait(WaitError::TimedOut));
            }
        }
        Ok(guard)
    }
}

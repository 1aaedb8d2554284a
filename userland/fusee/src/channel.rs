//! A bounded queue of plain values from one task to another, in memory that both share.
//!
//! Each side counts the values it is done with, in a word that it alone writes, and waits by a notification of its own.
//! As long as the queue is neither empty nor full neither side enters the kernel.
//!
//! ```text
//! offset    0  sent      4  head that the sender waits for          written by the sender
//!          64  taken    68  count sent that the receiver waits for  written by the receiver
//!         128  the slots: a power of two, each a multiple of eight bytes
//! ```
//!
//! # Invariants
//!
//! 1. A word of the other side never becomes an offset: a side finds its slot by its own count, which it keeps in
//!    its own memory. A count of the other side that cannot be is [`ChannelError::Corrupt`].
//! 2. A side that waits has said so before it last looked. So either it sees the other side's step, or that one sees
//!    that it waits, and signals.
//! 3. No loop goes on because of words in shared memory alone: each round waits, and none begins after the
//!    deadline.
//!
//! # Why no wake-up is lost
//!
//! | | the side that waits | the side that acts |
//! |---|---|---|
//! | 1 | writes the count it waits for | writes its new count |
//! | 2 | full fence | full fence |
//! | 3 | reads the count: as before? | reads the awaited count: this one? |
//! | 4 | then waits for its event | then signals that event |
//!
//! One of two such fences comes first, and writes before that one are seen after the other. Acquire and release are too
//! weak for it: on AArch64 both sides could read before their own store is seen, find nothing to do, and one would sleep for
//! ever. An event that is signalled before the wait stays set. A count is reached once, so there is one signal for
//! each sleep, and the awaited count need not be cleared.
//!
//! The values themselves need less. The receiver has read the count with acquire, the sender has written the count with
//! release, and the other way round for the slot that becomes free.
//!
//! Not here: the meaning of the values. They come from a task that need not be trusted, as do all bytes in shared memory.

use crate::memory::SharedBytes;
use crate::{Instant, Notification, SignalError, WaitError, now};
use core::marker::PhantomData;
use core::sync::atomic::{Ordering, fence};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Where the sender's words are.
const SENDER: usize = 0;
/// Where the receiver's words are: in another cache line.
const RECEIVER: usize = 64;
/// Where the slots begin.
pub(crate) const SLOTS: usize = 128;
/// Offset in a side's words: how many values it is done with, modulo 2^32.
const COUNT: usize = 0;
/// Offset in a side's words: the count of the other side that it waits for.
const AWAITED: usize = 4;
/// The event that a side is woken by.
const WAKE: u64 = 1;

/// Why a value was not sent or received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChannelError {
    /// The other side claims an impossible number of sent or taken values.
    Corrupt,
    /// The queue stayed empty or full, and the wait ended: by the deadline, or as the error says.
    Wait(WaitError),
    /// The value was sent or taken, but the other side, which waits for that, could not be woken.
    Signal(SignalError),
}

/// The end of a channel that sends. The other end is a [`Receiver`] of the same type, in another task.
///
/// ```ignore
/// let memory = environment.expect::<Region>("samples").shared();
/// let [sent, taken] = ["sent", "taken"].map(|name| environment.expect::<Notification>(name));
/// let mut samples = Sender::<[u32; 4]>::new(memory, sent, taken).expect("the region is large enough");
/// samples.send(&[1, 2, 3, 4], Instant::NEVER)?;
/// ```
#[derive(Debug)]
pub struct Sender<T> {
    side: Side<SharedBytes, Notification>,
    values: PhantomData<fn(T)>,
}

/// The end of a channel that receives. The other end is a [`Sender`] of the same type, in another task.
#[derive(Debug)]
pub struct Receiver<T> {
    side: Side<SharedBytes, Notification>,
    values: PhantomData<fn() -> T>,
}

impl<T: IntoBytes + Immutable> Sender<T> {
    /// The sending end of the channel in `memory`, which was all zero before its first use. It signals `sent`, and waits for
    /// `taken`; both are for this channel alone.
    ///
    /// `None` if there is no room for a value.
    #[must_use]
    pub fn new(memory: SharedBytes, sent: Notification, taken: Notification) -> Option<Self> {
        let side = Side::sender(memory, memory.len(), size_of::<T>(), taken, sent)?;
        Some(Self { side, values: PhantomData })
    }

    /// The largest number of values that the queue can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.side.capacity as usize
    }

    /// Sends `value`, waiting for room until `deadline`.
    ///
    /// # Errors
    /// [`ChannelError`]; after [`ChannelError::Signal`] it was sent.
    pub fn send(&mut self, value: &T, deadline: Instant) -> Result<(), ChannelError> {
        self.side.wait(deadline)?;
        self.side.put(value.as_bytes())
    }

    /// Sends `value` if there is room; says whether there was. Never waits.
    ///
    /// # Errors
    /// [`ChannelError`]; after [`ChannelError::Signal`] it was sent.
    pub fn try_send(&mut self, value: &T) -> Result<bool, ChannelError> {
        let is_ready = self.side.is_ready()?;
        if is_ready {
            self.side.put(value.as_bytes())?;
        }
        Ok(is_ready)
    }
}

impl<T: FromBytes + IntoBytes> Receiver<T> {
    /// The receiving end of the channel in `memory`, which was all zero before its first use. It waits for `sent`, and signals
    /// `taken`; both are for this channel alone.
    ///
    /// `None` if there is no room for a value.
    #[must_use]
    pub fn new(memory: SharedBytes, sent: Notification, taken: Notification) -> Option<Self> {
        let side = Side::receiver(memory, memory.len(), size_of::<T>(), sent, taken)?;
        Some(Self { side, values: PhantomData })
    }

    /// How many values the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.side.capacity as usize
    }

    /// Takes the oldest value, waiting for one until `deadline`.
    ///
    /// # Errors
    /// [`ChannelError`]; after [`ChannelError::Signal`] the value was taken, and is lost.
    pub fn receive(&mut self, deadline: Instant) -> Result<T, ChannelError> {
        self.side.wait(deadline)?;
        self.take()
    }

    /// Takes the oldest value, if there is one. Never waits.
    ///
    /// # Errors
    /// [`ChannelError`]; after [`ChannelError::Signal`] the value was taken, and is lost.
    pub fn try_receive(&mut self) -> Result<Option<T>, ChannelError> {
        if self.side.is_ready()? { self.take().map(Some) } else { Ok(None) }
    }

    fn take(&mut self) -> Result<T, ChannelError> {
        let mut value = T::new_zeroed();
        self.side.take(value.as_mut_bytes())?;
        Ok(value)
    }
}

/// The memory of a channel, as the algorithm uses it. Tests bring others, which reorder accesses as a CPU may.
pub(crate) trait Memory {
    /// Reads a word; with acquire.
    fn observe(&self, offset: usize) -> u32;
    /// Writes a word; with release.
    fn publish(&self, offset: usize, value: u32);
    /// Reads a word, in no order but that of fences.
    fn read(&self, offset: usize) -> u32;
    /// Writes a word, in no order but that of fences.
    fn write(&self, offset: usize, value: u32);
    /// A full fence: orders earlier writes with later reads.
    fn fence(&self);
    /// Copies a value into a slot.
    fn fill(&self, offset: usize, value: &[u8]);
    /// Copies a value out of a slot.
    fn empty(&self, offset: usize, value: &mut [u8]);
}

impl Memory for SharedBytes {
    #[inline]
    fn observe(&self, offset: usize) -> u32 {
        self.observe_u32(offset)
    }

    #[inline]
    fn publish(&self, offset: usize, value: u32) {
        self.publish_u32(offset, value);
    }

    #[inline]
    fn read(&self, offset: usize) -> u32 {
        self.read_u32(offset)
    }

    #[inline]
    fn write(&self, offset: usize, value: u32) {
        self.write_u32(offset, value);
    }

    #[inline]
    fn fence(&self) {
        // Sequentially consistent: pairs with the same fence of the other side, in `Side::wait` or `Side::advance`.
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn fill(&self, offset: usize, value: &[u8]) {
        self.copy_from_slice(offset, value);
    }

    #[inline]
    fn empty(&self, offset: usize, value: &mut [u8]) {
        self.copy_to_slice(offset, value);
    }
}

/// The event that a side waits for.
pub(crate) trait Event {
    /// Lets the waiting side go on, now or when it waits.
    fn signal(&self) -> Result<(), SignalError>;
    /// Waits for a signal, and takes it.
    fn wait(&self, deadline: Instant) -> Result<(), WaitError>;
    /// Whether `deadline` has passed.
    fn has_passed(&self, deadline: Instant) -> bool;
}

impl Event for Notification {
    fn signal(&self) -> Result<(), SignalError> {
        Notification::signal(self, WAKE)
    }

    fn wait(&self, deadline: Instant) -> Result<(), WaitError> {
        Notification::wait(self, deadline).map(drop)
    }

    fn has_passed(&self, deadline: Instant) -> bool {
        deadline != Instant::NEVER && now().now >= deadline
    }
}

/// One side. The two do the same: a side may go on while its count has not reached a limit, which is the other's count, and for
/// the sender as much more as the queue holds.
#[derive(Debug)]
pub(crate) struct Side<M, E> {
    memory: M,
    /// Where this side's words are, and the other's.
    own: usize,
    other: usize,
    /// How far this side's count may lie before the other's: the capacity, or zero.
    lead: u32,
    /// A power of two, so that counts may wrap.
    pub(crate) capacity: u32,
    /// Bytes of a slot.
    slot: usize,
    /// How many values this side is done with; the word in memory is only a copy.
    count: u32,
    /// Wakes this side.
    event: E,
    /// Wakes the other.
    other_event: E,
}

impl<M: Memory, E: Event> Side<M, E> {
    /// The sending side of a channel for values of `value` bytes in `bytes` bytes of `memory`.
    pub(crate) fn sender(memory: M, bytes: usize, value: usize, event: E, other_event: E) -> Option<Self> {
        let mut side = Self::receiver(memory, bytes, value, event, other_event)?;
        (side.own, side.other, side.lead) = (SENDER, RECEIVER, side.capacity);
        side.count = side.memory.read(side.own + COUNT);
        Some(side)
    }

    /// The receiving side.
    pub(crate) fn receiver(memory: M, bytes: usize, value: usize, event: E, other_event: E) -> Option<Self> {
        let slot = value.checked_next_multiple_of(8)?;
        let slots = bytes.checked_sub(SLOTS)?.checked_div(slot)?.checked_ilog2()?;
        let capacity = 1 << slots.min(31);
        // The last owner of this side went so far.
        let count = memory.read(RECEIVER + COUNT);
        Some(Self { memory, own: RECEIVER, other: SENDER, lead: 0, capacity, slot, count, event, other_event })
    }

    /// Whether there is a value to take, or room for one.
    pub(crate) fn is_ready(&self) -> Result<bool, ChannelError> {
        let limit = self.memory.observe(self.other + COUNT).wrapping_add(self.lead);
        let left = limit.wrapping_sub(self.count);
        if left > self.capacity { Err(ChannelError::Corrupt) } else { Ok(left > 0) }
    }

    /// Waits until it is ready, or `deadline` has passed.
    pub(crate) fn wait(&mut self, deadline: Instant) -> Result<(), ChannelError> {
        while !self.is_ready()? {
            self.memory.write(self.own + AWAITED, self.count.wrapping_add(1).wrapping_sub(self.lead));
            self.memory.fence();
            if self.is_ready()? {
                break;
            }
            self.event.wait(deadline).map_err(ChannelError::Wait)?;
            // An event that is set is given out however late it is, and the other side may set it for nothing.
            if !self.is_ready()? && self.event.has_passed(deadline) {
                return Err(ChannelError::Wait(WaitError::TimedOut));
            }
        }
        Ok(())
    }

    /// Puts a value into this side's slot, which is free, and goes on.
    pub(crate) fn put(&mut self, value: &[u8]) -> Result<(), ChannelError> {
        self.memory.fill(self.offset(), value);
        self.advance()
    }

    /// Takes the value out of this side's slot, which has one, and goes on.
    pub(crate) fn take(&mut self, value: &mut [u8]) -> Result<(), ChannelError> {
        self.memory.empty(self.offset(), value);
        self.advance()
    }

    fn offset(&self) -> usize {
        SLOTS + (self.count % self.capacity) as usize * self.slot
    }

    fn advance(&mut self) -> Result<(), ChannelError> {
        self.count = self.count.wrapping_add(1);
        self.memory.publish(self.own + COUNT, self.count);
        self.memory.fence();
        if self.memory.read(self.other + AWAITED) == self.count {
            self.other_event.signal().map_err(ChannelError::Signal)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;

//! Reply slots: the requests that a thread has received and not answered.
//!
//! # Invariants
//!
//! 1. A bit of `others_taken` is set exactly while its slot has a client. The first slot has no bit, since fast paths take and free that one.
//! 2. A slot's generation changes whenever the slot is emptied, so that an old token never fits.
//! 3. A region is lent through a slot only while the slot has a client.
//!
//! Only the methods here take, empty or lend through a slot.

use crate::id::{LoanId, ThreadId};
use crate::limits::REPLY_SLOTS;
use crate::scheduling::thread::Thread;

/// A place for one request until its reply: taken while the reply is due, free otherwise.
#[derive(Clone, Copy, Debug)]
pub struct ReplySlot {
    client: Option<ThreadId>,
    loan: Option<LoanId>,
    generation: u32,
}

impl ReplySlot {
    /// A slot that was never used.
    pub const EMPTY: ReplySlot = ReplySlot { client: None, loan: None, generation: 0 };

    /// The client that waits for the reply; `None`: the slot is free.
    #[must_use]
    #[inline]
    pub fn client(&self) -> Option<ThreadId> {
        self.client
    }

    /// The region that the client has lent the server until the reply.
    #[must_use]
    #[inline]
    pub fn loan(&self) -> Option<LoanId> {
        self.loan
    }

    /// The number of times the slot was emptied.
    #[must_use]
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }
}

impl Thread {
    /// The reply slots of the thread, in the order of their indices.
    #[must_use]
    #[inline]
    pub fn slots(&self) -> &[ReplySlot; REPLY_SLOTS] {
        &self.slots
    }

    /// The thread's first reply slot, which is the only one that fast paths use.
    #[must_use]
    #[inline]
    pub fn first_slot(&self) -> &ReplySlot {
        &self.slots[0]
    }

    /// The reply slots that have a client, a bit each, but for the first.
    #[inline]
    pub(crate) fn others_taken(&self) -> u16 {
        self.others_taken
    }

    /// The index of the thread's first reply slot that is free.
    #[inline]
    pub(crate) fn first_free_slot(&self) -> Option<usize> {
        if self.slots[0].client.is_none() {
            return Some(0);
        }
        let slot = (self.others_taken | 1).trailing_ones() as usize;
        (slot < REPLY_SLOTS).then_some(slot)
    }

    /// The index of the thread's first reply slot that is taken.
    #[inline]
    pub(crate) fn first_taken_slot(&self) -> Option<usize> {
        let taken = self.others_taken | u16::from(self.slots[0].client.is_some());
        (taken != 0).then_some(taken.trailing_zeros() as usize)
    }

    /// The client of the first free slot is `client` from here on. Returns the slot's index and generation; `None`: no slot is free.
    #[inline]
    pub(crate) fn take_slot(&mut self, client: ThreadId) -> Option<(usize, u32)> {
        let slot = self.first_free_slot()?;
        self.others_taken |= 1 << slot & !1;
        self.slots[slot].client = Some(client);
        Some((slot, self.slots[slot].generation))
    }

    /// The client of the first slot, which is free, is `client` from here on.
    #[inline(always)]
    pub(crate) fn take_first_slot(&mut self, client: ThreadId) {
        debug_assert!(self.slots[0].client.is_none(), "a slot is taken while it is free");
        self.slots[0].client = Some(client);
    }

    /// The first slot is free from here on, and its token is void.
    #[inline(always)]
    pub(crate) fn empty_first_slot(&mut self) {
        debug_assert!(self.slots[0].loan.is_none(), "a loan ends before its slot is emptied");
        self.slots[0].client = None;
        self.slots[0].generation = self.slots[0].generation.wrapping_add(1);
    }

    /// The slot with this index is free from here on, and its token is void. Returns the client that waited there.
    #[inline]
    pub(crate) fn empty_slot(&mut self, slot: usize) -> Option<ThreadId> {
        self.others_taken &= !(1 << slot);
        let slot = &mut self.slots[slot];
        debug_assert!(slot.loan.is_none(), "a loan ends before its slot is emptied");
        slot.generation = slot.generation.wrapping_add(1);
        slot.client.take()
    }

    /// The client of the slot with this index has lent `region`.
    #[inline]
    pub(crate) fn lend(&mut self, slot: usize, region: LoanId) {
        debug_assert!(self.slots[slot].client.is_some(), "a client lends while it waits");
        self.slots[slot].loan = Some(region);
    }

    /// The loan of the slot with this index ends. Returns the region, if one was lent.
    #[inline]
    pub(crate) fn end_loan(&mut self, slot: usize) -> Option<LoanId> {
        self.slots[slot].loan.take()
    }
}

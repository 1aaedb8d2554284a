//! The doorbells of clients without a lock, for the server that decides on them: the *sharer* of an engine.
//!
//! A client that stores to a doorbell which it may not store to makes a request of that: [`Request::store`](crate::Request::store). The sharer stores in its
//! stead ([`Doorbells::submit`]) and answers [`Verdict::GoOn`], or answers later. Until then the client waits, and lends its budget.

use crate::environment::{Environment, Object};
use crate::memory::{SharedBytes, shared};
use crate::syscall::plain;
use crate::{Message, ShareError};
use fusee_abi::call::{AGAIN, Call, GO_ON, PAGE_SHIFT, page};
use fusee_abi::environment::Entry;
use fusee_abi::image::{PAGE, kind};

/// Offset in a doorbell page of the count of submitted commands.
pub(crate) const SUBMITTED: usize = 0;

/// The page that a client has in the place of its doorbell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum DoorbellPage {
    /// Nothing: a store is a request, any other access a fault of the client.
    Absent = page::ABSENT,
    /// The doorbell, to be read; a store is a request. So it is at boot.
    ReadOnly = page::READ_ONLY,
    /// The doorbell.
    Open = page::OPEN,
    /// The client's *shadow*: memory that no device looks at. A store succeeds, and [`Doorbells::buffered`] returns the stored count.
    Shadow = page::SHADOW,
}

/// A client's request to store to its doorbell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Store {
    /// The client: its place among the engine's clients without its lock, in the order of the manifest.
    pub member: usize,
    /// How many commands it has submitted, once that is stored.
    pub submitted: u32,
}

/// The answer to a [`Store`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Verdict {
    /// The store was made: the client goes on behind it.
    GoOn = GO_ON,
    /// The client makes it again.
    Again = AGAIN,
}

impl Verdict {
    /// As the words of a reply.
    #[must_use]
    pub const fn words(self) -> Message {
        [self as u64, 0, 0, 0, 0, 0]
    }
}

/// The doorbells of an engine's clients without its lock. The manifest gives them to its `sharer`, as `doorbells.<engine>`.
#[derive(Clone, Copy, Debug)]
pub struct Doorbells {
    handle: u64,
    pages: SharedBytes,
    contexts: u64,
    engine: u32,
}

impl Object for Doorbells {
    const KIND: u32 = kind::DOORBELLS;
    const NAME: &'static str = "doorbells";

    fn from_entry(_: &Environment, entry: &'static Entry) -> Self {
        Self { handle: entry.handle, pages: shared(entry), contexts: entry.physical, engine: entry.flags }
    }
}

impl Doorbells {
    /// How many clients there are.
    #[must_use]
    pub fn members(&self) -> usize {
        self.pages.len() / (2 * PAGE as usize)
    }

    /// The engine's number on its device.
    #[must_use]
    pub fn engine(&self) -> u32 {
        self.engine
    }

    /// The context of `member` on the device, as in its status page.
    ///
    /// # Panics
    /// There is no such client.
    #[must_use]
    #[track_caller]
    pub fn context(&self, member: usize) -> usize {
        assert!(member < self.members(), "the engine has {} clients", self.members());
        (self.contexts >> (4 * member) & 15) as usize
    }

    /// Puts `page` in the place of the doorbells of `members`, a bit each. When this returns, no store that it forbids is under way.
    ///
    /// # Errors
    /// [`ShareError`]; nothing has changed.
    pub fn share(&self, members: u16, page: DoorbellPage) -> Result<(), ShareError> {
        let which = u64::from(members) | (page as u64) << PAGE_SHIFT;
        ShareError::check(plain(Call::Share as u64, self.handle, which).code)
    }

    /// Lets `members` go on as if they submitted: from now on their stores succeed and reach no device. Each goes on from the count in its doorbell.
    ///
    /// # Errors
    /// [`ShareError`]; nothing has changed.
    pub fn shadow(&self, members: u16) -> Result<(), ShareError> {
        // The counts stand still meanwhile.
        self.share(members, DoorbellPage::ReadOnly)?;
        for member in self.among(members) {
            self.pages.publish_u32(self.shadow_of(member), self.submitted(member));
        }
        self.share(members, DoorbellPage::Shadow)
    }

    /// Ends that for `members` with shadows, which have `page` in the place of their doorbells from now on: buffered counts are submitted. Returns
    /// whether there was anything; then the device must be let look, with a [`Kick`](crate::Kick).
    ///
    /// No store is lost: none to a shadow is under way any more when that is read.
    ///
    /// # Errors
    /// [`ShareError`]; nothing has changed.
    pub fn unshadow(&self, members: u16, page: DoorbellPage) -> Result<bool, ShareError> {
        self.share(members, DoorbellPage::ReadOnly)?;
        let mut is_any = false;
        for member in self.among(members) {
            let submitted = self.buffered(member);
            is_any |= submitted != self.submitted(member);
            self.submit(Store { member, submitted });
        }
        self.share(members, page)?;
        Ok(is_any)
    }

    /// How many commands `member` has submitted, those that its shadow keeps from the device among them: after [`Doorbells::shadow`], and modulo 2^32.
    #[must_use]
    #[track_caller]
    pub fn buffered(&self, member: usize) -> u32 {
        self.pages.observe_u32(self.shadow_of(member))
    }

    fn among(&self, members: u16) -> impl Iterator<Item = usize> {
        (0..self.members()).filter(move |member| members >> member & 1 != 0)
    }

    /// The word of its shadow that a client counts in.
    fn shadow_of(&self, member: usize) -> usize {
        (self.members() + member) * PAGE as usize + SUBMITTED
    }

    /// How many commands `member` has submitted, modulo 2^32.
    #[must_use]
    #[track_caller]
    pub fn submitted(&self, member: usize) -> u32 {
        self.pages.observe_u32(member * PAGE as usize + SUBMITTED)
    }

    /// Makes a store of a client in its stead. The client lets the device look once it goes on.
    #[track_caller]
    pub fn submit(&self, store: Store) {
        self.pages.publish_u32(store.member * PAGE as usize + SUBMITTED, store.submitted);
    }
}

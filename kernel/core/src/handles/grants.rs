//! Handles in messages, and how they are taken back.
//!
//! A request or a reply carries at most one handle. The receiver gets a *copy*: it names the same object, and has those
//! of the source's rights that the giver let it keep. The source stays in its slot, and its holder can make its copies
//! void ([`crate::derivation`]).
//!
//! # Invariants
//!
//! 1. The rights of a copy are among those of its source; to serve an endpoint is never among them.
//! 2. A handle is given as a whole or not at all: [`Kernel::attachment`] finds all that can stand in its way, and then
//!    [`Kernel::give`] cannot fail. Between the two lies nothing that frees or fills a slot.
//! 3. A task that dies leaves no copy and no node behind; nor a handle of the manifest, unless it has further lives.
//!
//! # What can be given
//!
//! Endpoints, notifications and tasks, if their holder has the right to grant. An engine is a task's own, with its
//! doorbell and its account; an interrupt belongs to one driver; and to map a region takes page tables, which only the
//! manifest gives.
//!
//! A call that is under way when its handle is revoked goes on: the right was needed to start it.

use fusee_abi::Error;
use fusee_abi::call::{CARRIES, Call, GIVEN, HandleValue, KEPT, NUMBER, rights};

use crate::id::{DerivationId, LoanId, RegionId, ThreadId};
use crate::ipc::loans::Loan;
use crate::limits::{COPY_DEPTH_MAX, HANDLES, RESTARTS};
use crate::object::{Handle, Object};
use crate::{Kernel, Machine};

/// Content of a message besides words.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attachment {
    /// A handle.
    Gift(Gift),
    /// A region, until the call ends.
    Loan(Loan),
}

/// A copy that can be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gift {
    /// Slot of the giver.
    from: usize,
    /// Empty slot of the receiver.
    to: usize,
    /// The rights of the copy.
    kept: u16,
}

/// The rights to `object` that can be given away, beside the one to give it on.
///
/// # Errors
/// [`Error::WrongKind`] if it cannot be given at all.
fn givable(object: Object) -> Result<u16, Error> {
    match object {
        Object::Endpoint(_) => Ok((rights::CALL | rights::SEND) as u16),
        Object::Notification(_) => Ok((rights::SIGNAL | rights::WAIT) as u16),
        Object::Task(_) => Ok((rights::RELEASE_JOB | rights::CREDIT | rights::STOP) as u16),
        Object::Empty
        | Object::Engine(_)
        | Object::Pool(_)
        | Object::Doorbells(_)
        | Object::Interrupt(_)
        | Object::Region(_)
        | Object::System => Err(Error::WrongKind),
    }
}

impl Kernel {
    /// The slot that `value` names, be its handle void or not.
    pub(crate) fn slot_of(&self, thread: ThreadId, value: u64) -> Result<usize, Error> {
        let value = HandleValue(value);
        let slot = usize::from(value.slot());
        let handle = self.handles[thread].get(slot).ok_or(Error::BadHandle)?;
        if handle.value() == value && *handle.object() != Object::Empty { Ok(slot) } else { Err(Error::BadHandle) }
    }

    /// The first slot of `thread` that names `object`, with this right from the manifest.
    #[inline(never)]
    pub(crate) fn find_slot(&self, thread: ThreadId, object: Object, right: u32) -> Option<usize> {
        let fits = |handle: &Handle| *handle.object() == object && u32::from(handle.rights()) & right == right;
        self.handles[thread].iter().position(fits)
    }

    /// The content that the call of `giver` carries, if any. Without a receiver only the checks that depend on the giver are
    /// made.
    ///
    /// # Errors
    /// Those of [`Kernel::loan`], or the reason against giving the handle: [`Error::BadHandle`], [`Error::WrongKind`];
    /// [`Error::MissingRight`] to grant, or because none would be left; [`Error::ChainTooLong`] of copies;
    /// [`Error::NoHandleSlot`]; [`Error::NoDerivation`].
    pub(crate) fn attachment<M: Machine>(
        &self,
        machine: &mut M,
        giver: ThreadId,
        receiver: Option<ThreadId>,
    ) -> Result<Option<Attachment>, Error> {
        let general = &machine.registers(giver).general;
        let (value, mask) = (general[GIVEN], general[KEPT] as u16);
        if self.threads[giver].store().is_some() || general[NUMBER] == Call::Call as u64 || value == 0 {
            return Ok(None);
        }
        let from = self.slot_of(giver, value)?;
        let handle = &self.handles[giver][from];
        if let Object::Region(region) = *handle.object()
            && general[NUMBER] == Call::CallWith as u64
        {
            return Ok(self.loan(handle, region, mask, receiver)?.map(Attachment::Loan));
        }
        let others = givable(*handle.object())?;
        if !DerivationId::EXISTS {
            return Err(Error::MissingRight);
        }
        if u32::from(handle.rights()) & rights::GRANT == 0 {
            self.check_copy(handle, rights::GRANT)?;
        }
        let kept = (handle.rights() | handle.kept()) & mask & (others | rights::GRANT as u16);
        if kept & others == 0 {
            return Err(Error::MissingRight);
        }
        if self.derivations.depth(handle.origin()) == COPY_DEPTH_MAX {
            return Err(Error::ChainTooLong);
        }
        let Some(receiver) = receiver else { return Ok(None) };
        let to = self.find_slot(receiver, Object::Empty, 0).ok_or(Error::NoHandleSlot)?;
        if handle.node().is_none() && !self.derivations.has_room(handle.origin()) {
            return Err(Error::NoDerivation);
        }
        Ok(Some(Attachment::Gift(Gift { from, to, kept })))
    }

    /// The handle that the reply to the client in this slot of `server` carries.
    ///
    /// # Errors
    /// Those of [`Kernel::attachment`]; a client that made a plain call takes none: [`Error::NoHandleSlot`].
    pub(crate) fn gift_of_reply<M: Machine>(
        &self,
        machine: &mut M,
        server: ThreadId,
        slot: usize,
    ) -> Result<Option<Gift>, Error> {
        let client = self.threads[server].slots()[slot].client().ok_or(Error::BadToken)?;
        let attachment = self.attachment(machine, server, Some(client))?;
        let takes = machine.registers(client).general[NUMBER] == Call::CallWith as u64;
        let takes = takes && self.threads[client].store().is_none();
        match attachment {
            Some(Attachment::Gift(gift)) if takes => Ok(Some(gift)),
            Some(_) => Err(Error::NoHandleSlot),
            None => Ok(None),
        }
    }

    /// Makes the copy, and moves its value from the giver's register to the receiver's. Returns [`CARRIES`].
    pub(crate) fn give<M: Machine>(&mut self, machine: &mut M, giver: ThreadId, receiver: ThreadId, gift: Gift) -> u64 {
        let source = self.handles[giver][gift.from];
        let life = source.origin().map_or(source.epoch() as u32, |origin| self.derivations.life(origin.node));
        let Some(node) = source.node().or_else(|| self.derivations.take(source.origin(), life)) else {
            impossible!("room for a derivation was found before");
            return 0;
        };
        self.handles[giver][gift.from].set_node(node);
        let epoch = self.derivations.origin(node).epoch;
        let value = self.handles[receiver][gift.to].become_copy(gift.to as u16, &source, gift.kept, node, epoch);
        machine.registers(giver).general[GIVEN] = 0;
        machine.registers(receiver).general[GIVEN] = value.0;
        CARRIES
    }

    /// `revoke`: the copies of a handle are void from here on; with a second argument of one, the handle is given up.
    /// A handle that is void itself can only be given up.
    pub(crate) fn revoke<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let general = &machine.registers(thread).general;
        let (value, gives_up) = (general[0], general[1]);
        let slot = self.slot_of(thread, value)?;
        let handle = &self.handles[thread][slot];
        givable(*handle.object())?;
        match gives_up {
            0 if !self.derivations.holds(handle.origin()) => return Err(Error::BadHandle),
            0 => self.release_node(thread, slot),
            1 => self.empty_slot(thread, slot),
            _ => return Err(Error::BadArgument),
        }
        Ok(())
    }

    /// Ends the handles of a thread at its death: it holds none any more, and all copies of them are void. Handles of the
    /// manifest are kept for its next life, if it has one.
    pub(crate) fn drop_handles(&mut self, thread: ThreadId) {
        for slot in 0..HANDLES {
            if !matches!(*self.handles[thread][slot].object(), Object::Empty) {
                self.empty_slot(thread, slot);
            }
        }
    }

    pub(crate) fn release_node(&mut self, thread: ThreadId, slot: usize) {
        if let Some(node) = self.handles[thread][slot].take_node() {
            self.derivations.release(node);
        }
    }

    /// The generation stays: the next handle in this slot has another. A handle from the manifest stays, too, for another life of the task, but no value
    /// names it until then.
    fn empty_slot(&mut self, thread: ThreadId, slot: usize) {
        self.release_node(thread, slot);
        let has_lives = RESTARTS && self.lives[thread].has_several();
        let handle = &mut self.handles[thread][slot];
        if has_lives && handle.source().is_none() {
            handle.hide(slot);
            return;
        }
        handle.empty();
    }

    /// The loan of `region`, which the client holds by `handle`.
    ///
    /// # Errors
    /// [`Error::MissingRight`] to lend, or to read, without which there is nothing to lend; [`Error::NoHandleSlot`] if the
    /// server has no place for it; [`Error::AlreadyLent`].
    pub(crate) fn loan(
        &self,
        handle: &Handle,
        region: RegionId,
        mask: u16,
        server: Option<ThreadId>,
    ) -> Result<Option<Loan>, Error> {
        let access = u32::from(handle.rights() & mask);
        if u32::from(handle.rights()) & rights::LEND == 0 || access & rights::READ == 0 {
            return Err(Error::MissingRight);
        }
        let Some(server) = server else { return Ok(None) };
        let place = self.find_slot(server, Object::Region(region), rights::LENT).ok_or(Error::NoHandleSlot)?;
        if self.regions[region].lent_to().is_some() {
            return Err(Error::AlreadyLent);
        }
        let writable = access & u32::from(self.handles[server][place].rights()) & rights::WRITE != 0;
        Ok(LoanId::of(region).map(|region| Loan { region, place, writable }))
    }
}

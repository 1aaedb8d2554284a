//! Regions lent for the duration of a call.
//!
//! A client that calls a server may lend it a region. From the moment the request is received until the call ends, for
//! any reason, the region is mapped at the server's *place* for it. A place has a fixed address and tables of its own,
//! which boot has built; so a loan begins and ends in constant time, however many pages it has, and cannot fail halfway.
//!
//! | the call ends because          | at the place is then |
//! |--------------------------------|----------------------|
//! | the server replies             | nothing: a server that still uses it is mistaken, and faults |
//! | the client times out or ends   | scratch memory of the server's own, until it is lent something again |
//! | the server ends                | nothing, as everywhere in its address space |
//!
//! # Invariants
//!
//! 1. A region is lent to one task at a time, and at a place exactly while a reply slot of that task records the loan.
//! 2. A reply slot records a loan only while its client waits for that reply.
//! 3. The rights of a server to a loan are those of the client, as far as the client lets it have them and the server's
//!    place allows.
//! 4. A call that lends takes the slow path, and then so does its reply: the fast paths know nothing of loans.
//!
//! # Why scratch memory, and not a fault
//!
//! A server cannot know when a client's deadline passes, or when the client is stopped. If it faulted then, any client
//! could kill any server to which it may lend. So the server goes on, on memory that reaches no other task, and learns
//! from its reply (`BadToken`) that the work was for nothing.
//!
//! # Why the client does not wait until the server has answered
//!
//! A server could then keep its client beyond the deadline, and a client of a server that never answers could not be
//! stopped.
//!
//! Not here: handles in messages (`grants`), and how a place is built (`kernel/aarch64`).

use fusee_abi::call::{GIVEN, LENT, WRITABLE};
use fusee_abi::trace::Event;

use crate::id::{LoanId, RegionId, ThreadId};
use crate::machine::Place;
use crate::object::State;
use crate::{Kernel, Machine};

/// A loan that can be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loan {
    pub(crate) region: LoanId,
    /// Slot of the server's handle to its place.
    pub(crate) place: usize,
    pub(crate) writable: bool,
}

impl Kernel {
    /// Begins `loan` with the request of `client` that was just received. Returns the word that tells the server of it.
    pub(crate) fn begin_loan<M: Machine>(&mut self, machine: &mut M, client: ThreadId, loan: Loan) -> u64 {
        let State::AwaitingReply { server, slot } = self.threads[client].state() else {
            impossible!("a client that lends awaits a reply");
            return 0;
        };
        let Loan { region, place, writable } = loan;
        self.threads[server].lend(usize::from(slot), region);
        let region = region.region();
        debug_assert!(self.regions[region].lent_to().is_none(), "a region is lent once at a time");
        self.regions[region].lend(server);
        self.set_place(machine, server, region, Place::Lent { writable });
        machine.registers(client).general[GIVEN] = 0;
        machine.registers(server).general[GIVEN] = self.handles[server][place].value().0;
        LENT | if writable { WRITABLE } else { 0 }
    }

    /// Ends the loan of a reply slot, if it has one; `after` replaces the region at the server's place.
    pub(crate) fn end_loan<M: Machine>(&mut self, machine: &mut M, server: ThreadId, slot: usize, after: Place) {
        let Some(region) = self.threads[server].end_loan(slot) else { return };
        let region = region.region();
        self.regions[region].end_loan();
        self.set_place(machine, server, region, after);
    }

    #[inline(never)]
    fn set_place<M: Machine>(&self, machine: &mut M, server: ThreadId, region: RegionId, place: Place) {
        machine.set_place(server, region, place);
        let event = if let Place::Lent { .. } = place { Event::Lend } else { Event::TakeBack };
        self.trace(machine, event, Some(server), u32::from(region.number()), 0);
    }
}

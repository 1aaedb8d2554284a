//! Synchronous calls: a request, a donation, a reply.
//!
//! This is the slow path, which can do everything; the fast paths are in `fast_calls`.

pub(crate) mod endpoint;
mod events;
pub(crate) mod fast_calls;
pub(crate) mod interrupt;
pub(crate) mod loans;
mod served;
pub(crate) mod stores;

use fusee_abi::Error;
use fusee_abi::call::{CARRIES, DEADLINE, FIRST_WORD, GO_ON, HandleValue, STORED, TOKEN, rights};
use fusee_abi::trace::Event;
use fusee_locking::propagation;
use fusee_sched::time::Instant;

use crate::handles::grants::{Attachment, Gift};
use crate::id::{EndpointId, ThreadId};
use crate::limits::{HANDLES, REPLY_SLOTS};
use crate::machine::Place;
use crate::object::{Object, State};
use crate::{Kernel, Machine};

/// The token of a reply slot: slot + 1 in the low byte, the slot's generation above.
#[inline(always)]
pub(crate) fn token(slot: usize, generation: u32) -> u64 {
    (slot as u64 + 1) | (u64::from(generation) << 8)
}

impl Kernel {
    /// `call`, and `send` if `sends`.
    pub(crate) fn call<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, sends: bool) -> Result<(), Error> {
        self.may_wait_here(machine, thread)?;
        let registers = machine.registers(thread);
        let (handle, deadline) = (registers.general[0], registers.general[DEADLINE]);
        let (object, badge) = self.resolve(thread, handle, if sends { rights::SEND } else { rights::CALL })?;
        let Object::Endpoint(endpoint) = object else { return Err(Error::WrongKind) };
        self.greet(machine, thread, handle, endpoint)?;
        self.request(machine, thread, endpoint, badge, sends, deadline)
    }

    /// Makes a request of `thread` to the server of `endpoint`. The thread waits for the server unless it `sends`.
    pub(crate) fn request<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        endpoint: EndpointId,
        badge: u32,
        sends: bool,
        deadline: u64,
    ) -> Result<(), Error> {
        let server = self.endpoints[endpoint].server().ok_or(Error::PeerDied)?;
        if self.threads[server].state() == State::Stopped {
            return Err(Error::PeerDied);
        }
        // Until its first receive a passive server has a reservation that is taken back then.
        let own = self.threads[server].own();
        if sends && own.is_none_or(|own| self.reservations[own].is_only_for_start()) {
            return Err(Error::NeedsCall);
        }
        if server == thread {
            return Err(Error::WouldDeadlock);
        }
        if !sends {
            self.may_wait_for(thread, server)?;
        }
        // The handle or region of a request that is not taken at once is checked again when it is taken.
        let is_taken = self.threads[server].state() == State::Receiving(endpoint);
        let attachment = self.attachment(machine, thread, is_taken.then_some(server))?;
        self.threads[thread].ask(badge, sends);
        self.trace(machine, Event::Call, Some(thread), u32::from(endpoint.number()), u32::from(sends));
        if is_taken {
            self.resume(server);
            self.deliver(machine, server, thread, attachment);
            if !sends {
                self.plan_timeout(thread, Instant(deadline));
            }
            return Ok(());
        }
        if !self.endpoints[endpoint].queue(thread) {
            return Err(Error::BadArgument);
        }
        self.block(thread, State::Calling(endpoint), if sends { None } else { Some(server) });
        self.plan_timeout(thread, Instant(deadline));
        self.trace(machine, Event::Block, Some(thread), u32::from(endpoint.number()), 0);
        Ok(())
    }

    /// Gives the request of `client` to `server`, which is ready and has a free reply slot.
    fn deliver<M: Machine>(
        &mut self,
        machine: &mut M,
        server: ThreadId,
        client: ThreadId,
        attachment: Option<Attachment>,
    ) {
        let store = self.threads[client].store();
        let mut reply = 0;
        if self.threads[client].sends() {
            machine.registers(client).general[0] = 0;
            if self.threads[client].state() != State::Ready {
                self.resume(client);
            }
        } else {
            let Some((slot, generation)) = self.threads[server].take_slot(client) else {
                impossible!("a server that takes a request has a free reply slot");
                return;
            };
            reply = token(slot, generation);
            let is_new = self.threads[client].waits().waits_for().is_none();
            let state = State::AwaitingReply { server, slot: slot as u8 };
            self.block(client, state, is_new.then_some(server));
            // A fast reply looks at the first slot only, ends no loan, and answers no store.
            let is_plain = slot == 0 && store.is_none() && !matches!(attachment, Some(Attachment::Loan(_)));
            propagation::serve(self, server, client, is_plain);
        }
        self.hand_request(machine, server, client, attachment, reply);
    }

    /// Gives the request of `client` to `server`, which owes it the reply with token `reply`; zero: none.
    #[inline(never)]
    fn hand_request<M: Machine>(
        &mut self,
        machine: &mut M,
        server: ThreadId,
        client: ThreadId,
        attachment: Option<Attachment>,
        reply: u64,
    ) {
        let (badge, store) = (self.threads[client].badge(), self.threads[client].store());
        match store {
            Some(value) => machine.registers(server).general[FIRST_WORD] = u64::from(value),
            None => machine.copy_message(client, server),
        }
        let carries = match attachment {
            None if store.is_some() => STORED,
            None => 0,
            Some(Attachment::Gift(gift)) => self.give(machine, client, server, gift),
            Some(Attachment::Loan(loan)) => self.begin_loan(machine, client, loan),
        };
        let registers = machine.registers(server);
        registers.general[0] = 0;
        registers.general[1] = u64::from(badge) | carries;
        registers.general[TOKEN] = reply;
    }

    /// `reply_receive`, and `receive` with no token.
    pub(crate) fn reply_receive<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        replies: bool,
    ) -> Result<(), Error> {
        self.may_wait_here(machine, thread)?;
        let registers = machine.registers(thread);
        let handle = registers.general[0];
        let deadline = registers.general[DEADLINE];
        let reply = if replies { registers.general[TOKEN] } else { 0 };
        let (object, _) = self.resolve(thread, handle, rights::RECEIVE)?;
        let Object::Endpoint(endpoint) = object else { return Err(Error::WrongKind) };
        if self.endpoints[endpoint].server() != Some(thread) {
            return Err(Error::MissingRight);
        }
        self.is_up(machine, thread);
        if reply != 0 {
            let slot = self.reply_slot(thread, reply & !CARRIES)?;
            let gift = if reply & CARRIES == 0 { None } else { self.gift_of_reply(machine, thread, slot)? };
            self.reply(machine, thread, slot, gift);
        }
        // A server that receives always has a slot for the reply it will owe.
        if self.threads[thread].first_free_slot().is_none() {
            return Err(Error::NoReplySlot);
        }
        self.end_start(thread);
        if let Some(first) = self.first_caller(endpoint) {
            let client = self.endpoints[endpoint].take(first);
            match self.attachment(machine, client, Some(thread)) {
                Ok(attachment) => self.deliver(machine, thread, client, attachment),
                // The client gets the error. The server looks for the next one in a trap of its own.
                Err(error) => {
                    self.wake(machine, client, Err(error));
                    let registers = machine.registers(thread);
                    registers.general[TOKEN] = 0;
                    registers.program_counter = registers.program_counter.wrapping_sub(4);
                }
            }
            return Ok(());
        }
        self.block(thread, State::Receiving(endpoint), None);
        self.plan_timeout(thread, Instant(deadline));
        Ok(())
    }

    /// A passive server reached its first receive: the reservation on which it started is taken back.
    pub(crate) fn end_start(&mut self, thread: ThreadId) {
        if let Some(own) = self.threads[thread].own()
            && self.reservations[own].is_only_for_start()
        {
            self.threads[thread].give_up_own();
            self.reservations[own].give_up();
            self.unsettle(thread);
        }
    }

    /// The endpoint that `value` names, the handle's badge, and which life of the server its holder knows of, if `thread` has this right to it.
    #[inline(always)]
    pub(crate) fn endpoint_of(&self, thread: ThreadId, value: u64, right: u32) -> Option<(EndpointId, u32, u32)> {
        let value = HandleValue(value);
        let handle = &self.handles[thread][usize::from(value.slot()) % HANDLES];
        let Object::Endpoint(endpoint) = *handle.object() else { return None };
        (value == handle.value() && u32::from(handle.rights()) & right != 0).then_some((
            endpoint,
            handle.badge(),
            handle.epoch() as u32,
        ))
    }

    /// The slot that `token` names, if a client still waits there.
    fn reply_slot(&self, server: ThreadId, token: u64) -> Result<usize, Error> {
        let index = ((token & 0xff) as usize).wrapping_sub(1);
        if index >= REPLY_SLOTS {
            return Err(Error::BadToken);
        }
        let slot = &self.threads[server].slots()[index];
        if slot.client().is_none() || u64::from(slot.generation()) != token >> 8 {
            return Err(Error::BadToken);
        }
        Ok(index)
    }

    /// Answers the client in `slot`, on the slow path.
    fn reply<M: Machine>(&mut self, machine: &mut M, server: ThreadId, slot: usize, gift: Option<Gift>) {
        if let Some(client) = self.answer(machine, server, slot, gift) {
            self.wake(machine, client, Ok(()));
        }
    }

    /// Gives the client in `slot` its answer, and empties the slot. Returns the client, which is suspended yet.
    #[inline(never)]
    fn answer<M: Machine>(
        &mut self,
        machine: &mut M,
        server: ThreadId,
        slot: usize,
        gift: Option<Gift>,
    ) -> Option<ThreadId> {
        let Some(client) = self.free_slot(machine, server, slot, Place::Empty) else {
            impossible!("the reply token named a taken slot");
            return None;
        };
        let general = &machine.registers(server).general;
        let (value, verdict) = (general[1], general[FIRST_WORD]);
        if self.threads[client].store().is_some() {
            let registers = machine.registers(client);
            registers.program_counter = registers.program_counter.wrapping_add(if verdict == GO_ON { 4 } else { 0 });
        } else {
            machine.copy_message(server, client);
            if let Some(gift) = gift {
                self.give(machine, server, client, gift);
            }
            machine.registers(client).general[1] = value;
        }
        self.trace(machine, Event::Reply, Some(client), u32::from(server.number()), 0);
        Some(client)
    }

    /// Empties a reply slot; its token is void from here on. If a region was lent with the request, `after` replaces it at
    /// the server's place.
    #[inline(never)]
    pub(crate) fn free_slot<M: Machine>(
        &mut self,
        machine: &mut M,
        server: ThreadId,
        slot: usize,
        after: Place,
    ) -> Option<ThreadId> {
        self.end_loan(machine, server, slot, after);
        self.threads[server].empty_slot(slot)
    }

    /// The place of the caller with the earliest key; of equal ones that of the first to come.
    #[inline(never)]
    fn first_caller(&self, endpoint: EndpointId) -> Option<usize> {
        let callers = self.endpoints[endpoint].callers();
        Some(callers.iter().enumerate().min_by_key(|(_, thread)| self.waiting_key(**thread))?.0)
    }
}

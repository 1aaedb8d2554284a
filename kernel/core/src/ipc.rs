//! Synchronous calls: a request, a donation, a reply.
//!
//! An uncontended call moves six words and a runner: the client's reservation stays where it is linked, the
//! server runs on it. No queue, no clock. Everything else (a busy server, a deadline, a server with a more
//! urgent reservation of its own) takes the long way round through [`Kernel::settle`].

use fusee_abi::Error;
use fusee_abi::call::{DEADLINE, NEVER, TOKEN, rights};
use fusee_abi::trace::Event;
use fusee_sched::cpu::CpuId;
use fusee_sched::time::Instant;

use crate::id::{EndpointId, ThreadId};
use crate::limits::REPLY_SLOTS;
use crate::object::{Object, State};
use crate::{Kernel, Machine};

/// A reply token: slot + 1 in the low byte, the slot's generation above.
fn token(slot: usize, generation: u32) -> u64 {
    slot as u64 + 1 | u64::from(generation) << 8
}

impl Kernel {
    /// `call`, and `send` if `sends`.
    pub(crate) fn call<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
        sends: bool,
    ) -> Result<(), Error> {
        let registers = machine.registers(thread);
        let (handle, deadline) = (registers.general[0], registers.general[DEADLINE]);
        let (object, badge) = self.resolve(thread, handle, if sends { rights::SEND } else { rights::CALL })?;
        let Object::Endpoint(endpoint) = object else { return Err(Error::WrongKind) };
        let server = self.endpoints[endpoint].server.ok_or(Error::PeerDied)?;
        if self.threads[server].state == State::Stopped {
            return Err(Error::PeerDied);
        }
        if sends && self.threads[server].home.is_none() {
            return Err(Error::NeedsCall);
        }
        if server == thread {
            return Err(Error::WouldDeadlock);
        }
        if !sends && deadline == NEVER && self.call_directly(machine, cpu, thread, server, endpoint, badge) {
            return Ok(());
        }
        if !sends {
            self.may_wait_for(thread, server)?;
        }
        self.threads[thread].badge = badge;
        self.threads[thread].sends = sends;
        self.trace(machine, Event::Call, Some(thread), u32::from(endpoint.number()), 0);
        if self.threads[server].state == State::Receiving(endpoint) {
            self.cancel_timeout(server);
            self.threads[server].state = State::Ready;
            self.deliver(machine, server, thread);
            if !sends {
                self.plan_timeout(thread, Instant(deadline));
                self.cpus[cpu.index()].stale = true;
                self.settle(thread);
            }
            self.settle(server);
            return Ok(());
        }
        if self.endpoints[endpoint].callers.push(thread).is_err() {
            return Err(Error::BadArgument);
        }
        self.threads[thread].state = State::Calling(endpoint);
        if !sends {
            self.add_donor(server, thread);
        }
        self.plan_timeout(thread, Instant(deadline));
        self.trace(machine, Event::Block, Some(thread), u32::from(endpoint.number()), 0);
        self.cpus[cpu.index()].stale = true;
        self.settle(thread);
        Ok(())
    }

    /// The short way: the server is idle and nobody else's key or budget is concerned.
    #[inline]
    fn call_directly<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
        server: ThreadId,
        endpoint: EndpointId,
        badge: u32,
    ) -> bool {
        let client = &self.threads[thread];
        let Some(reservation) = client.chosen else { return false };
        let object = &self.threads[server];
        let slot = &object.slots[0];
        if object.state != State::Receiving(endpoint)
            || object.timed
            || object.first_donor.is_some()
            || client.first_donor.is_some()
            || slot.client.is_some()
            || self.cpus[cpu.index()].stale
        {
            return false;
        }
        if let Some(own) = object.home
            && (self.reservations[own].cluster != self.reservations[reservation].cluster
                || self.reservations[own].key < self.reservations[reservation].key)
        {
            return false;
        }
        let generation = slot.generation;
        if M::TRACE {
            self.trace(machine, Event::Call, Some(thread), u32::from(endpoint.number()), 0);
        }
        let object = &mut self.threads[server];
        object.state = State::Ready;
        object.chosen = Some(reservation);
        object.first_donor = Some(thread);
        object.slots[0].client = Some(thread);
        object.on = Some(cpu);
        object.last = Some(cpu);
        let client = &mut self.threads[thread];
        client.state = State::AwaitingReply { server, slot: 0 };
        client.donates_to = Some(server);
        client.on = None;
        self.reservations[reservation].runner = Some(server);
        self.cpus[cpu.index()].current = Some(server);
        machine.copy_message(thread, server);
        let registers = machine.registers(server);
        registers.general[0] = 0;
        registers.general[1] = u64::from(badge);
        registers.general[TOKEN] = token(0, generation);
        true
    }

    /// Gives the request of `client` to `server`, which is ready and has a free reply slot. Both must be
    /// settled afterwards.
    fn deliver<M: Machine>(&mut self, machine: &mut M, server: ThreadId, client: ThreadId) {
        let badge = self.threads[client].badge;
        let mut reply = 0;
        if self.threads[client].sends {
            machine.registers(client).general[0] = 0;
            if self.threads[client].state != State::Ready {
                self.cancel_timeout(client);
                self.threads[client].state = State::Ready;
                self.settle(client);
            }
        } else {
            let slots = &mut self.threads[server].slots;
            let Some(slot) = slots.iter().position(|slot| slot.client.is_none()) else { return };
            slots[slot].client = Some(client);
            reply = token(slot, slots[slot].generation);
            if self.threads[client].donates_to.is_none() {
                self.add_donor(server, client);
            }
            self.threads[client].state = State::AwaitingReply { server, slot: slot as u8 };
        }
        machine.copy_message(client, server);
        let registers = machine.registers(server);
        registers.general[0] = 0;
        registers.general[1] = u64::from(badge);
        registers.general[TOKEN] = reply;
    }

    /// `reply_receive`, and `receive` with no token.
    pub(crate) fn reply_receive<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
        replies: bool,
    ) -> Result<(), Error> {
        let registers = machine.registers(thread);
        let handle = registers.general[0];
        let deadline = registers.general[DEADLINE];
        let reply = if replies { registers.general[TOKEN] } else { 0 };
        let (object, _) = self.resolve(thread, handle, rights::RECEIVE)?;
        let Object::Endpoint(endpoint) = object else { return Err(Error::WrongKind) };
        if self.endpoints[endpoint].server != Some(thread) {
            return Err(Error::MissingRight);
        }
        if reply != 0 {
            let slot = self.reply_slot(thread, reply)?;
            if slot == 0 && deadline == NEVER && self.reply_directly(machine, cpu, thread, endpoint) {
                return Ok(());
            }
            self.reply(machine, thread, slot);
        }
        // A server that receives always has a slot for the reply it will owe.
        if self.threads[thread].slots.iter().all(|slot| slot.client.is_some()) {
            return Err(Error::NoReplySlot);
        }
        self.end_start(thread);
        if let Some(client) = self.take_caller(endpoint) {
            self.deliver(machine, thread, client);
            self.cpus[cpu.index()].stale = true;
            self.settle(thread);
            return Ok(());
        }
        self.threads[thread].state = State::Receiving(endpoint);
        self.plan_timeout(thread, Instant(deadline));
        self.cpus[cpu.index()].stale = true;
        self.settle(thread);
        Ok(())
    }

    /// A passive server reached its first receive: what it started on is taken back.
    fn end_start(&mut self, thread: ThreadId) {
        if let Some(home) = self.threads[thread].home
            && self.reservations[home].only_for_start
        {
            self.threads[thread].home = None;
            self.reservations[home].home = None;
        }
    }

    /// The slot that `token` names, if a client still waits there.
    fn reply_slot(&self, server: ThreadId, token: u64) -> Result<usize, Error> {
        let index = ((token & 0xff) as usize).wrapping_sub(1);
        if index >= REPLY_SLOTS {
            return Err(Error::BadToken);
        }
        let slot = &self.threads[server].slots[index];
        if slot.client.is_none() || u64::from(slot.generation) != token >> 8 {
            return Err(Error::BadToken);
        }
        Ok(index)
    }

    /// The short way back: the server's only donor gets its own reservation back, and nobody else calls.
    #[inline]
    fn reply_directly<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
        endpoint: EndpointId,
    ) -> bool {
        let server = &self.threads[thread];
        let (Some(client), Some(reservation)) = (server.slots[0].client, server.chosen) else { return false };
        let other = &self.threads[client];
        if server.first_donor != Some(client)
            || other.next_donor.is_some()
            || other.timed
            || other.chosen != Some(reservation)
            || other.first_donor.is_some()
            || !self.endpoints[endpoint].callers.is_empty()
            || self.cpus[cpu.index()].stale
        {
            return false;
        }
        let server = &mut self.threads[thread];
        server.state = State::Receiving(endpoint);
        server.chosen = None;
        server.first_donor = None;
        server.slots[0].client = None;
        server.slots[0].generation = server.slots[0].generation.wrapping_add(1);
        server.on = None;
        let other = &mut self.threads[client];
        other.state = State::Ready;
        other.donates_to = None;
        other.on = Some(cpu);
        other.last = Some(cpu);
        self.reservations[reservation].runner = Some(client);
        self.cpus[cpu.index()].current = Some(client);
        machine.copy_message(thread, client);
        let value = machine.registers(thread).general[1];
        let registers = machine.registers(client);
        registers.general[0] = 0;
        registers.general[1] = value;
        if M::TRACE {
            self.trace(machine, Event::Reply, Some(client), u32::from(thread.number()), 0);
        }
        true
    }

    /// Answers the client in `slot`, the long way. The server is settled as well.
    fn reply<M: Machine>(&mut self, machine: &mut M, server: ThreadId, slot: usize) {
        let Some(client) = self.free_slot(server, slot) else { return };
        machine.copy_message(server, client);
        let value = machine.registers(server).general[1];
        machine.registers(client).general[1] = value;
        self.trace(machine, Event::Reply, Some(client), u32::from(server.number()), 0);
        self.wake(machine, client, Ok(()));
    }

    /// Empties a reply slot; its token is void from here on.
    pub(crate) fn free_slot(&mut self, server: ThreadId, slot: usize) -> Option<ThreadId> {
        let slot = &mut self.threads[server].slots[slot];
        slot.generation = slot.generation.wrapping_add(1);
        slot.client.take()
    }

    /// Takes the caller with the earliest key; of equal ones the first to come.
    fn take_caller(&mut self, endpoint: EndpointId) -> Option<ThreadId> {
        let callers = &self.endpoints[endpoint].callers;
        let first = callers.iter().enumerate().min_by_key(|(_, thread)| self.waiting_key(**thread))?.0;
        Some(self.endpoints[endpoint].callers.remove(first))
    }
}

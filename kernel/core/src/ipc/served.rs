//! Fast paths of calls and replies that concern a third thread, and of replies that end a loan.
//!
//! As those of `only_donor`: each has exactly the effects of the slow path, or declines and has changed nothing. One reservation passes between the
//! client to which it belongs and the server, and stays linked; CPU and timer stay as they are.
//!
//! | Path | The third |
//! |---|---|
//! | a call to a server that is ready, and serves another | the client that was served: its reservation waits from here on |
//! | a reply to a client that lends its reservation to the server | other clients, which wait on; or the end of a loan |
//! | a reply to a client that comes later than the caller that is received next | that caller, on whose reservation the server goes on |
//!
//! All others are declined: deadlines, handles in messages, stores, boosts, and reservations that would rest.

use fusee_abi::call::{Call, DEADLINE, NEVER, NUMBER, TOKEN, rights};
use fusee_abi::trace::Event;
use fusee_locking::propagation::{self, Graph};
use fusee_sched::cpu::CpuId;

use crate::id::{EndpointId, ThreadId};
use crate::ipc::token;
use crate::limits::RESTARTS;
use crate::object::State;
use crate::{Kernel, Machine};

impl Kernel {
    /// `reply_receive` of `thread`, the one on `cpu`.
    #[inline(never)]
    pub(crate) fn fast_answer_call<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
    ) -> Option<ThreadId> {
        let general = &machine.registers(thread).general;
        let (handle, reply) = (general[0], general[TOKEN]);
        let (endpoint, ..) = self.endpoint_of(thread, handle, rights::RECEIVE)?;
        let server = &self.threads[thread];
        if general[DEADLINE] != NEVER
            || self.is_keyed(thread)
            || self.endpoints[endpoint].server() != Some(thread)
            || server.is_holding()
            || server.waits().is_urgent()
        {
            return None;
        }
        let slot = self.reply_slot(thread, reply).ok()?;
        let client = self.threads[thread].slots()[slot].client()?;
        if !self.may_go_on(client) || self.threads[client].store().is_some() {
            return None;
        }
        if self.endpoints[endpoint].callers().is_empty() {
            self.fast_last(machine, cpu, thread, slot, client, endpoint)
        } else {
            self.fast_next(machine, cpu, thread, slot, client, endpoint)
        }
    }

    /// `call` without a deadline of `thread`, the one that runs, to a server that serves another.
    #[inline(never)]
    pub(crate) fn fast_queue<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Option<ThreadId> {
        let handle = machine.registers(thread).general[0];
        let (endpoint, badge, known) = self.endpoint_of(thread, handle, rights::CALL)?;
        let server = self.endpoints[endpoint].server()?;
        let is_other_life = RESTARTS && self.threads[server].life() != known;
        if is_other_life || self.is_keyed(server) || self.threads[thread].is_holding() {
            return None;
        }
        let span = self.offer(machine, thread, server)?;
        if !self.endpoints[endpoint].queue(thread) {
            return None;
        }
        self.threads[thread].ask(badge, false);
        self.trace(machine, Event::Call, Some(thread), u32::from(endpoint.number()), 0);
        self.suspend(thread, State::Calling(endpoint));
        self.trace(machine, Event::Block, Some(thread), u32::from(endpoint.number()), 0);
        Some(self.lend_on(machine, thread, server, span))
    }

    /// The server `thread`, which runs on the reservation of `client`, answers that, and no caller waits.
    #[inline(always)]
    fn fast_last<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
        slot: usize,
        client: ThreadId,
        endpoint: EndpointId,
    ) -> Option<ThreadId> {
        let span = self.lent(machine, cpu, client, thread, None)?;
        self.answer(machine, thread, slot, None);
        self.suspend(thread, State::Receiving(endpoint));
        self.go_on_with(machine, client);
        propagation::stop_lending(self, client, None);
        Some(self.pass(machine, cpu, thread, client, span))
    }

    /// The server `thread` answers `client`, which has a later key than the caller at place `first` of the endpoint. It serves this
    /// caller, on whose reservation it runs already.
    #[inline(always)]
    fn fast_next<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
        slot: usize,
        client: ThreadId,
        endpoint: EndpointId,
    ) -> Option<ThreadId> {
        let first = self.first_caller(endpoint)?;
        let next = *self.endpoints[endpoint].callers().get(first)?;
        let own = Graph::own(self, client)?;
        if self.threads[next].sends()
            || self.threads[next].store().is_some()
            || !self.threads[next].waits().is_alone()
            || machine.registers(next).general[NUMBER] != Call::Call as u64
        {
            return None;
        }
        let span = self.lent(machine, cpu, next, thread, Some(own))?;
        self.answer(machine, thread, slot, None);
        self.go_on_with(machine, client);
        propagation::stop_lending(self, client, self.threads[thread].chosen());
        self.compete_behind(client, own);
        self.endpoints[endpoint].take(first);
        let (slot, generation) = self.threads[thread].take_slot(next)?;
        self.suspend(next, State::AwaitingReply { server: thread, slot: slot as u8 });
        propagation::serve(self, thread, next, slot == 0);
        self.hand_request(machine, thread, next, None, token(slot, generation));
        self.book_loan(cpu, thread, span);
        Some(thread)
    }
}

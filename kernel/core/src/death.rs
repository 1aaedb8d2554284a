//! The end of a thread: it leaves every queue, everyone who waited for it hears of it, and what it held is
//! released in order.

use fusee_abi::Error;
use fusee_abi::trace::{ENGINE_TIME_SHIFT, Event, Ledger, Record};
use fusee_sched::cpu::CpuId;
use fusee_sched::time::Instant;

use crate::id::{ClusterId, EndpointId, EngineId, EngineUserId, NotificationId, ReservationId, ThreadId};
use crate::limits::{ENDPOINTS, NOTIFICATIONS, REPLY_SLOTS, THREADS};
use crate::object::{Release, State};
use crate::{Fault, Kernel, Machine};

const _: () = assert!(THREADS <= 1 << ENGINE_TIME_SHIFT && crate::limits::ENGINES << ENGINE_TIME_SHIFT <= 1 << 16);

impl Kernel {
    /// A thread did what it may not: its registers are traced, and it alone stops.
    pub(crate) fn fault<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId, fault: Fault) {
        self.threads[thread].statistics.faults += 1;
        let what = (fault.kind as u64) | u64::from(self.threads[thread].job.number) << 32;
        self.trace_number(machine, Event::Fault, Some(thread), fault.syndrome as u32, what);
        if M::TRACE {
            let registers = *machine.registers(thread);
            let rest = [registers.stack, registers.program_counter, registers.state, fault.address.unwrap_or(u64::MAX)];
            for (number, value) in registers.general.iter().chain(rest.iter()).enumerate() {
                self.trace_number(machine, Event::FaultRegister, Some(thread), number as u32, *value);
            }
        }
        self.stop(machine, cpu, thread);
    }

    /// `exit` of one task.
    pub(crate) fn exit<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId, code: u64) {
        self.trace(machine, Event::Exit, Some(thread), 0, code as u32);
        self.stop(machine, cpu, thread);
    }

    /// Ends `thread`, which runs on `cpu`.
    fn stop<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId) {
        self.cpus[cpu.index()].stale = true;
        self.cancel_timeout(thread);
        self.withdraw(thread);
        self.threads[thread].state = State::Stopped;
        self.drop_handles(thread);
        if let Some(target) = self.remove_donor(thread) {
            self.settle(target);
        }
        // Clients whose reply it owes, then those that still queue.
        for slot in 0..REPLY_SLOTS {
            if let Some(client) = self.free_slot(thread, slot) {
                self.wake(machine, client, Err(Error::PeerDied));
            }
        }
        for endpoint in (0..ENDPOINTS).filter_map(EndpointId::new) {
            if self.endpoints[endpoint].server != Some(thread) {
                continue;
            }
            for _ in 0..THREADS {
                let Some(client) = self.endpoints[endpoint].callers.pop() else { break };
                self.wake(machine, client, Err(Error::PeerDied));
            }
        }
        // Those that wait for an event it would have signalled.
        for notification in (0..NOTIFICATIONS).filter_map(NotificationId::new) {
            if self.notifications[notification].bound == Some(thread)
                && let Some(waiter) = self.notifications[notification].waiter.take()
            {
                self.wake(machine, waiter, Err(Error::PeerDied));
            }
        }
        // Engines it held or waited for.
        for user in (0..self.counts.engine_users).filter_map(EngineUserId::new) {
            if self.engine_users[user].thread == Some(thread)
                && let Some(engine) = self.engine_users[user].engine
            {
                let _ = self.give_back(machine, engine, user);
            }
        }
        // Draining engines keep their waiters, who no longer have anybody to donate to.
        for engine in (0..self.counts.engines).filter_map(EngineId::new) {
            if self.engines[engine].driver == Some(thread) {
                self.engines[engine].driver = None;
            }
        }
        for _ in 0..THREADS {
            let Some(donor) = self.threads[thread].first_donor else { break };
            self.remove_donor(donor);
        }
        if let Some(reservation) = self.threads[thread].home {
            let object = &mut self.reservations[reservation];
            object.next_release = Instant::NEVER;
            object.replenish_at = Instant::NEVER;
            object.release = Release::None;
            self.plan_event(reservation);
        }
        self.settle(thread);
    }

    /// Ends the system: books all time up to now, traces the ledgers, and shuts the machine down.
    pub(crate) fn shut_down<M: Machine>(&mut self, machine: &mut M, code: u64) {
        let now = machine.now();
        for cpu in 0..self.counts.cpus {
            if self.cpus[cpu].entered {
                self.charge(machine, CpuId(cpu as u8), now);
            }
        }
        self.trace_ledgers(machine);
        self.trace_number(machine, Event::Shutdown, None, 0, code & 0xffff_ffff);
        machine.shutdown(code as u32);
    }

    fn trace_ledgers<M: Machine>(&self, machine: &mut M) {
        let mut line = |ledger: Ledger, index: u32, amount: u64| {
            self.trace_number(machine, Event::Ledger, None, (ledger as u32) << 16 | index, amount);
        };
        for cpu in 0..self.counts.cpus {
            let state = &self.cpus[cpu];
            let index = cpu as u32;
            line(Ledger::Uptime, index, if state.entered { state.mark.since(state.since).0 } else { 0 });
            line(Ledger::CpuCharged, index, state.charged.0);
            line(Ledger::Kernel, index, state.kernel.0);
            line(Ledger::IdleTime, index, state.idle.0);
        }
        for thread in (0..self.counts.threads).filter_map(ThreadId::new) {
            let statistics = &self.threads[thread].statistics;
            let index = thread.index() as u32;
            line(Ledger::Jobs, index, u64::from(statistics.jobs));
            line(Ledger::Misses, index, u64::from(statistics.misses));
            line(Ledger::MaxLateness, index, statistics.max_lateness as u64);
            line(Ledger::Skipped, index, u64::from(statistics.skipped));
            line(Ledger::ThreadTime, index, statistics.time.0);
            line(Ledger::Faults, index, u64::from(statistics.faults));
        }
        for reservation in (0..self.counts.reservations).filter_map(ReservationId::new) {
            let object = &self.reservations[reservation];
            let index = reservation.index() as u32;
            line(Ledger::Charged, index, object.charged.0);
            line(Ledger::Throttles, index, u64::from(object.throttles));
            line(Ledger::Overshoot, index, object.overshoot.0);
        }
        for user in (0..self.counts.engine_users).filter_map(EngineUserId::new) {
            let object = &self.engine_users[user];
            if let (Some(engine), Some(thread)) = (object.engine, object.thread) {
                let index = ((engine.index() << ENGINE_TIME_SHIFT) | thread.index()) as u32;
                line(Ledger::EngineTime, index, object.time.0);
            }
        }
    }

    /// Traces a 64-bit number: what a run is judged by, so in every build.
    pub(crate) fn trace_number<M: Machine>(
        &self,
        machine: &mut M,
        event: Event,
        thread: Option<ThreadId>,
        object: u32,
        number: u64,
    ) {
        let time = machine.now().0;
        let thread = thread.map_or(0, ThreadId::number);
        let (job, value) = ((number >> 32) as u32, number as u32);
        machine.trace(Record { time, event: event as u8, cpu: self.here.0, thread, job, object, value });
    }

    /// The clusters in use; for checks.
    pub(crate) fn cluster_ids(&self) -> impl Iterator<Item = ClusterId> + use<> {
        (0..self.counts.clusters).filter_map(ClusterId::new)
    }
}

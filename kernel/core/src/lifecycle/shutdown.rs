//! The end of the system: all time is booked, and the ledgers are traced.

use fusee_abi::trace::{ENGINE_TIME_SHIFT, Event, Ledger};
use fusee_locking::engine::State as Lock;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::accelerators::gates::SHARED;
use crate::id::{EngineId, EngineUserId, ReservationId, ThreadId};
use crate::limits::{ENGINES, GATES, THREADS};
use crate::{Kernel, Machine};

const _: () = assert!(THREADS <= 1 << ENGINE_TIME_SHIFT && ENGINES << ENGINE_TIME_SHIFT <= 1 << 16);

impl Kernel {
    /// Ends the system: books all time up to now, traces the ledgers, and shuts the machine down.
    pub(crate) fn shut_down<M: Machine>(&mut self, machine: &mut M, code: u64) {
        self.book_all(machine);
        self.trace_number(machine, Event::Shutdown, None, 0, code & 0xffff_ffff);
        machine.shutdown(code as u32);
    }

    /// Books all time up to now, and traces the ledgers.
    pub(crate) fn book_all<M: Machine>(&mut self, machine: &mut M) {
        let now = machine.now();
        for cpu in self.cpus() {
            if self.cpus[cpu].has_entered() {
                self.charge(machine, cpu, now);
            }
        }
        self.trace_ledgers(machine, now);
    }

    fn trace_ledgers<M: Machine>(&self, machine: &mut M, now: Instant) {
        let mut line = |ledger: Ledger, index: u32, amount: u64| {
            self.trace_number(machine, Event::Ledger, None, (ledger as u32) << 16 | index, amount);
        };
        for cpu in self.cpus() {
            let state = &self.cpus[cpu];
            let index = u32::from(cpu.0);
            line(Ledger::Uptime, index, if state.has_entered() { state.mark().since(state.since()).0 } else { 0 });
            line(Ledger::CpuCharged, index, state.charged().0);
            line(Ledger::Kernel, index, state.kernel().0);
            line(Ledger::IdleTime, index, state.idle().0);
        }
        for thread in (0..self.counts.threads).filter_map(ThreadId::new) {
            let statistics = self.threads[thread].statistics();
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
            line(Ledger::Charged, index, object.charged().0);
            line(Ledger::Throttles, index, u64::from(object.throttles()));
            line(Ledger::Overshoot, index, object.overshoot().0);
        }
        for engine in (0..if GATES { self.counts.engines } else { 0 }).filter_map(EngineId::new) {
            if self.has_gate(engine) {
                let open = self.engines[engine].lock().state() == Lock::Held(SHARED);
                let since = if open { now.since(self.gates[engine].opened()) } else { Nanoseconds::ZERO };
                line(Ledger::SharedTime, engine.index() as u32, (self.gates[engine].time() + since).0);
            }
        }
        for user in (0..self.counts.engine_users).filter_map(EngineUserId::new) {
            let object = &self.engine_users[user];
            if let (Some(engine), Some(thread)) = (object.engine(), object.thread()) {
                let index = ((engine.index() << ENGINE_TIME_SHIFT) | thread.index()) as u32;
                line(Ledger::EngineTime, index, object.time().0);
            }
        }
    }
}

//! Records of the trace: the events of threads, with their instants and causes.
//!
//! A build keeps as many records as its level allows; numbers by which a run is judged are in every build.
//!
//! Not here: the destination of records (`Machine::trace`), and their meaning (`kernel/abi`).

use fusee_abi::trace::{BACKGROUND_KEY, BY_INTERRUPT, Event, Record, SERVICE_KEY, key_word};
use fusee_sched::cpu::CpuId;
use fusee_sched::key::Class;

use crate::id::{ReservationId, ThreadId};
use crate::{Kernel, Machine, Trap};

impl Kernel {
    /// Traces an event, if this build traces.
    #[inline(always)]
    pub(crate) fn trace<M: Machine>(
        &self,
        machine: &mut M,
        event: Event,
        thread: Option<ThreadId>,
        object: u32,
        value: u32,
    ) {
        if M::TRACE.keeps_schedule() {
            self.write_record(machine, event, thread, object, value);
        }
    }

    /// Keeps the CPU and the cause of a trap, which its records name. For kernels that trace.
    #[inline(never)]
    pub(crate) fn note(&mut self, cpu: CpuId, trap: Trap) {
        self.here = cpu;
        self.cause = match trap {
            Trap::Syscall | Trap::Fault(_) => self.cpus[cpu].current().map_or(0, |thread| u32::from(thread.number())),
            Trap::Interrupt(interrupt) => BY_INTERRUPT + u32::from(interrupt.number()),
            Trap::Timer | Trap::Kick => 0,
        };
    }

    /// Traces that `thread` runs on `reservation` from here on, with the key that competes for it.
    #[inline(always)]
    pub(crate) fn trace_run<M: Machine>(
        &self,
        machine: &mut M,
        event: Event,
        thread: ThreadId,
        reservation: ReservationId,
    ) {
        if M::TRACE.keeps_schedule() {
            let object = &self.reservations[reservation];
            let key = match object.class() {
                Class::RealTime => key_word(object.competing_key().instant().0),
                Class::Service => SERVICE_KEY,
                Class::Background => BACKGROUND_KEY,
            };
            self.write_record(machine, event, Some(thread), u32::from(reservation.number()), key);
        }
    }

    /// Writes a record. This is a call, so that a build that traces is not much larger than one that does not.
    #[inline(never)]
    fn write_record<M: Machine>(
        &self,
        machine: &mut M,
        event: Event,
        thread: Option<ThreadId>,
        object: u32,
        value: u32,
    ) {
        let time = machine.now().0;
        let job = thread.map_or(0, |thread| self.threads[thread].job().number());
        let thread = thread.map_or(0, ThreadId::number);
        let cpu = self.here.0;
        machine.trace(Record { time, number: 0, event: event as u8, cpu, thread, job, object, value });
    }

    /// Traces a 64-bit number, by which a run is judged. So every build does it.
    #[inline(never)]
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
        let cpu = self.here.0;
        machine.trace(Record { time, number: 0, event: event as u8, cpu, thread, job, object, value });
    }
}

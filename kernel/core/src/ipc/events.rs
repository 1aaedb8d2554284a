//! Notifications, interrupts and sleep.

use fusee_abi::Error;
use fusee_abi::call::{Call, DEADLINE, rights};
use fusee_abi::trace::Event;
use fusee_sched::time::Instant;

use crate::id::{InterruptId, ThreadId};
use crate::machine::late_kick;
use crate::object::{Object, State};
use crate::{Kernel, Machine};

impl Kernel {
    /// `signal`: sets bits and wakes the waiter, or kicks devices. Kicked devices look at all their work, so bits would add
    /// nothing.
    pub(crate) fn signal_call<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let registers = machine.registers(thread);
        let (handle, bits) = (registers.general[0], registers.general[1]);
        let (object, _) = self.resolve(thread, handle, rights::SIGNAL)?;
        let Object::Notification(notification) = object else { return Err(Error::WrongKind) };
        if M::KICKS && late_kick(machine, notification) {
            return Ok(());
        }
        if bits == 0 {
            return Err(Error::BadArgument);
        }
        self.signal(machine, notification, bits);
        Ok(())
    }

    /// `wait`: takes all bits, or suspends until there is one. Donates to the thread to which the notification is bound.
    pub(crate) fn wait_call<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let Object::Notification(id) = self.argument(machine, thread, rights::WAIT)? else {
            return Err(Error::WrongKind);
        };
        let deadline = machine.registers(thread).general[DEADLINE];
        self.is_up(machine, thread);
        let notification = &mut self.notifications[id];
        if notification.bits() != 0 {
            let bits = notification.take_bits();
            let registers = machine.registers(thread);
            registers.general[0] = 0;
            registers.general[1] = bits;
            return Ok(());
        }
        if notification.waiter().is_some() {
            return Err(Error::BadArgument);
        }
        let bound = notification.bound();
        if let Some(signaller) = bound {
            self.may_wait_for(thread, signaller)?;
            if self.threads[signaller].state() == State::Stopped {
                return Err(Error::PeerDied);
            }
        }
        self.notifications[id].await_bits(thread);
        self.block(thread, State::Waiting(id), bound);
        self.plan_timeout(thread, Instant(deadline));
        self.trace(machine, Event::Block, Some(thread), u32::from(id.number()), Call::Wait as u32);
        Ok(())
    }

    /// A line fired: keep it from firing again, let drained engines go on, signal. Constant time.
    pub(crate) fn interrupt<M: Machine>(&mut self, machine: &mut M, interrupt: InterruptId) {
        machine.set_interrupt_enabled(interrupt, false);
        self.trace(machine, Event::Interrupt, None, u32::from(interrupt.number()), 0);
        self.probe_engines(machine, interrupt);
        let object = self.interrupts[interrupt];
        if let Some(notification) = object.notification() {
            self.signal(machine, notification, object.bits());
        }
    }

    /// `interrupt_ack`: the line may fire again.
    pub(crate) fn interrupt_ack<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let Object::Interrupt(interrupt) = self.argument(machine, thread, rights::ACKNOWLEDGE)? else {
            return Err(Error::WrongKind);
        };
        machine.set_interrupt_enabled(interrupt, true);
        // A completion between the top half and here left no edge behind that engines could wait for.
        self.probe_engines(machine, interrupt);
        Ok(())
    }

    /// `sleep_until`.
    pub(crate) fn sleep<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        let deadline = machine.registers(thread).general[DEADLINE];
        self.block(thread, State::Sleeping, None);
        self.plan_timeout(thread, Instant(deadline));
        self.trace(machine, Event::Block, Some(thread), 0, Call::SleepUntil as u32);
    }
}

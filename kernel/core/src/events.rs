//! Notifications, interrupts, timeouts, and waking up.

use fusee_abi::Error;
use fusee_abi::call::{Call, DEADLINE, rights};
use fusee_abi::trace::Event;
use fusee_sched::cpu::CpuId;
use fusee_sched::time::Instant;

use crate::id::{InterruptId, NotificationId, ThreadId};
use crate::machine::Place;
use crate::object::{Object, State};
use crate::{Kernel, Machine, Planted};

impl Kernel {
    /// `signal`: sets bits; wakes the waiter.
    pub(crate) fn signal_call<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let registers = machine.registers(thread);
        let (handle, bits) = (registers.general[0], registers.general[1]);
        let (object, _) = self.resolve(thread, handle, rights::SIGNAL)?;
        let Object::Notification(notification) = object else { return Err(Error::WrongKind) };
        if bits == 0 {
            return Err(Error::BadArgument);
        }
        self.signal(machine, notification, bits);
        Ok(())
    }

    pub(crate) fn signal<M: Machine>(&mut self, machine: &mut M, notification: NotificationId, bits: u64) {
        let object = &mut self.notifications[notification];
        object.bits |= bits;
        if let Some(waiter) = object.waiter.take() {
            let bits = core::mem::take(&mut object.bits);
            machine.registers(waiter).general[1] = bits;
            self.wake(machine, waiter, Ok(()));
        }
    }

    /// `wait`: takes all bits, or suspends until there is one. Donates to whom the notification is bound.
    pub(crate) fn wait_call<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId) -> Result<(), Error> {
        let registers = machine.registers(thread);
        let (handle, deadline) = (registers.general[0], registers.general[DEADLINE]);
        let (object, _) = self.resolve(thread, handle, rights::WAIT)?;
        let Object::Notification(id) = object else { return Err(Error::WrongKind) };
        let notification = &mut self.notifications[id];
        if notification.bits != 0 {
            let bits = core::mem::take(&mut notification.bits);
            let registers = machine.registers(thread);
            registers.general[0] = 0;
            registers.general[1] = bits;
            return Ok(());
        }
        if notification.waiter.is_some() {
            return Err(Error::BadArgument);
        }
        let bound = notification.bound;
        if let Some(signaller) = bound {
            self.may_wait_for(thread, signaller)?;
            if self.threads[signaller].state == State::Stopped {
                return Err(Error::PeerDied);
            }
        }
        self.notifications[id].waiter = Some(thread);
        self.threads[thread].state = State::Waiting(id);
        if let Some(signaller) = bound {
            self.add_donor(signaller, thread);
        }
        self.plan_timeout(thread, Instant(deadline));
        self.trace(machine, Event::Block, Some(thread), u32::from(id.number()), Call::Wait as u32);
        self.cpus[cpu].stale = true;
        self.settle(thread);
        Ok(())
    }

    /// A line fired: keep it from firing again, let drained engines go on, signal. Constant time.
    pub(crate) fn interrupt<M: Machine>(&mut self, machine: &mut M, interrupt: InterruptId) {
        machine.set_interrupt_enabled(interrupt, false);
        self.trace(machine, Event::Interrupt, None, u32::from(interrupt.number()), 0);
        self.probe_engines(machine, interrupt);
        let object = self.interrupts[interrupt];
        if let Some(notification) = object.notification {
            self.signal(machine, notification, object.bits);
        }
    }

    /// `interrupt_ack`: the line may fire again.
    pub(crate) fn interrupt_ack<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let handle = machine.registers(thread).general[0];
        let (object, _) = self.resolve(thread, handle, rights::ACKNOWLEDGE)?;
        let Object::Interrupt(interrupt) = object else { return Err(Error::WrongKind) };
        machine.set_interrupt_enabled(interrupt, true);
        // A completion between the top half and here left no edge behind that engines could wait for.
        self.probe_engines(machine, interrupt);
        Ok(())
    }

    /// `sleep_until`.
    pub(crate) fn sleep<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId) {
        let deadline = machine.registers(thread).general[DEADLINE];
        self.threads[thread].state = State::Sleeping;
        self.plan_timeout(thread, Instant(deadline));
        self.trace(machine, Event::Block, Some(thread), 0, Call::SleepUntil as u32);
        self.cpus[cpu].stale = true;
        self.settle(thread);
    }

    /// The deadline of a blocking call passed.
    pub(crate) fn time_out<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        if let State::AwaitingTurn { user, due: true } = self.threads[thread].state {
            self.take_turn(machine, thread, user);
            return;
        }
        let result = match self.threads[thread].state {
            State::Sleeping => Ok(()),
            State::AwaitingToken { refused: true, .. } | State::AwaitingGroup { refused: true, .. } => {
                Err(Error::ChainTooLong)
            }
            _ => Err(Error::TimedOut),
        };
        self.withdraw(machine, thread);
        self.wake(machine, thread, result);
    }

    /// Takes `thread` out of whatever it waits for; it is still suspended, and nobody queues it any more.
    pub(crate) fn withdraw<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        match self.threads[thread].state {
            State::Calling(endpoint) => {
                let callers = &mut self.endpoints[endpoint].callers;
                if let Some(at) = callers.iter().position(|caller| *caller == thread) {
                    callers.remove(at);
                }
            }
            State::AwaitingReply { server, slot } => {
                // The server may be at work on what it was lent.
                self.free_slot(machine, server, usize::from(slot), Place::Scratch);
            }
            State::Waiting(notification) => self.notifications[notification].waiter = None,
            State::Acquiring(user) => {
                if let Some(engine) = self.engine_users[user].engine {
                    self.engines[engine].lock.withdraw(user.index() as u16);
                }
            }
            State::AwaitingToken { user, .. } => self.withdraw_request(user),
            State::AwaitingGroup { group, .. } => self.withdraw_group(machine, group, thread),
            State::Dormant
            | State::Ready
            | State::Receiving(_)
            | State::BetweenJobs
            | State::Sleeping
            | State::Donating
            | State::AwaitingTurn { .. }
            | State::Stopped => {}
        }
    }

    /// `thread`, which waits for nothing any more, becomes ready with this result.
    #[inline(never)]
    pub(crate) fn wake<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, result: Result<(), Error>) {
        self.cancel_timeout(thread);
        machine.registers(thread).general[0] = result.map_or_else(|error| error as u64, |()| 0);
        self.threads[thread].state = State::Ready;
        self.trace(machine, Event::Resume, Some(thread), 0, 0);
        let timed_out = matches!(result, Err(Error::TimedOut)) && self.forgets(Planted::DonationOutlastsTheWait);
        let target = if timed_out { None } else { self.remove_donor(thread) };
        self.renew_rested(thread);
        // First it takes back, so that what it lent stays where it is linked; then the one it lent to lets go.
        self.settle(thread);
        if let Some(target) = target {
            self.settle_living(target);
        }
    }
}

//! Engines shared by clients without a lock while the lock has no holder: the shared class.
//!
//! The class is one more user of an engine's lock, [`SHARED`]. The class holds the lock whenever no other user holds or
//! wants it, and its commands begin while the gate of the engine is open. The first request shuts the gate, which is one
//! store, however many clients there are. Then the lock is *Draining* as after any release, until the one shared command
//! that may run has ended. The probe of the class is the device's word, too: as many shared commands have ended as have
//! begun. When no user wants the engine any more, the gate is opened and the device is kicked.
//!
//! # Invariants
//!
//! 1. The gate is open exactly while [`SHARED`] holds the lock; then the lock has no waiters.
//! 2. The class has no donors. A thread that waits for its command to end lends to the driver, as for any other command.
//! 3. Such a command has `longest` from the instant at which the gate was shut; then the driver must reset the context
//!    that runs. A look is planned for that instant, whether or not another was planned before.
//! 4. With its driver or its sharer dead, a gate that has been shut stays shut.
//!
//! Not here: clients (the kernel does not know them: their doorbells are pages like others), shares (those of a server),
//! the device's half of the handshake (`accel/contract`). Source: ours.

use fusee_abi::trace::Event;
use fusee_locking::engine::State as Lock;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{EndpointId, EngineId, EngineUserId, user_of};
use crate::limits::GATES;
use crate::object::State;
use crate::{Kernel, Machine};

/// The user of an engine's lock that stands for all clients without one. No use of an engine by a task has this number.
pub(crate) const SHARED: u16 = u16::MAX;

/// The gate of an engine, beside its lock.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    longest: Nanoseconds,
    opened: Instant,
    time: Nanoseconds,
    user: Option<EngineUserId>,
    sharer: Option<EndpointId>,
    first_member: u16,
    members: u16,
}

impl Gate {
    /// The gate of an engine that has none.
    pub const EMPTY: Gate = Gate {
        longest: Nanoseconds::ZERO,
        opened: Instant::ZERO,
        time: Nanoseconds::ZERO,
        user: None,
        sharer: None,
        first_member: 0,
        members: 0,
    };

    /// A gate with these terms. For boot.
    pub(crate) fn new(longest: Nanoseconds, sharer: Option<EndpointId>, first_member: u16, members: u16) -> Self {
        Self { longest, sharer, first_member, members, ..Self::EMPTY }
    }

    /// The cluster of `user`, one of the engine's users, looks at the engine. For boot.
    pub(crate) fn set_user(&mut self, user: EngineUserId) {
        self.user = Some(user);
    }

    /// The longest time that a shared command takes, once the gate is shut.
    #[must_use]
    #[inline]
    pub fn longest(&self) -> Nanoseconds {
        self.longest
    }

    /// The instant at which the gate was opened last.
    #[must_use]
    #[inline]
    pub fn opened(&self) -> Instant {
        self.opened
    }

    /// The engine time of the class: from each opening of the gate until the engine is idle behind the shut gate.
    #[must_use]
    #[inline]
    pub fn time(&self) -> Nanoseconds {
        self.time
    }

    /// The user of the lock with the cluster that looks at the engine.
    #[must_use]
    #[inline]
    pub fn user(&self) -> Option<EngineUserId> {
        self.user
    }

    /// The endpoint that is asked about stores to the doorbells of members, if the engine has a sharer (see `stores`).
    #[must_use]
    #[inline]
    pub fn sharer(&self) -> Option<EndpointId> {
        self.sharer
    }

    /// The number of the first member.
    #[must_use]
    #[inline]
    pub fn first_member(&self) -> u16 {
        self.first_member
    }

    /// The number of members.
    #[must_use]
    #[inline]
    pub fn members(&self) -> u16 {
        self.members
    }
}

impl Kernel {
    /// Whether clients without a lock have `engine` while its lock has no holder.
    #[inline(always)]
    pub(crate) fn has_gate(&self, engine: EngineId) -> bool {
        GATES && self.gated >> engine.index() & 1 != 0
    }

    /// Whether the last use of `engine` by `user` has ended, and no further command of it will begin.
    #[inline(always)]
    pub(crate) fn is_over<M: Machine>(&self, machine: &mut M, engine: EngineId, user: u16) -> bool {
        match user_of(user) {
            Some(user) => machine.engine_is_idle(user),
            None => GATES && machine.is_shared_idle(engine),
        }
    }

    /// Shuts the gate of `engine`, which a task wants, if it is open.
    #[inline(always)]
    pub(crate) fn take_back<M: Machine>(&mut self, machine: &mut M, engine: EngineId) {
        if GATES && self.engines[engine].lock().state() == Lock::Held(SHARED) {
            self.shut(machine, engine);
        }
    }

    #[inline(never)]
    fn shut<M: Machine>(&mut self, machine: &mut M, engine: EngineId) {
        machine.set_gate(engine, false);
        let idle = machine.is_shared_idle(engine);
        let now = machine.now();
        self.trace(machine, Event::EngineRelease, None, u32::from(engine.number()), 0);
        let released = self.engines[engine].lock_mut().release(SHARED, idle);
        debug_assert!(released.is_ok(), "the class holds the engine");
        if idle {
            self.end_sharing(machine, engine);
            return;
        }
        self.engines[engine].begin_drain(now);
        let gate = self.gates[engine];
        if let Some(user) = gate.user {
            self.plan_look(engine, user, now + gate.longest);
        }
    }

    /// The class has had `engine`, and no command of it runs any more.
    pub(crate) fn end_sharing<M: Machine>(&mut self, machine: &mut M, engine: EngineId) {
        let had = machine.now().since(self.gates[engine].opened);
        self.gates[engine].time += had;
        self.trace(machine, Event::EngineIdle, None, u32::from(engine.number()), (had.0 / 1000) as u32);
    }

    /// Gives `engine`, which no task wants, to the class if it is free.
    #[inline(always)]
    pub(crate) fn hand_back<M: Machine>(&mut self, machine: &mut M, engine: EngineId) {
        if self.has_gate(engine) && self.engines[engine].lock().state() == Lock::Free {
            self.open(machine, engine);
        }
    }

    #[inline(never)]
    pub(crate) fn open<M: Machine>(&mut self, machine: &mut M, engine: EngineId) {
        let is_dead = |driver| self.threads[driver].state() == State::Stopped;
        if self.engines[engine].driver().is_none_or(is_dead) || self.has_lost_sharer(engine) {
            return;
        }
        self.gates[engine].opened = machine.now();
        // The engine is free.
        self.engines[engine].lock_mut().grant(SHARED);
        machine.set_gate(engine, true);
        self.trace(machine, Event::EngineGrant, None, u32::from(engine.number()), 0);
    }

    /// Whether `engine` has a sharer, which is dead.
    pub(crate) fn has_lost_sharer(&self, engine: EngineId) -> bool {
        let is_alive = |server| self.threads[server].state() != State::Stopped;
        self.gates[engine].sharer.is_some_and(|endpoint| !self.endpoints[endpoint].server().is_some_and(is_alive))
    }
}

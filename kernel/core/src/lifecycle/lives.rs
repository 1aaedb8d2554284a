//! Several lives: notices of the end of a task, and the beginning of its next life.
//!
//! A task with further lives in the manifest begins again when another task asks for it (`restart`), after all waiters
//! have been notified of its death. The new life begins as the first one did: with the handles, engines and addresses of
//! the manifest, at its first instruction. A record written at boot ([`Life`]) restores all that the death took apart, in
//! one trap (`restart.rs`). Memory is the task's own matter (`fusee::entry!`), so the path has no loop over pages.
//!
//! # Differences from the state at boot
//!
//! - *Time.* Used budget stays used, and comes back when it would have. A task that crashes again and again has no more
//!   of any interval than a task that works. Releases by the clock stay on the task's own grid. A dormant task has the
//!   budget it was given last (`set_reservation`).
//! - *Knowledge of others.* Each handle to an endpoint stores the life of the server that its holder knows of. The first
//!   request to a later life fails with [`Error::PeerRestarted`], and is not delivered. A new life itself knows all its
//!   servers as they are.
//! - *Counts.* Jobs go on being numbered, handles' generations go on growing, and reply tokens of an earlier life are
//!   void.
//!
//! # The payer of the beginning
//!
//! Each life but the first signals a notification at its first `receive`, `wait` or `next_job`, and that notification is
//! bound to the task. A thread that waits for the notification donates until then, or until a deadline, and is notified
//! if the task dies before. So a server without a budget of its own is ready for its clients as fast as the thread that
//! restarted it is important, and a server that never gets there costs no more than the wait.
//!
//! # Invariants
//!
//! L1. A thread that has begun and has not signalled its start is ready or waits for a lock or a time, and takes no fast
//! path.
//! L2. If the end of a thread was notified, the thread is dead and has no waiters. A dead thread is queued, or its end is
//! about to be notified, if it was not yet.
//! L3. A slot that the manifest filled names the same object for ever, if its thread has several lives.
//! L4. No thread has more budget than the manifest declares, or more often; but a dormant one may have less.

use fusee_abi::Error;
use fusee_abi::call::{HandleValue, ending};
use fusee_abi::image::Supervision;
use fusee_sched::account::Account;
use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{EndpointId, NotificationId, ThreadId};
use crate::limits::{HANDLES, RESTARTS};
use crate::object::{Belongings, Release, State};
use crate::{Kernel, Machine};

/// Interval after which the kernel looks again whether a dead thread has left its CPU.
const LEAVING: Nanoseconds = Nanoseconds(1_000);

/// Bit of the notification that a new life signals.
const STARTED: u64 = 1;

/// The end of a life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct End {
    /// Kind of the end: one of [`ending`].
    pub how: u64,
    /// Words that `read_fault` returns for the end.
    pub words: [u64; 3],
}

/// Record from which a thread begins again, with its last end.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// Notification that is signalled when all waiters know of the thread's end.
    pub ends: Option<NotificationId>,
    /// Notification that each new life signals; without it the thread has one life.
    pub starts: Option<NotificationId>,
    /// Whether other tasks depend on this one for further lives: the kernel gives up when it ends.
    pub is_vital: bool,
    /// Whether the thread's first life begins only when it is started.
    pub is_dormant: bool,
    /// Whether all waiters know of the thread's end.
    pub is_told: bool,
    /// Whether the thread has yet to signal that it has started.
    pub is_starting: bool,
    /// Way in which the thread's jobs are released.
    pub release: Release,
    /// First release of the thread by the clock.
    pub first_release: Instant,
    /// Budget that the manifest declares; `set_reservation` gives no more.
    pub budget: Nanoseconds,
    /// Period that the manifest declares; `set_reservation` gives budget no more often.
    pub period: Nanoseconds,
    /// Lists of the endpoints, notifications, engines and pools of the thread.
    pub belongings: Belongings,
    /// Instant of the last end.
    pub ended: Instant,
    /// Kind and words of the last end.
    pub end: End,
}

impl Life {
    /// The record of a thread with one life.
    pub const EMPTY: Life = Life {
        ends: None,
        starts: None,
        is_vital: false,
        is_dormant: false,
        is_told: false,
        is_starting: false,
        release: Release::None,
        first_release: Instant::ZERO,
        budget: Nanoseconds::ZERO,
        period: Nanoseconds::ZERO,
        belongings: Belongings::EMPTY,
        ended: Instant::ZERO,
        end: End { how: ending::NONE, words: [0; 3] },
    };
}

impl Life {
    /// Whether the thread may begin more than once.
    pub(crate) fn has_several(&self) -> bool {
        self.starts.is_some() || self.is_dormant
    }
}

impl Kernel {
    //--- At boot -----------------------------------------------------------------------------------------

    /// Records the data from which `thread` begins again. Returns whether the objects named by `word` exist.
    pub(crate) fn boot_life(&mut self, thread: ThreadId, word: u32) -> bool {
        let Supervision { ends, starts, is_vital, is_dormant } = Supervision::of(word);
        let notifications = self.counts.notifications;
        let find = |index: u16| NotificationId::new(usize::from(index)).filter(|id| id.index() < notifications);
        let (ends, starts) = (ends.map(find), starts.map(find));
        if ends == Some(None) || starts == Some(None) {
            return false;
        }
        let object = &self.threads[thread];
        let own = object.own().map(|own| &self.reservations[own]);
        let (release, first_release) =
            own.map_or((Release::None, Instant::NEVER), |own| (own.release(), own.next_release()));
        let account = own.map_or(Account::EMPTY, |own| *own.account());
        self.lives[thread] = Life {
            ends: ends.flatten(),
            starts: starts.flatten(),
            is_vital,
            is_dormant,
            release,
            first_release,
            budget: account.budget,
            period: account.period,
            belongings: object.belongings(),
            ..Life::EMPTY
        };
        if is_dormant {
            self.boot_dormant(thread);
        }
        true
    }

    /// Makes `thread` like one whose end all waiters know of. Its first life, which is to come, has number zero.
    fn boot_dormant(&mut self, thread: ThreadId) {
        self.block(thread, State::Stopped, None);
        self.lives[thread].is_told = true;
        self.threads[thread].await_first_life();
        if let Some(own) = self.threads[thread].own() {
            let object = &mut self.reservations[own];
            object.plan_nothing();
            self.event_moves(own);
        }
    }

    //--- The end -----------------------------------------------------------------------------------------

    /// Records that `thread` ends now, with the answer of `read_fault`.
    #[inline]
    pub(crate) fn note_end<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, how: u64, words: [u64; 3]) {
        if RESTARTS {
            let life = &mut self.lives[thread];
            life.ended = machine.now();
            life.end = End { how, words };
            life.is_starting = false;
        }
    }

    /// All waiters know of the end of `thread`. If the thread has a notification for it, the end is signalled once the
    /// thread has left its CPU.
    #[inline]
    pub(crate) fn end_is_told<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        if RESTARTS && !self.lives[thread].is_told {
            self.tell_end(machine, thread);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_end<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        // This CPU leaves the thread in this trap.
        if self.threads[thread].on().is_some_and(|cpu| cpu != self.here) {
            self.plan_timeout(thread, machine.now() + LEAVING);
            return;
        }
        if let Some(ends) = self.lives[thread].ends {
            self.signal(machine, ends, Supervision::bit(thread.index()));
        }
        self.lives[thread].is_told = true;
    }

    /// `thread` receives, waits or asks for a job: if it has begun again, it has started.
    #[inline]
    pub(crate) fn is_up<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        if RESTARTS && self.lives[thread].is_starting {
            self.tell_start(machine, thread);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_start<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) {
        self.lives[thread].is_starting = false;
        self.threads[thread].job_mut().end_signal();
        if let Some(starts) = self.lives[thread].starts {
            self.signal(machine, starts, STARTED);
        }
    }

    /// Number of times the server of `endpoint` was given another life.
    #[inline]
    pub(crate) fn life_of(&self, endpoint: EndpointId) -> u32 {
        self.endpoints[endpoint].server().map_or(0, |server| self.threads[server].life())
    }

    //--- Knowledge of others -----------------------------------------------------------------------------

    /// Whether the holder of the handle with this `value` knows of the present life of the server of `endpoint`.
    #[inline]
    pub(crate) fn knows(&self, thread: ThreadId, value: u64, endpoint: EndpointId) -> bool {
        !RESTARTS || self.has_heard(thread, value, endpoint)
    }

    fn has_heard(&self, thread: ThreadId, value: u64, endpoint: EndpointId) -> bool {
        let handle = &self.handles[thread][usize::from(HandleValue(value).slot()) % HANDLES];
        let known = match handle.origin() {
            Some(origin) => self.derivations.life(origin.node),
            None => handle.epoch() as u32,
        };
        known == self.life_of(endpoint)
    }

    /// Checks a request by the handle with this `value`.
    ///
    /// # Errors
    /// [`Error::PeerRestarted`] if the server has begun another life meanwhile, whose number is in `x1`. From then on the
    /// holder knows of it, unless the handle is a copy.
    #[inline]
    pub(crate) fn greet<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        value: u64,
        endpoint: EndpointId,
    ) -> Result<(), Error> {
        if self.knows(thread, value, endpoint) { Ok(()) } else { self.introduce(machine, thread, value, endpoint) }
    }

    #[cold]
    #[inline(never)]
    fn introduce<M: Machine>(
        &mut self,
        machine: &mut M,
        thread: ThreadId,
        value: u64,
        endpoint: EndpointId,
    ) -> Result<(), Error> {
        // A request to a dead server goes on: the request finds the death out.
        let is_dead = |server: ThreadId| matches!(self.threads[server].state(), State::Stopped);
        if self.endpoints[endpoint].server().is_none_or(is_dead) {
            return Ok(());
        }
        let (life, slot) = (u64::from(self.life_of(endpoint)), usize::from(HandleValue(value).slot()) % HANDLES);
        if self.handles[thread][slot].source().is_none() {
            self.handles[thread][slot].know(life);
            // Copies of the handle were for the life before.
            self.release_node(thread, slot);
        }
        machine.registers(thread).general[1] = life;
        Err(Error::PeerRestarted)
    }
}

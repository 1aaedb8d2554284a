//! CPUs: the thread and reservation each one runs, and the ledger of its time.
//!
//! # Invariants
//!
//! 1. All time since a CPU entered service is booked once: to the kernel, to idling, or to a reservation. So booking time
//!    and moving `mark`, until when time is booked, is one step.
//! 2. A CPU whose plan has changed looks at it again before it returns to a thread.
//!
//! Fields are private. Reads are free for all; a change is one of the methods here, each named after the event.

use fusee_sched::time::{Instant, Nanoseconds};

use crate::id::{ClusterId, ReservationId, ThreadId};

/// The account that pays for the time that passes on a CPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Payer {
    /// No account: there is nothing to run.
    Idle,
    /// The kernel: interrupts, and waiting for its lock.
    Kernel,
    /// This reservation.
    Reservation(ReservationId),
}

/// One CPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cpu {
    entered: bool,
    needs_reschedule: bool,
    cluster: Option<ClusterId>,
    current: Option<ThreadId>,
    running: Option<ReservationId>,
    payer: Payer,
    boosted: bool,
    mark: Instant,
    armed: Instant,
    since: Instant,
    kernel: Nanoseconds,
    idle: Nanoseconds,
    charged: Nanoseconds,
}

impl Cpu {
    /// The setting of a timer that has fired: an instant for which nothing is ever planned.
    pub const FIRED: Instant = Instant(Instant::NEVER.0 - 1);
    /// A CPU that is not in service.
    pub const EMPTY: Cpu = Cpu {
        entered: false,
        needs_reschedule: false,
        cluster: None,
        current: None,
        running: None,
        payer: Payer::Idle,
        boosted: false,
        mark: Instant::ZERO,
        armed: Instant::ZERO,
        since: Instant::ZERO,
        kernel: Nanoseconds::ZERO,
        idle: Nanoseconds::ZERO,
        charged: Nanoseconds::ZERO,
    };

    //--- Reads ---------------------------------------------------------------------------------------------

    /// Whether the CPU is in service.
    #[must_use]
    #[inline]
    pub fn has_entered(&self) -> bool {
        self.entered
    }

    /// Whether the CPU's plan may have changed: it looks again before it returns to a thread.
    #[must_use]
    #[inline]
    pub fn needs_reschedule(&self) -> bool {
        self.needs_reschedule
    }

    /// The cluster that the CPU belongs to.
    #[must_use]
    #[inline]
    pub fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// The thread whose registers belong to the CPU.
    #[must_use]
    #[inline]
    pub fn current(&self) -> Option<ThreadId> {
        self.current
    }

    /// The reservation that the CPU ran on when it last left the kernel.
    #[must_use]
    #[inline]
    pub fn running(&self) -> Option<ReservationId> {
        self.running
    }

    /// The account that pays since [`mark`](Self::mark).
    #[must_use]
    #[inline]
    pub fn payer(&self) -> Payer {
        self.payer
    }

    /// Whether the CPU ran on a boost since [`mark`](Self::mark), and knew it.
    #[must_use]
    #[inline]
    pub fn is_boosted(&self) -> bool {
        self.boosted
    }

    /// The instant until which time is booked.
    #[must_use]
    #[inline]
    pub fn mark(&self) -> Instant {
        self.mark
    }

    /// The instant that the CPU's timer is set to.
    #[must_use]
    #[inline]
    pub fn armed(&self) -> Instant {
        self.armed
    }

    /// The instant at which the CPU entered service.
    #[must_use]
    #[inline]
    pub fn since(&self) -> Instant {
        self.since
    }

    /// The time booked to the kernel.
    #[must_use]
    #[inline]
    pub fn kernel(&self) -> Nanoseconds {
        self.kernel
    }

    /// The time booked to idling.
    #[must_use]
    #[inline]
    pub fn idle(&self) -> Nanoseconds {
        self.idle
    }

    /// The time booked to reservations.
    #[must_use]
    #[inline]
    pub fn charged(&self) -> Nanoseconds {
        self.charged
    }

    //--- Traps ---------------------------------------------------------------------------------------------

    /// The CPU belongs to `cluster`. Returns whether it belonged to none. For boot.
    pub(crate) fn join(&mut self, cluster: ClusterId) -> bool {
        self.cluster.replace(cluster).is_none()
    }

    /// The CPU enters service at `at`, and its timer is not set.
    pub(crate) fn enter_service(&mut self, at: Instant) {
        self.entered = true;
        self.since = at;
        self.mark = at;
        self.payer = Payer::Kernel;
        self.needs_reschedule = true;
        self.armed = Instant::NEVER;
    }

    /// The kernel pays for the rest of this trap, and the CPU looks at its plan again.
    #[inline(always)]
    pub(crate) fn begin_trap(&mut self) {
        self.payer = Payer::Kernel;
        self.needs_reschedule = true;
    }

    /// The CPU's timer has fired, and goes on firing until it is set anew, be it to `NEVER`.
    #[inline(always)]
    pub(crate) fn note_fired(&mut self) {
        self.armed = Cpu::FIRED;
    }

    /// The CPU looks at its plan again before it returns to a thread.
    #[inline(always)]
    pub(crate) fn request_reschedule(&mut self) {
        self.needs_reschedule = true;
    }

    /// The CPU has looked at its plan.
    #[inline(always)]
    pub(crate) fn end_reschedule(&mut self) {
        self.needs_reschedule = false;
    }

    //--- Booking -------------------------------------------------------------------------------------------

    /// Books `span` to idling.
    #[inline(always)]
    pub(crate) fn book_idle(&mut self, span: Nanoseconds) {
        self.mark += span;
        self.idle += span;
    }

    /// Books `span` to the kernel.
    #[inline(always)]
    pub(crate) fn book_kernel(&mut self, span: Nanoseconds) {
        self.mark += span;
        self.kernel += span;
    }

    /// Books `span` to a reservation, which the caller charges.
    #[inline(always)]
    pub(crate) fn book_charged(&mut self, span: Nanoseconds) {
        self.mark += span;
        self.charged += span;
    }

    /// Moves `span`, which was booked to the kernel, to a reservation, which the caller charges.
    #[inline]
    pub(crate) fn rebook(&mut self, span: Nanoseconds) {
        self.kernel = self.kernel.saturating_sub(span);
        self.charged += span;
    }

    //--- The running thread --------------------------------------------------------------------------------

    /// The registers of `thread` belong to the CPU from here on.
    #[inline(always)]
    pub(crate) fn set_current(&mut self, thread: Option<ThreadId>) {
        self.current = thread;
    }

    /// The CPU runs on `reservation` from here on. Returns the one it ran on before.
    #[inline(always)]
    pub(super) fn run_on(&mut self, reservation: Option<ReservationId>) -> Option<ReservationId> {
        core::mem::replace(&mut self.running, reservation)
    }

    /// `payer` pays from here on, from its boost if it is `boosted`, and the CPU comes back at `next`. Returns the new
    /// setting of the timer, if that changes.
    #[inline(always)]
    pub(super) fn leave_kernel(&mut self, payer: Payer, boosted: bool, next: Instant) -> Option<Instant> {
        self.payer = payer;
        self.boosted = boosted;
        self.arm(next)
    }

    /// The CPU goes to `thread` on `reservation`, which is not boosted, until `next`. Returns the new setting of the timer,
    /// if that changes.
    #[inline(always)]
    pub(super) fn switch_to(&mut self, thread: ThreadId, reservation: ReservationId, next: Instant) -> Option<Instant> {
        debug_assert!(!self.boosted, "fast switches know no boosts");
        self.current = Some(thread);
        self.running = Some(reservation);
        self.payer = Payer::Reservation(reservation);
        self.arm(next)
    }

    #[inline(always)]
    fn arm(&mut self, next: Instant) -> Option<Instant> {
        let timer = (next != self.armed).then_some(next);
        self.armed = next;
        timer
    }
}

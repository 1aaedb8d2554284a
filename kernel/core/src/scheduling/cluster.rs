//! Clusters: links of reservations to CPUs, and the events that are to come.
//!
//! # Invariants
//!
//! 1. A reservation is in its cluster's queue or linked exactly while it has a runner.
//! 2. The waiting reservations are in the order of their keys.
//!
//! Fields are written in this folder alone. Other modules read them, and plan timeouts by the methods here.

use fusee_sched::cluster::Cluster;
use fusee_sched::cpu::{CpuId, CpuSet};
use fusee_sched::key::Key;
use fusee_sched::queue::Queue;
use fusee_sched::time::{Instant, Nanoseconds};
use heapless::Vec;

use crate::limits::{CPUS, THREADS, WAITING};

/// A reservation that waits for others.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// The index of the reservation.
    pub reservation: u16,
    /// Whether the thread of the reservation runs on a loan from others: then the reservation pays for the time that counts.
    pub runs_on_loan: bool,
    /// The part of the time since the cluster was counted last that does not count: for so long others with earlier keys have all CPUs.
    pub covered: Nanoseconds,
}

/// A cluster with the events its timekeeper watches.
#[derive(Clone, Debug)]
pub struct ClusterObject {
    /// Links of reservations to CPUs.
    pub(super) schedule: Cluster<THREADS, CPUS>,
    /// Releases and replenishments, by reservation index.
    pub(super) events: Queue<THREADS>,
    /// Timeouts, by thread index; and looks at watched engines, by index from the end.
    pub(super) timeouts: Queue<THREADS>,
    /// Reservations that rest because their jobs wait for others.
    pub(super) waiting: Vec<Waiter, WAITING>,
    /// The instant until which the waiting of these reservations is counted.
    pub(super) counted: Instant,
    /// The CPU whose timer serves both queues: the cluster's lowest.
    timekeeper: CpuId,
}

impl ClusterObject {
    /// A cluster without CPUs.
    pub const EMPTY: ClusterObject = ClusterObject {
        schedule: Cluster::EMPTY,
        events: Queue::EMPTY,
        timeouts: Queue::EMPTY,
        waiting: Vec::new(),
        counted: Instant::ZERO,
        timekeeper: CpuId(0),
    };

    /// The CPUs of the cluster, of which there is one at least. Returns whether there is. For boot.
    pub(crate) fn set_cpus(&mut self, cpus: CpuSet) -> bool {
        self.schedule.set_cpus(cpus);
        self.timekeeper = cpus.lowest().unwrap_or_default();
        cpus.lowest().is_some()
    }

    /// The instant of the next event that `cpu` must watch; `NEVER` if it watches none.
    #[must_use]
    #[inline(always)]
    pub fn next_event(&self, cpu: CpuId) -> Instant {
        let at = |queue: &Queue<THREADS>| queue.first().map_or(Instant::NEVER, |(key, _)| key.instant());
        if self.timekeeper == cpu { at(&self.events).min(at(&self.timeouts)) } else { Instant::NEVER }
    }

    /// Links of reservations to CPUs.
    #[must_use]
    #[inline]
    pub fn schedule(&self) -> &Cluster<THREADS, CPUS> {
        &self.schedule
    }

    /// Releases and replenishments, by reservation index.
    #[must_use]
    #[inline]
    pub fn events(&self) -> &Queue<THREADS> {
        &self.events
    }

    /// Timeouts, by thread index; and looks at watched engines, by index from the end.
    #[must_use]
    #[inline]
    pub fn timeouts(&self) -> &Queue<THREADS> {
        &self.timeouts
    }

    /// Reservations that rest because their jobs wait for others, in the order of their keys.
    #[must_use]
    #[inline]
    pub fn waiting(&self) -> &[Waiter] {
        &self.waiting
    }

    /// The instant until which the waiting of reservations is counted.
    #[must_use]
    #[inline]
    pub fn counted(&self) -> Instant {
        self.counted
    }

    /// The CPU whose timer serves both queues: the cluster's lowest.
    #[must_use]
    #[inline]
    pub fn timekeeper(&self) -> CpuId {
        self.timekeeper
    }

    /// Queues a timeout that is not queued, and that is no earlier than the setting of the timekeeper's timer.
    #[inline(always)]
    pub(crate) fn push_timeout(&mut self, event: u16, at: Instant) {
        self.timeouts.push(event, Key::at(at));
    }

    /// Takes a timeout that is due out of its queue.
    #[inline]
    pub(crate) fn remove_timeout(&mut self, event: u16) {
        self.timeouts.remove(event);
    }
}

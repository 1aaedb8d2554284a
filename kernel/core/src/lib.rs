//! The kernel as a pure, deterministic state machine.
//!
//! [`Kernel`] is one value; a trap is a function on it: [`Kernel::trap`] takes the event on a CPU and returns the actions
//! of that CPU. Hardware is reached through [`Machine`] alone, so the same code runs on a board and on the host.
//!
//! # Design principles
//!
//! 1. **One structure decides the links of CPUs**: `sched::cluster`. All other code makes reservations ready or not, and
//!    marks CPUs whose plan changed (`schedule`).
//! 2. **One rule selects the budget** (`donation`): a thread runs on its own reservation or on the reservation of the
//!    earliest thread suspended on it. Servers, drivers, bottom halves and lock holders are one case.
//! 3. **No CPU waits for another.** A thread's registers belong to a CPU until that CPU records it `off`.
//! 4. **A user's mistake is a typed error**, returned to the caller that made it; nothing is half-done.
//!
//! # Invariants
//!
//! Listed, and checked after every trap of a simulated system, in [`check`].
//!
//! # Modules
//!
//! Modules stand floor by floor, the lowest first. Code calls methods of [`Kernel`] in its own file and in files above it in this
//! table only; `cargo xtask test` checks that. Folders are subjects.
//!
//! | Module | Folder | Purpose |
//! |---|---|---|
//! | `limits` |  | bounds of all tables and loops |
//! | `impossible` |  | cases that an invariant excludes |
//! | `arena` |  | tables of objects, by typed index |
//! | `id` |  | the index of each kind of object |
//! | `machine` |  | services of a board for the kernel |
//! | `derivation` | `handles` | the derivation of handles from each other |
//! | `handle` | `handles` | handles, and tables of them |
//! | `marks` |  | lists of the work at the end of a trap |
//! | `job` | `time` | a thread's job, and the releases that queue behind it |
//! | `endpoint` | `ipc` | queues of callers, and event bits |
//! | `interrupt` | `ipc` | interrupt lines and regions |
//! | `thread` | `scheduling/thread` | threads |
//! | `replies` | `scheduling/thread` | requests that a thread owes replies |
//! | `reservation` | `scheduling` | budgets, keys and runners |
//! | `cluster` | `scheduling` | links of reservations to CPUs, and events to come |
//! | `cpu` | `scheduling` | the thread and reservation of each CPU, and the ledger of its time |
//! | `engine` | `accelerators` | engines, and the uses that tasks make of them |
//! | `pool` | `locks` | the uses that tasks make of pools |
//! | `object` |  | the names of all objects |
//! | `advice` | `locks` | advice which token to wait for |
//! | `planted` |  | rules that tests let the kernel forget |
//! | `trace` |  | records of events |
//! | `lookup` | `handles` | finds objects by handle and number |
//! | `inside` | `donation` | waits inside holds |
//! | `resting` | `scheduling` | suspended reservations lose their key |
//! | `schedule` | `scheduling` | runners, links, planned events |
//! | `donation` | `donation` | the choice of the reservation on which a thread runs |
//! | `waiting` | `scheduling/thread` | the door: threads are suspended, and become ready |
//! | `shared_pools` | `locks` | jobs of a cluster that donate for a request of another cluster |
//! | `loans` | `ipc` | regions lent with calls |
//! | `grants` | `handles` | handles in messages |
//! | `lives` | `lifecycle` | notices of the end of a task, and the lives of a task as others know them |
//! | `keys` | `donation` | consequences of a change of a key |
//! | `settling` | `scheduling` | runners of reservations, once a trap |
//! | `releases` | `time` | releases that wait for the end of a job |
//! | `budgets` | `time` | charging, throttling, replenishment |
//! | `early` | `time` | jobs that begin before their releases |
//! | `watches` | `accelerators` | plans when holds are looked at |
//! | `gates` | `accelerators` | engines that clients without a lock have meanwhile |
//! | `spatial` | `accelerators` | engines with a device that decides by keys |
//! | `engines` | `accelerators` | holds of engines, and their doorbells |
//! | `tokens` | `locks` | tokens of pools are requested, granted, given back |
//! | `only_donor` | `scheduling` | fast paths of a thread and its only donor |
//! | `ipc` | `ipc` | calls, replies, sends |
//! | `served` | `ipc` | fast paths of calls and replies that concern a third thread |
//! | `fast_calls` | `ipc` | fast calls: messages and locks |
//! | `stores` | `ipc` | stores to doorbells that are requests |
//! | `fast_switches` | `scheduling` | fast switches: signals, timers, waits, yields |
//! | `groups` | `locks` | sets of engines |
//! | `locks` | `locks` | engines are acquired, released, idle |
//! | `withdrawal` | `donation` | a thread gives up its wait |
//! | `expiry` | `locks` | tokens that are not given back |
//! | `events` | `ipc` | notifications, interrupts, sleep |
//! | `reschedule` | `scheduling` | the end of a trap: the next thread, and its limit |
//! | `jobs` | `time` | jobs begin and end |
//! | `records` | `lifecycle/boot` | checks of a packed system's records, field by field |
//! | `boot` | `lifecycle/boot` | from a packed system to a kernel |
//! | `watchdog` | `accelerators` | engines that are not given back, or do not end |
//! | `check_locks` | `checks` | the invariants of locks: pools, groups, engines, gates |
//! | `check` | `checks` | the invariants |
//! | `reach` | `checks` | the invariants of the reach of tasks and devices |
//! | `state` | `checks` | the state that decides the actions of the kernel, fed to a hasher |
//! | `shutdown` | `lifecycle` | the end of the system |
//! | `death` | `lifecycle` | threads end, and tell the others |
//! | `timekeeper` | `time` | the work of a timer interrupt |
//! | `restart` | `lifecycle` | a task begins again |
//! | `calls` |  | dispatch of calls |
//! | `lib` |  | traps |
//!
//! # Walls
//!
//! The type of each object stands in the module that keeps its invariants, and its fields are private there, so the
//! compiler refuses a write from elsewhere (`tests/misuse` has the errors). Other modules read by getters, and change an
//! object by methods named after the event.
//!
//! Home of objects, calls and the mechanism of scheduling. Not allowed here: registers beyond a thread's own, atomics,
//! clocks, `unsafe`, allocation, recursion, loops without a bound in [`limits`].
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

#[macro_use]
mod impossible;

mod accelerators;
mod arena;
mod calls;
mod checks;
mod donation;
mod handles;
pub mod id;
mod ipc;
mod lifecycle;
pub mod limits;
mod locks;
pub mod machine;
mod marks;
pub mod object;
mod planted;
mod scheduling;
mod time;
mod trace;

use fusee_locking::ck_omlp;
use fusee_locking::groups::Group;
use fusee_locking::tokens::Tokens;
use fusee_sched::account::Account;
use fusee_sched::key::Key;
use fusee_sched::time::{Instant, Nanoseconds};

use accelerators::gates;
use arena::Arena;
pub use checks::{check, reach};
pub use fusee_sched::cpu::{CpuId, CpuSet};
pub use handles::derivation;
use handles::derivation::Derivations;
use id::{
    ClusterId, EndpointId, EngineId, EngineUserId, GroupId, InterruptId, NotificationId, PoolId, PoolUserId, RegionId,
    ReservationId, ThreadId,
};
pub use ipc::stores::stored_register;
pub use lifecycle::boot::{self, BootError};
pub use lifecycle::lives;
use limits::{
    CLUSTERS, CPUS, DERIVATIONS, ENDPOINTS, ENGINE_USERS, ENGINES, GROUPS, INTERRUPTS, LIVES, NOTIFICATIONS,
    PENDING_JOBS, POOL_USERS, POOLS, REGIONS, RELEASES, SET_ASIDE, THREADS,
};
use locks::advice::Advisers;
pub use machine::{Machine, Members, Page, Place, Registers, Store};
use object::{
    ClusterObject, Cpu, Endpoint, Engine, EngineUser, Handle, HandleTable, Interrupt, List, Notification, PoolUser,
    Region, Reservation, Thread, TokenWatch,
};
pub use planted::Planted;

/// Cause of an entry to the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trap {
    /// `svc`: the call is in the registers of the thread that ran.
    Syscall,
    /// A device interrupt, acknowledged at the controller.
    Interrupt(InterruptId),
    /// This CPU's timer.
    Timer,
    /// Another CPU, or a spurious interrupt, wants this one to look at its plan again.
    Kick,
    /// The thread that ran did something it may not.
    Fault(Fault),
}

/// Description of a thread's fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault {
    /// Kind of the instruction that faulted.
    pub kind: FaultKind,
    /// The address of the access, if the hardware reports one.
    pub address: Option<u64>,
    /// The syndrome register (`ESR_EL1`).
    pub syndrome: u64,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum FaultKind {
    /// The thread loaded from an address it may not read.
    Read = 1,
    /// The thread stored to an address it may not write.
    Write = 2,
    /// The thread jumped to an address it may not execute.
    Execute = 3,
    /// The thread executed an instruction that is undefined or not allowed.
    Illegal = 4,
    /// Misaligned stack, program counter or access.
    Alignment = 5,
    /// `brk` or another debug exception.
    Breakpoint = 6,
    /// Anything else, external aborts included.
    Other = 7,
}

/// One trap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Cause of the trap.
    pub trap: Trap,
    /// Instant of the trap, measured before anything else. `None` where the path may not need a clock (calls, faults): such a
    /// trap is part of the thread's work, and so is waiting for the kernel's lock in it.
    pub at: Option<Instant>,
}

/// Actions of the caller of [`Kernel::trap`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Outcome {
    /// The thread to run, or none: idle.
    pub run: Option<ThreadId>,
    /// Next instant at which this CPU's timer fires (`NEVER`: not at all); `None`: the setting stays.
    pub timer: Option<Instant>,
    /// CPUs to interrupt.
    pub kick: CpuSet,
}

/// The jobs of a cluster that are released and not complete.
type PendingJobs = ck_omlp::Cluster<Key, PENDING_JOBS>;

/// All kernel state.
// The fields read by every trap come first, because fields near the start are reached by shorter instructions.
#[derive(Clone)]
#[repr(C)]
pub struct Kernel {
    /// Instant at which the trap in progress was taken, if it takes the slow path and concerns others than its caller.
    now: Instant,
    /// Instant of the first releases, before phases are added.
    start: Instant,
    /// Count of turns of service and background threads, and of requests for tokens of shared pools: a later one has a later
    /// number.
    sequence: u64,
    /// Clusters in which a reservation rests because its job waits for others, a bit each.
    resting: u32,
    /// Clusters in which the suspension of resting reservations has to be counted anew, a bit each.
    recount: u32,
    /// Pools that clusters share, a bit each.
    shared: u32,
    /// Engines that clients without a lock have while the lock has no holder, a bit each.
    gated: u32,
    /// CPUs to kick when the current trap ends.
    kicks: CpuSet,
    /// Threads that may choose another reservation at the end of the current trap.
    unsettled: List<ThreadId>,
    /// Reservations that may get another runner at the end of the current trap.
    touched: List<ReservationId>,
    /// Engine locks and donation through devices are in force.
    managed: bool,
    /// The CPU of the trap in progress, for the trace.
    here: CpuId,
    /// The reservation that pays for the trap in progress, if it is a timer interrupt that a thread has asked for.
    billed: Option<ReservationId>,
    /// Number of objects of each kind.
    counts: Counts,
    cpus: Arena<Cpu, CpuId, CPUS>,
    threads: Arena<Thread, ThreadId, THREADS>,
    /// Account of each thread for its boosts: a budget beside that of its reservation. Empty: the thread is never boosted.
    boosts: Arena<Account, ThreadId, THREADS>,
    handles: Arena<HandleTable, ThreadId, THREADS>,
    derivations: Derivations<DERIVATIONS>,
    reservations: Arena<Reservation, ReservationId, THREADS>,
    clusters: Arena<ClusterObject, ClusterId, CLUSTERS>,
    endpoints: Arena<Endpoint, EndpointId, ENDPOINTS>,
    notifications: Arena<Notification, NotificationId, NOTIFICATIONS>,
    engines: Arena<Engine, EngineId, ENGINES>,
    engine_users: Arena<EngineUser, EngineUserId, ENGINE_USERS>,
    groups: Arena<Group, GroupId, GROUPS>,
    pools: Arena<Tokens, PoolId, POOLS>,
    advisers: Advisers,
    /// The pending jobs of clusters that share a pool.
    pending_jobs: Arena<PendingJobs, ClusterId, CLUSTERS>,
    pool_users: Arena<PoolUser, PoolUserId, POOL_USERS>,
    token_watches: Arena<TokenWatch, PoolId, POOLS>,
    interrupts: Arena<Interrupt, InterruptId, INTERRUPTS>,
    regions: Arena<Region, RegionId, REGIONS>,
    /// Instants of sporadic releases, a ring for each task.
    releases: [Instant; RELEASES],
    gates: Arena<gates::Gate, EngineId, ENGINES>,
    lives: Arena<lives::Life, ThreadId, LIVES>,
    /// The accounts of reservations with early jobs.
    set_aside: Arena<Account, ReservationId, SET_ASIDE>,
    /// Engines with a device that decides by keys, a bit each.
    arbitrated: u32,
    /// Engines among the arbitrated ones for which the device has the key of a user, a bit each.
    keyed: u32,
    /// Threads that use keyed engines, a bit for each 64th.
    keyed_threads: u64,
    /// Subject of the trap in progress, for the trace: a thread or an interrupt, as in the record of a thread that is woken;
    /// zero: neither.
    cause: u32,
    /// Threads that may sleep, and end their jobs, while they hold something, a bit each.
    sleepers: [u32; THREADS.div_ceil(32)],
    /// CPU time of the driver of each engine that is being reset, at the last look.
    resets: Arena<Nanoseconds, EngineId, ENGINES>,
    /// Rule that tests have made the kernel forget.
    faults: planted::Faults,
}

/// Number of objects of each kind in a system.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    cpus: usize,
    threads: usize,
    reservations: usize,
    clusters: usize,
    endpoints: usize,
    notifications: usize,
    engines: usize,
    engine_users: usize,
    pools: usize,
    pool_users: usize,
    interrupts: usize,
}

impl Kernel {
    /// All zero bytes: for a static in .bss that `boot` fills in place.
    pub const EMPTY: Kernel = Kernel {
        cpus: Arena::new([const { Cpu::EMPTY }; CPUS]),
        gated: 0,
        arbitrated: 0,
        keyed: 0,
        keyed_threads: 0,
        kicks: CpuSet::EMPTY,
        unsettled: List::EMPTY,
        touched: List::EMPTY,
        managed: false,
        sequence: 0,
        here: CpuId(0),
        cause: 0,
        now: Instant::ZERO,
        start: Instant::ZERO,
        billed: None,
        resting: 0,
        recount: 0,
        threads: Arena::new([const { Thread::EMPTY }; THREADS]),
        boosts: Arena::new([const { Account::EMPTY }; THREADS]),
        handles: Arena::new([const { [Handle::EMPTY; limits::HANDLES] }; THREADS]),
        derivations: Derivations::EMPTY,
        reservations: Arena::new([const { Reservation::EMPTY }; THREADS]),
        clusters: Arena::new([const { ClusterObject::EMPTY }; CLUSTERS]),
        endpoints: Arena::new([const { Endpoint::EMPTY }; ENDPOINTS]),
        notifications: Arena::new([const { Notification::EMPTY }; NOTIFICATIONS]),
        engines: Arena::new([const { Engine::EMPTY }; ENGINES]),
        engine_users: Arena::new([const { EngineUser::EMPTY }; ENGINE_USERS]),
        groups: Arena::new([const { Group::EMPTY }; GROUPS]),
        pools: Arena::new([const { Tokens::EMPTY }; POOLS]),
        advisers: Advisers::EMPTY,
        shared: 0,
        pending_jobs: Arena::new([const { PendingJobs::EMPTY }; CLUSTERS]),
        pool_users: Arena::new([const { PoolUser::EMPTY }; POOL_USERS]),
        token_watches: Arena::new([const { TokenWatch::EMPTY }; POOLS]),
        releases: [Instant::ZERO; RELEASES],
        interrupts: Arena::new([const { Interrupt::EMPTY }; INTERRUPTS]),
        regions: Arena::new([const { Region::EMPTY }; REGIONS]),
        counts: Counts {
            cpus: 0,
            threads: 0,
            reservations: 0,
            clusters: 0,
            endpoints: 0,
            notifications: 0,
            engines: 0,
            engine_users: 0,
            pools: 0,
            pool_users: 0,
            interrupts: 0,
        },
        gates: Arena::new([const { gates::Gate::EMPTY }; ENGINES]),
        lives: Arena::new([const { lives::Life::EMPTY }; LIVES]),
        set_aside: Arena::new([const { Account::EMPTY }; SET_ASIDE]),
        sleepers: [0; THREADS.div_ceil(32)],
        resets: Arena::new([Nanoseconds::ZERO; ENGINES]),
        faults: planted::Faults::NONE,
    };

    /// A CPU enters service and asks for its first outcome. Called once per CPU, under the lock, the boot CPU first.
    pub fn enter<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, at: Instant) -> Outcome {
        self.here = cpu;
        self.now = at;
        self.cpus[cpu].enter_service(at);
        if cpu == CpuId(0) {
            for index in 0..self.counts.interrupts {
                if let Some(interrupt) = InterruptId::new(index) {
                    machine.set_interrupt_enabled(interrupt, true);
                }
            }
        }
        self.reschedule(machine, cpu)
    }

    /// Handles one trap taken on `cpu`, by a fast path if one can; the caller applies the outcome.
    pub fn trap<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, entry: Entry) -> Outcome {
        if self.cpus[cpu].current().is_none() {
            self.trap_on::<M, true>(machine, cpu, entry.trap, entry.at)
        } else {
            self.trap_on::<M, false>(machine, cpu, entry.trap, entry.at)
        }
    }

    /// Handles one trap by a fast path if one can, for callers that count. `None`: nothing has happened; use
    /// [`Kernel::slow_trap`].
    pub fn fast_trap<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, entry: Entry) -> Option<Outcome> {
        let outcome = if self.cpus[cpu].current().is_none() {
            self.fast_switch::<M, true>(machine, cpu, entry.trap, entry.at)
        } else {
            let switched = self.fast_switch::<M, false>(machine, cpu, entry.trap, entry.at);
            switched.or_else(|| self.fast_rare(machine, cpu, entry.trap))
        }?;
        self.say_keys(machine);
        Some(outcome)
    }

    /// Handles one trap for a caller that knows whether the CPU idled, and names the kind of trap: code for other kinds is
    /// not even compiled.
    #[inline(always)]
    pub fn trap_on<M: Machine, const IDLE: bool>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        trap: Trap,
        at: Option<Instant>,
    ) -> Outcome {
        match self.fast_trap_on::<M, IDLE>(machine, cpu, trap, at) {
            Some(outcome) => outcome,
            None => self.slow_trap(machine, cpu, Entry { trap, at }),
        }
    }

    /// As [`Kernel::fast_trap`], for such a caller.
    #[inline(always)]
    pub fn fast_trap_on<M: Machine, const IDLE: bool>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        trap: Trap,
        at: Option<Instant>,
    ) -> Option<Outcome> {
        let outcome = match self.fast_switch::<M, IDLE>(machine, cpu, trap, at) {
            None if !IDLE => self.fast_rare(machine, cpu, trap),
            switched => switched,
        }?;
        self.say_keys(machine);
        Some(outcome)
    }

    /// Handles one trap by the slow path, which can do everything, and with which the fast paths are compared.
    #[inline(never)]
    pub fn slow_trap<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, entry: Entry) -> Outcome {
        if M::TRACE.keeps_schedule() {
            self.note(cpu, entry.trap);
        }
        if let Some(at) = entry.at {
            self.now = at;
            self.charge(machine, cpu, at);
            self.cpus[cpu].begin_trap();
        }
        match entry.trap {
            Trap::Syscall => {
                if let Some(thread) = self.living(cpu) {
                    if self.threads[thread].state() == object::State::Ready {
                        self.call_trap(machine, cpu, thread);
                    } else {
                        // Another CPU has let the thread donate, and this CPU has not taken its kick yet: the thread repeats the call when it
                        // goes on.
                        calls::again(machine, thread);
                    }
                }
            }
            Trap::Interrupt(interrupt) => self.interrupt(machine, interrupt),
            Trap::Timer => {
                self.cpus[cpu].note_fired();
                self.timer(machine, cpu, entry.at.unwrap_or(Instant::ZERO));
            }
            Trap::Kick => {}
            Trap::Fault(fault) => {
                if let Some(thread) = self.living(cpu) {
                    self.now = machine.now();
                    self.fault(machine, thread, fault);
                }
            }
        }
        if self.is_settled() && !self.cpus[cpu].needs_reschedule() && self.resting & self.recount == 0 {
            self.say_keys(machine);
            return self.go_on(cpu);
        }
        let outcome = self.reschedule(machine, cpu);
        self.say_keys(machine);
        outcome
    }

    /// The thread on `cpu`, unless another CPU has stopped it: then its last trap does nothing but leave.
    fn living(&self, cpu: CpuId) -> Option<ThreadId> {
        self.cpus[cpu].current().filter(|thread| self.threads[*thread].state() != object::State::Stopped)
    }
}

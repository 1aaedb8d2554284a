//! The kernel as a pure, deterministic state machine.
//!
//! [`Kernel`] is one value; a trap is a function on it: [`Kernel::trap`] takes what happened on a CPU and
//! returns what that CPU must do. Hardware is reached through [`Machine`] alone, so the same code runs on a
//! board and on the host.
//!
//! # Design principles
//!
//! 1. **One thing decides who runs**: links in `sched::cluster`. Everything else makes reservations ready
//!    or not, and marks CPUs whose plan changed (`schedule`).
//! 2. **One rule says on whose budget** (`donation`): a thread runs on its own reservation or on that of
//!    the earliest thread suspended on it. Servers, drivers, bottom halves and lock holders are one case.
//! 3. **No CPU waits for another.** A thread's registers belong to a CPU until that CPU records it `off`.
//! 4. **A user's mistake is a typed error**, returned to the one who made it; nothing is half-done.
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
//! | `arena` |  | tables of objects, by typed index |
//! | `id` |  | the index of each kind of object |
//! | `machine` |  | what a board does for the kernel |
//! | `derivation` | `handles` | which copy of a handle came from which |
//! | `handle` | `handles` | handles, and tables of them |
//! | `marks` |  | lists of what is to be done at the end of a trap |
//! | `job` | `time` | a thread's job, and the releases that queue behind it |
//! | `endpoint` | `ipc` | queues of callers, and event bits |
//! | `interrupt` | `ipc` | interrupt lines and regions |
//! | `thread` | `scheduling/thread` | threads |
//! | `replies` | `scheduling/thread` | requests that a thread owes replies |
//! | `reservation` | `scheduling` | budgets, keys, and who runs on them |
//! | `cluster` | `scheduling` | links of reservations to CPUs, and events to come |
//! | `cpu` | `scheduling` | what each CPU runs, and the ledger of its time |
//! | `engine` | `accelerators` | engines, and the uses that tasks make of them |
//! | `pool` | `locks` | the uses that tasks make of pools |
//! | `object` |  | the names of all objects |
//! | `advice` | `locks` | which token to wait for |
//! | `planted` |  | rules that tests let the kernel forget |
//! | `trace` |  | records of what happens |
//! | `lookup` | `handles` | finds objects by handle and number |
//! | `inside` | `donation` | waits inside holds |
//! | `resting` | `scheduling` | suspended reservations lose their key |
//! | `schedule` | `scheduling` | runners, links, planned events |
//! | `donation` | `donation` | on whose reservation a thread runs |
//! | `waiting` | `scheduling/thread` | the door: threads are suspended, and become ready |
//! | `shared_pools` | `locks` | jobs of a cluster that donate for a request of another cluster |
//! | `loans` | `ipc` | regions lent with calls |
//! | `grants` | `handles` | handles in messages |
//! | `lives` | `lifecycle` | what is told of the end of a task, and what others know of its lives |
//! | `keys` | `donation` | what else moves when a key changes |
//! | `settling` | `scheduling` | who runs on what, once a trap |
//! | `releases` | `time` | releases that wait for the end of a job |
//! | `budgets` | `time` | who pays, throttling, replenishment |
//! | `early` | `time` | jobs that begin before their releases |
//! | `watches` | `accelerators` | plans when holds are looked at |
//! | `gates` | `accelerators` | engines that clients without a lock have meanwhile |
//! | `spatial` | `accelerators` | engines whose device decides by keys |
//! | `engines` | `accelerators` | holds of engines, and their doorbells |
//! | `tokens` | `locks` | tokens of pools are requested, granted, given back |
//! | `fast_calls` | `ipc` | fast calls: messages and locks |
//! | `ipc` | `ipc` | calls, replies, sends |
//! | `stores` | `ipc` | stores to doorbells that are requests |
//! | `fast_switches` | `scheduling` | fast switches: signals, timers, waits, yields |
//! | `groups` | `locks` | sets of engines |
//! | `locks` | `locks` | engines are acquired, released, idle |
//! | `withdrawal` | `donation` | a thread gives up what it waits for |
//! | `expiry` | `locks` | tokens that are not given back |
//! | `events` | `ipc` | notifications, interrupts, sleep |
//! | `reschedule` | `scheduling` | the end of a trap: who runs, until when |
//! | `jobs` | `time` | jobs begin and end |
//! | `boot` | `lifecycle` | from a packed system to a kernel |
//! | `watchdog` | `accelerators` | engines that are not given back, or do not end |
//! | `check` | `checks` | the invariants |
//! | `reach` | `checks` | those of what tasks and devices reach |
//! | `shutdown` | `lifecycle` | the end of the system |
//! | `death` | `lifecycle` | threads end, and tell the others |
//! | `timekeeper` | `time` | what a timer interrupt does |
//! | `restart` | `lifecycle` | a task begins again |
//! | `calls` |  | which call does what |
//! | `lib` |  | traps |
//!
//! # Walls
//!
//! The type of each object stands in the module that keeps its invariants, and its fields are private there, so the compiler refuses a write
//! from elsewhere (`tests/misuse` has the errors). Other modules read by getters, and change an object by methods that say what has happened to it.
//!
//! What lives here: objects, calls, scheduling mechanism. What may not: registers beyond a thread's own,
//! atomics, clocks, `unsafe`, allocation, recursion, loops without a bound in [`limits`].
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

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
use fusee_sched::time::Instant;

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

/// Why the kernel was entered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trap {
    /// `svc`: the call is in the registers of the thread that ran.
    Syscall,
    /// A device interrupt, acknowledged at the controller.
    Interrupt(InterruptId),
    /// This CPU's timer.
    Timer,
    /// Another CPU (or nobody) wants this one to look at its plan again.
    Kick,
    /// The thread that ran did something it may not.
    Fault(Fault),
}

/// What a faulting thread did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault {
    /// What kind of instruction.
    pub kind: FaultKind,
    /// The address it touched, where the hardware tells one.
    pub address: Option<u64>,
    /// The syndrome register (`ESR_EL1`).
    pub syndrome: u64,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum FaultKind {
    /// Loaded from an address it may not read.
    Read = 1,
    /// Stored to an address it may not write.
    Write = 2,
    /// Jumped to an address it may not execute.
    Execute = 3,
    /// Executed an instruction that is undefined or not allowed.
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
    /// Why.
    pub trap: Trap,
    /// When, measured before anything else; `None` where the path may not need a clock (calls, faults): such a trap is part of
    /// what the thread does, and so is waiting for the kernel's lock in it.
    pub at: Option<Instant>,
}

/// What the caller of [`Kernel::trap`] must do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Outcome {
    /// The thread to run, or none: idle.
    pub run: Option<ThreadId>,
    /// When this CPU's timer shall fire next (`NEVER`: not at all); `None`: leave it as it is.
    pub timer: Option<Instant>,
    /// CPUs to interrupt.
    pub kick: CpuSet,
}

/// The jobs of a cluster that are released and not complete.
type PendingJobs = ck_omlp::Cluster<Key, PENDING_JOBS>;

/// All kernel state.
// In this order, because what is near the start is reached by shorter instructions: what every trap looks at comes first.
#[derive(Clone)]
#[repr(C)]
pub struct Kernel {
    /// When the trap in progress was taken, if it takes the slow path and concerns others than its caller.
    now: Instant,
    /// When the first releases are, but for phases.
    start: Instant,
    /// Counts turns of service and background threads, and requests for tokens of shared pools: what comes later has a later number.
    sequence: u64,
    /// Clusters in which a reservation rests because its job waits for others, a bit each.
    resting: u32,
    /// Clusters in which something has changed that what counts of their suspension depends on.
    recount: u32,
    /// Pools that clusters share, a bit each.
    shared: u32,
    /// Engines that clients without a lock have while nobody holds them, a bit each.
    gated: u32,
    /// CPUs to kick when the current trap ends.
    kicks: CpuSet,
    /// Threads whose choice may be another at the end of the current trap,
    unsettled: List<ThreadId>,
    /// and reservations whose runner may be.
    touched: List<ReservationId>,
    /// Engine locks and donation through devices are in force.
    managed: bool,
    /// The CPU of the trap in progress, for the trace.
    here: CpuId,
    /// The reservation that pays for the trap in progress, if it is a timer interrupt that a thread has asked for.
    billed: Option<ReservationId>,
    /// How many objects of each kind there are.
    counts: Counts,
    cpus: Arena<Cpu, CpuId, CPUS>,
    threads: Arena<Thread, ThreadId, THREADS>,
    /// How long each thread may be boosted: a budget of its own, beside what it runs on. Empty: never.
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
    /// The accounts of reservations whose jobs are early.
    set_aside: Arena<Account, ReservationId, SET_ASIDE>,
    /// Engines whose device decides by keys,
    arbitrated: u32,
    /// and those of them whose users' keys it is told.
    keyed: u32,
    /// The threads of these, a bit for each 64th.
    keyed_threads: u64,
    /// What the trap in progress is about, for the trace: a thread or an interrupt, as in the record of a thread that is woken; zero: neither.
    cause: u32,
    /// Threads that may sleep, and end their jobs, while they hold something, a bit each.
    sleepers: [u32; THREADS.div_ceil(32)],
    /// What tests have made it forget.
    faults: planted::Faults,
}

/// How many objects of each kind a system has.
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

    /// The same if a fast path can, for callers that count. `None`: nothing has happened; use [`Kernel::slow_trap`].
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

    /// The same for a caller that knows whether the CPU idled, and names the kind of trap: what does not concern these
    /// is not even compiled.
    #[inline(always)]
    pub fn trap_on<M: Machine, const IDLE: bool>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        trap: Trap,
        at: Option<Instant>,
    ) -> Outcome {
        if let Some(outcome) = self.fast_switch::<M, IDLE>(machine, cpu, trap, at) {
            self.say_keys(machine);
            return outcome;
        }
        if !IDLE && let Some(outcome) = self.fast_rare(machine, cpu, trap) {
            self.say_keys(machine);
            return outcome;
        }
        self.slow_trap(machine, cpu, Entry { trap, at })
    }

    /// The same by the slow path, which can do everything, and which the fast paths are compared with.
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
                        // Another CPU has let it donate, and this one had yet to hear of it: it calls when it goes on.
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

//! The loop over events, in the order of their instants.
//!
//! At one instant: timers (lowest CPU first), then the device, then tasks whose computing ends, or tasks first if
//! that is asked for ([`First`]). On a board
//! kernel paths take time, so that work that began at a release always ends after the next release that falls
//! on the same instant here; the order agrees.
//!
//! # With overheads
//!
//! A trap still changes the kernel's state at once, but the CPU that took it is out of the kernel only when
//! the trap's cost has passed: until then its timer, kicks and interrupts wait, and its task does not run. Other
//! CPUs that trap meanwhile wait for the kernel's lock, in the order of their traps. So the kernel sees time
//! go forward only, whichever CPU looks.

use std::collections::{BTreeMap, VecDeque};

use fusee_abi::image::{FLAG_MANAGED, System};
use fusee_abi::trace::Record;
use fusee_kernel_core::id::{InterruptId, ReservationId, ThreadId};
use fusee_kernel_core::object::State;
use fusee_kernel_core::{CpuId, Entry, Fault, FaultKind, Kernel, Outcome, Planted, Trap};
use fusee_sched::time::Instant;
use sharer::course::Shown;

use crate::actor::{Action, Actor, Program};
use crate::board::{Board, GraphEnd};
use crate::overheads::Overheads;
use crate::process::Failure;
use crate::workload::Source;

/// Calls a task may make without time passing, before the run is given up: a task that never computes and
/// never waits would hang the simulation.
const STUCK: u32 = 100_000;

/// The stream of a seed that orders CPUs; streams of tasks are their indices.
const ORDER: u64 = 1 << 32;

/// A fault of a task.
const FAULT: Fault = Fault { kind: FaultKind::Write, address: None, syndrome: 0 };

/// From an instant on a device does something wrong with the commands of one context, or does so no more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mishap {
    /// When, in nanoseconds.
    pub at: u64,
    /// The device's index.
    pub device: usize,
    /// The context.
    pub context: usize,
    /// The fault, as the contract numbers it (`CONTEXT_INJECT`); zero: nothing any more.
    pub wrong: u32,
}

/// Why a simulation ended otherwise than by `shutdown` or its time limit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SimulationError {
    /// The kernel refused the system.
    Boot(fusee_kernel_core::BootError),
    /// An invariant of the kernel does not hold.
    Invariant {
        /// When.
        at: u64,
        /// The broken invariant.
        which: &'static str,
    },
    /// A task calls and calls and no time passes.
    Stuck {
        /// When.
        at: u64,
        /// Task index.
        task: usize,
    },
    /// The process of a task cannot go on.
    Program {
        /// When.
        at: u64,
        /// Task index.
        task: usize,
        /// The reason.
        why: Failure,
    },
}

/// When the kernel's invariants are checked. A check walks everything, so it costs more than a trap.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Checks {
    /// After every trap.
    #[default]
    Traps,
    /// At every so many instants, once nothing more happens at them; zero: never.
    Instants(u64),
}

/// The first of all events at one instant.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum First {
    /// Timers, kicks and devices, as on a board: a job with computing that ends at a release is complete after it.
    #[default]
    Interrupts,
    /// Tasks, as in the literature: a job that has computed its time is complete.
    Tasks,
}

/// The reason of the end of a simulation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndedBy {
    /// The system.
    Itself,
    /// The limit on time.
    Limit,
    /// Nothing could happen any more.
    NothingLeft,
    /// All tasks of the list in this place of [`Simulation::with_decisive`] had ended.
    Decisive(usize),
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Report {
    /// The trace, in order; empty if an observer looked at it.
    pub records: Vec<Record>,
    /// Exit code, if the system ended itself.
    pub exit: Option<u32>,
    /// The reason of its end.
    pub ended_by: EndedBy,
    /// When the simulation ended.
    pub ended_at: u64,
    /// Completions of the device announced too late.
    pub late_completions: u32,
    /// Traps handled.
    pub traps: u64,
    /// Those of them that took a fast path, by their kinds, as records of traps say it ([`Event::Trap`](fusee_abi::trace::Event::Trap)).
    pub fast: BTreeMap<u32, u64>,
    /// The longest wait for the kernel's lock, in nanoseconds.
    pub longest_wait: u64,
    /// For each task with [`Program::Requests`], the results of its calls and its loaded values, in order.
    pub results: Vec<Vec<u64>>,
    /// The state of each task at the end.
    pub states: Vec<State>,
    /// The debt of each reservation at the end, in nanoseconds.
    pub debts: Vec<u64>,
    /// How many handles each task had at the end.
    pub handles: Vec<usize>,
    /// How many handles were copied from at the end.
    pub copied_from: usize,
    /// For each use of an engine of a device, the submitted count at the end, and the commands done.
    pub commands: Vec<Commands>,
    /// When clients without locks stored to their doorbells themselves, and their tasks, in order.
    pub own_stores: Vec<(u64, usize)>,
    /// For each task that is a sharer, the usage that it has booked.
    pub booked: Vec<Option<Shown>>,
    /// Jobs of sources and sinks of graphs that ended, in order.
    pub graph_ends: Vec<GraphEnd>,
    /// The text that tasks have printed, if the system has Fusee's server of a console.
    pub console: String,
}

/// The commands that an engine had done for a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Commands {
    /// Task index.
    pub task: usize,
    /// The task uses the engine without its lock.
    pub shares: bool,
    /// Commands that stand in its doorbell, modulo 2^32.
    pub submitted: u32,
    /// Commands that the device has retired.
    pub retired: u32,
}

#[derive(Clone, Copy, Debug)]
struct SimulatedCpu {
    run: Option<ThreadId>,
    timer: u64,
    /// When a kick that is on its way arrives.
    kicked: u64,
    /// When the running task was last told how long it ran.
    since: u64,
    /// When the running task must be asked for its next action.
    ask: u64,
    /// Until when it is in the kernel.
    busy: u64,
}

/// The next thing that [`Simulation::step`] does.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Lets all CPUs enter the kernel.
    Boot,
    /// Settles the present instant once more.
    Here,
    /// Goes to the next instant.
    Later,
}

/// A system in execution.
pub struct Simulation {
    kernel: Box<Kernel>,
    board: Board,
    cpus: Vec<SimulatedCpu>,
    actors: Vec<Actor>,
    routes: Vec<CpuId>,
    checks: Checks,
    first: First,
    /// Threads that fault as soon as they run from an instant on.
    faults: Vec<(u64, ThreadId)>,
    /// From which instants on devices misbehave, earliest first.
    mishaps: VecDeque<Mishap>,
    /// Tasks whose end ends the simulation: that of the last of each list.
    decisive: Vec<Vec<ThreadId>>,
    /// The next thing that [`Simulation::step`] does.
    next: Next,
    /// Instants that have been settled.
    instants: u64,
    /// The order of CPUs at one instant, if it is drawn.
    order: Option<Source>,
    /// When the kernel's lock is free again.
    lock: u64,
    longest_wait: u64,
    traps: u64,
    fast: BTreeMap<u32, u64>,
}

impl Simulation {
    /// Boots `system` with one program per task.
    ///
    /// # Errors
    /// [`SimulationError::Boot`].
    pub fn new(system: &System<'_>, programs: Vec<Program>) -> Result<Simulation, SimulationError> {
        let mut kernel = Box::new(Kernel::EMPTY);
        kernel.boot(system).map_err(SimulationError::Boot)?;
        let managed = system.header().flags & FLAG_MANAGED != 0;
        let cpu = SimulatedCpu { run: None, timer: u64::MAX, kicked: u64::MAX, since: 0, ask: u64::MAX, busy: 0 };
        Ok(Simulation {
            kernel,
            board: Board::new(system, managed),
            cpus: vec![cpu; system.header().cpus as usize],
            actors: programs.into_iter().map(Actor::new).collect(),
            routes: system.interrupts().iter().map(|interrupt| CpuId(interrupt.cpu as u8)).collect(),
            checks: Checks::default(),
            first: First::default(),
            faults: Vec::new(),
            mishaps: VecDeque::new(),
            decisive: Vec::new(),
            next: Next::Boot,
            instants: 0,
            order: None,
            lock: 0,
            longest_wait: 0,
            traps: 0,
            fast: BTreeMap::new(),
        })
    }

    /// Gives the devices their descriptions in the manifest.
    #[must_use]
    pub fn with_devices(mut self, devices: &[fusee_manifest::Device]) -> Simulation {
        devices.iter().for_each(|device| self.board.describe(device));
        self
    }

    /// Lets paths of the kernel take time.
    #[must_use]
    pub fn with_overheads(mut self, overheads: Overheads) -> Simulation {
        self.board.overheads = overheads;
        self
    }

    /// Lets the kernel forget one of its rules.
    #[must_use]
    pub fn with_planted(mut self, fault: Option<Planted>) -> Simulation {
        if let Some(fault) = fault {
            self.kernel.plant(fault);
        }
        self
    }

    /// Checks the kernel's invariants at other times than after every trap.
    #[must_use]
    pub fn with_checks(mut self, checks: Checks) -> Simulation {
        self.checks = checks;
        self
    }

    /// Lets scripted tasks look at their device until it is done, in place of waiting to be told.
    #[must_use]
    pub fn with_polling(mut self, polls: bool) -> Simulation {
        self.board.polls = polls;
        self
    }

    /// Lets something else come first at each instant.
    #[must_use]
    pub fn with_first(mut self, first: First) -> Simulation {
        self.first = first;
        self
    }

    /// Lets tasks, by index, fault the first time they run from an instant on.
    #[must_use]
    pub fn with_faults(mut self, faults: &[(u64, usize)]) -> Simulation {
        self.faults = faults.iter().filter_map(|(at, task)| Some((*at, ThreadId::new(*task)?))).collect();
        self
    }

    /// Lets devices misbehave.
    #[must_use]
    pub fn with_mishaps(mut self, mishaps: &[Mishap]) -> Simulation {
        self.mishaps = mishaps.iter().copied().collect();
        self.mishaps.make_contiguous().sort_by_key(|mishap| mishap.at);
        self
    }

    /// Ends the simulation once all tasks of one of these lists have ended.
    #[must_use]
    pub fn with_decisive(mut self, decisive: &[Vec<usize>]) -> Simulation {
        let threads = |tasks: &Vec<usize>| tasks.iter().filter_map(|task| ThreadId::new(*task)).collect();
        self.decisive = decisive.iter().map(threads).collect();
        self
    }

    /// Draws, by this seed, the CPU whose task acts first among those that could at one instant. Without it, it is the lowest.
    #[must_use]
    pub fn with_order(mut self, seed: Option<u64>) -> Simulation {
        self.order = seed.map(|seed| Source::new(seed, ORDER));
        self
    }

    /// Runs until the system ends itself, at the latest until `limit` nanoseconds. With an `observer`, that one
    /// sees each record of the trace, and none is kept.
    ///
    /// # Errors
    /// [`SimulationError`], with the trace lost: it is a defect of the kernel or of a script.
    pub fn run(mut self, limit: u64, mut observer: Option<&mut dyn FnMut(&Record)>) -> Result<Report, SimulationError> {
        let ended_by = loop {
            let ended_by = self.step(limit)?;
            self.show(&mut observer);
            if let Some(ended_by) = ended_by {
                break ended_by;
            }
        };
        Ok(self.report(ended_by))
    }

    /// Lets everything happen at the next instant that has something, and not after `limit` nanoseconds. The reason for which nothing more happens until
    /// then, if there is one; after [`EndedBy::Limit`] a call with a later limit goes on.
    ///
    /// # Errors
    /// [`SimulationError`].
    pub fn step(&mut self, limit: u64) -> Result<Option<EndedBy>, SimulationError> {
        match self.next {
            Next::Boot => self.boot()?,
            Next::Here => {}
            Next::Later => {
                let next = self.next_instant();
                match self.decisive_end() {
                    _ if self.board.ended.is_some() => return Ok(Some(EndedBy::Itself)),
                    Some(decisive) => return Ok(Some(EndedBy::Decisive(decisive))),
                    None if next == u64::MAX => return Ok(Some(EndedBy::NothingLeft)),
                    None if next > limit => return Ok(Some(EndedBy::Limit)),
                    None => self.board.now = next,
                }
            }
        }
        self.next = Next::Later;
        self.settle_instant()?;
        self.instants += 1;
        self.check_instant(self.instants)?;
        Ok(None)
    }

    /// The first entry of each CPU into the kernel.
    fn boot(&mut self) -> Result<(), SimulationError> {
        for cpu in 0..self.cpus.len() as u8 {
            let cpu = CpuId(cpu);
            self.board.cpu = cpu;
            self.board.spent = self.lock;
            let outcome = self.kernel.enter(&mut self.board, cpu, Instant::ZERO);
            self.apply(cpu, outcome)?;
        }
        Ok(())
    }

    /// The last instant at which something happened, in nanoseconds.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.board.now
    }

    /// The exit code of the system, once it has ended itself.
    #[must_use]
    pub const fn exit(&self) -> Option<u32> {
        self.board.ended
    }

    /// The records since the last call.
    pub fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.board.records)
    }

    /// The text that tasks have printed by now, if the system has Fusee's server of a console.
    #[must_use]
    pub fn console(&self) -> String {
        self.board.console.clone().all()
    }

    /// Lets a task, by index, fault the first time it runs from the instant `at` on, in nanoseconds.
    pub fn add_fault(&mut self, at: u64, task: usize) {
        self.faults.extend(ThreadId::new(task).map(|thread| (at, thread)));
        self.look_again(at);
    }

    /// The device of a task, by index, and the task's context there, if it uses one.
    pub fn context_of(&self, task: usize) -> Option<(usize, usize)> {
        let one = self.board.uses.iter().find(|one| one.task == task && one.context > 0)?;
        Some((one.device, one.context))
    }

    /// Lets a device misbehave from an instant on.
    pub fn add_mishap(&mut self, mishap: Mishap) {
        let place = self.mishaps.partition_point(|one| one.at <= mishap.at);
        self.mishaps.insert(place, mishap);
        self.look_again(mishap.at);
    }

    /// The present instant has something new, if `at` is not later.
    fn look_again(&mut self, at: u64) {
        if at <= self.board.now && matches!(self.next, Next::Later) {
            self.next = Next::Here;
        }
    }

    /// The results.
    #[must_use]
    pub fn report(mut self, ended_by: EndedBy) -> Report {
        let commands = self.board.commands();
        let threads = || (0..self.actors.len()).filter_map(ThreadId::new);
        let reservations = (0..self.actors.len()).filter_map(ReservationId::new);
        Report {
            exit: self.board.ended,
            ended_by,
            ended_at: self.board.now,
            late_completions: self.board.late_completions(),
            commands,
            own_stores: self.board.own_stores,
            graph_ends: self.board.graph_ends,
            console: self.board.console.all(),
            records: self.board.records,
            traps: self.traps,
            fast: self.fast,
            longest_wait: self.longest_wait,
            states: threads().map(|thread| self.kernel.thread(thread).state()).collect(),
            handles: threads().map(|thread| self.kernel.handles_of(thread)).collect(),
            copied_from: self.kernel.handles_copied_from(),
            debts: reservations.map(|reservation| self.kernel.reservation(reservation).account().debt.0).collect(),
            booked: self.actors.iter_mut().map(Actor::booked).collect(),
            results: self.actors.into_iter().map(|actor| actor.results).collect(),
        }
    }

    /// The list of decisive tasks that have all ended, if there is one.
    fn decisive_end(&self) -> Option<usize> {
        let has_ended = |thread: &ThreadId| self.kernel.thread(*thread).state() == State::Stopped;
        self.decisive.iter().position(|threads| threads.iter().all(has_ended))
    }

    /// Lets the observer see the records since the last time.
    fn show(&mut self, observer: &mut Option<&mut dyn FnMut(&Record)>) {
        if let Some(observer) = observer {
            self.board.records.drain(..).for_each(|record| observer(&record));
        }
    }

    /// Handles everything that happens at the present instant.
    fn settle_instant(&mut self) -> Result<(), SimulationError> {
        let mut rounds = 0;
        while self.board.ended.is_none() {
            let happened = match self.first {
                First::Interrupts => self.timers()? || self.device()? || self.tasks()?,
                First::Tasks => self.tasks()? || self.timers()? || self.device()?,
            };
            if !happened {
                break;
            }
            rounds += 1;
            if rounds > STUCK {
                let task = self.cpus[self.board.cpu.index()].run.map_or(0, ThreadId::index);
                return Err(SimulationError::Stuck { at: self.board.now, task });
            }
        }
        Ok(())
    }

    /// Lets timers and kicks that are due fire; says whether any did.
    fn timers(&mut self) -> Result<bool, SimulationError> {
        let now = self.board.now;
        let mut fired = false;
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].timer <= now && self.cpus[cpu].busy <= now {
                // Its interrupt is a level: it fires again and again, until the kernel sets it anew.
                self.trap(CpuId(cpu as u8), Trap::Timer)?;
                fired = true;
            }
            if self.cpus[cpu].kicked <= now && self.cpus[cpu].busy <= now {
                self.cpus[cpu].kicked = u64::MAX;
                self.trap(CpuId(cpu as u8), Trap::Kick)?;
                fired = true;
            }
        }
        Ok(fired)
    }

    /// Lets one task act, so that its effects come first; returns whether one trapped.
    fn tasks(&mut self) -> Result<bool, SimulationError> {
        if !self.faults.is_empty() && self.fault()? {
            return Ok(true);
        }
        let number = self.cpus.len();
        let first = self.order.as_mut().map_or(0, |order| order.draw(0, number as u64 - 1) as usize);
        for cpu in (first..number).chain(0..first) {
            if self.cpus[cpu].ask <= self.board.now && self.run_task(CpuId(cpu as u8))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets devices and their interrupt lines do the work that is due; returns whether anything happened.
    fn device(&mut self) -> Result<bool, SimulationError> {
        while let Some(mishap) = self.mishaps.pop_front_if(|mishap| mishap.at <= self.board.now) {
            self.board.inject(mishap.device, mishap.context, mishap.wrong);
        }
        self.board.poll_devices();
        for index in 0..self.routes.len() {
            let cpu = self.routes[index];
            if self.board.may_fire(index) && self.cpus[cpu.index()].busy <= self.board.now {
                self.board.pending[index] = false;
                if let Some(interrupt) = InterruptId::new(index) {
                    self.trap(cpu, Trap::Interrupt(interrupt))?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Lets the task on `cpu` act, as its time has come; says whether it trapped.
    fn run_task(&mut self, cpu: CpuId) -> Result<bool, SimulationError> {
        self.tell(cpu);
        let state = &mut self.cpus[cpu.index()];
        let Some(thread) = state.run else {
            state.ask = u64::MAX;
            return Ok(false);
        };
        match self.actors[thread.index()].act(&mut self.board, thread) {
            Action::Burn(left) => {
                state.ask = self.board.now.saturating_add(left);
                Ok(false)
            }
            Action::Trap => {
                self.trap(cpu, Trap::Syscall)?;
                Ok(true)
            }
            Action::Store(store) => {
                self.board.storing = Some((thread, store));
                let trapped = self.trap(cpu, Trap::Fault(FAULT));
                self.board.storing = None;
                trapped.map(|()| true)
            }
            Action::Fault(_) => {
                self.trap(cpu, Trap::Fault(FAULT))?;
                Ok(true)
            }
            Action::Faulted(fault) => {
                self.trap(cpu, Trap::Fault(fault))?;
                Ok(true)
            }
            Action::Failed(why) => Err(SimulationError::Program { at: self.board.now, task: thread.index(), why }),
        }
    }

    /// Lets one task fault when its time has come, if it runs; returns whether one does.
    fn fault(&mut self) -> Result<bool, SimulationError> {
        for cpu in 0..self.cpus.len() {
            let SimulatedCpu { run, busy, .. } = self.cpus[cpu];
            let is_due = |(at, thread): &(u64, ThreadId)| *at <= self.board.now && Some(*thread) == run;
            if let Some(place) = self.faults.iter().position(is_due).filter(|_| busy <= self.board.now) {
                self.faults.swap_remove(place);
                self.trap(CpuId(cpu as u8), Trap::Fault(FAULT))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tells the task on `cpu` how long it has run.
    fn tell(&mut self, cpu: CpuId) {
        let state = &mut self.cpus[cpu.index()];
        if let Some(thread) = state.run {
            self.actors[thread.index()].ran(self.board.now - state.since);
        }
        state.since = self.board.now;
    }

    /// When something happens next; `u64::MAX`: never.
    fn next_instant(&self) -> u64 {
        let mut next = self.board.devices_next().unwrap_or(u64::MAX);
        next = self.faults.iter().map(|(at, _)| *at).filter(|at| *at > self.board.now).fold(next, u64::min);
        next = self.mishaps.front().map_or(next, |mishap| next.min(mishap.at));
        for state in &self.cpus {
            next = next.min(state.timer.min(state.kicked).max(state.busy)).min(state.ask);
        }
        for (index, cpu) in self.routes.iter().enumerate() {
            if self.board.may_fire(index) {
                next = next.min(self.cpus[cpu.index()].busy);
            }
        }
        next
    }

    fn trap(&mut self, cpu: CpuId, trap: Trap) -> Result<(), SimulationError> {
        self.tell(cpu);
        self.traps += 1;
        self.board.cpu = cpu;
        let overheads = self.board.overheads;
        let at = match trap {
            Trap::Syscall | Trap::Fault(_) => None,
            _ => Some(Instant(self.board.now)),
        };
        let waited = self.lock.saturating_sub(self.board.now);
        self.longest_wait = self.longest_wait.max(waited);
        self.board.spent = waited + if at.is_none() { overheads.call() } else { overheads.interrupt };
        let thread = self.cpus[cpu.index()].run;
        let what = self.board.what(thread, trap);
        let (kernel, board) = (&mut self.kernel, &mut self.board);
        // As on a board: the fast paths first.
        let fast = if trap == Trap::Syscall { kernel.fast_calls(board, cpu) } else { None };
        let fast = fast.or_else(|| {
            board.spent += overheads.schedule;
            kernel.fast_trap(board, cpu, Entry { trap, at })
        });
        if fast.is_some() {
            *self.fast.entry(what).or_default() += 1;
        }
        let outcome = fast.unwrap_or_else(|| kernel.slow_trap(board, cpu, Entry { trap, at }));
        for thread in self.board.begun.drain(..) {
            self.actors[thread.index()].begin_again();
        }
        self.board.keep_trap(thread, what, waited);
        self.apply(cpu, outcome)
    }

    fn apply(&mut self, cpu: CpuId, outcome: Outcome) -> Result<(), SimulationError> {
        if self.checks == Checks::Traps {
            self.check()?;
        }
        let end = self.board.now + std::mem::take(&mut self.board.spent);
        self.lock = end;
        let state = &mut self.cpus[cpu.index()];
        state.run = outcome.run;
        state.since = end;
        state.busy = end;
        state.ask = if outcome.run.is_some() { end } else { u64::MAX };
        if let Some(timer) = outcome.timer {
            state.timer = timer.0;
        }
        for other in outcome.kick.iter() {
            let arrives = end + self.board.overheads.interprocessor_interrupt;
            let state = &mut self.cpus[other.index()];
            if arrives <= self.board.now && state.busy <= self.board.now {
                self.trap(other, Trap::Kick)?;
            } else {
                state.kicked = arrives.min(state.kicked);
            }
        }
        Ok(())
    }

    //--- Checks

    fn check(&self) -> Result<(), SimulationError> {
        let holds = self.kernel.check().and_then(|()| self.kernel.check_reach(&self.board));
        holds.map_err(|which| SimulationError::Invariant { at: self.board.now, which })
    }

    /// Makes the checks that are due at the end of the instant with number `instant`.
    fn check_instant(&self, instant: u64) -> Result<(), SimulationError> {
        match self.checks {
            Checks::Traps => {}
            Checks::Instants(every) if every != 0 && instant.is_multiple_of(every) => self.check()?,
            Checks::Instants(_) => return Ok(()),
        }
        if self.board.ended.is_some() || self.cpus.iter().any(|cpu| cpu.kicked != u64::MAX) {
            return Ok(());
        }
        self.kernel.check_settled().map_err(|which| SimulationError::Invariant { at: self.board.now, which })
    }
}

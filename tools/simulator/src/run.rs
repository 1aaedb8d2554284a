//! The loop over events, in the order of their instants.
//!
//! At one instant: timers (lowest CPU first), then the device, then tasks whose computing ends. On a board
//! kernel paths take time, so that what began at a release always ends after the next release that falls
//! on the same instant here; the order agrees.

use fusee_abi::image::{FLAG_MANAGED, System};
use fusee_abi::trace::Record;
use fusee_kernel_core::id::{InterruptId, ThreadId};
use fusee_kernel_core::{CpuId, CpuSet, Entry, Fault, FaultKind, Kernel, Machine, Outcome, Trap};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::actor::{Action, Actor, Program};
use crate::board::Board;

/// Calls a task may make without time passing, before the run is given up: a task that never computes and
/// never waits would hang the simulation.
const STUCK: u32 = 100_000;

/// Why a simulation ended otherwise than by `shutdown` or its time limit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SimulationError {
    /// The kernel refused the system.
    Boot(fusee_kernel_core::BootError),
    /// An invariant of the kernel does not hold.
    Invariant {
        /// When.
        at: u64,
        /// Which.
        which: &'static str,
    },
    /// A task calls and calls and no time passes.
    Stuck {
        /// When.
        at: u64,
        /// Task index.
        task: usize,
    },
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Report {
    /// The trace, in order.
    pub records: Vec<Record>,
    /// Exit code, if the system ended itself.
    pub exit: Option<u32>,
    /// When the simulation ended.
    pub ended_at: u64,
    /// Completions of the device announced too late.
    pub late_completions: u32,
    /// Traps handled.
    pub traps: u64,
    /// For each task with [`Program::Requests`], what its calls returned, in order.
    pub results: Vec<Vec<u64>>,
}

#[derive(Clone, Copy, Debug)]
struct SimulatedCpu {
    run: Option<ThreadId>,
    timer: u64,
    /// When a kick that is on its way arrives.
    kicked: u64,
    /// When the running task was last told how long it ran.
    since: u64,
}

/// A system in execution.
pub struct Simulation {
    kernel: Box<Kernel>,
    board: Board,
    cpus: Vec<SimulatedCpu>,
    actors: Vec<Actor>,
    routes: Vec<CpuId>,
    kick_delay: u64,
    traps: u64,
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
        let cpus = vec![
            SimulatedCpu { run: None, timer: u64::MAX, kicked: u64::MAX, since: 0 };
            system.header().cpus as usize
        ];
        let routes = system.interrupts().iter().map(|interrupt| CpuId(interrupt.cpu as u8)).collect();
        let actors = programs.into_iter().map(Actor::new).collect();
        Ok(Simulation { kernel, board: Board::new(system, managed), cpus, actors, routes, kick_delay: 0, traps: 0 })
    }

    /// Lets kicks arrive so many nanoseconds later: until then a CPU goes on with what it runs.
    #[must_use]
    pub fn with_kick_delay(mut self, delay: u64) -> Simulation {
        self.kick_delay = delay;
        self
    }

    /// Runs until the system ends itself, at the latest until `limit` nanoseconds.
    ///
    /// # Errors
    /// [`SimulationError`], with the trace lost: it is a defect of the kernel or of a script.
    pub fn run(mut self, limit: u64) -> Result<Report, SimulationError> {
        for cpu in 0..self.cpus.len() as u8 {
            let cpu = CpuId(cpu);
            self.board.cpu = cpu;
            let outcome = self.kernel.enter(&mut self.board, cpu, Instant::ZERO);
            self.apply(cpu, outcome)?;
        }
        while self.board.ended.is_none() {
            self.settle_instant()?;
            if self.board.ended.is_none() && self.cpus.iter().all(|cpu| cpu.kicked == u64::MAX) {
                let at = self.board.now;
                self.kernel.check_settled().map_err(|which| SimulationError::Invariant { at, which })?;
            }
            let Some(next) = self.next_instant().filter(|next| *next <= limit) else { break };
            self.board.now = next;
        }
        Ok(Report {
            exit: self.board.ended,
            ended_at: self.board.now,
            late_completions: self.board.late_completions(),
            records: self.board.records,
            traps: self.traps,
            results: self.actors.into_iter().map(|actor| actor.results).collect(),
        })
    }

    /// Handles everything that happens at the present instant.
    fn settle_instant(&mut self) -> Result<(), SimulationError> {
        let mut quiet = false;
        let mut rounds = 0;
        while !quiet && self.board.ended.is_none() {
            quiet = true;
            for cpu in 0..self.cpus.len() {
                if self.cpus[cpu].timer <= self.board.now {
                    self.cpus[cpu].timer = u64::MAX;
                    self.trap(CpuId(cpu as u8), Trap::Timer)?;
                    quiet = false;
                }
                if self.cpus[cpu].kicked <= self.board.now {
                    self.cpus[cpu].kicked = u64::MAX;
                    self.trap(CpuId(cpu as u8), Trap::Kick)?;
                    quiet = false;
                }
            }
            if quiet && self.device()? {
                quiet = false;
            }
            if !quiet {
                continue;
            }
            // One task at a time, so that what it causes comes first.
            for cpu in 0..self.cpus.len() {
                if self.run_task(CpuId(cpu as u8))? {
                    quiet = false;
                    rounds += 1;
                    if rounds > STUCK {
                        let task = self.cpus[cpu].run.map_or(0, ThreadId::index);
                        return Err(SimulationError::Stuck { at: self.board.now, task });
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    /// Lets the device and its interrupt line do what is due; says whether anything happened.
    fn device(&mut self) -> Result<bool, SimulationError> {
        if self.board.device_next.is_some_and(|next| next <= self.board.now)
            && self.board.poll_device()
            && let Some(interrupt) = self.board.device_interrupt
        {
            self.board.pending[interrupt] = true;
        }
        for index in 0..self.routes.len() {
            if self.board.pending[index] && self.board.is_enabled(index) {
                self.board.pending[index] = false;
                if let Some(interrupt) = InterruptId::new(index) {
                    self.trap(self.routes[index], Trap::Interrupt(interrupt))?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Lets the task on `cpu` act if its time has come; says whether it trapped.
    fn run_task(&mut self, cpu: CpuId) -> Result<bool, SimulationError> {
        self.tell(cpu);
        let Some(thread) = self.cpus[cpu.index()].run else { return Ok(false) };
        match self.actors[thread.index()].act(&mut self.board, thread) {
            Action::Burn(_) => Ok(false),
            Action::Trap => {
                self.trap(cpu, Trap::Syscall)?;
                Ok(true)
            }
            Action::Fault(_) => {
                let fault = Fault { kind: FaultKind::Write, address: None, syndrome: 0 };
                self.trap(cpu, Trap::Fault(fault))?;
                Ok(true)
            }
        }
    }

    /// Tells the task on `cpu` how long it has run.
    fn tell(&mut self, cpu: CpuId) {
        let state = &mut self.cpus[cpu.index()];
        if let Some(thread) = state.run {
            self.actors[thread.index()].ran(self.board.now - state.since);
        }
        state.since = self.board.now;
    }

    fn next_instant(&mut self) -> Option<u64> {
        let mut next = self.board.device_next;
        for cpu in 0..self.cpus.len() {
            let state = self.cpus[cpu];
            let mut earliest = state.timer.min(state.kicked);
            if let Some(thread) = state.run
                && let Action::Burn(left) = self.actors[thread.index()].act(&mut self.board, thread)
            {
                earliest = earliest.min(state.since + left);
            }
            if earliest != u64::MAX {
                next = Some(next.map_or(earliest, |next| next.min(earliest)));
            }
        }
        next
    }

    fn trap(&mut self, cpu: CpuId, trap: Trap) -> Result<(), SimulationError> {
        self.tell(cpu);
        let at = match trap {
            Trap::Syscall | Trap::Fault(_) => None,
            _ => Some(self.board.now()),
        };
        self.traps += 1;
        self.board.cpu = cpu;
        // As on a board: the short paths first.
        if trap == Trap::Syscall
            && let Some(thread) = self.kernel.quick_call(&mut self.board, cpu)
        {
            return self.apply(cpu, Outcome { run: Some(thread), timer: None, kick: CpuSet::EMPTY });
        }
        let outcome = self.kernel.trap(&mut self.board, cpu, Entry { trap, at, waited: Nanoseconds::ZERO });
        self.apply(cpu, outcome)
    }

    fn apply(&mut self, cpu: CpuId, outcome: Outcome) -> Result<(), SimulationError> {
        self.kernel.check().map_err(|which| SimulationError::Invariant { at: self.board.now, which })?;
        let state = &mut self.cpus[cpu.index()];
        state.run = outcome.run;
        state.since = self.board.now;
        if let Some(timer) = outcome.timer {
            state.timer = timer.0;
        }
        for other in outcome.kick.iter() {
            if self.kick_delay == 0 {
                self.trap(other, Trap::Kick)?;
            } else {
                let arrives = self.board.now + self.kick_delay;
                let kicked = &mut self.cpus[other.index()].kicked;
                *kicked = arrives.min(*kicked);
            }
        }
        Ok(())
    }
}

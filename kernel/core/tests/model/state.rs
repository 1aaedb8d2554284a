//! One state of a model: the kernel, and the real acts of its CPUs; and all that may happen next.

mod gates;

pub use gates::{Marks, Progress};

use std::hash::Hasher;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fusee_abi::Error;
use fusee_abi::call::{Call, DEADLINE, FIRST_WORD, GIVEN, MESSAGE_WORDS, NEVER, NUMBER, TOKEN};
use fusee_kernel_core::id::{InterruptId, ReservationId, ThreadId};
use fusee_kernel_core::limits::{CPUS, THREADS};
use fusee_kernel_core::object::{self, Payer};
use fusee_kernel_core::{CpuId, Kernel, Outcome, Trap};
use fusee_sched::time::{Instant, Nanoseconds};

use super::{Step, System, TICK};
use crate::table::device::{Move, Tape};
use crate::table::{Board, BoardCpu, MULTIPLIERS, mixed};

/// Where a request names its client, which the server gives back with the reply.
const NAME: usize = FIRST_WORD + MESSAGE_WORDS - 1;

/// The next step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// A CPU enters service.
    Enter(CpuId),
    /// The kick that is on its way to a CPU arrives.
    Kick(CpuId),
    /// A kick arrives without a sender.
    Look(CpuId),
    /// A CPU's timer fires.
    Timer(CpuId),
    /// A line fires.
    Interrupt(CpuId, InterruptId),
    /// The task that a CPU executes makes this call of its alphabet.
    Call(CpuId, usize),
    /// The device does something on an engine.
    Device(usize, Move),
    /// Time passes.
    Tick,
    /// The model's fault happens on this CPU.
    Fail(CpuId),
}

/// Faults of a machine, so that the checks have something to find.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// A kick never arrives.
    LosesKick,
    /// A CPU handles a kick, but goes on with the thread that it executed before.
    IgnoresOutcome,
}

/// A state: an action leads from one to another.
#[derive(Clone)]
pub struct State {
    kernel: Kernel,
    board: Board<true>,
    failed: bool,
    /// The engines that each thread has asked for last.
    wants: [u32; THREADS],
}

impl State {
    /// `system`, booted; no CPU has entered service.
    pub fn boot(system: &System) -> State {
        let mut kernel = Kernel::EMPTY;
        kernel.boot(&system.image()).unwrap_or_else(|error| panic!("{error:?}"));
        let mut state = State { kernel, board: Board::new(), failed: false, wants: [0; THREADS] };
        state.build_device(system);
        state
    }

    /// The acts of the device in the next trap.
    pub fn put(&mut self, tape: Tape) {
        self.board.tape = tape;
        self.board.tape.rewind();
    }

    /// The same, with all that was chosen.
    pub fn tape(&self) -> &Tape {
        &self.board.tape
    }

    /// The first CPU to which a kick is on its way.
    fn kicked(&self) -> Option<CpuId> {
        let is_kicked = |cpu: &BoardCpu| cpu.entered && cpu.kicked;
        self.kernel.cpus().find(|cpu| is_kicked(&self.board.cpus[cpu.index()]))
    }

    /// Everything that may happen next.
    pub fn actions(&self, system: &System) -> Vec<Action> {
        let board = &self.board;
        let mut actions = Vec::new();
        for cpu in self.kernel.cpus() {
            let state = &board.cpus[cpu.index()];
            if !state.entered {
                // The boot CPU comes first.
                if cpu == CpuId(0) || board.cpus[0].entered {
                    actions.push(Action::Enter(cpu));
                }
                continue;
            }
            if state.kicked {
                actions.push(Action::Kick(cpu));
            } else if system.model.ticks == 0 && system.model.gates.is_none() {
                actions.push(Action::Look(cpu));
            }
            if state.timer <= board.now {
                actions.push(Action::Timer(cpu));
            }
            if let Some(thread) = state.executes {
                let calls = 0..system.handles[thread.index()].len();
                let may = |call: &usize| self.may_call(system, thread, *call);
                actions.extend(calls.filter(may).map(|call| Action::Call(cpu, call)));
            }
            if state.kicked && system.model.fault.is_some() && !self.failed {
                actions.push(Action::Fail(cpu));
            }
        }
        for (number, (_, _, cluster)) in system.model.lines.iter().enumerate() {
            let cpu = CpuId(system.model.clusters[..*cluster].iter().sum());
            if let Some(line) = InterruptId::new(number)
                && board.enabled[number]
                && board.cpus[cpu.index()].entered
                && self.may_fire(system, number)
            {
                actions.push(Action::Interrupt(cpu, line));
            }
        }
        self.device_actions(&mut actions);
        let on_time = |cpu: &BoardCpu| cpu.timer.0.saturating_add(system.model.late * TICK) > board.now.0;
        if board.now.0 < system.model.ticks * TICK && board.cpus.iter().all(on_time) && self.device_lets_time_pass() {
            actions.push(Action::Tick);
        }
        actions
    }

    /// Lets `action` happen, and checks all that must hold afterwards.
    ///
    /// # Errors
    /// The violated condition.
    pub fn act(&mut self, system: &System, action: Action) -> Result<(), String> {
        match action {
            Action::Enter(cpu) => {
                let outcome = self.board.enter(&mut self.kernel, cpu);
                self.apply(cpu, outcome)?;
            }
            Action::Kick(cpu) | Action::Look(cpu) => {
                self.board.cpus[cpu.index()].kicked = false;
                self.trap(cpu, Trap::Kick)?;
            }
            Action::Timer(cpu) => {
                self.board.cpus[cpu.index()].timer = Instant::NEVER;
                self.trap(cpu, Trap::Timer)?;
            }
            Action::Interrupt(cpu, line) => {
                self.board.device.interrupts &= line.index() != 0;
                self.trap(cpu, Trap::Interrupt(line))?;
            }
            Action::Call(cpu, call) => self.call(system, cpu, call)?,
            Action::Device(engine, what) => self.board.device.act(engine, what, self.board.enabled[0]),
            Action::Tick => self.board.now += Nanoseconds(TICK),
            Action::Fail(cpu) => self.fail(system, cpu)?,
        }
        self.check(system)
    }

    fn fail(&mut self, system: &System, cpu: CpuId) -> Result<(), String> {
        self.failed = true;
        let state = &mut self.board.cpus[cpu.index()];
        state.kicked = false;
        if system.model.fault == Some(Fault::IgnoresOutcome) {
            let before = state.executes;
            self.trap(cpu, Trap::Kick)?;
            self.board.cpus[cpu.index()].executes = before;
        }
        Ok(())
    }

    fn trap(&mut self, cpu: CpuId, trap: Trap) -> Result<(), String> {
        let mut long = self.clone();
        let by = |state: &mut State, path: fn(&mut Board<true>, &mut Kernel, CpuId, Trap) -> Outcome| {
            let (kernel, board) = (&mut state.kernel, &mut state.board);
            catch_unwind(AssertUnwindSafe(|| path(board, kernel, cpu, trap))).map_err(|_| "the kernel panicked")
        };
        let outcome = by(self, Board::trap)?;
        if outcome != by(&mut long, Board::slow_trap)? || !self.is_exactly(&long) {
            return Err("a fast switch did not do what the slow path does".into());
        }
        self.apply(cpu, outcome)
    }

    /// Whether this is `other` in all that the kernel decides by or counts.
    fn is_exactly(&self, other: &State) -> bool {
        let words = |state: &State| {
            let mut words = Words::new();
            state.kernel.hash_state(state.board.now, &mut words);
            words.0
        };
        let reservations = (0..THREADS).filter_map(ReservationId::new);
        let threads = (0..THREADS).filter_map(ThreadId::new);
        words(self) == words(other)
            && self.board.registers == other.board.registers
            && self.board.enabled == other.board.enabled
            && self.board.holds == other.board.holds
            && self.board.device == other.board.device
            && self.board.traced == other.board.traced
            && self.kernel.cpus().all(|cpu| self.kernel.cpu(cpu) == other.kernel.cpu(cpu))
            && { reservations }.all(|one| self.kernel.reservation(one) == other.kernel.reservation(one))
            && { threads }.all(|one| self.kernel.thread(one).statistics() == other.kernel.thread(one).statistics())
    }

    fn call(&mut self, system: &System, cpu: CpuId, call: usize) -> Result<(), String> {
        let Some(thread) = self.board.cpus[cpu.index()].executes else { return Ok(()) };
        let step = system.model.tasks[thread.index()].alphabet[call];
        let [handle, second] = [&system.handles, &system.seconds].map(|of| of[thread.index()][call]);
        if self.touch_device(system, thread, step, second as usize) {
            return Ok(());
        }
        self.prepare(thread, step, handle, second);
        if self.kernel.thread(thread).state() != object::State::Ready {
            return self.last_call(system, cpu, thread);
        }
        let mut long = self.clone();
        match self.board.fast_call(&mut self.kernel, cpu) {
            Some(outcome) => {
                // A path that lets another thread run by a lock, or books time, is a switch as exact as others.
                let is_lock = !matches!(step, Step::Call(_) | Step::CallFor(..) | Step::Serve(_));
                let books = self.kernel.cpu(cpu).mark() != long.kernel.cpu(cpu).mark();
                if books || is_lock && outcome.run != Some(thread) {
                    let mut exact = long.clone();
                    let slow = exact.board.slow_trap(&mut exact.kernel, cpu, Trap::Syscall);
                    if outcome != slow || !self.is_exactly(&exact) {
                        return Err("a fast path of a lock or a busy server did not do what the slow path does".into());
                    }
                }
                self.apply(cpu, outcome)?;
                if self.has_entered() {
                    long.trap(cpu, Trap::Syscall)?;
                    self.compare(system, cpu, long)?;
                }
            }
            None => self.trap(cpu, Trap::Syscall)?,
        }
        // Told that no client waits for this reply any more, a server forgets it.
        let general = &mut self.board.registers[thread.index()].general;
        if general[0] == Error::BadToken as u64 {
            general[TOKEN] = 0;
        }
        Ok(())
    }

    /// `thread`, which another CPU has stopped or suspended, calls before its own CPU has heard of it: as if a kick had arrived.
    fn last_call(&mut self, system: &System, cpu: CpuId, thread: ThreadId) -> Result<(), String> {
        let mut kicked = self.clone();
        kicked.trap(cpu, Trap::Kick)?;
        if self.board.fast_call(&mut self.kernel, cpu).is_some() {
            return Err("a call of the dead or suspended is handled by a fast path".into());
        }
        self.trap(cpu, Trap::Syscall)?;
        // A suspended thread calls again when it goes on.
        self.board.registers[thread.index()].program_counter = 0;
        // The kick that is on its way still is.
        let same = |of: ThreadId| self.kernel.thread(of).state() == kicked.kernel.thread(of).state();
        if !system.threads().all(same) || self.board.registers != kicked.board.registers {
            return Err(format!("{}, dead or suspended, still did something", system.name(thread)));
        }
        Ok(())
    }

    /// Puts a call into the registers of `thread`.
    fn prepare(&mut self, thread: ThreadId, step: Step, handle: u64, second: u64) {
        let until = |ticks: u64| self.board.now.0 + ticks * TICK;
        let (number, deadline) = match step {
            Step::Wait(_) => (Call::Wait, NEVER),
            Step::WaitFor(_, ticks) => (Call::Wait, until(ticks)),
            Step::Signal(_) => (Call::Signal, NEVER),
            Step::Call(_) => (Call::Call, NEVER),
            Step::CallFor(_, ticks) => (Call::Call, until(ticks)),
            Step::Send(_) | Step::SendGift(_) => (Call::Send, NEVER),
            Step::Serve(_) => (Call::ReplyReceive, NEVER),
            Step::NextJob => (Call::NextJob, NEVER),
            Step::Yield => (Call::Yield, NEVER),
            Step::Sleep(ticks) => (Call::SleepUntil, until(ticks)),
            Step::Exit => (Call::Exit, NEVER),
            Step::Stop(_) => (Call::Stop, NEVER),
            Step::Restart => (Call::Restart, NEVER),
            Step::Await(ticks) => (Call::Wait, until(ticks)),
            Step::Acknowledge(_) => (Call::InterruptAck, NEVER),
            Step::Acquire(_) => (Call::Acquire, NEVER),
            Step::AcquireFor(_, ticks) => (Call::Acquire, until(ticks)),
            Step::AcquireBoth(..) => (Call::AcquireGroup, NEVER),
            Step::Release(_) | Step::Give(_) => (Call::Release, NEVER),
            Step::Take(_) => (Call::Acquire, NEVER),
            Step::TakeFor(_, ticks) => (Call::Acquire, until(ticks)),
            Step::Complete(..) => (Call::EngineComplete, NEVER),
            Step::Submit(_) | Step::Reset(_) => return,
        };
        let general = &mut self.board.registers[thread.index()].general;
        general[0] = handle;
        general[1] = if number == Call::EngineComplete { second } else { 1 };
        general[NUMBER] = number as u64;
        general[DEADLINE] = deadline;
        general[GIVEN] = if let Step::SendGift(_) = step { u64::MAX } else { 0 };
        if number == Call::AcquireGroup {
            general[FIRST_WORD..FIRST_WORD + 3].copy_from_slice(&[second, 0, 0]);
        }
        if number == Call::Call {
            general[NAME] = u64::from(thread.number());
        }
    }

    /// The CPU does as the kernel said.
    fn apply(&mut self, cpu: CpuId, outcome: Outcome) -> Result<(), String> {
        if let Some(thread) = self.board.touched {
            return Err(format!("the kernel touched the registers of thread {} while it executed", thread.index()));
        }
        let elsewhere = |other: CpuId| other != cpu && self.board.cpus[other.index()].executes == outcome.run;
        if outcome.run.is_some()
            && let Some(other) = self.kernel.cpus().find(|other| elsewhere(*other))
        {
            return Err(format!("CPU {} runs what CPU {} still executes", cpu.0, other.0));
        }
        let state = |thread: ThreadId| self.kernel.thread(thread).state();
        if outcome.run.is_some_and(|thread| state(thread) == object::State::Stopped) {
            return Err("a dead thread is to run".into());
        }
        self.board.apply(cpu, outcome);
        Ok(())
    }

    /// The fast path led here, and the slow path there: once all kicks have arrived, they are the same but for the
    /// CPUs that they chose.
    fn compare(&self, system: &System, cpu: CpuId, mut long: State) -> Result<(), String> {
        let mut short = self.clone();
        for state in [&mut short, &mut long] {
            state.trap(cpu, Trap::Kick)?;
            while let Some(kicked) = state.kicked() {
                state.board.cpus[kicked.index()].kicked = false;
                state.trap(kicked, Trap::Kick)?;
            }
        }
        let is_same = |thread: ThreadId| {
            let (one, other) = (short.kernel.thread(thread), long.kernel.thread(thread));
            let executes = |state: &State| state.board.cpus.iter().any(|cpu| cpu.executes == Some(thread));
            one.state() == other.state()
                && (one.on().is_none() || one.chosen() == other.chosen())
                && executes(&short) == executes(&long)
        };
        let board = |state: &State| (state.board.registers, state.board.holds, state.board.enabled, state.board.device);
        if !system.threads().all(is_same) || board(&short) != board(&long) {
            return Err("a fast path did not do what the slow path does".into());
        }
        Ok(())
    }

    //--- Checks --------------------------------------------------------------------------------------------

    /// Checks the conditions that hold after every trap.
    fn check(&self, system: &System) -> Result<(), String> {
        self.kernel.check()?;
        self.kernel.check_reach(&self.board)?;
        let name = |thread: ThreadId| self.board.registers[thread.index()].general[NAME];
        let stranger = |thread: &ThreadId| name(*thread) != 0 && name(*thread) != u64::from(thread.number());
        if let Some(client) = system.threads().filter(|thread| !system.servers.contains(thread)).find(stranger) {
            return Err(format!("{} got the reply to another", system.name(client)));
        }
        if system.users.iter().any(|(mutex, _)| self.holders(system, *mutex).count() > 1) {
            return Err("two tasks hold one mutex".into());
        }
        self.check_gates(system)?;
        let mut payers = Vec::with_capacity(CPUS);
        for cpu in self.kernel.cpus().filter(|cpu| self.board.cpus[cpu.index()].entered) {
            let state = self.kernel.cpu(cpu);
            if let Payer::Reservation(reservation) = state.payer() {
                if payers.contains(&reservation) {
                    return Err("two CPUs run at the expense of one reservation".into());
                }
                payers.push(reservation);
            }
            if self.board.cpus[cpu.index()].timer != state.armed() {
                return Err(format!("the timer of CPU {} is not set to what the kernel believes", cpu.0));
            }
        }
        Ok(())
    }

    /// Checks the conditions that hold if no kick is on its way.
    ///
    /// # Errors
    /// The violated condition.
    pub fn check_settled(&self, system: &System) -> Result<(), String> {
        if self.kicked().is_none() {
            self.kernel.check_settled()?;
            if self.has_entered() {
                self.runs_the_earliest(system)?;
            }
        }
        Ok(())
    }

    /// Whether all CPUs are in service.
    fn has_entered(&self) -> bool {
        self.kernel.cpus().all(|cpu| self.board.cpus[cpu.index()].entered)
    }

    /// The oracle: in each cluster, of the reservations with budget that carry a ready thread, the earliest run.
    ///
    /// It takes from the kernel the states of threads, the owners of reservations, keys, and exhausted budgets; the rest
    /// is the donation rule, read anew.
    fn runs_the_earliest(&self, system: &System) -> Result<(), String> {
        let mut first_cpu = 0;
        for (cluster, count) in system.model.clusters.iter().enumerate() {
            let mut ready: Vec<(ReservationId, ThreadId)> = system
                .threads()
                .filter(|thread| self.kernel.thread(*thread).state() == object::State::Ready)
                .filter_map(|thread| Some((self.best(system, thread)?, thread)))
                .filter(|(reservation, _)| self.cluster_of(*reservation) == cluster)
                .collect();
            ready.sort_by_key(|(reservation, _)| self.kernel.reservation(*reservation).key());
            let mut wanted: Vec<ThreadId> = ready.iter().take(usize::from(*count)).map(|(_, thread)| *thread).collect();
            let cpus = first_cpu..first_cpu + usize::from(*count);
            first_cpu = cpus.end;
            let mut runs: Vec<ThreadId> = cpus.filter_map(|cpu| self.board.cpus[cpu].executes).collect();
            wanted.sort_unstable();
            runs.sort_unstable();
            if wanted != runs {
                let names = |threads: &[ThreadId]| {
                    threads.iter().map(|thread| system.name(*thread)).collect::<Vec<_>>().join(" and ")
                };
                return Err(format!("{} should run, not {}", names(&wanted), names(&runs)));
            }
        }
        Ok(())
    }

    /// The reservation that carries `thread`: its own or a donor's, the earliest with budget. Across clusters keys
    /// cannot be compared: there the client that is being served counts, and any client rather than none.
    fn best(&self, system: &System, thread: ThreadId) -> Option<ReservationId> {
        let own = self.kernel.thread(thread).own().filter(|own| !self.kernel.reservation(*own).is_throttled());
        let donors = || system.threads().filter(|donor| self.donee(system, *donor) == Some(thread));
        let mut candidates: Vec<ReservationId> = donors().filter_map(|donor| self.best(system, donor)).collect();
        let is_served =
            |donor: &ThreadId| matches!(self.kernel.thread(*donor).state(), object::State::AwaitingReply { .. });
        let served = donors().filter(is_served).find_map(|donor| self.best(system, donor));
        if served.is_none() && candidates.iter().any(|one| self.cluster_of(*one) != self.cluster_of(candidates[0])) {
            // The rule leaves it open.
            return self.kernel.thread(thread).chosen();
        }
        let leading = served.or(candidates.first().copied()).or(own).map(|leading| self.cluster_of(leading));
        candidates.extend(own);
        candidates.retain(|candidate| Some(self.cluster_of(*candidate)) == leading);
        candidates.into_iter().min_by_key(|candidate| self.kernel.reservation(*candidate).key())
    }

    /// The thread for which `thread` waits.
    fn donee(&self, system: &System, thread: ThreadId) -> Option<ThreadId> {
        match self.kernel.thread(thread).state() {
            object::State::Calling(_) if self.kernel.thread(thread).sends() => None,
            object::State::Calling(endpoint) => Some(system.servers[endpoint.index()]),
            object::State::AwaitingReply { server, .. } => Some(server),
            object::State::Waiting(notification) => system.bound[notification.index()],
            object::State::Acquiring(user) => {
                // Without a holder it waits for the end of the running command, and lends to the driver, which will hear of that.
                let holder = self.holders(system, system.users[user.index()].0).next();
                holder.map_or(system.driver, |holder| holder).filter(|donee| *donee != thread)
            }
            // The kernel's own check compares it with the queue, the pool, or the record of jobs.
            object::State::AwaitingGroup { .. }
            | object::State::AwaitingToken { .. }
            | object::State::AwaitingTurn { .. }
            | object::State::Donating => self.kernel.thread(thread).donates_to(),
            _ => None,
        }
    }

    /// The holder of `mutex`.
    fn holders(&self, system: &System, mutex: u32) -> impl Iterator<Item = Option<ThreadId>> {
        let users = system.users.iter().zip(&self.board.holds);
        users.filter(move |((of, _), holds)| *of == mutex && **holds).map(|((_, task), _)| *task)
    }

    fn cluster_of(&self, reservation: ReservationId) -> usize {
        self.kernel.reservation(reservation).cluster().map_or(usize::MAX, |cluster| cluster.index())
    }

    //--- Identity and words --------------------------------------------------------------------------------

    /// A digest that differs from that of each other state: two hashes with different seeds of everything that matters from here on.
    pub fn fingerprint(&self, system: &System) -> u128 {
        let mut hasher = Words::new();
        self.kernel.hash_state(self.board.now, &mut hasher);
        hasher.write_u8(u8::from(self.failed));
        self.board.enabled.iter().for_each(|enabled| hasher.write_u8(u8::from(*enabled)));
        self.board.holds.iter().for_each(|holds| hasher.write_u8(u8::from(*holds)));
        self.hash_device(&mut hasher);
        for cpu in self.kernel.cpus() {
            let state = &self.board.cpus[cpu.index()];
            hasher.write_u8(u8::from(state.entered) | u8::from(state.kicked) << 1);
            hasher.write_u16(state.executes.map_or(0, ThreadId::number));
            let never = state.timer == Instant::NEVER;
            hasher.write_u64(if never { NEVER } else { state.timer.0.wrapping_sub(self.board.now.0) });
        }
        for thread in system.threads() {
            // Of all registers only the token outlives a call.
            let reply = self.board.registers[thread.index()].general[TOKEN];
            hasher.write_u8(u8::from(reply != 0));
            hasher.write_u16(self.kernel.client_of(thread, reply).map_or(0, ThreadId::number));
        }
        hasher.hashed()
    }

    /// The `action` in words.
    pub fn words(&self, system: &System, action: Action) -> String {
        let at = |cpu: CpuId| match self.board.cpus[cpu.index()].executes {
            Some(thread) => format!("CPU {} ({})", cpu.0, system.name(thread)),
            None => format!("CPU {} (idle)", cpu.0),
        };
        match action {
            Action::Enter(cpu) => format!("CPU {} enters service", cpu.0),
            Action::Kick(cpu) => format!("{}: the kick arrives", at(cpu)),
            Action::Look(cpu) => format!("{}: a kick that nobody sent arrives", at(cpu)),
            Action::Timer(cpu) => format!("{}: the timer fires", at(cpu)),
            Action::Call(cpu, call) => {
                let thread = self.board.cpus[cpu.index()].executes.map_or(0, ThreadId::index);
                format!("{}: {:?}", at(cpu), system.model.tasks[thread].alphabet[call])
            }
            Action::Interrupt(cpu, line) => format!("{}: {} fires", at(cpu), system.model.lines[line.index()].0),
            Action::Device(engine, what) => format!("{} of the device: {what:?}", system.engines[engine]),
            Action::Tick => "a tick passes".into(),
            Action::Fail(cpu) => format!("{}: the machine fails: {:?}", at(cpu), system.model.fault),
        }
    }

    /// The acts of the CPUs, in words.
    pub fn situation(&self, system: &System) -> String {
        let each = |cpu: CpuId| {
            let state = &self.board.cpus[cpu.index()];
            let runs = match state.executes {
                Some(thread) => system.name(thread),
                None if state.entered => "idle",
                None => "off",
            };
            format!("{}: {runs}{}", cpu.0, if state.kicked { " (kicked)" } else { "" })
        };
        let device = self.device_situation(system);
        self.kernel.cpus().map(each).chain(device).collect::<Vec<_>>().join(", ")
    }
}

/// The words that tell one state from others: compared whole where two states are at hand, and hashed where states are kept.
struct Words(Vec<u64>);

impl Words {
    fn new() -> Words {
        // More than any model of ours has, so that the list never grows.
        Words(Vec::with_capacity(1024))
    }

    /// Two 64-bit hashes of all words, with different seeds and multipliers. Each step takes two words: a full product, folded, so that every bit of
    /// both reaches every bit of the hash.
    fn hashed(&self) -> u128 {
        let mut hashes = [0x243f_6a88_85a3_08d3_u64, 0x1319_8a2e_0370_7344];
        let (pairs, rest) = self.0.as_chunks::<2>();
        for [one, other] in pairs {
            for (hash, multiplier) in hashes.iter_mut().zip(MULTIPLIERS) {
                *hash = mixed(*hash, *one, multiplier ^ other);
            }
        }
        for (hash, multiplier) in hashes.iter_mut().zip(MULTIPLIERS) {
            for word in rest.iter().copied().chain([self.0.len() as u64]) {
                *hash = mixed(*hash, word, multiplier);
            }
        }
        u128::from(hashes[0]) << 64 | u128::from(hashes[1])
    }
}

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0.push(word);
    }

    #[inline]
    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    #[inline]
    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    /// Nothing asks for it: [`Words::hashed`] has more bits.
    fn finish(&self) -> u64 {
        self.hashed() as u64
    }
}

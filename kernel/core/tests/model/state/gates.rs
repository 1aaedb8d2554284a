//! Engines with gates, and their conditions.
//!
//! After every action, by the orders to the machine and the waits of threads, with nothing from the kernel's locks:
//!
//! 1. No shared command runs while a task has the doorbell of the engine, or while a command of one runs. So none begins then, and nobody
//!    is granted the engine before the one that ran has ended or was reset.
//! 2. No thread is granted an engine while the command of another runs.
//! 3. The gate is shut while a task has the doorbell or waits for it, and while a command of one runs.
//! 4. A waiter lends to the holder; without one, to the driver. So no waiter lends to clients without a lock.
//! 5. A reset is asked of a shared command that runs when its time from the shut gate is over: not before, and not after.
//!
//! That no thread waits for ever is said of all states together, by [`Progress`]: from each state in which the premise holds there is a way by
//! those actions alone to one where the end holds.
//!
//! | | Premise | Actions | End |
//! |---|---|---|---|
//! | prompt | a gate is shut, nobody has the engine, and no reset was asked for | no call of a user but `wait`, no death, no time passes | the gate is open, or somebody has the engine |
//! | hung | the same | the same, but time passes, and no command ends by itself | the same |
//! | silent | a task waits for an engine that nobody has, for long, or behind a dead driver | the same, and the driver makes no call | nobody waits for it, or somebody has it |
//!
//! The last release opens the gate, and so does the end of all users: that is "prompt". Where engines are a group, the whole group counts as one.

use std::hash::Hasher;

use fusee_kernel_core::id::{EngineUserId, ThreadId};
use fusee_kernel_core::object;
use fusee_sched::time::Nanoseconds;

use super::{Action, State, Step, System, TICK, Words};
use crate::table::device::{Engine, Move, Shared};

/// One of the three ways on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    Prompt,
    Hung,
    Silent,
}

impl Progress {
    pub const ALL: [Progress; 3] = [Progress::Prompt, Progress::Hung, Progress::Silent];

    /// One bit of each.
    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether an action that [helps](State::helps) so is one of its.
    pub fn takes(self, helps: u8) -> bool {
        helps & self.bit() != 0
    }

    /// The problem if there is no way.
    pub fn words(self) -> &'static str {
        match self {
            Progress::Prompt => "a gate stays shut for nobody, or somebody waits for an idle engine for ever",
            Progress::Hung => "a command that does not end is not reset",
            Progress::Silent => "somebody waits for ever, though the driver is dead or does not answer",
        }
    }
}

/// The parts of [`Progress`] that begin and that have ended in a state, for each unit of engines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    begun: [u8; 2],
    ended: [u8; 2],
}

impl Marks {
    /// Whether the premise holds for this unit.
    pub fn begins(self, unit: usize, progress: Progress) -> bool {
        self.begun[unit] & progress.bit() != 0
    }

    /// Whether the end does.
    pub fn has_ended(self, unit: usize, progress: Progress) -> bool {
        self.ended[unit] & progress.bit() != 0
    }
}

impl State {
    //--- Possible steps ----------------------------------------------------------------------------------------

    pub(super) fn build_device(&mut self, system: &System) {
        let Some(gates) = system.model.gates else { return };
        let device = &mut self.board.device;
        device.count = system.engines.len();
        device.longest = Nanoseconds(gates.longest * TICK);
        device.wrong = gates.wrong;
        for (of, (engine, _)) in device.engine_of.iter_mut().zip(&system.users) {
            *of = *engine as usize;
        }
    }

    pub(super) fn device_actions(&self, actions: &mut Vec<Action>) {
        if self.has_entered() {
            for engine in 0..self.board.device.count {
                actions.extend(self.board.device.moves(engine).map(|what| Action::Device(engine, what)));
            }
        }
    }

    /// Commands take ticks; all else that a device does is quicker, and so are its interrupts, if their line may fire.
    pub(super) fn device_lets_time_pass(&self) -> bool {
        let device = &self.board.device;
        let rests = |engine: &Engine| matches!(engine.shared, Shared::Quiet | Shared::Running);
        device.engines[..device.count].iter().all(rests) && !(device.interrupts && self.board.enabled[0])
    }

    /// Whether `thread` makes this call here: stores need their doorbell; a driver resets the engines that it was asked to,
    /// and acknowledges its line before it waits for the next interrupt.
    pub(super) fn may_call(&self, system: &System, thread: ThreadId, call: usize) -> bool {
        let lives = self.kernel.thread(thread).state() != object::State::Stopped;
        let engine = |of: usize| &self.board.device.engines[of];
        let named = system.seconds[thread.index()][call] as usize;
        match system.model.tasks[thread.index()].alphabet[call] {
            Step::Submit(_) => {
                let user = user_of(system, thread, named);
                lives && self.board.holds[user.index()] && engine(named).own.is_none()
            }
            Step::Reset(_) => {
                let Engine { asked, own, shared, .. } = *engine(named);
                lives && asked && (own.is_some() || shared == Shared::Running)
            }
            Step::Wait(_) if system.driver == Some(thread) => self.board.enabled[0],
            _ => true,
        }
    }

    /// Whether this line may fire: that of the device does if it has interrupted.
    pub(super) fn may_fire(&self, system: &System, line: usize) -> bool {
        line != 0 || system.model.gates.is_none() || self.board.device.interrupts
    }

    /// A store to the device; `false`: `step` is a call, which may be for engines.
    pub(super) fn touch_device(&mut self, system: &System, thread: ThreadId, step: Step, engine: usize) -> bool {
        let set =
            |names: &[&str]| names.iter().fold(0, |set, name| set | 1 << super::super::engine(&system.engines, name));
        match step {
            Step::Submit(_) => self.board.device.submit(user_of(system, thread, engine)),
            Step::Reset(_) => self.board.device.reset(engine),
            Step::Acquire(name) | Step::AcquireFor(name, _) => self.wants[thread.index()] = set(&[name]),
            Step::AcquireBoth(one, other) => self.wants[thread.index()] = set(&[one, other]),
            _ => {}
        }
        matches!(step, Step::Submit(_) | Step::Reset(_))
    }

    //--- Conditions -------------------------------------------------------------------------------------------

    /// The user that has the doorbell of `engine`.
    fn has(&self, system: &System, engine: usize) -> impl Iterator<Item = (EngineUserId, Option<ThreadId>)> {
        let users = (0..system.users.len()).filter_map(EngineUserId::new).zip(&system.users);
        let has = move |user: EngineUserId, of: u32| of as usize == engine && self.board.holds[user.index()];
        users.filter(move |(user, (of, _))| has(*user, *of)).map(|(user, (_, thread))| (user, *thread))
    }

    /// Whether a task waits for `engine`.
    fn is_waited_for(&self, system: &System, engine: usize) -> bool {
        let waits = |thread: ThreadId| {
            matches!(
                self.kernel.thread(thread).state(),
                object::State::Acquiring(_) | object::State::AwaitingGroup { .. }
            )
        };
        system.threads().any(|thread| waits(thread) && self.wants[thread.index()] >> engine & 1 != 0)
    }

    pub(super) fn check_gates(&self, system: &System) -> Result<(), String> {
        let Some(gates) = system.model.gates else { return Ok(()) };
        let device = &self.board.device;
        for (number, name) in system.engines.iter().enumerate() {
            let engine = &device.engines[number];
            let is_held = self.has(system, number).next().is_some();
            let runs = engine.shared == Shared::Running;
            if runs && (is_held || engine.own.is_some()) {
                return Err(format!("a shared command runs on {name} beside one of who has it"));
            }
            if self.has(system, number).any(|(user, _)| engine.own.is_some_and(|own| own != user)) {
                return Err(format!("{name} was granted while the command of another runs"));
            }
            if engine.open && (is_held || engine.own.is_some() || self.is_waited_for(system, number)) {
                return Err(format!("the gate of {name} is open while it is in use, or wanted"));
            }
            let until = engine.shut_at + device.longest + Nanoseconds(system.model.late * TICK);
            if runs && !engine.open && !engine.asked && gates.longest != 0 && self.board.now > until {
                return Err(format!("nobody was asked to reset {name} in time"));
            }
        }
        if device.hurried {
            return Err("a shared command is to be reset before its time".into());
        }
        let lends_wrong = |thread: &ThreadId| {
            let state = self.kernel.thread(*thread);
            matches!(state.state(), object::State::Acquiring(_)) && state.donates_to() != self.donee(system, *thread)
        };
        match system.threads().find(lends_wrong) {
            Some(thread) => Err(format!("{} lends to another than the one it waits for", system.name(thread))),
            None => Ok(()),
        }
    }

    /// The ends that must come from here, and those that have come.
    pub fn marks(&self, system: &System) -> Marks {
        let mut marks = Marks::default();
        let Some(gates) = system.model.gates else { return marks };
        let lives = |thread: ThreadId| self.kernel.thread(thread).state() != object::State::Stopped;
        let driver_lives = system.driver.is_some_and(lives);
        // There is time for work of so many ticks, from here on.
        let has_time = |ticks: u64| self.board.now.0 + (ticks + system.model.late) * TICK <= system.model.ticks * TICK;
        let engines = 0..system.engines.len();
        let units: Vec<Vec<usize>> = match system.model.group {
            Some(_) => vec![engines.collect()],
            None => engines.map(|engine| vec![engine]).collect(),
        };
        for (unit, engines) in units.iter().enumerate() {
            let engine = |number: usize| &self.board.device.engines[number];
            let all = || engines.iter().copied();
            let is_held = all().any(|engine| self.has(system, engine).any(|(_, thread)| thread.is_some_and(lives)));
            let is_shut = !is_held && all().any(|number| !engine(number).open);
            let is_waited_for = !is_held && all().any(|engine| self.is_waited_for(system, engine));
            let is_asked = all().any(|number| engine(number).asked);
            let drains = is_shut && !is_asked && driver_lives;
            let watchdog = gates.longest.max(gates.watchdog);
            let premises = [
                (Progress::Prompt, drains, is_shut),
                (Progress::Hung, drains && has_time(watchdog), is_shut),
                (Progress::Silent, is_waited_for && (!driver_lives || has_time(watchdog + gates.reset)), is_waited_for),
            ];
            for (progress, begins, lasts) in premises {
                marks.begun[unit] |= if begins && self.has_entered() { progress.bit() } else { 0 };
                marks.ended[unit] |= if lasts { 0 } else { progress.bit() };
            }
        }
        marks
    }

    /// In which of the ways on `action` may be taken here: one bit each.
    pub fn helps(&self, system: &System, action: Action) -> u8 {
        let [prompt, hung, silent] = Progress::ALL.map(Progress::bit);
        match action {
            Action::Kick(_) | Action::Timer(_) | Action::Interrupt(..) => prompt | hung | silent,
            Action::Tick => hung | silent,
            Action::Device(_, Move::End | Move::EndOwn) => prompt,
            Action::Device(_, Move::Begin) => 0,
            Action::Device(..) => prompt | hung | silent,
            Action::Call(cpu, call) => {
                let Some(thread) = self.board.cpus[cpu.index()].executes else { return 0 };
                let is_driver = system.driver == Some(thread);
                match system.model.tasks[thread.index()].alphabet[call] {
                    // Nothing has interrupted that it would acknowledge.
                    Step::Acknowledge(_) if self.board.enabled[0] => 0,
                    Step::Acknowledge(_) | Step::Reset(_) | Step::Complete(..) => prompt | hung,
                    Step::Wait(_) if is_driver => prompt | hung,
                    Step::Wait(_) | Step::Yield | Step::Sleep(_) => prompt | hung | silent,
                    _ => 0,
                }
            }
            Action::Enter(_) | Action::Look(_) | Action::Fail(_) => 0,
        }
    }

    //--- Identity and words ------------------------------------------------------------------------------------

    pub(super) fn hash_device(&self, hasher: &mut Words) {
        let device = &self.board.device;
        for engine in &device.engines[..device.count] {
            let bits = [engine.open, engine.asked, device.interrupts, device.hurried];
            hasher.write_u8(bits.iter().fold(0, |bits, bit| bits << 1 | u8::from(*bit)));
            hasher.write_u8(engine.shared as u8);
            hasher.write_u16(engine.own.map_or(0, EngineUserId::number));
            let counts = engine.shared == Shared::Running && !engine.open;
            hasher.write_u64(if counts { self.board.now.0 - engine.shut_at.0 } else { 0 });
        }
    }

    /// The acts of the device, in words.
    pub(super) fn device_situation(&self, system: &System) -> Vec<String> {
        let each = |number: usize| {
            let engine = &self.board.device.engines[number];
            let gate = if engine.open { "open" } else { "shut" };
            let own = if engine.own.is_some() { ", own command" } else { "" };
            format!("{}: {gate}, {:?}{own}", system.engines[number], engine.shared)
        };
        (0..self.board.device.count).map(each).collect()
    }
}

/// The use of an engine by `thread`.
fn user_of(system: &System, thread: ThreadId, engine: usize) -> EngineUserId {
    let is = |user: &(u32, Option<ThreadId>)| *user == (engine as u32, Some(thread));
    system.users.iter().position(is).and_then(EngineUserId::new).expect("it uses that engine")
}

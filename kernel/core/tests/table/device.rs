//! The device of the models: engines with a gate, where clients without a lock have commands, and the holder of the lock has one.
//!
//! It does all that such a device may do, as slowly as it likes: each of its accesses that the kernel can see, or that sees what the kernel
//! does, is a step of its own. There is always one more shared command that it could begin, since a client may submit one at any time. A command
//! ends by a step; one that never ends is one whose step does not come.
//!
//! While a trap is handled the device goes on between two accesses of the kernel to one engine: see [`Tape`].

use fusee_kernel_core::id::EngineUserId;
use fusee_kernel_core::limits::{ENGINE_USERS, ENGINES};
use fusee_sched::time::{Instant, Nanoseconds};

/// Where an engine is with commands of clients without a lock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Shared {
    /// As many have ended as have begun.
    #[default]
    Quiet,
    /// One is counted as begun; then the gate is read.
    Begun,
    /// The gate was shut. It is to be counted as ended.
    Refused,
    /// It runs.
    Running,
    /// It has ended and is counted; then the gate is read, which says whether a waiter is to hear of it.
    Ended,
}

/// One access of the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Move {
    /// Counts a shared command as begun.
    Begin,
    /// Reads the gate: the command runs, or it does not.
    ReadGate,
    /// Counts a command that may not run as ended, and interrupts.
    Retract,
    /// A shared command ends, and is counted.
    End,
    /// Reads the gate after that: if it is shut, it interrupts.
    ReadGateAgain,
    /// The command of the holder ends; it interrupts.
    EndOwn,
}

/// The faults of a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wrong {
    /// It reads the gate before it counts a command as begun, and not after that.
    ReadsGateFirst,
    /// It does not interrupt when it retracts.
    RetractsInSilence,
    /// It does not interrupt when a command ends.
    EndsInSilence,
}

/// An engine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Engine {
    /// Its gate is open.
    pub open: bool,
    /// Its shared commands.
    pub shared: Shared,
    /// The user with the lock that has the running command.
    pub own: Option<EngineUserId>,
    /// When the gate was shut last.
    pub shut_at: Instant,
    /// Its driver was asked to reset it, and it has had no holder since.
    pub asked: bool,
}

/// The device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Its engines.
    pub engines: [Engine; ENGINES],
    /// How many there are; none: the kernel finds every engine idle.
    pub count: usize,
    /// The engine of each use.
    pub engine_of: [usize; ENGINE_USERS],
    /// Its interrupt is on its way.
    pub interrupts: bool,
    /// How long a shared command takes at most, once the gate is shut.
    pub longest: Nanoseconds,
    /// A reset was asked for earlier than that.
    pub hurried: bool,
    /// Its fault.
    pub wrong: Option<Wrong>,
}

impl Device {
    /// None.
    pub const NONE: Device = Device {
        engines: [Engine { open: true, shared: Shared::Quiet, own: None, shut_at: Instant::ZERO, asked: false };
            ENGINES],
        count: 0,
        engine_of: [0; ENGINE_USERS],
        interrupts: false,
        longest: Nanoseconds::ZERO,
        hurried: false,
        wrong: None,
    };

    /// Whether as many shared commands have ended as have begun.
    pub fn is_shared_idle(&self, engine: usize) -> bool {
        match self.engines[engine].shared {
            Shared::Quiet | Shared::Ended => true,
            // The one that is wrong has only looked by then.
            Shared::Begun => self.wrong == Some(Wrong::ReadsGateFirst),
            Shared::Refused | Shared::Running => false,
        }
    }

    /// The command of `user` begins, which has the doorbell.
    pub fn submit(&mut self, user: EngineUserId) {
        self.engines[self.engine_of[user.index()]].own = Some(user);
    }

    /// The driver ends the command that runs on `engine`. No interrupt is needed to tell it so.
    pub fn reset(&mut self, engine: usize) {
        let engine = &mut self.engines[engine];
        engine.own = None;
        if engine.shared == Shared::Running {
            engine.shared = Shared::Quiet;
        }
    }

    /// The kernel has asked for a reset of `engine`.
    pub fn ask(&mut self, engine: usize, now: Instant) {
        let object = &mut self.engines[engine];
        object.asked = true;
        self.hurried |= object.shared == Shared::Running && now < object.shut_at + self.longest;
    }

    /// The possible next steps on `engine`.
    pub fn moves(&self, engine: usize) -> impl Iterator<Item = Move> {
        let Engine { open, shared, own, .. } = self.engines[engine];
        let next = match shared {
            Shared::Quiet if self.wrong == Some(Wrong::ReadsGateFirst) && !open => None,
            Shared::Quiet => Some(Move::Begin),
            Shared::Begun => Some(Move::ReadGate),
            Shared::Refused => Some(Move::Retract),
            Shared::Running => Some(Move::End),
            Shared::Ended => Some(Move::ReadGateAgain),
        };
        next.into_iter().chain(own.map(|_| Move::EndOwn))
    }

    /// Lets it happen. `enabled`: the line is. An edge that comes while it is not leaves nothing behind.
    pub fn act(&mut self, engine: usize, what: Move, enabled: bool) {
        let wrong = self.wrong;
        let engine = &mut self.engines[engine];
        let (shared, tells) = match what {
            Move::Begin => (Shared::Begun, false),
            Move::ReadGate if engine.open || wrong == Some(Wrong::ReadsGateFirst) => (Shared::Running, false),
            Move::ReadGate => (Shared::Refused, false),
            Move::Retract => (Shared::Quiet, wrong != Some(Wrong::RetractsInSilence)),
            Move::End => (Shared::Ended, false),
            Move::ReadGateAgain => (Shared::Quiet, !engine.open && wrong != Some(Wrong::EndsInSilence)),
            Move::EndOwn => {
                engine.own = None;
                (engine.shared, true)
            }
        };
        engine.shared = shared;
        self.interrupts |= tells && enabled;
    }

    /// All that it may have come to by moves on `engine`; first, by none.
    pub fn reach(&self, engine: usize, enabled: bool) -> Vec<Device> {
        let mut reached = vec![*self];
        let mut at = 0;
        while let Some(device) = reached.get(at).copied() {
            at += 1;
            for what in device.moves(engine) {
                let mut next = device;
                next.act(engine, what, enabled);
                if !reached.contains(&next) {
                    reached.push(next);
                }
            }
        }
        reached
    }
}

/// The acts of the device while a trap is handled: one choice for each access of the kernel to an engine, but for the first in the trap, before
/// which it does the steps that it may do before the trap.
///
/// A caller that handles a trap again and again with the same tape and [advances](Tape::advance) it between, sees every order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tape {
    /// The choices made, each with how many there were.
    choices: Vec<(usize, usize)>,
    /// How many of them have been read.
    at: usize,
}

impl Tape {
    /// The first choices, from any number of possibilities; behind them the device does nothing.
    pub fn of(choices: impl IntoIterator<Item = usize>) -> Tape {
        Tape { choices: choices.into_iter().map(|choice| (choice, usize::MAX)).collect(), at: 0 }
    }

    /// One of so many.
    pub fn choose(&mut self, of: usize) -> usize {
        if self.at == self.choices.len() {
            self.choices.push((0, of));
        }
        let (choice, _) = self.choices[self.at];
        self.at += 1;
        choice % of
    }

    /// Whether the device does nothing by it.
    pub fn is_blank(&self) -> bool {
        self.choices.iter().all(|(choice, _)| *choice == 0)
    }

    /// To its beginning.
    pub fn rewind(&mut self) {
        self.at = 0;
    }

    /// On to the next row of choices; `false`: that was the last.
    pub fn advance(&mut self) -> bool {
        while let Some((choice, of)) = self.choices.pop() {
            if choice + 1 < of {
                self.choices.push((choice + 1, of));
                return true;
            }
        }
        false
    }
}

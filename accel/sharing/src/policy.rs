//! The interface: the server's input to a policy, and the verdicts of a policy.
//!
//! The server calls [`Policy::step`] at each trapped store, when the time of the last verdict has come, and after each join and
//! leave. It reads the words of all members first, and carries the verdict out afterwards. A step has no argument for *why* it
//! happens: the policy sees from the words which members wait and which are done. So an event that is seen twice, late or together
//! with another changes nothing but times, and server and policy cannot come to disagree.
//!
//! A command goes through three counts, which only grow (the server widens the device's words to 64 bits):
//!
//! | Count | A command is in it when |
//! |---|---|
//! | `announced` | the client has asked for it: in its shadow page, in a store that waits, or in the device's doorbell |
//! | `submitted` | the count in the device's doorbell |
//! | `completed` | the count of finished commands in a word that no client can write |
//!
//! A member with `announced > submitted` *waits*. A member with `submitted > completed` *has commands at the device*. It is
//! *backlogged* if it does either.
//!
//! # Guarantees of the server
//!
//! 1. The words of a step were read after the verdict of the step before was carried out. When a doorbell has just been
//!    taken away, no store is under way any more.
//! 2. `announced >= submitted`. The policy does not rely on `submitted >= completed`, nor on the truth of a client's words: a
//!    client that announces commands which do not exist never completes them, and is accused.
//! 3. `now` is the time during which the engine was this class's. It stands while the real-time class has the engine, so no member
//!    pays for such a time, and no request ages. Time that goes backwards counts as no time.
//! 4. A member leaves after its context was closed: none of its commands is at the device any more.
//! 5. A member that was reset has completed its commands at the device.
//!
//! # Guarantees of the policy
//!
//! 1. A verdict is complete: it has the state of each doorbell, not the changes.
//! 2. A verdict without [`Verdict::call_again`] opens no doorbell, and no member is backlogged except those that it lets go on. An
//!    idle device costs nothing.
//! 3. A waiting member may go on within a bound, as long as the server steps at the times that verdicts ask for.
//! 4. A step takes a bounded time, for any values of the words.
//!
//! A group can be suspended without the policy's knowledge: [`Readings::without`] makes its members' `announced` equal to
//! `submitted`, and [`Verdict::without`] keeps their doorbells shut. To a policy they are idle, and idle members hoard nothing.

use fusee_sched::time::{Instant, Nanoseconds};

use crate::member::{MEMBERS, Member, Members};
use crate::tree::{Group, Weight};

/// The counters of one member on a device that counts, since any instant.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Time during which the engine ran a command of the member.
    pub busy: Nanoseconds,
    /// Time during which the device had a command of the member, running or queued.
    pub backlogged: Nanoseconds,
}

/// The words of one member.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reading {
    /// Commands the client has asked for so far.
    pub announced: u64,
    /// Commands in the device's doorbell so far.
    pub submitted: u64,
    /// Commands the device is done with.
    pub completed: u64,
    /// `None`: the device does not count, or its counters are switched off.
    pub counters: Option<Counters>,
}

impl Reading {
    /// Whether the client has asked for commands that the device does not know of.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.announced > self.submitted
    }

    /// Whether the device has commands that are not done.
    #[must_use]
    pub const fn at_device(&self) -> bool {
        self.submitted > self.completed
    }
}

/// The member whose command the engine runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Running {
    /// The device does not show it.
    #[default]
    Unknown,
    /// No command of this class runs.
    Nobody,
    /// A command of this member.
    Member(Member),
}

/// All that the server has read for one step.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Readings {
    /// The words of each member, by its number. Words of numbers that have not joined are ignored.
    pub members: [Reading; MEMBERS],
    /// The member whose command runs.
    pub running: Running,
}

impl Readings {
    /// The words of `member`.
    #[must_use]
    pub const fn of(&self, member: Member) -> &Reading {
        &self.members[member.index()]
    }

    /// The members of `joined` that wait.
    #[must_use]
    pub fn waiting(&self, joined: Members) -> Members {
        joined.filter(|member| self.of(member).waits())
    }

    /// These readings, in which members of `suspended` wait for nothing.
    #[must_use]
    pub fn without(mut self, suspended: Members) -> Readings {
        for member in suspended.iter() {
            let reading = &mut self.members[member.index()];
            reading.announced = reading.submitted;
        }
        self
    }

    /// The members of `joined` that have commands at the device.
    #[must_use]
    pub fn at_device(&self, joined: Members) -> Members {
        joined.filter(|member| self.of(member).at_device())
    }
}

/// The state of a member's doorbell from now on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Doorbell {
    /// The client stores to it directly. Announced commands go on.
    Open,
    /// A store to it comes to the server.
    Trapped {
        /// The number of announced commands that go on now, oldest first. The client's store is answered when all have gone on.
        pass: u64,
    },
}

impl Doorbell {
    /// A store waits.
    pub const SHUT: Doorbell = Doorbell::Trapped { pass: 0 };
}

/// How a policy that lets a member go on sees to its doorbell.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Interception {
    /// Each store is trapped, and goes on.
    Engaged,
    /// The doorbell is open.
    #[default]
    Disengaged,
}

/// The consequence for a member whose request took too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Response {
    /// The context of the member is reset. It loses its commands at the device.
    Reset,
    /// The member's task is stopped. The server then lets the member leave.
    Stop,
}

/// A request that took too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Accusation {
    /// The member whose request it is, as far as the device shows it.
    pub member: Member,
    /// The consequence for it.
    pub response: Response,
}

/// The server's next actions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Verdict {
    /// Each member's doorbell. The doorbell of a number which has not joined is shut.
    pub doorbells: [Doorbell; MEMBERS],
    /// The members whose commands at the device the policy waits for. A server that can be woken by a completion may
    /// ask for it, and step then.
    pub drain: Members,
    /// A request that took too long.
    pub accused: Option<Accusation>,
    /// The latest instant of the next step. `None`: at the next trapped store.
    pub call_again: Option<Instant>,
}

impl Verdict {
    /// All doorbells shut, and nothing to wait for.
    pub const QUIET: Verdict =
        Verdict { doorbells: [Doorbell::SHUT; MEMBERS], drain: Members::EMPTY, accused: None, call_again: None };

    /// The doorbell of `member`.
    #[must_use]
    pub const fn doorbell(&self, member: Member) -> Doorbell {
        self.doorbells[member.index()]
    }

    /// Whether any command of `member` may go on.
    #[must_use]
    pub fn lets_in(&self, member: Member) -> bool {
        self.doorbell(member) != Doorbell::SHUT
    }

    /// This verdict, with the doorbells of members of `suspended` shut.
    pub fn without(mut self, suspended: Members) -> Verdict {
        suspended.iter().for_each(|member| self.doorbells[member.index()] = Doorbell::SHUT);
        self
    }

    pub(crate) fn let_in(&mut self, member: Member, interception: Interception, readings: &Readings) {
        let reading = readings.of(member);
        self.doorbells[member.index()] = match interception {
            Interception::Disengaged => Doorbell::Open,
            Interception::Engaged => Doorbell::Trapped { pass: reading.announced.saturating_sub(reading.submitted) },
        };
    }
}

/// The place of a member among the others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// The group whose share it takes part in.
    pub group: Group,
    /// The weight of the member within the group.
    pub weight: Weight,
}

impl Place {
    /// Directly below the root, with weight 1.
    pub const FLAT: Place = Place { group: Group::ROOT, weight: Weight::ONE };
}

/// The reason why a member cannot join.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JoinError {
    /// The member has joined already.
    AlreadyJoined(Member),
    /// The tree has no such group.
    UnknownGroup(Group),
}

/// The bookings of a policy for one member, for a page that every task may read and for policies inside groups.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    /// Engine time since the member joined, as the policy estimates it.
    pub used: Nanoseconds,
    /// Commands that completed since the member joined.
    pub commands: u64,
    /// Time that the member owes, or by which it leads the slowest of its siblings.
    pub ahead: Nanoseconds,
    /// Whether its stores wait now for the benefit of others.
    pub denied: bool,
}

/// A rule that shares one engine.
pub trait Policy {
    /// Takes `member` in, at the system time: it owes nothing, and has no claim on others. `reading`: its words now.
    ///
    /// # Errors
    /// [`JoinError`]; then nothing has changed.
    fn join(&mut self, member: Member, place: Place, reading: &Reading, now: Instant) -> Result<(), JoinError>;

    /// Forgets `member`, in any season. A member that has not joined is ignored.
    fn leave(&mut self, member: Member, now: Instant);

    /// Changes the weight of `member` within its group, for all that it uses from now on. Policies without weights ignore it.
    fn reweigh(&mut self, member: Member, weight: Weight);

    /// Decides on the time until the next step.
    fn step(&mut self, now: Instant, readings: &Readings) -> Verdict;

    /// The bookings for `member`. All zero if it has not joined.
    fn usage(&self, member: Member) -> Usage;

    /// Whether the policy goes by the device's counters. If not, the server does not read them.
    fn counts(&self) -> bool {
        false
    }

    /// The present phase as a number for the trace: its meaning is the policy's own.
    fn season(&self) -> u64 {
        0
    }
}

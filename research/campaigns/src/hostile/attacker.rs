//! A task that does anything: any call, with any argument, at the instants that hurt most.
//!
//! An attacker knows the releases, periods, budgets and deadlines of all tasks with jobs, and has the handles and regions of its manifest. It
//! plans a few moves at a time, by one of its *tactics*; it keeps to one or two of them, or uses all. Its random
//! numbers depend on the seed, the number of the system and its own name only, so it does the same in a smaller system.
//!
//! # Invariants
//!
//! 1. Time passes: of many calls at one instant, one is followed by computing.
//! 2. After so many moves an attacker only computes, so that simulations end.

use std::collections::VecDeque;

use fusee_abi::call::{CARRIES, Call, DEADLINE, FIRST_WORD, GIVEN, KEPT, LENT, NEVER, NUMBER, TOKEN};
use fusee_abi::image::kind;
use fusee_kernel_core::Machine;
use fusee_kernel_core::id::ThreadId;
use fusee_simulator::Program;
use fusee_simulator::actor::{Action, Behaviour};
use fusee_simulator::board::{Board, Page, Submitted};
use fusee_simulator::workload::Source;

use tactics::{EXTREMES, TACTICS, Tactic};

mod tactics;

//--- Public types

/// The knowledge and the handles of an attacker.
#[derive(Clone, Debug)]
pub struct Attacker {
    /// The seed of all attackers.
    pub seed: u64,
    /// Which stream of that is its own.
    pub stream: u64,
    /// Its handles: the kind of each, its value, and of an engine its number in its device.
    pub handles: Vec<(u32, u64, u32)>,
    /// Engines that it uses without their locks, by their numbers in their devices.
    pub shared: Vec<u32>,
    /// If it is a node of a graph, the region of the words of all, and its number: its own it can write.
    pub graph: Option<(usize, usize)>,
    /// Its own jobs, if it has any.
    pub own: Option<Pace>,
    /// Those of all others.
    pub others: Vec<Pace>,
}

/// When the jobs of a task are released, in nanoseconds. Sporadic ones are if they come as soon as they may.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pace {
    /// The first release.
    pub first: u64,
    /// From one to the next.
    pub period: u64,
    /// The time that a job may compute.
    pub budget: u64,
    /// From release to deadline.
    pub deadline: u64,
}

impl Attacker {
    /// The limits that it keeps, in words; everything, if that is much.
    #[must_use]
    pub fn habits(&self) -> String {
        let tactics = Mind::new(self).tactics;
        let names: Vec<String> = tactics.iter().map(|tactic| format!("{tactic:?}")).collect();
        if tactics.len() > 2 { "everything".to_owned() } else { names.join(" and ") }
    }

    /// The attacker as the simulator runs it.
    #[must_use]
    pub fn program(self) -> Program {
        Program::Custom(Box::new(Life { mind: Mind::new(&self), attacker: self }))
    }
}

impl Pace {
    /// The release that comes `after` the next one from `now` on.
    fn release(&self, now: u64, after: u64) -> u64 {
        let passed = now.saturating_sub(self.first).div_ceil(self.period);
        self.first.saturating_add((passed + after).saturating_mul(self.period))
    }
}

/// An attacker in one of its lives.
#[derive(Clone, Debug)]
struct Life {
    attacker: Attacker,
    mind: Mind,
}

impl Behaviour for Life {
    fn copy(&self) -> Box<dyn Behaviour> {
        Box::new(self.clone())
    }

    fn ran(&mut self, span: u64) {
        self.mind.burning = self.mind.burning.saturating_sub(span);
    }

    fn act(&mut self, board: &mut Board, thread: ThreadId) -> Action {
        self.mind.act(&self.attacker, board, thread)
    }
}

/// The plan of an attacker.
#[derive(Clone, Debug)]
struct Mind {
    source: Source,
    /// Its acts, the likelier ones several times.
    tactics: Vec<Tactic>,
    /// Parts of its period and budget that are equal in each of its jobs, in thousandths.
    habits: [u64; 4],
    planned: VecDeque<Move>,
    burning: u64,
    /// Its last move was a call.
    called: bool,
    /// Reply tokens that came, the newest first.
    tokens: [u64; 4],
    /// The last handle received.
    received: u64,
    /// The release of its job.
    release: u64,
    /// The instant of its last call, and how many it made then.
    at: u64,
    calls: u32,
    moves: u32,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Burn(u64),
    /// Until this instant, if it has not passed.
    BurnUntil(u64),
    Call(Made),
    /// Sleeps until so long after the release of its job.
    SleepIntoJob(u64),
    /// Computes until so long after the release of its job.
    BurnIntoJob(u64),
    Submit(u32, u64),
    /// To the words of this graph: of this node so many jobs have ended, or it waits.
    Write((usize, usize), Option<u64>),
    Fault,
}

/// A call.
#[derive(Clone, Copy, Debug)]
struct Made {
    number: u64,
    first: u64,
    second: u64,
    word: u64,
    deadline: u64,
    token: Said,
    given: u64,
}

/// The client that it replies to.
#[derive(Clone, Copy, Debug)]
enum Said {
    Nobody,
    /// The last request but so many.
    Last(usize),
    /// The same, and the reply carries a handle.
    LastWith,
    This(u64),
}

//--- Limits

/// Calls at one instant, before it computes.
const CALLS_AT_ONCE: u32 = 24;
/// Moves of an attacker, before it only computes: where calls cost nothing, and where they take time.
const MOVES: [u32; 2] = [700, 20_000];
/// Longer than any simulation.
const FOR_EVER: u64 = 1 << 50;
const MICROSECOND: u64 = 1_000;

impl Mind {
    fn new(attacker: &Attacker) -> Mind {
        let mut source = Source::new(attacker.seed, attacker.stream);
        let suits: Vec<Tactic> = TACTICS.into_iter().filter(|tactic| tactic.suits(attacker)).collect();
        let tactics = match source.draw(0, 9) {
            0..5 => vec![source.pick(&suits)],
            5..8 => vec![source.pick(&suits), source.pick(&suits)],
            _ => suits,
        };
        let mut habit = || source.draw(0, 1_000);
        let habits = [habit(), habit(), habit(), habit()];
        Mind {
            source,
            tactics,
            habits,
            planned: VecDeque::new(),
            burning: 0,
            called: false,
            tokens: [0; 4],
            received: 0,
            release: 0,
            at: 0,
            calls: 0,
            moves: 0,
        }
    }

    /// Its next act.
    fn act(&mut self, attacker: &Attacker, board: &mut Board, thread: ThreadId) -> Action {
        if std::mem::take(&mut self.called) {
            self.returned(board, thread);
        }
        loop {
            if self.burning > 0 {
                return Action::Burn(self.burning);
            }
            if self.moves >= MOVES[usize::from(board.overheads.call() > 0)] {
                self.burning = FOR_EVER;
                continue;
            }
            let Some(next) = self.planned.pop_front() else {
                self.plan(attacker, board.now);
                continue;
            };
            self.moves += 1;
            match next {
                Move::Burn(span) => self.burning = span,
                Move::BurnUntil(instant) => self.burning = instant.saturating_sub(board.now),
                Move::BurnIntoJob(span) => {
                    self.burning = self.release.saturating_add(span).saturating_sub(board.now);
                }
                Move::SleepIntoJob(span) => {
                    let until = self.release.saturating_add(span);
                    self.planned.push_front(sleep(until));
                }
                Move::Submit(engine, span) => {
                    let Some(one) = board.find_use(thread.index(), engine) else { continue };
                    // Most know better than to touch a doorbell they do not hold.
                    if one.page != Page::Nothing || self.source.draw(0, 19) == 0 {
                        match board.submit(one, span) {
                            Ok(Submitted::Asked(_, store)) => return Action::Store(store),
                            Ok(_) => {}
                            Err(reason) => return Action::Fault(reason),
                        }
                    }
                }
                Move::Write(node, Some(ended)) => _ = board.ended_jobs.insert(node, ended),
                Move::Write(node, None) => {
                    if !board.waiting_nodes.remove(&node) {
                        board.waiting_nodes.insert(node);
                    }
                }
                Move::Fault => return Action::Fault("a fault"),
                Move::Call(made) => {
                    if self.at == board.now && self.calls >= CALLS_AT_ONCE {
                        self.calls = 0;
                        self.planned.push_front(next);
                        self.burning = self.source.pick(&[1, 100, MICROSECOND, 20 * MICROSECOND]);
                        continue;
                    }
                    self.calls = if self.at == board.now { self.calls + 1 } else { 0 };
                    self.at = board.now;
                    self.called = true;
                    self.make(made, board, thread);
                    return Action::Trap;
                }
            }
        }
    }

    fn make(&self, made: Made, board: &mut Board, thread: ThreadId) {
        let general = &mut board.registers(thread).general;
        general[0] = made.first;
        general[1] = made.second;
        general[FIRST_WORD] = made.word;
        general[NUMBER] = made.number;
        general[DEADLINE] = made.deadline;
        general[TOKEN] = match made.token {
            Said::Nobody => 0,
            Said::Last(back) => self.tokens[back % self.tokens.len()],
            Said::LastWith => self.tokens[0] | CARRIES,
            Said::This(token) => token,
        };
        general[GIVEN] = made.given;
        general[KEPT] = u64::from(u32::MAX);
    }

    /// Its last call has returned.
    fn returned(&mut self, board: &mut Board, thread: ThreadId) {
        let general = board.registers(thread).general;
        if general[0] != 0 {
            return;
        }
        if general[NUMBER] == Call::NextJob as u64 {
            self.release = general[2];
        }
        if general[TOKEN] & !CARRIES != 0 && general[TOKEN] != self.tokens[0] {
            self.tokens.rotate_right(1);
            self.tokens[0] = general[TOKEN];
        }
        let carries = general[1] & (CARRIES | LENT) != 0 || general[NUMBER] == Call::CallWith as u64;
        if carries && general[GIVEN] != 0 {
            self.received = general[GIVEN];
        }
    }

    /// Takes something, perhaps two, and does not give it back for long.
    fn hold(&mut self, attacker: &Attacker, now: u64) {
        let locks = [kind::ENGINE, kind::POOL];
        let held: Vec<u64> = attacker.handles.iter().filter(|one| locks.contains(&one.0)).map(|one| one.1).collect();
        if held.is_empty() {
            return;
        }
        let budget = attacker.own.map_or(100 * MICROSECOND, |own| own.budget);
        let (one, other) = (self.source.pick(&held), self.source.pick(&held));
        let until = self.deadline(attacker, now);
        if self.source.draw(0, 4) == 0 {
            self.push(Move::Call(Made { word: other, ..Made::new(Call::AcquireGroup as u64, one, until) }));
        } else {
            self.call(Call::Acquire, one, until);
            if self.source.draw(0, 2) == 0 {
                self.call(Call::Acquire, other, until);
            }
        }
        let at = self.aim(attacker, now);
        let far = sleep(now + self.source.draw(1, 40_000 * MICROSECOND));
        let job = Move::Call(Made::new(Call::NextJob as u64, 0, NEVER));
        let moves = [Move::Burn(FOR_EVER), Move::Burn(budget), Move::Burn(20 * MICROSECOND), sleep(at), far, job];
        let then = self.source.pick(&moves);
        self.push(then);
        for lock in [other, one] {
            if self.source.draw(0, 3) > 0 {
                self.call(Call::Release, lock, NEVER);
            }
        }
    }

    /// Ends its job; without jobs it does something else.
    fn next_job(&mut self, own: Option<Pace>) {
        match own {
            Some(_) => self.call(Call::NextJob, 0, NEVER),
            None => self.call(Call::Yield, 0, NEVER),
        }
    }

    /// An instant at which a task is released or due.
    fn aim(&mut self, attacker: &Attacker, now: u64) -> u64 {
        let budget = attacker.own.map_or(100 * MICROSECOND, |own| own.budget);
        let all: Vec<Pace> = attacker.others.iter().chain(attacker.own.as_ref()).copied().collect();
        if all.is_empty() {
            return now + self.source.draw(1, 5_000 * MICROSECOND);
        }
        let pace = self.source.pick(&all);
        let after = self.source.pick(&[0, 0, 0, 1, 2]);
        let release = pace.release(now, after);
        let base = self.source.pick(&[release, release, release, release + pace.deadline]);
        let some = self.source.draw(0, 2 * budget);
        let early = self.source.pick(&[0, 0, 1, MICROSECOND, budget, budget + 1, 2 * budget, pace.budget, some]);
        let late = self.source.pick(&[0, 0, 0, 1, MICROSECOND]);
        (base + late).saturating_sub(early).max(now)
    }

    /// When a blocking call shall end.
    fn deadline(&mut self, attacker: &Attacker, now: u64) -> u64 {
        match self.source.draw(0, 9) {
            0..4 => NEVER,
            4..6 => now + self.source.draw(0, 3_000 * MICROSECOND),
            6..9 => self.aim(attacker, now),
            _ => self.source.pick(&EXTREMES),
        }
    }

    /// One of its handles of this kind, if it has one; else any.
    fn handle(&mut self, attacker: &Attacker, wanted: u32) -> u64 {
        let all: Vec<u64> = attacker.handles.iter().filter(|one| one.0 == wanted).map(|one| one.1).collect();
        if all.is_empty() { self.any_handle(attacker) } else { self.source.pick(&all) }
    }

    fn any_handle(&mut self, attacker: &Attacker) -> u64 {
        let count = attacker.handles.len() as u64;
        match self.source.draw(0, count + 1) {
            index if index < count => attacker.handles[index as usize].1,
            index if index == count => self.received,
            _ => self.source.draw(0, 40) | self.source.draw(0, 2) << 16,
        }
    }

    /// Any call with any arguments.
    fn any_call(&mut self, attacker: &Attacker, now: u64) -> Made {
        let number = self.source.draw(0, 34);
        // The end of its own is a tactic of its own, the end of all is not its to give.
        let number = if number == Call::Exit as u64 { Call::Yield as u64 } else { number };
        let first = self.any_handle(attacker);
        let second = match self.source.draw(0, 3) {
            0 => self.any_handle(attacker),
            1 => self.source.pick(&EXTREMES),
            _ => self.source.draw(0, 3),
        };
        let token = match self.source.draw(0, 7) {
            0..3 => Said::Last(0),
            3 => Said::Last(1),
            4 => Said::LastWith,
            5 => Said::This(self.source.draw(0, 1_024)),
            6 => Said::This(self.source.pick(&EXTREMES)),
            _ => Said::Nobody,
        };
        let word = self.any_handle(attacker);
        let deadline = self.deadline(attacker, now);
        let given = if self.source.draw(0, 2) == 0 { self.any_handle(attacker) } else { 0 };
        Made { number, first, second, word, deadline, token, given }
    }

    fn pick_index(&mut self, count: usize) -> usize {
        self.source.draw(0, count as u64 - 1) as usize
    }

    fn call(&mut self, call: Call, first: u64, deadline: u64) {
        self.push(Move::Call(Made::new(call as u64, first, deadline)));
    }

    fn push(&mut self, one: Move) {
        self.planned.push_back(one);
    }
}

impl Made {
    fn new(number: u64, first: u64, deadline: u64) -> Made {
        Made { number, first, second: 0, word: 0, deadline, token: Said::Nobody, given: 0 }
    }
}

fn sleep(until: u64) -> Move {
    Move::Call(Made::new(Call::SleepUntil as u64, 0, until))
}

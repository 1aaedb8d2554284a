//! Random calls, deferred and nested, timeouts, signals and waits: the program `apps/stress`, operation for operation.
//!
//! Clients call servers, signal and wait; servers call each other and put replies off. A client checks each reply. One task, the director, ends
//! the system as soon as all clients together have done so many operations.
//!
//! # Invariants
//!
//! 1. Time passes: a task computes for at least 100 ns before each operation.
//! 2. A task draws the same random numbers in each run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fusee_abi::Error;
use fusee_abi::call::{Call, FIRST_WORD, MESSAGE_WORDS, NEVER, TOKEN};
use fusee_kernel_core::Machine;
use fusee_kernel_core::id::ThreadId;
use fusee_simulator::Program;
use fusee_simulator::actor::{Action, Behaviour, trap};
use fusee_simulator::board::Board;
use fusee_simulator::workload::Source;

/// The number that a server adds to each word.
const SECRET: u64 = 0x5eed;
/// How often the director looks, nanoseconds.
const LOOK: u64 = 1_000_000;
/// How long a server keeps a client waiting at most, nanoseconds.
const PATIENCE: u64 = 50_000;
/// The time that a task computes before each operation, nanoseconds.
const COMPUTES: (u64, u64) = (100, 900);

/// One task of the test, with its handles.
#[derive(Clone, Debug)]
pub struct Stress {
    /// The role of the task.
    pub role: Role,
    /// The number of its stream of random numbers.
    pub stream: u64,
    /// Operations that all clients have done.
    pub done: Arc<AtomicU64>,
}

/// The role of a task of the test.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    /// Ends the system once all clients have done `goal` operations.
    Director {
        /// The handle by which it does so.
        system: u64,
        /// How many operations.
        goal: u64,
    },
    /// Calls, signals, waits and yields.
    Client {
        /// Handles of two endpoints that it calls.
        servers: [u64; 2],
        /// The notification that it waits for.
        mine: u64,
        /// The notification that it signals.
        other: u64,
    },
    /// Serves an endpoint; some answers come late, and some only after a call to another server.
    Server {
        /// Its endpoint.
        endpoint: u64,
        /// The endpoint of a server that it calls.
        next: Option<u64>,
    },
}

type Message = [u64; MESSAGE_WORDS];

/// A request that a server has yet to answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    token: u64,
    words: Message,
}

/// A task of the test in one of its lives.
#[derive(Clone, Debug)]
struct Life {
    stress: Stress,
    progress: Progress,
}

/// How far a task is.
#[derive(Clone, Debug)]
struct Progress {
    source: Source,
    /// The time that is left to compute, nanoseconds.
    burning: u64,
    /// The call that the task makes when it has computed.
    next: Next,
    /// Whether it has made that call.
    called: bool,
    /// A request with an answer that a server has put off.
    kept: Option<Asked>,
}

/// A call, and its purpose.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The first job of a client begins; it never ends.
    Begin,
    /// The director looks.
    Look,
    Signal(u64),
    Wait,
    Yield,
    /// A client calls the server with this handle.
    Call(u64, Message),
    Receive,
    /// A server passes a request on to another, and answers then.
    Pass(Asked),
    /// A server answers the request it has just received.
    Answer(Asked),
    /// A server answers a request that it had put off.
    AnswerLate(Asked),
}

fn answer_to(words: Message) -> Message {
    words.map(|word| word + SECRET)
}

impl Stress {
    /// The programs for the simulator.
    #[must_use]
    pub fn program(self) -> Program {
        Program::Custom(Box::new(Life { progress: Progress::new(&self), stress: self }))
    }
}

impl Behaviour for Life {
    fn copy(&self) -> Box<dyn Behaviour> {
        Box::new(self.clone())
    }

    fn ran(&mut self, span: u64) {
        self.progress.burning = self.progress.burning.saturating_sub(span);
    }

    /// # Panics
    /// If a call returned an impossible result.
    fn act(&mut self, board: &mut Board, thread: ThreadId) -> Action {
        self.progress.act(&self.stress, board, thread)
    }
}

impl Progress {
    fn new(stress: &Stress) -> Progress {
        let next = match stress.role {
            Role::Director { .. } => Next::Look,
            Role::Client { .. } => Next::Begin,
            Role::Server { .. } => Next::Receive,
        };
        Progress { source: Source::new(SECRET, stress.stream), burning: 0, next, called: false, kept: None }
    }

    /// The next action of the task.
    ///
    /// # Panics
    /// If a call returned an impossible result.
    fn act(&mut self, stress: &Stress, board: &mut Board, thread: ThreadId) -> Action {
        if std::mem::take(&mut self.called) {
            self.next = self.returned(stress, board, thread);
            self.burning = self.source.draw(COMPUTES.0, COMPUTES.1);
        }
        if self.burning > 0 {
            return Action::Burn(self.burning);
        }
        self.called = true;
        self.make(stress, board, thread)
    }

    /// Makes the next call.
    fn make(&mut self, stress: &Stress, board: &mut Board, thread: ThreadId) -> Action {
        let now = board.now;
        match (stress.role, self.next) {
            (Role::Director { system, goal }, _) => match stress.done.load(Ordering::Relaxed) < goal {
                true => trap(board, thread, Call::SleepUntil, 0, 0, now + LOOK),
                false => trap(board, thread, Call::Exit, system, 0, NEVER),
            },
            (Role::Client { other, .. }, Next::Signal(bits)) => trap(board, thread, Call::Signal, other, bits, NEVER),
            (Role::Client { mine, .. }, Next::Wait) => {
                let until = now + self.source.draw(0, 50_000);
                trap(board, thread, Call::Wait, mine, 0, until)
            }
            (Role::Client { .. }, Next::Call(server, words)) => {
                let until = self.deadline(now);
                say(board, thread, (Call::Call, server), words, until, 0)
            }
            (Role::Client { .. }, Next::Begin) => trap(board, thread, Call::NextJob, 0, 0, NEVER),
            (Role::Client { .. }, _) => trap(board, thread, Call::Yield, 0, 0, NEVER),
            (Role::Server { next: Some(next), .. }, Next::Pass(asked)) => {
                let until = self.deadline(now);
                say(board, thread, (Call::Call, next), asked.words, until, 0)
            }
            (Role::Server { endpoint, .. }, Next::Answer(asked) | Next::AnswerLate(asked)) => {
                // It takes the next request if that is there already.
                say(board, thread, (Call::ReplyReceive, endpoint), answer_to(asked.words), 0, asked.token)
            }
            (Role::Server { endpoint, .. }, _) => {
                let until = if self.kept.is_some() { now + PATIENCE } else { NEVER };
                trap(board, thread, Call::Receive, endpoint, 0, until)
            }
        }
    }

    /// Never, or soon.
    fn deadline(&mut self, now: u64) -> u64 {
        if self.source.draw(0, 3) == 0 { now + self.source.draw(0, 200_000) } else { NEVER }
    }

    /// Checks the result of the last call, and chooses the next one.
    fn returned(&mut self, stress: &Stress, board: &mut Board, thread: ThreadId) -> Next {
        let general = board.registers(thread).general;
        let (code, second, token) = (general[0], general[1], general[TOKEN]);
        let words: Message = std::array::from_fn(|word| general[FIRST_WORD + word]);
        let timed_out = code == Error::TimedOut as u64;
        match stress.role {
            Role::Director { .. } => Next::Look,
            Role::Client { servers, .. } => {
                match self.next {
                    Next::Begin => return self.draw(servers),
                    Next::Wait if code == 0 => assert_ne!(second, 0, "{thread:?} was woken for nothing"),
                    Next::Call(_, sent) if code == 0 => {
                        assert_eq!(words, answer_to(sent), "{thread:?} was answered wrongly")
                    }
                    Next::Wait | Next::Call(..) => {
                        assert!(timed_out, "{thread:?} got error {code} from {:?}", self.next)
                    }
                    _ => assert_eq!(code, 0, "{thread:?} got an error from {:?}", self.next),
                }
                stress.done.fetch_add(1, Ordering::Relaxed);
                self.draw(servers)
            }
            Role::Server { next, .. } => {
                if let Next::Pass(asked) = self.next {
                    let is_right = if code == 0 { words == answer_to(asked.words) } else { timed_out };
                    assert!(is_right, "{thread:?} got {code}, {words:?} for {asked:?}");
                    return self.answer(asked);
                }
                let asked = Asked { token, words };
                match (self.next, code) {
                    (_, 0) if next.is_some() && self.source.draw(0, 2) == 0 => Next::Pass(asked),
                    (_, 0) => self.answer(asked),
                    (Next::Receive, _) => {
                        assert!(timed_out, "{thread:?} got error {code} in place of a request");
                        self.kept.take().map_or(Next::Receive, Next::AnswerLate)
                    }
                    (last, _) => {
                        // A client may have given up.
                        let is_fine = timed_out || code == Error::BadToken as u64;
                        assert!(is_fine, "{thread:?} got error {code} from {last:?}");
                        let late = matches!(last, Next::Answer(_)) && self.source.draw(0, 1) == 0;
                        self.kept.take_if(|_| late).map_or(Next::Receive, Next::AnswerLate)
                    }
                }
            }
        }
    }

    /// A client's next operation.
    fn draw(&mut self, servers: [u64; 2]) -> Next {
        match self.source.draw(0, 7) {
            0 => Next::Signal(1 << self.source.draw(0, 63)),
            1 => Next::Wait,
            2 => Next::Yield,
            _ => {
                let first = self.source.draw(0, 1 << 40);
                Next::Call(self.source.pick(&servers), std::array::from_fn(|word| first + word as u64))
            }
        }
    }

    /// An answer now, or later.
    fn answer(&mut self, asked: Asked) -> Next {
        if self.kept.is_none() && self.source.draw(0, 3) == 0 {
            self.kept = Some(asked);
            Next::Receive
        } else {
            Next::Answer(asked)
        }
    }
}

/// Makes a call with a message.
fn say(
    board: &mut Board,
    thread: ThreadId,
    (call, handle): (Call, u64),
    words: Message,
    until: u64,
    token: u64,
) -> Action {
    let action = trap(board, thread, call, handle, 0, until);
    let general = &mut board.registers(thread).general;
    general[FIRST_WORD..FIRST_WORD + MESSAGE_WORDS].copy_from_slice(&words);
    general[TOKEN] = token;
    action
}

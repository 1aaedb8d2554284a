//! The program of a task: a script, step by step, as the task `scripted` plays it on a board.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Range;
use std::rc::Rc;

use fusee_abi::call::{Call, DEADLINE, FIRST_WORD, NEVER, NUMBER, RESET, TOKEN};
use fusee_abi::script::Step;
use fusee_accel_contract as contract;
use fusee_kernel_core::id::ThreadId;
use fusee_kernel_core::{Fault, Machine, Registers};
use sharer::course::Shown;

use script::Script;

use crate::board::{Board, DeviceUse, DoorbellStore};
use crate::gpu_job::{GpuTask, Progress};
use crate::graph::{Node, Tell};
use crate::process::Failure;
use crate::sharing::{Sessions, Sharer, Sharing};
use crate::watcher::{Supervisor, Watch};

mod requests;
mod script;

/// The program of a task and its parts.
#[derive(Clone, Debug)]
pub enum Program {
    /// Steps, once for each job; without jobs, once.
    Script {
        /// The steps.
        steps: Vec<Step>,
        /// Whether the task has jobs.
        has_jobs: bool,
        /// Its place in a graph.
        node: Option<Node>,
    },
    /// The driver of the accelerator: waits for its interrupt, signals clients, acknowledges.
    Driver {
        /// Handle of the notification that the interrupt signals.
        wait: u64,
        /// Handle of the interrupt.
        interrupt: u64,
        /// The index of the line, which determines the device of this driver.
        line: usize,
        /// For each device context: the handle of its client's notification. If several devices have this interrupt, contexts are
        /// counted through all of them.
        clients: Vec<(usize, u64)>,
        /// For each context of the first device: the fault to be injected there.
        wrong: Vec<(usize, u32)>,
        /// The time that it computes for each notice, nanoseconds.
        bottom_half: u64,
    },
    /// A server.
    Server {
        /// Handle of its endpoint.
        endpoint: u64,
        /// The steps between request and reply: computes, and calls others. Nothing: it answers at once.
        service: Vec<Part>,
    },
    /// The server of a console: keeps what its clients print, and answers at once.
    Console {
        /// Handle of its endpoint.
        endpoint: u64,
    },
    /// Requests one by one, with any registers: for deadlines, wrong arguments and work left in flight.
    Requests {
        /// The requests.
        requests: Vec<Request>,
        /// Where to go on after the last; `None`: the task ends.
        again_from: Option<usize>,
    },
    /// Jobs that work on one of several GPUs.
    Gpus(GpuTask),
    /// A task that gives others further lives.
    Supervisor(Supervisor),
    /// A server that decides which clients of an engine may store to their doorbells.
    Sharer(Box<Sharer>),
    /// The server of sessions.
    Sessions(Sessions),
    /// A task with a program that is written elsewhere, before its first instruction.
    Custom(Box<dyn Behaviour>),
    /// A task that ends at once.
    Nothing,
}

/// One life of a task with a program that is written elsewhere, and how far it is.
///
/// A [`Program::Custom`] holds a task that has not begun. Each life begins with a copy of it.
pub trait Behaviour: Debug + Send + Sync {
    /// A copy of the task, as far as it is.
    fn copy(&self) -> Box<dyn Behaviour>;

    /// The task has run for `span` nanoseconds.
    fn ran(&mut self, span: u64);

    /// The next action of the task. If its last action was a trap, the call's results are in the registers.
    fn act(&mut self, board: &mut Board, thread: ThreadId) -> Action;
}

impl Clone for Box<dyn Behaviour> {
    fn clone(&self) -> Self {
        self.copy()
    }
}

/// A part of a service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// Computes for so many nanoseconds.
    Burn(u64),
    /// Calls the endpoint with this handle, and asks for a service of so many nanoseconds; no word of the server's own client goes along.
    Call(u64, u64),
}

/// One thing a task of [`Program::Requests`] does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Computes for so many nanoseconds.
    Burn(u64),
    /// Submits so many nanoseconds of work to this engine of its device and does not wait for the end.
    Submit(u32, u64),
    /// Stores to the doorbell of this engine the present count and so much more, or less; then kicks the device or not.
    Ring(u32, i32, bool),
    /// Lets the next call carry a handle; to a reply, [`Reply::LastWith`] belongs to it.
    With {
        /// The handle.
        given: u64,
        /// The rights that the copy keeps, where the source has them.
        kept: u32,
    },
    /// Loads the first word of the region with this handle, which is kept among the results.
    Load(u64),
    /// Stores to it.
    Store(u64, u64),
    /// Makes a system call.
    Call {
        /// Its number.
        number: u64,
        /// The first argument: mostly a handle.
        first: u64,
        /// The second argument.
        second: u64,
        /// The first two message words.
        words: [u64; 2],
        /// When it shall end at the latest.
        until: Until,
        /// The receiver of the reply.
        reply: Reply,
    },
}

/// In place of a handle: the one that came with the last message that carried or lent any.
pub const RECEIVED: u64 = u64::MAX;

/// The deadline of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Until {
    /// None.
    Never,
    /// So many nanoseconds after the call.
    After(u64),
}

/// The reply token of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reply {
    /// Zero.
    Nobody,
    /// The token that came with the last message.
    Last,
    /// The reply goes to the last request, and carries a handle.
    LastWith,
    /// This token, of any meaning.
    Token(u64),
}

/// The next wish of the task, at an instant at which it runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Compute for so many nanoseconds; ask again after them.
    Burn(u64),
    /// Trap: the call is in the registers.
    Trap,
    /// Store to a doorbell that it may not store to now. It makes the store again, unless a sharer has made it.
    Store(DoorbellStore),
    /// Do something it may not.
    Fault(&'static str),
    /// Do something it may not, which a program on the host did.
    Faulted(Fault),
    /// Nothing any more: the simulation ends.
    Failed(Failure),
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Before the first instruction.
    Start,
    /// A job begins: `next_job` returned, its release is in the registers.
    JobBegins,
    /// The step at `step` is next.
    Next,
    /// The call of the step before `step` returned.
    Stepped,
    /// Computing.
    Burning(u64),
    /// A request was received, or an event.
    Received,
    /// The request with this token has been computed.
    Answer(u64),
    /// A request was received, of which the steps that follow are the service; or none was.
    Taken,
    /// Asked whether to yield this engine.
    Asked(u64),
    /// Gave this engine to another.
    Yielded(u64),
    /// A job has ended, or none has begun; whether another node was told just now.
    Ended(bool),
    /// A job of a node has begun; it may have to wait for a free frame.
    Room,
    /// Has said up to which job the task with this handle may have jobs.
    Credited(u64, u64),
    /// Waiting until so many commands of a use have retired.
    Fence(DeviceUse, u32, u64),
    /// A wait for that has ended.
    Told(DeviceUse, u32, u64),
    /// The driver's wait has ended.
    Woken,
    /// The driver looks for clients that are to be notified.
    Notify,
    /// The call of the request before `step` returned.
    Returned,
    /// Nothing left to do.
    Over,
}

/// One task in execution.
#[derive(Clone, Debug)]
pub struct Actor {
    program: Rc<Program>,
    phase: Phase,
    step: usize,
    after_burn: Option<u64>,
    /// The script has begun again, and done nothing since that takes time or asks the kernel.
    is_idle: bool,
    /// Told that its budget is used up: nothing is left to do but to give tokens back.
    gives_up: bool,
    release: u64,
    /// Its number.
    job: u64,
    /// Consumers in a graph that are to be told up to which job they may have jobs: their handles.
    told: VecDeque<Tell>,
    /// Retired counts the driver has told about, by client and engine.
    seen: Vec<[u32; contract::ENGINES]>,
    /// How far a task with several GPUs is.
    gpus: Progress,
    /// The present life of a task with a program that is written elsewhere, once it has begun.
    custom: Option<Box<dyn Behaviour>>,
    /// The knowledge of a supervisor.
    watch: Option<Watch>,
    /// How far a sharer is.
    sharing: Option<Box<Sharing>>,
    /// The store to a doorbell that it makes next.
    store: Option<DoorbellStore>,
    /// Engines that the driver resets, one bit each.
    resets: u64,
    /// Whether this is a later life of a driver that has yet to reset its devices.
    again: bool,
    /// Token of the last message received.
    token: u64,
    /// The handle that the next call carries, and the rights its copy keeps.
    gift: (u64, u32),
    /// The last handle received.
    received: u64,
    /// The results of the calls of [`Program::Requests`], in order, zero or an error's code; and loaded values.
    pub results: Vec<u64>,
}

impl Actor {
    /// The task at its first instruction.
    #[must_use]
    pub fn new(program: Program) -> Actor {
        Actor {
            program: Rc::new(program),
            phase: Phase::Start,
            step: 0,
            after_burn: None,
            is_idle: false,
            gives_up: false,
            release: 0,
            job: 0,
            told: VecDeque::new(),
            resets: 0,
            again: false,
            seen: Vec::new(),
            gpus: Progress::default(),
            custom: None,
            watch: None,
            sharing: None,
            store: None,
            token: 0,
            gift: (0, 0),
            received: 0,
            results: Vec::new(),
        }
    }

    /// Another life of the task begins. Earlier findings are kept.
    pub fn begin_again(&mut self) {
        let results = std::mem::take(&mut self.results);
        *self = Actor { program: Rc::clone(&self.program), again: true, results, ..Actor::new(Program::Nothing) };
    }

    /// The task has run `span` nanoseconds.
    pub fn ran(&mut self, span: u64) {
        if let Phase::Burning(left) = &mut self.phase {
            *left = left.saturating_sub(span);
        }
        self.gpus.ran(span);
        if let Some(custom) = &mut self.custom {
            custom.ran(span);
        }
    }

    /// The usage that it has booked, if it is a sharer that has begun.
    pub fn booked(&mut self) -> Option<Shown> {
        self.sharing.as_mut().and_then(|sharing| sharing.booked())
    }

    /// The next action.
    pub fn act(&mut self, board: &mut Board, thread: ThreadId) -> Action {
        let moved = std::mem::take(&mut board.registers(thread).program_counter);
        match self.store.take() {
            // Its sharer has made the store.
            Some(store) if moved != 0 => board.go_on(store),
            Some(store) if !board.make(store) => {
                self.store = Some(store);
                return Action::Store(store);
            }
            Some(_) => {}
            // The kernel wants the call to be made again: it does long ones in parts.
            None if moved != 0 => return Action::Trap,
            None => {}
        }
        let action = self.go_on(board, thread);
        if let Action::Store(store) = action {
            self.store = Some(store);
        }
        action
    }

    /// The action after its last call or store.
    fn go_on(&mut self, board: &mut Board, thread: ThreadId) -> Action {
        match &*Rc::clone(&self.program) {
            Program::Script { steps, has_jobs, node } => {
                self.script(board, thread, &Script { steps, node: node.as_ref(), has_jobs: *has_jobs })
            }
            Program::Driver { wait, interrupt, line, clients, wrong, bottom_half } => {
                let devices = board.devices_of(*line);
                wrong.iter().for_each(|(context, bits)| board.inject(devices.start, *context, *bits));
                self.driver(board, thread, (*wait, *interrupt), (devices, clients), *bottom_half)
            }
            Program::Server { endpoint, service } => self.server(board, thread, *endpoint, service),
            Program::Console { endpoint } => {
                if let Phase::Received = self.phase {
                    let general = &board.registers(thread).general;
                    let (is_request, client) = (general[0] == 0, general[1]);
                    let words = std::array::from_fn(|word| general[FIRST_WORD + word]);
                    if is_request {
                        board.console.print(client, &words);
                    }
                }
                self.server(board, thread, *endpoint, &[])
            }
            Program::Requests { requests, again_from } => self.requests(board, thread, requests, *again_from),
            Program::Gpus(task) => self.gpus.act(task, board, thread),
            Program::Supervisor(supervisor) => {
                self.watch.get_or_insert_with(|| Watch::new(supervisor)).act(supervisor, board, thread)
            }
            Program::Sharer(sharer) => {
                self.sharing.get_or_insert_with(|| Box::new(Sharing::new(sharer))).act(sharer, board, thread)
            }
            Program::Sessions(sessions) => {
                let begins = matches!(std::mem::replace(&mut self.phase, Phase::Received), Phase::Start);
                sessions.act(board, thread, begins)
            }
            Program::Custom(custom) => self.custom.get_or_insert_with(|| custom.clone()).act(board, thread),
            Program::Nothing => trap(board, thread, Call::Exit, 0, 0, NEVER),
        }
    }

    fn driver(
        &mut self,
        board: &mut Board,
        thread: ThreadId,
        (wait, interrupt): (u64, u64),
        (devices, clients): (Range<usize>, &[(usize, u64)]),
        bottom_half: u64,
    ) -> Action {
        if let Phase::Start = self.phase {
            self.seen.resize(clients.len(), [0; contract::ENGINES]);
            if std::mem::take(&mut self.again) {
                self.resets = devices.clone().fold(0, |all, device| all | board.all_resets(device));
                devices.clone().for_each(|device| board.request_resets(device, self.resets));
            }
            self.phase = Phase::Woken;
            return trap(board, thread, Call::Wait, wait, 0, NEVER);
        }
        if let Phase::Woken = self.phase {
            self.phase = Phase::Notify;
            let general = &board.registers(thread).general;
            let asked = if general[0] == 0 { general[1] / RESET } else { 0 };
            self.resets |= asked;
            devices.clone().for_each(|device| board.request_resets(device, asked));
        }
        if let Phase::Burning(left @ 1..) = self.phase {
            return Action::Burn(left);
        }
        for engine in contract::EngineIndex::ALL {
            for ((context, handle), seen) in clients.iter().zip(&mut self.seen) {
                let device = devices.start + context / contract::CONTEXTS;
                let retired = board.retired(device, engine, context % contract::CONTEXTS);
                let seen = &mut seen[engine.number()];
                if retired == *seen {
                    continue;
                }
                if bottom_half > 0 && !matches!(self.phase, Phase::Burning(_)) {
                    self.phase = Phase::Burning(bottom_half);
                    return Action::Burn(bottom_half);
                }
                *seen = retired;
                self.phase = Phase::Notify;
                return trap(board, thread, Call::Signal, *handle, 1, NEVER);
            }
        }
        for number in 0..contract::ENGINES + contract::CONTEXTS {
            // The numbers after the engines are contexts of the execution engine.
            let engine = contract::EngineIndex::from_number(number).unwrap_or(contract::EngineIndex::Execution);
            let bit = 1 << number;
            if self.resets & bit != 0 && devices.clone().all(|device| board.is_reset(device, engine)) {
                self.resets &= !bit;
                return trap(board, thread, Call::EngineComplete, interrupt, RESET * bit, NEVER);
            }
        }
        self.phase = Phase::Start;
        trap(board, thread, Call::InterruptAck, interrupt, 0, NEVER)
    }

    fn server(&mut self, board: &mut Board, thread: ThreadId, endpoint: u64, service: &[Part]) -> Action {
        loop {
            match self.phase {
                Phase::Burning(left) if left > 0 => return Action::Burn(left),
                Phase::Start => {
                    self.phase = Phase::Received;
                    return trap(board, thread, Call::Receive, endpoint, 0, NEVER);
                }
                // A reply to a client that is gone receives nothing.
                Phase::Received if board.registers(thread).general[0] != 0 => self.phase = Phase::Start,
                Phase::Received => {
                    (self.step, self.token) = (0, board.registers(thread).general[TOKEN]);
                    self.phase = Phase::Next;
                }
                _ => {
                    let part = service.get(self.step);
                    self.step += 1;
                    match part {
                        Some(Part::Burn(span)) => self.phase = Phase::Burning(*span),
                        Some(Part::Call(other, length)) => {
                            self.phase = Phase::Next;
                            let action = trap(board, thread, Call::Call, *other, 0, NEVER);
                            board.registers(thread).general[2] = *length;
                            return action;
                        }
                        None => {
                            self.phase = Phase::Received;
                            let action = trap(board, thread, Call::ReplyReceive, endpoint, 0, NEVER);
                            board.registers(thread).general[TOKEN] = self.token;
                            return action;
                        }
                    }
                }
            }
        }
    }
}

/// A system call with these arguments is next.
pub fn trap(board: &mut Board, thread: ThreadId, call: Call, first: u64, second: u64, deadline: u64) -> Action {
    let registers: &mut Registers = board.registers(thread);
    registers.general[0] = first;
    registers.general[1] = second;
    registers.general[NUMBER] = call as u64;
    registers.general[DEADLINE] = deadline;
    registers.general[TOKEN] = 0;
    Action::Trap
}

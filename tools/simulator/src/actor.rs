//! The program of a task: a script, step by step, as the task `scripted` plays it on a board.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Range;
use std::rc::Rc;

use fusee_abi::Error;
use fusee_abi::call::{CARRIES, Call, DEADLINE, FIRST_WORD, GIVEN, KEPT, LENT, NEVER, NUMBER, RESET, TOKEN};
use fusee_abi::script::{Step, operation};
use fusee_accel_contract as contract;
use fusee_kernel_core::id::ThreadId;
use fusee_kernel_core::{Fault, Machine, Registers};
use sharer::course::Shown;

use crate::board::{Board, DeviceUse, DoorbellStore, Submitted};
use crate::gpu_job::{GpuTask, Progress};
use crate::graph::{Node, Tell};
use crate::process::Failure;
use crate::sharing::{Sessions, Sharer, Sharing};
use crate::watcher::{Supervisor, Watch};

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
            Program::Script { steps, has_jobs, node } => self.script(board, thread, (steps, node.as_ref()), *has_jobs),
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

    fn script(
        &mut self,
        board: &mut Board,
        thread: ThreadId,
        (steps, node): (&[Step], Option<&Node>),
        has_jobs: bool,
    ) -> Action {
        loop {
            match self.phase {
                Phase::Start => {
                    self.step = 0;
                    if let Some(node) = node {
                        self.told = node.begin(board);
                    }
                    let is_asked = has_jobs || node.is_some();
                    self.phase = if is_asked { Phase::Ended(false) } else { Phase::Next };
                }
                Phase::Ended(_) if let Some((node, thread_of)) = node.and_then(|node| Some((node, node.thread?))) => {
                    // Its handles to consumers are to notifications, too.
                    if let Some(Tell::Credit(consumer, _) | Tell::Room(consumer)) = self.told.pop_front() {
                        return trap(board, thread, Call::Signal, consumer, 1, NEVER);
                    }
                    let due = thread_of.first + thread_of.period * self.job;
                    match node.is_source() {
                        true if board.now < due => return trap(board, thread, Call::SleepUntil, 0, 0, due),
                        false if !node.has_tokens(board, self.job + 1) => {
                            return trap(board, thread, Call::Wait, thread_of.tokens, 0, NEVER);
                        }
                        _ => {}
                    }
                    (self.job, self.release, self.step) = (self.job + 1, due, 0);
                    self.phase = Phase::Next;
                }
                Phase::Ended(is_told) => {
                    // A call releases one job, and the one that it was said for may have none any more.
                    let general = &board.registers(thread).general;
                    let has_more =
                        matches!(self.told.front(), Some(Tell::Credit(..))) && general[0] == 0 && general[1] > 0;
                    if is_told && !has_more {
                        self.told.pop_front();
                    }
                    self.phase = Phase::Ended(true);
                    return match self.told.front().copied() {
                        Some(Tell::Credit(task, upto)) => trap(board, thread, Call::ReleaseJob, task, upto, NEVER),
                        Some(Tell::Room(notification)) => trap(board, thread, Call::Signal, notification, 1, NEVER),
                        None => {
                            self.phase = Phase::JobBegins;
                            trap(board, thread, Call::NextJob, 0, 0, NEVER)
                        }
                    };
                }
                Phase::JobBegins => {
                    let general = &board.registers(thread).general;
                    (self.job, self.release) = (general[1], general[2]);
                    (self.step, self.gives_up) = (0, false);
                    self.phase = if node.is_some() { Phase::Room } else { Phase::Next };
                }
                Phase::Room => match node.and_then(|node| node.waits(board, self.job)) {
                    Some(room) => return trap(board, thread, Call::Wait, room, 0, NEVER),
                    None => self.phase = Phase::Next,
                },
                Phase::Burning(left) if left > 0 => return Action::Burn(left),
                Phase::Burning(_) => {
                    self.phase = match self.after_burn.take() {
                        Some(token) => Phase::Answer(token),
                        None => Phase::Next,
                    };
                }
                Phase::Received => {
                    let registers = *board.registers(thread);
                    if registers.general[0] != 0 {
                        // The client is gone; the next one is not to blame.
                        let Some(step) = steps.get(self.step) else { return Action::Fault("serving without a step") };
                        return trap(board, thread, Call::Receive, step.handle, 0, NEVER);
                    }
                    self.after_burn = Some(registers.general[TOKEN]);
                    self.phase = Phase::Burning(registers.general[2]);
                }
                Phase::Answer(token) => {
                    let Some(step) = steps.get(self.step) else { return Action::Fault("serving without a step") };
                    self.phase = Phase::Received;
                    let action = trap(board, thread, Call::ReplyReceive, step.handle, 0, NEVER);
                    board.registers(thread).general[TOKEN] = token;
                    return action;
                }
                Phase::Taken => {
                    let general = &board.registers(thread).general;
                    if general[0] != 0 {
                        let Some(step) = self.step.checked_sub(1).and_then(|step| steps.get(step)) else {
                            return Action::Fault("receiving without a step");
                        };
                        return trap(board, thread, Call::Receive, step.handle, 0, NEVER);
                    }
                    self.token = general[TOKEN];
                    self.phase = Phase::Next;
                }
                Phase::Fence(one, target, handle) => {
                    if board.retired(one.device, one.engine, one.context).wrapping_sub(target) as i32 >= 0 {
                        self.phase = Phase::Next;
                    } else if board.polls {
                        // Nothing is new until a device has something to do.
                        let next = board.devices_next().map_or(1, |next| next.saturating_sub(board.now));
                        return Action::Burn(next.max(1));
                    } else {
                        self.phase = Phase::Told(one, target, handle);
                        return trap(board, thread, Call::Wait, handle, 0, NEVER);
                    }
                }
                // The driver has died, which would have told of the end: the step ends without it.
                Phase::Told(..) if board.registers(thread).general[0] == Error::PeerDied as u64 => {
                    self.phase = Phase::Next;
                }
                Phase::Told(one, target, handle) => self.phase = Phase::Fence(one, target, handle),
                Phase::Asked(engine) => {
                    let general = &board.registers(thread).general;
                    if general[0] == 0 && general[1] == 1 {
                        self.phase = Phase::Yielded(engine);
                        return trap(board, thread, Call::Release, engine, 0, NEVER);
                    }
                    self.phase = Phase::Stepped;
                }
                Phase::Credited(task, upto) => {
                    // A call releases one job.
                    let general = &board.registers(thread).general;
                    if general[0] == 0 && general[1] > 0 {
                        return trap(board, thread, Call::ReleaseJob, task, upto, NEVER);
                    }
                    self.phase = Phase::Stepped;
                }
                Phase::Yielded(engine) => {
                    self.phase = Phase::Stepped;
                    return trap(board, thread, Call::Acquire, engine, 0, NEVER);
                }
                Phase::Next => {
                    let Some(step) = steps.get(self.step).copied() else {
                        if let Some(node) = node {
                            node.keep(board, self.release);
                            self.told = node.end(board, self.job);
                        }
                        let is_over = !has_jobs && node.is_none();
                        self.phase = if is_over { Phase::Over } else { Phase::Ended(false) };
                        continue;
                    };
                    if step.operation != operation::SERVE {
                        self.step += 1;
                    }
                    if self.gives_up && step.operation != operation::RELEASE {
                        continue;
                    }
                    if step.operation == operation::REPLY {
                        let received = |one: &Step| one.operation == operation::RECEIVE && one.handle == step.handle;
                        let Some(at) = steps.iter().position(received) else {
                            return Action::Fault("replying without a step that receives");
                        };
                        (self.step, self.phase, self.is_idle) = (at + 1, Phase::Taken, false);
                        let action = trap(board, thread, Call::ReplyReceive, step.handle, 0, NEVER);
                        board.registers(thread).general[TOKEN] = self.token;
                        return action;
                    }
                    if let Some(action) = self.begin(board, thread, step) {
                        self.is_idle = false;
                        if let Phase::Next = self.phase {
                            self.phase = Phase::Stepped;
                        }
                        return action;
                    }
                }
                Phase::Stepped => {
                    // The job has used up its budget and was told so: the rest is left out, but that tokens are given back.
                    let answer = board.registers(thread).general[0];
                    self.gives_up |= answer == Error::Overrun as u64;
                    // The engine is of a device that its token is not for, or its driver is dead: the job's work there is left out.
                    let asked = self.step.checked_sub(1).and_then(|last| steps.get(last));
                    let is_refused = |step: &&Step| match step.operation {
                        operation::ACQUIRE => [Error::NotHeld as u64, Error::PeerDied as u64].contains(&answer),
                        // It was given to another, and is not had again.
                        operation::YIELD_ENGINE => answer == Error::PeerDied as u64,
                        _ => false,
                    };
                    if let Some(asked) = asked.filter(is_refused) {
                        let gives_back =
                            |step: &Step| step.operation == operation::RELEASE && step.handle == asked.handle;
                        self.step += steps[self.step..].iter().position(gives_back).map_or(0, |left_out| left_out + 1);
                    }
                    self.phase = Phase::Next;
                }
                Phase::Woken | Phase::Notify | Phase::Returned | Phase::Over => {
                    return trap(board, thread, Call::Exit, 0, 0, NEVER);
                }
            }
        }
    }

    /// Begins a step; `None` if it needs no trap.
    fn begin(&mut self, board: &mut Board, thread: ThreadId, step: Step) -> Option<Action> {
        let call = match step.operation {
            operation::BURN => {
                self.phase = Phase::Burning(step.value);
                self.is_idle &= step.value == 0;
                return None;
            }
            operation::REPEAT => {
                self.step = 0;
                let takes_no_time = std::mem::replace(&mut self.is_idle, true);
                return takes_no_time
                    .then_some(Action::Fault("a script that begins again and again and takes no time"));
            }
            operation::SUBMIT => {
                let Some(one) = board.find_use(thread.index(), step.selector) else {
                    return Some(Action::Fault("a doorbell it was never given"));
                };
                return match board.submit(one, step.value) {
                    Ok(Submitted::Done(target)) => {
                        self.phase = Phase::Fence(one, target, step.handle);
                        None
                    }
                    Ok(Submitted::Asked(target, store)) => {
                        self.phase = Phase::Fence(one, target, step.handle);
                        Some(Action::Store(store))
                    }
                    Ok(Submitted::Lost) => None,
                    Err(reason) => Some(Action::Fault(reason)),
                };
            }
            operation::START => {
                let started = board.find_use(thread.index(), step.selector).map(|one| board.submit(one, step.value));
                return match started {
                    Some(Ok(Submitted::Asked(_, store))) => Some(Action::Store(store)),
                    Some(Ok(_)) => None,
                    Some(Err(reason)) => Some(Action::Fault(reason)),
                    None => Some(Action::Fault("a doorbell it was never given")),
                };
            }
            operation::SERVE => {
                self.phase = Phase::Received;
                return Some(trap(board, thread, Call::Receive, step.handle, 0, NEVER));
            }
            operation::RECEIVE => {
                self.phase = Phase::Taken;
                return Some(trap(board, thread, Call::Receive, step.handle, 0, NEVER));
            }
            operation::YIELD_ENGINE => {
                self.phase = Phase::Asked(step.handle);
                return Some(trap(board, thread, Call::ShouldYield, step.handle, 0, NEVER));
            }
            operation::SLEEP => {
                return Some(trap(board, thread, Call::SleepUntil, 0, 0, self.release + step.value));
            }
            operation::PAUSE => {
                return Some(trap(board, thread, Call::SleepUntil, 0, 0, board.now.saturating_add(step.value)));
            }
            operation::CALL | operation::SEND => {
                let call = if step.operation == operation::CALL { Call::Call } else { Call::Send };
                let action = trap(board, thread, call, step.handle, 0, NEVER);
                board.registers(thread).general[2] = step.value;
                return Some(action);
            }
            operation::ACQUIRE_BOTH => {
                let action = trap(board, thread, Call::AcquireGroup, step.handle, 0, NEVER);
                board.registers(thread).general[FIRST_WORD] = step.value;
                return Some(action);
            }
            operation::SIGNAL => Call::Signal,
            operation::WAIT => Call::Wait,
            operation::ACQUIRE => Call::Acquire,
            operation::RELEASE => Call::Release,
            operation::CREDIT => {
                let upto = u64::from(self.job.wrapping_mul(step.value) as u32);
                if upto == 0 {
                    return None;
                }
                self.phase = Phase::Credited(step.handle, upto);
                return Some(trap(board, thread, Call::ReleaseJob, step.handle, upto, NEVER));
            }
            operation::RELEASE_JOB => Call::ReleaseJob,
            operation::STOP => Call::Stop,
            operation::BEGIN => Call::Start,
            operation::YIELD => Call::Yield,
            operation::EARLY_RELEASE => Call::EarlyRelease,
            operation::SHUTDOWN => Call::Exit,
            _ => return Some(Action::Fault("an unknown step")),
        };
        let value = if step.operation == operation::SHUTDOWN { 0 } else { step.value };
        Some(trap(board, thread, call, step.handle, value, NEVER))
    }

    fn requests(
        &mut self,
        board: &mut Board,
        thread: ThreadId,
        requests: &[Request],
        again_from: Option<usize>,
    ) -> Action {
        loop {
            match self.phase {
                Phase::Burning(left) if left > 0 => return Action::Burn(left),
                Phase::Returned => {
                    let general = &board.registers(thread).general;
                    self.results.push(general[0]);
                    if general[0] == 0 && general[TOKEN] != 0 {
                        self.token = general[TOKEN];
                    }
                    let carries = general[1] & (CARRIES | LENT) != 0 || general[NUMBER] == Call::CallWith as u64;
                    if general[0] == 0 && carries && general[GIVEN] != 0 {
                        self.received = general[GIVEN];
                    }
                    self.phase = Phase::Next;
                }
                _ => {}
            }
            let Some(request) = requests.get(self.step) else {
                match again_from {
                    Some(first) if first < requests.len() => self.step = first,
                    _ => return trap(board, thread, Call::Exit, 0, 0, NEVER),
                }
                continue;
            };
            self.step += 1;
            match *request {
                Request::Burn(span) => self.phase = Phase::Burning(span),
                Request::Submit(engine, span) => {
                    self.phase = Phase::Next;
                    let submitted = board
                        .find_use(thread.index(), engine)
                        .ok_or("a doorbell it was never given")
                        .and_then(|one| board.submit(one, span));
                    match submitted {
                        Ok(Submitted::Asked(_, store)) => return Action::Store(store),
                        Ok(_) => {}
                        Err(reason) => return Action::Fault(reason),
                    }
                }
                Request::Ring(engine, change, kicks) => {
                    self.phase = Phase::Next;
                    let rung = board
                        .find_use(thread.index(), engine)
                        .ok_or("a doorbell it was never given")
                        .and_then(|one| board.ring(one, change, kicks));
                    match rung {
                        Ok(Some(store)) => return Action::Store(store),
                        Ok(None) => {}
                        Err(reason) => return Action::Fault(reason),
                    }
                }
                Request::Load(region) => {
                    self.phase = Phase::Next;
                    match board.reach(thread, self.named(region), false) {
                        Ok(word) => self.results.push(*word),
                        Err(reason) => return Action::Fault(reason),
                    }
                }
                Request::Store(region, value) => {
                    self.phase = Phase::Next;
                    match board.reach(thread, self.named(region), true) {
                        Ok(word) => *word = value,
                        Err(reason) => return Action::Fault(reason),
                    }
                }
                Request::With { given, kept } => {
                    self.phase = Phase::Next;
                    self.gift = (self.named(given), kept);
                }
                Request::Call { number, first, second, words, until, reply } => {
                    self.phase = Phase::Returned;
                    let (given, kept) = std::mem::take(&mut self.gift);
                    let first = self.named(first);
                    let deadline = match until {
                        Until::Never => NEVER,
                        Until::After(span) => board.now + span,
                    };
                    let registers = board.registers(thread);
                    registers.general[0] = first;
                    registers.general[1] = second;
                    registers.general[FIRST_WORD..FIRST_WORD + 2].copy_from_slice(&words);
                    registers.general[NUMBER] = number;
                    registers.general[DEADLINE] = deadline;
                    registers.general[TOKEN] = match reply {
                        Reply::Nobody => 0,
                        Reply::Last => self.token,
                        Reply::LastWith => self.token | CARRIES,
                        Reply::Token(token) => token,
                    };
                    registers.general[GIVEN] = given;
                    registers.general[KEPT] = u64::from(kept);
                    return Action::Trap;
                }
            }
        }
    }

    /// The handle that a request means.
    fn named(&self, handle: u64) -> u64 {
        if handle == RECEIVED { self.received } else { handle }
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

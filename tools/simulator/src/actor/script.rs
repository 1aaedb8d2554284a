//! A script: phase after phase, up to the next trap.

use fusee_abi::Error;
use fusee_abi::call::{Call, FIRST_WORD, NEVER, TOKEN};
use fusee_abi::script::{Step, operation};
use fusee_kernel_core::Machine;
use fusee_kernel_core::id::ThreadId;

use super::{Action, Actor, Phase, trap};
use crate::board::{Board, DeviceUse, Submitted};
use crate::graph::{self, Node, Tell};

/// A script, and how it begins again.
pub(super) struct Script<'a> {
    /// The steps of a job, or of the task.
    pub steps: &'a [Step],
    /// Its place in a graph.
    pub node: Option<&'a Node>,
    /// Whether the task has jobs.
    pub has_jobs: bool,
}

impl Actor {
    /// Goes on until the script asks for something.
    pub(super) fn script(&mut self, board: &mut Board, thread: ThreadId, script: &Script<'_>) -> Action {
        loop {
            if let Some(action) = self.phase_of_script(board, thread, script) {
                return action;
            }
        }
    }

    /// One phase; `None` if the next one follows at once.
    fn phase_of_script(&mut self, board: &mut Board, thread: ThreadId, script: &Script<'_>) -> Option<Action> {
        let Script { steps, node, .. } = *script;
        match self.phase {
            Phase::Start => self.begin_script(board, script),
            Phase::Ended(_) if let Some((node, thread_of)) = node.and_then(|node| Some((node, node.thread?))) => {
                return self.begin_job_of_thread(board, thread, node, thread_of);
            }
            Phase::Ended(is_told) => return Some(self.end_job(board, thread, is_told)),
            Phase::JobBegins => {
                let general = &board.registers(thread).general;
                (self.job, self.release) = (general[1], general[2]);
                (self.step, self.gives_up) = (0, false);
                self.phase = if node.is_some() { Phase::Room } else { Phase::Next };
            }
            Phase::Room => match node.and_then(|node| node.waits(board, self.job)) {
                Some(room) => return Some(trap(board, thread, Call::Wait, room, 0, NEVER)),
                None => self.phase = Phase::Next,
            },
            Phase::Burning(left) if left > 0 => return Some(Action::Burn(left)),
            Phase::Burning(_) => {
                self.phase = self.after_burn.take().map_or(Phase::Next, Phase::Answer);
            }
            Phase::Received => return self.serve(board, thread, steps),
            Phase::Answer(token) => return Some(self.answer(board, thread, steps, token)),
            Phase::Taken => return self.take(board, thread, steps),
            Phase::Fence(one, target, handle) => return self.wait_for_device(board, thread, one, target, handle),
            // The driver has died, which would have told of the end: the step ends without it.
            Phase::Told(..) if board.registers(thread).general[0] == Error::PeerDied as u64 => {
                self.phase = Phase::Next;
            }
            Phase::Told(one, target, handle) => self.phase = Phase::Fence(one, target, handle),
            Phase::Asked(engine) => {
                let general = &board.registers(thread).general;
                if general[0] == 0 && general[1] == 1 {
                    self.phase = Phase::Yielded(engine);
                    return Some(trap(board, thread, Call::Release, engine, 0, NEVER));
                }
                self.phase = Phase::Stepped;
            }
            Phase::Credited(task, upto) => {
                // A call releases one job.
                let general = &board.registers(thread).general;
                if general[0] == 0 && general[1] > 0 {
                    return Some(trap(board, thread, Call::ReleaseJob, task, upto, NEVER));
                }
                self.phase = Phase::Stepped;
            }
            Phase::Yielded(engine) => {
                self.phase = Phase::Stepped;
                return Some(trap(board, thread, Call::Acquire, engine, 0, NEVER));
            }
            Phase::Next => return self.next_step(board, thread, script),
            Phase::Stepped => self.end_step(board, thread, steps),
            Phase::Woken | Phase::Notify | Phase::Returned | Phase::Over => {
                return Some(trap(board, thread, Call::Exit, 0, 0, NEVER));
            }
        }
        None
    }

    /// Begins the steps; a node first tells its neighbours.
    fn begin_script(&mut self, board: &mut Board, &Script { node, has_jobs, .. }: &Script<'_>) {
        self.step = 0;
        if let Some(node) = node {
            self.told = node.begin(board);
        }
        let is_asked = has_jobs || node.is_some();
        self.phase = if is_asked { Phase::Ended(false) } else { Phase::Next };
    }

    /// Begins a job of a node that is a thread without jobs of its own: it tells others, and waits for time or tokens.
    fn begin_job_of_thread(
        &mut self,
        board: &mut Board,
        thread: ThreadId,
        node: &Node,
        thread_of: graph::Thread,
    ) -> Option<Action> {
        // Its handles to consumers are to notifications, too.
        if let Some(Tell::Credit(consumer, _) | Tell::Room(consumer)) = self.told.pop_front() {
            return Some(trap(board, thread, Call::Signal, consumer, 1, NEVER));
        }
        let due = thread_of.first + thread_of.period * self.job;
        match node.is_source() {
            true if board.now < due => return Some(trap(board, thread, Call::SleepUntil, 0, 0, due)),
            false if !node.has_tokens(board, self.job + 1) => {
                return Some(trap(board, thread, Call::Wait, thread_of.tokens, 0, NEVER));
            }
            _ => {}
        }
        (self.job, self.release, self.step) = (self.job + 1, due, 0);
        self.phase = Phase::Next;
        None
    }

    /// Tells a consumer, or asks for the next job.
    fn end_job(&mut self, board: &mut Board, thread: ThreadId, is_told: bool) -> Action {
        // A call releases one job, and the one that it was said for may have none any more.
        let general = &board.registers(thread).general;
        let has_more = matches!(self.told.front(), Some(Tell::Credit(..))) && general[0] == 0 && general[1] > 0;
        if is_told && !has_more {
            self.told.pop_front();
        }
        self.phase = Phase::Ended(true);
        match self.told.front().copied() {
            Some(Tell::Credit(task, upto)) => trap(board, thread, Call::ReleaseJob, task, upto, NEVER),
            Some(Tell::Room(notification)) => trap(board, thread, Call::Signal, notification, 1, NEVER),
            None => {
                self.phase = Phase::JobBegins;
                trap(board, thread, Call::NextJob, 0, 0, NEVER)
            }
        }
    }

    /// Computes for a request that has come.
    fn serve(&mut self, board: &mut Board, thread: ThreadId, steps: &[Step]) -> Option<Action> {
        let registers = *board.registers(thread);
        if registers.general[0] != 0 {
            // The client is gone; the next one is not to blame.
            let Some(step) = steps.get(self.step) else { return Some(Action::Fault("serving without a step")) };
            return Some(trap(board, thread, Call::Receive, step.handle, 0, NEVER));
        }
        self.after_burn = Some(registers.general[TOKEN]);
        self.phase = Phase::Burning(registers.general[2]);
        None
    }

    /// Replies, and receives the next request.
    fn answer(&mut self, board: &mut Board, thread: ThreadId, steps: &[Step], token: u64) -> Action {
        let Some(step) = steps.get(self.step) else { return Action::Fault("serving without a step") };
        self.phase = Phase::Received;
        let action = trap(board, thread, Call::ReplyReceive, step.handle, 0, NEVER);
        board.registers(thread).general[TOKEN] = token;
        action
    }

    /// Keeps the token of a request whose service are the steps that follow.
    fn take(&mut self, board: &mut Board, thread: ThreadId, steps: &[Step]) -> Option<Action> {
        let general = &board.registers(thread).general;
        if general[0] != 0 {
            let Some(step) = self.step.checked_sub(1).and_then(|step| steps.get(step)) else {
                return Some(Action::Fault("receiving without a step"));
            };
            return Some(trap(board, thread, Call::Receive, step.handle, 0, NEVER));
        }
        self.token = general[TOKEN];
        self.phase = Phase::Next;
        None
    }

    /// Goes on if all commands of a use up to `target` have retired, and waits otherwise.
    fn wait_for_device(
        &mut self,
        board: &mut Board,
        thread: ThreadId,
        one: DeviceUse,
        target: u32,
        handle: u64,
    ) -> Option<Action> {
        if board.retired(one.device, one.engine, one.context).wrapping_sub(target) as i32 >= 0 {
            self.phase = Phase::Next;
        } else if board.polls {
            // Nothing is new until a device has something to do.
            let next = board.devices_next().map_or(1, |next| next.saturating_sub(board.now));
            return Some(Action::Burn(next.max(1)));
        } else {
            self.phase = Phase::Told(one, target, handle);
            return Some(trap(board, thread, Call::Wait, handle, 0, NEVER));
        }
        None
    }

    /// Begins the next step, or ends the job.
    fn next_step(
        &mut self,
        board: &mut Board,
        thread: ThreadId,
        &Script { steps, node, has_jobs }: &Script<'_>,
    ) -> Option<Action> {
        let Some(step) = steps.get(self.step).copied() else {
            if let Some(node) = node {
                node.keep(board, self.release);
                self.told = node.end(board, self.job);
            }
            let is_over = !has_jobs && node.is_none();
            self.phase = if is_over { Phase::Over } else { Phase::Ended(false) };
            return None;
        };
        if step.operation != operation::SERVE {
            self.step += 1;
        }
        if self.gives_up && step.operation != operation::RELEASE {
            return None;
        }
        if step.operation == operation::REPLY {
            return Some(self.reply(board, thread, steps, step));
        }
        let action = self.begin(board, thread, step)?;
        self.is_idle = false;
        if let Phase::Next = self.phase {
            self.phase = Phase::Stepped;
        }
        Some(action)
    }

    /// Replies to the request of the step that receives, which is the next one again.
    fn reply(&mut self, board: &mut Board, thread: ThreadId, steps: &[Step], step: Step) -> Action {
        let received = |one: &Step| one.operation == operation::RECEIVE && one.handle == step.handle;
        let Some(at) = steps.iter().position(received) else {
            return Action::Fault("replying without a step that receives");
        };
        (self.step, self.phase, self.is_idle) = (at + 1, Phase::Taken, false);
        let action = trap(board, thread, Call::ReplyReceive, step.handle, 0, NEVER);
        board.registers(thread).general[TOKEN] = self.token;
        action
    }

    /// Leaves out the steps that a refusal has made impossible.
    fn end_step(&mut self, board: &mut Board, thread: ThreadId, steps: &[Step]) {
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
            let gives_back = |step: &Step| step.operation == operation::RELEASE && step.handle == asked.handle;
            self.step += steps[self.step..].iter().position(gives_back).map_or(0, |left_out| left_out + 1);
        }
        self.phase = Phase::Next;
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
}

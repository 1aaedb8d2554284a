//! Jobs that work on one of several GPUs, each time on the one that their token is for, and fetch their state from where it was.
//!
//! ```text
//! compute · token · [state from the other GPU] · copy in · kernel · kernel · copy out · give the token back · compute
//! ```
//!
//! Copies are in chunks. Between two of them the task asks whether it should let others have the engine. For a copy between GPUs it
//! has two engines, acquired at once: the copy engine out of the GPU that has the state, and the one into its own, which does the
//! work. The last chunk of an operation on one engine is released before its end, so the next in line has that engine as soon as it is
//! idle.
//!
//! Not here: the choice of a job's token (the pool), and the budgets that it draws from (the kernel).

use std::collections::VecDeque;

use fusee_abi::Error;
use fusee_abi::call::{Call, FIRST_WORD, NEVER};
use fusee_kernel_core::Machine;
use fusee_kernel_core::id::ThreadId;

use crate::actor::{Action, trap};
use crate::board::{Board, Submitted};

/// A task with such jobs. Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct GpuTask {
    /// Handle of the pool, and how many of its tokens each GPU has.
    pub pool: (u64, usize),
    /// The GPUs, in the order of their tokens.
    pub gpus: Vec<GpuHandles>,
    /// The time that a job computes before it has the token, and after it.
    pub compute: u64,
    /// Each of its two kernels.
    pub kernel: u64,
    /// Each of its copies, in and out; in pieces no longer than `chunk`.
    pub copy: u64,
    /// Bytes of a chunk of a copy: see `copy`.
    pub chunk: u64,
    /// How long it fetches its state to the first from the second GPU; in so many pieces.
    pub moves: Vec<Vec<u64>>,
    /// Pieces of a state that moves: see `moves`. Zero: there is no state.
    pub pieces: u64,
    /// Instants in order: the first job that is released at each of them or later runs `factor` times as long.
    pub moments: Vec<u64>,
    /// The factor of a job that overruns: see `moments`.
    pub factor: u64,
}

/// The task's handles to one GPU.
#[derive(Clone, Debug, Default)]
pub struct GpuHandles {
    /// Its engines by their numbers: the handle, and the index of the engine's use in the packed system.
    pub engines: [(u64, usize); 3],
    /// The notification of its completions.
    pub done: u64,
}

/// An engine of a GPU.
type Place = (usize, usize);
const EXECUTION: usize = 0;
const IN: usize = 1;
const OUT: usize = 2;

/// Engines that are acquired at once; the first one works.
type Places = (Place, Option<Place>);

#[derive(Clone, Copy, Debug)]
enum Step {
    Compute(u64),
    TakeToken,
    GiveToken,
    Acquire(Places),
    Release(Places),
    Submit(Place, u64),
    Wait(Place),
    /// Lets others have the engines, if they should.
    Yield(Places),
    /// A job that used up its budget hears of it.
    Checkpoint,
}

/// The task's last request.
#[derive(Clone, Copy, Debug, Default)]
enum Asked {
    #[default]
    Nothing,
    Job,
    Token,
    Yield(Places),
    Other,
}

/// How far the task is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The remaining steps of its job.
    steps: VecDeque<Step>,
    asked: Asked,
    /// Left to compute.
    left: u64,
    /// By how much this job is longer.
    factor: u64,
    /// How many moments have passed.
    passed: usize,
    /// Where its state is.
    home: Option<usize>,
    /// How many commands must have retired.
    target: u32,
}

impl Progress {
    /// The task has run `span` nanoseconds.
    pub fn ran(&mut self, span: u64) {
        self.left = self.left.saturating_sub(span);
    }

    /// The next action.
    pub fn act(&mut self, task: &GpuTask, board: &mut Board, thread: ThreadId) -> Action {
        if let Err(reason) = self.returned(task, board, thread) {
            return Action::Fault(reason);
        }
        if self.left > 0 {
            return Action::Burn(self.left);
        }
        while let Some(step) = self.steps.pop_front() {
            self.asked = Asked::Other;
            let handle = |(gpu, engine): Place| task.gpus[gpu].engines[engine].0;
            let call = |board: &mut Board, call, first| trap(board, thread, call, first, 0, NEVER);
            match step {
                Step::Compute(span) => {
                    self.asked = Asked::Nothing;
                    self.left = span;
                    return Action::Burn(span);
                }
                Step::TakeToken => {
                    self.asked = Asked::Token;
                    return call(board, Call::Acquire, task.pool.0);
                }
                Step::GiveToken => return call(board, Call::Release, task.pool.0),
                Step::Acquire((first, None)) => return call(board, Call::Acquire, handle(first)),
                Step::Acquire((first, Some(second))) => {
                    let action = call(board, Call::AcquireGroup, handle(first));
                    board.registers(thread).general[FIRST_WORD] = handle(second);
                    return action;
                }
                // With the first goes the second.
                Step::Release((first, _)) => return call(board, Call::Release, handle(first)),
                Step::Yield(places) => {
                    self.asked = Asked::Yield(places);
                    return call(board, Call::ShouldYield, handle(places.0));
                }
                Step::Checkpoint => return call(board, Call::Yield, 0),
                Step::Submit((gpu, engine), time) => {
                    let one = board.uses[task.gpus[gpu].engines[engine].1];
                    match board.submit(one, time) {
                        Ok(Submitted::Done(target)) => self.target = target,
                        Ok(Submitted::Asked(target, store)) => {
                            (self.target, self.asked) = (target, Asked::Nothing);
                            return Action::Store(store);
                        }
                        // The engine was taken away: there is nothing to wait for.
                        Ok(Submitted::Lost) => self.target = board.retired(one.device, one.engine, one.context),
                        Err(reason) => return Action::Fault(reason),
                    }
                }
                Step::Wait((gpu, engine)) => {
                    let one = board.uses[task.gpus[gpu].engines[engine].1];
                    let retired = board.retired(one.device, one.engine, one.context);
                    if (retired.wrapping_sub(self.target) as i32) < 0 {
                        self.steps.push_front(step);
                        return call(board, Call::Wait, task.gpus[gpu].done);
                    }
                }
            }
        }
        self.asked = Asked::Job;
        trap(board, thread, Call::NextJob, 0, 0, NEVER)
    }

    /// Looks at the result of the last call.
    fn returned(&mut self, task: &GpuTask, board: &mut Board, thread: ThreadId) -> Result<(), &'static str> {
        let general = board.registers(thread).general;
        let asked = std::mem::take(&mut self.asked);
        if !matches!(asked, Asked::Nothing) && general[0] != 0 {
            // The kernel tells it only while it holds no engine. Its token it gives back.
            self.steps.retain(|step| matches!(step, Step::GiveToken));
            return if general[0] == Error::Overrun as u64 { Ok(()) } else { Err("a call that should not fail") };
        }
        match asked {
            Asked::Job => self.begin(task, general[2]),
            Asked::Token => self.work_on(task, general[1] as usize / task.pool.1),
            Asked::Yield(places) if general[1] != 0 => {
                self.steps.push_front(Step::Acquire(places));
                self.steps.push_front(Step::Release(places));
            }
            _ => {}
        }
        Ok(())
    }

    /// A job begins that was released at `release`.
    fn begin(&mut self, task: &GpuTask, release: u64) {
        let passed = task.moments.partition_point(|moment| *moment <= release);
        self.factor = if passed > self.passed { task.factor } else { 1 };
        self.passed = passed;
        self.steps.extend([Step::Compute(self.factor * task.compute), Step::TakeToken]);
    }

    /// The task has a token for `gpu`.
    fn work_on(&mut self, task: &GpuTask, gpu: usize) {
        let from = self.home.replace(gpu).unwrap_or(gpu);
        if from != gpu && task.pieces > 0 {
            self.operate(((gpu, IN), Some((from, OUT))), task.moves[gpu][from], task.pieces);
        }
        let (copy, kernel) = (self.factor * task.copy, self.factor * task.kernel);
        let pieces = copy.div_ceil(task.chunk).max(1);
        self.operate(((gpu, IN), None), copy, pieces);
        for _ in 0..2 {
            self.operate(((gpu, EXECUTION), None), kernel, 1);
        }
        self.operate(((gpu, OUT), None), copy, pieces);
        self.steps.extend([Step::GiveToken, Step::Checkpoint, Step::Compute(self.factor * task.compute)]);
    }

    /// An operation of `time`, in so many pieces.
    fn operate(&mut self, places: Places, time: u64, pieces: u64) {
        let (place, second) = places;
        self.steps.push_back(Step::Acquire(places));
        for _ in 1..pieces {
            self.steps.extend([Step::Submit(place, time / pieces), Step::Wait(place), Step::Yield(places)]);
        }
        self.steps.push_back(Step::Submit(place, time / pieces));
        // The engine that only lends its way would be idle at once.
        let last = [Step::Release(places), Step::Wait(place)];
        self.steps.extend(if second.is_some() { [last[1], last[0]] } else { last });
    }
}

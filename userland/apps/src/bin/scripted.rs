//! Plays its script, in each of its jobs: the tasks of conformance systems.
//!
//! The simulator runs the same scripts directly (`tools/simulator/src/actor.rs`), and both must leave the same trace.
//! A task with jobs runs all steps in each of them; one without runs them once. A refused call changes nothing about
//! the steps that follow; it is logged as `log(operation, REFUSED)`. A call that says the job has used up its budget
//! ends the job.
//!
//! With the parameter `until_us` a task without jobs ends before the first step after that microsecond since boot, and logs how many operations of engines had
//! ended by then ([`DONE`]). The simulator has no such parameter: it counts commands itself.
//!
//! Handles: those the script names; to submit, also the regions "ring" and "kick". An engine that the script submits to is held, or used without its lock.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::abi::environment::{Entry, SHARED};
use fusee::abi::image::kind;
use fusee::abi::script::{Step, operation};
use fusee::gpu::{Context, Fence, Operation};
use fusee::graph::Node;
use fusee::{
    AcquireError, Endpoint, Engine, EngineGroup, EngineGuard, Environment, Instant, JobError, Nanoseconds,
    Notification, Object, Pool, ReplyToken, ServeError, Server, SleepError, System, Task, WaitError, YieldError, burn,
    early_release, environment, next_job, now, shutdown, sleep_until, yield_now,
};

fusee::entry!(main);

/// Engines and mutexes that a script can hold at once.
const HELD: usize = 8;
/// The word logged with the number of a step's operation when its call was refused.
const REFUSED: u64 = 0xFFFF_FFFF;
/// The key under which the number of operations is logged, which is that of no step.
const DONE: u64 = 1 << 16;

fn main() {
    let environment = environment();
    let until = environment.parameter("until_us").map(|end| Instant(end * 1_000));
    let mut player =
        Player { environment, held: [const { None }; HELD], both: None, context: None, token: None, until, done: 0 };
    let mut node = Node::of(&player.environment).ok();
    let mut next = match next_job() {
        Err(JobError::NoJobs) => return player.play(Instant::ZERO, 0),
        next => next,
    };
    loop {
        let job = next.expect("a task with jobs has another");
        if let Some(node) = &mut node {
            node.begin(&job);
        }
        player.play(job.release, job.number);
        if let Some(node) = &mut node {
            node.end(&job);
        }
        next = next_job();
    }
}

/// The result of a step.
enum Outcome {
    Done,
    /// The kernel refused the call; the script goes on.
    Refused,
    /// The job has used up its budget and was told so: it ends here.
    Overrun,
}

/// The step at which the script receives the request that `reply` answers.
fn received(steps: &[Step], reply: &Step) -> usize {
    let is_it = |step: &Step| step.operation == operation::RECEIVE && step.handle == reply.handle;
    steps.iter().position(is_it).expect("who replies has received")
}

impl From<bool> for Outcome {
    fn from(done: bool) -> Self {
        if done { Self::Done } else { Self::Refused }
    }
}

/// The objects that the script has acquired and opened so far.
struct Player {
    environment: Environment,
    /// By handles: a mutex has a number of no device, which an engine may have, too.
    held: [Option<(u64, EngineGuard<'static>)>; HELD],
    /// Two that were acquired together, and the handle of the first.
    both: Option<(u64, EngineGroup)>,
    context: Option<Context>,
    /// The token that answers the request that it serves.
    token: Option<ReplyToken>,
    /// The instant at which it ends,
    until: Option<Instant>,
    /// and the operations that had ended before it.
    done: u64,
}

impl Player {
    /// Plays all steps once; sleeps count from `release`, and `job` is the number of the job.
    fn play(&mut self, release: Instant, job: u64) {
        let steps = self.environment.script();
        let mut next = 0;
        while let Some(step) = steps.get(next) {
            if self.is_over() {
                return fusee::log(DONE, self.done);
            }
            next = match step.operation {
                operation::REPEAT => 0,
                operation::REPLY => received(steps, step) + 1,
                _ => next + 1,
            };
            match self.step(step, release, job) {
                Outcome::Done => {}
                Outcome::Refused => fusee::log(step.operation.into(), REFUSED),
                // Tokens are given back where they would have been.
                Outcome::Overrun => {
                    for step in steps.iter().skip(next).filter(|step| step.operation == operation::RELEASE) {
                        self.release(step);
                    }
                    return;
                }
            }
        }
    }

    /// Whether the instant at which the script ends has passed.
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| now().now >= until)
    }

    /// Plays one step.
    fn step(&mut self, step: &Step, release: Instant, job: u64) -> Outcome {
        let value = step.value;
        match step.operation {
            operation::BURN => {
                burn(Nanoseconds(value));
                Outcome::Done
            }
            operation::SLEEP => match sleep_until(release + Nanoseconds(value)) {
                Err(SleepError::Overrun) => Outcome::Overrun,
                result => result.is_ok().into(),
            },
            operation::PAUSE => match sleep_until(now().now + Nanoseconds(value)) {
                Err(SleepError::Overrun) => Outcome::Overrun,
                result => result.is_ok().into(),
            },
            operation::CALL => {
                self.object::<Endpoint>(step).call([value, 0, 0, 0, 0, 0], Instant::NEVER).is_ok().into()
            }
            operation::SEND => {
                self.object::<Endpoint>(step).send([value, 0, 0, 0, 0, 0], Instant::NEVER).is_ok().into()
            }
            operation::SERVE => self.serve(step),
            operation::RECEIVE | operation::REPLY => self.receive(step),
            operation::SIGNAL => self.object::<Notification>(step).signal(value).is_ok().into(),
            operation::WAIT => match self.object::<Notification>(step).wait(Instant::NEVER) {
                Err(WaitError::Overrun) => Outcome::Overrun,
                result => result.is_ok().into(),
            },
            operation::ACQUIRE => self.acquire(step),
            operation::ACQUIRE_BOTH => self.acquire_both(step),
            operation::SUBMIT => self.submit(step).into(),
            operation::START => self.start(step).into(),
            operation::RELEASE => self.release(step).into(),
            operation::RELEASE_JOB => self.object::<Task>(step).release_job().is_ok().into(),
            operation::CREDIT => self.object::<Task>(step).credit(job.wrapping_mul(value) as u32).is_ok().into(),
            operation::BEGIN => self.object::<Task>(step).start().is_ok().into(),
            operation::STOP => self.object::<Task>(step).stop().is_ok().into(),
            operation::YIELD => match yield_now() {
                Err(YieldError::Overrun) => Outcome::Overrun,
                result => result.is_ok().into(),
            },
            operation::YIELD_ENGINE => self.yield_engine(step),
            operation::EARLY_RELEASE => early_release().is_ok().into(),
            operation::SHUTDOWN => shutdown(self.object::<System>(step), 0),
            // `play` has gone back to the first step.
            operation::REPEAT => Outcome::Done,
            unknown => panic!("the script has an operation {unknown}, newer than this program"),
        }
    }

    fn serve(&self, step: &Step) -> ! {
        Server::new(self.object(step)).run(|_, words| {
            burn(Nanoseconds(words[0]));
            words
        })
    }

    /// Answers the request that it serves, if it serves one, and waits for the next.
    fn receive(&mut self, step: &Step) -> Outcome {
        let mut server = Server::new(self.object(step));
        let mut next = match self.token.take() {
            Some(token) => server.reply_receive(token, [0; 6], Instant::NEVER),
            None => server.receive(Instant::NEVER),
        };
        loop {
            match next {
                Ok(request) => {
                    self.token = Some(request.token);
                    return Outcome::Done;
                }
                Err(ServeError::Handle(error)) => panic!("this task cannot serve its endpoint: {error:?}"),
                // The client is gone, or its wait was refused: the next one is not to blame.
                Err(_) => next = server.receive(Instant::NEVER),
            }
        }
    }

    fn acquire(&mut self, step: &Step) -> Outcome {
        if let Some(mut pool) = self.environment.by_handle::<Pool>(step.handle) {
            return match pool.acquire(Instant::NEVER) {
                Ok(token) => {
                    token.keep();
                    Outcome::Done
                }
                Err(AcquireError::Overrun) => Outcome::Overrun,
                Err(_) => Outcome::Refused,
            };
        }
        let engine = self.object::<Engine>(step);
        match engine.acquire(Instant::NEVER) {
            Ok(guard) => {
                let free = self.held.iter_mut().find(|place| place.is_none());
                *free.expect("the script holds too much at once") = Some((step.handle, guard));
                Outcome::Done
            }
            Err(AcquireError::Overrun) => Outcome::Overrun,
            Err(_) => Outcome::Refused,
        }
    }

    fn acquire_both(&mut self, step: &Step) -> Outcome {
        let second = self.environment.by_handle(step.value).expect("a step names a handle of the task");
        match Engine::acquire_together([self.object(step), second], Instant::NEVER) {
            Ok(group) => {
                self.both = Some((step.handle, group));
                Outcome::Done
            }
            Err(AcquireError::Overrun) => Outcome::Overrun,
            Err(_) => Outcome::Refused,
        }
    }

    fn release(&mut self, step: &Step) -> bool {
        if let Some(mut pool) = self.environment.by_handle::<Pool>(step.handle) {
            return pool.give_back().is_ok();
        }
        if let Some((_, group)) = self.both.take_if(|(first, _)| *first == step.handle) {
            return group.release().is_ok();
        }
        let held = self.held.iter_mut().find(|place| matches!(place, Some((handle, _)) if *handle == step.handle));
        held.and_then(Option::take).is_some_and(|(_, guard)| guard.release().is_ok())
    }

    fn yield_engine(&mut self, step: &Step) -> Outcome {
        let held = self.held.iter().flatten().find(|(handle, _)| *handle == step.handle);
        match held.map(|(_, guard)| guard.should_yield()) {
            Some(Ok(false)) => Outcome::Done,
            Some(Ok(true)) if self.release(step) => self.acquire(step),
            _ => Outcome::Refused,
        }
    }

    fn submit(&mut self, step: &Step) -> bool {
        let done = self.object::<Notification>(step);
        match self.ring(step) {
            Some((context, fence)) if context.wait_for(fence, done, Instant::NEVER).is_ok() => {
                if !self.is_over() {
                    self.done += 1;
                }
                true
            }
            _ => false,
        }
    }

    fn start(&mut self, step: &Step) -> bool {
        self.ring(step).is_some()
    }

    /// Submits the operation of a step to the engine it names, which must be held.
    fn ring(&mut self, step: &Step) -> Option<(&Context, Fence)> {
        let environment = self.environment;
        let rings =
            |guard: &&EngineGuard<'_>| guard.engine().has_doorbell() && guard.engine().number() == step.selector;
        // An engine that is used without its lock is always there.
        let shared = self.shared(step.selector);
        let guard = self.held.iter().flatten().map(|(_, guard)| guard).chain(&shared).find(rings)?;
        let context = self
            .context
            .get_or_insert_with(|| Context::of(&environment).expect("who submits is a client of the device"));
        let fence = context.start(guard, Operation::Burn { time: step.value }).ok()?;
        Some((context, fence))
    }

    /// Engine `number` of the device, if it is used without its lock.
    fn shared(&self, number: u32) -> Option<EngineGuard<'static>> {
        let is_it = |entry: &&Entry| entry.kind == kind::ENGINE && entry.flags & SHARED != 0;
        let name =
            |entry: &'static Entry| core::str::from_utf8(&entry.name).ok().map(|name| name.trim_end_matches('\0'));
        let names = self.environment.entries().iter().filter(is_it).filter_map(name);
        let mut engines = names.filter_map(|name| self.environment.get::<Engine>(name).ok());
        engines.find(|engine| engine.number() == number)?.acquire(Instant::NEVER).ok()
    }

    /// The object a step acts on; the manifest check has seen to it that the task has it.
    fn object<T: Object>(&self, step: &Step) -> T {
        self.environment.by_handle(step.handle).expect("a step names a handle of the task")
    }
}

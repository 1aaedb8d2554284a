//! Gives tasks that have ended another life, as the manifest says.
//!
//! The handles under `[supervisor]` of the manifest are those of this task, or of one of the reader's own: the notification `ends` (wait), and for
//! each task with the key `restart` the task itself (`task.NAME`), the notification of its start (`starts.NAME`), if it has further lives, and the
//! words of its policy (`restart.NAME`, `delay.NAME`, `start.NAME`).
//!
//! A task that begins again runs on the supervisor's budget until it is up, `start_within` long at most: the supervisor waits for it. So others that end
//! meanwhile wait for so long, and a supervisor's budget and deadline say how soon any service is there again.
//!
//! A supervisor with jobs looks in each of them, and waits for nothing in between. Its work is then analysed as that of other tasks: a life begins a
//! period after its delay at the latest, and is up by that job's deadline.
//!
//! # Logged marks
//!
//! | key | value |
//! |---|---|
//! | 1 | a task was given another life: its number, and that of the life in the upper half |
//! | 2 | a task is given up: its number |
//! | 3 | a task has not come up in time: its number |
//! | 4 | the first end of a task: its number, and in the upper half how it ended (`abi::call::ending`) |
//! | 5 | and its code, or the address of the instruction at which it ended |
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::abi::environment::kind::PARAMETER;
use fusee::abi::lives::Policy;
use fusee::{
    End, Ending, Environment, Instant, Nanoseconds, Notification, Task, WaitError, environment, log, next_job, now,
};
use fusee_driver::{name_of, of_client, parameter_of_client};
use supervisor::plan::{Course, Next};

fusee::entry!(main);

/// Tasks that one supervisor can have handles for.
const TASKS: usize = 16;

/// One task that is watched.
#[derive(Clone, Copy)]
struct Watched {
    task: Task,
    starts: Option<Notification>,
    policy: Policy,
    course: Course,
}

impl Watched {
    /// The entries of the environment for the task with this name.
    fn of(environment: &Environment, name: &str) -> Option<Watched> {
        let word = |prefix| parameter_of_client(environment, prefix, name);
        Some(Watched {
            task: of_client(environment, "task.", name)?,
            starts: of_client(environment, "starts.", name),
            policy: Policy::of([word("restart.")?, word("delay.")?, word("start.")?]),
            course: Course::NEW,
        })
    }

    /// Looks whether it has ended since it was looked at last.
    fn look(&mut self) {
        let Ok(End { ending, at, .. }) = self.task.end() else { return };
        if ending == Ending::None {
            return;
        }
        let Some(seen) = self.course.ended(&self.policy, at) else { return };
        let number = u64::from(self.policy.task);
        if seen.is_first {
            let (how, what) = told(ending);
            log(4, number | how << 32);
            log(5, what);
        }
        if seen.next == Some(Next::GiveUp) {
            log(2, number);
        }
    }

    /// Gives the task another life, and lends it the budget that it needs until it is up.
    fn begin(&mut self) {
        if let Some(starts) = self.starts {
            // That of a life that came up too late. Without one this is refused, since the task is dead.
            let _ = starts.wait(Instant::ZERO);
        }
        let Ok(life) = self.task.restart() else { return };
        let begun = now().now;
        self.course.begun(begun);
        log(1, u64::from(self.policy.task) | u64::from(life) << 32);
        let until = begun + Nanoseconds(u64::from(self.policy.start_within) * 1_000);
        if let Some(starts) = self.starts
            && starts.wait(until) == Err(WaitError::TimedOut)
        {
            log(3, u64::from(self.policy.task));
        }
    }
}

/// How a task ended, and its code or the address of its last instruction.
fn told(ending: Ending) -> (u64, u64) {
    use fusee::abi::call::ending;
    match ending {
        Ending::None => (ending::NONE, 0),
        Ending::Exited { code } => (ending::EXITED, code),
        Ending::Faulted { instruction, .. } => (ending::FAULTED, instruction),
        Ending::Stopped { by } => (ending::STOPPED, by),
    }
}

fn main() {
    let environment = environment();
    let ends = environment.expect::<Notification>("ends");
    let mut watched: [Option<Watched>; TASKS] = [None; TASKS];
    let policies = environment.entries().iter().filter(|entry| entry.kind == PARAMETER);
    let names = policies.filter_map(|entry| name_of(entry)?.strip_prefix("restart."));
    for (place, name) in watched.iter_mut().zip(names) {
        *place = Watched::of(&environment, name);
    }
    // One without jobs is told so.
    let has_jobs = next_job().is_ok();
    loop {
        for one in watched.iter_mut().flatten() {
            one.look();
            if one.course.is_due(now().now) {
                one.begin();
            }
        }
        let next = watched.iter().flatten().map(|one| one.course.next()).min().unwrap_or(Instant::NEVER);
        // Several tasks can have one bit, and a task that ends while another begins is seen anyway.
        if has_jobs {
            next_job().expect("a task with jobs has another");
        } else if let Err(error) = ends.wait(next)
            && error != WaitError::TimedOut
        {
            panic!("no notice of ends: {error:?}");
        }
    }
}

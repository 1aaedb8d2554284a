//! The program of a supervisor: as `userland/supervisor` on a board, but for its log.

use fusee_abi::call::{Call, NEVER, ending};
use fusee_abi::lives::Policy;
use fusee_kernel_core::Machine;
use fusee_kernel_core::id::ThreadId;
use fusee_sched::time::Instant;
use supervisor::plan::Course;

use crate::actor::{Action, trap};
use crate::board::Board;

/// A supervisor, and its handles.
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// The notification of ends.
    pub ends: u64,
    /// Whether it looks in each of its jobs, and waits for no end.
    pub has_jobs: bool,
    /// The watched tasks.
    pub watched: Vec<Watched>,
}

/// One task that it watches.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// The task.
    pub task: u64,
    /// The notification of its start, if it has further lives.
    pub starts: Option<u64>,
    /// When it is given another life.
    pub policy: Policy,
}

/// Where a supervisor is. A number is that of the task it is about.
#[derive(Clone, Copy, Debug)]
enum At {
    Boot,
    Rest,
    Look(usize),
    Looked(usize),
    Begin(usize),
    Cleared(usize),
    Begun(usize),
}

/// How far a supervisor is.
#[derive(Clone, Debug)]
pub struct Watch {
    at: At,
    /// The course of each task.
    courses: Vec<Course>,
}

impl Watch {
    /// The state of a supervisor that has not run yet: it is at its first instruction, and no watched task has ended.
    #[must_use]
    pub fn new(supervisor: &Supervisor) -> Watch {
        Watch { at: At::Boot, courses: vec![Course::NEW; supervisor.watched.len()] }
    }

    /// The next action.
    pub fn act(&mut self, supervisor: &Supervisor, board: &mut Board, thread: ThreadId) -> Action {
        loop {
            match self.at {
                At::Boot => {
                    self.at = At::Look(0);
                    return trap(board, thread, Call::NextJob, 0, 0, NEVER);
                }
                At::Rest => {
                    self.at = At::Look(0);
                    if supervisor.has_jobs {
                        return trap(board, thread, Call::NextJob, 0, 0, NEVER);
                    }
                    let next = self.courses.iter().map(Course::next).min().unwrap_or(Instant::NEVER);
                    return trap(board, thread, Call::Wait, supervisor.ends, 0, next.0);
                }
                At::Look(task) => match supervisor.watched.get(task) {
                    None => self.at = At::Rest,
                    Some(watched) => {
                        self.at = At::Looked(task);
                        return trap(board, thread, Call::ReadFault, watched.task, 0, NEVER);
                    }
                },
                At::Looked(task) => {
                    let general = board.registers(thread).general;
                    let course = &mut self.courses[task];
                    if general[0] == 0 && general[1] != ending::NONE {
                        course.ended(&supervisor.watched[task].policy, Instant(general[3]));
                    }
                    let is_due = course.is_due(Instant(board.now));
                    self.at = if is_due { At::Begin(task) } else { At::Look(task + 1) };
                }
                At::Begin(task) => {
                    self.at = At::Cleared(task);
                    if let Some(starts) = supervisor.watched[task].starts {
                        return trap(board, thread, Call::Wait, starts, 0, 0);
                    }
                }
                At::Cleared(task) => {
                    self.at = At::Begun(task);
                    return trap(board, thread, Call::Restart, supervisor.watched[task].task, 0, NEVER);
                }
                At::Begun(task) => {
                    self.at = At::Look(task + 1);
                    if board.registers(thread).general[0] != 0 {
                        continue;
                    }
                    self.courses[task].begun(Instant(board.now));
                    let Watched { starts, policy, .. } = supervisor.watched[task];
                    if let Some(starts) = starts {
                        let until = board.now + u64::from(policy.start_within) * 1_000;
                        return trap(board, thread, Call::Wait, starts, 0, until);
                    }
                }
            }
        }
    }
}

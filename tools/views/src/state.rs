//! The present state of a task, and its words: they are equal in tables, in `top`, in `dump` and in JSON.
//!
//! A state comes from the kernel's own object, where that can be read, and else from the records so far ([`now`](crate::now)). Records do not have each
//! detail: the words are those that both can have.

use fusee_manifest::Resolved;

use crate::explain::Wait;

/// The present state of a task.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum State {
    /// No record of it has come.
    #[default]
    Unknown,
    /// It begins when another task starts it.
    NotStarted,
    /// It runs on a CPU, and on the budget of a task.
    Runs(u8, usize),
    /// It could run.
    Ready,
    /// It could run if it had budget left.
    Dry,
    /// Its job is complete, and the next one is not released.
    BetweenJobs,
    /// It is suspended, and these tasks are to end that, as far as is known.
    Waits(Awaited, Vec<usize>),
    /// It has ended.
    Ended(Ended),
}

/// The thing that a suspended task awaits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Awaited {
    /// A server owes it a reply.
    Reply(Option<usize>),
    /// It serves this endpoint, and no task calls.
    Requests(Option<usize>),
    /// A notification was not signalled.
    Notification(usize),
    /// Another task has this engine or mutex.
    Engine(usize),
    /// Other tasks have engines of a group.
    Group,
    /// Other tasks have the tokens of this pool.
    Token(usize),
    /// It may not ask for a token of this pool yet.
    Turn(usize),
    /// It lends its budget to a request of another task.
    Lends,
    /// An instant has not come.
    Time,
    /// Something that is not known.
    Unknown,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// With this code.
    Exited(u32),
    /// By a panic.
    Panicked,
    /// By a fault.
    Faulted,
    /// By this task, if it is known.
    Stopped(Option<usize>),
}

impl Ended {
    /// The words of the state of a task that has ended so.
    #[must_use]
    pub fn words(self, system: &Resolved) -> String {
        match self {
            Ended::Exited(code) => format!("exited {code}"),
            Ended::Panicked => "panicked".to_owned(),
            Ended::Faulted => "faulted".to_owned(),
            Ended::Stopped(by) => format!("stopped by {}", task(system, by)),
        }
    }
}

impl Awaited {
    /// The cause that a record names.
    #[must_use]
    pub fn of(wait: Wait, system: &Resolved) -> Awaited {
        match wait {
            Wait::Server(endpoint) => {
                Awaited::Reply(system.endpoints.get(endpoint).map(|(_, endpoint)| endpoint.server as usize))
            }
            Wait::Engine(engine) => Awaited::Engine(engine),
            Wait::Token(pool) => Awaited::Token(pool),
            Wait::Turn(pool) => Awaited::Turn(pool),
            Wait::Notification(notification) => Awaited::Notification(notification),
            Wait::Request => Awaited::Requests(None),
            Wait::Sleep => Awaited::Time,
            Wait::Other => Awaited::Unknown,
        }
    }

    fn words(self, system: &Resolved) -> String {
        match self {
            Awaited::Reply(server) => format!("calls {}", task(system, server)),
            Awaited::Requests(Some(endpoint)) => format!("waits for requests at {}", name(&system.endpoints, endpoint)),
            Awaited::Requests(None) => "waits for requests".to_owned(),
            Awaited::Notification(notification) => format!("waits for {}", name(&system.notifications, notification)),
            Awaited::Engine(engine) => format!("waits for {}", name(&system.engines, engine)),
            Awaited::Group => "waits for a group".to_owned(),
            Awaited::Token(pool) => format!("waits for a token of {}", name(&system.pools, pool)),
            Awaited::Turn(pool) => format!("waits for its turn at {}", name(&system.pools, pool)),
            Awaited::Lends => "donates".to_owned(),
            Awaited::Time => "sleeps".to_owned(),
            Awaited::Unknown => "waits".to_owned(),
        }
    }
}

impl State {
    /// The state in words, of the task with this index.
    #[must_use]
    pub fn words(&self, index: usize, system: &Resolved) -> String {
        match self {
            State::Unknown => "?".to_owned(),
            State::NotStarted => "not started".to_owned(),
            State::Runs(cpu, owner) if *owner == index => format!("runs on CPU {cpu}"),
            State::Runs(cpu, owner) => format!("runs on CPU {cpu} for {}", task(system, Some(*owner))),
            State::Ready => "ready".to_owned(),
            State::Dry => "budget used up".to_owned(),
            State::BetweenJobs => "between jobs".to_owned(),
            State::Waits(cause, whom) => {
                // The server of a reply is in the words already.
                let is_named = |other: &usize| matches!(cause, Awaited::Reply(server) if *server == Some(*other));
                let whom = whom.iter().filter(|other| **other != index && !is_named(other));
                let whom: Vec<&str> = whom.map(|other| task(system, Some(*other))).collect();
                let colon = if whom.is_empty() { "" } else { ": " };
                format!("{}{colon}{}", cause.words(system), whom.join(", "))
            }
            State::Ended(how) => how.words(system),
        }
    }

    /// Whether the task waits for nothing but another task's wish.
    #[must_use]
    pub fn rests(&self) -> bool {
        matches!(self, State::NotStarted | State::Waits(Awaited::Requests(_), _))
    }
}

fn task(system: &Resolved, task: Option<usize>) -> &str {
    task.and_then(|task| system.tasks.get(task)).map_or("?", |task| task.name.as_str())
}

fn name<T>(objects: &[(String, T)], index: usize) -> &str {
    objects.get(index).map_or("?", |(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::system;

    #[test]
    fn each_state_has_words_of_its_own() {
        let system = system();
        // Names of notifications, engines and pools may be equal: one of them stands for all.
        let causes = [
            Awaited::Reply(Some(1)),
            Awaited::Requests(Some(0)),
            Awaited::Requests(None),
            Awaited::Notification(0),
            Awaited::Engine(0),
            Awaited::Group,
            Awaited::Token(0),
            Awaited::Turn(0),
            Awaited::Lends,
            Awaited::Time,
            Awaited::Unknown,
        ];
        let ends = [Ended::Exited(0), Ended::Exited(1), Ended::Panicked, Ended::Faulted, Ended::Stopped(Some(1))];
        let mut states = vec![State::Unknown, State::NotStarted, State::Ready, State::Dry, State::BetweenJobs];
        states.extend([State::Runs(0, 0), State::Runs(0, 1)]);
        states.extend(causes.map(|cause| State::Waits(cause, Vec::new())));
        states.extend(ends.map(State::Ended));
        let mut words: Vec<String> = states.iter().map(|state| state.words(0, &system)).collect();
        assert!(words.iter().all(|words| !words.is_empty()));
        words.sort();
        words.dedup();
        assert_eq!(words.len(), states.len(), "{words:?}");
    }

    #[test]
    fn who_is_to_end_a_wait_is_named_once() {
        let system = system();
        let name = |task: usize| system.tasks[task].name.clone();
        let words = |cause, whom: &[usize]| State::Waits(cause, whom.to_vec()).words(0, &system);
        assert_eq!(words(Awaited::Reply(Some(1)), &[1]), format!("calls {}", name(1)));
        assert_eq!(words(Awaited::Time, &[0]), "sleeps");
        assert!(words(Awaited::Engine(0), &[1]).ends_with(&format!(": {}", name(1))));
    }
}

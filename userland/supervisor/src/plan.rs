//! When a task that has ended begins again, or that it does not.
//!
//! Two rules, of the manifest's numbers ([`Policy`]):
//!
//! 1. *Limit.* Of further lives at most `at_most` begin in any interval of `within`. An end after which one more would begin is the last: the task is
//!    given up for good. A crash that comes back at once would come back for ever, and a person should see that it has.
//! 2. *Back-off.* A life begins a delay after the end before. The delay doubles with each end of a life that was shorter than the longest delay, up to that,
//!    and is the first one again after a longer life.

use fusee::abi::lives::Policy;
use fusee::{Instant, Nanoseconds};

/// Lives with beginnings that are remembered, at most: the limit of `at_most`.
pub const REMEMBERED: usize = Policy::MOST as usize;

/// The known facts about the lives of one task.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// When further lives began, the latest in front.
    begun: [Option<Instant>; REMEMBERED],
    /// Lives in a row that were shorter than the longest delay.
    short: u32,
}

/// The consequence of an end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// Another life at this instant.
    LifeAt(Instant),
    /// Nothing, for good.
    GiveUp,
}

/// The supervisor's record of one task: its lives so far, and the next step.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    history: History,
    /// The last of its ends that was seen.
    seen: Instant,
    /// When it begins again, if it is to.
    next: Instant,
}

/// An end that was not seen before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// Whether it is the first of the task.
    pub is_first: bool,
    /// The next step; `None`: the policy gives the task no further life.
    pub next: Option<Next>,
}

impl Course {
    /// The course of a task that has never ended.
    pub const NEW: Course = Course { history: History::NEW, seen: Instant::ZERO, next: Instant::NEVER };

    /// The task's last end was at `at`; `None` if that was seen before.
    pub fn ended(&mut self, policy: &Policy, at: Instant) -> Option<Seen> {
        if at <= self.seen {
            return None;
        }
        let is_first = self.seen == Instant::ZERO;
        let next = (policy.at_most != 0).then(|| self.history.ended(policy, at));
        self.seen = at;
        self.next = match next {
            Some(Next::LifeAt(next)) => next,
            Some(Next::GiveUp) | None => Instant::NEVER,
        };
        Some(Seen { is_first, next })
    }

    /// When it begins again; never, unless it is to.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Whether it is to begin at `now`, which it is told once.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.next = Instant::NEVER;
        }
        is_due
    }

    /// Another life of it has begun at `at`.
    pub fn begun(&mut self, at: Instant) {
        self.history.begun(at);
    }
}

fn microseconds(number: u32) -> Nanoseconds {
    Nanoseconds(u64::from(number) * 1_000)
}

impl History {
    /// The history of a task that has never ended.
    pub const NEW: History = History { begun: [None; REMEMBERED], short: 0 };

    /// Records that the task ended at `at`. Returns the instant of its next life, after the back-off delay, or that the task is given up.
    pub fn ended(&mut self, policy: &Policy, at: Instant) -> Next {
        let longest = microseconds(policy.longest_delay);
        // The first life began with the system.
        let lived = at.since(self.begun[0].unwrap_or(Instant::ZERO));
        self.short = if lived < longest { self.short.saturating_add(1) } else { 1 };
        let doubled = u64::from(policy.first_delay) << (self.short - 1).min(32);
        let next = at + Nanoseconds(doubled * 1_000).min(longest);
        if policy.at_most == Policy::ALWAYS {
            return Next::LifeAt(next);
        }
        let within = Nanoseconds(u64::from(policy.within) * 1_000_000);
        let recent = |begun: &&Option<Instant>| begun.is_some_and(|begun| next.since(begun) < within);
        match self.begun.iter().filter(recent).count() < usize::from(policy.at_most) {
            true => Next::LifeAt(next),
            false => Next::GiveUp,
        }
    }

    /// Another life of it has begun at `at`.
    pub fn begun(&mut self, at: Instant) {
        self.begun.rotate_right(1);
        self.begun[0] = Some(at);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const POLICY: Policy =
        Policy { at_most: 3, within: 1_000, task: 0, first_delay: 1_000, longest_delay: 100_000, start_within: 10_000 };

    fn milliseconds(number: u64) -> Instant {
        Instant(number * 1_000_000)
    }

    /// Lives that end so many milliseconds after they began: the delays after them, in milliseconds, until the task is given up.
    fn delays(policy: &Policy, lives: &[u64]) -> (Vec<u64>, bool) {
        let (mut history, mut now, mut delays) = (History::NEW, Instant::ZERO, Vec::new());
        for life in lives {
            let end = now + Nanoseconds(life * 1_000_000);
            let Next::LifeAt(next) = history.ended(policy, end) else { return (delays, true) };
            delays.push(next.since(end).0 / 1_000_000);
            history.begun(next);
            now = next;
        }
        (delays, false)
    }

    #[test]
    fn delays_double_up_to_the_longest_and_begin_anew_after_a_long_life() {
        let policy = Policy { at_most: Policy::ALWAYS, ..POLICY };
        let lives = [0, 0, 0, 0, 0, 0, 0, 0, 0, 99, 100, 0];
        assert_eq!(delays(&policy, &lives), (std::vec![1, 2, 4, 8, 16, 32, 64, 100, 100, 100, 1, 2], false));
    }

    #[test]
    fn the_life_after_the_last_that_is_allowed_does_not_begin() {
        assert_eq!(delays(&POLICY, &[10, 10, 10, 10]), (std::vec![1, 2, 4], true));
        // Three lives a second, each of 400 ms, is not too often.
        assert_eq!(delays(&POLICY, &[400; 10]), (std::vec![1; 10], false));
    }

    #[test]
    fn a_crash_of_the_first_life_long_after_the_start_is_the_first_in_a_row() {
        let mut history = History::NEW;
        assert_eq!(history.ended(&POLICY, milliseconds(5_000)), Next::LifeAt(milliseconds(5_001)));
    }

    #[test]
    fn an_end_is_seen_once_and_what_follows_it_is_due_once() {
        let mut course = Course::NEW;
        let (end, next) = (milliseconds(5), milliseconds(6));
        assert_eq!(course.ended(&POLICY, end), Some(Seen { is_first: true, next: Some(Next::LifeAt(next)) }));
        assert_eq!((course.ended(&POLICY, end), course.next()), (None, next));
        assert!(!course.is_due(milliseconds(5)) && course.is_due(next) && !course.is_due(milliseconds(9)));
        course.begun(next);
        let again = course.ended(&POLICY, milliseconds(7)).expect("it has ended again");
        assert!(!again.is_first && again.next.is_some());
        let mut never = Course::NEW;
        let policy = Policy { at_most: 0, ..POLICY };
        assert_eq!(never.ended(&policy, end), Some(Seen { is_first: true, next: None }));
        assert_eq!(never.next(), Instant::NEVER);
    }

    proptest! {
        /// The limit, looked at from outside: of the instants at which lives began, none has `at_most` others in `within` before it; and the task is given up
        /// only where one more would.
        #[test]
        fn no_interval_has_more_lives_than_it_may(
            lives in proptest::collection::vec(0_u64..700, 1..60),
            at_most in 1_u16..=8,
            within in 1_u32..3_000,
        ) {
            let policy = Policy { at_most, within, ..POLICY };
            let (mut history, mut now, mut begun) = (History::NEW, Instant::ZERO, Vec::new());
            let limit = Nanoseconds(u64::from(within) * 1_000_000);
            for life in lives {
                let end = now + Nanoseconds(life * 1_000_000);
                let next = history.ended(&policy, end);
                let before = |at: Instant| begun.iter().filter(|one: &&Instant| at.since(**one) < limit).count();
                match next {
                    Next::LifeAt(at) => {
                        prop_assert!(at > end && before(at) < usize::from(at_most));
                        history.begun(at);
                        begun.push(at);
                        now = at;
                    }
                    Next::GiveUp => {
                        let latest = end + microseconds(policy.longest_delay);
                        prop_assert!(before(end) >= usize::from(at_most) || before(latest) <= usize::from(at_most));
                        return Ok(());
                    }
                }
            }
        }
    }
}

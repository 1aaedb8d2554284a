//! Repeating work that did not end because its server has died, and is given another life.

use crate::{CallError, CallLendingError, Instant, Nanoseconds, now, sleep_until};

/// The consequence of a try.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum After {
    /// Another try would have the same result.
    Nothing,
    /// The other is there: another try, at once.
    Try,
    /// The other is not there: another try, after a pause.
    Pause,
}

/// The number of repetitions of a request, and the pause between two tries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Again {
    pub times: u32,
    pub pause: Nanoseconds,
}

impl Again {
    /// Not at all.
    pub const NOT: Again = Again { times: 0, pause: Nanoseconds::ZERO };

    /// Makes the request until it ends well, or badly for good; until `deadline` in all.
    pub fn make<T, E>(
        self,
        deadline: Instant,
        request: impl FnMut() -> Result<T, E>,
        after: impl Fn(&E) -> After,
    ) -> Result<T, E> {
        self.make_pausing(request, after, |pause| {
            let until = now().now + pause;
            // A job that cannot sleep, or may not so long, hears of the error.
            until < deadline && sleep_until(until).is_ok()
        })
    }

    fn make_pausing<T, E>(
        self,
        mut request: impl FnMut() -> Result<T, E>,
        after: impl Fn(&E) -> After,
        mut pause: impl FnMut(Nanoseconds) -> bool,
    ) -> Result<T, E> {
        let mut tried = 0;
        loop {
            let error = match request() {
                Err(error) if tried < self.times => error,
                other => return other,
            };
            let goes_on = match after(&error) {
                After::Nothing => false,
                After::Try => true,
                After::Pause => pause(self.pause),
            };
            if !goes_on {
                return Err(error);
            }
            tried += 1;
        }
    }
}

impl From<&CallError> for After {
    fn from(error: &CallError) -> After {
        After::from(&CallLendingError::from(*error))
    }
}

impl From<&CallLendingError> for After {
    fn from(error: &CallLendingError) -> After {
        match error {
            // It lives, and nothing was delivered.
            CallLendingError::PeerRestarted => After::Try,
            CallLendingError::PeerDied => After::Pause,
            _ => After::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    const PAUSE: Nanoseconds = Nanoseconds(7);

    /// The result of requests with these answers, one after the other; and the number of pauses, of which the first `may` are had.
    fn made(times: u32, answers: &[Result<u32, CallError>], may: usize) -> (Result<u32, CallError>, usize, usize) {
        let (mut asked, mut pauses) = (answers.iter(), Vec::new());
        let again = Again { times, pause: PAUSE };
        let request = || *asked.next().expect("asked too often");
        let result = again.make_pausing(
            request,
            |error| After::from(error),
            |pause| {
                pauses.push(pause);
                pauses.len() <= may
            },
        );
        assert!(pauses.iter().all(|pause| *pause == PAUSE));
        (result, answers.len() - asked.len(), pauses.len())
    }

    #[test]
    fn a_request_is_made_until_it_ends_well_with_a_pause_while_nobody_is_there() {
        let answers = [Err(CallError::PeerDied), Err(CallError::PeerDied), Err(CallError::PeerRestarted), Ok(3)];
        assert_eq!(made(3, &answers, 9), (Ok(3), 4, 2));
    }

    #[test]
    fn it_is_made_so_often_at_most_and_the_last_error_is_told() {
        let answers = [Err(CallError::PeerDied), Err(CallError::PeerRestarted), Err(CallError::PeerDied)];
        assert_eq!(made(2, &answers, 9), (Err(CallError::PeerDied), 3, 1));
        assert_eq!(made(0, &[Err(CallError::PeerRestarted)], 9), (Err(CallError::PeerRestarted), 1, 0));
    }

    #[test]
    fn what_would_end_so_again_and_what_cannot_wait_is_told_at_once() {
        assert_eq!(made(9, &[Err(CallError::TimedOut)], 9), (Err(CallError::TimedOut), 1, 0));
        let answers = [Err(CallError::PeerDied), Err(CallError::PeerDied)];
        assert_eq!(made(9, &answers, 1), (Err(CallError::PeerDied), 2, 2));
    }
}

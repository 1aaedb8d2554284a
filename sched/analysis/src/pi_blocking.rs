//! Delays of a schedule that are priority-inversion blocking, so that a bound can be compared with a schedule.
//!
//! A job that waits is only blocked if its priority would have it run. Whether it would is judged in two ways: by
//! suspension-oblivious analysis, which takes suspended jobs for running ones, and by suspension-aware analysis,
//! which does not. All that blocks under the former does so under the latter.

/// The state of a pending job at an instant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// The job runs.
    Scheduled,
    /// The job could run.
    Ready,
    /// The job waits.
    Suspended,
}

/// A job that is released and not complete, in one cluster at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Pending<Key> {
    /// The base key of the job. The smaller is the higher priority; no two are the same.
    pub key: Key,
    /// The state of the job.
    pub state: State,
}

/// The pi-blocking of a job at an instant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Blocking {
    /// The job does not run, though fewer jobs of higher priority are pending than there are CPUs.
    pub oblivious: bool,
    /// The job does not run, though fewer jobs of higher priority are ready or run than there are CPUs.
    pub aware: bool,
}

/// The pi-blocking of each of the pending jobs of a cluster of `cpus` CPUs, in their order.
///
/// # Source
/// Brandenburg, Anderson 2013; Elliott 2015, section 2.1.6.3.
pub fn classify<Key: Ord>(cpus: usize, pending: &[Pending<Key>]) -> impl Iterator<Item = Blocking> {
    let blocking = move |job: &Pending<Key>| {
        let higher = || pending.iter().filter(|other| other.key < job.key);
        let waits = job.state != State::Scheduled;
        Blocking {
            oblivious: waits && higher().count() < cpus,
            aware: waits && higher().filter(|other| other.state != State::Suspended).count() < cpus,
        }
    };
    pending.iter().map(blocking)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Elliott 2015, figure 2.8: two CPUs; JH waits from 5 to 15 for a lock of JM, JL from 10 to 20.
    #[test]
    fn a_job_behind_suspended_ones_is_blocked_only_if_suspension_is_not_taken_for_execution() {
        let [high, middle, low] = [1, 2, 3];
        let schedule = |at: u32| {
            let waits = |suspended| if suspended { State::Suspended } else { State::Scheduled };
            let all = [(high, waits((5..15).contains(&at))), (middle, State::Scheduled), (low, waits(at >= 10))];
            let is_pending = |key| if key == middle { at < 15 } else { at < 20 };
            let pending = all.into_iter().filter(move |(key, _)| is_pending(*key));
            pending.map(|(key, state)| Pending { key, state }).collect::<Vec<_>>()
        };
        // Three jobs on two CPUs: until JH waits, JL is ready at most.
        let blocked = |of: u32, by: fn(&Blocking) -> bool| {
            let at = (5..20).filter(move |at| {
                let pending = schedule(*at);
                let found = pending.iter().position(|job| job.key == of);
                found.and_then(|index| classify(2, &pending).nth(index)).is_some_and(|blocking| by(&blocking))
            });
            at.collect::<Vec<_>>()
        };
        assert_eq!(blocked(low, |blocking| blocking.aware), (10..20).collect::<Vec<_>>());
        assert_eq!(blocked(low, |blocking| blocking.oblivious), (15..20).collect::<Vec<_>>());
        for by in [|blocking: &Blocking| blocking.aware, |blocking: &Blocking| blocking.oblivious] {
            assert_eq!(blocked(high, by), (5..15).collect::<Vec<_>>());
            assert!(blocked(middle, by).is_empty());
        }
    }

    proptest! {
        #[test]
        fn what_blocks_obliviously_blocks_awarely_and_nobody_else_than_the_highest_is_blocked_obliviously(
            cpus in 1usize..4,
            states in prop::collection::vec(0u8..3, 0..8),
        ) {
            let state = |number| [State::Scheduled, State::Ready, State::Suspended][usize::from(number)];
            let pending: Vec<Pending<usize>> =
                states.into_iter().enumerate().map(|(key, number)| Pending { key, state: state(number) }).collect();
            for (rank, blocking) in classify(cpus, &pending).enumerate() {
                prop_assert!(!blocking.oblivious || blocking.aware);
                prop_assert_eq!(blocking.oblivious, rank < cpus && pending[rank].state != State::Scheduled);
            }
        }
    }
}

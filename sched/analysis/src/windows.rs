//! Response times of jobs that are suspended for long, without counting that as execution: by all that others can execute in a window.
//!
//! Suspension-oblivious tests take a job's waits as execution of its own, so that tasks that wait for one engine seem to need a CPU
//! each meanwhile. Here a job is looked at from its release on. At each instant it executes; or its own operation runs; or it waits
//! for an engine, and the operation of one that came before it runs, or that one executes; or else some job is ready that should
//! run, its own or that holder's, and does not: then all CPUs execute other jobs. So with *w* for all its waits, for any lock,
//! holds included, and *m* CPUs:
//!
//! > *r<sub>i</sub> = e<sub>i</sub> + w<sub>i</sub> + (sum over j of ceil((r<sub>i</sub> + r<sub>j</sub>) / p<sub>j</sub>) e<sub>j</sub>) / m*
//!
//! as no job of *j* executes in the window that was released *r<sub>j</sub>* before it. That holds for any vector that satisfies
//! all of these equations: until the first job that is later than its *r*, all others are within theirs. The order of jobs does not
//! matter: so the bound ignores the urgency of a task, and is good where jobs compute little and wait much. A job's predecessor has
//! ended when it is released: *r<sub>i</sub>* must not exceed the period.
//!
//! The bound rests on a condition: the number of holds before a request was counted for any jobs that execute meanwhile. For
//! engines by arrival that is one of each other user. For those by priority it is the one that is under way, and those of all
//! pending jobs whose priority points are not later.
//!
//! Source: ours; the count of jobs in a window is the usual one for jitter (Audsley and others 1993).

use fusee_sched::time::Nanoseconds;

use crate::task::Cluster;

/// The number of times that all are computed before giving up.
const ROUNDS: usize = 10_000;

/// The response time of each task, if all have one. `executing` is the cluster with the execution of jobs, `whole` with their
/// waits, too.
pub(crate) fn responses(executing: &Cluster, whole: &Cluster) -> Option<Vec<Nanoseconds>> {
    let cpus = u128::from(executing.cpus());
    let mut responses: Vec<u64> = whole.tasks().iter().map(|task| task.execution.0).collect();
    for _ in 0..ROUNDS {
        let mut next = Vec::with_capacity(responses.len());
        for (index, task) in whole.tasks().iter().enumerate() {
            let others = executing.tasks().iter().zip(&responses).enumerate().filter(|(other, _)| *other != index);
            let work = others.map(|(_, (other, response))| {
                let window = u128::from(responses[index]) + u128::from(*response);
                window.div_ceil(other.period.0.max(1).into()) * u128::from(other.execution.0)
            });
            let response = u128::from(task.execution.0) + work.sum::<u128>() / cpus;
            // Its predecessor must have ended; and one without a bound takes away that of all others.
            next.push(u64::try_from(response).ok().filter(|response| *response <= task.period.0)?);
        }
        if next == responses {
            return Some(responses.into_iter().map(Nanoseconds).collect());
        }
        responses = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Task;
    use fusee_sched::key::PolicyName;

    fn cluster(cpus: u32, tasks: &[(u64, u64)]) -> Cluster {
        let task = |(execution, period): &(u64, u64)| Task {
            execution: Nanoseconds(*execution),
            period: Nanoseconds(*period),
            deadline: Nanoseconds(*period),
            priority: 0,
        };
        Cluster::new(cpus, PolicyName::Edf, tasks.iter().map(task).collect()).unwrap()
    }

    /// Three tasks that execute for 1 and wait for 40 of 100: seen as execution more than a CPU, seen so at most two jobs of each
    /// other one in a window.
    #[test]
    fn what_is_waited_for_is_no_execution_of_others() {
        let found = responses(&cluster(1, &[(1, 100); 3]), &cluster(1, &[(41, 100); 3]));
        assert_eq!(found, Some(vec![Nanoseconds(41 + 2); 3]));
        // Windows of 90 and more meet two jobs.
        let found = responses(&cluster(1, &[(2, 100); 3]), &cluster(1, &[(50, 100); 3]));
        assert_eq!(found, Some(vec![Nanoseconds(50 + 2 * 2 * 2); 3]));
        let found = responses(&cluster(2, &[(2, 100); 3]), &cluster(2, &[(50, 100); 3]));
        assert_eq!(found, Some(vec![Nanoseconds(50 + 2 * 2); 3]));
        assert_eq!(
            responses(&cluster(1, &[(2, 100); 3]), &cluster(1, &[(95, 100); 3])),
            None,
            "later than their periods"
        );
    }
}

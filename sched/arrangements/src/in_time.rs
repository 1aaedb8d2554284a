//! Response times of the tasks of one CPU cluster up to their periods, under EDF, fair lateness and rate-monotonic priorities.
//!
//! - *One CPU, fixed priorities*: the exact response time of a synchronous release.
//! - *Several CPUs*: interference, as `fusee_sched_analysis::interference` proves it.
//! - *EDF and fair lateness* on any number of CPUs: the smaller of interference and the compliant-vector bound of [`lateness`](crate::lateness).
//!
//! The execution of a task has all its suspension and blocking in it, so these are bounds for the schedule in which a job that is suspended counts as
//! one that executes: at each instant the jobs with the earliest keys, as many as there are CPUs, execute or are suspended.
//!
//! Not here: bounds beyond the period ([`lateness`](crate::lateness)).

use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::task::{Cluster, Task};
use fusee_sched_analysis::{interference, uniprocessor};

use crate::lateness::{Load, responses};

/// The response time of each task in a cluster of `cpus` CPUs, nanoseconds; no response time is longer than the period of its task.
///
/// # Errors
/// The first task that has no such bound.
pub fn responses_in_time(loads: &[Load], cpus: u64, policy: PolicyName) -> Result<Vec<u64>, usize> {
    let task = |load: &Load| Task {
        execution: Nanoseconds(load.execution.max(1)),
        period: Nanoseconds(load.period),
        deadline: Nanoseconds(load.period),
        priority: 0,
    };
    let tasks: Vec<Task> = loads.iter().map(task).collect();
    let in_time = |bounds: Vec<Option<u64>>| {
        let each = bounds.into_iter().zip(loads).enumerate();
        each.map(|(task, (bound, load))| bound.filter(|bound| *bound <= load.period).ok_or(task)).collect()
    };
    let is_fixed = !matches!(policy, PolicyName::Edf | PolicyName::Fl);
    if is_fixed && cpus == 1 {
        let exact = |task| uniprocessor::fixed_priority_response(&tasks, policy, task).ok();
        return in_time((0..tasks.len()).map(|task| exact(task).map(|one| one.longest.0)).collect());
    }
    let known = if is_fixed { None } else { responses(loads, cpus) };
    let known: Vec<Option<u64>> = match known {
        Some(known) => known.into_iter().map(Some).collect(),
        None => vec![None; loads.len()],
    };
    let first = in_time(known.clone());
    if first.is_ok() {
        return first;
    }
    let elsewhere: Vec<Option<Nanoseconds>> = known.iter().map(|bound| bound.map(Nanoseconds)).collect();
    let cluster = u32::try_from(cpus).ok().and_then(|cpus| Cluster::new(cpus, policy, tasks).ok());
    let found = cluster.and_then(|cluster| interference::responses(&cluster, cluster.tasks(), &elsewhere).ok());
    let Some(found) = found else { return first };
    let best = |(known, found): (Option<u64>, Option<uniprocessor::Response>)| {
        [known, found.map(|one| one.longest.0)].into_iter().flatten().min()
    };
    in_time(known.into_iter().zip(found).map(best).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(policy: PolicyName, cpus: u64, all: &[(u64, u64)]) -> Vec<Load> {
        let load = |(execution, period): &(u64, u64)| match policy {
            PolicyName::Fl => Load::fair(*execution, *period, cpus),
            _ => Load { execution: *execution, period: *period, point: *period },
        };
        all.iter().map(load).collect()
    }

    /// Response times of the schedule in which all tasks are released at once, by unit steps, and as many jobs run as there are CPUs.
    fn played(policy: PolicyName, cpus: usize, all: &[(u64, u64)], length: u64) -> Vec<u64> {
        let loads = loads(policy, cpus as u64, all);
        let mut jobs: Vec<(u64, u64, usize, u64)> = Vec::new();
        let mut longest = vec![0; all.len()];
        for now in 0..length {
            for (task, load) in loads.iter().enumerate().filter(|(_, load)| now % load.period == 0) {
                let key = if policy == PolicyName::Rm { load.period } else { now + load.point };
                jobs.push((key, now, task, load.execution));
            }
            jobs.sort_unstable();
            // A task executes on one CPU at a time, its jobs one after the other.
            let mut running = std::collections::BTreeSet::new();
            for job in &mut jobs {
                if running.len() < cpus && running.insert(job.2) {
                    job.3 -= 1;
                    if job.3 == 0 {
                        longest[job.2] = longest[job.2].max(now + 1 - job.1);
                    }
                }
            }
            jobs.retain(|job| job.3 > 0);
        }
        longest
    }

    #[test]
    fn one_cpu_has_the_response_times_of_the_literature() {
        // Burns, Wellings 2009, "Real-Time Systems and Programming Languages", section 11.5: R = 3, 6, 20.
        let all = [(3, 7), (3, 12), (5, 20)];
        assert_eq!(responses_in_time(&loads(PolicyName::Rm, 1, &all), 1, PolicyName::Rm), Ok(vec![3, 6, 20]));
        let all = [(3, 7), (3, 12), (6, 20)];
        assert_eq!(responses_in_time(&loads(PolicyName::Rm, 1, &all), 1, PolicyName::Rm), Err(2));
        assert!(responses_in_time(&loads(PolicyName::Edf, 1, &all), 1, PolicyName::Edf).is_ok());
    }

    #[test]
    fn no_schedule_is_later_than_a_bound_and_several_cpus_are_used() {
        let mut random = 1u64;
        let mut draw = |least: u64, most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            least + (random >> 33) % (most - least + 1)
        };
        let (mut bounded, mut more_than_one, mut silent) = (0, 0, 0);
        for _ in 0..3_000 {
            let cpus = draw(1, 3);
            let count = draw(2, 6);
            let all: Vec<(u64, u64)> = (0..count)
                .map(|_| {
                    let period = [4, 5, 6, 8, 10, 12][draw(0, 5) as usize];
                    (draw(1, period), period)
                })
                .collect();
            for policy in [PolicyName::Edf, PolicyName::Fl, PolicyName::Rm] {
                match responses_in_time(&loads(policy, cpus, &all), cpus, policy) {
                    Ok(bounds) => {
                        bounded += 1;
                        let load: f64 = all.iter().map(|(execution, period)| *execution as f64 / *period as f64).sum();
                        more_than_one += u64::from(load > 1.0);
                        let seen = played(policy, cpus as usize, &all, 240);
                        assert!(
                            seen.iter().zip(&bounds).all(|(seen, bound)| seen <= bound),
                            "{policy:?} {cpus} {all:?}"
                        );
                    }
                    Err(_) => silent += 1,
                }
            }
        }
        assert!(bounded > 1_000 && more_than_one > 300 && silent > 1_000, "{bounded} {more_than_one} {silent}");
    }
}

//! Response times by interference against the tests as they are printed, which are slow and obvious here.

use fusee_sched::key::{Policy, PolicyName};
use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sched_analysis::utilisation::{Utilisations, density};
use fusee_sched_analysis::{Cluster, Task, interference};
use proptest::prelude::*;

fn cluster(cpus: u32, policy: PolicyName, triples: &[(u64, u64, u64)]) -> Cluster {
    let task = |(number, &(e, p, d)): (usize, &(u64, u64, u64))| Task {
        execution: Nanoseconds(e),
        period: Nanoseconds(p),
        deadline: Nanoseconds(d),
        priority: number as u32,
    };
    Cluster::new(cpus, policy, triples.iter().enumerate().map(task).collect()).unwrap()
}

fn found(cluster: &Cluster) -> Vec<Option<u64>> {
    let known = vec![None; cluster.tasks().len()];
    let responses = interference::responses(cluster, cluster.tasks(), &known).unwrap();
    responses.into_iter().map(|response| response.map(|response| response.longest.0)).collect()
}

/// `[e, p, d]` of each task.
fn numbers(cluster: &Cluster) -> Vec<[i64; 3]> {
    let number = |span: Nanoseconds| span.0 as i64;
    cluster.tasks().iter().map(|task| [task.execution, task.period, task.deadline].map(number)).collect()
}

//--- As printed

/// Bertogna and Cirinei 2007, for EDF: slacks from zero upwards, until none grows. The response times, if all deadlines hold.
fn bertogna_cirinei(cluster: &Cluster) -> Option<Vec<i64>> {
    let tasks = numbers(cluster);
    let cpus = i64::from(cluster.cpus());
    let mut slacks = vec![0; tasks.len()];
    loop {
        let mut proved = Vec::new();
        let before = slacks.clone();
        for (k, &[c_k, _, d_k]) in tasks.iter().enumerate() {
            let mut x = c_k;
            let bound = loop {
                let mut sum = 0;
                for (i, &[c, t, d]) in tasks.iter().enumerate().filter(|(i, _)| *i != k) {
                    let jobs = (x + d - c - slacks[i]).div_euclid(t);
                    let workload = jobs * c + c.min(x + d - c - slacks[i] - jobs * t);
                    let by_deadline = d_k / t * c + c.min((d_k % t - slacks[i]).max(0));
                    sum += workload.min(by_deadline).min(x - c_k + 1);
                }
                match c_k + sum / cpus {
                    next if next > d_k => break None,
                    next if next == x => break Some(x),
                    next => x = next,
                }
            };
            if let Some(bound) = bound {
                slacks[k] = slacks[k].max(d_k - bound);
            }
            proved.push(bound);
        }
        if slacks == before {
            return proved.into_iter().collect();
        }
    }
}

/// Guan et al. 2009, for distinct priorities in the order of the tasks, with `carried` of the work of a job carried in: the text has
/// all but one unit, we have all.
fn guan(cluster: &Cluster, carried: impl Fn(i64) -> i64) -> Vec<Option<i64>> {
    let tasks = numbers(cluster);
    let cpus = i64::from(cluster.cpus());
    let mut responses: Vec<Option<i64>> = Vec::new();
    for (k, &[c_k, t_k, _]) in tasks.iter().enumerate() {
        if responses.iter().any(Option::is_none) {
            responses.push(None);
            continue;
        }
        // The least solution, by looking at each.
        let solves = |x: &i64| {
            let without = |&[c, t, _]: &[i64; 3]| (x / t * c + (x % t).min(c)).min(x - c_k + 1);
            let with = |&[c, t, _]: &[i64; 3], response: i64| {
                let rest = (x - c).max(0);
                let tail = (rest % t - (t - response)).clamp(0, carried(c));
                (rest / t * c + c + tail).min(x - c_k + 1)
            };
            let before = || tasks[..k].iter();
            let mut gains: Vec<i64> = before()
                .zip(&responses)
                .map(|(task, response)| with(task, response.unwrap()) - without(task))
                .collect();
            gains.sort_unstable_by_key(|gain| std::cmp::Reverse(*gain));
            let sum = before().map(without).sum::<i64>() + gains.iter().take(cpus as usize - 1).sum::<i64>();
            c_k + sum / cpus <= *x
        };
        responses.push((c_k..=t_k).find(solves));
    }
    responses
}

/// For any policy, by counting each unit of work: the least fixed point of all responses together.
fn by_units(cluster: &Cluster) -> Vec<Option<u64>> {
    let (tasks, cpus) = (cluster.tasks(), u64::from(cluster.cpus()));
    let is_constant = matches!(cluster.policy(), PolicyName::Rm | PolicyName::Dm | PolicyName::Fp);
    let point = |task: usize| {
        let parameters = tasks[task].parameters(cluster.cpus());
        cluster.policy().priority_point(&parameters).of_job(Instant(0)).0 as i64
    };
    // Jobs of the task released at `last`, and each period before that, complete `response` later at the latest, execute as late as
    // they can: how much of them is in the window from 0 to `end`, the best of all alignments?
    let units = |task: &Task, last: i64, response: i64, end: i64| {
        let (c, t) = (task.execution.0 as i64, task.period.0 as i64);
        let jobs = (0..).map(|number| last - number * t).take_while(|release| release + response > 0);
        jobs.map(|release| {
            let late = (release + response - c).max(release);
            // As late as it can be, or cut at the end of the window: whichever is more.
            let latest = (late.max(0)..late + c).count() as i64;
            latest.min((end - release).max(0)).min(c)
        })
        .sum::<i64>()
    };
    let mut responses: Vec<Option<i64>> = tasks.iter().map(|task| Some(task.execution.0 as i64)).collect();
    loop {
        let before = responses.clone();
        for k in 0..tasks.len() {
            let (c_k, t_k) = (tasks[k].execution.0 as i64, tasks[k].period.0 as i64);
            let solves = |x: &i64| {
                let (mut sum, mut gains) = (0, Vec::new());
                for (i, task) in tasks.iter().enumerate().filter(|(i, _)| *i != k) {
                    let (c, t) = (task.execution.0 as i64, task.period.0 as i64);
                    let all = x - c_k + 1;
                    let any = |response: Option<i64>| {
                        response.map_or(all, |response| {
                            let alignments = (x - t - response..*x).map(|last| units(task, last, response, *x));
                            alignments.max().unwrap_or(0).min(all)
                        })
                    };
                    if !is_constant {
                        let points = responses[i]
                            .map_or(all, |response| units(task, point(k) - point(i), response, i64::MAX / 4));
                        sum += any(responses[i]).min(points);
                        continue;
                    }
                    match point(i).cmp(&point(k)) {
                        std::cmp::Ordering::Greater => {}
                        std::cmp::Ordering::Equal => sum += any(responses[i]),
                        std::cmp::Ordering::Less => {
                            let without = (x / t * c + (x % t).min(c)).min(all);
                            sum += without;
                            gains.push(any(responses[i]) - without);
                        }
                    }
                }
                gains.sort_unstable_by_key(|gain| std::cmp::Reverse(*gain));
                sum += gains.iter().take(cpus as usize - 1).sum::<i64>();
                c_k + sum / cpus as i64 <= *x
            };
            responses[k] = responses[k].and_then(|start| (start..=t_k).find(solves));
        }
        if responses == before {
            return responses.into_iter().map(|response| response.map(|response| response as u64)).collect();
        }
    }
}

//--- Against them

fn sets(deadlines: bool) -> impl Strategy<Value = (u32, Vec<(u64, u64, u64)>)> {
    let task = (2..20u64, 0..=1_000u64, 0..=1_000u64).prop_map(move |(p, e, d)| {
        let e = 1 + e * (p - 1) / 1_700;
        (e, p, if deadlines { e + d * (p - e) / 1_000 } else { p })
    });
    (2..4u32, prop::collection::vec(task, 3..8))
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(5_000))]

    #[test]
    fn whatever_bertogna_and_cirinei_prove_is_proved_and_no_later((cpus, set) in prop_oneof![sets(true), sets(false)]) {
        let cluster = cluster(cpus, PolicyName::Edf, &set);
        let found = found(&cluster);
        for (own, printed) in found.iter().zip(bertogna_cirinei(&cluster).into_iter().flatten()) {
            prop_assert!(own.is_some_and(|own| own as i64 <= printed), "{found:?}");
        }
    }

    #[test]
    fn distinct_priorities_have_the_bounds_of_guan_and_others((cpus, set) in sets(true)) {
        let cluster = cluster(cpus, PolicyName::Fp, &set);
        let found: Vec<Option<i64>> = found(&cluster).into_iter().map(|own| own.map(|own| own as i64)).collect();
        let (with_all, printed) = (guan(&cluster, |c| c), guan(&cluster, |c| c - 1));
        // The text stops at the first task without a bound, and tasks after it may have one here.
        let bounded = with_all.iter().take_while(|bound| bound.is_some()).count();
        prop_assert_eq!(&found[..bounded], &with_all[..bounded]);
        for (own, printed) in found.iter().zip(printed).filter_map(|(own, printed)| own.zip(printed)) {
            prop_assert!(printed <= own);
        }
    }
}

proptest! {
    #![proptest_config(cases(1_500))]

    #[test]
    fn counting_units_gives_the_same_bounds((cpus, set) in prop_oneof![sets(true), sets(false)], policy in 0..5usize) {
        let cluster = cluster(cpus, PolicyName::ALL[policy], &set);
        prop_assert_eq!(found(&cluster), by_units(&cluster));
    }
}

//--- Some of them

/// Three tasks that fill two CPUs. Equal points may each be the last; by decree the first two never wait.
#[test]
fn no_response_beyond_the_period_is_claimed() {
    let full = [(8, 12, 12); 3];
    for policy in [PolicyName::Edf, PolicyName::Fl, PolicyName::Rm, PolicyName::Dm] {
        assert_eq!(found(&cluster(2, policy, &full)), [None; 3]);
    }
    assert_eq!(found(&cluster(2, PolicyName::Fp, &full)), [Some(8), Some(8), None]);
}

/// Two tasks of 1/20 and one of 9/10: densities 0.05 + 0.05 + 0.9 + 0.9 are above 2 - 0.9, but nothing waits for long.
#[test]
fn a_set_that_density_refuses_is_proved_under_edf_and_fair_lateness() {
    let set = [(1, 20, 20), (1, 20, 20), (90, 100, 100), (60, 100, 100)];
    let edf = cluster(2, PolicyName::Edf, &set);
    assert_eq!(density(&edf), Some(false));
    for policy in [PolicyName::Edf, PolicyName::Fl] {
        let found = found(&cluster(2, policy, &set));
        assert!(found.iter().zip(set).all(|(found, (_, _, d))| found.is_some_and(|found| found <= d)), "{found:?}");
    }
}

/// A bound from elsewhere is a delay where there is none from here, and makes others possible.
#[test]
fn a_known_bound_of_one_task_gives_others_a_bound() {
    let set = cluster(2, PolicyName::Edf, &[(7, 10, 40), (7, 10, 40), (5, 10, 40), (1, 50, 50)]);
    assert!(Utilisations::of(set.tasks()).fit(2));
    let with = |known: Option<u64>| {
        let known = vec![known.map(Nanoseconds); 4];
        interference::responses(&set, set.tasks(), &known).unwrap().into_iter().flatten().count()
    };
    assert_eq!((with(None), with(Some(14))), (0, 1));
}

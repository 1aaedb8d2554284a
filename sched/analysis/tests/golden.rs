//! Figures computed by hand, or printed in the literature. Exactly equal, as fractions.

use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::compliant::{textbook, tightest};
use fusee_sched_analysis::devi::{self, DoesNotApply};
use fusee_sched_analysis::utilisation::Utilisations;
use fusee_sched_analysis::{Cluster, Task};
use num_rational::BigRational;

fn cluster(cpus: u32, policy: PolicyName, tasks: &[(u64, u64, u64)]) -> Cluster {
    let task = |&(e, p, d): &(u64, u64, u64)| Task {
        execution: Nanoseconds(e),
        period: Nanoseconds(p),
        deadline: Nanoseconds(d),
        priority: 0,
    };
    Cluster::new(cpus, policy, tasks.iter().map(task).collect()).unwrap()
}

/// Three tasks that need two CPUs whole.
const FULL: [(u64, u64, u64); 3] = [(8, 12, 12); 3];
/// Four that leave some time, in thousandths, so that half an execution time is whole.
const MIXED: [(u64, u64, u64); 4] =
    [(2_000, 10_000, 10_000), (8_000, 12_000, 12_000), (3_000, 6_000, 6_000), (5_000, 20_000, 20_000)];

fn fractions(values: &[(i64, i64)]) -> Vec<BigRational> {
    values.iter().map(|&(above, below)| BigRational::new(above.into(), below.into())).collect()
}

fn integers(values: &[i64]) -> Vec<BigRational> {
    values.iter().map(|&value| BigRational::from_integer(value.into())).collect()
}

fn devi_tardiness(cluster: &Cluster) -> Result<Vec<BigRational>, DoesNotApply> {
    devi::tardiness(cluster, &Utilisations::of(cluster.tasks()))
}

fn printed_lateness(cluster: &Cluster) -> Vec<BigRational> {
    textbook(cluster, &Utilisations::of(cluster.tasks())).unwrap().lateness(cluster.tasks())
}

fn tightest_lateness(cluster: &Cluster) -> Vec<BigRational> {
    tightest(cluster, &Utilisations::of(cluster.tasks()), cluster.tasks()).unwrap().lateness(cluster.tasks())
}

#[test]
fn three_tasks_of_two_thirds_are_at_most_eight_late_by_either_bound() {
    let full = cluster(2, PolicyName::Edf, &FULL);
    assert_eq!(devi_tardiness(&full), Ok(integers(&[8, 8, 8])));
    assert_eq!(printed_lateness(&full), integers(&[8, 8, 8]));
}

/// U = 2.1 needs three of four CPUs: two tasks carry in, (6 + 5 - 2) / (4 - 0.7) = 30/11. With three in the divisor it is 90/23.
#[test]
fn tasks_that_do_not_need_all_cpus_are_less_late_on_more() {
    let set = [(5_000, 10_000, 10_000), (6_000, 10_000, 10_000), (2_000, 5_000, 5_000), (3_500, 5_000, 5_000)];
    let late = |cpus| devi_tardiness(&cluster(cpus, PolicyName::Edf, &set)).unwrap().remove(2);
    assert_eq!(late(4), BigRational::new((9_000 * 10 + 2_000 * 33).into(), 33.into()));
    assert_eq!(late(3), BigRational::new((9_000 * 10 + 2_000 * 23).into(), 23.into()));
}

#[test]
fn four_tasks_have_the_printed_bounds_under_edf() {
    let mixed = cluster(2, PolicyName::Edf, &MIXED);
    assert_eq!(devi_tardiness(&mixed), Ok(integers(&[5_000, 11_000, 6_000, 8_000])));
    assert_eq!(printed_lateness(&mixed), integers(&[5_000, 8_000, 5_500, 6_500]));
    let bounds = textbook(&mixed, &Utilisations::of(mixed.tasks())).unwrap();
    assert_eq!(bounds.fixed_point, integers(&[8_000])[0]);
}

#[test]
fn four_tasks_are_equally_late_under_fair_lateness() {
    let mixed = cluster(2, PolicyName::Fl, &MIXED);
    assert_eq!(printed_lateness(&mixed), fractions(&[(518_125, 100); 4]));
    let bounds = textbook(&mixed, &Utilisations::of(mixed.tasks())).unwrap();
    assert_eq!(bounds.fixed_point, fractions(&[(1_036_250, 100)])[0]);
    assert_eq!(devi_tardiness(&mixed), Err(DoesNotApply::OtherPolicy));
}

/// With points at y - 6 the windows hold early work of 2 * 6/10 + 8 * 6/12 + 3 + 5 * 6/20 = 9.7; task 1 carries in
/// 2/3 ((s - 8) / 2 + 6). So s (1 - 1/3) = 9.7 + 4/3, s = 16.55, and the second ends 6 + 8.55 / 2 + 8 = 18.275.
#[test]
fn points_moved_to_zero_give_smaller_bounds() {
    let mixed = cluster(2, PolicyName::Edf, &MIXED);
    assert_eq!(tightest_lateness(&mixed), integers(&[3_275, 6_275, 3_775, 4_775]));
    let full = cluster(2, PolicyName::Edf, &FULL);
    assert_eq!(tightest_lateness(&full), integers(&[8, 8, 8]));
}

#[test]
fn jobs_on_one_cpu_with_equal_deadlines_are_served_in_order_of_arrival() {
    let two = cluster(1, PolicyName::Edf, &[(1, 10, 10), (2, 10, 10)]);
    assert_eq!(tightest_lateness(&two), integers(&[-7, -7]));
    assert_eq!(printed_lateness(&two), integers(&[0, 0]));
}

/// The points of FL, -2 and -3.5, lie before the releases. Moved up they are 1.5 and 0, and windows hold
/// 4 (1 - 1.5/5) + 7 = 9.8. Task 0 carries in 4/5 (s - 4) / 2 + 1.2, so s (1 - 2/5) = 9.4, and both are
/// s / 2 + 3.5 = 34/3 late.
#[test]
fn points_before_their_releases_are_moved_up() {
    let short = cluster(2, PolicyName::Fl, &[(4, 5, 0), (7, 10, 0)]);
    assert_eq!(printed_lateness(&short), fractions(&[(34, 3); 2]));
}

#[test]
fn without_need_of_a_second_cpu_nothing_is_carried_in() {
    let light = cluster(3, PolicyName::Edf, &[(1, 4, 8), (2, 4, 8)]);
    let bounds = textbook(&light, &Utilisations::of(light.tasks())).unwrap();
    assert_eq!((bounds.fixed_point, bounds.carried_in), (integers(&[0])[0].clone(), integers(&[0])[0].clone()));
    assert_eq!(devi_tardiness(&cluster(3, PolicyName::Edf, &[(1, 4, 4), (2, 4, 4)])), Ok(integers(&[0, 0])));
}

#[test]
fn a_bound_says_which_of_its_assumptions_fails() {
    assert_eq!(devi_tardiness(&cluster(1, PolicyName::Edf, &FULL)), Err(DoesNotApply::Overutilised));
    let constrained = cluster(2, PolicyName::Edf, &[(1, 4, 4), (1, 4, 3)]);
    assert_eq!(devi_tardiness(&constrained), Err(DoesNotApply::Deadline { task: 1 }));
    let overloaded = cluster(1, PolicyName::Edf, &FULL);
    assert!(textbook(&overloaded, &Utilisations::of(overloaded.tasks())).is_none());
}

//! The contents of a report: the best bound, its cause, and the reason why something is not hard.

use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::overheads::{Infeasible, Locking, Overheads};
use fusee_sched_analysis::report::{Bound, Hard, Reason, Term, Test, Verdict};
use fusee_sched_analysis::uniprocessor::{Unanswered, deadline_responses, fixed_priority_response, meets_demand};
use fusee_sched_analysis::{Cluster, Report, Task, analyse, approximate};

fn tasks(triples: &[(u64, u64, u64)]) -> Vec<Task> {
    let task = |(&(e, p, d), priority): (&(u64, u64, u64), u32)| Task {
        execution: Nanoseconds(e),
        period: Nanoseconds(p),
        deadline: Nanoseconds(d),
        priority,
    };
    triples.iter().zip(1..).map(task).collect()
}

fn report(cpus: u32, policy: PolicyName, triples: &[(u64, u64, u64)]) -> Report {
    let cluster = Cluster::new(cpus, policy, tasks(triples)).unwrap();
    analyse(&cluster, &Overheads::default(), &[]).unwrap()
}

fn bound(report: &Report, task: usize) -> &Bound {
    report.tasks[task].bound.as_ref().unwrap()
}

fn responses(report: &Report) -> Vec<Option<f64>> {
    report.tasks.iter().map(|task| task.bound.as_ref().map(|bound| approximate(&bound.response))).collect()
}

fn verdict(report: &Report, test: Test) -> Option<Verdict> {
    report.tests.iter().find(|(one, _)| *one == test).map(|(_, verdict)| *verdict)
}

/// The three tasks of every textbook: 1/4, 2/6, 3/13 under RM respond in 1, 3 and 10.
#[test]
fn rate_monotonic_tasks_on_one_cpu_have_their_textbook_response_times() {
    let report = report(1, PolicyName::Rm, &[(1, 4, 4), (2, 6, 6), (3, 13, 13)]);
    assert_eq!(responses(&report), [Some(1.0), Some(3.0), Some(10.0)]);
    assert_eq!(bound(&report, 1).dominating, Term::Execution);
    assert_eq!(bound(&report, 2).dominating, Term::Interference { largest: 1 });
    assert_eq!(verdict(&report, Test::Hyperbolic), Some(Verdict::Silent));
    assert!(report.is_hard());
}

/// Lehoczky's set: the first job of the second task ends at 114, the fifth 118 after its release.
#[test]
fn with_a_deadline_beyond_the_period_a_later_job_may_be_the_slowest() {
    let report = report(1, PolicyName::Rm, &[(26, 70, 70), (62, 100, 118)]);
    assert_eq!(responses(&report), [Some(26.0), Some(118.0)]);
    assert!(report.is_hard());
}

#[test]
fn tasks_of_equal_priority_wait_for_each_other() {
    let report = report(1, PolicyName::Rm, &[(1, 5, 5), (2, 5, 5)]);
    assert_eq!(responses(&report), [Some(3.0), Some(3.0)]);
}

#[test]
fn an_overloaded_level_has_no_bound_and_those_above_it_keep_theirs() {
    let report = report(1, PolicyName::Fp, &[(2, 4, 4), (3, 5, 5), (1, 100, 100)]);
    assert_eq!(responses(&report), [Some(2.0), None, None]);
    assert_eq!(report.tasks[1].hard, Hard::NotProved(Reason::Overload));
    assert_eq!(report.bounded, Some(false));
}

#[test]
fn edf_fills_a_cpu_where_rate_monotonic_misses() {
    let set = [(2, 4, 4), (5, 10, 10)];
    let (edf, fixed) = (report(1, PolicyName::Edf, &set), report(1, PolicyName::Rm, &set));
    assert!(edf.is_hard());
    assert_eq!(verdict(&edf, Test::Demand), Some(Verdict::Proved));
    assert_eq!(responses(&edf), [Some(4.0), Some(10.0)]);
    assert_eq!(responses(&fixed), [Some(2.0), Some(11.0)]);
    assert_eq!(fixed.tasks[1].hard, Hard::NotProved(Reason::Misses));
    assert_eq!(fixed.bounded, Some(true));
}

#[test]
fn fair_lateness_on_one_cpu_is_analysed_as_edf() {
    let set = [(2, 5, 4), (3, 9, 7), (1, 11, 20)];
    let (fair, edf) = (report(1, PolicyName::Fl, &set), report(1, PolicyName::Edf, &set));
    assert_eq!(responses(&fair), responses(&edf));
}

#[test]
fn with_a_cpu_each_every_policy_responds_in_the_execution_time() {
    for policy in PolicyName::ALL {
        let report = report(2, policy, &[(3, 4, 2), (1, 9, 9)]);
        assert_eq!(responses(&report), [Some(3.0), Some(1.0)]);
        assert_eq!(report.tasks[0].hard, Hard::NotProved(Reason::Misses));
        assert_eq!(report.tasks[1].hard, Hard::Proved);
        assert_eq!(bound(&report, 1).test, Test::OwnCpu);
    }
}

#[test]
fn fixed_priorities_on_several_cpus_have_bounds_up_to_the_period() {
    // Equal points: each may be the last of the three.
    let report = report(2, PolicyName::Dm, &[(1, 4, 4), (1, 4, 4), (1, 4, 4)]);
    assert_eq!(responses(&report), [Some(2.0); 3]);
    assert_eq!((report.bounded, report.is_hard()), (Some(true), true));
    assert_eq!(bound(&report, 0).test, Test::LimitedCarryIn);
    assert_eq!(verdict(&report, Test::LimitedCarryIn), Some(Verdict::Proved));
}

/// Two tasks that never rest leave the third nothing, but each other all they need.
#[test]
fn a_task_without_a_bound_under_fixed_priorities_does_not_hide_those_before_it() {
    let report = report(2, PolicyName::Rm, &[(4, 4, 4), (5, 5, 5), (1, 9, 9), (1, 10, 10)]);
    assert_eq!(responses(&report), [Some(4.0), Some(5.0), None, None]);
    assert_eq!(report.bounded, Some(false));
    assert_eq!(report.tasks[0].hard, Hard::Proved);
    assert_eq!(report.tasks[2].hard, Hard::NotProved(Reason::Overload));
}

#[test]
fn a_task_that_no_test_bounds_is_said_to_have_none() {
    let report = report(2, PolicyName::Rm, &[(3, 5, 5), (3, 5, 5), (3, 6, 6)]);
    assert_eq!(responses(&report)[2], None);
    assert_eq!((report.bounded, report.is_hard()), (None, false));
    assert_eq!(report.tasks[2].hard, Hard::NotProved(Reason::NoBound));
}

/// A task that needs more than a CPU has one, and the others share the rest.
#[test]
fn a_task_that_is_too_long_does_not_hide_the_bounds_of_the_others() {
    for policy in [PolicyName::Edf, PolicyName::Fl] {
        let report = report(3, policy, &[(1, 9, 9), (11, 10, 10), (3, 10, 10), (4, 10, 10)]);
        assert_eq!(responses(&report), [Some(4.0), None, Some(4.0), Some(5.0)]);
        assert_eq!(report.bounded, Some(false));
        assert_eq!(report.tasks[1].hard, Hard::NotProved(Reason::Overload));
    }
}

#[test]
fn small_densities_prove_global_edf_and_not_global_fair_lateness() {
    let set = [(1, 4, 4), (1, 4, 4), (2, 4, 4)];
    let (edf, fair) = (report(2, PolicyName::Edf, &set), report(2, PolicyName::Fl, &set));
    assert!(edf.is_hard());
    assert_eq!(verdict(&edf, Test::Density), Some(Verdict::Proved));
    assert_eq!(verdict(&fair, Test::Density), Some(Verdict::DoesNotApply));
}

/// Three tasks that fill two CPUs, with late deadlines: moving their points to zero proves them, and the printed formula, at least
/// s / m late, cannot.
#[test]
fn lateness_below_zero_proves_a_hard_task_on_several_cpus() {
    for policy in [PolicyName::Edf, PolicyName::Fl] {
        let report = report(2, policy, &[(8, 12, 24); 3]);
        assert!(report.is_hard(), "{policy:?}");
        assert_eq!(bound(&report, 0).test, Test::Tightest);
        assert!(approximate(report.tasks[0].printed_lateness.as_ref().unwrap()) >= 0.0);
    }
}

#[test]
fn a_response_counts_from_the_event_and_overheads_are_named_when_they_dominate() {
    let cluster = Cluster::new(1, PolicyName::Edf, tasks(&[(10, 100, 90)])).unwrap();
    let mut costs = Overheads { event_latency: Nanoseconds(5), schedule: Nanoseconds(6), ..Overheads::default() };
    let report = analyse(&cluster, &costs, &[]).unwrap();
    assert_eq!(responses(&report), [Some(10.0 + 12.0 + 5.0)]);
    assert_eq!(approximate(&bound(&report, 0).lateness), 27.0 - 90.0);
    assert_eq!(bound(&report, 0).dominating, Term::Overheads);

    let locking = [Locking { blocking: Nanoseconds(30), ..Locking::default() }];
    assert_eq!(bound(&analyse(&cluster, &costs, &locking).unwrap(), 0).dominating, Term::Blocking);

    costs.schedule = Nanoseconds(50);
    let report = analyse(&cluster, &costs, &[]).unwrap();
    assert_eq!(report.infeasible, [Infeasible::TooLong { task: 0 }]);
    assert_eq!(report.tasks[0].hard, Hard::NotProved(Reason::TooLong));
    costs.release = Nanoseconds(100);
    assert_eq!(analyse(&cluster, &costs, &[]), Err(Infeasible::OnlyInterrupts));
}

/// The second waits for more than its period. With a CPU to itself, or behind the others, it takes nothing from them.
#[test]
fn a_task_that_waits_too_long_is_named_and_does_not_hide_the_bounds_of_the_others() {
    let wait = |blocking| Locking { blocking: Nanoseconds(blocking), ..Locking::default() };
    let locking = [wait(1), wait(100), wait(2)];
    let set = [(10, 60, 60), (20, 90, 90), (15, 50, 50)];
    for (cpus, policy, found) in [
        (3, PolicyName::Edf, [Some(11.0), None, Some(17.0)]),
        (2, PolicyName::Edf, [Some(28.0), None, Some(28.0)]),
        (2, PolicyName::Rm, [Some(11.0), None, Some(17.0)]),
        (1, PolicyName::Rm, [Some(28.0), None, Some(17.0)]),
        (1, PolicyName::Edf, [None; 3]),
    ] {
        let cluster = Cluster::new(cpus, policy, tasks(&set)).unwrap();
        let report = analyse(&cluster, &Overheads::default(), &locking).unwrap();
        assert_eq!(responses(&report), found, "{cpus} CPUs, {policy:?}");
        assert_eq!(report.infeasible, [Infeasible::TooLong { task: 1 }]);
        assert_eq!(report.tasks[1].hard, Hard::NotProved(Reason::TooLong));
        assert_eq!((report.bounded, report.is_hard()), (Some(false), false));
    }
}

#[test]
fn a_search_without_end_gives_up_and_a_bound_takes_its_place() {
    // A full CPU is busy for the least common multiple of the periods: here 87 years.
    let slow = tasks(&[
        (653_352_000_130, 1_960_056_000_391, 1 << 56),
        (653_357_600_222, 1_960_072_800_667, 1 << 56),
        (653_354_800_165, 1_960_064_400_493, 1 << 56),
    ]);
    assert_eq!(deadline_responses(&slow), Err(Unanswered::GaveUp));
    let year = 1 << 55;
    let full = tasks(&[(year / 2, year, year), ((year - 1) / 2, year - 1, year / 4), (1, 1 << 56, 1 << 56)]);
    assert_eq!(deadline_responses(&full), Err(Unanswered::GaveUp));
    assert_eq!(fixed_priority_response(&full, PolicyName::Fp, 2), Err(Unanswered::GaveUp));
    assert_eq!(meets_demand(&full), Ok(false));
    let report = analyse(&Cluster::new(1, PolicyName::Edf, full).unwrap(), &Overheads::default(), &[]).unwrap();
    assert_eq!(report.bounded, Some(true));
    assert_eq!(bound(&report, 0).test, Test::Tightest);
}

#[test]
fn a_cluster_without_tasks_misses_nothing() {
    for policy in PolicyName::ALL {
        let report = report(3, policy, &[]);
        assert_eq!((report.bounded, report.is_hard()), (Some(true), true));
    }
}

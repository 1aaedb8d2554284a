//! Clusters that compute by the clock: their bounds against the kernel, alone and beside tasks that do anything.

use fusee_campaigns::by_clock::{Claiming, Claims, beside, by_clock};
use fusee_campaigns::draws::Draws;
use fusee_campaigns::hostile::{self, ANALYSED, COSTS, HostileReport, Which};
use fusee_campaigns::soundness::in_parallel;
use fusee_manifest::Manifest;
use fusee_manifest::admission::Study;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::reachability::{LOOKS, responses};
use fusee_sched_analysis::report::Test;
use fusee_sched_analysis::{Cluster, Overheads, Task};

#[test]
fn bounds_by_states_hold_and_prove_what_runs_well() {
    let report = by_clock(Draws::new(1, 6_000), &Claims::of);
    println!("{report}");
    assert!(report.violations.is_empty() && report.failures.is_empty(), "{report}");
    assert!(report.by_states > 1_500 && report.proved * 100 >= report.schedulable * 95, "{report}");
    assert!(report.proved > report.before, "{report}");
}

/// Where no points are equal and budgets are as long as jobs, the kernel's longest response times are those of the analysis, to the
/// nanosecond, and a set that meets all deadlines is proved.
#[test]
fn without_ties_the_kernel_is_as_late_as_the_analysis_says() {
    let exact = |manifest: &Manifest| {
        let cluster = Study::new(&manifest.system, 0).unwrap().cluster;
        let reservations = manifest.system.reservations.iter();
        let tasks: Vec<Task> = cluster
            .tasks()
            .iter()
            .zip(reservations)
            .map(|(task, one)| Task { execution: Nanoseconds(one.execution), ..*task })
            .collect();
        let phases = cluster.phases().unwrap().to_vec();
        let exact = Cluster::new(cluster.cpus(), cluster.policy(), tasks).unwrap().released_by_clock(phases);
        let found = responses(&exact, exact.tasks(), LOOKS).ok().filter(|found| !found.has_ties);
        let responses: Vec<Option<u64>> = match &found {
            Some(found) => found.responses.iter().map(|response| Some(response.0)).collect(),
            None => vec![None; exact.tasks().len()],
        };
        let meets =
            |(response, task): (&Option<u64>, &Task)| response.is_some_and(|response| response <= task.deadline.0);
        let is_proved = responses.iter().zip(exact.tasks()).all(meets);
        Ok(Claims { responses, is_proved, was_proved: false, by_states: found.is_some() })
    };
    let report = by_clock(Draws::new(5, 2_000), &exact);
    println!("{report}{} equal", report.equal);
    assert!(report.violations.is_empty() && report.failures.is_empty(), "{report}");
    assert!(report.equal == report.bounds && report.bounds > 1_000, "{report}{} equal", report.equal);
}

/// As if all phases were zero; as if there was one CPU more; as if jobs took a hundredth less.
#[test]
fn bounds_by_states_that_are_too_good_are_found_out() {
    let together = |manifest: &Manifest| {
        Claims::of_changed(manifest, &|cluster| {
            let phases = cluster.phases().map_or(0, <[Nanoseconds]>::len);
            cluster.released_by_clock(vec![Nanoseconds::ZERO; phases])
        })
    };
    let change = |cluster: Cluster, cpus: u32, percent: u64| {
        let phases = cluster.phases().map(<[Nanoseconds]>::to_vec).unwrap_or_default();
        let shorter = |execution: Nanoseconds| Nanoseconds(execution.0 * percent / 100);
        let tasks = cluster.tasks().iter().map(|task| {
            let execution = shorter(task.execution);
            Task { execution, ..*task }
        });
        Cluster::new(cpus, cluster.policy(), tasks.collect()).unwrap().released_by_clock(phases)
    };
    let more = |manifest: &Manifest| {
        Claims::of_changed(manifest, &|cluster| {
            let cpus = cluster.cpus() + 1;
            change(cluster, cpus, 100)
        })
    };
    let less = |manifest: &Manifest| {
        Claims::of_changed(manifest, &|cluster| {
            let cpus = cluster.cpus();
            change(cluster, cpus, 99)
        })
    };
    let all: [&Claiming<'_>; 3] = [&together, &more, &less];
    for wrong in all {
        let report = by_clock(Draws::new(2, 200).until_wrong(), wrong);
        assert!(!report.violations.is_empty(), "{report}");
    }
}

/// Proved tasks meet their deadlines beside tasks that do anything, with paths of the kernel that cost nothing, and with some that do.
#[test]
fn no_task_by_the_clock_is_late_beside_tasks_that_do_anything() {
    for (count, costs) in [(1_500, None), (1_000, Some((COSTS, ANALYSED)))] {
        let kernel = Which { costs, ..Which::default() };
        let spare = costs.map_or(1_000, |(costs, _)| 1_000 + 16 * costs.sum());
        let check = |(report, by_states): &mut (HostileReport, u64), number: u64| {
            let manifest = beside(3, number, spare).unwrap();
            let study = Study::new(&manifest.system, 0).unwrap();
            let found = study.analyse(&costs.map_or(Overheads::default(), |(_, costs)| costs));
            let is_it = |test: Option<Test>| test == Some(Test::Reachability);
            let tests = |(found, _): &(fusee_sched_analysis::Report, _)| {
                found.tasks.iter().filter(|task| is_it(task.bound.as_ref().map(|bound| bound.test))).count()
            };
            *by_states += found.as_ref().map_or(0, tests) as u64;
            // Numbers of systems whose kernels cost nothing unless it is said.
            report.join(hostile::replay(&manifest, (3, number * 64), kernel).unwrap());
        };
        let join = |all: &mut (HostileReport, u64), other: (HostileReport, u64)| {
            all.0.join(other.0);
            all.1 += other.1;
        };
        let (report, by_states) = in_parallel(count, &check, join);
        println!("{report}{by_states} bounds by states");
        assert!(report.violations.is_empty() && report.failures.is_empty(), "{report}");
        assert!(report.attackers > count && by_states > 200, "{report}{by_states}");
    }
}

//! Clusters that compute by the clock: their bounds against the kernel, alone and beside tasks that do anything.

use fusee_campaigns::by_clock::{Claims, beside, by_clock};
use fusee_campaigns::draws::Draws;
use fusee_campaigns::hostile::{self, ANALYSED, COSTS, HostileReport, Which};
use fusee_campaigns::soundness::in_parallel;
use fusee_manifest::Manifest;
use fusee_manifest::admission::Study;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::report::Test;
use fusee_sched_analysis::{Cluster, Overheads};
use num_traits::ToPrimitive;

/// The claims of the analysis, with the cluster changed by `change`.
fn claims_of(manifest: &Manifest, change: &dyn Fn(Cluster) -> Cluster) -> Claims {
    let study = |change: &dyn Fn(Cluster) -> Cluster| {
        let mut study = Study::new(&manifest.system, 0).unwrap();
        study.cluster = change(study.cluster);
        let (report, blocked) = study.analyse(&Overheads::default()).unwrap();
        let is_proved = (0..study.members.len()).all(|task| study.is_proved(task, &report, &blocked));
        (report, is_proved)
    };
    let (report, is_proved) = study(change);
    let (_, was_proved) = study(&|cluster| cluster.released_by_clock(Vec::new()));
    let bounds = report.tasks.iter().map(|task| task.bound.as_ref());
    let by_states = bounds.clone().flatten().any(|bound| bound.test == Test::Reachability);
    let responses = bounds.map(|bound| bound?.response.ceil().to_integer().to_u64()).collect();
    Claims { responses, is_proved, was_proved, by_states }
}

fn claims(manifest: &Manifest) -> Claims {
    claims_of(manifest, &|cluster| cluster)
}

#[test]
fn bounds_by_states_hold_and_prove_what_runs_well() {
    let report = by_clock(Draws::new(1, 6_000), &claims);
    println!("{report}");
    assert!(report.violations.is_empty() && report.failures.is_empty(), "{report}");
    assert!(report.by_states > 1_500 && report.proved * 100 >= report.schedulable * 95, "{report}");
    assert!(report.proved > report.before, "{report}");
}

/// As if all phases were zero; as if there was one CPU more; as if jobs took a hundredth less.
#[test]
fn bounds_by_states_that_are_too_good_are_found_out() {
    let together = |manifest: &Manifest| {
        claims_of(manifest, &|cluster| {
            let phases = cluster.phases().map_or(0, <[Nanoseconds]>::len);
            cluster.released_by_clock(vec![Nanoseconds::ZERO; phases])
        })
    };
    let change = |cluster: Cluster, cpus: u32, percent: u64| {
        let phases = cluster.phases().map(<[Nanoseconds]>::to_vec).unwrap_or_default();
        let shorter = |execution: Nanoseconds| Nanoseconds(execution.0 * percent / 100);
        let tasks = cluster.tasks().iter().map(|task| {
            let execution = shorter(task.execution);
            fusee_sched_analysis::Task { execution, ..*task }
        });
        Cluster::new(cpus, cluster.policy(), tasks.collect()).unwrap().released_by_clock(phases)
    };
    let more = |manifest: &Manifest| {
        claims_of(manifest, &|cluster| {
            let cpus = cluster.cpus() + 1;
            change(cluster, cpus, 100)
        })
    };
    let less = |manifest: &Manifest| {
        claims_of(manifest, &|cluster| {
            let cpus = cluster.cpus();
            change(cluster, cpus, 99)
        })
    };
    let all: [&(dyn Fn(&Manifest) -> Claims + Sync); 3] = [&together, &more, &less];
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

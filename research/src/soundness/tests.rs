//! Tests of bounds on random systems: those of the analysis hold, and those that are too good are found out.

use fusee_abi::script::operation;
use fusee_graph::{Edge, Rate, Timing, Tokens, lateness};
use fusee_sched_analysis::blocking::{Order, Protocol, Rules, Shared};
use fusee_sched_analysis::report::TaskReport;

use super::*;

#[test]
fn no_task_under_any_policy_is_later_than_its_bound_and_many_are_hard_that_density_does_not_prove() {
    let hard = Tally::default();
    let options =
        SoundnessOptions { draws: Draws::new(3, 600), policies: PolicyName::ALL.to_vec(), ..Default::default() };
    let report = soundness(&options, &|drawn| bounds(drawn, &hard));
    assert!(report.failures.is_empty() && report.violations.is_empty(), "{report}");
    let number = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
    assert!(number(&hard.hard[0]) > 2 * number(&hard.dense), "{hard}");
    assert!(number(&hard.hard[1]) * 4 > number(&hard.tasks[1]), "{hard}");
    // Half of the claim is too good for some.
    let half = |drawn: &GeneratedSet| {
        let task = |(task, bound): (usize, Option<i64>)| {
            let deadline = drawn.set.tasks[task].deadline as i64;
            bound.map(|bound| (bound + deadline) / 2 - deadline)
        };
        bounds(drawn, &Tally::default()).into_iter().enumerate().map(task).collect()
    };
    let search = SoundnessOptions { draws: options.draws.until_wrong(), ..options };
    assert!(!soundness(&search, &half).violations.is_empty());
}

#[test]
fn bounds_on_blocking_that_are_too_good_are_found_out() {
    let report = blocking::blocking(Family::Within, Draws::new(7, 60), &claims);
    assert!(
        report.violations.is_empty()
            && report.failures.is_empty()
            && report.blocked[..2].iter().all(|blocked| *blocked > 300),
        "{report}"
    );
    // As if holds took no time; as if operations took none; as if each request met one other at most, by arrival, and
    // none by priority; as if there were a token for each request; as if no task held an engine with one.
    let no_holds = |manifest: &Manifest| {
        let none = |claim: Claim| Claim { blocking: claim.blocking.map(|_| [0; 4]), ..claim };
        claims(manifest).into_iter().map(none).collect()
    };
    let no_operations =
        |manifest: &Manifest| claims(manifest).into_iter().map(|claim| Claim { operations: 0, ..claim }).collect();
    fn rivals(locks: &mut Locks, order: Order, rivals: u32) {
        locks.engines.iter_mut().filter(|one| one.order == order).for_each(|one| one.rivals = Some(rivals));
    }
    let by_arrival = |manifest: &Manifest| claims_of(manifest, |locks| rivals(locks, Order::Fifo, 2));
    let by_priority = |manifest: &Manifest| claims_of(manifest, |locks| rivals(locks, Order::Priority, 1));
    let many_tokens = |manifest: &Manifest| {
        claims_of(manifest, |locks| {
            for pool in &mut locks.pools {
                pool.protocol = Protocol::Pool(Rules::r2dglp(u8::MAX, 1));
            }
        })
    };
    let no_engines =
        |manifest: &Manifest| claims_of(manifest, |locks| locks.pools.iter_mut().for_each(|one| one.engines.clear()));
    // As if budgets paid for half of the engines' time.
    let half = |manifest: &Manifest| {
        claims(manifest).into_iter().map(|claim| Claim { drawn: claim.drawn.div_ceil(2), ..claim }).collect()
    };
    let all: [blocking::Claims<'_>; 7] =
        [&no_holds, &no_operations, &by_arrival, &by_priority, &many_tokens, &no_engines, &half];
    let found = all.map(|too_good| {
        blocking::blocking(Family::Within, Draws::new(7, 100).until_wrong(), too_good).violations.len()
    });
    assert!(found.iter().all(|found| *found > 0), "{found:?}");
}

/// Fine bounds of systems whose tasks all do as they declare, and say so: they are those of many tasks, none is above the coarse one, they hold, and a half
/// of each is found out.
#[test]
fn fine_bounds_on_blocking_hold_and_half_of_them_is_found_out() {
    const FAMILIES: [Family; 1] = [Family::Within];
    let fine = |manifest: &Manifest| {
        claims_of(manifest, |locks| locks.rests.iter_mut().for_each(|rest| rest.keeps_word = true))
    };
    // No jobs are counted by arrival. Response times may be others then, so only blocking is compared.
    let coarse = |manifest: &Manifest| claims_of(manifest, |locks| locks.rests.clear());
    let pairs =
        |manifest: &Manifest| -> Vec<(Claim, Claim)> { fine(manifest).into_iter().zip(coarse(manifest)).collect() };
    let finer = FAMILIES.map(|family| {
        let systems = (0..SYSTEMS_COMPARED).map(|number| blocking::drawn(family, 7, number).expect("a system"));
        let all = systems.flat_map(|manifest| pairs(&manifest));
        let both = all.filter_map(|(fine, coarse)| Some((fine.blocking?, coarse.blocking?)));
        both.filter(|(fine, coarse)| {
            assert!((0..2).all(|on| fine[on] <= coarse[on]), "{family:?}: {fine:?}, {coarse:?}");
            fine[..2] != coarse[..2]
        })
        .count()
    });
    assert!(finer.iter().all(|finer| *finer > 30), "{finer:?} tasks have a finer bound");
    for family in FAMILIES {
        let report = blocking::blocking(family, Draws::new(7, SYSTEMS_COMPARED), &fine);
        assert!(report.violations.is_empty() && report.failures.is_empty(), "{family:?}: {report}");
    }
    let half = |manifest: &Manifest| {
        let half = |(mut fine, coarse): (Claim, Claim)| {
            match (&mut fine.blocking, coarse.blocking) {
                (Some(fine), Some(coarse)) if fine[0] < coarse[0] => fine[0] /= 2,
                _ => fine.blocking = None,
            }
            fine
        };
        pairs(manifest).into_iter().map(half).collect()
    };
    assert!(!blocking::blocking(Family::Within, Draws::new(7, 2_000).until_wrong(), &half).violations.is_empty());
}

/// Systems of each family that fine bounds are compared with.
const SYSTEMS_COMPARED: u64 = 200;

/// The bounds of jobs that wait for engines alone and compute little.
#[test]
fn bounds_by_windows_hold_and_are_those_of_many_tasks() {
    let found = AtomicU64::new(0);
    let counted = |manifest: &Manifest| {
        for index in 0..manifest.system.clusters.len() {
            let study = admission::Study::new(&manifest.system, index).unwrap();
            let Ok((report, _)) = study.analyse(&Overheads::default()) else { continue };
            let windows = |task: &&TaskReport| task.bound.as_ref().is_some_and(|bound| bound.test == Test::Windows);
            found.fetch_add(report.tasks.iter().filter(windows).count() as u64, Ordering::Relaxed);
        }
        claims(manifest)
    };
    let report = blocking::blocking(Family::Waiting, Draws::new(7, 500), &counted);
    assert!(report.violations.is_empty() && report.failures.is_empty(), "{report}");
    assert!(found.load(Ordering::Relaxed) > 150, "{found:?}");
}

/// Tasks that admission proves in the clusters of random systems, all of them, with and without suspension as jitter; and the
/// bounds by jitter.
#[derive(Debug, Default)]
struct Proved {
    tasks: AtomicU64,
    with: AtomicU64,
    without: AtomicU64,
    fewer: AtomicU64,
    bounds: AtomicU64,
}

impl Proved {
    fn count(&self, manifest: &Manifest) {
        let add = |sum: &AtomicU64, number: usize| sum.fetch_add(number as u64, Ordering::Relaxed);
        for index in 0..manifest.system.clusters.len() {
            let mut study = admission::Study::new(&manifest.system, index).unwrap();
            let proved = |study: &admission::Study| -> Vec<bool> {
                let found = study.analyse(&Overheads::default());
                let is_proved =
                    |task| found.as_ref().is_ok_and(|(report, blocked)| study.is_proved(task, report, blocked));
                (0..study.members.len()).map(is_proved).collect()
            };
            if let Ok((report, _)) = study.analyse(&Overheads::default()) {
                let jitter = |task: &&TaskReport| task.bound.as_ref().is_some_and(|bound| bound.test == Test::Jitter);
                add(&self.bounds, report.tasks.iter().filter(jitter).count());
            }
            let with = proved(&study);
            study.locks.rests.clear();
            let without = proved(&study);
            let number = |proved: &[bool]| proved.iter().filter(|proved| **proved).count();
            add(&self.tasks, with.len());
            add(&self.with, number(&with));
            add(&self.without, number(&without));
            add(&self.fewer, with.iter().zip(&without).filter(|(with, without)| with < without).count());
        }
    }
}

/// No task loses its proof by the test with suspension as jitter, and many of those that sleep gain it.
#[test]
fn suspension_as_jitter_proves_more_tasks_and_none_fewer() {
    for (family, more) in [(Family::Sleeping, 50), (Family::Waiting, 0), (Family::Within, 0), (Family::Calls, 0)] {
        let proved = Proved::default();
        (0..200).for_each(|system| proved.count(&blocking::drawn(family, 9, system).expect("a system")));
        println!("{family:?}: {proved:?}");
        let number = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        assert_eq!(number(&proved.fewer), 0);
        assert!(number(&proved.with) >= number(&proved.without) + more, "{family:?}: {proved:?}");
    }
}

/// The bounds of jobs that sleep for long.
#[test]
fn bounds_with_suspension_as_jitter_hold_and_are_those_of_many_tasks() {
    let proved = Proved::default();
    let counted = |manifest: &Manifest| {
        proved.count(manifest);
        claims(manifest)
    };
    let report = blocking::blocking(Family::Sleeping, Draws::new(7, 600), &counted);
    assert!(report.violations.is_empty() && report.failures.is_empty(), "{report}");
    let [.., response, _] = report.ratios();
    assert!(proved.bounds.load(Ordering::Relaxed) > 600 && response > 0.95, "{proved:?} {report}");
    // As if no job slept; as if no lock was held for long.
    let awake = |manifest: &Manifest| claims_of(manifest, |locks| locks.suspends.clear());
    let no_holds = |manifest: &Manifest| {
        claims_of(manifest, |locks| locks.engines.iter_mut().for_each(|engine| engine.users.clear()))
    };
    let all: [blocking::Claims<'_>; 2] = [&awake, &no_holds];
    let found = all.map(|too_good| {
        blocking::blocking(Family::Sleeping, Draws::new(7, 600).until_wrong(), too_good).violations.len()
    });
    assert!(found.iter().all(|found| *found > 0), "{found:?}");
}

#[test]
fn bounds_beside_clients_without_locks_that_are_too_good_are_found_out() {
    let report = blocking::blocking(Family::Shared, Draws::new(7, 100), &claims);
    let is_good = report.violations.is_empty() && report.failures.is_empty();
    assert!(is_good && report.blocked[0] > 1_000, "{report}");
    // As if no client had engines meanwhile.
    let alone = |manifest: &Manifest| {
        claims_of(manifest, |locks| locks.engines.iter_mut().for_each(|one| one.shared = Shared::default()))
    };
    assert!(!blocking::blocking(Family::Shared, Draws::new(7, 100).until_wrong(), &alone).violations.is_empty());
}

/// Making room on SMs delays the holder of the lock by a restore and a save.
#[test]
fn bounds_on_sms_hold_and_without_the_restore_they_are_found_out() {
    // The campaign draws more of them.
    let report = blocking::blocking(Family::Spatial, Draws::new(7, 30), &claims);
    let is_good = report.violations.is_empty() && report.failures.is_empty();
    assert!(is_good && report.blocked[0] > 100, "{report}");
    let by = |part: u64| move |manifest: &Manifest| claims(&without(manifest, part));
    assert!(!blocking::blocking(Family::Spatial, Draws::new(7, 150).until_wrong(), &by(SAVE)).violations.is_empty());
}

/// A client on the SMs with a later key makes room for it within a restore and a save.
#[test]
fn bounds_where_the_device_decides_hold_and_without_the_restore_they_are_found_out() {
    let report = blocking::blocking(Family::Keyed, Draws::new(7, 30), &claims);
    let is_good = report.violations.is_empty() && report.failures.is_empty();
    assert!(is_good && report.jobs > 200, "{report}");
    let by = |part: u64| move |manifest: &Manifest| claims(&without(manifest, part));
    assert!(!blocking::blocking(Family::Keyed, Draws::new(7, 150).until_wrong(), &by(SAVE)).violations.is_empty());
}

const SAVE: u64 = 19_456;

/// The system, as if each operation on SMs took so much less.
fn without(manifest: &Manifest, part: u64) -> Manifest {
    let mut manifest = manifest.clone();
    let system = &mut manifest.system;
    let whole = system.whole_engines();
    let parts = whole.iter().find(|(name, _)| *name == "ee").map_or(Vec::new(), |(_, parts)| parts.clone());
    let users = system.engine_users.iter().zip(&mut system.engine_holds);
    for hold in users.filter_map(|(user, hold)| hold.as_mut().filter(|_| parts.contains(&(user.engine as usize)))) {
        hold.hold.operation.0 -= part;
        hold.operations.0 -= part * u64::from(hold.times);
    }
    // Scripts are compared with the declarations.
    let steps = system.tasks.iter_mut().flat_map(|task| &mut task.script);
    steps.filter(|step| step.operation == operation::SUBMIT).for_each(|step| step.value -= part.min(step.value));
    manifest
}

#[test]
fn bounds_on_latencies_that_are_too_good_are_found_out() {
    let report = graphs(Draws::new(7, 150), &graph_claims);
    let is_good = report.violations.is_empty() && report.failures.is_empty();
    assert!(is_good && report.bounded > 60 && report.with_device > 25, "{report}");
    // The claims for other graphs.
    fn with(manifest: &Manifest, change: impl Fn(&mut Vec<Edge>)) -> GraphClaims {
        let mut claims = graph_claims(manifest);
        let system = &manifest.system;
        for (graph, nodes) in system.graphs.iter().zip(&mut claims.nodes) {
            let timing =
                |(task, rate): &(usize, Rate)| Some(Timing { rate: *rate, response: claims.responses[*task]? });
            let timings: Option<Vec<Timing>> = graph.nodes.iter().map(timing).collect();
            let source = system.source(graph).unwrap();
            let mut edges = graph.edges.clone();
            change(&mut edges);
            let all = timings.and_then(|timings| lateness(&edges, &timings, source.period).ok());
            if let Some(all) = all.filter(|_| !nodes.is_empty()) {
                *nodes = all[..nodes.len()].to_vec();
            }
        }
        claims
    }
    // As if a join waited for its first edge only; as if all edges had a token for a job; as if nodes took no time.
    let no_joins = |manifest: &Manifest| {
        with(manifest, |edges| {
            let all = edges.clone();
            edges.retain(|edge| all.iter().find(|one| one.to == edge.to) == Some(edge));
        })
    };
    let no_rates =
        |manifest: &Manifest| with(manifest, |edges| edges.iter_mut().for_each(|edge| edge.tokens = Tokens::ONE));
    let no_responses = |manifest: &Manifest| {
        let mut claims = graph_claims(manifest);
        claims.nodes.iter_mut().flatten().for_each(|node| node.late = node.late.min(0));
        claims
    };
    let all: [&(dyn Fn(&Manifest) -> GraphClaims + Sync); 3] = [&no_joins, &no_rates, &no_responses];
    let found = all.map(|too_good| graphs(Draws::new(7, 200).until_wrong(), too_good).violations.len());
    assert!(found.iter().all(|found| *found > 0), "{found:?}");
}

#[test]
fn bounds_on_calls_that_are_too_good_are_found_out() {
    for (family, least) in [(Family::Calls, 1_000), (Family::CallsAcross, 300)] {
        let report = blocking::blocking(family, Draws::new(7, 100), &claims);
        let is_good = report.violations.is_empty() && report.failures.is_empty();
        assert!(is_good && report.blocked[3] > least && report.bounded[3] > 50, "{family:?}: {report}");
    }
    // As if no server called another; as if no client was in service when a job calls; as if own services took none of the time.
    let no_nesting =
        |manifest: &Manifest| claims_of(manifest, |locks| locks.servers.iter_mut().for_each(|one| one.calls.clear()));
    let alone = |manifest: &Manifest| {
        let none = |claim: Claim| Claim { blocking: claim.blocking.map(|_| [0; 4]), ..claim };
        claims(manifest).into_iter().map(none).collect()
    };
    let by_one = |manifest: &Manifest| {
        claims_of(manifest, |locks| locks.servers.iter_mut().for_each(|one| one.callers.truncate(2)))
    };
    let all: [blocking::Claims<'_>; 3] = [&no_nesting, &alone, &by_one];
    let found = all
        .map(|too_good| blocking::blocking(Family::Calls, Draws::new(7, 150).until_wrong(), too_good).violations.len());
    assert!(found.iter().all(|found| *found > 0), "{found:?}");
}

#[test]
fn bounds_on_services_with_engines_that_are_too_good_are_found_out() {
    let report = blocking::blocking(Family::Served, Draws::new(7, 100), &claims);
    let is_good = report.violations.is_empty() && report.failures.is_empty();
    let [engines, .., servers, _, _] = report.ratios();
    assert!(is_good && report.blocked[0] > 500 && report.blocked[3] > 1_000, "{report}");
    assert!(engines.min(servers) > 0.98, "{report}");
    // As if services held no engines; as if servers were no users of them; as if others held them for half as long; as if operations took nothing.
    let no_holds =
        |manifest: &Manifest| claims_of(manifest, |locks| locks.servers.iter_mut().for_each(|one| one.task = None));
    let no_users = |manifest: &Manifest| {
        claims_of(manifest, |locks| {
            let servers: Vec<usize> = locks.servers.iter().filter_map(|one| one.task).collect();
            let users = locks.engines.iter_mut().map(|one| &mut one.users);
            users.for_each(|users| users.retain(|user| !servers.contains(&user.task)));
        })
    };
    let half = |manifest: &Manifest| {
        claims_of(manifest, |locks| {
            let servers: Vec<usize> = locks.servers.iter().filter_map(|one| one.task).collect();
            let users = locks.engines.iter_mut().flat_map(|one| &mut one.users);
            users.filter(|user| !servers.contains(&user.task)).for_each(|user| {
                user.hold.cpu.0 /= 2;
                user.hold.operation.0 /= 2;
            });
        })
    };
    let no_operations =
        |manifest: &Manifest| claims(manifest).into_iter().map(|claim| Claim { served: 0, ..claim }).collect();
    let all: [blocking::Claims<'_>; 4] = [&no_holds, &no_users, &half, &no_operations];
    let found = all.map(|too_good| {
        blocking::blocking(Family::Served, Draws::new(7, 300).until_wrong(), too_good).violations.len()
    });
    assert!(found.iter().all(|found| *found > 0), "{found:?}");
}

#[test]
fn bounds_with_several_devices_that_are_too_good_are_found_out() {
    let report = blocking::blocking(Family::Devices, Draws::new(7, 120), &claims);
    assert!(
        report.violations.is_empty()
            && report.failures.is_empty()
            && report.blocked[..2].iter().all(|blocked| *blocked > 100),
        "{report}"
    );
    // As if all devices were the last one; as if no other task had a token of the same one.
    let last_device = |manifest: &Manifest| {
        claims_of(manifest, |locks| {
            let last = locks.engines.len() - 1;
            locks.engines[..last].iter_mut().for_each(|one| one.users.clear());
        })
    };
    let no_rivals = |manifest: &Manifest| {
        claims_of(manifest, |locks| locks.engines.iter_mut().for_each(|one| one.rivals = Some(1)))
    };
    let all: [blocking::Claims<'_>; 2] = [&last_device, &no_rivals];
    let found = all.map(|too_good| {
        blocking::blocking(Family::Devices, Draws::new(7, 120).until_wrong(), too_good).violations.len()
    });
    assert!(found.iter().all(|found| *found > 0), "{found:?}");
}

#[test]
fn bounds_across_clusters_that_are_too_good_are_found_out() {
    let report = blocking::blocking(Family::Across, Draws::new(7, 100), &claims);
    assert!(
        report.violations.is_empty()
            && report.failures.is_empty()
            && report.blocked[..3].iter().all(|blocked| *blocked > 150),
        "{report}"
    );
    // As if no task donated; as if other clusters had no CPUs; as if no task held an engine with a token; as if the other
    // clusters' tasks did not use engines.
    let no_donation = |manifest: &Manifest| {
        let none =
            |claim: Claim| Claim { blocking: claim.blocking.map(|[one, two, _, four]| [one, two, 0, four]), ..claim };
        claims(manifest).into_iter().map(none).collect()
    };
    let nobody_abroad =
        |manifest: &Manifest| claims_of(manifest, |locks| locks.abroad.iter_mut().for_each(|abroad| abroad.cpus = 0));
    let no_engines =
        |manifest: &Manifest| claims_of(manifest, |locks| locks.pools.iter_mut().for_each(|one| one.engines.clear()));
    let own_engines = |manifest: &Manifest| {
        claims_of(manifest, |locks| {
            let is_abroad = |task: usize| locks.abroad.iter().any(|abroad| abroad.task == task);
            locks.engines.iter_mut().for_each(|one| one.users.retain(|user| !is_abroad(user.task)));
        })
    };
    let all: [blocking::Claims<'_>; 4] = [&no_donation, &nobody_abroad, &no_engines, &own_engines];
    let found = all.map(|too_good| {
        blocking::blocking(Family::Across, Draws::new(7, 150).until_wrong(), too_good).violations.len()
    });
    assert!(found.iter().all(|found| *found > 0), "{found:?}");
}

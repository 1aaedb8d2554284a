//! Random systems on the whole kernel: after every trap all its invariants hold.
//!
//! Tasks burn, call servers, wait and signal, take engines and submit, sleep, overrun their budgets, forget to
//! give engines back, wait for each other in circles, or die. With all of that, the kernel's invariants hold
//! (the simulator checks them after every trap), time is accounted for to the nanosecond, no budget is
//! exceeded, and an engine has one holder at a time.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use fusee_abi::trace::{Event, Ledger};
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_simulator::simulate;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use super::common::{Device, MS, URGENT, end};
use crate::explain::parts_add_up;

const LIMIT: u64 = 100 * MS;

#[derive(Clone, Debug)]
enum Step {
    Burn(u64),
    Call(usize, u64),
    Signal(usize),
    Wait(usize),
    Acquire(usize),
    Submit(usize, u64),
    Release(usize),
    /// Acquire, submit, wait, release.
    Use(usize, u64),
    /// Submits and does not wait: the release finds the engine busy.
    Leave(usize, u64),
    Sleep(u64),
}

#[derive(Clone, Debug)]
struct Task {
    cluster: usize,
    /// 0: background; else the period in milliseconds.
    period: u64,
    budget: u64,
    phase: u64,
    steps: Vec<Step>,
}

fn step() -> impl Strategy<Value = Step> {
    // Mostly well-behaved, so that systems stay alive; now and then something that blocks for good.
    prop_oneof![
        20 => (1u64..40).prop_map(Step::Burn),
        20 => (0usize..2, 0u64..30).prop_map(|(server, time)| Step::Call(server, time)),
        20 => (0usize..2, 1u64..30).prop_map(|(engine, time)| Step::Use(engine, time)),
        4 => (0usize..2).prop_map(Step::Signal),
        1 => (0usize..2).prop_map(Step::Wait),
        4 => (0usize..2).prop_map(Step::Acquire),
        1 => (0usize..2, 1u64..30).prop_map(|(engine, time)| Step::Submit(engine, time)),
        4 => (0usize..2, 1u64..30).prop_map(|(engine, time)| Step::Leave(engine, time)),
        4 => (0usize..2).prop_map(Step::Release),
        4 => (1u64..100).prop_map(Step::Sleep),
    ]
}

fn task() -> impl Strategy<Value = Task> {
    let period = prop_oneof![1 => Just(0), 4 => prop::sample::select(vec![5u64, 8, 10, 20, 25])];
    (0usize..2, period, 5u64..60, 0u64..30, prop::collection::vec(step(), 1..7))
        .prop_map(|(cluster, period, budget, phase, steps)| Task { cluster, period, budget, phase, steps })
}

/// One engine protocol in all clusters is refused by the manifest, so only the first uses engines.
fn script(task: &Task, clusters: usize) -> Vec<String> {
    let engines = task.cluster.is_multiple_of(clusters);
    task.steps
        .iter()
        .filter_map(|step| {
            let tenths = |time: &u64| format!("{}us", time * 100);
            Some(match step {
                Step::Burn(time) => format!("burn {}", tenths(time)),
                Step::Call(server, time) => format!("call s{server} {}", tenths(time)),
                Step::Signal(which) => format!("signal n{which} 1"),
                Step::Wait(which) => format!("wait n{which}"),
                Step::Sleep(time) => format!("sleep {}", tenths(time)),
                Step::Acquire(engine) if engines => format!("acquire e{engine}"),
                Step::Submit(engine, time) if engines => format!("submit e{engine} {} gpu_done", tenths(time)),
                Step::Use(engine, time) if engines => {
                    format!("acquire e{engine}|submit e{engine} {} gpu_done|release e{engine}", tenths(time))
                }
                Step::Leave(engine, time) if engines => {
                    format!("acquire e{engine}|start e{engine} {}|release e{engine}", tenths(time))
                }
                Step::Release(engine) if engines => format!("release e{engine}"),
                _ => return None,
            })
        })
        .flat_map(|steps| steps.split('|').map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// The text of the manifest. `keyed`: the device decides between clients of the first engine.
fn manifest(tasks: &[Task], clusters: usize, managed: bool, keyed: bool) -> String {
    let mut text = format!(
        "[system]\nname = \"random\"\nboard = \"virt\"\ncpus = 3\nstart = \"5ms\"\nadmission = \"warn\"\nmanaged = {managed}\n"
    );
    let cpus: &[&str] = if clusters == 1 { &["0, 1, 2"] } else { &["0, 1", "2"] };
    for (index, cpus) in cpus.iter().enumerate() {
        let _ = writeln!(text, "[clusters.c{index}]\ncpus = [{cpus}]");
    }
    for (index, task) in tasks.iter().enumerate() {
        let mut steps = script(task, clusters);
        if steps.is_empty() {
            steps.push("burn 1ms".into());
        }
        let cluster = task.cluster % clusters;
        let list = steps.iter().map(|step| format!("\"{step}\"")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "[tasks.t{index}]\nscript = [{list}]\ncluster = \"c{cluster}\"");
        if task.period == 0 {
            text.push_str("class = \"background\"\n");
        } else {
            let budget = task.budget.min(task.period * 10) * 100;
            let _ =
                write!(text, "period = \"{}ms\"\nbudget = \"{budget}us\"\nphase = \"{}ms\"\n", task.period, task.phase);
        }
        let _ = writeln!(text, "[tasks.t{index}.handles]");
        for other in 0..2 {
            let _ = writeln!(
                text,
                "s{other} = \"endpoint s{other}: call\"\nn{other} = \"notification n{other}: wait signal\""
            );
        }
        if cluster == 0 {
            let _ = writeln!(
                text,
                "e0 = \"engine e0: acquire\"\ne1 = \"engine e1: acquire\"\nring = \"region r{index}: read write\"\ngpu_done = \"notification d{index}: wait\""
            );
        }
    }
    for server in 0..2 {
        // The second server has a budget of its own.
        let own = if server == 1 { "class = \"service\"\nperiod = \"10ms\"\nbudget = \"2ms\"\n" } else { "" };
        let _ = writeln!(
            text,
            "[tasks.server{server}]\nscript = [\"serve s{server}\"]\ncluster = \"c0\"\n{own}handles = {{ s{server} = \"endpoint s{server}: receive\" }}\n[endpoints.s{server}]\nserver = \"server{server}\""
        );
    }
    let users: Vec<usize> = (0..tasks.len()).filter(|index| tasks[*index].cluster.is_multiple_of(clusters)).collect();
    let handles: String =
        users.iter().map(|user| format!("\"done.t{user}\" = \"notification d{user}: signal\"\n")).collect();
    let first = if keyed { "arbiter = \"device\"" } else { "order = \"priority\"" };
    let engines = [("e0", first), ("e1", "order = \"fifo\"")];
    let device = Device { cluster: Some("c0"), handles: &handles, engines: &engines, ..Device::GPU }.text();
    text += &if keyed { device.replace("[devices.gpu]\n", "[devices.gpu]\nsms = 4\n") } else { device };
    text += &end("60ms", &URGENT.replace("\"all\"", "\"c0\"\nsuspends = \"60ms\""));
    text.push_str("[notifications.n0]\n[notifications.n1]\n");
    for user in &users {
        let _ = writeln!(text, "[notifications.d{user}]\nbound = \"gpu\"\n[regions.r{user}]\nbytes = \"4KiB\"");
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000,
        max_shrink_iters: 2000,
        // Beside this file. By default it would be sought in a folder of its own, since there is a `main.rs`.
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_invariant_holds_in_every_random_system(
        tasks in prop::collection::vec(task(), 2..6),
        clusters in 1usize..3,
        managed in prop::bool::weighted(0.9),
        keyed in prop::bool::weighted(0.3),
    ) {
        let text = manifest(&tasks, clusters, managed, keyed);
        let manifest = match Manifest::parse(Path::new("random.toml"), &text) {
            Ok(manifest) => manifest,
            // No task of the first cluster: then the engines have no users, which the manifest may refuse.
            Err(error) => { return Err(TestCaseError::reject(format!("{error}"))); }
        };
        let report = match simulate(&manifest, None, LIMIT) {
            Ok(report) => report,
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}"))),
        };
        let trace = Trace::from_records(report.records.clone());
        // No budget is exceeded: here, kernel paths take no time.
        for ((kind, index), amount) in trace.ledgers() {
            if kind == Ledger::Overshoot as u16 {
                prop_assert_eq!(amount, 0, "reservation {} overran\n{}", index, text);
            }
        }
        parts_add_up(&manifest, &report.records, 0).map_err(|why| TestCaseError::fail(format!("{why}\n{text}")))?;
        // One holder at a time, and each request granted at most once.
        let mut holders: BTreeMap<u32, u16> = BTreeMap::new();
        for record in &report.records {
            match Event::from_number(record.event) {
                Some(Event::EngineGrant) => {
                    let before = holders.insert(record.object, record.thread);
                    prop_assert_eq!(before, None, "two holders\n{}", text);
                }
                Some(Event::EngineIdle) => {
                    prop_assert_eq!(holders.remove(&record.object), Some(record.thread), "{}", text);
                }
                _ => {}
            }
        }
        prop_assert_eq!(report.late_completions, 0);
        // No thread goes from one reservation to another and back, and computes a nanosecond on each.
        prop_assert!(report.traps < 50_000, "{} traps\n{}", report.traps, text);
    }
}

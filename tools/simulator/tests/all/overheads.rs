//! Paths of the kernel that take time: the tasks that wait, the tasks that pay, and that nothing changes when paths take none.

use fusee_abi::trace::{Event, Ledger};
use fusee_manifest::PolicyName;
use fusee_simulator::workload::Platform;
use fusee_simulator::{Checks, Options, Overheads, simulate_observed, simulate_with};
use proptest::prelude::*;

use super::common::{self, LIMIT, MS, Run, end};
use crate::explain::parts_add_up;

const COSTS: Overheads = Overheads {
    release: 3_000,
    schedule: 5_000,
    context_switch: 4_000,
    call_in: 1_000,
    call_out: 1_000,
    interrupt: 7_000,
    interprocessor_interrupt: 11_000,
};

fn run(text: &str, overheads: Overheads) -> Run {
    common::run_for(text, overheads, LIMIT, &[])
}

/// Instants of the ends of the jobs of `only`.
fn completions(run: &Run) -> Vec<u64> {
    run.events(Event::Complete, "only").map(|record| record.time).collect()
}

const ONE_TASK: &str = r#"
[system]
name = "one"
board = "virt"
cpus = 1
start = "10ms"

[tasks.only]
script = ["burn 2ms"]
period = "10ms"
budget = "4ms"
"#;

fn one_task() -> Run {
    run(&format!("{ONE_TASK}{}", end("96ms", LAST)), COSTS)
}

/// Keys of an end that comes after all others.
const LAST: &str = "period = \"1s\"\ndeadline = \"500ms\"\nbudget = \"10ms\"";

/// The timer of a release is an interrupt, a look at the plan, a release and a switch; the call that ends the job
/// is complete once the kernel has looked.
#[test]
fn a_response_is_longer_by_the_paths_that_are_on_its_way() {
    // From its second job on no other task is released.
    assert_eq!(completions(&one_task())[1], 20 * MS + 7_000 + 5_000 + 3_000 + 4_000 + 2 * MS + 2_000 + 5_000);
}

#[test]
fn interrupts_are_the_kernels_own_and_calls_and_switches_are_their_tasks() {
    let run = one_task();
    assert_eq!(run.report.exit, Some(0));
    // Each job: 2 ms, a switch and its last call, which reads the clock after the look.
    let jobs = completions(&run).len() as u64;
    let started = run.ledger(Ledger::Charged, 0) - jobs * (2 * MS + 4_000 + 2_000 + 5_000);
    assert_eq!(started, 4_000 + 2_000 + 5_000, "its first call");
    // Interrupts: each release, and the end of the sleep.
    let kernel = run.ledger(Ledger::Kernel, 0);
    assert!(kernel >= jobs * (7_000 + 5_000 + 3_000), "{kernel}");
    let sum = run.ledger(Ledger::CpuCharged, 0) + kernel + run.ledger(Ledger::IdleTime, 0);
    assert_eq!(sum, run.ledger(Ledger::Uptime, 0));
}

const TWO_CPUS: &str = r#"
[system]
name = "two"
board = "virt"
cpus = 2
start = "10ms"

[tasks.first]
script = ["burn 5ms"]
period = "20ms"
budget = "6ms"

[tasks.second]
script = ["burn 5ms"]
period = "20ms"
phase = "1ms"
budget = "6ms"
"#;

/// The first CPU handles the second task's release and goes on with its own; the other CPU hears of it by a kick.
#[test]
fn a_kicked_cpu_switches_once_the_kick_has_arrived_and_the_kernel_has_looked() {
    let switches = |overheads| {
        let run = run(TWO_CPUS, overheads);
        let times = run.all(Event::SwitchTo).filter(|record| record.cpu == 1).map(|record| record.time);
        times.filter(|time| *time >= 10 * MS).take(2).collect::<Vec<u64>>()
    };
    assert_eq!(switches(Overheads::NONE), [11 * MS, 31 * MS]);
    // The trap of the release, the kick on its way, and the kick's own trap.
    let late = 7_000 + 5_000 + 3_000 + 11_000 + 7_000 + 5_000;
    assert_eq!(switches(COSTS), [11 * MS + late, 31 * MS + late]);
}

const RIVALS: &str = r#"
[system]
name = "rivals"
board = "virt"
cpus = 2
start = "10ms"

[clusters.a]
cpus = [0]

[clusters.b]
cpus = [1]

[tasks.first]
script = ["burn 2ms"]
cluster = "a"
period = "10ms"
budget = "4ms"
"#;

/// Does as `first` does, at the same instants on the other CPU.
const RIVAL: &str = r#"
[tasks.rival]
script = ["burn 2ms"]
cluster = "b"
period = "10ms"
budget = "4ms"
"#;

#[test]
fn waiting_for_the_kernel_lock_in_a_call_is_charged_to_the_caller() {
    let end = end("95ms", &format!("cluster = \"a\"\n{LAST}"));
    let alone = run(&format!("{RIVALS}{end}"), COSTS);
    let both = run(&format!("{RIVALS}{end}{RIVAL}"), COSTS);
    let charged = alone.ledger(Ledger::Charged, 0);
    assert!(charged > 10 * 2 * MS);
    // The two make their calls at the same instants, so one of them waits.
    let together = [0, 2].map(|task| both.ledger(Ledger::Charged, task));
    assert!(together.iter().all(|one| *one >= charged) && together != [charged; 2], "{together:?}, alone {charged}");
    // At each release one of the two waits until the other has left the kernel: the work of both is twice that of one.
    let kernel = |run: &Run| run.ledger(Ledger::Kernel, 0) + run.ledger(Ledger::Kernel, 1);
    assert!(kernel(&both) > 2 * kernel(&alone), "{} {}", kernel(&both), kernel(&alone));
    for cpu in 0..2 {
        let sum = [Ledger::CpuCharged, Ledger::Kernel, Ledger::IdleTime].map(|ledger| both.ledger(ledger, cpu));
        assert_eq!(sum.iter().sum::<u64>(), both.ledger(Ledger::Uptime, cpu));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// All invariants of the kernel are checked after every trap.
    #[test]
    fn the_kernel_sees_time_go_forward_whatever_its_paths_cost(
        seed: u64,
        policy in prop::sample::select(PolicyName::ALL.to_vec()),
        clusters in prop::sample::select(vec![vec![1], vec![2], vec![2, 1], vec![4]]),
        costs in prop::array::uniform6(prop::sample::select(vec![0u64, 1, 700, 40_000])),
    ) {
        let [release, schedule, context_switch, call_in, interrupt, interprocessor_interrupt] = costs;
        let call_out = call_in;
        let overheads =
            Overheads { release, schedule, context_switch, call_in, call_out, interrupt, interprocessor_interrupt };
        let words = "uunifast,n=8,u=1.2,deadlines=arbitrary";
        let manifest = common::generated(words, seed, &Platform { clusters, policy, overheads });
        let (mut last, mut forward, mut records) = (0, true, Vec::new());
        let options = Options { overheads, checks: Checks::Traps, ..Options::default() };
        let report = simulate_observed(&manifest, &options, 100 * MS, &mut |record| {
            forward &= last <= record.time;
            last = record.time;
            records.push(*record);
        });
        prop_assert!(report.is_ok(), "{report:?}");
        parts_add_up(&manifest, &records, interprocessor_interrupt).map_err(TestCaseError::fail)?;
        prop_assert!(forward);
    }

    /// Tasks that never stop on their own: each overshoot is at most one path, and those of the other CPUs that it waits for.
    /// One of these paths may release every task, each once: no period is as short as an overshoot.
    /// A debt is paid from the next budget, so that no task ever gets more than its budgets and these paths.
    #[test]
    fn no_budget_is_exceeded_by_more_than_one_path_of_each_cpu_and_the_excess_is_paid_back(
        tasks in prop::collection::vec((1u64..8, 2u64..30, 52u64..900), 1..6),
        cpus in 1u32..3,
        costs in prop::array::uniform6(prop::sample::select(vec![0u64, 300, 2_500])),
    ) {
        let [release, schedule, context_switch, call, interrupt, interprocessor_interrupt] = costs;
        let overheads = Overheads {
            release,
            schedule,
            context_switch,
            call_in: call,
            call_out: call,
            interrupt,
            interprocessor_interrupt,
        };
        let mut text = format!(
            "[system]\nname = \"greedy\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"1ms\"\nadmission = \"warn\"\n\
             [tasks.end]\nscript = [\"shutdown\"]\nperiod = \"1ms\"\ndeadline = \"100us\"\nphase = \"99ms\"\n\
             budget = \"100us\"\nhandles = {{ system = \"system: shutdown\" }}\n"
        );
        for (index, (period, burn, budget)) in tasks.iter().enumerate() {
            text += &format!(
                "[tasks.t{index}]\nscript = [\"burn {burn}us\", \"yield\", \"repeat\"]\nperiod = \"{period}ms\"\n\
                 budget = \"{budget}us\"\n"
            );
        }
        let run = common::run_for(&text, overheads, 200 * MS, &[]);
        prop_assert_eq!(run.report.exit, Some(0));
        let released = 1 + tasks.len() as u64;
        let path = u64::from(cpus) * (call * 2 + schedule + context_switch + interrupt) + released * release;
        for (index, (period, _, budget)) in tasks.iter().enumerate() {
            let [overshoot, charged] = [Ledger::Overshoot, Ledger::Charged].map(|kind| run.ledger(kind, index + 1));
            prop_assert!(overshoot <= path, "t{} overshot by {} ns, a path of each CPU takes {}", index, overshoot, path);
            // One budget from boot to the first release, then one each period.
            let budgets = 1 + (99 / period + 1);
            prop_assert!(charged <= budgets * budget * 1_000 + path, "t{} was charged {} ns", index, charged);
        }
    }

    #[test]
    fn costs_of_zero_change_nothing(seed: u64) {
        let overheads = Overheads::parse("release = 0\nschedule = 0\ncall_in = \"0ns\"").map_err(TestCaseError::fail)?;
        let platform = Platform { clusters: vec![2], policy: PolicyName::Fl, overheads };
        let manifest = common::generated("uunifast,n=6,u=1.5", seed, &platform);
        let records = |options: &Options| simulate_with(&manifest, options, 100 * MS).map(|report| report.records).ok();
        prop_assert_eq!(records(&Options { overheads, ..Options::default() }), records(&Options::default()));
    }
}

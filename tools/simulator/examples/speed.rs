//! How fast simulator and analysis are on this host: traps a second, without and with all invariants after each trap, and how long a set of
//! tasks takes to be analysed.
//!
//! ```sh
//! cargo run --release -p fusee-simulator --example speed
//! ```

use std::time::Instant;

use fusee_manifest::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::{Cluster, Task, analyse};
use fusee_simulator::workload::{Generator, Platform, SimulatedTask, Source};
use fusee_simulator::{Checks, Options, Overheads, simulate_observed};

/// Virtual seconds of each run.
const SECONDS: u64 = 5;

fn main() {
    for (tasks, cpus) in [(8, 1), (20, 4), (50, 8)] {
        let load = 60 * cpus;
        let words = format!("uunifast,n={tasks},u={}.{:02},periods=1:2:5:10", load / 100, load % 100);
        let generator = Generator::parse(&words).expect("a generator");
        let set = generator.generate(&mut Source::new(1, 1)).expect("a task set");
        let platform = Platform { clusters: vec![cpus], policy: PolicyName::Edf, overheads: Overheads::NONE };
        let manifest = set.system(&platform).expect("a system");
        for (what, checks) in [("without checks", Checks::Instants(0)), ("with checks", Checks::Traps)] {
            let options = Options { checks, ..Options::default() };
            let started = Instant::now();
            let report = simulate_observed(&manifest, &options, SECONDS * 1_000_000_000, &mut |_| {}).expect("it runs");
            let rate = report.traps as f64 / started.elapsed().as_secs_f64();
            println!(
                "{tasks:3} tasks on {cpus} CPUs, {what:14}: {:9} traps, {:5.2} million a second",
                report.traps,
                rate / 1e6
            );
        }
    }
    analyses();
}

/// Fifty tasks on eight CPUs, by each policy that bounds response times.
fn analyses() {
    let generator = Generator::parse("uunifast,n=50,u=4.80,periods=1:2:5:10").expect("a generator");
    let sets: Vec<Vec<Task>> = (0..200)
        .map(|seed| {
            let set = generator.generate(&mut Source::new(seed, 2)).expect("a task set");
            let task = |task: &SimulatedTask| Task {
                execution: Nanoseconds(task.execution),
                period: Nanoseconds(task.period),
                deadline: Nanoseconds(task.deadline),
                priority: 1,
            };
            set.tasks.iter().map(task).collect()
        })
        .collect();
    for policy in [PolicyName::Edf, PolicyName::Fl, PolicyName::Rm] {
        let started = Instant::now();
        for set in &sets {
            let cluster = Cluster::new(8, policy, set.clone()).expect("a good set");
            let report = analyse(&cluster, &fusee_sched_analysis::Overheads::default(), &[]).expect("bounds");
            assert_eq!(report.tasks.len(), 50);
        }
        let each = started.elapsed().as_secs_f64() / sets.len() as f64;
        println!("analysis of 50 tasks on 8 CPUs by {policy:?}: {:.3} ms each", each * 1e3);
    }
}

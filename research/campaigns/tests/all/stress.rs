//! The system of `tests/target/a_hundred_thousand_random_operations_break_no_invariant.toml`, with ten times as many operations.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fusee_campaigns::hostile::COSTS;
use fusee_campaigns::stress::{Role, Stress};
use fusee_manifest::Manifest;
use fusee_simulator::{Options, Overheads, Program, simulate_observed};

const OPERATIONS: u64 = 1_000_000;
/// Virtual time after which the system would have been far too slow.
const LIMIT: u64 = 100_000_000_000;

/// The program of each task of the manifest, by its parameters and handles.
fn programs(manifest: &Manifest, done: &Arc<AtomicU64>) -> Vec<(usize, Program)> {
    let program = |(index, task): (usize, &fusee_manifest::Task)| {
        let entry = |name: &str| task.environment.iter().find(|entry| entry.name == name);
        let handle = |name: &str| entry(name).unwrap_or_else(|| panic!("`{}` has no `{name}`", task.name)).handle;
        let role = match entry("role").map(|role| role.address) {
            Some(0) => Role::Director { system: handle("system"), goal: OPERATIONS },
            Some(1) => Role::Client {
                servers: [handle("first"), handle("second")],
                mine: handle("mine"),
                other: handle("other"),
            },
            _ => Role::Server { endpoint: handle("serves"), next: entry("next").map(|next| next.handle) },
        };
        (index, Stress { role, stream: index as u64, done: Arc::clone(done) }.program())
    };
    manifest.system.tasks.iter().enumerate().map(program).collect()
}

/// Given six clients, and three servers that call each other and put replies off, on two CPUs, when the clients do a million operations together, then
/// each of them gets the reply to its request or an error that it has to expect, and the kernel's invariants hold after every trap.
#[test]
fn a_million_random_operations_break_no_invariant() {
    let name = "../../tests/target/a_hundred_thousand_random_operations_break_no_invariant.toml";
    let manifest = Manifest::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let programs = programs(&manifest, &done);
    for overheads in [Overheads::default(), COSTS] {
        done.store(0, Ordering::Relaxed);
        let options = Options { overheads, programs: programs.clone(), ..Options::default() };
        let report = simulate_observed(&manifest, &options, LIMIT, &mut |_| {}).unwrap();
        assert_eq!(report.exit, Some(0), "after {} operations", done.load(Ordering::Relaxed));
        assert!(done.load(Ordering::Relaxed) >= OPERATIONS);
    }
}

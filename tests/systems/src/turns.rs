//! Turns of emulated CPUs, told from the execution of a job itself.

use std::path::Path;

use anyhow::Result;
use fusee_exports::audit::audit;
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_kernel_core::limits;
use fusee_manifest::trace::describe;
use fusee_manifest::{Manifest, Profile};
use fusee_views::explain::{Step, explain};

/// The name of the check that turns are told from a job's own execution.
pub const CHECK: &str = "why a job was late names the turns of other emulated CPUs";

/// A system that is right, but for turns of 50 us: one task has a CPU of its own and can spare 50 us, and three more CPUs are busy.
const CROWDED: &str = r#"
[system]
name = "turns"
board = "virt"
cpus = 4
start = "10ms"
[clusters.control]
cpus = [0]
[clusters.work]
cpus = [1, 2, 3]
[tasks.actuator]
script = ["burn 50us"]
cluster = "control"
period = "1ms"
deadline = "500us"
budget = "200us"
hard = true
[tasks.busy]
copies = 3
script = ["burn 5ms"]
cluster = "work"
period = "20ms"
# Not when the actuator's are released: of timers of two idle CPUs that fire at the same instant QEMU handles now the one first, now the other.
phase = "500us"
budget = "6ms"
[tasks.end]
script = ["sleep 200ms", "shutdown"]
cluster = "work"
class = "service"
period = "10ms"
budget = "1ms"
handles = { system = "system: shutdown" }
"#;

/// Watches the turns of a run of it. Returns the faults.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let manifest = Manifest::parse(Path::new("turns.toml"), CROWDED)?;
    let programs = workspace.builder().programs(&[&manifest.system])?;
    let image = workspace.image_of(manifest, programs, Profile::Det, false)?;
    let run = |arguments: Vec<String>| {
        let options = RunOptions { quantum: 50, arguments, ..RunOptions::quiet(120) };
        system::run(workspace, &image, &options)?.trace
    };
    let trace = run(system::watching(workspace, &image)?.to_vec())?;
    let turns = system::turns_seen(workspace, &image, &trace)?;
    let system = &image.manifest.system;
    let mut problems: Vec<String> = audit(&trace, system, &turns, 2 * limits::LONGEST_PATH).err().into_iter().collect();
    let unwatched = run(Vec::new())?;
    if trace != unwatched {
        let pairs = trace.records.iter().zip(&unwatched.records);
        let first = pairs
            .filter(|(one, other)| one != other)
            .map(|(one, other)| format!("{}, not {}", describe(one, system), describe(other, system)));
        let first = first.take(1).collect::<String>();
        problems.push(format!("watching changes what happens: {first}"));
    }
    let late: Vec<_> = explain(&trace, system, &turns).into_iter().filter(|job| job.is_late()).collect();
    if late.is_empty() {
        problems.push("no job is late".to_owned());
    }
    // The job computes for 50 us, or less if a turn falls into that, which it is charged, too: all other charges are turns, up to the kernel's own
    // paths.
    for job in late {
        let of = |wanted: &dyn Fn(&[Step]) -> bool| -> u64 {
            job.parts.iter().filter(|part| wanted(&part.path)).map(|part| part.time).sum()
        };
        let own = of(&|path| matches!(path, [Step::Ran(None)]));
        let cause = job.cause(system);
        if !cause.contains("turns of other emulated CPUs") || !(1_000..60_000).contains(&own) {
            problems.push(format!("{cause}; executed for {own} ns"));
        }
    }
    Ok(problems)
}

//! The trace that a task sends over a second serial port.

use anyhow::{Context, Result, ensure};
use demo_judge as demo;
use fusee_abi::trace::Record;
use fusee_host::judge::Watch;
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_manifest::Profile;
use fusee_manifest::trace::Trace;
use fusee_views::stream::Stream;

/// The name of the check.
pub const CHECK: &str = "the trace that a task sends over a second serial port is the one in memory";

/// The addition to the demo: a task that sends the trace. It is an example in `docs/trace.md`, too.
const SENDER: &str = include_str!("../../../drivers/stream/stream.toml");

/// Bytes in a job of the example, which are enough for all of the demo.
const ENOUGH: &str = "bytes = 512";
/// A quarter of that.
const QUARTER: &str = "bytes = 128";

/// Its budget.
const BUDGET: &str = "budget = \"100us\"";

/// Runs the demo with a task that sends its trace, and compares. Returns the faults.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(workspace.root.join(demo::MANIFEST)).context(demo::MANIFEST)?;
    let text = text.replace("name = \"demo\"", "name = \"streamed\"") + SENDER;
    ensure!(
        SENDER.contains(ENOUGH) && SENDER.contains(BUDGET),
        "the example has something else than {ENOUGH} and {BUDGET}"
    );
    let mut problems = Vec::new();
    for (profile, bytes) in [(Profile::Par, ENOUGH), (Profile::Det, QUARTER)] {
        let mut bad = |what: String| problems.push(format!("{} with {bytes}: {what}", system::profile_name(profile)));
        let mut text = text.replace(ENOUGH, bytes);
        if profile == Profile::Par {
            // There the host takes microseconds for a byte.
            text = text.replace(BUDGET, "budget = \"500us\"");
        }
        let image = workspace.image_as_asked("userland/demo/streamed.toml", &text, profile)?;
        let options = RunOptions::quiet(120);
        let run = system::run(workspace, &image, &options)?;
        let kept = run.trace?;
        if run.outcome.code != Some(0) {
            bad(format!("the demo ended with {:?}", run.outcome.code));
        }
        let path = image.stream().context("the demo shows its trace to no task")?;
        let stream = Stream::read(&std::fs::read(&path)?).with_context(|| path.display().to_string())?;
        differences(&kept, &stream).into_iter().for_each(&mut bad);
        if profile == Profile::Det {
            let system = &image.manifest.system;
            let verdict = Watch::of(&kept, system).verdict(image.manifest.expectations.as_ref());
            verdict.problems().into_iter().for_each(|problem| bad(problem.text));
            if stream.missing() == 0 {
                bad("nothing is missing, at a quarter of what it takes".to_owned());
            }
        }
    }
    Ok(problems)
}

/// The records that differ between stream and memory, and counts that differ from the missing records.
fn differences(kept: &Trace, stream: &Stream) -> Vec<String> {
    let mut differences = Vec::new();
    if kept.lost > 0 || stream.spoilt > 0 {
        differences
            .push(format!("{} records are not in memory any more, {} frames were spoilt", kept.lost, stream.spoilt));
    }
    let mut missing = 0;
    for (cpu, (sent, written)) in stream.records().iter().zip(stream.written()).enumerate() {
        let of_cpu: Vec<Record> =
            kept.records.iter().filter(|record| usize::from(record.cpu) == cpu).copied().collect();
        if sent.is_empty() {
            differences.push(format!("CPU {cpu} has sent nothing"));
        }
        let wrong = sent.iter().filter(|(number, record)| of_cpu.get(**number as usize) != Some(*record)).count();
        if wrong > 0 {
            differences.push(format!("{wrong} of {} records of CPU {cpu} are not those in memory", sent.len()));
        }
        let counted = of_cpu.get(..*written as usize).map(|known| (0..).zip(known));
        let Some(counted) = counted else {
            differences
                .push(format!("CPU {cpu} is said to have written {written} records; there are {}", of_cpu.len()));
            continue;
        };
        missing += counted.filter(|(number, _)| !sent.contains_key(number)).count() as u64;
    }
    if missing != stream.missing() {
        differences.push(format!("{missing} records did not come, and {} are counted", stream.missing()));
    }
    differences
}

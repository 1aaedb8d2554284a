//! Conformance systems: QEMU, the simulator and the checked-in golden trace must tell the same story.
//!
//! Compared are the canonical traces of scripted tasks, and the marks of sharers, from the synchronous release on: the contents of each cell of the
//! 1 ms grid, up to the shutdown. A system may list policies and clusters to be run with; each combination has a golden trace
//! of its own. The steps of drivers and servers without a script in between differ by nature.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fusee_abi::trace::{Ledger, Level};
use fusee_exports::audit::audit;
use fusee_kernel_core::limits;
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Profile, Variant};
use fusee_tester::expected::difference;
use fusee_tester::golden;
use fusee_views::metrics::Metrics;

use crate::case::Found;
use crate::known;
use crate::target;
use fusee_host::build::Programs;
use fusee_host::system::{self, Image, RunOptions, Workspace};
use fusee_host::turns;

/// Where conformance systems are; each has its golden trace beside it.
pub const FOLDER: &str = "tests/conformance";
/// Virtual nanoseconds after which a simulation is given up.
const LIMIT: u64 = 10_000_000_000;
/// Longest turn of a CPU, virtual microseconds, unless a system asks for another: the others wait so long, and so late may a job complete. Turns of 25 us put
/// a quarter of the systems off the grid; turns of 2 us cost the host 2.6 times as much.
const QUANTUM: u32 = 10;
/// The turn of a CPU without others, virtual microseconds.
const ALONE: u32 = 2_000;
/// What the ledgers of a run say of jobs: complete, late, skipped.
fn counts(trace: &Trace) -> Vec<((u16, u16), u64)> {
    let counted = [Ledger::Jobs, Ledger::Misses, Ledger::Skipped].map(|ledger| ledger as u16);
    trace.ledgers().into_iter().filter(|((ledger, _), _)| counted.contains(ledger)).collect()
}

/// One system of [`FOLDER`], in one of its variants.
pub struct Case {
    /// The system.
    pub manifest: Manifest,
    /// Where its golden trace is.
    pub golden: PathBuf,
}

impl Case {
    /// All variants of the system at `path`.
    pub fn all(workspace: &Workspace, path: &Path) -> Result<Vec<Case>> {
        let plain = system::read_variant(
            &workspace.root,
            path,
            &Variant { board: workspace.board.clone(), ..Variant::default() },
        )?;
        let variants = plain.expectations.map_or_else(|| vec![Variant::default()], |expected| expected.variants);
        let case = |variant: &Variant| {
            let variant = Variant { board: workspace.board.clone(), ..variant.clone() };
            let manifest = Manifest::read_variant(&workspace.root.join(path), &variant)?;
            let name = path.with_file_name(format!("{}.trace", manifest.system.name));
            Ok(Case { manifest, golden: workspace.root.join(name) })
        };
        variants.iter().map(case).collect()
    }

    /// Runs the system in QEMU and in the simulator: the longest response times to be shown, and the differences. Then once more with each
    /// of these kernels, which keep other levels of the trace.
    pub fn check(
        &self,
        workspace: &Workspace,
        name: &str,
        programs: &Programs,
        levels: &[(Level, PathBuf)],
        bless: bool,
    ) -> Result<Found> {
        let image = self.image(workspace, programs)?;
        let mut inputs = target::inputs(workspace, name, &image, &self.options())?;
        inputs.add(&(std::fs::read(&self.golden).ok(), format!("{:?}", self.manifest.expectations)));
        for (_, kernel) in levels {
            inputs.file(kernel)?;
        }
        let check = || {
            let (words, problems) = self.compare(workspace, &image, levels, bless)?;
            Ok(Found::with_words(words, problems))
        };
        if bless { check() } else { known::unless(&inputs, check) }
    }

    fn compare(
        &self,
        workspace: &Workspace,
        image: &Image,
        levels: &[(Level, PathBuf)],
        bless: bool,
    ) -> Result<(String, Vec<String>)> {
        let run = system::run(workspace, image, &self.options())?;
        let mut problems = Vec::new();
        let trace = run.trace.context("the run left no trace")?;
        let emulated = self.canonical(&trace, "QEMU", &mut problems);
        let simulated = fusee_simulator::simulate(&self.manifest, None, LIMIT)?;
        let simulated = self.canonical(&Trace::from_records(simulated.records), "the simulator", &mut problems);
        if run.outcome.code != Some(0) {
            problems.push(format!("QEMU ended with {:?}", run.outcome.code));
        }
        if let Some(difference) = difference(&simulated, &emulated) {
            problems.push(format!("QEMU (+) and simulator (-) differ:\n{difference}"));
        }
        if bless && problems.is_empty() {
            std::fs::write(&self.golden, &emulated)?;
        }
        // A golden trace that is not there yet differs in its first line.
        let expected = std::fs::read_to_string(&self.golden).unwrap_or_default();
        if let Some(difference) = difference(&expected, &emulated) {
            problems.push(format!("QEMU (+) and {} (-) differ:\n{difference}", self.golden.display()));
        }
        problems.extend(audit(&trace, &self.manifest.system, &[], 2 * limits::LONGEST_PATH).err());
        for (level, kernel) in levels {
            let programs = Programs { kernel: kernel.clone(), ..image.programs.clone() };
            let run = system::run(workspace, &self.image(workspace, &programs)?, &self.options())?;
            let problem = match (level, &run.trace) {
                _ if run.outcome.code != Some(0) => Some(format!("ended with {:?}", run.outcome.code)),
                (Level::Off, trace) => trace.is_ok().then(|| "there is a trace".to_owned()),
                (Level::Marks, Ok(marks)) => {
                    (counts(marks) != counts(&trace)).then(|| "other counts of jobs".to_owned())
                }
                (_, Ok(full)) => difference(&emulated, &self.canonical(full, level.name(), &mut problems))
                    .map(|difference| format!("another trace (+):\n{difference}"))
                    .or_else(|| audit(full, &self.manifest.system, &[], 2 * limits::LONGEST_PATH).err()),
                (_, Err(error)) => Some(format!("{error:#}")),
            };
            problems.extend(problem.map(|problem| format!("with trace `{}`: {problem}", level.name())));
        }
        Ok((self.responses(&trace), problems))
    }

    /// The image of the system with these programs.
    fn image(&self, workspace: &Workspace, programs: &Programs) -> Result<Image> {
        workspace.image_of(self.manifest.clone(), programs.clone(), Profile::Det, false)
    }

    /// How QEMU runs the system.
    fn options(&self) -> RunOptions<'static> {
        // A CPU without another, and without one that plays devices, takes no turns; and an idle one passes long turns quickly.
        let asked = self.manifest.expectations.as_ref().and_then(|expected| expected.turns);
        let usual = if turns::cpus(&self.manifest.system) == 1 { ALONE } else { QUANTUM };
        let quantum = asked.unwrap_or(usual);
        RunOptions { quantum, ..RunOptions::quiet(60) }
    }

    /// `: high answers within 8.04 ms`, for the tasks to be shown.
    fn responses(&self, trace: &Trace) -> String {
        let metrics = Metrics::of(trace, &self.manifest.system);
        let tasks = self.manifest.expectations.iter().flat_map(|expected| &expected.responses);
        let shown = tasks.filter_map(|task| {
            let task = metrics.tasks.get(*task)?;
            Some(format!("{} answers within {:.2} ms", task.name, task.response()?.greatest as f64 / 1e6))
        });
        let shown: Vec<String> = shown.collect();
        shown.join(", ")
    }

    fn canonical(&self, trace: &Trace, who: &str, problems: &mut Vec<String>) -> String {
        golden::canonical(&self.manifest, trace).unwrap_or_else(|off| {
            problems.push(format!("{who}: {off}"));
            String::new()
        })
    }
}

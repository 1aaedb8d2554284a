//! Experiments with systems as arrangements: the simulator runs them for long, QEMU for a few seconds.
//!
//! Quantities come from the ledgers, which both leave at a system's end.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fusee_abi::image::release;
use fusee_abi::trace::{Event, Ledger, Record};
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Profile, Resolved};
use fusee_simulator::{Checks, Options, Overheads, simulate_observed};

use super::{Findings, Quantity};
use fusee_host::system::{self, RunOptions, Workspace};

/// The costs of kernel paths in the simulator.
pub const OVERHEADS: Overheads = Overheads::ROUND;

/// One way to run the workload.
pub struct System {
    /// Its name, in tables.
    pub name: &'static str,
    /// In a sentence.
    pub about: &'static str,
    /// The system.
    pub manifest: String,
}

/// A quantity of a system.
pub struct Measure {
    /// The quantity.
    pub quantity: Quantity,
    /// Its value.
    pub of: fn(&Ended<'_>) -> f64,
}

/// A system that has ended, by the ledgers it left.
pub struct Ended<'a> {
    system: &'a Resolved,
    ledgers: BTreeMap<(u16, u16), u64>,
    /// Nanoseconds from the first release.
    length: u64,
}

impl Ended<'_> {
    /// Seconds from the first release to the end.
    pub fn seconds(&self) -> f64 {
        self.length as f64 / 1e9
    }

    /// The number of the ledger for a task; zero of one that is not there.
    pub fn task(&self, name: &str, ledger: Ledger) -> f64 {
        let index = self.system.tasks.iter().position(|task| task.name == name);
        index.map_or(0.0, |index| self.amount(ledger, index) as f64)
    }

    /// Jobs of a task that completed late, or never began because those before were late.
    pub fn missed(&self, name: &str) -> f64 {
        self.task(name, Ledger::Misses) + self.task(name, Ledger::Skipped)
    }

    /// The longest response time of a task's jobs, nanoseconds; not a number without any.
    pub fn longest_response(&self, name: &str) -> f64 {
        let Some(index) = self.system.tasks.iter().position(|task| task.name == name) else { return f64::NAN };
        let deadline = self.system.tasks[index].reservation.map_or(0, |one| self.system.reservations[one].deadline);
        match self.amount(Ledger::Jobs, index) {
            0 => f64::NAN,
            _ => (deadline.cast_signed() + self.amount(Ledger::MaxLateness, index).cast_signed()) as f64,
        }
    }

    fn amount(&self, ledger: Ledger, index: usize) -> u64 {
        self.ledgers.get(&(ledger as u16, index as u16)).copied().unwrap_or(0)
    }

    /// How many jobs of each task completed late.
    fn late(&self) -> impl Iterator<Item = (&str, f64)> {
        let has_jobs = |reservation: &usize| self.system.reservations[*reservation].release != release::NONE;
        let tasks = self.system.tasks.iter().filter(move |task| task.reservation.as_ref().is_some_and(has_jobs));
        tasks.map(|task| (task.name.as_str(), self.task(&task.name, Ledger::Misses)))
    }
}

//--- Running them

/// Simulates all systems for `length` nanoseconds each.
pub fn simulate(systems: &[System], measures: &[Measure], length: u64) -> Result<Findings> {
    let of = |one: &System| Ok(values(measures, &simulated(&parse(one)?, length).context(one.name)?));
    findings(systems, measures, of)
}

/// Runs all systems in QEMU, and each as long in the simulator: QEMU's findings, and the tasks that are late in one of
/// both only.
pub fn emulate(
    workspace: &Workspace,
    systems: &[System],
    measures: &[Measure],
    length: u64,
) -> Result<(Findings, Vec<String>)> {
    let mut differences = Vec::new();
    let of = |one: &System| {
        let manifest = parse(one)?;
        let programs = workspace.builder().programs(&[&manifest.system])?;
        let image = workspace.image_of(manifest, programs, Profile::Det, false)?;
        let options = RunOptions { quantum: 50, ..RunOptions::quiet(120) };
        let run = system::run(workspace, &image, &options)?;
        if run.outcome.code != Some(0) {
            bail!("{} ended with {:?} in QEMU:\n{}", one.name, run.outcome.code, run.outcome.console);
        }
        let system = &image.manifest.system;
        let emulated = Ended { system, ledgers: run.trace?.ledgers(), length };
        let simulated = simulated(&image.manifest, length).context(one.name)?;
        for ((task, here), (_, there)) in emulated.late().zip(simulated.late()) {
            // How many is no more than a number where response times are near deadlines: operations then come in another order.
            if (here > 0.0) != (there > 0.0) {
                differences
                    .push(format!("{}: {here} jobs of {task} are late in QEMU, {there} in the simulator", one.name));
            }
        }
        Ok(values(measures, &emulated))
    };
    Ok((findings(systems, measures, of)?, differences))
}

fn findings(systems: &[System], measures: &[Measure], of: impl FnMut(&System) -> Result<Vec<f64>>) -> Result<Findings> {
    Ok(Findings {
        arrangements: systems.iter().map(|one| (one.name, one.about)).collect(),
        quantities: measures.iter().map(|measure| measure.quantity).collect(),
        values: systems.iter().map(of).collect::<Result<_>>()?,
        further: Vec::new(),
    })
}

fn values(measures: &[Measure], ended: &Ended<'_>) -> Vec<f64> {
    measures.iter().map(|measure| (measure.of)(ended)).collect()
}

fn parse(one: &System) -> Result<Manifest> {
    Ok(Manifest::parse(Path::new(one.name), &one.manifest)?)
}

fn simulated(manifest: &Manifest, length: u64) -> Result<Ended<'_>> {
    let mut kept: Vec<Record> = Vec::new();
    // A kernel that breaks an invariant is found here, too, but these runs are long.
    let options = Options { overheads: OVERHEADS, checks: Checks::Instants(1_000), ..Options::default() };
    let limit = manifest.system.start + 2 * length;
    let report = simulate_observed(manifest, &options, limit, &mut |record| {
        if record.event == Event::Ledger as u8 {
            kept.push(*record);
        }
    })?;
    if report.exit != Some(0) || report.late_completions > 0 {
        bail!("the simulation ended with {:?}, {} completions late", report.exit, report.late_completions);
    }
    Ok(Ended { system: &manifest.system, ledgers: Trace::from_records(kept).ledgers(), length })
}

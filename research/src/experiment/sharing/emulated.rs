//! One arrangement of some experiments, in QEMU and in the simulator.
//!
//! Both have the same manifest: scripts, sharer and policy are those of the whole experiment. Clients wait for the driver's notice in both, since emulated CPUs
//! take turns, and a client that reads its fence would take those of the others. Requests are short enough for some five intervals of fair queueing within 3 s.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Profile};

use super::super::{Experiment, Findings, Unit};
use super::{Counts, Outcome, Plan, Row, Runs, START, Setup, classes, fair, findings, idle, pairs};

/// Columns, systems of which each column has as many, and the rows that are made of their outcomes.
pub struct Form {
    pub columns: Vec<(&'static str, &'static str)>,
    pub setups: Vec<Setup>,
    pub rows: fn(&[Outcome]) -> Vec<Row>,
}

/// By how much a figure in QEMU may differ from that of the simulator, as a part of the larger one.
const AGREEMENT: f64 = 0.1;
/// The key under which a scripted client logs how many requests it had done (`userland/apps/src/bin/scripted.rs`).
const DONE: u32 = 1 << 16;
/// Microseconds for which the system runs on: a client whose store waits has its turn, and logs.
pub const REST: u64 = 600_000;

/// An experiment, and its form.
type Formed = (&'static Experiment, fn() -> Form);
/// The experiments that have such a form.
const FORMS: [Formed; 3] =
    [(&pairs::EXPERIMENT, pairs::form), (&idle::EXPERIMENT, idle::form), (&fair::EXPERIMENT, fair::form)];

/// Whether the experiment of this name has a form for QEMU.
pub fn has_form(name: &str) -> bool {
    names().any(|one| one == name)
}

/// The names of those that have one.
pub fn names() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|(experiment, _)| experiment.name).chain([classes::EXPERIMENT.name])
}

/// Runs the form of the experiment of this name. Returns the figures of QEMU and of the simulator, and those that differ by more than a tenth.
pub fn emulate(workspace: &Workspace, name: &str, runs: &Runs) -> Result<([Findings; 2], Vec<String>)> {
    let found = match FORMS.iter().find(|(experiment, _)| experiment.name == name) {
        Some((_, form)) => sides(workspace, &form(), runs)?,
        None if name == classes::EXPERIMENT.name => classes::emulate(workspace, runs)?,
        None => bail!("`{name}` has no form for QEMU; these have: {}", names().collect::<Vec<_>>().join(", ")),
    };
    let differences = differences(&found);
    Ok((found, differences))
}

fn sides(workspace: &Workspace, form: &Form, runs: &Runs) -> Result<[Findings; 2]> {
    let plan = Plan::of(&form.setups);
    let (mut emulated, mut simulated) = (Vec::new(), Vec::new());
    for setup in &plan.systems {
        let text = setup.manifest(runs.seed, Some(runs.length));
        let parse = || Ok::<_, anyhow::Error>(Manifest::parse(Path::new("sharing"), &text)?);
        let trace = trace(workspace, parse()?)?;
        let counts = (0..setup.clients.len()).map(|index| Ok((done(&parse()?, &trace, &format!("c{index}"))?, 0)));
        emulated.push(counts.collect::<Result<Counts>>().with_context(|| format!("{setup:?}"))?);
        simulated.push(setup.simulated(&parse()?, false, runs.length)?);
    }
    Ok([emulated, simulated].map(|counts| {
        let outcomes = plan.outcomes(runs, &counts);
        let each: Vec<Vec<Row>> = outcomes.chunks(outcomes.len() / form.columns.len()).map(form.rows).collect();
        let rows = (0..each[0].len()).map(|row| Row {
            quantity: each[0][row].quantity,
            values: each.iter().flat_map(|column| column[row].values.clone()).collect(),
        });
        findings(form.columns.clone(), rows.collect())
    }))
}

/// The parameters of a client that ends after so many nanoseconds of the system's work.
pub fn parameters(length: u64) -> String {
    format!("parameters = {{ until_us = {} }}\n", START + length / 1_000)
}

/// The task that ends the system so many microseconds after `length` nanoseconds of its work.
pub fn end(length: u64, rest: u64) -> String {
    format!(
        "[tasks.end]\nscript = [\"sleep {}us\", \"shutdown\"]\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n\
         handles = {{ system = \"system: shutdown\" }}\n",
        START + length / 1_000 + rest
    )
}

/// The trace of the system in QEMU.
pub fn trace(workspace: &Workspace, manifest: Manifest) -> Result<Trace> {
    let programs = workspace.builder().programs(&[&manifest.system])?;
    let image = workspace.image_of(manifest, programs, Profile::Det, false)?;
    let run = system::run(workspace, &image, &RunOptions { quantum: 50, ..RunOptions::quiet(120) })?;
    ensure!(run.outcome.code == Some(0), "it ended with {:?} in QEMU:\n{}", run.outcome.code, run.outcome.console);
    run.trace
}

/// The requests that the client of this name had done when it ended.
pub fn done(manifest: &Manifest, trace: &Trace, client: &str) -> Result<u32> {
    let task = manifest.system.tasks.iter().position(|task| task.name == client).context("a client of the system")?;
    let said = trace.logs().find(|(thread, key, _)| usize::from(*thread) == task + 1 && *key == DONE);
    let (.., count) = said.with_context(|| format!("{client} has not ended in QEMU"))?;
    Ok(u32::try_from(count)?)
}

/// The figures that differ by more than a tenth.
fn differences([emulated, simulated]: &[Findings; 2]) -> Vec<String> {
    let mut differences = Vec::new();
    for (column, (name, _)) in emulated.arrangements.iter().enumerate() {
        for (row, quantity) in emulated.quantities.iter().enumerate() {
            let [here, there] = [emulated, simulated].map(|found| found.values[column][row]);
            // How many jobs are late is a matter of chance where the device decides; whether any is, is not.
            let agree = match quantity.unit {
                Unit::Count => (here > 0.0) == (there > 0.0),
                _ => (here - there).abs() <= AGREEMENT * here.max(there),
            };
            if !agree {
                let [here, there] = [here, there].map(|value| quantity.unit.show(value));
                differences.push(format!("{name}, {}: {here} in QEMU, {there} in the simulator", quantity.name));
            }
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::super::row;
    use super::*;

    fn found(slowdown: f64, missed: f64) -> Findings {
        findings(
            vec![("a", "the first")],
            vec![row("slowdown", Unit::Hundredths, [slowdown]), row("missed", Unit::Count, [missed])],
        )
    }

    #[test]
    fn figures_differ_by_more_than_a_tenth_and_late_jobs_by_whether_there_are_any() {
        let lines = |slowdown, missed| differences(&[found(2.0, 30.0), found(slowdown, missed)]);
        assert!(lines(1.81, 1.0).is_empty() && lines(2.2, 60.0).is_empty());
        assert_eq!(lines(1.79, 30.0), ["a, slowdown: 2.00 in QEMU, 1.79 in the simulator"]);
        assert_eq!(lines(2.0, 0.0), ["a, missed: 30 in QEMU, 0 in the simulator"]);
    }

    #[test]
    fn each_form_has_as_many_systems_for_each_column() {
        for (experiment, form) in FORMS {
            let form = form();
            assert_eq!(form.setups.len() % form.columns.len(), 0, "{}", experiment.name);
            // In 3 s fair queueing has several intervals of eight requests of each client, and five times as long between them.
            assert!(form.setups.iter().all(|setup| setup.longest() <= 2_000_000), "{}", experiment.name);
        }
    }
}

//! Random systems whose jobs sleep for long, alone and beside holds of engines, on clusters of one CPU each.
//!
//! # Invariants
//!
//! 1. A system depends on the seed and its number only.
//! 2. Jobs compute and sleep for exactly as long as their tasks declare, in pieces.
//! 3. No two jobs of a cluster have the same priority point: periods are drawn to the nanosecond.
//! 4. A cluster may be wanted for more than its time if sleep counts as execution, and for less than that if it does not.

use std::fmt::Write;
use std::path::Path;

use fusee_kernel_core::limits;
use fusee_manifest::{Manifest, admission};
use fusee_sched_analysis::Overheads;
use fusee_simulator::workload::Source;

use super::served::{Shared, Uses};
use super::systems::Waits;
use super::{MICROSECOND, MILLISECOND};

/// The manifest of the system with this number, and the longest period in it.
pub(super) fn draw(seed: u64, number: u64) -> (String, u64) {
    let (text, longest) = draw_with(seed, number, &Waits::new());
    let Ok(manifest) = Manifest::parse(Path::new("random.toml"), &text) else { return (text, longest) };
    let mut waits = Waits::new();
    for index in 0..manifest.system.clusters.len() {
        let Ok(study) = admission::Study::new(&manifest.system, index) else { continue };
        let Ok((_, blocked)) = study.analyse(&Overheads::default()) else { continue };
        for (member, blocked) in study.members.iter().zip(blocked) {
            let name = manifest.system.tasks[*member].name.clone();
            waits.insert(name, (blocked.lends.0, blocked.blocking.0));
        }
    }
    draw_with(seed, number, &waits)
}

/// A system as of [`draw`], with budgets by how long each task lends.
fn draw_with(seed: u64, number: u64, waits: &Waits) -> (String, u64) {
    let mut source = Source::new(seed, number);
    let clusters = source.draw(1, 2) as usize;
    let mut text = format!(
        "[system]\nname = \"s{number}\"\nboard = \"virt\"\ncpus = {clusters}\nstart = \"1ms\"\nadmission = \"warn\"\n"
    );
    for index in 0..clusters {
        let policy = source.pick(&["RM", "DM", "FP", "EDF", "FL"]);
        let _ = write!(text, "\n[clusters.c{index}]\ncpus = [{index}]\npolicy = \"{policy}\"\n");
    }
    let mut shared = match source.draw(0, 1) {
        0 => Shared::default(),
        _ => Shared::draw(&mut source, &mut text, &vec![1; clusters]),
    };
    let mut longest = 0;
    for cluster in 0..clusters {
        longest = longest.max(tasks(&mut source, &mut text, cluster, &mut shared, waits));
    }
    (text, longest)
}

/// Writes the tasks of a cluster; returns the longest period.
fn tasks(source: &mut Source, text: &mut String, cluster: usize, shared: &mut Shared, waits: &Waits) -> u64 {
    let count = source.draw(2, 6);
    // In thousandths of the CPU, for each.
    let load = source.draw(300, 900) / count;
    let part = source.draw(1, 6);
    let mut longest = 0;
    for index in 0..count {
        let name = format!("t{cluster}_{index}");
        let period = 1_000 * source.draw(1, 40) * source.pick(&[100, 500, 1_000]) + source.draw(0, MICROSECOND);
        let uses = match source.draw(0, 1) {
            0 if !shared.is_empty() => shared.uses(source, cluster, 100 * MICROSECOND, true),
            _ => Uses::default(),
        };
        let wanted = (period / 1_000 * source.draw(load / 2, load * 3 / 2)).max(limits::BUDGET_MIN);
        let computes = wanted.saturating_sub(uses.cpu()).max(MICROSECOND);
        let (lends, blocking) = waits.get(&name).copied().unwrap_or((4 * uses.cpu(), 0));
        let computed = computes + uses.cpu();
        let budget = (computed + lends + MICROSECOND).max(limits::BUDGET_MIN);
        let period = period.max(2 * (budget + blocking + uses.operations()));
        let room = period - budget - blocking - uses.operations();
        let sleeps = if source.draw(0, 3) > 0 { source.draw(0, room * part / 10) } else { 0 };
        let script = script(source, computes, sleeps, uses.steps(shared));
        longest = longest.max(period);
        let deadline = if source.draw(0, 1) == 0 { period } else { source.draw(period / 2, period) };
        let phase = if source.draw(0, 1) == 0 { 0 } else { source.draw(0, period) };
        // The sleeps of a script without locks are known.
        let is_trusted = source.draw(0, 2) > 0;
        let _ = write!(
            text,
            "\n[tasks.{name}]\ncluster = \"c{cluster}\"\nscript = [{script}]\nperiod = \"{period}ns\"\ndeadline = \
             \"{deadline}ns\"\nbudget = \"{budget}ns\"\nwcet = \"{computed}ns\"\nphase = \"{phase}ns\"\npriority = {}\nbacklog = \
             255\nsuspends = \"{sleeps}ns\"\ntrusted = {is_trusted}\n",
            8 * source.draw(0, 3) + index + 1,
        );
        uses.write(text, shared);
    }
    if source.draw(0, 2) == 0 {
        let _ = write!(
            text,
            "\n[tasks.idler{cluster}]\ncluster = \"c{cluster}\"\nclass = \"background\"\nscript = [\"burn 1ms\", \"repeat\"]\n"
        );
    }
    longest.max(MILLISECOND)
}

/// A job that computes and sleeps for so long, in pieces with holds in between.
fn script(source: &mut Source, mut computes: u64, mut sleeps: u64, holds: Vec<String>) -> String {
    let mut steps = Vec::new();
    let mut holds = holds.into_iter();
    // A short first piece lets a job sleep from nearly its release on.
    let mut piece = if source.draw(0, 1) == 0 { MICROSECOND.min(computes) } else { source.draw(1, computes) };
    while computes > 0 {
        steps.push(format!("\"burn {piece}ns\""));
        computes -= piece;
        let sleep = if computes == 0 || source.draw(0, 1) == 0 { sleeps } else { source.draw(0, sleeps) };
        if sleep > 0 {
            steps.push(format!("\"sleep {sleep}ns\""));
            sleeps -= sleep;
        }
        steps.extend(holds.next());
        piece = match steps.len() {
            10.. => computes,
            _ => source.draw(computes.min(1), computes),
        };
    }
    steps.extend(holds);
    steps.join(", ")
}

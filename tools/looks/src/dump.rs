//! `cargo xtask dump`: the state of each task of the last run when it ended, and its place in the source.
//!
//! A run leaves its memory, the manifest, and the registers of CPUs, if QEMU still had them when the run was ended. So it does not
//! matter how it ended: by itself, by a panic of the kernel, or because it hung.
//!
//! Not here: how memory is read (`look`), checks (`dump_check`).

use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use clap::Args;
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;

use fusee_host::decode::{Registers, Rings};
use fusee_host::judge::Watch;
use fusee_host::kept::Kept;
use fusee_host::look::{Look, Place, Seen, Task};
use fusee_host::observed::stack_words;
use fusee_host::project::Project;
use fusee_host::qemu::GuestMemory;
use fusee_host::report::span;
use fusee_host::words;
use fusee_views::state::State;

/// Arguments of `cargo xtask dump`.
#[derive(Args)]
pub struct DumpArguments {
    /// Only this task, with addresses and registers.
    task: Option<String>,
}

/// Prints the state that the last run left.
pub fn dump(arguments: &DumpArguments) -> Result<bool> {
    let kept = Kept::last(&Project::here()?).context("no run to look into")?;
    let system = &kept.manifest.system;
    let task = arguments.task.as_ref().map(|name| number_of(system, name)).transpose()?;
    let look = Look::new(system, &kept.programs)?;
    let seen = look.see(&kept.memory, &kept.cpus)?;
    let changed = look.changed(&kept.memory, &seen)?;
    ensure!(changed.is_empty(), "built anew since that run: {}; run it again", changed.join(", "));
    eprintln!("the last run: system `{}`, which {}", system.name, kept.ended);
    let trace = Rings::of(&kept.programs.kernel)?.trace(&kept.memory)?;
    let report = Report { system, look: &look, seen: &seen, memory: &kept.memory, trace: &trace };
    words::print(&report.text(task)?);
    Ok(true)
}

fn number_of(system: &Resolved, name: &str) -> Result<usize> {
    let found = system.tasks.iter().position(|task| task.name == name);
    let names = || system.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>().join(", ");
    found.with_context(|| format!("the system has no task `{name}`; it has {}", names()))
}

// --- Output

/// The input for the text of a dump: the state that the last run left, and the manifest, memory and trace that explain it.
pub struct Report<'a> {
    /// The system.
    pub system: &'a Resolved,
    /// How it is read.
    pub look: &'a Look<'a>,
    /// The state.
    pub seen: &'a Seen,
    /// Its memory.
    pub memory: &'a GuestMemory,
    /// Its trace.
    pub trace: &'a Trace,
}

impl Report<'_> {
    /// All tasks, or one with its registers; before that the kernel, if it has stopped.
    pub fn text(&self, only: Option<usize>) -> Result<String> {
        let mut text = String::new();
        if let Some(registers) = self.seen.kernel {
            text += "kernel: panicked\n";
            lines(&mut text, &self.look.kernel_backtrace(self.memory, registers)?, true);
            register_lines(&mut text, &registers);
        }
        for (number, cpu) in self.seen.cpus.iter().enumerate() {
            if let (true, Some(registers)) = (cpu.in_kernel, cpu.registers) {
                let places = self.look.kernel_backtrace(self.memory, registers)?;
                let _ = writeln!(text, "CPU {number}: in the kernel, {}", first_line(&places));
            }
        }
        for (engine, (name, _)) in self.seen.engines.iter().zip(&self.system.engines).filter(|_| only.is_none()) {
            let user = engine.user.map_or_else(String::new, |user| format!(", by `{}`", self.name(user)));
            let waiters = self.names(engine.waiters.iter().copied());
            let waiters = if waiters.is_empty() { waiters } else { format!(", waited for by {waiters}") };
            let _ = writeln!(text, "engine `{name}`: {}{user}{waiters}", engine.state.to_lowercase());
        }
        for index in (0..self.seen.tasks.len()).filter(|index| only.is_none_or(|only| only == *index)) {
            self.task(&mut text, index, only.is_some())?;
        }
        Ok(text)
    }

    fn name(&self, task: usize) -> &str {
        self.system.tasks.get(task).map_or("?", |task| task.name.as_str())
    }

    fn names(&self, tasks: impl Iterator<Item = usize>) -> String {
        tasks.map(|task| format!("`{}`", self.name(task))).collect::<Vec<_>>().join(", ")
    }

    /// Tasks that wait for this one.
    fn waiting_for(&self, task: usize) -> impl Iterator<Item = usize> {
        let tasks = self.seen.tasks.iter().enumerate();
        tasks.filter(move |(_, other)| other.waits_for == Some(task)).map(|(index, _)| index)
    }

    fn task(&self, text: &mut String, index: usize, whole: bool) -> Result<()> {
        let task = &self.seen.tasks[index];
        let _ = writeln!(text, "task `{}`: {}", self.name(index), self.state_words(index, task));
        if task.job.number > 0 {
            let state = match (&task.state, task.job.active) {
                (State::Ended(_), _) => "was its last",
                (_, true) => "is under way",
                (_, false) => "is complete",
            };
            let deadline = span(task.job.deadline.cast_signed());
            let _ = writeln!(text, "  job {} {state}, deadline {deadline}", task.job.number);
        }
        if let Some(budget) = task.budget {
            let _ = write!(text, "  {} left of {}", span_of(budget.left), span_of(budget.whole));
            if budget.debt > 0 {
                let _ = write!(text, ", {} owed", span_of(budget.debt));
            }
            text.push_str(if budget.throttled { ", throttled\n" } else { "\n" });
        }
        if let Some(used) = self.look.stack_used(self.memory, self.seen, index) {
            let _ = writeln!(text, "  stack: {} used", stack_words(used, self.system.tasks[index].stack));
        }
        if task.is_stale {
            text.push_str("  as of its last trap: what was in its CPU is gone\n");
        }
        lines(text, &self.look.backtrace(self.memory, self.seen, index)?, whole);
        if whole {
            register_lines(text, &task.registers);
        }
        for held in &task.holds {
            let _ = writeln!(text, "  holds {held}");
        }
        if !task.serves.is_empty() {
            let _ = writeln!(text, "  serves {}", self.names(task.serves.iter().copied()));
        }
        let waiting = self.names(self.waiting_for(index));
        if !waiting.is_empty() {
            let _ = writeln!(text, "  waited for by {waiting}");
        }
        for handle in &task.handles {
            let name = handle.name.as_ref().map_or_else(|| "(from a message)".to_owned(), |name| format!("`{name}`"));
            let _ = writeln!(text, "  handle {} {name}: {}, {}", handle.slot, handle.object, handle.rights.join(" "));
        }
        Ok(())
    }

    /// The task's state; if it has ended, with the instant and the message, as far as the trace has them.
    fn state_words(&self, index: usize, task: &Task) -> String {
        match task.state {
            State::Ended(_) => {
                let end = Watch::of(self.trace, self.system).end_of(index);
                end.unwrap_or_else(|| task.state.words(index, self.system))
            }
            _ => task.state.words(index, self.system),
        }
    }
}

fn span_of(nanoseconds: u64) -> String {
    span(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// Source lines of a backtrace: those of functions that were inlined into each other stand below each other, and a function that calls itself
/// stands there once. Addresses are shown if they are asked for, or if there is nothing else.
fn lines(text: &mut String, places: &[Place], with_addresses: bool) {
    let mut rest = places.iter().enumerate().peekable();
    while let Some((depth, place)) = rest.next() {
        let (address, frames) = place;
        let _ = write!(text, "  #{depth:<2}");
        if with_addresses || frames.is_empty() {
            let _ = write!(text, " {address:#x}");
        }
        for (inlined, frame) in frames.iter().enumerate() {
            let _ = write!(text, "{} {frame}", if inlined == 0 { "" } else { "\n        inlined into" });
        }
        text.push('\n');
        let again = std::iter::from_fn(|| rest.next_if(|(_, next)| *next == place)).count();
        if again > 0 {
            let _ = writeln!(text, "      {again} more of the same");
        }
    }
}

fn first_line(places: &[Place]) -> String {
    let frames = places.first().map(|(address, frames)| frames.first().cloned().unwrap_or(format!("{address:#x}")));
    frames.unwrap_or_default()
}

fn register_lines(text: &mut String, registers: &Registers) {
    for (row, values) in registers.general.chunks(4).enumerate() {
        text.push(' ');
        for (column, value) in values.iter().enumerate() {
            let number = row * 4 + column;
            let name = if number == Registers::STACK { "sp".to_owned() } else { format!("x{number}") };
            let _ = write!(text, " {name:>4} {value:016x}");
        }
        text.push('\n');
    }
}

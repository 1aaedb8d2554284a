//! `cargo xtask trace`: views of the last run.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand, ValueHint};
use fusee_manifest::Resolved;
use fusee_manifest::trace::{Message, Said, Trace};
use fusee_pictures::{Pictures, page::page};
use fusee_views::schedule::Schedule;

use crate::export::{self, Exports};
use crate::{explain, stream};
use fusee_host::defmt::{self, Speakers};
use fusee_host::project::Project;
use fusee_host::words;
use fusee_host::{report, system};

/// Arguments of `cargo xtask trace`.
#[derive(Args)]
pub struct TraceArguments {
    /// What to show in place of the records.
    #[command(subcommand)]
    view: Option<View>,
    /// Show what a task has sent over a serial line, in place of the last run: a file, or the port of a board, until nothing has come
    /// for two seconds.
    #[arg(long, value_name = "FILE|PORT", value_hint = ValueHint::FilePath, global = true)]
    stream: Option<PathBuf>,
    /// The manifest of the system that has sent it; that of the last run, unless told otherwise.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "stream", global = true)]
    manifest: Option<PathBuf>,
    /// Print the canonical form, in which a run in QEMU and one in the simulator can be compared.
    #[arg(long)]
    canonical: bool,
    /// Print what tasks have said by the macros of the crates `log` and `defmt`.
    #[arg(long)]
    messages: bool,
    #[command(flatten)]
    pictures: Pictures,
    /// Write a page to look around in: all of the schedule, in one file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    #[command(flatten)]
    exports: Exports,
}

#[derive(Subcommand)]
enum View {
    /// Says where the time of a job went, to the nanosecond
    Explain(explain::ExplainArguments),
}

/// Shows the requested view of the last run; `false`: it has no such thing.
pub fn trace(arguments: &TraceArguments) -> Result<bool> {
    let project = Project::here()?;
    let last = system::Last::of(&project);
    let (trace, manifest, turns) = match &arguments.stream {
        None => {
            let last = last.as_ref().map_err(again).context("no run to show; try `cargo xtask run`")?;
            let (trace, manifest) = last.trace()?;
            eprintln!("the last run: system `{}`", manifest.system.name);
            (trace, manifest, last.turns()?)
        }
        Some(from) => {
            let manifest = match &arguments.manifest {
                Some(path) => system::read_manifest(&project.root, path)?,
                None => {
                    let last = last.as_ref().map_err(again).context("say of which system it is by `--manifest`")?;
                    last.manifest()?
                }
            };
            (stream::receive(from, &manifest.system)?, manifest, Vec::new())
        }
    };
    let system = &manifest.system;
    let missing = match trace.lost {
        0 => None,
        1 => Some("1 record is missing".to_owned()),
        lost => Some(format!("{lost} records are missing")),
    };
    if let Some(missing) = &missing {
        eprintln!("{} {missing}", report::yellow("note:"));
    }
    let title = missing.map_or_else(|| system.name.clone(), |missing| format!("{}; {missing}", system.name));
    if let Some(View::Explain(arguments)) = &arguments.view {
        return explain::explain(arguments, &trace, &manifest, &turns);
    }
    if arguments.messages {
        let tables = match (&arguments.stream, &arguments.manifest) {
            (Some(from), Some(_)) => {
                let sent = from.metadata()?;
                defmt::built(&project, &manifest, sent.modified().ok().filter(|_| sent.is_file()))?
            }
            _ => last.as_ref().map_err(again)?.tables()?,
        };
        let (lines, notes) = message_lines(&trace, system, &mut Speakers::new(tables, &project.root));
        words::print(&lines.concat());
        notes.iter().for_each(|note| eprintln!("{} {note}", report::yellow("note:")));
        return Ok(true);
    }
    let mut written = arguments.pictures.draw(&trace, &manifest, &title)?;
    if let Some(path) = &arguments.html {
        system::write(path, page(&Schedule::of(&trace, system), system, &title).as_bytes())?;
        written.push(path.clone());
    }
    written.extend(export::export(&arguments.exports, &trace, &manifest)?);
    written.iter().for_each(|path| words::say(&path.display().to_string()));
    if written.is_empty() { system::print_trace(&trace, &manifest, arguments.canonical) } else { Ok(true) }
}

/// A copy of an error, owned.
fn again(error: &anyhow::Error) -> anyhow::Error {
    anyhow!("{error:#}")
}

/// The messages of tasks, one a line, and remarks on messages that are lost.
pub fn message_lines(trace: &Trace, system: &Resolved, speakers: &mut Speakers) -> (Vec<String>, Vec<String>) {
    let task = |thread: u16| usize::from(thread).checked_sub(1).and_then(|index| system.tasks.get(index));
    let name = |thread: u16| task(thread).map_or("?", |task| task.name.as_str());
    let messages = trace.messages();
    let line = |message: &Message| {
        let text = match &message.said {
            Said::Text(text) => text.clone(),
            Said::Frame(frame) => speakers.text(task(message.thread).map_or("?", |task| &task.binary), frame),
        };
        message_line(message.time, name(message.thread), &text)
    };
    let lines = messages.all.iter().map(line).collect();
    let incomplete = messages.incomplete.iter().map(|(thread, count)| {
        let (s, are) = if *count == 1 { ("", "is") } else { ("s", "are") };
        format!("{count} message{s} of `{}` {are} left out: not all records are there", name(*thread))
    });
    let notes = incomplete.chain(speakers.problems()).collect();
    (lines, notes)
}

/// `     0.012345 s camera         INFO src/main.rs:7: 3 frames`
fn message_line(time: u64, task: &str, text: &str) -> String {
    // A message is always a line of the task that sent it.
    let shown =
        |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() };
    let text: String = text.chars().map(shown).collect();
    format!("{:>4}.{:06} s {task:<14} {text}\n", time / 1_000_000_000, time / 1_000 % 1_000_000)
}

//! `cargo xtask trace`: views of the last run.

use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, Subcommand, ValueHint};
use fusee_manifest::trace::{Message, Said, Trace};
use fusee_manifest::{Manifest, Resolved, Time};
use fusee_views::picture::{Drawing, LEAST_WIDTH, WIDTH};
use fusee_views::schedule::Schedule;

use crate::passed::LOOKS;
use crate::{explain, stream, values};
use fusee_host::defmt::{self, Speakers};
use fusee_host::project::{Project, program};
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
    /// Write the trace for Perfetto.
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write what LITMUS^RT has records for in the format of its `sched_trace`.
    #[arg(long, value_name = "FILE")]
    litmus: Option<PathBuf>,
    /// Write what paths of the kernel took at most, in microseconds, as SchedCAT reads it.
    #[arg(long, value_name = "FILE")]
    overheads: Option<PathBuf>,
}

#[derive(Subcommand)]
enum View {
    /// Says where the time of a job went, to the nanosecond
    Explain(explain::ExplainArguments),
}

/// The package of the program that draws pictures in pixels, which is built when one is first asked for.
const RASTER: &str = "fusee-raster";

/// Pictures of a schedule.
#[derive(Args)]
pub struct Pictures {
    /// Draw the schedule.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Draw it in pixels.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Where the picture begins; unless told otherwise at the first release.
    #[arg(long, value_parser = values::time)]
    from: Option<Time>,
    /// Where the picture ends.
    #[arg(long, value_parser = values::time)]
    until: Option<Time>,
    /// How wide it is, in pixels, 300 to 20000. Letters are as large in a narrow one.
    #[arg(long, default_value_t = WIDTH, value_parser = clap::value_parser!(u64).range(LEAST_WIDTH..=20_000))]
    width: u64,
}

impl Pictures {
    /// Whether there is one to draw.
    pub fn any(&self) -> bool {
        self.svg.is_some() || self.png.is_some()
    }

    /// Draws what is asked for, and says which files these are.
    pub fn draw(&self, trace: &Trace, manifest: &Manifest, title: &str) -> Result<Vec<PathBuf>> {
        if !self.any() {
            ensure!(self.from.is_none() && self.until.is_none(), "`--from` and `--until` are for `--svg` and `--png`");
            return Ok(Vec::new());
        }
        let schedule = Schedule::of(trace, &manifest.system);
        let window = self.window(&schedule.window(manifest.system.start));
        ensure!(window.start < window.end, "the picture would end before it begins");
        let drawing = Drawing { title, window, width: self.width };
        let svg = schedule.picture(&manifest.system, &drawing);
        let mut written = Vec::new();
        if let Some(path) = &self.svg {
            system::write(path, svg.as_bytes())?;
            written.push(path.clone());
        }
        if let Some(path) = &self.png {
            let draft = path.with_extension("svg.draft");
            system::write(&draft, svg.as_bytes())?;
            let drawn = Command::new(program(RASTER)?).arg(&draft).arg(path).status();
            std::fs::remove_file(&draft)?;
            ensure!(drawn.context("`fusee-raster` does not start")?.success(), "no picture: {}", path.display());
            written.push(path.clone());
        }
        Ok(written)
    }

    /// The part to be drawn; what is not asked for is as `all` says.
    fn window(&self, all: &Range<u64>) -> Range<u64> {
        let from = self.from.map_or(all.start, |from| from.0);
        let length = all.end - all.start;
        from..self.until.map_or(from + length, |until| until.0)
    }
}

/// Shows what is asked for of the last run; `false`: there is no such thing.
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
        system::write(path, Schedule::of(&trace, system).page(system, &title).as_bytes())?;
        written.push(path.clone());
    }
    let exports =
        [("--perfetto", &arguments.perfetto), ("--litmus", &arguments.litmus), ("--overheads", &arguments.overheads)];
    let exports: Vec<(&str, &PathBuf)> =
        exports.iter().filter_map(|(name, path)| Some((*name, path.as_ref()?))).collect();
    if !exports.is_empty() {
        export(&exports, &trace, &manifest, &project)?;
        written.extend(exports.into_iter().map(|(_, path)| path.clone()));
    }
    written.iter().for_each(|path| words::say(&path.display().to_string()));
    if written.is_empty() { system::print_trace(&trace, &manifest, arguments.canonical) } else { Ok(true) }
}

/// Lets the program of [`LOOKS`] write files for other tools.
fn export(files: &[(&str, &PathBuf)], trace: &Trace, manifest: &Manifest, project: &Project) -> Result<()> {
    let folder = project.kept(&format!("export.{}", std::process::id()))?;
    system::keep_trace(&Project { kept_in: folder.clone(), ..project.clone() }, manifest, trace)?;
    let mut command = Command::new(program(LOOKS)?);
    command.arg("export").arg(&folder);
    for (name, path) in files {
        command.arg(name).arg(path);
    }
    let status = command.status();
    std::fs::remove_dir_all(&folder)?;
    ensure!(status.with_context(|| format!("`{LOOKS}` does not start"))?.success(), "nothing is written");
    Ok(())
}

/// An error once more, for one who owns it.
fn again(error: &anyhow::Error) -> anyhow::Error {
    anyhow!("{error:#}")
}

/// What tasks have said, a line for each message, and what is to be said of messages that are not there.
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
    // Whatever a task says, it is a line of that task.
    let shown =
        |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() };
    let text: String = text.chars().map(shown).collect();
    format!("{:>4}.{:06} s {task:<14} {text}\n", time / 1_000_000_000, time / 1_000 % 1_000_000)
}

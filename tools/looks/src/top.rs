//! `cargo xtask top`: the state of a system at the moment, while it runs: in QEMU, or on a board with its trace on a serial line.
//!
//! On a terminal the table is drawn again and again; else it is printed once, when the run ends or the line is silent.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Resolved, Time};
use fusee_views::now::Now;
use fusee_views::stream::Stream;

use crate::stream;

use fusee_host::build::Kernel;
use fusee_host::decisive::Decisive;
use fusee_host::project::Project;
use fusee_host::report;
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_host::table::Table;
use fusee_host::turns::Turns;
use fusee_host::words;
use fusee_tool::command::SystemArguments;
use fusee_tool::values;

/// Host time between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// Host seconds that a person may look.
const LIMIT: u64 = 24 * 3600;

/// Arguments of `cargo xtask top`.
#[derive(Args)]
pub struct TopArguments {
    #[command(flatten)]
    system: SystemArguments,
    /// Virtual time after which the run is ended, which is none.
    #[arg(long = "for", value_parser = values::time, conflicts_with = "stream")]
    limit: Option<Time>,
    /// Go on when a `hard` task has ended, or the last task that may shut the system down.
    #[arg(long)]
    keep_going: bool,
    /// Listen to a board that sends its trace, in place of a run: a port, or a file of what has come.
    #[arg(long, value_name = "FILE|PORT", value_hint = ValueHint::FilePath)]
    stream: Option<PathBuf>,
}

/// Shows it until it ends.
pub fn top(arguments: &TopArguments, install: bool) -> Result<bool> {
    match &arguments.stream {
        Some(port) => {
            let project = Project::here()?;
            let manifest = system::read_manifest(&project.root, &project.manifest(arguments.system.path())?)?;
            listen(port, &manifest)
        }
        None => run(arguments, install),
    }
}

fn run(arguments: &TopArguments, install: bool) -> Result<bool> {
    let board = arguments.system.board.clone();
    let workspace = Workspace { kernel: Kernel::Asked, board, ..Workspace::here(install)? };
    let path = workspace.project.manifest(arguments.system.path())?;
    let (workspace, _folder) = workspace.in_folder()?;
    let image = workspace.image(&path, arguments.system.profile.into(), arguments.system.unmanaged)?;
    let system = &image.manifest.system;
    let screen = Screen::new(system);
    let watch = |read: &dyn Fn() -> Option<Trace>| {
        if let Some(trace) = screen.is_time().then(read).flatten() {
            screen.draw(&settled(trace));
        }
    };
    let options = RunOptions {
        quantum: Turns::of(system, None).quantum,
        until: arguments.limit.map(|limit| limit.0),
        watch: Some(&watch),
        decisive: match arguments.keep_going {
            true => Vec::new(),
            false => Decisive::of(system, image.manifest.expectations.as_ref(), arguments.limit.is_some()),
        },
        ..RunOptions::quiet(LIMIT)
    };
    let run = system::run(&workspace, &image, &options)?;
    let trace = run.trace.as_ref().ok().context("the system keeps no trace: set `trace` under `[system]`")?;
    screen.end(trace);
    let seen = run.watch(trace, system);
    let (cause, words) = system::end_words(&image, &run, &seen);
    if cause.is_none() && !words.is_empty() {
        words::say(&words);
    }
    let bad = cause.map(|_| words).into_iter().chain(seen.verdict(image.manifest.expectations.as_ref()).ends);
    let bad: Vec<String> = bad.collect();
    for words in &bad {
        eprintln!("{} {words}; `cargo xtask run` says more", report::red("error:"));
    }
    Ok(bad.is_empty())
}

/// The newest records of a kernel that goes on writing, of which some may be cut or not there yet.
const UNSETTLED: usize = 1_000;

/// A trace that was read while it was written, up to the first of the newest records that is not there yet.
fn settled(mut trace: Trace) -> Trace {
    let start = trace.records.len().saturating_sub(UNSETTLED);
    let gap = trace.records[start..].windows(2).position(|pair| pair[1].number != pair[0].number + 1);
    trace.records.truncate(gap.map_or(trace.records.len(), |gap| start + gap + 1));
    trace
}

fn listen(port: &Path, manifest: &Manifest) -> Result<bool> {
    let screen = Screen::new(&manifest.system);
    let file = File::open(port).with_context(|| port.display().to_string())?;
    if file.metadata()?.is_file() {
        screen.end(&stream::receive(port, &manifest.system)?);
        return Ok(true);
    }
    let mut stream = Stream::default();
    stream::listen(file, &mut |part| {
        stream.add(part);
        if screen.is_time() {
            screen.draw(&stream.take());
        }
    });
    screen.end(&stream.take());
    Ok(true)
}

/// The present and the former contents of the screen.
struct Screen<'a> {
    system: &'a Resolved,
    now: RefCell<Now>,
    /// As it was at the last look.
    before: RefCell<Now>,
    next: Cell<Instant>,
}

impl<'a> Screen<'a> {
    fn new(system: &'a Resolved) -> Self {
        let now = Now::new(system);
        Screen { system, before: RefCell::new(now.clone()), now: RefCell::new(now), next: Cell::new(Instant::now()) }
    }

    /// Whether to draw again.
    fn is_time(&self) -> bool {
        let is_time = std::io::stdout().is_terminal() && Instant::now() >= self.next.get();
        if is_time {
            self.next.set(Instant::now() + PAUSE);
        }
        is_time
    }

    /// Draws the changes since the last look.
    fn draw(&self, trace: &Trace) {
        self.now.borrow_mut().add(&trace.records, self.system);
        let text = text(&self.now.borrow(), &self.before.borrow(), self.system);
        // From the top left corner, on an empty screen.
        let _ = write!(std::io::stdout().lock(), "\x1b[H\x1b[2J{text}");
        let _ = std::io::stdout().flush();
        self.before.replace(self.now.borrow().clone());
    }

    /// Prints the state at the end, and all used time.
    fn end(&self, trace: &Trace) {
        self.now.borrow_mut().add(&trace.records, self.system);
        words::print(&text(&self.now.borrow(), &Now::new(self.system), self.system));
    }
}

/// The table, and the engines below it. Shares are those since `before`.
pub fn text(now: &Now, before: &Now, system: &Resolved) -> String {
    let since = if before.records == 0 { system.start } else { before.time };
    let span = now.time.saturating_sub(since).max(1) as f64;
    let mut text = format!("{}, {:.3} ms", system.name, now.time as f64 / 1e6);
    if now.missing() > 0 {
        let _ = write!(text, "; {} records are missing", now.missing());
    }
    text.push('\n');
    let header = ["task", "does", "CPU %", "paid %", "of", "job", "missed", "latest ms"];
    let mut table = Table::new(header).left(&["does"]).amounts(&["job", "missed"]).bad(&["missed"]);
    for (index, task) in system.tasks.iter().enumerate() {
        let ((ran, charged), earlier) = (now.times(index, system), before.times(index, system));
        let share = |amount: u64, earlier: u64| format!("{:.1}", amount.saturating_sub(earlier) as f64 * 100.0 / span);
        let own = task.reservation.and_then(|own| system.reservations.get(own)).filter(|own| own.budget < own.period);
        let (paid, of) = match own {
            Some(own) => (share(charged, earlier.1), format!("{:.1}", own.budget as f64 * 100.0 / own.period as f64)),
            None => (String::new(), String::new()),
        };
        let state = &now.tasks[index];
        table.add_row([
            task.name.clone(),
            now.state(index, system).words(index, system),
            share(ran, earlier.0),
            paid,
            of,
            state.job.to_string(),
            state.misses.to_string(),
            state.latest.map_or_else(String::new, |latest| format!("{:.3}", latest as f64 / 1e6)),
        ]);
    }
    let _ = writeln!(text, "{table}");
    for ((name, _), engine) in system.engines.iter().zip(&now.engines) {
        let name_of = |task: &usize| system.tasks.get(*task).map_or("?", |task| task.name.as_str());
        let user = match (&engine.user, engine.is_draining) {
            (None, _) => "free".to_owned(),
            (Some(user), false) => format!("held by {}", name_of(user)),
            (Some(user), true) => format!("busy for {}, given back", name_of(user)),
        };
        let waiters: Vec<&str> = engine.waiters.iter().map(name_of).collect();
        let wanted = if waiters.is_empty() { String::new() } else { format!(", wanted by {}", waiters.join(", ")) };
        let _ = writeln!(text, "{name}: {user}{wanted}");
    }
    text
}

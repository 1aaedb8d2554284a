//! `cargo xtask trace`: views of the last run.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand, ValueHint};
use fusee_abi::trace::TEXT_BYTES;
use fusee_manifest::trace::{Message, Trace};
use fusee_manifest::{Manifest, Profile, Resolved, Time};
use fusee_views::overheads::Overheads;
use fusee_views::picture::{Drawing, LEAST_WIDTH, WIDTH};
use fusee_views::schedule::Schedule;
use fusee_views::{litmus, perfetto, raster};

use crate::build::{Builder, Kernel};
use crate::project::Project;
use crate::system::{RunOptions, Workspace};
use crate::{demo, explain, simulate, system};

#[derive(Args)]
pub struct TraceArguments {
    /// What to show in place of the records.
    #[command(subcommand)]
    view: Option<View>,
    /// Print the canonical form, in which a run in QEMU and one in the simulator can be compared.
    #[arg(long)]
    canonical: bool,
    /// Print what tasks have said by the macros of the crate `log`.
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
    #[arg(long, value_parser = simulate::time)]
    from: Option<Time>,
    /// Where the picture ends.
    #[arg(long, value_parser = simulate::time)]
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
            write(path, svg.as_bytes())?;
            written.push(path.clone());
        }
        if let Some(path) = &self.png {
            write(path, &raster::png(&svg)?)?;
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

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// Shows what is asked for of the last run; `false`: there is no such thing.
pub fn trace(arguments: &TraceArguments) -> Result<bool> {
    let project = Project::here()?;
    let (trace, manifest) = system::last_trace(&project).context("no run to show; try `cargo xtask run`")?;
    let system = &manifest.system;
    eprintln!("the last run: system `{}`", system.name);
    if let Some(View::Explain(arguments)) = &arguments.view {
        return explain::explain(arguments, &trace, &manifest, &system::last_turns(&project)?);
    }
    if arguments.messages {
        trace.messages().iter().for_each(|message| println!("{}", message_line(message, system)));
        return Ok(true);
    }
    let mut written = arguments.pictures.draw(&trace, &manifest, &system.name)?;
    let files = [&arguments.html, &arguments.perfetto, &arguments.litmus, &arguments.overheads];
    for (number, path) in files.into_iter().enumerate() {
        let Some(path) = path else { continue };
        let bytes = match number {
            0 => Schedule::of(&trace, system).page(system, &system.name).into_bytes(),
            1 => perfetto::perfetto(&trace, system),
            2 => litmus::write(&litmus::records(&trace, system)),
            _ => {
                let overheads = Overheads::of(&trace, system);
                print!("{}", overheads.summary());
                overheads.csv().into_bytes()
            }
        };
        write(path, &bytes)?;
        written.push(path.clone());
    }
    written.iter().for_each(|path| println!("{}", path.display()));
    if written.is_empty() { system::print_trace(&trace, &manifest, arguments.canonical) } else { Ok(true) }
}

/// `     0.012345 s camera         INFO src/main.rs:7: 3 frames`
fn message_line(message: &Message, system: &Resolved) -> String {
    let task = usize::from(message.thread).checked_sub(1).and_then(|index| system.tasks.get(index));
    let name = task.map_or("?", |task| task.name.as_str());
    format!("{:>4}.{:06} s {name:<14} {}", message.time / 1_000_000_000, message.time / 1_000 % 1_000_000, message.text)
}

/// The name of the check of messages.
pub const MESSAGES: &str = "what tasks say by the crate `log` is in the trace";

/// A task that says something.
const TALKER: &str = r#"
[system]
name = "talker"
board = "virt"
cpus = 1
trace = "marks"
[tasks.talker]
binary = "apps/talker"
handles = { system = "system: shutdown" }
"#;

/// Messages come back as they were said, with their lines; what is not as it should be.
pub fn check_messages(workspace: &Workspace) -> Result<Vec<String>> {
    let source = "userland/apps/src/bin/talker.rs";
    let text = std::fs::read_to_string(workspace.root.join(source)).context(source)?;
    let place = |level: &str| {
        let line = text.lines().position(|line| line.contains(&format!("log::{}!", level.to_lowercase())));
        format!("{level} {source}:{}: ", line.map_or(0, |index| index + 1))
    };
    let manifest = Manifest::parse(Path::new("talker.toml"), TALKER)?;
    let builder = Builder { kernel: Kernel::Asked, ..workspace.builder() };
    let programs = builder.programs(&[&manifest.system])?;
    let image = workspace.image_of(manifest, programs, Profile::Det, false)?;
    let options = RunOptions { echo: false, seconds: 60, quantum: 10, arguments: Vec::new(), until: None };
    let trace = system::run(workspace, &image, &options)?.trace?;
    let said: Vec<String> = trace.messages().into_iter().map(|message| message.text).collect();
    let mut long = format!("{}{:600}", place("WARN"), "too long");
    long.truncate(TEXT_BYTES);
    let expected = [place("INFO") + "1 of 2", long, place("ERROR") + "the last"];
    Ok(if said == expected { Vec::new() } else { vec![format!("{said:?}, not {expected:?}")] })
}

//--- The picture of the README

/// Where it is.
pub const PICTURE: &str = "docs/schedule.svg";
/// The page that shows it, and the command that draws it.
const PAGE: &str = "README.md";
const DRAWN_BY: &str = "<!-- drawn by: cargo xtask ";

/// The picture is what the command in the page draws, twice; what is wrong.
pub fn check_picture(root: &Path) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let command = page.split_once(DRAWN_BY).and_then(|(_, rest)| rest.split_once(" -->")).map(|(command, _)| command);
    let command = command.with_context(|| format!("{PAGE} has no `{DRAWN_BY}...`"))?;
    ensure!(command.split_whitespace().any(|word| word == PICTURE), "`{command}` does not draw {PICTURE}");
    let kept = std::fs::read_to_string(root.join(PICTURE)).context(PICTURE)?;
    let mut problems = Vec::new();
    for number in 1..=2 {
        let path = root.join(format!("target/fusee/picture-{number}.svg"));
        std::fs::create_dir_all(path.parent().unwrap_or(root))?;
        let words =
            command.split_whitespace().map(|word| if word == PICTURE { path.as_os_str() } else { word.as_ref() });
        let output = Command::new(std::env::current_exe()?).args(words).current_dir(root).output()?;
        ensure!(output.status.success(), "`{command}` failed: {}", String::from_utf8_lossy(&output.stderr).trim_end());
        if std::fs::read_to_string(&path)? != kept {
            problems.push(format!("{PICTURE} is not what `cargo xtask {command}` draws: {}", path.display()));
        }
    }
    Ok(problems)
}

//--- Pages in a browser

/// Names under which Chromium is installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The browser of this machine, if it has one.
pub fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success()))
}

/// The page of a simulated demo in a browser: it reads all slices, finds a job, and says so of one that is not there; what is wrong.
pub fn check_page(root: &Path, browser: &str) -> Result<Vec<String>> {
    let manifest = system::read_manifest(root, Path::new(demo::MANIFEST))?;
    let report = fusee_simulator::simulate(&manifest, None, 300_000_000)?;
    let schedule = Schedule::of(&Trace::from_records(report.records), &manifest.system);
    let folder = root.join("target/fusee");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("page.html");
    std::fs::write(&path, schedule.page(&manifest.system, &manifest.system.name))?;
    let job = schedule.jobs.iter().rfind(|job| job.completed.is_some()).context("no job is complete")?;
    let named = |number: u32| format!("{}#{number}", manifest.system.tasks[job.task].name);
    let micros = |time: u64| format!("{}.{:03} us", time / 1_000, time % 1_000);
    let slices = schedule.slices();
    let expected = [
        (String::new(), format!("{slices} slices read")),
        (format!("#{}", named(job.number)), format!("{}: released at {}", named(job.number), micros(job.release))),
        (format!("#{}", named(9_999_999)), format!("no job {}; its jobs are", named(9_999_999))),
    ];
    let mut problems = Vec::new();
    for (place, expected) in expected {
        let url = format!("file://{}{place}", path.display());
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", &url])
            .output()
            .with_context(|| browser.to_owned())?;
        let page = String::from_utf8_lossy(&output.stdout);
        let status = page.split_once("<output id=\"status\"").and_then(|(_, rest)| rest.split_once("</output>"));
        let status = status.map_or("nothing", |(status, _)| status);
        if !(status.contains(&expected) && status.contains(&format!("data-slices=\"{slices}\""))) {
            problems.push(format!("the page at `{place}` says {status}, not {expected}"));
        }
    }
    Ok(problems)
}

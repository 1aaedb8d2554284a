//! `cargo xtask trace`: views of the last run.

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand, ValueHint};
use fusee_abi::trace::{DEFMT_BYTES, TEXT_BYTES};
use fusee_manifest::trace::{Message, Said, Trace};
use fusee_manifest::{Manifest, Profile, Resolved, Time};
use fusee_views::overheads::Overheads;
use fusee_views::picture::{Drawing, LEAST_WIDTH, WIDTH};
use fusee_views::schedule::Schedule;
use fusee_views::{litmus, perfetto, raster};

use crate::defmt::{self, Speakers, Tables};
use crate::project::Project;
use crate::system::{RunOptions, Workspace};
use crate::{browser, demo, explain, report, simulate, stream, system};

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
            system::write(path, svg.as_bytes())?;
            written.push(path.clone());
        }
        if let Some(path) = &self.png {
            system::write(path, &raster::png(&svg)?)?;
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
    let (trace, manifest, turns) = match &arguments.stream {
        None => {
            let (trace, manifest) = system::last_trace(&project).context("no run to show; try `cargo xtask run`")?;
            eprintln!("the last run: system `{}`", manifest.system.name);
            (trace, manifest, system::last_turns(&project)?)
        }
        Some(from) => {
            let manifest = match &arguments.manifest {
                Some(path) => system::read_manifest(&project.root, path)?,
                None => system::last_manifest(&project).context("say of which system it is by `--manifest`")?,
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
            _ => system::last_tables(&project)?,
        };
        let (lines, notes) = message_lines(&trace, system, &mut Speakers::new(tables, &project.root));
        // A closed pipe (`| head`) is no error.
        let _ = std::io::stdout().lock().write_all(lines.concat().as_bytes());
        notes.iter().for_each(|note| eprintln!("{} {note}", report::yellow("note:")));
        return Ok(true);
    }
    let mut written = arguments.pictures.draw(&trace, &manifest, &title)?;
    let files = [&arguments.html, &arguments.perfetto, &arguments.litmus, &arguments.overheads];
    for (number, path) in files.into_iter().enumerate() {
        let Some(path) = path else { continue };
        let bytes = match number {
            0 => Schedule::of(&trace, system).page(system, &title).into_bytes(),
            1 => perfetto::perfetto(&trace, system),
            2 => litmus::write(&litmus::records(&trace, system)),
            _ => {
                let overheads = Overheads::of(&trace, system);
                print!("{}", overheads.summary());
                overheads.csv().into_bytes()
            }
        };
        system::write(path, &bytes)?;
        written.push(path.clone());
    }
    written.iter().for_each(|path| println!("{}", path.display()));
    if written.is_empty() { system::print_trace(&trace, &manifest, arguments.canonical) } else { Ok(true) }
}

/// What tasks have said, a line for each message, and what is to be said of messages that are not there.
fn message_lines(trace: &Trace, system: &Resolved, speakers: &mut Speakers) -> (Vec<String>, Vec<String>) {
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

/// The name of the check of messages.
pub const MESSAGES: &str = "what tasks say by the crate `log` is in the trace";

/// A system of nothing but a task that says something and ends it.
fn alone(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or(program);
    format!(
        "[system]\nname = \"{name}\"\nboard = \"virt\"\ncpus = 1\ntrace = \"marks\"\n\
         [tasks.{name}]\nbinary = \"{program}\"\nhandles = {{ system = \"system: shutdown\" }}\n"
    )
}

/// Messages come back as they were said, with their lines; what is not as it should be.
pub fn check_messages(workspace: &Workspace) -> Result<Vec<String>> {
    let source = "userland/apps/src/bin/talker.rs";
    let text = std::fs::read_to_string(workspace.root.join(source)).context(source)?;
    let place = |level: &str| {
        let line = text.lines().position(|line| line.contains(&format!("log::{}!", level.to_lowercase())));
        format!("{level} {source}:{}: ", line.map_or(0, |index| index + 1))
    };
    let image = workspace.image_as_asked("talker.toml", &alone("apps/talker"), Profile::Det)?;
    let trace = system::run(workspace, &image, &RunOptions::quiet(60))?.trace?;
    let texts = trace.messages().all.into_iter().filter_map(|message| match message.said {
        Said::Text(text) => Some(text),
        Said::Frame(_) => None,
    });
    let said: Vec<String> = texts.collect();
    let mut long = format!("{}{:600}", place("WARN"), "too long");
    long.truncate(TEXT_BYTES);
    let expected = [place("INFO") + "1 of 2", long, place("ERROR") + "the last"];
    Ok(if said == expected { Vec::new() } else { vec![format!("{said:?}, not {expected:?}")] })
}

/// The name of the check of messages by `defmt`.
pub const DEFMT: &str = "what tasks say by the crate `defmt` is in the trace";

/// What it says: in which line of its source, and with which level.
const SPOKEN: [(&str, &str, &str); 11] = [
    ("beside", "INFO ", "beside log"),
    ("begins", "INFO ", "begins"),
    ("\"integers", "INFO ", "integers 7 18446744073709551615 -1 340282366920938463463374607431768211455"),
    ("\"hex", "INFO ", "hex 0x0000beef, binary 00000101, bits 3"),
    ("\"text {} and", "INFO ", "text Grüße and interned, x"),
    ("\"slices", "INFO ", "slices [1, 2] [ab, 00] [Some(1), None]"),
    (
        "\"nested",
        "WARN ",
        "nested [Axis { name: \"roll\", degrees: -12, faults: None }, Axis { name: \"pitch\", degrees: 3, faults: Some(Stuck) }, \
         Axis { name: \"yaw\", degrees: 0, faults: Some(Slips { by: 40 }) }]",
    ),
    ("\"float", "WARN ", "float 1.5 true, by core    1, ()"),
    ("println", "", "without level"),
    ("LONG);", "ERROR ", "too long: "),
    ("the last", "ERROR ", "the last"),
];

/// Messages by `defmt` come back as they were said, with their lines, by the program's own table only, and take fewer instructions than
/// those of `log`; what is not as it should be.
pub fn check_defmt(workspace: &Workspace) -> Result<Vec<String>> {
    let source = "userland/speaker/src/main.rs";
    let text = std::fs::read_to_string(workspace.root.join(source)).context(source)?;
    let image = workspace.image_as_asked("speaker.toml", &alone("speaker/speaker"), Profile::Det)?;
    let trace = system::run(workspace, &image, &RunOptions::quiet(60))?.trace?;
    let lines = |tables: Tables| {
        let mut speakers = Speakers::new(tables, &workspace.root);
        let (mut lines, notes) = message_lines(&trace, &image.manifest.system, &mut speakers);
        // Those that are measured say nothing new.
        lines.retain(|line| ![": two numbers: ", ": text: "].iter().any(|text| line.contains(text)));
        (lines, notes)
    };
    let tables = defmt::tables(&image.programs)?;
    let mut problems = Vec::new();

    let (said, notes) = lines(tables.clone());
    problems.extend(notes);
    for (index, (marker, level, words)) in SPOKEN.iter().enumerate() {
        let line = text.lines().position(|line| line.contains(marker)).map_or(0, |index| index + 1);
        let mut expected = format!(" speaker        {level}{source}:{line}: {words}");
        if *marker == "LONG);" {
            // Two bytes each are the numbers of the text and of the argument's type, four the argument's length.
            expected += &("x".repeat(DEFMT_BYTES - 8) + " [cut]");
        }
        if said.get(index).is_none_or(|said| !said.trim_end().ends_with(&expected)) {
            problems.push(format!("{:?}, not {expected:?}", said.get(index)));
        }
    }
    if said.len() != SPOKEN.len() {
        problems.push(format!("{} messages, not {}", said.len(), SPOKEN.len()));
    }

    let (raw, notes) = lines(tables.iter().map(|(name, program)| (name.clone(), program.of_another_build())).collect());
    let lengths = raw.iter().filter(|line| line.trim_end().ends_with(" of `defmt`")).count();
    if lengths < SPOKEN.len() - 1 || !matches!(&notes[..], [note] if note.contains("built anew")) {
        problems.push(format!("of another build there are {lengths} lengths, and the notes {notes:?}"));
    }
    let (_, notes) = lines(Tables::new());
    if !matches!(&notes[..], [note] if note.contains("no table")) {
        problems.push(format!("without a table the notes are {notes:?}"));
    }

    let ticks: Vec<u64> = trace.logs().map(|(_, _, ticks)| ticks).collect();
    let [log_numbers, defmt_numbers, log_text, defmt_text] = ticks[..] else {
        problems.push(format!("measured: {ticks:?}"));
        return Ok(problems);
    };
    if defmt_numbers >= log_numbers || defmt_text >= log_text {
        problems.push(format!("`defmt` is no shorter than `log`: {ticks:?} ticks"));
    }
    Ok(problems)
}

//--- The pictures of the README

/// The name of the check.
pub const PICTURES: &str = "the README's pictures are what its commands draw";
/// The page that shows them, wide and narrow, and the commands that draw them.
const PAGE: &str = "README.md";
const DRAWN_BY: &str = "<!-- drawn by: cargo xtask ";
/// After it a command says which file it draws.
const DRAWS: &str = "--svg";

/// Each picture is what its command in the page draws, twice; what is wrong.
pub fn check_pictures(root: &Path) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let commands: Vec<&str> = page.split(DRAWN_BY).skip(1).filter_map(|rest| rest.split(" -->").next()).collect();
    ensure!(!commands.is_empty(), "{PAGE} has no `{DRAWN_BY}...`");
    let mut problems = Vec::new();
    for command in commands {
        let drawn = command.split_whitespace().skip_while(|word| *word != DRAWS).nth(1);
        let drawn = drawn.with_context(|| format!("`{command}` draws nothing: it has no `{DRAWS}`"))?;
        let kept = std::fs::read_to_string(root.join(drawn)).with_context(|| drawn.to_owned())?;
        for number in 1..=2 {
            let path = root.join(format!("target/fusee/picture-{number}.svg"));
            let words =
                command.split_whitespace().map(|word| if word == drawn { path.as_os_str() } else { word.as_ref() });
            let output = Command::new(std::env::current_exe()?).args(words).current_dir(root).output()?;
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "`{command}` failed: {}", errors.trim_end());
            if std::fs::read_to_string(&path)? != kept {
                problems.push(format!("{drawn} is not what `cargo xtask {command}` draws: {}", path.display()));
            }
        }
    }
    Ok(problems)
}

//--- The page in a browser

/// The name of the check.
pub const PAGE_CHECK: &str = "the page of a trace, in a browser";

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
    let micros = |time: u64| report::microseconds(time) + " us";
    let slices = schedule.slices();
    let expected = [
        (String::new(), format!("{slices} slices read")),
        (format!("#{}", named(job.number)), format!("{}: released at {}", named(job.number), micros(job.release))),
        (format!("#{}", named(9_999_999)), format!("no job {}; its jobs are", named(9_999_999))),
    ];
    let mut problems = Vec::new();
    for (place, expected) in expected {
        let url = format!("file://{}{place}", path.display());
        let page = browser::document(browser, &url)?;
        let status = page.split_once("<output id=\"status\"").and_then(|(_, rest)| rest.split_once("</output>"));
        let status = status.map_or("nothing", |(status, _)| status);
        if !(status.contains(&expected) && status.contains(&format!("data-slices=\"{slices}\""))) {
            problems.push(format!("the page at `{place}` says {status}, not {expected}"));
        }
    }
    Ok(problems)
}

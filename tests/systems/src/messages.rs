//! Messages of tasks in the trace, and the pictures of traces.

use std::path::Path;
use std::process::Command;

use crate::AS_TOOL;
use crate::browser;
use anyhow::{Context, Result, ensure};
use demo_judge as demo;
use fusee_abi::trace::{DEFMT_BYTES, TEXT_BYTES};
use fusee_host::defmt::{self, Speakers, Tables};
use fusee_host::report;
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_looks::trace::message_lines;
use fusee_manifest::Profile;
use fusee_manifest::trace::{Said, Trace};
use fusee_pictures::page::{page, slices};
use fusee_views::schedule::Schedule;

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

/// Messages come back as they were said, with their lines. Returns the faults.
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

/// The messages: their places in the source, their texts, and their levels.
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
/// those of `log`. Returns the faults.
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

/// Each picture is the one that its command in the page draws, twice. Returns the faults.
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
            let mut tool = Command::new(std::env::current_exe()?);
            let output = tool.args(words).current_dir(root).env(AS_TOOL, "1").output()?;
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

/// The page of a simulated demo in a browser: it reads all slices, finds a job, and says so of one that is not there. Returns the faults.
pub fn check_page(root: &Path, browser: &str) -> Result<Vec<String>> {
    let manifest = system::read_manifest(root, Path::new(demo::MANIFEST))?;
    let report = fusee_simulator::simulate(&manifest, None, 300_000_000)?;
    let schedule = Schedule::of(&Trace::from_records(report.records), &manifest.system);
    let folder = root.join("target/fusee");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("page.html");
    std::fs::write(&path, page(&schedule, &manifest.system, &manifest.system.name))?;
    let job = schedule.jobs.iter().rfind(|job| job.completed.is_some()).context("no job is complete")?;
    let named = |number: u32| format!("{}#{number}", manifest.system.tasks[job.task].name);
    let micros = |time: u64| report::microseconds(time) + " us";
    let slices = slices(&schedule);
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

//! Runs as people have them: long ones, with a manifest that is edited meanwhile, ended from outside, into a full disk.
//!
//! Not here: two at once, and runs that are killed (`fusee_research::runs`), of which a share is drawn here.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use fusee_host::project::KEPT_DIR;
use fusee_host::workspace::Workspace;
use fusee_research::runs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::case::Found;
use crate::command::as_tool;

/// Name of the check.
pub const CHECK: &str = "runs that are long, at once or ended from outside are what is said of them";

/// A hard task misses in the first 50 ms; the records of that are overwritten after some 3 s.
const FORGETS: &str = r#"
policy = "FP"
admission = "warn"
[tasks.boot]
script = ["burn 40ms"]
period = "1000s"
budget = "50ms"
priority = 1
[tasks.brake]
script = ["burn 10us"]
period = "200us"
budget = "50us"
priority = 2
hard = true
"#;
/// The hard task's only job is not complete when its deadline passes, and goes on; others fill the trace.
const OVERDUE: &str = r#"
admission = "warn"
[tasks.slow]
script = ["burn 100s"]
period = "1000s"
deadline = "20ms"
budget = "1ms"
hard = true
[tasks.fast]
script = ["burn 10us"]
period = "200us"
budget = "50us"
"#;
/// A server is ended in the first millisecond.
const STOPPED: &str = r#"
admission = "warn"
[endpoints.e]
server = "server"
[tasks.server]
script = ["serve e"]
handles = { e = "endpoint e: receive" }
class = "service"
period = "10ms"
budget = "1ms"
[tasks.ends]
script = ["stop server"]
handles = { server = "task server: stop" }
period = "1000s"
budget = "1ms"
[tasks.fast]
script = ["burn 10us"]
period = "200us"
budget = "50us"
hard = true
"#;
/// All that it does is done after a millisecond.
const QUIET: &str = r#"
[tasks.daily]
script = ["burn 1ms"]
period = "90000s"
deadline = "20ms"
budget = "2ms"
"#;
/// Two tasks of which each is the other after an edit.
const EDITED: &str = r#"
[tasks.brake]
script = ["burn 1ms"]
period = "10ms"
budget = "2ms"
[tasks.radio]
script = ["burn 3ms"]
period = "20ms"
budget = "4ms"
"#;

/// Checks them all.
///
/// # Errors
/// A run that could not be tried.
pub fn check(workspace: &Workspace) -> Result<Found> {
    let here = Here::of(workspace)?;
    let mut problems = Vec::new();
    for text in [FORGETS, OVERDUE, STOPPED] {
        problems.extend(here.long(text)?);
    }
    problems.extend(here.edited()?);
    problems.extend(here.ended()?);
    problems.extend(here.refused()?);
    problems.extend(here.noted()?);
    let (words, wrong) = runs::check(&here.folder.join("drawn"))?;
    problems.extend(wrong);
    Ok(Found::with_words(words, problems))
}

/// Where runs are made, and all that is kept of them.
pub struct Here {
    root: PathBuf,
    folder: PathBuf,
}

/// The end of a command, and its output.
struct Ended {
    code: Option<i32>,
    text: String,
}

impl Here {
    /// An empty folder of the workspace.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn of(workspace: &Workspace) -> Result<Here> {
        let folder = workspace.project.kept_in.clone();
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(Here { root: workspace.root.clone(), folder })
    }

    /// The path of the manifest NAME.toml.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub fn manifest_path(&self, name: &str) -> Result<String> {
        Ok(self.folder.join(format!("{name}.toml")).to_str().context("not UTF-8")?.to_owned())
    }

    /// Adds a problem unless a command ends with `code` and prints `words`.
    ///
    /// # Errors
    /// The command does not start.
    pub fn expect(&self, problems: &mut Vec<String>, arguments: &[&str], code: i32, words: &str) -> Result<()> {
        let ended = self.run(arguments)?;
        if ended.code != Some(code) || !ended.text.contains(words) {
            problems.push(format!("{arguments:?} ends with {:?}, without `{words}`: {}", ended.code, ended.text));
        }
        Ok(())
    }

    /// Writes the manifest of a system on one CPU, with `more` keys and tables, to NAME.toml: the path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn manifest(&self, name: &str, more: &str) -> Result<String> {
        let path = self.manifest_path(name)?;
        let text = format!("[system]\nname = \"system\"\nboard = \"virt\"\ncpus = 1\nstart = \"10ms\"\n{more}");
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// A command of the tool, in this repository, with all that it keeps in the folder.
    ///
    /// # Errors
    /// The program does not know where it is.
    pub fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = as_tool()?;
        command.args(arguments).current_dir(&self.root).env(KEPT_DIR, &self.folder).stdin(Stdio::null());
        Ok(command)
    }

    fn start(&self, arguments: &[&str]) -> Result<Child> {
        self.command(arguments)?.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("it does not start")
    }

    fn run(&self, arguments: &[&str]) -> Result<Ended> {
        finish(self.start(arguments)?)
    }

    /// The JSON that a command prints.
    ///
    /// # Errors
    /// It prints something else.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        let output = self.command(arguments)?.output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).with_context(|| format!("{arguments:?} prints no JSON: {said}"))
    }

    /// A run with its first records overwritten is judged as its simulation is, of which all is seen, at each level of the trace.
    fn long(&self, text: &str) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let path = self.manifest("long", text)?;
        let simulated = self.json(&["simulate", "--manifest", &path, "--json", "--for", "4s"])?;
        ensure!(simulated["verdict"]["good"] == false, "a simulation of this is to be red: {simulated}");
        for level in ["schedule", "marks", "off"] {
            let run = self.json(&["run", "--manifest", &path, "--json", "--for", "4s", "--trace", level])?;
            ensure!(level != "schedule" || run["lost_records"].as_u64() > Some(0), "nothing is lost: {run}");
            let kinds = |run: &Value| {
                let all = run["verdict"]["problems"].as_array().into_iter().flatten();
                // Below the schedule no declaration is seen.
                let all = all.filter(|problem| problem["cause"] != "declaration");
                all.map(|problem| problem["cause"].to_string()).collect::<Vec<_>>()
            };
            if run["verdict"]["good"] != false || kinds(&run) != kinds(&simulated) {
                problems.push(format!("{text} at {level}: {}", run["verdict"]));
            }
            let tasks = |run: &Value| run["tasks"].as_array().cloned().unwrap_or_default();
            for (seen, wanted) in tasks(&run).iter().zip(&tasks(&simulated)) {
                // Below the schedule the run ends a little later than it was asked to.
                let keys: &[&str] =
                    if level == "schedule" { &["missed", "skipped", "jobs"] } else { &["missed", "skipped"] };
                for key in keys.iter().filter(|key| seen[**key] != wanted[**key]) {
                    let (name, seen, wanted) = (&seen["name"], &seen[*key], &wanted[*key]);
                    problems.push(format!("{text} at {level}: {key} of {name} is {seen}, simulated {wanted}"));
                }
            }
        }
        Ok(problems)
    }

    /// A run is shown with the manifest that it was run with.
    fn edited(&self) -> Result<Vec<String>> {
        let path = self.manifest("edited", EDITED)?;
        let began = self.last();
        let mut child = self.start(&["run", "--manifest", &path, "--for", "2s"])?;
        let has_begun = self.begins(&mut child, began.as_deref())?;
        self.manifest("edited", &EDITED.replace("brake", "other").replace("radio", "brake"))?;
        let ended = finish(child)?;
        ensure!(has_begun && ended.code == Some(0), "the run ended with {:?}: {}", ended.code, ended.text);
        let shown = self.run(&["trace", "explain", "--worst", "brake"])?;
        let is_right = shown.text.contains("response 1.0");
        Ok(if is_right { Vec::new() } else { vec![format!("`brake` takes a millisecond: {}", shown.text)] })
    }

    /// Runs that are ended say so, and which records there are; none is shown for another.
    fn ended(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let path = self.manifest("quiet", QUIET)?;
        let ended = self.run(&["run", "--manifest", &path, "--for", "1s"])?;
        if ended.code != Some(0) || !ended.text.contains("the run ended here, as asked") {
            problems.push(format!("a quiet system does not end when asked: {}", ended.text));
        }
        let path = self.manifest("endless", EDITED)?;
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let began = self.last();
            let mut child = self.start(&["run", "--manifest", &path, "--seconds", "100"])?;
            ensure!(self.begins(&mut child, began.as_deref())?, "the run does not begin");
            // The kernel has said something once it has an image.
            signalled(&child, signal)?;
            let ended = finish(child)?;
            let is_said =
                ["the run was interrupted", "the kernel never ran"].iter().any(|words| ended.text.contains(words));
            if ended.code != Some(1) || !is_said {
                problems.push(format!("{signal:?} ends a run with {:?}: {}", ended.code, ended.text));
            }
        }
        Ok(problems)
    }

    /// A run that cannot begin, and output that is not taken, are errors of their own.
    fn refused(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let path = self.manifest("refused", EDITED)?;
        for arguments in [&["--seconds", "0"][..], &["--", "-nonsense"], &["--", "-m", "32M"]] {
            let ended = self.run(&[&["run", "--manifest", &path], arguments].concat())?;
            if ended.code != Some(1) || !ended.text.contains("the kernel never ran") {
                problems.push(format!("{arguments:?}: {}", ended.text));
            }
        }
        for arguments in [&["simulate", "--for", "100ms"][..], &["simulate", "--json", "--for", "100ms"], &["analyze"]]
        {
            let mut command = self.command(&[arguments, &["--manifest", &path]].concat())?;
            let output = command.stdout(File::create("/dev/full")?).output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            if output.status.code() != Some(1) || !said.contains("the standard output: ") {
                problems.push(format!("{arguments:?} into a full disk ends with {}: {said}", output.status));
            }
        }
        Ok(problems)
    }

    /// A declaration that does not hold is noted after a run in which nothing is late. After a simulation there is no memory to look into.
    fn noted(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let example = std::fs::read_to_string(self.root.join("docs/examples/first.toml"))?;
        let path = self.manifest_path("noted")?;
        std::fs::write(&path, example.replace("times = 2", "times = 1"))?;
        let ended = self.run(&["run", "--manifest", &path])?;
        let words = "declared: a job of `hello` calls `console` once (`times`); it did so 2 times";
        if ended.code != Some(0) || !ended.text.contains(words) {
            problems.push(format!("a second call in a job is not noted: {}", ended.text));
        }
        let path = self.manifest("simulated", EDITED)?;
        let simulated = self.run(&["simulate", "--manifest", &path, "--for", "100ms"])?;
        let dumped = self.run(&["dump"])?;
        if simulated.code != Some(0) || dumped.code != Some(1) || !dumped.text.contains("leaves no memory") {
            problems.push(format!("after a simulation `dump` says: {}", dumped.text));
        }
        Ok(problems)
    }

    /// Where the last run is kept.
    fn last(&self) -> Option<PathBuf> {
        std::fs::read_link(self.folder.join("last")).ok()
    }

    /// Waits until a run has a folder, which is not that of the run `before`; `false`: it ends first. It may have to be built, so no time is too long.
    fn begins(&self, child: &mut Child, before: Option<&Path>) -> Result<bool> {
        while child.try_wait()?.is_none() {
            if self.last().as_deref() != before {
                return Ok(true);
            }
            std::thread::yield_now();
        }
        Ok(false)
    }
}

fn signalled(child: &Child, signal: Signal) -> Result<()> {
    let process = Pid::from_raw(child.id().cast_signed()).context("no process")?;
    Ok(kill_process(process, signal)?)
}

fn finish(child: Child) -> Result<Ended> {
    let output = child.wait_with_output()?;
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    Ok(Ended { code: output.status.code(), text })
}

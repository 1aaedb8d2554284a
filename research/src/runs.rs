//! Runs in QEMU that are beside others, or killed: each is shown truly, or not at all.
//!
//! `runs-pairs` starts two runs in one checkout, and looks at the last run meanwhile. `runs-killed` kills a run at a random instant, by SIGKILL, and looks at
//! the files that are left. Systems run with counted instructions and end themselves, so the output and the files of a run are, to the last digit,
//! those of the run alone.
//!
//! # Invariants
//!
//! 1. The instant of a kill is a share of the run's work: bytes or calls of the system by which the program has read or written. No assertion is
//!    about time.
//! 2. Kept files are compared whole with those of a run that was alone: a file of another run would be seen.
//!
//! Not here: how folders of runs are made (`fusee_host::folders`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fusee_campaigns::draws::{Draws, Wrong};
use fusee_host::project::{KEPT_DIR, Project};
use fusee_simulator::workload::Source;

use crate::campaign::{Campaign, Left, Outcome};
use crate::command::as_tool;

/// Two runs at once.
pub const PAIRS: Campaign = Campaign {
    name: "runs-pairs",
    question: "Has each of two runs at once in QEMU its own verdict and its own records?",
    unit: "pairs",
    budget: 4,
    large: 200,
    block: 50,
    draw: |draws| pairs(&Here::own()?, draws),
};
/// Runs that are killed.
pub const KILLED: Campaign = Campaign {
    name: "runs-killed",
    question: "Is what a killed run in QEMU leaves whole, or named as not whole?",
    unit: "kills",
    budget: 4,
    large: 100,
    block: 50,
    draw: |draws| kills(&Here::own()?, draws),
};

/// CPU time that each job of a system computes, tenths of a millisecond. Its budget is two milliseconds: beyond that it is late.
const COMPUTES: [u64; 6] = [5, 10, 15, 30, 35, 40];
/// Names of systems: of two runs at once both may have the same.
const NAMES: [&str; 2] = ["one", "another"];
/// Looks at the last run while two are under way, at most.
const LOOKS: u32 = 8;
/// Host time after which an emulator that was killed is taken to go on.
const PATIENCE: Duration = Duration::from_secs(600);

/// Draws the suite's share of both campaigns, with all that is kept in `folder`: words for the report, and the faults.
///
/// # Errors
/// A run that could not be tried.
pub fn check(folder: &Path) -> Result<(String, Vec<String>)> {
    let here = Here::of(folder)?;
    let mut problems = Vec::new();
    for (campaign, draw) in [(PAIRS, pairs as fn(&Here, Draws) -> Result<Outcome>), (KILLED, kills)] {
        for draws in campaign.draws()? {
            problems.extend(draw(&here, draws)?.wrong.iter().map(Wrong::to_string));
        }
    }
    Ok((format!("{}; {}", Left(&[PAIRS]), Left(&[KILLED])), problems))
}

//--- Systems and commands

/// One of the systems.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct System {
    name: &'static str,
    computes: u64,
}

impl System {
    fn draw(source: &mut Source) -> System {
        System { name: source.pick(&NAMES), computes: source.pick(&COMPUTES) }
    }

    /// One task is late if it computes for too long, the other ends the system.
    fn text(self) -> String {
        let System { name, computes } = self;
        format!(
            "[system]\nname = \"{name}\"\nboard = \"virt\"\ncpus = 1\nstart = \"10ms\"\nadmission = \"warn\"\n\
             [tasks.works]\nscript = [\"burn {computes}00us\"]\nperiod = \"10ms\"\nbudget = \"2ms\"\nhard = true\n\
             [tasks.ends]\nscript = [\"sleep 150ms\", \"shutdown\"]\nhandles = {{ system = \"system: shutdown\" }}\n\
             period = \"1s\"\nbudget = \"1ms\"\n"
        )
    }
}

/// The output of a run, and the files that it kept.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Seen {
    code: Option<i32>,
    json: String,
    manifest: String,
    records: Vec<u8>,
}

/// A run that had no other beside it.
#[derive(Clone)]
struct Alone {
    seen: Seen,
    /// The output of `trace` and of `dump` for it.
    shown: [String; 2],
    /// Its bytes and calls at its end.
    done: Done,
}

/// Bytes that a program has read and written, and its calls of the system.
#[derive(Clone, Copy, Debug, Default)]
struct Done([u64; 4]);

impl Done {
    /// That of a process that goes on.
    fn of(process: u32) -> Option<Done> {
        let text = std::fs::read_to_string(format!("/proc/{process}/io")).ok()?;
        let number = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some(Done([number("rchar:")?, number("wchar:")?, number("syscr:")?, number("syscw:")?]))
    }
}

/// The views of the last run that are compared.
const VIEWS: [&str; 2] = ["trace", "dump"];

/// Where runs are made, and all that is kept of them.
struct Here {
    root: PathBuf,
    folder: PathBuf,
}

/// A run that is under way.
struct Started {
    system: System,
    child: Child,
}

impl Here {
    /// The folder of the campaigns.
    fn own() -> Result<Here> {
        Here::of(&Project::fusee()?.target.join("campaigns/runs"))
    }

    fn of(folder: &Path) -> Result<Here> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        Ok(Here { root: Project::fusee()?.root, folder: folder.to_owned() })
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = as_tool()?;
        command.args(arguments).current_dir(&self.root).env(KEPT_DIR, &self.folder).stdin(Stdio::null());
        Ok(command)
    }

    fn start(&self, system: System) -> Result<Started> {
        let path = self.folder.join(format!("{}-{}.toml", system.name, system.computes));
        std::fs::write(&path, system.text()).with_context(|| path.display().to_string())?;
        let mut command = self.command(&["run", "--json", "--manifest", path.to_str().context("not UTF-8")?])?;
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("it does not start")?;
        Ok(Started { system, child })
    }

    /// Waits for the end of a run: its output, its files, and its messages.
    fn finish(&self, started: Started) -> Result<(Seen, String)> {
        let process = started.child.id();
        let output = started.child.wait_with_output()?;
        let [json, said] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let (mut manifest, mut records) = (String::new(), Vec::new());
        if let Some(folder) = self.folder_of(process)? {
            manifest = std::fs::read_to_string(folder.join("system.toml")).unwrap_or_default();
            records = std::fs::read(folder.join("trace")).unwrap_or_default();
            ensure!(
                folder.join("whole").exists() || output.status.code().is_none(),
                "{} is not whole",
                folder.display()
            );
        }
        Ok((Seen { code: output.status.code(), json, manifest, records }, said))
    }

    /// The folder of the run of a process.
    fn folder_of(&self, process: u32) -> Result<Option<PathBuf>> {
        let runs = std::fs::read_dir(self.folder.join("runs"))?;
        let ending = format!("-{process}");
        let mut paths = runs.flatten().map(|entry| entry.path());
        Ok(paths.find(|path| path.to_string_lossy().ends_with(&ending)))
    }

    /// The last run: its process, and whether it is whole.
    fn last(&self) -> Option<(u32, bool)> {
        let folder = std::fs::read_link(self.folder.join("last")).ok()?;
        let process = folder.to_str()?.rsplit_once('-')?.1.parse().ok()?;
        Some((process, self.folder.join(folder).join("whole").exists()))
    }

    /// A view of the last run: whether there is one, and its output.
    fn show(&self, view: &str) -> Result<(Option<i32>, String, String)> {
        let output = self.command(&[view])?.output()?;
        let [text, said] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok((output.status.code(), text, said))
    }

    /// Runs a system alone, and watches its work.
    fn alone(&self, system: System) -> Result<Alone> {
        let mut started = self.start(system)?;
        let mut done = Done::default();
        while started.child.try_wait()?.is_none() {
            done = Done::of(started.child.id()).unwrap_or(done);
            std::thread::yield_now();
        }
        let (seen, said) = self.finish(started)?;
        let is_late = system.computes > 20;
        ensure!(seen.code == Some(i32::from(is_late)), "{system:?} alone ends with {:?}: {said}", seen.code);
        let mut shown = [const { String::new() }; 2];
        for (view, shown) in VIEWS.into_iter().zip(&mut shown) {
            let (code, text, said) = self.show(view)?;
            ensure!(code == Some(0), "`{view}` after {system:?} alone ends with {code:?}: {said}");
            *shown = text;
        }
        Ok(Alone { seen, shown, done })
    }
}

/// Runs of systems alone, each tried once.
#[derive(Default)]
struct References(BTreeMap<System, Alone>);

impl References {
    fn of(&mut self, here: &Here, system: System) -> Result<Alone> {
        Ok(match self.0.entry(system) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => place.insert(here.alone(system)?).clone(),
        })
    }
}

/// The difference of a run from the run alone, if there is one.
fn difference(system: System, seen: &Seen, said: &str, alone: &Seen) -> Option<String> {
    let what = match () {
        () if seen.code != alone.code => format!("ends with {:?}, alone with {:?}: {said}", seen.code, alone.code),
        () if seen.json != alone.json => format!("prints\n{}alone\n{}", seen.json, alone.json),
        () if seen.manifest != alone.manifest => format!("keeps the manifest\n{}", seen.manifest),
        () if seen.records != alone.records => {
            format!("keeps {} bytes of records, alone {}, or others", seen.records.len(), alone.records.len())
        }
        () => return None,
    };
    Some(format!("{system:?} {what}"))
}

/// Judges each number of some draws.
fn each(draws: Draws, judge: &mut dyn FnMut(u64, &mut Source) -> Result<Vec<String>>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for number in draws.first..draws.first + draws.count {
        let problems = judge(number, &mut Source::new(draws.seed, number))?;
        outcome.systems += 1;
        if !problems.is_empty() {
            outcome.wrong.push(Wrong { seed: draws.seed, number, what: problems.join("\n") });
        }
    }
    Ok(outcome)
}

/// All that is wrong, in full.
fn with_wrong(wrong: &[Wrong]) -> String {
    wrong.iter().map(|one| format!("{one}\n")).collect()
}

//--- Two at once

/// Draws pairs of runs.
fn pairs(here: &Here, draws: Draws) -> Result<Outcome> {
    let (mut references, mut looks) = (References::default(), [0_u64; 2]);
    let mut outcome = each(draws, &mut |_, source| {
        let both = [System::draw(source), System::draw(source)];
        let alone = [references.of(here, both[0])?, references.of(here, both[1])?];
        let mut problems = Vec::new();
        let before: Vec<String> = references.0.values().map(|one| one.shown[0].clone()).collect();
        let mut started = [here.start(both[0])?, here.start(both[1])?];
        // A reader meanwhile sees one whole run, or none.
        let has_ended = |one: &mut Started| one.child.try_wait().map(|status| status.is_some());
        for _ in 0..LOOKS {
            if has_ended(&mut started[0])? && has_ended(&mut started[1])? {
                break;
            }
            let (code, text, said) = here.show(VIEWS[0])?;
            let is_whole = code == Some(0) && before.contains(&text);
            let is_refused = code == Some(1) && said.contains("not whole");
            if !is_whole && !is_refused {
                problems.push(format!("while {both:?} run, `{}` ends with {code:?}: {said}{text}", VIEWS[0]));
            }
            looks[usize::from(is_whole)] += 1;
        }
        for (started, alone) in started.into_iter().zip(&alone) {
            let system = started.system;
            let (seen, said) = here.finish(started)?;
            problems.extend(difference(system, &seen, &said, &alone.seen));
        }
        Ok(problems)
    })?;
    outcome.jobs = 2 * outcome.systems;
    let [none, whole] = looks;
    outcome.report =
        format!("{} pairs; looks meanwhile: {whole} saw a whole run, {none} that one was not whole", outcome.systems);
    Ok(outcome)
}

//--- Killed

/// How far a run had come when it was killed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Stage {
    NoFolder,
    NotAnnounced,
    Announced,
    Whole,
}

impl Stage {
    fn words(self) -> &'static str {
        match self {
            Stage::NoFolder => "before it had a folder",
            Stage::NotAnnounced => "while it was built",
            Stage::Announced => "while it ran and was kept",
            Stage::Whole => "when all was kept",
        }
    }
}

/// Draws runs that are killed.
fn kills(here: &Here, draws: Draws) -> Result<Outcome> {
    let (mut references, mut stages) = (References::default(), BTreeMap::<Stage, u64>::new());
    let mut outcome = each(draws, &mut |_, source| {
        let [before, killed] = [System::draw(source), System::draw(source)];
        let before_alone = references.of(here, before)?;
        let killed_alone = references.of(here, killed)?;
        // The last run that is whole. It comes after one that was killed, and is as if nothing had been.
        let (seen, said) = here.finish(here.start(before)?)?;
        let mut problems: Vec<String> = difference(before, &seen, &said, &before_alone.seen).into_iter().collect();
        let (which, share) = (source.draw(0, 3) as usize, source.draw(0, 1_000));
        let target = killed_alone.done.0[which] * share / 1_000;
        let (process, stage) = kill(here, killed, which, target)?;
        *stages.entry(stage).or_default() += 1;
        let words = format!("{killed:?} killed {}, at {target} of counter {which}", stage.words());
        problems.extend(
            left(here, process, stage, &before_alone, &killed_alone)?.iter().map(|what| format!("{words}: {what}")),
        );
        Ok(problems)
    })?;
    outcome.jobs = outcome.systems;
    outcome.report = with_wrong(&outcome.wrong) + &format!("{} kills", outcome.systems);
    for (stage, count) in stages {
        let _ = write!(outcome.report, ", {count} {}", stage.words());
    }
    Ok(outcome)
}

/// Starts a run, and kills it once it has done so much, by one of the counters: its process, and how far it had come.
fn kill(here: &Here, system: System, which: usize, target: u64) -> Result<(u32, Stage)> {
    let mut started = here.start(system)?;
    let process = started.child.id();
    while started.child.try_wait()?.is_none() && Done::of(process).is_some_and(|done| done.0[which] < target) {
        std::thread::yield_now();
    }
    // SIGKILL; one that has just ended does not mind.
    started.child.kill()?;
    started.child.wait_with_output()?;
    let stage = match (here.folder_of(process)?, here.last()) {
        (None, _) => Stage::NoFolder,
        (Some(_), Some((last, true))) if last == process => Stage::Whole,
        (Some(_), Some((last, false))) if last == process => Stage::Announced,
        (Some(_), _) => Stage::NotAnnounced,
    };
    Ok((process, stage))
}

/// Mistakes in the output of commands after a run was killed.
fn left(here: &Here, process: u32, stage: Stage, before: &Alone, killed: &Alone) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (place, view) in VIEWS.into_iter().enumerate() {
        let (code, text, said) = here.show(view)?;
        let is_right = match stage {
            Stage::NoFolder | Stage::NotAnnounced => code == Some(0) && text == before.shown[place],
            Stage::Announced => code == Some(1) && said.contains("not whole"),
            Stage::Whole => code == Some(0) && text == killed.shown[place],
        };
        if !is_right {
            problems.push(format!("`{view}` ends with {code:?}: {said}{text}"));
        }
    }
    // The emulator ends with the process that started it.
    let until = Instant::now() + PATIENCE;
    while is_emulated(process)? {
        if Instant::now() >= until {
            bail!("the emulator of process {process}, which was killed, goes on");
        }
        std::thread::yield_now();
    }
    Ok(problems)
}

/// Whether an emulator has the memory that a process made for it.
fn is_emulated(process: u32) -> Result<bool> {
    let memory = format!("/proc/{process}/fd/");
    let commands =
        std::fs::read_dir("/proc")?.flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    Ok(commands.into_iter().any(|command| String::from_utf8_lossy(&command).contains(&memory)))
}

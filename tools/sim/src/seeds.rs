//! Runs that a seed varies: phases, execution times, the order of CPUs, crashes; and the smallest set of these that still fails.
//!
//! Each thing that is varied has its own stream of random numbers, so it is drawn in the same way whatever else is varied. A seed and a set of things
//! are therefore all that a run is a function of.
//!
//! # Limits
//!
//! Code between two calls of a program is one step. A race is found if one of its windows has a call, a [burn](fusee_simulator::Pace) or a wait in it.
//! Execution times of scripts and models are not varied.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use fusee_manifest::Manifest;
use fusee_simulator::workload::Source;
use fusee_simulator::{Options, Pace};
use toml_edit::{DocumentMut, value};

use crate::run::Run;
use crate::system::System;

/// The streams of a seed, to which the index of a task is added. The simulator has those below.
const PHASES: u64 = 1 << 33;
const CRASHES: u64 = 1 << 34;
/// Phases are multiples of this many nanoseconds.
const GRAIN: u64 = 1_000;
/// A task crashes in one run of so many.
const RARE: u64 = 3;
/// The default of [`Draws::horizon`].
const HORIZON: u64 = 100_000_000;

/// A thing that a seed varies.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Varied {
    /// The CPU whose task acts first among those that could at one instant: `order`.
    Order,
    /// The phase of a task with a period: `phase:task`. A set of phases with which the system would be refused is not used.
    Phase(String),
    /// The execution times of the jobs of a program, up to its `wcet`: `time:task`.
    Time(String),
    /// The instant at which a task that is not `hard` crashes, if it does: `crash:task`.
    Crash(String),
}

impl fmt::Display for Varied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Varied::Order => write!(f, "order"),
            Varied::Phase(task) => write!(f, "phase:{task}"),
            Varied::Time(task) => write!(f, "time:{task}"),
            Varied::Crash(task) => write!(f, "crash:{task}"),
        }
    }
}

impl FromStr for Varied {
    type Err = UnknownThing;

    fn from_str(text: &str) -> Result<Varied, UnknownThing> {
        let task = |start: &str| text.strip_prefix(start).filter(|task| !task.is_empty()).map(str::to_owned);
        let order = (text == "order").then_some(Varied::Order);
        let phase = || task("phase:").map(Varied::Phase);
        let time = || task("time:").map(Varied::Time);
        let crash = || task("crash:").map(Varied::Crash);
        order.or_else(phase).or_else(time).or_else(crash).ok_or_else(|| UnknownThing(text.to_owned()))
    }
}

/// A text that names no [`Varied`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is nothing that a seed varies: there are `order`, `phase:TASK`, `time:TASK` and `crash:TASK`")]
pub struct UnknownThing(String);

impl Varied {
    /// All things of a system that can be varied, with or without crashes.
    #[must_use]
    pub fn all(manifest: &Manifest, crashes: bool) -> BTreeSet<Varied> {
        let system = &manifest.system;
        let document = manifest.text.parse::<DocumentMut>().unwrap_or_default();
        let has_period = |name: &str| document.get("tasks").and_then(|tasks| tasks.get(name)?.get("period")).is_some();
        let mut all = BTreeSet::new();
        all.extend((system.cpus > 1).then_some(Varied::Order));
        for task in &system.tasks {
            let name = || task.name.clone();
            let is_program = task.script.is_empty() && task.model.is_empty();
            all.extend(has_period(&task.name).then(|| Varied::Phase(name())));
            all.extend((is_program && system.has_jobs(task)).then(|| Varied::Time(name())));
            all.extend((crashes && !task.hard).then(|| Varied::Crash(name())));
        }
        all
    }
}

/// A seed, and the things that it varies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Draws {
    /// The seed.
    pub seed: u64,
    /// The things.
    pub varied: BTreeSet<Varied>,
    /// Crashes fall before this instant, nanoseconds.
    pub horizon: u64,
}

/// The result of draws for one system.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The manifest, with the phases that were drawn.
    pub manifest: Manifest,
    /// The seed of the order of CPUs.
    pub order: Option<u64>,
    /// Tasks, by index, with another pace.
    pub paces: Vec<(usize, Pace)>,
    /// The instants, in nanoseconds, from which on tasks, by index, crash.
    pub crashes: Vec<(u64, usize)>,
}

impl Draws {
    /// The seed with all things in `varied`, and crashes in the first 100 ms.
    #[must_use]
    pub fn new(seed: u64, varied: BTreeSet<Varied>) -> Draws {
        Draws { seed, varied, horizon: HORIZON }
    }

    /// The names of the things, with commas between them. [`Varied::from_str`] reads each.
    #[must_use]
    pub fn listed(&self) -> String {
        self.varied.iter().map(Varied::to_string).collect::<Vec<_>>().join(",")
    }

    /// Draws for a system.
    #[must_use]
    pub fn draw(&self, manifest: &Manifest) -> Drawn {
        let tasks = manifest.system.tasks.iter().enumerate();
        let (mut paces, mut crashes) = (Vec::new(), Vec::new());
        for (index, task) in tasks {
            if self.varied.contains(&Varied::Time(task.name.clone())) {
                paces.push((index, Pace::Random(self.seed)));
            }
            if self.varied.contains(&Varied::Crash(task.name.clone())) {
                let mut source = Source::new(self.seed, CRASHES + index as u64);
                let does = source.draw(1, RARE) == 1;
                crashes.extend(does.then(|| (source.draw(0, self.horizon), index)));
            }
        }
        let manifest = self.phases(manifest).unwrap_or_else(|| manifest.clone());
        Drawn { manifest, order: self.varied.contains(&Varied::Order).then_some(self.seed), paces, crashes }
    }

    /// The manifest with other phases; `None`: it has none that are varied, or would be refused.
    fn phases(&self, manifest: &Manifest) -> Option<Manifest> {
        let mut document = manifest.text.parse::<DocumentMut>().ok()?;
        let mut has_some = false;
        for (index, task) in manifest.system.tasks.iter().enumerate() {
            let reservation = task.reservation.map(|reservation| &manifest.system.reservations[reservation]);
            let period = reservation.map_or(0, |reservation| reservation.period);
            if period >= GRAIN && self.varied.contains(&Varied::Phase(task.name.clone())) {
                let phase = Source::new(self.seed, PHASES + index as u64).draw(0, period / GRAIN - 1) * GRAIN;
                let table = document.get_mut("tasks")?.get_mut(&task.name)?.as_table_like_mut()?;
                table.insert("phase", value(format!("{}us", phase / GRAIN)));
                has_some = true;
            }
        }
        let changed = || Manifest::parse(&manifest.file, &document.to_string()).ok();
        if has_some { changed() } else { None }
    }

    /// A smaller set of things with which the run still `fails`: none of them can be left out alone.
    pub fn shrink(&self, mut fails: impl FnMut(&Draws) -> bool) -> Draws {
        let mut least = self.clone();
        let kinds: [fn(&Varied) -> bool; 4] = [
            |one| matches!(one, Varied::Crash(_)),
            |one| matches!(one, Varied::Time(_)),
            |one| matches!(one, Varied::Phase(_)),
            |one| matches!(one, Varied::Order),
        ];
        let mut attempt = |least: &mut Draws, is_left_out: &dyn Fn(&Varied) -> bool| {
            let mut fewer = least.clone();
            fewer.varied.retain(|one| !is_left_out(one));
            let smaller = fewer.varied.len() < least.varied.len() && fails(&fewer);
            if smaller {
                *least = fewer;
            }
            smaller
        };
        for kind in kinds {
            attempt(&mut least, &kind);
        }
        loop {
            let before = least.varied.len();
            for one in least.varied.clone() {
                attempt(&mut least, &|other| *other == one);
            }
            if least.varied.len() == before {
                return least;
            }
        }
    }
}

impl Drawn {
    /// The system with these draws, and the options of its simulation.
    #[must_use]
    pub fn apply(self, options: Options) -> (Manifest, Options) {
        let Drawn { manifest, order, paces, crashes } = self;
        let mut options = Options { order, ..options };
        options.hosted.paces.extend(paces);
        options.faults.extend(crashes);
        (manifest, options)
    }
}

/// A seed for which a check fails.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The fewest draws that were found for which the check fails: [`System::vary`] repeats them.
    pub draws: Draws,
    /// The failure with these draws, in words.
    pub why: String,
    /// How many seeds passed before.
    pub passed: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let varied = self.draws.listed();
        let varied = if varied.is_empty() { "nothing" } else { &varied };
        write!(f, "seed {}, which varies {varied}, fails: {}", self.draws.seed, self.why)
    }
}

impl std::error::Error for Failure {}

/// Tries `draws`, one after another, and returns how many passed. `failure` makes a run with draws and returns its failure in words.
///
/// # Errors
/// [`Failure`]: the first draws that fail, with as few varied things as still fail.
pub fn search(
    draws: impl Iterator<Item = Draws>,
    mut failure: impl FnMut(&Draws) -> Option<String>,
) -> Result<u64, Box<Failure>> {
    let mut passed = 0;
    for draws in draws {
        if failure(&draws).is_some() {
            let draws = draws.shrink(|fewer| failure(fewer).is_some());
            let why = failure(&draws).unwrap_or_else(|| "the failure does not repeat".to_owned());
            return Err(Box::new(Failure { draws, why, passed }));
        }
        passed += 1;
    }
    Ok(passed)
}

/// The result of a check of one run.
pub type Checked = Result<(), Box<dyn std::error::Error>>;

impl System {
    /// Checks a run of each seed, and returns how many passed. Phases, execution times and the order of CPUs vary. A check fails by an error or by a panic.
    ///
    /// # Errors
    /// [`Failure`]: the first seed for which the check fails. Its set of varied things is shrunk: the check passes if any one is left out.
    pub fn seeds(
        &self,
        seeds: RangeInclusive<u64>,
        check: impl FnMut(&mut Run) -> Checked,
    ) -> Result<u64, Box<Failure>> {
        self.all_seeds(seeds, false, check)
    }

    /// As [`System::seeds`]; and tasks that are not `hard` crash.
    ///
    /// # Errors
    /// [`Failure`], as of [`System::seeds`].
    pub fn seeds_with_crashes(
        &self,
        seeds: RangeInclusive<u64>,
        check: impl FnMut(&mut Run) -> Checked,
    ) -> Result<u64, Box<Failure>> {
        self.all_seeds(seeds, true, check)
    }

    fn all_seeds(
        &self,
        seeds: RangeInclusive<u64>,
        crashes: bool,
        mut check: impl FnMut(&mut Run) -> Checked,
    ) -> Result<u64, Box<Failure>> {
        let no_draws = Draws::new(*seeds.start(), BTreeSet::new());
        let varied =
            self.varied(crashes).map_err(|error| Failure { draws: no_draws, why: error.to_string(), passed: 0 })?;
        search(seeds.map(|seed| Draws::new(seed, varied.clone())), |draws| self.failure(draws, &mut check))
    }

    /// The failure of a check of the run with these draws, in words.
    fn failure(&self, draws: &Draws, check: &mut impl FnMut(&mut Run) -> Checked) -> Option<String> {
        let mut system = self.clone();
        system.vary(Some(draws.clone()));
        let mut run = match system.start() {
            Ok(run) => run,
            Err(error) => return Some(error.to_string()),
        };
        match catch_unwind(AssertUnwindSafe(|| check(&mut run))) {
            Ok(result) => result.err().map(|error| error.to_string()),
            Err(panic) => Some(words(&*panic)),
        }
    }
}

/// The words of a panic.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}

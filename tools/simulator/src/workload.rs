//! Task sets: from the numbers of a paper to a system of scripted tasks, and at random.
//!
//! A task set knows execution times, periods and deadlines; [`TaskSet::manifest`] makes the text of a system of
//! it, one that the kernel boots as any other. [`Generator`] draws task sets:
//!
//! ```text
//! uunifast,n=10,u=2.5,periods=1:2:5:10    ten tasks, 2.5 CPUs together, periods from a list (ms)
//! medium,moderate,u=3                     tasks of 10 to 40 %, periods of 33 to 100 ms, until 3 CPUs are full
//! heavy,long,n=4,deadlines=constrained    four tasks of 50 to 90 %
//! ```
//!
//! # Invariants
//!
//! 1. The same words and the same seed give the same set on every machine: all arithmetic is in integers.
//! 2. The utilisations of a set add up to the requested sum, or to at most a millionth of a CPU less.
//!
//! # Why not one power per task
//!
//! UUniFast draws uniformly from all utilisations with a given sum. So do the distances between sorted uniform
//! numbers (UUniSort, in the same paper), which need no floating point and so no library of the machine.
//!
//! Not here: spreading tasks over clusters ([`fusee_manifest::Variant`]). Source: Bini & Buttazzo, Measuring the
//! Performance of Schedulability Tests, 2005; Davis & Burns, 2011 (Discard); Elliott 2015, §4.2 (the named
//! distributions).

use std::fmt::Write;
use std::path::Path;

use fusee_kernel_core::limits;
use fusee_manifest::{Manifest, ManifestErrors, PolicyName, Variant};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::overheads::Overheads;

/// One CPU, as a utilisation: utilisations are counted in billionths of it.
pub const CPU: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

/// The excess of budgets over execution times, where there is room.
const SLACK: u64 = 1_000;
/// Releases that may queue, so that tardy tasks lose none.
const BACKLOG: u32 = 255;
/// Sets that are drawn before UUniFast-Discard gives up.
const DRAWS: u32 = 1_000_000;
/// Names of tasks are no longer than this.
const NAME: usize = 15;
/// Tasks a system may have.
const TASKS: usize = limits::THREADS;

/// One recurrent task. Times in nanoseconds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SimulatedTask {
    /// Its name.
    pub name: String,
    /// How long each job computes, `e`.
    pub execution: u64,
    /// Time between releases, `p`.
    pub period: u64,
    /// Relative deadline, `d`.
    pub deadline: u64,
    /// Fixed priority, 1 the most urgent; `None`: by deadline.
    pub priority: Option<u32>,
}

/// Tasks that share a machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TaskSet {
    /// Its name.
    pub name: String,
    /// The tasks.
    pub tasks: Vec<SimulatedTask>,
}

/// Where a task set runs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Platform {
    /// CPUs of each cluster.
    pub clusters: Vec<u32>,
    /// The policy of all clusters.
    pub policy: PolicyName,
    /// The costs of kernel paths: budgets leave room for them.
    pub overheads: Overheads,
}

impl TaskSet {
    /// Utilisation of all tasks together, in billionths of a CPU, rounded up.
    #[must_use]
    pub fn utilisation(&self) -> u64 {
        let parts = |task: &SimulatedTask| u128::from(task.execution) * FINE / u128::from(task.period.max(1));
        let sum: u128 = self.tasks.iter().map(parts).sum();
        sum.div_ceil(FINE / u128::from(CPU)) as u64
    }

    /// The longest period.
    #[must_use]
    pub fn longest_period(&self) -> u64 {
        self.tasks.iter().map(|task| task.period).max().unwrap_or(0)
    }

    /// The system of these tasks on `platform`, all released together.
    ///
    /// # Errors
    /// A number or a name that no system may have.
    pub fn system(&self, platform: &Platform) -> Result<Manifest, ManifestErrors> {
        let variant =
            Variant { policy: Some(platform.policy), clusters: Some(platform.clusters.clone()), ..Variant::default() };
        Manifest::parse_variant(Path::new(&self.name), &self.manifest(platform), &variant)
    }

    /// The fixed priority of each task: its own, or its rank by deadline.
    #[must_use]
    pub fn priorities(&self) -> Vec<u32> {
        let mut by_deadline: Vec<usize> = (0..self.tasks.len()).collect();
        by_deadline.sort_by_key(|index| self.tasks[*index].deadline);
        let mut priorities = vec![1; self.tasks.len()];
        for (rank, index) in by_deadline.into_iter().enumerate() {
            priorities[index] = self.tasks[index].priority.unwrap_or(rank as u32 + 1);
        }
        priorities
    }

    /// The text of a system of these tasks: scripts that burn. It says one cluster for all tasks; a
    /// [`Variant`] spreads them.
    #[must_use]
    pub fn manifest(&self, platform: &Platform) -> String {
        let cpus: u32 = platform.clusters.iter().sum();
        let costs = platform.overheads.sum();
        // Every task has asked for its first job by then.
        let start = (1 + self.tasks.len() as u64 * 4 * costs / MILLISECOND) * MILLISECOND;
        let mut text = String::new();
        let _ = write!(
            text,
            "[system]\nname = \"{}\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"{}\"\npolicy = \"{}\"\nadmission = \"warn\"\n",
            legal(&self.name),
            span(start),
            platform.policy.name()
        );
        for (task, priority) in self.tasks.iter().zip(self.priorities()) {
            let most = task.period.min(task.deadline);
            // Some paths of the kernel are the job's to pay, and no budget is smaller than the kernel can enforce.
            let wanted = (task.execution + SLACK + 8 * costs).max(limits::BUDGET_MIN);
            let budget = wanted.min(most.max(task.execution));
            // A budget that ends with the job would run dry just before the job says so.
            let burn = if budget == task.execution { task.execution - 1 } else { task.execution };
            let _ = write!(
                text,
                "\n[tasks.\"{}\"]\nscript = [\"burn {}\"]\nperiod = \"{}\"\ndeadline = \"{}\"\nbudget = \"{}\"\nwcet = \"{}\"\npriority = {}\nbacklog = {BACKLOG}\n",
                legal(&task.name),
                span(burn),
                span(task.period),
                span(task.deadline),
                span(budget),
                span(task.execution),
                priority
            );
        }
        text
    }
}

/// A time in the largest unit that divides it.
fn span(time: u64) -> String {
    match [(1_000_000, "ms"), (1_000, "us")].into_iter().find(|(unit, _)| time.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", time / unit),
        None => format!("{time}ns"),
    }
}

//--- At random

/// The seeded source of all that is drawn.
#[derive(Clone, Debug)]
pub struct Source(ChaCha8Rng);

impl Source {
    /// The source that `seed` names; each `stream` of it is independent of the others.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Source {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(bytes);
        generator.set_stream(stream);
        Source(generator)
    }

    /// A number from `least` to `most`, both included, all equally likely.
    pub fn draw(&mut self, least: u64, most: u64) -> u64 {
        let width = u128::from(most.saturating_sub(least)) + 1;
        least + ((u128::from(self.0.next_u64()) * width) >> 64) as u64
    }

    /// One of `these`.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.draw(0, these.len() as u64 - 1) as usize]
    }
}

/// How utilisations are drawn, in billionths of a CPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Utilisations {
    /// Uniformly from all with the given sum, none above one CPU.
    Unifast,
    /// Each uniformly between two bounds.
    Between(u64, u64),
}

/// How periods are drawn.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Periods {
    /// One of these, nanoseconds.
    Of(Vec<u64>),
    /// Whole milliseconds between two bounds.
    Milliseconds(u64, u64),
}

/// How deadlines are drawn.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Deadlines {
    /// The period.
    #[default]
    Implicit,
    /// From the execution time, or the least budget there may be, to the period.
    Constrained,
    /// From the execution time, or the least budget there may be, to twice the period.
    Arbitrary,
}

/// Draws task sets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Generator {
    /// The utilisation of each task.
    pub utilisations: Utilisations,
    /// The period of each task.
    pub periods: Periods,
    /// The deadline of each task.
    pub deadlines: Deadlines,
    /// How many tasks; `None`: until the utilisation is reached.
    pub tasks: Option<usize>,
    /// The utilisation of all tasks together, billionths of a CPU.
    pub utilisation: Option<u64>,
}

/// Why there is no such task set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WorkloadError {
    /// A word without a meaning, or without a value.
    Word(String),
    /// The word that must be there, and is not.
    Missing(&'static str),
    /// So many tasks of at most one CPU each do not have that sum, or hardly ever.
    Impossible {
        /// How many.
        tasks: usize,
        /// Their sum, billionths of a CPU.
        utilisation: u64,
    },
}

impl std::fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WorkloadError::Word(word) => write!(
                f,
                "`{word}` says nothing here; known are uunifast, light, medium, heavy, moderate, long, n=TASKS, \
                 u=CPUS, periods=MS:MS:..., deadlines=implicit|constrained|arbitrary"
            ),
            WorkloadError::Missing(what) => write!(f, "a random task set needs {what}"),
            WorkloadError::Impossible { tasks, utilisation } => {
                write!(f, "{tasks} tasks with a utilisation of {} CPUs together are not to be had", cpus(*utilisation))
            }
        }
    }
}

impl std::error::Error for WorkloadError {}

/// The periods that are drawn from unless told otherwise, milliseconds.
pub const PERIODS: [u64; 10] = [1, 2, 4, 5, 8, 10, 20, 25, 40, 50];

impl Generator {
    /// Reads words such as `medium,moderate,u=3`.
    ///
    /// # Errors
    /// [`WorkloadError`], for wrong words and for missing ones.
    pub fn parse(text: &str) -> Result<Generator, WorkloadError> {
        let mut out = Generator {
            utilisations: Utilisations::Unifast,
            periods: Periods::Of(PERIODS.map(|period| period * MILLISECOND).to_vec()),
            deadlines: Deadlines::Implicit,
            tasks: None,
            utilisation: None,
        };
        for word in text.split(',').map(str::trim) {
            out.word(word).ok_or_else(|| WorkloadError::Word(word.to_owned()))?;
        }
        match (out.utilisations, out.tasks, out.utilisation) {
            (Utilisations::Unifast, None, _) => Err(WorkloadError::Missing("n=TASKS")),
            (Utilisations::Unifast, _, None) => Err(WorkloadError::Missing("u=CPUS")),
            (_, None, None) => Err(WorkloadError::Missing("n=TASKS or u=CPUS")),
            _ => Ok(out),
        }
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let percent = |least, most| Utilisations::Between(least * CPU / 100, most * CPU / 100);
        match word.split_once('=').unwrap_or((word, "")) {
            ("uunifast", "") => self.utilisations = Utilisations::Unifast,
            ("light", "") => self.utilisations = percent(1, 10),
            ("medium", "") => self.utilisations = percent(10, 40),
            ("heavy", "") => self.utilisations = percent(50, 90),
            ("moderate", "") => self.periods = Periods::Milliseconds(33, 100),
            ("long", "") => self.periods = Periods::Milliseconds(200, 1_000),
            ("n", number) => self.tasks = Some(number.parse().ok().filter(|tasks| (1..=TASKS).contains(tasks))?),
            ("u", number) => self.utilisation = Some(parse_cpus(number).filter(|utilisation| *utilisation > 0)?),
            ("periods", list) => {
                let period = |text: &str| text.parse().ok().filter(|period| (1..=100_000).contains(period));
                let list: Option<Vec<u64>> = list.split(':').map(period).collect();
                self.periods = Periods::Of(list?.into_iter().map(|period| period * MILLISECOND).collect());
            }
            ("deadlines", "implicit") => self.deadlines = Deadlines::Implicit,
            ("deadlines", "constrained") => self.deadlines = Deadlines::Constrained,
            ("deadlines", "arbitrary") => self.deadlines = Deadlines::Arbitrary,
            _ => return None,
        }
        Some(())
    }

    /// Draws a set, with tasks `t1`, `t2` and so on.
    ///
    /// # Errors
    /// [`WorkloadError::Impossible`].
    pub fn generate(&self, source: &mut Source) -> Result<TaskSet, WorkloadError> {
        let utilisations = match self.utilisations {
            Utilisations::Unifast => {
                let (tasks, utilisation) = (self.tasks.unwrap_or(0), self.utilisation.unwrap_or(0));
                unifast(source, tasks, utilisation).ok_or(WorkloadError::Impossible { tasks, utilisation })?
            }
            Utilisations::Between(least, most) => self.between(source, least, most)?,
        };
        let periods: Vec<u64> = utilisations.iter().map(|_| self.period(source)).collect();
        let executions = executions(&utilisations, &periods);
        let tasks = executions.into_iter().zip(periods).enumerate().map(|(index, (execution, period))| {
            let least = execution.max(limits::BUDGET_MIN).min(period);
            let deadline = match self.deadlines {
                Deadlines::Implicit => period,
                Deadlines::Constrained => source.draw(least, period),
                Deadlines::Arbitrary => source.draw(least, 2 * period),
            };
            SimulatedTask { name: format!("t{}", index + 1), execution, period, deadline, priority: None }
        });
        Ok(TaskSet { name: "random".into(), tasks: tasks.collect() })
    }

    /// Draws until the number or the sum is reached; then the last gets the rest.
    fn between(&self, source: &mut Source, least: u64, most: u64) -> Result<Vec<u64>, WorkloadError> {
        let limit = self.utilisation.unwrap_or(u64::MAX);
        let tasks = self.tasks.unwrap_or(TASKS);
        let (mut all, mut sum) = (Vec::new(), 0);
        while all.len() < tasks && sum < limit {
            let one = source.draw(least, most).min(limit - sum);
            sum += one;
            all.push(one);
        }
        if self.tasks.is_none() && sum < limit {
            return Err(WorkloadError::Impossible { tasks, utilisation: limit });
        }
        Ok(all)
    }

    fn period(&self, source: &mut Source) -> u64 {
        match &self.periods {
            Periods::Of(list) => source.pick(list),
            Periods::Milliseconds(least, most) => source.draw(*least, *most) * MILLISECOND,
        }
    }
}

/// Utilisations of `tasks` tasks, uniformly from all that add up to `sum` with none above one CPU: sets with
/// one above are drawn anew. `None` if none was found.
fn unifast(source: &mut Source, tasks: usize, sum: u64) -> Option<Vec<u64>> {
    let full = tasks as u64 * CPU;
    if sum > full || sum < tasks as u64 {
        return None;
    }
    // The part that all full tasks lack is as uniform as the drawn part; of the two, the rarer is kept more often.
    let mirrored = sum > full / 2;
    let drawn = if mirrored { full - sum } else { sum };
    let mut marks = vec![0; tasks + 1];
    for _ in 0..DRAWS {
        marks[tasks] = drawn;
        for mark in &mut marks[1..tasks] {
            *mark = source.draw(0, drawn);
        }
        marks[..tasks].sort_unstable();
        let parts = marks.windows(2).map(|pair| pair[1] - pair[0]);
        let parts: Vec<u64> = parts.map(|part| if mirrored { CPU.saturating_sub(part) } else { part }).collect();
        // A part above one CPU was cut to zero, so that the sum shows it.
        if parts.iter().all(|part| (1..=CPU).contains(part)) && parts.iter().sum::<u64>() == sum {
            return Some(parts);
        }
    }
    None
}

/// Parts of a CPU that are lost in no rounding.
const FINE: u128 = 1_000_000_000_000_000_000;

/// Execution times of tasks with these utilisations and periods: rounded down, and the loss by that goes to the
/// next task, so that the sum is at most the requested one and less than one nanosecond of the last period below it.
fn executions(utilisations: &[u64], periods: &[u64]) -> Vec<u64> {
    let mut rest = 0;
    let parts = utilisations.iter().zip(periods);
    parts
        .map(|(utilisation, period)| {
            let period = u128::from(*period);
            let wanted = u128::from(*utilisation) * (FINE / u128::from(CPU)) + rest;
            let execution = (wanted * period / FINE).clamp(1, period);
            rest = wanted.saturating_sub((execution * FINE).div_ceil(period));
            execution as u64
        })
        .collect()
}

/// CPUs with at most nine digits after the point, in billionths.
fn parse_cpus(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(CPU)?.checked_add(fraction)
}

/// A utilisation as people write it.
#[must_use]
pub fn cpus(utilisation: u64) -> String {
    let text = format!("{}.{:09}", utilisation / CPU, utilisation % CPU);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A name that a task may have: `name`, with `-` for all that no name has, cut to the longest there may be.
#[must_use]
pub fn task_name(name: &str) -> String {
    legal(name).chars().take(NAME).collect()
}

/// A name of a manifest: `name`, with `-` for all that no name has.
fn legal(name: &str) -> String {
    let is_legal = |character: char| character.is_ascii_alphanumeric() || ['-', '_'].contains(&character);
    if name.is_empty() { "-".into() } else { name.replace(|character| !is_legal(character), "-") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn generate(words: &str, seed: u64) -> TaskSet {
        Generator::parse(words).unwrap().generate(&mut Source::new(seed, 0)).unwrap()
    }

    #[test]
    fn sets_with_any_names_are_systems() {
        let platform = Platform { clusters: vec![2, 1], ..Platform::default() };
        let mut set = generate("uunifast,n=3,u=1.5", 1);
        for (name, task) in
            [("random:uunifast,n=3, seed 1", "brake \"left\"\n"), ("sets/a b.json", "\u{e9}"), ("", ".")]
        {
            name.clone_into(&mut set.name);
            set.tasks[0].name = task_name(task);
            let system = set.system(&platform).unwrap_or_else(|errors| panic!("{name:?}: {errors}"));
            assert_eq!(system.system.tasks.len(), 3);
        }
    }

    proptest! {
        #[test]
        fn utilisations_add_up_to_what_was_asked_for(seed: u64, tasks in 1usize..20, percent in 5u64..95) {
            let sum = tasks as u64 * CPU * percent / 100;
            let parts = unifast(&mut Source::new(seed, 0), tasks, sum);
            // Between the extremes a set without a part above one CPU can be rare.
            if let Some(parts) = parts {
                prop_assert_eq!(parts.len(), tasks);
                prop_assert!(parts.iter().all(|part| *part <= CPU));
                prop_assert_eq!(parts.iter().sum::<u64>(), sum);
            }
        }

        #[test]
        fn rounding_to_nanoseconds_loses_less_than_a_millionth(seed: u64, tasks in 2usize..13, percent in 10u64..60) {
            let sum = tasks as u64 * CPU * percent / 100;
            let set = generate(&format!("uunifast,n={tasks},u={}", cpus(sum)), seed);
            prop_assert!(set.utilisation() <= sum && set.utilisation() + CPU / 1_000_000 >= sum, "{set:?}");
            prop_assert!(set.tasks.iter().all(|task| task.execution >= 1 && task.execution <= task.period));
        }

        #[test]
        fn a_set_becomes_a_system_in_every_way(
            seed: u64,
            deadlines in prop::sample::select(vec!["implicit", "constrained", "arbitrary"]),
            policy in prop::sample::select(PolicyName::ALL.to_vec()),
            clusters in prop::sample::select(vec![vec![1], vec![3], vec![2, 1], vec![1, 1, 1, 1]]),
        ) {
            let set = generate(&format!("light,moderate,n=8,deadlines={deadlines}"), seed);
            let platform = Platform { clusters, policy, overheads: Overheads::NONE };
            let system = set.system(&platform).map_err(|error| TestCaseError::fail(error.to_string()))?.system;
            for (task, reservation) in set.tasks.iter().zip(&system.reservations) {
                prop_assert_eq!(reservation.execution, task.execution);
                prop_assert_eq!((reservation.period, reservation.deadline), (task.period, task.deadline));
            }
            prop_assert!(system.clusters.iter().all(|(_, cluster)| cluster.policy == policy as u32));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_set_and_another_one_another() {
        for words in ["uunifast,n=10,u=2.5", "medium,moderate,u=3", "heavy,long,n=3,deadlines=arbitrary"] {
            assert_eq!(generate(words, 7), generate(words, 7));
            assert_ne!(generate(words, 7), generate(words, 8));
        }
        // Written down once: the same on every machine and in every version.
        let set = generate("uunifast,n=3,u=1", 1);
        let numbers: Vec<(u64, u64)> = set.tasks.iter().map(|task| (task.execution, task.period)).collect();
        assert_eq!(numbers, [(7_373_183, 25_000_000), (4_328_104, 50_000_000), (24_740_424, 40_000_000)]);
    }

    #[test]
    fn tasks_of_a_distribution_stay_in_its_bounds_but_for_the_last() {
        let set = generate("medium,long,u=3", 3);
        let (last, others) = set.tasks.split_last().unwrap();
        for task in others {
            let utilisation = task.execution * 1_000 / task.period;
            assert!((99..=400).contains(&utilisation) && (200..=1_000).contains(&(task.period / MILLISECOND)));
        }
        assert!(last.execution <= last.period * 4 / 10);
    }

    #[test]
    fn full_sets_and_impossible_ones_are_told_apart() {
        assert_eq!(generate("uunifast,n=4,u=4", 1).utilisation(), 4 * CPU);
        assert!(generate("uunifast,n=20,u=10", 1).utilisation() <= 10 * CPU);
        let impossible = Generator::parse("uunifast,n=4,u=4.1").unwrap().generate(&mut Source::new(1, 0));
        assert_eq!(impossible, Err(WorkloadError::Impossible { tasks: 4, utilisation: 4_100_000_000 }));
    }

    #[test]
    fn words_that_say_nothing_are_named() {
        for word in ["mediun", "n=0", "u=", "u=1.0000000001", "periods=1::2", "deadlines=late", "light=1"] {
            let text = format!("medium,moderate,n=3,{word}");
            assert_eq!(Generator::parse(&text), Err(WorkloadError::Word(word.to_owned())));
        }
        assert_eq!(Generator::parse("uunifast,n=3"), Err(WorkloadError::Missing("u=CPUS")));
    }

    #[test]
    fn names_of_tasks_have_the_characters_and_the_length_of_names() {
        assert_eq!(task_name("a long name\u{e9}"), "a-long-name-");
        assert_eq!(task_name("").len(), 1);
        assert_eq!(task_name(&"n".repeat(99)).len(), NAME);
    }
}

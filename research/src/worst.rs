//! `cargo xtask worst`: the longest path through the kernel of each kind of trap, by search.
//!
//! Systems that are made to find long paths (`adversary`), and those of the bench and of the tests, run with the plugin
//! `tools/profiler`, which counts the instructions of every trap. A trap is a call, or another kind, if it executes functions that
//! only that kind does: [`CLASSES`] names the functions, inlined or not.
//!
//! Not here: which traps are too long for which budget (`kernel/core/src/limits.rs`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use fusee_abi::image::advice;
use fusee_abi::trace::Level;
use fusee_kernel_core::limits::{LONGEST_PATH, LONGEST_PATH_CROWDED};
use fusee_manifest::{Manifest, Profile};

use crate::adversary::{self, FAMILIES};
use crate::{crowd, purposes};
use fusee_host::build::Kernel;
use fusee_host::decode::Symbols;
use fusee_host::kept::{PROFILER, PROFILER_LIBRARY};
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_host::table::Table;

/// Arguments of `cargo xtask worst`.
#[derive(Args)]
pub struct WorstArguments {
    /// Only systems whose name contains this.
    filter: Option<String>,
    /// Of each kind of trap, print what its longest executes, by function.
    #[arg(long)]
    functions: bool,
}

/// A kind of trap.
struct Class {
    name: &'static str,
    /// Files and functions that only it executes.
    functions: &'static [(&'static str, &'static str)],
}

const fn class(name: &'static str, functions: &'static [(&'static str, &'static str)]) -> Class {
    Class { name, functions }
}

const FAST_CALLS: &str = "kernel/core/src/ipc/fast_calls.rs";
const FAST_SWITCHES: &str = "kernel/core/src/scheduling/fast_switches.rs";
const SERVED: &str = "kernel/core/src/ipc/served.rs";
const ONLY_DONOR: &str = "kernel/core/src/scheduling/only_donor.rs";
const CALLS: &str = "kernel/core/src/calls.rs";
const JOBS: &str = "kernel/core/src/time/jobs.rs";
const EVENTS: &str = "kernel/core/src/ipc/events.rs";
const LOCKS: &str = "kernel/core/src/locks.rs";
const DEATH: &str = "kernel/core/src/lifecycle/death.rs";
const IPC: &str = "kernel/core/src/ipc.rs";

/// The classes of traps that execute functions of no other class, by their vector.
const OTHER_CALL: usize = 0;
const OTHER_INTERRUPT: usize = 1;
const OTHER_EXCEPTION: usize = 2;

const CLASSES: [Class; 25] = [
    class("null, now, log, free locks", &[]),
    class("kick", &[]),
    class("system error", &[]),
    class(
        "call, send",
        &[(FAST_CALLS, "fast_request"), (SERVED, "fast_queue"), (FAST_SWITCHES, "fast_send"), (IPC, "call")],
    ),
    class("reply, receive", &[(FAST_CALLS, "fast_reply"), (SERVED, "fast_answer_call"), (IPC, "reply_receive")]),
    class("signal", &[(EVENTS, "signal_call"), (FAST_SWITCHES, "fast_signal"), (ONLY_DONOR, "fast_answer")]),
    class("wait", &[(EVENTS, "wait_call"), (FAST_SWITCHES, "fast_wait")]),
    class("next_job", &[(JOBS, "next_job")]),
    class("release_job", &[(JOBS, "release_job")]),
    class("early_release", &[(JOBS, "early_release")]),
    class("yield", &[(CALLS, "yield_turn"), (FAST_SWITCHES, "fast_yield")]),
    class("acquire", &[(LOCKS, "acquire"), (ONLY_DONOR, "fast_lend fast_lend_token")]),
    class("release", &[(LOCKS, "release_lock"), (ONLY_DONOR, "fast_release fast_release_token")]),
    class("should_yield", &[(LOCKS, "should_yield")]),
    class("map, unmap", &[(CALLS, "set_mapped")]),
    class("revoke", &[("kernel/core/src/handles/grants.rs", "revoke")]),
    class("engine_complete", &[("kernel/core/src/accelerators/watchdog.rs", "engine_complete")]),
    class("interrupt_ack", &[(EVENTS, "interrupt_ack")]),
    class("sleep_until", &[(EVENTS, "sleep")]),
    class("stop", &[(DEATH, "stop_call")]),
    class("exit", &[(CALLS, "exit_call")]),
    class("fault", &[(DEATH, "fault")]),
    class("first use of floating point", &[("kernel/aarch64/src/cpu.rs", "take_float")]),
    class("timer", &[("kernel/core/src/time/timekeeper.rs", "timer"), (FAST_SWITCHES, "first_sleeper")]),
    class("interrupt", &[(EVENTS, "interrupt"), (FAST_SWITCHES, "woken_by")]),
];

/// The vectors of traps from tasks: offset, and the class of all other traps there.
const VECTORS: [(u64, usize); 3] = [(0x400, OTHER_CALL), (0x480, OTHER_INTERRUPT), (0x580, OTHER_EXCEPTION)];
/// Where a CPU waits for others: their time, and no path of its own.
const WAITING: (&str, &str) = ("kernel/aarch64/src/lock.rs", "wait serving");
/// The end of the system, which writes its ledgers: nothing runs after it.
const LAST: (&str, &str) = ("kernel/core/src/lifecycle/shutdown.rs", "shut_down");

/// Systems of the repository that run, too.
const FOLDERS: [&str; 3] = ["tests/bench", "tests/target", "tests/conformance"];
/// Random operations, of which not as many are needed here.
const OPERATIONS: (&str, &str) = ("goal = 1_000_000", "goal = 30_000");
const PLACES: &str = "worst.places";
const FILE: &str = "worst.traps";
/// Host seconds after which a run is ended.
const SECONDS: u64 = 180;

/// Runs all systems and prints the table; `false` if a trap is longer than any may be.
pub fn worst(arguments: &WorstArguments, install: bool) -> Result<bool> {
    let workspace = Workspace { kernel: Kernel::Traced(Level::Marks), ..Workspace::open(install)? };
    let mut search = Search::new(&workspace)?;
    let wanted = |name: &str| arguments.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    let mut growth = [0; CLASSES.len()];
    for family in &FAMILIES {
        let mut longest = Vec::new();
        for size in family.sizes {
            let manifest = Manifest::parse(Path::new(family.name), &(family.manifest)(size))?;
            if wanted(&manifest.system.name) {
                longest.push(search.run(manifest)?);
            }
        }
        if let [few, many] = &longest[..] {
            for ((growth, few), many) in growth.iter_mut().zip(few).zip(many) {
                let [less, more] = family.sizes;
                *growth += (many.saturating_sub(*few) * (family.limit - less) as u64).div_ceil((more - less) as u64);
            }
        }
    }
    for cpus in [1, 2] {
        let manifest = Manifest::parse(Path::new("the crowd"), &crowd::manifest(400, cpus))?;
        if wanted(&manifest.system.name) {
            search.run(manifest)?;
        }
    }
    // Where paths may be longer.
    let mut crowded = Search::new(&workspace)?;
    for path in manifests(&workspace.root)? {
        let text = std::fs::read_to_string(&path)?.replace(OPERATIONS.0, OPERATIONS.1);
        let manifest = Manifest::parse(path.strip_prefix(&workspace.root).unwrap_or(&path), &text)?;
        if wanted(&manifest.system.name) {
            let is_advised = manifest.system.pools.iter().any(|(_, pool)| pool.advice != advice::NOBODY);
            if is_advised { &mut crowded } else { &mut search }.run(manifest)?;
        }
    }
    for manifest in crowded_systems()? {
        if wanted(&manifest.system.name) {
            crowded.run(manifest)?;
        }
    }
    let mut all_hold = true;
    for (search, growth, title, limit) in [
        (search, growth, "", LONGEST_PATH),
        (crowded, [0; CLASSES.len()], "in crowded systems:\n", LONGEST_PATH_CROWDED),
    ] {
        if search.systems > 0 {
            fusee_host::sayln!("{title}{}", search.table(&growth));
            if arguments.functions {
                search.print_functions();
            }
            all_hold &= search.verdict(limit);
        }
    }
    Ok(all_hold)
}

fn crowded_systems() -> Result<Vec<Manifest>> {
    let parse = |text: String| Ok(Manifest::parse(Path::new("crowded"), &text)?);
    adversary::crowded().into_iter().map(parse).collect()
}

/// The part that `cargo xtask test` looks at: these systems, in which the longest traps were found, and the crowded ones.
const CHECKED: [&str; 3] = ["chain-8", "sharers-12", "mourners-64"];

/// The traps that are longer than any may be, in few systems.
pub fn check(install: bool) -> Result<Vec<String>> {
    let workspace = Workspace { kernel: Kernel::Traced(Level::Marks), ..Workspace::open(install)? };
    let mut systems = Vec::new();
    for family in &FAMILIES {
        for size in family.sizes {
            let manifest = Manifest::parse(Path::new(family.name), &(family.manifest)(size))?;
            if CHECKED.contains(&manifest.system.name.as_str()) {
                systems.push(manifest);
            }
        }
    }
    let mut problems = Vec::new();
    for (systems, limit) in [(systems, LONGEST_PATH), (crowded_systems()?, LONGEST_PATH_CROWDED)] {
        let mut search = Search::new(&workspace)?;
        for manifest in systems {
            search.run(manifest)?;
        }
        let longer = CLASSES.iter().zip(&search.longest).filter(|(_, longest)| longest.length > limit);
        problems.extend(longer.map(|(class, longest)| {
            let Longest { length, system, .. } = longest;
            format!(
                "a trap of kind `{}` takes {length} instructions in {system}, where {limit} are allowed",
                class.name
            )
        }));
    }
    Ok(problems)
}

fn manifests(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(root.join(folder)).context(folder)? {
            let path = entry?.path();
            let is_manifest = path.extension().is_some_and(|extension| extension == "toml")
                && std::fs::read_to_string(&path)?.contains("[system]");
            if is_manifest {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

//--- Search

/// The longest path of a class.
#[derive(Clone, Debug, Default)]
struct Longest {
    length: u64,
    system: String,
    /// How often it executed each instruction.
    executed: Vec<(u64, u64)>,
}

struct Search<'a> {
    workspace: &'a Workspace,
    plugin: PathBuf,
    symbols: Option<Symbols>,
    systems: usize,
    /// By class: traps seen, and the longest.
    counts: [u64; CLASSES.len()],
    longest: [Longest; CLASSES.len()],
}

impl<'a> Search<'a> {
    fn new(workspace: &'a Workspace) -> Result<Search<'a>> {
        Ok(Search {
            workspace,
            plugin: workspace.builder().plugin(PROFILER, PROFILER_LIBRARY)?,
            symbols: None,
            systems: 0,
            counts: [0; CLASSES.len()],
            longest: std::array::from_fn(|_| Longest::default()),
        })
    }

    /// Runs one system. Returns how long the longest of each class was in it.
    fn run(&mut self, manifest: Manifest) -> Result<[u64; CLASSES.len()]> {
        let name = manifest.system.name.clone();
        let expected = manifest.expectations.as_ref().map_or(0, |expectations| expectations.exit);
        let programs = self.workspace.builder().programs(&[&manifest.system])?;
        let image = self.workspace.image_of(manifest, programs, Profile::Det, false)?;
        if self.symbols.is_none() {
            // All systems of a search have the same kernel.
            let symbols = Symbols::read(&image.programs.kernel)?;
            std::fs::write(self.workspace.project.kept(PLACES)?, places(&symbols)?)?;
            self.symbols = Some(symbols);
        }
        let file = self.workspace.project.kept(FILE)?;
        let places = self.workspace.project.kept(PLACES)?;
        let plugin = format!("{},out={},places={}", self.plugin.display(), file.display(), places.display());
        let arguments = vec!["-plugin".to_owned(), plugin];
        let options = RunOptions { arguments, ..RunOptions::quiet(SECONDS) };
        let run = system::run(self.workspace, &image, &options)?;
        if run.outcome.code != i32::try_from(expected).ok() {
            fusee_host::words::print(&run.outcome.console);
            bail!("{name} ended with {:?}", run.outcome.code);
        }
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let traps = parse(&text)?;
        self.systems += 1;
        let mut lengths = [0; CLASSES.len()];
        for (class, (count, length, executed)) in traps {
            let longest = self.longest.get_mut(class).context("a class that there is not")?;
            lengths[class] = length;
            self.counts[class] += count;
            if length > longest.length {
                *longest = Longest { length, system: name.clone(), executed };
            }
        }
        Ok(lengths)
    }
}

/// The addresses of the kernel that the plugin needs.
fn places(symbols: &Symbols) -> Result<String> {
    let vectors = symbols.address("fusee_vectors").context("the kernel has no vectors")?;
    let mut text = format!("waking {OTHER_INTERRUPT}\n");
    for (offset, class) in VECTORS {
        let _ = writeln!(text, "vector {:x} {class}", vectors + offset);
    }
    let mut found = [false; CLASSES.len()];
    for address in symbols.code().step_by(4) {
        let functions = purposes::functions(symbols, address);
        let is_in = |(file, names): &(&str, &str)| {
            functions
                .iter()
                .any(|function| function.file == *file && names.split(' ').any(|name| name == function.name))
        };
        if is_in(&WAITING) {
            let _ = writeln!(text, "aside {address:x}");
        } else if is_in(&LAST) {
            let _ = writeln!(text, "last {address:x}");
        } else if let Some(class) = CLASSES.iter().position(|class| class.functions.iter().any(is_in)) {
            let _ = writeln!(text, "of {address:x} {class}");
            found[class] = true;
        }
    }
    match CLASSES.iter().zip(found).find(|(class, found)| !class.functions.is_empty() && !found) {
        Some((class, _)) => bail!("no instruction of the kernel is known to be for `{}`", class.name),
        None => Ok(text),
    }
}

/// Traps of a class, instructions of the longest, and how often that executed which.
type Seen = (u64, u64, Vec<(u64, u64)>);

fn parse(text: &str) -> Result<BTreeMap<usize, Seen>> {
    let mut classes: BTreeMap<usize, Seen> = BTreeMap::new();
    let mut present = None;
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["class", number, count, length] => {
                let number = number.parse()?;
                classes.insert(number, (count.parse()?, length.parse()?, Vec::new()));
                present = Some(number);
            }
            [address, times] => {
                let class = present.and_then(|number| classes.get_mut(&number)).context("an address of no class")?;
                class.2.push((u64::from_str_radix(address, 16)?, times.parse()?));
            }
            _ => bail!("what the profiler wrote: {line}"),
        }
    }
    Ok(classes)
}

//--- Report

impl Search<'_> {
    /// Instructions by function, most first.
    fn functions(&self, longest: &Longest) -> Vec<(String, u64)> {
        let Some(symbols) = &self.symbols else { return Vec::new() };
        let mut functions: BTreeMap<String, u64> = BTreeMap::new();
        for &(address, times) in &longest.executed {
            *functions.entry(purposes::of(symbols, address).0.name).or_default() += times;
        }
        let mut functions: Vec<(String, u64)> = functions.into_iter().collect();
        functions.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        functions
    }

    fn table(&self, growth: &[u64]) -> String {
        let header = ["trap", "seen", "longest", "limits", "mostly", "in"];
        let mut table = Table::new(header).left(&["mostly", "in"]).parts(&["in"]);
        let mut order: Vec<usize> = (0..CLASSES.len()).filter(|class| self.counts[*class] > 0).collect();
        order.sort_by_key(|class| std::cmp::Reverse(self.longest[*class].length));
        for class in order {
            let longest = &self.longest[class];
            let most = self.functions(longest).first().map(|(name, count)| format!("{name} {count}"));
            let limits = longest.length + growth[class];
            let mut row = vec![CLASSES[class].name.to_owned()];
            row.extend([self.counts[class], longest.length, limits].map(|number| number.to_string()));
            row.extend([most.unwrap_or_default(), longest.system.clone()]);
            table.add_row(row);
        }
        table.to_string()
    }

    fn print_functions(&self) {
        for (class, longest) in CLASSES.iter().zip(&self.longest).filter(|(_, longest)| longest.length > 0) {
            fusee_host::sayln!("{}, {} instructions", class.name, longest.length);
            for (name, count) in self.functions(longest) {
                fusee_host::sayln!("{count:8} {name}");
            }
        }
    }

    fn verdict(&self, limit: u64) -> bool {
        let traps: u64 = self.counts.iter().sum();
        let longest = self.longest.iter().map(|longest| longest.length).max().unwrap_or(u64::MAX);
        fusee_host::sayln!(
            "{traps} traps in {} systems; the longest takes {longest} instructions (limit {limit})",
            self.systems
        );
        longest <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_that_are_checked_exist() {
        let all = FAMILIES.iter().flat_map(|family| family.sizes.map(|size| (family.manifest)(size)));
        let all: Vec<String> = all.collect();
        for name in CHECKED {
            assert!(all.iter().any(|text| text.contains(&format!("name = \"{name}\""))), "{name}");
        }
    }

    #[test]
    fn what_the_profiler_wrote_is_read() {
        let seen = parse("class 3 2 5\n10 1\n14 4\nclass 7 1 1\nffffff8000000000 1\n").unwrap();
        assert_eq!(seen[&3], (2, 5, vec![(0x10, 1), (0x14, 4)]));
        assert_eq!(seen[&7], (1, 1, vec![(0xffff_ff80_0000_0000, 1)]));
        assert!(parse("10 1\n").is_err());
        assert!(parse("class 3 2\n").is_err());
    }

    #[test]
    fn functions_that_tell_a_class_exist() {
        let root = fusee_host::system::root().unwrap();
        for (file, names) in CLASSES.iter().flat_map(|class| class.functions).chain([&WAITING, &LAST]) {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            for name in names.split(' ') {
                assert!(text.contains(&format!("fn {name}")), "{file}: {name}");
            }
        }
    }

    #[test]
    fn adversarial_systems_are_systems() {
        for family in &FAMILIES {
            for size in family.sizes {
                let text = (family.manifest)(size);
                let _ = Manifest::parse(Path::new(family.name), &text).unwrap();
            }
        }
    }
}

//! `cargo xtask hostile`: proved deadlines hold, with any other tasks.
//!
//! Not here: the systems and their attackers (`research/campaigns/src/hostile.rs`).

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use fusee_campaigns::draws::{Draws, Wrong};
use fusee_campaigns::hostile::{self, Coverage, Granted, HostileOptions, HostileReport, PAIRS, Which};
use fusee_kernel_core::Planted;
use fusee_manifest::Manifest;
use fusee_simulator::Overheads;

use crate::campaign::{self, Campaign, Left, Outcome};
use crate::soundness;
use fusee_host::report;
use fusee_host::table::Table;
use fusee_tool::analyze::read_overheads;

/// Systems of `cargo xtask hostile`, unless told otherwise.
const SYSTEMS: u64 = 20_000;
/// The seed of `cargo xtask hostile`, unless told otherwise.
const SEED: u64 = 1;
/// Systems between two signs of life.
const BLOCK: u64 = 20_000;
/// Systems in which a planted fault is searched for, at most: the search ends at the first that shows it.
const SEARCH: u64 = 400_000;

/// The systems of the suite, and the large number of them.
pub const CAMPAIGN: Campaign = Campaign {
    name: "hostile",
    question: "Does a task that is proved miss a deadline, among tasks that do anything?",
    unit: "systems",
    budget: 20_000,
    large: 1_000_000,
    block: BLOCK,
    draw: |draws| Ok(outcome(&hostile::hostile(&HostileOptions { draws, kernel: Which::default(), covers: false }))),
};

/// Arguments of `cargo xtask hostile`.
#[derive(Args)]
pub struct HostileArguments {
    /// How many systems are drawn.
    #[arg(long, default_value_t = SYSTEMS)]
    systems: u64,
    /// Of all random numbers.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// The number of the first system.
    #[arg(long, default_value_t = 0)]
    number: u64,
    /// Simulate this system instead, with the attackers of system NUMBER.
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// Print the manifest of system NUMBER, and simulate nothing.
    #[arg(long)]
    show: bool,
    /// Let the kernel forget one of its rules, to see whether that is found.
    #[arg(long, value_parser = planted)]
    planted: Option<Planted>,
    /// Print how often each key of manifests was drawn, and in how many systems in which something is proved.
    #[arg(long)]
    coverage: bool,
    /// What paths of the kernel cost, a file as of `analyze`: tasks count as proved if they are with these costs.
    #[arg(long)]
    overheads: Option<PathBuf>,
}

fn planted(name: &str) -> Result<Planted, String> {
    let named = |fault: &Planted| format!("{fault:?}") == name;
    let all = || Planted::ALL.map(|fault| format!("{fault:?}")).join(", ");
    Planted::ALL.into_iter().find(named).ok_or_else(|| format!("the rules are: {}", all()))
}

fn read_simulated(path: &Path) -> Result<Overheads> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Overheads::parse(&text).map_err(|why| anyhow!("{}: {why}", path.display()))
}

/// Simulates the chosen systems; `false` if a proof does not hold.
pub fn hostile(arguments: &HostileArguments) -> Result<bool> {
    let HostileArguments { systems, seed, number, planted, coverage, .. } = arguments;
    let (systems, seed, number, planted) = (*systems, *seed, *number, *planted);
    let costs = match &arguments.overheads {
        Some(path) => Some((read_simulated(path)?, read_overheads(path)?)),
        None => None,
    };
    let kernel = Which { planted, costs, granted: None };
    if arguments.show {
        fusee_host::words::print(&hostile::manifest(seed, number).map_err(|why| anyhow!(why))?);
        return Ok(true);
    }
    let report = match &arguments.manifest {
        Some(path) => {
            let manifest = Manifest::read(path)?;
            hostile::replay(&manifest, (seed, number), kernel).map_err(|why| anyhow!(why))?
        }
        None => simulate(seed, number, systems, (kernel, *coverage)),
    };
    fusee_host::words::print(&report.to_string());
    let is_covered = report.coverage.as_ref().is_none_or(|coverage| {
        fusee_host::words::print(&coverage.to_string());
        let missing = uncovered(coverage);
        missing.iter().for_each(|missing| fusee_host::sayln!("{missing}"));
        missing.is_empty()
    });
    let good = report.violations.is_empty() && report.failures.is_empty();
    if !is_covered {
        fusee_host::sayln!("{}", report::red("Not all keys of manifests were drawn."));
    }
    if !good && report.systems == 0 && arguments.manifest.is_some() {
        bail!("nothing was simulated");
    }
    fusee_host::sayln!(
        "{}",
        match good {
            true => report::green("What is proved holds, whatever the others do."),
            false => report::red("What is proved does not hold."),
        }
    );
    Ok(good && is_covered)
}

/// Keys that are not drawn and should be, in words.
fn uncovered(coverage: &Coverage) -> Vec<String> {
    let missing = coverage.missing().into_iter().map(|(key, drawn)| {
        format!("`{key}` is in no system in which something is proved, and in {drawn} that were drawn")
    });
    let idle = coverage.idle_exceptions().into_iter();
    let idle = idle.map(|start| format!("the exception `{start}` is not needed"));
    let (all, there) = coverage.pairs();
    let few = (there * 100 < all * PAIRS).then(|| format!("{there} of {all} pairs of keys are less than {PAIRS} %"));
    missing.chain(idle).chain(few).collect()
}

/// Simulates systems block by block, and says how far it is.
fn simulate(seed: u64, first: u64, systems: u64, (kernel, covers): (Which, bool)) -> HostileReport {
    let mut all = HostileReport::default();
    let mut done = 0;
    while done < systems {
        let some = BLOCK.min(systems - done);
        let block = hostile::hostile(&HostileOptions {
            draws: Draws { first: first + done, ..Draws::new(seed, some) },
            kernel,
            covers,
        });
        for violation in &block.violations {
            eprintln!("number {}: {}", violation.origin.1, violation.what);
        }
        all.join(block);
        done += some;
        if done < systems {
            eprintln!("{done} of {systems} systems, {} violations", all.violations.len());
        }
    }
    all
}

fn outcome(report: &HostileReport) -> Outcome {
    let violations = report.violations.iter().map(|violation| Wrong {
        seed: violation.origin.0,
        number: violation.origin.1,
        what: format!("{}\n{}", violation.what, violation.manifest),
    });
    let wrong = report.failures.iter().cloned().chain(violations).collect();
    Outcome { systems: report.systems, jobs: report.jobs, wrong, report: report.to_string() }
}

/// Simulates the random systems of [`CAMPAIGN`]. Returns a sentence about the results, and the problems found: none if all is well.
pub fn check() -> (String, Vec<String>) {
    let all = match CAMPAIGN.draws() {
        Ok(all) => all,
        Err(error) => return ("what is proved holds".to_owned(), vec![format!("{error:#}")]),
    };
    let (mut report, mut drawn) = (HostileReport::default(), 0);
    for draws in all {
        report.join(hostile::hostile(&HostileOptions { draws, kernel: Which::default(), covers: true }));
        drawn += draws.count;
    }
    let words = format!(
        "what is proved holds among tasks that do anything: {} random systems, {} proved tasks, {} attackers, {} jobs, tightest {:.4} ({})",
        report.systems,
        report.proved_tasks(),
        report.attackers,
        report.jobs,
        report.tightest.0 as f64 / report.tightest.1.max(1) as f64,
        Left(&[CAMPAIGN])
    );
    let good = report.violations.is_empty() && report.failures.is_empty() && report.systems == drawn;
    let mut problems = if good { Vec::new() } else { vec![report.to_string()] };
    problems.extend(report.coverage.iter().flat_map(uncovered));
    (words, problems)
}

//--- Planted faults

/// The planted fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A rule that the kernel forgets.
    Kernel(Planted),
    /// Systems with jobs of graphs that begin early.
    Graphs(Planted),
    /// A condition of a proof that is taken for granted.
    Proof(Granted),
}

impl Fault {
    /// The kernel or the proofs with this fault, where random systems of all kinds show it.
    const fn which(&self) -> Option<Which> {
        let (planted, granted) = match *self {
            Fault::Kernel(planted) => (Some(planted), None),
            Fault::Proof(granted) => (None, Some(granted)),
            Fault::Graphs(_) => return None,
        };
        Some(Which { planted, granted, costs: None })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Kernel(planted) | Fault::Graphs(planted) => write!(f, "{planted:?}"),
            Fault::Proof(granted) => write!(f, "taken for granted: {granted:?}"),
        }
    }
}

/// All that is planted, one after the other.
fn faults() -> Vec<Fault> {
    let kernel = Planted::ALL.into_iter().map(Fault::Kernel).chain(Planted::OF_GRAPHS.into_iter().map(Fault::Graphs));
    kernel.chain(Granted::ALL.into_iter().map(Fault::Proof)).collect()
}

/// The number of a system of `seed` that shows the fault, for each of them; `None`: none does.
fn search(faults: &[Fault], seed: u64) -> Vec<Option<u64>> {
    let draws = Draws::new(seed, SEARCH);
    let systems: Vec<Which> = faults.iter().filter_map(Fault::which).collect();
    let mut found = hostile::search(draws, &systems).into_iter();
    let number = |fault: &Fault| match fault {
        Fault::Graphs(planted) => soundness::search_graphs(*planted, draws),
        Fault::Kernel(_) | Fault::Proof(_) => found.next().flatten(),
    };
    faults.iter().map(number).collect()
}

/// Plants each fault in the kernel: how soon it is found, in words, and which are not.
pub fn check_planted() -> (String, Vec<String>) {
    let (all, seed) = (faults(), campaign::seed());
    let found = search(&all, seed);
    let missed = all.iter().zip(&found).filter(|(_, number)| number.is_none());
    let problems =
        missed.map(|(fault, _)| format!("{fault} is not found in {SEARCH} systems of seed {seed}")).collect();
    let (all, last) = (all.len(), found.into_iter().flatten().max().unwrap_or(0));
    (format!("{all} planted faults are found, the last in system {last} of seed {seed}"), problems)
}

/// Prints the number of the system that shows each planted fault, for several seeds; `false` if a fault is not found.
pub fn planted_table(first: u64, seeds: u32) -> Result<bool> {
    let seeds: Vec<u64> = (first..).take(seeds as usize).collect();
    let mut header = vec!["planted fault".to_owned()];
    header.extend(seeds.iter().map(|seed| format!("seed {seed}")));
    let mut table = Table::new(header);
    let all = faults();
    let found: Vec<_> = seeds.iter().map(|seed| search(&all, *seed)).collect();
    for (at, fault) in all.iter().enumerate() {
        let number = |found: &Vec<Option<u64>>| found[at].map_or("not found".to_owned(), |number| number.to_string());
        table.add_row(std::iter::once(fault.to_string()).chain(found.iter().map(number)));
    }
    let missed = found.iter().flatten().filter(|number| number.is_none()).count();
    fusee_host::sayln!("The number of the first system that shows each fault, of {SEARCH} at most:\n{table}");
    fusee_host::sayln!(
        "{}",
        match missed {
            0 => report::green("Each planted fault is found with each seed."),
            _ => report::red(&format!("{missed} searches found nothing.")),
        }
    );
    Ok(missed == 0)
}

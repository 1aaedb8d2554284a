//! `cargo xtask hostile`: what is proved holds, whatever other tasks do.
//!
//! Not here: the systems and their attackers (`tools/simulator/src/hostile.rs`).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use fusee_kernel_core::Planted;
use fusee_manifest::Manifest;
use fusee_simulator::Overheads;
use fusee_simulator::hostile::{self, HostileOptions, HostileReport, Which};

use fusee_host::report;
use fusee_tool::analyze::read_overheads;

/// Systems of each check.
const SYSTEMS: u64 = 20_000;
/// The seed of each check.
const SEED: u64 = 1;
/// Systems between two signs of life.
const BLOCK: u64 = 20_000;

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

/// Simulates what is asked for; `false` if what is proved does not hold.
pub fn hostile(arguments: &HostileArguments) -> Result<bool> {
    let HostileArguments { systems, seed, number, planted, .. } = *arguments;
    let costs = match &arguments.overheads {
        Some(path) => Some((read_simulated(path)?, read_overheads(path)?)),
        None => None,
    };
    let kernel = Which { planted, costs };
    if arguments.show {
        print!("{}", hostile::manifest(seed, number).map_err(|why| anyhow!(why))?);
        return Ok(true);
    }
    let report = match &arguments.manifest {
        Some(path) => {
            let manifest = Manifest::read(path)?;
            hostile::replay(&manifest, (seed, number), kernel).map_err(|why| anyhow!(why))?
        }
        None => simulate(seed, number, systems, kernel),
    };
    print!("{report}");
    let good = report.violations.is_empty() && report.failures.is_empty();
    if !good && report.systems == 0 && arguments.manifest.is_some() {
        bail!("nothing was simulated");
    }
    println!(
        "{}",
        match good {
            true => report::green("What is proved holds, whatever the others do."),
            false => report::red("What is proved does not hold."),
        }
    );
    Ok(good)
}

/// Simulates systems block by block, and says how far it is.
fn simulate(seed: u64, first: u64, systems: u64, kernel: Which) -> HostileReport {
    let mut all = HostileReport::default();
    let mut done = 0;
    while done < systems {
        let some = BLOCK.min(systems - done);
        let block = hostile::hostile(&HostileOptions { seed, first: first + done, systems: some, stop: false, kernel });
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

/// Simulates as many systems as each check does: what came out, in words, and what is wrong.
pub fn check() -> (String, Vec<String>) {
    let report = simulate(SEED, 0, SYSTEMS, Which::default());
    let words = format!(
        "what is proved holds among tasks that do anything: {} random systems, {} proved tasks, {} attackers, {} jobs, tightest {:.4}",
        report.systems,
        report.proved_tasks(),
        report.attackers,
        report.jobs,
        report.tightest.0 as f64 / report.tightest.1.max(1) as f64
    );
    let good = report.violations.is_empty() && report.failures.is_empty() && report.systems == SYSTEMS;
    (words, if good { Vec::new() } else { vec![report.to_string()] })
}

/// Plants each fault in the kernel: how soon it is found, in words, and which are not.
pub fn check_planted() -> (String, Vec<String>) {
    let (mut problems, mut last) = (Vec::new(), 0);
    for fault in Planted::ALL {
        let kernel = Which { planted: Some(fault), costs: None };
        let options = HostileOptions { seed: SEED, first: 0, systems: SYSTEMS, stop: true, kernel };
        let report = hostile::hostile(&options);
        match report.violations.first() {
            Some(found) => last = found.origin.1.max(last),
            None => problems.push(format!("{fault:?} is not found in {SYSTEMS} systems")),
        }
    }
    (format!("{} planted faults are found, the last in system {last}", Planted::ALL.len()), problems)
}

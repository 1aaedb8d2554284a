//! The command line of the checks.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Parser;
use fusee_campaigns::soundness;
use fusee_host::system::board;
use fusee_host::{build, report};
pub use fusee_research::command::{AS_TOOL, as_tool};
use fusee_research::fuzz;
use fusee_tool::command::{Everywhere, ProfileArgument};

use crate::context::Context;
use crate::list::{self, Choice};
use crate::{known, queue, times};

/// Runs all checks of this repository: format, lints, tests on the host, systems in QEMU, pages, campaigns.
#[derive(Parser)]
#[command(name = "cargo xtask test", bin_name = "cargo xtask test", version)]
pub struct Options {
    #[command(flatten)]
    runner: libtest_mimic::Arguments,
    /// Write golden traces, and the schemas of `--json`, instead of comparing with them.
    #[arg(long)]
    bless: bool,
    /// The systems of `tests/target` and the conformance systems on this board, in place of all else: virt-gicv2, zcu102, raspi3b, raspi4b or versal.
    /// Systems for which the board lacks something are skipped, and named.
    #[arg(long, value_parser = board)]
    board: Option<String>,
    /// With --board: only runs of this profile.
    #[arg(long, requires = "board")]
    profile: Option<ProfileArgument>,
    /// With --board: only the share that a whole run gives to the board, each system once. Otherwise all systems run, and those with counted instructions
    /// twice, which must not differ.
    #[arg(long, requires = "board")]
    share: bool,
    /// Write the results as JUnit XML, too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print where the time went: by sort of check, by check, and how busy the cores were.
    #[arg(long)]
    times: bool,
    /// Record the time of each check, in `tests/systems/times.toml`.
    #[arg(long)]
    record_times: bool,
    /// Run every check, even if it passed before with the same inputs.
    #[arg(long)]
    afresh: bool,
    #[command(flatten)]
    everywhere: Everywhere,
}

/// Runs the checks that the command line asks for.
pub fn main() -> ExitCode {
    // Cargo calls this program as its compiler while bytes are to be found.
    if std::env::var_os(fuzz::COMPILES).is_some() {
        return fuzz::compile();
    }
    if std::env::var_os(AS_TOOL).is_some() {
        if std::env::args().nth(1).is_some_and(|name| fusee_tester::command::has(&name)) {
            return fusee_tester::command::main();
        }
        return fusee_research::command::tool();
    }
    queue::heed_output();
    let arguments = Options::parse();
    arguments.everywhere.apply();
    report::exit_code(run(&arguments))
}

fn run(arguments: &Options) -> Result<bool> {
    if arguments.afresh {
        known::forget();
    }
    build::remember();
    // The queue keeps the other cores busy.
    soundness::use_workers(1);
    let context = Arc::new(Context::new(arguments.everywhere.installs(), arguments.bless)?);
    let choice = Choice {
        board: arguments.board.clone(),
        profile: arguments.profile.map(Into::into),
        share: arguments.share,
        filter: arguments.runner.filter.clone(),
    };
    let cases = list::all(&context, &choice)?;
    let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    if let Some(filter) = &arguments.runner.filter
        && !names.iter().any(|name| name.contains(filter.as_str()))
        && !arguments.runner.list
        && !arguments.runner.exact
    {
        eprintln!("{}", queue::no_match(filter, &names));
        return Ok(false);
    }
    let before = times::recorded(context.root())?;
    let watch = times::Watch::begin();
    let (done, conclusion) = queue::run(cases, &arguments.runner, &before);
    let cores = watch.end();
    if arguments.runner.list {
        return Ok(true);
    }
    if let Some(path) = &arguments.junit {
        queue::write_junit(path, "fusee", &done)?;
    }
    if arguments.times {
        let picture = times::picture_path(&context.fusee().target);
        fusee_host::system::write(&picture, cores.picture().as_bytes())?;
        fusee_host::sayln!("{}", times::table(&done, &before, &cores));
        fusee_host::sayln!("how busy the cores were: {}", picture.display());
    }
    if arguments.record_times {
        times::record(context.root(), &done)?;
    }
    let known = done.iter().filter(|one| one.found.is_known).count();
    let mut out = std::io::stdout().lock();
    if known > 0 {
        writeln!(
            out,
            "{known} of these passed before with the same inputs, and did not run again; `--afresh` runs all"
        )
        .context("standard output")?;
    }
    Ok(!conclusion.has_failed())
}

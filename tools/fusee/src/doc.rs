//! `cargo xtask doc`: builds the documentation of the crates that users write programs against, for the target and with all features.

use anyhow::{Context, Result};
use clap::Args;
use fusee_host::project::Project;
use fusee_host::toolchain::{TASK_TARGET, Toolchain};
use fusee_host::words;

/// The arguments of `cargo doc`: the crates of tasks, of drivers and of GPU kernels.
pub const ARGUMENTS: [&str; 10] = [
    "--no-deps",
    "--all-features",
    "--target",
    TASK_TARGET,
    "--package",
    "fusee",
    "--package",
    "fusee-driver",
    "--package",
    "fusee-compute",
];

/// The documentation that is wanted.
#[derive(Args)]
pub struct DocArguments {
    /// Show it in a browser.
    #[arg(long)]
    open: bool,
}

/// Builds the documentation of the repository of this tool; prints the place of its first page.
///
/// # Errors
/// There is no compiler for the target, or cargo does not start.
pub fn doc(arguments: &DocArguments, install: bool) -> Result<bool> {
    let fusee = Project::fusee()?;
    let toolchain = Toolchain::find(&fusee.root, install)?;
    let mut command = toolchain.cargo(TASK_TARGET, &[]);
    command.arg("doc").args(ARGUMENTS).args(arguments.open.then_some("--open"));
    // The folder is the toolchain's own, as those of programs are: each folder is of one compiler.
    let target = fusee.target.join("fusee-doc").join(toolchain.name);
    command.arg("--target-dir").arg(&target).current_dir(&fusee.root);
    let status = command.status().context("cargo does not start")?;
    if status.success() {
        words::say(&target.join(TASK_TARGET).join("doc/fusee/index.html").display().to_string());
    }
    Ok(status.success())
}

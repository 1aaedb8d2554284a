//! Builds programs of tasks for the host, where the simulator runs them.
//!
//! They are the programs that a board runs, from the same sources and with the same profile. Two things differ. Programs are not linked as one piece of
//! code, which halves the time of a build. And they are linked to fixed addresses, as on a board, so that a program which uses the address of one of its
//! statics does so in each run.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use fusee_host::build::{DEFAULT_BOARD, Step, run, steps};
use fusee_host::project::{Project, cargo};
use fusee_manifest::Reason;

/// Flags of the compiler: fixed addresses.
const FLAGS: &str = "-Crelocation-model=static";
/// The differences from the profile of programs for a board.
const PROFILE: [&str; 3] =
    ["profile.release.lto=\"off\"", "profile.release.codegen-units=16", "profile.release.debug=\"line-tables-only\""];
/// The folder of these programs, in the folder of all that is built.
const FOLDER: &str = "fusee-hosted";

/// The programs of tasks that are to be built for the host.
#[derive(Debug)]
pub struct Plan<'a> {
    steps: Vec<Step<'a>>,
}

/// Says how to build the programs `wanted`, written package/program, of the first of these projects that has them.
///
/// # Errors
/// A program that is in no workspace, or in two.
pub fn plan<'a>(wanted: &BTreeSet<&'a str>, projects: &[&'a Project]) -> Result<Plan<'a>, Reason> {
    Ok(Plan { steps: steps(DEFAULT_BOARD, wanted, projects)? })
}

impl Plan<'_> {
    /// Builds the programs: where each of them is. They go to a folder of `project`.
    ///
    /// # Errors
    /// Cargo does not start or cannot build them.
    pub fn build(&self, project: &Project) -> Result<BTreeMap<String, PathBuf>> {
        let mut built = BTreeMap::new();
        if self.steps.is_empty() {
            return Ok(built);
        }
        let host = host()?;
        for step in &self.steps {
            let mut folder = project.target.join(FOLDER).join(name_of(step.project));
            folder = step.own.map_or(folder.clone(), |package| folder.join("of").join(package));
            let mut command = cargo();
            command.env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("CARGO_BUILD_TARGET");
            command.args(["build", "--release", "--target", &host]);
            for setting in PROFILE {
                command.args(["--config", setting]);
            }
            for (package, program) in &step.programs {
                command.args(["--package", package, "--bin", program]);
                let place = folder.join(&host).join("release").join(program);
                built.insert(format!("{package}/{program}"), place);
            }
            let s = if step.programs.len() == 1 { "" } else { "s" };
            let what = format!("{} program{s} for this host", step.programs.len());
            run(command.current_dir(&step.project.root), &folder, &what, &[])?;
        }
        Ok(built)
    }
}

/// The name of a project's folder: programs of two projects never meet, even if `CARGO_TARGET_DIR` gives them one place.
fn name_of(project: &Project) -> String {
    let mut hasher = DefaultHasher::new();
    project.root.hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}

/// The compiler's name of this host.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().context("rustc does not start")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc does not say its host")?;
    Ok(host.to_owned())
}

//! Builds programs of tasks for the host, where the simulator runs them: those of a command, with its words on the terminal.
//!
//! Not here: the flags and folders of these programs (`fusee_sim::programs`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;
use fusee_host::build::{DEFAULT_BOARD, Step, run, steps};
use fusee_host::project::Project;
use fusee_manifest::Reason;
use fusee_sim::programs::{command, folder, host};

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
    /// Builds the programs into the target folder of `project`. Returns the path of each executable by its `package/program`. Programs to be
    /// debugged have the names and places of their variables.
    ///
    /// # Errors
    /// Cargo does not start or cannot build them.
    pub fn build(&self, project: &Project, is_debugged: bool) -> Result<BTreeMap<String, PathBuf>> {
        let mut built = BTreeMap::new();
        if self.steps.is_empty() {
            return Ok(built);
        }
        let host = host()?;
        for step in &self.steps {
            let folder = folder(&project.target, &step.project.root, step.own);
            let mut command = command(&host, step.programs.iter().copied());
            for (package, program) in &step.programs {
                let place = folder.join(&host).join("release").join(program);
                built.insert(format!("{package}/{program}"), place);
                if is_debugged {
                    command.arg("--config").arg(format!("profile.release.package.{package}.debug=\"full\""));
                }
            }
            let s = if step.programs.len() == 1 { "" } else { "s" };
            let what = format!("{} program{s} for this host", step.programs.len());
            run(command.current_dir(&step.project.root), &folder, &what, &[])?;
        }
        Ok(built)
    }
}

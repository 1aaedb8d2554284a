//! The evidence of a run, for judges: programs of a project that say whether its results are right.
//!
//! The key `judge` in the table `[test]` of a manifest names the package of a judge. After a run, `cargo xtask run` keeps the run, builds
//! the judge for the host, and starts it with the folder of the kept run. The judge prints lines and ends with zero if all is right. Its
//! `main` is [`main`] of this module.
//!
//! Not here: conditions that each manifest can state by itself (`judge`).

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, ensure};
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;

use crate::decode::Rings;
use crate::kept::Kept;
use crate::picture::Picture;
use crate::project::{self, Project};
use crate::qemu::GuestMemory;
use crate::run::Run;
use crate::turns::Turns;
use crate::words;
use crate::workspace::Image;

/// The results of one run.
pub struct Evidence<'a> {
    /// The system.
    pub manifest: &'a Manifest,
    /// Whether engine locks were off.
    pub unmanaged: bool,
    /// Records of all CPUs.
    pub trace: &'a Trace,
    /// The guest's memory at the end of the run.
    pub memory: &'a GuestMemory,
    /// Completions that devices announced too late.
    pub late: u32,
    /// The turns of emulated CPUs.
    pub turns: Turns,
    /// The picture that was made of the screen, if one was.
    pub screen: Option<&'a Picture>,
    /// The project's folder for all that is built; a judge may keep pictures there.
    pub target: PathBuf,
}

impl<'a> Evidence<'a> {
    /// The evidence of a run that this program has made.
    ///
    /// # Errors
    /// The run left no trace.
    pub fn of(project: &Project, image: &'a Image, run: &'a Run) -> Result<Evidence<'a>> {
        Ok(Evidence {
            manifest: &image.manifest,
            unmanaged: image.unmanaged,
            trace: run.trace.as_ref().map_err(|error| anyhow::anyhow!("the run left no trace: {error:#}"))?,
            memory: &run.outcome.memory,
            late: run.late,
            turns: run.turns.clone(),
            screen: run.outcome.screen.as_ref().and_then(|screen| screen.as_ref().ok()),
            target: project.target.clone(),
        })
    }
}

/// Looks at the results of a run and prints lines; `false` if something is wrong.
pub type Judge = fn(&Evidence<'_>, &dyn Fn(&str)) -> Result<bool>;

/// The `main` of a judge: reads the kept run in the folder that its argument names.
pub fn main(judge: Judge) -> ExitCode {
    words::exit_code(judged(judge))
}

fn judged(judge: Judge) -> Result<bool> {
    let folder = std::env::args_os().nth(1).context("the folder of a kept run is missing")?;
    let kept = Kept::read(Path::new(&folder))?;
    let trace = Rings::of(&kept.programs.kernel)?.trace(&kept.memory)?;
    let evidence = Evidence {
        manifest: &kept.manifest,
        unmanaged: kept.unmanaged,
        trace: &trace,
        memory: &kept.memory,
        late: kept.late,
        turns: Turns::of(&kept.manifest.system, Some(kept.quantum)),
        screen: kept.screen.as_ref(),
        target: kept.target,
    };
    judge(&evidence, &words::say)
}

/// A judge that is built while the system runs.
pub struct Called {
    package: String,
    build: JoinHandle<Result<PathBuf>>,
}

impl Called {
    /// Begins to build the judge of a manifest, if the manifest names one.
    ///
    /// # Errors
    /// The project has no such package.
    pub fn of(project: &Project, manifest: &Manifest) -> Result<Option<Called>> {
        let judge = manifest.expectations.as_ref().and_then(|expected| expected.judge.clone());
        let Some(package) = judge else { return Ok(None) };
        let has = project.members.get(&package).is_some_and(|programs| programs.contains(&package));
        ensure!(
            has,
            "`judge = {package:?}`: {} has no package `{package}` with a program of that name",
            project.root.display()
        );
        let (root, name) = (project.root.clone(), package.clone());
        let build = std::thread::spawn(move || project::program_in(&root, &name));
        Ok(Some(Called { package, build }))
    }

    /// Lets the judge look at the run that is kept in `folder`: whether the results are right. Its lines go to standard output, or to standard error if
    /// `apart`.
    ///
    /// # Errors
    /// The judge could not be built or started.
    pub fn judge(self, folder: &Path, apart: bool) -> Result<bool> {
        let program =
            self.build.join().map_err(|_| anyhow!("the judge `{}` could not be waited for", self.package))??;
        let mut command = Command::new(program);
        command.arg(folder);
        if apart {
            command.stdout(std::io::stderr());
        }
        Ok(command.status().with_context(|| format!("the judge `{}` does not start", self.package))?.success())
    }
}

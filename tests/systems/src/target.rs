//! Systems of `tests/target` in QEMU, and the expectations of each manifest.

use anyhow::{Context, Result};
use fusee_host::build::Programs;
use fusee_host::qemu::Stimuli;
use fusee_host::system::{self, Image, Run, RunOptions, Workspace};
use fusee_host::turns::{self, Turns};
use fusee_host::{screen, toolchain};
use fusee_manifest::{Manifest, Profile};
use fusee_tester::echo;
use fusee_tester::expected::{compare, departure, explanations};

use crate::case::Found;
use crate::files;
use crate::known::{self, Inputs};
use crate::screens;

/// A system of one profile.
pub struct Case {
    /// The system.
    pub manifest: Manifest,
    /// How it runs.
    pub profile: Profile,
}

/// Runs one system, twice if `again` and if it is repeatable. Returns the differences from the expectations.
///
/// # Errors
/// The system cannot be built or run.
pub fn run_case(workspace: &Workspace, name: &str, case: &Case, programs: &Programs, again: bool) -> Result<Found> {
    run_and(workspace, name, case, programs, again, |run, _| Ok(run.late_words().unwrap_or_default()))
}

/// Runs one system as [`run_case`] does, and lets `look` see the run: it returns words, and may add problems.
///
/// # Errors
/// The system cannot be built or run, or `look` fails.
pub fn run_and(
    workspace: &Workspace,
    name: &str,
    case: &Case,
    programs: &Programs,
    again: bool,
    look: impl FnOnce(&Run, &mut Vec<String>) -> Result<String>,
) -> Result<Found> {
    let expected = case.manifest.expectations.as_ref().context("the manifest has no table `test`")?;
    let image = workspace.image_of(case.manifest.clone(), programs.clone(), case.profile, false)?;
    let options = RunOptions {
        stimuli: Stimuli {
            input: expected.input.clone(),
            screen: expected.screenshot.as_ref().map(|_| screen::STANDS.to_owned()),
            power_button: expected.power_button,
            echo: expected.echo.map(echo::host),
        },
        quantum: match expected.verdict {
            Some(_) => Turns::of(&case.manifest.system, expected.turns).quantum,
            None => turns::of_tests(&case.manifest.system, expected.turns),
        },
        ..RunOptions::quiet(expected.seconds.unwrap_or(60))
    };
    let check = || {
        let run = system::run(workspace, &image, &options)?;
        let mut problems = compare(&image, &run, expected);
        if let Some(name) = &expected.screenshot {
            problems.extend(screens::problems(name, run.outcome.screen.as_ref()));
        }
        if let Some(name) = &expected.files {
            problems.extend(files::problems(name, &image, &run));
        }
        if again && expected.repeatable && case.profile == Profile::Det && problems.is_empty() {
            problems.extend(departure(&run, &system::run(workspace, &image, &options)?));
        }
        if !problems.is_empty() {
            problems.extend(explanations(&image, &run));
        }
        let words = look(&run, &mut problems)?;
        Ok(Found::with_words(words, problems))
    };
    // Emulated in parallel, a run is never the same twice.
    if case.profile == Profile::Par {
        return check();
    }
    let mut inputs = inputs(workspace, name, &image, &options)?;
    inputs.add(&format!("{expected:?}"));
    known::unless(&inputs, check)
}

/// All that a run with counted instructions depends on.
///
/// # Errors
/// The image or the kernel cannot be read.
pub fn inputs(workspace: &Workspace, name: &str, image: &Image, options: &RunOptions<'_>) -> Result<Inputs> {
    let mut inputs = Inputs::of(name);
    inputs.file(&image.path)?;
    // Its symbols say where the trace is.
    inputs.file(&image.programs.kernel)?;
    inputs.add(&workspace.qemu);
    inputs.add(&toolchain::qemu_version(&workspace.qemu));
    inputs.add(&format!("{:?}", options.stimuli));
    inputs.add(&(options.quantum, options.until, &options.arguments));
    Ok(inputs)
}

//! The tests of a project: `cargo test` of its workspace, and each manifest with a table `[test]`.
//!
//! A system passes if its run is as `cargo xtask run` wants it and as its table `[test]` expects it, in each profile and variant that the table lists. A system
//! with scripts may have a golden trace beside its manifest.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use fusee_host::build::Kernel;
use fusee_host::decisive::Decisive;
use fusee_host::evidence::Called;
use fusee_host::project::{self, Project};
use fusee_host::qemu::Stimuli;
use fusee_host::system::{self, DEFAULT_BOARD, Image, Run, RunOptions, Workspace, profile_name};
use fusee_host::turns::Turns;
use fusee_host::{meter, toolchain};
use fusee_manifest::{Expectations, Manifest, ManifestErrors, Profile, Reason, Variant};

use crate::case::{Case, Found, Kind, Needs};
use crate::echo;
use crate::expected::{compare, departure, difference, explanations};
use crate::golden;

/// The folder of a project's test systems.
const FOLDER: &str = "tests";
/// The name of the check that runs tests on the host.
pub const HOST: &str = "host::cargo test";
/// Seconds of a run, unless its manifest says otherwise.
const SECONDS: u64 = 60;

/// The choice of tests.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Boards in place of those that manifests name.
    pub boards: Vec<String>,
    /// Only runs of this profile.
    pub profile: Option<Profile>,
    /// Whether golden traces are written instead of compared.
    pub bless: bool,
    /// Whether missing programs are installed.
    pub install: bool,
    /// The filter of the runner.
    pub filter: Option<String>,
}

/// The name of the project around the current folder: that of its folder.
///
/// # Errors
/// There is no project.
pub fn name() -> Result<String> {
    let root = Project::here()?.root;
    Ok(root.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// All tests of the project around the current folder.
///
/// # Errors
/// There is no project, no compiler or no emulator.
pub fn cases(choice: &Choice) -> Result<Vec<Case>> {
    let workspace = Workspace { kernel: Kernel::Asked, ..Workspace::here(choice.install)? };
    let mut cases = vec![on_host(&workspace.project)];
    let boards: Vec<Option<&str>> = match choice.boards.is_empty() {
        true => vec![None],
        false => choice.boards.iter().map(|board| Some(board.as_str())).collect(),
    };
    for board in boards {
        let workspace = Arc::new(workspace.clone().on(board, choice.install));
        for path in manifests(&workspace.project)? {
            systems(&workspace, &path, choice, &mut cases);
        }
    }
    Ok(cases)
}

/// The manifests of a project: that of its system, and those of its folder of tests.
fn manifests(project: &Project) -> Result<Vec<PathBuf>> {
    let own = project.root.join(&project.system);
    let mut found: Vec<PathBuf> = own.exists().then_some(own).into_iter().collect();
    let folder = project.root.join(FOLDER);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    let mut tests = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            tests.push(path);
        }
    }
    tests.sort();
    found.extend(tests);
    Ok(found)
}

/// Tests on the host, as one check.
fn on_host(project: &Project) -> Case {
    let root = project.root.clone();
    let body = move || {
        let mut command = project::cargo();
        command.args(["test", "--workspace", "--quiet"]).current_dir(root);
        // Cargo prints nothing until all tests are built, which takes minutes at first.
        eprintln!("running `cargo test`");
        let output = meter::output(&mut command).context("cargo does not start")?;
        let [printed, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        if !output.status.success() {
            return Ok(Found::from(vec![format!("{}{}", printed.trim_start(), said.trim_end())]));
        }
        Ok(Found::with_words(format!("{} passed", passed(&printed)), Vec::new()))
    };
    Case::new(HOST, Kind::Host, body).needs(Needs::Cores)
}

/// The tests that passed, by the last lines of each program of tests.
fn passed(printed: &str) -> u64 {
    let results = printed.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.filter_map(|result| result.split(' ').next()?.parse::<u64>().ok()).sum()
}

/// One run of one system.
struct Test {
    manifest: Manifest,
    profile: Profile,
    /// Where its golden trace is.
    golden: PathBuf,
    bless: bool,
}

/// All runs of the system of one manifest.
fn systems(workspace: &Arc<Workspace>, path: &Path, choice: &Choice, cases: &mut Vec<Case>) {
    let root = &workspace.project.root;
    let shown = path.strip_prefix(root).unwrap_or(path).with_extension("").display().to_string();
    let on = workspace.board.as_deref().filter(|board| *board != DEFAULT_BOARD);
    let name = |profile: Profile, variant: &Variant| {
        let board = on.map_or_else(String::new, |board| format!("{board}::"));
        let words = variant.to_string();
        let varied = if words.is_empty() { words } else { format!(".{words}") };
        format!("{}::{board}{shown}{varied}", profile_name(profile))
    };
    let of_board = |variant: &Variant| Variant { board: workspace.board.clone(), ..variant.clone() };
    let plain = Variant::default();
    let unreadable = |error: &anyhow::Error| {
        let (name, words) = (name(Profile::Det, &plain), format!("{error:#}"));
        match lacks(error) {
            Some(why) => Case::skipped(name, Kind::Det, why),
            None => Case::of(name, Kind::Det, move || Ok(vec![words])),
        }
    };
    let manifest = match system::read_variant(root, path, &of_board(&plain)) {
        Ok(manifest) => manifest,
        Err(error) => return cases.push(unreadable(&error)),
    };
    let Some(expected) = &manifest.expectations else {
        // The system of a project need not be tested; a file among tests that tests nothing is a mistake.
        if *path != root.join(&workspace.project.system) {
            let words = format!("{} has no table `[test]`, so nothing is expected of it", manifest.file.display());
            cases.push(Case::of(name(Profile::Det, &plain), Kind::Det, move || Ok(vec![words])));
        }
        return;
    };
    let variants = if expected.variants.is_empty() { vec![plain.clone()] } else { expected.variants.clone() };
    for variant in variants {
        let manifest = match system::read_variant(root, path, &of_board(&variant)) {
            Ok(manifest) => manifest,
            Err(error) => {
                cases.push(unreadable(&error));
                continue;
            }
        };
        let wanted = |profile: &Profile| choice.profile.is_none_or(|wanted| wanted == *profile);
        for profile in expected.profiles.iter().copied().filter(wanted) {
            let name = name(profile, &variant);
            let lack = lack(workspace, &manifest, profile, &name, choice);
            if let Some(why) = lack {
                cases.push(Case::skipped(name, Kind::Det, why));
                continue;
            }
            let words = variant.to_string();
            let golden = match words.is_empty() {
                true => path.with_extension("trace"),
                false => path.with_extension(format!("{words}.trace")),
            };
            let test = Test { manifest: manifest.clone(), profile, golden, bless: choice.bless };
            let workspace = Arc::clone(workspace);
            let (kind, needs) = match profile {
                Profile::Par => (Kind::Par, Needs::Cores),
                Profile::Det => (Kind::Det, Needs::Core),
            };
            cases.push(Case::new(name, kind, move || test.run(&workspace)).needs(needs));
        }
    }
}

/// The reason why a system is not run, if it cannot be or was not asked for.
fn lack(workspace: &Workspace, manifest: &Manifest, profile: Profile, name: &str, choice: &Choice) -> Option<String> {
    let is_long = manifest.expectations.as_ref().is_some_and(|expected| expected.campaign);
    if is_long && choice.filter.as_deref() != Some(name) {
        return Some(format!("large, and run by its name alone: `cargo xtask test {name}`"));
    }
    toolchain::too_old(&workspace.qemu, &manifest.system.board)
        .or_else(|| system::lacks(workspace, &manifest.system, profile))
}

/// The reason why a board cannot run a system, if its manifest was refused for nothing else.
#[must_use]
pub fn lacks(error: &anyhow::Error) -> Option<String> {
    let errors = error.downcast_ref::<ManifestErrors>()?;
    let is_lack = |error: &fusee_manifest::ManifestError| matches!(error.reason, Reason::BoardLacks { .. });
    errors.0.iter().all(is_lack).then(|| errors.0[0].reason.to_string())
}

impl Test {
    /// Runs the system: its problems.
    fn run(self, workspace: &Workspace) -> Result<Found> {
        let expected = self.manifest.expectations.clone().context("the manifest has no table `test`")?;
        ensure!(
            expected.screenshot.is_none(),
            "`screenshot` names a picture of Fusee's own tests: let a `judge` look at the screen"
        );
        ensure!(expected.files.is_none(), "`files` names files of Fusee's own tests: let a `judge` look at the disk");
        // The files of the run are removed with its folder.
        let (workspace, _folder) = workspace.clone().in_folder()?;
        let kernel = if expected.self_check { Kernel::Checked } else { workspace.kernel };
        let workspace = Workspace { kernel, ..workspace };
        let judge = Called::of(&workspace.project, &self.manifest)?;
        let image = workspace.image_of_manifest(self.manifest.clone(), self.profile, false)?;
        let options = RunOptions {
            stimuli: Stimuli {
                input: expected.input.clone(),
                screen: None,
                power_button: expected.power_button,
                echo: expected.echo.map(echo::host),
            },
            quantum: Turns::of(&image.manifest.system, expected.turns).quantum,
            decisive: Decisive::of(&image.manifest.system, Some(&expected), false),
            ..RunOptions::quiet(expected.seconds.unwrap_or(SECONDS))
        };
        let run = system::run(&workspace, &image, &options)?;
        let mut problems = judged(&image, &run, &expected);
        problems.extend(compare(&image, &run, &expected));
        if self.profile == Profile::Det {
            problems.extend(self.golden(&run)?);
            if expected.repeatable && problems.is_empty() {
                problems.extend(departure(&run, &system::run(&workspace, &image, &options)?));
            }
        }
        if let Some(judge) = judge {
            let left = fusee_host::kept::keep_run(&workspace.project, &image, &run)?;
            if !judge.judge(&left, true)? {
                problems.push("the judge of this system finds its results wrong".to_owned());
            }
        }
        if !problems.is_empty() {
            problems.extend(explanations(&image, &run));
        }
        let words: Vec<String> = run.late_words().into_iter().chain(system::broken_unnoticed(&image, &run)).collect();
        Ok(Found::with_words(words.join("; "), problems))
    }

    /// How the trace differs from the golden one, if there is one; it is written instead if that is asked for.
    fn golden(&self, run: &Run) -> Result<Option<String>> {
        let is_there = self.golden.exists();
        if !golden::has_one(&self.manifest) || !(is_there || self.bless) {
            return Ok(None);
        }
        let Ok(trace) = &run.trace else { return Ok(None) };
        let seen = match golden::canonical(&self.manifest, trace) {
            Ok(seen) => seen,
            // Without a golden trace none is missed.
            Err(_) if !is_there => return Ok(None),
            Err(off) => return Ok(Some(off.to_string())),
        };
        let shown = self.golden.display();
        if seen.is_empty() && is_there {
            return Ok(Some(format!("{shown}: no scripted task does anything from `start` on")));
        }
        if seen.is_empty() {
            return Ok(None);
        }
        if self.bless {
            std::fs::write(&self.golden, &seen).with_context(|| shown.to_string())?;
            return Ok(None);
        }
        let expected = std::fs::read_to_string(&self.golden).with_context(|| shown.to_string())?;
        Ok(difference(&expected, &seen)
            .map(|text| format!("the trace (+) and {shown} (-) differ; `--bless` writes it anew:\n{text}")))
    }
}

/// The problems that `cargo xtask run` would find, unless the table lists them all.
fn judged(image: &Image, run: &Run, expected: &Expectations) -> Vec<String> {
    let Ok(trace) = &run.trace else { return Vec::new() };
    if expected.verdict.is_some() {
        return Vec::new();
    }
    let verdict = run.watch(trace, &image.manifest.system).verdict(Some(expected));
    // Emulated in parallel, time depends on the host.
    let misses = verdict.misses.into_iter().filter(|_| image.profile == Profile::Det);
    verdict.ends.into_iter().chain(misses).chain(verdict.unknown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_of_all_programs_are_counted() {
        let printed = "\nrunning 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 0 ignored\n\nrunning 1 test\n.\ntest result: ok. 1 passed; 0 \
                       failed; 0 ignored\n";
        assert_eq!((passed(printed), passed("")), (3, 0));
    }
}

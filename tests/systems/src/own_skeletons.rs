//! Projects outside the repository made by `cargo xtask new --with`: their tests pass at once, and find faults that are planted in them.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use fusee_host::project::Project;

use crate::command::as_tool;
use crate::own_device;
use crate::own_project::{Ran, own};

/// Name of the check, as `cargo xtask test` has it.
pub const CHECK: &str = "projects made with skeletons";

/// All skeletons. Those of one project are given by one option and by several.
const SKELETONS: [&str; 4] = ["server", "driver", "gpu", "graph"];

/// A fault in a file of each skeleton, and a part of the message that the project's test then prints.
const FAULTS: [(&str, &str, &str, &str); 4] = [
    ("src/bin/filter.rs", "::<u64>() / 4", "::<u64>() / 5", "`sensor: the mean is 108` 0 times"),
    ("src/bin/clock.rs", "alarm).write(second)", "alarm).write(second + 1)", "`waker: the alarm rang 0 s"),
    (
        "kernels/src/lib.rs",
        "wrapping_mul(self.by)",
        "wrapping_mul(self.by + 1)",
        "`scaler: 512 of 512 numbers are right` 0 times",
    ),
    ("src/bin/camera.rs", "job.number + word", "job.number * word", "`viewer: picture 5 is right` 0 times"),
];

/// Makes a project with all skeletons, and one with each, tests them as their owner would, and plants faults. Returns the problems.
///
/// # Errors
/// A step that could not be tried.
pub fn check(fusee: &Project) -> Result<Vec<String>> {
    let place = fusee.target.join("outside-skeletons");
    if place.exists() {
        std::fs::remove_dir_all(&place)?;
    }
    let mut problems = Vec::new();
    let all = place.join("all/flight");
    make(fusee, &all, &["--with", "server,driver", "--with", "gpu", "--with", "graph"])?;
    let ran = tested(&all, &place, &[])?;
    if ran.status != 0 || !ran.all().contains("test det::system") {
        problems.push(format!("all skeletons: {}", ran.all()));
        return Ok(problems);
    }
    for (file, from, to, words) in FAULTS {
        let path = all.join(file);
        let text = std::fs::read_to_string(&path).with_context(|| file.to_owned())?;
        ensure!(text.matches(from).count() == 1, "{file} has `{from}` otherwise");
        std::fs::write(&path, text.replace(from, to))?;
        let ran = tested(&all, &place, &["det::system"])?;
        if ran.status == 0 || !ran.all().contains(words) {
            problems.push(format!("a fault in {file} is not found ({words}): {}", ran.all()));
        }
        std::fs::write(&path, text)?;
    }
    for skeleton in SKELETONS {
        let folder = place.join(skeleton).join("flight");
        make(fusee, &folder, &["--with", skeleton])?;
        let ran = tested(&folder, &place, &["det::system"])?;
        if ran.status != 0 || !ran.all().contains("test det::system") {
            problems.push(format!("`--with {skeleton}`: {}", ran.all()));
        }
        if skeleton == "driver" {
            problems.extend(own_device::check(&fusee.root, &folder, &|arguments| run_in(&folder, &place, arguments))?);
        }
    }
    if problems.is_empty() {
        std::fs::remove_dir_all(place)?;
    }
    Ok(problems)
}

fn make(fusee: &Project, folder: &Path, with: &[&str]) -> Result<()> {
    let folder = folder.display().to_string();
    let made = own(&fusee.root, &[&["new", &folder], with].concat())?;
    ensure!(made.status == 0, "`cargo xtask new {with:?}` failed: {}", made.all());
    Ok(())
}

/// Tests a project.
fn tested(folder: &Path, place: &Path, arguments: &[&str]) -> Result<Ran> {
    run_in(folder, place, &[&["test", "--no-install"], arguments].concat())
}

/// Runs the tool in a project. All have one folder of built files, so that the crates that they share are built once.
fn run_in(folder: &Path, place: &Path, arguments: &[&str]) -> Result<Ran> {
    let mut command = as_tool()?;
    command.args(arguments).current_dir(folder);
    Ran::of(command.env("CARGO_TARGET_DIR", place.join("target")))
}

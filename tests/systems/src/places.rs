//! The place of the sources: a copy of this repository in another folder builds the same image, byte for byte.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fusee_host::project::{KEPT_DIR, Project};

use crate::command::as_tool;
use crate::own_project::Ran;

/// Name of the check.
pub const CHECK: &str = "an image does not depend on the place of its sources";

/// A small system: a kernel, three tasks and a driver.
const SYSTEM: &str = "tests/target/a_console_that_dies_prints_again_what_comes_after.toml";

/// Builds a system here and in a copy at another place, and compares the images. Returns the problems.
///
/// # Errors
/// A copy cannot be made, or an image cannot be built.
pub fn check(fusee: &Project) -> Result<Vec<String>> {
    let place = fusee.target.join("elsewhere");
    if place.exists() {
        std::fs::remove_dir_all(&place)?;
    }
    let copy = place.join("a-copy-whose-name-is-longer/fusee");
    clone(&fusee.root, &copy)?;
    let [here, there] = [&fusee.root, &copy].map(|root| image(root, &place));
    let (here, there) = (here?, there?);
    let mut problems = Vec::new();
    if here != there {
        let differ = here.iter().zip(&there).filter(|(one, other)| one != other).count();
        problems.push(format!(
            "images of {} and {} bytes differ in {differ} of those that both have",
            here.len(),
            there.len()
        ));
    }
    let mut names = vec![fusee.root.clone()];
    names.extend(std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.components().count() > 1));
    for name in names.iter().filter_map(|name| name.to_str()) {
        if here.windows(name.len()).any(|part| part == name.as_bytes()) {
            problems.push(format!("the image has the path {name}"));
        }
    }
    if problems.is_empty() {
        // A kernel and its crates, without a further use.
        std::fs::remove_dir_all(place)?;
    }
    Ok(problems)
}

/// The image of the system, built by the repository in `root`.
fn image(root: &Path, kept: &Path) -> Result<Vec<u8>> {
    let mut command = as_tool()?;
    // The tool takes the folder of its package for its own place.
    command.env("CARGO_MANIFEST_DIR", root.join("tests/systems")).env(KEPT_DIR, kept.join("kept"));
    command.env_remove("CARGO_TARGET_DIR").args(["build", "--no-install", SYSTEM]).current_dir(root);
    let built = Ran::of(&mut command)?;
    ensure!(built.status == 0, "`cargo xtask build` in {} failed: {}", root.display(), built.all());
    let path = built.all().lines().rfind(|line| line.ends_with(".img")).map(str::to_owned);
    let path = path.with_context(|| format!("no image is named: {}", built.all()))?;
    std::fs::read(&path).context(path)
}

/// Copies all files in the list of git, as they are now.
fn clone(root: &Path, copy: &Path) -> Result<()> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().context("git")?;
    ensure!(output.status.success(), "git lists no files: {}", String::from_utf8_lossy(&output.stderr));
    let list = String::from_utf8(output.stdout)?;
    for file in list.split_terminator('\0') {
        let (from, to) = (root.join(file), copy.join(file));
        // A removed file without a commit is listed.
        if from.exists() {
            std::fs::create_dir_all(to.parent().context("a file in a folder")?)?;
            std::fs::copy(&from, &to).with_context(|| file.to_owned())?;
        }
    }
    Ok(())
}

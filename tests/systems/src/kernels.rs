//! Times of GPU kernels, measured twice.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use fusee_host::kernels::{keep, of, read};
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_host::turns::Turns;
use fusee_manifest::Profile;
use fusee_manifest::times::{KernelTime, TimeTable};

/// The name of a check.
pub const CHECK: &str = "times of kernels, measured twice";
/// A system that runs by measured times, with a block that takes longer, and the differences of a system that measures them.
const SYSTEM: &str = "tests/target/a_block_that_takes_longer_than_was_measured_costs_its_own_launch.toml";
const LONG: (&str, &str) = ("long = 6", "long = 0");
/// The percentage by which a compiler may change the instructions of a block.
const COMPILER: u64 = 20;

/// Measures the times of a kernel twice. Returns faults in the second table, in the checked-in table, and in the consequences.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(workspace.root.join(SYSTEM))?;
    let text = text.replace(LONG.0, LONG.1);
    ensure!(text.contains(LONG.1), "`{}` is not in {SYSTEM}", LONG.0);
    let (path, file) = measured(workspace, "first", &text)?;
    let (_, again) = measured(workspace, "second", &text)?;
    let kept = workspace.root.join(SYSTEM).with_file_name(file.file_name().context("the name of the file")?);
    let (table, again, kept) = (read(&file)?, read(&again)?, read(&kept)?);
    let mut problems = Vec::new();
    if table != again {
        problems.push("a second run measured something else".to_owned());
    }
    let classes = |table: &TimeTable| table.kernels.iter().map(|one| (one.identity, one.class)).collect::<Vec<_>>();
    let is_near = |(new, old): (&KernelTime, &KernelTime)| {
        100 * new.longest.0.abs_diff(old.longest.0) <= COMPILER * old.longest.0
    };
    if classes(&table) != classes(&kept) || !table.kernels.iter().zip(&kept.kernels).all(is_near) {
        problems.push(format!("measured: {:?}, and checked in: {:?}", table.kernels, kept.kernels));
    }
    // The measured times prove the system, and a large margin on them does not.
    workspace.manifest(&path)?;
    std::fs::write(&file, TimeTable { margin: 900, ..table }.text())?;
    match workspace.manifest(&path) {
        Ok(_) => problems.push("ten times what was measured proves as much".to_owned()),
        Err(error) if format!("{error:#}").contains("hold engine `ee` for") => {}
        Err(error) => problems.push(format!("with ten times what was measured: {error:#}")),
    }
    Ok(problems)
}

/// Measures the system of `text` in a folder of that name: its manifest, and the file that was written.
fn measured(workspace: &Workspace, name: &str, text: &str) -> Result<(PathBuf, PathBuf)> {
    let folder = workspace.fusee.target.join("measured").join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("system.toml");
    std::fs::write(&path, text)?;
    let image = workspace.image_of_manifest(workspace.manifest_that_measures(&path)?, Profile::Det, false)?;
    let system = &image.manifest.system;
    let file = system.devices.iter().find_map(|device| device.time_file.as_ref()).context("no device names a file")?;
    let quantum = Turns::of(system, None).quantum;
    let run = system::run(workspace, &image, &RunOptions { quantum, ..RunOptions::quiet(60) })?;
    keep(&image.manifest, &workspace.root, &of(system, &run.outcome)?)?;
    Ok((path, folder.join(file)))
}

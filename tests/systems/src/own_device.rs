//! A device that a project adds to its board: driven, tested and watched like one of the board's own.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::own_project::Ran;

/// The sources of the page `docs/first-driver.md`.
const EXAMPLES: [(&str, &str); 2] = [("dice.rs", "src/bin/dice.rs"), ("dice.toml", "tests/dice.toml")];

/// Adds the example to the project `flight`, which has drivers, and uses it by each command that starts QEMU. `run` runs the tool there. Returns the problems.
///
/// # Errors
/// A step that could not be tried.
pub fn check(fusee: &Path, folder: &Path, run: &dyn Fn(&[&str]) -> Result<Ran>) -> Result<Vec<String>> {
    let workspace = std::fs::read_to_string(folder.join("Cargo.toml"))?;
    let (driver, plain) = ("drivers/framework\" }", "drivers/framework\", features = [\"virtio\"] }");
    ensure!(workspace.matches(driver).count() == 1, "a new project depends on the framework otherwise: {workspace}");
    std::fs::write(folder.join("Cargo.toml"), workspace.replace(driver, plain))?;
    std::fs::create_dir_all(folder.join("tests"))?;
    for (from, to) in EXAMPLES {
        let from = fusee.join("docs/examples").join(from);
        std::fs::copy(&from, folder.join(to)).with_context(|| from.display().to_string())?;
    }
    let manifest = "tests/dice.toml";
    let mut problems = Vec::new();
    let mut expect = |arguments: &[&str], status: i32, words: &[&str]| -> Result<()> {
        let ran = run(arguments)?;
        let missing: Vec<_> = words.iter().filter(|words| !ran.all().contains(**words)).collect();
        if ran.status != status || !missing.is_empty() {
            problems.push(format!("{arguments:?} ended with {}, without {missing:?}:\n{}", ran.status, ran.all()));
        }
        Ok(())
    };
    expect(&["test", "--no-install", "det::tests/dice"], 0, &["test det::tests/dice"])?;
    let reached = "`dice` can reach all memory: nothing translates the addresses that it gives to `entropy0`";
    expect(&["run", "--no-install", "--manifest", manifest], 0, &["dice: 20 rolls, each from 1 to 6", reached])?;
    // The device is one of the manifest's board, and of no other.
    let other = &["run", "--no-install", "--manifest", manifest, "--board", "virt-gicv2"];
    expect(other, 1, &["board `virt-gicv2` has no device `entropy0`"])?;
    // Without the device there are no registers behind the address.
    let text = std::fs::read_to_string(folder.join(manifest))?;
    std::fs::write(
        folder.join("tests/absent.toml"),
        text.replace("virtio-rng-device,rng=entropy0", "virtio-serial-device"),
    )?;
    expect(&["run", "--no-install", "--manifest", "tests/absent.toml"], 1, &["the region has the device: Absent"])?;
    Ok(problems)
}

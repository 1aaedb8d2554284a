//! Random launches of GPU kernels on the device model, as a campaign.
//!
//! Not here: the launches, and the comparison (`qemu/device-model/tests/all/launches.rs`).

use std::process::Command;

use anyhow::{Context, Result};
use fusee_campaigns::draws::{Draws, Wrong};

use crate::campaign::{Campaign, Outcome};
use fusee_host::system;
use fusee_host::toolchain::Toolchain;

/// Launches of the suite, which are a part of the tests on the host, and the large number of them.
pub const CAMPAIGN: Campaign = Campaign {
    name: "launches",
    question: "Does a GPU kernel write anything but what the same kernel writes as a plain function?",
    unit: "launches",
    budget: 100_000,
    large: 1_000_000,
    block: 100_000,
    draw,
};

/// Lets a test on the host draw these launches.
pub fn set(command: &mut Command, draws: Draws) {
    command.env("FUSEE_LAUNCHES", draws.count.to_string());
    command.env("FUSEE_LAUNCHES_SEED", draws.seed.to_string()).env("FUSEE_LAUNCHES_FIRST", draws.first.to_string());
}

/// Runs the test with other draws.
fn draw(draws: Draws) -> Result<Outcome> {
    let root = system::root()?;
    // The launches of a block are one sequence, so one that failed before is drawn with its whole block.
    let draws = Draws { count: draws.count.max(CAMPAIGN.block), ..draws };
    let mut command = Toolchain::find(&root, false)?.cargo("host", &[]);
    set(&mut command, draws);
    command.args([
        "test",
        "--quiet",
        "--package",
        "fusee-device-model",
        "--test",
        "all",
        "launches::random",
        "--",
        "--nocapture",
    ]);
    let output = command.current_dir(&root).output().context("cargo does not start")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains(" launches, ")).unwrap_or_default();
    if output.status.success() {
        let jobs = line.split(' ').nth(2).and_then(|right| right.parse().ok()).unwrap_or(0);
        return Ok(Outcome { systems: draws.count, jobs, wrong: Vec::new(), report: line.to_owned() });
    }
    let what = text + &String::from_utf8_lossy(&output.stderr);
    let wrong = vec![Wrong { seed: draws.seed, number: draws.first, what: what.clone() }];
    Ok(Outcome { systems: draws.count, jobs: 0, wrong, report: what })
}

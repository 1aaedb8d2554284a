//! Images that no tool of ours would make.

use std::path::Path;

use anyhow::{Context, Result};
use fusee_abi::image::{self, MAGIC};
use fusee_host::qemu::KERNEL_PANIC;
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_manifest::{Manifest, Profile};
use fusee_simulator::workload::Source;

use crate::dump;

/// The name of the check.
pub const CHECK: &str = "the kernel refuses an image that gives the interrupt controller away";

/// A place without a device, which the tool lets a region have.
const NOWHERE: u64 = 0x0b5a_5000;

/// The name of the check of images that are damaged.
pub const DAMAGED: &str = "the kernel refuses each packed system of which one bit is another";

/// Images with one bit flipped,
const FLIPS: usize = 120;
/// most of them near the start of the packed system, where its tables are.
const NEAR: (usize, usize) = (90, 6 << 10);

/// Where the packed system begins in an image, which ends with it.
pub fn packed(image: &[u8]) -> Result<usize> {
    image.windows(8).rposition(|bytes| bytes == MAGIC.to_le_bytes()).context("no packed system")
}

/// The kernel refuses a packed system that is not the one that was packed, and says so, with any bit changed.
pub fn check_damaged(workspace: &Workspace) -> Result<Vec<String>> {
    let text = "[system]\nname = \"damaged\"\nboard = \"virt\"\ncpus = 1\n[tasks.one]\nscript = [\"burn 1us\", \"shutdown\"]\nperiod = \"10ms\"\n\
                budget = \"1ms\"\nhandles = { system = \"system: shutdown\" }\n";
    let manifest = Manifest::parse(Path::new(DAMAGED), text)?;
    let programs = workspace.builder().programs(&[&manifest.system])?;
    let mut image = workspace.image_of(manifest, programs, Profile::Det, false)?;
    let bytes = std::fs::read(&image.path)?;
    let start = packed(&bytes)?;
    image.path.set_extension("damaged.img");
    let mut problems = Vec::new();
    let mut random = Source::new(1, 0);
    let mut draw = |below: usize| random.draw(0, below as u64 - 1) as usize;
    for number in 0..FLIPS {
        let room = if number < NEAR.0 { NEAR.1 } else { bytes.len() - start };
        let (at, bit) = (start + draw(room), draw(8));
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << bit;
        std::fs::write(&image.path, bytes)?;
        let run = system::run(workspace, &image, &RunOptions::quiet(60))?;
        let is_named = run.outcome.console.contains("packed system");
        if run.outcome.code != Some(KERNEL_PANIC) || !is_named {
            let (code, console) = (run.outcome.code, run.outcome.console);
            problems.push(format!("bit {bit} of byte {}: ended with {code:?}, console:\n{console}", at - start));
        }
    }
    Ok(problems)
}

/// The kernel refuses an image by itself that gives its own devices to a task.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let text = format!(
        "[system]\nname = \"gives_a_device_of_the_kernel_away\"\nboard = \"virt\"\ncpus = 1\n[tasks.thief]\nscript = [\"shutdown\"]\n\
         handles = {{ loot = \"region loot: read write\", system = \"system: shutdown\" }}\n[regions.loot]\nphysical = {NOWHERE:#x}\n\
         bytes = \"4KiB\"\ndevice = true\n"
    );
    let manifest = Manifest::parse(Path::new(CHECK), &text)?;
    let programs = workspace.builder().programs(&[&manifest.system])?;
    let owned = manifest.system.board.owned.clone();
    let mut image = workspace.image_of(manifest, programs, Profile::Det, false)?;
    let bytes = std::fs::read(&image.path)?;
    let mut problems = Vec::new();
    let mut look = |at: u64, wanted_code: i32, words: &str| -> Result<()> {
        let mut bytes = bytes.clone();
        for offset in (0..bytes.len() - 7).step_by(8) {
            if bytes[offset..offset + 8] == NOWHERE.to_le_bytes() {
                bytes[offset..offset + 8].copy_from_slice(&at.to_le_bytes());
            }
        }
        let start = packed(&bytes)?;
        image::seal(&mut bytes[start..]).context("no packed system")?;
        image.path.set_extension("spoilt.img");
        std::fs::write(&image.path, bytes)?;
        let options = RunOptions::quiet(60);
        let run = system::run(workspace, &image, &options)?;
        let told = run.outcome.console.contains(words);
        if run.outcome.code != Some(wanted_code) || !told {
            problems.push(format!("{at:#x}: code {:?}, console:\n{}", run.outcome.code, run.outcome.console));
        }
        if wanted_code == KERNEL_PANIC {
            problems.extend(dump::check_kernel(&image, &run)?);
        }
        Ok(())
    };
    look(NOWHERE, 0, "")?;
    for device in &owned {
        for at in [device.from, device.to - 0x1000] {
            look(at, KERNEL_PANIC, &format!("reaches {}, which is the kernel's", device.name))?;
        }
    }
    Ok(problems)
}

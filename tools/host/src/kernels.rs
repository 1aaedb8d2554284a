//! What kernels of accelerators ran for, as their devices have taken it down: beside what they said; and written to a file for those whose authors
//! do not know.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use fusee_accel_contract::{
    CONTROL_KERNELS, KERNEL_BLOCK, KERNEL_BYTES, KERNEL_CLASS, KERNEL_IDENTITY, KERNEL_LAUNCHES, KERNEL_NAME,
    KERNEL_RAN, KERNEL_SAID, KERNELS, timing,
};
use fusee_manifest::times::{KernelTime, TimeTable};
use fusee_manifest::{Manifest, Profile, Resolved, Time};

use crate::qemu::Outcome;
use crate::table::Table;
use crate::words::microseconds;
use crate::workspace::Workspace;

/// The measurements of launches of a kernel that are of one class: of the launch that ran for the largest part of what it said.
pub struct KernelRan {
    /// The device.
    pub device: String,
    /// The kernel.
    pub kernel: String,
    identity: u32,
    class: u32,
    launches: u32,
    /// Nanoseconds that its blocks ran for, and that it said; `None`: that was to be measured.
    ran: u64,
    said: Option<u64>,
    /// Nanoseconds of the longest block of all.
    block: u64,
}

/// Nanoseconds of other CPUs that are part of what a launch ran for: its client begins to wait meanwhile, and its driver.
const OTHERS: u64 = 6_000;

impl KernelRan {
    /// Nanoseconds that it may run for: an eighth of what it said, and of what it takes to start a launch.
    fn may(said: u64) -> u64 {
        said.saturating_add(timing::EXECUTION_SETUP) / timing::INSTRUCTION
    }

    /// Whether it ran for longer.
    pub fn problem(&self) -> Option<String> {
        let KernelRan { device, kernel, ran, .. } = self;
        let said = self.said?;
        (*ran > Self::may(said) + OTHERS).then(|| {
            format!(
                "a launch of `{kernel}` on `{device}` ran for {ran} ns, and said that it takes {said} ns: on an emulated engine it may run for an eighth \
                 of that and of the setup. Turns of CPUs that compute meanwhile are part of it"
            )
        })
    }
}

/// The measurements of all kernels that were launched.
pub fn of(system: &Resolved, outcome: &Outcome) -> Result<Vec<KernelRan>> {
    let mut all = Vec::new();
    for device in system.devices.iter().filter(|device| device.processor.is_none() && device.firmware.is_some()) {
        for place in 0..KERNELS as u64 {
            let bytes =
                outcome.memory.read(device.control + CONTROL_KERNELS + KERNEL_BYTES * place, KERNEL_BYTES as usize)?;
            let word = |at: u64| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at as usize + byte]));
            let number = |at: u64| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
            let launches = word(KERNEL_LAUNCHES);
            if launches > 0 {
                let name = String::from_utf8_lossy(&bytes[KERNEL_NAME as usize..]);
                all.push(KernelRan {
                    device: device.name.clone(),
                    kernel: name.trim_end_matches('\0').to_owned(),
                    identity: word(KERNEL_IDENTITY),
                    class: word(KERNEL_CLASS),
                    launches,
                    ran: number(KERNEL_RAN),
                    said: Some(number(KERNEL_SAID)).filter(|said| *said != fusee_compute::MEASURED),
                    block: number(KERNEL_BLOCK),
                });
            }
        }
    }
    Ok(all)
}

/// The table of what they said, and ran for.
pub fn table(kernels: &[KernelRan]) -> Table {
    let mut table =
        Table::new(["kernel", "device", "launches", "said us", "ran us", "of an eighth"]).left(&["kernel", "device"]);
    for kernel in kernels {
        let percent = |said: u64| u128::from(kernel.ran) * 100 / u128::from(KernelRan::may(said));
        table.add_row([
            kernel.kernel.clone(),
            kernel.device.clone(),
            kernel.launches.to_string(),
            kernel.said.map_or_else(|| "-".into(), microseconds),
            microseconds(kernel.ran),
            kernel.said.map_or_else(|| "-".into(), |said| format!("{} %", percent(said))),
        ]);
    }
    table
}

/// The manifest of a run that measures times, if one can.
pub fn manifest(workspace: &Workspace, path: &Path, profile: Profile) -> Result<Manifest> {
    let manifest = workspace.manifest_that_measures(path)?;
    let names_files = manifest.system.devices.iter().any(|device| device.time_file.is_some());
    ensure!(
        names_files,
        "`--measure`: no device of this system says by `times` which file what is measured belongs to"
    );
    ensure!(profile == Profile::Det, "`--measure`: with `par` time is what the host takes");
    Ok(manifest)
}

/// Reads a table of times.
///
/// # Errors
/// The file cannot be read, or is no such table.
pub fn read(path: &Path) -> Result<TimeTable> {
    TimeTable::read(path).map_err(anyhow::Error::msg).with_context(|| path.display().to_string())
}

/// Writes what was measured to the files that devices name: what there is to say of that.
pub fn keep(manifest: &Manifest, root: &Path, all: &[KernelRan]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for device in &manifest.system.devices {
        let Some(file) = &device.time_file else { continue };
        let own = || all.iter().filter(|one| one.device == device.name);
        ensure!(
            own().count() < KERNELS,
            "`{}`: launches of {KERNELS} classes or more, of which the first were measured. A kernel says by `class` which of its launches take the same time",
            device.name
        );
        let time = |one: &KernelRan| KernelTime {
            name: one.kernel.clone(),
            identity: one.identity,
            class: one.class,
            launches: one.launches,
            longest: Time(one.block),
        };
        let measured: Vec<KernelTime> = own().filter(|one| one.said.is_none()).map(time).collect();
        if measured.is_empty() {
            lines.push(format!("`{}`: no launch of a kernel without a time of its own ended well", device.name));
            continue;
        }
        let path = root.join(manifest.file.with_file_name(file));
        let mut times = if path.exists() { read(&path)? } else { TimeTable::default() };
        let mut table =
            Table::new(["kernel", "class", "launches", "longest block us", "taken for us"]).left(&["kernel"]);
        for one in &measured {
            let (longest, taken) = (microseconds(one.longest.0), microseconds(times.block(one)));
            table.add_row([one.name.clone(), one.class.to_string(), one.launches.to_string(), longest, taken]);
        }
        times.update(measured);
        std::fs::write(&path, times.text()).with_context(|| path.display().to_string())?;
        lines.push(table.to_string());
        lines.push(format!(
            "written: {}, with a margin of {} %",
            manifest.file.with_file_name(file).display(),
            times.margin
        ));
    }
    Ok(lines)
}

//! Builds kernel, firmware and tasks, and joins them into one bootable image.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use fusee_abi::image::feature;
use fusee_manifest::{Binaries, Manifest, Memory, PackOptions, PackedSystem, Resolved};
use object::{Object, ObjectSegment, ObjectSymbol};
use serde_json::Value;

use crate::toolchain::{KERNEL_TARGET, TASK_TARGET, Toolchain};

/// The kernel runs this far above its physical addresses.
pub const KERNEL_OFFSET: u64 = 0xffff_ff80_0000_0000;
/// The package of the kernel, and its program.
pub const KERNEL_PACKAGE: &str = "fusee-kernel";
/// Where the kernel's image ends and the packed system begins, by the linker script.
const IMAGE_END: &str = "__image_end";
const PAGE: usize = 4096;
/// Says how functions save registers, for backtraces. It is not loaded; but the compiler may choose a few instructions otherwise, so the
/// kernel that is measured goes without.
const FRAMES: &str = "-Cforce-unwind-tables=yes";

/// What building needs to know.
pub struct Builder<'a> {
    /// The repository.
    pub root: &'a Path,
    /// The compiler.
    pub toolchain: &'a Toolchain,
    /// Which kernel.
    pub kernel: Kernel,
    /// With which features.
    pub features: Features,
}

/// Which features the kernel has, of those that systems may do without (`image::feature`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Features {
    /// What the systems ask for.
    Asked,
    /// All: what is measured, and what all tests run on.
    All,
}

/// How the kernel is built.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kernel {
    /// With its trace.
    Traced,
    /// Without: its paths are as short as they get.
    Bare,
    /// With its trace, and all its invariants checked after every trap.
    Checked,
}

/// Programs of one system, as ELF files.
#[derive(Clone)]
pub struct Programs {
    /// The kernel.
    pub kernel: PathBuf,
    /// Tasks and firmware, by the names the manifest uses.
    pub binaries: BTreeMap<String, PathBuf>,
}

impl Builder<'_> {
    /// Builds all programs of `systems`.
    pub fn programs(&self, systems: &[&Resolved]) -> Result<Programs> {
        let features = match self.features {
            Features::Asked => systems.iter().fold(0, |features, system| features | system.features()),
            Features::All => feature::ALL,
        };
        let kernel = self.kernel(features)?;
        let mut binaries = self.tasks(systems)?;
        let firmwares: BTreeSet<&str> =
            systems.iter().flat_map(|system| &system.devices).map(|device| device.firmware.as_str()).collect();
        for firmware in firmwares {
            binaries.insert(firmware.to_owned(), self.softfloat(firmware, &[])?);
        }
        Ok(Programs { kernel, binaries })
    }

    /// Builds the kernel with these features, bits of [`feature`].
    pub fn kernel(&self, features: u32) -> Result<PathBuf> {
        let mut names: Vec<&str> = feature::names(features).collect();
        match self.kernel {
            Kernel::Traced => names.push("trace"),
            Kernel::Bare => {}
            Kernel::Checked => names.extend(["trace", "check"]),
        }
        let mut arguments = vec!["--no-default-features".to_owned(), format!("--features={}", names.join(","))];
        if self.kernel == Kernel::Checked {
            // Invariants are long loops, and there is no limit to its size.
            arguments.push("--config=profile.release.package.fusee-kernel-core.opt-level=3".to_owned());
        }
        let built = self.softfloat(KERNEL_PACKAGE, &arguments)?;
        // The next kernel of another kind goes to the same place.
        let kept = built.with_file_name(format!("{KERNEL_PACKAGE}-{features:02x}"));
        std::fs::copy(&built, &kept).with_context(|| kept.display().to_string())?;
        Ok(kept)
    }

    /// Builds a program without floating point; its build script names the linker script.
    fn softfloat(&self, package: &str, arguments: &[String]) -> Result<PathBuf> {
        let flags = match self.kernel {
            // Traces are written in very many places. What is measured is a kernel without them, so this one is for size.
            Kernel::Traced => vec!["-Cllvm-args=-inline-threshold=100".to_owned(), FRAMES.to_owned()],
            Kernel::Checked => vec![FRAMES.to_owned()],
            Kernel::Bare => Vec::new(),
        };
        let mut command = self.toolchain.cargo(KERNEL_TARGET, &flags);
        command.args(["build", "--release", "--target", KERNEL_TARGET, "--package", package, "--bin", package]);
        command.args(arguments);
        self.finish(&mut command);
        check(&mut command, package)?;
        Ok(self.target_dir().join(KERNEL_TARGET).join("release").join(package))
    }

    /// Builds the programs of tasks: all in one go, but those whose names another package of the workspace has, too.
    fn tasks(&self, systems: &[&Resolved]) -> Result<BTreeMap<String, PathBuf>> {
        let tasks = systems.iter().flat_map(|system| &system.tasks);
        let wanted: BTreeSet<&str> = tasks.map(|task| task.binary.as_str()).collect();
        if wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let members = members(&self.toolchain.cargo("host", &[]), self.root)?;
        let script = self.root.join("linker/task.ld");
        let mut binaries = BTreeMap::new();
        for step in steps(&wanted, &members)? {
            let flags = [format!("-Clink-arg=-T{}", script.display()), FRAMES.to_owned()];
            let mut command = self.toolchain.cargo(TASK_TARGET, &flags);
            command.args(["build", "--release", "--target", TASK_TARGET]);
            for (package, program) in &step.programs {
                command.args(["--package", package, "--bin", program]);
            }
            let target_dir = step.own.map_or(self.target_dir(), |package| self.target_dir().join("of").join(package));
            command.current_dir(self.root).arg("--quiet").arg("--target-dir").arg(&target_dir);
            check(&mut command, "the tasks")?;
            for (package, program) in step.programs {
                let path = target_dir.join(TASK_TARGET).join("release").join(program);
                binaries.insert(format!("{package}/{program}"), path);
            }
        }
        Ok(binaries)
    }

    /// Builds a plugin for QEMU, for the host; `library` is the name of the crate.
    pub fn plugin(&self, package: &str, library: &str) -> Result<PathBuf> {
        let mut command = self.toolchain.cargo("host", &[]);
        command.args(["build", "--release", "--package", package]);
        self.finish(&mut command);
        check(&mut command, package)?;
        let name = format!("{}{library}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        Ok(self.target_dir().join("release").join(name))
    }

    fn finish(&self, command: &mut std::process::Command) {
        command.current_dir(self.root).arg("--quiet").arg("--target-dir").arg(self.target_dir());
    }

    /// A place of our own: the workspace's is locked while cargo runs us, and each toolchain keeps its own.
    pub fn target_dir(&self) -> PathBuf {
        let toolchain = if self.toolchain.name == "debian" { "-debian" } else { "" };
        let kind = match self.kernel {
            Kernel::Traced => "",
            Kernel::Bare => "-bench",
            Kernel::Checked => "-checked",
        };
        self.root.join(format!("target/fusee{toolchain}{kind}"))
    }
}

fn check(command: &mut std::process::Command, what: &str) -> Result<()> {
    let status = command.status().context("cargo does not start")?;
    if !status.success() {
        bail!("{what} could not be built");
    }
    Ok(())
}

//--- Programs by package

/// The programs of each package of the workspace.
type Members = BTreeMap<String, BTreeSet<String>>;

/// Programs that one call of cargo builds.
#[derive(Debug, Eq, PartialEq)]
struct Step<'a> {
    /// Package and program.
    programs: Vec<(&'a str, &'a str)>,
    /// The package whose own folder they go to; `None`: the folder of all.
    own: Option<&'a str>,
}

/// What `cargo metadata` says of the workspace.
fn members(cargo: &Command, root: &Path) -> Result<Members> {
    let mut command = Command::new(cargo.get_program());
    for (name, value) in cargo.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]).current_dir(root);
    let output = command.stderr(Stdio::inherit()).output().context("cargo does not start")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("`cargo metadata` failed")?;
    Ok(members_in(&metadata))
}

fn members_in(metadata: &Value) -> Members {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let programs = |package: &Value| -> BTreeSet<String> {
        let targets = list(&package["targets"]);
        let is_program = |target: &&Value| list(&target["kind"]).iter().any(|kind| kind == "bin");
        targets.iter().filter(is_program).map(|target| word(&target["name"])).collect()
    };
    list(&metadata["packages"]).iter().map(|package| (word(&package["name"]), programs(package))).collect()
}

/// How to build the programs `wanted`, written package/program. Cargo puts all programs of one folder side by side, whatever package
/// they are of, so those that have namesakes go to a folder of their package: whichever run builds them, none gets another's.
///
/// # Errors
/// A name that is not there; what is instead.
fn steps<'a>(wanted: &BTreeSet<&'a str>, members: &Members) -> Result<Vec<Step<'a>>> {
    let mut together = Vec::new();
    let mut apart: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for binary in wanted {
        let Some((package, program)) = binary.split_once('/') else {
            bail!("binary `{binary}` is not written package/program");
        };
        let known =
            |names: Vec<&String>| names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let Some(programs) = members.get(package) else {
            let with_programs = members.iter().filter(|(_, programs)| !programs.is_empty()).map(|(name, _)| name);
            bail!(
                "binary `{binary}`: no package `{package}`; those with programs are {}",
                known(with_programs.collect())
            );
        };
        if !programs.contains(program) {
            bail!(
                "binary `{binary}`: package `{package}` has no program `{program}`; it has {}",
                known(programs.iter().collect())
            );
        }
        let namesakes = members.values().filter(|programs| programs.contains(program)).count();
        match namesakes {
            1 => together.push((package, program)),
            _ => apart.entry(package).or_default().push((package, program)),
        }
    }
    let own = apart.into_iter().map(|(package, programs)| Step { programs, own: Some(package) });
    let all = Some(Step { programs: together, own: None }).filter(|step| !step.programs.is_empty());
    Ok(all.into_iter().chain(own).collect())
}

//--- Images

/// Joins kernel and packed system.
pub fn image(kernel: &Path, system: &PackedSystem, memory: &Memory) -> Result<Vec<u8>> {
    let bytes = std::fs::read(kernel).with_context(|| kernel.display().to_string())?;
    let mut image = flatten(&bytes, memory).with_context(|| format!("kernel {}", kernel.display()))?;
    image.resize(image.len().next_multiple_of(PAGE), 0);
    image.extend_from_slice(system.bytes());
    let room = memory.kernel_end - memory.kernel;
    if image.len() as u64 > room {
        bail!("kernel and system take {} bytes; the board has room for {room}", image.len());
    }
    Ok(image)
}

/// The kernel as it lies in memory: code, constants and data, without what is zeroed at start.
fn flatten(elf: &[u8], memory: &Memory) -> Result<Vec<u8>> {
    let file = object::File::parse(elf)?;
    let mut image = Vec::new();
    for segment in file.segments() {
        let data = segment.data()?;
        if data.is_empty() {
            continue;
        }
        let virtual_address = segment.address();
        let physical = virtual_address.checked_sub(KERNEL_OFFSET).unwrap_or(virtual_address);
        let in_place = physical >= memory.kernel && physical + data.len() as u64 <= memory.kernel_end;
        if !in_place {
            bail!("a segment at {virtual_address:#x} lies outside the place of the kernel");
        }
        let at = (physical - memory.kernel) as usize;
        image.resize(image.len().max(at + data.len()), 0);
        image[at..at + data.len()].copy_from_slice(data);
    }
    if image.is_empty() {
        bail!("it has no code");
    }
    if let Some(symbol) = file.symbols().find(|symbol| symbol.name() == Ok(IMAGE_END)) {
        let length = symbol.address().wrapping_sub(KERNEL_OFFSET).wrapping_sub(memory.kernel) as usize;
        if length < image.len() || length as u64 > memory.kernel_end - memory.kernel {
            bail!("its {IMAGE_END} is not the end of its image");
        }
        image.resize(length, 0);
    }
    Ok(image)
}

/// Reads the programs of one system and packs them with it.
pub fn pack(manifest: &Manifest, programs: &Programs, options: PackOptions) -> Result<PackedSystem> {
    let mut binaries = Binaries::new();
    let tasks = manifest.system.tasks.iter().map(|task| &task.binary);
    let firmware = manifest.system.devices.iter().map(|device| &device.firmware);
    for name in tasks.chain(firmware) {
        if let Some(path) = programs.binaries.get(name)
            && !binaries.contains_key(name)
        {
            let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
            binaries.insert(name.clone(), bytes);
        }
    }
    Ok(manifest.pack(&binaries, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workspace() -> Members {
        let package = |name: &str, programs: &[&str]| {
            let target = |program: &&str| json!({ "name": program, "kind": ["bin"] });
            let mut targets: Vec<Value> = programs.iter().map(target).collect();
            targets.push(json!({ "name": name, "kind": ["lib"] }));
            json!({ "name": name, "targets": targets })
        };
        let packages = [package("demo", &["camera", "hog"]), package("pilot", &["hog", "wing"]), package("abi", &[])];
        members_in(&json!({ "packages": packages }))
    }

    #[test]
    fn programs_of_the_same_name_are_built_apart_even_if_only_one_is_wanted() {
        let steps_of = |wanted: &[&'static str]| steps(&wanted.iter().copied().collect(), &workspace()).unwrap();
        let all = Step { programs: vec![("demo", "camera"), ("pilot", "wing")], own: None };
        let demo = Step { programs: vec![("demo", "hog")], own: Some("demo") };
        let pilot = Step { programs: vec![("pilot", "hog")], own: Some("pilot") };
        assert_eq!(steps_of(&["demo/camera", "demo/hog", "pilot/hog", "pilot/wing"]), [all, demo, pilot]);
        assert_eq!(steps_of(&["demo/hog"]), [Step { programs: vec![("demo", "hog")], own: Some("demo") }]);
    }

    #[test]
    fn a_program_that_is_not_there_is_refused_with_those_that_are() {
        let error = |binary: &str| steps(&BTreeSet::from([binary]), &workspace()).unwrap_err().to_string();
        assert_eq!(
            error("demo/hogg"),
            "binary `demo/hogg`: package `demo` has no program `hogg`; it has `camera`, `hog`"
        );
        assert_eq!(error("dem/hog"), "binary `dem/hog`: no package `dem`; those with programs are `demo`, `pilot`");
        assert_eq!(error("hog"), "binary `hog` is not written package/program");
    }
}

//! Builds kernel, firmware and tasks, and joins them into one bootable image.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail, ensure};
use fusee_abi::image::feature;
use fusee_abi::trace::Level;
use fusee_manifest::{Binaries, Manifest, Memory, PackOptions, PackedSystem, Reason, Resolved, nearest};
use object::{Object, ObjectSegment, ObjectSymbol};

use crate::project::Project;
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

/// How a line begins that says what is built.
pub const BUILDING: &str = "building";

/// What building needs to know.
pub struct Builder<'a> {
    /// This repository: the kernel is built there, and programs that manifests name may be its.
    pub fusee: &'a Project,
    /// Where programs are looked up, too; the same for our own systems.
    pub project: &'a Project,
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
    /// With the trace that its systems ask for.
    Asked,
    /// With a trace of this level. What is measured keeps marks.
    Traced(Level),
    /// With the trace of its schedule, and all its invariants checked after every trap.
    Checked,
}

impl Kernel {
    /// What it keeps in its trace; if that is for its systems to say, what is usual.
    pub const fn level(self) -> Level {
        match self {
            Kernel::Traced(level) => level,
            Kernel::Asked | Kernel::Checked => Level::Schedule,
        }
    }
}

/// Programs of one system, as ELF files.
#[derive(Clone)]
pub struct Programs {
    /// The kernel.
    pub kernel: PathBuf,
    /// Tasks and firmware, by the names the manifest uses.
    pub binaries: BTreeMap<String, PathBuf>,
}

impl<'a> Builder<'a> {
    /// Says what to build for `systems`.
    ///
    /// # Errors
    /// A program that is in no workspace, or in two.
    pub fn plan(&self, systems: &[&'a Resolved]) -> Result<Plan<'a>, Reason> {
        let features = match self.features {
            Features::Asked => systems.iter().fold(0, |features, system| features | system.features()),
            Features::All => feature::ALL,
        };
        let kernel = match self.kernel {
            Kernel::Asked => systems.iter().map(|system| system.trace).max().map_or(self.kernel, Kernel::Traced),
            kernel => kernel,
        };
        let projects = match self.project.is(self.fusee) {
            true => vec![self.fusee],
            false => vec![self.project, self.fusee],
        };
        let tasks = systems.iter().flat_map(|system| &system.tasks).filter(|task| task.elf().is_none());
        let steps = steps(&tasks.map(|task| task.binary.as_str()).collect(), &projects)?;
        let names = systems.iter().flat_map(|system| &system.devices).map(|device| device.firmware.as_str());
        let firmwares = names.map(|name| Ok((name, find(name, name, name, &projects)?))).collect::<Result<_, _>>()?;
        Ok(Plan { kernel, features, steps, firmwares })
    }

    /// Builds all programs of `systems`.
    pub fn programs(&self, systems: &[&'a Resolved]) -> Result<Programs> {
        self.build(&self.plan(systems).map_err(|reason| anyhow!("{reason}"))?)
    }

    /// Builds what is planned.
    pub fn build(&self, plan: &Plan<'_>) -> Result<Programs> {
        let kernel = Builder { kernel: plan.kernel, ..*self }.kernel(plan.features)?;
        let mut binaries = self.tasks(&plan.steps)?;
        for (firmware, project) in &plan.firmwares {
            binaries.insert((*firmware).to_owned(), self.softfloat(project, firmware, &[])?);
        }
        Ok(Programs { kernel, binaries })
    }

    /// Builds the kernel with these features, bits of [`feature`].
    pub fn kernel(&self, features: u32) -> Result<PathBuf> {
        let mut names: Vec<&str> = feature::names(features).collect();
        let level = self.kernel.level();
        names.extend(Some(level.name()).filter(|_| level != Level::Off));
        names.extend(Some("check").filter(|_| self.kernel == Kernel::Checked));
        let mut arguments = vec!["--no-default-features".to_owned(), format!("--features={}", names.join(","))];
        if self.kernel == Kernel::Checked {
            // Invariants are long loops, and there is no limit to its size.
            arguments.push("--config=profile.release.package.fusee-kernel-core.opt-level=3".to_owned());
        }
        let built = self.softfloat(self.fusee, KERNEL_PACKAGE, &arguments)?;
        // The next kernel of another kind goes to the same place.
        let kept = built.with_file_name(format!("{KERNEL_PACKAGE}-{features:02x}-{}", level.name()));
        std::fs::copy(&built, &kept).with_context(|| kept.display().to_string())?;
        Ok(kept)
    }

    /// Builds a program without floating point; its build script names the linker script.
    fn softfloat(&self, project: &Project, package: &str, arguments: &[String]) -> Result<PathBuf> {
        // Schedules are traced in very many places. What is measured is a kernel without these, so this one is for size.
        let schedule = ["-Cllvm-args=-inline-threshold=100", FRAMES];
        let flags: &[&str] = match self.kernel {
            Kernel::Checked => &[FRAMES],
            kernel if kernel.level().keeps_schedule() => &schedule,
            _ => &[],
        };
        let mut command =
            self.toolchain.cargo(KERNEL_TARGET, &flags.iter().map(|flag| (*flag).to_owned()).collect::<Vec<_>>());
        command.args(["build", "--release", "--target", KERNEL_TARGET, "--package", package, "--bin", package]);
        command.args(arguments);
        let folder = self.folder(project);
        let what = if package == KERNEL_PACKAGE { "kernel".to_owned() } else { format!("firmware `{package}`") };
        run(command.current_dir(&project.root), &folder, &what)?;
        Ok(folder.join(KERNEL_TARGET).join("release").join(package))
    }

    /// Builds the programs of tasks. The crate `fusee` brings the linker script with it.
    fn tasks(&self, steps: &[Step<'_>]) -> Result<BTreeMap<String, PathBuf>> {
        let mut binaries = BTreeMap::new();
        for Step { project, programs, own } in steps {
            let mut command = self.toolchain.cargo(TASK_TARGET, &[FRAMES.to_owned()]);
            command.args(["build", "--release", "--target", TASK_TARGET]);
            for (package, program) in programs {
                command.args(["--package", package, "--bin", program]);
            }
            let folder = own.map_or(self.folder(project), |package| self.folder(project).join("of").join(package));
            let s = if programs.len() == 1 { "" } else { "s" };
            let of = own.map_or_else(String::new, |package| format!(" of `{package}`"));
            run(command.current_dir(&project.root), &folder, &format!("{} program{s}{of}", programs.len()))?;
            for (package, program) in programs {
                let path = folder.join(TASK_TARGET).join("release").join(program);
                binaries.insert(format!("{package}/{program}"), path);
            }
        }
        Ok(binaries)
    }

    /// Builds a plugin for QEMU, for the host; `library` is the name of the crate.
    pub fn plugin(&self, package: &str, library: &str) -> Result<PathBuf> {
        let mut command = self.toolchain.cargo("host", &[]);
        command.args(["build", "--release", "--package", package]);
        let folder = self.target_dir();
        run(command.current_dir(&self.fusee.root), &folder, &format!("plugin `{package}`"))?;
        let name = format!("{}{library}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        Ok(folder.join("release").join(name))
    }

    /// A place of our own: the workspace's is locked while cargo runs us, and each toolchain keeps its own.
    pub fn target_dir(&self) -> PathBuf {
        self.folder(self.fusee)
    }

    /// Where the programs of a project go. Those of two projects never meet, even if `CARGO_TARGET_DIR` gives them one place.
    fn folder(&self, project: &Project) -> PathBuf {
        let toolchain = if self.toolchain.name == "debian" { "-debian" } else { "" };
        let kind = match self.kernel {
            Kernel::Checked => "-checked",
            kernel if kernel.level().keeps_schedule() => "",
            _ => "-bench",
        };
        let folder = project.target.join(format!("fusee{toolchain}{kind}"));
        match project.is(self.fusee) {
            true => folder,
            false => {
                let mut hasher = DefaultHasher::new();
                project.root.hash(&mut hasher);
                folder.join(format!("project-{:08x}", hasher.finish() as u32))
            }
        }
    }
}

/// Runs cargo, which builds into `folder`. On a terminal cargo shows what it does, elsewhere one line says what is built: each
/// only the first time, because some commands build again and again.
fn run(command: &mut Command, folder: &Path, what: &str) -> Result<()> {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_owned());
    let is_watched = std::io::stderr().is_terminal();
    if is_new && !is_watched {
        eprintln!("{BUILDING} {what}");
    }
    if !is_new || !is_watched {
        command.arg("--quiet");
    }
    let status = command.arg("--target-dir").arg(folder).status().context("cargo does not start")?;
    ensure!(status.success(), "could not build: {what}");
    Ok(())
}

//--- Programs by package

/// What to build for some systems, and where each of it comes from.
#[derive(Debug)]
pub struct Plan<'a> {
    /// Which kernel.
    kernel: Kernel,
    /// Features of the kernel, bits of [`feature`].
    features: u32,
    /// Programs of tasks.
    steps: Vec<Step<'a>>,
    /// Firmwares, by package.
    firmwares: BTreeMap<&'a str, &'a Project>,
}

/// Programs that one call of cargo builds.
#[derive(Debug)]
struct Step<'a> {
    /// Where they come from.
    project: &'a Project,
    /// Package and program.
    programs: Vec<(&'a str, &'a str)>,
    /// The package whose own folder they go to; `None`: the folder of all.
    own: Option<&'a str>,
}

/// How to build the programs `wanted`, written package/program. Cargo puts all programs of one folder side by side, whatever package
/// they are of, so those that have namesakes in their workspace go to a folder of their package: whichever run builds them, none
/// gets another's.
fn steps<'a>(wanted: &BTreeSet<&'a str>, projects: &[&'a Project]) -> Result<Vec<Step<'a>>, Reason> {
    let mut steps: Vec<Step<'a>> = Vec::new();
    for binary in wanted {
        let Some((package, program)) = binary.split_once('/') else {
            let why = "it is not written package/program".to_owned();
            return Err(Reason::NoProgram { binary: (*binary).to_owned(), why });
        };
        let project = find(binary, package, program, projects)?;
        let namesakes = project.members.values().filter(|programs| programs.contains(program)).count();
        let own = (namesakes > 1).then_some(package);
        match steps.iter_mut().find(|step| step.project.is(project) && step.own == own) {
            Some(step) => step.programs.push((package, program)),
            None => steps.push(Step { project, programs: vec![(package, program)], own }),
        }
    }
    Ok(steps)
}

/// The one project that has this program; `binary` is what the manifest calls it.
fn find<'a>(binary: &str, package: &str, program: &str, projects: &[&'a Project]) -> Result<&'a Project, Reason> {
    let has = |project: &&&Project| project.members.get(package).is_some_and(|programs| programs.contains(program));
    let binary = binary.to_owned();
    match projects.iter().filter(has).collect::<Vec<_>>()[..] {
        [project] => Ok(project),
        [one, other, ..] => Err(Reason::TwoPrograms { binary, places: [one.root.clone(), other.root.clone()] }),
        [] => Err(Reason::NoProgram { binary, why: why_not(package, program, projects) }),
    }
}

/// Why no project has this program, and what there is instead.
fn why_not(package: &str, program: &str, projects: &[&Project]) -> String {
    let near = |name: &str, all: &BTreeSet<&str>| {
        let guess = nearest(name, all.iter().copied());
        let list = all.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        (guess.map_or_else(String::new, |guess| format!("; did you mean `{guess}`?")), list)
    };
    let with_package: Vec<_> = projects.iter().filter_map(|project| project.members.get(package)).collect();
    if with_package.is_empty() {
        let members = projects.iter().flat_map(|project| &project.members);
        let all = members.filter(|(_, programs)| !programs.is_empty()).map(|(name, _)| name.as_str()).collect();
        let (guess, list) = near(package, &all);
        let places: Vec<String> = projects.iter().map(|project| project.root.display().to_string()).collect();
        return format!("no package `{package}` in {}{guess} (with programs: {list})", places.join(" or "));
    }
    let all: BTreeSet<&str> = with_package.into_iter().flatten().map(String::as_str).collect();
    let (guess, list) = near(program, &all);
    format!("package `{package}` has no program `{program}`{guess} (it has: {list})")
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
            let bytes = std::fs::read(path).map_err(|error| {
                let why = format!("{} cannot be read: {error}", path.display());
                manifest.at_binary(Reason::NoProgram { binary: name.clone(), why })
            })?;
            binaries.insert(name.clone(), bytes);
        }
    }
    Ok(manifest.pack(&binaries, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::tests::project;

    fn fusee() -> Project {
        project("/fusee", &[("demo", &["camera", "hog"]), ("pilot", &["hog", "wing"]), ("abi", &[])])
    }

    /// Where each program comes from, and which folder it goes to.
    fn steps_of(wanted: &[&'static str], projects: &[&Project]) -> Vec<String> {
        let steps = steps(&wanted.iter().copied().collect(), projects).unwrap();
        let words = |step: &Step<'_>| {
            let programs: Vec<String> =
                step.programs.iter().map(|(package, name)| format!("{package}/{name}")).collect();
            format!("{}: {} -> {}", step.project.root.display(), programs.join(" "), step.own.unwrap_or("all"))
        };
        steps.iter().map(words).collect()
    }

    #[test]
    fn programs_of_the_same_name_are_built_apart_even_if_only_one_is_wanted() {
        assert_eq!(
            steps_of(&["demo/camera", "demo/hog", "pilot/hog", "pilot/wing"], &[&fusee()]),
            ["/fusee: demo/camera pilot/wing -> all", "/fusee: demo/hog -> demo", "/fusee: pilot/hog -> pilot"]
        );
        assert_eq!(steps_of(&["demo/hog"], &[&fusee()]), ["/fusee: demo/hog -> demo"]);
    }

    #[test]
    fn programs_come_from_the_workspace_that_has_them() {
        let own = project("/own", &[("mine", &["camera"]), ("demo", &["other"])]);
        assert_eq!(
            steps_of(&["demo/camera", "demo/other", "mine/camera"], &[&own, &fusee()]),
            ["/fusee: demo/camera -> all", "/own: demo/other mine/camera -> all"]
        );
    }

    fn refused(binary: &str, projects: &[&Project]) -> String {
        steps(&BTreeSet::from([binary]), projects).unwrap_err().to_string()
    }

    #[test]
    fn a_program_that_is_not_there_is_refused_with_those_that_are() {
        let fusee = fusee();
        assert_eq!(
            refused("demo/hogg", &[&fusee]),
            "binary `demo/hogg`: package `demo` has no program `hogg`; did you mean `hog`? (it has: `camera`, `hog`)"
        );
        assert_eq!(
            refused("dem/hog", &[&project("/own", &[("mine", &["camera"])]), &fusee]),
            "binary `dem/hog`: no package `dem` in /own or /fusee; did you mean `demo`? (with programs: `demo`, `mine`, `pilot`)"
        );
        assert_eq!(refused("hog", &[&fusee]), "binary `hog`: it is not written package/program");
    }

    #[test]
    fn a_program_that_two_workspaces_have_is_refused_with_both_places() {
        let own = project("/own", &[("demo", &["hog"])]);
        assert_eq!(
            refused("demo/hog", &[&own, &fusee()]),
            "binary `demo/hog` is both in /own and in /fusee: give one package another name"
        );
    }
}

//! Builds kernel, firmware and tasks, and joins them into one bootable image.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use fusee_abi::image::feature;
use fusee_abi::trace::Level;
use fusee_manifest::{Binaries, Device, Manifest, Memory, PackOptions, PackedSystem, Reason, Resolved, nearest};
use object::{Object, ObjectSegment, ObjectSymbol};

use crate::project::Project;
use crate::remap::nameless;
use crate::toolchain::{KERNEL_TARGET, R5F_TARGET, TASK_TARGET, Toolchain};
use crate::{errata, meter};

/// The kernel runs this far above its physical addresses.
pub const KERNEL_OFFSET: u64 = 0xffff_ff80_0000_0000;
/// The package of the kernel, and its program.
pub const KERNEL_PACKAGE: &str = "fusee-kernel";
/// Where the kernel's image ends and the packed system begins, by the linker script.
const IMAGE_END: &str = "__image_end";
const PAGE: usize = 4096;
/// Unwind tables say how functions save registers, for backtraces. They are not loaded, and all programs have them: a crate is then compiled once for all
/// kernels.
const FRAMES: &str = "-Cforce-unwind-tables=yes";
/// Schedules are traced in very many places. Measured kernels have none of these, so the kernel that traces schedules is optimised for size.
const SMALL: &str = "-Cllvm-args=-inline-threshold=100";

/// The board whose kernels and images have no board in their names.
pub const DEFAULT_BOARD: &str = "virt";

/// The beginning of a line about a build.
pub const BUILDING: &str = "building";

/// The inputs of a build.
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
    /// Whether programs of tasks are hardly optimised, so that a debugger finds their functions and variables.
    pub debug: bool,
}

/// Which features the kernel has, of those that systems may do without (`image::feature`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Features {
    /// The features that the systems ask for.
    Asked,
    /// All but `spatial` and `speaks`, and these if they ask for them: the kernel of measurements and tests.
    All,
}

/// The features of kernels that are measured, and that tests run on.
pub const USUAL: u32 = feature::ALL & !(feature::SPATIAL | feature::SPEAKS);

/// How the kernel is built.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kernel {
    /// With the trace that its systems ask for.
    Asked,
    /// With a trace of this level. A measured kernel keeps marks.
    Traced(Level),
    /// With the trace of its schedule, and all its invariants checked after every trap.
    Checked,
}

impl Kernel {
    /// The level of its trace; if its systems decide, the usual one.
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
    /// Plans the builds for `systems`.
    ///
    /// # Errors
    /// A program that is in no workspace, or in two.
    pub fn plan(&self, systems: &[&'a Resolved]) -> Result<Plan<'a>, Reason> {
        let asked = systems.iter().fold(0, |features, system| features | system.features());
        let features = match self.features {
            Features::Asked => asked,
            Features::All => asked | USUAL,
        };
        let kernel = match self.kernel {
            Kernel::Asked => systems.iter().map(|system| system.trace).max().map_or(self.kernel, Kernel::Traced),
            kernel => kernel,
        };
        let board = systems.first().map_or(DEFAULT_BOARD, |system| system.board.name.as_str());
        let projects = match self.project.is(self.fusee) {
            true => vec![self.fusee],
            false => vec![self.project, self.fusee],
        };
        let tasks = systems.iter().flat_map(|system| &system.tasks).filter(|task| task.elf().is_none());
        let steps = steps(board, &tasks.map(|task| task.binary.as_str()).collect(), &projects)?;
        let devices = systems.iter().flat_map(|system| &system.devices);
        let of = |device: &'a Device| {
            let name = device.firmware.as_deref()?;
            let (package, kernels) = Device::kernels(name);
            let made = || {
                let project = find(package, package, package, &projects)?;
                if device.processor.is_some() {
                    return Ok((name, (project, RunsOn::R5f)));
                }
                let kernels = kernels.into_iter().map(|kernels| match kernels {
                    Some(kernels) => Ok(Some((kernels, folder_of_kernels(kernels, &projects)?))),
                    None => Ok(None),
                });
                Ok((name, (project, RunsOn::EngineCpu(kernels.collect::<Result<_, _>>()?))))
            };
            Some(made())
        };
        let firmwares = devices.filter_map(of).collect::<Result<_, _>>()?;
        Ok(Plan { board, kernel, features, steps, firmwares })
    }

    /// Builds all programs of `systems`.
    pub fn programs(&self, systems: &[&'a Resolved]) -> Result<Programs> {
        self.build(&self.plan(systems).map_err(|reason| anyhow!("{reason}"))?)
    }

    /// Carries out the planned builds.
    pub fn build(&self, plan: &Plan<'_>) -> Result<Programs> {
        let kernel = Builder { kernel: plan.kernel, ..*self }.kernel_of(plan.board, plan.features)?;
        self.tasks(&plan.steps)?;
        let mut binaries = self.places(plan);
        for (firmware, (project, runs_on)) in &plan.firmwares {
            let built = match runs_on {
                RunsOn::EngineCpu(kernels) if kernels.is_empty() => {
                    self.softfloat(project, firmware, plan.board, &[])?
                }
                RunsOn::EngineCpu(kernels) => self.with_kernels(firmware, kernels, plan.board)?,
                RunsOn::R5f => self.r5f(project, firmware)?,
            };
            binaries.insert((*firmware).to_owned(), built);
        }
        Ok(Programs { kernel, binaries })
    }

    /// Builds the kernel of the usual board with these features, bits of [`feature`].
    pub fn kernel(&self, features: u32) -> Result<PathBuf> {
        self.kernel_of(DEFAULT_BOARD, features)
    }

    /// The same of any board.
    pub fn kernel_of(&self, board: &str, features: u32) -> Result<PathBuf> {
        let mut names: Vec<&str> = feature::names(features).collect();
        let level = self.kernel.level();
        names.extend(Some(level.name()).filter(|_| level != Level::Off));
        names.extend(Some("check").filter(|_| self.kernel == Kernel::Checked));
        let mut arguments = vec!["--no-default-features".to_owned(), format!("--features={}", names.join(","))];
        if self.kernel == Kernel::Checked {
            // Invariants are long loops, and there is no limit to its size.
            arguments.push("--config=profile.release.package.fusee-kernel-core.opt-level=3".to_owned());
        }
        let folder = self.softfloat_folder(self.fusee, board).join(KERNEL_TARGET).join("release");
        let kept = folder.join(format!("{KERNEL_PACKAGE}-{features:02x}-{}", level.name()));
        let id = format!("{} {arguments:?}", kept.display());
        if is_built(&id) {
            return Ok(kept);
        }
        // The next kernel of another kind goes to the same place: no other build may begin before this one is copied, in this program or in another.
        let _alone = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let lock = File::create(folder.join("kernel.lock")).with_context(|| folder.display().to_string())?;
        lock.lock().with_context(|| folder.display().to_string())?;
        let built = self.softfloat(self.fusee, KERNEL_PACKAGE, board, &arguments)?;
        // A reader of the file gets all of the old one or all of the new one, also if this program is ended here.
        let draft = folder.join("kernel.draft");
        std::fs::copy(&built, &draft).with_context(|| draft.display().to_string())?;
        std::fs::rename(&draft, &kept).with_context(|| kept.display().to_string())?;
        note_built(id);
        Ok(kept)
    }

    /// Builds the firmware of devices with kernels: a program that is written here, of Fusee's firmware and of the packages with their tables, each with its
    /// name and folder.
    fn with_kernels(&self, name: &str, kernels: &[Option<(&str, PathBuf)>], board: &str) -> Result<PathBuf> {
        let engine = self.folder(self.project).join("engines").join(name.replace('+', "_"));
        let program = program_of(&engine);
        std::fs::create_dir_all(engine.join("src")).with_context(|| engine.display().to_string())?;
        let root = &self.fusee.root;
        let mut manifest = format!(
            "[workspace]\n[package]\nname = \"{program}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
             engine-core = {{ path = {:?} }}\nfusee-bsp = {{ path = {:?} }}\n",
            root.join("qemu/engine-core"),
            root.join("bsp")
        );
        let mut tables = Vec::new();
        for (place, kernels) in kernels.iter().enumerate() {
            match kernels {
                Some((package, folder)) => {
                    let _ = writeln!(manifest, "kernels{place} = {{ package = {package:?}, path = {folder:?} }}");
                    tables.push(format!("kernels{place}::KERNELS"));
                }
                None => tables.push("fusee_engine_core::KERNELS".to_owned()),
            }
        }
        manifest +=
            "\n[profile.release]\npanic = \"abort\"\nopt-level = 3\ndebug = \"full\"\nlto = true\ncodegen-units = 1\n";
        let build = format!(
            "fn main() {{\n    println!(\"cargo::rustc-link-arg-bins=-T{{}}\", std::env::var(\"DEP_FUSEE_BOARD_PLACES\").unwrap());\n    \
             println!(\"cargo::rustc-link-arg-bins=-T{{}}\", {:?});\n}}\n",
            root.join("linker/firmware.ld")
        );
        let main = format!("#![no_std]\n#![no_main]\nfusee_engine_core::firmware!([{}]);\n", tables.join(", "));
        for (file, text) in [("Cargo.toml", manifest), ("build.rs", build), ("src/main.rs", main)] {
            let path = engine.join(file);
            if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
                replace(&path, text.as_bytes())?;
            }
        }
        // The versions that Fusee was tested with; further crates of kernels are looked up.
        if !engine.join("Cargo.lock").exists() {
            replace(&engine.join("Cargo.lock"), &std::fs::read(root.join("Cargo.lock"))?)?;
        }
        let mut command = self.toolchain.cargo(KERNEL_TARGET, &self.flags(self.project, board));
        command.args(["build", "--release", "--target", KERNEL_TARGET]);
        command.env(BUILD_DIR, self.compiled(self.project, board));
        if board != DEFAULT_BOARD {
            command.env("FUSEE_BOARD", root.join(format!("bsp/boards/{board}.toml")));
            command.arg(of_board(board));
        }
        let packages: Vec<&str> = kernels.iter().flatten().map(|(package, _)| *package).collect();
        // Firmware of several boards does not take each other's place.
        let folder = engine.join("target").join(board);
        let what = format!("firmware with kernels of `{}`", packages.join("`, `"));
        run(command.current_dir(&engine), &folder, &what, &[])?;
        Ok(folder.join(KERNEL_TARGET).join("release").join(program))
    }

    /// Where programs without floating point go: kernels of several boards do not take each other's place.
    fn softfloat_folder(&self, project: &Project, board: &str) -> PathBuf {
        let folder = self.folder(project);
        if board == DEFAULT_BOARD { folder } else { folder.join("boards").join(board) }
    }

    /// Builds a program without floating point; its build script names the linker script.
    fn softfloat(&self, project: &Project, package: &str, board: &str, arguments: &[String]) -> Result<PathBuf> {
        let mut command = self.toolchain.cargo(KERNEL_TARGET, &self.flags(project, board));
        command.args(["rustc", "--release", "--target", KERNEL_TARGET, "--package", package, "--bin", package]);
        command.args(arguments);
        command.env(BUILD_DIR, self.compiled(project, board));
        let folder = self.softfloat_folder(project, board);
        if board != DEFAULT_BOARD {
            command.env("FUSEE_BOARD", self.fusee.root.join(format!("bsp/boards/{board}.toml")));
            if project.is(self.fusee) {
                command.arg(of_board(board));
            }
        }
        let what = if package == KERNEL_PACKAGE { KERNEL.to_owned() } else { format!("firmware `{package}`") };
        // Whole programs are optimised when they are linked, so the last crate alone is compiled with this flag, and all others are shared.
        let is_small = self.kernel != Kernel::Checked && self.kernel.level().keeps_schedule();
        let last: &[&str] = if is_small { &[SMALL] } else { &[] };
        run(command.current_dir(&project.root), &folder, &what, last)?;
        Ok(folder.join(KERNEL_TARGET).join("release").join(package))
    }

    /// Builds firmware of a Cortex-R5F; its build script names the linker script.
    fn r5f(&self, project: &Project, package: &str) -> Result<PathBuf> {
        self.toolchain.add_target(R5F_TARGET)?;
        let mut command = self.toolchain.cargo(R5F_TARGET, &nameless(project, self.fusee));
        command.args(["build", "--release", "--target", R5F_TARGET, "--package", package, "--bin", package]);
        command.env(BUILD_DIR, self.compiled(project, DEFAULT_BOARD));
        let folder = self.folder(project);
        run(command.current_dir(&project.root), &folder, &format!("firmware `{package}`"), &[])?;
        Ok(folder.join(R5F_TARGET).join("release").join(package))
    }

    /// Builds the programs of tasks. The crate `fusee` brings the linker script with it.
    fn tasks(&self, steps: &[Step<'_>]) -> Result<()> {
        for step in steps {
            let Step { project, programs, .. } = step;
            let mut command = self.toolchain.cargo(TASK_TARGET, &self.flags(project, step.board));
            command.args(["build", "--release", "--target", TASK_TARGET]);
            command.env(BUILD_DIR, self.compiled(project, step.board));
            if self.debug {
                command.args(HARDLY_OPTIMISED.map(|setting| format!("--config=profile.release.{setting}")));
            }
            for (package, program) in programs {
                command.args(["--package", package, "--bin", program]);
            }
            let folder = self.folder_of(step);
            let s = if programs.len() == 1 { "" } else { "s" };
            let is_foreign = project.root != self.project.root;
            let of = match step.own {
                Some(package) => format!(" of `{package}`"),
                None => if is_foreign { " of Fusee" } else { "" }.to_owned(),
            };
            run(command.current_dir(&project.root), &folder, &format!("{} program{s}{of}", programs.len()), &[])?;
        }
        Ok(())
    }

    /// Flags of all crates of a project for a board.
    fn flags(&self, project: &Project, board: &str) -> Vec<String> {
        let frames = [FRAMES.to_owned()];
        frames.into_iter().chain(errata::flags(board)).chain(nameless(project, self.fusee)).collect()
    }

    /// Where the tasks' programs of a plan are, if they have been built.
    pub fn places(&self, plan: &Plan<'_>) -> BTreeMap<String, PathBuf> {
        let of = |step: &Step<'_>| {
            let folder = self.folder_of(step).join(TASK_TARGET).join("release");
            step.programs
                .iter()
                .map(move |(package, program)| (format!("{package}/{program}"), folder.join(program)))
                .collect::<Vec<_>>()
        };
        plan.steps.iter().flat_map(of).collect()
    }

    /// Where the programs of a step go.
    fn folder_of(&self, step: &Step<'_>) -> PathBuf {
        let mut folder = self.folder(step.project);
        // Code that is built for CPUs with errata runs there, and nowhere else.
        if !errata::flags(step.board).is_empty() {
            folder = folder.join("boards/errata");
        }
        if self.debug {
            folder = folder.join("debug");
        }
        step.own.map_or(folder.clone(), |package| folder.join("of").join(package))
    }

    /// Builds a plugin for QEMU, for the host; `library` is the name of the crate.
    pub fn plugin(&self, package: &str, library: &str) -> Result<PathBuf> {
        let mut command = self.toolchain.cargo("host", &[]);
        command.args(["build", "--release", "--package", package]);
        let folder = self.target_dir();
        run(command.current_dir(&self.fusee.root), &folder, &format!("plugin `{package}`"), &[])?;
        let name = format!("{}{library}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        Ok(folder.join("release").join(name))
    }

    /// A place of our own: the workspace's is locked while cargo runs us, and each toolchain keeps its own.
    pub fn target_dir(&self) -> PathBuf {
        self.folder(self.fusee)
    }

    /// Where cargo compiles the crates of a project: one place for all programs with the same flags, whatever folder the programs go to, so that no crate is
    /// compiled twice. Programs with other flags have another place, because cargo gives crates the same names there, and would compile them again at each
    /// change. So have other workspaces: cargo names a crate by its path in its workspace, and two workspaces may have the same paths.
    fn compiled(&self, project: &Project, board: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (&project.root, errata::flags(board), self.toolchain.name).hash(&mut hasher);
        project.target.join("fusee-compiled").join(format!("{:08x}", hasher.finish() as u32))
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

/// The variable by which cargo is told where to compile; programs go to the folder of `--target-dir`.
const BUILD_DIR: &str = "CARGO_BUILD_BUILD_DIR";

/// The argument by which cargo keeps the artefacts of a board beside those of others.
fn of_board(board: &str) -> String {
    format!("--features=fusee-bsp/{board}")
}

/// Writes a file in one step: another program that reads it, or writes the same, never sees a part of it.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let draft = path.with_extension(format!("draft.{}", std::process::id()));
    std::fs::write(&draft, bytes).with_context(|| draft.display().to_string())?;
    std::fs::rename(&draft, path).with_context(|| path.display().to_string())
}

/// The program of an engine with kernels, and the package of that name. Each folder has a name of its own: cargo takes two packages for one if they
/// have the same name, version and place in their workspaces, and these packages share one folder of compiled crates.
fn program_of(engine: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    engine.hash(&mut hasher);
    format!("engine-{:08x}", hasher.finish() as u32)
}

/// The profile of programs for a debugger.
const HARDLY_OPTIMISED: [&str; 3] = ["opt-level=1", "lto=false", "debug=\"full\""];
/// The name of a kernel while it is built.
const KERNEL: &str = "kernel";
/// One kernel is built at a time.
static KERNELS: Mutex<()> = Mutex::new(());
/// Whether each program is built once only, and which are, if sources do not change while this program runs.
static BUILT: Mutex<Option<BTreeSet<String>>> = Mutex::new(None);

/// From here on each program is built once: sources do not change while this program runs.
pub fn remember() {
    BUILT.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
}

fn is_built(id: &str) -> bool {
    BUILT.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|built| built.contains(id))
}

fn note_built(id: String) {
    let _ = BUILT.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(|built| built.insert(id));
}

/// Runs cargo, which builds into `folder`. On a terminal cargo shows what it does, elsewhere one line says what is built: each
/// only the first time, because some commands build again and again. `last`: flags for the last crate of `cargo rustc`.
///
/// # Errors
/// Cargo does not start, or cannot build.
pub fn run(command: &mut Command, folder: &Path, what: &str, last: &[&str]) -> Result<()> {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_watched = std::io::stderr().is_terminal();
    let is_told = || !TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_owned());
    let is_shown = is_watched && !is_told();
    if is_watched && !is_shown {
        command.arg("--quiet");
    }
    command.arg("--target-dir").arg(folder);
    if !last.is_empty() {
        command.arg("--").args(last);
    }
    let id = format!("{:?} {command:?}", command.get_current_dir());
    // Kernels are built again and again in one place; it is their copies that are known.
    let is_kernel = what == KERNEL;
    if !is_kernel && is_built(&id) {
        return Ok(());
    }
    let status = match is_watched {
        true => meter::status(command),
        false => narrated(command, |time| match time.as_secs() {
            0 if is_told() => {}
            0 => eprintln!("{BUILDING} {what}"),
            seconds => eprintln!("{BUILDING} {what}, for {seconds} s until now"),
        }),
    };
    let status = status.context("cargo does not start")?;
    ensure!(status.success(), "could not build: {what}");
    if !is_kernel {
        note_built(id);
    }
    Ok(())
}

/// The longest time of a build without a word of ours.
const QUIET: Duration = Duration::from_secs(15);

/// Runs cargo without a terminal: prints lines that are no progress; calls `builds` with zero at the first crate, and with the time after each [`QUIET`].
fn narrated(command: &mut Command, builds: impl Fn(Duration)) -> std::io::Result<ExitStatus> {
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let lines = child.stderr.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    let (began, mut said) = (Instant::now(), None);
    loop {
        let line = receiver.recv_timeout(QUIET / 15);
        match line.as_deref().map(progress) {
            Ok(Some("Compiling")) if said.is_none() => builds(Duration::ZERO),
            Ok(None) => {
                eprintln!("{}", line.as_deref().unwrap_or_default());
                continue;
            }
            Err(&RecvTimeoutError::Disconnected) => return meter::wait(&mut child),
            _ if said.unwrap_or(began).elapsed() >= QUIET => builds(began.elapsed()),
            _ => continue,
        }
        said = Some(Instant::now());
    }
}

/// The verb of a line in which cargo shows its progress: it ends in the twelfth column.
fn progress(line: &str) -> Option<&str> {
    const VERBS: &str =
        "Adding Blocking Building Compiling Downloaded Downloading Finished Fresh Locking Running Unpacking Updating";
    let (verb, rest) = line.split_at_checked(12)?;
    let verb = verb.trim_start();
    (rest.starts_with(' ') && VERBS.split(' ').any(|one| one == verb)).then_some(verb)
}

//--- Programs by package

/// The programs to build for some systems, each with its project.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The board, which is that of all systems.
    board: &'a str,
    /// Which kernel.
    kernel: Kernel,
    /// Features of the kernel, bits of [`feature`].
    features: u32,
    /// Programs of tasks.
    steps: Vec<Step<'a>>,
    /// Firmwares, by package: the project and the processor of each.
    firmwares: BTreeMap<&'a str, (&'a Project, RunsOn<'a>)>,
}

/// The processor of a firmware.
#[derive(Clone, Debug)]
enum RunsOn<'a> {
    /// The CPU that plays devices; with the kernels of each, if one has some: the package, and its folder.
    EngineCpu(Vec<Option<(&'a str, PathBuf)>>),
    /// A Cortex-R5F.
    R5f,
}

/// Programs that one call of cargo builds.
#[derive(Debug)]
pub struct Step<'a> {
    /// The board.
    board: &'a str,
    /// Where they come from.
    pub project: &'a Project,
    /// Package and program.
    pub programs: Vec<(&'a str, &'a str)>,
    /// The package whose own folder they go to; `None`: the folder of all.
    pub own: Option<&'a str>,
}

/// How to build the programs `wanted`, written package/program. Cargo puts all programs of one folder side by side, whatever package
/// they are of, so those that have namesakes in their workspace go to a folder of their package: whichever run builds them, none
/// gets another's.
///
/// # Errors
/// A program that is in no workspace, or in two.
pub fn steps<'a>(
    board: &'a str,
    wanted: &BTreeSet<&'a str>,
    projects: &[&'a Project],
) -> Result<Vec<Step<'a>>, Reason> {
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
            None => steps.push(Step { board, project, programs: vec![(package, program)], own }),
        }
    }
    Ok(steps)
}

/// The one project that has this program; `binary` is its name in the manifest.
fn find<'a>(binary: &str, package: &str, program: &str, projects: &[&'a Project]) -> Result<&'a Project, Reason> {
    let has = |project: &&&Project| project.members.get(package).is_some_and(|programs| programs.contains(program));
    let binary = binary.to_owned();
    match projects.iter().filter(has).collect::<Vec<_>>()[..] {
        [project] => Ok(project),
        [one, other, ..] => Err(Reason::TwoPrograms { binary, places: [one.root.clone(), other.root.clone()] }),
        [] => Err(Reason::NoProgram { binary, why: why_not(package, program, projects) }),
    }
}

/// The folder of the one package of this name.
fn folder_of_kernels(package: &str, projects: &[&Project]) -> Result<PathBuf, Reason> {
    let binary = package.to_owned();
    let places: Vec<(&Path, &PathBuf)> =
        projects.iter().filter_map(|project| Some((project.root.as_path(), project.folders.get(package)?))).collect();
    match places[..] {
        [(_, folder)] => Ok(folder.clone()),
        [(one, _), (other, _), ..] => Err(Reason::TwoPrograms { binary, places: [one.to_owned(), other.to_owned()] }),
        [] => {
            let all = projects.iter().flat_map(|project| project.folders.keys()).map(String::as_str);
            let guess = nearest(package, all);
            let guess = guess.map_or_else(String::new, |guess| format!("; did you mean `{guess}`?"));
            let places: Vec<String> = projects.iter().map(|project| project.root.display().to_string()).collect();
            Err(Reason::NoProgram { binary, why: format!("no package `{package}` in {}{guess}", places.join(" or ")) })
        }
    }
}

/// The reason why no project has this program, and the programs that there are.
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

/// The kernel as it lies in memory: code, constants and data, without the part that is zeroed at start.
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
    let firmware = manifest.system.devices.iter().filter_map(|device| device.firmware.as_ref());
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
mod tests;

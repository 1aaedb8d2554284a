//! One system from manifest to verdict: build, run, decode, print.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fusee_abi::trace::{Level, Record};
use fusee_accel_contract::CONTROL_LATE_COMPLETIONS;
use fusee_manifest::trace::{Places, Trace, canonical, describe};
use fusee_manifest::{Manifest, PackOptions, Panic, Profile, Resolved, Variant};
use fusee_simulator::metrics::Metrics;
use fusee_views::explain::Turn;
use zerocopy::{FromBytes, IntoBytes};

use crate::answers::{self, RunAnswer};
use crate::build::{self, Builder, Features, Programs};
use crate::decode::Rings;
use crate::defmt::{self, Tables};
use crate::isolation;
use crate::judge::{Cause, Problem, Watch};
use crate::project::Project;
use crate::qemu::{self, EndedBy, GuestMemory, Outcome, Stimuli};
use crate::toolchain::{self, Toolchain};
use crate::turns::{self, Turns};
use crate::{profile, report};

/// This repository, the project that a command is about, and the programs we call.
pub struct Workspace {
    /// Which kernel is built.
    pub kernel: build::Kernel,
    /// With which features.
    pub features: Features,
    /// This repository.
    pub fusee: Project,
    /// Its folder.
    pub root: PathBuf,
    /// The project whose systems are built and run; this repository for its own checks.
    pub project: Project,
    /// The compiler.
    pub toolchain: Toolchain,
    /// The emulator.
    pub qemu: PathBuf,
    /// The board, in place of those that manifests name.
    pub board: Option<String>,
}

/// A bootable image, and what it was made of.
pub struct Image {
    /// Whether engine locks are off.
    pub unmanaged: bool,
    /// The image.
    pub path: PathBuf,
    /// The system in it.
    pub manifest: Manifest,
    /// How it is to be run.
    pub profile: Profile,
    /// The programs in it, with their symbols.
    pub programs: Programs,
}

impl Image {
    /// Where what its task sends of the trace goes, if it has such a task.
    pub fn stream(&self) -> Option<PathBuf> {
        self.manifest.system.shows_trace().then(|| self.path.with_extension("stream"))
    }
}

/// The board whose kernels and images have no board in their names.
pub const DEFAULT_BOARD: &str = "virt";

/// Records that are shown of a system that did not end itself.
const LAST: usize = 12;

/// How to run an image.
pub struct RunOptions<'a> {
    /// Show the console while it is printed.
    pub echo: bool,
    /// Host seconds after which the run is ended.
    pub seconds: u64,
    /// Longest turn of a CPU, virtual microseconds.
    pub quantum: u32,
    /// Whether QEMU enters the image; else the arguments say what it enters.
    pub enters: bool,
    /// Further arguments for QEMU.
    pub arguments: Vec<String>,
    /// Virtual nanoseconds after which the run is ended.
    pub until: Option<u64>,
    /// Who looks at it meanwhile: called again and again with what reads the trace so far.
    pub watch: Option<&'a Watcher<'a>>,
    /// What comes from outside.
    pub stimuli: Stimuli,
}

/// See [`RunOptions::watch`].
pub type Watcher<'a> = dyn Fn(&dyn Fn() -> Option<Trace>) + 'a;

impl RunOptions<'_> {
    /// A run of at most so many host seconds that shows nothing, with short turns, for latencies.
    pub fn quiet(seconds: u64) -> Self {
        let stimuli = Stimuli::default();
        RunOptions {
            echo: false,
            seconds,
            quantum: 10,
            enters: true,
            arguments: Vec::new(),
            until: None,
            watch: None,
            stimuli,
        }
    }
}

/// A run, and its trace if it left one.
pub struct Run {
    /// How it ended.
    pub outcome: Outcome,
    /// Completions that the devices announced too late.
    pub late: u32,
    /// The turns of its CPUs.
    pub turns: Turns,
    /// What happened.
    pub trace: Result<Trace>,
    /// When CPUs were not executed, as far as that was watched.
    pub away: Vec<Turn>,
}

impl Run {
    /// What a run says of completions that came too late; nothing if none did. There are some only if it was emulated in parallel.
    pub fn late_words(&self) -> Option<String> {
        let were = if self.late == 1 { "completion was" } else { "completions were" };
        (self.late > 0).then(|| format!("{} {were} late, because the host was", self.late))
    }
}

/// The repository's folder.
pub fn root() -> Result<PathBuf> {
    // Cargo says where our own source is: two levels below.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    let root = own.ancestors().nth(2).context("xtask is not in tools/xtask")?;
    Ok(root.to_owned())
}

/// Reads a manifest; relative paths count from here or from `root`. Warnings are printed.
pub fn read_manifest(root: &Path, path: &Path) -> Result<Manifest> {
    read_manifest_for(root, path, None)
}

/// The same, for another board than the manifest names.
pub fn read_manifest_for(root: &Path, path: &Path, board: Option<&str>) -> Result<Manifest> {
    read_said(root, path, &Variant { board: board.map(str::to_owned), ..Variant::default() })
}

fn read_said(root: &Path, path: &Path, variant: &Variant) -> Result<Manifest> {
    let manifest = read_variant(root, path, variant)?;
    for warning in &manifest.system.warnings {
        eprintln!("{} {}: {warning}", report::yellow("warning:"), manifest.file.display());
    }
    Ok(manifest)
}

/// Reads a manifest, varied; relative paths count from here or from `root`. Errors name it from `root`.
pub fn read_variant(root: &Path, path: &Path, variant: &Variant) -> Result<Manifest> {
    let path = if path.exists() { std::path::absolute(path)? } else { root.join(path) };
    let shown = path.strip_prefix(root).unwrap_or(&path);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let variant = Variant { folder: path.parent().map(Path::to_owned), ..variant.clone() };
    Ok(Manifest::parse_variant(shown, &text, &variant)?)
}

impl Workspace {
    /// Finds compiler and emulator, for this repository's own systems.
    pub fn open(install: bool) -> Result<Workspace> {
        let fusee = Project::fusee()?;
        let root = fusee.root.clone();
        let toolchain = Toolchain::find(&root, install)?;
        let qemu = toolchain::find_qemu(install)?;
        let (kernel, features) = (build::Kernel::Traced(Level::Schedule), Features::All);
        Ok(Workspace { project: fusee.clone(), fusee, root, toolchain, qemu, kernel, features, board: None })
    }

    /// Finds compiler and emulator, for systems of the project around the current folder.
    pub fn here(install: bool) -> Result<Workspace> {
        Ok(Workspace { project: Project::here()?, features: Features::Asked, ..Workspace::open(install)? })
    }

    /// The same for `board`, or that of each manifest, with a QEMU that has it, if one can be had.
    pub fn on(mut self, board: Option<&str>, install: bool) -> Workspace {
        if let Some(board) = board.and_then(fusee_manifest::Board::named) {
            toolchain::prepare_turning(&board, &self.qemu, install);
            self.qemu = toolchain::qemu_for(&board, self.qemu, install);
        }
        self.board = board.map(str::to_owned);
        self
    }

    /// What building needs.
    pub fn builder(&self) -> Builder<'_> {
        Builder {
            fusee: &self.fusee,
            project: &self.project,
            toolchain: &self.toolchain,
            kernel: self.kernel,
            features: self.features,
        }
    }

    /// Reads a manifest; relative paths count from here or from the project.
    pub fn manifest(&self, path: &Path) -> Result<Manifest> {
        read_manifest_for(&self.project.root, path, self.board.as_deref())
    }

    /// The same of a system whose kernels are measured.
    pub fn manifest_that_measures(&self, path: &Path) -> Result<Manifest> {
        read_said(
            &self.project.root,
            path,
            &Variant { board: self.board.clone(), measures: true, ..Variant::default() },
        )
    }

    /// Builds the image of one manifest.
    pub fn image(&self, path: &Path, profile: Profile, unmanaged: bool) -> Result<Image> {
        self.image_of_manifest(self.manifest(path)?, profile, unmanaged)
    }

    /// The image of a system of our own checks, with the trace that its manifest asks for; `name` is that of its file, in words of errors.
    pub fn image_as_asked(&self, name: &str, text: &str, profile: Profile) -> Result<Image> {
        let manifest = Manifest::parse(Path::new(name), text)?;
        let builder = Builder { kernel: build::Kernel::Asked, ..self.builder() };
        let programs = builder.programs(&[&manifest.system])?;
        self.image_of(manifest, programs, profile, false)
    }

    /// The same of a manifest that has been read.
    pub fn image_of_manifest(&self, manifest: Manifest, profile: Profile, unmanaged: bool) -> Result<Image> {
        let programs = {
            let builder = self.builder();
            let plan = builder.plan(&[&manifest.system]).map_err(|reason| manifest.at_binary(reason))?;
            builder.build(&plan)?
        };
        self.image_of(manifest, programs, profile, unmanaged)
    }

    /// Joins programs that are already built, and those that the manifest names by their paths.
    pub fn image_of(
        &self,
        manifest: Manifest,
        mut programs: Programs,
        profile: Profile,
        unmanaged: bool,
    ) -> Result<Image> {
        let board = &manifest.system.board;
        board.profiles.get(&profile).context("the board does not have this profile")?;
        let stride = board.stride(profile, turns::cpus(&manifest.system));
        if let Some(lack) = too_many(&manifest.system, profile) {
            bail!("{lack}");
        }
        let options = PackOptions { cpu_stride: stride, managed: unmanaged.then_some(false) };
        programs.binaries.extend(self.project.by_path(&manifest));
        let packed = build::pack(&manifest, &programs, options)?;
        let bytes = build::image(&programs.kernel, &packed, &board.memory)?;
        let kind = if unmanaged { "-unmanaged" } else { "" };
        let on = if board.name == DEFAULT_BOARD { String::new() } else { format!("-{}", board.name) };
        let path = self.project.kept(&format!("{}{on}-{}{kind}.img", manifest.system.name, profile_name(profile)))?;
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        std::fs::write(&draft, bytes).with_context(|| draft.display().to_string())?;
        std::fs::rename(&draft, &path)?;
        Ok(Image { path, manifest, profile, programs, unmanaged })
    }
}

/// That a system has more CPUs than its board can be run with in this profile, if it has.
pub fn too_many(system: &Resolved, profile: Profile) -> Option<String> {
    let (wanted, usable) = (turns::cpus(system), system.board.usable(profile));
    // Turns are as long as they were asked for while one CPU waits now and then, as that of engines does. If the kernel computes on all of them, they are
    // not: jobs end some 0.5 ms late.
    let kernels = system.board.cpus.count - 1;
    let is_full = system.board.fair(profile, wanted).is_some() && system.cpus > kernels;
    let (board, profile) = (&system.board.name, profile_name(profile));
    if is_full {
        return Some(format!(
            "board `{board}` has {kernels} CPUs for a kernel with `{profile}`; the system's has {}",
            system.cpus
        ));
    }
    (wanted > usable).then(|| format!("board `{board}` has {usable} CPUs with `{profile}`; the system has {wanted}"))
}

/// Why a system cannot be run here: its board has too few CPUs in this profile, or with this QEMU.
pub fn lacks(workspace: &Workspace, system: &Resolved, profile: Profile) -> Option<String> {
    let old = || toolchain::turning(&workspace.qemu, &system.board, profile, turns::cpus(system)).err();
    too_many(system, profile).or_else(|| old().map(|error| error.to_string()))
}

/// The profile's name, as in file names and on the command line.
pub fn profile_name(profile: Profile) -> &'static str {
    match profile {
        Profile::Det => "det",
        Profile::Par => "par",
    }
}

/// Runs an image and reads its trace.
///
/// # Errors
/// QEMU does not start, or a device was late: then the devices were not as fast as their formulas say, and nothing that
/// the run shows counts. Emulated in parallel, that depends on the host: it is no error, but whoever shows the run says so.
pub fn run(workspace: &Workspace, image: &Image, options: &RunOptions<'_>) -> Result<Run> {
    let system = &image.manifest.system;
    let rings = Rings::of(&image.programs.kernel);
    let is_enough = |memory: &GuestMemory| {
        if let Some(watch) = options.watch {
            watch(&|| rings.as_ref().ok()?.trace(memory).ok());
        }
        let latest = || rings.as_ref().ok()?.latest(memory);
        options.until.is_some_and(|until| latest().is_some_and(|latest| latest > until))
    };
    let mut arguments = options.arguments.clone();
    if let Some(path) = image.stream() {
        let path = path.display().to_string();
        arguments.extend(system.board.qemu.stream.iter().map(|argument| argument.replace("{file}", &path)));
    }
    arguments.extend(device_arguments(image)?);
    let outcome = qemu::run(&qemu::Setup {
        qemu: &workspace.qemu,
        image: &image.path,
        enters: options.enters,
        board: &system.board,
        profile: image.profile,
        cpus: turns::cpus(system),
        quantum: options.quantum,
        limit: Duration::from_secs(options.seconds),
        echo: options.echo,
        apart: false,
        is_enough: &is_enough,
        arguments: &arguments,
        stimuli: options.stimuli.clone(),
    })?;
    let late = late_completions(system, &outcome)?;
    if late > 0 && image.profile == Profile::Det {
        bail!("{late} completions of the device model were announced too late");
    }
    let reached = isolation::check(image, &outcome)?;
    if !reached.is_empty() {
        bail!("tables of translations are not what the manifest says:\n  {}", reached.join("\n  "));
    }
    let trace = rings.and_then(|rings| rings.trace(&outcome.memory)).map(|mut trace| {
        // The host ends a run a little later than it was asked to.
        trace.records.retain(|record| outcome.code.is_some() || options.until.is_none_or(|until| record.time <= until));
        trace
    });
    Ok(Run { outcome, late, trace, turns: Turns::of(system, Some(options.quantum)), away: Vec::new() })
}

/// What QEMU is told of the board's devices that the system has, and that are not always there. The files behind them are made anew.
pub fn device_arguments(image: &Image) -> Result<Vec<String>> {
    let mut arguments = Vec::new();
    if let Some(smmu) = image.manifest.system.board.smmu.as_ref().filter(|_| image.manifest.system.has_smmu()) {
        arguments.extend_from_slice(&smmu.qemu.arguments);
    }
    for (name, device) in image.manifest.system.board_devices() {
        let Some(qemu) = &device.qemu else { continue };
        let path = image.path.with_extension(name);
        if let Some(bytes) = qemu.bytes {
            let file = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
            file.set_len(bytes.0)?;
        }
        let path = path.display().to_string();
        arguments.extend(qemu.arguments.iter().map(|argument| argument.replace("{file}", &path)));
    }
    Ok(arguments)
}

/// What is to be known of a system before it runs: which tasks could do more than their handles say.
pub fn say_what_is_reached(system: &Resolved) {
    let mut by_task: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (task, device) in system.reaching_all_memory() {
        by_task.entry(task).or_default().push(format!("`{device}`"));
    }
    for (task, devices) in by_task {
        eprintln!(
            "{} `{task}` can reach all memory: nothing translates the addresses that it gives to {}",
            report::yellow("note:"),
            devices.join(", ")
        );
    }
}

/// How many completions all devices of the system announced too late.
fn late_completions(system: &Resolved, outcome: &Outcome) -> Result<u32> {
    let mut late = 0;
    for device in system.devices.iter().filter(|device| device.processor.is_none()) {
        let word = outcome.memory.read(device.control + CONTROL_LATE_COMPLETIONS, 4)?;
        late += u32::from_le_bytes(word.try_into().expect("four bytes were asked for"));
    }
    Ok(late)
}

/// Prints faults, the table of tasks and what is wrong, which is returned, too. `say` prints what is no error.
pub fn print_outcome(image: &Image, run: &Run, say: &dyn Fn(&str)) -> Vec<Problem> {
    let system = &image.manifest.system;
    let mut problems = Vec::new();
    let mut bad = |cause: Cause, text: String| {
        eprintln!("{} {text}", report::red("error:"));
        problems.push(Problem { cause, text });
    };
    match (run.outcome.code, run.outcome.ended_by) {
        // A board that was reset ends QEMU as if all were well.
        (Some(0), _) if system.panic == Panic::Reset && run.outcome.console.contains("kernel panic") => {
            bad(Cause::ExitCode, "the kernel panicked and reset the board".into());
        }
        (Some(0), _) => {}
        (Some(code), _) => bad(Cause::ExitCode, format!("the system ended with code {code}")),
        (None, Some(EndedBy::Enough)) => say("the run ended here, as asked; the system did not end itself"),
        (None, Some(EndedBy::User)) => bad(Cause::NotEnded, "the run was interrupted".into()),
        (None, _) => bad(
            Cause::NotEnded,
            format!(
                "the system did not end within {} s of the host; `--seconds` gives it more, `--for` ends it on time",
                run.outcome.took.as_secs()
            ),
        ),
    }
    if run.outcome.code != Some(0) {
        for line in report::kernel_addresses(&run.outcome.console, &image.programs.kernel) {
            eprintln!("{line}");
        }
    }
    if let Some(path) = image.stream() {
        say(&format!("the trace that was sent: `cargo xtask trace --stream {}`", path.display()));
    }
    if let Some(words) = run.late_words() {
        eprintln!("{} {words}", report::yellow("note:"));
    }
    match &run.trace {
        Ok(trace) => {
            for fault in report::faults(trace, image) {
                eprintln!("{}", report::red(&fault));
            }
            if trace.exit_code().is_some() {
                say(&report::task_table(trace, system));
                for error in report::unbalanced(trace) {
                    bad(Cause::Accounts, error);
                }
            } else {
                say(&report::task_table(&trace.with_counted_ledgers(system), system));
                if run.outcome.ended_by != Some(EndedBy::Enough) {
                    eprintln!("what happened last:");
                    for record in &trace.records[trace.records.len().saturating_sub(LAST)..] {
                        eprintln!("{}", describe(record, system));
                    }
                }
            }
            if trace.lost > 0 {
                eprintln!("{} the first {} records of the trace were overwritten", report::yellow("note:"), trace.lost);
            }
            say(&run.turns.words(image.profile));
            if let Some(words) = run.turns.warning(image.profile) {
                eprintln!("{} {words}", report::yellow("note:"));
            }
            let mut verdict = Watch::of(trace, system).verdict(image.manifest.expectations.as_ref());
            verdict.harmless.iter().for_each(|words| say(words));
            let missed = !verdict.misses.is_empty();
            if let Some(why) = excuse(image) {
                for words in std::mem::take(&mut verdict.misses) {
                    eprintln!("{} {words}: {why}", report::yellow("note:"));
                }
            }
            verdict.problems().into_iter().for_each(|problem| bad(problem.cause, problem.text));
            if missed && excuse(image).is_none() {
                crate::explain::say_why_missed(trace, system, &run.away);
            }
        }
        Err(_) if system.trace == Level::Off => {
            say("no trace, as the manifest asks: the exit code is all that is known")
        }
        Err(error) => bad(Cause::NoTrace, format!("no trace: {error:#}")),
    }
    problems
}

/// All that is known of a run, for scripts.
pub fn answer(image: &Image, run: &Run, problems: Vec<Problem>) -> RunAnswer {
    let system = &image.manifest.system;
    let none = Trace::default();
    let trace = run.trace.as_ref().unwrap_or(&none);
    let has_ended = trace.exit_code().is_some();
    let watch = Watch::of(trace, system);
    let counted = if has_ended { trace.clone() } else { trace.with_counted_ledgers(system) };
    RunAnswer {
        name: system.name.clone(),
        unit: answers::Unit::Ns,
        by: match image.profile {
            Profile::Det => answers::By::QemuDet,
            Profile::Par => answers::By::QemuPar,
        },
        ended_at: trace.records.last().map_or(0, |record| record.time),
        exit: run.outcome.code.map(i64::from),
        traps: None,
        lost_records: trace.lost,
        verdict: answers::VerdictAnswer { good: problems.is_empty(), problems },
        tasks: answers::tasks(system, &Metrics::of(trace, system), Some(&counted), &watch, has_ended),
        graphs: answers::graphs(system, watch.latencies()),
        observed: answers::observed(trace, system),
        console: Some(run.outcome.console.clone()),
    }
}

/// Why missed deadlines say nothing about the system, if they do not.
fn excuse(image: &Image) -> Option<&'static str> {
    match (image.unmanaged, image.profile) {
        (true, _) => Some("engines were not managed"),
        (_, Profile::Par) => Some("with `par` times are the host's"),
        (false, Profile::Det) => None,
    }
}

//--- The last trace

const RECORDS: &str = "last.trace";
const NAMES: &str = "last.toml";
const TURNS: &str = "last.turns";
/// Extension of the file that says on which board a manifest ran.
const BOARD: &str = "board";
/// Which programs ran that have a table of `defmt`.
const TABLES: &str = "last.tables";
/// What the profiler saw of a run that it watched.
const WATCHED: &str = "last.watched";

/// Arguments with which QEMU tells whose turn it is.
pub fn watching(workspace: &Workspace, image: &Image) -> Result<[String; 2]> {
    let plugin = workspace.builder().plugin(profile::PACKAGE, profile::LIBRARY)?;
    let rings = Rings::of(&image.programs.kernel)?.counts();
    let out = workspace.project.kept(WATCHED)?;
    Ok(["-plugin".to_owned(), format!("{},out={},rings={rings}", plugin.display(), out.display())])
}

/// What was seen of the turns of a run that [`watching`] made QEMU tell of.
pub fn turns_seen(workspace: &Workspace, image: &Image, trace: &Trace) -> Result<Vec<Turn>> {
    let path = workspace.project.kept(WATCHED)?;
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let stride = image.manifest.system.board.stride(image.profile, turns::cpus(&image.manifest.system));
    Ok(fusee_views::turns::turns(&text, trace, stride)?)
}

/// Keeps the turns of a run for `cargo xtask trace`.
pub fn keep_turns(project: &Project, turns: &[Turn]) -> Result<()> {
    write(&project.kept(TURNS)?, fusee_views::turns::write(turns).as_bytes())
}

/// The turns of the last run, if they were watched.
pub fn last_turns(project: &Project) -> Result<Vec<Turn>> {
    match std::fs::read_to_string(project.kept(TURNS)?) {
        Ok(text) => Ok(fusee_views::turns::read(&text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).context(TURNS),
    }
}

/// Keeps the trace of a run for `cargo xtask trace`.
pub fn keep_trace(project: &Project, manifest: &Manifest, trace: &Trace) -> Result<()> {
    forget_trace(project)?;
    write(&project.kept(RECORDS)?, trace.records.as_bytes())?;
    keep_manifest(project, manifest, &project.kept(NAMES)?)
}

/// Keeps which programs of a run have tables of `defmt`.
pub fn keep_tables(project: &Project, programs: &Programs) -> Result<()> {
    write(&project.kept(TABLES)?, serde_json::to_string(&defmt::tables(programs)?)?.as_bytes())
}

/// The programs of the last run that have tables of `defmt`.
pub fn last_tables(project: &Project) -> Result<Tables> {
    match std::fs::read_to_string(project.kept(TABLES)?) {
        Ok(text) => serde_json::from_str(&text).context(TABLES),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Tables::new()),
        Err(error) => Err(error).context(TABLES),
    }
}

/// Keeps a copy of the manifest of a run, and beside it the name of the board that it ran on: both may be others when the run is looked at.
pub fn keep_manifest(project: &Project, manifest: &Manifest, to: &Path) -> Result<()> {
    let source = project.root.join(&manifest.file);
    let text = std::fs::read(&source).with_context(|| source.display().to_string())?;
    write(&to.with_extension(BOARD), manifest.system.board.name.as_bytes())?;
    for file in manifest.system.devices.iter().filter_map(|device| device.time_file.as_ref()) {
        let kept = to.with_file_name(file);
        match std::fs::read(source.with_file_name(file)) {
            Ok(times) => write(&kept, &times)?,
            // What measures has none yet.
            Err(_) if kept.exists() => std::fs::remove_file(&kept)?,
            Err(_) => {}
        }
    }
    write(to, &text)
}

/// What [`keep_manifest`] has kept at `path`.
pub fn kept_manifest(path: &Path) -> Result<Manifest> {
    let board = path.with_extension(BOARD);
    let name = std::fs::read_to_string(&board).with_context(|| board.display().to_string())?;
    Ok(Manifest::read_variant(path, &Variant { board: Some(name), measures: true, ..Variant::default() })?)
}

/// There is no last run from here on.
pub fn forget_trace(project: &Project) -> Result<()> {
    for file in [RECORDS, TURNS, TABLES] {
        match std::fs::remove_file(project.kept(file)?) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).context(file),
            _ => {}
        }
    }
    Ok(())
}

/// Writes a file, and makes its folder. Errors name what cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// The trace of the project's last run, and the system that ran.
pub fn last_trace(project: &Project) -> Result<(Trace, Manifest)> {
    let bytes = std::fs::read(project.kept(RECORDS)?)?;
    let manifest = last_manifest(project)?;
    let mut records = Vec::new();
    let mut rest = &bytes[..];
    while let Ok((record, next)) = Record::read_from_prefix(rest) {
        records.push(record);
        rest = next;
    }
    Ok((Trace::from_records(records), manifest))
}

/// The manifest of the last run.
pub fn last_manifest(project: &Project) -> Result<Manifest> {
    kept_manifest(&project.kept(NAMES)?)
}

/// Prints a trace.
pub fn print_trace(trace: &Trace, manifest: &Manifest, as_canonical: bool) -> Result<bool> {
    use std::io::Write;
    let text = if as_canonical {
        match canonical(trace, &manifest.system, Places::Shown) {
            Ok(text) => text,
            Err(off) => bail!("not on the grid, {} ns away: {}", off.by, describe(&off.record, &manifest.system)),
        }
    } else {
        trace.records.iter().map(|record| describe(record, &manifest.system) + "\n").collect()
    };
    // A closed pipe (`| head`) is no error.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(true)
}

//! One system from manifest to verdict: build, run, decode, print.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fusee_abi::trace::Record;
use fusee_accel_contract::CONTROL_LATE_COMPLETIONS;
use fusee_manifest::trace::{Places, Trace, canonical, describe};
use fusee_manifest::{Manifest, PackOptions, Profile, Resolved, Variant};
use zerocopy::{FromBytes, IntoBytes};

use crate::build::{self, Builder, Features, Programs};
use crate::decode::Rings;
use crate::judge::Watch;
use crate::qemu::{self, EndedBy, GuestMemory, Outcome};
use crate::report;
use crate::toolchain::{self, Toolchain};
use crate::turns::{self, Turns};

/// The repository, and the programs we call.
pub struct Workspace {
    /// Which kernel is built.
    pub kernel: build::Kernel,
    /// With which features.
    pub features: Features,
    /// Its folder.
    pub root: PathBuf,
    /// The compiler.
    pub toolchain: Toolchain,
    /// The emulator.
    pub qemu: PathBuf,
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

/// Records that are shown of a system that did not end itself.
const LAST: usize = 12;

/// How to run an image.
pub struct RunOptions {
    /// Show the console while it is printed.
    pub echo: bool,
    /// Host seconds after which the run is ended.
    pub seconds: u64,
    /// Longest turn of a CPU, virtual microseconds.
    pub quantum: u32,
    /// Further arguments for QEMU.
    pub arguments: Vec<String>,
    /// Virtual nanoseconds after which the run is ended.
    pub until: Option<u64>,
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
    let manifest = read_variant(root, path, &Variant::default())?;
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
    Ok(Manifest::parse_variant(shown, &text, variant)?)
}

impl Workspace {
    /// Finds compiler and emulator.
    pub fn open(install: bool) -> Result<Workspace> {
        let root = root()?;
        let toolchain = Toolchain::find(&root, install)?;
        let qemu = toolchain::find_qemu(install)?;
        Ok(Workspace { root, toolchain, qemu, kernel: build::Kernel::Traced, features: Features::All })
    }

    /// What building needs.
    pub fn builder(&self) -> Builder<'_> {
        Builder { root: &self.root, toolchain: &self.toolchain, kernel: self.kernel, features: self.features }
    }

    /// Reads a manifest; relative paths count from here or from the repository.
    pub fn manifest(&self, path: &Path) -> Result<Manifest> {
        read_manifest(&self.root, path)
    }

    /// Builds the image of one manifest.
    pub fn image(&self, path: &Path, profile: Profile, unmanaged: bool) -> Result<Image> {
        let manifest = self.manifest(path)?;
        let programs = self.builder().programs(&[&manifest.system])?;
        self.image_of(manifest, programs, profile, unmanaged)
    }

    /// Joins programs that are already built.
    pub fn image_of(&self, manifest: Manifest, programs: Programs, profile: Profile, unmanaged: bool) -> Result<Image> {
        let board = &manifest.system.board;
        let stride = board.profiles.get(&profile).context("the board does not have this profile")?.cpu_stride;
        let options = PackOptions { cpu_stride: stride, managed: unmanaged.then_some(false) };
        let packed = build::pack(&manifest, &programs, options)?;
        let bytes = build::image(&programs.kernel, &packed, &board.memory)?;
        let folder = self.root.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        let kind = if unmanaged { "-unmanaged" } else { "" };
        let path = folder.join(format!("{}-{}{kind}.img", manifest.system.name, profile_name(profile)));
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        std::fs::write(&draft, bytes)?;
        std::fs::rename(&draft, &path)?;
        Ok(Image { path, manifest, profile, programs, unmanaged })
    }
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
pub fn run(workspace: &Workspace, image: &Image, options: &RunOptions) -> Result<Run> {
    let system = &image.manifest.system;
    let rings = Rings::of(&image.programs.kernel);
    let is_enough = |memory: &GuestMemory| {
        let latest = || rings.as_ref().ok()?.latest(memory);
        options.until.is_some_and(|until| latest().is_some_and(|latest| latest > until))
    };
    let outcome = qemu::run(&qemu::Setup {
        qemu: &workspace.qemu,
        image: &image.path,
        board: &system.board,
        profile: image.profile,
        cpus: turns::cpus(system),
        quantum: options.quantum,
        limit: Duration::from_secs(options.seconds),
        echo: options.echo,
        apart: false,
        is_enough: &is_enough,
        arguments: &options.arguments,
    })?;
    let late = late_completions(system, &outcome)?;
    if late > 0 && image.profile == Profile::Det {
        bail!("{late} completions of the device model were announced too late");
    }
    let trace = rings.and_then(|rings| rings.trace(&outcome.memory)).map(|mut trace| {
        // The host ends a run a little later than it was asked to.
        trace.records.retain(|record| outcome.code.is_some() || options.until.is_none_or(|until| record.time <= until));
        trace
    });
    Ok(Run { outcome, late, trace, turns: Turns::of(system, Some(options.quantum)) })
}

/// How many completions all devices of the system announced too late.
fn late_completions(system: &Resolved, outcome: &Outcome) -> Result<u32> {
    let mut late = 0;
    for device in &system.devices {
        let word = outcome.memory.read(device.control + CONTROL_LATE_COMPLETIONS, 4)?;
        late += u32::from_le_bytes(word.try_into().expect("four bytes were asked for"));
    }
    Ok(late)
}

/// Prints faults, the table of tasks and what is wrong; `true` if nothing is.
pub fn print_outcome(image: &Image, run: &Run) -> bool {
    let system = &image.manifest.system;
    let mut good = true;
    let mut bad = |text: String| {
        eprintln!("{} {text}", report::red("error:"));
        good = false;
    };
    match (run.outcome.code, run.outcome.ended_by) {
        (Some(0), _) => {}
        (Some(code), _) => bad(format!("the system ended with code {code}")),
        (None, Some(EndedBy::Enough)) => println!("the run ended here, as asked; the system did not end itself"),
        (None, Some(EndedBy::User)) => bad("the run was interrupted".into()),
        (None, _) => bad(format!(
            "the system did not end within {} s of the host; `--seconds` gives it more, `--for` ends it on time",
            run.outcome.took.as_secs()
        )),
    }
    if run.outcome.code != Some(0) {
        for line in report::kernel_addresses(&run.outcome.console, &image.programs.kernel) {
            eprintln!("{line}");
        }
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
                println!("{}", report::task_table(trace, system));
                for error in report::unbalanced(trace) {
                    bad(error);
                }
            } else {
                println!("{}", report::task_table(&trace.with_counted_ledgers(system), system));
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
            println!("{}", run.turns.words(image.profile));
            if let Some(words) = run.turns.warning(image.profile) {
                eprintln!("{} {words}", report::yellow("note:"));
            }
            let verdict = Watch::of(trace, system).verdict(image.manifest.expectations.as_ref());
            verdict.harmless.iter().for_each(|words| println!("{words}"));
            verdict.ends.into_iter().for_each(&mut bad);
            match excuse(image) {
                None if verdict.misses.is_empty() => {}
                None => {
                    verdict.misses.into_iter().for_each(bad);
                    crate::explain::say_why_missed(trace, system);
                }
                Some(why) => {
                    for words in verdict.misses {
                        eprintln!("{} {words}: {why}", report::yellow("note:"));
                    }
                }
            }
        }
        Err(error) => bad(format!("no trace: {error:#}")),
    }
    good
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

const FOLDER: &str = "target/fusee";
const RECORDS: &str = "target/fusee/last.trace";
const NAMES: &str = "target/fusee/last.toml";

/// Keeps the trace of a run for `cargo xtask trace`.
pub fn keep_trace(root: &Path, manifest: &Manifest, trace: &Trace) -> Result<()> {
    std::fs::create_dir_all(root.join(FOLDER))?;
    std::fs::write(root.join(RECORDS), trace.records.as_bytes())?;
    // The manifest may change before the trace is looked at.
    let source = root.join(&manifest.file);
    std::fs::copy(&source, root.join(NAMES)).with_context(|| source.display().to_string())?;
    Ok(())
}

/// The trace of the last run, and the system that ran.
pub fn last_trace(root: &Path) -> Result<(Trace, Manifest)> {
    let bytes = std::fs::read(root.join(RECORDS))?;
    let manifest = Manifest::read(&root.join(NAMES))?;
    let mut records = Vec::new();
    let mut rest = &bytes[..];
    while let Ok((record, next)) = Record::read_from_prefix(rest) {
        records.push(record);
        rest = next;
    }
    Ok((Trace::from_records(records), manifest))
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

//! The files of a run: those in its folder, and the reading of the last one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use fusee_abi::trace::Record;
use fusee_manifest::trace::{Places, Trace, canonical, describe};
use fusee_manifest::{Manifest, Variant};
use fusee_views::explain::Turn;
use serde_json::{Value, json};
use zerocopy::{FromBytes, IntoBytes};

use crate::build::Programs;
use crate::decode::Rings;
use crate::defmt::{self, Tables};
use crate::folders;
use crate::picture::Picture;
use crate::project::Project;
use crate::qemu::{CpuRegisters, EndedBy, GuestMemory};
use crate::run::Run;
use crate::workspace::{Image, Workspace};
use crate::{turns, words};

//--- The files of a run

/// The folder of the files that `dump` reads, in that of the run.
const FOLDER: &str = "dump";
const MEMORY: &str = "memory";
const MANIFEST: &str = "system.toml";
const RUN: &str = "run.json";
const SCREEN: &str = "screen.ppm";

/// Keeps memory, manifest and registers of a run.
pub fn keep_run(project: &Project, image: &Image, run: &Run) -> Result<PathBuf> {
    let outcome = &run.outcome;
    let folder = project.kept(FOLDER)?;
    std::fs::create_dir_all(&folder)?;
    keep_manifest(project, &image.manifest, &folder.join(MANIFEST))?;
    outcome.memory.keep(&folder.join(MEMORY))?;
    let ended = match (outcome.code, outcome.ended_by) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, by) => format!("was ended ({})", by.map_or("?", EndedBy::words)),
    };
    let cpu = |cpu: &CpuRegisters| json!({ "general": cpu.general, "pc": cpu.program_counter, "state": cpu.state });
    let kept = json!({
        "kernel": image.programs.kernel,
        "binaries": image.programs.binaries,
        "cpus": outcome.cpus.iter().map(cpu).collect::<Vec<_>>(),
        "ended": ended,
        "unmanaged": image.unmanaged,
        "late": run.late,
        "quantum": run.turns.quantum,
        "target": project.target,
    });
    std::fs::write(folder.join(RUN), kept.to_string())?;
    if let Some(Ok(picture)) = &outcome.screen {
        std::fs::write(folder.join(SCREEN), picture.to_bytes())?;
    }
    Ok(folder)
}

/// A run that was kept.
pub struct Kept {
    /// The system.
    pub manifest: Manifest,
    /// Its programs, with their symbols.
    pub programs: Programs,
    /// The guest's memory.
    pub memory: GuestMemory,
    /// Registers of the emulated CPUs.
    pub cpus: Vec<CpuRegisters>,
    /// How the run ended, in words.
    pub ended: String,
    /// Whether engine locks were off.
    pub unmanaged: bool,
    /// Completions that devices announced too late.
    pub late: u32,
    /// Longest turn of an emulated CPU, virtual microseconds.
    pub quantum: u32,
    /// The picture that was made of the screen, if one was.
    pub screen: Option<Picture>,
    /// The project's folder for all that is built.
    pub target: PathBuf,
}

impl Kept {
    /// Reads the last run of `project`.
    ///
    /// # Errors
    /// There is none, it is not whole, or it cannot be read.
    pub fn last(project: &Project) -> Result<Kept> {
        let folder = folders::last(project)?.0.kept(FOLDER)?;
        ensure!(
            folder.join(RUN).exists(),
            "the last run was not one of `cargo xtask run`: a simulated system leaves no memory"
        );
        Kept::read(&folder)
    }

    /// Reads the run that is kept in `folder`.
    ///
    /// # Errors
    /// Nothing is kept there, or it cannot be read.
    pub fn read(folder: &Path) -> Result<Kept> {
        let text = std::fs::read_to_string(folder.join(RUN))?;
        let run: Value = serde_json::from_str(&text).context(RUN)?;
        let manifest = kept_manifest(&folder.join(MANIFEST))?;
        let memory = GuestMemory::kept(&folder.join(MEMORY), manifest.system.board.memory.base)?;
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let binaries = run["binaries"].as_object().context(RUN)?;
        let binaries = binaries.iter().filter_map(|(name, path)| Some((name.clone(), word(path)?.into()))).collect();
        let programs = Programs { kernel: word(&run["kernel"]).context(RUN)?.into(), binaries };
        let cpus = run["cpus"].as_array().context(RUN)?.iter().map(|cpu| {
            let mut general = [0; 32];
            let values = cpu["general"].as_array().into_iter().flatten();
            general.iter_mut().zip(values).for_each(|(place, value)| *place = value.as_u64().unwrap_or_default());
            let number = |name: &str| cpu[name].as_u64().unwrap_or_default();
            CpuRegisters { general, program_counter: number("pc"), state: number("state") }
        });
        let ended = word(&run["ended"]).context(RUN)?;
        let number = |name: &str| run[name].as_u64().and_then(|number| number.try_into().ok()).context(RUN);
        let screen = match std::fs::read(folder.join(SCREEN)) {
            Ok(bytes) => Some(Picture::read(&bytes)?),
            Err(_) => None,
        };
        Ok(Kept {
            manifest,
            programs,
            memory,
            cpus: cpus.collect(),
            ended,
            unmanaged: run["unmanaged"].as_bool().context(RUN)?,
            late: number("late")?,
            quantum: number("quantum")?,
            screen,
            target: word(&run["target"]).context(RUN)?.into(),
        })
    }
}

//--- The trace

/// The package of the profiler, a plugin of QEMU.
pub const PROFILER: &str = "fusee-profiler";
/// Its library.
pub const PROFILER_LIBRARY: &str = "fusee_profiler";

const RECORDS: &str = "trace";
const NAMES: &str = "system.toml";
const TURNS: &str = "turns";
/// Extension of the file that says on which board a manifest ran.
const BOARD: &str = "board";
/// Which programs ran that have a table of `defmt`.
const TABLES: &str = "tables";
/// The profiler's file of a run that it watched.
const WATCHED: &str = "watched";

/// Arguments with which QEMU reports the turns of CPUs.
pub fn watching(workspace: &Workspace, image: &Image) -> Result<[String; 2]> {
    let plugin = workspace.builder().plugin(PROFILER, PROFILER_LIBRARY)?;
    let rings = Rings::of(&image.programs.kernel)?.counts();
    let out = workspace.project.kept(WATCHED)?;
    Ok(["-plugin".to_owned(), format!("{},out={},rings={rings}", plugin.display(), out.display())])
}

/// The turns of a run of which [`watching`] let QEMU report.
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

/// Keeps the trace of a run for `cargo xtask trace`.
pub fn keep_trace(project: &Project, manifest: &Manifest, trace: &Trace) -> Result<()> {
    write(&project.kept(RECORDS)?, trace.records.as_bytes())?;
    keep_manifest(project, manifest, &project.kept(NAMES)?)
}

/// Keeps which programs of a run have tables of `defmt`.
pub fn keep_tables(project: &Project, programs: &Programs) -> Result<()> {
    write(&project.kept(TABLES)?, serde_json::to_string(&defmt::tables(programs)?)?.as_bytes())
}

/// Keeps the manifest of a run as it was read, and beside it the name of the board that it ran on and the times of kernels: all may be others when the run is
/// looked at.
pub fn keep_manifest(project: &Project, manifest: &Manifest, to: &Path) -> Result<()> {
    write(&to.with_extension(BOARD), manifest.system.board.name.as_bytes())?;
    let source = project.root.join(&manifest.file);
    for file in manifest.system.devices.iter().filter_map(|device| device.time_file.as_ref()) {
        // A measurement has none yet.
        if let Ok(times) = std::fs::read(source.with_file_name(file)) {
            write(&to.with_file_name(file), &times)?;
        }
    }
    write(to, manifest.text.as_bytes())
}

/// The manifest that [`keep_manifest`] has kept at `path`.
pub fn kept_manifest(path: &Path) -> Result<Manifest> {
    let board = path.with_extension(BOARD);
    let name = std::fs::read_to_string(&board).with_context(|| board.display().to_string())?;
    Ok(Manifest::read_variant(path, &Variant { board: Some(name), measures: true, ..Variant::default() })?)
}

/// Writes a file, and makes its folder. Errors name the file that cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// The last run of a project. It is looked for once, so all that is read of it is of one run, even if another one ends meanwhile.
pub struct Last {
    /// The project, which keeps its files in the folder of the run.
    run: Project,
    records: usize,
}

impl Last {
    /// Finds the last run.
    ///
    /// # Errors
    /// There is none, or it was ended before all of it was kept.
    pub fn of(project: &Project) -> Result<Last> {
        let (run, records) = folders::last(project)?;
        Ok(Last { run, records })
    }

    /// The trace, and the system that ran.
    ///
    /// # Errors
    /// A file cannot be read, or lacks records.
    pub fn trace(&self) -> Result<(Trace, Manifest)> {
        let (trace, manifest) = kept_trace(&self.run.kept_in)?;
        let (there, expected) = (trace.records.len(), self.records);
        ensure!(there == expected, "{} has {there} of {expected} records", self.run.kept_in.display());
        Ok((trace, manifest))
    }

    /// The manifest.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn manifest(&self) -> Result<Manifest> {
        kept_manifest(&self.run.kept(NAMES)?)
    }

    /// The turns of emulated CPUs, if they were watched.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn turns(&self) -> Result<Vec<Turn>> {
        self.text(TURNS)?.map_or(Ok(Vec::new()), |text| Ok(fusee_views::turns::read(&text)?))
    }

    /// The programs that have tables of `defmt`.
    ///
    /// # Errors
    /// The list of them cannot be read.
    pub fn tables(&self) -> Result<Tables> {
        self.text(TABLES)?.map_or(Ok(Tables::new()), |text| serde_json::from_str(&text).context(TABLES))
    }

    /// A file that not every run has.
    fn text(&self, name: &'static str) -> Result<Option<String>> {
        match std::fs::read_to_string(self.run.kept(name)?) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(name),
        }
    }
}

/// The trace that is kept in a folder, and its system.
///
/// # Errors
/// A file cannot be read.
pub fn kept_trace(folder: &Path) -> Result<(Trace, Manifest)> {
    let path = folder.join(RECORDS);
    let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
    let mut records = Vec::new();
    let mut rest = &bytes[..];
    while let Ok((record, next)) = Record::read_from_prefix(rest) {
        records.push(record);
        rest = next;
    }
    Ok((Trace::from_records(records), kept_manifest(&folder.join(NAMES))?))
}

/// Prints a trace.
pub fn print_trace(trace: &Trace, manifest: &Manifest, as_canonical: bool) -> Result<bool> {
    let text = if as_canonical {
        match canonical(trace, &manifest.system, Places::Shown) {
            Ok(text) => text,
            Err(off) => bail!("not on the grid, {} ns away: {}", off.by, describe(&off.record, &manifest.system)),
        }
    } else {
        trace.records.iter().map(|record| describe(record, &manifest.system) + "\n").collect()
    };
    words::print(&text);
    Ok(true)
}

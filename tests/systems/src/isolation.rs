//! Translation tables with planted entries, and the accesses of a task on each board.

use std::path::Path;

use anyhow::{Context, Result};
use fusee_abi::image::{Mapping, System, mapping};
use fusee_abi::trace::{Event, Record};
use fusee_host::build::{KERNEL_OFFSET, Programs};
use fusee_host::isolation::{
    ADDRESS, CONTEXT, EL0, EL0_NO_EXECUTE, EL1_NO_EXECUTE, ENTRIES, LISTED, PAGE, Places, READ_ONLY, Read, TABLE,
    VALID, base_of, check_memory, packed, words,
};
use fusee_host::qemu::GuestMemory;
use fusee_host::system::{self, DEFAULT_BOARD, Image, Run, RunOptions, Workspace};
use fusee_manifest::layout::DOORBELLS;
use fusee_manifest::{Board, Manifest, Profile};
use zerocopy::IntoBytes;

//--- Planted entries

/// The name of the check of planted entries.
pub const CHECK: &str = "an entry that is planted in a table of translations is found";

/// Systems for planted entries in their memory: one with a device behind an SMMU, one without.
const SYSTEMS: [&str; 2] = [
    "tests/target/a_device_reaches_its_drivers_memory_and_no_other_behind_an_smmu.toml",
    "tests/target/a_task_that_reads_the_kernel_stops_alone.toml",
];

/// Runs systems, and plants entries in the memory that they leave, of which each must be found.
pub fn check_planted(workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in SYSTEMS {
        let image = workspace.image(Path::new(path), Profile::Det, false)?;
        let options = RunOptions { until: Some(20_000_000), ..RunOptions::quiet(60) };
        let run = system::run(workspace, &image, &options)?;
        problems.extend(plant_in(&image, &run.outcome.memory)?.into_iter().map(|problem| format!("{path}: {problem}")));
    }
    Ok(problems)
}

fn plant_in(image: &Image, memory: &GuestMemory) -> Result<Vec<String>> {
    let places = Places::of(&image.programs.kernel)?;
    let read = |at: u64, length: usize| memory.read(at, length);
    let mut problems = check_memory(&read, &places, image)?;
    let own = base_of(&read, &places, 0)?;
    let kernel = words(&read, places.kernel_base, 1)?[0];
    let is_page = |entry: u64| entry & VALID != 0;
    let page = slot(&read, own, &|entry| is_page(entry) && entry & READ_ONLY != 0)?;
    let hole = slot(&read, own, &|entry| entry == 0)?;
    let text = slot(&read, kernel, &|entry| is_page(entry) && places.text.contains(&(entry & ADDRESS)))?;
    let leaf = words(&read, page, 1)?[0];
    let of_text = words(&read, text, 1)?[0];
    let with = |physical: u64| leaf & !ADDRESS & !READ_ONLY | physical | EL0_NO_EXECUTE;
    let mut plants = vec![
        ("a page of the kernel's memory", hole, with(places.tables.start & ADDRESS)),
        ("the kernel's text", hole, with(places.text.start & ADDRESS)),
        ("a page that is another", page, leaf & !ADDRESS | places.packed),
        ("a page that is missing", page, leaf & !VALID),
        ("a page that can be written", page, leaf & !READ_ONLY),
        ("a page that the kernel executes", page, leaf & !EL1_NO_EXECUTE),
        ("the interrupt controller", hole, with(image.manifest.system.board.controller.distributor) & !(7 << 2)),
        ("a page of the kernel's for EL0", text, of_text | EL0),
        ("text of the kernel that can be written", text, of_text & !READ_ONLY),
    ];
    if let (Some(streams), [stream, ..]) = (places.streams, &image.manifest.system.streams[..]) {
        let entry = streams + u64::from(stream.number) * 64;
        let context = words(&read, entry, 1)?[0] & CONTEXT;
        plants.push(("a device that nothing translates", entry, 0x9));
        plants.push(("a device of which nothing is said", streams, 0xb));
        plants.push(("a device that reaches tables of a task", context + 8, own & ADDRESS));
    }
    for (what, at, entry) in plants {
        let planted = |from: u64, length: usize| {
            let mut bytes = memory.read(from, length)?;
            if (from..from + length as u64).contains(&at) {
                bytes[(at - from) as usize..][..8].copy_from_slice(&entry.to_le_bytes());
            }
            Ok(bytes)
        };
        let found = check_memory(&planted, &places, image);
        if found.is_ok_and(|found| found.is_empty()) {
            problems.push(format!("{what}, planted, is not found"));
        }
    }
    Ok(problems)
}

/// The address of an entry of the last level that is as `wanted`.
fn slot(read: Read<'_>, base: u64, wanted: &dyn Fn(u64) -> bool) -> Result<u64> {
    let mut tables = vec![(base & ADDRESS, 1)];
    while let Some((table, level)) = tables.pop() {
        let entries = words(read, table, ENTRIES)?;
        if level == 3 {
            if let Some(found) = entries.iter().position(|entry| wanted(*entry)) {
                return Ok(table + found as u64 * 8);
            }
            continue;
        }
        let next = entries.iter().filter(|entry| **entry & (VALID | TABLE) == VALID | TABLE);
        tables.extend(next.map(|entry| (entry & ADDRESS, level + 1)));
    }
    anyhow::bail!("no such entry behind {base:#x}")
}

//--- Accesses from EL0

/// The name of the check that tries accesses of a task.
pub const PROBES: &str = "what a task reaches, one access a life";

const PROBED: &str = "tests/isolation/probe.toml";
const PROBER: &str = "prober";
/// Accesses of one run: an environment has room for so many numbers.
const PROBES_A_RUN: usize = 32;

/// The prober's step before each access, by its number there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Begun,
    Mapped,
    Unmapped,
    Lent,
    TakenBack,
    Holding,
    Released,
}

const STAGES: [Stage; 7] =
    [Stage::Begun, Stage::Mapped, Stage::Unmapped, Stage::Lent, Stage::TakenBack, Stage::Holding, Stage::Released];

/// One access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Probe {
    address: u64,
    is_write: bool,
}

/// The system of the prober on `board`. Of two CPUs `det` leaves none for an engine, so there the prober has none.
fn probed_system(text: &str, board: &Board) -> Result<(toml::Table, bool)> {
    let mut table: toml::Table = text.parse()?;
    table["system"]["board"] = board.name.as_str().into();
    let has_engine = board.cpus.count > 2;
    if !has_engine {
        let devices = table.get_mut("devices").and_then(toml::Value::as_table_mut);
        devices.and_then(|all| all.remove("gpu")).context("the prober has no device")?;
        let prober = table["tasks"][PROBER]["handles"].as_table_mut().context("handles")?;
        prober.remove("ee").context("the prober has no engine")?;
    }
    Ok((table, has_engine))
}

/// Has a task on the workspace's board try the edges of all that it has, and of holes, and compares the results with the packed system.
pub fn check_probes(workspace: &Workspace) -> Result<Vec<String>> {
    let path = workspace.root.join(PROBED);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let name = workspace.board.as_deref().unwrap_or(DEFAULT_BOARD);
    let board = Board::named(name).with_context(|| format!("no board is called `{name}`"))?;
    let (table, has_engine) = probed_system(&text, &board)?;
    let manifest = Manifest::parse(&path, &toml::to_string(&table)?)?;
    let kernel = KERNEL_OFFSET | board.memory.kernel;
    let prober = manifest.system.tasks.iter().position(|task| task.name == PROBER).context("no prober")?;
    let programs = workspace.builder().programs(&[&manifest.system])?;
    // One access, to see all mappings.
    let first = Probe { address: 0, is_write: false };
    let (run, places) = probed(workspace, &path, &table, &programs, Stage::Begun, &[first], false)?;
    let mut mappings = mappings_in(&run, &places)?;
    mappings.retain(|one| one.task as usize == prober && one.flags & mapping::STREAM == 0);
    let is_changing = |one: &&Mapping| one.flags & (mapping::HELD_BACK | mapping::LENT) != 0;
    let probes_of = |stage: Stage| match stage {
        // All after the beginning of a life; else mappings that come and go, and the words beside them.
        Stage::Begun => edges(mappings.iter(), kernel),
        _ => edges(mappings.iter().filter(is_changing), kernel),
    };
    let run = |stage: Stage, probes: &[Probe], unmanaged: bool| {
        let (run, _) = probed(workspace, &path, &table, &programs, stage, probes, unmanaged)?;
        differences(&run, prober, &mappings, stage, probes)
    };
    let mut problems = Vec::new();
    let has_stage = |stage: &Stage| has_engine || !matches!(stage, Stage::Holding | Stage::Released);
    for stage in STAGES.into_iter().filter(has_stage) {
        for probes in probes_of(stage).chunks(PROBES_A_RUN) {
            problems.extend(run(stage, probes, false)?);
        }
    }
    problems.truncate(LISTED);
    // The doorbell is there from the start, and stays: that is found.
    if has_engine && run(Stage::Released, &probes_of(Stage::Released), true)?.is_empty() {
        problems.push("a doorbell that is always mapped is not found".to_owned());
    }
    Ok(problems)
}

/// Accesses that came to something else than the mappings say.
fn differences(run: &Run, prober: usize, mappings: &[Mapping], stage: Stage, probes: &[Probe]) -> Result<Vec<String>> {
    let trace = run.trace.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
    let of_prober = |event: Event| {
        let is_its = move |record: &&Record| record.thread == prober as u16 + 1 && record.event == event as u8;
        trace.records.iter().filter(is_its)
    };
    let survived = |life: usize| of_prober(Event::Log).any(|mark| mark.object == 1 && number_of(mark) == life as u64);
    let mut problems = Vec::new();
    let mut refused = 0;
    for (life, probe) in probes.iter().enumerate() {
        let came = survived(life);
        refused += usize::from(!came);
        if came != may(mappings, stage, *probe) {
            let Probe { address, is_write } = probe;
            let what = if *is_write { "written" } else { "read" };
            let how = if came { "can be" } else { "cannot be" };
            problems.push(format!("{stage:?}: the word at {address:#x} {how} {what}"));
        }
    }
    let faults = of_prober(Event::Fault).count();
    if faults != refused {
        problems.push(format!("{stage:?}: {faults} faults, and {refused} accesses that came to nothing"));
    }
    Ok(problems)
}

fn number_of(record: &Record) -> u64 {
    u64::from(record.job) << 32 | u64::from(record.value)
}

/// Whether the task could do that.
fn may(mappings: &[Mapping], stage: Stage, probe: Probe) -> bool {
    let is_there = |one: &&Mapping| {
        let held = match one.flags & (mapping::HELD_BACK | mapping::LENT | mapping::SCRATCH) {
            0 => true,
            // A doorbell, or a region that the task maps: they lie apart.
            mapping::HELD_BACK if one.flags & mapping::DEVICE == 0 && one.address >= DOORBELLS => {
                stage == Stage::Holding
            }
            mapping::HELD_BACK => stage == Stage::Mapped,
            mapping::LENT => stage == Stage::Lent,
            _ => false,
        };
        held && (one.address..one.address + one.pages * PAGE).contains(&probe.address)
    };
    let needs = if probe.is_write { mapping::READ | mapping::WRITE } else { mapping::READ };
    mappings.iter().filter(is_there).any(|one| one.flags & needs == needs)
}

/// The first and the last word of each of these, and the word before and behind.
fn edges<'a>(mappings: impl Iterator<Item = &'a Mapping>, kernel: u64) -> Vec<Probe> {
    let mut probes = Vec::new();
    for one in mappings.filter(|one| one.flags & mapping::DEVICE == 0) {
        let end = one.address + one.pages * PAGE;
        for address in [one.address.wrapping_sub(8), one.address, end - 8, end] {
            probes.extend([false, true].map(|is_write| Probe { address, is_write }));
        }
    }
    // The first and the last word of the lower half, of the upper one, and between them.
    let others = [0, (1 << 39) - 8, 1 << 39, 1 << 47, 1 << 62, KERNEL_OFFSET, kernel, u64::MAX - 7];
    probes.extend(others.map(|address| Probe { address, is_write: false }));
    probes.sort_unstable_by_key(|probe| (probe.address, probe.is_write));
    probes.dedup();
    probes
}

/// Runs the prober with these accesses.
fn probed(
    workspace: &Workspace,
    path: &Path,
    table: &toml::Table,
    programs: &Programs,
    stage: Stage,
    probes: &[Probe],
    unmanaged: bool,
) -> Result<(Run, Places)> {
    let mut table = table.clone();
    let parameters = table["tasks"][PROBER]["parameters"].as_table_mut().context("parameters")?;
    let stage = STAGES.iter().position(|other| *other == stage).unwrap_or(0);
    parameters.insert("stage".to_owned(), (stage as i64).into());
    for (number, Probe { address, is_write }) in probes.iter().enumerate() {
        let value = (address | u64::from(*is_write)) as i64;
        parameters.insert(format!("probe.{number:03}"), value.into());
    }
    let manifest = Manifest::parse(path, &toml::to_string(&table)?)?;
    let image = workspace.image_of(manifest, programs.clone(), Profile::Det, unmanaged)?;
    let run = system::run(workspace, &image, &RunOptions::quiet(60))?;
    anyhow::ensure!(run.outcome.code == Some(0), "the prober's system ended with {:?}", run.outcome.code);
    Ok((run, Places::of(&image.programs.kernel)?))
}

/// The mappings of the system that ran.
fn mappings_in(run: &Run, places: &Places) -> Result<Vec<Mapping>> {
    let read = |at: u64, length: usize| run.outcome.memory.read(at, length);
    let packed = packed(&read, places)?.context("no system lies behind the kernel")?;
    let system = System::parse(packed.as_bytes()).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    Ok(system.mappings().to_vec())
}

//! Files of a disk that tests expect, read by others than the file server: by the crate `fatfs`, and, where the host has it, by `fsck.fat`.
//!
//! The expected bytes are computed here, on the host.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use fusee::files::Records;
use fusee_host::system::{Image, Run};

#[path = "../../../userland/apps/src/contents.rs"]
mod contents;

/// The device with the disk: its name is the last part of the file behind it.
const DISK: &str = "block0";
const SECTOR: u64 = 512;

/// The files of a volume, by their names.
type Files = BTreeMap<String, Vec<u8>>;

/// A check of files, beside the pairs of numbers that a task called `client` has logged: by the name that `files` of a `[test]` has.
type Check = fn(&Files, &[(u32, u64)]) -> Result<()>;

const CHECKS: [(&str, Check); 4] =
    [("two files", two_files), ("a kept file", a_kept_file), ("a trip", a_trip), ("numbers of jobs", numbers_of_jobs)];

/// The faults of the files on the disk of a run.
pub fn problems(name: &str, image: &Image, run: &Run) -> Vec<String> {
    let Some((_, check)) = CHECKS.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
        return vec![format!("no files are known as `{name}`; there are `{}`", names.join("`, `"))];
    };
    let client = image.manifest.system.tasks.iter().position(|task| task.name == "client");
    let logged = run.trace.iter().flat_map(|trace| trace.logs());
    let logged = logged.filter(|(thread, ..)| client.is_some_and(|client| usize::from(*thread) == client + 1));
    let logged: Vec<(u32, u64)> = logged.map(|(_, first, second)| (first, second)).collect();
    let result = volume(&image.path.with_extension(DISK)).and_then(|volume| {
        check_clean(&volume, &image.path.with_extension("volume"))?;
        check(&read(&volume)?, &logged)
    });
    result.err().into_iter().map(|error| format!("the disk: {error:#}")).collect()
}

/// The first partition of a disk.
fn volume(disk: &Path) -> Result<Vec<u8>> {
    let file = File::open(disk).with_context(|| disk.display().to_string())?;
    let mut table = [0; SECTOR as usize];
    file.read_exact_at(&mut table, 0)?;
    let word = |at: usize| u64::from(u32::from_le_bytes([table[at], table[at + 1], table[at + 2], table[at + 3]]));
    let (first, sectors) = (word(454), word(458));
    ensure!(table[510..] == [0x55, 0xaa] && first > 0 && sectors > 0, "there is no partition");
    let mut volume = vec![0; (sectors * SECTOR) as usize];
    file.read_exact_at(&mut volume, first * SECTOR)?;
    Ok(volume)
}

/// Has `fsck.fat` check the volume, if the host has it. Where it has not, the crate `fatfs` alone reads the files.
fn check_clean(volume: &[u8], path: &Path) -> Result<()> {
    let is_there = Command::new("fsck.fat").arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !is_there {
        return Ok(());
    }
    std::fs::write(path, volume)?;
    let checked = Command::new("fsck.fat").arg("-n").arg(path).output();
    std::fs::remove_file(path)?;
    let checked = checked?;
    ensure!(checked.status.success(), "fsck.fat: {}", String::from_utf8_lossy(&checked.stdout));
    Ok(())
}

/// The files in the root directory. No cluster is in use that is not one of theirs.
fn read(volume: &[u8]) -> Result<Files> {
    let mut bytes = volume.to_vec();
    let system = fatfs::FileSystem::new(Cursor::new(&mut bytes[..]), fatfs::FsOptions::new())?;
    let mut files = Files::new();
    let mut needed = 0;
    for entry in system.root_dir().iter() {
        let entry = entry?;
        ensure!(entry.is_file(), "nobody has made the directory {}", entry.file_name());
        let mut contents = Vec::new();
        entry.to_file().read_to_end(&mut contents)?;
        ensure!(contents.len() as u64 == entry.len(), "the chain of {} is shorter than the file", entry.file_name());
        needed += entry.len().div_ceil(system.cluster_size().into());
        files.insert(entry.file_name(), contents);
    }
    let stats = system.stats()?;
    let used = u64::from(stats.total_clusters() - stats.free_clusters());
    ensure!(used == needed, "{used} clusters are in use, and files need {needed}");
    Ok(files)
}

fn file<'files>(files: &'files Files, name: &str) -> Result<&'files [u8]> {
    Ok(files.get(name).with_context(|| format!("{name} is not there"))?)
}

fn two_files(files: &Files, _: &[(u32, u64)]) -> Result<()> {
    let mut first = vec![0; 30_000];
    contents::fill(1, 0, &mut first);
    contents::fill(4, 9_000, &mut first[9_000..14_000]);
    let mut second = vec![0; 12_345];
    contents::fill(2, 0, &mut second);
    for (name, contents) in [("ONE.BIN", first), ("TWO.BIN", second)] {
        ensure!(file(files, name)? == contents, "{name} has other bytes");
    }
    ensure!(!files.contains_key("GONE.BIN"), "GONE.BIN is there");
    Ok(())
}

fn a_kept_file(files: &Files, _: &[(u32, u64)]) -> Result<()> {
    ensure!(file(files, "KEPT.TXT")? == b"as before", "KEPT.TXT has other bytes");
    ensure!(files.keys().map(String::as_str).eq(["B", "C", "D", "KEPT.TXT"]), "there are {:?}", files.keys());
    Ok(())
}

/// Lives of the client in which records were acknowledged, at least.
const LIVES: usize = 3;
/// Times at which the client has opened its log again, at least.
const REOPENED: u64 = 10;

/// Each record with a logged number is in the log, and each one in it has its bytes. Records were acknowledged in several lives of the client.
fn a_trip(files: &Files, logged: &[(u32, u64)]) -> Result<()> {
    let log = file(files, "TRIP.LOG")?;
    let acknowledged =
        |logged: &[(u32, u64)]| logged.iter().filter(|(kind, _)| *kind == 1).map(|(_, number)| *number).max();
    let last = acknowledged(logged).context("no record is acknowledged")?;
    let lives = logged.split(|(kind, _)| *kind == 2).filter(|life| acknowledged(life).is_some()).count();
    ensure!(lives >= LIVES, "records were acknowledged in {lives} lives of the client, and not in {LIVES}");
    let reopened: u64 = logged.iter().filter(|(kind, _)| *kind == 3).map(|(_, times)| times).sum();
    ensure!(reopened >= REOPENED, "the log was opened again {reopened} times, and not {REOPENED}");
    let mut found = 0;
    for (number, record) in (1..).zip(Records::new(log)) {
        let mut bytes = [0; contents::RECORD];
        ensure!(record == contents::record(number, &mut bytes), "record {number} has other bytes");
        found = number;
    }
    ensure!(found >= last, "record {last} is acknowledged, and the log ends behind {found}");
    Ok(())
}

/// The records are numbers of jobs, one after the other, as many as were logged.
fn numbers_of_jobs(files: &Files, logged: &[(u32, u64)]) -> Result<()> {
    let numbers = Records::new(file(files, "TRIP.LOG")?).map(|record| Ok(u64::from_le_bytes(record.try_into()?)));
    let numbers = numbers.collect::<Result<Vec<u64>>>()?;
    ensure!(
        numbers.len() == logged.len(),
        "{} numbers are in the log, and {} were acknowledged",
        numbers.len(),
        logged.len()
    );
    let first = *numbers.first().context("the log is empty")?;
    ensure!((first..).zip(&numbers).all(|(wanted, number)| wanted == *number), "a job is missing: {numbers:?}");
    Ok(())
}

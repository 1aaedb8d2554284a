//! The reach of tasks, devices and the kernel by the translation tables in memory after a run, compared with the packed system.
//!
//! The tables are read here from Arm's manuals (DDI 0487, D8.3; of devices IHI 0070, 5.2 and 5.4), not by the code that makes them. Every entry that hardware would use counts:
//!
//! - a page of a task is a page that one of its mappings says, with no more rights. What comes and goes may be missing: doorbells, places of regions that are lent, regions that
//!   tasks map by themselves. In the place of a doorbell there may be a page of the kernel's that it sets aside for that, or the doorbell's shadow.
//! - a task has all other pages of its mappings, or none: it has ended.
//! - a device behind an SMMU has its mappings, and no other device has anything.
//! - nothing of the kernel can be reached from EL0, nothing can be written and executed, and only the kernel's text is executed by it.
//!
//! Not here: the tables during the run. A kernel that checks itself (`check`) looks after each trap.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use fusee_abi::image::{Header, MAGIC, Mapping, System, mapping};
use fusee_manifest::Board;
use object::{Object, ObjectSymbol};
use zerocopy::{FromBytes, IntoBytes};

use crate::build::KERNEL_OFFSET;
use crate::qemu::{KERNEL_PANIC, Outcome};
use crate::workspace::Image;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Entries of a table.
pub const ENTRIES: usize = 512;
/// Where the frame of a thread has the base of its tables; and how long a frame is.
const TRANSLATION: u64 = 272;
const FRAME: u64 = 1024;
/// Problems that are listed.
pub const LISTED: usize = 8;

/// Bit of an entry that is valid.
pub const VALID: u64 = 1;
/// Of a valid entry above the last level: it points to a table. Of one on the last level: it must be set.
pub const TABLE: u64 = 2;
/// Bits of an entry that are a physical address.
pub const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
/// Bit of an entry that EL0 may use.
pub const EL0: u64 = 1 << 6;
/// Bit of an entry that is read-only.
pub const READ_ONLY: u64 = 1 << 7;
/// Bit of an entry from which EL1 does not execute.
pub const EL1_NO_EXECUTE: u64 = 1 << 53;
/// Bit of an entry from which EL0 does not execute.
pub const EL0_NO_EXECUTE: u64 = 1 << 54;
const TABLE_READ_ONLY: u64 = 1 << 62;
/// Of an entry of the SMMU's table: where the context is.
pub const CONTEXT: u64 = 0x000f_ffff_ffff_ffc0;
/// Bits of entries that point to tables and that nothing here sets.
const TABLE_OTHERS: u64 = 1 << 63 | 7 << 59;

/// A page or a block that hardware finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Found {
    address: u64,
    physical: u64,
    bytes: u64,
    el0: bool,
    writable: bool,
    el0_executes: bool,
    el1_executes: bool,
    /// Number of its memory type: 0 is a device.
    kind: u64,
}

/// Parts of the names of a kernel's objects that are looked up.
const WANTED: [&str; 6] = ["FRAMES", "MEMORY", "FUSEE_TRACE", "fusee_kernel_base", "__image", "__text_end"];

/// Reads bytes at a physical address.
pub type Read<'a> = &'a dyn Fn(u64, usize) -> Result<Vec<u8>>;

/// Reads words at a physical address.
///
/// # Errors
/// The address is not in memory.
pub fn words(read: Read<'_>, at: u64, count: usize) -> Result<Vec<u64>> {
    let bytes = read(at, count * 8)?;
    Ok(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect())
}

/// All that is valid behind the table of the first of three levels at `base`. `upper`: for the upper half of addresses.
fn walk(read: Read<'_>, base: u64, upper: bool) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let start = if upper { KERNEL_OFFSET } else { 0 };
    let mut tables = vec![(base & ADDRESS, 1, start, false)];
    while let Some((table, level, start, is_read_only)) = tables.pop() {
        for (index, entry) in words(read, table, ENTRIES)?.into_iter().enumerate() {
            let bytes = PAGE << (9 * (3 - level));
            let address = start + index as u64 * bytes;
            if entry & VALID == 0 {
                continue;
            }
            if level < 3 && entry & TABLE != 0 {
                anyhow::ensure!(entry & TABLE_OTHERS == 0, "the table entry for {address:#x} is {entry:#x}");
                tables.push((entry & ADDRESS, level + 1, address, is_read_only || entry & TABLE_READ_ONLY != 0));
                continue;
            }
            anyhow::ensure!(level < 3 || entry & TABLE != 0, "the entry for {address:#x} is {entry:#x}");
            found.push(Found {
                address,
                physical: entry & ADDRESS & !(bytes - 1),
                bytes,
                el0: entry & EL0 != 0,
                writable: entry & READ_ONLY == 0 && !is_read_only,
                el0_executes: entry & EL0_NO_EXECUTE == 0,
                el1_executes: entry & EL1_NO_EXECUTE == 0,
                kind: entry >> 2 & 7,
            });
        }
    }
    Ok(found)
}

/// Addresses of tables in a kernel.
#[derive(Clone)]
pub struct Places {
    /// The first register frame.
    pub frames: u64,
    /// The word with the base of the kernel's tables.
    pub kernel_base: u64,
    /// Tables of tasks.
    pub tables: Range<u64>,
    /// The trace.
    pub rings: Option<u64>,
    /// The packed system.
    pub packed: u64,
    /// Instructions.
    pub text: Range<u64>,
    /// The SMMU's table of streams, in a kernel that has one.
    pub streams: Option<u64>,
}

impl Places {
    /// The addresses of a kernel, which are looked for once.
    ///
    /// # Errors
    /// The kernel cannot be read, or lacks a symbol.
    pub fn of(kernel: &Path) -> Result<Places> {
        static KNOWN: Mutex<BTreeMap<PathBuf, Places>> = Mutex::new(BTreeMap::new());
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = known().get(kernel) {
            return Ok(places.clone());
        }
        let places = Places::find(kernel)?;
        known().insert(kernel.to_owned(), places.clone());
        Ok(places)
    }

    fn find(kernel: &Path) -> Result<Places> {
        let elf = std::fs::read(kernel).with_context(|| kernel.display().to_string())?;
        let file = object::File::parse(&*elf)?;
        let mut known = BTreeMap::new();
        for symbol in file.symbols() {
            let is_wanted = |name: &&str| WANTED.iter().any(|part| name.contains(part));
            if let Some(name) = symbol.name().ok().filter(is_wanted) {
                let name = format!("{:#}", rustc_demangle::demangle(name));
                known.insert(name, (symbol.address().wrapping_sub(KERNEL_OFFSET), symbol.size()));
            }
        }
        let place = |name: &str| known.get(name).copied().with_context(|| format!("the kernel has no `{name}`"));
        let (tables, bytes) = place("fusee_kernel::translation::MEMORY")?;
        Ok(Places {
            frames: place("fusee_kernel::frame::FRAMES")?.0,
            kernel_base: place("fusee_kernel_base")?.0,
            tables: tables..tables + bytes,
            rings: place("FUSEE_TRACE").ok().map(|(at, _)| at),
            packed: place("__image_end")?.0,
            text: place("__image_start")?.0..place("__text_end")?.0,
            streams: place("fusee_kernel::streams::MEMORY").ok().map(|(at, _)| at),
        })
    }
}

/// Entries in the tables of a run that should not be there, and entries that are missing.
pub fn check(image: &Image, outcome: &Outcome) -> Result<Vec<String>> {
    if outcome.code == Some(KERNEL_PANIC) {
        // It may have stopped before it had tables, or memory.
        return Ok(Vec::new());
    }
    let places = Places::of(&image.programs.kernel)?;
    check_memory(&|at, length| outcome.memory.read(at, length), &places, image)
}

/// The base of the tables of the task with this number; zero: they are not made yet.
///
/// # Errors
/// The frame of the task is not in memory.
pub fn base_of(read: Read<'_>, places: &Places, task: usize) -> Result<u64> {
    Ok(words(read, places.frames + (task as u64 + 1) * FRAME + TRANSLATION, 1)?[0])
}

/// The packed system behind the kernel, if there is one.
///
/// # Errors
/// Memory cannot be read.
pub fn packed(read: Read<'_>, places: &Places) -> Result<Option<Vec<u64>>> {
    let header = read(places.packed, size_of::<Header>())?;
    let header = Header::read_from_bytes(&header).ok().filter(|header| header.magic == MAGIC);
    header.map(|header| words(read, places.packed, (header.bytes as usize).div_ceil(8))).transpose()
}

/// All that is said of a memory into which no image was loaded.
pub const NO_SYSTEM: &str = "no system lies behind the kernel";

/// Compares translation tables in memory with the manifest; the differences.
///
/// # Errors
/// Memory cannot be read.
pub fn check_memory(read: Read<'_>, places: &Places, image: &Image) -> Result<Vec<String>> {
    let Some(packed) = packed(read, places)? else {
        return Ok(vec![NO_SYSTEM.to_owned()]);
    };
    let Ok(system) = System::parse(packed.as_bytes()) else {
        return Ok(vec!["what lies behind the kernel is no system any more".to_owned()]);
    };
    if base_of(read, places, system.tasks().len().saturating_sub(1))? == 0 {
        // The kernel has refused the system, or was ended before.
        return Ok(Vec::new());
    }
    let tables = Tables { read, places, system: &system, board: &image.manifest.system.board };
    let mut problems = Vec::new();
    for (index, task) in image.manifest.system.tasks.iter().enumerate() {
        let about = format!("task `{}`", task.name);
        problems.extend(tables.of_task(index)?.into_iter().map(|problem| format!("{about}: {problem}")));
    }
    problems.extend(tables.of_kernel()?.into_iter().map(|problem| format!("the kernel: {problem}")));
    problems.extend(tables.of_devices()?.into_iter().map(|problem| format!("a device: {problem}")));
    let more = problems.len().saturating_sub(LISTED);
    problems.truncate(LISTED);
    problems.extend((more > 0).then(|| format!("and {more} more entries of tables")));
    Ok(problems)
}

struct Tables<'a> {
    read: Read<'a>,
    places: &'a Places,
    system: &'a System<'a>,
    board: &'a Board,
}

impl Tables<'_> {
    /// The mappings of a task, or of a device.
    fn mappings(&self, of: usize, stream: bool) -> impl Iterator<Item = &Mapping> {
        let is_its =
            move |mapping: &&Mapping| mapping.task as usize == of && (mapping.flags & mapping::STREAM != 0) == stream;
        self.system.mappings().iter().filter(is_its)
    }

    /// The physical address behind `address` by this mapping, in which it lies.
    fn behind(&self, one: &Mapping, address: u64) -> Option<u64> {
        let offset = address - one.address;
        Some(match one.flags & (mapping::SCRATCH | mapping::IN_IMAGE | mapping::TRACE) {
            0 => one.physical + offset,
            mapping::SCRATCH => one.physical,
            mapping::IN_IMAGE => self.places.packed + one.physical + offset,
            _ => self.places.rings? + one.physical + offset,
        })
    }

    /// Whether the page is one that this mapping says, or a part of that.
    fn is_of(&self, one: &Mapping, found: &Found) -> bool {
        let kind = match one.flags & (mapping::DEVICE | mapping::UNCACHED) {
            0 => 1,
            mapping::UNCACHED => 2,
            _ => 0,
        };
        (one.address..one.address + one.pages * PAGE).contains(&found.address)
            && found.bytes == PAGE
            && found.el0
            && !found.el1_executes
            && (!found.writable || one.flags & mapping::WRITE != 0)
            && found.el0_executes == (one.flags & mapping::EXECUTE != 0)
            && found.kind == kind
    }

    /// Whether the page is a doorbell that a server decides on, or stands in the place of a doorbell.
    fn is_instead(&self, one: &Mapping, task: usize, found: &Found) -> bool {
        let users = self.system.engine_users().iter().chain(self.system.shared_users());
        let is_doorbell = { users }.any(|user| user.task as usize == task && user.address == found.address);
        // A server may let the task store to it.
        let let_store = Mapping { flags: one.flags | mapping::WRITE, ..*one };
        if !is_doorbell || !self.is_of(&let_store, found) {
            return false;
        }
        let shadow = self.mappings(task, false).find(|other| other.address == found.address + PAGE);
        let is_shadow = shadow.is_some_and(|other| self.behind(other, other.address) == Some(found.physical));
        is_shadow
            || self.places.tables.contains(&found.physical)
            || self.behind(one, found.address) == Some(found.physical)
    }

    fn of_task(&self, task: usize) -> Result<Vec<String>> {
        let base = base_of(self.read, self.places, task)?;
        if base == 0 {
            return Ok(vec!["it has no tables".to_owned()]);
        }
        let pages = walk(self.read, base, false)?;
        let mut problems = Vec::new();
        for found in &pages {
            let is_it =
                |one: &&Mapping| self.is_of(one, found) && self.behind(one, found.address) == Some(found.physical);
            let is_instead = |one: &Mapping| self.is_instead(one, task, found);
            if self.mappings(task, false).find(is_it).is_none() && !self.mappings(task, false).any(is_instead) {
                problems.push(format!("the manifest does not say {}", words_of(found)));
            }
        }
        if pages.is_empty() {
            // It has ended.
            return Ok(problems);
        }
        const COMES_AND_GOES: u32 = mapping::HELD_BACK | mapping::LENT | mapping::SCRATCH;
        let by_address: BTreeMap<u64, &Found> = pages.iter().map(|found| (found.address, found)).collect();
        // A server decides which of these are there.
        let decided = |address: u64| {
            let mut users = self.system.shared_users().iter();
            users.any(|user| user.task as usize == task && user.address == address)
        };
        let always = |one: &&Mapping| one.flags & COMES_AND_GOES == 0 && !decided(one.address);
        for one in self.mappings(task, false).filter(always) {
            for page in 0..one.pages {
                let address = one.address + page * PAGE;
                let found = by_address.get(&address);
                let is_whole = |found: &&Found| found.writable == (one.flags & mapping::WRITE != 0);
                if found.copied().filter(is_whole).is_none() {
                    problems
                        .push(format!("the page at {address:#x} is missing, or cannot be used as the manifest says"));
                }
            }
        }
        Ok(problems)
    }

    fn of_kernel(&self) -> Result<Vec<String>> {
        let base = words(self.read, self.places.kernel_base, 1)?[0];
        let memory = &self.board.memory;
        let (devices, ram) =
            (self.board.windows.from..self.board.windows.to, memory.base..memory.base + memory.bytes.0);
        let mut problems = Vec::new();
        for found in walk(self.read, base, true)? {
            let end = found.physical + found.bytes;
            let inside = |range: &Range<u64>| range.start <= found.physical && end <= range.end;
            let is_text = inside(&self.places.text);
            let touches_text = found.physical < self.places.text.end && self.places.text.start < end;
            let is_right = found.address == KERNEL_OFFSET | found.physical
                && !found.el0
                && !found.el0_executes
                && found.el1_executes == is_text
                && !(touches_text && found.writable)
                && (if found.kind == 0 { inside(&devices) } else { inside(&ram) });
            if !is_right {
                problems.push(words_of(&found));
            }
        }
        Ok(problems)
    }

    fn of_devices(&self) -> Result<Vec<String>> {
        const STREAMS: usize = 64;
        let Some(streams) = self.places.streams.filter(|_| !self.system.streams().is_empty()) else {
            return Ok(Vec::new());
        };
        let mut problems = Vec::new();
        let entries = words(self.read, streams, STREAMS * 8)?;
        for (number, entry) in entries.chunks_exact(8).enumerate() {
            let known = self.system.streams().iter().position(|stream| stream.number as usize == number);
            let Some(known) = known else {
                problems.extend((entry[0] != 0).then(|| format!("stream {number} is none of the system's")));
                continue;
            };
            // Stage 1 translates, and that by a context of its own: nothing passes as it is.
            if entry[0] & 0xf != 0xb {
                problems.push(format!("stream {number} is not translated: {:#x}", entry[0]));
                continue;
            }
            let context = words(self.read, entry[0] & CONTEXT, 4)?;
            let is_its = |one: &&Mapping, found: &Found| {
                found.el0
                    && !found.el0_executes
                    && !found.el1_executes
                    && found.bytes == PAGE
                    && found.kind != 0
                    && (one.physical..one.physical + one.pages * PAGE).contains(&found.physical)
                    && found.address == found.physical
            };
            for found in walk(self.read, context[1], false)? {
                if self.mappings(known, true).find(|one| is_its(one, &found)).is_none() {
                    problems.push(format!("the manifest does not say of stream {number} {}", words_of(&found)));
                }
            }
        }
        Ok(problems)
    }
}

fn words_of(found: &Found) -> String {
    let Found { address, physical, bytes, el0, writable, el0_executes, el1_executes, kind } = *found;
    let what =
        [(el0, "EL0"), (writable, "written"), (el0_executes, "executed at EL0"), (el1_executes, "executed at EL1")];
    let what: Vec<&str> = what.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
    format!("{bytes} bytes at {address:#x} that are {physical:#x} (type {kind}; {})", what.join(", "))
}

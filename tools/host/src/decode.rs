//! The remains of a run: the trace in the guest's memory, addresses that have source lines, and stacks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fusee_abi::trace::{RING_MAGIC, Record, RingHeader};
use fusee_kernel_core::limits;
use fusee_manifest::trace::Trace;
use gimli::{EndianArcSlice, LittleEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSymbol};
use zerocopy::FromBytes;

use crate::build::KERNEL_OFFSET;
use crate::qemu::GuestMemory;

/// The kernel's rings: one per CPU.
const TRACE_SYMBOL: &str = "FUSEE_TRACE";

/// Where a kernel keeps its trace.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// Physical address of the first.
    physical: u64,
    /// Virtual address of the first.
    first: u64,
    /// Bytes of all together.
    bytes: usize,
}

impl Rings {
    /// Those of `kernel`.
    pub fn of(kernel: &Path) -> Result<Rings> {
        let elf = std::fs::read(kernel).with_context(|| kernel.display().to_string())?;
        let file = object::File::parse(&*elf)?;
        let Some(symbol) = file.symbols().find(|symbol| symbol.name() == Ok(TRACE_SYMBOL)) else {
            bail!("the kernel keeps no trace (there is no symbol {TRACE_SYMBOL})");
        };
        if symbol.size() == 0 {
            bail!("the kernel keeps no trace: its level is `off`");
        }
        let physical = symbol.address().checked_sub(KERNEL_OFFSET).unwrap_or(symbol.address());
        Ok(Rings { physical, first: symbol.address(), bytes: usize::try_from(symbol.size())? })
    }

    /// Where each says how many records were written, as the profiler wants it: `FIRST:STRIDE:COUNT`, hexadecimal.
    pub fn counts(&self) -> String {
        let first = self.first + offset_of!(RingHeader, written) as u64;
        format!("{first:x}:{:x}:{:x}", self.bytes / limits::CPUS, limits::CPUS)
    }

    /// The trace in `memory`.
    pub fn trace(self, memory: &GuestMemory) -> Result<Trace> {
        Ok(Trace::from_rings(&memory.read(self.physical, self.bytes)?, limits::CPUS)?)
    }

    /// Instant of the newest record of a system that runs, nanoseconds; `None` before the first. The kernel may be about to write it, so
    /// this is good for nothing but to see that time goes on.
    pub fn latest(self, memory: &GuestMemory) -> Option<u64> {
        let stride = self.bytes / limits::CPUS;
        let newest = |cpu: usize| {
            let start = self.physical + (cpu * stride) as u64;
            let header = RingHeader::read_from_bytes(&memory.read(start, size_of::<RingHeader>()).ok()?).ok()?;
            if header.magic != RING_MAGIC {
                return None;
            }
            let number = header.written.checked_sub(1)?.checked_rem(header.capacity)?;
            let offset = size_of::<RingHeader>() as u64 + number * size_of::<Record>() as u64;
            let record = memory.read(start + offset, size_of::<Record>()).ok()?;
            Some(Record::read_from_bytes(&record).ok()?.time)
        };
        (0..limits::CPUS).filter_map(newest).max()
    }
}

/// The reader of debug information.
pub type Reader = EndianArcSlice<LittleEndian>;

/// The debug information of an ELF file.
pub fn debug_information(elf: &[u8]) -> Result<gimli::Dwarf<Reader>> {
    let file = object::File::parse(elf)?;
    gimli::Dwarf::load(|id| section(&file, id.name()))
}

fn section(file: &object::File<'_>, name: &str) -> Result<Reader> {
    let data = match file.section_by_name(name) {
        Some(section) => section.uncompressed_data()?,
        None => Cow::Borrowed(&[][..]),
    };
    Ok(EndianArcSlice::new(Arc::from(&*data), LittleEndian))
}

/// Source lines of one program.
pub struct Symbols {
    context: addr2line::Context<Reader>,
    functions: Vec<(u64, u64, String)>,
    labels: BTreeMap<u64, String>,
    code: Range<u64>,
}

impl Symbols {
    /// Reads them from an ELF file.
    pub fn read(path: &Path) -> Result<Self> {
        let elf = std::fs::read(path).with_context(|| path.display().to_string())?;
        let file = object::File::parse(&*elf)?;
        let dwarf = debug_information(&elf)?;
        let functions = file
            .symbols()
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text)
            .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
            .collect();
        // `$x` and the like say where code is and where data.
        let names = |symbol: &object::Symbol<'_, '_>| symbol.name().is_ok_and(|name| !name.starts_with('$'));
        let labels = file
            .symbols()
            .filter(|symbol| symbol.is_definition() || symbol.kind() == object::SymbolKind::Label)
            .filter(names)
            .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned())))
            .collect();
        let code = file.section_by_name(".text").map_or(0..0, |text| text.address()..text.address() + text.size());
        Ok(Self { context: addr2line::Context::from_dwarf(dwarf)?, functions, labels, code })
    }

    /// `function (file:line)` for an address, innermost first; nothing if no function has it.
    pub fn locate(&self, address: u64) -> Vec<String> {
        // Line zero: the compiler has joined instructions of several lines.
        let line = |line: u32| if line == 0 { "?".to_owned() } else { line.to_string() };
        let show = |place: Option<(String, u32)>| place.map(|(file, number)| format!("{file}:{}", line(number)));
        let frames = self.frames(address).into_iter();
        let mut found: Vec<String> =
            frames.map(|frame| format!("{} ({})", frame.function, show(frame.place).unwrap_or("?".into()))).collect();
        if found.is_empty() {
            let inside =
                |(start, size, _): &&(u64, u64, String)| address >= *start && address - *start < (*size).max(4);
            found.extend(
                self.functions
                    .iter()
                    .find(inside)
                    .map(|(start, _, name)| format!("{:#}+{:#x}", rustc_demangle::demangle(name), address - start)),
            );
        }
        found
    }

    /// The functions that were inlined into each other at an address, innermost first; none if there are no lines.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        let mut found = Vec::new();
        if let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() {
            while let Ok(Some(frame)) = frames.next() {
                let function = frame.function.as_ref().and_then(|function| function.demangle().ok());
                let place = frame
                    .location
                    .map(|place| (shorten(place.file.unwrap_or("?")).to_owned(), place.line.unwrap_or_default()));
                found.push(Frame { function: function.map_or_else(|| "?".to_owned(), Cow::into_owned), place });
            }
        }
        found
    }

    /// Where the instructions are.
    pub fn code(&self) -> Range<u64> {
        self.code.clone()
    }

    /// Where a symbol is.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.labels.iter().find(|(_, label)| *label == name).map(|(address, _)| *address)
    }

    /// The last symbol at or before an address, as assembly names its parts.
    pub fn label(&self, address: u64) -> Option<&str> {
        self.labels.range(..=address).next_back().map(|(_, name)| name.as_str())
    }
}

/// One function at an address.
pub struct Frame {
    /// Its name.
    pub function: String,
    /// File, from the repository if it is ours, and line.
    pub place: Option<(String, u32)>,
}

/// Paths inside the repository without the repository; others are kept.
fn shorten(file: &str) -> &str {
    let root = env!("CARGO_MANIFEST_DIR").trim_end_matches("tools/host");
    file.strip_prefix(root).unwrap_or(file)
}

//--- Stacks of calls

/// Registers, by the numbers that debug information has for them: 31 is the stack pointer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Registers {
    /// `x0` to `x30`, and the stack pointer.
    pub general: [u64; 32],
    /// The next instruction.
    pub program_counter: u64,
}

impl Registers {
    /// Number of the link register.
    pub const LINK: usize = 30;
    /// Number of the stack pointer.
    pub const STACK: usize = 31;
}

/// Calls that a backtrace shows, at most: a stack that is spoilt may name any number of them.
const DEEPEST: usize = 64;

/// How the functions of one program save registers, at each of their instructions.
pub struct Unwinder {
    frames: gimli::EhFrame<Reader>,
    bases: gimli::BaseAddresses,
}

impl Unwinder {
    /// Reads it from an ELF file.
    pub fn read(path: &Path) -> Result<Unwinder> {
        let elf = std::fs::read(path).with_context(|| path.display().to_string())?;
        let file = object::File::parse(&*elf)?;
        let address = |name: &str| file.section_by_name(name).map_or(0, |section| section.address());
        let mut frames = gimli::EhFrame::from(section(&file, ".eh_frame")?);
        frames.set_address_size(8);
        let bases = gimli::BaseAddresses::default().set_eh_frame(address(".eh_frame")).set_text(address(".text"));
        Ok(Unwinder { frames, bases })
    }

    /// Addresses of the instructions that were being executed, that of the innermost function first. `read` reads eight bytes of
    /// memory, if there are any.
    pub fn backtrace(&self, registers: Registers, read: &dyn Fn(u64) -> Option<u64>) -> Vec<u64> {
        let mut addresses = vec![registers.program_counter];
        let mut frame = registers;
        // An instruction that was jumped to, and is in no function: the link register has the place of the jump.
        if self.row(frame.program_counter).is_none() {
            frame.program_counter = frame.general[Registers::LINK].wrapping_sub(4);
            addresses.push(frame.program_counter);
        }
        while addresses.len() < DEEPEST
            && let Some(caller) = self.caller(&frame, read)
        {
            // The return address is behind the call, maybe in another function.
            frame = Registers { program_counter: caller.program_counter.wrapping_sub(4), ..caller };
            addresses.push(frame.program_counter);
        }
        addresses
    }

    /// The registers in the function that called this one; `None`: they are unknown.
    fn caller(&self, frame: &Registers, read: &dyn Fn(u64) -> Option<u64>) -> Option<Registers> {
        let row = self.row(frame.program_counter)?;
        let gimli::CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
        let cfa = frame.general.get(usize::from(register.0))?.wrapping_add_signed(offset);
        let mut caller = *frame;
        caller.general[Registers::STACK] = cfa;
        for (register, rule) in row.registers() {
            let Some(value) = caller.general.get_mut(usize::from(register.0)) else { continue };
            *value = match *rule {
                gimli::RegisterRule::Offset(offset) => read(cfa.wrapping_add_signed(offset))?,
                gimli::RegisterRule::ValOffset(offset) => cfa.wrapping_add_signed(offset),
                gimli::RegisterRule::SameValue => continue,
                _ => return None,
            };
        }
        caller.program_counter = caller.general[Registers::LINK];
        let stays = cfa == frame.general[Registers::STACK] && caller.program_counter == frame.program_counter;
        (caller.program_counter != 0 && !stays).then_some(caller)
    }

    fn row(&self, address: u64) -> Option<gimli::UnwindTableRow<usize>> {
        let mut context = gimli::UnwindContext::new();
        let row =
            self.frames.unwind_info_for_address(&self.bases, &mut context, address, gimli::EhFrame::cie_from_offset);
        row.ok().cloned()
    }
}

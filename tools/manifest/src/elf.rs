//! Programs: from ELF files to segments that can be mapped.

use fusee_abi::program;
use object::elf::{EM_AARCH64, EM_ARM, ET_EXEC, FileHeader32, FileHeader64, Machine, PF_W, PF_X, PT_LOAD};
use object::endian::LittleEndian;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use crate::error::Reason;
use crate::layout::{self, PAGE};

/// A program that is ready to be mapped.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    /// First instruction.
    pub entry: u64,
    /// The segments of the program, by address.
    pub segments: Vec<Segment<'a>>,
}

/// One loadable segment.
#[derive(Debug)]
pub(crate) struct Segment<'a> {
    /// First virtual address.
    pub address: u64,
    /// Physical (load) address, where it matters.
    pub load: u64,
    /// Bytes in memory.
    pub bytes: u64,
    /// Initial bytes; the missing rest is zero.
    pub data: &'a [u8],
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it may be executed.
    pub executable: bool,
}

/// Reads any program for this machine.
pub(crate) fn read<'a>(name: &str, bytes: &'a [u8]) -> Result<Program<'a>, Reason> {
    read_for::<FileHeader64<LittleEndian>>(name, bytes, EM_AARCH64, ["not a 64-bit ELF file", "not for AArch64"])
}

/// Reads any program for a 32-bit Arm processor.
pub(crate) fn read_arm<'a>(name: &str, bytes: &'a [u8]) -> Result<Program<'a>, Reason> {
    read_for::<FileHeader32<LittleEndian>>(name, bytes, EM_ARM, ["not a 32-bit ELF file", "not for 32-bit Arm"])
}

/// Reads one kind of file for one machine; the `words` report a file of another kind, or for another machine.
fn read_for<'a, H: FileHeader<Endian = LittleEndian>>(
    name: &str,
    bytes: &'a [u8],
    machine: Machine,
    words: [&str; 2],
) -> Result<Program<'a>, Reason> {
    let fail = |why: &str| Reason::NotAnElf { binary: name.to_owned(), why: why.to_owned() };
    let endian = LittleEndian;
    let header = H::parse(bytes).map_err(|_| fail(words[0]))?;
    if header.e_machine(endian) != machine || header.endian().is_err() {
        return Err(fail(words[1]));
    }
    if header.e_type(endian) != ET_EXEC {
        return Err(fail("not linked at fixed addresses"));
    }
    let headers = header.program_headers(endian, bytes).map_err(|_| fail("its program headers are cut off"))?;
    let mut segments = Vec::new();
    for one in headers.iter().filter(|one| one.p_type(endian) == PT_LOAD && one.p_memsz(endian).into() > 0) {
        let data = one.data(endian, bytes).map_err(|()| fail("a segment is cut off"))?;
        let (address, bytes): (u64, u64) = (one.p_vaddr(endian).into(), one.p_memsz(endian).into());
        if data.len() as u64 > bytes || address.checked_add(bytes).is_none() {
            return Err(fail("a segment is longer than its memory"));
        }
        segments.push(Segment {
            address,
            load: one.p_paddr(endian).into(),
            bytes,
            data,
            writable: one.p_flags(endian) & PF_W == PF_W,
            executable: one.p_flags(endian) & PF_X == PF_X,
        });
    }
    if segments.is_empty() {
        return Err(fail("nothing to load"));
    }
    segments.sort_by_key(|segment| segment.address);
    Ok(Program { entry: header.e_entry(endian).into(), segments })
}

/// Reads a user task: built for this version of the kernel; whole pages in the place of binaries, none both writable and executable.
pub(crate) fn read_task<'a>(name: &str, bytes: &'a [u8]) -> Result<Program<'a>, Reason> {
    let program = read(name, bytes)?;
    let binary = || name.to_owned();
    let note = note(bytes).ok_or_else(|| Reason::NoVersion { binary: binary() })?;
    if note.abi != program::VERSION {
        let built = (note.abi, note.crate_version().to_owned());
        let kernel = (program::VERSION, env!("CARGO_PKG_VERSION"));
        return Err(Reason::WrongVersion { binary: binary(), built, kernel });
    }
    let mut next = layout::BINARY;
    for segment in &program.segments {
        let Segment { address, bytes, writable, executable, .. } = *segment;
        if writable && executable {
            return Err(Reason::WritableCode { binary: name.to_owned(), address });
        }
        if !address.is_multiple_of(PAGE) || address < next || address + bytes > layout::BINARY_END {
            return Err(Reason::BadSegment { binary: name.to_owned(), address });
        }
        next = (address + bytes).next_multiple_of(PAGE);
    }
    Ok(program)
}

/// The program's note with the version that it was built for.
fn note(bytes: &[u8]) -> Option<program::Note> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let sections = header.sections(LittleEndian, bytes).ok()?;
    let (_, section) = sections.section_by_name(LittleEndian, program::SECTION.as_bytes())?;
    program::Note::read(section.data(LittleEndian, bytes).ok()?)
}

/// The bytes from `base` on that loading `program` by physical addresses gives, `.bss` included.
pub(crate) fn flatten(program: &Program<'_>, base: u64, limit: u64) -> Option<Vec<u8>> {
    let end = program.segments.iter().map(|segment| segment.load + segment.bytes).max()?;
    if program.segments.iter().any(|segment| segment.load < base) || end > base + limit {
        return None;
    }
    let mut flat = vec![0; (end - base) as usize];
    for segment in &program.segments {
        let at = (segment.load - base) as usize;
        flat[at..at + segment.data.len()].copy_from_slice(segment.data);
    }
    Some(flat)
}

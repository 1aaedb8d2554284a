//! A small ELF file, made by hand.

use fusee_abi::program::{Note, SECTION};
use zerocopy::IntoBytes;

/// One segment: flags (4 read, 2 write, 1 execute), address, bytes in the file, bytes in memory.
pub struct Segment<'a>(pub u32, pub u64, pub &'a [u8], pub u64);

/// An ELF program for AArch64 and this kernel, with these segments; starts at the first.
pub fn elf(segments: &[Segment<'_>]) -> Vec<u8> {
    elf_with(segments, Note::new("0.1.0"))
}

/// An ELF program with this note of the kernel for which it was built.
pub fn elf_with(segments: &[Segment<'_>], note: Note) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let entry = segments.first().map_or(0, |segment| segment.1);
    let pages: usize = segments.iter().map(|segment| segment.2.len().div_ceil(4096)).sum();
    let sections_at = 4096 + pages as u64 * 4096;
    file.extend(2u16.to_le_bytes());
    file.extend(183u16.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    for word in [entry, 64, sections_at] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    // Sections: one that is none, the note, their names.
    for half in [64, 56, segments.len() as u16, 64, 3, 2] {
        file.extend(half.to_le_bytes());
    }
    let mut offset = 4096u64;
    for Segment(flags, address, data, memory) in segments {
        file.extend(1u32.to_le_bytes());
        file.extend(flags.to_le_bytes());
        for word in [offset, *address, *address, data.len() as u64, *memory, 4096] {
            file.extend(word.to_le_bytes());
        }
        offset += (data.len() as u64).next_multiple_of(4096);
    }
    for Segment(_, _, data, _) in segments {
        file.resize(file.len().next_multiple_of(4096), 0);
        file.extend(*data);
    }
    file.resize(sections_at as usize, 0);
    let names = format!("\0{SECTION}\0");
    let contents_at = sections_at + 3 * 64;
    let contents = [
        (0u32, 0u32, 0, 0),
        (1, 7, contents_at, note.as_bytes().len() as u64),
        (0, 3, contents_at + note.as_bytes().len() as u64, names.len() as u64),
    ];
    for (name, kind, at, bytes) in contents {
        file.extend(name.to_le_bytes());
        file.extend(kind.to_le_bytes());
        for word in [0, 0, at, bytes, 0, 4, 0] {
            file.extend(word.to_le_bytes());
        }
    }
    file.extend(note.as_bytes());
    file.extend(names.bytes());
    file
}

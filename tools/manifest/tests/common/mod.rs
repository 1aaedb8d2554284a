//! A small ELF file, made by hand.

/// One segment: flags (4 read, 2 write, 1 execute), address, bytes in the file, bytes in memory.
pub struct Segment<'a>(pub u32, pub u64, pub &'a [u8], pub u64);

/// An ELF program for AArch64 with these segments; starts at the first.
pub fn elf(segments: &[Segment<'_>]) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let entry = segments.first().map_or(0, |segment| segment.1);
    file.extend(2u16.to_le_bytes());
    file.extend(183u16.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    for word in [entry, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for half in [64, 56, segments.len() as u16, 64, 0, 0] {
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
    file
}

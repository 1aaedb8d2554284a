//! The note in each program that says which version it was built for.
//!
//! A program and the kernel are built apart, so nothing but this note keeps a program of yesterday from making calls that mean
//! something else today. `fusee::entry!` puts it into the section [`SECTION`]; `tools/manifest` reads it and refuses a program of
//! another version. It takes no memory of the task.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of the interface of programs and the kernel: calls, errors, the environment page, scripts, and this note.
pub const VERSION: u32 = 4;
/// The ELF section of the note.
pub const SECTION: &str = ".note.fusee";
/// Bytes for the version of a crate.
const CRATE_VERSION_BYTES: usize = 16;

/// An ELF note, as it stands in a program: three words that every note has, the name "Fusee", and the contents.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Note {
    /// Length of the name with its terminating zero, in bytes.
    name_bytes: u32,
    /// Length of `abi` and `crate_version`, in bytes.
    contents_bytes: u32,
    /// The kind of note among those of this name: 1.
    kind: u32,
    /// "Fusee".
    name: [u8; 8],
    /// [`VERSION`] when the program was built.
    pub abi: u32,
    /// Version of the crate `fusee`, as text that is filled up with zeros.
    pub crate_version: [u8; CRATE_VERSION_BYTES],
}

impl Note {
    /// The note of a program that is built now, with this version of the crate `fusee`.
    ///
    /// # Panics
    /// The version is longer than 16 bytes. It is a constant, so that is an error of the compiler.
    #[must_use]
    pub const fn new(crate_version: &str) -> Self {
        Self::of(VERSION, crate_version)
    }

    /// The note of a program that was built for version `abi`.
    ///
    /// # Panics
    /// The version of the crate is longer than 16 bytes.
    #[must_use]
    pub const fn of(abi: u32, crate_version: &str) -> Self {
        let mut padded = [0; CRATE_VERSION_BYTES];
        padded.split_at_mut(crate_version.len()).0.copy_from_slice(crate_version.as_bytes());
        let contents_bytes = (size_of::<u32>() + CRATE_VERSION_BYTES) as u32;
        Self { name_bytes: 6, contents_bytes, kind: 1, name: *b"Fusee\0\0\0", abi, crate_version: padded }
    }

    /// Reads the section [`SECTION`]; `None` if it holds no such note.
    #[must_use]
    pub fn read(section: &[u8]) -> Option<Self> {
        let (note, _) = Self::read_from_prefix(section).ok()?;
        let form = Self::of(note.abi, "");
        (Self { crate_version: form.crate_version, ..note } == form).then_some(note)
    }

    /// Version of the crate `fusee` that the program was built with.
    #[must_use]
    pub fn crate_version(&self) -> &str {
        let length = self.crate_version.iter().position(|byte| *byte == 0).unwrap_or(CRATE_VERSION_BYTES);
        str::from_utf8(&self.crate_version[..length]).unwrap_or("?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digest of the sources of the interface of programs and the kernel, without comments: FNV-1a, 64 bits.
    fn fingerprint() -> u64 {
        let sources = [
            include_str!("call.rs"),
            include_str!("environment.rs"),
            include_str!("error.rs"),
            include_str!("script.rs"),
            include_str!("program.rs").split("#[cfg(test)]").next().unwrap_or_default(),
        ];
        let lines = sources.iter().flat_map(|source| source.lines());
        let code = lines.map(|line| line.split("//").next().unwrap_or_default());
        let bytes = code.flat_map(str::bytes).filter(|byte| !byte.is_ascii_whitespace());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    #[test]
    fn the_version_is_raised_with_what_it_stands_for() {
        let recorded = (4, 9_095_210_619_101_741_872);
        assert_eq!(
            (VERSION, fingerprint()),
            recorded,
            "what programs and the kernel agree on has changed: raise VERSION unless every old program still runs, and record \
             the pair on the left"
        );
    }

    #[test]
    fn a_note_is_read_back_and_nothing_else_is_taken_for_one() {
        let note = Note::of(7, "0.1.0");
        assert_eq!(Note::read(note.as_bytes()), Some(note));
        assert_eq!((note.abi, note.crate_version()), (7, "0.1.0"));
        assert_eq!(Note::read(&note.as_bytes()[1..]), None);
        for byte in 0..20 {
            let mut spoilt: [u8; size_of::<Note>()] = note.as_bytes().try_into().unwrap();
            spoilt[byte] ^= 1;
            assert_eq!(Note::read(&spoilt), None, "byte {byte}");
        }
    }
}

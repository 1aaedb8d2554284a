//! Names in the form of FAT: up to eight characters, and an extension of up to three.

/// Bytes of a name: each part is filled up with spaces.
pub const NAME: usize = 11;
/// Bytes before the extension.
const BASE: usize = 8;

/// The form of a name on the disk, if FAT has the name: letters in lower case stand for those in upper case.
pub fn short(name: &[u8]) -> Option<[u8; NAME]> {
    let mut parts = name.split(|byte| *byte == b'.');
    let (base, extension) = (parts.next()?, parts.next());
    let has_dot = extension.is_some();
    let extension = extension.unwrap_or_default();
    let fits =
        !base.is_empty() && base.len() <= BASE && extension.len() <= NAME - BASE && has_dot != extension.is_empty();
    if !fits || parts.next().is_some() {
        return None;
    }
    let mut short = [b' '; NAME];
    let places = (0..base.len()).chain(BASE..BASE + extension.len());
    for (place, byte) in places.zip(base.iter().chain(extension)) {
        short[place] = byte.to_ascii_uppercase();
        if !is_allowed(short[place]) {
            return None;
        }
    }
    Some(short)
}

/// Whether a name may have this character: those of the specification (1.03, section 6.1) that are in ASCII. Others depend on a code page.
fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"$%'-_@~`!(){}^#&".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_upper_case_and_filled_up() {
        assert_eq!(short(b"log.txt"), Some(*b"LOG     TXT"));
        assert_eq!(short(b"FILENAME.EXT"), Some(*b"FILENAMEEXT"));
        assert_eq!(short(b"a"), Some(*b"A          "));
        assert_eq!(short(b"R-1_~(2)"), Some(*b"R-1_~(2)   "));
    }

    #[test]
    fn other_names_are_none() {
        let none: [&[u8]; 12] =
            [b"", b".", b"..", b".txt", b"a.", b"a.b.c", b"filenames", b"a.text", b"a b", b"a*", b"\xe5a", b"a/b"];
        for name in none {
            assert_eq!(short(name), None, "{name:?}");
        }
    }
}

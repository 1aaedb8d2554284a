//! Errata of the Cortex-A53 that programs have to keep away from, and whether they did.
//!
//! Arm, *Cortex-A53 MPCore Product Errata Notice*: 835769, a 64-bit multiply-accumulate right behind an access to memory may be wrong;
//! 843419, a load or store with an address by an `adrp` in the last two words of a page may go elsewhere.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fusee_abi::image::feature;
use fusee_manifest::{Board, Manifest};
use object::{Object, ObjectSection, SectionKind};

use fusee_host::build::Builder;
use fusee_host::system::Workspace;

/// The name of a check.
pub const CHECK: &str = "programs for boards with errata keep away from them";

/// Looks at the kernel and at tasks of each board with errata.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    // A search that finds nothing must be able to.
    if patterns(&workspace.builder().kernel(feature::ALL)?)?.is_empty() {
        problems.push("the usual board's kernel, which is not built so, has nothing to find".to_owned());
    }
    for name in Board::NAMES {
        let Some(board) = Board::named(name).filter(|board| !board.cpus.errata.is_empty()) else { continue };
        let builder = workspace.builder();
        let mut programs = vec![builder.kernel_of(name, feature::ALL)?];
        programs.extend(tasks(&builder, name)?);
        for program in programs {
            let found = patterns(&program)?;
            let path = program.display();
            let wrong = found.iter().filter(|(_, number)| board.cpus.errata.contains(number));
            problems.extend(wrong.map(|(address, number)| format!("{name}: {path}: {number} at {address:#x}")));
        }
    }
    Ok(problems)
}

/// Programs of tasks, as they are built for this board.
fn tasks(builder: &Builder<'_>, board: &str) -> Result<Vec<PathBuf>> {
    let text = format!(
        "[system]\nname = \"errata\"\nboard = \"{board}\"\ncpus = 1\n[tasks.floats]\nbinary = \"apps/floats\"\n\
         [tasks.scripted]\nscript = [\"burn 1ms\"]\n"
    );
    let manifest = Manifest::parse(Path::new("errata"), &text)?;
    let programs = builder.programs(&[&manifest.system])?;
    Ok(programs.binaries.into_values().collect())
}

/// The places in the code of an ELF file that an erratum is about: addresses, and numbers of errata.
fn patterns(program: &Path) -> Result<Vec<(u64, u32)>> {
    let bytes = std::fs::read(program).with_context(|| program.display().to_string())?;
    let file = object::File::parse(&*bytes)?;
    let mut found = Vec::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let words =
            section.data()?.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        found.extend(in_words(&words.collect::<Vec<_>>(), section.address()));
    }
    Ok(found)
}

/// The places among instructions from `address` on.
fn in_words(words: &[u32], address: u64) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    for (index, window) in words.windows(2).enumerate() {
        let at = address + 4 * index as u64;
        if is_access(window[0]) && is_multiply_accumulate(window[1]) {
            found.push((at, 835_769));
        }
        let register = window[0] & 0x1f;
        let is_last = at & 0xfff >= 0xff8;
        if is_last && is_page(window[0]) && is_access(window[1]) {
            let uses =
                |word: Option<&u32>| word.is_some_and(|word| is_by_offset(*word) && word >> 5 & 0x1f == register);
            let (third, fourth) = (words.get(index + 2), words.get(index + 3));
            if uses(third) || uses(fourth) {
                found.push((at, 843_419));
            }
        }
    }
    found
}

/// Loads, stores and prefetches.
fn is_access(word: u32) -> bool {
    word & 0x0a00_0000 == 0x0800_0000
}

/// `madd`, `msub` of 64 bits and their long forms that add to something.
fn is_multiply_accumulate(word: u32) -> bool {
    let is_one = matches!(word >> 21, 0x4d8 | 0x4d9 | 0x4dd);
    is_one && word >> 10 & 0x1f != 0x1f
}

/// `adrp`.
fn is_page(word: u32) -> bool {
    word & 0x9f00_0000 == 0x9000_0000
}

/// A load or store of one register at a positive offset.
fn is_by_offset(word: u32) -> bool {
    word & 0x3b00_0000 == 0x3900_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    const LDR: u32 = 0xf940_0021; // ldr x1, [x1]
    const NOP: u32 = 0xd503_201f;

    #[test]
    fn a_multiply_accumulate_behind_an_access_is_found_and_a_multiplication_is_not() {
        let (madd, mul) = (0x9b02_0c20, 0x9b02_7c20); // madd x0, x1, x2, x3; mul x0, x1, x2
        assert_eq!(in_words(&[NOP, LDR, madd], 0), [(4, 835_769)]);
        assert_eq!(in_words(&[LDR, mul, NOP, madd, LDR], 0), []);
        // smaddl, umaddl x0, w1, w2, x3; madd w0, w1, w2, w3
        assert_eq!(in_words(&[LDR, 0x9b22_0c20, LDR, 0x9ba2_0c20, LDR, 0x1b02_0c20], 0).len(), 2);
    }

    #[test]
    fn a_page_address_in_the_last_words_of_a_page_is_found() {
        let (adrp, other, uses) = (0x9000_0000, 0xf900_0041, 0xf940_0400); // adrp x0; str x1, [x2]; ldr x0, [x0, #8]
        assert_eq!(in_words(&[adrp, other, uses], 0x1ff8), [(0x1ff8, 843_419)]);
        assert_eq!(in_words(&[adrp, other, NOP, uses], 0x1ffc), [(0x1ffc, 843_419)]);
        assert_eq!(in_words(&[adrp, other, uses], 0x1ff4), []);
        assert_eq!(in_words(&[adrp, NOP, uses], 0x1ff8), []);
        assert_eq!(in_words(&[adrp, other, NOP, NOP, uses], 0x1ff8), []);
        // Of another register.
        assert_eq!(in_words(&[adrp, other, 0xf940_0461], 0x1ff8), []);
    }
}

//! Strings that libFuzzer found worth keeping, read again without it.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

use std::path::{Path, PathBuf};

use fusee_fuzz::Target;

/// Bytes of all corpora, at most.
const BYTES: u64 = 1 << 20;

fn corpus(target: Target) -> Vec<PathBuf> {
    strings("corpus", target).expect("each target has a corpus")
}

fn strings(folder: &str, target: Target) -> Option<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(target.name());
    let mut files: Vec<PathBuf> = folder.read_dir().ok()?.map(|file| file.unwrap().path()).collect();
    files.sort();
    Some(files)
}

/// Strings that once broke something, each named after its subject. They stay when a corpus is kept anew.
fn broken(target: Target) -> Vec<PathBuf> {
    strings("broken", target).unwrap_or_default()
}

/// A kernel with room for all objects passes over the stack on its way into a box.
const STACK: usize = 64 << 20;

#[test]
fn whatever_was_found_once_still_holds() {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(read_all).unwrap();
    let steps = thread.join().expect("what was printed last breaks something");
    println!("{steps} steps");
    assert!(steps > 1_000, "the corpora say little: {steps} steps");
}

fn read_all() -> u64 {
    let mut steps = 0;
    for target in Target::ALL {
        let files = corpus(target);
        assert!(!files.is_empty(), "the corpus of {} is empty", target.name());
        for file in files.into_iter().chain(broken(target)) {
            println!("{}", file.display());
            steps += target.read(&std::fs::read(&file).unwrap());
        }
    }
    steps
}

#[test]
fn all_corpora_are_small() {
    let bytes: u64 = Target::ALL.into_iter().flat_map(corpus).map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes <= BYTES, "{bytes} bytes of corpora; {BYTES} are allowed");
}

//! Mistakes that the compiler can see do not compile, and their corrections do: those of tasks, and writes past the walls of the kernel's objects.
//!
//! `ui/NAME.rs` is a mistake, `ui/NAME.stderr` the compiler's message about it, and the function `NAME` of `ui/right.rs` the
//! same without the mistake. The messages are those of Rust 1.95. With `TRYBUILD=overwrite` in the environment the messages are written anew.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_mistake_is_an_error_and_its_correction_is_none() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let right = std::fs::read_to_string(folder.join("right.rs")).expect("the corrections are there");
    let corrected: BTreeSet<String> = right
        .lines()
        .filter_map(|line| line.strip_prefix("fn ")?.split(['(', '<']).next().map(str::to_owned))
        .filter(|name| name != "main")
        .collect();
    let mistakes: BTreeSet<String> = std::fs::read_dir(&folder)
        .expect("the mistakes are there")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".rs")?.to_owned()))
        .filter(|name| name != "right")
        .collect();
    assert_eq!(mistakes, corrected);

    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/right.rs");
    for mistake in &mistakes {
        cases.compile_fail(format!("tests/ui/{mistake}.rs"));
    }
}

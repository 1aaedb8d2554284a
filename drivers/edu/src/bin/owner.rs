//! Fills a region, and looks in each job whether it is as it was filled: one page a job.
//!
//! Handle: region "mine" (read write). It ends with a panic at the first byte that is another.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Region, environment, next_job};

fusee::entry!(main);

const PAGE: usize = 4096;
const WORD: usize = 8;

fn main() {
    let mine = environment().expect::<Region>("mine").shared();
    let value = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words = || (0..mine.len()).step_by(WORD);
    words().for_each(|at| mine.write_u64(at, value(at)));
    for page in (0..mine.len()).step_by(PAGE).cycle() {
        if next_job().is_ok() {
            let is_changed = |at: &usize| mine.read_u64(*at) != value(*at);
            assert_eq!(
                (page..page + PAGE).step_by(WORD).find(is_changed),
                None,
                "somebody has stored to memory that is mine"
            );
        }
    }
}

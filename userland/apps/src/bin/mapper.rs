//! Maps and unmaps a region of more pages than the kernel maps in one trap, and looks at every page.
//!
//! Handles: region "area" (read, write, map). Parameters: "rounds", ten if absent; "probe": if one, the last page is
//! read once more while it is not mapped, which must fault.
//!
//! Logs `log(1, pages)` after each round in which every page held the value written a round earlier, and
//! `log(0, page)` for the first that did not.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Region, environment, exit, log};

fusee::entry!(main);

const PAGE: usize = 4096;

fn main() {
    let environment = environment();
    let area = environment.expect::<Region>("area");
    let pages = area.bytes() as usize / PAGE;
    for round in 0..environment.parameter("rounds").unwrap_or(10) {
        area.map().expect("the region may be mapped");
        for page in 0..pages {
            let (first, last) = (page * PAGE, page * PAGE + PAGE - 8);
            let expected = if round == 0 { area.shared().read_u64(first) } else { stamp(round - 1, page) };
            if area.shared().read_u64(first) != expected || (round > 0 && area.shared().read_u64(last) != expected) {
                log(0, page as u64);
                exit(1)
            }
            area.shared().write_u64(first, stamp(round, page));
            area.shared().write_u64(last, stamp(round, page));
        }
        area.unmap().expect("the region may be unmapped");
        log(1, pages as u64);
    }
    if environment.parameter("probe") == Some(1) {
        log(0, area.shared().read_u64(pages * PAGE - 8));
    }
    exit(0)
}

fn stamp(round: u64, page: usize) -> u64 {
    (round << 32) | (page as u64 + 1)
}

//! A task with a planted race: in each job it loads a count that another task changes, too, computes, and stores the count plus one.
//!
//! Handle: region "counts" (read, write): the shared count, and from byte 8 the jobs of each task. Parameters: "work_us" of computing between load and store,
//! "place" of its own word, "audits": whether it panics if a job of either task is not in the shared count.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Nanoseconds, Region, burn, environment, next_job};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let counts = environment.expect::<Region>("counts").shared();
    let work = Nanoseconds(environment.parameter("work_us").unwrap_or(100) * 1_000);
    let own = 8 + 8 * environment.parameter("place").unwrap_or(0) as usize;
    let audits = environment.parameter("audits").unwrap_or(0) != 0;
    loop {
        next_job().expect("the manifest gives this task a period");
        if audits {
            assert_eq!(counts.read_u64(0), counts.read_u64(8) + counts.read_u64(16), "an update is lost");
        }
        let count = counts.read_u64(0);
        burn(work);
        counts.write_u64(0, count + 1);
        counts.write_u64(own, counts.read_u64(own) + 1);
    }
}

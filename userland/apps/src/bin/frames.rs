//! A node of a graph that writes an object, or reads it and looks whether all of a frame is of the job that it should be.
//!
//! | Parameter | Is |
//! |---|---|
//! | `writes` | 1: it fills each frame with the number of its job; else it reads, and looks at all bytes twice |
//! | `work` | how long a job computes in sum, microseconds: between the halves of a frame, or between the two looks |
//! | `careless` | 1: a writer that does not ask whether a frame is free |
//! | `jobs` | after so many the task logs, and ends: readers the system, which needs a handle "system" |
//!
//! Its object is called "picture", of 4 KiB a frame. A reader logs 0 and whether something was wrong in a job of which the frame was not lost, and 2 and 1 if some
//! were lost; a writer 1 and whether it ever waited for a free frame.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::graph::Node;
use fusee::{Nanoseconds, SharedBytes, System, burn, environment, log, next_job, shutdown};

fusee::entry!(main);

/// Words of a frame.
const WORDS: usize = 512;

fn main() {
    let environment = environment();
    let parameter = |name| environment.parameter(name).unwrap_or(0);
    let mut node = Node::of(&environment).expect("the task is a node");
    let picture = node.object(&environment, "picture").expect("the graph has this object");
    let half = Nanoseconds(parameter("work") * 500);
    let (writes, is_careless) = (parameter("writes") != 0, parameter("careless") != 0);
    let (mut is_wrong, mut has_lost, mut has_waited) = (false, false, false);
    for _ in 0..parameter("jobs") {
        let job = next_job().expect("a job follows");
        if writes && !is_careless {
            has_waited |= node.begin(&job) > 0;
        }
        let frame = node.frame(&picture, &job, 0);
        if writes {
            burn(half);
            fill(&frame, 0..WORDS / 2, job.number);
            burn(half);
            fill(&frame, WORDS / 2..WORDS, job.number);
        } else {
            burn(half);
            let first = is_of(&frame, job.number);
            burn(half);
            let is_right = first && is_of(&frame, job.number);
            let is_lost = node.is_lost(&picture, &job, 0);
            is_wrong |= !is_right && !is_lost;
            has_lost |= is_lost;
        }
        node.end(&job);
    }
    if writes {
        log(1, has_waited.into());
    } else {
        log(0, is_wrong.into());
        if has_lost {
            log(2, 1);
        }
        // The writer has ended before.
        shutdown(environment.expect::<System>("system"), 0)
    }
}

fn fill(frame: &SharedBytes, words: core::ops::Range<usize>, number: u64) {
    words.for_each(|word| frame.write_u64(8 * word, number));
}

fn is_of(frame: &SharedBytes, number: u64) -> bool {
    (0..WORDS).all(|word| frame.read_u64(8 * word) == number)
}

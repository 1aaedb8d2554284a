//! The source of the graph: writes a picture in each job.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::graph::Node;
use fusee::{environment, next_job};

fusee::entry!(main);

/// Words of a picture.
const WORDS: usize = 512;

fn main() {
    let environment = environment();
    let mut node = Node::of(&environment).expect("this task is a node");
    let picture = node.object(&environment, "picture").expect("the graph has this object");
    loop {
        let job = next_job().expect("the clock releases the source");
        // Waits until the frame has no reader any more, which with enough frames is so at once.
        node.begin(&job);
        let frame = node.frame(&picture, &job, 0);
        for word in 0..WORDS {
            frame.write_u64(8 * word, job.number + word as u64);
        }
        // Releases the readers.
        node.end(&job);
    }
}

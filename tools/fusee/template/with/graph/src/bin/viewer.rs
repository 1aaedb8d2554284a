//! The sink of the graph: adds up the words of each picture.
//!
//! Handle: endpoint "console" (call).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::graph::Node;
use fusee::{environment, next_job, println};

fusee::entry!(main);

/// Words of a picture.
const WORDS: usize = 512;

fn main() {
    let environment = environment();
    let mut node = Node::of(&environment).expect("this task is a node");
    let picture = node.object(&environment, "picture").expect("the graph has this object");
    loop {
        let job = next_job().expect("the camera releases jobs");
        let frame = node.frame(&picture, &job, 0);
        let sum: u64 = (0..WORDS).map(|word| frame.read_u64(8 * word)).sum();
        if job.number == 5 {
            println!("viewer: picture 5 is {}", if sum == of_picture(5) { "right" } else { "wrong" });
        }
        node.end(&job);
    }
}

/// The sum that the words of a picture should have.
fn of_picture(number: u64) -> u64 {
    (0..WORDS as u64).map(|word| number + word).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_picture_is_that_of_its_words() {
        assert_eq!(of_picture(1) - of_picture(0), WORDS as u64);
    }
}

//! A node of the graph that finds the lane; which one, the parameter `stage` says.
//!
//! | `stage` | Node | Writes | Reads |
//! |---:|---|---|---|
//! | 0 | grab | `picture`, `stamp` | the newest picture of the camera |
//! | 1 | look | `lane` | `picture` |
//! | 2 | track | the newest lane, for the controller | `lane`, `stamp` |
//!
//! Look launches four kernels, one after the other, and holds the engine for each alone. A node for each kernel would be a later lane: its bound counts the
//! execution of all other nodes for each of them.
//!
//! Handles: region "pictures" of stage 0; an engine of the device, and region "buffer", of stage 1; regions "sights" and "lanes" of stage 2.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use car::see::{BIRDSEYE, FIT, MARKS, STRAIGHTEN};
use car_kernels::LANE_WORDS;
use car_kernels::calibration::{CELLS, PIXELS, WIDTH};
use car_tasks::{Newest, PICTURE_BYTES, SIGHT_BYTES, STAMP_BYTES, Stamp, record, write_sight};
use fusee::gpu::{Auto, Buffer, Work};
use fusee::graph::{Node, Object};
use fusee::{Environment, Instant, JobInfo, Region, environment, next_job, now};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let node = Node::of(&environment).expect("the task is a node");
    let stage = Stage { environment, node };
    match environment.parameter("stage").expect("the parameter `stage` says which node") {
        0 => stage.grab(),
        1 => stage.look(),
        2 => stage.track(),
        unknown => panic!("there is no stage {unknown}"),
    }
}

/// This task.
struct Stage {
    environment: Environment,
    node: Node,
}

impl Stage {
    fn object(&self, name: &str) -> Object {
        self.node.object(&self.environment, name).unwrap_or_else(|_| panic!("the graph has an object `{name}`"))
    }

    /// Does `work` in each job.
    fn each(mut self, mut work: impl FnMut(&Node, &JobInfo)) {
        loop {
            let job = next_job().expect("a node has jobs");
            self.node.begin(&job);
            work(&self.node, &job);
            self.node.end(&job);
        }
    }

    fn grab(self) {
        let pictures = Newest::new(&self.environment.expect::<Region>("pictures"), PICTURE_BYTES);
        let (picture, stamp) = (self.object("picture"), self.object("stamp"));
        self.each(|node, job| {
            let (to, stamp) = (node.frame(&picture, job, 0), node.frame(&stamp, job, 0));
            let copied = pictures.read(|_, from| {
                let mut row = [0; WIDTH];
                for at in (0..PICTURE_BYTES - STAMP_BYTES).step_by(WIDTH) {
                    from.copy_to_slice(STAMP_BYTES + at, &mut row);
                    to.copy_from_slice(at, &row);
                }
                Stamp::read(from)
            });
            copied.unwrap_or_default().write(&stamp);
        });
    }

    fn look(self) {
        let mut device = Auto::of(&self.environment).expect("the task is a client of the device");
        let (picture, lane) = (self.object("picture"), self.object("lane"));
        let mut straight = Buffer::of(&self.environment.expect::<Region>("buffer"));
        let mut road = straight.split_off(PIXELS as u64);
        let mut marks = road.split_off(CELLS as u64);
        self.each(|node, job| {
            let (picture, mut lane) = (node.buffer(&picture, job, 0), node.buffer(&lane, job, 0));
            let mut run = |work: Work<'_>| {
                device.run(work, Instant::NEVER).expect("all buffers are ours");
                device.end().expect("nothing was held for too long");
            };
            run(Work::launch(STRAIGHTEN, (&picture, &mut straight)));
            run(Work::launch(BIRDSEYE, (&straight, &mut road)));
            run(Work::launch(MARKS, (&road, &mut marks)));
            run(Work::launch(FIT, (&road, &marks, &mut lane)));
        });
    }

    fn track(self) {
        let sights = Newest::new(&self.environment.expect::<Region>("sights"), SIGHT_BYTES);
        let lanes = self.environment.expect::<Region>("lanes").shared();
        let (lane, stamp) = (self.object("lane"), self.object("stamp"));
        self.each(|node, job| {
            let (lane, stamp) = (node.frame(&lane, job, 0), Stamp::read(&node.frame(&stamp, job, 0)));
            // Before the first picture of the camera there is no lane.
            if stamp.number == 0 {
                return;
            }
            let words: [i32; LANE_WORDS] = core::array::from_fn(|at| lane.read_u32(4 * at).cast_signed());
            sights.write(|memory| write_sight(memory, stamp, &words));
            let mut entry = [0; record::LANE];
            entry[..4].copy_from_slice(&stamp.number.to_le_bytes());
            entry[4..8].copy_from_slice(&((now().now.0 / 1000) as u32).to_le_bytes());
            for (bytes, word) in entry[8..].as_chunks_mut().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
            record::append(&lanes, &entry);
        });
    }
}

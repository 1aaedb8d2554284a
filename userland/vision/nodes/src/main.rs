//! A node of the graph that stabilises video; which one, the parameter `stage` says.
//!
//! | `stage` | Node | Writes | Reads |
//! |---:|---|---|---|
//! | 0 | Read Frame | `frame` | |
//! | 1 | Duplicate Colour | `copy` | `frame` |
//! | 2 | To Gray | `grey` | `frame` |
//! | 3 | Harris Tracker | `corners` | `grey` |
//! | 4 | Image Pyramid | `pyramid` | `grey` |
//! | 5 | Optical Flow | `tracks` | `pyramid` and that of the job before, `corners` of the job before |
//! | 6 | Homography | `estimate` | `tracks`, `corners` of the job before |
//! | 7 | Homography Filter | `motion` | `estimate` |
//! | 8 | Smooth Homography | `matrix` | `motion` |
//! | 9 | Warp Perspective | `shown` | `matrix`, `copy` of the job that was [`DELAY`] before |
//! | 10 | Display | | `shown` |
//!
//! Stages that launch a kernel have an engine of a device, of any name; stage 8 that of a signal processor, and its signal and weights in the region
//! `buffer`. Display logs for each stabilised frame its number, from 0, and its digest, and ends the system after as many jobs as its parameter
//! `frames` says, by the handle `system`.
//!
//! The computations are in the package `vision`; here are their engines and the places of data.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::{Auto, Buffer, Work};
use fusee::graph::{Node, Object};
use fusee::{Environment, Instant, JobInfo, Region, SharedBytes, System, environment, log, next_job, shutdown};
use vision::filter::filtered;
use vision::homography::{Estimate, estimate, matches};
use vision::smooth::{DELAY, FILTER, WEIGHTS, Window, warp};
use vision::{
    CELLS, COLOUR_BYTES, CORNERS, DUPLICATE, FLOW, GREY, HEIGHT, Matrix, PYRAMID, WARP, WIDTH, digest, source,
};

fusee::entry!(main);

/// Bytes of a row of a colour frame.
const ROW: usize = 3 * WIDTH;

fn main() {
    let environment = environment();
    let node = Node::of(&environment).expect("the task is a node");
    let stage = Stage { environment, node };
    match environment.parameter("stage").expect("the parameter `stage` says which node") {
        0 => stage.read(),
        1 => stage.launches(["frame"], ["copy"], [0], |[frame], copy| Work::launch(DUPLICATE, (frame, copy))),
        2 => stage.launches(["frame"], ["grey"], [0], |[frame], grey| Work::launch(GREY, (frame, grey))),
        3 => stage.launches(["grey"], ["corners"], [0], |[grey], corners| Work::launch(CORNERS, (grey, corners))),
        4 => stage.launches(["grey"], ["pyramid"], [0], |[grey], pyramid| Work::launch(PYRAMID, (grey, pyramid))),
        5 => stage.launches(
            ["pyramid", "pyramid", "corners"],
            ["tracks"],
            [1, 0, 1],
            |[before, now, corners], tracks| Work::launch(FLOW, (before, now, corners, tracks)),
        ),
        6 => stage.homography(),
        7 => stage.filter(),
        8 => stage.smooth(),
        9 => stage.launches(["copy", "matrix"], ["shown"], [DELAY as u32, 0], |[copy, matrix], shown| {
            Work::launch(WARP, (copy, matrix, shown))
        }),
        10 => stage.display(),
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

    fn read(self) {
        let frame = self.object("frame");
        let mut number = 0;
        self.each(|node, job| {
            let picture = node.frame(&frame, job, 0);
            let camera = source::camera(number);
            let mut row = [0; ROW];
            for y in 0..HEIGHT {
                source::render_row(number, &camera, y, &mut row);
                picture.copy_from_slice(y * ROW, &row);
            }
            number += 1;
        });
    }

    /// Launches a kernel in each job: of these objects, each of the job so many before, into that one.
    fn launches<const N: usize>(
        self,
        inputs: [&str; N],
        [output]: [&str; 1],
        back: [u32; N],
        work: impl for<'w> Fn([&'w Buffer; N], &'w mut Buffer) -> Work<'w>,
    ) {
        let mut device = Auto::of(&self.environment).expect("the task is a client of the device");
        let (inputs, output) = (inputs.map(|name| self.object(name)), self.object(output));
        self.each(|node, job| {
            let inputs: [Buffer; N] = core::array::from_fn(|at| node.buffer(&inputs[at], job, back[at]));
            let mut output = node.buffer(&output, job, 0);
            let work = work(inputs.each_ref(), &mut output);
            device.run(work, Instant::NEVER).expect("objects of the graph are ours");
            device.end().expect("nothing was held for too long");
        });
    }

    fn homography(self) {
        let (corners, tracks, found) = (self.object("corners"), self.object("tracks"), self.object("estimate"));
        self.each(|node, job| {
            let corners = words(&node.frame(&corners, job, 1));
            let tracks = words(&node.frame(&tracks, job, 0));
            let best = estimate(matches(&corners, &tracks).as_slice());
            node.frame(&found, job, 0).copy_from_slice(0, &Estimate::bytes(best.as_ref()));
        });
    }

    fn filter(self) {
        let (found, motion) = (self.object("estimate"), self.object("motion"));
        self.each(|node, job| {
            let mut bytes = [0; 80];
            node.frame(&found, job, 0).copy_to_slice(0, &mut bytes);
            let passed = filtered(Estimate::of(&bytes).as_ref());
            node.frame(&motion, job, 0).copy_from_slice(0, &passed.matrix.bytes());
        });
    }

    fn smooth(self) {
        let (motion, matrix) = (self.object("motion"), self.object("matrix"));
        let mut processor = Auto::of(&self.environment).expect("the task is a client of the signal processor");
        let mut signal = Buffer::of(&self.environment.expect::<Region>("buffer"));
        let mut weights = signal.split_off(256);
        let mut filtered = weights.split_off(64);
        store(&mut weights, &WEIGHTS);
        let mut window = Window::new();
        self.each(|node, job| {
            let mut bytes = [0; 72];
            node.frame(&motion, job, 0).copy_to_slice(0, &mut bytes);
            window.push(&Matrix::of(&bytes));
            store(&mut signal, &window.signal());
            let work = Work::launch(FILTER, (&signal, &weights, &mut filtered));
            processor.run(work, Instant::NEVER).expect("all operands are in our buffer");
            processor.end().expect("nothing was held for too long");
            let there = node.frame(&matrix, job, 0);
            for (at, number) in warp(&Window::correction(&samples(&filtered))).into_iter().enumerate() {
                there.write_u32(4 * at, number.cast_unsigned());
            }
        });
    }

    fn display(mut self) {
        let shown = self.object("shown");
        for number in 0..self.environment.parameter("frames").unwrap_or(u64::MAX) {
            let job = next_job().expect("a node has jobs");
            self.node.begin(&job);
            if let Some(number) = number.checked_sub(DELAY as u64) {
                let mut picture = [0; COLOUR_BYTES];
                self.node.frame(&shown, &job, 0).copy_to_slice(0, &mut picture);
                log(number, digest(&picture).into());
            }
            self.node.end(&job);
        }
        shutdown(self.environment.expect::<System>("system"), 0)
    }
}

/// Samples, as they stand in memory.
fn store(buffer: &mut Buffer, samples: &[i16]) {
    for (at, sample) in samples.iter().enumerate() {
        buffer.copy_from_slice(2 * at, &sample.to_le_bytes());
    }
}

/// Samples as numbers, read back from a buffer.
fn samples<const N: usize>(buffer: &Buffer) -> [i16; N] {
    core::array::from_fn(|at| {
        let mut bytes = [0; 2];
        buffer.copy_to_slice(2 * at, &mut bytes);
        i16::from_le_bytes(bytes)
    })
}

/// Words of corners and tracks, as they stand in memory.
fn words(memory: &SharedBytes) -> [i32; 3 * CELLS] {
    core::array::from_fn(|at| memory.read_u32(4 * at).cast_signed())
}

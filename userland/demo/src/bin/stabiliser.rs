//! The stabiliser: finds out how far each frame has moved, and moves it back, on the GPU.
//!
//! One job a frame, released by the camera. Six operations, each under the lock of its engine: copy in,
//! gradient, block matching, shift, copy out twice. The job suspends while an operation runs, and lends its
//! key and budget to the driver that will wake it.
//!
//! Handles: engines "ee", "ce_in", "ce_out"; regions "ring", "frames", "record"; notification "gpu_done";
//! endpoint "console".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use demo::{FRAME_BYTES, HEIGHT, SHAKE, WIDTH, buffer, local, record};
use fusee::gpu::{Context, EngineIndex, ImageSize, Operation};
use fusee::{Engine, Instant, Region, environment, next_job, println};
use fusee_accel_contract::space::{BUFFER_BASE, LOCAL_BASE};

fusee::entry!(main);

/// Pixels left out between compared ones.
const STRIDE: u8 = 4;
/// A line on the console for each so many frames.
const REPORT: u32 = 30;

struct Gpu {
    context: Context,
    engines: [Engine; 3],
}

impl Gpu {
    /// Runs one operation to its end, under the lock of its engine.
    fn run(&self, index: EngineIndex, operation: Operation) {
        let engine = &self.engines[index.number()];
        self.context
            .run(engine, operation, Instant::NEVER)
            .expect("the operation is right, and stays within our memory");
    }
}

fn main() {
    let environment = environment();
    let frames = environment.expect::<Region>("frames").shared();
    let record = environment.expect::<Region>("record").shared();
    let gpu = Gpu {
        context: Context::of(&environment).expect("this task is a client of the GPU"),
        engines: [environment.expect("ee"), environment.expect("ce_in"), environment.expect("ce_out")],
    };
    let size = ImageSize { width: WIDTH as u16, height: HEIGHT as u16 };
    let mut pixels = [0; FRAME_BYTES];
    let mut processed = 0u32;
    loop {
        next_job().expect("the stabiliser is sporadic");
        // The newest frame: if releases were skipped, older ones are gone.
        let frame = frames.observe_u32(buffer::DELIVERED).wrapping_sub(1);
        let [source, stabilised, result] =
            [buffer::slot(frame), buffer::STABILISED, buffer::RESULT].map(|offset| BUFFER_BASE + offset as u64);
        let length = FRAME_BYTES as u64;
        gpu.run(EngineIndex::CopyIn, Operation::Copy { source, destination: LOCAL_BASE + local::FRAME, length });
        let first = processed == 0;
        let gradient = LOCAL_BASE + if first { local::REFERENCE } else { local::GRADIENT };
        let source = LOCAL_BASE + local::FRAME;
        gpu.run(EngineIndex::Execution, Operation::Gradient { source, destination: gradient, size });
        let matching = Operation::BlockMatch {
            reference: LOCAL_BASE + local::REFERENCE,
            current: gradient,
            result: LOCAL_BASE + local::RESULT,
            size,
            radius: SHAKE as u8,
            stride: STRIDE,
        };
        gpu.run(EngineIndex::Execution, matching);
        let shift = Operation::Shift {
            source,
            destination: LOCAL_BASE + local::STABILISED,
            displacement: LOCAL_BASE + local::RESULT,
            size,
        };
        gpu.run(EngineIndex::Execution, shift);
        let copy = Operation::Copy { source: LOCAL_BASE + local::STABILISED, destination: stabilised, length };
        gpu.run(EngineIndex::CopyOut, copy);
        let copy = Operation::Copy { source: LOCAL_BASE + local::RESULT, destination: result, length: 16 };
        gpu.run(EngineIndex::CopyOut, copy);

        // The content moved against the window: the window moved the other way.
        let dx = -(frames.read_u32(buffer::RESULT) as i32);
        let dy = -(frames.read_u32(buffer::RESULT + 4) as i32);
        processed += 1;
        if let Some(entry) = usize::try_from(frame).ok().filter(|frame| *frame < record::FRAMES) {
            frames.copy_to_slice(buffer::STABILISED, &mut pixels);
            record.copy_from_slice(record::frame(entry), &pixels);
            record.write_u32(record::entry(entry) + 4, dx as u32);
            record.write_u32(record::entry(entry) + 8, dy as u32);
            record.publish_u32(record::entry(entry), 1);
        }
        if processed.is_multiple_of(REPORT) {
            println!("stabiliser: frame {frame}: the camera is off by ({dx:+}, {dy:+})");
        }
    }
}

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

use demo::{AGAIN, FRAME_BYTES, HEIGHT, PAUSE, SHAKE, WIDTH, buffer, record};
use fusee::gpu::library::{BlockMatch, Gradient, Shift};
use fusee::gpu::{Buffer, Context, EngineIndex, Work};
use fusee::{Engine, Instant, Region, environment, next_job, println};

fusee::entry!(main);

/// Pixels left out between compared ones.
const STRIDE: u8 = 4;
/// Bytes of a search's result.
const MATCH: u64 = 16;
/// A line on the console for each so many frames.
const REPORT: u32 = 30;

struct Gpu {
    context: Context,
    engines: [Engine; 3],
}

impl Gpu {
    /// Runs one operation to its end, under the lock of its engine.
    fn run(&self, index: EngineIndex, work: Work<'_>) {
        let engine = &self.engines[index.number()];
        let done = self.context.run_again(engine, work, Instant::NEVER, AGAIN, PAUSE);
        done.expect("the operation is right, and stays within our memory");
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
    let (width, height) = (WIDTH as u16, HEIGHT as u16);
    let matching = BlockMatch { width, height, radius: SHAKE as u8, stride: STRIDE };
    // In memory: two frames of the camera, and the results.
    let bytes = FRAME_BYTES as u64;
    let mut first_slot = Buffer::of(&environment.expect("frames"));
    let mut second_slot = first_slot.split_off(bytes);
    let mut stabilised = second_slot.split_off(bytes);
    let mut result = stabilised.split_off(bytes);
    let slots = [first_slot, second_slot];
    // In the GPU's.
    let mut frame = Buffer::local(4 * bytes + MATCH);
    let mut gradient = frame.split_off(bytes);
    let mut reference = gradient.split_off(bytes);
    let mut moved = reference.split_off(bytes);
    let mut found = moved.split_off(bytes);
    let mut pixels = [0; FRAME_BYTES];
    let mut processed = 0u32;
    loop {
        next_job().expect("the stabiliser is sporadic");
        // The newest frame: if releases were skipped, older ones are gone.
        let number = frames.observe_u32(buffer::DELIVERED).wrapping_sub(1);
        let slot = &slots[buffer::slot(number) / FRAME_BYTES];
        gpu.run(EngineIndex::CopyIn, Work::copy_in(slot, &mut frame));
        let first = processed == 0;
        let current = if first { &mut reference } else { &mut gradient };
        gpu.run(EngineIndex::Execution, Work::launch(Gradient { width, height }, (&frame, current)));
        let current = if first { &reference } else { &gradient };
        gpu.run(EngineIndex::Execution, Work::launch(matching, (&reference, current, &mut found)));
        gpu.run(EngineIndex::Execution, Work::launch(Shift { width, height }, (&frame, &found, &mut moved)));
        gpu.run(EngineIndex::CopyOut, Work::copy_out(&moved, &mut stabilised));
        gpu.run(EngineIndex::CopyOut, Work::copy_out(&found, &mut result));

        // The content moved against the window: the window moved the other way.
        let dx = -(frames.read_u32(buffer::RESULT) as i32);
        let dy = -(frames.read_u32(buffer::RESULT + 4) as i32);
        processed += 1;
        if let Some(entry) = usize::try_from(number).ok().filter(|number| *number < record::FRAMES) {
            frames.copy_to_slice(buffer::STABILISED, &mut pixels);
            record.copy_from_slice(record::frame(entry), &pixels);
            record.write_u32(record::entry(entry) + 4, dx as u32);
            record.write_u32(record::entry(entry) + 8, dy as u32);
            record.publish_u32(record::entry(entry), 1);
        }
        if processed.is_multiple_of(REPORT) {
            println!("stabiliser: frame {number}: the camera is off by ({dx:+}, {dy:+})");
        }
    }
}

//! The task `vibration` on a signal processor that has memory of its own: copies take the samples there and the results back.
//!
//! Handles: engines "dsp", "copy_in" and "copy_out"; regions "ring", "buffer" and "record"; notification "gpu_done"; the waker of the device, "kick".
//! Parameter: "count", how many blocks; after these the task ends.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use demo::vibration::{BLOCK, COEFFICIENTS, SIGNAL, coefficient, loudest, record, sample};
use fusee::gpu::library::{Filter, Transform};
use fusee::gpu::{Buffer, Context, Work};
use fusee::{Engine, Instant, Region, environment, next_job};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let [dsp, copy_in, copy_out] = ["dsp", "copy_in", "copy_out"].map(|name| environment.expect::<Engine>(name));
    let context = Context::of(&environment).expect("this task is a client of the signal processor");
    let run =
        |engine, work: Work<'_>| context.run(engine, work, Instant::NEVER).expect("all operands are in our memory");
    let record = environment.expect::<Region>("record").shared();
    let count = environment.parameter("count").unwrap_or(1) as u32;
    // Here, and in the processor's memory.
    let [mut signal, mut response, mut filtered, mut points, mut spectrum, _] =
        parts(Buffer::of(&environment.expect("buffer")));
    let mut there = parts(Buffer::local(PARTS.iter().sum()));

    for index in 0..COEFFICIENTS {
        store(&mut response, index, coefficient(index));
    }
    run(&copy_in, Work::copy_in(&response, &mut there[1]));
    let mut block: u32 = 0;
    while block < count {
        let job = next_job().expect("this task is periodic");
        // A block that was missed is gone.
        block += job.skipped as u32;
        for index in 0..SIGNAL {
            store(&mut signal, index, sample(block, index));
        }
        let [signal_there, response_there, filtered_there, points_there, spectrum_there, unfinished_there] = &mut there;
        run(&copy_in, Work::copy_in(&signal, signal_there));
        let filter = Filter { samples: BLOCK as u16, length: COEFFICIENTS as u16 };
        run(&dsp, Work::launch(filter, (&*signal_there, &*response_there, &mut *filtered_there)));
        run(&copy_out, Work::copy_out(filtered_there, &mut filtered));
        for index in 0..BLOCK {
            store(&mut points, 2 * index, load(&filtered, index));
        }
        run(&copy_in, Work::copy_in(&points, points_there));
        let transform = Transform { points: BLOCK as u16 };
        run(&dsp, Work::launch(transform, (&*points_there, &mut *spectrum_there, unfinished_there)));
        run(&copy_out, Work::copy_out(spectrum_there, &mut spectrum));

        if let Some(entry) = usize::try_from(block).ok().filter(|block| *block < record::BLOCKS).map(record::entry) {
            let mut samples = [0; 2 * BLOCK];
            filtered.copy_to_slice(0, &mut samples);
            record.copy_from_slice(entry + record::FILTERED, &samples);
            record.write_u32(entry + record::LINE, loudest(|part| load(&spectrum, part)));
            record.publish_u32(entry + record::DONE, 1);
        }
        block += 1;
    }
}

/// Bytes of signal, coefficients, filtered samples, points, spectrum, and its unfinished part.
const PARTS: [u64; 6] =
    [576, 2 * COEFFICIENTS as u64, 2 * BLOCK as u64, 4 * BLOCK as u64, 4 * BLOCK as u64, 8 * BLOCK as u64];
const _: () = assert!(2 * SIGNAL <= PARTS[0] as usize);

fn parts<M>(mut rest: Buffer<M>) -> [Buffer<M>; 6] {
    PARTS.map(|bytes| {
        let after = rest.split_off(bytes);
        core::mem::replace(&mut rest, after)
    })
}

fn store(buffer: &mut Buffer, index: usize, number: i16) {
    buffer.copy_from_slice(2 * index, &number.to_le_bytes());
}

fn load(buffer: &Buffer, index: usize) -> i16 {
    let mut bytes = [0; 2];
    buffer.copy_to_slice(2 * index, &mut bytes);
    i16::from_le_bytes(bytes)
}

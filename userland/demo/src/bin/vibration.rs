//! Finds the tone of a motor's hum in a sensor's samples, on a signal processor.
//!
//! One job a block of samples: filter, transform, and then the loudest line. The processor has no memory of its own, so nothing is
//! copied, and its engine's lock is all there is to ask for.
//!
//! Handles: engine "dsp"; regions "ring", "kick", "buffer" and "record"; notification "gpu_done". Parameter: "count", how many blocks.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use demo::vibration::{BLOCK, COEFFICIENTS, SIGNAL, coefficient, loudest, record, sample};
use demo::{AGAIN, PAUSE};
use fusee::gpu::library::{Filter, Transform};
use fusee::gpu::{Buffer, Context, Work};
use fusee::{Engine, Instant, Region, environment, next_job};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let engine = environment.expect::<Engine>("dsp");
    let context = Context::of(&environment).expect("this task is a client of the signal processor");
    let record = environment.expect::<Region>("record").shared();
    let mut signal = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut response = signal.split_off(576);
    let mut filtered = response.split_off(64);
    let mut points = filtered.split_off(512);
    let mut spectrum = points.split_off(1024);
    let mut unfinished = spectrum.split_off(1024);
    for index in 0..COEFFICIENTS {
        store(&mut response, index, coefficient(index));
    }
    let mut block: u32 = 0;
    loop {
        let job = next_job().expect("this task is periodic");
        // A block that was missed is gone.
        block += job.skipped as u32;
        for index in 0..SIGNAL {
            store(&mut signal, index, sample(block, index));
        }
        let filter = Filter { samples: BLOCK as u16, length: COEFFICIENTS as u16 };
        let filter = Work::launch(filter, (&signal, &response, &mut filtered));
        context.run_again(&engine, filter, Instant::NEVER, AGAIN, PAUSE).expect("all operands are in our buffer");
        for index in 0..BLOCK {
            store(&mut points, 2 * index, load(&filtered, index));
        }
        let transform = Transform { points: BLOCK as u16 };
        let transform = Work::launch(transform, (&points, &mut spectrum, &mut unfinished));
        context.run_again(&engine, transform, Instant::NEVER, AGAIN, PAUSE).expect("the same");
        let line = loudest(|part| load(&spectrum, part));

        if let Some(entry) = usize::try_from(block).ok().filter(|block| *block < record::BLOCKS).map(record::entry) {
            let mut samples = [0; 2 * BLOCK];
            filtered.copy_to_slice(0, &mut samples);
            record.copy_from_slice(entry + record::FILTERED, &samples);
            record.write_u32(entry + record::LINE, line);
            record.publish_u32(entry + record::DONE, 1);
        }
        block += 1;
    }
}

fn store(buffer: &mut Buffer, index: usize, number: i16) {
    buffer.copy_from_slice(2 * index, &number.to_le_bytes());
}

fn load(buffer: &Buffer, index: usize) -> i16 {
    let mut bytes = [0; 2];
    buffer.copy_to_slice(2 * index, &mut bytes);
    i16::from_le_bytes(bytes)
}

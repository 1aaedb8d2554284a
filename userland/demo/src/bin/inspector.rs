//! Checks the tones found in the motor's hum: computes them again, on this CPU, with the code of the signal processor.
//!
//! Handles: region "record"; system, which it ends. Parameters: "count", how many blocks there should be; "end_us", when it looks.
//!
//! Logs how many blocks were seen to (1), of how many of them each filtered sample is the same (2), and the loudest line (3); and how many of these
//! lines are the tone that the sensor has put in (4).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use demo::vibration::{BLOCK, COEFFICIENTS, SIGNAL, coefficient, loudest, record, sample, tone};
use fusee::gpu::compute::run;
use fusee::gpu::library::{Filter, Transform};
use fusee::{Instant, Region, System, environment, log, shutdown, sleep_until};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let seen = environment.expect::<Region>("record").shared();
    let count = environment.parameter("count").unwrap_or(1) as usize;
    let end = Instant(environment.parameter("end_us").unwrap_or(0) * 1_000);
    sleep_until(end).expect("nothing ends this sleep");

    let response: [i16; COEFFICIENTS] = core::array::from_fn(coefficient);
    let mut found = [0; 4];
    for block in 0..count.min(record::BLOCKS) {
        let entry = record::entry(block);
        if seen.observe_u32(entry + record::DONE) != 1 {
            continue;
        }
        let block = block as u32;
        let signal: [i16; SIGNAL] = core::array::from_fn(|index| sample(block, index));
        let mut filtered = [0; BLOCK];
        let filter = Filter { samples: BLOCK as u16, length: COEFFICIENTS as u16 };
        run(&filter, (signal[..].into(), response[..].into(), (&mut filtered[..]).into()));
        let points = filtered.map(|sample| [sample, 0]);
        let (mut spectrum, mut unfinished) = ([[0; 2]; BLOCK], [[0; 2]; BLOCK]);
        let transform = Transform { points: BLOCK as u16 };
        run(&transform, (points[..].into(), (&mut spectrum[..]).into(), (&mut unfinished[..]).into()));
        let line = loudest(|part| spectrum.as_flattened()[part]);

        let mut theirs = [0; 2 * BLOCK];
        seen.copy_to_slice(entry + record::FILTERED, &mut theirs);
        let same =
            theirs.as_chunks().0.iter().zip(filtered).all(|(bytes, sample)| i16::from_le_bytes(*bytes) == sample);
        let their_line = seen.read_u32(entry + record::LINE);
        let holds = [true, same, their_line == line, their_line == tone(block)];
        for (number, holds) in found.iter_mut().zip(holds) {
            *number += u64::from(holds);
        }
    }
    for (number, found) in (1..).zip(found) {
        log(number, found);
    }
    shutdown(environment.expect::<System>("system"), 0);
}

//! A task of 10 Hz: the signal processor finds the strongest line in the spectrum of a square wave.
//!
//! Handles: engine "dsp" (acquire), endpoint "kick" (call, inside), region "buffer" (read, write), endpoint "console" (call).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::{Buffer, Context, Work, library::Transform};
use fusee::{Engine, Nanoseconds, Region, environment, next_job, println};

fusee::entry!(main);

const POINTS: usize = 256;

fn main() {
    let environment = environment();
    let dsp = environment.expect::<Engine>("dsp");
    let context = Context::of(&environment).expect("this task is a client of the processor");
    // Two `i16` for each sample and each line, and eight bytes for each point, which the kernel works in.
    let mut samples = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut lines = samples.split_off(4 * POINTS as u64);
    let mut points = lines.split_off(4 * POINTS as u64);
    loop {
        let job = next_job().expect("the manifest gives this task a period");
        let periods = 4 * job.number as usize;
        for at in 0..POINTS {
            let is_high = (2 * periods * at / POINTS).is_multiple_of(2);
            let sample: i16 = if is_high { 10_000 } else { -10_000 };
            samples.copy_from_slice(4 * at, &sample.to_le_bytes());
        }
        let work = Work::launch(Transform { points: POINTS as u16 }, (&samples, &mut lines, &mut points));
        // Later than this the engine is of no use to the job.
        let until = job.release + Nanoseconds(45_000_000);
        if let Err(error) = context.run(&dsp, work, until) {
            println!("job {}: {error:?}", job.number);
            continue;
        }
        let mut bytes = [0; 4 * POINTS];
        lines.copy_to_slice(0, &mut bytes);
        let part = |at: usize| i64::from(i16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let power = |line: &usize| part(4 * line).pow(2) + part(4 * line + 2).pow(2);
        let strongest = (0..POINTS / 2).max_by_key(power).unwrap_or(0);
        println!("job {}: {periods} periods, and the strongest line is {strongest}", job.number);
    }
}

//! A client of a signal processor without copy engines: in each job, filters a signal, transforms the result,
//! and compares both with its own slow computation.
//!
//! Handles: engine "ee"; regions "ring", "kick" and "buffer" (read, write), which is the driver's `buffer.<this task>`;
//! notification "gpu_done"; system, which it ends. Parameter: "jobs", how many.
//!
//! Logs how many filtered signals were right (1), how many spectra (2), and how many of two commands that want device memory
//! or a copy engine, of which there is none, failed by a typed error (3).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::signals::{Noise, filtered as filtered_slowly, load, store};
use fusee::gpu::library::{Filter, Transform};
use fusee::gpu::{Buffer, Context, FenceError, Operation, RunError, SubmitError, Work, launch_at};
use fusee::{Engine, Instant, Region, System, environment, log, next_job, shutdown};
use fusee_accel_contract::space::{BUFFER_BASE, LOCAL_BASE};

fusee::entry!(main);

const COEFFICIENTS: usize = 32;
/// Complex samples of a spectrum; the filter puts out their parts, one after the other.
const POINTS: usize = 64;
const SAMPLES: usize = 2 * POINTS;
const SIGNAL: usize = SAMPLES + COEFFICIENTS - 1;
const TRANSFORM: Transform = Transform { points: POINTS as u16 };

fn main() {
    let environment = environment();
    let engine = environment.expect::<Engine>("ee");
    let mut source = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut coefficients = source.split_off(512);
    let mut filtered = coefficients.split_off(512);
    let mut spectrum = filtered.split_off(1024);
    let mut unfinished = spectrum.split_off(1024);
    let context = Context::of(&environment).expect("this task is a client of the signal processor");
    let run = |work: Work<'_>| context.run(&engine, work, Instant::NEVER);

    let jobs = environment.parameter("jobs").unwrap_or(1);
    let (mut filters, mut spectra) = (0, 0);
    for job in 1..=jobs {
        next_job().expect("this task is periodic");
        let mut noise = Noise(job);
        let mut signal = [0; SIGNAL];
        let mut response = [0; COEFFICIENTS];
        signal.fill_with(|| noise.next());
        // Loud enough that some results are cut off.
        response.fill_with(|| noise.next() / 4);
        store(&mut source, &signal);
        store(&mut coefficients, &response);
        filtered.fill(0);
        spectrum.fill(0);

        let filter = Filter { samples: SAMPLES as u16, length: COEFFICIENTS as u16 };
        run(Work::launch(filter, (&source, &coefficients, &mut filtered))).expect("all operands are in our buffer");
        let transform = Work::launch(TRANSFORM, (&filtered, &mut spectrum, &mut unfinished));
        run(transform).expect("all operands are in our buffer");
        let out: [i16; SAMPLES] = core::array::from_fn(|index| load(&filtered, index));
        filters += u64::from((0..SAMPLES).all(|index| out[index] == filtered_slowly(&signal, &response, index)));
        spectra += u64::from(is_spectrum(&out, &core::array::from_fn(|index| load(&spectrum, index))));
    }
    log(1, filters);
    log(2, spectra);

    let local = launch_at(&TRANSFORM, &[LOCAL_BASE, BUFFER_BASE, BUFFER_BASE + 2048].map(|address| address as u32));
    let copy = Operation::Copy { source: BUFFER_BASE, destination: BUFFER_BASE + 64, length: 64 };
    let refused = [
        matches!(run(local.into()), Err(RunError::Fence(FenceError::Failed))),
        matches!(run(copy.into()), Err(RunError::Submit(SubmitError::BadCommand))),
    ];
    log(3, refused.into_iter().map(u64::from).sum());
    shutdown(environment.expect::<System>("system"), 0);
}

/// The first of the roots of unity of order `POINTS` below the real axis, of which 2^30 would be 1.
const ROOT: [i64; 2] = [1_068_571_464, -105_245_103];
/// How far a part of a spectrum may be off, in hundredths: 1.21 for each halving of the points.
const TOLERANCE: i64 = 121 * POINTS.ilog2() as i64;

/// Whether `spectrum` is the result that `Transform` promises for `samples`, by the definition of the transform.
fn is_spectrum(samples: &[i16; SAMPLES], spectrum: &[i16; SAMPLES]) -> bool {
    let mut roots = [[1 << 30, 0]; POINTS];
    for index in 1..POINTS {
        let [re, im] = roots[index - 1];
        let [re_step, im_step] = ROOT;
        roots[index] = [(re * re_step - im * im_step) >> 30, (re * im_step + im * re_step) >> 30];
    }
    (0..POINTS).all(|k| {
        let mut sum = [0; 2];
        for t in 0..POINTS {
            let ([re, im], [root_re, root_im]) =
                ([samples[2 * t], samples[2 * t + 1]].map(i64::from), roots[k * t % POINTS]);
            sum[0] += re * root_re - im * root_im;
            sum[1] += re * root_im + im * root_re;
        }
        // Hundredths of a sample's value, divided by the number of points.
        let hundredths = sum.map(|part| ((part >> 20) * 100 / (POINTS as i64)) >> 10);
        (0..2).all(|part| (hundredths[part] - 100 * i64::from(spectrum[2 * k + part])).abs() <= TOLERANCE)
    })
}

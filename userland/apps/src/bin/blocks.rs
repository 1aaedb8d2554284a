//! Two parts of a test of preemptible engines; the parameter `role` says which.
//!
//! | role        | handles                                                        | does                                |
//! |-------------|----------------------------------------------------------------|-------------------------------------|
//! | 0, recorder | engines "ee.whole" and "ee.cut", and the handles of a client of their devices "whole" and "cut"; region "buffer" (read, write), which is `buffer.<this task>` of both drivers | in each of `jobs` jobs filters a signal on both, and transforms the first result on both |
//! | 1, urgent   | engine "ee", and the handles of a client of its device         | in each of `jobs` jobs has the engine work as shortly as it can |
//!
//! The recorder logs how many filtered signals were those that it computes itself, slowly (1), and how many pairs of spectra were
//! equal, bit by bit (2). The urgent one logs for how many whole milliseconds it waited for the engine at most (1).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::signals::{Noise, filtered as filtered_slowly, load, store};
use fusee::gpu::library::{Filter, Transform};
use fusee::gpu::{Buffer, Context, Operation, Work};
use fusee::{Engine, Environment, Instant, Region, environment, log, next_job, now};

fusee::entry!(main);

const COEFFICIENTS: usize = 64;
const SAMPLES: usize = 2048;
const POINTS: usize = 512;
const SIGNAL: usize = SAMPLES + COEFFICIENTS - 1;

fn main() {
    let environment = environment();
    let jobs = environment.parameter("jobs").unwrap_or(1);
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => record(&environment, jobs),
        1 => hurry(&environment, jobs),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn hurry(environment: &Environment, jobs: u64) {
    let engine = environment.expect::<Engine>("ee");
    let context = Context::of(environment).expect("this task is a client of the device");
    let mut longest = 0;
    for _ in 0..jobs {
        next_job().expect("this task is periodic");
        let begin = now().now;
        let guard = engine.acquire(Instant::NEVER).expect("nobody takes this engine from us for ever");
        longest = longest.max(now().now.since(begin).0);
        context.submit(&guard, Operation::Burn { time: 0 }).expect("the ring is empty").wait().expect("a burn ends");
    }
    log(1, longest / 1_000_000);
}

fn record(environment: &Environment, jobs: u64) {
    let mut source = Buffer::of(&environment.expect::<Region>("buffer"));
    let mut coefficients = source.split_off(4352);
    let mut filtered = coefficients.split_off(512);
    let mut spectrum = filtered.split_off(4096);
    let mut other_spectrum = spectrum.split_off(2048);
    let mut unfinished = other_spectrum.split_off(2048);
    let mut spectra = [spectrum, other_spectrum];
    let sides = [("ring.whole", "gpu_done.whole", "ee.whole"), ("ring.cut", "gpu_done.cut", "ee.cut")];
    let sides = sides.map(|(ring, done, engine)| {
        let context = Context::new(environment, environment.expect(ring), environment.expect(done));
        (context.expect("this task is a client of both"), environment.expect::<Engine>(engine))
    });
    let filter = Filter { samples: SAMPLES as u16, length: COEFFICIENTS as u16 };
    let transform = Transform { points: POINTS as u16 };
    let (mut filters, mut equal) = (0, 0);
    for job in 1..=jobs {
        next_job().expect("this task is periodic");
        let mut noise = Noise(job);
        let (mut signal, mut response) = ([0; SIGNAL], [0; COEFFICIENTS]);
        signal.fill_with(|| noise.next());
        response.fill_with(|| noise.next() / 8);
        store(&mut source, &signal);
        store(&mut coefficients, &response);
        for (context, engine) in &sides {
            filtered.fill(0);
            let work = Work::launch(filter, (&source, &coefficients, &mut filtered));
            context.run(engine, work, Instant::NEVER).expect("all operands are in our buffer");
            filters += u64::from(
                (0..SAMPLES).all(|index| load(&filtered, index) == filtered_slowly(&signal, &response, index)),
            );
        }
        for ((context, engine), spectrum) in sides.iter().zip(&mut spectra) {
            spectrum.fill(0);
            let work = Work::launch(transform, (&filtered, spectrum, &mut unfinished));
            context.run(engine, work, Instant::NEVER).expect("the same");
        }
        let [one, other] = &spectra;
        let differs = |index| load(one, index) != load(other, index);
        equal += u64::from(!(0..2 * POINTS).any(differs) && (0..2 * POINTS).any(|index| load(one, index) != 0));
    }
    log(1, filters);
    log(2, equal);
}

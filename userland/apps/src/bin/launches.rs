//! Three parts of tests of GPU kernels that do wrong; the parameter `role` says which.
//!
//! | role         | handles                                                                 | does                                |
//! |--------------|-------------------------------------------------------------------------|-------------------------------------|
//! | 0, wrong     | engine "ee"; region "buffer" (read, write), `buffer.<this task>` of the driver | launches each kind of wrong kernel, and a right one after it |
//! | 1, neighbour | the same, of a device with kernels for pictures                         | in each of `jobs` jobs takes a median and a histogram of a picture |
//! | 2, patient   | as the wrong one                                                        | in each of `jobs` jobs launches a kernel without a time by its author; in job `long` with a block that takes `times` as long |
//!
//! The wrong one logs how many wrong launches failed (1), and how many right ones gave the right results (2); the neighbour, how many of its medians
//! (1) and histograms (2) were those of the plain functions, and how many right launches of the other's kernel its device refused (3); the patient
//! one, how many launches gave the results of the plain function (1), and how many failed (2).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::gpu::compute::{self, Input, Output, Update, identity, words};
use fusee::gpu::{Buffer, Context, FenceError, Launch, Operation, RunError, Work};
use fusee::{Engine, Environment, Instant, Region, environment, log, next_job};
use fusee_accel_contract::space;
use picture_kernels::{Histogram, Median};
use wrong_kernels::{How, LENGTH, Rounds, Wrong};

fusee::entry!(main);

const FAILED: Result<(), RunError> = Err(RunError::Fence(FenceError::Failed));

fn main() {
    let environment = environment();
    let engine = environment.expect::<Engine>("ee");
    let context = Context::of(&environment).expect("this task is a client of the device");
    let buffer = Buffer::of(&environment.expect::<Region>("buffer"));
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => wrong(&context, &engine, buffer),
        1 => neighbour(&environment, &context, &engine, buffer),
        2 => patient(&environment, &context, &engine, buffer),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn wrong(context: &Context, engine: &Engine, mut numbers: Buffer) {
    let (mut failed, mut right) = (0, 0);
    for how in How::WRONG {
        next_job().expect("this task is periodic");
        numbers.fill(7);
        // By addresses: a kernel that panics as it computes its needs would do so here, too.
        let words = words(&Wrong { how: how as u8 }, &[space::BUFFER_BASE as u32]);
        let launch = Launch { kernel: identity::<Wrong>(), first: 0, blocks: 2, words };
        failed += u64::from(context.run(engine, Operation::Launch(launch), Instant::NEVER) == FAILED);
        numbers.fill(7);
        let launch = Work::launch(Wrong { how: How::Right as u8 }, (&mut numbers,));
        context.run(engine, launch, Instant::NEVER).expect("nothing is wrong with this one");
        let mut all = [0; 2 * LENGTH];
        numbers.copy_to_slice(0, &mut all);
        let (seen, beyond) = all.split_at(LENGTH);
        right += u64::from(seen.iter().all(|number| *number == 8) && beyond.iter().all(|number| *number == 7));
    }
    log(1, failed);
    log(2, right);
}

const WIDTH: usize = 40;
const HEIGHT: usize = 30;
const PIXELS: usize = WIDTH * HEIGHT;

fn neighbour(environment: &Environment, context: &Context, engine: &Engine, mut picture: Buffer) {
    let mut smooth = picture.split_off(4096);
    let mut counters = smooth.split_off(4096);
    let (mut medians, mut histograms, mut refused) = (0, 0, 0);
    let (median, histogram) =
        (Median { width: WIDTH as u16, height: HEIGHT as u16 }, Histogram { pixels: PIXELS as u32 });
    for job in 1..=environment.parameter("jobs").unwrap_or(1) {
        next_job().expect("this task is periodic");
        let mut pixels = [0; PIXELS];
        let mut state = job as u32;
        pixels.fill_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        picture.copy_from_slice(0, &pixels);
        counters.fill(0);
        context.run(engine, Work::launch(median, (&picture, &mut smooth)), Instant::NEVER).expect("both are ours");
        context.run(engine, Work::launch(histogram, (&smooth, &mut counters)), Instant::NEVER).expect("both are ours");
        let mut expected = [0; PIXELS];
        compute::run(&median, (Input::from(&pixels[..]), Output::from(&mut expected[..])));
        let mut counts = [0; 256];
        compute::run(&histogram, (Input::from(&expected[..]), Update::from(&mut counts[..])));
        let mut computed = [0; PIXELS];
        smooth.copy_to_slice(0, &mut computed);
        medians += u64::from(computed == expected);
        histograms += u64::from((0..256).all(|value| counters.read_u32(4 * value) == counts[value]));
        let foreign = Work::launch(Wrong { how: How::Right as u8 }, (&mut counters,));
        refused += u64::from(context.run(engine, foreign, Instant::NEVER) == FAILED);
    }
    log(1, medians);
    log(2, histograms);
    log(3, refused);
}

/// Numbers of a launch, and the value of each.
const NUMBERS: usize = 64;
const ROUNDS: u32 = 200;

fn patient(environment: &Environment, context: &Context, engine: &Engine, mut buffer: Buffer) {
    let parameter = |name| environment.parameter(name).unwrap_or(0);
    let (mut right, mut failed) = (0, 0);
    for job in 1..=parameter("jobs") {
        next_job().expect("this task is periodic");
        let mut numbers = [ROUNDS; NUMBERS];
        if job == parameter("long") {
            numbers[NUMBERS / 2] = 16 * ROUNDS * parameter("times") as u32;
        }
        (0..NUMBERS).for_each(|at| buffer.write_u32(4 * at, numbers[at]));
        let rounds = Rounds { length: NUMBERS as u32 };
        match context.run(engine, Work::launch(rounds, (&mut buffer,)), Instant::NEVER) {
            Ok(_) => {
                compute::run(&rounds, (Update::from(&mut numbers[..]),));
                right += u64::from((0..NUMBERS).all(|at| buffer.read_u32(4 * at) == numbers[at]));
            }
            Err(error) => {
                assert_eq!(Err(error), FAILED);
                failed += 1;
            }
        }
    }
    log(1, right);
    log(2, failed);
}

//! A device computes the results of the kernels as plain functions, bit for bit, and the order of blocks does not matter.

use car_kernels::calibration::{CELLS, COSINE, LANE, PIXELS, SINE};
use car_kernels::{Birdseye, Fit, KERNELS, LANE_WORDS, Marks, Straighten};
use fusee_compute::{Input, Kernel, Output, run};
use fusee_device_model::bench::Bench;

/// Bytes that look like nothing.
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Launches `kernel` with these bytes, its result last, and asserts that its time and its bytes are `expected`.
#[track_caller]
fn launch<K: Kernel>(kernel: &K, inputs: &[&[u8]], expected: &[u8]) {
    let mut views: Vec<Vec<u8>> = inputs.iter().map(|input| input.to_vec()).collect();
    views.push(vec![0xA5; expected.len()]);
    let mut views: Vec<&mut [u8]> = views.iter_mut().map(Vec::as_mut_slice).collect();
    let took = Bench::new(KERNELS).launch(kernel, &mut views);
    assert_eq!(took, Ok(40_000 + kernel.time(0..kernel.blocks())), "{}", K::NAME);
    assert!(views[inputs.len()] == expected, "{}: the device computes something else", K::NAME);
}

/// The result of a picture, by blocks in their order and in the reverse.
fn picture_of<K>(kernel: &K, input: &[u8], length: usize) -> Vec<u8>
where
    K: for<'m> Kernel<Views<'m> = (Input<'m, u8>, Output<'m, u8>)>,
{
    // Bytes that a kernel leaves alone are those of `launch`.
    let (mut forwards, mut backwards) = (vec![0xA5; length], vec![0xA5; length]);
    run(kernel, (input.into(), forwards[..].as_mut().into()));
    let views = (Input::from(input), Output::from(&mut backwards[..]));
    (0..kernel.blocks()).rev().for_each(|block| kernel.block(block, views));
    assert!(forwards == backwards, "the order of blocks matters");
    forwards
}

#[test]
fn the_device_computes_the_same() {
    for seed in 0..4 {
        let picture = bytes(seed, PIXELS);
        let straighten = Straighten { focal: 200, lens: -13_107 + 4000 * seed as i32, first: 30, end: 83 };
        let straight = picture_of(&straighten, &picture, PIXELS);
        launch(&straighten, &[&picture], &straight);
        let [sine, cosine] = [SINE, COSINE].map(|number| (number * 16_384.0) as u16);
        let birdseye = Birdseye { focal: 200, rise: 1300, sine, cosine };
        let road = picture_of(&birdseye, &straight, CELLS);
        launch(&birdseye, &[&straight], &road);
        let marks = Marks { least: 16 };
        let marked = picture_of(&marks, &road, CELLS);
        launch(&marks, &[&road], &marked);
        let (fit, mut lane) = (Fit { lane: LANE as u16, rows: 40 }, [0; LANE_WORDS]);
        run(&fit, (road[..].into(), marked[..].into(), lane[..].as_mut().into()));
        let lane: Vec<u8> = lane.iter().flat_map(|word| word.to_le_bytes()).collect();
        launch(&fit, &[&road, &marked], &lane);
    }
}

#[test]
fn a_lens_without_distortion_changes_nothing() {
    let picture = bytes(9, PIXELS);
    let straight = picture_of(&Straighten { focal: 200, lens: 0, first: 0, end: 100 }, &picture, PIXELS);
    let rows = picture.chunks(160).zip(straight.chunks(160)).take(99);
    // A place at the border lies a 256th of a pixel inside.
    rows.for_each(|(before, after)| assert_eq!(before[..159], after[..159]));
}

/// Extreme pictures, and extreme arguments, neither overflow nor leave the views.
#[test]
fn no_picture_and_no_argument_stops_a_kernel() {
    let pictures = [vec![0; PIXELS], vec![255; PIXELS], (0..PIXELS).map(|at| (at % 2 * 255) as u8).collect()];
    for picture in &pictures {
        for focal in [100, 1000] {
            picture_of(&Straighten { focal, lens: -32_768, first: 0, end: 100 }, picture, PIXELS);
            for (rise, sine, cosine) in [(500, 0, 16_384), (3000, 4096, 12_288), (500, 4096, 12_288), (3000, 0, 16_384)]
            {
                picture_of(&Birdseye { focal, rise, sine, cosine }, picture, CELLS);
            }
        }
        let (road, marks) = (&picture[..CELLS], bytes(3, CELLS));
        for lane in [2000, 5000] {
            for marks in [&picture[..CELLS], &marks] {
                let mut words = [0; LANE_WORDS];
                run(&Fit { lane, rows: 64 }, (road.into(), marks.into(), words[..].as_mut().into()));
            }
        }
    }
}

//! A device computes the results of the kernels as plain functions, bit for bit, and the order of blocks does not matter.

use fusee_compute::{Input, Kernel, Output, run};
use fusee_device_model::bench::Bench;
use vision_kernels::{Corners, Duplicate, Flow, Grey, KERNELS, Pyramid, Warp};

/// Bytes that look like nothing.
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn to_bytes(words: &[i32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
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
    assert_eq!(
        (0..kernel.blocks()).map(|block| kernel.time(block..block + 1)).sum::<u64>(),
        kernel.time(0..kernel.blocks())
    );
}

/// Does all blocks in their order and, with memory of its own, in the reverse, and returns the results of both.
macro_rules! computed {
    ($kernel:expr, $result:expr, |$to:ident| $views:expr) => {{
        let (kernel, mut forwards) = ($kernel, $result);
        let mut backwards = forwards.clone();
        let $to = Output::from(&mut forwards[..]);
        run(kernel, $views);
        let $to = Output::from(&mut backwards[..]);
        let views = $views;
        (0..kernel.blocks()).rev().for_each(|block| kernel.block(block, views));
        assert!(forwards == backwards, "the order of blocks matters");
        forwards
    }};
}

const SIZES: [(u16, u16); 6] = [(128, 96), (96, 72), (4, 4), (256, 48), (48, 256), (36, 20)];

#[test]
fn the_device_computes_the_same() {
    for (number, (width, height)) in SIZES.into_iter().enumerate() {
        let pixels = usize::from(width) * usize::from(height);
        let colour = bytes(number as u64, 3 * pixels);

        let copy = Duplicate { bytes: 3 * pixels as u32 };
        let copied = computed!(&copy, vec![0; 3 * pixels], |to| (Input::from(&colour[..]), to));
        launch(&copy, &[&colour], &copied);

        let kernel = Grey { pixels: pixels as u32 };
        let grey = computed!(&kernel, vec![0; pixels], |to| (Input::from(&colour[..]), to));
        launch(&kernel, &[&colour], &grey);

        let kernel = Corners { width, height, cell: 16, margin: 5 };
        let corners = computed!(&kernel, vec![0; kernel.elements()[1]], |to| (Input::from(&grey[..]), to));
        launch(&kernel, &[&grey], &to_bytes(&corners));

        let kernel = Pyramid { width, height, levels: 3 };
        let pyramid = computed!(&kernel, vec![0; kernel.elements()[1]], |to| (Input::from(&grey[..]), to));
        launch(&kernel, &[&grey], &pyramid);

        // The second picture is the first with two pixels less at the left.
        let second = [&pyramid[2..], &pyramid[..2]].concat();
        let kernel = Flow { width, height, levels: 3, count: corners.len() as u16 / 3 };
        let tracks = computed!(&kernel, vec![0; corners.len()], |to| {
            (Input::from(&pyramid[..]), Input::from(&second[..]), Input::from(&corners[..]), to)
        });
        launch(&kernel, &[&pyramid, &second, &to_bytes(&corners)], &to_bytes(&tracks));

        let kernel = Warp { width, height };
        let matrices = [
            [1 << 22, 3 << 16, 5 << 20, -3 << 16, 1 << 22, -7 << 19, 1 << 18, -(1 << 17), 1 << 30],
            [1 << 23, 0, -9 << 22, 4 << 16, 3 << 20, 1 << 22, -(1 << 24), 1 << 23, 1 << 30],
            [i32::MIN; 9],
            [i32::MAX; 9],
        ];
        for matrix in matrices {
            let warped = computed!(&kernel, vec![0; 3 * pixels], |to| {
                (Input::from(&colour[..]), Input::from(&matrix[..]), to)
            });
            launch(&kernel, &[&colour, &to_bytes(&matrix)], &warped);
        }
    }
}

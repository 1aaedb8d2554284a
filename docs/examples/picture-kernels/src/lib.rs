//! GPU kernels for pictures of 8-bit pixels: a median, which takes single wrong pixels away, and a histogram.
#![no_std]
#![forbid(unsafe_code)]

use core::ops::Range;

use fusee_compute::{Entry, Input, Kernel, Output, Update, arguments, table};

/// All of them.
pub const KERNELS: &[Entry] = &table([Entry::of::<Median>(), Entry::of::<Histogram>()]);

/// Most pixels of a row.
const WIDTH_MAX: usize = 640;
/// Rows of a block of a median.
const ROWS: usize = 8;
/// Pixels of a block of a histogram.
const PIXELS: usize = 1024;

arguments! {
    /// Each pixel becomes the median of itself and its eight neighbours. Pixels beyond the border equal the border.
    pub struct Median {
        /// Pixels of a row, up to 640.
        pub width: u16,
        /// Rows.
        pub height: u16,
    }
}

impl Kernel for Median {
    const NAME: &'static str = "median";
    type Views<'m> = (Input<'m, u8>, Output<'m, u8>);

    fn is_valid(&self) -> bool {
        (1..=WIDTH_MAX).contains(&self.width.into()) && self.height > 0
    }

    fn elements(&self) -> [usize; 2] {
        [usize::from(self.width) * usize::from(self.height); 2]
    }

    fn blocks(&self) -> u32 {
        u32::from(self.height).div_ceil(ROWS as u32)
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        let rows = u64::from(blocks.end - blocks.start) * ROWS as u64;
        1_600 * rows * u64::from(self.width)
    }

    fn block(&self, block: u32, (picture, median): Self::Views<'_>) {
        let (width, height) = (usize::from(self.width), usize::from(self.height));
        let begin = ROWS * block as usize;
        let end = height.min(begin + ROWS);
        // The rows of the block, and one more on each side.
        let mut rows = [[0; WIDTH_MAX + 2]; ROWS + 2];
        for (row, y) in rows.iter_mut().zip((begin as isize - 1)..=(end as isize)) {
            let y = y.clamp(0, height as isize - 1) as usize;
            picture.load(y * width, &mut row[1..=width]);
            (row[0], row[width + 1]) = (row[1], row[width]);
        }
        for y in begin..end {
            let mut line = [0; WIDTH_MAX];
            for (x, pixel) in line[..width].iter_mut().enumerate() {
                let mut nine = [0; 9];
                for (three, row) in nine.chunks_exact_mut(3).zip(&rows[y - begin..]) {
                    three.copy_from_slice(&row[x..x + 3]);
                }
                nine.sort_unstable();
                *pixel = nine[4];
            }
            median.store(y * width, &line[..width]);
        }
    }
}

arguments! {
    /// Adds to counter *v*, of 256, the number of pixels of value *v*.
    pub struct Histogram {
        /// How many pixels there are.
        pub pixels: u32,
    }
}

impl Kernel for Histogram {
    const NAME: &'static str = "histogram";
    type Views<'m> = (Input<'m, u8>, Update<'m, u32>);

    fn is_valid(&self) -> bool {
        (1..=1 << 24).contains(&self.pixels)
    }

    fn elements(&self) -> [usize; 2] {
        [self.pixels as usize, 256]
    }

    fn blocks(&self) -> u32 {
        self.pixels.div_ceil(PIXELS as u32)
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        500_000 * u64::from(blocks.end - blocks.start)
    }

    fn block(&self, block: u32, (picture, counters): Self::Views<'_>) {
        let begin = PIXELS * block as usize;
        let count = PIXELS.min(picture.len() - begin);
        let mut pixels = [0; PIXELS];
        picture.load(begin, &mut pixels[..count]);
        // What is shared is written once for each value, and not once for each pixel.
        let mut own = [0; 256];
        for pixel in &pixels[..count] {
            own[usize::from(*pixel)] += 1;
        }
        for (value, more) in own.into_iter().enumerate().filter(|(_, more)| *more > 0) {
            counters.add(value, more);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use fusee_compute::run;
    use fusee_device_model::bench::Bench;
    use std::vec::Vec;

    #[test]
    fn a_single_wrong_pixel_is_taken_away() {
        let mut picture = [10; 20 * 20];
        picture[7 * 20 + 9] = 255;
        let mut median = [0; 20 * 20];
        run(&Median { width: 20, height: 20 }, (Input::from(&picture[..]), Output::from(&mut median[..])));
        assert_eq!(median, [10; 20 * 20]);
    }

    #[test]
    fn each_pixel_is_counted_once() {
        let picture: Vec<u8> = (0..5_000_u32).map(|at| (at * at / 7) as u8).collect();
        let mut counters = [0; 256];
        run(&Histogram { pixels: 5_000 }, (Input::from(&picture[..]), Update::from(&mut counters[..])));
        for (value, count) in counters.into_iter().enumerate() {
            assert_eq!(count as usize, picture.iter().filter(|pixel| usize::from(**pixel) == value).count());
        }
    }

    /// The device computes what the plain functions do, for all sizes around those of a block.
    #[test]
    fn the_device_computes_the_same() {
        let mut bench = Bench::new(KERNELS);
        for (width, height) in [(1, 1), (3, 7), (33, 8), (40, 9), (640, 17)] {
            let (pixels, median) = (usize::from(width) * usize::from(height), Median { width, height });
            let mut picture: Vec<u8> = (0..pixels).map(|at| (at * at / 7) as u8).collect();
            let (mut smooth, mut expected) = (std::vec![0; pixels], std::vec![0; pixels]);
            run(&median, (Input::from(&picture[..]), Output::from(&mut expected[..])));
            let took = bench.launch(&median, &mut [&mut picture, &mut smooth]);
            assert_eq!(took, Ok(40_000 + median.time(0..median.blocks())));
            assert_eq!(smooth, expected);

            let histogram = Histogram { pixels: pixels as u32 };
            let (mut counters, mut expected) = ([0; 1024], [0; 256]);
            run(&histogram, (Input::from(&picture[..]), Update::from(&mut expected[..])));
            bench.launch(&histogram, &mut [&mut picture, &mut counters]).unwrap();
            let counters = counters.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
            assert!(counters.eq(expected));
        }
    }
}

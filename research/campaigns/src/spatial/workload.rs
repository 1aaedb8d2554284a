//! The steps of a process, and the processes that run together.

use fusee_simulator::workload::Source;
use fusee_spatial::Grid;
use fusee_spatial::parboil::{Class, PROGRAMS, Program, ROWS, Reading};

use super::SMS;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;

/// Where the length of a whole run lies in the range of its class.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Variant {
    /// Its name, in tables.
    pub name: &'static str,
    /// Thousandths of the way from the lower end to the upper one.
    pub place: u64,
}

/// All variants.
pub const VARIANTS: [Variant; 3] =
    [Variant { name: "low", place: 0 }, Variant { name: "middle", place: 500 }, Variant { name: "high", place: 1_000 }];

/// The reading of published numbers, and the substitutes for those that are not published.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Inputs {
    /// How long a block takes: the columns of the table do not go together.
    pub reading: Reading,
    /// How far a block's time is off the mean at most, in thousandths.
    pub spread: u16,
    /// How long all is that is not kernels.
    pub variant: Variant,
    /// The seed for times of blocks.
    pub seed: u64,
}

impl Inputs {
    /// Kernel mode: a launch alone takes the average time of the table.
    pub const KERNEL: Reading = Reading::Kernel { sms: SMS };
}

/// The steps of a process in one run, in nanoseconds. They are equal in each run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Trace {
    /// Computing.
    pub computes: u64,
    /// Copying in.
    pub copies_in: u64,
    /// The launches, in their order.
    pub launches: Vec<Grid>,
    /// Copying out.
    pub copies_out: u64,
}

/// The trace of a program, by its number in [`PROGRAMS`].
#[must_use]
pub fn trace(program: usize, inputs: &Inputs) -> Trace {
    let Inputs { reading, spread, variant, seed } = *inputs;
    let rows = || ROWS.iter().enumerate().filter(|(_, row)| row.program == PROGRAMS[program]);
    // Launch i of n of a kernel is at (2 i + 1) / 2 n of the run; in a common unit, so that the order is exact.
    let common = rows().map(|(_, row)| u64::from(row.launches)).product::<u64>();
    let mut placed: Vec<(u64, usize, Grid)> = Vec::new();
    for (number, row) in rows() {
        for launch in 0..u64::from(row.launches) {
            let own = seed << 32 | (number as u64) << 16 | launch;
            placed.push((
                (2 * launch + 1) * (common / u64::from(row.launches)),
                number,
                row.grid(reading, spread, own),
            ));
        }
    }
    placed.sort_by_key(|&(place, number, _)| (place, number));
    // The part besides kernels is equal in both readings: it is by the published times.
    let kernels = rows().map(|(_, row)| u64::from(row.launches) * row.time).sum();
    let rest = length(&PROGRAMS[program], kernels, variant) - kernels;
    let copies = rest / 4;
    let copies_out = copies / 3;
    Trace {
        computes: rest - copies,
        copies_in: copies - copies_out,
        launches: placed.into_iter().map(|(_, _, grid)| grid).collect(),
        copies_out,
    }
}

/// How long a whole run takes alone, if its kernels take so long.
fn length(program: &Program, kernels: u64, variant: Variant) -> u64 {
    let least = kernels * 5 / 4;
    let [low, high] = match program.run {
        Class::Short => [least, 5 * MILLISECOND],
        Class::Medium => [30 * MILLISECOND, 115 * MILLISECOND],
        Class::Long => [400 * MILLISECOND, 800 * MILLISECOND],
    };
    (low + high.saturating_sub(low) * variant.place / 1_000).max(least)
}

/// So many workloads of `size` processes: of each the numbers of its programs. The first process of workload `i` is program `i` modulo
/// ten, the others are drawn.
#[must_use]
pub fn workloads(seed: u64, size: usize, count: usize) -> Vec<Vec<usize>> {
    let last = PROGRAMS.len() - 1;
    let one = |number: usize| {
        let mut source = Source::new(seed, (size as u64) << 32 | number as u64);
        let drawn = (1..size).map(|_| source.draw(0, last as u64) as usize);
        std::iter::once(number % PROGRAMS.len()).chain(drawn).collect()
    };
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spatial::{SPREAD, VARIANTS};

    fn inputs(variant: Variant) -> Inputs {
        Inputs { reading: Inputs::KERNEL, spread: SPREAD, variant, seed: 1 }
    }

    /// By published times.
    fn kernels(program: usize) -> u64 {
        let rows = ROWS.iter().filter(|row| row.program == PROGRAMS[program]);
        rows.map(|row| u64::from(row.launches) * row.time).sum()
    }

    #[test]
    fn a_whole_run_is_within_the_range_of_its_class_but_for_mri_q_whose_kernels_alone_are_not() {
        for variant in VARIANTS {
            for (number, program) in PROGRAMS.iter().enumerate() {
                let trace = trace(number, &inputs(variant));
                let whole = trace.computes + trace.copies_in + trace.copies_out + kernels(number);
                let range = match program.run {
                    Class::Short if program.name == "mri-q" => 8_480_000..=8_481_000,
                    Class::Short => 0..=5_000_000,
                    Class::Medium => 30_000_000..=115_000_000,
                    Class::Long => 400_000_000..=800_000_000,
                };
                assert!(range.contains(&whole), "{}: {whole}", program.name);
                assert!(trace.copies_in.abs_diff(2 * trace.copies_out) <= 2);
                assert!(trace.computes.abs_diff(3 * (trace.copies_in + trace.copies_out)) <= 3);
            }
        }
    }

    #[test]
    fn launches_are_as_many_as_published_and_spread_evenly() {
        let of = |program| trace(program, &inputs(VARIANTS[0])).launches;
        let counts: Vec<usize> = (0..PROGRAMS.len()).map(|program| of(program).len()).collect();
        assert_eq!(counts, [100, 80, 1, 50, 3, 3, 1, 100, 11, 51]);
        // The four kernels of histo come in turns.
        assert_eq!(of(1).iter().take(8).map(|grid| grid.blocks).collect::<Vec<_>>(), [42, 64, 65, 84, 42, 64, 65, 84]);
        // ComputePhiMag of mri-q is between the two launches of ComputeQ.
        assert_eq!(of(4).iter().map(|grid| grid.blocks).collect::<Vec<_>>(), [1_024, 4, 1_024]);
    }

    #[test]
    fn each_program_comes_first_equally_often_and_a_seed_names_its_workloads() {
        let all = workloads(7, 8, 40);
        assert!((0..PROGRAMS.len()).all(|program| all.iter().filter(|one| one[0] == program).count() == 4));
        assert!(all.iter().all(|one| one.len() == 8));
        assert_eq!(all[..10], workloads(7, 8, 10));
        assert_ne!(all, workloads(8, 8, 40));
    }
}

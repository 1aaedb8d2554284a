//! The 24 kernels of the ten Parboil programs that the paper runs, as data.
//!
//! Table 1 of Tanasic et al., ISCA 2014, with times in nanoseconds. The number of threads of a block is not published. It is
//! ours where registers, shared memory and the 16 slots of an SM allow more blocks than the table has: six kernels.

use crate::limits::Grid;

/// The length of something, in the paper's words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// SHORT.
    Short,
    /// MEDIUM.
    Medium,
    /// LONG.
    Long,
}

/// A program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Program {
    /// The name of the program.
    pub name: &'static str,
    /// The name of its input.
    pub input: &'static str,
    /// The class by the length of its kernels: "Class 1".
    pub kernels: Class,
    /// The class by the length of a whole run: "Class 2".
    pub run: Class,
}

/// A kernel: one row of the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Row {
    /// The program that launches it.
    pub program: Program,
    /// The name of the kernel.
    pub kernel: &'static str,
    /// The number of its launches in a run.
    pub launches: u32,
    /// Average time of a launch, in nanoseconds.
    pub time: u64,
    /// Blocks of a launch.
    pub blocks: u32,
    /// Time of a block, in nanoseconds: the column "Time/TB". See [`Reading`].
    pub block_time: u64,
    /// Shared memory of a block, in bytes.
    pub shared: u32,
    /// Registers of a block.
    pub registers: u32,
    /// Threads of a block. Not in the paper. 0: registers, shared memory and slots determine the number of blocks of an SM.
    pub threads: u32,
    /// Blocks on an SM.
    pub blocks_per_sm: u8,
    /// The part of an SM's state that these blocks use, in millionths. The paper rounds it to 100 of them.
    pub share: u32,
    /// The time to save them, in nanoseconds. The paper rounds it to 10 of them.
    pub save_time: u64,
}

/// The reading of the times of the table.
///
/// The columns "average time", "blocks", "blocks per SM" and "time per block" do not go together: the last is the first times
/// the third divided by the second, without the number of SMs. Two readings are consistent in themselves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reading {
    /// A launch alone on so many SMs takes about the average time. Blocks take some 13 times the table's values.
    Kernel {
        /// The number of SMs on which the times were measured: 13.
        sms: u8,
    },
    /// A launch alone on so many SMs takes the average time, to a nanosecond for each wave of blocks, if its blocks have no
    /// spread.
    Waves {
        /// The number of SMs on which the times were measured: 13.
        sms: u8,
    },
    /// A block takes the time in the table. A launch alone on 13 SMs takes about a 13th of the average time.
    Block,
}

impl Row {
    /// The mean time of a block, in nanoseconds, to nearest, and at least 1.
    #[must_use]
    pub const fn mean(&self, reading: Reading) -> u64 {
        let time = match reading {
            Reading::Block => self.block_time,
            Reading::Waves { sms } => {
                let wave = self.blocks_per_sm as u32 * if sms == 0 { 1 } else { sms as u32 };
                divided(self.time, self.blocks.div_ceil(wave) as u64)
            }
            Reading::Kernel { sms } => {
                // As many SMs as the launch can fill, but at least one.
                let wave = self.blocks_per_sm as u64 * if sms == 0 { 1 } else { sms as u64 };
                let least = self.blocks_per_sm as u64;
                let blocks = self.blocks as u64;
                let filled = if blocks > wave {
                    wave
                } else if blocks < least {
                    least
                } else {
                    blocks
                };
                divided(self.time * filled, blocks)
            }
        };
        if time == 0 { 1 } else { time }
    }

    /// A launch of it. `spread` in thousandths of a block's time: the paper publishes none.
    #[must_use]
    pub const fn grid(&self, reading: Reading, spread: u16, seed: u64) -> Grid {
        Grid {
            blocks: self.blocks,
            time: self.mean(reading),
            spread,
            seed,
            registers: self.registers,
            shared: self.shared,
            threads: self.threads,
            blocks_per_sm: None,
        }
    }
}

/// The programs, in the order of the table.
pub const PROGRAMS: [Program; 10] = [
    Program { name: "lbm", input: "short", kernels: Class::Medium, run: Class::Long },
    Program { name: "histo", input: "default", kernels: Class::Short, run: Class::Medium },
    Program { name: "tpacf", input: "small", kernels: Class::Long, run: Class::Medium },
    Program { name: "spmv", input: "medium", kernels: Class::Short, run: Class::Short },
    Program { name: "mri-q", input: "large", kernels: Class::Medium, run: Class::Short },
    Program { name: "sad", input: "large", kernels: Class::Long, run: Class::Long },
    Program { name: "sgemm", input: "medium", kernels: Class::Medium, run: Class::Short },
    Program { name: "stencil", input: "default", kernels: Class::Medium, run: Class::Long },
    Program { name: "cutcp", input: "small", kernels: Class::Medium, run: Class::Medium },
    Program { name: "mri-gridding", input: "small", kernels: Class::Long, run: Class::Long },
];

/// The kernels, in the order of the table.
#[rustfmt::skip]
pub const ROWS: [Row; 24] = [
    //                            launches    time, ns  blocks  ns/block  shared  registers threads blocks/SM  share   save, ns
    row(PROGRAMS[0], "StreamCollide",     100,   2_905_810,  18_000,  2_420,      0,  4_320,   0, 15, 832_600, 16_200),
    row(PROGRAMS[1], "final",              20,      70_240,      42,  5_020,      0, 19_456,   0,  3, 750_000, 14_590),
    row(PROGRAMS[1], "prescan",            20,      20_870,      64,  1_300,  4_096,  9_216,   0,  4, 526_300, 10_240),
    row(PROGRAMS[1], "intermediates",      20,      77_880,      65,  4_790,      0,  8_964, 512,  4, 460_700,  8_960),
    row(PROGRAMS[1], "main",               20,     372_580,      84,  4_440, 24_576, 16_896,   0,  1, 296_100,  5_760),
    row(PROGRAMS[2], "genhists",            1,  14_615_330,     201, 72_710, 13_312,  7_680,   0,  1, 141_400,  2_750),
    row(PROGRAMS[3], "spmvjds",            50,      42_380,     374,  1_810,      0,    928,   0, 16, 190_800,  3_710),
    row(PROGRAMS[4], "ComputeQ",            2,   3_389_710,   1_024, 26_480,      0,  5_376, 256,  8, 552_600, 10_750),
    row(PROGRAMS[4], "ComputePhiMag",       1,       4_700,       4,  4_700,      0,  6_144, 512,  4, 315_800,  6_140),
    row(PROGRAMS[5], "largersadcalc8",      1,   8_174_210,   8_040, 16_270,      0,  3_328,   0, 16, 684_200, 13_310),
    row(PROGRAMS[5], "largersadcalc16",     1,   1_529_380,   8_040,  3_040,      0,    832,   0, 16, 171_100,  3_330),
    row(PROGRAMS[5], "mbsadcalc",           1,  15_446_020, 128_640,    840,  2_224,  2_135,   0,  7, 242_000,  4_710),
    row(PROGRAMS[6], "mysgemmNT",           1,   3_717_180,     528, 98_560,    512,  4_480,   0, 14, 828_900, 16_130),
    row(PROGRAMS[7], "block2Dregtiling",  100,   2_227_300,     256,  8_700,      0, 41_984,   0,  1, 539_500, 10_500),
    row(PROGRAMS[8], "lattice6overlap",    11,   1_520_110,     121, 37_690,  4_116,  3_328,   0,  3, 168_000,  3_270),
    row(PROGRAMS[9], "binning",             1,   2_021_410,   5_188,  1_560,      0,  4_096, 512,  4, 210_500,  4_100),
    row(PROGRAMS[9], "scaninter1",          9,       7_590,      29,  4_140,    665,  1_173,   0, 16, 275_400,  5_360),
    row(PROGRAMS[9], "scanL1",              8,     826_120,   2_084,  1_190,  4_368,  9_216,   0,  3, 397_400,  7_730),
    row(PROGRAMS[9], "uniformAdd",          8,     127_300,   2_084,    240,     16,  4_096, 512,  4, 210_700,  4_100),
    row(PROGRAMS[9], "reorder",             1,   2_535_300,   5_188,  1_950,      0,  8_192, 512,  4, 421_100,  8_190),
    row(PROGRAMS[9], "splitSort",           7,   3_838_840,   2_594,  4_440,  4_484, 10_240,   0,  3, 437_900,  8_520),
    row(PROGRAMS[9], "griddingGPU",         1, 208_398_470,  65_536, 31_800,  1_536,  3_648,   0, 10, 518_100, 10_080),
    row(PROGRAMS[9], "splitRearrange",      7,   1_622_930,   2_594,  1_880,  4_160,  5_888,   0,  3, 267_100,  5_200),
    row(PROGRAMS[9], "scaninter2",          9,       8_810,      29,  4_800,    665,  1_173,   0, 16, 275_400,  5_360),
];

#[expect(clippy::too_many_arguments, reason = "the columns of a table")]
const fn row(
    program: Program,
    kernel: &'static str,
    launches: u32,
    time: u64,
    blocks: u32,
    block_time: u64,
    shared: u32,
    registers: u32,
    threads: u32,
    blocks_per_sm: u8,
    share: u32,
    save_time: u64,
) -> Row {
    Row {
        program,
        kernel,
        launches,
        time,
        blocks,
        block_time,
        shared,
        registers,
        threads,
        blocks_per_sm,
        share,
        save_time,
    }
}

/// A division to nearest.
const fn divided(number: u64, by: u64) -> u64 {
    (number + by / 2) / by
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    const LIMITS: Limits = Limits::K20C;

    #[test]
    fn all_24_save_times_are_within_5_ns_of_the_table() {
        for row in &ROWS {
            let fit = LIMITS.fit(&row.grid(Reading::Block, 0, 0)).unwrap();
            assert!(fit.save_time(&LIMITS).abs_diff(row.save_time) <= 5, "{}: {}", row.kernel, fit.save_time(&LIMITS));
        }
    }

    #[test]
    fn the_parts_of_an_sm_are_within_rounding_in_22_rows_and_off_by_the_rounding_of_inputs_in_two() {
        for row in &ROWS {
            let fit = LIMITS.fit(&row.grid(Reading::Block, 0, 0)).unwrap();
            let off = fit.share(&LIMITS).abs_diff(row.share);
            let most = if matches!(row.kernel, "scaninter1" | "scaninter2") { 61 } else { 50 };
            assert!(off <= most, "{}: {} millionths", row.kernel, fit.share(&LIMITS));
        }
    }

    #[test]
    fn blocks_per_sm_follow_from_registers_shared_memory_and_slots_in_18_rows_and_from_our_threads_in_six() {
        let mut published = 0;
        for row in &ROWS {
            let grid = row.grid(Reading::Block, 0, 0);
            assert_eq!(LIMITS.fit(&grid).unwrap().blocks, row.blocks_per_sm, "{}", row.kernel);
            let without = LIMITS.fit(&Grid { threads: 0, ..grid }).unwrap();
            published += u32::from(without.blocks == row.blocks_per_sm);
            assert_eq!(without.blocks == row.blocks_per_sm, row.threads == 0, "{}", row.kernel);
        }
        assert_eq!(published, 18);
    }

    #[test]
    fn the_column_of_block_times_has_no_factor_for_the_sms() {
        for row in &ROWS {
            let by_columns = row.time * u64::from(row.blocks_per_sm) / u64::from(row.blocks);
            // Rounded to 10 ns, except in the two rows of 29 blocks, which are off by one part in 80.
            let most = if row.blocks == 29 { row.block_time / 80 } else { 6 };
            assert!(by_columns.abs_diff(row.block_time) <= most, "{}: {by_columns}", row.kernel);
        }
    }

    #[test]
    fn waves_of_a_launch_add_up_to_its_time() {
        for row in &ROWS {
            let waves = u64::from(row.blocks.div_ceil(13 * u32::from(row.blocks_per_sm)));
            let mean = row.mean(Reading::Waves { sms: 13 });
            assert!((mean * waves).abs_diff(row.time) <= waves.div_ceil(2), "{}", row.kernel);
        }
    }

    #[test]
    fn a_save_never_takes_longer_than_that_of_all_registers_and_all_shared_memory() {
        assert_eq!(LIMITS.bytes(), 304 << 10);
        assert_eq!(LIMITS.transfer_time(LIMITS.bytes()), 19_456);
    }
}

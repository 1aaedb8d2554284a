//! The resources of an SM, the needs of a block, and the time to save or restore the state of blocks.
//!
//! # Invariants
//!
//! 1. A [`Fit`] holds at least one block and at most [`BLOCKS_MAX`].
//! 2. The times of the blocks of a grid add up to the number of blocks times the mean, to the nanosecond.
//!
//! Source: Tanasic et al., ISCA 2014, Table 2 (limits) and section 4.1 (each SM has its share of the memory bandwidth).

/// The most blocks that an SM can hold.
pub const BLOCKS_MAX: usize = 16;

/// The longest time of a block, in nanoseconds: some 2.4 hours. The queue of preempted blocks has 43 bits for the remaining time.
pub const BLOCK_TIME_MAX: u64 = (1 << 43) - 1;

/// Bytes of one register.
const REGISTER_BYTES: u32 = 4;
const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;
const MILLION: u64 = 1_000_000;

//--- An SM

/// The resources of one SM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Registers of 4 bytes.
    pub registers: u32,
    /// The sizes that shared memory can be set to, in bytes, ascending. The rest of that memory is a cache.
    pub shared: [u32; 3],
    /// Threads.
    pub threads: u32,
    /// Blocks, at most [`BLOCKS_MAX`].
    pub blocks: u8,
    /// Bytes per second that a save or a restore moves, on each SM independently of the others.
    pub bandwidth: u64,
}

impl Limits {
    /// The limits of one SM of the GPU K20c (Tanasic et al., ISCA 2014, Table 2). Its bandwidth is 208 GB/s divided by 13 SMs.
    pub const K20C: Limits = Limits {
        registers: 65_536,
        shared: [16 << 10, 32 << 10, 48 << 10],
        threads: 2_048,
        blocks: 16,
        bandwidth: 16_000_000_000,
    };

    /// Bytes of state that an SM can have: all registers, and shared memory at its largest.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.registers * REGISTER_BYTES + self.shared[2]
    }

    /// The time that an SM is busy to save `bytes` of state, or to restore them, in nanoseconds, rounded up.
    #[must_use]
    pub const fn transfer_time(&self, bytes: u32) -> u64 {
        (bytes as u64 * NANOSECONDS_PER_SECOND).div_ceil(self.bandwidth)
    }

    /// Whether the engine can work with these limits: 1 to [`BLOCKS_MAX`] blocks, a bandwidth, at most 2^24 registers, and
    /// sizes of shared memory that ascend to at most 2^24 bytes.
    #[must_use]
    pub const fn are_sound(&self) -> bool {
        let [small, middle, large] = self.shared;
        let is_small = self.registers <= 1 << 24 && large <= 1 << 24 && small <= middle && middle <= large;
        is_small && 1 <= self.blocks && self.blocks as usize <= BLOCKS_MAX && self.bandwidth > 0
    }

    /// How blocks of `grid` fit on an SM.
    ///
    /// Shared memory is set to the smallest size that lets a block run (Table 2), so a size that would let more blocks run is
    /// not chosen.
    ///
    /// # Errors
    /// [`GridError`]: the first limit that not even one block keeps, or a number that makes no sense.
    pub const fn fit(&self, grid: &Grid) -> Result<Fit, GridError> {
        if grid.blocks == 0 {
            return Err(GridError::NoBlocks);
        }
        if grid.time == 0 {
            return Err(GridError::NoTime);
        }
        if grid.spread > 1_000 {
            return Err(GridError::Spread { per_mille: grid.spread });
        }
        if grid.time > BLOCK_TIME_MAX || grid.longest() > BLOCK_TIME_MAX {
            return Err(GridError::TooLong { time: grid.time });
        }
        let mut fitting = self.blocks as u32;
        if grid.registers > self.registers {
            return Err(GridError::Registers { needed: grid.registers, limit: self.registers });
        }
        fitting = least(fitting, holds(self.registers, grid.registers));
        let mut size = 0;
        while size < self.shared.len() && self.shared[size] < grid.shared {
            size += 1;
        }
        if size == self.shared.len() {
            return Err(GridError::Shared { needed: grid.shared, limit: self.shared[2] });
        }
        fitting = least(fitting, holds(self.shared[size], grid.shared));
        if grid.threads > self.threads {
            return Err(GridError::Threads { needed: grid.threads, limit: self.threads });
        }
        fitting = least(fitting, holds(self.threads, grid.threads));
        let blocks = match grid.blocks_per_sm {
            None => fitting as u8,
            Some(given) if given == 0 || given as u32 > fitting => {
                return Err(GridError::BlocksPerSm { given, fitting: fitting as u8 });
            }
            Some(given) => given,
        };
        Ok(Fit { blocks, block_bytes: grid.registers * REGISTER_BYTES + grid.shared })
    }
}

/// How blocks of a grid fit on an SM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fit {
    /// Blocks that are on one SM at a time.
    pub blocks: u8,
    /// Bytes of state of one block.
    pub block_bytes: u32,
}

impl Fit {
    /// Bytes of state of an SM that is full of such blocks.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.blocks as u32 * self.block_bytes
    }

    /// The time to save so many of the blocks, or to restore them, in nanoseconds, rounded up once for all of them.
    #[must_use]
    pub const fn time_of(&self, blocks: u32, limits: &Limits) -> u64 {
        limits.transfer_time(blocks * self.block_bytes)
    }

    /// The time to save a full SM, in nanoseconds, rounded up. A restore takes as long: the paper has no other figure.
    #[must_use]
    pub const fn save_time(&self, limits: &Limits) -> u64 {
        self.time_of(self.blocks as u32, limits)
    }

    /// The part of an SM's state that a full SM uses, in millionths, to nearest: the column "resource %" of Table 1.
    #[must_use]
    pub const fn share(&self, limits: &Limits) -> u32 {
        let whole = limits.bytes() as u64;
        ((self.bytes() as u64 * MILLION + whole / 2) / whole) as u32
    }
}

//--- A grid

/// The parts of a kernel, and the needs of a block of it. They are equal for all its blocks, and known at launch (section 2.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grid {
    /// The number of blocks, at least 1.
    pub blocks: u32,
    /// Time of a block on an SM, in nanoseconds: the mean of all blocks. At least 1.
    pub time: u64,
    /// The largest distance of a block's time from the mean, in thousandths of the mean: 0 to 1000.
    pub spread: u16,
    /// Says which block takes how long within the spread.
    pub seed: u64,
    /// Registers of a block, of 4 bytes.
    pub registers: u32,
    /// Shared memory of a block, in bytes.
    pub shared: u32,
    /// Threads of a block. 0: unknown, and no limit.
    pub threads: u32,
    /// The number of blocks that an SM holds, if that is known otherwise. It may be less than the limits allow, not more.
    pub blocks_per_sm: Option<u8>,
}

impl Grid {
    /// The times of its blocks.
    #[must_use]
    pub const fn times(&self) -> Times {
        let widest = self.time.saturating_mul(self.spread as u64) / 1_000;
        // No block takes less than one nanosecond.
        let amplitude = if widest >= self.time { self.time.saturating_sub(1) } else { widest };
        Times { blocks: self.blocks, mean: self.time, amplitude, seed: self.seed }
    }

    /// The longest time that a block of it can take, in nanoseconds.
    #[must_use]
    pub const fn longest(&self) -> u64 {
        self.time.saturating_add(self.times().amplitude)
    }
}

/// The time of each block of a grid.
///
/// Block `b` and block `blocks - 1 - b` are off the mean by the same amount, one above and one below it. The amount is spread
/// evenly from zero to the amplitude, and which of the two is the longer one is even too. Both come from a hash of the seed and the
/// smaller number. So the mean is kept exactly, and neighbours are independent of each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    blocks: u32,
    mean: u64,
    amplitude: u64,
    seed: u64,
}

impl Times {
    pub(crate) const NONE: Times = Times { blocks: 0, mean: 0, amplitude: 0, seed: 0 };

    /// The time of `block`, in nanoseconds: 1 to [`BLOCK_TIME_MAX`]. `block` is below the number of blocks.
    #[must_use]
    pub const fn of(&self, block: u32) -> u64 {
        let other = self.blocks.wrapping_sub(1).wrapping_sub(block);
        if self.amplitude == 0 || block == other {
            return self.mean;
        }
        let is_first = block < other;
        let hash = mixed(self.seed, if is_first { block } else { other });
        let off = (((self.amplitude + 1) as u128 * hash as u128) >> 64) as u64;
        // The amount comes from the upper bits of the hash, the sign from the lowest. Neither sum can overflow; both are formed,
        // since no branch could be predicted.
        let (above, below) = (self.mean.wrapping_add(off), self.mean.wrapping_sub(off));
        if is_first == (hash & 1 == 0) { above } else { below }
    }
}

/// A grid that no SM can run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GridError {
    /// The kernel has no blocks.
    NoBlocks,
    /// The blocks of the kernel take no time.
    NoTime,
    /// A block of it may take longer than [`BLOCK_TIME_MAX`].
    TooLong {
        /// The mean that was asked for, in nanoseconds.
        time: u64,
    },
    /// A block cannot be further off the mean than the mean itself.
    Spread {
        /// The spread that was asked for, in thousandths; at most 1000.
        per_mille: u16,
    },
    /// One block needs more registers than an SM has.
    Registers {
        /// The need of a block.
        needed: u32,
        /// The amount on an SM.
        limit: u32,
    },
    /// One block needs more shared memory than an SM has at its largest, in bytes.
    Shared {
        /// The need of a block.
        needed: u32,
        /// The amount on an SM.
        limit: u32,
    },
    /// One block has more threads than an SM.
    Threads {
        /// The need of a block.
        needed: u32,
        /// The amount on an SM.
        limit: u32,
    },
    /// [`Grid::blocks_per_sm`] is zero, or more than fit.
    BlocksPerSm {
        /// The requested number.
        given: u8,
        /// The number that fits.
        fitting: u8,
    },
}

//--- Small things

/// The number of blocks with this need that fit into a limit.
const fn holds(limit: u32, needed: u32) -> u32 {
    match limit.checked_div(needed) {
        Some(blocks) => blocks,
        None => u32::MAX,
    }
}

const fn least(one: u32, other: u32) -> u32 {
    if one < other { one } else { other }
}

/// A hash of both numbers: the finaliser of SplitMix64 (Steele et al., 2014).
const fn mixed(seed: u64, number: u32) -> u64 {
    let mut hash = seed.wrapping_add((number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

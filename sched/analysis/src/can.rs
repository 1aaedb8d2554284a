//! One CAN bus: the longest time until each of its frames has been sent.
//!
//! A bus sends one frame at a time. At the end of a frame all nodes with a frame in a transmit buffer begin to send, and the frame with
//! the lowest identifier wins. So a bus is a processor with fixed priorities and without preemption, and a frame waits for three things:
//! the frame with a higher identifier that is under way, frames with lower identifiers, and earlier instances of itself.
//!
//! ```text
//! w(q) = E(w(q) + C) + B + q C + sum over lower identifiers k of ceil((w(q) + J_k + bit) / T_k) C_k
//! R    = the largest J + w(q) + C - q T, over the instances q of a busy period
//! ```
//!
//! `C` is the longest transmission of a frame, `B` that of the frames with higher identifiers, `T` the least time between two events of a
//! frame, and `J` the longest time from an event until its frame is in a transmit buffer. A frame that is ready within one bit of the
//! beginning of another one still takes part in its arbitration, which is the term `bit`. `R` counts from the event.
//!
//! # Why all instances
//!
//! An instance that cannot be preempted may push frames with lower identifiers behind itself, and these delay its next instance. So the
//! first instance need not be the slowest, even if all deadlines are shorter than periods. The analysis of 1994, which looks at the first
//! instance alone, is too small; the tests have it as a planted fault.
//!
//! # Faults
//!
//! A fault ends a transmission, and takes an error frame and another transmission: `E(t)` is `ceil(t / interval)` times 31 bits and the
//! longest frame that is not after this one.
//!
//! # Assumptions
//!
//! Each node takes part in every arbitration with its frame of the lowest identifier, sends instances of one frame in their order, and
//! sends no remote frames and no overload frames. A controller with one buffer that a driver fills in order of arrival does not. No node
//! is error-passive: such a node pauses after each of its frames.
//!
//! # Source
//!
//! Davis, Burns, Bril, Lukkien 2007. The response under a utilisation of exactly one is ours ([`Bus::responses`]). The lengths of CAN FD
//! frames are those of Bosch's specification of 2012 with the count of stuff bits that ISO 11898-1:2015 adds.

use std::cmp::Ordering;
use std::fmt;

use fusee_sched::time::Nanoseconds;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Zero};

use crate::task::LONGEST;
use crate::uniprocessor::{HORIZON, LOOKS, Looks, Unanswered};

/// Bit rates of a bus, bits per second.
pub const BIT_RATES: std::ops::RangeInclusive<u32> = 1_000..=1_000_000;
/// The highest data rate of CAN FD, bits per second.
pub const MOST_DATA_RATE: u32 = 8_000_000;
/// Lengths of a CAN FD frame beyond eight bytes.
const LONG_LENGTHS: [u32; 7] = [12, 16, 20, 24, 32, 48, 64];
/// Bits of the longest error frame, up to the next arbitration.
const ERROR_BITS: u128 = 31;

//--- Public types

/// The identifier of a frame, which is its priority, too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Identifier {
    /// 11 bits.
    Standard(u32),
    /// 29 bits.
    Extended(u32),
}

/// One frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame {
    /// The identifier, which no other frame of the bus has.
    pub identifier: Identifier,
    /// Bytes of data.
    pub bytes: u32,
    /// Whether the frame has the format of CAN FD.
    pub is_fd: bool,
    /// The least time between two events `T`.
    pub period: Nanoseconds,
    /// The longest time from an event until the frame is in a transmit buffer `J`; the shortest one is zero. `None`: it is not bounded.
    pub jitter: Option<Nanoseconds>,
    /// The deadline, from the event. It may be longer than the period.
    pub deadline: Nanoseconds,
}

/// The bit rates of a bus, bits per second.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rates {
    bit_rate: u32,
    data_rate: u32,
}

/// A bus with its frames.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bus {
    fault_interval: Option<Nanoseconds>,
    frames: Vec<Frame>,
    /// The frames by identifier, the most urgent first, as indices.
    order: Vec<usize>,
    /// The times of the frames, in the order of `frames`.
    times: Vec<Times>,
    /// The length of a nanosecond, and of a bit.
    nanosecond: u128,
    bit: u128,
}

/// The longest response of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Response {
    /// The time from the event until the frame has been sent, rounded up.
    pub longest: Nanoseconds,
    /// Whether that is no later than the deadline, exactly.
    pub is_met: bool,
    /// The number of instances of the busy period.
    pub instances: u64,
    /// The instance with the longest response, from zero.
    pub slowest: u64,
}

/// The times of a frame, in units of which both a nanosecond and each bit have a whole number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Times {
    transmission: u128,
    period: u128,
    jitter: Option<u128>,
    deadline: u128,
}

//--- Frames

impl Identifier {
    /// The bits of the identifier as arbitration compares them: the first 11, the bit that tells an extended frame, the other 18.
    fn arbitration(self) -> (u32, bool, u32) {
        match self {
            Identifier::Standard(number) => (number, false, 0),
            Identifier::Extended(number) => (number >> 18, true, number & 0x3_ffff),
        }
    }

    fn is_valid(self) -> bool {
        match self {
            Identifier::Standard(number) => number < 1 << 11,
            Identifier::Extended(number) => number < 1 << 29,
        }
    }
}

/// The order of arbitration: the lower identifier is more urgent.
impl Ord for Identifier {
    fn cmp(&self, other: &Self) -> Ordering {
        self.arbitration().cmp(&other.arbitration())
    }
}

impl PartialOrd for Identifier {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Frame {
    /// Checks a frame by itself.
    ///
    /// # Errors
    /// The first value that no frame can have.
    pub fn check(&self) -> Result<(), Nonsense> {
        let Frame { identifier, bytes, is_fd, period, deadline, .. } = *self;
        let longest = period.max(deadline).max(self.jitter.unwrap_or_default());
        match () {
            () if !identifier.is_valid() => Err(Nonsense::Identifier(identifier)),
            () if bytes > 8 && !(is_fd && LONG_LENGTHS.contains(&bytes)) => Err(Nonsense::Bytes { bytes, is_fd }),
            () if period == Nanoseconds::ZERO => Err(Nonsense::NoPeriod),
            () if longest > LONGEST => Err(Nonsense::TooLong(longest)),
            () => Ok(()),
        }
    }

    /// The bits of the frame in its longest form, the space up to the next frame included: those at the bit rate of the bus, and those at
    /// the data rate.
    ///
    /// A stuff bit may follow the fifth bit, and each fourth bit from then on, since stuff bits count as bits of a run.
    #[must_use]
    pub fn bits(&self) -> (u64, u64) {
        let stuffing = |bits: u64| (bits - 1) / 4;
        let data = 8 * u64::from(self.bytes);
        let is_extended = matches!(self.identifier, Identifier::Extended(_));
        if !self.is_fd {
            let exposed = data + if is_extended { 54 } else { 34 };
            return (exposed + stuffing(exposed) + 13, 0);
        }
        // At the bit rate: up to the bit that switches the rate, though its second part is faster, and from the delimiter of the
        // checksum on. Nodes accept a delimiter and an acknowledgement of two bits each.
        let arbitrated = if is_extended { 36 } else { 17 };
        let early = stuffing(arbitrated);
        let exposed = arbitrated + 5 + data;
        // The checksum, and its stuff bits, which have fixed places. Before it comes the count of stuff bits.
        let checksum = if self.bytes > 16 { 21 + 7 } else { 17 + 6 };
        (arbitrated + early + 13 + 2, 5 + data + stuffing(exposed) - early + 4 + checksum)
    }
}

//--- Buses

impl Rates {
    /// Checks the rates of a bus; without a data rate all bits of a frame of CAN FD have the bit rate.
    ///
    /// # Errors
    /// A rate that no bus has.
    pub fn new(bit_rate: u32, data_rate: Option<u32>) -> Result<Rates, Nonsense> {
        let data_rate = data_rate.unwrap_or(bit_rate);
        match () {
            () if !BIT_RATES.contains(&bit_rate) => Err(Nonsense::BitRate(bit_rate)),
            () if !(bit_rate..=MOST_DATA_RATE).contains(&data_rate) => Err(Nonsense::DataRate { data_rate, bit_rate }),
            () => Ok(Rates { bit_rate, data_rate }),
        }
    }

    /// Bits per second of all but the data of CAN FD frames.
    #[must_use]
    pub fn bit_rate(self) -> u32 {
        self.bit_rate
    }
}

impl Bus {
    /// Checks and keeps a bus. `fault_interval` is the least time between two faults; `None`: there is none.
    ///
    /// # Errors
    /// The first value that no bus can have, with the index of its frame.
    pub fn new(
        rates: Rates,
        fault_interval: Option<Nanoseconds>,
        frames: Vec<Frame>,
    ) -> Result<Bus, (Option<usize>, Nonsense)> {
        match fault_interval {
            Some(Nanoseconds::ZERO) => return Err((None, Nonsense::NoFaultInterval)),
            Some(interval) if interval > LONGEST => return Err((None, Nonsense::TooLong(interval))),
            _ => {}
        }
        for (index, frame) in frames.iter().enumerate() {
            frame.check().map_err(|why| (Some(index), why))?;
            if frames[..index].iter().any(|other| other.identifier == frame.identifier) {
                return Err((Some(index), Nonsense::Twice(frame.identifier)));
            }
        }
        let mut order: Vec<usize> = (0..frames.len()).collect();
        order.sort_by_key(|frame| frames[*frame].identifier);
        let [bit_rate, data_rate] = [rates.bit_rate, rates.data_rate].map(u128::from);
        let nanosecond = bit_rate / common_divisor(bit_rate, data_rate) * data_rate;
        let [bit, data_bit] = [bit_rate, data_rate].map(|rate| nanosecond / rate * 1_000_000_000);
        let times = |frame: &Frame| {
            let (bits, data_bits) = frame.bits();
            Times {
                transmission: u128::from(bits) * bit + u128::from(data_bits) * data_bit,
                period: u128::from(frame.period.0) * nanosecond,
                jitter: frame.jitter.map(|jitter| u128::from(jitter.0) * nanosecond),
                deadline: u128::from(frame.deadline.0) * nanosecond,
            }
        };
        let times = frames.iter().map(times).collect();
        Ok(Bus { fault_interval, frames, order, times, nanosecond, bit })
    }

    /// The frames of the bus.
    #[must_use]
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The indices of the frames, the most urgent first.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The longest transmission of the frame with this index, rounded up.
    #[must_use]
    pub fn transmission(&self, index: usize) -> Nanoseconds {
        self.rounded_up(self.times[index].transmission)
    }

    /// The part of the bus's time that all frames take, faults apart.
    #[must_use]
    pub fn utilisation(&self) -> BigRational {
        self.times.iter().map(|one| fraction(one.transmission, one.period)).sum()
    }

    /// The longest response of each frame, for any deadlines.
    ///
    /// With a utilisation of exactly one, a busy period may never end. From each hyperperiod to the next the waits of a frame grow by the
    /// hyperperiod, so its responses repeat, and the instances of the first hyperperiod are enough.
    ///
    /// # Errors
    /// [`Unanswered::Unbounded`] if the frame and those with lower identifiers, with their faults, need more than the whole bus, or the
    /// jitter of one of them is not bounded. [`Unanswered::GaveUp`] if the search grew too long.
    #[must_use]
    pub fn responses(&self) -> Vec<Result<Response, Unanswered>> {
        let mut found = vec![Err(Unanswered::GaveUp); self.frames.len()];
        let mut load = BigRational::zero();
        let (mut above, mut longest) = (Vec::with_capacity(self.frames.len()), 0);
        for (place, index) in self.order.iter().enumerate() {
            let own = self.times[*index];
            load += fraction(own.transmission, own.period);
            longest = own.transmission.max(longest);
            let after = self.order[place + 1..].iter().map(|after| self.times[*after].transmission);
            let level = Level {
                own,
                above: &above,
                blocking: after.max().unwrap_or(0),
                faults: self
                    .fault_interval
                    .map(|interval| (u128::from(interval.0) * self.nanosecond, ERROR_BITS * self.bit + longest)),
                bit: self.bit,
                horizon: u128::from(HORIZON) * self.nanosecond,
            };
            found[*index] =
                level.response(&load, &mut Looks(LOOKS / self.frames.len() as u64)).map(|slowest| Response {
                    longest: self.rounded_up(slowest.response),
                    is_met: slowest.response <= own.deadline,
                    instances: slowest.instances,
                    slowest: slowest.instance,
                });
            above.push(own);
        }
        found
    }

    fn rounded_up(&self, time: u128) -> Nanoseconds {
        // Spans beyond the horizon, which is less than 2^64 ns, are no answers.
        Nanoseconds(u64::try_from(time.div_ceil(self.nanosecond)).unwrap_or(u64::MAX))
    }
}

//--- The search

/// A frame, and all that it waits for.
struct Level<'a> {
    own: Times,
    /// The frames with lower identifiers.
    above: &'a [Times],
    /// The longest frame with a higher identifier.
    blocking: u128,
    /// The least time between two faults, and the cost of each.
    faults: Option<(u128, u128)>,
    bit: u128,
    /// Spans beyond it are not searched.
    horizon: u128,
}

/// The slowest instance of a frame.
struct Slowest {
    response: u128,
    instance: u64,
    instances: u64,
}

impl Level<'_> {
    /// The slowest instance; `load` is the part of the bus's time that this frame and those above it take.
    fn response(&self, load: &BigRational, looks: &mut Looks) -> Result<Slowest, Unanswered> {
        let faults = self.faults.map_or_else(BigRational::zero, |(interval, cost)| fraction(cost, interval));
        let load = load + faults;
        let jitter = self.own.jitter.ok_or(Unanswered::Unbounded)?;
        if load > BigRational::one() || self.above.iter().any(|one| one.jitter.is_none()) {
            return Err(Unanswered::Unbounded);
        }
        let instances = if load.is_one() {
            self.hyperperiod().ok_or(Unanswered::GaveUp)? / self.own.period
        } else {
            let busy = self.fixed_point(looks, self.own.transmission, |until| {
                self.faults(until)
                    + self.blocking
                    + self.sent(until)
                    + arrivals(&self.own, until) * self.own.transmission
            })?;
            (busy + jitter).div_ceil(self.own.period)
        };
        let instances = u64::try_from(instances).map_err(|_| Unanswered::GaveUp)?;
        let mut slowest = Slowest { response: 0, instance: 0, instances };
        // No wait of the next instance is shorter than that of this one and its transmission.
        let mut wait = 0;
        for instance in 0..instances {
            let first = self.blocking + u128::from(instance) * self.own.transmission;
            wait = self.fixed_point(looks, first.max(wait), |wait| {
                first + self.faults(wait + self.own.transmission) + self.sent(wait + self.bit)
            })?;
            // An instance of the busy period is ready before the bus is idle, so the difference is positive.
            let response = jitter + wait + self.own.transmission - u128::from(instance) * self.own.period;
            if response > slowest.response {
                slowest = Slowest { response, instance, instances };
            }
            wait += self.own.transmission;
        }
        Ok(slowest)
    }

    /// The time of the frames above that are ready before `until`.
    fn sent(&self, until: u128) -> u128 {
        self.above.iter().map(|one| arrivals(one, until) * one.transmission).sum()
    }

    /// The time that faults before `until` take.
    fn faults(&self, until: u128) -> u128 {
        self.faults.map_or(0, |(interval, cost)| until.div_ceil(interval) * cost)
    }

    /// The least time of which all periods, and the interval of faults, are parts.
    fn hyperperiod(&self) -> Option<u128> {
        let periods = self.above.iter().map(|one| one.period).chain(self.faults.map(|(interval, _)| interval));
        let multiple = |all: u128, one: u128| all.checked_mul(one / common_divisor(all, one));
        periods.chain([self.own.period]).try_fold(1, multiple)
    }

    /// The least `t >= start` with `t = demand(t)`, for a growing `demand` with `demand(start) >= start`.
    fn fixed_point(&self, looks: &mut Looks, start: u128, demand: impl Fn(u128) -> u128) -> Result<u128, Unanswered> {
        let mut time = start;
        loop {
            looks.spend_number(self.above.len() as u64 + 1)?;
            if time > self.horizon {
                return Err(Unanswered::GaveUp);
            }
            let next = demand(time);
            if next == time {
                return Ok(time);
            }
            time = next;
        }
    }
}

/// The instances that are ready before `until`, if the first was delayed for as long as may be and no other one was.
fn arrivals(frame: &Times, until: u128) -> u128 {
    (until + frame.jitter.unwrap_or(0)).div_ceil(frame.period)
}

fn fraction(part: u128, whole: u128) -> BigRational {
    BigRational::new(BigInt::from(part), BigInt::from(whole))
}

fn common_divisor(one: u128, other: u128) -> u128 {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

//--- Mistakes

/// The reason why something is no bus, or no frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Nonsense {
    /// A bit rate outside [`BIT_RATES`].
    BitRate(u32),
    /// A data rate below the bit rate, or above [`MOST_DATA_RATE`].
    DataRate {
        /// The data rate.
        data_rate: u32,
        /// The bit rate of the bus.
        bit_rate: u32,
    },
    /// Faults without any time between them.
    NoFaultInterval,
    /// More bits than an identifier has.
    Identifier(Identifier),
    /// A number of bytes that no frame has.
    Bytes {
        /// The number.
        bytes: u32,
        /// Whether it is a frame of CAN FD.
        is_fd: bool,
    },
    /// A frame that is sent infinitely often.
    NoPeriod,
    /// A time beyond [`LONGEST`].
    TooLong(Nanoseconds),
    /// The identifier of another frame.
    Twice(Identifier),
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identifier::Standard(number) => write!(f, "{number:#05x}"),
            Identifier::Extended(number) => write!(f, "{number:#010x}"),
        }
    }
}

impl fmt::Display for Nonsense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = "0 to 8 bytes";
        match *self {
            Nonsense::BitRate(rate) => {
                write!(f, "a bit rate is {} to {} bit/s, not {rate}", BIT_RATES.start(), BIT_RATES.end())
            }
            Nonsense::DataRate { data_rate, bit_rate } => write!(
                f,
                "a data rate is no less than the bit rate ({bit_rate} bit/s) and at most {MOST_DATA_RATE} bit/s, not {data_rate}"
            ),
            Nonsense::NoFaultInterval => write!(f, "the interval of faults is zero"),
            Nonsense::Identifier(Identifier::Standard(number)) => {
                write!(f, "a standard identifier is at most 0x7ff, not {number:#x}; an extended one is longer")
            }
            Nonsense::Identifier(Identifier::Extended(number)) => {
                write!(f, "an extended identifier is at most 0x1fffffff, not {number:#x}")
            }
            Nonsense::Bytes { bytes, is_fd: false } => {
                write!(f, "a frame has {lengths}, not {bytes}; one of CAN FD may have more")
            }
            Nonsense::Bytes { bytes, is_fd: true } => {
                write!(f, "a frame of CAN FD has {lengths}, or 12, 16, 20, 24, 32, 48 or 64, not {bytes}")
            }
            Nonsense::NoPeriod => write!(f, "its period is zero"),
            Nonsense::TooLong(time) => write!(f, "{} ns is longer than {} ns", time.0, LONGEST.0),
            Nonsense::Twice(identifier) => write!(f, "another frame has the identifier {identifier}"),
        }
    }
}

impl std::error::Error for Nonsense {}

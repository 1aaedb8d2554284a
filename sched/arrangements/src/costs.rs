//! Costs of kernel and GPUs, and the order in which they are added to requests and tasks.
//!
//! ```text
//! 1. lengths of requests: bottom halves, callback, switches and calls       4.48, 4.49, 2.46
//! 2. blocking, with these lengths
//! 3. execution += blocking
//! 4. execution += top halves, bottom halves, callbacks, calls               4.47, 4.50, 4.51, 2.45
//! 5. execution += switches, then divided by the share that interrupts leave  4.44, 4.45
//! ```
//!
//! # Corrections of the text
//!
//! - 4.48 has the bottom halves of other engines only. The request's own bottom half ends before its engine is free as well, so all engines count here.
//! - 4.49 is printed without the exit of the system call that its prose names.
//! - Definition 4.9 calls the bottom half a top half.
//!
//! # Source
//! Elliott 2015, eq. 2.41, 2.45, 2.46 and 4.44 to 4.51.

/// Engines of one GPU: one that executes, two that copy.
pub const ENGINES: u64 = 3;
const MEBIBYTE: u64 = 1 << 20;

/// The time of a copy by its bytes: constant up to a size, then linear. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Line {
    /// The time of the smallest copy.
    pub least: u64,
    /// The time of one mebibyte.
    pub mebibyte: u64,
}

impl Line {
    /// The time of a copy of `bytes`.
    #[must_use]
    pub fn time(&self, bytes: u64) -> u64 {
        if bytes == 0 { 0 } else { self.least.max(bytes.saturating_mul(self.mebibyte).div_ceil(MEBIBYTE)) }
    }
}

/// The costs of one platform, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Costs {
    /// The choice of the next job.
    pub schedule: u64,
    /// A switch to another thread.
    pub context_switch: u64,
    /// The interrupt that releases a job.
    pub release: u64,
    /// The tick, and the time between ticks; zero: there are none.
    pub tick: u64,
    /// The time between ticks.
    pub tick_period: u64,
    /// The loss of a job by a preemption or migration.
    pub cache_delay: u64,
    /// The loss of a job by an interrupt.
    pub cache_interrupt: u64,
    /// The time from an event to its handler.
    pub event_latency: u64,
    /// The time from one CPU's request to another's interrupt.
    pub interprocessor_interrupt: u64,
    /// The entry of a system call.
    pub call_in: u64,
    /// The exit of a system call.
    pub call_out: u64,
    /// The acquisition of a lock.
    pub lock: u64,
    /// The release of a lock.
    pub unlock: u64,
    /// The top half of a GPU's interrupt.
    pub top_half: u64,
    /// The bottom half of a GPU's interrupt.
    pub bottom_half: u64,
    /// Whether a thread of a run-time library passes completions on to tasks.
    pub has_callback: bool,
    /// Copies to a GPU.
    pub inbound: Line,
    /// Copies from a GPU.
    pub outbound: Line,
    /// Copies from GPU to GPU at one switch.
    pub near: Line,
    /// Copies from GPU to GPU at different switches.
    pub far: Line,
}

/// The costs of the parts of a job that uses a GPU.
impl Costs {
    /// The time that a request of an engine for `span` keeps others waiting, zero for no request. `tokens`: holders of one GPU at most;
    /// `is_apart`: each CPU is a cluster with GPUs of its own.
    #[must_use]
    pub fn request(&self, span: u64, tokens: u64, is_apart: bool) -> u64 {
        if span == 0 {
            return 0;
        }
        let kick = if is_apart { 0 } else { self.interprocessor_interrupt };
        let switch = self.schedule + self.context_switch;
        let halves = ENGINES.min(tokens) * (self.bottom_half + self.top_half) + 2 * switch + 2 * kick;
        let callback = if self.has_callback { switch + kick + self.call_in + self.call_out } else { 0 };
        span + halves + callback + self.section()
    }

    /// The addition to each critical section whose holder can be preempted (2.46).
    #[must_use]
    pub fn section(&self) -> u64 {
        2 * (self.schedule + self.context_switch)
            + self.call_in
            + self.call_out
            + self.unlock
            + self.interprocessor_interrupt
    }

    /// The addition to a job with `requests` requests of engines and one of a token (4.50, 4.51, 2.45).
    #[must_use]
    pub fn job(&self, requests: u64, tokens: u64, is_apart: bool) -> u64 {
        if requests == 0 {
            return 0;
        }
        let kick = if is_apart { 0 } else { self.interprocessor_interrupt };
        let switch = self.schedule + self.context_switch;
        let halves = ENGINES.min(tokens) * self.bottom_half + 2 * switch + 2 * kick;
        let callback = if self.has_callback { 2 * switch + self.call_in + self.call_out + kick } else { 0 };
        let lock = 2 * (self.call_in + self.call_out)
            + self.lock
            + self.unlock
            + 3 * switch
            + 2 * self.cache_delay
            + self.interprocessor_interrupt;
        requests * (halves + callback) + (requests + 1) * lock
    }
}

/// The share of a CPU that interrupts take, in a CPU cluster, and their cost at each point where a job starts or resumes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Interrupts {
    /// The rest of each CPU, in parts of 2^32, rounded down.
    left: u64,
    /// The cost at each point, nanoseconds.
    point: u64,
}

/// One CPU.
const ONE: u64 = 1 << 32;

impl Interrupts {
    /// The interrupts of ticks, and of releases of tasks with these periods. `None`: they leave nothing.
    #[must_use]
    pub fn new(costs: &Costs, periods: impl Iterator<Item = u64>) -> Option<Interrupts> {
        let release = costs.release + costs.cache_interrupt;
        let (tick, tick_share) = match costs.tick_period {
            0 => (0, 0),
            period => {
                let tick = costs.tick + costs.cache_interrupt;
                (tick, (tick * ONE).div_ceil(period))
            }
        };
        let (mut share, mut once) = (tick_share, tick);
        for period in periods {
            share += (release * ONE).div_ceil(period);
            once += release;
        }
        let left = ONE.checked_sub(share).filter(|left| *left > 0)?;
        let late = (u128::from(costs.event_latency) * u128::from(share)).div_ceil(ONE.into());
        let point = ((late + u128::from(once)) * u128::from(ONE)).div_ceil(left.into());
        Some(Interrupts { left, point: u64::try_from(point).ok()? })
    }

    /// The execution of a job that executes for `span`, all interrupts and switches included (4.44, 4.45); rounded up.
    #[must_use]
    pub fn inflate(&self, costs: &Costs, span: u64) -> u64 {
        let span = span + 2 * (costs.schedule + costs.context_switch) + costs.cache_delay;
        let divided = (u128::from(span) * u128::from(ONE)).div_ceil(self.left.into());
        let divided = u64::try_from(divided).unwrap_or(u64::MAX);
        divided.saturating_add(2 * self.point).saturating_add(costs.interprocessor_interrupt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_without_costs_changes_nothing() {
        let none = Costs::default();
        assert_eq!((none.request(7, 3, false), none.job(5, 3, false), none.request(0, 3, false)), (7, 0, 0));
        let interrupts = Interrupts::new(&none, [10, 20].into_iter()).unwrap();
        assert_eq!(interrupts.inflate(&none, 7), 7);
    }

    /// Releases of 20 + 10 each 1,000 and 2,000 take 0.045; a point costs (0.045 * 10 + 60) / 0.955 = 63.3, and the job
    /// (200 + 2 (5 + 7) + 11) / 0.955 + 2 * 64 + 4.
    #[test]
    fn interrupts_take_a_share_and_a_cost_at_each_point() {
        let costs = Costs {
            release: 20,
            cache_interrupt: 10,
            event_latency: 10,
            schedule: 5,
            context_switch: 7,
            cache_delay: 11,
            interprocessor_interrupt: 4,
            ..Costs::default()
        };
        let interrupts = Interrupts::new(&costs, [1_000, 2_000].into_iter()).unwrap();
        assert_eq!(interrupts.inflate(&costs, 200), 247 + 128 + 4);
        assert_eq!(Interrupts::new(&Costs { release: 2_000, ..costs }, [1_000].into_iter()), None);
    }

    #[test]
    fn a_request_pays_for_halves_callback_switches_and_calls() {
        let costs = Costs {
            schedule: 1,
            context_switch: 10,
            interprocessor_interrupt: 100,
            call_in: 1_000,
            call_out: 2_000,
            unlock: 10_000,
            lock: 20_000,
            top_half: 100_000,
            bottom_half: 200_000,
            cache_delay: 1_000_000,
            has_callback: true,
            ..Costs::default()
        };
        let section = 22 + 3_000 + 10_000 + 100;
        assert_eq!(costs.section(), section);
        assert_eq!(costs.request(5, 2, false), 5 + (600_000 + 22 + 200) + (11 + 100 + 3_000) + section);
        assert_eq!(costs.request(5, 9, true), 5 + (900_000 + 22) + (11 + 3_000) + section);
        let lock = 6_000 + 30_000 + 33 + 2_000_000 + 100;
        assert_eq!(costs.job(3, 1, false), 3 * (200_000 + 22 + 200 + 22 + 3_000 + 100) + 4 * lock);
    }
}

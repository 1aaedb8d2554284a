//! A simulated CAN bus, as wires see it: identifiers arbitrate bit by bit, and the bus is told which instances are ready when.

use fusee_sched_analysis::can::Identifier;

/// An instance of a frame: its event, and the instant at which it is in a transmit buffer, in nanoseconds.
pub type Instance = (i64, i64);

/// A bus: the bits with which each frame competes, and its transmission in nanoseconds.
pub struct Wires {
    /// The frames.
    pub frames: Vec<(Vec<bool>, i64)>,
    /// Nanoseconds of a bit.
    pub bit: i64,
}

/// The first bits of a frame as they compete, without those that all frames share.
pub fn wire(identifier: Identifier) -> Vec<bool> {
    let bits = |number: u32, count: u32| (0..count).rev().map(move |place| number >> place & 1 == 1);
    match identifier {
        Identifier::Standard(number) => bits(number, 11).chain([false, false]).collect(),
        Identifier::Extended(number) => bits(number >> 18, 11).chain([true, true]).chain(bits(number, 18)).collect(),
    }
}

impl Wires {
    /// Plays instances, which are ready in their order. `fault` may choose an instant of a transmission at which it fails. `sent` is told
    /// the frame, the number of its instance, and when that has been sent.
    pub fn play(
        &self,
        instances: &[Vec<Instance>],
        mut fault: impl FnMut(i64, i64) -> Option<i64>,
        mut sent: impl FnMut(usize, usize, i64),
    ) {
        let mut next = vec![0; instances.len()];
        let mut now = i64::MIN;
        loop {
            let head = |one: usize| instances[one].get(next[one]).copied();
            let Some(first) = (0..instances.len()).filter_map(|one| Some(head(one)?.1)).min() else { return };
            now = now.max(first);
            let competes = |one: &usize| head(*one).is_some_and(|(_, ready)| ready < now + self.bit);
            let winner = (0..instances.len()).filter(competes).min_by_key(|one| &self.frames[*one].0);
            let winner = winner.expect("the first is ready");
            let end = now + self.frames[winner].1;
            now = match fault(now, end) {
                Some(at) => at + 31 * self.bit,
                None => {
                    sent(winner, next[winner], end);
                    next[winner] += 1;
                    end
                }
            };
        }
    }
}

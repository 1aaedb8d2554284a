//! The description that the engine firmware finds in `x0`.

use fusee_accel_contract::{CONTEXTS, DEVICES, timing::Slowdown};
use fusee_spatial::Mechanism;

use crate::layout::PAGE;
use crate::resolve::{Device, Resolved};

/// Words of a device, and then one for each way.
pub const OF_DEVICE: usize = 15;
/// Beside the number of SMs: contexts with a lock have keys of their own.
const KEYED: u64 = 1 << 31;
/// Times of kernels for which there is room in the firmware's page of parameters.
pub(crate) const TIMES: usize = 160;
const _: () = assert!(CONTEXTS == 16, "two words of weights");
const _: () = assert!(8 * (1 + DEVICES * (OF_DEVICE + DEVICES)) + 16 * TIMES <= PAGE as usize);

/// The number of devices and a block for each, in the order of the firmware's `Blocks` and `Block`; then the times of their kernels.
#[must_use]
pub fn description(system: &Resolved) -> Vec<u8> {
    let pool = system.board.memory.pool;
    // Devices of the board play themselves.
    let played = || system.devices.iter().enumerate().filter(|(_, device)| device.processor.is_none());
    let mut words = vec![played().count() as u64];
    let mut times = Vec::new();
    let first = 8 * (1 + played().count() * (OF_DEVICE + DEVICES));
    for (_, device) in played() {
        let drain = match device.mechanism {
            Mechanism::Switch => 0,
            Mechanism::Drain => u32::MAX,
            Mechanism::DrainThenSwitch { limit } => limit as u32,
        };
        words.extend([
            device.control,
            device.status,
            device.doorbells,
            device.memory,
            device.memory_bytes,
            pool,
            device.system_end - pool,
            u64::from(device.line),
            device.copy_engines as u64,
            u64::from(device.preemptible) | u64::from(drain) << 32,
            device.times.as_ref().map_or(u64::MAX, |own| own.len() as u64),
            (first + times.len()) as u64,
            device.size.number() as u64
                | u64::from(device.counters) << 8
                | (device.arbiter as u64) << 16
                | u64::from(device.sms) << 24
                | if device.keyed { KEYED } else { 0 }
                | u64::from(device.switch) << 32,
        ]);
        let weights = device.weights();
        words.extend(weights.as_chunks().0.iter().map(|eight| u64::from_le_bytes(*eight)));
        for (kernel, class, time) in device.times.iter().flatten() {
            times.extend([kernel.to_le_bytes(), class.to_le_bytes()].concat());
            times.extend(time.to_le_bytes());
        }
        let ways = played().map(|(other, _)| device.ways.get(other).unwrap_or(&Slowdown::NEAR));
        let ways = ways.chain(std::iter::repeat(&Slowdown::NEAR));
        words.extend(ways.take(DEVICES).map(|way| u64::from(way.0)));
    }
    words.iter().flat_map(|word| word.to_le_bytes()).chain(times).collect()
}

impl Device {
    /// The weight of each context.
    #[must_use]
    pub fn weights(&self) -> [u8; CONTEXTS] {
        std::array::from_fn(|context| {
            let task = self.contexts.get(context);
            let said = self.weighed.iter().find(|(weighed, _)| Some(weighed) == task);
            said.map_or(1, |(_, weight)| *weight)
        })
    }
}

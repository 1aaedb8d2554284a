//! The description that the engine firmware finds in `x0`.

use fusee_accel_contract::{DEVICES, timing::Slowdown};

use crate::resolve::Resolved;

/// The number of devices and a block for each, in the order of the firmware's `Blocks` and `Block`.
pub(crate) fn description(system: &Resolved) -> Vec<u8> {
    let pool = system.board.memory.pool;
    let mut words = vec![system.devices.len() as u64];
    for device in &system.devices {
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
            u64::from(device.preemptible),
        ]);
        let ways = device.ways.iter().chain(std::iter::repeat(&Slowdown::NEAR));
        words.extend(ways.take(DEVICES).map(|way| u64::from(way.0)));
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

//! The description block that the engine firmware finds in `x0`.

use crate::resolve::{Device, Resolved};

/// The bytes of the block, in the order of the firmware's `Block`.
pub(crate) fn description(system: &Resolved, device: &Device) -> Vec<u8> {
    let pool = system.board.memory.pool;
    let words = [
        device.control,
        device.status,
        device.doorbells,
        device.memory,
        device.memory_bytes,
        pool,
        device.system_end - pool,
        u64::from(device.line),
        device.copy_engines as u64,
    ];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

//! The meaning of a synchronous exception from EL0: from the syndrome register to the kernel's typed fault.
//!
//! Source: Arm ARM (DDI 0487) D24.2.40, ESR_EL1.

use aarch64_cpu::registers::FAR_EL1;
use fusee_kernel_core::{Fault, FaultKind};
use tock_registers::interfaces::Readable;

const INSTRUCTION_ABORT: u64 = 0x20;
const PROGRAM_COUNTER_ALIGNMENT: u64 = 0x22;
const DATA_ABORT: u64 = 0x24;
const STACK_ALIGNMENT: u64 = 0x26;
const SYSTEM_ERROR: u64 = 0x2f;

/// Aborts: the address register holds nothing.
const NO_ADDRESS: u64 = 1 << 10;
/// Data aborts: the access was a store.
const STORE: u64 = 1 << 6;
/// Data aborts: the access was cache maintenance, for which [`STORE`] is always set.
const MAINTENANCE: u64 = 1 << 8;
const STATUS: u64 = 0x3f;
const STATUS_ALIGNMENT: u64 = 0x21;
/// Synchronous external aborts, of the access itself and of table walks.
const STATUS_EXTERNAL: [u64; 5] = [0x10, 0x14, 0x15, 0x16, 0x17];

/// Statuses of translation faults, but for the level: an entry on the way to the page was not valid.
const STATUS_TRANSLATION: u64 = 0x04;
const LEVEL: u64 = 0x03;

/// Whether an access failed because its address was not mapped.
pub fn is_of_translation(syndrome: u64) -> bool {
    let class = syndrome >> 26 & 0x3f;
    class == DATA_ABORT && syndrome & STATUS & !LEVEL == STATUS_TRANSLATION
}

/// Statuses of permission faults, but for the level: the page is there, and not for this.
const STATUS_PERMISSION: u64 = 0x0c;

/// Whether a store failed because its address was not mapped, or only to be read.
pub fn is_of_store(syndrome: u64) -> bool {
    let class = syndrome >> 26 & 0x3f;
    // The two statuses differ in one bit.
    let is_mapping = syndrome & STATUS & !LEVEL & !(STATUS_TRANSLATION ^ STATUS_PERMISSION)
        == STATUS_TRANSLATION & STATUS_PERMISSION;
    class == DATA_ABORT && is_mapping && syndrome & (STORE | MAINTENANCE) == STORE
}

/// The fault that `syndrome` tells of. Reads the fault address register where it is valid.
pub fn decode(syndrome: u64) -> Fault {
    let class = syndrome >> 26 & 0x3f;
    let status = syndrome & STATUS;
    let (kind, has_address) = match class {
        INSTRUCTION_ABORT | DATA_ABORT => {
            let kind = match status {
                STATUS_ALIGNMENT => FaultKind::Alignment,
                _ if STATUS_EXTERNAL.contains(&status) => FaultKind::Other,
                _ if class == INSTRUCTION_ABORT => FaultKind::Execute,
                _ if syndrome & STORE != 0 && syndrome & MAINTENANCE == 0 => FaultKind::Write,
                _ => FaultKind::Read,
            };
            (kind, syndrome & NO_ADDRESS == 0)
        }
        PROGRAM_COUNTER_ALIGNMENT => (FaultKind::Alignment, true),
        STACK_ALIGNMENT => (FaultKind::Alignment, false),
        // Unknown reason, trapped wfi/wfe, SVE, illegal state, trapped system register.
        0x00 | 0x01 | 0x0e | 0x18 | 0x19 => (FaultKind::Illegal, false),
        // Breakpoint, single step, watchpoint, brk.
        0x30 | 0x32 | 0x3c => (FaultKind::Breakpoint, false),
        0x34 => (FaultKind::Breakpoint, true),
        SYSTEM_ERROR => (FaultKind::Other, false),
        _ => (FaultKind::Other, false),
    };
    Fault { kind, address: has_address.then(|| FAR_EL1.get()), syndrome }
}

//! The meaning of one instruction for the profiler.
//!
//! Encodings: Arm DDI 0487, C6.2 (`ERET`, `HINT`, `MRS`, `WFI`). Hints 64 and 65 are not allocated and do nothing, on any
//! processor; `fusee::mark` says a number with them, its highest bit first.

/// `mrs x0, cntvct_el0`; the register is in the lowest five bits.
const READ_COUNTER: u32 = 0xd53b_e040;
const REGISTER: u32 = 0x1f;
const WAIT_FOR_INTERRUPT: u32 = 0xd503_207f;
const EXCEPTION_RETURN: u32 = 0xd69f_03e0;
const HINT_64: u32 = 0xd503_281f;
const HINT_65: u32 = 0xd503_283f;

/// One instruction at its address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Instruction {
    pub address: u64,
    pub meaning: Meaning,
}

/// The effect of an instruction that concerns us.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Meaning {
    /// Nothing.
    Plain,
    /// A task reads the counter: a window ends, and another begins.
    TaskReadsCounter,
    /// The kernel reads the counter.
    KernelReadsCounter,
    /// The core sleeps.
    Wait,
    /// The kernel goes back to a task.
    Return,
    /// One bit of a number that a task says.
    Bit(bool),
}

impl Instruction {
    /// The instruction with this encoding, at this virtual address.
    pub fn decode(address: u64, encoding: u32) -> Instruction {
        let of_kernel = is_of_kernel(address);
        let meaning = match encoding {
            _ if encoding & !REGISTER == READ_COUNTER && of_kernel => Meaning::KernelReadsCounter,
            _ if encoding & !REGISTER == READ_COUNTER => Meaning::TaskReadsCounter,
            WAIT_FOR_INTERRUPT => Meaning::Wait,
            EXCEPTION_RETURN => Meaning::Return,
            HINT_64 => Meaning::Bit(false),
            HINT_65 => Meaning::Bit(true),
            _ => Meaning::Plain,
        };
        Instruction { address, meaning }
    }
}

/// The kernel is in the upper half.
pub fn is_of_kernel(address: u64) -> bool {
    address >> 63 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: u64 = 0x40_0000;
    const KERNEL: u64 = 0xffff_ff80_4008_0000;

    #[test]
    fn whose_reading_of_the_counter_it_is_follows_from_the_address() {
        let meaning = |address| Instruction::decode(address, 0xd53b_e048).meaning;
        assert_eq!(meaning(TASK), Meaning::TaskReadsCounter);
        assert_eq!(meaning(KERNEL), Meaning::KernelReadsCounter);
    }

    #[test]
    fn other_registers_and_hints_are_plain() {
        // `mrs x0, cntpct_el0`, `mrs x0, cntfrq_el0`, `nop`, `wfe`, `hint #63`, `hint #66`.
        for encoding in [0xd53b_e020, 0xd53b_e000, 0xd503_201f, 0xd503_205f, 0xd503_27ff, 0xd503_285f] {
            assert_eq!(Instruction::decode(TASK, encoding).meaning, Meaning::Plain);
        }
    }
}

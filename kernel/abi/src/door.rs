//! The messages between a program that is built for the host and the simulator that runs it.
//!
//! The program's standard input is a stream socket to the simulator, its standard output the memory of all tasks. The program sends an [`Ask`] and waits
//! for the [`Answer`], which is followed by the changes of its mappings. The first answer comes without an ask, and begins a life of the task.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::call::KEPT;

/// The variable in the environment of a program that the simulator runs. Its value is [`VERSION`].
pub const VARIABLE: &str = "FUSEE_DOOR";
/// The version of these messages.
pub const VERSION: &str = "1";
/// The exit code of a program that knows another version.
pub const OTHER_VERSION: i32 = 112;
/// The exit code of a program that could not set up its memory.
pub const NO_MEMORY: i32 = 113;

/// Registers that a call may use: `x0` to `x12`.
pub const REGISTERS: usize = KEPT + 1;

/// The kind of an [`Ask`].
pub mod ask {
    /// A system call, with its registers. The answer has the registers after the call.
    pub const CALL: u64 = 1;
    /// To compute for the nanoseconds in the first register.
    pub const BURN: u64 = 2;
    /// To read the board's counter. The answer has it in the first register.
    pub const COUNTER: u64 = 3;
    /// A fault of the program: its kind, as the kernel numbers it, the address or all ones, the address of the instruction, and the stack pointer. It has no
    /// answer.
    pub const FAULT: u64 = 4;
}

/// The kind of a fault, as the kernel numbers it.
pub mod fault {
    /// A load from an address that may not be read.
    pub const READ: u64 = 1;
    /// A store to an address that may not be written.
    pub const WRITE: u64 = 2;
    /// A jump to an address that may not be executed.
    pub const EXECUTE: u64 = 3;
    /// An instruction that is undefined or not allowed.
    pub const ILLEGAL: u64 = 4;
    /// A breakpoint.
    pub const BREAKPOINT: u64 = 6;
    /// Anything else.
    pub const OTHER: u64 = 7;
}

/// The registers of the first [`Answer`].
pub mod first {
    /// The address of the environment page.
    pub const ENVIRONMENT: usize = 0;
    /// The number of the life.
    pub const LIFE: usize = 1;
    /// The end of the stack, which grows down.
    pub const STACK_TOP: usize = 2;
    /// The length of the stack, whole pages.
    pub const STACK_BYTES: usize = 3;
    /// The first of the addresses at which messages map something.
    pub const SPAN: usize = 4;
    /// The end of these addresses.
    pub const SPAN_END: usize = 5;
}

/// A message of the program.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Ask {
    /// One of [`ask`].
    pub kind: u64,
    /// Registers.
    pub registers: [u64; REGISTERS],
}

/// A message of the simulator.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Answer {
    /// Registers; of the first answer those of [`first`].
    pub registers: [u64; REGISTERS],
    /// How many [`Mapping`]s follow.
    pub mappings: u64,
}

/// A change of a program's address space.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Mapping {
    /// First address, of a page.
    pub address: u64,
    /// Length, whole pages.
    pub bytes: u64,
    /// The place in the memory of all tasks.
    pub offset: u64,
    /// The allowed accesses, bits of `image::mapping`. None: an access faults.
    pub access: u64,
}

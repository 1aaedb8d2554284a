//! The last page of the processor's own memory, with its request and its answer.
//!
//! The driver writes a request while the processor is held in reset, and releases it: that is the doorbell. The firmware writes its answer, stores
//! [`START`] to the word at [`KICK`], by which a prepared channel of the DMA controller raises an interrupt, and sleeps until the next reset.

/// Bytes of the processor's own memory, from address 0 on.
pub const MEMORY_BYTES: u64 = 512 << 10;
/// Offset of the mailbox in it: the firmware's code and data end below.
pub const MAILBOX: usize = MEMORY_BYTES as usize - 4096;

/// Offset in the mailbox of a `Command` of `accel/contract` with physical addresses, as it stands in a ring. By the driver.
pub const COMMAND: usize = 0x00;
/// Offset of the number of the request, `u32`. By the driver.
pub const NUMBER: usize = 0x40;
/// Offset of the physical address of the word that starts the channel, `u32`. By the driver.
pub const KICK: usize = 0x44;
/// Offset of the number of the request that the processor has begun with, `u32`. By the firmware, first of all.
pub const BEGUN: usize = 0x7c;
/// Offset of one of [`DONE`] and [`REFUSED`], `u32`. By the firmware.
pub const OUTCOME: usize = 0x80;
/// Offset of the number of the request that [`OUTCOME`] is about, `u32`. By the firmware, after the outcome.
pub const ANSWERED: usize = 0x84;

/// The value that starts a channel of the DMA controller.
pub const START: u32 = 1;

/// The request is done, and all results are written.
pub const DONE: u32 = 1;
/// The firmware knows no such operation.
pub const REFUSED: u32 = 2;

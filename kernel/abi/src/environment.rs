//! The page that lists the objects of a task.
//!
//! `xtask` writes one per task from the manifest; the task finds its address in `x0` at its first
//! instruction. A count, then that many [`Entry`] records, all read only.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The first word of the page: "FUSEEENV".
pub const MAGIC: u64 = u64::from_le_bytes(*b"FUSEEENV");

/// The start of the page.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// Number of entries that follow.
    pub entries: u64,
    /// Name of the task, zero padded.
    pub task: [u8; 16],
}

/// The kind of an entry; the object kinds of `image::kind`, and these.
pub mod kind {
    /// A number from the manifest's `parameters`; it is in `address`.
    pub const PARAMETER: u32 = 32;
    /// The doorbell page of an engine: `address` is where it appears while the lock is held.
    pub const DOORBELL: u32 = 33;
    /// The task's script: `address` and `bytes`.
    pub const SCRIPT: u32 = 34;
    /// The place for a region that others lend: `address` and `bytes`, where it appears while it is lent.
    pub const PLACE: u32 = 35;
    /// Data of the program, of a task with several lives: each life begins with copying `bytes` bytes from `address` to `physical`, which is an
    /// address of the task here, and zeroing the rest there of as many bytes as the field `handle` says.
    pub const INITIAL: u32 = 36;
}

/// Kinds of devices, in the flags of a region of a device that the board names.
pub mod device {
    /// The UART PL011 of Arm.
    pub const PL011: u32 = 1;
    /// Cadence's serial line.
    pub const CADENCE: u32 = 2;
    /// The reset controller of a Cortex-R5F.
    pub const R5F: u32 = 3;
    /// A channel of a DMA controller with the registers of Xilinx's ZDMA.
    pub const ZDMA: u32 = 4;
    /// A slot for a virtio device, its registers in memory.
    pub const VIRTIO: u32 = 5;
    /// Arm's general purpose lines PL061.
    pub const PL061: u32 = 6;
    /// Arm's real-time clock PL031.
    pub const PL031: u32 = 7;
    /// QEMU's device for teaching.
    pub const EDU: u32 = 8;
    /// The configuration space of a function on PCI.
    pub const PCI: u32 = 9;
    /// A CAN controller of Xilinx's ZynqMP.
    pub const ZYNQMP_CAN: u32 = 10;
}

/// In the flags of a region of memory: no other task has a handle of it.
pub const ALONE: u32 = 1 << 16;

/// In the flags of an engine: it can do operations block by block. The number is in the bits below.
pub const PREEMPTIBLE: u32 = 1 << 8;

/// In the flags of an engine: the task uses it without its lock. There is no handle.
pub const SHARED: u32 = 1 << 9;

/// Offset in a doorbell page of a word that is zero. In the page that takes the place of a doorbell page when the engine's lock was
/// taken away by force, it is [`LOST`].
pub const LOST_WORD: u64 = 8;
/// The value of [`LOST_WORD`] in memory that has taken the place of a doorbell.
pub const LOST: u32 = 1;

/// One thing the task was given, by the name the manifest uses.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Entry {
    /// Name, zero padded.
    pub name: [u8; 24],
    /// `image::kind` or [`kind`].
    pub kind: u32,
    /// Of a region: one of [`device`], if the board names the device's kind; or [`ALONE`]. Of an engine and its doorbell: its number on its device,
    /// and [`PREEMPTIBLE`] and [`SHARED`]. Of a pool: how many of its tokens are for each of its devices.
    pub flags: u32,
    /// The handle's value, where there is one.
    pub handle: u64,
    /// Virtual address, where there is one, or the value of a parameter.
    pub address: u64,
    /// Length in bytes, where there is one.
    pub bytes: u64,
    /// Physical address, for tasks that program devices; otherwise zero.
    pub physical: u64,
}

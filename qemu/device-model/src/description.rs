//! The description that a device gets of itself before it works.

use crate::{PEERS, Peer, Sms, Window};
use fusee_accel::sharing::Arbiter;
use fusee_accel_contract::{Contexts, CopyEngines, DOORBELL_PAGES, Memory, PAGE_BYTES, timing::Slowdown};

/// The memory that the device may touch, in physical addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Description {
    /// The control page.
    pub control: u64,
    /// The status page.
    pub status: u64,
    /// The first of [`DOORBELL_PAGES`] doorbell pages, one after the other.
    pub doorbells: u64,
    /// Device memory, of no length without copy engines.
    pub local: Window,
    /// Memory of the board in which clients and translation tables may be.
    pub system: Window,
    /// How many copy engines there are.
    pub copy_engines: CopyEngines,
    /// Whether the execution engine does transforms stage by stage, too.
    pub preemptible: bool,
    /// The way to memory of the board.
    pub slowdown: Slowdown,
    /// Memory of other devices; a missing one has no length.
    pub peers: [Peer; PEERS],
    /// How many contexts there are.
    pub contexts: Contexts,
    /// The policy that chooses the next command of each engine.
    pub arbiter: Arbiter,
    /// Nanoseconds by which a command takes longer if the one before on its engine was of another context.
    pub switch: u64,
    /// Whether the device counts the usage of each context.
    pub counters: bool,
    /// The SMs of the execution engine, of a device that was [equipped](crate::Device::equip) with some.
    pub sms: Option<Sms>,
}

/// Why a [`Description`] was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DescriptionError {
    /// An address or length is not a multiple of a page, or a range goes beyond 2^64.
    Unaligned,
    /// Two of the ranges share an address: a client could be given the device's own pages.
    Overlap,
    /// Device memory without a copy engine, or the reverse.
    Memory,
    /// SMs that it was not equipped with, or not 1 to 16; or a change of context takes time, which on SMs it does not.
    Sms,
    /// The bus knows no memory where a page of the device should be.
    Bus,
}

impl Description {
    /// Whether a device could be so.
    pub(crate) fn check(&self) -> Result<(), DescriptionError> {
        let page = |base, pages| Window { base, length: pages * PAGE_BYTES };
        let mut ranges = [Window::default(); 5 + PEERS];
        ranges[0] = page(self.control, 1);
        ranges[1] = page(self.status, 1);
        ranges[2] = page(self.doorbells, DOORBELL_PAGES as u64);
        ranges[3] = self.local;
        ranges[4] = self.system;
        for (range, peer) in ranges[5..].iter_mut().zip(&self.peers) {
            *range = peer.memory;
        }
        let aligned = |range: &Window| {
            range.base.is_multiple_of(PAGE_BYTES)
                && range.length.is_multiple_of(PAGE_BYTES)
                && range.base.checked_add(range.length).is_some()
        };
        if !ranges.iter().all(aligned) {
            return Err(DescriptionError::Unaligned);
        }
        for (index, range) in ranges.iter().enumerate() {
            if ranges[..index].iter().any(|other| other.overlaps(range)) {
                return Err(DescriptionError::Overlap);
            }
        }
        if (self.copy_engines.operands() == Memory::Local) != (self.local.length > 0) {
            return Err(DescriptionError::Memory);
        }
        if self.sms.is_some() && self.switch > 0 {
            return Err(DescriptionError::Sms);
        }
        Ok(())
    }
}

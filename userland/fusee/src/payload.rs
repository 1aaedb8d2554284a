//! Payloads of requests: bytes at the beginning of a region that is lent with a request, and a stamp behind them.

use crate::{Region, now};

/// Bytes at the end of a region that are for the stamp, and not for payloads.
pub const STAMP: usize = 8;

/// A payload at the beginning of the region that is lent with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Payload {
    /// Its bytes.
    pub length: usize,
    /// The number in the last bytes of the region as long as it is lent.
    pub stamp: u64,
}

impl Payload {
    /// Bytes of a payload that `memory` has room for.
    pub(crate) fn room(memory: &Region) -> usize {
        memory.shared().len().saturating_sub(STAMP)
    }

    /// Puts `bytes` into `memory`, which has room for them, and a stamp behind them: the present time, which it never was before.
    pub(crate) fn put(memory: &Region, bytes: &[u8]) -> Payload {
        let shared = memory.shared();
        let stamp = now().now.0;
        shared.copy_from_slice(0, bytes);
        if let Some(last) = shared.len().checked_sub(STAMP) {
            shared.write_u64(last, stamp);
        }
        Payload { length: bytes.len(), stamp }
    }
}

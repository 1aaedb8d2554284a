//! Functions on PCI: their windows are not set before their drivers do it.

use fusee::Region;
use safe_mmio::field;
use safe_mmio::fields::{ReadPure, ReadPureWrite};
use zerocopy::FromBytes;

use crate::registers::{ClaimError, claim};

/// The start of a configuration space (PCI Local Bus Specification 3.0, 6.1).
#[derive(FromBytes)]
#[repr(C)]
struct Configuration {
    identity: ReadPure<u32>,
    command: ReadPureWrite<u32>,
    class: ReadPure<u32>,
    header: ReadPureWrite<u32>,
    window: ReadPureWrite<u32>,
}

/// Bits of the permissions that [`enable`] gives a function: answer to addresses of ports,
pub const PORTS: u32 = 1;
/// answer to addresses of memory,
pub const MEMORY: u32 = 1 << 1;
/// and use memory itself.
pub const MASTER: u32 = 1 << 2;

/// Puts the first window of the function with this configuration space at `window`, and gives it the permissions `may`.
///
/// # Errors
/// As of [`claim`].
pub fn enable(space: &Region, window: u32, may: u32) -> Result<(), ClaimError> {
    let mut function = claim::<Configuration>(space)?;
    field!(function, window).write(window);
    field!(function, command).write(may);
    Ok(())
}

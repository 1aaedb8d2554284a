//! From a region to registers: each region is claimed at most once, and then belongs to one typed pointer.

use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU64, Ordering};
use fusee::Region;
use safe_mmio::UniqueMmioPointer;
use zerocopy::FromBytes;

/// Bit `i`: the region in slot `i` of the handle table has been claimed.
static CLAIMED: AtomicU64 = AtomicU64::new(0);

/// Why a region did not become registers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClaimError {
    /// The registers need more bytes than the region has.
    TooSmall,
    /// The region's address is not aligned for the registers.
    Misaligned,
    /// The region has been claimed before, or its handle lies beyond slot 63.
    Taken,
}

/// The registers `T` at the start of `region`.
///
/// # Errors
/// [`ClaimError`] if they do not fit, or are claimed already.
pub fn claim<T: FromBytes>(region: &Region) -> Result<UniqueMmioPointer<'static, T>, ClaimError> {
    let registers = take(region)?;
    // SAFETY: `UniqueMmioPointer::new` demands an aligned pointer to device registers of type `T`, and no alias.
    // - Aligned, large enough, claimed once: `take` checked it.
    // - Device registers: the environment page says the region is there, the manifest check lets nothing else lie
    //   there, and the kernel maps device regions as device memory. Any value is a `T` (`FromBytes`).
    // - No alias in this task: a region is claimed once; `Region::shared` copies words by volatile accesses and
    //   holds no reference. Other tasks: the manifest declares the tasks that share a device, and they cannot name our memory.
    Ok(unsafe { UniqueMmioPointer::new(registers) })
}

/// The start of `region`, in which a `T` fits. It is claimed from here on.
pub(crate) fn take<T>(region: &Region) -> Result<NonNull<T>, ClaimError> {
    if size_of::<T>() > region.shared().len() {
        return Err(ClaimError::TooSmall);
    }
    let start = NonNull::new(with_exposed_provenance_mut::<T>(region.address()))
        .filter(|pointer| pointer.is_aligned())
        .ok_or(ClaimError::Misaligned)?;
    let bit = 1u64.checked_shl(region.slot().into()).ok_or(ClaimError::Taken)?;
    // Relaxed: the bit guards no memory, and a task has one thread.
    if CLAIMED.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return Err(ClaimError::Taken);
    }
    Ok(start)
}

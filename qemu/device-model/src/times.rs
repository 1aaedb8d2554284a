//! The times of kernels' blocks: measured ones, kept in the control page, and those that a device takes for kernels without a time by their author.

use fusee_accel_contract::{
    CONTROL_KERNELS, KERNEL_BLOCK, KERNEL_BYTES, KERNEL_CLASS, KERNEL_IDENTITY, KERNEL_LAUNCHES, KERNEL_NAME,
    KERNEL_NAME_BYTES, KERNEL_RAN, KERNEL_SAID, KERNELS, timing,
};
use fusee_compute::{Entry, MEASURED};

use crate::Bus;

/// The time of a block of a kernel without a time by its author.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct BlockTime {
    /// The kernel.
    pub identity: u32,
    /// The class of its launches, see [`fusee_compute::Kernel::class`].
    pub class: u32,
    /// Nanoseconds.
    pub time: u64,
}

/// Where a device has the times of such kernels from.
#[derive(Clone, Copy, Debug)]
pub enum Times {
    /// They were measured. Launches of others are refused.
    Known(&'static [BlockTime]),
    /// They are measured: launches of such kernels end when their blocks have.
    Measuring,
}

impl Times {
    /// The time of the blocks of such a launch; `None`: it is to be measured.
    ///
    /// # Errors
    /// If nothing was measured of it.
    pub(crate) fn of(self, identity: u32, class: u32, blocks: u32) -> Result<Option<u64>, Unmeasured> {
        let Self::Known(all) = self else { return Ok(None) };
        let one = all.iter().find(|one| (one.identity, one.class) == (identity, class)).ok_or(Unmeasured)?;
        Ok(Some(one.time.saturating_mul(blocks.into())))
    }
}

/// Nothing was measured of a launch.
pub(crate) struct Unmeasured;

/// A launch, and the time for which it ran.
#[derive(Clone, Copy)]
pub(crate) struct Launched {
    pub entry: &'static Entry,
    pub class: u32,
    /// The number of its first job.
    pub first: u64,
    /// Instructions that a block may execute.
    pub instructions: usize,
    /// The known time in nanoseconds; `None`: it is being measured.
    pub said: Option<u64>,
    /// Nanoseconds for which its blocks ran, the longest of them, and the one under way.
    pub ran: u64,
    pub longest: u64,
    pub block: u64,
}

/// The measurements of the launches of a class.
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    identity: u32,
    class: u32,
    launches: u32,
    /// The time of the launch that ran for the largest part of its declared time.
    ran: u64,
    said: Option<u64>,
    /// The longest block.
    block: u64,
}

impl Measured {
    pub const NOTHING: Self = Self { identity: 0, class: 0, launches: 0, ran: 0, said: None, block: 0 };

    /// Takes down the time of a launch that ended well, here and for readers of the control page. A class for which there is no room is not taken
    /// down.
    pub fn take_down(all: &mut [Self; KERNELS], launched: &Launched, control: u64, bus: &mut impl Bus) {
        let Launched { entry, class, ran, said, longest, .. } = *launched;
        let is_it = |one: &Self| one.launches == 0 || (one.identity, one.class) == (entry.identity, class);
        let Some(place) = all.iter().position(is_it) else { return };
        let (one, at) = (&mut all[place], control + CONTROL_KERNELS + KERNEL_BYTES * place as u64);
        let whole = |said: Option<u64>| u128::from(said.unwrap_or(0)) + u128::from(timing::EXECUTION_SETUP);
        let is_worse = u128::from(ran) * whole(one.said) > u128::from(one.ran) * whole(said);
        if one.launches == 0 || is_worse {
            (one.ran, one.said) = (ran, said);
            let _ = bus.write_u64(at + KERNEL_RAN, ran);
            let _ = bus.write_u64(at + KERNEL_SAID, said.unwrap_or(MEASURED));
        }
        if one.launches == 0 {
            (one.identity, one.class) = (entry.identity, class);
            let mut name = [0; KERNEL_NAME_BYTES];
            let length = entry.name.len().min(name.len());
            name[..length].copy_from_slice(&entry.name.as_bytes()[..length]);
            let _ = bus.write(at + KERNEL_NAME, &name);
            let _ = bus.write_u32(at + KERNEL_IDENTITY, entry.identity);
            let _ = bus.write_u32(at + KERNEL_CLASS, class);
        }
        one.block = one.block.max(longest);
        let _ = bus.write_u64(at + KERNEL_BLOCK, one.block);
        one.launches = one.launches.saturating_add(1);
        let _ = bus.write_u32(at + KERNEL_LAUNCHES, one.launches);
    }
}

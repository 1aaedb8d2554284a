//! The emulator's door: how a run ends with an exit code.

use core::arch::asm;

/// Ends the emulator with a code, by two words at `x1`.
pub const SYS_EXIT_EXTENDED: u64 = 0x20;
/// `ADP_Stopped_ApplicationExit`, the first of them.
pub const APPLICATION_EXIT: u64 = 0x2_0026;

/// Ends the emulator with `code`. Returns only if there is no answer, and where semihosting is off the
/// instruction is undefined: the caller's exception vector must be ready for that.
pub fn exit(code: u32) {
    let block = [APPLICATION_EXIT, u64::from(code)];
    // SAFETY: SYS_EXIT_EXTENDED reads two words at x1, which `block` provides, and writes only x0.
    unsafe {
        asm!("hlt #0xf000", inout("x0") SYS_EXIT_EXTENDED => _, in("x1") &raw const block, options(nostack));
    }
}

//! Where things lie in a task's address space. `linker/task.ld` and `userland/fusee` agree.

/// Bytes of a page.
pub const PAGE: u64 = fusee_abi::image::PAGE;
/// First address of a binary's segments.
pub const BINARY: u64 = 0x0020_0000;
/// End of the addresses for segments.
pub const BINARY_END: u64 = ENVIRONMENT;
/// The environment page.
pub const ENVIRONMENT: u64 = 0x6000_0000;
/// The script of a scripted task.
pub const SCRIPT: u64 = 0x6100_0000;
/// The firmware of a processor, in the task that drives it.
pub const FIRMWARE: u64 = 0x6180_0000;
/// The data that each life of a task with several begins with.
pub const INITIAL: u64 = 0x6200_0000;
/// End of the stack, which grows down; the page below the stack is never mapped.
pub const STACK_TOP: u64 = 0x7000_0000;
/// Most bytes of a stack.
pub const STACK_MAX: u64 = STACK_TOP - INITIAL - 0x0100_0000;
/// The first region; each starts at a boundary of its own, at the same address in all tasks.
pub const REGIONS: u64 = 0x8000_0000;
/// Boundary of regions: the span of one last-level translation table.
pub const REGION_STEP: u64 = 2 << 20;
/// The largest region that can be lent: its place has a table for each step, which are changed in one trap.
pub const LENT_MAX: u64 = 4 * REGION_STEP;
/// End of the addresses for regions, and the first doorbell page.
pub const DOORBELLS: u64 = 0xC000_0000;
/// Distance of doorbell pages: between two of them a page stays unmapped.
pub const DOORBELL_STEP: u64 = 2 * PAGE;
/// In a sharer, the doorbell pages of the members of its first engine, one behind the other, and then their shadows.
pub const MEMBERS: u64 = 0xC100_0000;
/// The address where the doorbell pages of the members of this engine begin in its sharer.
#[must_use]
pub const fn members(engine: usize) -> u64 {
    MEMBERS + engine as u64 * 32 * PAGE
}
/// Entries that fit into an environment page.
pub const ENVIRONMENT_ENTRIES: usize =
    (PAGE as usize - size_of::<fusee_abi::environment::Header>()) / size_of::<fusee_abi::environment::Entry>();

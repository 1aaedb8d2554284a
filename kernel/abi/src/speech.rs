//! The lines of a kernel that speaks: the kernel writes them on the serial line, a host reads them there.
//!
//! A kernel with the feature `speaks` prints a line for each step of its start that is done: [`START`], the number of the [`Step`], and words. Once its system
//! has ended it prints [`END`] with exit code and number of records, the records in frames (`fusee-frames`), and [`SENT`]. A zero byte goes before
//! and after each frame and each of the last two lines, and is in none of them. All other text has no zero bytes.

/// The beginning of the line of a step, before its number.
pub const START: &str = "fusee: start ";
/// The beginning of the line after the end of a system, before its exit code and the number of records that follow.
pub const END: &str = "fusee: end ";
/// The beginning of the last line, before the number of records that were sent.
pub const SENT: &str = "fusee: sent ";
/// The word before the checksum of the packed system, in the line of [`Step::Tasks`].
pub const CHECKSUM: &str = "checksum ";

/// A step of a start, in their order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Step {
    /// The kernel runs, with its packed system.
    Kernel = 1,
    /// The device tree, if there is one, is that of the board.
    Board,
    /// All CPUs enter at an exception level that serves.
    Level,
    /// Memory is there, and is translated by the kernel's own tables.
    Memory,
    /// The interrupt controller answers.
    Controller,
    /// The counter runs.
    Counter,
    /// All CPUs have come.
    Cpus,
    /// The objects of the system are made: tasks follow.
    Tasks,
}

impl Step {
    /// All steps.
    pub const ALL: [Step; 8] = [
        Step::Kernel,
        Step::Board,
        Step::Level,
        Step::Memory,
        Step::Controller,
        Step::Counter,
        Step::Cpus,
        Step::Tasks,
    ];

    /// The number of the step, from 1 on.
    #[must_use]
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// The word that names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Step::Kernel => "kernel",
            Step::Board => "board",
            Step::Level => "level",
            Step::Memory => "memory",
            Step::Controller => "interrupt controller",
            Step::Counter => "counter",
            Step::Cpus => "CPUs",
            Step::Tasks => "tasks",
        }
    }
}

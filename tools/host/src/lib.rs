//! Builds systems, runs them in QEMU, and reads their remains.
//!
//! Arrows between these modules go up this list only:
//!
//! ```text
//! evidence   the results of a run, for judges
//! kept       the files of the last run of a project
//! on         one run on a board, at a serial port
//! run        one run of an image: QEMU, trace, verdict, report
//! ends       ends of runs whose systems do not end themselves
//! isolation  translation tables, compared with the manifest
//! kernels    how long blocks of GPU kernels took
//! report     trace -> fault reports and the table of tasks
//! answers    the output of `--json`
//! observed   declarations of tasks beside observations
//! judge      whether a run kept the promises of its manifest
//! decisive   tasks whose end ends a run
//! workspace  the workspace of a command, and the image of a system
//! defmt      messages of tasks by the crate `defmt`
//! pulse      guest memory -> time, and which threads have ended, while it runs
//! look       guest memory -> tasks, their waits and their locks
//! typed      memory -> values, by the names of the source
//! decode     guest memory -> trace, addresses -> source lines, stacks -> calls
//! screen     when a picture of a screen is made
//! qemu       runs an image under a time limit
//! line       a serial line on which a kernel speaks
//! port       a serial port of this host
//! build      kernel, firmware, tasks and manifest -> one bootable image
//! remap      names of sources in programs
//! project    the cargo workspace that a command is about
//! turns      how long the turns of emulated CPUs may be
//! errata     instructions that the compiler must not use
//! toolchain  finds a compiler that has the targets, and QEMU
//! words      words of all reports: colours, spans of time
//! echo       the host as a peer of a system
//! meter      CPU time of a thread and of its programs
//! picture    pictures of a screen
//! table      tables that fit a terminal
//! ```
//!
//! Not here: commands (`tools/fusee`), checks of this repository (`tests/systems`), measurements (`research`).
#![forbid(unsafe_code)]
// `words::print` handles a closed pipe and a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout))]

pub mod answers;
pub mod build;
pub mod counts;
pub mod decisive;
pub mod decode;
pub mod defmt;
pub mod echo;
pub mod ends;
pub mod errata;
pub mod evidence;
pub mod folders;
pub mod isolation;
pub mod judge;
pub mod kept;
pub mod kernels;
pub mod line;
pub mod look;
pub mod meter;
pub mod observed;
pub mod on;
pub mod picture;
pub mod port;
pub mod project;
pub mod pulse;
pub mod qemu;
pub mod remap;
pub mod report;
pub mod run;
pub mod screen;
pub mod table;
pub mod toolchain;
pub mod turns;
pub mod typed;
pub mod words;
pub mod workspace;

/// One system from manifest to verdict: its workspace, its run, and its files.
pub mod system {
    pub use crate::kept::*;
    pub use crate::run::*;
    pub use crate::workspace::*;
}

//! The crate that tasks of Fusee are written against: typed handles, jobs, messages, engines, time.
//!
//! Fusee is a message-passing real-time microkernel for AArch64, with accelerators as locks that the kernel enforces. A *system* is one file, the manifest:
//! it names the programs, gives each task a budget, a deadline and handles, and is proved before it runs. The command `fusee new` makes a project with a
//! task and a manifest, and `fusee run` runs it in QEMU. The book is the folder `docs` of Fusee's repository; it begins with `docs/SUMMARY.md`.
//!
//! # A task with a deadline
//!
//! `docs/first-task.md` has its manifest: a period of 10 ms, a budget of 2 ms, and two handles.
//!
#![doc = concat!("```no_run\n", include_str!("../examples/pulse.rs"), "```")]
//!
//! # A second task
//!
//! `docs/own-project.md` adds it to a system. A program is a file, and several tasks may run one program.
//!
#![doc = concat!("```no_run\n", include_str!("../examples/lamp.rs"), "```")]
//!
//! # A server
//!
//! `fusee new --with server` makes this server and its client. A server has no budget of its own: it runs at the priority and on the budget of the client
//! that calls it.
//!
#![doc = concat!("```no_run\n", include_str!("../examples/filter.rs"), "```")]
//!
//! # A client
//!
#![doc = concat!("```no_run\n", include_str!("../examples/sensor.rs"), "```")]
//!
//! # Features
//!
//! | Feature | Adds |
//! |---|---|
//! | `alloc` | a heap, for the types of the crate `alloc`: `heap!` |
//! | `defmt`, `log` | messages of these crates, which go into the trace |
//! | `embedded-can` | a CAN bus, by the traits of that crate: the module `can` |
//! | `embedded-graphics` | pictures on a screen, by the traits of `embedded-graphics-core` |
//! | `embedded-hal` | pins, by the traits of that crate: the module `gpio` |
//! | `embedded-io` | a serial line, by the traits of that crate: the module `serial` |
//! | `embedded-nal` | datagrams and connections, by the traits of that crate |
//! | `files` | files of a FAT volume, and logs whose records outlive a loss of power |
//! | `gpu` | the client's side of accelerators: buffers, launches, fences, copies between devices |
//! | `misbehave` | faults on request, for tests of the kernel |
//!
//! # Handles
//!
//! A task owns nothing it was not given in the manifest. It asks [`environment`] for each thing by the name the
//! manifest uses, and gets a handle with a type that has its operations. No use of a task's
//! handles harms other tasks; a refused call comes back as a small enum that lists the errors of *this* call.
//!
//! # Invariants
//!
//! 1. Memory shared with other tasks or devices is never borrowed: bytes are copied in and out
//!    ([`SharedBytes`]), because others may write at any moment.
//! 2. `unsafe` lives in `syscall`, in `memory`, in the expansion of [`entry!`], for the simulator in `door`, and, behind features, in `misbehave`,
//!    which provokes faults, in `heap`, and in `defmt_logger`. Programs can forbid it.
//! 3. An engine's doorbell is reachable only through an [`EngineGuard`], and dropping that gives the engine back.
//! 4. A token of a pool is held as long as its [`Token`] lives, and a task has one of each pool at most.
//!
//! A wrong order of these is an error of the compiler wherever it can be one (`tests/ui`).
//!
//! On the host the crate builds with a kernel that refuses every call, so that its pure parts can be tested there. A program that the simulator starts makes
//! its calls to the simulated kernel; that needs Linux on x86-64.
//!
//! Not here: numbers and layouts (`kernel/abi`), registers of devices (`drivers/framework`).
#![no_std]

mod again;
pub mod block;
#[cfg(feature = "embedded-can")]
pub mod can;
#[cfg(feature = "embedded-graphics")]
mod canvas;
mod channel;
pub mod console;
pub mod crypto;
#[cfg(feature = "defmt")]
#[cfg_attr(not(target_os = "none"), allow(dead_code))]
mod defmt_logger;
pub mod display;
pub mod dma;
#[cfg(door)]
mod door;
mod doorbells;
mod endpoint;
mod engine;
mod environment;
mod error;
#[cfg(feature = "files")]
pub mod files;
#[cfg(feature = "embedded-hal")]
pub mod gpio;
#[cfg(feature = "gpu")]
pub mod gpu;
mod grant;
pub mod graph;
#[cfg(feature = "alloc")]
pub mod heap;
mod job;
mod loan;
mod memory;
#[cfg(feature = "log")]
pub mod messages;
#[cfg(feature = "gpu")]
pub mod migration;
#[cfg(all(feature = "misbehave", any(door, target_arch = "aarch64")))]
pub mod misbehave;
mod mutex;
pub mod net;
mod notification;
#[cfg(any(door, target_os = "none"))]
mod panic;
mod payload;
mod pool;
mod region;
mod rings;
pub mod rtc;
#[cfg(feature = "embedded-io")]
pub mod serial;
pub mod session;
pub mod sharing;
#[cfg_attr(not(target_os = "none"), path = "syscall_host.rs")]
mod syscall;
mod system;
#[cfg_attr(not(any(door, target_os = "none")), allow(dead_code))]
mod trace_text;
pub mod usage;

pub mod raw;

pub use channel::{ChannelError, Receiver, Sender};
pub use doorbells::{DoorbellPage, Doorbells, Store, Verdict};
pub use endpoint::{Answer, Endpoint, Message, ReplyToken, ReplyWithError, Request, Server};
pub use engine::{Engine, EngineGroup, EngineGuard, Kick};
pub use environment::{Environment, MissingHandle, Object, environment};
pub use error::{
    AcknowledgeError, AcquireError, CallError, CallLendingError, CallWithError, CompleteError, CreditError, DmaError,
    EngineError, GiveError, HandleError, JobError, RegionError, ReleaseJobError, ReservationError, RestartError,
    RevokeError, SendError, SendWithError, ServeError, ShareError, SignalError, SleepError, StopError, WaitError,
    YieldError,
};
pub use fusee_abi as abi;
pub use fusee_sched::time::{Instant, Nanoseconds};
pub use grant::{Grantable, Rights, give_up, revoke};
pub use job::{Clock, JobInfo, burn, early_release, next_job, now, sleep_until, yield_now};
pub use loan::{Lent, LentToWrite, Place};
pub use memory::{SharedBytes, life};
pub use mutex::{Condvar, CondvarError, LockError, Mutex, MutexGuard};
pub use notification::{Interrupt, Notification};
pub use pool::{Pool, Token};
pub use region::Region;
pub use rings::{Batch, NoTrace, Rings};
pub use syscall::{complete_stores, counter, mark, relax};
pub use system::{End, Ending, System, Task, exit, log, null, shutdown};

#[doc(hidden)]
pub use memory::start as __start;

#[cfg(door)]
#[doc(hidden)]
pub use door::begin as __begin;

#[doc(hidden)]
pub const __NOTE: fusee_abi::program::Note = fusee_abi::program::Note::new(env!("CARGO_PKG_VERSION"));

/// Exit code of a task that panicked.
pub const PANIC_CODE: u64 = fusee_abi::trace::PANIC_CODE;

/// Makes `main` the first function of the task.
///
/// When it returns, the task ends with code 0. The kernel provides the stack and, in `x0`, the address of the
/// environment page. In the simulator, `main` is the first function of a process of the host, which ends with the task; on the host without
/// it, `main` is an ordinary one.
///
/// The program gets a note of the version that it was built for, by which `cargo xtask` refuses a program of another version than
/// the kernel's.
#[cfg(target_os = "none")]
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        const _: () = {
            // SAFETY: the contents of the section must be those that its readers assume.
            // - One note of the ABI's type; a second `entry!`, which would add another, is an error of the linker.
            #[used]
            #[unsafe(link_section = ".note.fusee")]
            static NOTE: $crate::abi::program::Note = $crate::__NOTE;
        };

        /// The first instruction of the task.
        // SAFETY: the symbol `_start` must be defined once and have the type its caller assumes.
        // - Once: a second definition is an error of the linker.
        // - Type: the kernel enters with the environment page's address in `x0`, the number of the life in `x1`, and an aligned stack.
        #[unsafe(no_mangle)]
        pub extern "C" fn _start(environment: usize, life: u32) -> ! {
            let main: fn() = $main;
            // SAFETY: the address must be that of the environment page, and this the first that the program does.
            // - Address: the kernel puts it into `x0`, and nothing ran before.
            // - First: only the kernel calls `_start`, once in each life of the task.
            unsafe { $crate::__start(environment, life) };
            main();
            $crate::exit(0)
        }
    };
}

/// Makes `main` the first function of the task.
///
/// The host's linker puts the address of a function into the program that the loader calls before `main`. If the simulator has started the program, that is
/// the task from there on; otherwise `main` is an ordinary one.
#[cfg(door)]
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        const _: () = {
            extern "C" fn task() {
                let main: fn() = $main;
                main()
            }

            extern "C" fn begin() {
                $crate::__begin(task)
            }

            // SAFETY: the section must have addresses of functions that the loader may call before `main`.
            // - One address, of a function without arguments; further ones of the loader are ignored.
            // - Before `main`: it uses nothing that the runtime of the host sets up.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static BEGIN: extern "C" fn() = begin;
        };
    };
}

/// Makes `main` the first function of the task: on this host, nothing is to be done for that.
#[cfg(not(any(door, target_os = "none")))]
#[macro_export]
macro_rules! entry {
    ($main:path) => {};
}

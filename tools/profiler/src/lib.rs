//! A plugin for QEMU: which instructions each core executes between two looks of a task at the counter.
//!
//! ```text
//! instruction  the meaning of one instruction for us
//! windows      from executed instructions to windows, pure
//! traps        from executed instructions to the longest traps, pure
//! turns        from executed blocks to turns of cores, pure
//! interface    the door to QEMU
//! ```
//!
//! `cargo xtask profile` loads it (`-plugin libfusee_profiler.so,out=FILE`), and reads the file that it leaves:
//!
//! ```text
//! core 0
//! window START END LENGTH SHAPE    hexadecimal addresses of two readings; instructions from the one up to the other
//! mark NUMBER                      the task said a number
//! shape SHAPE                      the instructions of the first window of this kind:
//! ADDRESS COUNT                    from here, so many instructions that follow each other in memory; then, the next line
//! ```
//!
//! `cargo xtask worst` gives it an argument more, `places=FILE` (`traps::Places::parse`). Then nothing but the kernel is
//! watched, and the file says of each class of traps how many there were, and which instructions the longest executed.
//!
//! `cargo xtask run --turns` gives it another one, `rings=FIRST:STRIDE:COUNT` (`turns::Rings::parse`). Then the file says which core is executed when.
//!
//! # Invariants
//!
//! 1. The counts of a shape add up to the length of each of its windows.
//! 2. The guest does not notice: nothing is written to it, and no instruction is added that it counts.
//!
//! # Caveats
//!
//! Addresses are those an instruction was translated at; code that is mapped at two addresses is known by either. Cores
//! are watched one by one; instructions of one while another waits are not in the other's windows.
//!
//! Not here: the purpose of an address, and the row of the bench to which a window belongs (`research/src/profile.rs`).
#![deny(unsafe_code)]

mod instruction;
// A test is a program, not a part of QEMU: there the functions of the interface do not exist.
#[cfg(all(target_os = "linux", not(test)))]
#[allow(unsafe_code, reason = "functions of QEMU are called, and call us")]
mod interface;
#[cfg_attr(not(all(target_os = "linux", not(test))), allow(dead_code, reason = "used by the interface"))]
mod traps;
#[cfg_attr(not(all(target_os = "linux", not(test))), allow(dead_code, reason = "used by the interface"))]
mod turns;
#[cfg_attr(not(all(target_os = "linux", not(test))), allow(dead_code, reason = "used by the interface"))]
mod windows;

//! From executed instructions to windows: the work of one core between two readings of the counter by tasks.
//!
//! A window begins with the instruction that reads the counter and ends before the one that reads it next, so that its
//! length is the difference of the two readings, if the core did not sleep.
//!
//! # If the core sleeps
//!
//! A task that measures how late it wakes says when it wants to wake before it sleeps. It knows the time from the kernel,
//! which reads the counter: all that is executed after this reading until the core sleeps takes place before that instant,
//! and is no part of the lateness. It is not part of our window either. (The reading itself is: the counter's value includes it.)

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::instruction::{Instruction, Meaning};

/// Instructions after which a window is no sample any more, and is forgotten.
const LONGEST: usize = 1 << 20;
/// Bytes of an instruction.
const SIZE: u64 = 4;
/// Bits of a number that a task says.
const BITS: u32 = 8;

/// All cores.
#[derive(Debug, Default)]
pub struct Profile {
    cores: Vec<Core>,
}

/// One core.
#[derive(Debug, Default)]
struct Core {
    open: Option<Window>,
    /// Bits said so far, and how many.
    number: (u64, u32),
    /// How many numbers were said.
    marks: usize,
    /// The events, as text.
    events: String,
    shapes: BTreeMap<Kind, Shape>,
}

/// A window under way.
#[derive(Debug)]
struct Window {
    start: u64,
    executed: Vec<u64>,
    /// How much was executed once the kernel had read the counter for the first time.
    kernel_read: Option<usize>,
}

/// Windows that are taken for the same: marks before them, where they start and end, instructions.
type Kind = (usize, u64, u64, usize);

/// The instructions of such a window.
#[derive(Debug)]
struct Shape {
    /// Its number in the file.
    number: usize,
    /// In order: an address, and how many instructions from there follow each other in memory.
    runs: Vec<(u64, u64)>,
}

impl Profile {
    /// `instruction` is about to be executed by `core`.
    pub fn step(&mut self, core: usize, instruction: Instruction) {
        if self.cores.len() <= core {
            self.cores.resize_with(core + 1, Core::default);
        }
        self.cores[core].step(instruction);
    }

    /// The file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (number, core) in self.cores.iter().enumerate() {
            let _ = writeln!(text, "core {number}");
            text.push_str(&core.events);
            for shape in core.shapes.values() {
                let _ = writeln!(text, "shape {}", shape.number);
                for (address, count) in &shape.runs {
                    let _ = writeln!(text, "{address:x} {count}");
                }
            }
        }
        text
    }
}

impl Core {
    fn step(&mut self, Instruction { address, meaning }: Instruction) {
        match meaning {
            Meaning::Plain | Meaning::Wait | Meaning::Return => {}
            Meaning::Bit(bit) => self.hear(bit),
            Meaning::KernelReadsCounter => {
                if let Some(window) = &mut self.open {
                    window.kernel_read.get_or_insert(window.executed.len() + 1);
                }
            }
            Meaning::TaskReadsCounter => {
                if let Some(window) = self.open.take() {
                    self.close(&window, address);
                }
                self.open = Some(Window { start: address, executed: Vec::new(), kernel_read: None });
            }
        }
        let Some(window) = &mut self.open else { return };
        window.executed.push(address);
        match (meaning, window.kernel_read) {
            (Meaning::Wait, Some(read)) => window.executed.truncate(read),
            _ if window.executed.len() > LONGEST => self.open = None,
            _ => {}
        }
    }

    fn hear(&mut self, bit: bool) {
        let (number, bits) = self.number;
        self.number = (number << 1 | u64::from(bit), bits + 1);
        if self.number.1 == BITS {
            let _ = writeln!(self.events, "mark {}", self.number.0);
            self.number = (0, 0);
            self.marks += 1;
        }
    }

    fn close(&mut self, window: &Window, end: u64) {
        let length = window.executed.len();
        let next = self.shapes.len();
        let kind = (self.marks, window.start, end, length);
        let shape = self.shapes.entry(kind).or_insert_with(|| Shape { number: next, runs: runs(&window.executed) });
        let _ = writeln!(self.events, "window {:x} {end:x} {length} {}", window.start, shape.number);
    }
}

/// Addresses of instructions, as runs.
fn runs(executed: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &address in executed {
        match runs.last_mut() {
            Some((start, count)) if *start + *count * SIZE == address => *count += 1,
            _ => runs.push((address, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: u64 = 1 << 63;

    fn after(steps: &[(u64, Meaning)]) -> String {
        let mut profile = Profile::default();
        for &(address, meaning) in steps {
            profile.step(0, Instruction { address, meaning });
        }
        profile.text()
    }

    #[test]
    fn a_window_holds_what_is_executed_from_one_reading_up_to_the_next() {
        use Meaning::{Plain, TaskReadsCounter};
        let steps = [(4, Plain), (8, TaskReadsCounter), (12, Plain), (12, Plain), (16, TaskReadsCounter), (20, Plain)];
        assert_eq!(after(&steps), "core 0\nwindow 8 10 3 0\nshape 0\n8 2\nc 1\n");
    }

    #[test]
    fn windows_alike_share_a_shape_until_the_task_says_a_number() {
        use Meaning::{Bit, TaskReadsCounter};
        let read = [(8, TaskReadsCounter); 3];
        let five = [0, 0, 0, 0, 0, 1, 0, 1].map(|bit| (12, Bit(bit == 1)));
        let text = after(&[&read[..], &five, &read].concat());
        let events = "window 8 8 1 0\nwindow 8 8 1 0\nmark 5\nwindow 8 8 9 1\nwindow 8 8 1 2\nwindow 8 8 1 2\n";
        assert!(text.starts_with(&format!("core 0\n{events}")), "{text}");
    }

    #[test]
    fn what_comes_before_the_instant_that_is_slept_for_is_left_out() {
        use Meaning::{KernelReadsCounter, Plain, TaskReadsCounter, Wait};
        let steps = [
            (4, TaskReadsCounter),
            (KERNEL, Plain),
            (KERNEL + 4, KernelReadsCounter),
            (KERNEL + 8, KernelReadsCounter),
            (KERNEL + 12, Wait),
            (KERNEL + 16, KernelReadsCounter),
            (8, TaskReadsCounter),
        ];
        let left = format!("4 1\n{KERNEL:x} 2\n{:x} 1\n", KERNEL + 16);
        assert_eq!(after(&steps), format!("core 0\nwindow 4 8 4 0\nshape 0\n{left}"));
    }

    #[test]
    fn cores_have_windows_of_their_own() {
        let mut profile = Profile::default();
        let read = Instruction { address: 4, meaning: Meaning::TaskReadsCounter };
        for core in [0, 2, 2] {
            profile.step(core, read);
        }
        assert_eq!(profile.text(), "core 0\ncore 1\ncore 2\nwindow 4 4 1 0\nshape 0\n4 1\n");
    }
}

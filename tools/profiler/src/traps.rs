//! From executed instructions to traps: the longest of each class, and its instructions.
//!
//! A trap begins with the first instruction of a vector and ends with the `eret` that goes back to a task, or with the `wfi`
//! of a core that has nothing to do. The instructions after a `wfi` are a trap as well: a core wakes with interrupts masked, and
//! looks for itself.
//!
//! The purpose of a trap follows from the instructions that it executes alone: some of them belong to a class, and the first
//! of these that it meets is its own. A trap that meets none is of the class of its vector.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::num::ParseIntError;

use crate::instruction::{Instruction, Meaning};

/// The meaning of an address of the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// The first instruction of a vector, and the class of its traps if nothing else is known.
    Vector(usize),
    /// Only traps of this class execute it.
    Of(usize),
    /// Not counted: the core waits for another.
    Aside,
    /// No trap goes on after it: that one is forgotten.
    Last,
}

/// The kernel's special addresses.
#[derive(Debug, Default)]
pub struct Places {
    places: BTreeMap<u64, Place>,
    /// The class of traps that wake a sleeping core, if nothing else is known.
    waking: usize,
}

impl Places {
    /// Reads them from lines: `vector ADDRESS CLASS`, `of ADDRESS CLASS`, `aside ADDRESS`, `last ADDRESS`, `waking CLASS`.
    /// Addresses are hexadecimal; other lines are passed over.
    ///
    /// # Errors
    /// A number that is none.
    pub fn parse(text: &str) -> Result<Places, ParseIntError> {
        let mut places = Places::default();
        for line in text.lines() {
            let (address, place) = match line.split(' ').collect::<Vec<_>>()[..] {
                ["vector", address, class] => (address, Place::Vector(class.parse()?)),
                ["of", address, class] => (address, Place::Of(class.parse()?)),
                ["aside", address] => (address, Place::Aside),
                ["last", address] => (address, Place::Last),
                ["waking", class] => {
                    places.waking = class.parse()?;
                    continue;
                }
                _ => continue,
            };
            places.places.insert(u64::from_str_radix(address, 16)?, place);
        }
        Ok(places)
    }

    /// The role of the kernel's instruction at `address` in a trap. `None`: the instruction has no special role.
    pub fn at(&self, address: u64) -> Option<Place> {
        self.places.get(&address).copied()
    }
}

/// All cores.
#[derive(Debug, Default)]
pub struct Traps {
    waking: usize,
    /// The trap that each is in.
    cores: Vec<Option<Trap>>,
    classes: BTreeMap<usize, Class>,
}

/// A trap under way.
#[derive(Debug)]
struct Trap {
    /// Its vector's class.
    presumed: usize,
    class: Option<usize>,
    executed: Vec<u64>,
}

/// Traps of one class.
#[derive(Debug, Default)]
struct Class {
    count: u64,
    longest: usize,
    /// How often the longest executes each instruction.
    executed: BTreeMap<u64, u64>,
}

impl Traps {
    /// A record that contains no traps yet. `places` gives the class of traps that wake a sleeping core.
    pub fn new(places: &Places) -> Traps {
        Traps { waking: places.waking, ..Traps::default() }
    }

    /// `instruction`, of the kernel, is about to be executed by `core`.
    pub fn step(&mut self, core: usize, instruction: Instruction, place: Option<Place>) {
        if self.cores.len() <= core {
            self.cores.resize_with(core + 1, || None);
        }
        let begin = |presumed| Some(Trap { presumed, class: None, executed: Vec::new() });
        match place {
            Some(Place::Aside) => return,
            Some(Place::Last) => self.cores[core] = None,
            Some(Place::Vector(class)) => self.cores[core] = begin(class),
            Some(Place::Of(class)) => {
                if let Some(trap) = &mut self.cores[core] {
                    trap.class.get_or_insert(class);
                }
            }
            None => {}
        }
        if let Some(trap) = &mut self.cores[core] {
            trap.executed.push(instruction.address);
        }
        match instruction.meaning {
            Meaning::Return => self.end(core),
            Meaning::Wait => {
                self.end(core);
                self.cores[core] = begin(self.waking);
            }
            _ => {}
        }
    }

    fn end(&mut self, core: usize) {
        let Some(trap) = self.cores[core].take() else { return };
        let class = self.classes.entry(trap.class.unwrap_or(trap.presumed)).or_default();
        class.count += 1;
        if trap.executed.len() > class.longest {
            class.longest = trap.executed.len();
            class.executed.clear();
            for address in trap.executed {
                *class.executed.entry(address).or_default() += 1;
            }
        }
    }

    /// The text of the profile. A line `class NUMBER COUNT LONGEST` has the number of traps of a class, and the instructions of the
    /// longest. Lines `ADDRESS TIMES` follow: a hexadecimal address, and how often the longest trap executes its instruction.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (number, class) in &self.classes {
            let _ = writeln!(text, "class {number} {} {}", class.count, class.longest);
            for (address, times) in &class.executed {
                let _ = writeln!(text, "{address:x} {times}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: &str = "vector 400 1\nvector 480 2\nof 1000 5\nof 2000 6\naside 3000\nlast 5000\nwaking 2\n";

    /// Addresses as they are executed by the first core; 0 is an `eret`, 4 a `wfi`.
    fn after(executed: &[u64]) -> String {
        let places = Places::parse(PLACES).unwrap();
        let mut traps = Traps::new(&places);
        for &address in executed {
            let meaning = match address {
                0 => Meaning::Return,
                4 => Meaning::Wait,
                _ => Meaning::Plain,
            };
            traps.step(0, Instruction { address, meaning }, places.at(address));
        }
        traps.text()
    }

    #[test]
    fn a_trap_is_of_the_first_class_that_it_meets_and_else_of_its_vector() {
        assert_eq!(after(&[0x400, 0x1000, 0x2000, 0]), "class 5 1 4\n0 1\n400 1\n1000 1\n2000 1\n");
        assert_eq!(after(&[0x400, 0x404, 0x404, 0]), "class 1 1 4\n0 1\n400 1\n404 2\n");
    }

    #[test]
    fn of_each_class_the_longest_is_kept() {
        let (short, long) = ([0x480, 0], [0x480, 0x484, 0]);
        let text = after(&[&short[..], &long, &short].concat());
        assert_eq!(text, "class 2 3 3\n0 1\n480 1\n484 1\n");
    }

    #[test]
    fn waiting_is_not_counted_and_what_is_no_trap_neither() {
        assert_eq!(after(&[0x1000, 0x404, 0, 0x480, 0x3000, 0x3000, 0]), "class 2 1 2\n0 1\n480 1\n");
        assert_eq!(after(&[0x400, 0x5000, 0x404, 0]), "");
    }

    #[test]
    fn a_core_that_sleeps_wakes_into_another_trap() {
        assert_eq!(after(&[0x400, 4, 0x2000, 4, 8]), "class 1 1 2\n4 1\n400 1\nclass 6 1 2\n4 1\n2000 1\n");
    }

    #[test]
    fn cores_trap_side_by_side() {
        let places = Places::parse(PLACES).unwrap();
        let mut traps = Traps::new(&places);
        for (core, address) in [(0, 0x400), (1, 0x480), (0, 0x404), (1, 0), (0, 0)] {
            let meaning = if address == 0 { Meaning::Return } else { Meaning::Plain };
            traps.step(core, Instruction { address, meaning }, places.at(address));
        }
        assert_eq!(traps.text(), "class 1 1 3\n0 1\n400 1\n404 1\nclass 2 1 2\n0 1\n480 1\n");
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        assert!(Places::parse("of here 5").is_err());
        assert!(Places::parse("vector 400 x").is_err());
    }
}

//! The interface of the driver of a Cortex-R5F and its firmware ([`mailbox`]), and the memory that a client's commands may reach ([`Space`]).
//!
//! A client of this device writes the commands of `accel/contract` with device addresses. Nothing between the processor and memory
//! translates, and the DMA controller has no such thing either. So the driver does: it reads a command once, asks the kernel that it launches for its
//! operands, replaces each address by the physical one, and hands on the checked command. Neither processor nor controller is ever told an address
//! that the driver has not made. The kernels are those of `accel/library`, which both have.
#![no_std]
#![forbid(unsafe_code)]

pub mod mailbox;

use fusee_accel_contract::space::{BUFFER_BASE, BUFFER_PAGES, LOCAL_BASE};
use fusee_accel_contract::{
    Command, CopyEngines, EngineIndex, FENCE_OFFSET, Fence, Launch, Memory, Operation, PAGE_BYTES, RING_BASE,
};
use fusee_compute::find;
use fusee_library::KERNELS;

/// Physical memory: where it begins, and its bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Window {
    /// The first address.
    pub base: u64,
    /// How many bytes there are.
    pub bytes: u64,
}

/// The memory of one client's operands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Space {
    /// The client's buffer in system memory, at device address `BUFFER_BASE`.
    pub buffer: Window,
    /// The client's share of the device's memory, at device address `LOCAL_BASE`.
    pub local: Window,
}

/// An operation of an engine of this device. All addresses are physical.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Work {
    /// For the processor.
    Compute(Operation),
    /// For the DMA controller.
    Copy {
        /// Where from.
        source: u64,
        /// Where to.
        destination: u64,
        /// How many.
        bytes: u32,
    },
}

/// The command is none that this engine knows, or names memory that its client may not use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused;

impl Space {
    /// Translates `command` for `engine` of a device with these `copies`.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn work(&self, command: &Command, engine: EngineIndex, copies: CopyEngines) -> Result<Work, Refused> {
        let memory = copies.operands();
        let compute =
            |operation| if engine == EngineIndex::Execution { Ok(Work::Compute(operation)) } else { Err(Refused) };
        match command.operation {
            operation if !operation.runs_on(engine) => Err(Refused),
            burn @ Operation::Burn { .. } => compute(burn),
            Operation::Launch(launch) => compute(Operation::Launch(self.launch(launch, memory)?)),
            Operation::Copy { source, destination, length } => {
                let is_in = match (engine, copies) {
                    // The only one copies in both directions: the operands say which.
                    (EngineIndex::CopyIn, CopyEngines::One) => self.physical(source, length, Memory::System).is_ok(),
                    (EngineIndex::CopyIn, _) => true,
                    _ => false,
                };
                let (from, to) = if is_in { (Memory::System, Memory::Local) } else { (Memory::Local, Memory::System) };
                Ok(Work::Copy {
                    source: self.physical(source, length, from)?,
                    destination: self.physical(destination, length, to)?,
                    bytes: u32::try_from(length).map_err(|_| Refused)?,
                })
            }
            Operation::PeerCopy { .. } => Err(Refused),
        }
    }

    /// A launch with the physical addresses of its views, none of which is written and also used as another.
    fn launch(&self, launch: Launch, memory: Memory) -> Result<Launch, Refused> {
        let blocks = launch.first..launch.first.checked_add(launch.blocks).ok_or(Refused)?;
        let plan = find(KERNELS, launch.kernel).and_then(|entry| entry.plan(&launch.words, blocks)).ok_or(Refused)?;
        if plan.overlap().is_some() {
            return Err(Refused);
        }
        let mut words = launch.words;
        for (word, view) in words.iter_mut().zip(plan.views()) {
            let physical = self.physical(view.address, view.bytes, memory)?;
            *word = u32::try_from(physical).map_err(|_| Refused)?;
        }
        Ok(Launch { words, ..launch })
    }

    /// The physical address of `bytes` bytes at device address `address`, all of them in that memory.
    fn physical(&self, address: u64, bytes: u64, memory: Memory) -> Result<u64, Refused> {
        let (from, window) = match memory {
            Memory::System => (BUFFER_BASE, self.buffer),
            Memory::Local => (LOCAL_BASE, self.local),
            Memory::Peer => return Err(Refused),
        };
        let offset = address.checked_sub(from).ok_or(Refused)?;
        let end = offset.checked_add(bytes).ok_or(Refused)?;
        if end > window.bytes.min(limit(memory)) {
            return Err(Refused);
        }
        window.base.checked_add(offset).ok_or(Refused)
    }
}

/// How many bytes of a memory have device addresses.
fn limit(memory: Memory) -> u64 {
    if memory == Memory::System { BUFFER_PAGES * PAGE_BYTES } else { u64::MAX }
}

/// Where in its ring page a client's fence is, if it is where fences are: the driver writes it through its own mapping of that page, and nowhere else.
#[must_use]
pub fn fence_place(fence: &Fence) -> Option<usize> {
    let offset = fence.address.checked_sub(RING_BASE)?;
    ((FENCE_OFFSET..PAGE_BYTES).contains(&offset) && offset.is_multiple_of(4)).then_some(offset as usize)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use fusee_accel_contract::{FENCE_BASE, fence_address};
    use fusee_compute::{Kernel, identity, words};
    use fusee_library::{Filter, Gradient, Product, Transform};
    use proptest::prelude::*;
    use std::vec::Vec;

    const SPACE: Space =
        Space { buffer: Window { base: 0x0c00_0000, bytes: 8192 }, local: Window { base: 0x0d00_0000, bytes: 4096 } };

    fn engine() -> impl Strategy<Value = EngineIndex> {
        prop::sample::select(EngineIndex::ALL.to_vec())
    }

    fn copies() -> impl Strategy<Value = CopyEngines> {
        (0_usize..3).prop_map(|number| CopyEngines::from_number(number).unwrap())
    }

    /// Addresses near both ends of a client's memory, and anywhere.
    fn address() -> impl Strategy<Value = u64> {
        let near = |base: u64| (base - 4096..base + 12_288).prop_map(|address| address & !7);
        prop_oneof![4 => near(BUFFER_BASE), 4 => near(LOCAL_BASE), 1 => any::<u64>().prop_map(|address| address & !7)]
    }

    fn all<K: Kernel>(kernel: &K, at: &[u64]) -> Operation {
        let at: Vec<u32> = at.iter().map(|address| *address as u32).collect();
        let launch = Launch { kernel: identity::<K>(), first: 0, blocks: kernel.blocks(), words: words(kernel, &at) };
        Operation::Launch(launch)
    }

    /// Some kernel of the library, with these as arguments.
    fn launch(which: u8, at: [u64; 3], (samples, length): (u16, u16)) -> Operation {
        match which {
            0 => all(&Filter { samples, length }, &at),
            1 => all(&Transform { points: 2 << (samples % 9) }, &at),
            2 => all(&Gradient { width: samples, height: length.min(50) }, &at[..2]),
            _ => all(&Product { order: 1 + samples % 32, time: 0 }, &at),
        }
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let three = (address(), address(), address());
        let sizes = (1_u16..300, 1_u16..100);
        (three, sizes, 1_u64..1200, 0..6_u8).prop_map(
            |((source, second, destination), sizes, words, which)| match which {
                0 => Operation::Copy { source, destination, length: 8 * words },
                1 => Operation::PeerCopy { source, destination, length: 8 * words },
                _ => launch(which - 2, [source, second, destination], sizes),
            },
        )
    }

    /// The memory that a piece of work touches: first addresses and bytes.
    fn touched(work: &Work) -> Vec<(u64, u64)> {
        match *work {
            Work::Copy { source, destination, bytes } => [source, destination].map(|at| (at, bytes.into())).to_vec(),
            Work::Compute(Operation::Launch(launch)) => {
                let entry = find(KERNELS, launch.kernel).expect("nothing else is let through");
                let plan = entry.plan(&launch.words, launch.first..launch.first + launch.blocks);
                let views = plan.expect("as it was before").views().to_vec();
                views.into_iter().map(|view| (view.address, view.bytes)).collect()
            }
            Work::Compute(_) => Vec::new(),
        }
    }

    fn inside((at, bytes): (u64, u64), window: Window) -> bool {
        window.base <= at && at + bytes <= window.base + window.bytes
    }

    proptest! {
        /// Commands of any content.
        #[test]
        fn nothing_is_touched_but_what_the_client_has(operation in operation(), engine in engine(), copies in copies()) {
            let command = Command { operation, fence: None };
            if let Ok(work) = SPACE.work(&command, engine, copies) {
                for place in touched(&work) {
                    prop_assert!(inside(place, SPACE.buffer) || inside(place, SPACE.local), "{place:x?}");
                }
                match work {
                    Work::Copy { source, destination, bytes } => {
                        let is_in = inside((source, bytes.into()), SPACE.buffer);
                        let to = if is_in { SPACE.local } else { SPACE.buffer };
                        prop_assert!(inside((destination, bytes.into()), to));
                        prop_assert!(copies == CopyEngines::One || is_in == (engine == EngineIndex::CopyIn));
                    }
                    Work::Compute(_) => {
                        let operands = if copies == CopyEngines::None { SPACE.buffer } else { SPACE.local };
                        prop_assert!(touched(&work).into_iter().all(|place| inside(place, operands)));
                        prop_assert_eq!(engine, EngineIndex::Execution);
                    }
                }
            }
        }

        /// So the rule above does not hold because all is refused.
        #[test]
        fn what_lies_in_its_memory_is_done_at_its_place(at in 0_u64..60, points in 1_u32..7) {
            let (offset, points) = (8 * at, 1_u16 << points);
            let operation =
                |base| all(&Transform { points }, &[base + offset, base + 1024, base + 2048]);
            let work = |base, copies| SPACE.work(&Command { operation: operation(base), fence: None }, EngineIndex::Execution, copies);
            let place = |base| Work::Compute(operation(base));
            prop_assert_eq!(work(BUFFER_BASE, CopyEngines::None), Ok(place(SPACE.buffer.base)));
            prop_assert_eq!(work(LOCAL_BASE, CopyEngines::Two), Ok(place(SPACE.local.base)));
            prop_assert_eq!(work(LOCAL_BASE, CopyEngines::None), Err(Refused));
            let over = all(&Transform { points }, &[BUFFER_BASE + offset, BUFFER_BASE + offset, BUFFER_BASE + 2048]);
            let over = Command { operation: over, fence: None };
            prop_assert_eq!(SPACE.work(&over, EngineIndex::Execution, CopyEngines::None), Err(Refused));
            let copy = Operation::Copy { source: LOCAL_BASE + offset, destination: BUFFER_BASE, length: 64 };
            let copied = SPACE.work(&Command { operation: copy, fence: None }, EngineIndex::CopyOut, CopyEngines::Two);
            let there = Work::Copy { source: SPACE.local.base + offset, destination: SPACE.buffer.base, bytes: 64 };
            prop_assert_eq!(copied, Ok(there));
        }
    }

    #[test]
    fn a_fence_is_written_where_fences_are_and_nowhere_else() {
        let place = |address| fence_place(&Fence { address, value: 1 });
        assert_eq!(place(fence_address(3)), Some(FENCE_OFFSET as usize + 12));
        assert_eq!(place(RING_BASE + PAGE_BYTES - 4), Some(4092));
        for wrong in [0, RING_BASE, FENCE_BASE - 4, FENCE_BASE + 2, RING_BASE + PAGE_BYTES, BUFFER_BASE, u64::MAX] {
            assert_eq!(place(wrong), None, "{wrong:#x}");
        }
    }
}

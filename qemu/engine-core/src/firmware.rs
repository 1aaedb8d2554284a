//! The loop.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ptr::NonNull;

use fusee_accel_contract::timing::Slowdown;
use fusee_accel_contract::{CopyEngines, DEVICES};
use fusee_bsp::gic::{self, Distributor};
use fusee_bsp::{its, virt as board};
use fusee_device_model::{Description, Device, PEERS, Peer, Window};

use crate::clock::Clock;
use crate::memory::Memory;
use crate::start;

/// What the kernel tells the firmware, written by `tools/manifest`: the devices it plays.
#[repr(C)]
pub struct Blocks {
    /// How many of the blocks there are.
    count: u64,
    blocks: [Block; DEVICES],
}

/// One device: physical addresses and lengths.
#[repr(C)]
struct Block {
    control: u64,
    status: u64,
    doorbells: u64,
    local: u64,
    local_bytes: u64,
    system: u64,
    system_bytes: u64,
    /// Interrupt number of the line the device raises.
    line: u64,
    /// Number of copy engines.
    copy_engines: u64,
    /// 1 if the execution engine is preemptible.
    preemptible: u64,
    /// Slowdown of copies, in percent: from memory of the device in this place, or of the board in its own.
    ways: [u64; DEVICES],
}

/// Bytes of one CPU's redistributor.
const REDISTRIBUTOR: u64 = 0x2_0000;

struct Models(UnsafeCell<[Device; DEVICES]>);
// SAFETY: used by `run` only, which is called once, on the one CPU that runs this firmware.
unsafe impl Sync for Models {}
static MODELS: Models = Models(UnsafeCell::new([const { Device::EMPTY }; DEVICES]));

impl Blocks {
    fn each(&self) -> &[Block] {
        let count = usize::try_from(self.count).ok();
        count.and_then(|count| self.blocks.get(..count)).expect("the description has more devices than it can have")
    }

    /// What the device in place `index` is told.
    fn description(&self, index: usize) -> Description {
        let block = &self.each()[index];
        let copy_engines = usize::try_from(block.copy_engines).ok().and_then(CopyEngines::from_number);
        let way = |index: usize| Slowdown(u32::try_from(block.ways[index]).unwrap_or(u32::MAX));
        let mut peers = [Peer::NONE; PEERS];
        let others = self.each().iter().enumerate().filter(|(other, _)| *other != index);
        for (peer, (other, block)) in peers.iter_mut().zip(others) {
            *peer = Peer { memory: block.local(), slowdown: way(other) };
        }
        Description {
            control: block.control,
            status: block.status,
            doorbells: block.doorbells,
            local: block.local(),
            system: Window { base: block.system, length: block.system_bytes },
            copy_engines: copy_engines.expect("the description says how many copy engines there are"),
            preemptible: block.preemptible == 1,
            slowdown: way(index),
            peers,
        }
    }
}

impl Block {
    fn local(&self) -> Window {
        Window { base: self.local, length: self.local_bytes }
    }

    fn line(&self) -> u32 {
        let line = u32::try_from(self.line).ok().filter(|line| (gic::SHARED..gic::SPECIAL).contains(line));
        line.expect("the description names no shared interrupt")
    }
}

/// Plays the devices that `blocks` describes, for ever.
pub fn run(blocks: &Blocks) -> ! {
    let distributor = NonNull::new(board::GIC_DISTRIBUTOR as *mut u8).expect("not at address zero");
    // SAFETY: the board has its distributor there; without translation all devices are accessible.
    let distributor = unsafe { Distributor::new(distributor) };

    listen();
    let clock = Clock::start();
    let mut memory = Memory::without(start::own());
    // SAFETY: called once, by `start`: the only reference.
    let devices = unsafe { &mut *MODELS.0.get() };
    for (index, device) in devices.iter_mut().take(blocks.each().len()).enumerate() {
        device.configure(blocks.description(index), &mut memory).expect("the description is one");
    }

    loop {
        let now = clock.now();
        let mut next: Option<u64> = None;
        for (device, block) in devices.iter_mut().zip(blocks.each()) {
            let actions = device.poll(now, &mut memory);
            if actions.interrupt {
                // SAFETY: a barrier changes no state: what the device wrote is there before anyone is told.
                unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
                distributor.set_pending(block.line());
            }
            next = next.into_iter().chain(actions.next).min();
        }
        if next.is_some_and(|next| next <= now) {
            continue;
        }
        clock.arm(next);
        // SAFETY: `wfi` waits; it changes no state.
        unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
        // The timer's line is level: away with it first, or it would be fetched again and again.
        clock.arm(None);
        drain();
    }
}

/// Lets kicks and the timer reach this CPU.
fn listen() {
    let redistributor = board::GIC_REDISTRIBUTORS + start::cpu() * REDISTRIBUTOR;
    let redistributor = NonNull::new(redistributor as *mut u8).expect("not at address zero");
    // SAFETY: the board has this CPU's redistributor there; without translation it is accessible.
    unsafe { gic::wake_redistributor(redistributor) };
    // SAFETY: the same.
    unsafe { gic::enable_private(redistributor, board::TIMER_INTERRUPT) };
    gic::enable_cpu_interface();
}

/// Fetches all interrupts that are pending: each was only to wake us.
fn drain() {
    loop {
        let number = gic::acknowledge();
        if (gic::SPECIAL..its::FIRST_MESSAGE).contains(&number) {
            return;
        }
        gic::end(number);
    }
}

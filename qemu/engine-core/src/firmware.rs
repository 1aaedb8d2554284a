//! The loop.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ptr::NonNull;

use fusee_accel_contract::CopyEngines;
use fusee_bsp::gic::{self, Distributor};
use fusee_bsp::{its, virt as board};
use fusee_device_model::{Description, Device, Window};

use crate::clock::Clock;
use crate::memory::Memory;
use crate::start;

/// What the kernel tells the firmware: physical addresses and lengths, written by `tools/manifest`.
#[repr(C)]
pub struct Block {
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
}

/// Bytes of one CPU's redistributor.
const REDISTRIBUTOR: u64 = 0x2_0000;

struct Model(UnsafeCell<Device>);
// SAFETY: used by `run` only, which is called once, on the one CPU that runs this firmware.
unsafe impl Sync for Model {}
static MODEL: Model = Model(UnsafeCell::new(Device::EMPTY));

/// Plays the device that `block` describes, for ever.
pub fn run(block: &Block) -> ! {
    let copy_engines = usize::try_from(block.copy_engines).ok().and_then(CopyEngines::from_number);
    let description = Description {
        control: block.control,
        status: block.status,
        doorbells: block.doorbells,
        local: Window { base: block.local, length: block.local_bytes },
        system: Window { base: block.system, length: block.system_bytes },
        copy_engines: copy_engines.expect("the description says how many copy engines there are"),
    };
    let line = u32::try_from(block.line).ok().filter(|line| (gic::SHARED..gic::SPECIAL).contains(line));
    let line = line.expect("the description names no shared interrupt");
    let distributor = NonNull::new(board::GIC_DISTRIBUTOR as *mut u8).expect("not at address zero");
    // SAFETY: the board has its distributor there; without translation all devices are accessible.
    let distributor = unsafe { Distributor::new(distributor) };

    listen();
    let clock = Clock::start();
    let mut memory = Memory::without(start::own());
    // SAFETY: called once, by `start`: the only reference.
    let device = unsafe { &mut *MODEL.0.get() };
    device.configure(description, &mut memory).expect("the description is one");

    loop {
        let now = clock.now();
        let actions = device.poll(now, &mut memory);
        if actions.interrupt {
            // SAFETY: a barrier changes no state: what the device wrote is there before anyone is told.
            unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
            distributor.set_pending(line);
        }
        if actions.next.is_some_and(|next| next <= now) {
            continue;
        }
        clock.arm(actions.next);
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

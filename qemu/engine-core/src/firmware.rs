//! The loop.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ptr::NonNull;

use fusee_accel_contract::timing::Slowdown;
use fusee_accel_contract::{CONTEXTS, Contexts, CopyEngines, DEVICES};
use fusee_bsp::controller::{self, Controller};
use fusee_bsp::interrupt;
use fusee_bsp::{board, its};
use fusee_device_model::{
    Arbiter, BlockTime, Description, Device, Equipment, Mechanism, PEERS, Peer, Sms, Times, UNITS, Units, Window,
};

use crate::clock::Clock;
use crate::memory::Memory;
use crate::start;

/// The kernel's message to the firmware, written by `tools/manifest`: the devices it plays.
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
    preemptible: u32,
    /// For how many nanoseconds blocks on SMs run on before they are saved for another; [`DRAINS`]: to their end.
    drain: u32,
    /// Times of kernels without a time by their authors: how many, or [`MEASURING`]; and the bytes from the beginning of [`Blocks`] to the first of
    /// them.
    time_count: u64,
    times: u64,
    /// Number of contexts.
    contexts: u8,
    /// 1 if the device counts the usage of each context.
    counters: u8,
    /// The choice of the next command: 0, the one that arrived first; 1, in turn; 2, by weights.
    arbiter: u8,
    /// SMs of the execution engine; 0: it has none. And [`KEYED`].
    sms: u8,
    /// Nanoseconds that a change of context takes.
    switch: u32,
    /// The weight of each context.
    weights: [u8; CONTEXTS],
    /// Slowdown of copies, in percent: from memory of the device in this place, or of the board in its own.
    ways: [u64; DEVICES],
}

/// In place of a number of times: they are measured.
const MEASURING: u64 = u64::MAX;
/// In [`Block::sms`]: contexts with a lock have keys of their own.
const KEYED: u8 = 1 << 7;
/// In place of a number of nanoseconds: blocks are not saved.
const DRAINS: u32 = u32::MAX;

/// The software interrupt that is a kick, where it is no message; as the kernel sends it.
const KICK: u32 = 0;

unsafe extern "Rust" {
    /// The kernels of the device in this place: see `firmware!`.
    fn engine_kernels(device: usize) -> &'static [fusee_compute::Entry];
}

struct Models(UnsafeCell<[Device; DEVICES]>);
// SAFETY: used by `run` only, which is called once, on the one CPU that runs this firmware.
unsafe impl Sync for Models {}
static MODELS: Models = Models(UnsafeCell::new([const { Device::EMPTY }; DEVICES]));

/// The SMs of the device that has some.
struct Spare(UnsafeCell<Units>);
// SAFETY: as for `Models`.
unsafe impl Sync for Spare {}
static SPARE: Spare = Spare(UnsafeCell::new(UNITS));

impl Blocks {
    fn each(&self) -> &[Block] {
        let count = usize::try_from(self.count).ok();
        count.and_then(|count| self.blocks.get(..count)).expect("the description has more devices than it can have")
    }

    /// The description for the device in place `index`.
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
            contexts: Contexts::new(block.contexts.into()).expect("the description says how many contexts there are"),
            arbiter: match block.arbiter {
                0 => Arbiter::ARRIVAL,
                1 => Arbiter::ROUND_ROBIN,
                _ => Arbiter::weighted(block.weights),
            },
            switch: block.switch.into(),
            counters: block.counters == 1,
            sms: (block.sms > 0).then_some(Sms {
                number: block.sms & !KEYED,
                mechanism: match block.drain {
                    0 => Mechanism::Switch,
                    DRAINS => Mechanism::Drain,
                    limit => Mechanism::DrainThenSwitch { limit: limit.into() },
                },
                tokens: block.weights.map(u16::from),
                keyed: block.sms & KEYED != 0,
            }),
        }
    }
}

impl Block {
    /// The times of its kernels. `blocks` is where this one lies.
    fn times(&self, blocks: &'static Blocks) -> Times {
        if self.time_count == MEASURING {
            return Times::Measuring;
        }
        let first = (&raw const *blocks).wrapping_byte_add(self.times as usize).cast::<BlockTime>();
        // SAFETY: the packer puts so many there, aligned as `Blocks` is, in the page of the blocks, which is never written.
        Times::Known(unsafe { core::slice::from_raw_parts(first, self.time_count as usize) })
    }

    fn local(&self) -> Window {
        Window { base: self.local, length: self.local_bytes }
    }

    fn line(&self) -> u32 {
        let line = u32::try_from(self.line).ok().filter(|line| (interrupt::SHARED..interrupt::SPECIAL).contains(line));
        line.expect("the description names no shared interrupt")
    }
}

/// Plays the devices that `blocks` describes, for ever.
pub fn run(blocks: &'static Blocks) -> ! {
    listen();
    let controller = controller();
    let clock = Clock::start();
    let mut memory = Memory::without(start::own(), clock);
    // SAFETY: called once, by `start`: the only reference.
    let devices = unsafe { &mut *MODELS.0.get() };
    // SAFETY: the same; one device has them.
    let mut spare = Some(unsafe { &mut *SPARE.0.get() });
    for (index, device) in devices.iter_mut().take(blocks.each().len()).enumerate() {
        // SAFETY: a program with `firmware!` has this function, and of this type.
        let kernels = unsafe { engine_kernels(index) };
        if let Some(units) = spare.take_if(|_| blocks.each()[index].sms > 0) {
            device.equip(Equipment::Lent(units));
        }
        device.offer(kernels, blocks.each()[index].times(blocks), Clock::is_exact());
        device.configure(blocks.description(index), &mut memory).expect("the description is one");
    }

    loop {
        let now = clock.now();
        let mut next: Option<u64> = None;
        for (index, (device, block)) in devices.iter_mut().zip(blocks.each()).enumerate() {
            let actions = device.poll(now, memory.of_device(index));
            if actions.interrupt {
                // SAFETY: a barrier changes no state: the device's writes are there before anyone is told.
                unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
                controller.set_pending(block.line());
            }
            next = next.into_iter().chain(actions.next).min();
        }
        // A kick that came while a job ran is for whichever device, which may have been asked before.
        if memory.was_kicked() || next.is_some_and(|next| next <= now) {
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

/// The addresses of the interrupt controller: of the part common to all CPUs, and of the part that each has for itself.
fn places() -> (NonNull<u8>, NonNull<u8>) {
    let place = |at: u64| NonNull::new(at as *mut u8).expect("not at address zero");
    (place(board::DISTRIBUTOR), place(board::CPU_INTERFACE))
}

/// The interrupt controller; once [`listen`] has run.
fn controller() -> Controller {
    let (distributor, cpu) = places();
    // SAFETY: the board has both there; this translation maps them as devices.
    unsafe { Controller::new(distributor, cpu) }
}

/// Lets kicks and the timer reach this CPU.
fn listen() {
    // A kick through a page is a message, which the kernel has enabled.
    const PRIVATE: &[u32] =
        if board::ITS.is_some() { &[board::TIMER_INTERRUPT] } else { &[board::TIMER_INTERRUPT, KICK] };
    let (distributor, cpu) = places();
    // SAFETY: the board has both there; this translation maps them as devices. The kernel has reset them before it started us.
    unsafe { controller::listen(distributor, cpu, start::cpu(), PRIVATE) };
}

/// Fetches all interrupts that are pending; whether one was another than the timer's. A caller that sleeps next looks at all devices before that.
pub fn drain() -> bool {
    let mut kicked = false;
    loop {
        let taken = controller().acknowledge();
        if (interrupt::SPECIAL..its::FIRST_MESSAGE).contains(&taken.number()) {
            return kicked;
        }
        kicked |= taken.number() != board::TIMER_INTERRUPT;
        controller().end(taken);
    }
}

//! The lines of a kernel that speaks: of each step of its start, and of its end, with the trace (`fusee_abi::speech`).
//!
//! A kernel with the feature `speaks` prints them if its system asks for that. Other kernels have none of this code: each function is empty there.
//!
//! Lines of the start are printed before the kernel's time zero, so they delay no job. Those of the end come when no task runs any more.
//! A zero byte before and after each of the latter keeps them apart from the text of tasks.

#[cfg(not(feature = "speaks"))]
pub use silent::{arrive, end, is_on, objects, place, start, step, stop_others, wait_for};
#[cfg(feature = "speaks")]
pub use spoken::{arrive, end, is_on, objects, place, start, step, stop_others, wait_for};

#[cfg(not(feature = "speaks"))]
mod silent {
    use core::fmt::Arguments;

    use fusee_abi::image::System;
    use fusee_abi::speech::Step;

    #[inline(always)]
    pub fn start(_: &System<'_>) {}

    #[inline(always)]
    pub fn is_on() -> bool {
        false
    }

    #[inline(always)]
    pub fn step(_: Step, _: Arguments<'_>) {}

    #[inline(always)]
    pub fn place(_: bool, _: u64) {}

    #[inline(always)]
    pub fn objects(_: &System<'_>) {}

    #[inline(always)]
    pub fn arrive(_: usize) {}

    #[inline(always)]
    pub fn wait_for(_: usize) {}

    #[inline(always)]
    pub fn stop_others() {}

    #[inline(always)]
    pub fn end(_: u32) {}
}

#[cfg(feature = "speaks")]
mod spoken {
    use core::fmt::{Arguments, Write};
    use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

    use aarch64_cpu::registers::{CNTFRQ_EL0, CNTVCT_EL0};
    use fusee_abi::image::{System, feature};
    use fusee_abi::speech::{CHECKSUM, END, SENT, START, Step};
    use fusee_abi::trace::Record;
    use fusee_bsp::board;
    use fusee_bsp::console::Console;
    use fusee_frames::{CPUS as FRAME_CPUS, FRAME_BYTES, Header, RECORDS};
    use fusee_kernel_core::limits::CPUS;
    use fusee_kernel_core::{CpuId, CpuSet};
    use tock_registers::interfaces::Readable;

    use crate::panic::{Plain, console};
    use crate::trap::STATE;
    use crate::{cpu, interrupts, smp, trace};

    /// Whether the system asks for it.
    static ON: AtomicBool = AtomicBool::new(false);
    /// CPUs of the system.
    static COUNT: AtomicUsize = AtomicUsize::new(1);
    /// CPUs that have come.
    static ARRIVED: [AtomicBool; CPUS] = [const { AtomicBool::new(false) }; CPUS];
    /// The CPU that prints the end, plus one.
    static LAST: AtomicU32 = AtomicU32::new(0);

    /// The part of a second for which a CPU may stay away.
    const AWAY_PARTS: u64 = 4;
    /// Parts of a second after which other CPUs have taken an interrupt, if they take any.
    const KICK_PARTS: u64 = 500;

    // Relaxed, all of them: by one CPU, or a single word that says all.

    /// Begins to speak, if the system asks for that.
    pub fn start(system: &System<'_>) {
        ON.store(system.header().features & feature::SPEAKS != 0, Ordering::Relaxed);
        COUNT.store((system.header().cpus as usize).min(CPUS), Ordering::Relaxed);
        let version = Plain(env!("CARGO_PKG_VERSION"));
        step(Step::Kernel, format_args!("Fusee {version}, trace {}", Plain(trace::LEVEL.name())));
    }

    /// Prints the board, the exception level at which the image was entered, and the memory.
    pub fn place(has_tree: bool, entered: u64) {
        let by = Plain(if has_tree { ", as its device tree says" } else { ", without a device tree" });
        step(Step::Board, format_args!("{}{by}", Plain(board::NAME)));
        step(Step::Level, format_args!("EL1, entered at EL{entered}"));
        step(Step::Memory, format_args!("{:#x} to {:#x}", board::MEMORY.start, board::MEMORY.end));
    }

    /// Prints the numbers of tasks and the checksum of the system.
    pub fn objects(system: &System<'_>) {
        let (tasks, checksum) = (system.tasks().len() as u64, system.header().checksum);
        step(Step::Tasks, format_args!("{tasks}, {}{checksum:#018x}", Plain(CHECKSUM)));
    }

    /// Whether the system asks for that.
    pub fn is_on() -> bool {
        ON.load(Ordering::Relaxed)
    }

    /// Prints that a step of the start is done.
    #[cold]
    pub fn step(step: Step, words: Arguments<'_>) {
        if is_on() {
            // A failure of the console cannot be reported.
            let (number, of) = (step.number(), Step::ALL.len() as u64);
            let name = Plain(step.name());
            let _ = writeln!(console(), "{}{number} of {of}: {name}: {words}", Plain(START));
        }
    }

    /// Notes that a CPU of the kernel has come.
    pub fn arrive(id: usize) {
        if let Some(arrived) = ARRIVED.get(id) {
            arrived.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until so many CPUs have come.
    ///
    /// # Panics
    /// One has not, for a quarter of a second.
    pub fn wait_for(cpus: usize) {
        let begun = CNTVCT_EL0.get();
        for (id, arrived) in ARRIVED.iter().enumerate().take(cpus).skip(1) {
            while !arrived.load(Ordering::Relaxed) {
                let elapsed = CNTVCT_EL0.get().wrapping_sub(begun);
                let place = smp::on_board(id) as u64;
                assert!(
                    elapsed < CNTFRQ_EL0.get() / AWAY_PARTS,
                    "CPU {place} of the board was started and has not come"
                );
                rest();
            }
        }
        step(Step::Cpus, format_args!("{} of {}", cpus as u64, board::CPUS as u64));
    }

    /// Lets an emulator take turns.
    fn rest() {
        // SAFETY: a hint; it changes no state.
        unsafe { core::arch::asm!("yield", options(nomem, nostack, preserves_flags)) };
    }

    /// Stops all other CPUs, for good.
    pub fn stop_others() {
        if !is_on() {
            return;
        }
        // The lock is never given back: each other CPU waits for it in its next trap.
        core::mem::forget(STATE.lock());
        let others = (0..COUNT.load(Ordering::Relaxed)).filter(|id| *id != cpu::current().index());
        for id in others {
            interrupts::kick(CpuSet::only(CpuId(id as u8)));
        }
        let begun = CNTVCT_EL0.get();
        while CNTVCT_EL0.get().wrapping_sub(begun) < CNTFRQ_EL0.get() / KICK_PARTS {
            rest();
        }
    }

    /// Prints exit code and trace.
    #[cold]
    pub fn end(code: u32) {
        if !is_on() {
            return;
        }
        let own = u32::from(cpu::current().0) + 1;
        match LAST.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {}
            // A fault of the receiving side: the rest is lost.
            Err(last) if last == own => return,
            // Another CPU prints, and ends the run.
            Err(_) => crate::panic::halt(),
        }
        let _ = send(&mut console(), code);
    }

    fn send(console: &mut Console, code: u32) -> core::fmt::Result {
        let cpus = COUNT.load(Ordering::Relaxed).min(FRAME_CPUS);
        let mut written = [0; FRAME_CPUS];
        written.iter_mut().zip(0..cpus).for_each(|(written, cpu)| *written = trace::written(cpu));
        let kept = |cpu: usize| written[cpu] - written[cpu].min(trace::CAPACITY);
        let records: u64 = (0..cpus).map(|cpu| written[cpu] - kept(cpu)).sum();
        write!(console, "\0{}{} with {records} records\n\0", Plain(END), u64::from(code))?;
        let mut sent = 0;
        for cpu in 0..cpus {
            let mut first = kept(cpu);
            while first < written[cpu] {
                let mut frame = [Record::default(); RECORDS];
                let count = RECORDS.min((written[cpu] - first) as usize);
                for (place, number) in frame[..count].iter_mut().zip(first..) {
                    *place = trace::record(cpu, number);
                }
                let header = Header { cpu: cpu as u8, first, cpus: cpus as u8, written };
                let mut bytes = [0; FRAME_BYTES];
                let length = fusee_frames::encode(&header, &frame[..count], &mut bytes).unwrap_or(0);
                console.write_byte(0);
                bytes[..length].iter().for_each(|byte| console.write_byte(*byte));
                first += count as u64;
                sent += count as u64;
            }
        }
        write!(console, "\0{}{sent} records\n\0", Plain(SENT))
    }
}

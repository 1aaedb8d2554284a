//! From the firmware's jump to the first task.
//!
//! ```text
//! fusee_start          place, memory; EL1; zero .bss; translation on           assembly, at physical addresses
//! boot                 the kernel's own tables, then everything else           the boot CPU alone
//! smp::start           the other CPUs, which wait for the lock
//! trap::run            the first task
//! ```
//!
//! Errors before there are vectors are reported by assembly, in one line, and end the run: a panic comes later.
//! Boot code keeps to the promises of boot loaders (Linux, `Documentation/arch/arm64/booting.rst`): the image is in memory, caches are off
//! and may hold old lines of all else.
//!
//! The boot tables have the identity for TTBR0, executable and read only, and the upper half for
//! TTBR1, which alone in the life of the system is writable and executable, until `boot` has made better ones.

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::ops::Range;
use core::slice;

use fusee_abi::image::{Header, ImageError, System, feature};
use fusee_abi::speech::Step;
use fusee_bsp::interrupt::Signal;
use fusee_bsp::start::{Conduit, Start};
use fusee_bsp::{board, console, device_tree, semihosting};
use fusee_kernel_core::id::InterruptId;
use fusee_kernel_core::limits::CPUS;
use fusee_kernel_core::{BootError, CpuId};

use crate::cell::BootCell;
use crate::engine::{EngineCpu, EngineError};
use crate::panic::Plain;
use crate::spaces::SpaceError;
use crate::translation::{Access, How, MEMORY_TYPES, MapError, OFFSET, PAGE, Pool, Space, direct, physical};
use crate::trap::State;
use crate::{clock, cpu, engine, interrupts, panic, smp, spaces, speak, trace, trap, vectors};

global_asm!(
    r#"
    // The header that makes a boot loader put us 512 KiB into memory, with the device tree's address in x0.
    .pushsection .text.header, "ax"
    .global _start
_start:
    b       fusee_start
    .word   0
    .quad   0x80000                     // offset into memory
    .quad   __image_bytes               // all the memory we use, so that the device tree lies behind it
    .quad   0x2                         // little endian, 4 KiB pages, nowhere else
    .quad   0
    .quad   0
    .quad   0
    .ascii  "ARM\x64"
    .word   0

    // Prints the text at x0, of which the bytes 1 to 3 stand for the numbers in x22 to x24. Uses x9 to x16, x26.
fusee_say:
    mov     x26, x30
    ldr     x9, ={port}
    .if {must_enable}
    mov     w10, #{enabled}
    str     w10, [x9, #{enable}]
    .endif
1:  ldrb    w10, [x0], #1
    cbz     w10, 4f
    cmp     w10, #3
    b.ls    2f
    bl      5f
    b       1b
2:  cmp     w10, #2
    csel    x14, x22, x23, lo
    csel    x14, x14, x24, ls
    clz     x15, x14                    // the first digit that is not zero, or the last
    bic     x15, x15, #3
    mov     x16, #60
    subs    x15, x16, x15
    csel    x15, xzr, x15, lt
3:  lsr     x10, x14, x15
    and     w10, w10, #15
    cmp     w10, #10
    add     w11, w10, #'0'
    add     w10, w10, #'a' - 10
    csel    w10, w11, w10, lo
    bl      5f
    subs    x15, x15, #4
    b.ge    3b
    b       1b
4:  ret     x26
5:  mov     w13, #0x10000               // a line that is still full then loses the byte
6:  ldr     w12, [x9, #{flags}]
    tst     w12, #{full}
    sub     w13, w13, #1
    ccmp    w13, #0, #4, ne
    b.ne    6b
    str     w10, [x9, #{data}]
    ret

    // Until Rust has vectors of its own, those of all levels are at `_start`, and an exception of our own comes here.
    .org    _start + 0x200
    mrs     x23, esr_el1
    mrs     x24, elr_el1
    mrs     x9, CurrentEL
    tbz     x9, #3, fusee_refuse
    mrs     x23, esr_el2
    mrs     x24, elr_el2

    // Says the text at x21, and ends the run. x28: how far that is.
fusee_refuse:
    add     x28, x28, #1
    cmp     x28, #2
    b.hi    2f                          // nobody answers: nothing is left to do
    b.eq    1f                          // no console is there
    mrs     x9, CurrentEL
    tbnz    x9, #3, 3f
    mov     x9, #0x0800                 // translation off: the console is at its physical address
    movk    x9, #0x30d0, lsl #16
    msr     sctlr_el1, x9
    isb
3:  adr     x0, 4f
    bl      fusee_say
    mov     x0, x21
    bl      fusee_say
    mov     x28, #2
1:  adr     x1, 5f
    mov     x0, #{exit}
    hlt     #0xf000
2:  wfi
    b       2b
    .balign 8
5:  .quad   {reason}, {code}
4:  .asciz  "\nthe kernel cannot start: "
fusee_says_el3:
    .asciz  "it was entered at EL3; firmware with PSCI has to enter it at EL2 or EL1\n"
fusee_says_misplaced:
    .asciz  "it is loaded at 0x\001 and linked for 0x\002\n"
fusee_says_no_memory:
    .asciz  "there is no memory at 0x\001\n"
fusee_says_exception:
    .asciz  "an exception at 0x\003, syndrome 0x\002\n"
    .balign 4
    .popsection

    .pushsection .text.boot, "ax"
fusee_start:
    mov     x20, x0
    .if {speaks}
    mrs     x19, CurrentEL
    .endif
    bl      fusee_listen
    mrs     x9, CurrentEL
    cmp     x9, #12
    b.ne    2f
    adr     x21, fusee_says_el3
    mrs     x9, mpidr_el1               // without firmware all CPUs may come here at once: one speaks
    tst     x9, #0xffffff
    b.eq    fusee_refuse
1:  wfi
    b       1b
2:
    adrp    x22, _start
    ldr     x23, =_start
    and     x23, x23, #{physical}
    cmp     x22, x23
    adr     x21, fusee_says_misplaced
    b.ne    fusee_refuse
    ldr     x22, ={last}                // the last word of memory keeps what is stored there
    adr     x21, fusee_says_no_memory
    ldr     x9, [x22]
    mvn     x10, x9
    str     x10, [x22]
    ldr     x11, [x22]
    str     x9, [x22]
    cmp     x10, x11
    b.ne    fusee_refuse
    adr     x21, fusee_says_exception
    bl      fusee_drop_to_el1

    // A boot loader with caches on may have left lines of .bss in them. They are dropped before and after: we write it with caches off.
    bl      fusee_forget_bss
    adrp    x0, __bss_start
    adrp    x1, __bss_end
1:  stp     xzr, xzr, [x0], #16
    cmp     x0, x1
    b.lo    1b

    adrp    x0, fusee_boot_tables
    ldr     x1, ={memory}               // a block of memory
    .if {close}
    // Memory and console in one GiB: two tables of that, of blocks of 2 MiB.
    add     x2, x0, #8192
    orr     x2, x2, #3
    str     x2, [x0, #{memory_slot}]
    add     x2, x2, #4096
    add     x0, x0, #4096
    str     x2, [x0, #{memory_slot}]
    add     x5, x0, #4096
    add     x6, x5, #4096
    ldr     x7, ={blocks}
1:  orr     x2, x1, #1 << 7             // read only: the identity
    str     x2, [x5], #8
    str     x1, [x6], #8
    add     x1, x1, #0x200000
    subs    x7, x7, #1
    b.ne    1b
    add     x0, x0, #8192
    ldr     x1, ={console}
    ldr     x2, ={console_offset}
    str     x1, [x0, x2]
    sub     x0, x0, #8192
    .else
    // Two tables of 512 entries of 1 GiB: the console's, and memory's.
    orr     x2, x1, #1 << 7             // read only: the identity
    str     x2, [x0, #{memory_slot}]
    add     x0, x0, #4096
    str     x1, [x0, #{memory_slot}]
    ldr     x1, ={console}
    str     x1, [x0, #{console_slot}]
    .endif

    mov     x4, x0
    bl      fusee_forget_bss            // the tables are there
    bl      fusee_translation_on
    ldr     x0, =fusee_cpu_areas
    ldr     x1, ={top}
    add     x0, x0, x1
    mov     sp, x0
    mov     x0, x20
    .if {speaks}
    lsr     x1, x19, #2
    .endif
    mov     x29, #0
    mov     x30, #0
    msr     tpidr_el1, xzr
    ldr     x5, =fusee_boot
    br      x5

    // Another CPU starts. x0: its data, the top of its stack.
    .global fusee_secondary_start
fusee_secondary_start:
    mov     x20, x0
    bl      fusee_listen
    bl      fusee_drop_to_el1
    adrp    x4, fusee_kernel_base
    ldr     x4, [x4, :lo12:fusee_kernel_base]
    bl      fusee_translation_on
    mov     sp, x20
    mov     x0, x20
    mov     x29, #0
    mov     x30, #0
    msr     tpidr_el1, xzr
    ldr     x5, =fusee_secondary_main
    br      x5

    // Makes exceptions of this CPU report themselves. Uses x9, x10.
fusee_listen:
    mov     x28, #0
    adr     x21, fusee_says_exception
    adrp    x9, _start
    msr     vbar_el1, x9
    mrs     x10, CurrentEL
    tbz     x10, #3, 1f
    msr     vbar_el2, x9
1:  ret

    // Drops all of .bss from the caches. Uses x9 to x12.
fusee_forget_bss:
    mrs     x9, ctr_el0                 // bytes of the shortest line: 4 << DminLine
    ubfx    x9, x9, #16, #4
    mov     x10, #4
    lsl     x10, x10, x9
    adrp    x11, __bss_start
    adrp    x12, __bss_end
1:  dc      ivac, x11
    add     x11, x11, x10
    cmp     x11, x12
    b.lo    1b
    dsb     sy
    ret

    // Turns translation on: the identity for TTBR0, x4 for TTBR1. Uses x5 to x7.
fusee_translation_on:
    adrp    x5, fusee_boot_tables
    msr     ttbr0_el1, x5
    msr     ttbr1_el1, x4
    ldr     x5, ={memory_types}
    msr     mair_el1, x5
    // 39 bits and 4 KiB pages on both sides, tables inner shareable and cached, 16-bit space numbers from
    // TTBR0.
    ldr     x5, =0x00000010b5193519
    mrs     x6, id_aa64mmfr0_el1        // as many physical address bits as there are, 48 at most
    and     x6, x6, #0xf
    mov     x7, #5
    cmp     x6, x7
    csel    x6, x6, x7, lo
    orr     x5, x5, x6, lsl #32
    msr     tcr_el1, x5
    tlbi    vmalle1
    ic      iallu
    dsb     nsh
    isb
    // Translation, caches, stack alignment checks; EL0 may zero lines, read the cache type, wfi and wfe.
    ldr     x5, =0x30d5d81d
    msr     sctlr_el1, x5
    isb
    ret

    // Replaces the kernel's tables by x0, by way of the empty table x1, invalidating in between. Runs through
    // the identity, and uses no memory.
fusee_replace_tables:
    msr     ttbr1_el1, x1
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    msr     ttbr1_el1, x0
    isb
    ret
    .popsection
"#,
    port = const board::CONSOLE,
    data = const console::PORT.0,
    flags = const console::PORT.1,
    full = const console::PORT.2,
    must_enable = const console::ENABLE.is_some() as u32,
    enable = const match console::ENABLE { Some((register, _)) => register, None => 0 },
    enabled = const match console::ENABLE { Some((_, bits)) => bits, None => 0 },
    exit = const semihosting::SYS_EXIT_EXTENDED,
    reason = const semihosting::APPLICATION_EXIT,
    code = const panic::PANIC,
    physical = const !OFFSET,
    last = const board::MEMORY.end - 8,
    top = const cpu::TOP,
    memory_types = const MEMORY_TYPES,
    memory = const board::MEMORY.start & !(GIB - 1) | MEMORY_BLOCK,
    memory_slot = const (board::MEMORY.start / GIB) * 8,
    console = const board::CONSOLE & !(if CLOSE { BLOCK - 1 } else { GIB - 1 }) | DEVICE_BLOCK,
    console_slot = const (board::CONSOLE / GIB) * 8,
    console_offset = const board::CONSOLE % GIB / BLOCK * 8,
    blocks = const (board::MEMORY.end - board::MEMORY.start) / BLOCK,
    close = const CLOSE as u32,
    speaks = const cfg!(feature = "speaks") as u32,
);

const GIB: u64 = 1 << 30;
const BLOCK: u64 = 2 << 20;
/// Whether the console is in the same GiB as memory. Only memory is ever mapped as such, even by boot code: a CPU reads ahead there.
const CLOSE: bool = board::CONSOLE / GIB == board::MEMORY.start / GIB;
/// Descriptors of blocks: normal memory, inner shareable, accessed, not executable at EL0;
const MEMORY_BLOCK: u64 = 0x0040_0000_0000_0701 | 1 << 2;
/// and a device, never executable.
const DEVICE_BLOCK: u64 = 0x0060_0000_0000_0701;
const _: () = assert!(board::MEMORY.start.is_multiple_of(GIB) && board::MEMORY.end - board::MEMORY.start <= GIB);

/// Tables with entries of 1 GiB, for TTBR0 and for TTBR1; and of 2 MiB, for each of these, if memory and console are close.
#[repr(C, align(4096))]
struct BootTables(UnsafeCell<[[u64; 512]; if CLOSE { 4 } else { 2 }]>);
// SAFETY: written by boot code before Rust runs, and never after.
unsafe impl Sync for BootTables {}
#[unsafe(export_name = "fusee_boot_tables")]
static BOOT_TABLES: BootTables = BootTables(UnsafeCell::new([[0; 512]; if CLOSE { 4 } else { 2 }]));

/// A table that maps nothing.
#[repr(C, align(4096))]
struct NoTable([u64; 512]);
static NO_TABLE: BootCell<NoTable> = BootCell::new(NoTable([0; 512]));

/// `TTBR1_EL1` of all CPUs. Other CPUs read it with translation off, hence the cache maintenance in `boot`.
#[unsafe(export_name = "fusee_kernel_base")]
static KERNEL_BASE: BootCell<u64> = BootCell::new(0);

mod symbols {
    unsafe extern "C" {
        #[link_name = "__image_start"]
        pub static IMAGE_START: u8;
        #[link_name = "__text_end"]
        pub static TEXT_END: u8;
        #[link_name = "__rodata_end"]
        pub static RODATA_END: u8;
        #[link_name = "__image_end"]
        pub static IMAGE_END: u8;
        #[link_name = "__memory_start"]
        pub static MEMORY_START: u8;
        #[link_name = "__memory_end"]
        pub static MEMORY_END: u8;
        #[link_name = "fusee_replace_tables"]
        pub static REPLACE_TABLES: u8;
    }
}

/// Physical addresses of the parts of the kernel.
struct Layout {
    text: Range<u64>,
    rodata: Range<u64>,
    data: Range<u64>,
    image: Range<u64>,
    memory: Range<u64>,
}

impl Layout {
    fn read(packed: u64) -> Self {
        let image_start = physical(&raw const symbols::IMAGE_START);
        let text_end = physical(&raw const symbols::TEXT_END);
        let rodata_end = physical(&raw const symbols::RODATA_END);
        let image_end = physical(&raw const symbols::IMAGE_END);
        Self {
            text: image_start..text_end,
            rodata: text_end..rodata_end,
            data: rodata_end..image_end,
            image: image_end..image_end + packed.next_multiple_of(PAGE),
            memory: physical(&raw const symbols::MEMORY_START)..physical(&raw const symbols::MEMORY_END),
        }
    }
}

/// The first Rust code: the boot CPU, alone, on its own stack, with the boot tables.
///
/// # Safety
/// Called once, by boot code, with the physical address of the device tree, and, in a kernel that can speak, the exception level at which the image was entered.
#[unsafe(export_name = "fusee_boot")]
unsafe extern "C" fn boot(device_tree: u64, entered: u64) -> ! {
    vectors::install();
    let system = packed_system();
    speak::start(&system);
    let layout = Layout::read(system.bytes().len() as u64);
    // SAFETY: called once: so is this function.
    let mut pool = unsafe { Pool::take() };
    let Ok(kernel) = kernel_space(&mut pool, &layout) else { panic!("the kernel's own mappings do not fit") };
    // SAFETY: alone; `kernel` maps all that we use, at the addresses the boot tables map it.
    unsafe { replace_tables(kernel.base()) };
    smp::harden();
    leave_identity();

    let tree = self::device_tree(device_tree);
    if let Some(tree) = tree {
        compare_board(tree);
    }
    speak::place(tree.is_some(), entered);
    let conduit = conduit(tree);
    // SAFETY: alone.
    unsafe { panic::CONDUIT.set(conduit) };
    let header = system.header();
    // SAFETY: alone.
    unsafe { panic::FLAGS.set(header.flags) };
    let (cpus, stride) = (header.cpus as usize, (header.cpu_stride as usize).max(1));
    assert!((1..=CPUS).contains(&cpus), "a system for {cpus} CPUs");
    assert!((cpus - 1) * stride < board::CPUS, "CPU {} is not on this board", (cpus - 1) * stride);
    // SAFETY: alone.
    unsafe { smp::settle(cpus, stride) };
    // SAFETY: alone.
    unsafe { trace::start() };

    // SAFETY: we are the boot CPU, called once: there is no reference to our data.
    let cpu = unsafe { cpu::prepare(CpuId(0)) };
    // SAFETY: prepared for us just now.
    unsafe { cpu::adopt(cpu) };
    // SAFETY: our own for good.
    let cpu = unsafe { &mut *cpu.as_ptr() };

    trap::run(cpu, |state| {
        // SAFETY: alone until `smp::start` below. The kernel's memory is `layout.memory`, the system lies
        // behind the kernel, and neither is handed out: `build` checks.
        unsafe { spaces::build(&system, &mut pool, &(layout.text.start..layout.memory.end), &mut state.board) }
            .unwrap_or_else(|error| refuse_spaces(error));
        route_interrupts(&system, state);
        speak::step(Step::Controller, format_args!("{}", Plain(board::CONTROLLER)));
        state.kernel.boot(&system).unwrap_or_else(|error| refuse_objects(error));
        // SAFETY: called once and alone; memory behind the kernel's has no owner yet.
        let engine = unsafe { engine::prepare(&system, &(layout.memory.end..board::MEMORY.end)) }
            .unwrap_or_else(|error| refuse_engine(error));
        #[cfg(not(start = "spin-table"))]
        if let Some(engine) = &engine {
            engine.start(started_by(conduit)).unwrap_or_else(|error| refuse_engine(error));
        }
        // SAFETY: alone.
        unsafe { clock::start() };
        speak::step(Step::Counter, format_args!("{} Hz", clock::frequency()));
        // SAFETY: once; the kernel's tables are complete.
        unsafe { start_others(conduit, cpus, engine) };
        smp::enter(CpuId(0), state);
        if speak::is_on() {
            speak::wait_for(cpus);
            speak::objects(&system);
            // SAFETY: the others wait for the lock, which we have. Time begins here, so the time of printing counts for nothing.
            unsafe { clock::start() };
        }
    })
}

/// Starts the kernel's other CPUs. That of engines has started.
///
/// # Safety
/// Called once, and the kernel's tables are complete.
#[cfg(not(start = "spin-table"))]
unsafe fn start_others(conduit: Option<Conduit>, cpus: usize, _: Option<EngineCpu>) {
    for id in 1..cpus {
        // SAFETY: each once; the kernel's tables are complete: promised by our caller.
        unsafe { smp::start(started_by(conduit), CpuId(id as u8)) };
    }
}

/// How the firmware is called that starts CPUs.
#[cfg(not(start = "spin-table"))]
fn started_by(conduit: Option<Conduit>) -> Conduit {
    conduit.unwrap_or_else(|| panic!("the device tree does not tell how to start other CPUs"))
}

/// Starts the kernel's other CPUs and that of engines, and parks the rest.
///
/// # Safety
/// Called once, and the kernel's tables are complete.
#[cfg(start = "spin-table")]
unsafe fn start_others(_: Option<Conduit>, cpus: usize, engine: Option<EngineCpu>) {
    // SAFETY: promised by our caller.
    unsafe { crate::spin_table::start(cpus, engine) };
}

/// The packed system behind the kernel, which ends below the kernel's memory.
fn packed_system() -> System<'static> {
    let start = &raw const symbols::IMAGE_END;
    assert!(physical(start).is_multiple_of(PAGE), "the image is not padded to whole pages");
    // SAFETY: the boot tables map all memory, and the linker script leaves at least a page between the image
    // and the kernel's memory; a header is plain words, valid with any values.
    let header = unsafe { &*start.cast::<Header>() };
    assert!(header.magic == fusee_abi::image::MAGIC, "no packed system behind the kernel");
    let room = (&raw const symbols::MEMORY_START as usize) - start as usize;
    let length = usize::try_from(header.bytes).unwrap_or(usize::MAX);
    assert!(length <= room, "the packed system is too long: {length} bytes");
    // SAFETY: mapped by the boot tables and later read only by the kernel's; nothing writes it (`spaces`
    // gives no writable mapping of it to the kernel); below the kernel's memory by the assertion.
    let bytes = unsafe { slice::from_raw_parts(start, length) };
    match System::parse(bytes) {
        Ok(system) if system.is_whole() => system,
        Ok(_) => panic!("the packed system is not what was packed: its checksum does not fit"),
        Err(ImageError::OtherVersion(version)) => panic!("the packed system is of version {}", u64::from(version)),
        Err(ImageError::BadTable(table)) => panic!("table {table} of the packed system is broken"),
        Err(ImageError::Truncated | ImageError::NotAnImage) => panic!("no packed system behind the kernel"),
    }
}

/// The kernel's own address space: text executable, everything else not, guard pages missing.
fn kernel_space(pool: &mut Pool, layout: &Layout) -> Result<Space, MapError> {
    let space = Space::new(pool)?;
    let mut map = |range: Range<u64>, access| {
        space.map(pool, range.start | OFFSET, range.start, range.end - range.start, access, How::Shown)
    };
    map(board::DEVICES, Access::KernelDevice)?;
    map(board::MEMORY.start..layout.text.start, Access::KernelWrite)?;
    map(layout.text.clone(), Access::KernelText)?;
    map(layout.rodata.clone(), Access::KernelRead)?;
    map(layout.data.clone(), Access::KernelWrite)?;
    map(layout.image.clone(), Access::KernelRead)?;
    let mut start = layout.image.end;
    for guard in cpu::guards() {
        let guard = physical(guard as *const u8);
        map(start..guard, Access::KernelWrite)?;
        start = guard + cpu::GUARD as u64;
    }
    map(start..board::MEMORY.end, Access::KernelWrite)?;
    Ok(space)
}

/// Goes from the boot tables to `base`, the kernel's own.
///
/// # Safety
/// The boot CPU is alone, still has the identity in TTBR0, and `base` maps everything the kernel uses where
/// the boot tables map it.
unsafe fn replace_tables(base: u64) {
    let empty = physical(NO_TABLE.get());
    let code = physical(&raw const symbols::REPLACE_TABLES);
    // SAFETY: alone: promised by our caller.
    unsafe { KERNEL_BASE.set(base) };
    let line = &raw const *KERNEL_BASE.get();
    // SAFETY: other CPUs read this word before their caches are on.
    unsafe { asm!("dc cvac, {}", "dsb sy", in(reg) line, options(nostack, preserves_flags)) };
    // SAFETY: `code` is mapped executable by the identity, touches only x0, x1 and x30, and comes back to a
    // kernel mapped as before: promised by our caller.
    unsafe {
        asm!("dsb ish", "blr {code}", code = in(reg) code, in("x0") base, in("x1") empty, out("x30") _, options(nostack));
    }
}

/// Gives up the identity of boot code: from here on TTBR0 maps nothing until a task runs.
pub fn leave_identity() {
    let empty = physical(NO_TABLE.get());
    // SAFETY: nothing runs or is used through TTBR0 any more: the stack and all pointers are in the upper
    // half. Space number 0 belongs to no task.
    unsafe {
        asm!("msr ttbr0_el1, {}", "isb", "tlbi vmalle1", "dsb nsh", "isb", in(reg) empty, options(nostack, preserves_flags));
    }
}

/// The device tree at physical address `address`, if there is one.
fn device_tree(address: u64) -> Option<&'static [u8]> {
    if address == 0 || !address.is_multiple_of(8) || !board::MEMORY.contains(&address) {
        return None;
    }
    let start = direct::<u8>(address);
    // SAFETY: the boot protocol says that x0 is a device tree; it lies in memory the kernel maps, behind the part
    // that the image header declares as ours, so that it has not been written and will not be while we read.
    let header = unsafe { slice::from_raw_parts(start, device_tree::HEADER) };
    let length = device_tree::length(header)?;
    if length as u64 > board::MEMORY.end - address {
        return None;
    }
    // SAFETY: as above, and it ends in memory the kernel maps.
    Some(unsafe { slice::from_raw_parts(start, length) })
}

/// Refuses to start on another board than that of the kernel, if the device tree tells.
fn compare_board(tree: &[u8]) {
    let (Some(own), Some(names)) = (board::TREE, device_tree::property(tree, b"", b"compatible")) else { return };
    let is_ours = names.split(|byte| *byte == 0).any(|name| name == own.as_bytes());
    assert!(is_ours, "the device tree is of another board");
}

/// How the firmware is called, by the board's file, or by the device tree; `None`: it is not.
fn conduit(tree: Option<&[u8]>) -> Option<Conduit> {
    match board::START {
        Start::AsTheTreeSays => Conduit::from_device_tree(tree?),
        Start::Firmware(conduit) => Some(conduit),
        Start::SpinTable(_) => None,
    }
}

/// Sets up the interrupt controller for all device lines.
fn route_interrupts(system: &System<'_>, state: &mut State) {
    // SAFETY: alone.
    let mut controller = unsafe { smp::controller() };
    controller.reset();
    for (index, interrupt) in system.interrupts().iter().enumerate() {
        let Some(id) = InterruptId::new(index) else { continue };
        let signal = if interrupt.edge != 0 { Signal::Edge } else { Signal::Level };
        let affinity = board::affinity(smp::on_board(interrupt.cpu as usize));
        if controller.route(interrupt.line, signal, affinity).is_err() {
            panic!("interrupt {index}: the board has no line {}", u64::from(interrupt.line));
        }
        state.board.set_line(id, interrupt.line);
        // SAFETY: alone.
        unsafe { interrupts::assign(interrupt.line, id) };
    }
}

// Code that runs once fills the room before the vectors, which begin at a multiple of 2 KiB.
// Text is made from errors here, at the edge, and without `Debug`: that would cost more code than all of boot.

#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.boot")]
fn refuse_spaces(error: SpaceError) -> ! {
    match error {
        SpaceError::TooManyTasks => panic!("more tasks than the kernel has threads"),
        SpaceError::OutOfTables => panic!("the tasks need more translation tables than there are"),
        SpaceError::NoTask(index) => panic!("mapping {index} names no task"),
        SpaceError::Forbidden(index) => panic!("mapping {index} reaches where no task may"),
        SpaceError::Owned(index, device) => panic!("mapping {index} reaches {}, which is the kernel's", Plain(device)),
        SpaceError::BadSource(index) => panic!("mapping {index} is filled from outside the image"),
        SpaceError::NoPlace(index) => panic!("handle {index} is to a region that is lent, and has no place for it"),
        SpaceError::BadProbe(index) => panic!("engine user {index}: the kernel cannot read its idle probe"),
        SpaceError::BadUser(index) => panic!("engine user {index} names no task"),
        SpaceError::Mapping(index, error) => {
            let why = match error {
                MapError::OutOfTables => "there are no more translation tables",
                MapError::BadAddress => "its address is misaligned or out of range",
                MapError::Overlap => "something is mapped there already",
                MapError::BadAccess => "it is writable or a device, and executable",
            };
            panic!("mapping {index}: {}", Plain(why))
        }
    }
}

#[cold]
fn refuse_objects(error: BootError) -> ! {
    match error {
        BootError::TooMany(what) => panic!("too many {} for this kernel", Plain(what)),
        BootError::Dangling(what) => panic!("a record of {} names an object that does not exist", Plain(what)),
        BootError::BadClusters => panic!("a CPU is in no cluster or in two"),
        BootError::EarlyRelease => panic!("a task may release early under a policy that does not order by deadlines"),
        BootError::BeginsEarly => panic!("jobs may begin early of a task of which that cannot be"),
        BootError::Without(missing) => {
            let name = feature::names(missing).next().unwrap_or_default();
            panic!("the system needs `{}`, which this kernel lacks", Plain(name))
        }
    }
}

#[cold]
fn refuse_engine(error: EngineError) -> ! {
    match error {
        EngineError::BadFirmware => panic!("the engine firmware has no place"),
        EngineError::Translation => panic!("the interrupt translation service does not answer"),
        EngineError::Refused => panic!("the firmware does not start the engine CPU"),
    }
}

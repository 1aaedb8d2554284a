//! From the firmware's jump to the first task.
//!
//! ```text
//! fusee_start          zero .bss; EL1; translation on by two boot tables       assembly, at physical addresses
//! boot                 the kernel's own tables, then everything else           the boot CPU alone
//! smp::start           the other CPUs, which wait for the lock
//! trap::run            the first task
//! ```
//!
//! The boot tables are two entries: the identity for TTBR0, executable and read only, and the upper half for
//! TTBR1, which alone in the life of the system is writable and executable, until `boot` has made better ones.

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::ops::Range;
use core::slice;

use fusee_abi::image::{Header, ImageError, System, feature};
use fusee_bsp::gic::Signal;
use fusee_bsp::psci::Conduit;
use fusee_bsp::{device_tree, virt as board};
use fusee_kernel_core::id::InterruptId;
use fusee_kernel_core::limits::CPUS;
use fusee_kernel_core::{BootError, CpuId};

use crate::cell::BootCell;
use crate::engine::EngineError;
use crate::panic::Plain;
use crate::spaces::SpaceError;
use crate::translation::{Access, How, MEMORY_TYPES, MapError, OFFSET, PAGE, Pool, Space, direct, physical};
use crate::trap::State;
use crate::{clock, cpu, engine, interrupts, panic, smp, spaces, trace, trap, vectors};

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
    .quad   0xa                         // little endian, 4 KiB pages
    .quad   0
    .quad   0
    .quad   0
    .ascii  "ARM\x64"
    .word   0
    .popsection

    .pushsection .text.boot, "ax"
fusee_start:
    mov     x20, x0
    bl      fusee_drop_to_el1
    adrp    x0, __bss_start
    adrp    x1, __bss_end
1:  stp     xzr, xzr, [x0], #16
    cmp     x0, x1
    b.lo    1b

    // Two tables of 512 entries of 1 GiB: devices, and memory.
    adrp    x0, fusee_boot_tables
    mov     x1, #0x701                  // normal memory, inner shareable, accessed, a block
    movk    x1, #0x4000, lsl #16
    movk    x1, #0x0040, lsl #48        // not for EL0
    orr     x1, x1, #1 << 2
    orr     x2, x1, #1 << 7             // read only: the identity
    str     x2, [x0, #8]
    add     x0, x0, #4096
    str     x1, [x0, #8]
    mov     x1, #0x701                  // devices
    movk    x1, #0x0060, lsl #48        // never executable
    str     x1, [x0]

    mov     x4, x0
    bl      fusee_translation_on
    ldr     x0, =fusee_cpu_areas
    ldr     x1, ={top}
    add     x0, x0, x1
    mov     sp, x0
    mov     x0, x20
    mov     x29, #0
    mov     x30, #0
    msr     tpidr_el1, xzr
    ldr     x5, =fusee_boot
    br      x5

    // Another CPU starts. x0: its data, the top of its stack.
    .global fusee_secondary_start
fusee_secondary_start:
    mov     x20, x0
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
    top = const cpu::TOP,
    memory_types = const MEMORY_TYPES,
);

#[repr(C, align(4096))]
struct BootTables(UnsafeCell<[[u64; 512]; 2]>);
// SAFETY: written by boot code before Rust runs, and by nobody after.
unsafe impl Sync for BootTables {}
#[unsafe(export_name = "fusee_boot_tables")]
static BOOT_TABLES: BootTables = BootTables(UnsafeCell::new([[0; 512]; 2]));

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
/// Called once, by boot code, with the physical address of the device tree.
#[unsafe(export_name = "fusee_boot")]
unsafe extern "C" fn boot(device_tree: u64) -> ! {
    vectors::install();
    let system = packed_system();
    let layout = Layout::read(system.bytes().len() as u64);
    assert!(
        layout.image.end <= layout.memory.start,
        "the packed system reaches into the kernel's memory at {:#x}",
        layout.memory.start
    );
    // SAFETY: called once: so is this function.
    let mut pool = unsafe { Pool::take() };
    let Ok(kernel) = kernel_space(&mut pool, &layout) else { panic!("the kernel's own mappings do not fit") };
    // SAFETY: alone; `kernel` maps all that we use, at the addresses the boot tables map it.
    unsafe { replace_tables(kernel.base()) };
    smp::harden();
    leave_identity();

    let conduit = conduit(device_tree);
    let header = system.header();
    let (cpus, stride) = (header.cpus as usize, (header.cpu_stride as usize).max(1));
    assert!((1..=CPUS).contains(&cpus), "a system for {cpus} CPUs");
    assert!((cpus - 1) * stride < board::CPUS, "CPU {} is not on this board", (cpus - 1) * stride);
    // SAFETY: alone, for all of these.
    unsafe { panic::CONDUIT.set(conduit) };
    // SAFETY: alone.
    unsafe { smp::settle(cpus, stride) };
    // SAFETY: alone.
    unsafe { trace::start() };

    // SAFETY: we are the boot CPU, called once: nobody has a reference to our data.
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
        state.kernel.boot(&system).unwrap_or_else(|error| refuse_objects(error));
        if let Some(conduit) = conduit {
            // SAFETY: called once and alone; what lies behind the kernel's memory belongs to nobody yet.
            unsafe { engine::start(&system, conduit, &(layout.memory.end..board::MEMORY.end)) }
                .unwrap_or_else(|error| refuse_engine(error));
        }
        // SAFETY: alone.
        unsafe { clock::start() };
        for id in 1..cpus {
            let conduit = conduit.unwrap_or_else(|| panic!("the device tree does not tell how to start other CPUs"));
            // SAFETY: each once; the kernel's tables are complete.
            unsafe { smp::start(conduit, CpuId(id as u8)) };
        }
        smp::enter(CpuId(0), state);
    })
}

/// The packed system behind the kernel.
fn packed_system() -> System<'static> {
    let start = &raw const symbols::IMAGE_END;
    assert!(physical(start).is_multiple_of(PAGE), "the image is not padded to whole pages");
    // SAFETY: the boot tables map all memory, and the linker script leaves at least a page between the image
    // and the kernel's memory; a header is plain words, valid whatever they are.
    let header = unsafe { &*start.cast::<Header>() };
    assert!(header.magic == fusee_abi::image::MAGIC, "no packed system behind the kernel");
    let room = (&raw const symbols::MEMORY_START as usize) - start as usize;
    let length = usize::try_from(header.bytes).unwrap_or(usize::MAX);
    assert!(length <= room, "the packed system is too long: {length} bytes");
    // SAFETY: mapped by the boot tables and later read only by the kernel's; nothing writes it (`spaces`
    // gives no writable mapping of it to the kernel); below the kernel's memory by the assertion.
    let bytes = unsafe { slice::from_raw_parts(start, length) };
    match System::parse(bytes) {
        Ok(system) => system,
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

/// How the firmware is called, by the device tree at physical address `address`; `None`: there is none.
fn conduit(address: u64) -> Option<Conduit> {
    if address == 0 || !address.is_multiple_of(8) || !board::MEMORY.contains(&address) {
        return None;
    }
    let start = direct::<u8>(address);
    // SAFETY: the boot protocol says that x0 is a device tree; it lies in memory the kernel maps, behind what
    // the image header says we use, so that nobody has written to it or will while we read.
    let header = unsafe { slice::from_raw_parts(start, device_tree::HEADER) };
    let length = device_tree::length(header)?;
    if length as u64 > board::MEMORY.end - address {
        return None;
    }
    // SAFETY: as above, and it ends in memory the kernel maps.
    let tree = unsafe { slice::from_raw_parts(start, length) };
    Conduit::from_device_tree(tree)
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

// Text is made from errors here, at the edge, and without `Debug`: that would cost more code than all of boot.

#[cold]
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
        BootError::Without(missing) => {
            let name = feature::names(missing).next().unwrap_or_default();
            panic!("the system needs `{}`, and this kernel was built without", Plain(name))
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

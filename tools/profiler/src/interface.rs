//! The door to QEMU: functions of its plugin interface that we call, and ours that it calls.
//!
//! Written for version 1 of the interface. Source: `include/qemu/qemu-plugin.h` of QEMU 7.2; names and types below are from
//! there. A QEMU that no longer knows this version says so, and does not start.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::instruction::{Instruction, Meaning, is_of_kernel};
use crate::traps::{Place, Places, Traps};
use crate::turns::{Rings, Turns};
use crate::windows::Profile;

/// The version of the interface we are written for; QEMU looks for this symbol.
// SAFETY: no other symbol of QEMU or its plugins may have this name: each plugin is a name space of its own, since QEMU
// loads it with `G_MODULE_BIND_LOCAL`, and wants this name.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU's name")]
pub static qemu_plugin_version: c_int = 1;

/// A block that is being translated.
#[repr(C)]
struct Block {
    opaque: [u8; 0],
}

/// An instruction of it.
#[repr(C)]
struct Translated {
    opaque: [u8; 0],
}

type PluginId = u64;
/// `QEMU_PLUGIN_CB_NO_REGS`: the callback looks at no register of the guest.
const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_MEM_W`: the callback hears of stores.
const STORES: c_int = 2;
/// `QEMU_PLUGIN_INLINE_ADD_U64`.
const ADD: c_int = 0;

/// Instructions that all cores have executed: the emulator counts them, when turns are looked for.
static EXECUTED: AtomicU64 = AtomicU64::new(0);

// SAFETY: these must be QEMU's functions with QEMU's types: they are those of its header, enumerations are `int`, and
// structures are only passed on, never looked into.
unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(plugin: PluginId, callback: extern "C" fn(PluginId, *mut Block));
    fn qemu_plugin_register_atexit_cb(
        plugin: PluginId,
        callback: extern "C" fn(PluginId, *mut c_void),
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Translated,
        callback: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        callback: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_inline(
        instruction: *mut Translated,
        operation: c_int,
        number: *mut u64,
        operand: u64,
    );
    fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Translated,
        callback: extern "C" fn(c_uint, u32, u64, *mut c_void),
        flags: c_int,
        accesses: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Translated;
    fn qemu_plugin_insn_data(instruction: *const Translated) -> *const c_void;
    fn qemu_plugin_insn_size(instruction: *const Translated) -> usize;
    fn qemu_plugin_insn_vaddr(instruction: *const Translated) -> u64;
}

/// The knowledge so far.
struct Session {
    /// Where the file is to be.
    path: Option<String>,
    /// All instructions that were translated; callbacks get the index as their data.
    instructions: Vec<(Instruction, Option<Place>)>,
    seen: Seen,
}

/// The events that are looked for.
enum Seen {
    Nothing,
    Windows(Profile),
    Traps(Places, Traps),
    Turns(Turns, File),
}

static SESSION: Mutex<Session> = Mutex::new(Session { path: None, instructions: Vec::new(), seen: Seen::Nothing });

fn with_session<T>(act: impl FnOnce(&mut Session) -> T) -> T {
    act(&mut SESSION.lock().unwrap_or_else(PoisonError::into_inner))
}

/// QEMU calls it once it has loaded us. Anything but 0 ends QEMU.
///
/// # Safety
/// `arguments` must be `count` strings that end with a zero byte.
// SAFETY: no other symbol may have this name: as for `qemu_plugin_version`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    plugin: PluginId,
    _info: *const c_void,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let (mut path, mut places, mut rings) = (None, None, None);
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the pointer must be within the array: QEMU says how long it is.
        let place = unsafe { arguments.add(index) };
        // SAFETY: it must be initialised and aligned: QEMU makes the array of `char *`.
        let argument = unsafe { *place };
        // SAFETY: it must be a string with an end, which is not changed meanwhile: QEMU made it of its command line
        // and waits for us.
        let argument = unsafe { CStr::from_ptr(argument) };
        match argument.to_str().ok().and_then(|argument| argument.split_once('=')) {
            Some(("out", file)) => path = Some(file.to_owned()),
            Some(("places", file)) => places = Some(file.to_owned()),
            Some(("rings", numbers)) => rings = Some(numbers.to_owned()),
            _ => {}
        }
    }
    let Some(path) = path else {
        eprintln!("the profiler wants an argument `out=FILE`");
        return 1;
    };
    let seen = match look_for(&path, places, rings) {
        Ok(seen) => seen,
        Err(error) => {
            eprintln!("{error}");
            return 1;
        }
    };
    with_session(|session| {
        session.path = Some(path);
        session.seen = seen;
    });
    // SAFETY: the plugin must be this one: it is the number we were just given. The callback stays as long as we are
    // loaded, which is until the end of QEMU: we never ask to be unloaded.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(plugin, translated) };
    // SAFETY: the same. The data is nothing.
    unsafe { qemu_plugin_register_atexit_cb(plugin, ended, ptr::null_mut()) };
    0
}

/// The events to be looked for, by the arguments.
fn look_for(path: &str, places: Option<String>, rings: Option<String>) -> Result<Seen, Box<dyn Error>> {
    if let Some(numbers) = rings {
        return Ok(Seen::Turns(Turns::new(Rings::parse(&numbers)?), File::create(path)?));
    }
    let Some(file) = places else { return Ok(Seen::Windows(Profile::default())) };
    let places = Places::parse(&std::fs::read_to_string(file)?)?;
    let traps = Traps::new(&places);
    Ok(Seen::Traps(places, traps))
}

/// A block was translated: each of its instructions is to be announced when it is executed.
extern "C" fn translated(_plugin: PluginId, block: *mut Block) {
    // SAFETY: the block must be one under translation: QEMU calls us with it, during it.
    let count = unsafe { qemu_plugin_tb_n_insns(block) };
    let counts_turns = with_session(|session| matches!(session.seen, Seen::Turns(..)));
    if counts_turns {
        // SAFETY: the block as above; the callback stays, as in `qemu_plugin_install`. The data is nothing.
        unsafe { qemu_plugin_register_vcpu_tb_exec_cb(block, block_executed, NO_REGISTERS, ptr::null_mut()) };
    }
    for index in 0..count {
        // SAFETY: the block as above; the index must be below the count: it is.
        let instruction = unsafe { qemu_plugin_tb_get_insn(block, index) };
        // SAFETY: the instruction must be of a block under translation: it is of this one.
        let address = unsafe { qemu_plugin_insn_vaddr(instruction) };
        if counts_turns {
            // SAFETY: the instruction as above. The number must be one that stays: it is static. The emulator adds to it from the
            // one thread that emulates all cores when turns are looked for, and we read it there.
            unsafe { qemu_plugin_register_vcpu_insn_exec_inline(instruction, ADD, EXECUTED.as_ptr(), 1) };
        }
        // SAFETY: the same.
        let size = unsafe { qemu_plugin_insn_size(instruction) };
        // SAFETY: the same.
        let data = unsafe { qemu_plugin_insn_data(instruction) };
        let encoding = if size == size_of::<u32>() {
            // SAFETY: four bytes must be readable there: QEMU keeps as many as it says, until the end of the
            // translation. They need not be aligned.
            unsafe { data.cast::<[u8; 4]>().read_unaligned() }
        } else {
            // Another core's instruction set: no instruction of ours.
            [0; 4]
        };
        let decoded = Instruction::decode(address, u32::from_le_bytes(encoding));
        let number = with_session(|session| {
            let place = match &session.seen {
                // Traps are the kernel's.
                Seen::Traps(..) if !is_of_kernel(address) => return None,
                Seen::Traps(places, _) => places.at(decoded.address),
                // Events announced beside blocks are readings of the clock.
                Seen::Turns(..) if decoded.meaning != Meaning::KernelReadsCounter => return None,
                Seen::Turns(..) | Seen::Windows(_) | Seen::Nothing => None,
            };
            session.instructions.push((decoded, place));
            Some(session.instructions.len() - 1)
        });
        if counts_turns && is_of_kernel(address) {
            // SAFETY: the instruction as above; the callback stays. The data is nothing.
            unsafe {
                qemu_plugin_register_vcpu_mem_cb(instruction, stored, NO_REGISTERS, STORES, ptr::null_mut());
            }
        }
        let Some(number) = number else { continue };
        let data = ptr::without_provenance_mut(number);
        // SAFETY: the instruction as above; the callback stays, as in `qemu_plugin_install`. The data is a number.
        unsafe { qemu_plugin_register_vcpu_insn_exec_cb(instruction, executed, NO_REGISTERS, data) };
    }
}

/// A core is about to execute the instruction with this number.
extern "C" fn executed(core: c_uint, number: *mut c_void) {
    with_session(|session| {
        let Some((instruction, place)) = session.instructions.get(number.addr()).copied() else { return };
        match &mut session.seen {
            Seen::Windows(profile) => profile.step(core as usize, instruction),
            Seen::Traps(_, traps) => traps.step(core as usize, instruction, place),
            Seen::Turns(turns, _) => turns.read(core as usize, EXECUTED.load(Ordering::Relaxed)),
            Seen::Nothing => {}
        }
    });
}

/// A core is about to execute a block.
extern "C" fn block_executed(core: c_uint, _data: *mut c_void) {
    with_session(|session| {
        if let Seen::Turns(turns, file) = &mut session.seen {
            turns.block(core as usize, EXECUTED.load(Ordering::Relaxed));
            // The end of QEMU may be sudden.
            if turns.is_long() {
                let _ = file.write_all(turns.take().as_bytes());
            }
        }
    });
}

/// A core has stored to an address, in the kernel.
extern "C" fn stored(core: c_uint, _info: u32, address: u64, _data: *mut c_void) {
    with_session(|session| {
        if let Seen::Turns(turns, _) = &mut session.seen {
            turns.store(core as usize, address);
        }
    });
}

/// QEMU ends.
extern "C" fn ended(_plugin: PluginId, _data: *mut c_void) {
    with_session(|session| {
        let text = match std::mem::replace(&mut session.seen, Seen::Nothing) {
            Seen::Windows(profile) => profile.text(),
            Seen::Traps(_, traps) => traps.text(),
            Seen::Turns(mut turns, mut file) => {
                let _ = file.write_all(turns.take().as_bytes());
                return;
            }
            Seen::Nothing => return,
        };
        let Some(path) = &session.path else { return };
        if let Err(error) = File::create(path).and_then(|mut file| file.write_all(text.as_bytes())) {
            eprintln!("{path}: {error}");
        }
    });
}

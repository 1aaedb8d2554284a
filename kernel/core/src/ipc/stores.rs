//! Stores to doorbells that a server decides on: the *sharer* of an engine.
//!
//! A client without a lock has its doorbell as a page. An engine may have a sharer, which decides the content of the
//! place of that page for each of these clients, its *members*. Where this content forbids a store, the store is a call:
//! it waits at the sharer's endpoint and donates like any other, the badge is the member's number, and the first word is
//! the word to be stored. The answer is *go on*, once the sharer has made the store itself, or *again*. Until then the
//! member waits: to deny is not to answer yet. The page may be a *shadow*, too: a store there is none to a doorbell, and
//! the kernel is not entered.
//!
//! # Invariants
//!
//! 1. Registers of a member are no message: none is read but the one that the store names, and none is written but the
//!    program counter.
//! 2. A member goes on behind its store only if the sharer answered so. Any other end of its wait makes it store again:
//!    the sharer is asked about it once more, or it is a fault if the sharer is dead.
//! 3. With the sharer dead, a gate that has been shut stays shut.
//!
//! # Why the kernel reads the instruction
//!
//! The processor does not report the word of a store that failed in the first stage of translation. The alternative, one
//! step of the client with the page in place, lets another CPU's step through with it, and takes a second trap.
//!
//! Source: ours; its purpose is that of Menychtas, Shen and Scott 2014.

use fusee_abi::Error;
use fusee_abi::call::{NEVER, PAGE_SHIFT, rights};

use crate::id::ThreadId;
use crate::machine::{Members, Page};
use crate::object::{Object, State};
use crate::{Fault, Kernel, Machine};

/// The register that a plain store of 32 bits to one place writes from; 31 stands for zero. `None`: it is something else, or it changes registers, too.
///
/// Source: Arm ARM (DDI 0487) C4.1, loads and stores.
#[must_use]
pub const fn stored_register(instruction: u32) -> Option<usize> {
    let is_store = instruction & 0xffc0_0000 == 0xb900_0000 // str w, [x, #offset]
        || instruction & 0xffe0_0c00 == 0xb800_0000 // stur w, [x, #offset]
        || instruction & 0xffe0_0c00 == 0xb820_0800 // str w, [x, x]
        || instruction & 0xffff_fc00 == 0x889f_fc00; // stlr w, [x]
    if is_store { Some((instruction & 31) as usize) } else { None }
}

impl Kernel {
    /// `share`: sets the content of the places of doorbells for members of an engine.
    pub(crate) fn share<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let Object::Doorbells(engine) = self.argument(machine, thread, rights::MAP)? else {
            return Err(Error::WrongKind);
        };
        let argument = machine.registers(thread).general[1];
        let (members, page) = (argument as u32, argument >> PAGE_SHIFT);
        let page = Page::of(page).ok_or(Error::BadArgument)?;
        let gate = &self.gates[engine];
        if members >> gate.members() != 0 {
            return Err(Error::BadArgument);
        }
        machine.set_doorbells(Members { first: gate.first_member(), set: members as u16 }, page);
        Ok(())
    }

    /// Whether `fault` of `thread` is a store that is a request.
    #[inline(never)]
    pub(crate) fn is_request<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, fault: &Fault) -> bool {
        let Some(store) = machine.doorbell_store(thread, fault) else { return false };
        let gate = &self.gates[store.engine];
        let (Some(endpoint), number) = (gate.sharer(), store.place - gate.first_member()) else { return false };
        if store.is_allowed || self.threads[thread].state() != State::Ready {
            // The store is allowed by now. Or another CPU has let the thread donate, and this one has not taken its kick yet: then
            // the thread stores when it goes on.
            return true;
        }
        self.threads[thread].begin_store(store.value);
        let asked = self.request(machine, thread, endpoint, u32::from(number), false, NEVER).is_ok();
        if !asked {
            self.threads[thread].end_store();
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodings by an independent assembler, and the register that it read there.
    #[test]
    fn plain_stores_of_a_word_are_told_from_all_else() {
        let stores = [
            (0xb900_0328, 8),  // str w8, [x25]
            (0xb900_07ff, 31), // str wzr, [sp, #4]
            (0xb81f_c020, 0),  // stur w0, [x1, #-4]
            (0xb822_6862, 2),  // str w2, [x3, x2]
            (0xb822_7862, 2),  // str w2, [x3, x2, lsl #2]
            (0xb822_4862, 2),  // str w2, [x3, w2, uxtw]
            (0x889f_fc41, 1),  // stlr w1, [x2]
        ];
        for (instruction, register) in stores {
            assert_eq!(stored_register(instruction), Some(register), "{instruction:#x}");
        }
        let others = [
            0xf900_0328_u32, // str x8, [x25]
            0xb940_0328,     // ldr w8, [x25]
            0xb800_4420,     // str w0, [x1], #4
            0xb800_4c20,     // str w0, [x1, #4]!
            0xb800_0820,     // sttr w0, [x1]
            0x2900_0440,     // stp w0, w1, [x2]
            0xbd00_0020,     // str s0, [x1]
            0x8800_7c41,     // stxr w0, w1, [x2]
            0x889f_7c41,     // stllr w1, [x2]
            0x3900_0328,     // strb w8, [x25]
            0x7900_0328,     // strh w8, [x25]
            0xb8e0_0041,     // ldaddal w0, w1, [x2]
            0xd503_201f,     // nop
        ];
        for instruction in others {
            assert_eq!(stored_register(instruction), None, "{instruction:#x}");
        }
    }
}

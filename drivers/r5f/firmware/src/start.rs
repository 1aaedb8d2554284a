//! First instructions, one request, and sleep.

use core::arch::{asm, global_asm};
use core::panic::PanicInfo;

use fusee_accel_contract::{COMMAND_BYTES, Command};
use fusee_r5f_commands::mailbox::{ANSWERED, BEGUN, COMMAND, DONE, KICK, MAILBOX, NUMBER, OUTCOME, REFUSED, START};

use crate::{memory, work};

// The vectors of an Armv7-R processor, from address 0 on (DDI 0406, B1.8.1). After a reset interrupts are masked and memory is not protected.
global_asm!(
    r#"
    .pushsection .text.vectors, "ax"
    .arm
    .global _start
_start:
    b       1f                  // reset
    b       r5f_sleep           // undefined instruction
    b       r5f_sleep           // supervisor call
    b       r5f_sleep           // prefetch abort
    b       r5f_sleep           // data abort
    nop
    b       r5f_sleep           // interrupt
    b       r5f_sleep           // fast interrupt
1:  ldr     sp, =__stack_top
    bl      r5f_main

    // For ever: only a reset ends it. An exception ends here, too: no answer comes, and the driver resets us when the engine's time is over.
    .global r5f_sleep
r5f_sleep:
    wfi
    b       r5f_sleep
    .ltorg
    .popsection
"#
);

#[unsafe(export_name = "r5f_main")]
extern "C" fn main() {
    // Before anything else: should we be held too late, it must not be the number of the next request.
    let number = memory::read_word(MAILBOX + NUMBER);
    memory::write_word(MAILBOX + BEGUN, number);
    memory::complete();
    let mut bytes = [0; COMMAND_BYTES];
    memory::read_bytes(MAILBOX + COMMAND, &mut bytes);
    let outcome = match Command::decode(&bytes) {
        Ok(command) => work::run(&command.operation),
        Err(_) => None,
    };
    memory::write_word(MAILBOX + OUTCOME, if outcome.is_some() { DONE } else { REFUSED });
    memory::complete();
    memory::write_word(MAILBOX + ANSWERED, number);
    memory::complete();
    memory::write_word(memory::read_word(MAILBOX + KICK) as usize, START);
    memory::complete();
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: `wfi` waits; it changes no state.
        unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
    }
}

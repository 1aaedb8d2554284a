//! The end of a task that found itself wrong: its message in the trace and on the console, and exit code 101.

use crate::trace_text::TraceText;
use crate::{PANIC_CODE, environment, exit, log, println};
use core::fmt::{Display, Write};
use core::sync::atomic::{AtomicBool, Ordering};
use fusee_abi::trace::PANIC_TEXT;

static PANICKING: AtomicBool = AtomicBool::new(false);

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    end(info)
}

/// Ends the task with the message `info`.
pub(crate) fn end(info: &dyn Display) -> ! {
    // Relaxed: a task has one thread. A panic while printing one is not printed.
    if !PANICKING.swap(true, Ordering::Relaxed) {
        // The trace first: it needs no other task.
        let mut text = TraceText::new(PANIC_TEXT, |key, word| log(key.into(), word));
        // The writer itself never fails.
        let _ = write!(text, "{info}");
        text.finish();
        println!("{}: {info}", environment().task_name());
    }
    exit(PANIC_CODE)
}

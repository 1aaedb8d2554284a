//! The end of a task that found itself wrong: a line on the console, and exit code 101.

use crate::{PANIC_CODE, environment, exit, println};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

static PANICKING: AtomicBool = AtomicBool::new(false);

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // Relaxed: a task has one thread. A panic while printing one is not printed.
    if !PANICKING.swap(true, Ordering::Relaxed) {
        println!("{}: {info}", environment().task_name());
    }
    exit(PANIC_CODE)
}

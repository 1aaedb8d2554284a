//! The messages of a task by the macros of the crate [`log`], in the trace.
//!
//! ```ignore
//! fusee::messages::start(fusee::messages::LevelFilter::Info).expect("nothing else has been started");
//! log::info!("{} frames", count);
//! ```
//!
//! `cargo xtask trace --messages` prints it with the time, the task, its job and the line of the source. No console is needed, and no other task runs for
//! it; but each eight bytes are a system call. A message has 512 bytes at most, the rest is cut.

use core::fmt::Write;

use fusee_abi::trace::LOG_TEXT;
pub use log::{LevelFilter, SetLoggerError};
use log::{Log, Metadata, Record};

use crate::trace_text::TraceText;

struct Logger;

static LOGGER: Logger = Logger;

/// From here on messages of this level and of more serious ones go into the trace.
///
/// # Errors
/// Something else has been given to [`log::set_logger`], or this was called before.
pub fn start(least: LevelFilter) -> Result<(), SetLoggerError> {
    log::set_logger(&LOGGER)?;
    log::set_max_level(least);
    Ok(())
}

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let mut text = TraceText::new(LOG_TEXT, |key, word| crate::log(key.into(), word));
        let (file, line) = (record.file().unwrap_or("?"), record.line().unwrap_or(0));
        // The writer itself never fails.
        let _ = write!(text, "{} {file}:{line}: {}", record.level(), record.args());
        text.finish();
    }

    fn flush(&self) {}
}

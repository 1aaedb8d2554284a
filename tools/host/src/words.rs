//! Words of all reports: colours, and spans of time.

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::Result;

/// Red on a terminal.
pub fn red(text: &str) -> String {
    colour(text, 31)
}

/// Yellow on a terminal.
pub fn yellow(text: &str) -> String {
    colour(text, 33)
}

/// Green on a terminal.
pub fn green(text: &str) -> String {
    colour(text, 32)
}

/// Red, if the standard output is a terminal, too.
pub fn red_in_a_table(text: &str) -> String {
    if std::io::stdout().is_terminal() { red(text) } else { text.to_owned() }
}

fn colour(text: &str, code: u8) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some() || !std::io::stderr().is_terminal();
    if plain { text.to_owned() } else { format!("\x1b[1;{code}m{text}\x1b[0m") }
}

//--- The standard output

/// Why the standard output took no more, unless its reader had had enough.
static LOST: OnceLock<std::io::Error> = OnceLock::new();

/// Prints the output of a command. A reader that is gone (`| head`) has had enough; all other errors are kept, and make the command fail.
pub fn print(text: &str) {
    print_bytes(text.as_bytes());
}

/// Prints bytes as [`print()`] prints text.
pub fn print_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => drop(LOST.set(error)),
        _ => {}
    }
}

/// The same, as what can be written to.
#[derive(Debug)]
pub struct Out;

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        print_bytes(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The same, as a line.
pub fn say(line: &str) {
    print(&format!("{line}\n"));
}

/// [`say`] with a format.
#[macro_export]
macro_rules! sayln {
    ($($words:tt)*) => { $crate::words::say(&format!($($words)*)) };
}

//--- Faults

/// A span of time in the unit that suits it, three digits after the point.
pub fn span(nanoseconds: i64) -> String {
    let magnitude = nanoseconds.unsigned_abs();
    let (divisor, unit) = match magnitude {
        0..1_000 => return format!("{nanoseconds} ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..10_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let sign = if nanoseconds < 0 { "-" } else { "" };
    format!("{sign}{}.{:03} {unit}", magnitude / divisor, magnitude % divisor * 1_000 / divisor)
}

/// Microseconds, three digits after the point.
pub fn microseconds(time: u64) -> String {
    format!("{}.{:03}", time / 1_000, time % 1_000)
}

/// Milliseconds, three digits after the point.
pub fn milliseconds(time: i64) -> String {
    let sign = if time < 0 { "-" } else { "" };
    format!("{sign}{}", microseconds(time.unsigned_abs() / 1_000))
}

/// The exit code of a command that was carried out, or was not; `false`: its result is not good. An error is printed.
pub fn exit_code(result: Result<bool>) -> ExitCode {
    let lost = LOST.get().map(|error| anyhow::anyhow!("the standard output: {error}"));
    match lost.map_or(result, Err) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{} {error:#}", red("error:"));
            ExitCode::FAILURE
        }
    }
}

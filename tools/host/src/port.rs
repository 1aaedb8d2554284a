//! A serial port of this host.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context, Result};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::termios::{ControlModes, OptionalActions, isatty, tcgetattr, tcsetattr};

/// Bits a second that firmware of boards sets.
pub const RATE: u32 = 115_200;

/// Opens a port: 8 bits, no parity, one stop bit, at `rate` bits a second, and bytes as they are. Something that is no port, such as a file, is read as it is.
///
/// # Errors
/// It is not there, may not be opened, or has no such rate.
pub fn open(path: &Path, rate: u32) -> Result<File> {
    let named = || path.display().to_string();
    // A port without a carrier does not keep us from opening it, and no port becomes our terminal.
    let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits().cast_signed();
    let port = OpenOptions::new().read(true).custom_flags(flags).open(path).with_context(named)?;
    fcntl_setfl(&port, fcntl_getfl(&port)? - OFlags::NONBLOCK).with_context(named)?;
    if isatty(&port) {
        let mut settings = tcgetattr(&port).with_context(named)?;
        settings.make_raw();
        settings.control_modes |= ControlModes::CREAD | ControlModes::CLOCAL;
        settings.control_modes -= ControlModes::CSTOPB | ControlModes::CRTSCTS;
        settings.set_speed(rate).with_context(|| format!("{}: no rate {rate}", named()))?;
        tcsetattr(&port, OptionalActions::Now, &settings).with_context(|| format!("{}: rate {rate}", named()))?;
    }
    Ok(port)
}

/// The bytes that come at a port, from now on; the other side of the channel is gone when the line is.
#[must_use]
pub fn bytes_of(mut port: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = port.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

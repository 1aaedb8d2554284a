//! The console server: text of many clients, one line at a time, on one PL011.
//!
//! Handles: region "uart", endpoint "console" (to serve). Parameters: "baud" and "clock" (hertz), both or neither;
//! without them the port stays as the boot loader left it.
//!
//! A client's text is kept until its line is complete, so lines of different clients never mix. A line longer than
//! [`LINE`] bytes is printed in parts, and a client beyond the [`CLIENTS`] first ones is printed as it comes: both
//! lose order, never text.
//!
//! The server polls the port, on the budget of the client it prints for. It hears of nothing else.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use arm_pl011_uart::{DataBits, LineConfig, PL011Registers, Parity, StopBits, Uart};
use fusee::{Region, Server, console, environment};

/// Clients whose lines are kept apart.
const CLIENTS: usize = 16;
/// Bytes of one client that are kept.
const LINE: usize = 128;

fusee::entry!(main);

fn main() {
    let environment = environment();
    let region = environment.expect::<Region>("uart");
    let registers = fusee_driver::claim::<PL011Registers>(&region).expect("the region `uart` holds a PL011");
    let mut uart = Uart::new(registers);
    if let (Some(baud), Some(clock)) = (environment.parameter("baud"), environment.parameter("clock")) {
        let line = LineConfig { data_bits: DataBits::Bits8, parity: Parity::None, stop_bits: StopBits::One };
        uart.enable(line, baud as u32, clock as u32).expect("the clock can make this baud rate");
    }

    let mut lines = Lines::new();
    Server::new(environment.expect(console::NAME)).run(|badge, words| {
        if let Some((text, length)) = console::decode(&words) {
            lines.add(badge, &text[..length], &mut |text| write(&mut uart, text));
        }
        [0; 6]
    })
}

fn write(uart: &mut Uart<'_>, text: &[u8]) {
    for &byte in text {
        if byte == b'\n' {
            write_byte(uart, b'\r');
        }
        write_byte(uart, byte);
    }
}

fn write_byte(uart: &mut Uart<'_>, byte: u8) {
    while uart.is_tx_fifo_full() {
        fusee::relax();
    }
    uart.write_word(byte);
}

/// Lines that are not complete yet.
struct Lines {
    lines: [Line; CLIENTS],
    clients: usize,
}

/// The incomplete line of one client.
#[derive(Clone, Copy)]
struct Line {
    badge: u64,
    text: [u8; LINE],
    filled: usize,
}

impl Lines {
    const fn new() -> Self {
        Self { lines: [Line { badge: 0, text: [0; LINE], filled: 0 }; CLIENTS], clients: 0 }
    }

    /// Adds `text` of client `badge`; what is complete goes to `print`.
    fn add(&mut self, badge: u64, text: &[u8], print: &mut impl FnMut(&[u8])) {
        let Some(line) = self.line_of(badge) else { return print(text) };
        for &byte in text {
            line.text[line.filled] = byte;
            line.filled += 1;
            if byte == b'\n' || line.filled == LINE {
                print(&line.text[..line.filled]);
                line.filled = 0;
            }
        }
    }

    fn line_of(&mut self, badge: u64) -> Option<&mut Line> {
        let known = self.lines[..self.clients].iter().position(|line| line.badge == badge);
        let index = match known {
            Some(index) => index,
            None if self.clients < CLIENTS => {
                self.lines[self.clients].badge = badge;
                self.clients += 1;
                self.clients - 1
            }
            None => return None,
        };
        Some(&mut self.lines[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_clients_never_mix() {
        let mut lines = Lines::new();
        let mut printed = Vec::new();
        let mut print = |text: &[u8]| printed.extend_from_slice(text);
        lines.add(1, b"left ", &mut print);
        lines.add(2, b"right ", &mut print);
        lines.add(1, b"hand\nle", &mut print);
        lines.add(2, b"hand\n", &mut print);
        lines.add(1, b"g\n", &mut print);
        assert_eq!(printed, b"left hand\nright hand\nleg\n");
    }

    #[test]
    fn no_byte_is_lost_when_lines_or_clients_are_too_many() {
        let mut lines = Lines::new();
        let mut printed = 0;
        for badge in 0..=CLIENTS as u64 {
            lines.add(badge, &[b'x'; LINE], &mut |text| printed += text.len());
        }
        assert_eq!(printed, LINE * (CLIENTS + 1));
    }
}

//! The console server: text of many clients, one line at a time, on one serial port: a PL011, or Cadence's, as the board says of the device that the manifest
//! names.
//!
//! Handles: region "uart", endpoint "console" (to serve); interrupt "line", or none. Parameters: "baud" and "clock" (hertz), both or neither;
//! without them the port stays as the boot loader left it. A Cadence port keeps its speed, and is switched on.
//!
//! A client's text is kept until its line is complete, so lines of different clients never mix. A line longer than
//! [`LINE`] bytes is printed in parts, and a client beyond the [`CLIENTS`] first ones is printed as it comes: both
//! lose order, never text.
//!
//! The server polls the port to print, on the budget of the client it prints for.
//!
//! With an interrupt "line", received bytes can be read by one client, the first one that asks (`fusee::serial`). The line signals
//! that client, not this server, which looks when it is asked, and then lets the line fire again.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use arm_pl011_uart::{DataBits, Interrupts, LineConfig, PL011Registers, Parity, StopBits, Uart};
use fusee::abi::environment::device;
use fusee::console::{CHUNK, NO_INPUT, Request, TAKEN};
use fusee::{Interrupt, Message, Region, Server, console, environment};
use fusee_driver::claim;
use fusee_driver::safe_mmio::fields::{ReadPure, ReadPureWrite, ReadWrite, WriteOnly};
use fusee_driver::safe_mmio::{UniqueMmioPointer, field, field_shared};
use zerocopy::FromBytes;

/// The number of clients with lines kept apart.
const CLIENTS: usize = 16;
/// Bytes of one client that are kept.
const LINE: usize = 128;
/// Bytes that a PL011 keeps (Arm DDI 0183, since revision r1p5).
const FIFO: usize = 32;

fusee::entry!(main);

fn main() {
    let environment = environment();
    let region = environment.expect::<Region>("uart");
    let mut port = Port::open(&region);
    if let (Some(baud), Some(clock)) = (environment.parameter("baud"), environment.parameter("clock")) {
        port.set_speed(baud as u32, clock as u32);
    }

    let mut input = environment.interrupt("line").ok().map(Input::new);
    if input.is_some() {
        port.listen();
    }
    let mut lines = Lines::new();
    Server::new(environment.expect(console::NAME)).run(|badge, words| {
        match Request::of(&words) {
            Some(Request::Print(text, length)) => {
                lines.add(badge, &text[..length], &mut |text| write(&mut port, text));
            }
            Some(Request::Read(wanted)) => {
                return input.as_mut().map_or([NO_INPUT, 0, 0, 0, 0, 0], |input| input.read(&mut port, badge, wanted));
            }
            Some(Request::Flush) => {
                lines.flush(badge, &mut |text| write(&mut port, text));
                port.drain();
            }
            None => {}
        }
        [0; 6]
    })
}

/// The received bytes, and the client that reads them.
struct Input {
    line: Interrupt,
    reader: Option<u64>,
}

impl Input {
    fn new(line: Interrupt) -> Input {
        Input { line, reader: None }
    }

    /// Returns received bytes for the client `badge`, at most `wanted` of them.
    fn read(&mut self, port: &mut Port, badge: u64, wanted: usize) -> Message {
        if *self.reader.get_or_insert(badge) != badge {
            return [TAKEN, 0, 0, 0, 0, 0];
        }
        port.forget_interrupt();
        let mut bytes = [0; CHUNK];
        let mut length = 0;
        while length < wanted.min(CHUNK)
            && let Some(byte) = port.read()
        {
            bytes[length] = byte;
            length += 1;
        }
        // A client waits only if nothing was left. Before the first byte there is nothing to acknowledge.
        let _ = self.line.acknowledge();
        console::encode(&bytes[..length])
    }
}

fn write(port: &mut Port, text: &[u8]) {
    for &byte in text {
        if byte == b'\n' {
            port.write(b'\r');
        }
        port.write(byte);
    }
}

/// A serial port.
enum Port {
    Pl011(Uart<'static>),
    Cadence(UniqueMmioPointer<'static, Cadence>),
}

/// The registers of a Cadence UART that are used (Xilinx UG1087, UART).
#[derive(FromBytes)]
#[repr(C)]
struct Cadence {
    control: ReadPureWrite<u32>,
    mode: ReadPureWrite<u32>,
    interrupt_enable: WriteOnly<u32>,
    interrupt_disable: WriteOnly<u32>,
    interrupt_mask: ReadPure<u32>,
    /// An interrupt written as one is forgotten.
    interrupts: ReadPureWrite<u32>,
    baud: ReadPureWrite<u32>,
    receive_timeout: ReadPureWrite<u32>,
    /// So many bytes are worth an interrupt.
    receive_level: ReadPureWrite<u32>,
    modem: [u32; 2],
    status: ReadPure<u32>,
    data: ReadWrite<u32>,
}

/// In its control register: it sends and receives, which it does not after a reset.
const ENABLED: u32 = 1 << 4 | 1 << 2;
/// In its status: there is nothing to read; all is sent but for the byte that is on its way; there is no room for another byte; a byte is on its way.
const RECEIVE_EMPTY: u32 = 1 << 1;
const TRANSMIT_EMPTY: u32 = 1 << 3;
const TRANSMIT_FULL: u32 = 1 << 4;
const TRANSMITTING: u32 = 1 << 11;
/// Among its interrupts: as many bytes were received as are worth one.
const RECEIVED: u32 = 1;

impl Port {
    fn open(region: &Region) -> Port {
        match region.device() {
            device::CADENCE => {
                let registers = claim::<Cadence>(region);
                let mut registers = registers.expect("the region `uart` holds the registers of a Cadence UART");
                field!(registers, control).write(ENABLED);
                Port::Cadence(registers)
            }
            // A port that is given by its address has always been a PL011.
            _ => Port::Pl011(Uart::new(claim::<PL011Registers>(region).expect("the region `uart` holds a PL011"))),
        }
    }

    fn set_speed(&mut self, baud: u32, clock: u32) {
        let Port::Pl011(uart) = self else { return };
        let line = LineConfig { data_bits: DataBits::Bits8, parity: Parity::None, stop_bits: StopBits::One };
        uart.enable(line, baud, clock).expect("the clock can make this baud rate");
    }

    /// Lets the port's interrupt say that something was received.
    fn listen(&mut self) {
        match self {
            Port::Pl011(uart) => uart.set_interrupt_masks(Interrupts::RXI | Interrupts::RTI),
            Port::Cadence(registers) => {
                field!(*registers, receive_level).write(1);
                field!(*registers, interrupt_enable).write(RECEIVED);
            }
        }
    }

    /// Forgets that bytes were received: to be done before [`Port::read`], so that later bytes fire again. A PL011 remembers it as
    /// long as it has any of it, and so needs nothing.
    fn forget_interrupt(&mut self) {
        if let Port::Cadence(registers) = self {
            field!(*registers, interrupts).write(RECEIVED);
        }
    }

    /// The next byte that was received, if there is one. One that came with an error of the line is left out.
    fn read(&mut self) -> Option<u8> {
        let uart = match self {
            Port::Pl011(uart) => uart,
            Port::Cadence(registers) => {
                let is_empty = field_shared!(*registers, status).read() & RECEIVE_EMPTY != 0;
                return (!is_empty).then(|| field!(*registers, data).read() as u8);
            }
        };
        // A line that is broken gives errors without an end: no more at once than the port keeps.
        (0..FIFO).find_map(|_| uart.read_word().ok()).flatten()
    }

    /// Waits until all bytes are sent.
    fn drain(&mut self) {
        let is_busy = |port: &Port| match port {
            Port::Pl011(uart) => uart.is_busy(),
            Port::Cadence(registers) => {
                field_shared!(*registers, status).read() & (TRANSMIT_EMPTY | TRANSMITTING) != TRANSMIT_EMPTY
            }
        };
        while is_busy(self) {
            fusee::relax();
        }
    }

    fn write(&mut self, byte: u8) {
        match self {
            Port::Pl011(uart) => {
                while uart.is_tx_fifo_full() {
                    fusee::relax();
                }
                uart.write_word(byte);
            }
            Port::Cadence(registers) => {
                while field_shared!(*registers, status).read() & TRANSMIT_FULL != 0 {
                    fusee::relax();
                }
                field!(*registers, data).write(byte.into());
            }
        }
    }
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

    /// Adds `text` of client `badge`; complete lines go to `print`.
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

    /// Gives the kept bytes of client `badge` to `print`.
    fn flush(&mut self, badge: u64, print: &mut impl FnMut(&[u8])) {
        if let Some(line) = self.line_of(badge) {
            print(&line.text[..line.filled]);
            line.filled = 0;
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
    fn what_is_flushed_is_printed_once() {
        let mut lines = Lines::new();
        let mut printed = Vec::new();
        let mut print = |text: &[u8]| printed.extend_from_slice(text);
        lines.add(1, b"ask> ", &mut print);
        lines.flush(1, &mut print);
        lines.flush(1, &mut print);
        lines.flush(2, &mut print);
        lines.add(1, b"yes\n", &mut print);
        assert_eq!(printed, b"ask> yes\n");
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

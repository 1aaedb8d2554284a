//! The task `stream`: sends the kernel's trace over a serial line of its own, in frames (`frames`), so many bytes in each job.
//!
//! Handles: region "rings" (`trace = true`); the port, which is one of region "pl011" and region "ns16550", set to its speed by the boot loader. The second
//! may come with region "pci", the configuration space of a card that has the port as its first window: then the task enables it at
//! [`WINDOW`]. Parameter: "bytes", how many it sends in a job at most.
//!
//! A job never waits: bytes that the port does not take are left to the next. Oldest records go first, of the CPU that has the most of them.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use arm_pl011_uart::{PL011Registers, Uart};
use fusee::abi::trace::Record;
use fusee::{Environment, Region, Rings, environment, next_job};
use fusee_driver::safe_mmio::fields::{ReadPure, ReadPureWrite, ReadWrite};
use fusee_driver::safe_mmio::{UniqueMmioPointer, field, field_shared};
use fusee_driver::{claim, pci};
use fusee_frames::{CPUS, FRAME_BYTES, Header, RECORDS};
use zerocopy::FromBytes;

fusee::entry!(main);

/// Where the port of a card on PCI appears among the addresses of ports.
const WINDOW: u32 = 0x1000;

fn main() {
    let environment = environment();
    let rings = environment.expect::<Region>("rings");
    let mut rings = Rings::new(&rings).expect("the region `rings` is the trace");
    let mut port = Port::open(&environment);
    let bytes = environment.parameter("bytes").expect("the parameter `bytes` says how many are sent in a job") as usize;
    let mut frame = Frame { bytes: [0; FRAME_BYTES], filled: 0, sent: 0 };
    while next_job().is_ok() {
        let mut left = bytes;
        while left > 0 && frame.is_there(&mut rings) {
            let part = &frame.bytes[frame.sent..frame.filled];
            let sent = port.send(&part[..part.len().min(left)]);
            frame.sent += sent;
            left -= sent;
            if sent == 0 {
                break;
            }
        }
    }
}

/// The frame that is being sent.
struct Frame {
    bytes: [u8; FRAME_BYTES],
    filled: usize,
    sent: usize,
}

impl Frame {
    /// Whether there is something to send; makes the next frame of records written meanwhile.
    fn is_there(&mut self, rings: &mut Rings) -> bool {
        while self.sent == self.filled {
            let Some(cpu) = rings.fullest() else { return false };
            let mut records = [Record::default(); RECORDS];
            let batch = rings.read(cpu, &mut records);
            let cpus = rings.cpus().min(CPUS);
            let mut header = Header { cpu: cpu as u8, first: batch.first, cpus: cpus as u8, written: [0; CPUS] };
            for (cpu, written) in header.written[..cpus].iter_mut().enumerate() {
                *written = rings.written(cpu);
            }
            self.filled = fusee_frames::encode(&header, &records[..batch.count], &mut self.bytes).unwrap_or(0);
            self.sent = 0;
        }
        true
    }
}

/// The serial port.
enum Port {
    Pl011(Uart<'static>),
    Ns16550(UniqueMmioPointer<'static, Ns16550>),
}

impl Port {
    fn open(environment: &Environment) -> Port {
        if let Ok(region) = environment.get::<Region>("pl011") {
            let registers = claim::<PL011Registers>(&region).expect("the region `pl011` holds a PL011");
            return Port::Pl011(Uart::new(registers));
        }
        if let Ok(region) = environment.get::<Region>("pci") {
            pci::enable(&region, WINDOW, pci::PORTS).expect("the region `pci` holds a configuration space");
        }
        let region = environment.expect::<Region>("ns16550");
        let mut registers = claim::<Ns16550>(&region).expect("the region `ns16550` holds a 16550");
        field!(registers, fifo_control).write(FIFO_ENABLED);
        Port::Ns16550(registers)
    }

    /// Sends the first of `bytes`, as many as the port takes without waiting; how many that were.
    fn send(&mut self, bytes: &[u8]) -> usize {
        match self {
            Port::Pl011(uart) => {
                let mut sent = 0;
                for byte in bytes {
                    if uart.is_tx_fifo_full() {
                        break;
                    }
                    uart.write_word(*byte);
                    sent += 1;
                }
                sent
            }
            Port::Ns16550(registers) => {
                if field_shared!(*registers, line_status).read() & TRANSMITTER_EMPTY == 0 {
                    return 0;
                }
                let count = bytes.len().min(FIFO_BYTES);
                let mut data = field!(*registers, data);
                bytes[..count].iter().for_each(|byte| data.write(*byte));
                count
            }
        }
    }
}

/// The registers of a 16550, one byte each (National Semiconductor, PC16550D, 1995, table 2).
#[derive(FromBytes)]
#[repr(C)]
struct Ns16550 {
    data: ReadWrite<u8>,
    interrupt_enable: ReadPureWrite<u8>,
    fifo_control: ReadWrite<u8>,
    line_control: ReadPureWrite<u8>,
    modem_control: ReadPureWrite<u8>,
    line_status: ReadPure<u8>,
}

const FIFO_ENABLED: u8 = 1;
/// The FIFO is empty: it takes as many bytes as it has room for.
const TRANSMITTER_EMPTY: u8 = 1 << 5;
const FIFO_BYTES: usize = 16;

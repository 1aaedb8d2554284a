//! A register model of the controller, for tests: the facts of Xilinx UG1087 (CAN) and UG1085, chapter 20, on which the driver rests. What the data sheet
//! forbids is a panic. Frames go to the bus and come from it when a test says so, so they wait as on a real bus.

use std::collections::VecDeque;

use embedded_can::{ExtendedId, Frame as _, Id, StandardId};
use fusee::can::{Frame, Health};

use crate::controller::{
    ALL, BUS_OFF, CONFIGURING, CONTROLLER_FILTERS, HEALTH_SHIFT, LOOP_BACK, MEMORY, NOT_EMPTY, ON, OVERRUN, RESET,
    Register, Registers, SENT, WORDS,
};

/// The frame with an identifier that `number` has bits of: of 11 bits below 0x800 or with bit 31, else of 29; a remote frame with bit 30. It has as many bytes
/// as `data` needs.
pub fn frame(number: u32, data: u64) -> Frame {
    let id = if number < 0x800 || number >> 31 != 0 {
        Id::Standard(StandardId::new(number as u16 & 0x7ff).unwrap())
    } else {
        Id::Extended(ExtendedId::new(number & 0x1fff_ffff).unwrap())
    };
    let length = (64 - data.leading_zeros() as usize).div_ceil(8);
    let made = if number >> 30 & 1 != 0 {
        Frame::new_remote(id, length)
    } else {
        Frame::new(id, &data.to_le_bytes()[..length])
    };
    made.unwrap()
}

/// A controller.
pub struct Chip {
    is_absent: bool,
    keeps_frames: bool,
    is_on: bool,
    is_bus_off: bool,
    mode: u32,
    prescaler: u32,
    timing: u32,
    /// Error counts of transmission, and of reception.
    errors: [u32; 2],
    interrupts: u32,
    enabled: u32,
    /// Words of the frame that is being written, as many as were.
    written: Vec<u32>,
    to_send: VecDeque<[u32; 4]>,
    received: VecDeque<[u32; 4]>,
    filters: u32,
    /// Masks and values.
    filter_words: [u32; 2 * CONTROLLER_FILTERS],
}

impl Chip {
    pub fn new() -> Chip {
        Chip {
            is_absent: false,
            keeps_frames: false,
            is_on: false,
            is_bus_off: false,
            mode: 0,
            prescaler: 0,
            timing: 0,
            errors: [0; 2],
            interrupts: 0,
            enabled: 0,
            written: Vec::new(),
            to_send: VecDeque::new(),
            received: VecDeque::new(),
            filters: 0,
            filter_words: [0; 2 * CONTROLLER_FILTERS],
        }
    }

    /// No controller: its registers are zero.
    pub fn absent() -> Chip {
        Chip { is_absent: true, ..Chip::new() }
    }

    /// As QEMU's controller does, which empties no memory in a reset.
    pub fn keep_frames_in_resets(&mut self) {
        self.keeps_frames = true;
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    pub fn loops_back(&self) -> bool {
        self.mode & LOOP_BACK != 0
    }

    /// Prescaler, quanta before and behind the sample point, and of a jump.
    pub fn timing(&self) -> (u32, u32, u32, u32) {
        let field = |shift: u32, bits: u32| (self.timing >> shift & ((1 << bits) - 1)) + 1;
        (self.prescaler + 1, field(0, 4), field(4, 3), field(7, 2))
    }

    /// Whether the line of the controller signals.
    pub fn interrupts(&self) -> bool {
        self.interrupts & self.enabled != 0
    }

    /// Frames that it has to send.
    pub fn to_send(&self) -> usize {
        self.to_send.len()
    }

    /// Sends the first frame, to the bus or back to itself.
    pub fn transmit(&mut self) -> Option<Frame> {
        if !self.is_on || self.is_bus_off {
            return None;
        }
        let words = self.to_send.pop_front()?;
        self.errors[0] = self.errors[0].saturating_sub(1);
        self.interrupts |= SENT;
        if self.loops_back() {
            self.keep(words);
            return None;
        }
        Some(frame_of(words))
    }

    /// Simulates `times` failures to send the first queued frame: each adds 8 to the transmit error count, and above 255 the
    /// controller is bus-off (ISO 11898-1:2015, 12.1.4). The frame stays queued.
    ///
    /// # Panics
    /// The controller is off, or no frame is queued.
    pub fn fail(&mut self, times: u32) {
        assert!(self.is_on && !self.to_send.is_empty(), "there is no frame to fail with");
        self.errors[0] += 8 * times;
        if self.errors[0] > 255 {
            self.is_bus_off = true;
            self.interrupts |= BUS_OFF;
        }
    }

    /// Receives a frame of another node.
    pub fn arrive(&mut self, frame: &Frame) {
        if self.is_on && !self.is_bus_off && !self.loops_back() {
            let [_, length, data] = frame.words();
            let bytes = data.to_le_bytes();
            let half = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            self.keep([frame.order(), (length as u32) << 28 | 0xabcd, half(0), half(4)]);
        }
    }

    fn keep(&mut self, words: [u32; 4]) {
        let passes = |index: usize| {
            let [mask, value] = [0, 1].map(|word| self.filter_words[2 * index + word]);
            self.filters >> index & 1 != 0 && words[0] & mask == value & mask
        };
        if self.filters != 0 && !(0..CONTROLLER_FILTERS).any(passes) {
            return;
        }
        if self.received.len() == MEMORY {
            self.interrupts |= OVERRUN;
        } else {
            self.received.push_back(words);
        }
        self.signal_received();
    }

    fn signal_received(&mut self) {
        if !self.received.is_empty() {
            self.interrupts |= NOT_EMPTY;
        }
    }

    fn health(&self) -> Health {
        match self.errors[0] {
            _ if self.is_bus_off => Health::BusOff,
            0..128 => Health::ErrorActive,
            _ => Health::ErrorPassive,
        }
    }

    fn reset(&mut self) {
        let received = if self.keeps_frames { std::mem::take(&mut self.received) } else { VecDeque::new() };
        let (filters, filter_words) = (self.filters, self.filter_words);
        *self = Chip { received, keeps_frames: self.keeps_frames, filters, filter_words, ..Chip::new() };
    }
}

fn frame_of(words: [u32; 4]) -> Frame {
    let [first, last] = [words[2].to_be_bytes(), words[3].to_be_bytes()];
    let mut data = [0; 8];
    data[..4].copy_from_slice(&first);
    data[4..].copy_from_slice(&last);
    Frame::of_order(words[0], (words[1] >> 28) as usize, data)
}

impl Registers for Chip {
    fn read(&mut self, word: usize) -> u32 {
        assert!(word < WORDS);
        if self.is_absent {
            return 0;
        }
        let received = |chip: &Chip, word: usize| chip.received.front().expect("the memory is empty")[word];
        match word {
            _ if word == Register::Errors as usize => self.errors[0].min(255) | self.errors[1] << 8,
            _ if word == Register::State as usize => {
                let health = match self.health() {
                    _ if !self.is_on => return CONFIGURING,
                    Health::ErrorActive => 0b01,
                    Health::ErrorPassive => 0b11,
                    Health::BusOff => 0b10,
                };
                health << HEALTH_SHIFT
            }
            _ if word == Register::Interrupts as usize => self.interrupts,
            _ if word == Register::Identifier as usize => received(self, 0),
            _ if word == Register::Length as usize => received(self, 1),
            _ if word == Register::First as usize => received(self, 2),
            _ if word == Register::Last as usize => {
                let last = received(self, 3);
                self.received.pop_front();
                last
            }
            _ => panic!("the driver has no reason to read word {word}"),
        }
    }

    fn write(&mut self, word: usize, value: u32) {
        assert!(word < WORDS);
        if self.is_absent {
            return;
        }
        let set_up = |chip: &Chip| assert!(!chip.is_on, "word {word} is written to while the controller is on the bus");
        match word {
            _ if word == Register::Reset as usize && value & RESET != 0 => self.reset(),
            _ if word == Register::Reset as usize => self.is_on = value & ON != 0,
            _ if word == Register::Mode as usize => {
                set_up(self);
                self.mode = value;
            }
            _ if word == Register::Prescaler as usize => {
                set_up(self);
                self.prescaler = value;
            }
            _ if word == Register::Timing as usize => {
                set_up(self);
                self.timing = value;
            }
            _ if word == Register::Enabled as usize => self.enabled = value,
            _ if word == Register::Clear as usize => {
                assert_eq!(value & !ALL, 0, "there is no such interrupt");
                self.interrupts &= !value;
                self.signal_received();
            }
            _ if (Register::SendIdentifier as usize..=Register::SendLast as usize).contains(&word) => {
                assert_eq!(word - Register::SendIdentifier as usize, self.written.len(), "words are written in turn");
                self.written.push(value);
                if let Ok(words) = <[u32; 4]>::try_from(&self.written[..]) {
                    assert!(self.to_send.len() < MEMORY, "there is no room");
                    self.to_send.push_back(words);
                    self.written.clear();
                }
            }
            _ if word == Register::Filters as usize => self.filters = value,
            _ if word >= Register::Mask as usize => {
                let index = word - Register::Mask as usize;
                assert_eq!(self.filters >> (index / 2) & 1, 0, "the filter is in use");
                self.filter_words[index] = value;
            }
            _ => panic!("the driver has no reason to write to word {word}"),
        }
    }
}

//! One CAN controller of a ZynqMP, through its registers (Xilinx UG1087, CAN; UG1085, chapter 20).
//!
//! # Invariants
//!
//! 1. The controller has one frame to send at most. A frame in it is never taken back, and it sends those that it has in the order of their coming,
//!    not of their identifiers. Its buffer for frames of high priority helps little: a frame whose arbitration has begun goes first all the same.
//! 2. Each signal of a sent frame is cleared before the next frame is written, so it is that of the one frame.
//! 3. Filters change only while none is in use.
//! 4. A wait for the controller ends after a thousand looks.

use fusee::can::{FILTERS, Filter, Frame, Health};
use heapless::Vec;

use crate::timing::Timing;

/// How often the controller is asked whether it is ready.
const LOOKS: usize = 1_000;
/// Frames that the controller keeps of those it has received.
pub const MEMORY: usize = 64;
/// Filters of the controller.
pub const CONTROLLER_FILTERS: usize = 4;

/// A register: its number is its offset in words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub enum Register {
    /// Bit 0 resets the controller; bit 1 puts it on the bus.
    Reset = 0,
    /// Bit 1: what it sends comes back to it, and not to the bus.
    Mode,
    /// Periods of the clock in a quantum, minus one.
    Prescaler,
    /// Quanta before and behind the sample point, and of a jump, each minus one.
    Timing,
    /// Counts of errors: in the low byte of frames sent, in the next one of frames received.
    Errors,
    /// Kinds of errors.
    Kinds,
    /// The state of the controller.
    State,
    /// Interrupts that have come.
    Interrupts,
    /// Those that signal.
    Enabled,
    /// Those that are written as ones are forgotten.
    Clear,
    /// The counter of time stamps.
    Stamps,
    /// Levels of the memories that are worth an interrupt.
    Levels,
    /// The identifier of a frame to send.
    SendIdentifier,
    /// Its length.
    SendLength,
    /// Its first four bytes.
    SendFirst,
    /// Its last four bytes; when they are written the frame is complete.
    SendLast,
    /// The four registers of the buffer for high priority, which is not used.
    UrgentIdentifier,
    /// See there.
    UrgentLength,
    /// See there.
    UrgentFirst,
    /// See there.
    UrgentLast,
    /// The identifier of the earliest received frame. To be read first.
    Identifier,
    /// Its length, and the time stamp of the controller.
    Length,
    /// Its first four bytes.
    First,
    /// Its last four bytes. When they are read the next frame is there.
    Last,
    /// A bit for each filter in use; none: all frames are received.
    Filters,
    /// The mask of the first filter; its value is in the next register, then come the other filters.
    Mask,
}

/// Words of registers.
pub const WORDS: usize = Register::Mask as usize + 2 * CONTROLLER_FILTERS;

/// In [`Register::Reset`].
pub(crate) const RESET: u32 = 1;
pub(crate) const ON: u32 = 1 << 1;
/// In [`Register::Mode`].
pub(crate) const LOOP_BACK: u32 = 1 << 1;
/// In [`Register::State`]: it is being set up; filters may not be changed now; bits of the state on the bus.
pub(crate) const CONFIGURING: u32 = 1;
pub(crate) const FILTERS_BUSY: u32 = 1 << 11;
pub(crate) const HEALTH_SHIFT: u32 = 7;
/// Interrupts: a frame was sent; there is a received frame; one was lost, because the memory was full; the controller went off the bus.
pub(crate) const SENT: u32 = 1 << 1;
pub(crate) const OVERRUN: u32 = 1 << 6;
pub(crate) const NOT_EMPTY: u32 = 1 << 7;
pub(crate) const BUS_OFF: u32 = 1 << 9;
/// All interrupts there are.
pub(crate) const ALL: u32 = 0x7fff;

/// The registers of a controller: in memory, or of a model.
pub trait Registers {
    /// Reads the register in word `word`, below [`WORDS`].
    fn read(&mut self, word: usize) -> u32;
    /// Writes to the register in word `word`, below [`WORDS`].
    fn write(&mut self, word: usize, value: u32);
}

/// Where frames go that the controller sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// To the bus.
    Normal,
    /// Back to the controller, for tests without a bus.
    LoopBack,
}

/// The controller does not do what it is told to: it is not there, or its clock stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Dead;

/// Events since the last look.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Events {
    /// The frame is on the bus.
    pub sent: bool,
    /// A received frame was lost, or more.
    pub overrun: bool,
    /// The controller went off the bus, and stays there until it is started.
    pub bus_off: bool,
}

/// One controller.
pub struct Controller<R> {
    registers: R,
    timing: Timing,
    mode: Mode,
}

impl<R: Registers> Controller<R> {
    /// The controller behind `registers`, before its first start.
    pub fn new(registers: R, timing: Timing, mode: Mode) -> Controller<R> {
        Controller { registers, timing, mode }
    }

    fn read(&mut self, register: Register) -> u32 {
        self.registers.read(register as usize)
    }

    fn write(&mut self, register: Register, value: u32) {
        self.registers.write(register as usize, value);
    }

    /// Resets the controller, and puts it on the bus. Frames that it had are gone.
    ///
    /// # Errors
    /// [`Dead`] if it does not reset.
    pub fn start<'a>(&mut self, filters: impl Iterator<Item = &'a Filter>) -> Result<(), Dead> {
        self.stop();
        if !self.becomes(Register::State, CONFIGURING, CONFIGURING) {
            return Err(Dead);
        }
        self.write(Register::Mode, if self.mode == Mode::LoopBack { LOOP_BACK } else { 0 });
        self.write(Register::Prescaler, self.timing.prescaler - 1);
        let Timing { before, after, jump, .. } = self.timing;
        self.write(Register::Timing, (jump - 1) << 7 | (after - 1) << 4 | (before - 1));
        self.accept(filters)?;
        // QEMU's controller keeps received frames in a reset. They are of an earlier life.
        for _ in 0..MEMORY {
            if self.receive().is_none() {
                break;
            }
        }
        self.write(Register::Clear, ALL);
        self.write(Register::Enabled, SENT | OVERRUN | NOT_EMPTY | BUS_OFF);
        self.write(Register::Reset, ON);
        Ok(())
    }

    /// Takes the controller off the bus. Frames that it has to send are gone.
    pub fn stop(&mut self) {
        self.write(Register::Reset, RESET);
    }

    /// Whether these bits of a register are `wanted` soon.
    fn becomes(&mut self, register: Register, bits: u32, wanted: u32) -> bool {
        (0..LOOKS).any(|_| self.read(register) & bits == wanted)
    }

    /// Has the controller receive all frames that one of `filters` accepts. It may receive others, too: all of them if there is no filter, if there
    /// are more than it has, or if one is of a kind that it does not have.
    ///
    /// # Errors
    /// [`Dead`] if it lets no filter be changed.
    pub fn accept<'a>(&mut self, filters: impl Iterator<Item = &'a Filter>) -> Result<(), Dead> {
        let pairs = pairs(filters);
        self.write(Register::Filters, 0);
        if !self.becomes(Register::State, FILTERS_BUSY, 0) {
            return Err(Dead);
        }
        for (index, (mask, value)) in pairs.iter().enumerate() {
            self.registers.write(Register::Mask as usize + 2 * index, *mask);
            self.registers.write(Register::Mask as usize + 2 * index + 1, *value);
        }
        self.write(Register::Filters, (1 << pairs.len()) - 1);
        Ok(())
    }

    /// Gives the controller a frame to send. It has no other one: invariant 1 is the caller's.
    pub fn send(&mut self, frame: &Frame) {
        let [_, length, data] = frame.words();
        let data = data.to_le_bytes();
        let word = |at: usize| u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
        self.write(Register::Clear, SENT);
        self.write(Register::SendIdentifier, frame.order());
        self.write(Register::SendLength, (length as u32) << 28);
        self.write(Register::SendFirst, word(0));
        self.write(Register::SendLast, word(4));
    }

    /// Takes the earliest received frame.
    pub fn receive(&mut self) -> Option<Frame> {
        // The signal comes again at once if there is one.
        self.write(Register::Clear, NOT_EMPTY);
        if self.read(Register::Interrupts) & NOT_EMPTY == 0 {
            return None;
        }
        let order = self.read(Register::Identifier);
        let length = self.read(Register::Length) >> 28;
        let halves = [self.read(Register::First), self.read(Register::Last)];
        let mut data = [0; 8];
        for (bytes, half) in data.as_chunks_mut::<4>().0.iter_mut().zip(halves) {
            *bytes = half.to_be_bytes();
        }
        // Lengths above eight mean eight (ISO 11898-1:2015, 10.4.2.3).
        Some(Frame::of_order(order, length as usize, data))
    }

    /// Takes what has happened since the last look.
    pub fn events(&mut self) -> Events {
        let interrupts = self.read(Register::Interrupts) & (SENT | OVERRUN);
        self.write(Register::Clear, interrupts);
        // The signal for this is forgotten by the reset that follows, and not before.
        let bus_off = self.health() == Health::BusOff;
        Events { sent: interrupts & SENT != 0, overrun: interrupts & OVERRUN != 0, bus_off }
    }

    /// The state of the controller on the bus.
    pub fn health(&mut self) -> Health {
        if self.read(Register::Interrupts) & BUS_OFF != 0 {
            return Health::BusOff;
        }
        match self.read(Register::State) >> HEALTH_SHIFT & 0b11 {
            0b10 => Health::BusOff,
            0b11 => Health::ErrorPassive,
            // Zero: it is being set up, as for the first bits on the bus.
            _ => Health::ErrorActive,
        }
    }

    /// Counts of errors: of frames sent, and of frames received.
    pub fn errors(&mut self) -> [u8; 2] {
        let [sent, received, ..] = self.read(Register::Errors).to_le_bytes();
        [sent, received]
    }
}

#[cfg(test)]
impl Controller<crate::model::Chip> {
    /// The model.
    pub(crate) fn chip(&mut self) -> &mut crate::model::Chip {
        &mut self.registers
    }
}

/// Masks and values of the controller's filters that let all frames pass which one of `filters` accepts; none if that are all frames, or too many
/// filters.
fn pairs<'a>(filters: impl Iterator<Item = &'a Filter>) -> Vec<(u32, u32), CONTROLLER_FILTERS> {
    let mut pairs = Vec::new();
    for filter in filters {
        let Some(pair) = filter.by_order().filter(|(mask, _)| *mask != 0) else { return Vec::new() };
        if !pairs.contains(&pair) && pairs.push(pair).is_err() {
            return Vec::new();
        }
    }
    pairs
}

const _: () = assert!(FILTERS <= CONTROLLER_FILTERS, "the filters of one client fit the controller");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Chip, frame};
    use embedded_can::{ExtendedId, StandardId};
    use proptest::prelude::*;

    fn started(mode: Mode, filters: &[Filter]) -> Controller<Chip> {
        let timing = Timing::new(24_000_000, 500_000).unwrap();
        let mut controller = Controller::new(Chip::new(), timing, mode);
        controller.start(filters.iter()).unwrap();
        controller
    }

    #[test]
    fn a_start_sets_bit_timing_and_mode_and_goes_on_the_bus() {
        let mut controller = started(Mode::Normal, &[]);
        assert_eq!(controller.registers.timing(), (3, 13, 2, 2));
        assert!(controller.registers.is_on() && !controller.registers.loops_back());
        assert_eq!(controller.health(), Health::ErrorActive);
        assert!(started(Mode::LoopBack, &[]).registers.loops_back());
    }

    #[test]
    fn a_controller_that_does_not_reset_is_dead() {
        let timing = Timing::new(24_000_000, 500_000).unwrap();
        let mut controller = Controller::new(Chip::absent(), timing, Mode::Normal);
        assert_eq!(controller.start([].iter()), Err(Dead));
    }

    #[test]
    fn frames_of_an_earlier_life_are_not_received() {
        let mut controller = started(Mode::Normal, &[]);
        for number in 0..70 {
            controller.registers.arrive(&frame(number, 1));
        }
        controller.registers.keep_frames_in_resets();
        controller.start([].iter()).unwrap();
        assert_eq!((controller.receive(), controller.events()), (None, Events::default()));
    }

    #[test]
    fn in_loop_back_each_frame_comes_back_and_none_goes_to_the_bus() {
        let mut controller = started(Mode::LoopBack, &[]);
        let sent = frame(0x123, 0x0102_0304_0506_0708);
        controller.send(&sent);
        assert_eq!(controller.registers.transmit(), None);
        assert!(controller.events().sent);
        assert_eq!(controller.receive(), Some(sent));
    }

    #[test]
    fn the_memory_of_the_controller_overruns_with_a_signal() {
        let mut controller = started(Mode::Normal, &[]);
        for number in 0..MEMORY as u32 {
            controller.registers.arrive(&frame(number, 0));
        }
        assert!(!controller.events().overrun);
        controller.registers.arrive(&frame(99, 0));
        assert!(controller.events().overrun && !controller.events().overrun);
        for number in 0..MEMORY as u32 {
            assert_eq!(controller.receive(), Some(frame(number, 0)));
        }
        assert_eq!(controller.receive(), None);
    }

    #[test]
    fn errors_make_it_passive_and_take_it_off_the_bus_until_it_starts_again() {
        let mut controller = started(Mode::Normal, &[]);
        controller.send(&frame(1, 1));
        controller.registers.fail(15);
        assert_eq!((controller.health(), controller.errors()), (Health::ErrorActive, [120, 0]));
        controller.registers.fail(1);
        assert_eq!((controller.health(), controller.errors()), (Health::ErrorPassive, [128, 0]));
        assert_eq!(controller.events(), Events::default());
        controller.registers.fail(16);
        assert!(controller.events().bus_off && controller.events().bus_off);
        assert_eq!(controller.registers.transmit(), None);
        controller.start([].iter()).unwrap();
        assert_eq!((controller.health(), controller.errors()), (Health::ErrorActive, [0, 0]));
        assert_eq!(controller.registers.transmit(), None, "a reset drops the frame");
        controller.send(&frame(1, 1));
        assert_eq!(controller.registers.transmit(), Some(frame(1, 1)));
        assert!(controller.events().sent);
    }

    fn filters() -> impl Strategy<Value = Filter> {
        prop_oneof![
            4 => (0..0x800u16, any::<u32>()).prop_map(|(id, mask)| Filter::new(StandardId::new(id).unwrap(), mask)),
            4 => (0..0x2000_0000u32, any::<u32>())
                .prop_map(|(id, mask)| Filter::new(ExtendedId::new(id).unwrap(), mask)),
            1 => Just(Filter::ALL),
        ]
    }

    proptest! {
        /// Filters of the controller may be too wide, never too narrow; and those of few clients keep others out.
        #[test]
        fn no_wanted_frame_is_kept_out(wanted in prop::collection::vec(filters(), 0..7), ids in any::<[u32; 8]>()) {
            let mut controller = started(Mode::Normal, &wanted);
            for id in ids {
                let sent = frame(id, u64::from(id));
                controller.registers.arrive(&sent);
                let is_received = controller.receive() == Some(sent);
                let is_wanted = wanted.iter().any(|filter| filter.accepts(&sent));
                prop_assert!(is_received || !is_wanted);
                let is_exact = (1..=CONTROLLER_FILTERS).contains(&wanted.len()) && !wanted.contains(&Filter::ALL);
                prop_assert!(!is_exact || is_received == is_wanted);
            }
        }
    }
}

//! Parts of several tasks of the car: values that one task writes and another reads when it likes, frames of the bus, and the record of a run.
#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

use car::drive::Sight;
use car::vehicle::Car;
use car_kernels::LANE_WORDS;
use car_kernels::calibration::PIXELS;
use embedded_can::{Frame as _, Id, StandardId};
use fusee::can::{Can, CanError, Frame};
use fusee::{Region, SharedBytes};

pub mod record;

//--- The newest value

/// Where slots begin.
const SLOTS: usize = 64;

/// A value of some bytes that one task writes again and again, and another reads when it likes: neither waits for the other.
///
/// The first word counts the values; value `n` is in slot `n` modulo the number of slots. A reader copies the newest one, and then looks whether its
/// slot is being written again already: it never is, unless the reader is suspended for the time of all slots but one.
#[derive(Clone, Copy, Debug)]
pub struct Newest {
    memory: SharedBytes,
    bytes: usize,
    slots: u32,
}

impl Newest {
    /// The value of so many bytes, a multiple of eight, in this region.
    ///
    /// # Panics
    /// If the region has no room for two.
    #[must_use]
    pub fn new(region: &Region, bytes: usize) -> Newest {
        let memory = region.shared();
        let slots = ((memory.len() - SLOTS) / bytes) as u32;
        assert!(slots >= 2, "the region is too small for two values");
        Newest { memory, bytes, slots }
    }

    fn slot(&self, number: u32) -> SharedBytes {
        self.memory.part(SLOTS + (number % self.slots) as usize * self.bytes, self.bytes)
    }

    /// Writes the next value by `write`, for its one writer.
    pub fn write(&self, write: impl FnOnce(&SharedBytes)) {
        let number = self.memory.read_u32(0).wrapping_add(1);
        write(&self.slot(number));
        self.memory.publish_u32(0, number);
    }

    /// Reads the newest value by `read`, with its number. `None` if there is none.
    pub fn read<T>(&self, mut read: impl FnMut(u32, &SharedBytes) -> T) -> Option<T> {
        loop {
            let number = self.memory.observe_u32(0);
            if number == 0 {
                return None;
            }
            let value = read(number, &self.slot(number));
            if self.memory.observe_u32(0).wrapping_sub(number) < self.slots - 1 {
                return Some(value);
            }
        }
    }
}

//--- Values

/// Bytes of a picture with its stamp.
pub const PICTURE_BYTES: usize = STAMP_BYTES + PIXELS;
/// Bytes of a stamp: the instant of the picture in ns, and its number.
pub const STAMP_BYTES: usize = 16;
/// Bytes of a sight.
pub const SIGHT_BYTES: usize = STAMP_BYTES + 4 * LANE_WORDS;
/// Bytes of a car's place.
pub const PLACE_BYTES: usize = 48;

/// The stamp of a picture.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stamp {
    /// The instant at which it was taken, in ns.
    pub at: u64,
    /// The step of the world after which it was taken.
    pub number: u32,
}

impl Stamp {
    /// Writes it at the beginning of `memory`.
    pub fn write(&self, memory: &SharedBytes) {
        memory.write_u64(0, self.at);
        memory.write_u64(8, self.number.into());
    }

    /// Reads it back.
    #[must_use]
    pub fn read(memory: &SharedBytes) -> Stamp {
        Stamp { at: memory.read_u64(0), number: memory.read_u64(8) as u32 }
    }
}

/// Writes the place of the car, for its camera.
pub fn write_place(memory: &SharedBytes, stamp: Stamp, car: &Car) {
    stamp.write(memory);
    for (at, number) in [car.place[0], car.place[1], car.heading, car.along].into_iter().enumerate() {
        memory.write_u64(STAMP_BYTES + 8 * at, number.to_bits());
    }
}

/// Reads it back.
#[must_use]
pub fn read_place(memory: &SharedBytes) -> (Stamp, Car) {
    let [east, north, heading, along] =
        core::array::from_fn(|at| f64::from_bits(memory.read_u64(STAMP_BYTES + 8 * at)));
    (Stamp::read(memory), Car { place: [east, north], heading, along, ..Car::parked() })
}

/// Writes the lane of a picture.
pub fn write_sight(memory: &SharedBytes, stamp: Stamp, words: &[i32; LANE_WORDS]) {
    stamp.write(memory);
    for (at, word) in words.iter().enumerate() {
        memory.write_u32(STAMP_BYTES + 4 * at, word.cast_unsigned());
    }
}

/// Reads it back, with the number of the picture.
#[must_use]
pub fn read_sight(memory: &SharedBytes) -> (u32, Sight) {
    let Stamp { at, number } = Stamp::read(memory);
    let words = core::array::from_fn(|word| memory.read_u32(STAMP_BYTES + 4 * word).cast_signed());
    (number, Sight { at, words })
}

//--- The bus

/// Received frames for which a job asks at most: two are sent in a period.
pub const RECEIVED_MAX: usize = 5;

/// The identifier of a frame, of eleven bits.
#[must_use]
pub fn identifier(number: u16) -> StandardId {
    StandardId::new(number).expect("an identifier has eleven bits")
}

/// Sends a frame; a full queue or a bus that is off loses it, as the next frame is newer.
///
/// # Panics
/// If the server cannot be called.
pub fn send(can: &Can, number: u16, data: [u8; 8]) {
    let frame = Frame::new(identifier(number), &data).expect("eight bytes fit");
    match can.send(&frame) {
        Ok(()) | Err(CanError::QueueFull | CanError::BusOff) => {}
        Err(error) => panic!("no frame is sent: {error}"),
    }
}

/// Takes all received frames, [`RECEIVED_MAX`] at most.
///
/// # Panics
/// If the server cannot be called.
pub fn receive(can: &Can, mut take: impl FnMut(u16, [u8; 8])) {
    for _ in 0..RECEIVED_MAX {
        match can.try_receive() {
            Ok(Some(received)) => {
                if let (Id::Standard(id), Ok(data)) = (received.frame.id(), received.frame.data().try_into()) {
                    take(id.as_raw(), data);
                }
            }
            Ok(None) => return,
            Err(CanError::Lost(_)) => {}
            Err(error) => panic!("no frame is received: {error}"),
        }
    }
}

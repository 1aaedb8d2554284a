//! Frames of the car's CAN bus, as eleven bits of an identifier and eight bytes. Numbers are little-endian.
//!
//! | Identifier | Sender | Bytes | Unit |
//! |---|---|---|---|
//! | [`COMMAND`] | controller | steering, 2; brake, 2; number of the step, 4 | 1/50,000 rad; mm/s^2 |
//! | [`WHEELS`] | car | speeds of the wheels, 4 times 2 | mm/s |
//! | [`YAW`] | car | yaw rate, 4; number of the step, 4 | 1/100,000 rad/s |

use crate::drive::Senses;
use crate::numbers::rounded;
use crate::vehicle::{Car, Command};

/// The identifier of commands: the most urgent frames.
pub const COMMAND: u16 = 0x050;
/// The identifier of the speeds of wheels.
pub const WHEELS: u16 = 0x0A0;
/// The identifier of the yaw rate.
pub const YAW: u16 = 0x0A8;

const STEERING_UNIT: f64 = 50_000.0;
const YAW_UNIT: f64 = 100_000.0;

fn limited(number: f64) -> i16 {
    rounded(number.clamp(i16::MIN.into(), i16::MAX.into())) as i16
}

/// The data of a command that is of step `number`.
#[must_use]
pub fn command(command: Command, number: u32) -> [u8; 8] {
    let [a, b] = limited(command.steering * STEERING_UNIT).to_le_bytes();
    let [c, d] = limited(command.brake * 1000.0).to_le_bytes();
    let [e, f, g, h] = number.to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

/// The command of these data, and the number of its step.
#[must_use]
pub fn command_of([a, b, c, d, e, f, g, h]: [u8; 8]) -> (Command, u32) {
    let (steering, brake) = (i16::from_le_bytes([a, b]), i16::from_le_bytes([c, d]));
    let command = Command { steering: f64::from(steering) / STEERING_UNIT, brake: f64::from(brake) / 1000.0 };
    (command, u32::from_le_bytes([e, f, g, h]))
}

/// The data of the wheels.
#[must_use]
pub fn wheels(car: &Car) -> [u8; 8] {
    let mut data = [0; 8];
    for (bytes, speed) in data.as_chunks_mut::<2>().0.iter_mut().zip(car.wheels()) {
        *bytes = limited(speed * 1000.0).to_le_bytes();
    }
    data
}

/// The data of the yaw rate, with the error of the sensor, in rad/s.
#[must_use]
pub fn yaw(car: &Car, error: f64, number: u32) -> [u8; 8] {
    let [a, b, c, d] = rounded((car.yaw + error) * YAW_UNIT).to_le_bytes();
    let [e, f, g, h] = number.to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

impl Senses {
    /// Sets the speeds of the left and right rear wheel, in m/s, from bytes 4 to 7 of the wheels' frame: two little-endian `i16` in mm/s.
    pub fn take_wheels(&mut self, [.., a, b, c, d]: [u8; 8]) {
        self.wheels = [[a, b], [c, d]].map(|bytes| f64::from(i16::from_le_bytes(bytes)) / 1000.0);
    }

    /// Takes the yaw rate from its data.
    pub fn take_yaw(&mut self, [a, b, c, d, ..]: [u8; 8]) {
        self.yaw = f64::from(i32::from_le_bytes([a, b, c, d])) / YAW_UNIT;
    }
}

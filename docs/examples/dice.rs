//! A driver of a virtio entropy device, which rolls a die with its bytes.
//!
//! Handles: region "registers"; region "memory" (read, write, physical), which no other task has; interrupt "line" (acknowledge); notification
//! "filled" (wait), which the line signals; endpoint "console" (call).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Instant, Interrupt, Notification, Region, environment, println};
use fusee_driver::virtio::{Data, Device, DeviceType};

fusee::entry!(main);

const ROLLS: usize = 20;
/// Bytes of a request. The device may fill fewer of them.
const BYTES: usize = 16;

fn main() {
    let environment = environment();
    let (registers, memory) = (environment.expect::<Region>("registers"), environment.expect::<Region>("memory"));
    let (line, filled) = (environment.expect::<Interrupt>("line"), environment.expect::<Notification>("filled"));
    let mut device = Device::open(&registers, &memory, DeviceType::EntropySource, 0).expect("the region has the device");
    let mut rolls = [0; ROLLS];
    let mut count = 0;
    while count < ROLLS {
        // A request of this device is one buffer that it writes, without header and answer.
        device.start(0, &[], Data::FromDevice(BYTES), 0).expect("no other request is under way");
        let written = loop {
            filled.wait(Instant::NEVER).expect("the manifest gives the right");
            device.silence();
            line.acknowledge().expect("the line has fired");
            if let Some(completion) = device.finish().expect("a device that keeps to its standard") {
                break (completion.written as usize).min(BYTES);
            }
        };
        // Each number of the die has 42 of the 252 values below this.
        let fair = device.data()[..written].iter().filter(|byte| **byte < 252);
        for (roll, byte) in rolls[count..].iter_mut().zip(fair) {
            *roll = byte % 6 + 1;
            count += 1;
        }
    }
    let right = rolls.iter().filter(|roll| (1..=6).contains(*roll)).count();
    println!("dice: {right} rolls, each from 1 to 6");
    // A task that handles an interrupt does not end: nobody would acknowledge the line.
    loop {
        let _ = filled.wait(Instant::NEVER);
    }
}

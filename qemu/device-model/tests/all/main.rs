//! Commands, memory and time of the device: one module for each theme.
//!
//! One crate, so that the library is linked once. `cargo test -p fusee-device-model --test all gate::` runs one theme.

mod rig;

mod contexts;
mod copy_engines;
mod device;
mod gate;
mod hostile_doorbells;
mod launches;
mod peers;
mod preemption;
mod sms;

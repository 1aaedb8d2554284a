//! The card that a board starts from.
//!
//! A card is a list of files. From it this crate makes an image: a partition table and one FAT32 volume, as boot ROMs
//! and boot loaders read it. An image is saved as a file, read back, or written to a device.
//!
//! - [`card`]: files become an image.
//! - [`image`]: an image is saved, and read back.
//! - [`board`]: which files a board needs beside the kernel.
//! - [`script`]: the script that U-Boot executes.
//! - [`host`]: the disks of this machine, and which of them may be written.
//! - [`device`]: asks, writes, reads back and compares.
//!
//! # Invariants
//!
//! 1. The same files give the same image, byte for byte: no clock, no random number, no path of the host is in it.
//! 2. The volume is FAT32 for every reader, because the number of its clusters says so.
//! 3. No byte goes to a device that [`host::Host::target`] has not let pass and of which the person has not typed the
//!    name. The types say so: [`device::Target`] has no function that writes, and only its answer has.
//!
//! # How a command uses it
//!
//! ```no_run
//! use std::path::Path;
//!
//! use fusee_card::board::{Board, Kernel};
//! use fusee_card::host::Host;
//!
//! fn flash(image: Vec<u8>, out: Option<&Path>, device: Option<&Path>) -> Result<(), Box<dyn std::error::Error>> {
//!     // `--board raspi4b --firmware DIR`
//!     let board = Board::named("raspi4b")?;
//!     let laid_out = board.card(&Kernel::new(image, 0x8_0000)?, Some(Path::new("boot")))?;
//!     if let Some(missing) = &laid_out.missing {
//!         eprintln!("{missing}");
//!     }
//!     let image = laid_out.card.image()?;
//!     // `--out card.img`
//!     if let Some(path) = out {
//!         image.save(path)?;
//!     }
//!     // `--device /dev/sdX`, `--disk SERIAL`
//!     if let Some(device) = device {
//!         let target = Host::here().target(device, image.bytes().len() as u64, None)?;
//!         let confirmed = target.ask(&mut std::io::stdin().lock(), &mut std::io::stderr())?;
//!         confirmed.write(&image, &mut |step, done, of| eprint!("\r{step} {} %", done * 100 / of))?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Not here: how the kernel is built, where a board's memory lies (the load address is an argument), any emulator, and
//! the boards' closed firmware, which is named and copied but never part of Fusee.
#![forbid(unsafe_code)]

pub mod board;
pub mod card;
pub mod device;
pub mod host;
pub mod image;
pub mod script;

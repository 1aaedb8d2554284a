//! The files that a board needs beside the kernel.
//!
//! A Raspberry Pi starts its own firmware from the card: closed files that its maker publishes. They are not part of
//! Fusee. They are copied from a folder of the person's, and named with their source where they are missing.
//!
//! A ZCU102 or a Versal board, and QEMU's `virt` with a U-Boot of its own, starts from its vendor's boot loader, which ends in U-Boot, on another medium or beside us.
//! U-Boot looks for `boot.scr` on the first partition, and that loads the image and enters it.
//!
//! Sources: "Raspberry Pi documentation", *The boot folder*, *Legacy config.txt options*, *Configuring UARTs*; U-Boot,
//! `include/config_distro_bootcmd.h` (which variables a script finds) and `arch/arm/lib/image.c` (where `booti` moves an image).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::card::{Card, CardError};
use crate::script;

/// The image on cards for U-Boot.
pub const IMAGE: &str = "fusee.img";
/// The image on cards for a Raspberry Pi.
pub const RASPBERRY_IMAGE: &str = "kernel8.img";
/// Where the firmware of Raspberry Pis is published. Any release; none was tried with Fusee on a board.
pub const RASPBERRY_SOURCE: &str = "https://github.com/raspberrypi/firmware, folder boot";
/// The licence of the firmware, which goes where the firmware goes.
const RASPBERRY_LICENCE: &str = "LICENCE.broadcom";
/// U-Boot puts an image at its text offset from a multiple of this.
const PLACE: u64 = 2 << 20;

/// Why a card for a board cannot be laid out.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// There is no such board.
    #[error("no card is known for board `{name}`; there are: {}", BOARDS.map(|board| board.name).join(", "))]
    NoSuchBoard {
        /// The requested name.
        name: String,
    },
    /// The bytes are no image that a boot loader enters.
    #[error("the kernel is no image for 64-bit Arm: byte 56 should begin `ARM\\x64`")]
    NotAnImage,
    /// The boot loader would move the image, which runs where it is linked only.
    #[error(
        "the image asks to be {text_offset:#x} behind a multiple of 2 MiB, and would be loaded at {load_address:#x}"
    )]
    Misplaced {
        /// Where it would be loaded.
        load_address: u64,
        /// The offset in its header.
        text_offset: u64,
    },
    /// A folder of firmware was given, and lacks files.
    #[error("{} has no {}\n{SOURCE_NOTE} {source}", folder.display(), files.join(", "), source = RASPBERRY_SOURCE)]
    FirmwareIncomplete {
        /// The folder.
        folder: PathBuf,
        /// Files that are missing in it.
        files: Vec<&'static str>,
    },
    /// A file of the firmware is there, and cannot be read.
    #[error("{}: {error}", path.display())]
    Firmware {
        /// The file.
        path: PathBuf,
        /// The error of the host.
        error: io::Error,
    },
    /// The files do not make a card.
    #[error(transparent)]
    Card(#[from] CardError),
}

const SOURCE_NOTE: &str = "The firmware is not part of Fusee. Its maker publishes it:";

/// The image of kernel and system, and where it is linked to run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kernel {
    bytes: Vec<u8>,
    load_address: u64,
}

impl Kernel {
    /// Takes an image with a header that a boot loader understands.
    ///
    /// # Errors
    /// If there is no such header, or if the boot loader would move the image away from `load_address`.
    ///
    /// # Source
    /// Linux, `Documentation/arch/arm64/booting.rst`, section 4.
    pub fn new(bytes: Vec<u8>, load_address: u64) -> Result<Self, BoardError> {
        let field = |at: usize| bytes.get(at..at + 8).and_then(|field| field.try_into().ok()).map(u64::from_le_bytes);
        let (Some(text_offset), Some(b"ARM\x64")) = (field(8), bytes.get(56..60)) else {
            return Err(BoardError::NotAnImage);
        };
        if !load_address.checked_sub(text_offset).is_some_and(|base| base.is_multiple_of(PLACE)) {
            return Err(BoardError::Misplaced { load_address, text_offset });
        }
        Ok(Self { bytes, load_address })
    }
}

/// The files on a card, and the missing ones.
#[derive(Clone, Debug)]
pub struct LaidOut {
    /// The files.
    pub card: Card,
    /// The firmware, if no folder of it was given: the board does not start without.
    pub missing: Option<MissingFirmware>,
}

/// Files that the person has to put on the card. Prints as a notice of two lines.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the board does not start before these are on the card, too: {}\n{SOURCE_NOTE} {RASPBERRY_SOURCE}", files.join(", "))]
pub struct MissingFirmware {
    /// Their names on the card.
    pub files: Vec<&'static str>,
}

/// A board that starts from a card.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    /// As it is named on the command line.
    pub name: &'static str,
    loader: Loader,
}

/// The program that starts the kernel.
#[derive(Clone, Copy, Debug)]
enum Loader {
    /// The firmware of a Raspberry Pi, with the files of it that the card must have.
    Raspberry { firmware: &'static [&'static str] },
    /// U-Boot, which is not on the card.
    UBoot,
}

/// All boards that start from a card.
pub const BOARDS: [Board; 5] = [
    Board {
        name: "raspi3b",
        loader: Loader::Raspberry {
            firmware: &["bootcode.bin", "start.elf", "fixup.dat", "bcm2710-rpi-3-b.dtb", "overlays/disable-bt.dtbo"],
        },
    },
    Board {
        name: "raspi4b",
        loader: Loader::Raspberry {
            // The code that is in bootcode.bin on older boards is in the EEPROM of this one.
            firmware: &["start4.elf", "fixup4.dat", "bcm2711-rpi-4-b.dtb", "overlays/disable-bt.dtbo"],
        },
    },
    Board { name: "zcu102", loader: Loader::UBoot },
    Board { name: "versal", loader: Loader::UBoot },
    Board { name: "virt", loader: Loader::UBoot },
];

impl Board {
    /// The board of that name.
    ///
    /// # Errors
    /// Lists the names there are.
    pub fn named(name: &str) -> Result<&'static Self, BoardError> {
        static ALL: [Board; 5] = BOARDS;
        ALL.iter().find(|board| board.name == name).ok_or_else(|| BoardError::NoSuchBoard { name: name.to_owned() })
    }

    /// Lays out the card: the kernel, the boot loader's configuration for it, and the files of `firmware` that the board needs.
    ///
    /// # Errors
    /// If a folder of firmware is given, and lacks files. Without a folder the card is made, and
    /// [`LaidOut::missing`] lists the missing files: an emulator, or another boot loader, needs no firmware.
    pub fn card(&self, kernel: &Kernel, firmware: Option<&Path>) -> Result<LaidOut, BoardError> {
        let mut card = Card::new();
        let mut missing = None;
        match self.loader {
            Loader::Raspberry { firmware: files } => {
                // The first files of a card are found first.
                match firmware {
                    Some(folder) => copy_firmware(&mut card, folder, files)?,
                    None => missing = Some(MissingFirmware { files: files.to_vec() }),
                }
                card.add("config.txt", config(kernel.load_address).into_bytes())?;
                card.add(RASPBERRY_IMAGE, kernel.bytes.clone())?;
            }
            Loader::UBoot => {
                card.add("boot.scr", script::wrap(&script_text(kernel.load_address)))?;
                card.add(IMAGE, kernel.bytes.clone())?;
            }
        }
        Ok(LaidOut { card, missing })
    }
}

/// Copies all `files`, and the licence if it is there.
fn copy_firmware(card: &mut Card, folder: &Path, files: &[&'static str]) -> Result<(), BoardError> {
    let missing: Vec<_> = files.iter().copied().filter(|file| !folder.join(file).is_file()).collect();
    if !missing.is_empty() {
        return Err(BoardError::FirmwareIncomplete { folder: folder.to_owned(), files: missing });
    }
    let licence = Some(RASPBERRY_LICENCE).filter(|file| folder.join(file).is_file());
    for file in files.iter().copied().chain(licence) {
        let path = folder.join(file);
        let bytes = fs::read(&path).map_err(|error| BoardError::Firmware { path, error })?;
        card.add(file, bytes)?;
    }
    Ok(())
}

/// The configuration for a Raspberry Pi's firmware.
fn config(load_address: u64) -> String {
    format!(
        "\
# 64-bit code, at the address it is linked for.
arm_64bit=1
kernel={RASPBERRY_IMAGE}
kernel_address={load_address:#x}
# No list of tags at 0x100: the kernel reads none.
disable_commandline_tags=1
# UART0, a PL011, on pins 8 and 10 of the header, at 115200 baud from 48 MHz; Bluetooth has none.
enable_uart=1
dtoverlay=disable-bt
init_uart_clock=48000000
init_uart_baud=115200
"
    )
}

/// The script that U-Boot executes. It has set `devtype`, `devnum` and `distro_bootpart` to the place of the script.
fn script_text(load_address: u64) -> String {
    format!(
        "\
echo Fusee: {IMAGE} to {load_address:#x}
load ${{devtype}} ${{devnum}}:${{distro_bootpart}} {load_address:#x} {IMAGE} && booti {load_address:#x} - ${{fdtcontroladdr}}
echo Fusee: {IMAGE} was not entered
"
    )
}

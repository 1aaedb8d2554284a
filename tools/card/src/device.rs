//! Asks, writes, reads back and compares.
//!
//! [`Host::target`] lets a disk pass, [`Target::ask`] asks, [`Confirmed::write`] looks once more and writes. The device
//! is opened for exclusive use, so Linux refuses if it uses the disk in a way that was not seen. Everything written is then
//! read from the device, not from the host's memory: cards that pretend to be larger than they are do exist.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::{Advice, OFlags};

use crate::host::{Disk, Host, Refusal};
use crate::image::Image;

/// Bytes that are written, or read, between two reports of progress.
const CHUNK: usize = 4 << 20;

/// Why a device has not been written, or not rightly.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The person did not type the name of the disk.
    #[error("nothing was written: the answer was `{answer}`, not `{name}`")]
    NotConfirmed {
        /// The name of the disk.
        name: String,
        /// The typed answer.
        answer: String,
    },
    /// The disk is no longer the one that the person was asked about.
    #[error("nothing was written: there was {asked}, and now there is {now}")]
    Changed {
        /// The disk of the question.
        asked: Box<Disk>,
        /// The disk of that name now.
        now: Box<Disk>,
    },
    /// The disk may no longer be written.
    #[error("nothing was written: {0}")]
    Refused(#[from] Refusal),
    /// Linux uses the disk in a way that was not seen.
    #[error("nothing was written: {} is in use, says the kernel of this machine", device.display())]
    Busy {
        /// The device.
        device: PathBuf,
    },
    /// The device cannot be opened.
    #[error("nothing was written: {}: {error}; disks are written by root, or by members of their group", device.display())]
    NotOpened {
        /// The device.
        device: PathBuf,
        /// The error of the host.
        error: io::Error,
    },
    /// The path does not lead to the disk.
    #[error("nothing was written: {} does not lead to the disk {number}", device.display())]
    AnotherNode {
        /// The device.
        device: PathBuf,
        /// Major and minor number of the disk.
        number: String,
    },
    /// The device failed. Its contents are neither the old nor the new ones.
    #[error("{}: {error} while {step} byte {at}; the card is not usable", device.display())]
    Failed {
        /// The device.
        device: PathBuf,
        /// The step that failed.
        step: Step,
        /// From which byte on.
        at: u64,
        /// The error of the host.
        error: io::Error,
    },
    /// The device does not keep the written bytes.
    #[error("{} does not keep what is written: byte {at} differs; the card is not usable", device.display())]
    Differs {
        /// The device.
        device: PathBuf,
        /// The first byte that differs.
        at: u64,
    },
}

/// A step of the work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// To the device.
    Writing,
    /// From the device, and comparing.
    ReadingBack,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Writing => "writing",
            Self::ReadingBack => "reading back",
        })
    }
}

/// Reports progress: the step, bytes done, and bytes there are.
pub type Progress<'a> = &'a mut dyn FnMut(Step, u64, u64);

/// A disk that may be written, if the person wants it.
#[derive(Debug)]
#[must_use]
pub struct Target {
    host: Host,
    disk: Disk,
}

impl Target {
    pub(crate) fn new(host: Host, disk: Disk) -> Self {
        Self { host, disk }
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Says which disk it is, and lets the person type its name. Nothing else means yes.
    ///
    /// # Errors
    /// [`DeviceError::NotConfirmed`] for any other answer, for none, and if nothing can be asked.
    pub fn ask(self, answers: &mut impl BufRead, questions: &mut impl Write) -> Result<Confirmed, DeviceError> {
        let name = self.disk.name.clone();
        let mut answer = String::new();
        let asked = writeln!(questions, "{}\nAll that is on it will be lost.", self.disk)
            .and_then(|()| write!(questions, "Type {name} to go on: "))
            .and_then(|()| questions.flush())
            .and_then(|()| answers.read_line(&mut answer));
        match asked {
            Ok(_) if answer.trim() == name => Ok(Confirmed { target: self }),
            _ => Err(DeviceError::NotConfirmed { name, answer: answer.trim().to_owned() }),
        }
    }
}

/// A disk that the person wants to be written.
#[derive(Debug)]
#[must_use]
pub struct Confirmed {
    target: Target,
}

impl Confirmed {
    /// Writes the image from the first byte of the disk on, and compares the bytes that are there then.
    ///
    /// # Errors
    /// See [`DeviceError`], which says whether something was written.
    pub fn write(self, image: &Image, progress: Progress<'_>) -> Result<(), DeviceError> {
        let Target { host, disk: asked } = self.target;
        let device = asked.device();
        // 1. It is still the same disk, and still free.
        let now = host.disk(&device)?;
        if now != asked {
            return Err(DeviceError::Changed { asked: Box::new(asked), now: Box::new(now) });
        }
        let named = asked.serial.as_deref().or(asked.model.as_deref());
        let _still_free: Target = host.target(&device, image.bytes().len() as u64, named)?;
        // 2. It is ours alone.
        let mut file = open(&host, &asked)?;
        // 3. Written, and on the medium.
        write_and_compare(&mut file, image.bytes(), progress).map_err(|fault| match fault {
            Fault::Failed { step, at, error } => DeviceError::Failed { device: device.clone(), step, at, error },
            Fault::Differs { at } => DeviceError::Differs { device: device.clone(), at },
        })
    }
}

/// Opens the device for exclusive use, and makes sure that it is the one that was looked at.
fn open(host: &Host, disk: &Disk) -> Result<File, DeviceError> {
    let device = disk.device();
    let exclusive = OFlags::EXCL.bits() as i32;
    let opened = OpenOptions::new().read(true).write(true).custom_flags(exclusive).open(host.path(&device));
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => DeviceError::Busy { device: device.clone() },
        _ => DeviceError::NotOpened { device: device.clone(), error },
    })?;
    // The devices of a test are files.
    if host.is_here() {
        let is_disk = file.metadata().is_ok_and(|node| {
            let number = format!("{}:{}", rustix::fs::major(node.rdev()), rustix::fs::minor(node.rdev()));
            node.file_type().is_block_device() && number == disk.number
        });
        if !is_disk {
            return Err(DeviceError::AnotherNode { device, number: disk.number.clone() });
        }
    }
    Ok(file)
}

/// A medium that keeps bytes.
trait Medium: Read + Write + Seek {
    /// Puts all that was written on the medium, and forgets it here, so that reading asks the medium.
    fn settle(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn settle(&mut self) -> io::Result<()> {
        self.sync_all()?;
        Ok(rustix::fs::fadvise(&*self, 0, None, Advice::DontNeed)?)
    }
}

/// The reason for which a medium does not have the bytes it should have.
#[derive(Debug)]
enum Fault {
    Failed { step: Step, at: u64, error: io::Error },
    Differs { at: u64 },
}

fn write_and_compare(medium: &mut impl Medium, bytes: &[u8], progress: Progress<'_>) -> Result<(), Fault> {
    let of = bytes.len() as u64;
    let mut at = 0;
    let failed = |step, at| move |error| Fault::Failed { step, at, error };
    medium.seek(SeekFrom::Start(0)).map_err(failed(Step::Writing, 0))?;
    for chunk in bytes.chunks(CHUNK) {
        // Settled each time, or all of the progress would be that of the host's memory.
        medium.write_all(chunk).and_then(|()| medium.settle()).map_err(failed(Step::Writing, at))?;
        at += chunk.len() as u64;
        progress(Step::Writing, at, of);
    }
    let mut read = vec![0; CHUNK];
    at = 0;
    medium.seek(SeekFrom::Start(0)).map_err(failed(Step::ReadingBack, 0))?;
    for chunk in bytes.chunks(CHUNK) {
        let read = &mut read[..chunk.len()];
        medium.read_exact(read).map_err(failed(Step::ReadingBack, at))?;
        if let Some(differs) = chunk.iter().zip(&*read).position(|(written, read)| written != read) {
            return Err(Fault::Differs { at: at + differs as u64 });
        }
        at += chunk.len() as u64;
        progress(Step::ReadingBack, at, of);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A card that claims to be larger than it is: bytes beyond its end go to its start.
    struct Counterfeit {
        kept: Vec<u8>,
        at: usize,
    }

    impl Read for Counterfeit {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            for byte in &mut *buffer {
                *byte = self.kept[self.at % self.kept.len()];
                self.at += 1;
            }
            Ok(buffer.len())
        }
    }

    impl Write for Counterfeit {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let length = self.kept.len();
            for byte in bytes {
                self.kept[self.at % length] = *byte;
                self.at += 1;
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Counterfeit {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            let SeekFrom::Start(at) = to else { return Err(io::ErrorKind::Unsupported.into()) };
            self.at = at as usize;
            Ok(at)
        }
    }

    impl Medium for Counterfeit {
        fn settle(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A medium that ends before its size.
    impl Medium for Cursor<&mut [u8]> {
        fn settle(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Bytes of which none equals the one 1,000,000 before.
    fn bytes() -> Vec<u8> {
        (0..9_000_000_u32).map(|index| (index / 1_000_000 * 16 + index % 13) as u8).collect()
    }

    #[test]
    fn a_card_that_keeps_less_than_it_says_is_found_by_reading_back() {
        let mut card = Counterfeit { kept: vec![0; 1_000_000], at: 0 };
        let fault = write_and_compare(&mut card, &bytes(), &mut |_, _, _| ());
        assert!(matches!(fault, Err(Fault::Differs { at: 0 })), "{fault:?}");
    }

    #[test]
    fn a_card_that_ends_too_soon_fails_where_it_ends() {
        let mut room = vec![0; CHUNK + 1];
        let fault = write_and_compare(&mut Cursor::new(&mut *room), &bytes(), &mut |_, _, _| ());
        let Err(Fault::Failed { step: Step::Writing, at, .. }) = fault else { panic!("{fault:?}") };
        assert_eq!(at, CHUNK as u64);
    }

    #[test]
    fn progress_goes_to_the_end_twice() {
        let mut card = Counterfeit { kept: vec![0; 10_000_000], at: 0 };
        let mut seen = Vec::new();
        write_and_compare(&mut card, &bytes(), &mut |step, at, of| seen.push((step, at, of))).unwrap();
        let of = 9_000_000;
        let marks = [CHUNK as u64, 2 * CHUNK as u64, of];
        let expected: Vec<_> =
            [Step::Writing, Step::ReadingBack].iter().flat_map(|step| marks.map(|at| (*step, at, of))).collect();
        assert_eq!(seen, expected);
    }
}

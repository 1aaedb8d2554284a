//! The disks of this machine, and which of them may be written.
//!
//! All of it is read below one root: `/`, or the folder of a test. These files are read:
//!
//! | | |
//! |---|---|
//! | `sys/block/NAME/` | size, model, serial number, whether it is removable, its partitions, their holders |
//! | `proc/self/mountinfo`, `proc/swaps` | mounted file systems, and areas for swapping |
//! | `dev/` | links to a device, and the device itself |
//!
//! # Uses that this cannot see
//!
//! A mount in another container, and the second disk of a file system that spans several. So a device is also opened
//! for exclusive use ([`device`](crate::device)), which Linux refuses for a disk that it uses in any way.
//!
//! Source: Linux, `Documentation/ABI/stable/sysfs-block`, `Documentation/filesystems/proc.rst` (3.5), proc(5).

use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::device::Target;

/// The unit of `size`, for any sectors of the disk.
const SIZE_UNIT: u64 = 512;

/// Why a device is not written.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no disk of that name.
    #[error("{}: {reason}; {}", device.display(), Choices(choices))]
    NotADisk {
        /// The requested device.
        device: PathBuf,
        /// The reason, which names its kind.
        reason: &'static str,
        /// Disks that would do.
        choices: Vec<Disk>,
    },
    /// The device is a part of a disk. A board looks for its partition table, which would be inside the partition.
    #[error("{} is a partition of /dev/{disk}, and a card is a whole disk: name /dev/{disk} if all of it may be overwritten", device.display())]
    Partition {
        /// The requested device.
        device: PathBuf,
        /// The disk it belongs to.
        disk: String,
    },
    /// The disk, or a partition of it, is in use.
    #[error("{disk} is in use: {}; {}", join(uses), remedy(uses, choices))]
    InUse {
        /// The disk.
        disk: Box<Disk>,
        /// All uses that were found; at least one.
        uses: Vec<Use>,
        /// Disks that would do.
        choices: Vec<Disk>,
    },
    /// A reader without a card.
    #[error("{disk}: there is no card in it")]
    NoMedium {
        /// The reader.
        disk: Box<Disk>,
    },
    /// Loop devices, memory disks, arrays: nothing that a board can be given.
    #[error(
        "{disk} is made by the kernel of this machine and is no hardware; an image is saved to a file with `--out`"
    )]
    NoHardware {
        /// The disk.
        disk: Box<Disk>,
    },
    /// Often a card's own switch.
    #[error("{disk} cannot be written: it is read-only; a card may have a switch for that")]
    ReadOnly {
        /// The disk.
        disk: Box<Disk>,
    },
    /// The image does not fit.
    #[error("{disk} is too small: the image has {needed} bytes")]
    TooSmall {
        /// The disk.
        disk: Box<Disk>,
        /// Bytes of the image.
        needed: u64,
    },
    /// A disk that is built in, or looks like it. The person may insist.
    #[error("{disk} is not removable; to write it all the same, name it with `--disk`: its {}", identity(disk))]
    NotRemovable {
        /// The disk.
        disk: Box<Disk>,
    },
    /// The person named a disk, and this one is another.
    #[error("{disk} is not disk `{named}`: its {}", identity(disk))]
    AnotherDisk {
        /// The disk.
        disk: Box<Disk>,
        /// The given name.
        named: String,
    },
    /// A file that decides cannot be read, and nothing is written on a guess.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the host.
        error: io::Error,
    },
}

/// A whole disk. Prints as its path, model, serial number and size.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Disk {
    /// Its name below `/dev`.
    pub name: String,
    /// Maker and model, if it says.
    pub model: Option<String>,
    /// Serial number, if it says.
    pub serial: Option<String>,
    /// Bytes of the medium; 0 without one.
    pub bytes: u64,
    /// Whether it can be taken out: as the kernel says, or an SD card of any reader.
    pub is_removable: bool,
    /// Whether it refuses to be written.
    pub is_read_only: bool,
    /// Whether there is a device behind it.
    pub is_hardware: bool,
    /// Major and minor number, `8:16`.
    pub number: String,
}

impl Disk {
    /// Its path.
    #[must_use]
    pub fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/dev/{} (", self.name)?;
        write!(f, "{}, ", self.model.as_deref().unwrap_or("no model"))?;
        if let Some(serial) = &self.serial {
            write!(f, "serial number {serial}, ")?;
        }
        let megabytes = self.bytes / 1_000_000;
        write!(f, "{}.{:03} GB)", megabytes / 1000, megabytes % 1000)
    }
}

/// A use of a disk, or of a partition of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Use {
    /// The disk, or the partition: its name below `/dev`.
    pub part: String,
    /// How it is used.
    pub by: User,
}

/// How a disk is used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum User {
    /// The running system is on it.
    Root,
    /// The disk is mounted here.
    Mount(PathBuf),
    /// Memory is swapped to it.
    Swap,
    /// An array, a volume group or an encrypted disk is made of it: the name of that.
    Holder(String),
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = &self.part;
        match &self.by {
            User::Root => write!(f, "{part} holds the running system"),
            User::Mount(at) => write!(f, "{part} is mounted at {}", at.display()),
            User::Swap => write!(f, "{part} is swap space"),
            User::Holder(name) => write!(f, "{part} is a part of {name}"),
        }
    }
}

/// The machine with the disks that are looked at.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// The machine we run on.
    #[must_use]
    pub fn here() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// A machine with its `sys`, `proc` and `dev` below `root`. Its devices may be plain files.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The disk of that path, if an image of `needed` bytes may be written to it. `named` is the model or the serial number
    /// of the disk, which the person has to name if the disk is not removable, and may always name.
    ///
    /// # Errors
    /// [`Refusal`] says what would do instead.
    pub fn target(&self, device: &Path, needed: u64, named: Option<&str>) -> Result<Target, Refusal> {
        let disk = self.disk(device)?;
        let boxed = || Box::new(disk.clone());
        let uses = self.uses(&disk)?;
        if !uses.is_empty() {
            return Err(Refusal::InUse { disk: boxed(), uses, choices: self.choices() });
        }
        if !disk.is_hardware {
            return Err(Refusal::NoHardware { disk: boxed() });
        }
        if disk.bytes == 0 {
            return Err(Refusal::NoMedium { disk: boxed() });
        }
        if disk.is_read_only {
            return Err(Refusal::ReadOnly { disk: boxed() });
        }
        if disk.bytes < needed {
            return Err(Refusal::TooSmall { disk: boxed(), needed });
        }
        match named.map(str::trim) {
            Some(named) if ![&disk.model, &disk.serial].into_iter().flatten().any(|identity| identity == named) => {
                Err(Refusal::AnotherDisk { disk: boxed(), named: named.to_owned() })
            }
            None if !disk.is_removable => Err(Refusal::NotRemovable { disk: boxed() }),
            _ => Ok(Target::new(self.clone(), disk)),
        }
    }

    /// All disks that are removable, have a medium, and are not in use.
    #[must_use]
    pub fn choices(&self) -> Vec<Disk> {
        let Ok(names) = self.names("sys/block") else { return Vec::new() };
        let disks = names.into_iter().filter_map(|name| self.read_disk(name).ok());
        let would_do = |disk: &Disk| disk.is_hardware && disk.is_removable && !disk.is_read_only && disk.bytes > 0;
        disks.filter(would_do).filter(|disk| self.uses(disk).is_ok_and(|uses| uses.is_empty())).collect()
    }

    /// Where a path of that machine is on this one.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Whether the disks are those of the machine we run on.
    pub(crate) fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The whole disk that `device` names, perhaps through links.
    pub(crate) fn disk(&self, device: &Path) -> Result<Disk, Refusal> {
        let not_a_disk = |reason| Refusal::NotADisk { device: device.to_owned(), reason, choices: self.choices() };
        let Some(name) = self.name(device) else {
            return Err(not_a_disk("there is no such device"));
        };
        if self.path(Path::new("sys/block")).join(&name).is_dir() {
            return self.read_disk(name);
        }
        let disks = self.names("sys/block")?;
        match disks.into_iter().find(|disk| self.attribute(disk, &format!("{name}/partition")).is_some()) {
            Some(disk) => Err(Refusal::Partition { device: device.to_owned(), disk }),
            None => Err(not_a_disk("it is no disk")),
        }
    }

    /// The name in `sys/block` of the disk that a path below `/dev` leads to. A name with a slash has `!` there.
    fn name(&self, device: &Path) -> Option<String> {
        let devices = self.path(Path::new("dev")).canonicalize().ok()?;
        let node = self.path(device).canonicalize().ok()?;
        let parts = node.strip_prefix(devices).ok()?.components();
        let parts: Option<Vec<&str>> =
            parts.map(|part| if let Component::Normal(part) = part { part.to_str() } else { None }).collect();
        Some(parts?.join("!")).filter(|name| !name.is_empty())
    }

    fn read_disk(&self, name: String) -> Result<Disk, Refusal> {
        let required = |file: &str| {
            let path = self.path(Path::new("sys/block")).join(&name).join(file);
            match fs::read_to_string(&path) {
                Ok(text) => Ok(text.trim().to_owned()),
                Err(error) => Err(Refusal::Unreadable { path, error }),
            }
        };
        let invalid = |file: &str| Refusal::Unreadable {
            path: self.path(Path::new("sys/block")).join(&name).join(file),
            error: io::Error::new(io::ErrorKind::InvalidData, "no number"),
        };
        let sectors: u64 = required("size")?.parse().map_err(|_| invalid("size"))?;
        let words = ["device/vendor", "device/model", "device/name"].map(|file| self.attribute(&name, file));
        let model = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let serials = ["device/serial", "serial"].into_iter().find_map(|file| self.attribute(&name, file));
        Ok(Disk {
            model: Some(model).filter(|model| !model.is_empty()),
            serial: serials.or_else(|| self.unit_serial_number(&name)),
            bytes: sectors.saturating_mul(SIZE_UNIT),
            // The slot of a built-in reader is not removable, the card in it is.
            is_removable: required("removable")? == "1"
                || self.attribute(&name, "device/type").is_some_and(|of| of == "SD"),
            is_read_only: required("ro")? != "0",
            is_hardware: self.path(Path::new("sys/block")).join(&name).join("device").exists(),
            number: required("dev")?,
            name,
        })
    }

    /// A file of a disk, without spaces at its ends; `None` if it is not there, or empty.
    fn attribute(&self, disk: &str, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(Path::new("sys/block")).join(disk).join(file)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The serial number of a SCSI disk by page 0x80 of its data: four bytes, then the number.
    fn unit_serial_number(&self, disk: &str) -> Option<String> {
        let page = fs::read(self.path(Path::new("sys/block")).join(disk).join("device/vpd_pg80")).ok()?;
        let text = String::from_utf8_lossy(page.get(4..)?).trim_matches(['\0', ' ', '\n']).to_owned();
        Some(text).filter(|text| !text.is_empty())
    }

    /// All uses of a disk and of its partitions that this machine knows.
    fn uses(&self, disk: &Disk) -> Result<Vec<Use>, Refusal> {
        let folder = Path::new("sys/block").join(&disk.name);
        // The disk, then its partitions: their names, and their numbers.
        let mut parts = vec![(disk.name.clone(), disk.number.clone())];
        for name in self.names(&folder)? {
            if self.attribute(&disk.name, &format!("{name}/partition")).is_some() {
                let number = self.attribute(&disk.name, &format!("{name}/dev")).unwrap_or_default();
                parts.push((name, number));
            }
        }
        let mut uses = Vec::new();
        for mount in self.mounts()? {
            let source = self.name(&mount.source);
            let used = |(name, number): &&(String, String)| *number == mount.number || Some(name) == source.as_ref();
            if let Some((part, _)) = parts.iter().find(used) {
                let by = if mount.at == Path::new("/") { User::Root } else { User::Mount(mount.at) };
                uses.push(Use { part: part.clone(), by });
            }
        }
        let swapped: Vec<_> = self.swap()?.iter().filter_map(|path| self.name(path)).collect();
        let swapped = parts.iter().filter(|(name, _)| swapped.contains(name));
        uses.extend(swapped.map(|(part, _)| Use { part: part.clone(), by: User::Swap }));
        for (part, _) in &parts {
            let inside = if *part == disk.name { folder.clone() } else { folder.join(part) };
            // Not there: nothing can hold it.
            for holder in self.names(inside.join("holders")).unwrap_or_default() {
                uses.push(Use { part: part.clone(), by: User::Holder(holder) });
            }
        }
        Ok(uses)
    }

    fn mounts(&self) -> Result<Vec<Mount>, Refusal> {
        let path = self.path(Path::new("proc/self/mountinfo"));
        let text = fs::read_to_string(&path).map_err(|error| Refusal::Unreadable { path: path.clone(), error })?;
        text.lines()
            .map(|line| {
                let error = io::Error::new(io::ErrorKind::InvalidData, format!("not understood: {line}"));
                Mount::parse(line).ok_or(Refusal::Unreadable { path: path.clone(), error })
            })
            .collect()
    }

    /// Files and devices that memory is swapped to.
    fn swap(&self) -> Result<Vec<PathBuf>, Refusal> {
        let path = self.path(Path::new("proc/swaps"));
        match fs::read_to_string(&path) {
            Ok(text) => {
                Ok(text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(unescape).collect())
            }
            // A kernel without swap.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Refusal::Unreadable { path, error }),
        }
    }

    /// The names in a folder, sorted.
    fn names(&self, folder: impl AsRef<Path>) -> Result<Vec<String>, Refusal> {
        let path = self.path(folder.as_ref());
        let read = || -> io::Result<Vec<String>> {
            fs::read_dir(&path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
        };
        let mut names = read().map_err(|error| Refusal::Unreadable { path: path.clone(), error })?;
        names.sort();
        Ok(names)
    }
}

/// A line of `mountinfo`.
struct Mount {
    /// Major and minor number, `8:17`. Some file systems have made-up ones.
    number: String,
    at: PathBuf,
    source: PathBuf,
}

impl Mount {
    /// `36 35 8:17 / /media/card rw,noatime shared:1 - vfat /dev/sdb1 rw`
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let source = after.split(' ').nth(1)?;
        Some(Self { number: (*before.get(2)?).to_owned(), at: unescape(before.get(4)?), source: unescape(source) })
    }
}

/// A path of `/proc`: spaces, tabs, ends of line and backslashes are three octal digits behind a backslash.
fn unescape(text: &str) -> PathBuf {
    let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    codes.iter().fold(text.to_owned(), |text, (code, character)| text.replace(code, character)).into()
}

/// Disks that would do, in words.
struct Choices<'a>(&'a [Disk]);

impl fmt::Display for Choices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { write!(f, "no removable disk is free") } else { write!(f, "free are: {}", join(self.0)) }
    }
}

fn join(items: &[impl fmt::Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The advice that frees a disk, if the person can.
fn remedy(uses: &[Use], choices: &[Disk]) -> String {
    let mounts: Option<Vec<String>> = uses
        .iter()
        .map(|used| if let User::Mount(at) = &used.by { Some(at.display().to_string()) } else { None })
        .collect();
    match mounts {
        Some(mounts) => format!("if it is the card: umount {}", mounts.join(" ")),
        None => Choices(choices).to_string(),
    }
}

/// The words that tell a disk from others of its kind.
fn identity(disk: &Disk) -> String {
    let model = disk.model.as_ref().map(|model| format!("model is `{model}`"));
    let serial = disk.serial.as_ref().map(|serial| format!("serial number is `{serial}`"));
    let known: Vec<String> = [model, serial].into_iter().flatten().collect();
    if known.is_empty() {
        "model and serial number are unknown, so it cannot be named".to_owned()
    } else {
        known.join(", its ")
    }
}

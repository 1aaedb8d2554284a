//! Files become an image.
//!
//! ```text
//! sector 0        the partition table: one partition, FAT32, active
//! sector 2048     the volume, to the end of the image
//! ```
//!
//! # Reasons for the sizes
//!
//! Readers tell FAT16 from FAT32 by the number of clusters alone: FAT32 begins at 65,525. With clusters of one sector
//! even the smallest image, 64 MiB, has twice as many. The size is a power of two, because emulated SD cards accept
//! no other.
//!
//! # Why there are no `~`, no leading dots and no letters beyond ASCII in names
//!
//! FAT makes up a short name for each long one, like `KERNEL~1.IMG`, and readers take either name. A file with a name of its own that
//! looks like that would be found in the place of another one. A name that starts with a dot would get a short name
//! that starts with a space. Letters beyond ASCII depend on the code page of the reader.
//!
//! Source of the sizes and fields: "Microsoft Extensible Firmware Initiative FAT32 File System Specification", 1.03.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};

use fatfs::{Date, DateTime, FatType, FormatVolumeOptions, FsOptions, Time, TimeProvider};

use crate::image::Image;

/// Bytes of a sector.
pub(crate) const SECTOR: u64 = 512;
/// The first sector of the volume: 1 MiB, where partitioning tools put it, at the start of an erase block.
pub(crate) const FIRST_SECTOR: u32 = 2048;
/// Bytes of the smallest image.
const SMALLEST: u64 = 64 << 20;
/// Bytes of the largest image. It is made in memory.
pub(crate) const LARGEST: u64 = 1 << 30;
/// Bytes of a directory entry.
const ENTRY: u64 = 32;
/// UTF-16 units of a long name that one directory entry holds.
const LONG_NAME_PART: u64 = 13;
/// Characters of one component of a path, at most.
const LONGEST_NAME: usize = 255;
/// Directories a file may be in, one inside the other.
pub(crate) const DEEPEST: usize = 8;
/// Type of a partition: FAT32, addressed by sector numbers.
const FAT32_BY_SECTOR: u8 = 0x0c;
/// Heads and sectors of the geometry by which old readers compute. No disk has it.
const HEADS: u8 = 255;
const SECTORS_OF_TRACK: u8 = 63;
/// The serial numbers of the table and of the volume. They are always the same, or two builds would differ.
const SIGNATURE: [u8; 4] = *b"FUSE";
const VOLUME_ID: u32 = 0x4655_5345;
const LABEL: [u8; 11] = *b"FUSEE      ";

/// Why a card cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// A name that not every reader would understand.
    #[error("file `{name}` of the card: {reason}")]
    Name {
        /// The whole path, as it was given.
        name: String,
        /// The fault of the name.
        reason: NameFault,
    },
    /// FAT does not tell upper from lower case, so two names are one.
    #[error("files `{name}` and `{other}` of the card have one name: FAT does not tell upper from lower case")]
    Twice {
        /// The later one.
        name: String,
        /// The earlier one.
        other: String,
    },
    /// One name is that of a file, and of a directory with files.
    #[error("`{name}` of the card is a file, and `{inside}` would be inside it")]
    FileAndDirectory {
        /// The file.
        name: String,
        /// The file inside the directory of the same name.
        inside: String,
    },
    /// The files are too much for one image.
    #[error("the files of the card have {bytes} bytes; an image has {} at most, with its tables", LARGEST)]
    TooLarge {
        /// Sum of the lengths of all files.
        bytes: u64,
    },
    /// The FAT library refused a name or size that was checked here: a fault of this crate.
    #[error("the FAT volume could not be made")]
    Volume(#[from] std::io::Error),
    /// The partition library refused a table that was checked here: a fault of this crate.
    #[error("the partition table could not be made")]
    Table(#[from] mbrman::Error),
}

/// The fault of a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameFault {
    /// There is nothing between two slashes, before the first, or behind the last.
    #[error("a part of the path is empty")]
    Empty,
    /// A name has a character that names of a card must not have: see [`card`](self).
    #[error(
        "`{0}` may not be in a name; letters and digits of ASCII may, and spaces, and any of ! # $ % & ' ( ) + , - . ; = @ [ ] ^ _ ` {{ }}"
    )]
    Character(char),
    /// Readers drop a space or a dot at an end.
    #[error("a part of the path begins or ends with `{0}`")]
    AtAnEnd(char),
    /// Longer than a long name can be.
    #[error("a part of the path has {0} characters; it may have {LONGEST_NAME}")]
    TooLong(usize),
    /// More directories than any board's firmware looks into.
    #[error("the path has {0} parts; it may have {most}", most = DEEPEST + 1)]
    TooDeep(usize),
}

/// The files of a card, in the order in which they are written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Card {
    files: Vec<(String, Vec<u8>)>,
    /// All paths, of files and directories, as readers compare them; and their kinds.
    taken: BTreeMap<String, Taken>,
}

/// The kind of a path of the card.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Taken {
    /// The file of this name.
    File(String),
    /// The directory that this file made necessary.
    Directory(String),
}

impl Card {
    /// A card without files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a file on the card. Directories are separated by `/`, and are made as they are needed.
    ///
    /// # Errors
    /// If not every reader would find the file by that name, and it alone. The card is unchanged then.
    pub fn add(&mut self, name: &str, bytes: Vec<u8>) -> Result<(), CardError> {
        let fault = |reason| CardError::Name { name: name.to_owned(), reason };
        let parts: Vec<&str> = name.split('/').collect();
        if parts.len() > DEEPEST + 1 {
            return Err(fault(NameFault::TooDeep(parts.len())));
        }
        for part in &parts {
            check_name(part).map_err(fault)?;
        }
        let key = name.to_ascii_lowercase();
        match self.taken.get(&key) {
            Some(Taken::File(other)) => {
                return Err(CardError::Twice { name: name.to_owned(), other: other.clone() });
            }
            Some(Taken::Directory(inside)) => {
                return Err(CardError::FileAndDirectory { name: name.to_owned(), inside: inside.clone() });
            }
            None => {}
        }
        let directories: Vec<&str> = key.match_indices('/').map(|(at, _)| &key[..at]).collect();
        for directory in &directories {
            if let Some(Taken::File(file)) = self.taken.get(*directory) {
                return Err(CardError::FileAndDirectory { name: file.clone(), inside: name.to_owned() });
            }
        }
        for directory in directories {
            self.taken.entry(directory.to_owned()).or_insert_with(|| Taken::Directory(name.to_owned()));
        }
        self.taken.insert(key.clone(), Taken::File(name.to_owned()));
        self.files.push((name.to_owned(), bytes));
        Ok(())
    }

    /// Names and contents, in the order in which they were added.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// Makes the image. The same files in the same order give the same bytes.
    ///
    /// # Errors
    /// [`CardError::TooLarge`]. Names were checked when they were added.
    pub fn image(&self) -> Result<Image, CardError> {
        let bytes = self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let length = self.length().ok_or(CardError::TooLarge { bytes })?;
        let mut image = vec![0; length as usize];
        write_table(&mut image)?;
        self.write_volume(&mut image[FIRST_SECTOR as usize * SECTOR as usize..])?;
        Ok(Image::new(image))
    }

    /// Bytes of the image: the least power of two that holds all clusters and the tables that count them. `None` beyond [`LARGEST`].
    fn length(&self) -> Option<u64> {
        let needed = self.clusters();
        let mut length = SMALLEST;
        while length <= LARGEST {
            let sectors = length / SECTOR - u64::from(FIRST_SECTOR);
            // Reserved sectors (the library has 8), and two tables of 4 bytes for each cluster, of which there are fewer than sectors.
            let tables = 8 + 2 * ((sectors + 2) * 4).div_ceil(SECTOR);
            if needed + tables <= sectors {
                return Some(length);
            }
            length *= 2;
        }
        None
    }

    /// Clusters of all files and directories. A cluster is a sector.
    fn clusters(&self) -> u64 {
        let mut entries: BTreeMap<&str, u64> = BTreeMap::new();
        for path in self.taken.keys() {
            let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
            // Five more: two for the label, or for the directory itself and the one above, two that repairs leave free, the end.
            *entries.entry(directory).or_insert(5) += 1 + (name.len() as u64).div_ceil(LONG_NAME_PART);
        }
        let directories: u64 = entries.values().map(|entries| (entries * ENTRY).div_ceil(SECTOR)).sum();
        let files: u64 = self.files.iter().map(|(_, bytes)| (bytes.len() as u64).div_ceil(SECTOR)).sum();
        directories + files + 1
    }

    fn write_volume(&self, volume: &mut [u8]) -> Result<(), CardError> {
        let options = FormatVolumeOptions::new()
            .fat_type(FatType::Fat32)
            .bytes_per_cluster(SECTOR as u32)
            .heads(HEADS.into())
            .sectors_per_track(SECTORS_OF_TRACK.into())
            .volume_id(VOLUME_ID)
            .volume_label(LABEL);
        fatfs::format_volume(Cursor::new(&mut *volume), options)?;
        // How many sectors lie before the volume: the library writes 0. In the boot sector, and in its copy in sector 6.
        for boot_sector in [0, 6 * SECTOR as usize] {
            volume[boot_sector + 0x1c..][..4].copy_from_slice(&FIRST_SECTOR.to_le_bytes());
        }
        // Directories first, so that nothing else is on the volume while they are repaired.
        let made = mount(volume)?;
        for (directory, _) in self.taken.iter().filter(|(_, taken)| matches!(taken, Taken::Directory(_))) {
            made.root_dir().create_dir(&self.as_written(directory))?;
        }
        made.unmount()?;
        repair_directories(volume);
        let made = mount(volume)?;
        // Counts the free clusters, so that their number is on the volume.
        made.stats()?;
        for (name, bytes) in &self.files {
            let mut file = made.root_dir().create_file(name)?;
            file.write_all(bytes)?;
            file.flush()?;
        }
        Ok(made.unmount()?)
    }

    /// A directory, in upper and lower case as in the first file inside it.
    fn as_written(&self, directory: &str) -> String {
        match self.taken.get(directory) {
            Some(Taken::Directory(inside)) => inside[..directory.len()].to_owned(),
            _ => directory.to_owned(),
        }
    }
}

fn mount(volume: &mut [u8]) -> std::io::Result<fatfs::FileSystem<Cursor<&mut [u8]>>> {
    fatfs::FileSystem::new(Cursor::new(volume), FsOptions::new().time_provider(&AlwaysTheSame))
}

/// Makes `.` and `..` the first two entries of each directory, as FAT has them.
///
/// The library (0.3.6) writes a long name before each, as if they were files, and says that a directory in the root is in
/// cluster 2, where FAT says 0. Nothing but empty directories may be on the volume: every other sector that looks like
/// one would be changed, too.
fn repair_directories(volume: &mut [u8]) {
    const LENGTH: usize = ENTRY as usize;
    const FREE: u8 = 0xe5;
    const FIRST_CLUSTER: [usize; 4] = [20, 21, 26, 27];
    for sector in volume.chunks_exact_mut(SECTOR as usize) {
        let is_named = |index: usize, name: &[u8; 11]| sector[index * LENGTH..].starts_with(name);
        if !is_named(1, b".          ") || !is_named(3, b"..         ") {
            continue;
        }
        sector.copy_within(LENGTH..2 * LENGTH, 0);
        sector.copy_within(3 * LENGTH..4 * LENGTH, LENGTH);
        // Free, and not the end: others follow in a directory of directories.
        sector[2 * LENGTH..4 * LENGTH].fill(0);
        sector[2 * LENGTH] = FREE;
        sector[3 * LENGTH] = FREE;
        let above = &mut sector[LENGTH..2 * LENGTH];
        if FIRST_CLUSTER.map(|at| above[at]) == [0, 0, 2, 0] {
            FIRST_CLUSTER.into_iter().for_each(|at| above[at] = 0);
        }
    }
}

/// Writes the partition table of an image: one partition from [`FIRST_SECTOR`] to the end.
fn write_table(image: &mut [u8]) -> Result<(), CardError> {
    let mut disk = Cursor::new(image);
    let mut table = mbrman::MBR::new_from(&mut disk, SECTOR as u32, SIGNATURE)?;
    let address = |sector| mbrman::CHS::from_lba_exact(sector, 1023, HEADS, SECTORS_OF_TRACK);
    table[1] = mbrman::MBRPartitionEntry {
        // U-Boot looks for its script on active partitions first.
        boot: mbrman::BOOT_ACTIVE,
        first_chs: address(FIRST_SECTOR)?,
        sys: FAT32_BY_SECTOR,
        last_chs: address(table.disk_size - 1)?,
        starting_lba: FIRST_SECTOR,
        sectors: table.disk_size - FIRST_SECTOR,
    };
    Ok(table.write_into(&mut disk)?)
}

/// Whether every reader finds a file or directory by `name`, and it alone.
fn check_name(name: &str) -> Result<(), NameFault> {
    let (Some(first), Some(last)) = (name.chars().next(), name.chars().next_back()) else {
        return Err(NameFault::Empty);
    };
    let is_allowed = |c: &char| c.is_ascii_alphanumeric() || " !#$%&'()+,-.;=@[]^_`{}".contains(*c);
    if let Some(other) = name.chars().find(|c| !is_allowed(c)) {
        return Err(NameFault::Character(other));
    }
    if let Some(end) = [first, last].into_iter().find(|c| [' ', '.'].contains(c)) {
        return Err(NameFault::AtAnEnd(end));
    }
    if name.len() > LONGEST_NAME { Err(NameFault::TooLong(name.len())) } else { Ok(()) }
}

/// The time of all files: FAT's first instant.
#[derive(Debug)]
struct AlwaysTheSame;

impl TimeProvider for AlwaysTheSame {
    fn get_current_date(&self) -> Date {
        Date { year: 1980, month: 1, day: 1 }
    }

    fn get_current_date_time(&self) -> DateTime {
        DateTime { date: self.get_current_date(), time: Time { hour: 0, min: 0, sec: 0, millis: 0 } }
    }
}

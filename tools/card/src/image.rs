//! An image is saved, and read back.
//!
//! Reading is for tests, and for questions about a card: an image is made once, and never changed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fatfs::{FatType, FileSystem, FsOptions};

use crate::card::{DEEPEST, LARGEST, SECTOR};

/// Bytes that are looked at, and skipped if all are zero. A file keeps no room for skipped bytes.
const CHUNK: usize = 64 << 10;

/// Why an image cannot be saved or read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The host's file system refused.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the host.
        error: io::Error,
    },
    /// An image is saved as a file, and to nothing else that has a path.
    #[error("{} is no file; a device is written with `--device`, which looks at it and asks first", path.display())]
    NotAFile {
        /// The path that is no file.
        path: PathBuf,
    },
    /// There is no partition table, or none with a FAT32 partition.
    #[error("no card: {0}")]
    NotACard(&'static str),
    /// The partition is longer than images are, or than the file is.
    #[error(
        "the first partition ends at byte {end}; there are {available} bytes, and a card of ours has {LARGEST} at most"
    )]
    PartitionBeyond {
        /// Where the partition ends.
        end: u64,
        /// Bytes of the file or device.
        available: u64,
    },
    /// The volume is damaged, or not ours.
    #[error("the FAT volume cannot be read: {0}")]
    Volume(#[from] io::Error),
    /// There is no such file.
    #[error("there is no file `{name}` on the card; there are: {}", there.join(", "))]
    NoSuchFile {
        /// The name.
        name: String,
        /// All files.
        there: Vec<String>,
    },
}

/// A file of an image.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The path, with `/` between directories.
    pub name: String,
    /// Bytes of the file.
    pub bytes: u64,
}

/// The bytes of a card, from its partition table to the end of its only partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Image {
    bytes: Vec<u8>,
}

impl Image {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Saves the image as a file, which is replaced if it is there. Zero bytes take no room on the host's disk.
    ///
    /// # Errors
    /// If `path` is a device or a directory, or if the host refuses.
    pub fn save(&self, path: &Path) -> Result<(), ImageError> {
        let refused = |error| ImageError::File { path: path.to_owned(), error };
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(ImageError::NotAFile { path: path.to_owned() });
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path).map_err(refused)?;
        file.set_len(self.bytes.len() as u64).map_err(refused)?;
        for (index, chunk) in self.bytes.chunks(CHUNK).enumerate() {
            if chunk != &[0; CHUNK][..chunk.len()] {
                file.write_all_at(chunk, (index * CHUNK) as u64).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Reads an image that was saved, or that a device has.
    ///
    /// # Errors
    /// As [`Image::read`]; or if the host refuses.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let mut file = File::open(path).map_err(|error| ImageError::File { path: path.to_owned(), error })?;
        Self::read(&mut file)
    }

    /// Reads a card up to the end of its first partition.
    ///
    /// # Errors
    /// If there is no partition table, if its first partition is not FAT32, or if that does not end within the card.
    pub fn read(disk: &mut (impl Read + Seek)) -> Result<Self, ImageError> {
        let available = disk.seek(SeekFrom::End(0))?;
        // The header alone: the whole table would include logical partitions, which our cards do not have.
        let mut first = vec![0; SECTOR as usize];
        disk.seek(SeekFrom::Start(0))?;
        disk.read_exact(&mut first).map_err(|_| ImageError::NotACard("it is shorter than a partition table"))?;
        let table = mbrman::MBRHeader::read_from(&mut Cursor::new(first))
            .map_err(|_| ImageError::NotACard("there is no partition table in its first sector"))?;
        let partition = &table[1];
        if ![0x0b, 0x0c].contains(&partition.sys) {
            return Err(ImageError::NotACard("its first partition is not FAT32"));
        }
        let end = (u64::from(partition.starting_lba) + u64::from(partition.sectors)) * SECTOR;
        if end > available.min(LARGEST) {
            return Err(ImageError::PartitionBeyond { end, available });
        }
        let mut bytes = vec![0; end as usize];
        disk.seek(SeekFrom::Start(0))?;
        disk.read_exact(&mut bytes)?;
        Ok(Self { bytes })
    }

    /// All files, with their directories, in the order of the directories.
    ///
    /// # Errors
    /// If the volume is damaged.
    pub fn files(&self) -> Result<Vec<Entry>, ImageError> {
        let volume = self.volume()?;
        let mut files = Vec::new();
        list(&volume.root_dir(), "", DEEPEST, &mut files)?;
        Ok(files)
    }

    /// The bytes of one file. Names are compared as FAT does: upper and lower case are equal.
    ///
    /// # Errors
    /// [`ImageError::NoSuchFile`] lists those that are there.
    pub fn extract(&self, name: &str) -> Result<Vec<u8>, ImageError> {
        let entries = self.files()?;
        let Some(entry) = entries.iter().find(|entry| entry.name.eq_ignore_ascii_case(name)) else {
            let there = entries.into_iter().map(|entry| entry.name).collect();
            return Err(ImageError::NoSuchFile { name: name.to_owned(), there });
        };
        let volume = self.volume()?;
        let mut bytes = Vec::new();
        volume.root_dir().open_file(&entry.name)?.read_to_end(&mut bytes)?;
        if bytes.len() as u64 != entry.bytes {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("`{name}` ends too soon")).into());
        }
        Ok(bytes)
    }

    fn volume(&self) -> Result<FileSystem<ReadOnly<'_>>, ImageError> {
        let table = mbrman::MBRHeader::read_from(&mut Cursor::new(&self.bytes))
            .map_err(|_| ImageError::NotACard("there is no partition table in its first sector"))?;
        let start = usize::try_from(u64::from(table[1].starting_lba) * SECTOR).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(start..).ok_or(ImageError::NotACard("its first partition is beyond its end"))?;
        // More than it takes to read all directories, or one of them and a file.
        let disk = ReadOnly { bytes: Cursor::new(bytes), left: bytes.len() as u64 };
        let volume = FileSystem::new(disk, FsOptions::new())?;
        // By its clusters, with any partition table.
        if volume.fat_type() != FatType::Fat32 {
            return Err(ImageError::NotACard("its volume has too few clusters for FAT32"));
        }
        Ok(volume)
    }
}

/// Adds the files of `directory` and of those inside it, `deeper` levels down.
fn list(
    directory: &fatfs::Dir<'_, ReadOnly<'_>>,
    path: &str,
    deeper: usize,
    files: &mut Vec<Entry>,
) -> Result<(), ImageError> {
    for entry in directory.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if [".", ".."].contains(&name.as_str()) {
            continue;
        }
        let name = if path.is_empty() { name } else { format!("{path}/{name}") };
        if entry.is_dir() {
            let deeper = deeper.checked_sub(1).ok_or_else(endless)?;
            list(&entry.to_dir(), &name, deeper, files)?;
        } else {
            files.push(Entry { name, bytes: entry.len() });
        }
    }
    Ok(())
}

/// A damaged chain of clusters leads back into itself.
fn endless() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a file or directory on it has no end")
}

/// A disk for the FAT library, which wants to write to the disk it reads, and follows a chain of clusters for ever.
struct ReadOnly<'a> {
    bytes: Cursor<&'a [u8]>,
    /// Bytes that may still be read.
    left: u64,
}

impl Read for ReadOnly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(endless)?;
        Ok(read)
    }
}

impl Seek for ReadOnly<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.bytes.seek(to)
    }
}

impl Write for ReadOnly<'_> {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "an image is never changed"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

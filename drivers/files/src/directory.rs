//! Entries of directories.

use core::ops::ControlFlow;

use fusee::files::Refusal;

use crate::disk::{SECTOR, Sectors, Table};
use crate::names::{NAME, short};
use crate::shape::{ENTRY, READ, Root, word};
use crate::volume::Volume;

/// The first byte of an entry that is free, with others behind it or without.
const REMOVED: u8 = 0xe5;
const LAST: u8 = 0;
/// Attributes: a file that can only be read, the name of the volume, a directory, a file that no backup has, and a part of a long name.
const READ_ONLY: u8 = 1;
const VOLUME: u8 = 8;
const DIRECTORY: u8 = 0x10;
const ARCHIVE: u8 = 0x20;
const LONG: u8 = 0x0f;
/// Places in an entry.
const ATTRIBUTES: usize = 11;
const HIGH: usize = 20;
const LOW: usize = 26;
const LENGTH: usize = 28;
/// The first date of FAT, 1980-01-01: the server has no clock.
const DATE: [u8; 2] = [0x21, 0];
/// Entries of a directory, at most (6.1 of the specification).
const ENTRIES: u64 = 65_536;

/// A directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Directory {
    /// That of the volume.
    Root,
    /// One that begins with this cluster.
    Chain(u32),
}

/// The place of an entry.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Place {
    sector: u64,
    offset: usize,
    /// Which one of its directory it is.
    pub index: u64,
}

/// An entry that names something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry {
    place: Place,
    /// The name, in the form of FAT.
    pub name: [u8; NAME],
    attributes: u8,
    /// The first cluster; zero if there is none.
    pub cluster: u32,
    /// Bytes of the file.
    pub length: u32,
    /// Whether entries with a long name stand before it.
    pub has_long_name: bool,
}

impl Entry {
    fn of(bytes: &[u8], place: Place, has_long_name: bool) -> Entry {
        let half = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        Entry {
            place,
            name: core::array::from_fn(|byte| bytes[byte]),
            attributes: bytes[ATTRIBUTES],
            cluster: half(HIGH) << 16 | half(LOW),
            length: word(bytes, LENGTH),
            has_long_name,
        }
    }

    /// Whether it is that of a file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.attributes & (VOLUME | DIRECTORY) == 0
    }

    /// Whether it is that of a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.attributes & (VOLUME | DIRECTORY) == DIRECTORY
    }

    /// Whether the file is marked as one to be read only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.attributes & READ_ONLY != 0
    }

    /// Whether both are one entry of the volume.
    #[must_use]
    pub fn is(&self, other: &Entry) -> bool {
        (self.place.sector, self.place.offset) == (other.place.sector, other.place.offset)
    }
}

impl<D: Sectors, T: Table> Volume<D, T> {
    /// Shows the entries of a directory from this index on that name something, until `visit` breaks.
    pub(crate) fn scan(
        &mut self,
        directory: Directory,
        from: u64,
        mut visit: impl FnMut(&Entry, &Place) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        let mut has_long_name = false;
        self.scan_all(directory, from, |bytes, place| {
            match bytes[0] {
                LAST => return ControlFlow::Break(()),
                REMOVED => has_long_name = false,
                _ if bytes[ATTRIBUTES] & 0x3f == LONG => has_long_name = true,
                _ => return visit(&Entry::of(bytes, *place, core::mem::take(&mut has_long_name)), place),
            }
            ControlFlow::Continue(())
        })
    }

    /// Shows all entries of a directory from this index on, until `visit` breaks.
    fn scan_all(
        &mut self,
        directory: Directory,
        from: u64,
        mut visit: impl FnMut(&[u8], &Place) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        const EACH: u64 = (SECTOR / ENTRY) as u64;
        let shape = self.shape()?;
        let mut bytes = [0; READ * SECTOR];
        let (mut first, mut sectors, mut cluster) = match (directory, shape.root) {
            (Directory::Root, Root::Fixed { first, sectors }) => (first, sectors, None),
            (Directory::Root, Root::Chain(cluster)) | (Directory::Chain(cluster), _) => {
                let cluster = self.inside_volume(cluster)?;
                (shape.sector_of(cluster), shape.cluster, Some(cluster))
            }
        };
        // Entries before this part of the directory.
        let mut before = 0;
        loop {
            let skipped = (from.saturating_sub(before) / EACH).min(sectors.into()) as u32;
            for part in (skipped..sectors).step_by(READ) {
                let read = &mut bytes[..(sectors - part).min(READ as u32) as usize * SECTOR];
                self.disk.read(first + u64::from(part), read)?;
                for (index, entry) in (0..).zip(read.chunks_exact(ENTRY)) {
                    let place = Place {
                        sector: first + u64::from(part) + index / EACH,
                        offset: (index % EACH) as usize * ENTRY,
                        index: before + u64::from(part) * EACH + index,
                    };
                    if place.index >= from && visit(entry, &place).is_break() {
                        return Ok(());
                    }
                }
            }
            before += u64::from(sectors) * EACH;
            let Some(next) = cluster.map(|cluster| self.behind(cluster)).transpose()?.flatten() else { return Ok(()) };
            if before >= ENTRIES {
                return Err(Refusal::Damaged);
            }
            (first, sectors, cluster) = (shape.sector_of(next), shape.cluster, Some(next));
        }
    }

    /// The directory of a path, and the last name in it.
    fn parent<'path>(&mut self, path: &'path [u8]) -> Result<(Directory, &'path [u8]), Refusal> {
        let mut directory = Directory::Root;
        let mut rest = path;
        while let Some(at) = rest.iter().position(|byte| *byte == b'/') {
            directory = self.inside(directory, &rest[..at])?;
            rest = &rest[at + 1..];
        }
        Ok((directory, rest))
    }

    fn inside(&mut self, directory: Directory, name: &[u8]) -> Result<Directory, Refusal> {
        let entry = self.named(directory, name)?.filter(Entry::is_directory);
        entry.map(|entry| Directory::Chain(entry.cluster)).ok_or(Refusal::NotFound)
    }

    /// The directory of this path.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], [`Refusal::BadName`], [`Refusal::Device`].
    pub fn directory(&mut self, path: &[u8]) -> Result<Directory, Refusal> {
        if path.is_empty() {
            return Ok(Directory::Root);
        }
        let (directory, name) = self.parent(path)?;
        self.inside(directory, name)
    }

    /// The entry of this name.
    fn named(&mut self, directory: Directory, name: &[u8]) -> Result<Option<Entry>, Refusal> {
        let name = short(name).ok_or(Refusal::BadName)?;
        let mut found = None;
        self.scan(directory, 0, |entry, _| {
            if entry.name != name || entry.attributes & VOLUME != 0 {
                return ControlFlow::Continue(());
            }
            found = Some(*entry);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// The file of this path, which is made if `makes` and it is not there.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], [`Refusal::BadName`], [`Refusal::IsDirectory`], [`Refusal::DirectoryFull`], [`Refusal::ReadOnly`], [`Refusal::Device`].
    pub fn file(&mut self, path: &[u8], makes: bool) -> Result<Entry, Refusal> {
        let (directory, name) = self.parent(path)?;
        match self.named(directory, name)? {
            Some(entry) if entry.is_directory() => Err(Refusal::IsDirectory),
            Some(entry) => Ok(entry),
            None if !makes => Err(Refusal::NotFound),
            None if self.disk.is_read_only() => Err(Refusal::ReadOnly),
            None => self.make(directory, short(name).ok_or(Refusal::BadName)?),
        }
    }

    /// The first entry of a directory from this index on, and the index behind it.
    ///
    /// # Errors
    /// [`Refusal::End`], [`Refusal::Device`].
    pub fn entry(&mut self, directory: Directory, from: u64) -> Result<(Entry, u64), Refusal> {
        let mut found = None;
        self.scan(directory, from, |entry, place| {
            if !(entry.is_file() || entry.is_directory()) || entry.name[0] == b'.' {
                return ControlFlow::Continue(());
            }
            found = Some((*entry, place.index + 1));
            ControlFlow::Break(())
        })?;
        found.ok_or(Refusal::End)
    }

    fn make(&mut self, directory: Directory, name: [u8; NAME]) -> Result<Entry, Refusal> {
        let mut free = None;
        let find = |bytes: &[u8], place: &Place| {
            if !matches!(bytes[0], LAST | REMOVED) {
                return ControlFlow::Continue(());
            }
            free = Some(*place);
            ControlFlow::Break(())
        };
        self.scan_all(directory, 0, find)?;
        let place = match free {
            Some(place) => place,
            None => self.lengthen(directory)?,
        };
        let entry = Entry { place, name, attributes: ARCHIVE, cluster: 0, length: 0, has_long_name: false };
        self.edit(&entry, |bytes| {
            bytes.fill(0);
            bytes[..NAME].copy_from_slice(&name);
            bytes[ATTRIBUTES] = ARCHIVE;
            // When it was made, read and written.
            for date in [16, 18, 24] {
                bytes[date..date + 2].copy_from_slice(&DATE);
            }
        })?;
        Ok(entry)
    }

    /// Adds a cluster to a directory: the place of its first entry.
    fn lengthen(&mut self, directory: Directory) -> Result<Place, Refusal> {
        let shape = self.shape()?;
        let first = match (directory, shape.root) {
            (Directory::Root, Root::Fixed { .. }) => return Err(Refusal::DirectoryFull),
            (Directory::Root, Root::Chain(cluster)) | (Directory::Chain(cluster), _) => cluster,
        };
        let (mut last, mut clusters) = (first, 1);
        while let Some(next) = self.behind(last)? {
            last = next;
            clusters += 1;
        }
        let each = u64::from(shape.cluster_bytes()) / ENTRY as u64;
        if (clusters + 1) * each > ENTRIES {
            return Err(Refusal::DirectoryFull);
        }
        if self.free == 0 {
            return Err(Refusal::DiskFull);
        }
        let added = self.grow(Some(last), 1)?;
        let sector = shape.sector_of(added);
        for zero in 0..shape.cluster {
            self.write_sectors(sector + u64::from(zero), &[0; SECTOR])?;
        }
        // The directory has the cluster only when that has no entries, and an end of its own.
        self.flush()?;
        self.store_links(added / shape.links())?;
        if last / shape.links() != added / shape.links() {
            self.flush()?;
            self.store_links(last / shape.links())?;
        }
        Ok(Place { sector, offset: 0, index: clusters * each })
    }

    /// Writes the first cluster and the length of a file.
    pub(crate) fn store(&mut self, entry: &Entry) -> Result<(), Refusal> {
        self.edit(entry, |bytes| {
            bytes[HIGH..HIGH + 2].copy_from_slice(&((entry.cluster >> 16) as u16).to_le_bytes());
            bytes[LOW..LOW + 2].copy_from_slice(&(entry.cluster as u16).to_le_bytes());
            bytes[LENGTH..].copy_from_slice(&entry.length.to_le_bytes());
        })
    }

    /// Takes an entry out of its directory.
    pub(crate) fn take_out(&mut self, entry: &Entry) -> Result<(), Refusal> {
        self.edit(entry, |bytes| bytes[0] = REMOVED)
    }

    fn edit(&mut self, entry: &Entry, edit: impl FnOnce(&mut [u8])) -> Result<(), Refusal> {
        let mut bytes = [0; SECTOR];
        let result = self.disk.read(entry.place.sector, &mut bytes);
        self.changed(result)?;
        edit(&mut bytes[entry.place.offset..entry.place.offset + ENTRY]);
        self.write_sectors(entry.place.sector, &bytes)
    }
}

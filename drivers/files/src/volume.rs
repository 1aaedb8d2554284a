//! The volume: the table of clusters, and the bytes of files.
//!
//! # Invariants
//!
//! 1. The table in memory is that of the disk, or [`Volume::is_suspect`]: then the volume has to be mounted again.
//! 2. No request makes more than a bounded number of requests to the disk, but for directories and removed files with their lengths.

use fusee::files::{PIECE, Refusal};

use crate::directory::Entry;
use crate::disk::{Fault, SECTOR, Sectors, Table};
use crate::mount::Unsound;
use crate::shape::{FIRST, Shape};

/// The link of a cluster that is free, of one that is broken, and of the last one of a chain, from the third number on.
pub const FREE: u32 = 0;
pub const BROKEN: u32 = 0x0fff_fff7;
const ENDS: u32 = 0x0fff_fff8;
pub const END: u32 = 0x0fff_ffff;
/// The bit of a link in memory for a cluster that an entry names, while the volume is walked through.
pub const NAMED: u32 = 1 << 31;

/// Sectors of the table that change when a part of a file is removed, at most.
const PART: u32 = 8;

/// A cluster of a file, and which one it is: a walk along the chain begins there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    index: u32,
    cluster: u32,
}

/// A FAT volume on a disk.
#[derive(Debug)]
pub struct Volume<D, T> {
    pub(crate) disk: D,
    pub(crate) table: T,
    partition: u8,
    shape: Option<Shape>,
    /// Clusters that are free.
    pub(crate) free: u32,
    /// The place at which the search for a free one begins.
    pub(crate) next: u32,
    is_suspect: bool,
}

impl From<Fault> for Refusal {
    fn from(_: Fault) -> Refusal {
        Refusal::Device
    }
}

impl<D: Sectors, T: Table> Volume<D, T> {
    /// The volume in a partition of the disk, from 1 to 4, or on the whole disk if it is zero. It is not mounted.
    pub fn new(disk: D, table: T, partition: u8) -> Volume<D, T> {
        Volume { disk, table, partition, shape: None, free: 0, next: FIRST, is_suspect: false }
    }

    /// The disk.
    pub fn disk(&mut self) -> &mut D {
        &mut self.disk
    }

    /// Reads the volume, and makes it sound if a loss of power has left it with clusters that nothing names.
    ///
    /// # Errors
    /// [`Unsound`] has the reason. Nothing was written, unless the disk has failed.
    pub fn mount(&mut self) -> Result<(), Unsound> {
        self.shape = None;
        let shape = Shape::read(&mut self.disk, self.partition)?;
        if shape.end > self.table.words() {
            return Err(Unsound::NoRoom { clusters: shape.end, words: self.table.words() });
        }
        self.shape = Some(shape);
        let result = self.make_sound();
        if result.is_err() {
            self.shape = None;
        }
        self.is_suspect = false;
        result
    }

    /// Whether it is mounted, and the disk has not failed in the middle of a change.
    pub fn is_sound(&self) -> bool {
        self.shape.is_some() && !self.is_suspect
    }

    /// Clusters that are free, clusters in all, and bytes of one.
    ///
    /// # Errors
    /// [`Refusal::NoVolume`] if it is not mounted.
    pub fn space(&self) -> Result<(u32, u32, u32), Refusal> {
        let shape = self.shape()?;
        Ok((self.free, shape.end - FIRST, shape.cluster_bytes()))
    }

    pub(crate) fn shape(&self) -> Result<Shape, Refusal> {
        self.shape.ok_or(Refusal::NoVolume)
    }

    /// The result of a change on the disk. If that fails, memory and disk may differ.
    pub(crate) fn changed<R>(&mut self, result: Result<R, Fault>) -> Result<R, Refusal> {
        self.is_suspect |= result.is_err();
        Ok(result?)
    }

    pub(crate) fn write_sectors(&mut self, first: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let result = self.disk.write(first, bytes);
        self.changed(result)
    }

    /// Waits until all that was written before would outlive a loss of power.
    ///
    /// # Errors
    /// [`Refusal::Device`].
    pub fn flush(&mut self) -> Result<(), Refusal> {
        let result = self.disk.flush();
        self.changed(result)
    }

    fn writable(&self) -> Result<(), Refusal> {
        if self.disk.is_read_only() { Err(Refusal::ReadOnly) } else { Ok(()) }
    }

    //--- Chains

    /// The cluster behind this one, if it is not the last one.
    ///
    /// # Errors
    /// [`Refusal::Damaged`] if the link is that of no cluster in a chain.
    pub(crate) fn behind(&self, cluster: u32) -> Result<Option<u32>, Refusal> {
        let end = self.shape()?.end;
        match self.table.get(cluster) & !NAMED {
            ENDS.. => Ok(None),
            next if (FIRST..end).contains(&next) => Ok(Some(next)),
            _ => Err(Refusal::Damaged),
        }
    }

    /// The cluster, if there is such a one. Entries on the disk may say anything.
    pub(crate) fn inside_volume(&self, cluster: u32) -> Result<u32, Refusal> {
        if (FIRST..self.shape()?.end).contains(&cluster) { Ok(cluster) } else { Err(Refusal::Damaged) }
    }

    /// The cluster of a chain at this index.
    fn at(&self, first: u32, cursor: &mut Cursor, index: u32) -> Result<u32, Refusal> {
        let mut place =
            if cursor.cluster == 0 || cursor.index > index { Cursor { index: 0, cluster: first } } else { *cursor };
        self.inside_volume(place.cluster)?;
        while place.index < index {
            place.cluster = self.behind(place.cluster)?.ok_or(Refusal::Damaged)?;
            place.index += 1;
        }
        *cursor = place;
        Ok(place.cluster)
    }

    /// Adds so many clusters to a chain, in memory: the first one of them. The chain's last cluster is `last`, if there is one. The caller has looked that
    /// so many are free.
    pub(crate) fn grow(&mut self, last: Option<u32>, clusters: u32) -> Result<u32, Refusal> {
        let end = self.shape()?.end;
        let (mut last, mut first) = (last, None);
        let mut place = last.map_or(self.next, |last| last + 1);
        for _ in 0..clusters {
            let found =
                (place.max(FIRST)..end).chain(FIRST..place.min(end)).find(|cluster| self.table.get(*cluster) == FREE);
            let found = found.ok_or(Refusal::Damaged)?;
            self.table.set(found, END);
            if let Some(last) = last {
                self.table.set(last, found);
            }
            first = first.or(Some(found));
            last = Some(found);
            place = found + 1;
        }
        self.free -= clusters;
        self.next = place;
        first.ok_or(Refusal::Damaged)
    }

    /// Writes a sector of all tables, from memory.
    pub(crate) fn store_links(&mut self, index: u32) -> Result<(), Refusal> {
        let shape = self.shape()?;
        let bytes = self.links(&shape, index);
        for table in 0..shape.tables {
            let sector = shape.table + u64::from(table * shape.table_sectors + index);
            self.write_sectors(sector, &bytes)?;
        }
        Ok(())
    }

    /// The contents of a sector of the table.
    pub(crate) fn links(&self, shape: &Shape, index: u32) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        let clusters = index * shape.links()..shape.end;
        // The width is a constant in each loop.
        if shape.is_fat32 {
            for (cluster, place) in clusters.zip(bytes.as_chunks_mut::<4>().0) {
                *place = self.table.get(cluster).to_le_bytes();
            }
        } else {
            for (cluster, place) in clusters.zip(bytes.as_chunks_mut::<2>().0) {
                *place = (self.table.get(cluster) as u16).to_le_bytes();
            }
        }
        bytes
    }

    /// Writes the sectors of the table with the links of a chain, from this cluster to its end. A sector may be written more than once.
    fn store_chain(&mut self, first: u32) -> Result<(), Refusal> {
        let links = self.shape()?.links();
        let mut stored = None;
        let mut next = Some(first);
        while let Some(cluster) = next {
            if stored != Some(cluster / links) {
                stored = Some(cluster / links);
                self.store_links(cluster / links)?;
            }
            next = self.behind(cluster)?;
        }
        Ok(())
    }

    //--- Bytes

    /// The sectors of a file from the one with the byte `offset` on, as many as follow each other on the disk, up to the one before the byte `end`.
    fn run(&self, first: u32, cursor: &mut Cursor, offset: u32, end: u32) -> Result<(u64, u32), Refusal> {
        let shape = self.shape()?;
        let bytes = shape.cluster_bytes();
        let mut cluster = self.at(first, cursor, offset / bytes)?;
        let begin = offset % bytes / SECTOR as u32;
        let wanted = (end - offset / SECTOR as u32 * SECTOR as u32).div_ceil(SECTOR as u32);
        let sector = shape.sector_of(cluster) + u64::from(begin);
        let mut sectors = shape.cluster - begin;
        while sectors < wanted && self.table.get(cluster) == cluster + 1 {
            cluster += 1;
            sectors += shape.cluster;
        }
        Ok((sector, sectors.min(wanted)))
    }

    /// Copies bytes of a file from `offset` on: how many.
    ///
    /// # Errors
    /// [`Refusal::Device`], or [`Refusal::Damaged`] if the table has changed by itself.
    pub fn read(
        &mut self,
        entry: &Entry,
        cursor: &mut Cursor,
        offset: u32,
        bytes: &mut [u8],
    ) -> Result<usize, Refusal> {
        let left = entry.length.saturating_sub(offset) as usize;
        let room = bytes.len().min(left);
        let bytes = &mut bytes[..room];
        let mut read = 0;
        while read < room {
            let place = offset + read as u32;
            let (sector, sectors) = self.run(entry.cluster, cursor, place, offset + room as u32)?;
            let within = place as usize % SECTOR;
            let whole = (room - read) / SECTOR;
            if within == 0 && whole > 0 {
                let copied = whole.min(sectors as usize) * SECTOR;
                self.disk.read(sector, &mut bytes[read..read + copied])?;
                read += copied;
            } else {
                let mut one = [0; SECTOR];
                self.disk.read(sector, &mut one)?;
                let copied = (SECTOR - within).min(room - read);
                bytes[read..read + copied].copy_from_slice(&one[within..within + copied]);
                read += copied;
            }
        }
        Ok(read)
    }

    /// Writes bytes of a file from `offset` on. The entry is that of the file afterwards.
    ///
    /// # Errors
    /// [`Refusal::BeyondEnd`], [`Refusal::TooLarge`], [`Refusal::DiskFull`] and [`Refusal::ReadOnly`]: nothing has changed. [`Refusal::Device`]: some of it may
    /// have.
    pub fn write(&mut self, entry: &mut Entry, cursor: &mut Cursor, offset: u64, bytes: &[u8]) -> Result<(), Refusal> {
        self.writable()?;
        let shape = self.shape()?;
        if offset > u64::from(entry.length) {
            return Err(Refusal::BeyondEnd);
        }
        let end = u32::try_from(offset + bytes.len() as u64).map_err(|_| Refusal::TooLarge)?;
        let offset = offset as u32;
        if bytes.is_empty() {
            return Ok(());
        }
        let had = entry.length.div_ceil(shape.cluster_bytes());
        let more = end.div_ceil(shape.cluster_bytes()).saturating_sub(had);
        if more > self.free {
            return Err(Refusal::DiskFull);
        }
        let mut longer = *entry;
        longer.length = end.max(entry.length);
        let mut changed = None;
        if more > 0 {
            let last = if had > 0 { Some(self.at(entry.cluster, cursor, had - 1)?) } else { None };
            let first = self.grow(last, more)?;
            if last.is_none() {
                longer.cluster = first;
                *cursor = Cursor::default();
            }
            changed = Some(last.unwrap_or(first));
        }
        self.put(entry.length, &longer, cursor, offset, bytes)?;
        if longer.length > entry.length {
            if let Some(first) = changed {
                self.store_chain(first)?;
            }
            // The entry names only bytes and links that stay.
            self.flush()?;
            self.store(&longer)?;
            *entry = longer;
        }
        Ok(())
    }

    /// Writes bytes to sectors of a file, of which the first `known` bytes were its own before.
    fn put(
        &mut self,
        known: u32,
        entry: &Entry,
        cursor: &mut Cursor,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        let end = offset + bytes.len() as u32;
        let mut written = 0;
        while written < bytes.len() {
            let place = offset + written as u32;
            let (sector, sectors) = self.run(entry.cluster, cursor, place, end)?;
            let within = place as usize % SECTOR;
            let whole = (bytes.len() - written) / SECTOR;
            if within == 0 && whole > 0 {
                let copied = whole.min(sectors as usize) * SECTOR;
                self.write_sectors(sector, &bytes[written..written + copied])?;
                written += copied;
                continue;
            }
            let mut one = [0; SECTOR];
            let begin = place - within as u32;
            if begin < known {
                let result = self.disk.read(sector, &mut one);
                self.changed(result)?;
                one[(known - begin).min(SECTOR as u32) as usize..].fill(0);
            }
            let copied = (SECTOR - within).min(bytes.len() - written);
            one[within..within + copied].copy_from_slice(&bytes[written..written + copied]);
            self.write_sectors(sector, &one)?;
            written += copied;
        }
        Ok(())
    }

    /// Makes a file longer, up to `length`, with zeros: by one piece at most.
    ///
    /// # Errors
    /// Those of [`Volume::write`].
    pub fn reserve(&mut self, entry: &mut Entry, cursor: &mut Cursor, length: u64) -> Result<(), Refusal> {
        let length = u32::try_from(length).map_err(|_| Refusal::TooLarge)?;
        let more = length.saturating_sub(entry.length).min(PIECE as u32);
        self.write(entry, cursor, entry.length.into(), &[0; PIECE][..more as usize])
    }

    /// Removes a file, or a part of a long one from its end: whether some is left.
    ///
    /// # Errors
    /// [`Refusal::LongName`], [`Refusal::ReadOnly`], [`Refusal::Device`].
    pub fn remove(&mut self, entry: &Entry) -> Result<bool, Refusal> {
        self.writable()?;
        if entry.has_long_name {
            return Err(Refusal::LongName);
        }
        let shape = self.shape()?;
        let clusters = entry.length.div_ceil(shape.cluster_bytes());
        if clusters == 0 {
            self.take_out(entry)?;
            return Ok(false);
        }
        let (kept, last) = self.kept(entry.cluster, clusters)?;
        let mut first = Some(entry.cluster);
        if let Some(last) = last {
            first = self.behind(last)?;
            let mut shorter = *entry;
            shorter.length = kept * shape.cluster_bytes();
            self.store(&shorter)?;
        } else {
            self.take_out(entry)?;
        }
        // Another file may have the clusters only when nothing names them any more.
        self.flush()?;
        let mut changed = None;
        if let Some(last) = last {
            self.table.set(last, END);
            changed = Some(last / shape.links());
        }
        while let Some(cluster) = first {
            let index = cluster / shape.links();
            if let Some(earlier) = changed.replace(index).filter(|earlier| *earlier != index) {
                self.store_links(earlier)?;
            }
            first = self.behind(cluster)?;
            self.table.set(cluster, FREE);
            self.free += 1;
        }
        if let Some(index) = changed {
            self.store_links(index)?;
        }
        Ok(last.is_some())
    }

    /// The clusters of a chain that stay when its end is removed: how many, and the last one. The links of the others are in few sectors of the table.
    fn kept(&self, first: u32, clusters: u32) -> Result<(u32, Option<u32>), Refusal> {
        let first = self.inside_volume(first)?;
        let links = self.shape()?.links();
        let walk = |visit: &mut dyn FnMut(u32, u32, bool)| {
            let (mut cluster, mut earlier) = (first, None);
            for index in 0..clusters {
                let sector = cluster / links;
                visit(index, cluster, earlier.replace(sector) != Some(sector));
                if index + 1 < clusters {
                    cluster = self.behind(cluster)?.ok_or(Refusal::Damaged)?;
                }
            }
            Ok::<(), Refusal>(())
        };
        let mut all = 0;
        walk(&mut |_, _, is_other| all += u32::from(is_other))?;
        if all <= PART {
            return Ok((0, None));
        }
        let (mut seen, mut kept) = (0, (0, None));
        walk(&mut |index, cluster, is_other| {
            seen += u32::from(is_other);
            if seen <= all - PART {
                kept = (index + 1, Some(cluster));
            }
        })?;
        Ok(kept)
    }
}

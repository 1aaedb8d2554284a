//! The walk through a volume that finds out whether it is sound, and which clusters are in use.
//!
//! A loss of power between two writes of this crate leaves links of clusters that no entry names, and tables that differ. These are made good here. All else
//! is a contradiction that others have made, and is left as it is: a volume with one is not mounted.

use core::ops::ControlFlow;

use fusee::files::Refusal;

use crate::directory::{Directory, Entry, Place};
use crate::disk::{Fault, SECTOR, Sectors, Table};
use crate::shape::{FIRST, READ, Root, Shape, forget_count};
use crate::volume::{BROKEN, END, FREE, NAMED, Volume};

/// A reason for which a volume is not mounted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unsound {
    /// The disk has failed.
    Device,
    /// There is no volume of this crate's kinds.
    NoVolume(&'static str),
    /// The volume contradicts itself.
    Damaged(&'static str),
    /// The table in memory has fewer words than the volume has clusters.
    NoRoom {
        /// Words that the volume needs.
        clusters: u32,
        /// Words that there are.
        words: u32,
    },
}

impl From<Fault> for Unsound {
    fn from(_: Fault) -> Unsound {
        Unsound::Device
    }
}

impl From<Refusal> for Unsound {
    fn from(refusal: Refusal) -> Unsound {
        if refusal == Refusal::Device {
            Unsound::Device
        } else {
            Unsound::Damaged("a chain of clusters leaves the volume")
        }
    }
}

/// Directories in directories, at most.
const DEPTH: usize = 16;

impl<D: Sectors, T: Table> Volume<D, T> {
    /// Reads the table, walks through all directories, and frees the clusters that nothing names.
    pub(crate) fn make_sound(&mut self) -> Result<(), Unsound> {
        let shape = self.shape()?;
        self.load(&shape)?;
        if let Root::Chain(first) = shape.root {
            self.claim(first, None)?;
        }
        self.walk()?;
        (self.free, self.next) = (0, FIRST);
        for cluster in FIRST..shape.end {
            let link = self.table.get(cluster);
            if link & NAMED != 0 {
                self.table.set(cluster, link & !NAMED);
            } else if link != BROKEN {
                self.table.set(cluster, FREE);
                self.free += 1;
            }
        }
        if self.disk.is_read_only() {
            return Ok(());
        }
        if let Some(sector) = shape.information {
            forget_count(&mut self.disk, sector)?;
        }
        self.store_differences(&shape)
    }

    /// Reads the first table.
    fn load(&mut self, shape: &Shape) -> Result<(), Unsound> {
        let mut bytes = [0; READ * SECTOR];
        for index in (0..self.sectors_in_use(shape)).step_by(READ) {
            let sectors = (self.sectors_in_use(shape) - index).min(READ as u32);
            let read = &mut bytes[..sectors as usize * SECTOR];
            self.disk.read(shape.table + u64::from(index), read)?;
            let clusters = index * shape.links()..shape.end;
            if shape.is_fat32 {
                for (cluster, link) in clusters.zip(read.as_chunks::<4>().0) {
                    self.table.set(cluster, u32::from_le_bytes(*link) & 0x0fff_ffff);
                }
            } else {
                for (cluster, link) in clusters.zip(read.as_chunks::<2>().0) {
                    let link = u32::from(u16::from_le_bytes(*link));
                    // From here on links of both widths have the meanings of the longer one.
                    self.table.set(cluster, if link >= 0xfff7 { link | 0x0fff_0000 } else { link });
                }
            }
        }
        Ok(())
    }

    fn sectors_in_use(&self, shape: &Shape) -> u32 {
        shape.end.div_ceil(shape.links())
    }

    /// Marks the clusters of a chain as named by an entry: all, or so many, behind which the chain then ends.
    fn claim(&mut self, first: u32, clusters: Option<u32>) -> Result<(), Unsound> {
        let end = self.shape()?.end;
        let mut cluster = first;
        let mut count = 0;
        loop {
            if !(FIRST..end).contains(&cluster) {
                return Err(Unsound::Damaged("a chain of clusters leaves the volume, or is shorter than its file"));
            }
            let link = self.table.get(cluster);
            if link & NAMED != 0 {
                return Err(Unsound::Damaged("two entries name one cluster"));
            }
            count += 1;
            let is_last = clusters.map_or(link > BROKEN, |clusters| count == clusters);
            if is_last {
                if link == FREE || link == BROKEN {
                    return Err(Unsound::Damaged("an entry names a cluster that is free or broken"));
                }
                self.table.set(cluster, END | NAMED);
                return Ok(());
            }
            self.table.set(cluster, link | NAMED);
            cluster = link;
        }
    }

    /// Claims the clusters of all files and directories.
    fn walk(&mut self) -> Result<(), Unsound> {
        let shape = self.shape()?;
        let mut open = heapless::Vec::<(Directory, u64), DEPTH>::new();
        let _ = open.push((Directory::Root, 0));
        while let Some((directory, from)) = open.pop() {
            let mut found = None;
            self.scan(directory, from, |entry: &Entry, place: &Place| {
                let is_new = entry.is_file() || entry.is_directory() && entry.name[0] != b'.';
                if is_new {
                    found = Some((*entry, place.index));
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
            let Some((entry, index)) = found else { continue };
            let is_open = open.push((directory, index + 1));
            if entry.is_directory() {
                self.claim(entry.cluster, None)?;
                let pushed = open.push((Directory::Chain(entry.cluster), 0));
                if is_open.is_err() || pushed.is_err() {
                    return Err(Unsound::Damaged("directories are in directories more than 15 deep"));
                }
                continue;
            }
            match entry.length.div_ceil(shape.cluster_bytes()) {
                0 if entry.cluster == 0 => {}
                0 => return Err(Unsound::Damaged("a file without bytes has clusters")),
                clusters => self.claim(entry.cluster, Some(clusters))?,
            }
        }
        Ok(())
    }

    /// Writes the sectors of all tables that are not as in memory.
    fn store_differences(&mut self, shape: &Shape) -> Result<(), Unsound> {
        let mut bytes = [0; SECTOR * READ];
        let mut is_changed = false;
        for index in (0..self.sectors_in_use(shape)).step_by(READ) {
            let sectors = (self.sectors_in_use(shape) - index).min(READ as u32);
            let mut links = [[0; SECTOR]; READ];
            for (sector, links) in (index..index + sectors).zip(&mut links) {
                *links = self.links(shape, sector);
            }
            for table in 0..shape.tables {
                let first = shape.table + u64::from(table * shape.table_sectors + index);
                let read = &mut bytes[..sectors as usize * SECTOR];
                self.disk.read(first, read)?;
                for ((sector, old), links) in (first..).zip(read.chunks_exact(SECTOR)).zip(&links) {
                    if links != old {
                        self.disk.write(sector, links)?;
                        is_changed = true;
                    }
                }
            }
        }
        if is_changed {
            self.disk.flush()?;
        }
        Ok(())
    }
}

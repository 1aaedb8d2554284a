//! The parts of the file server that touch no device: a FAT volume on a disk, and the files that clients have open.
//!
//! | Module | Contents |
//! |---|---|
//! | `disk` | sectors, through a trait for them, and the table of clusters in memory, through another one |
//! | `shape` | the first sectors of a disk and of a volume; a new volume on an empty disk |
//! | `names` | names in the form of FAT |
//! | `volume` | the volume: its table, and the bytes of files, in an order of writes that a loss of power may cut anywhere |
//! | `mount` | the walk through a volume that finds it sound, and gives back the clusters that such a cut has left over |
//! | `directory` | entries of directories |
//! | `server` | clients, their open files, and the work for them |
//!
//! `main.rs` has the task, and the disk by its server.
//!
//! # The order of writes
//!
//! A disk may keep written sectors back, and write them in any order, until a flush has ended. So between two flushes each sector may be as before or as
//! after. Four rules make each such state one from which nothing that was acknowledged is missing:
//!
//! 1. An entry of a directory names only clusters with bytes and links that were flushed before. The entry is one write of one sector.
//! 2. An entry that gives clusters back was flushed before their links change, and so before another file can have them.
//! 3. The first copy of a link is written before the second one, and is believed.
//! 4. Clusters that no entry names are free, with any link in the table. `mount` finds them.
//!
//! A file of unchanged length has no write but those of its own sectors.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod directory;
pub mod disk;
mod mount;
mod names;
pub mod server;
mod shape;
mod volume;

pub use directory::Entry;
pub use disk::{Fault, SECTOR, Sectors, Table};
pub use mount::Unsound;
pub use server::Server;
pub use shape::format;
pub use volume::Volume;

#[cfg(test)]
mod cuts;
#[cfg(test)]
mod rig;

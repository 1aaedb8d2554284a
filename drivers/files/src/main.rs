//! The file server ([`fusee::files`]): files on a FAT volume, by a block server.
//!
//! Handles: endpoint "files" (to serve), places "loan.<client>" or "loan" (read, write, lent); endpoint "disk" (call) of the block server, region "memory"
//! (read, write, lend), which it lends to that server: its bytes but the last page are the longest piece; region "table" (read, write), four bytes for each
//! cluster of the volume and eight more.
//!
//! Parameters: "partition", from 1 to 4, or 0 for a volume on the whole disk, 1 if absent; "format", 1 to make a volume on a disk with a first sector that has
//! nothing but zeros; "again", how often a request to the disk is made again that a death of the block server cuts short, 0 if absent. The server needs a
//! stack of 32 KiB.
//!
//! The server serves one client after the other, on the budget of the one it serves, and waits for the block server meanwhile. In its first request of a
//! client it reads the table of the volume and walks through all directories.
//!
//! # Invariants
//!
//! 1. The block server reaches no memory of a client: bytes are copied.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use files_server::server::CLIENTS;
use files_server::{Fault, SECTOR, Sectors, Server, Table, Unsound, Volume, format};
use fusee::block::{self, Disk};
use fusee::{Endpoint, Environment, Instant, Nanoseconds, Region, ServeError, environment};
use fusee_driver::{Loan, Loans};

fusee::entry!(main);

/// The time between two requests to a block server that is not there.
const PAUSE: Nanoseconds = Nanoseconds(200_000);

//--- The disk

/// A disk by its server.
struct Served {
    server: Endpoint,
    again: u32,
    /// The disk, once the server has said how large it is.
    disk: Option<Disk>,
    memory: Region,
}

impl Served {
    fn disk(&mut self) -> Result<Disk, Fault> {
        if self.disk.is_none() {
            let disk = Disk::open_again(self.server, self.again, PAUSE, Instant::NEVER);
            self.disk = disk.ok();
        }
        self.disk.ok_or(Fault)
    }

    /// Bytes of one request: a whole number of sectors before the stamp.
    fn room(&self) -> usize {
        self.memory.shared().len().saturating_sub(block::STAMP as usize) / SECTOR * SECTOR
    }
}

impl Sectors for Served {
    fn sectors(&self) -> u64 {
        self.disk.map_or(0, |disk| disk.sectors())
    }

    fn is_read_only(&self) -> bool {
        self.disk.is_some_and(|disk| disk.is_read_only())
    }

    fn read(&mut self, first: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        let disk = self.disk()?;
        for (index, piece) in (0..).zip(bytes.chunks_mut(self.room())) {
            let (sectors, first) = ((piece.len() / SECTOR) as u64, first + index * (self.room() / SECTOR) as u64);
            disk.read(first, sectors, &self.memory, 0, Instant::NEVER).map_err(|_| Fault)?;
            self.memory.shared().copy_to_slice(0, piece);
        }
        Ok(())
    }

    fn write(&mut self, first: u64, bytes: &[u8]) -> Result<(), Fault> {
        let disk = self.disk()?;
        for (index, piece) in (0..).zip(bytes.chunks(self.room())) {
            let (sectors, first) = ((piece.len() / SECTOR) as u64, first + index * (self.room() / SECTOR) as u64);
            self.memory.shared().copy_from_slice(0, piece);
            disk.write(first, sectors, &self.memory, 0, Instant::NEVER).map_err(|_| Fault)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Fault> {
        self.disk()?.flush(Instant::NEVER).map_err(|_| Fault)
    }
}

/// The region "table".
struct Words(Region);

impl Table for Words {
    fn words(&self) -> u32 {
        u32::try_from(self.0.shared().len() / 4).unwrap_or(u32::MAX)
    }

    fn get(&self, cluster: u32) -> u32 {
        self.0.shared().read_u32(cluster as usize * 4)
    }

    fn set(&mut self, cluster: u32, word: u32) {
        self.0.shared().write_u32(cluster as usize * 4, word);
    }
}

//--- The server

fn parameter(environment: &Environment, name: &str, most: u32, otherwise: u32) -> u32 {
    let value = environment.parameter(name).unwrap_or(otherwise.into());
    let fits = u32::try_from(value).ok().filter(|value| *value <= most);
    fits.unwrap_or_else(|| panic!("the parameter `{name}` is {value}, and may be 0 to {most}"))
}

fn main() {
    let environment = environment();
    let partition = parameter(&environment, "partition", 4, 1);
    let makes = parameter(&environment, "format", 1, 0) == 1;
    assert!(!makes || partition == 1, "the parameter `format` makes the partition 1, and `partition` is {partition}");
    let again = parameter(&environment, "again", u32::MAX, 0);
    let memory = environment.expect::<Region>("memory");
    let disk = Served { server: environment.expect("disk"), again, disk: None, memory };
    assert!(disk.room() > 0, "the region `memory` has no room for a sector and the stamp of a request");
    let mut server = Server::new(Volume::new(disk, Words(environment.expect("table")), partition as u8));
    let loans = Loans::<CLIENTS>::of(&environment);
    let mut endpoint = fusee::Server::new(environment.expect("files"));
    let mut next = endpoint.receive(Instant::NEVER);
    let mut is_new = true;
    loop {
        next = match next {
            Ok(request) => {
                if core::mem::take(&mut is_new) {
                    is_new = begin(&mut server, makes).is_err();
                }
                let lease = loans.lease(&request);
                let loan = lease.as_ref().map(|lease| lease as &dyn Loan);
                let reply = server.serve(request.badge, &request.words, loan);
                endpoint.reply_receive(request.token, reply, Instant::NEVER)
            }
            Err(ServeError::Handle(error)) => panic!("this task cannot serve its endpoint: {error:?}"),
            // The client is gone: the next one is not to blame.
            Err(_) => endpoint.receive(Instant::NEVER),
        };
    }
}

/// Asks for the disk, makes a volume on an empty one if `makes`, and mounts it.
///
/// # Panics
/// If the region "table" is too small, since that is a mistake of the manifest.
fn begin(server: &mut Server<Served, Words>, makes: bool) -> Result<(), Fault> {
    let volume = server.volume();
    volume.disk().disk()?;
    if makes && !volume.disk().is_read_only() {
        match format(volume.disk()) {
            Err(Unsound::Device) => return Err(Fault),
            Err(Unsound::NoVolume(reason)) => panic!("the parameter `format` makes no volume: {reason}"),
            _ => {}
        }
    }
    match volume.mount() {
        Err(Unsound::Device) => Err(Fault),
        Err(Unsound::NoRoom { clusters, words }) => {
            panic!("the region `table` has {words} words, and the volume needs {clusters}, of four bytes each")
        }
        // Each client is told that there is no volume, or a damaged one.
        _ => Ok(()),
    }
}

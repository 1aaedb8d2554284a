//! The rig of the tests: a disk that keeps a journal of its writes, a client, random numbers, and other readers of volumes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::process::{Command, Stdio};
use std::rc::Rc;

use fusee::Message;
use fusee::files::{FileNumber, Mode, PIECE, Payload, Request};
use fusee_driver::Loan;

use crate::disk::{Fault, SECTOR, Sectors, Table};
use crate::server::Server;
use crate::shape::format;
use crate::volume::Volume;

/// The first sector of the volume that [`format`] makes.
pub const BEGIN: usize = 2048;
/// Sectors of the smallest disks of these tests: somewhat more than FAT16 needs.
pub const SMALL: usize = BEGIN + 4_600;

/// A step of a disk.
#[derive(Clone, Debug)]
pub enum Step {
    Write(usize, Box<[u8; SECTOR]>),
    Flush,
}

/// The steps of a disk, and the request that is to fail.
#[derive(Default)]
pub struct Journal {
    pub steps: Vec<Step>,
    /// Requests until one fails.
    pub fails_after: Option<u32>,
    pub requests: u32,
    /// Calls of the disk, each for any number of sectors.
    pub calls: usize,
}

/// A disk in memory.
#[derive(Clone)]
pub struct Memory {
    pub bytes: Vec<u8>,
    pub journal: Rc<RefCell<Journal>>,
}

impl Memory {
    pub fn new(sectors: usize) -> Memory {
        Memory::with(vec![0; sectors * SECTOR])
    }

    pub fn with(bytes: Vec<u8>) -> Memory {
        Memory { bytes, journal: Rc::default() }
    }

    fn request(&self) -> Result<(), Fault> {
        let mut journal = self.journal.borrow_mut();
        journal.requests += 1;
        match &mut journal.fails_after {
            Some(0) => {
                journal.fails_after = None;
                Err(Fault)
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Sectors for Memory {
    fn sectors(&self) -> u64 {
        (self.bytes.len() / SECTOR) as u64
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read(&mut self, first: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        self.journal.borrow_mut().calls += 1;
        self.request()?;
        let begin = first as usize * SECTOR;
        bytes.copy_from_slice(self.bytes.get(begin..begin + bytes.len()).ok_or(Fault)?);
        Ok(())
    }

    fn write(&mut self, first: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.journal.borrow_mut().calls += 1;
        for (sector, bytes) in (first as usize..).zip(bytes.chunks_exact(SECTOR)) {
            // A request that fails may have written a part of its sectors.
            self.request()?;
            self.bytes.get_mut(sector * SECTOR..(sector + 1) * SECTOR).ok_or(Fault)?.copy_from_slice(bytes);
            let kept = bytes.try_into().expect("a sector has 512 bytes");
            self.journal.borrow_mut().steps.push(Step::Write(sector, Box::new(kept)));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Fault> {
        self.journal.borrow_mut().calls += 1;
        self.request()?;
        self.journal.borrow_mut().steps.push(Step::Flush);
        Ok(())
    }
}

impl Table for Vec<u32> {
    fn words(&self) -> u32 {
        self.len() as u32
    }

    fn get(&self, cluster: u32) -> u32 {
        self[cluster as usize]
    }

    fn set(&mut self, cluster: u32, word: u32) {
        self[cluster as usize] = word;
    }
}

/// A region of a client.
pub struct Lent {
    pub bytes: RefCell<Vec<u8>>,
    pub stamp: u64,
    pub is_writable: bool,
}

impl Lent {
    pub fn of(bytes: &[u8]) -> Lent {
        let mut all = vec![0; 4096];
        all[..bytes.len()].copy_from_slice(bytes);
        Lent { bytes: RefCell::new(all), stamp: 7, is_writable: true }
    }
}

impl Loan for Lent {
    fn bytes(&self) -> usize {
        self.bytes.borrow().len()
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.bytes.borrow()[offset..offset + bytes.len()]);
    }

    fn write(&self, bytes: &[u8]) -> bool {
        self.bytes.borrow_mut()[..bytes.len()].copy_from_slice(bytes);
        self.is_writable
    }

    fn stamp(&self) -> u64 {
        self.stamp
    }
}

pub type Tested = Server<Memory, Vec<u32>>;

/// A server of a volume on this disk.
pub fn server(disk: Memory, partition: u8) -> Tested {
    Server::new(Volume::new(disk, vec![0; 80_000], partition))
}

/// A disk with an empty volume.
pub fn formatted(sectors: usize) -> Memory {
    let mut disk = Memory::new(sectors);
    assert_eq!(format(&mut disk), Ok(true));
    disk.journal = Rc::default();
    disk
}

/// A client in a test: it sends requests with `badge` directly to `server`.
pub struct Client<'server> {
    pub server: &'server mut Tested,
    pub badge: u64,
}

impl Client<'_> {
    pub fn ask(&mut self, request: Request) -> Message {
        self.server.serve(self.badge, &request.message(), None)
    }

    pub fn lend(&mut self, request: Request, loan: &Lent) -> Message {
        self.server.serve(self.badge, &request.message(), Some(loan))
    }

    pub fn open(&mut self, path: &str, mode: Mode) -> Result<(FileNumber, u32), u64> {
        let payload = Payload { length: path.len(), stamp: 7 };
        let [code, number, length, ..] = self.lend(Request::Open(mode, payload), &Lent::of(path.as_bytes()));
        if code == 0 {
            Ok((FileNumber::new(number as usize & 0xff, (number >> 8) as u32), length as u32))
        } else {
            Err(code)
        }
    }

    pub fn write(&mut self, file: FileNumber, offset: u32, bytes: &[u8]) -> u64 {
        let mut offset = u64::from(offset);
        for piece in bytes.chunks(PIECE) {
            let payload = Payload { length: piece.len(), stamp: 7 };
            let code = self.lend(Request::Write(file, offset, payload), &Lent::of(piece))[0];
            if code != 0 {
                return code;
            }
            offset += piece.len() as u64;
        }
        0
    }

    /// The length of a file.
    pub fn length_of(&mut self, file: FileNumber) -> Result<u32, u64> {
        let [code, _, length, ..] = self.lend(Request::Read { file, offset: 0, room: 0 }, &Lent::of(&[]));
        if code == 0 { Ok(length as u32) } else { Err(code) }
    }

    pub fn read(&mut self, file: FileNumber) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let loan = Lent::of(&[]);
            let reply = self.lend(Request::Read { file, offset: all.len() as u64, room: 1000 }, &loan);
            assert_eq!(reply[0], 0, "the file is read");
            if reply[1] == 0 {
                return all;
            }
            all.extend_from_slice(&loan.bytes.borrow()[..reply[1] as usize]);
        }
    }

    pub fn remove(&mut self, path: &str) -> u64 {
        let payload = Payload { length: path.len(), stamp: 7 };
        loop {
            match self.lend(Request::Remove(payload), &Lent::of(path.as_bytes())) {
                [0, 1, ..] => {}
                [code, ..] => return code,
            }
        }
    }
}

//--- Random numbers

/// Random numbers (Marsaglia 2003, xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

//--- Other readers

/// The files of a volume, in its root directory and in those below, by their paths, as the crate `fatfs` reads them; and its clusters in use, and bytes of
/// one.
pub fn read_by_fatfs(volume: &[u8]) -> (BTreeMap<String, Vec<u8>>, u32, u32) {
    let mut bytes = volume.to_vec();
    let system = fatfs::FileSystem::new(Cursor::new(&mut bytes[..]), fatfs::FsOptions::new()).expect("it is a volume");
    let mut files = BTreeMap::new();
    let mut waiting = vec![(String::new(), system.root_dir())];
    while let Some((path, directory)) = waiting.pop() {
        for entry in directory.iter() {
            let entry = entry.expect("an entry is read");
            let name = entry.file_name();
            if name == "." || name == ".." {
                continue;
            }
            let path = format!("{path}{name}");
            if entry.is_dir() {
                waiting.push((format!("{path}/"), entry.to_dir()));
                files.insert(format!("{path}/"), Vec::new());
                continue;
            }
            let mut bytes = Vec::new();
            entry.to_file().read_to_end(&mut bytes).expect("a file is read");
            assert_eq!(bytes.len() as u64, entry.len(), "the chain of {path} is as long as its length says");
            files.insert(path, bytes);
        }
    }
    let stats = system.stats().expect("clusters are counted");
    (files, stats.total_clusters() - stats.free_clusters(), stats.cluster_size())
}

/// Clusters that files of these lengths need.
pub fn needed(files: &BTreeMap<String, Vec<u8>>, cluster: u32) -> u32 {
    files.values().map(|bytes| (bytes.len() as u32).div_ceil(cluster)).sum()
}

/// Whether the host has a program.
fn has(program: &str) -> bool {
    Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The tools of the host that are there: the checker, and the reader.
pub struct Tools {
    folder: tempfile::TempDir,
    has_checker: bool,
    has_reader: bool,
}

impl Tools {
    pub fn new() -> Tools {
        let tools = Tools {
            folder: tempfile::tempdir().expect("there is a place for files"),
            has_checker: has("fsck.fat"),
            has_reader: has("mcopy"),
        };
        if !tools.has_checker || !tools.has_reader {
            eprintln!("without `fsck.fat` (dosfstools) and `mcopy` (mtools) the crate `fatfs` alone reads the volumes");
        }
        tools
    }

    /// Looks at a volume with the tools of the host: it is clean, and the file has these bytes.
    pub fn check(&self, volume: &[u8], file: &str, bytes: &[u8]) {
        if !self.has_checker && !self.has_reader {
            return;
        }
        let path = self.folder.path().join("volume");
        std::fs::write(&path, volume).expect("a volume is written");
        if self.has_checker {
            let checked = Command::new("fsck.fat").arg("-n").arg(&path).output().expect("fsck.fat runs");
            assert!(checked.status.success(), "fsck.fat: {}", String::from_utf8_lossy(&checked.stdout));
        }
        if self.has_reader {
            let mut command = Command::new("mcopy");
            let read =
                command.env("MTOOLS_SKIP_CHECK", "1").arg("-i").arg(&path).args([&format!("::{file}"), "-"]).output();
            let read = read.expect("mcopy runs");
            assert!(read.status.success(), "mcopy: {}", String::from_utf8_lossy(&read.stderr));
            assert!(read.stdout == bytes, "mcopy reads other bytes than `fatfs`");
        }
    }
}

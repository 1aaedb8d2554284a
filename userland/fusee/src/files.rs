//! Files on a FAT volume: the other side of `drivers/files`.
//!
//! A client opens the server with a region of its own, and files by their names. Names and bytes go through the region, which each request lends to the
//! server ([`Endpoint::call_lending`](crate::Endpoint::call_lending)); all else is in the words of the message.
//!
//! | Word | Request | Reply |
//! |---|---|---|
//! | 0 | its operation: [`Request`]; from bit 8 on the file | zero, or a code of [`Refusal`] |
//! | 1 | a place in the file, its new length, a [`Mode`], or a place in a directory | the file; bytes that were read; or the next place in the directory |
//! | 2 | bytes of the payload, or room for one | the length of the file |
//! | 3 | the stamp of the region | of [`Request::List`]: one for a directory |
//! | 4, 5 | | of [`Request::List`]: the name |
//!
//! # Requests that are made twice
//!
//! Each write says its place in the file, and a task that writes a file has it alone. So a request may be made again after its deadline has passed, or after
//! the death of the server, and the file is as if it had been made once.
//!
//! A loan ends when the client's deadline passes, or the client ends, and the server is not told: it finds other memory at the same place, and would write
//! that to the disk. So the client puts a **stamp**, a number that it has not used before, into the last eight bytes of its region, and says it in the
//! request. A server that has copied a payload, and then still finds the stamp, has copied the client's own bytes.
//!
//! A client may send anything: [`Request::of`] is all that a server needs to believe it.

use crate::Message;

pub use crate::payload::{Payload, STAMP};
pub use client::{File, Files, FilesError, Item, Items};
pub use record::{FrameError, HEADER, RECORD, Records};
pub use recorder::{Recorder, RecorderError};

#[path = "files_client.rs"]
mod client;
#[path = "files_record.rs"]
pub mod record;
#[path = "files_recorder.rs"]
mod recorder;

/// Bytes of one request, at most.
pub const PIECE: usize = 3584;
/// Bytes of a path, at most.
pub const PATH: usize = 64;
/// Files that a client has open at once, at most.
pub const OPEN_FILES: usize = 4;

/// The use of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Mode {
    /// It is read. Others may read it, too.
    Read = 0,
    /// It is read and written, by this task alone.
    Write = 1,
    /// It is read and written, and made if it is not there.
    Create = 2,
}

impl Mode {
    fn of(word: u64) -> Option<Mode> {
        [Mode::Read, Mode::Write, Mode::Create].into_iter().find(|mode| *mode as u64 == word)
    }
}

/// An open file of a client, by a number that no other one of this life of the server has had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileNumber(u64);

impl FileNumber {
    const BITS: u32 = 56;

    /// The file at this index, the `serial`th one that was opened.
    #[must_use]
    pub fn new(index: usize, serial: u32) -> FileNumber {
        FileNumber(index as u64 & 0xff | u64::from(serial) << 8)
    }

    /// Its index among the open files of the client.
    #[must_use]
    pub fn index(self) -> usize {
        (self.0 & 0xff) as usize
    }

    fn of(word: u64) -> Option<FileNumber> {
        (word >> FileNumber::BITS == 0).then_some(FileNumber(word))
    }
}

/// A request of a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Begin anew, without open files.
    Begin,
    /// Open the file with the path in the payload.
    Open(Mode, Payload),
    /// Copy bytes of the file, from `offset` on, to the region that is lent.
    Read {
        /// The file.
        file: FileNumber,
        /// The first byte.
        offset: u64,
        /// Bytes of the region that may be written.
        room: usize,
    },
    /// Write the payload to the file, from this byte on, which is at most the file's length.
    Write(FileNumber, u64, Payload),
    /// As `Write`, and then as `Sync`.
    WriteSynced(FileNumber, u64, Payload),
    /// Make the file longer, up to this length, with zeros: by one piece at most.
    Reserve(FileNumber, u64),
    /// Wait until all that was written before would outlive a loss of power.
    Sync(FileNumber),
    /// Close the file.
    Close(FileNumber),
    /// Remove the file with the path in the payload, or a part of a long one.
    Remove(Payload),
    /// Say an entry of the directory with the path in the payload: the first one at this place or behind it.
    List(u64, Payload),
    /// Say how many clusters are free, how many there are, and the bytes of one.
    Space,
}

impl Request {
    /// The request of `message`, of any origin.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] if it has no meaning.
    pub fn of(message: &Message) -> Result<Request, Refusal> {
        Request::parse(message).ok_or(Refusal::Malformed)
    }

    fn parse(message: &Message) -> Option<Request> {
        let [first, second, third, stamp, ..] = *message;
        let file = || FileNumber::of(first >> 8);
        let payload = || Some(Payload { length: usize::try_from(third).ok()?, stamp });
        Some(match first & 0xff {
            1 => Request::Begin,
            2 => Request::Open(Mode::of(second)?, payload()?),
            3 => Request::Read { file: file()?, offset: second, room: usize::try_from(third).ok()? },
            4 => Request::Write(file()?, second, payload()?),
            5 => Request::WriteSynced(file()?, second, payload()?),
            6 => Request::Reserve(file()?, second),
            7 => Request::Sync(file()?),
            8 => Request::Close(file()?),
            9 => Request::Remove(payload()?),
            10 => Request::List(second, payload()?),
            11 => Request::Space,
            _ => return None,
        })
    }

    /// The message of the request.
    #[must_use]
    pub fn message(&self) -> Message {
        let with = |operation: u64, file: FileNumber, word: u64| [operation | file.0 << 8, word, 0, 0, 0, 0];
        let lending =
            |first: u64, second: u64, Payload { length, stamp }: Payload| [first, second, length as u64, stamp, 0, 0];
        match *self {
            Request::Begin => [1, 0, 0, 0, 0, 0],
            Request::Open(mode, path) => lending(2, mode as u64, path),
            Request::Read { file, offset, room } => [3 | file.0 << 8, offset, room as u64, 0, 0, 0],
            Request::Write(file, offset, payload) => lending(4 | file.0 << 8, offset, payload),
            Request::WriteSynced(file, offset, payload) => lending(5 | file.0 << 8, offset, payload),
            Request::Reserve(file, length) => with(6, file, length),
            Request::Sync(file) => with(7, file, 0),
            Request::Close(file) => with(8, file, 0),
            Request::Remove(path) => lending(9, 0, path),
            Request::List(place, path) => lending(10, place, path),
            Request::Space => [11, 0, 0, 0, 0, 0],
        }
    }
}

/// A reason of a server to refuse a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Refusal {
    /// The request has no meaning; or a reply has none.
    Malformed = 1,
    /// The client has not begun in this life of the server.
    NotOpen = 2,
    /// The server has no room for one more client.
    TooManyClients = 3,
    /// The client has [`OPEN_FILES`] open.
    TooManyFiles = 4,
    /// The client has no such file open: it was closed, or the server has closed all files because the disk has failed.
    NoFile = 5,
    /// There is no file, or no directory, of this name.
    NotFound = 6,
    /// FAT has no such name: one of up to eight and up to three characters, out of letters, digits, and some others.
    BadName = 7,
    /// Another client has the file open, and one of both writes it.
    Taken = 8,
    /// The name is that of a directory.
    IsDirectory = 9,
    /// The file was opened to be read, is marked as one to be read only, or is on a disk that can only be read.
    ReadOnly = 10,
    /// No region is lent with the request, one that cannot be written, or one without the stamp; or the payload does not fit before its last [`STAMP`]
    /// bytes.
    NotLent = 11,
    /// The payload is longer than [`PIECE`], or the path longer than [`PATH`].
    TooLong = 12,
    /// The place to write is behind the end of the file.
    BeyondEnd = 13,
    /// The volume has no room. The file is as it was.
    DiskFull = 14,
    /// The directory has no room for one more name.
    DirectoryFull = 15,
    /// The file would be longer than FAT can say: 4 GiB less one byte.
    TooLarge = 16,
    /// The file has a long name beside its short one, and this server removes no long names.
    LongName = 17,
    /// The directory has no further entry.
    End = 18,
    /// The disk failed, or its server. Some of the request may be done. All files are closed.
    Device = 19,
    /// There is no FAT volume in the partition that the server was given.
    NoVolume = 20,
    /// The volume contradicts itself: a checker for FAT has to repair it.
    Damaged = 21,
}

impl Refusal {
    pub(crate) const ALL: [Refusal; 21] = [
        Refusal::Malformed,
        Refusal::NotOpen,
        Refusal::TooManyClients,
        Refusal::TooManyFiles,
        Refusal::NoFile,
        Refusal::NotFound,
        Refusal::BadName,
        Refusal::Taken,
        Refusal::IsDirectory,
        Refusal::ReadOnly,
        Refusal::NotLent,
        Refusal::TooLong,
        Refusal::BeyondEnd,
        Refusal::DiskFull,
        Refusal::DirectoryFull,
        Refusal::TooLarge,
        Refusal::LongName,
        Refusal::End,
        Refusal::Device,
        Refusal::NoVolume,
        Refusal::Damaged,
    ];

    fn of_code(code: u64) -> Refusal {
        Refusal::ALL.into_iter().find(|refusal| *refusal as u64 == code).unwrap_or(Refusal::Malformed)
    }
}

/// Room of a volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Space {
    /// Clusters that are free.
    pub free: u64,
    /// Clusters in all.
    pub clusters: u64,
    /// Bytes of a cluster.
    pub cluster: u64,
}

impl Space {
    /// The reply with this room.
    #[must_use]
    pub fn reply(&self) -> Message {
        [0, self.free, self.clusters, self.cluster, 0, 0]
    }
}

/// The reply with an opened file, and its length.
#[must_use]
pub fn opened(file: FileNumber, length: u32) -> Message {
    [0, file.0, length.into(), 0, 0, 0]
}

/// The reply with so many bytes that were read, and the length of the file.
#[must_use]
pub fn done(bytes: usize, length: u32) -> Message {
    [0, bytes as u64, length.into(), 0, 0, 0]
}

/// The reply to a client that removes a file: whether a part is left.
#[must_use]
pub fn removed(is_left: bool) -> Message {
    [0, is_left.into(), 0, 0, 0, 0]
}

/// The reply with an entry of a directory: the place behind it, its length, whether it is a directory, and its name in the form of FAT.
#[must_use]
pub fn listed(next: u64, length: u32, is_directory: bool, name: &[u8; 11]) -> Message {
    let mut words = [0; 16];
    words[..11].copy_from_slice(name);
    let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|byte| words[at + byte]));
    [0, next, length.into(), is_directory.into(), word(0), word(8)]
}

/// The reply to a refused request.
#[must_use]
pub fn refusal(refusal: Refusal) -> Message {
    [refusal as u64, 0, 0, 0, 0, 0]
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;

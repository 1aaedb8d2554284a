//! The client of a file server: open files, and the requests behind them.

use core::fmt;

use super::{FileNumber, Mode, PATH, PIECE, Payload, Refusal, Request, Space};
use crate::again::After;
use crate::{CallError, CallLendingError, Endpoint, Instant, Message, Region, Rights};

/// A reason for which a request was not served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FilesError {
    /// The server has begun another life: it has no memory of this client, and its files are closed. The client has to open them again.
    Restarted,
    /// The deadline passed first. The request may be done, and may be made again.
    TimedOut,
    /// The server refused the request.
    Refused(Refusal),
    /// The server did not answer.
    Call(CallLendingError),
}

impl FilesError {
    /// The consequence for a request that may be made twice.
    pub(super) fn after(&self) -> After {
        match self {
            FilesError::Restarted | FilesError::Refused(Refusal::NotOpen | Refusal::NoFile) => After::Try,
            FilesError::Refused(Refusal::Device) => After::Pause,
            FilesError::Call(error) => After::from(error),
            _ => After::Nothing,
        }
    }
}

impl From<Refusal> for FilesError {
    fn from(refusal: Refusal) -> FilesError {
        FilesError::Refused(refusal)
    }
}

impl From<CallLendingError> for FilesError {
    fn from(error: CallLendingError) -> FilesError {
        match error {
            CallLendingError::PeerRestarted => FilesError::Restarted,
            CallLendingError::TimedOut => FilesError::TimedOut,
            error => FilesError::Call(error),
        }
    }
}

impl From<CallError> for FilesError {
    fn from(error: CallError) -> FilesError {
        CallLendingError::from(error).into()
    }
}

impl fmt::Display for FilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilesError::Restarted => f.write_str("the server has begun another life"),
            FilesError::TimedOut => f.write_str("the deadline passed first"),
            FilesError::Refused(refusal) => write!(f, "the server refused: {refusal:?}"),
            FilesError::Call(error) => write!(f, "the server did not answer: {error:?}"),
        }
    }
}

impl core::error::Error for FilesError {}

/// The files of a server, which this task has opened.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    server: Endpoint,
    memory: Region,
    /// The instant at which calls end that have not come to their ends.
    pub deadline: Instant,
}

impl Files {
    /// Opens the files of `server`, until `deadline`. Names and bytes go through `memory`, which this task may read, write and lend; its last [`STAMP`](super::STAMP)
    /// bytes are for neither. A task that has opened them before begins anew, without open files. Later calls have no deadline until
    /// [`Files::deadline`] is set.
    ///
    /// # Errors
    /// [`FilesError`] has the reason.
    pub fn open(server: Endpoint, memory: Region, deadline: Instant) -> Result<Files, FilesError> {
        let files = Files { server, memory, deadline };
        files.begin()?;
        Ok(Files { deadline: Instant::NEVER, ..files })
    }

    pub(super) fn begin(&self) -> Result<(), FilesError> {
        self.ask(Request::Begin).map(drop)
    }

    /// Opens the file of this path, as `LOG.TXT` or `TRIPS/LOG.TXT`. Names are in the form of FAT; letters in lower case stand for those in upper case.
    ///
    /// # Errors
    /// [`FilesError::Refused`] with `NotFound`, `BadName`, `Taken`, `TooManyFiles`, `IsDirectory`, `ReadOnly` or `DirectoryFull`. Others are those of a call.
    pub fn file(&self, path: &str, mode: Mode) -> Result<File, FilesError> {
        let [_, number, length, ..] = self.lend_path(path, |path| Request::Open(mode, path))?;
        let number = FileNumber::of(number).ok_or(Refusal::Malformed)?;
        let length = u32::try_from(length).map_err(|_| Refusal::Malformed)?;
        Ok(File { files: *self, number, length, place: 0 })
    }

    /// Removes the file of this path. A long file is removed in several requests, from its end.
    ///
    /// # Errors
    /// [`FilesError::Refused`] with `NotFound`, `BadName`, `Taken`, `IsDirectory`, `ReadOnly` or `LongName`. Others are those of a call: after them the file
    /// is there, or a part of it from its beginning, or it is removed.
    pub fn remove(&self, path: &str) -> Result<(), FilesError> {
        while self.lend_path(path, Request::Remove)?[1] != 0 {}
        Ok(())
    }

    /// The entries of the directory of this path: `""` is the first directory.
    #[must_use]
    pub fn list<'path>(&self, path: &'path str) -> Items<'path> {
        Items { files: *self, path, next: Some(0) }
    }

    /// Reads how much room the volume has.
    ///
    /// # Errors
    /// Those of a call.
    pub fn space(&self) -> Result<Space, FilesError> {
        let [_, free, clusters, cluster, ..] = self.ask(Request::Space)?;
        Ok(Space { free, clusters, cluster })
    }

    //--- Requests

    fn lend_path(&self, path: &str, request: impl Fn(Payload) -> Request) -> Result<Message, FilesError> {
        if path.len() > PATH {
            return Err(Refusal::TooLong.into());
        }
        let payload = self.put(path.as_bytes())?;
        self.lend(request(payload), Rights::READ)
    }

    /// Bytes of a payload that the region has room for.
    fn room(&self) -> usize {
        Payload::room(&self.memory).min(PIECE)
    }

    /// Puts a payload into the region.
    fn put(&self, bytes: &[u8]) -> Result<Payload, FilesError> {
        if bytes.len() > self.room() {
            return Err(Refusal::NotLent.into());
        }
        Ok(Payload::put(&self.memory, bytes))
    }

    fn ask(&self, request: Request) -> Result<Message, FilesError> {
        checked(self.server.call(request.message(), self.deadline)?)
    }

    fn lend(&self, request: Request, rights: Rights) -> Result<Message, FilesError> {
        checked(self.server.call_lending(request.message(), &self.memory, rights, self.deadline)?.words)
    }
}

/// The reply, unless it is a refusal.
pub(super) fn checked(reply: Message) -> Result<Message, FilesError> {
    match reply[0] {
        0 => Ok(reply),
        code => Err(Refusal::of_code(code).into()),
    }
}

/// An open file. Its end closes it; all that was written is with the disk by then.
#[derive(Debug)]
pub struct File {
    pub(super) files: Files,
    number: FileNumber,
    length: u32,
    /// The place at which the traits of `embedded-io` read and write.
    #[cfg_attr(not(feature = "embedded-io"), allow(dead_code))]
    place: u32,
}

impl File {
    /// The length of the file in bytes.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Copies bytes of the file, from `offset` on, to `bytes`: how many, which is less than there is room for only at the end of the file.
    ///
    /// # Errors
    /// Those of a call; [`FilesError::Refused`] with `Device` if the disk cannot read them.
    pub fn read_at(&self, offset: u32, bytes: &mut [u8]) -> Result<usize, FilesError> {
        let mut read = 0;
        while read < bytes.len() {
            let room = (bytes.len() - read).min(self.files.room());
            let request = Request::Read { file: self.number, offset: u64::from(offset) + read as u64, room };
            let [_, length, ..] = self.files.lend(request, Rights::READ | Rights::WRITE)?;
            let length = usize::try_from(length).ok().filter(|length| *length <= room).ok_or(Refusal::Malformed)?;
            if length == 0 {
                break;
            }
            self.files.memory.shared().copy_to_slice(0, &mut bytes[read..read + length]);
            read += length;
        }
        Ok(read)
    }

    /// Writes `bytes` to the file, from `offset` on, which is at most its length. Other tasks that open the file find them. A loss of power may undo that
    /// until [`File::sync`] has returned.
    ///
    /// # Errors
    /// [`FilesError::Refused`] with `DiskFull`, `BeyondEnd`, `TooLarge`, `ReadOnly` or `Device`. Others are those of a call. If there are more than [`PIECE`]
    /// bytes, the first ones may be written; [`File::length`] counts them.
    pub fn write_at(&mut self, offset: u32, bytes: &[u8]) -> Result<(), FilesError> {
        self.write_pieces(offset, bytes, Request::Write)
    }

    /// As [`File::write_at`], and then as [`File::sync`], in one request if there are no more than [`PIECE`] bytes.
    ///
    /// # Errors
    /// Those of [`File::write_at`].
    pub fn write_synced(&mut self, offset: u32, bytes: &[u8]) -> Result<(), FilesError> {
        self.write_pieces(offset, bytes, Request::WriteSynced)
    }

    /// Writes `bytes` behind the end of the file.
    ///
    /// # Errors
    /// Those of [`File::write_at`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FilesError> {
        self.write_at(self.length, bytes)
    }

    fn write_pieces(
        &mut self,
        offset: u32,
        bytes: &[u8],
        request: impl Fn(FileNumber, u64, Payload) -> Request,
    ) -> Result<(), FilesError> {
        let mut offset = u64::from(offset);
        for piece in bytes.chunks(self.files.room().max(1)) {
            let payload = self.files.put(piece)?;
            let reply = self.files.lend(request(self.number, offset, payload), Rights::READ)?;
            self.note(&reply)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Makes the file `length` bytes long, with zeros behind its present end. A file that is as long already stays as it is.
    ///
    /// # Errors
    /// Those of [`File::write_at`]; after them the file may be longer than before.
    pub fn reserve(&mut self, length: u32) -> Result<(), FilesError> {
        while self.length < length {
            let before = self.length;
            let reply = self.files.ask(Request::Reserve(self.number, length.into()))?;
            self.note(&reply)?;
            if self.length <= before {
                return Err(Refusal::Malformed.into());
            }
        }
        Ok(())
    }

    /// Waits until all that was written before would outlive a loss of power.
    ///
    /// # Errors
    /// Those of a call; [`FilesError::Refused`] with `Device` if the disk cannot say so.
    pub fn sync(&self) -> Result<(), FilesError> {
        self.files.ask(Request::Sync(self.number)).map(drop)
    }

    /// Closes the file, as its end does, and returns the error if there is one.
    ///
    /// # Errors
    /// Those of a call.
    pub fn close(self) -> Result<(), FilesError> {
        let result = self.files.ask(Request::Close(self.number)).map(drop);
        core::mem::forget(self);
        result
    }

    fn note(&mut self, reply: &Message) -> Result<(), FilesError> {
        self.length = u32::try_from(reply[2]).map_err(|_| Refusal::Malformed)?;
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A server that has begun another life has closed it already.
        let _ = self.files.ask(Request::Close(self.number));
    }
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Item {
    name: [u8; 12],
    length: usize,
    /// Bytes of the file; zero for a directory.
    pub bytes: u32,
    /// Whether it is a directory.
    pub is_directory: bool,
}

impl Item {
    pub(super) fn of(reply: &Message) -> Option<Item> {
        let [_, _, bytes, is_directory, low, high] = *reply;
        let mut all = [0; 16];
        all[..8].copy_from_slice(&low.to_le_bytes());
        all[8..].copy_from_slice(&high.to_le_bytes());
        let (base, extension) = (all[..8].trim_ascii_end(), all[8..11].trim_ascii_end());
        let mut name = [0; 12];
        name[..base.len()].copy_from_slice(base);
        let mut length = base.len();
        if !extension.is_empty() {
            name[length] = b'.';
            name[length + 1..length + 1 + extension.len()].copy_from_slice(extension);
            length += 1 + extension.len();
        }
        let bytes = u32::try_from(bytes).ok()?;
        Some(Item { name, length, bytes, is_directory: is_directory != 0 })
    }

    /// The name, if it has no other characters than those of ASCII.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        core::str::from_utf8(&self.name[..self.length]).ok().filter(|name| name.is_ascii())
    }
}

/// The entries of a directory, each by a request of its own.
#[derive(Clone, Debug)]
pub struct Items<'path> {
    files: Files,
    path: &'path str,
    /// The place of the next one.
    next: Option<u64>,
}

impl Iterator for Items<'_> {
    type Item = Result<Item, FilesError>;

    fn next(&mut self) -> Option<Result<Item, FilesError>> {
        // An error is the last item.
        let place = self.next.take()?;
        let reply = match self.files.lend_path(self.path, |path| Request::List(place, path)) {
            Err(FilesError::Refused(Refusal::End)) => return None,
            Err(error) => return Some(Err(error)),
            Ok(reply) => reply,
        };
        self.next = Some(reply[1]).filter(|next| *next > place);
        Some(Item::of(&reply).ok_or(Refusal::Malformed.into()))
    }
}

#[cfg(feature = "embedded-io")]
mod io {
    use embedded_io::{ErrorKind, ErrorType, Read, Seek, SeekFrom, Write};

    use super::{File, FilesError};
    use crate::files::Refusal;

    impl embedded_io::Error for FilesError {
        fn kind(&self) -> ErrorKind {
            match self {
                FilesError::Restarted | FilesError::Call(_) => ErrorKind::NotConnected,
                FilesError::TimedOut => ErrorKind::TimedOut,
                FilesError::Refused(refusal) => match refusal {
                    Refusal::NotFound => ErrorKind::NotFound,
                    Refusal::Taken => ErrorKind::AddrInUse,
                    Refusal::ReadOnly => ErrorKind::PermissionDenied,
                    Refusal::DiskFull | Refusal::DirectoryFull | Refusal::TooLarge => ErrorKind::OutOfMemory,
                    Refusal::BadName | Refusal::BeyondEnd | Refusal::TooLong => ErrorKind::InvalidInput,
                    Refusal::Damaged | Refusal::NoVolume | Refusal::Malformed => ErrorKind::InvalidData,
                    _ => ErrorKind::Other,
                },
            }
        }
    }

    impl ErrorType for File {
        type Error = FilesError;
    }

    impl Read for File {
        fn read(&mut self, buf: &mut [u8]) -> Result<usize, FilesError> {
            let read = self.read_at(self.place, buf)?;
            self.place += read as u32;
            Ok(read)
        }
    }

    impl Write for File {
        fn write(&mut self, buf: &[u8]) -> Result<usize, FilesError> {
            let written = buf.len().min(self.files.room());
            self.write_at(self.place, &buf[..written])?;
            self.place += written as u32;
            Ok(written)
        }

        /// Waits until all that was written before would outlive a loss of power.
        fn flush(&mut self) -> Result<(), FilesError> {
            self.sync()
        }
    }

    impl Seek for File {
        fn seek(&mut self, place: SeekFrom) -> Result<u64, FilesError> {
            let place = match place {
                SeekFrom::Start(place) => Some(place),
                SeekFrom::End(by) => u64::from(self.length).checked_add_signed(by),
                SeekFrom::Current(by) => u64::from(self.place).checked_add_signed(by),
            };
            let place = place.and_then(|place| u32::try_from(place).ok()).ok_or(Refusal::BeyondEnd)?;
            self.place = place;
            Ok(place.into())
        }
    }
}

//! A recorder: a log of records, each of which outlives a loss of power from the moment at which its call has returned.
//!
//! The log is a file of a fixed length, which is written with zeros when it is made. A record then changes no table of the volume and no entry of a directory:
//! it is one write of sectors that hold no other record, and a flush. So the volume is clean at each instant, and each acknowledged record is in the file
//! whichever task ends, and wherever the power goes.

use core::fmt;

use super::record::{FrameError, frame, frame_bytes, parse};
use super::{File, Files, FilesError, Mode, PATH, PIECE, Refusal};
use crate::again::{After, Again};
use crate::{Instant, Nanoseconds};

/// A reason for which a record is not in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecorderError {
    /// The file has no room for it.
    Full,
    /// The record has more than [`RECORD`](super::RECORD) bytes.
    TooLong,
    /// The file server has not written it, or has not said so.
    Files(FilesError),
}

impl<E: Into<FilesError>> From<E> for RecorderError {
    fn from(error: E) -> RecorderError {
        RecorderError::Files(error.into())
    }
}

impl fmt::Display for RecorderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecorderError::Full => f.write_str("the log has no room for the record"),
            RecorderError::TooLong => f.write_str("the record is too long"),
            RecorderError::Files(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RecorderError {}

/// A log that is open to be written.
#[derive(Debug)]
pub struct Recorder {
    file: Option<File>,
    files: Files,
    path: [u8; PATH],
    path_bytes: usize,
    again: Again,
    /// Bytes of the file.
    length: u32,
    /// The place of the next frame.
    end: u32,
    /// The number of the next record.
    number: u64,
    reopened: u64,
}

impl Recorder {
    /// Opens the log of this path, which is made if it is not there, with room for `length` bytes. The next record follows the last one that is in it.
    ///
    /// # Errors
    /// Those of [`Files::file`], [`File::reserve`] and [`File::read_at`].
    pub fn open(files: &Files, path: &str, length: u32) -> Result<Recorder, RecorderError> {
        let mut kept = [0; PATH];
        kept.get_mut(..path.len()).ok_or(Refusal::TooLong)?.copy_from_slice(path.as_bytes());
        let mut file = files.file(path, Mode::Create)?;
        file.reserve(length)?;
        file.sync()?;
        let (mut end, mut number) = (0, 1);
        // Bytes of the file from `from` on.
        let mut bytes = [0; PIECE];
        let (mut from, mut read) = (0, file.read_at(0, &mut bytes)?);
        loop {
            match parse(&bytes[(end - from) as usize..read], number) {
                Ok(record) => {
                    end += frame_bytes(record.len()) as u32;
                    number += 1;
                }
                // The frame goes on behind them, or begins there.
                Err(FrameError::Short(_)) if end > from => (from, read) = (end, file.read_at(end, &mut bytes)?),
                Err(FrameError::Short(_) | FrameError::End) => break,
            }
        }
        let length = file.length();
        let path_bytes = path.len();
        Ok(Recorder {
            file: Some(file),
            files: *files,
            path: kept,
            path_bytes,
            again: Again::NOT,
            length,
            end,
            number,
            reopened: 0,
        })
    }

    /// The recorder, beside servers that have [further lives](crate::life): a record that is not written because the file server or the disk's
    /// server has died is written again, `times` times at most, until [`Recorder::set_deadline`] in all. Between two tries lies `pause`.
    #[must_use]
    pub fn again(self, times: u32, pause: Nanoseconds) -> Recorder {
        Recorder { again: Again { times, pause }, ..self }
    }

    /// Sets the instant at which calls end that have not come to their ends.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.files.deadline = deadline;
        if let Some(file) = &mut self.file {
            file.files.deadline = deadline;
        }
    }

    /// Records that are in the log.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.number - 1
    }

    /// Bytes of frames for which there is still room.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.length - self.end
    }

    /// How often the file was opened again, because a server had died.
    #[must_use]
    pub fn reopened(&self) -> u64 {
        self.reopened
    }

    /// Writes a record, and waits until it would outlive a loss of power; its number. The first one is 1.
    ///
    /// # Errors
    /// [`RecorderError`] has the reason. The record may be in the log; a call for another one replaces it.
    pub fn append(&mut self, record: &[u8]) -> Result<u64, RecorderError> {
        let mut bytes = [0; PIECE];
        let length = frame(self.number, record, &mut bytes).ok_or(RecorderError::TooLong)?;
        if length as u32 > self.room() {
            return Err(RecorderError::Full);
        }
        let (again, deadline, end) = (self.again, self.files.deadline, self.end);
        let write = || {
            let mut file = match self.file.take() {
                Some(file) => file,
                None => {
                    let file = self.opened()?;
                    self.reopened += 1;
                    file
                }
            };
            // An error leaves no file: the next try opens it.
            file.write_synced(end, &bytes[..length])?;
            self.file = Some(file);
            Ok(())
        };
        again.make(deadline, write, |error| match error {
            RecorderError::Files(error) => error.after(),
            RecorderError::Full | RecorderError::TooLong => After::Nothing,
        })?;
        self.end += length as u32;
        self.number += 1;
        Ok(self.number - 1)
    }

    /// The file, opened again.
    fn opened(&self) -> Result<File, RecorderError> {
        let path = core::str::from_utf8(&self.path[..self.path_bytes]).map_err(|_| Refusal::BadName)?;
        let file = match self.files.file(path, Mode::Write) {
            // The server is in another life.
            Err(FilesError::Refused(Refusal::NotOpen)) => {
                self.files.begin()?;
                self.files.file(path, Mode::Write)?
            }
            file => file?,
        };
        if file.length() < self.length { Err(Refusal::Damaged.into()) } else { Ok(file) }
    }
}

//! The server's state: its clients with their open files, and the volume.
//!
//! # Invariants
//!
//! 1. A file belongs to the client that has opened it, by the client's badge: a request of another client reaches none of its files.
//! 2. A file that a client writes is open for no other client.
//! 3. A client has so many files open and no more. It begins anew in its next life, and its earlier files are closed then.
//! 4. Bytes of a client go to the disk only if they are the client's: the stamp is looked at behind the copy.
//! 5. After a failure of the disk all files are closed, and the volume is mounted again before it is used.

use fusee::Message;
use fusee::files::{
    FileNumber, Mode, OPEN_FILES, PATH, PIECE, Payload, Refusal, Request, STAMP, Space, done, listed, opened, refusal,
    removed,
};
use fusee_driver::Loan;

use crate::directory::Entry;
use crate::disk::{Sectors, Table};
use crate::mount::Unsound;
use crate::volume::{Cursor, Volume};

/// Clients, at most.
pub const CLIENTS: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Open {
    number: FileNumber,
    entry: Entry,
    cursor: Cursor,
    is_written: bool,
}

#[derive(Clone, Copy, Debug)]
struct Client {
    badge: Option<u64>,
    files: [Option<Open>; OPEN_FILES],
}

/// The clients of a volume, and the volume.
#[derive(Debug)]
pub struct Server<D, T> {
    volume: Volume<D, T>,
    clients: [Client; CLIENTS],
    /// Files that were opened in this life of the server.
    serial: u32,
    /// The bytes of a request, until their stamp was looked at.
    bytes: [u8; PIECE],
}

impl<D: Sectors, T: Table> Server<D, T> {
    /// A server of a volume, which it mounts when it is first asked for a file.
    pub fn new(volume: Volume<D, T>) -> Server<D, T> {
        let clients = [Client { badge: None, files: [None; OPEN_FILES] }; CLIENTS];
        Server { volume, clients, serial: 0, bytes: [0; PIECE] }
    }

    /// The volume.
    pub fn volume(&mut self) -> &mut Volume<D, T> {
        &mut self.volume
    }

    /// Files that are open, of all clients.
    pub fn open_files(&self) -> usize {
        self.clients.iter().flat_map(|client| client.files.iter().flatten()).count()
    }

    /// Serves a request, of any origin; the reply.
    pub fn serve(&mut self, badge: u64, message: &Message, loan: Option<&dyn Loan>) -> Message {
        let reply = self.answer(badge, message, loan);
        if !self.volume.is_sound() {
            for client in &mut self.clients {
                client.files = [None; OPEN_FILES];
            }
        }
        reply.unwrap_or_else(refusal)
    }

    fn answer(&mut self, badge: u64, message: &Message, loan: Option<&dyn Loan>) -> Result<Message, Refusal> {
        let request = Request::of(message)?;
        let is_known = |client: &Client| client.badge == Some(badge);
        if request == Request::Begin {
            let free = |client: &Client| client.badge.is_none();
            let place = self.clients.iter().position(is_known).or_else(|| self.clients.iter().position(free));
            let client = place.ok_or(Refusal::TooManyClients)?;
            self.clients[client] = Client { badge: Some(badge), files: [None; OPEN_FILES] };
            return Ok([0; 6]);
        }
        let client = self.clients.iter().position(is_known).ok_or(Refusal::NotOpen)?;
        if !self.volume.is_sound() {
            self.volume.mount().map_err(|unsound| match unsound {
                Unsound::Device => Refusal::Device,
                Unsound::NoVolume(_) | Unsound::NoRoom { .. } => Refusal::NoVolume,
                Unsound::Damaged(_) => Refusal::Damaged,
            })?;
        }
        match request {
            Request::Begin => Ok([0; 6]),
            Request::Open(mode, path) => self.open(client, mode, path, loan),
            Request::Read { file, offset, room } => self.read(client, file, offset, room, loan),
            Request::Write(file, offset, payload) => self.write(client, file, offset, payload, loan),
            Request::WriteSynced(file, offset, payload) => {
                let reply = self.write(client, file, offset, payload, loan)?;
                self.volume.flush()?;
                Ok(reply)
            }
            Request::Reserve(file, length) => {
                let open = self.clients[client].open(file)?;
                if !open.is_written {
                    return Err(Refusal::ReadOnly);
                }
                self.volume.reserve(&mut open.entry, &mut open.cursor, length)?;
                Ok(done(0, open.entry.length))
            }
            Request::Sync(file) => {
                let length = self.clients[client].open(file)?.entry.length;
                self.volume.flush()?;
                Ok(done(0, length))
            }
            Request::Close(file) => {
                self.clients[client].open(file)?;
                self.clients[client].files[file.index()] = None;
                Ok([0; 6])
            }
            Request::Remove(path) => {
                let length = self.copy(path, loan, PATH)?;
                let entry = self.volume.file(&self.bytes[..length], false)?;
                if entry.is_read_only() {
                    return Err(Refusal::ReadOnly);
                }
                if self
                    .clients
                    .iter()
                    .flat_map(|client| client.files.iter().flatten())
                    .any(|open| open.entry.is(&entry))
                {
                    return Err(Refusal::Taken);
                }
                self.volume.remove(&entry).map(removed)
            }
            Request::List(place, path) => {
                let length = self.copy(path, loan, PATH)?;
                let directory = self.volume.directory(&self.bytes[..length])?;
                let (entry, next) = self.volume.entry(directory, place)?;
                Ok(listed(next, entry.length, entry.is_directory(), &entry.name))
            }
            Request::Space => {
                let (free, clusters, cluster) = self.volume.space()?;
                Ok(Space { free: free.into(), clusters: clusters.into(), cluster: cluster.into() }.reply())
            }
        }
    }

    fn open(&mut self, client: usize, mode: Mode, path: Payload, loan: Option<&dyn Loan>) -> Result<Message, Refusal> {
        let length = self.copy(path, loan, PATH)?;
        let is_written = mode != Mode::Read;
        let place = self.clients[client].files.iter().position(Option::is_none);
        let entry = match self.volume.file(&self.bytes[..length], false) {
            Err(Refusal::NotFound) if mode == Mode::Create => {
                // A file that could not be opened is not made.
                place.ok_or(Refusal::TooManyFiles)?;
                self.volume.file(&self.bytes[..length], true)?
            }
            entry => entry?,
        };
        if is_written && (entry.is_read_only() || self.volume.disk().is_read_only()) {
            return Err(Refusal::ReadOnly);
        }
        let is_same = |open: &Open| open.entry.is(&entry) && (open.is_written || is_written);
        for (index, other) in self.clients.iter_mut().enumerate() {
            for file in other.files.iter_mut().filter(|file| file.as_ref().is_some_and(is_same)) {
                if index != client {
                    return Err(Refusal::Taken);
                }
                // The client has lost its number, or will: there is no reader beside a writer.
                *file = None;
            }
        }
        let place = self.clients[client].files.iter().position(Option::is_none).ok_or(Refusal::TooManyFiles)?;
        self.serial = self.serial.wrapping_add(1);
        let number = FileNumber::new(place, self.serial);
        self.clients[client].files[place] = Some(Open { number, entry, cursor: Cursor::default(), is_written });
        Ok(opened(number, entry.length))
    }

    fn read(
        &mut self,
        client: usize,
        file: FileNumber,
        offset: u64,
        room: usize,
        loan: Option<&dyn Loan>,
    ) -> Result<Message, Refusal> {
        let open = self.clients[client].open(file)?;
        let loan = loan.ok_or(Refusal::NotLent)?;
        if room > PIECE {
            return Err(Refusal::TooLong);
        }
        if room.checked_add(STAMP).is_none_or(|bytes| bytes > loan.bytes()) {
            return Err(Refusal::NotLent);
        }
        // Nothing is behind the longest file.
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        let read = self.volume.read(&open.entry, &mut open.cursor, offset, &mut self.bytes[..room])?;
        if loan.write(&self.bytes[..read]) { Ok(done(read, open.entry.length)) } else { Err(Refusal::NotLent) }
    }

    fn write(
        &mut self,
        client: usize,
        file: FileNumber,
        offset: u64,
        payload: Payload,
        loan: Option<&dyn Loan>,
    ) -> Result<Message, Refusal> {
        if !self.clients[client].open(file)?.is_written {
            return Err(Refusal::ReadOnly);
        }
        let length = self.copy(payload, loan, PIECE)?;
        let open = self.clients[client].open(file)?;
        self.volume.write(&mut open.entry, &mut open.cursor, offset, &self.bytes[..length])?;
        Ok(done(length, open.entry.length))
    }

    /// Copies a payload, if it is the client's: its length.
    fn copy(&mut self, payload: Payload, loan: Option<&dyn Loan>, most: usize) -> Result<usize, Refusal> {
        let loan = loan.ok_or(Refusal::NotLent)?;
        if payload.length > most {
            return Err(Refusal::TooLong);
        }
        if payload.length + STAMP > loan.bytes() {
            return Err(Refusal::NotLent);
        }
        loan.read(0, &mut self.bytes[..payload.length]);
        // A loan that has ended does not come back, and the memory in its place never has the stamp of a request that was made later.
        if loan.stamp() == payload.stamp { Ok(payload.length) } else { Err(Refusal::NotLent) }
    }
}

impl Client {
    /// The open file with this number.
    fn open(&mut self, number: FileNumber) -> Result<&mut Open, Refusal> {
        let file = self.files.get_mut(number.index()).and_then(Option::as_mut);
        file.filter(|open| open.number == number).ok_or(Refusal::NoFile)
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;

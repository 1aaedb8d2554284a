//! The block server: sectors of a virtio disk, to and from regions that clients lend (`fusee::block`).
//!
//! Handles: region "block", the disk's registers; region "memory" (read, write, physical), of which it has the only handle: 12 KiB for the
//! queue, and room for the data of one request to the disk; interrupt "line", notification "event" that the line signals; endpoint "disk" (to
//! serve), place "loan" (read, write, lent). Parameter: "patience_ms", how long the disk may take for one request; without it, for ever.
//!
//! Data are copied between the loan and the server's own memory, because a client may go away in the middle, and the disk would go on: so it
//! never reaches a client's memory, and a loan may have any length.
//!
//! The server waits for the interrupt, and serves one client after the other, on the budget of the one it serves. A client that goes away
//! meanwhile costs the next one the rest of one piece.
//!
//! # Invariants
//!
//! 1. All bytes that are written to the disk are lent by a client: the stamp is looked at after each copy, and before the disk gets it.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::sync::atomic::{Ordering, fence};
use fusee::block::{self, Geometry, Loan, Operation, Refusal, SECTOR};
use fusee::{
    Environment, Instant, Interrupt, Lent, Message, Nanoseconds, Notification, Place, Region, Server, WaitError,
    environment,
};
use fusee_driver::virtio::{Data, Device, QueueError};
use virtio_drivers::transport::DeviceType;

fusee::entry!(main);

/// Features of a block device (version 1.2, 5.2.3): it can only be read; it can be told to flush.
const READ_ONLY: u64 = 1 << 5;
const FLUSH: u64 = 1 << 9;
/// Where its registers say how many sectors it has.
const CAPACITY: usize = 0;

/// Kinds of requests to the disk (5.2.6), and the kinds of its answers.
const IN: u32 = 0;
const OUT: u32 = 1;
const SYNC: u32 = 4;
/// Bytes that come before the data of a request.
const HEADER: usize = 16;
const GOOD: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

fn main() {
    let environment = environment();
    let mut disk = Disk::open(&environment);
    let place = environment.expect::<Place>("loan");
    let server = Server::new(environment.expect("disk"));
    server.serve(|request| serve(&mut disk, request, &place))
}

fn serve(disk: &mut Disk, request: &fusee::Request, place: &Place) -> Message {
    let (writable, readable) = (request.lent_to_write(place), request.lent(place));
    let loan = readable.as_ref().map(|lent| Loan { bytes: lent.len() as u64, is_writable: writable.is_some() });
    let asked = match block::Request::check(&request.words, &disk.geometry, loan) {
        Ok(asked) => asked,
        Err(refusal) => return block::reply(Err(refusal)),
    };
    match (asked.operation, &readable, &writable) {
        (Operation::Describe, ..) => block::description(&disk.geometry),
        (Operation::Flush, ..) => block::reply(disk.flush()),
        (Operation::Write, Some(lent), _) => block::reply(disk.in_parts(&asked, |disk, first, offset, bytes| {
            lent.copy_to_slice(offset, &mut disk.device.data()[..bytes]);
            is_still_lent(lent, &asked)?;
            disk.transfer(OUT, first, Data::ToDevice(bytes))
        })),
        (Operation::Read, _, Some(lent)) => block::reply(disk.in_parts(&asked, |disk, first, offset, bytes| {
            // A copy whose loan has ended would reach no client.
            is_still_lent(lent, &asked)?;
            disk.transfer(IN, first, Data::FromDevice(bytes))?;
            lent.copy_from_slice(offset, &disk.device.data()[..bytes]);
            Ok(())
        })),
        // The check has looked.
        _ => block::reply(Err(Refusal::NotLent)),
    }
}

/// Whether all bytes read of `lent` so far are the client's, and not the memory that replaces a loan that has ended. That memory never has the stamp
/// of a request that was made later.
fn is_still_lent(lent: &Lent<'_>, asked: &block::Request) -> Result<(), Refusal> {
    // The stamp is read after the copied bytes. A loan that has ended does not come back.
    fence(Ordering::Acquire);
    if lent.read_u64(lent.len() - block::STAMP as usize) == asked.stamp { Ok(()) } else { Err(Refusal::NotLent) }
}

/// The disk, and the objects that report its completions.
struct Disk {
    device: Device,
    geometry: Geometry,
    line: Interrupt,
    event: Notification,
    patience: Option<Nanoseconds>,
}

impl Disk {
    fn open(environment: &Environment) -> Disk {
        let (registers, memory) = (environment.expect::<Region>("block"), environment.expect::<Region>("memory"));
        let device = Device::open(&registers, &memory, DeviceType::Block, READ_ONLY | FLUSH);
        let device = device.expect("the region `block` holds a virtio disk, and `memory` is for it alone");
        let sectors = device.configuration(CAPACITY).expect("a disk says how large it is");
        let patience = environment.parameter("patience_ms").map(|limit| Nanoseconds(limit.saturating_mul(1_000_000)));
        Disk {
            geometry: Geometry { sectors, is_read_only: device.features() & READ_ONLY != 0 },
            device,
            line: environment.expect("line"),
            event: environment.expect("event"),
            patience,
        }
    }

    /// Carries out the request in parts for which there is room: `do_it` gets the first sector of a part, its place in the loan, and its number of
    /// sectors.
    fn in_parts(
        &mut self,
        asked: &block::Request,
        mut do_it: impl FnMut(&mut Disk, u64, usize, usize) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let room = (self.device.capacity() / SECTOR) as u64;
        let (mut first, mut offset, mut left) = (asked.first, asked.offset, asked.sectors);
        while left > 0 {
            let sectors = left.min(room);
            let bytes = sectors as usize * SECTOR;
            do_it(self, first, offset, bytes)?;
            first += sectors;
            offset += bytes;
            left -= sectors;
        }
        Ok(())
    }

    /// Writes the disk's cache back. A disk that cannot flush keeps nothing back.
    fn flush(&mut self) -> Result<(), Refusal> {
        if self.device.features() & FLUSH == 0 { Ok(()) } else { self.transfer(SYNC, 0, Data::None) }
    }

    /// One request to the disk, and its end.
    fn transfer(&mut self, kind: u32, first: u64, data: Data) -> Result<(), Refusal> {
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&first.to_le_bytes());
        self.device.start(0, &header, data, 1).map_err(lost)?;
        let deadline = self.patience.map_or(Instant::NEVER, |patience| fusee::now().now + patience);
        let completion = loop {
            match self.event.wait(deadline) {
                Ok(_) => {}
                Err(WaitError::TimedOut) => {
                    self.device.switch_off();
                    return Err(Refusal::Lost);
                }
                Err(error) => panic!("the driver may wait for its device: {error:?}"),
            }
            // In this order: a completion after the line is acknowledged signals again.
            self.device.silence();
            let _ = self.line.acknowledge();
            if let Some(completion) = self.device.finish().map_err(lost)? {
                break completion;
            }
        };
        judge(data, completion.written, completion.answer[0])
    }
}

fn lost(_: QueueError) -> Refusal {
    Refusal::Lost
}

/// Judges an answer of the disk: an answer that reports success without having written all bytes counts as no answer.
fn judge(data: Data, written: u32, status: u8) -> Result<(), Refusal> {
    let wanted = match data {
        Data::FromDevice(bytes) | Data::Through(bytes) => bytes as u64 + 1,
        Data::None | Data::ToDevice(_) => 1,
    };
    match status {
        GOOD if u64::from(written) == wanted => Ok(()),
        IO_ERROR => Err(Refusal::Failed),
        UNSUPPORTED => Err(Refusal::Unsupported),
        _ => Err(Refusal::Lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_says_it_is_good_and_has_not_written_all_is_not_believed() {
        assert_eq!(judge(Data::FromDevice(512), 513, GOOD), Ok(()));
        assert_eq!(judge(Data::FromDevice(512), 512, GOOD), Err(Refusal::Lost));
        assert_eq!(judge(Data::FromDevice(512), u32::MAX, GOOD), Err(Refusal::Lost));
        assert_eq!(judge(Data::ToDevice(512), 1, GOOD), Ok(()));
        assert_eq!(judge(Data::ToDevice(512), 0, GOOD), Err(Refusal::Lost));
    }

    #[test]
    fn each_answer_has_a_meaning_and_others_have_none() {
        assert_eq!(judge(Data::None, 1, IO_ERROR), Err(Refusal::Failed));
        assert_eq!(judge(Data::None, 1, UNSUPPORTED), Err(Refusal::Unsupported));
        for status in 3..=u8::MAX {
            assert_eq!(judge(Data::None, 1, status), Err(Refusal::Lost));
        }
    }
}

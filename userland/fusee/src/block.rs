//! Disks: the requests of a client to a block server, and their checks in the server.
//!
//! A request lends a region ([`Endpoint::call_lending`]) and says which sectors go from there to the disk, or come from the disk to there.
//! So one request may carry up to eight megabytes, and none of them in words.
//!
//! | Word | Request | Reply |
//! |---|---|---|
//! | 0 | the [`Operation`] | zero, or a code of [`Refusal`] |
//! | 1 | the first sector | of [`Operation::Describe`]: sectors of the disk |
//! | 2 | how many | of [`Operation::Describe`]: one if the disk can only be read |
//! | 3 | where they are in the region that is lent: bytes from its start | |
//! | 4 | the stamp | |
//!
//! A loan ends when the client's deadline passes, or the client ends, and the server is not told: it finds other memory at the same place, and would write
//! that to the disk. So the client puts a **stamp**, a number that it has not used before, into the last eight bytes of its region, and says it in the
//! request. A server that has copied sectors, and then still finds the stamp, has copied the client's own bytes.
//!
//! A client may send anything: [`Request::check`] is all that a server needs to believe it.

use crate::again::{After, Again};
use crate::{CallLendingError, Endpoint, Instant, Message, Nanoseconds, Region, Rights, now};

/// Bytes of a sector, the unit of everything here.
pub const SECTOR: usize = 512;

/// Where in a region sectors may begin: at multiples of so many bytes.
pub const ALIGNMENT: u64 = 8;

/// Bytes at the end of a region that are for the stamp, and not for sectors.
pub const STAMP: u64 = 8;

/// An operation that a server is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Operation {
    /// Say how large the disk is.
    Describe = 0,
    /// Copy sectors from the disk to the region that is lent.
    Read = 1,
    /// Copy sectors from the region that is lent to the disk.
    Write = 2,
    /// Wait until all that was written before would outlive a loss of power.
    Flush = 3,
}

/// The reason for which a server refused a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Refusal {
    /// The request has no meaning: no such operation, or a reply that no server of this crate would give.
    Malformed = 1,
    /// The request is about no sector at all.
    NoSectors = 2,
    /// Some of the sectors are beyond the end of the disk.
    BeyondEnd = 3,
    /// No region is lent with it, or one to be read that would have to be written, or one without the stamp.
    NotLent = 4,
    /// The sectors do not lie in the region that is lent, before its last [`STAMP`] bytes, or do not begin at a multiple of [`ALIGNMENT`].
    OutsideRegion = 5,
    /// The disk can only be read.
    ReadOnly = 6,
    /// The disk tried, and failed. Some of the sectors may have been read or written.
    Failed = 7,
    /// The disk cannot do this.
    Unsupported = 8,
    /// The disk gave an answer that makes no sense, or none in time. It is switched off; operations under way may have been done or not.
    Lost = 9,
}

impl Refusal {
    const ALL: [Refusal; 9] = [
        Refusal::Malformed,
        Refusal::NoSectors,
        Refusal::BeyondEnd,
        Refusal::NotLent,
        Refusal::OutsideRegion,
        Refusal::ReadOnly,
        Refusal::Failed,
        Refusal::Unsupported,
        Refusal::Lost,
    ];

    fn from_code(code: u64) -> Refusal {
        Refusal::ALL.into_iter().find(|refusal| *refusal as u64 == code).unwrap_or(Refusal::Malformed)
    }
}

/// A disk, as its server knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Geometry {
    /// How many sectors it has.
    pub sectors: u64,
    /// Whether it can only be read.
    pub is_read_only: bool,
}

/// The region lent with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Loan {
    /// The length of the region.
    pub bytes: u64,
    /// Whether the server may write there.
    pub is_writable: bool,
}

/// A request that was checked: its sectors are on the disk and, if it is about any, in the region that is lent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// The operation to be done.
    pub operation: Operation,
    /// The first sector.
    pub first: u64,
    /// How many.
    pub sectors: u64,
    /// Where they are in the region that is lent: bytes from its start.
    pub offset: usize,
    /// The number in the last bytes of the region as long as it is lent.
    pub stamp: u64,
}

impl Request {
    /// The request in `words` of any origin to this disk, if that can be done.
    ///
    /// # Errors
    /// [`Refusal`] is the answer for the client.
    pub fn check(words: &Message, disk: &Geometry, loan: Option<Loan>) -> Result<Request, Refusal> {
        let [operation, first, sectors, offset, stamp, _] = *words;
        let without_sectors = |operation| Ok(Request { operation, first: 0, sectors: 0, offset: 0, stamp: 0 });
        let (operation, is_written) = match operation {
            0 => return without_sectors(Operation::Describe),
            1 => (Operation::Read, false),
            2 => (Operation::Write, true),
            3 => return without_sectors(Operation::Flush),
            _ => return Err(Refusal::Malformed),
        };
        if sectors == 0 {
            return Err(Refusal::NoSectors);
        }
        if first.checked_add(sectors).is_none_or(|end| end > disk.sectors) {
            return Err(Refusal::BeyondEnd);
        }
        if is_written && disk.is_read_only {
            return Err(Refusal::ReadOnly);
        }
        let loan = loan.filter(|loan| is_written || loan.is_writable).ok_or(Refusal::NotLent)?;
        let end = sectors.checked_mul(SECTOR as u64).and_then(|bytes| bytes.checked_add(offset));
        if !offset.is_multiple_of(ALIGNMENT) || end.is_none_or(|end| end > loan.bytes.saturating_sub(STAMP)) {
            return Err(Refusal::OutsideRegion);
        }
        let offset = usize::try_from(offset).map_err(|_| Refusal::OutsideRegion)?;
        Ok(Request { operation, first, sectors, offset, stamp })
    }
}

/// The reply to a request.
#[must_use]
pub fn reply(result: Result<(), Refusal>) -> Message {
    [result.map_or_else(|refusal| refusal as u64, |()| 0), 0, 0, 0, 0, 0]
}

/// The reply to [`Operation::Describe`].
#[must_use]
pub fn description(disk: &Geometry) -> Message {
    [0, disk.sectors, disk.is_read_only.into(), 0, 0, 0]
}

/// The reason for which a disk did not serve a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DiskError {
    /// The server answered that it did not.
    Refused(Refusal),
    /// The server did not answer. If the deadline passed first, it goes on: sectors may be written yet, but sectors that are read reach the
    /// region no more.
    Call(CallLendingError),
}

impl DiskError {
    fn after(&self) -> After {
        match self {
            DiskError::Call(error) => After::from(error),
            DiskError::Refused(_) => After::Nothing,
        }
    }
}

/// A disk, as a client has it.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    server: Endpoint,
    geometry: Geometry,
    again: Again,
}

impl Disk {
    /// Asks `server` which disk it has.
    ///
    /// # Errors
    /// [`DiskError`] says why that is not known.
    pub fn open(server: Endpoint, deadline: Instant) -> Result<Disk, DiskError> {
        let words = plain(&server, Operation::Describe, deadline)?;
        let geometry = Geometry { sectors: words[1], is_read_only: words[2] != 0 };
        Ok(Disk { server, geometry, again: Again::NOT })
    }

    /// As [`Disk::open`], beside a server that has [further lives](crate::life), as [`Disk::again`] has it.
    ///
    /// # Errors
    /// [`DiskError`] says why the last try brought no answer.
    pub fn open_again(server: Endpoint, times: u32, pause: Nanoseconds, deadline: Instant) -> Result<Disk, DiskError> {
        let again = Again { times, pause };
        let disk = again.make(deadline, || Disk::open(server, deadline), DiskError::after)?;
        Ok(Disk { again, ..disk })
    }

    /// The disk, beside a server that has [further lives](crate::life): a request that is not served because the server has died, or has begun
    /// another life, is made again, `times` times at most, until the deadline in all. Between two tries lies `pause`, of the sort that a supervisor's
    /// delay is.
    ///
    /// To read or to write twice does no harm. Sectors that were written before and not flushed are as after any death of the server: the disk has
    /// them.
    #[must_use]
    pub fn again(self, times: u32, pause: Nanoseconds) -> Disk {
        Disk { again: Again { times, pause }, ..self }
    }

    /// How many sectors it has.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.geometry.sectors
    }

    /// Whether it can only be read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.geometry.is_read_only
    }

    /// Reads `sectors` sectors from `first` on to `memory`, `offset` bytes from its start. Its last [`STAMP`] bytes are overwritten.
    ///
    /// # Errors
    /// [`DiskError`] says why not. Some of `memory` may have been written.
    pub fn read(
        &self,
        first: u64,
        sectors: u64,
        memory: &Region,
        offset: u64,
        deadline: Instant,
    ) -> Result<(), DiskError> {
        let words = [Operation::Read as u64, first, sectors, offset, stamp(memory)?, 0];
        self.lend(words, memory, Rights::READ | Rights::WRITE, deadline)
    }

    /// Writes `sectors` sectors from `first` on, which are in `memory`, `offset` bytes from its start. Its last [`STAMP`] bytes are overwritten, so
    /// this task needs the right to write there.
    ///
    /// # Errors
    /// [`DiskError`] says why not. Some of the sectors may have been written, and the others are as they were.
    pub fn write(
        &self,
        first: u64,
        sectors: u64,
        memory: &Region,
        offset: u64,
        deadline: Instant,
    ) -> Result<(), DiskError> {
        let words = [Operation::Write as u64, first, sectors, offset, stamp(memory)?, 0];
        self.lend(words, memory, Rights::READ, deadline)
    }

    /// Waits until all that was written before would outlive a loss of power.
    ///
    /// # Errors
    /// [`DiskError`] says why that is not known.
    pub fn flush(&self, deadline: Instant) -> Result<(), DiskError> {
        self.again.make(deadline, || plain(&self.server, Operation::Flush, deadline).map(drop), DiskError::after)
    }

    fn lend(&self, words: Message, memory: &Region, rights: Rights, deadline: Instant) -> Result<(), DiskError> {
        let lend = || {
            let answer = self.server.call_lending(words, memory, rights, deadline).map_err(DiskError::Call)?;
            accepted(&answer.words)
        };
        self.again.make(deadline, lend, DiskError::after)
    }
}

/// Puts a stamp into a region: the present time, which it never was before.
fn stamp(memory: &Region) -> Result<u64, DiskError> {
    let shared = memory.shared();
    let last = shared.len().checked_sub(STAMP as usize).ok_or(DiskError::Refused(Refusal::NotLent))?;
    let stamp = now().now.0;
    shared.write_u64(last, stamp);
    Ok(stamp)
}

/// Makes a request that needs no region.
fn plain(server: &Endpoint, operation: Operation, deadline: Instant) -> Result<Message, DiskError> {
    let words =
        server.call([operation as u64, 0, 0, 0, 0, 0], deadline).map_err(|error| DiskError::Call(error.into()))?;
    accepted(&words)?;
    Ok(words)
}

fn accepted(words: &Message) -> Result<(), DiskError> {
    match words[0] {
        0 => Ok(()),
        code => Err(DiskError::Refused(Refusal::from_code(code))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DISK: Geometry = Geometry { sectors: 1000, is_read_only: false };
    const LOAN: Option<Loan> = Some(Loan { bytes: 8192 + STAMP, is_writable: true });

    fn asked(words: [u64; 4], disk: &Geometry, loan: Option<Loan>) -> Result<Request, Refusal> {
        let [operation, first, sectors, offset] = words;
        Request::check(&[operation, first, sectors, offset, 7, 0], disk, loan)
    }

    #[test]
    fn what_fits_exactly_is_accepted_and_one_more_is_not() {
        let request = Request { operation: Operation::Read, first: 984, sectors: 16, offset: 0, stamp: 7 };
        assert_eq!(asked([1, 984, 16, 0], &DISK, LOAN), Ok(request));
        assert_eq!(asked([1, 985, 16, 0], &DISK, LOAN), Err(Refusal::BeyondEnd));
        assert_eq!(asked([1, 0, 17, 0], &DISK, LOAN), Err(Refusal::OutsideRegion));
        assert_eq!(asked([1, 0, 16, 8], &DISK, LOAN), Err(Refusal::OutsideRegion));
        assert_eq!(asked([1, 0, 1, 4], &DISK, LOAN), Err(Refusal::OutsideRegion));
        assert_eq!(asked([1, 0, 0, 0], &DISK, LOAN), Err(Refusal::NoSectors));
        assert_eq!(asked([4, 0, 1, 0], &DISK, LOAN), Err(Refusal::Malformed));
    }

    #[test]
    fn sums_that_overflow_are_no_small_numbers() {
        assert_eq!(asked([2, u64::MAX, 2, 0], &DISK, LOAN), Err(Refusal::BeyondEnd));
        let endless = Geometry { sectors: u64::MAX, is_read_only: false };
        assert_eq!(asked([2, 0, 1 << 55, 0], &endless, LOAN), Err(Refusal::OutsideRegion));
        assert_eq!(asked([2, 0, 1, u64::MAX - 7], &endless, LOAN), Err(Refusal::OutsideRegion));
    }

    #[test]
    fn what_is_read_needs_a_loan_to_write_and_what_is_written_one_to_read() {
        let readable = Some(Loan { bytes: 8192, is_writable: false });
        assert_eq!(asked([1, 0, 1, 0], &DISK, readable), Err(Refusal::NotLent));
        assert_eq!(asked([1, 0, 1, 0], &DISK, None), Err(Refusal::NotLent));
        assert!(asked([2, 0, 1, 0], &DISK, readable).is_ok());
        assert_eq!(asked([2, 0, 1, 0], &DISK, None), Err(Refusal::NotLent));
        let read_only = Geometry { is_read_only: true, ..DISK };
        assert_eq!(asked([2, 0, 1, 0], &read_only, LOAN), Err(Refusal::ReadOnly));
    }

    #[test]
    fn a_refusal_survives_its_reply_and_an_unknown_code_is_malformed() {
        for refusal in Refusal::ALL {
            assert_eq!(accepted(&reply(Err(refusal))), Err(DiskError::Refused(refusal)));
        }
        assert_eq!(accepted(&reply(Ok(()))), Ok(()));
        assert_eq!(accepted(&[77, 0, 0, 0, 0, 0]), Err(DiskError::Refused(Refusal::Malformed)));
    }

    /// Numbers around the ends, and any others.
    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![0..2_000u64, any::<u64>(), (0..2_000u64).prop_map(|below| u64::MAX - below)]
    }

    proptest! {
        /// A hostile client with any words: an accepted request lies on the disk and in the client's own region, and may be done.
        #[test]
        fn what_is_accepted_lies_on_the_disk_and_in_the_loan(
            operation in prop_oneof![0..5u64, any::<u64>()],
            first in number(), sectors in number(), offset in number(),
            size in number(), is_read_only: bool,
            bytes in number(), is_writable: bool, is_lent: bool,
        ) {
            let disk = Geometry { sectors: size, is_read_only };
            let loan = is_lent.then_some(Loan { bytes, is_writable });
            let Ok(request) = asked([operation, first, sectors, offset], &disk, loan) else { return Ok(()) };
            match request.operation {
                Operation::Describe | Operation::Flush => prop_assert_eq!(request.sectors, 0),
                Operation::Read | Operation::Write => {
                    let wide = |number: u64| u128::from(number);
                    prop_assert!(request.sectors > 0 && wide(request.first) + wide(request.sectors) <= wide(size));
                    prop_assert!(request.offset as u128 + wide(request.sectors) * 512 + wide(STAMP) <= wide(bytes) && is_lent);
                    let may = if request.operation == Operation::Write { !is_read_only } else { is_writable };
                    prop_assert!(may);
                }
            }
        }
    }
}

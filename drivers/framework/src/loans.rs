//! The payload of a request: a region that its client lends, with a number in its last bytes by which both know that they mean one request.

use core::sync::atomic::{Ordering, fence};

use fusee::{Environment, Lent, LentToWrite, Place, Request};

use crate::places;

/// Bytes of the number at the end of a payload.
const STAMP: usize = size_of::<u64>();

/// A region that is lent with a request.
pub trait Loan {
    /// Its bytes.
    fn bytes(&self) -> usize;
    /// Copies bytes from it, from `offset` on.
    fn read(&self, offset: usize, bytes: &mut [u8]);
    /// Copies bytes to its beginning. False if it cannot be written.
    fn write(&self, bytes: &[u8]) -> bool;
    /// The number in its last bytes.
    fn stamp(&self) -> u64;
}

/// The region that a request lends.
#[derive(Debug)]
pub struct Lease<'request> {
    lent: Lent<'request>,
    to_write: Option<LentToWrite<'request>>,
}

impl Loan for Lease<'_> {
    fn bytes(&self) -> usize {
        self.lent.len()
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.lent.copy_to_slice(offset, bytes);
        // The stamp is read after the copied bytes.
        fence(Ordering::Acquire);
    }

    fn write(&self, bytes: &[u8]) -> bool {
        self.to_write.as_ref().map(|lent| lent.copy_from_slice(0, bytes)).is_some()
    }

    fn stamp(&self) -> u64 {
        self.lent.len().checked_sub(STAMP).map_or(0, |last| self.lent.read_u64(last))
    }
}

/// The places for regions that clients lend, at most one for each of `CLIENTS`: `loan.CLIENT`, or `loan` where one of many clients has none of its own.
#[derive(Debug)]
pub struct Loans<const CLIENTS: usize>([Option<Place>; CLIENTS]);

impl<const CLIENTS: usize> Loans<CLIENTS> {
    /// The places that the manifest gives.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        let of_clients = places(environment, "loan.").map(|(_, place)| place);
        let mut all = of_clients.chain(environment.get("loan").ok());
        Loans([const { None }; CLIENTS].map(|_: Option<Place>| all.next()))
    }

    /// The region that `request` lends, if it lends one.
    #[must_use]
    pub fn lease<'request>(&self, request: &'request Request) -> Option<Lease<'request>> {
        let mut places = self.0.iter().flatten();
        places.find_map(|place| Some(Lease { lent: request.lent(place)?, to_write: request.lent_to_write(place) }))
    }
}

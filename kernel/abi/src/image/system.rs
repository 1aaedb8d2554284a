//! The reader of a packed system: header and tables are checked once and then read in place.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::{
    Cluster, Endpoint, Engine, EngineUser, Handle, Header, Interrupt, MAGIC, Mapping, Notification, Pool, PoolUser,
    RECORDS, Region, Reservation, Stream, Table, Task, VERSION,
};

/// A packed system, checked once and then read in place.
#[derive(Clone, Copy)]
pub struct System<'a> {
    bytes: &'a [u8],
    header: &'a Header,
    clusters: &'a [Cluster],
    tasks: &'a [Task],
    reservations: &'a [Reservation],
    endpoints: &'a [Endpoint],
    notifications: &'a [Notification],
    engines: &'a [Engine],
    engine_users: &'a [EngineUser],
    interrupts: &'a [Interrupt],
    regions: &'a [Region],
    handles: &'a [Handle],
    mappings: &'a [Mapping],
    pools: &'a [Pool],
    pool_users: &'a [PoolUser],
    shared_users: &'a [EngineUser],
    streams: &'a [Stream],
}

/// Why bytes are not a packed system.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ImageError {
    /// Too short, or not aligned to eight bytes.
    Truncated,
    /// The first word is not [`MAGIC`].
    NotAnImage,
    /// Written for another [`VERSION`].
    OtherVersion(u32),
    /// A table leaves the image or is not aligned.
    BadTable(usize),
}

/// The checksum of the packed system `bytes`, whose length is a multiple of 8. The header's own checksum word is left out. Each step is
/// reversible, so two systems that differ in a single 8-byte word have different checksums.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    let own = core::mem::offset_of!(Header, checksum) / 8;
    let (before, rest) = words.split_at(own.min(words.len()));
    let after = rest.get(1..).unwrap_or_default();
    let step = |sum: u64, word: &[u8; 8]| {
        (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    [before, after].into_iter().flatten().fold(words.len() as u64, step)
}

/// Gives a packed system that was changed, and the programs behind it, the checksum that fits. `None`: it is too short.
pub fn seal(bytes: &mut [u8]) -> Option<()> {
    let length = Header::ref_from_prefix(bytes).ok()?.0.bytes;
    let sum = checksum(bytes.get(..usize::try_from(length).ok()?)?);
    Header::mut_from_prefix(bytes).ok()?.0.checksum = sum;
    Some(())
}

/// Finds the records of `table`.
fn table<'a, T: FromBytes + Immutable + KnownLayout>(
    bytes: &'a [u8],
    header: &Header,
    table: Table,
) -> Result<&'a [T], ImageError> {
    let span = header.tables[table as usize];
    let rest = bytes.get(span.offset as usize..);
    let records = rest.and_then(|rest| <[T]>::ref_from_prefix_with_elems(rest, span.count as usize).ok());
    records.map(|(records, _)| records).ok_or(ImageError::BadTable(table as usize))
}

impl<'a> System<'a> {
    /// Whether length and checksum of the packed system are those in its header. The kernel checks this at boot: afterwards tasks may
    /// write to data in these bytes, and the checksum need not fit any more.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.header.bytes == self.bytes.len() as u64 && checksum(self.bytes) == self.header.checksum
    }

    /// Checks header and tables of `bytes`.
    ///
    /// # Errors
    /// [`ImageError`] names the first fault.
    pub fn parse(bytes: &'a [u8]) -> Result<System<'a>, ImageError> {
        let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| ImageError::Truncated)?;
        if header.magic != MAGIC {
            return Err(ImageError::NotAnImage);
        }
        if header.version != VERSION {
            return Err(ImageError::OtherVersion(header.version));
        }
        Ok(System {
            bytes,
            header,
            clusters: table(bytes, header, Table::Clusters)?,
            tasks: table(bytes, header, Table::Tasks)?,
            reservations: table(bytes, header, Table::Reservations)?,
            endpoints: table(bytes, header, Table::Endpoints)?,
            notifications: table(bytes, header, Table::Notifications)?,
            engines: table(bytes, header, Table::Engines)?,
            engine_users: table(bytes, header, Table::EngineUsers)?,
            interrupts: table(bytes, header, Table::Interrupts)?,
            regions: table(bytes, header, Table::Regions)?,
            handles: table(bytes, header, Table::Handles)?,
            mappings: table(bytes, header, Table::Mappings)?,
            pools: table(bytes, header, Table::Pools)?,
            pool_users: table(bytes, header, Table::PoolUsers)?,
            shared_users: table(bytes, header, Table::SharedUsers)?,
            streams: table(bytes, header, Table::Streams)?,
        })
    }

    /// The bytes of all records of `table`.
    #[must_use]
    pub fn records(&self, table: Table) -> &'a [u8] {
        let span = self.header.tables[table as usize];
        let bytes = span.count as usize * usize::from(RECORDS[table as usize]);
        self.bytes.get(span.offset as usize..).and_then(|rest| rest.get(..bytes)).unwrap_or_default()
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &'a Header {
        self.header
    }

    /// All bytes, from the header on.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The clusters.
    #[must_use]
    pub fn clusters(&self) -> &'a [Cluster] {
        self.clusters
    }

    /// The tasks.
    #[must_use]
    pub fn tasks(&self) -> &'a [Task] {
        self.tasks
    }

    /// The reservations.
    #[must_use]
    pub fn reservations(&self) -> &'a [Reservation] {
        self.reservations
    }

    /// The endpoints.
    #[must_use]
    pub fn endpoints(&self) -> &'a [Endpoint] {
        self.endpoints
    }

    /// The notifications.
    #[must_use]
    pub fn notifications(&self) -> &'a [Notification] {
        self.notifications
    }

    /// The engines.
    #[must_use]
    pub fn engines(&self) -> &'a [Engine] {
        self.engines
    }

    /// The uses that tasks make of engines.
    #[must_use]
    pub fn engine_users(&self) -> &'a [EngineUser] {
        self.engine_users
    }

    /// The uses that tasks make of engines without their locks: their doorbells are mapped from the start. Those of an engine with a sharer follow
    /// each other.
    #[must_use]
    pub fn shared_users(&self) -> &'a [EngineUser] {
        self.shared_users
    }

    /// The pools of tokens.
    #[must_use]
    pub fn pools(&self) -> &'a [Pool] {
        self.pools
    }

    /// The uses that tasks make of pools.
    #[must_use]
    pub fn pool_users(&self) -> &'a [PoolUser] {
        self.pool_users
    }

    /// The interrupts.
    #[must_use]
    pub fn interrupts(&self) -> &'a [Interrupt] {
        self.interrupts
    }

    /// The regions.
    #[must_use]
    pub fn regions(&self) -> &'a [Region] {
        self.regions
    }

    /// The handles of all tasks.
    #[must_use]
    pub fn handles(&self) -> &'a [Handle] {
        self.handles
    }

    /// The devices with translated addresses.
    #[must_use]
    pub fn streams(&self) -> &'a [Stream] {
        self.streams
    }

    /// The pages of all tasks, and of these devices.
    #[must_use]
    pub fn mappings(&self) -> &'a [Mapping] {
        self.mappings
    }
}

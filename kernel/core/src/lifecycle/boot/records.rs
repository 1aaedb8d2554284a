//! The checks of a packed system's records that concern one field each: one list of fields, and one loop over it.
//!
//! `boot` then reads the fields without looking again. Checks of several fields or records together are its own.

use core::mem::offset_of;

use fusee_abi::image::{
    Cluster, Endpoint, Engine, EngineUser, Handle, Interrupt, Notification, Pool, PoolUser, RECORDS, Reservation,
    System, TABLES, Table, Task,
};

use super::BootError;
use crate::limits::{
    CLUSTERS, ENDPOINTS, ENGINE_USERS, ENGINES, GROUPS, HANDLES, INTERRUPTS, NOTIFICATIONS, POOL_REPLICAS, POOL_USERS,
    POOLS, REGIONS, THREADS,
};

/// Records of each table, at most. Tables of which the kernel keeps no objects have no limit.
static LIMITS: [u16; TABLES] = [
    CLUSTERS as u16,
    THREADS as u16,
    THREADS as u16,
    ENDPOINTS as u16,
    NOTIFICATIONS as u16,
    ENGINES as u16,
    ENGINE_USERS as u16,
    INTERRUPTS as u16,
    REGIONS as u16,
    u16::MAX,
    u16::MAX,
    POOLS as u16,
    POOL_USERS as u16,
    u16::MAX,
    u16::MAX,
];

/// The name of the records of the table with this index, if they have a limit.
fn name(table: usize) -> &'static str {
    match table {
        0 => "clusters",
        1 => "tasks",
        2 => "reservations",
        3 => "endpoints",
        4 => "notifications",
        5 => "engines",
        6 => "engine users",
        7 => "interrupts",
        8 => "regions",
        11 => "pools",
        _ => "pool users",
    }
}

/// A field of 32 bits in each record of a table.
struct Field {
    table: Table,
    at: u8,
    largest: Largest,
    fault: Fault,
}

/// The largest value of a field.
#[derive(Clone, Copy)]
enum Largest {
    /// The index of the last record of this table.
    IndexOf(Table),
    /// The number of records of this table: the field is an index + 1, or zero.
    NumberOf(Table),
    /// The index of the last CPU of the system.
    Cpu,
    /// This value.
    Value(u16),
}

/// Errors for a value that is too large. From the tokens on, there are too many of something.
#[derive(Clone, Copy)]
enum Fault {
    Cluster,
    Endpoint,
    Notification,
    Interrupt,
    Engine,
    EngineUser,
    Pool,
    Measure,
    PoolUser,
    Handle,
    Reservation,
    Task,
    Tokens,
    Queue,
    Queues,
    Slots,
    Backlog,
}

impl Fault {
    fn error(self) -> BootError {
        let name = match self {
            Fault::Cluster => "cluster",
            Fault::Endpoint => "endpoint",
            Fault::Notification => "notification",
            Fault::Interrupt => "interrupt",
            Fault::Engine => "engine",
            Fault::EngineUser => "engine user",
            Fault::Pool => "pool",
            Fault::Measure => "measure",
            Fault::PoolUser => "pool user",
            Fault::Handle => "handle",
            Fault::Reservation => "reservation",
            Fault::Task => "task",
            Fault::Tokens => "tokens of a pool",
            Fault::Queue => "requests in a queue",
            Fault::Queues => "requests in all queues",
            Fault::Slots => "handles of a task",
            Fault::Backlog => "queued releases",
        };
        if self as u8 >= Fault::Tokens as u8 { BootError::TooMany(name) } else { BootError::Dangling(name) }
    }
}

/// Checks the number of records of each table, and all fields.
///
/// # Errors
/// The first fault that is found.
#[inline(never)]
pub(super) fn check(system: &System<'_>) -> Result<(), BootError> {
    let counts = system.header().tables.map(|span| span.count);
    for (table, (count, limit)) in counts.iter().zip(&LIMITS).enumerate() {
        if *limit != u16::MAX && *count > u32::from(*limit) {
            return Err(BootError::TooMany(name(table)));
        }
    }
    for field in &FIELDS {
        let bound = match field.largest {
            Largest::IndexOf(table) => counts[table as usize],
            Largest::NumberOf(table) => counts[table as usize] + 1,
            Largest::Cpu => system.header().cpus,
            Largest::Value(value) => u32::from(value) + 1,
        };
        let records = system.records(field.table);
        debug_assert!(
            usize::from(field.at) + 4 <= usize::from(RECORDS[field.table as usize]),
            "a field is in its record"
        );
        for record in records.chunks_exact(usize::from(RECORDS[field.table as usize])) {
            let value = record.get(usize::from(field.at)..).and_then(|rest| rest.first_chunk().copied());
            if value.is_none_or(|value| u32::from_le_bytes(value) >= bound) {
                return Err(field.fault.error());
            }
        }
    }
    Ok(())
}

macro_rules! field {
    ($table:ident, $record:ident.$field:ident, $largest:expr, $fault:ident) => {
        Field { table: Table::$table, at: offset_of!($record, $field) as u8, largest: $largest, fault: Fault::$fault }
    };
}

use Largest::{Cpu, IndexOf, NumberOf, Value};

/// The fields that are indices, and those with few values.
static FIELDS: [Field; 31] = [
    field!(Clusters, Cluster.policy, Value(4), Cluster),
    field!(Endpoints, Endpoint.server, IndexOf(Table::Tasks), Endpoint),
    field!(Notifications, Notification.bound_plus_one, NumberOf(Table::Tasks), Notification),
    field!(Interrupts, Interrupt.notification, IndexOf(Table::Notifications), Interrupt),
    field!(Interrupts, Interrupt.cpu, Cpu, Interrupt),
    field!(Engines, Engine.order, Value(1), Engine),
    field!(Engines, Engine.group_plus_one, Value(GROUPS as u16), Engine),
    field!(Engines, Engine.pool_plus_one, NumberOf(Table::Pools), Engine),
    field!(Engines, Engine.first_token, Value(u8::MAX as u16), Engine),
    field!(Engines, Engine.tokens, Value(u8::MAX as u16), Engine),
    field!(Engines, Engine.interrupt_plus_one, NumberOf(Table::Interrupts), Engine),
    field!(Engines, Engine.sharer_plus_one, NumberOf(Table::Endpoints), Engine),
    field!(EngineUsers, EngineUser.engine, IndexOf(Table::Engines), EngineUser),
    field!(EngineUsers, EngineUser.task, IndexOf(Table::Tasks), EngineUser),
    field!(Pools, Pool.cluster, IndexOf(Table::Clusters), Pool),
    field!(Pools, Pool.replicas, Value(POOL_REPLICAS as u16), Tokens),
    field!(Pools, Pool.limit, Value(u16::MAX), Queue),
    field!(Pools, Pool.total_limit, Value(u16::MAX), Queues),
    field!(Pools, Pool.measure, Value(1), Measure),
    field!(PoolUsers, PoolUser.pool, IndexOf(Table::Pools), PoolUser),
    field!(PoolUsers, PoolUser.task, IndexOf(Table::Tasks), PoolUser),
    field!(Handles, Handle.task, IndexOf(Table::Tasks), Handle),
    field!(Handles, Handle.slot, Value(HANDLES as u16 - 1), Slots),
    field!(Handles, Handle.rights, Value(u16::MAX), Handle),
    field!(Reservations, Reservation.task, IndexOf(Table::Tasks), Reservation),
    field!(Reservations, Reservation.cluster, IndexOf(Table::Clusters), Reservation),
    field!(Reservations, Reservation.class, Value(2), Reservation),
    field!(Reservations, Reservation.release, Value(2), Reservation),
    field!(Reservations, Reservation.overrun, Value(2), Reservation),
    field!(Reservations, Reservation.backlog, Value(u8::MAX as u16), Backlog),
    field!(Tasks, Task.cluster, IndexOf(Table::Clusters), Task),
];

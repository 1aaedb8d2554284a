//! Systems that the kernel refuses to boot: each field of a packed system that names a missing object, counts more than there is room for, or means
//! nothing.
//!
//! `tools/manifest` packs none of this. A system that is damaged, or packed by something else, must be refused and not half believed.

use std::mem::offset_of;

use fusee_abi::image::{
    Cluster, Endpoint, Engine, EngineUser, Handle, Header, Interrupt, Notification, Pool, PoolUser, Reservation,
    System, Table, Task,
};
use fusee_kernel_core::{BootError, limits};
use fusee_manifest::PackOptions;
use fusee_simulator::{Program, Simulation, SimulationError};
use zerocopy::IntoBytes;

use super::common::*;

/// A system with something of each kind: 2 clusters, 9 tasks, 2 pools, 3 engines.
fn text() -> String {
    let device = Device {
        engines: &[("ee", "shared_longest = \"1ms\"\nsharer = \"requests\"\nwatchdog = \"50ms\"")],
        ..Device::GPU
    };
    "[system]\nname = \"all\"\nboard = \"virt\"\ncpus = 3\nstart = \"10ms\"\nadmission = \"warn\"\n\
     [clusters.all]\ncpus = [0, 1]\n[clusters.other]\ncpus = [2]\n\
     [tasks.client]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n\
     handles = { pool = \"pool pool: acquire\", desk = \"endpoint desk: call\", lock = \"engine lock: acquire\", ee = \"engine ee: acquire\" }\nuses = { pool = { cpu = \"1us\" } }\n\
     [tasks.second]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nrelease = \"sporadic\"\nperiod = \"10ms\"\nbudget = \"1ms\"\nbacklog = 3\n\
     handles = { pool = \"pool pool: acquire\", lock = \"engine lock: acquire\" }\nuses = { pool = { cpu = \"1us\" } }\n\
     [tasks.starter]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nclass = \"background\"\nhandles = { second = \"task second: release_job\" }\n\
     [tasks.abroad]\nscript = [\"burn 1us\"]\ncluster = \"other\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n\
     handles = { pool = \"pool far: acquire\", lock = \"engine own: acquire\" }\n\
     [tasks.rider]\nscript = [\"burn 1us\"]\ncluster = \"other\"\nclass = \"background\"\nhandles = { ee = \"engine ee: share\" }\n\
     [tasks.server]\nscript = [\"serve desk\"]\ncluster = \"all\"\nhandles = { desk = \"endpoint desk: receive\", event = \"notification event: wait\" }\n\
     [tasks.sharer]\nbinary = \"sharer/sharer\"\ncluster = \"all\"\nhandles = { requests = \"endpoint requests: receive\" }\n\
     [tasks.signaller]\nscript = [\"signal event 1\"]\ncluster = \"all\"\nclass = \"background\"\nhandles = { event = \"notification event: signal\" }\n\
     [endpoints.desk]\nserver = \"server\"\n[endpoints.requests]\nserver = \"sharer\"\n[notifications.event]\nbound = \"server\"\n\
     [pools.pool]\nreplicas = 2\nlimit = 2\ntotal_limit = 3\ncluster = \"all\"\nadvice = \"affinity\"\nwatchdog = \"100ms\"\n\
     [pools.far]\nreplicas = 1\nlimit = \"unlimited\"\ncluster = \"other\"\n\
     [engines.lock]\npool = \"pool\"\n[engines.own]\n"
        .to_owned()
        + &device.text()
}

/// A table, the place of a record in it, the bytes before a field of 32 bits in it, the written value, and the verdict.
type Row = (Table, usize, usize, u32, Result<(), BootError>);

macro_rules! row {
    ($table:ident, $record:ident.$field:ident, $place:expr, $value:expr, $said:expr) => {
        (Table::$table, size_of::<$record>() * $place, offset_of!($record, $field), $value as u32, $said)
    };
}

fn packed(text: &str) -> Vec<u64> {
    let packed = parse(text).pack_tables(PackOptions { cpu_stride: 1, managed: None }).unwrap();
    let bytes = packed.system().bytes();
    let mut words = vec![0; bytes.len().div_ceil(8)];
    words.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
    words
}

/// Boots the system with this in place of the 32 bits at this offset.
fn boot(words: &[u64], at: usize, value: u32) -> Result<(), BootError> {
    let mut words = words.to_vec();
    words.as_mut_bytes()[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let system = System::parse(words.as_bytes()).expect("all tables are where they were");
    let programs = vec![Program::Nothing; system.tasks().len()];
    match Simulation::new(&system, programs) {
        Ok(_) => Ok(()),
        Err(SimulationError::Boot(error)) => Err(error),
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn what_names_nothing_or_too_much_is_refused_by_its_kind() {
    let dangling = |what| Err(BootError::Dangling(what));
    let many = |what| Err(BootError::TooMany(what));
    let words = packed(&text());
    let system = System::parse(words.as_bytes()).unwrap();
    let handle = |kind: u32| system.handles().iter().position(|handle| handle.kind == kind).unwrap();
    use fusee_abi::image::kind;
    let (tasks, pools, last) = (system.tasks().len(), system.pools().len(), system.reservations().len() - 1);
    let rows: &[Row] = &[
        row!(Clusters, Cluster.cpus, 0, 0, Err(BootError::BadClusters)),
        row!(Clusters, Cluster.cpus, 0, 1, Err(BootError::BadClusters)),
        row!(Clusters, Cluster.cpus, 0, 0b111, Err(BootError::BadClusters)),
        row!(Clusters, Cluster.cpus, 0, 0b1011, Err(BootError::BadClusters)),
        row!(Clusters, Cluster.cpus, 0, 0x8000_0003_u32, Err(BootError::BadClusters)),
        row!(Clusters, Cluster.policy, 0, 99, dangling("cluster")),
        row!(Endpoints, Endpoint.server, 0, tasks, dangling("endpoint")),
        row!(Notifications, Notification.bound_plus_one, 0, tasks + 1, dangling("notification")),
        row!(Notifications, Notification.bound_plus_one, 0, tasks, Ok(())),
        row!(Interrupts, Interrupt.notification, 0, system.notifications().len(), dangling("interrupt")),
        row!(Engines, Engine.order, 0, 2, dangling("engine")),
        row!(Engines, Engine.group_plus_one, 0, limits::GROUPS + 1, dangling("engine")),
        row!(Engines, Engine.pool_plus_one, 0, pools + 1, dangling("engine")),
        row!(Engines, Engine.tokens, 0, 256, dangling("engine")),
        row!(Engines, Engine.interrupt_plus_one, 0, system.interrupts().len() + 1, dangling("engine")),
        row!(Engines, Engine.sharer_plus_one, 0, system.endpoints().len() + 1, dangling("engine")),
        row!(Engines, Engine.first_member, 0, 1 << 16 | 1, many("clients without locks")),
        row!(Engines, Engine.first_member, 0, 1 << 16, Ok(())),
        row!(EngineUsers, EngineUser.engine, 0, system.engines().len(), dangling("engine user")),
        row!(EngineUsers, EngineUser.task, 0, tasks, dangling("engine user")),
        row!(Pools, Pool.cluster, 0, system.clusters().len(), dangling("pool")),
        row!(Pools, Pool.replicas, 0, 0, dangling("limit on all queues")),
        row!(Pools, Pool.replicas, 0, limits::POOL_REPLICAS + 1, many("tokens of a pool")),
        row!(Pools, Pool.limit, 0, 1 << 16, many("requests in a queue")),
        row!(Pools, Pool.total_limit, 0, 1 << 16, many("requests in all queues")),
        row!(Pools, Pool.total_limit, 0, 4, Ok(())),
        row!(Pools, Pool.total_limit, 0, 5, dangling("limit on all queues")),
        row!(Pools, Pool.limit, 0, 0, dangling("limit on all queues")),
        row!(Pools, Pool.measure, 0, 2, dangling("measure")),
        row!(Pools, Pool.advice, 0, 99, dangling("advice")),
        row!(PoolUsers, PoolUser.pool, 0, pools, dangling("pool user")),
        row!(PoolUsers, PoolUser.task, 0, tasks, dangling("pool user")),
        // The server has no reservation.
        row!(PoolUsers, PoolUser.task, 0, 5, dangling("pool user")),
        row!(Handles, Handle.task, 0, tasks, dangling("handle")),
        row!(Handles, Handle.slot, 0, limits::HANDLES, many("handles of a task")),
        row!(Handles, Handle.kind, 0, 99, dangling("handle")),
        row!(Handles, Handle.rights, 0, 1 << 16, dangling("handle")),
        row!(Handles, Handle.object, handle(kind::ENDPOINT), system.endpoints().len(), dangling("handle")),
        row!(Handles, Handle.object, handle(kind::NOTIFICATION), system.notifications().len(), dangling("handle")),
        row!(Handles, Handle.object, handle(kind::INTERRUPT), system.interrupts().len(), dangling("handle")),
        row!(Handles, Handle.object, handle(kind::REGION), system.regions().len(), dangling("handle")),
        row!(Handles, Handle.object, handle(kind::TASK), tasks, dangling("handle")),
        row!(Handles, Handle.object, handle(kind::ENGINE), system.engines().len(), dangling("handle")),
        row!(Handles, Handle.object, handle(kind::POOL), pools, dangling("handle")),
        row!(Handles, Handle.object, handle(kind::DOORBELLS), system.engines().len(), dangling("handle")),
        // Its task uses no pool. Two are those of one task.
        row!(Reservations, Reservation.task, last, tasks, dangling("reservation")),
        row!(Reservations, Reservation.task, last, 0, dangling("reservation")),
        row!(Reservations, Reservation.cluster, 0, system.clusters().len(), dangling("reservation")),
        row!(Reservations, Reservation.class, 0, 3, dangling("reservation")),
        row!(Reservations, Reservation.release, 0, 3, dangling("reservation")),
        row!(Reservations, Reservation.overrun, 0, 3, dangling("reservation")),
        row!(Reservations, Reservation.backlog, 0, 256, many("queued releases")),
        row!(Tasks, Task.cluster, 0, system.clusters().len(), dangling("task")),
    ];
    for (number, (table, record, field, value, said)) in rows.iter().enumerate() {
        let at = system.header().tables[*table as usize].offset as usize + record + field;
        assert_eq!(boot(&words, at, *value), *said, "row {number}: {table:?}, {value:#x}");
    }
    let features = system.header().features;
    let at = offset_of!(Header, features);
    for bit in 0..32 {
        let known = (features | fusee_abi::image::feature::ALL) >> bit & 1 != 0;
        let said = if known { Ok(()) } else { Err(BootError::Without(1 << bit)) };
        assert_eq!(boot(&words, at, features | 1 << bit), said, "feature {bit}");
    }
}

/// As many advised pools as there is room for are advised, each by a plugin of its own.
#[test]
fn one_advised_pool_too_many_is_refused() {
    let pools: String = (0..=limits::ADVISED_POOLS)
        .map(|pool| {
            let advice = if pool < limits::ADVISED_POOLS { "affinity" } else { "none" };
            format!("[pools.p{pool}]\nreplicas = 1\ncluster = \"all\"\nadvice = \"{advice}\"\n")
        })
        .collect();
    let user = "[tasks.client]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nperiod = \"10ms\"\nbudget = \"1ms\"\nhandles = { pool = \"pool p0: acquire\" }\nuses = { pool = { cpu = \"1us\" } }\n";
    let words = packed(&(system(1, "admission = \"warn\"") + user + &pools));
    let system = System::parse(words.as_bytes()).unwrap();
    let last =
        system.header().tables[Table::Pools as usize].offset as usize + limits::ADVISED_POOLS * size_of::<Pool>();
    let at = last + offset_of!(Pool, advice);
    assert_eq!(boot(&words, at, fusee_abi::image::advice::NOBODY), Ok(()));
    assert_eq!(boot(&words, at, fusee_abi::image::advice::AFFINITY), Err(BootError::TooMany("advised pools")));
}

//! Each access without a right is found: a machine that shows a task or a device something else than the kernel has decided.
#![allow(missing_docs)]

mod table;

use std::path::Path;

use fusee_abi::call::{Call, DEADLINE, HandleValue, NEVER, NUMBER};
use fusee_kernel_core::id::{EngineUserId, RegionId, ThreadId};
use fusee_kernel_core::reach::Reach;
use fusee_kernel_core::{CpuId, Place, Trap};
use fusee_manifest::Manifest;
use table::{Table, thread};

/// Two tasks on one CPU; the first has a mutex, and a place for the region that the second may lend it.
const SYSTEM: &str = r#"
[system]
name = "reach"
board = "virt"
cpus = 1
admission = "warn"

[tasks.server]
binary = "model/model"
class = "background"
handles = { one = "engine one: acquire", place = "region shared: read lent", requests = "endpoint requests: receive" }

[tasks.client]
binary = "model/model"
class = "background"
handles = { shared = "region shared: read write lend", requests = "endpoint requests: call" }

[engines.one]

[endpoints.requests]
server = "server"

[regions.shared]
bytes = "4KiB"
"#;

/// A machine that shows one thing otherwise.
struct Shows<'a> {
    table: &'a Table,
    doorbell: Option<bool>,
    place: Option<Place>,
    space: Option<bool>,
    device: bool,
}

impl Reach for Shows<'_> {
    fn has_doorbell(&self, user: EngineUserId) -> Option<bool> {
        self.doorbell.or(self.table.board.has_doorbell(user))
    }

    fn place(&self, thread: ThreadId, region: RegionId) -> Place {
        self.place.unwrap_or(Reach::place(&*self.table.board, thread, region))
    }

    fn has_space(&self, thread: ThreadId) -> bool {
        self.space.unwrap_or(self.table.board.has_space(thread))
    }

    fn lets_device(&self, _: ThreadId) -> bool {
        self.device
    }
}

fn call(table: &mut Table, call: Call, handle: u64) -> u64 {
    let task = table.executes(CpuId(0)).expect("a task runs");
    let general = table.general(task);
    (general[NUMBER], general[0], general[1], general[DEADLINE]) = (call as u64, handle, 0, NEVER);
    table.trap(CpuId(0), Trap::Syscall);
    table.general(task)[0]
}

#[test]
fn each_thing_that_is_shown_otherwise_is_found() {
    let manifest = Manifest::parse(Path::new("reach.toml"), SYSTEM).unwrap_or_else(|error| panic!("{error}"));
    let mut table = Table::new(&manifest);
    let found = |table: &Table, doorbell, place, space, device| {
        let shows = Shows { table, doorbell, place, space, device };
        table.kernel.check_reach(&shows).err().map(|what| &what[..2])
    };
    let lent = Place::Lent { writable: false };
    assert_eq!(found(&table, None, None, None, false), None);
    assert_eq!(found(&table, Some(true), None, None, false), Some("T1"), "nobody holds the lock");
    assert_eq!(found(&table, None, Some(lent), None, false), Some("T2"), "nothing is lent");
    assert_eq!(found(&table, None, Some(Place::Scratch), None, false), None, "that reaches nobody");
    assert_eq!(found(&table, None, None, Some(false), false), Some("T3"), "both live");
    assert_eq!(found(&table, None, None, None, true), None, "its driver lives");
    assert_eq!(call(&mut table, Call::Acquire, HandleValue::new(0, 1).0), 0);
    assert_eq!(found(&table, None, None, None, false), None);
    assert_eq!(found(&table, Some(false), None, None, false), Some("T1"), "the lock is held");
    call(&mut table, Call::Exit, 0);
    assert!(!table.board.has_space(thread(0)));
    assert_eq!(found(&table, None, None, None, false), None);
    assert_eq!(found(&table, None, None, Some(true), false), Some("T3"), "one is dead");
    assert_eq!(found(&table, None, None, None, true), Some("T4"), "its driver is dead");
}

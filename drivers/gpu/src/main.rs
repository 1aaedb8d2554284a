//! The GPU server: opens a context for each client, and runs the bottom half of completions.
//!
//! Handles: regions "control", "status", "kick" and, if the device has memory, "local" (given to its driver), region "tables"
//! (physical), interrupt "line", notification "event" that the line signals, and region "rings" (physical), the ring pages of all clients by
//! context. For each client: the parameter `context.<client>`, the notification `done.<client>`, and if the
//! client has one, its buffer `buffer.<client>` (physical); the region `ring.<client>` (physical) if it has brought a ring page of its own;
//! if it is a node of a graph with objects on the device, the parameter `objects.<client>`, which is the *K* of the region `memory.K` (physical) that has these, and
//! `objects.at`, the device address of them;
//! if it has memory on device number N as well, that memory `peerN.<client>` (physical), for copies from there. The parameter `inject.<client>` lets the device
//! do wrong with that client's commands as the contract's bits say. The parameter `bottom_half_us` lets each notice take so long:
//! the time of a driver with more to do.
//!
//! Clients submit by themselves, into their own rings, through doorbells that the kernel maps while they
//! hold an engine. So the driver is not on that path: it wakes for completions, notifies the clients with
//! counters that moved, and acknowledges. It runs with key and budget of the clients that wait.
//!
//! Before the kernel takes an engine away from a client with an operation that does not end, it unmaps the doorbell. Then its signal
//! carries a `RESET` bit, and the driver lets the device forget that engine's commands, of all contexts of clients with locks: only the one that held the
//! engine has any, and a context that is idle there loses nothing. Of clients without locks it is the one with the running command. The device
//! answers by an interrupt, like all else. Where the device decides by keys several have the execution engine at a time, so there is a bit for each
//! of their contexts.
//!
//! # Another life
//!
//! The driver trusts neither the writes of its life before nor the device's use of them. All tables are written again, of which those entries change
//! that were not right; then the device forgets the commands of all clients but those that open their contexts by themselves, and fences report a
//! failure. A client loses its commands under way, and nothing else: its lock, its ring and the count in its doorbell stay.
//!
//! # Invariants
//!
//! 1. A context reaches its own ring, buffer and share of device memory, and the objects of its graph, and nothing else.
//! 2. A completion that comes while the driver looks is not lost: the line is acknowledged before the
//!    counters are read for the last time.
//! 3. An engine of which the kernel hears that it has been reset has forgotten all commands.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::abi::call::RESET;
use fusee::abi::environment::Entry;
use fusee::{Environment, Instant, Interrupt, Kick, Nanoseconds, Notification, Region, SharedBytes, environment};
use fusee_accel_contract as contract;
use fusee_accel_contract::space;
use fusee_driver::{clients, name_of, of_client, parameter_of_client};
use fusee_graph::names;
use gpu_driver::Table;

fusee::entry!(main);

/// One client, as the driver knows it.
struct Client {
    context: usize,
    /// The client uses engines without their locks.
    shares: bool,
    done: Notification,
    /// Commands it was told about, by engine.
    told: [u32; contract::ENGINES],
}

fn main() {
    let environment = environment();
    let control = gpu_driver::control(&environment);
    let status = environment.expect::<Region>("status").shared();
    let kick = Kick::of(&environment).expect("the driver of a device may kick it");
    let line = environment.expect::<Interrupt>("line");
    let event = environment.expect::<Notification>("event");
    let mut all = open_contexts(&environment, &control);
    // The device saw no doorbell of a client before its context was open.
    kick.send();
    // Bits that the device has signalled, and that are not served yet.
    let mut left = if fusee::life() > 0 { forget(&environment, &control, &kick, line, event) } else { 0 };
    // Of each engine the resets that the device has yet to answer, by context;
    let mut asked = [None; contract::ENGINES];
    // and those of the execution engine for one context alone.
    let mut alone = [None; contract::CONTEXTS];
    let bottom_half = Nanoseconds(environment.parameter("bottom_half_us").unwrap_or(0) * 1_000);
    loop {
        let bits = match core::mem::take(&mut left) {
            0 => event.wait(Instant::NEVER).expect("the driver may wait for its device"),
            bits => bits,
        };
        // The watchdog signals as if the line had fired. If it has not, there is nothing to acknowledge.
        let _ = line.acknowledge();
        for engine in contract::EngineIndex::ALL {
            let asked = &mut asked[engine.number()];
            if bits & RESET << engine.number() != 0 {
                // One that shares has queued commands that are nobody's business. If it is its command that does not end, it is the one
                // that runs.
                let running = status.observe_u32(contract::status_running(engine) as usize) as usize;
                let meant = |client: &&Client| !client.shares || client.context + 1 == running;
                let resets = asked.get_or_insert([None; contract::CONTEXTS]);
                for client in all.iter().flatten().filter(meant) {
                    resets[client.context] = Some(gpu_driver::request_reset(&control, engine, client.context));
                }
                kick.send();
            }
            let is_answered = |(context, request): (usize, &Option<u32>)| {
                request.is_none_or(|request| gpu_driver::has_reset(&control, engine, context, request))
            };
            if asked.as_ref().is_some_and(|resets| resets.iter().enumerate().all(is_answered)) {
                *asked = None;
                // The kernel looks for itself, and goes on waiting if it is not so.
                let _ = line.complete_reset(engine.number());
            }
        }
        if bits >> RESET.trailing_zeros() >> contract::ENGINES != 0 || alone != [None; contract::CONTEXTS] {
            for (context, asked) in alone.iter_mut().enumerate() {
                let (engine, number) = (contract::EngineIndex::Execution, contract::ENGINES + context);
                if bits & RESET << number != 0 {
                    *asked = Some(gpu_driver::request_reset(&control, engine, context));
                    kick.send();
                }
                if asked.is_some_and(|request| gpu_driver::has_reset(&control, engine, context, request)) {
                    *asked = None;
                    let _ = line.complete_reset(number);
                }
            }
        }
        for client in all.iter_mut().flatten() {
            if client.has_news(&status) {
                fusee::burn(bottom_half);
                // A client that died is not notified; other clients are not concerned.
                let _ = client.done.signal(1);
            }
        }
    }
}

/// Waits until the device has forgotten all commands in the contexts that [`open_contexts`] opens. Returns the bits signalled meanwhile.
fn forget(environment: &Environment, control: &SharedBytes, kick: &Kick, line: Interrupt, event: Notification) -> u64 {
    let opened = clients(environment).map(|(_, told)| told as u64).filter(|told| told & space::SESSION_CLIENT == 0);
    let mut asked = [None; contract::CONTEXTS];
    for context in opened.flat_map(space::client_contexts) {
        asked[context] =
            Some(contract::EngineIndex::ALL.map(|engine| gpu_driver::request_reset(control, engine, context)));
    }
    kick.send();
    let is_answered = |(context, requests): (usize, &Option<[u32; contract::ENGINES]>)| {
        let mut each = contract::EngineIndex::ALL.into_iter().zip(requests.iter().flatten());
        each.all(|(engine, request)| gpu_driver::has_reset(control, engine, context, *request))
    };
    let mut told = 0;
    while !asked.iter().enumerate().all(is_answered) {
        told |= event.wait(Instant::NEVER).expect("the driver may wait for its device");
        let _ = line.acknowledge();
    }
    // The life before may have been asked to.
    for number in 0..contract::ENGINES + contract::CONTEXTS {
        let _ = line.complete_reset(number);
    }
    told
}

impl Client {
    fn has_news(&mut self, status: &SharedBytes) -> bool {
        let mut news = false;
        for engine in contract::EngineIndex::ALL {
            let retired = status.observe_u32(contract::status_retired(engine, self.context) as usize);
            news |= core::mem::replace(&mut self.told[engine.number()], retired) != retired;
        }
        news
    }
}

/// Opens a context for every client of the manifest that does not open it by itself.
fn open_contexts(environment: &Environment, control: &SharedBytes) -> [Option<Client>; contract::CONTEXTS] {
    let tables = environment.expect::<Region>("tables");
    let rings = environment.region("rings").ok();
    // Without copy engines a device has no memory of its own.
    let local = environment.region("local").ok();
    let mut found = [const { None }; contract::CONTEXTS];
    let count = gpu_driver::contexts(environment);
    for (name, told) in clients(environment) {
        let told = told as u64;
        let shares = told & space::SHARED_CLIENT != 0;
        let done: Notification = of_client(environment, "done.", name)
            .unwrap_or_else(|| panic!("no notification named `done.{name}`: each client hears of completions"));
        let own_ring = of_client::<Region>(environment, "ring.", name).map(|ring| ring.physical());
        let buffer = of_client::<Region>(environment, "buffer.", name);
        let wrong = parameter_of_client(environment, "inject.", name).unwrap_or(0);
        for context in space::client_contexts(told) {
            let words = contract::control_context(context) as usize;
            control.write_u32(words + contract::CONTEXT_INJECT as usize, wrong as u32);
            found[context] = Some(Client { context, shares, done, told: [0; contract::ENGINES] });
            if told & space::SESSION_CLIENT != 0 {
                continue;
            }
            let ring = own_ring.or_else(|| Some(gpu_driver::ring(&rings?, context))).expect("each client has a ring");
            let system = |address, physical, pages| (address, physical, pages, contract::Memory::System);
            let mut windows = [None; 4 + contract::DEVICES];
            windows[0] = Some(system(contract::RING_BASE, ring, 1));
            windows[1] = buffer.map(|buffer| {
                let pages = (buffer.bytes() / contract::PAGE_BYTES).min(space::BUFFER_PAGES);
                system(space::BUFFER_BASE, buffer.physical(), pages)
            });
            windows[2] = local.map(|local| {
                let (first, pages) = space::share(local.bytes(), count, context);
                (space::LOCAL_BASE, local.physical() + first, pages, contract::Memory::Local)
            });
            windows[3] = objects_of(environment, name)
                .map(|(address, memory)| system(address, memory.physical(), memory.bytes() / contract::PAGE_BYTES));
            for (entry, device) in environment.entries().iter().filter_map(|entry| Some((entry, peer_of(entry, name)?)))
            {
                let pages = entry.bytes / contract::PAGE_BYTES;
                windows[4 + device] = Some((space::peer(device), entry.physical, pages, contract::Memory::Peer));
            }
            let table = Table::of(control, &tables, context);
            table.set(&windows);
            table.open(control, context, shares);
        }
    }
    found
}

/// Where the objects are, to the device and in memory, of the graph that `client` is a node of.
fn objects_of(environment: &Environment, client: &str) -> Option<(u64, Region)> {
    let number = parameter_of_client(environment, names::OBJECTS_OF, client)? as usize;
    let is_it = |entry: &&Entry| name_of(entry).and_then(|name| names::number(name, names::MEMORY)) == Some(number);
    let name = environment.entries().iter().find(is_it).and_then(name_of)?;
    Some((environment.parameter(names::OBJECTS_AT)?, environment.region(name).ok()?))
}

/// The device that an entry `peerN.<client>` is about, if it is about this client.
fn peer_of(entry: &Entry, client: &str) -> Option<usize> {
    if !entry.name.starts_with(b"peer") {
        return None;
    }
    let (device, of) = name_of(entry)?["peer".len()..].split_once('.')?;
    device.parse().ok().filter(|device| of == client && *device < contract::DEVICES)
}

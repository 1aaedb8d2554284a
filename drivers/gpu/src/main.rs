//! The GPU server: opens a context for each client, and runs the bottom half of completions.
//!
//! Handles: regions "control", "status", "kick" and, if the device has memory, "local" (given to its driver), region "tables"
//! (physical), interrupt "line", notification "event" that the line signals. For each client: the parameter
//! `context.<client>`, the notification `done.<client>`, the region `ring.<client>` (physical), and if the
//! client has one, its buffer `buffer.<client>` (physical); if it has memory on device number N as well, that
//! memory `peerN.<client>` (physical), for copies from there. The parameter `inject.<client>` lets the device
//! do wrong with that client's commands what the contract's bits say. The parameter `bottom_half_us` lets each notice take so long:
//! what a driver with more to do would take.
//!
//! Clients submit by themselves, into their own rings, through doorbells that the kernel maps while they
//! hold an engine. So the driver is not on that path: it wakes for completions, tells the clients whose
//! counters moved, and acknowledges. It runs with key and budget of the clients that wait.
//!
//! Before the kernel takes an engine away from a client whose operation does not end, it unmaps the doorbell. Then its signal
//! carries a `RESET` bit, and the driver lets the device forget that engine's commands, of all contexts of clients with locks: only the one that held the
//! engine has any, and a context that is idle there loses nothing. Of clients without locks it is the one whose command runs. The device answers by
//! an interrupt, like all else.
//!
//! # Invariants
//!
//! 1. A context reaches its own ring, buffer and share of device memory, and nothing else.
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

fusee::entry!(main);

/// One client, as the driver knows it.
struct Client {
    context: usize,
    /// It uses engines without their locks.
    shares: bool,
    done: Notification,
    /// Commands it was told about, by engine.
    told: [u32; contract::ENGINES],
}

fn main() {
    let environment = environment();
    let control = environment.expect::<Region>("control").shared();
    let status = environment.expect::<Region>("status").shared();
    while control.observe_u32(contract::CONTROL_MAGIC as usize) != contract::MAGIC {
        // The device comes up by itself, on its own processor.
        let soon = Instant(fusee::now().now.0 + 100_000);
        let _ = fusee::sleep_until(soon);
    }
    let mut clients = open_contexts(&environment, &control);
    let kick = Kick::of(&environment).expect("the driver of a device may kick it");
    // Until its context was open, nobody heard a client ring.
    kick.send();
    let line = environment.expect::<Interrupt>("line");
    let event = environment.expect::<Notification>("event");
    // Engines whose reset the device has yet to answer.
    let mut asked = [false; contract::ENGINES];
    let bottom_half = Nanoseconds(environment.parameter("bottom_half_us").unwrap_or(0) * 1_000);
    loop {
        let bits = event.wait(Instant::NEVER).expect("the driver may wait for its device");
        // The watchdog signals as if the line had fired. If it has not, there is nothing to acknowledge.
        let _ = line.acknowledge();
        for engine in contract::EngineIndex::ALL {
            let is_asked = &mut asked[engine.number()];
            let all = || clients.iter().flatten();
            if bits & RESET << engine.number() != 0 {
                // One that shares has queued commands that are nobody's business. If it is its command that does not end, it is the one
                // that runs.
                let running = status.observe_u32(contract::status_running(engine) as usize) as usize;
                let meant = all().filter(|client| !client.shares || client.context + 1 == running);
                meant.for_each(|client| request_reset(&control, engine, client.context));
                kick.send();
                *is_asked = true;
            }
            if *is_asked && all().all(|client| is_reset(&control, engine, client.context)) {
                *is_asked = false;
                // The kernel looks for itself, and goes on waiting if it is not so.
                let _ = line.complete_reset(engine.number());
            }
        }
        for client in clients.iter_mut().flatten() {
            if client.has_news(&status) {
                fusee::burn(bottom_half);
                // A client that died no longer hears; nobody else is concerned.
                let _ = client.done.signal(1);
            }
        }
    }
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

/// Asks the device to forget what `context` has submitted to `engine`.
fn request_reset(control: &SharedBytes, engine: contract::EngineIndex, context: usize) {
    let request = contract::control_reset_request(context, engine) as usize;
    control.publish_u32(request, control.read_u32(request).wrapping_add(1));
}

/// Whether it has.
fn is_reset(control: &SharedBytes, engine: contract::EngineIndex, context: usize) -> bool {
    let request = control.read_u32(contract::control_reset_request(context, engine) as usize);
    control.observe_u32(contract::control_reset_done(context, engine) as usize) == request
}

/// Opens a context for every client of the manifest.
fn open_contexts(environment: &Environment, control: &SharedBytes) -> [Option<Client>; contract::CONTEXTS] {
    let tables = environment.expect::<Region>("tables");
    // Without copy engines a device has no memory of its own.
    let local = environment.region("local").ok();
    let mut clients = [const { None }; contract::CONTEXTS];
    let bytes = tables.bytes() as usize / contract::CONTEXTS;
    let named = || environment.entries().iter().filter_map(|entry| Some((client_name(entry)?, entry.address as usize)));
    let count = named().count();
    for (name, told) in named() {
        let shares = told as u64 & space::SHARED_CLIENT != 0;
        let context = told % space::SHARED_CLIENT as usize;
        let mut long = [0; 24];
        let ring: Region = environment.expect(joined(&mut long, "ring.", name));
        let done: Notification = environment.expect(joined(&mut long, "done.", name));
        let buffer = environment.region(joined(&mut long, "buffer.", name)).ok();

        let offset = context * bytes;
        let table = tables.shared().part(offset, bytes);
        table.fill(0, bytes, 0);
        map(&table, contract::RING_BASE, ring.physical(), 1, contract::Memory::System);
        if let Some(buffer) = buffer {
            let pages = (buffer.bytes() / contract::PAGE_BYTES).min(space::BUFFER_PAGES);
            map(&table, space::BUFFER_BASE, buffer.physical(), pages, contract::Memory::System);
        }
        if let Some(local) = local {
            let (first, pages) = space::share(local.bytes(), count, context);
            map(&table, space::LOCAL_BASE, local.physical() + first, pages, contract::Memory::Local);
        }
        for (entry, device) in environment.entries().iter().filter_map(|entry| Some((entry, peer_of(entry, name)?))) {
            let pages = entry.bytes / contract::PAGE_BYTES;
            map(&table, space::peer(device), entry.physical, pages, contract::Memory::Peer);
        }

        let words = contract::control_context(context) as usize;
        control.write_u64(words + contract::CONTEXT_TABLE as usize, tables.physical() + offset as u64);
        let entries = bytes as u64 / contract::ENTRY_BYTES;
        control.write_u32(words + contract::CONTEXT_TABLE_ENTRIES as usize, entries as u32);
        let wrong = environment.parameter(joined(&mut long, "inject.", name)).unwrap_or(0);
        control.write_u32(words + contract::CONTEXT_INJECT as usize, wrong as u32);
        let flags = contract::CONTEXT_VALID | if shares { contract::CONTEXT_SHARED } else { 0 };
        control.publish_u32(words + contract::CONTEXT_FLAGS as usize, flags);
        clients[context] = Some(Client { context, shares, done, told: [0; contract::ENGINES] });
    }
    clients
}

/// The client that an entry `context.<client>` is about.
fn client_name(entry: &Entry) -> Option<&str> {
    name_of(entry)?.strip_prefix("context.")
}

/// The device that an entry `peerN.<client>` is about, if it is about this client.
fn peer_of(entry: &Entry, client: &str) -> Option<usize> {
    if !entry.name.starts_with(b"peer") {
        return None;
    }
    let (device, of) = name_of(entry)?["peer".len()..].split_once('.')?;
    device.parse().ok().filter(|device| of == client && *device < contract::DEVICES)
}

fn name_of(entry: &Entry) -> Option<&str> {
    let length = entry.name.iter().position(|byte| *byte == 0).unwrap_or(entry.name.len());
    core::str::from_utf8(&entry.name[..length]).ok()
}

/// `prefix` and `name` in one, for looking up; what does not fit names nothing.
fn joined<'a>(buffer: &'a mut [u8; 24], prefix: &str, name: &str) -> &'a str {
    let mut length = 0;
    for (byte, place) in prefix.bytes().chain(name.bytes()).zip(buffer.iter_mut()) {
        *place = byte;
        length += 1;
    }
    core::str::from_utf8(&buffer[..length]).unwrap_or("")
}

/// Enters `pages` pages from `physical` on at device address `address`.
fn map(table: &SharedBytes, address: u64, physical: u64, pages: u64, memory: contract::Memory) {
    for page in 0..pages {
        let entry = contract::TableEntry { page: physical + page * contract::PAGE_BYTES, writable: true, memory };
        let place = contract::table_index(address + page * contract::PAGE_BYTES) * contract::ENTRY_BYTES;
        table.write_u64(place as usize, entry.encode());
    }
}

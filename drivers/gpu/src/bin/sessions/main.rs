//! The server of sessions: opens and closes contexts of clients without locks, maps their memory, and has the device forget their commands.
//!
//! Handles: endpoint "sessions" (receive), which the key `sessions` of the device names. That key gives, besides: regions "control", "status",
//! "tables" (physical), "rings" (physical), "kick", and "local" if the device has memory (physical); the region "buffer.CLIENT" (physical) of each
//! client that has one; parameters "contexts" and "each", how many may be open, "context.CLIENT" and "badge.CLIENT", and "sharer.ENGINE", the badge
//! of the engine's sharer.
//!
//! The server runs with key and budget of the clients that wait for it, and is another task than the driver: bottom halves of completions wait for no
//! request. Nothing is created: a context's doorbells, ring and memory are the manifest's, and a request only asks that the device may use them.
//!
//! # Invariants
//!
//! 1. A client's requests are about its own contexts, and map its own memory: its buffer, and the share of the device's memory that is its context's.
//!    Copies need no check of their own, as the device makes them by the same tables.
//! 2. A context is closed when the device has none of its commands, by counters that only the device writes, and then forgets commands that came
//!    meanwhile.
//! 3. A running command is reset for the engine's sharer only, and only if its context is the one that the sharer named, and one without a lock.
//! 4. A request is of bounded length: it writes 16 entries of a table, or clears one table, and waits for nothing.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod ledger;

use fusee::session::{self, Refusal, Request, State, Window};
use fusee::{Endpoint, Environment, Kick, Message, Region, Server, SharedBytes, environment};
use fusee_accel_contract as contract;
use fusee_accel_contract::{EngineIndex, space};
use fusee_driver::{clients, of_client, parameter_of_client};
use gpu_driver::Table;
use ledger::{Closing, Ledger, Limits, Memory};

fusee::entry!(main);

struct Sessions {
    control: SharedBytes,
    status: SharedBytes,
    tables: Region,
    kick: Kick,
    ledger: Ledger,
    /// The memory that contexts of sessions may reach.
    reach: [Reach; contract::CONTEXTS],
    /// Contexts of clients without locks, a bit each.
    shared: u64,
    /// For each engine, the badge of the task that may have a running command reset.
    sharers: [Option<u64>; contract::ENGINES],
    /// The latest reset that was asked for here, of each context and engine.
    asked: [[u32; contract::ENGINES]; contract::CONTEXTS],
}

/// Physical addresses.
#[derive(Clone, Copy, Default)]
struct Reach {
    ring: u64,
    buffer: u64,
    local: u64,
}

fn main() {
    let environment = environment();
    let mut sessions = Sessions::of(&environment);
    let server = Server::new(environment.expect::<Endpoint>("sessions"));
    server.run(|badge, words| session::reply(sessions.answer(badge, &words)))
}

impl Sessions {
    fn of(environment: &Environment) -> Sessions {
        let control = gpu_driver::control(environment);
        let limit = |name: &str| environment.parameter(name).map_or(contract::CONTEXTS, |number| number as usize);
        let mut sessions = Sessions {
            control,
            status: environment.expect::<Region>("status").shared(),
            tables: environment.expect("tables"),
            kick: Kick::of(environment).expect("the server of a device's sessions may kick it"),
            ledger: Ledger::new(Limits { contexts: limit("contexts"), each: limit("each") }),
            reach: [Reach::default(); contract::CONTEXTS],
            shared: 0,
            sharers: contract::EngineIndex::ALL
                .map(|engine| environment.parameter(["sharer.0", "sharer.1", "sharer.2"][engine.number()])),
            asked: core::array::from_fn(|context| {
                EngineIndex::ALL.map(|engine| control.read_u32(contract::control_reset_done(context, engine) as usize))
            }),
        };
        let rings: Region = environment.expect("rings");
        let local = environment.region("local").ok();
        let count = gpu_driver::contexts(environment);
        for (name, told) in clients(environment) {
            let told = told as u64;
            let badge = parameter_of_client(environment, "badge.", name);
            let buffer = of_client::<Region>(environment, "buffer.", name);
            for (ordinal, context) in space::client_contexts(told).enumerate() {
                if told & space::SHARED_CLIENT != 0 {
                    sessions.shared |= 1 << context;
                }
                let Some(badge) = badge.filter(|_| told & space::SESSION_CLIENT != 0) else { continue };
                let (first, pages) = local.map_or((0, 0), |local| space::share(local.bytes(), count, context));
                sessions.reach[context] = Reach {
                    ring: gpu_driver::ring(&rings, context),
                    buffer: buffer.map_or(0, |buffer| buffer.physical()),
                    local: local.map_or(0, |local| local.physical() + first),
                };
                let buffer = buffer.map_or(0, |buffer| buffer.bytes() / contract::PAGE_BYTES);
                sessions.ledger.prepare(context, badge, ordinal as u64, Memory { buffer, local: pages });
            }
        }
        sessions
    }

    fn answer(&mut self, badge: u64, words: &Message) -> Result<[u64; 2], Refusal> {
        match Request::check(words)? {
            Request::Open(ordinal) => {
                let context = self.ledger.open(badge, ordinal)?;
                let table = Table::of(&self.control, &self.tables, context);
                table.begin(self.reach[context].ring);
                table.open(&self.control, context, true);
                Ok([context as u64, 0])
            }
            Request::Close(ordinal) => {
                let status = &self.status;
                match self.ledger.close(badge, ordinal, |context| has_commands(status, context))? {
                    Closing::Begins(context) => {
                        gpu_driver::close(&self.control, context);
                        self.reset(context, |_| true);
                        Err(Refusal::Pending)
                    }
                    Closing::GoesOn(context) if self.is_pending(context) => Err(Refusal::Pending),
                    Closing::GoesOn(context) => {
                        self.ledger.closed(context);
                        Ok([0, 0])
                    }
                }
            }
            Request::Map { ordinal, pages, from, writable } => {
                let context = self.ledger.map(badge, ordinal, pages, from)?;
                let (base, physical, memory) = match pages.window {
                    Window::Buffer => (space::BUFFER_BASE, self.reach[context].buffer, contract::Memory::System),
                    Window::Local => (space::LOCAL_BASE, self.reach[context].local, contract::Memory::Local),
                };
                let (address, physical) =
                    (base + pages.first * contract::PAGE_BYTES, physical + from * contract::PAGE_BYTES);
                Table::of(&self.control, &self.tables, context).map(address, physical, pages.count, memory, writable);
                Ok([0, 0])
            }
            Request::Unmap { ordinal, pages } => {
                let context = self.ledger.unmap(badge, ordinal, pages)?;
                let base = match pages.window {
                    Window::Buffer => space::BUFFER_BASE,
                    Window::Local => space::LOCAL_BASE,
                };
                Table::of(&self.control, &self.tables, context)
                    .unmap(base + pages.first * contract::PAGE_BYTES, pages.count);
                Ok([0, 0])
            }
            Request::Reset { ordinal, engines } => {
                let context = self.ledger.opened(badge, ordinal)?;
                self.reset(context, |engine| engines >> engine.number() & 1 != 0);
                Ok([0, 0])
            }
            Request::State(ordinal) => {
                let (context, is_open, mapped) = self.ledger.state(badge, ordinal)?;
                Ok(State { is_open, is_pending: self.is_pending(context), mapped }.words())
            }
            Request::ResetRunning { engine, context } => {
                let engine = usize::try_from(engine).ok().and_then(EngineIndex::from_number);
                let engine = engine.filter(|engine| self.sharers[engine.number()] == Some(badge));
                let engine = engine.ok_or(Refusal::NotYours)?;
                let is_shared = |context: &usize| *context < contract::CONTEXTS && self.shared >> context & 1 != 0;
                let context = usize::try_from(context).ok().filter(is_shared).ok_or(Refusal::NotRunning)?;
                let running = self.status.observe_u32(contract::status_running(engine) as usize) as usize;
                if running != context + 1 {
                    return Err(Refusal::NotRunning);
                }
                self.reset(context, |one| one == engine);
                Ok([0, 0])
            }
        }
    }

    fn reset(&mut self, context: usize, is_meant: impl Fn(EngineIndex) -> bool) {
        for engine in EngineIndex::ALL.into_iter().filter(|engine| is_meant(*engine)) {
            self.asked[context][engine.number()] = gpu_driver::request_reset(&self.control, engine, context);
        }
        self.kick.send();
    }

    /// Whether the device has yet to answer a reset of `context`.
    fn is_pending(&self, context: usize) -> bool {
        let is_answered = |engine: EngineIndex| {
            gpu_driver::has_reset(&self.control, engine, context, self.asked[context][engine.number()])
        };
        !EngineIndex::ALL.into_iter().all(is_answered)
    }
}

/// Whether the device has commands of `context`, by its own count.
fn has_commands(status: &SharedBytes, context: usize) -> bool {
    EngineIndex::ALL.into_iter().any(|engine| {
        let [seen, retired] = [contract::status_seen, contract::status_retired]
            .map(|word| status.observe_u32(word(engine, context) as usize));
        seen != retired
    })
}

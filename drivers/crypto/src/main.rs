//! The crypto server: a virtio device that enciphers and deciphers lent texts of clients (`fusee::crypto`), as an engine.
//!
//! Handles, of the manifest: endpoint "cipher" (to serve), places "loan.<client>" (read, write, lent), or "loan" for all; region "memory" (read, write, physical), of which it has the
//! only handle: 20 KiB for queues, and room for a text and its result; interrupt "line" of the engine, and notification "wake", by which
//! [the second task](../watch/index.html) passes requests on. Handles that come with the device: regions "registers", "status", "doorbells"; for each
//! client the parameters "context.<client>" and "badge.<client>". Parameters, for tests: "break.<client>" and "mute.<client>", with which of that client's
//! texts, counted from one, the device shall break, and of which it shall hear nothing.
//!
//! # The holder of the engine
//!
//! A client has its doorbell page while it holds the engine, and counts its request there. As long as that count is not the one that this server has
//! written into the status page, the kernel grants the engine to no task. So a caller with a count one ahead of ours had the engine when it counted,
//! and no other has had it since: that is all that is asked. When a request has ended, we count as the client does, and the engine is idle.
//!
//! # A reset
//!
//! The kernel asks for a reset by the watchdog. A device that needs a reset, or answers without sense, is reset at once. If the server waits for the
//! device then, it learns of a reset by "wake"; if it waits for clients, by a message of the second task. A reset device has forgotten its keys and
//! sessions; the next request gives it those that it needs again.
//!
//! Data are copied between the loan and the server's own memory, because a client may go away in the middle, and the device would go on: so it
//! never reaches a client's memory, and a loan may have any length.
//!
//! # Invariants
//!
//! 1. The device works only while a client's count is ahead of ours.
//! 2. A client reaches its own keys only.
//! 3. Counts are written after the device can write nothing more, and before the line is acknowledged: by that the kernel looks at engines that drain.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod device;

use device::{Cipher, DeviceError, Fault, Session};
use fusee::abi::call::RESET;
use fusee::crypto::{self, Direction, Iv, KEYS, Key, LOOK, Loan, Part, Refusal};
use fusee::{
    Environment, Instant, Interrupt, LentToWrite, Message, Notification, Place, Region, Request, Server, SharedBytes,
    WaitError, complete_stores, environment,
};
use fusee_accel_contract as contract;
use fusee_accel_contract::{CONTEXTS, EngineIndex};
use fusee_driver::{clients, of_client, parameter_of_client};

fusee::entry!(main);

/// The one engine.
const ENGINE: EngineIndex = EngineIndex::Execution;
const BLOCK: usize = crypto::BLOCK as usize;

fn main() {
    let environment = environment();
    let mut engine = Engine::open(&environment);
    let server = Server::new(environment.expect("cipher"));
    server.serve(|request| engine.serve(request))
}

/// The device, and its users.
struct Engine {
    cipher: Cipher,
    signals: Signals,
    doorbells: SharedBytes,
    status: SharedBytes,
    /// By context.
    clients: [Option<Client>; CONTEXTS],
}

/// One client.
struct Client {
    badge: u64,
    /// Where it lends its texts.
    place: Option<Place>,
    keys: [Option<Kept>; KEYS],
    /// The number of texts so far, and the numbers of those with a fault.
    texts: u64,
    faults: [(Option<u64>, Fault); 2],
}

/// A key, and the device's sessions with it: to encipher, to decipher.
struct Kept {
    key: Key,
    sessions: [Option<Session>; 2],
}

/// How the server hears of the device, and of the kernel.
struct Signals {
    line: Interrupt,
    wake: Notification,
    /// The kernel wants a reset.
    is_reset_wanted: bool,
}

impl Signals {
    /// Waits until there is something to look at. `false`: the device is to be reset.
    fn wait(&mut self) -> bool {
        // The device was silenced before.
        let _ = self.line.acknowledge();
        self.take(Instant::NEVER);
        !self.is_reset_wanted
    }

    /// Takes all signalled bits, waiting for them until `deadline`.
    fn take(&mut self, deadline: Instant) {
        match self.wake.wait(deadline) {
            Ok(bits) => self.is_reset_wanted |= bits & RESET << ENGINE.number() != 0,
            Err(WaitError::TimedOut) => {}
            Err(error) => panic!("the driver may wait for its device: {error:?}"),
        }
    }
}

impl Engine {
    fn open(environment: &Environment) -> Engine {
        let (registers, memory) = (environment.expect::<Region>("registers"), environment.expect::<Region>("memory"));
        let mut all = [const { None }; CONTEXTS];
        for (name, context) in clients(environment) {
            let badge = parameter_of_client(environment, "badge.", name).expect("each client has a badge");
            let wrong = |prefix, fault| (parameter_of_client(environment, prefix, name), fault);
            let faults = [wrong("break.", Fault::Broken), wrong("mute.", Fault::Silent)];
            let place = of_client(environment, "loan.", name).or(environment.get("loan").ok());
            all[context] = Some(Client { badge, place, keys: [const { None }; KEYS], texts: 0, faults });
        }
        let cipher = Cipher::open(&registers, &memory);
        Engine {
            cipher: cipher
                .expect("the registers are those of a virtio device that enciphers, and `memory` is for it alone"),
            signals: Signals {
                line: environment.expect("line"),
                wake: environment.expect("wake"),
                is_reset_wanted: false,
            },
            doorbells: environment.expect::<Region>("doorbells").shared(),
            status: environment.expect::<Region>("status").shared(),
            clients: all,
        }
    }

    fn serve(&mut self, request: &Request) -> Message {
        if request.words[0] == LOOK {
            self.signals.take(Instant::ZERO);
            if self.signals.is_reset_wanted {
                self.reset();
            }
            return crypto::reply(Ok([0; 2]));
        }
        let is_it = |client: &Option<Client>| client.as_ref().is_some_and(|client| client.badge == request.badge);
        let context = self.clients.iter().position(is_it).filter(|context| self.accepts(*context));
        let Some(context) = context else { return crypto::reply(Err(Refusal::NotHeld)) };
        let result = self.perform(context, request);
        if self.signals.is_reset_wanted {
            self.reset();
        } else {
            if result == Err(Refusal::Lost) {
                // The next client shall not suffer for an answer of the device.
                self.restart();
            }
            self.retire(context);
        }
        crypto::reply(result)
    }

    /// Whether the client of `context` has counted one request more than have ended, and stays with that when it can see that we have seen it.
    fn accepts(&self, context: usize) -> bool {
        let (submitted, retired) = (self.submitted(context), self.retired(context));
        if submitted != retired.wrapping_add(1) {
            return false;
        }
        let seen = contract::status_seen(ENGINE, context) as usize;
        self.status.publish_u32(seen, submitted);
        // The kernel reads this word after the client's last store to the other: so it sees ours, or we see the client's.
        complete_stores();
        let stays = self.submitted(context) == submitted;
        if !stays {
            self.status.publish_u32(seen, retired);
        }
        stays
    }

    fn perform(&mut self, context: usize, request: &Request) -> Result<[u64; 2], Refusal> {
        let place = self.clients[context].as_ref().and_then(|client| client.place);
        let loan = place.and_then(|place| request.lent_to_write(&place));
        let lent = loan.as_ref().map(|loan| Loan { bytes: loan.len() as u64, is_writable: true });
        match (crypto::Request::check(&request.words, lent)?, &loan) {
            (crypto::Request::Load(key), _) => self.load(context, key),
            (crypto::Request::Forget(key), _) => self.forget(context, key),
            (crypto::Request::Work { direction, key, part, iv }, Some(loan)) => {
                self.work(context, (direction, key), part, iv, loan).map(Iv::words)
            }
            // The check has looked.
            (crypto::Request::Work { .. }, None) => Err(Refusal::NotLent),
        }
    }

    /// Keeps a key, if the device takes it.
    fn load(&mut self, context: usize, key: Key) -> Result<[u64; 2], Refusal> {
        let client = self.clients[context].as_mut().ok_or(Refusal::NotHeld)?;
        let free = client.keys.iter().position(Option::is_none).ok_or(Refusal::Full)?;
        client.keys[free] = Some(Kept { key, sessions: [None; 2] });
        let sessions =
            [Direction::Encipher, Direction::Decipher].map(|direction| self.session(context, free, direction));
        if let Some(refusal) = sessions.into_iter().find_map(Result::err) {
            let _ = self.forget(context, free);
            return Err(refusal);
        }
        Ok([free as u64, 0])
    }

    /// Forgets a key, with any answer of the device.
    fn forget(&mut self, context: usize, key: usize) -> Result<[u64; 2], Refusal> {
        let client = self.clients[context].as_mut().ok_or(Refusal::NotHeld)?;
        let kept = client.keys[key].take().ok_or(Refusal::NoKey)?;
        for session in kept.sessions.into_iter().flatten() {
            self.cipher.end(session, || self.signals.wait()).map_err(refusal)?;
        }
        Ok([0; 2])
    }

    /// The device's session with a key, a new one if it has none.
    fn session(&mut self, context: usize, key: usize, direction: Direction) -> Result<Session, Refusal> {
        let client = self.clients[context].as_mut().ok_or(Refusal::NotHeld)?;
        let kept = client.keys[key].as_mut().ok_or(Refusal::NoKey)?;
        let place = &mut kept.sessions[usize::from(direction == Direction::Decipher)];
        if let Some(session) = place {
            return Ok(*session);
        }
        let session = self.cipher.begin(kept.key.bytes(), direction, || self.signals.wait()).map_err(refusal)?;
        *place = Some(session);
        Ok(session)
    }

    /// Carries out the request in parts for which there is room.
    fn work(
        &mut self,
        context: usize,
        (direction, key): (Direction, usize),
        part: Part,
        mut iv: Iv,
        loan: &LentToWrite<'_>,
    ) -> Result<Iv, Refusal> {
        let session = self.session(context, key, direction)?;
        let fault = self.clients[context].as_mut().and_then(Client::next_fault);
        // The check has looked that all of it is in the loan.
        let (mut from, mut to, mut left) = (part.from as usize, part.to as usize, part.bytes as usize);
        while left > 0 {
            let bytes = left.min(self.cipher.room() / BLOCK * BLOCK);
            let (text, _) = self.cipher.halves();
            loan.copy_to_slice(from, &mut text[..bytes]);
            let chained = last_block(&text[..bytes]);
            self.cipher.work(session, direction, iv, bytes, fault, || self.signals.wait()).map_err(refusal)?;
            let (_, result) = self.cipher.halves();
            loan.copy_from_slice(to, &result[..bytes]);
            iv = match direction {
                Direction::Encipher => last_block(&result[..bytes]),
                Direction::Decipher => chained,
            };
            from += bytes;
            to += bytes;
            left -= bytes;
        }
        Ok(iv)
    }

    /// The engine is idle for `context`, however its client has counted.
    fn retire(&self, context: usize) {
        let submitted = self.submitted(context);
        self.status.publish_u32(contract::status_seen(ENGINE, context) as usize, submitted);
        self.status.publish_u32(contract::status_retired(ENGINE, context) as usize, submitted);
        // Its client may be gone, and the engine drain.
        let _ = self.signals.line.acknowledge();
    }

    /// Carries out resets that the kernel asks for. Doorbells are out of their clients' reach now: all counted requests there have failed.
    fn reset(&mut self) {
        self.signals.is_reset_wanted = false;
        if self.restart() {
            (0..CONTEXTS).for_each(|context| self.retire(context));
            // The kernel looks for itself, and goes on waiting if it is not so.
            let _ = self.signals.line.complete_reset(ENGINE.number());
        }
    }

    /// Lets the device begin anew. If it does not, the engine stays closed.
    fn restart(&mut self) -> bool {
        for kept in self.clients.iter_mut().flatten().flat_map(|client| client.keys.iter_mut().flatten()) {
            kept.sessions = [None; 2];
        }
        self.cipher.restart().is_ok()
    }

    fn submitted(&self, context: usize) -> u32 {
        let page = contract::doorbell_page(ENGINE, context);
        self.doorbells.observe_u32((page + contract::DOORBELL_SUBMITTED) as usize)
    }

    fn retired(&self, context: usize) -> u32 {
        self.status.read_u32(contract::status_retired(ENGINE, context) as usize)
    }
}

impl Client {
    /// The fault of the next text.
    fn next_fault(&mut self) -> Option<Fault> {
        self.texts += 1;
        self.faults.iter().find(|(text, _)| *text == Some(self.texts)).map(|(_, fault)| *fault)
    }
}

/// The last block of a text, which has one.
fn last_block(text: &[u8]) -> Iv {
    let mut block = [0; BLOCK];
    block.copy_from_slice(&text[text.len() - BLOCK..]);
    Iv(block)
}

fn refusal(error: DeviceError) -> Refusal {
    match error {
        DeviceError::Failed => Refusal::Failed,
        DeviceError::Unsupported => Refusal::Unsupported,
        DeviceError::Lost => Refusal::Lost,
    }
}

//! The server of a signal processor: a Cortex-R5F is its execution engine, channels of a DMA controller are its copy engines.
//!
//! Clients speak the contract of `accel/contract`, as they do to the device model: they acquire an engine, write commands into their ring, and count them
//! in the doorbell page that the kernel maps while they hold the engine. This server is the device of that contract. It reads ring and doorbell, replaces
//! device addresses by physical ones, starts processor or channel, and writes fences and counts. No client can start anything itself: nothing
//! translates the addresses that processor and channels use. So in place of a page to kick there is a call, to [the door](../door/index.html).
//!
//! Handles, of the manifest: notification "event", interrupt "line", of all engines; regions "done" (a channel that raises that line, with the right
//! `physical`), and for copy engines "copy_in", "copy_out" (channels) with their interrupts "copied_in", "copied_out"; for each client that has one
//! "buffer.<client>" (physical). Handles that come with the device: regions "reset", "program", "firmware", "status", "doorbells", "local"; for each client
//! "ring.<client>" and "done.<client>", and the parameter "context.<client>".
//!
//! # Invariants
//!
//! 1. Processor and channels are told no address but those that [`Space::work`] has made, and the mailbox.
//! 2. An operation retires once: by the answer to its number, by the end of its copy, or by a reset, and never before it can write nothing more.
//! 3. A fence is written before the count that tells of it, and both before the line is acknowledged: by that the kernel looks at engines that drain.
//!
//! # Trust
//!
//! This task can reach all memory: it decides about all reads and writes of processor and channels. So can the firmware.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod dma;
mod processor;

use dma::Channel;
use fusee::abi::call::RESET;
use fusee::{Environment, Interrupt, Notification, Region, SharedBytes, WaitError, complete_stores, environment};
use fusee_accel_contract as contract;
use fusee_accel_contract::{COMMAND_BYTES, CONTEXTS, Command, CopyEngines, ENGINES, EngineIndex, Fence, space};
use fusee_driver::{clients, of_client};
use fusee_r5f_commands::mailbox::{ANSWERED, COMMAND, MAILBOX};
use fusee_r5f_commands::{Space, Window, Work, fence_place};
use processor::Processor;

fusee::entry!(main);

fn main() {
    let environment = environment();
    let event = environment.expect::<Notification>("event");
    let line = environment.expect::<Interrupt>("line");
    let others = ["copied_in", "copied_out"].map(|name| environment.interrupt(name).ok());
    let mut device = Device::open(&environment);
    loop {
        let bits = match event.wait(device.processor.next_look()) {
            Ok(bits) => bits,
            Err(WaitError::TimedOut) => 0,
            Err(error) => panic!("the driver may wait for its device: {error:?}"),
        };
        device.finish();
        let asked = |engine: &EngineIndex| bits & RESET << engine.number() != 0;
        EngineIndex::ALL.into_iter().filter(asked).for_each(|engine| device.reset(engine));
        device.begin();
        // Lines are level triggered: an operation that has ended since we looked makes them fire again.
        for line in others.iter().flatten().chain([&line]) {
            // None may have fired.
            let _ = line.acknowledge();
        }
        for engine in EngineIndex::ALL.into_iter().filter(asked) {
            // The kernel looks for itself, and goes on waiting if it is not so.
            let _ = line.complete_reset(engine.number());
        }
    }
}

/// One client.
struct Client {
    space: Space,
    ring: SharedBytes,
    done: Notification,
}

/// A command that an engine works on.
#[derive(Clone, Copy)]
struct Running {
    context: usize,
    fence: Option<Fence>,
}

struct Device {
    doorbells: SharedBytes,
    status: SharedBytes,
    clients: [Option<Client>; CONTEXTS],
    copies: CopyEngines,
    processor: Processor,
    /// By which the processor tells that it has answered.
    done: Channel,
    /// Into memory of the device, and out of it.
    copy: [Option<Channel>; 2],
    running: [Option<Running>; ENGINES],
}

impl Device {
    fn open(environment: &Environment) -> Device {
        let region = |name| environment.expect::<Region>(name);
        let channel = |name| environment.region(name).ok().map(|region| Channel::open(&region));
        let (program, kick) = (region("program"), region("done"));
        let mut done = Channel::open(&kick);
        // The content of the copy is of no importance, but there must be one.
        let mailbox = program.physical() + MAILBOX as u64;
        done.prepare(mailbox + ANSWERED as u64, mailbox + COMMAND as u64, 4);
        let copy = [channel("copy_in"), channel("copy_out")];
        let number = copy.iter().flatten().count();
        let copies = CopyEngines::from_number(number).expect("there are two channels at most");
        assert!(copy[0].is_some() || number == 0, "the first channel for copies is `copy_in`");
        let kick = kick.physical() + dma::START;
        Device {
            doorbells: region("doorbells").shared(),
            status: region("status").shared(),
            clients: clients_of(environment),
            copies,
            processor: Processor::open(&region("reset"), &program, &region("firmware"), kick),
            done,
            copy,
            running: [None; ENGINES],
        }
    }

    /// Retires commands that have ended.
    fn finish(&mut self) {
        if self.done.take_done()
            && let Some(is_done) = self.processor.take_answer()
        {
            self.retire(EngineIndex::Execution, is_done);
        }
        if self.processor.look() {
            self.retire(EngineIndex::Execution, false);
        }
        for (channel, engine) in [EngineIndex::CopyIn, EngineIndex::CopyOut].into_iter().enumerate() {
            if self.copy[channel].as_mut().is_some_and(Channel::take_done) {
                self.retire(engine, true);
            }
        }
    }

    /// Starts submitted commands, on each engine that is idle.
    fn begin(&mut self) {
        let copies = self.copies;
        for engine in EngineIndex::ALL.into_iter().filter(|engine| copies.include(*engine)) {
            // A command that is refused retires at once, and the next may begin.
            while self.running[engine.number()].is_none()
                && let Some(context) = (0..CONTEXTS).find(|context| self.accepts(engine, *context))
            {
                self.start(engine, context);
            }
        }
    }

    /// Whether there is a command of `context` for `engine`: it has counted further than has retired, and stays with its count when it can see that
    /// we have seen it.
    fn accepts(&self, engine: EngineIndex, context: usize) -> bool {
        if self.clients[context].is_none() {
            return false;
        }
        let submitted = self.submitted(engine, context);
        let seen = contract::status_seen(engine, context) as usize;
        if self.status.read_u32(seen) != submitted {
            self.status.publish_u32(seen, submitted);
            // The kernel reads this word after the client's last store to the other: so it sees ours, or we see the client's.
            complete_stores();
            if self.submitted(engine, context) != submitted {
                return false;
            }
        }
        // A count that no ring has room for is nothing: the watchdog asks for a reset.
        (1..=contract::RING_ENTRIES).contains(&contract::outstanding(submitted, self.retired(engine, context)))
    }

    /// Starts the oldest command of `context` for `engine`, which is idle.
    fn start(&mut self, engine: EngineIndex, context: usize) {
        let Some(client) = &self.clients[context] else { return };
        let bytes = client.command(engine, self.retired(engine, context));
        self.running[engine.number()] = Some(Running { context, fence: Command::fence_of(&bytes) });
        let command = Command::decode(&bytes).ok();
        match command.and_then(|command| client.space.work(&command, engine, self.copies).ok()) {
            Some(Work::Compute(operation)) => self.processor.start(operation),
            Some(Work::Copy { source, destination, bytes }) => {
                let channel = self.copy[engine.number() - 1].as_mut();
                let channel = channel.expect("an engine that copies has a channel");
                channel.prepare(source, destination, bytes);
                complete_stores();
                channel.start();
            }
            None => self.retire(engine, false),
        }
    }

    /// Retires the operation of `engine`, which has ended: it was carried out, or it failed.
    fn retire(&mut self, engine: EngineIndex, is_done: bool) {
        let Some(Running { context, fence }) = self.running[engine.number()].take() else { return };
        let Some(client) = &self.clients[context] else { return };
        client.tell(fence, is_done);
        let retired = self.retired(engine, context).wrapping_add(1);
        self.status.publish_u32(contract::status_retired(engine, context) as usize, retired);
        client.wake();
    }

    /// Forgets all commands of `engine`, with doorbells out of their clients' reach: the commands have failed.
    fn reset(&mut self, engine: EngineIndex) {
        match engine {
            EngineIndex::Execution => {
                self.processor.reset();
                self.done.stop();
            }
            EngineIndex::CopyIn | EngineIndex::CopyOut => {
                if let Some(channel) = &mut self.copy[engine.number() - 1] {
                    channel.stop();
                }
            }
        }
        if let Some(Running { context, fence }) = self.running[engine.number()].take()
            && let Some(client) = &self.clients[context]
        {
            // The ring may say something else by now.
            client.tell(fence, false);
        }
        for (context, client) in self.clients.iter().enumerate() {
            let (submitted, retired) = (self.submitted(engine, context), self.retired(engine, context));
            let Some(client) = client.as_ref().filter(|_| submitted != retired) else { continue };
            for number in 0..contract::outstanding(submitted, retired).min(contract::RING_ENTRIES) {
                let bytes = client.command(engine, retired.wrapping_add(number));
                client.tell(Command::fence_of(&bytes), false);
            }
            self.status.publish_u32(contract::status_seen(engine, context) as usize, submitted);
            self.status.publish_u32(contract::status_retired(engine, context) as usize, submitted);
            client.wake();
        }
    }

    fn submitted(&self, engine: EngineIndex, context: usize) -> u32 {
        let page = contract::doorbell_page(engine, context);
        self.doorbells.observe_u32((page + contract::DOORBELL_SUBMITTED) as usize)
    }

    fn retired(&self, engine: EngineIndex, context: usize) -> u32 {
        self.status.read_u32(contract::status_retired(engine, context) as usize)
    }
}

impl Client {
    /// Command `number` of its ring, read once: its client may change it at any moment.
    fn command(&self, engine: EngineIndex, number: u32) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        self.ring.copy_to_slice(contract::ring_slot(engine, number) as usize, &mut bytes);
        bytes
    }

    /// Writes a fence, if it is where fences are.
    fn tell(&self, fence: Option<Fence>, is_done: bool) {
        if let Some((place, fence)) = fence.and_then(|fence| Some((fence_place(&fence)?, fence))) {
            self.ring.publish_u32(place, fence.value | if is_done { 0 } else { contract::FENCE_ERROR });
        }
    }

    fn wake(&self) {
        // A client that died is not notified; other clients are not concerned.
        let _ = self.done.signal(1);
    }
}

/// The clients of the manifest, by context.
fn clients_of(environment: &Environment) -> [Option<Client>; CONTEXTS] {
    let local = environment.region("local").ok();
    let count = clients(environment).count();
    let mut all = [const { None }; CONTEXTS];
    for (name, context) in clients(environment) {
        let window = |region: Region| Window { base: region.physical(), bytes: region.bytes() };
        let local = local.map_or(Window::default(), |local| {
            let (offset, pages) = space::share(local.bytes(), count, context);
            Window { base: local.physical() + offset, bytes: pages * contract::PAGE_BYTES }
        });
        let buffer = of_client(environment, "buffer.", name).map_or(Window::default(), window);
        let ring = of_client::<Region>(environment, "ring.", name).expect("each client has a ring").shared();
        let done = of_client(environment, "done.", name).expect("each client hears of completions");
        all[context] = Some(Client { space: Space { buffer, local }, ring, done });
    }
    all
}

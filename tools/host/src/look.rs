//! The state of a system, dead or running, from its memory: its tasks, their waits and locks, and their places in their programs.
//!
//! Objects of the kernel are found by their names in its source ([`typed`](crate::typed)); names of tasks and of objects are those
//! of the manifest. Where a task's own memory lies is in the packed system, which is behind the kernel. Of a system that runs, two
//! things that are read may not fit together; nothing here depends on that they do.
//!
//! Not here: how it is printed (`dump`, `top`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use fusee_abi::call::{Call, HandleValue, NUMBER, rights};
use fusee_abi::image::{Header, System, mapping};
use fusee_abi::trace::PANIC_CODE;
use fusee_manifest::{Resolved, layout};
use fusee_views::state::{Awaited, Ended, State};
use object::{Object, ObjectSection, ObjectSymbol};
use zerocopy::FromBytes;

use crate::build::{KERNEL_OFFSET, Programs};
use crate::decode::{Registers, Symbols, Unwinder};
use crate::qemu::{CpuRegisters, GuestMemory};
use crate::typed::{Static, Types, Value};

const STATE: &str = "fusee_kernel::trap::STATE";
const FRAMES: &str = "fusee_kernel::frame::FRAMES";
const LAST_REGISTERS: &str = "fusee_kernel::panic::LAST_REGISTERS";
const STOPPING: &str = "fusee_kernel::panic::STOPPING";
/// Where the kernel's image ends and the packed system begins.
const IMAGE_END: &str = "__image_end";

/// A system, and how its memory is read.
pub struct Look<'a> {
    pub(crate) system: &'a Resolved,
    programs: &'a Programs,
    pub(crate) types: Types,
    pub(crate) state: Static,
    frames: Static,
    last: Static,
    pub(crate) stopping: Static,
    packed_at: u64,
    known: RefCell<BTreeMap<String, Option<Rc<Code>>>>,
}

/// One call of a backtrace: the address of an instruction, and its functions with source lines, the innermost first.
pub type Place = (u64, Vec<String>);

/// The symbols of one program's code.
struct Code {
    symbols: Symbols,
    unwinder: Unwinder,
}

/// The state at one moment.
#[derive(Debug)]
pub struct Seen {
    /// Tasks, in the manifest's order.
    pub tasks: Vec<Task>,
    /// CPUs of the kernel.
    pub cpus: Vec<Cpu>,
    /// Engines and mutexes.
    pub engines: Vec<Engine>,
    /// For how long each of the system's users of engines had its engine, nanoseconds.
    pub engine_times: Vec<u64>,
    /// The kernel has stopped: its registers then.
    pub kernel: Option<Registers>,
    /// The latest instant that the kernel has come to, nanoseconds.
    pub now: u64,
    packed: Vec<u8>,
}

/// One CPU of the kernel.
#[derive(Debug)]
pub struct Cpu {
    /// The task on it.
    pub task: Option<usize>,
    /// Its registers at the moment, if they are known.
    pub registers: Option<Registers>,
    /// It was in the kernel.
    pub in_kernel: bool,
}

/// One engine or mutex.
#[derive(Debug)]
pub struct Engine {
    /// The state of its lock, as the kernel has it: `Free`, `Held`, `Draining`, and so on.
    pub state: String,
    /// The task that holds it, or did until it drained.
    pub user: Option<usize>,
    /// Tasks that wait for it, by arrival.
    pub waiters: Vec<usize>,
}

/// One task.
#[derive(Debug)]
pub struct Task {
    /// Its state.
    pub state: State,
    /// The task it waits for, if it is known which.
    pub waits_for: Option<usize>,
    /// The CPU it is on.
    pub cpu: Option<usize>,
    /// Its registers; those of its last trap, if it is on a CPU that is gone.
    pub registers: Registers,
    /// Whether they are older than the task's last instruction.
    pub is_stale: bool,
    /// The owner of the budget on which it runs, or would run.
    pub runs_on: Option<usize>,
    /// Its own budget.
    pub budget: Option<Budget>,
    /// Its job.
    pub job: Job,
    /// Its counts: jobs and their ends.
    pub statistics: Statistics,
    /// Its handles.
    pub handles: Vec<Handle>,
    /// Its locks and tokens, in words.
    pub holds: Vec<String>,
    /// Tasks whose requests it has received and not answered.
    pub serves: Vec<usize>,
}

/// A budget. Nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// So much in each period.
    pub whole: u64,
    /// So much is left.
    pub left: u64,
    /// So much is owed.
    pub debt: u64,
    /// It is used up, and not refilled yet.
    pub throttled: bool,
    /// So much was taken of it since the start.
    pub charged: u64,
    /// So often it was used up.
    pub throttles: u64,
}

/// A job. Nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Its number; zero: there was none yet.
    pub number: u64,
    /// It is released, and not complete.
    pub active: bool,
    /// Its deadline.
    pub deadline: u64,
}

/// The counts of a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Statistics {
    /// Jobs that are complete.
    pub jobs: u64,
    /// Those that were late.
    pub misses: u64,
    /// Releases that were given up.
    pub skipped: u64,
    /// Faults: one at most.
    pub faults: u64,
    /// Largest lateness, nanoseconds.
    pub lateness: i64,
    /// CPU time, nanoseconds.
    pub time: u64,
}

/// One handle.
#[derive(Debug)]
pub struct Handle {
    /// Its slot.
    pub slot: usize,
    /// Its name in the task; `None`: it came in a message.
    pub name: Option<String>,
    /// Kind and name of its object.
    pub object: String,
    /// Its rights.
    pub rights: Vec<&'static str>,
}

/// The state of a thread that has ended, as the kernel calls it.
pub(crate) const STOPPED: &str = "Stopped";

impl<'a> Look<'a> {
    /// How to look into a system that is made of these programs.
    pub fn new(system: &'a Resolved, programs: &'a Programs) -> Result<Look<'a>> {
        let types = Types::read(&programs.kernel)?;
        let elf = std::fs::read(&programs.kernel)?;
        let file = object::File::parse(&*elf)?;
        let end = file.symbols().find(|symbol| symbol.name() == Ok(IMAGE_END));
        let packed_at = end.with_context(|| format!("the kernel has no {IMAGE_END}"))?.address() - KERNEL_OFFSET;
        Ok(Look {
            system,
            programs,
            state: types.variable(STATE)?,
            frames: types.variable(FRAMES)?,
            last: types.variable(LAST_REGISTERS)?,
            stopping: types.variable(STOPPING)?,
            types,
            packed_at,
            known: RefCell::default(),
        })
    }

    /// Looks. `cpus` are those that QEMU emulates, if their registers are known.
    pub fn see(&self, memory: &GuestMemory, cpus: &[CpuRegisters]) -> Result<Seen> {
        let read = |of: Static| memory.read(of.address - KERNEL_OFFSET, of.bytes);
        let header = memory.read(self.packed_at, size_of::<Header>())?;
        let header = Header::read_from_bytes(&header).ok().filter(|header| header.magic == fusee_abi::image::MAGIC);
        let header = header.context("the memory holds no system: it has not begun to run")?;
        let packed = memory.read(self.packed_at, usize::try_from(header.bytes)?)?;
        let (state, frames) = (read(self.state)?, read(self.frames)?);
        let kernel = self.types.value(self.state, "STATE", &state)?.field("value.kernel")?;
        let frames = self.types.value(self.frames, "FRAMES", &frames)?;
        let objects = Objects { look: self, kernel };
        let stride = header.cpu_stride as usize;

        let time = |user: usize| objects.object("engine_users", user)?.field("time")?.number();
        let engine_times = (0..self.system.engine_users.len()).map(time).collect::<Result<_>>()?;
        let engines = objects.engines()?;
        let mut seen =
            Seen { tasks: Vec::new(), cpus: Vec::new(), engines, engine_times, kernel: None, now: 0, packed };
        for number in 0..self.system.cpus as usize {
            let cpu = objects.kernel.field("cpus")?.element(number)?;
            let task = id(&cpu.field("current")?)?;
            seen.now = seen.now.max(cpu.field("mark")?.number()?);
            let live = cpus.get(number * stride);
            seen.cpus.push(Cpu {
                task,
                registers: live.map(registers_of),
                in_kernel: live.is_some_and(|cpu| cpu.state & EXCEPTION_LEVEL != 0),
            });
        }
        for index in 0..self.system.tasks.len() {
            let mut task = objects.task(index, &seen.engines)?;
            // The frame of a thread is at its number, which is one more than its index.
            task.registers = registers_in(&frames.element(index + 1)?.field("registers")?)?;
            if let Some(cpu) = task.cpu.and_then(|cpu| seen.cpus.get(cpu)).filter(|cpu| cpu.task == Some(index)) {
                match cpu.registers {
                    Some(registers) if !cpu.in_kernel => task.registers = registers,
                    Some(_) => {}
                    None => task.is_stale = true,
                }
            }
            if let State::Ended(how) = &mut task.state {
                *how = ended(&task.statistics, &task.registers);
            }
            seen.tasks.push(task);
        }
        let stopping = read(self.stopping)?;
        if self.types.value(self.stopping, "STOPPING", &stopping)?.flag()? {
            let last = read(self.last)?;
            seen.kernel = Some(registers_in(&self.types.value(self.last, "LAST_REGISTERS", &last)?)?);
        }
        Ok(seen)
    }

    /// Compares the programs with those that ran: returns the names of those with other code than the memory.
    pub fn changed(&self, memory: &GuestMemory, seen: &Seen) -> Result<Vec<String>> {
        let same = |path: &Path, read: &dyn Fn(u64, usize) -> Option<Vec<u8>>| -> Result<bool> {
            let elf = std::fs::read(path).with_context(|| path.display().to_string())?;
            let file = object::File::parse(&*elf)?;
            let text = file.section_by_name(".text").context("a program without code")?;
            let code = text.data()?;
            let pages = code.chunks(PAGE).enumerate();
            Ok(pages.into_iter().all(|(number, page)| {
                read(text.address() + (number * PAGE) as u64, page.len()).is_some_and(|bytes| bytes == page)
            }))
        };
        let mut changed = Vec::new();
        if !same(&self.programs.kernel, &|at, length| memory.read(at - KERNEL_OFFSET, length).ok())? {
            changed.push("the kernel".to_owned());
        }
        for (index, task) in self.system.tasks.iter().enumerate() {
            let Some(path) = self.programs.binaries.get(&task.binary) else { continue };
            if !same(path, &|at, length| self.read_of_task(memory, seen, index, at, length))? {
                changed.push(format!("`{}`", task.binary));
            }
        }
        changed.dedup();
        Ok(changed)
    }

    fn read_of_task(&self, memory: &GuestMemory, seen: &Seen, task: usize, at: u64, length: usize) -> Option<Vec<u8>> {
        let system = System::parse(&seen.packed).ok()?;
        let end = at.checked_add(length as u64)?;
        let found = system.mappings().iter().find(|mapping| {
            let inside = mapping.address..=mapping.address + mapping.pages * PAGE as u64;
            mapping.flags & mapping::STREAM == 0
                && mapping.task as usize == task
                && inside.contains(&at)
                && inside.contains(&end)
        })?;
        let base = if found.flags & mapping::IN_IMAGE != 0 { self.packed_at } else { 0 };
        memory.read(base + found.physical + (at - found.address), length).ok()
    }

    /// Bytes of its stack that a task has used, at least: from the top to the farthest byte that is not zero. Each life begins with a stack of zeros. `None` if memory
    /// has no stack of the task.
    #[must_use]
    pub fn stack_used(&self, memory: &GuestMemory, seen: &Seen, task: usize) -> Option<u64> {
        let whole = self.system.tasks.get(task)?.stack;
        let bytes = self.read_of_task(memory, seen, task, layout::STACK_TOP - whole, whole as usize)?;
        let unused = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
        Some(whole - unused as u64)
    }

    /// Where a task is in its program: one call after the other, the innermost first.
    pub fn backtrace(&self, memory: &GuestMemory, seen: &Seen, task: usize) -> Result<Vec<Place>> {
        let mut registers = seen.tasks[task].registers;
        let read = |at: u64| {
            let bytes = self.read_of_task(memory, seen, task, at, 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        // A task that has called is behind its call; one that faulted is at the faulting instruction.
        let before = registers.program_counter.wrapping_sub(4);
        let called = self.read_of_task(memory, seen, task, before, 4).is_some_and(|word| word == SVC.to_le_bytes());
        if called && seen.tasks[task].statistics.faults == 0 {
            registers.program_counter = before;
        }
        let binary = &self.system.tasks[task].binary;
        let code = self.code(binary, self.programs.binaries.get(binary).map(AsRef::as_ref));
        Ok(code.map_or_else(|| vec![(registers.program_counter, Vec::new())], |code| code.backtrace(registers, &read)))
    }

    /// The same of the kernel, from these registers of it.
    pub fn kernel_backtrace(&self, memory: &GuestMemory, registers: Registers) -> Result<Vec<Place>> {
        let read = |at: u64| {
            let bytes = memory.read(at.checked_sub(KERNEL_OFFSET)?, 8).ok()?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let code = self.code("", Some(&self.programs.kernel)).context("the kernel cannot be read")?;
        Ok(code.backtrace(registers, &read))
    }

    fn code(&self, name: &str, path: Option<&Path>) -> Option<Rc<Code>> {
        let mut known = self.known.borrow_mut();
        let read = || {
            let path = path?;
            let (symbols, unwinder) = (Symbols::read(path).ok()?, Unwinder::read(path).ok()?);
            Some(Rc::new(Code { symbols, unwinder }))
        };
        known.entry(name.to_owned()).or_insert_with(read).clone()
    }
}

impl Code {
    fn backtrace(&self, registers: Registers, read: &dyn Fn(u64) -> Option<u64>) -> Vec<Place> {
        let addresses = self.unwinder.backtrace(registers, read);
        addresses.into_iter().map(|address| (address, self.symbols.locate(address))).collect()
    }
}

/// How a thread ended, by its last registers.
fn ended(statistics: &Statistics, registers: &Registers) -> Ended {
    // Without a handle it is the call that ends its caller, with this code.
    let [handle, code] = [0, 1].map(|register: usize| registers.general[register]);
    match () {
        () if statistics.faults > 0 => Ended::Faulted,
        () if registers.general[NUMBER] != Call::Exit as u64 || handle != 0 => Ended::Stopped(None),
        () if code == PANIC_CODE => Ended::Panicked,
        () => Ended::Exited(code as u32),
    }
}

/// `svc #0`.
const SVC: u32 = 0xd400_0001;
const PAGE: usize = fusee_abi::image::PAGE as usize;
/// In `PSTATE`: the exception level.
const EXCEPTION_LEVEL: u64 = 3 << 2;

fn registers_of(cpu: &CpuRegisters) -> Registers {
    Registers { general: cpu.general, program_counter: cpu.program_counter }
}

/// The registers that the kernel has saved.
fn registers_in(saved: &Value<'_>) -> Result<Registers> {
    let mut registers = Registers::default();
    for (index, place) in registers.general[..Registers::STACK].iter_mut().enumerate() {
        *place = saved.field("general")?.element(index)?.number()?;
    }
    registers.general[Registers::STACK] = saved.field("stack")?.number()?;
    registers.program_counter = saved.field("program_counter")?.number()?;
    Ok(registers)
}

/// The index of a named object: ids count from one, those of CPUs from zero.
fn id(value: &Value<'_>) -> Result<Option<usize>> {
    let Some(value) = value.option()? else { return Ok(None) };
    Ok(Some((value.number()? as usize).checked_sub(1).context("an id is zero")?))
}

/// The objects of a kernel.
pub(crate) struct Objects<'a> {
    pub(crate) look: &'a Look<'a>,
    pub(crate) kernel: Value<'a>,
}

impl<'a> Objects<'a> {
    /// The object of a table. The last lies in front of all others: see `arena.rs` of the kernel's core.
    pub(crate) fn object(&self, table: &str, index: usize) -> Result<Value<'a>> {
        let table = self.kernel.field(table)?;
        let count = table.length()?;
        ensure!(index < count, "an object has the number {index}, of {count}");
        table.element((index + 1) % count)
    }

    fn system(&self) -> &'a Resolved {
        self.look.system
    }

    fn named<T>(list: &[(String, T)], index: Option<usize>) -> &str {
        index.and_then(|index| list.get(index)).map_or("?", |(name, _)| name.as_str())
    }

    /// An engine, as people call it.
    fn engine_words(&self, engine: usize) -> String {
        let system = self.system();
        // An engine that no device has is a lock that tasks use among themselves.
        let kind = if system.engine_places.get(engine).is_some_and(Option::is_none) { "mutex" } else { "engine" };
        format!("{kind} `{}`", Self::named(&system.engines, Some(engine)))
    }

    fn engine_of_user(&self, user: usize) -> Option<usize> {
        Some(self.system().engine_users.get(user)?.engine as usize)
    }

    fn task_of_engine_user(&self, user: usize) -> Option<usize> {
        Some(self.system().engine_users.get(user)?.task as usize)
    }

    fn engines(&self) -> Result<Vec<Engine>> {
        (0..self.system().engines.len())
            .map(|index| {
                let lock = self.object("engines", index)?.field("lock")?;
                let (state, fields) = lock.field("state")?.variant()?;
                let user = match state.as_str() {
                    "Free" => None,
                    _ => self.task_of_engine_user(fields.field("__0")?.number()? as usize),
                };
                let waiters = lock.field("waiters")?.elements()?;
                let waiters = waiters.iter().map(Value::number).collect::<Result<Vec<u64>>>()?;
                let waiters = waiters.into_iter().filter_map(|user| self.task_of_engine_user(user as usize)).collect();
                Ok(Engine { state, user, waiters })
            })
            .collect()
    }

    fn task(&self, index: usize, engines: &[Engine]) -> Result<Task> {
        let thread = self.object("threads", index)?;
        let (state, fields) = thread.field("state")?.variant()?;
        let (cause, expected) = self.wait(&state, &fields, engines)?;
        let donates_to = id(&thread.field("waits.waits_for")?)?;
        // An earlier wait of a thread that is ready does not count.
        let waits_for = cause.and_then(|_| donates_to.or(expected));
        let own = id(&thread.field("own")?)?;
        let chosen = id(&thread.field("waits.chosen")?)?;
        let owner = |reservation: usize| id(&self.object("reservations", reservation)?.field("owner")?);
        let job = thread.field("job")?;
        let done = thread.field("statistics")?;
        let slots = thread.field("slots")?;
        let mut serves = Vec::new();
        for slot in 0..slots.length()? {
            serves.extend(id(&slots.element(slot)?.field("client")?)?);
        }
        let cpu = thread.field("on")?.option()?.map(|cpu| cpu.number()).transpose()?.map(|cpu| cpu as usize);
        let runs_on = chosen.map(owner).transpose()?.flatten();
        let budget = own.map(|own| self.budget(own)).transpose()?;
        let state = match (state.as_str(), cause, cpu) {
            ("Dormant", ..) => State::NotStarted,
            // How it ended is in its registers.
            (STOPPED, ..) => State::Ended(Ended::Stopped(None)),
            ("BetweenJobs", ..) => State::BetweenJobs,
            (_, Some(cause), _) => State::Waits(cause, waits_for.into_iter().collect()),
            (_, None, Some(cpu)) => State::Runs(cpu as u8, runs_on.unwrap_or(index)),
            _ if budget.is_some_and(|budget| budget.throttled) && runs_on.is_none_or(|owner| owner == index) => {
                State::Dry
            }
            _ => State::Ready,
        };
        Ok(Task {
            waits_for,
            cpu,
            registers: Registers::default(),
            is_stale: false,
            runs_on,
            budget,
            job: Job {
                number: job.field("number")?.number()?,
                active: job.field("active")?.flag()?,
                deadline: job.field("deadline")?.number()?,
            },
            statistics: Statistics {
                jobs: done.field("jobs")?.number()?,
                misses: done.field("misses")?.number()?,
                skipped: done.field("skipped")?.number()?,
                faults: done.field("faults")?.number()?,
                lateness: done.field("max_lateness")?.number()?.cast_signed(),
                time: done.field("time")?.number()?,
            },
            handles: self.handles(index)?,
            holds: self.holds(index, engines)?,
            serves,
            state,
        })
    }

    fn budget(&self, reservation: usize) -> Result<Budget> {
        let reservation = self.object("reservations", reservation)?;
        let account = reservation.field("account")?;
        Ok(Budget {
            whole: account.field("budget")?.number()?,
            left: account.field("left")?.number()?,
            debt: account.field("debt")?.number()?,
            throttled: reservation.field("throttled")?.flag()?,
            charged: reservation.field("charged")?.number()?,
            throttles: reservation.field("throttles")?.number()?,
        })
    }

    /// The cause of a thread's suspension in this state, and the task that is to end it, if it is suspended at all.
    fn wait(&self, state: &str, fields: &Value<'_>, engines: &[Engine]) -> Result<(Option<Awaited>, Option<usize>)> {
        let system = self.system();
        let first = || anyhow::Ok((fields.field("__0")?.number()? as usize).checked_sub(1));
        let user = || anyhow::Ok((fields.field("user")?.number()? as usize).checked_sub(1));
        let pool = |user: Option<usize>| {
            let user = user.and_then(|user| system.pool_users.get(user)).context("a pool")?;
            anyhow::Ok(user.pool as usize)
        };
        let server = |endpoint: Option<usize>| Some(system.endpoints.get(endpoint?)?.1.server as usize);
        Ok(match state {
            "Ready" | "Dormant" | STOPPED => (None, None),
            "Receiving" => (Some(Awaited::Requests(first()?)), None),
            "Calling" => {
                let server = server(first()?);
                (Some(Awaited::Reply(server)), server)
            }
            "AwaitingReply" => {
                let server = (fields.field("server")?.number()? as usize).checked_sub(1);
                (Some(Awaited::Reply(server)), server)
            }
            "Waiting" => {
                let index = first()?.context("a notification")?;
                let bound = id(&self.object("notifications", index)?.field("bound")?)?;
                (Some(Awaited::Notification(index)), bound)
            }
            "Acquiring" => {
                let engine = first()?.and_then(|user| self.engine_of_user(user)).context("an engine")?;
                (Some(Awaited::Engine(engine)), engines.get(engine).and_then(|engine| engine.user))
            }
            "AwaitingGroup" => (Some(Awaited::Group), None),
            "Donating" => (Some(Awaited::Lends), None),
            "AwaitingTurn" => (Some(Awaited::Turn(pool(user()?)?)), None),
            "AwaitingToken" => (Some(Awaited::Token(pool(user()?)?)), None),
            // Its job is over, which is a state of its own.
            "BetweenJobs" => (Some(Awaited::Time), None),
            "Sleeping" => (Some(Awaited::Time), None),
            other => anyhow::bail!("a thread is in the state `{other}`, which has no words"),
        })
    }

    fn holds(&self, task: usize, engines: &[Engine]) -> Result<Vec<String>> {
        let system = self.system();
        let mut holds: Vec<String> = engines
            .iter()
            .enumerate()
            .filter(|(_, engine)| engine.user == Some(task) && engine.state == "Held")
            .map(|(index, _)| self.engine_words(index))
            .collect();
        for (index, (name, _)) in system.pools.iter().enumerate() {
            for request in self.object("pools", index)?.field("requests")?.elements()? {
                let user = system.pool_users.get(request.field("user")?.number()? as usize);
                let (place, fields) = request.field("place")?.variant()?;
                let is_first = place == "Fifo" && fields.field("ahead")?.number()? == 0;
                if is_first && user.is_some_and(|user| user.task as usize == task) {
                    holds.push(format!("token {} of pool `{name}`", fields.field("replica")?.number()?));
                }
            }
        }
        Ok(holds)
    }

    fn handles(&self, task: usize) -> Result<Vec<Handle>> {
        let table = self.object("handles", task)?;
        let names = &self.system().tasks[task].environment;
        let mut handles = Vec::new();
        for slot in 0..table.length()? {
            let handle = table.element(slot)?;
            let (kind, fields) = handle.field("object")?.variant()?;
            if kind == "Empty" {
                continue;
            }
            let own = handle.field("rights")?.number()? as u32;
            // A copy has its rights elsewhere.
            let rights = if own == 0 { handle.field("kept")?.number()? as u32 } else { own };
            let value = handle.field("value")?.number()?;
            // Of a task that has ended: no value names it until the next life.
            if usize::from(HandleValue(value).slot()) != slot {
                continue;
            }
            let name = names.iter().find(|entry| entry.handle == value && value != 0).map(|entry| entry.name.clone());
            handles.push(Handle {
                slot,
                name,
                object: self.object_words(&kind, &fields)?,
                rights: right_names(rights),
            });
        }
        Ok(handles)
    }

    fn object_words(&self, kind: &str, fields: &Value<'_>) -> Result<String> {
        let system = self.system();
        if kind == "System" {
            return Ok("the system".to_owned());
        }
        let index = (fields.field("__0")?.number()? as usize).checked_sub(1);
        let named = |name: &str| format!("{} `{name}`", kind.to_lowercase());
        Ok(match kind {
            "Endpoint" => named(Self::named(&system.endpoints, index)),
            "Notification" => named(Self::named(&system.notifications, index)),
            "Interrupt" => named(Self::named(&system.interrupts, index)),
            "Region" => named(Self::named(&system.regions, index)),
            "Engine" => self.engine_words(index.and_then(|user| self.engine_of_user(user)).context("an engine")?),
            "Pool" => {
                let user = index.and_then(|index| system.pool_users.get(index));
                named(Self::named(&system.pools, user.map(|user| user.pool as usize)))
            }
            "Task" => named(index.and_then(|index| system.tasks.get(index)).map_or("?", |task| task.name.as_str())),
            other => anyhow::bail!("a handle is of the kind `{other}`, which `dump` does not know"),
        })
    }
}

/// The names of rights in manifests, by their bits.
const RIGHTS: [(u32, &str); 16] = [
    (rights::CALL, "call"),
    (rights::SEND, "send"),
    (rights::RECEIVE, "receive"),
    (rights::SIGNAL, "signal"),
    (rights::WAIT, "wait"),
    (rights::RELEASE_JOB, "release_job"),
    (rights::ACQUIRE, "acquire"),
    (rights::MAP, "map"),
    (rights::ACKNOWLEDGE, "acknowledge"),
    (rights::SHUTDOWN, "shutdown"),
    (rights::STOP, "stop"),
    (rights::GRANT, "grant"),
    (rights::READ, "read"),
    (rights::WRITE, "write"),
    (rights::LEND, "lend"),
    (rights::LENT, "lent"),
];

fn right_names(bits: u32) -> Vec<&'static str> {
    RIGHTS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect()
}

//! A task with a program that is built for the host: a process, which runs from one kernel call to the next.
//!
//! All that the program meets comes from the simulated kernel: the results of its calls, its time, and its memory. One process runs at a time, and only
//! between two of its messages; so a run repeats, and the load of the host changes nothing. Code between two calls takes no virtual time, unless it burns
//! ([`fusee::burn`]), looks at memory again and again ([`fusee::relax`]), or has a [`Pace`].
//!
//! # Invariants
//!
//! 1. The memory of all tasks is one file. A place in it is a physical address, and the packed system stands behind these.
//! 2. A process has the pages that the packed system maps for its task, with the same rights and at the same addresses. Its program and its stack are the
//!    host's own: code for another processor needs other amounts of both.
//! 3. A process ends with its life of the task, at the latest with the simulation; or with this program, however that ends.
//!
//! Not here: the program's side (`userland/fusee/src/door.rs`), how programs are built (`tools/host`).

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fusee_abi::call::Call;
use fusee_abi::door::{self, Answer, Ask, Mapping, REGISTERS, ask, fault, first};
use fusee_abi::image::{self, PAGE, System, kind, mapping};
use fusee_kernel_core::id::{RegionId, ThreadId};
use fusee_kernel_core::reach::Reach;
use fusee_kernel_core::{Fault, FaultKind, Machine, Place};
use fusee_manifest::{Manifest, Resolved, layout};
use zerocopy::{FromZeros, IntoBytes};

use crate::actor::{Action, Behaviour};
use crate::board::{Board, PageChange};
use crate::workload::Source;

/// The time of the host in which a program makes its next call, unless another is asked for.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How often a program may read the counter while no virtual time passes.
const LOOKS: u32 = 100_000;
/// A stack on the host is so many times as long as on the board, and no shorter than [`STACK_MIN`]: frames of functions have other sizes there, for
/// another processor.
const STACK_FACTOR: u64 = 4;
/// The shortest stack on the host.
const STACK_MIN: u64 = 256 * 1024;
/// The addresses of all that a task's process is given.
const SPAN: [u64; 2] = [layout::ENVIRONMENT, layout::MEMBERS];

/// The virtual time that code between two calls takes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Pace {
    /// None but that which programs burn.
    #[default]
    Burns,
    /// As above; and a job that has burned less than its declared `wcet` burns the rest before it ends.
    Wcet,
    /// Each job draws an execution time up to its declared `wcet`, and burns parts of that before its calls and the rest before it ends; the seed says
    /// which. Later burns of the program's own count against the parts, so a job never takes longer than the longer of its own burns and its `wcet`.
    Random(u64),
}

/// The tasks that run programs of the host.
#[derive(Clone, Debug)]
pub struct Hosted {
    /// Tasks, by index, and the files of their programs.
    pub programs: Vec<(usize, PathBuf)>,
    /// The time that their code takes.
    pub pace: Pace,
    /// Tasks, by index, with another pace.
    pub paces: Vec<(usize, Pace)>,
    /// The time of the host in which a program makes its next call.
    pub patience: Duration,
    /// A task, by index, whose program a gdb starts, and the program of that gdb.
    pub debugged: Option<(usize, PathBuf)>,
}

impl Default for Hosted {
    fn default() -> Self {
        Hosted { programs: Vec::new(), pace: Pace::default(), paces: Vec::new(), patience: PATIENCE, debugged: None }
    }
}

/// The reason why the process of a task cannot go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// The memory of all tasks, or the process, could not be made.
    NotStarted(ErrorKind),
    /// The process made no call within so many milliseconds of the host's time.
    Silent(u64),
    /// The process ended without the kernel, with this exit code.
    Exited(i32),
    /// A signal of the host ended the process.
    Signalled(i32),
    /// The process read the counter again and again at one instant.
    Looks,
    /// The process sent a message of no meaning.
    Garbled,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::NotStarted(kind) => write!(f, "could not be started on this host: {kind}"),
            Failure::Silent(limit) => write!(
                f,
                "made no call for {limit} ms of the host's time: it loops for ever, or it needs a larger `--patience`; a loop that waits for \
                 others needs `fusee::relax` or `fusee::burn` in it"
            ),
            Failure::Exited(door::OTHER_VERSION) => {
                write!(f, "was built with another version of the crate `fusee`: build it with the one of this tool")
            }
            Failure::Exited(door::NO_MEMORY) => {
                write!(
                    f,
                    "could not map its memory on this host: addresses that tasks have are taken, or mapping is not allowed"
                )
            }
            Failure::Exited(code) => write!(
                f,
                "ended without a call, with code {code}: a task ends by `fusee::exit`, and its program needs `fusee::entry!`"
            ),
            Failure::Signalled(signal) => write!(f, "was ended by signal {signal} of the host"),
            Failure::Looks => write!(
                f,
                "read the counter {LOOKS} times and no time passed: a loop that waits needs `fusee::relax` or `fusee::burn` in it"
            ),
            Failure::Garbled => write!(f, "sent a message of no meaning: its program writes to its standard input"),
        }
    }
}

/// The reason why the program of a task cannot run on the host; `None`: it can.
#[must_use]
pub fn unsuited(manifest: &Manifest, index: usize) -> Option<String> {
    let system = &manifest.system;
    let task = &system.tasks[index];
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some("programs run in the simulator on Linux on x86-64 only".to_owned());
    }
    if task.elf().is_some() {
        return Some(
            "`elf` names a program that is built for the board; `binary` names one that is built here, too".to_owned(),
        );
    }
    let names = |is_one: &dyn Fn(&fusee_manifest::Entry) -> bool| {
        let names: Vec<String> =
            task.environment.iter().filter(|entry| is_one(entry)).map(|entry| format!("`{}`", entry.name)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let maps = |entry: &fusee_manifest::Entry, flags: u32| {
        let mut mappings = system.mappings.iter().filter(|one| one.task as usize == index && one.flags & flags != 0);
        entry.kind == kind::REGION && mappings.any(|one| one.address == entry.address)
    };
    let doorbells = [fusee_abi::environment::kind::DOORBELL, kind::DOORBELLS];
    if let Some(names) = names(&|entry| doorbells.contains(&entry.kind)) {
        return Some(format!("it uses an accelerator, which programs cannot reach in the simulator yet ({names})"));
    }
    let devices = names(&|entry| maps(entry, mapping::DEVICE));
    if let Some(names) = devices.or_else(|| names(&|entry| entry.kind == kind::INTERRUPT)) {
        return Some(format!("it drives a device, which the simulator has no model of ({names})"));
    }
    if let Some(names) = names(&|entry| maps(entry, mapping::TRACE)) {
        return Some(format!("it reads the trace of a board ({names})"));
    }
    None
}

/// The memory of all tasks of one simulation, and the packed system.
#[derive(Debug)]
pub struct Memory {
    file: File,
    /// Where the packed system begins.
    image: u64,
}

impl Memory {
    /// The memory of `system`, as at boot.
    ///
    /// # Errors
    /// The host's.
    pub fn new(system: &System<'_>) -> std::io::Result<Memory> {
        let is_memory = |one: &&image::Mapping| one.flags & (mapping::IN_IMAGE | mapping::DEVICE | mapping::TRACE) == 0;
        let ends = system.mappings().iter().filter(is_memory).map(|one| one.physical + one.pages * PAGE);
        let regions = system.regions().iter().map(|one| one.physical + one.bytes);
        let image = ends.chain(regions).max().unwrap_or(0).next_multiple_of(PAGE);
        let file = file_of(system.bytes(), image)?;
        Ok(Memory { file, image })
    }

    /// Reads `bytes` from the physical address `from` on.
    ///
    /// # Errors
    /// The host's; or the memory ends before.
    pub fn read(&self, from: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(bytes)
    }
}

/// A file in memory, of zeros and then `image`, which begins at `at`.
#[cfg(target_os = "linux")]
fn file_of(image: &[u8], at: u64) -> std::io::Result<File> {
    use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_setfl, ftruncate, memfd_create};

    let file = memfd_create("fusee", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, at + image.len() as u64)?;
    let file = File::from(file);
    std::os::unix::fs::FileExt::write_all_at(&file, image, at)?;
    // The file is the standard output of all processes. One that prints writes behind the end, which the host refuses.
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK)?;
    fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

/// A file in memory: other hosts have none that processes can share and map like this.
#[cfg(not(target_os = "linux"))]
fn file_of(_: &[u8], _: u64) -> std::io::Result<File> {
    Err(ErrorKind::Unsupported.into())
}

/// A place for a region that others lend.
#[derive(Clone, Copy, Debug)]
struct Lent {
    region: RegionId,
    /// The place with the region in it, and the accesses that its task may be allowed.
    mapping: Mapping,
    /// The page that the task has there in place of a region that was taken back.
    scratch: u64,
}

/// A task before its first instruction.
#[derive(Debug)]
struct Setup {
    path: PathBuf,
    memory: Arc<Memory>,
    /// Pages that are always there.
    fixed: Vec<Mapping>,
    lent: Vec<Lent>,
    /// Regions that the task maps by calls.
    mapped: Vec<(RegionId, Mapping)>,
    stack: u64,
    /// The declared `wcet`, if the task has a pace.
    execution: Option<u64>,
    /// The source of the execution times of jobs, if they are drawn.
    source: Option<Source>,
    patience: Duration,
    /// The gdb that starts the program.
    gdb: Option<PathBuf>,
}

/// The next message to the process.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The first.
    Begin,
    /// The results of a call.
    Results,
    /// Nothing but that it goes on.
    GoOn,
    /// None before this call, which is to be made now.
    Call([u64; REGISTERS]),
}

/// A task that runs as a process of the host.
#[derive(Debug)]
pub struct Process {
    setup: Arc<Setup>,
    running: Option<Running>,
    next: Next,
    /// Nanoseconds that it still burns.
    left: u64,
    /// Nanoseconds that it has burned in this job.
    burned: u64,
    /// Those of them that were drawn, and that no burn of its own has taken the place of.
    drawn: u64,
    /// The execution time of this job.
    execution: Option<u64>,
    source: Option<Source>,
    /// Whether it is in a job.
    in_job: bool,
    /// How often it has read the counter since time passed.
    looks: u32,
    /// The contents of its places, as the process has them.
    places: Vec<Place>,
    /// How many changes of its pages the process has.
    changes: usize,
}

/// A process, which waits for a message.
#[derive(Debug)]
struct Running {
    child: Child,
    socket: UnixStream,
    /// Whether the child is a gdb, which has started the program.
    is_debugged: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_debugged {
            // The program ends; its gdb ends when its user says so.
            let _ = self.socket.shutdown(Shutdown::Both);
            let _ = self.child.wait();
            return;
        }
        // An error says that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// The task with this index, with the program `path`.
    #[must_use]
    pub fn new(
        system: &System<'_>,
        resolved: &Resolved,
        index: usize,
        path: &Path,
        memory: &Arc<Memory>,
        hosted: &Hosted,
    ) -> Process {
        let mappings =
            || system.mappings().iter().filter(|one| one.task as usize == index && one.flags & mapping::STREAM == 0);
        let region_at =
            |address: u64| system.regions().iter().position(|region| region.address == address).and_then(RegionId::new);
        let of = |one: &image::Mapping| Mapping {
            address: one.address,
            bytes: one.pages * PAGE,
            offset: one.physical + if one.flags & mapping::IN_IMAGE != 0 { memory.image } else { 0 },
            access: u64::from(one.flags & (mapping::READ | mapping::WRITE)),
        };
        let is_stack = |one: &&image::Mapping| one.address + one.pages * PAGE == layout::STACK_TOP;
        let special = mapping::HELD_BACK | mapping::LENT | mapping::SCRATCH | mapping::DEVICE | mapping::TRACE;
        let scratch = |address: u64| mappings().find(|one| one.flags & mapping::SCRATCH != 0 && one.address == address);
        let lent = mappings().filter(|one| one.flags & mapping::LENT != 0).filter_map(|one| {
            let scratch = scratch(one.address).map_or(one.physical, |scratch| scratch.physical);
            Some(Lent { region: region_at(one.address)?, mapping: of(one), scratch })
        });
        let held_back = mappings().filter(|one| one.flags & special == mapping::HELD_BACK);
        let task = &resolved.tasks[index];
        let execution = task.reservation.map(|reservation| resolved.reservations[reservation].execution);
        let pace = hosted.paces.iter().find(|(one, _)| *one == index).map_or(hosted.pace, |(_, pace)| *pace);
        let source = match pace {
            Pace::Random(seed) => Some(Source::new(seed, index as u64)),
            Pace::Burns | Pace::Wcet => None,
        };
        let setup = Setup {
            path: path.to_owned(),
            memory: Arc::clone(memory),
            fixed: mappings().filter(|one| one.flags & special == 0 && !is_stack(one)).map(of).collect(),
            lent: lent.collect(),
            mapped: held_back.filter_map(|one| Some((region_at(one.address)?, of(one)))).collect(),
            stack: (task.stack * STACK_FACTOR).clamp(STACK_MIN, layout::STACK_MAX),
            execution: execution.filter(|_| pace != Pace::Burns),
            source,
            patience: hosted.patience,
            gdb: hosted.debugged.as_ref().filter(|(one, _)| *one == index).map(|(_, gdb)| gdb.clone()),
        };
        Process::of(Arc::new(setup))
    }

    fn of(setup: Arc<Setup>) -> Process {
        let places = vec![Place::Empty; setup.lent.len()];
        let (execution, source) = (setup.execution, setup.source.clone());
        let (left, burned, drawn, in_job, looks, changes) = (0, 0, 0, false, 0, 0);
        let (running, next) = (None, Next::Begin);
        Process { setup, running, next, left, burned, drawn, execution, source, in_job, looks, places, changes }
    }

    /// Lets the process run until it wants something that takes time or the kernel.
    fn go_on(&mut self, board: &mut Board, thread: ThreadId) -> Result<Action, Failure> {
        let mut registers = [0; REGISTERS];
        match self.next {
            Next::Begin => {
                self.running = Some(self.setup.start()?);
                registers[first::ENVIRONMENT] = layout::ENVIRONMENT;
                registers[first::LIFE] = board.registers(thread).general[1];
                registers[first::STACK_TOP] = layout::STACK_TOP;
                registers[first::STACK_BYTES] = self.setup.stack;
                [registers[first::SPAN], registers[first::SPAN_END]] = SPAN;
                board.keep_page_changes(thread);
            }
            Next::Results => registers.copy_from_slice(&board.registers(thread).general[..REGISTERS]),
            Next::GoOn => {}
            Next::Call(registers) => return Ok(self.call(board, thread, registers)),
        }
        loop {
            let mut changes = self.changes(board, thread);
            if matches!(self.next, Next::Begin) {
                changes.splice(0..0, self.setup.fixed.iter().copied());
            }
            let Ask { kind, registers: asked } = self.exchange(registers, &changes)?;
            self.next = Next::GoOn;
            registers = [0; REGISTERS];
            match kind {
                ask::CALL => return Ok(self.ask_for(board, thread, asked)),
                ask::BURN => {
                    let covered = asked[0].min(self.drawn);
                    self.drawn -= covered;
                    if asked[0] > covered {
                        (self.left, self.looks) = (asked[0] - covered, 0);
                        return Ok(Action::Burn(self.left));
                    }
                }
                ask::COUNTER if self.looks == LOOKS => return Err(Failure::Looks),
                ask::COUNTER => {
                    self.looks += 1;
                    registers[0] = board.now;
                }
                ask::FAULT => {
                    let at = board.registers(thread);
                    // Registers of the host mean nothing to readers of a trace.
                    at.general.fill(0);
                    (at.program_counter, at.stack) = (asked[2], asked[3]);
                    return Ok(Action::Faulted(fault_of(asked[0], asked[1])));
                }
                _ => return Err(Failure::Garbled),
            }
        }
    }

    /// The process wants to make a call. A job with a pace first takes a part of its time, or the rest.
    fn ask_for(&mut self, board: &mut Board, thread: ThreadId, registers: [u64; REGISTERS]) -> Action {
        let ends = registers[fusee_abi::call::NUMBER] == Call::NextJob as u64;
        let rest = self.execution.filter(|_| self.in_job).map_or(0, |execution| execution.saturating_sub(self.burned));
        let part = match &mut self.source {
            _ if ends => rest,
            None => 0,
            Some(source) => source.draw(0, rest),
        };
        self.drawn += part;
        if part > 0 {
            (self.left, self.next) = (part, Next::Call(registers));
            return Action::Burn(part);
        }
        self.call(board, thread, registers)
    }

    fn call(&mut self, board: &mut Board, thread: ThreadId, registers: [u64; REGISTERS]) -> Action {
        if registers[fusee_abi::call::NUMBER] == Call::NextJob as u64 {
            (self.in_job, self.burned, self.drawn) = (true, 0, 0);
            if let (Some(source), Some(most)) = (&mut self.source, self.setup.execution) {
                self.execution = Some(source.draw(0, most));
            }
        }
        board.registers(thread).general[..REGISTERS].copy_from_slice(&registers);
        (self.next, self.looks) = (Next::Results, 0);
        Action::Trap
    }

    /// The changes of the task's pages that the process does not have yet.
    fn changes(&mut self, board: &Board, thread: ThreadId) -> Vec<Mapping> {
        let mut changes = Vec::new();
        for (lent, before) in self.setup.lent.iter().zip(&mut self.places) {
            let place = Reach::place(board, thread, lent.region);
            if std::mem::replace(before, place) == place {
                continue;
            }
            let Lent { mapping, scratch, .. } = *lent;
            let not = |bit: u32| !u64::from(bit);
            match place {
                Place::Empty => changes.push(Mapping { access: 0, ..mapping }),
                Place::Lent { writable: true } => changes.push(mapping),
                Place::Lent { writable: false } => {
                    changes.push(Mapping { access: mapping.access & not(mapping::WRITE), ..mapping });
                }
                Place::Scratch => {
                    let pages = (0..mapping.bytes).step_by(PAGE as usize);
                    let page = |at| Mapping { address: mapping.address + at, bytes: PAGE, offset: scratch, ..mapping };
                    changes.extend(pages.map(page));
                }
            }
        }
        let new = board.page_changes(thread).get(self.changes..).unwrap_or_default();
        self.changes += new.len();
        for PageChange { region, first, count, mapped } in new {
            let Some((_, whole)) = self.setup.mapped.iter().find(|(one, _)| one == region) else { continue };
            let at = first * PAGE;
            changes.push(Mapping {
                address: whole.address + at,
                bytes: count * PAGE,
                offset: whole.offset + at,
                access: if *mapped { whole.access } else { 0 },
            });
        }
        changes
    }

    /// Sends a message, and waits for the next of the process.
    fn exchange(&mut self, registers: [u64; REGISTERS], changes: &[Mapping]) -> Result<Ask, Failure> {
        let running = self.running.as_mut().ok_or(Failure::Garbled)?;
        let mut message = Answer { registers, mappings: changes.len() as u64 }.as_bytes().to_vec();
        message.extend_from_slice(changes.as_bytes());
        let mut asked = Ask::new_zeroed();
        let result = running.socket.write_all(&message).and_then(|()| running.socket.read_exact(asked.as_mut_bytes()));
        match result {
            Ok(()) => Ok(asked),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(Failure::Silent(self.setup.patience.as_millis() as u64))
            }
            // The process has ended, or is about to.
            Err(_) => Err(match running.child.wait() {
                Ok(status) => match (status.code(), status.signal()) {
                    (Some(code), _) => Failure::Exited(code),
                    (None, signal) => Failure::Signalled(signal.unwrap_or(0)),
                },
                Err(error) => Failure::NotStarted(error.kind()),
            }),
        }
    }
}

impl Setup {
    /// Starts the program.
    fn start(&self) -> Result<Running, Failure> {
        let start = || -> std::io::Result<Running> {
            let (socket, theirs) = UnixStream::pair()?;
            if let Some(gdb) = &self.gdb {
                let child = debugged(gdb, &self.path, &theirs, &self.memory.file)?;
                return Ok(Running { child, socket, is_debugged: true });
            }
            socket.set_read_timeout(Some(self.patience))?;
            let mut command = Command::new(&self.path);
            command.env_clear().env(door::VARIABLE, door::VERSION);
            command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::from(self.memory.file.try_clone()?));
            Ok(Running { child: command.spawn()?, socket, is_debugged: false })
        };
        start().map_err(|error| Failure::NotStarted(error.kind()))
    }
}

/// Starts a gdb that starts the program `path` with `socket` as its standard input and `memory` as its standard output, and lets it stop where its task
/// begins. The gdb has the terminal. No limit of the host's time holds for the program: virtual time stands while gdb has stopped it.
fn debugged(gdb: &Path, path: &Path, socket: &UnixStream, memory: &File) -> std::io::Result<Child> {
    // These two are inherited: the shell by which gdb starts the program gives them their places.
    let [input, output] = [rustix::io::dup(socket)?, rustix::io::dup(memory)?];
    let name = path.file_name().unwrap_or_default().to_string_lossy().replace('-', "_");
    let mut command = Command::new(gdb);
    command.arg("-quiet");
    for line in [
        "set pagination off".to_owned(),
        "set startup-with-shell on".to_owned(),
        format!("set exec-wrapper env -i {}={}", door::VARIABLE, door::VERSION),
        format!("set args 0<&{} 1>&{}", input.as_raw_fd(), output.as_raw_fd()),
        format!("break {name}::main"),
        "run".to_owned(),
    ] {
        command.arg("-ex").arg(line);
    }
    command.arg(path).env("SHELL", "/bin/sh").spawn()
}

impl Behaviour for Process {
    fn copy(&self) -> Box<dyn Behaviour> {
        Box::new(Process::of(Arc::clone(&self.setup)))
    }

    fn ran(&mut self, span: u64) {
        self.burned += span.min(self.left);
        self.left = self.left.saturating_sub(span);
    }

    fn act(&mut self, board: &mut Board, thread: ThreadId) -> Action {
        if self.left > 0 {
            return Action::Burn(self.left);
        }
        self.go_on(board, thread).unwrap_or_else(Action::Failed)
    }
}

/// The kernel's fault.
fn fault_of(kind: u64, address: u64) -> Fault {
    let kind = match kind {
        fault::READ => FaultKind::Read,
        fault::WRITE => FaultKind::Write,
        fault::EXECUTE => FaultKind::Execute,
        fault::ILLEGAL => FaultKind::Illegal,
        fault::BREAKPOINT => FaultKind::Breakpoint,
        _ => FaultKind::Other,
    };
    Fault { kind, address: Some(address).filter(|address| *address != u64::MAX), syndrome: 0 }
}

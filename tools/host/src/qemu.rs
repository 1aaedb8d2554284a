//! Runs an image in QEMU: under a time limit, with memory that can be read afterwards.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use fusee_manifest::{Board, Profile};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::line::Line;
use crate::meter::{self, Patience};
use crate::picture::Picture;
use crate::{echo, toolchain, words};

/// How one run is made.
pub struct Setup<'a> {
    /// The program.
    pub qemu: &'a Path,
    /// The image.
    pub image: &'a Path,
    /// Whether QEMU enters the image; else the arguments name another entry.
    pub enters: bool,
    /// The machine.
    pub board: &'a Board,
    /// The profile.
    pub profile: Profile,
    /// CPUs in use, engine CPU included.
    pub cpus: u32,
    /// Longest turn of a CPU, virtual microseconds.
    pub quantum: u32,
    /// Time after which the run is ended: of the host,
    pub limit: Duration,
    /// or, if it is patient, of the CPUs that the host gives to the emulator.
    pub is_patient: bool,
    /// Whether the kernel speaks: its trace follows the text of the console.
    pub speaks: bool,
    /// Whether the console is shown while it is printed, and Ctrl-C ends the run instead of us.
    pub echo: bool,
    /// Whether Ctrl-C is for another program that is beside it: it ends neither the run nor us.
    pub apart: bool,
    /// Why the run ends before its system does, if it does: it is asked again and again. The second argument says whether the emulator has had a CPU
    /// since it was asked last, or wants none.
    pub ends: &'a Asked<'a>,
    /// Further arguments.
    pub arguments: &'a [String],
    /// Input from outside.
    pub stimuli: Stimuli,
    /// Something that is the serial line, in place of ourselves.
    pub line: Option<&'a File>,
}

/// See [`Setup::ends`].
pub type Asked<'a> = dyn Fn(&GuestMemory, &dyn Fn() -> bool) -> Option<EndedBy> + 'a;

impl Setup<'_> {
    /// Threads of the emulator that may be busy at once.
    fn cpus_at_once(&self) -> u32 {
        if self.profile == Profile::Par { self.cpus.max(1) } else { 1 }
    }
}

/// The input of a board while it runs.
#[derive(Clone, Debug, Default)]
pub struct Stimuli {
    /// What is typed at its serial line, as fast as it takes it, once it has printed something: before, it may not listen. If a picture is made of its
    /// screen, once that is made.
    pub input: Option<String>,
    /// A picture is made of its screen when the console shows a line in which this stands.
    pub screen: Option<String>,
    /// Whether the button for power is pressed, again and again: nobody here knows when the system looks.
    pub power_button: bool,
    /// A peer in QEMU's network, which begins once the console shows the line [`echo::LISTENS`].
    pub echo: Option<echo::Peer>,
}

impl Stimuli {
    /// Whether at least one stimulus is set.
    #[must_use]
    pub fn are_any(&self) -> bool {
        self.input.is_some() || self.screen.is_some() || self.power_button || self.echo.is_some()
    }
}

/// Host time to the first press of the button, and from that to the second. Each pause is twice as long as the one before: QEMU lets the button go
/// 100 ms of virtual time after it was pressed last, and nobody knows how long these take.
const PRESSES: Duration = Duration::from_millis(100);

/// The exit code of QEMU when the kernel has panicked.
pub const KERNEL_PANIC: i32 = 101;

/// How one run ended.
pub struct Outcome {
    /// The exit code of the system; `None`: it did not end itself.
    pub code: Option<i32>,
    /// Why it was ended, if it did not end itself.
    pub ended_by: Option<EndedBy>,
    /// Its output.
    pub console: String,
    /// The picture on its screen, if one was wanted, and the console said when.
    pub screen: Option<Result<Picture>>,
    /// Whether the peer got all its bytes back, if there was one, and the console said when.
    pub echo: Option<Result<()>>,
    /// Host time it took.
    pub took: Duration,
    /// The guest's memory.
    pub memory: GuestMemory,
    /// Registers of the emulated CPUs, if QEMU still had them: what a system that ended itself had in its CPUs is gone with these.
    pub cpus: Vec<CpuRegisters>,
}

/// The registers of one emulated CPU.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CpuRegisters {
    /// `x0` to `x30`, then the stack pointer.
    pub general: [u64; 32],
    /// The next instruction.
    pub program_counter: u64,
    /// `PSTATE`.
    pub state: u64,
}

/// Why a run ended before its system did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndedBy {
    /// The limit on the host's time.
    Limit,
    /// It had gone on for as long as was asked for.
    Enough,
    /// Nothing could happen any more.
    Still,
    /// The last of these decisive tasks had ended, by their place in the list of the run.
    Decisive(usize),
    /// Ctrl-C, or another signal that ends programs.
    User,
}

impl EndedBy {
    /// The reason in a few words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            EndedBy::Limit => "the limit on the host's time",
            EndedBy::Enough => "as asked",
            EndedBy::Still => "nothing could happen any more",
            EndedBy::Decisive(_) => "a task had ended that the run is about",
            EndedBy::User => "interrupted",
        }
    }
}

/// The guest's RAM, after its end: a file without a name, so that nothing is left over however we end.
pub struct GuestMemory {
    file: File,
    base: u64,
}

impl GuestMemory {
    /// Reads `length` bytes at a physical address.
    pub fn read(&self, physical: u64, length: usize) -> Result<Vec<u8>> {
        let offset = physical.checked_sub(self.base).context("below the guest's RAM")?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset).with_context(|| format!("guest memory at {physical:#x}"))?;
        Ok(bytes)
    }

    /// Writes it to a file that may be kept: pages of zeros take no room there.
    pub fn keep(&self, path: &Path) -> Result<()> {
        const BLOCK: usize = 64 << 10;
        let kept = File::create(path).with_context(|| path.display().to_string())?;
        let bytes = self.file.metadata()?.len();
        kept.set_len(bytes)?;
        let mut block = [0; BLOCK];
        for offset in (0..bytes).step_by(BLOCK) {
            let length = BLOCK.min((bytes - offset) as usize);
            self.file.read_exact_at(&mut block[..length], offset)?;
            if block[..length].iter().any(|byte| *byte != 0) {
                kept.write_all_at(&block[..length], offset)?;
            }
        }
        Ok(())
    }

    /// That of a run whose memory cannot be read here.
    pub fn none() -> Result<GuestMemory> {
        Ok(GuestMemory { file: memfd_create("none", MemfdFlags::CLOEXEC)?.into(), base: 0 })
    }

    /// That of a run whose memory was kept, from the address `base` on.
    pub fn kept(path: &Path, base: u64) -> Result<GuestMemory> {
        Ok(GuestMemory { file: File::open(path).with_context(|| path.display().to_string())?, base })
    }
}

/// Set once a signal has come that ends programs, if anyone listens.
static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on a signal that ends programs ends the run, and not this program at once; the second one does.
pub fn listen() -> Result<()> {
    if INTERRUPTED.get().is_some() {
        return Ok(());
    }
    let interrupted: Arc<AtomicBool> = Arc::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupted))?;
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    INTERRUPTED.get_or_init(|| interrupted);
    Ok(())
}

/// Whether a signal has come that ends the run; always `false` without [`listen`].
pub fn is_interrupted() -> bool {
    // Relaxed: nothing else is read that the handler writes.
    INTERRUPTED.get().is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
}

/// Runs the image to its end, or to the end of our patience.
pub fn run(setup: &Setup<'_>) -> Result<Outcome> {
    let memory = guest_memory(setup)?;
    let started = Instant::now();
    // QEMU opens the file through us.
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.file.as_raw_fd());
    let monitor = Monitor { path: temporary(setup, "monitor") };
    let mut command = command(setup, &path)?;
    if setup.apart {
        command.process_group(0);
    }
    let mut child = command
        .args(["-monitor", &format!("unix:{},server=on,wait=off", monitor.path.display())])
        .stdin(match setup.line {
            Some(line) => line.try_clone()?.into(),
            None if setup.stimuli.input.is_some() => Stdio::piped(),
            None => Stdio::null(),
        })
        .stdout(match setup.line {
            Some(line) => line.try_clone()?.into(),
            None => Stdio::piped(),
        })
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} does not start", setup.qemu.display()))?;
    let _place = (setup.profile == Profile::Det).then(|| Place::of(&child));
    // The command has copies of the line, which would keep it open.
    drop(command);
    let stdout: Box<dyn Read + Send> = match child.stdout.take() {
        Some(stdout) => Box::new(stdout),
        None => Box::new(std::io::empty()),
    };
    let Some(stderr) = child.stderr.take() else { bail!("{} has no output", setup.qemu.display()) };
    // Keys may be typed now; the screen shows the wanted picture.
    let (prints, heard) = channel();
    let (shows, shown) = channel();
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), setup.stimuli.input.clone()) {
        // A system that ends before it has read all has had enough, and to one that never prints no keys are typed.
        std::thread::spawn(move || heard.recv().is_ok() && stdin.write_all(input.as_bytes()).is_ok());
    }
    let (echo, speaks) = (setup.echo, setup.speaks);
    let wanted = setup.stimuli.screen.clone();
    let may_type = prints.clone();
    let (listens, listened) = channel();
    let echoes = setup.stimuli.echo.is_some();
    let mut hears = move |console: &[u8]| match &wanted {
        _ if echoes && has_line(console, echo::LISTENS) => drop(listens.send(())),
        None => drop(prints.send(())),
        Some(line) if has_line(console, line) => drop(shows.send(())),
        Some(_) => {}
    };
    let console = std::thread::spawn(move || copy_console(stdout, echo, speaks, &mut hears));
    let noise = std::thread::spawn(move || filter_errors(stderr));
    if setup.apart {
        flag::register(SIGINT, Arc::default())?;
    }
    let emulator = child.id();
    // As many CPUs as are emulated may be busy at once.
    let patience = RefCell::new(Patience::new(setup.limit));
    let is_over = || {
        let elapsed = started.elapsed();
        match meter::time_of(emulator).filter(|_| setup.is_patient) {
            Some(used) => patience.borrow_mut().is_over(elapsed, used / setup.cpus_at_once()),
            None => elapsed >= setup.limit,
        }
    };
    let used = Cell::new(Duration::ZERO);
    let had_turn = || {
        let now = meter::time_of(emulator).unwrap_or_default();
        now > used.replace(now) || meter::rests(emulator)
    };
    let ended_by = || match () {
        () if is_interrupted() => Some(EndedBy::User),
        () if is_over() => Some(EndedBy::Limit),
        () => (setup.ends)(&memory, &had_turn),
    };
    let mut next_press = PRESSES;
    let mut screen = None;
    let mut is_shown = false;
    let mut exchange = None;
    let mut stimulate = || {
        if let Some(peer) = setup.stimuli.echo.filter(|_| exchange.is_none() && listened.try_recv().is_ok()) {
            exchange = monitor.ports().map(|ports| std::thread::spawn(move || (peer.exchange)(ports?, peer.bytes)));
        }
        is_shown |= shown.try_recv().is_ok();
        if is_shown && screen.is_none() {
            screen = monitor.screen(&temporary(setup, "ppm"));
            let _ = screen.as_ref().map(|_| may_type.send(()));
        }
        if setup.stimuli.power_button && started.elapsed() >= next_press {
            next_press = 2 * started.elapsed();
            // A run that is over does not listen.
            let _ = monitor.press_power_button();
        }
    };
    let ended = wait(&mut child, &monitor, &ended_by, &mut stimulate)?;
    let echo = exchange.map(|exchange| exchange.join().unwrap_or_else(|_| Err(anyhow!("the exchange panicked"))));
    let console = console.join().unwrap_or_default();
    let errors = noise.join().unwrap_or_default();
    for line in &errors {
        eprintln!("qemu: {line}");
    }
    let (code, ended_by, cpus) = match ended {
        Ended::Itself(code) => (Some(code), None, Vec::new()),
        Ended::By(who, cpus) => (None, Some(who), cpus),
    };
    Ok(Outcome { code, ended_by, console, screen, echo, took: started.elapsed(), memory, cpus })
}

/// A path that nothing else has, for a file that is gone before the run is.
fn temporary(setup: &Setup<'_>, kind: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { shared } else { setup.image.parent().unwrap_or(Path::new(".")) };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("fusee-{}-{number}.{kind}", std::process::id()))
}

fn guest_memory(setup: &Setup<'_>) -> Result<GuestMemory> {
    let path = temporary(setup, "ram");
    let file = File::options().read(true).write(true).create_new(true).open(&path);
    let file = file.with_context(|| path.display().to_string())?;
    std::fs::remove_file(&path)?;
    file.set_len(setup.board.ram())?;
    Ok(GuestMemory { file, base: setup.board.memory.base })
}

fn command(setup: &Setup<'_>, memory: &str) -> Result<Command> {
    let board = setup.board;
    let profile = board.profiles.get(&setup.profile).context("the board does not have this profile")?;
    let smp = profile.smp.max(setup.cpus * board.stride(setup.profile, setup.cpus));
    let bytes = board.ram();
    let mut command = dying_with_us(&toolchain::turning(setup.qemu, board, setup.profile, setup.cpus)?);
    command
        .args(["-machine", &board.qemu.machine])
        .args(&board.qemu.arguments)
        .args(["-smp", &smp.to_string(), "-m", &format!("{}M", bytes >> 20)])
        .arg("-object")
        .arg(format!("memory-backend-file,id=ram,size={bytes},mem-path={memory},share=on"))
        .args(profile.arguments.iter().map(|argument| argument.replace("{quantum}", &setup.quantum.to_string())))
        .args(board.fair(setup.profile, setup.cpus).map_or(&[][..], |fair| &fair.arguments))
        .args(["-serial", "stdio", "-display", "none", "-no-reboot"])
        .args(["-semihosting-config", "enable=on,target=native"]);
    if setup.enters {
        command.arg("-kernel").arg(setup.image);
    }
    command.args(setup.arguments);
    Ok(command)
}

/// A command that the system ends with us, if it can: a system that hangs must not outlive an impatient user.
fn dying_with_us(program: &Path) -> Command {
    static CAN: LazyLock<bool> = LazyLock::new(|| {
        let status = Command::new("setpriv").args(["--pdeathsig", "KILL", "true"]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    });
    if !*CAN {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// A CPU of the host, for one emulator with exact time. Its threads take turns, one at each step of virtual time: on one CPU that is a switch, between
/// two an interrupt, which costs a virtual host several times as much.
struct Place(Option<usize>);

/// Places that are in use.
static PLACES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl Place {
    /// Moves a process that has just begun to the CPU that has the fewest. Where the host does not let us, it stays where it is.
    fn of(child: &Child) -> Place {
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let here = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let fewest = here.min_by_key(|cpu| places.iter().filter(|taken| *taken == cpu).count());
        let (Some(cpu), Some(process)) = (fewest, Pid::from_raw(child.id().cast_signed())) else { return Place(None) };
        let mut one = CpuSet::new();
        one.set(cpu);
        let _ = sched_setaffinity(Some(process), &one);
        places.push(cpu);
        Place(Some(cpu))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = places.iter().position(|taken| Some(*taken) == self.0) {
            places.swap_remove(at);
        }
    }
}

enum Ended {
    Itself(i32),
    By(EndedBy, Vec<CpuRegisters>),
}

/// How the emulator ended, if it has; its time is counted.
fn ended(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    let has_ended = Pid::from_raw(child.id().cast_signed()).is_none_or(|pid| {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(pid), options).map_or(true, |status| status.is_some())
    });
    if has_ended { meter::wait(child).map(Some) } else { Ok(None) }
}

/// Waits for the end, and makes one as soon as `ended_by` has a reason.
/// `stimulate` is called again and again meanwhile.
fn wait(
    child: &mut Child,
    monitor: &Monitor,
    ended_by: &dyn Fn() -> Option<EndedBy>,
    stimulate: &mut dyn FnMut(),
) -> Result<Ended> {
    let mut pause = Duration::from_millis(1);
    loop {
        stimulate();
        let status = ended(child)?;
        // A terminal sends Ctrl-C to QEMU, too, which then ends as if the system had.
        match (status, ended_by()) {
            (Some(_), Some(EndedBy::User)) => return Ok(Ended::By(EndedBy::User, Vec::new())),
            (Some(status), _) => return Ok(Ended::Itself(status.code().unwrap_or(-1))),
            (None, Some(who)) => {
                let cpus = monitor.stop().unwrap_or_default();
                // SIGKILL: QEMU does not always listen to anything milder.
                child.kill()?;
                meter::wait(child)?;
                return Ok(Ended::By(who, cpus));
            }
            (None, None) => {}
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

//--- QEMU's monitor

/// How long QEMU may take to answer. It answers at once if the host lets it: this is for one that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The end of each answer of the monitor.
const PROMPT: &[u8] = b"(qemu) ";

/// The line to QEMU's monitor, by which it is asked for the registers of its CPUs. It is the monitor for people: the one for programs has a thread
/// of its own, which virtual time wakes at each of its steps.
struct Monitor {
    path: PathBuf,
}

impl Monitor {
    /// Stops all CPUs and returns their registers; `None`: QEMU does not answer. It is connected to for that alone: what the emulator has to do
    /// beside the guest may change the turns of its CPUs.
    fn stop(&self) -> Option<Vec<CpuRegisters>> {
        self.ask(&["stop", "info registers -a"]).map(|answer| cpu_registers(&answer))
    }

    /// Presses the board's button for power; `None`: QEMU does not answer.
    fn press_power_button(&self) -> Option<()> {
        self.ask(&["system_powerdown"]).map(drop)
    }

    /// The ports of the host that are forwarded; `None`: QEMU does not answer.
    fn ports(&self) -> Option<Result<echo::Ports>> {
        let answer = self.ask(&["info usernet"])?;
        Some(
            echo::Ports::of(&answer)
                .with_context(|| format!("QEMU forwards no ports: {}", answer.replace("(qemu)", "").trim())),
        )
    }

    /// Makes a picture of the first screen, by a file at this path, which is gone then; `None`: QEMU does not answer.
    fn screen(&self, path: &Path) -> Option<Result<Picture>> {
        let answer = self.ask(&[&format!("screendump {}", path.display())])?;
        let picture = std::fs::read(path).map(|bytes| Picture::read(&bytes));
        let _ = std::fs::remove_file(path);
        let why = || format!("QEMU makes no picture of the screen: {}", answer.replace("(qemu)", "").trim());
        Some(picture.map_err(anyhow::Error::from).and_then(|picture| picture).with_context(why))
    }

    /// Gives it commands, one after another; its answer to the last.
    fn ask(&self, commands: &[&str]) -> Option<String> {
        let mut stream = UnixStream::connect(&self.path).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        let mut answer = answer(&mut stream)?;
        for command in commands {
            writeln!(stream, "{command}").ok()?;
            answer = self::answer(&mut stream)?;
        }
        Some(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// The monitor's words until it asks for the next command.
fn answer(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.ends_with(PROMPT) {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        answer.extend_from_slice(&buffer[..count]);
    }
    Some(answer)
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // A run that was over at once never had it, or still does.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The lines of `info registers -a` about each CPU.
fn cpu_registers(text: &str) -> Vec<CpuRegisters> {
    let mut cpus: Vec<CpuRegisters> = Vec::new();
    for word in text.split_whitespace() {
        if word.starts_with("CPU#") {
            cpus.push(CpuRegisters::default());
        }
        let (Some(cpu), Some((name, value))) = (cpus.last_mut(), word.split_once('=')) else { continue };
        let Ok(value) = u64::from_str_radix(value, 16) else { continue };
        match name {
            "PC" => cpu.program_counter = value,
            "SP" => cpu.general[31] = value,
            "PSTATE" => cpu.state = value,
            _ => {
                let number = name.strip_prefix('X').and_then(|number| number.parse::<usize>().ok());
                if let Some(place) = number.filter(|number| *number < 31) {
                    cpu.general[place] = value;
                }
            }
        }
    }
    cpus
}

//--- Its output

/// Whether a whole line has this text.
fn has_line(console: &[u8], text: &str) -> bool {
    let end = console.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    String::from_utf8_lossy(&console[..end]).lines().any(|line| line.contains(text))
}

/// `hears` is given all that was printed so far, again and again.
fn copy_console(mut from: impl Read, echo: bool, speaks: bool, hears: &mut dyn FnMut(&[u8])) -> String {
    let mut all = Vec::new();
    let mut line = Line::default();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        // A serial line ends lines with two characters, files and pipes with one; terminals take that, too.
        let new: Vec<u8> = match speaks {
            true => line.add(&buffer[..count]),
            false => buffer[..count].iter().copied().filter(|byte| *byte != b'\r').collect(),
        };
        all.extend_from_slice(&new);
        hears(&all);
        if echo {
            words::print_bytes(&new);
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// The lines that QEMU complains with, without those it always does under our profiles.
fn filter_errors(from: impl Read) -> Vec<String> {
    const EXPECTED: [&str; 5] = [
        "has no peer",
        "is not connected to host network",
        "icount sleep disabled and no active timers",
        "terminating on signal 2",
        "audiodev default parameter is deprecated",
    ];
    BufReader::new(from)
        .lines()
        .map_while(Result::ok)
        .filter(|line| !line.trim().is_empty() && !EXPECTED.iter().any(|expected| line.contains(expected)))
        .collect()
}

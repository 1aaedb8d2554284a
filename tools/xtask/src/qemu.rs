//! Runs an image in QEMU: under a time limit, with memory that can be read afterwards.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fusee_manifest::{Board, Profile};
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// How one run is made.
pub struct Setup<'a> {
    /// The program.
    pub qemu: &'a Path,
    /// The image.
    pub image: &'a Path,
    /// The machine.
    pub board: &'a Board,
    /// The profile.
    pub profile: Profile,
    /// CPUs in use, engine CPU included.
    pub cpus: u32,
    /// Longest turn of a CPU, virtual microseconds.
    pub quantum: u32,
    /// Host time after which the run is ended.
    pub limit: Duration,
    /// Whether the console is shown while it is printed, and Ctrl-C ends the run instead of us.
    pub echo: bool,
    /// Whether Ctrl-C is for another program that is beside it: it ends neither the run nor us.
    pub apart: bool,
    /// Whether the run has gone on for long enough: it is asked again and again.
    pub is_enough: &'a dyn Fn(&GuestMemory) -> bool,
    /// Further arguments.
    pub arguments: &'a [String],
}

/// How one run ended.
pub struct Outcome {
    /// What the system ended with; `None`: it did not end itself.
    pub code: Option<i32>,
    /// Why it was ended, if it did not end itself.
    pub ended_by: Option<EndedBy>,
    /// What it printed.
    pub console: String,
    /// Host time it took.
    pub took: Duration,
    /// The guest's memory.
    pub memory: GuestMemory,
    /// Registers of the emulated CPUs, if QEMU still had them: what a system that ended itself had in its CPUs is gone with these.
    pub cpus: Vec<CpuRegisters>,
}

/// What is in one emulated CPU.
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
    /// Ctrl-C.
    User,
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

    /// That of a run whose memory was kept, from the address `base` on.
    pub fn kept(path: &Path, base: u64) -> Result<GuestMemory> {
        Ok(GuestMemory { file: File::open(path).with_context(|| path.display().to_string())?, base })
    }
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
        .args(["-qmp", &format!("unix:{},server=on,wait=off", monitor.path.display())])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} does not start", setup.qemu.display()))?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        bail!("{} has no output", setup.qemu.display());
    };
    let echo = setup.echo;
    let console = std::thread::spawn(move || copy_console(stdout, echo));
    let noise = std::thread::spawn(move || filter_errors(stderr));
    let interrupted = Arc::new(AtomicBool::new(false));
    if setup.apart {
        flag::register(SIGINT, Arc::default())?;
    } else if setup.echo {
        // The second Ctrl-C ends us.
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupted))?;
        flag::register(SIGINT, Arc::clone(&interrupted))?;
    }
    let ended_by = || match () {
        // Relaxed: nothing else is read that the handler writes.
        () if interrupted.load(Ordering::Relaxed) => Some(EndedBy::User),
        () if Instant::now() >= started + setup.limit => Some(EndedBy::Limit),
        () if (setup.is_enough)(&memory) => Some(EndedBy::Enough),
        () => None,
    };
    let ended = wait(&mut child, &monitor, &ended_by)?;
    let console = console.join().unwrap_or_default();
    let errors = noise.join().unwrap_or_default();
    for line in &errors {
        eprintln!("qemu: {line}");
    }
    let (code, ended_by, cpus) = match ended {
        Ended::Itself(code) => (Some(code), None, Vec::new()),
        Ended::By(who, cpus) => (None, Some(who), cpus),
    };
    Ok(Outcome { code, ended_by, console, took: started.elapsed(), memory, cpus })
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
    file.set_len(setup.board.memory.bytes.0)?;
    Ok(GuestMemory { file, base: setup.board.memory.base })
}

fn command(setup: &Setup<'_>, memory: &str) -> Result<Command> {
    let board = setup.board;
    let profile = board.profiles.get(&setup.profile).context("the board does not have this profile")?;
    let smp = profile.smp.max(setup.cpus * profile.cpu_stride);
    let bytes = board.memory.bytes.0;
    let mut command = dying_with_us(setup.qemu);
    command
        .args(["-machine", &board.qemu.machine])
        .args(&board.qemu.arguments)
        .args(["-smp", &smp.to_string(), "-m", &format!("{}M", bytes >> 20)])
        .arg("-object")
        .arg(format!("memory-backend-file,id=ram,size={bytes},mem-path={memory},share=on"))
        .args(profile.arguments.iter().map(|argument| argument.replace("{quantum}", &setup.quantum.to_string())))
        .args(["-serial", "stdio", "-display", "none", "-monitor", "none", "-no-reboot"])
        .args(["-semihosting-config", "enable=on,target=native"])
        .arg("-kernel")
        .arg(setup.image)
        .args(setup.arguments);
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

enum Ended {
    Itself(i32),
    By(EndedBy, Vec<CpuRegisters>),
}

/// Waits for the end, and makes one as soon as `ended_by` says who wants it.
fn wait(child: &mut Child, monitor: &Monitor, ended_by: &dyn Fn() -> Option<EndedBy>) -> Result<Ended> {
    let mut pause = Duration::from_millis(1);
    loop {
        let status = child.try_wait()?;
        // A terminal sends Ctrl-C to QEMU, too, which then ends as if the system had.
        match (status, ended_by()) {
            (Some(_), Some(EndedBy::User)) => return Ok(Ended::By(EndedBy::User, Vec::new())),
            (Some(status), _) => return Ok(Ended::Itself(status.code().unwrap_or(-1))),
            (None, Some(who)) => {
                let cpus = monitor.stop().unwrap_or_default();
                // SIGKILL: QEMU does not always listen to anything milder.
                child.kill()?;
                child.wait()?;
                return Ok(Ended::By(who, cpus));
            }
            (None, None) => {}
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

//--- QEMU's monitor

/// How long QEMU may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The line to QEMU's monitor, by which it is asked for the registers of its CPUs.
struct Monitor {
    path: PathBuf,
}

impl Monitor {
    /// Stops all CPUs, and says what is in them; `None`: QEMU does not answer. It is connected to for that alone: what the emulator has to do
    /// beside the guest may change the turns of its CPUs.
    fn stop(&self) -> Option<Vec<CpuRegisters>> {
        let stream = UnixStream::connect(&self.path).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        let line = &mut BufReader::new(stream);
        for execute in ["qmp_capabilities", "stop"] {
            ask(line, &json!({ "execute": execute }))?;
        }
        let registers = json!({ "command-line": "info registers -a" });
        let answer = ask(line, &json!({ "execute": "human-monitor-command", "arguments": registers }))?;
        Some(cpu_registers(answer.as_str()?))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // A run that was over at once never had it, or still does.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sends one command, and waits for its answer: events that come before it are not for us.
fn ask(line: &mut BufReader<UnixStream>, command: &Value) -> Option<Value> {
    writeln!(line.get_mut(), "{command}").ok()?;
    loop {
        let mut text = String::new();
        if line.read_line(&mut text).ok()? == 0 {
            return None;
        }
        let answer: Value = serde_json::from_str(&text).ok()?;
        if answer.get("error").is_some() {
            return None;
        }
        if let Some(found) = answer.get("return") {
            return Some(found.clone());
        }
    }
}

/// What `info registers -a` says of each CPU.
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

//--- What it prints

fn copy_console(mut from: impl Read, echo: bool) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        // A serial line ends lines with two characters, files and pipes with one; terminals take that, too.
        let new: Vec<u8> = buffer[..count].iter().copied().filter(|byte| *byte != b'\r').collect();
        all.extend_from_slice(&new);
        if echo {
            let mut out = std::io::stdout().lock();
            // If our output is closed, nobody wants to see more.
            let _ = out.write_all(&new).and_then(|()| out.flush());
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// The lines that QEMU complains with, without those it always does under our profiles.
fn filter_errors(from: impl Read) -> Vec<String> {
    const EXPECTED: [&str; 3] =
        ["has no peer", "icount sleep disabled and no active timers", "terminating on signal 2"];
    BufReader::new(from)
        .lines()
        .map_while(Result::ok)
        .filter(|line| !line.trim().is_empty() && !EXPECTED.iter().any(|expected| line.contains(expected)))
        .collect()
}

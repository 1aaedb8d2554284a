//! Runs an image in QEMU: under a time limit, with memory that can be read afterwards.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fusee_manifest::{Board, Profile};
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
}

/// Runs the image to its end, or to the end of our patience.
pub fn run(setup: &Setup<'_>) -> Result<Outcome> {
    let memory = guest_memory(setup)?;
    let started = Instant::now();
    // QEMU opens the file through us.
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.file.as_raw_fd());
    let mut child = command(setup, &path)?
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
    if setup.echo {
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
    let ended = wait(&mut child, &ended_by)?;
    let console = console.join().unwrap_or_default();
    let errors = noise.join().unwrap_or_default();
    for line in &errors {
        eprintln!("qemu: {line}");
    }
    let (code, ended_by) = match ended {
        Ended::Itself(code) => (Some(code), None),
        Ended::By(who) => (None, Some(who)),
    };
    Ok(Outcome { code, ended_by, console, took: started.elapsed(), memory })
}

fn guest_memory(setup: &Setup<'_>) -> Result<GuestMemory> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { shared } else { setup.image.parent().unwrap_or(Path::new(".")) };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("fusee-{}-{number}.ram", std::process::id()));
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
    By(EndedBy),
}

/// Waits for the end, and makes one as soon as `ended_by` says who wants it.
fn wait(child: &mut Child, ended_by: &dyn Fn() -> Option<EndedBy>) -> Result<Ended> {
    let mut pause = Duration::from_millis(1);
    loop {
        let status = child.try_wait()?;
        // A terminal sends Ctrl-C to QEMU, too, which then ends as if the system had.
        match (status, ended_by()) {
            (Some(_), Some(EndedBy::User)) => return Ok(Ended::By(EndedBy::User)),
            (Some(status), _) => return Ok(Ended::Itself(status.code().unwrap_or(-1))),
            (None, Some(who)) => {
                // SIGKILL: QEMU does not always listen to anything milder.
                child.kill()?;
                child.wait()?;
                return Ok(Ended::By(who));
            }
            (None, None) => {}
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

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

//! Boards that speak: `cargo xtask run --on` judges a board at a serial port as it judges QEMU. The board is QEMU's, its serial port a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, ensure};
use fusee_host::build::KERNEL_OFFSET;
use fusee_host::decode::Symbols;
use fusee_host::port;
use fusee_host::project::KEPT_DIR;
use fusee_host::system::{self, Image, RunOptions, Workspace, lacks, profile_name};
use fusee_host::turns::Turns;
use fusee_manifest::{Manifest, Profile};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::command::as_tool;
use crate::own_project::Ran;

/// The name of a check; those of other boards begin with the name of the board.
pub const CHECK: &str = "a board at a serial port has the table, verdict and exit of QEMU";
/// The name of another.
pub const MISTAKES: &str = "a wrong board, a start that is stuck, and noise at a serial port are named";

/// Host seconds of a run.
const SECONDS: u64 = 60;
/// `b .`, by which an instruction is replaced.
const STAND_STILL: [u8; 4] = 0x1400_0000_u32.to_le_bytes();
/// Bytes that a line at another rate could bring.
const NOISE: [u8; 9] = [0x80, 0xf8, 0, 0x78, 0xfe, 0xff, 0, 0x98, 0x86];

/// A system that prints and ends itself. One task is hard; with `burns` of more than its budget of 2 ms it is late. Tasks are on one CPU, and another has nothing
/// to do: the ends of turns of emulated CPUs depend on the emulator's work for its serial port.
fn manifest(name: &str, board: &str, cpus: u32, burns: &str) -> String {
    let second = if cpus > 1 { "[clusters.second]\ncpus = [1]\n" } else { "" };
    format!(
        "[system]\nname = \"{name}\"\nboard = \"{board}\"\ncpus = {cpus}\nstart = \"10ms\"\nspeaks = true\nadmission = \"warn\"\n\
         [clusters.first]\ncpus = [0]\n{second}\
         [tasks.worker]\nscript = [\"burn {burns}\"]\ncluster = \"first\"\nperiod = \"10ms\"\ndeadline = \"5ms\"\nbudget = \"2ms\"\n\
         wcet = \"1ms\"\nhard = true\n\
         [tasks.hello]\nbinary = \"apps/hello\"\ncluster = \"first\"\nperiod = \"20ms\"\nbudget = \"2ms\"\nwcet = \"600us\"\n\
         parameters = {{ jobs = 3 }}\n\
         handles = {{ console = \"endpoint console: call\", system = \"system: shutdown\" }}\nuses = {{ console = {{ times = 2 }} }}\n\
         [tasks.console]\nbinary = \"console-driver/console-driver\"\ncluster = \"first\"\n\
         handles = {{ uart = \"region uart: read write\", console = \"endpoint console: receive\" }}\n\
         [endpoints.console]\nserver = \"console\"\nservice_max = \"200us\"\n[regions.uart]\ndevice = \"uart0\"\n"
    )
}

/// The manifest of a check, as a file, and its image for the board of the workspace.
fn made(workspace: &Workspace, name: &str, burns: &str) -> Result<(PathBuf, Image)> {
    made_with(workspace, name, burns, "")
}

/// As [`made`], with further keys of the system.
fn made_with(workspace: &Workspace, name: &str, burns: &str, keys: &str) -> Result<(PathBuf, Image)> {
    let board = workspace.the_board()?;
    let read = |cpus: u32| -> Result<(String, Manifest)> {
        let text = manifest(name, &board.name, cpus, burns).replacen("speaks", &format!("{keys}speaks"), 1);
        let manifest = Manifest::parse(Path::new(name), &text)?;
        Ok((text, manifest))
    };
    let two = read(2)?;
    let is_too_many = lacks(workspace, &two.1.system, Profile::Det).is_some();
    let (text, manifest) = if is_too_many { read(1)? } else { two };
    let folder = workspace.project.kept("spoken")?;
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}-{name}.toml", board.name));
    std::fs::write(&path, text)?;
    let programs = workspace.builder().programs(&[&manifest.system])?;
    let image = workspace.image_of(manifest, programs, Profile::Det, false)?;
    Ok((path, image))
}

/// A pseudo-terminal: the side of the board, and the side of the host, which is kept open and has no settings of a terminal.
struct Line {
    board: File,
    path: PathBuf,
    host: File,
}

impl Line {
    fn new() -> Result<Line> {
        let board = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&board)?;
        unlockpt(&board)?;
        let name = ptsname(&board, Vec::new())?;
        let path = PathBuf::from(name.to_str().context("the name of a terminal")?);
        let host = port::open(&path, port::RATE)?;
        Ok(Line { board: File::from(board), path, host })
    }
}

/// The folder of the records of a listener, apart from those of the emulated board.
fn listener(workspace: &Workspace) -> PathBuf {
    workspace.project.kept_in.join("listener")
}

/// The tool's words on a board that runs `image`; the bytes `first` come before its own.
fn listened(workspace: &Workspace, manifest: &Path, board: &str, image: &Image, first: &[u8]) -> Result<Ran> {
    let Line { board: mut line, path, mut host } = Line::new()?;
    line.write_all(first)?;
    let (manifest, path) = (manifest.display().to_string(), path.display().to_string());
    let mut tool = as_tool()?;
    tool.args(["--no-install", "run", "--manifest", &manifest, "--board", board, "--on", &path]);
    tool.current_dir(&workspace.root).env(KEPT_DIR, listener(workspace)).stdin(std::process::Stdio::null());
    let over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        let listener = scope.spawn(|| {
            let ran = Ran::of(&mut tool);
            over.store(true, Ordering::Relaxed);
            // The board may have more to say, and an emulator waits until it is read.
            while let Ok(1..) = host.read(&mut [0; 4096]) {}
            ran
        });
        // As long as `run` chooses them.
        let quantum = Turns::of(&image.manifest.system, None).quantum;
        let options = RunOptions { quantum, line: Some(&line), over: Some(&over), ..RunOptions::quiet(SECONDS) };
        let run = system::run(workspace, image, &options);
        // The line is closed: this side is open nowhere else.
        drop(line);
        let ran = listener.join().unwrap_or_else(|_| Err(anyhow!("the listener panicked")))?;
        run.map(|_| ran)
    });
    ended.with_context(|| format!("on {board}"))
}

/// The findings in a command's output, without places and clocks.
fn findings(ran: &Ran) -> Vec<String> {
    let is_of_place = |line: &&str| {
        ["listening at ", "the system has ended; ", "time", "building ", "note: "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    ran.all().lines().filter(|line| !is_of_place(line)).map(str::to_owned).collect()
}

/// Milliseconds by which a time may differ: an emulator with another serial port gives turns and interrupts at other instructions.
const NEAR: f64 = 0.1;

/// Whether lines are equal, but for small differences of times with three digits.
fn are_alike(ours: &[String], theirs: &[String]) -> bool {
    let time = |word: &str| {
        word.parse::<f64>().ok().filter(|_| word.rsplit_once('.').is_some_and(|(_, part)| part.len() == 3))
    };
    let is_near =
        |one: &str, other: &str| time(one).zip(time(other)).is_some_and(|(one, other)| (one - other).abs() <= NEAR);
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(ours, theirs)| {
            let (ours, theirs): (Vec<_>, Vec<_>) =
                (ours.split_whitespace().collect(), theirs.split_whitespace().collect());
            ours.len() == theirs.len()
                && ours.iter().zip(&theirs).all(|(one, other)| one == other || is_near(one, other))
        })
}

/// Compares a board with QEMU: a run that is right, and one that is not.
///
/// # Errors
/// A step that could not be tried.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let board = workspace.the_board()?.name;
    for (name, burns, status) in [("right", "500us", 0), ("late", "4ms", 1)] {
        let (manifest, image) = made(workspace, name, burns)?;
        let spoken = listened(workspace, &manifest, &board, &image, &[])?;
        let path = manifest.display().to_string();
        let arguments =
            ["--no-install", "run", "--manifest", &path, "--board", &board, "--profile", profile_name(Profile::Det)];
        let emulated = Ran::of(as_tool()?.args(arguments).current_dir(&workspace.root))?;
        let [on_board, in_qemu] = [&spoken, &emulated].map(findings);
        if (spoken.status, emulated.status) != (status, status) || !are_alike(&on_board, &in_qemu) {
            problems.push(format!(
                "{name}: {} on the board, {} in QEMU:\n{}\n--- in QEMU:\n{}",
                spoken.status,
                emulated.status,
                spoken.all(),
                emulated.all()
            ));
        }
        let steps = on_board.iter().filter(|line| line.starts_with("fusee: start ")).count();
        if steps != fusee_abi::speech::Step::ALL.len() {
            problems.push(format!("{name}: {steps} steps of the start:\n{}", spoken.all()));
        }
    }
    Ok(problems)
}

/// Makes each mistake.
///
/// # Errors
/// A step that could not be tried.
pub fn check_mistakes(workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    // One of the words has to be said.
    let mut look = |name: &str, ran: &Ran, status: i32, words: &[&str]| {
        if ran.status != status || !words.iter().any(|words| ran.all().contains(words)) {
            problems.push(format!("{name}: ended with {}, {words:?} was not said:\n{}", ran.status, ran.all()));
        }
    };
    let (manifest, image) = made(workspace, "mistakes", "500us")?;
    let ran = listened(workspace, &manifest, "virt-gicv2", &image, &[])?;
    look("another board", &ran, 1, &["the kernel there is for the board `virt`, and this system is for `virt-gicv2`"]);

    // The longest path of a run stands in the file of its board.
    let file = workspace.project.kept("spoken")?.join("virt.toml");
    std::fs::copy(workspace.root.join("bsp/boards/virt.toml"), &file)?;
    let own = |arguments: &[&Path]| {
        let mut tool = as_tool()?;
        tool.args(arguments).current_dir(&workspace.root).env(KEPT_DIR, listener(workspace));
        Ran::of(&mut tool)
    };
    let [run, longest] = ["run", "longest-path"].map(Path::new);
    own(&[run, &manifest])?;
    let words = ["the longest path needs the records of traps: `trace = \"full\"`"];
    look("no records of traps", &own(&[longest, &file])?, 1, &words);
    let (full, _) = made_with(workspace, "recorded", "500us", "trace = \"full\"\n")?;
    own(&[run, &full])?;
    look("the longest path", &own(&[longest, &file])?, 0, &["virt.toml: the longest path is "]);

    let (other, _) = made(workspace, "others", "600us")?;
    let ran = listened(workspace, &other, "virt", &image, &[])?;
    look("another system", &ran, 1, &["another system runs there: its checksum is "]);

    let ran = listened(workspace, &manifest, "virt", &image, &NOISE)?;
    look("noise", &ran, 0, &["bytes of the console are no text"]);

    let away = standing_still(&image, "fusee_secondary_start")?;
    let ran = listened(workspace, &manifest, "virt", &away, &[])?;
    // A quarter of a second of the kernel may be long on a busy host.
    let words = ["CPU 2 of the board was started and has not come", "the start is stuck after step 6 of 8 (counter: "];
    look("a CPU that does not come", &ran, 1, &words);

    let stuck = standing_still(&image, "fusee_replace_tables")?;
    let ran = listened(workspace, &manifest, "virt", &stuck, &[])?;
    look("a start that is stuck", &ran, 1, &["the start is stuck after step 1 of 8 (kernel: "]);
    if !std::fs::read_to_string(&file)?.contains("\nlongest_path = ") {
        problems.push(format!("no longest path in {}", file.display()));
    }
    Ok(problems)
}

/// The image, with an endless loop in the place of a function of the kernel.
fn standing_still(image: &Image, function: &str) -> Result<Image> {
    let address = Symbols::read(&image.programs.kernel)?.address(function).with_context(|| function.to_owned())?;
    let at = (address - KERNEL_OFFSET - image.manifest.system.board.memory.kernel) as usize;
    let mut bytes = std::fs::read(&image.path)?;
    ensure!(at + STAND_STILL.len() <= bytes.len(), "`{function}` is not in the image");
    bytes[at..at + STAND_STILL.len()].copy_from_slice(&STAND_STILL);
    let path = image.path.with_extension(format!("{function}.img"));
    std::fs::write(&path, bytes)?;
    let Image { manifest, profile, programs, unmanaged, .. } = image;
    Ok(Image { path, manifest: manifest.clone(), profile: *profile, programs: programs.clone(), unmanaged: *unmanaged })
}

#[cfg(test)]
mod tests {
    use super::are_alike;

    #[test]
    fn times_may_differ_a_little_and_nothing_else() {
        let like = |one: &str, other: &str| are_alike(&[one.to_owned()], &[other.to_owned()]);
        assert!(like("worker  2  25.006", "worker 2 25.007"));
        assert!(!like("worker 2 25.006", "worker 3 25.006") && !like("worker 2 25.006", "worker 2 25.206"));
        assert!(!like("hard task", "hard tasks") && !are_alike(&[], &["one".to_owned()]));
    }
}

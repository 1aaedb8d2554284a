//! One run of a system on a board that speaks, at a serial port of this host: its output is shown and judged, as that of a run in QEMU is.

use std::fmt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use fusee_abi::image::{Header, MAGIC, PAGE};
use fusee_abi::speech::Step;
use fusee_abi::trace::Level;
use fusee_manifest::{Manifest, Panic};
use zerocopy::FromBytes;

use crate::answers::By;
use crate::line::{Line, noise};
use crate::qemu::{self, EndedBy, GuestMemory, KERNEL_PANIC, Outcome};
use crate::run::Run;
use crate::turns::Turns;
use crate::workspace::Image;
use crate::{port, report, words};

/// How to listen to a board.
pub struct OnOptions<'a> {
    /// The port,
    pub port: &'a Path,
    /// and its bits a second.
    pub rate: u32,
    /// Show the console while it is printed.
    pub echo: bool,
    /// Time after which the run is ended.
    pub limit: Duration,
    /// A start that has begun, or a trace, does not go on after such a silence.
    pub silence: Duration,
}

/// A step of a start, or the line after the end, comes much sooner.
pub const SILENCE: Duration = Duration::from_secs(10);
/// A kernel that has panicked has said all after such a silence.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Pause between two looks at the clock.
const PAUSE: Duration = Duration::from_millis(20);

/// Why a run on a board is none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failed {
    /// Nothing has come.
    Nothing,
    /// Bytes have come, many of them no text, and no step of a start.
    Noise {
        /// All bytes.
        bytes: usize,
        /// Those that are no text.
        noise: usize,
    },
    /// Text has come, but no step of a start.
    NoStart {
        /// All bytes.
        bytes: usize,
    },
    /// After a step the next did not follow.
    Stuck {
        /// The last step that is done,
        after: Step,
        /// with the words of the kernel.
        words: String,
        /// The step that does not follow.
        next: Step,
    },
    /// The kernel was built for another board.
    Board {
        /// The board that it names.
        is: String,
        /// The board of the system.
        wanted: String,
    },
    /// Another system runs there.
    System {
        /// Its checksum.
        is: u64,
        /// That of the system.
        wanted: u64,
    },
    /// The start was seen, but not the line with the checksum of the system.
    Unnamed,
    /// The line was closed before the system had ended.
    Closed {
        /// The last step that was done, if there was one.
        step: Option<Step>,
    },
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = Step::ALL.len();
        match self {
            Self::Nothing => f.write_str(
                "nothing has come: is the board on, is the port's other end its console, and does the card hold this system? \
                 (docs/first-power-on.md, step 1)",
            ),
            Self::Noise { bytes, noise } => write!(
                f,
                "{noise} of {bytes} bytes are no text, and no step of a start came: the rate may be another (--baud), or a line is loose"
            ),
            Self::NoStart { bytes } => write!(
                f,
                "{bytes} bytes of text have come, and no step of a start: the board runs something else, or a system without `speaks = true`"
            ),
            Self::Stuck { after, words, next } => write!(
                f,
                "the start is stuck after step {} of {of} ({}: {words}): step {}, {}, does not follow: {}",
                after.number(),
                after.name(),
                next.number(),
                next.name(),
                reasons(*next)
            ),
            Self::Board { is, wanted } => {
                write!(f, "the kernel there is for the board `{is}`, and this system is for `{wanted}`")
            }
            Self::System { is, wanted } => write!(
                f,
                "another system runs there: its checksum is {is:#018x}, that of this one is {wanted:#018x}; write the card anew (`cargo xtask flash`)"
            ),
            Self::Unnamed => f.write_str("noise has hit the line that names the system which runs there: start the board again"),
            Self::Closed { step } => match step {
                None => f.write_str("the line was closed before a start began"),
                Some(step) if *step == Step::Tasks => {
                    f.write_str("the line was closed before the system had ended, or before all of its trace had come")
                }
                Some(step) => {
                    write!(f, "the line was closed after step {} of {of} of the start, {}", step.number(), step.name())
                }
            },
        }
    }
}

impl std::error::Error for Failed {}

/// The things to look at if a step does not follow.
const fn reasons(step: Step) -> &'static str {
    match step {
        Step::Kernel => "see what the firmware has loaded",
        Step::Board => "the device tree, or translation: `memory` and `windows` in the board's file",
        Step::Level | Step::Memory => "`memory` in the board's file",
        Step::Controller => "`controller` in the board's file, or memory of tasks that is not there (`memory.pool`)",
        Step::Counter => "the engine's CPU, or CNTFRQ_EL0, which the firmware sets",
        Step::Cpus => "`cpus.start` in the board's file, and the firmware's PSCI or spin table",
        Step::Tasks => "the objects of the system: report this",
    }
}

/// The bytes that have come, and how they ended.
struct Heard {
    line: Line,
    console: Vec<u8>,
    code: Option<i32>,
    ended_by: Option<EndedBy>,
}

/// Listens to a board until its system has ended, and returns the run, and which of `images` runs there: they differ in which of the board's CPUs they use.
///
/// # Errors
/// The port cannot be opened, or [`Failed`].
pub fn run(images: &[Image], options: &OnOptions<'_>) -> Result<(usize, Run)> {
    let named = || options.port.display().to_string();
    let checksums = images.iter().map(checksum).collect::<Result<Vec<u64>>>()?;
    let first = images.first().context("there is no image")?;
    let system = &first.manifest.system;
    let bytes = port::bytes_of(port::open(options.port, options.rate)?);
    eprintln!("listening at {}, at {} bits a second", named(), options.rate);
    let started = Instant::now();
    let heard = listen(&bytes, &system.board.name, &checksums, options).with_context(named)?;
    let Heard { line, console, code, ended_by } = heard;
    let noise = noise(&console);
    if noise > 0 || line.spoilt > 0 {
        let note = report::yellow("note:");
        eprintln!(
            "{note} {noise} bytes of the console are no text, and {} frames did not come as they were sent",
            line.spoilt
        );
    }
    let which = line.checksum().and_then(|is| checksums.iter().position(|wanted| *wanted == is)).unwrap_or(0);
    // A kernel that halts after a panic ends nothing.
    let (code, ended_by) = match system.panic {
        Panic::Halt if line.has_panicked && line.end.is_none() => (None, Some(EndedBy::Still)),
        _ => (code, ended_by),
    };
    let trace = match (system.trace, line.end) {
        (Level::Off, _) => Err(anyhow!("its level is `off`")),
        (_, None) => Err(anyhow!("a board sends it when its system has ended")),
        (_, Some(_)) => Ok(line.stream.trace()),
    };
    let lost = trace.as_ref().map_or(0, |trace| trace.lost);
    let counts = match (&trace, line.end) {
        (Err(error), _) => Some(Err(anyhow!("there is no trace, and {error:#}"))),
        (Ok(trace), Some((_, promised))) if (trace.records.len() as u64) < promised => {
            Some(Err(anyhow!("{} of {promised} records did not come", promised - trace.records.len() as u64)))
        }
        _ if lost > 0 => Some(Err(anyhow!("the first {lost} records were overwritten before the end"))),
        _ => None,
    };
    let outcome = Outcome {
        code,
        ended_by,
        console: String::from_utf8_lossy(&console).into_owned(),
        screen: None,
        echo: None,
        took: started.elapsed(),
        memory: GuestMemory::none()?,
        cpus: Vec::new(),
    };
    let run = Run {
        outcome,
        by: By::Board,
        decisive: None,
        has_limit: false,
        late: 0,
        turns: Turns::of(system, None),
        trace,
        counts,
        away: Vec::new(),
    };
    Ok((which, run))
}

/// The checksum of the packed system in an image.
fn checksum(image: &Image) -> Result<u64> {
    let bytes = std::fs::read(&image.path).with_context(|| image.path.display().to_string())?;
    let headers = bytes.chunks(PAGE as usize).filter_map(|page| Header::read_from_prefix(page).ok());
    let header = headers.map(|(header, _)| header).find(|header| header.magic == MAGIC);
    Ok(header.context("the image holds no packed system")?.checksum)
}

/// Listens until the system has ended. Each time that something has come, or none has for a while, it is looked at.
fn listen(bytes: &Receiver<Vec<u8>>, board: &str, checksums: &[u64], options: &OnOptions<'_>) -> Result<Heard, Failed> {
    let mut heard = Heard { line: Line::default(), console: Vec::new(), code: None, ended_by: None };
    let (begun, mut last) = (Instant::now(), Instant::now());
    let mut came = 0;
    let mut is_told = false;
    loop {
        let is_open = match bytes.recv_timeout(PAUSE) {
            Ok(part) => {
                last = Instant::now();
                came += part.len();
                let text = heard.line.add(&part);
                show(&text, options.echo);
                heard.console.extend(text);
                true
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        };
        // An end without a start is that of an earlier run.
        let end = heard.line.end.filter(|_| heard.line.step().is_some());
        if let Some((code, records)) = end {
            heard.code = Some(code.cast_signed());
            if !std::mem::replace(&mut is_told, true) {
                eprintln!("the system has ended; {records} records of its trace follow");
            }
        }
        compare(&heard.line, board, checksums)?;
        let has_ended = end.is_some() && heard.line.sent.is_some();
        if has_ended || !is_open {
            let text = heard.line.finish();
            show(&text, options.echo);
            heard.console.extend(text);
        }
        let silence = last.elapsed();
        match () {
            () if has_ended && heard.line.checksum().is_none() => return Err(Failed::Unnamed),
            () if has_ended => return Ok(heard),
            // Its words before are all: it may have been unable to send.
            () if heard.line.has_panicked && (!is_open || silence >= LAST_WORDS) => {
                heard.code = Some(KERNEL_PANIC);
                return Ok(heard);
            }
            () if !is_open && end.is_some() => return Ok(heard),
            () if !is_open => return Err(closed(&heard, came)),
            () if qemu::is_interrupted() => {
                heard.ended_by = Some(EndedBy::User);
                return Ok(heard);
            }
            () if silence >= options.silence => {
                if let Some(failed) = stuck(&heard.line) {
                    return Err(failed);
                }
                if end.is_some() {
                    return Ok(heard);
                }
            }
            () => {}
        }
        if begun.elapsed() >= options.limit {
            if heard.line.step().is_none() {
                return Err(no_start(&heard, came));
            }
            heard.ended_by = Some(EndedBy::Limit);
            return Ok(heard);
        }
    }
}

fn show(text: &[u8], echo: bool) {
    if echo && !text.is_empty() {
        words::print_bytes(text);
    }
}

/// Compares the kernel's words about itself with the system that should run there.
fn compare(line: &Line, board: &str, checksums: &[u64]) -> Result<(), Failed> {
    if let Some(is) = line.board().filter(|is| *is != board) {
        return Err(Failed::Board { is: is.to_owned(), wanted: board.to_owned() });
    }
    match (line.checksum(), checksums) {
        (Some(is), [wanted, ..]) if !checksums.contains(&is) => Err(Failed::System { is, wanted: *wanted }),
        _ => Ok(()),
    }
}

/// Why a start does not go on that has begun.
fn stuck(line: &Line) -> Option<Failed> {
    let (after, words) = line.steps.iter().max_by_key(|(step, _)| *step)?;
    let next = Step::ALL.into_iter().find(|step| step > after)?;
    Some(Failed::Stuck { after: *after, words: words.clone(), next })
}

/// Why there was no start.
fn no_start(heard: &Heard, bytes: usize) -> Failed {
    let noise = noise(&heard.console) + heard.line.spoilt_bytes;
    match bytes {
        0 => Failed::Nothing,
        _ if 4 * noise > bytes => Failed::Noise { bytes, noise },
        _ => Failed::NoStart { bytes },
    }
}

/// The findings at a line that was closed too early.
fn closed(heard: &Heard, bytes: usize) -> Failed {
    match heard.line.step() {
        None if bytes > 0 => no_start(heard, bytes),
        step => Failed::Closed { step },
    }
}

/// Checks that a system speaks.
///
/// # Errors
/// It does not.
pub fn ensure_speaks(manifest: &Manifest) -> Result<()> {
    if !manifest.system.speaks {
        bail!(
            "{}: `speaks = true` is missing under `[system]`: without it a board prints nothing that could be judged",
            manifest.file.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use fusee_abi::speech::{CHECKSUM, END, SENT, START};

    use super::*;

    /// The lines of a start up to a step, of a kernel for `virt` with a system of this checksum.
    fn start(last: Step, checksum: u64) -> String {
        let line = |step: &Step| {
            let words = match step {
                Step::Board => "virt, as its device tree says".to_owned(),
                Step::Tasks => format!("2, {CHECKSUM}{checksum:#x}"),
                _ => "as it should be".to_owned(),
            };
            format!("{START}{} of {}: {}: {words}\n", step.number(), Step::ALL.len(), step.name())
        };
        Step::ALL.iter().filter(|step| **step <= last).map(line).collect()
    }

    /// The result for these bytes, of a line that stays open, or is closed.
    fn listened(bytes: &[u8], stays_open: bool) -> Result<Heard, Failed> {
        let (sender, receiver) = channel();
        // A channel takes any number of parts.
        sender.send(bytes.to_vec()).unwrap();
        let _open = stays_open.then_some(sender);
        let short = Duration::from_millis(60);
        let options =
            OnOptions { port: Path::new("port"), rate: port::RATE, echo: false, limit: 4 * short, silence: short };
        listen(&receiver, "virt", &[7, 8], &options)
    }

    fn failed(bytes: &[u8], stays_open: bool) -> Failed {
        listened(bytes, stays_open).err().unwrap()
    }

    #[test]
    fn a_start_that_stops_is_named_with_its_step_at_each_step() {
        for (last, next) in Step::ALL.into_iter().zip(Step::ALL.into_iter().skip(1)) {
            let words = match last {
                Step::Board => "virt, as its device tree says",
                _ => "as it should be",
            };
            let bytes = start(last, 7);
            let stuck = Failed::Stuck { after: last, words: words.into(), next };
            assert!(
                stuck.to_string().contains(&format!("after step {} of 8 ({}", last.number(), last.name())),
                "{stuck}"
            );
            assert_eq!(failed(bytes.as_bytes(), true), stuck);
            assert_eq!(failed(bytes.as_bytes(), false), Failed::Closed { step: Some(last) });
        }
    }

    #[test]
    fn a_board_that_is_another_and_a_system_that_is_another_are_named() {
        let other = start(Step::Board, 7).replace("virt", "zcu102");
        assert_eq!(failed(other.as_bytes(), true), Failed::Board { is: "zcu102".into(), wanted: "virt".into() });
        assert_eq!(failed(start(Step::Tasks, 9).as_bytes(), true), Failed::System { is: 9, wanted: 7 });
        assert_eq!(listened(start(Step::Tasks, 8).as_bytes(), true).unwrap().ended_by, Some(EndedBy::Limit));
    }

    #[test]
    fn a_line_without_a_start_is_named_by_what_comes() {
        assert_eq!(failed(b"", true), Failed::Nothing);
        assert_eq!(failed(b"U-Boot 2023.01\nlogin: ", true), Failed::NoStart { bytes: 22 });
        let noise = [0x80, 0xf8, 0, 0x78, 0xfe, 0xff, 0, 0x98, 0x86];
        assert!(matches!(failed(&noise, true), Failed::Noise { bytes: 9, noise: 5 }));
        assert!(matches!(failed(&noise, false), Failed::Noise { .. }));
    }

    #[test]
    fn an_end_has_its_code_and_a_trace_that_is_cut_is_no_whole_one() {
        let whole = start(Step::Tasks, 7) + &format!("hello\n\0{END}3 with 0 records\n\0\0{SENT}0 records\n\0");
        let heard = listened(whole.as_bytes(), true).unwrap();
        assert_eq!((heard.code, heard.line.sent), (Some(3), Some(0)));
        assert!(heard.console.ends_with(b"hello\n"));
        let unnamed = start(Step::Cpus, 7) + &format!("\0{END}0 with 0 records\n\0\0{SENT}0 records\n\0");
        assert_eq!(failed(unnamed.as_bytes(), true), Failed::Unnamed);
        let earlier = format!("\0{END}0 with 0 records\n\0\0{SENT}0 records\n\0");
        assert!(matches!(failed(earlier.as_bytes(), true), Failed::NoStart { .. }));
        let cut = start(Step::Tasks, 7) + &format!("\0{END}0 with 9 records\n\0");
        for stays_open in [true, false] {
            let heard = listened(cut.as_bytes(), stays_open).unwrap();
            assert_eq!((heard.code, heard.line.end, heard.line.sent), (Some(0), Some((0, 9)), None));
        }
    }
}

//! One run of an image: QEMU, trace, verdict and report.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use fusee_abi::trace::Level;
use fusee_accel_contract::CONTROL_LATE_COMPLETIONS;
use fusee_manifest::trace::{Trace, describe};
use fusee_manifest::{Panic, Profile, Resolved};
use fusee_views::explain::Turn;
use fusee_views::metrics::Metrics;

use crate::answers::{self, By, RunAnswer};
use crate::counts::Counts;
use crate::decisive::{Decisive, Why};
use crate::decode::Rings;
use crate::ends::Ends;
use crate::judge::{Cause, Problem, Watch};
use crate::look::Look;
use crate::qemu::{self, EndedBy, GuestMemory, Outcome, Stimuli};
use crate::turns::{self, Turns};
use crate::workspace::{Image, Workspace};
use crate::{isolation, observed, report};

/// Records that are shown of a system that did not end itself.
const LAST: usize = 12;

/// How to run an image.
pub struct RunOptions<'a> {
    /// Show the console while it is printed.
    pub echo: bool,
    /// Seconds after which the run is ended: of the host,
    pub seconds: u64,
    /// or, if it is patient, of the CPUs that the host gives to the emulator.
    pub is_patient: bool,
    /// Longest turn of a CPU, virtual microseconds.
    pub quantum: u32,
    /// Whether QEMU enters the image; else the arguments name another entry.
    pub enters: bool,
    /// Further arguments for QEMU.
    pub arguments: Vec<String>,
    /// Virtual nanoseconds after which the run is ended.
    pub until: Option<u64>,
    /// The observer meanwhile: called again and again with a reader of the trace so far.
    pub watch: Option<&'a Watcher<'a>>,
    /// Input from outside.
    pub stimuli: Stimuli,
    /// Whether more may come from outside, by the arguments for QEMU.
    pub is_visited: bool,
    /// Tasks whose end ends the run.
    pub decisive: Vec<Decisive>,
    /// Something that is the serial line, in place of ourselves: then the console is not known.
    pub line: Option<&'a File>,
    /// Set from elsewhere to end the run.
    pub over: Option<&'a AtomicBool>,
}

/// See [`RunOptions::watch`].
pub type Watcher<'a> = dyn Fn(&dyn Fn() -> Option<Trace>) + 'a;

impl RunOptions<'_> {
    /// A run of at most so many seconds, however busy the host is, that shows nothing, with short turns, for latencies.
    pub fn quiet(seconds: u64) -> Self {
        let stimuli = Stimuli::default();
        RunOptions {
            echo: false,
            seconds,
            is_patient: true,
            quantum: 10,
            enters: true,
            arguments: Vec::new(),
            until: None,
            watch: None,
            stimuli,
            is_visited: false,
            decisive: Vec::new(),
            line: None,
            over: None,
        }
    }
}

/// A run, and its trace if it left one.
pub struct Run {
    /// How it ended.
    pub outcome: Outcome,
    /// The machine or emulator that ran it.
    pub by: By,
    /// The tasks whose end has ended it, if it ended so.
    pub decisive: Option<Decisive>,
    /// Whether it was to end at an instant.
    pub has_limit: bool,
    /// Completions that the devices announced too late.
    pub late: u32,
    /// The turns of its CPUs.
    pub turns: Turns,
    /// The trace of the run.
    pub trace: Result<Trace>,
    /// The kernel's counts, where the trace is not complete; or the reason why they are unknown.
    pub counts: Option<Result<Counts>>,
    /// When CPUs were not executed, as far as that was watched.
    pub away: Vec<Turn>,
}

impl Run {
    /// The observations in `trace`, with the kernel's counts.
    #[must_use]
    pub fn watch<'a>(&self, trace: &Trace, system: &'a Resolved) -> Watch<'a> {
        let mut watch = Watch::of(trace, system);
        if let Some(Ok(counts)) = &self.counts {
            watch.count(counts);
        }
        watch
    }

    /// `trace` with ledgers, from records or from counts.
    #[must_use]
    pub fn counted(&self, trace: &Trace, system: &Resolved) -> Trace {
        match &self.counts {
            _ if trace.exit_code().is_some() => trace.clone(),
            Some(Ok(counts)) => counts.added_to(trace, system),
            _ => trace.with_ledgers(&trace.counted_ledgers(system)),
        }
    }

    /// The note about completions that came too late; nothing if none did. There are some only if it was emulated in parallel.
    pub fn late_words(&self) -> Option<String> {
        let were = if self.late == 1 { "completion was" } else { "completions were" };
        (self.late > 0).then(|| format!("{} {were} late, because the host was", self.late))
    }
}

/// Runs an image and reads its trace.
///
/// # Errors
/// QEMU does not start, or a device was late: then the devices were not as fast as their formulas say, and nothing that
/// the run shows counts. Emulated in parallel, that depends on the host: it is no error, but whoever shows the run says so.
pub fn run(workspace: &Workspace, image: &Image, options: &RunOptions<'_>) -> Result<Run> {
    let system = &image.manifest.system;
    let rings = Rings::of(&image.programs.kernel);
    let look = LazyCell::new(|| Look::new(system, &image.programs));
    let the_look = || look.as_ref().ok();
    let is_visited = options.is_visited || options.stimuli.are_any();
    let watched = Ends::new(system, &the_look, &options.decisive, options.until, is_visited);
    let ends = |memory: &GuestMemory, had_turn: &dyn Fn() -> bool| {
        if let Some(watch) = options.watch {
            watch(&|| rings.as_ref().ok()?.trace(memory).ok());
        }
        // Relaxed: nothing else is read.
        if options.over.is_some_and(|over| over.load(Ordering::Relaxed)) {
            return Some(EndedBy::Enough);
        }
        let recorded = options.until.and_then(|_| rings.as_ref().ok()?.latest(memory));
        watched.reached(memory, recorded, had_turn)
    };
    let mut arguments = options.arguments.clone();
    if let Some(path) = image.stream() {
        let path = path.display().to_string();
        arguments.extend(system.board.qemu.stream.iter().map(|argument| argument.replace("{file}", &path)));
    }
    arguments.extend(device_arguments(image)?);
    let outcome = qemu::run(&qemu::Setup {
        qemu: &workspace.qemu,
        image: &image.path,
        enters: options.enters,
        board: &system.board,
        profile: image.profile,
        cpus: turns::cpus(system),
        quantum: options.quantum,
        limit: Duration::from_secs(options.seconds),
        is_patient: options.is_patient,
        speaks: system.speaks,
        echo: options.echo,
        apart: false,
        ends: &ends,
        arguments: &arguments,
        stimuli: options.stimuli.clone(),
        line: options.line,
    })?;
    let late = late_completions(system, &outcome)?;
    if late > 0 && image.profile == Profile::Det {
        bail!("{late} completions of the device model were announced too late");
    }
    let reached = isolation::check(image, &outcome)?;
    if reached == [isolation::NO_SYSTEM] {
        let took = outcome.took.as_secs();
        match outcome.code {
            Some(code) => bail!("the kernel never ran: QEMU ended with code {code} before the image was in its memory"),
            None => bail!("the kernel never ran: the image was not in QEMU's memory within {took} s of the host"),
        }
    }
    if !reached.is_empty() {
        bail!("tables of translations are not what the manifest says:\n  {}", reached.join("\n  "));
    }
    let decisive = match outcome.ended_by {
        Some(EndedBy::Decisive(place)) => options.decisive.get(place).cloned(),
        _ => None,
    };
    let whole = rings.and_then(|rings| rings.trace(&outcome.memory));
    // The host ends a run a little later than it was asked to.
    let until = match (&decisive, &whole) {
        (Some(decisive), Ok(trace)) => decisive.ended_at(trace).unwrap_or(u64::MAX),
        _ => options.until.filter(|_| outcome.code.is_none()).unwrap_or(u64::MAX),
    };
    let mut after = Vec::new();
    let trace = whole.map(|mut trace| {
        after.extend(trace.records.iter().filter(|record| record.time > until));
        trace.records.retain(|record| record.time <= until);
        trace
    });
    let is_whole = trace.as_ref().is_ok_and(|trace| trace.lost == 0 && trace.exit_code().is_some());
    let counts = (!is_whole).then(|| {
        let look = look.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        Ok(Counts::of(&look.see(&outcome.memory, &[])?, system).at(until, &after))
    });
    let has_limit = options.until.is_some();
    Ok(Run {
        outcome,
        by: match image.profile {
            Profile::Det => By::QemuDet,
            Profile::Par => By::QemuPar,
        },
        decisive,
        has_limit,
        late,
        trace,
        counts,
        turns: Turns::of(system, Some(options.quantum)),
        away: Vec::new(),
    })
}

/// What QEMU is told of the board's devices that the system has, and that are not always there. An option that several of them need is given once. The files
/// behind them are made anew.
pub fn device_arguments(image: &Image) -> Result<Vec<String>> {
    let mut arguments = Vec::new();
    if let Some(smmu) = image.manifest.system.board.smmu.as_ref().filter(|_| image.manifest.system.has_smmu()) {
        arguments.extend_from_slice(&smmu.qemu.arguments);
    }
    for (name, device) in image.manifest.system.board_devices() {
        let Some(qemu) = &device.qemu else { continue };
        let path = image.path.with_extension(name);
        if let Some(bytes) = qemu.bytes {
            let file = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
            file.set_len(bytes.0)?;
        }
        let path = path.display().to_string();
        let own: Vec<String> = qemu.arguments.iter().map(|argument| argument.replace("{file}", &path)).collect();
        for option in own.chunks(2) {
            if !arguments.chunks(2).any(|given| given == option) {
                arguments.extend_from_slice(option);
            }
        }
    }
    Ok(arguments)
}

/// Notes on a system before it runs: tasks that could do more than their handles say.
pub fn say_what_is_reached(system: &Resolved) {
    let mut by_task: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (task, device) in system.reaching_all_memory() {
        by_task.entry(task).or_default().push(format!("`{device}`"));
    }
    for (task, devices) in by_task {
        eprintln!(
            "{} `{task}` can reach all memory: nothing translates the addresses that it gives to {}",
            report::yellow("note:"),
            devices.join(", ")
        );
    }
}

/// How many completions all devices of the system announced too late.
fn late_completions(system: &Resolved, outcome: &Outcome) -> Result<u32> {
    let mut late = 0;
    for device in system.devices.iter().filter(|device| device.processor.is_none()) {
        let word = outcome.memory.read(device.control + CONTROL_LATE_COMPLETIONS, 4)?;
        late += u32::from_le_bytes(word.try_into().expect("four bytes were asked for"));
    }
    Ok(late)
}

/// How a run ended, in words, if there is anything to say of it; and of which kind of problem that is, if it is one.
#[must_use]
pub fn end_words(image: &Image, run: &Run, watch: &Watch<'_>) -> (Option<Cause>, String) {
    let system = &image.manifest.system;
    let outcome = &run.outcome;
    let bad = |cause, words: &str| (Some(cause), words.to_owned());
    let panicked = outcome.console.contains("kernel panic");
    match (outcome.code, outcome.ended_by, &run.decisive) {
        // A board that was reset ends QEMU as if all were well.
        (Some(0), ..) if system.panic == Panic::Reset && panicked => {
            bad(Cause::ExitCode, "the kernel panicked and reset the board")
        }
        (Some(0), ..) => (None, String::new()),
        (Some(code), ..) => bad(Cause::ExitCode, &format!("the system ended with code {code}")),
        (None, Some(EndedBy::Enough), _) => {
            (None, "the run ended here, as asked; the system did not end itself".to_owned())
        }
        (None, Some(EndedBy::Still), _) if panicked => {
            bad(Cause::ExitCode, "the kernel panicked and stays where it is")
        }
        (None, Some(EndedBy::Still), _) => {
            let words = report::nothing_left(system, watch);
            let are_done = run.counts.as_ref().and_then(|counts| counts.as_ref().ok()).is_some_and(Counts::are_done);
            ((!run.has_limit && !are_done).then_some(Cause::NotEnded), words)
        }
        (None, Some(EndedBy::Decisive(_)), Some(decisive)) => {
            ((decisive.why == Why::Shutdown).then_some(Cause::NotEnded), decisive.words(system))
        }
        (None, Some(EndedBy::User), _) => bad(Cause::NotEnded, "the run was interrupted"),
        (None, ..) => {
            let took = outcome.took.as_secs();
            if run.by == By::Board {
                let words = format!(
                    "the system did not end within {took} s; `--seconds` waits longer, `end = \"TIME\"` under `[system]` ends it"
                );
                return bad(Cause::NotEnded, &words);
            }
            let words = format!(
                "the system did not end within {took} s of the host; `--seconds` gives it more, `--for` ends it on time"
            );
            bad(Cause::NotEnded, &words)
        }
    }
}

/// Prints faults, the table of tasks and what is wrong, which is returned, too. `say` prints what is no error.
pub fn print_outcome(image: &Image, run: &Run, say: &dyn Fn(&str)) -> Vec<Problem> {
    let system = &image.manifest.system;
    let mut problems = Vec::new();
    let mut bad = |cause: Cause, text: String| {
        eprintln!("{} {text}", report::red("error:"));
        problems.push(Problem { cause, text });
    };
    let none = Trace::default();
    let watch = run.watch(run.trace.as_ref().unwrap_or(&none), system);
    match end_words(image, run, &watch) {
        (None, words) if words.is_empty() => {}
        (None, words) => say(&words),
        (Some(cause), words) => bad(cause, words),
    }
    if run.outcome.code != Some(0) {
        for line in report::kernel_addresses(&run.outcome.console, &image.programs.kernel) {
            eprintln!("{line}");
        }
    }
    if let Some(path) = image.stream() {
        say(&format!("the trace that was sent: `cargo xtask trace --stream {}`", path.display()));
    }
    if let Some(words) = run.late_words() {
        eprintln!("{} {words}", report::yellow("note:"));
    }
    let trace = match (&run.trace, system.trace) {
        (Ok(trace), _) => trace,
        (Err(_), Level::Off) => {
            say("no trace, as the manifest asks: what the kernel has counted is all that is known");
            &none
        }
        (Err(error), _) => {
            bad(Cause::NoTrace, format!("no trace: {error:#}"));
            return problems;
        }
    };
    for fault in report::faults(trace, &image.manifest.system, &image.programs.binaries) {
        eprintln!("{}", report::red(&fault));
    }
    say(&report::task_table(&run.counted(trace, system), system, &watch));
    if trace.exit_code().is_some() {
        for error in report::unbalanced(trace) {
            bad(Cause::Accounts, error);
        }
    } else if matches!(run.outcome.ended_by, Some(EndedBy::Limit | EndedBy::User)) && !trace.records.is_empty() {
        eprintln!("what happened last:");
        for record in &trace.records[trace.records.len().saturating_sub(LAST)..] {
            eprintln!("{}", describe(record, system));
        }
    }
    if trace.lost > 0 && run.by != By::Board {
        let note = report::yellow("note:");
        eprintln!(
            "{note} the first {} records of the trace were overwritten; the kernel has counted all jobs",
            trace.lost
        );
    }
    match (run.by, run.turns.warning(image.profile)) {
        (By::Board, _) => say("time: the board's"),
        (_, warning) => {
            say(&run.turns.words(image.profile));
            warning.into_iter().for_each(|words| eprintln!("{} {words}", report::yellow("note:")));
        }
    }
    let mut verdict = watch.verdict(image.manifest.expectations.as_ref());
    if let Some(Err(error)) = &run.counts {
        verdict.unknown.push(format!("what the kernel has counted cannot be read: {error:#}"));
    }
    verdict.harmless.iter().for_each(|words| say(words));
    let missed = !verdict.misses.is_empty();
    let mut broken = Vec::new();
    if missed && excuse(image, run).is_none() {
        // The reason comes before its victims.
        for text in observed::broken(&answers::observed(trace, system)) {
            eprintln!("{} {text}", report::red("error:"));
            broken.push(Problem { cause: Cause::Declaration, text });
        }
    }
    broken_unnoticed(image, run).iter().for_each(|words| eprintln!("{} {words}", report::yellow("note:")));
    if let Some(why) = excuse(image, run) {
        for words in std::mem::take(&mut verdict.misses) {
            eprintln!("{} {words}: {why}", report::yellow("note:"));
        }
    }
    verdict.problems().into_iter().for_each(|problem| bad(problem.cause, problem.text));
    if missed && excuse(image, run).is_none() {
        report::say_why_missed(trace, system, &run.away);
    }
    broken.extend(problems);
    broken
}

/// The declarations that did not hold, as sentences, if no deadline was missed. A proof relies on them, so a run without a miss shows them, too.
#[must_use]
pub fn broken_unnoticed(image: &Image, run: &Run) -> Vec<String> {
    let system = &image.manifest.system;
    let Ok(trace) = &run.trace else { return Vec::new() };
    let verdict = run.watch(trace, system).verdict(image.manifest.expectations.as_ref());
    if !verdict.misses.is_empty() {
        return Vec::new();
    }
    let times_are_own = run.by == By::Board || run.by == By::QemuDet && run.turns.others() == 0;
    observed::broken_unnoticed(&answers::observed(trace, system), times_are_own)
}

/// All that is known of a run, for scripts.
pub fn answer(image: &Image, run: &Run, problems: Vec<Problem>) -> RunAnswer {
    let system = &image.manifest.system;
    let none = Trace::default();
    let trace = run.trace.as_ref().unwrap_or(&none);
    let has_ended = run.outcome.code.is_some();
    let watch = run.watch(trace, system);
    let counted = run.counted(trace, system);
    RunAnswer {
        name: system.name.clone(),
        unit: answers::Unit::Ns,
        by: run.by,
        ended_at: trace.records.last().map_or(0, |record| record.time),
        exit: run.outcome.code.map(i64::from),
        ended_by: match run.outcome.ended_by {
            None => answers::EndedBy::Itself,
            Some(EndedBy::Enough) => answers::EndedBy::Limit,
            Some(EndedBy::Still) => answers::EndedBy::NothingLeft,
            Some(EndedBy::Decisive(_)) => answers::EndedBy::TaskEnded,
            Some(EndedBy::Limit) => answers::EndedBy::HostLimit,
            Some(EndedBy::User) => answers::EndedBy::Interrupt,
        },
        traps: None,
        lost_records: trace.lost,
        verdict: answers::VerdictAnswer { good: problems.is_empty(), problems },
        tasks: answers::tasks(system, &Metrics::of(trace, system), Some(&counted), &watch, has_ended),
        graphs: answers::graphs(system, watch.latencies()),
        observed: answers::observed(trace, system),
        console: Some(run.outcome.console.clone()),
    }
}

/// Why missed deadlines say nothing about the system, if they do not.
fn excuse(image: &Image, run: &Run) -> Option<&'static str> {
    match (image.unmanaged, run.by) {
        (true, _) => Some("engines were not managed"),
        (_, By::QemuPar) => Some("with `par` times are the host's"),
        (false, _) => None,
    }
}

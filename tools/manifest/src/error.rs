//! The possible mistakes in a manifest, with their places.

use std::fmt;
use std::path::PathBuf;

use fusee_sched_analysis::can;

use crate::quantity::{Bytes, Time};

/// Kinds of objects that handles name.
pub(crate) const HANDLE_KINDS: [&str; 8] =
    ["endpoint", "notification", "engine", "pool", "interrupt", "region", "task", "system"];
/// Names that a message lists, at most.
const MOST_LISTED: usize = 30;

/// One mistake in one file. Prints as `file:line: reason`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ManifestError {
    /// The manifest, as it was named by the caller.
    pub file: PathBuf,
    /// Line of the mistake, from 1; 0 if it belongs to no line.
    pub line: usize,
    /// The reason of the mistake.
    pub reason: Reason,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = printable(&self.reason.to_string());
        match self.line {
            0 => write!(f, "{}: {reason}", self.file.display()),
            line => write!(f, "{}:{line}: {reason}", self.file.display()),
        }
    }
}

/// A text without characters that control a terminal or turn the direction of a line: these are escaped as Rust does.
fn printable(text: &str) -> String {
    let tells = |one: char| {
        (one.is_control() && one != '\n')
            || matches!(one, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for one in text.chars() {
        if tells(one) { shown.extend(one.escape_default()) } else { shown.push(one) }
    }
    shown
}

impl std::error::Error for ManifestError {}

/// All mistakes that one look at a manifest finds, by line; at least one. Prints a line for each, and how many there are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ManifestErrors(pub Vec<ManifestError>);

impl fmt::Display for ManifestErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "\n" })?;
        }
        if self.0.len() > 1 { write!(f, "\n{} mistakes", self.0.len()) } else { Ok(()) }
    }
}

impl std::error::Error for ManifestErrors {}

impl From<ManifestError> for ManifestErrors {
    fn from(error: ManifestError) -> Self {
        Self(vec![error])
    }
}

/// The mistakes.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says its fields in words")]
pub enum Reason {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// Not TOML, or a value of the wrong type.
    #[error("{0}")]
    Syntax(String),
    /// A key for the second time in one table; with the line of the first.
    #[error("duplicate key `{key}`; the first is in line {first}")]
    DuplicateKey { key: String, first: usize },
    /// A key that this table must have.
    #[error("key `{0}` is missing in this table")]
    MissingKey(String),
    /// A key that means nothing here; with those that do.
    #[error("unknown key `{key}`{}", hint(.key, .choices))]
    UnknownKey { key: String, choices: Vec<String> },
    /// A word that this key does not take; with those that it does.
    #[error("unknown value `{value}`{}", hint(.value, .choices))]
    UnknownValue { value: String, choices: Vec<String> },
    /// Two objects of one kind with the same name.
    #[error("a second {kind} is called `{name}`")]
    DefinedTwice { kind: &'static str, name: String },
    /// A task is like another one that is like the first.
    #[error("task `{task}` is like itself: at the end of each chain of `like` is a task without that key")]
    LikeItself { task: String },
    /// A name that nothing of this kind has; with those that there are.
    #[error("no {kind} is called `{name}`{}", hint(.name, .choices))]
    Unknown { kind: &'static str, name: String, choices: Vec<String> },
    /// A name longer than the kernel's tables hold.
    #[error("`{name}` is longer than {limit} bytes")]
    NameTooLong { name: String, limit: usize },
    /// A name is empty, or has a character that names do not have.
    #[error("`{0}` is no name; names have letters, digits, `-` and `_`, in parts with a point between them")]
    BadName(String),
    /// Something in the environment of a task already has this name.
    #[error("the environment of task `{task}` already has an entry `{name}`")]
    NameTaken { task: String, name: String },
    /// A handle is not written `kind name: rights`.
    #[error("`{0}` is not a handle: write \"kind name: rights\", where the kind is {kinds}", kinds = list(HANDLE_KINDS, "or"))]
    BadHandle(String),
    /// A right that this kind of object does not have; with those that it has.
    #[error(
        "there is no right `{right}` to a handle of kind {kind}{}{}",
        hint(.right, .choices),
        if .right.contains(',') { " Rights are separated by spaces" } else { "" }
    )]
    BadRight { kind: &'static str, right: String, choices: Vec<String> },
    /// A right only one task may have.
    #[error("task `{task}` may not receive from endpoint `{endpoint}`: its server is `{server}`")]
    NotTheServer { task: String, endpoint: String, server: String },
    /// A server has no handle to receive from its endpoint.
    #[error(
        "`{server}` is the server of endpoint `{endpoint}`, and has no handle to receive from it: give it \
         \"endpoint {endpoint}: receive\""
    )]
    NoReceiver { endpoint: String, server: String },
    /// A notification is signalled, and no task may wait for it.
    #[error(
        "notification `{notification}` is signalled, and no task may wait for it: give one \
         \"notification {notification}: wait\""
    )]
    NoWaiter { notification: String },
    /// A driver lacks a handle that its program asks for, or the object of that handle is too small.
    #[error("driver `{driver}` of `{device}` needs a handle `{handle}`: {text}")]
    DriverNeeds { device: String, driver: String, handle: Box<str>, text: String },
    /// One region twice in one task.
    #[error("task `{task}` has region `{region}` twice")]
    RegionTwice { task: String, region: String },
    /// A region that is too large to be lent.
    #[error("`{place}` is a place for {bytes} that others lend; at most {limit} can be lent")]
    TooLargeToLend { place: String, bytes: Bytes, limit: Bytes },
    /// A step of a script that is not understood.
    #[error("step `{step}`: {why}")]
    BadStep { step: String, why: String },
    /// A task has no program, or several: a binary, an ELF file, a script.
    #[error("task `{task}` needs one of `binary`, `elf` and `script`")]
    BinaryOrScript { task: String },
    /// A value that must not be zero.
    #[error("{what} of `{of}` is zero")]
    Zero { what: &'static str, of: String },
    /// A key that belongs together with another one.
    #[error("{what} of `{of}` needs {needs}")]
    Needs { what: &'static str, of: String, needs: &'static str },
    /// A user without a length in a pool that is ordered or advised by lengths.
    #[error("`{task}` does not say in its `uses` how long it has a token of `{pool}`, which goes by that")]
    NoLength { pool: String, task: String },
    /// A kernel, or a class of its launches, without a measurement; with the kernels, or the classes, that have one.
    #[error("{}", not_measured(.kernel, *.class, .choices))]
    NotMeasured { kernel: String, class: Option<u32>, choices: Vec<String> },
    /// A file of measured times that cannot be used.
    #[error("`{file}`: {why}; `cargo xtask run --measure` writes this file")]
    BadTimes { file: String, why: String },
    /// A name that is none of a file beside the manifest.
    #[error("`{0}` is not the name of a file beside this one")]
    NotBeside(String),
    /// A key that has no meaning together with another one.
    #[error("{what} of `{of}` means nothing together with {with}")]
    Excludes { what: &'static str, of: String, with: &'static str },
    /// More budget than there is time.
    #[error("budget of `{task}` ({budget}) exceeds its {what} ({limit})")]
    BudgetExceeds { task: String, budget: Time, what: &'static str, limit: Time },
    /// Less budget than the kernel can enforce.
    #[error(
        "budget of `{task}` ({budget}) is too small to be enforced: at least {least}, four times the \
         longest path through the kernel"
    )]
    BudgetTooSmall { task: String, budget: Time, least: Time },
    /// A job may take longer than its budget.
    #[error("wcet of `{task}` ({execution}) exceeds its budget ({budget})")]
    ExecutionExceeds { task: String, execution: Time, budget: Time },
    /// A time of which sums could overflow.
    #[error("{what} of `{of}` ({}) is longer than any time may be, 2^56 ns (834 days)", .time)]
    TooLong { what: &'static str, of: String, time: Time },
    /// A group of clients that is above itself.
    #[error("group `{group}` is a part of itself: follow its `parent`")]
    GroupInItself { group: String },
    /// A group whose clients would stand lower than a tree may have levels.
    #[error("clients of group `{group}` would stand on level {} of a tree that has {limit}", .limit + 1)]
    GroupTooDeep { group: String, limit: usize },
    /// Tasks of a graph each of which waits for the other's first token.
    #[error(
        "task `{task}` of graph `{graph}` waits for a token that is to come of its own first job: a cycle needs an edge with `initial` tokens"
    )]
    GraphCycle { graph: String, task: String },
    /// An object of a graph without a declared number of replicas, for which the analysis finds none.
    #[error("how many replicas `{object}` needs is not known, so it must say `replicas`: {why}")]
    NoReplicas { object: String, why: String },
    /// Tasks of a graph whose tokens are too few to go on for ever.
    #[error(
        "task `{task}` of graph `{graph}` runs out of tokens: a cycle that it is on needs more `initial` ones, or more `replicas`"
    )]
    GraphStarves { graph: String, task: String },
    /// An edge of a graph brings more or fewer tokens than another one to the same task.
    #[error(
        "edge `{edge}` has tokens for another number of jobs of `{task}` than the edges before it: those of one pile up without end"
    )]
    UnevenEdge { edge: String, task: String },
    /// A number outside its range.
    #[error("{what} of `{of}` is not from {from} to {to}")]
    OutOfRange { what: &'static str, of: String, from: u32, to: u32 },
    /// All operations of a job together are shorter than the longest of them, or longer than as many of that.
    #[error("operations of `{of}` together are not from one to `times` of the longest: {least} to {most}")]
    OperationsOutOfRange { of: String, least: Time, most: Time },
    /// Arguments of QEMU that are not pairs of an option and its value.
    #[error(
        "QEMU's arguments of `{device}` are options that begin with `-`, each with its value behind it: \"-device\", \"virtio-rng-device\""
    )]
    NotOptions { device: String },
    /// A length that is not a whole number of pages.
    #[error("{what} of `{of}` is not a whole number of 4 KiB pages")]
    NotPages { what: &'static str, of: String },
    /// More objects of a kind than the kernel holds.
    #[error("more than {limit} {what}")]
    TooMany { what: &'static str, limit: usize },
    /// More tasks at one object than its queue has places for.
    #[error("{kind} `{name}` has more than {limit} {what}")]
    Crowded { kind: &'static str, name: String, what: &'static str, limit: usize },
    /// A CPU the system does not have.
    #[error("there is no CPU {cpu}: the system has {cpus}")]
    NoSuchCpu { cpu: u32, cpus: u32 },
    /// The board has no such thing.
    #[error("board `{board}` has no {what}")]
    BoardLacks { board: String, what: String },
    /// A CPU is in two clusters.
    #[error("CPU {cpu} is in two clusters, `{first}` and `{second}`")]
    CpuInTwoClusters { cpu: u32, first: String, second: String },
    /// A CPU is in no cluster.
    #[error("CPU {cpu} is in no cluster")]
    CpuInNoCluster { cpu: u32 },
    /// A task, or an interrupt, that must name its cluster.
    #[error("`{of}` must name its cluster: there are several")]
    NoCluster { of: String },
    /// Tasks of two clusters lock the same engine.
    #[error(
        "engine `{engine}` is used from two clusters, by `{first}` and `{second}`: that takes a `pool` \
         with `limit = \"ck-omlp\"`"
    )]
    EngineInTwoClusters { engine: String, first: String, second: String },
    /// Engines of one group are granted in different orders.
    #[error("the engines of group `{group}` must have the same `order`")]
    TwoOrders { group: String },
    /// A task of another cluster shares a pool.
    #[error(
        "pool `{pool}` is for tasks of cluster `{cluster}`, and `{task}` is of another: that takes \
         `limit = \"ck-omlp\"`"
    )]
    PoolOfAnotherCluster { pool: String, cluster: String, task: String },
    /// A pool that clusters share is of one of them.
    #[error("pool `{pool}` is shared by clusters, and is of none")]
    ClusterOfShared { pool: String },
    /// A task uses an engine that asks for a token of a pool, and does not use the pool.
    #[error("engine `{engine}` takes a token of pool `{pool}`, which `{task}` does not use")]
    NoToken { engine: String, pool: String, task: String },
    /// One pool or one engine twice in one task: each is requested in one place of its queue.
    #[error("task `{task}` already has {kind} `{name}`")]
    LockTwice { task: String, kind: &'static str, name: String },
    /// Two tasks, engines or contexts want the same place of a device.
    #[error("{what} of `{of}` is already taken by `{by}`")]
    PlaceTaken { what: &'static str, of: String, by: String },
    /// The device has no such engine, or no context left.
    #[error("device `{device}` has only {limit} {what}")]
    DeviceFull { device: String, what: &'static str, limit: usize },
    /// Engines of one device name two interrupts.
    #[error("device `{device}` raises one line; another of its engines names another interrupt")]
    SecondLine { device: String },
    /// Two devices name two firmwares, but one CPU plays both.
    #[error("`{first}` and `{second}` need the same firmware: one CPU plays all devices")]
    TwoFirmwares { first: String, second: String },
    /// A matrix without a number for each pair of devices.
    #[error("distance needs a number for each pair of devices, {count} rows of {count}")]
    NotSquare { count: usize },
    /// A distance that is shorter than near, or too far.
    #[error("a distance is a percentage from 100, which is near, to 100000")]
    Distance,
    /// A scripted task uses the engines of two devices.
    #[error("task `{task}` is scripted, and uses two devices, `{first}` and `{second}`")]
    TwoDevices { task: String, first: String, second: String },
    /// Physical memory given out twice.
    #[error("{kind} `{name}` overlaps {with}")]
    Overlap { kind: &'static str, name: String, with: String },
    /// A region would give a device of the kernel away.
    #[error("{kind} `{name}` would give away {device}, which is the kernel's alone: a task with it could do anything")]
    KernelDevice { kind: &'static str, name: String, device: String },
    /// The pool of task memory is too small.
    #[error("`{of}` needs {bytes}, but only {left} are left in the board's pool")]
    PoolExhausted { of: String, bytes: Bytes, left: Bytes },
    /// The range of virtual addresses for this is used up.
    #[error("no virtual addresses are left for `{of}`")]
    NoAddresses { of: String },
    /// A declared use of something the task has no such handle to.
    #[error("task `{task}` has no handle `{name}` to {to}")]
    NotUsed { task: String, name: String, to: &'static str },
    /// The cluster's tasks need more than its CPUs give; with the cause of most of their waiting, if they wait.
    #[error(
        "the real-time tasks of cluster `{cluster}` need {} of {cpus} CPU{}{}",
        percent(*.per_mille),
        plural(*.cpus),
        waiting.as_ref().map_or_else(String::new, |cause| format!(", waiting included: {cause}"))
    )]
    Overload { cluster: String, per_mille: u64, cpus: u32, waiting: Option<String> },
    /// A boost would be for longer than the period that it is for.
    #[error("service_period of `{endpoint}` ({service_period}) is shorter than its service_max ({service_max})")]
    ServicePeriod { endpoint: String, service_period: Time, service_max: Time },
    /// A task may take budgets in advance where keys do not depend on deadlines.
    #[error(
        "`{task}` may not release early: keys of cluster `{cluster}` do not depend on deadlines, so nothing would bound how many budgets it \
         takes; that takes EDF or FL"
    )]
    ReleasesEarly { task: String, cluster: String },
    /// A task may begin jobs early where keys do not follow releases.
    #[error(
        "`{task}` may not begin early: keys of cluster `{cluster}` do not follow releases under {policy}; leave `early` out, or give the \
         cluster the policy EDF or FL"
    )]
    EarlyKeys { task: String, cluster: String, policy: &'static str },
    /// A task may begin jobs early, and takes part in something for which its jobs are counted by its period.
    #[error("`{task}` may not begin early, because the analysis counts its jobs by its period: {why}")]
    EarlyJobs { task: String, why: String },
    /// An engine or a token would be taken from a task that keeps to its declaration.
    #[error("watchdog of `{engine}` ({watchdog}) is shorter than `{user}` may hold it ({hold})")]
    WatchdogTooShort { engine: String, watchdog: Time, user: String, hold: Time },
    /// Tasks hold an engine for longer than there is time.
    #[error("the real-time tasks hold engine `{engine}` for {} of its time, of which `{task}` has {}", percent(*.per_mille), percent(*.part))]
    Overcommitted { engine: String, per_mille: u64, task: String, part: u64 },
    /// Tasks hold the tokens of a pool for longer than there is time.
    #[error(
        "the real-time tasks need {} of {replicas} token{} of pool `{pool}`, of which `{task}` needs {}",
        percent(*.per_mille),
        plural(*.replicas),
        percent(*.part)
    )]
    TooFewTokens { pool: String, replicas: u32, per_mille: u64, task: String, part: u64 },
    /// A job may wait for longer than its period.
    #[error("task `{task}` needs more than its period ({period}): {needs}")]
    WaitsTooLong { task: String, needs: String, period: Time },
    /// Others may take more from a task's budget, while it waits for them, than it can spare.
    #[error("budget of `{task}` ({budget}) is too small for its wcet ({}){} and what others may take from it \
         while it waits ({lends})", wcet(*.execution, *.budget), servers(*.services))]
    LendsTooMuch { task: String, execution: Time, services: Time, lends: Time, budget: Time },
    /// The budget pays for engines, too, and is not large enough for all.
    #[error("budget of `{task}` ({budget}) is too small for its wcet ({}){}, what others may take from it while \
         it waits ({lends}), and the engines it holds, preemptions included ({drawn})", wcet(*.execution, *.budget), servers(*.services))]
    DrawsTooMuch { task: String, execution: Time, services: Time, lends: Time, drawn: Time, budget: Time },
    /// `hard = true`, but its bound does not count all that it waits for.
    #[error("task `{task}` is hard, but not proved: not all that it waits for is counted: {why}")]
    NotCounted { task: String, why: String },
    /// `hard = true`, but its bound rests on the behaviour of others, and nothing enforces that.
    #[error("task `{task}` is hard, but not proved: {why}")]
    NotEnforced { task: String, why: String },
    /// No bound on waiting, for some reason.
    #[error("waiting in cluster `{cluster}` is not bounded: {why}")]
    Unbounded { cluster: String, why: String },
    /// `hard = true`, and the analysis cannot prove it; with its bound, if it has one.
    #[error(
        "task `{task}` is hard, but not proved: {why}{}",
        late.as_ref().map_or_else(String::new, |late| format!(" ({late})"))
    )]
    NotProved { task: String, why: &'static str, late: Option<String> },
    /// `hard = true`, and more of its releases may queue than its `backlog` has places for.
    #[error(
        "task `{task}` is hard, but not proved: up to {queued} of its releases may queue, and with `backlog` = {backlog} the others are dropped"
    )]
    Drops { task: String, queued: u64, backlog: u64 },
    /// A graph has a `latency`, and a path that may take longer.
    #[error("graph `{graph}` may take {bound}, and its latency is {latency}: the longest path is {path}")]
    TooLate { graph: String, path: String, bound: Time, latency: Time },
    /// A graph has a `latency`, and nothing proves how late it is.
    #[error("graph `{graph}` has a latency, but it is not proved: {why}")]
    LatencyNotProved { graph: String, why: String },
    /// Rates that no bus has.
    #[error("bus `{bus}`: {why}")]
    BadBus { bus: String, why: can::Nonsense },
    /// An identifier, a length or a time that no frame has.
    #[error("frame `{frame}`: {why}")]
    BadFrame { frame: String, why: can::Nonsense },
    /// A frame that comes more often than the jobs that send it.
    #[error(
        "frame `{frame}` comes every {period}, and `{sender}` has a job every {least}: a job sends one frame at most"
    )]
    FrameTooOften { frame: String, period: Time, sender: String, least: Time },
    /// The frames of a bus take more than its time.
    #[error("the frames of bus `{bus}` take {} of its time", percent(*.per_mille))]
    BusOverload { bus: String, per_mille: u64 },
    /// A frame that may be later than its deadline.
    #[error("frame `{frame}` may take {bound}, and its deadline is {deadline}")]
    FrameTooLate { frame: String, bound: Time, deadline: Time },
    /// A frame that nothing proves to be in time.
    #[error("frame `{frame}` may be late: {why}")]
    FrameNotProved { frame: String, why: String },
    /// No workspace has this program.
    #[error("binary `{binary}`: {why}")]
    NoProgram { binary: String, why: String },
    /// Two workspaces have this program.
    #[error(
        "binary `{binary}` is both in {} and in {}: give one package another name",
        places[0].display(),
        places[1].display()
    )]
    TwoPrograms { binary: String, places: [PathBuf; 2] },
    /// A program without the note of the version that it was built for.
    #[error(
        "binary `{binary}` does not say which version of the kernel it was built for: programs begin with \
         `fusee::entry!`, which adds the note {} (docs/stability.md)",
        fusee_abi::program::SECTION
    )]
    NoVersion { binary: String },
    /// A program that was built for another version of the kernel; the versions of the ABI and of the crate `fusee`.
    #[error(
        "binary `{binary}` was built for version {} of the kernel's ABI, with fusee {}; this kernel has version {}, with fusee {}: build \
         both from one revision",
        built.0, built.1, kernel.0, kernel.1
    )]
    WrongVersion { binary: String, built: (u32, String), kernel: (u32, &'static str) },
    /// No bytes were given for a binary.
    #[error("binary `{binary}` was not built")]
    NoBinary { binary: String },
    /// The binary is not an ELF file for this machine.
    #[error("binary `{binary}` is not a program for this machine: {why}")]
    NotAnElf { binary: String, why: String },
    /// A segment may be both written and executed.
    #[error("binary `{binary}` has a segment at {address:#x} that is both writable and executable")]
    WritableCode { binary: String, address: u64 },
    /// A segment that does not start at a page, or lies outside the place of binaries.
    #[error(
        "binary `{binary}` has a segment at {address:#x}, which is no page of its own between 2 MiB and \
         1.5 GiB: link it with linker/task.ld"
    )]
    BadSegment { binary: String, address: u64 },
    /// Sizes of clusters that cannot be read.
    #[error("`{0}` is no list of cluster sizes: write \"2,1\"")]
    BadClusters(String),
    /// An expectation of `[test]` that cannot be read.
    #[error("`{0}` is not a mark: write \"task: number number\"")]
    BadMark(String),
    /// Another one.
    #[error("`{0}` is not the end of a task: write \"task: code\"")]
    BadExit(String),
    /// Turns of emulated CPUs that QEMU cannot take.
    #[error("turns of emulated CPUs are whole microseconds, from 1 us to 1 ms, not {0}")]
    BadTurns(Time),
}

impl Reason {
    /// The binary it is about.
    pub(crate) fn binary(&self) -> Option<&str> {
        match self {
            Self::NoBinary { binary }
            | Self::NoProgram { binary, .. }
            | Self::TwoPrograms { binary, .. }
            | Self::NoVersion { binary }
            | Self::WrongVersion { binary, .. }
            | Self::NotAnElf { binary, .. }
            | Self::WritableCode { binary, .. }
            | Self::BadSegment { binary, .. } => Some(binary),
            _ => None,
        }
    }
}

/// The execution time of a job, with its source if the manifest may leave it out.
fn wcet(execution: Time, budget: Time) -> String {
    if execution == budget { format!("{execution}, the budget unless `wcet` says less") } else { execution.to_string() }
}

/// The message about a kernel, or a class of its launches, that nothing was measured of.
fn not_measured(kernel: &String, class: Option<u32>, choices: &[String]) -> String {
    let class = class.map(|class| class.to_string());
    let of = class.as_ref().map_or_else(String::new, |class| format!("class {class} of "));
    let hint = hint(class.as_ref().unwrap_or(kernel), choices);
    format!(
        "nothing was measured of {of}kernel `{kernel}` (`cargo xtask run --measure` does, and writes it to the file that `times` of the \
         device names){hint}"
    )
}

/// The end of the noun after a count.
fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn servers(services: Time) -> String {
    if services.0 == 0 { String::new() } else { format!(", its servers ({services})") }
}

fn percent(per_mille: u64) -> String {
    format!("{}.{}%", per_mille / 10, per_mille % 10)
}

/// The choices in place of `name`: the nearest one, or else all of them.
fn hint(name: &str, choices: &[String]) -> String {
    let names = || choices.iter().map(String::as_str);
    match nearest(name, names()) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None if choices.is_empty() => "; there is none".to_owned(),
        None if choices.len() > MOST_LISTED => format!("; there are {}", choices.len()),
        None => format!("; there {} {}", if choices.len() == 1 { "is" } else { "are" }, list(names(), "and")),
    }
}

/// `a`, `b` and `c`.
fn list<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((end, rest)) if !rest.is_empty() => format!("{} {last} {end}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// The nearest of `candidates` to a mistyped `name`, if one is near. Upper and lower case are alike.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (limit, name) = (1 + name.len() / 4, name.to_lowercase());
    let far = |other: &str| edit_distance(&name, &other.to_lowercase());
    // A candidate with a distance as large as its length has nothing of the name.
    let near = candidates.map(|other| (far(other), other)).filter(|(far, other)| *far <= limit && *far < other.len());
    near.min().map(|(_, other)| other)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

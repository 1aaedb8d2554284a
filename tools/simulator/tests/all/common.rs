//! The common part of the tests: the parts that many manifests have, requests to tasks in place of their scripts, and
//! questions about a run.

use std::path::Path;

use fusee_abi::call::{Call, HandleValue};
use fusee_abi::trace::{Event, Ledger, Record};
use fusee_kernel_core::object::State;
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_simulator::workload::{Generator, Platform, Source};
use fusee_simulator::{Options, Overheads, Program, Reply, Report, Request, Until, simulate_with};

/// A microsecond in nanoseconds.
pub const US: u64 = 1_000;
/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000 * US;
/// How long a system runs at most that ends itself.
pub const LIMIT: u64 = 1_000 * MS;

//--- Parts of manifests ------------------------------------------------------------------------------------

/// How a manifest begins in which all CPUs are in the cluster `all`; `keys` are further ones of the system.
pub fn system(cpus: u32, keys: &str) -> String {
    let all: Vec<u32> = (0..cpus).collect();
    let system = format!("[system]\nname = \"test\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"10ms\"\n{keys}\n");
    format!("{system}[clusters.all]\ncpus = {all:?}\n")
}

/// Further keys of [`end`]: a task of the cluster `all` that comes before most others.
pub const URGENT: &str = "cluster = \"all\"\nperiod = \"1s\"\ndeadline = \"1ms\"\nbudget = \"1ms\"";

/// The task that ends the system so long after its first release; `keys` say where it runs, and its budget.
pub fn end(sleep: &str, keys: &str) -> String {
    let handles = "handles = { system = \"system: shutdown\" }";
    format!("[tasks.end]\nscript = [\"sleep {sleep}\", \"shutdown\"]\n{keys}\n{handles}\n")
}

/// An accelerator: its driver, which is a task of the same name, its interrupt and its engines.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// Its name.
    pub name: &'a str,
    /// The number of its interrupt line.
    pub line: u32,
    /// Where its driver runs and its interrupt leads to, if the manifest says it.
    pub cluster: Option<&'a str>,
    /// The driver's period and budget.
    pub driver: &'a str,
    /// Further handles of the driver.
    pub handles: &'a str,
    /// Further keys of the interrupt.
    pub interrupt: &'a str,
    /// Its engines, each with further keys.
    pub engines: &'a [(&'a str, &'a str)],
}

impl Device<'static> {
    /// A device `gpu` of cluster `all`, without engines.
    pub const GPU: Device<'static> = Device {
        name: "gpu",
        line: 112,
        cluster: Some("all"),
        driver: "period = \"10ms\"\nbudget = \"1ms\"",
        handles: "",
        interrupt: "",
        engines: &[],
    };
}

impl Device<'_> {
    /// Its text in the manifest.
    pub fn text(&self) -> String {
        let Device { name, line, driver, handles, interrupt, .. } = self;
        let cluster = self.cluster.map_or(String::new(), |cluster| format!("cluster = \"{cluster}\"\n"));
        // The driver asks for them, in a region of its own unless the test has one for it.
        let tables = if handles.contains("tables = ") {
            String::new()
        } else {
            format!(
                "tables = \"region {name}_tables: read write physical\"\n[regions.{name}_tables]\nbytes = \"16KiB\""
            )
        };
        let mut text = format!(
            r#"
[tasks.{name}]
binary = "gpu-driver/gpu-driver"
class = "service"
{cluster}{driver}
[tasks.{name}.handles]
line = "interrupt {name}: acknowledge"
event = "notification {name}_event: wait"
{handles}
{tables}
[notifications.{name}_event]
[interrupts.{name}]
line = {line}
notification = "{name}_event"
edge = true
{cluster}{interrupt}
[devices.{name}]
driver = "{name}"
firmware = "engine-core"
memory = "64KiB"
"#
        );
        for (index, (engine, keys)) in self.engines.iter().enumerate() {
            let of_device = format!("device = \"{name}\"\nindex = {index}\ninterrupt = \"{name}\"");
            text += &format!("[engines.{engine}]\n{of_device}\n{keys}\n");
        }
        text
    }
}

//--- Requests ----------------------------------------------------------------------------------------------

/// Something that a task does, and the name of the handle that it goes through, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    request: Request,
    handle: Option<&'static str>,
}

/// The requests that the task of this name makes in place of its script in the manifest, and the one with which it begins again.
pub type Plan<'a> = (&'a str, &'a [Asked], Option<usize>);

/// The next job.
pub const NEXT_JOB: Asked = through(Call::NextJob, 0);

/// Computes for so many nanoseconds.
pub const fn burn(span: u64) -> Asked {
    plain(Request::Burn(span))
}

/// Submits so many nanoseconds of work to this engine of its device.
pub const fn submit(engine: u32, span: u64) -> Asked {
    plain(Request::Submit(engine, span))
}

/// Sleeps for so many nanoseconds.
pub const fn sleep(span: u64) -> Asked {
    through(Call::SleepUntil, 0).within(span)
}

/// A call through the handle that the manifest gives this name.
pub const fn call(call: Call, handle: &'static str) -> Asked {
    Asked { handle: Some(handle), ..through(call, 0) }
}

/// A call through the handle with this value.
pub const fn through(call: Call, first: u64) -> Asked {
    let (number, until, reply) = (call as u64, Until::Never, Reply::Nobody);
    plain(Request::Call { number, first, second: 1, words: [0; 2], until, reply })
}

/// A request that needs no name.
pub const fn plain(request: Request) -> Asked {
    Asked { request, handle: None }
}

/// Lets the next call carry a handle, with a copy that keeps these rights.
pub const fn carry(given: u64, kept: u32) -> Asked {
    plain(Request::With { given, kept })
}

/// The value of the handle in a slot that the manifest filled.
pub const fn slot(slot: u16) -> u64 {
    HandleValue::new(slot, 1).0
}

impl Asked {
    /// The call, which ends so many nanoseconds later at the latest.
    #[must_use]
    pub const fn within(mut self, span: u64) -> Asked {
        if let Request::Call { until, .. } = &mut self.request {
            *until = Until::After(span);
        }
        self
    }

    /// The call with this number as its second argument and its message.
    #[must_use]
    pub const fn with(mut self, number: u64) -> Asked {
        if let Request::Call { second, words, .. } = &mut self.request {
            (*second, words[0]) = (number, number);
        }
        self
    }

    /// The call with a reply.
    #[must_use]
    pub const fn replying(mut self, to: Reply) -> Asked {
        if let Request::Call { reply, .. } = &mut self.request {
            *reply = to;
        }
        self
    }

    /// The request, made by the task with this index.
    fn request(self, manifest: &Manifest, task: usize) -> Request {
        let named = |name| handle(manifest, task, name).expect("the task has a handle of this name");
        match (self.request, self.handle) {
            (Request::Call { number, second, words, until, reply, .. }, Some(name)) => {
                Request::Call { number, first: named(name), second, words, until, reply }
            }
            (request, _) => request,
        }
    }
}

//--- Runs --------------------------------------------------------------------------------------------------

/// A system that ran.
#[derive(Debug)]
pub struct Run {
    /// The system to run.
    pub manifest: Manifest,
    /// The results of the run.
    pub report: Report,
}

/// The system of `text`.
pub fn parse(text: &str) -> Manifest {
    Manifest::parse(Path::new("test.toml"), text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A system of tasks at random, as in [`Generator::parse`].
pub fn generated(words: &str, seed: u64, platform: &Platform) -> Manifest {
    let set = Generator::parse(words).and_then(|words| words.generate(&mut Source::new(seed, 0)));
    set.unwrap_or_else(|error| panic!("{error}")).system(platform).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the system of `text`, which ends itself; each task that is named makes its requests once.
pub fn run(text: &str, overheads: Overheads, asked: &[(&str, &[Asked])]) -> Run {
    let programs: Vec<Plan<'_>> = asked.iter().map(|(name, asked)| (*name, *asked, None)).collect();
    let run = run_for(text, overheads, LIMIT, &programs);
    assert_eq!(run.report.exit, Some(0));
    run
}

/// Runs the system of `text` for `limit` nanoseconds at most.
pub fn run_for(text: &str, overheads: Overheads, limit: u64, programs: &[Plan<'_>]) -> Run {
    let manifest = parse(text);
    let programs = programs.iter().map(|(name, asked, again_from)| {
        let task = index(&manifest, name);
        let requests = asked.iter().map(|asked| asked.request(&manifest, task)).collect();
        (task, Program::Requests { requests, again_from: *again_from })
    });
    let kick_delay = overheads.interprocessor_interrupt;
    let options = Options { overheads, programs: programs.collect(), ..Options::default() };
    let report = simulate_with(&manifest, &options, limit).unwrap_or_else(|error| panic!("{error}\n{text}"));
    crate::explain::parts_add_up(&manifest, &report.records, kick_delay)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    Run { manifest, report }
}

/// Four tasks, each on a CPU of its own: its name, and its handles, by the order of their slots.
pub type Four<'a> = [(&'a str, Vec<&'a str>); 4];

/// Lets four tasks make their requests; `rest` is the rest of the manifest.
pub fn run_four(tasks: &Four<'_>, rest: &str, asked: [Vec<Asked>; 4]) -> Run {
    let mut text = system(5, "");
    for (name, handles) in tasks {
        text += &format!("[tasks.{name}]\nscript = [\"burn 1us\"]\ncluster = \"all\"\nclass = \"background\"\n");
        text += &format!("[tasks.{name}.handles]\n");
        handles.iter().enumerate().for_each(|(slot, handle)| text += &format!("h{slot} = \"{handle}\"\n"));
    }
    text += rest;
    text += &end("50ms", "cluster = \"all\"\nperiod = \"1s\"\nbudget = \"1ms\"");
    let asked: Vec<(&str, &[Asked])> = tasks.iter().zip(&asked).map(|((name, _), asked)| (*name, &asked[..])).collect();
    run(&text, Overheads::NONE, &asked)
}

/// The place of the task with this name in the manifest.
pub fn index(manifest: &Manifest, name: &str) -> usize {
    manifest.system.tasks.iter().position(|task| task.name == name).expect("a task of the text")
}

/// The value of the handle that the task at this place finds by this name.
pub fn handle(manifest: &Manifest, task: usize, name: &str) -> Option<u64> {
    let entries = &manifest.system.tasks[task].environment;
    entries.iter().find(|entry| entry.name == name).map(|entry| entry.handle)
}

impl Run {
    /// The place of the task with this name in the manifest.
    pub fn index(&self, name: &str) -> usize {
        index(&self.manifest, name)
    }

    /// All records of one kind.
    pub fn all(&self, event: Event) -> impl Iterator<Item = &Record> {
        self.report.records.iter().filter(move |record| record.event == event as u8)
    }

    /// All records of one task.
    pub fn of(&self, name: &str) -> impl Iterator<Item = &Record> {
        let task = self.index(name);
        self.report.records.iter().filter(move |record| usize::from(record.thread) == task + 1)
    }

    /// Records of one kind of one task.
    pub fn events(&self, event: Event, name: &str) -> impl Iterator<Item = &Record> {
        self.of(name).filter(move |record| record.event == event as u8)
    }

    /// Their instants, in microseconds.
    pub fn times(&self, event: Event, name: &str) -> Vec<u64> {
        self.events(event, name).map(|record| record.time / US).collect()
    }

    /// Places of the tasks that faulted.
    pub fn faults(&self) -> Vec<usize> {
        self.all(Event::Fault).map(|record| usize::from(record.thread) - 1).collect()
    }

    /// The results of a task's calls, and its loaded values.
    pub fn results(&self, name: &str) -> &[u64] {
        &self.report.results[self.index(name)]
    }

    /// The state of a task at the end.
    pub fn state(&self, name: &str) -> State {
        self.report.states[self.index(name)]
    }

    /// The amount of one line of the ledgers.
    pub fn ledger(&self, ledger: Ledger, index: usize) -> u64 {
        let ledgers = Trace::from_records(self.report.records.clone()).ledgers();
        ledgers.get(&(ledger as u16, index as u16)).copied().unwrap_or(0)
    }
}

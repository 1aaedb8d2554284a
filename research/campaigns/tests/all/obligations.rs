//! Obligations of keys and rights: none is missing, and a key that is said to change no proof changes none.

use std::collections::BTreeSet;
use std::path::Path;

use fusee_campaigns::keys::keys;
use fusee_campaigns::obligations::{KEYS, Obligation, RIGHTS};
use fusee_manifest::Manifest;
use fusee_manifest::admission::Study;
use fusee_sched_analysis::Overheads;

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("m.toml"), text).map_err(|error| error.to_string())
}

/// A hard client of a server that uses an engine, beside clients without its lock, their sharer, a group, and a supervisor.
const SYSTEM: &str = r#"[system]
name = "all"
board = "virt"
cpus = 1
start = "10ms"
trace = "schedule"
managed = true
admission = "warn"
panic = "end"
[endpoints.files]
server = "files"
service_max = "500us"
[endpoints.requests]
server = "sharer"
[tasks.files]
trusted = true
script = ["receive files", "burn 100us", "acquire ee", "submit ee 1ms gpu_done", "release ee", "reply files"]
handles = { files = "endpoint files: receive", ee = "engine ee: acquire" }
uses.ee = { cpu = "60us", operation = "1ms" }
[tasks.client]
script = ["burn 400us", "call files 0ns", "sleep 1ms"]
period = "40ms"
phase = "0ms"
budget = "3ms"
wcet = "1ms"
suspends = "1ms"
backlog = 2
hard = true
parameters = { depth = 1 }
handles = { files = "endpoint files: call" }
uses.files = { times = 1 }
[tasks.vision]
script = ["acquire ee", "submit ee 2ms gpu_done", "release ee"]
period = "80ms"
budget = "2ms"
wcet = "600us"
hard = true
handles = { ee = "engine ee: acquire" }
uses.ee = { cpu = "10us", operation = "2ms" }
[tasks.ada]
script = ["submit ee 1ms gpu_done", "repeat"]
class = "background"
trusted = true
handles = { ee = "engine ee: share" }
[tasks.bob]
script = ["submit ee 1ms gpu_done", "repeat"]
class = "background"
trusted = true
handles = { ee = "engine ee: share" }
shares.ee = { group = "media", weight = 2 }
restart = { at_most = 3, within = "1s", delay = "1ms", longest_delay = "4ms", start_within = "100us" }
[tasks.watcher]
binary = "supervisor/supervisor"
period = "100ms"
budget = "1ms"
wcet = "900us"
suspends = "1ms"
hard = true
[tasks.sharer]
binary = "sharer/sharer"
class = "service"
period = "10ms"
budget = "1ms"
handles = { requests = "endpoint requests: receive" }
[tasks.gpu]
binary = "gpu-driver/gpu-driver"
class = "service"
period = "10ms"
budget = "1ms"
handles = { line = "interrupt gpu: acknowledge", event = "notification gpu_event: wait", tables = "region tables: read write physical" }
[supervisor]
task = "watcher"
dies = "panic"
[notifications.gpu_event]
[interrupts.gpu]
line = 112
notification = "gpu_event"
bits = 1
edge = true
[devices.gpu]
driver = "gpu"
firmware = "engine-core"
memory = "64KiB"
copy_engines = 1
contexts = 8
arbiter = "arrival"
preemptible = false
[engines.ee]
device = "gpu"
index = 0
order = "fifo"
interrupt = "gpu"
shared_longest = "1ms"
sharer = "requests"
[groups.media]
engine = "ee"
weight = 1
within = "sharer"
[regions.tables]
bytes = "16KiB"
"#;

/// Keys, each with its line and another line in its place.
const OTHERS: &[(&str, &str, &str)] = &[
    ("system.trace", "trace = \"schedule\"", "trace = \"off\""),
    ("system.admission", "admission = \"warn\"", "admission = \"refuse\""),
    ("system.panic", "panic = \"end\"", "panic = \"halt\""),
    ("system.speaks", "panic = \"end\"", "panic = \"end\"\nspeaks = true"),
    ("tasks.*.parameters", "parameters = { depth = 1 }", "parameters = { depth = 7, width = 9 }"),
    ("tasks.*.shares", "shares.ee = { group = \"media\", weight = 2 }", "shares.ee = { group = \"media\" }"),
    ("tasks.*.shares.*.group", "{ group = \"media\", weight = 2 }", "{ weight = 2, group = \"media\" }"),
    ("tasks.*.shares.*.weight", "weight = 2", "weight = 1000"),
    ("tasks.*.restart.within", "within = \"1s\"", "within = \"9s\""),
    ("supervisor.dies", "dies = \"panic\"", "dies = \"go-on\""),
    ("interrupts.*.line", "line = 112", "line = 113"),
    ("interrupts.*.notification", "[notifications.gpu_event]", "[notifications.more]\n[notifications.gpu_event]"),
    ("interrupts.*.bits", "bits = 1", "bits = 2"),
    ("interrupts.*.edge", "edge = true", "edge = false"),
    ("devices.*.copy_engines", "copy_engines = 1", "copy_engines = 2"),
    ("devices.*.preemptible", "preemptible = false", "preemptible = true"),
    ("devices.*.contexts", "contexts = 8", "contexts = 6"),
    ("devices.*.arbiter", "arbiter = \"arrival\"", "arbiter = \"round-robin\""),
    ("devices.*.weights", "arbiter = \"arrival\"", "arbiter = \"weighted\"\nweights = { ada = 5 }"),
    ("devices.*.counters", "contexts = 8", "contexts = 8\ncounters = true"),
    (
        "engines.*.sharer",
        "sharer = \"requests\"\n[groups.media]\nengine = \"ee\"\nweight = 1\nwithin = \"sharer\"\n",
        "",
    ),
    ("groups.*.engine", "[groups.media]", "[groups.outer]\nengine = \"ee\"\n[groups.media]\nparent = \"outer\""),
    ("groups.*.parent", "[groups.media]", "[groups.outer]\nengine = \"ee\"\n[groups.media]\nparent = \"outer\""),
    ("groups.*.weight", "weight = 1\n", "weight = 99\n"),
    ("groups.*.manager", "within = \"sharer\"", "manager = \"ada\""),
    ("groups.*.within", "within = \"sharer\"", "manager = \"ada\"\nwithin = \"manager\""),
];

/// Why a key has no line above, if nothing but that is said of it.
const BY_NATURE: &[&str] = &[
    "a name",
    "how a run is judged",
    "no key",
    "memory",
    "what emulates it",
    "registers of its own",
    "what the simulator runs",
    "written out as tasks",
    "which of the device's",
    "which kernels there are",
    "contexts of clients without a lock",
    "as `endpoint`",
    "which memory a device reaches",
    "where its objects are",
];

/// The verdict on each task: its bound, and the missing parts of a proof.
fn verdicts(manifest: &Manifest) -> Vec<String> {
    let of = |index: usize| {
        let study = Study::new(&manifest.system, index).unwrap();
        let (report, blocked) = study.analyse(&Overheads::default()).unwrap();
        let one = |(at, member): (usize, &usize)| {
            let bound = study.bound(at, &report, &blocked).map(|bound| bound.response.to_string());
            format!("{} {bound:?} {:?}", manifest.system.tasks[*member].name, study.missing(at, &report, &blocked))
        };
        study.members.iter().enumerate().map(one).collect::<Vec<String>>()
    };
    (0..manifest.system.clusters.len()).flat_map(of).collect()
}

#[test]
fn keys_that_are_said_to_change_no_proof_change_none() {
    let expected = verdicts(&parse(SYSTEM).unwrap());
    assert!(expected.iter().all(|one| one.ends_with("[]")) && expected.len() == 3, "{expected:#?}");
    for (key, from, to) in OTHERS {
        assert!(SYSTEM.contains(from), "{key}: no line `{from}`");
        let mut text = SYSTEM.replacen(from, to, 1);
        if to.is_empty() {
            text = text.replace("shares.ee = { group = \"media\", weight = 2 }\n", "");
        }
        if to.contains("manager") {
            text = text.replace(
                "{ ee = \"engine ee: share\" }\n[tasks.bob]",
                "{ ee = \"engine ee: share\", requests = \"endpoint requests: call\" }\n[tasks.bob]",
            );
        }
        let other = parse(&text).unwrap_or_else(|why| panic!("{key}: {why}"));
        assert_eq!(verdicts(&other), expected, "{key}");
    }
    let has_line: BTreeSet<&str> = OTHERS.iter().map(|(key, ..)| *key).collect();
    for (table, rows) in KEYS {
        for (key, obligation) in *rows {
            let Obligation::Nothing(why) = obligation else { continue };
            let key = format!("{table}.{key}");
            let is_clear = has_line.contains(key.as_str()) || BY_NATURE.iter().any(|words| why.starts_with(words));
            assert!(is_clear, "nothing shows that `{key}` changes no proof");
        }
    }
}

#[test]
fn a_bus_changes_no_bound_of_a_task() {
    let bus = "[buses.can0]\nbit_rate = 500_000\nfault_interval = \"50ms\"\n[buses.can0.frames.seen]\nidentifier = 1\n\
               bytes = 8\nsender = \"vision\"\nto = \"client\"\n";
    let other = parse(&format!("{SYSTEM}{bus}")).unwrap();
    assert_eq!(other.system.buses.len(), 1);
    assert_eq!(verdicts(&other), verdicts(&parse(SYSTEM).unwrap()));
}

#[test]
fn a_key_that_counts_changes_a_proof_here() {
    let expected = verdicts(&parse(SYSTEM).unwrap());
    for (from, to) in [
        ("wcet = \"600us\"", "wcet = \"1990us\""),
        ("shared_longest = \"1ms\"", "shared_longest = \"2ms\""),
        ("service_max = \"500us\"", "service_max = \"2600us\""),
        ("start_within = \"100us\"", "start_within = \"2ms\""),
        ("times = 1", "times = 2"),
        ("managed = true", "managed = false"),
        ("binary = \"gpu-driver/gpu-driver\"\nclass = \"service\"\n", "binary = \"gpu-driver/gpu-driver\"\n"),
    ] {
        let other = parse(&SYSTEM.replacen(from, to, 1)).unwrap_or_else(|why| panic!("{to}: {why}"));
        assert_ne!(verdicts(&other), expected, "{to}");
    }
}

/// Three jobs of 5 ms on two CPUs: the third misses its deadline if they are released at once, and not if it comes later.
#[test]
fn phases_and_the_start_count_where_the_clock_releases_all_jobs() {
    let system = |start: &str, phase: &str, more: &str| {
        let mut text = format!(
            "[system]\nname = \"c\"\nboard = \"virt\"\ncpus = 2\nstart = \"{start}\"\nadmission = \"warn\"\npolicy = \"FP\"\n"
        );
        for (task, phase) in [("a", "0ms"), ("b", "0ms"), ("c", phase)] {
            let priority = task.as_bytes()[0] - b'a' + 1;
            text += &format!(
                "[tasks.{task}]\nscript = [\"burn 4ms\"]\nperiod = \"20ms\"\ndeadline = \"8ms\"\nbudget = \"5ms\"\n\
                 phase = \"{phase}\"\npriority = {priority}\nhard = true\n"
            );
        }
        let found = verdicts(&parse(&(text + more)).unwrap());
        found.iter().all(|one| one.ends_with("[]"))
    };
    assert!(!system("10ms", "0ms", "") && system("10ms", "10ms", ""));
    // The beginning of a task may execute before its phase; so may jobs that others release, jobs of a task that may be
    // away when it likes, and those of a task with a lock.
    assert!(!system("0ms", "10ms", ""));
    for (more, is_proved) in [
        ("[tasks.d]\nscript = [\"burn 1us\"]\nclass = \"background\"\n", true),
        ("[tasks.d]\nscript = [\"burn 1us\"]\nperiod = \"20ms\"\nbudget = \"100us\"\npriority = 4\n", true),
        ("[tasks.d]\nbinary = \"apps/anything\"\nperiod = \"20ms\"\nbudget = \"100us\"\npriority = 4\n", false),
        (
            "[tasks.d]\nbinary = \"apps/anything\"\nperiod = \"20ms\"\nbudget = \"100us\"\npriority = 4\ntrusted = true\n",
            true,
        ),
        (
            "[tasks.d]\nscript = [\"burn 1us\"]\nperiod = \"20ms\"\nbudget = \"100us\"\npriority = 4\nrelease = \"sporadic\"\n\
          [tasks.e]\nscript = [\"release_job d\"]\nclass = \"background\"\nhandles = { d = \"task d: release_job\" }\n",
            false,
        ),
        (
            "[tasks.d]\nscript = [\"sleep 1us\"]\nperiod = \"20ms\"\nbudget = \"100us\"\npriority = 4\nsuspends = \"1us\"\n",
            false,
        ),
        (
            "[tasks.d]\nscript = [\"signal n 1\"]\nperiod = \"20ms\"\nbudget = \"100us\"\npriority = 4\n\
          handles = { n = \"notification n: signal\" }\n[notifications.n]\n[tasks.e]\nscript = [\"wait n\"]\nclass = \"background\"\nhandles = { n = \"notification n: wait\" }\n",
            false,
        ),
    ] {
        assert_eq!(system("10ms", "10ms", more), is_proved, "{more}");
    }
}

#[test]
fn each_right_has_an_obligation() {
    let all = keys();
    let rights: BTreeSet<&str> =
        all.keys().map(String::as_str).filter(|key| key.contains(": ") && !key.starts_with("step: ")).collect();
    let rows = RIGHTS.iter().flat_map(|(kind, rows)| rows.iter().map(move |(right, _)| format!("{kind}: {right}")));
    let rows: BTreeSet<String> = rows.collect();
    assert_eq!(rows.iter().map(String::as_str).collect::<BTreeSet<&str>>(), rights);
}

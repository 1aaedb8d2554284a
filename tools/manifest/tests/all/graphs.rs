//! Graphs: the periods and deadlines of their tasks, and refusals.

use std::path::Path;

use fusee_accel_contract::space;
use fusee_graph::{Edge, Tokens};
use fusee_manifest::{Manifest, admission};
use fusee_sched_analysis::Overheads;

/// A camera whose lines two tasks work on, and one that joins their results; it is told of the picture before.
const GOOD: &str = r#"
[system]
name = "graph"
board = "virt"
cpus = 2

[clusters.all]
cpus = [0, 1]

[tasks.camera]
script = ["burn 1ms"]
period = "12ms"
budget = "2ms"

[tasks.odd]
script = ["burn 1ms"]
budget = "1500us"

[tasks.even]
script = ["burn 1ms"]
budget = "1500us"
backlog = 3

[tasks.join]
script = ["burn 1ms"]
budget = "2ms"

[graphs.video]
source = "camera"

[graphs.video.edges]
lines = { from = "camera", to = "odd", produces = 4, consumes = 3 }
others = { from = "camera", to = "even", produces = 4, consumes = 3 }
odd = { from = "odd", to = "join", consumes = 2 }
even = { from = "even", to = "join", produces = 2, consumes = 4 }
before = { from = "join", to = "odd", produces = 2, initial = 2 }
"#;

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("m.toml"), text).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(from: &str, to: &str, line_of: &str, expected: &str) {
    assert!(GOOD.contains(from), "the good manifest has no `{from}`");
    let text = GOOD.replacen(from, to, 1);
    let line = text.lines().position(|line| line.contains(line_of)).unwrap() + 1;
    assert_eq!(parse(&text).err(), Some(format!("m.toml:{line}: {expected}")));
}

#[test]
fn nodes_have_the_periods_of_their_rates_and_are_told_of_their_edges() {
    let system = parse(GOOD).unwrap().system;
    let task = |name: &str| system.tasks.iter().find(|task| task.name == name).unwrap();
    // Of the text's example: 4 jobs in 3 periods of the source, 2 of the join.
    let periods = ["camera", "odd", "even", "join"].map(|name| {
        let reservation = &system.reservations[task(name).reservation.unwrap()];
        (reservation.period / 1_000_000, reservation.release)
    });
    assert_eq!(periods, [(12, 1), (9, 2), (9, 2), (18, 2)]);
    let parameter =
        |name: &str, entry: &str| task(name).environment.iter().find(|one| one.name == entry).map(|one| one.address);
    assert_eq!(["camera", "odd", "even", "join"].map(|name| parameter(name, "node").unwrap()), [0, 1, 2, 3]);
    let edges = |name: &str| -> Vec<Edge> {
        (0..)
            .map_while(|place| parameter(name, &format!("edge.{place}")))
            .map(|word| Edge::decode(word).unwrap())
            .collect()
    };
    let edge = |from, to, produced, consumed, initial| Edge {
        from,
        to,
        tokens: Tokens::new(produced, consumed, consumed, initial).unwrap(),
    };
    let all = [edge(0, 1, 4, 3, 0), edge(0, 2, 4, 3, 0), edge(1, 3, 1, 2, 0), edge(2, 3, 2, 4, 0), edge(3, 1, 2, 1, 2)];
    assert_eq!(edges("odd"), [all[0], all[2], all[3], all[4]], "its own, and those of its consumer");
    assert_eq!(edges("camera"), [all[0], all[1], all[4]]);
    let has = |name: &str, entry: &str| task(name).environment.iter().any(|one| one.name == entry);
    assert!(has("camera", "next.1") && has("camera", "next.2") && !has("camera", "next.3") && has("join", "next.1"));
    assert!(["camera", "odd", "even", "join"].iter().all(|name| has(name, "graph")));
    assert_eq!(system.features() & fusee_abi::image::feature::CREDITS, fusee_abi::image::feature::CREDITS);
}

#[test]
fn what_is_no_graph_is_refused_on_its_line() {
    refused("source = \"camera\"", "source = \"camra\"", "camra", "no task is called `camra`; did you mean `camera`?");
    refused("to = \"even\"", "to = \"evn\"", "evn", "no task is called `evn`; did you mean `even`?");
    refused(
        "period = \"12ms\"\nbudget = \"2ms\"",
        "class = \"background\"",
        "source =",
        "source of `camera` needs a `period`, by which the clock releases it",
    );
    refused(
        "budget = \"1500us\"",
        "budget = \"1500us\"\nperiod = \"9ms\"",
        "period = \"9ms\"",
        "period of `odd` means nothing together with its place in a graph",
    );
    refused(
        "consumes = 4 }",
        "consumes = 3 }",
        "even = {",
        "edge `even` has tokens for another number of jobs of `join` than the edges before it: those of one pile up without end",
    );
    refused(
        ", initial = 2",
        "",
        "[graphs.video]",
        "task `odd` of graph `video` waits for a token that is to come of its own first job: a cycle needs an edge with `initial` tokens",
    );
    refused(
        "consumes = 2 }",
        "consumes = 2, threshold = 1 }",
        "threshold = 1",
        "`threshold` of `odd` is not from 2 to 65535",
    );
    refused(
        "produces = 2, consumes = 4",
        "produces = 0, consumes = 4",
        "produces = 0",
        "`produces` of `even` is not from 1 to 1023",
    );
    refused(
        "produces = 2, initial = 2",
        "produces = 2, initial = 2, threshold = 3",
        "[graphs.video]",
        "task `odd` of graph `video` runs out of tokens: a cycle that it is on needs more `initial` ones, or more `replicas`",
    );
    refused(
        "from = \"join\", to = \"odd\"",
        "from = \"join\", to = \"camera\"",
        "before =",
        "an edge to the source of `before` means nothing together with its release by the clock",
    );
    refused(
        "[graphs.video]",
        "[regions.video]\nbytes = 4096\n[graphs.video]",
        "[graphs.video]",
        "a second region is called `video`",
    );
}

/// Four tasks on three CPUs.
const CHAIN: &str = r#"
[system]
name = "chain"
board = "virt"
cpus = 3

[clusters.a]
cpus = [0]

[clusters.b]
cpus = [1]

[clusters.c]
cpus = [2]

[tasks.camera]
script = ["burn 1ms"]
cluster = "a"
period = "10ms"
budget = "2ms"

[tasks.grey]
script = ["burn 1ms"]
cluster = "b"
budget = "3ms"

[tasks.copy]
script = ["burn 1ms"]
cluster = "c"
budget = "4ms"

[tasks.warp]
script = ["burn 1ms"]
cluster = "a"
budget = "5ms"
deadline = "9ms"

[graphs.video]
source = "camera"
latency = "17ms"

[graphs.video.edges]
grey = { from = "camera", to = "grey" }
copy = { from = "camera", to = "copy" }
left = { from = "grey", to = "warp" }
right = { from = "copy", to = "warp" }
"#;

/// Response times by hand: camera and warp have one CPU. The camera may wait for all of the warp, and the warp for a camera's job that came a millisecond before it, but for that one.
#[test]
fn a_latency_is_the_sum_of_response_times_over_the_longest_path() {
    let system = parse(CHAIN).unwrap().system;
    let found = admission::latencies(&system, &Overheads::default()).remove(0);
    let paths: Vec<_> = found.paths.iter().map(|path| (system.path(&system.graphs[0], path), path.latency)).collect();
    let ms = 1_000_000;
    let sums = [(7 + 4 + 6) * ms, (7 + 3 + 6) * ms];
    assert_eq!(paths, [("camera > copy > warp".to_owned(), sums[0]), ("camera > grey > warp".to_owned(), sums[1])]);
    assert_eq!(found.longest.as_ref(), found.paths.first());
    let lateness: Vec<_> = found.nodes.iter().map(|node| (node.late / ms.cast_signed(), node.backlog)).collect();
    assert_eq!(lateness, [(0, 1), (7, 1), (7, 2), (11, 2)]);
    assert_eq!((found.why_not, found.unenforced), (None, None));
}

#[test]
fn a_latency_that_is_not_proved_is_refused() {
    let refused = |from: &str, to: &str, line: usize, expected: &str| {
        assert!(CHAIN.contains(from), "the chain has no `{from}`");
        assert_eq!(parse(&CHAIN.replacen(from, to, 1)).err(), Some(format!("m.toml:{line}: {expected}")));
    };
    refused(
        "17ms",
        "16ms",
        40,
        "graph `video` may take 17 ms, and its latency is 16 ms: the longest path is camera > copy > warp",
    );
    let not_proved = |why: &str| format!("graph `video` has a latency, but it is not proved: {why}");
    refused(
        "budget = \"5ms\"",
        "budget = \"5ms\"\nbacklog = 1",
        41,
        &not_proved("`warp` has `backlog` = 1, and up to 2 of its releases may queue"),
    );
    refused(
        "script = [\"burn 1ms\"]\ncluster = \"b\"",
        "script = [\"sleep 1ms\"]\ncluster = \"b\"",
        40,
        &not_proved(
            "not all that `grey` waits for is counted: it sleeps for up to 1.000 ms, and its `suspends` is 0.000 ms",
        ),
    );
    refused(
        "budget = \"4ms\"",
        "class = \"background\"",
        44,
        "release of `copy` means nothing together with a class other than real-time",
    );
    // The round of two tasks takes 10 ms, the period of both: and now more.
    refused(
        "budget = \"4ms\"",
        "budget = \"4100us\"\n[graphs.video.edges.back]\nfrom = \"warp\"\nto = \"copy\"\ninitial = 1",
        44,
        &not_proved("tokens that `warp` waits for come back to it later with each round"),
    );
    let warned = CHAIN.replace("cpus = 3\n", "cpus = 3\nadmission = \"warn\"\n").replace("17ms", "10ms");
    let warnings = parse(&warned).unwrap().system.warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

/// The latencies of the chain: the last reader of a picture ends 17 ms after the camera was released, that of the grey one 16 ms after, and the path of 17 has two of the camera's periods.
#[test]
fn an_object_has_as_many_frames_as_jobs_may_be_under_way_and_readers_look_back() {
    let edges = CHAIN.split_once("[graphs.video.edges]").unwrap().0;
    let objects = format!(
        "{edges}
[graphs.video.objects.picture]
writer = \"camera\"
bytes = \"5000\"
readers = {{ grey = {{}}, copy = {{}}, warp = {{}} }}

[graphs.video.objects.flat]
writer = \"grey\"
bytes = \"4KiB\"
readers = {{ warp = {{ history = 3 }} }}

[graphs.video.objects.spare]
writer = \"copy\"
bytes = \"4KiB\"
replicas = 2
readers = {{ warp = {{ delay = 1 }} }}
"
    )
    .replace("\"5000\"", "\"8KiB\"");
    let system = parse(&objects).unwrap().system;
    let graph = &system.graphs[0];
    let found: Vec<_> = graph.objects.iter().map(|one| (one.name.as_str(), one.replicas, one.frames())).collect();
    assert_eq!(found, [("picture", 2, 2), ("flat", 2, 5), ("spare", 2, 3)]);
    // A frame of a job of its own number is waited for; older ones are not.
    let edge = |from, to, initial| Edge { from, to, tokens: Tokens::new(1, 1, 1, initial).unwrap() };
    let [camera, grey, copy, warp] = [0, 1, 2, 3];
    assert_eq!(
        graph.edges,
        [edge(camera, grey, 0), edge(camera, copy, 0), edge(camera, warp, 0), edge(grey, warp, 0), edge(copy, warp, 1)]
    );
    let task = |name: &str| system.tasks.iter().find(|task| task.name == name).unwrap();
    let entry = |name: &str, entry: &str| task(name).environment.iter().find(|one| one.name == entry).cloned();
    let back = |name: &str| -> Vec<Edge> {
        (0..)
            .map_while(|place| entry(name, &format!("back.{place}")))
            .map(|one| Edge::decode(one.address).unwrap())
            .collect()
    };
    assert_eq!(back("camera"), [edge(grey, camera, 2), edge(copy, camera, 2), edge(warp, camera, 2)]);
    assert_eq!(back("grey"), [edge(grey, camera, 2), edge(warp, grey, 2)]);
    assert_eq!(back("copy"), [edge(copy, camera, 2), edge(warp, copy, 2)]);
    assert_eq!(entry("warp", "flat.frames").map(|one| one.address), Some(3 << 32 | 5));
    assert_eq!(entry("camera", "picture.frames").map(|one| one.address), Some(2));
    assert_eq!(entry("camera", "picture").map(|one| one.bytes), Some(2 * 8192));
    for (name, known, unknown) in [("camera", "room", "room.0"), ("warp", "room.0", "room"), ("grey", "room", "room.3")]
    {
        assert!(entry(name, known).is_some() && entry(name, unknown).is_none(), "{name}");
    }
    // Fewer than are needed: its writer may wait, and that is not bounded.
    let few = objects.replacen("bytes = \"8KiB\"", "bytes = \"8KiB\"\nreplicas = 1", 1);
    let expected = "m.toml:40: graph `video` has a latency, but it is not proved: not all that `camera` waits for is counted: it may wait for a frame of `picture`, which would need 2 `replicas`";
    assert_eq!(parse(&few).err().as_deref(), Some(expected));
    // Without a bound the number is unknown.
    let unbounded = objects.replacen("latency = \"17ms\"\n", "", 1).replacen(
        "burn 1ms\"]\ncluster = \"b",
        "sleep 1ms\"]\ncluster = \"b",
        1,
    );
    let refused = parse(&unbounded).err().unwrap();
    let expected = "how many replicas `picture` needs is not known, so it must say `replicas`: not all that `grey` waits for is counted: it sleeps for up to 1.000 ms, and its `suspends` is 0.000 ms";
    assert!(refused.contains(expected), "{refused}");
}

/// Two nodes launch on a device, a third one reads their results.
#[test]
fn objects_on_a_device_have_one_place_that_its_driver_and_all_nodes_know() {
    let text = r#"
[system]
name = "device"
board = "virt"
cpus = 1
admission = "warn"

[tasks.gpu]
binary = "gpu-driver/gpu-driver"
class = "service"
period = "10ms"
budget = "1ms"
handles = { line = "interrupt gpu: acknowledge", event = "notification event: wait", tables = "region tables: read write physical" }

[tasks.first]
binary = "apps/frames"
period = "10ms"
budget = "1ms"
handles = { ee = "engine ee: acquire" }

[tasks.second]
binary = "apps/frames"
budget = "1ms"
handles = { ee = "engine ee: acquire" }

[tasks.last]
binary = "apps/frames"
budget = "1ms"

[graphs.video]
source = "first"
device = "gpu"

[graphs.video.objects]
picture = { writer = "first", on_device = true, bytes = 5000, replicas = 2, readers = { second = { history = 1 } } }
small = { writer = "second", on_device = true, bytes = 36, replicas = 2, readers = { last = {} } }
own = { writer = "second", bytes = 8, replicas = 2, readers = { last = {} } }

[notifications.event]

[interrupts.gpu]
line = 112
notification = "event"
edge = true

[devices.gpu]
driver = "gpu"
firmware = "engine-core"
copy_engines = 0

[engines.ee]
device = "gpu"
index = 0
interrupt = "gpu"

[regions.tables]
bytes = "28KiB"
"#;
    let system = parse(text).unwrap().system;
    let entry = |task: &str, name: &str| {
        let task = system.tasks.iter().find(|one| one.name == task).unwrap();
        task.environment.iter().find(|one| one.name == name).cloned()
    };
    // Three frames of 5,056 bytes, two of 64, in pages of one region.
    let place = |task: &str, object: &str| entry(task, object).map(|one| (one.address as u32, one.address >> 32));
    assert_eq!(place("first", "picture.at"), Some((0, 5_056)));
    assert_eq!(place("second", "small.at"), Some((3 * 5_056, 64)));
    assert_eq!(place("last", "own.at"), None);
    let memory = entry("gpu", "memory.0").unwrap();
    assert_eq!((memory.bytes, memory.address), (4 * 4096, 0), "the driver is told, and does not reach it");
    for task in ["first", "second", "last"] {
        let objects = entry(task, "objects").unwrap();
        assert_eq!(
            (objects.bytes, entry(task, "objects.at").unwrap().address),
            (4 * 4096, space::objects(1)),
            "{task}"
        );
    }
    assert!(entry("last", "own").is_some() && entry("second", "picture").is_none());
    // Clients of the device reach them by it.
    let told = |client: &str| entry("gpu", &format!("objects.{client}")).map(|one| one.address);
    assert_eq!([told("first"), told("second"), told("last")], [Some(0), Some(0), None]);
    let refused = |from: &str, to: &str, expected: &str| {
        assert!(text.contains(from));
        let error = parse(&text.replacen(from, to, 1)).err().unwrap();
        assert!(error.ends_with(expected), "{error}");
    };
    refused("device = \"gpu\"\n", "device = \"gp\"\n", "no device is called `gp`; did you mean `gpu`?");
    refused("device = \"gpu\"\n\n[graphs", "\n[graphs", "graph of `video` needs a `device`, as it has objects on one");
    refused("bytes = 5000", "bytes = 5000000", "more than 1024 pages of objects on a device");
    refused(
        "bytes = \"28KiB\"",
        "bytes = \"24KiB\"",
        "driver `gpu` of `gpu` needs a handle `tables`: \"region NAME: read write physical\", of 24832 B",
    );
    let event = "driver `gpu` of `gpu` needs a handle `event`: \"notification NAME: wait\", not bound to the driver";
    refused("\"notification event: wait\"", "\"notification event: inside\"", event);
    refused("[notifications.event]\n", "[notifications.event]\nbound = \"gpu\"\n", event);
}

/// Which of `text`'s tasks begin early, in the order of their reservations.
fn early(text: &str) -> Vec<u32> {
    parse(text).unwrap().system.reservations.iter().map(|one| one.begins_early).collect()
}

#[test]
fn nodes_begin_early_where_keys_follow_releases_unless_they_say_otherwise() {
    assert_eq!(early(GOOD), [0, 1, 1, 1]);
    let under = |policy: &str| GOOD.replace("cpus = [0, 1]", &format!("cpus = [0, 1]\npolicy = \"{policy}\""));
    assert_eq!(early(&under("FL")), [0, 1, 1, 1]);
    let join = |key: &str, text: &str| text.replace("[tasks.join]", &format!("[tasks.join]\n{key}"));
    assert_eq!(early(&join("early = false", GOOD)), [0, 1, 1, 0]);
    assert_eq!(early(&join("early = true", GOOD)), [0, 1, 1, 1]);
    for policy in ["RM", "DM"] {
        assert_eq!(early(&under(policy)), [0; 4]);
        let why = format!(
            "m.toml:26: `join` may not begin early: keys of cluster `all` do not follow releases under {policy}; leave `early` out, or \
             give the cluster the policy EDF or FL"
        );
        assert_eq!(parse(&join("early = true", &under(policy))).err(), Some(why));
    }
    let place = "early of `camera` needs a place in a graph, behind its source";
    refused("period = \"12ms\"", "period = \"12ms\"\nearly = false", "early", place);
    let class = "early of `other` means nothing together with no period";
    let other = "[tasks.other]\nscript = [\"burn 1ms\"]\nearly = true\n[graphs.video]";
    refused("[graphs.video]", other, "early", class);
}

/// A server, an engine by priority, and one by arrival.
const SHARED: &str = r#"
[tasks.server]
binary = "apps/echo"
cluster = "all"
handles = { requests = "endpoint requests: receive" }
[endpoints.requests]
server = "server"
service_max = "100us"
[engines.ordered]
order = "priority"
[engines.first]
order = "fifo"
"#;

#[test]
fn nodes_whose_jobs_are_counted_by_their_period_do_not_begin_early() {
    let of_join = |keys: &str| GOOD.replace("[tasks.join]", &format!("[tasks.join]\n{keys}")) + SHARED;
    let counted = "`join` may not begin early, because the analysis counts its jobs by its period: ";
    let engine =
        |name: &str| format!("handles = {{ lock = \"engine {name}: acquire\" }}\nuses.lock = {{ cpu = \"10us\" }}");
    let all = [
        ("early_release = true".to_owned(), "it may take the budget of its next job"),
        ("overrun = \"early-release\"".to_owned(), "it may take the budget of its next job"),
        ("budget_covers = \"cpu+engines\"".to_owned(), "its budget covers engines"),
        ("handles = { server = \"endpoint requests: call\" }".to_owned(), "it calls endpoint `requests`"),
        (engine("ordered"), "engine `ordered` is granted by priority on several CPUs"),
    ];
    for (keys, why) in all {
        assert_eq!(early(&of_join(&keys))[3], 0, "{keys}");
        let line = of_join("").lines().position(|line| line == "[tasks.join]").unwrap() + 2;
        let refused = parse(&of_join(&format!("early = true\n{keys}"))).err();
        assert_eq!(refused, Some(format!("m.toml:{line}: {counted}{why}")));
    }
    assert_eq!(early(&of_join(&engine("first")))[3], 1);
}

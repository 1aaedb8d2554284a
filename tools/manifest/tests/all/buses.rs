//! CAN buses: the bounds of frames, the mistakes in them, and the packed system, which knows nothing of them.

use std::path::Path;

use fusee_manifest::admission::{self, BusReport};
use fusee_manifest::{Manifest, PackOptions};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::Overheads;

/// A task that sends, one that reads, and frames of other nodes.
const GOOD: &str = r#"
[system]
name = "bus"
board = "virt"
cpus = 2

[clusters.one]
cpus = [0]

[clusters.two]
cpus = [1]

[tasks.wheel]
script = ["burn 900us"]
cluster = "one"
period = "10ms"
budget = "1ms"
hard = true

[tasks.brake]
script = ["burn 1900us"]
cluster = "two"
period = "5ms"
budget = "2ms"
hard = true

[tasks.asked]
script = ["burn 50us"]
cluster = "two"
release = "sporadic"
period = "50ms"
budget = "100us"
trusted = true

[tasks.idler]
script = ["burn 50us"]
cluster = "two"
class = "background"

[buses.can0]
bit_rate = 500_000

[buses.can0.frames.far]
identifier = 0x200
bytes = 8
period = "2ms"

[buses.can0.frames.speed]
identifier = 0x120
bytes = 4
sender = "wheel"
to = "brake"

[buses.can0.frames.lamp]
identifier = 0x300
bytes = 0
period = "20ms"
jitter = "3ms"
"#;

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("m.toml"), text).map_err(|error| error.to_string())
}

/// The findings on the one bus of a manifest that is built with late frames, too.
fn found(text: &str) -> BusReport {
    let text = text.replacen("cpus = 2", "cpus = 2\nadmission = \"warn\"", 1);
    admission::buses(&parse(&text).unwrap().system, &Overheads::default()).remove(0)
}

/// The error after one replacement, in the line that has `line_of`.
#[track_caller]
fn refused(from: &str, to: &str, line_of: &str, expected: &str) {
    assert!(GOOD.contains(from), "the good manifest has no `{from}`");
    let text = GOOD.replacen(from, to, 1);
    let line = text.lines().position(|line| line.contains(line_of)).unwrap() + 1;
    assert_eq!(parse(&text).err(), Some(format!("m.toml:{line}: {expected}")));
}

fn micros(time: Nanoseconds) -> u64 {
    assert_eq!(time.0 % 1_000, 0);
    time.0 / 1_000
}

/// At 500 kbit/s a bit is 2 us, so frames of 4, 8 and 0 bytes take 190, 270 and 110 us.
#[test]
fn a_frame_waits_for_its_sender_and_for_the_bus() {
    let found = found(GOOD);
    assert_eq!(found.order, [1, 0, 2]);
    let [far, speed, lamp] = &found.frames[..] else { panic!("three frames") };
    assert_eq!([far, speed, lamp].map(|one| micros(one.transmission)), [270, 190, 110]);
    // The sender has a CPU alone: it ends after its budget of 1 ms.
    assert_eq!([far, speed, lamp].map(|one| micros(one.jitter.unwrap())), [0, 1_000, 3_000]);
    let longest = [far, speed, lamp].map(|one| micros(one.response.clone().unwrap().longest));
    assert_eq!(longest, [110 + 190 + 270, 1_000 + 270 + 190, 3_000 + 190 + 270 + 110]);
    assert!(found.frames.iter().all(|one| one.is_proved()));
    // The reader's next job is released within 5 ms, and ends within 2.
    let latency = speed.latency.clone().unwrap();
    assert_eq!(micros(latency.unwrap()), 1_460 + 5_000 + 2_000);
    assert_eq!(far.latency, None);
}

#[test]
fn the_jitter_of_a_frame_with_a_sender_begins_at_the_end_of_its_job() {
    let text = GOOD.replacen("sender = \"wheel\"", "sender = \"wheel\"\njitter = \"50us\"", 1);
    assert_eq!(micros(found(&text).frames[1].jitter.unwrap()), 1_050);
}

#[test]
fn the_kernel_knows_of_no_bus() {
    let without = parse(GOOD.split("[buses").next().unwrap()).unwrap();
    let with = parse(GOOD).unwrap();
    let packed = |manifest: &Manifest| {
        manifest.pack_tables(PackOptions { cpu_stride: 1, managed: None }).unwrap().bytes().to_vec()
    };
    assert!(!packed(&with).is_empty());
    assert_eq!(packed(&with), packed(&without));
}

#[test]
fn a_frame_that_may_be_late_is_refused() {
    refused(
        "period = \"2ms\"",
        "period = \"2ms\"\ndeadline = \"569us\"",
        "frames.far",
        "frame `far` may take 570 us, and its deadline is 569 us",
    );
    refused(
        "bit_rate = 500_000",
        "bit_rate = 60_000",
        "buses.can0]",
        "the frames of bus `can0` take 133.0% of its time",
    );
    // A fault costs 332 us: 300 of waiting, five of these, and 270.
    refused(
        "bit_rate = 500_000",
        "bit_rate = 500_000\nfault_interval = \"450us\"",
        "frames.far",
        "frame `far` may take 2230 us, and its deadline is 2 ms",
    );
    let warned =
        parse(&GOOD.replacen("cpus = 2", "cpus = 2\nadmission = \"warn\"", 1).replacen("500_000", "60_000", 1));
    assert_eq!(warned.unwrap().system.warnings, ["the frames of bus `can0` take 133.0% of its time"]);
}

#[test]
fn a_frame_of_a_sender_without_a_bound_and_those_behind_it_have_none() {
    // The first of the cluster is later than any bound, as two need the whole CPU.
    let text = GOOD.replacen("[tasks.brake]", "[tasks.more]\nscript = [\"burn 9500us\"]\ncluster = \"one\"\nperiod = \"10ms\"\nbudget = \"9500us\"\n\n[tasks.brake]", 1);
    let found = found(&text);
    let why = "cluster `one` is overloaded";
    assert_eq!(found.frames[1].response, Err(format!("its jitter is not bounded: {why}")));
    for behind in [0, 2] {
        let before = "the jitter of `speed`, which comes before it, is not bounded";
        assert_eq!(found.frames[behind].response, Err(format!("{before}: {why}")));
    }
}

#[test]
fn frames_rest_on_senders_that_keep_their_word() {
    let hard = "budget = \"1ms\"\nhard = true";
    let sender = |keys: &str| GOOD.replacen(hard, &format!("budget = \"1ms\"\n{keys}"), 1);
    let why = "`wheel`, which sends `speed`, may send more often: it is neither hard nor trusted";
    let errors = parse(&sender("")).unwrap_err();
    for frame in ["far", "speed", "lamp"] {
        assert!(errors.contains(&format!("frame `{frame}` may be late: {why}")), "{errors}");
    }
    assert!(errors.ends_with("\n3 mistakes"), "{errors}");
    assert!(parse(&sender("trusted = true")).is_ok());
    let early = "its jitter is not bounded: `wheel` may take the budget of its next job".to_owned();
    assert_eq!(found(&sender("trusted = true\nearly_release = true")).frames[1].response, Err(early));
}

/// A node that begins early may send several frames within a period.
#[test]
fn a_node_that_begins_early_sends_no_frame_with_a_bound() {
    let graph = |early: &str| {
        GOOD.replacen(
            "[buses.can0]",
            &format!(
                "[tasks.sink]\nscript = [\"burn 50us\"]\ncluster = \"one\"\nbudget = \"100us\"\ntrusted = true\n{early}\n\
                 [graphs.g]\nsource = \"wheel\"\n[graphs.g.edges]\ne = {{ from = \"wheel\", to = \"sink\" }}\n\n[buses.can0]"
            ),
            1,
        )
        .replacen("sender = \"wheel\"", "sender = \"sink\"", 1)
    };
    let why = "jobs of `sink` may begin before their releases; `early = false` keeps it from that";
    assert_eq!(found(&graph("")).frames[1].response, Err(format!("its jitter is not bounded: {why}")));
    assert!(parse(&graph("early = false")).is_ok());
}

#[test]
fn a_reader_that_may_drop_a_release_has_no_latency() {
    let brake = "burn 1900us\"]\ncluster = \"two\"\nperiod = \"5ms\"\nbudget = \"2ms\"\nhard = true";
    let reader = |keys: &str| {
        assert!(GOOD.contains(brake));
        let text = GOOD.replacen(brake, &brake.replacen("hard = true", keys, 1), 1);
        found(&text).frames[1].latency.clone().unwrap()
    };
    assert!(reader("").is_ok());
    assert_eq!(reader("early_release = true"), Err("`brake` may take the budget of its next job".to_owned()));
    // With another task of 10 ms that comes first, a job takes 12 ms, in which two more are released.
    let more = "[tasks.more]\nscript = [\"burn 9900us\"]\ncluster = \"two\"\nperiod = \"20ms\"\nbudget = \"10ms\"\ndeadline = \"10ms\"\n";
    let dropped = "up to 2 releases of `brake` may queue, and with `backlog` = 1 the others are dropped";
    assert_eq!(reader(&format!("deadline = \"20ms\"\n{more}")), Err(dropped.to_owned()));
}

#[test]
fn mistakes_have_their_places_and_reasons() {
    refused(
        "0x120",
        "0x800",
        "0x800",
        "frame `speed`: a standard identifier is at most 0x7ff, not 0x800; an extended one is longer",
    );
    refused("0x300", "288", "288", "identifier of `lamp` is already taken by `speed`");
    refused(
        "bytes = 4",
        "bytes = 9",
        "bytes = 9",
        "frame `speed`: a frame has 0 to 8 bytes, not 9; one of CAN FD may have more",
    );
    refused(
        "bytes = 4",
        "bytes = 9\nfd = true",
        "bytes = 9",
        "frame `speed`: a frame of CAN FD has 0 to 8 bytes, or 12, 16, 20, 24, 32, 48 or 64, not 9",
    );
    refused(
        "bit_rate = 500_000",
        "bit_rate = 2_000_000",
        "bit_rate",
        "bus `can0`: a bit rate is 1000 to 1000000 bit/s, not 2000000",
    );
    refused(
        "bit_rate = 500_000",
        "bit_rate = 500_000\ndata_rate = 100_000",
        "data_rate",
        "bus `can0`: a data rate is no less than the bit rate (500000 bit/s) and at most 8000000 bit/s, not 100000",
    );
    // A fault costs 332 us: 300 of waiting, five of these, and 270.
    refused(
        "bit_rate = 500_000",
        "bit_rate = 500_000\nfault_interval = \"0ns\"",
        "fault_interval",
        "fault_interval of `can0` is zero",
    );
    refused("period = \"20ms\"", "period = \"0ms\"", "\"0ms\"", "period of `lamp` is zero");
    refused("period = \"20ms\"\n", "", "frames.lamp", "key `period` is missing in this table");
    refused("sender = \"wheel\"", "sender = \"idler\"", "sender", "sender of `speed` needs a real-time task");
    refused("sender = \"wheel\"", "sender = \"weel\"", "sender", "no task is called `weel`; did you mean `wheel`?");
    refused(
        "to = \"brake\"",
        "to = \"asked\"",
        "to = ",
        "to of `speed` needs a task that the clock releases: it reads the frame in its next job",
    );
    refused(
        "sender = \"wheel\"",
        "sender = \"wheel\"\nperiod = \"9ms\"",
        "9ms",
        "frame `speed` comes every 9 ms, and `wheel` has a job every 10 ms: a job sends one frame at most",
    );
    refused(
        "frames.speed",
        "frames.\"sp eed\"",
        "sp eed",
        "`sp eed` is no name; names have letters, digits, `-` and `_`, in parts with a point between them",
    );
    let extended = GOOD.replacen("0x120", "0x1fff_ffff\nextended = true", 1);
    assert!(parse(&extended).is_ok());
    assert!(parse(&GOOD.replacen("bytes = 4", "bytes = 64\nfd = true", 1)).is_ok());
}

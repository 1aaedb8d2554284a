//! Mistakes with numbers and places of their own, and cases without a mistake. One of each kind: `mistakes.rs`.

use std::fmt::Write;
use std::path::Path;

use crate::common::{Segment, elf, elf_with};
use fusee_abi::program::{Note, VERSION};
use fusee_manifest::{Binaries, Manifest, PackOptions};

/// A system without mistakes. Line numbers below count from its first line.
const GOOD: &str = include_str!("good.toml");

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("m.toml"), text).map_err(|error| error.to_string())
}

/// The mistakes after `from` is replaced by `to`.
#[track_caller]
fn refused(from: &str, to: &str, expected: &str) {
    assert!(GOOD.contains(from), "the good manifest has no `{from}`");
    match parse(&GOOD.replacen(from, to, 1)) {
        Ok(_) => panic!("`{to}` is accepted"),
        Err(error) => assert_eq!(error, expected),
    }
}

#[test]
fn handles_are_written_kind_name_rights() {
    for wrong in ["endpoint: call", "endpoint a b: call", ": call"] {
        let kinds = "`endpoint`, `notification`, `engine`, `pool`, `interrupt`, `region`, `task` or `system`";
        let expected =
            format!("m.toml:18: `{wrong}` is not a handle: write \"kind name: rights\", where the kind is {kinds}");
        refused("endpoint service: call", wrong, &expected);
    }
    for (handle, kind, choices) in [
        ("endpoint service: wait", "endpoint", "are `call`, `send`, `receive`, `grant` and `inside`"),
        ("notification event: wait call", "notification", "are `signal`, `wait`, `grant` and `inside`"),
        ("region shared: execute", "region", "are `read`, `write`, `map`, `physical`, `lend` and `lent`"),
        ("engine ee: use", "engine", "are `acquire`, `share` and `inside`"),
        ("system: start", "system", "is `shutdown`"),
    ] {
        let right = handle.split_whitespace().last().unwrap_or_default();
        let expected = format!("m.toml:18: there is no right `{right}` to a handle of kind {kind}; there {choices}");
        refused("endpoint service: call", handle, &expected);
    }
    let many: String = (0..33).map(|number| format!("handles.h{number} = \"endpoint service: call\"\n")).collect();
    refused(
        "handles.server = \"endpoint service: call\"\n",
        &many,
        "m.toml:50: task `client` has more than 32 handles",
    );
}

#[test]
fn what_is_lent_can_be_read_and_is_nothing_else() {
    let whole = "region shared: read write";
    refused(whole, "region shared: write lend", "m.toml:19: lend of `shared` needs the right to read");
    refused(whole, "region shared: lent", "m.toml:19: lent of `shared` needs the right to read");
    for other in ["lend", "map", "physical"] {
        let expected = format!("m.toml:19: lent of `shared` means nothing together with {other}");
        refused(whole, &format!("region shared: read lent {other}"), &expected);
    }
    refused(whole, "region uart: read lent", "m.toml:19: lent of `shared` means nothing together with a device");
    let large =
        |bytes: u64| GOOD.replacen("\"8KiB\"", &bytes.to_string(), 1).replacen(whole, "region shared: read lent", 1);
    parse(&large(8 << 20)).unwrap();
    let error = parse(&large((8 << 20) + 4096)).unwrap_err();
    let expected = "`shared` is a place for 8196 KiB that others lend; at most 8 MiB can be lent";
    assert_eq!(error, format!("m.toml:19: {expected}"));
}

#[test]
fn as_many_tasks_may_call_as_can_queue() {
    let text = |callers| {
        format!(
            "[system]\nname = \"queue\"\nboard = \"virt\"\ncpus = 1\n[endpoints.door]\nserver = \"server\"\n\
             [tasks.server]\nbinary = \"apps/hello\"\n[tasks.server.handles]\ndoor = \"endpoint door: receive\"\n\
             [tasks.caller]\ncopies = {callers}\nbinary = \"apps/hello\"\nclass = \"background\"\n\
             handles = {{ door = \"endpoint door: call\", again = \"endpoint door: send\" }}\n"
        )
    };
    assert!(Manifest::parse(Path::new("m.toml"), &text(64)).is_ok());
    let error = Manifest::parse(Path::new("m.toml"), &text(65)).unwrap_err().to_string();
    assert_eq!(error, "m.toml:15: endpoint `door` has more than 64 callers");
}

#[test]
fn an_engine_has_no_more_users_than_can_wait() {
    let text = |users| {
        format!(
            "[system]\nname = \"lock\"\nboard = \"virt\"\ncpus = 1\n[engines.lock]\n[tasks.user]\ncopies = {users}\n\
             binary = \"apps/hello\"\nclass = \"background\"\nhandles = {{ lock = \"engine lock: acquire\" }}\n"
        )
    };
    assert!(Manifest::parse(Path::new("m.toml"), &text(32)).is_ok());
    let error = Manifest::parse(Path::new("m.toml"), &text(33)).unwrap_err().to_string();
    assert_eq!(error, "m.toml:10: engine `lock` has more than 32 users");
}

#[test]
fn reservations_make_sense() {
    let stack = "budget = \"2ms\"\nstack = \"5000B\"";
    refused("budget = \"2ms\"", stack, "m.toml:18: stack of `client` is not a whole number of 4 KiB pages");
}

#[test]
fn memory_is_given_out_once() {
    let overlap = "m.toml:52: region `uart` overlaps";
    refused("0x0900_0000", "0x4100_0000", &format!("{overlap} the board's RAM, which is given out by the packer"));
    refused("0x0900_0000", "0x0809_0000", &format!("{overlap} the page through which the accelerator is kicked"));
    let owned = |at: &str, device: &str| {
        let why = "which is the kernel's alone: a task with it could do anything";
        refused("0x0900_0000", at, &format!("m.toml:52: region `uart` would give away {device}, {why}"));
    };
    owned("0x0800_0000", "the interrupt distributor");
    owned("0x0800_f000", "the interrupt distributor");
    owned("0x0808_0000", "the interrupt translation service");
    owned("0x080a_0000", "the interrupt redistributors");
    owned("0x08ff_f000", "the interrupt redistributors");
    let twin = "[regions.twin]\nphysical = 0x0900_0000\nbytes = \"8KiB\"\n\n[regions.uart]";
    refused("[regions.uart]", twin, "m.toml:56: region `uart` overlaps region `twin`");
}

#[test]
fn interrupts_and_engines_have_one_place_each() {
    let twin = "[interrupts.twin]\nline = 72\nnotification = \"event\"\ncluster = \"left\"\n\n[interrupts.line]";
    refused("[interrupts.line]", twin, "m.toml:49: line of `line` is already taken by `twin`");
    let engine = |index, copies| format!("copy_engines = {copies}\n\n[engines.ee]\ndevice = \"gpu\"\nindex = {index}");
    let good = "memory = \"1MiB\"\n\n[engines.ee]\ndevice = \"gpu\"\nindex = 0";
    refused(good, &engine(1, 0), "m.toml:63: device `gpu` has only 1 engines");
    let one = format!("memory = \"1MiB\"\n{}", engine(2, 1));
    refused(good, &one, "m.toml:64: device `gpu` has only 2 engines");
    let ce = "[interrupts.other]\nline = 73\nnotification = \"event\"\ncluster = \"left\"\n[engines.ce]\ndevice = \
              \"gpu\"\nindex = 1\ninterrupt = \"other\"\n[engines.mutex]";
    refused(
        "[engines.mutex]",
        ce,
        "m.toml:73: device `gpu` raises one line; another of its engines names another interrupt",
    );
    let users =
        "[tasks.many]\ncopies = 7\nbinary = \"a/b\"\ncluster = \"left\"\nhandles.ee = \"engine ee: acquire\"\n\n";
    refused("[tasks.far]", &format!("{users}[tasks.far]"), "m.toml:33: device `gpu` has only 7 contexts for clients");
}

#[test]
fn devices_of_one_system_are_apart_and_their_distances_are_complete() {
    let device = |name: &str, driver: &str, firmware: &str| {
        let keys = format!("driver = \"{driver}\"\nfirmware = \"{firmware}\"\nmemory = \"4KiB\"");
        format!("[devices.{name}]\n{keys}\n\n")
    };
    // With a driver for several of them, and one that may not acknowledge their interrupts, these are not the only mistakes.
    let also = |place: &str, before: &str, expected: &str| {
        let error = parse(&GOOD.replacen(place, &format!("{before}{place}"), 1)).unwrap_err();
        assert!(error.lines().any(|line| line == expected), "{error}");
    };
    let many: String = (0..8).map(|number| device(&format!("d{number}"), "far", "engine-core")).collect();
    also("[devices.gpu]", &many, "m.toml:96: more than 8 devices");
    let second = device("other", "far", "engine-core")
        + "[engines.second]\ndevice = \"other\"\nindex = 0\ninterrupt = \"line\"\n\n";
    also("[engines.ee]", &second, "m.toml:74: interrupt of `ee` is already taken by `other`");

    let distance = |rows: &str| format!("cpus = 2\ndistance = {rows}");
    let square = "m.toml:5: distance needs a number for each pair of devices, 1 rows of 1";
    for rows in ["[]", "[[]]", "[[100, 100]]", "[[100], [100]]"] {
        refused("cpus = 2", &distance(rows), square);
    }
    for rows in ["[[99]]", "[[100001]]"] {
        let percent = "m.toml:5: a distance is a percentage from 100, which is near, to 100000";
        refused("cpus = 2", &distance(rows), percent);
    }
    parse(&GOOD.replacen("cpus = 2", &distance("[[250]]"), 1)).unwrap();
}

/// Two tasks that share an engine; keys of the first, of the second, and of the system.
fn sharing(first: &str, second: &str, system: &str) -> Result<Manifest, String> {
    parse(&format!(
        r#"[system]
name = "sharing"
board = "virt"
cpus = 1
{system}
[tasks.first]
script = ["acquire ee", "burn 1ms", "release ee"]
period = "10ms"
budget = "3ms"
wcet = "1ms"
handles = {{ ee = "engine ee: acquire" }}
{first}
[tasks.second]
script = ["acquire ee", "burn 1ms", "release ee"]
period = "20ms"
budget = "2ms"
wcet = "1ms"
handles = {{ ee = "engine ee: acquire" }}
trusted = true
{second}
[engines.ee]
"#
    ))
}

#[test]
fn what_a_task_says_of_its_use_of_engines_makes_sense() {
    let refused = |first: &str, expected: &str| assert_eq!(sharing(first, "", "").err().as_deref(), Some(expected));
    refused(
        "uses.gpu = { cpu = \"1ms\" }",
        "m.toml:12: task `first` has no handle `gpu` to an engine, a pool, an endpoint or a notification",
    );
    refused("uses.ee = { times = 0, cpu = \"1ms\" }", "m.toml:12: number of uses of `first` is zero");
    refused("uses.ee = { times = 2 }", "m.toml:12: longest use of `first` is zero");
    refused(
        "uses.ee = { long = \"1ms\" }",
        "m.toml:12: unknown key `long`; there are `times`, `cpu`, `operation`, `operations`, `commands`, `awaits`, `block`, `within` and `with`",
    );
    let idle =
        "\n[tasks.idle]\nscript = [\"yield\"]\nhandles = { ee = \"engine ee: acquire\" }\nuses.ee = { times = 2 }";
    refused(idle, "m.toml:16: number of uses of `idle` means nothing together with a class other than real-time");
    assert!(sharing("uses.ee = { cpu = \"1ms\" }", "", "").is_ok());
}

#[test]
fn a_watchdog_has_whom_to_ask_and_bites_nobody_who_keeps_to_what_it_said() {
    let with = |keys: &str, expected: &str| refused("[engines.mutex]", &format!("{keys}\n[engines.mutex]"), expected);
    with("watchdog = \"0ns\"", "m.toml:66: watchdog of `ee` is zero");
    with("watchdog = \"1ms\"\nreset_bound = \"0ns\"", "m.toml:66: reset_bound of `ee` is zero");
    with(
        "watchdog = \"2000000000s\"",
        "m.toml:66: watchdog of `ee` (2000000000 s) is longer than any time may be, 2^56 ns (834 days)",
    );
    let said = GOOD.replace("[tasks.server]", "uses.ee = { operation = \"3ms\", cpu = \"1ms\" }\n[tasks.server]");
    let short = said.replace("[engines.mutex]", "watchdog = \"3999us\"\n[engines.mutex]");
    let expected = "m.toml:67: watchdog of `ee` (3999 us) is shorter than `client` may hold it (4 ms)";
    assert_eq!(parse(&short).err().as_deref(), Some(expected));
    let silent = |text: &str| text.replace("handles.line = \"interrupt line: acknowledge\"\n", "");
    let expected = "m.toml:61: watchdog of `ee` needs a driver that may acknowledge its interrupt";
    assert_eq!(parse(&silent(&said)).err().as_deref(), Some(expected));
    let bits = said.replace("line = 72", "line = 72\nbits = 0x1_0000_0000");
    let expected = "m.toml:63: watchdog of `ee` means nothing together with event bits of its interrupt from 32 on";
    assert_eq!(parse(&bits).err().as_deref(), Some(expected));

    let watchdog = |text: &str| {
        let manifest = parse(text).expect("a good manifest");
        let engine = &manifest.system.engines[0].1;
        (engine.watchdog, engine.reset_bound, engine.reset_bits)
    };
    // No task says anything; the client does; the server says less.
    // Its client does not say how long it holds it.
    assert_eq!(watchdog(GOOD), (1_000_000_000, 1_000_000_000, 1 << 32));
    let client = &parse(GOOD).expect("a good manifest").system.reservations[0];
    let usual = client.period.max(client.deadline) + 3 * 4_000_000;
    assert_eq!(watchdog(&said), (usual, usual.max(10_000_000), 1 << 32));
    let given = said.replace("[engines.mutex]", "watchdog = \"4ms\"\nreset_bound = \"1ms\"\n[engines.mutex]");
    assert_eq!(watchdog(&given), (4_000_000, 1_000_000, 1 << 32));
}

#[test]
fn a_token_has_a_watchdog_that_leaves_alone_what_keeps_to_what_it_said() {
    let pool =
        |pool: &str, uses: &str| {
            let text = GOOD.replace("handles.ee = ", "handles.gpu = \"pool gpu: acquire\"\nhandles.ee = ");
            let text = text.replace("[tasks.server]", &format!("{uses}\n[tasks.server]"));
            parse(&text.replace(
                "[engines.ee]",
                &format!("[pools.gpu]\nreplicas = 1\ncluster = \"left\"\n{pool}\n[engines.ee]"),
            ))
        };
    let watchdog = |keys: &str, uses: &str| pool(keys, uses).map(|manifest| manifest.system.pools[0].1.watchdog);
    // The client says nothing; it says how long; the manifest says when.
    assert_eq!(watchdog("", ""), Ok(0));
    let uses = "uses.gpu = { cpu = \"1ms\" }\nuses.ee = { times = 2, operation = \"500us\", within = \"gpu\" }";
    assert_eq!(watchdog("", uses), Ok(10_000_000 + 3 * 2_000_000));
    assert_eq!(watchdog("watchdog = \"2ms\"", uses), Ok(2_000_000));
    let refused = |keys: &str, expected: &str| assert_eq!(watchdog(keys, uses).err().as_deref(), Some(expected));
    let short = "m.toml:67: watchdog of `gpu` (1999999 ns) is shorter than `client` may hold it (2 ms)";
    refused("watchdog = \"1999999ns\"", short);
    refused("watchdog = \"0ns\"", "m.toml:67: watchdog of `gpu` is zero");
}

#[test]
fn a_boost_has_a_period_that_is_no_shorter_than_the_service() {
    let with = |keys: &str, expected: &str| {
        refused("[endpoints.service]", &format!("[endpoints.service]\n{keys}"), expected);
    };
    with("service_period = \"1ms\"", "m.toml:38: service_period of `service` needs a service_max");
    with("service_period = \"0ns\"", "m.toml:38: service_period of `service` needs a service_max");
    with(
        "service_max = \"2ms\"\nservice_period = \"1ms\"",
        "m.toml:39: service_period of `service` (1 ms) is shorter than its service_max (2 ms)",
    );
    let text =
        GOOD.replace("[endpoints.service]", "[endpoints.service]\nservice_max = \"2ms\"\nservice_period = \"9ms\"");
    let endpoint = parse(&text).unwrap().system.endpoints[0].1;
    assert_eq!((endpoint.service_max, endpoint.service_period), (2_000_000, 9_000_000));
}

#[test]
fn a_job_may_be_suspended_for_what_it_says_and_for_its_operations() {
    let suspension = |keys: &str| {
        let text = GOOD.replace("[tasks.server]", &format!("{keys}\n[tasks.server]"));
        parse(&text).map(|manifest| manifest.system.reservations[0].suspension)
    };
    assert_eq!(suspension(""), Ok(0));
    assert_eq!(suspension("suspends = \"3ms\""), Ok(3_000_000));
    let both = "suspends = \"3ms\"\nuses.ee = { times = 2, cpu = \"1ms\", operation = \"500us\" }";
    assert_eq!(suspension(both), Ok(4_000_000));
}

#[test]
fn a_task_releases_early_by_permission_and_only_where_keys_are_deadlines() {
    let may = |policy: &str, keys: &str, admission: &str| {
        let text = GOOD.replace("[clusters.left]", &format!("[clusters.left]\npolicy = \"{policy}\""));
        let text = text.replace("admission = \"refuse\"", &format!("admission = \"{admission}\""));
        parse(&text.replace("[tasks.server]", &format!("{keys}\n[tasks.server]")))
    };
    let permission =
        |keys: &str| may("EDF", keys, "refuse").map(|manifest| manifest.system.reservations[0].early_release);
    assert_eq!(permission(""), Ok(0));
    assert_eq!(permission("early_release = false"), Ok(0));
    assert_eq!(permission("early_release = true"), Ok(1));
    assert_eq!(permission("overrun = \"early-release\""), Ok(1));
    let why = "`client` may not release early: keys of cluster `left` do not depend on deadlines, so nothing would bound how \
               many budgets it takes; that takes EDF or FL";
    for policy in ["RM", "DM"] {
        for keys in ["early_release = true", "overrun = \"early-release\""] {
            let refused = may(policy, keys, "refuse").err();
            assert_eq!(refused, Some(format!("m.toml:23: {why}")));
            let refused = may(policy, keys, "warn").err();
            assert_eq!(refused, Some(format!("m.toml:23: {why}")));
        }
    }
    assert_eq!(may("FL", "early_release = true", "refuse").map(|manifest| manifest.system.warnings), Ok(vec![]));
}

#[test]
fn a_system_that_waits_too_long_for_an_engine_is_refused_with_the_engine_and_the_longest_term() {
    let refused = |first: &str, second: &str, expected: &str| {
        let [first, second] = [first, second].map(|used| format!("uses.ee = {used}"));
        assert_eq!(sharing(&first, &second, "").err().as_deref(), Some(expected));
        let warned = sharing(&first, &second, "admission = \"warn\"").unwrap().system.warnings;
        assert!(expected.ends_with(&warned[0]), "{warned:?}");
    };
    refused(
        "{ times = 2, cpu = \"1ms\", operation = \"2ms\" }",
        "{ times = 3, operation = \"3ms\" }",
        "m.toml:21: the real-time tasks hold engine `ee` for 105.0% of its time, of which `first` has 60.0%",
    );
    refused(
        "{ cpu = \"1ms\" }",
        "{ operation = \"8ms\" }",
        "m.toml:6: task `first` needs more than its period (10 ms): 3.000 ms of budget, 0.000 ms of operations, \
         8.000 ms of blocking, first ee by second",
    );
    refused(
        "{ cpu = \"1ms\" }",
        "{ operation = \"6ms\" }",
        "m.toml:4: the real-time tasks of cluster `all` need 135.0% of 1 CPU, waiting included: 6.000 ms for first, first \
         ee by second",
    );
    refused(
        "{ cpu = \"1ms\" }",
        "{ times = 1, cpu = \"3ms\" }",
        "m.toml:6: budget of `first` (3 ms) is too small for its wcet (1 ms) and what others may take \
         from it while it waits (3 ms)",
    );
    let hard = sharing(
        "uses.ee = { cpu = \"1ms\" }\nhard = true\ndeadline = \"4ms\"",
        "uses.ee = { cpu = \"1ms\", operation = \"3ms\" }",
        "",
    );
    assert_eq!(
        hard.err().as_deref(),
        Some(
            "m.toml:13: task `first` is hard, but not proved: its bound is later than its deadline (3.000 ms late, mostly \
             blocking, first ee by second)"
        )
    );
}

#[test]
fn hard_tasks_beside_users_of_engines_need_to_know_for_how_long() {
    let expected = "m.toml:13: task `first` is hard, but not proved: not all that it waits for is counted: waiting for \
                    engine `ee` is not bounded: `second` does not say how long it uses engine `ee`";
    let first = "uses.ee = { cpu = \"1ms\" }\nhard = true";
    assert_eq!(sharing(first, "", "").err().as_deref(), Some(expected));
    assert!(sharing(first, "uses.ee = { cpu = \"1ms\" }", "").is_ok());
    // No task is hard: nothing is refused, and nothing claimed.
    assert!(sharing("", "", "").unwrap().system.warnings.is_empty());
}

#[test]
fn a_pool_is_shared_by_tasks_of_one_cluster_that_have_budgets() {
    let tokens = |keys: &str| format!("[pools.tokens]\ncluster = \"left\"\n{keys}\n[engines.mutex]");
    let pool = |keys: &str, expected: &str| refused("[engines.mutex]", &tokens(keys), expected);
    pool("replicas = 0", "m.toml:68: replicas of `tokens` is not from 1 to 12");
    pool("replicas = 13", "m.toml:68: replicas of `tokens` is not from 1 to 12");
    pool("replicas = 2\nlimit = 0", "m.toml:69: limit of `tokens` is not from 1 to 20");
    pool("replicas = 2\nlimit = \"none\"", "m.toml:69: a limit is a number, \"r2dglp\", \"unlimited\" or \"ck-omlp\"");
    // Two queues of three requests each.
    let together = |number: u32| format!("replicas = 2\nlimit = 3\ntotal_limit = {number}");
    assert_eq!(parse(&GOOD.replacen("[engines.mutex]", &tokens(&together(6)), 1)).err(), None);
    for number in [0, 7] {
        pool(&together(number), "m.toml:70: total_limit of `tokens` is not from 1 to 6");
    }
    pool(
        "replicas = 2\nlimit = \"unlimited\"\ntotal_limit = 3",
        "m.toml:70: total_limit of `tokens` needs a limit for each queue: a number, or \"r2dglp\"",
    );
    let used = |by: &str| {
        let text = GOOD.replacen("[engines.mutex]", &tokens("replicas = 2"), 1);
        let pool = format!("{by}\nhandles.tokens = \"pool tokens: acquire\"\n");
        parse(&text.replacen(by, &pool, 1)).err()
    };
    assert_eq!(used("handles.ee = \"engine ee: acquire\""), None);
    assert_eq!(
        used("parameters.size = 7").as_deref(),
        Some("m.toml:28: pool of `server` needs a budget, or the class background")
    );
    assert_eq!(
        used("handles.event = \"notification event: signal wait\"").as_deref(),
        Some(
            "m.toml:36: pool `tokens` is for tasks of cluster `left`, and `far` is of another: that takes `limit = \
             \"ck-omlp\"`"
        )
    );
    let three = "[pools.one]\nreplicas = 1\ncluster = \"left\"\n[pools.two]\nreplicas = 1\ncluster = \"left\"\n";
    let text = GOOD.replacen("[engines.mutex]", &format!("{three}{}", tokens("replicas = 2")), 1);
    let ee = "handles.ee = \"engine ee: acquire\"";
    let all = ["one", "two", "tokens"].map(|pool| format!("handles.{pool} = \"pool {pool}: acquire\"")).join("\n");
    let error = parse(&text.replacen(ee, &format!("{ee}\n{all}"), 1)).err();
    assert!(error.is_some_and(|error| error.ends_with("task `client` has more than 2 pools")));
}

#[test]
fn a_pool_is_advised_about_devices_there_are_by_lengths_that_are_known() {
    let tokens = |keys: &str| format!("[pools.tokens]\nreplicas = 3\ncluster = \"left\"\n{keys}\n[engines.mutex]");
    let pool = |keys: &str, expected: &str| refused("[engines.mutex]", &tokens(keys), expected);
    pool("devices = [\"dsp\"]", "m.toml:69: no device is called `dsp`; there is `gpu`");
    pool("devices = []", "m.toml:69: devices of `tokens` needs as many replicas for each");
    pool("devices = [\"gpu\", \"gpu\"]", "m.toml:69: device of `gpu` is already taken by `tokens`");
    let used = |keys: &str, uses: &str| {
        let text = GOOD.replacen("[engines.mutex]", &tokens(keys), 1);
        let ee = "handles.ee = \"engine ee: acquire\"";
        parse(&text.replacen(ee, &format!("{ee}\nhandles.tokens = \"pool tokens: acquire\"\n{uses}"), 1)).err()
    };
    let silent = "`client` does not say in its `uses` how long it has a token of `tokens`, which goes by that";
    for keys in ["devices = [\"gpu\"]\nadvice = \"affinity\"", "shortest = \"lengths\""] {
        assert_eq!(used(keys, "").map(|error| error.ends_with(silent)), Some(true), "{keys}");
        assert_eq!(used(keys, "uses.tokens = { cpu = \"10us\" }"), None);
    }
    assert_eq!(used("devices = [\"gpu\"]\nadvice = \"random\"", ""), None);
    let many = |count: usize| {
        let pool = |number| format!("[pools.p{number}]\ncluster = \"left\"\nreplicas = 1\nadvice = \"random\"\n");
        let pools: String = (0..count).map(pool).collect();
        parse(&GOOD.replacen("[engines.mutex]", &format!("{pools}[engines.mutex]"), 1)).err()
    };
    assert_eq!(many(4), None);
    assert_eq!(many(5).as_deref(), Some("m.toml:85: more than 4 advised pools"));
}

#[test]
fn a_budget_is_longer_where_paths_are() {
    let few = ("budget = \"2ms\"", "budget = \"90us\"");
    let text = GOOD.replacen(few.0, few.1, 1);
    assert_eq!(parse(&text).err(), None);
    let advised = "[pools.tokens]\ncluster = \"left\"\nreplicas = 3\nadvice = \"random\"\n[engines.mutex]";
    let error = parse(&text.replacen("[engines.mutex]", advised, 1)).err();
    assert!(error.is_some_and(|error| error.ends_with(
        "(90 us) is too small to be enforced: at least 120 us, four times the longest path through the kernel"
    )));
}

#[test]
fn a_group_of_engines_has_one_order_one_cluster_and_few_tasks() {
    let grouped = GOOD.replacen("[engines.mutex]", "[engines.mutex]\ngroup = \"g\"\n[engines.other]\ngroup = \"g\"", 1);
    let changed = |from: &str, to: &str| parse(&grouped.replacen(from, to, 1)).err();
    assert_eq!(changed("", ""), None);
    let orders = changed("group = \"g\"", "group = \"g\"\norder = \"fifo\"");
    assert_eq!(orders.as_deref(), Some("m.toml:70: the engines of group `g` must have the same `order`"));
    let ee = "handles.ee = \"engine ee: acquire\"";
    let two = grouped.replacen(ee, &format!("{ee}\nhandles.m = \"engine mutex: acquire\""), 1);
    let far = "handles.event = \"notification event: signal wait\"";
    let error = parse(&two.replacen(far, &format!("handles.o = \"engine other: acquire\"\n{far}"), 1)).err();
    assert!(
        error.is_some_and(|error| error.contains("engine `other` is used from two clusters, by `client` and `far`"))
    );
    let many =
        "[tasks.many]\ncopies = 21\nbinary = \"a/b\"\ncluster = \"left\"\nhandles.o = \"engine other: acquire\"\n";
    let crowd = changed("[tasks.far]", &format!("{many}\n[tasks.far]"));
    assert_eq!(crowd.as_deref(), Some("m.toml:33: group of engine `other` has more than 20 users"));
    let five = (1..=5).map(|one| format!("[engines.e{one}]\ngroup = \"g{one}\"\n")).collect::<String>();
    let error = changed("[engines.mutex]", &format!("{five}[engines.mutex]"));
    assert!(error.is_some_and(|error| error.ends_with("more than 4 groups of engines")));
}

#[test]
fn clusters_share_a_pool_for_jobs_and_its_engines_take_a_token() {
    let shared = "[pools.tokens]\nreplicas = 1\nlimit = \"ck-omlp\"\n\n[engines.mutex]\npool = \"tokens\"";
    let text = GOOD.replacen("[engines.mutex]", shared, 1);
    let changed = |from: &str, to: &str| parse(&text.replacen(from, to, 1)).err();
    assert_eq!(changed("", ""), None);
    let of_one = changed("replicas = 1", "replicas = 1\ncluster = \"left\"");
    assert_eq!(of_one.as_deref(), Some("m.toml:68: pool `tokens` is shared by clusters, and is of none"));
    let ee = "handles.ee = \"engine ee: acquire\"";
    let lacks = changed(ee, &format!("{ee}\nhandles.m = \"engine mutex: acquire\""));
    assert!(lacks.is_some_and(|error| {
        error.ends_with("engine `mutex` takes a token of pool `tokens`, which `client` does not use")
    }));
    let server = "parameters.size = 7";
    let jobless = changed(server, &format!("{server}\nhandles.tokens = \"pool tokens: acquire\""));
    assert!(jobless.is_some_and(|error| error.contains("pool of `server` needs")));
}

#[test]
fn what_cannot_be_scheduled_is_refused_or_reported() {
    let twin = "[tasks.twin]\nbinary = \"a/b\"\ncluster = \"left\"\nperiod = \"10ms\"\nbudget = \"9ms\"\n\n[tasks.far]";
    refused("[tasks.far]", twin, "m.toml:7: the real-time tasks of cluster `left` need 110.0% of 1 CPU");
    let hard = "[tasks.twin]\nbinary = \"a/b\"\ncluster = \"left\"\nperiod = \"10ms\"\nbudget = \"4ms\"\ndeadline = \
                \"5ms\"\ncopies = 2\nhard = true\n\n[tasks.far]";
    refused(
        "[tasks.far]",
        hard,
        "m.toml:36: task `twin1` is hard, but not proved: some run misses its deadline (3.000 ms late, mostly others, \
         first twin2)",
    );
    let alone = GOOD.replacen("handles.ee = \"engine ee: acquire\"", "", 1);
    parse(&alone.replacen("[tasks.far]", &hard.replace("copies = 2\n", ""), 1)).unwrap();
    let warned = parse(&GOOD.replace("refuse", "warn").replacen("[tasks.far]", twin, 1)).unwrap();
    assert_eq!(warned.system.warnings, ["the real-time tasks of cluster `left` need 110.0% of 1 CPU"]);
    let full = twin.replace("9ms", "8ms");
    parse(&GOOD.replacen("[tasks.far]", &full, 1)).unwrap();
}

//--- Programs

/// The mistakes of a system with this file as its client.
fn packed(client: Vec<u8>) -> Result<(), String> {
    let manifest = parse(GOOD)?;
    let good = elf(&[Segment(5, 0x20_0000, &[0; 8], 8)]);
    let firmware = elf(&[Segment(7, 0x4b00_0000, &[0; 8], 8)]);
    let mut binaries = Binaries::new();
    binaries.insert("apps/client".into(), client);
    binaries.insert("apps/server".into(), good.clone());
    binaries.insert("apps/scripted".into(), good);
    binaries.insert("engine-core".into(), firmware);
    let options = PackOptions { cpu_stride: 1, managed: None };
    manifest.pack(&binaries, options).map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn only_programs_that_can_be_mapped_are_packed() {
    let refuse = |client: Vec<u8>, why: &str| {
        assert_eq!(packed(client), Err(format!("m.toml:14: binary `apps/client` {why}")));
    };
    let text = Segment(5, 0x20_0000, &[0; 8], 8);
    assert_eq!(packed(elf(&[text])), Ok(()));
    refuse(b"#!/bin/sh\n".to_vec(), "is not a program for this machine: not a 64-bit ELF file");
    let mut foreign = elf(&[Segment(5, 0x20_0000, &[0; 8], 8)]);
    foreign[18] = 62;
    refuse(foreign, "is not a program for this machine: not for AArch64");
    let mut relocatable = elf(&[Segment(5, 0x20_0000, &[0; 8], 8)]);
    relocatable[16] = 3;
    refuse(relocatable, "is not a program for this machine: not linked at fixed addresses");
    refuse(elf(&[]), "is not a program for this machine: nothing to load");
    refuse(
        elf(&[Segment(5, 0x20_0000, &[0; 8], 4)]),
        "is not a program for this machine: a segment is longer than its memory",
    );
    let mut cut = elf(&[Segment(5, 0x20_0000, &[0; 8], 8)]);
    cut.truncate(4097);
    refuse(cut, "is not a program for this machine: a segment is cut off");
    refuse(elf(&[Segment(7, 0x20_0000, &[0; 8], 8)]), "has a segment at 0x200000 that is both writable and executable");
    for address in [0x20_0010, 0x1000, 0x6000_0000] {
        let expected = format!(
            "has a segment at {address:#x}, which is no page of its own between 2 MiB and 1.5 GiB: link it with \
             linker/task.ld"
        );
        refuse(elf(&[Segment(5, address, &[0; 8], 8)]), &expected);
    }
    refuse(
        elf(&[Segment(5, 0x20_0000, &[0; 8], 8192), Segment(6, 0x20_1000, &[0; 8], 8)]),
        "has a segment at 0x201000, which is no page of its own between 2 MiB and 1.5 GiB: link it with linker/task.ld",
    );
}

#[test]
fn a_program_for_another_version_of_the_kernel_is_refused() {
    let text = || Segment(5, 0x20_0000, &[0; 8], 8);
    let of = |abi, fusee| packed(elf_with(&[text()], Note::of(abi, fusee)));
    assert_eq!(of(VERSION, "9.9.9"), Ok(()), "the ABI counts, not the crate");
    let expected = format!(
        "m.toml:14: binary `apps/client` was built for version {} of the kernel's ABI, with fusee 0.0.9; this kernel has version \
         {VERSION}, with fusee 0.1.0: build both from one revision",
        VERSION + 1
    );
    assert_eq!(of(VERSION + 1, "0.0.9"), Err(expected));
    let mut without = elf(&[text()]);
    // The number of its sections.
    without[60] = 0;
    let error = packed(without).unwrap_err();
    assert!(error.starts_with("m.toml:14: binary `apps/client` does not say which version of the kernel"), "{error}");
}

#[test]
fn a_program_may_be_named_by_its_path() {
    let text = GOOD.replacen("binary = \"apps/client\"", "elf = \"built/apps/server\"", 1);
    let manifest = parse(&text).unwrap();
    let elves: Vec<_> = manifest.system.tasks.iter().map(|task| task.elf()).collect();
    assert_eq!(elves, [Some(Path::new("./built/apps/server")), None, None]);
    let error = manifest.pack(&Binaries::new(), PackOptions { cpu_stride: 1, managed: None }).unwrap_err();
    assert_eq!(error.to_string(), "m.toml:14: binary `./built/apps/server` was not built");
}

#[test]
fn a_program_that_was_not_built_is_named() {
    let manifest = parse(GOOD).unwrap();
    let options = PackOptions { cpu_stride: 1, managed: None };
    let error = manifest.pack(&Binaries::new(), options).unwrap_err();
    assert_eq!(error.to_string(), "m.toml:14: binary `apps/client` was not built");
}

#[test]
fn no_more_handles_may_be_given_than_the_kernel_keeps_track_of() {
    let text = |per_task: usize| {
        let mut text =
            "[system]\nname = \"g\"\nboard = \"virt\"\ncpus = 1\nadmission = \"warn\"\n[notifications.n]\n".to_owned();
        for task in 0..16 {
            let _ = write!(text, "[tasks.t{task}]\nclass = \"background\"\nscript = [\"burn 1ms\"]\n");
            (0..per_task).for_each(|handle| {
                let _ = writeln!(text, "handles.h{handle} = \"notification n: signal grant\"");
            });
        }
        Manifest::parse(Path::new("m.toml"), &text).err().map(|error| error.to_string())
    };
    assert_eq!(text(16), None);
    // The first that is too many is the second of the last task.
    assert_eq!(text(17).as_deref(), Some("m.toml:311: more than 256 handles with the right `grant`"));
}

#[test]
fn a_mutex_has_no_interrupt() {
    let text = "[system]\nname = \"x\"\nboard = \"virt\"\ncpus = 1\n[tasks.a]\nscript = [\"wait n\"]\nclass = \"background\"\n\
                handles = { n = \"notification n: wait\" }\n[notifications.n]\n[interrupts.i]\nline = 112\nnotification = \"n\"\n\
                [engines.m]\ninterrupt = \"i\"\n";
    assert_eq!(parse(text).err().as_deref(), Some("m.toml:14: interrupt of `m` needs a device"));
}

#[test]
fn no_more_releases_queue_than_the_kernel_has_places() {
    let text = |backlog: usize| {
        let head = "[system]\nname = \"g\"\nboard = \"virt\"\ncpus = 1\n[tasks.t]\nscript = [\"burn 1us\"]\nrelease = \"sporadic\"\n";
        let task = format!("period = \"1s\"\nbudget = \"50us\"\ncopies = 16\nbacklog = {backlog}\n");
        Manifest::parse(Path::new("m.toml"), &(head.to_owned() + &task)).err().map(|error| error.to_string())
    };
    assert_eq!(text(128), None);
    let expected = "m.toml:11: more than 2048 queued releases, as the `backlog` of sporadic tasks is in sum";
    assert_eq!(text(129).as_deref(), Some(expected));
}

#![allow(missing_docs)]
//! Short forms have the meaning of their long forms: equal bytes for the kernel.

use std::path::Path;

use fusee_manifest::{Manifest, PackOptions};

/// A system with two GPUs, by short forms.
const SHORT: &str = include_str!("short.toml");

/// The same system, written out.
const LONG: &str = include_str!("long.toml");

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("m.toml"), text).map_err(|error| error.to_string())
}

/// The packed system of a manifest, without programs.
fn packed(manifest: &Manifest) -> Vec<u8> {
    manifest.pack_tables(PackOptions { cpu_stride: 1, managed: None }).unwrap().bytes().to_vec()
}

fn pack(text: &str) -> Vec<u8> {
    packed(&parse(text).unwrap_or_else(|error| panic!("{error}\n{text}")))
}

fn expanded(text: &str) -> String {
    Manifest::expanded(Path::new("m.toml"), text).unwrap()
}

#[test]
fn short_forms_have_the_bytes_of_what_is_written_out() {
    assert!(pack(SHORT) == pack(LONG));
    // So are the names, which no packed system has.
    assert_eq!(expanded(SHORT), expanded(LONG));
}

#[test]
fn what_is_printed_is_long_and_means_the_same() {
    let path = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    for name in [
        "userland/demo/demo.toml",
        "userland/demo/shared.toml",
        "userland/demo/spatial.toml",
        "userland/vision/stabilise.toml",
        "docs/examples/tokens.toml",
        "tests/bench/bench.toml",
        "tests/conformance/several_gpus_work_at_once_each_with_its_own_driver.toml",
        "tests/target/two_gpus_work_in_parallel_and_copy_from_each_other.toml",
        "tests/target/groups_have_their_shares_and_divide_them_among_their_clients.toml",
        "tests/target/the_demos_vibration_is_found_on_a_cortex_r5f_with_copies_by_dma.toml",
    ] {
        let path = path(name);
        let short = Manifest::read(&path).unwrap();
        let text = Manifest::expanded(&path, &short.text).unwrap();
        let long = Manifest::parse(&path, &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(packed(&short) == packed(&long), "{name}");
        assert_eq!(format!("{:?}", short.expectations), format!("{:?}", long.expectations), "{name}");
        let table: toml::Table = text.parse().unwrap();
        let all = |kind: &str| table.get(kind).and_then(toml::Value::as_table).cloned().unwrap_or_default();
        assert!(all("devices").values().all(|device| device.get("driver").is_some()), "{name}");
        assert!(all("tasks").values().all(|task| task.get("like").is_none()), "{name}");
        assert!(!all("system").contains_key("end"), "{name}");
        assert_eq!(Manifest::expanded(&path, &text).unwrap(), text, "{name}");
    }
}

/// A GPU with one client.
const GPU: &str = "[system]\nname = \"m\"\nboard = \"virt\"\ncpus = 1\n\
    [tasks.user]\nscript = [\"burn 1ms\"]\nperiod = \"10ms\"\nbudget = \"2ms\"\n\
    handles = { ee = \"engine ee: acquire\", buffer = \"region share: read write\" }\n\
    [devices.gpu]\n[regions.share]\nbytes = \"4KiB\"\n";

#[test]
fn a_device_alone_has_an_execution_engine_and_a_driver() {
    let system = parse(GPU).unwrap().system;
    let names: Vec<&str> = system.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["user", "gpu"]);
    assert_eq!(system.engines.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["ee"]);
    assert_eq!((system.devices[0].line, system.devices[0].memory_bytes), (112, 0));
    let entries: Vec<&str> = system.tasks[1].environment.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(entries[..4], ["line", "event", "tables", "buffer.user"]);
}

#[test]
fn what_is_written_out_wins() {
    let interrupt = "[notifications.mine]\n[interrupts.gpu]\nline = 114\nnotification = \"mine\"\nedge = true\n";
    let system = parse(&(GPU.to_owned() + interrupt)).unwrap().system;
    assert_eq!((system.devices[0].line, system.notifications[0].0.as_str()), (114, "mine"));

    let handles = "[interrupts.own]\nline = 113\nnotification = \"own\"\nedge = true\n[notifications.own]\n\
                   [regions.own]\nbytes = \"64KiB\"\n[tasks.gpu.handles]\nline = \"interrupt own: acknowledge\"\n\
                   event = \"notification own: wait\"\ntables = \"region own: read write physical\"\n";
    let system = parse(&(GPU.to_owned() + handles)).unwrap().system;
    assert_eq!((system.devices[0].line, system.interrupts.len(), system.notifications[0].0.as_str()), (113, 1, "own"));
    assert!(!system.regions.iter().any(|(name, _)| name == "gpu_tables"));

    let tables = "[regions.gpu_tables]\nbytes = \"64KiB\"\n";
    let system = parse(&(GPU.to_owned() + tables)).unwrap().system;
    let of = |name: &str| system.regions.iter().find(|(one, _)| one == name).unwrap().1.bytes;
    assert_eq!(of("gpu_tables"), 64 << 10);

    // A driver with a period of its own has the class of tasks with a period.
    let driver = "[tasks.gpu]\nperiod = \"5ms\"\nbudget = \"1ms\"\n";
    let system = parse(&(GPU.to_owned() + driver)).unwrap().system;
    let class = |task: usize| system.reservations[system.tasks[task].reservation.unwrap()].class;
    assert_eq!(class(1), class(0));

    // Memory is for copy engines, which need no names; with names, there are as many.
    let copies = |keys: &str| {
        let text = GPU.replace("[devices.gpu]\n", &format!("[devices.gpu]\n{keys}\n"));
        parse(&text).unwrap().system.devices[0].copy_engines.engines()
    };
    assert_eq!(copies("memory = \"64KiB\""), 3);
    assert_eq!(copies("memory = \"64KiB\"\nengines = [\"ee\", \"copy\"]"), 2);

    for contexts in [5, 16] {
        let text = GPU.replace("[devices.gpu]\n", &format!("[devices.gpu]\ncontexts = {contexts}\n"));
        assert_eq!(parse(&text).unwrap().system.devices[0].size.number(), contexts);
    }

    let index = "[engines.lone]\ndevice = \"gpu\"\nindex = 0\n";
    let text = GPU.replace("engine ee", "engine lone") + index;
    assert_eq!(parse(&text).unwrap().system.engines.len(), 1);
}

#[test]
fn a_task_may_be_like_one_that_is_like_another() {
    let more = "[tasks.third]\nlike = \"fourth\"\nstack = \"4KiB\"\nhandles.buffer = \"region third: read\"\n[tasks.fourth]\nlike = \"user\"\nhandles.buffer = \"region other: read\"\n\
                binary = \"apps/x\"\n[regions.other]\nbytes = \"4KiB\"\n[regions.third]\nbytes = \"4KiB\"\n[tasks.crowd]\nlike = \"many\"\n[tasks.many]\ncopies = 2\nclass = \"background\"\n\
                script = [\"burn 1ms\"]\n";
    let system = parse(&(GPU.to_owned() + more)).unwrap().system;
    let task = |name: &str| system.tasks.iter().find(|task| task.name == name).unwrap();
    assert_eq!((task("third").binary.as_str(), task("third").stack, task("third").script.len()), ("apps/x", 4096, 0));
    assert_eq!((task("fourth").binary.as_str(), task("fourth").script.len()), ("apps/x", 0));
    let entries =
        |name: &str| task(name).environment.iter().map(|entry| entry.name.clone()).take(2).collect::<Vec<_>>();
    assert_eq!(entries("third"), entries("user"));
    let of = |name: &str| system.tasks.iter().filter(|task| task.name.starts_with(name)).count();
    assert_eq!((of("crowd"), of("many")), (1, 2));
}

#[test]
fn mistakes_in_short_forms_have_their_places() {
    let refused = |from: &str, to: &str, expected: &str| {
        assert!(GPU.contains(from), "{from}");
        assert_eq!(parse(&GPU.replacen(from, to, 1)).map(drop).unwrap_err(), expected);
    };
    let task = "[devices.gpu]";
    let before = |more: &str| format!("{more}\n{task}");
    refused(task, &before("[tasks.a]\nlike = \"usr\""), "m.toml:11: no task is called `usr`; did you mean `user`?");
    refused(task, &before("[tasks.a]\nlike = \"gpu\""), "m.toml:11: no task is called `gpu`; there are `user` and `a`");
    let circle = "task `a` is like itself: at the end of each chain of `like` is a task without that key";
    refused(task, &before("[tasks.a]\nlike = \"a\""), &format!("m.toml:11: {circle}"));
    refused(task, &before("[tasks.a]\nlike = \"b\"\n[tasks.b]\nlike = \"a\""), &format!("m.toml:13: {circle}"));
    let like = "[tasks.a]\nlike = \"user\"\nhandles.buffer = \"region no: read\"\n[tasks.b]\nlike = \"a\"";
    refused(task, &before(like), "m.toml:12: no region is called `no`; there are `gpu_tables` and `share`");

    let system = "cpus = 1\n";
    refused(
        system,
        "cpus = 1\nend = \"soon\"\n",
        "m.toml:5: invalid value: string \"soon\", expected a time with its unit, such as \"10ms\" (ns, us, ms, s)",
    );
    refused(
        system,
        "cpus = 1\nend = 7\n",
        "m.toml:5: invalid type: integer `7`, expected a time with its unit, such as \"10ms\" (ns, us, ms, s), or { after = \"10ms\", cluster = \"NAME\" }",
    );
    refused(system, "cpus = 1\nend = {}\n", "m.toml:5: key `after` is missing in this table");
    refused(
        system,
        "cpus = 1\nend = { after = \"1ms\", cluster = \"up\" }\n",
        "m.toml:5: no cluster is called `up`; there is none",
    );
    refused(
        system,
        "cpus = 1\nend = { after = \"1ms\", deadline = \"1ms\" }\n",
        "m.toml:5: deadline of `end` means nothing together with a class other than real-time",
    );
    let text = GPU.replace(system, "cpus = 1\nend = \"1ms\"\n") + "[tasks.end]\nscript = [\"burn 1ms\"]\n";
    assert_eq!(parse(&text).map(drop).unwrap_err(), "m.toml:5: a second task is called `end`");

    let own = "needs a driver of its own: leave `driver` and `device` out";
    refused(
        task,
        "[devices.gpu]\ndriver = \"user\"\nengines = [\"ee\"]",
        &format!("m.toml:12: engines of `gpu` {own}"),
    );
    refused(
        task,
        "[devices.gpu]\ndriver = \"user\"\nbuffers = { user = \"share\" }",
        &format!("m.toml:12: buffers of `gpu` {own}"),
    );
    refused(
        task,
        "[devices.gpu]\ndevice = \"crypto0\"",
        "m.toml:9: no engine is called `ee`; there is none\nm.toml:10: key `driver` is missing in this table\n2 mistakes",
    );
    refused(
        task,
        "[devices.gpu]\nbuffers = { usr = \"share\" }",
        "m.toml:11: no client of this device is called `usr`; did you mean `user`?",
    );
    refused(
        task,
        "[devices.gpu]\nbuffers = { user = \"shared\" }",
        "m.toml:11: no region is called `shared`; did you mean `share`?",
    );
    refused(
        task,
        "[devices.gpu]\nmemory = \"4KiB\"\nengines = [\"ee\", \"in\", \"out\", \"more\"]",
        "m.toml:12: copy_engines of `gpu` is not from 0 to 2",
    );
    refused(task, "[devices.gpu]\nengines = [\"ee\", \"in\"]", "m.toml:10: device of `gpu` needs memory");
    refused(
        task,
        "[devices.gpu]\nengines = []",
        "m.toml:9: no engine is called `ee`; there is none\nm.toml:10: device of `gpu` needs an engine with an interrupt above 31\n2 mistakes",
    );
    let more = "[devices.other]\n";
    assert_eq!(
        parse(&(GPU.to_owned() + more)).map(drop).unwrap_err(),
        "m.toml:13: device of `other` needs an engine with an interrupt above 31"
    );
}

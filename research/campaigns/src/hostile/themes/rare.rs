//! Keys that random values seldom fit: each stands here where it means something.

use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::{MICROSECOND, Theme, executes_on, give, insert, one_in, section, strangers, with_jobs};
use crate::hostile::tree::{is, names, nanoseconds, task, time};

const RECIPES: [Theme; 9] = [whole, engines, interrupts, memory, strange, jobs, wide, helper, pools];

/// Follows some of the recipes.
pub(super) fn add(tree: &mut Table, source: &mut Source) {
    for _ in 0..source.draw(1, 5) {
        source.pick(&RECIPES)(tree, source);
    }
}

/// Something of `all`, or nothing if there is nothing.
fn any<T: Clone>(all: &[T], source: &mut Source) -> Option<T> {
    (!all.is_empty()).then(|| all[source.draw(0, all.len() as u64 - 1) as usize].clone())
}

/// Keys of the whole system.
fn whole(tree: &mut Table, source: &mut Source) {
    let keys: [(&str, &[&str]); 4] = [
        ("panic", &["end", "halt", "reset"]),
        ("trace", &["off", "marks", "schedule", "full"]),
        ("policy", &["EDF", "FL", "RM", "DM", "FP"]),
        ("admission", &["refuse"]),
    ];
    let system = section(tree, "system");
    for (key, values) in keys {
        if one_in(source, 2) {
            insert(system, key, source.pick(values));
        }
    }
    if one_in(source, 3) {
        insert(system, "managed", one_in(source, 2));
    }
}

/// Keys of engines of devices.
fn engines(tree: &mut Table, source: &mut Source) {
    for name in names(tree, "engines") {
        let one = section(section(tree, "engines"), &name);
        let Some(device) = one.get("device").and_then(Value::as_str).map(str::to_owned) else { continue };
        if one_in(source, 2) {
            insert(one, "completion", nanoseconds(source.draw(1, 50) * MICROSECOND));
        }
        if one_in(source, 2) {
            insert(one, "hangs", one_in(source, 2));
            insert(one, "watchdog", nanoseconds(source.draw(1, 4_000) * MICROSECOND));
            insert(one, "reset_bound", source.pick(&["10us", "100us", "1ms"]));
        }
        if !one.contains_key("arbiter") && one_in(source, 3) {
            insert(one, "arbiter", "lock");
        }
        let one = section(section(tree, "devices"), &device);
        if one_in(source, 3) {
            insert(one, "kernels", source.pick(&["vision-kernels", "wrong-kernels"]));
        }
        if one_in(source, 3) {
            let arbiter = source.pick(&["arrival", "round-robin", "weighted"]);
            insert(one, "arbiter", arbiter);
        }
    }
}

/// The set of bits that an interrupt signals.
fn interrupts(tree: &mut Table, source: &mut Source) {
    for name in names(tree, "interrupts") {
        insert(section(section(tree, "interrupts"), &name), "bits", source.pick(&[1_i64, 1, 2, 3, 1 << 40]));
    }
}

/// Memory at an address, of a device, and the kernel's trace.
fn memory(tree: &mut Table, source: &mut Source) {
    let readers = strangers(tree);
    for (name, rights) in [("fixed", "read"), ("registers", "read write"), ("records", "read")] {
        if one_in(source, 2) {
            continue;
        }
        let mut region = Table::new();
        match name {
            "fixed" => {
                insert(&mut region, "bytes", source.pick(&["4KiB", "16KiB"]));
                insert(&mut region, "physical", source.pick(&[0x0a00_0000, 0x0b00_0000]));
                insert(&mut region, "device", true);
            }
            "registers" => {
                own_devices(tree, source);
                insert(&mut region, "device", source.pick(&["rtc0", "gpio0", "uart1", "blk0", OWN[0], OWN[1], OWN[2]]));
            }
            _ => insert(&mut region, "trace", true),
        }
        insert(section(tree, "regions"), name, region);
        if let Some(reader) = any(&readers, source) {
            give(tree, &reader, name, format!("region {name}: {rights}"));
        }
    }
}

/// The names of devices that the manifest adds to its board, the last of which the board has.
const OWN: [&str; 5] = ["own0", "own1", "own2", "own3", "uart0"];
/// Their kinds.
const KINDS: [&str; 11] =
    ["pl011", "cadence", "r5f", "zdma", "virtio-mmio", "pl061", "pl031", "edu", "pci", "zynqmp-can", "other"];

/// Devices that the file of the board does not have; one in eight is where none can be, or has another mistake.
fn own_devices(tree: &mut Table, source: &mut Source) {
    for place in 0..source.draw(2, 4) {
        let is_wrong = one_in(source, 8);
        let mut device = Table::new();
        let kind = if one_in(source, 3) { "other" } else { source.pick(&KINDS) };
        insert(&mut device, "kind", kind);
        let at =
            if is_wrong { source.pick(&[0x0800_0000, 0x4000_0000, 12]) } else { 0x0a00_1000 + 0x1000 * place as i64 };
        insert(&mut device, "at", at);
        insert(&mut device, "bytes", source.pick(if is_wrong { &["0B", "1KiB"] } else { &["4KiB", "4KiB"] }));
        if one_in(source, 2) {
            insert(&mut device, "line", source.draw(u64::from(!is_wrong), 200) as i64);
        }
        if one_in(source, 3) {
            insert(&mut device, "stream", source.draw(0, if is_wrong { 70 } else { 63 }) as i64);
        }
        if kind == "other" || is_wrong {
            insert(&mut device, "masters_memory", one_in(source, 2));
        }
        if one_in(source, 2) {
            let qemu = section(&mut device, "qemu");
            insert(qemu, "arguments", vec![Value::from("-device"), "virtio-rng-device".into()]);
            if one_in(source, 2) {
                insert(qemu, "bytes", "4KiB");
            }
        }
        let name = if is_wrong { OWN[4] } else { OWN[place as usize] };
        insert(section(section(tree, "board"), "devices"), name, device);
    }
}

/// Keys of tasks of which nothing is expected.
fn strange(tree: &mut Table, source: &mut Source) {
    for name in strangers(tree) {
        let is_client = task(tree, &name).is_some_and(|one| one.contains_key("shares"));
        let Some(one) = task(tree, &name).filter(|_| one_in(source, 2)) else { continue };
        match source.draw(0, 5) {
            // Only a build reads the file.
            4 if one.remove("binary").is_some() => insert(one, "elf", "programs/anything"),
            0 if !is_client => insert(one, "copies", source.draw(1, 3) as i64),
            1 => insert(one, "model", vec![Value::from("burn 20us"), "yield".into()]),
            2 => insert(section(one, "parameters"), "speed", source.draw(0, 100) as i64),
            3 => insert(one, "stack", source.pick(&["4KiB", "16KiB", "64KiB"])),
            _ => {
                insert(one, "budget_covers", source.pick(&["cpu", "cpu+engines"]));
            }
        }
    }
}

/// Keys of jobs that stand for the usual.
fn jobs(tree: &mut Table, source: &mut Source) {
    for name in with_jobs(tree) {
        let Some(one) = task(tree, &name).filter(|_| one_in(source, 2)) else { continue };
        match source.draw(0, 4) {
            0 => insert(one, "class", "real-time"),
            1 if !one.contains_key("release") => insert(one, "release", "periodic"),
            2 => insert(one, "restart", "never"),
            3 if !is(one, "hard") => {
                insert(one, "overrun", "early-release");
                insert(one, "early_release", true);
                if let Some(Value::Array(script)) = one.get_mut("script") {
                    script.push("early_release".into());
                }
            }
            _ => insert(one, "priority", source.draw(1, 60) as i64),
        }
    }
}

/// A device with SMs, and how long blocks take there.
fn wide(tree: &mut Table, source: &mut Source) {
    for device in names(tree, "devices") {
        let one = section(section(tree, "devices"), &device);
        if !one.contains_key("sms") {
            ["switch", "preemptible"].iter().for_each(|key| _ = one.remove(*key));
            insert(one, "sms", source.pick(&[1, 2, 4]));
        }
        if one_in(source, 2) {
            let preemption = source.pick(&["switch", "drain", "drain-then-switch"]);
            insert(one, "preemption", preemption);
            one.remove("drain_limit");
            if preemption == "drain-then-switch" {
                insert(one, "drain_limit", source.pick(&["1us", "20us", "100us"]));
            }
        }
        let engines = names(tree, "engines");
        let executes = |name: &String| executes_on(tree, name).as_ref() == Some(&device);
        let Some(engine) = engines.into_iter().find(executes) else { continue };
        for name in names(tree, "tasks") {
            let Some(one) = task(tree, &name) else { continue };
            let used = one.get_mut("uses").and_then(|uses| uses.get_mut(&engine)?.as_table_mut());
            let Some((used, operation)) = used.and_then(|used| time(used, "operation").map(|time| (used, time))) else {
                continue;
            };
            insert(used, "commands", source.draw(1, 3) as i64);
            insert(used, "block", nanoseconds((operation / source.draw(1, 10)).max(1)));
        }
    }
}

/// A task in the background with steps of all kinds, on which no task relies.
fn helper(tree: &mut Table, source: &mut Source) {
    let mut one = Table::new();
    insert(&mut one, "cluster", "c0");
    insert(&mut one, "class", "background");
    let mut steps = Vec::new();
    let mut handles = Table::new();
    for _ in 0..source.draw(1, 5) {
        let all = ["notifications", "endpoints", "tasks", "engines"].map(|kind| (kind, names(tree, kind)));
        let mut on = |kind: &str, right: &str, source: &mut Source| {
            let of = any(&all.iter().find(|(all, _)| all.starts_with(kind))?.1, source)?;
            let handle = format!("{right}.{of}");
            insert(&mut handles, &handle, format!("{kind} {of}: {right}"));
            Some(handle)
        };
        let step = match source.draw(0, 11) {
            0 => on("notification", "signal", source).map(|of| format!("signal {of} {}", source.draw(1, 3))),
            1 => on("notification", "wait", source).map(|of| format!("wait {of}")),
            2 => on("endpoint", "send", source).map(|of| format!("send {of} {}us", source.draw(0, 50))),
            3 => on("endpoint", "call", source).map(|of| format!("call {of} {}us", source.draw(0, 50))),
            4 => on("task", "release_job", source).map(|of| format!("release_job {of}")),
            5 => on("task", "credit", source).map(|of| format!("credit {of} {}", source.draw(1, 3))),
            6 => any(&strangers(tree), source).map(|of| {
                // Only a task that is dormant may be started.
                task(tree, &of).into_iter().for_each(|one| insert(one, "dormant", true));
                insert(&mut handles, "begin", format!("task {of}: start"));
                "start begin".to_owned()
            }),
            7 => on("engine", "acquire", source).map(|of| format!("acquire {of}")),
            8 => Some("yield".to_owned()),
            9 => {
                let span = source.draw(10, 5_000);
                Some(format!("{} {span}us", if span.is_multiple_of(2) { "sleep" } else { "pause" }))
            }
            10 if one_in(source, 8) => {
                insert(&mut handles, "system", "system: shutdown");
                Some("shutdown".to_owned())
            }
            _ => Some(format!("burn {}us", source.draw(10, 2_000))),
        };
        steps.extend(step.map(Value::from));
        if steps.last().and_then(Value::as_str).is_some_and(|step| step.starts_with("acquire ")) {
            let engine = steps.last().and_then(Value::as_str).unwrap_or_default().replace("acquire ", "release ");
            steps.extend([Value::from("burn 20us"), engine.into()]);
        }
    }
    steps.push(format!("burn {}us", source.draw(50, 2_000)).into());
    if one_in(source, 2) {
        steps.push("repeat".into());
    }
    insert(&mut one, "script", steps);
    insert(&mut one, "handles", handles);
    insert(section(tree, "tasks"), "helper", one);
}

/// A limit on all queues of a pool, and other limits of each queue.
fn pools(tree: &mut Table, source: &mut Source) {
    for name in names(tree, "pools") {
        let one = section(section(tree, "pools"), &name);
        if one.get("limit") == Some(&"ck-omlp".into()) {
            continue;
        }
        if one_in(source, 3) {
            insert(one, "limit", "r2dglp");
        } else if one_in(source, 2) {
            let limit = source.draw(1, 4) as i64;
            insert(one, "limit", limit);
            let replicas = one.get("replicas").and_then(Value::as_integer).unwrap_or(1);
            insert(one, "total_limit", source.draw(1, (replicas * limit).unsigned_abs().max(1)) as i64);
        }
        if one_in(source, 2) {
            insert(one, "advice", source.pick(&["none", "affinity", "random"]));
        }
        if one_in(source, 2) {
            insert(one, "shortest", source.pick(&["requests", "lengths"]));
        }
    }
}

#![allow(missing_docs)]
//! The number of contexts of a device, the choice of its next command, and the cost of a change of context.

use std::fmt::Write;
use std::path::Path;

use fusee_abi::call::RESET;
use fusee_abi::image::{feature, kind};
use fusee_accel_contract::space::tables_bytes;
use fusee_accel_contract::{CONTEXTS, Contexts, EngineIndex, control_key, status_counted};
use fusee_manifest::{Arbiter, Manifest, Resolved};
use fusee_spatial::Mechanism;

/// A device with these keys, this many clients without a lock, a job that acquires its engine, and tables of so many bytes.
fn text(clients: usize, tables: u64, keys: &str) -> String {
    let mut text = format!(
        "[system]\nname = \"m\"\nboard = \"virt\"\ncpus = 1\n\
         [tasks.gpu]\nbinary = \"gpu-driver/gpu-driver\"\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n\
         handles = {{ line = \"interrupt gpu: acknowledge\", event = \"notification gpu: wait\", tables = \"region gpu: read write physical\" }}\n\
         [tasks.job]\nbinary = \"apps/hello\"\nperiod = \"50ms\"\nbudget = \"8ms\"\nwcet = \"1ms\"\n\
         uses.ee = {{ times = 2, cpu = \"10us\", operation = \"2ms\" }}\nhandles = {{ ee = \"engine ee: acquire\" }}\n\
         [notifications.gpu]\n[interrupts.gpu]\nline = 112\nnotification = \"gpu\"\nedge = true\n[regions.gpu]\nbytes = {tables}\n\
         [engines.ee]\ndevice = \"gpu\"\nindex = 0\ninterrupt = \"gpu\"\ncompletion = \"50us\"\nreset_bound = \"1ms\"\n{}\
         [devices.gpu]\ndriver = \"gpu\"\nfirmware = \"engine-core\"\ncopy_engines = 0\n{keys}\n",
        if clients > 0 { "shared_longest = \"3ms\"\n" } else { "" }
    );
    for client in 1..=clients {
        let _ = writeln!(
            text,
            "[tasks.client{client}]\nbinary = \"apps/hello\"\nclass = \"background\"\nhandles = {{ ee = \"engine ee: share\" }}"
        );
    }
    text
}

fn parse(clients: usize, keys: &str) -> Result<Manifest, Vec<String>> {
    let text = text(clients, tables_bytes(Contexts::new(CONTEXTS).unwrap(), 0, 0), keys);
    Manifest::parse(Path::new("m.toml"), &text)
        .map_err(|errors| errors.0.iter().map(|error| error.reason.to_string()).collect())
}

#[test]
fn a_device_has_as_many_clients_as_it_has_contexts_besides_the_drivers() {
    for (keys, room) in [("", 7), ("contexts = 2", 1), ("contexts = 5", 4), ("contexts = 16", 15)] {
        let device = &parse(room - 1, keys).unwrap().system.devices[0];
        assert_eq!(device.contexts.len(), room + 1);
        assert_eq!(device.size.number(), room + 1);
        let full = format!("device `gpu` has only {room} contexts for clients");
        assert_eq!(parse(room, keys).unwrap_err(), [full]);
    }
    for wrong in [0, 1, 17] {
        assert_eq!(parse(1, &format!("contexts = {wrong}")).unwrap_err(), ["contexts of `gpu` is not from 2 to 16"]);
    }
}

#[test]
fn tables_are_as_large_as_the_contexts_need() {
    for contexts in [2, 8, 16] {
        let bytes = tables_bytes(Contexts::new(contexts).unwrap(), 0, 0);
        let keys = format!("contexts = {contexts}");
        let fits = |bytes| Manifest::parse(Path::new("m.toml"), &text(0, bytes, &keys)).is_ok();
        assert!(fits(bytes) && !fits(bytes - 4096), "{contexts}");
    }
}

/// A client without a lock makes room: it declares nothing, and each command of the holder may come later by a restore and a save.
#[test]
fn what_makes_room_on_sms_needs_no_gate() {
    let made = |clients, keys: &str, of_job: &str, of_engine: &str| {
        let text = text(clients, tables_bytes(Contexts::new(CONTEXTS).unwrap(), 0, 0), keys);
        let text = text.replace("operation = \"2ms\"", of_job).replace("shared_longest = \"3ms\"\n", of_engine);
        Manifest::parse(Path::new("m.toml"), &text)
            .map_err(|errors| errors.0.iter().map(|error| error.reason.to_string()).collect::<Vec<_>>())
    };
    let holds = |clients, of_job: &str| {
        let system = made(clients, "sms = 4", of_job, "").unwrap().system;
        assert_eq!((system.devices[0].sms, system.engines[0].1.shared_longest, system.engines[0].1.gate), (4, 0, 0));
        let hold = system.engine_holds[0].unwrap();
        (hold.hold.operation.0, hold.operations.0)
    };
    assert_eq!(holds(0, "operation = \"2ms\""), (2_000_000, 4_000_000), "alone it waits for nobody");
    assert_eq!(holds(2, "operation = \"2ms\""), (2_038_912, 4_077_824));
    assert_eq!(holds(2, "operation = \"2ms\", commands = 3"), (2_116_736, 4_233_472));

    let refused = |keys: &str, of_job: &str, of_engine: &str| made(2, keys, of_job, of_engine).unwrap_err();
    let plain = "operation = \"2ms\"";
    for wrong in [0, 17] {
        assert_eq!(refused(&format!("sms = {wrong}"), plain, "")[0], "sms of `gpu` is not from 1 to 16");
    }
    for (other, key) in [("preemptible = true", "preemptible"), ("switch = \"1us\"", "switch")] {
        let expected = format!("sms of `gpu` means nothing together with `{key}`");
        assert_eq!(refused(&format!("sms = 4\n{other}"), plain, "")[0], expected);
    }
    let expected = "shared_longest of `ee` means nothing together with `sms` of its device";
    assert_eq!(refused("sms = 4", plain, "shared_longest = \"3ms\"\n"), [expected]);
    let refused = refused("sms = 4", "operation = \"2ms\", commands = 0", "");
    assert_eq!(refused, ["number of commands of `job` is zero"]);
}

/// How SMs change hands says how long a command may wait for room.
#[test]
fn sms_may_be_drained() {
    let second = "[tasks.job2]\nbinary = \"apps/hello\"\nperiod = \"60ms\"\nbudget = \"8ms\"\nwcet = \"1ms\"\n\
                  uses.ee = { cpu = \"10us\", operation = \"3ms\", block = \"750us\" }\nhandles = { ee = \"engine ee: acquire\" }\n";
    let made = |clients, keys: &str, block: bool| {
        let text = text(clients, tables_bytes(Contexts::new(CONTEXTS).unwrap(), 0, 0), keys);
        let text = text.replace("shared_longest = \"3ms\"\n", "");
        let text = text.replace("[engines.ee]\n", &format!("{second}[engines.ee]\narbiter = \"device\"\n"));
        let text = match block {
            true => text.replace("operation = \"2ms\"", "operation = \"2ms\", block = \"400us\""),
            false => text.replace(", block = \"750us\"", ""),
        };
        Manifest::parse(Path::new("m.toml"), &text)
            .map_err(|errors| errors.0.iter().map(|error| error.reason.to_string()).collect::<Vec<_>>())
    };
    let made_of = |manifest: Manifest| {
        let holds = manifest.system.engine_holds.iter().map(|hold| hold.unwrap().hold.operation.0);
        (manifest.system.devices[0].mechanism, holds.collect::<Vec<_>>())
    };
    let drains = "sms = 4\npreemption = \"drain\"";
    assert_eq!(made_of(made(0, drains, true).unwrap()), (Mechanism::Drain, vec![2_750_000, 3_400_000]));
    let limited = "sms = 4\npreemption = \"drain-then-switch\"\ndrain_limit = \"100us\"";
    let limit = Mechanism::DrainThenSwitch { limit: 100_000 };
    assert_eq!(made_of(made(1, limited, false).unwrap()), (limit, vec![2_119_456, 3_119_456]));
    let switches = "sms = 4\npreemption = \"switch\"";
    assert_eq!(made_of(made(1, switches, false).unwrap()), (Mechanism::Switch, vec![2_038_912, 3_038_912]));

    let refused = |clients, keys, block| made(clients, keys, block).unwrap_err();
    let blocks = "use of `ee` needs `block`, since SMs are drained";
    assert_eq!(refused(0, drains, false), [blocks, blocks]);
    let needless = "block of `ee` needs an engine of a device with `preemption = \"drain\"`";
    assert_eq!(refused(0, switches, true), [needless, needless]);
    let unbounded = "preemption = \"drain\" of `gpu` means nothing together with clients without a lock";
    assert_eq!(refused(1, drains, true), [unbounded]);
    let limit = "preemption of `gpu` needs `drain_limit`";
    assert!(refused(0, "sms = 4\npreemption = \"drain-then-switch\"", false).contains(&limit.to_owned()));
    let other = "drain_limit of `gpu` needs `preemption = \"drain-then-switch\"`";
    assert!(refused(0, "sms = 4\ndrain_limit = \"1us\"", false).contains(&other.to_owned()));
    let sms = "preemption of `gpu` needs `sms`";
    assert!(refused(0, "preemption = \"switch\"", false).contains(&sms.to_owned()));
}

/// Each of its users has a lock of its own, a word for its key and one for its time on the engine; and its commands wait for room for each other.
#[test]
fn an_engine_whose_device_decides_has_a_lock_for_each_user() {
    let second = "[tasks.job2]\nbinary = \"apps/hello\"\nperiod = \"60ms\"\nbudget = \"8ms\"\nwcet = \"1ms\"\n\
                  uses.ee = { cpu = \"10us\", operation = \"3ms\" }\nhandles = { ee = \"engine ee: acquire\" }\n";
    let made = |rest: &str, keys: &str, of_engine: &str| {
        let text = text(0, tables_bytes(Contexts::new(CONTEXTS).unwrap(), 0, 0), keys);
        let text = text.replace("[engines.ee]\n", &format!("{rest}[engines.ee]\n{of_engine}\n"));
        Manifest::parse(Path::new("m.toml"), &text)
            .map_err(|errors| errors.0.iter().map(|error| error.reason.to_string()).collect::<Vec<_>>())
    };
    let by_device = "arbiter = \"device\"";
    let system = made(second, "sms = 4", by_device).unwrap().system;
    let names: Vec<&str> = system.engines.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ee:job", "ee:job2"]);
    assert_eq!(system.whole_engines(), [("ee", vec![0, 1])]);
    let device = &system.devices[0];
    let users: Vec<_> = system.engine_users.iter().map(|user| (user.engine, user.key, user.occupied)).collect();
    let words = |engine, context| {
        let counted = device.status + status_counted(EngineIndex::Execution, context);
        (engine, device.control + control_key(context), counted)
    };
    assert!(device.keyed);
    assert_eq!(users, [words(0, 1), words(1, 2)]);
    let resets: Vec<u64> = system.engines.iter().map(|(_, engine)| engine.reset_bits).collect();
    assert_eq!(resets, [RESET << (3 + 1), RESET << (3 + 2)]);
    let handles = system.handles.iter().filter(|handle| handle.kind == kind::ENGINE);
    assert_eq!(handles.map(|handle| handle.object).collect::<Vec<_>>(), [0, 1]);
    let holds = |system: &Resolved| {
        let holds = system.engine_holds.iter().map(|hold| hold.unwrap().hold.operation.0);
        holds.collect::<Vec<_>>()
    };
    assert_eq!(holds(&system), [2_038_912, 3_038_912]);
    assert_eq!(system.features() & feature::SPATIAL, feature::SPATIAL);
    // Alone it waits for no task.
    assert_eq!(holds(&made("", "sms = 4", by_device).unwrap().system), [2_000_000]);
    let by_lock = made(second, "sms = 4", "arbiter = \"lock\"").unwrap().system;
    assert_eq!((by_lock.engines.len(), by_lock.devices[0].keyed, by_lock.features() & feature::SPATIAL), (1, false, 0));

    let needs = "arbiter of `ee` needs the execution engine of a device with `sms`";
    assert_eq!(made(second, "", by_device).unwrap_err(), [needs]);
    let with = |key: &str| format!("arbiter of `ee` means nothing together with `{key}`");
    assert_eq!(made(second, "sms = 4", "arbiter = \"device\"\ngroup = \"g\"").unwrap_err(), [with("group")]);
    let pool = format!("[pools.p]\nreplicas = 1\n{second}");
    let refused = made(&pool, "sms = 4", "arbiter = \"device\"\npool = \"p\"").unwrap_err();
    assert!(refused.contains(&with("pool")), "{refused:?}");
    let unknown = made(second, "sms = 4", "arbiter = \"driver\"").unwrap_err();
    assert_eq!(unknown, ["unknown value `driver`; there are `lock` and `device`"]);
}

#[test]
fn weights_are_of_clients_without_a_lock_by_their_contexts() {
    let keys = "arbiter = \"weighted\"\nweights = { client2 = 3, client1 = 255 }";
    let device = &parse(3, keys).unwrap().system.devices[0];
    assert_eq!(device.arbiter, Arbiter::Weighted);
    let mut expected = [1; CONTEXTS];
    // The job has context 1.
    expected[2..4].copy_from_slice(&[255, 3]);
    assert_eq!(device.weights(), expected);

    let refused = |keys: &str| parse(3, keys).unwrap_err();
    let range = |task| format!("weight of `{task}` is not from 1 to 255");
    assert_eq!(refused("arbiter = \"weighted\"\nweights = { client1 = 0 }"), [range("client1")]);
    assert_eq!(refused("arbiter = \"weighted\"\nweights = { client1 = 256 }"), [range("client1")]);
    assert_eq!(
        refused("arbiter = \"weighted\"\nweights = { job = 2 }"),
        ["weight of `job` needs the right `share` to an engine of the device"]
    );
    assert_eq!(refused("weights = { client1 = 2 }"), ["weights of `gpu` needs `arbiter = \"weighted\"`"]);
    assert_eq!(
        refused("arbiter = \"round-robin\"\nweights = { client1 = 2 }"),
        ["weights of `gpu` needs `arbiter = \"weighted\"`"]
    );
    assert_eq!(
        refused("arbiter = \"weighted\"\nweights = { client9 = 2 }"),
        ["no task is called `client9`; did you mean `client1`?"]
    );
    assert_eq!(
        refused("arbiter = \"lottery\""),
        ["unknown value `lottery`; there are `arrival`, `round-robin` and `weighted`"]
    );
}

/// Each hold, the wait of a job for clients without a lock, and the time that those may take once it asks are longer by it.
#[test]
fn a_change_of_context_counts_for_each_hold_and_for_what_is_waited_for() {
    let of = |keys: &str| {
        let system = parse(1, keys).unwrap().system;
        let hold = system.engine_holds[0].expect("the job says how long it holds the engine");
        (hold.hold.operation.0, hold.operations.0, system.engine_take_backs[0].0, system.engines[0].1.shared_longest)
    };
    let without = of("");
    assert_eq!(without, (2_000_000, 4_000_000, 4_050_000, 3_000_000));
    let (hold, all, take_back, longest) = without;
    assert_eq!(of("switch = \"300us\""), (hold + 300_000, all + 600_000, take_back + 300_000, longest + 300_000));

    let refused = |keys: &str| parse(1, keys).unwrap_err();
    assert_eq!(refused("switch = \"1001ms\""), ["switch, in microseconds, of `gpu` is not from 0 to 1000000"]);
    assert_eq!(
        refused("switch = \"1us\"\npreemptible = true"),
        ["switch of `gpu` means nothing together with `preemptible`"]
    );
}

#[test]
fn a_device_counts_if_a_server_decides_by_it_or_it_is_told_to() {
    let counters = |keys: &str| parse(1, keys).unwrap().system.devices[0].counters;
    assert_eq!([counters(""), counters("counters = true"), counters("counters = false")], [false, true, false]);
    let sharer = "[tasks.sharer]\nbinary = \"sharer/sharer\"\nhandles = { requests = \"endpoint requests: receive\" }\n\
                  [endpoints.requests]\nserver = \"sharer\"\n";
    let shared = |keys: &str| {
        let text = text(1, 32_768, keys).replace("shared_longest", "sharer = \"requests\"\nshared_longest") + sharer;
        Manifest::parse(Path::new("m.toml"), &text).unwrap().system.devices[0].counters
    };
    assert_eq!([shared(""), shared("counters = false")], [true, false]);
}

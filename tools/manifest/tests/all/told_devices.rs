#![allow(missing_docs)]
//! Devices of the board that work on calls of their driver: handles of drivers and clients, refusals, and proofs.

use std::path::Path;

use fusee_abi::image::kind;
use fusee_accel_contract::DEVICES;
use fusee_manifest::{Manifest, device};

const SYSTEM: &str = include_str!(
    "../../../../tests/target/a_small_text_is_enciphered_in_time_every_20_ms_beside_two_that_never_end.toml"
);

fn parse(text: &str) -> Result<Manifest, Vec<String>> {
    Manifest::parse(Path::new("m.toml"), text)
        .map_err(|errors| errors.0.iter().map(|error| error.reason.to_string()).collect())
}

fn instead(what: &str, by: &str) -> Vec<String> {
    assert!(SYSTEM.contains(what), "{what}");
    parse(&SYSTEM.replace(what, by)).err().unwrap_or_default()
}

#[test]
fn the_driver_gets_registers_counts_and_badges_and_its_clients_no_ring() {
    let system = parse(SYSTEM).unwrap().system;
    assert!(!system.has_engine_cpu());
    let named = |task: &str, kind: u32| -> Vec<(String, u64)> {
        let task = system.tasks.iter().find(|one| one.name == task).unwrap();
        let entries = task.environment.iter().filter(move |entry| entry.kind == kind);
        entries.map(|entry| (entry.name.clone(), entry.address)).collect()
    };
    let regions = |task: &str| named(task, kind::REGION).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(regions("crypto"), ["memory", "status", "doorbells", "registers"]);
    assert_eq!(regions("radio"), ["memory", "status"]);
    let radio = system.tasks.iter().position(|task| task.name == "radio").unwrap() as u64;
    let parameters = named("crypto", fusee_abi::environment::kind::PARAMETER);
    assert!(parameters.contains(&("badge.radio".into(), radio + 1)), "{parameters:?}");
    assert!(parameters.contains(&("context.radio".into(), 1)), "{parameters:?}");
    assert_eq!(system.reaching_all_memory(), [("crypto", "crypto0")]);
}

#[test]
fn what_such_a_device_cannot_have_is_refused() {
    let device = "device = \"crypto0\"";
    assert_eq!(
        instead(device, "device = \"crypto0\"\nfirmware = \"engine-core\""),
        ["firmware of `crypto` means nothing together with a `device` that runs none"]
    );
    assert_eq!(
        instead(device, "device = \"crypto0\"\ncopy_engines = 1"),
        ["copy_engines of `crypto` means nothing together with a `device` that runs no firmware"]
    );
    assert_eq!(instead(device, "device = \"block0\""), ["device of `crypto` needs a processor of the board"]);
    assert_eq!(instead(device, ""), ["device of `crypto` needs firmware"]);
    assert_eq!(instead("index = 0", "index = 1").len(), 1);
}

#[test]
fn a_hard_task_may_wait_for_such_a_driver_if_it_says_how_long_it_holds_the_engine() {
    let uses = "ee = { cpu = \"300us\", operation = \"1ms\" }\n";
    let errors = instead(uses, "");
    assert!(errors.iter().any(|error| error.contains("`radio`")), "{errors:?}");
    let without_engine = SYSTEM.replace(uses, "").replace("ee = \"engine ee: acquire\"\n", "");
    // The engine would have no user, and keeps its watchdog.
    let errors = parse(&without_engine).unwrap_err();
    let why = "`radio` calls it, and says nothing of holding an engine of `crypto`";
    assert!(errors.iter().any(|error| error.contains(why)), "{errors:?}");
    // A driver of another device is a server like any other.
    let other = SYSTEM
        .replace("server = \"crypto\"", "server = \"other\"")
        .replace("cipher = \"endpoint cipher: receive\"\n", "")
        + "\n[tasks.other]\nbinary = \"apps/lines\"\nhandles = { cipher = \"endpoint cipher: receive\", spare = \"notification spare: wait\" }\n\n[notifications.spare]\n";
    let errors = parse(&other).unwrap_err();
    assert!(errors.iter().any(|error| error.contains("server `other` may wait for notifications")), "{errors:?}");
}

const PLAYED: &str = r#"
[tasks.gpu]
binary = "gpu-driver/gpu-driver"
class = "service"
period = "10ms"
budget = "1ms"
handles = { line = "interrupt gpu: acknowledge", event = "notification gpu: wait", tables = "region gpu: read write physical" }
[notifications.gpu]
[interrupts.gpu]
line = 112
notification = "gpu"
edge = true
[devices.gpu]
driver = "gpu"
firmware = "engine-core"
kernels = "picture-kernels"
copy_engines = 0
[engines.gpu]
device = "gpu"
index = 0
interrupt = "gpu"
[regions.gpu]
bytes = "16KiB"
"#;

/// A device of the board beside one that the engine CPU plays: that CPU is told of the second alone.
#[test]
fn the_firmware_plays_no_device_of_the_board() {
    let system = parse(&(SYSTEM.to_owned() + PLAYED)).unwrap().system;
    let firmwares: Vec<_> = system.devices.iter().map(|device| device.firmware.as_deref()).collect();
    assert_eq!(firmwares, [None, Some("engine-core+picture-kernels")]);
    let words = device::description(&system);
    assert_eq!(words.len(), 8 * (1 + device::OF_DEVICE + DEVICES));
    let word = |at: usize| u64::from_le_bytes(words[8 * at..8 * at + 8].try_into().unwrap());
    assert_eq!((word(0), word(1), word(8)), (1, system.devices[1].control, system.devices[1].line.into()));
}

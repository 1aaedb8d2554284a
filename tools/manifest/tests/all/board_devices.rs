//! Devices of the board: who reaches what by them.

use std::path::Path;

use fusee_abi::environment::{ALONE, device};
use fusee_abi::image::mapping;
use fusee_manifest::{Manifest, Reason};

const SYSTEM: &str = r#"
[system]
name = "disk"
board = "virt"
cpus = 1

[tasks.block]
script = ["serve disk"]
handles = { block = "region block: read write", memory = "region memory: read write physical", disk = "endpoint disk: receive", uart = "region uart: read write" }

[tasks.client]
script = ["shutdown"]
class = "background"
handles = { disk = "endpoint disk: call", system = "system: shutdown" }

[endpoints.disk]
server = "block"

[regions.block]
device = "block0"

[regions.uart]
device = "uart0"

[regions.memory]
bytes = "64KiB"
"#;

fn read(text: &str) -> Manifest {
    Manifest::parse(Path::new("disk.toml"), text).unwrap()
}

#[test]
fn a_task_with_registers_of_a_device_that_masters_memory_reaches_all_of_it() {
    assert_eq!(read(SYSTEM).system.reaching_all_memory(), [("block", "block0")]);
    // Registers that can only be read start nothing.
    let harmless = SYSTEM.replace("region block: read write", "region block: read");
    assert!(read(&harmless).system.reaching_all_memory().is_empty());
    let without = SYSTEM.replace("device = \"block0\"", "device = \"rtc0\"");
    assert!(read(&without).system.reaching_all_memory().is_empty());
}

#[test]
fn a_region_is_alone_if_no_other_task_has_a_handle_of_it_whatever_its_rights() {
    let flags = |text: &str, name: &str| {
        let block = &read(text).system.tasks[0].environment;
        block.iter().find(|entry| entry.name == name).unwrap().flags
    };
    assert_eq!(flags(SYSTEM, "memory"), ALONE);
    assert_eq!(flags(SYSTEM, "block"), device::VIRTIO);
    for rights in ["read", "read write lend", "read map"] {
        let shared = SYSTEM.replace("system = ", &format!("mine = \"region memory: {rights}\", system = "));
        assert_eq!(flags(&shared, "memory"), 0, "{rights}");
    }
}

#[test]
fn a_device_that_other_boards_have_is_lacking_and_no_mistake() {
    let elsewhere = SYSTEM.replace("board = \"virt\"", "board = \"raspi3b\"");
    let errors = Manifest::parse(Path::new("disk.toml"), &elsewhere).unwrap_err();
    assert!(errors.0.iter().all(|error| matches!(&error.reason, Reason::BoardLacks { .. })), "{errors}");
    assert!(errors.to_string().contains("board `raspi3b` has no device `block0`"));
}

#[test]
fn memory_that_is_not_cached_is_so_in_every_task_and_devices_never_are() {
    let text = SYSTEM.replace("bytes = \"64KiB\"", "bytes = \"64KiB\"\ncached = false").replacen(
        "handles = { disk =",
        "handles = { memory = \"region memory: read\", disk =",
        1,
    );
    let system = read(&text).system;
    let (_, region) = system.regions.iter().find(|(name, _)| name == "memory").unwrap();
    let flags: Vec<u32> = system
        .mappings
        .iter()
        .filter(|mapping| mapping.physical == region.physical)
        .map(|mapping| mapping.flags & (mapping::UNCACHED | mapping::FILL))
        .collect();
    assert_eq!(flags, [mapping::UNCACHED | mapping::FILL, mapping::UNCACHED]);
    assert!(read(SYSTEM).system.mappings.iter().all(|mapping| mapping.flags & mapping::UNCACHED == 0));
    let text = SYSTEM.replace("device = \"uart0\"", "device = \"uart0\"\ncached = false");
    let errors = Manifest::parse(Path::new("disk.toml"), &text).unwrap_err();
    assert_eq!(errors.0[0].reason.to_string(), "cached of `uart` means nothing together with device");
}

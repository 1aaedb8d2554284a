//! Devices of the board: the memory that tasks reach by them.

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

const OWN: &str = r#"
[board.devices.entropy0]
kind = "virtio-mmio"
at = 0x0a00_1000
bytes = "4KiB"
line = 56

[board.devices.entropy0.qemu]
arguments = ["-device", "virtio-rng-device"]

[regions.entropy]
device = "entropy0"

[notifications.filled]

[interrupts.entropy]
line = "entropy0"
notification = "filled"
"#;

/// A system with a device of its own, which a task drives.
fn own() -> String {
    SYSTEM.replace("memory = \"region", "own = \"region entropy: read write\", memory = \"region") + OWN
}

#[test]
fn a_device_that_the_manifest_adds_is_one_of_its_board() {
    let system = read(&own()).system;
    let (_, region) = system.regions.iter().find(|(name, _)| name == "entropy").unwrap();
    assert_eq!((region.physical, region.bytes), (0x0a00_1000, 4096));
    assert_eq!(system.interrupts[0].1.line, 56);
    let entry = system.tasks[0].environment.iter().find(|entry| entry.name == "own").unwrap();
    assert_eq!(entry.flags, device::VIRTIO);
    assert!(system.board_devices().any(|(name, device)| name == "entropy0" && device.qemu.is_some()));
    assert_eq!(system.reaching_all_memory(), [("block", "block0"), ("block", "entropy0")]);
}

#[test]
fn a_device_of_another_kind_reaches_all_memory_unless_the_manifest_says_otherwise() {
    let other = own().replace("\"virtio-mmio\"", "\"other\"");
    assert_eq!(read(&other).system.reaching_all_memory(), [("block", "block0"), ("block", "entropy0")]);
    let harmless = other.replace("\"other\"", "\"other\"\nmasters_memory = false");
    assert_eq!(read(&harmless).system.reaching_all_memory(), [("block", "block0")]);
    let translated = other.replace("line = 56", "line = 56\nstream = 9");
    assert_eq!(read(&translated).system.reaching_all_memory(), [("block", "block0")]);
}

#[test]
fn a_device_given_by_its_address_counts_if_its_task_knows_where_memory_lies() {
    let plain = "[regions.entropy]\ndevice = true\nphysical = 0x0a00_1000\nbytes = \"4KiB\"\n";
    let text = SYSTEM.replace("memory = \"region", "own = \"region entropy: read write\", memory = \"region") + plain;
    assert_eq!(read(&text).system.reaching_all_memory(), [("block", "block0"), ("block", "entropy")]);
    // A driver of a GPU knows where all buffers lie, and its device can only be kicked.
    let gpu = "[system]\nname = \"gpu\"\nboard = \"virt\"\ncpus = 1\n[devices.gpu]\n[tasks.client]\nscript = [\"acquire ee\", \"release ee\"]\n\
               class = \"background\"\nhandles = { ee = \"engine ee: acquire\", buffer = \"region buffer: read write\" }\n\
               [regions]\nbuffer = { bytes = \"8KiB\" }\n";
    assert!(read(gpu).system.reaching_all_memory().is_empty());
    let blind = text.replace("read write physical", "read write");
    assert_eq!(read(&blind).system.reaching_all_memory(), [("block", "block0")]);
}

#[test]
fn mistakes_in_a_device_of_the_manifest_are_told_at_their_keys() {
    let mistakes = |from: &str, to: &str| {
        let text = own().replace(from, to);
        let errors = Manifest::parse(Path::new("disk.toml"), &text).unwrap_err();
        let line = |error: &fusee_manifest::ManifestError| text.lines().nth(error.line - 1).unwrap().trim().to_owned();
        errors.0.iter().map(|error| (line(error), error.reason.to_string())).collect::<Vec<_>>()
    };
    let one = |from: &str, to: &str, line: &str, words: &str| {
        assert_eq!(mistakes(from, to), [(line.to_owned(), words.to_owned())], "{to}");
    };
    let owned = "device `entropy0` would give away the interrupt distributor, which is the kernel's alone: a task with it could do anything";
    one("0x0a00_1000", "0x0800_0000", "at = 0x0800_0000", owned);
    let ram = "device `entropy0` overlaps the board's RAM, which is given out by the packer";
    one("0x0a00_1000", "0x4000_0000", "at = 0x4000_0000", ram);
    one(
        "0x0a00_1000",
        "0x0a00_1001",
        "at = 0x0a00_1001",
        "physical address of `entropy0` is not a whole number of 4 KiB pages",
    );
    one(
        "\"4KiB\"\nline",
        "\"0B\"\nline",
        "bytes = \"0B\"",
        "length of `entropy0` is not a whole number of 4 KiB pages",
    );
    one("line = 56", "line = 56\nstream = 64", "stream = 64", "stream of `entropy0` is not from 0 to 63");
    one(
        "line = 56",
        "line = 56\nmasters_memory = true",
        "masters_memory = true",
        "masters_memory of `entropy0` means nothing together with a kind that is known",
    );
    let options = "QEMU's arguments of `entropy0` are options that begin with `-`, each with its value behind it: \"-device\", \"virtio-rng-device\"";
    let given = "[board.devices.entropy0.qemu]";
    for wrong in ["[\"-device\"]", "[\"device\", \"virtio-rng-device\"]"] {
        one("[\"-device\", \"virtio-rng-device\"]", wrong, given, options);
    }
    one(
        "virtio-rng-device",
        "loader,file={file}",
        given,
        "`{file}` of `entropy0` needs `bytes`, the length of the file behind it",
    );
    let twice = mistakes("entropy0", "uart0");
    assert!(twice.iter().any(|(_, words)| words == "a second device of the board is called `uart0`"), "{twice:?}");
    let kind = mistakes("\"virtio-mmio\"", "\"virtio\"");
    assert!(kind[0].1.starts_with("unknown value `virtio`; there are `pl011`"), "{kind:?}");
    // On another board those addresses are something else.
    let variant = fusee_manifest::Variant { board: Some("virt-gicv2".to_owned()), ..Default::default() };
    let elsewhere = Manifest::parse_variant(Path::new("disk.toml"), &own(), &variant).unwrap_err();
    assert!(elsewhere.to_string().contains("board `virt-gicv2` has no device `entropy0`"), "{elsewhere}");
}

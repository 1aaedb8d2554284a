//! Devices behind an SMMU: the memory that they reach, and refusals.

#![allow(missing_docs)]

use std::path::Path;

use fusee_abi::image::{feature, mapping};
use fusee_manifest::{Manifest, Resolved};

const SYSTEM: &str = r#"
[system]
name = "dma"
board = "virt"
cpus = 1

[tasks.driver]
script = ["burn 1us"]
class = "background"
handles = { edu = "region edu: read write", pci = "region pci: read write", own = "region own: read write physical" }

[tasks.guard]
script = ["burn 1us"]
class = "background"
handles = { faults = "region faults: read", own = "region own: read" }

[notifications.smmu]

[tasks.waiter]
script = ["wait smmu"]
class = "background"
handles = { smmu = "notification smmu: wait" }

[interrupts.smmu]
line = "smmu"
notification = "smmu"
edge = true

[regions.edu]
device = "edu0"

[regions.pci]
device = "edu0_pci"

[regions.own]
bytes = "8KiB"
dma = "edu0"

[regions.other]
bytes = "4KiB"

[regions.more]
bytes = "4KiB"
cached = false
dma = "edu0"

[regions.faults]
bytes = "4KiB"
dma = "smmu"
"#;

fn read(text: &str) -> Resolved {
    Manifest::parse(Path::new("dma.toml"), text).unwrap_or_else(|errors| panic!("{errors}")).system
}

fn mistake(from: &str, to: &str) -> String {
    assert!(SYSTEM.contains(from), "{from}");
    let errors = Manifest::parse(Path::new("dma.toml"), &SYSTEM.replacen(from, to, 1)).unwrap_err();
    errors.0[0].reason.to_string()
}

#[test]
fn a_device_behind_the_smmu_has_a_table_of_what_its_regions_say_and_confines_its_driver() {
    let system = read(SYSTEM);
    let region = |name: &str| system.regions.iter().position(|(known, _)| known == name).unwrap();
    let place = |name: &str| system.regions[region(name)].1.physical;
    let [stream] = system.streams[..] else { panic!("one device is behind it") };
    assert_eq!((stream.number, stream.task, stream.region as usize), (16, 0, region("edu")));
    let reached = system.mappings.iter().filter(|one| one.flags & mapping::STREAM != 0);
    let reached: Vec<_> = reached.map(|one| (one.task, one.address, one.physical, one.pages, one.flags)).collect();
    let flags = mapping::READ | mapping::WRITE | mapping::STREAM;
    let expected =
        [(0, place("own"), place("own"), 2, flags), (0, place("more"), place("more"), 1, flags | mapping::UNCACHED)];
    assert_eq!(reached, expected);
    assert_eq!(system.dma_faults, Some(place("faults")));
    assert_eq!(system.interrupts[0].1.line, 106);
    assert_ne!(system.features() & feature::STREAMS, 0);
    assert!(system.reaching_all_memory().is_empty(), "it reaches what is its own");
    // A device that is given nothing is behind it all the same.
    let without = read(&SYSTEM.replace("dma = \"edu0\"\n", ""));
    assert_eq!(without.streams.len(), 1);
    assert!(without.mappings.iter().all(|one| one.flags & mapping::STREAM == 0));
    // A task that may only read its registers starts nothing.
    let task = "handles = { faults = \"region faults: read\",";
    assert_eq!(read(&SYSTEM.replace(task, &format!("{task} edu = \"region edu: read\","))).streams.len(), 1);
}

#[test]
fn a_system_without_such_devices_needs_no_smmu() {
    let text = SYSTEM.split("[regions.edu]").next().unwrap().replace("line = \"smmu\"", "line = 77");
    let text = text.replace(
        "edu = \"region edu: read write\", pci = \"region pci: read write\", own = \"region own: read write physical\"",
        "",
    );
    let text = text.replace("faults = \"region faults: read\", own = \"region own: read\"", "");
    let system = read(&text);
    assert!(!system.has_smmu());
    assert_eq!(system.features() & feature::STREAMS, 0);
}

#[test]
fn what_a_device_cannot_reach_is_a_mistake() {
    let own = "bytes = \"8KiB\"\ndma = \"edu0\"";
    let cases = [
        (own, "bytes = \"8KiB\"\ndma = \"edu9\"", "no device of the board is called `edu9`; did you mean `edu0`?"),
        (
            own,
            "bytes = \"8KiB\"\ndma = \"uart0\"",
            "dma of `own` means nothing together with a device that reaches no memory",
        ),
        (
            "[regions.other]\nbytes = \"4KiB\"",
            "[regions.other]\ntrace = true\ndma = \"edu0\"",
            "dma of `other` means nothing together with trace",
        ),
        (
            "device = \"edu0_pci\"",
            "device = \"edu0_pci\"\ndma = \"edu0\"",
            "dma of `pci` means nothing together with device",
        ),
        ("own: read\"", "own: read map\"", "dma of `own` means nothing together with the right `map`"),
        ("own: read\"", "own: read lend\"", "dma of `own` means nothing together with the right `lend`"),
        ("own: read\"", "own: read lent\"", "dma of `own` means nothing together with lent"),
        ("device = \"edu0\"", "bytes = \"4KiB\"", "dma of `own` needs a region of the device's registers"),
        (
            "\"4KiB\"\ndma = \"smmu\"",
            "\"8KiB\"\ndma = \"smmu\"",
            "dma of `faults` needs a length of one page: the queue of DMA faults is one",
        ),
        (
            "[regions.other]\nbytes = \"4KiB\"",
            "[regions.other]\nbytes = \"4KiB\"\ndma = \"smmu\"",
            "a second region for DMA faults is called `faults`",
        ),
        (
            "faults: read\",",
            "faults: read\", edu = \"region edu: read write\",",
            "device of `edu0` needs one task that may write to its registers: when that ends, it reaches nothing any more",
        ),
    ];
    for (from, to, expected) in cases {
        let said = mistake(from, to);
        assert_eq!(said, expected, "{to}");
    }
    let elsewhere = SYSTEM.replace("\"virt\"", "\"zcu102\"");
    let errors = Manifest::parse(Path::new("dma.toml"), &elsewhere).unwrap_err().to_string();
    for lack in ["no SMMU", "no device `edu0`"] {
        assert!(errors.contains(&format!("board `zcu102` has {lack}")), "{errors}");
    }
}

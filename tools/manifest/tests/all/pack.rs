//! A packed system can be read back, and is that of the manifest.

use std::path::Path;

use crate::common::{Segment, elf};
use fusee_abi::call::{HandleValue, rights};
use fusee_abi::environment::{self, PREEMPTIBLE};
use fusee_abi::image::{self, FLAG_ENGINE_CPU, FLAG_MANAGED, System, kind, mapping};
use fusee_abi::script::{Step, operation};
use fusee_accel_contract::{CopyEngines, space};
use fusee_manifest::{Binaries, Manifest, PackOptions, PackedSystem, layout};
use zerocopy::FromBytes;

const DEMO: &str = r#"
[system]
name = "small"
board = "virt"
cpus = 2
start = "10ms"

[tasks.client]
binary = "apps/client"
period = "10ms"
budget = "2ms"
phase = "1ms"
parameters = { size = 7, shift = -1 }
handles.ee = "engine ee: acquire"
handles.shared = "region shared: read write"
handles.server = "endpoint service: call"
handles.system = "system: shutdown"

[tasks.twin]
copies = 2
binary = "apps/client"
class = "background"

[tasks.driver]
binary = "apps/server"
class = "service"
period = "10ms"
budget = "1ms"
handles.service = "endpoint service: receive"
handles.shared = "region shared: read physical"
handles.line = "interrupt line: acknowledge"
handles.event = "notification event: wait"

[tasks.robot]
script = ["acquire ee", "submit ee 3ms gpu_done", "release ee", "burn 1ms"]
period = "20ms"
budget = "5ms"
handles.ee = "engine ee: acquire"

[endpoints.service]
server = "driver"
service_max = "1ms"

[notifications.event]

[interrupts.line]
line = 72
notification = "event"
edge = true

[regions.shared]
bytes = "8KiB"

[devices.gpu]
driver = "driver"
firmware = "engine-core"
memory = "1MiB"

[engines.ee]
device = "gpu"
index = 0
interrupt = "line"
"#;

fn manifest() -> Manifest {
    Manifest::parse(Path::new("m.toml"), DEMO).unwrap_or_else(|error| panic!("{error}"))
}

fn packed(manifest: &Manifest, managed: Option<bool>) -> PackedSystem {
    let code = [0xd5; 5000];
    let client = elf(&[
        Segment(5, 0x20_0000, &code, 5000),
        Segment(4, 0x20_2000, b"constants", 9),
        Segment(6, 0x20_3000, b"data", 0x2000),
    ]);
    let server = elf(&[Segment(5, 0x20_0000, b"text", 4)]);
    let firmware = elf(&[Segment(5, 0x4b00_0000, b"firmware", 8), Segment(6, 0x4b00_1000, b"", 64)]);
    let mut binaries = Binaries::new();
    binaries.insert("apps/client".into(), client);
    binaries.insert("apps/scripted".into(), server.clone());
    binaries.insert("apps/server".into(), server);
    binaries.insert("engine-core".into(), firmware);
    let packed = manifest.pack(&binaries, PackOptions { cpu_stride: 2, managed });
    packed.unwrap_or_else(|error| panic!("{error}"))
}

/// The environment of a task, by the mapping it sees it through.
fn environment<'a>(system: &System<'a>, task: u32) -> Vec<&'a environment::Entry> {
    let mut mappings = system.mappings().iter();
    let page = mappings.find(|page| page.task == task && page.address == layout::ENVIRONMENT).unwrap();
    assert_eq!(page.flags, mapping::READ | mapping::IN_IMAGE);
    let bytes = &system.bytes()[page.physical as usize..][..4096];
    let (header, rest) = environment::Header::ref_from_prefix(bytes).unwrap();
    assert_eq!(header.magic, environment::MAGIC);
    let (entries, _) = <[environment::Entry]>::ref_from_prefix_with_elems(rest, header.entries as usize).unwrap();
    entries.iter().collect()
}

fn entry<'a>(entries: &[&'a environment::Entry], name: &str, kind: u32) -> &'a environment::Entry {
    let mut padded = [0; 24];
    padded[..name.len()].copy_from_slice(name.as_bytes());
    let found = entries.iter().find(|entry| entry.name == padded && entry.kind == kind);
    found.unwrap_or_else(|| panic!("there is no entry {name} of kind {kind}"))
}

#[test]
fn what_is_packed_is_read_back() {
    let manifest = manifest();
    let packed = packed(&manifest, None);
    let system = System::parse(packed.bytes()).unwrap();
    let header = system.header();
    assert_eq!((header.cpus, header.cpu_stride, header.start), (2, 2, 10_000_000));
    assert_eq!(header.flags, FLAG_MANAGED | FLAG_ENGINE_CPU);
    assert_eq!(header.bytes as usize, packed.bytes().len());
    let names: Vec<&[u8]> =
        system.tasks().iter().map(|task| task.name.split(|byte| *byte == 0).next().unwrap()).collect();
    assert_eq!(names, [&b"client"[..], b"twin1", b"twin2", b"driver", b"robot"]);
    assert_eq!(system.clusters().len(), 1);
    assert_eq!(system.clusters()[0].cpus, 3);
    assert_eq!(system.reservations()[0].phase, 1_000_000);
    assert_eq!(system.reservations()[0].deadline, 10_000_000);
    assert_eq!(system.reservations()[1].budget, fusee_manifest::UNLIMITED);
    assert_eq!(system.endpoints()[0].server, 3);
    assert_eq!(system.interrupts()[0].edge, 1);
    assert_eq!(system.tasks()[0].entry, 0x20_0000);
    // Two clients of the device, two notifications made for them.
    assert_eq!(system.notifications().len(), 3);
    assert_eq!(system.notifications()[1].bound_plus_one, 4);
}

#[test]
fn the_same_manifest_gives_the_same_bytes() {
    assert_eq!(packed(&manifest(), None).bytes(), packed(&manifest(), None).bytes());
}

#[test]
fn no_page_is_given_out_twice_and_none_is_writable_code() {
    let packed = packed(&manifest(), None);
    let system = packed.system();
    let region = |address: u64| system.regions().iter().any(|region| region.address == address);
    let mut physical = Vec::new();
    for one in system.mappings() {
        let writable_code = mapping::WRITE | mapping::EXECUTE;
        assert_ne!(one.flags & writable_code, writable_code);
        if one.flags & mapping::IN_IMAGE != 0 {
            assert_eq!(one.flags & mapping::WRITE, 0);
            assert!((one.physical + one.pages * 4096) as usize <= packed.bytes().len());
        } else if !region(one.address) {
            physical.push((one.physical, one.physical + one.pages * 4096));
        }
        assert_eq!((one.address | one.physical) % 4096, 0);
    }
    physical.extend(system.regions().iter().map(|region| (region.physical, region.physical + region.bytes)));
    physical.sort_unstable();
    assert!(physical.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{physical:x?}");
}

#[test]
fn binaries_are_shared_where_they_are_only_read() {
    let packed = packed(&manifest(), None);
    let system = packed.system();
    let of = |task: u32, address: u64| {
        *system.mappings().iter().find(|one| one.task == task && one.address == address).unwrap()
    };
    let (text, twin) = (of(0, 0x20_0000), of(1, 0x20_0000));
    assert_eq!(text.flags, mapping::READ | mapping::EXECUTE | mapping::IN_IMAGE);
    assert_eq!((text.physical, text.pages), (twin.physical, 2));
    assert_eq!(packed.bytes()[text.physical as usize..][..5000], [0xd5; 5000]);
    let (data, twin) = (of(0, 0x20_3000), of(1, 0x20_3000));
    assert_eq!(data.flags, mapping::READ | mapping::WRITE | mapping::FILL);
    assert_ne!(data.physical, twin.physical);
    assert_eq!((data.source_offset, data.source_bytes, data.pages), (twin.source_offset, 4, 2));
    assert_eq!(&packed.bytes()[data.source_offset as usize..][..4], b"data");
    let stack = of(0, layout::STACK_TOP - 16 * 1024);
    assert_eq!((stack.pages, stack.flags), (4, mapping::READ | mapping::WRITE | mapping::FILL));
}

#[test]
fn a_client_finds_in_its_environment_what_it_needs() {
    let manifest = manifest();
    let packed = packed(&manifest, None);
    let system = packed.system();
    let client = environment(&system, 0);
    let ee = entry(&client, "ee", kind::ENGINE);
    assert_eq!(ee.handle, HandleValue::new(0, 1).0);
    let doorbell = entry(&client, "ee", environment::kind::DOORBELL);
    assert_eq!(doorbell.address, layout::DOORBELLS);
    assert_eq!(entry(&client, "size", environment::kind::PARAMETER).address, 7);
    assert_eq!(entry(&client, "shift", environment::kind::PARAMETER).address, u64::MAX);
    assert_eq!(entry(&client, "context", environment::kind::PARAMETER).address, 1);
    let shared = entry(&client, "shared", kind::REGION);
    assert_eq!((shared.address, shared.bytes, shared.physical), (layout::REGIONS, 8192, 0));
    assert_eq!(entry(&client, "kick", kind::REGION).physical, 0);
    entry(&client, "status", kind::REGION);
    entry(&client, "gpu_done", kind::NOTIFICATION);

    let driver = environment(&system, 3);
    assert_eq!(entry(&driver, "shared", kind::REGION).physical, system.regions()[0].physical);
    assert_eq!(entry(&driver, "context.client", environment::kind::PARAMETER).address, 1);
    assert_eq!(entry(&driver, "context.robot", environment::kind::PARAMETER).address, 2);
    let control = entry(&driver, "control", kind::REGION);
    assert_eq!(control.physical, manifest.system.devices[0].control);
    entry(&driver, "done.robot", kind::NOTIFICATION);
    let rings = entry(&driver, "rings", kind::REGION);
    assert_eq!((rings.address, rings.handle), (0, 0), "the driver does not map its clients' rings");
    assert_eq!(rings.physical, manifest.system.devices[0].rings);
    let ring = system.regions().iter().find(|region| region.address == entry(&client, "ring", kind::REGION).address);
    assert_eq!(ring.unwrap().physical, rings.physical);
    assert_eq!(entry(&client, "ring", kind::REGION).flags & environment::ALONE, 0, "the device writes there, too");

    let handle = system.handles().iter().find(|handle| handle.task == 0 && handle.slot == 3).unwrap();
    assert_eq!((handle.kind, handle.rights, handle.badge), (kind::SYSTEM, rights::SHUTDOWN, 1));
    let slots: Vec<u32> = system.handles().iter().filter(|one| one.task == 3).map(|one| one.slot).collect();
    assert!(slots.iter().enumerate().all(|(index, slot)| *slot == index as u32), "{slots:?}");
}

#[test]
fn a_device_without_copy_engines_has_no_memory_and_its_firmware_knows_it() {
    let text = DEMO.replacen("memory = \"1MiB\"", "copy_engines = 0", 1);
    let manifest = Manifest::parse(Path::new("dsp.toml"), &text).unwrap_or_else(|error| panic!("{error}"));
    let device = &manifest.system.devices[0];
    assert_eq!((device.copy_engines, device.memory_bytes), (CopyEngines::None, 0));
    let packed = packed(&manifest, None);
    let driver = environment(&packed.system(), 3);
    assert!(!driver.iter().any(|one| one.name.starts_with(b"local\0")), "there is no device memory to give");
    entry(&driver, "control", kind::REGION);
}

/// Of its engines that is the one for execution; its clients are told with the handle.
#[test]
fn the_clients_of_a_preemptible_engine_and_its_firmware_know_it() {
    for (key, preemptible) in [("", 0), ("\npreemptible = true", PREEMPTIBLE)] {
        let text = DEMO.replacen("memory = \"1MiB\"", &format!("memory = \"1MiB\"{key}"), 1);
        let manifest = Manifest::parse(Path::new("preemptible.toml"), &text).unwrap_or_else(|error| panic!("{error}"));
        let packed = packed(&manifest, None);
        let blob = &packed.system().bytes()[packed.system().header().firmware_offset as usize..];
        assert_eq!(blob[8 * 10..][..8], u64::from(preemptible != 0).to_le_bytes());
        let client = environment(&packed.system(), 0);
        for engine in client.iter().filter(|one| one.kind == kind::ENGINE) {
            let number = engine.flags & (PREEMPTIBLE - 1);
            assert_eq!(engine.flags - number, if number == 0 { preemptible } else { 0 }, "engine {number}");
        }
    }
}

/// A device with so many clients without locks that open their contexts by themselves, each with a buffer.
fn openers(clients: usize, more: &str) -> Manifest {
    let text = openers_text(clients, more);
    Manifest::parse(Path::new("openers.toml"), &text).unwrap_or_else(|error| panic!("{error}"))
}

fn openers_text(clients: usize, more: &str) -> String {
    let mut text = "[system]\nname = \"openers\"\nboard = \"virt\"\ncpus = 2\n".to_owned();
    let mut buffers = String::new();
    for number in 1..=clients {
        text += &format!(
            "[tasks.c{number}]\nbinary = \"apps/client\"\nclass = \"background\"\n\
             handles.ee = \"engine ee: share\"\nhandles.sessions = \"endpoint sessions: call\"\n\
             handles.buffer = \"region b{number}: read write\"\n[regions.b{number}]\nbytes = \"8KiB\"\n"
        );
        buffers += &format!("handles.\"buffer.c{number}\" = \"region b{number}: physical\"\n");
    }
    text += &format!(
        "[tasks.server]\nbinary = \"apps/server\"\nhandles.sessions = \"endpoint sessions: receive\"\n\
         [tasks.gpu]\nbinary = \"gpu-driver/gpu-driver\"\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"2ms\"\n\
         handles.line = \"interrupt gpu: acknowledge\"\nhandles.event = \"notification event: wait\"\n\
         handles.tables = \"region tables: read write physical\"\n{buffers}\
         [endpoints.sessions]\nserver = \"server\"\n[notifications.event]\n\
         [interrupts.gpu]\nline = 112\nnotification = \"event\"\nedge = true\n\
         [devices.gpu]\ndriver = \"gpu\"\nfirmware = \"engine-core\"\ncopy_engines = 0\n\
         sessions = {{ endpoint = \"sessions\", contexts = 3, each = 2 }}\n\
         [engines.ee]\ndevice = \"gpu\"\nindex = 0\ninterrupt = \"gpu\"\nshared_longest = \"1ms\"\n\
         [regions.tables]\nbytes = \"64KiB\"\n{more}"
    );
    text
}

#[test]
fn a_server_of_sessions_has_one_life() {
    let text = openers_text(1, "[supervisor]\ntask = \"c1\"\n");
    let text = text.replacen("\"apps/server\"\n", "\"apps/server\"\nrestart = \"always\"\n", 1);
    let errors = Manifest::parse(Path::new("openers.toml"), &text).unwrap_err().0;
    let reasons: Vec<String> = errors.iter().map(|error| error.reason.to_string()).collect();
    let why = "what clients have opened and mapped is known to this life alone";
    assert_eq!(reasons, [format!("restart of `server` means nothing together with serving `sessions`: {why}")]);
}

/// For rings and buffers it needs no handle, as it does not reach them itself; one for each client tells it of completions.
#[test]
fn a_driver_has_one_handle_more_for_each_client() {
    let [one, seven] = [1, 7].map(|clients| {
        let manifest = openers(clients, "");
        let system = &manifest.system;
        let driver = system.devices[0].driver;
        let handles = system.handles.iter().filter(|handle| handle.task as usize == driver).count();
        (handles, system.tasks[driver].environment.len())
    });
    assert_eq!((seven.0 - one.0, seven.1 - one.1), (6, 18));
    let of_fifteen = (one.0 + 14, one.1 + 3 * 14);
    assert!(of_fifteen.0 <= 32 && of_fifteen.1 <= 63, "{of_fifteen:?}");
}

#[test]
fn a_server_of_sessions_finds_what_contexts_there_are_and_whose_they_are() {
    let manifest = openers(
        2,
        "[tasks.c3]\nbinary = \"apps/client\"\nclass = \"background\"\nhandles.ee = \"engine ee: share\"\n\
         handles.more = \"engine ee: share\"\nhandles.sessions = \"endpoint sessions: call\"\n\
         [tasks.c4]\nbinary = \"apps/client\"\nclass = \"background\"\nhandles.ee = \"engine ee: share\"\n",
    );
    let system = &manifest.system;
    let task = |name: &str| system.tasks.iter().position(|task| task.name == name).unwrap();
    let find = |of: &str, name: &str| {
        let entry = system.tasks[task(of)].environment.iter().find(|entry| entry.name == name);
        entry.unwrap_or_else(|| panic!("`{of}` has no `{name}`"))
    };
    let device = &system.devices[0];
    assert_eq!(device.contexts, [task("gpu"), task("c1"), task("c2"), task("c3"), task("c3"), task("c4")]);
    let opens = space::SHARED_CLIENT | space::SESSION_CLIENT;
    for of in ["server", "gpu"] {
        assert_eq!(find(of, "context.c1").address, 1 | opens);
        assert_eq!(find(of, "context.c3").address, space::client(&[3, 4], opens));
        assert_eq!(find(of, "context.c4").address, 5 | space::SHARED_CLIENT, "it is open from the start");
        assert_eq!(find(of, "rings").physical, device.rings);
        assert_eq!(find(of, "tables").physical, find("gpu", "tables").physical);
        assert_ne!(find(of, "buffer.c2").physical, 0);
    }
    assert_eq!([find("server", "contexts").address, find("server", "each").address], [3, 2]);
    assert_eq!(find("server", "badge.c2").address, task("c2") as u64 + 1);
    assert_eq!(find("server", "control").physical, 0);
    assert!(!system.tasks[task("server")].environment.iter().any(|entry| entry.name == "badge.c4"));
    let ring = |name: &str| {
        let address = find("c3", name).address;
        system.regions.iter().find(|(_, region)| region.address == address).unwrap().1.physical - device.rings
    };
    assert_eq!([ring("ring"), ring("ring.2")], [2 * 4096, 3 * 4096]);
}

/// The demo with a second device, which `client` uses too.
fn two_devices(distance: &str) -> Manifest {
    let second = r#"
[tasks.far_driver]
binary = "apps/server"
class = "service"
period = "10ms"
budget = "1ms"
handles.far_line = "interrupt far: acknowledge"

[interrupts.far]
line = 73
notification = "event"

[devices.far]
driver = "far_driver"
firmware = "engine-core"
memory = "512KiB"

[engines.far_in]
device = "far"
index = 1
interrupt = "far"
"#;
    let text = DEMO.replacen("start = \"10ms\"", &format!("start = \"10ms\"\n{distance}"), 1);
    let text = text.replacen("handles.ee = ", "handles.far_in = \"engine far_in: acquire\"\nhandles.ee = ", 1) + second;
    Manifest::parse(Path::new("two.toml"), &text).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, and the second device is 2.2 times as far as a near one.
fn with_two_devices() -> Manifest {
    two_devices("distance = [[100, 220], [130, 500]]")
}

#[test]
fn a_client_of_two_devices_gets_each_by_name_and_each_driver_the_clients_memory_on_the_other() {
    let manifest = with_two_devices();
    let packed = packed(&manifest, None);
    let system = packed.system();
    let client = environment(&system, 0);
    for name in ["ring.gpu", "ring.far", "status.gpu", "status.far", "kick"] {
        entry(&client, name, kind::REGION);
    }
    for name in ["gpu_done.gpu", "gpu_done.far"] {
        entry(&client, name, kind::NOTIFICATION);
    }
    let parameter =
        |entries: &[&environment::Entry], name: &str| entry(entries, name, environment::kind::PARAMETER).address;
    assert_eq!((parameter(&client, "device.gpu"), parameter(&client, "device.far")), (0, 1));
    let robot = environment(&system, 4);
    entry(&robot, "ring", kind::REGION);
    entry(&robot, "gpu_done", kind::NOTIFICATION);

    // Of the first device's memory `client` has a half, of the second's all that one client can have.
    let [gpu, far] = [&manifest.system.devices[0], &manifest.system.devices[1]];
    let drivers = [environment(&system, 3), environment(&system, 5)];
    let of_far = entry(&drivers[0], "peer1.client", kind::REGION);
    assert_eq!((of_far.physical, of_far.bytes), (far.memory, 512 << 10));
    let of_gpu = entry(&drivers[1], "peer0.client", kind::REGION);
    assert_eq!((of_gpu.physical, of_gpu.bytes), (gpu.memory, 512 << 10));
    assert_eq!((parameter(&drivers[0], "context.client"), parameter(&drivers[1], "context.client")), (1, 1));
}

#[test]
fn without_distances_no_driver_knows_of_memory_on_another_device() {
    let manifest = two_devices("");
    let packed = packed(&manifest, None);
    let system = packed.system();
    let peers = |task| environment(&system, task).iter().filter(|entry| entry.name.starts_with(b"peer")).count();
    assert_eq!([peers(3), peers(5)], [0, 0]);
}

#[test]
fn what_a_device_may_reach_holds_nothing_that_is_a_devices_own() {
    let manifest = with_two_devices();
    let pool = manifest.system.board.memory.pool;
    for device in &manifest.system.devices {
        for other in &manifest.system.devices {
            let own = [other.control, other.status, other.doorbells, other.memory];
            assert!(own.iter().all(|page| *page >= device.system_end), "{own:x?}");
            assert!((pool..device.system_end).contains(&other.rings));
        }
    }
}

#[test]
fn the_firmware_is_told_of_all_devices_and_their_distances() {
    let manifest = with_two_devices();
    let packed = packed(&manifest, None);
    let system = packed.system();
    let blob = &system.bytes()[system.header().firmware_offset as usize..];
    let word = |index: usize| u64::from_le_bytes(blob[8 * index..][..8].try_into().unwrap());
    // The count, and then for each device fifteen words and eight distances.
    let ways = |device: usize| [0, 1, 2].map(|other| word(1 + 23 * device + 15 + other));
    assert_eq!((word(0), ways(0), ways(1)), (2, [0, 120, 0], [30, 400, 0]));
    let memory = [0, 1].map(|device| word(1 + 23 * device + 3));
    assert_eq!(memory, [0, 1].map(|device: usize| manifest.system.devices[device].memory));
}

#[test]
fn doorbells_are_held_back_only_where_locks_are_enforced() {
    let manifest = manifest();
    for (managed, expected) in [(None, mapping::HELD_BACK), (Some(false), 0)] {
        let packed = packed(&manifest, managed);
        let system = packed.system();
        assert_eq!(system.header().flags & FLAG_MANAGED != 0, expected != 0);
        assert_eq!(system.engine_users().len(), 2);
        for user in system.engine_users() {
            let mut mappings = system.mappings().iter();
            let page = mappings.find(|one| one.task == user.task && one.address == user.address).unwrap();
            assert_eq!(page.flags & mapping::HELD_BACK, expected);
            assert_eq!(page.physical, user.doorbell);
        }
    }
    let device = &manifest.system.devices[0];
    let user = manifest.system.engine_users[1];
    assert_eq!(user.doorbell, device.doorbells + 2 * 4096);
    assert_eq!(user.progress, device.status + 2 * 8);
}

#[test]
fn a_sharer_has_doorbells_and_shadows_of_its_clients_which_have_their_shadows_held_back() {
    let shares = DEMO.replacen("copies = 2\n", "copies = 2\nhandles.ee = \"engine ee: share\"\n", 1);
    let sharer = "[tasks.sharer]\nbinary = \"apps/server\"\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n\
                  handles.asks = \"endpoint asks: receive\"\n[endpoints.asks]\nserver = \"sharer\"\n";
    let text = format!("{shares}shared_longest = \"1ms\"\nsharer = \"asks\"\n{sharer}");
    let manifest = Manifest::parse(Path::new("shares.toml"), &text).unwrap_or_else(|error| panic!("{error}"));
    let packed = packed(&manifest, None);
    let system = packed.system();
    let engine = &system.engines()[0];
    assert_eq!((engine.sharer_plus_one, engine.first_member, engine.members), (2, 0, 2));
    let entry = entry(&environment(&system, 5), "doorbells.ee", kind::DOORBELLS);
    assert_eq!((entry.address, entry.bytes), (layout::members(0), 4 * image::PAGE));
    let at = |task: u32, address: u64| {
        *system.mappings().iter().find(|one| one.task == task && one.address == address).unwrap()
    };
    let writable = mapping::READ | mapping::WRITE;
    for (number, user) in (0..).zip(system.shared_users()) {
        let doorbell = at(user.task, user.address);
        let shadow = at(user.task, user.address + image::PAGE);
        assert_eq!(doorbell.flags & (mapping::WRITE | mapping::HELD_BACK), 0, "it may be read at boot");
        assert_eq!(shadow.flags, writable | mapping::FILL | mapping::HELD_BACK);
        for (place, client) in [(number, doorbell), (2 + number, shadow)] {
            let own = at(5, entry.address + place * image::PAGE);
            assert_eq!((own.physical, own.pages, own.flags), (client.physical, 1, writable));
        }
        let has = |one: &&image::Mapping| {
            one.physical <= shadow.physical && shadow.physical < one.physical + one.pages * image::PAGE
        };
        let is_memory = |one: &&image::Mapping| one.flags & (mapping::IN_IMAGE | mapping::TRACE) == 0;
        assert_eq!(system.mappings().iter().filter(is_memory).filter(has).count(), 2, "it is theirs alone");
    }
}

#[test]
fn a_place_has_the_regions_address_and_a_scratch_page_of_its_task() {
    let lends = DEMO.replacen("shared: read write", "shared: read write lend", 1);
    let text = lends.replacen("shared: read physical", "shared: read lent", 1);
    let manifest = Manifest::parse(Path::new("loans.toml"), &text).unwrap_or_else(|error| panic!("{error}"));
    let packed = packed(&manifest, None);
    let system = packed.system();
    let region = &system.regions()[0];
    let place = entry(&environment(&system, 3), "shared", environment::kind::PLACE);
    assert_eq!((place.address, place.bytes, place.physical), (region.address, region.bytes, 0));
    let is_there = |one: &&image::Mapping| one.task == 3 && one.address == region.address;
    let [scratch, lent] = system.mappings().iter().filter(is_there).collect::<Vec<_>>()[..] else {
        panic!("a place has two sides");
    };
    assert_eq!((lent.flags, lent.physical), (mapping::READ | mapping::LENT, region.physical));
    assert_eq!(scratch.flags, mapping::READ | mapping::SCRATCH | mapping::FILL);
    assert_eq!((scratch.pages, lent.pages), (2, 2));
    let is_taken = |one: &image::Mapping| {
        one.flags & mapping::IN_IMAGE == 0
            && one.flags & mapping::SCRATCH == 0
            && (one.physical..one.physical + one.pages * image::PAGE).contains(&scratch.physical)
    };
    assert!(!system.mappings().iter().any(is_taken), "nobody else has the scratch page");
    let rights_of =
        |task: u32| system.handles().iter().find(|one| one.task == task && one.kind == kind::REGION).unwrap();
    assert_eq!(rights_of(0).rights, rights::READ | rights::WRITE | rights::LEND);
    assert_eq!(rights_of(3).rights, rights::READ | rights::LENT);
}

#[test]
fn a_script_becomes_steps() {
    let packed = packed(&manifest(), None);
    let system = packed.system();
    let robot = environment(&system, 4);
    let script = entry(&robot, "script", environment::kind::SCRIPT);
    let page = system.mappings().iter().find(|one| one.task == 4 && one.address == layout::SCRIPT).unwrap();
    let bytes = &system.bytes()[page.physical as usize..][..script.bytes as usize];
    let steps = <[Step]>::ref_from_bytes(bytes).unwrap();
    let done = entry(&robot, "gpu_done", kind::NOTIFICATION).handle;
    let engine = entry(&robot, "ee", kind::ENGINE).handle;
    let step = |operation, handle, value| Step { operation, selector: 0, handle, value };
    assert_eq!(
        steps,
        [
            step(operation::ACQUIRE, engine, 0),
            step(operation::SUBMIT, done, 3_000_000),
            step(operation::RELEASE, engine, 0),
            step(operation::BURN, 0, 1_000_000),
        ]
    );
}

#[test]
fn the_firmware_follows_its_description() {
    let packed = packed(&manifest(), None);
    let header = packed.system().header();
    assert_eq!(header.firmware_entry, 0x4b00_0000);
    assert_eq!(header.firmware_load, 0x4b00_0000 - image::PAGE);
    assert_eq!(header.firmware_argument, header.firmware_load);
    let blob = &packed.bytes()[header.firmware_offset as usize..][..header.firmware_bytes as usize];
    assert_eq!(&blob[4096..4104], b"firmware");
    // Zeroed memory is part of it.
    assert_eq!(blob.len(), 4096 + 0x1000 + 64);
}

#[test]
fn without_programs_the_tables_are_the_same() {
    let manifest = manifest();
    let options = PackOptions { cpu_stride: 1, managed: None };
    let tables = manifest.pack_tables(options).unwrap_or_else(|error| panic!("{error}"));
    let system = tables.system();
    assert_eq!(system.tasks().len(), 5);
    assert_eq!(system.handles().len(), packed(&manifest, None).system().handles().len());
    assert_eq!(system.header().flags & FLAG_ENGINE_CPU, 0);
}

//! Times of GPU kernels that were measured: the file beside the manifest, its consequences, and its mistakes.

use std::path::{Path, PathBuf};

use fusee_manifest::times::{KernelTime, TimeTable};
use fusee_manifest::{Manifest, PackOptions, Time, Variant};

const CLIENT: &str = r#"[system]
name = "gpu"
board = "virt"
cpus = 1
[tasks.client]
binary = "a/client"
period = "20ms"
budget = "8ms"
handles = { ee = "engine ee0: acquire" }
uses.ee = { cpu = "100us", operation = { kernel = "median", blocks = 3 } }
"#;

/// A device, with its driver.
fn device(number: usize) -> String {
    format!(
        r#"[tasks.driver{number}]
binary = "a/driver"
class = "service"
period = "10ms"
budget = "1ms"
handles = {{ line = "interrupt line{number}: acknowledge", event = "notification event{number}: wait" }}
[notifications.event{number}]
[interrupts.line{number}]
line = {line}
notification = "event{number}"
edge = true
[devices.gpu{number}]
driver = "driver{number}"
firmware = "engine-core"
copy_engines = 0
times = "gpu.times.toml"
[engines.ee{number}]
device = "gpu{number}"
index = 0
interrupt = "line{number}"
"#,
        line = 112 + number
    )
}

/// A client, and its device.
fn system() -> String {
    CLIENT.to_owned() + &device(0)
}

const TIMES: &str = r#"margin = 50
[[kernels]]
name = "median"
identity = 0x00000007
class = 9
launches = 1
longest = "1000ns"
[[kernels]]
name = "median"
identity = 0x00000007
class = 10
launches = 1
longest = "500ns"
"#;

/// A folder with this file of times, or with none.
fn folder(name: &str, times: Option<&str>) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("gpu.times.toml");
    let _ = std::fs::remove_file(&path);
    if let Some(times) = times {
        std::fs::write(path, times).unwrap();
    }
    folder
}

fn read(text: &str, folder: PathBuf, measures: bool) -> Result<Manifest, String> {
    let variant = Variant { folder: Some(folder), measures, ..Variant::default() };
    Manifest::parse_variant(Path::new("m.toml"), text, &variant).map_err(|errors| errors.to_string())
}

/// Nanoseconds that the client's engine works in one of its holds.
fn operation(manifest: &Manifest) -> u64 {
    manifest.system.engine_holds.iter().flatten().map(|hold| hold.hold.operation.0).max().unwrap()
}

#[test]
fn a_hold_is_as_long_as_the_blocks_of_the_longest_class_or_of_that_which_is_named() {
    let with = folder("known", Some(TIMES));
    let manifest = read(&system(), with.clone(), false).unwrap();
    // Eight times the time of a block, and half of it more; the setup.
    assert_eq!(operation(&manifest), 40_000 + 3 * 12_000);
    let of_class = system().replace("blocks = 3", "class = 10, blocks = 3");
    assert_eq!(operation(&read(&of_class, with, false).unwrap()), 40_000 + 3 * 6_000);
    let times = manifest.system.devices[0].times.clone();
    assert_eq!(times, Some(vec![(7, 9, 12_000), (7, 10, 6_000)]));
    manifest.pack_tables(PackOptions { cpu_stride: 1, managed: None }).unwrap();
}

#[test]
fn a_system_that_measures_needs_no_times() {
    let manifest = read(&system(), folder("measures", None), true).unwrap();
    assert_eq!((operation(&manifest), &manifest.system.devices[0].times), (40_000, &None));
    // Where no file is named nothing is measured.
    let none =
        system().replace("times = \"gpu.times.toml\"\n", "").replace("{ kernel = \"median\", blocks = 3 }", "\"1ms\"");
    assert_eq!(read(&none, folder("none", None), true).unwrap().system.devices[0].times, Some(vec![]));
}

#[test]
fn what_is_wrong_with_times_is_named() {
    let known = || folder("wrong", Some(TIMES));
    for (text, folder, expected) in [
        (system(), folder("gone", None), "m.toml:26: `gpu.times.toml`: No such file"),
        (system(), folder("bad", Some("margin = 1000")), "m.toml:26: `gpu.times.toml`: a margin of 1000 %"),
        (
            system().replace("gpu.times", "../gpu.times"),
            known(),
            "m.toml:26: `../gpu.times.toml` is not the name of a file beside",
        ),
        (system().replace("\"median\"", "\"medium\""), known(), "names); did you mean `median`?"),
        (
            system().replace("blocks = 3", "class = 3, blocks = 3"),
            known(),
            "m.toml:10: nothing was measured of class 3 of kernel `median`",
        ),
        (system().replace("blocks = 3", "blocks = 0"), known(), "m.toml:10: number of blocks of `client` is zero"),
        (system().replace("blocks = 3", "block = 3"), known(), "unknown key `block`"),
        (system().replace("{ kernel = \"median\", blocks = 3 }", "\"1.5ms\""), known(), "write \"1500us\""),
        (system().replace("{ kernel = \"median\", blocks = 3 }", "3"), known(), "blocks = 12"),
    ] {
        let errors = read(&text, folder, false).unwrap_err();
        assert!(errors.contains(expected), "{expected}\n{errors}");
    }
}

#[test]
fn the_engine_cpu_is_told_of_so_many_times_and_no_more() {
    let row =
        |class| format!("[[kernels]]\nname = \"k\"\nidentity = 7\nclass = {class}\nlaunches = 1\nlongest = \"9ns\"\n");
    let rows = |count| (0..count).map(row).collect::<String>();
    let with = |count: u32| folder("many", Some(&("margin = 0\n".to_owned() + &rows(count))));
    let client = system().replace("{ kernel = \"median\", blocks = 3 }", "\"1ms\"");
    let text = client + &device(1) + &device(2) + &device(3);
    let manifest = read(&text, with(40), false).unwrap();
    manifest.pack_tables(PackOptions { cpu_stride: 1, managed: None }).unwrap();
    let errors = read(&text, with(41), false).unwrap_err();
    assert!(errors.contains("more than 160 classes of launches"), "{errors}");
    let errors = read(&text, with(45), false).unwrap_err();
    assert!(errors.contains("45 classes, and a device has room for 44"), "{errors}");
}

fn measured(name: &str, identity: u32, class: u32, longest: u64) -> KernelTime {
    KernelTime { name: name.into(), identity, class, launches: 3, longest: Time(longest) }
}

#[test]
fn what_is_written_is_read_again() {
    let table = TimeTable { margin: 30, kernels: vec![measured("median", 7, 9, 1_234), measured("median", 7, 10, 99)] };
    assert_eq!(TimeTable::parse(&table.text()), Ok(table));
    assert_eq!(TimeTable::parse(&TimeTable::default().text()), Ok(TimeTable::default()));
}

#[test]
fn a_launch_takes_the_longest_block_of_its_class_with_the_margin_as_often_as_it_has_blocks() {
    let table = TimeTable { margin: 25, kernels: vec![measured("median", 7, 9, 1_001), measured("median", 7, 10, 99)] };
    assert_eq!(table.block(&table.kernels[0]), 10_010);
    assert_eq!(table.launch("median", None, 3), Some(40_000 + 3 * 10_010));
    assert_eq!(table.launch("median", Some(10), 3), Some(40_000 + 3 * 990));
    assert_eq!(table.launch("median", Some(11), 3), None);
    assert_eq!(table.launch("mean", None, 3), None);
}

#[test]
fn what_is_measured_anew_replaces_its_class_and_all_of_a_kernel_that_has_changed() {
    let old = vec![measured("a", 1, 1, 10), measured("a", 1, 2, 20), measured("b", 2, 1, 30), measured("c", 3, 1, 40)];
    let mut table = TimeTable { margin: 25, kernels: old };
    table.update(vec![measured("b", 5, 4, 1), measured("a", 1, 2, 7)]);
    let expected = [measured("a", 1, 1, 10), measured("a", 1, 2, 7), measured("b", 5, 4, 1), measured("c", 3, 1, 40)];
    assert_eq!(table.kernels, expected);
}

#[test]
fn a_table_that_is_none_says_why() {
    for (text, why) in [
        ("", "margin"),
        ("margin = 901", "a margin of 901 %"),
        ("margin = 1\n[[kernels]]\nname = \"a\"", "identity"),
        ("margin = 1\nextra = 2", "extra"),
    ] {
        let error = TimeTable::parse(text).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

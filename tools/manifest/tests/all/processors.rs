#![allow(missing_docs)]
//! Devices that are a processor of the board: the handles of their drivers, and refusals.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::{Segment, elf};
use fusee_abi::environment::{self, device};
use fusee_abi::image::{FLAG_ENGINE_CPU, System, kind, mapping};
use fusee_manifest::{Binaries, Board, Manifest, PackOptions, Reason, layout};
use zerocopy::FromBytes;

const SYSTEM: &str = include_str!("../../../../tests/target/a_cortex_r5f_computes_what_a_device_model_does.toml");

fn parse(text: &str) -> Result<Manifest, Vec<String>> {
    Manifest::parse(Path::new("m.toml"), text)
        .map_err(|errors| errors.0.iter().map(|error| error.reason.to_string()).collect())
}

/// A program for a 32-bit Arm processor with one segment, `code`, at `address`, which takes `bytes` in memory.
fn arm(address: u32, code: &[u8], bytes: u32) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([2_u16, 40].into_iter().flat_map(u16::to_le_bytes));
    file.extend([1, address, 52, 0, 0x0500_0200].into_iter().flat_map(u32::to_le_bytes));
    file.extend([52_u16, 32, 1, 40, 0, 0].into_iter().flat_map(u16::to_le_bytes));
    let segment = [1, 84, address, address, code.len() as u32, bytes, 5, 4];
    file.extend(segment.into_iter().flat_map(u32::to_le_bytes));
    file.extend(code);
    file
}

fn binaries(firmware: Vec<u8>) -> Binaries {
    let program = elf(&[Segment(5, 0x20_0000, b"text", 4)]);
    let tasks = ["apps/dsp", "r5f-driver/r5f-driver", "r5f-driver/door"].map(|name| (name.to_owned(), program.clone()));
    tasks.into_iter().chain([("r5f-firmware".to_owned(), firmware)]).collect()
}

const OPTIONS: PackOptions = PackOptions { cpu_stride: 1, managed: None };

#[test]
fn the_driver_gets_processor_and_firmware_and_no_cpu_is_taken_from_the_kernel() {
    let manifest = parse(SYSTEM).unwrap();
    assert!(!manifest.system.has_engine_cpu());
    let packed = manifest.pack(&binaries(arm(0, b"first instructions", 40)), OPTIONS).unwrap();
    let system = System::parse(packed.bytes()).unwrap();
    assert_eq!(system.header().flags & FLAG_ENGINE_CPU, 0);

    let driver = manifest.system.tasks.iter().position(|task| task.name == "dsp").unwrap() as u32;
    let mappings =
        |address: u64| system.mappings().iter().find(move |one| one.task == driver && one.address == address).unwrap();
    let page = mappings(layout::ENVIRONMENT);
    let page = &system.bytes()[page.physical as usize..][..4096];
    let (header, rest) = environment::Header::ref_from_prefix(page).unwrap();
    let (entries, _) = <[environment::Entry]>::ref_from_prefix_with_elems(rest, header.entries as usize).unwrap();
    let entry = |name: &str| {
        let is_it = |entry: &&environment::Entry| entry.kind == kind::REGION && entry.name.starts_with(name.as_bytes());
        entries.iter().find(is_it).unwrap()
    };

    // All of the firmware, zeros included, to be read.
    let firmware = entry("firmware");
    assert_eq!((firmware.address, firmware.bytes), (layout::FIRMWARE, 40));
    let place = mappings(firmware.address);
    assert_eq!(place.flags, mapping::READ | mapping::IN_IMAGE);
    let mut expected = b"first instructions".to_vec();
    expected.resize(40, 0);
    assert_eq!(&system.bytes()[place.physical as usize..][..40], expected);

    let board = Board::named("versal").unwrap();
    let processor = &board.devices["rpu0"];
    assert_eq!((entry("reset").flags, mappings(entry("reset").address).physical), (device::R5F, processor.at));
    let program = mappings(entry("program").address);
    assert_eq!(Some(program.physical), processor.memory);
    assert!(
        program.flags & mapping::DEVICE != 0 && program.flags & mapping::FILL == 0,
        "what is there is not the kernel's to zero"
    );
}

#[test]
fn a_task_with_a_device_that_nothing_confines_is_named() {
    let named = |text: &str| {
        let system = parse(text).unwrap().system;
        let tasks: BTreeSet<String> = system.reaching_all_memory().iter().map(|(task, _)| (*task).to_owned()).collect();
        tasks.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(named(SYSTEM), ["dsp"]);
    // Each task with a channel of the controller, too; but no task that may only read its registers.
    let with = |rights: &str| {
        let channel = format!("handles = {{ other = \"region other: {rights}\", ee");
        let text = SYSTEM.replacen("handles = { ee", &channel, 1) + "\n[regions.other]\ndevice = \"adma3\"\n";
        named(&text)
    };
    assert_eq!(with("read write"), ["dsp", "radio"]);
    assert_eq!(with("read"), ["dsp"]);
    let versal = Board::named("versal").unwrap();
    assert!(!versal.devices["uart0"].masters_memory() && versal.devices["adma3"].masters_memory());
}

#[test]
fn what_is_no_processor_or_somebody_elses_is_refused() {
    let instead = |from: &str, to: &str| parse(&SYSTEM.replacen(from, to, 1)).map(|_| ()).unwrap_err();
    assert_eq!(instead("\"rpu0\"", "\"uart0\""), ["device of `dsp` needs a processor of the board"]);
    assert_eq!(instead("\"rpu0\"", "\"rpu7\""), ["no device of the board is called `rpu7`; did you mean `rpu0`?"]);
    let preemptible = instead("copy_engines = 0", "copy_engines = 0\npreemptible = true");
    assert_eq!(preemptible, ["device of `dsp` means nothing together with `preemptible`"]);
    let other = "[devices.second]\ndriver = \"radio\"\nfirmware = \"r5f-firmware\"\ndevice = \"rpu0\"\ncopy_engines = 0\n[engines.ee]";
    assert_eq!(instead("[engines.ee]", other), ["processor of `second` is already taken by `dsp`"]);
    let again = "[supervisor]\ntask = \"radio\"\n\n[tasks.dsp]\nrestart = \"always\"";
    let goes_on = "driving a processor of the board, which goes on without it";
    assert_eq!(instead("[tasks.dsp]", again), [format!("restart of `dsp` means nothing together with {goes_on}")]);
}

#[test]
fn a_client_that_could_not_wake_the_driver_or_whose_buffer_it_does_not_know_is_refused() {
    let instead = |from: &str, to: &str| parse(&SYSTEM.replacen(from, to, 1)).map(|_| ()).unwrap_err();
    let kick = ["kick of `radio` needs \"endpoint NAME: call inside\": it is called while an engine is held"];
    assert_eq!(instead("call inside", "call"), kick);
    assert_eq!(instead("kick = \"endpoint", "door = \"endpoint"), kick);
    let buffer = "driver `dsp` of `dsp` needs a handle `buffer.radio`: \"region NAME: physical\", the region of `buffer` of `radio`";
    assert_eq!(instead("\"buffer.radio\"", "\"buffer.radios\""), [buffer]);
    // A client that has none works on memory of the device.
    let no_buffer = SYSTEM.replacen("buffer = \"region samples: read write\", ", "", 1);
    assert!(parse(&no_buffer).is_ok());
}

#[test]
fn a_board_without_the_processor_lacks_it() {
    let text = SYSTEM.replacen("board = \"versal\"", "board = \"zcu102\"", 1);
    let errors = Manifest::parse(Path::new("m.toml"), &text).unwrap_err().0;
    assert!(errors.iter().all(|error| matches!(error.reason, Reason::BoardLacks { .. })), "{errors:?}");
    assert!(errors.iter().any(|error| error.reason.to_string() == "board `zcu102` has no device `rpu0`"), "{errors:?}");
}

#[test]
fn firmware_for_another_machine_or_place_is_refused() {
    let manifest = parse(SYSTEM).unwrap();
    let refused = |firmware| manifest.pack(&binaries(firmware), OPTIONS).map(|_| ()).unwrap_err().reason.to_string();
    let kernel_s = refused(elf(&[Segment(5, 0, b"text", 4)]));
    assert!(kernel_s.contains("r5f-firmware") && kernel_s.contains("not a 32-bit ELF file"), "{kernel_s}");
    let outside = refused(arm(0x7_fff0, b"code", 32));
    assert!(outside.contains("it is not linked between 0x0 and 0x80000"), "{outside}");
}

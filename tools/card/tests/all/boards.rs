//! The contents of the card of each board.

use std::fs;
use std::path::Path;

use fusee_card::board::{BOARDS, Board, BoardError, IMAGE, Kernel, RASPBERRY_IMAGE};
use fusee_card::card::Card;
use fusee_card::script;

use crate::tools::{found, output};

const RASPBERRY_3: [&str; 5] =
    ["bootcode.bin", "start.elf", "fixup.dat", "bcm2710-rpi-3-b.dtb", "overlays/disable-bt.dtbo"];
const RASPBERRY_4: [&str; 4] = ["start4.elf", "fixup4.dat", "bcm2711-rpi-4-b.dtb", "overlays/disable-bt.dtbo"];

/// A header as Linux' booting.rst has it, and something behind.
fn image() -> Vec<u8> {
    let mut image = vec![0; 5000];
    image[8..16].copy_from_slice(&0x8_0000_u64.to_le_bytes());
    image[56..60].copy_from_slice(b"ARM\x64");
    image[4999] = 1;
    image
}

fn kernel() -> Kernel {
    Kernel::new(image(), 0x8_0000).unwrap()
}

fn names(card: &Card) -> Vec<&str> {
    card.files().map(|(name, _)| name).collect()
}

fn text(card: &Card, file: &str) -> String {
    String::from_utf8(card.image().unwrap().extract(file).unwrap()).unwrap()
}

fn firmware(folder: &Path, files: &[&str]) {
    fs::create_dir_all(folder.join("overlays")).unwrap();
    for file in files {
        fs::write(folder.join(file), format!("content of {file}")).unwrap();
    }
}

#[test]
fn a_raspberry_card_without_firmware_has_the_kernel_and_a_notice_of_what_is_missing() {
    for (board, expected) in [("raspi3b", &RASPBERRY_3[..]), ("raspi4b", &RASPBERRY_4)] {
        let laid_out = Board::named(board).unwrap().card(&kernel(), None).unwrap();
        assert_eq!(names(&laid_out.card), ["config.txt", RASPBERRY_IMAGE]);
        assert_eq!(laid_out.card.image().unwrap().extract("kernel8.img").unwrap(), image());
        let missing = laid_out.missing.unwrap();
        assert_eq!(missing.files, expected);
        let notice = missing.to_string();
        for file in expected {
            assert!(notice.contains(file), "{notice}");
        }
        assert!(notice.contains("https://github.com/raspberrypi/firmware, folder boot"), "{notice}");
    }
}

#[test]
fn a_raspberry_card_has_the_firmware_of_the_folder_and_its_licence_if_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    firmware(folder.path(), &RASPBERRY_4);
    // Of another board: not copied.
    firmware(folder.path(), &["start.elf", "kernel7.img"]);
    let board = Board::named("raspi4b").unwrap();
    let laid_out = board.card(&kernel(), Some(folder.path())).unwrap();
    assert_eq!(laid_out.missing, None);
    assert_eq!(names(&laid_out.card), [&RASPBERRY_4[..], &["config.txt", "kernel8.img"]].concat());
    for file in RASPBERRY_4 {
        assert_eq!(text(&laid_out.card, file), format!("content of {file}"));
    }
    firmware(folder.path(), &["LICENCE.broadcom"]);
    let laid_out = board.card(&kernel(), Some(folder.path())).unwrap();
    assert_eq!(text(&laid_out.card, "LICENCE.broadcom"), "content of LICENCE.broadcom");
}

#[test]
fn a_folder_that_lacks_firmware_is_refused_with_each_missing_file_and_the_source() {
    let folder = tempfile::tempdir().unwrap();
    firmware(folder.path(), &["bootcode.bin", "start.elf"]);
    let error = Board::named("raspi3b").unwrap().card(&kernel(), Some(folder.path())).unwrap_err();
    let message = error.to_string();
    let BoardError::FirmwareIncomplete { files, .. } = error else { panic!("{error}") };
    assert_eq!(files, ["fixup.dat", "bcm2710-rpi-3-b.dtb", "overlays/disable-bt.dtbo"]);
    let expected = format!(
        "{} has no fixup.dat, bcm2710-rpi-3-b.dtb, overlays/disable-bt.dtbo\nThe firmware is not part of Fusee. \
         Its maker publishes it: https://github.com/raspberrypi/firmware, folder boot",
        folder.path().display()
    );
    assert_eq!(message, expected);
}

#[test]
fn a_raspberrys_firmware_is_told_64_bits_the_load_address_and_the_pins() {
    let kernel = Kernel::new(image(), 0x28_0000).unwrap();
    for board in ["raspi3b", "raspi4b"] {
        let laid_out = Board::named(board).unwrap().card(&kernel, None).unwrap();
        let config = text(&laid_out.card, "config.txt");
        let settings: Vec<&str> = config.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "arm_64bit=1",
            "kernel=kernel8.img",
            "kernel_address=0x280000",
            "disable_commandline_tags=1",
            "enable_uart=1",
            "dtoverlay=disable-bt",
            "init_uart_clock=48000000",
            "init_uart_baud=115200",
        ];
        assert_eq!(settings, expected);
        // Longer lines are cut off by older firmware.
        assert!(config.lines().all(|line| line.len() <= 98), "{config}");
    }
}

#[test]
fn a_card_for_u_boot_has_a_script_that_loads_the_image_and_enters_it() {
    for board in ["zcu102", "versal"] {
        let laid_out = Board::named(board).unwrap().card(&kernel(), None).unwrap();
        assert_eq!(laid_out.missing, None);
        assert_eq!(names(&laid_out.card), ["boot.scr", IMAGE]);
        let on_card = laid_out.card.image().unwrap();
        assert_eq!(on_card.extract(IMAGE).unwrap(), image());
        let script = on_card.extract("boot.scr").unwrap();
        let text = String::from_utf8(script[72..].to_vec()).unwrap();
        let load =
            "load ${devtype} ${devnum}:${distro_bootpart} 0x80000 fusee.img && booti 0x80000 - ${fdtcontroladdr}";
        assert_eq!(text.lines().nth(1), Some(load));
    }
}

#[test]
fn boards_without_a_card_are_named_with_those_that_have_one() {
    let error = Board::named("virt-gicv2").unwrap_err().to_string();
    assert_eq!(error, "no card is known for board `virt-gicv2`; there are: raspi3b, raspi4b, zcu102, versal, virt");
    for board in BOARDS {
        assert_eq!(Board::named(board.name).unwrap().name, board.name);
    }
}

#[test]
fn what_no_boot_loader_would_enter_or_leave_in_its_place_is_refused() {
    assert!(matches!(Kernel::new(b"\x7fELF".to_vec(), 0x8_0000), Err(BoardError::NotAnImage)));
    assert!(matches!(Kernel::new(vec![0; 5000], 0x8_0000), Err(BoardError::NotAnImage)));
    for load_address in [0, 0x8_1000, 0x10_0000, u64::MAX] {
        let error = Kernel::new(image(), load_address).unwrap_err();
        assert!(matches!(error, BoardError::Misplaced { text_offset: 0x8_0000, .. }), "{load_address:#x}: {error}");
    }
    Kernel::new(image(), 0x4008_0000).unwrap();
}

/// CRC-32 as it is defined: a bit at a time.
fn check(bytes: &[u8]) -> u32 {
    let bits = |check: u32, _| if check & 1 == 1 { check >> 1 ^ 0xedb8_8320 } else { check >> 1 };
    !bytes.iter().fold(!0, |check, byte| (0..8).fold(check ^ u32::from(*byte), bits))
}

#[test]
fn a_script_has_the_published_header() {
    assert_eq!(check(b"123456789"), 0xcbf4_3926);
    let wrapped = script::wrap("echo hello\n");
    let word = |at: usize| u32::from_be_bytes(wrapped[at..at + 4].try_into().unwrap());
    let mut header = wrapped[..64].to_vec();
    header[4..8].fill(0);
    assert_eq!(word(0), 0x2705_1956);
    assert_eq!(word(4), check(&header));
    assert_eq!([word(8), word(16), word(20)], [0; 3]);
    assert_eq!(word(12) as usize, wrapped.len() - 64);
    assert_eq!(word(24), check(&wrapped[64..]));
    assert_eq!(wrapped[28..32], [5, 22, 6, 0]);
    assert_eq!((word(64), word(68)), (11, 0));
    assert_eq!(&wrapped[72..], b"echo hello\n");
}

#[test]
fn u_boots_own_tool_makes_the_same_script_and_reads_ours() {
    let test = "u_boots_own_tool_makes_the_same_script_and_reads_ours";
    let Some(mut mkimage) = found("mkimage", "u-boot-tools", test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, theirs, ours) = (folder.path().join("text"), folder.path().join("theirs"), folder.path().join("ours"));
    let text = "echo one\nload ${devtype} ${devnum}:1 0x80000 fusee.img\n";
    fs::write(&source, text).unwrap();
    fs::write(&ours, script::wrap(text)).unwrap();
    mkimage
        .env("SOURCE_DATE_EPOCH", "0")
        .args(["-A", "arm64", "-O", "linux", "-T", "script", "-C", "none", "-n", "Fusee"]);
    output(mkimage.arg("-d").arg(&source).arg(&theirs));
    assert!(fs::read(&theirs).unwrap() == fs::read(&ours).unwrap());
    let listed = output(found("mkimage", "u-boot-tools", test).unwrap().arg("-l").arg(&ours));
    let listed = String::from_utf8(listed).unwrap();
    assert!(listed.contains("AArch64 Linux Script (uncompressed)"), "{listed}");
}

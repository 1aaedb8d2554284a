//! Which devices are refused, and how the others are written. The machine is a folder, and its devices are files.

use std::fs;
use std::io::Cursor;
use std::os::unix::fs::symlink;
use std::path::Path;

use fusee_card::card::Card;
use fusee_card::device::{Confirmed, DeviceError, Step, Target};
use fusee_card::host::{Disk, Host, Refusal, Use, User};
use fusee_card::image::Image;
use tempfile::TempDir;

/// Bytes of the card in the USB reader: twice those of an image.
const CARD_BYTES: u64 = 128 << 20;
const IMAGE_BYTES: u64 = 64 << 20;

/// A machine with a system disk `sda`, a USB reader `sdb` with a card, and additions of a test.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        machine.write("proc/self/mountinfo", "22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/root rw\n");
        machine.write("proc/swaps", "Filename\t\tType\t\tSize\tUsed\tPriority\n/dev/sda3 partition 1000 0 -2\n");
        machine.disk("sda", "8:0", 1 << 40, false);
        machine.identify("sda", &[("vendor", "ATA     "), ("model", "Fast SSD"), ("serial", "S1")]);
        for (part, number) in [("sda1", "8:1"), ("sda2", "8:2"), ("sda3", "8:3")] {
            machine.part("sda", part, number);
        }
        machine.disk("sdb", "8:16", CARD_BYTES, true);
        machine.identify("sdb", &[("vendor", "Generic"), ("model", "Reader"), ("vpd_pg80", "\0\u{1}\0\u{4}0042")]);
        machine.part("sdb", "sdb1", "8:17");
        fs::File::create(machine.folder.path().join("dev/sdb")).unwrap().set_len(CARD_BYTES).unwrap();
        machine
    }

    fn host(&self) -> Host {
        Host::below(self.folder.path())
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn disk(&self, name: &str, number: &str, bytes: u64, is_removable: bool) {
        self.write(&format!("sys/block/{name}/size"), &format!("{}\n", bytes / 512));
        self.write(&format!("sys/block/{name}/removable"), if is_removable { "1\n" } else { "0\n" });
        self.write(&format!("sys/block/{name}/ro"), "0\n");
        self.write(&format!("sys/block/{name}/dev"), &format!("{number}\n"));
        self.write(&format!("dev/{name}"), "");
    }

    fn identify(&self, disk: &str, attributes: &[(&str, &str)]) {
        for (file, text) in attributes {
            self.write(&format!("sys/block/{disk}/device/{file}"), &format!("{text}\n"));
        }
    }

    fn part(&self, disk: &str, name: &str, number: &str) {
        self.write(&format!("sys/block/{disk}/{name}/partition"), "1\n");
        self.write(&format!("sys/block/{disk}/{name}/dev"), &format!("{number}\n"));
        self.write(&format!("dev/{name}"), "");
    }

    fn mount(&self, line: &str) {
        let path = self.folder.path().join("proc/self/mountinfo");
        fs::write(&path, fs::read_to_string(&path).unwrap() + line + "\n").unwrap();
    }

    fn target(&self, device: &str, named: Option<&str>) -> Result<Target, Refusal> {
        self.host().target(Path::new(device), IMAGE_BYTES, named)
    }

    fn refusal(&self, device: &str) -> Refusal {
        self.target(device, None).unwrap_err()
    }

    fn confirmed(&self) -> Confirmed {
        self.target("/dev/sdb", None).unwrap().ask(&mut Cursor::new("sdb\n"), &mut Vec::new()).unwrap()
    }

    /// The contents of the card in the reader.
    fn card(&self) -> Vec<u8> {
        fs::read(self.folder.path().join("dev/sdb")).unwrap()
    }

    fn is_untouched(&self) -> bool {
        self.card().iter().all(|byte| *byte == 0)
    }
}

fn uses(refusal: Refusal) -> Vec<Use> {
    let Refusal::InUse { uses, .. } = refusal else { panic!("{refusal}") };
    uses
}

fn used(part: &str, by: User) -> Use {
    Use { part: part.to_owned(), by }
}

fn image() -> Image {
    let mut card = Card::new();
    card.add("kernel8.img", (0..100_000_u32).map(|index| index as u8).collect()).unwrap();
    card.image().unwrap()
}

#[test]
fn a_removable_disk_that_is_free_passes_and_says_what_it_is() {
    let machine = Machine::new();
    let target = machine.target("/dev/sdb", None).unwrap();
    let expected = Disk {
        name: "sdb".to_owned(),
        model: Some("Generic Reader".to_owned()),
        serial: Some("0042".to_owned()),
        bytes: CARD_BYTES,
        is_removable: true,
        is_read_only: false,
        is_hardware: true,
        number: "8:16".to_owned(),
    };
    assert_eq!(target.disk(), &expected);
    assert_eq!(target.disk().to_string(), "/dev/sdb (Generic Reader, serial number 0042, 0.134 GB)");
    assert_eq!(machine.host().choices(), [expected]);
}

#[test]
fn a_link_leads_to_its_disk() {
    let machine = Machine::new();
    let links = machine.folder.path().join("dev/disk/by-id");
    fs::create_dir_all(&links).unwrap();
    symlink("../../sdb", links.join("usb-card")).unwrap();
    symlink("../../sda", links.join("ata-disk")).unwrap();
    assert_eq!(machine.target("/dev/disk/by-id/usb-card", None).unwrap().disk().name, "sdb");
    assert!(matches!(machine.refusal("/dev/disk/by-id/ata-disk"), Refusal::InUse { .. }));
}

#[test]
fn a_disk_with_a_mounted_partition_is_refused_with_the_place_and_the_command() {
    let machine = Machine::new();
    machine.mount("40 22 8:17 / /media/my\\040card rw shared:2 - vfat /dev/sdb1 rw");
    let refusal = machine.refusal("/dev/sdb");
    let message = refusal.to_string();
    assert_eq!(uses(refusal), [used("sdb1", User::Mount("/media/my card".into()))]);
    assert_eq!(
        message,
        "/dev/sdb (Generic Reader, serial number 0042, 0.134 GB) is in use: sdb1 is mounted at /media/my card; \
         if it is the card: umount /media/my card"
    );
}

#[test]
fn a_mount_is_found_by_the_devices_number_and_by_its_name() {
    for line in [
        // A name that leads nowhere.
        "40 22 8:16 / /mnt rw - ext4 /dev/root rw",
        // A number that the file system made up, and a name.
        "40 22 0:35 /home /mnt rw - btrfs /dev/sdb rw",
    ] {
        let machine = Machine::new();
        machine.mount(line);
        assert_eq!(uses(machine.refusal("/dev/sdb")), [used("sdb", User::Mount("/mnt".into()))], "{line}");
    }
}

#[test]
fn the_disk_of_the_running_system_and_of_its_swap_is_refused_even_by_its_name() {
    let machine = Machine::new();
    let expected = [used("sda2", User::Root), used("sda3", User::Swap)];
    for named in [None, Some("S1")] {
        let refusal = machine.target("/dev/sda", named).unwrap_err();
        let message = refusal.to_string();
        assert_eq!(uses(refusal), expected);
        assert!(
            message.contains("sda2 holds the running system, sda3 is swap space; free are: /dev/sdb ("),
            "{message}"
        );
    }
}

#[test]
fn a_disk_that_others_are_made_of_is_refused() {
    let machine = Machine::new();
    fs::create_dir_all(machine.folder.path().join("sys/block/sdb/sdb1/holders/dm-0")).unwrap();
    assert_eq!(uses(machine.refusal("/dev/sdb")), [used("sdb1", User::Holder("dm-0".to_owned()))]);
    let machine = Machine::new();
    fs::create_dir_all(machine.folder.path().join("sys/block/sdb/holders/md0")).unwrap();
    assert_eq!(uses(machine.refusal("/dev/sdb")), [used("sdb", User::Holder("md0".to_owned()))]);
}

#[test]
fn a_partition_is_refused_with_its_disk() {
    let refusal = Machine::new().refusal("/dev/sdb1");
    let message = refusal.to_string();
    assert!(matches!(refusal, Refusal::Partition { disk, .. } if disk == "sdb"));
    assert!(message.starts_with("/dev/sdb1 is a partition of /dev/sdb, and a card is a whole disk"), "{message}");
}

#[test]
fn what_is_no_disk_is_refused_with_those_that_would_do() {
    let machine = Machine::new();
    machine.write("dev/tty", "");
    machine.write("home/card.img", "");
    for (device, reason) in [
        ("/dev/sdx", "there is no such device"),
        ("/dev/tty", "it is no disk"),
        ("/home/card.img", "there is no such device"),
        ("/dev", "there is no such device"),
        ("/dev/../home/card.img", "there is no such device"),
    ] {
        let message = machine.refusal(device).to_string();
        let choices = "free are: /dev/sdb (Generic Reader, serial number 0042, 0.134 GB)";
        assert_eq!(message, format!("{device}: {reason}; {choices}"));
    }
    machine.write("sys/block/sdb/removable", "0");
    assert_eq!(machine.refusal("/dev/sdx").to_string(), "/dev/sdx: there is no such device; no removable disk is free");
}

#[test]
fn a_reader_without_a_card_is_refused() {
    let machine = Machine::new();
    machine.write("sys/block/sdb/size", "0\n");
    assert!(matches!(machine.refusal("/dev/sdb"), Refusal::NoMedium { disk } if disk.name == "sdb"));
}

#[test]
fn a_disk_without_hardware_is_refused() {
    let machine = Machine::new();
    machine.disk("loop0", "7:0", CARD_BYTES, true);
    assert!(matches!(machine.refusal("/dev/loop0"), Refusal::NoHardware { disk } if disk.name == "loop0"));
}

#[test]
fn a_card_whose_switch_is_locked_is_refused() {
    let machine = Machine::new();
    machine.write("sys/block/sdb/ro", "1\n");
    assert!(matches!(machine.refusal("/dev/sdb"), Refusal::ReadOnly { .. }));
}

#[test]
fn a_card_that_is_smaller_than_the_image_is_refused() {
    let machine = Machine::new();
    machine.write("sys/block/sdb/size", &format!("{}\n", IMAGE_BYTES / 512));
    let _ = machine.target("/dev/sdb", None).unwrap();
    machine.write("sys/block/sdb/size", &format!("{}\n", IMAGE_BYTES / 512 - 1));
    assert!(matches!(machine.refusal("/dev/sdb"), Refusal::TooSmall { needed: IMAGE_BYTES, .. }));
}

#[test]
fn a_disk_that_is_not_removable_passes_by_its_model_or_serial_number_only() {
    let machine = Machine::new();
    machine.disk("sdd", "8:48", CARD_BYTES, false);
    machine.identify("sdd", &[("model", "Backup Disk"), ("serial", "77-ABC")]);
    let refusal = machine.refusal("/dev/sdd");
    let message = refusal.to_string();
    assert!(matches!(refusal, Refusal::NotRemovable { .. }));
    assert!(
        message.ends_with("name it with `--disk`: its model is `Backup Disk`, its serial number is `77-ABC`"),
        "{message}"
    );
    for named in ["Backup Disk", "77-ABC", " 77-ABC\n"] {
        let _ = machine.target("/dev/sdd", Some(named)).unwrap();
    }
    for named in ["", "77-abc", "sdd", "/dev/sdd", "Generic Reader"] {
        let refusal = machine.target("/dev/sdd", Some(named)).unwrap_err();
        assert!(matches!(refusal, Refusal::AnotherDisk { .. }), "{named}: {refusal}");
    }
}

#[test]
fn a_removable_disk_that_is_not_the_named_one_is_refused() {
    let machine = Machine::new();
    let _ = machine.target("/dev/sdb", Some("0042")).unwrap();
    assert!(matches!(machine.target("/dev/sdb", Some("S1")), Err(Refusal::AnotherDisk { .. })));
}

#[test]
fn a_disk_without_model_and_serial_number_cannot_be_named() {
    let machine = Machine::new();
    machine.disk("sdd", "8:48", CARD_BYTES, false);
    machine.write("sys/block/sdd/device/type", "0");
    assert!(matches!(machine.refusal("/dev/sdd"), Refusal::NotRemovable { .. }));
    assert!(matches!(machine.target("/dev/sdd", Some("")), Err(Refusal::AnotherDisk { .. })));
}

#[test]
fn an_sd_card_in_a_built_in_reader_is_removable_and_a_soldered_one_is_not() {
    let machine = Machine::new();
    for (name, kind) in [("mmcblk0", "MMC"), ("mmcblk1", "SD")] {
        machine.disk(name, "179:0", CARD_BYTES, false);
        machine.identify(name, &[("type", kind), ("name", "SL32G"), ("serial", "0x12345678")]);
        machine.part(name, &format!("{name}p1"), "179:1");
    }
    assert!(matches!(machine.refusal("/dev/mmcblk0"), Refusal::NotRemovable { .. }));
    let target = machine.target("/dev/mmcblk1", None).unwrap();
    assert_eq!(target.disk().to_string(), "/dev/mmcblk1 (SL32G, serial number 0x12345678, 0.134 GB)");
    assert!(matches!(machine.refusal("/dev/mmcblk1p1"), Refusal::Partition { disk, .. } if disk == "mmcblk1"));
}

#[test]
fn a_machine_that_does_not_say_what_is_mounted_is_refused() {
    for damage in ["", "40 22\n"] {
        let machine = Machine::new();
        if damage.is_empty() {
            fs::remove_file(machine.folder.path().join("proc/self/mountinfo")).unwrap();
        } else {
            machine.mount(damage);
        }
        let refusal = machine.refusal("/dev/sdb");
        assert!(
            matches!(&refusal, Refusal::Unreadable { path, .. } if path.ends_with("proc/self/mountinfo")),
            "{refusal}"
        );
    }
    let machine = Machine::new();
    machine.write("sys/block/sdb/size", "many");
    assert!(matches!(machine.refusal("/dev/sdb"), Refusal::Unreadable { path, .. } if path.ends_with("sdb/size")));
}

#[test]
fn a_kernel_without_swap_has_none() {
    let machine = Machine::new();
    fs::remove_file(machine.folder.path().join("proc/swaps")).unwrap();
    let _ = machine.target("/dev/sdb", None).unwrap();
}

#[test]
fn only_the_name_of_the_disk_is_a_yes() {
    let machine = Machine::new();
    for answer in ["", "\n", "y\n", "yes\n", "sda\n", "sdb1\n", "SDB\n", "no\nsdb\n"] {
        let target = machine.target("/dev/sdb", None).unwrap();
        let error = target.ask(&mut Cursor::new(answer), &mut Vec::new()).unwrap_err();
        assert!(matches!(error, DeviceError::NotConfirmed { .. }), "{answer}: {error}");
    }
    let mut question = Vec::new();
    let target = machine.target("/dev/sdb", None).unwrap();
    let _confirmed = target.ask(&mut Cursor::new(" sdb \n"), &mut question).unwrap();
    assert_eq!(
        String::from_utf8(question).unwrap(),
        "/dev/sdb (Generic Reader, serial number 0042, 0.134 GB)\nAll that is on it will be lost.\nType sdb to go on: "
    );
    assert!(machine.is_untouched());
}

#[test]
fn what_is_written_is_on_the_device_and_nothing_behind_it_changes() {
    let machine = Machine::new();
    let device = machine.folder.path().join("dev/sdb");
    fs::write(&device, vec![0x55; CARD_BYTES as usize]).unwrap();
    let image = image();
    let mut last = (Step::Writing, 0, 0);
    machine.confirmed().write(&image, &mut |step, done, of| last = (step, done, of)).unwrap();
    assert_eq!(last, (Step::ReadingBack, IMAGE_BYTES, IMAGE_BYTES));
    let card = machine.card();
    assert!(card[..IMAGE_BYTES as usize] == *image.bytes());
    assert!(card[IMAGE_BYTES as usize..].iter().all(|byte| *byte == 0x55));
    let kernel = Image::open(&device).unwrap().extract("kernel8.img").unwrap();
    assert!(kernel.iter().enumerate().all(|(index, byte)| *byte == index as u8) && kernel.len() == 100_000);
}

#[test]
fn a_disk_that_changes_after_the_question_is_not_written() {
    type Change = fn(&Machine);
    let changes: [(&str, Change); 4] = [
        ("another card", |machine| machine.write("sys/block/sdb/size", &format!("{}", CARD_BYTES / 512 + 1))),
        ("another reader", |machine| machine.write("sys/block/sdb/device/vpd_pg80", "\0\u{1}\0\u{4}0043")),
        ("mounted", |machine| machine.mount("40 22 8:17 / /mnt rw - vfat /dev/sdb1 rw")),
        ("gone", |machine| fs::remove_dir_all(machine.folder.path().join("sys/block/sdb")).unwrap()),
    ];
    for (what, change) in changes {
        let machine = Machine::new();
        let confirmed = machine.confirmed();
        change(&machine);
        let error = confirmed.write(&image(), &mut |_, _, _| ()).unwrap_err();
        assert!(matches!(error, DeviceError::Changed { .. } | DeviceError::Refused(_)), "{what}: {error}");
        assert!(error.to_string().starts_with("nothing was written: "), "{what}: {error}");
        assert!(machine.is_untouched(), "{what}");
    }
}

#[test]
fn a_device_that_cannot_be_opened_is_named() {
    let machine = Machine::new();
    let confirmed = machine.confirmed();
    let device = machine.folder.path().join("dev/sdb");
    fs::remove_file(&device).unwrap();
    fs::create_dir(&device).unwrap();
    let error = confirmed.write(&image(), &mut |_, _, _| ()).unwrap_err();
    assert!(matches!(&error, DeviceError::NotOpened { device, .. } if device == Path::new("/dev/sdb")), "{error}");
}

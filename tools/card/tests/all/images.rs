//! Files become an image, and are read back: by us, and by others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fusee_card::card::{Card, CardError, NameFault};
use fusee_card::image::{Image, ImageError};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::tools::{found, output};

const FIRST_BYTE: usize = 1 << 20;

/// Names with few letters, so that many have one short name; and some that are the label's or a directory's.
fn name() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[ab][ab+ .]{0,7}[ab]{1,3}",
        "[a-zA-Z0-9_-]{1,8}\\.[a-z]{1,4}",
        "[!#$%&'(),;=@\\[\\]^`{}][a-z]{0,30}",
        Just("FUSEE".to_owned()),
        Just("overlays".to_owned()),
    ];
    vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

/// Names and contents, all different by upper-case name.
fn files() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let length = prop_oneof![Just(0), Just(511), Just(512), Just(513), 0..5000_usize];
    let content = (length, any::<u8>()).prop_map(|(length, seed)| pattern(length, seed));
    btree_map(name(), content, 0..40).prop_map(|files| files.into_iter().collect())
}

/// Bytes of which none repeats its neighbours.
fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 512) as u8 ^ seed).collect()
}

/// A card of those files that fit together, and these files.
fn card(files: Vec<(String, Vec<u8>)>) -> (Card, BTreeMap<String, Vec<u8>>) {
    let (mut card, mut added) = (Card::new(), BTreeMap::new());
    for (name, bytes) in files {
        let before = card.clone();
        match card.add(&name, bytes.clone()) {
            Ok(()) => _ = added.insert(name, bytes),
            Err(CardError::Twice { .. } | CardError::FileAndDirectory { .. }) => assert_eq!(card, before),
            Err(other) => panic!("{name}: {other}"),
        }
    }
    (card, added)
}

fn read_back(image: &Image) -> BTreeMap<String, Vec<u8>> {
    let entries = image.files().unwrap();
    let read = entries.iter().map(|entry| {
        let bytes = image.extract(&entry.name).unwrap();
        assert_eq!(bytes.len() as u64, entry.bytes);
        (entry.name.clone(), bytes)
    });
    read.collect()
}

/// Files that a boot loader may meet: names of all lengths, directories, an empty file, one of several clusters.
fn varied() -> Card {
    let mut card = Card::new();
    let names = [
        "kernel8.img",
        "overlays/disable-bt.dtbo",
        "overlays/and more/deeper.dtbo",
        "bcm2710-rpi-3-b.dtb",
        "a long name, with spaces + more.text",
        "empty",
    ];
    for (index, name) in names.iter().enumerate() {
        let length = [300_000, 1_000, 7, 512, 513, 0][index];
        card.add(name, pattern(length, index as u8)).unwrap();
    }
    card
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_put_on_a_card_is_read_back_and_two_builds_are_equal(files in files()) {
        let (card, added) = card(files);
        let image = card.image().unwrap();
        prop_assert_eq!(read_back(&image), added);
        prop_assert!(image == card.image().unwrap(), "two builds differ");
    }

    /// FAT as `fsck` checks it: names, directories, chains of clusters, the count of free ones, both boot sectors.
    #[test]
    fn fsck_finds_nothing_to_repair(files in files()) {
        let Some(mut fsck) = found("fsck.vfat", "dosfstools", "fsck_finds_nothing_to_repair") else { return Ok(()) };
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("volume");
        let (card, _) = card(files);
        fs::write(&volume, &card.image().unwrap().bytes()[FIRST_BYTE..]).unwrap();
        let text = String::from_utf8(output(fsck.args(["-n", "-v"]).arg(&volume))).unwrap();
        prop_assert!(text.contains("2 FATs, 32 bit entries") && text.contains("2048 hidden sectors"), "{}", text);
        // It succeeds after some complaints, too: nothing is said between the last field and the sum.
        let said: Vec<&str> = text.lines().skip_while(|line| !line.ends_with("sectors total")).skip(1).collect();
        prop_assert_eq!(&said[..2], ["Checking for unused clusters.", "Checking free cluster summary."], "{}", text);
        prop_assert!(said.len() == 3 && said[2].contains(" files, "), "{}", text);
    }

    /// A card that was damaged is refused, or read as it is: reading ends, and does not panic.
    #[test]
    fn a_damaged_card_does_not_stop_its_reader(
        // The partition table and the boot sector, the file allocation table, the root directory and the part behind it.
        damage in vec((prop_oneof![0..512_usize, FIRST_BYTE..FIRST_BYTE + 0x80, FIRST_BYTE + 0x1000..FIRST_BYTE + 0x1c00,
            root()..root() + 0x600], any::<u8>()), 1..12),
    ) {
        let mut bytes = varied().image().unwrap().bytes().to_vec();
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        if let Ok(image) = Image::read(&mut Cursor::new(bytes)) {
            for entry in image.files().unwrap_or_default() {
                let _ = image.extract(&entry.name);
            }
        }
    }
}

/// Where the root directory is: behind the reserved sectors and both tables, by the fields of the boot sector.
fn root() -> usize {
    let image = Card::new().image().unwrap();
    let field = |at: usize| u32::from_le_bytes(image.bytes()[FIRST_BYTE + at..][..4].try_into().unwrap());
    let (reserved, tables) = ((field(0x0e) & 0xffff) as usize, 2 * field(0x24) as usize);
    FIRST_BYTE + (reserved + tables) * 512
}

#[test]
fn every_reader_takes_the_volume_for_fat32() {
    let image = Card::new().image().unwrap();
    let volume = &image.bytes()[FIRST_BYTE..];
    let half = |at: usize| u32::from(u16::from_le_bytes(volume[at..][..2].try_into().unwrap()));
    let word = |at: usize| u32::from_le_bytes(volume[at..][..4].try_into().unwrap());
    assert_eq!((half(11), volume[13], volume[16]), (512, 1, 2), "bytes of a sector, sectors of a cluster, tables");
    assert_eq!((half(17), half(19), half(22)), (0, 0, 0), "fields of FAT12 and FAT16");
    assert_eq!(word(28), 2048, "sectors before the volume");
    assert_eq!(word(32) as usize * 512, volume.len(), "sectors");
    assert!(volume[..512] == volume[6 * 512..7 * 512], "the copy of the boot sector differs");
    let clusters = word(32) - half(14) - 2 * word(36);
    assert!(clusters >= 65_525, "{clusters} clusters");
    assert!(image.bytes().len().is_power_of_two());
    // One partition, active, FAT32 by sector numbers, from the first sector of the volume to the end.
    assert_eq!(&image.bytes()[446..462][..1], [0x80]);
    assert_eq!(image.bytes()[450], 0x0c);
    assert_eq!(image.bytes()[454..462], [2048_u32.to_le_bytes(), (word(32)).to_le_bytes()].concat());
    assert_eq!(image.bytes()[462..510], [0; 48]);
    assert_eq!(image.bytes()[510..512], [0x55, 0xaa]);
}

#[test]
fn an_image_grows_with_its_files_and_not_beyond_a_gibibyte() {
    let mut card = Card::new();
    let first = pattern(65 << 20, 1);
    card.add("first", first.clone()).unwrap();
    let image = card.image().unwrap();
    assert_eq!(image.bytes().len(), 128 << 20);
    assert_eq!(image.extract("first").unwrap(), first);
    card.add("second", vec![0; 1 << 30]).unwrap();
    assert!(matches!(card.image(), Err(CardError::TooLarge { bytes }) if bytes == (65 << 20) + (1 << 30)));
}

#[test]
fn a_saved_image_is_read_back_and_takes_little_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card.img");
    let image = varied().image().unwrap();
    // The file that was there before is replaced, whole.
    fs::write(&path, vec![0xff; 70 << 20]).unwrap();
    image.save(&path).unwrap();
    assert!(Image::open(&path).unwrap() == image);
    let taken = fs::metadata(&path).unwrap().blocks() * 512;
    assert!(taken < 4 << 20, "{taken} bytes on the disk");
}

#[test]
fn an_image_is_saved_to_files_only() {
    let folder = tempfile::tempdir().unwrap();
    for path in [Path::new("/dev/null"), folder.path()] {
        let error = Card::new().image().unwrap().save(path).unwrap_err();
        assert!(matches!(error, ImageError::NotAFile { .. }), "{error}");
        assert!(error.to_string().contains("--device"), "{error}");
    }
}

#[test]
fn what_is_no_card_is_refused_with_the_reason() {
    let refused = |bytes: &[u8]| Image::read(&mut Cursor::new(bytes)).unwrap_err().to_string();
    assert_eq!(refused(&[0; 100]), "no card: it is shorter than a partition table");
    assert_eq!(refused(&[0; 1000]), "no card: there is no partition table in its first sector");
    let image = Card::new().image().unwrap();
    let mut linux = image.bytes().to_vec();
    linux[450] = 0x83;
    assert_eq!(refused(&linux), "no card: its first partition is not FAT32");
    let cut = &image.bytes()[..1 << 21];
    assert!(matches!(Image::read(&mut Cursor::new(cut)), Err(ImageError::PartitionBeyond { end, available })
        if end == 64 << 20 && available == 2 << 20));
    // FAT16, by its clusters, in a partition that says FAT32.
    let mut fat16 = image.bytes()[..FIRST_BYTE + (16 << 20)].to_vec();
    fat16[458..462].copy_from_slice(&(32_768_u32).to_le_bytes());
    fatfs::format_volume(Cursor::new(&mut fat16[FIRST_BYTE..]), fatfs::FormatVolumeOptions::new()).unwrap();
    let error = Image::read(&mut Cursor::new(fat16)).unwrap().files().unwrap_err();
    assert_eq!(error.to_string(), "no card: its volume has too few clusters for FAT32");
}

#[test]
fn a_file_that_is_not_there_is_named_with_those_that_are() {
    let image = varied().image().unwrap();
    let error = image.extract("kernel.img").unwrap_err().to_string();
    assert!(error.starts_with("there is no file `kernel.img` on the card; there are: overlays/"), "{error}");
    assert!(error.contains(", kernel8.img, bcm2710-rpi-3-b.dtb, "), "{error}");
    assert_eq!(image.extract("KERNEL8.IMG").unwrap().len(), 300_000);
}

#[test]
fn a_directory_or_file_that_leads_back_into_itself_ends_with_an_error() {
    let mut card = Card::new();
    for name in 'a'..='z' {
        card.add(&name.to_string(), pattern(2000, name as u8)).unwrap();
    }
    let image = card.image().unwrap();
    let table = FIRST_BYTE + 8 * 512;
    let entry = |cluster: usize| table + 4 * cluster..table + 4 * cluster + 4;
    let read = |bytes: Vec<u8>| Image::read(&mut Cursor::new(bytes)).unwrap();
    let mut directory = image.bytes().to_vec();
    directory[entry(2)].copy_from_slice(&2_u32.to_le_bytes());
    let error = read(directory).files().unwrap_err().to_string();
    assert!(error.ends_with("a file or directory on it has no end"), "{error}");
    // The first file: its length, in the fourth entry of the root directory, and a chain that would be long enough.
    let mut file = image.bytes().to_vec();
    assert!(file[root() + 64..].starts_with(b"A          "));
    file[root() + 64 + 28..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    file[entry(3)].copy_from_slice(&3_u32.to_le_bytes());
    let error = read(file).extract("a").unwrap_err().to_string();
    assert!(error.ends_with("a file or directory on it has no end"), "{error}");
}

#[test]
fn names_that_not_every_reader_finds_are_refused() {
    let cases = [
        ("", NameFault::Empty),
        ("a//b", NameFault::Empty),
        ("/a", NameFault::Empty),
        ("a/", NameFault::Empty),
        ("KERNEL~1.IMG", NameFault::Character('~')),
        ("a:b", NameFault::Character(':')),
        ("a\\b", NameFault::Character('\\')),
        ("käse", NameFault::Character('ä')),
        (".hidden", NameFault::AtAnEnd('.')),
        ("..", NameFault::AtAnEnd('.')),
        ("a.", NameFault::AtAnEnd('.')),
        ("a ", NameFault::AtAnEnd(' ')),
        (&"a".repeat(256), NameFault::TooLong(256)),
        ("1/2/3/4/5/6/7/8/9/10", NameFault::TooDeep(10)),
    ];
    for (name, expected) in cases {
        let mut card = Card::new();
        let Err(CardError::Name { name: refused, reason }) = card.add(name, Vec::new()) else { panic!("{name}") };
        assert_eq!((refused.as_str(), reason), (name, expected));
        assert_eq!(card, Card::new());
    }
    Card::new().add(&"a".repeat(255), Vec::new()).unwrap();
    Card::new().add("1/2/3/4/5/6/7/8/9", Vec::new()).unwrap();
}

#[test]
fn two_names_that_differ_in_case_only_are_one() {
    let mut card = Card::new();
    card.add("Boot/Config.txt", Vec::new()).unwrap();
    let error = card.add("boot/config.TXT", Vec::new()).unwrap_err().to_string();
    assert!(error.contains("`boot/config.TXT` and `Boot/Config.txt`"), "{error}");
    assert!(matches!(card.add("BOOT", Vec::new()), Err(CardError::FileAndDirectory { .. })));
    assert!(matches!(card.add("boot/config.txt/more", Vec::new()), Err(CardError::FileAndDirectory { .. })));
}

#[test]
fn sfdisk_reads_one_active_partition() {
    let Some(mut sfdisk) = found("sfdisk", "fdisk", "sfdisk_reads_one_active_partition") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card.img");
    Card::new().image().unwrap().save(&path).unwrap();
    let text = String::from_utf8(output(sfdisk.arg("--dump").arg(&path))).unwrap();
    let partitions: Vec<&str> = text.lines().filter_map(|line| line.split_once(" : ")).map(|(_, of)| of).collect();
    assert_eq!(partitions, ["start=        2048, size=      129024, type=c, bootable"], "{text}");
}

#[test]
fn mtools_find_the_same_files() {
    let test = "mtools_find_the_same_files";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card.img");
    let card = varied();
    card.image().unwrap().save(&path).unwrap();
    let volume = format!("{}@@{FIRST_BYTE}", path.display());
    let Some(mut list) = found("mdir", "mtools", test) else { return };
    let listed = String::from_utf8(output(list.args(["-i", &volume, "-/", "-b", "::"]))).unwrap();
    let files = listed.lines().filter_map(|line| line.strip_prefix("::/")).filter(|line| !line.ends_with('/'));
    let listed: BTreeSet<&str> = files.collect();
    assert_eq!(listed, card.files().map(|(name, _)| name).collect());
    for (name, bytes) in card.files() {
        let mut extract = found("mtype", "mtools", test).unwrap();
        let typed = output(extract.args(["-i", &volume, &format!("::/{name}")]));
        assert!(typed == bytes, "{name}: {} bytes, {} expected", typed.len(), bytes.len());
    }
    // All stamps are the constant one: of four files and a directory.
    let mut list = found("mdir", "mtools", test).unwrap();
    let listing = String::from_utf8(output(list.args(["-i", &volume, "::"]))).unwrap();
    assert_eq!(listing.matches("1980-01-01   0:00").count(), 5, "{listing}");
}

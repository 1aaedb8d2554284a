//! Losses of power: a disk that keeps a journal of its writes is cut after each of them, with the sectors that a flush has not covered as before or as after,
//! in any combination. Then the volume is read by others: the crate `fatfs`, and where the host has them `fsck.fat` and `mtools`.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::RangeInclusive;
use std::rc::Rc;

use fusee::files::record::frame;
use fusee::files::{FileNumber, Mode, PIECE, Payload, Records, Request};

use crate::disk::SECTOR;
use crate::rig::{BEGIN, Client, Lent, Memory, Random, SMALL, Step, Tools, formatted, needed, read_by_fatfs, server};
use crate::volume::Volume;

/// The disk after a loss of power behind `steps` steps: all sectors that a flush has covered are written. Of the others, each has had a first part of its writes,
/// as `chosen` says: how many of so many.
fn cut(before: &[u8], steps: &[Step], mut chosen: impl FnMut(usize) -> usize) -> Vec<u8> {
    let mut bytes = before.to_vec();
    let covered = steps.iter().rposition(|step| matches!(step, Step::Flush)).map_or(0, |flush| flush + 1);
    let mut write = |sector: usize, contents: &[u8; SECTOR]| {
        bytes[sector * SECTOR..(sector + 1) * SECTOR].copy_from_slice(contents);
    };
    for step in &steps[..covered] {
        if let Step::Write(sector, contents) = step {
            write(*sector, contents);
        }
    }
    let mut open = BTreeMap::<usize, Vec<&[u8; SECTOR]>>::new();
    for step in &steps[covered..] {
        if let Step::Write(sector, contents) = step {
            open.entry(*sector).or_default().push(contents);
        }
    }
    for (sector, contents) in open {
        if let Some(last) = chosen(contents.len()).checked_sub(1) {
            write(sector, contents[last]);
        }
    }
    bytes
}

/// The choices of [`cut`] that are tried: all writes, none of them, and random ones.
fn choice(variant: usize, random: &mut Random) -> impl FnMut(usize) -> usize {
    move |writes| match variant {
        0 => writes,
        1 => 0,
        _ => random.below(writes + 1),
    }
}

/// A promise: from this step on the file has these bytes at its beginning; none: it need not be there.
type Promise = (usize, &'static str, Option<Vec<u8>>);

/// Makes files, lengthens them by turns, writes them over, and removes them, on a volume in this partition: the promises.
fn work(disk: Memory, partition: u8, names: [&'static str; 2], rounds: u32) -> Vec<Promise> {
    let journal = Rc::clone(&disk.journal);
    let mut server = server(disk, partition);
    let mut client = Client { server: &mut server, badge: 1 };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    assert_eq!(client.ask(Request::Begin)[0], 0);
    let mut promises = Vec::new();
    let mut promise = |name, bytes| promises.push((journal.borrow().steps.len(), name, bytes));
    if let Some((directory, _)) = names[0].split_once('/') {
        for number in 0..14 {
            let (file, _) = client.open(&format!("{directory}/F{number}"), Mode::Create).expect("a file is made");
            assert_eq!(client.ask(Request::Close(file))[0], 0);
        }
    }
    for _ in 0..rounds {
        let files = names.map(|name| client.open(name, Mode::Create).expect("a file is made").0);
        let mut contents = [Vec::new(), Vec::new()];
        for part in 0..6 {
            for ((file, name), content) in files.iter().zip(names).zip(&mut contents) {
                let length = [100, 511, 2000, 5000][random.below(4)];
                let more = random.bytes(length);
                assert_eq!(client.write(*file, content.len() as u32, &more), 0);
                content.extend_from_slice(&more);
                if part % 2 == 1 {
                    assert_eq!(client.ask(Request::Sync(*file))[0], 0);
                    promise(name, Some(content.clone()));
                }
            }
        }
        for ((file, name), content) in files.iter().zip(names).zip(&contents) {
            assert_eq!(client.read(*file), *content);
            assert_eq!(client.ask(Request::Close(*file))[0], 0);
            promise(name, None);
            assert_eq!(client.remove(name), 0);
        }
    }
    promises
}

/// Cuts the work after each `every`th step, mounts the disk, and has others read it.
fn cut_and_read(
    disk: &Memory,
    partition: u8,
    names: [&'static str; 2],
    directories: RangeInclusive<u32>,
    variants: usize,
) {
    let before = disk.bytes.clone();
    let promises = work(disk.clone(), partition, names, 2);
    let begin = if partition == 0 { 0 } else { BEGIN };
    let steps = std::mem::take(&mut disk.journal.borrow_mut().steps);
    let mut random = Random(0x0123_4567_89ab_cdef);
    let tools = Tools::new();
    let mut cuts = 0;
    for end in 0..=steps.len() {
        for variant in (0..4).cycle().skip(end).take(variants) {
            let bytes = cut(&before, &steps[..end], choice(variant, &mut random));
            let mut volume = Volume::new(Memory::with(bytes), vec![0; 80_000], partition);
            assert_eq!(volume.mount(), Ok(()), "a cut after {end} steps");
            let image = std::mem::take(&mut volume.disk().bytes);
            let image = &image[begin * SECTOR..];
            let (files, used, cluster) = read_by_fatfs(image);
            let left = used - needed(&files, cluster);
            assert!(directories.contains(&left), "{left} clusters are no file's, by a cut after {end} steps");
            let mut promised = BTreeMap::new();
            for (_, name, bytes) in promises.iter().take_while(|(step, ..)| *step <= end) {
                promised.insert(*name, bytes);
            }
            for (name, bytes) in promised {
                let Some(bytes) = bytes else { continue };
                let found = files.get(name).unwrap_or_else(|| panic!("{name} is gone by a cut after {end} steps"));
                assert!(found.starts_with(bytes), "{name} is not as it was synced, by a cut after {end} steps");
            }
            cuts += 1;
            if let Some((name, bytes)) = files.iter().find(|(name, _)| !name.ends_with('/')).filter(|_| cuts % 29 == 0)
            {
                tools.check(image, name, bytes);
            }
        }
    }
    assert!(cuts > 300, "{cuts} cuts are few");
}

#[test]
fn each_cut_of_a_volume_of_fat16_keeps_what_was_synced_and_loses_no_cluster() {
    cut_and_read(&formatted(SMALL), 1, ["ONE.TXT", "TWO.TXT"], 0..=0, 4);
}

/// A volume of FAT32 that the crate `fatfs` has made, with a directory `TRIPS`. Directories that the crate makes begin with a long name, which FAT forbids;
/// so this one is made of a file.
fn fat32() -> Memory {
    let mut bytes = vec![0; 66_800 * SECTOR];
    let options = fatfs::FormatVolumeOptions::new().fat_type(fatfs::FatType::Fat32).bytes_per_cluster(512);
    fatfs::format_volume(Cursor::new(&mut bytes[..]), options).expect("it is large enough");
    let disk = Memory::with(bytes);
    let mut server = server(disk, 0);
    let mut client = Client { server: &mut server, badge: 1 };
    assert_eq!(client.ask(Request::Begin)[0], 0);
    let (file, _) = client.open("TRIPS", Mode::Create).expect("it is made");
    let mut contents = vec![0; SECTOR];
    assert_eq!(client.write(file, 0, &contents), 0);
    let mut bytes = std::mem::take(&mut server.volume().disk().bytes);
    let at = bytes.chunks(32).position(|entry| entry.starts_with(b"TRIPS      ")).expect("it is there") * 32;
    bytes[at + 11] = 0x10;
    bytes[at + 28..at + 32].fill(0);
    let cluster = [bytes[at + 26], bytes[at + 27]];
    for (entry, name, cluster) in [(0, b".          ", cluster), (32, b"..         ", [0, 0])] {
        contents[entry..entry + 11].copy_from_slice(name);
        contents[entry + 11] = 0x10;
        contents[entry + 26..entry + 28].copy_from_slice(&cluster);
    }
    // The first cluster behind that of the root directory: its sector comes behind the one with the entry.
    let begin = at / SECTOR * SECTOR + SECTOR;
    bytes[begin..begin + SECTOR].copy_from_slice(&contents);
    Memory::with(bytes)
}

#[test]
fn cuts_of_a_volume_of_fat32_keep_what_was_synced_and_lose_no_cluster() {
    // Two directories, of which one becomes longer: it has 16 entries in its cluster.
    cut_and_read(&fat32(), 0, ["TRIPS/ONE.TXT", "TWO.TXT"], 2..=3, 1);
}

/// A record of this number, of any length.
fn record(number: u64) -> Vec<u8> {
    let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let length = random.below(1_200);
    random.bytes(length)
}

/// The requests of a recorder (`fusee::files::Recorder`).
fn append(client: &mut Client<'_>, file: FileNumber, end: &mut u64, number: u64) {
    let mut bytes = [0; PIECE];
    let length = frame(number, &record(number), &mut bytes).expect("it is short enough");
    let payload = Payload { length, stamp: 7 };
    assert_eq!(client.lend(Request::WriteSynced(file, *end, payload), &Lent::of(&bytes[..length]))[0], 0);
    *end += length as u64;
}

#[test]
fn each_acknowledged_record_outlives_a_thousand_cuts_and_the_volume_is_clean_without_being_mounted() {
    const LENGTH: u64 = 600_000;
    const RECORDS: u64 = 500;
    let disk = formatted(SMALL);
    let journal = Rc::clone(&disk.journal);
    let mut server = server(disk.clone(), 1);
    let mut client = Client { server: &mut server, badge: 1 };
    assert_eq!(client.ask(Request::Begin)[0], 0);
    let (file, _) = client.open("TRIP.LOG", Mode::Create).expect("a file is made");
    while client.ask(Request::Reserve(file, LENGTH))[2] < LENGTH {}
    assert_eq!(client.ask(Request::Sync(file))[0], 0);
    let made = journal.borrow().steps.len();
    let mut end = 0;
    let acknowledged: Vec<usize> = (1..=RECORDS)
        .map(|number| {
            append(&mut client, file, &mut end, number);
            journal.borrow().steps.len()
        })
        .collect();
    let steps = std::mem::take(&mut journal.borrow_mut().steps);
    let mut random = Random(0x0fed_cba9_8765_4321);
    let tools = Tools::new();
    // The steps until the file is made are covered by a flush.
    let before = cut(&disk.bytes, &steps[..made], |writes| writes);
    for _ in 0..1_000 {
        let end = made + random.below(steps.len() - made + 1);
        let variant = random.below(4);
        let bytes = cut(&before, &steps[made..end], choice(variant, &mut random));
        let volume = &bytes[BEGIN * SECTOR..];
        let (files, used, cluster) = read_by_fatfs(volume);
        assert_eq!(used, needed(&files, cluster));
        let log = &files["TRIP.LOG"];
        let found: Vec<&[u8]> = Records::new(log).collect();
        let promised = acknowledged.iter().take_while(|step| **step <= end).count();
        assert!(found.len() >= promised, "{promised} records are acknowledged, and {} are there", found.len());
        assert!(found.len() <= promised + 1, "one record at most is on its way");
        for (number, found) in (1..).zip(&found) {
            assert!(*found == record(number), "record {number} has other bytes");
        }
        tools.check(volume, "TRIP.LOG", log);
    }
}

#[test]
fn a_log_whose_making_is_cut_is_made_on_after_the_cut() {
    const LENGTH: u64 = 60_000;
    let disk = formatted(SMALL);
    let journal = Rc::clone(&disk.journal);
    let mut first = server(disk.clone(), 1);
    let mut client = Client { server: &mut first, badge: 1 };
    assert_eq!(client.ask(Request::Begin)[0], 0);
    let (file, _) = client.open("TRIP.LOG", Mode::Create).expect("a file is made");
    while client.ask(Request::Reserve(file, LENGTH))[2] < LENGTH {}
    let steps = std::mem::take(&mut journal.borrow_mut().steps);
    let mut random = Random(0x7777_1234_5678_9abc);
    for end in 0..=steps.len() {
        let bytes = cut(&disk.bytes, &steps[..end], choice(end % 4, &mut random));
        let mut again = server(Memory::with(bytes), 1);
        let mut client = Client { server: &mut again, badge: 1 };
        assert_eq!(client.ask(Request::Begin)[0], 0);
        let (file, _) = client.open("TRIP.LOG", Mode::Create).expect("the file is there, or made");
        while client.ask(Request::Reserve(file, LENGTH))[2] < LENGTH {}
        let mut end = 0;
        append(&mut client, file, &mut end, 1);
        let image = std::mem::take(&mut again.volume().disk().bytes);
        let (files, used, cluster) = read_by_fatfs(&image[BEGIN * SECTOR..]);
        assert_eq!(used, needed(&files, cluster));
        let log = &files["TRIP.LOG"];
        assert_eq!(Records::new(log).collect::<Vec<_>>(), [&record(1)[..]], "no old bytes are taken for records");
        assert!(log[end as usize..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_disk_that_fails_at_any_request_keeps_what_was_synced_and_goes_on() {
    let probe = formatted(SMALL);
    let journal = Rc::clone(&probe.journal);
    let promised = work(probe, 1, ["ONE.TXT", "TWO.TXT"], 1);
    assert!(promised.len() > 4);
    let requests = journal.borrow().requests;
    for fails_after in (0..requests).step_by(3) {
        let disk = formatted(SMALL);
        let journal = Rc::clone(&disk.journal);
        let mut server = server(disk, 1);
        journal.borrow_mut().fails_after = Some(fails_after);
        let mut client = Client { server: &mut server, badge: 1 };
        let content = Random(fails_after.into()).bytes(9_000);
        let mut synced = 0;
        let mut failures = 0;
        assert_eq!(client.ask(Request::Begin)[0], 0);
        let mut open = None;
        for round in 0..40 {
            let file = match open.map_or_else(|| client.open("ONE.TXT", Mode::Create).map(|(file, _)| file), Ok) {
                Ok(file) => file,
                Err(code) => {
                    assert_eq!(code, fusee::files::Refusal::Device as u64, "the failure has a type");
                    failures += 1;
                    continue;
                }
            };
            open = Some(file);
            let part = round * 200;
            let length = client.length_of(file);
            let result = match length {
                // Bytes behind the synced ones may be there or not.
                Ok(length) => {
                    client.write(file, length.min(part), &content[length.min(part) as usize..part as usize + 200])
                }
                Err(code) => code,
            };
            let result = if result == 0 { client.ask(Request::Sync(file))[0] } else { result };
            if result == 0 {
                synced = part as usize + 200;
            } else {
                assert!(matches!(result, 5 | 19), "{result} is no failure of a disk");
                failures += 1;
                open = None;
            }
        }
        assert!(failures <= 3, "one failure of the disk spoils {failures} requests");
        let image = std::mem::take(&mut server.volume().disk().bytes);
        let (files, used, cluster) = read_by_fatfs(&image[BEGIN * SECTOR..]);
        assert_eq!(used, needed(&files, cluster), "no cluster is lost by a failure of request {fails_after}");
        assert!(files["ONE.TXT"].starts_with(&content[..synced]));
    }
}

#[test]
fn a_record_is_two_calls_of_the_disk_and_no_request_is_more_than_32() {
    let disk = formatted(SMALL);
    let journal = Rc::clone(&disk.journal);
    let calls = || std::mem::take(&mut journal.borrow_mut().calls);
    let mut server = server(disk, 1);
    let mut client = Client { server: &mut server, badge: 1 };
    assert_eq!(client.ask(Request::Begin)[0], 0);
    let (log, _) = client.open("TRIP.LOG", Mode::Create).expect("a file is made");
    while client.ask(Request::Reserve(log, 100_000))[2] < 100_000 {}
    calls();
    let mut end = 0;
    for number in 1..50 {
        append(&mut client, log, &mut end, number);
        assert_eq!(calls(), 2, "a write, and a flush");
    }
    // Every other cluster of the volume belongs to a file that is removed, so the next one lies in pieces.
    let files = ["A", "B"].map(|name| client.open(name, Mode::Create).expect("a file is made").0);
    for part in 0..1_500 {
        for file in files {
            assert_eq!(client.write(file, part * 512, &[1; 512]), 0);
        }
    }
    assert_eq!(client.ask(Request::Close(files[0]))[0], 0);
    let mut most = 0;
    calls();
    let path = Payload { length: 1, stamp: 7 };
    while client.lend(Request::Remove(path), &Lent::of(b"A"))[1] == 1 {
        most = most.max(calls());
    }
    let (file, _) = client.open("C", Mode::Create).expect("a file is made");
    most = most.max(calls());
    let mut random = Random(5);
    let mut length = 0;
    while length < 700_000 {
        let bytes = 1 + random.below(PIECE);
        let more = random.bytes(bytes);
        let payload = Payload { length: more.len(), stamp: 7 };
        let at = length - random.below(600).min(length);
        let reply = client.lend(Request::WriteSynced(file, at as u64, payload), &Lent::of(&more));
        assert_eq!(reply[0], 0);
        length = reply[2] as usize;
        most = most.max(calls());
    }
    assert!((10..=32).contains(&most), "a request makes {most} calls of the disk");
}

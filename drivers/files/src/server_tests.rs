//! Requests of clients that are right, wrong and hostile.

use proptest::prelude::*;

use super::*;
use crate::rig::{Client, Lent, Memory, SMALL, Tested, formatted, read_by_fatfs, server};

/// The first sector of the volume.
const BEGIN: usize = 2048;

fn begun(badges: &[u64]) -> Tested {
    let mut server = server(formatted(SMALL), 1);
    for badge in badges {
        assert_eq!(Client { server: &mut server, badge: *badge }.ask(Request::Begin)[0], 0);
    }
    server
}

fn refused(result: Result<(FileNumber, u32), u64>) -> Option<u64> {
    result.err()
}

#[test]
fn a_file_is_read_as_it_was_written_and_listed_with_its_length() {
    let mut server = begun(&[1]);
    let mut client = Client { server: &mut server, badge: 1 };
    let (file, length) = client.open("log.txt", Mode::Create).expect("it is made");
    assert_eq!(length, 0);
    let bytes: Vec<u8> = (0..10_000_u32).map(|byte| ((byte * 31) >> 3) as u8).collect();
    assert_eq!(client.write(file, 0, &bytes), 0);
    assert_eq!(client.write(file, 700, &[9; 1000]), 0);
    let mut wanted = bytes.clone();
    wanted[700..1700].fill(9);
    assert!(client.read(file) == wanted);
    let root = Payload { length: 0, stamp: 7 };
    let listed = client.lend(Request::List(0, root), &Lent::of(b""));
    assert_eq!(listed[..4], [0, 1, 10_000, 0]);
    assert_eq!(listed[4].to_le_bytes(), *b"LOG     ");
    assert_eq!(client.lend(Request::List(1, root), &Lent::of(b""))[0], Refusal::End as u64);
    let (free, clusters, bytes) = server.volume().space().expect("it is mounted");
    assert_eq!((clusters - free, bytes), (20, 512));
}

#[test]
fn each_mistake_is_a_refusal_of_its_own() {
    let mut server = begun(&[1, 2]);
    let mut client = Client { server: &mut server, badge: 3 };
    assert_eq!(refused(client.open("A.TXT", Mode::Read)), Some(Refusal::NotOpen as u64));
    client.badge = 1;
    assert_eq!(refused(client.open("A.TXT", Mode::Read)), Some(Refusal::NotFound as u64));
    assert_eq!(refused(client.open("NO/A.TXT", Mode::Create)), Some(Refusal::NotFound as u64));
    for name in ["A B.TXT", "TOOLONGNAME", "A.TEXT", "", "\u{e9}", "A/../B", "A//B"] {
        let code = refused(client.open(name, Mode::Create));
        assert!(matches!(code, Some(6 | 7)), "{name} is refused with {code:?}");
    }
    let (file, _) = client.open("A.TXT", Mode::Create).expect("it is made");
    let payload = |length| Payload { length, stamp: 7 };
    let write = |client: &mut Client<'_>, offset, length| {
        client.lend(Request::Write(file, offset, payload(length)), &Lent::of(&[]))[0]
    };
    assert_eq!(write(&mut client, 1, 1), Refusal::BeyondEnd as u64);
    assert_eq!(write(&mut client, u64::MAX, 1), Refusal::BeyondEnd as u64);
    assert_eq!(write(&mut client, 0, PIECE + 1), Refusal::TooLong as u64);
    assert_eq!(client.ask(Request::Write(file, 0, payload(1)))[0], Refusal::NotLent as u64);
    let torn = Lent { stamp: 8, ..Lent::of(&[]) };
    assert_eq!(client.lend(Request::Write(file, 0, payload(1)), &torn)[0], Refusal::NotLent as u64);
    let unwritable = Lent { is_writable: false, ..Lent::of(&[]) };
    let read = Request::Read { file, offset: 0, room: 10 };
    assert_eq!(client.lend(read, &unwritable)[0], Refusal::NotLent as u64);
    assert_eq!(client.ask(Request::Reserve(file, 1 << 32))[0], Refusal::TooLarge as u64);
    assert_eq!(client.remove("A.TXT"), Refusal::Taken as u64);
    // Files belong to the badge, and are written by one client alone.
    client.badge = 2;
    assert_eq!(client.lend(read, &Lent::of(&[]))[0], Refusal::NoFile as u64);
    assert_eq!(client.ask(Request::Close(file))[0], Refusal::NoFile as u64);
    assert_eq!(refused(client.open("A.TXT", Mode::Read)), Some(Refusal::Taken as u64));
    for name in ["B", "C", "D", "E"] {
        assert!(client.open(name, Mode::Create).is_ok());
    }
    assert_eq!(refused(client.open("F", Mode::Create)), Some(Refusal::TooManyFiles as u64));
    assert_eq!(
        refused(client.open("F", Mode::Read)),
        Some(Refusal::NotFound as u64),
        "a file that is not opened is not made"
    );
    assert_eq!(client.server.open_files(), 5);
    // The next life of the first client has closed its files.
    client.badge = 1;
    assert_eq!(client.ask(Request::Begin)[0], 0);
    assert_eq!(client.ask(Request::Close(file))[0], Refusal::NoFile as u64);
    assert_eq!(client.server.open_files(), 4);
    let (read, _) = client.open("A.TXT", Mode::Read).expect("it is closed");
    assert_eq!(client.ask(Request::Reserve(read, 10))[0], Refusal::ReadOnly as u64);
    assert_eq!(client.lend(Request::Write(read, 0, payload(1)), &Lent::of(&[]))[0], Refusal::ReadOnly as u64);
    for badge in 3..=8 {
        client.badge = badge;
        assert_eq!(client.ask(Request::Begin)[0], 0);
    }
    client.badge = 9;
    assert_eq!(client.ask(Request::Begin)[0], Refusal::TooManyClients as u64);
}

#[test]
fn a_full_disk_and_a_full_directory_are_refusals_and_removed_files_give_their_room_back() {
    let mut server = begun(&[1]);
    let mut client = Client { server: &mut server, badge: 1 };
    let (file, _) = client.open("ALL", Mode::Create).expect("it is made");
    let mut length = 0;
    let code = loop {
        match client.ask(Request::Reserve(file, u32::MAX.into())) {
            [0, _, now, ..] => length = now,
            [code, ..] => break code,
        }
    };
    assert_eq!(code, Refusal::DiskFull as u64);
    let (free, clusters, _) = client.server.volume().space().expect("it is mounted");
    assert!(free < 7 && length / 512 == u64::from(clusters - free));
    assert_eq!(client.ask(Request::Close(file))[0], 0);
    assert_eq!(client.remove("ALL"), 0);
    assert_eq!(client.server.volume().space().map(|(free, ..)| free), Ok(clusters));
    let mut made = 0;
    let code = loop {
        match client.open(&format!("F{made}"), Mode::Create) {
            Ok((file, _)) => assert_eq!(client.ask(Request::Close(file))[0], 0),
            Err(code) => break code,
        }
        made += 1;
    };
    assert_eq!((code, made), (Refusal::DirectoryFull as u64, 512));
    let (files, used, _) = read_by_fatfs(&client.server.volume().disk().bytes[BEGIN * 512..]);
    assert_eq!((files.len(), used), (512, 0));
}

#[test]
fn a_disk_that_has_anything_is_not_formatted_and_others_read_a_new_volume() {
    for sectors in [SMALL, 20_000, 262_144] {
        let disk = formatted(sectors);
        let (files, used, _) = read_by_fatfs(&disk.bytes[BEGIN * 512..]);
        assert_eq!((files.len(), used), (0, 0));
        let mut again = disk.clone();
        assert_eq!(crate::format(&mut again), Ok(false));
        assert!(again.bytes == disk.bytes);
    }
    assert!(matches!(crate::format(&mut Memory::new(3_000)), Err(Unsound::NoVolume(_))));
}

#[test]
fn a_volume_that_contradicts_itself_is_refused_and_not_written() {
    let mut server = begun(&[1]);
    let mut client = Client { server: &mut server, badge: 1 };
    for name in ["A", "B"] {
        let (file, _) = client.open(name, Mode::Create).expect("it is made");
        assert_eq!(client.write(file, 0, &[1; 3000]), 0);
    }
    let image = client.server.volume().disk().bytes.clone();
    let root = image.chunks(512).position(|sector| sector.starts_with(b"A          ")).expect("it is in the directory");
    // The second file begins where the first one does; and one is longer than its chain.
    for (at, byte) in [(root * 512 + 32 + 26, image[root * 512 + 26]), (root * 512 + 29, 0xff)] {
        let mut spoilt = image.clone();
        spoilt[at] = byte;
        let mut volume = Volume::new(Memory::with(spoilt.clone()), vec![0; 80_000], 1);
        assert!(matches!(volume.mount(), Err(Unsound::Damaged(_))));
        assert!(volume.disk().bytes == spoilt);
        let mut server = Server::new(volume);
        let mut client = Client { server: &mut server, badge: 1 };
        assert_eq!(client.ask(Request::Begin)[0], 0);
        assert_eq!(refused(client.open("A", Mode::Read)), Some(Refusal::Damaged as u64));
    }
}

/// Words around those that mean something, and any others.
fn words() -> impl Strategy<Value = Message> {
    let word =
        || prop_oneof![0..20_u64, 0..70_000_u64, any::<u64>(), any::<u64>().prop_map(|word| u64::MAX - word % 600)];
    let first = prop_oneof![
        (0..13_u64, 0..6_u64, 0..40_u64).prop_map(|(operation, index, serial)| operation | index << 8 | serial << 16),
        any::<u64>()
    ];
    (first, word(), word(), prop_oneof![Just(7), any::<u64>()], word(), word())
        .prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A hostile client with any words and any region: nothing panics, and the files that another client has open are as they were.
    #[test]
    fn words_of_a_client_stop_nothing(
        requests in prop::collection::vec((words(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..40), prop::sample::select(vec!["A", "MINE", "", "B/C"])), 1..200),
    ) {
        let mut server = begun(&[1, 2]);
        let mut client = Client { server: &mut server, badge: 1 };
        let (file, _) = client.open("MINE", Mode::Create).expect("it is made");
        let mine: Vec<u8> = (0..2_000_u32).map(|byte| byte as u8).collect();
        prop_assert_eq!(client.write(file, 0, &mine), 0);
        for (words, is_writable, bytes, name) in requests {
            let bytes = if bytes.len() % 2 == 0 { name.as_bytes().to_vec() } else { bytes };
            let loan = Lent { is_writable, ..Lent::of(&bytes) };
            let mut words = words;
            if bytes == name.as_bytes() && words[2] % 2 == 0 {
                words[2] = bytes.len() as u64;
            }
            client.server.serve(2, &words, if words[5] % 5 == 0 { None } else { Some(&loan) });
        }
        prop_assert!(client.read(file) == mine);
        let (files, used, cluster) = read_by_fatfs(&client.server.volume().disk().bytes[BEGIN * 512..]);
        prop_assert!(files["MINE"] == mine);
        let needed: u32 = files.values().map(|bytes| (bytes.len() as u32).div_ceil(cluster)).sum();
        prop_assert_eq!(used, needed);
    }

    /// A disk with any changed bytes in its first sectors, tables and root directory: nothing panics, and no chain is walked for ever.
    #[test]
    fn a_damaged_volume_stops_nothing(
        changes in prop::collection::vec((prop_oneof![Just(0..62_usize), Just(512..1200), Just(18_000..20_000)].prop_flat_map(|range| range), any::<u8>()), 1..12),
    ) {
        let mut server = begun(&[1]);
        let mut client = Client { server: &mut server, badge: 1 };
        for name in ["A", "B"] {
            let (file, _) = client.open(name, Mode::Create).expect("it is made");
            prop_assert_eq!(client.write(file, 0, &[1; 3000]), 0);
        }
        let mut image = client.server.volume().disk().bytes.clone();
        for (at, byte) in changes {
            image[BEGIN * 512 + at] = byte;
        }
        let mut server = self::server(Memory::with(image), 1);
        let mut client = Client { server: &mut server, badge: 1 };
        prop_assert_eq!(client.ask(Request::Begin)[0], 0);
        for name in ["A", "B", "C"] {
            if let Ok((file, length)) = client.open(name, Mode::Create) {
                if length < 100_000 {
                    client.read(file);
                }
                client.write(file, 0, &[2; 2000]);
                client.ask(Request::Close(file));
            }
            client.remove(name);
        }
    }
}

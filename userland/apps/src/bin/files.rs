//! Clients of a file server.
//!
//! | `role` | Does | Logs |
//! |---|---|---|
//! | 0, writer | makes `ONE.BIN`, `TWO.BIN` and `GONE.BIN` by turns, writes over a part of the first, removes the last, reads all, lists them | 1 bytes that were as written, 2 others, 3 files that are listed, 4 one if the volume has as many clusters in use as files need, or more |
//! | 1, careless | makes requests that a server cannot serve | 1 codes of refusals, 2 bytes of the file that was there before and is unchanged |
//! | 2, hostile | sends `rounds` requests of any words, beside its region | 1 one if a request was refused, and one was not |
//! | 3, recorder | adds records to `TRIP.LOG` until there are `rounds`, with `pause_us` between two; makes each again that a death of a server cuts short | 1 the number of each that is acknowledged, 2 its life, 3 how often it has opened the log again |
//! | 4, control | in each of `jobs` jobs puts its number into a channel, and waits for nothing; it says how that went when the logger is at its end | 1 numbers for which the channel had no room |
//! | 5, logger | takes `rounds` numbers from the channel, and adds each to `TRIP.LOG` as a record | 1 the number of each that is acknowledged |
//!
//! Handles of the last two: region "ring" (read, write), notifications "sent" and "taken". Those of others: endpoint "files" (call), region "memory" (read, write, lend). A writer that has opened its files signals "go", for which a hostile client waits. A task that is at its end signals "done"; one with the system as "system" waits for "done"
//! instead, and ends the system.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::contents::{RECORD, byte, fill, record};
use embedded_io::{Read, Seek, SeekFrom, Write};
use fusee::files::{File, Files, FilesError, Mode, PIECE, Recorder, RecorderError, Refusal};
use fusee::{
    Endpoint, Environment, Instant, Nanoseconds, Notification, Receiver, Region, Rights, Sender, SharedBytes, System,
    environment, life, log, next_job, now, shutdown, sleep_until,
};

fusee::entry!(main);

const NEVER: Instant = Instant::NEVER;
/// Bytes of the log.
const LOG: u32 = 1_000_000;
/// Tries of a request, and the time between two.
const TRIES: u32 = 10_000;
const PAUSE: Nanoseconds = Nanoseconds(100_000);

fn main() {
    let environment = environment();
    // Files that stay open until the other task is at its end.
    let mut kept = None;
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => kept = Some(write(&environment)),
        1 => ask_for_too_much(&environment),
        2 => be_hostile(&environment),
        3 => keep_records(&environment),
        4 => control(&environment),
        5 => log_numbers(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
    match environment.get::<System>("system") {
        Ok(system) => {
            if let Ok(done) = environment.get::<Notification>("done") {
                done.wait(NEVER).expect("another task comes to its end");
            }
            drop(kept);
            shutdown(system, 0)
        }
        Err(_) => {
            if let Ok(done) = environment.get::<Notification>("done") {
                done.signal(1).expect("this task may signal");
            }
        }
    }
}

fn number(environment: &Environment, name: &str) -> u64 {
    environment.parameter(name).unwrap_or(0)
}

fn open(environment: &Environment) -> Files {
    let (server, memory) = (environment.expect::<Endpoint>("files"), environment.expect::<Region>("memory"));
    Files::open(server, memory, NEVER).expect("there is a volume")
}

//--- A writer

/// Files, their numbers and their lengths in the end.
const NAMES: [(&str, u64, u64); 3] = [("ONE.BIN", 1, 30_000), ("TWO.BIN", 2, 12_345), ("GONE.BIN", 3, 20_000)];
/// Bytes that are written at once: no whole number of sectors.
const PART: usize = 1_700;
/// The part of the first file that is written over.
const OVER: (u64, u64) = (9_000, 5_000);

fn write(environment: &Environment) -> [File; 2] {
    let files = open(environment);
    let mut opened = NAMES.map(|(name, ..)| files.file(name, Mode::Create).expect("the file is made"));
    if let Ok(go) = environment.get::<Notification>("go") {
        go.signal(1).expect("this task may signal");
    }
    let mut bytes = [0; PART];
    for part in 0.. {
        let mut has_written = false;
        for (file, (_, seed, length)) in opened.iter_mut().zip(NAMES) {
            let from = part * PART as u64;
            let piece = &mut bytes[..length.saturating_sub(from).min(PART as u64) as usize];
            if !piece.is_empty() {
                fill(seed, from, piece);
                file.append(piece).expect("there is room");
                has_written = true;
            }
        }
        if !has_written {
            break;
        }
    }
    let [mut first, second, third] = opened;
    let (mut from, end) = (OVER.0, OVER.0 + OVER.1);
    first.seek(SeekFrom::Start(from)).expect("it is in the file");
    while from < end {
        let piece = &mut bytes[..(end - from).min(PART as u64) as usize];
        fill(4, from, piece);
        first.write_all(piece).expect("it is written over");
        from += piece.len() as u64;
    }
    first.flush().expect("the disk keeps it");
    drop(third);
    files.remove("gone.bin").expect("it is closed");
    let (mut right, mut wrong) = (0, 0);
    // To open a file again closes it as one that is written, and no other client comes in between.
    let mut read = [NAMES[0].0, NAMES[1].0].map(|name| files.file(name, Mode::Read).expect("the file is there"));
    drop((first, second));
    for (file, (_, seed, length)) in read.iter_mut().zip(&NAMES) {
        assert_eq!(u64::from(file.length()), *length);
        let mut place = 0;
        loop {
            let length = file.read(&mut bytes).expect("it is read");
            if length == 0 {
                break;
            }
            for (at, found) in (place..).zip(&bytes[..length]) {
                let is_over = *seed == 1 && (OVER.0..OVER.0 + OVER.1).contains(&at);
                if *found == byte(if is_over { 4 } else { *seed }, at) { right += 1 } else { wrong += 1 }
            }
            place += length as u64;
        }
    }
    log(1, right);
    log(2, wrong);
    let mut listed = 0;
    let mut clusters = 0;
    let space = files.space().expect("it is known");
    for item in files.list("") {
        let item = item.expect("it is listed");
        clusters += u64::from(item.bytes).div_ceil(space.cluster);
        listed += u64::from(NAMES[..2].iter().any(|(name, _, length)| {
            item.name() == Some(name) && u64::from(item.bytes) == *length && !item.is_directory
        }));
    }
    log(3, listed);
    log(4, u64::from(listed == 2 && clusters <= space.clusters - space.free));
    read
}

//--- Mistakes

fn code<T>(result: Result<T, FilesError>) {
    let code = match result {
        Ok(_) => 0,
        Err(FilesError::Refused(refusal)) => refusal as u64,
        Err(_) => 100,
    };
    log(1, code);
}

fn ask_for_too_much(environment: &Environment) {
    let (server, memory) = (environment.expect::<Endpoint>("files"), environment.expect::<Region>("memory"));
    // Nothing is open yet: `Space`.
    let early = server.call([11, 0, 0, 0, 0, 0], NEVER).expect("the server answers");
    log(1, early[0]);
    let files = open(environment);
    code(files.file("NONE.TXT", Mode::Read));
    code(files.file("NOT A NAME", Mode::Create));
    code(files.file("NONE/A.TXT", Mode::Create));
    code(files.file(core::str::from_utf8(&[b'A'; 65]).unwrap_or_default(), Mode::Create));
    let mut kept = files.file("KEPT.TXT", Mode::Create).expect("it is made");
    kept.append(b"as before").expect("there is room");
    code(kept.write_at(10, b"behind the end"));
    code(files.remove("KEPT.TXT"));
    let more = ["B", "C", "D"].map(|name| files.file(name, Mode::Create).expect("four files may be open"));
    code(files.file("E", Mode::Create));
    drop(more);
    kept.close().expect("it is open");
    let mut kept = files.file("KEPT.TXT", Mode::Read).expect("it is there");
    code(kept.append(b"read only"));
    code(Recorder::open(&files, "KEPT.TXT", 5).map_err(|_| FilesError::from(Refusal::Taken)).and_then(|mut log| {
        let too_long = log.append(&[0; PIECE]);
        if too_long == Err(RecorderError::TooLong) && log.append(b"") == Err(RecorderError::Full) {
            Ok(())
        } else {
            Err(Refusal::Malformed.into())
        }
    }));
    // The recorder had it to write, and so the one that reads was closed.
    code(kept.read_at(0, &mut [0]));
    let mut all = files.file("ALL", Mode::Create).expect("it is made");
    code(all.reserve(100_000));
    drop(all);
    files.remove("ALL").expect("it is closed");
    let space = files.space().expect("it is known");
    log(3, space.clusters - space.free);
    // Requests that are not made by the crate: a payload without a region, one without the stamp, and no request.
    let words =
        |words, rights| server.call_lending(words, &memory, rights, NEVER).expect("the server answers").words[0];
    log(1, server.call([2, 0, 1, 0, 0, 0], NEVER).expect("the server answers")[0]);
    log(1, words([2, 0, 1, 0, 0, 0], Rights::READ));
    log(1, words([u64::MAX; 6], Rights::READ | Rights::WRITE));
    let kept = files.file("KEPT.TXT", Mode::Read).expect("it is there");
    let mut bytes = [0; 20];
    let read = kept.read_at(0, &mut bytes).expect("it is read");
    log(2, if &bytes[..read] == b"as before" { read as u64 } else { 0 });
}

fn be_hostile(environment: &Environment) {
    let (server, memory) = (environment.expect::<Endpoint>("files"), environment.expect::<Region>("memory"));
    if let Ok(go) = environment.get::<Notification>("go") {
        go.wait(NEVER).expect("the other task has opened its files");
    }
    let mut state = number(environment, "seed") | 1;
    // Marsaglia 2003, xorshift.
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut seen = [0_u64; 2];
    for _ in 0..number(environment, "rounds") {
        let (operation, index, serial) = (random() % 13, random() % 5, random() % 60);
        // Whole clusters beside nonsense, names of others beside none.
        let mut words = [operation | index << 8 | serial << 16, random() % 3, random() % 20, 7, random(), random()];
        if random() % 4 == 0 {
            words[random() as usize % 6] = random();
        }
        let name: &[u8] = [&b"ONE.BIN"[..], b"TWO.BIN", b"TRIP.LOG", b"EVIL", b"A/B", b""][random() as usize % 6];
        let shared = memory.shared();
        if random() % 3 != 0 {
            shared.copy_from_slice(0, name);
            words[2] = name.len() as u64;
        }
        shared.write_u64(shared.len() - 8, if random() % 8 == 0 { random() } else { words[3] });
        let rights = if random() % 2 == 0 { Rights::READ } else { Rights::READ | Rights::WRITE };
        let reply = match random() % 4 {
            0 => server.call(words, NEVER).expect("the server answers"),
            _ => server.call_lending(words, &memory, rights, NEVER).expect("the server answers").words,
        };
        seen[usize::from(reply[0] == 0)] += 1;
    }
    log(1, u64::from(seen[0] > 0 && seen[1] > 0));
}

//--- Records

/// A recorder, once the servers are there.
fn recorder(environment: &Environment) -> Recorder {
    let (server, memory) = (environment.expect::<Endpoint>("files"), environment.expect::<Region>("memory"));
    for _ in 0..TRIES {
        let opened = Files::open(server, memory, NEVER).map_err(RecorderError::from);
        match opened.and_then(|files| Recorder::open(&files, "TRIP.LOG", LOG)) {
            Ok(recorder) => return recorder.again(TRIES, PAUSE),
            Err(RecorderError::Files(FilesError::Refused(Refusal::Damaged | Refusal::NoVolume))) => break,
            Err(_) => sleep_until(now().now + PAUSE).expect("it may sleep"),
        }
    }
    panic!("no log can be opened")
}

fn keep_records(environment: &Environment) {
    log(2, life().into());
    let mut recorder = recorder(environment);
    let mut bytes = [0; RECORD];
    while recorder.records() < number(environment, "rounds") {
        let next = record(recorder.records() + 1, &mut bytes);
        let before = recorder.reopened();
        let written = recorder.append(next).expect("a record is written in the end");
        log(1, written);
        if recorder.reopened() > before {
            log(3, recorder.reopened() - before);
        }
        if let Some(pause) = environment.parameter("pause_us") {
            sleep_until(now().now + Nanoseconds(pause * 1_000)).expect("it may sleep");
        }
    }
}

//--- Records of a hard task

fn control(environment: &Environment) {
    let (ring, sent, taken) = channel(environment);
    let mut sender = Sender::<u64>::new(ring, sent, taken).expect("the ring has slots");
    let mut lost = 0;
    for _ in 0..number(environment, "jobs") {
        let job = next_job().expect("this task has jobs");
        let is_sent = sender.try_send(&job.number).expect("the logger takes what is sent");
        lost += u64::from(!is_sent);
    }
    // The disk takes the host's time, so the logger may be far behind. What is said at the end is not overwritten by later records.
    let finish = environment.expect::<Region>("finish").shared();
    while finish.read_u64(0) == 0 {
        next_job().expect("this task has jobs");
    }
    log(1, lost);
    environment.expect::<Notification>("done").signal(1).expect("this task may signal");
    loop {
        next_job().expect("this task has jobs");
    }
}

fn log_numbers(environment: &Environment) {
    let (ring, sent, taken) = channel(environment);
    let mut receiver = Receiver::<u64>::new(ring, sent, taken).expect("the ring has slots");
    let mut recorder = recorder(environment);
    for _ in 0..number(environment, "rounds") {
        let job = receiver.receive(NEVER).expect("the task sends");
        let written = recorder.append(&job.to_le_bytes()).expect("the log has room");
        log(1, written);
    }
    environment.expect::<Region>("finish").shared().write_u64(0, 1);
}

fn channel(environment: &Environment) -> (SharedBytes, Notification, Notification) {
    (environment.expect::<Region>("ring").shared(), environment.expect("sent"), environment.expect("taken"))
}

//! Clients of a device that enciphers; the parameter `role` says which. All have the engine "ee" (acquire), its server "cipher" (call), and a region
//! "memory" (read, write, lend) for texts.
//!
//! | role         | further handles                                       | does                                                                    |
//! |--------------|-------------------------------------------------------|-------------------------------------------------------------------------|
//! | 0, archive   | the system as "system"                                | enciphers the vectors of SP 800-38A, and `mebibytes` MiB with keys of both lengths |
//! | 1, radio     | notification "end" (signal)                           | in each of `jobs` jobs enciphers `bytes` bytes                          |
//! | 2, victim    | notification "begun" (signal)                         | enciphers all of its memory, again and again, until it is stopped       |
//! | 3, next      | notification "begun" (wait), task "victim" (stop), the system | stops the victim in the middle of its work, and works with the engine itself |
//! | 4, mistaken  | region "other" (the same rights), of which the server knows nothing; the system | makes requests that cannot be granted     |
//! | 5, unlucky   | none                                                  | enciphers `times` times, and says how each time ended                   |
//!
//! The expected texts are computed by the crates `aes` and `cbc`. The archive logs how many vectors were right, of four (1); how many MiB were
//! enciphered (2) and deciphered (3) as these crates do it. The radio logs how many of its texts were right (1), and how often the engine was lost
//! (2); it exits with code 0 if nothing else happened, and not all were lost. The next one logs whether the victim was at work when it was stopped
//! (1), and whether its own text is right (2). The mistaken one logs codes of refusals (3), 100 for one of the kernel, 200 for an engine that was
//! lost, 0 for none; and so does the unlucky one (1), which then logs how many texts were right (2).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use aes::{Aes128, Aes256};
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use cbc::{Decryptor, Encryptor};
use fusee::crypto::{BLOCK, Cipher, CipherError, Iv, KEYS, Key, Key128, Key256, Part};
use fusee::{
    Endpoint, Engine, Environment, Instant, Nanoseconds, Notification, Region, Rights, SharedBytes, Task, environment,
    exit, log, next_job, now, shutdown, sleep_until,
};

fusee::entry!(main);

const NEVER: Instant = Instant::NEVER;
const MEBIBYTE: u64 = 1 << 20;
/// How much is compared at a time: whole blocks.
const CHUNK: usize = 4096;

/// Keys, the vector that the first block is chained to, and texts of NIST SP 800-38A, F.2.1 (128 bits) and F.2.5 (256 bits).
const SHORT: [u8; 16] = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes();
const LONG: [u8; 32] = joined([0x603d_eb10_15ca_71be_2b73_aef0_857d_7781, 0x1f35_2c07_3b61_08d7_2d98_10a3_0914_dff4]);
const FIRST: Iv = Iv(0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f_u128.to_be_bytes());
const TEXT: [u8; 64] = joined([
    0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a,
    0xae2d_8a57_1e03_ac9c_9eb7_6fac_45af_8e51,
    0x30c8_1c46_a35c_e411_e5fb_c119_1a0a_52ef,
    0xf69f_2445_df4f_9b17_ad2b_417b_e66c_3710,
]);
const BY_SHORT: [u8; 64] = joined([
    0x7649_abac_8119_b246_cee9_8e9b_12e9_197d,
    0x5086_cb9b_5072_19ee_95db_113a_9176_78b2,
    0x73be_d6b8_e3c1_743b_7116_e69e_2222_9516,
    0x3ff1_caa1_681f_ac09_120e_ca30_7586_e1a7,
]);
const BY_LONG: [u8; 64] = joined([
    0xf58c_4c04_d6e5_f1ba_779e_abfb_5f7b_fbd6,
    0x9cfc_4e96_7edb_808d_679f_777b_c670_2c7d,
    0x39f2_3369_a9d9_bacf_a530_e263_0423_1461,
    0xb2eb_05e2_c39b_e9fc_da6c_1907_8c6a_9d1b,
]);

const fn joined<const WORDS: usize, const BYTES: usize>(words: [u128; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let mut at = 0;
    while at < BYTES {
        bytes[at] = words[at / 16].to_be_bytes()[at % 16];
        at += 1;
    }
    bytes
}

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => archive(&environment),
        1 => transmit(&environment),
        2 => encipher_until_stopped(&environment),
        3 => stop_and_go_on(&environment),
        4 => be_mistaken(&environment),
        5 => be_unlucky(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
}

/// The handles that all roles have.
struct Desk {
    engine: Engine,
    server: Endpoint,
    memory: Region,
}

impl Desk {
    fn of(environment: &Environment) -> Desk {
        Desk {
            engine: environment.expect("ee"),
            server: environment.expect("cipher"),
            memory: environment.expect("memory"),
        }
    }

    fn cipher(&self, key: impl Into<Key>) -> Cipher {
        Cipher::new(self.engine, self.server, key, NEVER).expect("the device takes such keys")
    }

    fn bytes(&self) -> SharedBytes {
        self.memory.shared()
    }
}

fn archive(environment: &Environment) {
    let desk = Desk::of(environment);
    let mebibytes = environment.parameter("mebibytes").unwrap_or(1);
    let (short, long) = (desk.cipher(Key128(SHORT)), desk.cipher(Key256(LONG)));
    let right = known_answers(&desk, &short, &BY_SHORT) + known_answers(&desk, &long, &BY_LONG);
    log(1, right);

    let (mut enciphered, mut deciphered) = (0, 0);
    let part = Part::in_place(0, MEBIBYTE);
    let mut chained = FIRST;
    for round in 0..mebibytes {
        let (cipher, mut check) = match round % 2 {
            0 => (&short, Check::Short(Encryptor::new(&SHORT.into(), &chained.0.into()))),
            _ => (&long, Check::Long(Encryptor::new(&LONG.into(), &chained.0.into()))),
        };
        fill(&desk, round);
        // From one round to the next the texts are chained, whichever key it is.
        let next = cipher.encrypt(&desk.memory, part, chained, NEVER).expect("the text is in the region");
        enciphered += u64::from(is_enciphered(&desk, round, &mut check));
        cipher.decrypt(&desk.memory, part, chained, NEVER).expect("the text is in the region");
        deciphered += u64::from(is_filled(&desk, round));
        chained = next;
    }
    log(2, enciphered);
    log(3, deciphered);
    for cipher in [short, long] {
        cipher.forget(NEVER).expect("the device had it");
    }
    let all_right = right == 4 && enciphered == mebibytes && deciphered == mebibytes;
    shutdown(environment.expect("system"), u64::from(!all_right))
}

/// How many of two are right: the text that is enciphered to another place, and that which is deciphered where it is.
fn known_answers(desk: &Desk, cipher: &Cipher, answer: &[u8; 64]) -> u64 {
    let bytes = desk.bytes();
    bytes.copy_from_slice(0, &TEXT);
    let (from, to, length) = (0, 128, TEXT.len() as u64);
    cipher.encrypt(&desk.memory, Part { from, to, bytes: length }, FIRST, NEVER).expect("the text is in the region");
    let enciphered = read::<64>(&bytes, 128) == *answer && read::<64>(&bytes, 0) == TEXT;
    cipher.decrypt(&desk.memory, Part::in_place(to, length), FIRST, NEVER).expect("the text is in the region");
    u64::from(enciphered) + u64::from(read::<64>(&bytes, 128) == TEXT)
}

fn transmit(environment: &Environment) {
    let desk = Desk::of(environment);
    let jobs = environment.parameter("jobs").unwrap_or(1);
    let bytes = environment.parameter("bytes").unwrap_or(1024);
    let cipher = desk.cipher(Key128(SHORT));
    let (mut right, mut lost, mut chained) = (0, 0, FIRST);
    for job in 1..=jobs {
        next_job().expect("this task is periodic");
        write(&desk, job, bytes);
        match cipher.encrypt(&desk.memory, Part::in_place(0, bytes), chained, NEVER) {
            Ok(next) => {
                right += u64::from(is_right(&desk, job, bytes, chained));
                chained = next;
            }
            Err(CipherError::EngineLost) => lost += 1,
            Err(error) => panic!("nothing else may happen: {error:?}"),
        }
    }
    log(1, right);
    log(2, lost);
    environment.expect::<Notification>("end").signal(1).expect("somebody waits for our end");
    exit(u64::from(right + lost != jobs || right == 0))
}

fn encipher_until_stopped(environment: &Environment) {
    let desk = Desk::of(environment);
    let cipher = desk.cipher(Key256(LONG));
    let bytes = desk.memory.bytes();
    environment.expect::<Notification>("begun").signal(1).expect("somebody waits for our beginning");
    loop {
        cipher.encrypt(&desk.memory, Part::in_place(0, bytes), FIRST, NEVER).expect("nobody takes the engine away");
    }
}

fn stop_and_go_on(environment: &Environment) {
    let desk = Desk::of(environment);
    let cipher = desk.cipher(Key128(SHORT));
    let victim = environment.expect::<Task>("victim");
    environment.expect::<Notification>("begun").wait(NEVER).expect("the victim begins");
    sleep_until(now().now + Nanoseconds(environment.parameter("delay_us").unwrap_or(0) * 1_000))
        .expect("this task may sleep");
    // It has the engine now, or we would have it.
    let is_at_work = desk.engine.acquire(Instant::ZERO).is_err();
    victim.stop().expect("the victim may be stopped");
    log(1, u64::from(is_at_work));
    let bytes = 64 * BLOCK;
    write(&desk, 1, bytes);
    cipher.encrypt(&desk.memory, Part::in_place(0, bytes), FIRST, NEVER).expect("the engine is given on");
    let is_right = is_right(&desk, 1, bytes, FIRST);
    log(2, u64::from(is_right));
    shutdown(environment.expect("system"), u64::from(!is_right || !is_at_work))
}

fn be_mistaken(environment: &Environment) {
    let desk = Desk::of(environment);
    let other = environment.expect::<Region>("other");
    let cipher = desk.cipher(Key128(SHORT));
    let whole = desk.memory.bytes();
    write(&desk, 1, BLOCK);
    let part = |from, to, bytes| cipher.encrypt(&desk.memory, Part { from, to, bytes }, FIRST, NEVER);
    refused(part(0, 0, 0));
    refused(part(0, 0, BLOCK + 1));
    refused(part(0, 0, u64::MAX - 15));
    refused(part(0, whole, BLOCK));
    refused(part(4, 4, BLOCK));
    refused(part(0, BLOCK, 2 * BLOCK));
    refused(cipher.decrypt(&desk.memory, Part::in_place(BLOCK, whole), FIRST, NEVER));
    // The server has no place for it, so the kernel refuses.
    refused(cipher.encrypt(&other, Part::in_place(0, BLOCK), FIRST, NEVER));
    // Not more than so many keys.
    let keys: [Cipher; KEYS - 1] = core::array::from_fn(|_| desk.cipher(Key256(LONG)));
    refused(Cipher::new(desk.engine, desk.server, Key128(SHORT), NEVER));
    for key in keys {
        key.forget(NEVER).expect("the device had it");
    }
    desk.cipher(Key128(SHORT)).forget(NEVER).expect("there is room again");
    // Bytes that are no key, and calls of a client that does not hold the engine, or that has made its own words.
    log(3, Key::try_from(&LONG[..24]).map_or_else(|length| length.0 as u64, |_| 0));
    let raw = |words| {
        let rights = Rights::READ | Rights::WRITE;
        let answer = desk.server.call_lending(words, &desk.memory, rights, NEVER).expect("the server answers");
        log(3, answer.words[0]);
    };
    raw([2, 0, 0, BLOCK, 0, 0]);
    raw([0, 24, 0, 0, 0, 0]);
    let guard = desk.engine.acquire(NEVER).expect("it is free");
    // Held, but nothing is counted.
    raw([2, 0, 0, BLOCK, 0, 0]);
    raw([u64::MAX; 6]);
    guard.release().expect("nobody has taken it away");
    // And nothing of that has changed anything.
    let is_right = part(0, 0, BLOCK).is_ok() && is_right(&desk, 1, BLOCK, FIRST);
    shutdown(environment.expect("system"), u64::from(!is_right))
}

fn be_unlucky(environment: &Environment) {
    let desk = Desk::of(environment);
    let cipher = desk.cipher(Key128(SHORT));
    let (mut right, bytes) = (0, 64 * BLOCK);
    for round in 0..environment.parameter("times").unwrap_or(1) {
        write(&desk, round, bytes);
        let result = cipher.encrypt(&desk.memory, Part::in_place(0, bytes), FIRST, NEVER);
        log(1, code(result));
        right += u64::from(result.is_ok() && is_right(&desk, round, bytes, FIRST));
    }
    log(2, right);
}

//--- Errors

fn refused<T>(result: Result<T, CipherError>) {
    log(3, code(result));
}

fn code<T>(result: Result<T, CipherError>) -> u64 {
    match result {
        Ok(_) => 0,
        Err(CipherError::Refused(refusal)) => refusal as u64,
        Err(CipherError::Call(_)) => 100,
        Err(CipherError::EngineLost) => 200,
        Err(CipherError::Acquire(_)) => 300,
    }
}

// --- Texts, and their ciphers

/// A cipher of the same text on this CPU, a chunk after the other.
enum Check {
    Short(Encryptor<Aes128>),
    Long(Encryptor<Aes256>),
}

/// Fills the first mebibyte with the text of this round.
fn fill(desk: &Desk, round: u64) {
    for word in 0..MEBIBYTE as usize / 8 {
        desk.bytes().write_u64(word * 8, pattern(round, word));
    }
}

fn is_filled(desk: &Desk, round: u64) -> bool {
    (0..MEBIBYTE as usize / 8).all(|word| desk.bytes().read_u64(word * 8) == pattern(round, word))
}

/// Whether the first mebibyte is the cipher of this round's text.
fn is_enciphered(desk: &Desk, round: u64, check: &mut Check) -> bool {
    (0..MEBIBYTE as usize / CHUNK).all(|chunk| {
        let mut wanted = [0; CHUNK];
        for (word, bytes) in wanted.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&pattern(round, chunk * CHUNK / 8 + word).to_le_bytes());
        }
        for block in wanted.chunks_exact_mut(BLOCK as usize) {
            let block = block.try_into().expect("chunks have whole blocks");
            match check {
                Check::Short(check) => check.encrypt_block(block),
                Check::Long(check) => check.encrypt_block(block),
            }
        }
        read::<CHUNK>(&desk.bytes(), chunk * CHUNK) == wanted
    })
}

/// Writes the text of this round, which is short.
fn write(desk: &Desk, round: u64, bytes: u64) {
    for word in 0..bytes as usize / 8 {
        desk.bytes().write_u64(word * 8, pattern(round, word));
    }
}

/// Whether it was enciphered with the short key: the crates decipher it to the text.
fn is_right(desk: &Desk, round: u64, bytes: u64, iv: Iv) -> bool {
    let mut check = Decryptor::<Aes128>::new(&SHORT.into(), &iv.0.into());
    (0..bytes as usize / BLOCK as usize).all(|number| {
        let mut block = read::<{ BLOCK as usize }>(&desk.bytes(), number * BLOCK as usize).into();
        check.decrypt_block(&mut block);
        let (words, _) = block.as_chunks::<8>();
        words.iter().enumerate().all(|(word, bytes)| u64::from_le_bytes(*bytes) == pattern(round, 2 * number + word))
    })
}

fn read<const BYTES: usize>(memory: &SharedBytes, offset: usize) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    memory.copy_to_slice(offset, &mut bytes);
    bytes
}

/// Another value for each word of each round (Steele, Lea, Flood 2014, the finalizer of SplitMix).
fn pattern(round: u64, word: usize) -> u64 {
    let mut mixed = (round * (MEBIBYTE / 8) + word as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 27
}

//! Ciphers: the requests of a client to the server of a device that enciphers, and their checks in the server.
//!
//! The device is an engine. A client acquires it, counts its request in the doorbell page that it has for as long, and calls the server with the region
//! that is to be enciphered, which it lends ([`Endpoint::call_lending`]). The server believes a caller that it holds the engine by that count alone:
//! no other task can write it, and until the server has counted the same, the kernel grants the engine to no task. [`Cipher`] does all of this.
//!
//! | Word | Request to load a key | to forget one | to encipher, to decipher | Reply |
//! |---|---|---|---|---|
//! | 0 | 0 | 1, and from bit 8 on the key | 2, 3, and from bit 8 on the key | zero, or a code of [`Refusal`] |
//! | 1 | bytes of the key | | where the text is in the region that is lent: bytes from its start | the key; or the next [`Iv`] |
//! | 2 | the key | | where it goes, in the same region | of that the rest |
//! | 3 | | | how many bytes | |
//! | 4, 5 | | | the [`Iv`] | |
//!
//! A client may send anything: [`Request::check`] is all that a server needs to believe it.
//!
//! Source: AES is FIPS 197, CBC is NIST SP 800-38A, section 6.2.

use core::fmt;

use crate::{AcquireError, CallLendingError, Endpoint, Engine, Instant, Message, Region, Rights};

/// Bytes of a block: a text has whole ones.
pub const BLOCK: u64 = 16;

/// Where in a region a text may begin: at multiples of so many bytes.
pub const ALIGNMENT: u64 = 8;

/// How many keys a client may have at a time.
pub const KEYS: usize = 4;

/// Word 0 of messages of the driver's own second task. From any other task it means nothing, and does no harm.
pub const LOOK: u64 = u64::MAX;

const LOAD: u64 = 0;
const FORGET: u64 = 1;
const ENCIPHER: u64 = 2;
const DECIPHER: u64 = 3;

/// Bits of word 0 with the operation; the key stands above them.
const KEY_SHIFT: u32 = 8;

//--- Keys and texts

/// A key of AES-128.
#[derive(Clone, Eq, PartialEq)]
pub struct Key128(pub [u8; 16]);

/// A key of AES-256.
#[derive(Clone, Eq, PartialEq)]
pub struct Key256(pub [u8; 32]);

/// A key of either length. It is never printed.
#[derive(Clone, Eq, PartialEq)]
pub enum Key {
    /// A key of 16 bytes.
    Bits128(Key128),
    /// A key of 32 bytes.
    Bits256(Key256),
}

/// Bytes that are no key, by their number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyLength(pub usize);

impl Key {
    /// The bytes of the key.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Key::Bits128(key) => &key.0,
            Key::Bits256(key) => &key.0,
        }
    }
}

impl From<Key128> for Key {
    fn from(key: Key128) -> Key {
        Key::Bits128(key)
    }
}

impl From<Key256> for Key {
    fn from(key: Key256) -> Key {
        Key::Bits256(key)
    }
}

impl TryFrom<&[u8]> for Key {
    type Error = KeyLength;

    fn try_from(bytes: &[u8]) -> Result<Key, KeyLength> {
        let short = bytes.try_into().map(|key| Key128(key).into());
        let long = || bytes.try_into().map(|key| Key256(key).into());
        short.or_else(|_| long()).map_err(|_| KeyLength(bytes.len()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key of {} bytes", self.bytes().len())
    }
}

/// The vector that the first block of a text is chained to. With one key, no two texts should have the same, nor one that can be foretold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Iv(pub [u8; 16]);

impl Iv {
    /// As two words of a message.
    #[must_use]
    pub fn words(self) -> [u64; 2] {
        let number = u128::from_le_bytes(self.0);
        [number as u64, (number >> 64) as u64]
    }

    fn of([low, high]: [u64; 2]) -> Iv {
        Iv((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
    }
}

/// The bytes of a region that are a text, and their destination in the same region: the same bytes, or a part without any of them. In bytes, from the
/// region's start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    /// Where the text is.
    pub from: u64,
    /// Where it goes.
    pub to: u64,
    /// The length of the text.
    pub bytes: u64,
}

impl Part {
    /// So many bytes at `at`, which stay there.
    #[must_use]
    pub fn in_place(at: u64, bytes: u64) -> Part {
        Part { from: at, to: at, bytes }
    }
}

//--- Requests

/// The reason for which a server refused a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Refusal {
    /// The request has no meaning: no such operation, or a reply that no server of this crate would give.
    Malformed = 1,
    /// There is no text.
    Empty = 2,
    /// The length of the text is no multiple of [`BLOCK`].
    NotBlocks = 3,
    /// There are no keys of this length.
    KeyLength = 4,
    /// Text or result do not lie in the region that is lent, or do not begin at a multiple of [`ALIGNMENT`].
    OutsideRegion = 5,
    /// The result would overwrite a part of the text, and not begin where it begins.
    Overlap = 6,
    /// No region is lent with it, or one that cannot be written.
    NotLent = 7,
    /// This client has no such key.
    NoKey = 8,
    /// This client has [`KEYS`] keys already.
    Full = 9,
    /// The caller does not hold the engine, or is no client of it.
    NotHeld = 10,
    /// The device tried, and failed. The result is undefined.
    Failed = 11,
    /// The device cannot do this.
    Unsupported = 12,
    /// The device was reset, because it did not answer in time, or its answer makes no sense. The result is undefined.
    Lost = 13,
}

impl Refusal {
    const ALL: [Refusal; 13] = [
        Refusal::Malformed,
        Refusal::Empty,
        Refusal::NotBlocks,
        Refusal::KeyLength,
        Refusal::OutsideRegion,
        Refusal::Overlap,
        Refusal::NotLent,
        Refusal::NoKey,
        Refusal::Full,
        Refusal::NotHeld,
        Refusal::Failed,
        Refusal::Unsupported,
        Refusal::Lost,
    ];

    fn from_code(code: u64) -> Refusal {
        Refusal::ALL.into_iter().find(|refusal| *refusal as u64 == code).unwrap_or(Refusal::Malformed)
    }
}

/// The direction of a text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// A text becomes a cipher.
    Encipher,
    /// A cipher becomes a text.
    Decipher,
}

/// The region lent with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Loan {
    /// The length of the region.
    pub bytes: u64,
    /// Whether the server may write there.
    pub is_writable: bool,
}

/// A request that was checked: its text is in the region that is lent, and its key is one of those that a client can have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Request {
    /// Keep a key.
    Load(Key),
    /// Forget this one.
    Forget(usize),
    /// Encipher or decipher a text.
    Work {
        /// The direction.
        direction: Direction,
        /// Number of the key, below [`KEYS`].
        key: usize,
        /// The text.
        part: Part,
        /// The vector that its first block is chained to.
        iv: Iv,
    },
}

impl Request {
    /// The request in `words` of any origin, if it can be served.
    ///
    /// # Errors
    /// [`Refusal`] is the answer for the client.
    pub fn check(words: &Message, loan: Option<Loan>) -> Result<Request, Refusal> {
        let [first, rest @ ..] = *words;
        let number = usize::try_from(first >> KEY_SHIFT).ok().filter(|key| *key < KEYS);
        let direction = match first & ((1 << KEY_SHIFT) - 1) {
            LOAD if first == LOAD => return Request::load(rest),
            FORGET => return number.map(Request::Forget).ok_or(Refusal::NoKey),
            ENCIPHER => Direction::Encipher,
            DECIPHER => Direction::Decipher,
            _ => return Err(Refusal::Malformed),
        };
        let [from, to, bytes, iv @ ..] = rest;
        if bytes == 0 {
            return Err(Refusal::Empty);
        }
        if !bytes.is_multiple_of(BLOCK) {
            return Err(Refusal::NotBlocks);
        }
        let loan = loan.filter(|loan| loan.is_writable).ok_or(Refusal::NotLent)?;
        let fits = |at: u64| at.is_multiple_of(ALIGNMENT) && at.checked_add(bytes).is_some_and(|end| end <= loan.bytes);
        if !fits(from) || !fits(to) {
            return Err(Refusal::OutsideRegion);
        }
        if from != to && from.abs_diff(to) < bytes {
            return Err(Refusal::Overlap);
        }
        let key = number.ok_or(Refusal::NoKey)?;
        Ok(Request::Work { direction, key, part: Part { from, to, bytes }, iv: Iv::of(iv) })
    }

    fn load([length, words @ ..]: [u64; 5]) -> Result<Request, Refusal> {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let key = usize::try_from(length).ok().and_then(|length| Key::try_from(bytes.get(..length)?).ok());
        key.map(Request::Load).ok_or(Refusal::KeyLength)
    }
}

/// The reply to a request: up to two words that its client wants to know.
#[must_use]
pub fn reply(result: Result<[u64; 2], Refusal>) -> Message {
    match result {
        Ok([one, other]) => [0, one, other, 0, 0, 0],
        Err(refusal) => [refusal as u64, 0, 0, 0, 0, 0],
    }
}

//--- Clients

/// The reason for which a client was not served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CipherError {
    /// The engine was not granted.
    Acquire(AcquireError),
    /// The engine was taken away, because it was not idle and given back in time. The result is undefined.
    EngineLost,
    /// The server answered that it did not.
    Refused(Refusal),
    /// The server did not answer. If the deadline passed first, it goes on, but nothing of that reaches the region any more. A part of the
    /// result may be there.
    Call(CallLendingError),
}

/// A key that the server keeps for this task, and the engine that works with it.
#[derive(Debug)]
pub struct Cipher {
    engine: Engine,
    server: Endpoint,
    key: u64,
}

impl Cipher {
    /// Gives the server of `engine` a key to keep. Like each call here it waits until `deadline` for the engine, and then for the server.
    ///
    /// # Errors
    /// [`CipherError`] says why it keeps none.
    pub fn new(
        engine: Engine,
        server: Endpoint,
        key: impl Into<Key>,
        deadline: Instant,
    ) -> Result<Cipher, CipherError> {
        let mut words = [LOAD; 6];
        let key = key.into();
        words[1] = key.bytes().len() as u64;
        for (word, bytes) in words[2..].iter_mut().zip(key.bytes().chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        let [key, _] = while_held(&engine, deadline, || Ok(server.call(words, deadline)?))?;
        Ok(Cipher { engine, server, key })
    }

    /// Enciphers a part of `memory`. Returns the vector for a text that goes on where this one ends: its last block.
    ///
    /// # Errors
    /// [`CipherError`] says why not. The result's bytes are undefined then, if the request was not refused for its content.
    pub fn encrypt(&self, memory: &Region, part: Part, iv: Iv, deadline: Instant) -> Result<Iv, CipherError> {
        self.work(ENCIPHER, memory, part, iv, deadline)
    }

    /// Deciphers a part of `memory`. Returns the vector for a text that goes on where this one ends.
    ///
    /// # Errors
    /// As [`Cipher::encrypt`].
    pub fn decrypt(&self, memory: &Region, part: Part, iv: Iv, deadline: Instant) -> Result<Iv, CipherError> {
        self.work(DECIPHER, memory, part, iv, deadline)
    }

    /// Lets server and device forget the key. One that is only dropped is kept, and counts.
    ///
    /// # Errors
    /// [`CipherError`] says why it may still be kept.
    pub fn forget(self, deadline: Instant) -> Result<(), CipherError> {
        let words = [FORGET | self.key << KEY_SHIFT, 0, 0, 0, 0, 0];
        while_held(&self.engine, deadline, || Ok(self.server.call(words, deadline)?)).map(drop)
    }

    fn work(&self, operation: u64, memory: &Region, part: Part, iv: Iv, deadline: Instant) -> Result<Iv, CipherError> {
        let [low, high] = iv.words();
        let words = [operation | self.key << KEY_SHIFT, part.from, part.to, part.bytes, low, high];
        let rights = Rights::READ | Rights::WRITE;
        let call = || Ok(self.server.call_lending(words, memory, rights, deadline)?.words);
        while_held(&self.engine, deadline, call).map(Iv::of)
    }
}

/// Makes a call while this task holds the engine, and says so to the server.
fn while_held(
    engine: &Engine,
    deadline: Instant,
    call: impl FnOnce() -> Result<Message, CallLendingError>,
) -> Result<[u64; 2], CipherError> {
    let guard = engine.acquire(deadline).map_err(CipherError::Acquire)?;
    let before = guard.submitted();
    guard.count(before.wrapping_add(1)).map_err(|_| CipherError::EngineLost)?;
    let answer = call();
    if answer.is_err() {
        // A request that the server has not received will not be done. If it is at work, it ends that, and counts as we do.
        let _ = guard.count(before);
    }
    let is_lost = guard.release().is_err();
    accepted(&answer.map_err(CipherError::Call)?).map_err(|refusal| match refusal {
        Refusal::Lost | Refusal::NotHeld if is_lost => CipherError::EngineLost,
        refusal => CipherError::Refused(refusal),
    })
}

fn accepted(words: &Message) -> Result<[u64; 2], Refusal> {
    match *words {
        [0, one, other, ..] => Ok([one, other]),
        [code, ..] => Err(Refusal::from_code(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscall::played;
    use core::mem::ManuallyDrop;
    use proptest::prelude::*;

    const LOAN: Option<Loan> = Some(Loan { bytes: 4096, is_writable: true });

    fn work(first: u64, part: [u64; 3], loan: Option<Loan>) -> Result<Request, Refusal> {
        let [from, to, bytes] = part;
        Request::check(&[first, from, to, bytes, 5, 6], loan)
    }

    #[test]
    fn what_fits_exactly_is_accepted_and_one_more_block_is_not() {
        let part = Part { from: 0, to: 2048, bytes: 2048 };
        let request = Request::Work { direction: Direction::Decipher, key: 3, part, iv: Iv::of([5, 6]) };
        assert_eq!(work(3 | 3 << KEY_SHIFT, [0, 2048, 2048], LOAN), Ok(request));
        assert_eq!(work(3, [0, 2048, 2064], LOAN), Err(Refusal::OutsideRegion));
        assert_eq!(work(3, [2056, 0, 2048], LOAN), Err(Refusal::OutsideRegion));
        assert_eq!(work(3, [4, 4, 16], LOAN), Err(Refusal::OutsideRegion));
        assert_eq!(work(3, [0, 0, 0], LOAN), Err(Refusal::Empty));
        assert_eq!(work(3, [0, 0, 24], LOAN), Err(Refusal::NotBlocks));
        assert_eq!(work(2 | 4 << KEY_SHIFT, [0, 0, 16], LOAN), Err(Refusal::NoKey));
        assert_eq!(work(4, [0, 0, 16], LOAN), Err(Refusal::Malformed));
    }

    #[test]
    fn a_text_may_stay_where_it_is_or_go_where_none_of_it_was() {
        assert!(work(2, [64, 64, 64], LOAN).is_ok());
        assert!(work(2, [64, 128, 64], LOAN).is_ok());
        assert!(work(2, [64, 0, 64], LOAN).is_ok());
        assert_eq!(work(2, [64, 120, 64], LOAN), Err(Refusal::Overlap));
        assert_eq!(work(2, [64, 8, 64], LOAN), Err(Refusal::Overlap));
    }

    #[test]
    fn a_text_needs_a_loan_to_write() {
        let readable = Some(Loan { bytes: 4096, is_writable: false });
        assert_eq!(work(2, [0, 0, 16], readable), Err(Refusal::NotLent));
        assert_eq!(work(2, [0, 0, 16], None), Err(Refusal::NotLent));
    }

    #[test]
    fn keys_are_of_sixteen_and_of_thirty_two_bytes() {
        let bytes: [u8; 32] = core::array::from_fn(|number| number as u8);
        for length in 0..=32 {
            let key = Key::try_from(&bytes[..length]);
            match length {
                16 | 32 => assert_eq!(key.unwrap().bytes(), &bytes[..length]),
                _ => assert_eq!(key, Err(KeyLength(length))),
            }
        }
        let words = |length| [LOAD, length, 0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908, 0, 0];
        let short = Key::try_from(&bytes[..16]).unwrap();
        assert_eq!(Request::check(&words(16), None), Ok(Request::Load(short)));
        for length in [0, 15, 17, 24, 33, u64::MAX] {
            assert_eq!(Request::check(&words(length), None), Err(Refusal::KeyLength));
        }
        assert_eq!(Request::check(&[LOAD | 1 << KEY_SHIFT, 16, 0, 0, 0, 0], None), Err(Refusal::Malformed));
    }

    #[test]
    fn a_refusal_survives_its_reply_and_an_unknown_code_is_malformed() {
        for refusal in Refusal::ALL {
            assert_eq!(accepted(&reply(Err(refusal))), Err(refusal));
        }
        assert_eq!(accepted(&reply(Ok([7, 8]))), Ok([7, 8]));
        assert_eq!(accepted(&[77, 0, 0, 0, 0, 0]), Err(Refusal::Malformed));
    }

    #[test]
    fn a_client_that_is_not_answered_takes_its_count_back_and_one_that_is_does_not() {
        let engine = Engine::on_host(0);
        let submitted = || ManuallyDrop::new(engine.held_on_host()).submitted();
        played::by(|_, _| 0);
        let late = while_held(&engine, Instant::NEVER, || Err(CallLendingError::TimedOut));
        assert_eq!((late, submitted()), (Err(CipherError::Call(CallLendingError::TimedOut)), 0));
        let answered = while_held(&engine, Instant::NEVER, || {
            assert_eq!(submitted(), 1, "the server looks at the count");
            Ok([0, 7, 8, 0, 0, 0])
        });
        assert_eq!((answered, submitted()), (Ok([7, 8]), 1));
        let refused = while_held(&engine, Instant::NEVER, || Ok(reply(Err(Refusal::Failed))));
        assert_eq!((refused, submitted()), (Err(CipherError::Refused(Refusal::Failed)), 2));
        engine.lose_on_host();
        assert_eq!(while_held(&engine, Instant::NEVER, || Ok([0; 6])), Err(CipherError::EngineLost));
    }

    /// Numbers around the ends, and any others.
    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![0..5_000u64, any::<u64>(), (0..5_000u64).prop_map(|below| u64::MAX - below)]
    }

    proptest! {
        /// A hostile client with any words: an accepted request lies in its own region, and does not overwrite bytes that are still to be read.
        #[test]
        fn what_is_accepted_lies_in_the_loan_and_overwrites_no_text(
            first in prop_oneof![0..2_000u64, any::<u64>()],
            from in number(), to in number(), blocks in number(),
            bytes in number(), is_writable: bool, is_lent: bool,
        ) {
            let loan = is_lent.then_some(Loan { bytes, is_writable });
            match work(first, [from, to, blocks.wrapping_mul(BLOCK)], loan) {
                Ok(Request::Work { key, part, .. }) => {
                    let end = |at: u64| u128::from(at) + u128::from(part.bytes);
                    prop_assert!(is_lent && is_writable && key < KEYS && part.bytes > 0 && part.bytes % BLOCK == 0);
                    prop_assert!(end(part.from).max(end(part.to)) <= u128::from(bytes));
                    prop_assert!(part.from == part.to || end(part.from) <= part.to.into() || end(part.to) <= part.from.into());
                }
                Ok(Request::Forget(key)) => prop_assert!(key < KEYS),
                Ok(Request::Load(_)) => prop_assert_eq!(first, LOAD),
                Err(_) => {}
            }
        }
    }
}

//! Messages of files, and frames of records.

use super::client::checked;
use super::record::{frame, frame_bytes};
use super::*;
use proptest::prelude::*;
extern crate std;
use std::vec;
use std::vec::Vec;

fn file() -> impl Strategy<Value = FileNumber> {
    (0..OPEN_FILES, any::<u32>()).prop_map(|(index, serial)| FileNumber::new(index, serial))
}

fn payload() -> impl Strategy<Value = Payload> {
    any::<(usize, u64)>().prop_map(|(length, stamp)| Payload { length, stamp })
}

fn request() -> impl Strategy<Value = Request> {
    let mode = prop_oneof![Just(Mode::Read), Just(Mode::Write), Just(Mode::Create)];
    let written = || (file(), any::<u64>(), payload());
    prop_oneof![
        Just(Request::Begin),
        (mode, payload()).prop_map(|(mode, path)| Request::Open(mode, path)),
        (file(), any::<(u64, usize)>()).prop_map(|(file, (offset, room))| Request::Read { file, offset, room }),
        written().prop_map(|(file, offset, payload)| Request::Write(file, offset, payload)),
        written().prop_map(|(file, offset, payload)| Request::WriteSynced(file, offset, payload)),
        (file(), any::<u64>()).prop_map(|(file, length)| Request::Reserve(file, length)),
        file().prop_map(Request::Sync),
        file().prop_map(Request::Close),
        payload().prop_map(Request::Remove),
        (any::<u64>(), payload()).prop_map(|(place, path)| Request::List(place, path)),
        Just(Request::Space),
    ]
}

proptest! {
    #[test]
    fn a_request_survives_its_message(request in request()) {
        prop_assert_eq!(Request::of(&request.message()), Ok(request));
    }

    /// A hostile client: accepted words have the meaning of their own message.
    #[test]
    fn any_words_mean_what_their_own_message_means(words: Message, operation in 0..16u64, bits in 0..64u32) {
        for words in [words, [operation | words[0] >> bits << 8, words[1] >> bits, words[2], words[3], 0, 0]] {
            if let Ok(request) = Request::of(&words) {
                prop_assert_eq!(Request::of(&request.message()), Ok(request));
            }
        }
    }

    /// A log with any damage behind some byte has the records before it, and no other one.
    #[test]
    fn a_log_ends_at_its_first_damaged_record(
        lengths in prop::collection::vec(0..2000_usize, 1..8), at: prop::sample::Index, bit in 0..8_u32,
    ) {
        let mut log = Vec::new();
        let mut ends = Vec::new();
        for (index, length) in lengths.iter().enumerate() {
            let record: Vec<u8> = (0..*length).map(|byte| (byte * 7 + index) as u8).collect();
            let mut bytes = [0; PIECE];
            let framed = frame(index as u64 + 1, &record, &mut bytes).expect("it is short");
            prop_assert_eq!(framed, frame_bytes(*length));
            ends.push((log.len(), log.len() + HEADER + length));
            log.extend_from_slice(&bytes[..framed]);
        }
        prop_assert_eq!(Records::new(&log).map(<[u8]>::len).collect::<Vec<_>>(), lengths.clone());
        let byte = at.index(log.len());
        log[byte] ^= 1 << bit;
        let whole = ends.iter().take_while(|(begin, end)| !(*begin..*end).contains(&byte)).count();
        // A bit in the zeros behind a record damages none.
        let found = Records::new(&log).map(<[u8]>::len).collect::<Vec<_>>();
        prop_assert_eq!(found, &lengths[..whole]);
    }
}

#[test]
fn a_refusal_survives_its_reply_and_an_unknown_code_is_malformed() {
    for refused in Refusal::ALL {
        assert_eq!(checked(refusal(refused)), Err(FilesError::Refused(refused)));
    }
    assert_eq!(checked([99, 0, 0, 0, 0, 0]), Err(FilesError::Refused(Refusal::Malformed)));
}

#[test]
fn a_listed_name_has_a_dot_only_before_an_extension() {
    let name = |name| Item::of(&listed(1, 5, false, name)).map(|item| Vec::from(item.name().unwrap_or_default()));
    assert_eq!(name(b"LOG     TXT"), Some(b"LOG.TXT".to_vec()));
    assert_eq!(name(b"FILENAMEEXT"), Some(b"FILENAME.EXT".to_vec()));
    assert_eq!(name(b"TRIPS      "), Some(b"TRIPS".to_vec()));
}

//! Frames, filters and messages, against the bits of a bus and against hostile clients.

use super::*;
use embedded_can::Frame as _;
use proptest::prelude::*;

/// Any frame, by the constructors that programs use.
fn frames() -> impl Strategy<Value = Frame> {
    let ids = prop_oneof![
        (0..=STANDARD_BITS).prop_map(|id| Id::Standard(StandardId::new(id as u16).unwrap())),
        // Identifiers that begin as short ones do, and that differ in few bits.
        (0..=EXTENDED_BITS, 0..30u32)
            .prop_map(|(id, shift)| Id::Extended(ExtendedId::new(id & (EXTENDED_BITS << shift)).unwrap())),
    ];
    (ids, any::<[u8; 8]>(), 0..=8usize, any::<bool>()).prop_map(|(id, data, length, is_remote)| {
        let made = if is_remote { Frame::new_remote(id, length) } else { Frame::new(id, &data[..length]) };
        made.unwrap()
    })
}

/// The bits of a frame until the end of its identifier, one after the other, with recessive bits as ones: arbitration, told in bits.
fn bits(frame: &Frame) -> ([bool; 32], usize) {
    let (mut bits, mut length) = ([false; 32], 0);
    let mut push = |bit: bool| {
        bits[length] = bit;
        length += 1;
    };
    match frame.id() {
        Id::Standard(id) => {
            (0..11).rev().for_each(|bit| push(id.as_raw() >> bit & 1 != 0));
            push(frame.is_remote_frame());
            push(false);
        }
        Id::Extended(id) => {
            (18..29).rev().for_each(|bit| push(id.as_raw() >> bit & 1 != 0));
            push(true);
            push(true);
            (0..18).rev().for_each(|bit| push(id.as_raw() >> bit & 1 != 0));
            push(frame.is_remote_frame());
        }
    }
    (bits, length)
}

proptest! {
    /// A hostile client: each accepted request means what its own message would.
    #[test]
    fn an_accepted_request_is_that_of_its_own_message(words: Message, operation in 0..8u64, shifts in any::<[u8; 3]>()) {
        let [first, second, third] = [1, 2, 3].map(|at| words[at] >> (shifts[at - 1] & 63));
        for words in [words, [operation, first, second, third, 0, 0], [3, first >> 32, second >> 60, 0, 0, 0]] {
            if let Ok(request) = Request::of(&words) {
                prop_assert_eq!(Request::of(&request.message()), Ok(request));
                if let Request::Send(frame) = request {
                    prop_assert!(frame.dlc() <= 8 && frame.data().len() <= frame.dlc());
                }
            }
        }
    }

    #[test]
    fn a_frame_survives_messages_and_registers(frame in frames(), at: u64) {
        let [identifier, length, data] = frame.words();
        prop_assert_eq!(Frame::of_words(identifier, length, data), Some(frame));
        prop_assert_eq!(Request::of(&Request::Send(frame).message()), Ok(Request::Send(frame)));
        let received = Received { frame, at: Instant(at) };
        prop_assert_eq!(Received::of(&received.reply()), Some(received));
        prop_assert_eq!(Frame::of_order(frame.order(), frame.dlc(), frame.data), frame);
    }

    /// The frame that sends the first dominant bit against a recessive one wins.
    #[test]
    fn the_order_of_frames_is_that_of_arbitration(left in frames(), right in frames()) {
        let ((ours, length), (theirs, other)) = (bits(&left), bits(&right));
        let different = (0..length.min(other)).find(|&at| ours[at] != theirs[at]);
        match different {
            Some(at) => prop_assert_eq!(left.order() < right.order(), !ours[at]),
            None => prop_assert_eq!((left.order(), left.id()), (right.order(), right.id())),
        }
    }

    /// A pair for a controller lets exactly the frames of its filter pass, and filters made of identifiers always have one.
    #[test]
    fn a_filter_by_order_passes_what_the_filter_accepts(
        frame in frames(), other in frames(), mask: u32, flip in 0..32u32, value: u32, raw_mask: u32,
    ) {
        let near = Frame { identifier: frame.identifier ^ 1 << flip, ..frame };
        let near = Frame::of_words(near.identifier.into(), 0, 0).unwrap_or(frame);
        let raw = Filter { value, mask: raw_mask };
        for filter in [Filter::new(frame.id(), mask), Filter::exactly(frame.id()), Filter::ALL, raw] {
            let Some((mask, order)) = filter.by_order() else {
                prop_assert_eq!(filter, raw);
                continue;
            };
            for tried in [frame, near, other] {
                let passes = tried.order() & mask == order & mask;
                // A short identifier has no more bits that a filter could ask for.
                let is_wider = filter.value & filter.mask & !tried.identifier & !STANDARD_BITS & EXTENDED_BITS != 0;
                prop_assert!(passes || !filter.accepts(&tried), "{tried:?} is kept out by {filter:?}");
                prop_assert!(!passes || filter.accepts(&tried) || is_wider || filter == raw);
            }
        }
        prop_assert!(Filter::exactly(frame.id()).accepts(&frame) && Filter::ALL.accepts(&frame));
        prop_assert_eq!(Filter::exactly(frame.id()).accepts(&other), frame.id() == other.id());
    }

    #[test]
    fn a_state_survives_its_reply(health in 0..3u64, errors: [u8; 2], counts: [u32; 3]) {
        let health = [Health::ErrorActive, Health::ErrorPassive, Health::BusOff][health as usize];
        let [transmit_errors, receive_errors] = errors;
        let [to_send, received, bus_offs] = counts;
        let state = State { health, transmit_errors, receive_errors, to_send, received, bus_offs };
        prop_assert_eq!(State::of(&state.reply()), Some(state));
    }
}

#[test]
fn a_refusal_survives_its_reply() {
    for code in 1..=8 {
        assert_eq!(Refusal::of_code(code) as u64, code);
    }
    let gap = Gap { frames: 3, overruns: 2 };
    assert_eq!(checked(lost(gap)), Err(CanError::Lost(gap)));
    assert_eq!(checked(refusal(Refusal::QueueFull)), Err(CanError::QueueFull));
}

#[test]
fn nine_bytes_are_no_frame() {
    let id = StandardId::new(5).unwrap();
    assert!(Frame::new(id, &[0; 9]).is_none() && Frame::new_remote(id, 9).is_none());
    assert!(Frame::of_words(5, 9, 0).is_none() && Frame::of_words(5, 1, 0x100).is_none());
    assert!(Frame::of_words(0x800, 0, 0).is_none() && Frame::of_words(1 << 32, 0, 0).is_none());
}

//! Messages of the network.

use super::client::checked;
use super::*;
use proptest::prelude::*;
extern crate std;
use std::vec;

fn socket() -> impl Strategy<Value = SocketNumber> {
    (0..UDP_SOCKETS + TCP_SOCKETS).prop_map(|number| SocketNumber(number as u8))
}

fn peer() -> impl Strategy<Value = SocketAddrV4> {
    any::<(u32, u16)>().prop_map(|(address, port)| SocketAddrV4::new(Ipv4Addr::from_bits(address), port))
}

fn payload() -> impl Strategy<Value = Payload> {
    any::<(usize, u64)>().prop_map(|(length, stamp)| Payload { length, stamp })
}

fn request() -> impl Strategy<Value = Request> {
    let place = any::<(u64, usize)>();
    prop_oneof![
        Just(Request::Open),
        Just(Request::Status),
        any::<u16>().prop_map(Request::Bind),
        (socket(), peer(), payload()).prop_map(|(socket, peer, payload)| Request::SendTo(socket, peer, payload)),
        (socket(), place).prop_map(|(socket, (received, room))| Request::ReceiveFrom { socket, received, room }),
        peer().prop_map(Request::Connect),
        any::<u16>().prop_map(Request::Listen),
        socket().prop_map(Request::Accept),
        (socket(), any::<u64>(), payload()).prop_map(|(socket, place, payload)| Request::Send(socket, place, payload)),
        (socket(), place).prop_map(|(socket, (received, room))| Request::Receive { socket, received, room }),
        socket().prop_map(Request::Finish),
        socket().prop_map(Request::State),
        socket().prop_map(Request::Close),
        Just(Request::Interrupt),
    ]
}

#[test]
fn each_refusal_survives_its_reply_and_an_unknown_code_is_malformed() {
    for one in Refusal::ALL {
        let expected = match one {
            Refusal::Lost => NetError::Lost(0),
            other => other.into(),
        };
        assert_eq!(checked(refusal(one)), Err(expected));
    }
    assert_eq!(checked([77, 0, 0, 0, 0, 0]), Err(NetError::Refused(Refusal::Malformed)));
    assert_eq!(checked(lost(5)), Err(NetError::Lost(5)));
}

#[test]
fn a_status_and_a_state_survive_their_replies() {
    let status = Status { address: Some(Ipv4Addr::new(10, 0, 2, 15)), received: 1, sent: 2, unanswered: 3, lost: 4 };
    for status in [status, Status { address: None, ..status }] {
        assert_eq!(Status::of(&status.reply()), status);
    }
    for phase in [Phase::Begins, Phase::Open, Phase::Ends, Phase::Closed] {
        let state = State { phase, to_send: 7, received: 9 };
        assert_eq!(State::of(&state.reply()), Some(state));
    }
    assert_eq!(State::of(&[0, 4, 0, 0, 0, 0]), None);
}

proptest! {
    #[test]
    fn a_request_survives_its_message(request in request()) {
        prop_assert_eq!(Request::of(&request.message()), Ok(request));
    }

    /// Any words are refused, or those of the request that they are taken for.
    #[test]
    fn a_message_of_any_words_is_refused_or_has_one_meaning(
        first in prop_oneof![0..0x1000_u64, any::<u64>()],
        rest: [u64; 3],
    ) {
        let message = [first, rest[0], rest[1], rest[2], 0, 0];
        if let Ok(request) = Request::of(&message) {
            prop_assert_eq!(Request::of(&request.message()), Ok(request));
        }
    }
}

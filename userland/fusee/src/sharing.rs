//! A sharer, asked about groups of clients without a lock. The other side of `drivers/sharer`.
//!
//! A client of a group may say which part of its group's share it wants, and a task that the manifest names as the *manager* of a group may
//! say which of its members are let in, perhaps none, and have a command of it ended that takes too long. Both call the endpoint of the engine's
//! sharer, for which the manifest gives them the right `call`; by the badge of the request the sharer knows the caller. Neither can change the shares
//! of other groups.
//!
//! | Word | Request | Reply |
//! |---|---|---|
//! | 0 | the [`Request`] | zero, or a code of [`Refusal`] |
//! | 1 | of `Place` and `Weigh`: which of the client's handles to the engine, from zero; of the others: the group's number | of `Place`: the member's number; of `Admit`: the members of the group |
//! | 2 | of `Weigh`: the weight; of `Admit`: the members, a bit each, the first one's the lowest | of `Place`: its group's number |
//! | 3 | | of `Place`: its weight |
//!
//! The usage of members and groups is in a page: [`usage`](crate::usage).

use crate::{CallError, Endpoint, Instant, Message};

/// A request to a sharer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Say where this client stands, by this handle of its to the engine.
    Place(u8),
    /// From now on this client wants, by this handle, so many parts of its group's share, 1 to 1024.
    Weigh(u8, u16),
    /// Let only these members of this group, and of the groups below it, reach the engine, a bit each.
    Admit(u8, u16),
    /// End the command that runs, which is one of this group, or of a group below it.
    End(u8),
}

/// The reason for which a sharer refused a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Refusal {
    /// The request has no meaning; or a reply has none.
    Malformed = 1,
    /// The task that asks is no client of which the manifest says where it stands.
    NotAMember = 2,
    /// The client stands in no group: its weight would change the shares of others that have not agreed to it.
    NoGroup = 3,
    /// There is no such group.
    UnknownGroup = 4,
    /// The task that asks is not the group's manager.
    NotTheManager = 5,
    /// A weight is 1 to 1024, and there are 16 members at most.
    OutOfRange = 6,
    /// No command of the group runs, or the sharer has no server that resets commands.
    NothingToEnd = 7,
}

/// Where a client stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Standing {
    /// The client's number among those of the engine.
    pub member: u8,
    /// The number of its group; 0: none.
    pub group: u8,
    /// The member's parts of its group's share.
    pub weight: u16,
}

impl Request {
    /// The request in `message` of any origin.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]: no request. [`Refusal::OutOfRange`], [`Refusal::UnknownGroup`]: an impossible one.
    pub fn of(message: &Message) -> Result<Request, Refusal> {
        let group = || u8::try_from(message[1]).map_err(|_| Refusal::UnknownGroup);
        let handle = || u8::try_from(message[1]).map_err(|_| Refusal::NotAMember);
        match message[0] {
            1 => handle().map(Request::Place),
            2 => {
                let weight = u16::try_from(message[2]).map_err(|_| Refusal::OutOfRange)?;
                handle().map(|handle| Request::Weigh(handle, weight))
            }
            3 => {
                let members = u16::try_from(message[2]).map_err(|_| Refusal::OutOfRange)?;
                group().map(|group| Request::Admit(group, members))
            }
            4 => group().map(Request::End),
            _ => Err(Refusal::Malformed),
        }
    }

    /// The message that asks for it.
    #[must_use]
    pub fn message(&self) -> Message {
        let (operation, one, two) = match *self {
            Request::Place(handle) => (1, handle, 0),
            Request::Weigh(handle, weight) => (2, handle, weight),
            Request::Admit(group, members) => (3, group, members),
            Request::End(group) => (4, group, 0),
        };
        [operation, one.into(), two.into(), 0, 0, 0]
    }
}

impl Refusal {
    fn of(code: u64) -> Refusal {
        let known = [
            Refusal::NotAMember,
            Refusal::NoGroup,
            Refusal::UnknownGroup,
            Refusal::NotTheManager,
            Refusal::OutOfRange,
            Refusal::NothingToEnd,
        ];
        known.into_iter().find(|refusal| *refusal as u64 == code).unwrap_or(Refusal::Malformed)
    }
}

/// The answer of a sharer to a request that it did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// Nothing more.
    Done,
    /// Where the client stands.
    Place(Standing),
    /// The members of the group and of those below it, a bit each.
    Members(u16),
}

/// The reply to a request: the answer, or the refusal.
#[must_use]
pub fn reply(result: Result<Answer, Refusal>) -> Message {
    match result {
        Ok(Answer::Done) => [0; 6],
        Ok(Answer::Place(Standing { member, group, weight })) => [0, member.into(), group.into(), weight.into(), 0, 0],
        Ok(Answer::Members(members)) => [0, members.into(), 0, 0, 0, 0],
        Err(refusal) => [refusal as u64, 0, 0, 0, 0, 0],
    }
}

/// The reason for which a sharer did not serve a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SharerError {
    /// The sharer refused the request.
    Refused(Refusal),
    /// The sharer did not answer.
    Call(CallError),
}

/// The sharer of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Sharer {
    server: Endpoint,
}

impl Sharer {
    /// The sharer that serves `server`.
    #[must_use]
    pub fn new(server: Endpoint) -> Sharer {
        Sharer { server }
    }

    /// Where this client stands, by its handle to the engine of this number: from zero, in the order of the manifest.
    ///
    /// # Errors
    /// [`SharerError`] says why that is not known.
    pub fn place(&self, handle: u8) -> Result<Standing, SharerError> {
        let [_, member, group, weight, ..] = self.ask(Request::Place(handle))?;
        let malformed = SharerError::Refused(Refusal::Malformed);
        match (u8::try_from(member), u8::try_from(group), u16::try_from(weight)) {
            (Ok(member), Ok(group), Ok(weight)) => Ok(Standing { member, group, weight }),
            _ => Err(malformed),
        }
    }

    /// From now on wants, by the handle to the engine of this number, `weight` parts of the group's share. Earlier usage counts as it did.
    ///
    /// # Errors
    /// [`SharerError`]; nothing has changed.
    pub fn weigh(&self, handle: u8, weight: u16) -> Result<(), SharerError> {
        self.ask(Request::Weigh(handle, weight)).map(|_| ())
    }

    /// From now on lets, of `group` and of the groups below it, only these members reach the engine, a bit each; commands that have reached it are
    /// done. Of the others those that store wait, and the rest of the engine's clients have the time that they leave. A member that is let in here
    /// still waits as the sharer's policy, and managers of groups above and below, say. Which members the group has; bits of others mean nothing.
    ///
    /// The manifest tells a group's manager its number, as the parameter `group.NAME`.
    ///
    /// # Errors
    /// [`SharerError`]; nothing has changed.
    pub fn admit(&self, group: u8, members: u16) -> Result<u16, SharerError> {
        let [_, of_group, ..] = self.ask(Request::Admit(group, members))?;
        u16::try_from(of_group).map_err(|_| SharerError::Refused(Refusal::Malformed))
    }

    /// Lets no member of `group` in: [`admit`](Self::admit).
    ///
    /// # Errors
    /// [`SharerError`]; nothing has changed.
    pub fn suspend(&self, group: u8) -> Result<(), SharerError> {
        self.admit(group, 0).map(|_| ())
    }

    /// Lets all of `group` in: [`admit`](Self::admit). For the time before it gets nothing.
    ///
    /// # Errors
    /// [`SharerError`]; nothing has changed.
    pub fn resume(&self, group: u8) -> Result<(), SharerError> {
        self.admit(group, u16::MAX).map(|_| ())
    }

    /// Ends the running command, if it is one of `group` or of a group below it: its client loses that, and all its other queued commands, and goes
    /// on.
    ///
    /// # Errors
    /// [`SharerError`]; nothing has changed. [`Refusal::NothingToEnd`]: it may have ended by itself.
    pub fn end(&self, group: u8) -> Result<(), SharerError> {
        self.ask(Request::End(group)).map(|_| ())
    }

    fn ask(&self, request: Request) -> Result<Message, SharerError> {
        let words = self.server.call(request.message(), Instant::NEVER).map_err(SharerError::Call)?;
        if words[0] == 0 { Ok(words) } else { Err(SharerError::Refused(Refusal::of(words[0]))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A hostile client: no word that is cut off becomes a weight or a group.
        #[test]
        fn what_is_accepted_means_what_its_own_message_would(words: Message, operation in 0..7u64, word: u64, bits in 1..64u32) {
            for words in [words, [operation, word >> bits, word >> (64 - bits), 0, 0, 0]] {
                if let Ok(request) = Request::of(&words) {
                    let said = if matches!(request, Request::Weigh(..) | Request::Admit(..)) { 3 } else { 2 };
                    prop_assert_eq!(&request.message()[..said], &words[..said]);
                }
            }
        }
    }

    #[test]
    fn a_refusal_is_known_by_its_code() {
        for code in 0..9 {
            let refusal = Refusal::of(code);
            assert!(refusal as u64 == code || refusal == Refusal::Malformed, "{code}");
        }
        assert_eq!(reply(Err(Refusal::NotTheManager))[0], 5);
    }
}

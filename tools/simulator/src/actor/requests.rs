//! Requests one after the other: any calls, stores and loads.

use fusee_abi::call::{CARRIES, Call, DEADLINE, FIRST_WORD, GIVEN, KEPT, LENT, NEVER, NUMBER, TOKEN};
use fusee_kernel_core::Machine;
use fusee_kernel_core::id::ThreadId;

use super::{Action, Actor, Phase, RECEIVED, Reply, Request, Until, trap};
use crate::board::{Board, Submitted};

impl Actor {
    /// Goes on until a request asks for something.
    pub(super) fn requests(
        &mut self,
        board: &mut Board,
        thread: ThreadId,
        requests: &[Request],
        again_from: Option<usize>,
    ) -> Action {
        loop {
            match self.phase {
                Phase::Burning(left) if left > 0 => return Action::Burn(left),
                Phase::Returned => {
                    let general = &board.registers(thread).general;
                    self.results.push(general[0]);
                    if general[0] == 0 && general[TOKEN] != 0 {
                        self.token = general[TOKEN];
                    }
                    let carries = general[1] & (CARRIES | LENT) != 0 || general[NUMBER] == Call::CallWith as u64;
                    if general[0] == 0 && carries && general[GIVEN] != 0 {
                        self.received = general[GIVEN];
                    }
                    self.phase = Phase::Next;
                }
                _ => {}
            }
            let Some(request) = requests.get(self.step) else {
                match again_from {
                    Some(first) if first < requests.len() => self.step = first,
                    _ => return trap(board, thread, Call::Exit, 0, 0, NEVER),
                }
                continue;
            };
            self.step += 1;
            if let Some(action) = self.ask(board, thread, request) {
                return action;
            }
        }
    }

    /// Begins a request; `None` if it needs no trap.
    fn ask(&mut self, board: &mut Board, thread: ThreadId, request: &Request) -> Option<Action> {
        match *request {
            Request::Burn(span) => self.phase = Phase::Burning(span),
            Request::Submit(engine, span) => {
                self.phase = Phase::Next;
                let submitted = board
                    .find_use(thread.index(), engine)
                    .ok_or("a doorbell it was never given")
                    .and_then(|one| board.submit(one, span));
                match submitted {
                    Ok(Submitted::Asked(_, store)) => return Some(Action::Store(store)),
                    Ok(_) => {}
                    Err(reason) => return Some(Action::Fault(reason)),
                }
            }
            Request::Ring(engine, change, kicks) => {
                self.phase = Phase::Next;
                let rung = board
                    .find_use(thread.index(), engine)
                    .ok_or("a doorbell it was never given")
                    .and_then(|one| board.ring(one, change, kicks));
                match rung {
                    Ok(Some(store)) => return Some(Action::Store(store)),
                    Ok(None) => {}
                    Err(reason) => return Some(Action::Fault(reason)),
                }
            }
            Request::Load(region) => {
                self.phase = Phase::Next;
                match board.reach(thread, self.named(region), false) {
                    Ok(word) => self.results.push(*word),
                    Err(reason) => return Some(Action::Fault(reason)),
                }
            }
            Request::Store(region, value) => {
                self.phase = Phase::Next;
                match board.reach(thread, self.named(region), true) {
                    Ok(word) => *word = value,
                    Err(reason) => return Some(Action::Fault(reason)),
                }
            }
            Request::With { given, kept } => {
                self.phase = Phase::Next;
                self.gift = (self.named(given), kept);
            }
            Request::Call { number, first, second, words, until, reply } => {
                self.phase = Phase::Returned;
                let (given, kept) = std::mem::take(&mut self.gift);
                let first = self.named(first);
                let deadline = match until {
                    Until::Never => NEVER,
                    Until::After(span) => board.now + span,
                };
                let registers = board.registers(thread);
                registers.general[0] = first;
                registers.general[1] = second;
                registers.general[FIRST_WORD..FIRST_WORD + 2].copy_from_slice(&words);
                registers.general[NUMBER] = number;
                registers.general[DEADLINE] = deadline;
                registers.general[TOKEN] = match reply {
                    Reply::Nobody => 0,
                    Reply::Last => self.token,
                    Reply::LastWith => self.token | CARRIES,
                    Reply::Token(token) => token,
                };
                registers.general[GIVEN] = given;
                registers.general[KEPT] = u64::from(kept);
                return Some(Action::Trap);
            }
        }
        None
    }

    /// The handle that a request means.
    fn named(&self, handle: u64) -> u64 {
        if handle == RECEIVED { self.received } else { handle }
    }
}

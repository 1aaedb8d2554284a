//! The host's stand-in for the kernel. A program that the simulator runs makes its calls there ([`door`](crate::door)). All others are refused, so that pure
//! code can be tested on a laptop. A test can play the kernel.

#[cfg(door)]
use crate::door;
use crate::raw::{Answer, MessageAnswer};
use fusee_abi::Error;
use fusee_sched::time::Nanoseconds;

/// Makes a call with two arguments, or refuses it.
pub fn plain(number: u64, first: u64, second: u64) -> Answer {
    #[cfg(door)]
    if door::is_open() {
        let [code, value, second, ..] = door::call(number, [first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        return Answer { code, value, second };
    }
    let _ = second;
    answer(number, first)
}

/// Makes a call with a handle and a deadline, or refuses it.
pub fn timed(number: u64, first: u64, deadline: u64) -> Answer {
    #[cfg(door)]
    if door::is_open() {
        let [code, value, ..] = door::call(number, [first, 0, 0, 0, 0, 0, 0, 0, 0, deadline, 0, 0, 0]);
        return Answer { code, value, second: 0 };
    }
    let _ = deadline;
    answer(number, first)
}

fn answer(number: u64, first: u64) -> Answer {
    #[cfg(test)]
    if let Some(value) = played::answer(number, first) {
        return Answer { code: 0, value, second: 0 };
    }
    let _ = (number, first);
    Answer { code: Error::BadCall as u64, value: 0, second: 0 }
}

/// Makes a call with message words, or refuses it.
pub fn message(number: u64, first: u64, words: [u64; 6], deadline: u64, token: u64) -> MessageAnswer {
    carrying(number, first, words, deadline, token, 0, 0)
}

/// Makes a call with message words and a handle, or refuses it.
pub fn carrying(
    number: u64,
    first: u64,
    words: [u64; 6],
    deadline: u64,
    token: u64,
    given: u64,
    kept: u64,
) -> MessageAnswer {
    #[cfg(door)]
    if door::is_open() {
        let [w0, w1, w2, w3, w4, w5] = words;
        let registers = door::call(number, [first, 0, w0, w1, w2, w3, w4, w5, 0, deadline, token, given, kept]);
        let [code, value, w0, w1, w2, w3, w4, w5, _, _, token, given, _] = registers;
        return MessageAnswer { code, value, words: [w0, w1, w2, w3, w4, w5], token, given };
    }
    let _ = (number, first, deadline, token, given, kept);
    MessageAnswer { code: Error::BadCall as u64, value: 0, words, token: 0, given: 0 }
}

/// Stubs that do not trap: they refuse, too.
pub mod untrapped {
    use super::{Answer, Error, MessageAnswer};

    /// Refuses a call with two arguments.
    pub fn plain(_number: u64, _first: u64, _second: u64) -> Answer {
        Answer { code: Error::BadCall as u64, value: 0, second: 0 }
    }

    /// Refuses a call with a handle and a deadline.
    pub fn timed(number: u64, first: u64, deadline: u64) -> Answer {
        plain(number, first, deadline)
    }

    /// Refuses a call with message words.
    pub fn message(_number: u64, _first: u64, words: [u64; 6], _deadline: u64, _token: u64) -> MessageAnswer {
        MessageAnswer { code: Error::BadCall as u64, value: 0, words, token: 0, given: 0 }
    }

    /// Refuses a call with message words and a handle.
    pub fn carrying(_: u64, _: u64, words: [u64; 6], _: u64, _: u64, _: u64, _: u64) -> MessageAnswer {
        MessageAnswer { code: Error::BadCall as u64, value: 0, words, token: 0, given: 0 }
    }
}

/// The board's counter in the simulator; elsewhere there is none, and it is zero.
#[must_use]
pub fn counter() -> u64 {
    #[cfg(door)]
    if door::is_open() {
        return door::counter();
    }
    0
}

/// No watcher reads the mark.
pub fn mark(_number: u8) {}

/// Nothing to wait for.
pub fn spin(_rounds: u64) {}

/// Computes for `time`, if that is virtual; returns whether it is.
pub fn burn(time: Nanoseconds) -> bool {
    #[cfg(door)]
    if door::is_open() {
        door::burn(time.0);
        return true;
    }
    let _ = time;
    false
}

/// No device to wait for.
pub fn complete_stores() {}

/// The virtual time that [`relax`] takes, nanoseconds.
#[cfg(door)]
const RELAXED: u64 = 1_000;

/// Lets a microsecond of virtual time pass: a loop that looks at memory again and again ends when others have stored there.
pub fn relax() {
    #[cfg(door)]
    if door::is_open() {
        door::burn(RELAXED);
    }
}

/// Calls that a test answers.
#[cfg(test)]
pub mod played {
    extern crate std;

    use core::cell::RefCell;
    use fusee_abi::call::Call;
    use std::boxed::Box;
    use std::vec::Vec;

    /// Answers a call through a handle with a value.
    type Kernel = Box<dyn FnMut(Call, u64) -> u64>;

    std::thread_local! {
        static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
        static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    }

    /// From now on `kernel` answers the calls of this thread.
    pub fn by(kernel: impl FnMut(Call, u64) -> u64 + 'static) {
        KERNEL.set(Some(Box::new(kernel)));
    }

    /// The calls since the last time.
    pub fn calls() -> Vec<Call> {
        CALLS.take()
    }

    pub(super) fn answer(number: u64, handle: u64) -> Option<u64> {
        KERNEL.with_borrow_mut(|kernel| {
            let call = Call::from_number(number)?;
            let value = kernel.as_mut()?(call, handle);
            CALLS.with_borrow_mut(|calls| calls.push(call));
            Some(value)
        })
    }
}

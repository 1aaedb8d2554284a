//! The host's stand-in for the kernel: it refuses every call, so that pure code can be tested on a laptop. A test can play the kernel.

use crate::raw::{Answer, MessageAnswer};
use fusee_abi::Error;

/// Refuses a call with two arguments.
pub fn plain(number: u64, first: u64, _second: u64) -> Answer {
    answer(number, first)
}

/// Refuses a call with a handle and a deadline.
pub fn timed(number: u64, first: u64, _deadline: u64) -> Answer {
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

/// Refuses a call with message words.
pub fn message(_number: u64, _first: u64, words: [u64; 6], _deadline: u64, _token: u64) -> MessageAnswer {
    MessageAnswer { code: Error::BadCall as u64, value: 0, words, token: 0, given: 0 }
}

/// Refuses a call with message words and a handle.
pub fn carrying(_: u64, _: u64, words: [u64; 6], _: u64, _: u64, _: u64, _: u64) -> MessageAnswer {
    MessageAnswer { code: Error::BadCall as u64, value: 0, words, token: 0, given: 0 }
}

/// Stubs with these refusals.
pub mod untrapped {
    pub use super::{carrying, message, plain, timed};
}

/// No counter: zero.
#[must_use]
pub fn counter() -> u64 {
    0
}

/// No watcher reads the mark.
pub fn mark(_number: u8) {}

/// Nothing to wait for.
pub fn spin(_rounds: u64) {}

/// No device to wait for.
pub fn complete_stores() {}

/// There is no other CPU to make way for.
pub fn relax() {}

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

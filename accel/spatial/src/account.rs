//! Time of SMs, by context, to the nanosecond.
//!
//! An SM is *running* while it is set to a kernel, *saving* or *restoring* while it moves the state of blocks, and *idle*
//! otherwise. Running is booked to the kernel's context, also while the SM is drained for another. Saving and restoring are
//! booked to the context that caused the preemption: the preemptor pays. It pays for a preemption that it caused even if the
//! SM goes to another kernel in the end, because that other kernel caused none.

use crate::table::{CONTEXTS, Context};

/// Time of SMs that is booked to one context, and its results.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    /// Nanoseconds in which an SM was set to a kernel of the context.
    pub running: u64,
    /// Nanoseconds in which an SM saved blocks of others, for the context.
    pub saving: u64,
    /// Nanoseconds in which an SM restored blocks that the context had caused to be saved.
    pub restoring: u64,
    /// Nanoseconds in which one SM or more ran a kernel of the context, or saved blocks of others for it. So long and no longer the
    /// context kept others waiting, for any parts of any number of SMs.
    pub occupied: u64,
    /// Blocks of the context that were issued for the first time.
    pub issued: u64,
    /// Blocks of the context that were issued again, after they had been preempted.
    pub resumed: u64,
    /// SMs that were taken away from others, for the context.
    pub preemptions: u64,
    /// Bytes of state of other contexts' blocks that were saved for the context.
    pub saved_bytes: u64,
}

impl Usage {
    const NONE: Usage = Usage {
        running: 0,
        saving: 0,
        restoring: 0,
        occupied: 0,
        issued: 0,
        resumed: 0,
        preemptions: 0,
        saved_bytes: 0,
    };

    /// Nanoseconds of SMs that the context pays for.
    #[must_use]
    pub const fn sm_time(&self) -> u64 {
        self.running + self.saving + self.restoring
    }
}

/// All that an engine counts, since it was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counters {
    accounts: [Usage; CONTEXTS + 1],
    /// The number of SMs that run or save for each account, and since when its time has been counted in [`Usage::occupied`].
    occupying: [(u8, u64); CONTEXTS + 1],
    idle: u64,
    draining: u64,
}

impl Counters {
    pub(crate) const NONE: Counters =
        Counters { accounts: [Usage::NONE; CONTEXTS + 1], occupying: [(0, 0); CONTEXTS + 1], idle: 0, draining: 0 };

    /// The time booked to `context`.
    #[must_use]
    pub const fn of(&self, context: Context) -> &Usage {
        &self.accounts[context.index()]
    }

    /// The time booked to no context: saves and restores that were caused by contexts which have been removed since.
    #[must_use]
    pub const fn nobody(&self) -> &Usage {
        &self.accounts[CONTEXTS]
    }

    /// Nanoseconds in which an SM was idle.
    #[must_use]
    pub const fn idle(&self) -> u64 {
        self.idle
    }

    /// Nanoseconds in which an SM ran while it was reserved for another kernel. They are part of [`Usage::running`].
    #[must_use]
    pub const fn draining(&self) -> u64 {
        self.draining
    }

    /// All nanoseconds of all SMs: running, saving, restoring and idle.
    #[must_use]
    pub fn sm_time(&self) -> u64 {
        self.idle + self.accounts.iter().map(Usage::sm_time).sum::<u64>()
    }

    pub(crate) fn account(&mut self, payer: Payer) -> &mut Usage {
        &mut self.accounts[usize::from(payer.number())]
    }

    /// From `now` on an SM works for `to`, and no longer for `from`.
    pub(crate) fn occupy(&mut self, from: Option<Payer>, to: Option<Payer>, now: u64) {
        if from == to {
            return;
        }
        if let Some(from) = from {
            let occupying = &mut self.occupying[usize::from(from.number())];
            occupying.0 -= 1;
            self.accounts[usize::from(from.number())].occupied += now - occupying.1;
            occupying.1 = now;
        }
        if let Some(to) = to {
            let occupying = &mut self.occupying[usize::from(to.number())];
            if occupying.0 > 0 {
                self.accounts[usize::from(to.number())].occupied += now - occupying.1;
            }
            *occupying = (occupying.0 + 1, now);
        }
    }

    /// Counts in [`Usage::occupied`] until `now`.
    pub(crate) fn count_occupied(&mut self, now: u64) {
        for ((sms, since), account) in self.occupying.iter_mut().zip(&mut self.accounts) {
            if *sms > 0 {
                account.occupied += now - *since;
                *since = now;
            }
        }
    }

    pub(crate) fn count_idle(&mut self, nanoseconds: u64) {
        self.idle += nanoseconds;
    }

    pub(crate) fn count_draining(&mut self, nanoseconds: u64) {
        self.draining += nanoseconds;
    }
}

/// An account: a context, or none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Payer(u8);

impl Payer {
    pub const NOBODY: Payer = Payer(CONTEXTS as u8);

    pub const fn number(self) -> u8 {
        self.0
    }

    pub const fn from_number(number: u8) -> Payer {
        if number as usize <= CONTEXTS { Payer(number) } else { Payer::NOBODY }
    }
}

impl From<Context> for Payer {
    fn from(context: Context) -> Payer {
        Payer(context.index() as u8)
    }
}

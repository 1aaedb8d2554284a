//! Faults that tests plant in the kernel, to see whether they are found.
//!
//! A check that has never failed says little. With feature `planted` a kernel can be told to forget one of its rules.
//! Without the feature a kernel cannot be told, has no memory of it, and the questions for it are compiled to nothing.
//!
//! Not here: the purpose of each rule; that stands where the rule is forgotten.

use crate::Kernel;

/// A rule that the kernel forgets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Planted {
    /// A reservation that gets a runner again keeps its key, however long it was without.
    NoRuleAtWakeUp,
    /// A release that queued refills the budget when its job begins.
    QueuedReleasesRefill,
    /// Jobs release early under fixed priorities, too.
    EarlyReleaseUnderConstantPoints,
    /// An overdue token is not taken away.
    TokenWithoutWatchdog,
    /// Undeclared suspension keeps the key.
    AnySuspensionKeepsTheKey,
    /// An overdue engine is not taken away.
    EngineWithoutWatchdog,
    /// A budget that ended is refilled at once.
    ExhaustionRefills,
    /// Another CPU is not kicked when its plan has changed.
    KickIsLost,
    /// A client that gives up waiting goes on lending its budget.
    DonationOutlastsTheWait,
    /// The timekeeper forgets one release of each task in four.
    ReleaseIsForgotten,
    /// A boost is never used up.
    BoostHasNoEnd,
    /// Sporadic releases come when they are asked for, a period apart or not.
    SporadicReleasesComeAtOnce,
    /// A job that takes the next budget keeps its own deadline.
    EarlyReleaseKeepsTheKey,
    /// A throttled job goes on with the key that it had.
    ReplenishmentKeepsTheKey,
    /// A holder of an engine or a token waits for any object.
    WaitsAreLetIn,
    /// A job that begins before its release has the key of a job that is released when it begins, and a budget.
    EarlyJobsAreReleased,
    /// A job that begins before its release has the key that is its own from its release on.
    EarlyJobsHaveTheirKey,
    /// A handle of another generation is as good as the handle in its slot.
    GenerationIsNotCompared,
}

impl Planted {
    /// The rules that cost a deadline if they are forgotten.
    pub const ALL: [Planted; 15] = [
        Planted::NoRuleAtWakeUp,
        Planted::QueuedReleasesRefill,
        Planted::EarlyReleaseUnderConstantPoints,
        Planted::TokenWithoutWatchdog,
        Planted::AnySuspensionKeepsTheKey,
        Planted::EngineWithoutWatchdog,
        Planted::ExhaustionRefills,
        Planted::KickIsLost,
        Planted::DonationOutlastsTheWait,
        Planted::ReleaseIsForgotten,
        Planted::BoostHasNoEnd,
        Planted::SporadicReleasesComeAtOnce,
        Planted::EarlyReleaseKeepsTheKey,
        Planted::ReplenishmentKeepsTheKey,
        Planted::WaitsAreLetIn,
    ];

    /// The rules that make a node of a graph later than its bound if they are forgotten.
    pub const OF_GRAPHS: [Planted; 2] = [Planted::EarlyJobsAreReleased, Planted::EarlyJobsHaveTheirKey];
}

/// The rule that a kernel forgets, if there is one.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults(Option<Planted>);

#[cfg(feature = "planted")]
impl Faults {
    /// A kernel that forgets no rule.
    pub(crate) const NONE: Faults = Faults(None);

    const fn are(self, rule: Planted) -> bool {
        matches!(self.0, Some(fault) if fault as u8 == rule as u8)
    }
}

/// A kernel without planted faults forgets no rule.
#[cfg(not(feature = "planted"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults;

#[cfg(not(feature = "planted"))]
impl Faults {
    /// A kernel that forgets no rule.
    pub(crate) const NONE: Faults = Faults;

    const fn are(self, _: Planted) -> bool {
        false
    }
}

impl Kernel {
    /// From here on the kernel forgets this rule.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, fault: Planted) {
        self.faults = Faults(Some(fault));
    }

    /// Whether the kernel forgets this rule.
    #[inline(always)]
    pub(crate) fn forgets(&self, rule: Planted) -> bool {
        self.faults.are(rule)
    }
}

//! The input of a policy: the active kernels and the SMs.
//!
//! The SM driver keeps the table. A policy that runs elsewhere decides on a copy that it makes from the messages of the device. The
//! table holds no times and nothing of blocks beyond their number, because policies do not know how an SM is taken away (principle
//! of section 3 of the paper).
//!
//! In the words of section 3.3 of the paper: the kernels are the active queue and the policy's part of the KSRT, the states are
//! the SMST, and the waiting launches are the command buffers.

/// The most SMs of an engine.
pub const SMS_MAX: usize = 16;
/// Contexts of an engine.
pub const CONTEXTS: usize = 16;
/// The most kernels that are active at a time.
pub const PLACES_MAX: usize = 16;

//--- Numbers

/// A context of the device: a client with its own page table, save area, key and tokens.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Context(u8);

impl Context {
    pub(crate) const FIRST: Context = Context(0);

    /// The context of that number, if it is below [`CONTEXTS`].
    #[must_use]
    pub const fn new(number: usize) -> Option<Context> {
        if number < CONTEXTS { Some(Context(number as u8)) } else { None }
    }

    /// The number of the SM.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All contexts, by number.
    pub fn all() -> impl Iterator<Item = Context> {
        (0..CONTEXTS as u8).map(Context)
    }
}

/// A place of the active queue: names an active kernel as long as it is active.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place(u8);

impl Place {
    /// The place of that number, if it is below [`PLACES_MAX`].
    #[must_use]
    pub const fn new(number: usize) -> Option<Place> {
        if number < PLACES_MAX { Some(Place(number as u8)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An SM.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Sm(u8);

impl Sm {
    /// The SM of that number, if it is below [`SMS_MAX`].
    #[must_use]
    pub const fn new(number: usize) -> Option<Sm> {
        if number < SMS_MAX { Some(Sm(number as u8)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The real-time key of a context's job. A smaller key is an earlier job, which goes first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key(pub u64);

impl Key {
    /// The context has no real-time promise. Every smaller key is a real-time key.
    pub const BEST_EFFORT: Key = Key(u64::MAX - 1);
    /// The context's budget is exhausted: the last class, behind best effort.
    pub const EXHAUSTED: Key = Key(u64::MAX);

    /// Whether it is the key of a real-time job.
    #[must_use]
    pub fn is_real_time(self) -> bool {
        self < Key::BEST_EFFORT
    }
}

//--- The table

/// An active kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Active {
    /// The context of the kernel.
    pub context: Context,
    /// The key of its context, now.
    pub key: Key,
    /// Launches are counted when they are submitted. A smaller number is an older launch.
    pub arrival: u64,
    /// The number of SMs that it may have by its tokens.
    pub budget: i32,
    /// Tokens that are left: the budget less the SMs that run it and those that are reserved for it. Negative: a debt.
    pub count: i32,
    /// Blocks that could be issued now: fresh and preempted ones.
    pub issuable: u32,
    /// Blocks of it that an SM holds, at least 1.
    pub capacity: u8,
}

/// The state of an SM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// The SM is set to no kernel.
    Idle,
    /// The SM is set to a kernel.
    Running(Place),
    /// The SM is being taken away.
    Reserved {
        /// The kernel whose blocks are on it. `None` once that kernel is gone.
        victim: Option<Place>,
        /// The kernel that it is set to next. `None` if that kernel is gone.
        next: Option<Place>,
    },
}

/// A launch that is not active yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Waits {
    /// The context of the launch.
    pub context: Context,
    /// The key of its context, now.
    pub key: Key,
    /// The number of the launch, as in [`Active::arrival`].
    pub arrival: u64,
}

/// The active kernels, the SMs, and the launches that wait.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Table {
    pub(crate) sms: u8,
    pub(crate) states: [State; SMS_MAX],
    pub(crate) active: [Option<Active>; PLACES_MAX],
    pub(crate) waiting: [Option<Waits>; CONTEXTS],
}

impl Table {
    /// A table of so many SMs, at most [`SMS_MAX`], which are idle.
    #[must_use]
    pub const fn new(sms: u8) -> Table {
        let sms = if sms as usize > SMS_MAX { SMS_MAX as u8 } else { sms };
        Table { sms, states: [State::Idle; SMS_MAX], active: [None; PLACES_MAX], waiting: [None; CONTEXTS] }
    }

    /// Writes down the state of `sm`.
    pub fn set_state(&mut self, sm: Sm, state: State) {
        self.states[sm.index()] = state;
    }

    /// Writes down which kernel is at `place`.
    pub fn set_kernel(&mut self, place: Place, kernel: Option<Active>) {
        self.active[place.index()] = kernel;
    }

    /// Writes down which launch of `context` waits.
    pub fn set_waiting(&mut self, context: Context, waits: Option<Waits>) {
        self.waiting[context.index()] = waits;
    }

    /// The SMs with their states, by number.
    pub fn sms(&self) -> impl Iterator<Item = (Sm, State)> {
        (0..self.sms).map(Sm).zip(self.states)
    }

    /// The state of `sm`.
    #[must_use]
    pub const fn state(&self, sm: Sm) -> State {
        self.states[sm.index()]
    }

    /// The active kernels, each with its place, in ascending order of places.
    pub fn kernels(&self) -> impl Iterator<Item = (Place, &Active)> {
        (0..PLACES_MAX as u8).map(Place).zip(&self.active).filter_map(|(place, active)| Some((place, active.as_ref()?)))
    }

    /// The kernel at `place`.
    #[must_use]
    pub const fn kernel(&self, place: Place) -> Option<&Active> {
        self.active[place.index()].as_ref()
    }

    /// The launches that wait, by context.
    pub fn waiting(&self) -> impl Iterator<Item = &Waits> {
        self.waiting.iter().flatten()
    }

    /// The first idle SM.
    #[must_use]
    pub fn idle(&self) -> Option<Sm> {
        self.sms().find_map(|(sm, state)| (state == State::Idle).then_some(sm))
    }

    /// The number of SMs that run the kernel at `place`.
    #[must_use]
    pub fn running(&self, place: Place) -> u32 {
        self.sms().filter(|&(_, state)| state == State::Running(place)).count() as u32
    }

    /// The number of SMs that are reserved for the kernel at `place`.
    #[must_use]
    pub fn reserved(&self, place: Place) -> u32 {
        self.sms().filter(|&(_, state)| matches!(state, State::Reserved { next, .. } if next == Some(place))).count()
            as u32
    }

    /// The number of SMs that the kernel at `place` could fill beyond those that are reserved for it.
    #[must_use]
    pub fn wanted(&self, place: Place) -> u32 {
        self.fillable(place).saturating_sub(self.fetched(place))
    }

    /// Whether fewer SMs than are reserved for the kernel at `place` would do.
    #[must_use]
    pub fn has_surplus(&self, place: Place) -> bool {
        self.fetched(place) > self.fillable(place)
    }

    /// SMs that are reserved for a kernel and hold blocks of another one. An SM that is reserved for the kernel whose blocks are
    /// being saved on it will be filled by these.
    fn fetched(&self, place: Place) -> u32 {
        let is_fetched = |state| match state {
            State::Reserved { victim, next } => next == Some(place) && victim != next,
            State::Idle | State::Running(_) => false,
        };
        self.sms().filter(|&(_, state)| is_fetched(state)).count() as u32
    }

    fn fillable(&self, place: Place) -> u32 {
        self.kernel(place).map_or(0, |kernel| kernel.issuable.div_ceil(u32::from(kernel.capacity)))
    }
}

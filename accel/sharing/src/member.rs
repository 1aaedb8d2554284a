//! Clients of an engine as small numbers, and sets of them.

/// The number of members that one engine may have.
pub const MEMBERS: usize = 16;

/// One client of the engine: its context on the device, as a number below [`MEMBERS`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Member(u8);

impl Member {
    /// The member with this number. `None` if the number is not below [`MEMBERS`].
    #[must_use]
    pub const fn new(index: usize) -> Option<Member> {
        if index < MEMBERS { Some(Member(index as u8)) } else { None }
    }

    /// The number of this member, below [`MEMBERS`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All members, joined or not, by number.
    pub fn all() -> impl Iterator<Item = Member> {
        (0..MEMBERS).filter_map(Member::new)
    }
}

/// A set of members.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Members(u16);

impl Members {
    /// No member.
    pub const EMPTY: Members = Members(0);

    /// The set of this member alone.
    #[must_use]
    pub const fn only(member: Member) -> Members {
        Members(1 << member.0)
    }

    /// Whether `member` is in the set.
    #[must_use]
    pub const fn contains(self, member: Member) -> bool {
        self.0 & (1 << member.0) != 0
    }

    /// Whether no member is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of members in the set.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Puts `member` into the set.
    pub const fn insert(&mut self, member: Member) {
        self.0 |= 1 << member.0;
    }

    /// Takes `member` out of the set.
    pub const fn remove(&mut self, member: Member) {
        self.0 &= !(1 << member.0);
    }

    /// The members of either set.
    #[must_use]
    pub const fn or(self, other: Members) -> Members {
        Members(self.0 | other.0)
    }

    /// The members of both sets.
    #[must_use]
    pub const fn and(self, other: Members) -> Members {
        Members(self.0 & other.0)
    }

    /// The members of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Members) -> Members {
        Members(self.0 & !other.0)
    }

    /// The members of the set for which `keep` is true.
    #[must_use]
    pub fn filter(self, keep: impl Fn(Member) -> bool) -> Members {
        self.iter().filter(|&member| keep(member)).collect()
    }

    /// The members of the set, by number.
    pub fn iter(self) -> impl Iterator<Item = Member> {
        Member::all().filter(move |&member| self.contains(member))
    }

    /// The members of the set in the order of a circle that begins behind `member` and ends with it.
    pub fn circle_behind(self, member: Member) -> impl Iterator<Item = Member> {
        (1..=MEMBERS)
            .filter_map(move |step| Member::new((member.index() + step) % MEMBERS))
            .filter(move |&candidate| self.contains(candidate))
    }
}

impl FromIterator<Member> for Members {
    fn from_iter<T: IntoIterator<Item = Member>>(members: T) -> Members {
        let mut set = Members::EMPTY;
        members.into_iter().for_each(|member| set.insert(member));
        set
    }
}

//! The manifest's parameters for a sharer about its clients: a number for each group and each member.
//!
//! | Entry of the sharer's environment | `number` | `group` | `badge` |
//! |---|---|---|---|
//! | `group.NAME` | the group's number, from 1 | its parent; 0 is the root | of its manager; 0: it has none |
//! | `member.CLIENT` | the member's number | its group | of the client |
//! | `member.CLIENT.N` | the same, by the client's *N*-th handle to the engine, from 2 | | |
//!
//! Groups are numbered so that a parent comes before its children: in this order [`Tree::add_group`](crate::Tree::add_group) gives
//! them these numbers. An engine without groups and weights in the manifest, whose sharer may stop none of its clients, has no such
//! entries: all are directly below the root.

/// The bits of a weight.
const WEIGHT: u16 = (1 << 15) - 1;

/// One entry. Packed into 64 bits: 8 of `number`, 8 of `group`, 15 of `weight`, 1 of `managed`, 32 of `badge`, the lowest first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Told {
    /// The group, or the member.
    pub number: u8,
    /// The group above it.
    pub group: u8,
    /// The weight among the siblings, below 2^15.
    pub weight: u16,
    /// For a group: its manager decides which of its members wait for which.
    pub managed: bool,
    /// The badge of requests of a task.
    pub badge: u32,
}

impl Told {
    /// The word of the parameter.
    #[must_use]
    pub const fn encode(self) -> u64 {
        let weight = self.weight as u64 & WEIGHT as u64 | (self.managed as u64) << 15;
        self.number as u64 | (self.group as u64) << 8 | weight << 16 | (self.badge as u64) << 32
    }

    /// The contents of a parameter.
    #[must_use]
    pub const fn decode(word: u64) -> Told {
        let weight = (word >> 16) as u16;
        Told {
            number: word as u8,
            group: (word >> 8) as u8,
            weight: weight & WEIGHT,
            managed: weight & !WEIGHT != 0,
            badge: (word >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_was_said() {
        for told in [
            Told { number: 0, group: 0, weight: 1, managed: false, badge: 1 },
            Told { number: 15, group: 14, weight: 1024, managed: true, badge: 512 },
            Told { number: u8::MAX, group: u8::MAX, weight: WEIGHT, managed: false, badge: u32::MAX },
            Told { number: 0, group: 0, weight: 0, managed: true, badge: 0 },
        ] {
            assert_eq!(Told::decode(told.encode()), told);
        }
    }
}

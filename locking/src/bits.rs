//! A bit for each request of a pool.

pub use set::{BITS, Bits};

/// Users of one pool. Each of them has one request at most.
pub const USERS: usize = if cfg!(feature = "large") { 160 } else { 20 };

#[cfg(not(feature = "large"))]
mod set {
    /// Number of bits.
    pub const BITS: usize = u32::BITS as usize;

    /// A set of bits.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub struct Bits(u32);

    impl Bits {
        /// No bit is set.
        pub const NONE: Bits = Bits(0);

        /// Whether no bit is set.
        #[inline(always)]
        pub const fn is_empty(self) -> bool {
            self.0 == 0
        }

        /// Whether the bit with this index is set.
        #[inline(always)]
        pub const fn has(self, index: usize) -> bool {
            self.0 & 1 << index != 0
        }

        /// Sets the bit with this index, if `is_set`.
        #[inline(always)]
        pub const fn add(&mut self, index: usize, is_set: bool) {
            self.0 |= (is_set as u32) << index;
        }

        /// Clears the bit with this index.
        #[inline(always)]
        pub const fn remove(&mut self, index: usize) {
            self.0 &= !(1 << index);
        }
    }
}

#[cfg(feature = "large")]
mod set {
    #![allow(missing_docs)]
    const WORDS: usize = super::USERS.div_ceil(u32::BITS as usize);
    pub const BITS: usize = WORDS * u32::BITS as usize;

    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub struct Bits([u32; WORDS]);

    impl Bits {
        pub const NONE: Bits = Bits([0; WORDS]);

        pub const fn is_empty(self) -> bool {
            let mut word = 0;
            while word < WORDS && self.0[word] == 0 {
                word += 1;
            }
            word == WORDS
        }

        pub const fn has(self, index: usize) -> bool {
            self.0[index / 32] & 1 << (index % 32) != 0
        }

        pub const fn add(&mut self, index: usize, is_set: bool) {
            self.0[index / 32] |= (is_set as u32) << (index % 32);
        }

        pub const fn remove(&mut self, index: usize) {
            self.0[index / 32] &= !(1 << (index % 32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_is_its_own() {
        for one in 0..BITS {
            let mut bits = Bits::NONE;
            bits.add(one, false);
            assert!(bits.is_empty());
            bits.add(one, true);
            assert!((0..BITS).all(|other| bits.has(other) == (other == one)));
            bits.remove(one);
            assert!(bits.is_empty());
        }
    }
}

//! Choices made by a string of bytes.

/// The rest of the string. At its end all choices are the first.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next byte; `None` at the end.
    pub fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next byte, or zero.
    pub fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// The next so many bytes as a number, the lowest first.
    pub fn number(&mut self, bytes: u32) -> u64 {
        (0..bytes).fold(0, |number, at| number | u64::from(self.byte()) << (8 * at))
    }

    /// One of them. An empty list has none.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let at = usize::from(self.byte());
        all.get(at.checked_rem(all.len())?).copied()
    }

    /// Up to so many bytes as they are.
    pub fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

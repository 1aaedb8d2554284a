//! The disk of a volume, and the memory for its table.

/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// A failure of the disk, or of its server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault;

/// A disk. Slices have whole sectors.
pub trait Sectors {
    /// How many there are.
    fn sectors(&self) -> u64;
    /// Whether they can only be read.
    fn is_read_only(&self) -> bool;
    /// Reads the sectors from `first` on.
    ///
    /// # Errors
    /// The disk has failed.
    fn read(&mut self, first: u64, bytes: &mut [u8]) -> Result<(), Fault>;
    /// Writes the sectors from `first` on. Until the next flush has ended, the disk may write them in any order.
    ///
    /// # Errors
    /// The disk has failed.
    fn write(&mut self, first: u64, bytes: &[u8]) -> Result<(), Fault>;
    /// Waits until all written sectors would outlive a loss of power.
    ///
    /// # Errors
    /// The disk has failed.
    fn flush(&mut self) -> Result<(), Fault>;
}

/// Memory for the links of clusters, a word for each.
pub trait Table {
    /// How many words there are.
    fn words(&self) -> u32;
    /// The word of a cluster.
    fn get(&self, cluster: u32) -> u32;
    /// Changes the word of a cluster.
    fn set(&mut self, cluster: u32, word: u32);
}

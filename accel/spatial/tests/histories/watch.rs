//! A host that writes everything down and checks the guarantees of the engine.

use std::collections::{BTreeMap, BTreeSet};

use fusee_spatial::*;

/// The calls of a host.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Told {
    Block { context: usize, work: u64, block: u32 },
    Saved { context: usize, work: u64, block: u32, remaining: u64 },
    Restored { context: usize, work: u64, block: u32, remaining: u64 },
    Complete { context: usize, work: u64 },
    BlockFailed { context: usize, work: u64, block: u32 },
    NotSaved { context: usize, work: u64, block: u32 },
    Damaged { context: usize, work: u64, block: u32 },
}

impl Told {
    pub fn ended(context: usize, work: u64, outcome: Outcome) -> Told {
        match outcome {
            Outcome::Complete => Told::Complete { context, work },
            Outcome::BlockFailed { block } => Told::BlockFailed { context, work, block },
            Outcome::NotSaved { block } => Told::NotSaved { context, work, block },
            Outcome::Damaged { block } => Told::Damaged { context, work, block },
        }
    }
}

/// A way in which a block can be spoilt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    Block,
    Save,
    Restore,
}

/// Whether a block is spoilt in a way: one in so many, by a hash.
pub fn is_spoilt(spoilt_in: u64, way: Way, work: u64, block: u32) -> bool {
    let number = (work << 8 | u64::from(block)) * 3 + way as u64 + 1;
    spoilt_in != 0 && (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).is_multiple_of(spoilt_in)
}

/// A launch that is not over.
#[derive(Default)]
struct Launched {
    blocks: u32,
    slots: u16,
    issued: BTreeSet<u32>,
    /// The saved blocks: the record and its slot.
    saved: BTreeMap<u32, Record>,
}

/// The host.
#[derive(Default)]
pub struct Watch {
    spoilt_in: u64,
    pub told: Vec<(u64, Told)>,
    launched: BTreeMap<(usize, u64), Launched>,
    /// Blocks that were restored.
    pub resumed: u64,
}

impl Watch {
    pub fn new(spoilt_in: u64) -> Watch {
        Watch { spoilt_in, ..Watch::default() }
    }

    pub fn launch(&mut self, context: Context, work: u64, grid: &Grid, slots: u16) {
        self.launched.insert((context.index(), work), Launched { blocks: grid.blocks, slots, ..Launched::default() });
    }

    pub fn remove(&mut self, context: Context) {
        self.launched.retain(|&(other, _), _| other != context.index());
    }

    pub fn is_done(&self) -> bool {
        self.launched.is_empty()
    }

    fn of(&mut self, context: Context, work: u64) -> &mut Launched {
        self.launched.get_mut(&(context.index(), work)).expect("a call is about a launch that is not over")
    }

    fn tell(&mut self, now: u64, told: Told) {
        assert!(self.told.last().is_none_or(|&(last, _)| last <= now), "calls come in the order of time");
        self.told.push((now, told));
    }

    fn answer(&self, way: Way, work: u64, block: u32) -> Result<(), Bad> {
        if is_spoilt(self.spoilt_in, way, work, block) { Err(Bad) } else { Ok(()) }
    }
}

impl Host for Watch {
    fn block(&mut self, now: u64, context: Context, work: u64, block: u32) -> Result<(), Bad> {
        let launched = self.of(context, work);
        assert!(block < launched.blocks);
        assert!(launched.issued.insert(block), "a block is issued once");
        assert!(launched.saved.is_empty(), "preempted blocks go before fresh ones");
        self.tell(now, Told::Block { context: context.index(), work, block });
        self.answer(Way::Block, work, block)
    }

    fn saved(&mut self, now: u64, record: &Record) -> Result<(), Bad> {
        let Record { context, work, block, remaining, slot, .. } = *record;
        let launched = self.of(context, work);
        assert!(launched.issued.contains(&block) && remaining > 0);
        assert!(slot < launched.slots, "all slots fit into the state of all SMs");
        assert!(launched.saved.values().all(|other| other.slot != slot), "a slot holds one block");
        assert!(launched.saved.insert(block, *record).is_none(), "a block is saved once at a time");
        self.tell(now, Told::Saved { context: context.index(), work, block, remaining });
        self.answer(Way::Save, work, block)
    }

    fn restored(&mut self, now: u64, record: &Record) -> Result<(), Bad> {
        let Record { context, work, block, remaining, .. } = *record;
        assert_eq!(self.of(context, work).saved.remove(&block), Some(*record), "a block is restored as it was saved");
        self.resumed += 1;
        self.tell(now, Told::Restored { context: context.index(), work, block, remaining });
        self.answer(Way::Restore, work, block)
    }

    fn ended(&mut self, now: u64, context: Context, work: u64, outcome: Outcome) {
        let launched = self.launched.remove(&(context.index(), work)).expect("a launch ends once");
        let is_whole = launched.issued.len() == launched.blocks as usize && launched.saved.is_empty();
        assert!(is_whole || outcome != Outcome::Complete, "a kernel is complete when all its blocks have ended");
        self.tell(now, Told::ended(context.index(), work, outcome));
    }
}

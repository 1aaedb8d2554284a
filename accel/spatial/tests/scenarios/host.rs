//! A host that writes down its calls, and can spoil one block of one context.

use fusee_spatial::*;

/// The failure of a block.
#[derive(Clone, Copy, Eq, PartialEq)]
pub enum Spoilt {
    Block(u32),
    Save(u32),
    Restore(u32),
}

/// All calls of a host.
#[derive(Default)]
pub struct Log {
    /// The instants when blocks were issued for the first time, and their contexts.
    pub begun: Vec<(u64, Context)>,
    pub saved: Vec<Record>,
    pub restored: Vec<Record>,
    pub ended: Vec<(u64, Context, u64, Outcome)>,
    pub spoilt: Option<(usize, Spoilt)>,
}

impl Log {
    fn does(&self, context: Context, what: Spoilt) -> Result<(), Bad> {
        if self.spoilt == Some((context.index(), what)) { Err(Bad) } else { Ok(()) }
    }
}

impl Host for Log {
    fn block(&mut self, now: u64, context: Context, _: u64, block: u32) -> Result<(), Bad> {
        self.begun.push((now, context));
        self.does(context, Spoilt::Block(block))
    }

    fn saved(&mut self, _: u64, record: &Record) -> Result<(), Bad> {
        self.saved.push(*record);
        self.does(record.context, Spoilt::Save(record.block))
    }

    fn restored(&mut self, _: u64, record: &Record) -> Result<(), Bad> {
        self.restored.push(*record);
        self.does(record.context, Spoilt::Restore(record.block))
    }

    fn ended(&mut self, now: u64, context: Context, work: u64, outcome: Outcome) {
        self.ended.push((now, context, work, outcome));
    }
}

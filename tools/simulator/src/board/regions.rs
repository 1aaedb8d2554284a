//! Regions of tasks in the simulated machine: their words, their places, and the bytes that share them.

use super::*;

/// The memory of one region as tasks reach it: its first word stands for all of it.
#[derive(Clone, Debug)]
pub(super) struct Regions {
    pub(super) words: Vec<u64>,
    /// By task and slot of its handle: the region, and the rights.
    handles: BTreeMap<(usize, u16), (usize, u32)>,
    /// The contents of each place: region after region of the first task, then of the next.
    pub(super) places: Vec<Place>,
    /// The word that each task finds where a place has scratch memory.
    scratch: Vec<u64>,
}

impl Regions {
    pub(super) fn new(system: &System<'_>) -> Regions {
        let handles = system.handles().iter().filter(|handle| handle.kind == kind::REGION);
        let handles =
            handles.map(|one| ((one.task as usize, one.slot as u16), (one.object as usize, one.rights))).collect();
        let (tasks, regions) = (system.tasks().len(), system.regions().len());
        Regions {
            words: vec![0; regions],
            handles,
            places: vec![Place::Empty; tasks * regions],
            scratch: vec![0; tasks],
        }
    }

    /// The place of `task` in `region`.
    pub(super) fn place(&mut self, task: usize, region: usize) -> Option<&mut Place> {
        self.places.get_mut(task * self.words.len() + region)
    }

    /// The word that `task` would load from the region of its `handle`, or store to; `None`: it would fault.
    pub(super) fn reach(&mut self, task: usize, handle: u64, stores: bool) -> Option<&mut u64> {
        let (region, rights) = *self.handles.get(&(task, HandleValue(handle).slot()))?;
        let may_store = rights & rights::WRITE != 0;
        let (is_scratch, writable) = match self.place(task, region)? {
            _ if rights & rights::LENT == 0 => (false, may_store),
            Place::Empty => return None,
            Place::Lent { writable } => (false, may_store && *writable),
            Place::Scratch => (true, may_store),
        };
        match stores && !writable {
            true => None,
            false if is_scratch => self.scratch.get_mut(task),
            false => self.words.get_mut(region),
        }
    }
}

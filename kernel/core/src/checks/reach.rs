//! The reach of tasks and devices, as a machine has it, compared with the decisions of the kernel. For tests and
//! self-checking builds: the check walks everything.
//!
//! # Invariants
//!
//! T1. A doorbell is mapped exactly while its lock is held by that user, and not lost.
//! T2. A region that is lent is at a place exactly while a reply slot of that task records the loan; and the page there
//! may be stored to only if the place allows it.
//! T3. A dead task has no addresses, and any other one has.
//! T4. A device behind an SMMU reaches nothing while its driver is dead.
//!
//! Not here: the pages that never change (`cargo xtask test` walks all tables after each run).

use fusee_abi::call::rights;
use fusee_locking::engine::State as Lock;

use crate::Kernel;
use crate::id::{EngineUserId, LoanId, RegionId, ThreadId};
use crate::limits::HANDLES;
use crate::machine::Place;
use crate::object::{Object, State};

/// The present reach of tasks and devices.
pub trait Reach {
    /// Whether the doorbell page of `user` is mapped; `None`: it has none.
    fn has_doorbell(&self, user: EngineUserId) -> Option<bool>;

    /// The content of the place of `thread` for `region`.
    fn place(&self, thread: ThreadId, region: RegionId) -> Place;

    /// Whether any address of `thread`'s task is valid.
    fn has_space(&self, thread: ThreadId) -> bool;

    /// Whether a device that `thread` drives, and that could be kept from it, reaches memory.
    fn lets_device(&self, _thread: ThreadId) -> bool {
        false
    }
}

impl Kernel {
    /// Compares the reach of tasks and devices on the machine with the decisions of this kernel.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_reach(&self, machine: &impl Reach) -> Result<(), &'static str> {
        for user in (0..self.counts.engine_users).filter_map(EngineUserId::new) {
            let object = &self.engine_users[user];
            let Some(engine) = object.engine().filter(|engine| self.is_enforced(*engine)) else { continue };
            let holds = self.engines[engine].lock().state() == Lock::Held(user.index() as u16) && !object.is_lost();
            if machine.has_doorbell(user).is_some_and(|mapped| mapped != holds) {
                return Err("T1: a doorbell is mapped while its lock is not held, or is not while it is");
            }
        }
        for thread in (0..self.counts.threads).filter_map(ThreadId::new) {
            let is_dead = self.threads[thread].state() == State::Stopped;
            if machine.has_space(thread) == is_dead {
                return Err("T3: a dead task has addresses, or a living one has none");
            }
            if is_dead && machine.lets_device(thread) {
                return Err("T4: a device reaches memory whose driver is dead");
            }
            self.check_places(machine, thread)?;
        }
        Ok(())
    }

    fn check_places(&self, machine: &impl Reach, thread: ThreadId) -> Result<(), &'static str> {
        for slot in 0..HANDLES {
            let handle = &self.handles[thread][slot];
            let Object::Region(region) = *handle.object() else { continue };
            let rights = u32::from(handle.rights());
            if rights & rights::LENT == 0 {
                continue;
            }
            let lent = |loan: Option<LoanId>| loan.map(LoanId::region) == Some(region);
            let is_lent = self.threads[thread].slots().iter().any(|slot| lent(slot.loan()));
            let is_right = match machine.place(thread, region) {
                Place::Lent { writable } => is_lent && (!writable || rights & rights::WRITE != 0),
                Place::Empty | Place::Scratch => !is_lent,
            };
            // Places of a dead task are empty.
            if !is_right && self.threads[thread].state() != State::Stopped {
                return Err("T2: a region is at a place without a loan, or a loan has none");
            }
        }
        Ok(())
    }
}

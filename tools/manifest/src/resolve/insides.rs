//! The waits of tasks that are allowed while they hold an engine or a token: the kernel refuses all else.
//!
//! A wait inside a hold is in no bound on that hold, but for waits with an end in the manifest: of an operation, for its
//! completion; of the driver that carries a command out; and of an engine with a token. These handles have the right `inside` by
//! themselves, and so have those that a script waits for, as it is read. For a program the manifest states it.

use fusee_abi::call::{HandleValue, rights};
use fusee_abi::image::{self, kind};
use fusee_abi::script::operation;

use super::{Resolved, Resolver};

/// The prefix of the handles by which a driver signals completions.
const COMPLETION: &str = "gpu_done";

impl Resolver<'_> {
    pub(super) fn insides(&mut self) {
        for task in 0..self.out.tasks.len() {
            self.out.tasks[task].sleeps_inside |= self.file.tasks.0[task].1.sleeps_inside.unwrap_or(false);
            let is_own = |handle: &&mut image::Handle| handle.task as usize == task;
            let counted: Vec<u32> = {
                let own = self.out.handles.iter().filter(|handle| handle.task as usize == task);
                own.filter(|handle| self.out.is_counted_inside(handle)).map(|handle| handle.slot).collect()
            };
            let (waited, sleeps) = waits_of_script(&self.out, task);
            for handle in self.out.handles.iter_mut().filter(is_own) {
                if counted.contains(&handle.slot) || waited.contains(&handle.slot) {
                    handle.rights |= rights::INSIDE;
                }
            }
            self.out.tasks[task].sleeps_inside |= sleeps;
        }
    }
}

impl Resolved {
    /// Whether `handle` is the one by which its task gets the ends of its operations: its driver signals it.
    pub(crate) fn is_completion(&self, handle: &image::Handle) -> bool {
        let entries = self.tasks[handle.task as usize].environment.iter();
        let mut named = entries.filter(|one| one.kind == kind::NOTIFICATION && one.name.starts_with(COMPLETION));
        named.any(|entry| u32::from(HandleValue(entry.handle).slot()) == handle.slot)
    }

    /// Whether a wait for the object of `handle`, inside a hold of its task, is in the bounds on that hold; or nothing is proved of
    /// that hold anyway.
    pub(crate) fn is_counted_inside(&self, handle: &image::Handle) -> bool {
        let task = handle.task as usize;
        let object = handle.object as usize;
        let users = || self.engine_users.iter().zip(&self.engine_holds).filter(|(user, _)| user.task == handle.task);
        match handle.kind {
            kind::NOTIFICATION => self.is_completion(handle),
            kind::ENDPOINT => {
                let server = self.endpoints[object].1.server as usize;
                let device =
                    |user: &image::EngineUser| self.engine_places[user.engine as usize].map(|(device, _)| device);
                let mut devices = users().filter_map(|(user, _)| device(user));
                devices.any(|device| self.devices[device].driver == server)
            }
            kind::ENGINE => {
                let is_user = |user: &image::EngineUser| user.engine as usize == object;
                let holds = || users().filter(|(user, _)| is_user(user)).map(|(_, hold)| hold);
                let pools = || self.pool_users.iter().filter(|user| user.task == handle.task);
                let is_said = |user: &image::PoolUser| {
                    self.sections.iter().any(|(by, pool, _)| *by == task && *pool == user.pool as usize)
                };
                let is_silent = pools().any(|user| !is_said(user));
                pools().next().is_some() && (is_silent || holds().all(|hold| hold.is_none_or(|hold| hold.tokens != 0)))
            }
            _ => false,
        }
    }
}

/// The slots of handles for which the script of `task` waits while it holds something, and whether it sleeps then, or ends its job.
fn waits_of_script(system: &Resolved, task: usize) -> (Vec<u32>, bool) {
    let (mut slots, mut sleeps) = (Vec::new(), false);
    // Engines that were acquired together are given back together.
    let mut held: Vec<[u64; 2]> = Vec::new();
    for step in &system.tasks[task].script {
        let is_held = !held.is_empty();
        let mut waits = |handle: u64| slots.extend(is_held.then(|| u32::from(HandleValue(handle).slot())));
        match step.operation {
            operation::SLEEP | operation::PAUSE => sleeps |= is_held,
            operation::CALL
            | operation::SEND
            | operation::SERVE
            | operation::RECEIVE
            | operation::REPLY
            | operation::WAIT
            | operation::SUBMIT => {
                waits(step.handle);
            }
            operation::ACQUIRE => {
                waits(step.handle);
                held.push([step.handle; 2]);
            }
            operation::ACQUIRE_BOTH => {
                waits(step.handle);
                waits(step.value);
                held.push([step.handle, step.value]);
            }
            operation::YIELD_ENGINE => {
                slots.extend((held.len() > 1).then(|| u32::from(HandleValue(step.handle).slot())));
            }
            operation::RELEASE => {
                if let Some(at) = held.iter().rposition(|both| both.contains(&step.handle)) {
                    held.remove(at);
                }
            }
            _ => {}
        }
    }
    (slots, sleeps || !held.is_empty())
}

//! The client half of the accelerator contract: commands into rings, fences out.
//!
//! A client is given engines, the region "ring" (its ring page, shared with driver and device), the region "kick" ([`Kick`]),
//! and the notification "gpu_done", which the driver signals when something of this client has retired. That
//! notification is bound to the driver, so a task that waits for a fence lends the driver its key and budget.
//!
//! [`Work`] is an operation for an engine; [`Context::submit`] makes a [`Pending`] operation of it, and does not wait. Several
//! may be under way, on one engine or on several. A wrong order of these does not compile:
//!
//! ```
//! # use fusee::gpu::{Buffer, Context, FenceError, Local, SubmitError, Work, library::Product};
//! # use fusee::{Engine, Instant, Pool};
//! # fn add(pool: &mut Pool, copy: &Engine, execute: &Engine, context: &Context, input: [Buffer; 2],
//! #        [one, other, sum]: &mut [Buffer<Local>; 3]) -> Option<()> {
//! let token = pool.acquire(Instant::NEVER).ok()?;
//! let engine = token.acquire(copy, Instant::NEVER).ok()?;
//! let first = context.submit(&engine, Work::copy_in(&input[0], one)).ok()?;
//! let second = context.submit(&engine, Work::copy_in(&input[1], other)).ok()?;
//! [first, second].map(|copy| copy.wait().expect("both are ours"));
//! drop(engine);
//! let engine = token.acquire(execute, Instant::NEVER).ok()?;
//! context.submit(&engine, Work::launch(Product { order: 16, time: 0 }, (&*one, &*other, sum))).ok()?.wait().ok()?;
//! # Some(())
//! # }
//! ```
//!
//! # Invariants
//!
//! 1. Each slot of a ring has a fence of its own, so a slot is reused only after its fence has been written.
//! 2. Fence values of a slot differ from one command to the next.
//! 3. As long as a command may run, its engine is held and its buffers are borrowed, unless it was given by addresses.
//!
//! [`Auto`] is for tasks that do not care which engine, token or chunk: it takes those that each piece of work needs.
//!
//! Not here: engine locks (`engine`), resets and translation (`drivers/gpu`).

mod auto;
mod launch;
mod work;

use crate::again::{After, Again};
use crate::{
    AcquireError, Engine, EngineError, EngineGuard, Environment, Instant, Kick, MissingHandle, Nanoseconds,
    Notification, Region, SharedBytes, WaitError,
};
use core::cell::Cell;
use core::marker::PhantomData;
use fusee_accel_contract as contract;

pub use auto::{Auto, AutoError, CHUNK};
pub use contract::{Command, ENGINES, EngineIndex, FenceState, Launch, Operation};
pub use fusee_compute as compute;
pub use fusee_library as library;
pub use launch::{Operand, Operands, launch_at};
pub use work::{Board, Buffer, Local, Work};

const SLOTS: usize = contract::RING_ENTRIES as usize;
/// Fence values are 31 bits wide; a fresh page holds zero.
const LAST_VALUE: u32 = contract::FENCE_ERROR - 1;

/// The client's end of one device context.
#[derive(Debug)]
pub struct Context {
    ring: SharedBytes,
    kick: Kick,
    done: Notification,
    /// The value each slot's last command was to write; zero: nothing was submitted.
    values: [[Cell<u32>; SLOTS]; contract::ENGINES],
}

/// The promise that a command will retire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fence {
    index: usize,
    value: u32,
}

/// Why a command was not submitted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SubmitError {
    /// The command breaks a rule of the contract, or the engine does not know it.
    BadCommand,
    /// The ring is full: the oldest command has not retired. Wait for its fence.
    RingFull,
    /// The engine's lock was taken away, so the device heard of nothing. `release` says so, too.
    EngineLost,
}

/// Why a fence did not say "done".
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FenceError {
    /// The command faulted, or the engine was reset; its results are undefined.
    Failed,
    /// The wait itself ended early.
    Wait(WaitError),
}

/// Why work was not done from beginning to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RunError {
    /// The engine was not granted.
    Acquire(AcquireError),
    /// The device got no command.
    Submit(SubmitError),
    /// A command did not end well.
    Fence(FenceError),
    /// The engine was lost.
    Lost(EngineError),
}

impl RunError {
    /// Whether the same may go well at another time.
    fn may_pass(self) -> bool {
        matches!(
            self,
            RunError::Acquire(AcquireError::PeerDied | AcquireError::EngineLost)
                | RunError::Submit(SubmitError::EngineLost)
                | RunError::Fence(FenceError::Failed | FenceError::Wait(WaitError::PeerDied))
                | RunError::Lost(EngineError::EngineLost)
        )
    }
}

impl Context {
    /// This context without kicks: no device looks at its commands before it is kicked by other means. For measurements.
    #[cfg(all(feature = "misbehave", any(door, target_arch = "aarch64")))]
    #[must_use]
    pub fn unheard(self) -> Context {
        Context { kick: Kick::of_nobody(), ..self }
    }

    /// The context the manifest gives this task: regions "ring" and "kick", notification "gpu_done".
    ///
    /// # Errors
    /// [`MissingHandle`] names the missing one.
    pub fn of(environment: &Environment) -> Result<Context, MissingHandle<'static>> {
        let done = environment.notification("gpu_done")?;
        Context::new(environment, environment.region("ring")?, done)
    }

    /// The context with this ring page and completion notification: for clients of several devices.
    ///
    /// # Errors
    /// [`MissingHandle`] if this task is no client of a device.
    pub fn new(environment: &Environment, ring: Region, done: Notification) -> Result<Context, MissingHandle<'static>> {
        Ok(Context { ring: ring.shared(), kick: Kick::of(environment)?, done, values: Default::default() })
    }

    /// Lets the engine that `guard` holds do `work`, and does not wait for it. Until the value returned is waited for or
    /// dropped, the engine stays held, and the buffers borrowed.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was submitted.
    pub fn submit<'a>(
        &'a self,
        guard: &'a EngineGuard<'_>,
        work: impl Into<Work<'a>>,
    ) -> Result<Pending<'a>, SubmitError> {
        let operation = work.into().operation.ok_or(SubmitError::BadCommand)?;
        let fence = self.start(guard, operation)?;
        Ok(Pending { context: self, fence, borrowed: PhantomData })
    }

    /// Does `work` from beginning to end: waits for the engine until `deadline`, lets it work, waits for the end, gives it back.
    ///
    /// A preemptible engine does a launch block by block; and between two blocks, if an earlier key waits for it, that one gets it, and this
    /// task asks for it again. So others wait for a block at most, not for the whole, and the result does not change.
    ///
    /// # Errors
    /// [`RunError`]. The results of the work are then undefined.
    pub fn run<'a>(&'a self, engine: &Engine, work: impl Into<Work<'a>>, deadline: Instant) -> Result<(), RunError> {
        let whole = work.into().operation.ok_or(RunError::Submit(SubmitError::BadCommand))?;
        self.run_whole(engine, whole, u64::MAX, deadline)
    }

    /// Does `work` as [`Context::run`] does, a copy in chunks of `chunk` bytes, a positive multiple of eight: between two of them an earlier key is
    /// let in, too.
    ///
    /// # Errors
    /// [`RunError`]; [`SubmitError::BadCommand`] of another `chunk`. The results of the work are then undefined.
    pub fn run_in_chunks<'a>(
        &'a self,
        engine: &Engine,
        work: impl Into<Work<'a>>,
        chunk: u64,
        deadline: Instant,
    ) -> Result<(), RunError> {
        let whole = work.into().operation.ok_or(RunError::Submit(SubmitError::BadCommand))?;
        self.run_whole(engine, whole, chunk, deadline)
    }

    /// As [`Context::run`], for work that may be done twice, beside a driver that has [further lives](crate::life): work that does not end because
    /// the driver has died, or has let the device forget its commands, or because the engine was taken away, is done again, `times` times at most,
    /// until `deadline` in all. Between two tries it waits for `pause`, of the sort that a supervisor's delay is.
    ///
    /// # Errors
    /// [`RunError`] of the last try. The results of the work are then undefined.
    pub fn run_again<'a>(
        &'a self,
        engine: &Engine,
        work: impl Into<Work<'a>>,
        deadline: Instant,
        times: u32,
        pause: Nanoseconds,
    ) -> Result<(), RunError> {
        let whole = work.into().operation.ok_or(RunError::Submit(SubmitError::BadCommand))?;
        let after = |error: &RunError| if error.may_pass() { After::Pause } else { After::Nothing };
        Again { times, pause }.make(deadline, || self.run_whole(engine, whole, u64::MAX, deadline), after)
    }

    fn run_whole(&self, engine: &Engine, whole: Operation, chunk: u64, deadline: Instant) -> Result<(), RunError> {
        let pieces = match whole {
            Operation::Launch(launch) if engine.is_preemptible() => launch.blocks.into(),
            Operation::Copy { .. } if chunk == 0 => return Err(RunError::Submit(SubmitError::BadCommand)),
            Operation::Copy { length, .. } => length.div_ceil(chunk),
            _ => 1,
        };
        let acquire = || engine.acquire(deadline).map_err(RunError::Acquire);
        let mut guard = acquire()?;
        for number in 0..pieces {
            if number > 0 && guard.should_yield().map_err(RunError::Lost)? {
                guard.release().map_err(RunError::Lost)?;
                guard = acquire()?;
            }
            let operation = match whole {
                Operation::Launch(launch) if pieces > 1 => Operation::Launch(launch.block(number as u32)),
                Operation::Copy { source, destination, length } if pieces > 1 => {
                    let done = number * chunk;
                    let length = chunk.min(length - done);
                    Operation::Copy { source: source + done, destination: destination + done, length }
                }
                whole => whole,
            };
            self.submit(&guard, operation).map_err(RunError::Submit)?.wait().map_err(RunError::Fence)?;
        }
        guard.release().map_err(RunError::Lost)
    }

    /// Lets the engine that `guard` holds do an operation by addresses, whether anybody waits for it or not: the engine may be
    /// given back before it ends.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was submitted.
    pub fn start(&self, guard: &EngineGuard<'_>, operation: Operation) -> Result<Fence, SubmitError> {
        let index = EngineIndex::from_number(guard.engine().number() as usize).ok_or(SubmitError::BadCommand)?;
        // The doorbell is the only counter: it survives resets, and a restart of this task.
        let number = guard.submitted();
        let slot = (number % contract::RING_ENTRIES) as usize;
        let fence = index.number() * SLOTS + slot;
        let earlier = self.values[index.number()][slot].get();
        if earlier != 0 && self.poll(Fence { index: fence, value: earlier }) == contract::FenceState::Pending {
            return Err(if guard.is_lost() { SubmitError::EngineLost } else { SubmitError::RingFull });
        }

        // Unlike the present value of any origin.
        let written = self.ring.read_u32(contract::fence_offset(fence) as usize) & LAST_VALUE;
        let value = if written == LAST_VALUE { 1 } else { written + 1 };
        let target = contract::Fence { address: contract::fence_address(fence), value };
        let command = Command { operation, fence: Some(target) };
        if !command.is_valid() || !operation.runs_on(index) {
            return Err(SubmitError::BadCommand);
        }

        self.ring.copy_from_slice(contract::ring_slot(index, number) as usize, &command.encode());
        if let Some(more) = command.encode_more() {
            self.ring.copy_from_slice(contract::more_offset(number) as usize, &more);
        }
        let rung = guard.ring(&self.kick, number.wrapping_add(1));
        // Nothing is submitted, or the reset has written to the fence by the time of the next hold.
        self.values[index.number()][slot].set(if rung.is_ok() { value } else { 0 });
        rung.map(|()| Fence { index: fence, value }).map_err(|_| SubmitError::EngineLost)
    }

    /// Whether the command behind `fence` has retired, and how.
    #[must_use]
    pub fn poll(&self, fence: Fence) -> contract::FenceState {
        contract::fence_state(self.ring.observe_u32(contract::fence_offset(fence.index) as usize), fence.value)
    }

    /// Waits until the command behind `fence` has retired, at the latest until `deadline`; `done` is a notification that the
    /// driver signals.
    ///
    /// # Errors
    /// [`FenceError`] if it faulted, or the wait ended early.
    pub fn wait_for(&self, fence: Fence, done: Notification, deadline: Instant) -> Result<(), FenceError> {
        loop {
            match self.poll(fence) {
                contract::FenceState::Done => return Ok(()),
                contract::FenceState::Failed => return Err(FenceError::Failed),
                // The bits may tell of another command: look again.
                contract::FenceState::Pending => done.wait(deadline).map_err(FenceError::Wait)?,
            };
        }
    }

    /// Waits until at least one of these operations of this context has retired, well or not, and says which: the first
    /// that has. To wait for no operation at all would never end, so it does not compile:
    ///
    /// ```compile_fail,E0080
    /// # use fusee::gpu::Context;
    /// # fn none(context: &Context) {
    /// let retired = context.wait_any([], fusee::Instant::NEVER);
    /// # }
    /// # let _: fn(&Context) = none;
    /// ```
    ///
    /// # Errors
    /// [`WaitError`] if the wait ended early.
    ///
    /// # Panics
    /// If one is of another context, of which this one's notification does not tell.
    pub fn wait_any<const N: usize>(
        &self,
        operations: [&Pending<'_>; N],
        deadline: Instant,
    ) -> Result<usize, WaitError> {
        const { assert!(N > 0, "nothing to wait for") };
        assert!(operations.iter().all(|one| core::ptr::eq(one.context, self)), "an operation of another context");
        loop {
            if let Some(index) = operations.iter().position(|one| one.poll() != contract::FenceState::Pending) {
                return Ok(index);
            }
            self.done.wait(deadline)?;
        }
    }
}

/// An operation that may still run.
///
/// Dropping it waits for its end, so that engine and buffers are free afterwards in any case; unless the driver died, and
/// no task reports the end any more.
#[derive(Debug)]
#[must_use = "dropping it waits for its end, and tells nobody whether it failed"]
pub struct Pending<'a> {
    context: &'a Context,
    fence: Fence,
    /// The guard of the engine, and the buffers.
    borrowed: PhantomData<&'a mut ()>,
}

impl Pending<'_> {
    /// Whether it has retired, and how.
    #[must_use]
    pub fn poll(&self) -> contract::FenceState {
        self.context.poll(self.fence)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`FenceError`] if it faulted, or the driver died. A job that has used up its budget is told so here, too, but not before
    /// the end of the operation.
    pub fn wait(mut self) -> Result<(), FenceError> {
        self.wait_until(Instant::NEVER)
    }

    /// Waits for its end until `deadline`. After an early end of the wait it may still run.
    ///
    /// # Errors
    /// [`FenceError`] if it faulted, or the wait ended early.
    pub fn wait_until(&mut self, deadline: Instant) -> Result<(), FenceError> {
        self.context.wait_for(self.fence, self.context.done, deadline)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        // A used-up budget is reported once for each; any other end of the wait would end the next one, too.
        while self.wait_until(Instant::NEVER) == Err(FenceError::Wait(WaitError::Overrun)) {}
    }
}

const _: () = assert!(contract::ENGINES * SLOTS <= contract::FENCES);

/// The device is played by the tests: they write fences. The kernel of the host refuses to wait, unless it is played, too.
#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::grant::Handle;
    use crate::syscall::played;
    use crate::{Engine, Pool};
    use core::mem::ManuallyDrop;
    use fusee_abi::call::Call;
    use std::vec::Vec;

    const BURN: Operation = Operation::Burn { time: 1 };
    /// A launch of four blocks.
    const TRANSFORM: Launch = Launch { kernel: 7, first: 0, blocks: 4, words: [0; contract::LAUNCH_WORDS] };

    fn context() -> Context {
        Context {
            ring: Region::on_host().shared(),
            kick: Kick::on_host(),
            done: Notification::of(1),
            values: Default::default(),
        }
    }

    fn guard(number: u32) -> EngineGuard<'static> {
        Engine::on_host(number).held_on_host()
    }

    /// A device that, each time it is called, has done all that was submitted to its execution engine.
    fn device(context: &Context, engine: &Engine) -> impl FnMut() + use<> {
        device_of(context, engine, EngineIndex::Execution)
    }

    /// A device as above with another engine.
    fn device_of(context: &Context, engine: &Engine, index: EngineIndex) -> impl FnMut() + use<> {
        let (ring, doorbell, mut retired) = (context.ring, ManuallyDrop::new(engine.held_on_host()), 0);
        move || {
            while retired != doorbell.submitted() {
                let mut bytes = [0; contract::COMMAND_BYTES];
                ring.copy_to_slice(contract::ring_slot(index, retired) as usize, &mut bytes);
                let fence = Command::decode(&bytes).unwrap().fence.unwrap();
                ring.write_u32((fence.address - contract::RING_BASE) as usize, fence.value);
                retired += 1;
            }
        }
    }

    /// A kernel with this device, where another task wants the engine when its holder asks for the second time.
    fn wanted_once(mut device: impl FnMut()) -> impl FnMut(Call, u64) -> u64 {
        let mut asked = 0;
        move |call, _| match call {
            Call::Wait => {
                device();
                0
            }
            Call::ShouldYield => {
                asked += 1;
                u64::from(asked == 2)
            }
            _ => 0,
        }
    }

    /// The command submitted to an engine, by number.
    fn submitted(context: &Context, engine: EngineIndex, number: u32) -> Operation {
        let mut bytes = [0; contract::COMMAND_BYTES];
        context.ring.copy_to_slice(contract::ring_slot(engine, number) as usize, &mut bytes);
        Command::decode(&bytes).unwrap().operation
    }

    /// Lets the device retire an operation.
    fn retire(operation: &Pending<'_>, error: u32) {
        let fence = operation.fence;
        operation.context.ring.write_u32(contract::fence_offset(fence.index) as usize, fence.value | error);
    }

    #[test]
    fn operations_under_way_end_in_any_order_and_each_as_it_did() {
        let context = context();
        let (execute, copy) = (guard(0), guard(1));
        let operations = [&execute, &copy, &copy].map(|guard| context.submit(guard, BURN).unwrap());
        assert_eq!([execute.submitted(), copy.submitted()], [1, 2]);
        assert!(context.wait_any(operations.each_ref(), Instant::NEVER).is_err());
        retire(&operations[1], contract::FENCE_ERROR);
        assert_eq!(context.wait_any(operations.each_ref(), Instant::NEVER), Ok(1));
        retire(&operations[2], 0);
        assert_eq!(context.wait_any([&operations[0], &operations[2]], Instant::NEVER), Ok(1));
        retire(&operations[0], 0);
        assert_eq!(operations.map(Pending::wait), [Ok(()), Err(FenceError::Failed), Ok(())]);
    }

    /// Its engine's lock is all there is to ask for: no token, no copies.
    #[test]
    fn an_operation_without_copy_engines_is_three_calls_and_two_if_it_has_ended() {
        let (context, engine) = (context(), Engine::on_host(0));
        let mut waited_for = device(&context, &engine);
        let mut finished = device(&context, &engine);
        played::by(move |call, _| {
            if call == Call::Wait {
                waited_for();
            }
            0
        });
        let transform = Operation::Launch(TRANSFORM);
        for _ in 0..3 {
            context.run(&engine, transform, Instant::NEVER).unwrap();
            assert_eq!(played::calls(), [Call::Acquire, Call::Wait, Call::Release]);
        }
        let guard = engine.acquire(Instant::NEVER).unwrap();
        let transform = context.submit(&guard, transform).unwrap();
        finished();
        transform.wait().unwrap();
        guard.release().unwrap();
        assert_eq!(played::calls(), [Call::Acquire, Call::Release]);
    }

    /// Another task waits while the second block runs.
    #[test]
    fn a_preemptible_engine_is_given_to_who_waits_after_a_block() {
        let (context, engine) = (context(), Engine::on_host(0).preemptible());
        played::by(wanted_once(device(&context, &engine)));
        let transform = Operation::Launch(TRANSFORM);
        context.run(&engine, transform, Instant::NEVER).unwrap();
        let block = [Call::Wait, Call::ShouldYield];
        let calls = [
            &[Call::Acquire][..],
            &block,
            &block,
            &[Call::Release, Call::Acquire],
            &block,
            &[Call::Wait, Call::Release],
        ];
        assert_eq!(played::calls(), calls.concat());
        let submitted = |number| submitted(&context, EngineIndex::Execution, number);
        assert_eq!([0, 1, 2, 3].map(submitted), [0, 1, 2, 3].map(|number| Operation::Launch(TRANSFORM.block(number))));

        let burn = Operation::Burn { time: 1 };
        context.run(&engine, burn, Instant::NEVER).unwrap();
        assert_eq!(played::calls(), [Call::Acquire, Call::Wait, Call::Release], "what cannot be cut is not");
    }

    /// Another task waits while the second chunk is copied.
    #[test]
    fn a_copy_in_chunks_lets_others_in_between_two_and_keeps_the_engine_otherwise() {
        let (context, engine) = (context(), Engine::on_host(1));
        played::by(wanted_once(device_of(&context, &engine, EngineIndex::CopyIn)));
        let whole = Operation::Copy { source: 1 << 16, destination: 1 << 20, length: 40 };
        context.run_in_chunks(&engine, whole, 16, Instant::NEVER).unwrap();
        let calls = [
            &[Call::Acquire, Call::Wait, Call::ShouldYield, Call::Wait, Call::ShouldYield][..],
            &[Call::Release, Call::Acquire, Call::Wait, Call::Release],
        ];
        assert_eq!(played::calls(), calls.concat());
        let part = |at: u64, length| Operation::Copy { source: (1 << 16) + at, destination: (1 << 20) + at, length };
        assert_eq!(
            [0, 1, 2].map(|number| submitted(&context, EngineIndex::CopyIn, number)),
            [part(0, 16), part(16, 16), part(32, 8)]
        );
        for bad in [0, 12] {
            let refused = context.run_in_chunks(&engine, whole, bad, Instant::NEVER);
            assert_eq!(refused, Err(RunError::Submit(SubmitError::BadCommand)));
        }
    }

    /// A token for all work of a job, and one more after it was given back.
    #[test]
    fn a_client_that_names_nothing_takes_a_token_once_and_the_engine_of_each_work() {
        const POOL: u64 = 9;
        let engines = [0, 1, 2].map(Engine::on_host);
        let context = context();
        let mut devices = EngineIndex::ALL.map(|index| device_of(&context, &engines[index.number()], index));
        played::by(move |call, _| {
            if call == Call::Wait {
                devices.iter_mut().for_each(|device| device());
            }
            0
        });
        let pool = || core::iter::once(Pool::on_host(POOL));
        let mut auto = Auto::made(context, engines.into_iter(), pool(), 16).unwrap();
        let (mut board, mut local) = (Buffer::of(&Region::on_host()), Buffer::local(256));
        let input = board.split_off(4096 - 24);
        let mut result = local.split_off(128);
        auto.run(Work::copy_in(&input, &mut local), Instant::NEVER).unwrap();
        let copy = [Call::Acquire, Call::Wait, Call::ShouldYield, Call::Wait, Call::Release];
        assert_eq!(played::calls(), [&[Call::Acquire][..], &copy].concat());
        auto.run(Work::launch(library::Gradient { width: 8, height: 8 }, (&local, &mut result)), Instant::NEVER)
            .unwrap();
        assert_eq!(played::calls(), [Call::Acquire, Call::Wait, Call::Release]);
        let back = result.split_off(120);
        auto.run(Work::copy_out(&back, &mut board), Instant::NEVER).unwrap();
        assert_eq!(played::calls(), [Call::Acquire, Call::Wait, Call::Release]);
        assert_eq!(engines.map(|engine| engine.held_on_host().submitted()), [1, 2, 1]);
        played::calls();
        auto.done_with_device().unwrap();
        auto.end().unwrap();
        assert_eq!(played::calls(), [Call::Release], "there is one to give back");
        auto.run(BURN, Instant::NEVER).unwrap();
        drop(auto);
        assert_eq!(played::calls(), [&[Call::Acquire; 2][..], &[Call::Wait, Call::Release, Call::Release]].concat());
    }

    #[test]
    fn what_such_a_client_cannot_know_is_an_error() {
        let engines = |numbers: &[u32]| numbers.iter().map(|number| Engine::on_host(*number)).collect::<Vec<_>>();
        let made = |numbers, pools, chunk| {
            let pools = (0..pools).map(Pool::on_host);
            Auto::made(context(), engines(numbers).into_iter(), pools, chunk).err()
        };
        assert_eq!(made(&[0, 1, 2], 1, 8), None);
        assert_eq!([made(&[0, 0], 0, 8), made(&[0], 2, 8)], [Some(AutoError::Ambiguous); 2]);
        assert_eq!([made(&[0], 0, 0), made(&[0], 0, 12)], [Some(AutoError::BadChunk); 2]);
        let mut no_copies = Auto::made(context(), engines(&[0]).into_iter(), core::iter::empty(), 8).unwrap();
        let (board, mut local) = (Buffer::of(&Region::on_host()), Buffer::local(4096));
        let refused = no_copies.run(Work::copy_in(&board, &mut local), Instant::NEVER);
        assert_eq!(refused, Err(RunError::Submit(SubmitError::BadCommand)));
    }

    #[test]
    fn a_full_ring_takes_the_next_command_when_the_oldest_has_retired() {
        let context = context();
        let guard = guard(1);
        let operations: Vec<_> = (0..SLOTS).map(|_| context.submit(&guard, BURN).unwrap()).collect();
        assert_eq!(context.submit(&guard, BURN).err(), Some(SubmitError::RingFull));
        retire(&operations[1], 0);
        assert_eq!(context.submit(&guard, BURN).err(), Some(SubmitError::RingFull));
        retire(&operations[0], 0);
        let next = context.submit(&guard, BURN).unwrap();
        assert_eq!([operations[0].poll(), next.poll()], [FenceState::Done, FenceState::Pending]);
        assert_eq!(guard.submitted() as usize, SLOTS + 1);
    }

    /// The kernel has taken the engine away between the grant and the first command: the device hears of none, nothing waits for
    /// one, and all is well with the next hold.
    #[test]
    fn a_client_whose_engine_was_taken_away_hears_of_it_as_it_submits() {
        let (context, engine) = (context(), Engine::on_host(1));
        let guard = engine.held_on_host();
        let earlier = context.submit(&guard, BURN).unwrap();
        retire(&earlier, 0);
        engine.lose_on_host();
        assert!(guard.is_lost());
        for _ in 0..=SLOTS {
            assert_eq!(context.submit(&guard, BURN).err(), Some(SubmitError::EngineLost));
        }
        let again = Engine::on_host(1).held_on_host();
        assert!((0..SLOTS).all(|_| context.start(&again, BURN).is_ok()), "no slot is taken");
    }

    #[test]
    fn work_that_its_engine_does_not_know_or_that_does_not_fit_is_not_submitted() {
        let context = context();
        let guard = guard(0);
        let mut local = Buffer::local(64);
        let mut result = local.split_off(32);
        let copy = Operation::Copy { source: 0, destination: 0, length: 8 };
        assert_eq!(context.submit(&guard, copy).err(), Some(SubmitError::BadCommand));
        let gradient = Work::launch(library::Gradient { width: 33, height: 1 }, (&local, &mut result));
        assert_eq!(context.submit(&guard, gradient).err(), Some(SubmitError::BadCommand));
        assert_eq!(guard.submitted(), 0);
    }
}

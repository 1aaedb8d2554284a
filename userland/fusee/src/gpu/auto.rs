//! A client that names no pool, engine or chunk: it takes those that each piece of work needs.
//!
//! The token is taken at the first work of a job, and held until [`Auto::end`], so a job has one token section; or until
//! [`Auto::done_with_device`], where it computes on without the device. The kind of work determines its engine: launches are for the execution
//! engine, copies for the copy engine of their direction. It is locked for that work. Copies go in chunks, launches on a preemptible engine block by
//! block, and between two of these an earlier key is let in; if none waits, the engine is kept. Each piece has ended before the next begins, so they
//! are in the order in which they are written.
//!
//! ```no_run
//! # use fusee::gpu::{Auto, Buffer, Local, Work, library::Gradient};
//! # use fusee::{Instant, environment, next_job};
//! # fn tell(_: &Buffer) {}
//! # fn main_loop(picture: Buffer, mut edges: Buffer, mut there: Buffer<Local>, mut found: Buffer<Local>) -> Option<()> {
//! let mut device = Auto::of(&environment()).ok()?;
//! loop {
//!     next_job().ok()?;
//!     device.run(Work::copy_in(&picture, &mut there), Instant::NEVER).ok()?;
//!     device.run(Work::launch(Gradient { width: 64, height: 64 }, (&there, &mut found)), Instant::NEVER).ok()?;
//!     device.run(Work::copy_out(&found, &mut edges), Instant::NEVER).ok()?;
//!     device.done_with_device().ok()?;
//!     tell(&edges);
//!     device.end().ok()?;
//! }
//! # }
//! ```
//!
//! Source: Elliott 2015, section 5.3 (`libgpui`), where the token stays with a job until its end, even if only its first copy needs the device; `done_with_device` is the call that is missing there.
//!
//! Not here: pools with tokens of several devices, and their clients with a [`Context`] and buffers on each.

use super::work::Work;
use super::{Context, EngineIndex, Operation, RunError, SubmitError};
use crate::environment::Object;
use crate::{AcquireError, Engine, EngineError, Environment, Instant, MissingHandle, Pool};
use fusee_accel_contract::{ENGINES, space};

/// Bytes of a chunk, unless the task's parameter `chunk` says otherwise.
pub const CHUNK: u64 = 16 * 1024;

/// This task as a client of one device.
#[derive(Debug)]
pub struct Auto {
    context: Context,
    /// By number.
    engines: [Option<Engine>; ENGINES],
    pool: Option<Pool>,
    chunk: u64,
    has_token: bool,
}

/// Why a task is no such client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AutoError {
    /// The task lacks a handle that clients of a device have.
    Missing(MissingHandle<'static>),
    /// The task has two pools, or two engines with one number: only the task can choose.
    Ambiguous,
    /// The parameter `chunk` is no positive multiple of eight.
    BadChunk,
}

impl Auto {
    /// The device, engines and pool that the manifest gives this task. A pool that it has must be that of the device.
    ///
    /// # Errors
    /// [`AutoError`].
    pub fn of(environment: &Environment) -> Result<Auto, AutoError> {
        let context = Context::of(environment).map_err(AutoError::Missing)?;
        let chunk = environment.parameter("chunk").unwrap_or(CHUNK);
        Auto::made(context, objects(environment), objects(environment), chunk)
    }

    pub(super) fn made(
        context: Context,
        engines: impl Iterator<Item = Engine>,
        mut pools: impl Iterator<Item = Pool>,
        chunk: u64,
    ) -> Result<Auto, AutoError> {
        if chunk == 0 || !chunk.is_multiple_of(fusee_accel_contract::OPERAND_ALIGNMENT) {
            return Err(AutoError::BadChunk);
        }
        let mut auto = Auto { context, engines: [None; ENGINES], pool: pools.next(), chunk, has_token: false };
        // Mutexes are engines without a device.
        for engine in engines.filter(Engine::has_doorbell) {
            let place = auto.engines.get_mut(engine.number() as usize).ok_or(AutoError::Ambiguous)?;
            if place.replace(engine).is_some() {
                return Err(AutoError::Ambiguous);
            }
        }
        if pools.next().is_some() { Err(AutoError::Ambiguous) } else { Ok(auto) }
    }

    /// Does `work` from beginning to end. Waits until `deadline` for a token, if the job has none, and as long each time for the engine.
    ///
    /// # Errors
    /// [`RunError`]; [`SubmitError::BadCommand`] if the task has no engine for it. The results are then undefined, and a token is still held.
    pub fn run<'a>(&'a mut self, work: impl Into<Work<'a>>, deadline: Instant) -> Result<(), RunError> {
        let operation = work.into().operation.ok_or(RunError::Submit(SubmitError::BadCommand))?;
        let engine = self.engine(&operation).ok_or(RunError::Submit(SubmitError::BadCommand))?;
        self.take_token(deadline).map_err(RunError::Acquire)?;
        self.context.run_whole(&engine, operation, self.chunk, deadline)
    }

    /// The device is not needed any more in this job: gives the token back. Further work would take another.
    ///
    /// # Errors
    /// [`EngineError`] if the token was lost before.
    pub fn done_with_device(&mut self) -> Result<(), EngineError> {
        match &mut self.pool {
            Some(pool) if core::mem::take(&mut self.has_token) => pool.give_back(),
            _ => Ok(()),
        }
    }

    /// At the end of a job: gives the token back, if it has one.
    ///
    /// # Errors
    /// As [`Auto::done_with_device`].
    pub fn end(&mut self) -> Result<(), EngineError> {
        self.done_with_device()
    }

    fn take_token(&mut self, deadline: Instant) -> Result<(), AcquireError> {
        let Some(pool) = self.pool.as_mut().filter(|_| !self.has_token) else { return Ok(()) };
        pool.acquire(deadline)?.keep();
        self.has_token = true;
        Ok(())
    }

    /// The engine for an operation: that of its direction, or the only one that knows it.
    fn engine(&self, operation: &Operation) -> Option<Engine> {
        let is_out =
            matches!(operation, Operation::Copy { source, .. } if (space::LOCAL_BASE..space::peer(0)).contains(source));
        let wanted = if is_out { EngineIndex::CopyOut } else { EngineIndex::CopyIn };
        let all = [wanted, EngineIndex::Execution, EngineIndex::CopyIn];
        let knows = |index: &EngineIndex| operation.runs_on(*index) && self.engines[index.number()].is_some();
        all.into_iter().find(knows).and_then(|index| self.engines[index.number()])
    }
}

impl Drop for Auto {
    fn drop(&mut self) {
        // The result cannot be reported any more.
        let _ = self.done_with_device();
    }
}

/// All objects of one kind that the manifest gives this task.
fn objects<T: Object>(environment: &Environment) -> impl Iterator<Item = T> + '_ {
    let entries = environment.entries().iter().filter(|entry| entry.kind == T::KIND);
    entries.map(|entry| T::from_entry(environment, entry))
}

//! Engines: the lock of a GPU's engine, and the doorbell that comes with it.

use crate::doorbells::SUBMITTED;
use crate::environment::{Environment, Object};
use crate::memory::{SharedBytes, shared};
use crate::syscall::{complete_stores, message, plain, relax, timed};
use crate::{AcquireError, Endpoint, EngineError, Instant, MissingHandle, Notification};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use fusee_abi::call::Call;
use fusee_abi::environment::{Entry, LOST_WORD, PREEMPTIBLE};
use fusee_abi::image::kind;

/// Offset in the kick page of the word that wakes the engines: the translation register of an interrupt
/// translation service (Arm IHI 0069, `GITS_TRANSLATER`), or its substitute.
const KICK: usize = 0x40;
/// The event that means "look at the doorbells".
const KICK_EVENT: u32 = 0;

/// A member of objects that belong to the task that acquired them: no thread may give them to another.
pub(crate) type NotSent = [*const (); 0];

/// One engine of a device.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// Zero: it is used without its lock.
    handle: u64,
    /// As in the environment: its number, and [`PREEMPTIBLE`].
    flags: u32,
    doorbell: SharedBytes,
}

impl Object for Engine {
    const KIND: u32 = kind::ENGINE;
    const NAME: &'static str = "engine";

    fn from_entry(environment: &Environment, entry: &'static Entry) -> Self {
        // An engine without a doorbell page can be locked, but not rung.
        let doorbell = environment.doorbell(entry).map_or(SharedBytes::EMPTY, shared);
        Self { handle: entry.handle, flags: entry.flags, doorbell }
    }
}

impl Engine {
    /// Waits for the engine's lock until `deadline`. The doorbell is reachable while the guard lives.
    ///
    /// # Errors
    /// [`AcquireError`] says why it was not granted.
    #[inline]
    pub fn acquire(&self, deadline: Instant) -> Result<EngineGuard<'static>, AcquireError> {
        self.acquire_during(deadline)
    }

    /// Waits as [`Engine::acquire`] does, for a guard that lives no longer than something else.
    #[inline]
    pub(crate) fn acquire_during<'token>(&self, deadline: Instant) -> Result<EngineGuard<'token>, AcquireError> {
        if !self.is_shared() {
            AcquireError::check(timed(Call::Acquire as u64, self.handle, deadline.0).code)?;
        }
        Ok(EngineGuard::of(*self))
    }

    /// Waits until `deadline` for the locks of both of `engines`, which are of one group, and takes them at once. Tasks that acquire
    /// them one after the other can wait for each other if their orders differ; here no task does.
    ///
    /// # Errors
    /// [`AcquireError`] says why they were not granted: none of them is.
    pub fn acquire_together(engines: [Engine; 2], deadline: Instant) -> Result<EngineGroup, AcquireError> {
        let words = [engines[1].handle, 0, 0, 0, 0, 0];
        AcquireError::check(message(Call::AcquireGroup as u64, engines[0].handle, words, deadline.0, 0).code)?;
        Ok(EngineGroup { guards: engines.map(|engine| ManuallyDrop::new(EngineGuard::of(engine))) })
    }

    /// The number of the engine in its device.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.flags & (PREEMPTIBLE - 1)
    }

    /// Whether this task uses the engine without its lock, while no other task holds the lock (right `share`). An acquisition then
    /// succeeds at once, and the device decides when the engine begins a command.
    #[must_use]
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.handle == 0
    }

    /// Whether it can do operations block by block, as [`Context::run`](crate::gpu::Context::run) then lets it.
    #[must_use]
    pub fn is_preemptible(&self) -> bool {
        self.flags & PREEMPTIBLE != 0
    }

    /// Whether work can be submitted to it: it is an engine of a device, and no mere lock.
    #[must_use]
    pub fn has_doorbell(&self) -> bool {
        !self.doorbell.is_empty()
    }

    /// The doorbell page, lock or no lock. For tests: without the lock, an access faults.
    #[cfg(all(feature = "misbehave", any(door, target_arch = "aarch64")))]
    pub(crate) fn doorbell(&self) -> SharedBytes {
        self.doorbell
    }
}

/// The lock of one engine, given back when dropped. Commands still running keep the next holder waiting.
///
/// If it was acquired [with a token](crate::Token::acquire), the token is held as long. It stays with the task that acquired
/// it.
#[derive(Debug)]
#[must_use = "the engine is given back at once"]
pub struct EngineGuard<'token> {
    engine: Engine,
    token: PhantomData<&'token ()>,
    _stays: NotSent,
}

impl EngineGuard<'_> {
    fn of(engine: Engine) -> Self {
        Self { engine, token: PhantomData, _stays: [] }
    }

    /// The engine that is held.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Commands this task has submitted to the engine so far, wrapping.
    #[must_use]
    pub fn submitted(&self) -> u32 {
        self.engine.doorbell.read_u32(SUBMITTED)
    }

    /// Tells the device that `submitted` commands are in the ring, and wakes it.
    ///
    /// # Errors
    /// [`EngineError::EngineLost`] if the lock was taken away before. The count then reaches no device; if the lock goes only after
    /// that, the commands fail.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "only clients of accelerators ring"))]
    pub(crate) fn ring(&self, kick: &Kick, submitted: u32) -> Result<(), EngineError> {
        self.count(submitted)?;
        kick.send();
        Ok(())
    }

    /// Publishes the count as [`EngineGuard::ring`] does, without a kick: the device looks by other means, or not at all.
    ///
    /// # Errors
    /// As [`EngineGuard::ring`].
    pub(crate) fn count(&self, submitted: u32) -> Result<(), EngineError> {
        self.engine.doorbell.publish_u32(SUBMITTED, submitted);
        if self.is_lost() { Err(EngineError::EngineLost) } else { Ok(()) }
    }

    /// Whether the lock was taken away: the engine was not idle and given back in time. The memory in the place of the doorbell is then
    /// memory of this task, until the guard is dropped.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.engine.doorbell.read_u32(LOST_WORD as usize) != 0
    }

    /// Whether an earlier key waits for the engine, so that a long operation should be cut here.
    ///
    /// # Errors
    /// [`EngineError`] if the lock was lost.
    #[inline]
    pub fn should_yield(&self) -> Result<bool, EngineError> {
        if self.engine.is_shared() {
            return Ok(false);
        }
        let answer = plain(Call::ShouldYield as u64, self.engine.handle, 0);
        EngineError::check(answer.code)?;
        Ok(answer.value == 1)
    }

    /// Gives the engine back, and tells whether it was still held.
    ///
    /// # Errors
    /// [`EngineError::EngineLost`] if the lock was taken away before.
    pub fn release(self) -> Result<(), EngineError> {
        let engine = self.engine;
        core::mem::forget(self);
        if engine.is_shared() {
            return Ok(());
        }
        EngineError::check(plain(Call::Release as u64, engine.handle, 0).code)
    }
}

/// How devices are told to look at their doorbells: by a store to a page; where the board has no page that makes a device look, by a signal, which
/// the kernel passes on; or by a call to its driver's server. Only the environment has the page, so that a program cannot take other memory for it.
#[derive(Clone, Copy, Debug)]
pub struct Kick(Way);

#[derive(Clone, Copy, Debug)]
enum Way {
    Page(SharedBytes),
    Signal(Notification),
    Call(Endpoint),
    #[cfg(all(feature = "misbehave", any(door, target_arch = "aarch64")))]
    Nobody,
}

impl Kick {
    /// The page or the notification that the manifest gives to drivers and clients of devices; or the endpoint of that name.
    ///
    /// # Errors
    /// [`MissingHandle`] if this task has none of them.
    pub fn of(environment: &Environment) -> Result<Kick, MissingHandle<'static>> {
        let page = environment.region("kick").map(|region| Way::Page(region.shared()));
        let signal = || environment.notification("kick").map(Way::Signal);
        let call = || environment.endpoint("kick").map(Way::Call);
        page.or_else(|missing| signal().or_else(|_| call()).map_err(|_| missing)).map(Kick)
    }

    /// A kick that lets no device look. For measurements: the time after a kick is not the client's.
    #[cfg(all(feature = "misbehave", any(door, target_arch = "aarch64")))]
    pub(crate) const fn of_nobody() -> Kick {
        Kick(Way::Nobody)
    }

    /// Lets all devices look at all earlier stores.
    pub fn send(&self) {
        complete_stores();
        match &self.0 {
            Way::Page(page) => {
                page.write_u32(KICK, KICK_EVENT);
                // The engine may be another CPU of an emulator: let it run.
                relax();
            }
            Way::Signal(device) => {
                // After the handle was taken back no device looks, as below.
                let _ = device.signal(1);
                relax();
            }
            Way::Call(server) => {
                // Without its server no device looks. The watchdog reports that to tasks that wait.
                let _ = server.call([0; 6], Instant::NEVER);
            }
            #[cfg(all(feature = "misbehave", any(door, target_arch = "aarch64")))]
            Way::Nobody => {}
        }
    }
}

/// The locks of engines that were acquired together, given back at once when dropped.
#[derive(Debug)]
#[must_use = "the engines are given back at once"]
pub struct EngineGroup {
    /// None gives back its own engine.
    guards: [ManuallyDrop<EngineGuard<'static>>; 2],
}

impl EngineGroup {
    /// The engines that are held, in the order in which they were named.
    pub fn guards(&self) -> [&EngineGuard<'static>; 2] {
        self.guards.each_ref().map(|guard| &**guard)
    }

    /// Gives the engines back, and tells whether they were still held.
    ///
    /// # Errors
    /// [`EngineError`] if the locks were lost before.
    pub fn release(self) -> Result<(), EngineError> {
        let handle = self.handle();
        core::mem::forget(self);
        EngineError::check(plain(Call::Release as u64, handle, 0).code)
    }

    /// The kernel takes either for both.
    fn handle(&self) -> u64 {
        self.guards[0].engine.handle
    }
}

impl Drop for EngineGroup {
    fn drop(&mut self) {
        // As for one engine.
        let _ = plain(Call::Release as u64, self.handle(), 0);
    }
}

impl Drop for EngineGuard<'_> {
    fn drop(&mut self) {
        // A lock lost to the watchdog is already released: nothing is left to do, and the result cannot be reported.
        if !self.engine.is_shared() {
            let _ = plain(Call::Release as u64, self.engine.handle, 0);
        }
    }
}

#[cfg(test)]
impl Kick {
    /// A page of the host's memory.
    pub(crate) fn on_host() -> Kick {
        Kick(Way::Page(SharedBytes::leaked(4096)))
    }
}

#[cfg(test)]
impl Engine {
    /// Engine `number`, with memory of the host as its doorbell page.
    pub(crate) fn on_host(number: u32) -> Engine {
        Engine { handle: 1, flags: number, doorbell: SharedBytes::leaked(4096) }
    }

    /// This engine, made preemptible.
    pub(crate) fn preemptible(self) -> Engine {
        Engine { flags: self.flags | PREEMPTIBLE, ..self }
    }

    /// The kernel's act of taking the lock away, as this task sees it.
    pub(crate) fn lose_on_host(&self) {
        self.doorbell.write_u32(LOST_WORD as usize, fusee_abi::environment::LOST);
    }

    /// A guard without a request for it.
    pub(crate) fn held_on_host(&self) -> EngineGuard<'static> {
        EngineGuard::of(*self)
    }
}

//! Plugins of pools (`accel::plugin`): their choice, and the measurements they get.
//!
//! Advice takes time. A kernel without feature `advice` has no [`AdviserId`], and so none of this code.
//!
//! # Measurements
//!
//! A plugin learns the time for which each token was used: the CPU time of its holder, and the time of its engines, from
//! grant to idle, during which the holder did not run. So time in which the holder was preempted without an engine, or
//! waited for one, does not count.

use fusee_abi::image::{self, POOL_DEVICES, advice};
use fusee_accel::plugin::{self, GPUS, Kind, Plugin};
use fusee_locking::engine::LockError;
use fusee_locking::pool::{Change, Unadvised};
use fusee_locking::tokens::{self, Tokens};
use fusee_sched::key::Key;
use fusee_sched::time::Nanoseconds;

use crate::BootError;
use crate::arena::Arena;
use crate::id::{AdviserId, PoolId};
use crate::limits::{ADVISED_POOLS, POOL_USERS, POOLS};

const _: () = assert!(POOL_DEVICES == GPUS);

/// The plugins of pools.
#[derive(Clone, Debug)]
pub(crate) struct Advisers {
    plugins: Arena<Plugin<POOL_USERS>, AdviserId, ADVISED_POOLS>,
    count: u8,
    /// The plugin of each pool that has one.
    of: Arena<Option<AdviserId>, PoolId, POOLS>,
}

impl Advisers {
    /// No pool has a plugin.
    pub const EMPTY: Self =
        Self { plugins: Arena::new([const { Plugin::EMPTY }; ADVISED_POOLS]), count: 0, of: Arena::new([None; POOLS]) };

    /// Gives `pool` the plugin that its record names.
    pub fn set(&mut self, pool: PoolId, record: &image::Pool) -> Result<(), BootError> {
        let kind = match record.advice {
            advice::NOBODY => return Ok(()),
            advice::AFFINITY => Kind::Affinity,
            advice::RANDOM => Kind::Random,
            _ => return Err(BootError::Dangling("advice")),
        };
        // Tokens of no device are all alike.
        let devices = record.devices.max(1);
        let (Ok(gpus), Ok(tokens)) = (u8::try_from(devices), u8::try_from(record.replicas / devices)) else {
            return Err(BootError::Dangling("advice"));
        };
        let adviser = AdviserId::new(usize::from(self.count)).filter(|adviser| adviser.index() < ADVISED_POOLS);
        let adviser = adviser.ok_or(BootError::TooMany("advised pools"))?;
        let is_fit = self.plugins[adviser].set(kind, gpus, tokens, &record.distances);
        is_fit.map_err(|_| BootError::Dangling("advice"))?;
        self.count += 1;
        self.of[pool] = Some(adviser);
        Ok(())
    }

    fn plugin(&mut self, pool: PoolId) -> Option<&mut Plugin<POOL_USERS>> {
        Some(&mut self.plugins[self.of[pool]?])
    }

    /// Whether the use of tokens of `pool` must be measured.
    pub fn measures(&self, pool: PoolId) -> bool {
        self.of[pool].is_some()
    }

    pub fn request(
        &mut self,
        pool: PoolId,
        tokens: &mut Tokens,
        user: u16,
        key: Key,
        length: Nanoseconds,
    ) -> Result<Change, LockError> {
        match self.plugin(pool) {
            Some(plugin) => plugin::request(tokens, plugin, user, key, length),
            None => tokens::request(tokens, &Unadvised, user, key, length),
        }
    }

    pub fn withdraw(&mut self, pool: PoolId, tokens: &mut Tokens, user: u16) -> Option<Change> {
        match self.plugin(pool) {
            Some(plugin) => plugin::withdraw(tokens, plugin, user),
            None => tokens::withdraw(tokens, &Unadvised, user),
        }
    }

    pub fn change_key(&mut self, pool: PoolId, tokens: &mut Tokens, user: u16, key: Key) -> Option<Change> {
        match self.plugin(pool) {
            Some(plugin) => plugin::change_key(tokens, plugin, user, key),
            None => tokens::change_key(tokens, &Unadvised, user, key),
        }
    }

    pub fn acquired(&mut self, pool: PoolId, user: u16, replica: u8) {
        if let Some(plugin) = self.plugin(pool) {
            plugin.acquired(user, replica);
        }
    }

    pub fn freed(&mut self, pool: PoolId, user: u16, hold: Nanoseconds) {
        if let Some(plugin) = self.plugin(pool) {
            plugin.freed(user, hold);
        }
    }

    pub fn exited(&mut self, pool: PoolId, user: u16) {
        if let Some(plugin) = self.plugin(pool) {
            plugin.exited(user);
        }
    }
}

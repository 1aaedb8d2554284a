//! The devices and the adviser of a pool: `devices`, `advice` and `shortest` of `[pools.NAME]`.

use fusee_abi::image::{self, POOL_DEVICES, advice, measure};
use fusee_accel::topology::Distance;
use fusee_kernel_core::limits;
use fusee_sched::time::Nanoseconds;
use toml::Spanned;

use super::{
    Fail::{self, At},
    Of, Resolver, index_of,
};
use crate::error::Reason;
use crate::schema::{self, Advice, Shortest};

impl Resolver<'_> {
    /// The fields of a pool's record about devices and advice.
    pub(super) fn advised(&self, name: &Spanned<String>, pool: &schema::Pool) -> Result<image::Pool, Fail> {
        let devices = self.devices_of(name, pool)?;
        let advice = match pool.advice.as_ref().map(Spanned::get_ref) {
            None | Some(Advice::None) => advice::NOBODY,
            Some(Advice::Affinity) => advice::AFFINITY,
            Some(Advice::Random) => advice::RANDOM,
        };
        let advised = self.out.pools.iter().filter(|(_, pool)| pool.advice != advice::NOBODY).count();
        if let (Some(key), true) = (&pool.advice, advice != advice::NOBODY && advised >= limits::ADVISED_POOLS) {
            return Err(At(key.span(), Reason::TooMany { what: "advised pools", limit: limits::ADVISED_POOLS }));
        }
        let mut distances = [[Distance::Same.number() as u8; POOL_DEVICES]; POOL_DEVICES];
        for (row, from) in distances.iter_mut().zip(&devices) {
            for (distance, to) in row.iter_mut().zip(&devices) {
                *distance = self.distance(*from, *to).number() as u8;
            }
        }
        let measure = match pool.shortest {
            Shortest::Requests => measure::REQUESTS,
            Shortest::Lengths => measure::LENGTHS,
        };
        let devices = devices.len() as u32;
        Ok(image::Pool {
            replicas: 0,
            limit: 0,
            cluster: 0,
            crosses: 0,
            measure,
            advice,
            devices,
            distances,
            total_limit: 0,
            watchdog: 0,
        })
    }

    fn devices_of(&self, name: &Spanned<String>, pool: &schema::Pool) -> Result<Vec<usize>, Fail> {
        let Some(named) = &pool.devices else { return Ok(Vec::new()) };
        let mut devices = Vec::new();
        for device in named.get_ref() {
            let index = index_of(&self.file.devices, "device", device)?;
            self.sound(Of::Device(index))?;
            if devices.contains(&index) {
                let (what, of, by) = ("device", device.get_ref().clone(), name.get_ref().clone());
                return Err(At(device.span(), Reason::PlaceTaken { what, of, by }));
            }
            devices.push(index);
        }
        if devices.is_empty() || !pool.replicas.get_ref().is_multiple_of(devices.len() as u32) {
            let needs = "as many replicas for each";
            return Err(At(named.span(), Reason::Needs { what: "devices", of: name.get_ref().clone(), needs }));
        }
        Ok(devices)
    }

    /// The distance between two devices, there or back, whichever is farther.
    fn distance(&self, from: usize, to: usize) -> Distance {
        let device = |index: usize| &self.out.devices[index];
        if from == to {
            return Distance::Same;
        }
        // Without ways data go through system memory.
        if self.file.system.distance.is_none() {
            return Distance::System;
        }
        let is_near = device(from).ways[to].0 == 0 && device(to).ways[from].0 == 0;
        if is_near { Distance::Near } else { Distance::Far }
    }

    /// Sets the longest use of a token by each user of a pool: by its declarations for the pool and for engines within.
    pub(super) fn lengths(&mut self) {
        for index in 0..self.out.pool_users.len() {
            let length = self.length(index);
            self.out.pool_users[index].length = self.keep(Of::Nothing, length).unwrap_or(0);
        }
    }

    fn length(&self, index: usize) -> Result<u64, Fail> {
        let user = self.out.pool_users[index];
        let (pool, task) = (user.pool as usize, user.task as usize);
        self.sound(Of::Uses(task))?;
        let section = self.out.sections.iter().find(|(of, at, _)| (*of, *at) == (task, pool));
        let (name, file) = &self.file.pools.0[pool];
        let needs_it = file.shortest == Shortest::Lengths
            || matches!(file.advice.as_ref().map(Spanned::get_ref), Some(Advice::Affinity));
        let Some((_, _, own)) = section else {
            let task = &self.file.tasks.0[task].0;
            let reason = Reason::NoLength { pool: name.get_ref().clone(), task: task.get_ref().clone() };
            return if needs_it { Err(At(task.span(), reason)) } else { Ok(0) };
        };
        let holds = self.out.engine_users.iter().zip(&self.out.engine_holds);
        let mut length: Nanoseconds = *own;
        for (_, hold) in holds.filter(|(user, _)| user.task as usize == task) {
            if let Some(hold) = hold.filter(|hold| hold.tokens >> pool & 1 != 0) {
                let computing = hold.hold.cpu.0.saturating_mul(hold.times.into());
                length = Nanoseconds(length.0.saturating_add(computing).saturating_add(hold.operations.0));
            }
        }
        Ok(length.0)
    }
}

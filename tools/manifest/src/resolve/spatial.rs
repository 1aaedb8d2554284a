//! Execution engines with SMs: how many, who says whose blocks are on them, and how much later a command begins for that.
//!
//! An engine whose device decides by the keys of jobs (`arbiter = "device"`) has a lock for each of its users, since nobody waits for another. So it becomes
//! as many engines of the image as it has users, after all else is known of it.

use fusee_abi::call::RESET;
use fusee_abi::image::{self, kind};
use fusee_accel_contract as contract;
use fusee_accel_contract::EngineIndex;
use fusee_kernel_core::limits;
use fusee_spatial::{Limits, SMS_MAX};
use toml::Spanned;

use super::{
    Fail::{self, At},
    Of, Resolved, Resolver,
};
use crate::error::Reason;
use crate::layout::PAGE;
use crate::schema::{self, Grants};

impl Resolved {
    /// The engines as the manifest has them: what each is called, and the engines of the image that are parts of it.
    #[must_use]
    pub fn whole_engines(&self) -> Vec<(&str, Vec<usize>)> {
        let mut all: Vec<(&str, Vec<usize>)> = Vec::new();
        for (index, (own, _)) in self.engines.iter().enumerate() {
            let whole = self.arbitrated.get(index).and_then(Option::as_deref);
            match all.iter_mut().find(|(name, _)| whole == Some(*name)) {
                Some((_, parts)) => parts.push(index),
                None => all.push((whole.unwrap_or(own), vec![index])),
            }
        }
        all
    }
}

impl Resolver<'_> {
    /// SMs of a device's execution engine.
    pub(super) fn sms(&self, name: &Spanned<String>, device: &schema::Device) -> Result<u8, Fail> {
        let Some(said) = &device.sms else { return Ok(0) };
        let of = || name.get_ref().clone();
        let excluded = [
            (device.device.is_some(), "`device`"),
            (device.preemptible, "`preemptible`"),
            (device.switch.is_some(), "`switch`"),
        ];
        if let Some((_, with)) = excluded.into_iter().find(|(is_there, _)| *is_there) {
            return Err(At(said.span(), Reason::Excludes { what: "sms", of: of(), with }));
        }
        // The firmware has room for those of one.
        if self.out.devices.iter().any(|other| other.sms > 0) {
            return Err(At(said.span(), Reason::TooMany { what: "device with `sms`", limit: 1 }));
        }
        let number = u8::try_from(*said.get_ref()).ok().filter(|number| (1..=SMS_MAX).contains(&usize::from(*number)));
        let range = Reason::OutOfRange { what: "sms", of: of(), from: 1, to: SMS_MAX as u32 };
        number.ok_or_else(|| At(said.span(), range))
    }

    /// Whether an engine is the execution engine of a device with SMs.
    pub(super) fn has_sms(&self, engine: usize) -> bool {
        let place = self.out.engine_places[engine].filter(|(_, number)| *number == EngineIndex::Execution);
        place.is_some_and(|(device, _)| self.out.devices[device].sms > 0)
    }

    /// How much later a command of a lock's holder may begin because others are on the SMs of the engine: a restore that is under way, and a save. Each
    /// SM has its own.
    pub(super) fn room(&self, engine: usize) -> u64 {
        let uses = |users: &[image::EngineUser]| users.iter().filter(|user| user.engine as usize == engine).count();
        let has_others =
            uses(&self.out.shared_users) > 0 || (self.is_arbitrated(engine) && uses(&self.out.engine_users) > 1);
        if has_others && self.has_sms(engine) { 2 * Limits::K20C.transfer_time(Limits::K20C.bytes()) } else { 0 }
    }

    /// Whether the device of an engine decides by the keys of jobs.
    fn is_arbitrated(&self, engine: usize) -> bool {
        let said = self.file.engines.0[engine].1.arbiter.as_ref();
        said.is_some_and(|said| *said.get_ref() == Grants::Device)
    }

    /// Whether the device of an engine may decide, if it is to; `place`: that of the engine there.
    pub(super) fn may_arbitrate(
        &mut self,
        name: &Spanned<String>,
        engine: &schema::Engine,
        place: Option<(usize, EngineIndex)>,
    ) -> Result<(), Fail> {
        let Some(said) = engine.arbiter.as_ref().filter(|said| *said.get_ref() == Grants::Device) else {
            return Ok(());
        };
        let of = || name.get_ref().clone();
        let device = place.filter(|(_, number)| *number == EngineIndex::Execution).map(|(device, _)| device);
        let Some(device) = device.filter(|device| self.out.devices[*device].sms > 0) else {
            let needs = "the execution engine of a device with `sms`";
            return Err(At(said.span(), Reason::Needs { what: "arbiter", of: of(), needs }));
        };
        let excluded = [(engine.group.is_some(), "`group`"), (engine.pool.is_some(), "`pool`")];
        if let Some((_, with)) = excluded.into_iter().find(|(is_there, _)| *is_there) {
            return Err(At(said.span(), Reason::Excludes { what: "arbiter", of: of(), with }));
        }
        self.out.devices[device].keyed = true;
        Ok(())
    }

    /// Gives each user of an engine whose device decides a lock of its own.
    pub(super) fn split_locks(&mut self) {
        self.out.arbitrated = vec![None; self.out.engines.len()];
        for index in 0..self.out.engines.len() {
            if self.is_arbitrated(index) {
                let result = self.sound(Of::Engine(index)).and_then(|()| self.split(index));
                self.keep(Of::Nothing, result);
            }
        }
    }

    fn split(&mut self, engine: usize) -> Result<(), Fail> {
        let (name, record) = self.out.engines[engine].clone();
        let Some((device, number)) = self.out.engine_places[engine] else { return Ok(()) };
        let users: Vec<usize> = (0..self.out.engine_users.len())
            .filter(|user| self.out.engine_users[*user].engine as usize == engine)
            .collect();
        for (at, user) in users.into_iter().enumerate() {
            let own = if at == 0 { engine } else { self.out.engines.len() };
            if own >= limits::ENGINES {
                let limit = limits::ENGINES;
                let what = "engines, of which one whose device decides counts once for each user,";
                return Err(At(self.file.engines.0[engine].0.span(), Reason::TooMany { what, limit }));
            }
            let owner = &self.out.devices[device];
            let first = owner.doorbells + contract::doorbell_page(number, 0);
            let record_of_user = &mut self.out.engine_users[user];
            let context = ((record_of_user.doorbell - first) / PAGE) as usize;
            let task = record_of_user.task;
            record_of_user.engine = own as u32;
            record_of_user.key = owner.control + contract::control_key(context);
            record_of_user.occupied = owner.status + contract::status_counted(number, context);
            let reset_bits = if record.watchdog == 0 { 0 } else { RESET << (contract::ENGINES + context) };
            let made =
                (format!("{name}:{}", self.out.tasks[task as usize].name), image::Engine { reset_bits, ..record });
            let is_its = |handle: &&mut image::Handle| {
                handle.kind == kind::ENGINE && handle.task == task && handle.object as usize == engine
            };
            self.out.handles.iter_mut().filter(is_its).for_each(|handle| handle.object = own as u32);
            if at == 0 {
                self.out.engines[own] = made;
                self.out.arbitrated[own] = Some(name.clone());
                continue;
            }
            self.out.engines.push(made);
            self.out.arbitrated.push(Some(name.clone()));
            self.out.engine_places.push(self.out.engine_places[engine]);
            self.out.engine_ends.push(self.out.engine_ends[engine]);
            self.out.engine_take_backs.push(self.out.engine_take_backs[engine]);
            self.out.engine_shadows.push(self.out.engine_shadows[engine]);
        }
        Ok(())
    }
}

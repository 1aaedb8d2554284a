//! Execution engines with SMs: their number, the chooser of the blocks on them, and the resulting delay of a command.
//!
//! An engine whose device decides by the keys of jobs (`arbiter = "device"`) has a lock for each of its users, since no user waits
//! for another. So it becomes as many engines of the image as it has users, after all else is known of it.

use fusee_abi::call::RESET;
use fusee_abi::image::{self, class, kind};
use fusee_accel_contract as contract;
use fusee_accel_contract::EngineIndex;
use fusee_kernel_core::limits;
use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_spatial::{Key, Limits, Mechanism, SMS_MAX};
use toml::Spanned;

use super::{
    Fail::{self, At},
    Of, Resolved, Resolver,
};
use crate::admission::{self, Boost};
use crate::error::Reason;
use crate::layout::PAGE;
use crate::schema::{self, Grants, Preemption};

const _: () = assert!(
    image::KEY_LAST == contract::KEY_LAST && image::KEY_BEST_EFFORT == contract::KEY_BEST_EFFORT,
    "the kernel stores what devices look for"
);
const _: () = assert!(Key::BEST_EFFORT.0 == contract::KEY_BEST_EFFORT && Key::EXHAUSTED.0 == contract::KEY_LAST);

impl Resolved {
    /// The engines as the manifest has them: the name of each, and the engines of the image that are parts of it.
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

    /// Whether two engines of the image are parts of one whose device decides.
    pub(crate) fn are_parts_of_one(&self, one: usize, other: usize) -> bool {
        self.arbitrated[one].is_some() && self.arbitrated[one] == self.arbitrated[other]
    }

    /// Whether two engines of the image have one lock: they are one engine, of one group, or parts of one whose device decides.
    pub(crate) fn are_one_lock(&self, one: usize, other: usize) -> bool {
        let group = |engine: usize| self.engines[engine].1.group_plus_one;
        one == other || (group(one) != 0 && group(one) == group(other)) || self.are_parts_of_one(one, other)
    }

    /// The shortest period of jobs of `task` on an engine that its device arbitrates, and the time after its release for which one is
    /// taken to be pending, which the analysis looks at. `None`: it has no jobs.
    pub(crate) fn period_and_window(&self, task: usize) -> Option<(u64, u64)> {
        let own = self.tasks[task].reservation.map(|own| &self.reservations[own])?;
        (own.class == class::REAL_TIME && own.period > 0).then(|| (own.period, own.period.max(own.deadline)))
    }
}

/// The time to save all that is on an SM, or to restore it, in nanoseconds.
pub(crate) const SAVE: u64 = Limits::K20C.transfer_time(Limits::K20C.bytes());

/// The mechanism by which SMs of a device change hands.
pub(super) fn mechanism(name: &Spanned<String>, device: &schema::Device) -> Result<Mechanism, Fail> {
    let of = || name.get_ref().clone();
    let said = device.preemption.as_ref();
    let place = said.map(Spanned::span).map(|place| (place, "preemption"));
    let place = place.or(device.drain_limit.as_ref().map(|limit| (limit.span(), "drain_limit")));
    if let (Some((place, what)), None) = (place, &device.sms) {
        return Err(At(place, Reason::Needs { what, of: of(), needs: "`sms`" }));
    }
    let kind = said.map_or(Preemption::Switch, |said| *said.get_ref());
    match (kind, &device.drain_limit) {
        (Preemption::DrainThenSwitch, Some(limit)) if limit.get_ref().0 == 0 => {
            Err(At(limit.span(), Reason::Zero { what: "drain_limit", of: of() }))
        }
        (Preemption::DrainThenSwitch, Some(limit)) => match limit.get_ref().0 {
            limit @ ..=DRAIN_MAX => Ok(Mechanism::DrainThenSwitch { limit }),
            _ => {
                let (what, to) = ("drain_limit, in microseconds,", (DRAIN_MAX / 1_000) as u32);
                Err(At(limit.span(), Reason::OutOfRange { what, of: of(), from: 0, to }))
            }
        },
        (Preemption::DrainThenSwitch, None) => {
            let needs = "`drain_limit`";
            Err(At(said.map_or(name.span(), Spanned::span), Reason::Needs { what: "preemption", of: of(), needs }))
        }
        (_, Some(limit)) => {
            let needs = "`preemption = \"drain-then-switch\"`";
            Err(At(limit.span(), Reason::Needs { what: "drain_limit", of: of(), needs }))
        }
        (Preemption::Switch, None) => Ok(Mechanism::Switch),
        (Preemption::Drain, None) => Ok(Mechanism::Drain),
    }
}

/// The longest time that blocks may run on before they are saved, in nanoseconds.
const DRAIN_MAX: u64 = 1_000_000_000;

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

    /// The delay of a command of `task`, which has a lock, because others are on the SMs of the engine. With saves that is a
    /// restore that is under way, and a save; with drains the longest block of another. Each SM has its own.
    pub(super) fn room(&self, engine: usize, task: usize) -> u64 {
        let uses = |users: &[image::EngineUser]| users.iter().filter(|user| user.engine as usize == engine).count();
        let has_others =
            uses(&self.out.shared_users) > 0 || (self.is_arbitrated(engine) && uses(&self.out.engine_users) > 1);
        let place = self.out.engine_places[engine].filter(|_| has_others && self.has_sms(engine));
        let Some((device, _)) = place else { return 0 };
        let mechanism = self.out.devices[device].mechanism;
        // If SMs are not drained to the end, the length of blocks is not declared.
        let block = if mechanism == Mechanism::Drain { self.longest_block(engine, task) } else { u64::MAX };
        mechanism.delay(SAVE, block)
    }

    /// The declared time of the longest block of others than `task` on `engine`.
    fn longest_block(&self, engine: usize, task: usize) -> u64 {
        let others = (0..self.file.tasks.0.len()).filter(|other| *other != task);
        let blocks = others.flat_map(|other| self.uses_of(other, engine)).filter_map(|used| used.block.as_ref());
        blocks.map(|block| block.get_ref().0).max().unwrap_or(0)
    }

    /// The declared uses of `engine` by `task`.
    fn uses_of(&self, task: usize, engine: usize) -> impl Iterator<Item = &schema::Use> {
        let uses = self.file.tasks.0[task].1.uses.0.iter();
        let is_it =
            move |handle: &Spanned<String>| self.object_of(task, handle.get_ref()) == Some((kind::ENGINE, engine));
        uses.filter(move |(handle, _)| is_it(handle)).map(|(_, used)| used)
    }

    /// A use of an engine whose SMs are drained declares the length of a block; no other use does.
    pub(super) fn says_block(&self, engine: usize, used: &schema::Use, handle: &Spanned<String>) -> Result<(), Fail> {
        let of = || handle.get_ref().clone();
        let place = self.out.engine_places[engine].filter(|_| self.has_sms(engine));
        let mechanism = place.map(|(device, _)| self.out.devices[device].mechanism);
        match (&used.block, mechanism == Some(Mechanism::Drain)) {
            (None, true) => {
                Err(At(handle.span(), Reason::Needs { what: "use", of: of(), needs: "`block`, since SMs are drained" }))
            }
            (Some(block), true) if block.get_ref().0 == 0 => {
                Err(At(block.span(), Reason::Zero { what: "block", of: of() }))
            }
            (Some(block), false) => {
                let needs = "an engine of a device with `preemption = \"drain\"`";
                Err(At(block.span(), Reason::Needs { what: "block", of: of(), needs }))
            }
            _ => Ok(()),
        }
    }

    /// Whether the device of an engine decides by the keys of jobs.
    fn is_arbitrated(&self, engine: usize) -> bool {
        let said = self.file.engines.0[engine].1.arbiter.as_ref();
        said.is_some_and(|said| *said.get_ref() == Grants::Device)
    }

    /// Whether the device of an engine decides, and compares the keys of jobs of these clusters: they have one CPU each, and one policy
    /// with constant points.
    pub(super) fn decides_for(&self, engine: usize, clusters: [usize; 2]) -> bool {
        let [one, other] = clusters.map(|cluster| &self.out.clusters[cluster].1);
        let policy = PolicyName::from_number(one.policy).unwrap_or_default();
        let has_constants = matches!(policy, PolicyName::Rm | PolicyName::Dm | PolicyName::Fp);
        let are_alike = one.policy == other.policy && one.cpus.count_ones() == 1 && other.cpus.count_ones() == 1;
        self.is_arbitrated(engine) && has_constants && are_alike
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

    /// Adds the time that users of an engine that its device arbitrates are suspended for restores, since work that was saved for others
    /// is restored after that: a restore for each command of another that comes while the job may be pending. So long it keeps its
    /// key, too.
    fn add_restores(&mut self, engine: usize, users: &[usize]) {
        let mut added = Vec::new();
        let task_of = |user: usize| self.out.engine_users[user].task as usize;
        for user in users {
            let Some((_, window)) = self.out.period_and_window(task_of(*user)) else { continue };
            let commands = users.iter().filter(|other| *other != user).filter_map(|other| {
                let (period, theirs) = self.out.period_and_window(task_of(*other))?;
                let hold = self.out.engine_holds[*other]?;
                let jobs = window.saturating_add(theirs).div_ceil(period);
                let said = self.uses_of(task_of(*other), engine).filter_map(|used| used.commands.as_ref());
                let commands = said.map(|commands| *commands.get_ref()).max().unwrap_or(1);
                Some(jobs.saturating_mul(hold.times.into()).saturating_mul(commands.into()))
            });
            let restores = commands.fold(0, u64::saturating_add);
            added.push((*user, restores.saturating_mul(SAVE)));
        }
        for (user, time) in added {
            let task = self.out.engine_users[user].task;
            let Some(hold) = &mut self.out.engine_holds[user] else { continue };
            hold.operations = Nanoseconds(hold.operations.0.saturating_add(time));
            let own = self.out.reservations.iter_mut().filter(|one| one.task == task);
            own.for_each(|one| one.suspension = one.suspension.saturating_add(time));
        }
    }

    /// Whether the tasks of these users of engines are of one cluster.
    fn are_of_one_cluster(&self, users: &[usize]) -> bool {
        let cluster = |user: &usize| self.out.tasks[self.out.engine_users[*user].task as usize].cluster;
        users.iter().all(|user| cluster(user) == cluster(&users[0]))
    }

    /// Lets the driver of a device that decides for several CPUs come before the tasks of each, for as long as it may have to work,
    /// if that makes bounds known: see `admission::decided`.
    pub(super) fn boost_driver(&mut self) {
        let Some(Boost { driver, device, most, period }) = admission::needed_boost(&self.out) else { return };
        if self.out.endpoints.len() < limits::ENDPOINTS {
            let record = image::Endpoint { server: driver as u32, flags: 0, service_max: most, service_period: period };
            let name: String = format!("ends of {device}").chars().take(24).collect();
            self.out.endpoints.push((name, record));
        }
    }

    /// Gives each user of an engine that its device arbitrates a lock of its own.
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
        // On several CPUs restores are counted with the work of others.
        if self.out.devices[device].mechanism != Mechanism::Drain && self.are_of_one_cluster(&users) {
            self.add_restores(engine, &users);
        }
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

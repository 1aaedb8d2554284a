//! Times after which engines and tokens are taken away, and for which their users may be suspended.

use fusee_abi::call::RESET;
use fusee_abi::image::{self, class, kind};
use fusee_sched::key::FAIR_LATENESS_OFFSET;
use fusee_sched::time::Nanoseconds;
use toml::Spanned;

use super::{
    Fail::{self, At},
    Of, Resolver, span,
};
use crate::error::Reason;
use crate::quantity::Time;

/// The least time that a driver may take to reset an engine, if the manifest states none; in nanoseconds.
const RESET_BOUND: u64 = 10_000_000;
/// The least time after which an engine is taken from its holder, if its users do not all declare how long they hold it; in
/// nanoseconds. A task that waits for the engine waits for a long time then, but not for ever.
const UNSAID_WATCHDOG: u64 = 1_000_000_000;

impl Resolver<'_> {
    /// Sets the times after which engines are taken from their holders.
    pub(super) fn watchdogs(&mut self) {
        for index in 0..self.out.engines.len() {
            let result = self.sound(Of::Engine(index)).and_then(|()| self.watchdog(index));
            self.keep(Of::Nothing, result);
        }
    }

    fn watchdog(&mut self, index: usize) -> Result<(), Fail> {
        let (name, engine) = &self.file.engines.0[index];
        let of = || name.get_ref().clone();
        let hangs = engine.hangs.as_ref().filter(|hangs| *hangs.get_ref()).map(Spanned::span);
        let unwatched = |place| Err(At(place, Reason::Needs { what: "hangs", of: of(), needs: "a watchdog" }));
        let Some((owner, number)) = self.out.engine_places[index] else {
            let key = engine.watchdog.as_ref().map(|time| (time, "watchdog"));
            match key.or(engine.reset_bound.as_ref().map(|time| (time, "reset_bound"))) {
                Some((time, what)) => {
                    return Err(At(time.span(), Reason::Needs { what, of: of(), needs: "a device" }));
                }
                None => match hangs {
                    Some(place) => return unwatched(place),
                    None => return Ok(()),
                },
            }
        };
        let said = engine.watchdog.as_ref().map(|time| time.get_ref().0);
        let watchdog = said.unwrap_or_else(|| self.engine_watchdog(index));
        let reset_bound = engine.reset_bound.as_ref().map_or(watchdog.max(RESET_BOUND), |time| time.get_ref().0);
        let place = engine.watchdog.as_ref().map_or(name.span(), Spanned::span);
        for (what, time) in [("watchdog", watchdog), ("reset_bound", reset_bound)] {
            if time == 0 {
                return Err(At(place, Reason::Zero { what, of: of() }));
            }
            if time > FAIR_LATENESS_OFFSET.0 {
                return Err(At(place, Reason::TooLong { what, of: of(), time: Time(time) }));
            }
        }
        if let Some((user, hold)) = self.holds_of(index).find(|(_, hold)| hold.is_some_and(|hold| hold > watchdog)) {
            let (user, hold) = (self.out.tasks[user].name.clone(), Time(hold.unwrap_or(0)));
            let watchdog = Time(watchdog);
            return Err(At(place, Reason::WatchdogTooShort { engine: of(), watchdog, user, hold }));
        }
        let line = self.out.engines[index].1.interrupt_plus_one - 1;
        let driver = self.out.devices[owner].contexts[0];
        let is_heard = |handle: &image::Handle| {
            handle.kind == kind::INTERRUPT && handle.object == line && handle.task as usize == driver
        };
        if !self.out.handles.iter().any(is_heard) {
            self.sound(Of::Handles(driver))?;
            let needs = "a driver that may acknowledge its interrupt";
            return Err(At(place, Reason::Needs { what: "watchdog", of: of(), needs }));
        }
        let reset_bits = RESET << number.number();
        // The event bits of each user of an engine whose device decides, too: see `split`.
        if self.out.interrupts[line as usize].1.bits & (u64::MAX << RESET.trailing_zeros()) != 0 {
            let with = "event bits of its interrupt from 32 on";
            return Err(At(place, Reason::Excludes { what: "watchdog", of: of(), with }));
        }
        if hangs.is_some() {
            self.out.engine_ends[index].1 = Nanoseconds(watchdog.saturating_add(reset_bound));
        }
        let record = &mut self.out.engines[index].1;
        (record.watchdog, record.reset_bound, record.reset_bits) = (watchdog, reset_bound, reset_bits);
        Ok(())
    }

    /// Sets the times after which tokens are taken from their holders.
    pub(super) fn token_watchdogs(&mut self) {
        for index in 0..self.out.pools.len() {
            let watchdog = self.sound(Of::Pool(index)).and_then(|()| self.token_watchdog(index));
            self.out.pools[index].1.watchdog = self.keep(Of::Nothing, watchdog).unwrap_or(0);
        }
    }

    fn token_watchdog(&self, index: usize) -> Result<u64, Fail> {
        let (name, pool) = &self.file.pools.0[index];
        let of = || name.get_ref().clone();
        let explicit = span("watchdog", &pool.watchdog, name)?.0;
        if let Some(key) = &pool.watchdog {
            if explicit == 0 {
                return Err(At(key.span(), Reason::Zero { what: "watchdog", of: of() }));
            }
            let users = self.out.pool_users.iter().filter(|user| user.pool as usize == index);
            if let Some(user) = users.clone().find(|user| user.length > explicit) {
                let (user, hold) = (self.out.tasks[user.task as usize].name.clone(), Time(user.length));
                let watchdog = Time(explicit);
                return Err(At(key.span(), Reason::WatchdogTooShort { engine: of(), watchdog, user, hold }));
            }
        }
        let users = self.out.pool_users.iter().filter(|user| user.pool as usize == index);
        let lengths = users.map(|user| (user.task as usize, Some(user.length).filter(|length| *length > 0)));
        let usual = self.usual_watchdog(lengths);
        Ok(pool.watchdog.as_ref().map(|_| explicit).or(usual).unwrap_or(0))
    }

    /// Sets the time that jobs may be suspended and keep their keys: their declared suspensions, and their operations.
    pub(super) fn suspensions(&mut self) {
        for reservation in &mut self.out.reservations {
            let holds = self.out.engine_users.iter().zip(&self.out.engine_holds);
            let own = holds.filter(|(user, _)| user.task == reservation.task).filter_map(|(_, hold)| *hold);
            let operations = own.map(|one| one.operations.0);
            reservation.suspension = operations.fold(reservation.suspension, u64::saturating_add);
        }
    }

    /// For each user of `engine` its task, and its declared hold.
    pub(super) fn holds_of(&self, engine: usize) -> impl Iterator<Item = (usize, Option<u64>)> {
        let users = self.out.engine_users.iter().zip(&self.out.engine_holds);
        let users = users.filter(move |(user, _)| user.engine as usize == engine);
        users.map(|(user, hold)| (user.task as usize, hold.map(|one| one.hold.cpu.0 + one.hold.operation.0)))
    }

    /// A time after which no user, by its task and its declared hold, can still hold an engine or a token if it meets its deadlines
    /// and keeps to its declaration: its longest period or deadline, and three of its holds, since the last may go on after the
    /// job. `None`: some user declares nothing.
    pub(super) fn usual_watchdog(&self, users: impl Iterator<Item = (usize, Option<u64>)>) -> Option<u64> {
        let mut longest = None;
        for (task, hold) in users {
            let reservation = &self.out.reservations[self.out.tasks[task].reservation?];
            let is_timed = reservation.class != class::BACKGROUND;
            let span = is_timed.then_some(reservation.period.max(reservation.deadline))?;
            longest = longest.max(Some(span.saturating_add(hold?.saturating_mul(3)).min(FAIR_LATENESS_OFFSET.0)));
        }
        longest
    }

    /// A time after which no user can still hold `engine` that meets its deadlines and keeps to its declaration: its longest period
    /// or deadline, and three of its holds, since the last may go on after the job. If there is no such time, because a user
    /// declares nothing or has no deadline, it is a second.
    pub(super) fn engine_watchdog(&self, engine: usize) -> u64 {
        let time_of = |(task, hold): (usize, Option<u64>)| {
            let reservation = self.out.tasks[task].reservation.map(|own| &self.out.reservations[own]);
            let timed = reservation.filter(|reservation| reservation.class != class::BACKGROUND);
            let span = timed.map(|reservation| reservation.period.max(reservation.deadline));
            // A user keeps to its declared holds; that it meets deadlines counts only together with that.
            let holds = hold.unwrap_or(0).saturating_mul(3);
            let says = span.filter(|_| hold.is_some());
            (holds.saturating_add(says.unwrap_or(0)), says.is_some())
        };
        let times: Vec<(u64, bool)> = self.holds_of(engine).map(time_of).collect();
        let longest = times.iter().map(|(least, _)| *least).max().unwrap_or(0);
        let all_say = !times.is_empty() && times.iter().all(|(_, says)| *says);
        if all_say { longest } else { longest.max(UNSAID_WATCHDOG) }
    }
}

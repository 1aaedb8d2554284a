//! Gates: engines that clients use without their locks, and the servers that decide on these.

use fusee_abi::call::rights;
use fusee_abi::image::{self, kind};
use fusee_accel_contract as contract;
use fusee_kernel_core::limits;
use fusee_sched::time::Nanoseconds;
use fusee_spatial::Mechanism;
use toml::Spanned;

use super::users::KICK;
use super::{
    Device,
    Fail::{self, At},
    Of, Resolver, index_of, span,
};
use crate::error::Reason;
use crate::layout::{self, PAGE};

const _: () = assert!(image::GATE_SHUT == contract::GATE_SHUT, "the kernel stores what devices look for");

impl Resolver<'_> {
    /// Sets the times that jobs wait for engines that clients without a lock have meanwhile.
    pub(super) fn gates(&mut self) {
        self.out.engine_take_backs = vec![Nanoseconds::ZERO; self.out.engines.len()];
        self.out.engine_shadows = vec![0; self.out.engines.len()];
        // The kernel numbers those of one engine one after the other.
        self.out.shared_users.sort_by_key(|user| user.engine);
        for index in 0..self.out.engines.len() {
            let result = self.sound(Of::Engine(index)).and_then(|()| self.gate(index));
            let result = result.and_then(|()| self.sharer(index));
            self.keep(Of::Nothing, result);
        }
    }

    /// Sets the server that decides on the doorbells of an engine's clients without its lock.
    fn sharer(&mut self, index: usize) -> Result<(), Fail> {
        let (name, engine) = &self.file.engines.0[index];
        let of = || name.get_ref().clone();
        let Some(sharer) = &engine.sharer else { return Ok(()) };
        let endpoint = index_of(&self.file.endpoints, "endpoint", sharer)?;
        self.sound(Of::Endpoint(endpoint))?;
        let server = self.out.endpoints[endpoint].1.server as usize;
        let is_client = |user: &&image::EngineUser| user.engine as usize == index;
        let members: Vec<usize> =
            self.out.shared_users.iter().filter(is_client).map(|user| user.task as usize).collect();
        let Some((device, number)) = self.out.engine_places[index].filter(|_| !members.is_empty()) else {
            let needs = "a task with the right `share`";
            return Err(At(sharer.span(), Reason::Needs { what: "sharer", of: of(), needs }));
        };
        if members.contains(&server) {
            let (of, with) =
                (self.out.tasks[server].name.clone(), "the right `share` to the engine that it decides on");
            return Err(At(sharer.span(), Reason::Excludes { what: "serving a sharer's endpoint", of, with }));
        }
        if let Some(hard) =
            members.iter().find(|task| self.file.tasks.0[**task].1.hard.as_ref().is_some_and(|hard| *hard.get_ref()))
        {
            let (of, with) = (self.out.tasks[*hard].name.clone(), "`hard`: nothing bounds how long it waits");
            return Err(At(
                sharer.span(),
                Reason::Excludes { what: "the right `share` to an engine with a sharer", of, with },
            ));
        }
        let of_all = |limit: usize, what: &'static str, count: usize| match count > limit {
            true => Err(At(sharer.span(), Reason::Crowded { kind: "engine", name: of(), what, limit })),
            false => Ok(()),
        };
        of_all(limits::MEMBERS_PER_ENGINE, "clients with a sharer", members.len())?;
        let all = self.out.shared_users.len();
        of_all(limits::MEMBERS, "clients without locks of all engines, where one has a sharer", all)?;
        let first = self.out.shared_users.iter().take_while(|user| user.engine as usize != index).count();
        let record = &mut self.out.engines[index].1;
        record.sharer_plus_one = endpoint as u32 + 1;
        (record.first_member, record.members) = (first as u16, members.len() as u16);
        self.out.engine_shadows[index] = self.allocate(name.get_ref(), members.len() as u64 * PAGE, sharer.span())?;

        let place = sharer.span();
        let named = |what: &str| Spanned::new(place.clone(), format!("{what}.{}", name.get_ref()));
        let entry = named("doorbells");
        self.unused(server, entry.get_ref(), place.clone())?;
        let slot = self.next_slot(server);
        self.give(server, slot, &entry, kind::DOORBELLS, index, rights::MAP)?;
        let first = self.out.devices[device].doorbells + contract::doorbell_page(number, 0);
        let doorbells = self.out.shared_users.iter().filter(is_client).map(|user| user.doorbell);
        let contexts = doorbells.enumerate().map(|(at, doorbell)| ((doorbell - first) / PAGE) << (4 * at)).sum();
        if let Some(entry) = self.out.tasks[server].environment.last_mut() {
            entry.address = layout::members(index);
            entry.bytes = 2 * members.len() as u64 * PAGE;
            entry.physical = contexts;
            entry.flags = number.number() as u32;
        }
        let plain = Spanned::new(place.clone(), KICK.to_owned());
        let given = |what: &str| self.out.devices[device].given.iter().find(|(given, _)| *given == what).copied();
        let wanted =
            [(given("status"), named("status"), rights::READ), (given(KICK), plain, rights::READ | rights::WRITE)];
        for (region, entry, rights) in wanted {
            let has = self.out.tasks[server].environment.iter().any(|one| one.name == *entry.get_ref());
            // One page lets all devices look.
            let Some((_, region)) = region.filter(|_| !(has && entry.get_ref() == KICK)) else { continue };
            self.unused(server, entry.get_ref(), place.clone())?;
            let slot = self.next_slot(server);
            self.share(server, slot, &entry, region, rights, &place)?;
        }
        self.signal_to_kick(server, &place)
    }

    fn gate(&mut self, index: usize) -> Result<(), Fail> {
        let (name, engine) = &self.file.engines.0[index];
        let of = || name.get_ref().clone();
        let switch = self.out.engine_places[index].map_or(0, |(device, _)| u64::from(self.out.devices[device].switch));
        let longest = span("shared_longest", &engine.shared_longest, name)?.0;
        let clients: Vec<u32> =
            self.out.shared_users.iter().filter(|one| one.engine as usize == index).map(|one| one.task).collect();
        if self.has_sms(index) {
            let drains = self.out.engine_places[index]
                .filter(|(device, _)| self.out.devices[*device].mechanism == Mechanism::Drain);
            if let (Some((device, _)), false) = (drains, clients.is_empty()) {
                // The length of their blocks is not declared.
                let place = self.file.devices.0[device].1.preemption.as_ref().map_or(name.span(), Spanned::span);
                let (of, with) = (self.out.devices[device].name.clone(), "clients without a lock");
                return Err(At(place, Reason::Excludes { what: "preemption = \"drain\"", of, with }));
            }
            // A client without a lock makes room at once: nothing is shut out.
            let excluded = [
                ("shared_longest", engine.shared_longest.as_ref().map(Spanned::span)),
                ("sharer", engine.sharer.as_ref().map(Spanned::span)),
            ];
            let found = excluded.into_iter().find_map(|(what, place)| Some((what, place?)));
            return found.map_or(Ok(()), |(what, place)| {
                Err(At(place, Reason::Excludes { what, of: of(), with: "`sms` of its device" }))
            });
        }
        let Some(said) = &engine.shared_longest else {
            return match clients.is_empty() {
                true => Ok(()),
                false => {
                    Err(At(name.span(), Reason::Needs { what: "right `share`", of: of(), needs: "`shared_longest`" }))
                }
            };
        };
        if longest == 0 {
            return Err(At(said.span(), Reason::Zero { what: "shared_longest", of: of() }));
        }
        if clients.is_empty() {
            // Or the task is one that has other mistakes.
            (0..self.out.tasks.len()).try_for_each(|task| self.sound(Of::Handles(task)))?;
            let needs = "a task with the right `share`";
            return Err(At(said.span(), Reason::Needs { what: "shared_longest", of: of(), needs }));
        }
        let Some((device, number)) = self.out.engine_places[index] else { return Ok(()) };
        // Commands that hang are reset; trusted clients have none that hangs.
        let trusted = clients.iter().all(|task| self.out.keeps_word[*task as usize]);
        let reset = if trusted { 0 } else { self.out.engines[index].1.reset_bound };
        let (completion, _) = self.out.engine_ends[index];
        let longest = longest.saturating_add(switch);
        self.out.engine_take_backs[index] = Nanoseconds(longest.saturating_add(completion.0).saturating_add(reset));
        let Device { control, status, .. } = self.out.devices[device];
        let record = &mut self.out.engines[index].1;
        record.shared_longest = longest;
        record.gate = control + contract::control_gate(number);
        record.shared_progress = status + contract::status_ended(number);
        Ok(())
    }
}

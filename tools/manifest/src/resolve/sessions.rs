//! Sessions: the server that opens contexts of a device for its clients without locks, and its parameters.

use fusee_abi::call::rights;
use fusee_abi::image::{self, kind};
use fusee_accel_contract as contract;
use fusee_accel_contract::space;
use toml::Spanned;

use super::handles::{PHYSICAL, READ, WRITE};
use super::users::KICK;
use super::{
    Fail::{self, At},
    Of, Resolver, index_of,
};
use crate::error::Reason;
use crate::schema;

impl Resolver<'_> {
    /// Says to `task`, the driver of `device` or the server of its sessions, which contexts `client` has, and how it uses them.
    pub(super) fn tell_of_client(&mut self, task: usize, device: usize, client: usize) -> Result<(), Fail> {
        let entry = format!("context.{}", self.out.tasks[client].name);
        self.unused(task, &entry, self.file.devices.0[device].0.span())?;
        let shares = if self.shares(device, client) { space::SHARED_CLIENT } else { 0 };
        let opens = if self.opens(device, client) { space::SESSION_CLIENT } else { 0 };
        let contexts: Vec<usize> = self.contexts_of(device, client).collect();
        self.parameter(task, &entry, space::client(&contexts, shares | opens));
        Ok(())
    }

    /// Whether `client` opens its contexts of `device` by itself: it has no lock, and may call the server of sessions.
    fn opens(&self, device: usize, client: usize) -> bool {
        let Some(sessions) = &self.file.devices.0[device].1.sessions else { return false };
        let endpoint = index_of(&self.file.endpoints, "endpoint", &sessions.get_ref().endpoint);
        self.shares(device, client) && endpoint.is_ok_and(|endpoint| self.may_call(client, endpoint))
    }

    /// Whether `task` serves the sessions of a device.
    pub(super) fn serves_sessions(&self, task: usize) -> bool {
        let serves = |named: &Spanned<String>| {
            let endpoint = index_of(&self.file.endpoints, "endpoint", named);
            endpoint.is_ok_and(|endpoint| self.out.endpoints[endpoint].1.server as usize == task)
        };
        let sessions = self.file.devices.0.iter().filter_map(|(_, device)| device.sessions.as_ref());
        { sessions }.any(|sessions| serves(&sessions.get_ref().endpoint))
    }

    fn may_call(&self, task: usize, endpoint: usize) -> bool {
        let is_it = |one: &image::Handle| {
            (one.task as usize, one.kind, one.object as usize) == (task, kind::ENDPOINT, endpoint)
                && one.rights & rights::CALL != 0
        };
        self.out.handles.iter().any(is_it)
    }

    /// The server of the sharer's endpoint of each engine of `device`, by the engine's number there.
    fn sharers(&self, device: usize) -> Vec<(usize, usize)> {
        let engines = self.file.engines.0.iter().zip(&self.out.engine_places);
        let engines = engines.filter_map(|((_, engine), place)| Some((engine.sharer.as_ref()?, (*place)?)));
        let engines = engines.filter(|(_, (owner, _))| *owner == device);
        let server = |(sharer, (_, number)): (&Spanned<String>, (usize, contract::EngineIndex))| {
            let endpoint = index_of(&self.file.endpoints, "endpoint", sharer).ok()?;
            Some((number.number(), self.out.endpoints[endpoint].1.server as usize))
        };
        engines.filter_map(server).collect()
    }

    /// Adds the parameters of the server of the sessions of `device`, if there is one.
    pub(super) fn sessions(&mut self, device: usize) -> Result<(), Fail> {
        let (name, file) = &self.file.devices.0[device];
        let Some(sessions) = &file.sessions else { return Ok(()) };
        self.sound(Of::Device(device))?;
        let place = sessions.span();
        let of = || name.get_ref().clone();
        let schema::Sessions { endpoint: named, contexts, each } = sessions.get_ref();
        if self.out.devices[device].processor.is_some() {
            let needs = "engines with gates, which a device of the board has not";
            return Err(At(place, Reason::Needs { what: "sessions", of: of(), needs }));
        }
        let endpoint = index_of(&self.file.endpoints, "endpoint", named)?;
        self.sound(Of::Endpoint(endpoint))?;
        let mut limits = [("contexts", self.out.devices[device].size.number() as u32 - 1), ("each", 0)];
        for (at, key) in [contexts, each].into_iter().enumerate() {
            let (what, to) = limits[at];
            let to = if at == 0 { to } else { limits[0].1 };
            let number = key.as_ref().map_or(to, |key| *key.get_ref());
            if let Some(key) = key.as_ref().filter(|_| !(1..=to).contains(&number)) {
                return Err(At(key.span(), Reason::OutOfRange { what, of: of(), from: 1, to }));
            }
            limits[at].1 = number;
        }
        let (driver, server) = (self.out.devices[device].driver, self.out.endpoints[endpoint].1.server as usize);
        if self.out.devices[device].contexts.contains(&server) {
            let is_driver = server == driver;
            let with = if is_driver {
                "driving it: bottom halves would wait for requests"
            } else {
                "a right to an engine of the same device"
            };
            let of = self.out.tasks[server].name.clone();
            return Err(At(named.span(), Reason::Excludes { what: "serving `sessions` of a device", of, with }));
        }
        let sharers = self.sharers(device);
        let clients = self.clients(device);
        let openers: Vec<usize> = clients.iter().copied().filter(|client| self.opens(device, *client)).collect();
        if openers.is_empty() && !sharers.iter().any(|(_, sharer)| self.may_call(*sharer, endpoint)) {
            // Or the task is one that has other mistakes.
            (0..self.out.tasks.len()).try_for_each(|task| self.sound(Of::Handles(task)))?;
            let needs = "a task that may call this endpoint, with the right `share` or as a sharer";
            return Err(At(named.span(), Reason::Needs { what: "sessions", of: of(), needs }));
        }

        let given = |what: &str| self.out.devices[device].given.iter().find(|(given, _)| *given == what).copied();
        let of_driver = |entry: &str| self.region_of(driver, entry).map(|region| (entry.to_owned(), region));
        let regions = [("control", READ | WRITE), ("status", READ), (KICK, READ | WRITE), ("local", PHYSICAL)];
        let regions = regions.into_iter().filter_map(|(what, set)| Some((what.to_owned(), given(what)?.1, set)));
        let mut wanted: Vec<(String, usize, u32)> = regions.collect();
        wanted.extend(of_driver("tables").map(|(entry, region)| (entry, region, READ | WRITE | PHYSICAL)));
        for client in &openers {
            let buffer = of_driver(&format!("buffer.{}", self.out.tasks[*client].name));
            wanted.extend(buffer.map(|(entry, region)| (entry, region, PHYSICAL)));
        }
        for (entry, region, set) in wanted {
            self.unused(server, &entry, place.clone())?;
            let slot = self.next_slot(server);
            self.share(server, slot, &Spanned::new(place.clone(), entry), region, set, &place)?;
        }
        self.signal_to_kick(server, &place)?;
        self.tell_rings(server, device, place.clone())?;
        for client in clients {
            self.tell_of_client(server, device, client)?;
        }
        let badges = openers.iter().map(|client| (format!("badge.{}", self.out.tasks[*client].name), *client));
        let sharers = sharers.into_iter().map(|(number, sharer)| (format!("sharer.{number}"), sharer));
        let badges = badges.chain(sharers).map(|(entry, task)| (entry, task as u64 + 1));
        let limits = limits.map(|(what, number)| (what.to_owned(), number.into()));
        for (entry, value) in badges.chain(limits).collect::<Vec<_>>() {
            self.unused(server, &entry, place.clone())?;
            self.parameter(server, &entry, value);
        }
        Ok(())
    }

    /// The region that `task` calls so.
    fn region_of(&self, task: usize, name: &str) -> Option<usize> {
        let entries = self.out.tasks[task].environment.iter();
        let entry = entries.clone().find(|entry| entry.kind == kind::REGION && entry.name == name)?;
        if entry.handle == 0 {
            let is_it =
                |(of, region): &&(usize, usize)| *of == task && self.out.regions[*region].1.physical == entry.physical;
            return self.told.iter().find(is_it).map(|(_, region)| *region);
        }
        self.out.handle(task, entry.handle).map(|one| one.object as usize)
    }
}

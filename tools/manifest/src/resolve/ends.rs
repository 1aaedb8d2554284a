//! Objects with one end only: an endpoint without a server that receives, a notification for which no task may wait, a driver
//! without the handles that it needs to serve its clients.

use fusee_abi::call::rights;
use fusee_abi::image::{self, kind};
use fusee_accel_contract::space;
use fusee_graph::names;

use super::mistakes::mentions;
use super::users::KICK;
use super::{
    Device, Entry,
    Fail::{self, At},
    Of, Resolver,
};
use crate::error::Reason;
use crate::quantity::Bytes;

/// The driver of this repository, `drivers/gpu`.
const DRIVER: &str = "gpu-driver/gpu-driver";
/// The driver of this repository for a processor of the board, `drivers/r5f`.
const PROCESSOR_DRIVER: &str = "r5f-driver/r5f-driver";

impl Resolver<'_> {
    pub(super) fn ends(&mut self) {
        for index in 0..self.file.endpoints.0.len() {
            let result = self.is_received(index);
            self.keep(Of::Nothing, result);
        }
        for index in 0..self.file.notifications.0.len() {
            let result = self.is_awaited(index);
            self.keep(Of::Nothing, result);
        }
        for index in 0..self.out.devices.len() {
            let result = self.is_served(index);
            self.keep(Of::Nothing, result);
            let result = self.are_heard(index);
            self.keep(Of::Nothing, result);
            let result = self.are_weighed(index);
            self.keep(Of::Nothing, result);
        }
    }

    /// The handles to an object with this right.
    fn handles_to(&self, kind: u32, object: usize, right: u32) -> impl Iterator<Item = &image::Handle> {
        let is_it = move |one: &&image::Handle| one.kind == kind && one.object as usize == object;
        self.out.handles.iter().filter(is_it).filter(move |one| one.rights & right != 0)
    }

    /// The server of this endpoint may receive.
    fn is_received(&self, index: usize) -> Result<(), Fail> {
        self.sound(Of::Endpoint(index))?;
        let (endpoint, record) = &self.out.endpoints[index];
        let server = record.server as usize;
        self.sound(Of::Handles(server))?;
        if self.handles_to(kind::ENDPOINT, index, rights::RECEIVE).next().is_some() {
            return Ok(());
        }
        let server = self.out.tasks[server].name.clone();
        let place = self.file.endpoints.0[index].1.server.span();
        Err(At(place, Reason::NoReceiver { endpoint: endpoint.clone(), server }))
    }

    /// A task may wait for this notification, if one may signal it.
    fn is_awaited(&self, index: usize) -> Result<(), Fail> {
        let may = |right| self.handles_to(kind::NOTIFICATION, index, right).next().is_some();
        // The receiver of a copy is not in the manifest.
        if !may(rights::SIGNAL) || may(rights::WAIT) || may(rights::GRANT) {
            return Ok(());
        }
        let name = &self.file.notifications.0[index].0;
        for (task, (_, file)) in self.file.tasks.0.iter().enumerate() {
            if file.handles.0.iter().any(|(_, text)| mentions(text.get_ref(), name.get_ref())) {
                self.sound(Of::Handles(task))?;
            }
        }
        Err(At(name.span(), Reason::NoWaiter { notification: name.get_ref().clone() }))
    }

    /// The tasks with weights are clients of this device without a lock: others never wait for each other there.
    fn are_weighed(&self, index: usize) -> Result<(), Fail> {
        self.sound(Of::Device(index))?;
        let device = &self.out.devices[index];
        for ((task, _), (name, _)) in device.weighed.iter().zip(&self.file.devices.0[index].1.weights.0) {
            self.sound(Of::Handles(*task))?;
            let shares = |user: &image::EngineUser| {
                let place = self.out.engine_places[user.engine as usize];
                user.task as usize == *task && place.is_some_and(|(device, _)| device == index)
            };
            if !self.out.shared_users.iter().any(shares) {
                let (of, needs) = (name.get_ref().clone(), "the right `share` to an engine of the device");
                return Err(At(name.span(), Reason::Needs { what: "weight", of, needs }));
            }
        }
        Ok(())
    }

    /// The clients of this processor of the board can wake its driver while they hold an engine, and the driver of this repository knows their buffers.
    /// Without either their operations fail, and nothing says why.
    fn are_heard(&self, index: usize) -> Result<(), Fail> {
        self.sound(Of::Device(index))?;
        let Device { driver, ref contexts, ref name, ref processor, .. } = self.out.devices[index];
        if processor.as_ref().is_none_or(|one| one.program.is_none())
            || self.out.tasks[driver].binary != PROCESSOR_DRIVER
        {
            return Ok(());
        }
        for client in contexts.iter().skip(1).copied() {
            self.sound(Of::Handles(client))?;
            let task = &self.out.tasks[client];
            let entry = |wanted: &str| task.environment.iter().find(|entry| entry.name == wanted);
            let needed = rights::CALL | rights::INSIDE;
            let own = entry(KICK).and_then(|entry| self.out.handle(client, entry.handle));
            if !own.is_some_and(|one| one.kind == kind::ENDPOINT && one.rights & needed == needed) {
                let (own, file) = &self.file.tasks.0[client];
                let written = file.handles.0.iter().find(|(handle, _)| handle.get_ref() == KICK);
                let place = written.map_or_else(|| own.span(), |(_, text)| text.span());
                let needs = "\"endpoint NAME: call inside\": it is called while an engine is held";
                return Err(At(place, Reason::Needs { what: "kick", of: task.name.clone(), needs }));
            }
            let handle = format!("buffer.{}", task.name);
            if entry("buffer").is_some() && !self.out.tasks[driver].environment.iter().any(|one| one.name == handle) {
                self.sound(Of::Handles(driver))?;
                let (own, file) = &self.file.devices.0[index];
                let place = file.driver.as_ref().unwrap_or(own).span();
                let text = format!("\"region NAME: physical\", the region of `buffer` of `{}`", task.name);
                let (device, driver) = (name.clone(), self.out.tasks[driver].name.clone());
                return Err(At(place, Reason::DriverNeeds { device, driver, handle: handle.into(), text }));
            }
        }
        Ok(())
    }

    /// The driver of this device has the handles that the driver of this repository asks for by name, if it is that one and there
    /// are clients.
    fn is_served(&self, index: usize) -> Result<(), Fail> {
        self.sound(Of::Device(index))?;
        let Device { driver, size, ref contexts, ref name, .. } = self.out.devices[index];
        let task = &self.out.tasks[driver];
        if task.binary != DRIVER || contexts.len() < 2 {
            return Ok(());
        }
        let mut peers = (0..self.out.devices.len()).filter(|other| {
            let prefix = format!("peer{other}.");
            task.environment.iter().any(|entry| entry.name.starts_with(&prefix))
        });
        let peers = peers.next_back().map_or(0, |last| last + 1);
        // Objects of graphs lie behind the memory that any device could have.
        let memories = task.environment.iter().filter(|entry| entry.name.starts_with(names::MEMORY));
        let bytes = match memories.map(|entry| entry.bytes.div_ceil(crate::layout::PAGE)).max() {
            Some(pages) => space::tables_bytes(size, self.out.devices.len(), pages),
            None => space::tables_bytes(size, peers, 0),
        };
        let tables = rights::READ | rights::WRITE;
        let wanted = [
            ("line", kind::INTERRUPT, rights::ACKNOWLEDGE, 0, "\"interrupt NAME: acknowledge\"".to_owned()),
            (
                "event",
                kind::NOTIFICATION,
                rights::WAIT,
                0,
                "\"notification NAME: wait\", not bound to the driver".to_owned(),
            ),
            (
                "tables",
                kind::REGION,
                tables,
                bytes,
                format!("\"region NAME: read write physical\", of {}", Bytes(bytes)),
            ),
        ];
        for (handle, kind, needed, bytes, text) in wanted {
            let is_it = |entry: &Entry| entry.name == handle && entry.kind == kind && entry.bytes >= bytes;
            let is_known = |entry: &Entry| bytes == 0 || entry.physical != 0;
            let own = |entry: &Entry| self.out.handle(driver, entry.handle);
            let may = |entry: &Entry| own(entry).is_some_and(|one| one.rights & needed == needed);
            // A task cannot wait for a notification that it signals itself.
            let signals = |entry: &Entry| {
                let bound = |one: &image::Handle| self.out.notifications[one.object as usize].1.bound_plus_one as usize;
                kind == kind::NOTIFICATION && own(entry).is_some_and(|one| bound(one) == driver + 1)
            };
            if !task.environment.iter().any(|entry| is_it(entry) && is_known(entry) && may(entry) && !signals(entry)) {
                self.sound(Of::Handles(driver))?;
                let (own, file) = &self.file.devices.0[index];
                let place = file.driver.as_ref().unwrap_or(own).span();
                let (device, driver, handle) = (name.clone(), task.name.clone(), handle.into());
                return Err(At(place, Reason::DriverNeeds { device, driver, handle, text }));
            }
        }
        Ok(())
    }
}

//! How long services took, against the declarations of the manifest.
//!
//! The CPU time of a server between two replies is that of one service, without the calls that it made meanwhile: those are executed by
//! other threads. Its computing before its first request, or without waiting clients, belongs to none.

use fusee_abi::trace::{Event, Record};
use fusee_manifest::Resolved;

/// The longest service of an endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Service {
    /// Name of the endpoint.
    pub endpoint: String,
    /// CPU time of its longest service, nanoseconds.
    pub longest: u64,
    /// The declared longest; zero: none is declared.
    pub service_max: u64,
    /// The client of the longest service, and its job.
    pub longest_for: Option<(usize, u32)>,
}

/// Watches the services of a system.
#[derive(Clone, Debug)]
pub struct Services {
    /// One for each endpoint that is the only one of its server.
    watched: Vec<Watched>,
}

#[derive(Clone, Debug)]
struct Watched {
    service: Service,
    endpoint: usize,
    server: usize,
    /// Calls that are not answered.
    waiting: u64,
    /// When it began to run, if it does.
    since: Option<u64>,
    /// CPU time since the last reply.
    spent: u64,
}

impl Services {
    /// The services of a system that has not run yet.
    #[must_use]
    pub fn new(system: &Resolved) -> Services {
        let is_only = |server: u32| system.endpoints.iter().filter(|(_, one)| one.server == server).count() == 1;
        let alone = system.endpoints.iter().enumerate().filter(|(_, (_, one))| is_only(one.server));
        let watched = alone.map(|(endpoint, (name, one))| Watched {
            service: Service { endpoint: name.clone(), longest: 0, service_max: one.service_max, longest_for: None },
            endpoint,
            server: one.server as usize,
            waiting: 0,
            since: None,
            spent: 0,
        });
        Services { watched: watched.collect() }
    }

    /// Looks at one record.
    pub fn observe(&mut self, record: &Record) {
        let (thread, object) = (usize::from(record.thread).checked_sub(1), (record.object as usize).checked_sub(1));
        match Event::from_number(record.event) {
            Some(Event::SwitchTo) => {
                if let Some(one) = self.watched.iter_mut().find(|one| Some(one.server) == thread) {
                    one.since = Some(record.time);
                }
            }
            Some(Event::SwitchAway) => {
                if let Some(one) = self.watched.iter_mut().find(|one| Some(one.server) == thread) {
                    one.pass(record.time);
                    one.since = None;
                }
            }
            Some(Event::Call) => {
                if let Some(one) = self.watched.iter_mut().find(|one| Some(one.endpoint) == object) {
                    one.pass(record.time);
                    if one.waiting == 0 {
                        one.spent = 0;
                    }
                    one.waiting += 1;
                }
            }
            Some(Event::Reply) => {
                if let Some(one) = self.watched.iter_mut().find(|one| Some(one.server) == object) {
                    one.pass(record.time);
                    if one.spent > one.service.longest {
                        one.service.longest = one.spent;
                        one.service.longest_for = thread.map(|thread| (thread, record.job));
                    }
                    (one.spent, one.waiting) = (0, one.waiting.saturating_sub(1));
                }
            }
            // It answers no client any more.
            Some(Event::Exit | Event::Fault | Event::Stop) => {
                if let Some(one) = self.watched.iter_mut().find(|one| Some(one.server) == thread) {
                    (one.since, one.spent, one.waiting) = (None, 0, 0);
                }
            }
            _ => {}
        }
    }

    /// All that are watched.
    pub fn all(&self) -> impl Iterator<Item = &Service> {
        self.watched.iter().map(|one| &one.service)
    }

    /// Services that took longer than declared.
    pub fn too_long(&self) -> impl Iterator<Item = &Service> {
        self.all().filter(|one| one.service_max > 0 && one.longest > one.service_max)
    }
}

impl Watched {
    fn pass(&mut self, now: u64) {
        if let Some(since) = &mut self.since {
            self.spent += now - *since;
            *since = now;
        }
    }
}

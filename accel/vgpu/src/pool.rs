//! Sessions, and objects that they allocate, share and leave.
//!
//! An object lies on free frames if there are enough side by side. Otherwise it is put onto the frames of a *victim*: of all objects that are as large or
//! larger, the one of the lowest priority; among equals the smallest, and then the one that was allocated first. Neither an object of the session itself
//! is a victim, nor one that overlaps such an object. An object has the highest priority of the sessions that have it.
//!
//! # Quotas
//!
//! An object counts against the device quota of its owner. An object that overlaps others counts against the host quota of its owner, too, from the first
//! overlap to its end. When an owner leaves a segment, the member with the lowest number takes its place and its charges, even beyond its quota: it can
//! allocate nothing more then. There is no second victim, and frames are not compacted: an allocation that finds neither a hole nor a victim is refused.

/// The number of sessions that a pool may have.
pub const SESSIONS: usize = 16;

/// A client of the pool, by the badge of its requests.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Session(u8);

impl Session {
    /// The session with this number. `None` if it is not below [`SESSIONS`].
    #[must_use]
    pub const fn new(index: usize) -> Option<Session> {
        if index < SESSIONS { Some(Session(index as u8)) } else { None }
    }

    /// The number of this session.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) const fn bit(self) -> u16 {
        1 << self.0
    }
}

/// An object, also after its end: numbers are not used twice.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ObjectId {
    pub(crate) index: u16,
    pub(crate) life: u32,
}

/// The most pages of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Quota {
    /// Pages of its objects.
    pub device: usize,
    /// Pages of host buffers for its objects that overlap others.
    pub host: usize,
}

/// The reason of a refusal. Nothing has changed then.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Error {
    /// The session is not open.
    NotOpen(Session),
    /// The session is open already.
    AlreadyOpen(Session),
    /// The object would have no page.
    Empty,
    /// The session would have more pages than its device quota.
    DeviceQuota {
        /// Pages it would have.
        wanted: usize,
        /// Its quota.
        quota: usize,
    },
    /// A session would have more pages of host buffers than its quota: the one that allocates.
    HostQuota {
        /// Pages it would have.
        wanted: usize,
        /// Its quota.
        quota: usize,
    },
    /// There is no hole of so many frames, and no object that could lend its frames.
    NoVictim {
        /// Pages of the object.
        pages: usize,
    },
    /// The pool has no room for the description of a further object, or of its pages.
    Full,
    /// There is no such object any more.
    NoObject(ObjectId),
    /// The session does not have the object.
    NotYours(ObjectId),
    /// The session has not been named by the owner.
    NotNamed(ObjectId),
    /// The session has attached the segment already.
    AlreadyAttached(ObjectId),
    /// The segment overlaps an object that the session has.
    Overlaps(ObjectId),
    /// The object has no such page.
    OutOfRange {
        /// The page.
        page: usize,
        /// Pages of the object.
        pages: usize,
    },
    /// The data of this session is in the way, and a launch of it is under way.
    Busy(Session),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) priority: u8,
    pub(crate) quota: Quota,
    pub(crate) device: usize,
    pub(crate) host: usize,
    pub(crate) busy: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) life: u32,
    pub(crate) owner: Session,
    /// Sessions that have it, and those that may attach it, a bit each.
    pub(crate) members: u16,
    pub(crate) named: u16,
    /// The first of its pages among the pages of all objects.
    pub(crate) first: usize,
    pub(crate) pages: usize,
    pub(crate) frame: usize,
    /// Whether its host buffer is charged.
    pub(crate) overlaps: bool,
}

impl Object {
    pub(crate) const fn covers(&self, frame: usize) -> bool {
        self.frame <= frame && frame < self.frame + self.pages
    }

    const fn meets(&self, frame: usize, pages: usize) -> bool {
        self.frame < frame + pages && frame < self.frame + self.pages
    }

    const fn has(&self, session: Session) -> bool {
        self.members & session.bit() != 0
    }
}

/// The place of a page's data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum At {
    /// Nowhere: it is zero.
    Zero,
    Frame,
    /// This frame of the temporal space.
    Temporal(u16),
    Host,
}

/// A device's memory of `FRAMES` frames, for up to `OBJECTS` objects with `PAGES` pages together.
#[derive(Clone, Debug)]
pub struct Pool<const FRAMES: usize, const PAGES: usize, const OBJECTS: usize> {
    pub(crate) clients: [Option<Client>; SESSIONS],
    pub(crate) objects: [Option<Object>; OBJECTS],
    pub(crate) pages: [At; PAGES],
    /// For each frame the page with its data there.
    pub(crate) holders: [Option<u32>; FRAMES],
    /// Frames for objects: those behind are the temporal space.
    pub(crate) usable: usize,
    lives: u32,
}

impl<const FRAMES: usize, const PAGES: usize, const OBJECTS: usize> Pool<FRAMES, PAGES, OBJECTS> {
    /// A pool with its last `temporal` frames as temporal space; at most all of them.
    #[must_use]
    pub const fn new(temporal: usize) -> Self {
        Self {
            clients: [None; SESSIONS],
            objects: [None; OBJECTS],
            pages: [At::Zero; PAGES],
            holders: [None; FRAMES],
            usable: FRAMES.saturating_sub(temporal),
            lives: 0,
        }
    }

    /// Opens a session. Larger priorities are higher.
    ///
    /// # Errors
    /// [`Error::AlreadyOpen`].
    pub fn open(&mut self, session: Session, priority: u8, quota: Quota) -> Result<(), Error> {
        match &mut self.clients[session.index()] {
            Some(_) => Err(Error::AlreadyOpen(session)),
            client => {
                *client = Some(Client { priority, quota, device: 0, host: 0, busy: false });
                Ok(())
            }
        }
    }

    /// Closes a session in any state: it leaves all its objects, and is named by no owner any more. The caller has ended its commands.
    ///
    /// # Errors
    /// [`Error::NotOpen`].
    pub fn close(&mut self, session: Session) -> Result<(), Error> {
        self.client(session)?;
        for index in 0..OBJECTS {
            if let Some(object) = &mut self.objects[index] {
                object.named &= !session.bit();
                if object.has(session) {
                    self.leave(session, index);
                }
            }
        }
        self.clients[session.index()] = None;
        Ok(())
    }

    /// Allocates an object of so many zero pages.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::Empty`], [`Error::DeviceQuota`], [`Error::HostQuota`], [`Error::NoVictim`], [`Error::Full`].
    pub fn allocate(&mut self, session: Session, pages: usize) -> Result<ObjectId, Error> {
        let client = *self.client(session)?;
        if pages == 0 {
            return Err(Error::Empty);
        }
        let wanted = client.device.saturating_add(pages);
        if wanted > client.quota.device {
            return Err(Error::DeviceQuota { wanted, quota: client.quota.device });
        }
        let index = self.objects.iter().position(Option::is_none).ok_or(Error::Full)?;
        let is_used =
            |page: usize| self.objects().any(|(_, object)| object.first <= page && page < object.first + object.pages);
        let first = hole(PAGES, pages, is_used).ok_or(Error::Full)?;
        let free = hole(self.usable, pages, |frame| self.objects().any(|(_, object)| object.covers(frame)));
        let (frame, overlaps) = match free {
            Some(frame) => (frame, false),
            None => {
                let frame = self.objects[self.victim(session, pages).ok_or(Error::NoVictim { pages })?]
                    .map_or(0, |one| one.frame);
                let wanted = client.host + pages;
                if wanted > client.quota.host {
                    return Err(Error::HostQuota { wanted, quota: client.quota.host });
                }
                (frame, true)
            }
        };
        for other in self.objects.iter_mut().flatten().filter(|other| overlaps && other.meets(frame, pages)) {
            if !core::mem::replace(&mut other.overlaps, true)
                && let Some(owner) = &mut self.clients[other.owner.index()]
            {
                owner.host += other.pages;
            }
        }
        self.lives += 1;
        let (owner, members, life) = (session, session.bit(), self.lives);
        self.objects[index] = Some(Object { life, owner, members, named: 0, first, pages, frame, overlaps });
        self.pages[first..first + pages].fill(At::Zero);
        let client = self.client_mut(session)?;
        client.device = wanted;
        client.host += if overlaps { pages } else { 0 };
        Ok(ObjectId { index: index as u16, life })
    }

    /// Lets `other` attach an object with the owner `session`.
    ///
    /// # Errors
    /// [`Error::NotOpen`] of either, [`Error::NoObject`], [`Error::NotYours`].
    pub fn share(&mut self, session: Session, object: ObjectId, other: Session) -> Result<(), Error> {
        self.client(other)?;
        let index = self.find(session, object)?;
        let Some(shared) = self.objects[index].as_mut().filter(|one| one.owner == session) else {
            return Err(Error::NotYours(object));
        };
        shared.named |= other.bit();
        Ok(())
    }

    /// Gives `session` an object that its owner has shared with it.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::NoObject`], [`Error::NotNamed`], [`Error::AlreadyAttached`], [`Error::Overlaps`].
    pub fn attach(&mut self, session: Session, object: ObjectId) -> Result<(), Error> {
        self.client(session)?;
        let index = self.index(object)?;
        let Some(segment) = self.objects[index] else { return Err(Error::NoObject(object)) };
        if segment.has(session) {
            return Err(Error::AlreadyAttached(object));
        }
        if segment.named & session.bit() == 0 {
            return Err(Error::NotNamed(object));
        }
        if self.objects().any(|(_, other)| other.has(session) && other.meets(segment.frame, segment.pages)) {
            return Err(Error::Overlaps(object));
        }
        if let Some(segment) = &mut self.objects[index] {
            segment.members |= session.bit();
        }
        Ok(())
    }

    /// Takes an object from `session`, as the owner's `free` and as another's `detach`. The object ends with its last session. The caller has
    /// taken it out of the session's page table, and waited for its commands, before.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::NoObject`], [`Error::NotYours`]; [`Error::Busy`] while a launch of the session is under way.
    pub fn detach(&mut self, session: Session, object: ObjectId) -> Result<(), Error> {
        let index = self.find(session, object)?;
        if self.client(session)?.busy {
            return Err(Error::Busy(session));
        }
        self.leave(session, index);
        Ok(())
    }

    /// Pages of the session's objects, and of its host buffers.
    #[must_use]
    pub fn used(&self, session: Session) -> Option<Quota> {
        let client = self.clients[session.index()].as_ref()?;
        Some(Quota { device: client.device, host: client.host })
    }

    /// The first frame of an object, and the number of its pages: the range that a page table of a session maps.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::NoObject`], [`Error::NotYours`].
    pub fn frames(&self, session: Session, object: ObjectId) -> Result<(usize, usize), Error> {
        let index = self.find(session, object)?;
        Ok(self.objects[index].map_or((0, 0), |one| (one.frame, one.pages)))
    }

    //--- Inside

    pub(crate) fn objects(&self) -> impl Iterator<Item = (usize, &Object)> {
        self.objects.iter().enumerate().filter_map(|(index, object)| Some((index, object.as_ref()?)))
    }

    pub(crate) fn client(&self, session: Session) -> Result<&Client, Error> {
        self.clients[session.index()].as_ref().ok_or(Error::NotOpen(session))
    }

    pub(crate) fn client_mut(&mut self, session: Session) -> Result<&mut Client, Error> {
        self.clients[session.index()].as_mut().ok_or(Error::NotOpen(session))
    }

    fn index(&self, object: ObjectId) -> Result<usize, Error> {
        let index = usize::from(object.index);
        let is_it = self.objects.get(index).copied().flatten().is_some_and(|one| one.life == object.life);
        if is_it { Ok(index) } else { Err(Error::NoObject(object)) }
    }

    /// The place of an object that `session` has.
    pub(crate) fn find(&self, session: Session, object: ObjectId) -> Result<usize, Error> {
        self.client(session)?;
        let index = self.index(object)?;
        let has = self.objects[index].is_some_and(|one| one.has(session));
        if has { Ok(index) } else { Err(Error::NotYours(object)) }
    }

    fn priority(&self, object: &Object) -> u8 {
        let of_member = |(index, client): (usize, &Option<Client>)| {
            client.filter(|_| object.members & 1 << index != 0).map(|client| client.priority)
        };
        self.clients.iter().enumerate().filter_map(of_member).max().unwrap_or(0)
    }

    /// The object that lends its frames to one of `session`. All that it overlaps then must have quota left for host buffers.
    fn victim(&self, session: Session, pages: usize) -> Option<usize> {
        let lends = |victim: &Object| {
            let met = || self.objects().map(|(_, other)| other).filter(|other| other.meets(victim.frame, pages));
            let wants = |owner: Session| -> usize {
                met().filter(|other| other.owner == owner && !other.overlaps).map(|other| other.pages).sum()
            };
            victim.pages >= pages
                && met().all(|other| !other.has(session))
                && met().all(|other| {
                    self.client(other.owner).is_ok_and(|owner| owner.host + wants(other.owner) <= owner.quota.host)
                })
        };
        let candidates = self.objects().filter(|(_, victim)| lends(victim));
        candidates.min_by_key(|(_, victim)| (self.priority(victim), victim.pages, victim.life)).map(|(index, _)| index)
    }

    fn leave(&mut self, session: Session, index: usize) {
        let Some(object) = &mut self.objects[index] else { return };
        object.members &= !session.bit();
        let (object, heir) = (*object, Session::new(object.members.trailing_zeros() as usize));
        let host = if object.overlaps { object.pages } else { 0 };
        // The owner is always one of the members.
        if object.owner == session {
            if let Some(client) = &mut self.clients[object.owner.index()] {
                client.device -= object.pages;
                client.host -= host;
            }
            if let Some(heir) = heir {
                if let Some(client) = &mut self.clients[heir.index()] {
                    client.device += object.pages;
                    client.host += host;
                }
                if let Some(object) = &mut self.objects[index] {
                    object.owner = heir;
                }
            }
        }
        if heir.is_none() {
            let pages = object.first as u32..(object.first + object.pages) as u32;
            for holder in &mut self.holders {
                *holder = holder.filter(|page| !pages.contains(page));
            }
            self.pages[object.first..object.first + object.pages].fill(At::Zero);
            self.objects[index] = None;
        }
    }
}

/// The first run of `length` places below `end` that are not used.
fn hole(end: usize, length: usize, is_used: impl Fn(usize) -> bool) -> Option<usize> {
    let mut run = 0;
    for place in 0..end {
        run = if is_used(place) { 0 } else { run + 1 };
        if run == length {
            return Some(place + 1 - length);
        }
    }
    None
}

//! The data of objects that lie on the same frames.
//!
//! A page is *resident* if its data is in its frame. [`Pool::copy_in`] makes the pages of its range resident, [`Pool::launch`] all pages of the session,
//! because a kernel may use any of them. [`Pool::copy_out`] reads a page where it is. A page that has to make room goes to the temporal space
//! if that has a free frame: a copy inside the device is much faster than one to the host. The temporal space is emptied in the background
//! ([`Pool::drain`]), while the device computes.

use crate::pool::{At, Error, ObjectId, Pool, Session};

/// A place for one page of data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// A frame of device memory.
    Frame(usize),
    /// A page of the host buffer, below the number of pages of the pool.
    Host(usize),
}

/// One thing that the caller has to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Fill this frame with zeros.
    Clear(usize),
    /// Copy one page.
    Copy {
        /// From here,
        from: Place,
        /// to there.
        to: Place,
    },
}

/// The data of a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// Zeros.
    Zero,
    /// The data in this place.
    At(Place),
}

impl<const FRAMES: usize, const PAGES: usize, const OBJECTS: usize> Pool<FRAMES, PAGES, OBJECTS> {
    /// Makes `count` pages of an object resident, from `page` on, so that data can be copied to their frames.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::NoObject`], [`Error::NotYours`], [`Error::OutOfRange`], [`Error::Busy`].
    pub fn copy_in(
        &mut self,
        session: Session,
        object: ObjectId,
        page: usize,
        count: usize,
        step: &mut impl FnMut(Step),
    ) -> Result<(), Error> {
        let index = self.find(session, object)?;
        self.check(index, page, count)?;
        (page..page + count)
            .try_for_each(|page| self.is_in_the_way(index, page).map_or(Ok(()), |one| Err(Error::Busy(one))))?;
        (page..page + count).for_each(|page| self.make_resident(index, page, step));
        Ok(())
    }

    /// The place where a page of an object can be read. Nothing is moved for it.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::NoObject`], [`Error::NotYours`], [`Error::OutOfRange`].
    pub fn copy_out(&self, session: Session, object: ObjectId, page: usize) -> Result<Source, Error> {
        let index = self.find(session, object)?;
        self.check(index, page, 1)?;
        let (frame, number) = self.place(index, page);
        Ok(match self.pages[number] {
            At::Zero => Source::Zero,
            At::Frame => Source::At(Place::Frame(frame)),
            At::Temporal(frame) => Source::At(Place::Frame(frame.into())),
            At::Host => Source::At(Place::Host(number)),
        })
    }

    /// Makes all pages of the session resident. A launch of it is under way from then on, until [`Pool::retire`].
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::Busy`]: another session's launch has to end before.
    pub fn launch(&mut self, session: Session, step: &mut impl FnMut(Step)) -> Result<(), Error> {
        self.client(session)?;
        let own = |pool: &Self, index: usize| pool.objects[index].filter(|one| one.members & session.bit() != 0);
        for index in 0..OBJECTS {
            let pages = own(self, index).map_or(0, |one| one.pages);
            let in_the_way = (0..pages).find_map(|page| self.is_in_the_way(index, page));
            in_the_way.map_or(Ok(()), |other| Err(Error::Busy(other)))?;
        }
        for index in 0..OBJECTS {
            let pages = own(self, index).map_or(0, |one| one.pages);
            (0..pages).for_each(|page| self.make_resident(index, page, step));
        }
        self.client_mut(session)?.busy = true;
        Ok(())
    }

    /// The launches of the session have ended.
    ///
    /// # Errors
    /// [`Error::NotOpen`].
    pub fn retire(&mut self, session: Session) -> Result<(), Error> {
        self.client_mut(session)?.busy = false;
        Ok(())
    }

    /// Moves one page out of the temporal space, if one is there. Returns whether one was.
    pub fn drain(&mut self, step: &mut impl FnMut(Step)) -> bool {
        let mut full = (self.usable..FRAMES).filter_map(|frame| Some((frame, self.holders[frame]? as usize)));
        let Some((frame, number)) = full.next() else { return false };
        step(Step::Copy { from: Place::Frame(frame), to: Place::Host(number) });
        self.holders[frame] = None;
        self.pages[number] = At::Host;
        true
    }

    fn check(&self, index: usize, page: usize, count: usize) -> Result<(), Error> {
        let pages = self.objects[index].map_or(0, |one| one.pages);
        match page.checked_add(count) {
            Some(end) if end <= pages => Ok(()),
            end => Err(Error::OutOfRange { page: end.map_or(usize::MAX, |end| end - 1), pages }),
        }
    }

    /// The frame of a page of an object, and the page's number among all.
    fn place(&self, index: usize, page: usize) -> (usize, usize) {
        self.objects[index].map_or((0, 0), |one| (one.frame + page, one.first + page))
    }

    /// The session with a launch under way and its data in the frame of this page.
    fn is_in_the_way(&self, index: usize, page: usize) -> Option<Session> {
        let (frame, number) = self.place(index, page);
        let holder = self.holders[frame]? as usize;
        if holder == number {
            return None;
        }
        let of = |first: usize, pages: usize| first <= holder && holder < first + pages;
        let (_, object) = self.objects().find(|(_, one)| of(one.first, one.pages))?;
        let is_busy = |session: &Session| {
            object.members & session.bit() != 0 && self.clients[session.index()].is_some_and(|client| client.busy)
        };
        (0..crate::SESSIONS).filter_map(Session::new).find(is_busy)
    }

    fn make_resident(&mut self, index: usize, page: usize, step: &mut impl FnMut(Step)) {
        let (frame, number) = self.place(index, page);
        if self.pages[number] == At::Frame {
            return;
        }
        if let Some(holder) = self.holders[frame] {
            let room = (self.usable..FRAMES).find(|frame| self.holders[*frame].is_none());
            let (to, at) = match room {
                Some(room) => (Place::Frame(room), At::Temporal(room as u16)),
                None => (Place::Host(holder as usize), At::Host),
            };
            step(Step::Copy { from: Place::Frame(frame), to });
            self.pages[holder as usize] = at;
            if let Some(room) = room {
                self.holders[room] = Some(holder);
            }
        }
        match self.pages[number] {
            At::Zero | At::Frame => step(Step::Clear(frame)),
            At::Temporal(from) => {
                step(Step::Copy { from: Place::Frame(from.into()), to: Place::Frame(frame) });
                self.holders[usize::from(from)] = None;
            }
            At::Host => step(Step::Copy { from: Place::Host(number), to: Place::Frame(frame) }),
        }
        self.pages[number] = At::Frame;
        self.holders[frame] = Some(number as u32);
    }
}

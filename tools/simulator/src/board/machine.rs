//! The simulated machine as the kernel sees it.

use super::*;

impl Reach for Board {
    fn has_doorbell(&self, user: EngineUserId) -> Option<bool> {
        let one = self.uses[user.index()];
        // All are gone of the dead, which may hold locks for a moment.
        (!self.closed[one.task]).then_some(one.page == Page::Doorbell)
    }

    fn place(&self, thread: ThreadId, region: RegionId) -> Place {
        let place = thread.index() * self.regions.words.len() + region.index();
        self.regions.places.get(place).copied().unwrap_or(Place::Empty)
    }

    fn has_space(&self, thread: ThreadId) -> bool {
        !self.closed[thread.index()]
    }
}

impl Machine for Board {
    const TRACE: Level = Level::Full;

    fn now(&mut self) -> Instant {
        Instant(self.now + self.spent)
    }

    fn registers(&mut self, thread: ThreadId) -> &mut Registers {
        &mut self.registers[thread.index()]
    }

    fn map_doorbell(&mut self, user: EngineUserId) {
        self.uses[user.index()].page = Page::Doorbell;
    }

    fn unmap_doorbell(&mut self, user: EngineUserId) {
        self.uses[user.index()].page = Page::Nothing;
    }

    fn replace_doorbell(&mut self, user: EngineUserId) {
        self.uses[user.index()].page = Page::Replaced;
    }

    fn engine_is_idle(&mut self, user: EngineUserId) -> bool {
        let one = self.uses[user.index()];
        let submitted = self.submitted(one.device, one.engine, one.context);
        let seen = self.seen(one.device, one.engine, one.context);
        contract::is_idle(submitted, seen, self.retired(one.device, one.engine, one.context))
    }

    fn set_gate(&mut self, engine: EngineId, open: bool) {
        if let Some((device, number)) = self.places[engine.index()] {
            self.store(
                of(device, CONTROL) + contract::control_gate(number),
                if open { 0 } else { contract::GATE_SHUT },
            );
            if open {
                self.devices[device].next = Some(self.now);
            }
        }
    }

    fn is_shared_idle(&mut self, engine: EngineId) -> bool {
        let Some((device, number)) = self.places[engine.index()] else { return true };
        let status = of(device, STATUS);
        self.load(status + contract::status_begun(number)) == self.load(status + contract::status_ended(number))
    }

    fn set_engine_key(&mut self, user: EngineUserId, key: u64, rouse: bool) {
        let one = self.uses[user.index()];
        self.store_u64(of(one.device, CONTROL) + contract::control_key(one.context), key);
        if rouse {
            self.devices[one.device].next = Some(self.now);
        }
    }

    fn occupied(&mut self, user: EngineUserId) -> Nanoseconds {
        let one = self.uses[user.index()];
        Nanoseconds(self.load_u64(of(one.device, STATUS) + contract::status_counted(one.engine, one.context)))
    }

    fn doorbell_store(&mut self, thread: ThreadId, _fault: &Fault) -> Option<Store> {
        let (_, store) = self.storing.filter(|(storing, _)| *storing == thread)?;
        let one = self.uses[store.place];
        let place = store.place.checked_sub(self.locks)?;
        let is_allowed = matches!(one.page, Page::Doorbell | Page::Shadow);
        let engine = EngineId::new(one.system_engine)?;
        Some(Store { engine, place: place as u16, value: store.value, is_allowed })
    }

    fn set_doorbells(&mut self, members: Members, page: Given) {
        for member in members.each() {
            if let Some(one) = self.uses.get_mut(self.locks + member) {
                one.page = match page {
                    Given::Absent => Page::Nothing,
                    Given::ReadOnly => Page::ReadOnly,
                    Given::Open => Page::Doorbell,
                    Given::Shadow => Page::Shadow,
                };
            }
        }
    }

    fn set_region_pages(&mut self, thread: ThreadId, region: RegionId, first: u64, count: u64, mapped: bool) {
        if let Some(changes) = self.page_changes.get_mut(&thread) {
            changes.push(PageChange { region, first, count, mapped });
        }
    }

    fn set_place(&mut self, thread: ThreadId, region: RegionId, place: Place) {
        if let Some(at) = self.regions.place(thread.index(), region.index()) {
            *at = place;
        }
    }

    fn has_passed(&mut self, _thread: ThreadId, _fault: &Fault) -> bool {
        // A place changes at one instant here.
        false
    }

    fn close_space(&mut self, thread: ThreadId) {
        // A dead task makes no access; but the device model asks for doorbells. The page that a sharer has put there stays.
        self.closed[thread.index()] = true;
        for one in self.uses.iter_mut().filter(|one| one.task == thread.index() && !one.shares) {
            one.page = Page::Nothing;
        }
    }

    fn open_space(&mut self, thread: ThreadId) {
        self.closed[thread.index()] = false;
        self.registers[thread.index()] = Registers::EMPTY;
        for one in self.uses.iter_mut().filter(|one| one.task == thread.index() && !one.shares) {
            one.page = one.at_boot;
        }
        self.begun.push(thread);
    }

    fn set_interrupt_enabled(&mut self, interrupt: InterruptId, enabled: bool) {
        self.enabled[interrupt.index()] = enabled;
    }

    fn trace(&mut self, record: Record) {
        self.recorded += 1;
        self.records.push(Record { cpu: self.cpu.0, number: self.recorded, ..record });
        if record.event == Event::Release as u8 {
            self.spent += self.overheads.release;
        } else if record.event == Event::SwitchTo as u8 {
            self.spent += self.overheads.context_switch;
        }
    }

    fn give_up(&mut self, _why: &'static str) {
        self.ended = Some(PANIC_CODE as u32);
    }

    fn shutdown(&mut self, code: u32) {
        self.ended = Some(code);
    }
}

//! Random histories against an oracle that keeps a private copy of everything: sessions that allocate, share, compute, leave and die, on a device whose
//! memory is too small for them.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use fusee_vgpu::{Error, ObjectId, Place, Pool, Quota, Session, Source, Step};

const HISTORIES: u64 = 100_000;
const FRAMES: usize = 20;
const PAGES: usize = 64;
const OBJECTS: usize = 10;
const CLIENTS: usize = 5;

type Small = Pool<FRAMES, PAGES, OBJECTS>;
/// The data of a page: enough that no two writes are alike.
type Data = u64;

/// A small generator (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// The memory that the steps are carried out on. It begins with foreign data.
struct Memory {
    frames: [Data; FRAMES],
    host: [Data; PAGES],
    moved: usize,
}

impl Memory {
    fn new() -> Memory {
        Memory { frames: [u64::MAX; FRAMES], host: [u64::MAX; PAGES], moved: 0 }
    }

    fn read(&self, place: Place) -> Data {
        match place {
            Place::Frame(frame) => self.frames[frame],
            Place::Host(page) => self.host[page],
        }
    }

    fn carry_out(&mut self, step: Step) {
        match step {
            Step::Clear(frame) => self.frames[frame] = 0,
            Step::Copy { from, to } => {
                let data = self.read(from);
                self.moved += 1;
                match to {
                    Place::Frame(frame) => self.frames[frame] = data,
                    Place::Host(page) => self.host[page] = data,
                }
            }
        }
    }
}

/// An object as its members see it.
struct Private {
    data: Vec<Data>,
    owner: usize,
    members: BTreeSet<usize>,
    named: BTreeSet<usize>,
}

/// Counts of events, to see that the histories reach them.
#[derive(Debug, Default)]
struct Seen {
    overlapping: u64,
    moved: u64,
    temporal: u64,
    drained: u64,
    busy: u64,
    no_victim: u64,
    host_quota: u64,
    overlaps: u64,
    inherited: u64,
    deaths: u64,
    compared: u64,
}

struct World<'a> {
    chance: &'a mut Chance,
    seen: &'a mut Seen,
    pool: Small,
    memory: Memory,
    objects: BTreeMap<ObjectId, Private>,
    dead: Vec<ObjectId>,
    open: BTreeMap<usize, Quota>,
    busy: BTreeSet<usize>,
    /// The objects of each client at its launch: those in its page table.
    mapped: BTreeMap<usize, BTreeSet<ObjectId>>,
    next: Data,
}

fn session(index: usize) -> Session {
    Session::new(index).unwrap()
}

impl World<'_> {
    /// Any object; more often one that the client has to do with.
    fn any_object(&mut self, client: usize) -> Option<ObjectId> {
        let is_near = |one: &Private| one.members.contains(&client) || one.named.contains(&client);
        let near = !self.chance.once_in(4);
        let all = self.objects.iter().filter(|(_, one)| !near || is_near(one));
        let all: Vec<ObjectId> = all.map(|(id, _)| *id).collect();
        (!all.is_empty()).then(|| all[self.chance.below(all.len())])
    }

    fn open(&mut self, client: usize) {
        let quota = Quota { device: 8 + self.chance.below(24), host: self.chance.below(4) * 16 };
        let priority = self.chance.below(3) as u8;
        let opened = self.pool.open(session(client), priority, quota);
        if let Entry::Vacant(place) = self.open.entry(client) {
            assert_eq!(opened, Ok(()));
            place.insert(quota);
        } else {
            assert_eq!(opened, Err(Error::AlreadyOpen(session(client))));
        }
    }

    fn close(&mut self, client: usize) {
        let closed = self.pool.close(session(client));
        if self.open.remove(&client).is_none() {
            assert_eq!(closed, Err(Error::NotOpen(session(client))));
            return;
        }
        assert_eq!(closed, Ok(()));
        self.seen.deaths += 1;
        self.busy.remove(&client);
        for object in self.objects.values_mut() {
            object.named.remove(&client);
        }
        let had: Vec<ObjectId> =
            self.objects.iter().filter(|(_, one)| one.members.contains(&client)).map(|(id, _)| *id).collect();
        had.into_iter().for_each(|id| self.left(client, id));
    }

    /// The oracle's part of the end of a membership.
    fn left(&mut self, client: usize, id: ObjectId) {
        let object = self.objects.get_mut(&id).unwrap();
        object.members.remove(&client);
        match object.members.first() {
            None => {
                self.objects.remove(&id);
                self.dead.push(id);
            }
            Some(&heir) if object.owner == client => {
                object.owner = heir;
                self.seen.inherited += 1;
            }
            Some(_) => {}
        }
    }

    fn allocate(&mut self, client: usize) {
        let pages = self.chance.below(11);
        let result = self.pool.allocate(session(client), pages);
        let owned = |world: &Self| -> usize {
            world.objects.values().filter(|one| one.owner == client).map(|one| one.data.len()).sum()
        };
        let wanted = owned(self) + pages;
        match (self.open.get(&client), result) {
            (None, result) => assert_eq!(result, Err(Error::NotOpen(session(client)))),
            (_, result) if pages == 0 => assert_eq!(result, Err(Error::Empty)),
            (Some(quota), result) if wanted > quota.device => {
                assert_eq!(result, Err(Error::DeviceQuota { wanted, quota: quota.device }));
            }
            (Some(_), Ok(id)) => {
                let members = BTreeSet::from([client]);
                let data = vec![0; pages];
                let object = Private { data, owner: client, members, named: BTreeSet::new() };
                assert!(
                    self.objects.insert(id, object).is_none() && !self.dead.contains(&id),
                    "a number is used twice"
                );
                let used = self.pool.used(session(client)).unwrap();
                assert_eq!(used.device, wanted);
            }
            (_, Err(Error::NoVictim { .. })) => self.seen.no_victim += 1,
            (_, Err(Error::HostQuota { .. })) => self.seen.host_quota += 1,
            (_, Err(Error::Full)) => {}
            (_, Err(error)) => panic!("{error:?}"),
        }
    }

    fn share(&mut self, client: usize) {
        let Some(id) = self.any_object(client) else { return };
        let other = self.chance.below(CLIENTS);
        let result = self.pool.share(session(client), id, session(other));
        let object = self.objects.get_mut(&id).unwrap();
        let expected = if !self.open.contains_key(&other) {
            Err(Error::NotOpen(session(other)))
        } else if !self.open.contains_key(&client) {
            Err(Error::NotOpen(session(client)))
        } else if object.owner != client {
            Err(Error::NotYours(id))
        } else {
            object.named.insert(other);
            Ok(())
        };
        assert_eq!(result, expected);
    }

    fn attach(&mut self, client: usize) {
        let Some(id) = self.any_object(client) else { return };
        let result = self.pool.attach(session(client), id);
        let object = &self.objects[&id];
        if !self.open.contains_key(&client) {
            assert_eq!(result, Err(Error::NotOpen(session(client))));
        } else if object.members.contains(&client) {
            assert_eq!(result, Err(Error::AlreadyAttached(id)));
        } else if !object.named.contains(&client) {
            assert_eq!(result, Err(Error::NotNamed(id)), "a third party with the right number");
        } else {
            let owner = session(object.owner);
            let of_it = self.pool.frames(owner, id).unwrap();
            let meets = self.objects.iter().filter(|(_, one)| one.members.contains(&client)).any(|(other, _)| {
                let of_other = self.pool.frames(session(client), *other).unwrap();
                of_it.0 < of_other.0 + of_other.1 && of_other.0 < of_it.0 + of_it.1
            });
            assert_eq!(result, if meets { Err(Error::Overlaps(id)) } else { Ok(()) });
            if meets {
                self.seen.overlaps += 1;
            } else {
                self.objects.get_mut(&id).unwrap().members.insert(client);
            }
        }
    }

    fn detach(&mut self, client: usize) {
        let Some(id) = self.any_object(client) else { return };
        let result = self.pool.detach(session(client), id);
        if !self.open.contains_key(&client) {
            assert_eq!(result, Err(Error::NotOpen(session(client))));
        } else if !self.objects[&id].members.contains(&client) {
            assert_eq!(result, Err(Error::NotYours(id)));
        } else if self.busy.contains(&client) {
            assert_eq!(result, Err(Error::Busy(session(client))));
        } else {
            assert_eq!(result, Ok(()));
            self.left(client, id);
        }
    }

    fn copy_in(&mut self, client: usize) {
        let Some(id) = self.any_object(client) else { return };
        let pages = self.objects[&id].data.len();
        let (page, count) = (self.chance.below(pages + 1), self.chance.below(4));
        let memory = &mut self.memory;
        let before = memory.moved;
        let result = self.pool.copy_in(session(client), id, page, count, &mut |step| memory.carry_out(step));
        let moved = memory.moved - before;
        assert!(moved <= 2 * count, "each page moves one away and one here");
        let object = self.objects.get_mut(&id).unwrap();
        match result {
            Ok(()) => {
                assert!(object.members.contains(&client) && page + count <= pages);
                for page in page..page + count {
                    self.next += 1;
                    object.data[page] = self.next;
                    // The copy is to the frame that the session maps.
                    let (frame, _) = self.pool.frames(session(client), id).unwrap();
                    self.memory.frames[frame + page] = self.next;
                }
            }
            Err(error) => {
                assert_eq!(moved, 0, "what is refused changes nothing");
                self.is_due(client, id, error, page + count > pages);
            }
        }
    }

    /// Whether a copy or a launch is refused for good reason.
    fn is_due(&mut self, client: usize, id: ObjectId, error: Error, out_of_range: bool) {
        match error {
            Error::NotOpen(_) => assert!(!self.open.contains_key(&client)),
            Error::NotYours(_) => assert!(!self.objects[&id].members.contains(&client)),
            Error::OutOfRange { .. } => assert!(out_of_range),
            Error::Busy(other) => {
                self.seen.busy += 1;
                assert!(self.busy.contains(&other.index()));
            }
            error => panic!("{error:?}"),
        }
    }

    /// A launch sees all data of its session in the frames, and changes some of it there.
    fn launch(&mut self, client: usize) {
        let memory = &mut self.memory;
        let (before, mut temporal) = (memory.moved, 0);
        let result = self.pool.launch(session(client), &mut |step| {
            if let Step::Copy { from: Place::Frame(_), to: Place::Frame(_) } = step {
                temporal += 1;
            }
            memory.carry_out(step);
        });
        self.seen.temporal += temporal;
        if let Err(error) = result {
            assert_eq!(self.memory.moved, before, "what is refused changes nothing");
            match error {
                Error::NotOpen(_) => assert!(!self.open.contains_key(&client)),
                Error::Busy(other) => {
                    self.seen.busy += 1;
                    assert!(self.busy.contains(&other.index()) && other.index() != client);
                }
                error => panic!("{error:?}"),
            }
            return;
        }
        self.seen.moved += (self.memory.moved - before) as u64;
        self.busy.insert(client);
        let had = self.objects.iter().filter(|(_, one)| one.members.contains(&client)).map(|(id, _)| *id);
        self.mapped.insert(client, had.collect());
        self.compute(client);
    }

    fn compute(&mut self, client: usize) {
        let mapped = &self.mapped[&client];
        for (id, object) in self.objects.iter_mut().filter(|(id, _)| mapped.contains(id)) {
            let (frame, pages) = self.pool.frames(session(client), *id).unwrap();
            for page in 0..pages {
                assert_eq!(self.memory.frames[frame + page], object.data[page], "a kernel reads wrong data");
                self.seen.compared += 1;
                if self.chance.once_in(3) {
                    self.next += 1;
                    self.memory.frames[frame + page] = self.next;
                    object.data[page] = self.next;
                }
            }
        }
    }

    /// All data, as each member reads it; and refusals.
    fn check(&mut self) {
        for (id, object) in &self.objects {
            for &member in &object.members {
                for (page, data) in object.data.iter().enumerate() {
                    let read = match self.pool.copy_out(session(member), *id, page).unwrap() {
                        Source::Zero => 0,
                        Source::At(place) => self.memory.read(place),
                    };
                    assert_eq!(read, *data, "client {member}, page {page} of {id:?}");
                    self.seen.compared += 1;
                }
            }
            let out = session(*object.members.first().unwrap());
            assert!(matches!(self.pool.copy_out(out, *id, object.data.len()), Err(Error::OutOfRange { .. })));
        }
        for &client in self.open.keys() {
            let owned = self.objects.values().filter(|one| one.owner == client).map(|one| one.data.len());
            let (used, owned) = (self.pool.used(session(client)).unwrap(), owned.sum::<usize>());
            assert_eq!(used.device, owned);
            let ranges: Vec<(usize, (usize, usize))> = self
                .objects
                .iter()
                .map(|(id, one)| (one.owner, self.pool.frames(session(one.owner), *id).unwrap()))
                .collect();
            let meets = |a: (usize, usize), b: (usize, usize)| a.0 < b.0 + b.1 && b.0 < a.0 + a.1;
            let overlapping = ranges.iter().enumerate().filter(|(at, (owner, range))| {
                *owner == client && ranges.iter().enumerate().any(|(other, one)| other != *at && meets(*range, one.1))
            });
            let charged = overlapping.map(|(_, (_, range))| range.1).sum::<usize>();
            assert!((charged..=owned).contains(&used.host), "host buffers are charged while objects overlap");
        }
        if let Some(&id) = self.dead.last() {
            let anybody = session(self.chance.below(CLIENTS));
            let refused = self.pool.copy_out(anybody, id, 0);
            assert!(matches!(refused, Err(Error::NoObject(_) | Error::NotOpen(_))), "{refused:?}");
        }
        let places: BTreeSet<usize> = self
            .objects
            .iter()
            .filter_map(|(id, one)| Some(self.pool.frames(session(one.owner), *id).ok()?.0))
            .collect();
        self.seen.overlapping += u64::from(places.len() < self.objects.len());
    }
}

fn history(chance: &mut Chance, seen: &mut Seen) {
    let temporal = [0, 2, 5][chance.below(3)];
    let mut world = World {
        chance,
        seen,
        pool: Small::new(temporal),
        memory: Memory::new(),
        objects: BTreeMap::new(),
        dead: Vec::new(),
        open: BTreeMap::new(),
        busy: BTreeSet::new(),
        mapped: BTreeMap::new(),
        next: 0,
    };
    (0..CLIENTS - 1).for_each(|client| world.open(client));
    for _ in 0..30 + world.chance.below(50) {
        let client = world.chance.below(CLIENTS);
        match world.chance.below(60) {
            0 => world.close(client),
            1 | 2 => world.open(client),
            3..=10 => world.allocate(client),
            11..=13 => world.share(client),
            14..=16 => world.attach(client),
            17..=19 => world.detach(client),
            20..=29 => world.copy_in(client),
            30..=39 => world.launch(client),
            // A kernel goes on, and has its data although others have come and gone.
            40..=44 if world.busy.contains(&client) => world.compute(client),
            40..=54 => {
                let retired = world.pool.retire(session(client));
                assert_eq!(retired.is_ok(), world.open.contains_key(&client));
                world.busy.remove(&client);
            }
            _ => {
                let memory = &mut world.memory;
                world.seen.drained += u64::from(world.pool.drain(&mut |step| memory.carry_out(step)));
            }
        }
        world.check();
    }
    // All leave: nothing is left.
    let clients: Vec<usize> = world.open.keys().copied().collect();
    clients.into_iter().for_each(|client| world.close(client));
    assert!(world.objects.is_empty());
    world.open(0);
    assert!(!world.pool.drain(&mut |_| ()), "the temporal space is empty");
    let quota = world.open[&0].device.min(FRAMES - temporal);
    let id = world.pool.allocate(session(0), quota).expect("all frames are free, side by side");
    assert!((0..quota).all(|page| world.pool.copy_out(session(0), id, page) == Ok(Source::Zero)));
}

#[test]
fn no_history_gives_anybody_wrong_data() {
    let (mut chance, mut seen) = (Chance(1), Seen::default());
    (0..HISTORIES).for_each(|_| history(&mut chance, &mut seen));
    println!("{HISTORIES} histories: {seen:?}");
    let Seen {
        overlapping, moved, temporal, drained, busy, no_victim, host_quota, overlaps, inherited, deaths, ..
    } = seen;
    for reached in [overlapping, moved, temporal, drained, busy, no_victim, host_quota, inherited, deaths] {
        assert!(reached > 1_000, "{seen:?}");
    }
    assert!(overlaps > 100, "{seen:?}");
}

#[test]
fn a_thousand_owners_after_each_other_read_zeros() {
    let mut pool = Small::new(0);
    let mut memory = Memory::new();
    let quota = Quota { device: FRAMES, host: 0 };
    for turn in 0..1_000 {
        let owner = session(turn % CLIENTS);
        pool.open(owner, 0, quota).unwrap();
        let id = pool.allocate(owner, FRAMES).unwrap();
        pool.launch(owner, &mut |step| memory.carry_out(step)).unwrap();
        assert_eq!(memory.frames, [0; FRAMES], "turn {turn}");
        memory.frames.fill(turn as u64 + 1);
        assert_eq!(pool.detach(owner, id), Err(Error::Busy(owner)));
        pool.retire(owner).unwrap();
        pool.detach(owner, id).unwrap();
        pool.close(owner).unwrap();
    }
}

#[test]
fn a_copy_of_one_page_moves_one_page_and_a_copy_out_none() {
    let mut pool = Small::new(2);
    let mut memory = Memory::new();
    let [first, second] = [0, 1].map(session);
    let quota = Quota { device: 18, host: 18 };
    [first, second].into_iter().for_each(|one| pool.open(one, 0, quota).unwrap());
    let ids = [first, second].map(|one| pool.allocate(one, 18).unwrap());
    assert_eq!(pool.frames(first, ids[0]), pool.frames(second, ids[1]), "there is no room for both");
    pool.copy_in(first, ids[0], 0, 18, &mut |step| memory.carry_out(step)).unwrap();
    assert_eq!(memory.moved, 0);
    let mut steps = Vec::new();
    pool.copy_in(second, ids[1], 4, 1, &mut |step| steps.push(step)).unwrap();
    let to = Place::Frame(18);
    assert_eq!(steps, [Step::Copy { from: Place::Frame(4), to }, Step::Clear(4)]);
    assert_eq!(pool.copy_out(first, ids[0], 4), Ok(Source::At(to)));
    assert_eq!(pool.copy_out(first, ids[0], 5), Ok(Source::At(Place::Frame(5))));
    // In the background it goes on to the host; a launch fetches it from there.
    steps.clear();
    assert!(pool.drain(&mut |step| steps.push(step)) && !pool.drain(&mut |_| ()));
    assert_eq!(steps, [Step::Copy { from: to, to: Place::Host(4) }]);
    assert_eq!(pool.copy_out(first, ids[0], 4), Ok(Source::At(Place::Host(4))));
    steps.clear();
    pool.launch(first, &mut |step| steps.push(step)).unwrap();
    assert_eq!(
        steps,
        [
            Step::Copy { from: Place::Frame(4), to: Place::Frame(18) },
            Step::Copy { from: Place::Host(4), to: Place::Frame(4) }
        ]
    );
    assert_eq!(pool.launch(second, &mut |step| steps.push(step)), Err(Error::Busy(first)));
    assert_eq!(steps.len(), 2);
}

#[test]
fn the_victim_is_the_smallest_object_of_the_lowest_priority_that_is_large_enough() {
    let mut pool = Small::new(0);
    let quota = Quota { device: FRAMES, host: FRAMES };
    for (client, priority) in [(0, 2), (1, 1), (2, 1), (3, 0)] {
        pool.open(session(client), priority, quota).unwrap();
    }
    let sizes = [(0, 4), (1, 8), (2, 6), (3, 2)];
    let ids = sizes.map(|(client, pages)| pool.allocate(session(client), pages).unwrap());
    let place = |pool: &Small, client: usize| pool.frames(session(client), ids[client]).unwrap().0;
    pool.open(session(4), 0, quota).unwrap();
    let taken = pool.allocate(session(4), 4).unwrap();
    assert_eq!(pool.frames(session(4), taken).unwrap().0, place(&pool, 2));
    assert_eq!(pool.used(session(2)), Some(Quota { device: 6, host: 6 }));
    // Too large for all but one; and its owner is not lent to by itself.
    assert_eq!(pool.allocate(session(1), 7), Err(Error::NoVictim { pages: 7 }));
    assert_eq!(pool.allocate(session(4), 9), Err(Error::NoVictim { pages: 9 }));
}

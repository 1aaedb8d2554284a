#![allow(missing_docs)]
//! Clients that store anything to their doorbells, at any instant, also between two accesses of the device. The test plays the
//! kernel: one holder at a time, a probe at release, and a watchdog with a reset if the engine is not idle by then.

use crate::rig::{DESCRIPTION, Ram, Rig, Watched, ring_page};
use fusee_accel_contract::*;
use fusee_device_model::Bus;
use proptest::prelude::*;

const MICROSECOND: u64 = 1_000;
/// From the grant to the instant at which the kernel takes an engine away.
const WATCHDOG: u64 = 2_000 * MICROSECOND;
const VICTIM: usize = 3;
/// The victim's work on the engine that it shares with the hostile clients, and on one that it has for itself.
const WORK: u64 = 100 * MICROSECOND;
const ELSEWHERE: u64 = 700 * MICROSECOND;

/// A client's store to its doorbell.
#[derive(Clone, Copy, Debug)]
enum Count {
    /// So many more than it finds there, or fewer.
    By(i32),
    /// So many more than have retired, or fewer.
    FromRetired(i32),
    /// These bits.
    Bits(u32),
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Store(Count),
    /// The device looks.
    Kick,
    /// A store like the one above, after so many accesses of the device.
    StoreWhileItLooks(usize, Count),
    Wait(u64),
}

/// One hold of a hostile client.
#[derive(Clone, Debug)]
struct Hold {
    context: usize,
    deeds: Vec<Deed>,
    /// The last store, and the number of accesses of a device before it, if one looks meanwhile. Then the client releases.
    last: (Option<Count>, Option<usize>),
}

fn count() -> impl Strategy<Value = Count> {
    prop_oneof![
        4 => (-3..=18).prop_map(Count::By),
        3 => (-3..=18).prop_map(Count::FromRetired),
        1 => any::<u32>().prop_map(Count::Bits),
    ]
}

/// A poll makes some ninety accesses, nine of them for each valid context.
fn access() -> impl Strategy<Value = usize> {
    0..100_usize
}

fn hold() -> impl Strategy<Value = Hold> {
    let deed = prop_oneof![
        3 => count().prop_map(Deed::Store),
        3 => Just(Deed::Kick),
        3 => (access(), count()).prop_map(|(access, count)| Deed::StoreWhileItLooks(access, count)),
        2 => (0..400 * MICROSECOND).prop_map(Deed::Wait),
    ];
    let last = (prop::option::weighted(0.8, count()), prop::option::weighted(0.6, access()));
    (1..=2_usize, prop::collection::vec(deed, 0..8), last).prop_map(|(context, deeds, last)| Hold {
        context,
        deeds,
        last,
    })
}

fn word(ram: &mut Ram, address: u64) -> u32 {
    ram.read_u32(address).unwrap()
}

fn store(ram: &mut Ram, engine: EngineIndex, context: usize, count: Count) {
    let doorbell = DESCRIPTION.doorbells + doorbell_page(engine, context);
    let value = match count {
        Count::By(by) => word(ram, doorbell).wrapping_add_signed(by),
        Count::FromRetired(by) => {
            word(ram, DESCRIPTION.status + status_retired(engine, context)).wrapping_add_signed(by)
        }
        Count::Bits(bits) => bits,
    };
    ram.write_u32(doorbell, value).unwrap();
}

/// The kernel's probe.
fn probe(ram: &mut Ram, engine: EngineIndex, context: usize) -> bool {
    let submitted = word(ram, DESCRIPTION.doorbells + doorbell_page(engine, context));
    let seen = word(ram, DESCRIPTION.status + status_seen(engine, context));
    is_idle(submitted, seen, word(ram, DESCRIPTION.status + status_retired(engine, context)))
}

struct World {
    rig: Rig,
    now: u64,
    /// When the device asked to be polled.
    next: Option<u64>,
    engine: EngineIndex,
    /// When the victim's work on an engine of its own is due; that ends then, and not before or after.
    due: Option<u64>,
}

impl World {
    fn new(engine: EngineIndex, times: &[u64]) -> World {
        let mut rig = Rig::new();
        rig.open(VICTIM);
        for (context, slot) in (1..=2).flat_map(|context| (0..RING_ENTRIES).map(move |slot| (context, slot))) {
            let time = times[(context + slot as usize) % times.len()];
            let command = Command { operation: Operation::Burn { time }, fence: None };
            rig.ram.write(ring_page(context) + ring_slot(engine, slot), &command.encode()).unwrap();
        }
        World { rig, now: 0, next: None, engine, due: None }
    }

    /// The other engine, on which only the victim works.
    fn own(&self) -> EngineIndex {
        if self.engine == EngineIndex::Execution { EngineIndex::CopyIn } else { EngineIndex::Execution }
    }

    /// The device looks once; meanwhile something happens.
    fn look(&mut self, after: usize, then: impl FnOnce(&mut Ram)) {
        let (mut accesses, mut then) = (0, Some(then));
        let each = |ram: &mut Ram| {
            accesses += 1;
            if let Some(then) = then.take_if(|_| accesses > after) {
                then(ram);
            }
        };
        self.next = self.rig.device.poll(self.now, &mut Watched { ram: &mut self.rig.ram, each }).next;
        // It made fewer accesses.
        if let Some(then) = then {
            then(&mut self.rig.ram);
        }
        let own = self.own();
        let has_ended = self.rig.is_idle(own, VICTIM);
        assert_eq!(has_ended, self.due.is_none_or(|due| due <= self.now), "an engine that nobody else uses");
        self.due = self.due.filter(|_| !has_ended);
    }

    fn kick(&mut self) {
        self.look(0, |_| ());
        while self.next.is_some_and(|next| next <= self.now) {
            self.look(0, |_| ());
        }
    }

    /// Time passes until `end`, or until the hostile client's engine is found idle, if a task waits for that.
    fn pass(&mut self, end: u64, draining: Option<usize>) {
        while draining.is_none_or(|context| !self.rig.is_idle(self.engine, context)) {
            let Some(next) = self.next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = next;
            self.kick();
        }
    }

    fn submit_elsewhere(&mut self) {
        if self.due.is_none() {
            let own = self.own();
            self.rig.submit(own, VICTIM, Operation::Burn { time: ELSEWHERE }, 2);
            self.due = Some(self.now + ELSEWHERE);
            self.kick();
        }
    }

    /// A hostile client is granted the engine, does as it likes and releases. Returns how long the engine was its.
    fn suffer(&mut self, hold: &Hold) -> u64 {
        let (engine, context, granted) = (self.engine, hold.context, self.now);
        for deed in &hold.deeds {
            match *deed {
                Deed::Store(count) => store(&mut self.rig.ram, engine, context, count),
                Deed::Kick => self.kick(),
                Deed::StoreWhileItLooks(after, count) => self.look(after, |ram| store(ram, engine, context, count)),
                Deed::Wait(time) => self.pass((self.now + time).min(granted + WATCHDOG), None),
            }
        }
        let mut idle = false;
        let mut release = |ram: &mut Ram| {
            hold.last.0.into_iter().for_each(|count| store(ram, engine, context, count));
            idle = probe(ram, engine, context);
        };
        match hold.last.1 {
            Some(after) => self.look(after, release),
            None => release(&mut self.rig.ram),
        }
        if idle {
            // From here on the kernel relies on it.
            self.kick();
            assert_eq!(self.rig.device.working_for(engine), None, "an engine that was said to be idle works");
            assert!(self.rig.is_idle(engine, context), "a command begins without a holder");
            return self.now - granted;
        }
        self.pass(granted + WATCHDOG, Some(context));
        if !self.rig.is_idle(engine, context) {
            for context in 1..=VICTIM {
                let request = DESCRIPTION.control + control_reset_request(context, engine);
                let before = word(&mut self.rig.ram, request);
                self.rig.ram.write_u32(request, before.wrapping_add(1)).unwrap();
            }
            self.kick();
            assert!(self.rig.is_idle(engine, context), "a reset leaves something to do");
        }
        self.now - granted
    }

    /// The victim has the engine next, and its operation takes as long as on a device of its own.
    fn work(&mut self) {
        let (engine, begin) = (self.engine, self.now);
        self.rig.submit(engine, VICTIM, Operation::Burn { time: WORK }, 1);
        self.kick();
        assert_eq!(self.rig.device.working_for(engine), Some(VICTIM));
        self.pass(begin + WORK - 1, None);
        assert!(!self.rig.is_idle(engine, VICTIM));
        self.pass(begin + WORK, None);
        assert!(self.rig.is_idle(engine, VICTIM));
        assert_eq!(self.rig.fence(VICTIM, 1), FenceState::Done);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_store_of_a_client_makes_an_engine_that_works_look_idle_or_delays_another_beyond_the_watchdog(
        engine in prop::sample::select(&EngineIndex::ALL[..]),
        times in prop::collection::vec(
            prop_oneof![Just(0), Just(60 * MICROSECOND), Just(900 * MICROSECOND), Just(u64::MAX)], 1..7),
        holds in prop::collection::vec(hold(), 1..6),
    ) {
        let mut world = World::new(engine, &times);
        for hold in &holds {
            world.submit_elsewhere();
            let held = world.suffer(hold);
            prop_assert!(held <= WATCHDOG);
            world.work();
        }
        prop_assert_eq!(world.rig.faults(VICTIM), 0);
        prop_assert_eq!(world.rig.device.late_completions(), 0);
    }
}

/// The client's count is gone before the device looks again, between its two looks, or after them.
#[test]
fn a_count_that_is_taken_back_has_been_seen_or_is_nothing() {
    let (engine, context) = (EngineIndex::Execution, 1);
    let [mut nothing, mut seen] = [0, 0];
    for after in 0..100 {
        let mut world = World::new(engine, &[u64::MAX]);
        store(&mut world.rig.ram, engine, context, Count::By(1));
        let mut idle = None;
        world.look(after, |ram| {
            store(ram, engine, context, Count::By(-1));
            idle = Some(probe(ram, engine, context));
        });
        let works = world.rig.device.working_for(engine).is_some();
        assert!(!works || idle == Some(false), "after {after} accesses");
        nothing += u32::from(!works);
        seen += u32::from(works);
    }
    assert!(nothing > 0 && seen > 0);
}

/// Where the device has not looked, only commands that were rung for are lost, and a reset tells the client which.
#[test]
fn a_command_that_the_device_never_saw_fails_with_the_reset() {
    let mut rig = Rig::new();
    rig.submit(EngineIndex::CopyIn, 1, Operation::Burn { time: MICROSECOND }, 5);
    assert!(!rig.is_idle(EngineIndex::CopyIn, 1));
    rig.ram.write_u32(DESCRIPTION.control + control_reset_request(1, EngineIndex::CopyIn), 1).unwrap();
    rig.run(0);
    assert_eq!(rig.fence(1, 5), FenceState::Failed);
    assert!(rig.is_idle(EngineIndex::CopyIn, 1));
}

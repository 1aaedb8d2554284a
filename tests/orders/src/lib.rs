//! The orders of memory accesses that the kernel relies on, explored in every order that the memory model of C11 allows, which allows more than Arm's
//! architecture does: the lock around the kernel, the registers of a thread that one CPU leaves and another one takes up, and the rings of the trace, which are read
//! without the lock. And the words by which producers of a graph find out that a consumer has its tokens.
//!
//! The lock is in assembly, so a model of it is explored here, an operation for each instruction that accesses memory. `LOCK` is those instructions,
//! and a test compares them with the kernel's source. Each model is run a second time without one of its orders, and must then go wrong.
//!
//! | Instruction | Model |
//! |---|---|
//! | `ldaxr`, `stxr` until it succeeds | a load with acquire, then an exchange of the loaded value; one that fails is the load of the next turn |
//! | `ldarh` of the ticket served | a load with acquire, of which the lower half counts |
//! | `stlrh` of the next ticket | an addition to the lower half with release: only the holder changes that half, and an exchange by another CPU between fails |
//!
//! Not here: the wrap of a half, of which a test of its own shows that it leaves the other half alone; channels between tasks (`userland/fusee`).
#![forbid(unsafe_code)]
#![cfg(test)]

use fusee_graph::{Begun, Edge, Tokens, Words, begin_job, end_job, give_back, is_lost};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::atomic::AtomicUsize;

//--- The lock

/// The instructions of `kernel/aarch64/src/lock.rs`, in their order there.
const LOCK: [&str; 7] = [
    "2: ldaxr {before:w}, [{tickets}]",
    "add {after:w}, {before:w}, #16, lsl #12",
    "stxr {failed:w}, {after:w}, [{tickets}]",
    "cbnz {failed:w}, 2b",
    "eor {after:w}, {before:w}, {before:w}, ror #16",
    "ldarh {serving:w}, [{tickets}]",
    "stlrh {next:w}, [{tickets}]",
];

/// The lines of assembly in `source`.
fn assembly(source: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = source;
    while let Some((_, behind)) = rest.split_once("asm!(") {
        let within = behind.split_once("options(").map_or(behind, |(within, _)| within);
        lines.extend(
            within.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once('"')).map(|(text, _)| text),
        );
        rest = behind;
    }
    lines
}

#[test]
fn the_lock_is_of_these_instructions() {
    assert_eq!(assembly(include_str!("../../../kernel/aarch64/src/lock.rs")), LOCK);
}

/// An order, or none.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    Acquire,
    Release,
}

impl Without {
    fn acquire(self) -> Ordering {
        if self == Without::Acquire { Ordering::Relaxed } else { Ordering::Acquire }
    }

    fn release(self) -> Ordering {
        if self == Without::Release { Ordering::Relaxed } else { Ordering::Release }
    }
}

const HALF: u32 = 1 << 16;

/// Looks of a CPU that waits. The model allows that it sees an old value for ever, so those executions are left out in which it looks more often in
/// vain.
const LOOKS: u32 = 4;

struct Lock {
    tickets: AtomicU32,
    without: Without,
}

impl Lock {
    fn new(without: Without) -> Lock {
        Lock { tickets: AtomicU32::new(0), without }
    }

    /// Takes the lock; the ticket with which it did.
    fn lock(&self) -> u32 {
        let mut before = self.tickets.load(self.without.acquire());
        while let Err(newer) = {
            let after = before.wrapping_add(HALF);
            self.tickets.compare_exchange(before, after, self.without.acquire(), self.without.acquire())
        } {
            before = newer;
        }
        let own = before >> 16;
        if before % HALF != own {
            let mut looks = 0;
            while self.tickets.load(self.without.acquire()) % HALF != own {
                looks += 1;
                if looks == LOOKS {
                    loom::skip_branch();
                }
                thread::yield_now();
            }
        }
        own
    }

    fn unlock(&self) {
        self.tickets.fetch_add(1, self.without.release());
    }
}

#[test]
fn a_half_that_wraps_leaves_the_other_alone() {
    for before in [0_u32, 0xffff_0000, 0x0001_ffff, 0xffff_ffff] {
        let taken = before.wrapping_add(HALF);
        assert_eq!((taken % HALF, taken >> 16), (before % HALF, (before >> 16).wrapping_add(1) % HALF));
    }
}

/// A word without an order of its own, as memory is. An access at the same time as another one is an error.
struct Word {
    value: AtomicU32,
    alone: UnsafeCell<()>,
}

impl Word {
    fn new(value: u32) -> Word {
        Word { value: AtomicU32::new(value), alone: UnsafeCell::new(()) }
    }

    fn read(&self) -> u32 {
        self.alone.with(|_| ());
        self.value.load(Ordering::Relaxed)
    }

    fn write(&self, value: u32) {
        self.alone.with_mut(|_| ());
        self.value.store(value, Ordering::Relaxed);
    }
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// CPUs that take the lock so many times each, and count under it: tickets are served in their order, and each holder sees the work of holders before
/// it. How many executions came to their end.
fn count(cpus: usize, times: u32, without: Without) -> usize {
    let ends = std::sync::Arc::new(AtomicUsize::new(0));
    let ended = ends.clone();
    explore(3, move || {
        let shared = Arc::new((Lock::new(without), Word::new(0)));
        let work = move |shared: &(Lock, Word)| {
            for _ in 0..times {
                let ticket = shared.0.lock();
                assert_eq!(
                    shared.1.read(),
                    ticket,
                    "a ticket is served out of its turn, or what was done before it is not seen"
                );
                shared.1.write(ticket + 1);
                shared.0.unlock();
            }
        };
        let start = |shared: Arc<(Lock, Word)>| thread::spawn(move || work(&shared));
        let others: Vec<_> = (1..cpus).map(|_| start(shared.clone())).collect();
        work(&shared);
        others.into_iter().for_each(|other| other.join().expect("it ends"));
        assert_eq!(shared.1.read(), cpus as u32 * times);
        ended.fetch_add(1, Ordering::Relaxed);
    });
    ends.load(Ordering::Relaxed)
}

#[test]
fn in_every_order_tickets_are_served_in_turn_and_see_what_was_done_before() {
    let ends = [count(2, 3, Without::Nothing), count(3, 1, Without::Nothing)];
    assert!(ends.iter().all(|ends| *ends > 1_000), "{ends:?}");
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_acquire_the_lock_is_none() {
    count(2, 2, Without::Acquire);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_release_the_lock_is_none() {
    count(2, 2, Without::Release);
}

//--- The registers of a thread

/// Runs on no CPU.
const OFF: u32 = u32::MAX;

struct Threads {
    lock: Lock,
    /// Where the thread is on, under the lock.
    on: Word,
    /// Its registers, which belong to that CPU, with or without the lock.
    frame: [Word; 2],
}

/// Two CPUs run one thread in turn. Each takes it up under the lock, if it is on no CPU, loads its registers without the lock, lets it count, stores its registers, and records
/// under the lock that it is off; `early`: before they are stored.
fn hand_over(early: bool) {
    explore(3, move || {
        let (lock, on) = (Lock::new(Without::Nothing), Word::new(OFF));
        let threads = Arc::new(Threads { lock, on, frame: [Word::new(0), Word::new(0)] });
        let work = move |threads: &Threads, cpu: u32| {
            for _ in 0..2 {
                threads.lock.lock();
                let is_off = threads.on.read() == OFF;
                if is_off {
                    threads.on.write(cpu);
                }
                threads.lock.unlock();
                if !is_off {
                    continue;
                }
                let leave = || {
                    threads.lock.lock();
                    threads.on.write(OFF);
                    threads.lock.unlock();
                };
                let [first, second] = threads.frame.each_ref().map(Word::read);
                assert_eq!(first, second, "registers of two instants");
                if early {
                    leave();
                }
                threads.frame.iter().for_each(|word| word.write(first + 1));
                if !early {
                    leave();
                }
            }
        };
        let other = {
            let threads = threads.clone();
            thread::spawn(move || work(&threads, 1))
        };
        work(&threads, 0);
        other.join().expect("it ends");
        assert!((2..=4).contains(&threads.frame[0].read()));
    });
}

#[test]
fn in_every_order_registers_go_from_cpu_to_cpu_whole() {
    hand_over(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn registers_that_are_stored_after_the_thread_is_off_are_lost() {
    hand_over(true);
}

//--- The rings of the trace

/// Records that the ring holds, and of how many the last are not read: a trap writes fewer.
const RECORDS: u64 = 3;
const MARGIN: u64 = 1;

/// A ring, of records of two words.
struct Ring {
    written: AtomicU64,
    records: [[AtomicU32; 2]; RECORDS as usize],
}

/// A CPU writes so many records, each in a trap of its own; the ring is read meanwhile, as `fusee::rings` reads it, with that margin.
fn trace(count: u64, margin: u64, without: Without) {
    explore(3, move || {
        let record = || [AtomicU32::new(0), AtomicU32::new(0)];
        let ring = Arc::new(Ring { written: AtomicU64::new(0), records: [record(), record(), record()] });
        let writer = {
            let ring = ring.clone();
            thread::spawn(move || {
                for number in 0..count {
                    let place = &ring.records[(number % RECORDS) as usize];
                    place.iter().for_each(|word| word.store(number as u32 + 1, Ordering::Relaxed));
                    ring.written.store(number + 1, without.release());
                    // Between two traps the lock is given back and taken: a store with release, and a load with acquire behind it that Arm's architecture keeps there.
                    fence(Ordering::SeqCst);
                }
            })
        };
        let written = || {
            let written = ring.written.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            written
        };
        let oldest = || (written() + margin).saturating_sub(RECORDS);
        let first = oldest();
        let last = written();
        let read = |number: u64| {
            let place = &ring.records[(number % RECORDS) as usize];
            (number, place.each_ref().map(|word| word.load(Ordering::Relaxed)))
        };
        let records: Vec<_> = (first..last).map(read).collect();
        fence(Ordering::Acquire);
        let oldest = oldest();
        for (number, words) in records.into_iter().filter(|(number, _)| *number >= oldest) {
            assert_eq!(words, [number as u32 + 1; 2], "a record that is another, or of two");
        }
        writer.join().expect("it ends");
    });
}

#[test]
fn in_every_order_a_record_that_counts_is_whole() {
    trace(4, MARGIN, Without::Nothing);
}

#[test]
#[should_panic(expected = "a record that is another, or of two")]
fn without_release_a_record_is_read_before_it_is_written() {
    trace(2, MARGIN, Without::Release);
}

#[test]
#[should_panic(expected = "a record that is another, or of two")]
fn without_a_margin_a_record_is_read_that_is_written_over() {
    trace(4, 0, Without::Nothing);
}

//--- The ends of jobs of a graph

/// The words of a graph's nodes; with `fenced` as `fusee_graph::Words` wants them.
struct Nodes<'a> {
    words: &'a [AtomicU64; 3],
    fenced: bool,
}

impl Words for Nodes<'_> {
    fn ended(&mut self, node: usize) -> u64 {
        self.words[node].load(Ordering::Acquire)
    }

    fn end(&mut self, node: usize, job: u64) {
        self.words[node].store(job, Ordering::Release);
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }

    fn waits(&mut self, node: usize) -> bool {
        self.words[2 - node].load(Ordering::Acquire) != 0
    }

    fn say_waits(&mut self, node: usize, waits: bool) {
        self.words[2 - node].store(u64::from(waits), Ordering::Release);
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }
}

/// A reader ends its first job, and a writer with one frame begins its second one: it finds the frame free, or is told.
fn give_back_frame(fenced: bool) {
    explore(3, move || {
        let shared = Arc::new(([const { 0 }; 3].map(AtomicU64::new), AtomicU64::new(0)));
        let back = [Edge { from: 1, to: 0, tokens: Tokens::new(1, 1, 1, 1).expect("an edge") }];
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut words = Nodes { words: &shared.0, fenced };
                words.end(1, 1);
                give_back(&back, &mut words, 1, |_| shared.1.store(1, Ordering::Relaxed));
            })
        };
        let mut words = Nodes { words: &shared.0, fenced };
        let is_free = begin_job(&back, &mut words, 0, 2);
        reader.join().expect("it ends");
        assert!(is_free || shared.1.load(Ordering::Relaxed) == 1, "nobody told the writer");
    });
}

#[test]
fn in_every_order_a_writer_finds_its_frame_free_or_is_told() {
    give_back_frame(true);
}

#[test]
#[should_panic(expected = "nobody told the writer")]
fn without_a_fence_a_writer_may_wait_for_a_frame_that_is_free() {
    give_back_frame(false);
}

/// The word of a writer that goes on beside its readers; with `fenced` as `fusee_graph::Begun` wants it.
struct Writer<'a> {
    word: &'a AtomicU64,
    fenced: bool,
}

impl Begun for Writer<'_> {
    fn began(&mut self, _: usize) -> u64 {
        if self.fenced {
            fence(Ordering::Acquire);
        }
        self.word.load(Ordering::Relaxed)
    }

    fn say_began(&mut self, _: usize, job: u64) {
        self.word.store(job, Ordering::Relaxed);
        if self.fenced {
            fence(Ordering::Release);
        }
    }
}

/// A reader reads the only frame, of job 1, while its writer begins job 2: if it reads anything of that, it knows.
fn write_over(fenced: bool) {
    explore(3, move || {
        let shared = Arc::new((AtomicU64::new(1), [1, 1].map(AtomicU64::new)));
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || {
                Writer { word: &shared.0, fenced }.say_began(0, 2);
                shared.1.iter().for_each(|word| word.store(2, Ordering::Relaxed));
            })
        };
        let seen = shared.1.each_ref().map(|word| word.load(Ordering::Relaxed));
        let lost = is_lost(&mut Writer { word: &shared.0, fenced }, 0, 1, 1);
        writer.join().expect("it ends");
        assert!(seen == [1, 1] || lost, "a reader took another frame for its own");
    });
}

#[test]
fn in_every_order_a_reader_knows_that_its_frame_was_written_over() {
    write_over(true);
}

#[test]
#[should_panic(expected = "a reader took another frame for its own")]
fn without_fences_a_reader_takes_another_frame_for_its_own() {
    write_over(false);
}

/// So many producers of one consumer end a job each: one of them tells it.
fn end_jobs(producers: usize, fenced: bool) {
    explore(3, move || {
        let shared = Arc::new(([const { 0 }; 3].map(AtomicU64::new), AtomicU64::new(0)));
        let edges: Vec<Edge> = (0..producers).map(|from| Edge { from, to: 3, tokens: Tokens::ONE }).collect();
        let end = move |shared: &([AtomicU64; 3], AtomicU64), edges: &[Edge], node| {
            let mut words = Nodes { words: &shared.0, fenced };
            end_job(edges, &mut words, node, 1, |_, upto| shared.1.store(upto, Ordering::Relaxed));
        };
        let others: Vec<_> = (1..producers)
            .map(|node| {
                let (shared, edges) = (shared.clone(), edges.clone());
                thread::spawn(move || end(&shared, &edges, node))
            })
            .collect();
        end(&shared, &edges, 0);
        others.into_iter().for_each(|other| other.join().expect("it ends"));
        assert_eq!(shared.1.load(Ordering::Relaxed), 1, "nobody saw the last token");
    });
}

#[test]
fn in_every_order_the_last_token_is_seen_by_a_producer() {
    end_jobs(2, true);
    end_jobs(3, true);
}

#[test]
#[should_panic(expected = "nobody saw the last token")]
fn without_a_fence_two_producers_may_each_miss_the_others_token() {
    end_jobs(2, false);
}

//! The channel against a queue, against a peer that writes anything, and in every order that memory allows.

extern crate std;
use super::*;
use core::cell::{Cell, RefCell};
use loom::sync::atomic::AtomicU32;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::vec::Vec;

/// An event that counts its signals. Nothing else happens while a side waits: if it is not set, the deadline passes.
#[derive(Clone, Debug, Default)]
struct Counted(Rc<Cell<u32>>);

impl Event for Counted {
    fn signal(&self) -> Result<(), SignalError> {
        self.0.set(self.0.get() + 1);
        Ok(())
    }

    fn wait(&self, _: Instant) -> Result<(), WaitError> {
        if self.0.take() == 0 { Err(WaitError::TimedOut) } else { Ok(()) }
    }

    fn has_passed(&self, _: Instant) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    TrySend,
    Send,
    TryReceive,
    Receive,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![Just(Step::TrySend), Just(Step::Send), Just(Step::TryReceive), Just(Step::Receive)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 20 } else { 2_000 }))]

    /// Values come out as they went in, in that order, and no more than fits; and a waiting side is signalled once, by the
    /// step that ends its wait.
    #[test]
    fn it_is_a_bounded_queue_that_signals_who_waits(
        slots in 0u32..4,
        slack in 0usize..8,
        value in 1usize..20,
        start in prop_oneof![Just(0), u32::MAX - 30..=u32::MAX],
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let capacity = 1usize << slots;
        let memory = SharedBytes::leaked(SLOTS + capacity * value.next_multiple_of(8) + 8 * slack.min(capacity - 1));
        // As after `start` values. (A word that waits for the count zero from the start would be signalled for nothing.)
        for offset in [SENDER + COUNT, SENDER + AWAITED, RECEIVER + COUNT, RECEIVER + AWAITED] {
            memory.write_u32(offset, start);
        }
        let [sent, taken] = [Counted::default(), Counted::default()];
        let bytes = memory.len();
        let mut sender = Side::sender(memory, bytes, value, taken.clone(), sent.clone()).expect("it fits");
        let mut receiver = Side::receiver(memory, bytes, value, sent.clone(), taken.clone()).expect("it fits");
        prop_assert_eq!(sender.capacity as usize, capacity);

        let mut queue = VecDeque::new();
        let [mut sender_waits, mut receiver_waits] = [false; 2];
        for (number, step) in steps.into_iter().enumerate() {
            let timed_out = Err(ChannelError::Wait(WaitError::TimedOut));
            match step {
                Step::TrySend | Step::Send => {
                    let has_room = queue.len() < capacity;
                    if matches!(step, Step::Send) {
                        prop_assert_eq!(sender.wait(Instant::NEVER), if has_room { Ok(()) } else { timed_out });
                        sender_waits = !has_room;
                    }
                    prop_assert_eq!(sender.is_ready(), Ok(has_room));
                    if has_room {
                        let bytes: Vec<u8> = (0..value).map(|byte| (number * 31 + byte) as u8).collect();
                        let before = sent.0.get();
                        prop_assert_eq!(sender.put(&bytes), Ok(()));
                        prop_assert_eq!(sent.0.get() - before, u32::from(receiver_waits));
                        receiver_waits = false;
                        queue.push_back(bytes);
                    }
                }
                Step::TryReceive | Step::Receive => {
                    let oldest = queue.pop_front();
                    if matches!(step, Step::Receive) {
                        let expected = if oldest.is_some() { Ok(()) } else { timed_out };
                        prop_assert_eq!(receiver.wait(Instant::NEVER), expected);
                        receiver_waits = oldest.is_none();
                    }
                    prop_assert_eq!(receiver.is_ready(), Ok(oldest.is_some()));
                    if let Some(oldest) = oldest {
                        let mut bytes = std::vec![0; value];
                        let before = taken.0.get();
                        prop_assert_eq!(receiver.take(&mut bytes), Ok(()));
                        prop_assert_eq!(taken.0.get() - before, u32::from(sender_waits));
                        sender_waits = false;
                        prop_assert_eq!(bytes, oldest);
                    }
                }
            }
        }
    }

    /// Each word read is any word of the peer, and it signals all the time; before the deadline, `rounds` of its signals
    /// arrive.
    #[test]
    fn a_peer_that_writes_anything_gets_garbage_or_a_typed_error(
        is_sender: bool,
        bytes in 0usize..400,
        value in 1usize..40,
        rounds in 0u32..5,
        words in prop::collection::vec(prop_oneof![0u32..20, any::<u32>(), (u32::MAX - 20)..=u32::MAX], 1..60),
        steps in 1usize..40,
    ) {
        let bytes = bytes / 8 * 8;
        let memory = Hostile { memory: SharedBytes::leaked(bytes), words: RefCell::new(words.into_iter().cycle()) };
        let [own, other] = [rounds, rounds].map(|left| Storm { left: Cell::new(left), rounds, waits: Cell::new(0) });
        let new = if is_sender { Side::sender } else { Side::receiver };
        let Some(mut side) = new(memory, bytes, value, own, other) else {
            prop_assert!(bytes < SLOTS + value.next_multiple_of(8));
            return Ok(());
        };
        let mut content = std::vec![0; value];
        for _ in 0..steps {
            side.event.waits.set(0);
            let outcome = side.wait(Instant(1));
            prop_assert!(side.event.waits.get() <= rounds + 1);
            match outcome {
                Ok(()) if is_sender => prop_assert_eq!(side.put(&content), Ok(())),
                Ok(()) => prop_assert_eq!(side.take(&mut content), Ok(())),
                Err(error) => {
                    let timed_out = ChannelError::Wait(WaitError::TimedOut);
                    prop_assert!(error == ChannelError::Corrupt || error == timed_out, "{:?}", error);
                }
            }
        }
    }
}

/// Memory in which each word that is read is another. Where it is written, `SharedBytes` panics outside its bounds.
struct Hostile<I> {
    memory: SharedBytes,
    words: RefCell<I>,
}

impl<I: Iterator<Item = u32>> Memory for Hostile<I> {
    fn observe(&self, offset: usize) -> u32 {
        self.read(offset)
    }

    fn publish(&self, offset: usize, value: u32) {
        self.memory.publish_u32(offset, value);
    }

    fn read(&self, offset: usize) -> u32 {
        let _ = self.memory.read_u32(offset);
        self.words.borrow_mut().next().expect("they are endless")
    }

    fn write(&self, offset: usize, value: u32) {
        self.memory.write_u32(offset, value);
    }

    fn fence(&self) {}

    fn fill(&self, offset: usize, value: &[u8]) {
        assert!(offset >= SLOTS, "the words are no slot");
        self.memory.copy_from_slice(offset, value);
    }

    fn empty(&self, offset: usize, value: &mut [u8]) {
        assert!(offset >= SLOTS, "the words are no slot");
        self.memory.copy_to_slice(offset, value);
    }
}

/// An event that is always set. The deadline passes with the wait that follows `rounds` others.
struct Storm {
    left: Cell<u32>,
    rounds: u32,
    waits: Cell<u32>,
}

impl Event for Storm {
    fn signal(&self) -> Result<(), SignalError> {
        Ok(())
    }

    fn wait(&self, _: Instant) -> Result<(), WaitError> {
        self.waits.set(self.waits.get() + 1);
        Ok(())
    }

    fn has_passed(&self, _: Instant) -> bool {
        let left = self.left.get();
        self.left.set(left.checked_sub(1).unwrap_or(self.rounds));
        left == 0
    }
}

#[test]
fn memory_without_room_for_a_value_is_no_channel() {
    let event = Counted::default();
    for (bytes, value, capacity) in
        [(0, 8, None), (64, 8, None), (128, 1, None), (136, 1, Some(1)), (136, 9, None), (4096, 12, Some(128))]
    {
        let side = Side::sender(SharedBytes::leaked(bytes), bytes, value, event.clone(), event.clone());
        assert_eq!(side.map(|side| side.capacity), capacity, "{bytes} bytes for values of {value}");
    }
    assert!(Side::sender(SharedBytes::leaked(4096), 4096, 0, event.clone(), event).is_none());
}

/// Words that loom keeps: a read may return anything that the C11 memory model allows. Slots are words, too, without
/// any order of their own, as in memory shared with another task.
#[derive(Clone)]
struct Weak {
    words: Arc<Vec<AtomicU32>>,
    has_fences: bool,
}

const LOOM_SLOTS: usize = 2;

impl Weak {
    fn word(&self, offset: usize) -> &AtomicU32 {
        &self.words[match offset {
            SLOTS.. => 4 + (offset - SLOTS) / 8,
            RECEIVER.. => 2 + (offset - RECEIVER) / 4,
            _ => (offset - SENDER) / 4,
        }]
    }
}

impl Memory for Weak {
    fn observe(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Acquire)
    }

    fn publish(&self, offset: usize, value: u32) {
        self.word(offset).store(value, Ordering::Release);
    }

    fn read(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Relaxed)
    }

    fn write(&self, offset: usize, value: u32) {
        self.word(offset).store(value, Ordering::Relaxed);
    }

    fn fence(&self) {
        if self.has_fences {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }

    fn fill(&self, offset: usize, value: &[u8]) {
        self.word(offset).store(u32::from(value[0]), Ordering::Relaxed);
    }

    fn empty(&self, offset: usize, value: &mut [u8]) {
        value[0] = self.word(offset).load(Ordering::Relaxed) as u8;
    }
}

/// A notification: a signal before the wait stays set.
#[derive(Clone, Default)]
struct Sticky(Arc<(loom::sync::Mutex<bool>, loom::sync::Condvar)>);

impl Event for Sticky {
    fn signal(&self) -> Result<(), SignalError> {
        *self.0.0.lock().expect("nobody panics") = true;
        self.0.1.notify_one();
        Ok(())
    }

    fn wait(&self, _: Instant) -> Result<(), WaitError> {
        let mut is_set = self.0.0.lock().expect("nobody panics");
        while !*is_set {
            is_set = self.0.1.wait(is_set).expect("nobody panics");
        }
        *is_set = false;
        Ok(())
    }

    fn has_passed(&self, _: Instant) -> bool {
        false
    }
}

/// Sends `values` values through a queue of `slots`, in every order of at most `preemptions` preemptions.
fn explore(slots: usize, values: u8, preemptions: usize, has_fences: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let words = (0..4 + LOOM_SLOTS).map(|_| AtomicU32::new(0)).collect();
        let memory = Weak { words: Arc::new(words), has_fences };
        let [sent, taken] = [Sticky::default(), Sticky::default()];
        let bytes = SLOTS + 8 * slots;
        let mut sender = Side::sender(memory.clone(), bytes, 1, taken.clone(), sent.clone()).expect("it fits");
        let mut receiver = Side::receiver(memory, bytes, 1, sent, taken).expect("it fits");
        let other = loom::thread::spawn(move || {
            for value in 1..=values {
                sender.wait(Instant::NEVER).expect("an honest peer");
                sender.put(&[value]).expect("an honest peer");
            }
        });
        for expected in 1..=values {
            let mut value = [0];
            receiver.wait(Instant::NEVER).expect("an honest peer");
            receiver.take(&mut value).expect("an honest peer");
            assert_eq!(value, [expected]);
        }
        other.join().expect("the sender has sent all");
    });
}

#[test]
fn in_every_order_all_values_arrive_and_nobody_sleeps_for_ever() {
    explore(1, 2, 4, true);
    explore(2, 3, 3, true);
}

/// The test above must not pass without the full fences.
#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_a_wake_up_is_lost() {
    explore(1, 2, 4, false);
}

//! A heap of a task, for the types of the crate `alloc`: `Box`, `Vec`, `String`, `BTreeMap`.
//!
//! [`heap!`](crate::heap!) gives a program its heap, in memory of its own: no call of the kernel, no lock, and no other task's concern. An
//! allocation that does not fit panics, with the number of bytes: the task ends with its message and code 101, and all others go on.
//!
//! | Allocator | Search | Time of one operation |
//! |---|---|---|
//! | [`ConstantTime`] | lists by size, as TLSF (Masmano and others, 2004) has them | bounded, whatever was allocated before; for jobs with deadlines |
//! | [`FirstFit`] | the first hole that is large enough | grows with the number of holes; eight bytes less for each allocation |
//!
//! Neither moves what is allocated, so a heap may have room in sum and none in one piece. [`Heap::peak`] says how much a program has needed.
//!
//! # Invariants
//!
//! 1. An allocator hands out memory of its own heap, and nothing else touches that.
//! 2. A task is one thread and has no handlers of signals: no operation of a heap begins in the middle of another.
//!
//! Not here: the algorithms (crates `rlsf` and `linked_list_allocator`).

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

/// An allocator, which manages the memory of one [`Heap`].
pub trait Allocator {
    /// An allocator without memory.
    const EMPTY: Self;

    /// Takes over `memory`, the first and only memory it gets.
    ///
    /// # Safety
    /// Nothing else may use `memory` from here on, for as long as the program runs.
    unsafe fn begin(&mut self, memory: NonNull<[u8]>);

    /// Memory of this layout, if there is enough.
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>>;

    /// Takes back memory.
    ///
    /// # Safety
    /// `memory` must come from this allocator, with this layout, and must not have been taken back.
    unsafe fn deallocate(&mut self, memory: NonNull<u8>, layout: Layout);
}

/// Allocates in bounded time, by lists of free blocks of 20 sizes with 16 parts each. Blocks have 32 bytes to 16 MiB.
pub struct ConstantTime(rlsf::Tlsf<'static, u32, u16, 20, 16>);

impl Allocator for ConstantTime {
    const EMPTY: Self = ConstantTime(rlsf::Tlsf::new());

    unsafe fn begin(&mut self, memory: NonNull<[u8]>) {
        // SAFETY: the memory must be the allocator's for its lifetime, which is `'static`: so says the contract of this function.
        _ = unsafe { self.0.insert_free_block_ptr(memory) };
    }

    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.allocate(layout)
    }

    unsafe fn deallocate(&mut self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the memory must come from `allocate` with this alignment, once: so says the contract of this function.
        unsafe { self.0.deallocate(memory, layout.align()) };
    }
}

/// Allocates from the first hole that is large enough.
pub struct FirstFit(linked_list_allocator::Heap);

impl Allocator for FirstFit {
    const EMPTY: Self = FirstFit(linked_list_allocator::Heap::empty());

    unsafe fn begin(&mut self, memory: NonNull<[u8]>) {
        // SAFETY: the memory must be valid, unused and the heap's for ever, and this the first call: so says the contract of this function.
        unsafe { self.0.init(memory.as_ptr().cast(), memory.len()) };
    }

    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.allocate_first_fit(layout).ok()
    }

    unsafe fn deallocate(&mut self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the memory must come from this heap with this layout, once: so says the contract of this function.
        unsafe { self.0.deallocate(memory, layout) };
    }
}

/// `BYTES` bytes of memory, and the allocator that hands them out. [`heap!`](crate::heap!) makes the one of a program.
pub struct Heap<A, const BYTES: usize> {
    state: UnsafeCell<State<A>>,
    memory: UnsafeCell<Memory<BYTES>>,
}

struct State<A> {
    allocator: A,
    has_begun: bool,
    used: usize,
    peak: usize,
}

/// Aligned for all that an allocator writes beside its blocks.
#[repr(C, align(64))]
struct Memory<const BYTES: usize>(MaybeUninit<[u8; BYTES]>);

// SAFETY: no two threads may use a heap at the same time.
// - A task is one thread, and nothing interrupts it to run other code of its program.
// - On the host, where programs have threads, no static of this type is made: there `heap!` is empty.
unsafe impl<A, const BYTES: usize> Sync for Heap<A, BYTES> {}

impl<A: Allocator, const BYTES: usize> Heap<A, BYTES> {
    /// A heap of which nothing is allocated. All zero bytes, but for what the allocator begins with.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a heap is a static")]
    pub const fn new() -> Self {
        let state = State { allocator: A::EMPTY, has_begun: false, used: 0, peak: 0 };
        Self { state: UnsafeCell::new(state), memory: UnsafeCell::new(Memory(MaybeUninit::uninit())) }
    }

    /// Number of bytes that are allocated now, as they were asked for.
    #[must_use]
    pub fn used(&self) -> usize {
        self.with(|state| state.used)
    }

    /// The largest number of bytes that were allocated at one time, as they were asked for.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.with(|state| state.peak)
    }

    /// Number of bytes of its memory, of which the allocator keeps some for itself.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        BYTES
    }

    fn with<T>(&self, operation: impl FnOnce(&mut State<A>) -> T) -> T {
        // SAFETY: no other reference to the state may exist.
        // - It is private, and leaves no operation.
        // - No operation begins in the middle of another: see the invariants of this module.
        let state = unsafe { &mut *self.state.get() };
        if !state.has_begun {
            state.has_begun = true;
            let memory = ptr::slice_from_raw_parts_mut(self.memory.get().cast::<u8>(), BYTES);
            if let Some(memory) = NonNull::new(memory) {
                // SAFETY: nothing else may use the memory: the field is private, and this is done once.
                unsafe { state.allocator.begin(memory) };
            }
        }
        operation(state)
    }
}

// SAFETY: memory must be valid for its layout, and stay where it is until it is given back.
// - Valid: both crates keep to the size and the alignment of a layout, and hand out no byte twice.
// - Stays: the memory is a part of this value, which is a static; a null pointer says that there is too little.
unsafe impl<A: Allocator, const BYTES: usize> GlobalAlloc for Heap<A, BYTES> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.with(|state| {
            let memory = state.allocator.allocate(layout);
            if memory.is_some() {
                state.used += layout.size();
                state.peak = state.peak.max(state.used);
            }
            memory.map_or(ptr::null_mut(), NonNull::as_ptr)
        })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let Some(memory) = NonNull::new(memory) else { return };
        self.with(|state| {
            state.used -= layout.size();
            // SAFETY: the memory must come from here, with this layout, once: so says the contract of `dealloc`.
            unsafe { state.allocator.deallocate(memory, layout) };
        });
    }
}

/// Gives the program a heap of so many bytes: `fusee::heap!(64 * 1024)`. A second argument names another [allocator](Allocator) than
/// [`ConstantTime`]. `HEAP` is the heap, for its figures.
///
/// On the host the macro is empty: programs have the host's heap there.
#[cfg(target_os = "none")]
#[macro_export]
macro_rules! heap {
    ($bytes:expr) => {
        $crate::heap!($bytes, $crate::heap::ConstantTime);
    };
    ($bytes:expr, $allocator:ty) => {
        #[global_allocator]
        static HEAP: $crate::heap::Heap<$allocator, { $bytes }> = $crate::heap::Heap::new();
    };
}

/// Gives the program a heap: on the host it has one.
#[cfg(not(target_os = "none"))]
#[macro_export]
macro_rules! heap {
    ($bytes:expr $(, $allocator:ty)?) => {};
}

//! A program with a heap of 256 KiB, whose allocator searches as `fusee::heap::ConstantTime` does.
//!
//! Handles: none. Parameters: "rounds", of a random history; "bound" of its operations, in ticks of the counter; "exhaust": allocates until nothing is left, and so panics. Logs `log(1, ticks)`, the
//! longest allocation, `log(2, ticks)`, the longest release of memory, and `log(3, bytes)`, the most that was allocated at one time.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

#[path = "../heaps.rs"]
mod heaps;

fusee::entry!(main);
fusee::heap!(256 * 1024, fusee::heap::ConstantTime);

fn main() {
    // On the host the heap is the host's.
    #[cfg(not(target_os = "none"))]
    heaps::run(|| 0);
    #[cfg(target_os = "none")]
    heaps::run(|| HEAP.peak());
}

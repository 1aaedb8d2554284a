//! A thread that becomes ready is marked there: its state is written by one module.

use fusee_kernel_core::object::{State, Thread};

fn thread_made_ready_past_its_door(thread: &mut Thread) {
    thread.state = State::Ready;
}

fn main() {}

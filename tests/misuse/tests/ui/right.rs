//! The right use of the interface: each function is named like the mistake that it does not make.
#![deny(unused_must_use)]
#![allow(dead_code)]

use fusee::gpu::compute::{self, Input, Kernel, Output};
use fusee::gpu::{Board, Buffer, Context, Local, Operation, Pending, Work, library::Product};
use fusee::{Endpoint, Engine, EngineGuard, Instant, Place, Pool, Rights, Server, Token};
use fusee_kernel_core::object::{self, Cpu, Reservation, State, Thread};
use fusee_sched::time::Nanoseconds;

compute::arguments! {
    struct Negative {
        pixels: u32,
    }
}

impl Kernel for Negative {
    const NAME: &'static str = "negative";
    type Views<'m> = (Input<'m, u8>, Output<'m, u8>);

    fn elements(&self) -> [usize; 2] {
        [self.pixels as usize; 2]
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn time(&self, _: core::ops::Range<u32>) -> u64 {
        1_000_000
    }

    fn block(&self, _: u32, _: Self::Views<'_>) {}
}

/// A launch has a buffer for each view of its kernel.
fn launch_without_a_buffer(picture: &Buffer<Local>, negative: &mut Buffer<Local>) {
    drop(Work::launch(Negative { pixels: 64 }, (picture, negative)));
}

/// A buffer that a kernel writes is borrowed mutably.
fn launch_that_writes_what_it_may_read(picture: &Buffer<Local>, negative: &mut Buffer<Local>) {
    drop(Work::launch(Negative { pixels: 64 }, (picture, negative)));
}

/// A buffer that a kernel writes is none of its other views.
fn launch_with_one_buffer_twice(picture: &mut Buffer<Local>) {
    let mut negative = picture.split_off(64);
    drop(Work::launch(Negative { pixels: 64 }, (&*picture, &mut negative)));
}

/// Arguments have types.
fn launch_with_an_argument_of_another_type(picture: &Buffer<Local>, negative: &mut Buffer<Local>) {
    drop(Work::launch(Negative { pixels: 64_u32 }, (picture, negative)));
}

/// A buffer that an operation under way writes belongs to no other.
fn launch_into_a_buffer_that_is_in_use(picture: &Buffer<Local>, negative: &mut Buffer<Local>) {
    let first = Work::launch(Negative { pixels: 64 }, (picture, &mut *negative));
    drop(first);
    let second = Work::launch(Negative { pixels: 64 }, (picture, &mut *negative));
    drop(second);
}

/// An engine that was given back cannot be rung.
fn engine_used_after_its_release(context: &Context, guard: EngineGuard<'_>) {
    let _ = context.start(&guard, Operation::Burn { time: 1 });
    let _ = guard.release();
}

/// An engine that was given back is not there to be given back.
fn engine_released_twice(guard: EngineGuard<'_>) {
    let _ = guard.release();
}

/// As for engines.
fn token_released_twice(token: Token<'_>) {
    let _ = token.release();
}

/// A task has one token of a pool at most.
fn two_tokens_of_one_pool(pool: &mut Pool) {
    let one = pool.acquire(Instant::NEVER);
    drop(one);
    let other = pool.acquire(Instant::NEVER);
    drop(other);
}

/// An engine acquired with a token is given back before it.
fn token_given_back_before_its_engine(token: Token<'_>, engine: &Engine) {
    let guard = token.acquire(engine, Instant::NEVER);
    drop(guard);
    drop(token);
}

/// A task that asks for a token and lets it go has not got it.
fn token_dropped_at_once(pool: &mut Pool) {
    if let Ok(token) = pool.acquire(Instant::NEVER) {
        drop(token);
    }
}

/// Nothing is submitted to an engine, only to the guard of one.
fn work_submitted_to_an_engine_that_is_not_held(context: &Context, engine: &Engine) {
    if let Ok(guard) = engine.acquire(Instant::NEVER) {
        let _ = context.submit(&guard, Operation::Burn { time: 1 });
    }
}

/// An engine is held until its submitted operations have been waited for.
fn engine_released_while_its_operation_runs(context: &Context, guard: EngineGuard<'_>) {
    let burn = context.submit(&guard, Operation::Burn { time: 1 });
    drop(burn);
    let _ = guard.release();
}

/// An operation ends once.
fn operation_waited_for_twice(operation: Pending<'_>) {
    let _ = operation.wait();
}

/// Work does nothing by itself.
fn work_that_is_not_submitted(context: &Context, guard: &EngineGuard<'_>, source: &Buffer, destination: &mut Buffer<Local>) {
    let _ = context.submit(guard, Work::copy_in(source, destination));
}

/// A task that drops an operation does not learn whether it failed.
fn operation_that_nobody_waits_for(operation: fn() -> Pending<'static>) {
    let _ = operation().wait();
}

/// A source stays as it is until the copy has been waited for.
fn buffer_written_while_a_copy_reads_it(context: &Context, guard: &EngineGuard<'_>, source: &mut Buffer, destination: &mut Buffer<Local>) {
    let copy = context.submit(guard, Work::copy_in(source, destination));
    let _ = source.read_u32(0);
    drop(copy);
    source.write_u32(0, 1);
}

/// A copy's result is read after the copy has been waited for.
fn buffer_read_while_a_copy_writes_it(context: &Context, guard: &EngineGuard<'_>, source: &Buffer<Local>, destination: &mut Buffer) {
    let copy = context.submit(guard, Work::copy_out(source, destination));
    drop(copy);
    let _ = destination.read_u32(0);
}

/// Two operations under way do not write to one place.
fn one_destination_of_two_operations(context: &Context, guard: &EngineGuard<'_>, source: &Buffer<Local>, destination: &mut Buffer) {
    let mut other = destination.split_off(64);
    let first = context.submit(guard, Work::copy_out(source, destination));
    let second = context.submit(guard, Work::copy_out(source, &mut other));
    drop((first, second));
}

/// The result of a launch is no operand of it.
fn one_buffer_as_operand_and_result(left: &Buffer<Local>, right: &Buffer<Local>, product: &mut Buffer<Local>) {
    drop(Work::launch(Product { order: 16, time: 0 }, (left, right, product)));
}

/// A task has no address for memory of the device.
fn memory_of_the_device_read_without_a_copy(buffer: &Buffer<Board>) {
    let _ = buffer.read_u32(0);
}

/// Copies go from the memory of the board to that of the device, or the other way.
fn copy_within_one_memory(source: &Buffer<Board>, destination: &mut Buffer<Local>) {
    drop(Work::copy_in(source, destination));
}

/// An engine and a token stay with the task that acquired them; engines may be named anywhere.
fn engine_handed_to_a_thread(engine: Engine, pool: Pool) {
    thread(engine);
    thread(pool);
}

/// No other task can be given an engine that this one holds.
fn engine_given_in_a_message(endpoint: &Endpoint, other: &Endpoint) {
    let _ = endpoint.call_with([0; 6], other, Rights::ALL, Instant::NEVER);
}

/// A region that was lent with a call is gone with the reply.
fn region_used_after_the_call_that_lent_it(server: &mut Server, place: &Place) -> Option<()> {
    let request = server.receive(Instant::NEVER).ok()?;
    let word = request.lent(place)?.read_u64(0);
    let _ = server.reply_receive(request.token, [word; 6], Instant::NEVER);
    Some(())
}

/// A request has one reply.
fn request_answered_twice(server: &mut Server) -> Option<()> {
    let request = server.receive(Instant::NEVER).ok()?;
    let _ = server.reply_receive(request.token, [0; 6], Instant::NEVER);
    Some(())
}

pub fn thread<T: Send>(_: T) {}

/// The state of a thread is there to be read.
fn thread_made_ready_past_its_door(thread: &Thread) {
    assert_eq!(thread.state(), State::Dormant);
}

/// The runner of a reservation is there to be read.
fn reservation_given_a_runner_past_the_links(reservation: &Reservation) {
    assert_eq!(reservation.runner(), None);
}

/// The callers of an endpoint are there to be read.
fn endpoint_given_a_caller_past_its_queue(endpoint: &object::Endpoint) {
    assert!(endpoint.callers().is_empty());
}

/// The lock of an engine is there to be read.
fn engine_lock_granted_past_its_owner(engine: &object::Engine) {
    assert!(engine.lock().waiters().is_empty());
}

/// The ledger of a CPU is there to be read.
fn time_booked_twice(cpu: &Cpu, span: Nanoseconds) {
    assert!(cpu.kernel() + cpu.idle() >= span);
}

/// The rights of a handle are there to be read.
fn handle_given_more_rights(handle: &object::Handle) {
    assert_ne!(handle.rights(), u16::MAX);
}

fn main() {}

//! System calls: the function that serves each number.

use fusee_abi::Error;
use fusee_abi::call::{Call, NUMBER, rights};
use fusee_abi::trace::Event;
use fusee_sched::cpu::CpuId;
use fusee_sched::key::Class;

use crate::id::ThreadId;
use crate::limits::{GATES, PAGES_PER_TRAP, RESTARTS, STREAMS};
use crate::object::Object;
use crate::{Kernel, Machine};

impl Kernel {
    /// The call in the registers of `thread`. Calls that suspend write the result when they end.
    pub(crate) fn call_trap<M: Machine>(&mut self, machine: &mut M, cpu: CpuId, thread: ThreadId) {
        let number = machine.registers(thread).general[NUMBER];
        // Calls that concern no other thread need no clock.
        if !matches!(
            Call::from_number(number),
            Some(Call::Map | Call::Unmap | Call::Revoke | Call::Share | Call::Log | Call::Dma)
        ) {
            self.now = machine.now();
        }
        let result = self.dispatch_call(machine, cpu, thread, number);
        if let Err(error) = result {
            machine.registers(thread).general[0] = error as u64;
        }
    }

    fn dispatch_call<M: Machine>(
        &mut self,
        machine: &mut M,
        cpu: CpuId,
        thread: ThreadId,
        number: u64,
    ) -> Result<(), Error> {
        match Call::from_number(number).ok_or(Error::BadCall)? {
            Call::Null => done(machine, thread),
            Call::Call | Call::CallWith => self.call(machine, thread, false),
            Call::Send => {
                machine.registers(thread).general[1] = 0;
                self.call(machine, thread, true)
            }
            Call::ReplyReceive => self.reply_receive(machine, thread, true),
            Call::Receive => self.reply_receive(machine, thread, false),
            Call::Signal => {
                self.signal_call(machine, thread)?;
                done(machine, thread)
            }
            Call::Wait => {
                self.may_wait_here(machine, thread)?;
                self.checkpoint(machine, thread)?;
                self.wait_call(machine, thread)
            }
            Call::NextJob => self.next_job(machine, cpu, thread),
            Call::ReleaseJob => {
                self.release_job(machine, thread)?;
                done(machine, thread)
            }
            Call::EarlyRelease => {
                self.early_release(machine, cpu, thread)?;
                done(machine, thread)
            }
            Call::Yield => {
                self.checkpoint(machine, thread)?;
                self.yield_turn(cpu, thread);
                done(machine, thread)
            }
            Call::Acquire => {
                self.may_wait_here(machine, thread)?;
                self.checkpoint(machine, thread)?;
                self.acquire(machine, thread)
            }
            Call::AcquireGroup => {
                self.may_wait_here(machine, thread)?;
                self.checkpoint(machine, thread)?;
                self.acquire_group(machine, thread)
            }
            Call::Release => {
                self.release_lock(machine, thread)?;
                done(machine, thread)
            }
            Call::ShouldYield => self.should_yield(machine, thread),
            Call::Map => self.set_mapped(machine, thread, true),
            Call::Unmap => self.set_mapped(machine, thread, false),
            Call::Revoke => {
                self.revoke(machine, thread)?;
                done(machine, thread)
            }
            Call::InterruptAck => {
                self.interrupt_ack(machine, thread)?;
                done(machine, thread)
            }
            Call::EngineComplete => {
                self.engine_complete(machine, thread)?;
                done(machine, thread)
            }
            Call::Now => {
                let now = machine.now();
                self.charge(machine, cpu, now);
                let charged = self.threads[thread].statistics().time.0;
                let general = &mut machine.registers(thread).general;
                general[1] = now.0;
                general[2] = charged;
                done(machine, thread)
            }
            Call::SleepUntil => {
                self.may_wait_here(machine, thread)?;
                self.checkpoint(machine, thread)?;
                self.sleep(machine, thread);
                Ok(())
            }
            Call::Stop => {
                self.stop_call(machine, thread)?;
                done(machine, thread)
            }
            Call::Exit => self.exit_call(machine, thread),
            Call::Log => {
                let general = machine.registers(thread).general;
                self.trace_number(machine, Event::Log, Some(thread), general[0] as u32, general[1]);
                done(machine, thread)
            }
            Call::Share if GATES => {
                self.share(machine, thread)?;
                done(machine, thread)
            }
            Call::Start | Call::Restart if RESTARTS => {
                self.restart(machine, thread, number == Call::Start as u64)?;
                done(machine, thread)
            }
            Call::SetReservation if RESTARTS => {
                self.set_reservation(machine, thread)?;
                done(machine, thread)
            }
            Call::ReadFault if RESTARTS => {
                self.read_end(machine, thread)?;
                done(machine, thread)
            }
            Call::Dma if STREAMS => self.dma(machine, thread),
            Call::Share | Call::Dma | Call::Start | Call::Restart | Call::SetReservation | Call::ReadFault => {
                Err(Error::Unsupported)
            }
        }
    }

    /// `yield`: a service or background thread goes to the end of its class. Real-time jobs have no equals
    /// to yield to: for them it only looks at the plan again.
    fn yield_turn(&mut self, cpu: CpuId, thread: ThreadId) {
        self.cpus[cpu].request_reschedule();
        if let Some(reservation) = self.threads[thread].chosen()
            && self.reservations[reservation].class() != Class::RealTime
        {
            self.renew_key(reservation);
        }
    }

    /// `map` and `unmap`: at most so many pages a trap; `x1` counts them, and the call starts again.
    fn set_mapped<M: Machine>(&mut self, machine: &mut M, thread: ThreadId, mapped: bool) -> Result<(), Error> {
        let Object::Region(region) = self.argument(machine, thread, rights::MAP)? else { return Err(Error::WrongKind) };
        let pages = self.regions[region].pages();
        let first = machine.registers(thread).general[1];
        if first >= pages {
            return Err(Error::BadArgument);
        }
        let count = PAGES_PER_TRAP.min(pages - first);
        machine.set_region_pages(thread, region, first, count, mapped);
        let registers = machine.registers(thread);
        if first + count == pages {
            registers.general[0] = 0;
        } else {
            registers.general[1] = first + count;
            again(machine, thread);
        }
        Ok(())
    }

    /// `dma`: lets a device reach its memory, or keeps it from that.
    ///
    /// # Errors
    /// [`Error::Unsupported`]: the region is neither that of DMA faults nor of a device behind an SMMU that `thread` drives; and those of each handle.
    fn dma<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let Object::Region(region) = self.argument(machine, thread, rights::READ)? else {
            return Err(Error::WrongKind);
        };
        let value = machine.registers(thread).general[1];
        let value = machine.set_dma(thread, region, value).ok_or(Error::Unsupported)?;
        machine.registers(thread).general[1] = value;
        done(machine, thread)
    }

    /// `exit`: of the task; with a handle to the system, of the system.
    fn exit_call<M: Machine>(&mut self, machine: &mut M, thread: ThreadId) -> Result<(), Error> {
        let general = machine.registers(thread).general;
        if general[0] == 0 {
            self.exit(machine, thread, general[1]);
            return Ok(());
        }
        let Object::System = self.argument(machine, thread, rights::SHUTDOWN)? else { return Err(Error::WrongKind) };
        self.shut_down(machine, general[1]);
        done(machine, thread)
    }
}

/// `thread` makes its call again when it runs.
pub(crate) fn again<M: Machine>(machine: &mut M, thread: ThreadId) {
    let registers = machine.registers(thread);
    registers.program_counter = registers.program_counter.wrapping_sub(4);
}

/// Success, without a value.
#[inline]
fn done<M: Machine>(machine: &mut M, thread: ThreadId) -> Result<(), Error> {
    machine.registers(thread).general[0] = 0;
    Ok(())
}

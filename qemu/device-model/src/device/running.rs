//! Commands: each is started, worked on, announced and retired.

use super::{Device, Ring, Running};
use crate::launch;
use crate::space::{Access, Fault};
use crate::times::{Launched, Measured, Unmeasured};
use crate::work::{self, Progress, Slice};
use crate::{Bus, Description, Job, Ran};
use fusee_accel::sharing::{Arrival, Client, Sharing, Waiting};
use fusee_accel_contract::{
    COMMAND_BYTES, CONTEXT_FAULT, CONTEXT_FAULT_ADDRESS, CONTEXT_FAULT_COMMAND, CONTEXT_FAULT_COUNT, CONTEXTS,
    CONTROL_LATE_COMPLETIONS, Command, EngineIndex, FENCE_ERROR, FaultKind, FaultWord, INJECT_LATE, INJECT_LIE,
    INJECT_LOST, INJECT_SPURIOUS, Launch, MORE_BYTES, Memory, Operation, RING_BASE, RING_ENTRIES, control_context,
    more_offset, ring_slot, status_backlogged, status_begun, status_busy, status_counted, status_ended, status_retired,
    status_running,
    timing::{self, Slowdown},
};
use fusee_compute::find;

/// The number of times that a kernel may go on to compute the needs of its launch, if it is interrupted: an author may have made it endless, and
/// meanwhile no engine of the device is served. Where time consists of executed instructions it also goes on no third time after so many nanoseconds;
/// elsewhere time says nothing, as a host may do something else all the while.
const PLAN_SLICES: usize = 32;
const PLAN_TIME: u64 = 100_000;

impl Device {
    /// Starts the next command on a free engine, if one is queued.
    pub(super) fn start_next(&mut self, engine: EngineIndex, now: u64, bus: &mut impl Bus) {
        if engine == EngineIndex::Execution && self.has_sms() {
            return;
        }
        let is_empty = |ring: &Ring| ring.next == ring.seen;
        if self.engines[engine.number()].running.is_some() || self.rings[engine.number()].iter().all(is_empty) {
            return;
        }
        let is_shut = self.is_shut(engine, bus);
        let mut kept_out = [false; CONTEXTS];
        for (context, kept_out) in kept_out.iter_mut().enumerate() {
            let ring = &self.rings[engine.number()][context];
            *kept_out = is_shut && ring.next != ring.seen && self.is_shared(context, bus);
        }
        let was_shut = core::mem::replace(&mut self.engines[engine.number()].was_shut, is_shut);
        let begins_late = was_shut && !is_shut;
        let unit = &self.engines[engine.number()];
        let waiting = |context: usize, ring: &Ring| Waiting {
            client: Client(context as u8),
            arrival: Arrival(ring.arrivals[(ring.next % RING_ENTRIES) as usize]),
        };
        let heads = || {
            let rings = self.rings[engine.number()].iter().enumerate();
            let rings = rings.filter(|(context, ring)| ring.next != ring.seen && !kept_out[*context]);
            rings.map(|(context, ring)| waiting(context, ring))
        };
        // The choice is made when the engine becomes free, or when the first command arrives;
        // later commands are no part of it.
        let Some(first) = heads().map(|head| head.arrival.0).min() else { return };
        let start = unit.free_at.max(first).max(if begins_late { now } else { 0 });
        let mut list = [Waiting { client: Client(0), arrival: Arrival(0) }; CONTEXTS];
        let mut length = 0;
        for (place, head) in list.iter_mut().zip(heads().filter(|head| head.arrival.0 <= start)) {
            *place = head;
            length += 1;
        }
        let list = &list[..length];
        // A policy that answers nonsense gets the first.
        let chosen = self.engines[engine.number()]
            .arbiter
            .choose(list)
            .and_then(|position| list.get(position))
            .unwrap_or(&list[0]);
        let context = usize::from(chosen.client.0);
        let shares = self.is_shared(context, bus);
        if shares && !self.enter(engine, bus) {
            return;
        }
        self.start(engine, context, shares, start, bus);
    }

    /// Counts a shared command as begun, if the gate is open after that.
    pub(crate) fn enter(&mut self, engine: EngineIndex, bus: &mut impl Bus) -> bool {
        let status = self.description.status;
        let unit = &mut self.engines[engine.number()];
        unit.begun = unit.begun.wrapping_add(1);
        let _ = bus.write_u32(status + status_begun(engine), unit.begun);
        bus.settle();
        if !self.is_shut(engine, bus) {
            return true;
        }
        // The gate was shut in between. The reader that shut it may have seen this command, and waits for it.
        let unit = &mut self.engines[engine.number()];
        unit.was_shut = true;
        unit.ended = unit.ended.wrapping_add(1);
        let _ = bus.write_u32(status + status_ended(engine), unit.ended);
        self.interrupt = true;
        false
    }

    /// Adds the time until `end` to that of contexts which have been backlogged.
    pub(crate) fn count(&mut self, engine: EngineIndex, end: u64, bus: &mut impl Bus) {
        if !self.description.counters {
            return;
        }
        let status = self.description.status;
        let unit = &mut self.engines[engine.number()];
        let passed = end.saturating_sub(unit.counted);
        unit.counted = unit.counted.max(end);
        let is_others = unit.running.is_some_and(|running| !running.shares);
        for (context, ring) in self.rings[engine.number()].iter().enumerate() {
            if ring.seen != ring.retired && !(is_others && self.is_shared(context, bus)) {
                let backlogged = &mut self.engines[engine.number()].backlogged[context];
                *backlogged = backlogged.saturating_add(passed);
                let _ = bus.write_u64(status + status_backlogged(engine, context), *backlogged);
            }
        }
    }

    /// The command that ran has done so until `end`.
    pub(super) fn free(&mut self, engine: EngineIndex, running: &Running, end: u64, bus: &mut impl Bus) {
        let Description { status, counters, .. } = self.description;
        let unit = &mut self.engines[engine.number()];
        unit.running = None;
        unit.free_at = end;
        unit.busy = unit.busy.saturating_add(end - running.start);
        let _ = bus.write_u64(status + status_busy(engine), unit.busy);
        if counters {
            let ran = &mut unit.ran[running.context];
            *ran = ran.saturating_add(end - running.start);
            let _ = bus.write_u64(status + status_counted(engine, running.context), *ran);
        }
    }

    /// A command runs no more.
    pub(super) fn leave(&mut self, engine: EngineIndex, running: &Running, bus: &mut impl Bus) {
        let status = self.description.status;
        let _ = bus.write_u32(status + status_running(engine), 0);
        if running.shares {
            let unit = &mut self.engines[engine.number()];
            unit.ended = unit.ended.wrapping_add(1);
            let _ = bus.write_u32(status + status_ended(engine), unit.ended);
            bus.settle();
        }
    }

    fn start(&mut self, engine: EngineIndex, context: usize, shares: bool, start: u64, bus: &mut impl Bus) {
        let running = self.description.status + status_running(engine);
        let _ = bus.write_u32(running, context as u32 + 1);
        let running = self.begin(engine, context, shares, start, bus);
        self.engines[engine.number()].running = Some(running);
    }

    /// Takes the next command of a context's ring, which runs from `start` on, and computes its end if it runs alone.
    pub(crate) fn begin(
        &mut self,
        engine: EngineIndex,
        context: usize,
        shares: bool,
        start: u64,
        bus: &mut impl Bus,
    ) -> Running {
        let ring = self.ring(engine, context);
        let number = ring.next;
        ring.next = ring.next.wrapping_add(1);

        let slot = RING_BASE + ring_slot(engine, number);
        let bad = Fault { kind: FaultKind::BadCommand, address: slot };
        let fetched = self.fetch(context, slot, bus);
        let command = fetched
            .and_then(|bytes| self.decode(&bytes, context, number, bus)?.ok_or(bad))
            .and_then(|command| if command.operation.runs_on(engine) { Ok(command) } else { Err(bad) });
        let prepared = command.and_then(|command| match &command.operation {
            Operation::Launch(launch) => self.prepare(launch, context, bad, bus).map(Some),
            _ => Ok(None),
        });
        let command = command.and_then(|command| Ok((command, prepared?)));
        let lied = self.does(INJECT_LIE, context, bus);
        let switches = self.engines[engine.number()].last.replace(context) != Some(context);
        let runs_from = start.saturating_add(if switches { self.description.switch } else { 0 });
        let running = match command {
            Ok((command, prepared)) => Running {
                context,
                number,
                start,
                due: runs_from
                    .saturating_add(prepared.and_then(|launched| launched.said).unwrap_or(0))
                    .saturating_add(timing::modelled_time_over(self.way(&command, context, bus), &command, engine)),
                operation: command.operation,
                fence: command.fence,
                fault: None,
                progress: match command.operation {
                    Operation::Burn { .. } => Progress::Finished,
                    _ => Progress::Slices(0),
                },
                launched: prepared,
                lied,
                shares,
            },
            Err(fault) => Running {
                context,
                number,
                start,
                due: runs_from.saturating_add(timing::SETUP),
                operation: Operation::Burn { time: timing::SETUP },
                fence: fetched.ok().and_then(|bytes| Command::fence_of(&bytes)),
                fault: Some(fault),
                progress: Progress::Finished,
                launched: None,
                lied,
                shares,
            },
        };
        if lied {
            self.retire(engine, &running, bus);
            self.interrupt |= !shares;
            self.kept_back |= shares;
        }
        running
    }

    /// When the next command of a context's ring came, if there is one.
    pub(crate) fn next_arrival(&self, engine: EngineIndex, context: usize) -> Option<u64> {
        let ring = &self.rings[engine.number()][context];
        (ring.next != ring.seen).then_some(ring.arrivals[(ring.next % RING_ENTRIES) as usize])
    }

    /// The command in a slot of a ring, and the words beside it; nothing, if that is no command.
    fn decode(
        &self,
        bytes: &[u8; COMMAND_BYTES],
        context: usize,
        number: u32,
        bus: &mut impl Bus,
    ) -> Result<Option<Command>, Fault> {
        let mut more = [0; MORE_BYTES];
        if Command::has_more(bytes) {
            let at = RING_BASE + more_offset(number);
            self.space(context, at, bus)?.read(bus, at, Memory::System, &mut more)?;
        }
        Ok(Command::decode_with(bytes, &more).ok())
    }

    /// Computes the needs of a launch, if it is possible. `bad` is the fault if the kernel does not do such a launch.
    fn prepare(&mut self, launch: &Launch, context: usize, bad: Fault, bus: &mut impl Bus) -> Result<Launched, Fault> {
        let unknown = Fault { kind: FaultKind::NoKernel, address: launch.kernel.into() };
        let entry = find(self.kernels, launch.kernel).ok_or(unknown)?;
        let space = self.space(context, bad.address, bus)?;
        let first = self.jobs + 1;
        let job = Job::plan(entry, launch, space, (self.description.control, self.jobs));
        let before = bus.spent();
        let mut ran = bus.run(&job);
        for again in 1..PLAN_SLICES {
            let has_time = !self.is_exact || again == 1 || bus.spent() - before < PLAN_TIME;
            if has_time && matches!(ran, Ok(Ran::Unfinished)) {
                ran = bus.run(&job);
            }
        }
        self.jobs = first + u64::from(launch.blocks);
        let plan = match ran {
            Ok(Ran::Planned(plan)) => plan.ok_or(bad)?,
            Err((kind, address)) => return Err(Fault { kind, address }),
            Ok(Ran::Done | Ran::Unfinished) => {
                return Err(Fault { kind: FaultKind::TooLong, address: launch.first.into() });
            }
        };
        launch::check(&plan, &space, self.description.copy_engines.operands(), bus)?;
        let said = match plan.time {
            Some(time) => Some(time),
            None => self
                .times
                .of(launch.kernel, plan.class, launch.blocks)
                .map_err(|Unmeasured| Fault { kind: FaultKind::NotMeasured, address: plan.class.into() })?,
        };
        // A launch that is being measured has a poll for each block.
        let of_block = said.map_or(u64::MAX, |said| said / u64::from(launch.blocks) / timing::INSTRUCTION);
        let instructions = usize::try_from(of_block).unwrap_or(usize::MAX).min(work::ENOUGH);
        Ok(Launched { entry, class: plan.class, first, instructions, said, ran: 0, longest: 0, block: 0 })
    }

    /// The way that a copy takes: that of its first byte, if it comes from a peer. A copy that faults takes any.
    fn way(&self, command: &Command, context: usize, bus: &mut impl Bus) -> Slowdown {
        let Operation::PeerCopy { source, .. } = command.operation else { return self.description.slowdown };
        let found =
            self.space(context, source, bus).and_then(|space| space.translate(bus, source, Memory::Peer, Access::Read));
        let peer = found.ok().and_then(|page| self.description.peers.iter().find(|peer| peer.memory.contains(page, 1)));
        peer.map_or(Slowdown::NEAR, |peer| peer.slowdown)
    }

    /// Does a slice of work, or several small ones.
    pub(super) fn work(&mut self, engine: EngineIndex, now: u64, bus: &mut impl Bus) {
        let Some(mut running) = self.engines[engine.number()].running else { return };
        let late_from = running.due.saturating_add(timing::LATE_TOLERANCE / 2);
        self.work_on(&mut running, engine, (u64::MAX, late_from), now, bus);
        self.engines[engine.number()].running = Some(running);
    }

    /// Does a slice of work of this command, up to slice or block `available`; a block that is worked on after `late_from` takes too long.
    pub(crate) fn work_on(
        &mut self,
        running: &mut Running,
        engine: EngineIndex,
        (available, late_from): (u64, u64),
        now: u64,
        bus: &mut impl Bus,
    ) {
        let space = self.space(running.context, 0, bus);
        let mut instructions = 0;
        while let Progress::Slices(done) = running.progress
            && instructions < work::ENOUGH
            && done < available
        {
            let operation = running.operation;
            let before = bus.spent();
            let slice = space.and_then(|space| match (&operation, running.launched) {
                (Operation::Launch(launch), Some(Launched { entry, first, instructions, .. })) => {
                    let block = launch.first + done as u32;
                    let late = now > late_from;
                    if late && self.is_exact && running.launched.is_some_and(|launched| launched.said.is_some()) {
                        return Err(Fault { kind: FaultKind::TooLong, address: block.into() });
                    }
                    let job = Job::block(entry, launch, block, space, (self.description.control, first + done));
                    let progress = match bus.run(&job) {
                        Ok(Ran::Unfinished) => {
                            return Ok(Slice { progress: running.progress, instructions: work::ENOUGH });
                        }
                        Err((kind, address)) => return Err(Fault { kind, address }),
                        Ok(_) if done + 1 == u64::from(launch.blocks) => Progress::Finished,
                        Ok(_) => Progress::Slices(done + 1),
                    };
                    Ok(Slice { progress, instructions })
                }
                _ => work::slice(&operation, engine, done, &space, bus),
            });
            if let Some(launched) = &mut running.launched {
                let ran = bus.spent() - before;
                launched.ran += ran;
                launched.block += ran;
                launched.longest = launched.longest.max(launched.block);
                if slice.as_ref().is_ok_and(|slice| slice.progress != running.progress) {
                    launched.block = 0;
                }
            }
            match slice {
                Ok(slice) => {
                    running.progress = slice.progress;
                    instructions += slice.instructions;
                }
                Err(fault) => {
                    running.fault = Some(fault);
                    running.progress = Progress::Finished;
                }
            }
        }
    }

    /// Tells everybody that a command has ended: fault, fence, retired word, interrupt.
    pub(super) fn announce(&mut self, engine: EngineIndex, now: u64, bus: &mut impl Bus) {
        let Some(running) = self.engines[engine.number()].running else { return };
        self.count(engine, running.due, bus);
        self.free(engine, &running, running.due, bus);
        self.tell(engine, &running, now, bus);
    }

    /// Announces the end of a command that runs no more.
    pub(crate) fn tell(&mut self, engine: EngineIndex, running: &Running, now: u64, bus: &mut impl Bus) {
        let Description { control, .. } = self.description;
        let is_measured = running.launched.is_some_and(|launched| launched.said.is_none());
        if !is_measured && now > running.due.saturating_add(timing::LATE_TOLERANCE) {
            self.late_completions = self.late_completions.saturating_add(1);
            let _ = bus.write_u32(control + CONTROL_LATE_COMPLETIONS, self.late_completions);
        }
        if let (Some(launched), None) = (running.launched, running.fault) {
            Measured::take_down(&mut self.measured, &launched, control, bus);
        }
        if !running.lied {
            self.retire(engine, running, bus);
        }
        self.leave(engine, running, bus);
        if running.shares && !self.is_shut(engine, bus) {
            self.kept_back = true;
            return;
        }
        if self.does(INJECT_LATE, running.context, bus) {
            self.late_interrupt.get_or_insert(now + timing::INJECT_DELAY);
        } else if !self.does(INJECT_LOST, running.context, bus) {
            self.interrupt = true;
        }
    }

    /// Fault, fence and retired word of a command that has ended.
    fn retire(&mut self, engine: EngineIndex, running: &Running, bus: &mut impl Bus) {
        let Running { context, number, fault, fence, .. } = *running;
        let error = if fault.is_some() { FENCE_ERROR } else { 0 };
        let written = self.write_fence(context, fence, error, bus);
        if let Some(fault) = fault.or(written.err()) {
            self.record(engine, context, number, fault, bus);
        }
        let ring = self.ring(engine, context);
        ring.retired = ring.retired.wrapping_add(1);
        let retired = ring.retired;
        let _ = bus.write_u32(self.description.status + status_retired(engine, context), retired);
    }

    /// Raises the interrupt that shared contexts wait for, if the last one is long enough ago; when it is.
    pub(super) fn let_go(&mut self, now: u64) -> Option<u64> {
        if self.kept_back && self.quiet_until <= now {
            (self.kept_back, self.interrupt) = (false, true);
            self.quiet_until = now + timing::MODERATION;
        }
        self.kept_back.then_some(self.quiet_until)
    }

    /// Raises the interrupts that are late or for nothing; when the next is due.
    pub(super) fn misbehave(&mut self, now: u64, bus: &mut impl Bus) -> Option<u64> {
        if self.late_interrupt.take_if(|at| *at <= now).is_some() {
            self.interrupt = true;
        }
        let running = self.engines.iter().filter_map(|engine| engine.running.as_ref());
        let mut running = running.chain(self.spatial.running().map(|(_, running)| running));
        if !running.any(|one| self.does(INJECT_SPURIOUS, one.context, bus)) {
            return self.late_interrupt;
        }
        if self.noise_at <= now {
            self.noise_at = now + timing::INJECT_PERIOD;
            self.interrupt = true;
        }
        Some(self.noise_at.min(self.late_interrupt.unwrap_or(u64::MAX)))
    }

    /// Keeps a context's first fault, and counts all of them.
    pub(super) fn record(
        &mut self,
        engine: EngineIndex,
        context: usize,
        number: u32,
        fault: Fault,
        bus: &mut impl Bus,
    ) {
        let words = self.description.control + control_context(context);
        self.faults[context] = self.faults[context].wrapping_add(1);
        let _ = bus.write_u32(words + CONTEXT_FAULT_COUNT, self.faults[context]);
        if bus.read_u32(words + CONTEXT_FAULT) == Ok(0) {
            let _ = bus.write_u64(words + CONTEXT_FAULT_ADDRESS, fault.address);
            let _ = bus.write_u32(words + CONTEXT_FAULT_COMMAND, number);
            let _ = bus.write_u32(words + CONTEXT_FAULT, FaultWord { kind: fault.kind, engine }.encode());
        }
    }
}

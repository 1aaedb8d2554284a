//! The input of a device: its introduction to drivers, resets and doorbells.

use super::{Device, Ring};
use crate::space::Fault;
use crate::times::Measured;
use crate::{Bus, BusError, Description};
use fusee_accel_contract::{
    CONTEXT_FAULT, CONTEXT_FAULT_COUNT, CONTROL_CONTEXTS, CONTROL_ENGINES, CONTROL_FEATURES, CONTROL_KERNELS,
    CONTROL_LATE_COMPLETIONS, CONTROL_MAGIC, CONTROL_SMS, CONTROL_VERSION, Command, EngineIndex, FEATURE_BURN,
    FEATURE_COUNTERS, FEATURE_INJECT, FEATURE_KEYS, FEATURE_PREEMPTIBLE, FEATURE_RESET, FEATURE_SMS,
    FEATURE_TRANSLATION, FENCE_ERROR, FaultKind, INJECT_DEAF, KERNEL_BYTES, KERNEL_LAUNCHES, KERNELS, MAGIC, RING_BASE,
    RING_ENTRIES, STATUS_COUNTS, VERSION, control_context, control_reset_done, control_reset_request, outstanding,
    ring_slot, status_backlogged, status_begun, status_busy, status_counted, status_ended, status_retired,
    status_running, status_seen,
};

impl Device {
    /// Fills control and status page, and starts each ring behind the retired commands: where memory is fresh, at zero.
    pub(super) fn introduce(&mut self, bus: &mut impl Bus) -> Result<(), BusError> {
        let Description { control, status, contexts, .. } = self.description;
        for context in 0..contexts.number() {
            for engine in EngineIndex::ALL {
                let retired = bus.read_u32(status + status_retired(engine, context))?;
                *self.ring(engine, context) = Ring::starting_at(retired);
                bus.write_u32(status + status_seen(engine, context), retired)?;
                let request = bus.read_u32(control + control_reset_request(context, engine))?;
                self.reset_done[engine.number()][context] = request;
                bus.write_u32(control + control_reset_done(context, engine), request)?;
                bus.write_u64(status + status_counted(engine, context), 0)?;
                bus.write_u64(status + status_backlogged(engine, context), 0)?;
            }
            let words = control + control_context(context);
            bus.write_u32(words + CONTEXT_FAULT, 0)?;
            bus.write_u32(words + CONTEXT_FAULT_COUNT, 0)?;
        }
        for engine in EngineIndex::ALL {
            bus.write_u64(status + status_busy(engine), 0)?;
            bus.write_u32(status + status_begun(engine), 0)?;
            bus.write_u32(status + status_ended(engine), 0)?;
            bus.write_u32(status + status_running(engine), 0)?;
        }
        self.measured = [Measured::NOTHING; KERNELS];
        for place in 0..KERNELS as u64 {
            bus.write_u32(control + CONTROL_KERNELS + KERNEL_BYTES * place + KERNEL_LAUNCHES, 0)?;
        }
        bus.write_u32(control + CONTROL_VERSION, VERSION)?;
        let preemptible = if self.description.preemptible { FEATURE_PREEMPTIBLE } else { 0 };
        let counters = if self.description.counters { FEATURE_COUNTERS } else { 0 };
        let sms = self.description.sms.map_or(0, |sms| sms.number.into());
        let keys = if self.description.sms.is_some_and(|sms| sms.keyed) { FEATURE_KEYS } else { 0 };
        let spatial = if sms > 0 { FEATURE_SMS | keys } else { 0 };
        if sms > 0 {
            self.introduce_sms(bus)?;
        }
        bus.write_u32(status + STATUS_COUNTS, self.description.counters.into())?;
        let features =
            FEATURE_TRANSLATION | FEATURE_RESET | FEATURE_BURN | FEATURE_INJECT | preemptible | counters | spatial;
        bus.write_u32(control + CONTROL_FEATURES, features)?;
        bus.write_u32(control + CONTROL_ENGINES, self.description.copy_engines.engines() as u32)?;
        bus.write_u32(control + CONTROL_CONTEXTS, contexts.number() as u32)?;
        bus.write_u32(control + CONTROL_SMS, sms)?;
        bus.write_u32(control + CONTROL_LATE_COMPLETIONS, 0)?;
        bus.write_u32(control + CONTROL_MAGIC, MAGIC)
    }

    /// Forgets a ring's commands if the driver asks for it.
    pub(super) fn answer_reset(&mut self, engine: EngineIndex, context: usize, now: u64, bus: &mut impl Bus) {
        let Description { control, status, .. } = self.description;
        let Ok(request) = bus.read_u32(control + control_reset_request(context, engine)) else { return };
        if request == self.reset_done[engine.number()][context] || self.does(INJECT_DEAF, context, bus) {
            return;
        }
        let Ok(submitted) = bus.read_u32(self.doorbell(engine, context)) else { return };
        let ring = *self.ring(engine, context);
        let is_on_sms = engine == EngineIndex::Execution && self.has_sms();
        let unit = &mut self.engines[engine.number()];
        let aborted = match is_on_sms {
            true => self.spatial.slots[context].running,
            false => unit.running.filter(|running| running.context == context),
        };
        let has_run = aborted.is_some();
        let end = aborted.map_or(now, |aborted| now.min(aborted.due));
        self.count(engine, end, bus);
        if let Some(aborted) = aborted {
            match is_on_sms {
                true => self.remove_from_sms(context, end, bus),
                false => self.free(engine, &aborted, end, bus),
            }
            if !aborted.lied {
                let _ = self.write_fence(context, aborted.fence, FENCE_ERROR, bus);
            }
            self.leave(engine, &aborted, bus);
        }
        // Commands that were rung for and not seen are lost, too.
        let Ring { next, .. } = ring;
        let last = if ring.takes(submitted) { submitted } else { ring.seen };
        for number in 0..outstanding(last, next) {
            let slot = RING_BASE + ring_slot(engine, next.wrapping_add(number));
            if let Ok(bytes) = self.fetch(context, slot, bus) {
                let _ = self.write_fence(context, Command::fence_of(&bytes), FENCE_ERROR, bus);
            }
        }
        *self.ring(engine, context) = Ring::starting_at(submitted);
        self.reset_done[engine.number()][context] = request;
        let _ = bus.write_u32(status + status_seen(engine, context), submitted);
        let _ = bus.write_u32(status + status_retired(engine, context), submitted);
        let _ = bus.write_u32(control + control_reset_done(context, engine), request);
        // As of completions; for commands that ran behind a shut gate the kernel may wait.
        let is_moderated = self.is_shared(context, bus) && !(has_run && self.is_shut(engine, bus));
        self.interrupt |= !is_moderated;
        self.kept_back |= is_moderated;
    }

    pub(super) fn read_doorbell(&mut self, engine: EngineIndex, context: usize, now: u64, bus: &mut impl Bus) {
        let doorbell = self.doorbell(engine, context);
        let Ok(submitted) = bus.read_u32(doorbell) else { return };
        let present = self.description.copy_engines.include(engine);
        let ring = self.ring(engine, context);
        let before = ring.seen;
        if submitted == before || ring.halted {
            return;
        }
        if !ring.takes(submitted) || !present {
            ring.halted = true;
            let kind = if present { FaultKind::DoorbellOverrun } else { FaultKind::NoEngine };
            let fault = Fault { kind, address: u64::from(submitted) };
            self.record(engine, context, before, fault, bus);
            // Once until its driver resets it.
            self.interrupt = true;
            return;
        }
        // Either it still stands there after all can know that it was seen, or nothing comes of it: its client changes its mind, and
        // kicks again if it means its present store.
        let seen = self.description.status + status_seen(engine, context);
        let _ = bus.write_u32(seen, submitted);
        bus.settle();
        if bus.read_u32(doorbell) != Ok(submitted) {
            let _ = bus.write_u32(seen, before);
            return;
        }
        self.count(engine, now, bus);
        let ring = self.ring(engine, context);
        while ring.seen != submitted {
            ring.arrivals[(ring.seen % RING_ENTRIES) as usize] = now;
            ring.seen = ring.seen.wrapping_add(1);
        }
    }
}

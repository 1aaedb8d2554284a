//! One instant of an engine: units that are due, launches that end or begin, and the decisions of the policy.

use super::unit::Phase;
use super::{DECISIONS_MAX, Engine, First, Host, Kernel, Launch, NEVER, Outcome, Refused};
use crate::policy::{Decision, Policy};
use crate::preemption::Mechanism;
use crate::table::{Active, Context, PLACES_MAX, State};

impl<P: Policy> Engine<P> {
    /// Handles all events due now. Takes the first due event, and returns the next one.
    pub(super) fn instant(&mut self, mut first: First, host: &mut impl Host) -> First {
        loop {
            if first.due <= self.now {
                let fired = first.sm;
                self.fire(fired, host);
                first = self.first_due();
                // There is seldom more at one instant. An event on one SM makes nothing due on another one, so all others can be
                // found at once; they have greater numbers.
                if first.due <= self.now {
                    let mut due = self.all_due() & (!1 << fired);
                    while due != 0 {
                        self.fire(due.trailing_zeros() as usize, host);
                        due &= due - 1;
                    }
                    first = self.first_due();
                }
            }
            if self.over != 0 {
                self.retire(host);
                first = self.first_due();
            }
            if first.due <= self.now {
                continue;
            }
            if !self.asks {
                return first;
            }
            self.asks = false;
            self.ask(host);
            first = self.first_due();
        }
    }

    /// Handles the event due on one SM.
    fn fire(&mut self, sm: usize, host: &mut impl Host) {
        match self.sms[sm].phase {
            Phase::Free => self.due[sm] = NEVER,
            Phase::Running => {
                self.fill(sm, host);
                self.go_on(sm, host);
            }
            Phase::Restoring => {
                self.book(sm);
                self.turn(sm, Phase::Running);
                self.fill(sm, host);
                self.go_on(sm, host);
            }
            Phase::Saving => {
                self.book(sm);
                self.keep(sm, host);
                self.hand_over(sm, host);
                // The blocks that were saved may be worth an SM of another kernel.
                self.asks = true;
            }
        }
    }

    /// Ends kernels that are over.
    fn retire(&mut self, host: &mut impl Host) {
        for place in 0..PLACES_MAX {
            if self.over & 1 << place == 0 {
                continue;
            }
            let Kernel { context, work, fault, .. } = self.kernels[place];
            self.has_ended = true;
            self.evict(place);
            host.ended(self.now, context, work, fault.unwrap_or(Outcome::Complete));
        }
    }

    /// Lets the policy admit and decide.
    fn ask(&mut self, host: &mut impl Host) {
        self.asked = true;
        loop {
            let mut has_admitted = false;
            while self.table.kernels().count() < usize::from(self.description.places) {
                let Some(context) = self.policy.admit(&self.table) else { break };
                let Some(launch) = self.launches[context.index()].take() else { break };
                self.admit(context, launch);
                has_admitted = true;
            }
            for _ in 0..DECISIONS_MAX {
                let Some(decision) = self.policy.decide(&self.table) else { break };
                let carried_out = self.apply(decision, self.description.mechanism, host);
                debug_assert_eq!(carried_out, Ok(()), "{decision:?} is not possible");
                if carried_out.is_err() {
                    break;
                }
            }
            debug_assert_eq!(self.policy.decide(&self.table), None, "the policy does not come to an end");
            if !has_admitted {
                return;
            }
        }
    }

    fn admit(&mut self, context: Context, launch: Launch) {
        let Some(waits) = self.table.waiting[context.index()].take() else { return };
        let Some(place) = self.table.active.iter().position(Option::is_none) else { return };
        let budget = i32::from(self.policy.budget(&self.table, self.tokens[context.index()]));
        let Launch { work, blocks, fit, times } = launch;
        self.kernels[place] = Kernel { context, work, fit, times, blocks, fresh: 0, resident: 0, fault: None };
        self.preempted[place].start(usize::from(self.description.sms) * usize::from(fit.blocks));
        self.table.active[place] = Some(Active {
            context,
            key: waits.key,
            arrival: waits.arrival,
            budget,
            count: budget,
            issuable: blocks,
            capacity: fit.blocks,
        });
    }

    pub(super) fn apply(
        &mut self,
        decision: Decision,
        mechanism: Mechanism,
        host: &mut impl Host,
    ) -> Result<(), Refused> {
        let (Decision::Assign { sm, kernel: to }
        | Decision::Reserve { sm, next: to }
        | Decision::Retarget { sm, next: to }) = decision;
        if sm.index() >= usize::from(self.description.sms) {
            return Err(Refused::NoSuchSm);
        }
        if self.table.kernel(to).is_none() {
            return Err(Refused::NoSuchKernel);
        }
        let state = self.table.state(sm);
        // A kernel without blocks to issue may still keep the SM that its blocks are on.
        let keeps = |victim| matches!(decision, Decision::Retarget { .. }) && victim == Some(to);
        if self.issuable(to.index()) == 0 && !matches!(state, State::Reserved { victim, .. } if keeps(victim)) {
            return Err(Refused::NothingToIssue);
        }
        match (decision, state) {
            (Decision::Assign { .. }, State::Idle) => {
                self.add_token(Some(to), -1);
                self.set_up(sm.index(), to, host);
                Ok(())
            }
            (Decision::Reserve { .. }, State::Running(victim)) if victim != to => {
                self.book(sm.index());
                self.add_token(Some(victim), 1);
                self.add_token(Some(to), -1);
                self.table.states[sm.index()] = State::Reserved { victim: Some(victim), next: Some(to) };
                self.preempt(sm.index(), to, mechanism);
                Ok(())
            }
            (Decision::Retarget { .. }, State::Reserved { victim, next }) if next != Some(to) => {
                self.add_token(next, 1);
                self.add_token(Some(to), -1);
                self.table.states[sm.index()] = State::Reserved { victim, next: Some(to) };
                if victim == Some(to) && self.sms[sm.index()].phase != Phase::Saving {
                    self.call_off(sm.index(), to);
                    if self.sms[sm.index()].phase == Phase::Running {
                        self.fill(sm.index(), host);
                        self.go_on(sm.index(), host);
                    }
                }
                Ok(())
            }
            (Decision::Reserve { .. }, State::Running(_)) | (Decision::Retarget { .. }, State::Reserved { .. }) => {
                Err(Refused::SameKernel)
            }
            _ => Err(Refused::WrongState(state)),
        }
    }
}

//! Tests for some clusters only: with windows, with suspension on one CPU, and with releases by the clock.
//!
//! Each of them improves bounds that other tests gave.

use num_traits::ToPrimitive;

use super::{Hard, Reason, Study, TaskReport, Test, Verdict};
use crate::locks::Rest;
use crate::overheads::Overheads;
use crate::reachability::{self, Reached, Unreached};
use crate::suspension;
use crate::task::Cluster;
use crate::uniprocessor::Response;
use crate::{whole, windows};
use fusee_sched::time::Nanoseconds;

impl Study<'_> {
    /// For each task the smaller of its bound, if there is one, and the bound of windows.
    pub(super) fn windows(&mut self, executing: &Cluster, reports: &mut [TaskReport]) {
        let Some(responses) = windows::responses(executing, self.cluster) else {
            self.tests.push((Test::Windows, Verdict::Silent));
            return;
        };
        for (index, (report, longest)) in reports.iter_mut().zip(responses).enumerate() {
            let interference = longest.saturating_sub(self.cluster.tasks()[index].execution);
            let largest = (0..executing.tasks().len()).filter(|other| *other != index);
            let largest = largest.max_by_key(|other| executing.tasks()[*other].execution);
            self.improve(index, &Response { longest, interference, largest }, Test::Windows, report);
        }
        let proved = reports.iter().all(|report| report.hard == Hard::Proved);
        self.tests.push((Test::Windows, Verdict::proved_if(proved, Verdict::Bounded)));
        self.no_overload();
    }

    /// For each task the smaller of its bound, if there is one, and the bound with the suspension of others as jitter.
    pub(super) fn jitter(&mut self, executing: &Cluster, rests: &[Rest], reports: &mut [TaskReport]) {
        let enforced =
            |report: &TaskReport| report.bound.as_ref()?.response.ceil().to_integer().to_u64().map(Nanoseconds);
        let enforced: Vec<Option<Nanoseconds>> = reports.iter().map(enforced).collect();
        let responses = suspension::responses(executing, self.cluster, rests, &enforced);
        for (index, (report, response)) in reports.iter_mut().zip(&responses).enumerate() {
            if let Some(response) = response {
                self.improve(index, response, Test::Jitter, report);
            }
        }
        let verdict = match () {
            () if reports.iter().all(|report| report.hard == Hard::Proved) => Verdict::Proved,
            () if reports.iter().all(|report| report.bound.is_some()) => Verdict::Bounded,
            () => Verdict::Silent,
        };
        self.tests.push((Test::Jitter, verdict));
        if verdict != Verdict::Silent {
            self.no_overload();
        }
    }

    /// Gives a task the bound of `test`, if that is smaller.
    fn improve(&self, index: usize, response: &Response, test: Test, report: &mut TaskReport) {
        if report.bound.as_ref().is_none_or(|bound| whole(response.longest) < bound.response) {
            let found = self.task(index, Some(self.exact(index, response, test)), Reason::BoundTooLate);
            (report.bound, report.hard) = (found.bound, found.hard);
        }
    }

    /// All tasks have bounds by a test for which waiting is no execution: more than CPUs can do is too much only if it is.
    fn no_overload(&mut self) {
        for (test, verdict) in &mut self.tests {
            if *verdict == Verdict::Overload {
                *verdict = if *test == Test::Utilisation { Verdict::Silent } else { Verdict::DoesNotApply };
            }
        }
    }

    /// For each task that no other test has proved the smaller of its bound, if there is one, and the longest response time in a
    /// reachable state, if the clock releases the cluster's jobs.
    pub(super) fn reachability(&mut self, overheads: &Overheads, reports: &mut [TaskReport]) {
        let is_proved = |report: &TaskReport| report.hard == Hard::Proved;
        let fits = self.shares.fit(self.cluster.cpus());
        if self.original.phases().is_none() || !fits || reports.iter().all(is_proved) {
            return;
        }
        let Some(tasks) = reachability::inflate(self.original, overheads) else { return };
        let exact = tasks == self.original.tasks();
        let longer = self.original.with_tasks(tasks);
        let found = reachability::responses(&longer, self.original.scheduled(), reachability::LOOKS);
        let Ok(Reached { responses, has_ties, .. }) = &found else {
            let is_missed = |task: usize| self.original.tasks()[task].deadline <= self.original.tasks()[task].period;
            let verdict = match found {
                Err(Unreached::GaveUp) => Verdict::GaveUp,
                Err(Unreached::TooLate { task, has_ties: false }) if exact && is_missed(task) => Verdict::Misses,
                _ => Verdict::Silent,
            };
            self.tests.push((Test::Reachability, verdict));
            return;
        };
        let executions = |other: &usize| self.cluster.tasks()[*other].execution;
        for (index, report) in reports.iter_mut().enumerate().filter(|(_, report)| !is_proved(report)) {
            // Bounds count from releases that are later by the latency, which is part of this execution.
            let longest = responses[index].saturating_sub(overheads.event_latency);
            let interference = responses[index].saturating_sub(longer.tasks()[index].execution);
            let largest = (0..responses.len()).filter(|other| *other != index).max_by_key(executions);
            let largest = largest.filter(|_| interference > Nanoseconds::ZERO);
            self.improve(index, &Response { longest, interference, largest }, Test::Reachability, report);
            if exact && !has_ties && !is_proved(report) {
                report.hard = Hard::NotProved(Reason::Misses);
            }
        }
        let verdict = match reports.iter().all(is_proved) {
            true => Verdict::Proved,
            false if exact && !has_ties => Verdict::Misses,
            false => Verdict::Bounded,
        };
        self.tests.push((Test::Reachability, verdict));
    }
}

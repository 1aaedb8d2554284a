//! Tasks whose end ends a run: the rest of the run has no value for its user.
//!
//! A `hard` task that has ended meets no further deadline. Once all tasks have ended that may shut the system down, the system cannot end by itself. Tasks
//! that may be given another life do not count, nor do ends that the table `[test]` expects.
//!
//! Not here: how an end is noticed (`ends` in QEMU, the simulator's own loop), and whether it is a problem (`judge`).

use fusee_abi::call::rights;
use fusee_abi::image::kind;
use fusee_abi::trace::{Event, Record};
use fusee_manifest::trace::Trace;
use fusee_manifest::{Expectations, Resolved};

/// Tasks whose end ends a run: that of the last of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decisive {
    /// The tasks, by index.
    pub tasks: Vec<usize>,
    /// The reason.
    pub why: Why,
}

/// Why the end of a task ends a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why {
    /// The task is `hard`.
    Hard,
    /// No other task may shut the system down.
    Shutdown,
}

impl Decisive {
    /// The decisive tasks of a system. A run with a `limit` of virtual time ends without a task that shuts the system down.
    #[must_use]
    pub fn of(system: &Resolved, expected: Option<&Expectations>, has_limit: bool) -> Vec<Decisive> {
        // A listed verdict has all complaints of the run, up to the end of its system.
        if expected.is_some_and(|expected| expected.verdict.is_some()) {
            return Vec::new();
        }
        let has_one_life = |task: usize| {
            let supervision = &system.tasks[task].supervision;
            supervision.starts.is_none() && !supervision.is_dormant
        };
        let is_expected = |task: usize| {
            expected.is_some_and(|expected| {
                expected.faults.contains(&task) || expected.exits.iter().any(|(of, _)| *of == task)
            })
        };
        let counts = |task: &usize| has_one_life(*task) && !is_expected(*task);
        let hard = (0..system.tasks.len()).filter(|task| system.tasks[*task].hard).filter(counts);
        let mut all: Vec<Decisive> = hard.map(|task| Decisive { tasks: vec![task], why: Why::Hard }).collect();
        let handles = system.handles.iter().filter(|handle| handle.kind == kind::SYSTEM);
        let (mut may_shut_down, mut may_pass_on) = (Vec::new(), false);
        for handle in handles.filter(|handle| handle.rights & rights::SHUTDOWN != 0) {
            may_shut_down.push(handle.task as usize);
            may_pass_on |= handle.rights & rights::GRANT != 0;
        }
        if !has_limit && !may_pass_on && !may_shut_down.is_empty() && may_shut_down.iter().all(counts) {
            all.push(Decisive { tasks: may_shut_down, why: Why::Shutdown });
        }
        all
    }

    /// The instant at which the last of them had ended, nanoseconds. `None`: the trace has no record of it.
    #[must_use]
    pub fn ended_at(&self, trace: &Trace) -> Option<u64> {
        let ends = [Event::Exit, Event::Fault, Event::Stop].map(|event| event as u8);
        let of = |record: &&Record| {
            ends.contains(&record.event) && self.tasks.iter().any(|task| usize::from(record.thread) == task + 1)
        };
        trace.records.iter().filter(of).map(|record| record.time).max()
    }

    /// That a run ended with these tasks.
    #[must_use]
    pub fn words(&self, system: &Resolved) -> String {
        let names: Vec<String> = self.tasks.iter().map(|task| format!("`{}`", system.tasks[*task].name)).collect();
        let names = names.join(", ");
        let who = match (self.why, self.tasks.len()) {
            (Why::Hard, _) => format!("hard task {names}"),
            (Why::Shutdown, 1) => format!("{names}, the only task that may shut the system down"),
            (Why::Shutdown, _) => format!("{names}, the only tasks that may shut the system down"),
        };
        format!("the run ended here, with the end of {who}; `--keep-going` goes on")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fusee_manifest::Manifest;

    use super::*;

    /// The decisive tasks of a system of `brake`, which is hard, and `boss`, which may shut it down.
    fn decisive(more: &str, has_limit: bool) -> Vec<(Vec<usize>, Why)> {
        let text = format!(
            "[system]\nname = \"decisive\"\nboard = \"virt\"\ncpus = 1\nadmission = \"warn\"\n[tasks.brake]\nscript = [\"burn 1ms\"]\nperiod = \
             \"10ms\"\nbudget = \"2ms\"\nhard = true\n[tasks.boss]\nscript = [\"sleep 5ms\", \"shutdown\"]\nhandles = {{ system = \"system: \
             shutdown\" }}\n{more}"
        );
        let manifest = Manifest::parse(Path::new("decisive.toml"), &text).unwrap();
        let all = Decisive::of(&manifest.system, manifest.expectations.as_ref(), has_limit);
        all.into_iter().map(|decisive| (decisive.tasks, decisive.why)).collect()
    }

    #[test]
    fn hard_tasks_and_those_that_shut_down_are_decisive_unless_their_end_is_expected_or_another_life_follows() {
        let (hard, boss) = ((vec![0], Why::Hard), (vec![1], Why::Shutdown));
        assert_eq!(decisive("", false), [hard.clone(), boss.clone()]);
        assert_eq!(decisive("", true), vec![hard.clone()]);
        assert_eq!(decisive("[test]\nfaults = [\"brake\"]\n", false), vec![boss.clone()]);
        assert_eq!(decisive("[test]\nexits = [\"boss: 0\"]\n", false), vec![hard.clone()]);
        assert_eq!(decisive("[test]\nverdict = [\"brake\"]\n", false), []);
        let other =
            "[tasks.other]\nscript = [\"sleep 5ms\", \"shutdown\"]\nhandles = { system = \"system: shutdown\" }\n";
        assert_eq!(decisive(other, false), [hard.clone(), (vec![1, 2], Why::Shutdown)]);
        let dormant = "[tasks.other]\nscript = [\"sleep 5ms\", \"shutdown\"]\ndormant = true\nhandles = { system = \"system: shutdown\" }\n\
                       [tasks.starter]\nscript = [\"start other\"]\nhandles = { other = \"task other: start\" }\n";
        assert_eq!(decisive(dormant, false), [hard]);
    }

    #[test]
    fn the_end_of_a_run_names_its_tasks_and_what_makes_them_decisive() {
        let text = "[system]\nname = \"decisive\"\nboard = \"virt\"\ncpus = 1\n[tasks.one]\nscript = [\"burn 1ms\"]\n[tasks.other]\nscript = [\"burn 1ms\"]\n";
        let system = Manifest::parse(Path::new("decisive.toml"), text).unwrap().system;
        let words = |tasks: &[usize], why| {
            let words = Decisive { tasks: tasks.to_vec(), why }.words(&system);
            words.split("the end of ").nth(1).unwrap().split(';').next().unwrap().to_owned()
        };
        assert_eq!(words(&[1], Why::Hard), "hard task `other`");
        assert_eq!(words(&[0], Why::Shutdown), "`one`, the only task that may shut the system down");
        assert_eq!(words(&[0, 1], Why::Shutdown), "`one`, `other`, the only tasks that may shut the system down");
    }
}

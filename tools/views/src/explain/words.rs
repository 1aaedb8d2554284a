//! Explanations in words: a sentence, and the parts of a job as a tree.

use std::collections::BTreeMap;

use fusee_manifest::Resolved;

use super::{Explanation, Part, Path, Step, Wait, charged, line_of};
use crate::thousandths;

impl Explanation {
    /// In words: a sentence, and the parts as a tree, the longest first.
    #[must_use]
    pub fn text(&self, system: &Resolved) -> String {
        let mut text = self.sentence(system) + "\n";
        text += &format!(
            "released at {}, {} {}\n",
            span(self.release),
            if self.completed.is_some() { "response" } else { "age" },
            span(self.response())
        );
        let mut tree = Tree::default();
        for part in &self.parts {
            tree.add(&part.path, part.time);
        }
        tree.print(&mut text, system, self.response().max(1), 0);
        text
    }

    /// In one sentence: whether it was late, and the longest part of its time.
    #[must_use]
    pub fn sentence(&self, system: &Resolved) -> String {
        let name = &system.tasks[self.task].name;
        let verdict = match self.completed {
            Some(completed) if completed > self.deadline => {
                format!("missed its deadline by {}", span(completed - self.deadline))
            }
            Some(completed) => format!("was complete {} before its deadline", span(self.deadline - completed)),
            None if self.end > self.deadline => {
                format!("is {} past its deadline, and not complete", span(self.end - self.deadline))
            }
            None => "is not complete".to_owned(),
        };
        format!("{name}#{} {verdict}: {}", self.job, self.cause(system))
    }

    /// The longest part that was not its own execution, in words: parts that begin alike are counted together, and the longest of them is named.
    #[must_use]
    pub fn cause(&self, system: &Resolved) -> String {
        // An act of an earlier job of this task counts as one of this job.
        let of_any = |part: &Part| match part.path.split_first() {
            Some((Step::Before, rest)) if !rest.is_empty() => rest.to_vec(),
            _ => part.path.clone(),
        };
        let mut causes: BTreeMap<Vec<Step>, u64> = BTreeMap::new();
        self.parts.iter().for_each(|part| *causes.entry(of_any(part)).or_default() += part.time);
        let of_its_own = [vec![Step::Ran(None)], vec![Step::Ran(None), Step::Kernel(Path::Call)]];
        let own: u64 = of_its_own.iter().filter_map(|path| causes.remove(path)).sum();
        let has_earlier = self.parts.iter().any(|part| part.path[0] == Step::Before);
        let who = if has_earlier { "it, or one of the earlier jobs it queued behind," } else { "it" };
        let of = |time: u64| format!("for {} of {}", span(time), span(self.response()));
        let mut alike: BTreeMap<Step, u64> = BTreeMap::new();
        causes.iter().for_each(|(path, time)| *alike.entry(beginning(path)).or_default() += time);
        let Some((first, all)) =
            alike.into_iter().max_by_key(|(_, all)| *all).filter(|(_, all)| *all >= own || all * 5 >= self.response())
        else {
            return format!("{} {who} ran", of(own));
        };
        let of_these = causes.into_iter().filter(|(path, _)| beginning(path) == first);
        let (path, time) = of_these.max_by_key(|(_, time)| *time).unwrap_or_default();
        let words = |steps: &[Step]| joined(&steps.iter().map(|step| step.words(system)).collect::<Vec<_>>());
        let why = if path.last() == Some(&Step::Exhausted) { self.used_by_turns() } else { String::new() };
        let rest = if path.first() == Some(&first) { &path[1..] } else { &path[..] };
        match rest {
            _ if time == all => format!("{} {who} {}{why}", of(all), words(&path)),
            [] => format!("{} {who} {}{why}", of(all), first.words(system)),
            rest => {
                format!("{} {who} {}; for {} of that {}{why}", of(all), first.words(system), span(time), words(rest))
            }
        }
    }
}

/// The beginning of paths that are counted together: of those that were ready, whichever tasks had the CPUs.
fn beginning(path: &[Step]) -> Step {
    match &path[0] {
        Step::Ready(_) => Step::Ready(Vec::new()),
        step => step.clone(),
    }
}

impl Explanation {
    /// The charge for turns of other emulated CPUs, in words, if it is a fifth or more of the charges for this job and the one before it.
    fn used_by_turns(&self) -> String {
        let (charged, turns) = charged(&self.parts);
        let (charged, turns) = (charged + self.before.0, turns + self.before.1);
        if turns == 0 || turns * 5 < charged {
            return String::new();
        }
        format!(", which was charged {} for turns of other emulated CPUs (`--quantum`)", span(turns))
    }
}

fn joined(words: &[String]) -> String {
    let mut text = String::new();
    for (index, word) in words.iter().enumerate() {
        // A holder's name, and its act; or the engine that was at work for it.
        let is_name = word.starts_with('`') || word.starts_with("its ");
        text += match index {
            0 => "",
            _ if is_name => ", ",
            _ => " ",
        };
        text += word;
    }
    text
}

/// A time, with the unit in which it has a whole part.
fn span(time: u64) -> String {
    match time {
        0..1_000_000 => thousandths(time) + " us",
        _ => thousandths(time / 1_000) + " ms",
    }
}

impl Step {
    /// In words, as they follow the name of a task.
    #[must_use]
    pub fn words(&self, system: &Resolved) -> String {
        let task = |index: &usize| {
            system.tasks.get(*index).map_or_else(|| index.to_string(), |task| format!("`{}`", task.name))
        };
        let name = |name: Option<&String>| name.map_or_else(|| "?".to_owned(), |name| format!("`{name}`"));
        match self {
            Step::Before => "waited for an earlier job of the same task".to_owned(),
            Step::Unseen => "was released, and the kernel had not handled that".to_owned(),
            Step::Ran(None) => "ran on its own budget".to_owned(),
            Step::Ran(Some(owner)) => format!("ran on the budget of {}", task(owner)),
            Step::Kernel(Path::Call) => "in the kernel, by a call of its own".to_owned(),
            Step::Kernel(Path::Timer) => "in the kernel, for the timer".to_owned(),
            Step::Kernel(Path::Kick) => "in the kernel, for a kick".to_owned(),
            Step::Kernel(Path::Interrupt(index)) => {
                format!("in the kernel, for interrupt {}", name(system.interrupts.get(*index).map(|(name, _)| name)))
            }
            Step::Lock => "and waited for the kernel's lock".to_owned(),
            Step::Turn => "while the emulator executed other CPUs (turns: see `--quantum`)".to_owned(),
            Step::Ready(others) if others.is_empty() => "was ready while others had the CPUs".to_owned(),
            Step::Ready(others) if others.len() == 1 => format!("was ready while {} had the CPU", task(&others[0])),
            Step::Ready(others) => {
                format!("was ready while {} had the CPUs", others.iter().map(task).collect::<Vec<_>>().join(", "))
            }
            Step::HandOver => "was ready while a CPU was changing hands".to_owned(),
            Step::Exhausted => "had exhausted its budget".to_owned(),
            Step::Waited(wait) => match wait {
                Wait::Server(endpoint) => {
                    format!("waited for endpoint {}", name(system.endpoints.get(*endpoint).map(|(name, _)| name)))
                }
                Wait::Engine(engine) => {
                    format!("waited for engine {}", name(system.engines.get(*engine).map(|(name, _)| name)))
                }
                Wait::Token(pool) => {
                    format!("waited for a token of {}", name(system.pools.get(*pool).map(|(name, _)| name)))
                }
                Wait::Turn(pool) => {
                    let pool = name(system.pools.get(*pool).map(|(name, _)| name));
                    format!("waited for its turn to ask for a token of {pool}")
                }
                Wait::Notification(notification) if line_of(system, *notification).is_some() => {
                    format!("waited for interrupt {}", name(line_of(system, *notification)))
                }
                Wait::Notification(notification) => {
                    let found = system.notifications.get(*notification).map(|(name, _)| name);
                    format!("waited for notification {}", name(found))
                }
                Wait::Request => "waited for a request".to_owned(),
                Wait::Sleep => "slept".to_owned(),
                Wait::Other => "waited".to_owned(),
            },
            Step::Operates(engines) => {
                let engine = |engine: &usize| name(system.engines.get(*engine).map(|(name, _)| name));
                let what = if engines.len() == 1 { "operation" } else { "operations" };
                format!("its {what} ran on {}", engines.iter().map(engine).collect::<Vec<_>>().join(", "))
            }
            Step::Held(holders) => match holders.split_last() {
                Some((last, [])) => format!("{} had one", task(last)),
                Some((last, others)) => {
                    let others = others.iter().map(task).collect::<Vec<_>>().join(", ");
                    format!("{others} and {} had them", task(last))
                }
                None => String::new(),
            },
            Step::Gave { to, pool, has_token } => {
                let request = if *has_token { "held" } else { "had asked for" };
                let pool = name(system.pools.get(*pool).map(|(name, _)| name));
                format!("gave its budget to {}, which {request} a token of {pool}", task(to))
            }
            Step::Holder(holder) => task(holder),
            Step::Drains => "which was still at work".to_owned(),
        }
    }
}

/// Parts with the same beginning.
#[derive(Default)]
struct Tree {
    time: u64,
    /// How many they are.
    parts: usize,
    below: BTreeMap<Step, Tree>,
}

impl Tree {
    fn add(&mut self, path: &[Step], time: u64) {
        self.time += time;
        self.parts += 1;
        if let Some((first, rest)) = path.split_first() {
            self.below.entry(first.clone()).or_default().add(rest, time);
        }
    }

    /// The longest first. The shortest are one line, if together they are less than a hundredth of the whole.
    fn print(&self, text: &mut String, system: &Resolved, whole: u64, depth: usize) {
        let mut below: Vec<(&Step, &Tree)> = self.below.iter().collect();
        below.sort_by_key(|(_, tree)| std::cmp::Reverse(tree.time));
        let (mut shown, mut rest) = (below.len(), 0);
        while shown > 0 && (rest + below[shown - 1].1.time) * 100 < whole {
            shown -= 1;
            rest += below[shown].1.time;
        }
        let mut shorter: usize = below[shown..].iter().map(|(_, tree)| tree.parts).sum();
        if shorter == 1 {
            (shown, shorter) = (below.len(), 0);
        }
        for (step, tree) in below.drain(..shown) {
            // A step that always follows stands in the line of the one before.
            let (mut path, mut tree) = (vec![step.words(system)], tree);
            while let (1, Some((next, below))) = (tree.below.len(), tree.below.first_key_value())
                && below.time == tree.time
            {
                path.push(next.words(system));
                tree = below;
            }
            let words = joined(&path);
            let percent = tree.time * 100 / whole;
            *text += &format!("{:>12} {percent:>3} %  {}{words}\n", span(tree.time), "  ".repeat(depth));
            tree.print(text, system, whole, depth + 1);
        }
        if shorter > 0 {
            let indent = "  ".repeat(depth);
            *text += &format!("{:>12} {:>3} %  {indent}{shorter} shorter parts\n", span(rest), rest * 100 / whole);
        }
    }
}

//! Task sets written as JSON, one or thousands of them.
//!
//! ```text
//! [{"e": 2, "p": 10}, {"e": 8, "p": 12, "d": 11}]                  one set; CPUs and policy come from elsewhere
//! {"m": 2, "policy": "EDF", "tasks": [{"e": 2, "p": 10}]}          one set
//! [{"m": 2, "tasks": [...]}, {"m": 4, "tasks": [...]}]             many; or one object a line, without the list
//! ```
//!
//! Times are microseconds and may have a fraction. Parts of a nanosecond are rounded against the task:
//! execution times up, periods and deadlines down. Sets and tasks are counted from zero.
//!
//! | Key of a set | Means | | Key of a task | Means |
//! |---|---|---|---|---|
//! | `m` | CPUs | | `e`, `p` | execution time, period |
//! | `policy` | `EDF`, `FL`, `RM`, `DM` or `FP` | | `d` | deadline; the period, if absent |
//! | `clusters` | CPUs of each cluster | | `priority` | under FP; 1 is the most urgent |
//! | `tasks` | the tasks | | `name`, `hard` | what to call it; whether it must be proved |

use std::fmt;
use std::io::Read;
use std::path::Path;

use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::Task;
use fusee_sched_analysis::task::LONGEST;
use serde_json::{Map, Value};

/// One set, as it was written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TaskSet {
    /// CPUs.
    pub cpus: Option<u32>,
    /// Policy of all clusters.
    pub policy: Option<PolicyName>,
    /// CPUs of each cluster; their sum is `cpus`, if both are given.
    pub clusters: Option<Vec<u32>>,
    /// The tasks.
    pub tasks: Vec<NamedTask>,
}

/// One task.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamedTask {
    /// Its name; `T0`, `T1` and so on if it was given none.
    pub name: String,
    /// Its parameters.
    pub task: Task,
    /// Whether its deadlines must be proved.
    pub hard: bool,
}

/// A mistake, and its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TaskSetError {
    /// The file, if it is from one that can be read.
    pub file: Option<String>,
    /// The set.
    pub set: usize,
    /// The task, if it is one's fault.
    pub task: Option<usize>,
    /// The mistake.
    pub reason: Reason,
}

/// A mistake in a task set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reason {
    /// No task set, or no task in it.
    Empty,
    /// The file cannot be read.
    Unreadable(String),
    /// Not JSON; a number that is none, such as `NaN`, is not.
    Syntax(String),
    /// A key that means nothing here.
    UnknownKey(String),
    /// A key that must be there.
    Missing(&'static str),
    /// A value of the wrong kind.
    Wanted {
        /// Its key.
        key: &'static str,
        /// The values that are possible.
        wanted: &'static str,
    },
    /// A time below zero.
    Negative(&'static str),
    /// A time of zero, or of less than a nanosecond.
    Zero(&'static str),
    /// A time longer than [`LONGEST`].
    TooLong(&'static str),
    /// No such policy.
    UnknownPolicy(String),
    /// The clusters do not add up to the CPUs.
    Clusters {
        /// CPUs of all clusters.
        sum: u64,
        /// CPUs of the set.
        cpus: u32,
    },
}

impl fmt::Display for TaskSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if self.reason == Reason::Empty {
            return f
                .write_str("there is no task set, or one without tasks; `[{\"e\": 2, \"p\": 10}]` is one with a task");
        }
        write!(f, "set {}", self.set)?;
        if let Some(task) = self.task {
            write!(f, ", task {task}")?;
        }
        match &self.reason {
            Reason::Empty => Ok(()),
            Reason::Unreadable(why) => write!(f, ": cannot be read: {why}"),
            Reason::Syntax(why) => write!(f, ": not JSON: {why}"),
            Reason::UnknownKey(key) => write!(f, ": nothing is called `{key}` here"),
            Reason::Missing(key) => write!(f, ": `{key}` is missing"),
            Reason::Wanted { key, wanted } => write!(f, ": `{key}` should be {wanted}"),
            Reason::Negative(key) => write!(f, ": `{key}` is negative"),
            Reason::Zero(key) => write!(f, ": `{key}` is zero"),
            Reason::TooLong(key) => write!(f, ": `{key}` is longer than {} ns", LONGEST.0),
            Reason::UnknownPolicy(name) => write!(f, ": no policy is called `{name}`; there are EDF, FL, RM, DM, FP"),
            Reason::Clusters { sum, cpus } => write!(f, ": `clusters` have {sum} CPUs, and `m` is {cpus}"),
        }
    }
}

impl std::error::Error for TaskSetError {}

/// Reads all task sets of the file at `path`; `-` is standard input.
///
/// # Errors
/// The first mistake.
pub fn read(path: &Path) -> Result<Vec<TaskSet>, TaskSetError> {
    let text = match path.to_str() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
        _ => std::fs::read_to_string(path),
    };
    let unreadable = |error: std::io::Error| TaskSetError {
        file: None,
        set: 0,
        task: None,
        reason: Reason::Unreadable(format!("{}: {error}", path.display())),
    };
    let in_file = |error: TaskSetError| TaskSetError { file: Some(path.display().to_string()), ..error };
    parse(&text.map_err(unreadable)?).map_err(in_file)
}

/// Reads all task sets of `text`.
///
/// # Errors
/// The first mistake.
pub fn parse(text: &str) -> Result<Vec<TaskSet>, TaskSetError> {
    let mut sets = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let at = |set| move |(task, reason)| TaskSetError { file: None, set, task, reason };
        let value = value.map_err(|error| at(sets.len())((None, Reason::Syntax(error.to_string()))))?;
        match value {
            Value::Array(items) if !items.iter().any(|item| item.get("tasks").is_some()) && !items.is_empty() => {
                let tasks = tasks(&items).map_err(at(sets.len()))?;
                sets.push(TaskSet { tasks, ..TaskSet::default() });
            }
            Value::Array(items) => {
                for item in items {
                    sets.push(set(&item).map_err(at(sets.len()))?);
                }
            }
            other => sets.push(set(&other).map_err(at(sets.len()))?),
        }
    }
    if sets.is_empty() {
        return Err(TaskSetError { file: None, set: 0, task: None, reason: Reason::Empty });
    }
    Ok(sets)
}

/// A task, and the mistake in it.
type Mistake = (Option<usize>, Reason);

fn set(value: &Value) -> Result<TaskSet, Mistake> {
    let none = |reason| (None, reason);
    let wanted = |key, wanted| none(Reason::Wanted { key, wanted });
    let keys = object(value, "set", &["m", "policy", "clusters", "tasks", "name"]).map_err(none)?;
    let cpus = |key, value: &Value| {
        let cpus = value.as_u64().and_then(|cpus| u32::try_from(cpus).ok()).filter(|cpus| *cpus > 0);
        cpus.ok_or_else(|| wanted(key, "a number of CPUs"))
    };
    let policy = |value: &Value| {
        let name = value.as_str().ok_or_else(|| wanted("policy", "a name"))?;
        PolicyName::from_name(name).ok_or_else(|| none(Reason::UnknownPolicy(name.to_owned())))
    };
    let sizes = |value: &Value| {
        let sizes = value.as_array().ok_or_else(|| wanted("clusters", "a list"))?;
        sizes.iter().map(|size| cpus("clusters", size)).collect::<Result<Vec<u32>, Mistake>>()
    };
    let items = keys.get("tasks").ok_or(none(Reason::Missing("tasks")))?;
    let set = TaskSet {
        cpus: keys.get("m").map(|value| cpus("m", value)).transpose()?,
        policy: keys.get("policy").map(policy).transpose()?,
        clusters: keys.get("clusters").map(sizes).transpose()?,
        tasks: tasks(items.as_array().ok_or_else(|| wanted("tasks", "a list"))?)?,
    };
    if let (Some(clusters), Some(cpus)) = (&set.clusters, set.cpus) {
        let sum = clusters.iter().copied().map(u64::from).sum();
        if sum != u64::from(cpus) {
            return Err(none(Reason::Clusters { sum, cpus }));
        }
    }
    Ok(set)
}

fn tasks(items: &[Value]) -> Result<Vec<NamedTask>, Mistake> {
    let each = items.iter().enumerate();
    each.map(|(index, item)| task(index, item).map_err(|reason| (Some(index), reason))).collect()
}

fn task(index: usize, value: &Value) -> Result<NamedTask, Reason> {
    let keys = object(value, "task", &["e", "p", "d", "priority", "name", "hard"])?;
    let wanted = |key, wanted| Reason::Wanted { key, wanted };
    let execution = time(keys, "e", true)?.ok_or(Reason::Missing("e"))?;
    let period = time(keys, "p", false)?.ok_or(Reason::Missing("p"))?;
    let deadline = time(keys, "d", false)?.unwrap_or(period);
    for (key, span) in [("e", execution), ("p", period)] {
        if span == Nanoseconds::ZERO {
            return Err(Reason::Zero(key));
        }
    }
    let priority = keys.get("priority").map_or(Some(1), |value| value.as_u64().and_then(|it| u32::try_from(it).ok()));
    let priority = priority.ok_or(wanted("priority", "a small whole number"))?;
    let name = match keys.get("name") {
        Some(name) => name.as_str().ok_or(wanted("name", "a name"))?.to_owned(),
        None => format!("T{index}"),
    };
    let hard = keys.get("hard").map_or(Some(false), Value::as_bool).ok_or(wanted("hard", "true or false"))?;
    Ok(NamedTask { name, task: Task { execution, period, deadline, priority }, hard })
}

/// The keys of `value`, if it is an object and each of them is one of `known`.
fn object<'a>(value: &'a Value, kind: &'static str, known: &[&str]) -> Result<&'a Map<String, Value>, Reason> {
    let keys = value.as_object().ok_or(Reason::Wanted { key: kind, wanted: "an object" })?;
    match keys.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(Reason::UnknownKey(key.clone())),
        None => Ok(keys),
    }
}

/// The time called `key`, from microseconds; parts of a nanosecond are rounded up or down.
fn time(keys: &Map<String, Value>, key: &'static str, up: bool) -> Result<Option<Nanoseconds>, Reason> {
    let Some(value) = keys.get(key) else { return Ok(None) };
    let number = value.as_f64().ok_or(Reason::Wanted { key, wanted: "a number of microseconds" })?;
    if number < 0.0 {
        return Err(Reason::Negative(key));
    }
    if number > LONGEST.0 as f64 {
        return Err(Reason::TooLong(key));
    }
    // The file has the shortest decimal that reads back as this number, so 0.1 is exactly 100 ns.
    let text = number.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (thousandths, finer) = fraction.split_at(fraction.len().min(3));
    let digits = format!("{whole}{thousandths:0<3}");
    let rounded = digits.parse::<u64>().ok().map(|span| span + u64::from(up && !finer.is_empty()));
    rounded.map(Nanoseconds).filter(|span| *span <= LONGEST).map(Some).ok_or(Reason::TooLong(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanoseconds(set: &TaskSet) -> Vec<(u64, u64, u64)> {
        let triple = |one: &NamedTask| (one.task.execution.0, one.task.period.0, one.task.deadline.0);
        set.tasks.iter().map(triple).collect()
    }

    #[test]
    fn a_list_of_tasks_is_one_set() {
        let sets =
            parse(r#"[{"e": 2.5, "p": 10}, {"e": 0.1, "p": 12, "d": 11, "name": "log", "priority": 3}]"#).unwrap();
        assert_eq!(sets.len(), 1);
        assert_eq!(nanoseconds(&sets[0]), [(2_500, 10_000, 10_000), (100, 12_000, 11_000)]);
        assert_eq!((sets[0].tasks[0].name.as_str(), sets[0].tasks[1].name.as_str()), ("T0", "log"));
        assert_eq!((sets[0].cpus, sets[0].tasks[1].task.priority), (None, 3));
    }

    #[test]
    fn a_list_of_sets_and_one_set_a_line_are_the_same() {
        let one = r#"{"m": 2, "policy": "FL", "tasks": [{"e": 1, "p": 2}]}"#;
        let other = r#"{"m": 3, "clusters": [2, 1], "tasks": []}"#;
        let sets = parse(&format!("{one}\n{other}\n")).unwrap();
        assert_eq!(parse(&format!("[{one}, {other}]")).unwrap(), sets);
        assert_eq!((sets[0].cpus, sets[0].policy), (Some(2), Some(PolicyName::Fl)));
        assert_eq!(sets[1].clusters, Some(vec![2, 1]));
    }

    #[test]
    fn what_is_finer_than_a_nanosecond_is_rounded_against_the_task() {
        let sets = parse(r#"[{"e": 1.0000001, "p": 9.9999999, "d": 1e-4}]"#).unwrap();
        assert_eq!(nanoseconds(&sets[0]), [(1_001, 9_999, 0)]);
    }

    #[test]
    fn a_mistake_is_named_with_its_set_task_and_key() {
        let mistake = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(mistake(r#"[{"e": 1, "p": 2}, {"e": -1, "p": 2}]"#), "set 0, task 1: `e` is negative");
        assert_eq!(mistake(r#"[{"e": 1, "p": 0}]"#), "set 0, task 0: `p` is zero");
        assert_eq!(mistake(r#"[{"e": 1}]"#), "set 0, task 0: `p` is missing");
        assert_eq!(mistake(r#"[{"e": "1", "p": 2}]"#), "set 0, task 0: `e` should be a number of microseconds");
        assert_eq!(mistake(r#"[{"e": 1, "p": 1e14}]"#), "set 0, task 0: `p` is longer than 72057594037927936 ns");
        assert_eq!(mistake(r#"[{"e": 1, "p": 2, "q": 2}]"#), "set 0, task 0: nothing is called `q` here");
        let good = r#"{"m": 2, "tasks": []}"#;
        let policy = mistake(&format!(r#"{good} {{"policy": "LLF", "tasks": []}}"#));
        assert_eq!(policy, "set 1: no policy is called `LLF`; there are EDF, FL, RM, DM, FP");
        assert_eq!(mistake(&format!(r#"[{good}, {{"m": 0, "tasks": []}}]"#)), "set 1: `m` should be a number of CPUs");
        assert_eq!(mistake(r#"{"m": 2, "clusters": [1], "tasks": []}"#), "set 0: `clusters` have 1 CPUs, and `m` is 2");
        assert!(mistake(&format!(r#"{good} [{{"e": NaN}}]"#)).starts_with("set 1: not JSON: expected value"));
        assert_eq!(mistake("7"), "set 0: `set` should be an object");
    }
}

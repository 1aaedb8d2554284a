//! Task sets in the formats of other tools of schedulability.
//!
//! | Format | Tool | Source of the format |
//! |---|---|---|
//! | [`schedcat`] | SchedCAT | `schedcat/model/serialize.py` |
//! | [`mast`] | MAST 1.3 and later | models that other programs write for `mast_analysis` |
//! | [`sag`] | the schedule-abstraction graph, `nptest` | its README and `include/io.hpp` |
//!
//! All times are whole nanoseconds, in these files, too. None of the formats has all properties of a task here. A property that a file leaves out
//! or changes is a [`Note`].
#![forbid(unsafe_code)]

pub mod mast;
pub mod sag;
pub mod schedcat;

use std::fmt;

/// A system of clusters.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct System {
    /// The name of the system.
    pub name: String,
    /// The clusters of the system.
    pub clusters: Vec<Cluster>,
}

/// Tasks that share CPUs and one queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cluster {
    /// The name of the cluster.
    pub name: String,
    /// CPUs, at least one.
    pub cpus: u32,
    /// The order of jobs.
    pub policy: Policy,
    /// The tasks.
    pub tasks: Vec<Task>,
}

/// The order of jobs in a cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Policy {
    /// Earliest deadline first.
    Edf,
    /// Fair lateness: deadlines, less `e - ceil(e / m)`.
    Fl,
    /// The shorter period first.
    Rm,
    /// The shorter relative deadline first.
    Dm,
    /// The smaller number first.
    Fp,
}

/// One task. All times are nanoseconds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Task {
    /// The name of the task.
    pub name: String,
    /// The longest execution of a job, without waits and costs of the kernel.
    pub execution: u64,
    /// The execution that FL takes priority points from.
    pub expected: u64,
    /// The least time between releases, above zero.
    pub period: u64,
    /// The time from a release to the deadline.
    pub deadline: u64,
    /// The priority: 1 is the most urgent. Only FP looks at it.
    pub priority: u32,
    /// The release of jobs.
    pub release: Release,
    /// The longest time that a job suspends itself.
    pub suspends: u64,
    /// Its holds of engines and locks.
    pub uses: Vec<Use>,
}

/// The release of jobs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Release {
    /// By the clock, the first job so long after the start.
    Periodic {
        /// The time from the start.
        phase: u64,
    },
    /// At least a period apart.
    Sporadic,
}

/// The holds of an engine or a lock by a task's jobs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Use {
    /// The name of the engine or lock.
    pub resource: String,
    /// Holds of each job.
    pub times: u32,
    /// The longest hold, in nanoseconds.
    pub length: u64,
}

/// The files of a format.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Export {
    /// The texts, each with the name of its cluster, if there is one text for each cluster.
    pub files: Vec<(Option<String>, String)>,
    /// The properties of the system that the files leave out or change.
    pub notes: Vec<Note>,
}

/// A property of a system that a format cannot express.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Note {
    /// The format has no policy: the reader names one.
    Policy {
        /// The cluster.
        cluster: String,
    },
    /// The format numbers partitions, and does not have their CPUs.
    Cpus {
        /// The cluster.
        cluster: String,
        /// Its CPUs.
        cpus: u32,
    },
    /// The format has no global scheduling: the cluster is not in the file.
    Global {
        /// The cluster.
        cluster: String,
        /// Its CPUs.
        cpus: u32,
    },
    /// The tool takes jobs for such that are never preempted.
    Preemption {
        /// The cluster.
        cluster: String,
    },
    /// The format wants a least execution time, and none is declared: the file has zero.
    LeastExecution {
        /// The cluster.
        cluster: String,
    },
    /// The first releases are not in the file.
    Phase {
        /// The task.
        task: String,
    },
    /// The format has periodic jobs only: the file has the jobs of a periodic task.
    Sporadic {
        /// The task.
        task: String,
    },
    /// The suspension of jobs is not in the file.
    Suspension {
        /// The task.
        task: String,
        /// The longest of a job, in nanoseconds.
        span: u64,
    },
    /// Holds of an engine or a lock are not in the file.
    Use {
        /// The task.
        task: String,
        /// The engine or lock.
        resource: String,
    },
    /// The name of a task is another one in the file.
    Name {
        /// The task.
        task: String,
        /// Its name in the file.
        written: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Policy { cluster } => write!(f, "cluster `{cluster}`: the format has no policy"),
            Note::Cpus { cluster, cpus } => {
                write!(f, "cluster `{cluster}`: the format does not have the number of its CPUs, {cpus}")
            }
            Note::Global { cluster, cpus } => {
                write!(f, "cluster `{cluster}`: left out, since the format has no global scheduling on {cpus} CPUs")
            }
            Note::Preemption { cluster } => {
                write!(f, "cluster `{cluster}`: the tool takes its jobs for such that are never preempted")
            }
            Note::LeastExecution { cluster } => {
                write!(f, "cluster `{cluster}`: no least execution times are declared, and the file has zero")
            }
            Note::Phase { task } => write!(f, "task `{task}`: its first release is not in the file"),
            Note::Sporadic { task } => {
                write!(f, "task `{task}`: sporadic, and the file has periodic jobs from the start")
            }
            Note::Suspension { task, span } => {
                write!(f, "task `{task}`: its suspension of {span} ns is not in the file")
            }
            Note::Use { task, resource } => write!(f, "task `{task}`: its holds of `{resource}` are not in the file"),
            Note::Name { task, written } => write!(f, "task `{task}`: called `{written}` in the file"),
        }
    }
}

/// The reason why a system has no file of a format.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unable {
    /// No cluster can be written.
    Empty,
    /// A format of jobs would have too many.
    TooManyJobs {
        /// The cluster.
        cluster: String,
        /// The largest number of jobs that is written.
        most: usize,
    },
}

impl fmt::Display for Unable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unable::Empty => f.write_str("the format can express no cluster of the system"),
            Unable::TooManyJobs { cluster, most } => {
                write!(f, "cluster `{cluster}`: more than {most} jobs until its releases repeat")
            }
        }
    }
}

impl std::error::Error for Unable {}

/// The formats.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// The XML of SchedCAT.
    SchedCat,
    /// The text model of MAST.
    Mast,
    /// The job sets of the schedule-abstraction graph.
    Sag,
}

/// The files of `system` in `format`.
///
/// # Errors
/// [`Unable`].
pub fn export(system: &System, format: Format) -> Result<Export, Unable> {
    match format {
        Format::SchedCat => Ok(schedcat::export(system)),
        Format::Mast => mast::export(system),
        Format::Sag => sag::export(system),
    }
}

/// Notes on suspension of a task, and its holds, where neither is written.
fn waits(task: &Task) -> impl Iterator<Item = Note> {
    let name = || task.name.clone();
    let suspends = (task.suspends > 0).then(|| Note::Suspension { task: name(), span: task.suspends });
    let uses = task.uses.iter().map(move |one| Note::Use { task: name(), resource: one.resource.clone() });
    suspends.into_iter().chain(uses)
}

//! Systems that make traps as long as they can be: each is about one queue or chain, and comes in two sizes.
//!
//! The tasks are those of `apps/bench-worst`: they wait at one place until one instant, on budgets that run dry meanwhile.
//! Their calls are random, but repeat each time.

use std::fmt::Write;

use fusee_kernel_core::limits::{
    CALLERS, CHAIN_MAX, CPUS, FEW_GROUP_USERS, FEW_POOL_USERS, HANDLES, LONGEST_PATH, LONGEST_PATH_CROWDED,
    POOLS_PER_TASK, THREADS, USERS_PER_ENGINE, USERS_PER_GROUP, USERS_PER_POOL, least_budget,
};

/// Systems of one kind.
pub struct Family {
    /// The objects of which there are many.
    pub name: &'static str,
    /// How many there may be.
    pub limit: usize,
    /// How many there are in the two systems that run.
    pub sizes: [usize; 2],
    /// The system with so many.
    pub manifest: fn(usize) -> String,
}

/// All of them.
pub const FAMILIES: [Family; 8] = [
    Family { name: "callers of an endpoint", limit: CALLERS, sizes: [CALLERS / 2, CALLERS], manifest: callers },
    Family { name: "callers of the dead", limit: CALLERS, sizes: [CALLERS / 2, CALLERS], manifest: mourners },
    Family { name: "servers in a chain", limit: CHAIN_MAX, sizes: [CHAIN_MAX / 2, CHAIN_MAX], manifest: chain },
    Family {
        name: "users of an engine",
        limit: USERS_PER_ENGINE,
        sizes: [USERS_PER_ENGINE / 2, USERS_PER_ENGINE],
        manifest: lockers,
    },
    Family {
        name: "users of pools",
        limit: FEW_POOL_USERS,
        sizes: [FEW_POOL_USERS / 2, FEW_POOL_USERS],
        manifest: sharers,
    },
    Family {
        name: "users of a group",
        limit: FEW_GROUP_USERS,
        sizes: [FEW_GROUP_USERS / 2, FEW_GROUP_USERS],
        manifest: groupers,
    },
    Family { name: "tasks", limit: THREADS, sizes: [200, 400], manifest: tasks },
    Family { name: "handles of a task", limit: HANDLES, sizes: [HANDLES / 2, HANDLES], manifest: handles },
];

/// Systems in which more share a pool or a group, or a pool is advised.
pub fn crowded() -> Vec<String> {
    // An advised pool that is not used makes the kernel the one of the others.
    let mut all = vec![groupers(USERS_PER_GROUP) + "[pools.idle]\nreplicas = 1\nadvice = \"random\"\n"];
    for advice in ["affinity", "random"] {
        for limit in ["\"r2dglp\"", "\"unlimited\""] {
            let number = all.len();
            let name = format!("advised{number}-{USERS_PER_POOL}");
            all.push(sharing(&name, USERS_PER_POOL, &format!("advice = \"{advice}\"\nlimit = {limit}")));
        }
    }
    all
}

//--- Parts of a manifest

/// Nanoseconds between the instants at which everybody wakes.
const GRID: u64 = 1_000_000;
/// The least budgets, in microseconds: of other systems, and of crowded ones.
const FEW: u64 = least_budget(LONGEST_PATH) / 1_000;
const MANY: u64 = least_budget(LONGEST_PATH_CROWDED) / 1_000;

struct Draft {
    text: String,
    number: u64,
}

impl Draft {
    /// A system with a director that stops its `victims`, one in each millisecond.
    fn new(name: &str, cpus: u32, jobs: u64, victims: &[String]) -> Draft {
        let text = format!(
            "[system]\nname = \"{name}\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"20ms\"\nadmission = \"warn\"\n"
        );
        let mut draft = Draft { text, number: 0 };
        let mut handles = "system = \"system: shutdown\"".to_owned();
        for (number, victim) in victims.iter().enumerate() {
            let _ = write!(handles, "\nvictim{} = \"task {victim}: stop\"", number + 1);
        }
        let cluster = if cpus == 2 { "\ncluster = \"left\"" } else { "" };
        if cpus == 2 {
            draft.text.push_str("[clusters.left]\ncpus = [0]\n[clusters.right]\ncpus = [1]\n");
        }
        let timing = format!("period = \"1ms\"\ndeadline = \"300us\"\nbudget = \"200us\"\nphase = \"20ms\"{cluster}");
        draft.task("director", 0, &timing, &format!("jobs = {jobs}"), &handles);
        draft
    }

    fn task(&mut self, name: &str, role: u32, timing: &str, parameters: &str, handles: &str) {
        self.number += 1;
        let parameters = if parameters.is_empty() { String::new() } else { format!(", {parameters}") };
        let _ = write!(
            self.text,
            "[tasks.{name}]\nbinary = \"apps/bench-worst\"\nstack = \"4KiB\"\n{timing}\n\
             parameters = {{ role = {role}, number = {}{parameters} }}\n[tasks.{name}.handles]\n{handles}\n",
            self.number
        );
    }

    fn endpoint(&mut self, name: &str, server: &str) {
        let _ = write!(self.text, "[endpoints.{name}]\nserver = \"{server}\"\nservice_max = \"50us\"\n");
    }
}

/// Deadlines that differ, and a budget that a request or two use up; every third is background.
fn modest(number: usize) -> String {
    frugal(number, FEW)
}

/// A task as above with another budget, in microseconds.
fn frugal(number: usize, budget: u64) -> String {
    match number % 3 {
        0 => "class = \"background\"".to_owned(),
        _ => format!(
            "period = \"{}us\"\ndeadline = \"{}us\"\nbudget = \"{budget}us\"",
            2_000 + 10 * number,
            1_990 - 10 * number
        ),
    }
}

fn grid(work: u64) -> String {
    format!("grid = {GRID}, work = {work}")
}

//--- Systems

/// `count` callers of one endpoint, which all give up at one instant.
fn callers(count: usize) -> String {
    let mut draft = Draft::new(&format!("callers-{count}"), 1, 40, &[]);
    draft.task("server", 2, "", &grid(60_000), "serves = \"endpoint door: receive\"");
    draft.endpoint("door", "server");
    for number in 0..count {
        draft.task(&format!("caller{number}"), 1, &modest(number), &grid(0), "server = \"endpoint door: call\"");
    }
    draft.text
}

/// A server that owes as many replies as it can, and at which `count` queue, is stopped; before it some of these.
fn mourners(count: usize) -> String {
    let mut victims: Vec<String> = (0..12).map(|number| format!("caller{}", count - 1 - number)).collect();
    victims.push("server".to_owned());
    let mut draft = Draft::new(&format!("mourners-{count}"), 2, 30, &victims);
    draft.task("server", 7, "cluster = \"left\"", "", "serves = \"endpoint door: receive\"");
    draft.endpoint("door", "server");
    for number in 0..count {
        let cluster = ["left", "right"][number % 2];
        let timing = format!("cluster = \"{cluster}\"\n{}", modest(number));
        // They never give up.
        let handles = "server = \"endpoint door: call\"";
        draft.task(&format!("caller{number}"), 1, &timing, "grid = 1_000_000_000", handles);
    }
    draft.text
}

/// `count` servers, each of which calls the next; clients of two clusters at each.
fn chain(count: usize) -> String {
    let mut draft = Draft::new(&format!("chain-{count}"), 2, 60, &[format!("server{}", count / 2)]);
    for number in 0..count {
        let mut handles = format!("serves = \"endpoint door{number}: receive\"");
        if number + 1 < count {
            let _ = write!(handles, "\nnext = \"endpoint door{}: call\"", number + 1);
        }
        let work = if number + 1 == count { 30_000 } else { 2_000 };
        let cluster = ["left", "right"][number / 2 % 2];
        let timing =
            format!("cluster = \"{cluster}\"\n{}", if number % 2 == 1 { modest(number) } else { String::new() });
        draft.task(&format!("server{number}"), 2, &timing, &grid(work), &handles);
        draft.endpoint(&format!("door{number}"), &format!("server{number}"));
        for client in 0..12 {
            let cluster = ["left", "right"][client % 2];
            let timing = format!("cluster = \"{cluster}\"\n{}", modest(12 * number + client + 1));
            let handles = format!("server = \"endpoint door{number}: call\"");
            draft.task(&format!("client{number}_{client}"), 1, &timing, &grid(0), &handles);
        }
    }
    draft.text
}

/// `count` users of one engine.
fn lockers(count: usize) -> String {
    let victims: Vec<String> = (0..8).map(|number| format!("user{number}")).collect();
    let mut draft = Draft::new(&format!("lockers-{count}"), 1, 40, &victims);
    draft.text.push_str("[engines.engine]\norder = \"priority\"\n");
    for number in 0..count {
        let handles = "engine = \"engine engine: acquire\"";
        draft.task(&format!("user{number}"), 4, &modest(number), &grid(30_000), handles);
    }
    draft.text
}

/// `count` users of the engines of one group, on as many CPUs as there are.
fn groupers(count: usize) -> String {
    let victims: Vec<String> = (0..4).map(|number| format!("user{number}")).collect();
    let mut draft = Draft::new(&format!("groupers-{count}"), CPUS as u32, 40, &victims);
    let mut handles = String::new();
    for engine in 1..=4 {
        let _ = writeln!(draft.text, "[engines.engine{engine}]\ngroup = \"all\"");
        let _ = writeln!(handles, "engine{engine} = \"engine engine{engine}: acquire\"");
    }
    let budget = if count <= FEW_GROUP_USERS { FEW } else { MANY };
    for number in 0..count {
        draft.task(&format!("user{number}"), 11, &frugal(number, budget), &grid(30_000), &handles);
    }
    draft.text
}

/// `count` users of as many pools as a task may use, on as many CPUs as there are.
fn sharers(count: usize) -> String {
    sharing(&format!("sharers-{count}"), count, "")
}

/// Sharers as above; the pools have these `keys`.
fn sharing(name: &str, count: usize, keys: &str) -> String {
    let victims: Vec<String> = (0..6).map(|number| format!("user{number}")).collect();
    let mut draft = Draft::new(name, CPUS as u32, 40, &victims);
    let mut handles = String::new();
    let mut uses = String::new();
    for pool in 1..=POOLS_PER_TASK {
        let _ = writeln!(draft.text, "[pools.pool{pool}]\nreplicas = 2\n{keys}");
        let _ = writeln!(handles, "pool{pool} = \"pool pool{pool}: acquire\"");
        let _ = writeln!(uses, "uses.pool{pool} = {{ cpu = \"40us\" }}");
    }
    let budget = if keys.is_empty() && count <= FEW_POOL_USERS { FEW } else { MANY };
    for number in 0..count {
        let timing = format!("{}\n{}", frugal(number, budget), if keys.is_empty() { "" } else { &uses });
        draft.task(&format!("user{number}"), 10, &timing, &grid(30_000), &handles);
    }
    draft.text
}

/// `count` tasks: jobs that are released at one instant, sleepers that wake at one, and pairs that signal each other.
fn tasks(count: usize) -> String {
    let mut draft = Draft::new(&format!("tasks-{count}"), 1, 60, &[]);
    for number in 0..count - 1 {
        let name = format!("task{number}");
        let deadline = 40_000 - 50 * number;
        let timing = format!("period = \"40ms\"\ndeadline = \"{deadline}us\"\nbudget = \"40us\"");
        match number % 4 {
            0 => draft.task(&name, 3, &timing, &grid(0), ""),
            1 | 2 if number < 200 => {
                let partner = if number % 4 == 1 { number + 1 } else { number - 1 };
                let _ = writeln!(draft.text, "[notifications.event{number}]");
                let handles = format!(
                    "event = \"notification event{number}: wait\"\nother = \"notification event{partner}: signal\""
                );
                draft.task(&name, 8, &timing, &grid(0), &handles);
            }
            _ => draft.task(&name, 9, &timing, &grid(5_000), ""),
        }
    }
    draft.text
}

/// A task with a table of handles that is filled up to `count`, and which has given copies of all of them; both are stopped.
fn handles(count: usize) -> String {
    let mut draft = Draft::new(&format!("handles-{count}"), 1, 20, &["giver", "keeper", "copier"].map(String::from));
    draft.text.push_str("[notifications.event]\n");
    // Handles that it has from the start leave room for so many.
    let own: String =
        (0..HANDLES - count).map(|number| format!("own{number} = \"notification event: wait\"\n")).collect();
    let last = "serves = \"endpoint end: receive\"\n";
    draft.task("copier", 5, "", "", &format!("{last}{own}"));
    draft.task(
        "keeper",
        5,
        "",
        "",
        &format!("serves = \"endpoint door: receive\"\nnext = \"endpoint end: call\"\n{own}"),
    );
    draft.endpoint("door", "keeper");
    draft.endpoint("end", "copier");
    let giver = "server = \"endpoint door: call\"\nevent = \"notification event: signal wait grant\"";
    draft.task("giver", 6, "period = \"1ms\"\nbudget = \"900us\"", "", giver);
    draft.text
}

//! Proofs that others made false: each manifest is one of honest tasks, or of a task that does all that it may, and its victim is not proved, whether
//! the system is refused or built with a warning.

mod holds;

use std::path::Path;

use fusee_manifest::admission::{Origin, Study};
use fusee_manifest::{Manifest, ManifestErrors};
use fusee_sched_analysis::Overheads;

fn parse(text: &str) -> Result<Manifest, ManifestErrors> {
    Manifest::parse(Path::new("m.toml"), text)
}

/// A manifest with these tables: of one CPU, or of two where they have clusters.
fn system(more: &str, tables: &str) -> String {
    let cpus = if tables.contains("[clusters.") { 2 } else { 1 };
    format!("[system]\nname = \"s\"\nboard = \"virt\"\ncpus = {cpus}\n{more}\n{tables}")
}

/// The conditions of the proof of `task` that do not hold.
fn missing(text: &str, task: &str) -> Vec<(Origin, String)> {
    let system = parse(text).unwrap_or_else(|error| panic!("{error}")).system;
    let index = system.tasks.iter().position(|one| one.name == task).unwrap();
    let study = Study::new(&system, system.tasks[index].cluster as usize).unwrap();
    let Ok((report, blocked)) = study.analyse(&Overheads::default()) else { panic!("no bounds") };
    let at = study.members.iter().position(|member| *member == index).unwrap();
    study.missing(at, &report, &blocked).into_iter().map(|missing| (missing.origin, missing.why)).collect()
}

/// Whether `victim` is proved with `bad` replaced by `good`, and is not, for this reason, with it.
#[track_caller]
fn breaks(tables: &str, (bad, good): (&str, &str), victim: &str, (origin, why): (Origin, &str)) {
    let warned = "admission = \"warn\"";
    assert!(tables.contains(bad), "there is no `{bad}`");
    let mended = system(warned, &tables.replace(bad, good));
    assert_eq!(missing(&mended, victim), [], "with `{good}`");
    let all = missing(&system(warned, tables), victim);
    assert!(all.iter().any(|(of, text)| *of == origin && text.contains(why)), "{all:#?}");
    let refused = parse(&system("", tables)).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains(why), "{refused}");
}

#[test]
fn releases_that_find_no_place_are_no_deadlines_met() {
    let tables = r#"
policy = "EDF"
[tasks.a]
script = ["burn 2ms"]
period = "10ms"
deadline = "35ms"
budget = "2100us"
backlog = 1
hard = true
[tasks.b]
script = ["burn 26ms"]
period = "100ms"
deadline = "27ms"
budget = "26500us"
hard = true
"#;
    let why = (Origin::Backlog, "up to 2 of its releases may queue, and with `backlog` = 1 the others are dropped");
    breaks(tables, ("backlog = 1", "backlog = 2"), "a", why);
    breaks(&tables.replace("EDF", "DM").replace("35ms", "36ms"), ("backlog = 1", "backlog = 3"), "a", why);
}

#[test]
fn who_may_be_ended_is_proved_only_if_those_who_may_are_trusted() {
    let tables = r#"
[tasks.a]
script = ["call s 100us"]
period = "10ms"
budget = "2ms"
wcet = "100us"
hard = true
handles = { s = "endpoint s: call" }
uses.s = {}
[tasks.server]
script = ["serve s"]
handles = { s = "endpoint s: receive" }
[endpoints.s]
server = "server"
service_max = "100us"
[tasks.killer]
script = ["sleep 5ms", "stop a", "stop server"]
class = "background"
handles = { a = "task a: stop", server = "task server: stop" }
"#;
    let own = tables.replace(r#", "stop server""#, "");
    breaks(&own, (r#", "stop a""#, ""), "a", (Origin::Others, "`killer` may end `a`"));
    let server = tables.replace(r#", "stop a""#, "");
    breaks(&server, (r#", "stop server""#, ""), "a", (Origin::Others, "`killer` may end `server`"));
    let binary = tables.replace(r#"script = ["sleep 5ms", "stop a", "stop server"]"#, "binary = \"apps/attacker\"");
    let handles = r#"handles = { a = "task a: stop", server = "task server: stop" }"#;
    breaks(&binary, (handles, ""), "a", (Origin::Others, "`killer` may end `a`"));
    // That others trust it, or that it is the task itself, changes nothing of the work of a script.
    let trusted = own.replace("class = \"background\"", "class = \"background\"\ntrusted = true");
    breaks(&trusted, (r#", "stop a""#, ""), "a", (Origin::Others, "`killer` ends `a`, as its script says"));
    let itself = own.replace(
        r#"handles = { s = "endpoint s: call" }"#,
        r#"handles = { s = "endpoint s: call", a = "task a: stop" }"#,
    );
    let itself =
        itself.replace(r#""call s 100us"]"#, r#""call s 100us", "stop a"]"#).replace(r#"5ms", "stop a""#, r#"5ms""#);
    breaks(&itself, (r#"100us", "stop a""#, r#"100us""#), "a", (Origin::Others, "`a` ends `a`, as its script says"));
}

#[test]
fn a_node_that_nobody_trusts_may_keep_the_writer_of_an_object_waiting() {
    let tables = r#"
[tasks.w]
script = ["burn 1ms"]
period = "10ms"
budget = "2ms"
hard = true
[tasks.r]
script = ["burn 1ms"]
budget = "2ms"
trusted = true
[tasks.third]
script = ["burn 100us"]
budget = "1ms"
TRUST
[graphs.g]
source = "w"
[graphs.g.edges.e]
from = "r"
to = "third"
[graphs.g.objects.o]
writer = "w"
bytes = "4KiB"
readers = { r = {} }
"#;
    // A task that the reader releases cannot: each node has its words alone.
    let text = tables.replace("TRUST", "trusted = false");
    assert_eq!(missing(&system("admission = \"warn\"", &text), "w"), []);
    // A task that keeps the reader waiting can: for tokens, or for a frame that it writes.
    let why = (Origin::Others, "`third` may keep `w` waiting for a frame of `g.o`");
    let edge = "from = \"r\"\nto = \"third\"\n";
    let before = text.replace(edge, "from = \"w\"\nto = \"third\"\n[graphs.g.edges.f]\nfrom = \"third\"\nto = \"r\"\n");
    breaks(&before, ("trusted = false", "trusted = true"), "w", why);
    let behind = text.clone() + "[graphs.g.objects.p]\nwriter = \"r\"\nbytes = \"4KiB\"\nreaders = { third = {} }\n";
    breaks(&behind, ("trusted = false", "hard = true"), "w", why);
    // Unless one writes over frames that the other has not read.
    let object = "readers = { r = {} }";
    for text in [&before, &behind.replace("readers = { third = {} }", "readers = { third = {} }\noverwrite = true")] {
        let over = text.replacen(object, "readers = { r = {} }\noverwrite = true", 1);
        assert_eq!(missing(&system("admission = \"warn\"", &over), "w"), [], "{over}");
    }
    let over = behind.replace("readers = { third = {} }", "readers = { third = {} }\noverwrite = true");
    assert_eq!(missing(&system("admission = \"warn\"", &over), "w"), []);
    // A reader that has ended reads no more.
    let killer = "[tasks.killer]\nscript = [\"stop r\"]\nclass = \"background\"\nhandles = { r = \"task r: stop\" }\n";
    let ended = (Origin::Others, "`killer` may end `r`");
    breaks(&(text.clone() + killer), ("script = [\"stop r\"]", "script = [\"burn 1ms\"]"), "w", ended);
    let reader = tables.replace("trusted = true", "trusted = false").replace("TRUST", "trusted = true");
    let why = (Origin::Others, "`r` may keep `w` waiting for a frame of `g.o`");
    breaks(&reader, ("trusted = false", "trusted = true"), "w", why);
}

#[test]
fn a_budget_that_may_run_dry_proves_nothing_for_those_who_share_with_it() {
    let tables = r#"
policy = "FP"
[tasks.high]
script = ["call s 1ms"]
period = "100ms"
wcet = "2ms"
budget = "3ms"
priority = 1
trusted = true
handles = { s = "endpoint s: call" }
uses.s = {}
[tasks.low]
script = ["call s 1ms"]
period = "50ms"
wcet = "2ms"
budget = "10ms"
priority = 2
trusted = true
handles = { s = "endpoint s: call" }
uses.s = {}
[tasks.alone]
script = ["burn 1ms"]
period = "50ms"
budget = "2ms"
priority = 3
hard = true
[tasks.server]
script = ["serve s"]
handles = { s = "endpoint s: receive" }
[endpoints.s]
server = "server"
service_max = "1ms"
"#;
    let why = (Origin::Budget, "budget of `high` (3 ms) is too small");
    breaks(tables, ("budget = \"3ms\"", "budget = \"4ms\""), "high", why);
    breaks(tables, ("budget = \"3ms\"", "budget = \"4ms\""), "low", why);
    // It waits for nothing.
    assert_eq!(missing(&system("admission = \"warn\"", tables), "alone"), []);
}

#[test]
fn a_supervisor_waits_for_all_that_it_watches() {
    let tables = r#"
[supervisor]
task = "watcher"
dies = "go-on"
[tasks.watcher]
binary = "supervisor/supervisor"
period = "50ms"
budget = "11ms"
wcet = "300us"
suspends = "500us"
hard = true
[tasks.server]
script = ["serve s"]
handles = { s = "endpoint s: receive" }
restart = { delay = "500us", longest_delay = "2ms" }
[endpoints.s]
server = "server"
service_max = "100us"
"#;
    let why = (Origin::Counted, "`suspends` of `watcher` is shorter than their `start_within` in sum, 10.000 ms");
    breaks(tables, ("500us\"\nhard", "10ms\"\nhard"), "watcher", why);
}

const WORKS: &str = r#"
[tasks.a]
script = ["acquire ee", "submit ee 100us gpu_done", "release ee"]
period = "10ms"
budget = "2ms"
hard = true
handles = { ee = "engine ee: acquire" }
uses.ee = { operation = "100us" }
[tasks.other]
binary = "apps/attacker"
class = "background"
handles = { event = "notification gpu: wait" }
[tasks.gpu]
binary = "gpu-driver/gpu-driver"
class = "service"
period = "10ms"
budget = "1ms"
handles = { line = "interrupt gpu: acknowledge", event = "notification gpu: wait", tables = "region gpu: read write physical" }
[notifications.gpu]
[interrupts.gpu]
line = 112
notification = "gpu"
[devices.gpu]
driver = "gpu"
firmware = "engine-core"
memory = "64KiB"
[engines.ee]
device = "gpu"
index = 0
interrupt = "gpu"
[regions.gpu]
bytes = "64KiB"
"#;

/// A command of less than 25 us takes as long as its device needs to read it.
#[test]
fn an_operation_takes_at_least_the_time_in_which_its_device_reads_it() {
    let short = WORKS.replace("100us", "20us").replace(r#"handles = { event = "notification gpu: wait" }"#, "");
    let why = "`a` has it work for 0.025 ms while it holds engine `ee`, and `uses` says 0.020 ms";
    breaks(&short, (r#"operation = "20us""#, r#"operation = "25us""#), "a", (Origin::Counted, why));
}

#[test]
fn a_script_that_receives_waits_for_a_request() {
    let tables = r#"
[tasks.a]
script = ["receive s", "burn 1us", "reply s"]
period = "10ms"
budget = "2ms"
hard = true
handles = { s = "endpoint s: receive" }
[endpoints.s]
server = "a"
"#;
    let why = "it waits for requests at `s`, for how long is not said in `uses` and `suspends`";
    breaks(tables, (r#""receive s", "burn 1us", "reply s""#, r#""burn 1us""#), "a", (Origin::Counted, why));
}

#[test]
fn whoever_waits_for_the_interrupts_of_a_driver_keeps_its_clients_waiting() {
    let right = r#"handles = { event = "notification gpu: wait" }"#;
    let why = "`other` may wait for `gpu`, and then the driver `gpu` does not hear of it";
    breaks(WORKS, (right, ""), "a", (Origin::Others, why));
    let alone = WORKS.replace(right, "");
    let why = "`other` runs on the budget of driver `gpu`, as `gpu` is bound to it";
    let bound = alone.replace("[notifications.gpu]\n", "[notifications.gpu]\nbound = \"other\"\n");
    breaks(&bound, ("bound = \"other\"\n", ""), "a", (Origin::Others, why));
    // Where the driver leaves the wait to another task, that is part of it.
    let left =
        WORKS.replace(r#"event = "notification gpu: wait", tables"#, r#"event = "notification gpu: signal", tables"#);
    let left = left.replace("gpu-driver/gpu-driver", "apps/driver");
    assert_eq!(missing(&system("admission = \"warn\"", &left), "a"), []);
}

#[test]
fn an_operation_that_goes_on_after_its_release_is_paid_until_the_driver_notices_its_end() {
    let alone = WORKS.replace(r#"handles = { event = "notification gpu: wait" }"#, "");
    let pays = alone.replace("uses.ee =", "wcet = \"1ms\"\nbudget_covers = \"cpu+engines\"\nuses.ee =");
    let starts = pays.replace("submit ee 100us gpu_done", "start ee 100us");
    let why = "`a` may release an engine at work, and pays for it until driver `gpu` has time to notice its end";
    breaks(&starts, ("start ee 100us", "submit ee 100us gpu_done"), "a", (Origin::Others, why));
    let program = r#"script = ["acquire ee", "submit ee 100us gpu_done", "release ee"]"#;
    let program = pays.replace(program, r#"binary = "apps/attacker""#);
    assert_eq!(missing(&system("admission = \"warn\"", &program), "a"), [(Origin::Others, why.to_owned())]);
}

/// A task whose commands may go on after its release has two under way, or leaves ends to the next task that waits for the driver.
#[test]
fn operations_that_go_on_after_their_release_leave_other_tasks_without_bounds() {
    let alone = WORKS.replace(r#"handles = { event = "notification gpu: wait" }"#, "");
    let alone = alone.replace("uses.ee =", "wcet = \"1ms\"\nuses.ee =");
    let third = "[tasks.third]\nscript = [\"acquire ee\", \"submit ee 50us gpu_done\", \"release ee\"]\nperiod = \"50ms\"\n\
                 budget = \"2ms\"\nwcet = \"1ms\"\ntrusted = true\nuses.ee = { cpu = \"10us\", operation = \"50us\" }\n\
                 handles = { ee = \"engine ee: acquire\" }\n";
    let two = format!("{alone}{third}");
    let why = "waiting for engine `ee` is not bounded: `third` may release engine `ee` before it hears of the end of its commands";
    let starts = two.replace("submit ee 50us gpu_done", "start ee 50us");
    breaks(&starts, ("start ee 50us", "submit ee 50us gpu_done"), "a", (Origin::Counted, why));
    let says = two.replace(r#"cpu = "10us", "#, r#"cpu = "10us", awaits = false, "#);
    breaks(&says, ("awaits = false, ", ""), "a", (Origin::Counted, why));
}

#[test]
fn clients_without_a_lock_may_draw_a_driver_into_their_cluster() {
    let shares =
        WORKS.replace(r#"handles = { event = "notification gpu: wait" }"#, r#"handles = { ce = "engine ce: share" }"#);
    let copies = "[engines.ce]\ndevice = \"gpu\"\nindex = 1\ninterrupt = \"gpu\"\nshared_longest = \"10us\"\n";
    let shares = format!("{shares}{copies}");
    let here = shares.replace("[interrupts.gpu]\n", "[interrupts.gpu]\ncluster = \"here\"\n");
    let here = here.replace("[tasks.a]\n", "[tasks.a]\ncluster = \"here\"\n");
    let here = here.replace("[tasks.gpu]\n", "[tasks.gpu]\ncluster = \"here\"\n");
    let apart = here.replace("[tasks.other]\n", "[tasks.other]\ncluster = \"there\"\n");
    let tables = format!("[clusters.here]\ncpus = [0]\n[clusters.there]\ncpus = [1]\n{apart}");
    let why = "clusters share its driver `gpu`, but not the tokens of all its engines";
    let refused = parse(&system("", &tables)).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains(why), "{refused}");
    assert_eq!(missing(&system("", &tables.replace("\"there\"", "\"here\"")), "a"), []);
}

#[test]
fn a_script_that_ends_a_driver_ends_it_also_if_its_task_is_hard() {
    let alone = WORKS.replace(r#"handles = { event = "notification gpu: wait" }"#, "");
    let hard = r#"
[tasks.stopper]
script = ["burn 1us", "stop gpu"]
period = "10ms"
budget = "100us"
hard = true
handles = { gpu = "task gpu: stop" }
"#;
    let why = (Origin::Others, "`stopper` ends `gpu`, as its script says");
    breaks(&format!("{alone}{hard}"), (r#", "stop gpu""#, ""), "a", why);
}

#[test]
fn a_job_that_waits_for_frames_for_ever_keeps_others_from_a_pool_that_is_asked_by_turns() {
    let tables = r#"
[clusters.here]
cpus = [0]
[clusters.there]
cpus = [1]
[tasks.a]
cluster = "here"
script = ["acquire p", "release p"]
period = "10ms"
budget = "100us"
hard = true
handles = { p = "pool p: acquire" }
uses.p = {}
[tasks.writer]
cluster = "here"
script = ["burn 25us"]
period = "1ms"
budget = "50us"
hard = true
[tasks.reader]
cluster = "there"
binary = "apps/attacker"
budget = "50us"
[pools.p]
replicas = 1
limit = "ck-omlp"
[graphs.g]
source = "writer"
[graphs.g.objects.o]
writer = "writer"
bytes = "64B"
[graphs.g.objects.o.readers.reader]
"#;
    let why = "clusters share pool `p`, so its jobs wait for `writer`, too; `reader` may keep `writer` waiting for a frame of `g.o`";
    let found = missing(&system("admission = \"warn\"", tables), "a");
    assert!(found.iter().any(|(_, words)| words.contains(why)), "{found:?}");
    // Without the graph the reader needs a period of its own, or a class without one.
    let without = tables.split("[graphs.g]").next().unwrap();
    let without = without.replace("attacker\"\nbudget = \"50us\"", "attacker\"\nclass = \"background\"");
    assert_eq!(missing(&system("admission = \"warn\"", &without), "a"), []);
}

#[test]
fn locks_that_keep_nobody_from_an_engine_prove_nothing() {
    let alone = WORKS.replace(r#"handles = { event = "notification gpu: wait" }"#, "");
    let why = "with `managed = false` the lock of engine `ee` keeps nobody from it";
    let found = missing(&system("admission = \"warn\"\nmanaged = false", &alone), "a");
    assert_eq!(found, [(Origin::Others, why.to_owned())]);
    assert_eq!(missing(&system("admission = \"warn\"", &alone), "a"), []);
}

#[test]
fn a_script_has_only_engines_work_that_it_holds_and_gives_back_what_it_holds() {
    let alone = WORKS.replace(r#"handles = { event = "notification gpu: wait" }"#, "");
    let held = r#"["acquire ee", "submit ee 100us gpu_done", "release ee"]"#;
    let without = alone.replace(held, r#"["submit ee 100us gpu_done"]"#);
    let why = "its script has an engine work that it does not hold, and faults there";
    breaks(&without, (r#"["submit ee 100us gpu_done"]"#, held), "a", (Origin::Counted, why));
    // A mutex has no doorbell that could be mapped without management.
    let tables = r#"
[tasks.a]
script = ["start m 10us"]
period = "10ms"
budget = "2ms"
hard = true
handles = { m = "engine m: acquire" }
uses.m = { cpu = "1us" }
[engines.m]
"#;
    let found = missing(&system("admission = \"warn\"\nmanaged = false", tables), "a");
    assert_eq!(found, [(Origin::Counted, why.to_owned())]);
    let pool =
        alone.replace("interrupt = \"gpu\"\n", "interrupt = \"gpu\"\npool = \"p\"\n") + "[pools.p]\nreplicas = 1\n";
    let pool = pool.replace(
        r#"handles = { ee = "engine ee: acquire" }"#,
        r#"handles = { ee = "engine ee: acquire", p = "pool p: acquire" }"#,
    );
    let pool = pool.replace("uses.ee = {", "uses.p = { cpu = \"1us\" }\nuses.ee = {");
    let why = "its script acquires engine `ee` without the token that this needs, and is refused";
    let taken = r#"["acquire p", "acquire ee", "submit ee 100us gpu_done", "release ee", "release p"]"#;
    breaks(&pool, (held, taken), "a", (Origin::Counted, why));
    let kept = alone.replace(r#", "release ee"]"#, "]");
    let why = "`a` does not give back engine `ee`, and that is in no bound on the hold";
    breaks(&kept, (r#"gpu_done"]"#, r#"gpu_done", "release ee"]"#), "a", (Origin::Counted, why));
}

#[test]
fn a_script_that_calls_computes_no_more_than_its_wcet() {
    let tables = r#"
[tasks.a]
script = ["call s 100us", "burn 1900us"]
period = "10ms"
budget = "2ms"
wcet = "1ms"
hard = true
handles = { s = "endpoint s: call" }
uses.s = {}
[tasks.server]
script = ["serve s"]
handles = { s = "endpoint s: receive" }
[endpoints.s]
server = "server"
service_max = "100us"
"#;
    let why = "the script of `a` computes for 1.900 ms, and its `wcet` is 1.000 ms";
    breaks(tables, ("burn 1900us", "burn 900us"), "a", (Origin::Counted, why));
}

#[test]
fn a_budget_taken_in_advance_delays_others_until_their_deadlines() {
    let tables = r#"
policy = "EDF"
[tasks.a]
script = ["burn 1484us"]
period = "5ms"
budget = "1485us"
deadline = "33ms"
backlog = 2
hard = true
[tasks.b]
binary = "apps/attacker"
period = "8828us"
budget = "6ms"
overrun = "early-release"
"#;
    let why = (Origin::Backlog, "up to 6 of its releases may queue, and with `backlog` = 2 the others are dropped");
    breaks(tables, ("overrun = \"early-release\"", "overrun = \"throttle\""), "a", why);
    breaks(tables, ("backlog = 2", "backlog = 6"), "a", why);
}

#[test]
fn a_task_for_which_others_wait_runs_in_their_cluster() {
    let tables = r#"
[clusters.one]
cpus = [0]
[clusters.other]
cpus = [1]
[tasks.a]
script = ["burn 25us"]
period = "1ms"
budget = "500us"
hard = true
cluster = "one"
handles = { done = "notification done: signal" }
[tasks.waits]
script = ["wait done"]
class = "service"
period = "1ms"
budget = "500us"
cluster = "other"
handles = { done = "notification done: wait" }
[notifications.done]
bound = "a"
"#;
    let why = (
        Origin::Counted,
        "`waits` of another cluster may wait for `done`, which is bound to `a`: it runs there meanwhile",
    );
    breaks(tables, ("bound = \"a\"", ""), "a", why);
    breaks(tables, ("cluster = \"other\"\nhandles", "cluster = \"one\"\nhandles"), "a", why);
}

#[test]
fn a_holder_of_a_token_that_sleeps_keeps_all_of_its_cluster_waiting_where_clusters_share() {
    let tables = r#"
[tasks.a]
script = ["acquire p", "sleep 50us", "release p"]
period = "10ms"
budget = "500us"
hard = true
suspends = "50us"
handles = { p = "pool p: acquire" }
uses.p = { cpu = "10us" }
[tasks.b]
script = ["burn 25us"]
period = "5ms"
budget = "500us"
wcet = "50us"
hard = true
[pools.p]
replicas = 1
limit = "ck-omlp"
"#;
    let why = (Origin::Counted, "`a` sleeps while it holds pool `p`, and that is in no bound on the hold");
    breaks(tables, ("\"sleep 50us\", ", ""), "b", why);
}

#[test]
fn a_passive_server_may_call_others_before_its_first_request() {
    let tables = r#"
[tasks.a]
script = ["burn 200us", "call s 0ns", "call s 0ns", "burn 400us"]
period = "3ms"
budget = "1674us"
wcet = "800us"
hard = true
handles = { s = "endpoint s: call" }
uses.s = {}
[tasks.other]
binary = "apps/attacker"
handles = { e = "endpoint e: receive", s = "endpoint s: call" }
[tasks.server]
binary = "apps/server"
handles = { s = "endpoint s: receive" }
[endpoints.e]
server = "other"
[endpoints.s]
server = "server"
service_max = "300us"
"#;
    let why = "budget of `a` (1674 us) is too small for its wcet (800 us), its servers (600 us) and what others may take from it while it waits (600 us)";
    breaks(tables, (", s = \"endpoint s: call\" }\n[tasks.server]", " }\n[tasks.server]"), "a", (Origin::Budget, why));
}

/// A clock task, a filter that no task needs to trust, and a logger, which sleep for more than the CPU's time in sum.
const SLEEPERS: &str = r#"
[engines.e]
[tasks.h]
binary = "apps/h"
period = "40ms"
budget = "1200us"
wcet = "1ms"
suspends = "10ms"
hard = true
handles = { e = "engine e: acquire" }
uses.e = { cpu = "100us" }
[tasks.j]
binary = "apps/j"
period = "13ms"
budget = "2ms"
suspends = "5ms"
trusted = false
[tasks.i]
binary = "apps/i"
period = "40ms"
budget = "2200us"
wcet = "2ms"
suspends = "20ms"
hard = true
handles = { e = "engine e: acquire" }
uses.e = { cpu = "100us" }
"#;

/// While others use their allowances, the kernel lets a task sleep for longer than it declares, and then it executes more often in a window.
#[test]
fn a_task_that_may_sleep_on_while_others_sleep_proves_nobody_by_windows() {
    let why = (Origin::Others, "`j` may be suspended for longer than it says while others are, too");
    for victim in ["h", "i"] {
        breaks(SLEEPERS, ("trusted = false", "trusted = true"), victim, why);
    }
    // Each of its sleeps ends with a new key.
    breaks(SLEEPERS, ("suspends = \"5ms\"\ntrusted", "trusted"), "h", why);
}

/// Pauses add up, and a sleep ends at an instant after the release.
#[test]
fn a_script_that_pauses_twice_pauses_for_both() {
    let tables = r#"
[tasks.a]
script = ["burn 1ms", "pause 1ms", "burn 1ms", "sleep 3ms", "pause 2ms", "sleep 2ms"]
period = "20ms"
budget = "3ms"
suspends = "3ms"
hard = true
[tasks.b]
script = ["burn 1ms"]
period = "20ms"
budget = "3ms"
"#;
    let why = (Origin::Counted, "it sleeps for up to 6.000 ms, and its `suspends` is 3.000 ms");
    breaks(tables, ("suspends = \"3ms\"", "suspends = \"6ms\""), "a", why);
}

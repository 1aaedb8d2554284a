//! Declared tokens, and engines held with them: mistakes, the input of the analysis, and refusals.

use std::path::Path;

use fusee_manifest::{Manifest, admission::Study};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::Overheads;
use fusee_sched_analysis::blocking::{Engine, Hold, On, Order, Pool, Protocol, Rules, Section, User};

/// Three tasks share a pool, an engine, and a group of two. Line numbers below count from its first line.
const GOOD: &str = r#"[system]
name = "gpu"
board = "virt"
cpus = 2
[tasks.first]
script = ["burn 1ms"]
period = "20ms"
budget = "8ms"
wcet = "1ms"
handles = { gpu = "pool gpu: acquire", ee = "engine ee: acquire", a = "engine a: acquire", b = "engine b: acquire" }
uses.gpu = { cpu = "200us" }
uses.ee = { times = 2, cpu = "100us", operation = "1ms", within = "gpu" }
uses.a = { cpu = "50us", operation = "400us", within = "gpu", with = "b" }
[tasks.second]
script = ["burn 1ms"]
period = "30ms"
budget = "9ms"
wcet = "1ms"
handles = { gpu = "pool gpu: acquire", ee = "engine ee: acquire", b = "engine b: acquire" }
uses.gpu = {}
uses.ee = { cpu = "200us", operation = "500us", within = "gpu" }
uses.b = { cpu = "30us", operation = "600us" }
[tasks.third]
script = ["burn 1ms"]
class = "background"
period = "10ms"
budget = "5ms"
handles = { gpu = "pool gpu: acquire", ee = "engine ee: acquire" }
uses.gpu = { cpu = "10us" }
uses.ee = { times = 3, cpu = "10us", within = "gpu" }
[tasks.driver]
binary = "a/b"
handles = { line = "interrupt line: acknowledge", event = "notification event: wait" }
[notifications.event]
[interrupts.line]
line = 72
notification = "event"
[devices.card]
driver = "driver"
firmware = "engine-core"
memory = "1MiB"
[engines.ee]
order = "fifo"
device = "card"
index = 0
interrupt = "line"
[engines.a]
order = "fifo"
group = "copies"
[engines.b]
order = "fifo"
group = "copies"
[pools.gpu]
replicas = 2
"#;

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("m.toml"), text).map_err(|error| error.to_string())
}

/// The mistakes after `from` is replaced by `to`.
#[track_caller]
fn refused(from: &str, to: &str, expected: &str) {
    assert!(GOOD.contains(from), "the good manifest has no `{from}`");
    assert_eq!(parse(&GOOD.replacen(from, to, 1)).err().as_deref(), Some(expected));
}

#[test]
fn what_a_task_says_of_tokens_makes_sense() {
    let section = |key: &str, expected: &str| refused("uses.gpu = {}", &format!("uses.gpu = {{ {key} }}"), expected);
    let excludes = |what: &str| {
        format!("m.toml:20: {what} of `second` means nothing together with a pool, of which a job has a token once")
    };
    section("times = 2", &excludes("number of uses"));
    section("operation = \"1ms\"", &excludes("operation"));
    section("within = \"gpu\"", &excludes("within"));
    section("with = \"b\"", &excludes("with"));
    let ee = "uses.ee = { cpu = \"200us\", operation = \"500us\", within = \"gpu\" }";
    let within = |name: &str| ee.replace("within = \"gpu\"", &format!("within = \"{name}\""));
    refused(ee, &within("ee"), "m.toml:21: task `second` has no handle `ee` to a pool");
    refused(ee, &within("tokens"), "m.toml:21: task `second` has no handle `tokens` to a pool");
    let with = |name: &str| format!("{}, with = \"{name}\" }}", ee.trim_end_matches(" }"));
    refused(ee, &with("b"), "m.toml:21: with of `second` needs another engine of the same group");
    refused(ee, &with("ee"), "m.toml:21: with of `second` needs another engine of the same group");
    refused(ee, &with("gpu"), "m.toml:21: task `second` has no handle `gpu` to an engine");
    // Without a token the number is unknown.
    let often = "uses.ee = { times = 3, cpu = \"10us\" }";
    let expected = "m.toml:30: number of uses of `third` means nothing together with a class other than real-time";
    refused("uses.ee = { times = 3, cpu = \"10us\", within = \"gpu\" }", often, expected);
    let completion = "[engines.a]\ncompletion = \"1us\"";
    refused("[engines.a]", completion, "m.toml:48: completion of `a` needs a device");
    refused("[engines.b]", "[engines.b]\nhangs = true", "m.toml:51: hangs of `b` needs a watchdog");
}

#[test]
fn operations_together_are_at_least_one_and_at_most_all_as_long_as_the_longest() {
    let first = "uses.ee = { times = 2, cpu = \"100us\", operation = \"1ms\", within = \"gpu\" }";
    let together = |sum: &str| first.replace("operation =", &format!("operations = \"{sum}\", operation ="));
    for sum in ["999us", "2001us"] {
        let expected =
            "m.toml:12: operations of `first` together are not from one to `times` of the longest: 1 ms to 2 ms";
        refused(first, &together(sum), expected);
    }
    let text = GOOD.replace(first, &together("1300us"));
    let manifest = parse(&text.replace("cpus = 2", "cpus = 2\nadmission = \"warn\"")).unwrap();
    let study = Study::new(&manifest.system, 0).unwrap();
    let own = &study.locks.engines[0].users[0];
    assert_eq!((own.task, own.times, own.operations), (0, 2, microseconds(1_300)));
    let section = "uses.gpu = {}";
    let excluded =
        "m.toml:20: operations of `second` means nothing together with a pool, of which a job has a token once";
    refused(section, "uses.gpu = { operations = \"1ms\" }", excluded);
}

fn microseconds(span: u64) -> Nanoseconds {
    Nanoseconds(span * 1_000)
}

fn user(task: usize, times: u32, cpu: u64, operation: u64) -> User {
    let operations = microseconds(u64::from(times) * operation);
    User {
        task,
        times,
        hold: Hold { cpu: microseconds(cpu), operation: microseconds(operation), commands: 1 },
        operations,
    }
}

#[test]
fn the_analysis_is_told_of_tokens_of_engines_within_and_of_groups_as_one_lock() {
    let text = GOOD.replace(
        "index = 0",
        "index = 0\ncompletion = \"20us\"\nhangs = true\nwatchdog = \"2ms\"\nreset_bound = \"1ms\"",
    );
    let manifest = parse(&text.replace("cpus = 2", "cpus = 2\nadmission = \"warn\"")).unwrap();
    let study = Study::new(&manifest.system, 0).unwrap();
    assert!(study.undeclared.is_empty());
    // Two of the three tasks that share the engine have a token at a time.
    let ee = Engine {
        order: Order::Fifo,
        is_group: false,
        is_mutex: false,
        users: vec![user(0, 2, 100, 1_000), user(1, 1, 200, 500), user(2, 3, 10, 0)],
        rivals: Some(2),
        completion: microseconds(20),
        others: Nanoseconds::ZERO,
        alternative: None,
        reset: microseconds(3_000),
        ..Engine::default()
    };
    // One request for both engines with a token, and one without.
    let copies = Engine {
        is_group: true,
        is_mutex: true,
        users: vec![user(0, 1, 50, 400), user(1, 1, 30, 600)],
        rivals: Some(2),
        ..Engine::default()
    };
    assert_eq!(study.locks.engines, [ee, copies]);
    let sections = [(0, 200), (1, 0), (2, 10)].map(|(task, cpu)| Section { task, cpu: microseconds(cpu) });
    let protocol = |rules| Pool {
        protocol: Protocol::Pool(rules),
        advised: false,
        sections: sections.to_vec(),
        engines: vec![0, 1],
    };
    assert_eq!(study.locks.pools, [protocol(Rules::r2dglp(2, 2))]);
    let unlimited = parse(&GOOD.replace("replicas = 2", "replicas = 2\nlimit = \"unlimited\"")).unwrap();
    let study = Study::new(&unlimited.system, 0).unwrap();
    assert_eq!(study.locks.pools, [protocol(Rules::k_fmlp(2, 2, Default::default()))]);
    let together = parse(&GOOD.replace("replicas = 2", "replicas = 2\ntotal_limit = 2")).unwrap();
    let study = Study::new(&together.system, 0).unwrap();
    assert_eq!(study.locks.pools, [protocol(Rules { total: Some(2), ..Rules::r2dglp(2, 2) })]);
}

#[test]
fn each_task_waits_for_tokens_and_engines_by_name() {
    let manifest = parse(GOOD).unwrap();
    let study = Study::new(&manifest.system, 0).unwrap();
    let (_, blocked) = study.analyse(&Overheads::default()).unwrap();
    let spans = |task: usize| {
        let mut parts: Vec<_> = blocked[task].parts.iter().map(|part| (part.on, part.span.0 / 1_000)).collect();
        parts.sort_by_key(|(on, _)| format!("{on:?}"));
        parts
    };
    // Sections: 200 + 2 * 1100 + 450 + their waits for engines; 700 + 630 + that; 10 + 30 + that. One round for all.
    let [first, second, third] =
        [200 + 2 * (1_100 + 700) + 450 + 630, 700 + 630 + 1_100 + 450, 10 + 3 * 10 + 3 * 1_100];
    let longest = |one: u64, other: u64| one.max(other);
    let engines = |ee: u64, copies: u64| [(On::Engine(0), ee), (On::Engine(1), copies)];
    assert_eq!(spans(0), [&engines(2 * 700, 630)[..], &[(On::Token(0), longest(second, third))]].concat());
    assert_eq!(spans(1), [&engines(1_100, 450)[..], &[(On::Token(0), longest(first, third))]].concat());
    assert_eq!(study.first(&blocked[1]).as_deref(), Some("pool gpu by first"));
    let copies = blocked[0].parts.iter().find(|part| part.on == On::Engine(1)).unwrap();
    let only = fusee_sched_analysis::blocking::Blocked { parts: vec![*copies], ..blocked[0].clone() };
    assert_eq!(study.first(&only).as_deref(), Some("a+b by second"));
}

/// No task waits for that engine, but for the token.
#[test]
fn a_section_has_engines_that_only_a_background_task_holds_with_its_token() {
    let uses = "uses.ee = { times = 3, cpu = \"10us\", within = \"gpu\" }";
    let also = "uses.c = { operation = \"2ms\", within = \"gpu\" }";
    let handles = "handles = { gpu = \"pool gpu: acquire\", ee = \"engine ee: acquire\" }";
    let with_another = handles.replace(" }", ", c = \"engine c: acquire\" }");
    let text = GOOD.replace(handles, &with_another).replace(uses, &format!("{uses}\n{also}"));
    let text = text.replace("[pools.gpu]", "[engines.c]\n[pools.gpu]");
    let study = Study::new(&parse(&text).unwrap().system, 0).unwrap();
    assert_eq!((study.locks.engines.len(), study.locks.pools[0].engines.len()), (3, 3));
    let (_, blocked) = study.analyse(&Overheads::default()).unwrap();
    let token = |task: usize| blocked[task].parts.iter().find(|part| part.on == On::Token(0)).map(|part| part.span);
    assert_eq!(token(0), Some(microseconds(10 + 3 * 10 + 3 * 1_100 + 2_000)));
    let silent = text.replace(also, "");
    let study = Study::new(&parse(&silent).unwrap().system, 0).unwrap();
    assert_eq!(study.undeclared.iter().map(|one| &one.lock[..]).collect::<Vec<_>>(), ["pool `gpu`"]);
}

#[test]
fn what_is_overcommitted_or_has_no_bound_is_refused_by_name() {
    let long = "uses.ee = { times = 2, cpu = \"100us\", operation = \"9_900us\", within = \"gpu\" }";
    let ee = "uses.ee = { times = 2, cpu = \"100us\", operation = \"1ms\", within = \"gpu\" }";
    refused(
        ee,
        long,
        "m.toml:42: the real-time tasks hold engine `ee` for 102.4% of its time, of which `first` has 100.0%",
    );
    refused(
        "replicas = 2",
        "replicas = 1\n[tasks.more]\nscript = [\"burn 1ms\"]\nperiod = \"10ms\"\nbudget = \"9ms\"\nwcet = \"1ms\"\n\
         handles = { gpu = \"pool gpu: acquire\" }\nuses.gpu = { cpu = \"9ms\" }",
        "m.toml:53: the real-time tasks need 108.7% of 1 token of pool `gpu`, of which `more` needs 90.0%",
    );
    refused(
        "uses.gpu = { cpu = \"200us\" }",
        "uses.gpu = { cpu = \"16_900us\" }",
        "m.toml:14: task `second` needs more than its period (30 ms): 9.000 ms of budget, 1.100 ms of operations, \
         23.130 ms of blocking, first pool gpu by first",
    );
    refused(
        "replicas = 2",
        "replicas = 1\nlimit = 1\n[engines.other]\ngroup = \"others\"\n[engines.another]\ngroup = \"others\"\n\
         [tasks.last]\nscript = [\"burn 1ms\"]\nclass = \"background\"\nhandles.o = \"engine other: acquire\"\n\
         uses.o = { cpu = \"1ms\" }\n[tasks.hand]\nscript = [\"burn 1ms\"]\nperiod = \"10ms\"\nbudget = \"1ms\"\n\
         handles.o = \"engine other: acquire\"\nuses.o = { cpu = \"1us\" }",
        "m.toml:4: waiting in cluster `all` is not bounded: other+another is by priority, and tasks that are not real-time \
         may be ahead again and again",
    );
    let wide = GOOD.replace("cpus = 2", "cpus = 3").replace("replicas = 2", "replicas = 2\nlimit = 1");
    let expected = "m.toml:4: waiting in cluster `all` is not bounded: pool gpu lets in by priority alone, and no bound \
                    is known for several tokens";
    assert_eq!(parse(&wide).err().as_deref(), Some(expected));
}

#[test]
fn a_pool_is_not_counted_unless_all_say_how_long_they_have_its_tokens_and_engines() {
    let undeclared = |from: &str, to: &str| {
        assert!(GOOD.contains(from));
        let manifest = parse(&GOOD.replacen(from, to, 1)).unwrap();
        let study = Study::new(&manifest.system, 0).unwrap();
        let words = study.undeclared.iter().map(|one| format!("{}: {}", one.lock, one.why));
        (words.collect::<Vec<_>>(), study.locks.engines.len(), study.locks.pools.len())
    };
    let silent = undeclared("uses.gpu = {}", "");
    assert_eq!(silent, (vec!["pool `gpu`: `second` does not say how long it uses pool `gpu`".to_owned()], 2, 0));
    let (words, engines, pools) =
        undeclared("uses.ee = { cpu = \"200us\", operation = \"500us\", within = \"gpu\" }", "");
    assert_eq!(
        words,
        ["engine `ee`", "pool `gpu`"].map(|lock| format!("{lock}: `second` does not say how long it uses engine `ee`"))
    );
    assert_eq!((engines, pools), (1, 0));
    let (words, ..) = undeclared("uses.b = { cpu = \"30us\", operation = \"600us\" }", "");
    assert_eq!(
        words,
        ["engines `a`, `b`", "pool `gpu`"]
            .map(|lock| format!("{lock}: `second` does not say how long it uses engines `a`, `b`"))
    );
    // Then nothing that is hard is proved.
    let hard = GOOD.replace("uses.gpu = {}", "hard = true");
    let expected = "m.toml:20: task `second` is hard, but not proved: not all that it waits for is counted: waiting for pool \
                    `gpu` is not bounded: `second` does not say how long it uses pool `gpu`";
    assert_eq!(parse(&hard).err().as_deref(), Some(expected));
}

#[test]
fn a_budget_that_covers_engines_has_to_pay_for_all_and_then_is_proved() {
    let covering = |budget: &str| {
        let covers = format!("budget = \"{budget}\"\nbudget_covers = \"cpu+engines\"\nhard = true\n");
        let text = GOOD.replacen("budget = \"8ms\"\n", &covers, 1);
        parse(
            &text
                .replace("[tasks.second]", "[tasks.second]\ntrusted = true")
                .replace("[tasks.third]", "[tasks.third]\ntrusted = true"),
        )
    };
    // It computes 1 ms and holds `ee` for 1.1 ms twice. `a` and `b` are mutexes, and it has a CPU of its own.
    let manifest = covering("8ms").unwrap();
    let (report, blocked) = Study::new(&manifest.system, 0).unwrap().analyse(&Overheads::default()).unwrap();
    assert_eq!((blocked[0].operations, blocked[0].drawn), (microseconds(2_400), microseconds(2_200)));
    // Its operations are in its budget already.
    let response = report.tasks[0].bound.as_ref().unwrap().response.to_integer();
    assert_eq!(response, (8_000_000 + blocked[0].blocking.0).into());
    assert_eq!(
        covering("3ms").err().as_deref(),
        Some(
            "m.toml:5: budget of `first` (3 ms) is too small for its wcet (1 ms), what others may take from it while it waits (880 us), and the engines it holds, preemptions included (2200 us)"
        )
    );
}

/// Two clusters, a pool that they share, the execution engine of a device with its tokens, and a task that uses none of these.
const SHARED: &str = r#"[system]
name = "shared"
board = "virt"
cpus = 3
[clusters.left]
cpus = [0, 1]
[clusters.right]
cpus = [2]
[tasks.first]
cluster = "left"
script = ["burn 1ms"]
period = "20ms"
budget = "8ms"
wcet = "1ms"
handles = { gpu = "pool gpu: acquire", ee = "engine ee: acquire" }
uses.gpu = { cpu = "200us" }
uses.ee = { times = 2, cpu = "100us", operation = "1ms" }
trusted = true
[tasks.other]
cluster = "left"
script = ["burn 1ms"]
period = "20ms"
budget = "8ms"
wcet = "1ms"
hard = true
[tasks.second]
cluster = "right"
script = ["burn 1ms"]
period = "30ms"
budget = "9ms"
wcet = "1ms"
hard = true
handles = { gpu = "pool gpu: acquire", ee = "engine ee: acquire" }
uses.gpu = {}
uses.ee = { cpu = "200us", operation = "500us" }
[tasks.driver]
binary = "a/b"
cluster = "left"
handles = { line = "interrupt line: acknowledge", event = "notification event: wait" }
[notifications.event]
[interrupts.line]
line = 72
cluster = "left"
notification = "event"
[devices.card]
driver = "driver"
firmware = "engine-core"
memory = "1MiB"
[engines.ee]
order = "fifo"
device = "card"
index = 0
interrupt = "line"
pool = "gpu"
[pools.gpu]
replicas = 2
limit = "ck-omlp"
"#;

#[test]
fn tasks_of_all_clusters_that_share_a_pool_are_bounded_and_those_that_only_donate_too() {
    let manifest = parse(SHARED).unwrap();
    let studied = |cluster: usize| {
        let study = Study::new(&manifest.system, cluster).unwrap();
        assert_eq!(study.undeclared, []);
        let (report, blocked) = study.analyse(&Overheads::default()).unwrap();
        assert!(report.is_hard());
        let part = |blocked: &fusee_sched_analysis::blocking::Blocked| {
            let parts = blocked.parts.iter().map(|part| (part.on, part.span.0 / 1_000));
            (parts.collect::<Vec<_>>(), study.first(blocked))
        };
        blocked.iter().map(part).collect::<Vec<_>>()
    };
    // Both have a token at once; each request of `first` meets the hold of `second`, 700 us, and that one's 1100 us.
    let of_first = (vec![(On::Engine(0), 1_400)], Some("ee by second".to_owned()));
    // The task without uses donates to `first`: 200 + 2 * 1100 + 1400 us.
    let of_other = (vec![(On::Donation(0), 3_800)], Some("pool gpu by first".to_owned()));
    assert_eq!(studied(0), [of_first, of_other]);
    assert_eq!(studied(1), [(vec![(On::Engine(0), 1_100)], Some("ee by first".to_owned()))]);
    // With one token each waits for that of the other, and never for the engine.
    let one = parse(&SHARED.replace("replicas = 2", "replicas = 1")).unwrap();
    let (_, blocked) = Study::new(&one.system, 1).unwrap().analyse(&Overheads::default()).unwrap();
    assert_eq!(blocked[0].blocking, Nanoseconds(2_400_000));
}

#[test]
fn what_clusters_share_is_refused_where_no_bound_is_known() {
    let refused = |from: &str, to: &str, expected: &str| {
        assert!(SHARED.contains(from), "the manifest has no `{from}`");
        // The same is said of `second`.
        let error = parse(&SHARED.replacen(from, to, 1)).err().unwrap_or_default();
        assert_eq!(error.lines().next(), Some(expected));
    };
    refused(
        "uses.gpu = {}",
        "",
        "m.toml:25: task `other` is hard, but not proved: not all that it waits for is counted: waiting for pool \
         `gpu` is not bounded: `second` does not say how long it uses pool `gpu`",
    );
    // A client without token, of one cluster only: its key may keep the driver from the clients of the other.
    let client = "[tasks.copier]\ncluster = \"left\"\nscript = [\"burn 1ms\"]\nperiod = \"20ms\"\nbudget = \"2ms\"\n\
                  wcet = \"1ms\"\nhandles = { copy = \"engine copy: acquire\" }\nuses.copy = { operation = \"1ms\" }\ntrusted = true\n\
                  [engines.copy]\norder = \"fifo\"\ndevice = \"card\"\nindex = 1\ninterrupt = \"line\"\n[pools.gpu]";
    refused(
        "[pools.gpu]",
        client,
        "m.toml:25: task `other` is hard, but not proved: not all that it waits for is counted: waiting for pool `gpu` is not \
         bounded: clusters share its driver `driver`, but not the tokens of all its engines",
    );
    let third = "[tasks.third]\ncluster = \"right\"\nscript = [\"burn 1ms\"]\nperiod = \"30ms\"\nbudget = \"9ms\"\n\
                 wcet = \"1ms\"\nhandles = { gpu = \"pool gpu: acquire\", ee = \"engine ee: acquire\" }\nuses.gpu = {}\n\
                 uses.ee = { operation = \"1ms\" }\ntrusted = true\n[pools.gpu]\nreplicas = 3";
    let by_priority = SHARED.replacen("order = \"fifo\"", "order = \"priority\"", 1);
    // Two at a time do not pass each other, and two clusters of two CPUs and one never have more.
    parse(&by_priority).unwrap();
    parse(&by_priority.replacen("[pools.gpu]\nreplicas = 2", third, 1)).unwrap();
    let wide = by_priority.replacen("cpus = 3", "cpus = 4", 1).replacen("cpus = [2]", "cpus = [2, 3]", 1);
    let error = parse(&wide.replacen("[pools.gpu]\nreplicas = 2", third, 1)).err();
    assert_eq!(
        error.as_deref(),
        Some(
            "m.toml:5: waiting in cluster `left` is not bounded: ee is by priority, and tasks of other clusters may be ahead \
             again and again\n\
             m.toml:7: waiting in cluster `right` is not bounded: ee is by priority, and tasks of other clusters may be ahead \
             again and again\n\
             2 mistakes"
        )
    );
}

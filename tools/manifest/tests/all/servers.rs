//! Declared calls, waits and sleeps: mistakes, waits that are not counted, and proofs.

use std::path::Path;

use fusee_manifest::Manifest;
use fusee_manifest::admission::{Origin, Study};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::Overheads;
use fusee_sched_analysis::blocking::On;

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("m.toml"), text).map_err(|error| error.to_string())
}

/// A hard task and another one call a server, on one CPU. Line numbers below count from its first line.
const GOOD: &str = r#"[system]
name = "calls"
board = "virt"
cpus = 1
policy = "DM"
[tasks.brake]
script = ["call slow 100us"]
period = "10ms"
deadline = "2ms"
budget = "1ms"
wcet = "200us"
hard = true
handles = { slow = "endpoint slow: call" }
uses.slow = {}
[tasks.log]
script = ["call slow 300us"]
period = "100ms"
budget = "7ms"
wcet = "1ms"
handles = { slow = "endpoint slow: call" }
uses.slow = {}
[tasks.slow]
script = ["serve slow"]
handles = { slow = "endpoint slow: receive" }
[endpoints.slow]
server = "slow"
service_max = "300us"
"#;

#[track_caller]
fn refused(from: &str, to: &str, expected: &str) {
    assert!(GOOD.contains(from), "the good manifest has no `{from}`");
    assert_eq!(parse(&GOOD.replacen(from, to, 1)).err().as_deref(), Some(expected));
}

const NOT_COUNTED: &str = "is hard, but not proved: not all that it waits for is counted:";

#[test]
fn a_job_that_calls_is_blocked_by_one_service_and_pays_for_its_own() {
    let manifest = parse(GOOD).unwrap();
    let study = Study::new(&manifest.system, 0).unwrap();
    let (report, blocked) = study.analyse(&Overheads::default()).unwrap();
    assert!(report.is_hard());
    let microseconds = |span: Nanoseconds| span.0 / 1_000;
    let of = |task: usize| {
        let one = &blocked[task];
        (one.parts[0].on, [one.blocking, one.services, one.lends].map(microseconds))
    };
    assert_eq!([of(0), of(1)], [(On::Server(0), [300, 300, 300]); 2]);
    assert_eq!(study.first(&blocked[0]).as_deref(), Some("server slow by log"));
    // A job keeps its key while it is suspended for a time that the analysis adds to its execution.
    assert_eq!(manifest.system.reservations[0].suspension, 300_000);
    // The budget must be long enough for its own computation, its own service and the one that it may wait for.
    let budget = |budget: &str| parse(&GOOD.replacen("budget = \"1ms\"", &format!("budget = \"{budget}\""), 1)).err();
    assert_eq!(budget("800us"), None);
    let expected = "m.toml:6: budget of `brake` (799 us) is too small for its wcet (200 us), its servers (300 us) and \
                    what others may take from it while it waits (300 us)";
    assert_eq!(budget("799us").as_deref(), Some(expected));
    // Without `wcet` a job may compute for the whole budget.
    refused(
        "budget = \"1ms\"\nwcet = \"200us\"",
        "budget = \"1ms\"",
        "m.toml:6: budget of `brake` (1 ms) is too small for its wcet (1 ms, the budget unless `wcet` says less), its servers (300 us) \
         and what others may take from it while it waits (300 us)",
    );
    // Six milliseconds in service are too long.
    refused(
        "service_max = \"300us\"",
        "service_max = \"6ms\"",
        "m.toml:6: budget of `brake` (1 ms) is too small for its wcet (200 us), its servers (6 ms) and what others \
         may take from it while it waits (6 ms)\n\
         m.toml:15: budget of `log` (7 ms) is too small for its wcet (1 ms), its servers (6 ms) and what others may \
         take from it while it waits (6 ms)\n\
         2 mistakes",
    );
}

#[test]
fn calls_of_nested_servers_are_added_at_each_level() {
    let back = "[tasks.back]\nscript = [\"serve back\"]\nhandles = { back = \"endpoint back: receive\" }\n\
                [endpoints.back]\nserver = \"back\"\nservice_max = \"50us\"\n";
    let front = "binary = \"a/b\"\nhandles = { slow = \"endpoint slow: receive\", back = \"endpoint back: call\" }\n\
                 uses.back = { times = 2 }\n[endpoints.slow]";
    let nested = GOOD
        .replace("script = [\"serve slow\"]\nhandles = { slow = \"endpoint slow: receive\" }\n[endpoints.slow]", front)
        + back;
    let blocked = |text: &str| {
        let manifest = parse(text).unwrap();
        let (_, blocked) = Study::new(&manifest.system, 0).unwrap().analyse(&Overheads::default()).unwrap();
        [blocked[0].blocking, blocked[0].services].map(|span| span.0 / 1_000)
    };
    // One request of `slow` in progress, 300 us and two of 50 us each; `back` has one caller, so no task waits there.
    assert_eq!(blocked(&nested), [400, 400]);
    // If `log` calls it, too: there each of the two own requests, and each of those of the service that is waited for, meets another.
    let direct = nested.replace(
        "budget = \"7ms\"\nwcet = \"1ms\"\nhandles = { slow = \"endpoint slow: call\" }",
        "budget = \"7ms\"\nwcet = \"1ms\"\nhandles = { slow = \"endpoint slow: call\", back = \"endpoint back: call\" }\nuses.back = {}",
    );
    assert_eq!(blocked(&direct.replace("budget = \"1ms\"", "budget = \"1200us\"")), [300 + 4 * 50 + 2 * 50, 400]);
    let silent = nested.replace("uses.back = { times = 2 }\n", "");
    let expected = format!(
        "m.toml:12: task `brake` {NOT_COUNTED} it calls `slow`, and `slow` does not say in its `uses` how often it calls `back`"
    );
    assert_eq!(parse(&silent).err(), Some(expected));
}

#[test]
fn what_a_hard_task_waits_for_and_does_not_declare_is_not_counted() {
    let not_counted = |from: &str, to: &str, line: usize, why: &str| {
        refused(from, to, &format!("m.toml:{line}: task `brake` {NOT_COUNTED} {why}"));
    };
    not_counted(
        "uses.slow = {}\n",
        "",
        12,
        "it calls `slow`, and `brake` does not say in its `uses` how often it calls `slow`",
    );
    not_counted("service_max = \"300us\"\n", "", 12, "it calls `slow`, and endpoint `slow` has no `service_max`");
    not_counted(
        "[\"call slow 100us\"]",
        "[\"sleep 1ms\"]",
        12,
        "it sleeps for up to 1.000 ms, and its `suspends` is 0.000 ms",
    );
    // A sleep ends so long after the release, and all pauses come on top of it.
    not_counted(
        "[\"call slow 100us\"]",
        "[\"sleep 1ms\", \"pause 200us\", \"sleep 300us\", \"pause 100us\"]",
        12,
        "it sleeps for up to 1.300 ms, and its `suspends` is 0.000 ms",
    );
    not_counted(
        "handles = { slow = \"endpoint slow: call\" }",
        "handles = { slow = \"endpoint slow: call grant\" }",
        12,
        "it calls `slow`, and `brake` may let any task call `slow`",
    );
    let sent = GOOD
        .replace(
            "handles = { slow = \"endpoint slow: receive\" }",
            "class = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"\nhandles = { slow = \"endpoint slow: receive\" }",
        )
        .replace(
            "wcet = \"1ms\"\nhandles = { slow = \"endpoint slow: call\" }",
            "wcet = \"1ms\"\nhandles = { slow = \"endpoint slow: call send\" }",
        )
        .replace("\"call slow 300us\"", "\"call slow 300us\", \"send slow 1us\"");
    let why = "it calls `slow`, and `log` may send to `slow`, which is served on the budget of those who call";
    assert_eq!(parse(&sent).err(), Some(format!("m.toml:12: task `brake` {NOT_COUNTED} {why}")));
}

#[test]
fn waits_that_are_declared_are_added_to_the_execution() {
    let waiting = GOOD.replace(
        "handles = { slow = \"endpoint slow: call\" }\nuses.slow = {}\n[tasks.log]",
        "handles = { event = \"notification event: wait\" }\nuses.event = {}\n[tasks.log]",
    );
    let waiting = waiting.replacen("[\"call slow 100us\"]", "[\"wait event\"]", 1) + "[notifications.event]\n";
    let expected = format!(
        "m.toml:12: task `brake` {NOT_COUNTED} it waits for `event`, for how long is not said in `uses` and `suspends`"
    );
    assert_eq!(parse(&waiting).err(), Some(expected));
    let said = waiting.replace("hard = true", "suspends = \"900us\"\nhard = true");
    let manifest = parse(&said).unwrap();
    let (report, _) = Study::new(&manifest.system, 0).unwrap().analyse(&Overheads::default()).unwrap();
    assert_eq!(report.tasks[0].bound.as_ref().unwrap().response.to_integer(), 1_900_000.into());
    assert_eq!(manifest.system.reservations[0].suspension, 900_000);
    // It interferes with others for as long.
    let other = |text: &str| {
        let manifest = parse(text).unwrap();
        let (report, _) = Study::new(&manifest.system, 0).unwrap().analyse(&Overheads::default()).unwrap();
        report.tasks[1].bound.as_ref().unwrap().response.to_integer()
    };
    assert!(other(&said) > other(&said.replace("900us", "100us")));
    let long = said.replace("900us", "1100us");
    let late = parse(&long).err().unwrap();
    assert!(
        late.starts_with("m.toml:13: task `brake` is hard, but not proved: its bound is later than its deadline"),
        "{late}"
    );
}

#[test]
fn what_other_clients_may_do_again_and_again_is_not_proved() {
    let edf = GOOD.replace("policy = \"DM\"\n", "");
    let expected = "m.toml:11: task `brake` is hard, but not proved: `log` may call `slow` before `brake` again and again; \
         is it `hard`, or to be `trusted`?";
    assert_eq!(parse(&edf).err().as_deref(), Some(expected));
    // Unless it is to be trusted with how often it says that it does.
    let trusted = edf
        .replace("budget = \"7ms\"", "budget = \"7ms\"\ntrusted = true")
        .replace("deadline = \"2ms\"", "deadline = \"10ms\"");
    assert_eq!(parse(&trusted).err(), None);
    // Its other clients come last under a policy without jobs.
    let background = edf.replace("period = \"100ms\"\nbudget = \"7ms\"\nwcet = \"1ms\"", "class = \"background\"");
    assert_eq!(parse(&background).err(), None);
    // While it holds an engine it may not call, so no task lends it a priority there; unless its declaration says that it calls.
    let holds = background.replace(
        "handles = { slow = \"endpoint slow: call\" }\nuses.slow = {}\n[tasks.slow]",
        "handles = { slow = \"endpoint slow: call\", m = \"engine m: acquire\" }\nuses.m = { cpu = \"1ms\" }\n[tasks.slow]",
    ) + "[engines.m]\n";
    assert_eq!(parse(&holds).err(), None);
    let inside = holds.replace("[\"call slow 300us\"]", "[\"acquire m\", \"call slow 300us\", \"release m\"]");
    let expected = "m.toml:11: task `brake` is hard, but not proved: `log` may call `slow` with the priority of a job that waits \
                    for what it holds";
    assert_eq!(parse(&inside).err().as_deref(), Some(expected));
}

#[test]
fn whoever_is_served_as_long_as_it_asks_keeps_its_word() {
    let program = GOOD.replace("policy = \"DM\"\n", "").replace(
        "script = [\"call slow 300us\"]\nperiod = \"100ms\"\nbudget = \"7ms\"\nwcet = \"1ms\"",
        "binary = \"a/b\"\nclass = \"background\"",
    );
    let expected = "m.toml:11: task `brake` is hard, but not proved: `log` may ask `slow` for a longer service than the `service_max` of `slow`";
    assert_eq!(parse(&program).err().as_deref(), Some(expected));
    assert_eq!(parse(&program.replace("class = \"background\"", "class = \"background\"\ntrusted = true")).err(), None);
    // A service that takes as long as its server says is no other task's choice.
    assert_eq!(
        parse(&program.replace("[\"serve slow\"]", "[\"receive slow\", \"burn 300us\", \"reply slow\"]")).err(),
        None
    );
}

#[test]
fn uses_of_endpoints_and_notifications_are_numbers_only() {
    refused("uses.slow = {}", "uses.slow = { times = 0 }", "m.toml:14: number of uses of `brake` is zero");
    refused(
        "uses.slow = {}",
        "uses.slow = { cpu = \"1ms\" }",
        "m.toml:14: CPU time of `brake` means nothing together with an endpoint",
    );
}

/// `brake` in one cluster and `log` in another call the same server.
fn across(endpoint: &str, log: &str) -> String {
    let text =
        GOOD.replace("cpus = 1\npolicy = \"DM\"\n", "cpus = 2\n[clusters.a]\ncpus = [0]\n[clusters.b]\ncpus = [1]\n");
    let text = text
        .replace("[tasks.brake]", "[tasks.brake]\ncluster = \"a\"")
        .replace("[tasks.slow]", "[tasks.slow]\ncluster = \"b\"");
    let text = text.replace("period = \"100ms\"\nbudget = \"7ms\"\nwcet = \"1ms\"", log);
    text.replace("[tasks.log]", "[tasks.log]\ncluster = \"b\"")
        .replace("service_max", &format!("{endpoint}\nservice_max"))
}

#[test]
fn nothing_is_proved_where_a_server_is_boosted_without_a_period() {
    let expected = "m.toml:16: task `brake` is hard, but not proved: `log` of another cluster calls `slow`, which has no `service_period`";
    let late = across("", "class = \"background\"").replace("deadline = \"2ms\"", "deadline = \"10ms\"");
    assert_eq!(parse(&late).err().as_deref(), Some(expected));
    // With one, a service elsewhere takes that long more; and the boost comes before all tasks here.
    let with = |period: &str| parse(&across(&format!("service_period = \"{period}\""), "class = \"background\""));
    let expected = "m.toml:16: task `brake` is hard, but not proved: its bound is later than its deadline";
    assert!(with("5ms").err().is_some_and(|error| error.starts_with(expected)));
    let text = across("service_period = \"1ms\"", "class = \"background\"")
        .replace("deadline = \"2ms\"", "deadline = \"10ms\"");
    let manifest = parse(&text).unwrap();
    let study = Study::new(&manifest.system, 0).unwrap();
    let (_, blocked) = study.analyse(&Overheads::default()).unwrap();
    assert_eq!((blocked[0].blocking.0, blocked[0].lends.0), (1_300_000, 300_000));
    assert_eq!(
        study.cluster.above().iter().map(|one| (one.span.0, one.period.0)).collect::<Vec<_>>(),
        [(300_000, 1_000_000)]
    );
    // A job of another cluster is before all of this one, or is not.
    let jobs = "period = \"100ms\"\nbudget = \"7ms\"\nwcet = \"1ms\"";
    let expected = "m.toml:16: task `brake` is hard, but not proved: `log` may call `slow` before `brake` again and again; \
         is it `hard`, or to be `trusted`?";
    let text = across("service_period = \"1ms\"", jobs)
        .replace("deadline = \"2ms\"", "deadline = \"10ms\"")
        .replace("budget = \"1ms\"", "budget = \"2ms\"");
    assert_eq!(parse(&text).err().as_deref(), Some(expected));
}

/// Replaces the handles of `log`.
fn with_handles(text: &str, handles: &str) -> String {
    let (before, log) = text.split_once("[tasks.log]").expect("there is a log");
    let own = "handles = { slow = \"endpoint slow: call\" }\nuses.slow = {}\n";
    assert!(log.contains(own));
    format!("{before}[tasks.log]{}", log.replacen(own, handles, 1))
}

#[test]
fn a_server_with_a_budget_of_its_own_may_call_by_itself() {
    let late = across("", "class = \"background\"").replace("deadline = \"2ms\"", "deadline = \"10ms\"");
    let serves = with_handles(
        &late,
        "handles = { slow = \"endpoint slow: call\", own = \"endpoint own: receive\" }\nuses.slow = {}\n",
    ) + "[endpoints.own]\nserver = \"log\"\nservice_max = \"1ms\"\n";
    let expected = "m.toml:16: task `brake` is hard, but not proved: `log` may call `slow` with the priority of a job that waits for what it holds";
    assert_eq!(parse(&serves).err().as_deref(), Some(expected));
}

#[test]
fn requests_of_another_cluster_that_come_through_its_servers_are_waited_for() {
    let jobs = "period = \"100ms\"\nbudget = \"9ms\"\nwcet = \"1ms\"";
    let through = with_handles(
        &across("service_period = \"1ms\"", jobs)
            .replace("hard = true\n", "")
            .replace("call slow 300us", "call front 0us"),
        "handles = { front = \"endpoint front: call\" }\nuses.front = {}\n",
    ) + "[tasks.front]\nbinary = \"a/b\"\ncluster = \"b\"\n\
         handles = { front = \"endpoint front: receive\", slow = \"endpoint slow: call\" }\nuses.slow = {}\n\
         [endpoints.front]\nserver = \"front\"\nservice_max = \"100us\"\n";
    let manifest = parse(&through).unwrap();
    let study = Study::new(&manifest.system, 0).unwrap();
    let (_, blocked) = study.analyse(&Overheads::default()).unwrap();
    // A service in progress for `front`, and until the server is boosted there again.
    assert_eq!(blocked[0].blocking.0, 1_300_000);
    assert_eq!(study.first(&blocked[0]).as_deref(), Some("server slow by log"));
}

/// A server holds an engine in its services, and so does one of its cluster that does not call it.
const HOLDS: &str = r#"[system]
name = "holds"
board = "virt"
cpus = 1
[engines.m]
order = "fifo"
[endpoints.files]
server = "files"
service_max = "400us"
[tasks.files]
trusted = true
script = ["receive files", "burn 100us", "acquire m", "burn 300us", "release m", "reply files"]
handles = { files = "endpoint files: receive", m = "engine m: acquire" }
uses.m = { cpu = "300us" }
[tasks.client]
script = ["burn 200us", "call files 0ns", "call files 0ns"]
period = "20ms"
budget = "4ms"
wcet = "200us"
hard = true
handles = { files = "endpoint files: call" }
uses.files = { times = 2 }
[tasks.other]
script = ["burn 100us", "acquire m", "burn 900us", "release m"]
period = "30ms"
budget = "3ms"
wcet = "1ms"
hard = true
handles = { m = "engine m: acquire" }
uses.m = { cpu = "900us" }
"#;

/// The answer to that system, with `from` replaced by `to`.
#[track_caller]
fn holds(from: &str, to: &str) -> String {
    assert!(HOLDS.contains(from), "there is no `{from}`");
    parse(&HOLDS.replace(from, to)).err().unwrap_or_default()
}

#[test]
fn a_service_is_longer_by_what_its_server_waits_for_an_engine() {
    let blocked = |text: &str| {
        let manifest = parse(text).unwrap();
        let (report, blocked) = Study::new(&manifest.system, 0).unwrap().analyse(&Overheads::default()).unwrap();
        assert!(report.is_hard());
        let span = |one: Nanoseconds| one.0 / 1_000;
        let all =
            blocked.iter().map(|one| [one.requests.into(), span(one.blocking), span(one.services), span(one.lends)]);
        all.collect::<Vec<[u64; 4]>>()
    };
    // Its only client: no other client is in service; each of two requests meets one hold of the other. That meets one of the server.
    assert_eq!(blocked(HOLDS), [[4, 1_800, 800, 1_800], [1, 300, 0, 300]]);
    // A second client: its service in progress is 400 us, and 900 us that it waits for the engine.
    let second = HOLDS.replace(
        "budget = \"3ms\"\nwcet = \"1ms\"\nhard = true\nhandles = { m",
        "budget = \"6ms\"\nwcet = \"1ms\"\nhard = true\nuses.files = {}\nhandles = { files = \"endpoint files: call\", m",
    );
    let second = second.replace("budget = \"4ms\"", "budget = \"6ms\"");
    let by_service = 400 + 900;
    assert_eq!(blocked(&second)[0], [4, 2 * (900 + by_service), 800, 2 * (900 + by_service)]);
    // By priority no more than the hold under way comes before, and on one CPU no task is passed.
    assert_eq!(
        blocked(&second.replace("\"fifo\"", "\"priority\""))[0],
        [4, 2 * (900 + by_service), 800, 2 * (900 + by_service)]
    );
}

#[test]
fn a_service_that_holds_what_nobody_bounds_is_not_counted() {
    assert_eq!(holds("uses.files", "uses.files"), "");
    let not_counted = |from: &str, to: &str, why: &str| {
        let said = holds(from, to);
        assert!(said.contains("task `client` is hard, but not proved") && said.contains(why), "{from} -> {to}: {said}");
    };
    not_counted("uses.m = { cpu = \"300us\" }", "", "`files` does not say how long it uses engine `m`");
    not_counted("\nuses.m = { cpu = \"900us\" }", "", "`other` does not say how long it uses engine `m`");
    not_counted(
        "burn 300us",
        "burn 301us",
        "`files` computes for 0.301 ms while it holds engine `m`, and `uses` says 0.300 ms",
    );
    not_counted(
        "burn 100us\", \"acquire m\", \"burn 300us",
        "burn 101us\", \"acquire m\", \"burn 300us",
        "`files` serves `files` for 0.401 ms, and its `service_max` is 0.400 ms",
    );
    let again = "\"release m\", \"acquire m\", \"release m\", \"reply files\"";
    not_counted(
        "\"release m\", \"reply files\"",
        again,
        "`files` holds engine `m` 2 times in a service, and `uses` says 1",
    );
    not_counted(
        "\"release m\", \"reply files\"",
        "\"reply files\"",
        "`files` waits for requests at `files` while it holds engine `m`",
    );
    not_counted(
        "\"reply files\"",
        "\"sleep 1ms\", \"reply files\"",
        "the script of server `files` does more than to serve",
    );
    // Tasks that share the engine with it trust its word, and it trusts that of others.
    let untrusted = |task: &str, from: &str, to: &str, who: &str| {
        let said = holds(from, to);
        let why = format!("`{who}` may hold engine `m` for longer than it says; is it `hard`, or to be `trusted`?");
        assert!(said.contains(&format!("task `{task}` is hard, but not proved")) && said.contains(&why), "{said}");
    };
    untrusted("other", "trusted = true\n", "", "files");
    untrusted("client", "wcet = \"1ms\"\nhard = true", "wcet = \"1ms\"", "other");
}

#[test]
fn a_client_rests_on_the_budgets_of_those_who_share_an_engine_with_its_server() {
    let dry = HOLDS
        .replace("budget = \"3ms\"", "budget = \"1200us\"")
        .replace("cpus = 1\n", "cpus = 1\nadmission = \"warn\"\n");
    let manifest = parse(&dry).unwrap();
    let study = Study::new(&manifest.system, 0).unwrap();
    let (report, blocked) = study.analyse(&Overheads::default()).unwrap();
    let missing = study.missing(0, &report, &blocked);
    let why = "budget of `other` (1200 us) is too small for its wcet (1 ms)";
    assert!(missing.iter().any(|one| one.origin == Origin::Budget && one.why.starts_with(why)), "{missing:?}");
}

/// That system where both have a token of a pool while they hold the engine.
fn with_tokens(limit: &str) -> String {
    let pool = format!("[pools.t]\nreplicas = 1\nlimit = {limit}\n[engines.m]");
    let text = HOLDS
        .replace("[engines.m]", &pool)
        .replace("m = \"engine m: acquire\"", "t = \"pool t: acquire\", m = \"engine m: acquire\"");
    let text = text
        .replace("\"acquire m\"", "\"acquire t\", \"acquire m\"")
        .replace("\"release m\"", "\"release m\", \"release t\"");
    let text = text.replace("us\" }\n", "us\", within = \"t\" }\nuses.t = {}\n");
    text.replace("trusted = true\n", "trusted = true\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n")
}

#[test]
fn a_server_has_tokens_of_pools_that_each_request_joins_at_once() {
    let manifest = parse(&with_tokens("\"unlimited\"")).unwrap();
    let (report, blocked) = Study::new(&manifest.system, 0).unwrap().analyse(&Overheads::default()).unwrap();
    assert!(report.is_hard());
    // Two services meet one section of the other each; no task wants the engine without the token, of which there is one.
    assert_eq!([blocked[0].requests, blocked[0].blocking.0 as u32 / 1_000], [6, 2 * 900]);
    assert_eq!(parse(&with_tokens("2")).err(), None);
    let said = parse(&with_tokens("1")).err().unwrap_or_default();
    let why = "server `files` uses pool `t`, where priority says who joins a queue, and it has none of its own";
    assert!(said.contains("task `client` is hard, but not proved") && said.contains(why), "{said}");
    // Others with its tokens have to be trusted, as with its engines.
    let text = with_tokens("\"unlimited\"").replace("wcet = \"1ms\"\nhard = true", "wcet = \"1ms\"");
    let pool_alone = text.replace(", m = \"engine m: acquire\" }\nuses.m = { cpu = \"900us\", within = \"t\" }", " }");
    let pool_alone = pool_alone
        .replace("\"acquire m\", \"burn 900us\", \"release m\", ", "")
        .replace("\"burn 100us\", \"acquire t\", \"release t\"", "\"acquire t\", \"release t\"");
    let said = parse(&pool_alone).err().unwrap_or_default();
    let why = "`other` may hold pool `t` for longer than it says; is it `hard`, or to be `trusted`?";
    assert!(said.contains("task `client` is hard, but not proved") && said.contains(why), "{said}\n{pool_alone}");
    let silent = with_tokens("\"unlimited\"").replacen("uses.t = {}\n", "", 1);
    let said = parse(&silent).err().unwrap_or_default();
    assert!(said.contains("`files` does not say how long it uses pool `t`"), "{said}");
}

#[test]
fn engines_of_servers_are_of_the_cluster_of_all_who_call_them() {
    let clusters = "cpus = 2\n[clusters.a]\ncpus = [0]\n[clusters.b]\ncpus = [1]\n[engines.m]";
    let text =
        HOLDS.replace("cpus = 1\n[engines.m]", clusters).replace("[tasks.client]", "[tasks.client]\ncluster = \"b\"");
    let said = parse(
        &text
            .replace("[tasks.files]", "[tasks.files]\ncluster = \"a\"")
            .replace("[tasks.other]", "[tasks.other]\ncluster = \"a\""),
    );
    let why = "server `files` holds engines or tokens, and tasks of another cluster than its own call it";
    assert!(said.as_ref().is_err_and(|said| said.contains(why)), "{said:?}");
}

#[test]
fn steps_that_reply_come_after_those_that_receive() {
    let said = holds("\"receive files\", ", "");
    assert!(said.contains("no step before it receives there"), "{said}");
}

//! Proofs that a wait inside a hold makes false, and scripts that do more than is said.

use fusee_manifest::admission::Origin;

use super::{breaks, missing, system};

/// A hard task that takes a mutex, and another one that takes the same; `b` is the other's body.
fn mutex(b: &str) -> String {
    format!(
        r#"
[tasks.a]
script = ["acquire m", "burn 100us", "release m"]
period = "20ms"
deadline = "8ms"
budget = "3ms"
wcet = "200us"
hard = true
handles = {{ m = "engine m: acquire" }}
uses.m = {{ cpu = "200us" }}
[engines.m]
[tasks.b]
{b}
"#
    )
}

#[test]
fn waiting_inside_a_hold_is_counted_nowhere() {
    let call = |script: &str| {
        mutex(&format!(
            r#"
script = [{script}]
period = "40ms"
budget = "11ms"
wcet = "200us"
hard = true
handles = {{ m = "engine m: acquire", s = "endpoint s: call" }}
uses.m = {{ cpu = "200us" }}
uses.s = {{ times = 1 }}
[tasks.server]
script = ["serve s"]
handles = {{ s = "endpoint s: receive" }}
[endpoints.s]
server = "server"
service_max = "2ms"
"#
        ))
    };
    let good = r#""acquire m", "burn 10us", "release m", "call s 100us""#;
    let bad = r#""acquire m", "burn 10us", "call s 100us", "release m""#;
    let why = (Origin::Counted, "`b` calls `s` while it holds engine `m`");
    breaks(&call(bad), (bad, good), "a", why);
    let sleeps = mutex(
        r#"
script = ["acquire m", "sleep 12ms", "release m"]
period = "40ms"
budget = "2ms"
wcet = "100us"
suspends = "12ms"
hard = true
handles = { m = "engine m: acquire" }
uses.m = { cpu = "200us" }
"#,
    );
    let orders = (r#""sleep 12ms", "release m""#, r#""release m", "sleep 12ms""#);
    breaks(&sleeps, orders, "a", (Origin::Counted, "`b` sleeps while it holds engine `m`"));
    // A request waits until the server takes it, so a sender may wait for ever.
    let sends = mutex(
        r#"
script = ["acquire m", "send s 0ns", "release m"]
period = "40ms"
budget = "2ms"
wcet = "100us"
trusted = true
handles = { m = "engine m: acquire", s = "endpoint s: send" }
uses.m = { cpu = "200us" }
[tasks.server]
script = ["serve s"]
class = "service"
period = "10ms"
budget = "1ms"
handles = { s = "endpoint s: receive" }
[endpoints.s]
server = "server"
"#,
    );
    let orders = (r#""send s 0ns", "release m""#, r#""release m", "send s 0ns""#);
    breaks(&sends, orders, "a", (Origin::Counted, "`b` sends to `s` while it holds engine `m`"));
}

#[test]
fn waiting_inside_a_hold_for_events_and_other_locks_is_counted_nowhere() {
    let waits = mutex(
        r#"
script = ["acquire m", "wait n", "release m"]
period = "40ms"
budget = "2ms"
wcet = "100us"
suspends = "1ms"
hard = true
handles = { m = "engine m: acquire", n = "notification n: wait" }
uses.m = { cpu = "200us" }
uses.n = {}
[notifications.n]
"#,
    );
    let orders = (r#""wait n", "release m""#, r#""release m", "wait n""#);
    breaks(&waits, orders, "a", (Origin::Counted, "`b` waits for `n` while it holds engine `m`"));
    let nested = mutex(
        r#"
script = ["acquire m", "acquire p", "burn 10us", "release p", "release m"]
period = "40ms"
budget = "8ms"
wcet = "200us"
hard = true
handles = { m = "engine m: acquire", p = "engine p: acquire" }
uses.m = { cpu = "200us" }
uses.p = { cpu = "100us" }
[engines.p]
[tasks.c]
script = ["acquire p", "burn 1ms", "release p"]
period = "40ms"
budget = "8ms"
wcet = "2ms"
hard = true
handles = { p = "engine p: acquire" }
uses.p = { cpu = "1ms" }
"#,
    );
    let orders = (
        r#""acquire m", "acquire p", "burn 10us", "release p", "release m""#,
        r#""acquire m", "burn 10us", "release m", "acquire p", "burn 10us", "release p""#,
    );
    breaks(&nested, orders, "a", (Origin::Counted, "`b` waits for engine `p` while it holds engine `m`"));
    // The engine that is waited for has no waiter inside another.
    assert_eq!(missing(&system("admission = \"warn\"", &nested), "c"), []);
}

/// Programs cannot be read: the kernel refuses calls that their manifests do not allow.
#[test]
fn programs_that_may_wait_inside_a_hold_prove_nothing_for_those_who_share_the_lock() {
    let program = |handles: &str, more: &str| {
        mutex(&format!(
            r#"
binary = "p/b"
period = "40ms"
budget = "11ms"
wcet = "200us"
suspends = "1ms"
hard = true
{more}
handles = {{ m = "engine m: acquire", {handles} }}
uses.m = {{ cpu = "200us" }}
uses.s = {{ times = 1 }}
uses.n = {{}}
uses.p = {{ cpu = "1ms" }}
[engines.p]
[notifications.n]
[tasks.server]
script = ["serve s"]
handles = {{ s = "endpoint s: receive" }}
[endpoints.s]
server = "server"
service_max = "2ms"
"#
        ))
    };
    let all = r#"s = "endpoint s: call", n = "notification n: wait", p = "engine p: acquire""#;
    for (right, what) in [
        ("endpoint s: call", "`b` may wait for endpoint `s` while it holds engine `m`"),
        ("notification n: wait", "`b` may wait for notification `n` while it holds engine `m`"),
        ("engine p: acquire", "`b` may wait for engine `p` while it holds engine `m`"),
    ] {
        let inside = format!("{right} inside");
        let text = program(&all.replace(right, &inside), "");
        breaks(&text, (&inside, right), "a", (Origin::Counted, what));
        // Its own waits it counts.
        assert_eq!(missing(&system("admission = \"warn\"", &text), "b"), [], "{right}");
    }
    let text = program(all, "sleeps_inside = true");
    let why = "`b` may sleep while it holds engine `m`";
    breaks(&text, ("sleeps_inside = true", "sleeps_inside = false"), "a", (Origin::Counted, why));
}

#[test]
fn a_script_that_does_more_than_is_said_proves_nothing() {
    let body = |script: &str| {
        mutex(&format!(
            r#"
script = [{script}]
period = "40ms"
budget = "12ms"
wcet = "10ms"
hard = true
handles = {{ m = "engine m: acquire" }}
uses.m = {{ cpu = "200us" }}
"#
        ))
    };
    let once = r#""acquire m", "burn 200us", "release m""#;
    let twice = r#""acquire m", "burn 200us", "release m", "acquire m", "burn 200us", "release m""#;
    let why = (Origin::Counted, "`b` holds engine `m` 2 times in a job, and `uses` says 1");
    breaks(&body(twice), (twice, once), "a", why);
    let long = r#""acquire m", "burn 5ms", "release m""#;
    let why = (Origin::Counted, "`b` computes for 5.000 ms while it holds engine `m`, and `uses` says 0.200 ms");
    breaks(&body(long), (long, once), "a", why);
    breaks(&body(long), (long, once), "b", why);
    let much = r#""burn 13ms""#;
    let why = (Origin::Counted, "its script computes for 13.000 ms, and its budget is 12.000 ms");
    breaks(&body(much), (much, once), "b", why);
    // Nothing comes after `repeat`.
    let kept = r#""acquire m", "burn 100us", "repeat", "release m""#;
    let why = (Origin::Counted, "`b` does not give back engine `m`, and that is in no bound on the hold");
    breaks(&body(kept), (kept, once), "a", why);
    let endless = r#""burn 1ms", "repeat""#;
    breaks(&body(endless), (endless, once), "b", (Origin::Counted, "never completes a job"));
    // A model has the least work of its program.
    let model = |script: &str| body(script).replacen("script = [", "binary = \"apps/x\"\nmodel = [", 2);
    let model = |script: &str| model(script).replacen("binary = \"apps/x\"\nmodel = [", "script = [", 1);
    breaks(
        &model(endless),
        (endless, once),
        "b",
        (Origin::Counted, "its model begins again and never completes a job"),
    );
    let why = (Origin::Counted, "`b` computes for 5.000 ms while it holds engine `m`, and `uses` says 0.200 ms");
    breaks(&model(long), (long, once), "a", why);
    // A task of the background gives its engine to the others in between, and only such a task can.
    let yields = r#""acquire m", "burn 200us", "yield m", "burn 200us", "release m""#;
    let why = (Origin::Counted, "`b` computes for 0.400 ms while it holds engine `m`, and `uses` says 0.200 ms");
    breaks(&body(yields), (yields, once), "a", why);
    let background = body(yields).replace(
        "period = \"40ms\"\nbudget = \"12ms\"\nwcet = \"10ms\"\nhard = true",
        "class = \"background\"\ntrusted = true",
    );
    assert_eq!(missing(&system("admission = \"warn\"", &background), "a"), []);
    let calls = r#"
[tasks.a]
script = ["call s 100us"]
period = "10ms"
budget = "2ms"
wcet = "100us"
hard = true
handles = { s = "endpoint s: call" }
uses.s = {}
[tasks.b]
script = ["call s 5ms"]
period = "40ms"
budget = "11ms"
wcet = "100us"
trusted = true
handles = { s = "endpoint s: call" }
uses.s = {}
[tasks.server]
script = ["serve s"]
handles = { s = "endpoint s: receive" }
[endpoints.s]
server = "server"
service_max = "100us"
"#;
    let why = (Origin::Counted, "`b` calls `s` for 5.000 ms, and its `service_max` is 0.100 ms");
    breaks(calls, ("call s 5ms", "call s 100us"), "a", why);
}

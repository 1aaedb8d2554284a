//! Certificates written by hand for published task sets: each is accepted as published, and refused by name with one number changed.

use fusee_certificate::format::{
    By, Certificate, Claim, Cluster, FORMAT, Part, Policy, Span, Suspended, Task, Witness,
};
use fusee_certificate::format::{Uncertified, Window};
use fusee_certificate::refusal::Condition;
use fusee_certificate::{Accepted, check};

/// A task of `(e, p, d)` with these claims.
fn task(name: &str, (cost, period, deadline): (u64, u64, u64), claims: Vec<Claim>) -> Task {
    let parts = vec![Part { name: "execution".into(), span: cost, waits: false }];
    let name = name.to_owned();
    let (uncertified, assumes) = Default::default();
    let (priority, expected, cost) = (1, cost, Some(cost));
    Task { name, period, deadline, priority, expected, cost, parts, claims, uncertified, assumes }
}

fn claim(response: u64, meets: bool, by: By) -> Vec<Claim> {
    vec![Claim { response, meets, by }]
}

fn certificate(cpus: u32, policy: Policy, tasks: Vec<Task>, witness: Witness) -> Certificate {
    let cluster = Cluster { name: "c0".into(), cpus, policy, latency: 0, tasks, witness };
    Certificate { format: FORMAT, system: "published".into(), clusters: vec![cluster] }
}

/// The condition by which `certificate` is refused, and the task.
fn refused(certificate: &Certificate) -> (Condition, Option<String>) {
    let why = check(certificate).unwrap_err();
    (why.failed.condition, why.task)
}

/// Lehoczky 1990: jobs of 62 every 100 behind 26 every 70 end 114, 102, 116, 104, 118, 106 and 94 after their releases.
fn lehoczky() -> Certificate {
    let ends = [114, 202, 316, 404, 518, 606, 694].to_vec();
    let first = claim(26, true, By::FixedPriorities { busy: 26, instants: vec![26] });
    let second = claim(118, true, By::FixedPriorities { busy: 694, instants: ends });
    let tasks = vec![task("first", (26, 70, 70), first), task("second", (62, 100, 118), second)];
    certificate(1, Policy::Rm, tasks, Witness::default())
}

#[test]
fn lehoczkys_set_is_accepted_and_no_smaller_bound_is() {
    let mut one = lehoczky();
    assert_eq!(check(&one), Ok(Accepted { certified: 2, meeting: 2, ..Accepted::default() }));
    one.clusters[0].tasks[1].claims[0].response = 117;
    assert_eq!(refused(&one), (Condition::Job, Some("second".into())));
    assert_eq!(
        check(&one).unwrap_err().to_string(),
        "cluster `c0`, task `second`: the instant at which the job is complete, and the end of its bound: \
         518 is more than 517"
    );
    let mut one = lehoczky();
    one.clusters[0].tasks[1].deadline = 117;
    assert_eq!(refused(&one), (Condition::Deadline, Some("second".into())));
    let mut one = lehoczky();
    let By::FixedPriorities { busy, .. } = &mut one.clusters[0].tasks[1].claims[0].by else { panic!() };
    *busy = 404;
    assert_eq!(refused(&one), (Condition::Busy, Some("second".into())));
    let mut one = lehoczky();
    let By::FixedPriorities { instants, .. } = &mut one.clusters[0].tasks[1].claims[0].by else { panic!() };
    instants.pop();
    assert_eq!(refused(&one), (Condition::Job, Some("second".into())));
}

#[test]
fn parts_that_do_not_add_up_are_refused_with_both_sums() {
    let mut one = lehoczky();
    one.clusters[0].tasks[0].parts.push(Part { name: "blocking".into(), span: 3, waits: true });
    assert_eq!(
        check(&one).unwrap_err().to_string(),
        "cluster `c0`, task `first`: the sum of the parts, and the cost: 29 is not 26"
    );
}

/// Three tasks of a period of 4 fill 2 and 4 of 4, and 5 of 10: the processor-demand criterion in a chain of windows.
#[test]
fn windows_of_due_work_prove_edf_and_a_gap_between_them_does_not() {
    let set = |demand: &[u64], busy| {
        let by = |deadline| claim(deadline, true, By::Demand);
        let tasks = vec![task("a", (2, 4, 4), by(4)), task("b", (5, 10, 10), by(10))];
        let witness = Witness { demand: Some(demand.to_vec()), busy, ..Witness::default() };
        certificate(1, Policy::Edf, tasks, witness)
    };
    // Due: 2 from 4 on, 4 from 8, 9 from 10, 11 from 12, 13 from 16, 20 from 20.
    let chain = [4, 8, 10, 11, 16, 20];
    assert_eq!(check(&set(&chain, None)).map(|accepted| accepted.meeting), Ok(2));
    assert_eq!(check(&set(&[], None)).map(|accepted| accepted.meeting), Ok(2), "U is 1, and deadlines are periods");
    assert_eq!(refused(&set(&[5], None)), (Condition::Demand, None));
    let mut late = set(&[], None);
    late.clusters[0].tasks[1].deadline = 9;
    assert_eq!(refused(&late), (Condition::Horizon, None));
}

/// Spuri's worst case is not the common release: of 2/4 and 5/10 the second responds in 10, the first in 4.
#[test]
fn offsets_of_edf_each_need_an_instant() {
    let set = |first: &[u64], response| {
        let by = |response, instants: &[u64]| claim(response, true, By::Deadlines { instants: instants.to_vec() });
        let tasks = vec![task("a", (2, 4, 4), by(response, first)), task("b", (5, 10, 10), by(10, &[9, 11, 20]))];
        certificate(1, Policy::Edf, tasks, Witness { busy: Some(20), ..Witness::default() })
    };
    let instants = [4, 9, 11, 13, 20];
    let accepted = check(&set(&instants, 4));
    assert!(accepted.is_ok(), "{}", accepted.unwrap_err());
    assert_eq!(refused(&set(&instants, 3)).0, Condition::Job);
    assert_eq!(refused(&set(&instants[..4], 4)).0, Condition::Job);
    let mut short = set(&instants, 4);
    short.clusters[0].witness.busy = Some(19);
    assert_eq!(refused(&short), (Condition::Busy, None));
}

/// Dhall's effect: small tasks and one of utilisation one on two CPUs meet no density bound.
#[test]
fn densities_leave_room_for_the_largest() {
    let set = |long: u64| {
        let by = |deadline| claim(deadline, true, By::Density);
        let small = |name| task(name, (2, 10, 10), by(10));
        let tasks = vec![small("a"), small("b"), task("c", (long, 11, 11), by(11))];
        certificate(2, Policy::Edf, tasks, Witness::default())
    };
    assert!(check(&set(11)).is_err());
    // 0.4 + 2 x <= 2.
    assert!(check(&set(8)).is_ok());
    assert_eq!(refused(&set(9)), (Condition::Density, None));
}

/// Devi and Anderson's bound for three tasks of 2/3 on two CPUs: (2 - 2) / 2 = 0, and each is late by its cost at most.
#[test]
fn tardiness_and_lateness_of_a_full_cluster() {
    let by = |by: &By, response| claim(response, false, by.clone());
    let set = |of: By, response, witness| {
        let tasks = ["a", "b", "c"].map(|name| task(name, (2, 3, 3), by(&of, response)));
        certificate(2, Policy::Edf, tasks.to_vec(), witness)
    };
    let devi =
        |common, response| set(By::Tardiness, response, Witness { tardiness: Some(common), ..Witness::default() });
    assert!(check(&devi(0, 5)).is_ok());
    assert_eq!(refused(&devi(0, 4)).0, Condition::Bound);
    // s = u (s - 2) / 2 + 2 with u = 2 / 3 and y = 0: each carries 2 - 2 less. All points are equal, so each S is 2: 6.
    let vector =
        |left, response| set(By::Compliant, response, Witness { fixed_point: Some(left), ..Witness::default() });
    // 6 + (s - 2) / 3 <= s from 8 on; then (8 + 2) / 2 = 5.
    assert!(check(&vector(8, 5)).is_ok());
    assert_eq!(refused(&vector(7, 5)).0, Condition::FixedPoint);
    assert_eq!(refused(&vector(8, 4)).0, Condition::Bound);
}

#[test]
fn interference_needs_a_delay_that_holds() {
    let set = |delay: u64| {
        let by = claim(1 + delay, true, By::Interference);
        let tasks = ["a", "b", "c"].map(|name| task(name, (1, 4, 4), by.clone()));
        let delays = Some(vec![Some(Span { span: delay, elsewhere: false }); 3]);
        certificate(2, Policy::Dm, tasks.to_vec(), Witness { delays, ..Witness::default() })
    };
    assert!(check(&set(1)).is_ok());
    assert_eq!(refused(&set(0)), (Condition::Interference, Some("a".into())));
    let mut leaning = set(1);
    leaning.clusters[0].witness.delays = Some(vec![Some(Span { span: 2, elsewhere: true }); 3]);
    assert_eq!(refused(&leaning).0, Condition::Elsewhere, "a circle is no proof");
}

/// A task that sleeps for 5 of 10, behind one that never rests.
#[test]
fn sleep_counts_once_and_only_if_it_is_declared() {
    let part = |name: &str, span, waits| Part { name: name.into(), span, waits };
    let set = |length, is_counted| {
        let first = claim(2, true, By::Suspension);
        let second = claim(length, true, By::Suspension);
        let mut tasks = vec![task("first", (2, 5, 5), first), task("second", (6, 10, 10), second)];
        tasks[1].parts = vec![part("execution", 1, false), part("sleep", 5, true)];
        let own = |length| Some(Window { later: 0, length });
        let life = |span| Some(Span { span, elsewhere: false });
        let urgent = Suspended { alone: true, window: own(2), life: life(2), ..Suspended::default() };
        let counted = is_counted;
        let sleeper = Suspended { counted, kept: true, alone: true, life: None, window: own(length) };
        let suspension = Some(vec![urgent, sleeper]);
        certificate(1, Policy::Rm, tasks, Witness { suspension, ..Witness::default() })
    };
    // 6 + 2 * 2 = 10: two jobs of the first in 10.
    assert!(check(&set(10, true)).is_ok());
    assert_eq!(refused(&set(9, true)), (Condition::Window, Some("second".into())));
    assert_eq!(refused(&set(10, false)), (Condition::Counted, Some("second".into())));
}

#[test]
fn a_text_is_read_as_it_was_written_and_what_is_unknown_is_refused() {
    let mut one = lehoczky();
    let uncertified = Uncertified { response: 5, test: "guess".into(), why: "no form".into() };
    one.clusters[0].tasks[0].claims.clear();
    one.clusters[0].tasks[0].uncertified.push(uncertified);
    let text = serde_json::to_string_pretty(&one).unwrap();
    assert_eq!(serde_json::from_str::<Certificate>(&text).unwrap(), one);
    let accepted = check(&one).unwrap();
    assert_eq!(accepted.uncertified, [("c0".into(), "first".into(), "guess".into())]);
    assert_eq!((accepted.certified, accepted.unbounded), (1, 0));
    assert!(serde_json::from_str::<Certificate>(&text.replace("\"busy\"", "\"bussy\"")).is_err());
    one.format = 2;
    assert_eq!(refused(&one).0, Condition::Format);
}

#[test]
fn times_and_checks_without_measure_are_refused() {
    let mut one = lehoczky();
    one.clusters[0].tasks[0].period = u64::MAX;
    assert_eq!(refused(&one).0, Condition::Longest);
    let mut one = lehoczky();
    let period = 1 << 56;
    one.clusters[0].tasks[1] =
        task("slow", (1, 2, 2), claim(1 << 57, false, By::FixedPriorities { busy: period, instants: vec![period] }));
    one.clusters[0].tasks[0] = task("other", (1, 2, 2), Vec::new());
    assert_eq!(refused(&one).0, Condition::Effort);
}

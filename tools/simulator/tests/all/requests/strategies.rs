//! Random shapes of systems whose tasks make any request.

use super::*;

fn until() -> impl Strategy<Value = Until> {
    prop_oneof![3 => Just(Until::Never), 1 => (0u64..3_000).prop_map(|span| Until::After(span * US))]
}

fn wish() -> impl Strategy<Value = Wish> {
    let call = |call, object: usize, until| Wish::Call { call, object, second: 1, until, reply: Reply::Nobody };
    let engine = 4usize..6;
    prop_oneof![
        12 => (1u64..2_000).prop_map(|span| Wish::Burn(span * US)),
        2 => Just(call(Call::NextJob, 0, Until::Never)),
        6 => (0usize..2, until()).prop_map(move |(object, until)| call(Call::Call, object, until)),
        1 => (0usize..2, until()).prop_map(move |(object, until)| call(Call::Send, object, until)),
        4 => (0usize..2, until(), prop_oneof![3 => Just(Reply::Last), 1 => Just(Reply::Nobody)]).prop_map(
            |(object, until, reply)| Wish::Call { call: Call::ReplyReceive, object, second: 0, until, reply }
        ),
        4 => (2usize..4).prop_map(move |object| call(Call::Signal, object, Until::Never)),
        4 => (2usize..4, until()).prop_map(move |(object, until)| call(Call::Wait, object, until)),
        6 => (engine.clone(), until()).prop_map(move |(object, until)| call(Call::Acquire, object, until)),
        3 => (engine.clone(), until()).prop_map(|(object, until)| Wish::Both(object, until)),
        3 => (0u32..2, 1u64..3_000).prop_map(|(engine, span)| Wish::Submit(engine, span * US)),
        1 => (0u32..2).prop_map(|engine| Wish::Submit(engine, ENDLESS)),
        1 => (0u32..2, -2i32..4, any::<bool>()).prop_map(|(engine, change, kicks)| Wish::Ring(engine, change, kicks)),
        4 => engine.prop_map(move |object| call(Call::Release, object, Until::Never)),
        1 => Just(call(Call::ShouldYield, 4, Until::Never)),
        6 => (9usize..11, until()).prop_map(move |(object, until)| call(Call::Acquire, object, until)),
        4 => (9usize..11).prop_map(move |object| call(Call::Release, object, Until::Never)),
        1 => (9usize..11).prop_map(move |object| call(Call::ShouldYield, object, Until::Never)),
        1 => Just(call(Call::EarlyRelease, 0, Until::Never)),
        1 => (0u64..9).prop_map(|second| {
            Wish::Call { call: Call::ReleaseJob, object: 6, second, until: Until::Never, reply: Reply::Nobody }
        }),
        1 => prop::sample::select(vec![Call::Map, Call::Unmap]).prop_map(move |which| call(which, 7, Until::Never)),
        1 => (0u64..3_000).prop_map(move |span| call(Call::SleepUntil, 0, Until::After(span * US))),
        // Without a handle it is the task that ends.
        1 => Just(Wish::Wild { number: Call::Exit as u64, first: 0, second: 3, until: Until::Never, token: 0 }),
        1 => Just(call(Call::Stop, 8, Until::Never)),
        1 => Just(call(Call::Yield, 0, Until::Never)),
        1 => Just(call(Call::Now, 0, Until::Never)),
        1 => (0u64..34, any::<u64>(), any::<u64>(), until(), any::<u64>()).prop_map(
            |(number, first, second, until, token)| {
                // Handles near those that exist; `exit` needs one of none, and the end of all is not theirs.
                let first = (first % 40) | ((1 + (first >> 32) % 2) << 16);
                Wish::Wild { number, first, second: second % 4, until, token: token % 1024 }
            }
        ),
    ]
}

fn task() -> impl Strategy<Value = Task> {
    let class = prop_oneof![4 => Just(Class::Periodic), 2 => Just(Class::Background), 1 => Just(Class::Passive)];
    let shape = (class, any::<bool>(), 3u64..15, 1u64..=10, 1u64..=10, 0u64..10, (any::<bool>(), 0usize..3));
    (shape, prop::collection::vec(wish(), 1..9), 10u64..1_000).prop_map(
        |((class, second_cluster, period, budget, deadline, phase, overrun), requests, burn)| Task {
            class,
            second_cluster,
            period,
            budget,
            deadline: deadline.max(budget),
            phase,
            overrun,
            requests,
            burn: burn * US,
        },
    )
}

pub(super) fn system() -> impl Strategy<Value = System> {
    let shape = (2u32..5, 1u32..5, 0usize..8, 0usize..8, prop::option::of(0usize..8), prop::option::of(0usize..8));
    let delay = prop_oneof![2 => Just(0), 1 => Just(US), 1 => 1..50 * US];
    let watchdog = prop::option::of((200u64..6_000, 200u64..6_000));
    let wrong = prop::collection::vec(prop_oneof![5 => Just(0), 1 => 1u32..32], 8);
    let flags = (prop::bool::weighted(0.9), any::<bool>(), any::<bool>());
    (shape, prop::collection::vec(task(), 3..8), delay, flags, watchdog, wrong).prop_map(
        |((cpus, first_cluster, s0, s1, n0, n1), tasks, kick_delay, flags, watchdog, wrong)| {
            let count = tasks.len();
            let bound = [n0, n1].map(|task| task.map(|task| task % count));
            let servers = [s0 % count, s1 % count];
            let (first_cluster, stops, agains) = (first_cluster.min(cpus), Vec::new(), Vec::new());
            let (managed, grouped, crossing) = flags;
            System {
                cpus,
                first_cluster,
                servers,
                bound,
                tasks,
                kick_delay,
                managed,
                grouped,
                crossing,
                watchdog,
                wrong,
                stops,
                agains,
            }
        },
    )
}

pub(super) fn deadly_system() -> impl Strategy<Value = System> {
    let stop = (0u64..12_000, 0usize..usize::MAX).prop_map(|(span, victim)| (span * US, victim));
    (system(), prop::collection::vec(stop, 1..9)).prop_map(|(system, stops)| System { stops, ..system })
}

/// Many stops, soon one after the other, and after each another life.
pub(super) fn restarted_system() -> impl Strategy<Value = System> {
    let stop = (0u64..4_000, 0usize..usize::MAX).prop_map(|(span, victim)| (span * US, victim));
    let again = (prop_oneof![1 => Just(0), 3 => 0u64..3_000], prop::option::of(0u64..2_000));
    let again = again.prop_map(|(after, waits)| (after * US, waits.map(|span| span * US)));
    (system(), prop::collection::vec((stop, again), 1..16)).prop_map(|(system, both)| {
        let (stops, agains) = both.into_iter().unzip();
        System { stops, agains, ..system }
    })
}

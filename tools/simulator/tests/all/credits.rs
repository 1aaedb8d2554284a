//! Jobs that are released up to a number, by any of several tasks: each once, and each a period after the one before.

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Record};
use fusee_simulator::Overheads;
use proptest::prelude::*;

use super::common::{Asked, MS, Run, US, burn, call, run_for, sleep};

/// Three tasks that may say how many jobs `consumer` may have, on CPUs of their own, beside a hog that is earlier than the consumer.
fn system(backlog: u8, period_us: u64, burn_us: u64, hog_us: u64) -> String {
    let producer = |name: &str, cpu: u32| {
        format!(
            "[clusters.{name}]\ncpus = [{cpu}]\n[tasks.{name}]\ncluster = \"{name}\"\nclass = \"background\"\nscript = [\"burn 1us\"]\n\
             handles = {{ consumer = \"task consumer: credit\" }}\n"
        )
    };
    let producers: String = ["ada", "bob", "cyd"].iter().zip(1..).map(|(name, cpu)| producer(name, cpu)).collect();
    format!(
        r#"
[system]
name = "credits"
board = "virt"
cpus = 4
start = "10ms"
admission = "warn"
[clusters.all]
cpus = [0]
policy = "FP"
[tasks.hog]
cluster = "all"
script = ["burn {hog_us}us"]
period = "17ms"
budget = "16ms"
priority = 1
[tasks.consumer]
cluster = "all"
script = ["burn {burn_us}us"]
release = "sporadic"
period = "{period_us}us"
deadline = "1s"
budget = "{}us"
priority = 2
backlog = {backlog}
{producers}
"#,
        period_us.min(900)
    )
}

/// Says at an instant up to which job.
#[derive(Clone, Copy, Debug)]
struct Said {
    after_us: u64,
    upto: u64,
}

fn said() -> impl Strategy<Value = Vec<Said>> {
    let one = (0..5_000_u64, prop_oneof![8 => 0..40_u64, 1 => Just(u32::MAX.into()), 1 => any::<u64>()]);
    // A number above the lower half is one of jobs that are over, as distances go.
    let one = one.prop_map(|(after_us, upto)| Said { after_us, upto: if upto > 40 { upto | 1 << 31 } else { upto } });
    prop::collection::vec(one, 0..25)
}

/// Each is said as often as `Task::credit` would: a call releases one job.
fn requests(said: &[Said]) -> Vec<Asked> {
    let credit = |said: &Said| {
        let credit = call(Call::ReleaseJob, "consumer").with(said.upto);
        [vec![burn(1 + said.after_us * US)], vec![credit; said.upto.min(40) as usize]].concat()
    };
    [vec![sleep(10 * MS)], said.iter().flat_map(credit).collect()].concat()
}

fn simulated(text: &str, all: [&[Said]; 3]) -> Run {
    let [ada, bob, cyd] = all.map(requests);
    run_for(text, Overheads::NONE, 900 * MS, &[("ada", &ada, None), ("bob", &bob, None), ("cyd", &cyd, None)])
}

/// The releases of the consumer's jobs, which are all over: completion, less lateness, less the deadline.
fn releases(run: &Run) -> Vec<u64> {
    let release = |record: &Record| record.time.wrapping_sub(record.lateness() as u64) - 1_000 * MS;
    run.events(Event::Complete, "consumer").map(release).collect()
}

/// When each credit was said, and up to which job: only burning takes time here.
fn when(all: [&[Said]; 3]) -> Vec<(u64, u64)> {
    let of_one = |said: &[Said]| {
        let instants = said.iter().scan(10 * MS, |now, one| {
            *now += 1 + one.after_us * US;
            Some((*now, one.upto))
        });
        instants.collect::<Vec<_>>()
    };
    let mut when = all.map(of_one).concat();
    when.sort_unstable();
    when
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// A consumer of any lateness, and producers that say again how much, too little or too much.
    #[test]
    fn each_job_is_released_once_when_its_credit_was_said_or_a_period_after_the_one_before(
        ada in said(),
        bob in said(),
        cyd in said(),
        period_us in 300..6_000_u64,
        burn_us in 1..800_u64,
        hog_us in 1..15_000_u64,
    ) {
        let all = [&ada[..], &bob, &cyd];
        let run = simulated(&system(255, period_us, burn_us, hog_us), all);
        // By brute force: job by job, the first instant at which a producer had said as much.
        let when = when(all);
        let mut expected: Vec<u64> = Vec::new();
        for job in 1..=40 {
            let Some((said, _)) = when.iter().find(|(_, upto)| *upto <= 40 && *upto >= job) else { break };
            expected.push(expected.last().map_or(*said, |last| (*said).max(last + period_us * US)));
        }
        prop_assert_eq!(releases(&run), expected);
        prop_assert_eq!(run.events(Event::Skip, "consumer").count(), 0);
    }

    /// With less room than jobs: a release without a place is no loss, it is there when it is said again.
    #[test]
    fn what_finds_no_place_is_released_when_it_is_said_again(backlog in 1..6_u8, jobs in 1..60_u64, period_us in 900..3_000_u64) {
        let again: Vec<Said> = (0..200).map(|_| Said { after_us: 2_000, upto: jobs }).collect();
        let run = simulated(&system(backlog, period_us, 500, 1), [&again, &[], &[]]);
        prop_assert_eq!(run.events(Event::Complete, "consumer").count() as u64, jobs);
        prop_assert_eq!(run.events(Event::Skip, "consumer").count(), 0);
        let refused = run.results("ada").iter().filter(|result| **result == Error::BacklogFull as u64).count();
        prop_assert_eq!(refused > 0, jobs > u64::from(backlog) + 1);
        prop_assert!(releases(&run).windows(2).all(|pair| pair[1] - pair[0] >= period_us * US));
    }
}

#[test]
fn who_may_release_one_job_may_not_say_how_many() {
    let text = system(3, 1_000, 10, 10).replace("consumer: credit", "consumer: release_job");
    let [one, many] = [0, 5].map(|upto| call(Call::ReleaseJob, "consumer").with(upto));
    let run = run_for(&text, Overheads::NONE, 100 * MS, &[("ada", &[sleep(MS), one, many], None)]);
    assert_eq!(run.results("ada")[1..], [0, Error::MissingRight as u64]);
    let text = system(3, 1_000, 10, 10);
    let run = run_for(&text, Overheads::NONE, 100 * MS, &[("ada", &[sleep(MS), one, many], None)]);
    assert_eq!(run.results("ada")[1..], [Error::MissingRight as u64, 0]);
}

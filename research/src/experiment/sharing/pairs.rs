//! A small client beside one with requests of 19 us to 1.7 ms: X5 to X11.
//!
//! Source: ASPLOS 2014, section 5.3, figures 6 and 7. Of the sizes of Throttle's requests the text has the ends; one in between stands in equal ratios.

use anyhow::Result;

use super::super::{Condition, Experiment, Findings, Kind, Paper, Unit};
use super::emulated::Form;
use super::{
    BACKLOG, COUNTED, Client, DIRECT, ENGAGED, Load, MICROSECOND, Outcome, Row, Runs, SAMPLED, SLICES, Setup, WAYS,
    findings, least, mean, most, row, ways,
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sharing-pairs",
    question: "what does a client with small requests lose beside one with large ones, and what do policies cost both?",
    length: 40_000_000_000,
    short: 20_000_000_000,
    kind: Kind::Sharing(find),
    conditions,
};

/// The programs beside Throttle, with their rows: the most slowdown of either, and the losses of both.
const PROGRAMS: [(&str, [&str; 4]); 4] = [
    ("DCT", ["DCT, most", "beside DCT, most", "DCT, mean loss", "DCT, most loss"]),
    ("FFT", ["FFT, most", "beside FFT, most", "FFT, mean loss", "FFT, most loss"]),
    ("glxgears", ["glxgears, most", "beside glxgears", "glxgears, mean loss", "glxgears, most loss"]),
    ("oclParticles", ["oclParticles", "beside oclPart.", "oclPart., mean loss", "oclPart., most loss"]),
];
/// Throttle's requests, microseconds of the paper.
const THROTTLES: [u64; 3] = [19, 180, 1_700];
const ENDS: [u64; 2] = [19, 1_700];

const LEAST: &str = "all, least slowdown";
const MOST: &str = "all, most slowdown";
const MEAN_LOSS: &str = "all, mean loss";
const MOST_LOSS: &str = "all, most loss";
const FFT_ONE: &str = "19 us beside FFT";
const FFT_THREE: &str = "19 us beside FFT x 3";
const GEARS: [&str; 2] = ["gears by 19 us", "gears by 1.7 ms"];
const THIEF: [&str; 2] = ["part of 27 ms", "without control"];
const PARTS: [&str; 2] = ["two contexts", "beside two contexts"];
const PARTS_OF_ONE: [&str; 2] = ["grouped contexts", "beside grouped"];

fn pair(policy: Option<u64>, program: &str, throttle: u64) -> Setup {
    Setup::new(policy, [Load::program(program), Load::throttle(throttle, 0)])
}

/// A device that serves graphics one time in four, beside a client that has three requests queued.
fn gears(policy: Option<u64>, throttle: u64) -> Setup {
    let mut setup = Setup::new(policy, [Load::program("glxgears"), Load::queued(throttle, 3)]);
    setup.clients[1].turns = 3;
    setup
}

/// The program with two kinds of requests, each in a context of its own, and Throttle beside it if there is one.
fn contexts(policy: Option<u64>, group: Option<&'static str>, throttle: Option<u64>) -> Setup {
    let parts = [0, 1].map(|kind| Client { group, ..Client::from(Load::part("oclParticles", kind)) });
    Setup::new(policy, parts.into_iter().chain(throttle.map(|time| Load::throttle(time, 0).into())))
}

/// Requests of nine tenths of a slice beside requests of 0.1 ms; overuse charged or not.
fn thief(policy: Option<u64>, control: bool) -> Setup {
    let parameters = if control { Vec::new() } else { vec![("without_overuse_control", 1)] };
    Setup { parameters, ..Setup::new(policy, [Load::throttle(27_000, 0), Load::throttle(100, 0)]) }
}

/// Throttle beside a program that is there so often.
fn several(policy: Option<u64>, program: &str, times: usize) -> Setup {
    let throttle = Load::throttle(19, 0);
    Setup::new(policy, std::iter::once(throttle).chain((0..times).map(|_| Load::program(program))))
}

/// The outcomes, in order. A sample is eight requests long, or 20 ms if that is longer: where all are small, intervals are at most a third as long, and a
/// quarter of the time has as many.
fn of_their_length(runs: &Runs, setups: &[Setup]) -> Result<Vec<Outcome>> {
    let is_long = |setup: &Setup| setup.longest() > 1_000 * MICROSECOND;
    let (long, short): (Vec<Setup>, Vec<Setup>) = setups.iter().cloned().partition(is_long);
    let mut long_ones = runs.all(&long)?.into_iter();
    let mut short_ones = Runs { length: runs.length / 4, ..*runs }.all(&short)?.into_iter();
    let of = |setup| if is_long(setup) { long_ones.next() } else { short_ones.next() };
    Ok(setups.iter().filter_map(of).collect())
}

fn find(runs: &Runs) -> Result<Findings> {
    let mut setups: Vec<Setup> = Vec::new();
    for (_, _, policy) in WAYS {
        for (program, _) in PROGRAMS {
            setups.extend(THROTTLES.map(|throttle| pair(policy, program, throttle)));
        }
        setups.extend(ENDS.map(|throttle| gears(policy, throttle)));
        setups.extend(ENDS.map(|throttle| contexts(policy, None, Some(throttle))));
        // Policies that know no groups are given none.
        let group = policy.filter(|number| *number >= 3).map(|_| "particles");
        setups.extend(ENDS.map(|throttle| contexts(policy, group, Some(throttle))));
        setups.extend([1, 3].map(|times| several(policy, "FFT", times)));
    }
    let slices = WAYS.iter().filter(|(name, ..)| [ENGAGED, SLICES].contains(name)).map(|(.., policy)| *policy);
    let thieves: Vec<Setup> = [true, false].iter().flat_map(|on| slices.clone().map(|way| thief(way, *on))).collect();
    let thieves = runs.all(&thieves)?;
    let all = of_their_length(runs, &setups)?;
    let together = &runs.all(&[contexts(None, None, None)])?[0];
    let columns: Vec<&[Outcome]> = all.chunks(all.len() / WAYS.len()).collect();
    let pairs = PROGRAMS.len() * THROTTLES.len();
    let each = |of: &dyn Fn(&[Outcome]) -> f64| columns.iter().map(|column| of(column)).collect::<Vec<_>>();
    let loss = |column: &[Outcome], index: usize| 1.0 - column[index].efficiency() / columns[0][index].efficiency();
    let mut rows: Vec<Row> = Vec::new();
    for (number, (_, [own, other, mean_loss, most_loss])) in PROGRAMS.iter().enumerate() {
        let range = number * THROTTLES.len()..(number + 1) * THROTTLES.len();
        let slowest =
            |client: usize| each(&|column| most(column[range.clone()].iter().map(|outcome| outcome.slowdowns[client])));
        rows.push(row(own, Unit::Hundredths, slowest(0)));
        rows.push(row(other, Unit::Hundredths, slowest(1)));
        rows.push(row(mean_loss, Unit::Share, each(&|column| mean(range.clone().map(|index| loss(column, index))))));
        rows.push(row(most_loss, Unit::Share, each(&|column| most(range.clone().map(|index| loss(column, index))))));
    }
    let slowdowns = |column: &[Outcome]| -> Vec<f64> {
        column[..pairs].iter().flat_map(|outcome| outcome.slowdowns.clone()).collect()
    };
    rows.push(row(LEAST, Unit::Hundredths, each(&|column| least(slowdowns(column)))));
    rows.push(row(MOST, Unit::Hundredths, each(&|column| most(slowdowns(column)))));
    rows.push(row(MEAN_LOSS, Unit::Share, each(&|column| mean((0..pairs).map(|index| loss(column, index))))));
    rows.push(row(MOST_LOSS, Unit::Share, each(&|column| most((0..pairs).map(|index| loss(column, index))))));
    for (number, name) in GEARS.into_iter().enumerate() {
        let rate = |column: &[Outcome]| {
            let requests = &column[pairs + number].requests;
            requests[0] / requests[1]
        };
        rows.push(row(name, Unit::Hundredths, each(&rate)));
    }
    for (block, names) in [(pairs + 2, PARTS), (pairs + 4, PARTS_OF_ONE)] {
        let both = |column: &[Outcome], of: &dyn Fn(&Outcome) -> f64| mean(column[block..block + 2].iter().map(of));
        // The program's work by that of its two contexts without Throttle.
        let own = |outcome: &Outcome| {
            mean((0..2).map(|part| together.times[part])) / mean((0..2).map(|part| outcome.times[part]))
        };
        rows.push(row(names[0], Unit::Hundredths, each(&|column| both(column, &own))));
        rows.push(row(names[1], Unit::Hundredths, each(&|column| both(column, &|outcome| outcome.slowdowns[2]))));
    }
    for (part, name) in thieves.chunks(2).zip(THIEF) {
        let of = |(way, ..): &(&str, _, _)| match *way {
            ENGAGED => part[0].share(0),
            SLICES => part[1].share(0),
            _ => f64::NAN,
        };
        rows.push(row(name, Unit::Share, WAYS.iter().map(of)));
    }
    for (number, name) in [FFT_ONE, FFT_THREE].into_iter().enumerate() {
        rows.push(row(name, Unit::Hundredths, each(&|column| column[pairs + 6 + number].slowdowns[0])));
    }
    Ok(findings(ways(), rows))
}

/// DCT beside requests of 430 us, and the two alone.
pub(super) fn form() -> Form {
    let ways = || WAYS.iter().filter(|(name, ..)| [DIRECT, SLICES, COUNTED].contains(name));
    Form {
        columns: ways().map(|(name, about, _)| (*name, *about)).collect(),
        setups: ways().map(|(.., policy)| pair(*policy, "DCT", 430)).collect(),
        rows: |outcomes| {
            let slowdowns = ["DCT", "beside DCT"].into_iter().zip(&outcomes[0].slowdowns);
            slowdowns.map(|(name, value)| row(name, Unit::Hundredths, [*value])).collect()
        },
    }
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let value = |way, row| found.value(way, row);
    let x = |value: f64| format!("{value:.2}");
    let percent = |value: f64| Unit::Share.show(value);
    let policies = [ENGAGED, SLICES, SAMPLED, BACKLOG, COUNTED];
    let range = |ways: &[&'static str]| {
        (least(ways.iter().map(|way| value(way, LEAST))), most(ways.iter().map(|way| value(way, MOST))))
    };
    let both = range(&policies);
    let losses = [ENGAGED, SLICES, SAMPLED].map(|way| value(way, MEAN_LOSS));
    let mut all = Vec::new();
    for (program, (paper, limit)) in
        ["DCT", "FFT", "glxgears"].into_iter().zip([("DCT > 10", 10.0), ("FFT 7", 7.0), ("glxgears 12", 12.0)])
    {
        let rows = PROGRAMS.iter().find(|(name, _)| *name == program).expect("a program of the experiment").1;
        let ours = value(DIRECT, rows[0]);
        let claim = match program {
            "DCT" => "direct, DCT beside requests of 1.7 ms takes more than 10 times as long",
            "FFT" => "direct, FFT takes at least 7 times as long",
            _ => "direct, glxgears takes at least 12 times as long",
        };
        all.push(Condition::new(claim, ours >= limit, x(ours)).of(Paper { experiment: "X5", value: paper }));
    }
    all.push(
        Condition::new(
            "direct, Throttle with requests of 19 us takes more than 3 times as long beside DCT",
            value(DIRECT, PROGRAMS[0].1[1]) > 3.0,
            x(value(DIRECT, PROGRAMS[0].1[1])),
        )
        .of(Paper { experiment: "X5", value: "beside DCT > 3" }),
    );
    all.push(Condition {
        why_not: Some(
            "served in turn, one request of 19 us waits for one of 48 us and no more: (19 + 48) / 19 = 3.5; beside FFT in three contexts it is more than 7",
        ),
        ..Condition::new(
            "direct, Throttle with requests of 19 us takes more than 7 times as long beside FFT",
            value(DIRECT, FFT_ONE) > 7.0,
            format!("{}; {} beside three", x(value(DIRECT, FFT_ONE)), x(value(DIRECT, FFT_THREE))),
        )
        .of(Paper { experiment: "X5", value: "beside FFT > 7" })
    });
    all.push(
        Condition::new(
            "under each policy each of a pair takes 1.7 to 2.3 times as long",
            both.0 >= 1.7 && both.1 <= 2.3,
            format!("{} to {}", x(both.0), x(both.1)),
        )
        .of(Paper { experiment: "X6", value: "about 2" }),
    );
    all.push(
        Condition::new(
            "the mean loss falls from engaged slices over slices to fair queueing",
            losses[0] > losses[1] && losses[1] > losses[2],
            losses.map(percent).join(", "),
        )
        .of(Paper { experiment: "X9 to X11", value: "falls (19, 10, 4 %)" }),
    );
    let thieves = THIEF.map(|row| [ENGAGED, SLICES].map(|way| value(way, row)));
    all.push(
        Condition::new(
            "requests of nine tenths of a slice take more than 60 % where overuse is not charged, and 45 to 55 % where it is",
            thieves[1].iter().all(|part| *part > 0.6) && thieves[0].iter().all(|part| (0.45..=0.55).contains(part)),
            thieves.map(|parts| parts.map(percent).join(" and ")).join("; without "),
        )
        .of(Paper { experiment: "overuse", value: "charged: equal parts" }),
    );
    all.extend(conditions_of_graphics(found));
    all
}

/// Conditions of a program with graphics, and of one with several contexts.
fn conditions_of_graphics(found: &Findings) -> Vec<Condition> {
    let value = |way, row| found.value(way, row);
    let x = |value: f64| format!("{value:.2}");
    let mut all = Vec::new();
    let gears = |way| value(way, GEARS[0]);
    all.push(
        Condition::new(
            "where the device serves graphics one time in four, fair queueing by sampled sizes lets glxgears have a quarter to two fifths of the requests of \
             Throttle",
            (0.25..=0.4).contains(&gears(SAMPLED)),
            format!("{}; by counters {}, in equal time {}", x(gears(SAMPLED)), x(gears(COUNTED)), x(19.0 / 37.0)),
        )
        .of(Paper { experiment: "X7", value: "1/3" }),
    );
    let fades = |way| value(way, GEARS[1]) / (1_700.0 / 37.0);
    all.push(
        Condition::new(
            "beside requests of 1.7 ms it has more than four fifths of what equal time gives",
            fades(SAMPLED) >= 0.8,
            x(fades(SAMPLED)),
        )
        .of(Paper { experiment: "X7", value: "fades" }),
    );
    let contexts = |way, rows: [&'static str; 2]| rows.map(|row| value(way, row));
    let [own, other] = contexts(SAMPLED, PARTS);
    all.push(Condition {
        why_not: Some(
            "each context is a client here, and in equal parts one of three takes 3 times as long and two of three 1.5 times; the paper has two clients, and \
             takes the mean of both queues for one, so its numbers lie between these and 2",
        ),
        ..Condition::new(
            "fair queueing of the contexts of a program with two: Throttle takes 2.3 to 2.7 times as long, the program 1.3 to 1.5 times",
            (2.3..=2.7).contains(&other) && (1.3..=1.5).contains(&own),
            format!("{} and {}", x(other), x(own)),
        )
        .of(Paper { experiment: "X8", value: "2.3 to 2.7, 1.3 to 1.5" })
    });
    let grouped: Vec<f64> = [SAMPLED, BACKLOG, COUNTED].iter().flat_map(|way| contexts(way, PARTS_OF_ONE)).collect();
    all.push(Condition::new(
        "as one group, which the contexts of a task are, both take 1.7 to 2.3 times as long",
        grouped.iter().all(|slowdown| (1.7..=2.3).contains(slowdown)),
        format!("{} to {}", x(least(grouped.clone())), x(most(grouped.clone()))),
    ));
    all
}

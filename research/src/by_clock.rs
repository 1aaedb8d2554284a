//! Clusters that compute by the clock, as a campaign: whether the kernel keeps the bounds of their reachable states.

use fusee_campaigns::by_clock::{ByClockReport, Claims, by_clock};
use fusee_campaigns::draws::Draws;

use crate::campaign::{Campaign, Left, Outcome};

/// The least part of systems without a miss that is proved, in percent. With seed 1 it is 97 %.
const PROVED: u64 = 95;

/// Random systems of up to six tasks on two or three CPUs.
pub const CAMPAIGN: Campaign = Campaign {
    name: "by-clock",
    question: "Is a job by the clock later than its bound, or is what runs well not proved?",
    unit: "systems",
    budget: 2_000,
    large: 20_000,
    block: 2_000,
    draw: |draws| Ok(of(&by_clock(draws, &Claims::of))),
};

fn of(report: &ByClockReport) -> Outcome {
    let wrong = [report.failures.as_slice(), &report.violations].concat();
    Outcome { systems: report.systems, jobs: report.jobs, wrong, report: report.to_string() }
}

/// Draws the budget: the figures, in words, and the faults.
pub fn check() -> (String, Vec<String>) {
    let draws = match CAMPAIGN.draws() {
        Ok(draws) => draws,
        Err(error) => return ("bounds by the clock hold".to_owned(), vec![format!("{error:#}")]),
    };
    let mut report = ByClockReport::default();
    draws.into_iter().for_each(|draws: Draws| report.join(by_clock(draws, &Claims::of)));
    let mut problems: Vec<String> = of(&report).wrong.iter().map(ToString::to_string).collect();
    if report.proved * 100 < report.schedulable * PROVED {
        problems.push(format!("fewer than {PROVED} % of what runs well is proved: {report}"));
    }
    let words = format!("bounds by the clock hold: {} ({})", report.to_string().trim_end(), Left(&[CAMPAIGN]));
    (words, problems)
}

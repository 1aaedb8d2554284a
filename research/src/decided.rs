//! Clusters that share an engine that its device arbitrates, as a campaign: whether the kernel keeps their bounds.

use fusee_campaigns::decided::{DecidedReport, bounds, decided};
use fusee_campaigns::draws::Draws;

use crate::campaign::{Campaign, Left, Outcome};

/// The least part of systems that is proved, in percent. With seed 1 it is 34 %.
const PROVED: u64 = 25;

/// Random systems of two or three CPUs with a device.
pub const CAMPAIGN: Campaign = Campaign {
    name: "decided",
    question: "Is a job later than its bound, where the device of an engine decides for several CPUs?",
    unit: "systems",
    budget: 2_000,
    large: 20_000,
    block: 2_000,
    draw: |draws| Ok(of(&decided(draws, &bounds))),
};

fn of(report: &DecidedReport) -> Outcome {
    let wrong = [report.failures.as_slice(), &report.violations].concat();
    Outcome { systems: report.systems, jobs: report.jobs, wrong, report: report.to_string() }
}

/// Draws the budget: the figures, in words, and the faults.
pub fn check() -> (String, Vec<String>) {
    let title = "bounds of clusters that share a device hold";
    let draws = match CAMPAIGN.draws() {
        Ok(draws) => draws,
        Err(error) => return (title.to_owned(), vec![format!("{error:#}")]),
    };
    let mut report = DecidedReport::default();
    draws.into_iter().for_each(|draws: Draws| report.join(decided(draws, &bounds)));
    let mut problems: Vec<String> = of(&report).wrong.iter().map(ToString::to_string).collect();
    if report.proved * 100 < report.systems * PROVED {
        problems.push(format!("fewer than {PROVED} % of the systems are proved: {report}"));
    }
    (format!("{title}: {} ({})", report.to_string().trim_end(), Left(&[CAMPAIGN])), problems)
}

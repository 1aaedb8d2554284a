//! `cargo xtask contention`: the cost of one lock around the kernel when all CPUs call at once.
//!
//! Each CPU is a cluster with a client and a server of its own, so nothing but the lock connects them. A client computes for a while and calls,
//! again and again. Simulated with the time of the fast path in the bench, all of it under the lock; in QEMU's `det` CPUs take turns, so there
//! is no contention to see.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fusee_abi::call::Call;
use fusee_abi::trace::Event;
use fusee_manifest::Manifest;
use fusee_simulator::{Checks, Options, Overheads, Program, Reply, Request, Until, simulate_observed};

use crate::bench;
use fusee_host::system;
use fusee_host::table::Table;

/// Arguments of `cargo xtask contention`.
#[derive(Args)]
pub struct ContentionArguments {
    /// How long a client computes between two calls, nanoseconds.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 500, 2_000, 10_000])]
    compute: Vec<u64>,
    /// How many CPUs there are.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    cpus: Vec<u32>,
    /// Draw calls a second against CPUs, a curve for each time between calls.
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// Virtual nanoseconds of each simulation.
const SPAN: u64 = 20_000_000;
/// The row of the bench with the cost of a call and its reply.
const ROUND_TRIP: &str = "call + reply round trip, 0 words";

/// The work of all CPUs.
struct Seen {
    /// Calls in all.
    calls: u64,
    /// The longest wait for the lock, nanoseconds.
    longest: u64,
}

/// Simulates, and prints a table for each time between calls.
pub fn contention(arguments: &ContentionArguments) -> Result<bool> {
    let round_trip = bench::recorded_figure(&system::root()?, ROUND_TRIP)?;
    let path = round_trip.div_ceil(2);
    fusee_host::sayln!(
        "a call + reply takes {round_trip} ns, all of it under the lock; an instruction is taken for a nanosecond"
    );
    let header = ["computes us", "CPUs", "million calls/s", "of the most %", "longest wait us"];
    let mut table = Table::new(header);
    let mut curves = Vec::new();
    for compute in &arguments.compute {
        let mut alone = None;
        let mut curve = Vec::new();
        for cpus in &arguments.cpus {
            let seen = simulate(*cpus, *compute, path)?;
            let each = seen.calls as f64 / f64::from(*cpus);
            let alone = *alone.get_or_insert(each);
            curve.push((*cpus, seen.calls as f64 * 1e3 / SPAN as f64));
            table.add_row([
                format!("{:.1}", *compute as f64 / 1e3),
                cpus.to_string(),
                format!("{:.2}", seen.calls as f64 * 1e3 / SPAN as f64),
                format!("{:.0}", 100.0 * each / alone),
                format!("{:.2}", seen.longest as f64 / 1e3),
            ]);
        }
        curves.push((*compute, curve));
    }
    fusee_host::sayln!("{table}");
    if let Some(path) = &arguments.svg {
        system::write(path, picture(&curves, 1e3 / round_trip as f64).as_bytes())?;
        fusee_host::sayln!("{}", path.display());
    }
    Ok(true)
}

/// Pixels between the edge of the picture and its axes.
const MARGIN: f64 = 50.0;
/// Pixels of the axes.
const SIZE: (f64, f64) = (420.0, 240.0);

/// Millions of calls a second against CPUs, for each time between two calls; `most` is the limit by the lock.
fn picture(curves: &[(u64, Vec<(u32, f64)>)], most: f64) -> String {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let last = points().map(|(cpus, _)| *cpus).max().unwrap_or(1).max(2);
    let x = |cpus: u32| MARGIN + SIZE.0 * f64::from(cpus - 1) / f64::from(last - 1);
    let y = |rate: f64| MARGIN + SIZE.1 * (1.0 - rate / (1.1 * most));
    let (right, bottom) = (MARGIN + SIZE.0, MARGIN + SIZE.1);
    let (width, height) = (right + 130.0, bottom + MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <style>text {{ font: 12px sans-serif }} path {{ fill: none; stroke: #466eaa; stroke-width: 2 }} line {{ stroke: #888 }}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"24\">million calls a second, all CPUs together, and the time between two calls of each</text>\n\
         <line x1=\"{MARGIN}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/><line x1=\"{MARGIN}\" y1=\"{MARGIN}\" x2=\"{MARGIN}\" y2=\"{bottom}\"/>\n\
         <line x1=\"{MARGIN}\" y1=\"{0}\" x2=\"{right}\" y2=\"{0}\" stroke-dasharray=\"4\"/><text x=\"8\" y=\"{1}\">{most:.2}</text>\n",
        y(most),
        y(most) + 4.0
    );
    let mut marks: Vec<u32> = points().map(|(cpus, _)| *cpus).collect();
    marks.sort_unstable();
    marks.dedup();
    for cpus in marks {
        text += &format!("<text x=\"{:.1}\" y=\"{}\">{cpus}</text>\n", x(cpus) - 4.0, bottom + 18.0);
    }
    text += &format!("<text x=\"{}\" y=\"{}\">CPUs</text>\n", right + 12.0, bottom + 18.0);
    for (compute, points) in curves {
        let path: Vec<String> = points.iter().map(|(cpus, rate)| format!("{:.1} {:.1}", x(*cpus), y(*rate))).collect();
        let Some((cpus, rate)) = points.last() else { continue };
        // Curves that meet at the limit have their names above each other.
        let above = 14.0
            * curves
                .iter()
                .take_while(|(other, _)| other != compute)
                .filter(|(_, points)| points.last().is_some_and(|(_, other)| (other - rate).abs() < most / 20.0))
                .count() as f64;
        text += &format!(
            "<path d=\"M{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{:.1} us</text>\n",
            path.join(" L"),
            x(*cpus) + 10.0,
            y(*rate) + 4.0 + above,
            *compute as f64 / 1e3
        );
    }
    text + "</svg>\n"
}

/// The system of so many CPUs.
fn manifest(cpus: u32) -> String {
    let mut text = format!("[system]\nname = \"contention\"\nboard = \"virt\"\ncpus = {cpus}\n");
    for cpu in 0..cpus {
        text += &format!(
            "[clusters.c{cpu}]\ncpus = [{cpu}]\n\
             [tasks.client{cpu}]\nscript = [\"burn 1us\"]\ncluster = \"c{cpu}\"\nclass = \"background\"\n\
             handles = {{ server = \"endpoint e{cpu}: call\" }}\n\
             [tasks.server{cpu}]\nscript = [\"serve e{cpu}\"]\ncluster = \"c{cpu}\"\n\
             handles = {{ e{cpu} = \"endpoint e{cpu}: receive\" }}\n\
             [endpoints.e{cpu}]\nserver = \"server{cpu}\"\n"
        );
    }
    text
}

/// All CPUs call; each path of the kernel takes `path` nanoseconds.
fn simulate(cpus: u32, compute: u64, path: u64) -> Result<Seen> {
    let manifest = Manifest::parse(Path::new("contention"), &manifest(cpus))?;
    let clients = manifest.system.tasks.iter().enumerate().filter(|(_, task)| task.name.starts_with("client"));
    let programs = clients.map(|(index, task)| {
        let server =
            task.environment.iter().find(|entry| entry.name == "server").context("a client without a server")?;
        let call = Request::Call {
            number: Call::Call as u64,
            first: server.handle,
            second: 0,
            words: [0; 2],
            until: Until::Never,
            reply: Reply::Nobody,
        };
        Ok((index, Program::Requests { requests: vec![Request::Burn(compute), call], again_from: Some(0) }))
    });
    let programs = programs.collect::<Result<Vec<_>>>()?;
    let overheads = Overheads { call_in: path, ..Overheads::NONE };
    let options = Options { overheads, programs, checks: Checks::Instants(0), ..Options::default() };
    let mut calls = 0;
    let report = simulate_observed(&manifest, &options, SPAN, &mut |record| {
        calls += u64::from(record.event == Event::Call as u8);
    })?;
    ensure!(report.exit.is_none(), "it ended by itself");
    Ok(Seen { calls, longest: report.longest_wait })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: u64 = 184;

    #[test]
    fn one_cpu_waits_for_nobody_and_several_that_only_call_share_the_lock() {
        let alone = simulate(1, 0, PATH).unwrap();
        assert_eq!(alone.longest, 0);
        for cpus in [2, 4, 8] {
            let seen = simulate(cpus, 0, PATH).unwrap();
            // The lock is never free, and each waits for all others once.
            assert!(seen.calls.abs_diff(alone.calls) <= u64::from(cpus), "{} and {}", seen.calls, alone.calls);
            assert_eq!(seen.longest, u64::from(cpus - 1) * PATH);
        }
    }

    #[test]
    fn cpus_that_compute_for_long_hardly_meet() {
        let [one, eight] = [1, 8].map(|cpus| simulate(cpus, 10_000, PATH).unwrap());
        assert!(eight.calls * 100 >= 8 * one.calls * 97, "{} of {}", eight.calls, 8 * one.calls);
        assert!(eight.longest <= 7 * PATH);
    }
}

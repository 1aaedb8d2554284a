//! How gaps and latencies are distributed: as CSV, and as pictures, a panel for each arrangement.

use std::fmt::Write;

use super::Run;
use crate::experiment::Further;
use crate::experiment::chart::escaped;

/// The density of gaps: as the text's figures, in steps of 0.005 periods, up to 2.5.
const GAP_STEP: f64 = 0.005;
const GAPS: usize = 500;
/// The distribution of latencies: in steps of 0.05 periods, up to 40 as the text's figure.
const LATENCY_STEP: f64 = 0.05;
const LATENCIES: usize = 800;

/// Sizes in pixels.
const WIDTH: usize = 940;
const PANEL: usize = 70;
const NAMES: usize = 150;
const TOP: usize = 34;
const BOTTOM: usize = 30;

/// Values at steps from zero on.
pub struct Curve {
    /// The owner of the curve.
    pub name: &'static str,
    /// The values.
    pub values: Vec<f64>,
}

/// The density of gaps.
pub fn gaps(runs: &[(&'static str, Run)]) -> Vec<Further> {
    let curve = |(name, run): &(&'static str, Run)| {
        let all = run.graphs.iter().flat_map(|(_, gaps)| gaps.iter().copied());
        Curve { name, values: density(all, GAP_STEP, GAPS) }
    };
    files("pdf", "Gaps between completions, in periods", runs.iter().map(curve).collect(), GAP_STEP)
}

/// The distribution of latencies.
pub fn latencies(runs: &[(&'static str, Run)]) -> Vec<Further> {
    let curve = |(name, run): &(&'static str, Run)| {
        let at = |step: usize| 1.0 - run.above(step as f64 * LATENCY_STEP);
        Curve { name, values: (0..=LATENCIES).map(at).collect() }
    };
    files("cdf", "Share of frames done in so many periods", runs.iter().map(curve).collect(), LATENCY_STEP)
}

/// How many values are in each step, by how many there are at all, and by the step. A value above the last one is in none.
fn density(values: impl Iterator<Item = f64>, step: f64, steps: usize) -> Vec<f64> {
    let (mut counts, mut all) = (vec![0_u64; steps], 0_u64);
    for value in values {
        all += 1;
        if let Some(count) = counts.get_mut((value / step) as usize) {
            *count += 1;
        }
    }
    counts.into_iter().map(|count| count as f64 / (all.max(1) as f64 * step)).collect()
}

fn files(ends: &'static str, title: &str, curves: Vec<Curve>, step: f64) -> Vec<Further> {
    vec![
        Further { name: format!("{ends}.csv"), text: csv(&curves, step) },
        Further { name: format!("{ends}.svg"), text: picture(title, &curves, step) },
    ]
}

fn csv(curves: &[Curve], step: f64) -> String {
    let mut text = "\"periods\"".to_owned();
    curves.iter().for_each(|curve| _ = write!(text, ",\"{}\"", curve.name));
    for place in 0..curves.iter().map(|curve| curve.values.len()).max().unwrap_or(0) {
        let _ = write!(text, "\n{:.3}", place as f64 * step);
        curves.iter().for_each(|curve| _ = write!(text, ",{:.6}", curve.values[place]));
    }
    text + "\n"
}

/// Each curve in a panel of its own, as high as it is at most; all have the same axis.
fn picture(title: &str, curves: &[Curve], step: f64) -> String {
    let height = TOP + PANEL * curves.len() + BOTTOM;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n\
         <style>text {{ font: 12px sans-serif }} .title {{ font-size: 16px }} .name {{ text-anchor: end }} .tick {{ text-anchor: middle }}\n\
         path {{ fill: #466eaa }} line {{ stroke: #ccc }}</style>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text class=\"title\" x=\"12\" y=\"22\">{}</text>\n",
        escaped(title)
    );
    let steps = curves.iter().map(|curve| curve.values.len()).max().unwrap_or(1);
    let x = |place: f64| NAMES as f64 + place / steps as f64 * (WIDTH - NAMES - 20) as f64;
    for part in 0..=5 {
        let place = (steps - 1) as f64 * f64::from(part) / 5.0;
        let (at, bottom) = (x(place), height - BOTTOM);
        let _ = writeln!(
            text,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{}\">{:.1}</text>",
            bottom + 16,
            place * step
        );
    }
    for (row, curve) in curves.iter().enumerate() {
        let bottom = TOP + PANEL * (row + 1);
        let most = curve.values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let y = |value: f64| bottom as f64 - value / most * (PANEL - 8) as f64;
        let _ = write!(
            text,
            "<text class=\"name\" x=\"{}\" y=\"{}\">{}</text><path d=\"M{:.1} {bottom}",
            NAMES - 8,
            bottom - PANEL / 2,
            escaped(curve.name),
            x(0.0)
        );
        for (place, value) in curve.values.iter().enumerate() {
            let _ = write!(text, "V{:.1}H{:.1}", y(*value), x(place as f64 + 1.0));
        }
        let _ = writeln!(text, "V{bottom}Z\"/>");
    }
    text + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_density_is_one_in_sum_but_for_what_is_beyond_its_end() {
        let values = [0.0, 0.1, 0.1, 0.26, 9.0];
        let density = density(values.into_iter(), 0.25, 4);
        assert_eq!(density.iter().map(|value| value * 0.25).sum::<f64>(), 0.8);
        assert_eq!(density[1], 0.8);
    }

    #[test]
    fn files_have_a_column_and_a_panel_for_each_arrangement() {
        let curves = vec![Curve { name: "a", values: vec![0.0, 1.0] }, Curve { name: "b & c", values: vec![1.0, 1.0] }];
        let files = files("pdf", "x", curves, 0.5);
        assert_eq!(files[0].text, "\"periods\",\"a\",\"b & c\"\n0.000,0.000000,1.000000\n0.500,1.000000,1.000000\n");
        assert!(files[1].text.matches("<path").count() == 2 && files[1].text.contains("b &amp; c"));
    }
}

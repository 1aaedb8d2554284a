//! The way of the car, as a drawing: the course from above, and the lateral error along it.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use car::course;
use car::world::{OBSTACLE, START};

use crate::replay::Place;

/// The drawing, and the ways of both kinds of runs.
pub const DRAWING: &str = "lines.svg";
const WAYS: [&str; 2] = ["managed.way", "unmanaged.way"];
const COLOURS: [&str; 2] = ["#0a7d38", "#c2410c"];
const NAMES: [&str; 2] = ["managed", "unmanaged"];

/// Pixels of the drawing.
const SIZE: [f64; 2] = [838.0, 420.0];
/// The part with the error: left, top, width, height; and metres at its top.
const PLOT: [f64; 4] = [60.0, 250.0, 760.0, 130.0];

/// Keeps the way of a run in `folder`, and draws all ways that are there.
pub fn keep(folder: &Path, is_unmanaged: bool, way: &[Place]) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let lines: String = way.iter().map(|[a, b, c, d]| format!("{a} {b} {c} {d}\n")).collect();
    std::fs::write(folder.join(WAYS[usize::from(is_unmanaged)]), lines)?;
    let ways = WAYS.map(|name| read(&folder.join(name)).unwrap_or_default());
    let path = folder.join(DRAWING);
    std::fs::write(&path, drawn(&ways)).with_context(|| format!("cannot write {}", path.display()))
}

fn read(path: &Path) -> Option<Vec<Place>> {
    let text = std::fs::read_to_string(path).ok()?;
    let place = |line: &str| {
        let numbers: Vec<f64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        numbers.try_into().ok()
    };
    text.lines().map(place).collect()
}

/// The drawing of both ways, of which either may be empty.
#[must_use]
pub fn drawn(ways: &[Vec<Place>; 2]) -> String {
    let [width, height] = SIZE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    plan(&mut svg, ways);
    errors(&mut svg, ways);
    svg.push_str("</svg>\n");
    svg
}

fn line(svg: &mut String, points: impl Iterator<Item = [f64; 2]>, style: &str) {
    let points: Vec<String> = points.map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, "<polyline points=\"{}\" fill=\"none\" {style}/>", points.join(" "));
}

/// The course from above: its lane, the ways, start and obstacle.
fn plan(svg: &mut String, ways: &[Vec<Place>; 2]) {
    let to = |[east, north]: [f64; 2]| [360.0 + east * 1.2, 215.0 - north * 1.2];
    let aside = |left: f64| {
        (0..=course::LENGTH as u32).step_by(2).map(move |along| {
            let course::Point { place: [x, y], direction: (sine, cosine), .. } = course::at(along.into());
            to([x - left * sine, y + left * cosine])
        })
    };
    line(svg, aside(0.0), "stroke=\"#d4d4d4\" stroke-width=\"4.2\"");
    for (way, colour) in ways.iter().zip(COLOURS).rev() {
        line(svg, way.iter().map(|[_, _, x, y]| to([*x, *y])), &format!("stroke=\"{colour}\" stroke-width=\"1.4\""));
    }
    for (along, name, below) in [(START, "start", 18.0), (OBSTACLE, "obstacle", -10.0)] {
        let [x, y] = to(course::at(along).place);
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#111\"/>");
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>", y + below);
    }
}

/// The lateral error along the course.
fn errors(svg: &mut String, ways: &[Vec<Place>; 2]) {
    let [left, top, width, height] = PLOT;
    let worst = ways.iter().flatten().map(|place| place[1].abs()).fold(0.0, f64::max);
    // A limit that fits all, of 0.1, 0.25, 0.5, 1 metre, or more.
    let limit = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0].into_iter().find(|limit| worst <= *limit).unwrap_or(20.0);
    let y = |error: f64| top + height / 2.0 - error / limit * height / 2.0;
    let x = |along: f64| left + (along - START) / course::LENGTH * width;
    for part in [-1.0, -0.5, 0.0, 0.5, 1.0] {
        let (error, at) = (part * limit, y(part * limit));
        let _ = writeln!(svg, "<path d=\"M{left} {at:.1}h{width}\" stroke=\"#e5e5e5\"/>");
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{error}</text>", left - 6.0, at + 4.0);
    }
    for ((way, colour), (name, number)) in ways.iter().zip(COLOURS).zip(NAMES.iter().zip([0.0, 1.0])).rev() {
        if way.is_empty() {
            continue;
        }
        let points = way.iter().map(|[along, error, ..]| [x(*along), y(*error)]);
        line(svg, points, &format!("stroke=\"{colour}\" stroke-width=\"1.2\""));
        let (at, from) = (left + 10.0 + 110.0 * number, top - 10.0);
        let _ = writeln!(svg, "<text x=\"{at}\" y=\"{from}\" fill=\"{colour}\">{name}</text>");
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">metres to the left of the lane's centre, along the course from the start</text>",
        left + width,
        top + height + 24.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_has_both_ways_and_fits_the_larger_error() {
        let way = |error: f64| (80..700).map(|along| [f64::from(along), error, 0.0, 0.0]).collect::<Vec<_>>();
        let svg = drawn(&[way(0.05), way(-0.4)]);
        assert!(svg.contains(">managed<") && svg.contains(">unmanaged<") && svg.contains(">0.5<"));
        assert!(!drawn(&[way(0.05), Vec::new()]).contains(">unmanaged<"));
    }
}

//! The picture of an experiment: a panel for each quantity that is charted, in it a bar for each arrangement.

use std::fmt::Write;

use super::{Findings, Quantity};

/// Sizes in pixels: a panel,
const WIDTH: usize = 470;
const BAR: usize = 24;
/// its caption, the names beside the bars, and the values behind them.
const CAPTION: usize = 34;
const NAMES: usize = 150;
const VALUES: usize = 90;
/// Panels beside each other.
const COLUMNS: usize = 2;

/// All charted quantities, as SVG.
pub fn picture(title: &str, found: &Findings) -> String {
    let charted: Vec<(usize, &Quantity)> =
        found.quantities.iter().enumerate().filter(|(_, quantity)| quantity.charted).collect();
    let panel = CAPTION + BAR * found.arrangements.len() + 10;
    let (width, height) = (WIDTH * COLUMNS, CAPTION + panel * charted.len().div_ceil(COLUMNS));
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <style>text {{ font: 12px sans-serif }} .title {{ font-size: 16px }} .name {{ text-anchor: end }} .bar {{ fill: #466eaa }}\
         </style>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n<text class=\"title\" x=\"12\" y=\"22\">{}</text>\n",
        escaped(title)
    );
    for (place, (index, quantity)) in charted.into_iter().enumerate() {
        let (left, top) = (place % COLUMNS * WIDTH, CAPTION + place / COLUMNS * panel);
        let values: Vec<f64> = found.values.iter().map(|values| values[index]).collect();
        let known = values.iter().copied().filter(|value| value.is_finite());
        let most = known.fold(f64::MIN_POSITIVE, f64::max);
        let _ = writeln!(text, "<text x=\"{}\" y=\"{}\">{}</text>", left + NAMES, top + 22, escaped(quantity.name));
        for (row, ((name, _), value)) in found.arrangements.iter().zip(&values).enumerate() {
            let top = top + CAPTION + BAR * row;
            let share = if value.is_finite() { value.max(0.0) / most } else { 0.0 };
            let length = share * (WIDTH - NAMES - VALUES) as f64;
            let _ = writeln!(
                text,
                "<text class=\"name\" x=\"{}\" y=\"{}\">{}</text><rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{length:.1}\" \
                 height=\"{}\"/><text x=\"{:.1}\" y=\"{}\">{}</text>",
                left + NAMES - 8,
                top + 16,
                escaped(name),
                left + NAMES,
                top + 4,
                BAR - 8,
                (left + NAMES) as f64 + length + 6.0,
                top + 16,
                quantity.unit.show(*value)
            );
        }
    }
    text + "</svg>\n"
}

/// As XML has it.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

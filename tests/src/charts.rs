//! Draws lines in panels side by side as SVG.
//!
//! Values are between 0 and 1, or ratios. The positions on the horizontal axis have names. All
//! panels have the same lines, which a legend names.

use std::fmt::Write;

/// Width and height of a panel, in pixels.
const PANEL: [f64; 2] = [240.0, 200.0];
/// Space to the left of a panel and above it, in pixels.
const MARGIN: [f64; 2] = [44.0, 34.0];
/// Space below the panels for the names of positions and of the axis, in pixels.
const BELOW: f64 = 40.0;
/// Height of a line of the legend, in pixels.
const LEGEND: f64 = 18.0;
/// Number of entries in a line of the legend.
const ENTRIES: usize = 5;
/// Colours that people with any colour vision tell apart (Okabe and Ito 2008), in the order of use,
/// and one more colour.
const COLOURS: [&str; 9] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000",
    "#882255",
];

/// A line of each panel.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// For each panel, a value at each position.
    pub values: Vec<Vec<f64>>,
}

/// The vertical axis of all panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vertical {
    /// Shares, from 0 to 1.
    Shares,
    /// Ratios from 0.001 to 100, on a logarithmic scale.
    Ratios,
}

impl Vertical {
    /// The position of a value on the axis, from 0 to 1.
    fn place(self, value: f64) -> f64 {
        match self {
            Vertical::Shares => value.clamp(0.0, 1.0),
            // The logarithm of 0 is at the lower end.
            Vertical::Ratios => ((value.log10() + 3.0) / 5.0).clamp(0.0, 1.0),
        }
    }

    /// The label at a fifth of the axis. `fifth`: 0 to 5.
    fn name(self, fifth: u8) -> String {
        match self {
            Vertical::Shares => format!("{} %", 20 * fifth),
            Vertical::Ratios => {
                ["0.001", "0.01", "0.1", "1", "10", "100"][usize::from(fifth)].to_owned()
            }
        }
    }
}

/// Escapes the characters of a text that have a meaning in XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Draws panels. `panels`: their titles. `axis`: name of the horizontal axis. `places`: names of
/// the positions on it.
pub fn svg(
    panels: &[&str],
    vertical: Vertical,
    axis: &str,
    places: &[String],
    lines: &[Line],
) -> String {
    let step = PANEL[0] + MARGIN[0] + 10.0;
    let width = step * panels.len() as f64;
    let legend = PANEL[1] + MARGIN[1] + BELOW;
    let height = legend + LEGEND * lines.len().div_ceil(ENTRIES) as f64 + 8.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (number, title) in panels.iter().enumerate() {
        let left = step * number as f64 + MARGIN[0];
        frame(&mut text, left, title, vertical, (axis, places));
        for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
            draw(&mut text, left, vertical, &line.values[number], colour);
        }
    }
    for (number, (line, colour)) in lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let x = MARGIN[0] + (width - MARGIN[0]) / ENTRIES as f64 * (number % ENTRIES) as f64;
        let y = legend + LEGEND * (number / ENTRIES) as f64 + 6.0;
        let name = escaped(&line.name);
        let _ = writeln!(
            text,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"18\" height=\"3\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{y:.1}\">{name}</text>",
            y - 5.0,
            x + 24.0
        );
    }
    text + "</svg>\n"
}

/// Horizontal coordinate of a position.
fn across(left: f64, place: usize, places: usize) -> f64 {
    left + PANEL[0] * place as f64 / (places.max(2) - 1) as f64
}

/// Vertical coordinate of a position on the axis, from 0 to 1.
fn up(part: f64) -> f64 {
    MARGIN[1] + PANEL[1] * (1.0 - part)
}

/// Draws the axes of a panel.
fn frame(
    text: &mut String,
    left: f64,
    title: &str,
    vertical: Vertical,
    (axis, places): (&str, &[String]),
) {
    let (middle, below) = (left + PANEL[0] / 2.0, MARGIN[1] + PANEL[1]);
    let centre = "text-anchor=\"middle\"";
    let _ = writeln!(
        text,
        "<text x=\"{middle}\" y=\"{}\" {centre} font-weight=\"bold\">{}</text>\
         <text x=\"{middle}\" y=\"{}\" {centre}>{}</text>",
        MARGIN[1] - 14.0,
        escaped(title),
        below + 32.0,
        escaped(axis)
    );
    for fifth in 0..=5u8 {
        let right = left + PANEL[0];
        let y = up(f64::from(fifth) / 5.0);
        let _ = writeln!(
            text,
            "<path d=\"M{left} {y}H{right}\" stroke=\"#dddddd\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            left - 5.0,
            y + 4.0,
            vertical.name(fifth)
        );
    }
    for (number, name) in places.iter().enumerate() {
        let x = across(left, number, places.len());
        let (y, name) = (below + 16.0, escaped(name));
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\" {centre}>{name}</text>");
    }
}

/// Draws a line with a point at each value.
fn draw(text: &mut String, left: f64, vertical: Vertical, values: &[f64], colour: &str) {
    let points: Vec<(f64, f64)> = values
        .iter()
        .enumerate()
        .map(|(place, value)| (across(left, place, values.len()), up(vertical.place(*value))))
        .collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        text,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>",
        path.join(" ")
    );
    for (x, y) in points {
        let _ = writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\" fill=\"{colour}\"/>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_between_the_axes_and_names_are_escaped() {
        let line = |name: &str, values: &[f64]| Line {
            name: name.into(),
            values: vec![values.to_vec(), values.to_vec()],
        };
        let lines = [line("a<b", &[0.0, 0.5, 1.0]), line("c", &[2.0, -1.0, 0.25])];
        let places = ["10".into(), "20".into(), "30".into()];
        let text = svg(&["one", "two"], Vertical::Shares, "x & y", &places, &lines);
        assert!(text.contains("a&lt;b") && text.contains("x &amp; y"), "{text}");
        assert!(text.contains("points=\"44.0,234.0 164.0,134.0 284.0,34.0\""), "{text}");
        assert!(text.contains("points=\"44.0,34.0 164.0,234.0 284.0,184.0\""), "{text}");
        assert_eq!(text.matches("<polyline").count(), 4);
        assert_eq!(text.matches("<circle").count(), 12);
    }

    #[test]
    fn ratios_are_on_a_logarithmic_scale() {
        let values = vec![vec![100.0, 0.001, 0.0]];
        let lines = [Line { name: "a".into(), values }];
        let places = ["10".into(), "20".into(), "30".into()];
        let text = svg(&["one"], Vertical::Ratios, "x", &places, &lines);
        assert!(text.contains("points=\"44.0,34.0 164.0,234.0 284.0,234.0\""), "{text}");
        assert!(text.contains(">0.01</text>"), "{text}");
    }
}

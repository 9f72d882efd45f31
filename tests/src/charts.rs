//! Draws lines in panels side by side as SVG.
//!
//! Values are between 0 and 1, and places on the horizontal axis are named. All panels have the same lines, which a legend names.

use std::fmt::Write;

/// Size of a panel, and space around it, in pixels.
const PANEL: [f64; 2] = [240.0, 200.0];
const MARGIN: [f64; 2] = [44.0, 34.0];
/// Space below the panels for the names of places and of the axis.
const BELOW: f64 = 40.0;
/// Height of a line of the legend, and how many entries it has.
const LEGEND: f64 = 18.0;
const ENTRIES: usize = 5;
/// Colours that people with any colour vision tell apart (Okabe and Ito 2008), in the order of use, and one more.
const COLOURS: [&str; 9] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000",
    "#882255",
];

/// A line of each panel.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// For each panel a value for each place, from 0 to 1.
    pub values: Vec<Vec<f64>>,
}

/// A text of SVG: what has a meaning in XML is escaped.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Draws panels. `panels`: their titles. `axis`: what the places are. `places`: names of the places.
pub fn svg(panels: &[&str], axis: &str, places: &[String], lines: &[Line]) -> String {
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
        frame(&mut text, left, title, axis, places);
        for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
            draw(&mut text, left, &line.values[number], colour);
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

/// Horizontal place of a value.
fn across(left: f64, place: usize, places: usize) -> f64 {
    left + PANEL[0] * place as f64 / (places.max(2) - 1) as f64
}

/// Vertical place of a value.
fn up(value: f64) -> f64 {
    MARGIN[1] + PANEL[1] * (1.0 - value.clamp(0.0, 1.0))
}

/// Draws the axes of a panel.
fn frame(text: &mut String, left: f64, title: &str, axis: &str, places: &[String]) {
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
    for fifth in 0..=5 {
        let (value, right) = (f64::from(fifth) / 5.0, left + PANEL[0]);
        let y = up(value);
        let _ = writeln!(
            text,
            "<path d=\"M{left} {y}H{right}\" stroke=\"#dddddd\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} %</text>",
            left - 5.0,
            y + 4.0,
            20 * fifth
        );
    }
    for (number, name) in places.iter().enumerate() {
        let x = across(left, number, places.len());
        let (y, name) = (below + 16.0, escaped(name));
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\" {centre}>{name}</text>");
    }
}

/// Draws a line with a point at each value.
fn draw(text: &mut String, left: f64, values: &[f64], colour: &str) {
    let points: Vec<(f64, f64)> = values
        .iter()
        .enumerate()
        .map(|(place, value)| (across(left, place, values.len()), up(*value)))
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
        let text = svg(&["one", "two"], "x & y", &places, &lines);
        assert!(text.contains("a&lt;b") && text.contains("x &amp; y"), "{text}");
        assert!(text.contains("points=\"44.0,234.0 164.0,134.0 284.0,34.0\""), "{text}");
        assert!(text.contains("points=\"44.0,34.0 164.0,234.0 284.0,184.0\""), "{text}");
        assert_eq!(text.matches("<polyline").count(), 4);
        assert_eq!(text.matches("<circle").count(), 12);
    }
}

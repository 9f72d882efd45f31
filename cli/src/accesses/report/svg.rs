//! Draws a chart as a standalone SVG file, for papers. The file has a title, axes, units and a
//! legend, in light colours.
//!
//! This module draws the charts of [`chart`](super::chart), which the page's script draws, too. The
//! script needs a browser, because its charts follow the size of the window and can be zoomed. A
//! browser engine that runs it would be by far the largest dependency of the command. So the five
//! kinds of charts are drawn in two places, but from the same data. Names come from outside and are
//! escaped. The file refers to no other file.

mod content;
mod labels;
mod paint;
mod rows;

use std::fmt::Write;

use hmtt_format::escape;

use self::labels::{LETTER, Label, spaced};
use super::chart::{Chart, Content, Style};
use super::numbers::{powers, text, ticks};

/// Width of a chart in CSS pixels, which are 1/96 inch. 720 pixels are 7.5 inches, the width of a
/// page without its margins.
pub const WIDTH: f64 = 720.0;
const PLOT_HEIGHT: f64 = 220.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 700.0;
/// Width of the y axis's name and the gaps beside it.
const NAME_RIGHT: f64 = 28.0;
const TOP: f64 = 64.0;
/// Height of the space below the plot, for ticks and the name of the axis.
const BELOW: f64 = 46.0;
/// Height of a row in a heat map, unless the plot would become too low or too high.
const ROW_HEIGHT: f64 = 15.0;
/// Colours of series.
const COLOURS: [&str; 3] = ["#1f66c7", "#c2590a", "#1c7c54"];
/// Colour of marks and limits.
const ALARM: &str = "#b42318";
/// Dashes of lines, by series.
const DASHES: [&str; 3] = ["none", "7 3", "2 2"];

const STYLE: &str = "text{font:11px sans-serif;fill:#1b1f24}.title{font-size:14px;font-weight:bold}\
     .axis{stroke:#5a6472;fill:none}.grid{stroke:#d8dde4;stroke-dasharray:2 3}\
     .mark{stroke:#b42318;stroke-width:1.5}.limit{stroke:#b42318;stroke-dasharray:6 3}\
     .border{stroke:#1c7c54;stroke-dasharray:4 3}.line{fill:none;stroke-width:1.5}\
     .heat{shape-rendering:crispEdges}";

/// Escapes a text, so that nothing in it has a meaning in SVG or controls a terminal.
fn escaped(raw: &str) -> String {
    let safe = escape::message(raw).to_string();
    safe.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Position of the plot, and the ranges of its axes.
struct Frame {
    left: f64,
    bottom: f64,
    extent: (f64, f64),
    /// Largest y value.
    top: f64,
}

impl Frame {
    fn new(chart: &Chart) -> Frame {
        let height = match &chart.content {
            Content::Heat { rows, .. } => {
                (rows.len() as f64 * ROW_HEIGHT).clamp(PLOT_HEIGHT / 2.0, PLOT_HEIGHT * 1.4)
            }
            Content::Rows { labels, .. } => labels.len().max(1) as f64 * rows::HEIGHT,
            _ => PLOT_HEIGHT,
        };
        let top = content::highest(&chart.content);
        // Labels of rows, such as addresses, are written whole. The space for labels is as wide as
        // the longest label needs.
        let letters = match &chart.content {
            Content::Heat { rows, .. } => rows.iter().map(|row| row.label.chars().count()).max(),
            _ => None,
        };
        Frame {
            left: LEFT.max(NAME_RIGHT + letters.unwrap_or(0) as f64 * LETTER),
            bottom: TOP + height,
            extent: chart.extent,
            top: if top > 0.0 { top } else { 1.0 },
        }
    }

    fn x(&self, at: f64) -> f64 {
        let (from, to) = self.extent;
        let span = if to > from { to - from } else { 1.0 };
        self.left + ((at - from) / span).clamp(-1.0, 2.0) * (RIGHT - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (value / self.top).clamp(0.0, 2.0) * (self.bottom - TOP)
    }
}

/// Writes a text at a position.
fn words(svg: &mut String, attributes: &str, x: f64, y: f64, text: &str) {
    let _ = write!(svg, "<text {attributes} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(text));
}

/// Texts below the plot with their x values. Some of them may find no space.
fn x_ticks(chart: &Chart) -> Vec<(f64, String)> {
    let (from, to) = chart.extent;
    match &chart.content {
        Content::Curves { .. } => {
            let exponents = powers(from, to, 8).into_iter();
            exponents.map(|at| (at, text(chart.x.unit, at.exp2()))).collect()
        }
        Content::Bars { begins, labels, .. } => {
            begins.iter().zip(labels).map(|(begin, label)| (begin + 0.5, label.clone())).collect()
        }
        _ => ticks(from, to, 7).into_iter().map(|at| (at, text(chart.x.unit, at))).collect(),
    }
}

fn axes(svg: &mut String, chart: &Chart, frame: &Frame) {
    let Frame { left, bottom, .. } = *frame;
    if !matches!(chart.content, Content::Heat { .. } | Content::Rows { .. }) {
        for value in ticks(0.0, frame.top, 5) {
            let y = frame.y(value);
            let _ = write!(svg, "<path class=\"grid\" d=\"M{left} {y:.1}H{RIGHT}\"/>");
            words(svg, "text-anchor=\"end\"", left - 6.0, y + 4.0, &text(chart.y.unit, value));
        }
    }
    let labels = x_ticks(chart).into_iter().map(|(at, text)| Label::new(frame, at, text));
    let keeps_last = matches!(chart.content, Content::Bars { .. });
    for Label { middle, text, .. } in spaced(&labels.collect::<Vec<_>>(), keeps_last) {
        words(svg, "text-anchor=\"middle\"", middle, bottom + 16.0, &text);
    }
    let middle = (left + RIGHT) / 2.0;
    words(svg, "text-anchor=\"middle\"", middle, bottom + 36.0, &chart.x.name);
    let y = (TOP + bottom) / 2.0;
    let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 14 {y:.1})\"");
    words(svg, &turned, 14.0, y, &chart.y.name);
}

/// Colours and names of the legend.
fn legend(chart: &Chart) -> Vec<(String, String)> {
    let series = |index: usize, name: &String| (paint::colour(index).to_owned(), name.clone());
    match &chart.content {
        Content::Time { series: lines, marks, limit, .. } => {
            let mut entries: Vec<_> =
                lines.iter().map(|line| series(line.colour, &line.name)).collect();
            let names = (!marks.is_empty()).then(|| "gaps".to_owned());
            let names = names.into_iter().chain(limit.as_ref().map(|limit| limit.name.clone()));
            entries.extend(names.map(|name| (ALARM.to_owned(), name)));
            entries
        }
        Content::Curves { curves } if curves.len() > 1 => {
            curves.iter().enumerate().map(|(at, one)| series(at, &one.name)).collect()
        }
        Content::Bars { names, apart: Some(apart), .. } if names.len() == 1 => {
            let names = names.iter().chain([apart]).enumerate();
            names.map(|(at, name)| series(at, name)).collect()
        }
        Content::Bars { names, .. } | Content::Rows { names, .. } if names.len() > 1 => {
            names.iter().enumerate().map(|(at, name)| series(at, name)).collect()
        }
        Content::Heat { rows, .. } => content::scale(rows),
        _ => Vec::new(),
    }
}

/// Draws a chart. `files`: names of the files that the chart shows.
pub fn svg(chart: &Chart, files: &str) -> String {
    let frame = Frame::new(chart);
    let height = frame.bottom + BELOW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\"><title>{}</title><desc>{}</desc><style>{STYLE}</style>\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>",
        escaped(&format!("{}: {files}", chart.title)),
        escaped(&chart.about),
    );
    words(&mut svg, "class=\"title\"", frame.left, 22.0, &chart.title);
    let mut x = frame.left;
    for (colour, name) in legend(chart) {
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"38\" width=\"11\" height=\"11\" fill=\"{colour}\"/>"
        );
        words(&mut svg, "", x + 16.0, 48.0, &name);
        x += 16.0 + 7.0 * name.chars().count() as f64 + 18.0;
    }
    axes(&mut svg, chart, &frame);
    let Frame { left, .. } = frame;
    let width = RIGHT - left;
    let plot = frame.bottom - TOP + 1.0;
    let _ = write!(
        svg,
        "<clipPath id=\"plot\"><rect x=\"{left}\" y=\"{TOP}\" width=\"{width}\" height=\"{plot:.1}\"/></clipPath>\
         <g clip-path=\"url(#plot)\">"
    );
    content::draw(&mut svg, &chart.content, &frame);
    let _ = writeln!(
        svg,
        "</g><path class=\"axis\" d=\"M{left} {TOP}V{:.1}H{RIGHT}\"/></svg>",
        frame.bottom
    );
    svg
}

#[cfg(test)]
mod tests;

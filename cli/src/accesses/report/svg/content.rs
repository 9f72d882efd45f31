//! Draws the content of a chart's plot.

use std::fmt::Write;

use super::paint::{colour, path};
use super::{Content, DASHES, Frame, RIGHT, Style, TOP, rows, words};
use crate::accesses::report::chart::{Curve, Row, Slices, TimeSeries};
use crate::accesses::report::numbers::counted;

/// Number of colours in a heat map.
const STEPS: usize = 24;
/// Red, green and blue for few accesses, from 0 to 255.
const FEW: [f64; 3] = [110.0, 160.0, 230.0];
/// Red, green and blue for the most accesses, from 0 to 255.
const MOST: [f64; 3] = [120.0, 20.0, 60.0];
/// A curve with fewer points has a dot at each point.
const DOTS: usize = 64;
/// Part of a range's width that its bars take.
const BARS: f64 = 0.84;

/// The highest y of a chart, with some space above it.
pub fn highest(content: &Content) -> f64 {
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    match content {
        Content::Time { style, series, limit, .. } => {
            let values = match style {
                Style::Stacked => {
                    let count = series.iter().map(|one| one.values.len()).max().unwrap_or(0);
                    let sum = |at| series.iter().filter_map(|one| one.values.get(at)).sum::<f64>();
                    most(&mut (0..count).map(sum))
                }
                _ => most(&mut series.iter().flat_map(|one| one.values.iter().copied())),
            };
            values.max(limit.as_ref().map_or(0.0, |limit| limit.value)) * 1.05
        }
        Content::Bars { values, .. } => most(&mut values.iter().flatten().copied()) * 1.05,
        Content::Curves { .. } | Content::Rows { .. } | Content::Heat { .. } => 1.0,
    }
}

fn area(
    slices: &Slices,
    series: &TimeSeries,
    base: Option<&mut Vec<f64>>,
    frame: &Frame,
) -> String {
    let mut data = String::new();
    let mut none = Vec::new();
    let base = base.unwrap_or(&mut none);
    for (at, (begin, value)) in slices.begins.iter().zip(&series.values).enumerate() {
        let from = base.get(at).copied().unwrap_or(0.0);
        if *value > 0.0 {
            let left = frame.x(*begin);
            let right = frame.x(begin + slices.width).max(left + 0.6);
            let [low, high] = [frame.y(from), frame.y(from + value)];
            let _ = write!(data, "M{left:.2} {low:.2}V{high:.2}H{right:.2}V{low:.2}Z");
        }
        if let Some(base) = base.get_mut(at) {
            *base += value;
        }
    }
    data
}

fn steps(slices: &Slices, series: &TimeSeries, frame: &Frame) -> String {
    let mut data = String::new();
    let mut end = f64::NEG_INFINITY;
    for (begin, value) in slices.begins.iter().zip(&series.values) {
        let command = if (begin - end).abs() < slices.width / 2.0 { 'L' } else { 'M' };
        end = begin + slices.width;
        let [left, right, y] = [frame.x(*begin), frame.x(end), frame.y(*value)];
        let _ = write!(data, "{command}{left:.2} {y:.2}H{right:.2}");
    }
    data
}

/// Attributes of a line: its colour and its dashes. The dashes distinguish lines in black and white
/// print.
fn line(index: usize) -> String {
    let dashes = DASHES[index % DASHES.len()];
    format!("class=\"line\" stroke=\"{}\" stroke-dasharray=\"{dashes}\"", colour(index))
}

fn over_time(svg: &mut String, content: &Content, frame: &Frame) {
    let Content::Time { style, slices, series, marks, borders, limit } = content else { return };
    let mut base = slices.first().map(|of| vec![0.0; of.begins.len()]).unwrap_or_default();
    for time_series in series {
        let Some(own_slices) = slices.get(time_series.slices) else { continue };
        let fill = format!("fill=\"{}\"", colour(time_series.colour));
        match style {
            Style::Steps => {
                path(svg, &line(time_series.colour), &steps(own_slices, time_series, frame))
            }
            Style::Stacked => {
                path(svg, &fill, &area(own_slices, time_series, Some(&mut base), frame))
            }
            Style::Layered => path(svg, &fill, &area(own_slices, time_series, None, frame)),
        }
    }
    let mut vertical = |class: &str, at: f64| {
        let data = format!("M{:.2} {TOP}V{:.2}", frame.x(at), frame.bottom);
        path(svg, &format!("class=\"{class}\""), &data);
    };
    marks.iter().for_each(|mark| vertical("mark", mark.at));
    borders.iter().for_each(|at| vertical("border", *at));
    if let Some(limit) = limit {
        path(
            svg,
            "class=\"limit\"",
            &format!("M{} {:.2}H{RIGHT}", frame.left, frame.y(limit.value)),
        );
    }
}

fn curves(svg: &mut String, curves: &[Curve], frame: &Frame) {
    for (index, Curve { points, .. }) in curves.iter().enumerate() {
        let mut data = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let command = if at == 0 { 'M' } else { 'L' };
            let _ = write!(data, "{command}{:.2} {:.2}", frame.x(*x), frame.y(*y));
        }
        path(svg, &line(index), &data);
        for (x, y) in points.iter().filter(|_| points.len() < DOTS) {
            let [x, y, fill] =
                [frame.x(*x).to_string(), frame.y(*y).to_string(), colour(index).to_owned()];
            let _ = write!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"2.5\" fill=\"{fill}\"/>");
        }
    }
}

fn bars(svg: &mut String, content: &Content, frame: &Frame) {
    let Content::Bars { begins, apart, values, .. } = content else { return };
    let width = BARS / values.len().max(1) as f64;
    for (group, list) in values.iter().enumerate() {
        let begin = (1.0 - BARS) / 2.0 + group as f64 * width;
        let boxes = |from: usize, to: usize| {
            let mut data = String::new();
            let part = begins.iter().zip(list).take(to).skip(from);
            for (at, value) in part.filter(|(_, value)| **value > 0.0) {
                let left = frame.x(at + begin);
                let right = frame.x(at + begin + width).max(left + 0.5);
                let [low, high] = [frame.y(0.0), frame.y(*value)];
                let _ = write!(data, "M{left:.2} {low:.2}V{high:.2}H{right:.2}V{low:.2}Z");
            }
            data
        };
        let has_own_colour = apart.is_some() && values.len() == 1;
        let regular = begins.len() - usize::from(has_own_colour && !begins.is_empty());
        path(svg, &format!("fill=\"{}\"", colour(group)), &boxes(0, regular));
        path(svg, &format!("fill=\"{}\"", colour(group + 1)), &boxes(regular, begins.len()));
    }
    if let ([.., before, last], Some(_)) = (&begins[..], apart) {
        let x = frame.x((before + 1.0 + last) / 2.0);
        path(svg, "class=\"axis\"", &format!("M{x:.2} {TOP}V{:.2}", frame.bottom));
    }
}

/// The colour of a step, from 0 to [`STEPS`] - 1.
fn heat_colour(step: usize) -> String {
    let part = step as f64 / (STEPS - 1) as f64;
    let mix = |at: usize| (FEW[at] + (MOST[at] - FEW[at]) * part).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// The legend of a heat map: the colours of one access and of the most accesses.
pub fn scale(rows: &[Row]) -> Vec<(String, String)> {
    let most = rows.iter().flat_map(|row| &row.counts).copied().max().unwrap_or(0);
    let ends = [(step_of(1, most), 1.0), (STEPS - 1, most as f64)];
    let shown = ends.into_iter().take(if most > 1 { 2 } else { 1 });
    shown.map(|(step, count)| (heat_colour(step), counted(count, "access"))).collect()
}

/// The colour step of a count, on a logarithmic scale.
fn step_of(count: u64, most: u64) -> usize {
    let part = (count as f64).ln_1p() / (most as f64).ln_1p().max(f64::MIN_POSITIVE);
    ((part * (STEPS - 1) as f64).round() as usize).min(STEPS - 1)
}

/// Draws a heat map. Boxes of one colour are one SVG path, and equal neighbours in a row are one
/// box.
fn heat(svg: &mut String, first: f64, width: f64, rows: &[Row], frame: &Frame) {
    let most = rows.iter().flat_map(|row| &row.counts).copied().max().unwrap_or(0);
    let step_of = |count: u64| (count > 0).then(|| step_of(count, most));
    let mut paths = vec![String::new(); STEPS];
    let height = (frame.bottom - TOP) / rows.len().max(1) as f64;
    let every = (12.0 / height).ceil().max(1.0) as usize;
    for (at, row) in rows.iter().enumerate() {
        let low = frame.bottom - at as f64 * height;
        let mut begin = 0;
        for group in row.counts.chunk_by(|one, other| step_of(*one) == step_of(*other)) {
            let end = begin + group.len();
            if let Some(path) = step_of(group[0]).and_then(|step| paths.get_mut(step)) {
                let [left, right] = [begin, end].map(|at| frame.x(first + at as f64 * width));
                let _ =
                    write!(path, "M{left:.2} {low:.2}V{:.2}H{right:.2}V{low:.2}Z", low - height);
            }
            begin = end;
        }
    }
    for (step, data) in paths.iter().enumerate() {
        path(svg, &format!("class=\"heat\" fill=\"{}\"", heat_colour(step)), data);
    }
    // Labels are drawn outside of the group that clips to the plot.
    svg.push_str("</g><g>");
    for (at, row) in rows.iter().enumerate().step_by(every) {
        let y = frame.bottom - (at as f64 + 0.5) * height + 4.0;
        words(svg, "text-anchor=\"end\"", frame.left - 6.0, y, &row.label);
    }
}

/// Draws the content of a chart.
pub fn draw(svg: &mut String, content: &Content, frame: &Frame) {
    match content {
        Content::Time { .. } => over_time(svg, content, frame),
        Content::Curves { curves: lines } => curves(svg, lines, frame),
        Content::Bars { .. } => bars(svg, content, frame),
        Content::Rows { labels, values, .. } => rows::draw(svg, labels, values, frame),
        Content::Heat { first, width, rows } => heat(svg, *first, *width, rows, frame),
    }
}

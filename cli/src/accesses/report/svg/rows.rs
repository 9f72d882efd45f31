//! Draws horizontal bars: each row has a name above its bar, whose parts stand side by side.

use std::fmt::Write;

use super::paint::{colour, path};
use super::{Frame, TOP, words};

/// Height of a row, with its text and its bar.
pub const HEIGHT: f64 = 30.0;
/// Maximum number of letters of a name in a row.
const LETTERS: usize = 90;
/// Vertical position of the text's baseline in a row, as a fraction of the row's height. Descenders
/// of letters are below the baseline.
const TEXT: f64 = 0.36;
/// Vertical positions of the top and the bottom of the bar in a row, as fractions of the row's
/// height.
const BAR: [f64; 2] = [0.53, 0.9];

/// Cuts a name that does not fit: the end is replaced by an ellipsis.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(LETTERS) {
        None => name.to_owned(),
        Some((at, _)) => format!("{}\u{2026}", &name[..at]),
    }
}

/// Draws rows. `values`: for each part, the values of all rows.
pub fn draw(svg: &mut String, labels: &[String], values: &[Vec<f64>], frame: &Frame) {
    let height = (frame.bottom - TOP) / labels.len().max(1) as f64;
    let mut base = vec![0.0; labels.len()];
    for (part, list) in values.iter().enumerate() {
        let mut data = String::new();
        for (at, (value, base)) in list.iter().zip(&mut base).enumerate() {
            let [high, low] = BAR.map(|of| TOP + (at as f64 + of) * height);
            let [left, right] = [*base, *base + value].map(|at| frame.x(at));
            if *value > 0.0 {
                let _ = write!(data, "M{left:.2} {low:.2}V{high:.2}H{right:.2}V{low:.2}Z");
            }
            *base += value;
        }
        path(svg, &format!("fill=\"{}\"", colour(part)), &data);
    }
    for (at, label) in labels.iter().enumerate() {
        words(svg, "", frame.left + 4.0, TOP + (at as f64 + TEXT) * height, &shortened(label));
    }
}

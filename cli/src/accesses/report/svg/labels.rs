//! Chooses labels of the x axis that do not overlap, as `labels.js` does.

use super::{Frame, WIDTH};

/// Approximate width of a letter in pixels. Digits of the wide font DejaVu Sans have this width.
pub const LETTER: f64 = 7.0;
/// Least distance between two labels, in pixels.
const SPACE: f64 = 6.0;

/// A label. Its middle is at its value, or as near to it as the picture's edges allow.
#[derive(Clone, Debug)]
pub struct Label {
    pub middle: f64,
    pub text: String,
    half: f64,
}

impl Label {
    pub fn new(frame: &Frame, at: f64, text: String) -> Label {
        let half = text.chars().count() as f64 * LETTER / 2.0;
        let middle = frame.x(at).min(WIDTH - half).max(half);
        Label { middle, text, half }
    }

    /// Whether `right`, a label further to the right, does not overlap this label.
    fn is_clear_of(&self, right: &Label) -> bool {
        self.middle + self.half + SPACE <= right.middle - right.half
    }
}

/// Every nth label, with the smallest n at which no labels overlap. `keeps_last`: the last label is
/// always chosen, and labels that would overlap it are left out. Example: of labels at 0, 10, 20
/// and 30 that are 8 pixels wide, it returns the labels at 0 and 20.
pub fn spaced(labels: &[Label], keeps_last: bool) -> Vec<Label> {
    let (regular, last) = match labels.split_last() {
        Some((last, regular)) if keeps_last => (regular, Some(last)),
        _ => (labels, None),
    };
    let chosen = |step: usize| -> Vec<Label> {
        let is_free = |label: &&Label| last.is_none_or(|last| label.is_clear_of(last));
        regular.iter().step_by(step).filter(is_free).chain(last).cloned().collect()
    };
    let is_clear =
        |labels: &Vec<Label>| labels.windows(2).all(|pair| pair[0].is_clear_of(&pair[1]));
    (1..=labels.len()).map(chosen).find(is_clear).unwrap_or_default()
}

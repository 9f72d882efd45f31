//! Colours of series, and paths.

use std::fmt::Write;

use super::COLOURS;

/// The colour of a series.
pub fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// A path with a class or fill.
pub fn path(svg: &mut String, attributes: &str, data: &str) {
    if !data.is_empty() {
        let _ = write!(svg, "<path {attributes} d=\"{data}\"/>");
    }
}

//! Writes paths in the colours of series.

use std::fmt::Write;

use super::COLOURS;

/// The colour of a series. Colours repeat after the last one.
pub fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// Writes a path. `attributes`: its class or its fill.
pub fn path(svg: &mut String, attributes: &str, data: &str) {
    if !data.is_empty() {
        let _ = write!(svg, "<path {attributes} d=\"{data}\"/>");
    }
}

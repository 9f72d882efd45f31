//! Formats a second of a capture as one line for a terminal.
//!
//! Invariant: a line is never wider than the terminal, and the part that reports losses is the last
//! to be left out.

use std::io::{self, Write};

use super::quantity::{clock, percent, scaled, with_unit};
use super::second::Second;
use hmtt_format::escape;

const BETWEEN: &str = "  ";
const RED: &str = "\x1b[1;31m";
const PLAIN: &str = "\x1b[0m";
/// Returns to the start of the line and clears it.
const REWRITE: &str = "\r\x1b[K";

/// A part of the line.
struct Part {
    text: String,
    /// Parts with the highest rank are left out first if the line is too long.
    rank: u8,
    alarming: bool,
}

/// Formats the line, at most `columns` wide. `colour`: losses are red, by ANSI escape sequences.
pub fn line(second: &Second, columns: usize, colour: bool) -> String {
    let mut parts = parts(second);
    while width(&parts) > columns && parts.len() > 1 {
        let highest = (0..parts.len()).max_by_key(|&index| parts[index].rank).unwrap_or(0);
        parts.remove(highest);
    }
    let mut left = columns;
    let mut line = String::new();
    for (index, part) in parts.iter().enumerate() {
        let between = if index == 0 { "" } else { BETWEEN };
        let text: String = between.chars().chain(part.text.chars()).take(left).collect();
        left -= text.chars().count();
        if colour && part.alarming {
            line.extend([RED, &text, PLAIN])
        } else {
            line.push_str(&text)
        }
    }
    line
}

fn width(parts: &[Part]) -> usize {
    let texts: usize = parts.iter().map(|part| part.text.chars().count()).sum();
    texts + BETWEEN.len() * parts.len().saturating_sub(1)
}

fn parts(second: &Second) -> Vec<Part> {
    let part = |rank, text: String| Part { text, rank, alarming: false };
    let Second { rates, activity, queue, .. } = second;
    let lost = !second.losses.places().is_empty();
    let mut parts = vec![
        part(2, clock(second.elapsed_seconds)),
        part(6, format!("{:.0} fps", rates.frames)),
        part(3, with_unit(rates.accesses, "acc/s")),
        part(4, with_unit(rates.access_bytes, "B/s")),
        part(5, format!("R {}", percent(second.read_share()))),
        part(8, format!("pages {}", scaled(activity.pages as f64))),
        part(9, format!("row hits {}", percent(activity.row_hit_rate))),
        Part { text: losses(second), rank: 0, alarming: lost },
    ];
    if !second.failed.is_empty() {
        let text = format!("FAILED {}", second.failed_names());
        parts.push(Part { text, rank: 1, alarming: true });
    }
    parts.push(part(10, format!("queue {}/{}", queue.batches, queue.batches_limit)));
    if second.losses.skipped_frames != 0 {
        let skipped = scaled(second.losses.skipped_frames as f64);
        parts.push(part(7, format!("statistics skipped {skipped}")));
    }
    if let Some(name) = second.file.as_ref().and_then(|file| file.file_name()) {
        let name = name.to_string_lossy();
        let name = escape::name(&name);
        let written = with_unit(second.written_bytes as f64, "B");
        parts.push(part(11, format!("{name} {written}")));
    }
    parts
}

fn losses(second: &Second) -> String {
    let places = second.losses.places();
    if places.is_empty() {
        return "lost 0".to_owned();
    }
    let places: Vec<String> =
        places.iter().map(|(place, lost)| format!("{place} {}", scaled(*lost as f64))).collect();
    format!("LOST {}", places.join(" "))
}

/// Width of the terminal on standard output or error; 80 if it is not known.
pub fn columns() -> usize {
    // `size` would start a program (`tput`) if there is no terminal.
    let size = ratatui::crossterm::terminal::window_size();
    size.ok().map(|size| usize::from(size.columns)).filter(|columns| *columns != 0).unwrap_or(80)
}

/// Replaces the line on the terminal.
///
/// # Errors
/// If the output cannot be written.
pub fn rewrite(output: &mut impl Write, second: &Second) -> io::Result<()> {
    // The last column stays free, because some terminals wrap the line when it is written.
    write!(output, "{REWRITE}{}", line(second, columns().saturating_sub(1), true))?;
    output.flush()
}

/// Clears the line, so that other text can be printed.
///
/// # Errors
/// If the output cannot be written.
pub fn clear(output: &mut impl Write) -> io::Result<()> {
    write!(output, "{REWRITE}")?;
    output.flush()
}

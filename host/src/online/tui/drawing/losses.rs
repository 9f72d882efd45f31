//! Draws the line of losses and irregularities: counts of losses are green if 0, else red.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};

use crate::online::quantity::scaled;
use crate::online::second::Second;

/// Style of a summary of all losses: green if nothing was lost, else red.
pub(super) fn style(second: &Second) -> Style {
    Style::new().fg(if second.is_well() { Color::Green } else { Color::Red })
}

pub(super) fn draw(second: &Second, frame: &mut Frame<'_>, area: Rect) {
    let losses = &second.losses;
    let mut spans = Vec::new();
    if !second.failed.is_empty() {
        let failed = format!(" FAILED {} ", second.failed_names());
        spans.push(Span::from(failed).fg(Color::Red).bold());
    }
    spans.push(Span::from(" lost").style(style(second)).bold());
    // Losses are drawn before irregularities, so that a narrow screen shows them.
    for (place, count) in [
        ("card", Some(losses.card_lost_records)),
        ("wire", Some(losses.wire_lost_frames)),
        ("kernel", losses.kernel_dropped_frames),
        ("interface", losses.interface_dropped_frames),
        ("malformed", Some(losses.malformed_frames)),
        ("accesses", Some(losses.lost_accesses)),
    ] {
        let (text, colour) = match count {
            None => ("?".to_owned(), Color::Yellow),
            Some(0) => ("0".to_owned(), Color::Green),
            Some(count) => (scaled(count as f64), Color::Red),
        };
        spans.extend([Span::from(format!(" {place} ")), Span::from(text).fg(colour)]);
    }
    for (oddity, count) in [
        ("copies", losses.duplicate_frames),
        ("reordered", losses.reordered_frames),
        ("foreign", losses.foreign_frames),
        ("strays", losses.stray_frames),
        ("restarts", losses.restarts),
        ("clock lost", losses.ddr_clock_losses),
    ] {
        if count != 0 {
            spans.push(Span::from(format!("  {oddity} {}", scaled(count as f64))).yellow());
        }
    }
    frame.render_widget(Line::from(spans), area);
}

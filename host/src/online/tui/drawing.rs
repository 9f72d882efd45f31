//! Draws a view into the cells of a frame.
//!
//! Invariant: the losses are on every screen, however small.

mod chart;
mod losses;
mod memory;

use hmtt_format::escape;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{LineGauge, Paragraph};

use super::view::View;
use crate::online::quantity::{clock, percent, scaled, with_unit};
use crate::online::second::Second;
use crate::online::status;

/// Number of rows below which only the status line is drawn.
const LEAST_ROWS: u16 = 8;
/// Number of columns below which only the status line is drawn.
const LEAST_COLUMNS: u16 = 40;
/// Smallest number of rows at which pages and banks are drawn below the chart.
const ROWS_FOR_MEMORY: u16 = 18;
/// Smallest number of columns at which banks are drawn beside the pages.
const COLUMNS_FOR_BANKS: u16 = 76;
const COLUMNS_OF_BANKS: u16 = 34;
const KEYS: &str = " q quit  p pause  \u{2190}\u{2192} unit  tab order of pages";

const READ: Color = Color::Cyan;
const WRITE: Color = Color::Magenta;

impl View {
    /// Draws the whole screen.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let Some(second) = self.second() else {
            frame.render_widget(Paragraph::new("waiting for the first second"), area);
            return;
        };
        if area.height < LEAST_ROWS || area.width < LEAST_COLUMNS {
            let line = status::line(second, usize::from(area.width), false);
            frame.render_widget(Paragraph::new(line).style(losses::style(second)), area);
            return;
        }
        let memory_rows = if area.height >= ROWS_FOR_MEMORY {
            Constraint::Fill(1)
        } else {
            Constraint::Length(0)
        };
        let [title, chart, split, memory, losses, receiver, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
            memory_rows,
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(1),
        ])
        .areas(area);
        frame.render_widget(self.title(second), title);
        self.draw_chart(frame, chart);
        draw_split(second, frame, split);
        if area.height >= ROWS_FOR_MEMORY {
            self.draw_memory(second, frame, memory);
        }
        losses::draw(second, frame, losses);
        frame.render_widget(receiver_line(second), receiver);
        frame.render_widget(Line::from(KEYS).dim(), keys);
    }

    fn title(&self, second: &Second) -> Line<'static> {
        let rates = &second.rates;
        let mut spans = vec![
            Span::from(format!(" {} ", escape::name(&second.interfaces.join(" ")))).bold(),
            Span::from(clock(second.elapsed_seconds)),
            Span::from(format!("  {:.0} fps", rates.frames)),
            Span::from(format!("  {}", with_unit(rates.accesses, "acc/s"))).bold(),
            Span::from(format!("  {}", with_unit(rates.access_bytes, "B/s"))),
        ];
        if self.is_paused() {
            spans.insert(1, Span::from(" PAUSED ").black().on_yellow());
            spans.insert(2, Span::from(" "));
        }
        Line::from(spans)
    }

    fn draw_memory(&self, second: &Second, frame: &mut Frame<'_>, area: Rect) {
        if area.width < COLUMNS_FOR_BANKS || second.activity.banks.is_empty() {
            memory::draw_pages(self, second, frame, area);
            return;
        }
        let [pages, banks] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(COLUMNS_OF_BANKS)])
                .areas(area);
        memory::draw_pages(self, second, frame, pages);
        memory::draw_banks(second, frame, banks);
    }
}

fn draw_split(second: &Second, frame: &mut Frame<'_>, area: Rect) {
    let share = second.read_share();
    let writes = percent(share.map(|share| 1.0 - share));
    let gauge = LineGauge::default()
        .ratio(share.unwrap_or(0.0).clamp(0.0, 1.0))
        .label(format!(" reads {}  writes {writes}", percent(share)))
        .filled_style(Style::new().fg(READ))
        .unfilled_style(Style::new().fg(if share.is_some() { WRITE } else { Color::DarkGray }));
    frame.render_widget(gauge, area);
}

fn receiver_line(second: &Second) -> Line<'static> {
    let queue = second.queue;
    let full = queue.batches * 2 > queue.batches_limit;
    let mut spans = vec![
        Span::from(" queue "),
        Span::from(format!("{}/{}", queue.batches, queue.batches_limit)).fg(if full {
            Color::Red
        } else {
            Color::Green
        }),
        Span::from(format!("  written {}", with_unit(second.written_bytes as f64, "B"))),
    ];
    if let Some(file) = &second.file {
        spans.push(Span::from(format!("  {}", escape::name(&file.to_string_lossy()))));
    }
    if second.losses.skipped_frames != 0 {
        let skipped = scaled(second.losses.skipped_frames as f64);
        spans.push(Span::from(format!("  statistics skipped {skipped} frames")).yellow());
    }
    Line::from(spans)
}

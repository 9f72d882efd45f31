//! Draws a chart of the rates of the last minutes.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType};

use crate::online::quantity::with_unit;
use crate::online::tui::view::{HISTORY, View};

/// Smallest time span of the chart, in seconds.
const LEAST_SECONDS: f64 = 60.0;

impl View {
    pub(super) fn draw_chart(&self, frame: &mut Frame<'_>, area: Rect) {
        let rates = self.rates();
        let first = rates.first().map_or(0.0, |(seconds, _)| *seconds);
        let back = (-first).clamp(LEAST_SECONDS, HISTORY as f64);
        let most = ceiling(rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max));
        let data = Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(Color::Green))
            .data(&rates);
        let unit = self.unit.name();
        let labels = |share: f64| with_unit(most * share, unit);
        let chart = Chart::new(vec![data])
            .block(Block::bordered().title(format!(" {unit} ")))
            .x_axis(
                Axis::default()
                    .bounds([-back, 0.0])
                    .labels([format!("-{back:.0} s"), "now".to_owned()]),
            )
            .y_axis(Axis::default().bounds([0.0, most]).labels([
                labels(0.0),
                labels(0.5),
                labels(1.0),
            ]));
        frame.render_widget(chart, area);
    }
}

/// Rounds `value` up to 1, 2 or 5 times a power of 10, so that the axis does not change with every
/// value.
fn ceiling(value: f64) -> f64 {
    let mut step = 1.0;
    while step < 1e18 {
        for factor in [1.0, 2.0, 5.0] {
            if value <= step * factor {
                return step * factor;
            }
        }
        step *= 10.0;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in [(0.0, 1.0), (1.0, 1.0), (1.1, 2.0), (30e6, 50e6), (81_274.0, 100e3)] {
            assert_eq!(ceiling(value), end);
        }
        assert_eq!(ceiling(1e30), 1e30);
    }
}

//! Draws tables of hot pages and banks, with bars.

use hmtt_format::escape;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Row, Table};

use crate::online::quantity::{percent, scaled};
use crate::online::second::Second;
use crate::online::tui::view::{Order, View};

const BORDERS: u16 = 2;
/// Width of the bar of a page, in columns. A column has eight steps.
const PAGE_BAR: usize = 16;
/// Width of the bar of a bank, in columns.
const BANK_BAR: usize = 8;

pub(super) fn draw_pages(view: &View, second: &Second, frame: &mut Frame<'_>, area: Rect) {
    let memory = &second.activity;
    let pages = view.hot_pages();
    let most = pages.iter().map(|page| page.accesses).max().unwrap_or(0);
    let several = second.interfaces.len() > 1;
    let rows = pages.iter().map(|page| {
        let interface = second.interfaces.get(page.link).filter(|_| several);
        Row::new([
            interface.map(|name| escape::name(name).to_string()).unwrap_or_default(),
            format!("{:>10}", page.address.to_string()),
            format!("{:>7}", scaled(page.accesses as f64)),
            bar(page.accesses, most, PAGE_BAR),
        ])
    });
    let order = if view.order == Order::Address { "by address" } else { "by accesses" };
    let title = format!(" hot pages {order}, of {} touched ", scaled(memory.pages as f64));
    let widths = [
        Constraint::Length(if several { 8 } else { 0 }),
        Constraint::Length(10),
        Constraint::Length(7),
        Constraint::Length(PAGE_BAR as u16),
    ];
    let table = Table::new(rows, widths).block(Block::bordered().title(title));
    frame.render_widget(table.style(Style::new().fg(Color::Reset)), area);
}

pub(super) fn draw_banks(second: &Second, frame: &mut Frame<'_>, area: Rect) {
    let banks = &second.activity.banks;
    let most = banks.iter().map(|bank| bank.slice.accesses).max().unwrap_or(0);
    let fitting = usize::from(area.height.saturating_sub(BORDERS));
    let rows = banks.iter().take(fitting).map(|bank| {
        Row::new([
            format!("{}.{:<2}", bank.rank, bank.bank),
            format!("{:>6}", scaled(bank.slice.accesses as f64)),
            bar(bank.slice.accesses, most, BANK_BAR),
            format!("{:>5}", percent(bank.slice.hit_rate())),
        ])
    });
    let hits = percent(second.activity.row_hit_rate);
    let mut block = Block::bordered().title(format!(" banks, row hits {hits} "));
    let hidden = banks.len().saturating_sub(fitting);
    if hidden != 0 {
        block = block.title_bottom(Line::from(format!(" {hidden} more ")).dim());
    }
    let widths = [
        Constraint::Length(5),
        Constraint::Length(6),
        Constraint::Length(BANK_BAR as u16),
        Constraint::Length(5),
    ];
    frame.render_widget(Table::new(rows, widths).block(block), area);
}

/// Draws the share of `value` in `most` as a bar of at most `columns` columns. Example: 4 of 8 in 2
/// columns is one full column.
fn bar(value: u64, most: u64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] =
        ["", "\u{258f}", "\u{258e}", "\u{258d}", "\u{258c}", "\u{258b}", "\u{258a}", "\u{2589}"];
    if most == 0 {
        return String::new();
    }
    let share = value as f64 / most as f64;
    let eighths = ((share * columns as f64 * 8.0).round() as usize).min(columns * 8);
    "\u{2588}".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(8, 8, 2), "██");
        assert_eq!(bar(4, 8, 2), "█");
        assert_eq!(bar(1, 16, 2), "▏");
        assert_eq!(bar(0, 8, 2), "");
        assert_eq!(bar(0, 0, 2), "");
    }
}

//! Tests the full screen, drawn into cells instead of a terminal.

use hmtt_host::online::tui::{Key, Request, View};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use crate::online::{failing, golden, lossy, second};

/// Returns a view after some minutes with a rate that rises and falls.
fn view() -> View {
    let mut view = View::default();
    for elapsed in 600..=727u32 {
        let mut second = second(elapsed.into());
        let wave = 0.6 + 0.4 * (f64::from(elapsed) / 12.0).sin();
        second.rates.accesses *= if elapsed == 727 { 1.0 } else { wave };
        view.push(second);
    }
    view
}

fn draw(view: &View, columns: u16, rows: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    terminal
}

fn text(view: &View, columns: u16, rows: u16) -> String {
    draw(view, columns, rows).backend().to_string()
}

/// Returns the colours of the cells that show `text`, which must occur once.
fn colours(terminal: &Terminal<TestBackend>, text: &str) -> Vec<Color> {
    let buffer = terminal.backend().buffer();
    let cells: Vec<_> = buffer.content().iter().collect();
    let length = text.chars().count();
    let matches: Vec<_> = cells
        .windows(length)
        .filter(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>() == text)
        .collect();
    assert_eq!(matches.len(), 1, "{text:?} in\n{}", terminal.backend());
    matches[0].iter().map(|cell| cell.fg).collect()
}

#[test]
fn a_wide_screen_shows_everything() {
    golden("online-tui-wide", &text(&view(), 110, 32));
}

#[test]
fn a_small_screen_omits_what_does_not_fit() {
    golden("online-tui-80x24", &text(&view(), 80, 24));
    golden("online-tui-narrow", &text(&view(), 50, 12));
    golden("online-tui-tiny", &text(&view(), 34, 3));
}

#[test]
fn names_cannot_move_the_cursor() {
    let mut view = view();
    let mut second = failing(728);
    second.interfaces = vec!["e\x1b[2J".into(), "f\x1b[3J".into()];
    second.activity.hot_pages[0].link = 1;
    second.file = Some("g\x1b[4J".into());
    view.push(second);
    let shown = text(&view, 110, 32);
    for name in [r"e\u{1b}[2J", r"f\u{1b}[3J", r"g\u{1b}[4J"] {
        assert!(shown.contains(name), "{name} in\n{shown}");
    }
    // The column of the hot pages is narrow.
    assert!(shown.contains(r"f\u{1b}[ "), "{shown}");
}

#[test]
fn losses_are_red_and_their_absence_is_green() {
    let mut view = view();
    let before = draw(&view, 110, 32);
    assert_eq!(colours(&before, "wire 0")[5], Color::Green);
    view.push(lossy(728));
    let after = draw(&view, 110, 32);
    assert_eq!(colours(&after, "wire 12")[5..], [Color::Red; 2]);
    assert_eq!(colours(&after, "reordered 4")[10], Color::Yellow);
    golden("online-tui-losses", &after.backend().to_string());
    let tiny = draw(&view, 34, 3);
    assert_eq!(colours(&tiny, "LOST")[0], Color::Red);
}

#[test]
fn an_interface_that_failed_is_red_before_all_losses() {
    let mut view = view();
    view.push(failing(728));
    let wide = draw(&view, 110, 32);
    assert_eq!(colours(&wide, "FAILED eth2  lost"), [Color::Red; 17]);
    assert_eq!(colours(&wide, "wire 0")[5], Color::Green);
    let tiny = draw(&view, 34, 3);
    assert_eq!(colours(&tiny, "lost 0  FAILED eth2")[0], Color::Red);
}

#[test]
fn keys_switch_units_and_orders_and_back() {
    let mut view = view();
    let accesses = text(&view, 110, 32);
    assert_eq!(view.key(Key::NextUnit), Request::None);
    let bytes = text(&view, 110, 32);
    assert!(bytes.contains(" B/s ") && !accesses.contains(" B/s ─"), "{bytes}");
    view.key(Key::PreviousUnit);
    assert_eq!(text(&view, 110, 32), accesses);
    (0..3).for_each(|_| _ = view.key(Key::NextUnit));
    assert_eq!(text(&view, 110, 32), accesses);
    view.key(Key::NextOrder);
    assert!(text(&view, 110, 32).contains("by address"));
    view.key(Key::NextOrder);
    assert_eq!(text(&view, 110, 32), accesses);
    assert_eq!(view.key(Key::Quit), Request::Stop);
}

#[test]
fn a_paused_display_does_not_change_until_it_continues() {
    let mut view = view();
    let mut running = view.clone();
    view.key(Key::Pause);
    let paused = text(&view, 110, 32);
    assert!(paused.contains("PAUSED"), "{paused}");
    for elapsed in 728..740 {
        view.push(lossy(elapsed));
        running.push(lossy(elapsed));
    }
    assert_eq!(text(&view, 110, 32), paused);
    view.key(Key::Pause);
    assert_eq!(text(&view, 110, 32), text(&running, 110, 32));
}

proptest! {
    #[test]
    fn a_screen_of_any_size_shows_losses(columns in 1u16..200, rows in 1u16..60, seconds in 1u64..400) {
        let mut view = View::default();
        prop_assert!(text(&view, columns, rows).len() > 1);
        (1..=seconds).for_each(|elapsed| view.push(lossy(elapsed)));
        let terminal = draw(&view, columns, rows);
        let red = terminal.backend().buffer().content().iter().any(|cell| cell.fg == Color::Red);
        prop_assert!(red, "{}", terminal.backend());
    }
}

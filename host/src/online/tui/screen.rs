//! The terminal: keys to requests, a view to what is seen.
//!
//! Invariant: whatever ends the program but a signal that kills, the terminal is as it was before.

use std::io::{self, IsTerminal};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};

use super::view::{Key, Request, View};
use crate::online::second::Second;

/// A full screen, until it is dropped.
#[derive(Debug)]
pub struct Screen {
    terminal: DefaultTerminal,
    view: View,
}

impl Screen {
    /// Takes the terminal that standard output is, and sees to it that a panic gives it back. An error
    /// if it is none.
    pub fn open() -> io::Result<Self> {
        if !io::stdout().is_terminal() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "standard output is not a terminal",
            ));
        }
        let terminal = ratatui::try_init()?;
        let mut screen = Screen { terminal, view: View::default() };
        screen.draw()?;
        Ok(screen)
    }

    /// Shows a second.
    pub fn show(&mut self, second: Second) -> io::Result<()> {
        self.view.push(second);
        self.draw()
    }

    /// Waits for keys, at most `timeout`, and does what they mean.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Request> {
        if !poll(timeout)? {
            return Ok(Request::None);
        }
        let request = match read()? {
            Event::Key(event) => key_of(event).map_or(Request::None, |key| self.view.key(key)),
            // The terminal has another size.
            _ => Request::None,
        };
        self.draw()?;
        Ok(request)
    }

    fn draw(&mut self) -> io::Result<()> {
        self.terminal.draw(|frame| self.view.draw(frame)).map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // In a panic that has been done, and a second time would lose what was printed since.
        if !std::thread::panicking() {
            ratatui::restore();
        }
    }
}

/// What a key means. In raw mode Ctrl-C is a key like any other.
fn key_of(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    match event.code {
        KeyCode::Char('c' | 'd') if control => Some(Key::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('p' | ' ') => Some(Key::Pause),
        KeyCode::Right | KeyCode::Up => Some(Key::NextUnit),
        KeyCode::Left | KeyCode::Down => Some(Key::PreviousUnit),
        KeyCode::Tab | KeyCode::BackTab => Some(Key::NextOrder),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_c_quits_though_the_terminal_sends_no_signal() {
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(key_of(control_c), Some(Key::Quit));
        assert_eq!(key_of(KeyCode::Char('q').into()), Some(Key::Quit));
        assert_eq!(key_of(KeyCode::Char('c').into()), None);
        let released = KeyEvent { kind: KeyEventKind::Release, ..control_c };
        assert_eq!(key_of(released), None);
    }
}

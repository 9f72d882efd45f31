//! The terminal: keys to requests, a view to what is seen.
//!
//! Invariant: whatever ends the program but a signal that kills, the terminal is as it was before. A
//! terminal that is gone (its window closed, its connection cut) is asked and told nothing: crossterm
//! would read its end for ever.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::view::{Key, Request, View};
use crate::online::second::Second;

/// A full screen, until it is dropped.
#[derive(Debug)]
pub struct Screen {
    terminal: Option<DefaultTerminal>,
    /// Where keys come from, as crossterm has it, and where the view goes.
    ends: [OwnedFd; 2],
    /// A key was read, and crossterm may hold more that came with it.
    more: bool,
    view: View,
}

impl Screen {
    /// Says whether there is a terminal that [`Screen::open`] could take.
    pub fn check() -> io::Result<()> {
        Self::ends().map(drop)
    }

    /// Where keys come from, and where the screen is.
    fn ends() -> io::Result<[OwnedFd; 2]> {
        if !io::stdout().is_terminal() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "standard output is not a terminal",
            ));
        }
        let keys = match io::stdin() {
            stdin if stdin.is_terminal() => rustix::io::dup(&stdin)?,
            _ => File::open("/dev/tty")?.into(),
        };
        Ok([keys, rustix::io::dup(io::stdout())?])
    }

    /// Takes the terminal that standard output is, and sees to it that a panic gives it back. An error
    /// if it is none.
    pub fn open() -> io::Result<Self> {
        let ends = Self::ends()?;
        let terminal = Some(ratatui::try_init()?);
        let mut screen = Screen { terminal, ends, more: false, view: View::default() };
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
        // All waiting is done here: what hangs up within crossterm's `poll` would never come out of it.
        let asked = if self.more { Duration::ZERO } else { timeout };
        let is_worth_a_look = self.await_input(asked)? || self.more;
        if !is_worth_a_look || self.is_gone() {
            return Ok(Request::None);
        }
        self.more = poll(Duration::ZERO)?;
        if !self.more {
            // Crossterm is told of input once, and may have left some.
            sleep(timeout);
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

    /// Whether the terminal is gone. Nothing more can be shown, and nobody can press a key.
    pub fn is_gone(&self) -> bool {
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let mut ends = self.ends.each_ref().map(|end| PollFd::new(end, PollFlags::empty()));
        let asked = rustix::event::poll(&mut ends, Some(&Timespec::default()));
        asked.is_ok() && ends.iter().any(|end| end.revents().intersects(gone))
    }

    /// Whether there may be something for crossterm to take: input, or a signal that says the
    /// terminal's size is another.
    fn await_input(&self, timeout: Duration) -> io::Result<bool> {
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut keys = [PollFd::new(&self.ends[0], PollFlags::IN)];
        match rustix::event::poll(&mut keys, Some(&timeout)) {
            Ok(ready) => Ok(ready != 0),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let Screen { terminal: Some(terminal), view, .. } = self else { return Ok(()) };
        let drawn = terminal.draw(|frame| view.draw(frame)).map(|_| ());
        // Who shows asks whether the terminal is gone.
        drawn.or_else(|error| if self.is_gone() { Ok(()) } else { Err(error) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_gone() {
            // At its end it would show the cursor, and complain on a standard error that is gone, too.
            std::mem::forget(self.terminal.take());
        } else if !std::thread::panicking() {
            // In a panic that has been done, and a second time would lose what was printed since.
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

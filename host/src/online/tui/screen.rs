//! Controls the terminal: reads keys and shows the view.
//!
//! Invariant: however the program ends, except by SIGKILL, the terminal is restored. A terminal
//! that is gone (its window closed, its connection lost) is not read or written any more: crossterm
//! would read its end of file for ever.

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

/// The full screen of a terminal, which is restored on drop.
#[derive(Debug)]
pub struct Screen {
    terminal: Option<DefaultTerminal>,
    /// The descriptor from which crossterm reads keys, then the descriptor to which the view is
    /// written.
    ends: [OwnedFd; 2],
    /// Set after a key was read: crossterm may have buffered further keys.
    more: bool,
    view: View,
}

impl Screen {
    /// Checks whether there is a terminal for [`Screen::open`].
    ///
    /// # Errors
    /// If standard output is not a terminal, or keys cannot be read.
    pub fn check() -> io::Result<()> {
        Self::ends().map(drop)
    }

    /// Opens the descriptors for keys and for the screen.
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

    /// Switches the terminal on standard output to the full screen, and installs a panic hook that
    /// restores it.
    ///
    /// # Errors
    /// If standard output is not a terminal, or the terminal cannot be set up.
    pub fn open() -> io::Result<Self> {
        let ends = Self::ends()?;
        let terminal = Some(ratatui::try_init()?);
        let mut screen = Screen { terminal, ends, more: false, view: View::default() };
        screen.draw()?;
        Ok(screen)
    }

    /// Adds a second to the view and draws it.
    ///
    /// # Errors
    /// If the terminal cannot be written.
    pub fn show(&mut self, second: Second) -> io::Result<()> {
        self.view.push(second);
        self.draw()
    }

    /// Waits for a key, at most `timeout`, and handles it.
    ///
    /// # Errors
    /// If the terminal cannot be read or written.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Request> {
        // Waits here and not in crossterm's `poll`, which never returns if the terminal hangs up
        // during the call.
        let asked = if self.more { Duration::ZERO } else { timeout };
        let may_have_input = self.await_input(asked)? || self.more;
        if !may_have_input || self.is_gone() {
            return Ok(Request::None);
        }
        self.more = poll(Duration::ZERO)?;
        if !self.more {
            // Crossterm reports input that it has left unread only when new input arrives. The
            // pause avoids a busy loop until then.
            sleep(timeout);
            return Ok(Request::None);
        }
        let request = match read()? {
            Event::Key(event) => {
                key_from_event(event).map_or(Request::None, |key| self.view.key(key))
            }
            // The size of the terminal has changed.
            _ => Request::None,
        };
        self.draw()?;
        Ok(request)
    }

    /// Whether the terminal is gone.
    pub fn is_gone(&self) -> bool {
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let mut ends = self.ends.each_ref().map(|end| PollFd::new(end, PollFlags::empty()));
        let asked = rustix::event::poll(&mut ends, Some(&Timespec::default()));
        asked.is_ok() && ends.iter().any(|end| end.revents().intersects(gone))
    }

    /// Waits for input, or for a signal such as SIGWINCH. Returns whether crossterm may have an
    /// event.
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
        // The caller checks whether the terminal is gone.
        drawn.or_else(|error| if self.is_gone() { Ok(()) } else { Err(error) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_gone() {
            // Dropping the terminal would write to it, and print an error on a standard error that
            // may be gone too.
            std::mem::forget(self.terminal.take());
        } else if !std::thread::panicking() {
            // In a panic the hook has restored the terminal already. A second restore would erase
            // the text that was printed since.
            ratatui::restore();
        }
    }
}

/// Maps a key event to a key. In raw mode the terminal sends no signal for Ctrl-C, so it is handled
/// here.
fn key_from_event(event: KeyEvent) -> Option<Key> {
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
        assert_eq!(key_from_event(control_c), Some(Key::Quit));
        assert_eq!(key_from_event(KeyCode::Char('q').into()), Some(Key::Quit));
        assert_eq!(key_from_event(KeyCode::Char('c').into()), None);
        let released = KeyEvent { kind: KeyEventKind::Release, ..control_c };
        assert_eq!(key_from_event(released), None);
    }
}

//! Serves all connections to the metrics on one thread, with `poll`.
//!
//! Invariant: no client makes another one wait, and at most [`MAX_CONNECTIONS`] connections are
//! open. A further connection closes the oldest one, which has waited longest for its client.

use std::collections::VecDeque;
use std::io::{self, PipeReader};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Shared;
use super::connection::{Connection, Event};

/// Largest number of open connections.
pub(super) const MAX_CONNECTIONS: usize = 32;
/// Pause after a failed accept, such as for too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// Accepts connections and answers them.
pub(super) struct Server<'a> {
    listener: TcpListener,
    /// Pipe whose other end is closed to stop the server.
    stop: PipeReader,
    shared: &'a Shared,
    /// Open connections, the oldest first.
    connections: VecDeque<Connection>,
    /// Time before which no connection is accepted.
    paused_until: Option<Instant>,
}

impl<'a> Server<'a> {
    pub fn new(listener: TcpListener, stop: PipeReader, shared: &'a Shared) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let connections = VecDeque::new();
        Ok(Server { listener, stop, shared, connections, paused_until: None })
    }

    /// Serves until the server is stopped, or `poll` fails.
    pub fn run(mut self) {
        while let Some((accepts, ready)) = self.wait() {
            self.advance(&ready);
            self.give_up_overdue();
            if accepts {
                self.accept();
            }
        }
    }

    /// Waits for events. Returns whether a connection can be accepted, and for each open connection
    /// whether it is ready; `None` if the server must stop.
    fn wait(&mut self) -> Option<(bool, Vec<bool>)> {
        let now = Instant::now();
        self.paused_until = self.paused_until.filter(|until| *until > now);
        let listens = if self.paused_until.is_none() { PollFlags::IN } else { PollFlags::empty() };
        let mut waited =
            vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.listener, listens)];
        let open = self.connections.iter();
        waited.extend(open.map(|open| PollFd::new(&open.stream, open.awaited())));
        let deadlines = self.connections.iter().map(|open| open.deadline);
        let next = deadlines.chain(self.paused_until).min();
        let timeout =
            next.and_then(|next| Timespec::try_from(next.saturating_duration_since(now)).ok());
        match poll(&mut waited, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
        let happened: Vec<bool> = waited.iter().map(|fd| !fd.revents().is_empty()).collect();
        match happened[..] {
            [false, accepts, ref ready @ ..] => Some((accepts, ready.to_vec())),
            _ => None,
        }
    }

    fn advance(&mut self, ready: &[bool]) {
        let metrics = self.shared.text();
        let mut ready = ready.iter().copied();
        let counts = &self.shared.connections;
        self.connections.retain_mut(|connection| {
            if !ready.next().unwrap_or(false) {
                return true;
            }
            let event = connection.advance(&metrics);
            match event {
                Event::Waits => return true,
                Event::Answered => counts.answered.add(1),
                Event::Left => counts.left.add(1),
            }
            false
        });
    }

    fn give_up_overdue(&mut self) {
        let now = Instant::now();
        while self.connections.front().is_some_and(|oldest| oldest.deadline <= now) {
            self.give_up_oldest();
        }
    }

    fn give_up_oldest(&mut self) {
        let counts = &self.shared.connections;
        match self.connections.pop_front() {
            Some(oldest) if oldest.is_answered() => counts.answered.add(1),
            Some(_) => counts.given_up.add(1),
            None => {}
        }
    }

    /// Accepts one connection only: open connections are served before the next accept.
    fn accept(&mut self) {
        match self.listener.accept().and_then(|(stream, _)| Connection::new(stream)) {
            Ok(connection) => {
                if self.connections.len() >= MAX_CONNECTIONS {
                    self.give_up_oldest();
                }
                self.connections.push_back(connection);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                self.shared.connections.failed.add(1);
                self.paused_until = Some(Instant::now() + PAUSE);
            }
        }
    }
}

//! Serves one client's connection without blocking: reads the request and writes the answer as the
//! socket allows.
//!
//! Invariant: a connection ends after [`CLIENT_TIMEOUT`] whatever the client does, and uses no more
//! memory than the longest request and one answer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::http::{self, MAX_REQUEST_BYTES, Progress};

/// Time within which a client must send its request and read its answer.
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);

/// What the connection waits for.
#[derive(Debug)]
enum State {
    /// The rest of the request.
    Request(Vec<u8>),
    /// Space in the socket buffer for the rest of the answer; the number is the bytes already sent.
    Answer(Vec<u8>, usize),
    /// The client's close. Closing a socket with unread bytes sends a reset, after which the
    /// client's kernel may discard the answer.
    Close,
}

/// Result of advancing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The connection is still open.
    Waits,
    /// The client has its answer.
    Answered,
    /// The client closed before it had its answer.
    Left,
}

/// A client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub stream: TcpStream,
    state: State,
    pub deadline: Instant,
    /// Number of bytes after the request, which are read and discarded.
    surplus: usize,
}

impl Connection {
    /// Takes an accepted connection.
    ///
    /// # Errors
    /// If the socket cannot be made non-blocking.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let deadline = Instant::now() + CLIENT_TIMEOUT;
        Ok(Connection { stream, state: State::Request(Vec::new()), deadline, surplus: 0 })
    }

    /// Events of the socket that the connection waits for.
    pub fn awaited(&self) -> PollFlags {
        match self.state {
            State::Request(_) | State::Close => PollFlags::IN,
            State::Answer(..) => PollFlags::OUT,
        }
    }

    /// Whether the answer was sent completely.
    pub fn is_answered(&self) -> bool {
        matches!(self.state, State::Close)
    }

    /// Reads and writes as much as the socket allows. `metrics`: text of the answer.
    pub fn advance(&mut self, metrics: &str) -> Event {
        let advanced = match &mut self.state {
            State::Request(_) => self.read(metrics),
            State::Answer(..) => self.write(),
            State::Close => self.drain(),
        };
        match advanced {
            Ok(event) => event,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Event::Waits,
            Err(error) if error.kind() == ErrorKind::Interrupted => Event::Waits,
            Err(_) if self.is_answered() => Event::Answered,
            Err(_) => Event::Left,
        }
    }

    fn read(&mut self, metrics: &str) -> io::Result<Event> {
        let State::Request(request) = &mut self.state else { return Ok(Event::Waits) };
        let mut buffer = [0; 1024];
        let count = self.stream.read(&mut buffer)?;
        request.extend_from_slice(&buffer[..count]);
        let answer = match http::progress(request, count) {
            Progress::Whole(end) => http::answer(&request[..end], metrics),
            Progress::Partial if count != 0 => return Ok(Event::Waits),
            Progress::Partial if request.is_empty() => return Ok(Event::Left),
            refused => http::refuse(&refused),
        };
        self.state = State::Answer(answer, 0);
        self.write()
    }

    fn write(&mut self) -> io::Result<Event> {
        let State::Answer(answer, sent) = &mut self.state else { return Ok(Event::Waits) };
        while *sent < answer.len() {
            match self.stream.write(&answer[*sent..])? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => *sent += count,
            }
        }
        self.state = State::Close;
        self.stream.shutdown(Shutdown::Write)?;
        self.drain()
    }

    fn drain(&mut self) -> io::Result<Event> {
        let mut buffer = [0; 1024];
        // A client that keeps sending after its answer is closed.
        while self.surplus <= MAX_REQUEST_BYTES {
            match self.stream.read(&mut buffer)? {
                0 => return Ok(Event::Answered),
                count => self.surplus += count,
            }
        }
        Ok(Event::Answered)
    }
}

//! One client's connection, never waited for: its request is taken and its answer given as it lets us.
//!
//! Invariant: a connection ends after [`PATIENCE`] whatever the client does, and holds no more memory than
//! the longest request and one answer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::http::{self, MAX_REQUEST_BYTES, Progress};

/// How long a client may take from the connection until it has its answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// What is awaited.
#[derive(Debug)]
enum State {
    /// The rest of the request.
    Request(Vec<u8>),
    /// Room for the rest of the answer, of which this much was sent.
    Answer(Vec<u8>, usize),
    /// That the client closes: to close with bytes unread would make its kernel discard the answer.
    Close,
}

/// How a connection went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It is still open.
    Waits,
    /// The client has its answer.
    Answered,
    /// The client left before it had.
    Left,
}

/// A client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub stream: TcpStream,
    state: State,
    pub deadline: Instant,
    /// Bytes that came after the request, which are read and forgotten.
    surplus: usize,
}

impl Connection {
    /// Takes a connection that was accepted.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let deadline = Instant::now() + PATIENCE;
        Ok(Connection { stream, state: State::Request(Vec::new()), deadline, surplus: 0 })
    }

    /// What it waits for.
    pub fn awaited(&self) -> PollFlags {
        match self.state {
            State::Request(_) | State::Close => PollFlags::IN,
            State::Answer(..) => PollFlags::OUT,
        }
    }

    /// Whether the client has its answer, and only its closing is awaited.
    pub fn is_answered(&self) -> bool {
        matches!(self.state, State::Close)
    }

    /// Goes on as far as the client lets us. `metrics`: what there is to tell.
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
        // No client sends without end to be told nothing more.
        while self.surplus <= MAX_REQUEST_BYTES {
            match self.stream.read(&mut buffer)? {
                0 => return Ok(Event::Answered),
                count => self.surplus += count,
            }
        }
        Ok(Event::Answered)
    }
}

//! Attaches to a server under load again and again: it answers each request as if it were alone.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{COMMANDS, command, end_of};
use crate::{from_environment, skipped};

/// Attachments of each command, unless the environment has another number.
const ATTACHMENTS: u64 = 2;
/// How long a command is attached.
const ATTACHED: Duration = Duration::from_millis(150);
/// Connections that send requests at the same time.
const CLIENTS: u64 = 3;

/// A server with a socket in a folder. It is ended if a test fails.
pub struct Server(pub Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts `redis-server` by a command whose last word is its name, and waits until it listens.
    pub fn start(mut command: Command, folder: &Path, socket: &Path) -> Self {
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]);
        command.arg(socket).arg("--dir").arg(folder).stdout(Stdio::null());
        let mut server = Server(command.spawn().unwrap());
        while UnixStream::connect(socket).is_err() {
            assert!(server.0.try_wait().unwrap().is_none(), "redis-server has ended");
            std::thread::yield_now();
        }
        server
    }
}

/// Tells all clients to end, also if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends requests, and checks each answer, until something is over. Returns the number of answers.
fn check_answers(socket: &Path, client: u64, is_over: &AtomicBool) -> u64 {
    let mut requests = UnixStream::connect(socket).unwrap();
    requests.set_read_timeout(Some(super::LIMIT)).unwrap();
    let mut answers = BufReader::new(requests.try_clone().unwrap());
    let mut check = |request: String, expected: &[String]| {
        requests.write_all(request.as_bytes()).unwrap();
        for line in expected {
            let mut answer = String::new();
            answers.read_line(&mut answer).unwrap();
            assert_eq!(answer.trim_end(), line, "{request:?}");
        }
        expected.len() as u64
    };
    let (mut number, mut count) = (0u64, 0);
    while !is_over.load(Ordering::Relaxed) {
        number += 1;
        let value = format!("{number:x}").repeat(number as usize % 40 + 1);
        count += check(format!("INCR n{client}\r\n"), &[format!(":{number}")]);
        count += check(format!("SET v{client} {value}\r\n"), &["+OK".into()]);
        let answer = [format!("${}", value.len()), value];
        count += check(format!("GET v{client}\r\n"), &answer);
        count += check(format!("LPUSH l{client} {number}\r\n"), &[format!(":{number}")]);
    }
    count
}

/// Attaches to a process and detaches from it, by a signal and by `detach` in turn.
fn attach_and_detach(words: &[&str], pid: Pid, number: u64) {
    let case = format!("{words:?}, attachment {number}");
    let name = format!("endured-server-{}", words[0]);
    let attached = command(words, "attach", &name).arg(pid.to_string()).spawn().unwrap();
    std::thread::sleep(ATTACHED);
    if number.is_multiple_of(2) {
        let _ = kill(Pid::from_raw(attached.id().cast_signed()), Signal::SIGINT);
    } else {
        let detached = crate::hmtt(&[words[0], "detach", &pid.to_string()]);
        // It may not have attached yet.
        if !detached.status.success() {
            let _ = kill(Pid::from_raw(attached.id().cast_signed()), Signal::SIGINT);
        }
    }
    let (status, error) = end_of(attached, &case);
    assert!(matches!(status.code(), Some(0 | 3)), "{case}: {status}: {error}");
}

#[test]
fn a_server_answers_all_requests_while_commands_attach_and_detach() {
    if let Err(error) = Command::new("redis-server").arg("--version").output() {
        return skipped(format!("redis-server: {error}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let mut server = Server::start(Command::new("redis-server"), folder.path(), &socket);
    let pid = Pid::from_raw(server.0.id().cast_signed());
    let is_over = AtomicBool::new(false);
    let times = from_environment("HMTT_LONG_ATTACHMENTS").unwrap_or(ATTACHMENTS);
    let answers: u64 = std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|client| {
            let (socket, is_over) = (&socket, &is_over);
            scope.spawn(move || check_answers(socket, client, is_over))
        });
        let clients: Vec<_> = clients.collect();
        let over = Over(&is_over);
        for commands in COMMANDS {
            for number in 0..times {
                attach_and_detach(commands[0], pid, number);
            }
        }
        drop(over);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    println!("{answers} answers");
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

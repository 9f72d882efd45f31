//! One HTTP connection to its answer: a request of bounded size, in bounded time, then it is closed.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::TEXT_FORMAT;

/// How long a client may take for a request, and for an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of the longest request line with headers; Prometheus sends a few hundred.
const MAX_REQUEST_BYTES: usize = 8192;
const PLAIN: &str = "text/plain; charset=utf-8";

struct Answer {
    status: &'static str,
    content_type: &'static str,
    /// More header lines, each with its end.
    headers: &'static str,
    body: Arc<str>,
    head_only: bool,
}

/// Reads a request and answers it. `metrics`: what there is to tell.
pub(super) fn answer(mut stream: TcpStream, metrics: impl Fn() -> Arc<str>) -> io::Result<()> {
    let request = request(&mut stream)?;
    let answer = judge(request.as_deref(), metrics);
    stream.set_write_timeout(Some(PATIENCE))?;
    let Answer { status, content_type, headers, body, head_only } = answer;
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         {headers}Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    if !head_only {
        stream.write_all(body.as_bytes())?;
    }
    // To close with bytes unread would make the client's kernel discard the answer.
    stream.shutdown(Shutdown::Write)?;
    stream.read(&mut [0; MAX_REQUEST_BYTES]).map(|_| ())
}

/// The request up to the end of its headers; `None` if it is too long, or ends before.
fn request(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while request.len() <= MAX_REQUEST_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(None);
        }
        request.extend_from_slice(&buffer[..count]);
        if request.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(request));
        }
    }
    Ok(None)
}

fn judge(request: Option<&[u8]>, metrics: impl Fn() -> Arc<str>) -> Answer {
    let plain = |status: &'static str| Answer {
        status,
        content_type: PLAIN,
        headers: "",
        body: format!("{status}\n").into(),
        head_only: false,
    };
    let line = request.and_then(|request| request.split(|byte| *byte == b'\r').next());
    let Some(line) = line.and_then(|line| std::str::from_utf8(line).ok()) else {
        return plain("400 Bad Request");
    };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return plain("400 Bad Request");
    };
    if !version.starts_with("HTTP/1.") {
        return plain("505 HTTP Version Not Supported");
    }
    let head_only = method == "HEAD";
    if !head_only && method != "GET" {
        return Answer { headers: "Allow: GET, HEAD\r\n", ..plain("405 Method Not Allowed") };
    }
    // A query asks for nothing that would differ.
    if target.split('?').next() != Some("/metrics") {
        return Answer { head_only, ..plain("404 Not Found") };
    }
    Answer { status: "200 OK", content_type: TEXT_FORMAT, headers: "", body: metrics(), head_only }
}

//! Parses HTTP requests and builds the answers. Uses no sockets.
//!
//! Answers GET and HEAD of `/metrics` if the Host header names this machine. A web page of another
//! site can have its own name resolved to 127.0.0.1 (DNS rebinding), and a browser on this machine
//! would let the page read the answer. The Host header of such a request has the name of the other
//! site, so the request is rejected.

use std::net::IpAddr;

use prometheus::TEXT_FORMAT;

/// Largest size of request line and headers, in bytes; Prometheus sends a few hundred.
pub(super) const MAX_REQUEST_BYTES: usize = 8192;
const PLAIN: &str = "text/plain; charset=utf-8";
const END: &[u8] = b"\r\n\r\n";

/// Which part of a request has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The headers are not complete.
    Partial,
    /// The headers are complete and end at this byte.
    Whole(usize),
    /// The headers are longer than [`MAX_REQUEST_BYTES`].
    TooLong,
}

/// Determines which part of a request has arrived. The last `new` bytes of `request` have not been
/// examined before.
pub(super) fn progress(request: &[u8], new: usize) -> Progress {
    let from = request.len().saturating_sub(new + END.len() - 1);
    let end = request[from..].windows(END.len()).position(|bytes| bytes == END);
    match end.map(|end| from + end) {
        Some(end) if end + END.len() <= MAX_REQUEST_BYTES => Progress::Whole(end),
        None if request.len() < MAX_REQUEST_BYTES => Progress::Partial,
        _ => Progress::TooLong,
    }
}

/// Builds the answer to a request whose headers do not end, because it is too long or the client
/// has closed.
pub(super) fn refuse(progress: &Progress) -> Vec<u8> {
    match progress {
        Progress::TooLong => error("431 Request Header Fields Too Large", ""),
        _ => error("400 Bad Request", ""),
    }
}

/// Builds the answer to a request. `request`: its bytes up to the end of its headers. `metrics`:
/// text of the answer.
pub(super) fn answer(request: &[u8], metrics: &str) -> Vec<u8> {
    let Some((line, headers)) = std::str::from_utf8(request).ok().map(split_line) else {
        return error("400 Bad Request", "");
    };
    let words: Vec<&str> = line.split(' ').collect();
    let &[method, target, version] = &words[..] else { return error("400 Bad Request", "") };
    if !version.starts_with("HTTP/1.") {
        return error("505 HTTP Version Not Supported", "");
    }
    match is_this_machine(headers, version) {
        Some(true) => {}
        Some(false) => return error("421 Misdirected Request", ""),
        None => return error("400 Bad Request", ""),
    }
    // The answer does not depend on the query.
    let is_metrics = target.split('?').next() == Some("/metrics");
    match (method, is_metrics) {
        ("GET", true) => message("200 OK", TEXT_FORMAT, "", metrics, metrics),
        ("HEAD", true) => message("200 OK", TEXT_FORMAT, "", metrics, ""),
        ("GET" | "HEAD", false) => error("404 Not Found", ""),
        _ => error("405 Method Not Allowed", "Allow: GET, HEAD\r\n"),
    }
}

fn split_line(request: &str) -> (&str, &str) {
    request.split_once("\r\n").unwrap_or((request, ""))
}

/// Whether the Host header names this machine, by a loopback address or as `localhost`. `None` if
/// there are several Host headers or none. HTTP/1.0 does not require the header, so a request of
/// that version may have none: then the result is true.
fn is_this_machine(headers: &str, version: &str) -> Option<bool> {
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim().to_owned())
    };
    let mut hosts = headers.split("\r\n").filter_map(header);
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(is_loopback(&host)),
        (None, _) if version == "HTTP/1.0" => Some(true),
        _ => None,
    }
}

/// Whether a host, with an optional port, is this machine without a name server being asked.
fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_local = bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_local && port.bytes().all(|byte| byte.is_ascii_digit())
}

fn error(status: &str, headers: &str) -> Vec<u8> {
    let body = format!("{status}\n");
    message(status, PLAIN, headers, &body, &body)
}

/// Builds a message. Content-Length is the length of `body`. `sent`: the part of the body that is
/// sent (nothing for HEAD).
fn message(status: &str, content_type: &str, headers: &str, body: &str, sent: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         {headers}Connection: close\r\n\r\n"
    );
    [head.as_bytes(), sent.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_a_host() {
        for host in ["localhost", "LOCALHOST:9464", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:80"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example"] {
            assert!(!is_loopback(host), "{host}");
        }
        for host in ["192.168.1.2", "0.0.0.0", "[::]:80", "localhost:x", "127.1", "a@localhost"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn the_end_of_a_request_is_found_however_it_is_cut() {
        let whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nmore";
        let end = whole.len() - 8;
        for first in 0..whole.len() {
            let status = progress(&whole[..first], first);
            if first >= end + 4 {
                assert_eq!(status, Progress::Whole(end))
            } else {
                assert_eq!(status, Progress::Partial);
                assert_eq!(progress(whole, whole.len() - first), Progress::Whole(end));
            }
        }
        assert_eq!(progress(&[b'a'; MAX_REQUEST_BYTES], 1), Progress::TooLong);
        let late = [&[b'a'; MAX_REQUEST_BYTES][..], END].concat();
        assert_eq!(progress(&late, late.len()), Progress::TooLong);
    }
}

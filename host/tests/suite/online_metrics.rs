//! Tests the Prometheus metrics over real connections.

use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use hmtt_host::online::metrics::{Metrics, MetricsError, parse_address, text};
use hmtt_test_support::names::assert_documented;

use crate::online::{activity, golden, snapshot};

/// Time after which a test fails.
const HANG: Duration = Duration::from_secs(60);

fn serve() -> Metrics {
    Metrics::serve(parse_address("127.0.0.1:0").unwrap()).unwrap()
}

/// Sends a request; returns head and body of the answer.
fn ask(address: SocketAddr, request: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    (head.to_owned(), body.to_owned())
}

fn get(address: SocketAddr, target: &str) -> (String, String) {
    ask(address, format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
}

#[test]
fn a_client_receives_the_metrics_and_nothing_else() {
    let metrics = serve();
    let address = metrics.address();
    metrics.update(&snapshot(3), &activity(3));
    let (head, body) = get(address, "/metrics");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    assert!(body.starts_with(&text(&snapshot(3), &activity(3))), "{body}");
    metrics.update(&snapshot(4), &activity(4));
    let (_, body) = get(address, "/metrics?at=once");
    assert!(body.starts_with(&text(&snapshot(4), &activity(4))), "{body}");
    let (head, body) = ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.is_empty(), "{head} {body}");
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n"[..], "404 Not Found"),
        (b"GET /metrics/../metrics HTTP/1.0\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nhost:127.0.0.1:80\r\n\r\n", "405 Method Not Allowed"),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421 Misdirected Request"),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics HTTP/2\r\n\r\n", "505 HTTP Version Not Supported"),
        (b"GET /metrics\r\n\r\n", "400 Bad Request"),
        (b"\xff\xfe \x00 HTTP/1.1\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\n", "400 Bad Request"),
    ] {
        let (head, _) = ask(address, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{head}");
    }
}

#[test]
fn an_endless_request_is_closed_and_the_next_client_served() {
    let metrics = serve();
    metrics.update(&snapshot(1), &activity(1));
    let mut endless = TcpStream::connect(metrics.address()).unwrap();
    let mut refused = false;
    for _ in 0..10_000 {
        refused = refused || endless.write_all(&[b'a'; 1024]).is_err();
    }
    assert!(refused, "10 MB of request were taken");
    assert!(get(metrics.address(), "/metrics").0.starts_with("HTTP/1.1 200 OK"));
}

fn is_served(address: SocketAddr) -> bool {
    get(address, "/metrics").0.starts_with("HTTP/1.1 200 OK")
}

/// Whether the server closed the connection of a client that sent no request.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(HANG)).unwrap();
    match stream.read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// A server that served clients one after the other would make the good client wait for the silent
/// ones.
#[test]
fn silent_clients_do_not_delay_others() {
    let metrics = serve();
    metrics.update(&snapshot(1), &activity(1));
    let address = metrics.address();
    let mut silent: Vec<TcpStream> =
        (0..10).map(|_| TcpStream::connect(address).unwrap()).collect();
    for half in &mut silent[5..] {
        half.write_all(b"GET /metrics HTTP/1.1\r\nHost: loc").unwrap();
    }
    assert!(is_served(address));
    for open in &mut silent {
        // The silent connections are still open: the good client was served before their timeout.
        open.set_nonblocking(true).unwrap();
        assert_eq!(open.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        open.set_nonblocking(false).unwrap();
    }
    assert!(silent.iter_mut().all(is_closed));
}

#[test]
fn a_client_that_reads_nothing_is_closed_and_does_not_delay_others() {
    let metrics = serve();
    let mut wide = snapshot(1);
    // This is more than the buffers of both sides hold.
    wide.links = (0..12_000).map(|_| wide.links[0].clone()).collect();
    metrics.update(&wide, &activity(1));
    let mut slow = TcpStream::connect(metrics.address()).unwrap();
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (head, body) = get(metrics.address(), "/metrics");
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    std::thread::sleep(Duration::from_secs(4));
    slow.set_read_timeout(Some(HANG)).unwrap();
    let mut printed = Vec::new();
    let _ = slow.read_to_end(&mut printed);
    assert!(printed.len() < body.len(), "all {} bytes waited for it", printed.len());
}

/// Each connection beyond the limit closes the oldest one, so threads and descriptors do not grow.
#[test]
fn many_clients_are_limited_and_the_latest_is_served() {
    let metrics = serve();
    metrics.update(&snapshot(1), &activity(1));
    let address = metrics.address();
    let mut silent: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(is_served(address));
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten().filter(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "metrics\n")
    });
    // This includes threads of other tests in this process.
    assert!(threads.count() <= 20);
    assert!(silent[..100].iter_mut().all(is_closed));
    metrics.update(&snapshot(1), &activity(1));
    let (_, printed) = get(address, "/metrics");
    let given_up = "hmtt_metrics_connections_total{result=\"given_up\"} ";
    let count = printed.split(given_up).nth(1).and_then(|rest| rest.lines().next());
    assert!(count.unwrap().parse::<u64>().unwrap() >= 100, "{printed}");
}

#[test]
fn long_headers_and_invalid_requests_are_rejected() {
    let metrics = serve();
    metrics.update(&snapshot(1), &activity(1));
    let long = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(9000));
    let (head, _) = ask(metrics.address(), long.as_bytes());
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
    let garbage: Vec<u8> = (0..4000u32).map(|at| (at * at >> 3) as u8).collect();
    let (head, _) = ask(metrics.address(), &[&garbage[..], b"\r\n\r\n"].concat());
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    assert!(is_served(metrics.address()));
}

#[test]
fn a_dropped_server_stops_listening() {
    let metrics = serve();
    let address = metrics.address();
    drop(metrics);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn only_numeric_loopback_addresses_are_accepted() {
    for address in ["127.0.0.1:9464", "127.1.2.3:1", "[::1]:9464"] {
        assert!(parse_address(address).is_ok(), "{address}");
    }
    for name in ["localhost:9464", "9464", ":9464", "127.0.0.1", "example.org:80", ""] {
        assert!(matches!(parse_address(name), Err(MetricsError::NotNumeric(_))), "{name}");
    }
    for outside in ["0.0.0.0:9464", "[::]:9464", "192.168.1.2:9464", "[::ffff:127.0.0.1]:1"] {
        let error = parse_address(outside).unwrap_err();
        assert!(matches!(error, MetricsError::NotLoopback(_)), "{outside}: {error}");
        let address = outside.parse().unwrap();
        assert!(matches!(Metrics::serve(address), Err(MetricsError::NotLoopback(_))), "{outside}");
    }
}

#[test]
fn an_address_in_use_is_an_error() {
    let metrics = serve();
    assert!(matches!(Metrics::serve(metrics.address()), Err(MetricsError::Listen { .. })));
}

#[test]
fn names_and_types_are_accepted_by_promtool() {
    let mut snapshot = snapshot(727);
    let mut second = snapshot.links[0].clone();
    second.interface = "a \"quoted\"\nname\\".into();
    second.statistics.kernel_dropped_frames = None;
    second.failed = Some("it is gone".into());
    snapshot.links.push(second);
    let printed = text(&snapshot, &activity(727));
    golden("online-metrics", &printed);
    let mut types = HashMap::new();
    let mut helped = HashSet::new();
    let mut samples = HashSet::new();
    for line in printed.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(helped.insert(name) && !help.is_empty(), "second or empty help: {line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(types.insert(name, kind).is_none(), "second type: {line}");
            assert!(helped.contains(name), "no help: {line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            assert!(name.starts_with("hmtt_"), "{line}");
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            assert!(samples.insert(sample), "second sample: {line}");
            let name = sample.split('{').next().unwrap();
            assert!(types.contains_key(name), "no type: {line}");
            assert!(value.parse::<f64>().unwrap() >= 0.0, "{line}");
        }
    }
    assert!(printed.contains("hmtt_frames_total{interface=\"eth1\"} 59086198\n"));
    assert!(printed.contains("{interface=\"a \\\"quoted\\\"\\nname\\\\\"} "));
    let known =
        printed.lines().filter(|line| line.starts_with("hmtt_kernel_dropped_frames_total{"));
    assert_eq!(known.count(), 1, "what is not known is not printed");
    let names = types.keys().map(|name| name.strip_prefix("hmtt_").unwrap());
    assert_documented("metrics", names.map(|name| name.trim_end_matches("_total")));
    let labels = samples.iter().filter_map(|sample| sample.split_once('{')).map(|(_, rest)| rest);
    let labels = labels.flat_map(|rest| rest.split(',')).filter_map(|one| one.split_once("=\""));
    assert_documented("labels of metrics", labels.map(|(label, _)| label));
}

//! The metrics a Prometheus server would scrape, over real connections.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use hmtt_host::online::metrics::{Metrics, MetricsError, parse_address, text};

use crate::online::{activity, golden, snapshot};

fn serve() -> Metrics {
    Metrics::serve(parse_address("127.0.0.1:0").unwrap()).unwrap()
}

/// Head and body of the answer.
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
fn a_client_is_told_the_metrics_and_nothing_else() {
    let metrics = serve();
    let address = metrics.address();
    metrics.update(&snapshot(3), &activity(3));
    let (head, body) = get(address, "/metrics");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    assert_eq!(body, text(&snapshot(3), &activity(3)));
    metrics.update(&snapshot(4), &activity(4));
    assert_eq!(get(address, "/metrics?at=once").1, text(&snapshot(4), &activity(4)));
    let (head, body) = ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.is_empty(), "{head} {body}");
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404 Not Found"),
        (b"GET /metrics/../metrics HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
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
fn a_request_without_end_is_cut_off_and_the_next_client_served() {
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

#[test]
fn a_silent_client_keeps_others_waiting_for_a_bounded_time_only() {
    let metrics = serve();
    metrics.update(&snapshot(1), &activity(1));
    let silent = TcpStream::connect(metrics.address()).unwrap();
    assert!(get(metrics.address(), "/metrics").0.starts_with("HTTP/1.1 200 OK"));
    drop(silent);
}

#[test]
fn a_server_that_is_dropped_listens_no_longer() {
    let metrics = serve();
    let address = metrics.address();
    drop(metrics);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn only_loopback_addresses_in_numbers_are_listened_on() {
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
fn names_and_types_are_as_promtool_wants_them() {
    let mut snapshot = snapshot(727);
    let mut second = snapshot.links[0].clone();
    second.interface = "a \"quoted\"\nname\\".into();
    second.statistics.kernel_drops = None;
    second.failed = Some("it is gone".into());
    snapshot.links.push(second);
    let told = text(&snapshot, &activity(727));
    golden("online-metrics", &told);
    let mut types = HashMap::new();
    let mut helped = HashSet::new();
    let mut samples = HashSet::new();
    for line in told.lines() {
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
    assert!(told.contains("hmtt_frames_total{interface=\"eth1\"} 59086198\n"));
    assert!(told.contains("{interface=\"a \\\"quoted\\\"\\nname\\\\\"} "));
    let known = told.lines().filter(|line| line.starts_with("hmtt_kernel_dropped_frames_total{"));
    assert_eq!(known.count(), 1, "what is not known is not told");
}

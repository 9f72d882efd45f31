//! Tests `hmtt-recv` on a real interface: a veth pair in user and network namespaces, where no
//! privilege is needed. The tests are reported as skipped if namespaces are not allowed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hmtt::pcapng::{InterfaceStatistics, PcapngReader};
use hmtt_host::capture::Interface;
use hmtt_test_support::names::assert_json_documented;
use pnet_datalink::{Channel, Config};
use serde_json::Value;

use crate::card::Card;
use crate::{capture_file, scratch, skipped};

/// Creates two pairs of interfaces, a receiver that reports when it listens, and senders on the
/// other ends. Every wait ends: the receiver stops by itself, and waiting for it fails when it has
/// ended.
const SCRIPT: &str = r#"
set -e
for pair in "veth0 veth1" "veth2 veth3"; do
    set -- $pair "$@"
    ip link add $1 type veth peer name $2
    for interface in $1 $2; do
        sysctl -qw net.ipv6.conf.$interface.disable_ipv6=1 2>/dev/null || true
        ip link set $interface up
    done
    shift 2
done
eval "$PREPARE"
"$RECV" "$@" 2>"$LOG" &
receiver=$!
trap 'kill $receiver 2>/dev/null || true' EXIT
until grep -q '^capturing on' "$LOG"; do
    kill -0 $receiver || { cat "$LOG" >&2; exit 99; }
    sleep 0.02
done
send() {
    FRAMES="$1" CARD="${2:-veth0}" "$SEND" --ignored --exact live::sender_process >&2
}
eval "$PLAY"
status=0; wait $receiver || status=$?
eval "$AFTER"
cat "$LOG" >&2
exit $status
"#;

/// Environment variable with the capture to send, in the sending process of a test.
const FRAMES: &str = "FRAMES";
/// Environment variable with the frames per second; without it frames are sent as fast as possible.
pub const PACE: &str = "PACE";

/// The result of a receiver.
pub struct Received {
    pub status: i32,
    /// The last line that the receiver printed.
    pub summary: Value,
    /// All lines before the last one.
    pub seconds: Vec<Value>,
    pub log: String,
    pub file: PathBuf,
}

/// Shell commands that run around a receiver.
#[derive(Clone, Copy, Default)]
pub struct Play<'a> {
    /// Commands before the receiver starts.
    pub prepare: &'a str,
    /// Commands while it listens; `send FILE [IFACE]` sends a capture.
    pub play: &'a str,
    /// Commands after it has ended.
    pub after: &'a str,
}

/// Returns why namespaces cannot be created here, or `None` if they can.
fn no_namespaces() -> Option<String> {
    let attempt = Command::new("unshare")
        .args(["-Urn", "ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1"])
        .output();
    match attempt {
        Err(error) => Some(format!("unshare: {error}")),
        Ok(output) if !output.status.success() => {
            Some(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
        Ok(_) => None,
    }
}

/// Shell command that sends all frames.
pub const SEND_ALL: &str = r#"send "$ALL""#;

/// Runs `play` during a receiver on veth1 with these arguments; `None` if the test is skipped.
pub fn receive(name: &str, frames: &[Vec<u8>], play: &str, extra: &[&str]) -> Option<Received> {
    let file = scratch(&format!("{name}.pcapng"));
    let arguments = [&["veth1", "--json", "-w", file.to_str().unwrap()], extra].concat();
    let play = Play { play, ..Play::default() };
    perform(name, frames, play, &arguments).map(|received| Received { file, ..received })
}

/// Runs shell commands around a receiver with these arguments; `None` if the test is skipped.
pub fn perform(
    name: &str,
    frames: &[Vec<u8>],
    play: Play<'_>,
    arguments: &[&str],
) -> Option<Received> {
    if let Some(reason) = no_namespaces() {
        skipped(reason);
        return None;
    }
    Some(perform_in("-Urnm", name, frames, play, arguments))
}

/// As `perform`, but as root of the machine, who knows other users; `None` if the test is skipped.
pub fn perform_as_root(
    name: &str,
    frames: &[Vec<u8>],
    play: Play<'_>,
    arguments: &[&str],
) -> Option<Received> {
    if !is_root() {
        skipped("only root of the machine can become another user");
        return None;
    }
    if let Some(reason) = no_namespaces() {
        skipped(reason);
        return None;
    }
    Some(perform_in("-nm", name, frames, play, arguments))
}

/// Whether the process is root in a user namespace that has more users than root.
fn is_root() -> bool {
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let has_users = users.split_whitespace().nth(2).is_some_and(|count| count != "1");
    nix::unistd::geteuid().is_root() && has_users
}

fn perform_in(
    namespaces: &str,
    name: &str,
    frames: &[Vec<u8>],
    play: Play<'_>,
    arguments: &[&str],
) -> Received {
    // If a test sends twice, the second part is short enough for any ring.
    let second = frames.len().saturating_sub(20);
    let whole = capture_file(&format!("{name}-sent.pcapng"), frames);
    let first = capture_file(&format!("{name}-sent-1.pcapng"), &frames[..second]);
    let last = capture_file(&format!("{name}-sent-2.pcapng"), &frames[second..]);
    let log = scratch(&format!("{name}.log"));
    std::fs::write(&log, "").unwrap();
    let output = Command::new("unshare")
        .args([namespaces, "bash", "-c", SCRIPT, "bash", "-a", "duration:60"])
        .args(arguments)
        .env("RECV", env!("CARGO_BIN_EXE_hmtt-recv"))
        .env("SEND", std::env::current_exe().unwrap())
        .env("PREPARE", play.prepare)
        .env("PLAY", play.play)
        .env("AFTER", play.after)
        .env("ALL", whole)
        .env("FIRST", first)
        .env("LAST", last)
        .env("LOG", &log)
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut seconds: Vec<Value> =
        printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    seconds.iter().for_each(|line| assert_json_documented("hmtt-recv --json", line));
    let summary = seconds.pop().unwrap_or(Value::Null);
    let status = output.status.code().unwrap();
    Received { status, summary, seconds, log, file: PathBuf::new() }
}

/// Reads the frames of a finished capture.
pub fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let (frames, statistics) = content_of(path);
    let statistics = statistics.expect("statistics at the end");
    assert!(statistics.received_frames.unwrap() >= frames.len() as u64);
    frames
}

fn content_of(path: &Path) -> (Vec<Vec<u8>>, Option<InterfaceStatistics>) {
    let mut reader = PcapngReader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        frames.push(packet.bytes.to_vec());
    }
    assert_eq!(reader.interfaces()[0].name.as_deref(), Some("veth1"));
    (frames, reader.interfaces()[0].statistics)
}

pub fn session(frames: usize) -> Vec<Vec<u8>> {
    Card::new().session(frames, 370).0
}

/// The software card, which runs as a separate process in the namespace.
#[test]
#[ignore = "the sending half of the other tests"]
fn sender_process() {
    let Some(file) = std::env::var_os(FRAMES) else { return };
    let interface = Interface::find(&std::env::var("CARD").unwrap()).unwrap();
    let Channel::Ethernet(mut sender, _) = interface.open_channel(Config::default()).unwrap()
    else {
        panic!("not an Ethernet interface")
    };
    let pace: Option<u32> = std::env::var(PACE).ok().map(|pace| pace.parse().unwrap());
    let mut reader = PcapngReader::open(Path::new(&file)).unwrap();
    let (begin, mut sent) = (Instant::now(), 0);
    while let Some(packet) = reader.next_packet().unwrap() {
        sender.send_to(packet.bytes, None).unwrap().unwrap();
        sent += 1;
        if let Some(pace) = pace.filter(|_| sent % 64 == 0) {
            let due = Duration::from_secs(1) * sent / pace;
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
        }
    }
    // The test harness captures what `eprintln` writes.
    let took = begin.elapsed().as_millis();
    writeln!(std::io::stderr(), "sent {sent} frames in {took} ms").unwrap();
}

#[test]
fn every_frame_of_a_real_interface_is_in_the_file() {
    let frames = session(5000);
    let Some(received) = receive("live-all", &frames, SEND_ALL, &["--until-end"]) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(frames_of(&received.file) == frames, "{}", received.log);
    let expected = [
        ("frames", 5002),
        ("accesses", 5000 * 370),
        ("kernel_dropped_frames", 0),
        ("interface_dropped_frames", 0),
        ("wire_lost_frames", 0),
    ];
    for (name, count) in expected {
        assert_eq!(received.summary[name], count, "{name}");
    }
}

#[test]
fn lost_copied_and_reordered_frames_on_a_real_interface_are_counted() {
    let mut frames = session(1000);
    frames.swap(900, 905);
    frames.swap(300, 301);
    let copy = frames[500].clone();
    frames.insert(503, copy);
    let mut foreign = frames[10].clone();
    foreign[5] ^= 1;
    frames.insert(20, foreign);
    frames[700][15] = 188;
    frames.drain(100..107);
    let Some(received) = receive("live-loss", &frames, SEND_ALL, &["--until-end"]) else { return };
    assert_eq!(received.status, 3, "{}", received.log);
    assert!(frames_of(&received.file) == frames, "{}", received.log);
    let expected = [
        ("captured_frames", frames.len() as u64),
        ("missing_frames", 7),
        ("duplicate_frames", 1),
        // 900 and 905 are swapped, so 901 to 904 and 900 arrive after 905.
        ("reordered_frames", 1 + 5),
        ("foreign_frames", 1),
        ("malformed_frames", 1),
        ("lost_accesses", 8 * 370),
        ("accesses", (1000 - 8) * 370),
        ("restarts", 0),
        ("gap_count", 2),
    ];
    for (name, count) in expected {
        assert_eq!(received.summary[name], count, "{name}\n{}", received.log);
    }
}

#[test]
fn an_interrupted_receiver_writes_what_has_arrived() {
    let frames = session(2000);
    let play = r#"send "$ALL"; kill -INT $receiver"#;
    let Some(received) = receive("live-interrupt", &frames, play, &[]) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(frames_of(&received.file) == frames, "{}", received.log);
}

#[test]
fn a_receiver_stops_after_the_given_number_of_frames() {
    let frames = session(100);
    let Some(received) = receive("live-count", &frames, SEND_ALL, &["-c", "10"]) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(frames_of(&received.file) == frames[..10], "{}", received.log);
}

#[test]
fn the_fallback_captures_every_frame() {
    let frames = session(20);
    let arguments = ["--until-end", "--fallback"];
    let Some(received) = receive("live-fallback", &frames, SEND_ALL, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(frames_of(&received.file) == frames, "{}", received.log);
    assert_eq!(received.summary["kernel_dropped_frames"], Value::Null);
}

#[test]
fn the_drops_of_the_kernel_are_the_missing_frames() {
    let frames = session(6000);
    // A stopped receiver has 9 MB for a ring of 2 MB. The pause lets the ring empty, so that the
    // last frames, including the end frames, are received.
    let play =
        r#"kill -STOP $receiver; send "$FIRST"; kill -CONT $receiver; sleep 1; send "$LAST""#;
    let arguments = ["--until-end", "--ring-mb", "2"];
    let Some(received) = receive("live-drops", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 3, "{}", received.log);
    let count = |name: &str| received.summary[name].as_u64().unwrap();
    assert!(count("kernel_dropped_frames") > 1000, "{}", received.log);
    assert_eq!(count("missing_frames"), count("kernel_dropped_frames"));
    assert_eq!(count("wire_lost_frames"), 0);
    assert_eq!(count("frames") + count("kernel_dropped_frames"), frames.len() as u64);
    assert_eq!(count("accesses") + count("lost_accesses"), 6000 * 370);
}

#[test]
fn a_killed_receiver_leaves_a_readable_capture() {
    let frames = session(3000);
    // The pause lets the receiver write. How much it wrote is not asserted.
    let play = r#"send "$ALL"; sleep 0.3; kill -KILL $receiver"#;
    let Some(received) = receive("live-killed", &frames, play, &[]) else { return };
    assert_eq!(received.status, 128 + 9, "{}", received.log);
    let (kept, _) = content_of(&received.file);
    assert!(!kept.is_empty() && kept[..] == frames[..kept.len()]);
}

#[test]
fn a_second_signal_aborts() {
    // Both signals wait until the receiver runs again, so the receiver gets the second one before
    // it has finished.
    let play = r#"kill -STOP $receiver; kill -INT $receiver; kill -TERM $receiver
        kill -CONT $receiver"#;
    let Some(received) = receive("live-abort", &session(1), play, &[]) else { return };
    assert_eq!(received.status, 1, "{}", received.log);
    assert!(!received.log.contains("hmtt-recv:"), "no error: {}", received.log);
    assert_eq!(received.summary, Value::Null);
}

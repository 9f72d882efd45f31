//! Tests `hmtt-recv` when its surroundings fail: one of several interfaces fails, or a reader
//! stalls. Runs on real interfaces in a network namespace, as in `live`.

use std::path::Path;

use hmtt::pcapng::PcapngReader;
use serde_json::Value;

use crate::live::{Play, Received, frames_of, perform, receive, session};
use crate::scratch;

/// Shell function: waits until the log has a line with this text, at most ten seconds, and prints
/// when it has.
pub const AWAIT: &str = r#"
await() {
    for _ in $(seq 500); do grep -q "$1" "$LOG" && break; sleep 0.02; done
    grep -q "$1" "$LOG" && echo "in time: $1" >&2
}
"#;

/// The frames of each of two interfaces.
type ByInterface = [Vec<Vec<u8>>; 2];

fn by_interface(file: &Path) -> ByInterface {
    let mut reader = PcapngReader::open(file).unwrap();
    let mut frames = [Vec::new(), Vec::new()];
    while let Some(packet) = reader.next_packet().unwrap() {
        frames[packet.interface].push(packet.bytes.to_vec());
    }
    frames
}

/// Captures on veth1 and veth3, and runs `failing` on veth3 between the frames of veth1.
fn one_fails(
    name: &str,
    frames: &[Vec<u8>],
    failing: &str,
) -> Option<(Received, ByInterface, String)> {
    let (file, metrics) = (scratch(&format!("{name}.pcapng")), scratch(&format!("{name}.txt")));
    let play = format!(
        r#"{AWAIT}
        send "$FIRST"; send "$FIRST" veth2
        {failing}
        await 'the other interfaces continue'
        sleep 2.2
        exec 5<>/dev/tcp/127.0.0.1/9464
        printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n' >&5; cat <&5 >'{}'
        send "$LAST""#,
        metrics.display()
    );
    let prepare = "ip link set lo up";
    let play = Play { prepare, play: &play, after: "" };
    let arguments = ["veth1", "veth3", "--json", "--until-end", "--stop-when-down"];
    let arguments = [&arguments[..], &["--metrics", "127.0.0.1:9464"]].concat();
    let arguments = [&arguments[..], &["-w", file.to_str().unwrap()]].concat();
    let received = perform(name, frames, play, &arguments)?;
    let metrics = std::fs::read_to_string(metrics).unwrap();
    Some((received, by_interface(&file), metrics))
}

#[test]
fn a_failed_interface_is_reported_at_once_and_the_others_continue() {
    let frames = session(300);
    let failing = [
        ("down", "ip link set veth3 down", "interface veth3 is down"),
        ("gone", "ip link del veth2", "interface veth3 no longer exists"),
    ];
    for (name, failing, why) in failing {
        let name = format!("one-fails-{name}");
        let Some((received, kept, metrics)) = one_fails(&name, &frames, failing) else { return };
        let Received { status, summary, seconds, log, .. } = received;
        assert_eq!(status, 1, "{log}");
        assert!(log.contains("in time: the other interfaces continue"), "{log}");
        assert_eq!(log.matches(&format!("hmtt-recv: veth3: {why}")).count(), 1, "{log}");
        assert!(log.contains(&format!("\nFAILED                    {why}")), "{log}");
        let shown = format!("hmtt-recv: not every interface was captured to the end: {why}");
        assert!(log.contains(&shown), "{log}");
        assert!(kept[0] == frames, "{log}");
        assert!(kept[1] == frames[..frames.len() - 20], "{log}");
        let last = seconds.last().expect("seconds were printed");
        assert_eq!(last["failed"][0]["interface_index"], 1, "{last}");
        let reason = last["failed"][0]["reason"].as_str().unwrap();
        assert!(reason.starts_with(why), "{last}");
        assert_eq!(last["failed"].as_array().unwrap().len(), 1, "{last}");
        assert_eq!(summary["interfaces"][0]["failed"], Value::Null);
        assert_eq!(summary["interfaces"][1]["failed"], reason);
        assert!(metrics.contains("hmtt_interface_up{interface=\"veth1\"} 1\n"), "{metrics}");
        assert!(metrics.contains("hmtt_interface_up{interface=\"veth3\"} 0\n"), "{metrics}");
    }
}

#[test]
fn the_last_interface_that_fails_ends_the_capture() {
    let frames = session(50);
    let file = scratch("all-fail.pcapng");
    let play = format!(
        r#"{AWAIT}
        send "$ALL" veth2; ip link set veth3 down; await 'the other interfaces continue'
        send "$ALL"; ip link del veth0"#
    );
    let play = Play { play: &play, ..Play::default() };
    let arguments = ["veth1", "veth3", "--stop-when-down", "--json", "-w", file.to_str().unwrap()];
    let Some(received) = perform("all-fail", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 1, "{}", received.log);
    assert_eq!(
        received.log.matches("interfaces continue").count(),
        2,
        "once, and by the play: {}",
        received.log
    );
    assert!(received.log.contains("hmtt-recv: the capture ended early: "), "{}", received.log);
    let kept = by_interface(&file);
    assert!(kept[0] == frames && kept[1] == frames, "{}", received.log);
    for (link, why) in [(0, "veth1 no longer exists"), (1, "veth3 is down")] {
        let link = &received.summary["interfaces"][link];
        assert!(link["failed"].as_str().unwrap().contains(why), "{link}");
    }
}

#[test]
fn the_only_interface_going_down_ends_the_capture_with_an_error() {
    let frames = session(50);
    // The last frames are in a block that the kernel has not handed over.
    let play = r#"send "$ALL"; ip link set veth1 down"#;
    let extra = ["--stop-when-down"];
    let Some(received) = receive("live-down", &frames, play, &extra) else { return };
    assert_eq!(received.status, 1, "{}", received.log);
    let shown = "hmtt-recv: the capture ended early: interface veth1 is down";
    assert!(received.log.contains(shown), "{}", received.log);
    assert!(!received.log.contains("interfaces continue"), "{}", received.log);
    assert!(frames_of(&received.file) == frames, "{}", received.log);
    assert_eq!(received.summary["frames"], 52);
}

#[test]
fn a_removed_interface_is_not_reported_as_down() {
    for extra in [&[][..], &["--fallback"]] {
        for (failing, why) in [("del veth0", "no longer exists"), ("set veth1 down", "is down")] {
            let play = Play { play: &format!("ip link {failing}"), ..Play::default() };
            let arguments = [&["veth1", "--stop-when-down"], extra].concat();
            let Some(received) = perform("gone", &session(1), play, &arguments) else { return };
            assert_eq!(received.status, 1, "{}", received.log);
            let shown = format!("the capture ended early: interface veth1 {why}");
            assert!(received.log.contains(&shown), "{extra:?}: {}", received.log);
        }
    }
}

/// Interrupts the link of veth1, with seven frames that the card sends meanwhile.
fn interrupted(name: &str, interrupt: &str) -> Option<(Received, Vec<Vec<u8>>)> {
    let mut frames = session(300);
    let second = frames.len() - 20;
    frames.drain(second - 7..second);
    let play = format!(
        r#"{AWAIT}
        send "$FIRST"
        {interrupt}
        await 'is up again'
        send "$LAST""#
    );
    receive(name, &frames, &play, &["--until-end"]).map(|received| (received, frames))
}

#[test]
fn a_capture_goes_on_when_its_interface_is_up_again() {
    let ways = [
        ("up", "ip link set veth1 down; await 'is down'; ip link set veth1 up"),
        (
            "renamed",
            "ip link set veth1 down; await 'is down'; ip link set veth1 name lan
            ip link set lan up",
        ),
        ("quick", "ip link set veth1 down; ip link set veth1 up"),
    ];
    for (name, interrupt) in ways {
        let name = format!("interrupted-{name}");
        let Some((received, frames)) = interrupted(&name, interrupt) else { return };
        let Received { status, summary, log, file, .. } = received;
        assert_eq!(status, 3, "{log}");
        assert!(frames_of(&file) == frames, "{log}");
        assert_eq!(log.matches("hmtt-recv: veth1 was down, and is up again").count(), 1, "{log}");
        assert_eq!(log.matches("the interface was DOWN    for ").count(), 1, "{log}");
        assert_eq!((&summary["wire_lost_frames"], &summary["gap_count"]), (&7.into(), &1.into()));
        assert_eq!(summary["interface_dropped_frames"], 0, "{log}");
        let link = &summary["interfaces"][0];
        assert_eq!(link["outage_count"], 1, "{link}");
        assert!(link["outages"][0]["duration_seconds"].as_f64().is_some(), "{link}");
        assert_eq!((&link["failed"], &link["is_down"]), (&Value::Null, &Value::Null), "{link}");
    }
}

#[test]
fn an_interface_that_is_down_at_the_end_is_a_loss() {
    let frames = session(50);
    let play = format!(
        r#"{AWAIT}
        send "$FIRST"; ip link set veth1 down; await 'is down'; kill -INT $receiver"#
    );
    let Some(received) = receive("down-at-end", &frames, &play, &[]) else { return };
    assert_eq!(received.status, 3, "{}", received.log);
    assert!(received.log.contains("the interface was DOWN    to the end"), "{}", received.log);
    assert!(frames_of(&received.file) == frames[..frames.len() - 20], "{}", received.log);
    assert_eq!(received.summary["is_down"], true);
    assert_eq!(received.summary["interfaces"][0]["outages"][0]["duration_seconds"], Value::Null);
}

/// Runs a receiver whose standard output is a full pipe without a reader. `then` runs when its
/// capture is finished and copied. What is finally read from the pipe is in the second file.
fn stalled(
    name: &str,
    frames: &[Vec<u8>],
    then: &str,
    extra: &[&str],
) -> Option<(Received, String)> {
    let [file, copy, read] = ["live", "copy", "read"].map(|of| scratch(&format!("{name}-{of}")));
    let fifo = scratch(&format!("{name}.fifo"));
    let prepare = format!(
        r#"mkfifo '{fifo}'; exec 3<>'{fifo}' 6>&1; head -c 65536 /dev/zero | tr '\0' '\n' >&3
        exec >&3"#,
        fifo = fifo.display()
    );
    let play = format!(
        r#"exec >&6
        read_pipe() {{ timeout 10 cat <'{fifo}' >'{read}' & exec 3>&-; }}
        {AWAIT}
        send "$ALL"
        {then}"#,
        fifo = fifo.display(),
        read = read.display(),
    );
    let play = play
        .replace("$COPY", &copy.display().to_string())
        .replace("$FILE", &file.display().to_string());
    let play = Play { prepare: &prepare, play: &play, after: "wait" };
    let arguments = [&["veth1", "--json", "-w", file.to_str().unwrap()], extra].concat();
    let received = perform(name, frames, play, &arguments)?;
    assert!(received.log.contains("in time: frames captured in"), "{}", received.log);
    let read = std::fs::read_to_string(read).unwrap_or_default();
    Some((Received { file: copy, ..received }, read))
}

#[test]
fn a_reader_that_stalls_delays_neither_signals_nor_the_end_of_the_capture() {
    let frames = session(1000);
    // Three lines fit: one is being written, and two wait.
    let then = r#"sleep 7; kill -TERM $receiver; await 'frames captured in'
        cp '$FILE' '$COPY'; kill -0 $receiver && echo 'it waits' >&2; read_pipe"#;
    let Some((received, read)) = stalled("stalled", &frames, then, &[]) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(received.log.contains("it waits"), "{}", received.log);
    assert!(frames_of(&received.file) == frames, "{}", received.log);
    let lines: Vec<Value> = read
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [seconds @ .., summary] = &lines[..] else { panic!("{read}") };
    assert_eq!((seconds.len(), &summary["kind"]), (3, &Value::from("summary")));
    assert!(seconds.iter().all(|line| line["kind"] == "second" && line["skipped_lines"] == 0));
    assert!(summary["skipped_lines"].as_u64().unwrap() >= 1, "{summary}");
    assert_eq!(summary["frames"], frames.len());
}

#[test]
fn a_second_signal_aborts_the_wait_for_a_reader() {
    let then = r#"kill -TERM $receiver; await 'frames captured in'; cp '$FILE' '$COPY'
        sleep 0.2; kill -TERM $receiver"#;
    let frames = session(20);
    let Some((received, _)) = stalled("stalled-abort", &frames, then, &[]) else { return };
    assert_eq!(received.status, 1, "{}", received.log);
    assert!(frames_of(&received.file) == frames, "{}", received.log);
}

#[test]
fn a_signal_ends_the_wait_after_a_capture_that_ended_by_itself() {
    let then = r#"await 'frames captured in'; cp '$FILE' '$COPY'; sleep 0.2; kill -INT $receiver"#;
    let frames = session(20);
    let Some((received, _)) = stalled("stalled-ended", &frames, then, &["--until-end"]) else {
        return;
    };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(frames_of(&received.file) == frames, "{}", received.log);
}

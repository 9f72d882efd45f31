//! Tests `hmtt-recv` on a real pseudo-terminal, which `script` of util-linux creates.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hmtt_test_support::files::{scratch, skipped};
use hmtt_tests::program;

/// Escape sequences that switch to the alternate screen and back (xterm's `smcup` and `rmcup`).
const ENTER_SCREEN: &str = "\x1b[?1049h";
const LEAVE_SCREEN: &str = "\x1b[?1049l";

/// Starts a shell command in its own network namespace on a terminal; `None` if the test is
/// skipped.
fn start(words: &str) -> Option<Child> {
    let inside = format!("stty rows 24 cols 100; unshare -Urn sh -c '{words}'");
    let child = Command::new("script")
        .args(["-qec", &inside, "/dev/null"])
        .env("TERM", "xterm")
        // Standard input stays open, because `script` types Ctrl-D at its end.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    child.map_err(|error| skipped(format_args!("script: {error}"))).ok()
}

/// Returns the terminal's output; `None` if the test is skipped.
fn finish(mut child: Child) -> Option<String> {
    let open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(open);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.starts_with("unshare:") {
        skipped(text);
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{text}");
    Some(text)
}

/// Returns what a receiver writes to its terminal in a few seconds without traffic; `None` if the
/// test is skipped.
fn on_terminal(arguments: &str) -> Option<String> {
    let recv = program("hmtt-recv");
    let recv = recv.display();
    finish(start(&format!("ip link set lo up && {recv} lo {arguments}"))?)
}

#[test]
fn a_status_line_is_rewritten_and_removed() {
    let Some(text) = on_terminal("-a duration:3") else { return };
    let shown: Vec<&str> = text.split('\r').filter(|line| line.contains(" fps ")).collect();
    assert!(shown.len() >= 2, "{text:?}");
    assert!(shown[0].contains("lost 0"), "{text:?}");
    let end = text.find("frames captured in").expect("a summary");
    assert!(!text[end..].contains(" fps "), "{text:?}");
    assert!(text[end..].contains("no frames of a card arrived on lo"), "{text:?}");
    // The alternate screen is not used without `--tui`.
    assert!(!text.contains(ENTER_SCREEN), "{text:?}");
}

#[test]
fn the_full_screen_uses_the_alternate_screen_and_leaves_it() {
    let Some(text) = on_terminal("--tui -a duration:3") else { return };
    let (take, give) = (
        text.find(ENTER_SCREEN).expect("the screen is entered"),
        text.find(LEAVE_SCREEN).expect("the screen is left"),
    );
    let end = text.find("frames captured in").expect("a summary");
    assert!(take < give && give < end, "{text:?}");
    let screen = &text[take..give];
    assert!(screen.contains("lost") || screen.contains("Lost"), "{screen:?}");
}

/// The characters that Ctrl-S and Ctrl-Q send.
const STOP: &[u8] = b"\x13";
const CONTINUE: &[u8] = b"\x11";

#[test]
fn a_terminal_that_is_stopped_delays_neither_signals_nor_the_end_of_the_capture() {
    let [file, copy] = ["terminal-stopped", "terminal-stopped-copy"].map(scratch);
    // No other process may write to the terminal while it is stopped. The capture is complete when
    // its statistics are in the file.
    let words = format!(
        r#"ip link set lo up; {recv} lo -w {file} & receiver=$!
        sleep 3; kill -TERM $receiver
        for try in $(seq 80); do
            sleep 0.1
            {hmtt} info --json {file} 2>/dev/null | grep -q "\"kernel_dropped_frames\": *0" || continue
            kill -0 $receiver && cp {file} {copy}
            break
        done
        wait $receiver"#,
        recv = program("hmtt-recv").display(),
        hmtt = program("hmtt").display(),
        file = file.display(),
        copy = copy.display(),
    );
    let Some(mut child) = start(&words) else { return };
    let terminal = child.stdin.as_mut().unwrap();
    sleep(Duration::from_millis(1500));
    terminal.write_all(STOP).unwrap();
    let begin = Instant::now();
    while !copy.exists() && begin.elapsed() < Duration::from_secs(15) {
        sleep(Duration::from_millis(50));
    }
    let is_finished = copy.exists();
    // If `script` has already ended, the test is skipped.
    let _ = terminal.write_all(CONTINUE);
    let Some(text) = finish(child) else { return };
    assert!(is_finished, "the capture waited for the terminal: {text:?}");
    assert!(text.contains("frames captured in"), "{text:?}");
}

#[test]
fn a_closed_terminal_ends_the_capture_with_a_complete_file() {
    // In a session of its own the receiver gets no SIGHUP.
    for session in ["", "setsid -w"] {
        let [file, status] = ["terminal-gone", "terminal-gone-status"].map(scratch);
        let words = format!(
            r#"trap "" HUP; ip link set lo up
            timeout --foreground -s KILL 40 {session} {recv} lo --tui -w {file}
            echo $? > {status}"#,
            recv = program("hmtt-recv").display(),
            file = file.display(),
            status = status.display(),
        );
        let Some(mut child) = start(&words) else { return };
        let begin = Instant::now();
        while !file.exists() && begin.elapsed() < Duration::from_secs(10) {
            sleep(Duration::from_millis(50));
        }
        sleep(Duration::from_millis(1500));
        // `script` holds the other end of the terminal.
        child.kill().unwrap();
        child.wait().unwrap();
        if !file.exists() {
            return skipped("no receiver was started");
        }
        let ended = || std::fs::read_to_string(&status).unwrap_or_default();
        let begin = Instant::now();
        while !ended().ends_with('\n') && begin.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(50));
        }
        assert_eq!(ended(), "0\n", "{session:?}");
        let info =
            Command::new(program("hmtt")).args(["info", "--json"]).arg(&file).output().unwrap();
        // The statistics are the last block of the file. No frame of a card came, which is an
        // error.
        let text = String::from_utf8_lossy(&info.stdout);
        assert!(
            info.status.code() == Some(1) && text.contains(r#""kernel_dropped_frames":0"#),
            "{text}"
        );
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_file(&status).unwrap();
    }
}

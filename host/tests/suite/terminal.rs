//! `hmtt-recv` on a real pseudo-terminal, made by `script` of util-linux.

use std::process::{Command, Stdio};

use crate::skipped;

/// Escape sequences that take another screen and give it back (xterm's `smcup` and `rmcup`).
const TAKE: &str = "\x1b[?1049h";
const GIVE_BACK: &str = "\x1b[?1049l";

/// What a receiver wrote to its terminal in a few seconds without traffic; `None` when skipped.
fn on_terminal(arguments: &str) -> Option<String> {
    let recv = env!("CARGO_BIN_EXE_hmtt-recv");
    let inside = format!(
        "stty rows 24 cols 100; unshare -Urn sh -c 'ip link set lo up && {recv} lo {arguments}'"
    );
    let child = Command::new("script")
        .args(["-qec", &inside, "/dev/null"])
        .env("TERM", "xterm")
        // Kept open: at its end `script` would type Ctrl-D.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            skipped(format_args!("script: {error}"));
            return None;
        }
    };
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

#[test]
fn a_status_line_is_rewritten_and_taken_away() {
    let Some(text) = on_terminal("-a duration:3") else { return };
    let shown: Vec<&str> = text.split('\r').filter(|line| line.contains(" fps ")).collect();
    assert!(shown.len() >= 2, "{text:?}");
    assert!(shown[0].contains("lost 0"), "{text:?}");
    let end = text.find("frames captured in").expect("a summary");
    assert!(!text[end..].contains(" fps "), "{text:?}");
    // Nobody asked for another screen.
    assert!(!text.contains(TAKE), "{text:?}");
}

#[test]
fn the_full_screen_is_taken_shown_and_given_back() {
    let Some(text) = on_terminal("--tui -a duration:3") else { return };
    let (take, give) = (text.find(TAKE).expect("taken"), text.find(GIVE_BACK).expect("given back"));
    let end = text.find("frames captured in").expect("a summary");
    assert!(take < give && give < end, "{text:?}");
    let screen = &text[take..give];
    assert!(screen.contains("lost") || screen.contains("Lost"), "{screen:?}");
}

//! Runs the examples and checks that they print the content of a capture.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use hmtt_format::Direction;
use hmtt_format::frame::FrameKind;
use hmtt_format::record::Half;
use hmtt_test_support::captures::capture_file;
use hmtt_test_support::card::Card;

/// Returns the command for an example, which cargo builds with this test.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
    Command::new(profile.join("examples").join(name))
}

fn text(output: &Output) -> &str {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).expect("examples print text")
}

/// Writes a session of 5 frames with 100 accesses each, of which one frame was lost.
fn capture(name: &str) -> PathBuf {
    let (mut frames, _) = Card::new().session(5, 100);
    frames.remove(2);
    capture_file(name, &frames)
}

#[test]
fn read_trace_prints_accesses_gaps_and_counts() {
    let output = example("read_trace").arg(capture("read-trace")).output().unwrap();
    let lines: Vec<&str> = text(&output).lines().collect();
    assert_eq!(lines.len(), 402);
    assert_eq!(lines.iter().filter(|line| line.contains("gap 1 frames missing")).count(), 1);
    assert_eq!(lines[401], "400 accesses, 100 lost");
}

#[test]
fn writes_by_page_counts_the_writes_to_each_page() {
    let (frames, truth) = Card::new().session(5, 100);
    let capture = capture_file("writes-by-page", &frames);
    let output = example("writes_by_page").arg(capture).output().unwrap();
    let mut writes = std::collections::BTreeMap::<u64, u64>::new();
    for access in truth.iter().filter(|access| access.direction == Direction::Write) {
        *writes.entry(access.address.0 >> 12 << 12).or_default() += 1;
    }
    assert!(!writes.is_empty());
    let lines = writes.iter().map(|(page, count)| format!("{page:x}: {count}\n"));
    let expected = lines.collect::<String>() + "0 accesses are missing\n";
    assert_eq!(text(&output), expected);
}

#[test]
fn read_trace_merges_several_captures() {
    let [first, second] = ["merged-a", "merged-b"].map(capture);
    let output = example("read_trace").args([first, second]).output().unwrap();
    let lines: Vec<&str> = text(&output).lines().collect();
    for card in ["card 1: ", "card 2: "] {
        assert_eq!(lines.iter().filter(|line| line.starts_with(card)).count(), 401);
    }
    assert_eq!(lines.last(), Some(&"800 accesses, 200 lost"));
}

#[test]
fn reuse_distance_counts_each_repeated_line() {
    let mut card = Card::new();
    let info = card.info();
    // The same 50 lines twice, so that each reuse has accesses to the other 49 lines in between.
    let halves: Vec<u32> = (0..100)
        .map(|at| Half::Access { direction: Direction::Read, delta: 1, number: at % 50 }.encode())
        .collect();
    let words: Vec<u64> =
        halves.chunks(2).map(|pair| u64::from(pair[0]) << 32 | u64::from(pair[1])).collect();
    let frames = [info, card.frame(FrameKind::Data, &words)];
    let output = example("reuse_distance").arg(capture_file("reuse-distance", &frames)).output();
    assert_eq!(text(&output.unwrap()), "100 accesses to 50 lines\nbelow 63: 50\n");
}

#[test]
fn decode_frame_prints_the_items_of_one_frame() {
    let (frame, truth) = Card::new().data(3);
    let mut child = example("decode_frame")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let mut input = child.stdin.take().expect("piped");
    frame.iter().for_each(|byte| write!(input, "{byte:02x} ").expect("it reads"));
    drop(input);
    let output = child.wait_with_output().unwrap();
    let accesses = text(&output).lines().filter(|line| line.contains("Access(")).count();
    assert_eq!(accesses, truth.len());
}

#[test]
fn live_statistics_counts_a_capture_from_a_pipe() {
    let file = std::fs::File::open(capture("live-statistics")).unwrap();
    let output = example("live_statistics").stdin(file).output().unwrap();
    let last = text(&output).lines().last().unwrap_or_default().to_owned();
    assert!(last.ends_with(", 1 gaps"), "{last}");
    let numbers =
        last.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok());
    assert_eq!(numbers.take(2).sum::<u64>(), 400, "{last}");
}

#[cfg(feature = "analysis")]
#[test]
fn write_share_counts_the_writes_of_each_page() {
    let (frames, truth) = Card::new().session(5, 100);
    let output = example("write_share").arg(capture_file("write-share", &frames)).output().unwrap();
    let mut pages = std::collections::BTreeMap::<u64, [u64; 2]>::new();
    for access in truth {
        let counts = pages.entry(access.address.0 >> 12).or_default();
        counts[0] += 1;
        counts[1] += u64::from(access.direction == Direction::Write);
    }
    let line = |(page, [accesses, writes]): (&u64, &[u64; 2])| {
        let percent = 100.0 * (*writes as f64 / *accesses as f64);
        format!("page {page:x}: {percent:.1} % of its accesses are writes\n")
    };
    let expected: String = pages.iter().map(line).collect();
    assert_eq!(text(&output), expected);
}

//! Configures the card over its own bus: drives command sequences and tags as DDR reads, and checks
//! the output of `hmtt decode`.

use hmtt_format::config::{
    DEFAULT_STRIDE_LOG2, DEFAULT_TIMEOUT, FREQUENCY_ON, MARK_FREE_FIRST, MARK_KERNEL_ENTER,
    MARK_KERNEL_EXIT, MODE_PAGE, RESET, SLICE_FIRST, START, STOP, TAG_NIBBLE_FIRST, TAG_ON,
    register_address,
};
use hmtt_format::{MemoryDescription, toml_memory};
use hmtt_sim::traffic::Traffic;

use crate::captures::{comments, decode, lines, replay_file};
use crate::recording::write_vector;

/// Number of accesses that make a command.
const COUNT: usize = 32;

fn memory() -> MemoryDescription {
    let text = include_str!("../../gateware/memories/ddr1-512m.toml");
    toml_memory::parse(text).unwrap()
}

fn recorded(traffic: &Traffic, options: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (input, capture) = (folder.path().join("made_up.cmd"), folder.path().join("c.pcapng"));
    write_vector(&input, traffic);
    replay_file(&input, options, &capture);
    decode(&capture)
}

/// Returns the lines of accesses between two clocks. A READ may name any word; a burst record
/// contains the start of its burst.
fn between(traffic: &Traffic, from: u64, to: u64) -> Vec<String> {
    let inside = |clock: u64| (from..to).contains(&clock);
    let accesses = traffic.truth().iter().filter(|access| inside(access.clock.0));
    let burst = 1 << traffic.memory().burst_log2();
    accesses
        .map(|access| {
            let (clock, letter) = (access.clock, access.direction.letter());
            format!("{clock} {letter} {:x}", access.address.0 / burst * burst)
        })
        .collect()
}

/// Adds reads of one register with other traffic between them.
fn interleaved(traffic: &mut Traffic, register: u16, count: usize) {
    for step in 0..count {
        traffic.read(register_address(register, DEFAULT_STRIDE_LOG2));
        traffic.write(0x1000_0000 + step as u64 * 0x140).idle(step as u64 % 7);
    }
}

#[test]
fn marks_are_recorded_whatever_traffic_is_between_their_reads() {
    let mut traffic = Traffic::new(memory());
    interleaved(&mut traffic, MARK_KERNEL_ENTER, COUNT);
    traffic.read(0x20_0000);
    interleaved(&mut traffic, MARK_FREE_FIRST + 5, COUNT);
    interleaved(&mut traffic, MARK_KERNEL_EXIT, COUNT);
    for options in [&["--granularity", "burst"][..], &["--mode", "page"]] {
        let text = recorded(&traffic, options);
        let marks: Vec<&str> =
            comments(&text, "mark").iter().map(|mark| mark.split_once(' ').unwrap().1).collect();
        assert_eq!(marks, ["60 kernel_enter", "105 free 5", "61 kernel_exit"], "{options:?}");
    }
    let text = recorded(&traffic, &["--granularity", "burst"]);
    assert_eq!(lines(&text), between(&traffic, 0, u64::MAX));
}

#[test]
fn an_incomplete_sequence_has_no_effect() {
    let mut traffic = Traffic::new(memory());
    // The sequence is one read short. Another register follows, then the last read.
    interleaved(&mut traffic, STOP, COUNT - 1);
    traffic.read(register_address(START, DEFAULT_STRIDE_LOG2));
    interleaved(&mut traffic, STOP, COUNT - 1);
    // A pause longer than the timeout also restarts the sequence.
    traffic.idle(u64::from(DEFAULT_TIMEOUT) + 1);
    interleaved(&mut traffic, STOP, COUNT - 1);
    traffic.idle(u64::from(DEFAULT_TIMEOUT) + 1);
    traffic.read(0x123_4560);
    let text = recorded(&traffic, &["--granularity", "burst"]);
    assert_eq!(lines(&text), between(&traffic, 0, u64::MAX));
}

#[test]
fn only_accesses_between_start_and_stop_are_recorded() {
    let mut traffic = Traffic::new(memory());
    traffic.read(0x40_0000).write(0x40_0020);
    traffic.configure(STOP);
    let stopped = traffic.clocks();
    traffic.idle(3000);
    (0..50).for_each(|step| {
        traffic.read(0x80_0000 + step * 64);
    });
    traffic.configure(START);
    let started = traffic.clocks();
    (0..50).for_each(|step| {
        traffic.write(0xc0_0000 + step * 64);
    });
    let text = recorded(&traffic, &["--granularity", "burst"]);
    let mut expected = between(&traffic, 0, stopped);
    expected.extend(between(&traffic, started, u64::MAX));
    assert_eq!(lines(&text), expected);
}

#[test]
fn settings_take_effect_at_once_and_reset_restores_them() {
    let mut traffic = Traffic::new(memory());
    let page = |traffic: &mut Traffic, at: u64| {
        (0..8).for_each(|step| {
            traffic.read(at + step * 32);
        });
    };
    page(&mut traffic, 0x40_0000);
    traffic.configure(MODE_PAGE);
    let paged = traffic.clocks();
    page(&mut traffic, 0x80_0000);
    traffic.configure(RESET);
    let reset = traffic.clocks();
    page(&mut traffic, 0xc0_0000);
    let text = recorded(&traffic, &["--granularity", "burst"]);
    let text_lines = lines(&text);
    let mut expected = between(&traffic, 0, paged);
    let clocks: Vec<u64> =
        traffic.truth().iter().map(|a| a.clock.0).filter(|c| (paged..reset).contains(c)).collect();
    expected.push(format!("{} P 800000 8 0 {}", clocks[0], clocks[7] - clocks[0]));
    expected.push(format!("{} P 0 32 0 {}", clocks[8], clocks[39] - clocks[8]));
    expected.extend(between(&traffic, reset, u64::MAX));
    assert_eq!(text_lines, expected);
}

#[test]
fn single_accesses_to_the_tag_window_are_tags_in_every_mode() {
    let base = 0x1234_0000u64;
    let mut traffic = Traffic::new(memory());
    for nibble in (0..8).rev() {
        traffic.configure(TAG_NIBBLE_FIRST + (base >> (nibble * 4) & 15) as u16);
    }
    traffic.configure(TAG_ON);
    for (step, offset) in [0x8u64, 0xfff8, 0x1230].into_iter().enumerate() {
        traffic.read(0x100_0000 + step as u64 * 64);
        if step == 1 {
            traffic.write(base + offset)
        } else {
            traffic.read(base + offset)
        };
    }
    // Addresses just below and just above the window are ordinary accesses.
    traffic.read(base - 8).read(base + 0x1_0000);
    for options in [
        &["--granularity", "burst"][..],
        &["--granularity", "line"],
        &["--mode", "page"],
        &["--mode", "frequency", "--slice", "1us"],
    ] {
        let text = recorded(&traffic, options);
        let tags: Vec<&str> =
            comments(&text, "tag").iter().map(|tag| tag.split_once(' ').unwrap().1).collect();
        assert_eq!(tags, ["R 8", "W fff8", "R 1230"], "{options:?}");
    }
    // The report after the command contains the window's base, so tags are also decoded as
    // accesses.
    let text = recorded(&traffic, &["--granularity", "burst"]);
    let last: Vec<&str> = lines(&text).iter().rev().take(8).rev().copied().collect();
    let expected = ["R 1000000", "R 12340008", "R 1000040", "W 1234fff8", "R 1000080"];
    let without_clock = |line: &&str| line.split_once(' ').unwrap().1.to_string();
    assert_eq!(last.iter().map(without_clock).collect::<Vec<_>>()[..5], expected);
    assert_eq!(without_clock(&last[5]), "R 12341230");
}

#[test]
fn frequency_can_be_switched_on_beside_line_records() {
    let mut traffic = Traffic::new(memory());
    traffic.configure(SLICE_FIRST).configure(FREQUENCY_ON);
    let from = traffic.clocks();
    (0..200).for_each(|step| {
        traffic.read(0x80_0000 + step * 32);
    });
    let text = recorded(&traffic, &["--granularity", "burst"]);
    let counted: u64 = lines(&text)
        .iter()
        .filter(|line| line.contains(" F "))
        .map(|line| line.split(' ').nth(3).unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(counted, between(&traffic, from, u64::MAX).len() as u64);
}

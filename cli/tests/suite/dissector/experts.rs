//! Tests the plugin's expert infos: none for a complete capture, and one for everything that is
//! missing, reordered or damaged, whether the file is dissected in one pass or in two.

use hmtt_format::FORMAT_VERSION;
use hmtt_format::frame::Heartbeat;

use super::{MAC_BYTES, tshark};
use crate::capture_file;
use crate::card::Card;

/// Returns the numbers and texts of expert infos: once from one pass, and once from a second pass
/// after all frames are known.
fn experts(name: &str, frames: &[Vec<u8>]) -> Option<[Vec<String>; 2]> {
    let file = capture_file(&format!("expert-{name}.pcapng"), frames);
    let fields = ["-T", "fields", "-E", "separator=:", "-E", "aggregator=|"];
    let printed = |passes: &[&str]| {
        let wanted = ["-Y", "_ws.expert", "-e", "frame.number", "-e", "_ws.expert.message"];
        let text = tshark(&[passes, &fields, &wanted].concat(), &file)?;
        Some(text.lines().map(str::to_owned).collect())
    };
    Some([printed(&[])?, printed(&["-2"])?])
}

/// Checks the expert infos of a capture without those of its end frames.
fn assert_experts(name: &str, frames: &[Vec<u8>], expected: &[&str]) {
    let Some(passes) = experts(name, frames) else { return };
    for (printed, pass) in passes.iter().zip(["one pass", "two passes"]) {
        let printed: Vec<&str> = printed
            .iter()
            .map(String::as_str)
            .filter(|line| !line.ends_with(":The capture was stopped"))
            .collect();
        assert_eq!(printed, expected, "{name}, {pass}");
    }
}

#[test]
fn complete_captures_have_only_the_expert_info_of_their_end() {
    let (frames, _) = Card { counter: (1 << 40) - 3, ..Card::new() }.session(6, 370);
    let Some(passes) = experts("sound", &frames) else { return };
    assert_eq!(
        passes,
        [["8:The capture was stopped"]; 2].map(|lines| lines.map(str::to_owned).to_vec())
    );
}

#[test]
fn missing_copied_and_swapped_frames_have_expert_infos() {
    let (frames, _) = Card::new().session(6, 370);
    let mut removed = frames.clone();
    removed.drain(2..4);
    assert_experts("removed", &removed, &["3:2 frames missing before this one, 740 accesses"]);
    let mut copied = frames.clone();
    copied.insert(4, frames[2].clone());
    assert_experts("copied", &copied, &["5:Copy of an earlier frame"]);
    let mut swapped = frames.clone();
    swapped.swap(2, 3);
    let Some([first, again]) = experts("swapped", &swapped) else { return };
    let late = "4:Out of order, 1 behind the newest";
    assert_eq!(first[..2], ["3:1 frame missing before this one, 370 accesses", late]);
    assert_eq!(again[..2], ["3:1 frame missing before this one, 370 accesses; 1 came later", late]);
    let restarted = [&frames[..], &Card::new().session(1, 9).0].concat();
    assert_experts(
        "restarted",
        &restarted,
        &["9:The card counts anew: its frames are counted from 0"],
    );
}

#[test]
fn loss_on_the_card_has_an_expert_info() {
    let mut card = Card::new();
    let (mut frames, _) = card.session(2, 370);
    card.lost += 5;
    card.accesses += 3;
    frames.extend(card.session(2, 370).0);
    assert_experts("lost", &frames, &["5:5 records lost on the card, 3 accesses"]);
    card.accesses += 1;
    frames.push(card.info());
    let twice =
        ["5:5 records lost on the card, 3 accesses", "9:Missing since the last sync, 1 access"];
    assert_experts("accesses", &frames, &twice);
    (card.accesses, card.lost) = (0, 0);
    frames.push(card.info());
    assert_experts(
        "reset",
        &frames,
        &[&twice[..], &["10:The card counts anew: its counts went back"]].concat(),
    );
}

#[test]
fn damaged_frames_have_an_expert_info_with_the_error() {
    let (frames, _) = Card::new().session(3, 370);
    let altered = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frames = frames.clone();
        change(&mut frames[2]);
        frames
    };
    let missing = "4:Missing since the last sync, 370 accesses";
    let byte = |at: usize, value: u8| altered(&|frame| frame[MAC_BYTES + at] = value);
    for (name, frames, text) in [
        ("version", byte(0, 0xf0), "format version 15 is not known"),
        ("kind", byte(0, FORMAT_VERSION << 4 | 4), "frame kind 4 is not known"),
        ("few", byte(1, 1), "1 words stated, a frame has 2 to 187"),
        ("many", byte(1, 188), "188 words stated, a frame has 2 to 187"),
        ("short", altered(&|frame| frame.truncate(100)), "187 words stated, only 10 present"),
        ("header", altered(&|frame| frame.truncate(17)), "frame ends within its header"),
    ] {
        assert_experts(name, &frames, &[&format!("3:{text}"), missing]);
    }
    let first = 4 + 16;
    for (name, high, low, text) in [
        ("record", 0xfc_00u64, 0u64, "unknown record kind 0: unreadable from word 2"),
        ("low", 0, 0xfc_40, "word record in a low half: unreadable from word 2"),
        ("fault", 0xfc_80, 0, "unknown fault kind: unreadable from word 2"),
        ("group", 0xfd_ff, 0, "unknown group of counts: unreadable from word 2"),
    ] {
        let frames = altered(&|frame| {
            let word = &mut frame[MAC_BYTES + first..][..8];
            word.copy_from_slice(&(high << 48 | low << 16).to_be_bytes());
            if name == "group" {
                word[2] = 0xff; // group 15
            }
        });
        assert_experts(name, &frames, &[&format!("3:{text}"), missing]);
    }
    let cut = altered(&|frame| {
        let last = frame.len() - 8;
        frame[last..].copy_from_slice(&0xfd40_0000_0000_0000u64.to_be_bytes());
    });
    let text = "3:the last word of a record is missing: unreadable from word 186";
    assert_experts("cut", &cut, &[text, "4:Missing since the last sync, 2 accesses"]);
    let lost = byte(3, 1);
    assert_experts("header-lost", &lost, &["3:the header's lost records are not the sync's"]);
    let mut report = frames.clone();
    report[0][MAC_BYTES + 4 + 8 * 12] ^= 1;
    let text = "1:the digest is not that of the memory description";
    assert_experts("digest", &report, &[text]);
    for (name, words, text) in [
        ("report-short", 11, "1:report of only 11 words"),
        ("report-map", 30, "1:the address map needs more words than the report has"),
    ] {
        let mut report = frames.clone();
        report[0].truncate(MAC_BYTES + 4 + 8 * words);
        report[0][MAC_BYTES + 1] = words as u8;
        assert_experts(name, &report, &[text]);
    }
    let mut report = frames.clone();
    report[0].truncate(MAC_BYTES + 4 + 8 * 12);
    report[0][MAC_BYTES + 1] = 12;
    report[0][MAC_BYTES + 4 + 8 * 8..][1..5].fill(0); // no coordinate has a bit
    assert_experts("report-no-map", &report, &[text]);
}

#[test]
fn loss_of_the_ddr_clock_has_an_expert_info() {
    let mut card = Card::new();
    let mut frames = card.session(1, 10).0;
    for (running, losses) in [(true, 0), (false, 1), (false, 1), (true, 1), (true, 2), (true, 2)] {
        frames.push(card.heartbeat(Heartbeat { running, losses, transmit_clocks: 1 << 40 }));
    }
    let expected = [
        "5:The DDR clock is stopped",
        "6:The DDR clock is stopped",
        "7:DDR clock found again",
        "8:DDR clock lost and found again",
    ];
    assert_experts("clock", &frames, &expected);
}

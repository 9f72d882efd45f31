//! Tests that no payload makes the plugin fail, and that it ignores frames that are not a card's.

use hmtt_format::frame::FrameKind;

use super::{MAC_BYTES, every_kind, plugin, tshark, tshark_with};
use crate::card::Card;
use crate::{capture_file, scratch};

const FUZZED_FRAMES: usize = 4000;

/// Pseudorandom numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    /// Returns a card's frame with random payload that is often valid.
    fn frame(&mut self, card: &mut Card) -> Vec<u8> {
        let mut frame = match self.below(8) {
            0 => card.info(),
            1 => every_kind(card),
            2 => card.data(20).0,
            _ => {
                let kind = [FrameKind::Data, FrameKind::Info, FrameKind::End, FrameKind::Heartbeat]
                    [self.below(8).saturating_sub(4) as usize];
                let words: Vec<u64> = (0..self.below(30)).map(|_| self.word()).collect();
                card.frame(kind, &words)
            }
        };
        for _ in 0..self.below(4) {
            let at = MAC_BYTES + self.below((frame.len() - MAC_BYTES) as u64) as usize;
            frame[at] ^= 1 << self.below(8);
        }
        if self.below(3) == 0 {
            frame.truncate(MAC_BYTES + self.below((frame.len() - MAC_BYTES) as u64 + 1) as usize);
        }
        if self.below(4) == 0 {
            frame[7 + self.below(5) as usize] = self.below(256) as u8; // the counter
        }
        frame
    }

    /// Returns a word; half of the words are word records.
    fn word(&mut self) -> u64 {
        let word = self.below(1 << 32) << 32 | self.below(1 << 32);
        if self.below(2) == 0 { word | 0xfc << 56 } else { word }
    }
}

#[test]
fn no_payload_raises_a_lua_error() {
    let (mut numbers, mut card) = (Numbers(0x9e37_79b9_7f4a_7c15), Card::new());
    let frames: Vec<_> = (0..FUZZED_FRAMES).map(|_| numbers.frame(&mut card)).collect();
    let file = capture_file("fuzzed.pcapng", &frames);
    for passes in [&["-V"][..], &["-2", "-V"], &[]] {
        let Some(printed) = tshark(passes, &file) else { return };
        let wrong = printed.lines().find(|line| line.contains("Lua Error"));
        assert_eq!(wrong, None, "{passes:?}");
        assert!(!printed.contains("Dissector bug"));
    }
    // A filter on a field of records makes tshark build their tree. The output does not depend on
    // it.
    let info = ["-T", "fields", "-e", "_ws.col.Info"];
    let without = tshark(&info, &file);
    let with = tshark(&[&["-Y", "frame || hmtt.record.kind"], &info[..]].concat(), &file);
    assert_eq!(with, without);
}

#[test]
fn frames_that_are_not_a_cards_are_ignored() {
    let info = Card::new().info();
    let others: Vec<_> = [0, 6]
        .into_iter()
        .map(|at| {
            let mut frame = info.clone();
            frame[at] ^= 4;
            frame
        })
        .collect();
    let file = capture_file("others.pcapng", &others);
    let Some(printed) = tshark(&["-Y", "!hmtt", "-T", "fields", "-e", "eth.type"], &file) else {
        return;
    };
    assert_eq!(printed.lines().collect::<Vec<_>>(), ["0x88b5"; 2]);
}

#[test]
fn a_lua_error_is_detected() {
    let script = std::fs::read_to_string(plugin()).unwrap();
    let wrong = script.replace("tvb:len() < HEADER_BYTES", "tvb(0, HEADER_BYTES):len() < 4");
    assert_ne!(script, wrong);
    let plugin = scratch("wrong.lua");
    std::fs::write(&plugin, wrong).unwrap();
    let mut frame = Card::new().info();
    frame.truncate(MAC_BYTES + 2);
    let file = capture_file("noticed.pcapng", &[frame]);
    let Some(printed) = tshark_with(&plugin, &["-V"], &file) else { return };
    assert!(printed.contains("Lua Error"), "{printed}");
}

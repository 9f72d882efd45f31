//! Builds captures.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hmtt::pcapng::{Description, PcapngWriter};
use hmtt_format::frame::Heartbeat;
use hmtt_format::record::{PageRun, TagSource, WordRecord};
use hmtt_format::{Direction, FaultKind};
use hmtt_test_support::card::Card;

/// 2023-11-14 22:59:59.5 UTC.
pub const BEFORE_THE_HOUR: Duration = Duration::new(1_700_002_799, 500_000_000);

/// Writes frames with their interfaces, which arrive `step` apart.
pub fn write(path: &Path, frames: &[(u32, Vec<u8>)], from: Duration, step: Duration) -> PathBuf {
    let interfaces = [Description::new("eth1"), Description::new("eth2")];
    let mut writer = PcapngWriter::new(Vec::new(), &interfaces).unwrap();
    for ((interface, frame), at) in frames.iter().zip(0..) {
        writer.write_frame(*interface, from + step * at, frame.len() as u32, frame).unwrap();
    }
    std::fs::write(path, writer.into_output()).unwrap();
    path.to_owned()
}

/// Frames with a row of every table, a gap, and a second session.
pub fn everything() -> Vec<(u32, Vec<u8>)> {
    let mut card = Card::new();
    card.tag_window = Some(0x1000_0000);
    let mut frames = vec![card.info(), card.data(100).0];
    card.data(40);
    frames.push(card.data(30).0);
    (card.lost, card.accesses) = (5, card.accesses + 2);
    let read = TagSource::Window(Direction::Read);
    let known = [
        WordRecord::Tag { delta: 3, source: read, value: 0x20 },
        WordRecord::Tag { delta: 3, source: TagSource::Mark, value: 0x107 },
        WordRecord::Fault { delta: 3, kind: FaultKind::RefreshOpen, bank: 1 },
        WordRecord::Slice { code: 0, partial: None, start: 500, reads: 3, writes: 4 },
    ];
    frames.push(card.records(&known, 1, 9));
    card.unit_log2 = 12;
    let run = PageRun { number: 0x1f, reads: 2, writes: 1, duration: 20 };
    frames.push(card.records(&[WordRecord::Page { delta: 4, run }], 3, 4));
    card.unit_log2 = 6;
    frames.push(card.heartbeat(Heartbeat { running: false, losses: 1, transmit_clocks: 1001 }));
    frames.extend([card.data(20).0, card.end()]);
    let mut card = Card::new();
    frames.extend([card.info(), card.data(50).0, card.end()]);
    frames.into_iter().map(|frame| (0, frame)).collect()
}

//! Builds a capture with a row of every kind.

use hmtt_format::frame::Heartbeat;
use hmtt_format::record::{CountGroup, PageRun, TagSource, WordRecord};
use hmtt_format::{Direction, FaultKind};

use crate::card::Card;

/// Returns frames with every kind of row and gap, in two sessions.
pub fn everything() -> Vec<Vec<u8>> {
    let mut card = Card::new();
    // Before the first report neither the window's base nor the clock period is known.
    (card.counter, card.accesses) = (100, 3);
    let write = TagSource::Window(Direction::Write);
    let early = [
        WordRecord::Tag { delta: 1, source: write, value: 0x40 },
        WordRecord::Slice { code: 0, partial: None, start: 7, reads: 1, writes: 2 },
    ];
    let mut frames = vec![card.records(&early, 1, 1)];
    card.tag_window = Some(0x1000_0000);
    frames.push(card.info());
    frames.push(card.data(6).0);
    card.data(4);
    frames.push(card.data(3).0);
    (card.lost, card.accesses) = (5, card.accesses + 2);
    frames.push(card.records(&known(), 1, 9));
    card.unit_log2 = 12;
    frames.push(card.records(&pages(), 4, 8));
    card.unit_log2 = 6;
    frames.push(card.records(&analysis(), 0, 0));
    let mut damaged = card.data(20).0;
    damaged.truncate(100);
    frames.push(damaged);
    for (running, losses) in [(false, 1), (true, 1), (true, 3)] {
        let transmit_clocks = 1000 * u64::from(losses) + 1;
        frames.push(card.heartbeat(Heartbeat { running, losses, transmit_clocks }));
    }
    frames.push(card.data(2).0);
    frames.push(card.end());
    frames.extend(second_session());
    frames
}

fn known() -> [WordRecord; 5] {
    let read = TagSource::Window(Direction::Read);
    [
        WordRecord::Tag { delta: 3, source: read, value: 0x20 },
        WordRecord::Tag { delta: 3, source: TagSource::Mark, value: 0x107 },
        WordRecord::Fault { delta: 3, kind: FaultKind::RefreshOpen, bank: 1 },
        WordRecord::Slice { code: 0, partial: None, start: 500, reads: 3, writes: 4 },
        WordRecord::Slice { code: 0, partial: Some(30), start: 10, reads: 1, writes: 1 },
    ]
}

fn pages() -> [WordRecord; 2] {
    let run = PageRun { number: 0x1f, reads: 2, writes: 1, duration: 20 };
    let long = PageRun { number: 0x20, reads: 0, writes: 1, duration: 1 << 20 };
    [WordRecord::Page { delta: 4, run }, WordRecord::Page { delta: 4, run: long }]
}

fn analysis() -> [WordRecord; 4] {
    [
        WordRecord::Interval { part: 3, clock: 40 },
        WordRecord::Interval { part: 63, clock: 41 },
        WordRecord::Count { dump: 7, group: CountGroup::RowHits, index: 18, value: u32::MAX },
        WordRecord::HotPage { dump: 7, page: 0x1_2345, count: 100, votes: 300 },
    ]
}

/// Returns a session after another power-on. Its last frame is damaged, and no end follows.
fn second_session() -> Vec<Vec<u8>> {
    let mut card = Card::new();
    let mut frames = vec![card.info(), card.data(5).0, card.data(4).0];
    let mut damaged = card.data(5).0;
    damaged.truncate(40);
    frames.push(damaged);
    frames
}

//! Builds tables with rows of every kind in every format.

use hmtt::CardId;
use hmtt::decode::{DdrClock, Gap};
use hmtt::table::{Entry, Row};
use hmtt_format::event::{MarkRegister, SliceLength};
use hmtt_format::record::CountGroup;
use hmtt_format::{Access, Cycles, Direction, Event, FaultKind, PhysAddr};

use crate::targets::parquet;
use crate::targets::table::{CSV, JSONL, RECORDS, csv, jsonl};

/// Returns a row of every kind, for two cards.
fn rows() -> Vec<Row> {
    let (clock, address, direction) = (Cycles(77), PhysAddr(0x1240), Direction::Write);
    let gap = Gap { frames: 2, after: Some(clock), before: Some(Cycles(90)), ..Gap::default() };
    let ddr_clock = DdrClock { running: true, lost: 1, losses: 2, transmit_ns: 5000 };
    let length = SliceLength::Partial(Cycles(5));
    let entries = [
        Access { clock, direction, address }.into(),
        Entry::Event(Event::Tag { clock, direction, offset: 8, address: None }),
        Entry::Event(Event::Mark { clock, register: MarkRegister(0x100) }),
        Entry::Event(Event::Fault { clock, kind: FaultKind::ReadIdle, bank: 3 }),
        Entry::Event(Event::Page { clock, address, reads: 1, writes: 2, duration: 3 }),
        Entry::Event(Event::Slice { clock, code: None, length, reads: 1, writes: 2 }),
        Entry::Event(Event::Interval { clock, part: 1 }),
        Entry::Event(Event::Count { dump: 1, group: CountGroup::Reuse, index: 2, value: 3 }),
        Entry::Event(Event::HotPage { dump: 1, address: PhysAddr(4096), count: 2, votes: 3 }),
        Entry::Gap(gap),
        Entry::Restart,
        Entry::DdrClock(ddr_clock),
        Entry::NoEnd,
    ];
    let row = |(at, entry)| Row { card: CardId(at / 7), entry };
    entries.into_iter().enumerate().map(row).collect()
}

/// Returns the rows in each text format after the byte that names the format; and 6-byte records.
pub fn texts() -> Vec<Vec<u8>> {
    let named = |kind: u8, table: Vec<u8>| [vec![kind], table].concat();
    let records: Vec<u8> = (0..60).map(|byte: u8| byte.wrapping_mul(37)).collect();
    let quoted =
        b"kind,clock,direction,address,reads,writes,duration,detail\ncard,,,,,,,\"2 on \"\"e\n\"\n";
    vec![
        named(CSV, csv(&rows())),
        named(CSV, quoted.to_vec()),
        named(CSV, b"address,clock,direction\n40,7,R\n".to_vec()),
        named(JSONL, jsonl(&rows())),
        named(RECORDS, records),
    ]
}

/// Returns Parquet files with all rows and with accesses only.
pub fn parquets() -> Vec<Vec<u8>> {
    let accesses: Vec<Row> = rows().into_iter().take(1).cycle().take(9).collect();
    vec![parquet::written(&rows()), parquet::written(&accesses)]
}

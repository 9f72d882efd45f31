//! The blocks of the statistics unit.

use fastrand::Rng;
use gateware::config::{Item, ItemKind, Settings};
use gateware::statistics::address_views::AddressViews;
use gateware::statistics::counters::{Counters, Totals};
use gateware::statistics::framer::Framer;
use gateware::statistics::frequency::Frequency;
use gateware::statistics::line_trace::LineTrace;
use gateware::statistics::packer::Packer;
use gateware::statistics::page_trace::PageTrace;
use gateware::statistics::unit::StatisticsUnit;
use gateware::statistics::{FramedWord, Record, RecordKind, WordKind};

use crate::direct::{chance, spread, with_seeds};
use crate::memories;
use crate::recording::Recording;

const ITEMS: [ItemKind; 11] = [
    ItemKind::Nothing,
    ItemKind::Access,
    ItemKind::WindowTag,
    ItemKind::Mark,
    ItemKind::Fault,
    ItemKind::Tick,
    ItemKind::Slice,
    ItemKind::Start,
    ItemKind::Stop,
    ItemKind::Change,
    ItemKind::Overrun,
];

fn item(rng: &mut Rng, clock: &mut u64) -> Item {
    *clock += if chance(rng, 5) { rng.u64(0..1 << 25) } else { rng.u64(0..100) };
    Item {
        kind: if chance(rng, 70) { ItemKind::Access } else { ITEMS[rng.usize(0..ITEMS.len())] },
        write: rng.bool(),
        high: if chance(rng, 80) { 0u64 } else { spread(rng, 8) }.into(),
        low: if chance(rng, 70) { rng.u64(0..1 << 9) << 5 } else { spread(rng, 32) }.into(),
        clock: (*clock & 0xffff_ffff).into(),
        clock_high: (*clock >> 32 & 0xffff).into(),
    }
}

fn settings(rng: &mut Rng) -> Settings {
    Settings {
        mode: rng.u64(0..4).into(),
        burst: rng.bool(),
        frequency: rng.bool(),
        slice: spread(rng, 5).into(),
        threshold: rng.u64(4..40).into(),
        tag: rng.bool(),
        tag_low: spread(rng, 32).into(),
        tag_high: spread(rng, 8).into(),
    }
}

#[test]
fn line_traces_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("line trace", LineTrace::new(&memories::ddr1("")));
        let mut at = 0xffff_f000;
        for _ in 0..3000 {
            let block = &mut recording.block;
            at = at + rng.u64(0..30) & 0xffff_ffff;
            block.offer.next = chance(rng, 70);
            block.flush.next = chance(rng, 50);
            block.write.next = chance(rng, 20);
            block.segment.next = if chance(rng, 90) { 1 } else { spread(rng, 12) }.into();
            block.number.next = if chance(rng, 90) { 5 } else { spread(rng, 26) }.into();
            block.part.next = (1u64 << rng.u32(0..8)).into();
            block.at.next = at.into();
            block.at_high.next = spread(rng, 16).into();
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

#[test]
fn page_traces_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("page trace", PageTrace::default());
        let mut at = 0xff00_0000;
        for _ in 0..3000 {
            let block = &mut recording.block;
            at = at + if chance(rng, 95) { rng.u64(0..30) } else { spread(rng, 25) } & 0xffff_ffff;
            block.offer.next = chance(rng, 70);
            block.flush.next = chance(rng, 50);
            block.write.next = rng.bool();
            block.segment.next = if chance(rng, 95) { 1 } else { spread(rng, 12) }.into();
            block.number.next = if chance(rng, 95) { 5 } else { spread(rng, 26) }.into();
            block.at.next = at.into();
            block.at_high.next = spread(rng, 16).into();
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

#[test]
fn frequency_counters_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("frequency", Frequency::default());
        for _ in 0..2000 {
            let block = &mut recording.block;
            block.offer.next = chance(rng, 80);
            block.write.next = rng.bool();
            block.restart.next = chance(rng, 5);
            block.at.next = spread(rng, 32).into();
            block.at_high.next = spread(rng, 16).into();
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

#[test]
fn total_counters_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("counters", Counters::default());
        let mut clock = 0;
        for _ in 0..2000 {
            recording.block.item.next = item(rng, &mut clock);
            recording.block.taken.next = rng.bool();
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

#[test]
fn address_views_of_all_memories_agree() {
    with_seeds(0..1, |rng| {
        for memory in memories::all() {
            let mut recording = Recording::new("address views", AddressViews::new(&memory));
            for _ in 0..1000 {
                recording.block.low.next = spread(rng, 32).into();
                recording.block.high.next = spread(rng, 8).into();
                recording.block.burst.next = rng.bool();
                recording.step();
            }
            recording.agrees();
        }
    });
}

#[test]
fn statistics_units_agree() {
    with_seeds(0..2, |rng| {
        let mut recording =
            Recording::new("statistics unit", StatisticsUnit::new(&memories::ddr1("")));
        let (mut clock, mut taken) = (0xffff_0000, true);
        for step in 0..4000 {
            if step % 300 == 0 {
                recording.block.settings.next = settings(rng);
                recording.block.slices.next = rng.bool();
                recording.block.slice_last.next = rng.u64(0..1 << 20).into();
            }
            if taken || recording.block.item.val().kind == ItemKind::Nothing {
                recording.block.item.next = item(rng, &mut clock);
            }
            recording.block.record_taken.next = chance(rng, 50);
            recording.step();
            taken = recording.block.taken.val();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

const RECORDS: [RecordKind; 11] = [
    RecordKind::Nothing,
    RecordKind::Access,
    RecordKind::Tag,
    RecordKind::Fault,
    RecordKind::Page,
    RecordKind::Slice,
    RecordKind::Tick,
    RecordKind::Change,
    RecordKind::Start,
    RecordKind::Stop,
    RecordKind::Overrun,
];

fn record(rng: &mut Rng) -> Record {
    let short = chance(rng, 50);
    let count = |rng: &mut Rng| if short { rng.u64(0..33) } else { spread(rng, 20) };
    Record {
        kind: if chance(rng, 40) { RecordKind::Access } else { RECORDS[rng.usize(0..11)] },
        write: rng.bool(),
        flag: rng.bool(),
        segment: if chance(rng, 80) { 3 } else { spread(rng, 12) }.into(),
        number: spread(rng, 26).into(),
        value: spread(rng, 32).into(),
        reads: count(rng).into(),
        writes: count(rng).into(),
        duration: spread(rng, if short { 11 } else { 24 }).into(),
        start_high: spread(rng, 16).into(),
        delta: if chance(rng, 70) { rng.u64(0..35) } else { spread(rng, 25) }.into(),
        clock: spread(rng, 32).into(),
        clock_high: spread(rng, 16).into(),
    }
}

fn packer(rng: &mut Rng) -> Recording<Packer> {
    let mut recording = Recording::new("packer", Packer::default());
    let mut taken = true;
    for _ in 0..4000 {
        let block = &mut recording.block;
        if taken || block.record.val().kind == RecordKind::Nothing {
            block.record.next = record(rng);
        }
        block.slices_count.next = rng.bool();
        block.slice_code.next = spread(rng, 5).into();
        block.word_taken.next = chance(rng, 60);
        recording.step();
        taken = recording.block.taken.val();
        recording.edge(|block| &mut block.clock);
    }
    recording
}

#[test]
fn packers_agree() {
    with_seeds(0..2, |rng| packer(rng).agrees());
}

#[test]
fn a_shifted_field_is_noticed() {
    packer(&mut Rng::with_seed(1)).notices("page_writes_at = 5'b1010", "page_writes_at = 5'b1011");
}

fn framed_word(rng: &mut Rng) -> FramedWord {
    let kind = match rng.u8(0..40) {
        0 => WordKind::Nothing,
        1 => WordKind::Tick,
        2 => WordKind::Change,
        3 => WordKind::Start,
        4 => WordKind::Stop,
        5 => WordKind::Overrun,
        _ => WordKind::Data,
    };
    FramedWord {
        kind,
        first: chance(rng, 80),
        more: if chance(rng, 80) { 0u64 } else { rng.u64(0..3) }.into(),
        high: spread(rng, 32).into(),
        low: spread(rng, 32).into(),
        accesses: spread(rng, 32).into(),
        records: spread(rng, 8).into(),
        segment: spread(rng, 12).into(),
        clock: spread(rng, 32).into(),
        clock_high: spread(rng, 16).into(),
    }
}

fn totals(rng: &mut Rng) -> Totals {
    Totals {
        reads: spread(rng, 32).into(),
        reads_high: spread(rng, 32).into(),
        writes: spread(rng, 32).into(),
        writes_high: spread(rng, 32).into(),
        faults: spread(rng, 32).into(),
        tags: spread(rng, 32).into(),
    }
}

#[test]
fn framers_agree() {
    with_seeds(0..2, |rng| {
        let memory = memories::ddr1("tick_clocks = 4194304\ntck_ns = 1000.0");
        let mut recording = Recording::new("framer", Framer::<10>::new(&memory));
        let mut taken = true;
        for step in 0..6000 {
            let block = &mut recording.block;
            if step % 200 == 0 {
                block.settings.next = settings(rng);
                block.slices.next = rng.bool();
                block.running.next = rng.bool();
                block.totals.next = totals(rng);
            }
            if taken || block.word.val().kind == WordKind::Nothing {
                block.word.next = framed_word(rng);
            }
            block.room.next = chance(rng, if step % 1000 < 800 { 95 } else { 5 });
            recording.step();
            taken = recording.block.taken.val();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

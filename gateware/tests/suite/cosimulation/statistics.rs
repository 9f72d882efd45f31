//! Tests the blocks of the statistics unit.

mod words;

use fastrand::Rng;
use gateware::config::Requests;
use gateware::config::{Item, ItemKind, Settings};
use gateware::record::{Record, RecordKind};
use gateware::statistics::address_views::AddressViews;
use gateware::statistics::frequency::Frequency;
use gateware::statistics::record_intake::RecordIntake;
use gateware::statistics::slice_words::SliceWords;
use gateware::statistics::timekeeper::Timekeeper;
use gateware::statistics::totals::TotalsCounter;
use gateware::statistics::traces::Traces;
use gateware::statistics::waiting_record::WaitingRecord;
use gateware::statistics::{ComparedItem, NextItem, Observed, SliceCounts, SlotClock};
use hmtt_format::record::{RUN_COUNT_LOG2, RUN_DURATION_LOG2};

use crate::direct::{chance, spread, with_seeds};
use crate::memories;
use crate::recording::Recording;

fn slot_clock(rng: &mut Rng) -> SlotClock {
    SlotClock { low: spread(rng, 24).into(), high: spread(rng, 24).into() }
}

fn slice_counts(rng: &mut Rng) -> SliceCounts {
    SliceCounts {
        partial: rng.bool(),
        first: slot_clock(rng),
        reads: spread(rng, 32).into(),
        writes: spread(rng, 32).into(),
        length: spread(rng, 32).into(),
    }
}

fn settings(rng: &mut Rng) -> Settings {
    Settings {
        mode: rng.u64(0..4).into(),
        burst: rng.bool(),
        frequency: rng.bool(),
        analysis: rng.bool(),
        slice: spread(rng, 5).into(),
        threshold: rng.u64(8..40).into(),
        tag: rng.bool(),
        // The address is near those of the items, or random.
        tag_low: if rng.bool() { 0 } else { spread(rng, 32) }.into(),
        tag_high: if rng.bool() { 0 } else { spread(rng, 8) }.into(),
    }
}

const ITEMS: [ItemKind; 6] = [
    ItemKind::Nothing,
    ItemKind::Time,
    ItemKind::Access,
    ItemKind::Mark,
    ItemKind::Fault,
    ItemKind::Overrun,
];

fn item(rng: &mut Rng) -> Item {
    Item {
        kind: if chance(rng, 70) { ItemKind::Access } else { ITEMS[rng.usize(0..ITEMS.len())] },
        write: chance(rng, 30),
        high: if chance(rng, 80) { 0u64 } else { spread(rng, 8) }.into(),
        low: if chance(rng, 70) { rng.u64(0..1 << 9) << 5 } else { spread(rng, 32) }.into(),
        gap: if chance(rng, 90) { rng.u64(0..40) } else { spread(rng, 16) }.into(),
        command: rng.bool(),
        row_state: rng.u64(0..3).into(),
        bank: spread(rng, 6).into(),
    }
}

fn requested(rng: &mut Rng) -> RecordKind {
    const TOLD: [RecordKind; 8] = [
        RecordKind::Tick,
        RecordKind::Skip,
        RecordKind::Slice,
        RecordKind::Count,
        RecordKind::HotPage,
        RecordKind::Change,
        RecordKind::Start,
        RecordKind::Stop,
    ];
    TOLD[rng.usize(0..TOLD.len())]
}

#[test]
fn traces_of_all_memories_agree() {
    with_seeds(0..1, |rng| {
        for memory in memories::all() {
            let mut recording = Recording::new("traces", Traces::new(&memory));
            for step in 0..2500 {
                let block = &mut recording.block;
                if step % 300 == 0 {
                    block.settings.next = settings(rng);
                    block.running.next = chance(rng, 80);
                }
                let is_control = chance(rng, 5);
                block.item.next = if is_control { Item::default() } else { item(rng) };
                block.advance.next = chance(rng, 80);
                block.requests.next = Requests {
                    flush: is_control && rng.bool(),
                    record_kind: if is_control { requested(rng) } else { RecordKind::Nothing },
                    restart_time: is_control && rng.bool(),
                    restart_slice: rng.bool(),
                    dump: rng.bool(),
                    dump_all: rng.bool(),
                };
                recording.step();
                recording.edge(|block| &mut block.clock);
            }
            recording.agrees();
        }
    });
}

fn waiting_record(rng: &mut Rng) -> Recording<WaitingRecord> {
    let memory = memories::ddr1("");
    let mut recording = Recording::new("waiting record", WaitingRecord::new(&memory));
    for step in 0..4000 {
        let block = &mut recording.block;
        if step % 500 == 0 {
            block.mode.next = rng.u64(0..2).into();
        }
        let kind = if chance(rng, 70) { RecordKind::Access } else { RecordKind::Tag };
        let gap = if chance(rng, 90) { rng.u64(0..30) } else { spread(rng, 16) };
        block.compared.next = ComparedItem {
            kind,
            is_item: chance(rng, 80),
            mergeable: kind == RecordKind::Access,
            same: chance(rng, 80),
            write: chance(rng, 20),
            number: spread(rng, 26).into(),
            segment: spread(rng, 12).into(),
            part: (1u64 << rng.u32(0..8)).into(),
            gap: gap.into(),
        };
        let next = if chance(rng, 90) { rng.u64(0..100) } else { spread(rng, 16) };
        block.next_item.next = NextItem {
            write: chance(rng, 20),
            part: (1u64 << rng.u32(0..8)).into(),
            gap_overflows: next > 255,
            in_merge_window: next <= 64,
            gap_low: (next & 255).into(),
        };
        block.advance.next = chance(rng, 80);
        block.flush.next = chance(rng, 3);
        block.record_kind.next = if chance(rng, 5) { requested(rng) } else { RecordKind::Nothing };
        block.restart_time.next = chance(rng, 1);
        recording.step();
        recording.edge(|block| &mut block.clock);
    }
    recording
}

#[test]
fn waiting_records_agree() {
    with_seeds(0..2, |rng| waiting_record(rng).agrees());
}

#[test]
fn another_merge_window_is_a_difference() {
    let recording = waiting_record(&mut Rng::with_seed(1));
    recording.notices("window = 8'h40", "window = 8'h41");
}

#[test]
fn timekeepers_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("timekeeper", Timekeeper::default());
        for _ in 0..2000 {
            let block = &mut recording.block;
            block.passes.next = chance(rng, 80);
            block.gap.next = spread(rng, 26).into();
            block.set.next = chance(rng, 3);
            block.set_to.next = slot_clock(rng);
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
            block.passes.next = chance(rng, 80);
            block.gap.next = if rng.bool() { rng.u64(0..4) } else { spread(rng, 16) }.into();
            block.restart.next = chance(rng, 5);
            block.now.next = slot_clock(rng);
            block.slice_last.next = rng.u64(0..20).into();
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

#[test]
fn slice_words_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("slice words", SliceWords::default());
        for _ in 0..1000 {
            let block = &mut recording.block;
            block.index.next = rng.u64(0..3).into();
            block.code.next = spread(rng, 5).into();
            block.counts.next = slice_counts(rng);
            recording.step();
        }
        recording.agrees();
    });
}

#[test]
fn total_counters_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("totals", TotalsCounter::default());
        for _ in 0..2000 {
            recording.block.observed.next = Observed {
                access: rng.bool(),
                write: rng.bool(),
                tag: chance(rng, 20),
                mark: chance(rng, 20),
                fault: chance(rng, 20),
                row_state: rng.u64(0..3).into(),
                bank: spread(rng, 6).into(),
                page: spread(rng, 28).into(),
            };
            recording.block.unreported.next = spread(rng, 8).into();
            recording.block.burst.next = spread(rng, 2).into();
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

const RECORDS: [RecordKind; 15] = [
    RecordKind::Nothing,
    RecordKind::Access,
    RecordKind::Tag,
    RecordKind::Mark,
    RecordKind::Fault,
    RecordKind::Overrun,
    RecordKind::Page,
    RecordKind::Skip,
    RecordKind::Slice,
    RecordKind::Count,
    RecordKind::HotPage,
    RecordKind::Tick,
    RecordKind::Change,
    RecordKind::Start,
    RecordKind::Stop,
];

fn record(rng: &mut Rng) -> Record {
    let (short, common) = (chance(rng, 50), [RecordKind::Access, RecordKind::Page]);
    let count =
        |rng: &mut Rng| if short { rng.u64(0..33) } else { spread(rng, RUN_COUNT_LOG2 + 1) };
    Record {
        kind: if chance(rng, 50) {
            common[rng.usize(0..2)]
        } else {
            RECORDS[rng.usize(0..RECORDS.len())]
        },
        write: rng.bool(),
        segment: if chance(rng, 80) { 3 } else { spread(rng, 12) }.into(),
        number: spread(rng, 26).into(),
        reads: count(rng).into(),
        writes: count(rng).into(),
        duration: spread(rng, if short { 11 } else { RUN_DURATION_LOG2 + 1 }).into(),
        delta: if chance(rng, 70) { rng.u64(0..35) } else { spread(rng, 25) }.into(),
    }
}

#[test]
fn record_intakes_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("record intake", RecordIntake::default());
        for _ in 0..4000 {
            let block = &mut recording.block;
            block.record.next = record(rng);
            block.offered.next = chance(rng, 60);
            block.consumes.next = chance(rng, 30);
            block.time_written.next = chance(rng, 10);
            block.segment_written.next = chance(rng, 10);
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

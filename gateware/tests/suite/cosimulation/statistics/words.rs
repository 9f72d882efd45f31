//! Tests what packs records into words and blocks.

use fastrand::Rng;
use gateware::record::{Record, RecordKind};
use gateware::statistics::Totals;
use gateware::statistics::accounts::Accounts;
use gateware::statistics::block_writer::BlockWriter;
use gateware::statistics::other_words::OtherWords;
use gateware::statistics::word_source::{Source, WordSource};
use hmtt_format::record::{RUN_COUNT_LOG2, RUN_DURATION_LOG2};

use super::{RECORDS, record, settings, slice_counts, slot_clock};
use crate::direct::{chance, spread, with_seeds};
use crate::memories;
use crate::recording::Recording;

#[test]
fn accounts_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("accounts", Accounts::default());
        for _ in 0..3000 {
            let block = &mut recording.block;
            block.pass.next = chance(rng, 60);
            block.clocks.next = spread(rng, 25).into();
            block.set_clock.next = chance(rng, 2);
            block.now.next = slot_clock(rng);
            block.account.next = chance(rng, 60);
            block.accesses.next = spread(rng, 32).into();
            block.lose.next = chance(rng, 30);
            block.records.next = spread(rng, 24).into();
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

const SOURCES: [Source; 11] = [
    Source::Half,
    Source::SyncFirst,
    Source::SyncSecond,
    Source::Tag,
    Source::Mark,
    Source::Fault,
    Source::PageShort,
    Source::PageLong,
    Source::PageCounts,
    Source::Other,
    Source::Descriptor,
];

fn word_source(rng: &mut Rng) -> Recording<WordSource> {
    let mut recording = Recording::new("word source", WordSource::default());
    for step in 0..3000 {
        let block = &mut recording.block;
        block.source.next = SOURCES[step % SOURCES.len()];
        block.half.next = spread(rng, 32).into();
        block.unit.next = spread(rng, 4).into();
        block.segment.next = spread(rng, 12).into();
        block.clock_low.next = spread(rng, 24).into();
        block.clock_high.next = spread(rng, 24).into();
        block.lost.next = spread(rng, 24).into();
        block.accesses_low.next = spread(rng, 20).into();
        block.accesses_high.next = spread(rng, 20).into();
        block.header.next = spread(rng, 32).into();
        block.write.next = rng.bool();
        block.number.next = spread(rng, 26).into();
        block.value_high.next = spread(rng, 6).into();
        block.delta.next = spread(rng, 16).into();
        block.reads.next = spread(rng, RUN_COUNT_LOG2 + 1).into();
        block.writes.next = spread(rng, RUN_COUNT_LOG2 + 1).into();
        block.duration.next = spread(rng, RUN_DURATION_LOG2 + 1).into();
        block.other_high.next = spread(rng, 32).into();
        block.other_low.next = spread(rng, 32).into();
        recording.step();
    }
    recording
}

#[test]
fn word_sources_agree() {
    with_seeds(0..1, |rng| word_source(rng).agrees());
}

#[test]
fn a_shifted_field_is_a_difference() {
    let from = "reads[4:0], writes[4:0]";
    word_source(&mut Rng::with_seed(1)).notices(from, "writes[4:0], reads[4:0]");
}

fn totals(rng: &mut Rng) -> Totals {
    Totals {
        reads: spread(rng, 32).into(),
        reads_high: spread(rng, 32).into(),
        writes: spread(rng, 32).into(),
        writes_high: spread(rng, 32).into(),
        faults: spread(rng, 32).into(),
        tags: spread(rng, 32).into(),
        unreported: spread(rng, 8).into(),
        burst: spread(rng, 2).into(),
    }
}

#[test]
fn words_of_reports_and_slices_agree() {
    with_seeds(0..1, |rng| {
        for memory in memories::all() {
            let mut recording = Recording::new("other words", OtherWords::new(&memory));
            for step in 0..1500 {
                let block = &mut recording.block;
                if step % 100 == 0 {
                    block.settings.next = settings(rng);
                    block.slices.next = rng.bool();
                    block.running.next = rng.bool();
                    block.totals.next = totals(rng);
                }
                block.words.kind.next = RECORDS[rng.usize(0..RECORDS.len())];
                block.words.index.next = (step as u64 % 64).into();
                block.slice_counts.next = slice_counts(rng);
                block.analysis_high.next = spread(rng, 32).into();
                block.analysis_low.next = spread(rng, 32).into();
                recording.step();
                recording.edge(|block| &mut block.clock);
            }
            recording.agrees();
        }
    });
}

fn block_writer(rng: &mut Rng) -> Recording<BlockWriter<10>> {
    let memory = memories::ddr1("tick_clocks = 32768\ntck_ns = 1000.0");
    let mut recording = Recording::new("block writer", BlockWriter::<10>::new(&memory));
    let mut is_taken = true;
    for step in 0..8000 {
        let block = &mut recording.block;
        if step % 400 == 0 {
            block.settings.next = settings(rng);
            block.slice_accesses.next = spread(rng, 32).into();
            block.slice_partial.next = rng.bool();
        }
        if is_taken {
            block.record.next = if chance(rng, 80) { record(rng) } else { Record::default() };
            block.offered.next = block.record.next.kind != RecordKind::Nothing;
        }
        block.now.next = slot_clock(rng);
        block.words.high.next = spread(rng, 32).into();
        block.words.low.next = spread(rng, 32).into();
        block.words.report_last.next = chance(rng, 10);
        block.space_available.next = chance(rng, if step % 1000 < 800 { 95 } else { 5 });
        recording.step();
        is_taken = recording.block.advance.val();
        recording.edge(|block| &mut block.clock);
    }
    recording
}

#[test]
fn block_writers_agree() {
    with_seeds(0..2, |rng| block_writer(rng).agrees());
}

#[test]
fn a_commit_before_the_descriptor_is_stored_is_a_difference() {
    let recording = block_writer(&mut Rng::with_seed(1));
    recording.notices("write$committed = start_stored$q", "write$committed = start_written$q");
}

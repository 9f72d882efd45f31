//! Tests the reports of the block writer: at the start, once per second, and three times at the
//! end.

use fastrand::Rng;
use gateware::config::Settings;
use gateware::record::{Record, RecordKind};
use gateware::statistics::Totals;
use hmtt_format::config::{Granularity, Mode};
use hmtt_format::frame::{FrameKind, SYNC_WORDS};
use hmtt_format::{FORMAT_VERSION, Report};
use rust_hdl::prelude::Bits;

use super::blocks::Bench;
use crate::direct::{spread, with_seeds};
use crate::memories;

fn totals(rng: &mut Rng) -> (Totals, [u64; 6]) {
    let values = [64, 64, 32, 32, 8, 2].map(|width| spread(rng, width));
    let half = |value: u64, at: u32| -> Bits<32> { (value >> at & 0xffff_ffff).into() };
    let totals = Totals {
        reads: half(values[0], 0),
        reads_high: half(values[0], 32),
        writes: half(values[1], 0),
        writes_high: half(values[1], 32),
        faults: half(values[2], 0),
        tags: half(values[3], 0),
        unreported: values[4].into(),
        burst: values[5].into(),
    };
    (totals, values)
}

#[test]
fn start_and_stop_report_everything_and_the_end_three_times() {
    with_seeds(0..20, |rng| {
        let memory = memories::decoded()[rng.usize(0..8)].clone();
        let (totals, [reads, writes, faults, tags, unreported, burst_log2]) = totals(rng);
        let (mode, base) =
            ([Mode::Line, Mode::Page, Mode::Frequency][rng.usize(0..3)], spread(rng, 40));
        let (tag, burst, slice_code) = (rng.bool(), rng.bool(), rng.u8(0..19));
        let settings = Settings {
            mode: (mode as u64).into(),
            burst,
            slice: u64::from(slice_code).into(),
            threshold: 187u64.into(),
            tag,
            tag_low: (base & 0xffff_ffff).into(),
            tag_high: (base >> 32).into(),
            ..Default::default()
        };
        let (mut bench, now) = (Bench::new(&memory, settings), spread(rng, 48));
        bench.chain.totals.next = totals;
        bench.chain.slices.next = tag ^ burst;
        bench.chain.running.next = true;
        bench.now(now);
        bench.request(RecordKind::Start);
        bench.wait_until(|chain| chain.idle.val());
        bench.chain.running.next = false;
        bench.request(RecordKind::Stop);
        bench.close();
        let kinds: Vec<u8> = bench.blocks.iter().map(|block| block.header.kind).collect();
        assert_eq!(kinds, [1, 2, 2, 2]);
        for block in &bench.blocks {
            let expected = Report {
                version: FORMAT_VERSION,
                running: block.header.kind == FrameKind::Info as u8,
                mode,
                frequency: tag ^ burst,
                granularity: if burst { Granularity::Burst } else { Granularity::Line },
                slice_code,
                threshold: 187,
                tag_window: tag.then_some(base >> memory.tag_window_log2 << memory.tag_window_log2),
                reads,
                writes,
                faults: faults as u32,
                tags: tags as u32,
                unreported: unreported as u8,
                burst_length: (burst_log2 != 0).then_some(1 << burst_log2),
                digest: hmtt_format::info::StaticWords::new(&memory).as_slice()[0],
                memory: memory.clone(),
            };
            assert_eq!(Report::decode(&block.words[SYNC_WORDS.into()..]), Ok(expected));
            assert_eq!((block.sync.clock, block.sync.lost), (now, 0));
        }
    });
}

fn bench(extra: &str) -> Bench {
    let settings = Settings { threshold: 187u64.into(), ..Default::default() };
    Bench::new(&memories::ddr1(extra), settings)
}

#[test]
fn a_report_is_sent_once_per_second() {
    let mut bench = bench("tick_clocks = 32768\ntck_ns = 1000.0");
    let ticks_a_second = 1_000_000_000_000u64 / (32_768 * 1_000_000);
    bench.request(RecordKind::Start);
    for _ in 0..3 * (ticks_a_second + 1) {
        bench.request(RecordKind::Tick);
        // An open block is closed before a report.
        bench.hand(Record { kind: RecordKind::Access, ..Default::default() });
    }
    bench.close();
    let reports = bench.blocks.iter().filter(|block| block.header.kind == FrameKind::Info as u8);
    assert_eq!(reports.count(), 1 + 3, "one at the start, one for each second");
}

#[test]
fn reports_wait_for_space() {
    for kind in [RecordKind::Start, RecordKind::Stop] {
        let mut bench = bench("");
        bench.chain.space_available.next = false;
        bench.request(kind);
        for _ in 0..100 {
            bench.clock(Record::default());
            assert!(!bench.chain.free.val(), "the report is not dropped");
        }
        bench.chain.space_available.next = true;
        bench.close();
        assert_eq!(bench.blocks.len(), if kind == RecordKind::Start { 1 } else { 3 });
    }
}

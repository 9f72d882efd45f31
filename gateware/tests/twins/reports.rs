//! Framer: reports at the start, once a second, and three times at the end.

use fastrand::Rng;
use gateware::statistics::WordKind;
use gateware::statistics::counters::Totals;
use hmtt_format::config::{Granularity, Mode};
use hmtt_format::frame::FrameKind;
use hmtt_format::{FORMAT_VERSION, Report};
use rust_hdl::prelude::Bits;

use crate::direct::{spread, with_seeds};
use crate::framer::{Bench, steer};
use crate::memories;

fn totals(rng: &mut Rng) -> (Totals, [u64; 4]) {
    let values = [spread(rng, 64), spread(rng, 64), spread(rng, 32), spread(rng, 32)];
    let half = |value: u64, at: u32| -> Bits<32> { (value >> at & 0xffff_ffff).into() };
    let totals = Totals {
        reads: half(values[0], 0),
        reads_high: half(values[0], 32),
        writes: half(values[1], 0),
        writes_high: half(values[1], 32),
        faults: half(values[2], 0),
        tags: half(values[3], 0),
    };
    (totals, values)
}

#[test]
fn start_and_stop_report_everything_and_the_end_three_times() {
    with_seeds(0..20, |rng| {
        let memory = memories::decoded()[rng.usize(0..8)].clone();
        let mut bench = Bench::new(&memory, 187);
        let (totals, [reads, writes, faults, tags]) = totals(rng);
        let (mode, base) =
            ([Mode::Line, Mode::Page, Mode::Frequency][rng.usize(0..3)], spread(rng, 40));
        let (tag, burst, slice_code) = (rng.bool(), rng.bool(), rng.u8(0..19));
        let framer = &mut bench.framer;
        framer.totals.next = totals;
        framer.running.next = true;
        framer.slices.next = tag ^ burst;
        framer.settings.next.mode = (mode as u64).into();
        framer.settings.next.burst = burst;
        framer.settings.next.slice = u64::from(slice_code).into();
        framer.settings.next.tag = tag;
        framer.settings.next.tag_low = (base & 0xffff_ffff).into();
        framer.settings.next.tag_high = (base >> 32).into();
        bench.hand(steer(WordKind::Start));
        bench.framer.running.next = false;
        bench.hand(steer(WordKind::Stop));
        bench.wait(10);
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
                digest: hmtt_format::info::StaticWords::new(&memory).as_slice()[0],
                memory: memory.clone(),
            };
            assert_eq!(Report::decode(&block.words), Ok(expected));
        }
    });
}

#[test]
fn a_report_comes_once_a_second() {
    let memory = memories::ddr1("tick_clocks = 4194304");
    let ticks_a_second = 1_000_000_000_000u64 / (4_194_304 * 10_000);
    let mut bench = Bench::new(&memory, 187);
    bench.hand(steer(WordKind::Start));
    for _ in 0..3 * (ticks_a_second + 1) {
        bench.hand(steer(WordKind::Tick));
    }
    assert_eq!(bench.blocks.len(), 1 + 3, "one at the start, one for each second");
}

#[test]
fn reports_wait_for_room() {
    let mut bench = Bench::new(&memories::ddr1(""), 187);
    bench.framer.room.next = false;
    for _ in 0..100 {
        assert!(!bench.clock(steer(WordKind::Stop)), "the end is not dropped");
    }
    bench.framer.room.next = true;
    bench.hand(steer(WordKind::Stop));
    bench.wait(10);
    assert_eq!(bench.blocks.len(), 3);
}

//! Compares the online statistics with a model that counts one access at a time in maps.

mod model;

use hmtt_format::address_map::{AddressMap, Axis, MapBuilder};
use hmtt_format::frame::{FrameKind, MAX_FRAME_BYTES, PayloadHeader, Sync, encode};
use hmtt_format::info::StaticWords;
use hmtt_format::record::{Half, PageRun, TagSource, WordRecord};
use hmtt_format::{
    Direction, FORMAT_VERSION, Generation, MemoryDescription, PhysAddr, Report, config,
};
use hmtt_host::online::{AccessCounts, Activity, HotPage, Options, RowUse, Statistics};
use model::{Model, expected};
use proptest::prelude::*;

const HOT_PAGES: usize = 5;

/// Whether address bits within a page select the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    OfWholePages,
    WithinPages,
}

fn map(rows: Rows) -> AddressMap {
    let bank_at = if rows == Rows::WithinPages { 7 } else { 13 };
    let mut map = MapBuilder::default();
    let mut bits = (3u32..32).filter(|bit| *bit < bank_at || *bit >= bank_at + 3);
    let mut next = || 1u64 << bits.next().unwrap();
    (0..10).for_each(|bit| map.bit(Axis::Column, bit, next()).unwrap());
    (0..2).for_each(|bit| map.bit(Axis::Rank, bit, next()).unwrap());
    (0..14).for_each(|bit| map.bit(Axis::Row, bit, next()).unwrap());
    (0..3u8).for_each(|bit| {
        map.bit(Axis::Bank, bit, 1 << (bank_at + u32::from(bit)) | 1 << (20 + bit)).unwrap();
    });
    map.build().unwrap()
}

fn memory(rows: Rows) -> MemoryDescription {
    MemoryDescription::new(Generation::Ddr3, map(rows), 8, 8, 2500).unwrap()
}

fn frame(kind: FrameKind, sync: Sync, words: &[u64]) -> Vec<u8> {
    let words = [&sync.encode()[..], words].concat();
    let header = PayloadHeader {
        version: FORMAT_VERSION,
        kind: kind as u8,
        words: words.len() as u8,
        lost: 0,
    };
    let mut buffer = [0; MAX_FRAME_BYTES];
    let length = encode(&mut buffer, 0, header, &words);
    buffer[..length].to_vec()
}

fn info(rows: Rows, tag_window: Option<u64>) -> Vec<u8> {
    let memory = memory(rows);
    let words = StaticWords::new(&memory);
    let report = Report {
        version: FORMAT_VERSION,
        running: true,
        mode: config::Mode::Line,
        frequency: false,
        granularity: config::Granularity::Line,
        slice_code: config::DEFAULT_SLICE_CODE,
        threshold: 187,
        tag_window,
        reads: 0,
        writes: 0,
        faults: 0,
        tags: 0,
        unreported: 0,
        burst_length: Some(8),
        digest: words.as_slice()[0],
        memory,
    };
    let words = [&report.encode_dynamic()[..], words.as_slice()].concat();
    frame(FrameKind::Info, Sync { unit_log2: 6, ..Sync::default() }, &words)
}

/// An input to the statistics.
#[derive(Clone, Debug)]
enum Step {
    Report { link: usize, rows: Rows, tag_window: Option<u64> },
    Data { link: usize, sync: Sync, words: Vec<u64> },
    Slice,
}

fn direction() -> impl Strategy<Value = Direction> {
    any::<bool>().prop_map(Direction::from_bit)
}

fn half() -> impl Strategy<Value = u32> {
    let number = prop_oneof![0u32..300, 0u32..1 << 26];
    prop_oneof![
        20 => (direction(), 0u32..31, number)
            .prop_map(|(direction, delta, number)| Half::Access { direction, delta, number }),
        1 => (0u32..9).prop_map(Half::Skip),
        1 => (prop_oneof![0u32..3, 0u32..1 << 12])
            .prop_map(|segment| Half::Segment { segment, skip: 0 }),
    ]
    .prop_map(Half::encode)
}

fn record() -> impl Strategy<Value = WordRecord> {
    let source = prop_oneof![direction().prop_map(TagSource::Window), Just(TagSource::Mark)];
    let run = (0u32..90, 0u32..40, 0u32..40).prop_map(|(number, reads, writes)| PageRun {
        number,
        reads,
        writes,
        duration: 5,
    });
    prop_oneof![
        (source, any::<u32>()).prop_map(|(source, value)| WordRecord::Tag {
            delta: 1,
            source,
            value
        }),
        run.prop_map(|run| WordRecord::Page { delta: 2, run }),
        (any::<Option<u32>>(), any::<u32>(), any::<u32>()).prop_map(|(partial, reads, writes)| {
            WordRecord::Slice { code: 3, partial, start: 4, reads, writes }
        }),
    ]
}

fn words() -> impl Strategy<Value = Vec<u64>> {
    let word = prop_oneof![
        30 => (half(), half())
            .prop_map(|(high, low)| vec![u64::from(high) << 32 | u64::from(low)]),
        3 => record().prop_map(|record| {
            let (first, rest) = record.encode();
            std::iter::once(first).chain(rest.into_iter().flatten()).collect()
        }),
        1 => any::<u64>().prop_map(|word| vec![word]),
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

fn step() -> impl Strategy<Value = Step> {
    let rows = prop_oneof![Just(Rows::OfWholePages), Just(Rows::WithinPages)];
    let tag_window = prop_oneof![Just(None), (0u64..1 << 20).prop_map(|base| Some(base << 16))];
    let unit = prop_oneof![5 => Just(6u8), 2 => Just(12), 1 => 0u8..16];
    let sync = (unit, prop_oneof![4 => Just(0u32), 1 => 0u32..1 << 12])
        .prop_map(|(unit_log2, segment)| Sync { unit_log2, segment, ..Sync::default() });
    prop_oneof![
        1 => (0usize..2, rows, tag_window)
            .prop_map(|(link, rows, tag_window)| Step::Report { link, rows, tag_window }),
        8 => (0usize..2, sync, words())
            .prop_map(|(link, sync, words)| Step::Data { link, sync, words }),
        2 => Just(Step::Slice),
    ]
}

proptest! {
    #[test]
    fn the_statistics_equal_those_of_the_model(steps in prop::collection::vec(step(), 1..30)) {
        let mut statistics = Statistics::new(Options { hot_pages: HOT_PAGES });
        let mut models = [Model::default(), Model::default()];
        let mut total = AccessCounts::default();
        for step in steps.into_iter().chain([Step::Slice]) {
            match step {
                Step::Report { link, rows, tag_window } => {
                    statistics.frame(link, &info(rows, tag_window));
                    models[link].report(rows, tag_window);
                }
                Step::Data { link, sync, words } => {
                    statistics.frame(link, &frame(FrameKind::Data, sync, &words));
                    models[link].data(sync, &words);
                }
                Step::Slice => {
                    let expected = expected(&mut models, &mut total);
                    prop_assert_eq!(statistics.activity(), expected);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_counted_or_ignored(mut bytes in prop::collection::vec(any::<u8>(), 0..300),
                                            like_a_card: bool) {
        if like_a_card && bytes.len() > 18 {
            let model = frame(FrameKind::Data, Sync::default(), &[]);
            bytes[..15].copy_from_slice(&model[..15]);
        }
        let mut statistics = Statistics::new(Options::default());
        statistics.frame(0, &bytes);
        let AccessCounts { accesses, reads, writes, .. } = statistics.activity().slice;
        prop_assert_eq!(accesses, reads + writes);
    }
}

#[test]
fn rows_are_unknown_before_a_report() {
    let mut statistics = Statistics::new(Options::default());
    let word = u64::from(Half::Access { direction: Direction::Read, delta: 0, number: 1 }.encode());
    let words = vec![word << 32 | word; 9];
    let sync = Sync { unit_log2: 6, ..Sync::default() };
    statistics.frame(3, &frame(FrameKind::Data, sync, &words));
    let before = statistics.activity();
    assert_eq!((before.slice.rows, before.banks), (None, vec![]));
    assert_eq!(before.hot_pages, [HotPage { link: 3, address: PhysAddr(0), accesses: 18 }]);
    statistics.frame(3, &info(Rows::OfWholePages, None));
    statistics.frame(3, &frame(FrameKind::Data, sync, &words));
    let after = statistics.activity();
    assert_eq!(after.slice.rows, Some(RowUse { accesses: 18, row_hits: 17 }));
    assert_eq!(after.banks.len(), 32);
    assert_eq!(after.total.pages, 1);
}

#[test]
fn a_slice_counts_more_accesses_of_a_page_than_32_bits_hold() {
    let mut statistics = Statistics::new(Options::default());
    let (first, rest) = WordRecord::Page {
        delta: 0,
        run: PageRun { number: 7, reads: (1 << 20) - 1, writes: (1 << 20) - 1, duration: 0 },
    }
    .encode();
    let words = [first, rest[0].unwrap()].repeat(92);
    let sync = Sync { unit_log2: 12, ..Sync::default() };
    statistics.frame(0, &info(Rows::OfWholePages, None));
    for _ in 0..40 {
        statistics.frame(0, &frame(FrameKind::Data, sync, &words));
    }
    let Activity { slice, hot_pages, .. } = statistics.activity();
    let accesses = 40 * 92 * 2 * ((1 << 20) - 1);
    assert_eq!(slice.accesses, accesses);
    assert!(accesses > u64::from(u32::MAX));
    assert_eq!((hot_pages[0].accesses, slice.untracked), (accesses, 0));
    assert_eq!(slice.rows, Some(RowUse { accesses, row_hits: accesses - 1 }));
}

#[test]
fn more_pages_than_the_caches_hold_are_counted() {
    const PAGES: u64 = 530_000;
    let mut statistics = Statistics::new(Options { hot_pages: 1 });
    let sync = Sync { unit_log2: 12, ..Sync::default() };
    let half = |number| {
        let direction = Direction::from_bit(number % 4 == 0);
        u64::from(Half::Access { direction, delta: 0, number: number as u32 }.encode())
    };
    let words: Vec<u64> =
        (0..PAGES / 2).map(|pair| half(2 * pair) << 32 | half(2 * pair + 1)).collect();
    for slice in 1..4 {
        for words in words.chunks(185).chain([&[half(77) << 32 | half(77)][..]]) {
            statistics.frame(0, &frame(FrameKind::Data, sync, words));
        }
        let activity = statistics.activity();
        let AccessCounts { pages, writes, accesses, .. } = activity.slice;
        assert_eq!((pages, writes, accesses), (PAGES, PAGES / 4, PAGES + 2));
        assert_eq!((activity.total.pages, activity.total.accesses), (PAGES, slice * (PAGES + 2)));
        assert_eq!(
            activity.hot_pages,
            [HotPage { link: 0, address: PhysAddr(77 << 12), accesses: 3 }]
        );
    }
}

//! Sends the densest traffic of a DDR-200 bus through the card, and checks that `docs/lossless.md`
//! states the numbers that are measured here.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use hmtt_format::config::{Mode, THRESHOLD_FIRST, slice_clocks};
use hmtt_format::frame::{MAX_WORDS, SYNC_WORDS, WORDS_AT};
use hmtt_format::{Block, Event, Report};
use hmtt_sim::engine::{self, FifoSize, Kind, Options, Settings};
use hmtt_sim::gmii::Frame;
use hmtt_sim::output::{OutputError, Sink};
use hmtt_sim::replay::{self, Replay};
use hmtt_sim::saturation::check::{Check, Verdict};
use hmtt_sim::saturation::controller::Issued;
use hmtt_sim::saturation::expected::Expected;
use hmtt_sim::saturation::pattern::{Note, Pattern};
use hmtt_sim::saturation::{self, Found, Saturation, budget};
use hmtt_sim::schedule::tx_period_of;
use hmtt_sim::traffic::Traffic;

/// DDR clocks of each run. The 26 runs have 13 million.
const CLOCKS: u64 = 500_000;
/// DDR clocks of each row in the document's table about the published format.
const PUBLISHED_CLOCKS: u64 = 2_000_000;
/// log2 of the words of the smallest board's FIFO, and of the published one.
/// Words of the longest block: a descriptor and a full frame.
const BLOCK_WORDS: u64 = 1 + MAX_WORDS as u64;
/// Words that are neither sent nor freed: a block on the wire, one behind it, and one that a
/// setting ended.
const BOUND: u64 = 3 * BLOCK_WORDS;
/// Burst length, and the number of settings in a row for which the event queue has space.
const SETTINGS: [(u8, u32); 2] = [(4, 9), (8, 20)];
const DOCUMENT: &str = include_str!("../../docs/lossless.md");

fn verilator() -> Options {
    Options { kind: Kind::Verilator, ..Options::default() }
}

fn saturation(pattern: Pattern, burst_length: u8) -> Saturation {
    let (clocks, seed, fifo) = (CLOCKS, 1, FifoSize::Kb8);
    Saturation { pattern, burst_length, clocks, seed, fifo, engine: verilator() }
}

fn run(what: &Saturation) -> Found {
    let results = saturation::run(what, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(results.verdict.wrong, None, "{what:?}");
    assert_eq!((results.outcome.violations.len(), results.outcome.flaws.len()), (0, 0), "{what:?}");
    results
}

/// Whether the bursts of a line never merge, so that there are twice as many records as lines.
const fn exceeds_the_link(pattern: Pattern, burst_length: u8) -> bool {
    matches!(pattern, Pattern::Interleaved) && burst_length == 4
}

#[test]
fn the_densest_traffic_loses_no_record() {
    let mut clocks = 0;
    for burst_length in [4, 8] {
        for fifo in FifoSize::ALL {
            for pattern in Pattern::ALL {
                if exceeds_the_link(pattern, burst_length) {
                    continue;
                }
                let what = Saturation { fifo, ..saturation(pattern, burst_length) };
                let Found { outcome, verdict, .. } = run(&what);
                assert_eq!((verdict.lost, outcome.summary.lost_records), (0, 0), "{what:?}");
                let peak = outcome.summary.fifo_peak_words;
                assert!((1..=BOUND).contains(&peak), "{what:?}: {peak} words");
                clocks += outcome.summary.clocks;
            }
        }
    }
    assert!(clocks >= 10_000_000);
    // With this fill level the smallest FIFO still has space for a block.
    assert!(BOUND + BLOCK_WORDS < u64::from(FifoSize::Kb8.words()));
}

#[test]
fn records_beyond_the_link_rate_are_lost_and_counted_exactly() {
    for fifo in FifoSize::ALL {
        let what = Saturation { fifo, ..saturation(Pattern::Interleaved, 4) };
        let Found { verdict, paper, .. } = run(&what);
        assert!(verdict.lost > 0 && verdict.first_lost > Some(5_000));
        let published = Saturation { clocks: CLOCKS, ..what };
        assert!(verdict.lost < paper.lost, "{published:?}");
    }
}

#[test]
fn losses_of_a_slow_link_are_reported_with_their_place() {
    for (at, pattern) in Pattern::ALL.into_iter().enumerate() {
        for (burst_length, megabits) in [(4, 100), (8, 300), (8, 20)] {
            // Settings wait for space. On a slow link the event queue overflows meanwhile: it
            // counts bursts, not lines, and commands among the missed events have no effect.
            if pattern == Pattern::Tags && megabits != 300 {
                continue;
            }
            let tx_period_ps = tx_period_of(megabits);
            let engine = Options { tx_period_ps, ..verilator() };
            let (clocks, seed) = (200_000, at as u64 + u64::from(megabits));
            let what = Saturation { clocks, seed, engine, ..saturation(pattern, burst_length) };
            let Found { outcome, verdict, .. } = run(&what);
            assert_eq!(verdict.lost, outcome.summary.lost_records, "{what:?}");
            assert_eq!(verdict.late, 0, "{what:?}");
            if pattern != Pattern::Gaps || megabits < 250 {
                assert!(verdict.lost > 0 && verdict.gaps > 0, "{what:?}");
            }
        }
    }
}

/// A sink that keeps the last report and its clock.
struct LastReport(Rc<RefCell<Option<(Report, u64)>>>);

impl Sink for LastReport {
    fn frame(&mut self, frame: &Frame) -> Result<(), OutputError> {
        let words = frame.bytes[WORDS_AT..].as_chunks().0.iter().copied();
        let words: Vec<u64> = words.map(u64::from_be_bytes).collect();
        let report = Report::decode(&words[usize::from(SYNC_WORDS)..]).ok();
        let clock = Block::new(words.into_iter()).expect("a sync").sync().clock;
        *self.0.borrow_mut() = report.map(|report| (report, clock));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), OutputError> {
        Ok(())
    }
}

/// Runs traffic with one record per burst and turns the run switch off right after it. Returns the
/// verdict, and the number of READs that the card recorded.
fn run_bursts(traffic: &Traffic, megabits: u32) -> (Verdict, u64) {
    let mut parameters = engine::default_parameters(traffic.memory().clone());
    parameters.fifo = FifoSize::Kb8;
    let options = Options { tx_period_ps: tx_period_of(megabits), ..verilator() };
    let mut engine = engine::prepare(&options, &parameters, Settings::default()).unwrap();
    let issued = traffic.truth().iter().map(|access| Issued { access: *access, note: Note::Plain });
    let issued: Vec<Issued> = issued.collect();
    let verdict = Rc::new(RefCell::new(Verdict::default()));
    let check = Check::new(Expected::new(traffic.memory(), issued.into_iter()), verdict.clone());
    let report = Rc::new(RefCell::new(None));
    let outcome = replay::run(Replay {
        spans: traffic.spans(),
        memory: traffic.memory(),
        engine: &mut *engine,
        sinks: vec![Box::new(check), Box::new(LastReport(report.clone()))],
        keep_events: false,
        progress: &mut |_| {},
    });
    let summary = outcome.unwrap_or_else(|error| panic!("{error}")).summary;
    assert_eq!((&verdict.borrow().wrong, verdict.borrow().lost), (&None, summary.lost_records));
    (verdict.take(), report.take().expect("an end frame").0.reads)
}

#[test]
fn an_event_queue_that_overflows_at_the_end_reports_all_it_missed() {
    let lines = |traffic: &mut Traffic, count: u64| {
        for line in 0..count {
            traffic.read(0x80_0000 + line % 256 * 64);
        }
    };
    // The FIFO is full, the report of a setting waits for space, and reads continue.
    let mut traffic = Traffic::new(saturation::memory(8));
    lines(&mut traffic, 5_000);
    traffic.configure(THRESHOLD_FIRST + 7);
    for more in 300..316 {
        let mut traffic = traffic.clone();
        lines(&mut traffic, more);
        let produced = traffic.truth().len() as u64;
        let (verdict, recorded) = run_bursts(&traffic, 100);
        assert_eq!(verdict.received + verdict.lost, produced);
        // All events after the queue was full are missed.
        let missed = produced - recorded;
        assert!((more - 240..more - 200).contains(&missed), "{missed} of {more}");
    }
}

#[test]
fn slices_without_space_continue_and_lose_no_clocks() {
    // Each slice of 1 us contains a read. The link sends a frame of slices in two milliseconds, and
    // a report waits.
    let reads = |traffic: &mut Traffic, count: u64| {
        for line in 0..count {
            traffic.read(0x80_0000 + line % 256 * 64).idle(90);
        }
    };
    let mut traffic = Traffic::new(saturation::memory(8));
    reads(&mut traffic, 1500);
    traffic.configure(THRESHOLD_FIRST + 7);
    reads(&mut traffic, 3000);
    let mut parameters = engine::default_parameters(traffic.memory().clone());
    parameters.fifo = FifoSize::Kb8;
    let options = Options { tx_period_ps: tx_period_of(6), ..verilator() };
    let report = Rc::new(RefCell::new(None));
    let settings = Settings { mode: Mode::Frequency, slice_code: 0, ..Settings::default() };
    let mut engine = engine::prepare(&options, &parameters, settings).unwrap();
    let outcome = replay::run(Replay {
        spans: traffic.spans(),
        memory: traffic.memory(),
        engine: &mut *engine,
        sinks: vec![Box::new(LastReport(report.clone()))],
        keep_events: true,
        progress: &mut |_| {},
    });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let (report, stopped) = report.take().expect("an end frame");
    let whole = slice_clocks(0, traffic.memory().tck_ps).into();
    let mut end = 0;
    for event in &outcome.events {
        if let Event::Slice { clock, length, .. } = event {
            let length = length.clocks().map_or(whole, |clocks| clocks.0);
            assert!(clock.0 >= end, "a slice at {} begins before {end}", clock.0);
            end = clock.0 + length;
        }
    }
    // While the queue was full, far more slices ended than it has entries.
    let missed = traffic.truth().len() as u64 - report.reads;
    assert!(missed > 500, "the queue missed {missed} reads");
    // If the queue had lost an event, the clocks of that event would be missing.
    let last = traffic.truth().last().expect("reads").clock.0;
    assert!((last..last + 500).contains(&stopped), "stopped at {stopped}, not at {last}");
}

#[test]
fn a_few_consecutive_settings_lose_nothing() {
    for (burst_length, settings) in SETTINGS {
        let mut traffic = Traffic::new(saturation::memory(burst_length));
        for _ in 0..settings {
            traffic.configure(THRESHOLD_FIRST + 7);
        }
        traffic.read(0x80_0000);
        let (verdict, recorded) = run_bursts(&traffic, 1000);
        assert_eq!((verdict.lost, verdict.received), (0, recorded));
    }
    let [(_, few), (_, more)] = SETTINGS;
    document_says(&format!("takes {few} in a row in bursts of four, {more} in bursts of eight"));
}

#[test]
fn both_engines_fill_the_fifo_equally() {
    for (pattern, megabits) in [(Pattern::RowMisses, 1000), (Pattern::Random, 50)] {
        let results = [Kind::Rust, Kind::Verilator].map(|kind| {
            let engine = Options { kind, tx_period_ps: tx_period_of(megabits), ..verilator() };
            let what = Saturation { clocks: 12_000, engine, ..saturation(pattern, 4) };
            let Found { mut outcome, verdict, .. } = run(&what);
            outcome.summary.clocks_per_second = 0;
            (outcome.summary, verdict)
        });
        assert_eq!(results[0], results[1], "{pattern:?}");
        assert_eq!(results[0].1.lost > 0, megabits < 1000);
    }
}

/// Formats `1234567` as `1,234,567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Fails unless the document contains this text.
fn document_says(expected: &str) {
    assert!(DOCUMENT.contains(expected), "docs/lossless.md should say:\n{expected}");
}

#[test]
fn the_document_states_the_computed_budget() {
    let frames = budget::frames_per_second();
    let records = frames * f64::from(budget::FRAME_RECORDS);
    let content = budget::record_bytes_per_second();
    let lines = 1e8 / 4.0;
    let mut table = String::new();
    let mut row = |what: &str, value: String| writeln!(table, "| {what} | {value} |").unwrap();
    row("link", format!("{:.1} MB/s", f64::from(budget::LINK_BYTES) / 1e6));
    row("a full frame on the wire", format!("{} bytes", budget::WIRE_BYTES));
    row("full frames", format!("{}/s", thousands(frames as u64)));
    row("line records in a full frame", budget::FRAME_RECORDS.to_string());
    row("line records the link takes", format!("{:.2} million/s", records / 1e6));
    row("bytes of records the link takes", format!("{:.1} MB/s", content / 1e6));
    row("lines a DDR-200 bus carries at most", format!("{:.2} million/s", lines / 1e6));
    row("bytes of records they make, 4 each", format!("{:.1} MB/s", lines * 4.0 / 1e6));
    row("share of the link's records", format!("{:.1} %", 100.0 * lines / records));
    row("the same in 64-bit records", format!("{:.1} MB/s", lines * 8.0 / 1e6));
    document_says(&table);
    document_says(&format!("three blocks of {BLOCK_WORDS} words, {BOUND}"));
    assert!(lines < records, "the link carries the records of a saturated bus");
}

#[test]
fn the_document_states_the_losses_of_the_published_format() {
    let mut table = String::new();
    for pattern in Pattern::ALL {
        for burst_length in [4, 8] {
            let what = Saturation { clocks: PUBLISHED_CLOCKS, ..saturation(pattern, burst_length) };
            let paper = saturation::published(&what);
            let rate = paper.produced as f64 / (PUBLISHED_CLOCKS as f64 / 100.0);
            let first = paper.first_lost.map_or("-".into(), thousands);
            writeln!(
                table,
                "| {} | {burst_length} | {rate:.1} | {:.0} | {:.0} | {first} | {:.1} % |",
                pattern.name(),
                rate * 4.0,
                rate * 8.0,
                paper.lost_percent()
            )
            .unwrap();
        }
    }
    document_says(&table);
}

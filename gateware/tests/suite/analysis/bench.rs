//! Drives the analysis with the handshake of a block writer.

use gateware::analysis::unit::Analysis;
use gateware::config::Settings;
use gateware::record::RecordKind;
use gateware::statistics::Observed;
use hmtt_format::record::{CountGroup, Word, WordRecord, other_count};
use hmtt_format::{MemoryDescription, event};

use crate::direct::{pulse, settle, settled};

/// An access as input of the analysis.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub page: u32,
    pub row_state: u64,
    pub bank: u64,
}

/// The content of a dump.
#[derive(Debug, Default)]
pub struct Dump {
    pub part: u8,
    /// Hot pages: page, C, V.
    pub hot: Vec<(u32, u32, u32)>,
    pub counts: Vec<(CountGroup, u16, u32)>,
    pub clocks: u32,
}

impl Dump {
    pub fn count(&self, group: CountGroup, index: u16) -> u32 {
        let matching = self.counts.iter().filter(|(g, i, _)| (*g, *i) == (group, index));
        matching.map(|(_, _, value)| value).sum()
    }

    pub fn skipped(&self) -> u32 {
        self.count(CountGroup::Other, other_count::ACCESSES_SKIPPED)
    }

    /// Returns each hot page with the least and most accesses that it can have had.
    pub fn bounds(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        self.hot.iter().map(|(page, c, v)| (*page, *c, event::hot_page_at_most(*c, *v)))
    }
}

/// A record's kind and its two words.
type AnalysisRecord = (RecordKind, [u64; 2]);

pub struct Bench {
    pub analysis: Analysis,
    /// Clocks until the block writer releases the record that it holds.
    busy: u32,
    passed: Vec<AnalysisRecord>,
}

/// Number of clocks for which the block writer holds a record.
const HELD: u32 = 5;

impl Bench {
    pub fn new(memory: &MemoryDescription) -> Self {
        let mut analysis = settled(Analysis::new(memory));
        analysis.settings.next = Settings { analysis: true, ..Default::default() };
        analysis.running.next = true;
        analysis.may_send.next = true;
        let mut bench = Self { analysis, busy: 0, passed: Vec::new() };
        bench.clock();
        bench
    }

    /// Applies a clock with the handshake of the block writer.
    pub fn clock(&mut self) {
        let kind = self.passed.last().map_or(RecordKind::Nothing, |(kind, _)| *kind);
        self.analysis.held.next = if self.busy > 0 { kind } else { RecordKind::Nothing };
        settle(&mut self.analysis);
        if self.busy > 0 {
            let words = [self.word(0), self.word(1)];
            let (_, passed) = self.passed.last_mut().expect("what keeps the writer busy");
            if self.busy == HELD {
                *passed = words;
            }
            // The words must not change until the record is released.
            assert_eq!(words[0], passed[0]);
            assert!(kind != RecordKind::HotPage || words[1] == passed[1]);
        }
        let record_kind = self.analysis.record_kind.val();
        let is_taken = self.busy == 0 && self.analysis.offers.val();
        self.analysis.taken.next = is_taken;
        pulse(&mut self.analysis, |analysis| &mut analysis.clock);
        self.busy = self.busy.saturating_sub(1);
        if is_taken {
            self.passed.push((record_kind, [0; 2]));
            self.busy = HELD;
        }
    }

    /// Applies an access, and then `pause` clocks without one.
    pub fn access(&mut self, seen: Seen, pause: u32) {
        self.analysis.observed.next = Observed {
            access: true,
            row_state: seen.row_state.into(),
            bank: seen.bank.into(),
            page: u64::from(seen.page).into(),
            ..Default::default()
        };
        self.clock();
        self.analysis.observed.next = Observed::default();
        self.idle(pause);
    }

    pub fn idle(&mut self, clocks: u32) {
        (0..clocks).for_each(|_| self.clock());
    }

    fn word(&mut self, index: u64) -> u64 {
        self.analysis.word.next = index.into();
        settle(&mut self.analysis);
        let word = self.analysis.high.val().to_u64() << 32 | self.analysis.low.val().to_u64();
        self.analysis.word.next = 0u64.into();
        settle(&mut self.analysis);
        word
    }

    /// Requests a dump.
    pub fn ask(&mut self, all_parts: bool) {
        self.analysis.requests.next.dump = true;
        self.analysis.requests.next.dump_all = all_parts;
        self.clock();
        self.analysis.requests.next.dump = false;
        settle(&mut self.analysis);
    }

    /// Whether no dump is running.
    pub fn is_dumped(&self) -> bool {
        self.analysis.dumped.val() && self.busy == 0
    }

    /// Decodes the only dump so far.
    pub fn read(&mut self) -> Dump {
        let mut dump = Dump::default();
        dump.read(&std::mem::take(&mut self.passed));
        dump
    }

    /// Decodes the dumps so far.
    pub fn take_apart(&mut self) -> Vec<Dump> {
        let passed = std::mem::take(&mut self.passed);
        let begins = |(_, words): &AnalysisRecord| {
            matches!(Word::decode(words[0], || None), Ok(Word::Record(WordRecord::Interval { .. })))
        };
        let starts: Vec<usize> = (0..passed.len()).filter(|at| begins(&passed[*at])).collect();
        let ends = starts.iter().skip(1).copied().chain([passed.len()]);
        let mut dumps = Vec::new();
        for (start, end) in starts.iter().zip(ends) {
            let mut dump = Dump::default();
            dump.read(&passed[*start..end]);
            dumps.push(dump);
        }
        dumps
    }

    /// Makes a dump without accesses meanwhile.
    pub fn dump(&mut self, all_parts: bool) -> Dump {
        self.idle(6);
        self.ask(all_parts);
        let mut clocks = 0;
        while !self.is_dumped() {
            self.clock();
            clocks += 1;
            assert!(clocks < 20_000, "a dump ends");
        }
        Dump { clocks, ..self.read() }
    }
}

impl Dump {
    fn read(&mut self, records: &[AnalysisRecord]) {
        let mut numbers = Vec::new();
        for (at, (kind, words)) in records.iter().enumerate() {
            let long = *kind == RecordKind::HotPage;
            let word = Word::decode(words[0], || long.then_some(words[1])).expect("a word");
            let Word::Record(record) = word else { panic!("{word:?}") };
            match record {
                WordRecord::Interval { part, .. } => {
                    assert_eq!(at, 0, "an interval opens a dump");
                    self.part = part;
                }
                WordRecord::HotPage { dump, page, count, votes } => {
                    assert!(votes != 0 && count <= votes);
                    numbers.push(dump);
                    self.hot.push((page, count, votes));
                }
                WordRecord::Count { dump, group, index, value } => {
                    numbers.push(dump);
                    if (group, index) == (CountGroup::Other, other_count::CLOSING) {
                        assert_eq!((at, at + 1), (value as usize, records.len()));
                    } else {
                        assert_ne!(value, 0);
                        self.counts.push((group, index, value));
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(numbers.windows(2).all(|pair| pair[0] == pair[1]), "one number for a dump");
    }
}

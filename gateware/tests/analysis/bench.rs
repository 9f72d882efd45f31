//! The analysis with a block writer's manners around it.

use gateware::analysis::unit::Analysis;
use gateware::config::Settings;
use gateware::statistics::{Observed, RecordKind};
use hmtt_format::record::{CountGroup, Word, WordRecord, other_count};
use hmtt_format::{MemoryDescription, block};

use crate::direct::{pulse, settle, settled};

/// An access as the analysis sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub page: u32,
    pub row_state: u64,
    pub bank: u64,
}

/// What a dump said.
#[derive(Debug, Default)]
pub struct Dump {
    pub part: u8,
    /// Page, C, V.
    pub hot: Vec<(u32, u32, u32)>,
    pub counts: Vec<(CountGroup, u16, u32)>,
    pub clocks: u32,
}

impl Dump {
    pub fn count(&self, group: CountGroup, index: u16) -> u32 {
        let of = self.counts.iter().filter(|(g, i, _)| (*g, *i) == (group, index));
        of.map(|(_, _, value)| value).sum()
    }

    pub fn skipped(&self) -> u32 {
        self.count(CountGroup::Other, other_count::ACCESSES_SKIPPED)
    }

    /// Least and most accesses of the pages in it.
    pub fn bounds(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        self.hot.iter().map(|(page, c, v)| (*page, *c, block::hot_page_at_most(*c, *v)))
    }
}

pub struct Bench {
    pub analysis: Analysis,
    busy: u32,
}

impl Bench {
    pub fn new(memory: &MemoryDescription) -> Self {
        let mut analysis = settled(Analysis::new(memory));
        analysis.settings.next = Settings { analysis: true, ..Default::default() };
        analysis.free.next = true;
        let mut bench = Self { analysis, busy: 0 };
        bench.clock();
        bench
    }

    pub fn clock(&mut self) {
        pulse(&mut self.analysis, |analysis| &mut analysis.clock);
    }

    /// An access, and then as many clocks without one.
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
        word
    }

    /// Dumps, with the block writer's five clocks a record.
    pub fn dump(&mut self, all: bool) -> Dump {
        self.idle(6);
        let mut dump = Dump::default();
        let mut records = Vec::new();
        self.analysis.steering.next.dump = true;
        self.analysis.steering.next.dump_all = all;
        self.clock();
        self.analysis.steering.next.dump = false;
        settle(&mut self.analysis);
        while !self.analysis.dumped.val() {
            self.busy = self.busy.saturating_sub(1);
            self.analysis.free.next = self.busy == 0;
            settle(&mut self.analysis);
            let told = self.analysis.tell.val();
            if told != RecordKind::Nothing {
                assert_eq!(self.busy, 0, "told only when the writer is free");
                self.busy = 5;
                let words = [self.word(0), self.word(1)];
                records.push((told, words));
            }
            self.clock();
            // The words stand still until the record is done with.
            if self.busy == 3 {
                let (kind, told) = *records.last().expect("what keeps the writer busy");
                assert_eq!(self.word(0), told[0]);
                assert!(kind != RecordKind::HotPage || self.word(1) == told[1]);
            }
            dump.clocks += 1;
            assert!(dump.clocks < 20_000, "a dump ends");
        }
        dump.read(&records);
        dump
    }
}

impl Dump {
    fn read(&mut self, records: &[(RecordKind, [u64; 2])]) {
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

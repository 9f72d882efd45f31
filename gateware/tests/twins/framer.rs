//! Framer: what lies in the FIFO between its start and `committed`, for random words and room.

use std::collections::BTreeMap;

use fastrand::Rng;
use gateware::statistics::framer::Framer;
use gateware::statistics::{FramedWord, WordKind};
use hmtt_format::frame::{FrameKind, MAX_WORDS, PayloadHeader, SYNC_WORDS, Sync};
use hmtt_format::{FORMAT_VERSION, MemoryDescription};

use crate::direct::{chance, pulse, settle, settled, spread, with_seeds};
use crate::memories;

/// One block of the FIFO.
#[derive(Debug)]
pub struct Framed {
    pub header: PayloadHeader,
    pub sync: Sync,
    pub words: Vec<u64>,
}

/// A framer and the FIFO it writes to.
pub struct Bench {
    pub framer: Framer<10>,
    fifo: Vec<u64>,
    start: usize,
    pub blocks: Vec<Framed>,
}

impl Bench {
    /// A framer that has room.
    pub fn new(memory: &MemoryDescription, threshold: u8) -> Self {
        let mut framer = settled(Framer::new(memory));
        framer.settings.next.threshold = u64::from(threshold).into();
        framer.room.next = true;
        Self { framer, fifo: vec![0; 1 << 10], start: 0, blocks: Vec::new() }
    }

    /// One clock; whether the word was taken.
    pub fn clock(&mut self, word: FramedWord) -> bool {
        self.framer.word.next = word;
        settle(&mut self.framer);
        if self.framer.write.val() {
            let word =
                self.framer.write_high.val().to_u64() << 32 | self.framer.write_low.val().to_u64();
            self.fifo[self.framer.write_address.val().index()] = word;
        }
        let taken = self.framer.taken.val();
        pulse(&mut self.framer, |framer| &mut framer.clock);
        self.collect();
        taken
    }

    /// Offers a word until it is taken.
    pub fn hand(&mut self, word: FramedWord) {
        assert!((0..2000).any(|_| self.clock(word)), "{word:?} is taken");
    }

    /// Clocks without a word.
    pub fn wait(&mut self, clocks: usize) {
        for _ in 0..clocks {
            self.clock(FramedWord::default());
        }
    }

    fn collect(&mut self) {
        let end = self.framer.committed.val().index();
        if end == self.start {
            return;
        }
        let word = |offset: usize| self.fifo[self.start + offset & 0x3ff];
        let [.., a, b, c, d] = word(0).to_be_bytes();
        let header = PayloadHeader::decode([a, b, c, d]);
        let count = usize::from(header.words);
        assert_eq!((self.start + count + 1) & 0x3ff, end, "`committed` is behind the last word");
        let words = (1..=count).map(word).collect::<Vec<_>>();
        let (sync, words) = words.split_at(SYNC_WORDS.into());
        let sync = Sync::decode([sync[0], sync[1]]);
        self.blocks.push(Framed { header, sync, words: words.to_vec() });
        self.start = end;
    }
}

/// A word that carries no record.
pub fn steer(kind: WordKind) -> FramedWord {
    FramedWord { kind, ..Default::default() }
}

/// A record of some words; each word's low half tells it from all others.
fn record(rng: &mut Rng, number: &mut u64) -> Vec<FramedWord> {
    let length = if chance(rng, 70) { 1 } else { rng.u64(1..4) };
    let accesses = if chance(rng, 5) { spread(rng, 32) } else { rng.u64(0..3) };
    let (segment, clock) = (spread(rng, 12), spread(rng, 32));
    (0..length)
        .map(|place| {
            *number += 1;
            FramedWord {
                kind: WordKind::Data,
                first: place == 0,
                more: (length - 1 - place).into(),
                high: spread(rng, 32).into(),
                low: (*number).into(),
                accesses: if place == 0 { accesses } else { 0 }.into(),
                records: if place == 0 { rng.u64(0..3) } else { 0 }.into(),
                segment: segment.into(),
                clock: clock.into(),
                clock_high: spread(rng, 16).into(),
            }
        })
        .collect()
}

/// What was offered, by the number of each word; what an overrun adds, by the number before it.
#[derive(Default)]
struct Offered {
    words: BTreeMap<u64, FramedWord>,
    overruns: Vec<(u64, u64, u64)>,
}

/// Each block must hold whole records in order and state exactly what was offered and what was lost
/// before it.
fn check(blocks: &[Framed], offered: &Offered, threshold: u8) {
    let stored: Vec<u64> =
        blocks.iter().flat_map(|block| &block.words).map(|word| word & 0xffff_ffff).collect();
    assert!(stored.is_sorted_by(|a, b| a < b), "in order and once");
    for block in blocks {
        assert_eq!(block.header.version, FORMAT_VERSION);
        assert!(block.header.words <= MAX_WORDS, "{} words", block.header.words);
        assert_eq!(block.header.lost, block.sync.lost as u16);
        let words: Vec<&FramedWord> =
            block.words.iter().map(|word| &offered.words[&(word & 0xffff_ffff)]).collect();
        let first = words[0].low.to_u64();
        assert!(words[0].first, "a block begins with a record");
        assert_eq!(words.last().map(|word| word.more.to_u64()), Some(0), "and ends with one");
        assert_eq!(words[0].segment.to_u64(), u64::from(block.sync.segment));
        let clock = words[0].clock_high.to_u64() << 32 | words[0].clock.to_u64();
        assert_eq!(clock, block.sync.clock);
        let opened = words.iter().rposition(|word| word.first).expect("a record");
        let full = usize::from(SYNC_WORDS) + opened < usize::from(threshold);
        assert!(full, "a block goes on beyond its threshold");
        assert_eq!(block.sync.accesses, accesses_before(offered, first), "accesses before {first}");
        assert_eq!(block.sync.lost, lost_before(offered, &stored, first), "lost before {first}");
    }
}

fn accesses_before(offered: &Offered, number: u64) -> u64 {
    let words: u64 = offered.words.range(..number).map(|(_, word)| word.accesses.to_u64()).sum();
    let missed = offered.overruns.iter().filter(|(before, ..)| *before < number);
    (words + missed.map(|(_, accesses, _)| accesses).sum::<u64>()) & ((1 << 40) - 1)
}

fn lost_before(offered: &Offered, stored: &[u64], number: u64) -> u32 {
    let words =
        offered.words.range(..number).filter(|(number, _)| stored.binary_search(number).is_err());
    let words: u64 = words.map(|(_, word)| word.records.to_u64()).sum();
    let missed = offered.overruns.iter().filter(|(before, ..)| *before < number);
    (words + missed.map(|(_, accesses, faults)| accesses + faults).sum::<u64>()) as u32 & 0xff_ffff
}

#[test]
fn blocks_hold_whole_records_and_syncs_count_exactly() {
    with_seeds(0..40, |rng| {
        let threshold = [8, 32, 187][rng.usize(0..3)];
        let mut bench = Bench::new(&memories::ddr1("tick_clocks = 256"), threshold);
        let (mut offered, mut number) = (Offered::default(), 0);
        for step in 0..3000 {
            bench.framer.room.next = chance(rng, if step % 700 < 400 { 95 } else { 10 });
            match rng.u8(0..40) {
                0 => bench.hand(steer(WordKind::Tick)),
                1 => bench.hand(steer(WordKind::Change)),
                2 => {
                    let (accesses, faults) = (rng.u64(0..100), rng.u64(0..20));
                    offered.overruns.push((number, accesses, faults));
                    bench.hand(FramedWord {
                        accesses: accesses.into(),
                        records: faults.into(),
                        ..steer(WordKind::Overrun)
                    });
                }
                3..8 => bench.wait(rng.usize(0..4)),
                _ => {
                    for word in record(rng, &mut number) {
                        bench.hand(word);
                        offered.words.insert(word.low.to_u64(), word);
                    }
                }
            }
        }
        bench.hand(steer(WordKind::Change));
        bench.wait(10);
        assert!(bench.blocks.iter().all(|block| block.header.kind == FrameKind::Data as u8));
        assert!(bench.blocks.len() > 50, "{} blocks", bench.blocks.len());
        check(&bench.blocks, &offered, threshold);
    });
}

#[test]
fn blocks_are_as_long_as_the_threshold_when_nothing_hurries_them() {
    with_seeds(0..3, |rng| {
        let mut bench = Bench::new(&memories::ddr1(""), 64);
        let (mut offered, mut number) = (Offered::default(), 0);
        for _ in 0..1500 {
            for word in record(rng, &mut number) {
                bench.hand(word);
                offered.words.insert(word.low.to_u64(), word);
            }
        }
        check(&bench.blocks, &offered, 64);
        assert!(bench.blocks.iter().all(|block| block.header.words >= 64));
        assert!(bench.blocks.iter().all(|block| block.sync.lost == 0));
        let wrong = rng.usize(0..bench.blocks.len());
        bench.blocks[wrong].sync.accesses ^= 1;
        let checked = std::panic::catch_unwind(|| check(&bench.blocks, &offered, 64));
        assert!(checked.is_err(), "a wrong count is noticed");
    });
}

#[test]
fn a_long_record_does_not_split_at_the_end_of_a_full_block() {
    let mut bench = Bench::new(&memories::ddr1(""), MAX_WORDS);
    let word = |first, more: u64, number: u64| FramedWord {
        first,
        more: more.into(),
        low: number.into(),
        ..steer(WordKind::Data)
    };
    (0..184).for_each(|number| bench.hand(word(true, 0, number)));
    (0..3).for_each(|place| bench.hand(word(place == 0, 2 - place, 500 + place)));
    bench.hand(steer(WordKind::Change));
    bench.wait(10);
    let words: Vec<u8> = bench.blocks.iter().map(|block| block.header.words).collect();
    assert_eq!(words, [SYNC_WORDS + 184, SYNC_WORDS + 3]);
}

#[test]
fn a_block_waits_for_one_whole_tick_and_no_longer() {
    let mut bench = Bench::new(&memories::ddr1(""), MAX_WORDS);
    bench.hand(FramedWord { first: true, ..steer(WordKind::Data) });
    bench.hand(steer(WordKind::Tick));
    bench.wait(10);
    assert_eq!(bench.blocks.len(), 0, "the first tick may come right after the word");
    bench.hand(steer(WordKind::Tick));
    bench.wait(10);
    assert_eq!(bench.blocks.len(), 1);
}

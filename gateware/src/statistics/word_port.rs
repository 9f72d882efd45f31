//! Writes halves and words into the packet FIFO: forms each word, keeps its address, and writes the
//! descriptor of a finished block.
//!
//! The block writer commands it; at most one half or word is written in each clock.
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_
//! source         <A >            with push_half or push_word
//! chosen             <A >        the record of the clock before is available
//! write                  <A >    to the FIFO
//! ```

use hmtt_format::FORMAT_VERSION;
use hmtt_format::frame::{HEADER_KIND_AT, HEADER_VERSION_AT, HEADER_WORDS_AT};
use rust_hdl::prelude::*;

use super::Heading;
use super::word_source::{Source, WordSource};
use crate::fifo::ports::FifoWriter;
use crate::record::Record;
use crate::reset::{ClearedRegister, Domain, Register};

/// A word that is written next.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Chosen {
    source: Source,
    half: Bits<32>,
    to_high: Bit,
    to_low: Bit,
}

/// See the module's description. `N`: log2 of the FIFO's words.
#[derive(LogicBlock)]
pub struct WordPort<const N: usize> {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Source of the word.
    pub source: Signal<In, Source>,
    /// The half, if the source is a half.
    pub half: Signal<In, Bits<32>>,
    /// Write the half: to the high side of a new word, or to the low side of an incomplete one.
    pub push_half: Signal<In, Bit>,
    /// Write a word; no word is incomplete.
    pub push_word: Signal<In, Bit>,
    /// Write the descriptor: the block is complete.
    pub describe: Signal<In, Bit>,
    /// The word after the next clock is the first word of a block.
    pub restart: Signal<In, Bit>,
    /// Words after which a data block is closed.
    pub threshold: Signal<In, Bits<8>>,
    /// Values for syncs and descriptors.
    pub heading: Signal<In, Heading>,
    /// The record, one clock after the source.
    pub record: Signal<In, Record>,
    /// Bits 63..32 of another unit's word, on that clock.
    pub other_high: Signal<In, Bits<32>>,
    /// Bits 31..0 of that word.
    pub other_low: Signal<In, Bits<32>>,
    /// A word is incomplete: its low half is missing.
    pub low_missing: Signal<Out, Bit>,
    /// The block has `threshold` words, or will have them with the words in the stages.
    pub full: Signal<Out, Bit>,
    /// The block may have too few words left for the longest record.
    pub nearly_full: Signal<Out, Bit>,
    /// Write port of the FIFO.
    pub write: FifoWriter<N>,
    words: WordSource,
    restarts: Register<Bit>,
    chosen: Register<Chosen>,
    out_high: Register<Bits<32>>,
    out_low: Register<Bits<32>>,
    out_to_high: Register<Bit>,
    out_to_low: Register<Bit>,
    out_address: Register<Bits<N>>,
    start: Register<Bits<N>>,
    start_written: Register<Bits<N>>,
    start_stored: Register<Bits<N>>,
    address: Register<Bits<N>>,
    count: ClearedRegister<Bits<8>>,
    left: Register<Bits<8>>,
    is_nearly_full: Register<Bit>,
    is_low_missing: Register<Bit>,
    number_segment: Signal<Local, Bits<12>>,
    delta: Signal<Local, Bits<25>>,
    lost: Signal<Local, Bits<24>>,
    version: Constant<Bits<32>>,
    nearly_full_below: Constant<Bits<8>>,
    kind_at: Constant<Bits<5>>,
    words_at: Constant<Bits<5>>,
    one_word: Constant<Bits<8>>,
}

/// Clocks from `describe` until `committed` includes the block, which is stored by then.
pub const COMMIT_CLOCKS: u64 = 3;

impl<const N: usize> Default for WordPort<N> {
    fn default() -> Self {
        block! {
            Self {
                version: Constant::new((u64::from(FORMAT_VERSION) << HEADER_VERSION_AT).into()),
                // The longest record has three words, and two words may be in the stages.
                nearly_full_below: Constant::new(5u64.into()),
                kind_at: Constant::new(u64::from(HEADER_KIND_AT).into()),
                words_at: Constant::new(u64::from(HEADER_WORDS_AT).into()),
                one_word: Constant::new(1u64.into()),
            }
            default: clock, source, half, push_half, push_word, describe, restart, threshold,
                heading, record, other_high, other_low, low_missing, full, nearly_full, write,
                words, restarts, chosen, out_high, out_low, out_to_high, out_to_low, out_address,
                start, start_written, start_stored, address, count, left, is_nearly_full,
                is_low_missing, number_segment, delta, lost
        }
    }
}

impl<const N: usize> Logic for WordPort<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            restarts,
            chosen,
            out_high,
            out_low,
            out_to_high,
            out_to_low,
            out_address,
            start,
            start_written,
            start_stored,
            address,
            count,
            left,
            is_nearly_full,
            is_low_missing
        );
        self.chosen.d.next.source = self.source.val();
        self.chosen.d.next.half = self.half.val();
        self.chosen.d.next.to_high = (self.push_half.val() & !self.is_low_missing.q.val())
            | self.push_word.val()
            | self.describe.val();
        self.chosen.d.next.to_low = (self.push_half.val() & self.is_low_missing.q.val())
            | self.push_word.val()
            | self.describe.val();
        if self.push_half.val() {
            self.is_low_missing.d.next = !self.is_low_missing.q.val();
        }
        if self.chosen.q.val().to_low {
            self.address.d.next = self.address.q.val() + 1;
            self.count.d.next = self.count.q.val() + 1;
            self.left.d.next = self.left.q.val() - 1;
        }
        self.restarts.d.next = self.restart.val();
        if self.restarts.q.val() {
            self.address.d.next = self.start.q.val() + 1;
            self.count.d.next = bits::<8>(0);
            self.left.d.next = self.threshold.val();
            self.is_low_missing.d.next = false;
        }
        if self.describe.val() {
            self.start.d.next = self.address.q.val();
        }
        self.low_missing.next = self.is_low_missing.q.val();
        self.full.next = (self.left.q.val() == 0)
            | ((self.left.q.val() == self.one_word.val()) & self.chosen.q.val().to_low);
        self.is_nearly_full.d.next = self.left.q.val() < self.nearly_full_below.val();
        self.nearly_full.next = self.is_nearly_full.q.val();

        self.words.source.next = self.chosen.q.val().source;
        self.words.half.next = self.chosen.q.val().half;
        self.words.unit.next = self.heading.val().unit;
        self.words.segment.next = self.heading.val().segment;
        self.words.clock_low.next = self.heading.val().clock_low;
        self.words.clock_high.next = self.heading.val().clock_high;
        self.words.lost.next = self.heading.val().lost;
        self.words.accesses_low.next = self.heading.val().accesses_low;
        self.words.accesses_high.next = self.heading.val().accesses_high;
        self.lost.next = self.heading.val().lost;
        self.words.header.next = self.version.val()
            | (bit_cast::<32, 4>(self.heading.val().kind) << self.kind_at.val())
            | (bit_cast::<32, 8>(self.count.q.val()) << self.words_at.val())
            | bit_cast::<32, 16>(self.lost.val().get_bits::<16>(0));
        self.number_segment.next = self.record.val().segment;
        self.delta.next = self.record.val().delta;
        self.words.write.next = self.record.val().write;
        self.words.number.next = self.record.val().number;
        self.words.value_high.next = self.number_segment.val().get_bits::<6>(0);
        self.words.delta.next = self.delta.val().get_bits::<16>(0);
        self.words.reads.next = self.record.val().reads;
        self.words.writes.next = self.record.val().writes;
        self.words.duration.next = self.record.val().duration;
        self.words.other_high.next = self.other_high.val();
        self.words.other_low.next = self.other_low.val();
        self.out_high.d.next = self.words.high.val();
        self.out_low.d.next = self.words.low.val();
        self.out_to_high.d.next = self.chosen.q.val().to_high;
        self.out_to_low.d.next = self.chosen.q.val().to_low;
        self.start_written.d.next = self.start.q.val();
        self.start_stored.d.next = self.start_written.q.val();
        self.out_address.d.next = self.address.q.val();
        if self.chosen.q.val().source == Source::Descriptor {
            // `start` is already the start of the next block.
            self.out_address.d.next = self.start_written.q.val();
        }
        self.write.high.next = self.out_high.q.val();
        self.write.low.next = self.out_low.q.val();
        self.write.high_enable.next = self.out_to_high.q.val();
        self.write.low_enable.next = self.out_to_low.q.val();
        self.write.address.next = self.out_address.q.val();
        self.write.committed.next = self.start_stored.q.val();
    }
}

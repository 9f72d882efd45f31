//! Makes the words of a slice record ([`hmtt_format::record::WordRecord::Slice`]). Purely
//! combinational.

use hmtt_format::record;
use rust_hdl::prelude::*;

use super::{SliceCounts, SlotClock};

/// See the module's description.
#[derive(LogicBlock)]
pub struct SliceWords {
    /// Index of the word.
    pub index: Signal<In, Bits<2>>,
    /// Time slice code in force.
    pub code: Signal<In, Bits<5>>,
    /// Counts of the slice.
    pub counts: Signal<In, SliceCounts>,
    /// Bits 63..32 of the word.
    pub high: Signal<Out, Bits<32>>,
    /// Bits 31..0 of the word.
    pub low: Signal<Out, Bits<32>>,
    first: Signal<Local, SlotClock>,
    start: Signal<Local, Bits<24>>,
    head: Constant<Bits<32>>,
    partial_flag: Constant<Bits<32>>,
    code_at: Constant<Bits<5>>,
    clock_low_bits: Constant<Bits<5>>,
    clock_mid_bits: Constant<Bits<5>>,
    counts_word: Constant<Bits<2>>,
    length_word: Constant<Bits<2>>,
}

impl Default for SliceWords {
    fn default() -> Self {
        let word = |value: u32| Constant::new(u64::from(value).into());
        block! {
            Self {
                head: word(record::WORD_ESCAPE | record::KIND_SLICE << record::KIND_AT),
                partial_flag: word(1 << record::SLICE_PARTIAL_AT),
                code_at: Constant::new(u64::from(record::SLICE_CODE_AT).into()),
                clock_low_bits: Constant::new(u64::from(SlotClock::LOW_BITS).into()),
                clock_mid_bits: Constant::new(u64::from(u32::BITS - SlotClock::LOW_BITS).into()),
                counts_word: Constant::new(1u64.into()),
                length_word: Constant::new(2u64.into()),
            }
            default: index, code, counts, high, low, first, start
        }
    }
}

impl Logic for SliceWords {
    #[hdl_gen]
    fn update(&mut self) {
        self.first.next = self.counts.val().first;
        self.start.next = self.first.val().high;
        self.high.next = self.head.val()
            | (bit_cast::<32, 5>(self.code.val()) << self.code_at.val())
            | bit_cast::<32, 16>(
                self.start.val().get_bits::<16>(self.clock_mid_bits.val().index()),
            );
        if self.counts.val().partial {
            self.high.next = self.head.val()
                | self.partial_flag.val()
                | (bit_cast::<32, 5>(self.code.val()) << self.code_at.val())
                | bit_cast::<32, 16>(
                    self.start.val().get_bits::<16>(self.clock_mid_bits.val().index()),
                );
        }
        self.low.next = (bit_cast::<32, 8>(self.start.val().get_bits::<8>(0))
            << self.clock_low_bits.val())
            | bit_cast::<32, 24>(self.first.val().low);
        if self.index.val() == self.counts_word.val() {
            self.high.next = self.counts.val().reads;
            self.low.next = self.counts.val().writes;
        } else if self.index.val() == self.length_word.val() {
            self.high.next = bits::<32>(0);
            self.low.next = self.counts.val().length;
        }
    }
}

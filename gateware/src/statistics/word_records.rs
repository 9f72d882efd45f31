//! A record that takes whole words to those words ([`hmtt_format::record::WordRecord`]), one at a time.
//!
//! Purely combinational. `part` says which word is wanted; `more` how many follow it.

use hmtt_format::record;
use rust_hdl::prelude::*;

use super::{Record, RecordKind};

/// See the module's description.
#[derive(LogicBlock)]
pub struct WordRecords {
    /// The record.
    pub record: Signal<In, Record>,
    /// What is left of its delta.
    pub delta: Signal<In, Bits<32>>,
    /// Time slice code in force.
    pub slice_code: Signal<In, Bits<5>>,
    /// Slices count as accesses: there are no other records of them.
    pub slices_count: Signal<In, Bit>,
    /// Which word of the record.
    pub part: Signal<In, Bits<2>>,
    /// Bits 63..32 of the word.
    pub high: Signal<Out, Bits<32>>,
    /// Bits 31..0 of the word.
    pub low: Signal<Out, Bits<32>>,
    /// Words of the record that follow.
    pub more: Signal<Out, Bits<2>>,
    /// Accesses in the record; 0 with words that do not open it.
    pub accesses: Signal<Out, Bits<32>>,
    short_page: Signal<Local, Bit>,
    runs: Signal<Local, Bits<32>>,
    value: Signal<Local, Bits<32>>,
    number: Signal<Local, Bits<32>>,
    timed: Signal<Local, Bits<32>>,
    max_page_delta: Constant<Bits<32>>,
    max_page_count: Constant<Bits<32>>,
    max_page_duration: Constant<Bits<32>>,
    word_delta_at: Constant<Bits<5>>,
    page_delta_at: Constant<Bits<5>>,
    page_number_low: Constant<Bits<5>>,
    page_reads_at: Constant<Bits<5>>,
    page_writes_at: Constant<Bits<5>>,
    slice_partial: Constant<Bits<32>>,
    slice_code_at: Constant<Bits<5>>,
    tag_mark: Constant<Bits<32>>,
    tag_write: Constant<Bits<32>>,
    tag_head: Constant<Bits<32>>,
    fault_head: Constant<Bits<32>>,
    page_head: Constant<Bits<32>>,
    long_page_head: Constant<Bits<32>>,
    slice_head: Constant<Bits<32>>,
    fault_bank_at: Constant<Bits<5>>,
}

impl Default for WordRecords {
    fn default() -> Self {
        let word = |value: u32| Constant::new(u64::from(value).into());
        let place = |value: u32| Constant::new(u64::from(value).into());
        let head = |kind: u32| word(record::WORD_ESCAPE | kind << record::KIND_AT);
        Self {
            record: Default::default(),
            delta: Default::default(),
            slice_code: Default::default(),
            slices_count: Default::default(),
            part: Default::default(),
            high: Default::default(),
            low: Default::default(),
            more: Default::default(),
            accesses: Default::default(),
            short_page: Default::default(),
            runs: Default::default(),
            value: Default::default(),
            number: Default::default(),
            timed: Default::default(),
            max_page_delta: word(record::MAX_PAGE_DELTA),
            max_page_count: word(record::MAX_PAGE_COUNT),
            max_page_duration: word(record::MAX_PAGE_DURATION),
            word_delta_at: place(record::WORD_DELTA_AT),
            page_delta_at: place(record::PAGE_DELTA_AT),
            page_number_low: place(record::PAGE_NUMBER_LOW),
            page_reads_at: place(record::PAGE_READS_AT),
            page_writes_at: place(record::PAGE_WRITES_AT),
            slice_partial: word(1 << record::SLICE_PARTIAL_AT),
            slice_code_at: place(record::SLICE_CODE_AT),
            tag_mark: word(1 << record::TAG_MARK_AT),
            tag_write: word(1 << record::TAG_WRITE_AT),
            tag_head: head(record::KIND_TAG),
            fault_head: head(record::KIND_FAULT),
            page_head: head(record::KIND_PAGE),
            long_page_head: head(record::KIND_PAGE_LONG),
            slice_head: head(record::KIND_SLICE),
            fault_bank_at: place(record::FAULT_BANK_AT),
        }
    }
}

impl Logic for WordRecords {
    #[hdl_gen]
    fn update(&mut self) {
        self.high.next = bits::<32>(0);
        self.low.next = bits::<32>(0);
        self.more.next = bits::<2>(0);
        self.accesses.next = bits::<32>(0);
        self.value.next = self.record.val().value;
        self.number.next = bit_cast::<32, 26>(self.record.val().number);
        self.runs.next = self.record.val().reads + self.record.val().writes;
        self.timed.next = bits::<32>(0);
        self.short_page.next = (self.record.val().reads <= self.max_page_count.val())
            & (self.record.val().writes <= self.max_page_count.val())
            & (self.record.val().duration <= self.max_page_duration.val())
            & (self.delta.val() <= self.max_page_delta.val());
        match self.record.val().kind {
            RecordKind::Tag => {
                self.timed.next = self.delta.val() << self.word_delta_at.val();
                self.high.next = self.tag_head.val() | self.timed.val();
                self.low.next = self.value.val();
                self.accesses.next = bits::<32>(1);
                if self.record.val().flag {
                    self.accesses.next = bits::<32>(0);
                    self.high.next = self.tag_head.val() | self.timed.val() | self.tag_mark.val();
                } else if self.record.val().write {
                    self.high.next = self.tag_head.val() | self.timed.val() | self.tag_write.val();
                }
            }
            RecordKind::Fault => {
                self.timed.next = self.delta.val() << self.word_delta_at.val();
                self.high.next = self.fault_head.val()
                    | self.timed.val()
                    | bit_cast::<32, 6>(self.value.val().get_bits::<6>(8));
                self.low.next = bit_cast::<32, 6>(self.value.val().get_bits::<6>(0))
                    << self.fault_bank_at.val();
            }
            RecordKind::Page => {
                if self.part.val() != 0 {
                    self.high.next =
                        (self.record.val().reads << 12) | (self.record.val().writes >> 8);
                    self.low.next = (self.record.val().writes << 24) | self.record.val().duration;
                } else if self.short_page.val() {
                    self.accesses.next = self.runs.val();
                    self.high.next = self.page_head.val()
                        | (self.delta.val() << self.page_delta_at.val())
                        | (self.number.val() >> self.page_number_low.val());
                    self.low.next = (self.number.val() << 20)
                        | (self.record.val().reads << self.page_reads_at.val())
                        | (self.record.val().writes << self.page_writes_at.val())
                        | self.record.val().duration;
                } else {
                    self.accesses.next = self.runs.val();
                    self.more.next = bits::<2>(1);
                    self.high.next = self.long_page_head.val()
                        | (self.delta.val() << self.word_delta_at.val())
                        | (self.number.val() >> 20);
                    self.low.next = self.number.val() << 12;
                }
            }
            RecordKind::Slice => {
                if self.part.val() == 0 {
                    if self.slices_count.val() {
                        self.accesses.next = self.runs.val();
                    }
                    self.more.next = bits::<2>(1);
                    self.timed.next =
                        bit_cast::<32, 5>(self.slice_code.val()) << self.slice_code_at.val();
                    self.high.next = self.slice_head.val()
                        | self.timed.val()
                        | bit_cast::<32, 16>(self.record.val().start_high);
                    if self.record.val().flag {
                        self.more.next = bits::<2>(2);
                        self.high.next = self.slice_head.val()
                            | self.timed.val()
                            | self.slice_partial.val()
                            | bit_cast::<32, 16>(self.record.val().start_high);
                    }
                    self.low.next = self.value.val();
                } else if self.part.val() == 1 {
                    self.high.next = self.record.val().reads;
                    self.low.next = self.record.val().writes;
                    if self.record.val().flag {
                        self.more.next = bits::<2>(1);
                    }
                } else {
                    self.low.next = self.record.val().duration;
                }
            }
            _ => {}
        }
    }
}

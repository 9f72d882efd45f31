//! Records to words: halves in pairs, word records whole ([`hmtt_format::record`]).
//!
//! A record takes as many clocks as it needs halves and words; accesses of one segment that follow
//! each other within 30 clocks take one. Each word leaves with the clock and segment that held before
//! it, so a block may start with any word. Packing is exact: the time that passed is in the record's
//! delta or in a skip, never rounded.

use hmtt_format::record;
use rust_hdl::prelude::*;

use super::{FramedWord, Record, RecordKind, WordKind};

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    AwaitRecord,
    SecondWord,
    ThirdWord,
}

/// A half that waits for its partner, with the state before it.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Held {
    valid: Bit,
    half: Bits<32>,
    accesses: Bits<2>,
    segment: Bits<12>,
    clock: Bits<32>,
    clock_high: Bits<16>,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct Packer {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// The record; `Nothing` when there is none.
    pub record: Signal<In, Record>,
    /// The record was taken.
    pub taken: Signal<Out, Bit>,
    /// Slices count as accesses: there are no other records of them.
    pub slices_count: Signal<In, Bit>,
    /// The word; `Nothing` when there is none.
    pub word: Signal<Out, FramedWord>,
    /// The word was taken.
    pub word_taken: Signal<In, Bit>,
    /// No half and no word is held.
    pub empty: Signal<Out, Bit>,
    state: DFF<State>,
    made: DFF<FramedWord>,
    held: DFF<Held>,
    segment: DFF<Bits<12>>,
    base: DFF<Bits<32>>,
    base_high: DFF<Bits<16>>,
    skipped: DFF<Bit>,
    free: Signal<Local, Bit>,
    take: Signal<Local, Bit>,
    delta: Signal<Local, Bits<32>>,
    long_delta: Signal<Local, Bit>,
    other_segment: Signal<Local, Bit>,
    push_half: Signal<Local, Bit>,
    half: Signal<Local, Bits<32>>,
    half_accesses: Signal<Local, Bits<2>>,
    is_word_record: Signal<Local, Bit>,
    has_address: Signal<Local, Bit>,
    skip_due: Signal<Local, Bit>,
    arrive: Signal<Local, Bit>,
    short_page: Signal<Local, Bit>,
    runs: Signal<Local, Bits<32>>,
    value: Signal<Local, Bits<32>>,
    reads: Signal<Local, Bits<32>>,
    pair_accesses: Signal<Local, Bits<2>>,
    empty_half: Constant<Bits<32>>,
    segment_half: Constant<Bits<32>>,
    segment_at: Constant<Bits<5>>,
    delta_at: Constant<Bits<5>>,
    write_bit: Constant<Bits<32>>,
    max_delta: Constant<Bits<32>>,
    max_word_delta: Constant<Bits<32>>,
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
    /// Time slice code in force.
    pub slice_code: Signal<In, Bits<5>>,
}

impl Default for Packer {
    fn default() -> Self {
        let word = |value: u32| Constant::new(u64::from(value).into());
        let place = |value: u32| Constant::new(u64::from(value).into());
        let head = |kind: u32| word(record::WORD_ESCAPE | kind << record::KIND_AT);
        Self {
            clock: Default::default(),
            record: Default::default(),
            taken: Default::default(),
            slices_count: Default::default(),
            word: Default::default(),
            word_taken: Default::default(),
            empty: Default::default(),
            state: Default::default(),
            made: Default::default(),
            held: Default::default(),
            segment: Default::default(),
            base: Default::default(),
            base_high: Default::default(),
            skipped: Default::default(),
            free: Default::default(),
            take: Default::default(),
            delta: Default::default(),
            long_delta: Default::default(),
            other_segment: Default::default(),
            push_half: Default::default(),
            half: Default::default(),
            half_accesses: Default::default(),
            is_word_record: Default::default(),
            has_address: Default::default(),
            skip_due: Default::default(),
            arrive: Default::default(),
            short_page: Default::default(),
            runs: Default::default(),
            value: Default::default(),
            reads: Default::default(),
            pair_accesses: Default::default(),
            empty_half: word(record::EMPTY_HALF),
            segment_half: word(record::EMPTY_HALF | 1 << record::SEGMENT_FLAG_AT),
            segment_at: place(record::SEGMENT_AT),
            delta_at: place(record::DELTA_AT),
            write_bit: word(1 << record::WRITE_AT),
            max_delta: word(record::MAX_DELTA),
            max_word_delta: word(record::MAX_WORD_DELTA),
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
            slice_code: Default::default(),
        }
    }
}

impl Logic for Packer {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, made, held, segment, base, base_high, skipped);
        self.free.next = self.word_taken.val() | (self.made.q.val().kind == WordKind::Nothing);
        self.empty.next = !self.held.q.val().valid & (self.made.q.val().kind == WordKind::Nothing);
        self.word.next = self.made.q.val();
        if self.word_taken.val() {
            self.made.d.next.kind = WordKind::Nothing;
        }
        self.take.next = false;
        self.push_half.next = false;
        self.arrive.next = false;
        self.half.next = self.empty_half.val();
        self.half_accesses.next = bits::<2>(0);

        // What is left of the record's delta: nothing once a skip has told it.
        self.delta.next = self.record.val().delta;
        if self.skipped.q.val() {
            self.delta.next = bits::<32>(0);
        }
        self.value.next = self.record.val().value;
        self.reads.next = self.record.val().reads;
        self.runs.next = self.record.val().reads + self.record.val().writes;
        self.short_page.next = (self.record.val().reads <= self.max_page_count.val())
            & (self.record.val().writes <= self.max_page_count.val())
            & (self.record.val().duration <= self.max_page_duration.val())
            & (self.delta.val() <= self.max_page_delta.val());
        self.has_address.next = (self.record.val().kind == RecordKind::Access)
            | (self.record.val().kind == RecordKind::Page);
        self.is_word_record.next = (self.record.val().kind == RecordKind::Tag)
            | (self.record.val().kind == RecordKind::Fault)
            | (self.record.val().kind == RecordKind::Page);
        self.other_segment.next =
            self.has_address.val() & (self.record.val().segment != self.segment.q.val());
        self.long_delta.next = ((self.record.val().kind == RecordKind::Access)
            & (self.delta.val() > self.max_delta.val()))
            | (self.is_word_record.val() & (self.delta.val() > self.max_word_delta.val()));
        self.skip_due.next = self.long_delta.val()
            | ((self.record.val().kind == RecordKind::Tick)
                & self.record.val().flag
                & !self.skipped.q.val());

        if self.free.val() & (self.record.val().kind != RecordKind::Nothing) {
            self.made.d.next.first = true;
            self.made.d.next.more = bits::<2>(0);
            self.made.d.next.records = bits::<8>(1);
            self.made.d.next.accesses = bits::<32>(0);
            self.made.d.next.segment = self.segment.q.val();
            self.made.d.next.clock = self.base.q.val();
            self.made.d.next.clock_high = self.base_high.q.val();
            if self.skip_due.val() {
                self.push_half.next = true;
                self.half.next = self.empty_half.val() | self.delta.val();
                self.arrive.next = true;
                self.skipped.d.next = true;
            } else if self.other_segment.val() {
                self.push_half.next = true;
                self.half.next = self.segment_half.val()
                    | (bit_cast::<32, 12>(self.record.val().segment) << self.segment_at.val());
                self.segment.d.next = self.record.val().segment;
            } else if self.record.val().kind == RecordKind::Access {
                self.push_half.next = true;
                self.half.next = (self.delta.val() << self.delta_at.val())
                    | bit_cast::<32, 26>(self.record.val().number);
                if self.record.val().write {
                    self.half.next = self.write_bit.val()
                        | (self.delta.val() << self.delta_at.val())
                        | bit_cast::<32, 26>(self.record.val().number);
                }
                self.half_accesses.next = bits::<2>(1);
                self.arrive.next = true;
                self.take.next = true;
            } else if self.held.q.val().valid {
                // Whatever comes next takes whole words: let the waiting half go.
                self.push_half.next = true;
            } else {
                match self.record.val().kind {
                    RecordKind::Tag => {
                        self.made.d.next.kind = WordKind::Data;
                        self.made.d.next.high =
                            self.tag_head.val() | (self.delta.val() << self.word_delta_at.val());
                        self.made.d.next.low = self.record.val().value;
                        self.made.d.next.accesses = bits::<32>(1);
                        if self.record.val().flag {
                            self.made.d.next.accesses = bits::<32>(0);
                            self.made.d.next.high = self.tag_head.val()
                                | (self.delta.val() << self.word_delta_at.val())
                                | self.tag_mark.val();
                        } else if self.record.val().write {
                            self.made.d.next.high = self.tag_head.val()
                                | (self.delta.val() << self.word_delta_at.val())
                                | self.tag_write.val();
                        }
                        self.arrive.next = true;
                        self.take.next = true;
                    }
                    RecordKind::Fault => {
                        self.made.d.next.kind = WordKind::Data;
                        self.made.d.next.high = self.fault_head.val()
                            | (self.delta.val() << self.word_delta_at.val())
                            | bit_cast::<32, 6>(self.value.val().get_bits::<6>(8));
                        self.made.d.next.low = bit_cast::<32, 6>(self.value.val().get_bits::<6>(0))
                            << self.fault_bank_at.val();
                        self.arrive.next = true;
                        self.take.next = true;
                    }
                    RecordKind::Page => {
                        self.made.d.next.kind = WordKind::Data;
                        self.made.d.next.accesses = self.runs.val();
                        self.arrive.next = true;
                        if self.short_page.val() {
                            self.made.d.next.high = self.page_head.val()
                                | (self.delta.val() << self.page_delta_at.val())
                                | (bit_cast::<32, 26>(self.record.val().number)
                                    >> self.page_number_low.val());
                            self.made.d.next.low = (bit_cast::<32, 26>(self.record.val().number)
                                << 20)
                                | (self.record.val().reads << self.page_reads_at.val())
                                | (self.record.val().writes << self.page_writes_at.val())
                                | self.record.val().duration;
                            self.take.next = true;
                        } else {
                            self.made.d.next.high = self.long_page_head.val()
                                | (self.delta.val() << self.word_delta_at.val())
                                | (bit_cast::<32, 26>(self.record.val().number) >> 20);
                            self.made.d.next.low =
                                bit_cast::<32, 26>(self.record.val().number) << 12;
                            self.made.d.next.more = bits::<2>(1);
                            self.state.d.next = State::SecondWord;
                        }
                    }
                    RecordKind::Slice => {
                        self.made.d.next.kind = WordKind::Data;
                        self.made.d.next.high = self.slice_head.val()
                            | (bit_cast::<32, 5>(self.slice_code.val())
                                << self.slice_code_at.val())
                            | bit_cast::<32, 16>(self.record.val().start_high);
                        self.made.d.next.more = bits::<2>(1);
                        if self.record.val().flag {
                            self.made.d.next.high = self.slice_head.val()
                                | self.slice_partial.val()
                                | (bit_cast::<32, 5>(self.slice_code.val())
                                    << self.slice_code_at.val())
                                | bit_cast::<32, 16>(self.record.val().start_high);
                            self.made.d.next.more = bits::<2>(2);
                        }
                        self.made.d.next.low = self.record.val().value;
                        if self.slices_count.val() {
                            self.made.d.next.accesses = self.runs.val();
                        }
                        self.state.d.next = State::SecondWord;
                    }
                    RecordKind::Overrun => {
                        self.made.d.next.kind = WordKind::Overrun;
                        self.made.d.next.accesses = self.record.val().value;
                        self.made.d.next.records = self.reads.val().get_bits::<8>(0);
                        self.take.next = true;
                    }
                    _ => {
                        self.made.d.next.clock = self.record.val().clock;
                        self.made.d.next.clock_high = self.record.val().clock_high;
                        self.take.next = true;
                        if self.record.val().kind == RecordKind::Tick {
                            self.made.d.next.kind = WordKind::Tick;
                        } else if self.record.val().kind == RecordKind::Change {
                            self.made.d.next.kind = WordKind::Change;
                        } else if self.record.val().kind == RecordKind::Stop {
                            self.made.d.next.kind = WordKind::Stop;
                        } else {
                            self.made.d.next.kind = WordKind::Start;
                            self.arrive.next = true;
                        }
                    }
                }
            }
            match self.state.q.val() {
                State::AwaitRecord => {}
                State::SecondWord => {
                    self.made.d.next.kind = WordKind::Data;
                    self.made.d.next.first = false;
                    self.made.d.next.accesses = bits::<32>(0);
                    self.arrive.next = false;
                    self.state.d.next = State::AwaitRecord;
                    self.take.next = true;
                    self.made.d.next.more = bits::<2>(0);
                    if self.record.val().kind == RecordKind::Slice {
                        self.made.d.next.high = self.record.val().reads;
                        self.made.d.next.low = self.record.val().writes;
                        if self.record.val().flag {
                            self.made.d.next.more = bits::<2>(1);
                            self.state.d.next = State::ThirdWord;
                            self.take.next = false;
                        }
                    } else {
                        self.made.d.next.high =
                            (self.record.val().reads << 12) | (self.record.val().writes >> 8);
                        self.made.d.next.low =
                            (self.record.val().writes << 24) | self.record.val().duration;
                    }
                }
                State::ThirdWord => {
                    self.made.d.next.kind = WordKind::Data;
                    self.made.d.next.first = false;
                    self.made.d.next.accesses = bits::<32>(0);
                    self.made.d.next.more = bits::<2>(0);
                    self.made.d.next.high = bits::<32>(0);
                    self.made.d.next.low = self.record.val().duration;
                    self.state.d.next = State::AwaitRecord;
                    self.take.next = true;
                }
                _ => {
                    self.state.d.next = State::AwaitRecord;
                }
            }
        }

        self.pair_accesses.next = self.held.q.val().accesses + self.half_accesses.val();
        if self.push_half.val() {
            if self.held.q.val().valid {
                self.held.d.next.valid = false;
                self.made.d.next.kind = WordKind::Data;
                self.made.d.next.high = self.held.q.val().half;
                self.made.d.next.low = self.half.val();
                self.made.d.next.segment = self.held.q.val().segment;
                self.made.d.next.clock = self.held.q.val().clock;
                self.made.d.next.clock_high = self.held.q.val().clock_high;
                self.made.d.next.accesses = bit_cast::<32, 2>(self.pair_accesses.val());
                self.made.d.next.records = bit_cast::<8, 2>(self.pair_accesses.val());
            } else {
                self.held.d.next.valid = true;
                self.held.d.next.half = self.half.val();
                self.held.d.next.accesses = self.half_accesses.val();
                self.held.d.next.segment = self.segment.q.val();
                self.held.d.next.clock = self.base.q.val();
                self.held.d.next.clock_high = self.base_high.q.val();
            }
        }
        if self.arrive.val() {
            self.base.d.next = self.record.val().clock;
            self.base_high.d.next = self.record.val().clock_high;
        }
        if self.take.val() {
            self.skipped.d.next = false;
        }
        self.taken.next = self.take.val();
    }
}

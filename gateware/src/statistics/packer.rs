//! Records to words: halves in pairs, word records whole ([`hmtt_format::record`]).
//!
//! A record takes as many clocks as it needs halves and words; accesses of one segment that follow
//! each other within 30 clocks take one. Each word leaves with the clock and segment that held before
//! it, so a block may start with any word. Packing is exact: the time that passed is in the record's
//! delta or in a skip, never rounded.

use hmtt_format::record;
use rust_hdl::prelude::*;

use super::word_records::WordRecords;
use super::{FramedWord, Record, RecordKind, WordKind};

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
    /// Time slice code in force.
    pub slice_code: Signal<In, Bits<5>>,
    /// Slices count as accesses: there are no other records of them.
    pub slices_count: Signal<In, Bit>,
    /// The word; `Nothing` when there is none.
    pub word: Signal<Out, FramedWord>,
    /// The word was taken.
    pub word_taken: Signal<In, Bit>,
    /// No half and no word is held.
    pub empty: Signal<Out, Bit>,
    word_records: WordRecords,
    part: DFF<Bits<2>>,
    control: Signal<Local, Bit>,
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
    pair_accesses: Signal<Local, Bits<2>>,
    empty_half: Constant<Bits<32>>,
    segment_half: Constant<Bits<32>>,
    segment_at: Constant<Bits<5>>,
    delta_at: Constant<Bits<5>>,
    write_bit: Constant<Bits<32>>,
    max_delta: Constant<Bits<32>>,
    max_word_delta: Constant<Bits<32>>,
}

impl Default for Packer {
    fn default() -> Self {
        let word = |value: u32| Constant::new(u64::from(value).into());
        let place = |value: u32| Constant::new(u64::from(value).into());
        Self {
            clock: Default::default(),
            record: Default::default(),
            taken: Default::default(),
            slices_count: Default::default(),
            word: Default::default(),
            word_taken: Default::default(),
            empty: Default::default(),
            word_records: Default::default(),
            part: Default::default(),
            control: Default::default(),
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
            pair_accesses: Default::default(),
            empty_half: word(record::EMPTY_HALF),
            segment_half: word(record::EMPTY_HALF | 1 << record::SEGMENT_FLAG_AT),
            segment_at: place(record::SEGMENT_AT),
            delta_at: place(record::DELTA_AT),
            write_bit: word(1 << record::WRITE_AT),
            max_delta: word(record::MAX_DELTA),
            max_word_delta: word(record::MAX_WORD_DELTA),
            slice_code: Default::default(),
        }
    }
}

impl Logic for Packer {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, part, made, held, segment, base, base_high, skipped);
        self.free.next = self.word_taken.val() | (self.made.q.val().kind == WordKind::Nothing);
        self.empty.next = !self.held.q.val().valid & (self.made.q.val().kind == WordKind::Nothing);
        self.word.next = self.made.q.val();
        if self.word_taken.val() {
            self.made.d.next.kind = WordKind::Nothing;
        }
        self.take.next = false;
        self.push_half.next = false;
        self.arrive.next = false;
        self.control.next = false;
        self.half.next = self.empty_half.val();
        self.half_accesses.next = bits::<2>(0);

        // What is left of the record's delta: nothing once a skip has told it.
        self.delta.next = self.record.val().delta;
        if self.skipped.q.val() {
            self.delta.next = bits::<32>(0);
        }
        self.word_records.record.next = self.record.val();
        self.word_records.delta.next = self.delta.val();
        self.word_records.slice_code.next = self.slice_code.val();
        self.word_records.slices_count.next = self.slices_count.val();
        self.word_records.part.next = self.part.q.val();
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
                    RecordKind::Overrun => {
                        self.made.d.next.kind = WordKind::Overrun;
                        self.made.d.next.accesses = self.record.val().value;
                        self.made.d.next.records = bit_cast::<8, 32>(self.record.val().reads);
                        self.take.next = true;
                    }
                    RecordKind::Tick => {
                        self.made.d.next.kind = WordKind::Tick;
                        self.control.next = true;
                    }
                    RecordKind::Change => {
                        self.made.d.next.kind = WordKind::Change;
                        self.control.next = true;
                    }
                    RecordKind::Stop => {
                        self.made.d.next.kind = WordKind::Stop;
                        self.control.next = true;
                    }
                    RecordKind::Start => {
                        self.made.d.next.kind = WordKind::Start;
                        self.control.next = true;
                        self.arrive.next = true;
                    }
                    _ => {
                        self.made.d.next.kind = WordKind::Data;
                        self.made.d.next.first = self.part.q.val() == 0;
                        self.made.d.next.high = self.word_records.high.val();
                        self.made.d.next.low = self.word_records.low.val();
                        self.made.d.next.more = self.word_records.more.val();
                        self.made.d.next.accesses = self.word_records.accesses.val();
                        // A slice has a clock of its own.
                        self.arrive.next = self.record.val().kind != RecordKind::Slice;
                        self.part.d.next = self.part.q.val() + 1;
                        if self.word_records.more.val() == 0 {
                            self.part.d.next = bits::<2>(0);
                            self.take.next = true;
                        }
                    }
                }
                if self.control.val() {
                    self.made.d.next.clock = self.record.val().clock;
                    self.made.d.next.clock_high = self.record.val().clock_high;
                    self.take.next = true;
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

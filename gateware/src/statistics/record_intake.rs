//! Records, one at a time, to what the block writer must know of each before it packs it.
//!
//! A record is taken on one clock and examined on the next; what has been told of it (its time, its
//! segment) is taken off, and it is examined again. Whether a record is taken is decided on the clock before, as the
//! event queue, the configuration unit and the traces all move on that decision.

use hmtt_format::record;
use rust_hdl::prelude::*;

use super::word_source::Source;
use super::{Record, RecordKind};
use crate::reset::{Domain, Register};

/// What a record needs.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Needs {
    /// There is a record.
    pub known: Bit,
    /// Its time needs a half of its own.
    pub skip: Bit,
    /// Its segment needs a half of its own.
    pub segment: Bit,
    /// It takes whole words and needs nothing else first.
    pub word: Bit,
    /// It takes one word and needs nothing else.
    pub single: Bit,
    /// Which is the first word, or `Half`.
    pub source: Source,
    /// More words follow.
    pub more: Bit,
    /// It goes into data frames.
    pub data: Bit,
    /// It is a tick.
    pub tick: Bit,
    /// Its delta counts.
    pub timed: Bit,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct RecordIntake {
    /// DDR clock.
    pub clock: Signal<In, Domain>,
    /// The record offered; `Nothing` when there is none.
    pub record: Signal<In, Record>,
    /// There is one, if it is taken on this clock.
    pub offered: Signal<In, Bit>,
    /// It is taken on this clock.
    pub advance: Signal<Out, Bit>,
    /// No record is held.
    pub free: Signal<Out, Bit>,
    /// The record held.
    pub held: Signal<Out, Record>,
    /// The record held on the clock before.
    pub held_before: Signal<Out, Record>,
    /// What the record held on the clock before needs.
    pub needs: Signal<Out, Needs>,
    /// The record held needs one half, nothing else.
    pub half_now: Signal<Out, Bit>,
    /// The record held needs one word, nothing else.
    pub word_now: Signal<Out, Bit>,
    /// Segment told last.
    pub segment: Signal<Out, Bits<12>>,
    /// The record held is done with on the next clock.
    pub consumes: Signal<In, Bit>,
    /// Its time has been told.
    pub told_time: Signal<In, Bit>,
    /// Its segment has been told.
    pub told_segment: Signal<In, Bit>,
    current: Register<Record>,
    previous: Register<Record>,
    busy: Register<Bit>,
    takes: Register<Bit>,
    examined: Register<Needs>,
    segment_told: Register<Bits<12>>,
    delta: Signal<Local, Bits<25>>,
    reads: Signal<Local, Bits<12>>,
    writes: Signal<Local, Bits<12>>,
    duration: Signal<Local, Bits<20>>,
    beyond_half: Signal<Local, Bit>,
    beyond_word: Signal<Local, Bit>,
    beyond_page: Signal<Local, Bit>,
    small_counts: Signal<Local, Bit>,
    other_segment: Signal<Local, Bit>,
    short_page: Signal<Local, Bit>,
    skip: Signal<Local, Bit>,
    half: Signal<Local, Bit>,
    new_segment: Signal<Local, Bit>,
    word: Signal<Local, Bit>,
    single: Signal<Local, Bit>,
    data: Signal<Local, Bit>,
    stays: Signal<Local, Bit>,
}

impl Default for RecordIntake {
    fn default() -> Self {
        // The widths of the fields, as the code below has them.
        assert_eq!((record::MAX_DELTA, record::MAX_WORD_DELTA), (30, 0xffff));
        assert_eq!((record::MAX_PAGE_DELTA, record::MAX_PAGE_COUNT), (0xff, 31));
        assert_eq!(record::MAX_PAGE_DURATION, 1023);
        block! {
            Self {}
            default: clock, record, offered, advance, free, held, held_before, needs, half_now,
                word_now, segment, consumes, told_time, told_segment, current, previous, busy,
                takes, examined, segment_told, delta, reads, writes, duration, beyond_half,
                beyond_word, beyond_page, small_counts, other_segment, short_page, skip, half,
                new_segment, word, single, data, stays
        }
    }
}

impl Logic for RecordIntake {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, current, previous, busy, takes, examined, segment_told);
        self.previous.d.next = self.current.q.val();
        self.held_before.next = self.previous.q.val();
        self.free.next = !self.busy.q.val();
        self.advance.next = self.takes.q.val();
        self.held.next = self.current.q.val();
        self.needs.next = self.examined.q.val();
        self.segment.next = self.segment_told.q.val();

        self.delta.next = self.current.q.val().delta;
        // Bits beyond a field; comparing whole numbers would take longer.
        self.reads.next = self.current.q.val().reads;
        self.writes.next = self.current.q.val().writes;
        self.duration.next = self.current.q.val().duration;
        self.beyond_half.next =
            (self.delta.val().get_bits::<20>(5) != 0) | (self.delta.val().get_bits::<5>(0) == 31);
        self.beyond_word.next = self.delta.val().get_bits::<9>(16) != 0;
        self.beyond_page.next = self.delta.val().get_bits::<17>(8) != 0;
        self.small_counts.next = (self.reads.val().get_bits::<7>(5) == 0)
            & (self.writes.val().get_bits::<7>(5) == 0)
            & (self.duration.val().get_bits::<10>(10) == 0);
        self.other_segment.next = self.current.q.val().segment != self.segment_told.q.val();
        // Time beyond a word's is told by a skip first; then nothing is left of it.
        self.short_page.next =
            self.small_counts.val() & (self.beyond_word.val() | !self.beyond_page.val());
        self.skip.next = false;
        self.half.next = false;
        self.new_segment.next = false;
        self.word.next = false;
        self.single.next = false;
        self.data.next = true;
        self.examined.d.next.timed = true;
        self.examined.d.next.more = false;
        self.examined.d.next.source = Source::Other;
        match self.current.q.val().kind {
            RecordKind::Access => {
                self.examined.d.next.source = Source::Half;
                self.half.next = !self.beyond_half.val() & !self.other_segment.val();
                self.skip.next = self.beyond_half.val();
                self.new_segment.next = self.other_segment.val();
            }
            RecordKind::Page => {
                self.skip.next = self.beyond_word.val();
                self.new_segment.next = self.other_segment.val();
                self.word.next = true;
                self.single.next =
                    self.small_counts.val() & !self.beyond_page.val() & !self.other_segment.val();
                self.examined.d.next.source = Source::PageShort;
                if !self.short_page.val() {
                    self.examined.d.next.source = Source::PageLong;
                    self.examined.d.next.more = true;
                }
            }
            RecordKind::Tag => {
                self.skip.next = self.beyond_word.val();
                self.word.next = true;
                self.single.next = !self.beyond_word.val();
                self.examined.d.next.source = Source::Tag;
            }
            RecordKind::Mark => {
                self.skip.next = self.beyond_word.val();
                self.word.next = true;
                self.single.next = !self.beyond_word.val();
                self.examined.d.next.source = Source::Mark;
            }
            RecordKind::Fault => {
                self.skip.next = self.beyond_word.val();
                self.word.next = true;
                self.single.next = !self.beyond_word.val();
                self.examined.d.next.source = Source::Fault;
            }
            RecordKind::Slice => {
                self.word.next = true;
                self.examined.d.next.timed = false;
                self.examined.d.next.more = true;
            }
            RecordKind::Count => {
                self.word.next = true;
                self.examined.d.next.timed = false;
            }
            RecordKind::HotPage => {
                self.word.next = true;
                self.examined.d.next.timed = false;
                self.examined.d.next.more = true;
            }
            RecordKind::Skip => {
                self.skip.next = true;
                self.data.next = false;
            }
            RecordKind::Overrun => {
                // Time went on while events were missed.
                self.data.next = false;
            }
            _ => {
                self.examined.d.next.timed = false;
                self.data.next = false;
            }
        }
        // After a record was taken or something told of it, this is a clock behind.
        self.examined.d.next.known = self.busy.q.val();
        self.examined.d.next.tick = self.current.q.val().kind == RecordKind::Tick;
        self.examined.d.next.skip = self.busy.q.val() & self.skip.val();
        self.examined.d.next.segment = self.busy.q.val() & self.new_segment.val();
        self.examined.d.next.word = self.busy.q.val() & self.word.val();
        self.examined.d.next.data = self.busy.q.val() & self.data.val();
        self.examined.d.next.single = self.single.val();
        self.half_now.next = self.busy.q.val() & self.half.val();
        self.word_now.next = self.busy.q.val() & self.single.val();
        if self.told_time.val() {
            self.current.d.next.delta = bits::<25>(0);
        }
        if self.told_segment.val() {
            self.segment_told.d.next = self.current.q.val().segment;
        }
        self.stays.next = self.busy.q.val();
        if self.takes.q.val() {
            self.current.d.next = self.record.val();
            self.stays.next = self.offered.val();
        }
        self.busy.d.next = self.stays.val();
        self.takes.d.next = !self.stays.val() | self.consumes.val();
    }
}

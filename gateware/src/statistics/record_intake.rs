//! Takes records one at a time, and decides which words and halves the block writer has to write
//! for each.
//!
//! Records come from `traces` and from the analysis. A record is taken on one clock and examined on
//! the next. When a part of it has been written (its time, its segment), that part is removed, and
//! the record is examined again. Whether a record is taken is decided a clock earlier, because the
//! event queue, the configuration unit and the traces all move with that decision.
//!
//! ```text
//! clock     _/0\_/1\_/2\_/3\_
//! advance   /~~~\________/~~~      a record may be taken; the decision was made on the clock before
//! record       <A >                taken, if `offered` is high too
//! held             <A ......>
//! needs                <A ..>      what A needs
//! consumes  ________/~~~\___      A is complete
//! ```

use hmtt_format::record;
use rust_hdl::prelude::*;

use super::Needs;
use super::word_source::Source;
use crate::record::{Record, RecordKind};
use crate::reset::{Domain, Register};

/// Bits of a record's delta.
const DELTA: usize = 25;
/// Bits of a record's counts.
const COUNT: usize = 12;
/// Bits of a record's duration.
const DURATION: usize = 20;
/// Bits of the delta in a half; all ones is the escape code.
const HALF_DELTA: usize = bits_of(record::MAX_DELTA + 1);
/// Bits of the delta in a word.
const WORD_DELTA: usize = bits_of(record::MAX_WORD_DELTA);
/// Bits of the delta in the word of a short page run.
const PAGE_DELTA: usize = bits_of(record::MAX_PAGE_DELTA);
/// Bits of each count in the word of a short page run.
const PAGE_COUNT: usize = bits_of(record::MAX_PAGE_COUNT);
/// Bits of the duration in the word of a short page run.
const PAGE_DURATION: usize = bits_of(record::MAX_PAGE_DURATION);

/// Bits of the delta above its field in a half.
const ABOVE_HALF_DELTA: usize = DELTA - HALF_DELTA;
/// Bits of the delta above its field in a word.
const ABOVE_WORD_DELTA: usize = DELTA - WORD_DELTA;
/// Bits of the delta above its field in a short page run.
const ABOVE_PAGE_DELTA: usize = DELTA - PAGE_DELTA;
/// Bits of a count above its field in a short page run.
const ABOVE_PAGE_COUNT: usize = COUNT - PAGE_COUNT;
/// Bits of the duration above its field in a short page run.
const ABOVE_PAGE_DURATION: usize = DURATION - PAGE_DURATION;

/// Returns the bits of a field whose largest value is `largest`.
const fn bits_of(largest: u32) -> usize {
    assert!((largest + 1).is_power_of_two());
    largest.count_ones() as usize
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct RecordIntake {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Record that is offered; `Nothing` when there is none.
    pub record: Signal<In, Record>,
    /// If `advance` is high, there is a record in `record`.
    pub offered: Signal<In, Bit>,
    /// The record is taken on this clock.
    pub advance: Signal<Out, Bit>,
    /// There is no record in the block.
    pub free: Signal<Out, Bit>,
    /// The current record.
    pub held: Signal<Out, Record>,
    /// The record that was current one clock before.
    pub held_before: Signal<Out, Record>,
    /// What that record needs; see [`Needs`].
    pub needs: Signal<Out, Needs>,
    /// The current record needs one half and nothing else.
    pub half_now: Signal<Out, Bit>,
    /// The current record needs one word and nothing else.
    pub word_now: Signal<Out, Bit>,
    /// Segment in force.
    pub segment: Signal<Out, Bits<12>>,
    /// The current record is complete on the next clock.
    pub consumes: Signal<In, Bit>,
    /// The time of the record has been written.
    pub time_written: Signal<In, Bit>,
    /// The segment of the record has been written.
    pub segment_written: Signal<In, Bit>,
    current: Register<Record>,
    previous: Register<Record>,
    busy: Register<Bit>,
    takes: Register<Bit>,
    examined: Register<Needs>,
    segment_in_force: Register<Bits<12>>,
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
    busy_next: Signal<Local, Bit>,
    half_delta_bits: Constant<Bits<5>>,
    half_escape: Constant<Bits<5>>,
    word_delta_bits: Constant<Bits<5>>,
    page_delta_bits: Constant<Bits<5>>,
    page_count_bits: Constant<Bits<5>>,
    page_duration_bits: Constant<Bits<5>>,
}

impl Default for RecordIntake {
    fn default() -> Self {
        block! {
            Self {
                half_delta_bits: Constant::new((HALF_DELTA as u64).into()),
                half_escape: Constant::new((u64::from(record::MAX_DELTA) + 1).into()),
                word_delta_bits: Constant::new((WORD_DELTA as u64).into()),
                page_delta_bits: Constant::new((PAGE_DELTA as u64).into()),
                page_count_bits: Constant::new((PAGE_COUNT as u64).into()),
                page_duration_bits: Constant::new((PAGE_DURATION as u64).into()),
            }
            default: clock, record, offered, advance, free, held, held_before, needs, half_now,
                word_now, segment, consumes, time_written, segment_written, current, previous, busy,
                takes, examined, segment_in_force, delta, reads, writes, duration, beyond_half,
                beyond_word, beyond_page, small_counts, other_segment, short_page, skip, half,
                new_segment, word, single, data, busy_next
        }
    }
}

impl Logic for RecordIntake {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, current, previous, busy, takes, examined, segment_in_force);
        self.previous.d.next = self.current.q.val();
        self.held_before.next = self.previous.q.val();
        self.free.next = !self.busy.q.val();
        self.advance.next = self.takes.q.val();
        self.held.next = self.current.q.val();
        self.needs.next = self.examined.q.val();
        self.segment.next = self.segment_in_force.q.val();

        self.delta.next = self.current.q.val().delta;
        // Tests only the bits above each field: a comparison of whole numbers has a longer path.
        self.reads.next = self.current.q.val().reads;
        self.writes.next = self.current.q.val().writes;
        self.duration.next = self.current.q.val().duration;
        self.beyond_half.next =
            (self.delta.val().get_bits::<ABOVE_HALF_DELTA>(self.half_delta_bits.val().index())
                != 0)
                | (self.delta.val().get_bits::<HALF_DELTA>(0) == self.half_escape.val());
        self.beyond_word.next =
            self.delta.val().get_bits::<ABOVE_WORD_DELTA>(self.word_delta_bits.val().index()) != 0;
        self.beyond_page.next =
            self.delta.val().get_bits::<ABOVE_PAGE_DELTA>(self.page_delta_bits.val().index()) != 0;
        self.small_counts.next = (self
            .reads
            .val()
            .get_bits::<ABOVE_PAGE_COUNT>(self.page_count_bits.val().index())
            == 0)
            & (self.writes.val().get_bits::<ABOVE_PAGE_COUNT>(self.page_count_bits.val().index())
                == 0)
            & (self
                .duration
                .val()
                .get_bits::<ABOVE_PAGE_DURATION>(self.page_duration_bits.val().index())
                == 0);
        self.other_segment.next = self.current.q.val().segment != self.segment_in_force.q.val();
        // Time that a word cannot hold is written as a skip first; the delta is 0 then.
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
                // The delta counts as time, because time passed while events were missed.
                self.data.next = false;
            }
            _ => {
                self.examined.d.next.timed = false;
                self.data.next = false;
            }
        }
        // After a record was taken, or a part of it written, these values are correct one clock
        // later.
        self.examined.d.next.known = self.busy.q.val();
        self.examined.d.next.tick = self.current.q.val().kind == RecordKind::Tick;
        self.examined.d.next.skip = self.busy.q.val() & self.skip.val();
        self.examined.d.next.segment = self.busy.q.val() & self.new_segment.val();
        self.examined.d.next.word = self.busy.q.val() & self.word.val();
        self.examined.d.next.data = self.busy.q.val() & self.data.val();
        self.examined.d.next.single = self.single.val();
        self.half_now.next = self.busy.q.val() & self.half.val();
        self.word_now.next = self.busy.q.val() & self.single.val();
        if self.time_written.val() {
            self.current.d.next.delta = bits::<25>(0);
        }
        if self.segment_written.val() {
            self.segment_in_force.d.next = self.current.q.val().segment;
        }
        self.busy_next.next = self.busy.q.val();
        if self.takes.q.val() {
            self.current.d.next = self.record.val();
            self.busy_next.next = self.offered.val();
        }
        self.busy.d.next = self.busy_next.val();
        self.takes.d.next = !self.busy_next.val() | self.consumes.val();
    }
}

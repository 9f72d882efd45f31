//! Statistics unit (SU): items to records, in the order of their clocks.
//!
//! Each access goes to the trace of the mode in force and, when slices are wanted, is counted. What a
//! trace had pending and the access replaces becomes a record. Anything that is not an access first
//! lets pending ones out, one a clock, and is taken only then: so records never overtake each other.

use hmtt_format::MemoryDescription;
use rust_hdl::prelude::*;

use super::address_views::AddressViews;
use super::frequency::Frequency;
use super::line_trace::LineTrace;
use super::page_trace::PageTrace;
use super::{Record, RecordKind};
use crate::config::{Item, ItemKind, Settings};

/// See the module's description.
#[derive(LogicBlock)]
pub struct StatisticsUnit {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// The item; `Nothing` when there is none.
    pub item: Signal<In, Item>,
    /// The item is taken on this clock.
    pub taken: Signal<Out, Bit>,
    /// Settings in force.
    pub settings: Signal<In, Settings>,
    /// Time slices are wanted.
    pub slices: Signal<In, Bit>,
    /// Clocks of a time slice, less one.
    pub slice_last: Signal<In, Bits<32>>,
    /// The record; `Nothing` when there is none.
    pub record: Signal<Out, Record>,
    /// No record waits to be taken.
    pub idle: Signal<Out, Bit>,
    /// The record was taken.
    pub record_taken: Signal<In, Bit>,
    views: AddressViews,
    line: LineTrace,
    page: PageTrace,
    frequency: Frequency,
    made: DFF<Record>,
    last: DFF<Bits<32>>,
    free: Signal<Local, Bit>,
    take: Signal<Local, Bit>,
    timed: Signal<Local, Bit>,
    kind: Signal<Local, RecordKind>,
    at: Signal<Local, Bits<32>>,
    at_high: Signal<Local, Bits<16>>,
    since: Signal<Local, Bits<32>>,
    window_offset: Signal<Local, Bits<32>>,
    partial: Signal<Local, Bit>,
    make_line: Signal<Local, Bit>,
    make_page: Signal<Local, Bit>,
    make_slice: Signal<Local, Bit>,
    ends_slice: Signal<Local, Bit>,
    line_mode: Constant<Bits<2>>,
    page_mode: Constant<Bits<2>>,
    catch_up: Constant<Bits<32>>,
    window_mask: Constant<Bits<32>>,
}

impl StatisticsUnit {
    /// The unit for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        use hmtt_format::config::Mode;
        Self {
            clock: Default::default(),
            item: Default::default(),
            taken: Default::default(),
            settings: Default::default(),
            slices: Default::default(),
            slice_last: Default::default(),
            record: Default::default(),
            idle: Default::default(),
            record_taken: Default::default(),
            views: AddressViews::new(memory),
            line: LineTrace::new(memory),
            page: Default::default(),
            frequency: Default::default(),
            made: Default::default(),
            last: Default::default(),
            free: Default::default(),
            take: Default::default(),
            timed: Default::default(),
            kind: Default::default(),
            at: Default::default(),
            at_high: Default::default(),
            since: Default::default(),
            window_offset: Default::default(),
            partial: Default::default(),
            make_line: Default::default(),
            make_page: Default::default(),
            make_slice: Default::default(),
            ends_slice: Default::default(),
            line_mode: Constant::new((Mode::Line as u64).into()),
            page_mode: Constant::new((Mode::Page as u64).into()),
            // A skip holds 2^25 - 1 clocks; ticks come at least every 2^22.
            catch_up: Constant::new((1 << 24).into()),
            window_mask: Constant::new(((1u64 << memory.tag_window_log2) - 1).into()),
        }
    }
}

impl Logic for StatisticsUnit {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, made, last);
        clock!(self, clock, line, page, frequency);
        self.views.low.next = self.item.val().low;
        self.views.high.next = self.item.val().high;
        self.views.burst.next = self.settings.val().burst;
        self.line.write.next = self.item.val().write;
        self.line.segment.next = self.views.unit_segment.val();
        self.line.number.next = self.views.unit_number.val();
        self.line.part.next = self.views.part.val();
        self.line.at.next = self.item.val().clock;
        self.line.at_high.next = self.item.val().clock_high;
        self.page.write.next = self.item.val().write;
        self.page.segment.next = self.views.page_segment.val();
        self.page.number.next = self.views.page_number.val();
        self.page.at.next = self.item.val().clock;
        self.page.at_high.next = self.item.val().clock_high;
        self.frequency.write.next = self.item.val().write;
        self.frequency.at.next = self.item.val().clock;
        self.frequency.at_high.next = self.item.val().clock_high;

        self.free.next = self.record_taken.val() | (self.made.q.val().kind == RecordKind::Nothing);
        self.take.next = false;
        self.kind.next = RecordKind::Nothing;
        self.make_line.next = false;
        self.make_page.next = false;
        self.make_slice.next = false;
        self.line.offer.next = false;
        self.page.offer.next = false;
        self.frequency.offer.next = false;
        self.frequency.restart.next = false;
        self.ends_slice.next =
            (self.item.val().kind == ItemKind::Stop) | (self.item.val().kind == ItemKind::Change);
        if self.free.val() {
            match self.item.val().kind {
                ItemKind::Nothing => {}
                ItemKind::Access => {
                    self.take.next = true;
                    self.frequency.offer.next = self.slices.val();
                    if self.settings.val().mode == self.line_mode.val() {
                        self.line.offer.next = true;
                        self.make_line.next = self.line.replaces.val();
                    } else if self.settings.val().mode == self.page_mode.val() {
                        self.page.offer.next = true;
                        self.make_page.next = self.page.replaces.val();
                    }
                }
                ItemKind::Slice => {
                    self.take.next = true;
                    self.frequency.restart.next = true;
                    self.make_slice.next = self.frequency.counted.val();
                }
                ItemKind::Tick => {
                    if self.line.stale.val() {
                        self.make_line.next = true;
                    } else if self.page.stale.val() {
                        self.make_page.next = true;
                    } else {
                        self.take.next = true;
                        self.kind.next = RecordKind::Tick;
                    }
                }
                _ => {
                    if self.line.waiting.val() {
                        self.make_line.next = true;
                    } else if self.page.waiting.val() {
                        self.make_page.next = true;
                    } else if self.ends_slice.val() & self.frequency.counted.val() {
                        self.make_slice.next = true;
                        self.frequency.restart.next = true;
                    } else {
                        self.take.next = true;
                    }
                }
            }
        }
        if self.take.val() {
            match self.item.val().kind {
                ItemKind::WindowTag => {
                    self.kind.next = RecordKind::Tag;
                }
                ItemKind::Mark => {
                    self.kind.next = RecordKind::Tag;
                }
                ItemKind::Fault => {
                    self.kind.next = RecordKind::Fault;
                }
                ItemKind::Change => {
                    self.kind.next = RecordKind::Change;
                    self.frequency.restart.next = true;
                }
                ItemKind::Start => {
                    self.kind.next = RecordKind::Start;
                    self.frequency.restart.next = true;
                }
                ItemKind::Stop => {
                    self.kind.next = RecordKind::Stop;
                }
                ItemKind::Overrun => {
                    self.kind.next = RecordKind::Overrun;
                }
                _ => {}
            }
        }
        self.taken.next = self.take.val();
        self.line.flush.next = self.make_line.val();
        self.page.flush.next = self.make_page.val();

        // The record, its time first: pending ones carry the clock of their first access.
        self.at.next = self.item.val().clock;
        self.at_high.next = self.item.val().clock_high;
        self.partial.next = self.frequency.length.val() != (self.slice_last.val() + 1);
        self.window_offset.next = self.item.val().low & self.window_mask.val();
        self.made.d.next.write = self.item.val().write;
        self.made.d.next.flag = self.item.val().kind == ItemKind::Mark;
        self.made.d.next.segment = self.line.out_segment.val();
        self.made.d.next.number = self.line.out_number.val();
        self.made.d.next.value = self.item.val().low;
        if self.item.val().kind == ItemKind::WindowTag {
            self.made.d.next.value = self.window_offset.val();
        }
        self.made.d.next.reads = bit_cast::<32, 8>(self.item.val().high);
        self.made.d.next.writes = self.page.out_writes.val();
        self.made.d.next.duration = self.page.out_duration.val();
        self.made.d.next.start_high = self.frequency.first_high.val();
        self.timed.next = (self.kind.val() == RecordKind::Tag)
            | (self.kind.val() == RecordKind::Fault)
            | (self.kind.val() == RecordKind::Start);
        if self.make_line.val() {
            self.kind.next = RecordKind::Access;
            self.timed.next = true;
            self.at.next = self.line.out_clock.val();
            self.at_high.next = self.line.out_clock_high.val();
            self.made.d.next.write = self.line.out_write.val();
        }
        if self.make_page.val() {
            self.kind.next = RecordKind::Page;
            self.timed.next = true;
            self.at.next = self.page.out_clock.val();
            self.at_high.next = self.page.out_clock_high.val();
            self.made.d.next.segment = self.page.out_segment.val();
            self.made.d.next.number = self.page.out_number.val();
            self.made.d.next.reads = self.page.out_reads.val();
        }
        if self.make_slice.val() {
            self.kind.next = RecordKind::Slice;
            self.made.d.next.value = self.frequency.first.val();
            self.made.d.next.flag = self.partial.val();
            self.made.d.next.reads = self.frequency.reads.val();
            self.made.d.next.writes = self.frequency.writes.val();
            self.made.d.next.duration = self.frequency.length.val();
        }
        self.since.next = self.at.val() - self.last.q.val();
        if self.kind.val() == RecordKind::Tick {
            // Time catches up with a silence only when nothing older is still pending.
            self.made.d.next.flag = (self.since.val() >= self.catch_up.val())
                & !(self.line.waiting.val() | self.page.waiting.val());
            self.timed.next = (self.since.val() >= self.catch_up.val())
                & !(self.line.waiting.val() | self.page.waiting.val());
        }
        self.made.d.next.delta = self.since.val();
        self.made.d.next.clock = self.at.val();
        self.made.d.next.clock_high = self.at_high.val();
        self.made.d.next.kind = self.kind.val();
        if !self.free.val() {
            self.made.d.next = self.made.q.val();
        } else if self.timed.val() {
            self.last.d.next = self.at.val();
        }
        self.record.next = self.made.q.val();
        self.idle.next = self.made.q.val().kind == RecordKind::Nothing;
    }
}

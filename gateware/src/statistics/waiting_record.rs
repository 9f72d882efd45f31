//! Merges items into records: keeps the newest record, adds accesses to it, and passes it on when
//! another item replaces it.
//!
//! Line mode: a burst is merged if it has the direction and the line of the record, is a burst of
//! the line that the record does not have yet, and comes within the merge window of the first
//! burst. At burst granularity each burst is a unit, so nothing is merged. Page mode: an access is
//! added to the run of its page until a count is full or the run is found to have the maximum
//! duration. Tags, marks, faults and overruns wait like accesses, but nothing is added to them. So
//! records leave in the order of their clocks, at most one for each item.
//!
//! Whether an item is merged is decided a clock before it comes, from the record that will wait
//! then. This keeps the path of the clock on which all stages move short.

use hmtt_format::MemoryDescription;
use hmtt_format::config::Mode;
use hmtt_format::record::{RUN_COUNT_LOG2, RUN_DURATION_LOG2};
use rust_hdl::prelude::*;

use super::{ComparedItem, NextItem};
use crate::record::{Record, RecordKind};
use crate::reset::{ClearedRegister, Domain, Register};

/// Clocks without a record after which a skip is recorded, at the next tick. A skip holds 2^25 - 1
/// clocks, and ticks are at most 2^15 clocks apart.
const SILENT_CLOCKS: u64 = 1 << 24;

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Waiting {
    kind: RecordKind,
    mergeable: Bit,
    write: Bit,
    number: Bits<26>,
    segment: Bits<12>,
    parts: Bits<8>,
    delta: Bits<25>,
    reads: Bits<12>,
    writes: Bits<12>,
    duration: Bits<20>,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct WaitingRecord {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// The current item.
    pub compared: Signal<In, ComparedItem>,
    /// The next item.
    pub next_item: Signal<In, NextItem>,
    /// The items move on this clock.
    pub advance: Signal<In, Bit>,
    /// [`hmtt_format::config::Mode`] in force.
    pub mode: Signal<In, Bits<2>>,
    /// Pass the waiting record on.
    pub flush: Signal<In, Bit>,
    /// Pass a record of this kind on; no item moves meanwhile.
    pub record_kind: Signal<In, RecordKind>,
    /// Restart the time since the last record.
    pub restart_time: Signal<In, Bit>,
    /// A record waits.
    pub waiting: Signal<Out, Bit>,
    /// No access can be added to the waiting record.
    pub stale: Signal<Out, Bit>,
    /// A long time has passed since the last record, and none waits.
    pub silent: Signal<Out, Bit>,
    /// Record that is passed on; `Nothing` when there is none.
    pub record: Signal<Out, Record>,
    /// A record is passed on if the items move. Valid early, because it does not depend on
    /// `advance`.
    pub offers: Signal<Out, Bit>,
    held: Register<Waiting>,
    age: ClearedRegister<Bits<25>>,
    window_remaining: Register<Bits<8>>,
    expired: Register<Bit>,
    may_merge: Register<Bit>,
    /// The mode in force is page mode. It changes only while no item passes.
    paged: Register<Bit>,
    /// `held` is a record.
    waits: Register<Bit>,
    age_next: Signal<Local, Bits<25>>,
    age_now: Signal<Local, Bits<25>>,
    reads: Signal<Local, Bits<12>>,
    writes: Signal<Local, Bits<12>>,
    is_page_mode: Signal<Local, Bit>,
    overdue: Signal<Local, Bit>,
    replaces: Signal<Local, Bit>,
    merges: Signal<Local, Bit>,
    emits: Signal<Local, Bit>,
    window_left: Signal<Local, Bits<9>>,
    new_window_left: Signal<Local, Bits<8>>,
    fits: Signal<Local, Bit>,
    same_direction: Signal<Local, Bit>,
    new_part: Signal<Local, Bit>,
    line_merges: Signal<Local, Bit>,
    page_merges: Signal<Local, Bit>,
    mergeable: Signal<Local, Bit>,
    page_mode: Constant<Bits<2>>,
    window: Constant<Bits<8>>,
    count_bit: Constant<Bits<12>>,
    duration_bit: Constant<Bits<25>>,
    silent_bit: Constant<Bits<25>>,
    borrow_at: Constant<Bits<4>>,
}

impl WaitingRecord {
    /// Builds the block with the merge window of one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        block! {
            Self {
                page_mode: Constant::new((Mode::Page as u64).into()),
                window: Constant::new(u64::from(memory.merge_window).into()),
                count_bit: Constant::new((1u64 << RUN_COUNT_LOG2).into()),
                duration_bit: Constant::new((1u64 << RUN_DURATION_LOG2).into()),
                silent_bit: Constant::new(SILENT_CLOCKS.into()),
                borrow_at: Constant::new(8u64.into()),
            }
            default: clock, compared, next_item, advance, mode, flush, record_kind, restart_time,
                waiting, stale, silent, record, offers, held, age, window_remaining, expired,
                may_merge, paged, waits, age_next, age_now, reads, writes, is_page_mode, overdue,
                replaces, merges, emits, window_left, new_window_left, fits, same_direction,
                new_part, line_merges, page_merges, mergeable
        }
    }
}

impl Logic for WaitingRecord {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, held, age, window_remaining, expired, may_merge, paged, waits);
        self.paged.d.next = self.mode.val() == self.page_mode.val();
        self.is_page_mode.next = self.paged.q.val();
        self.age_now.next = self.age.q.val();
        self.age_next.next = self.age.q.val() + bit_cast::<25, 16>(self.compared.val().gap);
        self.overdue.next = (self.age_now.val() & self.duration_bit.val()) != 0;
        self.replaces.next =
            self.compared.val().is_item & !(self.compared.val().same & self.may_merge.q.val());
        self.merges.next =
            self.compared.val().is_item & self.compared.val().same & self.may_merge.q.val();
        self.emits.next = self.advance.val() & self.replaces.val();

        // Decides whether the next item can be merged into the record that waits when it comes.
        // That record is the current item if it replaces the held record, else the held record,
        // perhaps merged with the current item.
        self.reads.next = self.held.q.val().reads;
        self.writes.next = self.held.q.val().writes;
        if self.merges.val() & self.compared.val().write {
            self.writes.next = self.held.q.val().writes + 1;
        } else if self.merges.val() {
            self.reads.next = self.held.q.val().reads + 1;
        }
        // The borrow is set when more clocks passed than remained.
        self.window_left.next = bit_cast::<9, 8>(self.window_remaining.q.val())
            - bit_cast::<9, 8>(self.next_item.val().gap_low);
        self.new_window_left.next = self.window.val() - self.next_item.val().gap_low;
        self.fits.next = !self.next_item.val().gap_overflows
            & !self.expired.q.val()
            & !self.window_left.val().get_bit(self.borrow_at.val().index());
        self.same_direction.next = self.next_item.val().write == self.held.q.val().write;
        self.new_part.next = ((self.next_item.val().part & self.held.q.val().parts) == 0)
            & (!self.compared.val().is_item
                | ((self.next_item.val().part & self.compared.val().part) == 0));
        self.page_merges.next = ((self.reads.val() & self.count_bit.val()) == 0)
            & ((self.writes.val() & self.count_bit.val()) == 0)
            & ((self.age_next.val() & self.duration_bit.val()) == 0);
        self.mergeable.next = self.held.q.val().mergeable;
        if self.replaces.val() {
            self.mergeable.next = self.compared.val().mergeable;
            self.fits.next = self.next_item.val().in_merge_window;
            self.same_direction.next = self.next_item.val().write == self.compared.val().write;
            self.new_part.next = (self.next_item.val().part & self.compared.val().part) == 0;
            self.page_merges.next = true;
        }
        self.line_merges.next = self.same_direction.val() & self.new_part.val() & self.fits.val();

        if self.flush.val() {
            self.held.d.next.kind = RecordKind::Nothing;
            self.held.d.next.mergeable = false;
            self.waits.d.next = false;
        }
        if self.advance.val() {
            self.age.d.next = self.age_next.val();
            self.window_remaining.d.next = self.window_left.val().get_bits::<8>(0);
            if self.replaces.val() {
                self.window_remaining.d.next = self.new_window_left.val();
            }
            self.expired.d.next = !self.fits.val();
            self.may_merge.d.next = self.mergeable.val()
                & ((self.is_page_mode.val() & self.page_merges.val())
                    | (!self.is_page_mode.val() & self.line_merges.val()));
            if self.compared.val().is_item {
                // A merged item has the same kind and number as the record, so both may be assigned
                // in any case.
                self.held.d.next.kind = self.compared.val().kind;
                self.waits.d.next = true;
                self.held.d.next.mergeable = self.compared.val().mergeable;
                self.held.d.next.write = self.compared.val().write;
                self.held.d.next.number = self.compared.val().number;
                self.held.d.next.segment = self.compared.val().segment;
                self.held.d.next.parts = self.held.q.val().parts | self.compared.val().part;
                self.held.d.next.duration = self.age_next.val().get_bits::<20>(0);
                self.held.d.next.reads = self.reads.val();
                self.held.d.next.writes = self.writes.val();
                if self.replaces.val() {
                    self.held.d.next.parts = self.compared.val().part;
                    self.held.d.next.delta = self.age_next.val();
                    self.held.d.next.duration = bits::<20>(0);
                    self.held.d.next.reads = bits::<12>(1);
                    self.held.d.next.writes = bits::<12>(0);
                    if self.compared.val().write {
                        self.held.d.next.reads = bits::<12>(0);
                        self.held.d.next.writes = bits::<12>(1);
                    }
                    self.age.d.next = bits::<25>(0);
                }
            }
        }
        if self.restart_time.val() {
            self.age.d.next = bits::<25>(0);
        }

        self.waiting.next = self.waits.q.val();
        self.stale.next = !self.held.q.val().mergeable
            | (self.is_page_mode.val() & self.overdue.val())
            | (!self.is_page_mode.val() & self.expired.q.val());
        self.silent.next =
            !self.waits.q.val() & ((self.age_now.val() & self.silent_bit.val()) != 0);
        self.offers.next = self.record_kind.val() != RecordKind::Nothing;
        if self.replaces.val() | self.flush.val() {
            self.offers.next = self.waits.q.val();
        }
        self.record.next.kind = self.record_kind.val();
        if self.emits.val() | self.flush.val() {
            self.record.next.kind = self.held.q.val().kind;
        }
        self.record.next.write = self.held.q.val().write;
        self.record.next.number = self.held.q.val().number;
        self.record.next.segment = self.held.q.val().segment;
        self.record.next.delta = self.held.q.val().delta;
        if self.held.q.val().kind == RecordKind::Nothing {
            self.record.next.delta = self.age.q.val();
        }
        self.record.next.reads = self.held.q.val().reads;
        self.record.next.writes = self.held.q.val().writes;
        self.record.next.duration = self.held.q.val().duration;
    }
}

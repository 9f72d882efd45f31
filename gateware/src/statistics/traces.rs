//! Prepares items for records: extracts what the mode in force needs from each item, and compares
//! it with the item before. [`super::waiting_record`] then merges items into records.
//!
//! Items come from the configuration unit; records go to the block writer.
//!
//! ```text
//! clock     _/0\_/1\_/2\_/3\_
//! item          <A >              unit number and tag window are extracted
//! extracted         <A >          compared with the unit of the access before
//! compared              <A >      is merged into the waiting record, or replaces it
//! record                <- the record that waited
//! ```
//!
//! All stages move together, on the clocks on which the block writer can take a record.

use hmtt_format::MemoryDescription;
use hmtt_format::config::Mode;
use hmtt_format::record::NUMBER_BITS;
use rust_hdl::prelude::*;

use super::address_views::AddressViews;
use super::waiting_record::WaitingRecord;
use super::{ComparedItem, Observed};
use crate::config::{Item, ItemKind, Requests, Settings};
use crate::record::{Record, RecordKind};
use crate::reset::{ClearedRegister, Domain, Register};

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct ExtractedItem {
    kind: RecordKind,
    tag: Bit,
    write: Bit,
    number: Bits<26>,
    segment: Bits<12>,
    part: Bits<8>,
    low: Bits<32>,
    high: Bits<6>,
    gap: Bits<16>,
    in_merge_window: Bit,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct Traces {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// The item; `Nothing` when there is none.
    pub item: Signal<In, Item>,
    /// All stages move on this clock.
    pub advance: Signal<In, Bit>,
    /// Settings in force.
    pub settings: Signal<In, Settings>,
    /// The capture runs.
    pub running: Signal<In, Bit>,
    /// Requests of the configuration unit.
    pub requests: Signal<In, Requests>,
    /// The item that passes, for the units that count.
    pub observed: Signal<Out, Observed>,
    /// Clocks that pass with the item.
    pub gap: Signal<Out, Bits<16>>,
    /// No item releases the waiting record on this clock.
    pub no_release: Signal<Out, Bit>,
    /// No item is in the stages.
    pub drained: Signal<Out, Bit>,
    /// [`WaitingRecord::waiting`].
    pub waiting: Signal<Out, Bit>,
    /// [`WaitingRecord::stale`].
    pub stale: Signal<Out, Bit>,
    /// [`WaitingRecord::silent`].
    pub silent: Signal<Out, Bit>,
    /// Record that is passed on; `Nothing` when there is none.
    pub record: Signal<Out, Record>,
    /// [`WaitingRecord::offers`].
    pub offers: Signal<Out, Bit>,
    views: AddressViews,
    held: WaitingRecord,
    extracted: Register<ExtractedItem>,
    compared: Register<ComparedItem>,
    last_number: Register<Bits<26>>,
    last_segment: Register<Bits<12>>,
    seen: Register<Observed>,
    passed: ClearedRegister<Bits<16>>,
    settling: Register<Bit>,
    item_high: Signal<Local, Bits<8>>,
    tag_difference: Signal<Local, Bits<32>>,
    in_window: Signal<Local, Bit>,
    is_access: Signal<Local, Bit>,
    offset: Signal<Local, Bits<32>>,
    value: Signal<Local, Bits<32>>,
    item_gap: Signal<Local, Bits<16>>,
    wide_gap: Signal<Local, Bits<16>>,
    window: Constant<Bits<16>>,
    window_mask: Constant<Bits<32>>,
    tag_base_mask: Constant<Bits<32>>,
    page_mode: Constant<Bits<2>>,
    line_mode: Constant<Bits<2>>,
    number_bits: Constant<Bits<5>>,
    faults_at: Constant<Bits<4>>,
    gap_low_bits: Constant<Bits<5>>,
}

impl Traces {
    /// Builds the block for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let window = u64::from(memory.tag_window_log2);
        block! {
            Self {
                views: AddressViews::new(memory),
                held: WaitingRecord::new(memory),
                window: Constant::new(u64::from(memory.merge_window).into()),
                window_mask: Constant::new(((1u64 << window) - 1).into()),
                tag_base_mask: Constant::new((0xffff_ffff_u64 >> window << window).into()),
                page_mode: Constant::new((Mode::Page as u64).into()),
                line_mode: Constant::new((Mode::Line as u64).into()),
                number_bits: Constant::new(u64::from(NUMBER_BITS).into()),
                faults_at: Constant::new(u64::from(u32::BITS - NUMBER_BITS).into()),
                gap_low_bits: Constant::new(8u64.into()),
            }
            default: clock, item, advance, settings, running, requests, observed, gap, no_release,
                drained, waiting, stale, silent, record, offers, extracted, compared, last_number,
                last_segment, seen, passed, settling, item_high, tag_difference, in_window,
                is_access, offset, value, item_gap, wide_gap
        }
    }
}

impl Logic for Traces {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            extracted,
            compared,
            last_number,
            last_segment,
            seen,
            passed,
            settling
        );
        clock!(self, clock, held);
        self.item_high.next = self.item.val().high;
        self.views.low.next = self.item.val().low;
        self.views.high.next = self.item.val().high;
        self.views.burst.next = self.settings.val().burst;

        self.tag_difference.next = self.item.val().low ^ self.settings.val().tag_low;
        self.in_window.next = self.settings.val().tag
            & ((self.tag_difference.val() & self.tag_base_mask.val()) == 0)
            & (self.item.val().high == self.settings.val().tag_high);
        self.is_access.next = (self.item.val().kind == ItemKind::Access) & self.running.val();

        self.seen.d.next.access = self.is_access.val() & self.advance.val();
        self.seen.d.next.tag = self.is_access.val() & self.advance.val() & self.in_window.val();
        self.seen.d.next.mark = (self.item.val().kind == ItemKind::Mark) & self.advance.val();
        self.seen.d.next.fault =
            (self.item.val().kind == ItemKind::Fault) & self.advance.val() & self.running.val();
        self.seen.d.next.write = self.item.val().write;
        self.seen.d.next.row_state = self.item.val().row_state;
        self.seen.d.next.bank = self.item.val().bank;
        self.seen.d.next.page = self.views.page.val();
        self.observed.next = self.seen.q.val();
        self.passed.d.next = bits::<16>(0);
        self.item_gap.next = self.item.val().gap;
        if self.item.val().kind == ItemKind::Nothing {
            self.item_gap.next = bits::<16>(0);
        }
        if self.advance.val() {
            self.passed.d.next = self.item_gap.val();
        }
        self.gap.next = self.passed.q.val();

        if self.advance.val() {
            self.extracted.d.next.kind = RecordKind::Skip;
            if self.item.val().kind == ItemKind::Nothing {
                self.extracted.d.next.kind = RecordKind::Nothing;
            }
            if self.running.val() {
                match self.item.val().kind {
                    ItemKind::Access => {
                        if self.settings.val().mode == self.line_mode.val() {
                            self.extracted.d.next.kind = RecordKind::Access;
                        } else if self.settings.val().mode == self.page_mode.val() {
                            self.extracted.d.next.kind = RecordKind::Page;
                        }
                    }
                    ItemKind::Mark => {
                        self.extracted.d.next.kind = RecordKind::Mark;
                    }
                    ItemKind::Fault => {
                        self.extracted.d.next.kind = RecordKind::Fault;
                    }
                    ItemKind::Overrun => {
                        self.extracted.d.next.kind = RecordKind::Overrun;
                    }
                    _ => {}
                }
            }
            self.extracted.d.next.tag = self.is_access.val() & self.in_window.val();
            self.extracted.d.next.write = self.item.val().write;
            self.extracted.d.next.part = self.views.part.val();
            self.extracted.d.next.low = self.item.val().low;
            self.extracted.d.next.high = self.item_high.val().get_bits::<6>(0);
            self.extracted.d.next.gap = self.item_gap.val();
            self.extracted.d.next.in_merge_window = self.item_gap.val() <= self.window.val();
            self.extracted.d.next.number = self.views.unit_number.val();
            self.extracted.d.next.segment = self.views.unit_segment.val();
            if self.settings.val().mode == self.page_mode.val() {
                self.extracted.d.next.number = self.views.page_number.val();
                self.extracted.d.next.segment = self.views.page_segment.val();
            }
        }

        self.offset.next = self.extracted.q.val().low & self.window_mask.val();
        self.value.next = self.extracted.q.val().low;
        if self.extracted.q.val().tag {
            self.value.next = self.offset.val();
        }
        self.wide_gap.next = self.extracted.q.val().gap;
        if self.advance.val() {
            self.compared.d.next.kind = self.extracted.q.val().kind;
            self.compared.d.next.is_item = self.extracted.q.val().tag
                | ((self.extracted.q.val().kind != RecordKind::Nothing)
                    & (self.extracted.q.val().kind != RecordKind::Skip));
            self.compared.d.next.mergeable = false;
            self.compared.d.next.same = false;
            self.compared.d.next.write = self.extracted.q.val().write;
            self.compared.d.next.part = self.extracted.q.val().part;
            self.compared.d.next.gap = self.extracted.q.val().gap;
            self.compared.d.next.number = self.value.val().get_bits::<26>(0);
            self.compared.d.next.segment =
                bit_cast::<12, 6>(self.value.val().get_bits::<6>(self.number_bits.val().index()))
                    | (bit_cast::<12, 6>(self.extracted.q.val().high) << self.faults_at.val());
            if self.extracted.q.val().tag {
                self.compared.d.next.kind = RecordKind::Tag;
            } else if (self.extracted.q.val().kind == RecordKind::Access)
                | (self.extracted.q.val().kind == RecordKind::Page)
            {
                self.compared.d.next.mergeable = true;
                self.compared.d.next.same = (self.extracted.q.val().number
                    == self.last_number.q.val())
                    & (self.extracted.q.val().segment == self.last_segment.q.val());
                self.compared.d.next.number = self.extracted.q.val().number;
                self.compared.d.next.segment = self.extracted.q.val().segment;
                self.last_number.d.next = self.extracted.q.val().number;
                self.last_segment.d.next = self.extracted.q.val().segment;
            }
        }

        self.held.compared.next = self.compared.q.val();
        self.held.next_item.next.write = self.extracted.q.val().write;
        self.held.next_item.next.part = self.extracted.q.val().part;
        self.held.next_item.next.gap_overflows =
            self.wide_gap.val().get_bits::<8>(self.gap_low_bits.val().index()) != 0;
        self.held.next_item.next.in_merge_window = self.extracted.q.val().in_merge_window;
        self.held.next_item.next.gap_low = self.wide_gap.val().get_bits::<8>(0);
        self.held.advance.next = self.advance.val();
        self.held.mode.next = self.settings.val().mode;
        self.held.flush.next = self.requests.val().flush;
        self.held.record_kind.next = self.requests.val().record_kind;
        self.held.restart_time.next = self.requests.val().restart_time;
        self.no_release.next = !self.compared.q.val().is_item;
        self.waiting.next = self.held.waiting.val();
        self.stale.next = self.held.stale.val();
        self.silent.next = self.held.silent.val();
        self.record.next = self.held.record.val();
        self.offers.next = self.held.offers.val();
        // The sum of the gaps is valid two clocks after the last one.
        self.settling.d.next = self.compared.q.val().kind != RecordKind::Nothing;
        self.drained.next = (self.extracted.q.val().kind == RecordKind::Nothing)
            & (self.compared.q.val().kind == RecordKind::Nothing)
            & !self.settling.q.val();
    }
}

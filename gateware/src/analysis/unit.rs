//! Connects the blocks of the analysis to each other, to the traces and to the block writer.

use hmtt_format::MemoryDescription;
use rust_hdl::prelude::*;

use super::DUMP_TICKS;
use super::dump_unit::DumpUnit;
use super::hot_pages::HotPages;
use super::page_runs::PageRuns;
use super::reuse::Reuse;
use super::tallies::Tallies;
use crate::config::{Requests, Settings};
use crate::record::RecordKind;
use crate::reset::{Domain, Register};
use crate::statistics::{Observed, SlotClock};

/// See the module's description.
#[derive(LogicBlock)]
pub struct Analysis {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// The item that passes.
    pub observed: Signal<In, Observed>,
    /// Settings in force.
    pub settings: Signal<In, Settings>,
    /// The capture runs.
    pub running: Signal<In, Bit>,
    /// Requests of the configuration unit.
    pub requests: Signal<In, Requests>,
    /// Clock of the slot.
    pub now: Signal<In, SlotClock>,
    /// Records may be passed on.
    pub may_send: Signal<In, Bit>,
    /// The record is taken on this clock.
    pub taken: Signal<In, Bit>,
    /// Kind of the record that the block writer has.
    pub held: Signal<In, RecordKind>,
    /// Index of the word that the block writer needs.
    pub word: Signal<In, Bits<6>>,
    /// There is a record, and it may be passed on.
    pub offers: Signal<Out, Bit>,
    /// Kind of the record.
    pub record_kind: Signal<Out, RecordKind>,
    /// Bits 63..32 of the word.
    pub high: Signal<Out, Bits<32>>,
    /// Bits 31..0 of the word.
    pub low: Signal<Out, Bits<32>>,
    /// No dump is in progress or requested.
    pub dumped: Signal<Out, Bit>,
    /// A dump is due, and none is in progress.
    pub interval: Signal<Out, Bit>,
    runs: PageRuns,
    hot_pages: HotPages,
    reuse: Reuse,
    tallies: Tallies,
    dump_unit: DumpUnit,
    on: Register<Bit>,
    wanted: Signal<Local, Bit>,
    access: Signal<Local, Bit>,
    skips: Signal<Local, Bit>,
    analysis_mode: Constant<Bits<2>>,
    second_word_at: Constant<Bits<1>>,
}

impl Analysis {
    /// Builds the unit for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        Self::with_ticks(memory, DUMP_TICKS)
    }

    /// Builds the unit with `ticks` from one dump to the next.
    pub fn with_ticks(memory: &MemoryDescription, ticks: u64) -> Self {
        block! {
            Self {
                runs: PageRuns::new(memory),
                hot_pages: HotPages::new(memory),
                reuse: Reuse::new(memory),
                dump_unit: DumpUnit::new(memory, ticks),
                analysis_mode: Constant::new((hmtt_format::config::Mode::Analysis as u64).into()),
                second_word_at: Constant::new(0u64.into()),
            }
            default: clock, observed, settings, running, requests, now, may_send, taken, held, word,
                offers, record_kind, high, low, dumped, interval, tallies, on, wanted, access, skips
        }
    }
}

impl Logic for Analysis {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, on);
        clock!(self, clock, runs, hot_pages, reuse, tallies, dump_unit);
        self.wanted.next =
            self.settings.val().analysis | (self.settings.val().mode == self.analysis_mode.val());
        self.on.d.next = self.wanted.val();
        // While the capture is stopped there is nothing to dump, and nothing would close the block.
        self.dump_unit.turns_off.next = self.on.q.val() & !self.wanted.val() & self.running.val();
        self.skips.next = self.dump_unit.frozen.val() & !self.dump_unit.flush.val();
        self.access.next = self.observed.val().access & self.on.q.val();
        self.runs.access.next = self.access.val();
        self.dump_unit.access.next = self.access.val();
        self.runs.page.next = self.observed.val().page;
        self.runs.flush.next = self.dump_unit.flush.val();
        self.runs.clear_order.next = self.dump_unit.clear_order.val();
        self.hot_pages.run_valid.next = self.runs.run_valid.val();
        self.hot_pages.run_page.next = self.runs.run_page.val();
        self.hot_pages.run_accesses.next = self.runs.run_accesses.val();
        self.hot_pages.next_part.next = self.dump_unit.next_part.val();
        self.hot_pages.spread_select.next = self.dump_unit.spread_select.val();
        self.hot_pages.frozen.next = self.skips.val();
        self.hot_pages.part_frozen.next =
            self.dump_unit.part_frozen.val() & !self.dump_unit.flush.val();
        self.hot_pages.take_out.next = self.dump_unit.take_entry.val();
        self.hot_pages.index.next = self.dump_unit.index.val();
        self.hot_pages.clear_skipped.next = self.dump_unit.clear_accesses.val();
        self.reuse.begins.next = self.runs.begins.val();
        self.reuse.page.next = self.runs.begun.val();
        self.reuse.frozen.next = self.dump_unit.frozen.val();
        self.reuse.clear_order.next = self.dump_unit.clear_order.val();
        self.reuse.taken.next = self.tallies.taken.val();
        self.reuse.clear_skipped.next = self.dump_unit.clear_runs.val();
        self.tallies.access.next = self.access.val();
        self.tallies.row_state.next = self.observed.val().row_state;
        self.tallies.bank.next = self.observed.val().bank;
        self.tallies.offer.next = self.reuse.offer.val();
        self.tallies.bucket.next = self.reuse.bucket.val();
        self.tallies.frozen.next = self.dump_unit.frozen.val();
        self.tallies.drain.next = self.dump_unit.drain.val();
        self.tallies.take_out.next = self.dump_unit.take_tally.val();
        self.tallies.index.next = self.dump_unit.index.val();
        self.tallies.clear_skipped.next = self.dump_unit.clear_rows.val();
        self.dump_unit.dump.next = self.requests.val().dump;
        self.dump_unit.all.next = self.requests.val().dump_all;
        self.dump_unit.tick.next = self.requests.val().record_kind == RecordKind::Tick;
        self.dump_unit.may_send.next = self.may_send.val();
        self.dump_unit.taken.next = self.taken.val();
        self.dump_unit.held.next = self.held.val();
        self.dump_unit.now.next = self.now.val();
        self.dump_unit.second.next = self.word.val().get_bit(self.second_word_at.val().index());
        self.dump_unit.settled.next = self.hot_pages.idle.val() & self.tallies.idle.val();
        self.dump_unit.reuse_settled.next = self.reuse.idle.val();
        self.dump_unit.entry_taken.next = self.hot_pages.taken_out.val();
        self.dump_unit.tally_taken.next = self.tallies.taken_out.val();
        self.dump_unit.entry_count.next = self.hot_pages.taken_count.val();
        self.dump_unit.entry_votes.next = self.hot_pages.taken_votes.val();
        self.dump_unit.entry_page.next = self.hot_pages.page.val();
        self.dump_unit.entry_used.next = self.hot_pages.used.val();
        self.dump_unit.tally.next = self.tallies.value.val();
        self.dump_unit.accesses_skipped.next = self.hot_pages.skipped.val();
        self.dump_unit.rows_skipped.next = self.tallies.skipped.val();
        self.dump_unit.runs_skipped.next = self.reuse.skipped.val();
        self.offers.next = self.dump_unit.offers.val();
        self.record_kind.next = self.dump_unit.record_kind.val();
        self.high.next = self.dump_unit.high.val();
        self.low.next = self.dump_unit.low.val();
        self.dumped.next = self.dump_unit.dumped.val();
        self.interval.next = self.dump_unit.due.val();
    }
}

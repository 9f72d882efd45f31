//! Sends the records of a dump one after the other, until all its tables are sent: the state
//! machine of the dump unit.
//!
//! The table of states is in the description of [`super`].

use rust_hdl::prelude::*;

use super::{Content, DumpUnit, State};
use crate::block::Part;
use crate::record::RecordKind;

/// See the module's description.
pub(super) struct Sequence;

impl Part<Sequence> for DumpUnit {
    #[hdl_gen]
    fn update(&mut self) {
        self.flush.next = false;
        self.clear_order.next = false;
        self.take_entry.next = self.requests_entry.q.val();
        self.take_tally.next = self.requests_tally.q.val();
        self.requests_entry.d.next = false;
        self.requests_tally.d.next = false;
        self.clear_accesses.next = false;
        self.clear_rows.next = false;
        self.clear_runs.next = false;
        self.offers.next = (self.state.q.val() == State::AwaitTaken) & self.may_send.val();
        self.record_kind.next = RecordKind::Count;
        if self.content.q.val() == Content::HotPage {
            self.record_kind.next = RecordKind::HotPage;
        }
        self.next.next = false;
        self.is_held.next =
            (self.held.val() == RecordKind::Count) | (self.held.val() == RecordKind::HotPage);
        match self.state.q.val() {
            State::AwaitDump => {
                self.all_tables.d.next = self.all_due.q.val();
                self.content.d.next = Content::Interval;
                self.records.d.next = bits::<10>(0);
                self.waited.d.next = bits::<4>(0);
                if self.all_due.q.val() | (self.dump.val() & !self.all.val()) {
                    self.all_due.d.next = false;
                    self.state.d.next = State::EndRun;
                }
            }
            State::EndRun => {
                self.flush.next = true;
                self.state.d.next = State::AwaitSettled;
            }
            State::AwaitSettled => {
                self.table_index.d.next =
                    bit_cast::<8, 4>(self.part.q.val()) << self.bucket_bits.val();
                self.waited.d.next = self.waited.q.val() + 1;
                if self.all_tables.q.val() {
                    self.table_index.d.next = bits::<8>(0);
                    if self.settled.val() & self.reuse_settled.val() {
                        self.clear_order.next = true;
                        self.state.d.next = State::AwaitTaken;
                    }
                } else if self.waited.q.val() == self.last_wait.val() {
                    self.state.d.next = State::AwaitTaken;
                }
            }
            State::AwaitEntry => {
                self.state.d.next = State::KeepWords;
                if self.content.q.val() == Content::HotPage {
                    self.requests_entry.d.next = !self.entry_taken.val();
                    if !self.entry_taken.val() {
                        self.state.d.next = State::AwaitEntry;
                    }
                } else if self.content.q.val() == Content::Tally {
                    self.requests_tally.d.next = !self.tally_taken.val();
                    if !self.tally_taken.val() {
                        self.state.d.next = State::AwaitEntry;
                    }
                }
            }
            State::KeepWords => {
                self.state.d.next = State::CheckUsed;
                match self.content.q.val() {
                    Content::AccessesSkipped => {
                        self.clear_accesses.next = true;
                    }
                    Content::RowsSkipped => {
                        self.clear_rows.next = true;
                    }
                    Content::RunsSkipped => {
                        self.clear_runs.next = true;
                    }
                    _ => {}
                }
            }
            State::CheckUsed => {
                self.state.d.next = State::Step;
                if self.used.val() {
                    self.state.d.next = State::AwaitTaken;
                }
            }
            State::AwaitTaken => {
                if self.taken.val() {
                    self.state.d.next = State::AwaitSent;
                }
            }
            State::AwaitSent => {
                // The block writer requests the words as long as it holds the record.
                if !self.is_held.val() {
                    self.records.d.next = self.records.q.val() + 1;
                    self.state.d.next = State::Step;
                }
            }
            State::Step => {
                self.next.next = true;
            }
            State::Done => {
                self.number.d.next = self.number.q.val() + 1;
                self.part.d.next = self.part.q.val() + 1;
                if self.part.q.val() == self.last_part.val() {
                    self.selected_spread.d.next = !self.selected_spread.q.val();
                }
                if self.all_tables.q.val() {
                    self.part.d.next = bits::<4>(0);
                    self.selected_spread.d.next = !self.selected_spread.q.val();
                }
                self.state.d.next = State::AwaitDump;
            }
            _ => {
                self.state.d.next = State::AwaitDump;
            }
        }
        if self.access.val() {
            self.access_during_dump.d.next = true;
        } else if self.state.q.val() == State::AwaitDump {
            self.access_during_dump.d.next = false;
        }
        if (self.dump.val() & self.all.val())
            | (self.turns_off.val() & (!self.all_under_way.val() | self.access_during_dump.q.val()))
        {
            self.all_due.d.next = true;
        }
    }
}

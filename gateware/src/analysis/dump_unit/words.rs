//! Computes the words of the record that is sent.
//!
//! `KeepWords` puts the first word into registers, because its source may change while the record
//! waits. The second word of a hot page stays in the table's output registers until the next entry
//! is read.

use rust_hdl::prelude::*;

use super::{Content, DumpUnit, State};
use crate::block::Part;

/// See the module's description.
pub(super) struct Words;

impl Part<Words> for DumpUnit {
    #[hdl_gen]
    fn update(&mut self) {
        // These values are kept from the clock on which the record's entry is read.
        self.clock_high.next = self.now.val().high;
        self.table_state.next = self.table_index.q.val().get_bits::<2>(self.table_at.val().index());
        self.value.next = bit_cast::<32, 28>(self.tally.val());
        self.head.next =
            self.count_head.val() | (bit_cast::<32, 8>(self.number.q.val()) << self.dump_at.val());
        // The index of a count: its group, then the bank (6 bits) or the reuse bucket (4 bits).
        self.place.next = (bit_cast::<32, 2>(self.table_state.val()) << self.group_at.val())
            | bit_cast::<32, 6>(self.table_index.q.val().get_bits::<6>(0));
        self.used.next = self.first_low.q.val() != 0;
        match self.content.q.val() {
            Content::HotPage => {
                self.used.next = self.entry_used.val();
                self.value.next = bit_cast::<32, 28>(self.entry_page.val());
                self.head.next = self.page_head.val()
                    | (bit_cast::<32, 8>(self.number.q.val()) << self.dump_at.val());
                self.place.next = bits::<32>(0);
            }
            Content::Interval => {
                self.value.next = (bit_cast::<32, 8>(self.clock_high.val().get_bits::<8>(0))
                    << self.clock_low_bits.val())
                    | bit_cast::<32, 24>(self.now.val().low);
                self.head.next = self.interval_head.val()
                    | bit_cast::<32, 16>(
                        self.clock_high.val().get_bits::<16>(self.clock_mid_bits.val().index()),
                    );
                self.place.next = bit_cast::<32, 4>(self.part.q.val()) << self.part_at.val();
                if self.all_tables.q.val() {
                    self.place.next = self.all_parts.val();
                }
            }
            Content::AccessesSkipped => {
                self.value.next = bit_cast::<32, 23>(self.accesses_skipped.val());
                self.place.next = self.other_place.val();
            }
            Content::RowsSkipped => {
                self.value.next = bit_cast::<32, 23>(self.rows_skipped.val());
                self.place.next = self.rows_place.val();
            }
            Content::RunsSkipped => {
                self.value.next = bit_cast::<32, 23>(self.runs_skipped.val());
                self.place.next = self.runs_place.val();
            }
            Content::Closing => {
                self.used.next = true;
                self.value.next = bit_cast::<32, 10>(self.records.q.val());
                self.place.next = self.closing_place.val();
            }
            _ => {}
        }
        if (self.state.q.val() == State::KeepWords) | (self.state.q.val() == State::EndRun) {
            self.first_high.d.next = self.head.val() | self.place.val();
            self.first_low.d.next = self.value.val();
        }
        self.high.next = self.first_high.q.val();
        self.low.next = self.first_low.q.val();
        if self.second.val() {
            self.high.next = bit_cast::<32, 27>(self.entry_count.val());
            self.low.next = bit_cast::<32, 27>(self.entry_votes.val());
        }
    }
}

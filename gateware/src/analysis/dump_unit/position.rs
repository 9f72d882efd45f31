//! Keeps the position in the tables: chooses the record that follows the sent one.
//!
//! ```text
//! Interval -> AccessesSkipped -> RowsSkipped -> RunsSkipped -> HotPage (each entry of the part, or of all)
//!          -> Tally (with the first part, or with all) -> Closing
//! ```

use rust_hdl::prelude::*;

use super::{Content, DumpUnit, State};
use crate::block::Part;

/// See the module's description.
pub(super) struct Position;

impl Part<Position> for DumpUnit {
    #[hdl_gen]
    fn update(&mut self) {
        self.part_end.next =
            (self.table_index.q.val() & self.part_mask.val()) == self.part_mask.val();
        // Increments only the bits that an index of this memory can have.
        self.unused_bits.next = self.unused_bank_bits.val();
        if self.table_state.val() == self.reuse_table.val() {
            self.unused_bits.next = self.unused_reuse_bits.val();
        }
        self.tally_after.next = (self.table_index.q.val() | self.unused_bits.val()) + 1;
        if self.next.val() {
            self.state.d.next = State::AwaitEntry;
            match self.content.q.val() {
                Content::Interval => {
                    self.content.d.next = Content::AccessesSkipped;
                }
                Content::AccessesSkipped => {
                    self.content.d.next = Content::RowsSkipped;
                }
                Content::RowsSkipped => {
                    self.content.d.next = Content::RunsSkipped;
                }
                Content::RunsSkipped => {
                    self.content.d.next = Content::HotPage;
                    self.requests_entry.d.next = true;
                }
                Content::HotPage => {
                    self.table_index.d.next = self.table_index.q.val() + 1;
                    self.requests_entry.d.next = true;
                    if self.part_end.val()
                        & (!self.all_tables.q.val()
                            | (self.table_index.q.val() == self.last_index.val()))
                    {
                        self.table_index.d.next = bits::<8>(0);
                        self.requests_entry.d.next = false;
                        self.content.d.next = Content::Closing;
                        if self.all_tables.q.val() | (self.part.q.val() == 0) {
                            self.content.d.next = Content::Tally;
                            self.requests_tally.d.next = true;
                        }
                    }
                }
                Content::Tally => {
                    self.table_index.d.next =
                        self.tally_after.val() & (self.unused_bits.val() ^ self.last_index.val());
                    self.requests_tally.d.next = true;
                    if self.table_index.q.val() == self.last_reuse.val() {
                        self.requests_tally.d.next = false;
                        self.content.d.next = Content::Closing;
                    }
                }
                _ => {
                    self.state.d.next = State::Done;
                }
            }
        }
    }
}

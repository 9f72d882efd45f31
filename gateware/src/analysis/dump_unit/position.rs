//! The position in the tables: which record follows the one that was sent.
//!
//! ```text
//! Interval -> AccessesSkipped -> RowsSkipped -> RunsSkipped -> HotPage (each entry of the part, or of all)
//!          -> Tally (with the first part, or with all) -> Closing
//! ```

use rust_hdl::prelude::*;

use super::{DumpUnit, State, What};
use crate::block::Part;

/// See the module's description.
pub(super) struct Position;

impl Part<Position> for DumpUnit {
    #[hdl_gen]
    fn update(&mut self) {
        self.part_end.next = (self.at.q.val() & self.part_mask.val()) == self.part_mask.val();
        // Increments only the bits that an index of this memory can have.
        self.gaps.next = self.bank_gaps.val();
        if self.table_state.val() == self.reuse_table.val() {
            self.gaps.next = self.reuse_gaps.val();
        }
        self.tally_after.next = (self.at.q.val() | self.gaps.val()) + 1;
        if self.next.val() {
            self.state.d.next = State::AwaitEntry;
            match self.what.q.val() {
                What::Interval => {
                    self.what.d.next = What::AccessesSkipped;
                }
                What::AccessesSkipped => {
                    self.what.d.next = What::RowsSkipped;
                }
                What::RowsSkipped => {
                    self.what.d.next = What::RunsSkipped;
                }
                What::RunsSkipped => {
                    self.what.d.next = What::HotPage;
                    self.asks_entry.d.next = true;
                }
                What::HotPage => {
                    self.at.d.next = self.at.q.val() + 1;
                    self.asks_entry.d.next = true;
                    if self.part_end.val()
                        & (!self.whole.q.val() | (self.at.q.val() == self.last_index.val()))
                    {
                        self.at.d.next = bits::<8>(0);
                        self.asks_entry.d.next = false;
                        self.what.d.next = What::Closing;
                        if self.whole.q.val() | (self.part.q.val() == 0) {
                            self.what.d.next = What::Tally;
                            self.asks_tally.d.next = true;
                        }
                    }
                }
                What::Tally => {
                    self.at.d.next =
                        self.tally_after.val() & (self.gaps.val() ^ self.last_index.val());
                    self.asks_tally.d.next = true;
                    if self.at.q.val() == self.last_reuse.val() {
                        self.asks_tally.d.next = false;
                        self.what.d.next = What::Closing;
                    }
                }
                _ => {
                    self.state.d.next = State::Done;
                }
            }
        }
    }
}

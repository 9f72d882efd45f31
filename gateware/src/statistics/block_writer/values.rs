//! Computes the amounts that a record adds to the counts of the block writer, and the half that it
//! becomes.
//!
//! Combinational. The state machine decides whether the values are used.

use rust_hdl::prelude::*;

use super::BlockWriter;
use crate::block::Part;
use crate::record::RecordKind;

/// See the module's description.
pub(super) struct Values;

impl<const N: usize> Part<Values> for BlockWriter<N> {
    #[hdl_gen]
    fn update(&mut self) {
        // The amounts that the record adds to the counts.
        self.value_segment.next = self.intake.held.val().segment;
        self.missed.next = (bit_cast::<32, 12>(self.value_segment.val()) << self.number_bits.val())
            | bit_cast::<32, 26>(self.intake.held.val().number);
        self.lost_now.next = bits::<24>(1);
        self.delta.next = self.intake.held.val().delta;
        self.accounts.clocks.next = self.delta.val();
        self.accounts.now.next = self.now.val();
        self.accounts.accesses.next = bits::<32>(0);
        match self.intake.held.val().kind {
            RecordKind::Access => {
                self.accounts.accesses.next = bits::<32>(1);
            }
            RecordKind::Tag => {
                self.accounts.accesses.next = bits::<32>(1);
            }
            RecordKind::Page => {
                self.accounts.accesses.next = bit_cast::<32, 12>(self.intake.held.val().reads)
                    + bit_cast::<32, 12>(self.intake.held.val().writes);
            }
            RecordKind::Slice => {
                if self.no_number.q.val() {
                    self.accounts.accesses.next = self.slice_accesses.val();
                }
            }
            RecordKind::Overrun => {
                self.accounts.accesses.next = self.missed.val();
                self.lost_now.next = self.missed.val().get_bits::<24>(0)
                    + bit_cast::<24, 6>(
                        self.value_segment.val().get_bits::<6>(self.faults_at.val().index()),
                    );
            }
            _ => {}
        }
        self.accounts.records.next = self.lost_now.val();

        // The half of an access.
        self.access_half.next = (bit_cast::<32, 25>(self.delta.val()) << self.delta_at.val())
            | bit_cast::<32, 26>(self.intake.held.val().number);
        self.port.half.next = self.access_half.val();
        if self.intake.held.val().write {
            self.port.half.next = self.access_half.val() | self.write_bit.val();
        }
    }
}

//! Counts row outcomes and reuse distances in one block RAM of counters, by read, add and write.
//!
//! Outcomes come from the traces, distances from `reuse`; `dump_unit` reads the counters. Row hits
//! (0), misses (1) and conflicts (2) are counted in counter `state * 64 + rank * 16 + bank`, reuse
//! distances in counter `192 + bucket`. Outcomes of one counter are summed until an outcome of
//! another counter comes. If the sum cannot be added then, because its counter is in the stages,
//! the new outcome is counted as skipped. Reuse distances wait until the stages are free. A counter
//! is taken out when no sum reads: it is read, and 0 is written back.
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_/4\_
//! access     <A >                      its counter is known
//! arrived        <A >                  added to the sum, or the first of a new one
//! waiting            <sum ..>          until an outcome of another counter comes
//! reading                   <sum>      the counter is read
//! writing                       <sum>  the new value is written
//! offer, taken                         a distance is taken on a clock on which both are high
//! take_out, taken_out                  the counter is read on a clock on which both are high; `value` one clock later
//! ```

use hmtt_format::record::CountGroup;
use rust_hdl::prelude::*;

use super::TABLE_AT;
use crate::fifo::block_ram::BlockRam;
use crate::reset::{ClearedRegister, Domain, Register};

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Tally {
    valid: Bit,
    /// The counter is taken out.
    takes_out: Bit,
    index: Bits<8>,
    times: Bits<4>,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct Tallies {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// An access.
    pub access: Signal<In, Bit>,
    /// State of the row buffer at the access.
    pub row_state: Signal<In, Bits<2>>,
    /// Rank * 16 + bank of the access.
    pub bank: Signal<In, Bits<6>>,
    /// There is a reuse distance.
    pub offer: Signal<In, Bit>,
    /// Bucket of the distance.
    pub bucket: Signal<In, Bits<4>>,
    /// The distance is taken on this clock.
    pub taken: Signal<Out, Bit>,
    /// Skip outcomes.
    pub frozen: Signal<In, Bit>,
    /// Store the sum that waits; no outcome comes.
    pub drain: Signal<In, Bit>,
    /// Nothing is in the stages.
    pub idle: Signal<Out, Bit>,
    /// Take a counter out.
    pub take_out: Signal<In, Bit>,
    /// Counter to take out.
    pub index: Signal<In, Bits<8>>,
    /// The counter is taken out on this clock.
    pub taken_out: Signal<Out, Bit>,
    /// Value of the counter, one clock later.
    pub value: Signal<Out, Bits<28>>,
    /// Row outcomes that were skipped.
    pub skipped: Signal<Out, Bits<23>>,
    /// Restart the count of skipped outcomes.
    pub clear_skipped: Signal<In, Bit>,
    counters: BlockRam<Bits<28>, 8>,
    draining: Register<Bit>,
    arrived: Register<Bit>,
    refused: Register<Bit>,
    arrived_index: Register<Bits<8>>,
    waiting: Register<Tally>,
    reading: Register<Tally>,
    writing: Register<Bit>,
    writing_index: Register<Bits<8>>,
    writing_sum: ClearedRegister<Bits<28>>,
    skip: Register<Bit>,
    skips: ClearedRegister<Bits<23>>,
    make_free: Signal<Local, Bit>,
    take: Signal<Local, Bit>,
    free: Signal<Local, Bit>,
    accepts: Signal<Local, Bit>,
    takes_out: Signal<Local, Bit>,
    same: Signal<Local, Bit>,
    sum: Signal<Local, Bits<28>>,
    most_times: Constant<Bits<4>>,
    reuse_index: Constant<Bits<8>>,
    table_at: Constant<Bits<4>>,
}

impl Default for Tallies {
    fn default() -> Self {
        block! {
            Self {
                counters: BlockRam::zeroed(),
                most_times: Constant::new(15u64.into()),
                reuse_index: Constant::new(((CountGroup::Reuse as u64) << TABLE_AT).into()),
                table_at: Constant::new(u64::from(TABLE_AT).into()),
            }
            default: clock, access, row_state, bank, offer, bucket, taken, frozen, drain, idle,
                take_out, index, taken_out, value, skipped, clear_skipped, draining, arrived,
                refused, arrived_index, waiting, reading, writing, writing_index, writing_sum, skip,
                skips, make_free, take, free, accepts, takes_out, same, sum
        }
    }
}

impl Logic for Tallies {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            draining,
            arrived,
            refused,
            arrived_index,
            waiting,
            reading,
            writing,
            writing_index,
            writing_sum,
            skip,
            skips
        );
        self.counters.read_clock.next = self.clock.val();
        self.counters.write_clock.next = self.clock.val();

        self.draining.d.next = self.drain.val();
        self.arrived.d.next = self.access.val() & !self.frozen.val();
        self.arrived_index.d.next = (bit_cast::<8, 2>(self.row_state.val()) << self.table_at.val())
            | bit_cast::<8, 6>(self.bank.val());
        self.same.next = (self.arrived_index.q.val() == self.waiting.q.val().index)
            & (self.waiting.q.val().times != self.most_times.val());
        // Outcomes of one counter are summed until an outcome of another counter comes, so the
        // memory has time.
        self.make_free.next = (self.arrived.q.val() & !self.same.val())
            | (!self.arrived.q.val() & (self.offer.val() | self.draining.q.val()));
        self.take.next = self.waiting.q.val().valid
            & self.make_free.val()
            & !(self.reading.q.val().valid
                & (self.reading.q.val().index == self.waiting.q.val().index))
            & !(self.writing.q.val() & (self.writing_index.q.val() == self.waiting.q.val().index));
        self.free.next = !self.waiting.q.val().valid | self.take.val();
        self.accepts.next = self.free.val() & !self.arrived.q.val();
        self.taken.next = self.accepts.val() & self.offer.val();
        self.refused.d.next = self.access.val() & self.frozen.val();
        self.skip.d.next = self.refused.q.val();
        if self.take.val() {
            self.waiting.d.next.valid = false;
        }
        if self.arrived.q.val() {
            if self.free.val() {
                self.waiting.d.next.valid = true;
                self.waiting.d.next.index = self.arrived_index.q.val();
                self.waiting.d.next.times = bits::<4>(1);
            } else if self.same.val() {
                self.waiting.d.next.times = self.waiting.q.val().times + 1;
            } else {
                self.skip.d.next = true;
            }
        } else if self.accepts.val() & self.offer.val() {
            self.waiting.d.next.valid = true;
            self.waiting.d.next.index =
                self.reuse_index.val() | bit_cast::<8, 4>(self.bucket.val());
            self.waiting.d.next.times = bits::<4>(1);
        }
        if self.skip.q.val() {
            self.skips.d.next = self.skips.q.val() + 1;
        }
        if self.clear_skipped.val() {
            self.skips.d.next = bits::<23>(0);
            if self.skip.q.val() {
                self.skips.d.next = bits::<23>(1);
            }
        }
        self.skipped.next = self.skips.q.val();
        self.idle.next = !self.arrived.q.val()
            & !self.waiting.q.val().valid
            & !self.reading.q.val().valid
            & !self.writing.q.val();

        self.counters.read_address.next = self.waiting.q.val().index;
        self.counters.write_address.next = self.writing_index.q.val();
        self.counters.write_data.next = self.writing_sum.q.val();
        self.counters.write_enable.next = self.writing.q.val();
        self.takes_out.next = self.take_out.val()
            & !self.take.val()
            & !(self.reading.q.val().valid & (self.reading.q.val().index == self.index.val()))
            & !(self.writing.q.val() & (self.writing_index.q.val() == self.index.val()));
        self.taken_out.next = self.takes_out.val();
        self.reading.d.next = self.waiting.q.val();
        self.reading.d.next.valid = self.take.val() | self.takes_out.val();
        self.reading.d.next.takes_out = self.takes_out.val();
        if self.takes_out.val() {
            self.counters.read_address.next = self.index.val();
            self.reading.d.next.index = self.index.val();
        }
        self.sum.next =
            self.counters.read_data.val() + bit_cast::<28, 4>(self.reading.q.val().times);
        self.writing.d.next = self.reading.q.val().valid;
        self.writing_index.d.next = self.reading.q.val().index;
        self.writing_sum.d.next = self.sum.val();
        if self.reading.q.val().takes_out {
            self.writing_sum.d.next = bits::<28>(0);
        }
        self.value.next = self.counters.read_data.val();
    }
}

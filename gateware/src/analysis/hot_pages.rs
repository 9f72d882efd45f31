//! Finds the pages with most accesses: a majority vote in each bucket, one run in each clock.
//!
//! Runs come from `page_runs`; `dump_unit` reads the buckets. A bucket holds a page, its count C,
//! and the votes V of all its runs. A run of n accesses adds n to V. A run of the same page adds n
//! to C; a run of another page subtracts n from C. If C would fall below 0, the page is replaced by
//! the page of the run, and C becomes the rest of n. V counts all accesses to the bucket since it
//! was empty. Its page had at least C of them and at most (V + C) / 2, and each other page at most
//! (V - C) / 2 (Boyer and Moore's vote, weighted; the bounds are those of MV-Sketch).
//!
//! Example: the runs are A with 3 accesses, B with 2, A with 1 and B with 4. C is 3 (A), 1 (A), 2
//! (A) and 2 (B); V is 10. So B had 2 to 6 of the 10 accesses (it had 6), and A at most 4.
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_/4\_
//! run        <A >
//! arrived        <A >              its bucket is known
//! waiting            <A >          the bucket is read
//! reading                <A >      sums and differences of the old entry
//! writing                    <A >  the new entry
//! ```
//!
//! A run waits while an earlier run of its bucket is in the stages. If another run still waits when
//! a run comes, the new run is counted as skipped. An entry is taken out on a clock on which no run
//! reads: the entry is read, and an empty entry is written back. While the entries of a part are
//! taken out, runs to this part are counted as skipped.

use hmtt_format::MemoryDescription;
use hmtt_format::record::{HOT_BUCKETS_LOG2, HOT_PARTS_LOG2};
use rust_hdl::prelude::*;

use super::page_runs::page_mask;
use super::page_spread::PageSpread;
use crate::fifo::block_ram::BlockRam;
use crate::reset::{ClearedRegister, Domain, Register};

/// Place of the bits of a page number that an entry stores.
const HIGH_AT: u64 = (HOT_PARTS_LOG2 + HOT_BUCKETS_LOG2) as u64;

/// Entry of a bucket.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Entry {
    /// Bits 27..8 of the page number.
    page: Bits<20>,
    /// Count C of the page.
    count: Bits<27>,
    /// Votes V; 0 in an empty entry.
    votes: Bits<27>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Run {
    valid: Bit,
    /// The read is not for a run: the entry is taken out.
    takes_out: Bit,
    index: Bits<8>,
    page: Bits<20>,
    accesses: Bits<10>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Outcome {
    valid: Bit,
    takes_out: Bit,
    index: Bits<8>,
    same: Bit,
    below: Bit,
    kept: Bits<20>,
    taken: Bits<20>,
    sum: Bits<27>,
    difference: Bits<27>,
    rest: Bits<10>,
    votes: Bits<27>,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct HotPages {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// A run has ended.
    pub run_valid: Signal<In, Bit>,
    /// Page of the run.
    pub run_page: Signal<In, Bits<28>>,
    /// Accesses of the run, at most 512.
    pub run_accesses: Signal<In, Bits<10>>,
    /// Skip the run, whatever its page.
    pub frozen: Signal<In, Bit>,
    /// Skip the run if its page is in `next_part`.
    pub part_frozen: Signal<In, Bit>,
    /// First part that was not dumped in this round.
    pub next_part: Signal<In, Bits<4>>,
    /// Selects the spread function of part `next_part`. The parts before it have the other
    /// function.
    pub spread_select: Signal<In, Bit>,
    /// No run is in the stages.
    pub idle: Signal<Out, Bit>,
    /// Take an entry out; no run of its part is in the stages.
    pub take_out: Signal<In, Bit>,
    /// Entry to take out: part * 16 + bucket.
    pub index: Signal<In, Bits<8>>,
    /// The entry is taken out on this clock.
    pub taken_out: Signal<Out, Bit>,
    /// Page of the entry, one clock later.
    pub page: Signal<Out, Bits<28>>,
    /// The entry is not empty, two clocks later.
    pub used: Signal<Out, Bit>,
    /// C of the entry, from two clocks later until the next entry is taken out.
    pub taken_count: Signal<Out, Bits<27>>,
    /// V of the entry, on the same clocks.
    pub taken_votes: Signal<Out, Bits<27>>,
    /// Accesses that were skipped.
    pub skipped: Signal<Out, Bits<23>>,
    /// Restart the count of skipped accesses.
    pub clear_skipped: Signal<In, Bit>,
    buckets: BlockRam<Entry, 8>,
    into: PageSpread,
    from: PageSpread,
    arrived: Register<Run>,
    waiting: Register<Run>,
    just_taken: Register<Bit>,
    being_read: Register<Bit>,
    reading: Register<Run>,
    writing: Register<Outcome>,
    holds: Register<Bit>,
    out_count: Register<Bits<27>>,
    out_votes: Register<Bits<27>>,
    lost: ClearedRegister<Bits<10>>,
    lost_early: ClearedRegister<Bits<10>>,
    lost_now: Signal<Local, Bits<11>>,
    skips: ClearedRegister<Bits<23>>,
    part: Signal<Local, Bits<4>>,
    dumped_part: Signal<Local, Bits<4>>,
    low: Signal<Local, Bits<4>>,
    bucket: Signal<Local, Bits<4>>,
    take: Signal<Local, Bit>,
    takes_out: Signal<Local, Bit>,
    skips_run: Signal<Local, Bit>,
    sum: Signal<Local, Bits<27>>,
    difference: Signal<Local, Bits<28>>,
    low_count: Signal<Local, Bits<10>>,
    count: Signal<Local, Bits<27>>,
    votes: Signal<Local, Bits<27>>,
    held: Signal<Local, Bits<20>>,
    high_mask: Constant<Bits<20>>,
    high_at: Constant<Bits<5>>,
    bucket_at: Constant<Bits<5>>,
    part_at: Constant<Bits<4>>,
    borrow_at: Constant<Bits<5>>,
}

impl HotPages {
    /// Builds the table for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        assert_eq!((HOT_PARTS_LOG2, HOT_BUCKETS_LOG2), (4, 4), "the widths below");
        block! {
            Self {
                buckets: BlockRam::zeroed(),
                high_mask: Constant::new((page_mask(memory) >> HIGH_AT).into()),
                high_at: Constant::new(HIGH_AT.into()),
                bucket_at: Constant::new(u64::from(HOT_PARTS_LOG2).into()),
                part_at: Constant::new(u64::from(HOT_BUCKETS_LOG2).into()),
                borrow_at: Constant::new(27u64.into()),
            }
            default: clock, run_valid, run_page, run_accesses, frozen, part_frozen, next_part,
                spread_select, idle, take_out, index, taken_out, page, used, taken_count,
                taken_votes, skipped, clear_skipped, into, from, arrived, waiting, just_taken,
                being_read, reading, writing, holds, out_count, out_votes, lost, lost_early,
                lost_now, skips, part, dumped_part, low, bucket, take, takes_out, skips_run, sum,
                difference, low_count, count, votes, held
        }
    }
}

impl Logic for HotPages {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, arrived, waiting, just_taken, being_read, reading, writing, holds,
            out_count, out_votes, lost, lost_early, skips
        );
        self.buckets.read_clock.next = self.clock.val();
        self.buckets.write_clock.next = self.clock.val();

        self.part.next = self.run_page.val().get_bits::<4>(0);
        self.into.high.next = self.run_page.val().get_bits::<20>(self.high_at.val().index());
        self.into.spread_select.next =
            self.spread_select.val() ^ (self.part.val() < self.next_part.val());
        self.bucket.next = self.run_page.val().get_bits::<4>(self.bucket_at.val().index())
            ^ self.into.spread.val();
        self.skips_run.next = self.run_valid.val()
            & (self.frozen.val()
                | (self.part_frozen.val() & (self.part.val() == self.next_part.val())));
        self.arrived.d.next.valid = self.run_valid.val() & !self.skips_run.val();
        self.arrived.d.next.takes_out = false;
        self.arrived.d.next.index = (bit_cast::<8, 4>(self.part.val()) << self.part_at.val())
            | bit_cast::<8, 4>(self.bucket.val());
        self.arrived.d.next.page = self.run_page.val().get_bits::<20>(self.high_at.val().index());
        self.arrived.d.next.accesses = self.run_accesses.val();

        // A run waits while its bucket is read or written. The run was compared with the earlier
        // runs when it came.
        self.take.next =
            self.waiting.q.val().valid & !self.just_taken.q.val() & !self.being_read.q.val();
        self.lost.d.next = bits::<10>(0);
        self.lost_early.d.next = bits::<10>(0);
        if self.skips_run.val() {
            self.lost_early.d.next = self.run_accesses.val();
        }
        self.just_taken.d.next = false;
        self.being_read.d.next = self.just_taken.q.val();
        if self.take.val() {
            self.waiting.d.next.valid = false;
        }
        if self.arrived.q.val().valid {
            if self.waiting.q.val().valid & !self.take.val() {
                self.lost.d.next = self.arrived.q.val().accesses;
            } else {
                self.waiting.d.next = self.arrived.q.val();
                self.just_taken.d.next =
                    self.take.val() & (self.arrived.q.val().index == self.waiting.q.val().index);
                self.being_read.d.next = self.reading.q.val().valid
                    & (self.arrived.q.val().index == self.reading.q.val().index);
            }
        }
        self.lost_now.next =
            bit_cast::<11, 10>(self.lost.q.val()) + bit_cast::<11, 10>(self.lost_early.q.val());
        self.skips.d.next = self.skips.q.val() + bit_cast::<23, 11>(self.lost_now.val());
        if self.clear_skipped.val() {
            self.skips.d.next = bit_cast::<23, 11>(self.lost_now.val());
        }
        self.skipped.next = self.skips.q.val();
        self.idle.next = !self.arrived.q.val().valid
            & !self.waiting.q.val().valid
            & !self.reading.q.val().valid
            & !self.writing.q.val().valid;

        // The bucket is read.
        self.takes_out.next = self.take_out.val() & !self.take.val();
        self.taken_out.next = self.takes_out.val();
        self.buckets.read_address.next = self.waiting.q.val().index;
        // Bits that no page number has are constant 0, so they need no logic.
        self.held.next = self.buckets.read_data.val().page & self.high_mask.val();
        self.reading.d.next = self.waiting.q.val();
        self.reading.d.next.valid = self.take.val() | self.takes_out.val();
        self.reading.d.next.takes_out = self.takes_out.val();
        if self.takes_out.val() {
            self.buckets.read_address.next = self.index.val();
            self.reading.d.next.index = self.index.val();
        }

        // All possible new values are computed, and one of them is selected a clock later.
        self.sum.next =
            self.buckets.read_data.val().count + bit_cast::<27, 10>(self.reading.q.val().accesses);
        self.difference.next = bit_cast::<28, 27>(self.buckets.read_data.val().count)
            - bit_cast::<28, 10>(self.reading.q.val().accesses);
        self.count.next = self.buckets.read_data.val().count;
        self.low_count.next = self.count.val().get_bits::<10>(0);
        self.writing.d.next.valid = self.reading.q.val().valid;
        self.writing.d.next.takes_out = self.reading.q.val().takes_out;
        self.writing.d.next.index = self.reading.q.val().index;
        self.writing.d.next.same = self.held.val() == self.reading.q.val().page;
        self.writing.d.next.below = self.difference.val().get_bit(self.borrow_at.val().index());
        self.writing.d.next.kept = self.held.val();
        self.writing.d.next.taken = self.reading.q.val().page;
        self.writing.d.next.sum = self.sum.val();
        self.writing.d.next.difference = self.difference.val().get_bits::<27>(0);
        self.writing.d.next.rest = self.reading.q.val().accesses - self.low_count.val();
        self.votes.next =
            self.buckets.read_data.val().votes + bit_cast::<27, 10>(self.reading.q.val().accesses);
        self.writing.d.next.votes = self.votes.val();

        // The new entry.
        self.buckets.write_address.next = self.writing.q.val().index;
        self.buckets.write_enable.next = self.writing.q.val().valid;
        self.buckets.write_data.next.page = self.writing.q.val().kept;
        self.buckets.write_data.next.count = self.writing.q.val().difference;
        self.buckets.write_data.next.votes = self.writing.q.val().votes;
        if self.writing.q.val().same {
            self.buckets.write_data.next.count = self.writing.q.val().sum;
        } else if self.writing.q.val().below {
            self.buckets.write_data.next.count = bit_cast::<27, 10>(self.writing.q.val().rest);
            self.buckets.write_data.next.page = self.writing.q.val().taken;
        }
        if self.writing.q.val().takes_out {
            self.buckets.write_data.next.page = bits::<20>(0);
            self.buckets.write_data.next.count = bits::<27>(0);
            self.buckets.write_data.next.votes = bits::<27>(0);
        }

        // The entry that is taken out.
        if self.reading.q.val().takes_out {
            self.out_count.d.next = self.buckets.read_data.val().count;
            self.out_votes.d.next = self.buckets.read_data.val().votes;
        }
        self.taken_count.next = self.out_count.q.val();
        self.taken_votes.next = self.out_votes.q.val();
        self.dumped_part.next = self.index.val().get_bits::<4>(self.part_at.val().index());
        self.from.high.next = self.held.val();
        self.from.spread_select.next =
            self.spread_select.val() ^ (self.dumped_part.val() < self.next_part.val());
        self.low.next = self.index.val().get_bits::<4>(0) ^ self.from.spread.val();
        self.page.next = (bit_cast::<28, 20>(self.held.val()) << self.high_at.val())
            | (bit_cast::<28, 4>(self.low.val()) << self.bucket_at.val())
            | bit_cast::<28, 4>(self.dumped_part.val());
        self.holds.d.next = self.buckets.read_data.val().votes != 0;
        self.used.next = self.holds.q.val();
    }
}

//! Runs to the pages with most accesses: a majority vote in each bucket, one run a clock.
//!
//! A bucket holds a page, its count C and the votes V of all its runs. A run of n accesses adds n to V;
//! of the same page it adds n to C, of another it takes n from C; when C would fall below 0, the page is
//! replaced and C becomes what is left of n. So of the accesses since the bucket was empty its page had
//! at least C and at most (V + C) / 2, and any other page of the bucket at most (V - C) / 2 (Boyer and
//! Moore's vote, weighted; the bounds are those of MV-Sketch).
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_/4\_
//! run        <A >
//! arrived        <A >              its bucket is known
//! waiting            <A >          the bucket's address
//! reading                <A >      what it holds: sums and differences
//! writing                    <A >  what it shall hold
//! ```
//!
//! A run waits while one of the same bucket is on its way; a run that finds another one waiting is
//! counted as skipped. An entry is taken out by a read like any other that writes an empty one back, when
//! no run reads. Runs into the part whose entries are taken out are counted as skipped.

use hmtt_format::MemoryDescription;
use hmtt_format::record::{HOT_BUCKETS_LOG2, HOT_PARTS_LOG2};
use rust_hdl::prelude::*;

use super::page_runs::page_mask;
use super::page_spread::PageSpread;
use crate::fifo::block_ram::BlockRam;
use crate::reset::{ClearedRegister, Domain, Register};

/// What a bucket holds.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Entry {
    /// Bits 27..8 of its page.
    pub page: Bits<20>,
    /// C.
    pub count: Bits<27>,
    /// V; 0 in an empty one.
    pub votes: Bits<27>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Run {
    valid: Bit,
    /// The entry is taken out.
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
    /// DDR clock.
    pub clock: Signal<In, Domain>,
    /// A run.
    pub run_valid: Signal<In, Bit>,
    /// Its page.
    pub run_page: Signal<In, Bits<28>>,
    /// Its accesses, at most 512.
    pub run_accesses: Signal<In, Bits<10>>,
    /// The run is skipped whatever its page.
    pub frozen: Signal<In, Bit>,
    /// It is skipped if it falls into `next_part`.
    pub blocks: Signal<In, Bit>,
    /// First part not dumped in this round.
    pub next_part: Signal<In, Bits<4>>,
    /// Way in which that one spreads; the parts before it have changed to the other.
    pub turn: Signal<In, Bit>,
    /// Nothing is on its way.
    pub idle: Signal<Out, Bit>,
    /// Take an entry out; no run of its part is on its way.
    pub take_out: Signal<In, Bit>,
    /// Which bucket: part * 16 + bucket.
    pub index: Signal<In, Bits<8>>,
    /// It is taken out on this clock.
    pub taken_out: Signal<Out, Bit>,
    /// Its page, one clock later.
    pub page: Signal<Out, Bits<28>>,
    /// It holds something, two clocks later.
    pub used: Signal<Out, Bit>,
    /// Its C, from two clocks later until the next is taken out.
    pub taken_count: Signal<Out, Bits<27>>,
    /// Its V, likewise.
    pub taken_votes: Signal<Out, Bits<27>>,
    /// Accesses skipped.
    pub skipped: Signal<Out, Bits<23>>,
    /// Count them anew.
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
}

impl HotPages {
    /// The table of one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        assert_eq!((HOT_PARTS_LOG2, HOT_BUCKETS_LOG2), (4, 4), "the widths below");
        block! {
            Self {
                buckets: BlockRam::zeroed(),
                high_mask: Constant::new((page_mask(memory) >> 8).into()),
            }
            default: clock, run_valid, run_page, run_accesses, frozen, blocks, next_part, turn,
                idle, take_out, index, taken_out, page, used, taken_count, taken_votes, skipped,
                clear_skipped, into, from, arrived, waiting, just_taken, being_read, reading,
                writing, holds, out_count, out_votes, lost, lost_early, lost_now, skips, part,
                dumped_part, low, bucket, take, takes_out, skips_run, sum, difference, low_count,
                count, votes, held
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
        self.into.high.next = self.run_page.val().get_bits::<20>(8);
        self.into.turn.next = self.turn.val() ^ (self.part.val() < self.next_part.val());
        self.bucket.next = self.run_page.val().get_bits::<4>(4) ^ self.into.spread.val();
        self.skips_run.next = self.run_valid.val()
            & (self.frozen.val() | (self.blocks.val() & (self.part.val() == self.next_part.val())));
        self.arrived.d.next.valid = self.run_valid.val() & !self.skips_run.val();
        self.arrived.d.next.takes_out = false;
        self.arrived.d.next.index =
            (bit_cast::<8, 4>(self.part.val()) << 4) | bit_cast::<8, 4>(self.bucket.val());
        self.arrived.d.next.page = self.run_page.val().get_bits::<20>(8);
        self.arrived.d.next.accesses = self.run_accesses.val();

        // A run waits while its bucket is read or written; what is before it was compared when it came.
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

        // Its bucket is read.
        self.takes_out.next = self.take_out.val() & !self.take.val();
        self.taken_out.next = self.takes_out.val();
        self.buckets.read_address.next = self.waiting.q.val().index;
        // Bits no page has are known to be 0, so that they take no room.
        self.held.next = self.buckets.read_data.val().page & self.high_mask.val();
        self.reading.d.next = self.waiting.q.val();
        self.reading.d.next.valid = self.take.val() | self.takes_out.val();
        self.reading.d.next.takes_out = self.takes_out.val();
        if self.takes_out.val() {
            self.buckets.read_address.next = self.index.val();
            self.reading.d.next.index = self.index.val();
        }

        // What may become of it.
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
        self.writing.d.next.below = self.difference.val().get_bit(27);
        self.writing.d.next.kept = self.held.val();
        self.writing.d.next.taken = self.reading.q.val().page;
        self.writing.d.next.sum = self.sum.val();
        self.writing.d.next.difference = self.difference.val().get_bits::<27>(0);
        self.writing.d.next.rest = self.reading.q.val().accesses - self.low_count.val();
        self.votes.next =
            self.buckets.read_data.val().votes + bit_cast::<27, 10>(self.reading.q.val().accesses);
        self.writing.d.next.votes = self.votes.val();

        // What becomes of it.
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

        // What the entry says that is taken out.
        if self.reading.q.val().takes_out {
            self.out_count.d.next = self.buckets.read_data.val().count;
            self.out_votes.d.next = self.buckets.read_data.val().votes;
        }
        self.taken_count.next = self.out_count.q.val();
        self.taken_votes.next = self.out_votes.q.val();
        self.dumped_part.next = self.index.val().get_bits::<4>(4);
        self.from.high.next = self.held.val();
        self.from.turn.next = self.turn.val() ^ (self.dumped_part.val() < self.next_part.val());
        self.low.next = self.index.val().get_bits::<4>(0) ^ self.from.spread.val();
        self.page.next = (bit_cast::<28, 20>(self.held.val()) << 8)
            | (bit_cast::<28, 4>(self.low.val()) << 4)
            | bit_cast::<28, 4>(self.dumped_part.val());
        self.holds.d.next = self.buckets.read_data.val().votes != 0;
        self.used.next = self.holds.q.val();
    }
}

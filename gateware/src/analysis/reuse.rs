//! Measures the reuse distance of sampled pages: how many other sampled pages were used since a
//! page was last used.
//!
//! Runs of pages come from `page_runs`; distances go to `tallies`. A page is sampled if the XOR of
//! the 6-bit pieces of its number is 0. That is one page in 64, and exactly one of each aligned 64,
//! so bits 27..6 identify a sampled page. A stack in block RAM holds the 256 pages that were used
//! last, in the order of their use. The page of a run is searched from the top, one position in
//! each clock. Each entry on the way moves down by one, until the old position of the page is
//! overwritten. That position is the distance. Example: after runs of the sampled pages A, B, C, B,
//! the next run of A has distance 2. One run can wait for the stack; another one is counted as
//! skipped.
//!
//! ```text
//! AwaitRun -> Read -> Scan, one clock for each position -> AwaitTaken -> AwaitRun
//! begins    _/~\________________________________
//! offer     ______________________/~~~~~~~~~\___   until `taken`; `bucket` does not change meanwhile
//! taken     ____________________________/~~~\___
//! ```

use hmtt_format::MemoryDescription;
use hmtt_format::record::{REUSE_COLD, REUSE_DEPTH_LOG2, REUSE_SAMPLE_LOG2};
use rust_hdl::prelude::*;

use super::page_runs::page_mask;
use crate::fifo::block_ram::BlockRam;
use crate::reset::{ClearedRegister, Domain, Register};

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    AwaitRun,
    Read,
    Scan,
    AwaitTaken,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct Reuse {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// A run begins.
    pub begins: Signal<In, Bit>,
    /// Page of the run.
    pub page: Signal<In, Bits<28>>,
    /// Skip runs that begin.
    pub frozen: Signal<In, Bit>,
    /// Clear the order of use; no run is in the unit.
    pub clear_order: Signal<In, Bit>,
    /// There is a distance.
    pub offer: Signal<Out, Bit>,
    /// Bucket of the distance: 0 for 0, k from 2^(k-1), [`REUSE_COLD`] beyond the stack.
    pub bucket: Signal<Out, Bits<4>>,
    /// The distance is taken on this clock.
    pub taken: Signal<In, Bit>,
    /// No run is in the unit.
    pub idle: Signal<Out, Bit>,
    /// Runs that were skipped.
    pub skipped: Signal<Out, Bits<23>>,
    /// Restart the count of skipped runs.
    pub clear_skipped: Signal<In, Bit>,
    stack: BlockRam<Bits<22>, 8>,
    state: Register<State>,
    arrived: Register<Bit>,
    arrived_key: Register<Bits<22>>,
    waits: Register<Bit>,
    waiting: Register<Bits<22>>,
    key: Register<Bits<22>>,
    carried: Register<Bits<22>>,
    position: Register<Bits<8>>,
    reached: Register<Bits<8>>,
    read_position: Register<Bits<8>>,
    left: Register<Bits<9>>,
    depth: ClearedRegister<Bits<9>>,
    found: Register<Bit>,
    skip: Register<Bit>,
    skips: ClearedRegister<Bits<23>>,
    folded: Signal<Local, Bits<6>>,
    starts: Signal<Local, Bit>,
    distance: Signal<Local, Bits<8>>,
    is_full: Signal<Local, Bit>,
    held: Signal<Local, Bits<22>>,
    key_mask: Constant<Bits<22>>,
    full_bit: Constant<Bits<9>>,
    cold: Constant<Bits<4>>,
    piece_1: Constant<Bits<5>>,
    piece_2: Constant<Bits<5>>,
    piece_3: Constant<Bits<5>>,
    piece_4: Constant<Bits<5>>,
}

impl Reuse {
    /// Builds the unit for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        assert_eq!((REUSE_SAMPLE_LOG2, REUSE_DEPTH_LOG2), (6, 8), "the widths below");
        block! {
            Self {
                key_mask: Constant::new((page_mask(memory) >> REUSE_SAMPLE_LOG2).into()),
                full_bit: Constant::new((1u64 << REUSE_DEPTH_LOG2).into()),
                cold: Constant::new(u64::from(REUSE_COLD).into()),
                piece_1: Constant::new(u64::from(REUSE_SAMPLE_LOG2).into()),
                piece_2: Constant::new(u64::from(2 * REUSE_SAMPLE_LOG2).into()),
                piece_3: Constant::new(u64::from(3 * REUSE_SAMPLE_LOG2).into()),
                piece_4: Constant::new(u64::from(4 * REUSE_SAMPLE_LOG2).into()),
            }
            default: clock, begins, page, frozen, clear_order, offer, bucket, taken, idle, skipped,
                clear_skipped, stack, state, arrived, arrived_key, waits, waiting, key, carried,
                position, reached, read_position, left, depth, found, skip, skips, folded, starts,
                distance, is_full, held
        }
    }
}

impl Logic for Reuse {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            arrived,
            arrived_key,
            waits,
            waiting,
            key,
            carried,
            position,
            reached,
            read_position,
            left,
            depth,
            found,
            skip,
            skips
        );
        self.stack.read_clock.next = self.clock.val();
        self.stack.write_clock.next = self.clock.val();

        self.folded.next = self.page.val().get_bits::<6>(0)
            ^ self.page.val().get_bits::<6>(self.piece_1.val().index())
            ^ self.page.val().get_bits::<6>(self.piece_2.val().index())
            ^ self.page.val().get_bits::<6>(self.piece_3.val().index())
            ^ bit_cast::<6, 4>(self.page.val().get_bits::<4>(self.piece_4.val().index()));
        self.arrived.d.next = self.begins.val() & (self.folded.val() == 0);
        self.arrived_key.d.next = self.page.val().get_bits::<22>(self.piece_1.val().index());
        self.starts.next = self.waits.q.val() & (self.state.q.val() == State::AwaitRun);
        self.skip.d.next = false;
        if self.starts.val() {
            self.waits.d.next = false;
        }
        if self.arrived.q.val() {
            if self.frozen.val() | (self.waits.q.val() & !self.starts.val()) {
                self.skip.d.next = true;
            } else {
                self.waits.d.next = true;
                self.waiting.d.next = self.arrived_key.q.val();
            }
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
        self.idle.next =
            !self.arrived.q.val() & !self.waits.q.val() & (self.state.q.val() == State::AwaitRun);

        // Bits that no page number has are constant 0, so they need no logic.
        self.held.next = self.stack.read_data.val() & self.key_mask.val();
        self.stack.read_address.next = self.read_position.q.val();
        self.stack.write_address.next = self.position.q.val();
        self.stack.write_data.next = self.carried.q.val();
        self.stack.write_enable.next = false;
        self.is_full.next = (self.depth.q.val() & self.full_bit.val()) != 0;
        self.offer.next = false;
        match self.state.q.val() {
            State::AwaitRun => {
                self.key.d.next = self.waiting.q.val();
                self.carried.d.next = self.waiting.q.val();
                self.read_position.d.next = bits::<8>(0);
                self.left.d.next = self.depth.q.val();
                self.found.d.next = false;
                if self.starts.val() {
                    self.state.d.next = State::Read;
                }
            }
            State::Read => {
                self.position.d.next = self.read_position.q.val();
                self.read_position.d.next = self.read_position.q.val() + 1;
                self.state.d.next = State::Scan;
            }
            State::Scan => {
                // The result of the comparison is registered, so it takes effect a clock later.
                if self.found.q.val() {
                    self.state.d.next = State::AwaitTaken;
                } else {
                    self.reached.d.next = self.position.q.val();
                    self.position.d.next = self.read_position.q.val();
                    self.read_position.d.next = self.read_position.q.val() + 1;
                    self.carried.d.next = self.held.val();
                    self.left.d.next = self.left.q.val() - 1;
                    self.stack.write_enable.next = true;
                    if self.left.q.val() == 0 {
                        // A full stack does not grow: its last entry is lost.
                        self.state.d.next = State::AwaitTaken;
                        self.stack.write_enable.next = !self.is_full.val();
                        if !self.is_full.val() {
                            self.depth.d.next = self.depth.q.val() + 1;
                        }
                    } else {
                        self.found.d.next = self.held.val() == self.key.q.val();
                    }
                }
            }
            State::AwaitTaken => {
                self.offer.next = true;
                if self.taken.val() {
                    self.state.d.next = State::AwaitRun;
                }
            }
            _ => {
                self.state.d.next = State::AwaitRun;
            }
        }
        if self.clear_order.val() {
            self.depth.d.next = bits::<9>(0);
        }

        // Bucket k has the distances whose highest bit is bit k - 1.
        self.distance.next = self.reached.q.val();
        self.bucket.next = bits::<4>(0);
        if !self.found.q.val() {
            self.bucket.next = self.cold.val();
        } else if self.distance.val().get_bit(7) {
            self.bucket.next = bits::<4>(8);
        } else if self.distance.val().get_bit(6) {
            self.bucket.next = bits::<4>(7);
        } else if self.distance.val().get_bit(5) {
            self.bucket.next = bits::<4>(6);
        } else if self.distance.val().get_bit(4) {
            self.bucket.next = bits::<4>(5);
        } else if self.distance.val().get_bit(3) {
            self.bucket.next = bits::<4>(4);
        } else if self.distance.val().get_bit(2) {
            self.bucket.next = bits::<4>(3);
        } else if self.distance.val().get_bit(1) {
            self.bucket.next = bits::<4>(2);
        } else if self.distance.val().get_bit(0) {
            self.bucket.next = bits::<4>(1);
        }
    }
}

//! The packet FIFO: passes blocks of words from the DDR domain to the transmit domain, only as
//! whole blocks.
//!
//! The block writer writes a block at addresses that it chooses, also a half of a word at a time,
//! and then moves `committed` behind it. The Tx thread sees the block when that pointer has
//! crossed, reads it, and moves `freed`. Only the two pointers cross, so no fill level is on a
//! critical path. `space_available` is computed by a subtraction and a comparison, with a register
//! after each. It may follow `freed` late; it follows `committed` after [`SPACE_LATENCY`] edges,
//! for which the writer must wait.
//!
//! ```text
//! edge               0   1   2        SPACE_LATENCY = 2
//! committed        a | b | b | b
//! used             a | a | b | b
//! space_available  a | a | a | b
//! ```

use hmtt_format::frame::MAX_WORDS;
use rust_hdl::prelude::*;

use super::block_ram::BlockRam;
use super::pointer_crossing::PointerCrossing;
use super::ports::{FifoRead, FifoWrite};
use crate::reset::{Domain, Register};

/// Maximum number of words of a block: a descriptor and the words of a full frame.
pub const BLOCK_WORDS: u64 = 1 + MAX_WORDS as u64;

/// DDR clock edges from the edge that moves `committed` until `space_available` is valid for the
/// new value. A writer waits that many edges before it uses `space_available` again.
pub const SPACE_LATENCY: usize = 2;

/// See the module's description. `2^N` words of 64 bits.
#[derive(LogicBlock)]
pub struct PacketFifo<const N: usize> {
    /// Clock of the writer.
    pub ddr_clock: Signal<In, Domain>,
    /// Clock of the reader.
    pub tx_clock: Signal<In, Domain>,
    /// Write port, of the writer's clock.
    pub write: FifoWrite<N>,
    /// The longest block fits after `committed`; see [`SPACE_LATENCY`].
    pub space_available: Signal<Out, Bit>,
    /// Read port, of the reader's clock.
    pub read: FifoRead<N>,
    /// `committed`, after it has crossed.
    pub available: Signal<Out, Bits<N>>,
    high: BlockRam<Bits<32>, N>,
    low: BlockRam<Bits<32>, N>,
    forward: PointerCrossing<N>,
    backward: PointerCrossing<N>,
    used: Register<Bits<N>>,
    has_space: Register<Bit>,
    space_below: Constant<Bits<N>>,
}

impl<const N: usize> Default for PacketFifo<N> {
    fn default() -> Self {
        Self::for_blocks_of(BLOCK_WORDS)
    }
}

impl<const N: usize> PacketFifo<N> {
    /// Builds a FIFO for blocks of at most `words` words, including the descriptor.
    ///
    /// # Panics
    /// When the FIFO cannot hold one block.
    pub fn for_blocks_of(words: u64) -> Self {
        block! {
            Self {
                // Full and empty must differ, so one word is never used.
                space_below: Constant::new((1u64 << N).checked_sub(words).expect("a block fits").into()),
            }
            default: ddr_clock, tx_clock, write, space_available, read, available, high, low,
                forward, backward, used, has_space
        }
    }
}

impl<const N: usize> Logic for PacketFifo<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, ddr_clock, used, has_space);
        self.high.write_clock.next = self.ddr_clock.val();
        self.low.write_clock.next = self.ddr_clock.val();
        self.high.read_clock.next = self.tx_clock.val();
        self.low.read_clock.next = self.tx_clock.val();
        self.forward.from_clock.next = self.ddr_clock.val();
        self.forward.to_clock.next = self.tx_clock.val();
        self.backward.from_clock.next = self.tx_clock.val();
        self.backward.to_clock.next = self.ddr_clock.val();

        self.high.write_enable.next = self.write.high_enable.val();
        self.low.write_enable.next = self.write.low_enable.val();
        self.high.write_address.next = self.write.address.val();
        self.low.write_address.next = self.write.address.val();
        self.high.write_data.next = self.write.high.val();
        self.low.write_data.next = self.write.low.val();
        self.high.read_address.next = self.read.address.val();
        self.low.read_address.next = self.read.address.val();
        self.read.high.next = self.high.read_data.val();
        self.read.low.next = self.low.read_data.val();

        self.forward.value.next = self.write.committed.val();
        self.available.next = self.forward.crossed.val();
        self.backward.value.next = self.read.freed.val();
        self.used.d.next = self.write.committed.val() - self.backward.crossed.val();
        self.has_space.d.next = self.used.q.val() < self.space_below.val();
        self.space_available.next = self.has_space.q.val();
    }
}

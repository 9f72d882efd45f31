//! Tx thread: sends blocks of the packet FIFO, and heartbeats, as the octets of frames, with
//! addresses and frame counter.
//!
//! It waits until a whole block is available, reads its descriptor, and then offers the frame to
//! the GMAC octet by octet. Octets are sent in groups of four; the first group has two, so that
//! words begin at the border of a group.
//!
//! ```text
//! read.address -> block RAM -> word -> next -> shift -> data
//!
//! clock          |0|1|2|3|4|5|6|7|
//! shift          |High a |Low a  |High b
//! next           |H|Low a  |High b
//! read.address    a|b
//! word            a a|b                one clock after the memory; b is needed from clock 4 on
//! ```
//!
//! `next` takes a group on the clock after `shift` took the one before. The address changes with
//! the last but one group of a word, so the memory may take up to [`MAX_READ_CLOCKS`]. A memory
//! takes one clock, or two clocks if it has output registers, which large memories need.
//! Comparisons and carries are computed a clock ahead, so no path is longer than the selection of
//! `next`.

use hmtt_format::frame::{DESTINATION, ETHER_TYPE, HEADER_WORDS_AT, SOURCE_PREFIX};
use rust_hdl::prelude::*;

use super::ports::{BeatSink, OctetSource};
use crate::fifo::ports::FifoReader;
use crate::reset::{Domain, KeptRegister, Register};

/// Maximum number of clocks that the memory may take from an address to its word.
pub const MAX_READ_CLOCKS: usize = 3;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    AwaitBlock,
    Send,
}

/// The group that `next` contains, or takes on this clock: the group after the one that is sent.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum Group {
    DestinationEnd,
    SourceStart,
    SourceEnd,
    Header,
    High,
    Low,
}

/// See the module's description. `N`: log2 of the FIFO's words.
#[derive(LogicBlock)]
pub struct TxThread<const N: usize> {
    /// Transmit clock domain, 125 MHz. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// End of the last complete block.
    pub available: Signal<In, Bits<N>>,
    /// Read port of the FIFO. A word may be up to [`MAX_READ_CLOCKS`] late.
    pub read: FifoReader<N>,
    /// No block is being sent, and none is left to send.
    pub drained: Signal<Out, Bit>,
    /// Go back to the first word of the FIFO; only while `drained`.
    pub rewind: Signal<In, Bit>,
    /// Heartbeats, and whether a frame was sent.
    pub beat: BeatSink,
    /// Octets of frames, for the GMAC.
    pub octets: OctetSource,
    state: Register<State>,
    group: KeptRegister<Group>,
    read_at: Register<Bits<N>>,
    freed_to: Register<Bits<N>>,
    pending: Register<Bit>,
    sends_heartbeat: Register<Bit>,
    word_high: KeptRegister<Bits<32>>,
    word_low: KeptRegister<Bits<32>>,
    loads_group: Register<Bit>,
    next_group: KeptRegister<Bits<32>>,
    shift: KeptRegister<Bits<32>>,
    left: KeptRegister<Bits<2>>,
    reload: KeptRegister<Bit>,
    words_left: KeptRegister<Bits<8>>,
    finishing: KeptRegister<Bit>,
    offered: Register<Bit>,
    at_last: Register<Bit>,
    counter: FrameCounter,
    sent: Register<Bit>,
    high_and_mid: Signal<Local, Bits<32>>,
    first_word: Constant<Bits<N>>,
    destination_start: Constant<Bits<32>>,
    destination_end: Constant<Bits<32>>,
    source_prefix: Constant<Bits<32>>,
    ether_type: Constant<Bits<32>>,
    words_at: Constant<Bits<5>>,
    octet_at: Constant<Bits<5>>,
    octet_bits: Constant<Bits<4>>,
    address_start: Constant<Bits<2>>,
    last_octet_but_one: Constant<Bits<2>>,
}

impl<const N: usize> Default for TxThread<N> {
    fn default() -> Self {
        let [a, b, c, d, e, f] = DESTINATION;
        let word = |bytes: [u8; 4]| Constant::new(u64::from(u32::from_be_bytes(bytes)).into());
        block! {
            Self {
                first_word: Constant::new(Bits::default()),
                destination_start: word([a, b, 0, 0]),
                destination_end: word([c, d, e, f]),
                source_prefix: word([SOURCE_PREFIX, 0, 0, 0]),
                ether_type: Constant::new(u64::from(ETHER_TYPE).into()),
                words_at: Constant::new(u64::from(HEADER_WORDS_AT).into()),
                octet_at: Constant::new(24u64.into()),
                octet_bits: Constant::new(8u64.into()),
                address_start: Constant::new(1u64.into()),
                last_octet_but_one: Constant::new(1u64.into()),
            }
            default: clock, available, read, drained, rewind, beat, octets, state, group, read_at,
                freed_to, pending, sends_heartbeat, word_high, word_low, loads_group, next_group,
                shift, left, reload, words_left, finishing, offered, at_last, counter, sent,
                high_and_mid
        }
    }
}

impl<const N: usize> Logic for TxThread<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            group,
            read_at,
            freed_to,
            pending,
            sends_heartbeat,
            word_high,
            word_low,
            loads_group,
            next_group,
            shift,
            left,
            reload,
            words_left,
            finishing,
            offered,
            at_last,
            sent
        );
        self.counter.clock.next = self.clock.val();
        self.counter.step.next = self.sent.q.val();
        self.read.address.next = self.read_at.q.val();
        self.read.freed.next = self.freed_to.q.val();
        self.octets.valid.next = self.offered.q.val();
        self.octets.data.next = self.shift.q.val().get_bits::<8>(self.octet_at.val().index());
        self.octets.last.next = self.at_last.q.val();

        self.pending.d.next = self.available.val() != self.read_at.q.val();
        self.word_high.d.next = self.read.high.val();
        self.word_low.d.next = self.read.low.val();
        self.high_and_mid.next = (bit_cast::<32, 8>(self.counter.high.val()) << 16)
            | bit_cast::<32, 16>(self.counter.mid.val());
        self.loads_group.d.next = false;
        self.beat.taken.next = false;
        self.beat.step.next = false;
        self.beat.sent.next = self.sent.q.val();
        if self.loads_group.q.val() {
            match self.group.q.val() {
                Group::DestinationEnd => {
                    self.next_group.d.next = self.destination_end.val();
                }
                Group::SourceStart => {
                    self.next_group.d.next = self.source_prefix.val() | self.high_and_mid.val();
                }
                Group::SourceEnd => {
                    self.next_group.d.next =
                        (bit_cast::<32, 16>(self.counter.low.val()) << 16) | self.ether_type.val();
                }
                Group::Header => {
                    // The payload header is the low half of the descriptor.
                    self.next_group.d.next = self.word_low.q.val();
                    self.words_left.d.next =
                        self.word_low.q.val().get_bits::<8>(self.words_at.val().index());
                    if self.sends_heartbeat.q.val() {
                        self.beat.step.next = true;
                        self.next_group.d.next = self.beat.group.val();
                        self.words_left.d.next =
                            self.beat.group.val().get_bits::<8>(self.words_at.val().index());
                    }
                }
                Group::High => {
                    self.next_group.d.next = self.word_high.q.val();
                    if self.sends_heartbeat.q.val() {
                        self.beat.step.next = true;
                        self.next_group.d.next = self.beat.group.val();
                    }
                }
                _ => {
                    self.next_group.d.next = self.word_low.q.val();
                    if self.sends_heartbeat.q.val() {
                        self.beat.step.next = true;
                        self.next_group.d.next = self.beat.group.val();
                    }
                }
            }
        }
        // The group in `next` ends the header or a word, and no word follows.
        self.finishing.d.next =
            (self.words_left.q.val() == 0) & (self.group.q.val() == Group::High);

        self.drained.next = !self.pending.q.val()
            & ((self.state.q.val() == State::AwaitBlock) | self.sends_heartbeat.q.val());
        self.sent.d.next = false;
        match self.state.q.val() {
            State::AwaitBlock => {
                self.group.d.next = Group::DestinationEnd;
                self.shift.d.next = self.destination_start.val();
                self.left.d.next = self.address_start.val();
                self.reload.d.next = false;
                self.sends_heartbeat.d.next = self.beat.due.val();
                if self.pending.q.val() | self.beat.due.val() {
                    self.beat.taken.next = self.beat.due.val();
                    self.loads_group.d.next = true;
                    self.offered.d.next = true;
                    self.state.d.next = State::Send;
                }
            }
            State::Send => {
                if self.octets.ready.val() {
                    self.left.d.next = self.left.q.val() - 1;
                    self.reload.d.next = (self.left.q.val() == self.last_octet_but_one.val())
                        & !self.finishing.q.val();
                    self.at_last.d.next = (self.left.q.val() == self.last_octet_but_one.val())
                        & self.finishing.q.val();
                    self.shift.d.next = self.shift.q.val() << self.octet_bits.val();
                    if self.reload.q.val() {
                        self.shift.d.next = self.next_group.q.val();
                        self.loads_group.d.next = true;
                        match self.group.q.val() {
                            Group::DestinationEnd => {
                                self.group.d.next = Group::SourceStart;
                            }
                            Group::SourceStart => {
                                self.group.d.next = Group::SourceEnd;
                            }
                            Group::SourceEnd => {
                                if !self.sends_heartbeat.q.val() {
                                    self.read_at.d.next = self.read_at.q.val() + 1;
                                }
                                self.group.d.next = Group::Header;
                            }
                            Group::Header => {
                                self.group.d.next = Group::High;
                            }
                            Group::High => {
                                if !self.sends_heartbeat.q.val() {
                                    self.read_at.d.next = self.read_at.q.val() + 1;
                                }
                                self.group.d.next = Group::Low;
                            }
                            _ => {
                                self.words_left.d.next = self.words_left.q.val() - 1;
                                self.group.d.next = Group::High;
                            }
                        }
                    }
                    if self.at_last.q.val() {
                        self.offered.d.next = false;
                        self.sent.d.next = true;
                        self.freed_to.d.next = self.read_at.q.val();
                        self.state.d.next = State::AwaitBlock;
                    }
                }
            }
            _ => {
                self.state.d.next = State::AwaitBlock;
            }
        }
        if self.rewind.val() {
            self.read_at.d.next = self.first_word.val();
            self.freed_to.d.next = self.first_word.val();
        }
    }
}

/// The 40-bit frame counter, in parts. A carry takes a clock from part to part; it has passed long
/// before the next frame reads the counter.
#[derive(LogicBlock)]
pub struct FrameCounter {
    /// Transmit clock domain, 125 MHz. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Count a frame.
    pub step: Signal<In, Bit>,
    /// Bits 39..32.
    pub high: Signal<Out, Bits<8>>,
    /// Bits 31..16.
    pub mid: Signal<Out, Bits<16>>,
    /// Bits 15..0.
    pub low: Signal<Out, Bits<16>>,
    low_part: Register<Bits<16>>,
    low_full: Register<Bit>,
    mid_step: Register<Bit>,
    mid_part: Register<Bits<16>>,
    mid_full: Register<Bit>,
    high_step: Register<Bit>,
    high_part: Register<Bits<8>>,
    part_full: Constant<Bits<16>>,
}

impl Default for FrameCounter {
    fn default() -> Self {
        block! {
            Self {
                part_full: Constant::new(u64::from(u16::MAX).into()),
            }
            default: clock, step, high, mid, low, low_part, low_full, mid_step, mid_part,
                mid_full, high_step, high_part
        }
    }
}

impl Logic for FrameCounter {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, low_part, low_full, mid_step, mid_part, mid_full, high_step, high_part
        );
        self.high.next = self.high_part.q.val();
        self.mid.next = self.mid_part.q.val();
        self.low.next = self.low_part.q.val();
        self.low_full.d.next = self.low_part.q.val() == self.part_full.val();
        self.mid_full.d.next = self.mid_part.q.val() == self.part_full.val();
        self.mid_step.d.next = self.step.val() & self.low_full.q.val();
        self.high_step.d.next = self.mid_step.q.val() & self.mid_full.q.val();
        if self.step.val() {
            self.low_part.d.next = self.low_part.q.val() + 1;
        }
        if self.mid_step.q.val() {
            self.mid_part.d.next = self.mid_part.q.val() + 1;
        }
        if self.high_step.q.val() {
            self.high_part.d.next = self.high_part.q.val() + 1;
        }
    }
}

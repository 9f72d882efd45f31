//! Tx thread: blocks in the packet FIFO to the bytes of frames, addresses and counter included.
//!
//! Waits until a whole block is available, reads its descriptor, then offers the frame byte by byte in
//! groups of four (the first has two, so that words fall on group borders). The next word is on the
//! FIFO's read port long before its group begins.

use hmtt_format::frame::{DESTINATION, ETHER_TYPE, SOURCE_PREFIX};
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    AwaitBlock,
    Descriptor,
    Send,
}

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
    /// Transmit clock.
    pub clock: Signal<In, Clock>,
    /// End of the last complete block.
    pub available: Signal<In, Bits<N>>,
    /// Word to read.
    pub read_address: Signal<Out, Bits<N>>,
    /// Bits 63..32 of the word addressed on the clock before.
    pub read_high: Signal<In, Bits<32>>,
    /// Bits 31..0.
    pub read_low: Signal<In, Bits<32>>,
    /// Start of the oldest block still needed.
    pub freed: Signal<Out, Bits<N>>,
    /// A frame is offered.
    pub valid: Signal<Out, Bit>,
    /// Its next byte.
    pub data: Signal<Out, Bits<8>>,
    /// It is the last one.
    pub last: Signal<Out, Bit>,
    /// The byte is taken.
    pub ready: Signal<In, Bit>,
    state: DFF<State>,
    group: DFF<Group>,
    read_at: DFF<Bits<N>>,
    done_to: DFF<Bits<N>>,
    header: DFF<Bits<32>>,
    words_left: DFF<Bits<8>>,
    shift: DFF<Bits<32>>,
    left: DFF<Bits<2>>,
    counter: DFF<Bits<32>>,
    counter_high: DFF<Bits<8>>,
    is_last: Signal<Local, Bit>,
    next_counter: Signal<Local, Bits<32>>,
    destination_start: Constant<Bits<32>>,
    destination_end: Constant<Bits<32>>,
    source_prefix: Constant<Bits<32>>,
    ether_type: Constant<Bits<32>>,
}

impl<const N: usize> Default for TxThread<N> {
    fn default() -> Self {
        let [a, b, c, d, e, f] = DESTINATION;
        let word = |bytes: [u8; 4]| Constant::new(u64::from(u32::from_be_bytes(bytes)).into());
        Self {
            clock: Default::default(),
            available: Default::default(),
            read_address: Default::default(),
            read_high: Default::default(),
            read_low: Default::default(),
            freed: Default::default(),
            valid: Default::default(),
            data: Default::default(),
            last: Default::default(),
            ready: Default::default(),
            state: Default::default(),
            group: Default::default(),
            read_at: Default::default(),
            done_to: Default::default(),
            header: Default::default(),
            words_left: Default::default(),
            shift: Default::default(),
            left: Default::default(),
            counter: Default::default(),
            counter_high: Default::default(),
            is_last: Default::default(),
            next_counter: Default::default(),
            destination_start: word([a, b, 0, 0]),
            destination_end: word([c, d, e, f]),
            source_prefix: word([SOURCE_PREFIX, 0, 0, 0]),
            ether_type: Constant::new(u64::from(ETHER_TYPE).into()),
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
            done_to,
            header,
            words_left,
            shift,
            left,
            counter,
            counter_high
        );
        self.read_address.next = self.read_at.q.val();
        self.freed.next = self.done_to.q.val();
        self.valid.next = false;
        self.data.next = self.shift.q.val().get_bits::<8>(24);
        self.is_last.next = (self.words_left.q.val() == 0) & (self.left.q.val() == 0);
        self.last.next = self.is_last.val();
        self.next_counter.next = self.counter.q.val() + 1;
        match self.state.q.val() {
            State::AwaitBlock => {
                if self.available.val() != self.read_at.q.val() {
                    self.state.d.next = State::Descriptor;
                }
            }
            State::Descriptor => {
                self.header.d.next = self.read_low.val();
                self.words_left.d.next = self.read_low.val().get_bits::<8>(16);
                self.read_at.d.next = self.read_at.q.val() + 1;
                self.shift.d.next = self.destination_start.val();
                self.left.d.next = bits::<2>(1);
                self.group.d.next = Group::DestinationEnd;
                self.state.d.next = State::Send;
            }
            State::Send => {
                self.valid.next = true;
                if self.ready.val() {
                    self.left.d.next = self.left.q.val() - 1;
                    self.shift.d.next = self.shift.q.val() << 8;
                    if self.is_last.val() {
                        self.state.d.next = State::AwaitBlock;
                        self.done_to.d.next = self.read_at.q.val();
                        self.counter.d.next = self.next_counter.val();
                        if self.next_counter.val() == 0 {
                            self.counter_high.d.next = self.counter_high.q.val() + 1;
                        }
                    } else if self.left.q.val() == 0 {
                        match self.group.q.val() {
                            Group::DestinationEnd => {
                                self.shift.d.next = self.destination_end.val();
                                self.group.d.next = Group::SourceStart;
                            }
                            Group::SourceStart => {
                                self.shift.d.next = self.source_prefix.val()
                                    | (bit_cast::<32, 8>(self.counter_high.q.val()) << 16)
                                    | (self.counter.q.val() >> 16);
                                self.group.d.next = Group::SourceEnd;
                            }
                            Group::SourceEnd => {
                                self.shift.d.next =
                                    (self.counter.q.val() << 16) | self.ether_type.val();
                                self.group.d.next = Group::Header;
                            }
                            Group::Header => {
                                self.shift.d.next = self.header.q.val();
                                self.group.d.next = Group::High;
                            }
                            Group::High => {
                                self.shift.d.next = self.read_high.val();
                                self.group.d.next = Group::Low;
                            }
                            Group::Low => {
                                self.shift.d.next = self.read_low.val();
                                self.read_at.d.next = self.read_at.q.val() + 1;
                                self.words_left.d.next = self.words_left.q.val() - 1;
                                self.group.d.next = Group::High;
                            }
                            _ => {
                                self.group.d.next = Group::DestinationEnd;
                            }
                        }
                    }
                }
            }
            _ => {
                self.state.d.next = State::AwaitBlock;
            }
        }
    }
}

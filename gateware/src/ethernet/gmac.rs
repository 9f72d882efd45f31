//! Bytes of a frame to GMII: preamble, SFD, data, padding, FCS, inter-frame gap (IEEE 802.3 clauses
//! 3.2, 4.2.3.3, 4.4.2).
//!
//! ```text
//! state    gap | preamble 7 x 55 | D5 | data ... (pad to 60) | FCS 4 | gap 12
//! ready                               ___________
//! tx_en         _____________________________________________
//! ```
//!
//! Once `ready` is high the source must offer a byte every clock up to `last`; it is never asked to
//! wait. Outputs are registered.

use hmtt_format::frame::MIN_FRAME_BYTES;
use rust_hdl::prelude::*;

use super::crc32::Crc32Step;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    AwaitFrame,
    Preamble,
    Data,
    Pad,
    Check,
    Gap,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct Gmac {
    /// Transmit clock, 125 MHz.
    pub clock: Signal<In, Clock>,
    /// A frame is offered; `data` is its next byte.
    pub valid: Signal<In, Bit>,
    /// Next byte, destination address first.
    pub data: Signal<In, Bits<8>>,
    /// It is the last one before the FCS.
    pub last: Signal<In, Bit>,
    /// The byte is taken on this clock.
    pub ready: Signal<Out, Bit>,
    /// GMII TXD.
    pub txd: Signal<Out, Bits<8>>,
    /// GMII TX_EN.
    pub tx_en: Signal<Out, Bit>,
    crc: Crc32Step,
    state: DFF<State>,
    count: DFF<Bits<6>>,
    check: DFF<Bits<32>>,
    txd_out: DFF<Bits<8>>,
    tx_en_out: DFF<Bit>,
    octet: Signal<Local, Bits<8>>,
    inverted: Signal<Local, Bits<32>>,
    feeds: Signal<Local, Bit>,
    enough: Signal<Local, Bit>,
    all_ones: Constant<Bits<32>>,
    last_needed: Constant<Bits<6>>,
}

impl Default for Gmac {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            valid: Default::default(),
            data: Default::default(),
            last: Default::default(),
            ready: Default::default(),
            txd: Default::default(),
            tx_en: Default::default(),
            crc: Default::default(),
            state: Default::default(),
            count: Default::default(),
            check: Default::default(),
            txd_out: Default::default(),
            tx_en_out: Default::default(),
            octet: Default::default(),
            inverted: Default::default(),
            feeds: Default::default(),
            enough: Default::default(),
            all_ones: Constant::new(0xffff_ffff_u64.into()),
            last_needed: Constant::new((MIN_FRAME_BYTES as u64 - 1).into()),
        }
    }
}

impl Logic for Gmac {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, count, check, txd_out, tx_en_out);
        self.txd.next = self.txd_out.q.val();
        self.tx_en.next = self.tx_en_out.q.val();
        self.ready.next = false;
        self.feeds.next = false;
        self.octet.next = bits::<8>(0);
        self.tx_en_out.d.next = true;
        self.enough.next = self.count.q.val() >= self.last_needed.val();
        self.inverted.next = self.check.q.val() ^ self.all_ones.val();
        match self.state.q.val() {
            State::AwaitFrame => {
                self.tx_en_out.d.next = false;
                self.count.d.next = bits::<6>(0);
                if self.valid.val() {
                    self.state.d.next = State::Preamble;
                }
            }
            State::Preamble => {
                self.octet.next = bits::<8>(0x55);
                self.check.d.next = self.all_ones.val();
                self.count.d.next = self.count.q.val() + 1;
                if self.count.q.val() == 7 {
                    self.octet.next = bits::<8>(0xd5);
                    self.count.d.next = bits::<6>(0);
                    self.state.d.next = State::Data;
                }
            }
            State::Data => {
                self.ready.next = true;
                self.feeds.next = true;
                self.octet.next = self.data.val();
                if !self.enough.val() {
                    self.count.d.next = self.count.q.val() + 1;
                }
                if self.last.val() {
                    self.state.d.next = State::Pad;
                    if self.enough.val() {
                        self.state.d.next = State::Check;
                        self.count.d.next = bits::<6>(0);
                    }
                }
            }
            State::Pad => {
                self.feeds.next = true;
                self.count.d.next = self.count.q.val() + 1;
                if self.enough.val() {
                    self.state.d.next = State::Check;
                    self.count.d.next = bits::<6>(0);
                }
            }
            State::Check => {
                self.octet.next = self.inverted.val().get_bits::<8>(0);
                self.check.d.next = self.check.q.val() >> 8;
                self.count.d.next = self.count.q.val() + 1;
                if self.count.q.val() == 3 {
                    self.state.d.next = State::Gap;
                    self.count.d.next = bits::<6>(0);
                }
            }
            State::Gap => {
                // With the clock AwaitFrame takes, 12 byte times pass between frames.
                self.tx_en_out.d.next = false;
                self.count.d.next = self.count.q.val() + 1;
                if self.count.q.val() == 10 {
                    self.state.d.next = State::AwaitFrame;
                }
            }
            _ => {
                self.state.d.next = State::AwaitFrame;
            }
        }
        self.crc.crc.next = self.check.q.val();
        self.crc.data.next = self.octet.val();
        if self.feeds.val() {
            self.check.d.next = self.crc.stepped.val();
        }
        self.txd_out.d.next = self.octet.val();
    }
}

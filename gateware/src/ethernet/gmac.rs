//! Sends the octets of frames on GMII: preamble, SFD, data, padding, FCS, interpacket gap (IEEE
//! 802.3 clauses 3.2, 4.2.3.3, 4.4.2).
//!
//! Octets come from the Tx thread. When `ready` is high, the source must offer an octet in each
//! clock up to `last`.
//!
//! ```text
//! state    await | preamble 8 | data ...       | pad to 60 | check 4 | gap 11 | await
//! ready                        ________________
//! txd, tx_en       two clocks behind the state: 55 x7 d5 | data ... | 00 | FCS |
//! ```
//!
//! The state first selects the octet; one clock later the octet enters the check sequence. Both
//! steps end in registers, so no path is longer than the step of the CRC.

use hmtt_format::frame::MIN_FRAME_BYTES;
use rust_hdl::prelude::*;

use super::crc32::Crc32Step;
use super::ports::OctetSink;
use crate::reset::{Domain, KeptRegister, Register};

/// Octets of preamble and start-of-frame delimiter (IEEE 802.3 clause 3.1.1).
const PREAMBLE_OCTETS: u64 = 8;
/// Octet of the preamble, bit 0 first (IEEE 802.3 clause 3.2.1).
const PREAMBLE: u64 = 0x55;
/// Start-of-frame delimiter (IEEE 802.3 clause 3.2.2).
const START_DELIMITER: u64 = 0xd5;
/// Octets of the frame check sequence.
const CHECK_OCTETS: u64 = 4;
/// Clocks of [`State::Gap`]. [`State::AwaitFrame`] takes one more at least. Together these are the
/// 12 byte times of interPacketGap, IEEE 802.3 clause 4.4.2.
const GAP_CLOCKS: u64 = 11;

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
    /// Transmit clock domain, 125 MHz. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Octets of frames, from the Tx thread.
    pub octets: OctetSink,
    /// GMII TXD.
    pub txd: Signal<Out, Bits<8>>,
    /// GMII TX_EN.
    pub tx_en: Signal<Out, Bit>,
    crc: Crc32Step,
    state: Register<State>,
    timer: KeptRegister<Bits<4>>,
    timed_out: KeptRegister<Bit>,
    taking: Register<Bit>,
    filled: KeptRegister<Bits<6>>,
    long_enough: KeptRegister<Bit>,
    octet: KeptRegister<Bits<8>>,
    sending: Register<Bit>,
    starts: Register<Bit>,
    feeds: Register<Bit>,
    checks: Register<Bit>,
    check: KeptRegister<Bits<32>>,
    txd_out: KeptRegister<Bits<8>>,
    tx_en_out: Register<Bit>,
    inverted: Signal<Local, Bits<32>>,
    all_ones: Constant<Bits<32>>,
    last_needed_but_one: Constant<Bits<6>>,
    preamble_left: Constant<Bits<4>>,
    check_left: Constant<Bits<4>>,
    gap_left: Constant<Bits<4>>,
    preamble: Constant<Bits<8>>,
    start_delimiter: Constant<Bits<8>>,
}

impl Default for Gmac {
    fn default() -> Self {
        block! {
            Self {
                all_ones: Constant::new(0xffff_ffff_u64.into()),
                last_needed_but_one: Constant::new((MIN_FRAME_BYTES as u64 - 2).into()),
                preamble_left: Constant::new((PREAMBLE_OCTETS - 1).into()),
                check_left: Constant::new((CHECK_OCTETS - 1).into()),
                gap_left: Constant::new((GAP_CLOCKS - 1).into()),
                preamble: Constant::new(PREAMBLE.into()),
                start_delimiter: Constant::new(START_DELIMITER.into()),
            }
            default: clock, octets, txd, tx_en, crc, state, timer, timed_out,
                taking, filled, long_enough, octet, sending, starts, feeds, checks, check, txd_out,
                tx_en_out, inverted
        }
    }
}

impl Logic for Gmac {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            timer,
            timed_out,
            taking,
            filled,
            long_enough,
            octet,
            sending,
            starts,
            feeds,
            checks,
            check,
            txd_out,
            tx_en_out
        );
        self.octets.ready.next = self.taking.q.val();
        self.txd.next = self.txd_out.q.val();
        self.tx_en.next = self.tx_en_out.q.val();

        // `timed_out` is high in the last clock of a phase. It is computed a clock ahead.
        self.timer.d.next = self.timer.q.val() - 1;
        self.timed_out.d.next = self.timer.q.val() == 1;
        self.octet.d.next = bits::<8>(0);
        self.sending.d.next = true;
        self.starts.d.next = false;
        self.feeds.d.next = false;
        self.checks.d.next = false;
        match self.state.q.val() {
            State::AwaitFrame => {
                self.sending.d.next = false;
                self.timer.d.next = self.preamble_left.val();
                self.timed_out.d.next = false;
                if self.octets.valid.val() {
                    self.state.d.next = State::Preamble;
                }
            }
            State::Preamble => {
                self.octet.d.next = self.preamble.val();
                self.starts.d.next = true;
                self.filled.d.next = bits::<6>(0);
                self.long_enough.d.next = false;
                if self.timed_out.q.val() {
                    self.octet.d.next = self.start_delimiter.val();
                    self.taking.d.next = true;
                    self.state.d.next = State::Data;
                }
            }
            State::Data => {
                self.feeds.d.next = true;
                self.octet.d.next = self.octets.data.val();
                self.filled.d.next = self.filled.q.val() + 1;
                self.timer.d.next = self.check_left.val();
                self.timed_out.d.next = false;
                if self.octets.last.val() {
                    self.taking.d.next = false;
                    self.state.d.next = State::Pad;
                    if self.long_enough.q.val() {
                        self.state.d.next = State::Check;
                    }
                }
            }
            State::Pad => {
                self.feeds.d.next = true;
                self.filled.d.next = self.filled.q.val() + 1;
                self.timer.d.next = self.check_left.val();
                self.timed_out.d.next = false;
                if self.long_enough.q.val() {
                    self.state.d.next = State::Check;
                }
            }
            State::Check => {
                self.checks.d.next = true;
                if self.timed_out.q.val() {
                    self.timer.d.next = self.gap_left.val();
                    self.timed_out.d.next = false;
                    self.state.d.next = State::Gap;
                }
            }
            State::Gap => {
                self.sending.d.next = false;
                if self.timed_out.q.val() {
                    self.state.d.next = State::AwaitFrame;
                }
            }
            _ => {
                self.sending.d.next = false;
                self.state.d.next = State::AwaitFrame;
            }
        }
        // `long_enough` is high from the 60th octet on, in each state.
        if self.filled.q.val() == self.last_needed_but_one.val() {
            self.long_enough.d.next = true;
        }

        self.crc.crc.next = self.check.q.val();
        self.crc.data.next = self.octet.q.val();
        self.inverted.next = self.check.q.val() ^ self.all_ones.val();
        self.check.d.next = self.check.q.val() >> 8;
        self.txd_out.d.next = self.octet.q.val();
        self.tx_en_out.d.next = self.sending.q.val();
        if self.checks.q.val() {
            self.txd_out.d.next = self.inverted.val().get_bits::<8>(0);
        }
        if self.feeds.q.val() {
            self.check.d.next = self.crc.stepped.val();
        }
        if self.starts.q.val() {
            self.check.d.next = self.all_ones.val();
        }
    }
}

//! Connects a card to the pins of the ECPIX-5 by LambdaConcept: ECP5 LFE5UM5G-85F, 100 MHz
//! oscillator, four RGB LEDs, eight PMODs, and a gigabit PHY (KSZ9031RNX) on RGMII; the slot's
//! signals come in at PMODs 4 to 7.
//!
//! ```text
//! clock   _/~~~\___/~~~\___    125 MHz
//! TXD      <low><high>         low nibble from the rising edge
//! TXC     ___/~~~\___/~~~      2 ns later: the delay RGMII wants between data and clock
//! ```
//!
//! The KSZ9031 adds no delay to TXC unless it is programmed over MDIO, which is not necessary here.
//! Its mode straps are the RXD pins, high for RGMII at all speeds. The board has no pull-ups for
//! them, so the FPGA pulls them up.

use hmtt_format::MemoryDescription;
use hmtt_format::address_map::Axis;
use hmtt_format::config::{DEFAULT_SLICE_CODE, Granularity, Mode};
use rust_hdl::prelude::*;

use super::ecp5::{DdrOutput, DdrOutputs, InputPad, InputPads, Pll100To125, PulledInputs};
use super::lock_reset::LockReset;
use super::phy_reset::PhyReset;
use super::{Board, BoardClock, Rate};
use crate::bitstream::Family;
use crate::card::Card;
use crate::emit::{EmitError, checked};
use crate::reset::Domain;

/// The board.
pub const BOARD: Board = Board {
    name: "ecpix-5",
    device: "ECP5 LFE5UM5G-85F",
    family: Family::Ecp5 { device: "um5g-85k", package: "CABGA554", speed: "8" },
    fifo_kb: &[128, 256, 64, 32, 16, 8],
    constraints: ("card.lpf", include_str!("../../../constraints/ecpix-5/card.lpf")),
    clocks: &[
        BoardClock { name: "GMII", net: "pll.tx_clock", rate: Rate::Mhz(125.0) },
        BoardClock { name: "DDR", net: "ddr_clock", rate: Rate::Memory },
    ],
    fastest_ddr_mhz: 118.5,
    verilog,
};

/// The board: connects pins to the ports of the card.
#[derive(LogicBlock)]
pub struct Ecpix5<const N: usize> {
    /// Oscillator, 100 MHz.
    pub clock_100: Signal<In, Clock>,
    /// Clock pin of the slot, CK. The command pins are sampled at its rising edges.
    pub ddr_clock: Signal<In, Clock>,
    /// Clock enable pin of each rank, CKE, active high; pulled down.
    pub cke: Signal<In, Bits<4>>,
    /// Chip select pin of each rank, CS#, active low; pulled up.
    pub cs_n: Signal<In, Bits<4>>,
    /// Row address strobe pin, RAS#, active low.
    pub ras_n: Signal<In, Bit>,
    /// Column address strobe pin, CAS#, active low.
    pub cas_n: Signal<In, Bit>,
    /// Write enable pin, WE#, active low.
    pub we_n: Signal<In, Bit>,
    /// Bank address pins.
    pub ba: Signal<In, Bits<3>>,
    /// Address pins.
    pub a: Signal<In, Bits<14>>,
    /// Switch, low ends the capture; pulled up.
    pub run: Signal<In, Bit>,
    /// The PHY's RXD, its mode straps; pulled up.
    pub rgmii_rxd: Signal<In, Bits<4>>,
    /// RGMII TXC, 125 MHz, 2 ns after the data.
    pub rgmii_txc: Signal<Out, Bit>,
    /// RGMII TXD: the low nibble from the rising edge, the high one from the falling edge.
    pub rgmii_txd: Signal<Out, Bits<4>>,
    /// RGMII TX_CTL: TX_EN from the rising edge, TX_EN xor TX_ER from the falling edge.
    pub rgmii_tx_ctl: Signal<Out, Bit>,
    /// Reset of the PHY, active low.
    pub phy_reset_n: Signal<Out, Bit>,
    /// LEDs, active low; the inverse of [`Card::led`].
    pub led_n: Signal<Out, Bits<8>>,
    pll: Pll100To125,
    lock_reset: LockReset,
    cke_pads: InputPads<4>,
    cs_n_pads: InputPads<4>,
    ras_n_pad: InputPad,
    cas_n_pad: InputPad,
    we_n_pad: InputPad,
    ba_pads: InputPads<3>,
    a_pads: InputPads<14>,
    txc_pad: DdrOutput,
    txd_pads: DdrOutputs<4>,
    tx_ctl_pad: DdrOutput,
    mode_straps: PulledInputs<4>,
    phy_reset: PhyReset,
    tx: Signal<Local, Domain>,
    low: Signal<Local, Bits<4>>,
    high: Signal<Local, Bits<4>>,
    tx_ctl: Signal<Local, Bit>,
    card: Card<N>,
    straps: Constant<Bits<16>>,
    high_nibble_at: Constant<Bits<3>>,
}

impl<const N: usize> Ecpix5<N> {
    /// Builds the board with a card for one memory, in line mode at power-on.
    pub fn new(memory: &MemoryDescription) -> Self {
        let straps = crate::straps(Mode::Line, Granularity::Line, false, DEFAULT_SLICE_CODE, false);
        block! {
            Self {
                card: Card::new(memory),
                straps: Constant::new(u64::from(straps).into()),
                high_nibble_at: Constant::new(4u64.into()),
            }
            default: clock_100, ddr_clock, cke, cs_n, ras_n, cas_n, we_n, ba, a, run, rgmii_rxd,
                rgmii_txc, rgmii_txd, rgmii_tx_ctl, phy_reset_n, led_n, pll, lock_reset, cke_pads,
                cs_n_pads, ras_n_pad, cas_n_pad, we_n_pad, ba_pads, a_pads, txc_pad, txd_pads,
                tx_ctl_pad, mode_straps, phy_reset, tx, low, high, tx_ctl
        }
    }
}

impl<const N: usize> Logic for Ecpix5<N> {
    #[hdl_gen]
    fn update(&mut self) {
        self.pll.clock_in.next = self.clock_100.val();
        self.lock_reset.clock.next = self.pll.clock_out.val();
        self.lock_reset.locked.next = self.pll.locked.val();
        self.card.tx_clock.next = self.pll.clock_out.val();
        self.card.tx_reset.next = self.lock_reset.reset.val();
        self.card.ddr_clock.next = self.ddr_clock.val();

        // The pads have registers in addition to the DCBU's register. That one is in the fabric, so
        // its delay from each pad is different.
        self.cke_pads.clock.next = self.ddr_clock.val();
        self.cs_n_pads.clock.next = self.ddr_clock.val();
        self.ras_n_pad.clock.next = self.ddr_clock.val();
        self.cas_n_pad.clock.next = self.ddr_clock.val();
        self.we_n_pad.clock.next = self.ddr_clock.val();
        self.ba_pads.clock.next = self.ddr_clock.val();
        self.a_pads.clock.next = self.ddr_clock.val();
        self.cke_pads.pads.next = self.cke.val();
        self.cs_n_pads.pads.next = self.cs_n.val();
        self.ras_n_pad.pad.next = self.ras_n.val();
        self.cas_n_pad.pad.next = self.cas_n.val();
        self.we_n_pad.pad.next = self.we_n.val();
        self.ba_pads.pads.next = self.ba.val();
        self.a_pads.pads.next = self.a.val();
        self.card.pins.cke.next = self.cke_pads.sampled.val();
        self.card.pins.cs_n.next = self.cs_n_pads.sampled.val();
        self.card.pins.act_n.next = true;
        self.card.pins.ras_n.next = self.ras_n_pad.sampled.val();
        self.card.pins.cas_n.next = self.cas_n_pad.sampled.val();
        self.card.pins.we_n.next = self.we_n_pad.sampled.val();
        self.card.pins.ba.next = bit_cast::<4, 3>(self.ba_pads.sampled.val());
        self.card.pins.a.next = bit_cast::<18, 14>(self.a_pads.sampled.val());
        self.card.run.next = self.run.val();
        self.card.straps.next = self.straps.val();

        // RGMII 2.0: TX_EN with the low nibble, TX_EN xor TX_ER with the high one.
        self.low.next = self.card.gmii_txd.val().get_bits::<4>(0);
        self.high.next = self.card.gmii_txd.val().get_bits::<4>(self.high_nibble_at.val().index());
        self.tx_ctl.next = self.card.gmii_tx_en.val() ^ self.card.gmii_tx_er.val();
        self.txd_pads.clock.next = self.pll.clock_out.val();
        self.txd_pads.rising.next = self.low.val();
        self.txd_pads.falling.next = self.high.val();
        self.tx_ctl_pad.clock.next = self.pll.clock_out.val();
        self.tx_ctl_pad.rising.next = self.card.gmii_tx_en.val();
        self.tx_ctl_pad.falling.next = self.tx_ctl.val();
        self.txc_pad.clock.next = self.pll.clock_90.val();
        self.txc_pad.rising.next = true;
        self.txc_pad.falling.next = false;
        self.rgmii_txd.next = self.txd_pads.pads.val();
        self.rgmii_tx_ctl.next = self.tx_ctl_pad.pad.val();
        self.rgmii_txc.next = self.txc_pad.pad.val();

        self.mode_straps.pads.next = self.rgmii_rxd.val();
        self.tx.next.clk = self.pll.clock_out.val();
        self.tx.next.reset = self.lock_reset.reset.val();
        self.tx.next.clear = self.lock_reset.reset.val();
        self.phy_reset.clock.next = self.tx.val();
        self.phy_reset_n.next = self.phy_reset.reset_n.val();
        self.led_n.next = !self.card.led.val();
    }
}

fn verilog(memory: &MemoryDescription, fifo_kb: usize) -> Result<String, EmitError> {
    let (banks, rows) = (memory.bits(Axis::Bank), memory.bits(Axis::Row));
    if banks > 3 || rows > 14 || memory.generation.has_act_n() {
        return Err(EmitError::Pins(format!(
            "the ECPIX-5 pin map carries 3 bank and 14 address pins of DDR1 to DDR3; this {} memory \
             has {banks} bank and {rows} row bits",
            memory.generation.name()
        )));
    }
    match fifo_kb {
        8 => checked(Ecpix5::<10>::new(memory)),
        16 => checked(Ecpix5::<11>::new(memory)),
        32 => checked(Ecpix5::<12>::new(memory)),
        64 => checked(Ecpix5::<13>::new(memory)),
        128 => checked(Ecpix5::<14>::new(memory)),
        256 => checked(Ecpix5::<15>::new(memory)),
        _ => Err(EmitError::Fifo(fifo_kb, BOARD.fifo_kb)),
    }
}

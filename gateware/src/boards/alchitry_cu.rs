//! Connects a card to the pins of the Alchitry Cu: iCE40 HX8K-CB132, 100 MHz oscillator, eight
//! LEDs, one button; slot and PHY on bank A.

use hmtt_format::MemoryDescription;
use hmtt_format::command::ALL_RANKS;
use hmtt_format::config::{DEFAULT_SLICE_CODE, Granularity, Mode};
use rust_hdl::prelude::*;

use super::ice40::{
    ClockInput, ClockOutput, InputPad, InputPads, OutputPad, OutputPads, Pll100To125,
};
use super::lock_reset::LockReset;
use super::{Board, BoardClock, Rate};
use crate::bitstream::Family;
use crate::card::Card;
use crate::emit::{EmitError, checked};

/// The board.
pub const BOARD: Board = Board {
    name: "alchitry-cu",
    device: "iCE40 HX8K-CB132",
    family: Family::Ice40 { device: "hx8k", package: "cb132" },
    fifo_kb: &[8, 16],
    constraints: ("card.pcf", include_str!("../../../constraints/alchitry-cu/card.pcf")),
    clocks: &[
        BoardClock { name: "GMII", net: "pll.tx_clock", rate: Rate::Mhz(125.0) },
        BoardClock { name: "DDR", net: "clock_input.ddr_clock", rate: Rate::Memory },
    ],
    fastest_ddr_mhz: 107.6,
    verilog,
};

/// The board: connects pins to the ports of the card.
#[derive(LogicBlock)]
pub struct AlchitryCu<const N: usize> {
    /// Oscillator, 100 MHz.
    pub clock_100: Signal<In, Clock>,
    /// Clock pin of the slot, CK. The command pins are sampled at its rising edges.
    pub ddr_clock: Signal<In, Clock>,
    /// Clock enable pin, CKE, active high.
    pub cke: Signal<In, Bit>,
    /// Chip select pin, CS#, active low.
    pub cs_n: Signal<In, Bit>,
    /// Row address strobe pin, RAS#, active low.
    pub ras_n: Signal<In, Bit>,
    /// Column address strobe pin, CAS#, active low.
    pub cas_n: Signal<In, Bit>,
    /// Write enable pin, WE#, active low.
    pub we_n: Signal<In, Bit>,
    /// Bank address pins.
    pub ba: Signal<In, Bits<2>>,
    /// Address pins.
    pub a: Signal<In, Bits<13>>,
    /// Button, low while pressed: pressing it ends the capture.
    pub run: Signal<In, Bit>,
    /// GMII GTX_CLK: the transmit clock, 125 MHz, to the PHY.
    pub gmii_gtx_clk: Signal<Out, Bit>,
    /// GMII TXD, one octet in each clock.
    pub gmii_txd: Signal<Out, Bits<8>>,
    /// GMII TX_EN, high from the preamble to the FCS.
    pub gmii_tx_en: Signal<Out, Bit>,
    /// GMII TX_ER, always low.
    pub gmii_tx_er: Signal<Out, Bit>,
    /// LEDs, active high; see [`Card::led`].
    pub led: Signal<Out, Bits<8>>,
    pll: Pll100To125,
    lock_reset: LockReset,
    clock_input: ClockInput,
    cke_pad: InputPad,
    cs_n_pad: InputPad,
    ras_n_pad: InputPad,
    cas_n_pad: InputPad,
    we_n_pad: InputPad,
    ba_pads: InputPads<2>,
    a_pads: InputPads<13>,
    gtx_clk_pad: ClockOutput,
    txd_pads: OutputPads<8>,
    tx_en_pad: OutputPad,
    tx_er_pad: OutputPad,
    card: Card<N>,
    cke_of_ranks: Signal<Local, Bits<4>>,
    cs_n_of_ranks: Signal<Local, Bits<4>>,
    straps: Constant<Bits<16>>,
    all_ranks: Constant<Bits<4>>,
    other_ranks: Constant<Bits<4>>,
}

impl<const N: usize> AlchitryCu<N> {
    /// Builds the board with a card for one memory, in line mode at power-on.
    pub fn new(memory: &MemoryDescription) -> Self {
        let straps = crate::straps(Mode::Line, Granularity::Line, false, DEFAULT_SLICE_CODE, false);
        block! {
            Self {
                card: Card::new(memory),
                straps: Constant::new(u64::from(straps).into()),
                all_ranks: Constant::new(u64::from(ALL_RANKS).into()),
                other_ranks: Constant::new(u64::from(ALL_RANKS & !1).into()),
            }
            default: clock_100, ddr_clock, cke, cs_n, ras_n, cas_n, we_n, ba, a, run, gmii_gtx_clk,
                gmii_txd, gmii_tx_en, gmii_tx_er, led, pll, lock_reset, clock_input, cke_pad,
                cs_n_pad, ras_n_pad, cas_n_pad, we_n_pad, ba_pads, a_pads, gtx_clk_pad, txd_pads,
                tx_en_pad, tx_er_pad, cke_of_ranks, cs_n_of_ranks
        }
    }
}

impl<const N: usize> Logic for AlchitryCu<N> {
    #[hdl_gen]
    fn update(&mut self) {
        self.pll.clock_in.next = self.clock_100.val();
        self.clock_input.pad.next = self.ddr_clock.val();
        self.lock_reset.clock.next = self.pll.clock_out.val();
        self.lock_reset.locked.next = self.pll.locked.val();
        self.card.tx_clock.next = self.pll.clock_out.val();
        self.card.tx_reset.next = self.lock_reset.reset.val();
        self.card.ddr_clock.next = self.clock_input.clock.val();

        // The pads have registers in addition to the DCBU's register. That one is in the fabric, so
        // its delay from each pad is different.
        self.cke_pad.clock.next = self.clock_input.clock.val();
        self.cs_n_pad.clock.next = self.clock_input.clock.val();
        self.ras_n_pad.clock.next = self.clock_input.clock.val();
        self.cas_n_pad.clock.next = self.clock_input.clock.val();
        self.we_n_pad.clock.next = self.clock_input.clock.val();
        self.ba_pads.clock.next = self.clock_input.clock.val();
        self.a_pads.clock.next = self.clock_input.clock.val();
        self.cke_pad.pad.next = self.cke.val();
        self.cs_n_pad.pad.next = self.cs_n.val();
        self.ras_n_pad.pad.next = self.ras_n.val();
        self.cas_n_pad.pad.next = self.cas_n.val();
        self.we_n_pad.pad.next = self.we_n.val();
        self.ba_pads.pads.next = self.ba.val();
        self.a_pads.pads.next = self.a.val();
        self.cke_of_ranks.next = bits::<4>(0);
        if self.cke_pad.sampled.val() {
            self.cke_of_ranks.next = self.all_ranks.val();
        }
        self.cs_n_of_ranks.next = self.other_ranks.val();
        if self.cs_n_pad.sampled.val() {
            self.cs_n_of_ranks.next = self.all_ranks.val();
        }
        self.card.pins.cke.next = self.cke_of_ranks.val();
        self.card.pins.cs_n.next = self.cs_n_of_ranks.val();
        self.card.pins.act_n.next = true;
        self.card.pins.ras_n.next = self.ras_n_pad.sampled.val();
        self.card.pins.cas_n.next = self.cas_n_pad.sampled.val();
        self.card.pins.we_n.next = self.we_n_pad.sampled.val();
        self.card.pins.ba.next = bit_cast::<4, 2>(self.ba_pads.sampled.val());
        self.card.pins.a.next = bit_cast::<18, 13>(self.a_pads.sampled.val());
        self.card.run.next = self.run.val();
        self.card.straps.next = self.straps.val();

        self.gtx_clk_pad.clock.next = self.pll.clock_out.val();
        self.txd_pads.clock.next = self.pll.clock_out.val();
        self.tx_en_pad.clock.next = self.pll.clock_out.val();
        self.tx_er_pad.clock.next = self.pll.clock_out.val();
        self.txd_pads.levels.next = self.card.gmii_txd.val();
        self.tx_en_pad.level.next = self.card.gmii_tx_en.val();
        self.tx_er_pad.level.next = self.card.gmii_tx_er.val();
        self.gmii_gtx_clk.next = self.gtx_clk_pad.pad.val();
        self.gmii_txd.next = self.txd_pads.pads.val();
        self.gmii_tx_en.next = self.tx_en_pad.pad.val();
        self.gmii_tx_er.next = self.tx_er_pad.pad.val();
        self.led.next = self.card.led.val();
    }
}

fn verilog(memory: &MemoryDescription, fifo_kb: usize) -> Result<String, EmitError> {
    use hmtt_format::address_map::Axis;
    let (banks, rows) = (memory.bits(Axis::Bank), memory.bits(Axis::Row));
    if banks > 2 || rows > 13 || memory.ranks() > 1 || memory.generation.has_act_n() {
        return Err(EmitError::Pins(format!(
            "the Alchitry Cu pin map carries 2 bank and 13 address pins of one rank of DDR1; this {} \
             memory has {banks} bank and {rows} row bits in {} rank(s)",
            memory.generation.name(),
            memory.ranks()
        )));
    }
    match fifo_kb {
        8 => checked(AlchitryCu::<10>::new(memory)),
        16 => checked(AlchitryCu::<11>::new(memory)),
        _ => Err(EmitError::Fifo(fifo_kb, BOARD.fifo_kb)),
    }
}

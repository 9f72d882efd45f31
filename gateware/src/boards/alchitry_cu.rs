//! Alchitry Cu: iCE40 HX8K-CB132, 100 MHz oscillator, eight LEDs, one button; slot and PHY on bank A.

use hmtt_format::MemoryDescription;
use hmtt_format::config::{DEFAULT_SLICE_CODE, Granularity, Mode};
use rust_hdl::prelude::*;

use super::Board;
use super::ice40::{ClockPad, Pll100To125};
use crate::card::Card;
use crate::emit::{EmitError, checked};

/// log2 of the FIFO's words: 16 of the 32 block RAMs.
const FIFO_LOG2: usize = 10;

/// The board.
pub const BOARD: Board = Board {
    name: "alchitry-cu",
    device: "iCE40 HX8K-CB132",
    fifo_bytes: 8 << FIFO_LOG2,
    constraints: &[
        ("card.pcf", include_str!("../../../constraints/alchitry-cu/card.pcf")),
        ("clocks.py", include_str!("../../../constraints/alchitry-cu/clocks.py")),
    ],
    build_script: include_str!("alchitry_cu_build.sh"),
    synthesis: "synth_ice40 -top top",
    verilog,
};

/// Pins of the board to ports of the card.
#[derive(LogicBlock)]
pub struct AlchitryCu {
    /// Oscillator.
    pub clock_100: Signal<In, Clock>,
    /// The slot's CK.
    pub ddr_clock: Signal<In, Clock>,
    /// Clock enable.
    pub cke: Signal<In, Bit>,
    /// Chip select.
    pub cs_n: Signal<In, Bit>,
    /// Row address strobe.
    pub ras_n: Signal<In, Bit>,
    /// Column address strobe.
    pub cas_n: Signal<In, Bit>,
    /// Write enable.
    pub we_n: Signal<In, Bit>,
    /// Bank address.
    pub ba: Signal<In, Bits<2>>,
    /// Address.
    pub a: Signal<In, Bits<13>>,
    /// Button, low while pressed: pressing it ends the capture.
    pub run: Signal<In, Bit>,
    /// Transmit clock to the PHY.
    pub gmii_gtx_clk: Signal<Out, Bit>,
    /// GMII TXD.
    pub gmii_txd: Signal<Out, Bits<8>>,
    /// GMII TX_EN.
    pub gmii_tx_en: Signal<Out, Bit>,
    /// GMII TX_ER.
    pub gmii_tx_er: Signal<Out, Bit>,
    /// LEDs.
    pub led: Signal<Out, Bits<8>>,
    pll: Pll100To125,
    clock_pad: ClockPad,
    card: Card<FIFO_LOG2>,
    cke_of_ranks: Signal<Local, Bits<4>>,
    cs_n_of_ranks: Signal<Local, Bits<4>>,
    straps: Constant<Bits<16>>,
}

impl AlchitryCu {
    /// The board with a card for one memory: line mode at power-on.
    pub fn new(memory: &MemoryDescription) -> Self {
        let straps = crate::straps(Mode::Line, Granularity::Line, false, DEFAULT_SLICE_CODE, false);
        Self {
            clock_100: Default::default(),
            ddr_clock: Default::default(),
            cke: Default::default(),
            cs_n: Default::default(),
            ras_n: Default::default(),
            cas_n: Default::default(),
            we_n: Default::default(),
            ba: Default::default(),
            a: Default::default(),
            run: Default::default(),
            gmii_gtx_clk: Default::default(),
            gmii_txd: Default::default(),
            gmii_tx_en: Default::default(),
            gmii_tx_er: Default::default(),
            led: Default::default(),
            pll: Default::default(),
            clock_pad: Default::default(),
            card: Card::new(memory),
            cke_of_ranks: Default::default(),
            cs_n_of_ranks: Default::default(),
            straps: Constant::new(u64::from(straps).into()),
        }
    }
}

impl Logic for AlchitryCu {
    #[hdl_gen]
    fn update(&mut self) {
        self.pll.clock_in.next = self.clock_100.val();
        self.clock_pad.clock_in.next = self.pll.clock_out.val();
        self.gmii_gtx_clk.next = self.clock_pad.pad.val();
        self.card.tx_clock.next = self.pll.clock_out.val();
        self.card.ddr_clock.next = self.ddr_clock.val();
        self.cke_of_ranks.next = bits::<4>(0);
        if self.cke.val() {
            self.cke_of_ranks.next = bits::<4>(15);
        }
        self.cs_n_of_ranks.next = bits::<4>(14);
        if self.cs_n.val() {
            self.cs_n_of_ranks.next = bits::<4>(15);
        }
        self.card.cke.next = self.cke_of_ranks.val();
        self.card.cs_n.next = self.cs_n_of_ranks.val();
        self.card.act_n.next = true;
        self.card.ras_n.next = self.ras_n.val();
        self.card.cas_n.next = self.cas_n.val();
        self.card.we_n.next = self.we_n.val();
        self.card.ba.next = bit_cast::<4, 2>(self.ba.val());
        self.card.a.next = bit_cast::<18, 13>(self.a.val());
        self.card.run.next = self.run.val();
        self.card.straps.next = self.straps.val();
        self.gmii_txd.next = self.card.gmii_txd.val();
        self.gmii_tx_en.next = self.card.gmii_tx_en.val();
        self.gmii_tx_er.next = self.card.gmii_tx_er.val();
        self.led.next = self.card.led.val();
    }
}

fn verilog(memory: &MemoryDescription) -> Result<String, EmitError> {
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
    checked(AlchitryCu::new(memory))
}

//! Wraps primitives of the ECP5: PLL, registered inputs and double-data-rate outputs (Lattice
//! FPGA-TN-02200, sysCLOCK PLL; FPGA-TN-02035, high-speed I/O interface).
//!
//! None of the primitives is simulated: simulation runs the card without a board. yosys declares
//! the cells (`synth_ecp5`).

use rust_hdl::prelude::*;

/// A wrapper around cells that yosys declares.
fn cells(code: String) -> Verilog {
    Verilog::Wrapper(Wrapper { code, cores: String::new() })
}

/// PLL that makes two clocks of 125 MHz from 100 MHz. The second clock is a quarter of a period, 2
/// ns, later than the first one.
///
/// 100 / 4 = 25 MHz at the phase detector (at least 10), times 5 for the output, times 5 for the
/// oscillator: 625 MHz (400 to 800). A period of the oscillator is 8 phase steps. So an output
/// period is 40 steps, and a quarter of it is 10 steps: one period of the oscillator and two steps.
/// `ecppll -i 100 -o 125 --clkout1 125 --phase1 90` gives the same. The kept wires are the nets
/// that the constraints name.
#[derive(LogicBlock, Default)]
pub struct Pll100To125 {
    /// 100 MHz.
    pub clock_in: Signal<In, Clock>,
    /// 125 MHz.
    pub clock_out: Signal<Out, Clock>,
    /// 125 MHz, 90 degrees later.
    pub clock_90: Signal<Out, Clock>,
    /// The outputs are steady.
    pub locked: Signal<Out, Bit>,
}

impl Logic for Pll100To125 {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.clock_out.connect();
        self.clock_90.connect();
        self.locked.connect();
    }

    fn hdl(&self) -> Verilog {
        cells(
            "(* keep *) wire tx_clock;\n(* keep *) wire tx_clock_90;\n\
             assign clock_out = tx_clock;\nassign clock_90 = tx_clock_90;\n\
             (* FREQUENCY_PIN_CLKI=\"100\", FREQUENCY_PIN_CLKOP=\"125\", \
             FREQUENCY_PIN_CLKOS=\"125\", ICP_CURRENT=\"12\", LPF_RESISTOR=\"8\", \
             MFG_ENABLE_FILTEROPAMP=\"1\", MFG_GMCREF_SEL=\"2\" *)\n\
             EHXPLLL #(.CLKI_DIV(4), .CLKFB_DIV(5), .FEEDBK_PATH(\"CLKOP\"), \
             .CLKOP_ENABLE(\"ENABLED\"), .CLKOP_DIV(5), .CLKOP_CPHASE(2), .CLKOP_FPHASE(0), \
             .CLKOS_ENABLE(\"ENABLED\"), .CLKOS_DIV(5), .CLKOS_CPHASE(3), .CLKOS_FPHASE(2), \
             .OUTDIVIDER_MUXA(\"DIVA\"), .OUTDIVIDER_MUXB(\"DIVB\"), .PLLRST_ENA(\"DISABLED\"), \
             .INTFB_WAKE(\"DISABLED\"), .STDBY_ENABLE(\"DISABLED\"), .DPHASE_SOURCE(\"DISABLED\")) \
             pll (.CLKI(clock_in), .CLKFB(tx_clock), .CLKOP(tx_clock), .CLKOS(tx_clock_90), .LOCK(locked), \
             .RST(1'b0), .STDBY(1'b0), .PHASESEL0(1'b0), .PHASESEL1(1'b0), .PHASEDIR(1'b1), \
             .PHASESTEP(1'b1), .PHASELOADREG(1'b1), .PLLWAKESYNC(1'b0), .ENCLKOP(1'b0));"
                .into(),
        )
    }
}

/// An input pad registered in the I/O cell at the rising edge. The register powers up low.
#[derive(LogicBlock, Default)]
pub struct InputPad {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Pad.
    pub pad: Signal<In, Bit>,
    /// Level of the pad at the last edge.
    pub sampled: Signal<Out, Bit>,
}

impl Logic for InputPad {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.sampled.connect();
    }

    fn hdl(&self) -> Verilog {
        cells("IFS1P3DX io (.D(pad), .SP(1'b1), .SCLK(clock), .CD(1'b0), .Q(sampled));".into())
    }
}

/// [`InputPad`] for each of several bits, two at least.
#[derive(LogicBlock, Default)]
pub struct InputPads<const W: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Pads.
    pub pads: Signal<In, Bits<W>>,
    /// Levels of the pads at the last edge.
    pub sampled: Signal<Out, Bits<W>>,
}

impl<const W: usize> Logic for InputPads<W> {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.sampled.connect();
    }

    fn hdl(&self) -> Verilog {
        cells(format!(
            "IFS1P3DX io [{}:0] (.D(pads), .SP(1'b1), .SCLK(clock), .CD(1'b0), .Q(sampled));",
            W - 1
        ))
    }
}

/// An output pad with two levels a clock: `rising` after the rising edge that registers both,
/// `falling` after the falling edge that follows.
#[derive(LogicBlock, Default)]
pub struct DdrOutput {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// First level.
    pub rising: Signal<In, Bit>,
    /// Second level.
    pub falling: Signal<In, Bit>,
    /// Pad.
    pub pad: Signal<Out, Bit>,
}

impl Logic for DdrOutput {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.pad.connect();
    }

    fn hdl(&self) -> Verilog {
        cells("ODDRX1F io (.SCLK(clock), .RST(1'b0), .D0(rising), .D1(falling), .Q(pad));".into())
    }
}

/// [`DdrOutput`] for each of several bits, two at least.
#[derive(LogicBlock, Default)]
pub struct DdrOutputs<const W: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// First levels.
    pub rising: Signal<In, Bits<W>>,
    /// Second levels.
    pub falling: Signal<In, Bits<W>>,
    /// Pads.
    pub pads: Signal<Out, Bits<W>>,
}

impl<const W: usize> Logic for DdrOutputs<W> {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.pads.connect();
    }

    fn hdl(&self) -> Verilog {
        cells(format!(
            "ODDRX1F io [{}:0] (.SCLK(clock), .RST(1'b0), .D0(rising), .D1(falling), .Q(pads));",
            W - 1
        ))
    }
}

/// Input pads that are used only for their pull-ups.
#[derive(LogicBlock, Default)]
pub struct PulledInputs<const W: usize> {
    /// Pads.
    pub pads: Signal<In, Bits<W>>,
    /// Levels of the pads.
    pub levels: Signal<Out, Bits<W>>,
}

impl<const W: usize> Logic for PulledInputs<W> {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.levels.connect();
    }

    fn hdl(&self) -> Verilog {
        cells(format!("(* keep *) IB io [{}:0] (.I(pads), .O(levels));", W - 1))
    }
}

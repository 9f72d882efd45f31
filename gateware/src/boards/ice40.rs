//! Wraps primitives of the iCE40: PLL, clock input and registered pads (Lattice FPGA-TN-02026,
//! iCE40 technology library). rust-hdl has no usable wrapper for them.
//!
//! None of the primitives is simulated: simulation runs the card without a board. yosys declares
//! the cells (`synth_ice40`).

use rust_hdl::prelude::*;

/// A wrapper around cells that yosys declares.
fn cells(code: &str) -> Verilog {
    Verilog::Wrapper(Wrapper { code: code.into(), cores: String::new() })
}

/// PLL from 100 MHz to 125 MHz. The divider values come from `icepll -i 100 -o 125`; the package's
/// own block states another filter range. The kept wire is the net that the constraints name.
#[derive(LogicBlock, Default)]
pub struct Pll100To125 {
    /// 100 MHz.
    pub clock_in: Signal<In, Clock>,
    /// 125 MHz.
    pub clock_out: Signal<Out, Clock>,
    /// The output is steady.
    pub locked: Signal<Out, Bit>,
}

impl Logic for Pll100To125 {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.clock_out.connect();
        self.locked.connect();
    }

    fn hdl(&self) -> Verilog {
        cells(
            "(* keep *) wire tx_clock;\nassign clock_out = tx_clock;\n\
             SB_PLL40_CORE #(.FEEDBACK_PATH(\"SIMPLE\"), .DIVR(4'd0), .DIVF(7'd9), .DIVQ(3'd3), \
             .FILTER_RANGE(3'd5)) pll (.REFERENCECLK(clock_in), .PLLOUTGLOBAL(tx_clock), \
             .LOCK(locked), .RESETB(1'b1), .BYPASS(1'b0));",
        )
    }
}

/// A clock pad that drives a global buffer directly, without routing through the fabric.
#[derive(LogicBlock, Default)]
pub struct ClockInput {
    /// Pad; must be a global buffer pad.
    pub pad: Signal<In, Clock>,
    /// The clock.
    pub clock: Signal<Out, Clock>,
}

impl Logic for ClockInput {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.clock.connect();
    }

    fn hdl(&self) -> Verilog {
        cells(
            "(* keep *) wire ddr_clock;\nassign clock = ddr_clock;\n\
             SB_GB_IO #(.PIN_TYPE(6'b000001)) io (.PACKAGE_PIN(pad), \
             .GLOBAL_BUFFER_OUTPUT(ddr_clock));",
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
        cells(
            "SB_IO #(.PIN_TYPE(6'b000000)) io (.PACKAGE_PIN(pad), .INPUT_CLK(clock), \
             .D_IN_0(sampled));",
        )
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
        cells(&format!(
            "SB_IO #(.PIN_TYPE(6'b000000)) io [{}:0] (.PACKAGE_PIN(pads), .INPUT_CLK(clock), \
             .D_IN_0(sampled));",
            W - 1
        ))
    }
}

/// An output pad registered in the I/O cell at the rising edge.
#[derive(LogicBlock, Default)]
pub struct OutputPad {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Level to send at the next edge.
    pub level: Signal<In, Bit>,
    /// Pad.
    pub pad: Signal<Out, Bit>,
}

impl Logic for OutputPad {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.pad.connect();
    }

    fn hdl(&self) -> Verilog {
        cells(
            "SB_IO #(.PIN_TYPE(6'b010100)) io (.PACKAGE_PIN(pad), .OUTPUT_CLK(clock), \
             .D_OUT_0(level));",
        )
    }
}

/// [`OutputPad`] for each of several bits, two at least.
#[derive(LogicBlock, Default)]
pub struct OutputPads<const W: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Levels to send at the next edge.
    pub levels: Signal<In, Bits<W>>,
    /// Pads.
    pub pads: Signal<Out, Bits<W>>,
}

impl<const W: usize> Logic for OutputPads<W> {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.pads.connect();
    }

    fn hdl(&self) -> Verilog {
        cells(&format!(
            "SB_IO #(.PIN_TYPE(6'b010100)) io [{}:0] (.PACKAGE_PIN(pads), .OUTPUT_CLK(clock), \
             .D_OUT_0(levels));",
            W - 1
        ))
    }
}

/// A clock forwarded to a pad by the output register pair, so that it leaves in step with data
/// registered in other pads: the pad rises half a period after the data changed.
#[derive(LogicBlock, Default)]
pub struct ClockOutput {
    /// Clock to forward, inverted.
    pub clock: Signal<In, Clock>,
    /// Pad.
    pub pad: Signal<Out, Bit>,
}

impl Logic for ClockOutput {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.pad.connect();
    }

    fn hdl(&self) -> Verilog {
        cells(
            "SB_IO #(.PIN_TYPE(6'b010000)) io (.PACKAGE_PIN(pad), .OUTPUT_CLK(clock), \
             .D_OUT_0(1'b0), .D_OUT_1(1'b1));",
        )
    }
}

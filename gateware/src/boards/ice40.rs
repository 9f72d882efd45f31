//! Primitives of the iCE40 that rust-hdl has no usable wrapper for.

use rust_hdl::prelude::*;

/// PLL from 100 MHz to 125 MHz. The divider values are those `icepll -i 100 -o 125` gives; the
/// package's own block states another filter range.
#[derive(LogicBlock, Default)]
pub struct Pll100To125 {
    /// 100 MHz.
    pub clock_in: Signal<In, Clock>,
    /// 125 MHz.
    pub clock_out: Signal<Out, Clock>,
}

impl Logic for Pll100To125 {
    /// Not simulated: boards are emitted, the card inside them is what simulation runs.
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.clock_out.connect();
    }

    fn hdl(&self) -> Verilog {
        Verilog::Wrapper(Wrapper {
            code: "SB_PLL40_CORE #(.FEEDBACK_PATH(\"SIMPLE\"), .DIVR(4'd0), .DIVF(7'd9), \
                   .DIVQ(3'd3), .FILTER_RANGE(3'd5)) pll (.REFERENCECLK(clock_in), \
                   .PLLOUTGLOBAL(clock_out), .RESETB(1'b1), .BYPASS(1'b0));"
                .into(),
            cores: "(* blackbox *)\nmodule SB_PLL40_CORE #(parameter FEEDBACK_PATH = \"SIMPLE\", \
                    parameter DIVR = 0, parameter DIVF = 0, parameter DIVQ = 0, \
                    parameter FILTER_RANGE = 0) (input REFERENCECLK, output PLLOUTGLOBAL, \
                    input RESETB, input BYPASS);\nendmodule\n"
                .into(),
        })
    }
}

/// A clock forwarded to a pad by the output register pair, so that it leaves in step with data that
/// is registered on the other edge: the pad rises half a period after the data changed.
#[derive(LogicBlock, Default)]
pub struct ClockPad {
    /// Clock to forward, inverted.
    pub clock_in: Signal<In, Clock>,
    /// Pad.
    pub pad: Signal<Out, Bit>,
}

impl Logic for ClockPad {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.pad.connect();
    }

    fn hdl(&self) -> Verilog {
        Verilog::Wrapper(Wrapper {
            code: "SB_IO #(.PIN_TYPE(6'b010000)) io (.PACKAGE_PIN(pad), .OUTPUT_CLK(clock_in), \
                   .D_OUT_0(1'b0), .D_OUT_1(1'b1));"
                .into(),
            cores: "(* blackbox *)\nmodule SB_IO #(parameter PIN_TYPE = 6'b000000) \
                    (inout PACKAGE_PIN, input OUTPUT_CLK, input D_OUT_0, input D_OUT_1);\n\
                    endmodule\n"
                .into(),
        })
    }
}

//! Resets the domain that a PLL clocks until the PLL has locked.
//!
//! Before a PLL has locked, and after it has lost its lock, its clock may have pulses of any
//! length. The reset begins without a clock edge and ends at one: the fourth edge with the PLL
//! locked.
//!
//! ```text
//! locked  ______________/~~~~~~~~~~~~~~~~~~~~\_____
//! clock   _/\/~~\_/\_/~\_/~\_/~\_/~\_/~\_/~\_/\__
//! reset   ~~~~~~~~~~~~~~~~~~~~~~~~~~~~\_______/~~~~~
//! ```

use rust_hdl::prelude::*;

/// See the module's description. Not simulated: boards are emitted.
#[derive(LogicBlock, Default)]
pub struct LockReset {
    /// The PLL's output.
    pub clock: Signal<In, Clock>,
    /// The PLL has locked; changes at any time.
    pub locked: Signal<In, Bit>,
    /// Reset of the registers that the clock drives.
    pub reset: Signal<Out, Bit>,
}

impl Logic for LockReset {
    fn update(&mut self) {}

    fn connect(&mut self) {
        self.reset.connect();
    }

    fn hdl(&self) -> Verilog {
        Verilog::Custom(
            "reg [2:0] steady = 0;\ninitial reset = 1;\nalways @(posedge clock or negedge locked) begin\n    \
             if (!locked) begin\n        steady <= 0;\n        reset <= 1;\n    end else begin\n        \
             steady <= {steady[1:0], 1'b1};\n        reset <= ~steady[2];\n    end\nend\n"
                .into(),
        )
    }
}

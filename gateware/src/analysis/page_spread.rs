//! Computes the part of a bucket number that depends on the high bits of the page number.
//!
//! Bits 3..0 of a page number select the part of the table of hot pages. Bits 7..4 XOR this value
//! select the bucket. So the bucket and bits 27..8 determine the page. There are two such
//! functions, used in turn, so pages that share a bucket in one interval rarely share one in the
//! next.

use rust_hdl::prelude::*;

/// See the module's description. Purely combinational.
#[derive(LogicBlock, Default)]
pub struct PageSpread {
    /// Bits 27..8 of the page number.
    pub high: Signal<In, Bits<20>>,
    /// Selects one of the two functions.
    pub spread_select: Signal<In, Bit>,
    /// Value to XOR.
    pub spread: Signal<Out, Bits<4>>,
}

/// Returns the bits of `high` whose XOR is bit `to` of the spread.
const fn taps(spread_select: bool, to: u32) -> u32 {
    let mut mask = 0;
    let mut bit = 0;
    while bit < 20 {
        let lands = if !spread_select {
            bit % 4
        } else if bit % 5 == 4 {
            (bit / 5 + 2) % 4
        } else {
            bit % 5
        };
        if lands == to {
            mask |= 1 << bit;
        }
        bit += 1;
    }
    mask
}

/// Returns the spread of a page.
pub fn spread(high: u32, spread_select: bool) -> u32 {
    (0..4).map(|to| ((high & taps(spread_select, to)).count_ones() & 1) << to).sum()
}

impl Logic for PageSpread {
    fn update(&mut self) {
        let high = self.high.val().index() as u32;
        self.spread.next = u64::from(spread(high, self.spread_select.val())).into();
    }

    fn connect(&mut self) {
        self.spread.connect();
    }

    fn hdl(&self) -> Verilog {
        let bits: Vec<String> = (0..4)
            .map(|to| {
                let [even, odd] =
                    [false, true].map(|spread_select| format!("20'h{:x}", taps(spread_select, to)));
                format!("    spread[{to}] = spread_select ? ^(high & {odd}) : ^(high & {even});\n")
            })
            .collect();
        Verilog::Custom(format!("always @(*) begin\n{}end\n", bits.concat()))
    }
}

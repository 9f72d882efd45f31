//! High bits of a page number to what they add (XOR) to its bucket.
//!
//! Bits 3..0 of a page number choose the part of the table of hot pages and bits 7..4, XORed with this,
//! the bucket; so the bucket and bits 27..8 give the page back. Two ways to spread take turns, so that
//! pages that share a bucket in one interval seldom do in the next.

use rust_hdl::prelude::*;

/// See the module's description. Purely combinational.
#[derive(LogicBlock, Default)]
pub struct PageSpread {
    /// Bits 27..8 of the page number.
    pub high: Signal<In, Bits<20>>,
    /// Which of the two ways.
    pub turn: Signal<In, Bit>,
    /// What to XOR.
    pub spread: Signal<Out, Bits<4>>,
}

/// The bits of `high` whose XOR is bit `to` of the spread.
const fn taps(turn: bool, to: u32) -> u32 {
    let mut mask = 0;
    let mut bit = 0;
    while bit < 20 {
        let lands = if !turn {
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

/// The spread of a page, as a plain function.
pub fn spread(high: u32, turn: bool) -> u32 {
    (0..4).map(|to| ((high & taps(turn, to)).count_ones() & 1) << to).sum()
}

impl Logic for PageSpread {
    fn update(&mut self) {
        let high = self.high.val().index() as u32;
        self.spread.next = u64::from(spread(high, self.turn.val())).into();
    }

    fn connect(&mut self) {
        self.spread.connect();
    }

    fn hdl(&self) -> Verilog {
        let bits: Vec<String> = (0..4)
            .map(|to| {
                let [even, odd] = [false, true].map(|turn| format!("20'h{:x}", taps(turn, to)));
                format!("    spread[{to}] = turn ? ^(high & {odd}) : ^(high & {even});\n")
            })
            .collect();
        Verilog::Custom(format!("always @(*) begin\n{}end\n", bits.concat()))
    }
}

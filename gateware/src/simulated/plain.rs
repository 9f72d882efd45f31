//! The card in rust-hdl's own order: every block of both domains until nothing changes.

use rust_hdl::prelude::*;

use super::activity::SETTLE_PASSES;
use crate::card::Card;

/// Gives the DDR clock a level, and the pins what was set.
pub fn ddr_level<const N: usize>(card: &mut Card<N>, clk: bool) {
    card.ddr_clock.next = Clock { clk };
    assert!(simulate(card, SETTLE_PASSES), "the card settles");
}

/// Gives the transmit clock a level.
pub fn tx_level<const N: usize>(card: &mut Card<N>, clk: bool) {
    card.tx_clock.next = Clock { clk };
    assert!(simulate(card, SETTLE_PASSES), "the card settles");
}

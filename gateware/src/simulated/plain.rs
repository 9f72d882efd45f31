//! Simulates the card in the order of rust-hdl: each block of both domains until nothing changes.

use rust_hdl::prelude::*;

use super::activity::SETTLE_PASSES;
use crate::card::Card;

/// Sets the level of the DDR clock, and applies the pins.
pub fn ddr_level<const N: usize>(card: &mut Card<N>, clk: bool) {
    card.ddr_clock.next = Clock { clk };
    assert!(simulate(card, SETTLE_PASSES), "the card settles");
}

/// Sets the level of the transmit clock.
pub fn tx_level<const N: usize>(card: &mut Card<N>, clk: bool) {
    card.tx_clock.next = Clock { clk };
    assert!(simulate(card, SETTLE_PASSES), "the card settles");
}

//! Simulates the card directly: one call for each clock edge.
//!
//! Without waves, only the blocks that can change are evaluated (`stepped`). With waves, `simulate`
//! of `rust_hdl` visits each block of both domains at each half clock until nothing changes
//! (`plain`). A test compares the two.

mod activity;
mod inputs;
mod plain;
mod stepped;
#[cfg(test)]
mod tests;

use std::io;

use hmtt_format::Pins;
use rust_hdl::prelude::*;

use self::activity::SETTLE_PASSES;
use self::stepped::SteppedCard;
use crate::card::Card;
use crate::waves::Waves;
use crate::{CardParameters, FifoSize};

/// Levels that the PHY samples at a rising edge of the transmit clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gmii {
    /// Level of GMII TXD: an octet while `tx_en` is high.
    pub txd: u8,
    /// Level of GMII TX_EN.
    pub tx_en: bool,
    /// Level of GMII TX_ER, always low.
    pub tx_er: bool,
}

/// Period of the transmit clock.
const TX_PERIOD_PS: u64 = 8000;
/// Time of the transmit clock's first rising edge.
const TX_PHASE_PS: u64 = 1000;

/// A card with one of the possible FIFO sizes.
pub struct SimulatedCard {
    card: AnySize,
    waves: Option<Waves>,
    tck_ps: u64,
    ddr_edges: u64,
    tx_edges: u64,
}

enum AnySize {
    Small(Box<SteppedCard<10>>),
    Large(Box<SteppedCard<14>>),
}

/// Calls the same method on a card of either size.
macro_rules! either {
    ($self:ident, $card:ident => $call:expr) => {
        match &mut $self.card {
            AnySize::Small($card) => $call,
            AnySize::Large($card) => $call,
        }
    };
}

impl SimulatedCard {
    /// Builds and settles a card.
    ///
    /// # Panics
    /// When a signal of the gateware is not connected or depends on itself.
    pub fn new(parameters: &CardParameters) -> Self {
        let memory = &parameters.memory;
        SimulatedCard {
            card: match parameters.fifo {
                FifoSize::Kb128 => {
                    AnySize::Large(Box::new(SteppedCard::new(settled(Card::new(memory)))))
                }
                FifoSize::Kb8 => {
                    AnySize::Small(Box::new(SteppedCard::new(settled(Card::new(memory)))))
                }
            },
            waves: None,
            tck_ps: memory.tck_ps.into(),
            ddr_edges: 0,
            tx_edges: 0,
        }
    }

    /// Writes every signal to a VCD file from now on; many times slower. Call it before the first
    /// edge.
    pub fn write_waves(&mut self, writer: Box<dyn io::Write>) {
        self.waves = Some(either!(self, card => Waves::new(writer, &card.card)));
    }

    /// Ends the VCD file. Returns the first error of writing the file.
    pub fn finish_waves(&mut self) -> io::Result<()> {
        self.waves.take().map_or(Ok(()), Waves::finish)
    }

    /// Simulates a full DDR clock: new pins after the falling edge, then the rising edge that
    /// samples them.
    pub fn ddr_edge(&mut self, pins: Pins, run: bool, straps: u16) {
        let rising = self.ddr_edges * self.tck_ps;
        let falling = rising.saturating_sub(self.tck_ps / 2);
        self.ddr_edges += 1;
        either!(self, card => match &mut self.waves {
            None => {
                card.drive(pins, run, straps);
                card.ddr_edge();
            }
            Some(waves) => {
                stepped::drive(&mut card.card, pins, run, straps);
                plain::ddr_level(&mut card.card, false);
                waves.at(falling, &card.card);
                plain::ddr_level(&mut card.card, true);
                waves.at(rising, &card.card);
            }
        });
    }

    /// Words of complete blocks in the packet FIFO. For observation only: no pin has this value.
    pub fn fifo_words(&self) -> u64 {
        match &self.card {
            AnySize::Small(card) => card.fifo_words(),
            AnySize::Large(card) => card.fifo_words(),
        }
    }

    /// Simulates a full transmit clock. Returns what the PHY samples at its rising edge.
    pub fn tx_edge(&mut self) -> Gmii {
        let rising = self.tx_edges * TX_PERIOD_PS + TX_PHASE_PS;
        self.tx_edges += 1;
        either!(self, card => {
            let sampled = card.sampled();
            match &mut self.waves {
                None => card.tx_edge(),
                Some(waves) => {
                    plain::tx_level(&mut card.card, false);
                    waves.at(rising.saturating_sub(TX_PERIOD_PS / 2), &card.card);
                    plain::tx_level(&mut card.card, true);
                    waves.at(rising, &card.card);
                }
            }
            sampled
        })
    }
}

fn settled<const N: usize>(mut card: Card<N>) -> Card<N> {
    card.connect_all();
    check_all(&card).expect("the card's wiring is complete");
    // The card settles before the first edge; else the edge would sample values that were never
    // computed.
    assert!(simulate(&mut card, SETTLE_PASSES), "the card settles");
    card
}

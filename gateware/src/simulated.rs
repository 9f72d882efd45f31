//! The card under direct simulation: one call per clock edge, each domain settled on its own.
//!
//! `rust_hdl`'s `simulate` visits every block of both domains until nothing changes. Here a rising edge
//! first reaches every block of its domain while the wires between them stand still; then what changed
//! travels along the wiring ([`Card::update`]), together with the falling edge, which no register
//! answers to. With waves both half clocks are simulated in full.

use std::io;

use hmtt_format::Pins;
use hmtt_format::command::ALL_RANKS;
use rust_hdl::prelude::*;

use crate::CardParameters;
use crate::card::Card;
use crate::waves::Waves;

/// What the PHY samples at a rising edge of the transmit clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gmii {
    /// TXD.
    pub txd: u8,
    /// TX_EN.
    pub tx_en: bool,
    /// TX_ER.
    pub tx_er: bool,
}

/// Period of the transmit clock.
const TX_PERIOD_PS: u64 = 8000;
/// Time of the transmit clock's first rising edge.
const TX_PHASE_PS: u64 = 1000;

/// A card with one of the FIFO sizes that exist.
pub struct SimulatedCard {
    card: AnySize,
    waves: Option<Waves>,
    tck_ps: u64,
    ddr_edges: u64,
    tx_edges: u64,
}

enum AnySize {
    Small(Box<Card<10>>),
    Large(Box<Card<14>>),
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
    /// Builds and settles a card. `parameters.fifo_log2`: 14 gives the 128 KB FIFO, else 8 KB.
    ///
    /// # Panics
    /// When the gateware itself is faulty: unconnected or looped.
    pub fn new(parameters: &CardParameters) -> Self {
        let memory = &parameters.memory;
        SimulatedCard {
            card: match parameters.fifo_log2 {
                14 => AnySize::Large(settled(Card::new(memory))),
                _ => AnySize::Small(settled(Card::new(memory))),
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
        self.waves = Some(either!(self, card => Waves::new(writer, card.as_ref())));
    }

    /// Ends the VCD file; the first error of writing it.
    pub fn finish_waves(&mut self) -> io::Result<()> {
        self.waves.take().map_or(Ok(()), Waves::finish)
    }

    /// One full DDR clock: new pins after the falling edge, then the rising edge that samples them.
    pub fn ddr_edge(&mut self, pins: Pins, run: bool, straps: u16) {
        let rising = self.ddr_edges * self.tck_ps;
        self.ddr_edges += 1;
        either!(self, card => {
            card.drive(pins, run, straps);
            match &mut self.waves {
                None => card.ddr_edge(),
                Some(waves) => card.ddr_edge_with_waves(waves, rising, self.tck_ps),
            }
        });
    }

    /// Words of complete blocks in the packet FIFO. For watching a simulation: no pin tells.
    pub fn fifo_words(&self) -> u64 {
        match &self.card {
            AnySize::Small(card) => used(card),
            AnySize::Large(card) => used(card),
        }
    }

    /// One full transmit clock; returns what the PHY samples at its rising edge.
    pub fn tx_edge(&mut self) -> Gmii {
        let rising = self.tx_edges * TX_PERIOD_PS + TX_PHASE_PS;
        self.tx_edges += 1;
        either!(self, card => {
            let sampled = card.sampled();
            match &mut self.waves {
                None => card.tx_edge(),
                Some(waves) => card.tx_edge_with_waves(waves, rising),
            }
            sampled
        })
    }
}

/// Words between two pointers of the FIFO.
fn used<const N: usize>(card: &Card<N>) -> u64 {
    let fifo = &card.packet_fifo;
    (fifo.committed.val() - fifo.freed.val()).to_u64()
}

fn settled<const N: usize>(mut card: Card<N>) -> Box<Card<N>> {
    card.connect_all();
    check_all(&card).expect("the card's wiring is complete");
    // Settled before the first edge: otherwise the first edge samples what was never computed.
    assert!(simulate(&mut card, SETTLE_PASSES), "the card settles");
    Box::new(card)
}

/// More passes than the longest combinational path has blocks.
const SETTLE_PASSES: usize = 100;

/// Gives some blocks a rising edge while their inputs stand still, as hardware does: each settles on
/// its own, before any of them sees what the others made of the edge.
macro_rules! edge {
    ($card:ident: $($block:ident),+) => {{
        $card.update();
        $(assert!(simulate(&mut $card.$block, SETTLE_PASSES), "a block settles");)+
    }};
}

/// Lets what changed travel: wires the blocks up and settles those whose inputs changed, until none
/// does. In the order the data takes, one round is nearly always enough.
macro_rules! travel {
    ($card:ident: $($block:ident),+) => {{
        let mut rounds = 0;
        loop {
            let mut changed = false;
            $(
                $card.update();
                $card.$block.update_all();
                if $card.$block.has_changed() {
                    changed = true;
                    assert!(simulate(&mut $card.$block, SETTLE_PASSES), "a block settles");
                }
            )+
            if !changed {
                break;
            }
            rounds += 1;
            assert!(rounds < SETTLE_PASSES, "the card settles");
        }
    }};
}

impl<const N: usize> Card<N> {
    fn drive(&mut self, pins: Pins, run: bool, straps: u16) {
        self.cke.next = u64::from(pins.cke & ALL_RANKS).into();
        self.cs_n.next = u64::from(pins.cs_n & ALL_RANKS).into();
        self.act_n.next = pins.act_n;
        self.ras_n.next = pins.ras_n;
        self.cas_n.next = pins.cas_n;
        self.we_n.next = pins.we_n;
        self.ba.next = u64::from(pins.ba & 15).into();
        self.a.next = u64::from(pins.a & 0x3_ffff).into();
        self.run.next = run;
        self.straps.next = u64::from(straps).into();
    }

    fn ddr_edge(&mut self) {
        travel!(
            self: cke, cs_n, act_n, ras_n, cas_n, we_n, ba, a, run, straps, command_buffer,
            event_source, config_unit
        );
        self.ddr_clock.next = Clock { clk: true };
        assert!(simulate(&mut self.ddr_clock, SETTLE_PASSES));
        edge!(
            self: command_buffer, state_machine, event_source, event_queue, config_unit, traces,
            timekeeper, totals, frequency, analysis, other_words, block_writer, packet_fifo,
            clock_watch
        );
        // No register answers to the falling edge, so it travels together with the data.
        self.ddr_clock.next = Clock { clk: false };
        assert!(simulate(&mut self.ddr_clock, SETTLE_PASSES));
        travel!(
            self: command_buffer, state_machine, event_source, event_queue, config_unit, traces,
            timekeeper, totals, frequency, analysis, other_words, block_writer, packet_fifo,
            clock_watch
        );
    }

    fn sampled(&self) -> Gmii {
        Gmii {
            txd: self.gmac.txd.val().index() as u8,
            tx_en: self.gmac.tx_en.val(),
            tx_er: self.gmii_tx_er.val(),
        }
    }

    fn tx_edge(&mut self) {
        self.tx_clock.next = Clock { clk: true };
        assert!(simulate(&mut self.tx_clock, SETTLE_PASSES));
        edge!(self: packet_fifo, clock_watch, heartbeat, tx_thread, gmac);
        self.tx_clock.next = Clock { clk: false };
        assert!(simulate(&mut self.tx_clock, SETTLE_PASSES));
        travel!(self: packet_fifo, clock_watch, heartbeat, tx_thread, gmac, gmii_txd, gmii_tx_en, led);
    }

    /// Half clocks apart, so that waves show both levels of the clock.
    fn ddr_edge_with_waves(&mut self, waves: &mut Waves, rising_ps: u64, period_ps: u64) {
        self.ddr_clock.next = Clock { clk: false };
        assert!(simulate(self, SETTLE_PASSES));
        waves.at(rising_ps.saturating_sub(period_ps / 2), self);
        self.ddr_clock.next = Clock { clk: true };
        assert!(simulate(self, SETTLE_PASSES));
        waves.at(rising_ps, self);
    }

    fn tx_edge_with_waves(&mut self, waves: &mut Waves, rising_ps: u64) {
        self.tx_clock.next = Clock { clk: false };
        assert!(simulate(self, SETTLE_PASSES));
        waves.at(rising_ps.saturating_sub(TX_PERIOD_PS / 2), self);
        self.tx_clock.next = Clock { clk: true };
        assert!(simulate(self, SETTLE_PASSES));
        waves.at(rising_ps, self);
    }
}

//! The card, stepped edge by edge in one domain: only blocks in which something can change are
//! evaluated ([`Activity`]).
//!
//! At a rising edge every block of the domain answers while its inputs stand still. Then what changed
//! travels along the wiring ([`Card::update`]) in the order that the data takes, so that nearly every
//! block is settled once. The clock falls within a block together with that; the card's own clock
//! signals stay low.

use hmtt_format::Pins;
use hmtt_format::command::ALL_RANKS;
use rust_hdl::prelude::*;

use super::Gmii;
use super::activity::{Activity, SETTLE_PASSES};
use crate::card::Card;

/// A card and what is known of its blocks.
pub struct SteppedCard<const N: usize> {
    pub(super) card: Card<N>,
    activities: Activities,
    /// Outputs have changed since the wiring was last evaluated.
    stale: bool,
    /// Outputs have changed at an edge of the transmit clock, which inputs of the DDR domain may show.
    tx_changed: bool,
    /// The same, the other way round.
    ddr_changed: bool,
    /// The DDR domain was in reset at the transmit clock's last edge.
    in_reset: bool,
    driven: Option<(Pins, bool, u16)>,
}

/// One for each block.
struct Activities {
    command_buffer: Activity,
    state_machine: Activity,
    event_source: Activity,
    event_queue: Activity,
    config_unit: Activity,
    traces: Activity,
    timekeeper: Activity,
    totals: Activity,
    frequency: Activity,
    analysis: Activity,
    other_words: Activity,
    block_writer: Activity,
    packet_fifo: Activity,
    clock_watch: Activity,
    ddr_restart: Activity,
    ddr_reset: Activity,
    heartbeat: Activity,
    tx_thread: Activity,
    gmac: Activity,
}

impl Activities {
    fn of<const N: usize>(card: &Card<N>) -> Self {
        Activities {
            command_buffer: Activity::of(&card.command_buffer),
            // Its bank table counts clocks in other state than registers.
            state_machine: Activity::restless(&card.state_machine),
            event_source: Activity::of(&card.event_source),
            event_queue: Activity::of(&card.event_queue),
            config_unit: Activity::of(&card.config_unit),
            traces: Activity::of(&card.traces),
            timekeeper: Activity::of(&card.timekeeper),
            totals: Activity::of(&card.totals),
            frequency: Activity::of(&card.frequency),
            analysis: Activity::of(&card.analysis),
            other_words: Activity::of(&card.other_words),
            block_writer: Activity::of(&card.block_writer),
            packet_fifo: Activity::of(&card.packet_fifo),
            clock_watch: Activity::of(&card.clock_watch),
            ddr_restart: Activity::of(&card.ddr_restart),
            ddr_reset: Activity::of(&card.ddr_reset),
            heartbeat: Activity::of(&card.heartbeat),
            tx_thread: Activity::of(&card.tx_thread),
            gmac: Activity::of(&card.gmac),
        }
    }
}

/// Lets some blocks answer to a rising edge.
macro_rules! rise {
    ($self:ident, $clock:ident: $($block:ident),+) => {
        $($self.activities.$block.rise(&mut $self.card.$block, |block| &mut block.$clock);)+
    };
}

/// Lets what changed travel: wires the blocks up and settles those whose inputs moved, until none is
/// left. Returns whether any output changed.
macro_rules! travel {
    ($self:ident: $($block:ident),+) => {{
        let mut rounds = 0;
        loop {
            let mut changed = false;
            $(
                if std::mem::take(&mut $self.stale) {
                    $self.card.update();
                }
                if $self.activities.$block.settle(&mut $self.card.$block) {
                    changed = true;
                    $self.stale = true;
                }
            )+
            if !changed {
                break rounds > 0;
            }
            rounds += 1;
            assert!(rounds < SETTLE_PASSES, "the card settles");
        }
    }};
}

impl<const N: usize> SteppedCard<N> {
    /// Of a card that has settled and seen no edge.
    pub fn new(card: Card<N>) -> Self {
        let activities = Activities::of(&card);
        SteppedCard {
            card,
            activities,
            stale: false,
            tx_changed: false,
            ddr_changed: false,
            in_reset: false,
            driven: None,
        }
    }

    /// New levels on the pins.
    pub fn drive(&mut self, pins: Pins, run: bool, straps: u16) {
        if self.driven.replace((pins, run, straps)) == Some((pins, run, straps)) {
            return;
        }
        drive(&mut self.card, pins, run, straps);
        macro_rules! take_in {
            ($($pin:ident),+) => { $(self.card.$pin.update_all();)+ };
        }
        take_in!(cke, cs_n, act_n, ras_n, cas_n, we_n, ba, a, run, straps);
        self.stale = true;
        self.tx_changed = true;
    }

    /// A rising and a falling edge of the DDR clock.
    pub fn ddr_edge(&mut self) {
        if std::mem::take(&mut self.tx_changed) {
            self.ddr_changed |= self.ddr_travel();
        }
        rise!(
            self, clock: ddr_reset, command_buffer, state_machine, event_source, event_queue, config_unit,
            traces, timekeeper, totals, frequency, analysis, other_words, block_writer
        );
        rise!(self, ddr_clock: packet_fifo, clock_watch);
        self.stale = true;
        self.ddr_changed |= self.ddr_travel();
    }

    /// Lets everything travel that else would with the other domain's next edge.
    #[cfg(test)]
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.tx_changed) {
            self.ddr_changed |= self.ddr_travel();
        }
        if std::mem::take(&mut self.ddr_changed) {
            self.tx_changed |= self.tx_travel();
        }
    }

    fn ddr_travel(&mut self) -> bool {
        travel!(
            self: ddr_reset, command_buffer, state_machine, event_source, event_queue, config_unit,
            traces, timekeeper, totals, frequency, analysis, other_words, block_writer, packet_fifo,
            clock_watch
        )
    }

    /// A rising and a falling edge of the transmit clock.
    pub fn tx_edge(&mut self) {
        if std::mem::take(&mut self.ddr_changed) {
            self.tx_changed |= self.tx_travel();
        }
        rise!(self, tx_clock: packet_fifo, clock_watch);
        rise!(self, clock: ddr_restart, heartbeat, tx_thread, gmac);
        self.stale = true;
        self.tx_changed |= self.tx_travel();
        // A reset of the DDR domain waits for none of its edges, and shows in the FIFO at once.
        let was_in_reset = std::mem::replace(&mut self.in_reset, self.card.ddr_reset.reset.val());
        if self.in_reset && !was_in_reset {
            self.ddr_changed |= self.ddr_travel();
        }
    }

    fn tx_travel(&mut self) -> bool {
        travel!(
            self: packet_fifo, clock_watch, ddr_restart, ddr_reset, heartbeat, tx_thread, gmac
        )
    }

    /// What the PHY samples at a rising edge of the transmit clock now.
    pub fn sampled(&self) -> Gmii {
        Gmii {
            txd: self.card.gmac.txd.val().index() as u8,
            tx_en: self.card.gmac.tx_en.val(),
            tx_er: self.card.gmii_tx_er.val(),
        }
    }

    /// Words of complete blocks in the packet FIFO.
    pub fn fifo_words(&self) -> u64 {
        let fifo = &self.card.packet_fifo;
        (fifo.committed.val() - fifo.freed.val()).to_u64()
    }
}

/// Sets the card's pins.
pub fn drive<const N: usize>(card: &mut Card<N>, pins: Pins, run: bool, straps: u16) {
    card.cke.next = u64::from(pins.cke & ALL_RANKS).into();
    card.cs_n.next = u64::from(pins.cs_n & ALL_RANKS).into();
    card.act_n.next = pins.act_n;
    card.ras_n.next = pins.ras_n;
    card.cas_n.next = pins.cas_n;
    card.we_n.next = pins.we_n;
    card.ba.next = u64::from(pins.ba & 15).into();
    card.a.next = u64::from(pins.a & 0x3_ffff).into();
    card.run.next = run;
    card.straps.next = u64::from(straps).into();
}

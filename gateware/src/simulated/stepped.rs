//! Simulates the card edge by edge in one domain: only blocks that can change are evaluated
//! ([`Activity`]).
//!
//! At a rising edge each block of the domain is clocked while its inputs do not change. Then
//! changes are propagated along the wiring ([`Card::update`]) in the order of the data, so that
//! nearly each block is settled once. A block gets the falling edge while it is settled; the card's
//! own clock signals stay low.

use hmtt_format::Pins;
use hmtt_format::command::ALL_RANKS;
use rust_hdl::prelude::*;

use super::Gmii;
use super::activity::{Activity, SETTLE_PASSES};
use crate::card::Card;

/// A card and the state of its blocks.
pub struct SteppedCard<const N: usize> {
    pub(super) card: Card<N>,
    activities: Activities,
    /// Outputs have changed since the wiring was last evaluated.
    stale: bool,
    /// Outputs have changed at an edge of the transmit clock; inputs of the DDR domain may depend
    /// on them.
    tx_changed: bool,
    /// Outputs have changed at an edge of the DDR clock.
    ddr_changed: bool,
    /// The DDR domain was in reset at the transmit clock's last edge.
    in_reset: bool,
    driven: Option<(Pins, bool, u16)>,
}

/// Gives some blocks a rising edge.
macro_rules! rise {
    ($self:ident, $clock:ident: $($block:ident),+) => {{
        $($self.activities.$block.rise(&mut $self.card.$block, |block| &mut block.$clock);)+
    }};
}

/// Propagates changes: evaluates the wiring and settles the blocks with changed inputs, until no
/// input changes. Returns whether an output changed.
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

/// Generates, from one list of the card's blocks, their activities and the effects of both clocks
/// on them. A test compares the list with the card.
macro_rules! blocks {
    (
        ddr: $($ddr:ident),+;
        both: $($both:ident),+;
        tx: $($tx:ident),+;
        reached_from_tx: $($reached:ident),+;
    ) => {
        /// State of each block.
        struct Activities {
            $($ddr: Activity,)+
            $($both: Activity,)+
            $($tx: Activity,)+
        }

        impl Activities {
            /// Names of the blocks.
            #[cfg(test)]
            const NAMES: &'static [&'static str] = &[
                $(stringify!($ddr),)+ $(stringify!($both),)+ $(stringify!($tx),)+
            ];

            fn of<const N: usize>(card: &Card<N>) -> Self {
                Activities {
                    $($ddr: Activity::of(&card.$ddr),)+
                    $($both: Activity::of(&card.$both),)+
                    $($tx: Activity::of(&card.$tx),)+
                }
            }
        }

        impl<const N: usize> SteppedCard<N> {
            fn ddr_rise(&mut self) {
                rise!(self, clock: $($ddr),+);
                rise!(self, ddr_clock: $($both),+);
            }

            fn ddr_travel(&mut self) -> bool {
                travel!(self: $($ddr,)+ $($both),+)
            }

            fn tx_rise(&mut self) {
                rise!(self, tx_clock: $($both),+);
                rise!(self, clock: $($tx),+);
            }

            fn tx_travel(&mut self) -> bool {
                travel!(self: $($both,)+ $($tx,)+ $($reached),+)
            }
        }
    };
}

// Blocks in the order of the data: those with one clock, and between them those with both clocks.
blocks! {
    ddr: ddr_reset, command_buffer, state_machine, event_source, event_queue, config_unit, traces, timekeeper,
        totals, frequency, analysis, other_words, block_writer;
    both: packet_fifo, clock_watch;
    tx: ddr_restart, heartbeat, tx_thread, gmac;
    // Its output follows an input of the transmit domain without an edge.
    reached_from_tx: ddr_reset;
}

impl<const N: usize> SteppedCard<N> {
    /// Wraps a card that has settled and had no edge.
    pub fn new(card: Card<N>) -> Self {
        let mut activities = Activities::of(&card);
        // Its bank table has state that is not in registers.
        activities.state_machine = Activity::restless(&card.state_machine);
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

    /// Sets the levels of the pins.
    pub fn drive(&mut self, pins: Pins, run: bool, straps: u16) {
        if self.driven.replace((pins, run, straps)) == Some((pins, run, straps)) {
            return;
        }
        drive(&mut self.card, pins, run, straps);
        self.card.pins.update_all();
        self.card.run.update_all();
        self.card.straps.update_all();
        self.stale = true;
        self.tx_changed = true;
    }

    /// Applies a rising and a falling edge of the DDR clock.
    pub fn ddr_edge(&mut self) {
        if std::mem::take(&mut self.tx_changed) {
            self.ddr_changed |= self.ddr_travel();
        }
        self.ddr_rise();
        self.stale = true;
        self.ddr_changed |= self.ddr_travel();
    }

    /// Propagates all changes that would otherwise wait for the next edge of the other domain.
    #[cfg(test)]
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.tx_changed) {
            self.ddr_changed |= self.ddr_travel();
        }
        if std::mem::take(&mut self.ddr_changed) {
            self.tx_changed |= self.tx_travel();
        }
    }

    /// Names of the blocks in the lists.
    #[cfg(test)]
    pub(super) fn blocks() -> &'static [&'static str] {
        Activities::NAMES
    }

    /// Applies a rising and a falling edge of the transmit clock.
    pub fn tx_edge(&mut self) {
        if std::mem::take(&mut self.ddr_changed) {
            self.tx_changed |= self.tx_travel();
        }
        self.tx_rise();
        self.stale = true;
        self.tx_changed |= self.tx_travel();
        // A reset of the DDR domain begins without an edge of its clock and changes the FIFO at
        // once.
        let was_in_reset = std::mem::replace(&mut self.in_reset, self.card.ddr_reset.reset.val());
        if self.in_reset && !was_in_reset {
            self.ddr_changed |= self.ddr_travel();
        }
    }

    /// Returns the levels that the PHY would sample at a rising edge now.
    pub fn sampled(&self) -> Gmii {
        Gmii {
            txd: self.card.gmac.txd.val().index() as u8,
            tx_en: self.card.gmac.tx_en.val(),
            tx_er: self.card.gmii_tx_er.val(),
        }
    }

    /// Returns the words of complete blocks in the packet FIFO.
    pub fn fifo_words(&self) -> u64 {
        let fifo = &self.card.packet_fifo;
        (fifo.write.committed.val() - fifo.read.freed.val()).to_u64()
    }
}

/// Sets the card's pins.
pub fn drive<const N: usize>(card: &mut Card<N>, pins: Pins, run: bool, straps: u16) {
    card.pins.cke.next = u64::from(pins.cke & ALL_RANKS).into();
    card.pins.cs_n.next = u64::from(pins.cs_n & ALL_RANKS).into();
    card.pins.act_n.next = pins.act_n;
    card.pins.ras_n.next = pins.ras_n;
    card.pins.cas_n.next = pins.cas_n;
    card.pins.we_n.next = pins.we_n;
    card.pins.ba.next = u64::from(pins.ba & 15).into();
    card.pins.a.next = u64::from(pins.a & 0x3_ffff).into();
    card.run.next = run;
    card.straps.next = u64::from(straps).into();
}

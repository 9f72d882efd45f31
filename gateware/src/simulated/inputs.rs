//! Lists the inputs of the blocks of the card, to decide whether a block must be evaluated.
//!
//! The lists are written by hand. Only a probe of rust-hdl can enumerate the signals of a block,
//! but it visits all inner blocks too, which is more work than evaluating the block. A card with an
//! incomplete list is not built ([`super::activity::Activity::of`]).

use rust_hdl::prelude::*;

use crate::analysis::unit::Analysis;
use crate::config::config_unit::ConfigUnit;
use crate::ddr::DdrPins;
use crate::ddr::command_buffer::CommandBuffer;
use crate::ddr::event_ports::{EventRead, EventReader, EventWrite};
use crate::ddr::event_queue::EventQueue;
use crate::ddr::event_source::EventSource;
use crate::ddr::state_machine::StateMachine;
use crate::ethernet::clock_watch::ClockWatch;
use crate::ethernet::gmac::Gmac;
use crate::ethernet::heartbeat::Heartbeat;
use crate::ethernet::ports::{BeatSink, BeatSource, OctetSink, OctetSource};
use crate::ethernet::tx_thread::TxThread;
use crate::fifo::packet_fifo::PacketFifo;
use crate::fifo::ports::{FifoRead, FifoReader, FifoWrite};
use crate::reset::Domain;
use crate::reset::ddr_restart::DdrRestart;
use crate::reset::reset_crossing::ResetCrossing;
use crate::statistics::block_writer::BlockWriter;
use crate::statistics::frequency::Frequency;
use crate::statistics::other_words::OtherWords;
use crate::statistics::timekeeper::Timekeeper;
use crate::statistics::totals::TotalsCounter;
use crate::statistics::traces::Traces;
use crate::statistics::word_request::{WordReader, WordRequest};

/// A clock input of a block, with or without a reset.
pub trait ClockInput {
    /// Sets the level of the clock; a reset does not change.
    fn set_level(&mut self, clk: bool);

    /// Registers are in reset.
    fn in_reset(&self) -> bool;

    /// The reset has a new value that the block has not read yet. Edges of the clock do not count.
    fn reset_moved(&self) -> bool;
}

impl ClockInput for Signal<In, Clock> {
    fn set_level(&mut self, clk: bool) {
        self.next = Clock { clk };
    }

    fn in_reset(&self) -> bool {
        false
    }

    fn reset_moved(&self) -> bool {
        false
    }
}

impl ClockInput for Signal<In, Domain> {
    fn set_level(&mut self, clk: bool) {
        self.next.clk = Clock { clk };
    }

    fn in_reset(&self) -> bool {
        self.val().reset | self.val().clear
    }

    fn reset_moved(&self) -> bool {
        (self.next.reset, self.next.clear) != (self.val().reset, self.val().clear)
    }
}

/// An input, or a bundle of ports.
pub trait Port {
    /// Adds the names of the inputs to a list, with the names of their bundles before them, as in
    /// Verilog.
    fn name(&self, name: &str, names: &mut Vec<String>);

    /// An input has a new value that the block has not read yet.
    fn moved(&self) -> bool;
}

impl<T: Synth> Port for Signal<In, T> {
    fn name(&self, name: &str, names: &mut Vec<String>) {
        names.push(name.to_owned());
    }

    fn moved(&self) -> bool {
        self.next != self.val()
    }
}

/// Lists the inputs of a bundle of ports; outputs are not listed.
macro_rules! bundle {
    ($bundle:ident $(<$n:ident>)?: $($input:ident),+) => {
        impl $(<const $n: usize>)? Port for $bundle $(<$n>)? {
            fn name(&self, name: &str, names: &mut Vec<String>) {
                $(self.$input.name(&format!("{name}${}", stringify!($input)), names);)+
            }

            fn moved(&self) -> bool {
                $(self.$input.moved())||+
            }
        }
    };
}

/// A block with a list of its inputs.
pub trait Inputs: Block {
    /// Names of the inputs, without clocks. [`super::activity::Activity::of`] compares them with
    /// the block.
    fn names(&self) -> Vec<String>;

    /// An input has a new value that the block has not read yet.
    fn moved(&self) -> bool;
}

macro_rules! inputs {
    ($block:ident $(<$n:ident>)?, $($clock:ident),+: $($input:ident),*) => {
        impl $(<const $n: usize>)? Inputs for $block $(<$n>)? {
            fn names(&self) -> Vec<String> {
                #[allow(unused_mut, reason = "a block may have no inputs but clocks")]
                let mut names = Vec::new();
                $(self.$input.name(stringify!($input), &mut names);)*
                names
            }

            fn moved(&self) -> bool {
                $(self.$clock.reset_moved())||+ $(|| self.$input.moved())*
            }
        }
    };
}

bundle!(DdrPins: cke, cs_n, act_n, ras_n, cas_n, we_n, ba, a);
bundle!(EventWrite: slot_event, register, push, clocked);
bundle!(EventRead: pop);
bundle!(EventReader: head, valid);
bundle!(FifoWrite<N>: high_enable, low_enable, address, high, low, committed);
bundle!(FifoRead<N>: address, freed);
bundle!(FifoReader<N>: high, low);
bundle!(WordRequest: kind, index);
bundle!(WordReader: high, low, report_last);
bundle!(BeatSource: taken, step, sent);
bundle!(BeatSink: due, group);
bundle!(OctetSink: valid, data, last);
bundle!(OctetSource: ready);

inputs!(CommandBuffer, clock: pins);
inputs!(StateMachine, clock: command, valid);
inputs!(EventSource, clock: valid, run, verdict, row, slice_last, slices, slice_restart);
inputs!(EventQueue, clock: write, read);
inputs!(ConfigUnit, clock: events, straps, advance, progress);
inputs!(Traces, clock: item, advance, settings, running, requests);
inputs!(Timekeeper, clock: passes, gap, set, set_to);
inputs!(TotalsCounter, clock: observed, unreported, burst);
inputs!(Frequency, clock: offer, write, passes, gap, restart, now, slice_last);
inputs!(Analysis, clock: observed, settings, running, requests, now, may_send, taken, held, word);
inputs!(
    OtherWords, clock: words, settings, slices, running, totals, slice_counts, analysis_high, analysis_low
);
inputs!(
    BlockWriter<N>, clock: record, offered, settings, now, slice_accesses, slice_partial,
    words, space_available
);
inputs!(
    PacketFifo<N>, ddr_clock, tx_clock: write, read);
inputs!(ClockWatch, ddr_clock, tx_clock:);
inputs!(DdrRestart<N>, clock: lost, changed, crossed, drained);
inputs!(ResetCrossing, clock: request);
inputs!(Heartbeat, clock: lost, beat);
inputs!(TxThread<N>, clock: available, read, rewind, beat, octets);
inputs!(Gmac, clock: octets);

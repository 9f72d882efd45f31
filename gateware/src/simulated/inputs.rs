//! The inputs of the card's blocks, so that one look tells whether a block has to be evaluated.

use rust_hdl::prelude::*;

use crate::analysis::unit::Analysis;
use crate::config::config_unit::ConfigUnit;
use crate::ddr::command_buffer::CommandBuffer;
use crate::ddr::event_queue::EventQueue;
use crate::ddr::event_source::EventSource;
use crate::ddr::state_machine::StateMachine;
use crate::ethernet::clock_watch::ClockWatch;
use crate::ethernet::gmac::Gmac;
use crate::ethernet::heartbeat::Heartbeat;
use crate::ethernet::tx_thread::TxThread;
use crate::fifo::packet_fifo::PacketFifo;
use crate::statistics::block_writer::BlockWriter;
use crate::statistics::frequency::Frequency;
use crate::statistics::other_words::OtherWords;
use crate::statistics::timekeeper::Timekeeper;
use crate::statistics::totals::TotalsCounter;
use crate::statistics::traces::Traces;

/// A block whose inputs can be looked at.
pub trait Inputs: Block {
    /// Its inputs but for clocks. [`super::activity::Activity::of`] compares them with the block.
    const NAMES: &'static [&'static str];

    /// An input was given another value than the block has taken in.
    fn moved(&self) -> bool;
}

macro_rules! inputs {
    ($block:ident $(<$n:ident>)?: $($input:ident),*) => {
        impl $(<const $n: usize>)? Inputs for $block $(<$n>)? {
            const NAMES: &'static [&'static str] = &[$(stringify!($input)),*];

            fn moved(&self) -> bool {
                false $(|| self.$input.next != self.$input.val())*
            }
        }
    };
}

inputs!(CommandBuffer: cke, cs_n, act_n, ras_n, cas_n, we_n, ba, a);
inputs!(StateMachine: command, valid);
inputs!(EventSource: valid, run, verdict, row, slice_last, slices, slice_restart);
inputs!(EventQueue: slot_event, register, push, clocked, pop);
inputs!(ConfigUnit: slot_event, event_valid, straps, advance, progress);
inputs!(Traces: item, advance, settings, running, steering);
inputs!(Timekeeper: passes, gap, set, set_to);
inputs!(TotalsCounter: observed, unreported, burst);
inputs!(Frequency: offer, write, passes, gap, restart, now, slice_last);
inputs!(Analysis: observed, settings, running, steering, now, flowing, taken, held, word);
inputs!(
    OtherWords: kind, index, settings, slices, running, totals, slice_partial, slice_first,
    slice_reads, slice_writes, slice_length, analysis_high, analysis_low
);
inputs!(
    BlockWriter<N>: record, settings, now, slice_accesses, slice_partial,
    other_high, other_low, report_last, room
);
inputs!(
    PacketFifo<N>: write_high_enable, write_low_enable, write_address, write_high,
    write_low, committed, read_address, freed
);
inputs!(ClockWatch:);
inputs!(Heartbeat: lost, sent, taken, step);
inputs!(TxThread<N>: available, read_high, read_low, beat, beat_group, ready);
inputs!(Gmac: valid, data, last);

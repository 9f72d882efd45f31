//! Connects the units of the card, from the DDR command pins to GMII, and decides nothing.
//!
//! ```text
//! pins -> DCBU -> DSMU -> event source -> event queue -> CU -> traces -> block writer    ddr_clock
//!                                                                              |
//!                                                     analysis (in parallel)   |
//! GMII <- GMAC <- Tx thread <---------------------------------------- packet FIFO        tx_clock
//!                     ^--- heartbeat <--- clock watch <--- ddr_clock
//!                                              +--> restart of the DDR domain
//! ```

use hmtt_format::MemoryDescription;
use rust_hdl::prelude::*;

use crate::analysis::unit::Analysis;
use crate::config::config_unit::ConfigUnit;
use crate::ddr::DdrPins;
use crate::ddr::command_buffer::CommandBuffer;
use crate::ddr::event_ports::{EventReader, EventWriter};
use crate::ddr::event_queue::EventQueue;
use crate::ddr::event_source::EventSource;
use crate::ddr::state_machine::StateMachine;
use crate::ethernet::clock_watch::ClockWatch;
use crate::ethernet::gmac::Gmac;
use crate::ethernet::heartbeat::Heartbeat;
use crate::ethernet::ports::{BeatSink, OctetSource};
use crate::ethernet::tx_thread::TxThread;
use crate::fifo::packet_fifo::PacketFifo;
use crate::fifo::ports::{FifoReader, FifoWriter};
use crate::reset::Domain;
use crate::reset::ddr_restart::DdrRestart;
use crate::reset::reset_crossing::ResetCrossing;
use crate::statistics::block_writer::BlockWriter;
use crate::statistics::frequency::Frequency;
use crate::statistics::other_words::OtherWords;
use crate::statistics::timekeeper::Timekeeper;
use crate::statistics::totals::TotalsCounter;
use crate::statistics::traces::Traces;
use crate::statistics::word_request::WordReader;

/// See the module's description. `N`: log2 of the packet FIFO's 64-bit words.
#[derive(LogicBlock)]
pub struct Card<const N: usize> {
    /// The slot's clock, CK.
    pub ddr_clock: Signal<In, Clock>,
    /// Transmit clock, 125 MHz.
    pub tx_clock: Signal<In, Clock>,
    /// The transmit domain is in reset, because its clock is not steady. Synchronous to `tx_clock`.
    pub tx_reset: Signal<In, Bit>,
    /// The slot's command pins.
    pub pins: DdrPins,
    /// Run switch, high to capture; unsynchronized.
    pub run: Signal<In, Bit>,
    /// Strap pins: the power-on settings, see [`crate::config::settings::straps`].
    pub straps: Signal<In, Bits<16>>,
    /// GMII TXD, synchronous to `tx_clock`.
    pub gmii_txd: Signal<Out, Bits<8>>,
    /// GMII TX_EN, high from the preamble to the FCS.
    pub gmii_tx_en: Signal<Out, Bit>,
    /// GMII TX_ER, always low.
    pub gmii_tx_er: Signal<Out, Bit>,
    /// LEDs, active high. 0: capturing. 1: records were lost. 2: sending. 3: the DDR clock is lost.
    pub led: Signal<Out, Bits<8>>,
    pub(crate) command_buffer: CommandBuffer,
    pub(crate) state_machine: StateMachine,
    pub(crate) event_source: EventSource,
    pub(crate) event_queue: EventQueue,
    pub(crate) config_unit: ConfigUnit,
    pub(crate) traces: Traces,
    pub(crate) timekeeper: Timekeeper,
    pub(crate) totals: TotalsCounter,
    pub(crate) frequency: Frequency,
    pub(crate) analysis: Analysis,
    pub(crate) other_words: OtherWords,
    pub(crate) block_writer: BlockWriter<N>,
    pub(crate) packet_fifo: PacketFifo<N>,
    pub(crate) clock_watch: ClockWatch,
    pub(crate) ddr_restart: DdrRestart<N>,
    pub(crate) ddr_reset: ResetCrossing,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) tx_thread: TxThread<N>,
    pub(crate) gmac: Gmac,
    ddr: Signal<Local, Domain>,
    tx: Signal<Local, Domain>,
    /// The transmit side of the FIFO.
    fifo_tx: Signal<Local, Domain>,
    capturing: Signal<Local, Bits<8>>,
    losing: Signal<Local, Bits<8>>,
    sending: Signal<Local, Bits<8>>,
    clock_lost: Signal<Local, Bits<8>>,
    led_capturing: Constant<Bits<8>>,
    led_losing: Constant<Bits<8>>,
    led_sending: Constant<Bits<8>>,
    led_clock_lost: Constant<Bits<8>>,
}

impl<const N: usize> Card<N> {
    /// Builds a card for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        block! {
            Self {
                command_buffer: CommandBuffer::new(memory),
                state_machine: StateMachine::new(memory),
                event_source: EventSource::new(memory),
                config_unit: ConfigUnit::new(memory),
                traces: Traces::new(memory),
                analysis: Analysis::new(memory),
                other_words: OtherWords::new(memory),
                block_writer: BlockWriter::new(memory),
                led_capturing: Constant::new(1u64.into()),
                led_losing: Constant::new(2u64.into()),
                led_sending: Constant::new(4u64.into()),
                led_clock_lost: Constant::new(8u64.into()),
            }
            default: ddr_clock, tx_clock, tx_reset, pins, run, straps, gmii_txd, gmii_tx_en,
                gmii_tx_er, led, event_queue, timekeeper, totals, frequency, packet_fifo,
                clock_watch, ddr_restart, ddr_reset, heartbeat, tx_thread, gmac, ddr, tx, fifo_tx,
                capturing, losing, sending, clock_lost
        }
    }
}

impl<const N: usize> Logic for Card<N> {
    #[hdl_gen]
    fn update(&mut self) {
        self.ddr_reset.clock.next = self.ddr_clock.val();
        self.ddr_reset.request.next = self.ddr_restart.request.val();
        self.ddr.next.clk = self.ddr_clock.val();
        self.ddr.next.reset = self.ddr_reset.reset.val();
        self.ddr.next.clear = self.ddr_reset.clear.val();
        self.tx.next.clk = self.tx_clock.val();
        self.tx.next.reset = self.tx_reset.val();
        self.tx.next.clear = self.tx_reset.val();
        self.fifo_tx.next.clk = self.tx_clock.val();
        self.fifo_tx.next.reset = self.tx_reset.val() | self.ddr_restart.clears.val();
        self.fifo_tx.next.clear = self.tx_reset.val();
        clock!(
            self,
            ddr,
            command_buffer,
            state_machine,
            event_source,
            event_queue,
            config_unit,
            traces,
            timekeeper,
            totals,
            frequency,
            analysis,
            other_words,
            block_writer
        );
        self.packet_fifo.ddr_clock.next = self.ddr.val();
        self.packet_fifo.tx_clock.next = self.fifo_tx.val();
        self.clock_watch.ddr_clock.next = self.ddr_clock.val();
        self.clock_watch.tx_clock.next = self.tx.val();
        clock!(self, tx, ddr_restart, heartbeat, tx_thread, gmac);

        DdrPins::link(&mut self.pins, &mut self.command_buffer.pins);
        self.state_machine.command.next = self.command_buffer.command.val();
        self.state_machine.valid.next = self.command_buffer.valid.val();
        self.event_source.valid.next = self.state_machine.verdict_valid.val();
        self.event_source.run.next = self.run.val();
        self.event_source.verdict.next = self.state_machine.verdict.val();
        self.event_source.row.next = self.state_machine.row.val();
        self.event_source.slices.next = self.config_unit.slices.val();
        self.event_source.slice_last.next = self.config_unit.slice_last.val();
        self.event_source.slice_restart.next = self.config_unit.slice_restart.val();
        EventWriter::join(&mut self.event_source.events, &mut self.event_queue.write);

        self.config_unit.straps.next = self.straps.val();
        EventReader::join(&mut self.config_unit.events, &mut self.event_queue.read);
        self.config_unit.advance.next = self.block_writer.advance.val();
        self.config_unit.progress.next.drained = self.traces.drained.val();
        self.config_unit.progress.next.waiting = self.traces.waiting.val();
        self.config_unit.progress.next.stale = self.traces.stale.val();
        self.config_unit.progress.next.silent = self.traces.silent.val();
        self.config_unit.progress.next.counted = self.frequency.counted.val();
        self.config_unit.progress.next.free = self.block_writer.free.val();
        self.config_unit.progress.next.idle = self.block_writer.idle.val();
        self.config_unit.progress.next.dumped = self.analysis.dumped.val();
        self.config_unit.progress.next.interval = self.analysis.interval.val();

        self.traces.item.next = self.config_unit.item.val();
        self.traces.advance.next = self.block_writer.advance.val();
        self.traces.settings.next = self.config_unit.settings.val();
        self.traces.running.next = self.config_unit.running.val();
        self.traces.requests.next = self.config_unit.requests.val();
        self.timekeeper.passes.next = true;
        self.timekeeper.gap.next = bit_cast::<32, 16>(self.traces.gap.val());
        self.timekeeper.set.next = false;
        self.timekeeper.set_to.next = self.timekeeper.now.val();
        self.totals.observed.next = self.traces.observed.val();
        self.totals.unreported.next = self.state_machine.unreported.val();
        self.totals.burst.next = self.state_machine.burst.val();
        self.frequency.offer.next =
            self.traces.observed.val().access & !self.traces.observed.val().tag;
        self.frequency.write.next = self.traces.observed.val().write;
        self.frequency.passes.next = true;
        self.frequency.gap.next = self.traces.gap.val();
        self.frequency.restart.next = self.config_unit.requests.val().restart_slice;
        self.frequency.now.next = self.timekeeper.now.val();
        self.frequency.slice_last.next = self.config_unit.slice_last.val();

        self.analysis.observed.next = self.traces.observed.val();
        self.analysis.settings.next = self.config_unit.settings.val();
        self.analysis.running.next = self.config_unit.running.val();
        self.analysis.requests.next = self.config_unit.requests.val();
        self.analysis.now.next = self.timekeeper.now.val();
        self.analysis.may_send.next = self.config_unit.may_send.val();
        // The analysis makes the words of its own records, so it gets the same request.
        self.analysis.held.next = self.block_writer.words.kind.val();
        self.analysis.word.next = self.block_writer.words.index.val();

        self.other_words.analysis_high.next = self.analysis.high.val();
        self.other_words.analysis_low.next = self.analysis.low.val();
        self.other_words.settings.next = self.config_unit.settings.val();
        self.other_words.slices.next = self.config_unit.slices.val();
        self.other_words.running.next = self.config_unit.running.val();
        self.other_words.totals.next = self.totals.totals.val();
        self.other_words.slice_counts.next = self.frequency.counts.val();
        // The analysis passes a record on when the traces have none.
        self.block_writer.record.next = self.traces.record.val();
        self.block_writer.offered.next = self.traces.offers.val();
        self.analysis.taken.next = false;
        if self.analysis.offers.val() & self.traces.no_release.val() {
            self.block_writer.offered.next = true;
            self.block_writer.record.next.kind = self.analysis.record_kind.val();
            self.analysis.taken.next = self.block_writer.advance.val();
        }
        self.block_writer.settings.next = self.config_unit.settings.val();
        self.block_writer.now.next = self.timekeeper.now.val();
        self.block_writer.slice_accesses.next = self.frequency.accesses.val();
        self.block_writer.slice_partial.next = self.frequency.counts.val().partial;
        WordReader::join(&mut self.block_writer.words, &mut self.other_words.words);
        self.block_writer.space_available.next = self.packet_fifo.space_available.val();
        FifoWriter::<N>::join(&mut self.block_writer.write, &mut self.packet_fifo.write);

        FifoReader::<N>::join(&mut self.tx_thread.read, &mut self.packet_fifo.read);
        self.ddr_restart.lost.next = self.clock_watch.lost.val();
        self.ddr_restart.changed.next = self.clock_watch.changed.val();
        self.ddr_restart.crossed.next = self.packet_fifo.available.val();
        self.ddr_restart.drained.next = self.tx_thread.drained.val();
        self.tx_thread.available.next = self.ddr_restart.available.val();
        self.tx_thread.rewind.next = self.ddr_restart.clears.val();
        self.heartbeat.lost.next = self.clock_watch.lost.val();
        BeatSink::join(&mut self.tx_thread.beat, &mut self.heartbeat.beat);
        OctetSource::join(&mut self.tx_thread.octets, &mut self.gmac.octets);
        self.gmii_txd.next = self.gmac.txd.val();
        self.gmii_tx_en.next = self.gmac.tx_en.val();
        self.gmii_tx_er.next = false;

        self.capturing.next = bits::<8>(0);
        if self.config_unit.running.val() {
            self.capturing.next = self.led_capturing.val();
        }
        self.losing.next = bits::<8>(0);
        if self.block_writer.lossy.val() {
            self.losing.next = self.led_losing.val();
        }
        self.sending.next = bits::<8>(0);
        if self.heartbeat.link_led.val() {
            self.sending.next = self.led_sending.val();
        }
        self.clock_lost.next = bits::<8>(0);
        if self.clock_watch.lost.val() {
            self.clock_lost.next = self.led_clock_lost.val();
        }
        self.led.next = (self.capturing.val() | self.losing.val())
            | (self.sending.val() | self.clock_lost.val());
    }
}

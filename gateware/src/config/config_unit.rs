//! Configuration unit (CU): passes events on as items, and carries out requests of events and
//! commands.
//!
//! Accesses and faults pass, one in each clock ([`super::event_intake`]). A control event (run
//! switch, end of a slice, tick) first becomes an item with its time and with the count of missed
//! events before it. Then the unit waits until all earlier items have left the statistics unit, and
//! takes the steps that [`super::plan`] chooses:
//!
//! ```text
//! flush the waiting record -> end the slice -> request a dump -> pass a record on -> wait -> apply -> start
//! ```
//!
//! A completed command takes the same steps. While the capture is stopped, commands are carried
//! out, but nothing is recorded. Settings change only after all records of the old settings have
//! been framed. Dumps of the analysis are sent while items pass; this unit does not wait for them.
//!
//! ```text
//! State             waits for                               next
//! AwaitControl      a control event, a command              AwaitDrained
//! AwaitDrained      empty stages of the traces              Choose
//! Choose                                                    AwaitFlush; a mark or a lost command: AwaitDrained;
//!                                                           nothing is due: AwaitControl
//! AwaitFlush        the block writer, if a record waits     AwaitSkip
//! AwaitSkip         the block writer, after long silence    AwaitSlice
//! AwaitSlice        the block writer, if a slice has ended  AwaitSliceCopied; without a slice: Dump
//! AwaitSliceCopied  the block writer                        Dump
//! Dump                                                      AwaitRecord
//! AwaitRecord       the block writer                        AwaitIdle
//! AwaitIdle         closed blocks, if the step requires it  Apply
//! Apply                                                     Choose; to start: AwaitStart
//! AwaitStart        the block writer                        AwaitDrained
//! ```

use hmtt_format::{MemoryDescription, config};
use rust_hdl::prelude::*;

use super::event_intake::EventIntake;
use super::plan::Plan;
use super::settings::SettingsRegister;
use super::{Item, ItemKind, Progress, Requests, Settings};
use crate::ddr::event_ports::EventReader;
use crate::ddr::event_queue::COMMAND_LOST_AT;
use crate::record::RecordKind;
use crate::reset::{ClearedRegister, Domain, Register};
use crate::table::Table;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    AwaitControl,
    AwaitDrained,
    Choose,
    AwaitFlush,
    AwaitSkip,
    AwaitSlice,
    AwaitSliceCopied,
    Dump,
    AwaitRecord,
    AwaitIdle,
    Apply,
    AwaitStart,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct ConfigUnit {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Events, from the queue.
    pub events: EventReader,
    /// Strap pins, in the layout of [`super::settings::straps`].
    pub straps: Signal<In, Bits<16>>,
    /// Next item, unchanged until `advance`; `Nothing` when there is none.
    pub item: Signal<Out, Item>,
    /// The item is taken on this clock.
    pub advance: Signal<In, Bit>,
    /// State of the units behind.
    pub progress: Signal<In, Progress>,
    /// Requests to the units behind.
    pub requests: Signal<Out, Requests>,
    /// Settings in force.
    pub settings: Signal<Out, Settings>,
    /// The capture runs.
    pub running: Signal<Out, Bit>,
    /// Time slices are on.
    pub slices: Signal<Out, Bit>,
    /// Clocks of a time slice, less one.
    pub slice_last: Signal<Out, Bits<32>>,
    /// The length of slices has changed.
    pub slice_restart: Signal<Out, Bit>,
    /// The configuration unit requests nothing, so the analysis may pass records on. The signal
    /// rises a clock late, and falls some clocks before a request.
    pub may_send: Signal<Out, Bit>,
    intake: EventIntake,
    plan: Plan,
    register: SettingsRegister,
    slice_table: Table<5, 32>,
    slice_length: ClearedRegister<Bits<32>>,
    slices_on: Register<Bit>,
    state: Register<State>,
    takes_events: Register<Bit>,
    /// `state` is `Choose`; decoded a clock ahead.
    chooses: Register<Bit>,
    requested: ClearedRegister<Requests>,
    may_send_next: Register<Bit>,
    free: Signal<Local, Bit>,
    choose: Signal<Local, Bit>,
    request_done: Signal<Local, Bit>,
    analysed: Signal<Local, Bit>,
    event_high: Signal<Local, Bits<8>>,
    frequency_mode: Constant<Bits<2>>,
    analysis_mode: Constant<Bits<2>>,
    command_lost_at: Constant<Bits<3>>,
}

impl ConfigUnit {
    /// Builds the unit for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let lengths = (0..32).map(|code| config::slice_clocks(code, memory.tck_ps) - 1);
        block! {
            Self {
                intake: EventIntake::new(memory),
                slice_table: Table::new(lengths.map(u64::from)),
                frequency_mode: Constant::new((config::Mode::Frequency as u64).into()),
                analysis_mode: Constant::new((config::Mode::Analysis as u64).into()),
                command_lost_at: Constant::new(COMMAND_LOST_AT.into()),
            }
            default: clock, events, straps, item, advance, progress, requests, settings, running,
                slices, slice_last, slice_restart, may_send, plan, register, slice_length,
                slices_on, state, takes_events, chooses, requested, may_send_next, free, choose,
                request_done, analysed, event_high
        }
    }
}

impl Logic for ConfigUnit {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            slice_length,
            slices_on,
            state,
            takes_events,
            chooses,
            requested,
            may_send_next
        );
        clock!(self, clock, intake, plan, register);
        self.register.straps.next = self.straps.val();
        self.register.register.next = self.intake.register.val();
        self.register.apply.next = false;
        self.register.restore.next = false;
        self.settings.next = self.register.settings.val();
        self.running.next = self.plan.running.val();
        self.slice_table.index.next = self.register.settings.val().slice;
        self.slice_length.d.next = self.slice_table.word.val();
        self.slice_last.next = self.slice_length.q.val();
        self.slice_restart.next = false;
        self.slices_on.d.next = self.register.settings.val().frequency
            | (self.register.settings.val().mode == self.frequency_mode.val());
        self.slices.next = self.slices_on.q.val();

        // Items pass until an event steers the card or a command is completed.
        EventReader::link(&mut self.events, &mut self.intake.events);
        self.intake.takes_events.next = self.takes_events.q.val();
        self.intake.advance.next = self.advance.val();
        self.choose.next = self.chooses.q.val() & !self.intake.may_report_loss.val();
        self.request_done.next = self.choose.val() & self.plan.done.val();
        self.intake.request_done.next = self.request_done.val();
        self.intake.mark.next = self.choose.val() & self.plan.marks.val() & self.plan.running.val();
        self.item.next = self.intake.item.val();
        self.event_high.next = self.events.head.val().high;
        // `take` and `complete` arrive last, so they are used last.
        self.takes_events.d.next = (self.takes_events.q.val() & !self.plan.end_due.val())
            | (self.request_done.val() & !self.intake.loss_pending.val());
        if self.events.pop.val()
            & (self.events.head.val().is_control
                | (self.events.head.val().overrun
                    & self.event_high.val().get_bit(self.command_lost_at.val().index())))
        {
            self.takes_events.d.next = false;
        }
        self.intake.running.next = self.plan.running.val();
        self.intake.report_loss.next = self.chooses.q.val() & self.intake.may_report_loss.val();
        if self.intake.complete.val() {
            self.takes_events.d.next = false;
        }

        self.plan.slot_event.next = self.events.head.val();
        self.plan.take.next = self.events.pop.val();
        self.plan.complete.next = self.intake.complete.val();
        self.plan.is_mark.next = self.register.is_mark.val();
        self.plan.is_start.next = self.register.is_start.val();
        self.plan.is_stop.next = self.register.is_stop.val();
        self.plan.is_reset.next = self.register.is_reset.val();
        self.plan.changes.next = self.register.changes.val();
        self.plan.interval.next = self.progress.val().interval;
        self.plan.dumped.next = self.progress.val().dumped;
        self.analysed.next = self.register.settings.val().analysis
            | (self.register.settings.val().mode == self.analysis_mode.val());
        self.plan.analysed.next = self.analysed.val();
        self.may_send_next.d.next = self.state.q.val() == State::AwaitControl;
        self.may_send.next = self.may_send_next.q.val();
        self.plan.choose.next = self.choose.val();
        self.plan.resume.next = false;

        // A request arrives a clock late, so the next request waits until then.
        self.requests.next = self.requested.q.val();
        self.free.next = self.progress.val().free
            & !self.requested.q.val().flush
            & (self.requested.q.val().record_kind == RecordKind::Nothing);
        self.requested.d.next.flush = false;
        self.requested.d.next.record_kind = RecordKind::Nothing;
        self.requested.d.next.restart_slice = false;
        self.requested.d.next.restart_time = false;
        self.requested.d.next.dump = false;
        self.requested.d.next.dump_all = self.plan.steps.val().record_kind != RecordKind::Tick;
        self.chooses.d.next = false;
        match self.state.q.val() {
            State::AwaitControl => {
                // After power-on no event is taken, and nothing is due.
                if !self.takes_events.q.val() {
                    self.state.d.next = State::AwaitDrained;
                }
            }
            State::AwaitDrained => {
                if self.progress.val().drained & (self.intake.item.val().kind == ItemKind::Nothing)
                {
                    self.chooses.d.next = true;
                    self.state.d.next = State::Choose;
                }
            }
            State::Choose => {
                self.state.d.next = State::AwaitFlush;
                if self.intake.may_report_loss.val() | self.plan.marks.val() {
                    self.state.d.next = State::AwaitDrained;
                } else if self.plan.done.val() {
                    self.state.d.next = State::AwaitControl;
                }
            }
            State::AwaitFlush => {
                self.state.d.next = State::AwaitSkip;
                if self.progress.val().waiting
                    & (self.plan.steps.val().flush
                        | (self.plan.steps.val().flush_stale & self.progress.val().stale))
                {
                    self.requested.d.next.flush = self.free.val();
                    if !self.free.val() {
                        self.state.d.next = State::AwaitFlush;
                    }
                }
            }
            State::AwaitSkip => {
                self.state.d.next = State::AwaitSlice;
                if self.plan.steps.val().record_silence & self.progress.val().silent {
                    if self.free.val() {
                        self.requested.d.next.record_kind = RecordKind::Skip;
                        self.requested.d.next.restart_time = true;
                    } else {
                        self.state.d.next = State::AwaitSkip;
                    }
                }
            }
            State::AwaitSlice => {
                self.state.d.next = State::Dump;
                if self.plan.steps.val().end_slice {
                    if self.slices_on.q.val() & self.progress.val().counted {
                        self.state.d.next = State::AwaitSlice;
                        if self.free.val() {
                            self.requested.d.next.record_kind = RecordKind::Slice;
                            self.state.d.next = State::AwaitSliceCopied;
                        }
                    } else {
                        self.requested.d.next.restart_slice = true;
                    }
                }
            }
            State::AwaitSliceCopied => {
                // The block writer reads the counts of the slice, so they restart afterwards.
                if self.free.val() {
                    self.requested.d.next.restart_slice = true;
                    self.state.d.next = State::Dump;
                }
            }
            State::Dump => {
                self.state.d.next = State::AwaitRecord;
                self.requested.d.next.dump = self.plan.steps.val().dump & self.analysed.val();
            }
            State::AwaitRecord => {
                if self.free.val() {
                    self.requested.d.next.record_kind = self.plan.steps.val().record_kind;
                    self.state.d.next = State::AwaitIdle;
                }
            }
            State::AwaitIdle => {
                // `idle` does not show a record that was just requested. Before the end is
                // recorded, the open block contains only results of the analysis, which no setting
                // changes.
                if (self.free.val() & (self.progress.val().idle | self.plan.end_pending.val()))
                    | !self.plan.steps.val().await_idle
                {
                    self.state.d.next = State::Apply;
                }
            }
            State::Apply => {
                self.register.apply.next = self.plan.steps.val().apply;
                self.register.restore.next =
                    self.plan.steps.val().apply & self.register.is_reset.val();
                self.slice_restart.next = self.plan.steps.val().apply
                    & (self.register.changes_slice.val() | self.register.is_reset.val());
                self.state.d.next = State::Choose;
                self.chooses.d.next = !self.plan.steps.val().resume;
                if self.plan.steps.val().resume {
                    self.state.d.next = State::AwaitStart;
                }
            }
            State::AwaitStart => {
                if self.free.val() {
                    self.plan.resume.next = true;
                    self.requested.d.next.record_kind = RecordKind::Start;
                    self.requested.d.next.restart_time = true;
                    self.requested.d.next.restart_slice = true;
                    self.state.d.next = State::AwaitDrained;
                }
            }
            _ => {
                self.state.d.next = State::AwaitControl;
            }
        }
    }
}

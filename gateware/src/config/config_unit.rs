//! Configuration unit (CU): passes events on as items, and carries out requests of events and commands.
//!
//! Accesses and faults pass, one in each clock ([`super::event_intake`]). An event that steers the card (run switch,
//! end of a slice, tick) first becomes an item with its time and with the count of missed events before it. Then the
//! unit waits until all earlier items have left the statistics unit, and takes the steps that [`super::plan`]
//! chooses:
//!
//! ```text
//! flush the waiting record -> end the slice -> request a dump -> inform the block writer -> settle -> apply -> start
//! ```
//!
//! A completed command takes the same steps. While the capture is stopped, commands are carried out, but nothing is
//! recorded. Settings change only after all records of the old settings have been framed. Dumps of the analysis are
//! sent while items pass; nothing here waits for them.
//!
//! ```text
//! State      waits for                           next
//! Flow       an event that steers, a command     Drain
//! Drain      empty stages                        Choose
//! Choose                                         Flush; a mark or a lost command: Drain; nothing is due: Flow
//! Flush      the block writer, with a record     Silence
//! Silence    the block writer, after silence     Slice
//! Slice      the block writer, with a slice      SliceTold; without a slice: Dump
//! SliceTold  the block writer                    Dump
//! Dump                                           Tell
//! Tell       the block writer                    Settle
//! Settle     closed blocks, if the step asks it  Apply
//! Apply                                          Choose; to start: Resume
//! Resume     the block writer                    Drain
//! ```

use hmtt_format::{MemoryDescription, config};
use rust_hdl::prelude::*;

use super::event_intake::EventIntake;
use super::plan::Plan;
use super::settings::SettingsRegister;
use super::steering::{Progress, Steering};
use super::{Item, ItemKind, Settings};
use crate::ddr::event_ports::EventReader;
use crate::ddr::event_queue::COMMAND_LOST_AT;
use crate::record::RecordKind;
use crate::reset::{ClearedRegister, Domain, Register};
use crate::table::Table;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    Flow,
    Drain,
    Choose,
    Flush,
    Silence,
    Slice,
    SliceTold,
    Dump,
    Tell,
    Settle,
    Apply,
    Resume,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct ConfigUnit {
    /// DDR clock.
    pub clock: Signal<In, Domain>,
    /// Events, from the queue.
    pub events: EventReader,
    /// Strap pins.
    pub straps: Signal<In, Bits<16>>,
    /// The item; `Nothing` when there is none.
    pub item: Signal<Out, Item>,
    /// The item passes on this clock.
    pub advance: Signal<In, Bit>,
    /// State of the units behind.
    pub progress: Signal<In, Progress>,
    /// Requests to the units behind.
    pub steering: Signal<Out, Steering>,
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
    /// Nothing is requested of the units behind, so others may pass records on. A clock late, and ends some clocks
    /// before a request.
    pub flowing: Signal<Out, Bit>,
    intake: EventIntake,
    plan: Plan,
    register: SettingsRegister,
    slice_table: Table<5, 32>,
    slice_length: ClearedRegister<Bits<32>>,
    sliced: Register<Bit>,
    state: Register<State>,
    flows: Register<Bit>,
    /// `state` is `Choose`; decoded a clock ahead.
    chooses: Register<Bit>,
    asked: ClearedRegister<Steering>,
    may_flow: Register<Bit>,
    free: Signal<Local, Bit>,
    choose: Signal<Local, Bit>,
    let_go: Signal<Local, Bit>,
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
            default: clock, events, straps, item, advance, progress, steering,
                settings, running, slices, slice_last, slice_restart, flowing, plan, register,
                slice_length, sliced, state, flows, chooses, asked, may_flow, free, choose, let_go,
                analysed, event_high
        }
    }
}

impl Logic for ConfigUnit {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, slice_length, sliced, state, flows, chooses, asked, may_flow);
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
        self.sliced.d.next = self.register.settings.val().frequency
            | (self.register.settings.val().mode == self.frequency_mode.val());
        self.slices.next = self.sliced.q.val();

        // Items pass until an event steers the card or a command is completed.
        EventReader::link(&mut self.events, &mut self.intake.events);
        self.intake.flows.next = self.flows.q.val();
        self.intake.advance.next = self.advance.val();
        self.choose.next = self.chooses.q.val() & !self.intake.may_tell.val();
        self.let_go.next = self.choose.val() & self.plan.done.val();
        self.intake.let_go.next = self.let_go.val();
        self.intake.mark.next = self.choose.val() & self.plan.marks.val() & self.plan.running.val();
        self.item.next = self.intake.item.val();
        self.event_high.next = self.events.head.val().high;
        // `take` and `complete` arrive last, so they are used last.
        self.flows.d.next = (self.flows.q.val() & !self.plan.ends.val())
            | (self.let_go.val() & !self.intake.owes.val());
        if self.events.pop.val()
            & (self.events.head.val().steers
                | (self.events.head.val().overrun
                    & self.event_high.val().get_bit(self.command_lost_at.val().index())))
        {
            self.flows.d.next = false;
        }
        self.intake.running.next = self.plan.running.val();
        self.intake.tell_loss.next = self.chooses.q.val() & self.intake.may_tell.val();
        if self.intake.complete.val() {
            self.flows.d.next = false;
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
        self.may_flow.d.next = self.state.q.val() == State::Flow;
        self.flowing.next = self.may_flow.q.val();
        self.plan.choose.next = self.choose.val();
        self.plan.resume.next = false;

        // A request arrives a clock late, so the next one waits.
        self.steering.next = self.asked.q.val();
        self.free.next = self.progress.val().free
            & !self.asked.q.val().flush
            & (self.asked.q.val().tell == RecordKind::Nothing);
        self.asked.d.next.flush = false;
        self.asked.d.next.tell = RecordKind::Nothing;
        self.asked.d.next.restart_slice = false;
        self.asked.d.next.restart_time = false;
        self.asked.d.next.dump = false;
        self.asked.d.next.dump_all = self.plan.steps.val().tell != RecordKind::Tick;
        self.chooses.d.next = false;
        match self.state.q.val() {
            State::Flow => {
                // After power-on the flow is stopped, and nothing is due.
                if !self.flows.q.val() {
                    self.state.d.next = State::Drain;
                }
            }
            State::Drain => {
                if self.progress.val().drained & (self.intake.item.val().kind == ItemKind::Nothing)
                {
                    self.chooses.d.next = true;
                    self.state.d.next = State::Choose;
                }
            }
            State::Choose => {
                self.state.d.next = State::Flush;
                if self.intake.may_tell.val() | self.plan.marks.val() {
                    self.state.d.next = State::Drain;
                } else if self.plan.done.val() {
                    self.state.d.next = State::Flow;
                }
            }
            State::Flush => {
                self.state.d.next = State::Silence;
                if self.progress.val().waiting
                    & (self.plan.steps.val().flush
                        | (self.plan.steps.val().flush_stale & self.progress.val().stale))
                {
                    self.asked.d.next.flush = self.free.val();
                    if !self.free.val() {
                        self.state.d.next = State::Flush;
                    }
                }
            }
            State::Silence => {
                self.state.d.next = State::Slice;
                if self.plan.steps.val().silence & self.progress.val().silent {
                    if self.free.val() {
                        self.asked.d.next.tell = RecordKind::Skip;
                        self.asked.d.next.restart_time = true;
                    } else {
                        self.state.d.next = State::Silence;
                    }
                }
            }
            State::Slice => {
                self.state.d.next = State::Dump;
                if self.plan.steps.val().end_slice {
                    if self.sliced.q.val() & self.progress.val().counted {
                        self.state.d.next = State::Slice;
                        if self.free.val() {
                            self.asked.d.next.tell = RecordKind::Slice;
                            self.state.d.next = State::SliceTold;
                        }
                    } else {
                        self.asked.d.next.restart_slice = true;
                    }
                }
            }
            State::SliceTold => {
                // The block writer reads the counts of the slice, so they restart afterwards.
                if self.free.val() {
                    self.asked.d.next.restart_slice = true;
                    self.state.d.next = State::Dump;
                }
            }
            State::Dump => {
                self.state.d.next = State::Tell;
                self.asked.d.next.dump = self.plan.steps.val().dump & self.analysed.val();
            }
            State::Tell => {
                if self.free.val() {
                    self.asked.d.next.tell = self.plan.steps.val().tell;
                    self.state.d.next = State::Settle;
                }
            }
            State::Settle => {
                // `idle` does not show a record that was just requested. Before the end is recorded, the open block
                // contains only results of the analysis, which no setting changes.
                if (self.free.val() & (self.progress.val().idle | self.plan.unended.val()))
                    | !self.plan.steps.val().settle
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
                    self.state.d.next = State::Resume;
                }
            }
            State::Resume => {
                if self.free.val() {
                    self.plan.resume.next = true;
                    self.asked.d.next.tell = RecordKind::Start;
                    self.asked.d.next.restart_time = true;
                    self.asked.d.next.restart_slice = true;
                    self.state.d.next = State::Drain;
                }
            }
            _ => {
                self.state.d.next = State::Flow;
            }
        }
    }
}

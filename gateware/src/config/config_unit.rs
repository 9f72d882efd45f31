//! Configuration unit (CU): events to items, carrying out what events and command sequences ask.
//!
//! Accesses and faults flow on, one a clock. An event that steers the card (run switch, end of a slice,
//! tick) first lets the time it came at pass on, with the count of what was missed before it, waits until everything recorded before has left the
//! statistics unit's pipeline, and is then carried out step by step:
//!
//! ```text
//! flush what waits -> end the slice -> dump the analysis -> tell the framer -> settle -> apply -> start
//! ```
//!
//! A completed command takes the same steps. While the capture is stopped accesses still count towards
//! sequences, but nothing is recorded. Settings change only after everything seen under the old ones
//! has been framed.

use hmtt_format::{MemoryDescription, config};
use rust_hdl::prelude::*;

use super::sequence::Sequence;
use super::settings::SettingsRegister;
use super::{Item, ItemKind, Settings};
use crate::ddr::SlotEvent;
use crate::statistics::RecordKind;
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
    Dumping,
    Tell,
    Settle,
    Apply,
    Resume,
}

/// Which steps an event or command takes.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Steps {
    flush: Bit,
    flush_stale: Bit,
    silence: Bit,
    end_slice: Bit,
    dump: Bit,
    tell: RecordKind,
    settle: Bit,
    apply: Bit,
    resume: Bit,
}

/// What the statistics unit and the framer say of themselves.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Progress {
    /// No item is on its way to the traces.
    pub drained: Bit,
    /// A record waits in a trace.
    pub waiting: Bit,
    /// It can take no more accesses.
    pub stale: Bit,
    /// A long time has passed since the last record, and none waits.
    pub silent: Bit,
    /// The slice holds an access.
    pub counted: Bit,
    /// The framer can take a record on this clock.
    pub free: Bit,
    /// The framer has no record and no open block.
    pub idle: Bit,
    /// The analysis has been dumped.
    pub dumped: Bit,
    /// An interval of the analysis has ended.
    pub interval: Bit,
}

/// What the configuration unit asks of the statistics unit, for one clock.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Steering {
    /// Hand on the waiting record.
    pub flush: Bit,
    /// Hand on a record of this kind.
    pub tell: RecordKind,
    /// Begin a slice now.
    pub restart_slice: Bit,
    /// Time is told anew: nothing has passed since the last record.
    pub restart_time: Bit,
    /// Dump the analysis: the part whose turn it is.
    pub dump: Bit,
    /// With `dump`: everything.
    pub dump_all: Bit,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct ConfigUnit {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// Oldest event.
    pub slot_event: Signal<In, SlotEvent>,
    /// There is one.
    pub event_valid: Signal<In, Bit>,
    /// It has been dealt with.
    pub pop: Signal<Out, Bit>,
    /// Strap pins.
    pub straps: Signal<In, Bits<16>>,
    /// The item; `Nothing` when there is none.
    pub item: Signal<Out, Item>,
    /// The item passes on this clock.
    pub advance: Signal<In, Bit>,
    /// How far the units behind are.
    pub progress: Signal<In, Progress>,
    /// What they shall do.
    pub steering: Signal<Out, Steering>,
    /// Settings in force.
    pub settings: Signal<Out, Settings>,
    /// The capture runs.
    pub running: Signal<Out, Bit>,
    /// Time slices are wanted.
    pub slices: Signal<Out, Bit>,
    /// Clocks of a time slice, less one.
    pub slice_last: Signal<Out, Bits<32>>,
    /// The length of slices has changed.
    pub slice_restart: Signal<Out, Bit>,
    detector: Sequence,
    register: SettingsRegister,
    slice_table: Table<5, 32>,
    slice_length: DFF<Bits<32>>,
    sliced: DFF<Bit>,
    state: DFF<State>,
    steps: DFF<Steps>,
    made: DFF<Item>,
    command: DFF<Bits<9>>,
    command_due: DFF<Bit>,
    run_due: DFF<Bit>,
    run_level: DFF<Bit>,
    slice_due: DFF<Bit>,
    tick_due: DFF<Bit>,
    flows: DFF<Bit>,
    steered: DFF<Bit>,
    left_kind: DFF<ItemKind>,
    left_in_registers: DFF<Bit>,
    switched_on: DFF<Bit>,
    stopped: DFF<Bit>,
    runs: DFF<Bit>,
    asked: DFF<Steering>,
    free: Signal<Local, Bit>,
    event_kind: Signal<Local, ItemKind>,
    take: Signal<Local, Bit>,
    frequency_mode: Constant<Bits<2>>,
}

impl ConfigUnit {
    /// The unit for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let lengths = (0..32).map(|code| config::slice_clocks(code, memory.tck_ps) - 1);
        Self {
            clock: Default::default(),
            slot_event: Default::default(),
            event_valid: Default::default(),
            pop: Default::default(),
            straps: Default::default(),
            item: Default::default(),
            advance: Default::default(),
            progress: Default::default(),
            steering: Default::default(),
            settings: Default::default(),
            running: Default::default(),
            slices: Default::default(),
            slice_last: Default::default(),
            slice_restart: Default::default(),
            detector: Sequence::new(memory),
            register: Default::default(),
            slice_table: Table::new(lengths.map(u64::from)),
            slice_length: Default::default(),
            sliced: Default::default(),
            state: Default::default(),
            steps: Default::default(),
            made: Default::default(),
            command: Default::default(),
            command_due: Default::default(),
            run_due: Default::default(),
            run_level: Default::default(),
            slice_due: Default::default(),
            tick_due: Default::default(),
            flows: Default::default(),
            steered: Default::default(),
            left_kind: Default::default(),
            left_in_registers: Default::default(),
            switched_on: Default::default(),
            stopped: Default::default(),
            runs: Default::default(),
            asked: Default::default(),
            free: Default::default(),
            event_kind: Default::default(),
            take: Default::default(),
            frequency_mode: Constant::new((config::Mode::Frequency as u64).into()),
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
            sliced,
            state,
            steps,
            made,
            command,
            command_due,
            run_due,
            run_level,
            slice_due,
            tick_due,
            flows,
            steered,
            left_kind,
            left_in_registers,
            switched_on,
            stopped,
            runs,
            asked
        );
        clock!(self, clock, detector, register);
        self.register.straps.next = self.straps.val();
        self.register.register.next = self.command.q.val();
        self.register.apply.next = false;
        self.register.restore.next = false;
        self.settings.next = self.register.settings.val();
        self.running.next = self.runs.q.val();
        self.slice_table.index.next = self.register.settings.val().slice;
        self.slice_length.d.next = self.slice_table.word.val();
        self.slice_last.next = self.slice_length.q.val();
        self.slice_restart.next = false;
        self.sliced.d.next = self.register.settings.val().frequency
            | (self.register.settings.val().mode == self.frequency_mode.val());
        self.slices.next = self.sliced.q.val();

        // Items flow unless an event steers or a command may just have been completed. An event that
        // steers lets its time pass first, and what was missed before it; what else it holds follows
        // when it has been carried out.
        self.take.next = self.flows.q.val()
            & self.event_valid.val()
            & self.advance.val()
            & !self.made.q.val().in_registers;
        self.pop.next = self.take.val();
        self.event_kind.next = ItemKind::Time;
        if self.slot_event.val().access {
            self.event_kind.next = ItemKind::Access;
        }
        if self.slot_event.val().fault {
            self.event_kind.next = ItemKind::Fault;
        }
        if self.advance.val() {
            self.made.d.next.kind = ItemKind::Nothing;
            self.made.d.next.in_registers = false;
        }
        if self.take.val() {
            self.made.d.next.write = self.slot_event.val().write;
            self.made.d.next.low = self.slot_event.val().low;
            self.made.d.next.high = self.slot_event.val().high;
            self.made.d.next.row_state = self.slot_event.val().row_state;
            self.made.d.next.bank = self.slot_event.val().bank;
            self.made.d.next.gap = self.slot_event.val().gap;
            self.made.d.next.kind = self.event_kind.val();
            self.made.d.next.in_registers = self.slot_event.val().in_registers;
            self.left_kind.d.next = self.event_kind.val();
            self.left_in_registers.d.next = self.slot_event.val().in_registers;
            self.run_due.d.next = self.slot_event.val().run_change;
            self.run_level.d.next = self.slot_event.val().run;
            self.slice_due.d.next = self.slot_event.val().slice;
            self.tick_due.d.next = self.slot_event.val().tick;
            self.steered.d.next = self.slot_event.val().steers;
            if self.slot_event.val().steers {
                self.made.d.next.kind = ItemKind::Time;
                self.made.d.next.in_registers = false;
                self.flows.d.next = false;
            }
            if self.slot_event.val().overrun {
                self.made.d.next.kind = ItemKind::Overrun;
            }
        }
        self.detector.passes.next =
            self.advance.val() & (self.made.q.val().kind != ItemKind::Nothing);
        self.detector.in_registers.next = self.made.q.val().in_registers;
        self.detector.low.next = self.made.q.val().low;
        self.detector.gap.next = self.made.q.val().gap;
        if self.made.q.val().in_registers {
            self.command.d.next = self.detector.register.val();
        }
        if self.detector.complete.val() {
            self.command_due.d.next = true;
            self.flows.d.next = false;
        }

        // What is asked arrives a clock late, so nothing more is asked meanwhile.
        self.steering.next = self.asked.q.val();
        self.free.next = self.progress.val().free
            & !self.asked.q.val().flush
            & (self.asked.q.val().tell == RecordKind::Nothing);
        self.asked.d.next.flush = false;
        self.asked.d.next.tell = RecordKind::Nothing;
        self.asked.d.next.restart_slice = false;
        self.asked.d.next.restart_time = false;
        self.asked.d.next.dump = false;
        self.asked.d.next.dump_all = self.steps.q.val().tell != RecordKind::Tick;
        match self.state.q.val() {
            State::Flow => {
                // The first event finds the flow stopped, and nothing to be done.
                if !self.flows.q.val() {
                    self.state.d.next = State::Drain;
                }
            }
            State::Drain => {
                if self.progress.val().drained & (self.made.q.val().kind == ItemKind::Nothing) {
                    self.state.d.next = State::Choose;
                }
            }
            State::Choose => {
                // Nothing is left to be done unless one of the causes below says so.
                self.steps.d.next.flush = false;
                self.steps.d.next.flush_stale = false;
                self.steps.d.next.silence = false;
                self.steps.d.next.end_slice = false;
                self.steps.d.next.dump = false;
                self.steps.d.next.tell = RecordKind::Nothing;
                self.steps.d.next.settle = false;
                self.steps.d.next.apply = false;
                self.steps.d.next.resume = false;
                self.state.d.next = State::Flush;
                if self.command_due.q.val() {
                    self.command_due.d.next = false;
                    if self.register.is_mark.val() {
                        self.state.d.next = State::Drain;
                        if self.runs.q.val() {
                            self.made.d.next.kind = ItemKind::Mark;
                            self.made.d.next.gap = bits::<16>(0);
                            self.made.d.next.low = bit_cast::<32, 9>(self.command.q.val());
                        }
                    } else if self.register.is_stop.val() | self.register.is_reset.val() {
                        self.steps.d.next.flush = self.runs.q.val();
                        self.steps.d.next.end_slice = self.runs.q.val();
                        self.steps.d.next.dump = self.runs.q.val();
                        self.steps.d.next.settle = true;
                        self.steps.d.next.apply = true;
                        self.stopped.d.next = true;
                        self.runs.d.next = false;
                        if self.runs.q.val() {
                            self.steps.d.next.tell = RecordKind::Stop;
                        }
                        if self.register.is_reset.val() {
                            self.stopped.d.next = false;
                            self.steps.d.next.resume = self.switched_on.q.val();
                        }
                    } else if self.register.changes.val() {
                        self.steps.d.next.flush = self.runs.q.val();
                        self.steps.d.next.end_slice = self.runs.q.val();
                        self.steps.d.next.dump = self.runs.q.val();
                        self.steps.d.next.settle = true;
                        self.steps.d.next.apply = true;
                        // A start, too: a report says what holds from here on.
                        self.steps.d.next.resume = self.runs.q.val();
                        if self.runs.q.val() {
                            self.steps.d.next.tell = RecordKind::Change;
                        }
                    } else if self.register.is_start.val() {
                        self.stopped.d.next = false;
                        self.steps.d.next.flush = self.runs.q.val();
                        self.steps.d.next.end_slice = self.runs.q.val();
                        self.steps.d.next.resume = self.switched_on.q.val();
                    }
                } else if self.run_due.q.val() {
                    self.run_due.d.next = false;
                    self.switched_on.d.next = self.run_level.q.val();
                    self.runs.d.next = false;
                    if self.run_level.q.val() {
                        self.steps.d.next.resume = !self.stopped.q.val();
                    } else if self.runs.q.val() {
                        self.steps.d.next.flush = true;
                        self.steps.d.next.end_slice = true;
                        self.steps.d.next.dump = true;
                        self.steps.d.next.tell = RecordKind::Stop;
                    }
                } else if self.slice_due.q.val() {
                    self.slice_due.d.next = false;
                    self.steps.d.next.end_slice = self.runs.q.val();
                } else if self.tick_due.q.val() {
                    self.tick_due.d.next = false;
                    if self.runs.q.val() {
                        self.steps.d.next.flush_stale = true;
                        self.steps.d.next.silence = true;
                        self.steps.d.next.dump = self.progress.val().interval;
                        self.steps.d.next.tell = RecordKind::Tick;
                    }
                } else {
                    self.flows.d.next = true;
                    self.state.d.next = State::Flow;
                    if self.steered.q.val() {
                        self.made.d.next.kind = self.left_kind.q.val();
                        self.made.d.next.in_registers = self.left_in_registers.q.val();
                        self.made.d.next.gap = bits::<16>(0);
                    }
                    self.steered.d.next = false;
                }
            }
            State::Flush => {
                self.state.d.next = State::Silence;
                if self.progress.val().waiting
                    & (self.steps.q.val().flush
                        | (self.steps.q.val().flush_stale & self.progress.val().stale))
                {
                    self.asked.d.next.flush = self.free.val();
                    if !self.free.val() {
                        self.state.d.next = State::Flush;
                    }
                }
            }
            State::Silence => {
                self.state.d.next = State::Slice;
                if self.steps.q.val().silence & self.progress.val().silent {
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
                if self.steps.q.val().end_slice {
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
                // The framer reads the slice where it is counted.
                if self.free.val() {
                    self.asked.d.next.restart_slice = true;
                    self.state.d.next = State::Dump;
                }
            }
            State::Dump => {
                self.state.d.next = State::Tell;
                if self.steps.q.val().dump
                    & (self.register.settings.val().analysis
                        | (self.register.settings.val().mode == 3))
                {
                    self.asked.d.next.dump = true;
                    self.state.d.next = State::Dumping;
                }
            }
            State::Dumping => {
                if self.progress.val().dumped {
                    self.state.d.next = State::Tell;
                }
            }
            State::Tell => {
                if self.free.val() {
                    self.asked.d.next.tell = self.steps.q.val().tell;
                    self.state.d.next = State::Settle;
                }
            }
            State::Settle => {
                // A record that was just asked for does not show in `idle` yet.
                if (self.progress.val().idle & self.free.val()) | !self.steps.q.val().settle {
                    self.state.d.next = State::Apply;
                }
            }
            State::Apply => {
                self.register.apply.next = self.steps.q.val().apply;
                self.register.restore.next =
                    self.steps.q.val().apply & self.register.is_reset.val();
                self.slice_restart.next = self.steps.q.val().apply
                    & (self.register.changes_slice.val() | self.register.is_reset.val());
                self.state.d.next = State::Choose;
                if self.steps.q.val().resume {
                    self.state.d.next = State::Resume;
                }
            }
            State::Resume => {
                if self.free.val() {
                    self.runs.d.next = true;
                    self.asked.d.next.tell = RecordKind::Start;
                    self.asked.d.next.restart_time = true;
                    self.asked.d.next.restart_slice = true;
                    self.state.d.next = State::Choose;
                }
            }
            _ => {
                self.state.d.next = State::Flow;
            }
        }
        self.item.next = self.made.q.val();
    }
}

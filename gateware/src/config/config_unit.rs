//! Configuration unit (CU): events to items, carrying out what command sequences ask.
//!
//! Takes one event at a time and hands on what it holds, in this order: run switch, end of slice,
//! tick, access or fault, completed command. While the capture is stopped accesses still count
//! towards sequences, but nothing is handed on. A command that changes settings first sends a
//! `Change` (or `Stop`) item after everything recorded so far and waits until `drained` says that it
//! has left the statistics unit, so a record is always made and framed under the settings it was
//! seen under.

use hmtt_format::{MemoryDescription, config};
use rust_hdl::prelude::*;

use super::sequence::Sequence;
use super::settings::SettingsRegister;
use super::{Item, ItemKind, Settings};
use crate::ddr::SlotEvent;
use crate::table::Table;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
enum State {
    Events,
    Command,
    Drain,
    Apply,
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
    /// The item was taken.
    pub taken: Signal<In, Bit>,
    /// Nothing is on its way behind this unit.
    pub drained: Signal<In, Bit>,
    /// Settings in force.
    pub settings: Signal<Out, Settings>,
    /// The capture runs.
    pub running: Signal<Out, Bit>,
    /// Time slices are wanted.
    pub slices: Signal<Out, Bit>,
    /// Slices are all there is to record.
    pub only_slices: Signal<Out, Bit>,
    /// Time slice code in force.
    pub slice_code: Signal<Out, Bits<5>>,
    /// Clocks of a time slice, less one.
    pub slice_last: Signal<Out, Bits<32>>,
    detector: Sequence,
    register: SettingsRegister,
    slice_table: Table<5, 32>,
    state: DFF<State>,
    made: DFF<Item>,
    command: DFF<Bits<9>>,
    clock_high: DFF<Bits<16>>,
    clock_low: DFF<Bits<32>>,
    switched_on: DFF<Bit>,
    stopped: DFF<Bit>,
    runs: DFF<Bit>,
    run_done: DFF<Bit>,
    slice_done: DFF<Bit>,
    tick_done: DFF<Bit>,
    done: Signal<Local, Bit>,
    free: Signal<Local, Bit>,
    looking: Signal<Local, Bit>,
    in_window: Signal<Local, Bit>,
    window_low: Signal<Local, Bits<32>>,
    window_rest: Signal<Local, Bits<32>>,
    high_now: Signal<Local, Bits<16>>,
    tag_shift: Constant<Bits<5>>,
    frequency_mode: Constant<Bits<2>>,
    start: Constant<Bits<9>>,
    stop: Constant<Bits<9>>,
    reset: Constant<Bits<9>>,
}

impl ConfigUnit {
    /// The unit for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let register = |number: u16| Constant::new(u64::from(number).into());
        let lengths = (0..32).map(|code| config::slice_clocks(code, memory.tck_ps) - 1);
        Self {
            clock: Default::default(),
            slot_event: Default::default(),
            event_valid: Default::default(),
            pop: Default::default(),
            straps: Default::default(),
            item: Default::default(),
            taken: Default::default(),
            drained: Default::default(),
            settings: Default::default(),
            running: Default::default(),
            slices: Default::default(),
            only_slices: Default::default(),
            slice_code: Default::default(),
            slice_last: Default::default(),
            detector: Sequence::new(memory),
            register: Default::default(),
            slice_table: Table::new(lengths.map(u64::from)),
            state: Default::default(),
            made: Default::default(),
            command: Default::default(),
            clock_high: Default::default(),
            clock_low: Default::default(),
            switched_on: Default::default(),
            stopped: Default::default(),
            runs: Default::default(),
            run_done: Default::default(),
            slice_done: Default::default(),
            tick_done: Default::default(),
            done: Default::default(),
            free: Default::default(),
            looking: Default::default(),
            in_window: Default::default(),
            window_low: Default::default(),
            window_rest: Default::default(),
            high_now: Default::default(),
            tag_shift: Constant::new(u64::from(memory.tag_window_log2).into()),
            frequency_mode: Constant::new((config::Mode::Frequency as u64).into()),
            start: register(config::START),
            stop: register(config::STOP),
            reset: register(config::RESET),
        }
    }
}

impl Logic for ConfigUnit {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            made,
            command,
            clock_high,
            clock_low,
            switched_on,
            stopped,
            runs,
            run_done,
            slice_done,
            tick_done
        );
        clock!(self, clock, detector, register);
        self.register.straps.next = self.straps.val();
        self.register.register.next = self.command.q.val();
        self.register.apply.next = false;
        self.register.restore.next = false;
        self.settings.next = self.register.settings.val();
        self.running.next = self.runs.q.val();
        self.slice_table.index.next = self.register.settings.val().slice;
        self.slice_code.next = self.register.settings.val().slice;
        self.only_slices.next = self.register.settings.val().mode == self.frequency_mode.val();
        self.slice_last.next = self.slice_table.word.val();
        self.slices.next = self.register.settings.val().frequency
            | (self.register.settings.val().mode == self.frequency_mode.val());

        // The clock's high bits: events come at least once a tick, so a smaller low part is a wrap.
        self.high_now.next = self.clock_high.q.val();
        if self.slot_event.val().clock < self.clock_low.q.val() {
            self.high_now.next = self.clock_high.q.val() + 1;
        }
        self.window_low.next = self.slot_event.val().low ^ self.register.settings.val().tag_low;
        self.window_rest.next = self.window_low.val();
        if self.register.settings.val().tag {
            self.window_rest.next = self.window_low.val() >> self.tag_shift.val();
        }
        self.in_window.next = self.register.settings.val().tag
            & (self.window_rest.val() == 0)
            & (self.slot_event.val().high == self.register.settings.val().tag_high);

        self.free.next = self.taken.val() | (self.made.q.val().kind == ItemKind::Nothing);
        self.looking.next = false;
        self.done.next = false;
        self.item.next = self.made.q.val();
        if self.taken.val() {
            self.made.d.next.kind = ItemKind::Nothing;
        }
        if self.free.val() & self.event_valid.val() {
            self.made.d.next.write = self.slot_event.val().write;
            self.made.d.next.high = self.slot_event.val().high;
            self.made.d.next.low = self.slot_event.val().low;
            self.made.d.next.clock = self.slot_event.val().clock;
            self.made.d.next.clock_high = self.high_now.val();
            match self.state.q.val() {
                State::Events => {
                    if self.slot_event.val().run_change & !self.run_done.q.val() {
                        self.run_done.d.next = true;
                        self.switched_on.d.next = self.slot_event.val().run;
                        self.runs.d.next = self.slot_event.val().run & !self.stopped.q.val();
                        if self.slot_event.val().run & !self.stopped.q.val() {
                            self.made.d.next.kind = ItemKind::Start;
                        } else if self.runs.q.val() {
                            self.made.d.next.kind = ItemKind::Stop;
                        }
                    } else if self.slot_event.val().slice & !self.slice_done.q.val() {
                        self.slice_done.d.next = true;
                        if self.runs.q.val() {
                            self.made.d.next.kind = ItemKind::Slice;
                        }
                    } else if self.slot_event.val().tick & !self.tick_done.q.val() {
                        self.tick_done.d.next = true;
                        if self.runs.q.val() {
                            self.made.d.next.kind = ItemKind::Tick;
                        }
                    } else if self.slot_event.val().access {
                        self.looking.next = true;
                        if self.runs.q.val() {
                            self.made.d.next.kind = ItemKind::Access;
                            if self.in_window.val() {
                                self.made.d.next.kind = ItemKind::WindowTag;
                            }
                        }
                        if self.detector.complete.val() {
                            self.command.d.next = self.detector.register.val();
                            self.state.d.next = State::Command;
                        } else {
                            self.done.next = true;
                        }
                    } else {
                        self.done.next = true;
                        if self.runs.q.val() & self.slot_event.val().fault {
                            self.made.d.next.kind = ItemKind::Fault;
                        }
                        if self.runs.q.val() & self.slot_event.val().overrun {
                            self.made.d.next.kind = ItemKind::Overrun;
                        }
                    }
                }
                State::Command => {
                    self.made.d.next.low = bit_cast::<32, 9>(self.command.q.val());
                    if self.register.is_mark.val() {
                        if self.runs.q.val() {
                            self.made.d.next.kind = ItemKind::Mark;
                        }
                        self.done.next = true;
                    } else if (self.command.q.val() == self.stop.val())
                        | (self.command.q.val() == self.reset.val())
                    {
                        if self.runs.q.val() {
                            self.made.d.next.kind = ItemKind::Stop;
                        }
                        self.runs.d.next = false;
                        self.stopped.d.next = true;
                        self.state.d.next = State::Drain;
                    } else if self.register.changes.val() {
                        if self.runs.q.val() {
                            self.made.d.next.kind = ItemKind::Change;
                        }
                        self.state.d.next = State::Drain;
                    } else if self.command.q.val() == self.start.val() {
                        self.state.d.next = State::Apply;
                    } else {
                        self.done.next = true;
                    }
                }
                State::Drain => {
                    if self.drained.val() & (self.made.q.val().kind == ItemKind::Nothing) {
                        self.state.d.next = State::Apply;
                    }
                }
                State::Apply => {
                    self.done.next = true;
                    self.register.apply.next = true;
                    if self.command.q.val() == self.reset.val() {
                        self.register.restore.next = true;
                    }
                    // A start, too, where settings changed: a report says what holds from here on.
                    if self.runs.q.val() {
                        self.made.d.next.kind = ItemKind::Start;
                    }
                    if (self.command.q.val() == self.start.val())
                        | (self.command.q.val() == self.reset.val())
                    {
                        self.stopped.d.next = false;
                        if self.switched_on.q.val() {
                            self.runs.d.next = true;
                            self.made.d.next.kind = ItemKind::Start;
                        }
                    }
                }
                _ => {
                    self.state.d.next = State::Events;
                }
            }
        }
        if self.done.val() {
            self.state.d.next = State::Events;
            self.clock_low.d.next = self.slot_event.val().clock;
            self.clock_high.d.next = self.high_now.val();
            self.run_done.d.next = false;
            self.slice_done.d.next = false;
            self.tick_done.d.next = false;
        }
        self.pop.next = self.done.val();
        self.detector.access.next = self.looking.val();
        self.detector.low.next = self.slot_event.val().low;
        self.detector.high.next = self.slot_event.val().high;
        self.detector.at.next = self.slot_event.val().clock;
    }
}

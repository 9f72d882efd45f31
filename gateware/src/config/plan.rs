//! What events and commands ask to the steps that carry it out, one after the other.
//!
//! Commands come before the run switch, that before the end of a slice and a tick: a command was
//! completed by an access before the event that stopped the flow. Whether the capture runs is known here,
//! since that decides which steps there are.
//!
//! A stop asks the analysis for its results, and the end is told once they have left, as an event of its
//! own, so that nothing waits for them. A start that comes first has the end told before it; the results
//! then follow in the new capture.
//!
//! What is due is summarised on the clock before, so that what acts on it is short; between an event and the first
//! choice, and between two choices, pass at least two clocks.
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_/4\_
//! take           <A >                    an event that steers
//! done       ~~~~~~~~~~~~\_______        a clock late; again once all it asks is chosen
//! choose                     <A >
//! steps                          <A .... until the next is chosen
//! ```

use rust_hdl::prelude::*;

use crate::ddr::SlotEvent;
use crate::reset::{Domain, Register};
use crate::statistics::RecordKind;

/// Which steps an event or command takes.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Steps {
    /// Hand on the record that waits.
    pub flush: Bit,
    /// Hand it on if it can take no more accesses.
    pub flush_stale: Bit,
    /// Tell of a long silence.
    pub silence: Bit,
    /// End the slice.
    pub end_slice: Bit,
    /// Ask for a dump of the analysis.
    pub dump: Bit,
    /// Tell the framer.
    pub tell: RecordKind,
    /// Wait until everything is framed.
    pub settle: Bit,
    /// Carry out the command.
    pub apply: Bit,
    /// Start the capture.
    pub resume: Bit,
}

/// See the module's description.
#[derive(LogicBlock, Default)]
pub struct Plan {
    /// DDR clock.
    pub clock: Signal<In, Domain>,
    /// Oldest event.
    pub slot_event: Signal<In, SlotEvent>,
    /// It is taken on this clock.
    pub take: Signal<In, Bit>,
    /// A command is completed; what it is, the ports below say by the time it is chosen.
    pub complete: Signal<In, Bit>,
    /// It is a software mark.
    pub is_mark: Signal<In, Bit>,
    /// Start.
    pub is_start: Signal<In, Bit>,
    /// Stop.
    pub is_stop: Signal<In, Bit>,
    /// Reset.
    pub is_reset: Signal<In, Bit>,
    /// It changes settings.
    pub changes: Signal<In, Bit>,
    /// An interval of the analysis has ended.
    pub interval: Signal<In, Bit>,
    /// The analysis is on.
    pub analysed: Signal<In, Bit>,
    /// No dump of the analysis is under way or asked for.
    pub dumped: Signal<In, Bit>,
    /// An end is to be told, and nothing is left to wait for.
    pub ends: Signal<Out, Bit>,
    /// An end is still to be told: the framer's block stays open.
    pub unended: Signal<Out, Bit>,
    /// Choose what is carried out next.
    pub choose: Signal<In, Bit>,
    /// The capture runs from now on.
    pub resume: Signal<In, Bit>,
    /// What is to be carried out is a mark: no steps, but an item if the capture runs.
    pub marks: Signal<Out, Bit>,
    /// Nothing is left to be carried out.
    pub done: Signal<Out, Bit>,
    /// The steps of what was chosen.
    pub steps: Signal<Out, Steps>,
    /// The capture runs.
    pub running: Signal<Out, Bit>,
    chosen: Register<Steps>,
    command_due: Register<Bit>,
    run_due: Register<Bit>,
    run_level: Register<Bit>,
    slice_due: Register<Bit>,
    tick_due: Register<Bit>,
    switched_on: Register<Bit>,
    stopped: Register<Bit>,
    runs: Register<Bit>,
    /// The capture has stopped, and its end has not been told yet.
    ending: Register<Bit>,
    /// `marks`, `done` and `ends`, of the clock before.
    mark_due: Register<Bit>,
    nothing_due: Register<Bit>,
    may_end: Register<Bit>,
    ends_now: Signal<Local, Bit>,
    postpones: Signal<Local, Bit>,
    starts: Signal<Local, Bit>,
}

impl Logic for Plan {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            chosen,
            command_due,
            run_due,
            run_level,
            slice_due,
            tick_due,
            switched_on,
            stopped,
            runs,
            ending,
            mark_due,
            nothing_due,
            may_end
        );
        self.steps.next = self.chosen.q.val();
        self.running.next = self.runs.q.val();
        self.mark_due.d.next = self.command_due.q.val() & self.is_mark.val();
        self.marks.next = self.mark_due.q.val();
        self.ends_now.next = self.ending.q.val() & self.dumped.val();
        self.nothing_due.d.next = !(self.command_due.q.val()
            | self.run_due.q.val()
            | self.slice_due.q.val()
            | self.tick_due.q.val()
            | self.ends_now.val());
        self.done.next = self.nothing_due.q.val();
        self.may_end.d.next = self.ends_now.val();
        self.ends.next = self.may_end.q.val();
        self.unended.next = self.ending.q.val();
        self.postpones.next = self.analysed.val() | !self.dumped.val();
        self.starts.next = false;
        if self.take.val() {
            self.run_due.d.next = self.slot_event.val().run_change;
            self.run_level.d.next = self.slot_event.val().run;
            self.slice_due.d.next = self.slot_event.val().slice;
            self.tick_due.d.next = self.slot_event.val().tick;
        }
        if self.complete.val() {
            self.command_due.d.next = true;
        }
        if self.choose.val() {
            // Nothing is left to be done unless one of the causes below says so.
            self.chosen.d.next.flush = false;
            self.chosen.d.next.flush_stale = false;
            self.chosen.d.next.silence = false;
            self.chosen.d.next.end_slice = false;
            self.chosen.d.next.dump = false;
            self.chosen.d.next.tell = RecordKind::Nothing;
            self.chosen.d.next.settle = false;
            self.chosen.d.next.apply = false;
            self.chosen.d.next.resume = false;
            if self.command_due.q.val() {
                self.command_due.d.next = false;
                if self.is_stop.val() | self.is_reset.val() {
                    self.chosen.d.next.flush = self.runs.q.val();
                    self.chosen.d.next.end_slice = self.runs.q.val();
                    self.chosen.d.next.dump = self.runs.q.val();
                    self.chosen.d.next.settle = true;
                    self.chosen.d.next.apply = true;
                    self.stopped.d.next = true;
                    self.runs.d.next = false;
                    if self.runs.q.val() {
                        self.ending.d.next = self.postpones.val();
                        if !self.postpones.val() {
                            self.chosen.d.next.tell = RecordKind::Stop;
                        }
                    }
                    if self.is_reset.val() {
                        self.stopped.d.next = false;
                        self.starts.next = self.switched_on.q.val();
                        if self.runs.q.val() {
                            self.chosen.d.next.tell = RecordKind::Stop;
                        }
                    }
                } else if self.changes.val() {
                    self.chosen.d.next.flush = self.runs.q.val();
                    self.chosen.d.next.end_slice = self.runs.q.val();
                    self.chosen.d.next.settle = true;
                    self.chosen.d.next.apply = true;
                    // A start, too: a report says what holds from here on.
                    self.chosen.d.next.resume = self.runs.q.val();
                    if self.runs.q.val() {
                        self.chosen.d.next.tell = RecordKind::Change;
                    }
                } else if self.is_start.val() {
                    self.stopped.d.next = false;
                    self.chosen.d.next.flush = self.runs.q.val();
                    self.chosen.d.next.end_slice = self.runs.q.val();
                    self.starts.next = self.switched_on.q.val();
                }
            } else if self.run_due.q.val() {
                self.run_due.d.next = false;
                self.switched_on.d.next = self.run_level.q.val();
                self.runs.d.next = false;
                if self.run_level.q.val() {
                    self.starts.next = !self.stopped.q.val();
                } else if self.runs.q.val() {
                    self.chosen.d.next.flush = true;
                    self.chosen.d.next.end_slice = true;
                    self.chosen.d.next.dump = true;
                    self.ending.d.next = self.postpones.val();
                    if !self.postpones.val() {
                        self.chosen.d.next.tell = RecordKind::Stop;
                    }
                }
            } else if self.slice_due.q.val() {
                self.slice_due.d.next = false;
                self.chosen.d.next.end_slice = self.runs.q.val();
            } else if self.tick_due.q.val() {
                self.tick_due.d.next = false;
                if self.runs.q.val() {
                    self.chosen.d.next.flush_stale = true;
                    self.chosen.d.next.silence = true;
                    self.chosen.d.next.dump = self.interval.val();
                    self.chosen.d.next.tell = RecordKind::Tick;
                }
            } else if self.may_end.q.val() {
                self.ending.d.next = false;
                self.chosen.d.next.tell = RecordKind::Stop;
            }
            if self.starts.val() {
                self.chosen.d.next.resume = true;
                // The end of the capture before comes first.
                if self.ending.q.val() {
                    self.chosen.d.next.tell = RecordKind::Stop;
                }
                self.ending.d.next = false;
            }
        }
        if self.resume.val() {
            self.runs.d.next = true;
        }
    }
}

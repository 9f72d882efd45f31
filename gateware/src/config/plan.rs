//! Chooses the steps that carry out the requests of events and commands, one request after the
//! other.
//!
//! The order is: command, run switch, end of a slice, tick. A command comes first because an access
//! before the event completed it. Whether the capture runs is kept here, because the steps depend
//! on it.
//!
//! A stop requests the results of the analysis. The end of the capture is recorded when the results
//! have been sent, as a request of its own, so nothing waits for them. If a start comes first, the
//! end is recorded before it, and the results follow in the new capture.
//!
//! Due requests are summarised a clock earlier, to keep the path short. So at least two clocks pass
//! between an event and the first choice, and between two choices.
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_/4\_
//! take           <A >                    a control event
//! done       ~~~~~~~~~~~~\_______        a clock late; high again when all its requests are chosen
//! choose                     <A >
//! steps                          <A .... until the next choice
//! ```

use rust_hdl::prelude::*;

use super::Steps;
use crate::ddr::SlotEvent;
use crate::record::RecordKind;
use crate::reset::{Domain, Register};

/// See the module's description.
#[derive(LogicBlock, Default)]
pub struct Plan {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Oldest event.
    pub slot_event: Signal<In, SlotEvent>,
    /// The event is taken on this clock.
    pub take: Signal<In, Bit>,
    /// A command is completed; the ports below describe it when it is chosen.
    pub complete: Signal<In, Bit>,
    /// The command is a software mark.
    pub is_mark: Signal<In, Bit>,
    /// The command is start.
    pub is_start: Signal<In, Bit>,
    /// The command is stop.
    pub is_stop: Signal<In, Bit>,
    /// The command is reset.
    pub is_reset: Signal<In, Bit>,
    /// The command changes settings.
    pub changes: Signal<In, Bit>,
    /// An interval of the analysis has ended.
    pub interval: Signal<In, Bit>,
    /// The analysis is on.
    pub analysed: Signal<In, Bit>,
    /// No dump of the analysis is in progress or requested.
    pub dumped: Signal<In, Bit>,
    /// An end must be recorded, and nothing is left to wait for.
    pub end_due: Signal<Out, Bit>,
    /// An end must still be recorded: the block stays open.
    pub end_pending: Signal<Out, Bit>,
    /// Choose the next request.
    pub choose: Signal<In, Bit>,
    /// The capture runs from now on.
    pub resume: Signal<In, Bit>,
    /// The next request is a mark: no steps, but an item if the capture runs.
    pub marks: Signal<Out, Bit>,
    /// No request is due.
    pub done: Signal<Out, Bit>,
    /// Steps of the chosen request.
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
    /// The capture has stopped, and its end is not recorded yet.
    ending: Register<Bit>,
    /// `marks`, `done` and `end_due`, computed a clock ahead.
    mark_due: Register<Bit>,
    nothing_due: Register<Bit>,
    may_end: Register<Bit>,
    end_ready: Signal<Local, Bit>,
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
        self.end_ready.next = self.ending.q.val() & self.dumped.val();
        self.nothing_due.d.next = !(self.command_due.q.val()
            | self.run_due.q.val()
            | self.slice_due.q.val()
            | self.tick_due.q.val()
            | self.end_ready.val());
        self.done.next = self.nothing_due.q.val();
        self.may_end.d.next = self.end_ready.val();
        self.end_due.next = self.may_end.q.val();
        self.end_pending.next = self.ending.q.val();
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
            // No step, unless one of the requests below sets it.
            self.chosen.d.next.flush = false;
            self.chosen.d.next.flush_stale = false;
            self.chosen.d.next.record_silence = false;
            self.chosen.d.next.end_slice = false;
            self.chosen.d.next.dump = false;
            self.chosen.d.next.record_kind = RecordKind::Nothing;
            self.chosen.d.next.await_idle = false;
            self.chosen.d.next.apply = false;
            self.chosen.d.next.resume = false;
            if self.command_due.q.val() {
                self.command_due.d.next = false;
                if self.is_stop.val() | self.is_reset.val() {
                    self.chosen.d.next.flush = self.runs.q.val();
                    self.chosen.d.next.end_slice = self.runs.q.val();
                    self.chosen.d.next.dump = self.runs.q.val();
                    self.chosen.d.next.await_idle = true;
                    self.chosen.d.next.apply = true;
                    self.stopped.d.next = true;
                    self.runs.d.next = false;
                    if self.runs.q.val() {
                        self.ending.d.next = self.postpones.val();
                        if !self.postpones.val() {
                            self.chosen.d.next.record_kind = RecordKind::Stop;
                        }
                    }
                    if self.is_reset.val() {
                        self.stopped.d.next = false;
                        self.starts.next = self.switched_on.q.val();
                        if self.runs.q.val() {
                            self.chosen.d.next.record_kind = RecordKind::Stop;
                        }
                    }
                } else if self.changes.val() {
                    self.chosen.d.next.flush = self.runs.q.val();
                    self.chosen.d.next.end_slice = self.runs.q.val();
                    self.chosen.d.next.await_idle = true;
                    self.chosen.d.next.apply = true;
                    // The capture starts again, with a report of the new settings.
                    self.chosen.d.next.resume = self.runs.q.val();
                    if self.runs.q.val() {
                        self.chosen.d.next.record_kind = RecordKind::Change;
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
                        self.chosen.d.next.record_kind = RecordKind::Stop;
                    }
                }
            } else if self.slice_due.q.val() {
                self.slice_due.d.next = false;
                self.chosen.d.next.end_slice = self.runs.q.val();
            } else if self.tick_due.q.val() {
                self.tick_due.d.next = false;
                if self.runs.q.val() {
                    self.chosen.d.next.flush_stale = true;
                    self.chosen.d.next.record_silence = true;
                    self.chosen.d.next.dump = self.interval.val();
                    self.chosen.d.next.record_kind = RecordKind::Tick;
                }
            } else if self.may_end.q.val() {
                self.ending.d.next = false;
                self.chosen.d.next.record_kind = RecordKind::Stop;
            }
            if self.starts.val() {
                self.chosen.d.next.resume = true;
                // The end of the earlier capture comes first.
                if self.ending.q.val() {
                    self.chosen.d.next.record_kind = RecordKind::Stop;
                }
                self.ending.d.next = false;
            }
        }
        if self.resume.val() {
            self.runs.d.next = true;
        }
    }
}

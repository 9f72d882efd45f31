//! Derives what a card must send from accesses, faults and the run switch.
//!
//! The order within one clock is: run switch, end of a slice, tick, access or fault, completed
//! command. Slices are checked by [`super::slices`], since the document does not fix their grid
//! after a new slice code.

use std::mem;

use hmtt_format::config::{self, Granularity, Mode, is_mark, slice_clocks};
use hmtt_format::event::MarkRegister;
use hmtt_format::{Access, Direction, Event, MemoryDescription, PhysAddr};

use super::due::{Burst, Due, DueReport, Epoch, Item, Totals, What};
use super::runs::{Looks, Run};
use super::settings::{Chosen, Registers, begins_grid};
use crate::engine::Settings;
use crate::fuzz::pin_reader::Seen;
use crate::line_merge::LineMerge;

/// A model of the card.
pub struct Model {
    memory: MemoryDescription,
    power_on: Chosen,
    chosen: Chosen,
    switched_on: bool,
    /// Whether software has stopped the capture and not started it again.
    stopped: bool,
    running: bool,
    /// Whether the slices are still on the grid that began at power-on.
    grid_known: bool,
    registers: Registers,
    lines: LineMerge,
    run: Option<Run>,
    totals: Totals,
    /// Clock at which the epoch began, and index of its first burst.
    began: (u64, usize),
    fresh_grid: Option<u64>,
    due: Due,
}

impl Model {
    /// Creates a model in the state before power-on.
    pub fn new(memory: &MemoryDescription, straps: Settings) -> Self {
        let chosen = Chosen::power_on(straps);
        Model {
            memory: memory.clone(),
            power_on: chosen,
            chosen,
            switched_on: false,
            stopped: false,
            running: false,
            grid_known: true,
            registers: Registers::new(memory),
            lines: LineMerge::new(memory),
            run: None,
            totals: Totals::default(),
            began: (0, 0),
            fresh_grid: None,
            due: Due::default(),
        }
    }

    /// Whether the capture runs.
    pub const fn running(&self) -> bool {
        self.running
    }

    /// Changes the run switch, before all other events of this clock.
    pub fn switch(&mut self, clock: u64, on: bool) {
        self.switched_on = on;
        if on && !self.stopped && !self.running {
            self.start(clock);
        } else if !on && self.running {
            self.stop(clock);
        }
    }

    /// Processes an access or a fault.
    pub fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Access(access, outcome, bank) => {
                if self.running {
                    let chosen = self.chosen;
                    let offset = chosen.offset(access.address.0, self.memory.tag_window_log2);
                    let window = offset.is_some();
                    let analysed = chosen.analysed();
                    let burst = Burst { access, outcome, bank, window, analysed };
                    self.due.bursts.push(burst);
                    match access.direction {
                        Direction::Read => self.totals.reads += 1,
                        Direction::Write => self.totals.writes += 1,
                    }
                    self.record(access, offset);
                }
                if let Some(register) = self.registers.access(&access) {
                    self.command(access, register);
                }
            }
            Seen::Fault(fault) if self.running => {
                self.totals.faults += 1;
                self.other(fault, super::clock(&fault));
            }
            Seen::Fault(_) => {}
        }
    }

    /// Ends the model and returns what the card must send.
    pub fn finish(mut self, clock: u64) -> Due {
        self.switch(clock, false);
        self.due.end = clock;
        self.due
    }

    fn record(&mut self, access: Access, offset: Option<u32>) {
        let clock = access.clock;
        if let Some(offset) = offset {
            self.totals.tags += 1;
            let direction = access.direction;
            self.other(Event::Tag { clock, direction, offset, address: None }, clock.0);
            return;
        }
        let item = Item { clock: clock.0, epoch: self.due.epochs.len(), what: What::Burst(access) };
        self.due.items.push(item);
        match (self.chosen.mode, self.chosen.granularity) {
            (Mode::Line, Granularity::Line) => {
                let before = self.lines.join(access);
                self.due.records.extend(before.map(Event::Access));
            }
            (Mode::Line, Granularity::Burst) => {
                let log2 = self.memory.burst_log2();
                let address = PhysAddr(access.address.0 >> log2 << log2);
                self.due.records.push(Event::Access(Access { address, ..access }));
            }
            (Mode::Page, _) => self.page(access),
            (Mode::Frequency | Mode::Analysis, _) => {}
        }
    }

    fn page(&mut self, access: Access) {
        let length = u64::from(slice_clocks(self.chosen.slice_code, self.memory.tck_ps)).max(1);
        let slices = self.chosen.sliced() && self.grid_known;
        let tick_clocks = self.memory.tick_clocks.into();
        let looks = Looks { tick_clocks, slice_clocks: slices.then_some(length) };
        match &mut self.run {
            Some(run) if run.takes(&access, looks) => run.join(&access),
            run => {
                let ended = run.replace(Run::of(&access));
                self.due.records.extend(ended.map(|run| run.record()));
            }
        }
    }

    /// Adds a record other than a line or page, which ends an open line or page record.
    fn other(&mut self, event: Event, clock: u64) {
        self.close();
        self.due.records.push(event);
        let item = Item { clock, epoch: self.due.epochs.len(), what: What::Other(event) };
        self.due.items.push(item);
    }

    fn close(&mut self) {
        self.due.records.extend(self.lines.close().map(Event::Access));
        self.due.records.extend(self.run.take().map(|run| run.record()));
    }

    fn command(&mut self, access: Access, register: u16) {
        let clock = access.clock.0;
        self.due.commands.push((clock, register));
        match register {
            mark if is_mark(mark) => {
                if self.running {
                    self.totals.tags += 1;
                    let register = MarkRegister(mark.into());
                    self.other(Event::Mark { clock: access.clock, register }, clock);
                }
            }
            config::START => {
                self.stopped = false;
                if self.running {
                    self.cut(clock);
                }
                if self.switched_on {
                    self.start(clock);
                }
            }
            config::STOP => {
                if self.running {
                    self.stop(clock);
                }
                self.stopped = true;
            }
            config::RESET => {
                if self.running {
                    self.stop(clock);
                }
                self.stopped = false;
                self.set(self.power_on, register, clock);
                if self.switched_on {
                    self.start(clock);
                }
            }
            _ => {
                let Some(after) = self.chosen.after(register) else { return };
                if self.running {
                    self.cut(clock);
                }
                self.set(after, register, clock);
                if self.running {
                    self.start(clock);
                }
            }
        }
    }

    fn set(&mut self, after: Chosen, register: u16, clock: u64) {
        self.chosen = after;
        if begins_grid(register) {
            self.grid_known = false;
            self.fresh_grid = Some(clock);
        }
        // A setting between a stop and its end frames is stated in these end frames.
        if !self.running
            && let Some(end) = self.due.reports.last_mut().filter(|report| report.end)
        {
            end.settings.push(after);
        }
    }

    /// Begins an epoch, with a report.
    fn start(&mut self, clock: u64) {
        self.running = true;
        self.began = (clock, self.due.bursts.len());
        self.report(clock, false);
    }

    fn stop(&mut self, clock: u64) {
        self.cut(clock);
        self.running = false;
        self.report(clock, true);
    }

    /// Ends an epoch.
    fn cut(&mut self, clock: u64) {
        self.close();
        let (from, first) = self.began;
        self.due.epochs.push(Epoch {
            from,
            to: clock,
            chosen: self.chosen,
            fresh_grid: mem::take(&mut self.fresh_grid),
            bursts: first..self.due.bursts.len(),
        });
    }

    fn report(&mut self, clock: u64, end: bool) {
        self.due.reports.push(DueReport {
            end,
            clock,
            records: self.due.records.len(),
            settings: vec![self.chosen],
            analysed: self.chosen.analysed(),
            totals: self.totals,
        });
    }
}

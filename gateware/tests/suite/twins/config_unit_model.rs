//! Models the configuration unit in plain Rust: derives from events what the unit must do, in
//! order.

use gateware::config::{ItemKind, Settings};
use gateware::ddr::SlotEvent;
use gateware::ddr::event_queue::COMMAND_LOST;
use gateware::record::RecordKind;
use hmtt_format::FaultKind;
use hmtt_format::config::{self, Mode, threshold_words};

/// The settings in the types of the format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    pub mode: u64,
    pub burst: bool,
    pub frequency: bool,
    pub analysis: bool,
    pub slice: u8,
    pub threshold: u8,
    pub tag: bool,
    pub base: u64,
}

impl From<Settings> for Chosen {
    fn from(settings: Settings) -> Self {
        Self {
            mode: settings.mode.to_u64(),
            burst: settings.burst,
            frequency: settings.frequency,
            analysis: settings.analysis,
            slice: settings.slice.to_u64() as u8,
            threshold: settings.threshold.to_u64() as u8,
            tag: settings.tag,
            base: settings.tag_high.to_u64() << 32 | settings.tag_low.to_u64(),
        }
    }
}

/// The settings that the straps of the tests select.
pub const POWER_ON: Chosen = Chosen {
    mode: Mode::Page as u64,
    burst: true,
    frequency: false,
    analysis: false,
    slice: 7,
    threshold: hmtt_format::frame::MAX_WORDS,
    tag: false,
    base: 0,
};

/// An action of the unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    /// Passes on an item: kind, direction, address or value.
    Item(ItemKind, bool, u64),
    Flush,
    Tell(RecordKind),
    RestartTime,
    RestartSlice,
    Dump,
    /// Changes the length of slices.
    Regrid,
}

/// An action, the clock of the items so far, the settings in force, and whether the capture runs.
pub type Done = (Act, u64, Chosen, bool);

/// The constant outputs of the other units during a test.
#[derive(Clone, Copy, Debug)]
pub struct Behind {
    pub waiting: bool,
    pub stale: bool,
    pub silent: bool,
    pub counted: bool,
    pub interval: bool,
}

/// The model. [`Model::done`] is the result.
pub struct Model {
    behind: Behind,
    pub chosen: Chosen,
    switched_on: bool,
    stopped: bool,
    runs: bool,
    /// Whether the end of the capture is reported when the dump is complete.
    pub ending: bool,
    /// Whether a dump is running.
    dumping: bool,
    /// Whether a lost command must be reported.
    lost: bool,
    clock: u64,
    pub done: Vec<Done>,
}

impl Model {
    pub fn new(behind: Behind) -> Self {
        Self {
            behind,
            chosen: POWER_ON,
            switched_on: false,
            stopped: false,
            runs: false,
            ending: false,
            dumping: false,
            lost: false,
            clock: 0,
            done: Vec::new(),
        }
    }

    fn act(&mut self, act: Act) {
        self.done.push((act, self.clock, self.chosen, self.runs));
    }

    pub fn take(&mut self, event: &SlotEvent, clock: u64) {
        self.clock = clock;
        let value = event.high.to_u64() << 32 | event.low.to_u64();
        // Missed events were before the control event.
        if event.overrun {
            self.act(Act::Item(ItemKind::Overrun, false, value));
            self.lost |= value >> 32 & COMMAND_LOST != 0;
            self.tell_loss();
        }
        if event.run_change {
            self.switched_on = event.run;
            if event.run && !self.stopped {
                self.start();
            } else if !event.run && self.runs {
                self.stop();
            }
        }
        if !event.access && !event.fault {
            self.tell_loss();
        }
        if event.slice && self.runs {
            self.end_slice();
        }
        if event.tick && self.runs {
            self.tick();
        }
        let kind = match event {
            SlotEvent { fault: true, .. } => ItemKind::Fault,
            SlotEvent { access: true, .. } => ItemKind::Access,
            // The access that completes a command did not fit in the queue.
            SlotEvent { command: true, .. } => ItemKind::Overrun,
            _ => ItemKind::Time,
        };
        if kind == ItemKind::Overrun {
            self.act(Act::Item(kind, false, 1));
        } else if kind != ItemKind::Time {
            self.act(Act::Item(kind, event.write, value));
        }
        self.tell_loss();
        if event.command {
            let left =
                u64::from(event.write) << 8 | event.row_state.to_u64() << 6 | event.bank.to_u64();
            self.command(if event.access { value >> 3 } else { left } as u16 & 0x1ff);
            self.tell_loss();
        }
    }

    fn tell_loss(&mut self) {
        if self.lost && self.runs {
            self.lost = false;
            let value = u64::from(FaultKind::CommandLost.code()) << 8;
            self.act(Act::Item(ItemKind::Fault, false, value));
        }
    }

    /// Completes the dump.
    pub fn dumped(&mut self) {
        self.dumping = false;
        self.tell_end();
    }

    fn tell_end(&mut self) {
        if self.ending {
            self.act(Act::Tell(RecordKind::Stop));
        }
        self.ending = false;
    }

    fn start(&mut self) {
        self.tell_end();
        self.runs = true;
        self.act(Act::Tell(RecordKind::Start));
        self.act(Act::RestartTime);
        self.act(Act::RestartSlice);
    }

    fn flush(&mut self) {
        if self.behind.waiting {
            self.act(Act::Flush);
        }
    }

    fn end_slice(&mut self) {
        let sliced = self.chosen.frequency || self.chosen.mode == Mode::Frequency as u64;
        if sliced && self.behind.counted {
            self.act(Act::Tell(RecordKind::Slice));
        }
        self.act(Act::RestartSlice);
    }

    fn dump(&mut self) {
        if self.chosen.analysis || self.chosen.mode == Mode::Analysis as u64 {
            self.act(Act::Dump);
            self.dumping = true;
        }
    }

    fn tick(&mut self) {
        if self.behind.waiting && self.behind.stale {
            self.act(Act::Flush);
        }
        if self.behind.silent {
            self.act(Act::Tell(RecordKind::Skip));
            self.act(Act::RestartTime);
        }
        if self.behind.interval {
            self.dump();
        }
        self.act(Act::Tell(RecordKind::Tick));
    }

    /// Stops: everything recorded so far is sent with the settings under which it was recorded.
    fn stop(&mut self) {
        self.runs = false;
        self.flush();
        self.end_slice();
        self.ending = true;
        self.dump();
        if !self.dumping {
            self.tell_end();
        }
    }

    fn command(&mut self, register: u16) {
        match register {
            _ if config::is_mark(register) => {
                if self.runs {
                    self.act(Act::Item(ItemKind::Mark, false, register.into()));
                }
            }
            config::START => {
                self.stopped = false;
                if self.runs {
                    self.flush();
                    self.end_slice();
                }
                if self.switched_on {
                    self.start();
                }
            }
            config::STOP | config::RESET => {
                if self.runs {
                    self.stop();
                }
                self.stopped = register == config::STOP;
                if register == config::RESET {
                    if self.switched_on {
                        self.tell_end();
                    }
                    self.act(Act::Regrid);
                    self.chosen = POWER_ON;
                    if self.switched_on {
                        self.start();
                    }
                }
            }
            _ => {
                let Some(after) = changed(self.chosen, register) else { return };
                if self.runs {
                    self.flush();
                    self.end_slice();
                    self.act(Act::Tell(RecordKind::Change));
                }
                if (0x20..0x33).contains(&register) {
                    self.act(Act::Regrid);
                }
                self.chosen = after;
                if self.runs {
                    self.start();
                }
            }
        }
    }
}

/// Returns the settings after a command; `None` if the command is no setting.
fn changed(mut chosen: Chosen, register: u16) -> Option<Chosen> {
    let offset = |first: u16| (register - first) as u8;
    match register {
        config::MODE_LINE => chosen.mode = Mode::Line as u64,
        config::MODE_PAGE => chosen.mode = Mode::Page as u64,
        config::MODE_FREQUENCY => chosen.mode = Mode::Frequency as u64,
        config::MODE_ANALYSIS => chosen.mode = Mode::Analysis as u64,
        config::ANALYSIS_ON => chosen.analysis = true,
        config::ANALYSIS_OFF => chosen.analysis = false,
        config::FREQUENCY_ON => chosen.frequency = true,
        config::FREQUENCY_OFF => chosen.frequency = false,
        config::GRANULARITY_LINE => chosen.burst = false,
        config::GRANULARITY_BURST => chosen.burst = true,
        0x20..=0x32 => chosen.slice = offset(config::SLICE_FIRST),
        0x38..=0x3f => chosen.threshold = threshold_words(offset(config::THRESHOLD_FIRST)),
        0x40..=0x4f => {
            let nibble = u64::from(offset(config::TAG_NIBBLE_FIRST));
            chosen.base = chosen.base << 4 & 0xff_ffff_ffff | nibble;
        }
        config::TAG_ON => chosen.tag = true,
        config::TAG_OFF => chosen.tag = false,
        _ => return None,
    }
    Some(chosen)
}

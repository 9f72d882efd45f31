//! Recognises completed commands in accesses, and applies them to settings, by `docs/format.md`,
//! configuration registers.

use hmtt_format::config::{self, DEFAULT_TIMEOUT, Granularity, Mode, REGISTERS_LOG2, SLICE_CODES};
use hmtt_format::frame::MAX_WORDS;
use hmtt_format::{Access, MemoryDescription, Report};

use crate::engine::Settings;

/// Mask of the base of the tag window, which has ten hexadecimal digits.
const BASE_MASK: u64 = (1 << 40) - 1;

/// The settings of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The mode.
    pub mode: Mode,
    /// The unit of line records.
    pub granularity: Granularity,
    /// Whether slices are recorded in addition to line or page records.
    pub slices: bool,
    /// Code of the time slice's length.
    pub slice_code: u8,
    /// Whether the analysis is on in addition to any mode.
    pub analysis: bool,
    /// Number of words after which a frame is sent.
    pub threshold: u8,
    /// Whether the tag window is on.
    pub window: bool,
    /// Base of the tag window, from the digits that were written.
    pub base: u64,
}

impl Chosen {
    /// The settings after power-on.
    pub const fn power_on(straps: Settings) -> Self {
        let Settings { mode, granularity, frequency, slice_code, analysis } = straps;
        Chosen {
            mode,
            granularity,
            slices: frequency,
            slice_code,
            analysis,
            threshold: MAX_WORDS,
            window: false,
            base: 0,
        }
    }

    /// The settings after a command; `None` if the command is no setting.
    pub fn after(mut self, register: u16) -> Option<Chosen> {
        let slices_end = config::SLICE_FIRST + u16::from(SLICE_CODES);
        match register {
            config::MODE_LINE => self.mode = Mode::Line,
            config::MODE_PAGE => self.mode = Mode::Page,
            config::MODE_FREQUENCY => self.mode = Mode::Frequency,
            config::MODE_ANALYSIS => self.mode = Mode::Analysis,
            config::FREQUENCY_ON => self.slices = true,
            config::FREQUENCY_OFF => self.slices = false,
            config::GRANULARITY_LINE => self.granularity = Granularity::Line,
            config::GRANULARITY_BURST => self.granularity = Granularity::Burst,
            config::ANALYSIS_ON => self.analysis = true,
            config::ANALYSIS_OFF => self.analysis = false,
            config::TAG_ON => self.window = true,
            config::TAG_OFF => self.window = false,
            code if (config::SLICE_FIRST..slices_end).contains(&code) => {
                self.slice_code = (code - config::SLICE_FIRST) as u8;
            }
            code if code & !7 == config::THRESHOLD_FIRST => {
                self.threshold = config::threshold_words((code & 7) as u8);
            }
            digit if digit & !15 == config::TAG_NIBBLE_FIRST => {
                self.base = (self.base << 4 | u64::from(digit & 15)) & BASE_MASK;
            }
            _ => return None,
        }
        Some(self)
    }

    /// Whether slices are recorded.
    pub fn sliced(&self) -> bool {
        self.slices || self.mode == Mode::Frequency
    }

    /// Whether accesses are analysed.
    pub fn analysed(&self) -> bool {
        self.analysis || self.mode == Mode::Analysis
    }

    /// Whether records of accesses have numbers.
    pub fn has_numbers(&self) -> bool {
        matches!(self.mode, Mode::Line | Mode::Page)
    }

    /// The offset of an address in the tag window; `None` if it is outside.
    pub fn offset(&self, address: u64, window_log2: u8) -> Option<u32> {
        let hit = self.window && address >> window_log2 == self.base >> window_log2;
        hit.then_some((address & ((1 << window_log2) - 1)) as u32)
    }

    /// Whether a report states these settings. Reports do not state whether the analysis is on.
    pub fn is_in(&self, report: &Report) -> bool {
        let log2 = report.memory.tag_window_log2;
        report.mode == self.mode
            && report.granularity == self.granularity
            && report.frequency == self.sliced()
            && report.slice_code == self.slice_code
            && report.threshold == self.threshold
            && report.tag_window == self.window.then_some(self.base >> log2 << log2)
    }
}

/// Whether a command begins a new grid of slices.
pub fn begins_grid(register: u16) -> bool {
    let codes = config::SLICE_FIRST..config::SLICE_FIRST + u16::from(SLICE_CODES);
    register == config::RESET || codes.contains(&register)
}

/// Counts consecutive accesses to one register.
#[derive(Clone, Debug)]
pub struct Registers {
    stride_log2: u8,
    count: u8,
    /// Register, number of its accesses so far, and clock of its last access.
    current: Option<(u16, u8, u64)>,
}

impl Registers {
    /// Creates the counter for a memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        Registers {
            stride_log2: memory.config_stride_log2,
            count: memory.config_count,
            current: None,
        }
    }

    /// The register of the command that an access completes.
    pub fn access(&mut self, access: &Access) -> Option<u16> {
        if access.address.0 >> (self.stride_log2 + REGISTERS_LOG2) != 0 {
            return None;
        }
        let (register, clock) = ((access.address.0 >> self.stride_log2) as u16, access.clock.0);
        let count = match self.current {
            Some((same, count, at))
                if same == register && clock - at < u64::from(DEFAULT_TIMEOUT) =>
            {
                count + 1
            }
            _ => 1,
        };
        let complete = count == self.count;
        self.current = (!complete).then_some((register, count, clock));
        complete.then_some(register)
    }
}

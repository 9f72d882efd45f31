//! The card's configuration registers: which physical addresses, read how often, mean what.
//!
//! 512 registers live in physical 0x0 to 0x1000, register = address / 8 (the MTT paper, section
//! 3.2). Where the mode register sets the burst length, registers are as far apart as the longest burst
//! is long ([`crate::MemoryDescription::follow_mode_register`]). A command is [`DEFAULT_COUNT`] consecutive accesses to one register; what the access reads
//! or writes is ignored. "Consecutive" is judged among accesses to the window: other traffic may
//! interleave, another register starts over, and so does a silence longer than the timeout.

/// Accesses that make a command.
pub const DEFAULT_COUNT: u8 = 32;
/// log2 of the bytes from one register to the next, where the burst length is fixed.
pub const DEFAULT_STRIDE_LOG2: u8 = 3;
/// log2 of the number of registers.
pub const REGISTERS_LOG2: u8 = 9;
/// Clocks of silence that end a command's sequence.
pub const DEFAULT_TIMEOUT: u32 = 1 << 12;

/// Reset: power-on settings again. 32 accesses to 0x80 with the default step.
pub const RESET: u16 = 0x10;
/// Start capturing if the run switch is on, else once it is.
pub const START: u16 = 0x11;
/// Stop capturing until [`START`] or [`RESET`], whatever the run switch does.
pub const STOP: u16 = 0x12;
/// Line mode: one record for each line (or burst) accessed.
pub const MODE_LINE: u16 = 0x18;
/// Page mode: one record for each run of accesses to a page.
pub const MODE_PAGE: u16 = 0x19;
/// Neither line nor page records: frequency slices only.
pub const MODE_FREQUENCY: u16 = 0x1a;
/// Neither line nor page records: hot pages, reuse distances and bank use only.
pub const MODE_ANALYSIS: u16 = 0x1b;
/// Frequency slices beside line or page records: on.
pub const FREQUENCY_ON: u16 = 0x1c;
/// Frequency slices beside line or page records: off.
pub const FREQUENCY_OFF: u16 = 0x1d;
/// Line records name cache lines.
pub const GRANULARITY_LINE: u16 = 0x1e;
/// Line records name bursts.
pub const GRANULARITY_BURST: u16 = 0x1f;
/// First of [`SLICE_CODES`] registers: time slice = [`slice_micros`] of the offset.
pub const SLICE_FIRST: u16 = 0x20;
/// First of eight registers: frame threshold = [`threshold_words`] of the offset.
pub const THRESHOLD_FIRST: u16 = 0x38;
/// First of sixteen registers: tag window base = base * 16 + offset.
pub const TAG_NIBBLE_FIRST: u16 = 0x40;
/// Accesses to the tag window become Tag records.
pub const TAG_ON: u16 = 0x50;
/// Accesses to the tag window are ordinary accesses.
pub const TAG_OFF: u16 = 0x51;
/// Hot pages, reuse distances and bank use beside any mode: on.
pub const ANALYSIS_ON: u16 = 0x52;
/// Hot pages, reuse distances and bank use beside any mode: off.
pub const ANALYSIS_OFF: u16 = 0x53;
/// Mark: kernel entered.
pub const MARK_KERNEL_ENTER: u16 = 0x60;
/// Mark: kernel left.
pub const MARK_KERNEL_EXIT: u16 = 0x61;
/// First of 256 marks for free use.
pub const MARK_FREE_FIRST: u16 = 0x100;
/// Last mark for free use.
pub const MARK_FREE_LAST: u16 = 0x1ff;

/// Number of time slices to choose from: 1, 2, 5 ... from 1 us to 1 s.
pub const SLICE_CODES: u8 = 19;
/// The time slice after power-on: 1 ms.
pub const DEFAULT_SLICE_CODE: u8 = 9;

/// Length of a time slice in microseconds: 1, 2, 5, 10, ... 1 000 000. Codes beyond the last mean the
/// last.
pub const fn slice_micros(code: u8) -> u32 {
    let code = if code < SLICE_CODES { code } else { SLICE_CODES - 1 };
    [1, 2, 5][code as usize % 3] * 10u32.pow(code as u32 / 3)
}

/// Length of a time slice in clocks, rounded to the nearest. `tck_ps`: clock period in picoseconds, at
/// least [`crate::memory::MIN_TCK_PS`].
pub const fn slice_clocks(code: u8, tck_ps: u32) -> u32 {
    ((slice_micros(code) as u64 * 1_000_000 + tck_ps as u64 / 2) / tck_ps as u64) as u32
}

/// Words of a frame after which it is sent, by register offset 0 to 7.
pub const fn threshold_words(offset: u8) -> u8 {
    [8, 16, 32, 64, 96, 128, 160, crate::frame::MAX_WORDS][offset as usize % 8]
}

/// What the statistics unit records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Every line or burst.
    Line = 0,
    /// Runs of accesses to one page.
    Page = 1,
    /// Reads and writes per time slice.
    Frequency = 2,
    /// Hot pages, reuse distances and bank use per interval.
    Analysis = 3,
}

impl Mode {
    /// The mode with this code.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Mode::Line),
            1 => Some(Mode::Page),
            2 => Some(Mode::Frequency),
            3 => Some(Mode::Analysis),
            _ => None,
        }
    }

    /// `line`, `page`, `frequency`, `analysis`.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Line => "line",
            Mode::Page => "page",
            Mode::Frequency => "frequency",
            Mode::Analysis => "analysis",
        }
    }
}

/// What a line record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// The cache line.
    Line,
    /// The burst.
    Burst,
}

impl Granularity {
    /// `line`, `burst`.
    pub const fn name(self) -> &'static str {
        match self {
            Granularity::Line => "line",
            Granularity::Burst => "burst",
        }
    }
}

/// Whether a register is a software mark, which comes out as a Tag record.
pub const fn is_mark(register: u16) -> bool {
    matches!(register, MARK_KERNEL_ENTER | MARK_KERNEL_EXIT | MARK_FREE_FIRST..=MARK_FREE_LAST)
}

/// The physical address whose accesses count towards `register`.
pub const fn register_address(register: u16, stride_log2: u8) -> u64 {
    (register as u64) << stride_log2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_is_at_0x80() {
        assert_eq!(register_address(RESET, DEFAULT_STRIDE_LOG2), 0x80);
        assert_eq!(1u64 << (REGISTERS_LOG2 + DEFAULT_STRIDE_LOG2), 0x1000);
    }

    #[test]
    fn slices_reach_from_a_microsecond_to_a_second() {
        assert_eq!(slice_micros(0), 1);
        assert_eq!(slice_micros(DEFAULT_SLICE_CODE), 1000);
        assert_eq!(slice_micros(SLICE_CODES - 1), 1_000_000);
        assert_eq!(slice_clocks(0, 10_000), 100);
        assert_eq!(slice_clocks(0, 7_500), 133);
        assert!(SLICE_FIRST + u16::from(SLICE_CODES) <= THRESHOLD_FIRST);
    }
}

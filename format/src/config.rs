//! Defines the card's configuration registers: physical addresses at which a number of accesses is
//! a command.
//!
//! The 512 registers are at the physical addresses 0x0 to 0x1000; the number of a register is its
//! address / 8 (the MTT paper, section 3.2). If the mode register sets the burst length, the
//! distance between registers is the length of the longest burst
//! ([`crate::MemoryDescription::follow_mode_register`]). A command is a series of [`DEFAULT_COUNT`]
//! accesses to one register; the data that they read or write is ignored. Accesses outside the
//! registers may come in between. An access to another register, or a pause longer than the
//! timeout, begins a new count. [`crate::control`] has the accesses of each command.

/// Number of accesses that are a command.
pub const DEFAULT_COUNT: u8 = 32;
/// log2 of the distance between registers in bytes, where the burst length is fixed.
pub const DEFAULT_STRIDE_LOG2: u8 = 3;
/// log2 of the number of registers.
pub const REGISTERS_LOG2: u8 = 9;
/// Clocks without an access to registers after which a new count of accesses begins.
pub const DEFAULT_TIMEOUT: u32 = 1 << 12;

/// Restores the power-on settings: 32 accesses to 0x80, with the default distance between
/// registers.
pub const RESET: u16 = 0x10;
/// Starts the capture if the run switch is on; otherwise the capture starts when it is switched on.
pub const START: u16 = 0x11;
/// Stops the capture until [`START`] or [`RESET`], whatever the run switch does.
pub const STOP: u16 = 0x12;
/// Selects line mode: one record for each access to a line or burst.
pub const MODE_LINE: u16 = 0x18;
/// Selects page mode: one record for each run of accesses to a page.
pub const MODE_PAGE: u16 = 0x19;
/// Selects frequency mode: frequency slices, without records of lines or pages.
pub const MODE_FREQUENCY: u16 = 0x1a;
/// Selects analysis mode: hot pages, reuse distances and bank use, without records of lines or
/// pages.
pub const MODE_ANALYSIS: u16 = 0x1b;
/// Turns on frequency slices in addition to line or page records.
pub const FREQUENCY_ON: u16 = 0x1c;
/// Turns off the frequency slices that are recorded in addition to lines or pages.
pub const FREQUENCY_OFF: u16 = 0x1d;
/// Selects cache lines as the units of line records.
pub const GRANULARITY_LINE: u16 = 0x1e;
/// Selects bursts as the units of line records.
pub const GRANULARITY_BURST: u16 = 0x1f;
/// First of [`SLICE_CODES`] registers that set the time slice to [`slice_micros`] of their offset.
pub const SLICE_FIRST: u16 = 0x20;
/// First of eight registers that set the frame threshold to [`threshold_words`] of their offset.
pub const THRESHOLD_FIRST: u16 = 0x38;
/// First of sixteen registers that append their offset, as four bits, to the base of the tag
/// window.
pub const TAG_NIBBLE_FIRST: u16 = 0x40;
/// Turns on the tag window: accesses to it become Tag records.
pub const TAG_ON: u16 = 0x50;
/// Turns off the tag window: accesses to it are ordinary accesses.
pub const TAG_OFF: u16 = 0x51;
/// Turns on hot pages, reuse distances and bank use in addition to any mode.
pub const ANALYSIS_ON: u16 = 0x52;
/// Turns off the hot pages, reuse distances and bank use that are recorded in addition to any mode.
pub const ANALYSIS_OFF: u16 = 0x53;
/// The mark that the kernel was entered.
pub const MARK_KERNEL_ENTER: u16 = 0x60;
/// The mark that the kernel was left.
pub const MARK_KERNEL_EXIT: u16 = 0x61;
/// First of 256 marks for free use.
pub const MARK_FREE_FIRST: u16 = 0x100;
/// Last mark for free use.
pub const MARK_FREE_LAST: u16 = 0x1ff;

/// Number of lengths of a time slice: 1, 2, 5, ... from 1 us to 1 s.
pub const SLICE_CODES: u8 = 19;
/// The time slice after power-on: 1 ms.
pub const DEFAULT_SLICE_CODE: u8 = 9;

/// Length of a time slice in microseconds: 1, 2, 5, 10, ... 1 000 000. Codes above the last one
/// select the last one.
pub const fn slice_micros(code: u8) -> u32 {
    let code = if code < SLICE_CODES { code } else { SLICE_CODES - 1 };
    [1, 2, 5][code as usize % 3] * 10u32.pow(code as u32 / 3)
}

/// Length of a time slice in clocks, rounded to the nearest integer. `tck_ps`: clock period in
/// picoseconds, at least [`crate::memory::MIN_TCK_PS`].
pub const fn slice_clocks(code: u8, tck_ps: u32) -> u32 {
    ((slice_micros(code) as u64 * 1_000_000 + tck_ps as u64 / 2) / tck_ps as u64) as u32
}

/// Number of words after which a frame is sent, by the register's offset, 0 to 7.
pub const fn threshold_words(offset: u8) -> u8 {
    [8, 16, 32, 64, 96, 128, 160, crate::frame::MAX_WORDS][offset as usize % 8]
}

/// The kind of records that the statistics unit makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// A record for each access to a line or burst.
    Line = 0,
    /// A record for each run of accesses to one page.
    Page = 1,
    /// A record of the reads and writes in each time slice.
    Frequency = 2,
    /// Records of hot pages, reuse distances and bank use in each interval.
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

    /// Name of the mode: `line`, `page`, `frequency` or `analysis`.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Line => "line",
            Mode::Page => "page",
            Mode::Frequency => "frequency",
            Mode::Analysis => "analysis",
        }
    }
}

/// The unit of line records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// The cache line.
    Line,
    /// The burst.
    Burst,
}

impl Granularity {
    /// Name of the unit: `line` or `burst`.
    pub const fn name(self) -> &'static str {
        match self {
            Granularity::Line => "line",
            Granularity::Burst => "burst",
        }
    }
}

/// Whether a register is a software mark, which is recorded as a Tag.
pub const fn is_mark(register: u16) -> bool {
    matches!(register, MARK_KERNEL_ENTER | MARK_KERNEL_EXIT | MARK_FREE_FIRST..=MARK_FREE_LAST)
}

/// The physical address of a register.
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

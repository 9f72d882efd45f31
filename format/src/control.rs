//! Converts commands to the card to the memory accesses that make them.
//!
//! ```text
//! Control -> registers -> accesses: reads, as many of each register as the card counts
//! ```
//!
//! Every program that controls a card uses these accesses: `hmtt ctl`, the marks of `hmtt tag`,
//! and, in C, `probe/include/hmtt.h`. All of the accesses are reads: a command needs no write, and
//! a read does not change the memory.

use crate::config::{self, Granularity, Mode};
use crate::memory::MemoryDescription;
use crate::units::Direction;

/// Number of hexadecimal digits of the base of the tag window.
const BASE_DIGITS: u32 = 10;
/// Bits of the base of the tag window.
pub const TAG_BASE_BITS: u32 = 4 * BASE_DIGITS;
/// Size of each access, in bytes.
pub const ACCESS_BYTES: u8 = 4;

/// A command to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// Restores the power-on settings.
    Reset,
    /// Starts the capture, if the run switch is on.
    Start,
    /// Stops the capture.
    Stop,
    /// Selects the kind of records.
    Mode(Mode),
    /// Selects the unit of line records.
    Granularity(Granularity),
    /// Turns frequency slices beside line or page records on or off.
    Slices(bool),
    /// Sets the length of slices to a code, see [`config::slice_micros`].
    Slice(SliceCode),
    /// Sets the number of words after which a frame is sent.
    Threshold(Threshold),
    /// Sets the base of the tag window, a physical address. Only its lowest [`TAG_BASE_BITS`] bits
    /// are used.
    TagBase(u64),
    /// Turns the tag window on or off.
    TagWindow(bool),
    /// Turns the analysis beside any mode on or off.
    Analysis(bool),
    /// Makes the mark that the kernel was entered.
    KernelEnter,
    /// Makes the mark that the kernel was left.
    KernelExit,
    /// Makes a mark for free use.
    Mark(u8),
}

/// A code of a slice's length, less than [`config::SLICE_CODES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceCode(u8);

impl SliceCode {
    /// The code of a length in microseconds; `None` if no code has this length.
    pub fn from_micros(micros: u64) -> Option<Self> {
        let is_it = |code: &u8| u64::from(config::slice_micros(*code)) == micros;
        (0..config::SLICE_CODES).find(is_it).map(SliceCode)
    }
}

/// The register that sets a threshold, as an offset of 0 to 7 from the first such register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Threshold(u8);

impl Threshold {
    /// The register that sets a number of words; `None` if there is none.
    pub fn from_words(words: u8) -> Option<Self> {
        (0..8).find(|offset| config::threshold_words(*offset) == words).map(Threshold)
    }
}

impl Control {
    /// The registers of the command, in order. A sequence of accesses to each register makes the
    /// command.
    pub fn registers(self) -> impl Iterator<Item = u16> {
        let (register, base) = match self {
            Control::TagBase(base) => (config::TAG_NIBBLE_FIRST, Some(base)),
            other => (other.register(), None),
        };
        // The highest digit of a base comes first.
        let digits = if base.is_some() { BASE_DIGITS } else { 1 };
        (0..digits)
            .rev()
            .map(move |digit| register + base.map_or(0, |base| (base >> (4 * digit) & 0xf) as u16))
    }

    /// The only register of a command, or the first register of the base of the tag window.
    const fn register(self) -> u16 {
        match self {
            Control::Reset => config::RESET,
            Control::Start => config::START,
            Control::Stop => config::STOP,
            Control::Mode(Mode::Line) => config::MODE_LINE,
            Control::Mode(Mode::Page) => config::MODE_PAGE,
            Control::Mode(Mode::Frequency) => config::MODE_FREQUENCY,
            Control::Mode(Mode::Analysis) => config::MODE_ANALYSIS,
            Control::Granularity(Granularity::Line) => config::GRANULARITY_LINE,
            Control::Granularity(Granularity::Burst) => config::GRANULARITY_BURST,
            Control::Slices(true) => config::FREQUENCY_ON,
            Control::Slices(false) => config::FREQUENCY_OFF,
            Control::Slice(SliceCode(code)) => config::SLICE_FIRST + code as u16,
            Control::Threshold(Threshold(offset)) => config::THRESHOLD_FIRST + offset as u16,
            Control::TagBase(_) => config::TAG_NIBBLE_FIRST,
            Control::TagWindow(true) => config::TAG_ON,
            Control::TagWindow(false) => config::TAG_OFF,
            Control::Analysis(true) => config::ANALYSIS_ON,
            Control::Analysis(false) => config::ANALYSIS_OFF,
            Control::KernelEnter => config::MARK_KERNEL_ENTER,
            Control::KernelExit => config::MARK_KERNEL_EXIT,
            Control::Mark(number) => config::MARK_FREE_FIRST + number as u16,
        }
    }
}

/// An access to the configuration registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ControlAccess {
    /// Direction of the access; always a read.
    pub direction: Direction,
    /// Offset in bytes from the first register. It is also the physical address.
    pub offset: u64,
}

/// Layout of a card's registers in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// log2 of the bytes from one register to the next.
    stride_log2: u8,
    /// Number of accesses that make a command.
    count: u8,
}

impl Registers {
    /// The registers of a card whose memory description does not change them.
    pub const DEFAULT: Registers =
        Registers { stride_log2: config::DEFAULT_STRIDE_LOG2, count: config::DEFAULT_COUNT };

    /// The registers of a card with this memory description.
    pub const fn of(memory: &MemoryDescription) -> Self {
        Registers { stride_log2: memory.config_stride_log2, count: memory.config_count }
    }

    /// Size of all registers in bytes.
    pub const fn bytes(self) -> u64 {
        1 << (config::REGISTERS_LOG2 + self.stride_log2)
    }

    /// The accesses of a command, in order. All of them must be made, each exactly once.
    pub fn accesses(self, control: Control) -> impl Iterator<Item = ControlAccess> {
        control.registers().flat_map(move |register| {
            let offset = config::register_address(register, self.stride_log2);
            (0..self.count).map(move |_| ControlAccess { direction: Direction::Read, offset })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The table *Configuration registers* of docs/format.md, as pairs of addresses and commands.
    fn documented() -> BTreeMap<u64, String> {
        let text = include_str!("../../docs/format.md");
        let table = text.split("## Configuration registers").nth(1).unwrap();
        let rows = table.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| 0x")?.split('|').skip(1).map(str::trim);
            let address = cells.next()?.split(' ').next()?.strip_prefix("0x")?;
            Some((u64::from_str_radix(address, 16).ok()?, cells.next()?.to_owned()))
        });
        rows.collect()
    }

    #[test]
    fn commands_access_the_registers_of_the_documentation() {
        let documented = documented();
        let controls = [
            (Control::Reset, "reset:"),
            (Control::Start, "start"),
            (Control::Stop, "stop"),
            (Control::Mode(Mode::Line), "line mode"),
            (Control::Mode(Mode::Page), "page mode"),
            (Control::Mode(Mode::Frequency), "frequency mode"),
            (Control::Mode(Mode::Analysis), "analysis mode"),
            (Control::Slices(true), "slices beside line or page records: on"),
            (Control::Slices(false), "slices beside line or page records: off"),
            (Control::Granularity(Granularity::Line), "line records name lines"),
            (Control::Granularity(Granularity::Burst), "line records name bursts"),
            (Control::Slice(SliceCode::from_micros(1).unwrap()), "slice code"),
            (Control::Threshold(Threshold::from_words(8).unwrap()), "threshold"),
            (Control::TagBase(0), "tag window base"),
            (Control::TagWindow(true), "tag window on"),
            (Control::TagWindow(false), "tag window off"),
            (Control::Analysis(true), "analysis beside any mode: on"),
            (Control::Analysis(false), "analysis beside any mode: off"),
            (Control::KernelEnter, "mark: kernel entered"),
            (Control::KernelExit, "mark: kernel left"),
            (Control::Mark(0), "marks for free use"),
        ];
        assert_eq!(controls.len(), documented.len());
        for (control, text) in controls {
            let first = Registers::DEFAULT.accesses(control).next().unwrap();
            assert!(documented[&first.offset].starts_with(text), "{control:?} {first:?}");
        }
    }

    #[test]
    fn a_base_is_written_digit_by_digit() {
        let registers: Vec<u16> = Control::TagBase(0xf0_1234_abcd).registers().collect();
        let expected = [0x4f, 0x40, 0x41, 0x42, 0x43, 0x44, 0x4a, 0x4b, 0x4c, 0x4d];
        assert_eq!(registers, expected);
        assert_eq!(Registers::DEFAULT.accesses(Control::TagBase(0)).count(), 320);
    }

    #[test]
    fn values_without_a_register_are_rejected() {
        assert_eq!(SliceCode::from_micros(1_000_000), Some(SliceCode(18)));
        assert_eq!(SliceCode::from_micros(3), None);
        assert_eq!(Threshold::from_words(187), Some(Threshold(7)));
        assert_eq!(Threshold::from_words(9), None);
    }

    #[test]
    fn registers_are_where_the_memory_has_them() {
        let registers = Registers { stride_log2: 6, count: 4 };
        let accesses: Vec<u64> =
            registers.accesses(Control::Mark(255)).map(|access| access.offset).collect();
        assert_eq!(accesses, [0x1ff << 6; 4]);
        assert_eq!(registers.bytes(), 0x8000);
        assert_eq!(Registers::DEFAULT.bytes(), 0x1000);
    }
}

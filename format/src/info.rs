//! Packs and unpacks reports, in which a card sends its settings, counters and memory description,
//! so that a capture can be decoded without any other file.
//!
//! After the sync of an info or end frame there are [`DYNAMIC_WORDS`] words of settings and
//! counters. Then the memory description follows: a digest, four words of parameters, and a word
//! for each bit of a coordinate (column, row, bank, rank; low bit first). This word has the address
//! bits whose XOR is the coordinate bit.

use crate::address_map::{AddressMap, Axis, MapBuilder};
use crate::command::Generation;
use crate::config::{Granularity, Mode};
use crate::frame::WORD_BYTES;
use crate::memory::MemoryDescription;

/// Number of words that change: settings, reads, writes, faults and tags, the base of the tag
/// window with the state of the DDR state machine.
pub const DYNAMIC_WORDS: usize = 5;
/// Number of words of the memory description before its masks.
pub const STATIC_HEADER_WORDS: usize = 5;
/// Flag of the memory description: the mode register sets the burst length.
pub const MEMORY_BURST_FROM_MODE_REGISTER: u8 = 1;
/// Flag of the memory description: address pins of odd ranks are swapped.
pub const MEMORY_MIRROR_ODD_RANKS: u8 = 2;
/// Maximum number of coordinate bits of any map.
pub const MAX_MASKS: usize = 38;
/// Maximum number of words of a memory description.
pub const MAX_STATIC_WORDS: usize = STATIC_HEADER_WORDS + MAX_MASKS;

/// Place of the format version in the high half of the settings word.
pub const VERSION_AT: u32 = 24;
/// Place of the flags in the high half of the settings word.
pub const FLAGS_AT: u32 = 16;
/// Place of the mode in the high half of the settings word.
pub const MODE_AT: u32 = 12;
/// Place of the time-slice code in the high half of the settings word.
pub const SLICE_AT: u32 = 7;
/// Place of the frame threshold, in words, in the low half of the settings word.
pub const THRESHOLD_AT: u32 = 24;
/// Place of the number of unreported faults in the high half of the tag window's word.
pub const UNREPORTED_AT: u32 = 24;
/// Place of log2 of the burst length in force in the high half of the tag window's word.
pub const BURST_LENGTH_AT: u32 = 22;
/// Mask of the base of the tag window in its word.
pub const TAG_WINDOW_MASK: u64 = (1 << 40) - 1;
/// Flag: the capture runs.
pub const FLAG_RUNNING: u32 = 1;
/// Flag: frequency slices are on.
pub const FLAG_FREQUENCY: u32 = 2;
/// Flag: the tag window is on.
pub const FLAG_TAG: u32 = 4;
/// Flag: the units of line records are bursts.
pub const FLAG_BURST: u32 = 8;

/// The memory description as words of a report. The card has them in its ROM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticWords {
    words: [u64; MAX_STATIC_WORDS],
    len: usize,
}

impl StaticWords {
    /// Packs a memory description.
    pub fn new(memory: &MemoryDescription) -> Self {
        let mut words = [0; MAX_STATIC_WORDS];
        let bits = |axis| memory.map.bits(axis);
        words[1] = u64::from_be_bytes([
            memory.generation as u8,
            bits(Axis::Rank),
            bits(Axis::Bank),
            bits(Axis::Row),
            bits(Axis::Column),
            memory.bus_log2,
            memory.burst_length,
            memory.line_log2,
        ]);
        words[2] = u64::from(memory.tck_ps) << 32 | u64::from(memory.tick_clocks);
        let flags = u8::from(memory.burst_from_mode_register) * MEMORY_BURST_FROM_MODE_REGISTER
            | u8::from(memory.mirror_odd_ranks) * MEMORY_MIRROR_ODD_RANKS;
        let [trfc_high, trfc_low] = memory.trfc_clocks.to_be_bytes();
        let [window_high, window_low] = memory.merge_window.to_be_bytes();
        words[3] = u64::from_be_bytes([
            memory.tag_window_log2,
            memory.config_stride_log2,
            memory.config_count,
            flags,
            trfc_high,
            trfc_low,
            window_high,
            window_low,
        ]);
        words[4] = u64::from(memory.trcd_clocks) << 56
            | u64::from(memory.trp_clocks) << 48
            | u64::from(memory.txs_clocks) << 32
            | u64::from(memory.tmrd_clocks) << 24
            | u64::from(memory.refresh_limit_clocks);
        let mut len = STATIC_HEADER_WORDS;
        for axis in Axis::ALL {
            for bit in 0..bits(axis) {
                words[len] = memory.map.mask(axis, bit);
                len += 1;
            }
        }
        words[0] = digest(&words[1..len]);
        StaticWords { words, len }
    }

    /// The words, beginning with the digest.
    pub fn as_slice(&self) -> &[u64] {
        &self.words[..self.len]
    }
}

/// 64-bit FNV-1a over the big-endian bytes of `words`.
pub fn digest(words: &[u64]) -> u64 {
    words.iter().flat_map(|word| word.to_be_bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Whether the words after the sync of a frame are a report of this version with the right digest.
/// `words`: big-endian. The kind of the frame is not considered. The records of a data frame are
/// taken for a report with a chance of 2^-64.
pub fn is_report(words: &[u8]) -> bool {
    const LEAST: usize = DYNAMIC_WORDS + STATIC_HEADER_WORDS;
    let (words, rest) = words.as_chunks::<WORD_BYTES>();
    if !rest.is_empty() || !(LEAST..=DYNAMIC_WORDS + MAX_STATIC_WORDS).contains(&words.len()) {
        return false;
    }
    let word = |at: usize| u64::from_be_bytes(words[at]);
    if word(0) >> (32 + VERSION_AT) != u64::from(crate::FORMAT_VERSION) {
        return false;
    }
    let described: Vec<u64> = (DYNAMIC_WORDS + 1..words.len()).map(word).collect();
    digest(&described) == word(DYNAMIC_WORDS)
}

/// A decoded report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Format version of the card.
    pub version: u8,
    /// Whether the capture runs.
    pub running: bool,
    /// Mode of the statistics unit.
    pub mode: Mode,
    /// Whether frequency slices are on.
    pub frequency: bool,
    /// The unit of line records.
    pub granularity: Granularity,
    /// Code of the time slice's length, see [`crate::config::slice_micros`].
    pub slice_code: u8,
    /// Number of words after which a frame is sent.
    pub threshold: u8,
    /// Base address of the tag window; `None` if it is off.
    pub tag_window: Option<u64>,
    /// READ bursts recorded since power-on. Bursts that the event queue lost are counted in
    /// [`Sync::lost`](crate::frame::Sync::lost) only.
    pub reads: u64,
    /// WRITE bursts recorded since power-on.
    pub writes: u64,
    /// Protocol faults recorded since power-on.
    pub faults: u32,
    /// Tags and marks recorded since power-on.
    pub tags: u32,
    /// Protocol faults that could not be reported, because no clock was free; 255 means 255 or
    /// more.
    pub unreported: u8,
    /// Current burst length in bus words; `None` if each command selects 4 or 8.
    pub burst_length: Option<u8>,
    /// Digest of the memory description.
    pub digest: u64,
    /// The memory description.
    pub memory: MemoryDescription,
}

/// The reason why a report is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReportError {
    /// There are fewer words than a report has.
    TooShort { words: usize, needed: usize },
    /// The format version is unknown.
    Version(u8),
    /// A field has an unknown value.
    Field(&'static str),
    /// The memory description does not match its digest.
    Digest { stated: u64, computed: u64 },
    /// The memory description is invalid.
    Memory,
}

impl core::error::Error for ReportError {}

impl core::fmt::Display for ReportError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ReportError::TooShort { words, needed } => {
                write!(f, "report has {words} words, needs {needed}")
            }
            ReportError::Version(version) => write!(f, "format version {version} is not known"),
            ReportError::Field(name) => write!(f, "unknown {name}"),
            ReportError::Digest { stated, computed } => write!(
                f,
                "memory description has digest {computed:016x}, report states {stated:016x}"
            ),
            ReportError::Memory => f.write_str("memory description is invalid"),
        }
    }
}

impl Report {
    /// Unpacks the words after the sync of an info or end frame.
    ///
    /// # Errors
    /// [`ReportError`] if words are missing, or if the format version, the mode or the memory
    /// description is not valid.
    pub fn decode(words: &[u64]) -> Result<Report, ReportError> {
        let needed = DYNAMIC_WORDS + STATIC_HEADER_WORDS;
        if words.len() < needed {
            return Err(ReportError::TooShort { words: words.len(), needed });
        }
        let (settings, low) = ((words[0] >> 32) as u32, words[0] as u32);
        let version = (settings >> VERSION_AT) as u8;
        if version != crate::FORMAT_VERSION {
            return Err(ReportError::Version(version));
        }
        let flags = settings >> FLAGS_AT & 0xff;
        let flag = |bit| flags & bit != 0;
        let (digest, memory) = memory_of(&words[DYNAMIC_WORDS..])?;
        Ok(Report {
            version,
            running: flag(FLAG_RUNNING),
            mode: Mode::from_code((settings >> MODE_AT & 15) as u8)
                .ok_or(ReportError::Field("mode"))?,
            frequency: flag(FLAG_FREQUENCY),
            granularity: if flag(FLAG_BURST) { Granularity::Burst } else { Granularity::Line },
            slice_code: (settings >> SLICE_AT & 31) as u8,
            threshold: (low >> THRESHOLD_AT) as u8,
            // The card compares no bits below the window's size.
            tag_window: flag(FLAG_TAG).then(|| {
                (words[4] & TAG_WINDOW_MASK) >> memory.tag_window_log2 << memory.tag_window_log2
            }),
            reads: words[1],
            writes: words[2],
            faults: (words[3] >> 32) as u32,
            tags: words[3] as u32,
            unreported: (words[4] >> (32 + UNREPORTED_AT)) as u8,
            burst_length: match words[4] >> (32 + BURST_LENGTH_AT) & 3 {
                0 => None,
                log2 => Some(1 << log2),
            },
            digest,
            memory,
        })
    }

    /// Packs the dynamic words as the card's statistics unit does. The only difference is the base
    /// of a tag window that is off, which a report does not contain.
    pub fn encode_dynamic(&self) -> [u64; DYNAMIC_WORDS] {
        let flags = u32::from(self.running) * FLAG_RUNNING
            | u32::from(self.frequency) * FLAG_FREQUENCY
            | u32::from(self.tag_window.is_some()) * FLAG_TAG
            | u32::from(self.granularity == Granularity::Burst) * FLAG_BURST;
        let settings = u32::from(self.version) << VERSION_AT
            | flags << FLAGS_AT
            | u32::from(self.mode as u8) << MODE_AT
            | u32::from(self.slice_code) << SLICE_AT;
        let burst_log2 = self.burst_length.map_or(0, u8::trailing_zeros);
        let state_machine =
            u32::from(self.unreported) << UNREPORTED_AT | burst_log2 << BURST_LENGTH_AT;
        [
            u64::from(settings) << 32 | u64::from(u32::from(self.threshold) << THRESHOLD_AT),
            self.reads,
            self.writes,
            u64::from(self.faults) << 32 | u64::from(self.tags),
            u64::from(state_machine) << 32 | self.tag_window.unwrap_or(0),
        ]
    }
}

fn memory_of(words: &[u64]) -> Result<(u64, MemoryDescription), ReportError> {
    let [number, rank, bank, row, column, bus_log2, burst_length, line_log2] =
        words[1].to_be_bytes();
    let masks = [column, row, bank, rank];
    let needed = STATIC_HEADER_WORDS + masks.iter().map(|bits| usize::from(*bits)).sum::<usize>();
    if words.len() < needed {
        let (words, needed) = (words.len() + DYNAMIC_WORDS, needed + DYNAMIC_WORDS);
        return Err(ReportError::TooShort { words, needed });
    }
    let computed = digest(&words[1..needed]);
    if computed != words[0] {
        return Err(ReportError::Digest { stated: words[0], computed });
    }
    let map = map_of(&words[STATIC_HEADER_WORDS..needed], masks).ok_or(ReportError::Memory)?;
    let generation = Generation::from_number(number).ok_or(ReportError::Field("DDR generation"))?;
    let bus_bytes = 1u32.checked_shl(bus_log2.into()).unwrap_or(0);
    let tck_ps = (words[2] >> 32) as u32;
    let mut memory =
        MemoryDescription::new(generation, map, bus_bytes, burst_length.into(), tck_ps)
            .map_err(|_| ReportError::Memory)?;
    let [tag, stride, count, flags, trfc_high, trfc_low, window_high, window_low] =
        words[3].to_be_bytes();
    if flags & !(MEMORY_BURST_FROM_MODE_REGISTER | MEMORY_MIRROR_ODD_RANKS) != 0 {
        return Err(ReportError::Field("flag of the memory description"));
    }
    memory.burst_from_mode_register = flags & MEMORY_BURST_FROM_MODE_REGISTER != 0;
    memory.mirror_odd_ranks = flags & MEMORY_MIRROR_ODD_RANKS != 0;
    memory.trcd_clocks = (words[4] >> 56) as u8;
    memory.trp_clocks = (words[4] >> 48) as u8;
    memory.txs_clocks = (words[4] >> 32) as u16;
    memory.tmrd_clocks = (words[4] >> 24) as u8;
    memory.refresh_limit_clocks = words[4] as u32 & 0xff_ffff;
    memory.line_log2 = line_log2;
    memory.tick_clocks = words[2] as u32;
    memory.tag_window_log2 = tag;
    memory.config_stride_log2 = stride;
    memory.config_count = count;
    memory.trfc_clocks = u16::from_be_bytes([trfc_high, trfc_low]);
    memory.merge_window = u16::from_be_bytes([window_high, window_low]);
    memory.check().map_err(|_| ReportError::Memory)?;
    Ok((words[0], memory))
}

fn map_of(masks: &[u64], bits: [u8; 4]) -> Option<AddressMap> {
    let mut builder = MapBuilder::default();
    let mut masks = masks.iter();
    for (axis, bits) in Axis::ALL.into_iter().zip(bits) {
        for bit in 0..bits {
            // The map would treat a coordinate bit without address bits as absent.
            let mask = masks.next().filter(|mask| **mask != 0)?;
            builder.bit(axis, bit, *mask).ok()?;
        }
    }
    builder.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn memory() -> MemoryDescription {
        let mut map = MapBuilder::default();
        (0..11).for_each(|bit| map.bit(Axis::Column, bit, 1 << (3 + bit)).unwrap());
        (0..2).for_each(|bit| map.bit(Axis::Bank, bit, 0b101 << (14 + bit)).unwrap());
        (0..13).for_each(|bit| map.bit(Axis::Row, bit, 1 << (16 + bit)).unwrap());
        MemoryDescription::new(Generation::Ddr1, map.build().unwrap(), 8, 4, 10_000).unwrap()
    }

    fn words(report: &Report) -> Vec<u64> {
        let memory = StaticWords::new(&report.memory);
        [&report.encode_dynamic()[..], memory.as_slice()].concat()
    }

    #[test]
    fn a_coordinate_bit_of_no_address_bits_is_refused() {
        let mut words = words(&report());
        // The top row bit; columns come before rows.
        words[DYNAMIC_WORDS + STATIC_HEADER_WORDS + 11 + 12] = 0;
        words[DYNAMIC_WORDS] = digest(&words[DYNAMIC_WORDS + 1..]);
        assert_eq!(Report::decode(&words), Err(ReportError::Memory));
    }

    fn report() -> Report {
        let memory = memory();
        Report {
            version: crate::FORMAT_VERSION,
            running: true,
            mode: Mode::Page,
            frequency: true,
            granularity: Granularity::Burst,
            slice_code: 3,
            threshold: 187,
            tag_window: Some(0x1234_0000),
            reads: 1 << 40,
            writes: 2,
            faults: 3,
            tags: 4,
            unreported: 5,
            burst_length: Some(8),
            digest: StaticWords::new(&memory).as_slice()[0],
            memory,
        }
    }

    #[test]
    fn a_report_comes_back() {
        for burst_length in [None, Some(2), Some(8)] {
            let report = Report { burst_length, ..report() };
            assert_eq!(Report::decode(&words(&report)), Ok(report));
        }
    }

    proptest! {
        #[test]
        fn a_flipped_bit_in_the_memory_description_is_noticed(bit in 0usize..64 * 30) {
            let mut words = words(&report());
            words[DYNAMIC_WORDS + bit / 64] ^= 1 << (bit % 64);
            prop_assert!(Report::decode(&words).is_err());
        }

        #[test]
        fn words_of_a_report_are_recognised(bit in 0usize..64 * 30) {
            let mut words = words(&report());
            let bytes = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_be_bytes()).collect() };
            prop_assert!(is_report(&bytes(&words)));
            prop_assert!(!is_report(&bytes(&words[..words.len() - 1])));
            words[DYNAMIC_WORDS + bit / 64] ^= 1 << (bit % 64);
            prop_assert!(!is_report(&bytes(&words)));
        }

        #[test]
        fn any_words_read_or_say_why(words in prop::collection::vec(any::<u64>(), 0..60)) {
            let _ = Report::decode(&words);
        }
    }
}

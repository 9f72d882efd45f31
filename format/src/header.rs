//! The header of a vector file to a memory description and the extent of the recording.
//!
//! The caller feeds lines one by one up to the `---` and keeps the file name and line number; an
//! error here says only what was expected.

use core::fmt;

use crate::address_map::{Axis, MapBuilder, MapError};
use crate::command::Generation;
use crate::memory::{MemoryDescription, MemoryError, tck_of_rate};

/// First line of every vector file.
pub const MAGIC: &str = "# ddr command-bus vector 1";
/// The line that ends the header.
pub const END: &str = "---";

/// A vector's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorHeader {
    /// The memory the vector was recorded on.
    pub memory: MemoryDescription,
    /// The generation whose pins the lines have: the memory's, unless the header states another one
    /// than a description that takes its place ([`HeaderParser::finish_with`]).
    pub generation: Generation,
    /// Ranks that CKE and CS# of the lines are of: the memory's, or fewer, as above.
    pub ranks: u8,
    /// First clock of the recording.
    pub first_clock: u64,
    /// Last clock of the recording.
    pub last_clock: u64,
    /// Every clock has a line; otherwise a clock without one is a DESELECT.
    pub all_clocks_listed: bool,
}

/// Why a header was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum HeaderError {
    /// The line is not of the expected form.
    Expected(&'static str),
    /// A key that must be there is missing.
    MissingKey(&'static str),
    /// A part of the memory's description is missing; a description from elsewhere can take the place
    /// of all of it ([`HeaderParser::finish_with`]).
    Undescribed(&'static str),
    /// Chip selects that are not one for each of the map's ranks.
    ChipSelects { stated: u32, ranks: u8 },
    /// The recording would end before it starts.
    ClockOrder { first: u64, last: u64 },
    /// The address map is wrong.
    Map(MapError),
    /// The memory description is wrong.
    Memory(MemoryError),
}

impl core::error::Error for HeaderError {}

impl From<MapError> for HeaderError {
    fn from(error: MapError) -> Self {
        HeaderError::Map(error)
    }
}

impl From<MemoryError> for HeaderError {
    fn from(error: MemoryError) -> Self {
        HeaderError::Memory(error)
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::Expected(what) => write!(f, "expected {what}"),
            HeaderError::MissingKey(key) => write!(f, "the header has no {key}="),
            HeaderError::Undescribed(part) => write!(f, "the header has no {part}"),
            HeaderError::ChipSelects { stated, ranks } => {
                write!(f, "{stated} chip selects stated, but the map has {ranks} ranks")
            }
            HeaderError::ClockOrder { first, last } => {
                write!(f, "first_clock={first} lies after last_clock={last}")
            }
            HeaderError::Map(error) => error.fmt(f),
            HeaderError::Memory(error) => error.fmt(f),
        }
    }
}

/// Collects header lines.
#[derive(Clone, Debug, Default)]
pub struct HeaderParser {
    map: MapBuilder,
    generation: Option<Generation>,
    tck_ps: Option<u32>,
    bus_bytes: Option<u32>,
    burst_length: Option<u32>,
    burst_bytes: Option<u32>,
    counts: [Option<u64>; 4],
    chip_selects: Option<u32>,
    mirrored: bool,
    first_clock: Option<u64>,
    last_clock: Option<u64>,
    unlisted: Option<bool>,
}

impl HeaderParser {
    /// Takes one line, without its line end.
    ///
    /// # Errors
    /// [`HeaderError::Expected`] if the line does not have the form of a header line,
    /// [`HeaderError::Map`] if it states a bit of the map that is out of range or was stated before.
    pub fn line(&mut self, line: &str) -> Result<(), HeaderError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(entry) = line.strip_prefix("map ") {
            return self.map_line(entry);
        }
        if line.starts_with("rows=") {
            return line.split_ascii_whitespace().try_for_each(|field| self.count(field));
        }
        let (key, value) = line.split_once('=').ok_or(HeaderError::Expected("key=value or ---"))?;
        let number = || value.trim().parse().map_err(|_| HeaderError::Expected("a decimal number"));
        let small = || {
            number().and_then(|n: u64| {
                u32::try_from(n).map_err(|_| HeaderError::Expected("a number below 2^32"))
            })
        };
        match key {
            "generation" => {
                let known = HeaderError::Expected("generation=DDR1, DDR2, DDR3 or DDR4");
                self.generation = Some(Generation::from_name(value.trim()).ok_or(known)?);
            }
            "speed" => self.tck_ps = parse_speed(value),
            "bus_bytes" => self.bus_bytes = Some(small()?),
            "burst_length" => self.burst_length = Some(small()?),
            "burst_bytes" => self.burst_bytes = Some(small()?),
            "chip_selects" => self.chip_selects = Some(small()?),
            "ranks" => self.counts[3] = Some(number()?),
            "mirror_odd_ranks" => {
                self.mirrored = match value.trim() {
                    "0" => false,
                    "1" => true,
                    _ => return Err(HeaderError::Expected("mirror_odd_ranks=0 or 1")),
                };
            }
            "first_clock" => self.first_clock = Some(number()?),
            "last_clock" => self.last_clock = Some(number()?),
            "unlisted_clocks" => {
                self.unlisted = Some(match value.trim() {
                    "none" => true,
                    "deselect" => false,
                    _ => return Err(HeaderError::Expected("unlisted_clocks=deselect or none")),
                });
            }
            // device_bytes, page_policy, columns and whatever a recorder adds: not needed to decode.
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, field: &str) -> Result<(), HeaderError> {
        let expected = HeaderError::Expected("rows=N banks=N columns=N");
        let (key, value) = field.split_once('=').ok_or(expected)?;
        let slot = match key {
            "columns" => 0,
            "rows" => 1,
            "banks" => 2,
            "ranks" => 3,
            _ => return Err(expected),
        };
        self.counts[slot] = Some(value.parse().map_err(|_| expected)?);
        Ok(())
    }

    fn map_line(&mut self, entry: &str) -> Result<(), HeaderError> {
        let expected = HeaderError::Expected("map row|bank|col|rank[N]=pN^pN");
        let (target, sum) = entry.trim().split_once('=').ok_or(expected)?;
        let (name, index) = target.trim().split_once('[').ok_or(expected)?;
        let axis = Axis::ALL.into_iter().find(|axis| axis.name() == name).ok_or(expected)?;
        let bit = index.strip_suffix(']').and_then(|bit| bit.parse().ok()).ok_or(expected)?;
        Ok(self.map.bit(axis, bit, parse_sum(sum).ok_or(expected)?)?)
    }

    /// The header, once its last line was taken.
    ///
    /// # Errors
    /// [`HeaderError`] if the lines do not describe the memory or state no `last_clock`, or if what they
    /// state is not consistent.
    pub fn finish(self) -> Result<VectorHeader, HeaderError> {
        let memory = self.memory()?;
        self.finish_with(memory)
    }

    /// The header, with `memory` in place of what the lines say of the memory. That may be incomplete
    /// then, or contradict itself; generation and ranks still say what the columns of a line are.
    ///
    /// # Errors
    /// [`HeaderError`] if the number of ranks is invalid or larger than that of `memory`, if `last_clock` is
    /// missing, or if it is before `first_clock`.
    pub fn finish_with(self, memory: MemoryDescription) -> Result<VectorHeader, HeaderError> {
        let ranks = self.stated_ranks()?.unwrap_or(memory.ranks());
        if ranks > memory.ranks() {
            return Err(HeaderError::ChipSelects { stated: ranks.into(), ranks: memory.ranks() });
        }
        let first = self.first_clock.unwrap_or(0);
        let last = self.last_clock.ok_or(HeaderError::MissingKey("last_clock"))?;
        if last < first {
            return Err(HeaderError::ClockOrder { first, last });
        }
        Ok(VectorHeader {
            generation: self.generation.unwrap_or(memory.generation),
            ranks,
            memory,
            first_clock: first,
            last_clock: last,
            all_clocks_listed: self.unlisted.unwrap_or(false),
        })
    }

    /// The memory as the lines describe it.
    fn memory(&self) -> Result<MemoryDescription, HeaderError> {
        let missing = HeaderError::Undescribed;
        if self.map.is_empty() {
            return Err(missing("address map (`map row[0]=p16` and so on)"));
        }
        let map = self.map.clone().build()?;
        for (axis, stated) in Axis::ALL.into_iter().zip(self.counts) {
            let mapped = 1u64 << map.bits(axis);
            if let Some(stated) = stated.filter(|stated| *stated != mapped) {
                return Err(MemoryError::Count { axis, stated, mapped }.into());
            }
        }
        let bus_bytes = self.bus_bytes.ok_or(missing("bus_bytes="))?;
        let burst_length = match (self.burst_length, self.burst_bytes) {
            (Some(length), _) => length,
            (None, Some(bytes)) if bus_bytes != 0 => bytes / bus_bytes,
            (None, _) => return Err(missing("burst_length=")),
        };
        let generation = self.generation.ok_or(missing("generation="))?;
        let tck_ps = self.tck_ps.ok_or(missing("speed="))?;
        let mut memory = MemoryDescription::new(generation, map, bus_bytes, burst_length, tck_ps)?;
        memory.mirror_odd_ranks = self.mirrored;
        memory.check()?;
        let ranks = memory.ranks();
        if let Some(stated) = self.chip_selects.filter(|stated| *stated != u32::from(ranks)) {
            return Err(HeaderError::ChipSelects { stated, ranks });
        }
        let computed = memory.burst_bytes();
        if let Some(stated) = self.burst_bytes.filter(|stated| *stated != computed) {
            return Err(MemoryError::BurstBytes { stated, computed }.into());
        }
        Ok(memory)
    }

    /// Ranks as the lines state them: by the map, else by a count of ranks or of chip selects.
    fn stated_ranks(&self) -> Result<Option<u8>, HeaderError> {
        if !self.map.is_empty() {
            return Ok(Some(1 << self.map.bits(Axis::Rank)));
        }
        match self.counts[3].or(self.chip_selects.map(u64::from)) {
            None => Ok(None),
            Some(ranks @ (1 | 2 | 4)) => Ok(Some(ranks as u8)),
            Some(_) => Err(HeaderError::Expected("1, 2 or 4 ranks")),
        }
    }
}

/// `p15^p18` to the mask of its address bits; an XOR of a bit with itself is refused.
pub fn parse_sum(sum: &str) -> Option<u64> {
    sum.split('^').try_fold(0u64, |mask, term| {
        let bit: u32 = term.trim().strip_prefix('p')?.parse().ok()?;
        let bit = 1u64.checked_shl(bit)?;
        (mask & bit == 0).then_some(mask | bit)
    })
}

/// `DDR-200 (tCK 10 ns)`, `DDR3-800` or `tCK 7.5 ns` to the clock period in picoseconds; a stated
/// tCK wins over the data rate.
pub fn parse_speed(speed: &str) -> Option<u32> {
    if let Some((_, rest)) = speed.split_once("tCK") {
        let end = rest.find("ns")?;
        let mut parts = rest[..end].trim().splitn(2, '.');
        let whole: u32 = parts.next()?.parse().ok()?;
        let fraction = parts.next().unwrap_or("");
        let digits = fraction.get(..fraction.len().min(3))?;
        let scale = 10u32.pow(3 - digits.len() as u32);
        let thousandths: u32 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        return whole.checked_mul(1000)?.checked_add(thousandths * scale);
    }
    let (_, rate) = speed.split_once('-')?;
    let end = rate.find(|c: char| !c.is_ascii_digit()).unwrap_or(rate.len());
    tck_of_rate(rate[..end].parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &str = "# ddr command-bus vector 1\ngeneration=DDR1\nspeed=DDR-266 (tCK 7.5 ns)\n\
        bus_bytes=8\nchip_selects=1\nrows=2 banks=2 columns=8\nmap row[0]=p7\nmap bank[0]=p6^p7\n\
        map col[0]=p3\nmap col[1]=p4\nmap col[2]=p5\nburst_bytes=32\nburst_length=4\n\
        unlisted_clocks=none\nfirst_clock=4\nlast_clock=9\ncolumns=clock cke\n";

    fn parse(text: &str) -> Result<VectorHeader, HeaderError> {
        let mut parser = HeaderParser::default();
        text.lines().try_for_each(|line| parser.line(line))?;
        parser.finish()
    }

    #[test]
    fn a_header_is_read() {
        let header = parse(HEADER).unwrap();
        assert_eq!((header.first_clock, header.last_clock), (4, 9));
        assert!(header.all_clocks_listed);
        assert_eq!(header.memory.tck_ps, 7500);
        assert_eq!(header.memory.map.mask(Axis::Bank, 0), 0b1100_0000);
        assert_eq!(header.memory.trfc_clocks, 9);
    }

    #[test]
    fn contradictions_are_named() {
        let wrong = |from: &str, to: &str| parse(&HEADER.replace(from, to)).unwrap_err();
        let count = MemoryError::Count { axis: Axis::Row, stated: 4, mapped: 2 };
        assert_eq!(wrong("rows=2", "rows=4"), HeaderError::Memory(count));
        let bytes = MemoryError::BurstBytes { stated: 64, computed: 32 };
        assert_eq!(wrong("burst_bytes=32", "burst_bytes=64"), HeaderError::Memory(bytes));
        let selects = HeaderError::ChipSelects { stated: 2, ranks: 1 };
        assert_eq!(wrong("chip_selects=1", "chip_selects=2"), selects);
        assert_eq!(
            wrong("last_clock=9", "last_clock=3"),
            HeaderError::ClockOrder { first: 4, last: 3 }
        );
        assert!(matches!(wrong("map row[0]=p7", "map row[0]=q7"), HeaderError::Expected(_)));
    }

    /// The header without what describes the memory, or with only `kept` of it.
    fn undescribed(kept: &[&str]) -> String {
        let extent = ["#", "unlisted_clocks=", "first_clock=", "last_clock=", "columns="];
        let is_kept =
            |line: &&str| [&extent, kept].concat().iter().any(|key| line.starts_with(key));
        HEADER.lines().filter(is_kept).fold(String::new(), |text, line| text + line + "\n")
    }

    fn parse_with(text: &str, memory: MemoryDescription) -> Result<VectorHeader, HeaderError> {
        let mut parser = HeaderParser::default();
        text.lines().try_for_each(|line| parser.line(line))?;
        parser.finish_with(memory)
    }

    #[test]
    fn a_description_from_elsewhere_takes_the_place_of_the_header_s() {
        let whole = parse(HEADER).unwrap();
        let wrong = HEADER.replace("rows=2", "rows=64").replace("map bank[0]", "map bank[1]");
        assert!(parse(&wrong).is_err());
        for text in [HEADER, &undescribed(&[]), &undescribed(&["generation=", "rows="]), &wrong] {
            assert_eq!(parse_with(text, whole.memory.clone()).as_ref(), Ok(&whole), "{text}");
        }
    }

    #[test]
    fn lines_keep_the_generation_and_ranks_that_the_header_states() {
        let memory =
            parse(&(HEADER.to_owned() + "map rank[0]=p8\n").replace("chip_selects=1\n", ""));
        let memory = memory.unwrap().memory;
        let ranks = |text: &str| parse_with(text, memory.clone()).map(|header| header.ranks);
        assert_eq!(ranks(&undescribed(&[])), Ok(2));
        assert_eq!(ranks(&undescribed(&["chip_selects="])), Ok(1));
        assert_eq!(ranks(HEADER), Ok(1));
        let four = undescribed(&[]) + "ranks=4\n";
        assert_eq!(ranks(&four), Err(HeaderError::ChipSelects { stated: 4, ranks: 2 }));
        let three = undescribed(&[]) + "chip_selects=300\n";
        assert_eq!(ranks(&three), Err(HeaderError::Expected("1, 2 or 4 ranks")));
        let other = undescribed(&["generation="]).replace("DDR1", "DDR2");
        assert_eq!(parse_with(&other, memory).unwrap().generation, Generation::Ddr2);
    }

    #[test]
    fn what_is_missing_of_the_description_is_named() {
        let without = |key: &str| {
            let lines = HEADER.lines().filter(|line| !line.starts_with(key));
            parse(&lines.collect::<std::vec::Vec<_>>().join("\n")).unwrap_err().to_string()
        };
        let map = "the header has no address map (`map row[0]=p16` and so on)";
        assert_eq!(without("map "), map);
        assert_eq!(without("speed="), "the header has no speed=");
        assert_eq!(without("last_clock="), "the header has no last_clock=");
    }

    #[test]
    fn speeds_are_read() {
        assert_eq!(parse_speed("DDR-200"), Some(10_000));
        assert_eq!(parse_speed("DDR3-800 (tCK 2.5 ns)"), Some(2_500));
        assert_eq!(parse_speed("DDR4-1866 (tCK 1.071 ns)"), Some(1_071));
        assert_eq!(parse_speed("fast"), None);
    }

    proptest! {
        #[test]
        fn any_line_is_taken_or_refused(line in ".{0,40}") {
            let _ = HeaderParser::default().line(&line);
            let _ = parse_speed(&line);
            let _ = parse_speed(&std::format!("tCK 1.{line} ns"));
        }
    }
}

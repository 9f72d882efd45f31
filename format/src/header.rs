//! Parses the header of a vector file into a memory description and the range of the recording, and
//! prints headers and lines.
//!
//! The caller passes the lines one by one, up to the line `---`, and adds the file name and the
//! line number to errors.

use core::fmt;

use crate::address_map::{Axis, MapBuilder, MapError};
use crate::command::Generation;
use crate::memory::{MemoryDescription, MemoryError, tck_of_rate};

mod line;
mod text;

pub use line::Line;
pub use text::{HeaderText, LAST_CLOCK};

/// First line of every vector file.
pub const MAGIC: &str = "# ddr command-bus vector 1";
/// The line that ends the header.
pub const END: &str = "---";

/// A vector's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorHeader {
    /// The memory of the recording.
    pub memory: MemoryDescription,
    /// The generation whose pins the lines have. It equals the memory's generation, unless the
    /// memory was described elsewhere ([`HeaderParser::finish_with`]) and the header states another
    /// generation.
    pub generation: Generation,
    /// Number of ranks whose CKE and CS# the lines have. It equals the memory's number of ranks, or
    /// is smaller if the memory was described elsewhere.
    pub ranks: u8,
    /// First clock of the recording.
    pub first_clock: u64,
    /// Last clock of the recording.
    pub last_clock: u64,
    /// Whether every clock has a line; otherwise a clock without a line is a DESELECT.
    pub all_clocks_listed: bool,
}

/// The reason why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum HeaderError {
    /// The line is not of the expected form.
    Expected(&'static str),
    /// A required key is missing.
    MissingKey(&'static str),
    /// A part of the memory's description is missing. A description from elsewhere can replace the
    /// whole description ([`HeaderParser::finish_with`]).
    Undescribed(&'static str),
    /// The number of chip selects is not the number of the map's ranks.
    ChipSelects { stated: u32, ranks: u8 },
    /// The last clock is before the first one.
    ClockOrder { first: u64, last: u64 },
    /// The address map is invalid.
    Map(MapError),
    /// The memory description is invalid.
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

/// A parser of a header, line by line.
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
    /// Parses one line, without its line end.
    ///
    /// # Errors
    /// [`HeaderError::Expected`] if the line does not have the form of a header line,
    /// [`HeaderError::Map`] if it states a bit of the map that is out of range or was stated
    /// before.
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
            // device_bytes, page_policy, columns and keys that a recorder adds are not needed to
            // decode.
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

    /// Returns the header after its last line.
    ///
    /// # Errors
    /// [`HeaderError`] if the lines do not describe the memory or state no `last_clock`, or if what
    /// they state is not consistent.
    pub fn finish(self) -> Result<VectorHeader, HeaderError> {
        let memory = self.memory()?;
        self.finish_with(memory)
    }

    /// Returns the header, with `memory` in place of the memory that the lines describe. The
    /// description in the lines may then be incomplete or inconsistent; the generation and the
    /// ranks in it still define the columns of a line.
    ///
    /// # Errors
    /// [`HeaderError`] if the number of ranks is invalid or larger than the number of ranks of
    /// `memory`, if `last_clock` is missing, or if it is before `first_clock`.
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

    /// The memory that the lines describe.
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

    /// The number of ranks that the lines state: by the map, or otherwise by a number of ranks or
    /// of chip selects.
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

/// Parses a sum such as `p15^p18` into a mask of address bits; `None` if it is invalid or names a
/// bit twice.
pub fn parse_sum(sum: &str) -> Option<u64> {
    sum.split('^').try_fold(0u64, |mask, term| {
        let bit: u32 = term.trim().strip_prefix('p')?.parse().ok()?;
        let bit = 1u64.checked_shl(bit)?;
        (mask & bit == 0).then_some(mask | bit)
    })
}

/// Parses a speed such as `DDR-200 (tCK 10 ns)`, `DDR3-800` or `tCK 7.5 ns` into the clock period
/// in picoseconds. A stated tCK takes precedence over the data rate.
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
mod tests;

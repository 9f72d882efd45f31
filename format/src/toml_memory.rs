//! Memory descriptions in TOML.
//!
//! ```toml
//! generation = "DDR1"
//! speed = "DDR-200"          # or tck_ns = 10.0
//! bus_bytes = 8
//! burst_length = 4
//! line_bytes = 64            # optional, as are trfc_clocks, tick_clocks, merge_window,
//!                            # tag_window_bytes, config_stride and config_count
//! [map]                      # low bit first; a range stands for several bits
//! column = ["p3-p13"]
//! bank = ["p14^p16", "p15^p17"]
//! row = ["p16-p28"]
//! ```

use serde::Deserialize;

use crate::address_map::{Axis, MapBuilder, MapError};
use crate::command::Generation;
use crate::header::{parse_speed, parse_sum};
use crate::memory::{MemoryDescription, MemoryError};

/// Why a TOML memory description was refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum TomlError {
    /// Not TOML, a key this version does not know, or a wrong type; says line and column.
    Syntax(toml::de::Error),
    /// A value that is not of the expected form.
    Expected(&'static str, String),
    /// The address map is wrong.
    Map(MapError),
    /// The description is wrong.
    Memory(MemoryError),
}

impl std::fmt::Display for TomlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TomlError::Syntax(error) => error.fmt(f),
            TomlError::Expected(what, got) => write!(f, "expected {what}, got `{got}`"),
            TomlError::Map(error) => write!(f, "[map]: {error}"),
            TomlError::Memory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TomlError {}

impl From<MapError> for TomlError {
    fn from(error: MapError) -> Self {
        TomlError::Map(error)
    }
}

impl From<MemoryError> for TomlError {
    fn from(error: MemoryError) -> Self {
        TomlError::Memory(error)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    generation: String,
    speed: Option<String>,
    tck_ns: Option<f64>,
    bus_bytes: u32,
    burst_length: u32,
    line_bytes: Option<u32>,
    trfc_clocks: Option<u16>,
    tick_clocks: Option<u32>,
    merge_window: Option<u16>,
    tag_window_bytes: Option<u32>,
    config_stride: Option<u32>,
    config_count: Option<u8>,
    map: Map,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Map {
    column: Vec<String>,
    row: Vec<String>,
    bank: Vec<String>,
    #[serde(default)]
    rank: Vec<String>,
}

/// Reads a memory description.
pub fn parse(text: &str) -> Result<MemoryDescription, TomlError> {
    let file: File = toml::from_str(text).map_err(TomlError::Syntax)?;
    let mut map = MapBuilder::default();
    add(&mut map, Axis::Column, &file.map.column)?;
    add(&mut map, Axis::Row, &file.map.row)?;
    add(&mut map, Axis::Bank, &file.map.bank)?;
    add(&mut map, Axis::Rank, &file.map.rank)?;
    let generation = Generation::from_name(&file.generation).ok_or_else(|| {
        TomlError::Expected("generation = \"DDR1\" to \"DDR4\"", file.generation.clone())
    })?;
    let mut memory = MemoryDescription::new(
        generation,
        map.build()?,
        file.bus_bytes,
        file.burst_length,
        period(&file)?,
    )?;
    if let Some(bytes) = file.line_bytes {
        memory.line_log2 = power_of_two("line_bytes, a power of two", bytes)?;
    }
    if let Some(bytes) = file.tag_window_bytes {
        memory.tag_window_log2 = power_of_two("tag_window_bytes, a power of two", bytes)?;
    }
    if let Some(bytes) = file.config_stride {
        memory.config_stride_log2 = power_of_two("config_stride, a power of two", bytes)?;
    }
    memory.trfc_clocks = file.trfc_clocks.unwrap_or(memory.trfc_clocks);
    memory.tick_clocks = file.tick_clocks.unwrap_or(memory.tick_clocks);
    memory.merge_window = file.merge_window.unwrap_or(memory.merge_window);
    memory.config_count = file.config_count.unwrap_or(memory.config_count);
    memory.check()?;
    Ok(memory)
}

fn period(file: &File) -> Result<u32, TomlError> {
    match (file.tck_ns, &file.speed) {
        (Some(nanos), _) => Ok((nanos * 1000.0).round() as u32),
        (None, Some(speed)) => parse_speed(speed)
            .ok_or_else(|| TomlError::Expected("speed such as \"DDR-200\"", speed.clone())),
        (None, None) => Err(TomlError::Expected("speed or tck_ns", "neither".into())),
    }
}

fn power_of_two(what: &'static str, value: u32) -> Result<u8, TomlError> {
    if value.is_power_of_two() {
        Ok(value.trailing_zeros() as u8)
    } else {
        Err(TomlError::Expected(what, value.to_string()))
    }
}

/// Adds the bits of one axis; `p16-p28` stands for thirteen of them.
fn add(map: &mut MapBuilder, axis: Axis, entries: &[String]) -> Result<(), TomlError> {
    let mut bit = 0;
    for entry in entries {
        let expected = || {
            TomlError::Expected(
                "an address bit p16, a sum p15^p18 or a range p16-p28",
                entry.clone(),
            )
        };
        let masks: Vec<u64> = match entry.split_once('-') {
            None => vec![parse_sum(entry).ok_or_else(expected)?],
            Some((first, last)) => {
                let first = parse_sum(first).ok_or_else(expected)?.trailing_zeros();
                let last = parse_sum(last).ok_or_else(expected)?.trailing_zeros();
                (first..=last).map(|bit| 1 << bit).collect()
            }
        };
        for mask in masks {
            map.bit(axis, bit, mask)?;
            bit += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\nburst_length = 4\n\
        [map]\ncolumn = ['p3-p13']\nbank = ['p14^p16', 'p15^p17']\nrow = ['p16-p28']\n";

    #[test]
    fn a_description_is_read() {
        let memory = parse(TEXT).unwrap();
        assert_eq!(memory.tck_ps, 10_000);
        assert_eq!(memory.bits(Axis::Row), 13);
        assert_eq!(memory.map.mask(Axis::Bank, 1), 1 << 15 | 1 << 17);
        assert_eq!(memory.capacity(), 512 << 20);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |from: &str, to: &str| parse(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(error("speed", "sped").contains("sped"));
        assert_eq!(
            error("'p15^p17'", "'p15^x'"),
            "expected an address bit p16, a sum p15^p18 or a range p16-p28, got `p15^x`"
        );
        assert_eq!(
            error("'p15^p17'", "'p14^p17'"),
            "[map]: more coordinate bits than address bits: the map is ambiguous"
        );
        assert_eq!(
            error("burst_length = 4", "burst_length = 3"),
            "burst length 3 is not 2, 4 or 8"
        );
    }
}

//! Parses memory descriptions in TOML.
//!
//! ```toml
//! generation = "DDR1"
//! speed = "DDR-200"          # or tck_ns = 10.0
//! bus_bytes = 8
//! burst_length = 4           # or "mode_register": as written there, initial_burst_length until then
//! line_bytes = 64            # optional, as are tick_clocks, merge_window, config_stride and config_count
//! tag_window_bytes = 2097152 # optional; the default is 2 MiB
//! mirror_odd_ranks = false   # optional; modules that swap address pins of odd ranks (DDR3, DDR4)
//! # Optional: the distances in clocks that are checked. Shortest distances (0 or 1: not checked):
//! # trfc_clocks, txs_clocks, tmrd_clocks, trp_clocks, trcd_clocks. Longest time without REFRESH
//! # (0: not checked): refresh_limit_clocks. The defaults are JEDEC's, see `memory::default_trfc` and so on.
//! [map]                      # low bit first; a range stands for several bits
//! column = ["p3-p13"]
//! bank = ["p14^p16", "p15^p17"]
//! row = ["p16-p28"]
//! rank = []                  # none: one rank; two bits: four
//! ```

use serde::Deserialize;

use crate::address_map::{Axis, MapBuilder, MapError};
use crate::command::Generation;
use crate::header::{parse_speed, parse_sum};
use crate::memory::{DEFAULT_TAG_WINDOW_LOG2, MemoryDescription, MemoryError};

/// The reason why a TOML memory description is invalid.
#[derive(Debug)]
#[non_exhaustive]
pub enum TomlError {
    /// The text is not TOML, or has an unknown key or a value of a wrong type. The error states
    /// line and column.
    Syntax(toml::de::Error),
    /// A value does not have the expected form.
    Expected(&'static str, String),
    /// The address map is invalid.
    Map(MapError),
    /// The description is invalid.
    Memory(MemoryError),
}

impl std::fmt::Display for TomlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TomlError::Syntax(error) => f.write_str(&syntax_text(error)),
            TomlError::Expected(what, got) => write!(f, "expected {what}, got `{got}`"),
            TomlError::Map(error) => write!(f, "[map]: {error}"),
            TomlError::Memory(error) => error.fmt(f),
        }
    }
}

/// Describes a syntax error on one line: line and column, and the reason, without the quoted lines
/// of the text.
pub fn syntax_text(error: &toml::de::Error) -> String {
    let (full, message) = (error.to_string(), error.message());
    match full.lines().next() {
        Some(place) if !message.starts_with(place) => format!("{place}: {message}"),
        _ => message.to_owned(),
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
    burst_length: BurstLength,
    initial_burst_length: Option<u32>,
    mirror_odd_ranks: Option<bool>,
    line_bytes: Option<u32>,
    trfc_clocks: Option<u16>,
    trcd_clocks: Option<u8>,
    trp_clocks: Option<u8>,
    tmrd_clocks: Option<u8>,
    txs_clocks: Option<u16>,
    refresh_limit_clocks: Option<u32>,
    tick_clocks: Option<u32>,
    merge_window: Option<u16>,
    tag_window_bytes: Option<u32>,
    config_stride: Option<u32>,
    config_count: Option<u8>,
    map: Map,
}

/// A number of bus words, or `"mode_register"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum BurstLength {
    Fixed(u32),
    Written(String),
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

/// Parses a memory description.
///
/// # Errors
/// [`TomlError`] if the text is not TOML of this form, or if the map or another value is not valid.
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
    let (burst_length, followed) = burst_length(&file, generation)?;
    let mut memory = MemoryDescription::new(
        generation,
        map.build()?,
        file.bus_bytes,
        burst_length,
        period(&file)?,
    )?;
    if followed {
        memory.follow_mode_register();
    }
    if let Some(bytes) = file.line_bytes {
        memory.line_log2 = power_of_two("line_bytes, a power of two", bytes)?;
    }
    memory.tag_window_log2 = match file.tag_window_bytes {
        Some(bytes) => power_of_two("tag_window_bytes, a power of two", bytes)?,
        None => DEFAULT_TAG_WINDOW_LOG2,
    };
    if let Some(bytes) = file.config_stride {
        memory.config_stride_log2 = power_of_two("config_stride, a power of two", bytes)?;
    }
    memory.trfc_clocks = file.trfc_clocks.unwrap_or(memory.trfc_clocks);
    memory.trcd_clocks = file.trcd_clocks.unwrap_or(memory.trcd_clocks);
    memory.trp_clocks = file.trp_clocks.unwrap_or(memory.trp_clocks);
    memory.tmrd_clocks = file.tmrd_clocks.unwrap_or(memory.tmrd_clocks);
    memory.txs_clocks = file.txs_clocks.unwrap_or(memory.txs_clocks);
    memory.refresh_limit_clocks = file.refresh_limit_clocks.unwrap_or(memory.refresh_limit_clocks);
    memory.mirror_odd_ranks = file.mirror_odd_ranks.unwrap_or(false);
    memory.tick_clocks = file.tick_clocks.unwrap_or(memory.tick_clocks);
    memory.merge_window = file.merge_window.unwrap_or(memory.merge_window);
    memory.config_count = file.config_count.unwrap_or(memory.config_count);
    memory.check()?;
    Ok(memory)
}

/// The initial burst length, and whether the mode register may change it.
fn burst_length(file: &File, generation: Generation) -> Result<(u32, bool), TomlError> {
    match (&file.burst_length, file.initial_burst_length) {
        (BurstLength::Fixed(length), None) => Ok((*length, false)),
        (BurstLength::Fixed(_), Some(length)) => Err(TomlError::Expected(
            "initial_burst_length only with burst_length = \"mode_register\"",
            length.to_string(),
        )),
        (BurstLength::Written(place), initial) if place == "mode_register" => {
            let usual = if generation >= Generation::Ddr3 { 8 } else { 4 };
            match initial.unwrap_or(usual) {
                2 if generation >= Generation::Ddr2 => Err(TomlError::Expected(
                    "initial_burst_length = 4 or 8 from DDR2 on",
                    "2".into(),
                )),
                length => Ok((length, true)),
            }
        }
        (BurstLength::Written(place), _) => {
            Err(TomlError::Expected("burst_length, a number or \"mode_register\"", place.clone()))
        }
    }
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

/// Adds the bits of one axis. The entry `p16-p28` is a range of thirteen bits.
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
        assert_eq!(memory.tag_window_log2, DEFAULT_TAG_WINDOW_LOG2);
        assert_eq!(memory.map.mask(Axis::Bank, 1), 1 << 15 | 1 << 17);
        assert_eq!(memory.capacity(), 512 << 20);
    }

    #[test]
    fn errors_of_syntax_are_on_one_line_and_state_the_place() {
        for (text, place, reason) in [
            ("\n\nspeed = \u{1b}[2Jx", "TOML parse error at line 3, column 10: ", ""),
            ("sped = 1", "TOML parse error at line 1, column 1: ", "unknown field `sped`"),
            ("", "TOML parse error at line 1, column 1: ", "missing field `generation`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{place}{reason}")), "{error:?}");
            assert_eq!(error.lines().count(), 1, "{error:?}");
        }
    }

    #[test]
    fn a_burst_length_may_be_left_to_the_mode_register() {
        let text = TEXT.replace("burst_length = 4", "burst_length = 'mode_register'");
        let memory = parse(&text).unwrap();
        assert!(memory.burst_from_mode_register);
        assert_eq!((memory.burst_length, memory.burst_log2()), (4, 4));
        assert_eq!((memory.line_log2, memory.config_stride_log2), (6, 6));
        let eight = parse(&format!("initial_burst_length = 8\n{text}")).unwrap();
        assert_eq!(eight.burst_length, 8);
        let error = parse(&format!("config_stride = 8\n{text}")).unwrap_err().to_string();
        assert_eq!(error, "config_stride_log2 = 3 is out of range 6 to 12");
    }

    #[test]
    fn ranks_and_distances_are_read() {
        let text = TEXT.replace("row = ['p16-p28']", "row = ['p17-p29']\nrank = ['p16^p20']");
        let text = format!("trcd_clocks = 0\ntxs_clocks = 20\nrefresh_limit_clocks = 7\n{text}");
        let unchecked = parse(&format!("trfc_clocks = 0\ntmrd_clocks = 0\n{text}")).unwrap();
        assert_eq!((unchecked.trfc_clocks, unchecked.tmrd_clocks), (0, 0));
        let memory = parse(&text).unwrap();
        assert_eq!((memory.ranks(), memory.trcd_clocks, memory.txs_clocks), (2, 0, 20));
        assert_eq!((memory.refresh_limit_clocks, memory.trp_clocks), (7, 2));
        let error = parse(&format!("mirror_odd_ranks = true\n{text}")).unwrap_err().to_string();
        assert_eq!(error, "DDR1 modules do not mirror addresses");
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

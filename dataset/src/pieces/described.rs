//! Interprets the descriptions of memories and settings in the table `runs`.

use hmtt::analysis::bank_map::BankMap;
use hmtt::analysis::{AddressSpace, Known};
use hmtt_format::address_map::{AddressMap, Axis, MapBuilder};
use hmtt_format::config::Mode;
use hmtt_format::{Generation, MemoryDescription};
use serde_json::Value;

/// Parses an address map from the entries of a memory's description, such as `bank[1]=p15^p18`.
/// Returns `None` if an entry is damaged.
pub fn address_map<'a>(entries: impl IntoIterator<Item = &'a str>) -> Option<AddressMap> {
    let mut map = MapBuilder::default();
    for entry in entries {
        let (coordinate, sum) = entry.split_once('=')?;
        let (axis, bit) = coordinate.strip_suffix(']')?.split_once('[')?;
        let axis = Axis::ALL.into_iter().find(|one| one.name() == axis)?;
        let mut mask = 0;
        for name in sum.split('^') {
            let bit: u32 = name.strip_prefix('p')?.parse().ok()?;
            mask |= 1u64.checked_shl(bit)?;
        }
        map.bit(axis, bit.parse().ok()?, mask).ok()?;
    }
    if map.is_empty() {
        return None;
    }
    map.build().ok()
}

/// Facts about a session's accesses, from the descriptions in `runs`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Described {
    /// Facts that the analyses use.
    pub known: Known,
    /// Bytes of a burst. Page runs and slices count bursts.
    pub burst_bytes: Option<u32>,
    /// Whether the card was in analysis mode, in which it records no accesses.
    pub has_analysis_mode: bool,
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

impl Described {
    /// Interprets the JSON objects of the columns `memory` and `settings`. If they are absent, the
    /// card has not reported, and little is known.
    pub fn new(memory: Option<&str>, settings: Option<&str>) -> Described {
        let no_report =
            Known { address_space: AddressSpace::Physical, clocks: true, ..Known::default() };
        let object = |text: Option<&str>| -> Option<Value> { serde_json::from_str(text?).ok() };
        let (Some(memory), Some(settings)) = (object(memory), object(settings)) else {
            return Described { known: no_report, ..Described::default() };
        };
        let bus_bytes = number(&memory["bus_bytes"]).filter(|bytes| *bytes > 0);
        let unit_bytes = match settings["granularity"].as_str() {
            Some("line") => number(&memory["line_bytes"]),
            // If each command may select its burst length, `burst_length` is no number, and sizes
            // are not known.
            _ => number(&settings["burst_length"])
                .zip(bus_bytes)
                .and_then(|(words, bytes)| words.checked_mul(bytes)),
        };
        let entries = memory["map"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let map = address_map(entries);
        let known = Known {
            tck_ps: number(&memory["tck_ps"]),
            unit_bytes: unit_bytes.filter(|bytes| *bytes > 0),
            capacity_bytes: memory["capacity_bytes"].as_u64(),
            bus_bytes,
            bank_map: map.as_ref().map(BankMap::from),
            ..no_report
        };
        let burst_bytes = map.and_then(|map| burst_bytes(&memory, map));
        let has_analysis_mode = settings["mode"].as_str() == Some(Mode::Analysis.name());
        Described { known, burst_bytes, has_analysis_mode }
    }
}

/// Bytes of the smallest burst of a memory, which is the unit in which its card counts.
fn burst_bytes(memory: &Value, map: AddressMap) -> Option<u32> {
    let name = memory["generation"].as_str()?;
    let generation = Generation::ALL.into_iter().find(|generation| generation.name() == name)?;
    let [bus_bytes, burst_length, tck_ps] =
        ["bus_bytes", "burst_length", "tck_ps"].map(|name| number(&memory[name]));
    let mut described =
        MemoryDescription::new(generation, map, bus_bytes?, burst_length?, tck_ps?).ok()?;
    if memory["burst_from_mode_register"].as_bool() == Some(true) {
        described.follow_mode_register();
    }
    1u32.checked_shl(described.burst_log2().into())
}

//! Interprets the descriptions of memories and settings in the table `runs`.

use hmtt::analysis::bank_map::BankMap;
use hmtt::analysis::{AddressSpace, Known};
use hmtt_format::address_map::{AddressMap, Axis, MapBuilder};
use serde_json::Value;

/// The map of addresses of a memory, from the entries that its description has: `bank[1]=p15^p18`. `None` if they are damaged.
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

/// What is known of the accesses of a session. `memory`, `settings`: JSON objects; without them the card has not reported.
pub fn known(memory: Option<&str>, settings: Option<&str>) -> Known {
    let no_report =
        Known { address_space: AddressSpace::Physical, clocks: true, ..Known::default() };
    let object = |text: Option<&str>| -> Option<Value> { serde_json::from_str(text?).ok() };
    let (Some(memory), Some(settings)) = (object(memory), object(settings)) else {
        return no_report;
    };
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let bus_bytes = number(&memory["bus_bytes"]).filter(|bytes| *bytes > 0);
    let unit_bytes = match settings["granularity"].as_str() {
        Some("line") => number(&memory["line_bytes"]),
        // Each command may select its burst length; then sizes are not known.
        _ => number(&settings["burst_length"])
            .zip(bus_bytes)
            .and_then(|(words, bytes)| words.checked_mul(bytes)),
    };
    let entries = memory["map"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Known {
        tck_ps: number(&memory["tck_ps"]),
        unit_bytes: unit_bytes.filter(|bytes| *bytes > 0),
        capacity_bytes: memory["capacity_bytes"].as_u64(),
        bus_bytes,
        bank_map: address_map(entries).as_ref().map(BankMap::from),
        ..no_report
    }
}

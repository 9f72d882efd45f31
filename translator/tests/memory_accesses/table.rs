//! The table of all memory instructions.

use std::fmt::Write;
use std::path::Path;

use hmtt_format::Direction;
use hmtt_translator::memory_accesses::{Condition, Mask, MemoryAccess, Order, memory_accesses};

use super::forms;

/// What is done with memory, as in `read 8, write 8`.
fn description(accesses: &[MemoryAccess]) -> String {
    // Which components there are depends on the processor.
    let is_component = |access: &&MemoryAccess| {
        matches!(access.condition, Condition::Lanes(lanes)
            if matches!(lanes.mask, Some(Mask::Flags { first_bit: 2.., .. })))
    };
    let each = accesses.iter().filter(|access| !is_component(access)).map(|access| {
        let direction = match access.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        };
        let size = match access.size {
            0 => "?".to_string(),
            size => size.to_string(),
        };
        let condition = match access.condition {
            Condition::Always => String::new(),
            Condition::Repeated => " for each of rcx".into(),
            Condition::Lanes(lanes) => {
                let place = match lanes.order {
                    Order::Apart => "",
                    Order::Packed => " packed",
                    Order::Compacted { .. } => "",
                    Order::Indexed { bytes: 4 } => " at indexes of 4",
                    Order::Indexed { .. } => " at indexes of 8",
                };
                let lane_count = if lanes.lanes == lanes.elements {
                    String::new()
                } else {
                    format!(" of {} lanes", lanes.lanes)
                };
                let masked = if lanes.mask.is_some() { " by mask" } else { "" };
                match lanes.mask {
                    Some(Mask::Flags { first_bit, .. }) if lanes.lanes == 1 => {
                        format!(" by bit {first_bit} of eax")
                    }
                    Some(Mask::Flags { .. }) => " by bits 1 and 2 of eax".into(),
                    _ => format!(" x{}{lane_count}{place}{masked}", lanes.elements),
                }
            }
        };
        let uncertain = if access.is_uncertain { " ?" } else { "" };
        format!("{direction} {size}{condition}{uncertain}")
    });
    let text = each.collect::<Vec<_>>().join(", ");
    let has_mask = |access: &MemoryAccess| {
        matches!(access.condition, Condition::Lanes(lanes)
            if matches!(lanes.mask, Some(Mask::Flags { .. })))
    };
    if accesses.iter().any(has_mask) { text + ", other components by bits of eax" } else { text }
}

/// A line for each instruction: what it does with memory, and what it does so under a mask if that
/// differs.
fn table() -> String {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for form in forms::all() {
        let name = form.instruction.op_code().instruction_string().to_string();
        let is_variant = form.name() != name;
        let mut text = description(&memory_accesses(&form.instruction));
        if form.instruction.is_broadcast() {
            text += " (broadcast)";
        }
        match rows.last_mut().filter(|(last, _)| *last == name && is_variant) {
            Some((_, descriptions)) if descriptions.contains(&text) => {}
            Some((_, descriptions)) => descriptions.push(text),
            None => rows.push((name, vec![text])),
        }
    }
    let mut table = String::new();
    for (name, descriptions) in rows {
        let _ = writeln!(table, "{name}: {}", descriptions.join("; "));
    }
    table
}

#[test]
fn all_memory_instructions_are_in_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memory_accesses/table.txt");
    let table = table();
    if std::env::var_os("UPDATE_TABLES").is_some() {
        std::fs::write(&path, &table).expect("the table can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = table.lines().zip(expected.lines()).find(|(now, before)| now != before);
    assert_eq!(differs, None, "with UPDATE_TABLES=1 the test updates {}", path.display());
    assert_eq!(table.lines().count(), expected.lines().count(), "{}", path.display());
}

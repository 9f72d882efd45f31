//! Redirects direct calls of tagged functions to their stubs, which saves the jump at the
//! function's entry: the instruction `call f` becomes `call f's stub`.
//!
//! The jump at the entry stays, for calls that reach the function in another way.

use std::collections::HashMap;
use std::ops::Range;

use super::changed_function::ChangedFunction;
use crate::address::FileAddr;
use crate::disassembly::Call;

/// Bytes of the distance in a call instruction.
const DISTANCE_BYTES: u64 = 4;
/// Maximum number of calls that are redirected in a file. All further calls reach the stub through
/// the jump.
const MOST: usize = 1 << 20;

/// Adds to each function's changes the direct calls that lead to it. Calls that are moved into
/// stubs themselves are left out.
pub(super) fn redirect(calls: &[Call], changed: &mut [ChangedFunction]) {
    let overwritten = overwritten_ranges(changed);
    let numbers: HashMap<u64, usize> = changed
        .iter()
        .enumerate()
        .map(|(number, changed_function)| (changed_function.function.start, number))
        .collect();
    for Call { next, target } in calls.iter().take(MOST) {
        let next = FileAddr(*next);
        let place = next - DISTANCE_BYTES;
        let Some(number) = numbers.get(target) else { continue };
        let behind = overwritten.partition_point(|range| range.start < next);
        if behind.checked_sub(1).is_some_and(|before| overwritten[before].end >= place) {
            continue;
        }
        let changes = &mut changed[*number].changes;
        let distance = changes.entry.wrapping_offset_from(next) as u32;
        changes.edits.push((place, distance.to_le_bytes().into()));
    }
}

/// Address ranges that are overwritten or no longer executed, ascending.
fn overwritten_ranges(changed: &[ChangedFunction]) -> Vec<Range<FileAddr>> {
    let changes = || changed.iter().map(|function| &function.changes);
    let regions = changes().flat_map(|change| &change.regions).map(|(start, end)| *start..*end);
    let edits = changes().flat_map(|change| &change.edits);
    let edits = edits.map(|(start, bytes)| *start..*start + bytes.len() as u64);
    let mut ranges: Vec<Range<FileAddr>> = regions.chain(edits).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<FileAddr>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

//! Finds unused ranges of addresses in a process.

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::Mapping;

/// Distance between candidates, and their alignment, in bytes.
const STEP: u64 = 16 << 20;
/// Least distance to other mappings, in bytes. Heap and stacks grow.
const MARGIN: u64 = 1 << 20;
/// End of the addresses that a program can use.
const END: u64 = 0x7fff_ffff_f000;

/// Whether the range and its surroundings up to [`MARGIN`] are free of mappings, and the range is
/// within the usable addresses.
fn is_free(mapped: &[Mapping], start: u64, bytes: u64) -> bool {
    let Some(end) = start.checked_add(bytes).filter(|end| *end <= END) else { return false };
    start >= STEP
        && mapped.iter().all(|mapping| {
            mapping.end.0.saturating_add(MARGIN) <= start
                || end.saturating_add(MARGIN) <= mapping.start.0
        })
}

/// The highest unused range of `bytes` bytes that ends at or below `top` and begins at or above
/// `bottom`. If nothing is mapped, a range of 16 MiB below 64 MiB begins at 48 MiB.
pub fn below(mapped: &[Mapping], top: u64, bottom: u64, bytes: u64) -> Option<RunAddr> {
    let first = top.checked_sub(bytes)? / STEP * STEP;
    let candidates = (bottom..=first).rev().step_by(STEP as usize);
    candidates
        .map(|start| start / STEP * STEP)
        .find(|start| is_free(mapped, *start, bytes))
        .map(RunAddr)
}

/// The lowest unused range of `bytes` bytes that begins at or above `bottom` and ends at or below
/// `top`.
pub fn above(mapped: &[Mapping], bottom: u64, top: u64, bytes: u64) -> Option<RunAddr> {
    let last = top.checked_sub(bytes)?;
    let candidates = (bottom.next_multiple_of(STEP)..=last).step_by(STEP as usize);
    candidates.into_iter().find(|start| is_free(mapped, *start, bytes)).map(RunAddr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64) -> Mapping {
        Mapping {
            start: RunAddr(start),
            end: RunAddr(end),
            readable: true,
            writable: false,
            executable: true,
            shared: false,
            offset: 0,
            file: None,
            path: "".into(),
        }
    }

    #[test]
    fn ranges_keep_their_distance_from_mappings() {
        let mapped = [mapping(8 * STEP, 8 * STEP + 4096), mapping(12 * STEP, 12 * STEP + 4096)];
        assert_eq!(below(&mapped, 8 * STEP, STEP, STEP), Some(RunAddr(6 * STEP)));
        assert_eq!(above(&mapped, 8 * STEP, 20 * STEP, 2 * STEP), Some(RunAddr(9 * STEP)));
        assert_eq!(above(&mapped, 8 * STEP, 20 * STEP, 4 * STEP), Some(RunAddr(13 * STEP)));
        assert_eq!(above(&mapped, 8 * STEP, 14 * STEP, 4 * STEP), None);
        assert_eq!(below(&mapped, 8 * STEP, 7 * STEP, STEP), None);
    }
}

//! Computes what each mode must report from a recording's accesses, with simple code.

use hmtt_format::{Access, Direction};

/// Largest distance in clocks between the first burst of a line and another burst of the same
/// record.
const MERGE_WINDOW: u64 = 64;

/// Returns the accessed lines as `clock R|W address`: consecutive bursts of one 64-byte line are
/// merged, each burst at most once.
pub fn lines(accesses: &[Access], burst_bytes: u64) -> Vec<String> {
    let mut merged: Vec<(Access, u64)> = Vec::new();
    for access in accesses {
        let line = access.address.0 / 64;
        let burst = 1 << (access.address.0 % 64 / burst_bytes);
        match merged.last_mut() {
            Some((first, bursts))
                if first.direction == access.direction
                    && first.address.0 / 64 == line
                    && *bursts & burst == 0
                    && access.clock.0 - first.clock.0 <= MERGE_WINDOW =>
            {
                *bursts |= burst;
            }
            _ => merged.push((*access, burst)),
        }
    }
    let text = |access: &Access| {
        let (clock, letter) = (access.clock, access.direction.letter());
        format!("{clock} {letter} {:x}", access.address.0 / 64 * 64)
    };
    merged.iter().map(|(access, _)| text(access)).collect()
}

/// Returns the runs of accesses to one 4 KiB page, as `clock P address reads writes duration`.
pub fn pages(accesses: &[Access]) -> Vec<String> {
    let mut runs: Vec<(u64, u64, u64, u64, u64)> = Vec::new();
    for access in accesses {
        let (clock, page) = (access.clock.0, access.address.0 / 4096 * 4096);
        let cut = |first: u64| clock - first >= 1 << 24;
        if runs.last().is_none_or(|run| run.1 != page || cut(run.0)) {
            runs.push((clock, page, 0, 0, 0));
        }
        let run = runs.last_mut().expect("one was just pushed");
        match access.direction {
            Direction::Read => run.2 += 1,
            Direction::Write => run.3 += 1,
        }
        run.4 = clock - run.0;
    }
    let text = |(clock, page, reads, writes, duration): &(u64, u64, u64, u64, u64)| {
        format!("{clock} P {page:x} {reads} {writes} {duration}")
    };
    runs.iter().map(text).collect()
}

/// Counts reads and writes in each slice of `length` clocks that is not empty: (first clock, reads,
/// writes).
pub fn slices(accesses: &[Access], length: u64) -> Vec<(u64, u64, u64)> {
    let mut slices: Vec<(u64, u64, u64)> = Vec::new();
    for access in accesses {
        let start = access.clock.0 / length * length;
        if slices.last().is_none_or(|slice| slice.0 != start) {
            slices.push((start, 0, 0));
        }
        let slice = slices.last_mut().expect("one was just pushed");
        match access.direction {
            Direction::Read => slice.1 += 1,
            Direction::Write => slice.2 += 1,
        }
    }
    slices
}

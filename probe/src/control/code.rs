//! Enumerates code of mapped files that is to be searched: each part of a file once, limited by a
//! budget.
//!
//! A program can map one file a thousand times, and can map sparse files of terabytes. So each part
//! of a file is searched only at the first address where it is mapped, and the holes of large
//! sparse files are skipped. Code that a program has written over a hole, or over another mapping
//! of the same part, is not found.
//!
//! For example, if offsets 0 to 8 KiB of a file are mapped at address A, and offsets 4 to 12 KiB at
//! address B, the parts are 0 to 8 KiB at A and 8 to 12 KiB at B + 4 KiB.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use rustix::fs::SeekFrom;

use crate::address::RunAddr;
use crate::ptrace::{FileId, Mapping, ReadMemory, open_mapped};
use crate::ranges::Ranges;

/// Maximum number of bytes that are searched. The largest programs have some GiB of code, and
/// searching 1 GiB takes half a second.
pub(super) const BUDGET: u64 = 4 << 30;
/// Ranges that are larger than `LARGE` bytes are checked for holes; holes of at least `HOLE` bytes
/// are skipped.
const LARGE: u64 = 16 << 20;
const HOLE: u64 = 1 << 20;

/// A part of a file in memory.
#[derive(Clone, Debug)]
pub(super) struct Part<'m> {
    pub mapping: &'m Mapping,
    /// Addresses of the part.
    pub range: Range<RunAddr>,
}

impl Part<'_> {
    /// Offset in the file of an address in the part.
    pub fn offset(&self, address: RunAddr) -> u64 {
        self.mapping.offset + (address - self.mapping.start)
    }
}

/// Returns the parts of files in those wanted mappings that are executable, by address, and whether
/// the budget was enough for all parts. `mapped`: all mappings of the process. `unopened`: whether
/// large files that cannot be opened, whose holes are not known, are searched too.
pub(super) fn parts<'m>(
    memory: &impl ReadMemory,
    mapped: &[Mapping],
    wanted: impl Iterator<Item = &'m Mapping>,
    unopened: bool,
) -> (Vec<Part<'m>>, bool) {
    let mut seen: HashMap<(FileId, &Path), Ranges> = HashMap::new();
    let (mut parts, mut left) = (Vec::new(), BUDGET);
    for mapping in wanted.filter(|mapping| mapping.executable) {
        let Some(file) = mapping.file else { continue };
        let end = mapping.offset.saturating_add(mapping.end - mapping.start);
        let seen = seen.entry((file, &mapping.path)).or_default();
        for offsets in seen.add(mapping.offset..end) {
            let data = if offsets.end - offsets.start > LARGE {
                data(memory, mapping, mapped, &offsets, left)
            } else {
                Some(vec![offsets.clone()])
            };
            let data = data.or_else(|| unopened.then(|| vec![offsets])).unwrap_or_default();
            for offsets in data {
                let bytes = offsets.end - offsets.start;
                let start = mapping.start + (offsets.start - mapping.offset);
                let length = bytes.min(left);
                parts.push(Part { mapping, range: start..start + length });
                left -= length;
                if length < bytes {
                    return (parts, false);
                }
            }
        }
    }
    (parts, true)
}

/// Ranges of a file within `offsets` that hold data, as far as its file system reports holes.
/// `None` if the file cannot be opened.
fn data(
    memory: &impl ReadMemory,
    mapping: &Mapping,
    mapped: &[Mapping],
    offsets: &Range<u64>,
    most: u64,
) -> Option<Vec<Range<u64>>> {
    let read = |address, bytes: &mut [u8]| memory.read(address, bytes).is_ok();
    let file = open_mapped(memory.pid(), mapping, mapped, read).ok()?;
    Some(data_of(&file, offsets, most))
}

fn data_of(file: &File, offsets: &Range<u64>, most: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let (mut at, mut bytes) = (offsets.start, 0);
    // The list goes one byte beyond the budget, so that the caller notices that data is left out.
    while at < offsets.end && bytes <= most {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.max(at),
            // The rest is a hole.
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => offsets.start,
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(offsets.end);
        let end = end.min(offsets.end);
        if start >= end {
            break;
        }
        bytes += end - start;
        match ranges.last_mut() {
            Some(last) if start.saturating_sub(last.end) < HOLE => last.end = end,
            _ => ranges.push(start..end),
        }
        at = end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom as To, Write};

    use nix::unistd::Pid;

    use super::*;
    use crate::ptrace::RunningMemory;

    fn mapping(start: u64, bytes: u64, offset: u64, inode: u64) -> Mapping {
        let file = Some(FileId { device: (1, 1), inode });
        let (writable, executable, shared) = (false, true, false);
        let (start, path) = (RunAddr(start), "/no/such/file".into());
        let end = start + bytes;
        Mapping { readable: true, start, end, writable, executable, shared, offset, file, path }
    }

    #[test]
    fn a_file_that_is_mapped_thousands_of_times_is_searched_once_and_no_more_than_a_budget() {
        let memory = RunningMemory::open(Pid::this()).unwrap();
        const BYTES: u64 = 64 << 20;
        let same: Vec<Mapping> =
            (1..4096).map(|n| mapping(n << 32, BYTES, n % 2 * BYTES / 2, 7)).collect();
        let (parts, is_all) = super::parts(&memory, &same, same.iter(), true);
        let bytes: u64 = parts.iter().map(|part| part.range.end - part.range.start).sum();
        assert_eq!((bytes, is_all), (BYTES / 2 * 3, true));
        let others: Vec<Mapping> = (1..4096).map(|n| mapping(n << 32, BYTES, 0, n)).collect();
        let (parts, is_all) = super::parts(&memory, &others, others.iter(), true);
        let bytes: u64 = parts.iter().map(|part| part.range.end - part.range.start).sum();
        assert_eq!((bytes, is_all), (BUDGET, false));
        assert!(super::parts(&memory, &others, others.iter(), false).0.is_empty());
    }

    #[test]
    fn holes_are_not_searched() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        for at in [100 << 20, 200 << 20] {
            file.seek(To::Start(at)).unwrap();
            file.write_all(&[1]).unwrap();
        }
        let data = data_of(&file, &(0..1 << 40), BUDGET);
        // A file system without sparse files reports data everywhere.
        if data.len() > 1 {
            let bytes: u64 = data.iter().map(|range| range.end - range.start).sum();
            assert!(data.len() == 2 && bytes <= 2 << 20, "{data:?}");
        }
    }
}

//! Compares a file's code with the code in a process's memory.
//!
//! Moved instructions are copied from the file, and the file's bytes are restored at the end. If
//! the memory differs from the file, because the program has patched its own code or a debugger has
//! set breakpoints, the program would execute other instructions than before and lose its patch. So
//! functions with differing bytes are not tagged ([`crate::disassembly::Refusal::Differs`]). Bytes
//! that tags have changed do not count as different.

use std::ops::Range;

use super::edits::Edit;
use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::elf::{Image, Text};
use crate::stubs::layout::PAGE_BYTES;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;
/// Maximum number of differing ranges that are reported exactly. Further differences are reported
/// as whole pages, so that a hostile process cannot make the list much larger than its code.
const MOST: usize = 1 << 16;

/// Address ranges of a file's code that differ in memory or cannot be read, ascending. The
/// addresses are addresses of the file.
///
/// `within`: the address range in memory that is compared. `ours`: edits that tags have made.
/// `read`: reads memory; returns whether all bytes could be read.
pub(super) fn differences<'a>(
    image: &Image,
    bias: LoadBias,
    within: &Range<RunAddr>,
    ours: impl Iterator<Item = &'a Edit>,
    read: impl Fn(RunAddr, &mut [u8]) -> bool,
) -> Vec<Range<u64>> {
    let mut ours: Vec<&Edit> = ours.filter(|edit| within.contains(&edit.address)).collect();
    ours.sort_unstable_by_key(|edit| edit.address);
    let without_ours = |there: RunAddr, memory: &mut [u8]| {
        let first = ours.partition_point(|edit| edit.address < there.saturating_sub(PAGE_BYTES));
        let end = there.saturating_add(memory.len() as u64);
        let near = ours[first..].iter().take_while(|edit| edit.address < end);
        near.for_each(|edit| edit.undo_in(there, memory));
    };
    let mut differences = DifferingRanges(Vec::new());
    let mut memory = Vec::new();
    for Text { start, bytes, .. } in &image.text {
        for (number, chunk) in bytes.chunks(CHUNK).enumerate() {
            let first = start + (number * CHUNK) as u64;
            let there = bias.to_run(FileAddr(first));
            if there >= within.end || there + chunk.len() as u64 <= within.start {
                continue;
            }
            memory.resize(chunk.len(), 0);
            if read(there, &mut memory) {
                without_ours(there, &mut memory);
                differences.add(first, chunk, &memory);
                continue;
            }
            let pages =
                chunk.chunks(PAGE_BYTES as usize).zip((first..).step_by(PAGE_BYTES as usize));
            for (page, first) in pages {
                let memory = &mut memory[..page.len()];
                let there = bias.to_run(FileAddr(first));
                if read(there, memory) {
                    without_ours(there, memory);
                    differences.add(first, page, memory);
                } else {
                    differences.push(first..first + page.len() as u64);
                }
            }
        }
    }
    differences.0
}

/// Ascending ranges, none of which touches its neighbour.
struct DifferingRanges(Vec<Range<u64>>);

impl DifferingRanges {
    fn push(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.0.push(range),
        }
    }

    /// Adds the ranges in which two byte strings differ. The strings have the same length and begin
    /// at address `first`.
    fn add(&mut self, first: u64, file: &[u8], memory: &[u8]) {
        if file == memory {
            return;
        }
        let page = PAGE_BYTES as usize;
        let pages = file.chunks(page).zip(memory.chunks(page)).zip((first..).step_by(page));
        for ((file, memory), first) in pages.filter(|((file, memory), _)| file != memory) {
            if self.0.len() >= MOST {
                self.push(first..first + file.len() as u64);
                continue;
            }
            let bytes = file.iter().zip(memory).zip(first..);
            bytes
                .filter(|((file, memory), _)| file != memory)
                .for_each(|(_, at)| self.push(at..at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::loaded::ALL;
    use super::*;
    use crate::stubs::InlineBytes;

    const BIAS: LoadBias = LoadBias::new(0x1000_0000);

    /// An image with three pages and some bytes of code, and the same code as memory.
    fn image() -> (Image, Vec<u8>) {
        let program = std::fs::read("/proc/self/exe").unwrap();
        let mut image = Image::parse(&program, Path::new("program")).unwrap();
        let bytes: Vec<u8> = (0..3 * PAGE_BYTES + 100).map(|at| (at % 251) as u8).collect();
        image.text = vec![Text { start: 0x4000, offset: 0x4000, bytes: bytes.clone() }];
        (image, bytes)
    }

    fn find(image: &Image, memory: &[u8], ours: &[Edit], hole: Range<u64>) -> Vec<Range<u64>> {
        let read = |address: RunAddr, bytes: &mut [u8]| {
            let at = (BIAS.to_file(address) - FileAddr(0x4000)) as usize;
            let end = at + bytes.len();
            let is_there = hole.is_empty() || end as u64 <= hole.start || hole.end <= at as u64;
            if is_there {
                bytes.copy_from_slice(&memory[at..end]);
            }
            is_there
        };
        differences(image, BIAS, &ALL, ours.iter(), read)
    }

    #[test]
    fn differing_bytes_are_found_and_ours_are_not() {
        let (image, mut memory) = image();
        assert_eq!(find(&image, &memory, &[], 0..0), []);
        let ours = Edit::new(
            BIAS.to_run(FileAddr(0x4010)),
            InlineBytes::from_slice(&memory[0x10..0x15]).unwrap(),
            [9; 5].into(),
            true,
        );
        memory[0x10..0x15].fill(9);
        assert_eq!(find(&image, &memory, std::slice::from_ref(&ours), 0..0), []);
        memory[0xffe..0x1002].fill(0xcc);
        memory[0x3050] = 0xcc;
        let expected = [0x4ffe..0x5002, 0x7050..0x7051];
        assert_eq!(find(&image, &memory, std::slice::from_ref(&ours), 0..0), expected);
        // A jump that the program has overwritten counts as different.
        memory[0x12] = 7;
        let differences = find(&image, &memory, std::slice::from_ref(&ours), 0..0);
        assert_eq!(differences[0], 0x4010..0x4015);
    }

    #[test]
    fn unmapped_code_differs() {
        let (image, memory) = image();
        let differences = find(&image, &memory, &[], 0x1000..0x2000);
        assert!(differences.iter().eq(&Some(0x5000..0x6000)), "{differences:x?}");
    }

    #[test]
    fn many_differences_are_reported_as_whole_pages() {
        let (mut image, _) = image();
        let pages = 2 * MOST / 4096 * 2 + 8;
        let bytes = vec![0; pages * 4096];
        image.text[0].bytes = bytes.clone();
        let every_other: Vec<u8> = (0..bytes.len()).map(|at| (at % 2) as u8).collect();
        let differences = find(&image, &every_other, &[], 0..0);
        assert!(differences.len() <= MOST + 4096, "{}", differences.len());
        assert_eq!(differences.last().unwrap().end, 0x4000 + bytes.len() as u64);
    }
}

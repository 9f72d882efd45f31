//! Reads from the shared memory which places were overwritten and which memory was added, and keeps
//! the records that are true.
//!
//! The memory may be forged: the process can map any file with such a name and write anything to
//! it. So each file is read once, however often it is mapped. Records are read in blocks, up to the
//! first record that was never written; the size of the process's code limits their number. The
//! code is read in address order, for many records at a time. So the time is linear in what the
//! process has mapped, and the memory is linear in the number of true records.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use super::super::TagError;
use super::super::areas::{COOKIE_BYTES, can_be, ending};
use super::super::shared::backing::is_tag_memory;
use crate::address::RunAddr;
use crate::ptrace::{FileId, Mapping, ReadMemory};
use crate::stubs::layout::{MAGIC, OVERWRITTEN_BYTES, PAGE_BYTES, PATCH_BYTES, VERSION, header};

/// Bytes of the header that are read.
const HEADER_BYTES: usize = 256;
/// Bytes of records that are read at once.
const BLOCK_BYTES: u64 = 1 << 16;
/// Records whose places are checked together.
const TOGETHER: usize = 1 << 18;
/// Maximum number of records that are read: for each byte of code, and in addition. A tag
/// overwrites at least two bytes, but memory of earlier tags may be mapped as well.
const RECORDS_PER_BYTE: u64 = 1;
const RECORDS: u64 = 1 << 12;

/// A place that a jump has overwritten, with the original bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub address: RunAddr,
    pub original: Vec<u8>,
}

/// A record of a place. It may be false.
struct Claim {
    address: RunAddr,
    length: usize,
    original: [u8; OVERWRITTEN_BYTES],
    new: [u8; OVERWRITTEN_BYTES],
}

/// Records of the tags in a process.
pub struct Records {
    /// Places that are still overwritten, in the order in which they were overwritten.
    pub places: Vec<Place>,
    /// Memory areas that hold stubs.
    pub areas: Vec<Range<RunAddr>>,
    /// Memory that was shared with the controller.
    pub shared: Vec<Range<RunAddr>>,
}

/// Reads the records of a process.
struct Reader<'a, M> {
    memory: &'a M,
    mapped: &'a [Mapping],
    /// Address ranges of mapped code of files, ascending.
    text: Vec<Range<RunAddr>>,
    /// Number of records that may still be read.
    remaining: u64,
    /// Records whose places are not checked yet.
    claims: Vec<Claim>,
    places: Vec<Place>,
    /// The addresses of all `places`.
    found: HashSet<RunAddr>,
    areas: Vec<Range<RunAddr>>,
}

impl Records {
    /// Reads the records of a process. `mapped`: all mappings of the process.
    ///
    /// # Errors
    /// [`TagError::Ptrace`]: the end of an area cannot be read.
    pub fn read(memory: &impl ReadMemory, mapped: &[Mapping]) -> Result<Self, TagError> {
        // Tags are only put into private mappings of files.
        let text = mapped
            .iter()
            .filter(|mapping| mapping.executable && !mapping.shared && mapping.file.is_some());
        let text: Vec<Range<RunAddr>> = text.map(|mapping| mapping.start..mapping.end).collect();
        let bytes: u64 = text.iter().map(|range| range.end - range.start).sum();
        let remaining = bytes.saturating_mul(RECORDS_PER_BYTE).saturating_add(RECORDS);
        let (claims, places, addresses, areas) = Default::default();
        let mut reader =
            Reader { memory, mapped, text, remaining, claims, places, found: addresses, areas };
        let mut seen = BTreeSet::<Option<FileId>>::new();
        let mut shared = Vec::new();
        let ours =
            mapped.iter().filter(|mapping| is_tag_memory(&mapping.path) && mapping.offset == 0);
        for mapping in ours.filter(|mapping| mapping.shared) {
            if reader.read(mapping, seen.insert(mapping.file))? {
                shared.push(mapping.start..mapping.end);
            }
        }
        reader.check_claims();
        let places = std::mem::take(&mut reader.places);
        Ok(Records { places, areas: reader.areas(), shared })
    }
}

impl<M: ReadMemory> Reader<'_, M> {
    /// Reads the records in a mapping. They are skipped if the mapping's file was read already.
    /// Returns whether the mapping is memory of tags.
    fn read(&mut self, mapping: &Mapping, is_new: bool) -> Result<bool, TagError> {
        let mut bytes = [0; HEADER_BYTES];
        // A file whose size is not set yet has no header.
        if self.memory.read(mapping.start, &mut bytes).is_err() {
            return Ok(true);
        }
        let long = |at: u64| {
            let bytes = bytes.get(at as usize..at as usize + 8);
            bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let version = long(header::VERSION) as u32;
        let is_empty = long(header::MAGIC) == 0;
        if !is_empty && (long(header::MAGIC) != MAGIC || version != VERSION) {
            return Ok(false);
        }
        if is_new && !is_empty {
            let first = mapping.start.saturating_add(long(header::PATCHES_AT));
            let capacity = mapping.end.offset_from(first).unwrap_or(0) / PATCH_BYTES;
            let count = long(header::PATCHES).min(capacity);
            self.records(first, count, long(header::COOKIE))?;
        }
        Ok(true)
    }

    /// Reads `count` records.
    fn records(&mut self, first: RunAddr, count: u64, cookie: u64) -> Result<(), TagError> {
        let count = count.min(self.remaining);
        let per_block = BLOCK_BYTES / PATCH_BYTES;
        for block in (0..count).step_by(per_block as usize) {
            let records = per_block.min(count - block);
            let mut bytes = vec![0; (records * PATCH_BYTES) as usize];
            // A block that cannot be read ends the records.
            if self.memory.read(first + block * PATCH_BYTES, &mut bytes).is_err() {
                return Ok(());
            }
            self.remaining -= records;
            for record in bytes.as_chunks::<{ PATCH_BYTES as usize }>().0 {
                // A record is written before it is counted, and is never all zeros. So zeros end
                // the records.
                if *record == [0; PATCH_BYTES as usize] {
                    return Ok(());
                }
                self.record(record, cookie)?;
            }
            if self.claims.len() >= TOGETHER {
                self.check_claims();
            }
        }
        Ok(())
    }

    fn record(&mut self, record: &[u8; PATCH_BYTES as usize], cookie: u64) -> Result<(), TagError> {
        let (words, _) = record.as_chunks::<8>();
        let [address, length, ..] = [0, 1].map(|at| u64::from_le_bytes(words[at]));
        let (address, original, new) = (RunAddr(address), words[2], words[3]);
        match length as usize {
            0 if length == 0 => self.area(address, u64::from_le_bytes(original), cookie),
            length @ 1..=OVERWRITTEN_BYTES if self.is_text(address, length) => {
                self.claims.push(Claim { address, length, original, new });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether code of a file is at an address.
    fn is_text(&self, address: RunAddr, length: usize) -> bool {
        let next = self.text.partition_point(|range| range.start <= address);
        let Some(end) = address.checked_add(length as u64) else { return false };
        next.checked_sub(1).is_some_and(|at| end <= self.text[at].end)
    }

    /// Keeps an area if it really was added for stubs: it is anonymous memory with the cookie at
    /// its end, or with zeros in its first and last page.
    fn area(&mut self, start: RunAddr, bytes: u64, cookie: u64) -> Result<(), TagError> {
        let is_whole = [start.0, bytes].iter().all(|number| number.is_multiple_of(PAGE_BYTES));
        let end = start.checked_add(bytes).filter(|_| is_whole && bytes != 0);
        let Some(area) = end.map(|end| start..end) else { return Ok(()) };
        let next = self.mapped.partition_point(|mapping| mapping.start <= start);
        let mapping = next.checked_sub(1).map(|at| &self.mapped[at]);
        if !mapping.is_some_and(|one| can_be(one, &area)) {
            return Ok(());
        }
        let mut last = [0; COOKIE_BYTES as usize];
        self.memory.read(area.end - COOKIE_BYTES, &mut last)?;
        let is_empty = || {
            [area.start, area.end - PAGE_BYTES].iter().all(|at| {
                let mut page = [1; PAGE_BYTES as usize];
                self.memory.read(*at, &mut page).is_ok() && page.iter().all(|byte| *byte == 0)
            })
        };
        if last == ending(cookie) || is_empty() {
            self.areas.push(area);
        }
        Ok(())
    }

    /// Returns the areas. An area that overlaps another is left out.
    fn areas(mut self) -> Vec<Range<RunAddr>> {
        self.areas.sort_by_key(|area| (area.start, area.end));
        let mut end = RunAddr(0);
        self.areas.retain(|area| {
            let is_apart = area.start >= end;
            end = end.max(area.end);
            is_apart
        });
        self.areas
    }

    /// Keeps the places whose memory agrees with their records, in the order of the records.
    fn check_claims(&mut self) {
        let claims = std::mem::take(&mut self.claims);
        let mut order: Vec<usize> = (0..claims.len()).collect();
        order.sort_by_key(|at| claims[*at].address);
        let mut there = Vec::new();
        let mut block = Block { start: RunAddr(0), bytes: Vec::new() };
        for at in order {
            let claim = &claims[at];
            if block.get(claim).is_none() {
                block = self.block(claim.address);
            }
            if block.get(claim).is_some_and(|bytes| claim.is_there(bytes)) {
                there.push(at);
            }
        }
        there.sort_unstable();
        for claim in there.into_iter().map(|at| &claims[at]) {
            if self.found.insert(claim.address) {
                let original = claim.original[..claim.length].to_vec();
                self.places.push(Place { address: claim.address, original });
            }
        }
    }

    /// Reads code from an address on, up to a page within one mapping.
    fn block(&self, start: RunAddr) -> Block {
        let next = self.text.partition_point(|range| range.start <= start);
        let end = next.checked_sub(1).map_or(start, |at| self.text[at].end);
        let mut bytes = vec![0; end.offset_from(start).unwrap_or(0).min(PAGE_BYTES) as usize];
        // A page of a truncated file has no contents.
        if self.memory.read(start, &mut bytes).is_err() {
            bytes.fill(0);
        }
        Block { start, bytes }
    }
}

/// A piece of the process's code.
struct Block {
    start: RunAddr,
    bytes: Vec<u8>,
}

impl Block {
    fn get(&self, claim: &Claim) -> Option<&[u8]> {
        let at = claim.address.offset_from(self.start)? as usize;
        self.bytes.get(at..at.checked_add(claim.length)?)
    }
}

impl Claim {
    /// Whether the code holds the recorded jump, or a part of it: the controller may have been
    /// killed while it wrote the jump.
    fn is_there(&self, there: &[u8]) -> bool {
        let mut bytes = there.iter().zip(&self.new).zip(&self.original);
        *there != self.original[..self.length]
            && bytes.all(|((there, new), old)| there == new || there == old)
    }
}

#[cfg(test)]
mod tests;
